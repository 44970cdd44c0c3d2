"""Estimators, from messages to an estimate, and estimates with their standard errors and confidence intervals."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np

from shuffledp._core import validation
from shuffledp._core.errors import InvalidArgument
from shuffledp._core.message_phrases import phrase
from shuffledp._core.validation import Array, Floats, Integers


class ErrorLaw(ABC):
    """Law of an estimate's error, and the confidence interval that follows from it."""

    @abstractmethod
    def critical_value(self, confidence: float) -> float:
        """Returns how many standard errors contain the error with at least this probability.

        Args:
            confidence: The probability, between 0 and 1.

        Returns:
            A multiple of the standard error.
        """

    def confidence_limits(
        self, value: Floats, variance: Floats, users: int, confidence: float
    ) -> tuple[Floats, Floats]:
        """Returns the confidence interval of each component; by default it is symmetric about the estimate.

        Args:
            value: The estimates.
            variance: Their estimated variances.
            users: Number of users.
            confidence: Confidence level, between 0 and 1.

        Returns:
            The lower and the upper limits.
        """
        del users
        margin = self.critical_value(confidence) * np.sqrt(np.maximum(variance, 0.0))
        return value - margin, value + margin

    def select(self, places: Any) -> ErrorLaw:
        """Returns the error law of some components.

        Args:
            places: Index or indices of the components.

        Returns:
            The law of these components.
        """
        del places
        return self

    def transform(self, scale: float | Floats, shift: float | Floats) -> ErrorLaw:
        """Returns the error law of scale·estimate + shift; the same if the law is stated in standard errors.

        Args:
            scale: Factor.
            shift: Summand.

        Returns:
            The law of the transformed estimate.
        """
        del scale, shift
        return self

    @property
    def excess_kurtosis(self) -> float:
        """The excess kurtosis of the error, 0 for a normal law."""
        return 0.0

    def sum_law(self, parts: float) -> ErrorLaw:
        """Returns an error law, no lighter than the true one, of a weighted sum of independent errors with this law.

        Args:
            parts: Effective number of summands, (Σw²)²/Σw⁴.

        Returns:
            The law of the sum.
        """
        del parts
        return self


@dataclass(frozen=True)
class NormalErrorLaw(ErrorLaw):
    """Normal error, as of a sum over many users."""

    def critical_value(self, confidence: float) -> float:
        return NormalDist().inv_cdf(0.5 + confidence / 2)


@dataclass(frozen=True)
class LaplaceErrorLaw(ErrorLaw):
    """Error of Laplace noise: P(|error| > x standard errors) = e^(−√2·x)."""

    def critical_value(self, confidence: float) -> float:
        return -math.log1p(-confidence) / math.sqrt(2.0)

    @property
    def excess_kurtosis(self) -> float:
        return 3.0


NORMAL = NormalErrorLaw()


@dataclass(frozen=True)
class RowwiseErrorLaw(ErrorLaw):
    """Error laws of the rows of an estimate."""

    rows: tuple[ErrorLaw, ...]

    def critical_value(self, confidence: float) -> float:
        return max(row.critical_value(confidence) for row in self.rows)

    @property
    def excess_kurtosis(self) -> float:
        return max(row.excess_kurtosis for row in self.rows)

    def confidence_limits(
        self, value: Floats, variance: Floats, users: int, confidence: float
    ) -> tuple[Floats, Floats]:
        rows = zip(self.rows, value, variance, strict=True)
        limits = [row.confidence_limits(own, spread, users, confidence) for row, own, spread in rows]
        return np.array([low for low, _ in limits]), np.array([high for _, high in limits])


