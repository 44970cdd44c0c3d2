"""An estimate from messages, and how far it may be off: standard error and confidence interval."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from shuffledp import argument
from shuffledp.array import Floats


@dataclass(frozen=True)
class Estimate:
    """An unbiased estimate, its estimated variance, and how many users stand behind it.

    ``value`` and ``variance`` have one number for each option, coordinate or whatever else is estimated.

    >>> import numpy as np, shuffledp as sdp
    >>> found = sdp.Estimate(np.array([120.0, 80.0]), np.array([100.0, 100.0]), users=200)
    >>> found.standard_error.tolist()
    [10.0, 10.0]
    >>> low, high = found.interval(confidence=0.95)
    >>> low.round(1).tolist(), high.round(1).tolist()
    ([100.4, 60.4], [139.6, 99.6])
    """

    value: Floats
    variance: Floats
    users: int

    @property
    def standard_error(self) -> Floats:
        return np.sqrt(np.maximum(self.variance, 0.0))

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """A two-sided normal confidence interval, per component."""
        level = argument.open_probability("interval", "confidence", confidence, up=True)
        reach = NormalDist().inv_cdf(0.5 + level / 2) * self.standard_error
        return self.value - reach, self.value + reach
