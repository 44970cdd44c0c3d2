"""A certificate as it is read: strict JSON, every field there and of its kind, nothing else believed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from flint import arb, fmpq

from shuffledp.certificate.claim import (
    ALL_CROWDS,
    FORMAT,
    LARGEST_EPSILON,
    LONGEST_FRACTION,
    MOST_USERS,
    PARAMETERS,
    PROBABILITIES,
    SOFTWARE,
    VERSION,
    Claim,
    ClassText,
    FamilyText,
    rounding_of,
)
from shuffledp.mechanisms import catalogue

_FRACTION = re.compile(r"\d+(/[1-9]\d*)?")
_BALL = re.compile(r"\[-?\d+(\.\d+)?(e[+-]?\d{1,4})? \+/- \d+(\.\d+)?(e[+-]?\d{1,4})?\]")


def read(path: str | PathLike[str]) -> Claim:
    """The claim of a file."""
    try:
        return parse(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"verify: cannot read {path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ValueError(f"verify: {path} is not text.") from None


def parse(text: str) -> Claim:
    """The claim of a file; one sentence if anything is missing, unknown or of the wrong kind."""
    try:
        document = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_without_duplicates)
    except (json.JSONDecodeError, RecursionError) as error:
        raise _bad(f"expected JSON, got: {error}") from None
    of_crowds = isinstance(document, dict) and document.get("bound") == ALL_CROWDS
    fields = _object("the certificate", document, (
        "format", "version", "statement", "epsilon", "delta", "users", "randomizer",
        "bound", "theorem", "guarantee", "rounding", "crowds" if of_crowds else "law", "software",
    ))  # fmt: skip
    if fields["format"] != FORMAT or fields["version"] != VERSION or isinstance(fields["version"], bool):
        raise _bad(f"expected {FORMAT!r} version {VERSION}, got {fields['format']!r} version {fields['version']!r}")
    if fields["guarantee"] is not True:
        raise _bad(f"guarantee must be true, got {fields['guarantee']!r}")
    if fields["rounding"] != rounding_of(ALL_CROWDS if of_crowds else ""):
        raise _bad("rounding is not the text of this version")
    claim = Claim(
        _randomizer(fields["randomizer"]),
        _integer("users", fields["users"], 1, MOST_USERS),
        _between("epsilon", fields["epsilon"], LARGEST_EPSILON),
        _between("delta", fields["delta"], 1),
        _string("bound", fields["bound"]),
        _string("theorem", fields["theorem"]),
        () if of_crowds else _law("law", fields["law"]),
        {name: _string(name, text) for name, text in _object("software", fields["software"], SOFTWARE).items()},
        _families(fields["crowds"]) if of_crowds else (),
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


def _true(name: str, value: Any) -> bool:
    if value is not True:
        raise _bad(f"{name} must be true, or left out")
    return True


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
        both_ways = {"local": _true("local", value["local"])} if "local" in value else {}
        fields = _object("randomizer", value, ("parameters", *both_ways))
        named = _object("parameters", fields["parameters"], PARAMETERS)
        return {"parameters": {name: _float(name, number) for name, number in named.items()}, **both_ways}
    if "table" in value:
        rows = _list("table", _object("randomizer", value, ("table",))["table"])
        return {"table": [[_float("table", number) for number in _list("table", row)] for row in rows]}
    kind = catalogue.find(str(value.get("mechanism")))
    # Of a name that is not known here, build says so.
    takes_epsilon = "epsilon" in value if kind is None else catalogue.takes_epsilon(kind)
    local = ("epsilon",) if takes_epsilon else ()
    whose = {"origin": _string("origin", value["origin"])} if "origin" in value else {}
    fields = _object("randomizer", value, ("mechanism", *local, "settings", *whose))
    if not isinstance(fields["settings"], dict):
        raise _bad("settings must be an object")
    settings = {name: _setting(name, number) for name, number in fields["settings"].items()}
    name = _string("mechanism", fields["mechanism"])
    return {"mechanism": name, **{key: _float(key, fields[key]) for key in local}, "settings": settings, **whose}


def _setting(name: str, value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, list):
        return [[_float(name, number) for number in _list(name, row)] for row in value]
    return _float(name, value)


def _law(name: str, value: Any) -> tuple[tuple[ClassText, ...], ...]:
    return tuple(
        tuple(
            {
                key: _probability(f"{key} of a class", text)
                for key, text in _object("a class", item, PROBABILITIES).items()
            }
            for item in _list(f"a direction of {name}", direction)
        )
        for direction in _list(name, value)
    )


def _families(value: Any) -> tuple[FamilyText, ...]:
    found = [_object("a direction of crowds", item, ("gamma", "kinds")) for item in _list("crowds", value)]
    return tuple(FamilyText(_probability("gamma", one["gamma"]), _law("kinds", one["kinds"])) for one in found)


def _probability(name: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_FRACTION:
        raise _bad(f"{name} must be a text of at most {LONGEST_FRACTION} characters")
    if not _FRACTION.fullmatch(value) and not _BALL.fullmatch(value):
        raise _bad(f"{name} must be a fraction 'a/b' or a ball '[mid +/- radius]', got {value[:40]!r}")
    return value
