"""The claim of a certificate: a privacy statement with all that is needed to prove it again, as readable JSON."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from flint import arb, fmpq

from shuffledp.bounds import BOUND_OF
from shuffledp.document import BEYOND
from shuffledp.errors import NotApplicable
from shuffledp.mechanisms import catalogue, visitor
from shuffledp.mechanisms.given.from_table import FromTable
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.numerics.ball import precision
from shuffledp.privacy.curve import NumericCurve
from shuffledp.privacy.pair import HidingPair
from shuffledp.privacy.randomizer import Randomizer
from shuffledp.privacy.value import BoundValue
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.readable import Readable, Row
from shuffledp.version import __version__

FORMAT = "shuffledp certificate"
VERSION = 1
PROVABLE = ("optimal", "variation-ratio", "stronger-clone", "clone")
"""The numeric bounds of one law that guarantee: what `verify` knows how to prove."""
ALL_CROWDS = "all-crowds"
"""The bound of many laws, which `verify` proves where these are not too many."""
EPSILON_MARGIN, DELTA_MARGIN = Decimal("2e-8"), Decimal("1e-6")
"""Relative room for the proof; over such a step of ε the divergence falls by far more than 2e-8 of itself."""
DIGITS = 7
LEAST_DELTA = Decimal("1e-300")
LARGEST_EPSILON = 1000
MOST_USERS = 10**15
LAW_BITS = 160
LAW_DIGITS = 40
LONGEST_FRACTION = 2000
"""A fraction of more digits is written as a decimal with its radius."""
CROWD_EPSILON_MARGINS = Decimal("2e-5"), Decimal("1e-4"), Decimal("1e-3")
CROWD_DELTA_MARGINS = Decimal("1e-3"), Decimal("1e-2"), Decimal("1e-1")
"""The same for ``all-crowds``, whose two proofs smooth and cut otherwise: the first with which it is proved."""
MOST_CLASSES = 20_000
"""How many classes of messages a file may hold."""
ROUNDING = (
    "the computed value (epsilon, or delta where epsilon was given) is raised by 2e-8 of itself (delta: 1e-6) "
    "and then rounded up to 7 digits, so that an independent proof has room; "
    "every number here stands for the nearest 64-bit float, exactly"
)

CROWD_ROUNDING = (
    "the computed value (epsilon, or delta where epsilon was given) is raised by the least of 2e-5, 1e-4, 1e-3 of "
    "itself (delta: 1e-3, 1e-2, 1e-1) with which an independent proof was found and then rounded up to 7 digits; "
    "every number here stands for the nearest 64-bit float, exactly"
)

ClassText = dict[str, str]
"""One class of messages: its three probabilities as text."""
PROBABILITIES = ("first", "second", "hiding")
PARAMETERS = ("p", "beta", "q0", "q1", "q_common")
SOFTWARE = ("shuffledp", "python-flint", "numpy", "python")


@dataclass(frozen=True)
class FamilyText:
    """All kinds of others of one direction of the divergence, as text."""

    gamma: str
    """The share of one law that every other user's law has."""
    kinds: tuple[tuple[ClassText, ...], ...]

    def document(self) -> dict[str, Any]:
        return {"gamma": self.gamma, "kinds": self.kinds}


@dataclass(frozen=True)
class Claim(Readable):
    """(epsilon, delta)-DP of the shuffled messages of ``users`` users who all run ``randomizer``.

    ``text`` is the file's content, ``save`` writes it; ``print`` shows what is claimed.

    ``randomizer``: its name and settings, or its parameters. ``bound``, ``theorem``: what the proof rests on.
    ``software``: the versions that made it.

    >>> import textwrap, shuffledp as sdp
    >>> claim = sdp.certify(sdp.KRR(2.0, options=16), 5000, delta=1e-6)
    >>> print(textwrap.fill(claim.statement, 90))
    Replacing one user's value changes the shuffled messages of 5000 users by at most epsilon
    = 0.09780284, delta = 1e-06.
    """

    randomizer: Mapping[str, Any]
    users: int
    epsilon: float
    delta: float
    bound: str
    theorem: str
    law: tuple[tuple[ClassText, ...], ...]
    """For each direction of the divergence that may differ, the classes of messages."""
    software: Mapping[str, str]
    crowds: tuple[FamilyText, ...] = ()
    """Instead of ``law``, for the bound ``all-crowds``: for each such direction, every kind of others."""

    @property
    def statement(self) -> str:
        return (
            f"Replacing one user's value changes the shuffled messages of {self.users} users "
            f"by at most epsilon = {self.epsilon!r}, delta = {self.delta!r}."
        )

    def text(self) -> str:
        """The file: one JSON object."""
        document = {
            "format": FORMAT,
            "version": VERSION,
            "statement": self.statement,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "users": self.users,
            "randomizer": self.randomizer,
            "bound": self.bound,
            "theorem": self.theorem,
            "guarantee": True,
            "rounding": rounding_of(self.bound),
            **({"crowds": [one.document() for one in self.crowds]} if self.crowds else {"law": self.law}),
            "software": self.software,
        }
        return json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1) + "\n"

    def save(self, path: str | PathLike[str]) -> None:
        """Write the file, for ``verify``."""
        Path(path).write_text(self.text(), encoding="utf-8")

    @property
    def origin(self) -> str | None:
        """Whose law it is, where the mechanism is not of this package: the file or module, and the class."""
        said: str | None = self.randomizer.get("origin")
        return said

    @property
    def heading(self) -> str:
        return "A claim that `shuffledp verify` proves again"

    def summary(self) -> list[Row]:
        """What is to be read, a name and a text each."""
        whose = [] if self.origin is None else [("law of", f"{self.origin}: not of shuffledp")]
        return [
            ("claim", self.statement),
            ("randomizer", _short(self.randomizer)),
            *whose,
            ("bound", f"{self.bound}: {self.theorem}"),
            ("software", ", ".join(f"{name} {number}" for name, number in self.software.items())),
        ]


