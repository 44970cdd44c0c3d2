"""The error of noise that is a little less than normal: shares of Laplace noise of more people than are needed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shuffledp.mechanisms.estimate import NormalTails, Tails
from shuffledp.numerics.root import find_crossing

NEARLY_NORMAL = 200.0
"""From this shape on the normal quantile is off by less than a thousandth."""
POINTS = 4001


@dataclass(frozen=True)
class GammaTails(Tails):
    """The difference of two gamma variables of this shape, in standard deviations: Laplace for 1, normal in the limit.

    It is a normal variable whose variance is a gamma variable of mean 1; quantiles by quadrature, floats.
    """

    shape: float

    def reach(self, confidence: float) -> float:
        if self.shape >= NEARLY_NORMAL:
            return NormalTails().reach(confidence)
        found = find_crossing(lambda x: (1 - confidence) - self._beyond(x), 0.0, 60.0, absolute=1e-9)
        return found.above

    def _beyond(self, x: float) -> float:
        """P(|error| > x)."""
        variances, weights = self._mixture
        return float(weights @ _erfc(x / np.sqrt(2 * variances)))

    @cached_property
    def _mixture(self) -> tuple[np.ndarray, np.ndarray]:
        """Variances evenly spaced in their logarithm, and their weights."""
        logs = np.linspace(-60.0 / min(1.0, self.shape), math.log(60.0 / self.shape + 20.0), POINTS)
        density = self.shape * (logs - np.exp(logs))
        weights = np.exp(density - density.max())
        return np.exp(logs), weights / weights.sum()


def _erfc(numbers: np.ndarray) -> np.ndarray:
    return np.array([math.erfc(number) for number in numbers])
