"""The difference of two independent negative binomial numbers of one shape: its law, enclosed, and its tails."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import arb

from shuffledp.array import Floats
from shuffledp.numerics.ball import precision, rational, round_up

BITS = 128
MARGIN = 1 << 40
"""A probability of a table is known to one part in this; the enclosure is far narrower, and checked."""
CONTRACTION = 48.0
"""Ratios are followed from so many mean sizes beyond the last one that is wanted: e^-96 is left of what is unknown."""
MOST_VALUES = 1 << 19


@dataclass(frozen=True)
class PolyaDifferenceLaw:
    """Z = X − Y, where X and Y are negative binomial of shape a and ratio q = e^−rate: P(X = i) ∝ C(i+a−1, i)·q^i."""

    rate: Fraction
    shape: Fraction

    def tail(self, beyond: float) -> arb:
        """An upper bound of P(|Z| ≥ beyond), for beyond > 0.

        Theorem: Markov's inequality for e^(θZ), whose mean is ((1−q)²/((1−q·e^θ)(1−q·e^−θ)))^a, 0 < θ < rate.
        """
        rate, shape = float(self.rate), float(self.shape)
        theta = (math.hypot(shape, beyond * rate) - shape) / beyond
        theta = min(theta, rate * (1 - 2.0**-40))
        with precision(BITS):
            ball, by = arb(rational(self.rate)), arb(theta)
            below = (by - ball).expm1() * (-by - ball).expm1()
            mean = ((-ball).expm1() ** 2 / below) ** arb(rational(self.shape))
            bound: arb = 2 * mean * (-by * arb(beyond)).exp()
            return bound.upper() if bound <= 1 else arb(1)

    def table(self) -> tuple[Floats, Floats] | None:
        """Upper and lower values of P(Z = z) for z = 0 … reach, P(|Z| > reach) < 2^-79; None where that is too long.

        Requires: shape ≤ 1.
        """
        reach = math.ceil(56.0 / float(self.rate))
        return None if reach > MOST_VALUES else _table(self, reach)

    def beyond(self, reach: int) -> float:
        """An upper bound of P(|Z| > reach), for shape ≤ 1: X is at most geometric in law, P(X > r) ≤ q^(r+1)."""
        with precision(BITS):
            return round_up(2 * arb(rational(-self.rate * (reach + 1))).exp())


@lru_cache(maxsize=8)
def _table(law: PolyaDifferenceLaw, reach: int) -> tuple[Floats, Floats]:
    """By the ratios R_z = P(z+1)/P(z), from the last to the first.

    Theorem: the generating function G(w) = ((1−qw)(1−q/w))^−a satisfies (1+q²−q(w+1/w))·wG' = a·q·(w−1/w)·G, hence
    q(z+1−a)·P(z+1) = (1+q²)·z·P(z) − q(z−1+a)·P(z−1), and R_(z−1) = q(z−1+a)/((1+q²)z − q(z+1−a)·R_z). For a ≤ 1 the
    law of X does not grow, so that 0 ≤ R ≤ 1; and R_(z−1) grows with R_z, so that the ends are followed,
    which come nearer to each other by q² each step.
    """
    with precision(BITS):
        ratio, shape = (-arb(rational(law.rate))).exp(), arb(rational(law.shape))
        first = reach + math.ceil(CONTRACTION / float(law.rate)) + 4
        centre = 1 + ratio * ratio
        ratios, low, high = [], arb(0), arb(1)
        for z in range(first, 0, -1):
            above, whole, factor = ratio * (z - 1 + shape), centre * z, ratio * (z + 1 - shape)
            low, high = above / (whole - factor * low), above / (whole - factor * high)
            if z <= reach:
                ratios.append(low.union(high))
        powers = [arb(1)]
        for one in reversed(ratios):
            powers.append(powers[-1] * one)
        total = 2 * sum(powers, arb(0)) - 1
        outside = arb(law.beyond(reach)).union(arb(0))
        middle = (1 - outside) / total
        values = [middle * power for power in powers]
        upper = np.array([float(value.mid()) for value in values]) * (1 + 1 / MARGIN)
        lower = np.array([float(value.mid()) for value in values]) * (1 - 1 / MARGIN)
        assert all(value.rad() * (2 * MARGIN) <= value.mid() for value in values), "the ratios are known well enough"
    return upper, lower
