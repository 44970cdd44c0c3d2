"""An estimate from messages, and how far it may be off: standard error and confidence interval."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from shuffledp import argument
from shuffledp.array import Floats


class Tails(ABC):
    """The law of an estimate's error, and the confidence interval that follows from it."""

    @abstractmethod
    def reach(self, confidence: float) -> float:
        """How many standard errors hold the error with at least this probability."""

    def limits(self, value: Floats, variance: Floats, users: int, confidence: float) -> tuple[Floats, Floats]:
        """The confidence interval of each component; even about the estimate unless a law says otherwise."""
        del users
        margin = self.reach(confidence) * np.sqrt(np.maximum(variance, 0.0))
        return value - margin, value + margin

    def some(self, places: Any) -> Tails:
        """Those of the components in these places."""
        del places
        return self

    def moved(self, scale: float | Floats, shift: float | Floats) -> Tails:
        """Those of scale·estimate + shift; the same where the law is told in standard errors."""
        del scale, shift
        return self

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
class RowTails(Tails):
    """The tails of each row of an estimate."""

    rows: tuple[Tails, ...]

    def reach(self, confidence: float) -> float:
        return max(row.reach(confidence) for row in self.rows)

    @property
    def excess_kurtosis(self) -> float:
        return max(row.excess_kurtosis for row in self.rows)

    def limits(self, value: Floats, variance: Floats, users: int, confidence: float) -> tuple[Floats, Floats]:
        rows = zip(self.rows, value, variance, strict=True)
        low, high = zip(*(row.limits(own, spread, users, confidence) for row, own, spread in rows), strict=True)
        return np.array(low), np.array(high)


@dataclass(frozen=True)
class JoinedTails(Tails):
    """The tails of several estimates in one row, of so many numbers each."""

    parts: tuple[Tails, ...]
    sizes: tuple[int, ...]

    def of_sum(self, parts: float) -> Tails:
        """Of any of them: those that reach the farthest."""
        return max((part.of_sum(parts) for part in self.parts), key=lambda tails: tails.reach(0.95))

    def reach(self, confidence: float) -> float:
        """That of all of them together: the longest."""
        return max(part.reach(confidence) for part in self.parts)

    @property
    def excess_kurtosis(self) -> float:
        return max(part.excess_kurtosis for part in self.parts)

    def limits(self, value: Floats, variance: Floats, users: int, confidence: float) -> tuple[Floats, Floats]:
        ends = np.cumsum(self.sizes)[:-1]
        parts = zip(self.parts, np.split(value, ends), np.split(variance, ends), strict=True)
        low, high = zip(*(part.limits(own, spread, users, confidence) for part, own, spread in parts), strict=True)
        return np.concatenate(low), np.concatenate(high)

    def moved(self, scale: float | Floats, shift: float | Floats) -> Tails:
        ends = np.cumsum(self.sizes)[:-1]
        numbers = (np.split(np.broadcast_to(each, sum(self.sizes)), ends) for each in (scale, shift))
        parts = zip(self.parts, *numbers, strict=True)
        return JoinedTails(tuple(part.moved(by, to) for part, by, to in parts), self.sizes)

    def some(self, places: Any) -> Tails:
        return PickedTails(self, tuple(np.arange(sum(self.sizes))[places].tolist()))


@dataclass(frozen=True)
class PickedTails(Tails):
    """The tails of the components of the ``whole`` in these places."""

    whole: JoinedTails
    places: tuple[int, ...]

    def reach(self, confidence: float) -> float:
        return self.whole.reach(confidence)

    @property
    def excess_kurtosis(self) -> float:
        return self.whole.excess_kurtosis

    def limits(self, value: Floats, variance: Floats, users: int, confidence: float) -> tuple[Floats, Floats]:
        places, values, variances = list(self.places), *np.zeros((2, sum(self.whole.sizes)))
        values[places], variances[places] = value, variance
        low, high = self.whole.limits(values, variances, users, confidence)
        return low[places], high[places]


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
        low, high = self.interval(confidence)
        return np.asarray((high - low) / 2)

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """A two-sided confidence interval, per component; not always even about the estimate."""
        level = argument.open_probability("interval", "confidence", confidence, up=True)
        return self.tails.limits(self.value, self.variance, self.users, level)

    def margin_towards(self, truth: Floats, confidence: float = 0.95) -> Floats:
        """How far the interval reaches from the estimate in the direction of ``truth``, per component."""
        low, high = self.interval(confidence)
        return np.where(truth < self.value, self.value - low, high - self.value)

    def moved(self, scale: float | Floats, shift: float | Floats = 0.0) -> Estimate:
        """scale·estimate + shift, per component."""
        value = np.asarray(shift + self.value * scale)
        return Estimate(value, self.variance * scale**2, self.users, self.tails.moved(scale, shift))

    def some(self, places: Any) -> Estimate:
        """The components in these places."""
        return Estimate(self.value[places], self.variance[places], self.users, self.tails.some(places))
