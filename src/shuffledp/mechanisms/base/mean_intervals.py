"""Confidence intervals of means, and of counts and sums whose noise is a difference of two whole numbers.

An interval of a mean holds every mean whose own error law accepts the estimate. If nearly all users hold an end of the
range, messages that say otherwise are rare and far away: an estimate that misses them by chance is too near to the end
and states an error that is too small.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from shuffledp._core.types import Floats, Integers
from shuffledp.mechanisms.base.count_intervals import MAX_LATTICE_DEVIATION, CountErrorLaw, Cumulant, to_stored_numbers
from shuffledp.mechanisms.base.estimator import NORMAL, ErrorLaw

# --- Means ---


@dataclass(frozen=True)
class MeanErrorLaw(ErrorLaw):
    """Error of the mean of numbers from `low` to `high`, treated as a count of users.

    A user with a number in between counts in part: by their share of the way from low to high.

    Args:
        count_law: Error law of the count.
        message_count: Number of messages of which the mean is taken.
        low: Lower end of the range.
        high: Upper end of the range.
    """

    count_law: CountErrorLaw
    message_count: int
    low: float = -1.0
    high: float = 1.0

    @classmethod
    def from_messages(
        cls,
        messages: int,
        second_moment: float | Floats,
        curvature: float,
        third_slope: float | Floats | None,
        step: float = 0.0,
        start: float = 0.0,
    ) -> MeanErrorLaw:
        """Returns the error law of the mean of messages with known cumulants given a value x from −1 to 1.

        Args:
            messages: Number of messages.
            second_moment: S in the variance S + c·x² of a message.
            curvature: c in the variance.
            third_slope: t in the third cumulant t·x + 2·x³ of a message; None if it is not known, which counts as 0.
            step: Step of the mean; 0 if it is continuous.
            start: Offset of the steps.

        Returns:
            The error law.
        """
        n, third = messages, Cumulant(0.0)
        if third_slope is not None:
            # With x = 2k/n − 1, and half of a message's contribution.
            slope = np.asarray(third_slope)
            third = Cumulant(
                to_stored_numbers(-n * (slope + 2) / 8), to_stored_numbers((slope + 6) / 4), -3 / n, 2 / n**2
            )
        variance = _variance(n, second_moment, curvature)
        return cls(CountErrorLaw(variance, third, step * n / 2, (start + 1) * n / 2), messages)

    def with_min_variance(self, second_moment: float, curvature: float) -> MeanErrorLaw:
        """Returns the law with a lower bound S + c·x² of the messages' variance."""
        return replace(
            self,
            count_law=replace(self.count_law, min_variance=_variance(self.message_count, second_moment, curvature)),
        )

    def variance_at_means(self, means: Floats) -> Floats:
        """Returns the variance of the estimates of these means, from −1 to 1."""
        return self.count_law.variance_at((means + 1) / 2 * self.message_count) * (2 / self.message_count) ** 2

    def select(self, places: Any) -> ErrorLaw:
        return replace(self, count_law=self.count_law.select(places))

    def for_endpoint_values(self) -> MeanErrorLaw:
        """Returns the law for users who all hold one end or the other."""
        variance, third = (
            one.to_affine(self.message_count) for one in (self.count_law.variance, self.count_law.third_cumulant)
        )
        return replace(self, count_law=replace(self.count_law, variance=variance, third_cumulant=third))

    def critical_value(self, confidence: float) -> float:
        return NORMAL.critical_value(confidence)

    def sum_law(self, parts: float) -> ErrorLaw:
        del parts
        return NORMAL

    def transform(self, scale: float | Floats, shift: float | Floats) -> ErrorLaw:
        if np.ndim(scale) or np.ndim(shift):
            return NORMAL
        return replace(self, low=float(shift + scale * self.low), high=float(shift + scale * self.high))

    def confidence_limits(
        self, value: Floats, variance: Floats, users: int, confidence: float
    ) -> tuple[Floats, Floats]:
        del users
        unit = (self.high - self.low) / self.message_count
        ends = self.count_law.confidence_limits((value - self.low) / unit, variance, self.message_count, confidence)
        first, last = (self.low + unit * end for end in ends)
        return (first, last) if unit > 0 else (last, first)


def _variance(messages: int, second_moment: float | Floats, curvature: float) -> Cumulant:
    """Returns S + c·x² of each message as the variance of a count of users.

    Here x = 2k/n − 1, and the contribution is half of a message's.
    """
    empty = to_stored_numbers(messages * (np.asarray(second_moment) + curvature) / 4)
    return Cumulant(empty, -curvature, curvature / messages)


MIN_RATE = 0.01
"""Smallest rate: finer noise looks the same in standard errors."""
MIN_NORMAL_SHAPE = 50.0
"""Shape from which on the law is normal for the purpose of intervals."""
TRUNCATED_PROBABILITY = 1e-12
SHAPE_DIGITS = 4
"""Significant digits to which a shape is rounded: a standard error is then right to as many."""


