"""What is to be estimated from whom: what a plan's mechanisms are told, and what data their error is stated for."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from shuffledp import argument
from shuffledp.array import Array, Floats, Integers
from shuffledp.mechanisms.mechanism import Estimate, Mechanism
from shuffledp.sampling import dyadic_tree
from shuffledp.tasks.domain import Area, Interval, KeyedInterval, Values

WHO = "plan"
POINTS = 1000
"""Numbers that stand for all numbers of an interval."""
VECTORS, RANGES, SEED = 64, 256, 0
"""Random vectors, and ranges, that stand for all of them."""
WITHIN_ONE = Interval(-1.0, 1.0)
"""Where the coordinates of a vector of length at most 1 lie."""
PLACES = 60
"""Points of a map along each axis that stand for all of it."""


@runtime_checkable
class AnswersRanges(Protocol):
    """Estimates how many users hold a value in a range."""

    def range_variance(self, values: Any, ranges: Sequence[tuple[int, int]]) -> Floats:
        """The exact variance of each range's estimate for these users."""
        ...

    def ranges(self, estimate: Estimate, ranges: Sequence[tuple[int, int]]) -> Estimate:
        """The number of users in each range, from the estimate of all nodes."""
        ...


@dataclass(frozen=True)
class Sensitivity:
    """How far replacing one user moves the exact result: the sum of the changes, and the root of that of squares."""

    sum: float
    root: float


class Task(ABC):
    """A task with its domain. Errors are stated for ``data``, the root mean square over all estimated numbers."""

    name: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]]
    """The tasks of mechanisms that can do it."""
    data: ClassVar[str]
    """The users for whom the error is stated, in words."""
    unit: ClassVar[str]
    """What the error is counted in."""
    averages: ClassVar[bool] = False
    """Whether a mean is estimated, which more users make more accurate, or a sum over users."""

    @property
    @abstractmethod
    def domain(self) -> Values:
        """What users may hold, for the plan file."""

    @property
    @abstractmethod
    def facts(self) -> Mapping[str, Any]:
        """What mechanisms are told about the domain, by the names of their settings."""

    @abstractmethod
    def sample(self, mechanism: Mechanism) -> Array:
        """A few users who stand for all, in the unit of the mechanism."""

    @abstractmethod
    def sensitivity(self, users: int) -> Sensitivity:
        """How far replacing one user moves what is estimated, in ``unit``."""

    def scale(self, mechanism: Mechanism) -> float:
        """How many of ``unit`` one unit of the mechanism is."""
        del mechanism
        return 1.0

    def spread(self, mechanism: Mechanism, values: Array) -> Floats:
        """The exact variance of each number that is estimated from these users."""
        return mechanism.variance(values)

    def standard_error(self, mechanism: Mechanism, users: int) -> float:
        """The root mean square error for this many users with such data.

        Users answer independently, so that the variance of a sum over users is proportional to their number, and that
        of a mean to one over it: a few users tell it for any number.
        """
        values = mechanism.check(self.sample(mechanism))
        share = len(values) / users if self.averages else users / len(values)
        variance = float(np.mean(self.spread(mechanism, values))) * share
        return self.scale(mechanism) * math.sqrt(max(0.0, variance))

    def held(self, mechanism: Mechanism, users: int) -> Integers:
        """How many of so many users with such data hold each option; whole numbers, as near as they come."""
        values = mechanism.check(self.sample(mechanism))
        return apportioned(mechanism.truth(values) / len(values), users)

    def compare(self, mechanism: Mechanism, estimate: Estimate, held: Floats) -> tuple[Floats, Floats]:
        """What is estimated too much, and the estimated standard errors, where this is the truth; in ``unit``."""
        scale = self.scale(mechanism)
        return scale * (estimate.value - held), scale * estimate.standard_error

    def central_factor(self) -> float:
        """How many times the error of one number with noise a curator has."""
        return 1.0


@dataclass(frozen=True)
class Frequency(Task):
    """How many users hold each option."""

    options: Values

    name = "frequency"
    kinds = ("frequency",)
    data = "users spread evenly over the options"
    unit = "users"

    @property
    def count(self) -> int:
        size = self.options.size
        assert size is not None, "options can be counted"
        return size

    @property
    def domain(self) -> Values:
        return self.options

    @property
    def facts(self) -> Mapping[str, Any]:
        return {"options": self.count}

    def sample(self, mechanism: Mechanism) -> Array:
        return np.arange(self.count)

    def sensitivity(self, users: int) -> Sensitivity:
        return Sensitivity(2.0, math.sqrt(2.0))

    def central_factor(self) -> float:
        """All counts together are known: a curator, too, takes the mean of the noise off."""
        return math.sqrt(1 - 1 / self.count)


