"""How far an estimate is off whose error is a difference of two negative binomial numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from shuffledp.mechanisms.estimate import NORMAL, Tails

FINEST_RATE = 0.01
"""Finer noise than this looks the same in standard errors."""
MANY = 50.0
"""From this shape on the law is normal for all that intervals tell."""
LEFT_OUT = 1e-12


@dataclass(frozen=True)
class CountNoiseTails(Tails):
    """X − Y, negative binomial with ``shape`` and ratio e^−rate each: whole numbers, two-sided."""

    shape: float
    rate: float

    def reach(self, confidence: float) -> float:
        if self.shape >= MANY:
            return NORMAL.reach(confidence)
        return _reach(round(self.shape, 6), max(self.rate, FINEST_RATE), confidence)

    def of_sum(self, parts: float) -> Tails:
        """The law of the same fourth moment."""
        return CountNoiseTails(self.shape * max(1.0, parts), self.rate)

    @property
    def excess_kurtosis(self) -> float:
        ratio = math.exp(-self.rate)
        return (1 + 4 * ratio + ratio**2) / (2 * self.shape * ratio)


@lru_cache(maxsize=256)
def _reach(shape: float, rate: float, confidence: float) -> float:
    """The least whole number that |X − Y| exceeds with at most the rest of the probability, and half a step."""
    from scipy.stats import nbinom

    ratio = math.exp(-rate)
    most = int(nbinom.isf(LEFT_OUT, shape, 1 - ratio)) + 1
    chances = nbinom.pmf(np.arange(most + 1), shape, 1 - ratio)
    difference = np.correlate(chances, chances, mode="full")[most:]
    outside = 2 * np.cumsum(difference[::-1])[::-1]
    # Of whole numbers above m there are outside[m + 1].
    inside = int(np.argmax(np.append(outside[1:], 0.0) <= 1 - confidence))
    deviation = math.sqrt(2 * shape * ratio) / (1 - ratio)
    return (inside + 0.5) / deviation
