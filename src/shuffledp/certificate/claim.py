"""The claim of a certificate: a privacy statement with all that is needed to prove it again, as readable JSON."""

from __future__ import annotations

import json
import math
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from flint import arb, fmpq

from shuffledp.bounds import BOUND_OF
from shuffledp.errors import NotApplicable
from shuffledp.mechanisms import catalogue
from shuffledp.mechanisms.given.from_table import FromTable
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.numerics.ball import precision
from shuffledp.privacy.curve import NumericCurve
from shuffledp.privacy.pair import HidingPair
from shuffledp.privacy.randomizer import Randomizer
from shuffledp.privacy.value import BoundValue
from shuffledp.privacy.variation_ratio import VariationRatio

FORMAT = "shuffledp certificate"
VERSION = 1
PROVABLE = ("optimal", "variation-ratio", "stronger-clone", "clone")
"""The numeric bounds that guarantee: what `verify` knows how to prove."""
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
ROUNDING = (
    "the computed value (epsilon, or delta where epsilon was given) is raised by 2e-8 of itself (delta: 1e-6) "
    "and then rounded up to 7 digits, so that an independent proof has room; "
    "every number here stands for the nearest 64-bit float, exactly"
)

ClassText = dict[str, str]
"""One class of messages: its three probabilities as text."""
PROBABILITIES = ("first", "second", "hiding")
PARAMETERS = ("p", "beta", "q0", "q1", "q_common")
SOFTWARE = ("shuffledp", "python-flint", "numpy", "python")
_FRACTION = re.compile(r"\d+(/[1-9]\d*)?")
_BALL = re.compile(r"\[-?\d+(\.\d+)?(e[+-]?\d{1,4})? \+/- \d+(\.\d+)?(e[+-]?\d{1,4})?\]")


@dataclass(frozen=True)
class Claim:
    """(epsilon, delta)-DP of the shuffled messages of ``users`` users who all run ``randomizer``."""

    randomizer: Mapping[str, Any]
    users: int
    epsilon: float
    delta: float
    bound: str
    theorem: str
    law: tuple[tuple[ClassText, ...], ...]
    """For each direction of the divergence that may differ, the classes of messages."""
    software: Mapping[str, str]

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
            "rounding": ROUNDING,
            "law": self.law,
            "software": self.software,
        }
        return json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def claim_of(
    randomizer: Randomizer, users: int, value: BoundValue, *, epsilon: float | None = None, delta: float | None = None
) -> Claim:
    """The claim that a value of a curve makes: ε at the given ``delta``, or δ at the given ``epsilon``.

    ``users`` counts the honest users, whatever the number of their messages.
    """
    if not value.guarantee:
        raise ValueError(f"certificate: {value.bound} is not a guarantee, so there is nothing to certify.")
    if value.bound not in PROVABLE:
        raise ValueError(
            f"certificate: expected a numeric bound ({', '.join(PROVABLE)}), got {value.bound}; "
            f"leave --bound out to get the one that is smallest."
        )
    raised = rounded_up(value.upper, DELTA_MARGIN if delta is None else EPSILON_MARGIN)
    if delta is not None:
        if raised > LARGEST_EPSILON:
            raise ValueError(f"certificate: expected an epsilon of at most {LARGEST_EPSILON}, got {value.upper:g}.")
        claimed = float(raised), delta
    else:
        if raised >= 1:
            raise ValueError("certificate: expected a delta below 1, got 1, which promises nothing.")
        if epsilon is None or epsilon > LARGEST_EPSILON:
            raise ValueError(f"certificate: expected an epsilon of at most {LARGEST_EPSILON}, got {epsilon}.")
        claimed = epsilon, float(max(raised, LEAST_DELTA)) if raised else 0.0
    messages = randomizer.hiding_messages(users)
    if messages > MOST_USERS:
        raise ValueError(f"certificate: expected at most {MOST_USERS} messages that hide each other, got {messages}.")
    curve = BOUND_OF[value.bound].curve(randomizer, messages)
    assert isinstance(curve, NumericCurve)
    law = tuple(_classes(direction(claimed[0])) for direction in curve.directions)
    return Claim(_description(randomizer), users, *claimed, value.bound, value.theorem, law, _software())


def provable(
    randomizer: Randomizer, users: int, value: BoundValue, *, epsilon: float | None, delta: float | None
) -> BoundValue:
    """The value itself where `verify` can prove its bound, else the smallest of a bound that it can prove."""
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
    if isinstance(randomizer, FromTable):
        return {"table": randomizer.matrix.tolist()}
    if isinstance(randomizer, Mechanism):
        settings = randomizer.settings()
        described: dict[str, Any] = {"mechanism": randomizer.name}
        if "epsilon" in settings:
            described["epsilon"] = settings.pop("epsilon")
        described["settings"] = settings
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
    kinds = catalogue.all_mechanisms()
    name = described["mechanism"]
    if name not in kinds:
        raise ValueError(f"certificate: mechanism must be one of {', '.join(kinds)}, got {name!r}.")
    known = {field.name for field in catalogue.settings(kinds[name])}
    for key in described["settings"]:
        if key not in known:
            raise ValueError(f"certificate: {name} has no setting {key!r}.")
    try:
        return catalogue.construct(kinds[name], described.get("epsilon"), described["settings"])
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
    try:
        own = version("shuffledp")
    except PackageNotFoundError:
        own = "not installed"
    found = (own, version("python-flint"), np.__version__, platform.python_version())
    return dict(zip(SOFTWARE, found, strict=True))


