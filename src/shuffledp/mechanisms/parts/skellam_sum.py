"""Skellam noise on a vector of sums: differences of Poisson numbers, nearly normal, and their privacy curve."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from flint import arb

from shuffledp.mechanisms.parts.mixed_loss import SummedNoise
from shuffledp.numerics.ball import precision, rational, round_down, round_up
from shuffledp.privacy.own_loss import Facts

BITS = 128
MOST_ORDER = 10**6
NEAR = 2
"""Orders on either side of the best guess that are tried."""


@dataclass(frozen=True)
class SkellamSum(SummedNoise):
    """Independent Skellam noise of variance μ on each coordinate of a sum of whole vectors.

    ``variance``: μ. ``square``: at least the square of the Euclidean length of one user's change, Δ₂². ``total``: at
    least the sum of the sizes of its coordinates, Δ₁.

    Theorem: [Agarwal, Kairouz, Liu 2021] Theorem 3.5: for every whole order α > 1 the Rényi divergence is at most
    α·Δ₂²/(2μ) + min(((2α−1)·Δ₂² + 6·Δ₁)/(4μ²), 3·Δ₁/(2μ)); and [Canonne, Kamath, Steinke 2020] Proposition 12:
    δ(ε) ≤ e^((α−1)(D_α−ε))/(α−1)·(1−1/α)^α. The least over a few whole orders near the best one.
    """

    variance: Fraction
    square: Fraction
    total: Fraction

    @property
    def theorem(self) -> str:
        return "Skellam noise [Agarwal, Kairouz, Liu 2021], by Rényi divergences"

    def divergence(self, order: int) -> Fraction:
        """The bound of the Rényi divergence at a whole order, exactly."""
        mean = self.variance
        first = ((2 * order - 1) * self.square + 6 * self.total) / (4 * mean**2)
        return order * self.square / (2 * mean) + min(first, 3 * self.total / (2 * mean))

    def delta(self, epsilon: float) -> tuple[float, float]:
        found = [self._delta(epsilon, order) for order in self._orders(epsilon)]
        return min(1.0, min(upper for upper, _ in found)), min(1.0, min(lower for _, lower in found))

    def _delta(self, epsilon: float, order: int) -> tuple[float, float]:
        with precision(BITS):
            power = arb(rational((order - 1) * (self.divergence(order) - Fraction(epsilon))))
            value = (power + order * arb(rational(Fraction(order - 1, order))).log()).exp() / (order - 1)
            return round_up(value), max(0.0, round_down(value))

    def _orders(self, epsilon: float) -> list[int]:
        """Where the logarithm of δ is least: about (α−1)(α·c + b − ε) − log α, c half the squared distance."""
        half = max(float(self.square / (2 * self.variance)), 1e-300)
        rest = max(0.0, epsilon - float(self.divergence(2) - 2 * self.square / (2 * self.variance)))
        # The derivative c·(2α − 1) − rest − 1/α = 0, by its quadratic.
        level = (half + rest) / (2 * half)
        best = (level + math.sqrt(level**2 + 2 / half)) / 2
        middle = int(min(max(best, 2.0), MOST_ORDER))
        return [order for order in range(middle - NEAR, middle + NEAR + 1) if order >= 2]

    def deviation(self) -> float:
        return math.sqrt(self.square / self.variance)

    def facts(self) -> Facts:
        return {"kind": "skellam", "variance": self.variance, "square": self.square, "total": self.total}


def skellam_tail(variance: Fraction, beyond: int) -> arb:
    """An upper bound of P(|Z| ≥ beyond) for Skellam Z of this variance v, for beyond > 0.

    Theorem: Markov's inequality for e^(θZ), whose mean is e^(v·(cosh θ − 1)).
    """
    theta = math.asinh(beyond / float(variance))
    with precision(BITS):
        by = arb(theta)
        bound: arb = 2 * (arb(rational(variance)) * (by.cosh() - 1) - by * beyond).exp()
        return bound.upper() if bound <= 1 else arb(1)