@dataclass(frozen=True)
class ConcatenatedErrorLaw(ErrorLaw):
    """Error laws of several estimates joined in one row, `sizes` components each."""

    parts: tuple[ErrorLaw, ...]
    sizes: tuple[int, ...]

    def sum_law(self, parts: float) -> ErrorLaw:
        """Returns the law of a sum of any of them: the one with the widest 95% interval."""
        return max((part.sum_law(parts) for part in self.parts), key=lambda tails: tails.critical_value(0.95))

    def critical_value(self, confidence: float) -> float:
        """Returns the largest reach of all parts."""
        return max(part.critical_value(confidence) for part in self.parts)

    @property
    def excess_kurtosis(self) -> float:
        return max(part.excess_kurtosis for part in self.parts)

    def confidence_limits(
        self, value: Floats, variance: Floats, users: int, confidence: float
    ) -> tuple[Floats, Floats]:
        parts = zip(self.parts, self._split(value), self._split(variance), strict=True)
        limits = [part.confidence_limits(own, spread, users, confidence) for part, own, spread in parts]
        return np.concatenate([low for low, _ in limits]), np.concatenate([high for _, high in limits])

    def _split(self, numbers: float | Floats) -> list[Floats]:
        """Returns the numbers of each part; one number stands for all components."""
        return np.split(np.broadcast_to(numbers, sum(self.sizes)), np.cumsum(self.sizes)[:-1])

    def transform(self, scale: float | Floats, shift: float | Floats) -> ErrorLaw:
        parts = zip(self.parts, self._split(scale), self._split(shift), strict=True)
        return ConcatenatedErrorLaw(tuple(part.transform(by, to) for part, by, to in parts), self.sizes)

    def select(self, places: Any) -> ErrorLaw:
        return SelectedErrorLaw(self, tuple(np.arange(sum(self.sizes))[places].tolist()))


@dataclass(frozen=True)
class SelectedErrorLaw(ErrorLaw):
    """Error law of the components `indices` of a joined estimate."""

    full_law: ConcatenatedErrorLaw
    indices: tuple[int, ...]

    def critical_value(self, confidence: float) -> float:
        return self.full_law.critical_value(confidence)

    @property
    def excess_kurtosis(self) -> float:
        return self.full_law.excess_kurtosis

    def confidence_limits(
        self, value: Floats, variance: Floats, users: int, confidence: float
    ) -> tuple[Floats, Floats]:
        places, values, variances = list(self.indices), *np.zeros((2, sum(self.full_law.sizes)))
        values[places], variances[places] = value, variance
        low, high = self.full_law.confidence_limits(values, variances, users, confidence)
        return low[places], high[places]


@dataclass(frozen=True)
class Estimate:
    """Unbiased estimate with its estimated variance and the number of users behind it.

    Args:
        value: One number for each option, coordinate or other estimated quantity.
        variance: The estimated variance of each.
        users: Number of users.
        error_law: Law of the error; normal unless the noise of one person or of the shuffler dominates.

    Example:
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
    error_law: ErrorLaw = NORMAL

    @property
    def standard_error(self) -> Floats:
        """The square root of the variance, per component."""
        return np.sqrt(np.maximum(self.variance, 0.0))

    def margin(self, confidence: float = 0.95) -> Floats:
        """Returns half the width of the confidence interval, per component.

        Args:
            confidence: Confidence level, between 0 and 1.

        Returns:
            One number per component.

        Raises:
            TypeError: If `confidence` is not a number.
            ValueError: If `confidence` is not strictly between 0 and 1.
        """
        low, high = self.interval(confidence)
        return np.asarray((high - low) / 2)

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Returns a two-sided confidence interval per component, not always symmetric about the estimate.

        Args:
            confidence: Confidence level, between 0 and 1.

        Returns:
            The lower and the upper limits.

        Raises:
            TypeError: If `confidence` is not a number.
            ValueError: If `confidence` is not strictly between 0 and 1.
        """
        level = validation.open_probability("interval", "confidence", confidence, up=True)
        return self.error_law.confidence_limits(self.value, self.variance, self.users, level)

    def margin_towards(self, truth: Floats, confidence: float = 0.95) -> Floats:
        """Returns how far the interval reaches from the estimate in the direction of the truth, per component.

        Args:
            truth: The true values.
            confidence: Confidence level, between 0 and 1.

        Returns:
            One distance per component.

        Raises:
            TypeError: If `confidence` is not a number.
            ValueError: If `confidence` is not strictly between 0 and 1.
        """
        low, high = self.interval(confidence)
        return np.where(truth < self.value, self.value - low, high - self.value)

    def transform(self, scale: float | Floats, shift: float | Floats = 0.0) -> Estimate:
        """Returns the estimate of scale·value + shift, per component.

        Args:
            scale: Factor.
            shift: Summand.

        Returns:
            The transformed estimate.
        """
        value = np.asarray(shift + self.value * scale)
        return Estimate(value, self.variance * scale**2, self.users, self.error_law.transform(scale, shift))

    def select(self, places: Any) -> Estimate:
        """Returns the estimate of some components.

        Args:
            places: Index or indices of the components.

        Returns:
            Their estimate.
        """
        return Estimate(self.value[places], self.variance[places], self.users, self.error_law.select(places))


