"""A finite law in floats under exponential tilting: cumulants and saddle points, for planning."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from shuffledp.array import Floats
from shuffledp.numerics.finite_law import FiniteLaw
from shuffledp.numerics.root import find_crossing

LOWEST = -1e60
LARGEST_EXPONENT = 1023
FAR_OFF = 0.1
"""A saddle point whose logarithm is off by more is looked for again."""


class TiltedLaw:
    """The law in floats, scaled, with its cumulant function."""

    def __init__(self, law: FiniteLaw, count: int) -> None:
        values, weights = law.floats()
        positive = float(values.max())
        self.scale = 2.0 ** min(math.ceil(math.log2(positive)), LARGEST_EXPONENT) if positive > 0 else 1.0
        # Far below, a value's weight vanishes under any tilt that matters; clipping keeps squares finite.
        with np.errstate(over="ignore"):
            self.values = np.maximum(values / self.scale, LOWEST)
        self.below_top = self.values - self.values.max()
        self.weights = weights
        self.count = count

    def log_moments(self, t: Floats) -> Floats:
        """count·log M(t) for many t > 0; near M = 1 from M − 1, so that count may be large."""
        excess = np.expm1(np.minimum(np.multiply.outer(t, self.values), 1.0)) @ self.weights
        shifted = np.exp(np.multiply.outer(t, self.below_top)) @ self.weights
        large = t * self.values.max() + np.log(shifted)
        near = (t * self.values.max() <= 1.0) & (excess > -0.5)
        return np.asarray(self.count * np.where(near, np.log1p(np.maximum(excess, -0.5)), large))

    def log_moment(self, t: float) -> float:
        """count·log M(t)."""
        return float(self.log_moments(np.array([t]))[0])

    def tilt_weights(self, t: float) -> Floats:
        tilted = self.weights * np.exp(t * self.below_top)
        return np.asarray(tilted / tilted.sum())

    @cached_property
    def peak(self) -> float:
        """The saddle without smoothing."""
        return self.saddle(0.0)

    def saddle(self, variance: float) -> float:
        """The minimum of count·log M(t) + variance·t²/2 − 2·log t over t > 0, where the integrand peaks."""

        def slope(log_t: float) -> float:
            t = math.exp(log_t)
            mean = float(np.dot(self.tilt_weights(t), self.values))
            return self.count * t * mean + variance * t * t - 2.0

        # To second order in t the sum has mean n·m and variance n·v, which gives t and the slope near it.
        m, v = float(np.dot(self.weights, self.values)), float(np.dot(self.weights, self.values**2))
        guess = (math.sqrt(m * m + 8 * v / self.count) - m) / (2 * v) if v > 0 else 1.0
        steepness = self.count * guess * (m + 2 * guess * v)
        if not (0.0 < guess < math.inf and 0.0 < steepness < math.inf):
            guess, steepness = 1.0, 2.0
        crossing = find_crossing(
            slope, -80.0, 80.0, guess=math.log(guess), slope=max(2.0, steepness), relative=0.0, absolute=1e-3
        )
        found = math.exp(crossing.above if math.isinf(crossing.f_below) else crossing.middle)
        if self._off(found, slope(math.log(found))) <= FAR_OFF:
            return found
        # Where very rare values decide, that slope is far too steep and the search stops at once.
        return math.exp(find_crossing(slope, -80.0, 80.0, relative=0.0, absolute=1e-3).middle)

    def _off(self, t: float, slope: float) -> float:
        """About how far log t is from the minimum, by the slope there and the curvature."""
        weights = self.tilt_weights(t)
        spread = self.values - float(np.dot(weights, self.values))
        return abs(slope) / max(2.0, self.count * t * t * float(np.dot(weights, spread**2)))
