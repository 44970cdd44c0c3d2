"""Keys with a number each: how many users hold each key, and the mean of their numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp import argument
from shuffledp.array import Array, Floats
from shuffledp.mechanisms.ability import fills_places
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.parts.pair_reading import PairReading
from shuffledp.tasks.column import Column
from shuffledp.tasks.count_interval import counts
from shuffledp.tasks.domain import TASK, WHO, Categories, Interval, KeyedInterval, Values, interval_of, options_of
from shuffledp.tasks.given import Given
from shuffledp.tasks.padding import EMPTY, filled, first_of
from shuffledp.tasks.quantity import Quantity
from shuffledp.tasks.shape import NUMBERS, Shape
from shuffledp.tasks.task import Sensitivity, Task, every_label

if TYPE_CHECKING:
    import pyarrow as pa

MOST_NAMED_KEYS = 1_000_000


@dataclass(frozen=True, init=False)
class KeyValue(Task):
    """How many users hold each key, and the sum of their numbers.

    ``keys`` is the public list of keys as texts, or how many there are, which are then called 0, 1, …; ``low`` and
    ``high`` are the least and the largest number; ``items`` is how many keys every user holds, at most. The mean of a
    key is told where its count is above its error.

    >>> KeyValue(["book", "film"], low=0, high=5, items=1).domain.label(1)
    'film'
    """

    pairs: KeyedInterval
    items: int

    name = "key-value"
    kinds = ("key-value",)
    data = "users' keys spread evenly over all keys, numbers over the interval"
    unit = "users, and sums of numbers from -1 to 1"
    takes_lists = True
    parameters = ("items",)
    taken = ("domain", "categories", "low", "high", "items")

    def __init__(
        self, keys: Values | Sequence[str] | float, low: float | Interval, high: float | None = None, *, items: float
    ) -> None:
        object.__setattr__(self, "pairs", KeyedInterval(_named(options_of(keys)), interval_of(low, high)))
        object.__setattr__(self, "items", argument.count(TASK, "items", items))
        if self.items > self.count:
            raise ValueError(f"{TASK}: items must be at most the {self.count} keys, got {self.items}.")

    @property
    def count(self) -> int:
        """How many keys there are."""
        return len(self.pairs.keys.labels)

    @property
    def domain(self) -> Values:
        return self.pairs

    @property
    def facts(self) -> Mapping[str, Any]:
        return {"options": self.count, "keys": self.count, "items": self.items, "padding": self.items}

    def facts_for(self, kind: type[Mechanism] | Mechanism) -> Mapping[str, Any]:
        dummies = self.items if fills_places(kind) else 0
        return {**self.facts, "options": self.count + dummies}

    def sample(self, mechanism: Mechanism) -> Array:
        rows = np.arange(self.count * self.items)
        keys = np.add.outer(rows, np.arange(self.items)) % self.count
        numbers = 2 * (np.arange(keys.size) * 0.618 % 1.0).reshape(keys.shape) - 1
        return np.stack([keys, numbers], axis=-1)

    def spread(self, mechanism: Mechanism, values: Array, variance: Floats | None = None) -> Floats:
        return super().spread(mechanism, values, variance)[..., : self.count]

    def compare(
        self, mechanism: Mechanism, estimate: Estimate, held: Floats, confidence: float
    ) -> tuple[Floats, Floats]:
        return super().compare(mechanism, first_of(estimate, self.count), held[..., : self.count], confidence)

    def sensitivity(self, users: int) -> Sensitivity:
        return Sensitivity(4.0 * self.items, math.sqrt(4.0 * self.items))

    def is_number(self, place: int) -> bool:
        return place == 1

    def columns_read(self, named: tuple[str, ...]) -> tuple[str, ...]:
        """One column of lists of pairs; or one of keys and one of numbers, a pair a row."""
        if len(named) > 2:
            raise ValueError(f"input: expected a column of pairs, or one of keys and one of numbers, got {len(named)}.")
        return named

    def values(self, column: Column, array: pa.Array) -> Any:
        sizes, keys, numbers = column.pairs(array, self.pairs.keys.labels, self.pairs.interval, self.items)
        places = np.full((len(sizes), self.items), EMPTY, dtype=np.int64)
        values = np.zeros(places.shape)
        held = np.arange(self.items) < sizes[:, None]
        places[held], values[held] = keys, numbers
        # A dummy's number is 0, of either sign alike.
        return np.stack([filled(column, places, self.count, self.items), values], axis=-1)

    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        reading = mechanism.reading
        assert isinstance(reading, PairReading), "a mechanism for keys with numbers"
        labels, own = every_label(self.domain, self.count), first_of(estimate, self.count)
        held = Estimate(own.value[0], own.variance[0], own.users, reading.count_tails(own.users))
        users = counts(labels, held, confidence)
        # Nothing is known of the mean of a key that perhaps nobody holds.
        untold = np.where(reading.is_told(own, confidence), 0.0, np.nan)
        means, low, high = (
            self._in_own_unit(mechanism, part) + untold
            for part in (reading.means(own), *reading.mean_intervals(own, confidence))
        )
        # A ratio's interval is not even about it, so that no standard error stands for it.
        shape = Shape(NUMBERS, self.pairs.interval.low, self.pairs.interval.high)
        return [users, Quantity("mean", labels, means, None, low, high, shape=shape)]

    def _in_own_unit(self, mechanism: Mechanism, means: Floats) -> Floats:
        """Means as users' numbers are."""
        interval, (low, high) = self.pairs.interval, mechanism.value_range
        return interval.low + (means - low) / (high - low) * interval.width

    @classmethod
    def read(cls, domain: Values, parameters: Mapping[str, Any]) -> Task:
        if not isinstance(domain, KeyedInterval):
            raise ValueError(f"{WHO}: the task {cls.name!r} needs a domain of {KeyedInterval.kind}, got {domain.kind}.")
        return cls(domain.keys, domain.interval, **parameters)

    @classmethod
    def of_version_1(cls, domain: Values, settings: Mapping[str, Any]) -> Task:
        """Mechanisms call it items or padding, and may be padded beyond the number of keys."""
        items = settings["items"] if "items" in settings else settings["padding"]
        return cls.read(domain, {"items": items if domain.size is None else min(items, domain.size)})

    @classmethod
    def from_options(cls, given: Given) -> Task:
        return cls(_named(given.options()), given.interval(), items=given.count("items"))


def _named(options: Values) -> Categories:
    """The keys by name; where only their number is given, they are called 0, 1, …"""
    if isinstance(options, Categories):
        return options
    count = options.size or 0
    if count > MOST_NAMED_KEYS:
        raise ValueError(f"{TASK}: domain must be at most {MOST_NAMED_KEYS} keys, got {count}.")
    return Categories(tuple(map(str, range(count))))