def rounding_of(bound: str) -> str:
    """What the file says of the room that its number leaves."""
    return CROWD_ROUNDING if bound == ALL_CROWDS else ROUNDING


def _short(randomizer: Mapping[str, Any]) -> str:
    """The randomizer on one line."""
    if "table" in randomizer:
        rows = randomizer["table"]
        return f"a table of {len(rows)} inputs and {len(rows[0])} messages"
    named = dict(randomizer.get("parameters") or randomizer["settings"])
    if "epsilon" in randomizer:
        named = {"epsilon": randomizer["epsilon"], **named}
    if "local" in randomizer:
        named["local"] = randomizer["local"]
    return (
        f"{randomizer.get('mechanism', 'parameters')}: {', '.join(f'{name} = {text}' for name, text in named.items())}"
    )


def claim_of(
    randomizer: Randomizer,
    users: int,
    value: BoundValue,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    margin: Decimal | None = None,
) -> Claim:
    """The claim that a value of a curve makes: ε at the given ``delta``, or δ at the given ``epsilon``.

    ``users`` counts the honest users, whatever the number of their messages. ``margin``: what the value is raised by,
    where it is not the least that is usual for its bound.
    """
    if not value.guarantee:
        raise ValueError(f"certificate: {value.bound} is not a guarantee, so there is nothing to certify.")
    if value.bound not in (*PROVABLE, ALL_CROWDS):
        raise ValueError(
            f"certificate: expected a numeric bound ({', '.join((*PROVABLE, ALL_CROWDS))}), got {value.bound}; "
            f"leave --bound out to get the one that is smallest."
        )
    claimed = _claimed(value, epsilon, delta, margins(value.bound, delta)[0] if margin is None else margin)
    messages = randomizer.hiding_messages(users)
    if messages > MOST_USERS:
        raise ValueError(f"certificate: expected at most {MOST_USERS} messages that hide each other, got {messages}.")
    described = _description(randomizer)
    if "origin" in described:
        _demand_same_law(randomizer, build(described))
    law: tuple[tuple[ClassText, ...], ...] = ()
    crowds: tuple[FamilyText, ...] = ()
    if value.bound == ALL_CROWDS:
        described |= {"local": True} if isinstance(randomizer, VariationRatio) else {}
        crowds = _families(randomizer)
    else:
        curve = BOUND_OF[value.bound].curve(randomizer, messages)
        assert isinstance(curve, NumericCurve)
        law = tuple(_classes(direction(claimed[0])) for direction in curve.directions)
    return Claim(described, users, *claimed, value.bound, value.theorem, law, _software(), crowds)


def margins(bound: str, delta: float | None) -> tuple[Decimal, ...]:
    """What a value may be raised by: ε where δ is given, else δ."""
    if bound == ALL_CROWDS:
        return CROWD_DELTA_MARGINS if delta is None else CROWD_EPSILON_MARGINS
    return (DELTA_MARGIN if delta is None else EPSILON_MARGIN,)


def _claimed(value: BoundValue, epsilon: float | None, delta: float | None, margin: Decimal) -> tuple[float, float]:
    """(ε, δ): the one that was computed, raised."""
    raised = rounded_up(value.upper, margin)
    if delta is not None:
        if not raised.is_finite():
            raise ValueError(f"certificate: epsilon is {BEYOND} at this delta; claim a larger delta.")
        return float(raised), delta
    if raised >= 1:
        raise ValueError("certificate: expected a delta below 1, got 1, which promises nothing.")
    if epsilon is None or epsilon > LARGEST_EPSILON:
        raise ValueError(f"certificate: expected an epsilon of at most {LARGEST_EPSILON}, got {epsilon}.")
    return epsilon, float(max(raised, LEAST_DELTA)) if raised else 0.0