@dataclass(frozen=True)
class NegativeBinomialErrorLaw(ErrorLaw):
    """Error X − Y, X and Y negative binomial with `shape` and ratio e^−rate each: whole numbers, two-sided.

    Args:
        shape: Shape of both.
        rate: Decay rate of both.
        options: If given, the errors of so many counts are known to sum to 0, and each is reduced by the mean of all.
    """

    shape: float
    rate: float
    options: int | None = None

    def critical_value(self, confidence: float) -> float:
        if self.effective_shape >= MIN_NORMAL_SHAPE:
            return NORMAL.critical_value(confidence)
        shape = float(f"{self.shape:.{SHAPE_DIGITS}g}")
        return _count_noise_critical_value(shape, max(self.rate, MIN_RATE), self.options, confidence)

    def sum_law(self, parts: float) -> ErrorLaw:
        """Returns the law of the same fourth moment."""
        return NegativeBinomialErrorLaw(self.effective_shape * max(1.0, parts), self.rate)

    @property
    def effective_shape(self) -> float:
        """The shape of a law of the same fourth moment without the part of the other options' noise."""
        if self.options is None:
            return self.shape
        kept, others = 1 - 1 / self.options, (self.options - 1) / self.options**4
        return self.shape * kept**2 / (kept**4 + others)

    @property
    def excess_kurtosis(self) -> float:
        ratio = math.exp(-self.rate)
        return (1 + 4 * ratio + ratio**2) / (2 * self.effective_shape * ratio)


@dataclass(frozen=True)
class SkellamErrorLaw(ErrorLaw):
    """Error that is a difference of two Poisson numbers: whole, two-sided, nearly normal if the variance is large.

    Args:
        variance: Variance of the difference.
    """

    variance: float

    def critical_value(self, confidence: float) -> float:
        if self.variance >= MAX_LATTICE_DEVIATION**2:
            return NORMAL.critical_value(confidence)
        return _skellam_critical_value(float(f"{self.variance:.{SHAPE_DIGITS}g}"), confidence)

    def sum_law(self, parts: float) -> ErrorLaw:
        """Returns the law of the same fourth moment."""
        return SkellamErrorLaw(self.variance * max(1.0, parts))

    @property
    def excess_kurtosis(self) -> float:
        return 1 / self.variance


@lru_cache(maxsize=1024)
def _skellam_critical_value(variance: float, confidence: float) -> float:
    from scipy.stats import skellam

    # Both tails are alike.
    inside = int(skellam.isf((1 - confidence) / 2, variance / 2, variance / 2))
    return (inside + 0.5) / math.sqrt(variance)


@lru_cache(maxsize=1024)
def _count_noise_critical_value(shape: float, rate: float, options: int | None, confidence: float) -> float:
    """Returns the fewest steps that the error exceeds with probability at most 1 − confidence, plus half a step.

    The result is in standard errors. Among k options an error is ((k − 1)·Z − W)/k, Z its own noise and W that of all
    others together: it has steps of 1/k, and each value of Z is matched by an interval of values of W.
    """
    ratio = math.exp(-rate)
    noise, chances = _difference_probabilities(shape, ratio)
    deviation = math.sqrt(2 * shape * ratio) / (1 - ratio)
    steps = 1 if options is None else options
    others = _zero_cdf if options is None else _difference_cdf(shape * (options - 1), ratio)
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


def _difference_probabilities(shape: float, ratio: float) -> tuple[Integers, Floats]:
    """Returns the values of X − Y with non-negligible probability, and their probabilities."""
    from scipy.stats import nbinom

    most = int(nbinom.isf(TRUNCATED_PROBABILITY, shape, 1 - ratio)) + 1
    chances = nbinom.pmf(np.arange(most + 1), shape, 1 - ratio)
    return np.arange(-most, most + 1), np.correlate(chances, chances, mode="full")


def _zero_cdf(numbers: Integers) -> Floats:
    """Returns the distribution function of the constant 0."""
    return np.asarray(numbers >= 0, dtype=np.float64)


def _difference_cdf(shape: float, ratio: float) -> Callable[[Integers], Floats]:
    """Returns the distribution function of X − Y; normal if the shape is large."""
    if shape >= MIN_NORMAL_SHAPE:
        from scipy.special import ndtr

        deviation = math.sqrt(2 * shape * ratio) / (1 - ratio)
        return lambda numbers: np.asarray(ndtr((numbers + 0.5) / deviation))
    values, chances = _difference_probabilities(shape, ratio)
    summed = np.concatenate([[0.0], np.cumsum(chances)])
    return lambda numbers: summed[np.clip(numbers - values[0] + 1, 0, len(values))]
