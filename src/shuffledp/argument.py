"""Checks of arguments, each with one sentence: who expected what, got what.

A number may come as any type that says exactly which one it is: Python's, numpy's (arrays without axes too), fractions
and decimals. One that lies between two floats becomes the float below it, or with ``up`` the one above it, whichever
promises no more privacy than was asked for.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_COUNT = (1 << 63) - 1
"""More than anything that is counted here; what is larger is a mistake, and would be computed with for ever."""
_EXACT = 1 << 53
"""Up to here every whole number is a float."""
_SHOWN = 60
"""Characters of a refused value that a sentence shows at most."""


def real(who: str, name: str, value: Any, *, up: bool = False) -> float:
    """A real number, infinity allowed, NaN and non-numbers refused."""
    number = _number(value)
    if number is None:
        raise TypeError(f"{who}: {name} must be a number, got {shown(value)}.")
    if number != number:
        raise ValueError(f"{who}: {name} must be a number, got NaN.")
    return _rounded(number, up)


def exact(who: str, name: str, value: Any) -> Fraction:
    """A finite number as it is, for what can be computed without rounding it."""
    nearest = real(who, name, value)
    number = _number(value)
    # What a decimal's exponent can say may be far from any memory, and from any float but 0.
    if math.isinf(nearest) or math.isinf(_rounded(number, up=True)) or (nearest == 0.0 and number != 0):
        raise ValueError(f"{who}: {name} must be finite and not below the least float, got {shown(value)}.")
    return Fraction(*number.as_integer_ratio())


def count(who: str, name: str, value: Any, *, at_least: int = 1, at_most: int = MOST_COUNT) -> int:
    """A whole number of at least ``at_least``; floats such as 1e6 that are whole are accepted."""
    number = _number(value)
    if number is None:
        raise TypeError(f"{who}: {name} must be a whole number, got {shown(value)}.")
    # Decimals may have more digits than there is memory for; whole numbers of Python's own are there already.
    exact = isinstance(number, numbers.Rational) or (number == number and math.isfinite(_rounded(number, up=True)))
    whole = int(number) if exact else None
    if whole is None or number != whole:
        raise ValueError(f"{who}: {name} must be a whole number of at least {at_least}, got {shown(number)}.")
    if whole < at_least:
        raise ValueError(f"{who}: {name} must be at least {at_least}, got {shown(whole)}.")
    if whole > at_most:
        most = f"{at_most:.0e}" if at_most % 10**9 == 0 else at_most
        raise ValueError(f"{who}: {name} must be at most {most}, got {shown(whole)}.")
    return whole


def open_probability(who: str, name: str, value: Any, *, up: bool = False) -> float:
    """A probability strictly between 0 and 1."""
    number = real(who, name, value, up=up)
    if not 0.0 < number < 1.0:
        raise ValueError(f"{who}: {name} must be between 0 and 1, both excluded, got {number!r}.")
    return number


def non_negative(who: str, name: str, value: Any, *, up: bool = False) -> float:
    """A number of at least 0; infinity is allowed."""
    number = real(who, name, value, up=up)
    if number < 0.0:
        raise ValueError(f"{who}: {name} must be at least 0, got {number!r}.")
    return number


def positive_finite(who: str, name: str, value: Any, *, up: bool = False) -> float:
    """A finite number above 0."""
    number = real(who, name, value, up=up)
    if not 0.0 < number < math.inf:
        raise ValueError(f"{who}: {name} must be above 0 and finite, got {number!r}.")
    return number


def reals(who: str, name: str, values: Any, *, up: bool = False) -> NDArray[np.float64]:
    """An array of numbers, infinity and NaN allowed: where one stands is for the caller to say; None is NaN."""
    raw = np.asarray(values)
    if raw.dtype.kind not in "iufO":
        raise TypeError(f"{who}: {name} must be numbers, got {raw.dtype}.")
    # Long doubles and large whole numbers may lie between floats.
    if _are_floats(raw):
        return raw.astype(np.float64)
    cells = [math.nan if cell is None else _cell(who, name, cell, up) for cell in raw.flat]
    return np.array(cells, dtype=np.float64).reshape(raw.shape)


def _are_floats(raw: NDArray[Any]) -> bool:
    """Whether every number of an array is one that a float can be."""
    if raw.dtype.kind == "f":
        return raw.dtype.itemsize <= 8
    return raw.dtype.kind != "O" and bool((raw < _EXACT).all() and (raw > -_EXACT).all())


def _cell(who: str, name: str, value: Any, up: bool) -> float:
    number = _number(value)
    return math.nan if number is not None and number != number else real(who, name, value, up=up)


@contextmanager
def said_by(who: str, *others: str) -> Iterator[None]:
    """Sentences that begin with one of the others' names begin with the name of the one that was called."""
    try:
        yield
    except (TypeError, ValueError) as error:
        speaker, _, sentence = str(error).partition(": ")
        # Others than these two are made from more than a sentence.
        if speaker not in others or type(error) not in (TypeError, ValueError):
            raise
        raise type(error)(f"{who}: {sentence}") from None


def is_number(value: Any) -> bool:
    """Whether a value is one number, NaN included."""
    return _number(value) is not None


def shown(value: Any) -> str:
    """A refused value as a sentence shows it, cut where it would be long; a number is written without its type."""
    number = _number(value)
    try:
        text = repr(value) if number is None else str(number)
    except ValueError:
        # Python refuses to write whole numbers of thousands of digits.
        return "a number of thousands of digits"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _number(value: Any) -> Any:
    """The value as an exact number of Python's or a long double of numpy's; None if it is no number."""
    if type(value) in (float, int):
        return value
    if isinstance(value, np.generic | np.ndarray) and not isinstance(value, np.longdouble):
        # What is masked is no number, and item() would give one.
        if value.ndim or value.dtype.kind not in "iufO" or np.ma.getmaskarray(value).any():
            return None
        return _number(value.item())
    if isinstance(value, bool) or not isinstance(value, numbers.Real | Decimal):
        return None
    # A signalling NaN may not even be compared.
    return math.nan if isinstance(value, Decimal) and value.is_nan() else value


def _rounded(number: Any, up: bool) -> float:
    """The largest float that is not above a number, or with ``up`` the smallest that is not below it."""
    try:
        candidate = float(number)
    except OverflowError:
        candidate = math.inf if number > 0 else -math.inf
    # Comparisons of floats with exact numbers are exact, and the float is the nearest one or next to it.
    if up:
        while candidate < number:
            candidate = math.nextafter(candidate, math.inf)
    else:
        while candidate > number:
            candidate = math.nextafter(candidate, -math.inf)
    return candidate
