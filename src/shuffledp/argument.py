"""Checks of arguments, each with one sentence: who expected what, got what."""

from __future__ import annotations

import math
import numbers
from typing import Any

MOST_COUNT = (1 << 63) - 1
"""More than anything that is counted here; what is larger is a mistake, and would be computed with for ever."""
MOST_DIGITS = 40


def real(who: str, name: str, value: Any, *, toward: float | None = None) -> float:
    """A real number as a float, infinity allowed, NaN and non-numbers refused.

    A whole number, a fraction or any other exact number that is no float is rounded ``toward`` infinity or minus
    infinity, whichever is on the safe side; to the nearest where either is.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{who}: {name} must be a number, got {value!r}.")
    # Python compares whole numbers and fractions with floats exactly; numpy's whole numbers are rounded for it.
    value = int(value) if isinstance(value, numbers.Integral) else value
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(f"{who}: {name} must be in the range of floats, below 1.8e308, got a larger number.") from None
    if math.isnan(number):
        raise ValueError(f"{who}: {name} must be a number, got NaN.")
    if toward is not None and number != value and (number < value) == (toward > number):
        return math.nextafter(number, toward)
    return number


def count(who: str, name: str, value: Any, *, at_least: int = 1, at_most: int = MOST_COUNT) -> int:
    """A whole number of at least ``at_least``; floats such as 1e6 that are whole are accepted."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{who}: {name} must be a whole number, got {value!r}.")
    exact = isinstance(value, numbers.Rational) or math.isfinite(value)
    whole = int(value) if exact else 0  # type: ignore[call-overload]
    if value != whole:
        raise ValueError(f"{who}: {name} must be a whole number of at least {at_least}, got {value}.")
    if whole < at_least:
        raise ValueError(f"{who}: {name} must be at least {at_least}, got {_shown(whole)}.")
    if whole > at_most:
        most = f"{at_most:.0e}" if at_most % 10**9 == 0 else at_most
        raise ValueError(f"{who}: {name} must be at most {most}, got {_shown(whole)}.")
    return whole


def _shown(whole: int) -> str:
    """A whole number, or how long it is: what has thousands of digits cannot even be written."""
    digits = 1 if whole == 0 else math.floor(math.log10(abs(whole))) + 1
    return str(whole) if digits <= MOST_DIGITS else f"a number of {digits} digits"


def open_probability(who: str, name: str, value: Any, *, toward: float | None = None) -> float:
    """A probability strictly between 0 and 1."""
    number = real(who, name, value, toward=toward)
    if not 0.0 < number < 1.0:
        raise ValueError(f"{who}: {name} must be between 0 and 1, both excluded, got {number!r}.")
    return number


def non_negative(who: str, name: str, value: Any, *, toward: float | None = None) -> float:
    """A number of at least 0; infinity is allowed."""
    number = real(who, name, value, toward=toward)
    if number < 0.0:
        raise ValueError(f"{who}: {name} must be at least 0, got {number!r}.")
    return number


def positive_finite(who: str, name: str, value: Any, *, toward: float | None = None) -> float:
    """A finite number above 0."""
    number = real(who, name, value, toward=toward)
    if not 0.0 < number < math.inf:
        raise ValueError(f"{who}: {name} must be above 0 and finite, got {number!r}.")
    return number
