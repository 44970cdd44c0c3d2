"""Output laws written down: for instances that are small enough, and for tests."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from shuffledp.array import Array


@dataclass(frozen=True)
class OutputTable:
    """The exact output law on a small instance: one row per input, one column per distinct report of a user.

    A report is a user's one message, or a row of all of them where there are several.
    """

    inputs: Array
    messages: Array
    probabilities: tuple[tuple[Fraction, ...], ...]


@dataclass(frozen=True)
class HidingTable:
    """What tells a user's value, and what hides it, exactly, on a small instance; one column per distinct message.

    ``rows`` are laws of the message that depends on the value, for inputs among which every kind of pair occurs;
    ``floor`` is below the law of every message that hides it (and what it lacks to 1 hides nothing).
    """

    rows: tuple[tuple[Fraction, ...], ...]
    floor: tuple[Fraction, ...]