# --- reading ------------------------------------------------------------------------------------------------------


def parse(text: str) -> Claim:
    """The claim of a file; one sentence if anything is missing, unknown or of the wrong kind."""
    try:
        document = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_without_duplicates)
    except (json.JSONDecodeError, RecursionError) as error:
        raise _bad(f"expected JSON, got: {error}") from None
    fields = _object("the certificate", document, (
        "format", "version", "statement", "epsilon", "delta", "users", "randomizer",
        "bound", "theorem", "guarantee", "rounding", "law", "software",
    ))  # fmt: skip
    if fields["format"] != FORMAT or fields["version"] != VERSION or isinstance(fields["version"], bool):
        raise _bad(f"expected {FORMAT!r} version {VERSION}, got {fields['format']!r} version {fields['version']!r}")
    if fields["guarantee"] is not True:
        raise _bad(f"guarantee must be true, got {fields['guarantee']!r}")
    if fields["rounding"] != ROUNDING:
        raise _bad("rounding is not the text of this version")
    claim = Claim(
        _randomizer(fields["randomizer"]),
        _integer("users", fields["users"], 1, MOST_USERS),
        _between("epsilon", fields["epsilon"], LARGEST_EPSILON),
        _between("delta", fields["delta"], 1),
        _string("bound", fields["bound"]),
        _string("theorem", fields["theorem"]),
        _law(fields["law"]),
        {name: _string(name, text) for name, text in _object("software", fields["software"], SOFTWARE).items()},
    )
    if fields["statement"] != claim.statement:
        raise _bad("the statement does not say what the numbers say")
    return claim


def exact_number(text: str) -> fmpq | arb:
    """A probability from its text: a fraction, or a ball at the working precision."""
    if _FRACTION.fullmatch(text):
        top, _, bottom = text.partition("/")
        return fmpq(int(top), int(bottom or 1))
    return arb(text)


def _bad(sentence: str) -> ValueError:
    return ValueError(f"certificate: {sentence}.")


def _refuse_constant(text: str) -> Any:
    raise _bad(f"{text} is not a number")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise _bad("a field stands twice")
    return result


def _object(name: str, value: Any, expected: Sequence[str]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _bad(f"{name} must be an object")
    for key in expected:
        if key not in value:
            raise _bad(f"{name} lacks the field {key!r}")
    for key in value:
        if key not in expected:
            raise _bad(f"{name} has the unknown field {key!r}")
    return value


def _list(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise _bad(f"{name} must be a list that is not empty")
    return value


def _string(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _bad(f"{name} must be a text")
    return value


def _integer(name: str, value: Any, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise _bad(f"{name} must be a whole number from {least} to {most}")
    return value


def _float(name: str, value: Any) -> float:
    """A number, or the text "inf"."""
    if value == "inf":
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _bad(f"{name} must be a number or 'inf'")
    try:
        return float(value)
    except OverflowError:
        raise _bad(f"{name} is too large") from None


def _between(name: str, value: Any, most: int) -> float:
    number = _float(name, value)
    if not 0 <= number <= most:
        raise _bad(f"{name} must be from 0 to {most}")
    return number


def _randomizer(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _bad("randomizer must be an object")
    if "parameters" in value:
        named = _object("parameters", _object("randomizer", value, ("parameters",))["parameters"], PARAMETERS)
        return {"parameters": {name: _float(name, number) for name, number in named.items()}}
    if "table" in value:
        rows = _list("table", _object("randomizer", value, ("table",))["table"])
        return {"table": [[_float("table", number) for number in _list("table", row)] for row in rows]}
    kind = catalogue.all_mechanisms().get(str(value.get("mechanism")))
    local = ("epsilon",) if kind is None or catalogue.takes_epsilon(kind) else ()
    fields = _object("randomizer", value, ("mechanism", *local, "settings"))
    if not isinstance(fields["settings"], dict):
        raise _bad("settings must be an object")
    settings = {name: _setting(name, number) for name, number in fields["settings"].items()}
    name = _string("mechanism", fields["mechanism"])
    return {"mechanism": name, **{key: _float(key, fields[key]) for key in local}, "settings": settings}


def _setting(name: str, value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int):
        return value
    return _float(name, value)


def _law(value: Any) -> tuple[tuple[ClassText, ...], ...]:
    return tuple(
        tuple(
            {
                key: _probability(f"{key} of a class", text)
                for key, text in _object("a class", item, PROBABILITIES).items()
            }
            for item in _list("a direction of law", direction)
        )
        for direction in _list("law", value)
    )


def _probability(name: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_FRACTION:
        raise _bad(f"{name} must be a text of at most {LONGEST_FRACTION} characters")
    if not _FRACTION.fullmatch(value) and not _BALL.fullmatch(value):
        raise _bad(f"{name} must be a fraction 'a/b' or a ball '[mid +/- radius]', got {value[:40]!r}")
    return value