@dataclass(frozen=True)
class ItemSets(Frequency):
    """How many users hold each option, where each holds several."""

    items: int

    name = "set-valued"
    kinds = ("set-valued",)
    data = "users' options spread evenly over all options"

    def __post_init__(self) -> None:
        object.__setattr__(self, "items", argument.count(WHO, "items", self.items))
        if self.items >= self.count:
            raise ValueError(f"{WHO}: items must be below the {self.count} options, got {self.items}.")

    @property
    def facts(self) -> Mapping[str, Any]:
        return {"options": self.count, "items": self.items}

    def sample(self, mechanism: Mechanism) -> Array:
        return np.add.outer(np.arange(self.count), np.arange(self.items)) % self.count

    def sensitivity(self, users: int) -> Sensitivity:
        changed = 2.0 * min(self.items, self.count - self.items)
        return Sensitivity(changed, math.sqrt(changed))


@dataclass(frozen=True)
class Mean(Task):
    """The mean of one number per user."""

    interval: Interval

    name = "mean"
    kinds = ("mean", "vector mean")
    data = "numbers spread evenly over the interval"
    unit = "the numbers' unit"
    averages = True

    @property
    def domain(self) -> Values:
        return self.interval

    @property
    def facts(self) -> Mapping[str, Any]:
        return {"dimension": 1}

    @property
    def width(self) -> float:
        return self.interval.high - self.interval.low

    def sample(self, mechanism: Mechanism) -> Array:
        low, high = mechanism.value_range
        points = low + (high - low) * (np.arange(POINTS) + 0.5) / POINTS
        return points if mechanism.task == self.name else points[:, None]

    def scale(self, mechanism: Mechanism) -> float:
        low, high = mechanism.value_range
        return self.width / (high - low)

    def sensitivity(self, users: int) -> Sensitivity:
        return Sensitivity(self.width / users, self.width / users)


@dataclass(frozen=True)
class BoxedVectorMean(Task):
    """The mean of a vector per user, each coordinate from low to high."""

    interval: Interval
    dimension: int

    name = "vector mean"
    kinds = ("vector mean",)
    data = "vectors drawn uniformly"
    unit = "the numbers' unit, each coordinate"
    averages = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "dimension", argument.count(WHO, "dimension", self.dimension))

    @property
    def domain(self) -> Values:
        return self.interval

    @property
    def facts(self) -> Mapping[str, Any]:
        return {"dimension": self.dimension}

    def sample(self, mechanism: Mechanism) -> Array:
        # A corner is among them: mechanisms that take shorter vectors only refuse it.
        drawn = np.random.default_rng(SEED).uniform(-1.0, 1.0, (VECTORS, self.dimension))
        return np.concatenate([np.ones((1, self.dimension)), drawn])

    def scale(self, mechanism: Mechanism) -> float:
        low, high = mechanism.value_range
        return (self.interval.high - self.interval.low) / (high - low)

    def sensitivity(self, users: int) -> Sensitivity:
        width = (self.interval.high - self.interval.low) / users
        return Sensitivity(self.dimension * width, math.sqrt(self.dimension) * width)


@dataclass(frozen=True)
class UnitVectorMean(BoxedVectorMean):
    """The mean of a vector of length at most 1 per user."""

    interval: Interval = WITHIN_ONE
    dimension: int = 2

    data = "vectors of length 1 in random directions"
    unit = "each coordinate"

    def sample(self, mechanism: Mechanism) -> Array:
        drawn = np.random.default_rng(SEED).standard_normal((VECTORS, self.dimension))
        return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))

    def sensitivity(self, users: int) -> Sensitivity:
        return Sensitivity(2.0 * math.sqrt(self.dimension) / users, 2.0 / users)


