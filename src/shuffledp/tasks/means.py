"""Tasks about numbers: the mean, sum and variance of one number per user, and the mean of one vector per user."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from shuffledp._core import validation
from shuffledp._core.validation import Array, Floats, Integers
from shuffledp.mechanisms.base.estimator import Estimate
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.tasks.base import (
    CONSISTENT,
    COORDINATES,
    NUMBERS,
    SAMPLE_SEED,
    Quantity,
    Sensitivity,
    Shape,
    Task,
    apportion,
    option_labels,
)
from shuffledp.tasks.column_reader import ColumnReader
from shuffledp.tasks.domain import (
    PLAN_PREFIX,
    TASK_PREFIX,
    Interval,
    Intervals,
    TaskOptions,
    Values,
    build_interval,
    require_domain,
)

if TYPE_CHECKING:
    import pyarrow as pa


# --- Mean ---


SAMPLE_POINTS = 1000
"""Representative numbers of an interval."""


@dataclass(frozen=True, init=False)
class Mean(Task):
    """The mean of one number per user.

    Numbers outside the interval have to be clipped before the collection.

    Args:
        low: Smallest number that a user may hold, in the users' own unit; or an ``Interval``.
        high: Largest number that a user may hold; None if ``low`` is an ``Interval``.

    Raises:
        ValueError: If ``low`` is not below ``high``, or one of them is not finite.
        TypeError: If an end is not a number, or ``high`` is given besides an ``Interval``.

    >>> Mean(0, 10).domain
    Interval(low=0.0, high=10.0)
    """

    interval: Interval

    name = "mean"
    mechanism_tasks: ClassVar[tuple[str, ...]] = ("mean", "vector mean")
    data_description = "numbers spread evenly over the interval"
    unit = "the numbers' unit"
    is_average = True
    is_numeric = True
    supports_subsampling = True
    post: ClassVar[tuple[str, ...]] = (CONSISTENT,)
    accepted_options: ClassVar[tuple[str, ...]] = ("low", "high")

    def __init__(self, low: float | Interval, high: float | None = None) -> None:
        object.__setattr__(self, "interval", build_interval(low, high))

    @property
    def domain(self) -> Values:
        return self.interval

    @property
    def mechanism_settings(self) -> Mapping[str, Any]:
        return {"dimension": 1}

    def representative_values(self, mechanism: Mechanism) -> Array:
        points = _sample_points(mechanism)
        return points if mechanism.task == Mean.name else points[:, None]

    def true_counts(self, mechanism: Mechanism, users: int) -> Integers:
        # The representative numbers, from the smallest on.
        return apportion(np.full(SAMPLE_POINTS, 1 / SAMPLE_POINTS), users)

    def compute_errors_and_margins(
        self, mechanism: Mechanism, estimate: Estimate, held: Floats, confidence: float
    ) -> tuple[Floats, Floats]:
        counted = len(held) == SAMPLE_POINTS
        truth = np.array([held @ _sample_points(mechanism) / held.sum()]) if counted else held
        return super().compute_errors_and_margins(mechanism, estimate, truth, confidence)

    def scale(self, mechanism: Mechanism) -> float:
        low, high = mechanism.value_range
        return self.interval.width / (high - low)

    def user_influence(self, users: int) -> float:
        return self.interval.width / users

    def sensitivity(self, users: int) -> Sensitivity:
        return Sensitivity(self.interval.width / users, self.interval.width / users)

    def read_values(self, column: ColumnReader, array: pa.Array) -> Any:
        if column.mechanism.task == Mean.name:
            return column.read_scaled_numbers(array, self.interval)
        return column.read_vectors(array, (self.interval,))

    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        return [self._mean_quantity(mechanism, estimate, confidence)]

    def _mean_quantity(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> Quantity:
        shape = Shape(NUMBERS, self.interval.low, self.interval.high)
        mean = rescale_estimate(self.interval, mechanism, estimate)
        return Quantity.from_estimate("mean", ["mean"], mean, confidence, shape)

    @classmethod
    def from_domain(cls, domain: Values, parameters: Mapping[str, Any]) -> Task:
        return cls(require_domain(cls.name, domain, Interval), **parameters)

    @classmethod
    def from_options(cls, given: TaskOptions) -> Task:
        return cls(given.build_interval())


def _sample_points(mechanism: Mechanism) -> Floats:
    """Returns representative numbers, spread evenly over the mechanism's range."""
    low, high = mechanism.value_range
    return np.asarray(low + (high - low) * (np.arange(SAMPLE_POINTS) + 0.5) / SAMPLE_POINTS)


