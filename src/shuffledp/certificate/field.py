"""The fields of a certificate as they are read: there, of their kind, and nothing else beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


def bad(sentence: str) -> ValueError:
    """What is said of a file that is no certificate."""
    return ValueError(f"certificate: {sentence}.")


def object_of(name: str, value: Any, expected: Sequence[str]) -> dict[str, Any]:
    """An object with these fields and no others."""
    if not isinstance(value, dict):
        raise bad(f"{name} must be an object")
    for key in expected:
        if key not in value:
            raise bad(f"{name} lacks the field {key!r}")
    for key in value:
        if key not in expected:
            raise bad(f"{name} has the unknown field {key!r}")
    return value


def list_of(name: str, value: Any) -> list[Any]:
    """A list that is not empty."""
    if not isinstance(value, list) or not value:
        raise bad(f"{name} must be a list that is not empty")
    return value


def text(name: str, value: Any) -> str:
    """A text."""
    if not isinstance(value, str):
        raise bad(f"{name} must be a text")
    return value


def true(name: str, value: Any) -> bool:
    """True, of a field that may be left out."""
    if value is not True:
        raise bad(f"{name} must be true, or left out")
    return True


def integer(name: str, value: Any, least: int, most: int) -> int:
    """A whole number within these limits."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise bad(f"{name} must be a whole number from {least} to {most}")
    return value


def number(name: str, value: Any) -> float:
    """A number, or the text "inf"."""
    if value == "inf":
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise bad(f"{name} must be a number or 'inf'")
    try:
        return float(value)
    except OverflowError:
        raise bad(f"{name} is too large") from None


def between(name: str, value: Any, most: int) -> float:
    """A number from 0 to this."""
    found = number(name, value)
    if not 0 <= found <= most:
        raise bad(f"{name} must be from 0 to {most}")
    return found
