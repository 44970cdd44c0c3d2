"""Recipes: mechanisms in whole numbers, which the browser's client interprets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.mechanisms.correlated_noise.counts_with_cancelling_noise import CancellingNoise
from shuffledp.mechanisms.correlated_noise.split_and_mix import SplitAndMix
from shuffledp.mechanisms.dummies.pure_and_mix_dump import MixDUMP, PureDUMP
from shuffledp.mechanisms.frequency.local_hash import LocalHash
from shuffledp.mechanisms.frequency.randomized_response import KRR
from shuffledp.mechanisms.frequency.subset_selection import Subset
from shuffledp.mechanisms.frequency.unary_encoding import OUE, RAPPOR
from shuffledp.mechanisms.mean.piecewise import Piecewise
from shuffledp.mechanisms.mean.witch_hat import WitchHat
from shuffledp.mechanisms.vector.duchi_and_harmony import Duchi
from shuffledp.planning.plan import Plan
from shuffledp.sampling.random_sources import WORD_RANGE

MechanismRecipe = dict[str, Any]
SUPPORTED_TASKS = ("frequency", "mean", "sum", "count")
MAX_WEIGHTS = 1 << 12
"""Maximum number of weights of a witch hat in a recipe."""
MAX_OPTIONS = 1 << 20
"""Maximum number of options of a bit vector or subset in a recipe."""


def build_recipe(plan: Plan) -> MechanismRecipe:
    """Returns the recipe of a plan's mechanism; empty if clients need this package."""
    builder = RECIPE_BUILDERS.get(type(plan.mechanism))
    if builder is None or plan.task.name not in SUPPORTED_TASKS:
        return {}
    recipe = builder(plan.mechanism)
    if not recipe:
        return {}
    value_range = {} if plan.task.name == "frequency" else {"range": list(plan.mechanism.value_range)}
    return {"bytes": plan.mechanism.message_bytes, **value_range, **recipe}


def _threshold(probability: Fraction) -> str:
    """Returns the probability in units of 2^-64."""
    threshold = probability * WORD_RANGE
    assert threshold.denominator == 1, "the mechanism's probabilities are multiples of 2^-64"
    return str(threshold.numerator)


def _fraction_strings(number: Fraction | float) -> list[str]:
    return list(map(str, Fraction(number).as_integer_ratio()))


def _option_recipe(
    uniform: Fraction, options: int, dummies: int = 0, filled: Fraction = Fraction(1)
) -> MechanismRecipe:
    return {"kind": "option", "options": str(options), "uniform": _threshold(uniform), "dummies": str(dummies),
            "filled": _threshold(filled)}  # fmt: skip


def _krr(mechanism: KRR) -> MechanismRecipe:
    return _option_recipe(mechanism.response.uniform_share, mechanism.options)


def _pure_dump(mechanism: PureDUMP) -> MechanismRecipe:
    return _option_recipe(Fraction(0), mechanism.options, mechanism.dummies, mechanism.dummy_law.filled)


def _mix_dump(mechanism: MixDUMP) -> MechanismRecipe:
    return _option_recipe(mechanism.uniform_share, mechanism.options, mechanism.dummies, mechanism.dummy_law.filled)


def _duchi(mechanism: Duchi) -> MechanismRecipe:
    """Returns the recipe in one dimension, where the message is a sign, one of two options."""
    if mechanism.dimension != 1:
        return {}
    return _option_recipe(mechanism.response.uniform_share, 2) | {"grid": "1", "signed": True}


def _bits(mechanism: OUE | RAPPOR) -> MechanismRecipe:
    if mechanism.options > MAX_OPTIONS:
        return {}
    row = mechanism.bits
    return {"kind": "bits", "options": str(row.options), "own": _threshold(row.true_probability),
            "other": _threshold(row.false_probability)}  # fmt: skip


def _hash(mechanism: LocalHash) -> MechanismRecipe:
    return {"kind": "hash", "messages": str(mechanism.hash_messages.messages), "length": str(mechanism.buckets),
            "uniform": _threshold(mechanism.response.uniform_share)}  # fmt: skip


def _subset(mechanism: Subset) -> MechanismRecipe:
    if mechanism.options > MAX_OPTIONS:
        return {}
    width = max(1, (mechanism.options - 1).bit_length())
    return {"kind": "subset", "options": str(mechanism.options), "size": str(mechanism.subset_size),
            "width": str(width), "uniform": _threshold(mechanism.response.uniform_share)}  # fmt: skip


def _window(mechanism: Piecewise) -> MechanismRecipe:
    return {"kind": "window", "grid": str(mechanism.grid), "size": str(mechanism.window),
            "uniform": _threshold(mechanism.response.uniform_share), "signed": True}  # fmt: skip


def _hat(mechanism: WitchHat) -> MechanismRecipe:
    if mechanism.hat.reach > MAX_WEIGHTS:
        return {}
    return {"kind": "hat", "grid": str(mechanism.grid), "weights": [str(unit) for unit in mechanism.hat.units]}


def _shares(mechanism: SplitAndMix) -> MechanismRecipe:
    noise = {"shape": ["1", str(mechanism.honest)], "rate": _fraction_strings(mechanism.rate)}
    return {"kind": "shares", "levels": str(mechanism.levels), "modulus": str(mechanism.modulus),
            "messages": str(mechanism.messages), "noise": noise}  # fmt: skip


def _signed(mechanism: CancellingNoise) -> MechanismRecipe:
    """Returns a recipe by which each client draws its share of the noise; none if the shuffler draws the noise."""
    program = {"kind": "signed", "options": str(mechanism.options), "places": str(mechanism.places or 1)}
    if mechanism.honest == 0:
        return program | {"noise": []}
    if not mechanism.places:
        return {}
    part = Fraction(mechanism.options, mechanism.honest)
    single = {"shape": _fraction_strings(part), "rate": _fraction_strings(mechanism.rate)}
    flood = {"shape": _fraction_strings(part * Fraction(mechanism.shape)), "ratio": _fraction_strings(mechanism.ratio)}
    return program | {"noise": [{"signs": ["0"], **single}, {"signs": ["1"], **single}, {"signs": ["0", "1"], **flood}]}


RECIPE_BUILDERS: Mapping[type[Mechanism], Callable[[Any], MechanismRecipe]] = {
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
"""By class: the mechanisms that plans choose most often for frequencies, means, sums and yes/no questions."""
