"""An estimate from messages, and how far it may be off: standard error and confidence interval."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from shuffledp import argument
from shuffledp.array import Floats


class Tails(ABC):
    """The law of an estimate's error, in standard errors: symmetric about 0."""

    @abstractmethod
    def reach(self, confidence: float) -> float:
        """How many standard errors hold the error with at least this probability."""

    @property
    def excess_kurtosis(self) -> float:
        """How much heavier the tails are than a normal law's."""
        return 0.0

    def of_sum(self, parts: float) -> Tails:
        """Those of a weighted sum of independent errors with such tails, (Σw²)²/Σw⁴ of which count; no lighter."""
        del parts
        return self


@dataclass(frozen=True)
class NormalTails(Tails):
    """The error of a sum over many users."""

    def reach(self, confidence: float) -> float:
        return NormalDist().inv_cdf(0.5 + confidence / 2)


@dataclass(frozen=True)
class LaplaceTails(Tails):
    """The error of Laplace noise: P(|error| > x standard errors) = e^(−√2·x)."""

    def reach(self, confidence: float) -> float:
        return -math.log1p(-confidence) / math.sqrt(2.0)

    @property
    def excess_kurtosis(self) -> float:
        return 3.0


NORMAL = NormalTails()


@dataclass(frozen=True)
class Estimate:
    """An unbiased estimate, its estimated variance, and how many users stand behind it.

    ``value`` and ``variance`` have one number for each option, coordinate or whatever else is estimated. ``tails`` is
    the law of the error, normal unless one person's or the shuffler's noise is what is left of it.

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
    tails: Tails = NORMAL

    @property
    def standard_error(self) -> Floats:
        return np.sqrt(np.maximum(self.variance, 0.0))

    def margin(self, confidence: float = 0.95) -> Floats:
        """Half the width of the confidence interval, per component."""
        level = argument.open_probability("interval", "confidence", confidence, up=True)
        return np.asarray(self.tails.reach(level) * self.standard_error)

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """A two-sided confidence interval, per component."""
        margin = self.margin(confidence)
        return self.value - margin, self.value + margin
