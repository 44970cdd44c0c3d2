"""Checks of arguments, each with one sentence: who expected what, got what."""

from __future__ import annotations

import math
import numbers
from typing import Any


def real(who: str, name: str, value: Any) -> float:
    """A real number, infinity allowed, NaN and non-numbers refused."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{who}: {name} must be a number, got {value!r}.")
    number = float(value)
    if math.isnan(number):
        raise ValueError(f"{who}: {name} must be a number, got NaN.")
    return number


def count(who: str, name: str, value: Any, *, at_least: int = 1) -> int:
    """A whole number of at least ``at_least``; floats such as 1e6 that are whole are accepted."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{who}: {name} must be a whole number, got {value!r}.")
    exact = isinstance(value, numbers.Integral) or math.isfinite(value)
    whole = int(value) if exact else 0  # type: ignore[call-overload]
    if value != whole:
        raise ValueError(f"{who}: {name} must be a whole number of at least {at_least}, got {value}.")
    if whole < at_least:
        raise ValueError(f"{who}: {name} must be at least {at_least}, got {whole}.")
    return whole


def open_probability(who: str, name: str, value: Any) -> float:
    """A probability strictly between 0 and 1."""
    number = real(who, name, value)
    if not 0.0 < number < 1.0:
        raise ValueError(f"{who}: {name} must be between 0 and 1, both excluded, got {number!r}.")
    return number


def non_negative(who: str, name: str, value: Any) -> float:
    """A number of at least 0; infinity is allowed."""
    number = real(who, name, value)
    if number < 0.0:
        raise ValueError(f"{who}: {name} must be at least 0, got {number!r}.")
    return number


def positive_finite(who: str, name: str, value: Any) -> float:
    """A finite number above 0."""
    number = real(who, name, value)
    if not 0.0 < number < math.inf:
        raise ValueError(f"{who}: {name} must be above 0 and finite, got {number!r}.")
    return number
