"""Two independent Poisson counts, one of which is one larger: their hockey-stick divergence, certified both ways."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from flint import arb

from shuffledp.array import Floats
from shuffledp.numerics.ball import precision, rational

UNIT = 2.0**-53
LEFT_OUT = 200 * math.log(2.0)
"""Counts less likely than e^−this are left out, and their chance is added."""
BITS = 128
CELLS_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class PoissonPair:
    """X and Y are Poisson of mean m: the law of (X + 1, Y) against that of (X, Y + 1).

    Theorem: the likelihood ratio at (a, b) is a/b, since P(X = a−1)/P(X = a) = a/m. So the divergence at e^ε = c is
    Σ_{x, y} P(x)P(y)(1 − c·y/(x+1))₊ = Σ_y P(y)·(Q(k_y) − c·(y/m)·Q(k_y + 1)), where k_y = ⌊c·y⌋ is the first x with
    x + 1 > c·y and Q(k) = P(X ≥ k), because P(x)/(x+1) = P(x+1)/m. Both directions are equal.
    Returns: floats. Every number is a sum of products of positive ones, off by at most the number of roundings times
    2^-53, relatively; what is left out of the law is added to the upper value.
    """

    mean: Fraction

    @cached_property
    def _window(self) -> tuple[int, Floats, Floats, float]:
        """The first count, the chances from there on, those of so many or more, and a bound of what is left out."""
        m = float(self.mean)
        # The chances fall from the mode on both sides; by Chernoff, so far away they are below the limit.
        reach = math.sqrt(2 * LEFT_OUT * m) + LEFT_OUT
        first, last, mode = max(0, math.floor(m - reach)), math.ceil(m + reach), math.floor(m)
        with precision(BITS):
            exact = arb(rational(self.mean))
            peak = float((mode * exact.log() - exact - arb(mode + 1).lgamma()).exp())
        upwards = np.cumprod(m / np.arange(mode + 1, last + 1, dtype=np.float64))
        downwards = np.cumprod(np.arange(mode, first, -1, dtype=np.float64) / m)
        chances = peak * np.concatenate([downwards[::-1], [1.0], upwards])
        at_least = np.append(np.cumsum(chances[::-1])[::-1], 0.0)
        above = float(chances[-1]) * (1 + m / (last + 1 - m))
        below = float(chances[0]) * first / max(m - first, UNIT) if first else 0.0
        return first, chances, at_least, 2 * (above + below) * (1 + 1e-6)

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Upper and lower values of the divergence at each ε."""
        chances = self._window[1]
        step = max(1, CELLS_AT_ONCE // len(chances))
        parts = [self._some(epsilons[start : start + step]) for start in range(0, len(epsilons), step)]
        upper, lower = (np.concatenate(side) for side in zip(*parts, strict=True)) if parts else (epsilons, epsilons)
        return upper, lower

    def _some(self, epsilons: Floats) -> tuple[Floats, Floats]:
        first, chances, at_least, left_out = self._window
        counts = np.arange(first, first + len(chances), dtype=np.float64)
        # An x whose sign rounding leaves open counts whatever it is: it is within 2^-50 of 0.
        factor = np.exp(np.minimum(epsilons, 700.0))[:, None]
        with np.errstate(over="ignore"):
            least = np.minimum(factor * counts * (1 - 8 * UNIT), counts[-1] + 1)
        places = np.maximum(np.floor(least) - first, 0.0).astype(np.int64)
        places = np.minimum(places, len(chances))
        plain = (chances * at_least[places]).sum(axis=1)
        moved = chances * counts / float(self.mean)
        taken = (moved * at_least[np.minimum(places + 1, len(chances))]).sum(axis=1) * factor[:, 0]
        doubt = (16 * len(chances) + 256) * UNIT * (plain + taken)
        found = plain - taken
        return np.minimum(found + doubt + left_out, 1.0), np.maximum(found - doubt - left_out, 0.0)


def log_ratio_deviation(mean: Fraction) -> float:
    """About the standard deviation of log((X + 1)/Y)."""
    return math.sqrt(2.0 / max(float(mean), 0.1))
