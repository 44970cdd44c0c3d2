"""Noise on every coordinate of a vector of sums: what one user adds, how far it goes, and its privacy curve."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction

from flint import arb

from shuffledp.errors import NotApplicable
from shuffledp.mechanisms.parts.mixed_loss import PartialLaplaceSum, SummedNoise
from shuffledp.mechanisms.parts.skellam_sum import SkellamSum, skellam_tail
from shuffledp.numerics.ball import precision, rational, round_up
from shuffledp.numerics.polya import PolyaDifferenceLaw
from shuffledp.privacy.own_loss import Facts
from shuffledp.privacy.record import Record
from shuffledp.sampling.divided_noise import PolyaDifference, SkellamDifference

BALL, BOX = "ball", "box"
SKELLAM, LAPLACE = "skellam", "laplace"
FLOATS = Fraction(1, 1 << 30)
"""More than what the floats of a vector may be too long, relative to its length."""
BITS = 128


@dataclass(frozen=True)
class VectorChange:
    """How far one user moves sums of vectors that are rounded at random to whole numbers near k·x, x from −1 to 1.

    ``levels``: k. ``shape``: vectors of length at most 1, or any of a box. Each of two rounded vectors is at most
    k·r + √d long, r the length of the longest vector, and k·√d in any case; no coordinate is above k.
    """

    levels: int
    dimension: int
    shape: str

    @property
    def root(self) -> Fraction:
        """√d, a hair above."""
        return Fraction(math.isqrt(self.dimension << 80) + 1, 1 << 40)

    @property
    def length(self) -> Fraction:
        """Δ₂, at most."""
        most = self.levels * self.root
        return 2 * (most if self.shape == BOX else min(self.levels * (1 + FLOATS) + self.root, most))

    @property
    def total(self) -> Fraction:
        """Δ₁, at most: the sum of the sizes of all changes."""
        return min(self.length * self.root, Fraction(2 * self.levels * self.dimension))


@dataclass(frozen=True)
class PureLaplaceVector(SummedNoise):
    """Discrete Laplace noise on every coordinate: losses are at most ε₀ = rate·Δ₁.

    Theorem: no mechanism with losses of at most ε₀ tells more than a coin does: δ(ε) ≤ (e^ε₀ − e^ε)/(1 + e^ε₀).
    """

    rate: Fraction
    total: Fraction

    @property
    def theorem(self) -> str:
        return "discrete Laplace noise on every coordinate"

    @property
    def largest(self) -> float:
        with precision(BITS):
            return round_up(arb(rational(self.rate * self.total)))

    def delta(self, epsilon: float) -> tuple[float, float]:
        most = self.rate * self.total
        if Fraction(epsilon) >= most:
            return 0.0, 0.0
        with precision(BITS):
            value = 1 - arb(rational(Fraction(epsilon) - most)).exp()
            found = round_up(value / (1 + arb(rational(-most)).exp()))
        return found, found * (1 - 1e-15)

    def deviation(self) -> float:
        return float(self.rate * self.total)

    def facts(self) -> Facts:
        return {"kind": "bounded", "largest": self.rate * self.total}


@dataclass(frozen=True)
class PartialLaplaceVector(SummedNoise):
    """What a part of the users leaves of it: every coordinate by itself, and the coordinates composed.

    Theorem: basic composition: d coordinates with (ε/d, δ) each are (ε, d·δ) together.
    """

    each: PartialLaplaceSum
    dimension: int

    @property
    def theorem(self) -> str:
        return f"{self.each.theorem} on every coordinate, composed"

    def delta(self, epsilon: float) -> tuple[float, float]:
        upper, lower = self.each.delta(epsilon / self.dimension * (1 - 1e-15))
        return min(1.0, upper * self.dimension * (1 + 1e-15)), min(1.0, lower * self.dimension)

    def deviation(self) -> float:
        return self.each.deviation() * self.dimension

    def facts(self) -> Facts:
        return self.each.facts() | {"sums": Fraction(self.dimension)}


class SharedVectorNoise(Record):
    """The noise of a coordinate's sum, of which every user adds a share."""

    @abstractmethod
    def summed(self, honest: int, change: VectorChange) -> SummedNoise:
        """What so many honest users make of it, for the largest change by one user."""

    @abstractmethod
    def draws(self) -> PolyaDifference | SkellamDifference:
        """A user's share."""

    @abstractmethod
    def variance(self) -> float:
        """Of a user's share."""

    @abstractmethod
    def tail(self, users: int, beyond: int) -> arb:
        """An upper bound of the chance that what so many users add is this far from 0."""


@dataclass(frozen=True)
class SkellamShares(SharedVectorNoise):
    """Differences of Poisson numbers; ``scale`` is the standard deviation of what ``honest`` users add."""

    scale: Fraction
    honest: int

    def _of(self, users: int) -> Fraction:
        return self.scale**2 * users / self.honest

    def summed(self, honest: int, change: VectorChange) -> SkellamSum:
        return SkellamSum(self._of(honest), change.length**2, change.total)

    def draws(self) -> SkellamDifference:
        return SkellamDifference(self._of(1) / 2)

    def variance(self) -> float:
        return float(self._of(1))

    def tail(self, users: int, beyond: int) -> arb:
        return skellam_tail(self._of(users), beyond)


@dataclass(frozen=True)
class LaplaceShares(SharedVectorNoise):
    """Differences of negative binomials: those of ``honest`` users are discrete Laplace, of rate 1/``scale``."""

    scale: Fraction
    honest: int

    def summed(self, honest: int, change: VectorChange) -> SummedNoise:
        if honest >= self.honest:
            return PureLaplaceVector(1 / self.scale, change.total)
        part = PartialLaplaceSum(1 / self.scale, 2 * change.levels, Fraction(honest, self.honest))
        if not part.known:
            raise NotApplicable(
                "own-noise", f"the noise needs {self.honest:,} honest users, got {honest:,}; plan for fewer."
            )
        return PartialLaplaceVector(part, change.dimension)

    def draws(self) -> PolyaDifference:
        return PolyaDifference(1 / self.scale, Fraction(1, self.honest))

    def variance(self) -> float:
        return 1 / (2 * math.sinh(1 / (2 * float(self.scale))) ** 2) / self.honest

    def tail(self, users: int, beyond: int) -> arb:
        return PolyaDifferenceLaw(1 / self.scale, Fraction(users, self.honest)).tail(beyond)


def shared_noise(kind: str, scale: float, honest: int) -> SharedVectorNoise:
    """The noise of this name."""
    return (SkellamShares if kind == SKELLAM else LaplaceShares)(Fraction(scale), honest)
