"""The mean of a vector per user: in a box, each coordinate from low to high, or of length at most 1."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from shuffledp import argument
from shuffledp.array import Array
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.tasks.column import Column
from shuffledp.tasks.domain import TASK, WHO, Interval, Values, interval_of
from shuffledp.tasks.given import Given
from shuffledp.tasks.mean import Mean, demand_interval, mean_of, vectors
from shuffledp.tasks.quantity import Quantity
from shuffledp.tasks.task import SEED, Sensitivity, Task

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
    each, or ``low`` is an ``Interval``. For vectors of bounded length there is ``UnitVectorMean``.

    >>> VectorMean(dimension=3, low=0, high=10).document()
    {'name': 'vector mean', 'domain': {'low': 0.0, 'high': 10.0}, 'dimension': 3, 'shape': 'box'}
    """

    interval: Interval
    dimension: int

    name = "vector mean"
    kinds = ("vector mean",)
    data = "vectors drawn uniformly"
    unit = "the numbers' unit, each coordinate"
    averages = True
    shape: ClassVar[str] = BOX
    parameters = ("dimension", "shape")
    taken = ("low", "high", "dimension")

    def __init__(self, dimension: float, low: float | Interval, high: float | None = None) -> None:
        object.__setattr__(self, "interval", interval_of(low, high))
        object.__setattr__(self, "dimension", argument.count(TASK, "dimension", dimension))

    @property
    def domain(self) -> Values:
        return self.interval

    @property
    def facts(self) -> Mapping[str, Any]:
        return {"dimension": self.dimension, "shape": self.shape}

    def sample(self, mechanism: Mechanism) -> Array:
        # A corner is among them: mechanisms that take shorter vectors only refuse it.
        drawn = np.random.default_rng(SEED).uniform(-1.0, 1.0, (VECTORS, self.dimension))
        return np.concatenate([np.ones((1, self.dimension)), drawn])

    def scale(self, mechanism: Mechanism) -> float:
        low, high = mechanism.value_range
        return self.interval.width / (high - low)

    def sensitivity(self, users: int) -> Sensitivity:
        width = self.interval.width / users
        return Sensitivity(self.dimension * width, math.sqrt(self.dimension) * width)

    def csv_type(self) -> pa.DataType:
        import pyarrow as pa

        return pa.float64()

    def values(self, column: Column, array: pa.Array) -> Any:
        return vectors(column, array, self.interval)

    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        return [mean_of(self.interval, mechanism, estimate, confidence)]

    @classmethod
    def read(cls, domain: Values, parameters: Mapping[str, Any]) -> Task:
        interval, dimension, shape = demand_interval(cls, domain), parameters["dimension"], parameters["shape"]
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
        if given.low is None and given.high is None:
            return UnitVectorMean(given.count("dimension"))
        interval = given.interval()
        return VectorMean(given.count("dimension"), interval)


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
