"""Keys with a number each: how many users hold each key, and the mean of their numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp import argument
from shuffledp.array import Array, Floats
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.parts.pair_reading import NONE, PairReading
from shuffledp.tasks.column import Column
from shuffledp.tasks.domain import TASK, WHO, Categories, Interval, KeyedInterval, Values, interval_of, options_of
from shuffledp.tasks.given import Given
from shuffledp.tasks.quantity import Quantity
from shuffledp.tasks.task import Sensitivity, Task, every_label

if TYPE_CHECKING:
    import pyarrow as pa

MOST_NAMED_KEYS = 1_000_000


@dataclass(frozen=True, init=False)
class KeyValue(Task):
    """How many users hold each key, and the sum of their numbers.

    ``keys`` is the public list of keys as texts, or how many there are, which are then called 0, 1, …; ``low`` and
    ``high`` are the least and the largest number; ``items`` is how many keys every user holds, at most.

    >>> KeyValue(["book", "film"], low=0, high=5, items=1).domain.label(1)
    'film'
    """

    pairs: KeyedInterval
    items: int

    name = "key-value"
    kinds = ("key-value",)
    data = "users' keys spread evenly over all keys, numbers over the interval"
    unit = "users, and sums of numbers from -1 to 1"
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

    def sample(self, mechanism: Mechanism) -> Array:
        rows = np.arange(self.count * self.items)
        keys = np.add.outer(rows, np.arange(self.items)) % self.count
        numbers = 2 * (np.arange(keys.size) * 0.618 % 1.0).reshape(keys.shape) - 1
        return np.stack([keys, numbers], axis=-1)

    def sensitivity(self, users: int) -> Sensitivity:
        return Sensitivity(4.0 * self.items, math.sqrt(4.0 * self.items))

    def values(self, column: Column, array: pa.Array) -> Any:
        import pyarrow as pa

        sizes, entries = column.lists(array)
        if not pa.types.is_struct(entries.type) or entries.type.num_fields != 2:
            raise column.refuse(f"expected lists of a key and a number, or maps, got lists of {entries.type}")
        keys, numbers = column.without_nulls(entries).flatten()
        width = max(1, int(sizes.max(initial=0)))
        pairs = np.zeros((len(sizes), width, 2))
        pairs[..., 0] = NONE
        filled = np.arange(width) < sizes[:, None]
        pairs[filled, 0] = column.option_numbers(keys, self.pairs.keys.labels)
        pairs[filled, 1] = column.numbers(numbers, self.pairs.interval)
        return pairs

    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        reading = mechanism.reading
        assert isinstance(reading, PairReading), "a mechanism for keys with numbers"
        labels = every_label(self.domain, estimate.value.shape[1])
        counts = Estimate(estimate.value[0], estimate.variance[0], estimate.users)
        low, high = reading.mean_intervals(estimate, confidence)
        means, low, high = (self._in_own_unit(mechanism, part) for part in (reading.means(estimate), low, high))
        users = Quantity.of("users", labels, counts, confidence)
        # A ratio's interval is not even about it, so that no standard error stands for it.
        return [users, Quantity("mean", labels, means, None, low, high)]

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
