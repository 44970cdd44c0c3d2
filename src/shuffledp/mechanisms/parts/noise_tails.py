"""How far counts and sums are off whose noise is a difference of two whole numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from shuffledp.array import Floats, Integers
from shuffledp.mechanisms.estimate import NORMAL, Tails
from shuffledp.mechanisms.parts.count_tails import SMOOTH

FINEST_RATE = 0.01
"""Finer noise than this looks the same in standard errors."""
MANY = 50.0
"""From this shape on the law is normal for all that intervals tell."""
LEFT_OUT = 1e-12
DIGITS = 4
"""Of a shape, told in this many: a standard error is then right to as many."""


@dataclass(frozen=True)
class CountNoiseTails(Tails):
    """X − Y, negative binomial with ``shape`` and ratio e^−rate each: whole numbers, two-sided.

    Where the errors of ``options`` counts are known to add up to 0, each less the mean of all of them.
    """

    shape: float
    rate: float
    options: int | None = None

    def reach(self, confidence: float) -> float:
        if self.alike >= MANY:
            return NORMAL.reach(confidence)
        shape = float(f"{self.shape:.{DIGITS}g}")
        return _reach(shape, max(self.rate, FINEST_RATE), self.options, confidence)

    def of_sum(self, parts: float) -> Tails:
        """The law of the same fourth moment."""
        return CountNoiseTails(self.alike * max(1.0, parts), self.rate)

    @property
    def alike(self) -> float:
        """The shape of a law of the same fourth moment, without other options: a part of each of theirs is in it."""
        if self.options is None:
            return self.shape
        kept, others = 1 - 1 / self.options, (self.options - 1) / self.options**4
        return self.shape * kept**2 / (kept**4 + others)

    @property
    def excess_kurtosis(self) -> float:
        ratio = math.exp(-self.rate)
        return (1 + 4 * ratio + ratio**2) / (2 * self.alike * ratio)


@dataclass(frozen=True)
class SkellamTails(Tails):
    """A difference of two Poisson numbers with this ``variance``: whole numbers, two-sided, nearly normal if large."""

    variance: float

    def reach(self, confidence: float) -> float:
        if self.variance >= SMOOTH**2:
            return NORMAL.reach(confidence)
        return _skellam_reach(float(f"{self.variance:.{DIGITS}g}"), confidence)

    def of_sum(self, parts: float) -> Tails:
        """The law of the same fourth moment."""
        return SkellamTails(self.variance * max(1.0, parts))

    @property
    def excess_kurtosis(self) -> float:
        return 1 / self.variance


@lru_cache(maxsize=1024)
def _skellam_reach(variance: float, confidence: float) -> float:
    from scipy.stats import skellam

    # Both tails beyond a whole number are alike.
    inside = int(skellam.isf((1 - confidence) / 2, variance / 2, variance / 2))
    return (inside + 0.5) / math.sqrt(variance)


@lru_cache(maxsize=1024)
def _reach(shape: float, rate: float, options: int | None, confidence: float) -> float:
    """The least number of steps that the error exceeds with at most the rest of the probability, and half a step.

    Among k options an error is ((k − 1)·Z − W)/k, Z its own noise and W that of all others together: it has steps of
    1/k, and each value of Z is met by an interval of values of W.
    """
    ratio = math.exp(-rate)
    noise, chances = _difference(shape, ratio)
    deviation = math.sqrt(2 * shape * ratio) / (1 - ratio)
    steps = 1 if options is None else options
    others = _no_others if options is None else _at_most(shape * (options - 1), ratio)
    deviation *= math.sqrt(1 - 1 / steps) if steps > 1 else 1.0
    own = max(1, steps - 1) * noise

    def held(reach: int) -> float:
        return float(chances @ (others(own + reach) - others(own - reach - 1)))

    low, high = -1, int(own[-1]) + 1
    while held(high) < confidence:
        high *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if held(middle) >= confidence else (middle, high)
    return (high + 0.5) / steps / deviation


def _difference(shape: float, ratio: float) -> tuple[Integers, Floats]:
    """The values of X − Y that count, and their probabilities."""
    from scipy.stats import nbinom

    most = int(nbinom.isf(LEFT_OUT, shape, 1 - ratio)) + 1
    chances = nbinom.pmf(np.arange(most + 1), shape, 1 - ratio)
    return np.arange(-most, most + 1), np.correlate(chances, chances, mode="full")


def _no_others(numbers: Integers) -> Floats:
    """The distribution function of 0."""
    return np.asarray(numbers >= 0, dtype=np.float64)


def _at_most(shape: float, ratio: float) -> Callable[[Integers], Floats]:
    """The distribution function of X − Y; normal where the shape is large."""
    if shape >= MANY:
        from scipy.special import ndtr

        deviation = math.sqrt(2 * shape * ratio) / (1 - ratio)
        return lambda numbers: np.asarray(ndtr((numbers + 0.5) / deviation))
    values, chances = _difference(shape, ratio)
    summed = np.concatenate([[0.0], np.cumsum(chances)])
    return lambda numbers: summed[np.clip(numbers - values[0] + 1, 0, len(values))]
