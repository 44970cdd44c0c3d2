"""What clients without this package execute: a randomizer as whole numbers, which the campaign carries.

A recipe has a ``kind``, how its messages are drawn, the ``bytes`` of a message, and the numbers of that kind, as
decimal texts: chances are out of 2^64, shapes and rates of noise are fractions. Numbers of an interval are first moved
to ``range``; ``signed`` says that they are then rounded to a multiple of 2^-52, in place of 2^-53 of the range. The law
is the mechanism's own, to the last bit. Mechanisms without a recipe are not for such clients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from shuffledp.mechanisms.frequency.krr import KRR
from shuffledp.mechanisms.frequency.local_hash import LocalHash
from shuffledp.mechanisms.frequency.oue import OUE
from shuffledp.mechanisms.frequency.rappor import RAPPOR
from shuffledp.mechanisms.frequency.subset import Subset
from shuffledp.mechanisms.mean.piecewise import Piecewise
from shuffledp.mechanisms.mean.split_and_mix import SplitAndMix
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.metric.witch_hat import WitchHat
from shuffledp.mechanisms.multimessage.cancelling_noise import CancellingNoise
from shuffledp.mechanisms.multimessage.mix_dump import MixDUMP
from shuffledp.mechanisms.multimessage.pure_dump import PureDUMP
from shuffledp.mechanisms.vector.duchi import Duchi
from shuffledp.planner.plan_file import Plan
from shuffledp.sampling.random import WORD

Recipe = dict[str, Any]
TASKS = ("frequency", "mean", "sum", "count")
MOST_WEIGHTS = 1 << 12
"""A hat with more of them is not for a document."""
MOST_OPTIONS = 1 << 20
"""Of a row of bits."""


def recipe_of(plan: Plan) -> Recipe:
    """What clients of the plan execute; empty where only this package can."""
    making = RECIPES.get(type(plan.mechanism))
    if making is None or plan.task.name not in TASKS:
        return {}
    found = making(plan.mechanism)
    if not found:
        return {}
    numeric = {} if plan.task.name == "frequency" else {"range": list(plan.mechanism.value_range)}
    return {"bytes": plan.mechanism.message_bytes, **numeric, **found}


def _chance(probability: Fraction) -> str:
    """Out of 2^64."""
    threshold = probability * WORD
    assert threshold.denominator == 1, "chances are multiples of 2^-64"
    return str(threshold.numerator)


def _ratio(number: Fraction | float) -> list[str]:
    found = Fraction(number)
    return [str(found.numerator), str(found.denominator)]


def _option(uniform: Fraction, options: int, dummies: int = 0, filled: Fraction = Fraction(1)) -> Recipe:
    return {"kind": "option", "options": str(options), "uniform": _chance(uniform), "dummies": str(dummies),
            "filled": _chance(filled)}  # fmt: skip


def _krr(mechanism: KRR) -> Recipe:
    return _option(mechanism.region.uniform_share, mechanism.options)


def _pure_dump(mechanism: PureDUMP) -> Recipe:
    return _option(Fraction(0), mechanism.options, mechanism.dummies, mechanism.uniform.filled)


def _mix_dump(mechanism: MixDUMP) -> Recipe:
    return _option(mechanism.uniform_share, mechanism.options, mechanism.dummies, mechanism.uniform.filled)


def _duchi(mechanism: Duchi) -> Recipe:
    """One number is a sign, and a vector of signs is one of two options."""
    if mechanism.dimension != 1:
        return {}
    return _option(mechanism.region.uniform_share, 2) | {"grid": "1", "signed": True}


def _bits(mechanism: OUE | RAPPOR) -> Recipe:
    if mechanism.options > MOST_OPTIONS:
        return {}
    row = mechanism.row
    return {"kind": "bits", "options": str(row.options), "own": _chance(row.own), "other": _chance(row.other)}


def _hash(mechanism: LocalHash) -> Recipe:
    return {"kind": "hash", "messages": str(mechanism.hashed.messages), "length": str(mechanism.buckets),
            "uniform": _chance(mechanism.region.uniform_share)}  # fmt: skip


def _subset(mechanism: Subset) -> Recipe:
    if mechanism.options > MOST_OPTIONS:
        return {}
    width = max(1, (mechanism.options - 1).bit_length())
    return {"kind": "subset", "options": str(mechanism.options), "size": str(mechanism.subset_size),
            "width": str(width), "uniform": _chance(mechanism.region.uniform_share)}  # fmt: skip


def _window(mechanism: Piecewise) -> Recipe:
    return {"kind": "window", "grid": str(mechanism.grid), "size": str(mechanism.window),
            "uniform": _chance(mechanism.region.uniform_share), "signed": True}  # fmt: skip


def _hat(mechanism: WitchHat) -> Recipe:
    if mechanism.hat.reach > MOST_WEIGHTS:
        return {}
    return {"kind": "hat", "grid": str(mechanism.grid), "weights": [str(unit) for unit in mechanism.hat.units]}


def _shares(mechanism: SplitAndMix) -> Recipe:
    noise = {"shape": ["1", str(mechanism.honest)], "rate": _ratio(mechanism.rate)}
    return {"kind": "shares", "levels": str(mechanism.levels), "modulus": str(mechanism.modulus),
            "messages": str(mechanism.messages), "noise": noise}  # fmt: skip


def _signed(mechanism: CancellingNoise) -> Recipe:
    """The noise of all options together, of which everybody draws a share; none where the shuffler draws it."""
    told = {"kind": "signed", "options": str(mechanism.options), "places": str(mechanism.places or 1)}
    if mechanism.honest == 0:
        return told | {"noise": []}
    if not mechanism.places:
        return {}
    part = Fraction(mechanism.options, mechanism.honest)
    single = {"shape": _ratio(part), "rate": _ratio(mechanism.rate)}
    flood = {"shape": _ratio(part * Fraction(mechanism.shape)), "ratio": _ratio(mechanism.ratio)}
    return told | {"noise": [{"signs": ["0"], **single}, {"signs": ["1"], **single}, {"signs": ["0", "1"], **flood}]}


RECIPES: Mapping[type[Mechanism], Callable[[Any], Recipe]] = {
    KRR: _krr,
    PureDUMP: _pure_dump,
    MixDUMP: _mix_dump,
    Duchi: _duchi,
    OUE: _bits,
    RAPPOR: _bits,
    LocalHash: _hash,
    Subset: _subset,
    Piecewise: _window,
    WitchHat: _hat,
    SplitAndMix: _shares,
    CancellingNoise: _signed,
}
"""By the mechanism's class: the ones that plans choose most for frequencies, means, sums and yes or no."""
