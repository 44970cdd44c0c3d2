"""The mean of a vector per user: in a box, each coordinate from low to high, or of length at most 1."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from shuffledp import argument
from shuffledp.array import Array, Floats
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.tasks.adjustment import CONSISTENT
from shuffledp.tasks.column import Column
from shuffledp.tasks.domain import TASK, WHO, Interval, Intervals, Values, interval_of
from shuffledp.tasks.given import Given
from shuffledp.tasks.mean import Mean, demand_interval
from shuffledp.tasks.quantity import Quantity
from shuffledp.tasks.shape import COORDINATES, Shape
from shuffledp.tasks.task import SEED, Sensitivity, Task, every_label

if TYPE_CHECKING:
    import pyarrow as pa

VECTORS = 64
"""Random vectors that stand for all of them."""
WITHIN_ONE = Interval(-1.0, 1.0)
"""Where the coordinates of a vector of length at most 1 lie."""
BOX, BALL = "box", "ball"


@dataclass(frozen=True, init=False)
class VectorMean(Task):
    """The mean of a vector per user, each coordinate from low to high.

    ``dimension`` is how many coordinates a vector has; ``low`` and ``high`` are the least and the largest number of
    each, or ``low`` is an ``Interval``, or ``Intervals``, where coordinates have intervals and names of their own. For
    vectors of bounded length there is ``UnitVectorMean``.

    >>> VectorMean(dimension=3, low=0, high=10).document()
    {'name': 'vector mean', 'domain': {'low': 0.0, 'high': 10.0}, 'dimension': 3, 'shape': 'box'}
    >>> from shuffledp.tasks.domain import Intervals
    >>> VectorMean(2, Intervals((30, 170), (60, 240))).intervals[1]
    Interval(low=170.0, high=240.0)
    """

    sides: Interval | Intervals
    dimension: int

    name = "vector mean"
    kinds = ("vector mean",)
    data = "vectors drawn uniformly"
    unit = "the numbers' unit, each coordinate"
    averages = True
    numeric = True
    sampled = True
    post = (CONSISTENT,)
    shape: ClassVar[str] = BOX
    parameters = ("dimension", "shape")
    taken = ("low", "high", "dimension")

    def __init__(self, dimension: float, low: float | Interval | Intervals, high: float | None = None) -> None:
        sides = low if isinstance(low, Intervals) else interval_of(low, high)
        object.__setattr__(self, "sides", sides)
        object.__setattr__(self, "dimension", argument.count(TASK, "dimension", dimension))
        if isinstance(sides, Intervals) and len(sides.low) != self.dimension:
            raise ValueError(
                f"{TASK}: expected an interval for each of {self.dimension} coordinates, got {len(sides.low)}."
            )

    @property
    def intervals(self) -> tuple[Interval, ...]:
        """That of each coordinate."""
        return self.sides.intervals if isinstance(self.sides, Intervals) else (self.sides,) * self.dimension

    @property
    def _widths(self) -> Floats:
        return np.array([each.width for each in self.intervals])

    @property
    def domain(self) -> Values:
        return self.sides

    @property
    def facts(self) -> Mapping[str, Any]:
        return {"dimension": self.dimension, "shape": self.shape}

    def sample(self, mechanism: Mechanism) -> Array:
        # A corner is among them: mechanisms that take shorter vectors only refuse it.
        drawn = np.random.default_rng(SEED).uniform(-1.0, 1.0, (VECTORS, self.dimension))
        return np.concatenate([np.ones((1, self.dimension)), drawn])

    def scale(self, mechanism: Mechanism) -> float:
        low, high = mechanism.value_range
        return float(np.sqrt(np.mean(self._widths**2))) / (high - low)

    def spread(self, mechanism: Mechanism, values: Array, variance: Floats | None = None) -> Floats:
        """In units of the root mean square width, as all errors of coordinates together."""
        return np.asarray(super().spread(mechanism, values, variance) * self._widths**2 / np.mean(self._widths**2))

    def compare(
        self, mechanism: Mechanism, estimate: Estimate, held: Floats, confidence: float
    ) -> tuple[Floats, Floats]:
        low, high = mechanism.value_range
        scales = self._widths / (high - low)
        return scales * (estimate.value - held), scales * estimate.margin_towards(held, confidence)

    def one_user(self, users: int) -> float:
        """All coordinates count alike: by the root of the mean of squares, as errors do."""
        return float(np.sqrt(np.mean(self._widths**2))) / users

    def sensitivity(self, users: int) -> Sensitivity:
        each = self._widths / users
        return Sensitivity(float(each.sum()), float(np.sqrt((each**2).sum())))

    def values(self, column: Column, array: pa.Array) -> Any:
        return column.vectors(array, self.intervals)

    def columns_read(self, named: tuple[str, ...]) -> tuple[str, ...]:
        """One column of lists, or one for each coordinate."""
        if len(named) > 1 and len(named) != self.dimension:
            raise ValueError(
                f"input: expected a column of lists, or one for each of {self.dimension} coordinates, got {len(named)}."
            )
        return named

    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        low, high = mechanism.value_range
        scale = self._widths / (high - low)
        moved = estimate.moved(scale, np.array([each.low for each in self.intervals]) - low * scale)
        labels = ["mean"] if self.dimension == 1 else every_label(self.domain, self.dimension)
        ends = (np.array([each.low for each in self.intervals]), np.array([each.high for each in self.intervals]))
        return [Quantity.of("mean", labels, moved, confidence, Shape(COORDINATES, *ends, ordered=True))]

    @classmethod
    def read(cls, domain: Values, parameters: Mapping[str, Any]) -> Task:
        dimension, shape = parameters["dimension"], parameters["shape"]
        if isinstance(domain, Intervals) and shape == BOX:
            return VectorMean(dimension, domain)
        interval = demand_interval(cls, domain)
        if shape == BOX:
            return VectorMean(dimension, interval)
        if shape != BALL:
            raise ValueError(f"{WHO}: shape must be {BOX!r} or {BALL!r}, got {shape!r}.")
        if interval != WITHIN_ONE:
            raise ValueError(f"{WHO}: vectors of length at most 1 have coordinates from -1 to 1, got {interval}.")
        return UnitVectorMean(dimension)

    @classmethod
    def of_version_1(cls, domain: Values, settings: Mapping[str, Any]) -> Task:
        """Version 1 did not tell a box on [−1, 1] from the ball, nor a mean from vectors of one number."""
        dimension, interval = settings["dimension"], demand_interval(cls, domain)
        if dimension == 1:
            return Mean(interval)
        return cls.read(domain, {"dimension": dimension, "shape": BALL if interval == WITHIN_ONE else BOX})

    @classmethod
    def from_options(cls, given: Given) -> Task:
        if not given.low and not given.high:
            return UnitVectorMean(given.count("dimension"))
        if len(given.low) == 1 and len(given.high) == 1:
            return VectorMean(given.count("dimension"), given.interval())
        dimension = len(given.low) if given.dimension is None else given.dimension
        return VectorMean(dimension, Intervals(given.low, given.high, given.called or None))


@dataclass(frozen=True, init=False)
class UnitVectorMean(VectorMean):
    """The mean of a vector of length at most 1 per user.

    ``dimension`` is how many coordinates a vector has.

    >>> UnitVectorMean(dimension=100).data
    'vectors of length 1 in random directions'
    """

    data = "vectors of length 1 in random directions"
    unit = "each coordinate"
    shape: ClassVar[str] = BALL

    def __init__(self, dimension: float) -> None:
        super().__init__(dimension, WITHIN_ONE)

    def sample(self, mechanism: Mechanism) -> Array:
        drawn = np.random.default_rng(SEED).standard_normal((VECTORS, self.dimension))
        return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))

    def sensitivity(self, users: int) -> Sensitivity:
        return Sensitivity(2.0 * math.sqrt(self.dimension) / users, 2.0 / users)
