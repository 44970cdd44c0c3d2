"""Validation of arguments; each message names the caller, the expected value and the given one.

Numbers of any exact type are accepted: Python's, numpy's (0-dimensional arrays included), fractions and decimals. A
number between two floats becomes the float below it, or with ``up`` the float above it; callers choose the direction
that promises no more privacy than requested. Also the names of array types, for annotations.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp._core.errors import InvalidArgument

# --- Names of array types ---


Array = NDArray[Any]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Words = NDArray[np.uint64]
"""Random or packed 64-bit words."""
Bytes = NDArray[np.uint8]
"""Rows of bytes: encoded messages."""
Bools = NDArray[np.bool_]


# --- Validation ---


MAX_COUNT = (1 << 63) - 1
"""Above any count that occurs; a larger one is a mistake, and computing with it would not end."""
_MAX_EXACT_INTEGER = 1 << 53
"""Every whole number up to here is a float."""
_MAX_TEXT_LENGTH = 60
"""Largest number of characters of a rejected value in an error message."""


def real(who: str, name: str, value: Any, *, up: bool = False) -> float:
    """Returns a real number, possibly infinite; raises TypeError for other types and ValueError for NaN."""
    number = _number(value)
    if number is None:
        raise TypeError(f"{who}: {name} must be a number, got {format_value(value)}.")
    if number != number:
        raise ValueError(f"{who}: {name} must be a number, got NaN.")
    return _round_to_float(number, up)


def exact(who: str, name: str, value: Any) -> Fraction:
    """Returns a finite number as an exact fraction."""
    nearest = real(who, name, value)
    number = _number(value)
    # A decimal's exponent can describe numbers beyond any memory, and so small that the only float below is 0.
    if math.isinf(nearest) or math.isinf(_round_to_float(number, up=True)) or (nearest == 0.0 and number != 0):
        raise ValueError(f"{who}: {name} must be finite and not below the least float, got {format_value(value)}.")
    return Fraction(*number.as_integer_ratio())


def count(who: str, name: str, value: Any, *, at_least: int = 1, at_most: int = MAX_COUNT) -> int:
    """Returns a whole number between ``at_least`` and ``at_most``; whole floats such as 1e6 are accepted."""
    number = _number(value)
    if number is None:
        raise TypeError(f"{who}: {name} must be a whole number, got {format_value(value)}.")
    # A decimal may have more digits than memory holds; Python's integers are in memory already.
    exact = isinstance(number, numbers.Rational) or (
        number == number and math.isfinite(_round_to_float(number, up=True))
    )
    whole = int(number) if exact else None
    if whole is None or number != whole:
        raise ValueError(f"{who}: {name} must be a whole number of at least {at_least}, got {format_value(number)}.")
    if whole < at_least:
        raise ValueError(f"{who}: {name} must be at least {at_least}, got {format_value(whole)}.")
    if whole > at_most:
        most = f"{at_most:.0e}" if at_most % 10**9 == 0 else at_most
        raise ValueError(f"{who}: {name} must be at most {most}, got {format_value(whole)}.")
    return whole


def open_probability(who: str, name: str, value: Any, *, up: bool = False) -> float:
    """Returns a probability strictly between 0 and 1."""
    number = real(who, name, value, up=up)
    if not 0.0 < number < 1.0:
        raise ValueError(f"{who}: {name} must be between 0 and 1, both excluded, got {number!r}.")
    return number


def non_negative(who: str, name: str, value: Any, *, up: bool = False) -> float:
    """Returns a number of at least 0, possibly infinite."""
    number = real(who, name, value, up=up)
    if number < 0.0:
        raise ValueError(f"{who}: {name} must be at least 0, got {number!r}.")
    return number


def positive_finite(who: str, name: str, value: Any, *, up: bool = False) -> float:
    """Returns a finite number above 0."""
    number = real(who, name, value, up=up)
    if not 0.0 < number < math.inf:
        raise ValueError(f"{who}: {name} must be above 0 and finite, got {number!r}.")
    return number


def reals(who: str, name: str, values: Any, *, up: bool = False) -> NDArray[np.float64]:
    """Returns an array of numbers, None as NaN; the caller rejects infinities and NaN, and can name their place."""
    raw = np.asarray(values)
    if raw.dtype.kind not in "iufO":
        raise TypeError(f"{who}: {name} must be numbers, got {raw.dtype}.")
    # Long doubles and large integers may lie between floats.
    if _are_floats(raw):
        return raw.astype(np.float64)
    cells = [math.nan if cell is None else _convert_cell(who, name, cell, up) for cell in raw.flat]
    return np.array(cells, dtype=np.float64).reshape(raw.shape)


def _are_floats(raw: NDArray[Any]) -> bool:
    """Returns True if every number of the array is exactly a float."""
    if raw.dtype.kind == "f":
        return raw.dtype.itemsize <= 8
    return raw.dtype.kind != "O" and bool((raw < _MAX_EXACT_INTEGER).all() and (raw > -_MAX_EXACT_INTEGER).all())


def _convert_cell(who: str, name: str, value: Any, up: bool) -> float:
    number = _number(value)
    return math.nan if number is not None and number != number else real(who, name, value, up=up)


def checked(check: Callable[..., Any], **limits: Any) -> dict[str, Any]:
    """Returns the metadata of a dataclass field whose value ``check_fields`` validates and converts.

    >>> from dataclasses import dataclass, field
    >>> @dataclass(frozen=True)
    ... class Die:
    ...     sides: int = field(metadata=checked(count, at_least=2))
    ...     def __post_init__(self): check_fields(self)
    >>> Die(6.0)
    Die(sides=6)
    """
    return {"check": (check, limits)}


def check_fields(record: Any) -> None:
    """Validates the ``checked`` fields of a dataclass in their order; errors begin with the name of its class."""
    for each in fields(record):
        if "check" in each.metadata:
            check, limits = each.metadata["check"]
            value = check(type(record).__name__, each.name, getattr(record, each.name), **limits)
            object.__setattr__(record, each.name, value)


@contextmanager
def relabel_errors(who: str, *others: str) -> Iterator[None]:
    """Replaces a name of ``others`` at the beginning of an error message by ``who``, the function that was called."""
    try:
        yield
    except InvalidArgument as error:
        if error.caller in others:
            error.caller = who
        raise
    except (TypeError, ValueError) as error:
        speaker, _, sentence = str(error).partition(": ")
        # Subclasses take more arguments than a message.
        if speaker not in others or type(error) not in (TypeError, ValueError):
            raise
        raise type(error)(f"{who}: {sentence}") from None


def is_number(value: Any) -> bool:
    """Returns True if a value is a single number, NaN included."""
    return _number(value) is not None


def format_value(value: Any) -> str:
    """Returns a rejected value for an error message, truncated if long; a number is written without its type."""
    number = _number(value)
    try:
        text = repr(value) if number is None else str(number)
    except ValueError:
        # Python refuses to print integers of thousands of digits.
        return "a number of thousands of digits"
    return text if len(text) <= _MAX_TEXT_LENGTH else f"{text[:_MAX_TEXT_LENGTH]}…"


def _number(value: Any) -> Any:
    """Returns the value as an exact Python number or a numpy long double; None if it is not a number."""
    if type(value) in (float, int):
        return value
    if isinstance(value, np.generic | np.ndarray) and not isinstance(value, np.longdouble):
        # A masked value is not a number, but item() would return one.
        if value.ndim or value.dtype.kind not in "iufO" or np.ma.getmaskarray(value).any():
            return None
        return _number(value.item())
    if isinstance(value, bool) or not isinstance(value, numbers.Real | Decimal):
        return None
    # Comparing a signalling NaN raises.
    return math.nan if isinstance(value, Decimal) and value.is_nan() else value


def _round_to_float(number: Any, up: bool) -> float:
    """Returns the largest float that is not above a number, or with ``up`` the smallest that is not below it."""
    try:
        candidate = float(number)
    except OverflowError:
        candidate = math.inf if number > 0 else -math.inf
    # Comparisons of floats with exact numbers are exact, and float() returns the nearest float or a neighbour of it.
    if up:
        while candidate < number:
            candidate = math.nextafter(candidate, math.inf)
    else:
        while candidate > number:
            candidate = math.nextafter(candidate, -math.inf)
    return candidate
