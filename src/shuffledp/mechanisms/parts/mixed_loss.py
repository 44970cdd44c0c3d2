"""What split and mixed messages tell: the sum with its noise, and a little that mixing leaves."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from flint import arb

from shuffledp.array import Floats
from shuffledp.numerics.ball import precision, rational, round_down, round_up
from shuffledp.numerics.polya import PolyaDifferenceLaw
from shuffledp.privacy.near_loss import FARTHEST, distance_part, turning_point
from shuffledp.privacy.own_loss import Facts, OwnLoss
from shuffledp.privacy.record import Record

BITS = 160
SUMMING = 1e-9
"""More than what a sum of positive floats is off, relative to it, however many there are."""
FLOAT = 1e-14
"""More than what e^ε is off as a float."""


class SummedNoise(Record, ABC):
    """Noise of a sum, or of a vector of sums: its privacy curve for the largest change by one user."""

    @property
    @abstractmethod
    def theorem(self) -> str:
        """What its values are proved by."""

    @property
    def largest(self) -> float:
        """An ε from which δ is 0; infinity where there is none."""
        return math.inf

    @abstractmethod
    def delta(self, epsilon: float) -> tuple[float, float]:
        """Certified upper and lower values of δ, for both directions; equal but for rounding where it is exact."""

    @abstractmethod
    def deviation(self) -> float:
        """About the standard deviation of the loss."""

    @abstractmethod
    def facts(self) -> Facts:
        """Its kind and its numbers, for a second proof."""


@dataclass(frozen=True)
class LaplaceSum(SummedNoise):
    """Discrete Laplace noise, P(z) = (1−q)/(1+q)·q^|z|, q = e^−rate, on a sum that one user moves by up to ``shift``.

    Theorem: with t the last z whose loss rate·(|z−s| − |z|) is above ε, s = shift, δ(ε) = P(z ≤ t) − e^ε·P(z ≤ t−s) =
    (1 + q − q^(t+1) − e^(ε−rate·s)·q^−t)/(1+q) for 0 ≤ t < s, and 0 for ε ≥ rate·s. Any t gives a lower value.
    """

    rate: Fraction
    shift: int

    @property
    def theorem(self) -> str:
        return "discrete Laplace noise"

    @cached_property
    def largest(self) -> float:
        with precision(BITS):
            return round_up(arb(rational(self.rate * self.shift)))

    def delta(self, epsilon: float) -> tuple[float, float]:
        most = self.rate * self.shift
        if Fraction(epsilon) >= most:
            return 0.0, 0.0
        # z ≤ t where 2z < s − ε/rate; exact.
        last = math.ceil((self.shift - Fraction(epsilon) / self.rate) / 2) - 1
        with precision(BITS):
            rate = arb(rational(self.rate))
            q, power = (-rate).exp(), (-rate * last).exp()
            value = (1 + q - q * power - (arb(rational(Fraction(epsilon) - most)) + rate * last).exp()) / (1 + q)
            return max(0.0, round_up(value)), max(0.0, round_down(value))

    def deviation(self) -> float:
        return float(self.rate * self.shift)

    def facts(self) -> Facts:
        return {"kind": "laplace", "rate": self.rate, "shift": Fraction(self.shift)}


@dataclass(frozen=True)
class PartialLaplaceSum(SummedNoise):
    """What is left of discrete Laplace noise if a share ``shape`` < 1 of those who add it take part.

    Theorem: differences of negative binomials of this shape; δ(ε) = Σ_z (P(z) − e^ε·P(z−s))₊ over a table of the law,
    and all that is beyond the table. The law is symmetric, so both directions are equal; a smaller shift is the
    same with less, as P falls on either side of 0.
    """

    rate: Fraction
    shift: int
    shape: Fraction

    @property
    def theorem(self) -> str:
        return "differences of negative binomials"

    @cached_property
    def _tables(self) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats], float] | None:
        """P(z) above and P(z−s) below, and the other way round, where P is not nothing; and what is beyond."""
        law = PolyaDifferenceLaw(self.rate, self.shape)
        table = law.table()
        if table is None:
            return None
        upper, lower = table
        high, low = (_around(upper), _moved(lower, self.shift)), (_around(lower), _moved(upper, self.shift))
        return high, low, law.beyond(len(upper) - 1)

    @property
    def known(self) -> bool:
        """Whether the table of the law is not too long."""
        return self._tables is not None

    def delta(self, epsilon: float) -> tuple[float, float]:
        if self._tables is None:
            return 1.0, 0.0
        high, low, beyond = self._tables
        ratio = math.exp(min(epsilon, 700.0))
        # The table's own margin is wider than what subtracting floats loses.
        most = _excess(*high, ratio * (1 - FLOAT)) * (1 + SUMMING) + beyond
        least = _excess(*low, ratio * (1 + FLOAT)) * (1 - SUMMING) - beyond * (1 + ratio)
        return min(1.0, most), max(0.0, least)

    def deviation(self) -> float:
        return float(self.rate * self.shift)

    def facts(self) -> Facts:
        return {
            "kind": "polya", "rate": self.rate, "shift": Fraction(self.shift), "shape": self.shape,
            "sums": Fraction(1),
        }  # fmt: skip


def _around(table: Floats) -> Floats:
    """A symmetric law of z = −reach … reach from that of z = 0 … reach."""
    return np.concatenate([table[:0:-1], table])


def _moved(table: Floats, shift: int) -> Floats:
    """The same moved by ``shift``; 0 where the table does not tell."""
    reach = len(table) - 1
    places = np.abs(np.arange(-reach, reach + 1) - shift)
    return np.where(places <= reach, table[np.minimum(places, reach)], 0.0)


def _excess(first: Floats, second: Floats, ratio: float) -> float:
    """Σ_z (P(z) − ratio·Q(z))₊."""
    gap = second * -ratio
    gap += first
    return float(np.maximum(gap, 0.0, out=gap).sum())


@dataclass(frozen=True)
class SplitSums:
    """``sums`` sums, whose numbers ``owners`` users split into ``places`` + 1 shares each, modulo ``base``."""

    owners: int
    places: int
    base: int
    sums: int = 1

    def facts(self) -> Facts:
        numbers = {"owners": self.owners, "places": self.places, "base": self.base, "sums": self.sums}
        return {name: Fraction(number) for name, number in numbers.items()}


@dataclass(frozen=True)
class MixedLoss(OwnLoss):
    """The loss of ``noise``, and the distance η (``distance``) of the messages to ones made from the noisy sum alone.

    Theorem: δ(ε) = δ_noise(ε) + (1 + e^ε)·η (``distance_part``), where what is made from the noisy sums has δ_noise. As
    δ falls with ε, a smaller ε's value holds too.
    """

    noise: SummedNoise
    distance: float
    shares: str
    """What the messages are, for the note."""
    wraps: float = 1.0
    """The chance that the sum wraps around, where the noise is exactly this and not more: below 1 it is an attack."""
    mixing: SplitSums | None = None
    """What the distance follows from, where that is told."""

    @property
    def theorem(self) -> str:
        return f"split and mix: δ of {self.noise.theorem} + (1 + e^ε)·η of mixing"

    @property
    def note(self) -> str:
        return f"Mixing: {self.shares} are within η = {self.distance:.3g} of ones that tell the noisy sum alone."

    def parts(self, epsilon: float) -> tuple[float, float]:
        """Certified upper values of the noise's δ, and of what mixing adds to it."""
        return self.noise.delta(epsilon)[0], distance_part(self.distance, epsilon)

    @property
    def attained(self) -> bool:
        """Whoever knows everybody else's value takes it off the sum, and is left with the noise: at least its δ.

        The noise is read modulo N: where it hardly wraps around, hardly less than the noise itself is seen.
        """
        return self.wraps < 1.0

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        values = [self._at(float(one)) for one in epsilons]
        return np.array([high for high, _ in values]), np.array([low for _, low in values])

    def _at(self, epsilon: float) -> tuple[float, float]:
        near = min(epsilon, self._turn)
        high, mixing = self.parts(near)
        upper = min(1.0, math.nextafter(high + mixing, math.inf))
        if not self.attained:
            return upper, min(1.0, self.noise.delta(near)[1] + mixing * (1 - SUMMING))
        lost = (1 + math.exp(min(epsilon, 700.0))) * self.wraps * (1 + SUMMING)
        return upper, max(0.0, self.noise.delta(epsilon)[1] - lost) * (1 - SUMMING)

    @cached_property
    def _turn(self) -> float:
        """About where the sum is least (it is convex in e^ε); beyond, its value is taken: sound wherever that is."""
        return turning_point(lambda epsilon: sum(self.parts(epsilon)), min(self.noise.largest, FARTHEST))

    def deviation(self) -> float:
        return self.noise.deviation()

    def facts(self) -> Facts | None:
        if self.mixing is None:
            return None
        return {"kind": "mixed", **self.mixing.facts(), "noise": self.noise.facts()}