# --- Chosen options of a domain of any size ---


@dataclass(frozen=True, eq=False)
class SelectedOptions:
    """Chosen options, in the order of the answers; an option may occur twice.

    Args:
        options: The numbers of the options.
    """

    options: Integers

    def __len__(self) -> int:
        return len(self.options)

    @cached_property
    def _distinct(self) -> tuple[Integers, Integers]:
        """The distinct options in ascending order, and the index among them of each chosen option."""
        distinct, places = np.unique(self.options, return_inverse=True)
        return distinct, places

    def counts(self, numbers: Array) -> Integers:
        """Returns how often each chosen option occurs.

        Args:
            numbers: Numbers of options.

        Returns:
            One count per chosen option.
        """
        distinct, places = self._distinct
        nearest = np.searchsorted(distinct, numbers)
        np.minimum(nearest, len(distinct) - 1, out=nearest)
        return np.bincount(nearest[distinct[nearest] == numbers], minlength=len(distinct))[places]


# --- Influence of one user ---


@dataclass(frozen=True)
class Influence:
    """Range of the contributions of one user's messages to an estimated number.

    A contribution to a mean is stated as if the user were the only one: among n users it is an n-th of that.

    Args:
        min_contribution: Smallest contribution of any messages that the encoding admits.
        max_contribution: Largest contribution of any messages that the encoding admits.
        honest_min: Smallest mean contribution of an honest user.
        honest_max: Largest mean contribution of an honest user.
    """

    min_contribution: float
    max_contribution: float
    honest_min: float = 0.0
    honest_max: float = 1.0

    @property
    def equivalent_users(self) -> float:
        """The largest distance between a liar and an honest user, in units of the honest range."""
        return max(self.max_contribution - self.honest_min, self.honest_max - self.min_contribution) / (
            self.honest_max - self.honest_min
        )

    def scale(self, factor: float) -> Influence:
        """Returns the influence if messages count `factor` times while the honest means stay.

        Args:
            factor: The factor.

        Returns:
            The scaled influence.
        """
        return Influence(
            factor * self.min_contribution, factor * self.max_contribution, self.honest_min, self.honest_max
        )

    def include_zero(self) -> Influence:
        """Returns the influence if the messages may also concern other numbers and add nothing to this one."""
        return Influence(
            min(self.min_contribution, 0.0), max(self.max_contribution, 0.0), self.honest_min, self.honest_max
        )


# --- Estimators ---


BYTES_PER_OPTION, MAX_ESTIMATE_BYTES = 64, 1 << 32
"""Approximate memory per option while a histogram is estimated, and the most that a histogram may take (4 GiB)."""