def rescale_estimate(interval: Interval, mechanism: Mechanism, estimate: Estimate) -> Estimate:
    """Rescales the estimate of each coordinate from the mechanism's range to the users' interval."""
    low, high = mechanism.value_range
    scale = interval.width / (high - low)
    return estimate.transform(scale, interval.low - low * scale)


# --- Sum ---


class Sum(Mean):
    """The sum of one number per user: the mean times the number of users.

    For numbers that are 0 or 1 it counts the ones.

    Args:
        low: Smallest number that a user may hold, in the users' own unit; or an ``Interval``.
        high: Largest number that a user may hold; None if ``low`` is an ``Interval``.

    Raises:
        ValueError: If ``low`` is not below ``high``, or one of them is not finite.
        TypeError: If an end is not a number, or ``high`` is given besides an ``Interval``.

    >>> Sum(0, 10).sensitivity(users=1000).l1
    10.0
    """

    name = "sum"
    unit = "the numbers' unit, of the sum"
    is_average = False

    def user_influence(self, users: int) -> float:
        del users
        return self.interval.width

    def estimator_variance(self, mechanism: Mechanism, values: Array, variance: Floats | None = None) -> Floats:
        return np.asarray(super().estimator_variance(mechanism, values, variance) * len(values) ** 2)

    def compute_errors_and_margins(
        self, mechanism: Mechanism, estimate: Estimate, held: Floats, confidence: float
    ) -> tuple[Floats, Floats]:
        errors, margins = super().compute_errors_and_margins(mechanism, estimate, held, confidence)
        return estimate.users * errors, estimate.users * margins

    def sensitivity(self, users: int) -> Sensitivity:
        del users
        return Sensitivity(self.interval.width, self.interval.width)

    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        mean, users = rescale_estimate(self.interval, mechanism, estimate), estimate.users
        total = mean.transform(users)
        shape = Shape(NUMBERS, self.interval.low * users, self.interval.high * users)
        return [Quantity.from_estimate("sum", ["sum"], total, confidence, shape)]


# --- Variance ---


class Variance(Mean):
    """The variance of one number per user, and the mean.

    A number t, rescaled to [−1, 1], is sent as the vector (t, 2t² − 1) of a box, by any mechanism for vectors. It is
    the variance of these users' numbers, not that of a population from which they were sampled.

    Args:
        low: Smallest number that a user may hold, in the users' own unit; or an ``Interval``.
        high: Largest number that a user may hold; None if ``low`` is an ``Interval``.

    Raises:
        ValueError: If ``low`` is not below ``high``, or one of them is not finite.
        TypeError: If an end is not a number, or ``high`` is given besides an ``Interval``.

    >>> task = Variance(0, 10)
    >>> task.mechanism_settings["dimension"], f"{task.sensitivity(users=1000).l1:.4f}"
    (2, '0.0999')
    """

    name = "variance"
    mechanism_tasks = ("vector mean",)
    unit = "the numbers' unit, squared"
    supports_subsampling = False

    @property
    def mechanism_settings(self) -> Mapping[str, Any]:
        return {"dimension": 2, "shape": "box"}

    def representative_values(self, mechanism: Mechanism) -> Array:
        return _with_square(2 * (np.arange(SAMPLE_POINTS) + 0.5) / SAMPLE_POINTS - 1)

    def scale(self, mechanism: Mechanism) -> float:
        return (self.interval.width / 2) ** 2

    def user_influence(self, users: int) -> float:
        return self.sensitivity(users).l1

    def estimator_variance(self, mechanism: Mechanism, values: Array, variance: Floats | None = None) -> Floats:
        first, second = mechanism.variance(values) if variance is None else variance
        return np.array([second / 4 + 4 * mechanism.truth(values)[0] ** 2 * first])

    def sensitivity(self, users: int) -> Sensitivity:
        # (high − low)²·(n − 1)/n²: attained if all other users are at one end and one user moves from there to the
        # other end.
        change = self.interval.width**2 * (users - 1) / users**2 or self.interval.width**2
        return Sensitivity(change, change)

    def compute_errors_and_margins(
        self, mechanism: Mechanism, estimate: Estimate, held: Floats, confidence: float
    ) -> tuple[Floats, Floats]:
        variance, scale = estimate_variance(estimate), self.scale(mechanism)
        truth = (held[1] + 1) / 2 - held[0] ** 2
        return scale * (variance.value - truth), scale * variance.margin_towards(truth, confidence)

    def read_values(self, column: ColumnReader, array: pa.Array) -> Any:
        return _with_square(column.read_scaled_numbers(array, self.interval))

    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        variance = estimate_variance(estimate).transform(self.scale(mechanism))
        # The variance in an interval is largest if half of the numbers are at each end.
        shape = Shape(NUMBERS, 0.0, self.interval.width**2 / 4)
        return [
            self._mean_quantity(mechanism, estimate.select(slice(1)), confidence),
            Quantity.from_estimate("variance", ["variance"], variance, confidence, shape),
        ]


