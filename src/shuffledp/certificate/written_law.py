"""Classes of messages as text, read back, and compared with those that were found again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from flint import arb, fmpq

from shuffledp.certificate import field
from shuffledp.certificate.counts import Number
from shuffledp.certificate.proof import Class
from shuffledp.numerics.ball import precision
from shuffledp.privacy.pair import HidingPair

ClassText = dict[str, str]
"""One class of messages: its three probabilities as text."""
LawText = tuple[tuple[ClassText, ...], ...]
"""Some laws, such as one for each direction of the divergence."""
Law = list[Class]
"""The classes of one direction."""

PROBABILITIES = ("first", "second", "hiding")
TEXT_BITS = 160
TEXT_DIGITS = 40
LONGEST_FRACTION = 2000
"""A fraction of more digits is written as a decimal with its radius."""
BALL_BITS = 512
SAME = 1e-14
"""Relative distance at which a claimed decimal is the rebuilt one; what is proved is the rebuilt one anyway."""

_FRACTION = re.compile(r"\d+(/[1-9]\d*)?")
_BALL = re.compile(r"\[-?\d+(\.\d+)?(e[+-]?\d{1,4})? \+/- \d+(\.\d+)?(e[+-]?\d{1,4})?\]")


class Refuted(Exception):
    """The claim is wrong, and why."""


# --- written ------------------------------------------------------------------------------------------------------


def classes_text(pair: HidingPair) -> tuple[ClassText, ...]:
    """The classes of a pair, for the file."""
    with precision(TEXT_BITS):
        rows: Sequence[Sequence[Number]] = pair.classes() if pair.exact is None else pair.exact
        return tuple(dict(zip(PROBABILITIES, map(number_text, row), strict=True)) for row in rows)


def number_text(number: Number) -> str:
    """A probability as a fraction, or as a decimal with its radius."""
    if isinstance(number, fmpq):
        text = str(number)
        if len(text) <= LONGEST_FRACTION:
            return text
        number = arb(number)
    text = number.str(TEXT_DIGITS)
    return text if text.startswith("[") else f"[{text} +/- 0]"


# --- read ---------------------------------------------------------------------------------------------------------


def read_law(name: str, value: Any) -> LawText:
    """Lists of classes, each probability of a form that can be read."""
    return tuple(
        tuple(
            {
                key: read_probability(f"{key} of a class", text)
                for key, text in field.object_of("a class", item, PROBABILITIES).items()
            }
            for item in field.list_of(f"a direction of {name}", direction)
        )
        for direction in field.list_of(name, value)
    )


def read_probability(name: str, value: Any) -> str:
    """The text of a fraction or of a ball."""
    if not isinstance(value, str) or len(value) > LONGEST_FRACTION:
        raise field.bad(f"{name} must be a text of at most {LONGEST_FRACTION} characters")
    if not _FRACTION.fullmatch(value) and not _BALL.fullmatch(value):
        raise field.bad(f"{name} must be a fraction 'a/b' or a ball '[mid +/- radius]', got {value[:40]!r}")
    return value


def fraction_text(number: Fraction) -> str:
    """An exact number of the file that is not a probability of a class."""
    return str(number)


def read_fraction(name: str, value: Any) -> str:
    """The text of a fraction."""
    if not isinstance(value, str) or len(value) > LONGEST_FRACTION or not _FRACTION.fullmatch(value):
        raise field.bad(f"{name} must be a text 'a/b' of at most {LONGEST_FRACTION} characters")
    return value


def exact_number(text: str) -> Number:
    """A probability from its text: a fraction, or a ball at the working precision."""
    if _FRACTION.fullmatch(text):
        top, _, bottom = text.partition("/")
        return fmpq(int(top), int(bottom or 1))
    return arb(text)


# --- compared -----------------------------------------------------------------------------------------------------


def rebuilt_classes(pair: HidingPair) -> Law:
    """The classes that a mechanism states, at the working precision where they are not exact."""
    return [(c[0], c[1], c[2]) for c in (pair.classes() if pair.exact is None else pair.exact)]


def compare_laws(
    what: str, claimed: Sequence[Sequence[ClassText]], rebuilt: Sequence[Sequence[Class]], before: str = ""
) -> None:
    """Refute at the first difference between the claimed and the rebuilt laws."""
    if len(claimed) != len(rebuilt):
        raise Refuted(f"{before}the law has {len(claimed)} {what}s in the file and {len(rebuilt)} in truth.")
    for number, (classes, truth) in enumerate(zip(claimed, rebuilt, strict=True), 1):
        if len(classes) != len(truth):
            raise Refuted(f"{before}{what} {number} has {len(classes)} classes in the file and {len(truth)} in truth.")
        for place, (texts, numbers) in enumerate(zip(classes, truth, strict=True), 1):
            for name, chance in zip(PROBABILITIES, numbers, strict=True):
                demand_same(f"{before}{what} {number}, class {place}: {name}", texts[name], chance)


def demand_same(what: str, text: str, number: Number) -> None:
    """Refute unless the file says this number."""
    if not _same(text, number):
        raise Refuted(f"{what} is {_short(text)} in the file and {_short(str(number))} in truth.")


def _same(text: str, number: Number) -> bool:
    with precision(BALL_BITS):
        claimed = exact_number(text)
        if isinstance(claimed, fmpq) and isinstance(number, fmpq):
            return bool(claimed == number)
        ball, truth = arb(claimed), arb(number)
        # A claimed ball must be narrow, or it would say nothing.
        return bool(ball.rad() <= SAME * abs(truth)) and bool(abs(ball - truth) <= SAME * abs(truth))


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}…"


# --- once each ----------------------------------------------------------------------------------------------------


def distinct(laws: Sequence[Law]) -> list[Law]:
    """Exact laws of G once each: classes in the same proportion are one class."""
    seen: set[Any] = set()
    result = []
    for law in laws:
        key = proportions(law)
        if key is None or key not in seen:
            result.append(law)
            seen.add(key)
    return result


def proportions(law: Sequence[Class]) -> frozenset[Any] | None:
    """What the law of G follows from; None where it is not exact."""
    weights: dict[Any, fmpq] = {}
    for first, second, hiding in law:
        if not (isinstance(first, fmpq) and isinstance(second, fmpq) and isinstance(hiding, fmpq)):
            return None
        if hiding != 0:
            kind = first / hiding, second / hiding
            weights[kind] = weights.get(kind, fmpq(0)) + hiding
        elif first != 0 or second != 0:
            return None
    return frozenset(weights.items())
