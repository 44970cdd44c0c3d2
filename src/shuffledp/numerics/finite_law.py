"""A finite law of one real summand, and certified two-sided values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import arb
from numpy.typing import NDArray

from shuffledp.numerics.ball import LARGEST, precision, round_down, round_up

Atoms = Sequence[tuple[arb, arb]]
FLOAT_VIEW_BITS = 96
"""Enough to round each value and weight correctly to a float, but for values that nearly cancel."""
MOST_VIEW_BITS, VIEW_WIDTH = 16 * FLOAT_VIEW_BITS, 1e-3
"""How far the precision is raised for these, and the relative width with which they are told; what is not, is 0."""


@dataclass(frozen=True)
class FiniteLaw:
    """The law of a random variable G with finitely many values.

    ``atoms()`` returns pairs (value, weight) as balls at the working precision in force when it is called, so
    that a computation that needs more digits can ask again. The weights sum to 1 and none is exactly 0.
    """

    atoms: Callable[[], Atoms]

    def floats(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Values and weights rounded to floats, for planning and searching only."""
        return self._floats

    @cached_property
    def may_rise(self) -> bool:
        """Whether some value is not certainly at most 0."""
        with precision(FLOAT_VIEW_BITS):
            return any(not value <= 0 for value, _ in self.atoms())

    @cached_property
    def _floats(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        bits = FLOAT_VIEW_BITS
        while True:
            with precision(bits):
                pairs = self.atoms()
                if bits >= MOST_VIEW_BITS or all(_is_told(value) for value, _ in pairs):
                    break
            bits *= 4
        values = np.array([float(value.mid()) if _is_told(value) else 0.0 for value, _ in pairs])
        values = np.clip(values, -LARGEST, LARGEST)
        weights = np.array([float(weight.mid()) for _, weight in pairs])
        return values, weights


def _is_told(value: arb) -> bool:
    """Whether its sign and its size are known: a value of the wrong sign would send a search after nothing."""
    return bool(value.rad() <= abs(value.mid()) * VIEW_WIDTH)


def from_the_top(atoms: Atoms) -> list[tuple[arb, arb]]:
    """Atoms by value, largest first; by the exact midpoints, because two values may round to one float."""
    return sorted(atoms, key=lambda atom: atom[0].mid().fmpq(), reverse=True)


@dataclass(frozen=True)
class Bracket:
    """A certified enclosure lower ≤ x ≤ upper of one non-negative real number, and the route that gave it."""

    lower: arb
    upper: arb
    route: str

    def scaled(self, divisor: int) -> Bracket:
        return Bracket(self.lower / divisor, self.upper / divisor, self.route)

    def relative_width(self) -> float:
        """About (upper − lower)/upper, 0 where both are 0."""
        return float((self.upper - self.lower) / self.upper) if self.upper > 0 else 0.0

    def upper_float(self) -> float:
        return round_up(self.upper)

    def lower_float(self) -> float:
        return max(0.0, round_down(self.lower))

    def log_upper(self) -> float:
        """A float near log(upper), for steering a search; minus infinity at 0."""
        return float(self.upper.log().mid()) if self.upper > 0 else -math.inf

    def log_lower(self) -> float:
        return float(self.lower.log().mid()) if self.lower > 0 else -math.inf