class Estimator(ABC):
    """Estimator, from messages to an estimate. Values are in canonical form, as `InputDomain.check` returns them."""

    @abstractmethod
    def accumulate(self, messages: Array) -> Array:
        """Returns a statistic of fixed shape that is additive over batches of messages, in any order.

        Args:
            messages: A batch of messages.

        Returns:
            The statistic.
        """

    @abstractmethod
    def finish(self, total: Array, users: int) -> Estimate:
        """Returns the estimate from the accumulated statistic.

        Args:
            total: The sum of `accumulate` over all messages.
            users: Number of users who sent them.

        Returns:
            The unbiased estimate.
        """

    @abstractmethod
    def truth(self, values: Array) -> Floats:
        """Returns the estimated quantity, computed from the true values.

        Args:
            values: The true values in canonical form.

        Returns:
            One number per component.
        """

    @abstractmethod
    def variance(self, values: Array) -> Floats:
        """Returns the exact variance of the estimate per component.

        Args:
            values: The true values in canonical form.

        Returns:
            One variance per component.
        """

    def for_endpoint_values(self, estimate: Estimate) -> Estimate:
        """Returns the estimate of means if every value is known to be at an end of its range.

        Its variance may then be smaller: some estimators count the spread of values about their mean as noise.

        Args:
            estimate: The estimate for arbitrary values.

        Returns:
            The estimate for values at the ends.
        """
        return estimate

    def mean_square(self, total: Array, users: int) -> Floats | None:
        """Returns the mean square of a message's contribution to the estimate.

        Args:
            total: The sum of `accumulate` over all messages.
            users: Number of users.

        Returns:
            One number per component, or None if the statistic does not contain it.
        """
        del total, users
        return None

    def influence(self, messages: float) -> Sequence[Influence] | None:
        """Returns the influence of one user on an estimated number, for each kind of number.

        Any messages that the encoding admits count, not only those of an honest user.

        Args:
            messages: Number of messages that are accepted from one user.

        Returns:
            One influence per kind of number, or None if it is not known.
        """
        del messages
        return None

    # --- Chosen options only ---

    @property
    def option_count(self) -> int | None:
        """The number of options, if the estimate is how many users hold each; else None."""
        return None

    @property
    def full_estimate_bytes(self) -> int:
        """The approximate memory, in bytes, for an estimate of all options at once."""
        return BYTES_PER_OPTION * (self.option_count or 0)

    def select(self, selection: SelectedOptions) -> Estimator:
        """Returns the estimator of chosen options alone, with the values and variances of the full estimate.

        The default estimates all options and selects; estimators of domains of any size override it.

        Args:
            selection: The chosen options, in the order of the answers.

        Returns:
            The estimator.
        """
        return SelectedComponentsEstimator(self, selection)

    def variance_at_counts(self, held: Floats, users: float) -> Floats | None:
        """Returns the exact variance if `held` users hold each option and all others are spread evenly.

        Args:
            held: Number of users who hold each option.
            users: Number of users.

        Returns:
            One variance per option, or None if it depends on every user.
        """
        del held, users
        return None


@dataclass(frozen=True)
class SelectedComponentsEstimator(Estimator):
    """Estimator of the selected components of `full_estimator`."""

    full_estimator: Estimator
    selection: SelectedOptions

    @property
    def option_count(self) -> int:
        return len(self.selection)

    def accumulate(self, messages: Array) -> Array:
        return self.full_estimator.accumulate(messages)

    def finish(self, total: Array, users: int) -> Estimate:
        return self.full_estimator.finish(total, users).select(self.selection.options)

    def truth(self, values: Array) -> Floats:
        return self.full_estimator.truth(values)[self.selection.options]

    def variance(self, values: Array) -> Floats:
        return self.full_estimator.variance(values)[self.selection.options]

    def influence(self, messages: float) -> Sequence[Influence] | None:
        return self.full_estimator.influence(messages)


class SimulableEstimator(Estimator):
    """Estimator whose estimate can be drawn by its law, without drawing messages."""

    @abstractmethod
    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        """Draws an estimate.

        Args:
            held: Number of users who hold each option.
            users: Number of users.
            rng: Generator of the simulation.

        Returns:
            The estimate.
        """


class SelectedOptionsEstimator(SimulableEstimator):
    """Estimator of the counts of chosen options, with memory independent of the size of the domain.

    `simulate` takes how many users hold each of the chosen options.
    """

    selection: SelectedOptions

    @property
    def option_count(self) -> int:
        return len(self.selection)

    def truth(self, values: Array) -> Floats:
        return self.selection.counts(values.reshape(-1)).astype(np.float64)

    def variance(self, values: Array) -> Floats:
        return self.variance_at_counts(self.truth(values), len(values))

    @abstractmethod
    def variance_at_counts(self, held: Floats, users: float) -> Floats: ...


class KnownCovarianceEstimator(ABC):
    """Estimator with exactly known covariances of its components, so that sums of them have a known error."""

    @abstractmethod
    def combined_variance(self, weights: Floats, held: Floats, users: int) -> Floats:
        """Returns the exact variance of Σ weights·estimate.

        Args:
            weights: One row of weights per sum.
            held: Number of users who hold each value.
            users: Number of users.

        Returns:
            One variance per row.
        """


def check_memory(who: str, options: int, size: int) -> None:
    """Raises ValueError if an estimate of all options takes more than `MAX_ESTIMATE_BYTES` of memory."""
    if size > MAX_ESTIMATE_BYTES:
        raise InvalidArgument(
            who,
            f"all {options:,} options at once would take {size:,} bytes, where {MAX_ESTIMATE_BYTES:,} are the most",
            hint=phrase("ask for some of them, by {options=[…]}"),
        )
