"""Key-value data: the number of users with each key, and the mean of their numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp._core import validation
from shuffledp._core.validation import Array, Floats
from shuffledp.mechanisms.base.estimator import Estimate
from shuffledp.mechanisms.base.mechanism import Mechanism, requires_padding
from shuffledp.mechanisms.sets_and_key_values.pckv_and_privkv import KeyValueEstimator
from shuffledp.tasks.base import NUMBERS, Quantity, Sensitivity, Shape, Task, option_labels
from shuffledp.tasks.column_reader import NO_ITEM, ColumnReader, drop_dummies, fill_with_dummies
from shuffledp.tasks.counts_and_frequencies import count_quantity
from shuffledp.tasks.domain import (
    TASK_PREFIX,
    Categories,
    Interval,
    KeyedInterval,
    TaskOptions,
    Values,
    build_interval,
    build_option_domain,
    require_domain,
)

if TYPE_CHECKING:
    import pyarrow as pa

MAX_NAMED_KEYS = 1_000_000


@dataclass(frozen=True, init=False)
class KeyValue(Task):
    """The number of users with each key, and the sum of their numbers.

    The report shows the mean of a key if its count is above its error.

    Args:
        keys: Public list of keys as texts, or their number; the keys are then called 0, 1, ….
        low: Smallest number, or an ``Interval``.
        high: Largest number; None if ``low`` is an ``Interval``.
        items: Largest number of keys that a user holds.

    Raises:
        ValueError: If the interval is empty, keys look alike, there are more than 1,000,000 unnamed keys, or ``items``
            is larger than the number of keys.
        TypeError: If an argument is of the wrong type.

    >>> KeyValue(["book", "film"], low=0, high=5, items=1).domain.label(1)
    'film'
    """

    pairs: KeyedInterval
    items: int

    name = "key-value"
    mechanism_tasks = ("key-value",)
    data_description = "users' keys spread evenly over all keys, numbers over the interval"
    unit = "users, and sums of numbers from -1 to 1"
    takes_lists = True
    parameters = ("items",)
    accepted_options = ("domain", "categories", "low", "high", "items")

    def __init__(
        self, keys: Values | Sequence[str] | float, low: float | Interval, high: float | None = None, *, items: float
    ) -> None:
        pairs = KeyedInterval(_name_keys(build_option_domain(keys)), build_interval(low, high))
        object.__setattr__(self, "pairs", pairs)
        object.__setattr__(self, "items", validation.count(TASK_PREFIX, "items", items))
        if self.items > self.count:
            raise ValueError(f"{TASK_PREFIX}: items must be at most the {self.count} keys, got {self.items}.")

    @property
    def count(self) -> int:
        """The number of keys."""
        return len(self.pairs.keys.labels)

    @property
    def domain(self) -> Values:
        return self.pairs

    @property
    def mechanism_settings(self) -> Mapping[str, Any]:
        return {"options": self.count, "keys": self.count, "items": self.items, "padding": self.items}

    def mechanism_settings_for(self, kind: type[Mechanism] | Mechanism) -> Mapping[str, Any]:
        dummies = self.items if requires_padding(kind) else 0
        return {**self.mechanism_settings, "options": self.count + dummies}

    def representative_values(self, mechanism: Mechanism) -> Array:
        rows = np.arange(self.count * self.items)
        keys = np.add.outer(rows, np.arange(self.items)) % self.count
        numbers = 2 * (np.arange(keys.size) * 0.618 % 1.0).reshape(keys.shape) - 1
        return np.stack([keys, numbers], axis=-1)

    def estimator_variance(self, mechanism: Mechanism, values: Array, variance: Floats | None = None) -> Floats:
        return super().estimator_variance(mechanism, values, variance)[..., : self.count]

    def compute_errors_and_margins(
        self, mechanism: Mechanism, estimate: Estimate, held: Floats, confidence: float
    ) -> tuple[Floats, Floats]:
        return super().compute_errors_and_margins(
            mechanism, drop_dummies(estimate, self.count), held[..., : self.count], confidence
        )

    def sensitivity(self, users: int) -> Sensitivity:
        return Sensitivity(4.0 * self.items, math.sqrt(4.0 * self.items))

    def is_number_column(self, place: int) -> bool:
        return place == 1

    def resolve_columns(self, named: tuple[str, ...]) -> tuple[str, ...]:
        # One column of lists of pairs, or a column of keys and one of numbers.
        if len(named) > 2:
            raise ValueError(f"input: expected a column of pairs, or one of keys and one of numbers, got {len(named)}.")
        return named

    def read_values(self, column: ColumnReader, array: pa.Array) -> Any:
        sizes, keys, numbers = column.read_pairs(array, self.pairs.keys.labels, self.pairs.interval, self.items)
        places = np.full((len(sizes), self.items), NO_ITEM, dtype=np.int64)
        values = np.zeros(places.shape)
        used = np.arange(self.items) < sizes[:, None]
        places[used], values[used] = keys, numbers
        # The number of a dummy is 0, which has either sign with equal probability.
        return np.stack([fill_with_dummies(column, places, self.count, self.items), values], axis=-1)

    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        estimator = mechanism.estimator
        assert isinstance(estimator, KeyValueEstimator), "a mechanism for keys with numbers"
        labels, pairs = option_labels(self.domain, self.count), drop_dummies(estimate, self.count)
        counts = Estimate(pairs.value[0], pairs.variance[0], pairs.users, estimator.count_error_law(pairs.users))
        users = count_quantity(labels, counts, confidence)
        # Nothing is known about the mean of a key that perhaps nobody holds.
        mask = np.where(estimator.has_mean_interval(pairs, confidence), 0.0, np.nan)
        means, low, high = (
            self._to_user_unit(mechanism, part) + mask
            for part in (estimator.means(pairs), *estimator.mean_intervals(pairs, confidence))
        )
        # The interval of a ratio is not symmetric, so a standard error would not describe it.
        shape = Shape(NUMBERS, self.pairs.interval.low, self.pairs.interval.high)
        return [users, Quantity("mean", labels, means, None, low, high, shape=shape)]

    def _to_user_unit(self, mechanism: Mechanism, means: Floats) -> Floats:
        """Converts means to the users' unit."""
        interval, (low, high) = self.pairs.interval, mechanism.value_range
        return interval.low + (means - low) / (high - low) * interval.width

    @classmethod
    def from_domain(cls, domain: Values, parameters: Mapping[str, Any]) -> Task:
        pairs = require_domain(cls.name, domain, KeyedInterval)
        return cls(pairs.keys, pairs.interval, **parameters)

    @classmethod
    def from_options(cls, given: TaskOptions) -> Task:
        return cls(_name_keys(given.build_option_domain()), given.build_interval(), items=given.require_count("items"))


def _name_keys(options: Values) -> Categories:
    """Returns the keys by name; if only their number is given, they are called 0, 1, …."""
    if isinstance(options, Categories):
        return options
    count = options.size or 0
    if count > MAX_NAMED_KEYS:
        raise ValueError(f"{TASK_PREFIX}: domain must be at most {MAX_NAMED_KEYS} keys, got {count}.")
    return Categories(tuple(map(str, range(count))))