@dataclass(frozen=True)
class KeyValue(Task):
    """How many users hold each key, and the sum of their numbers."""

    pairs: KeyedInterval
    items: int

    name = "key-value"
    kinds = ("key-value",)
    data = "users' keys spread evenly over all keys, numbers over the interval"
    unit = "users, and sums of numbers from -1 to 1"

    def __post_init__(self) -> None:
        object.__setattr__(self, "items", argument.count(WHO, "items", self.items))
        if self.items > self.count:
            raise ValueError(f"{WHO}: items must be at most the {self.count} keys, got {self.items}.")

    @property
    def count(self) -> int:
        return len(self.pairs.keys.labels)

    @property
    def domain(self) -> Values:
        return self.pairs

    @property
    def facts(self) -> Mapping[str, Any]:
        return {"options": self.count, "keys": self.count, "items": self.items, "padding": self.items}

    def sample(self, mechanism: Mechanism) -> Array:
        rows = np.arange(self.count * self.items)
        keys = np.add.outer(rows, np.arange(self.items)) % self.count
        numbers = 2 * (np.arange(keys.size) * 0.618 % 1.0).reshape(keys.shape) - 1
        return np.stack([keys, numbers], axis=-1)

    def sensitivity(self, users: int) -> Sensitivity:
        return Sensitivity(4.0 * self.items, math.sqrt(4.0 * self.items))


@dataclass(frozen=True)
class Location(Task):
    """How many users are in each cell of a map."""

    area: Area
    columns: int
    rows: int = 0
    coordinates: str = "plane"

    name = "location"
    kinds = ("location",)
    data = "users spread evenly over the map"
    unit = "users"

    @property
    def domain(self) -> Values:
        return self.area

    @property
    def facts(self) -> Mapping[str, Any]:
        return {**vars(self.area), "columns": self.columns, "rows": self.rows, "coordinates": self.coordinates}

    def sample(self, mechanism: Mechanism) -> Array:
        places = (np.arange(PLACES) + 0.5) / PLACES
        x = self.area.west + places * (self.area.east - self.area.west)
        y = self.area.south + places * (self.area.north - self.area.south)
        points = np.stack([np.tile(x, PLACES), np.repeat(y, PLACES)], axis=1)
        return points if self.coordinates == "plane" else points[:, ::-1]

    def sensitivity(self, users: int) -> Sensitivity:
        return Sensitivity(2.0, math.sqrt(2.0))


@dataclass(frozen=True)
class Ranges(Frequency):
    """How many users hold a value in a range of an ordered domain."""

    name = "range queries"
    kinds = ("range queries",)
    data = "users spread evenly over the values, ranges with random ends"

    @property
    def height(self) -> int:
        return max(1, (self.count - 1).bit_length())

    @property
    def facts(self) -> Mapping[str, Any]:
        return {"height": self.height}

    def sample(self, mechanism: Mechanism) -> Array:
        return np.arange(1 << self.height)

    @cached_property
    def ranges(self) -> list[tuple[int, int]]:
        """Two different ends, drawn uniformly."""
        rng = np.random.default_rng(SEED)
        drawn = [sorted(rng.choice(self.count + 1, 2, replace=False).tolist()) for _ in range(RANGES)]
        return [(low, high) for low, high in drawn]

    def spread(self, mechanism: Mechanism, values: Array) -> Floats:
        assert isinstance(mechanism, AnswersRanges), "a mechanism for range queries"
        return mechanism.range_variance(values, self.ranges)

    def held(self, mechanism: Mechanism, users: int) -> Integers:
        return apportioned(np.full(1 << self.height, 2.0**-self.height), users)

    def compare(self, mechanism: Mechanism, estimate: Estimate, held: Floats) -> tuple[Floats, Floats]:
        assert isinstance(mechanism, AnswersRanges), "a mechanism for range queries"
        found = mechanism.ranges(estimate, self.ranges)
        below = np.concatenate([[0.0], np.cumsum(held)])
        truth = np.array([below[high] - below[low] for low, high in self.ranges])
        return found.value - truth, found.standard_error

    def sensitivity(self, users: int) -> Sensitivity:
        return Sensitivity(2.0 * self.height, math.sqrt(2.0 * self.height))

    def central_factor(self) -> float:
        """A curator, too, adds up the nodes of a tree, each with its own noise."""
        nodes = [dyadic_tree.decompose(range_, self.height) for range_ in self.ranges]
        return math.sqrt(np.mean([0 if parts is None else len(parts) for parts in nodes]))


def apportioned(shares: Floats, users: int) -> Integers:
    """Whole numbers in these proportions to ``users``: rounded down, those with the largest rests one more."""
    exact = shares * users
    whole = np.floor(exact).astype(np.int64)
    missing = max(0, round(float(exact.sum())) - int(whole.sum()))
    whole[np.argsort(whole - exact, kind="stable")[:missing]] += 1
    return whole
