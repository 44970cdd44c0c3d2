"""The mean of one number per user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from shuffledp.array import Array, Floats, Integers
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.tasks.adjustment import CONSISTENT
from shuffledp.tasks.column import Column
from shuffledp.tasks.domain import Interval, Values, interval_of
from shuffledp.tasks.given import Given
from shuffledp.tasks.quantity import Quantity
from shuffledp.tasks.shape import NUMBERS, Shape
from shuffledp.tasks.task import Sensitivity, Task, apportioned

if TYPE_CHECKING:
    import pyarrow as pa

POINTS = 1000
"""Numbers that stand for all numbers of an interval."""


@dataclass(frozen=True, init=False)
class Mean(Task):
    """The mean of one number per user.

    ``low`` and ``high`` are the least and the largest number that a user may hold, in the users' own unit; or ``low``
    is an ``Interval``. Numbers beyond must be clipped before they are collected.

    >>> Mean(0, 10).domain
    Interval(low=0.0, high=10.0)
    """

    interval: Interval

    name = "mean"
    kinds: ClassVar[tuple[str, ...]] = ("mean", "vector mean")
    data = "numbers spread evenly over the interval"
    unit = "the numbers' unit"
    averages = True
    numeric = True
    sampled = True
    post: ClassVar[tuple[str, ...]] = (CONSISTENT,)
    taken: ClassVar[tuple[str, ...]] = ("low", "high")

    def __init__(self, low: float | Interval, high: float | None = None) -> None:
        object.__setattr__(self, "interval", interval_of(low, high))

    @property
    def domain(self) -> Values:
        return self.interval

    @property
    def facts(self) -> Mapping[str, Any]:
        return {"dimension": 1}

    def sample(self, mechanism: Mechanism) -> Array:
        points = _points(mechanism)
        return points if mechanism.task == Mean.name else points[:, None]

    def held(self, mechanism: Mechanism, users: int) -> Integers:
        """How many users hold each of the numbers that stand for all, from the least on."""
        return apportioned(np.full(POINTS, 1 / POINTS), users)

    def compare(
        self, mechanism: Mechanism, estimate: Estimate, held: Floats, confidence: float
    ) -> tuple[Floats, Floats]:
        counted = len(held) == POINTS
        truth = np.array([held @ _points(mechanism) / held.sum()]) if counted else held
        return super().compare(mechanism, estimate, truth, confidence)

    def scale(self, mechanism: Mechanism) -> float:
        low, high = mechanism.value_range
        return self.interval.width / (high - low)

    def one_user(self, users: int) -> float:
        return self.interval.width / users

    def sensitivity(self, users: int) -> Sensitivity:
        return Sensitivity(self.interval.width / users, self.interval.width / users)

    def values(self, column: Column, array: pa.Array) -> Any:
        if column.mechanism.task == Mean.name:
            return column.numbers(array, self.interval)
        return column.vectors(array, (self.interval,))

    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        shape = Shape(NUMBERS, self.interval.low, self.interval.high)
        return [Quantity.of("mean", ["mean"], moved_to(self.interval, mechanism, estimate), confidence, shape)]

    @classmethod
    def read(cls, domain: Values, parameters: Mapping[str, Any]) -> Task:
        return cls(demand_interval(cls, domain), **parameters)

    @classmethod
    def from_options(cls, given: Given) -> Task:
        return cls(given.interval())


def _points(mechanism: Mechanism) -> Floats:
    """Numbers that stand for all, evenly spread over what the mechanism takes."""
    low, high = mechanism.value_range
    return np.asarray(low + (high - low) * (np.arange(POINTS) + 0.5) / POINTS)


def moved_to(interval: Interval, mechanism: Mechanism, estimate: Estimate) -> Estimate:
    """The estimate of each coordinate, moved from the mechanism's own range to the users'."""
    low, high = mechanism.value_range
    scale = interval.width / (high - low)
    return estimate.moved(scale, interval.low - low * scale)


def demand_interval(task: type[Task], domain: Values) -> Interval:
    """A domain that is an interval; a sentence otherwise."""
    if not isinstance(domain, Interval):
        raise ValueError(f"plan: the task {task.name!r} needs a domain of {Interval.kind}, got {domain.kind}.")
    return domain