def _with_square(numbers: Floats) -> Array:
    """Returns (t, 2t² − 1) for each number of [−1, 1]."""
    return np.stack([numbers, np.clip(2 * numbers**2 - 1, -1.0, 1.0)], axis=1)


def estimate_variance(estimate: Estimate) -> Estimate:
    """Estimates the variance from estimates of the means of t and of 2t² − 1, whose errors are independent.

    The square of the estimated mean is too large by its variance on average, which is corrected. The variance of the
    result is of first order, with the second-order term of the square.
    """
    (mean, double), (first, second) = estimate.value, estimate.variance
    value = (double + 1) / 2 - mean**2 + first
    spread = second / 4 + 4 * mean**2 * first + 2 * first**2
    return Estimate(np.array([value]), np.array([spread]), estimate.users, estimate.error_law.sum_law(1.0))


SAMPLE_VECTORS = 64
"""Number of representative random vectors."""
UNIT_COORDINATE_INTERVAL = Interval(-1.0, 1.0)
"""The interval of the coordinates of a vector of length at most 1."""
BOX, BALL = "box", "ball"


# --- Means of vectors ---


@dataclass(frozen=True, init=False)
class VectorMean(Task):
    """The mean of one vector per user, in a box. For vectors of bounded length use ``UnitVectorMean``.

    Args:
        dimension: Number of coordinates.
        low: Smallest number of every coordinate; or an ``Interval``; or ``Intervals``, with an interval and a name for
            each coordinate.
        high: Largest number of every coordinate; None if ``low`` is an ``Interval`` or ``Intervals``.

    Raises:
        ValueError: If an interval is empty or not finite, or their number is not ``dimension``.
        TypeError: If an argument is of the wrong type.

    >>> VectorMean(dimension=3, low=0, high=10).to_document()
    {'name': 'vector mean', 'domain': {'low': 0.0, 'high': 10.0}, 'dimension': 3, 'shape': 'box'}
    >>> from shuffledp.tasks.domain import Intervals
    >>> VectorMean(2, Intervals((30, 170), (60, 240))).intervals[1]
    Interval(low=170.0, high=240.0)
    """

    coordinate_bounds: Interval | Intervals
    dimension: int

    name = "vector mean"
    mechanism_tasks = ("vector mean",)
    data_description = "vectors drawn uniformly"
    unit = "the numbers' unit, each coordinate"
    is_average = True
    is_numeric = True
    supports_subsampling = True
    post = (CONSISTENT,)
    shape: ClassVar[str] = BOX
    parameters = ("dimension", "shape")
    accepted_options = ("low", "high", "dimension")

    def __init__(self, dimension: float, low: float | Interval | Intervals, high: float | None = None) -> None:
        sides = low if isinstance(low, Intervals) else build_interval(low, high)
        object.__setattr__(self, "coordinate_bounds", sides)
        object.__setattr__(self, "dimension", validation.count(TASK_PREFIX, "dimension", dimension))
        if isinstance(sides, Intervals) and len(sides.low) != self.dimension:
            raise ValueError(
                f"{TASK_PREFIX}: expected an interval for each of {self.dimension} coordinates, got {len(sides.low)}."
            )

    @property
    def intervals(self) -> tuple[Interval, ...]:
        """The interval of each coordinate."""
        bounds = self.coordinate_bounds
        return bounds.intervals if isinstance(bounds, Intervals) else (bounds,) * self.dimension

    @property
    def _widths(self) -> Floats:
        return np.array([each.width for each in self.intervals])

    def _scales(self, mechanism: Mechanism) -> Floats:
        """Returns the factor of each coordinate from the mechanism's unit to the users'."""
        low, high = mechanism.value_range
        return np.asarray(self._widths / (high - low))

    @property
    def domain(self) -> Values:
        return self.coordinate_bounds

    @property
    def mechanism_settings(self) -> Mapping[str, Any]:
        return {"dimension": self.dimension, "shape": self.shape}

    def representative_values(self, mechanism: Mechanism) -> Array:
        # One vector is a corner, so that mechanisms that take only shorter vectors reject the data.
        drawn = np.random.default_rng(SAMPLE_SEED).uniform(-1.0, 1.0, (SAMPLE_VECTORS, self.dimension))
        return np.concatenate([np.ones((1, self.dimension)), drawn])

    def scale(self, mechanism: Mechanism) -> float:
        low, high = mechanism.value_range
        return float(np.sqrt(np.mean(self._widths**2))) / (high - low)

    def estimator_variance(self, mechanism: Mechanism, values: Array, variance: Floats | None = None) -> Floats:
        # In units of the root mean square width, so that the errors of all coordinates can be averaged.
        return np.asarray(
            super().estimator_variance(mechanism, values, variance) * self._widths**2 / np.mean(self._widths**2)
        )

    def compute_errors_and_margins(
        self, mechanism: Mechanism, estimate: Estimate, held: Floats, confidence: float
    ) -> tuple[Floats, Floats]:
        scales = self._scales(mechanism)
        return scales * (estimate.value - held), scales * estimate.margin_towards(held, confidence)

    def user_influence(self, users: int) -> float:
        # The root mean square over the coordinates, as for errors.
        return float(np.sqrt(np.mean(self._widths**2))) / users

    def sensitivity(self, users: int) -> Sensitivity:
        each = self._widths / users
        return Sensitivity(float(each.sum()), float(np.sqrt((each**2).sum())))

    def read_values(self, column: ColumnReader, array: pa.Array) -> Any:
        return column.read_vectors(array, self.intervals)

    def resolve_columns(self, named: tuple[str, ...]) -> tuple[str, ...]:
        # One column of lists, or one column for each coordinate.
        if len(named) > 1 and len(named) != self.dimension:
            raise ValueError(
                f"input: expected a column of lists, or one for each of {self.dimension} coordinates, got {len(named)}."
            )
        return named

    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        lows, highs = (np.array([getattr(each, end) for each in self.intervals]) for end in ("low", "high"))
        scales = self._scales(mechanism)
        means = estimate.transform(scales, lows - mechanism.value_range[0] * scales)
        labels = ["mean"] if self.dimension == 1 else option_labels(self.domain, self.dimension)
        shape = Shape(COORDINATES, lows, highs, ordered=True)
        return [Quantity.from_estimate("mean", labels, means, confidence, shape)]

    @classmethod
    def from_domain(cls, domain: Values, parameters: Mapping[str, Any]) -> Task:
        dimension, shape = parameters["dimension"], parameters["shape"]
        if isinstance(domain, Intervals) and shape == BOX:
            return VectorMean(dimension, domain)
        interval = require_domain(cls.name, domain, Interval)
        if shape == BOX:
            return VectorMean(dimension, interval)
        if shape != BALL:
            raise ValueError(f"{PLAN_PREFIX}: shape must be {BOX!r} or {BALL!r}, got {shape!r}.")
        if interval != UNIT_COORDINATE_INTERVAL:
            raise ValueError(
                f"{PLAN_PREFIX}: vectors of length at most 1 have coordinates from -1 to 1, got {interval}."
            )
        return UnitVectorMean(dimension)

    @classmethod
    def from_options(cls, given: TaskOptions) -> Task:
        if not given.low and not given.high:
            return UnitVectorMean(given.require_count("dimension"))
        if len(given.low) == 1 and len(given.high) == 1:
            return VectorMean(given.require_count("dimension"), given.build_interval())
        dimension = len(given.low) if given.dimension is None else given.dimension
        return VectorMean(dimension, Intervals(given.low, given.high, given.called or None))


@dataclass(frozen=True, init=False)
class UnitVectorMean(VectorMean):
    """The mean of one vector of length at most 1 per user.

    Args:
        dimension: Number of coordinates.

    Raises:
        ValueError: If ``dimension`` is not an integer of at least 1.
        TypeError: If it is not a number.

    >>> UnitVectorMean(dimension=100).data_description
    'vectors of length 1 in random directions'
    """

    data_description = "vectors of length 1 in random directions"
    unit = "each coordinate"
    shape: ClassVar[str] = BALL

    def __init__(self, dimension: float) -> None:
        super().__init__(dimension, UNIT_COORDINATE_INTERVAL)

    def representative_values(self, mechanism: Mechanism) -> Array:
        drawn = np.random.default_rng(SAMPLE_SEED).standard_normal((SAMPLE_VECTORS, self.dimension))
        return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))

    def sensitivity(self, users: int) -> Sensitivity:
        return Sensitivity(2.0 * math.sqrt(self.dimension) / users, 2.0 / users)