def _families(randomizer: Randomizer) -> tuple[FamilyText, ...]:
    """Every kind of others, for each direction that may differ."""
    found: list[FamilyText] = []
    count = 0
    for one in randomizer.others():
        for way in (one,) if one.symmetric else (one, one.swapped()):
            kinds = tuple(_classes(kind) for kind in way.kinds)
            count += sum(map(len, kinds))
            if count > MOST_CLASSES:
                raise ValueError(f"certificate: expected at most {MOST_CLASSES} classes of messages, got more.")
            found.append(FamilyText(_number_text(fmpq(*way.gamma.as_integer_ratio())), kinds))
    return tuple(found)


def _demand_same_law(randomizer: Randomizer, again: Randomizer) -> None:
    """Refuse somebody else's mechanism that its settings do not build again: nobody could prove the claim."""
    pairs, rebuilt = randomizer.blankets(), again.blankets()
    same = randomizer.variation_ratio() == again.variation_ratio() and len(pairs) == len(rebuilt)
    if not same or any(_classes(one) != _classes(other) for one, other in zip(pairs, rebuilt, strict=True)):
        raise ValueError(
            f"certificate: built again from its settings, {type(randomizer).__name__} has another law; its settings() "
            f"must be what its constructor was given."
        )


def provable(
    randomizer: Randomizer, users: int, value: BoundValue, *, epsilon: float | None, delta: float | None
) -> BoundValue:
    """The value itself where `verify` proves its bound, else the smallest of a bound of one law that it proves."""
    if value.bound in PROVABLE or not value.guarantee:
        return value
    found: list[BoundValue] = []
    for name in PROVABLE:
        try:
            curve = BOUND_OF[name].curve(randomizer, randomizer.hiding_messages(users))
        except NotApplicable:
            continue
        found.append(curve.epsilon(delta) if delta is not None else curve.delta(epsilon or 0.0))
    return min(found, key=float, default=value)


def rounded_up(value: float, margin: Decimal) -> Decimal:
    """The value raised by a share of itself, and then to the next number of seven digits."""
    if math.isinf(value):
        return Decimal("Infinity")
    return Context(prec=DIGITS, rounding=ROUND_CEILING).plus(Decimal(value) * (1 + margin))


def _description(randomizer: Randomizer) -> dict[str, Any]:
    """The randomizer in words that can be read back."""
    if isinstance(randomizer, VariationRatio):
        named = randomizer.describe()
        return {"parameters": {name: "inf" if math.isinf(number) else number for name, number in named.items()}}
    if type(randomizer) is FromTable:
        return {"table": randomizer.matrix.tolist()}
    if isinstance(randomizer, Mechanism):
        settings = randomizer.settings()
        described: dict[str, Any] = {"mechanism": randomizer.name}
        if "epsilon" in settings:
            described["epsilon"] = settings.pop("epsilon")
        described["settings"] = settings
        origin = visitor.origin(type(randomizer))
        if origin is not None:
            described["origin"] = origin
        try:
            if json.loads(json.dumps(described)) == described and type(build(described)) is type(randomizer):
                return described
        except (TypeError, ValueError):
            pass
    raise ValueError(f"certificate: expected a randomizer that can be written down, got {type(randomizer).__name__}.")


def build(described: Mapping[str, Any]) -> Mechanism:
    """The mechanism of a description, or a sentence."""
    if "table" in described:
        return FromTable(described["table"])
    name = described["mechanism"]
    kind = catalogue.find(name)
    if kind is None:
        names = ", ".join([*catalogue.all_mechanisms(), *visitor.names()])
        raise ValueError(f"certificate: mechanism must be one of {names}, got {name!r}.")
    known = {field.name for field in catalogue.settings(kind)}
    for key in described["settings"]:
        if key not in known:
            raise ValueError(f"certificate: {name} has no setting {key!r}.")
    try:
        return catalogue.construct(kind, described.get("epsilon"), described["settings"])
    except TypeError as error:
        raise ValueError(f"certificate: {name}: {error}.") from None


def _classes(pair: HidingPair) -> tuple[ClassText, ...]:
    with precision(LAW_BITS):
        rows: Sequence[Sequence[fmpq | arb]] = pair.classes() if pair.exact is None else pair.exact
        return tuple(dict(zip(PROBABILITIES, map(_number_text, row), strict=True)) for row in rows)


def _number_text(number: fmpq | arb) -> str:
    if isinstance(number, fmpq):
        text = str(number)
        if len(text) <= LONGEST_FRACTION:
            return text
        number = arb(number)
    text = number.str(LAW_DIGITS)
    return text if text.startswith("[") else f"[{text} +/- 0]"


def _software() -> dict[str, str]:
    # Importing it takes longer than all of this module.
    from importlib.metadata import version

    found = (__version__, version("python-flint"), np.__version__, platform.python_version())
    return dict(zip(SOFTWARE, found, strict=True))
