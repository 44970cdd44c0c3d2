"""How a column of a table becomes values of a mechanism, and how its estimate becomes rows of a result.

There is one class for each task. Every value must be in the plan's public domain: one that is not stops the
collection before anything is encoded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp.array import Array, Floats
from shuffledp.mechanisms.combined.range_queries import RangeQueries
from shuffledp.mechanisms.mechanism import Estimate, Mechanism
from shuffledp.mechanisms.metric.planar_laplace import PlanarLaplace
from shuffledp.mechanisms.parts.key_value import NONE, PairReading
from shuffledp.planner.plan_file import Plan
from shuffledp.tasks.domain import Interval, KeyedInterval, Values

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Quantity:
    """One kind of estimate, for each label: its values, and a confidence interval where there is one."""

    name: str
    labels: tuple[str, ...]
    value: Floats
    standard_error: Floats | None = None
    low: Floats | None = None
    high: Floats | None = None


@dataclass(frozen=True)
class Column(ABC):
    """The column of one collection."""

    name: str
    domain: Values
    mechanism: Mechanism

    @abstractmethod
    def values(self, array: pa.Array) -> Array:
        """One value per row, in the mechanism's canonical form; a sentence if a row holds none or a bad one."""

    @abstractmethod
    def csv_type(self) -> pa.DataType:
        """What a text in a CSV file is read as."""

    @abstractmethod
    def quantities(self, estimate: Estimate, confidence: float) -> list[Quantity]:
        """The estimate in the users' own words and units."""

    def refuse(self, sentence: str) -> ValueError:
        return ValueError(f"column {self.name!r}: {sentence}.")

    def checked(self, values: Any) -> Array:
        """Through the mechanism's own check."""
        try:
            return self.mechanism.check(values)
        except (ValueError, TypeError) as error:
            raise ValueError(f"column {self.name!r}: {error}") from None

    def without_nulls(self, array: pa.Array) -> pa.Array:
        if array.null_count:
            raise self.refuse(f"expected a value in every row, got {array.null_count} nulls; leave those rows out")
        return array

    def option_numbers(self, array: pa.Array, labels: tuple[str, ...] | None) -> Array:
        """The place of each value in the public list; whole numbers as they are where there is no list."""
        import pyarrow as pa
        import pyarrow.compute as pc

        self.without_nulls(array)
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if labels is None:
            if not pa.types.is_integer(array.type):
                raise self.refuse(f"expected whole numbers from 0 on, got {array.type}")
            return self._in_domain(np.asarray(array.to_numpy(zero_copy_only=False)))
        if pa.types.is_integer(array.type):
            array = array.cast(pa.string())
        if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
            raise self.refuse(f"expected texts from the plan's categories, got {array.type}")
        places = pc.index_in(array, value_set=pa.array(labels, type=array.type))
        if places.null_count:
            bad = array.filter(pc.is_null(places))[0].as_py()
            raise self.refuse(f"expected one of the plan's {len(labels)} categories, got {bad!r}")
        return np.asarray(places.to_numpy())

    def _in_domain(self, numbers: Array) -> Array:
        """A mechanism may have more options than the domain: a range of values is filled up to a power of two."""
        size = self.domain.size
        if size is not None and len(numbers) and not 0 <= numbers.min() <= numbers.max() < size:
            bad = numbers[(numbers < 0) | (numbers >= size)][0]
            raise self.refuse(f"expected whole numbers from 0 to {size - 1}, got {bad}")
        return numbers

    def numbers(self, array: pa.Array, interval: Interval) -> Floats:
        """Numbers of the public interval, moved to the mechanism's own range."""
        import pyarrow as pa

        self.without_nulls(array)
        if not (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
            raise self.refuse(f"expected numbers from {interval.low:g} to {interval.high:g}, got {array.type}")
        numbers = array.to_numpy(zero_copy_only=False).astype(np.float64)
        outside = numbers[~((numbers >= interval.low) & (numbers <= interval.high))]
        if outside.size:
            raise self.refuse(
                f"expected numbers from {interval.low:g} to {interval.high:g}, got {float(outside[0])!r}; "
                f"clip them, or plan for a wider domain"
            )
        low, high = self.mechanism.value_range
        share = (numbers - interval.low) / (interval.high - interval.low)
        return np.asarray(np.clip(low + share * (high - low), low, high))

    def lists(self, array: pa.Array) -> tuple[Array, pa.Array]:
        """How many entries each row has, and all entries."""
        import pyarrow as pa

        self.without_nulls(array)
        kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_map)
        if not any(kind(array.type) for kind in kinds):
            raise self.refuse(f"expected a list in every row, got {array.type}")
        if pa.types.is_map(array.type):
            array = array.cast(pa.list_(pa.struct([("key", array.type.key_type), ("value", array.type.item_type)])))
        if pa.types.is_fixed_size_list(array.type):
            array = array.cast(pa.list_(array.type.value_type))
        sizes = np.diff(array.offsets.to_numpy())
        return sizes, array.flatten()


def _every_label(domain: Values, count: int) -> tuple[str, ...]:
    return tuple(domain.label(option) for option in range(count))


def _with_interval(name: str, labels: Iterable[str], estimate: Estimate, confidence: float) -> Quantity:
    low, high = estimate.interval(confidence)
    return Quantity(name, tuple(labels), estimate.value, estimate.standard_error, low, high)


class Frequency(Column):
    """One option per user; how many users hold each."""

    def csv_type(self) -> pa.DataType:
        import pyarrow as pa

        return pa.int64() if self.domain.names is None else pa.string()

    def values(self, array: pa.Array) -> Array:
        return self.checked(self.option_numbers(array, self.domain.names))

    def quantities(self, estimate: Estimate, confidence: float) -> list[Quantity]:
        return [_with_interval("users", _every_label(self.domain, len(estimate.value)), estimate, confidence)]


class ItemSets(Frequency):
    """A list of different options per user; how many users hold each."""

    def values(self, array: pa.Array) -> Array:
        sizes, entries = self.lists(array)
        if len(sizes) and (sizes != sizes[0]).any():
            raise self.refuse("expected lists of one length, got lists of different lengths")
        return self.checked(self.option_numbers(entries, self.domain.names).reshape(len(sizes), -1))


class Mean(Column):
    """One number per user; their mean."""

    domain: Interval

    def csv_type(self) -> pa.DataType:
        import pyarrow as pa

        return pa.float64()

    def values(self, array: pa.Array) -> Array:
        return self.checked(self.numbers(array, self.domain))

    def quantities(self, estimate: Estimate, confidence: float) -> list[Quantity]:
        low, high = self.mechanism.value_range
        scale = (self.domain.high - self.domain.low) / (high - low)
        value = self.domain.low + (estimate.value - low) * scale
        moved = Estimate(value, estimate.variance * scale**2, estimate.users)
        labels = ["mean"] if len(value) == 1 else _every_label(self.domain, len(value))
        return [_with_interval("mean", labels, moved, confidence)]


class VectorMean(Mean):
    """A list of numbers per user, or one number; the mean of each coordinate."""

    def values(self, array: pa.Array) -> Array:
        import pyarrow as pa

        if pa.types.is_integer(array.type) or pa.types.is_floating(array.type):
            return self.checked(self.numbers(array, self.domain).reshape(-1, 1))
        sizes, entries = self.lists(array)
        if len(sizes) and (sizes != sizes[0]).any():
            raise self.refuse("expected lists of one length, got lists of different lengths")
        return self.checked(self.numbers(entries, self.domain).reshape(len(sizes), -1))


class Pairs(Column):
    """Different keys with a number each per user; how many users hold each key, and the mean of their numbers."""

    domain: KeyedInterval

    def csv_type(self) -> pa.DataType:
        import pyarrow as pa

        return pa.string()

    def values(self, array: pa.Array) -> Array:
        import pyarrow as pa

        sizes, entries = self.lists(array)
        if not pa.types.is_struct(entries.type) or entries.type.num_fields != 2:
            raise self.refuse(f"expected lists of a key and a number, or maps, got lists of {entries.type}")
        keys, numbers = self.without_nulls(entries).flatten()
        width = max(1, int(sizes.max(initial=0)))
        pairs = np.zeros((len(sizes), width, 2))
        pairs[..., 0] = NONE
        filled = np.arange(width) < sizes[:, None]
        pairs[filled, 0] = self.option_numbers(keys, self.domain.keys.labels)
        pairs[filled, 1] = self.numbers(numbers, self.domain.interval)
        return self.checked(pairs)

    def quantities(self, estimate: Estimate, confidence: float) -> list[Quantity]:
        labels = _every_label(self.domain, estimate.value.shape[1])
        counts = Estimate(estimate.value[0], estimate.variance[0], estimate.users)
        interval, (low, high) = self.domain.interval, self.mechanism.value_range
        reading = self.mechanism.reading
        assert isinstance(reading, PairReading), "a mechanism for keys with numbers"
        share = (reading.means(estimate) - low) / (high - low)
        means = interval.low + share * (interval.high - interval.low)
        return [_with_interval("users", labels, counts, confidence), Quantity("mean", labels, means)]


class Ranges(Frequency):
    """One option of an ordered domain per user; how many users are in each half, quarter, … of it."""

    mechanism: RangeQueries

    def quantities(self, estimate: Estimate, confidence: float) -> list[Quantity]:
        size = self.domain.size or self.mechanism.options
        labels, kept = [], []
        node = 0
        for level in range(1, self.mechanism.height + 1):
            width = self.mechanism.options >> level
            for first in range(0, self.mechanism.options, width):
                if first < size:
                    last = min(first + width, size) - 1
                    ends = [self.domain.label(first), self.domain.label(last)]
                    labels.append(" … ".join(ends if last > first else ends[:1]))
                    kept.append(node)
                node += 1
        inside = Estimate(estimate.value[kept], estimate.variance[kept], estimate.users)
        return [_with_interval("users", labels, inside, confidence)]


class Places(Column):
    """A list of two coordinates per user; how many users are in each cell of the map."""

    mechanism: PlanarLaplace

    def csv_type(self) -> pa.DataType:
        import pyarrow as pa

        return pa.string()

    def values(self, array: pa.Array) -> Array:
        import pyarrow as pa

        sizes, entries = self.lists(array)
        if (sizes != 2).any():
            raise self.refuse("expected two coordinates in every row, got lists of another length")
        if not (pa.types.is_integer(entries.type) or pa.types.is_floating(entries.type)):
            raise self.refuse(f"expected numbers as coordinates, got {entries.type}")
        numbers = self.without_nulls(entries).to_numpy(zero_copy_only=False)
        return self.checked(numbers.astype(np.float64).reshape(-1, 2))

    def quantities(self, estimate: Estimate, confidence: float) -> list[Quantity]:
        labels = [f"{first:.6g}, {second:.6g}" for first, second in self.mechanism.centres]
        return [_with_interval("users", labels, estimate, confidence)]


TASKS: dict[str, type[Column]] = {
    "frequency": Frequency,
    "set-valued": ItemSets,
    "mean": Mean,
    "vector mean": VectorMean,
    "key-value": Pairs,
    "range queries": Ranges,
    "location": Places,
}


def column_of(plan: Plan, name: str) -> Column:
    """The column of a plan's collection; a sentence for a task that cannot be collected from a table."""
    if plan.task not in TASKS:
        raise ValueError(f"collect: expected a plan for {', '.join(TASKS)}, got one for {plan.task!r}.")
    return TASKS[plan.task](name, plan.domain, plan.mechanism)
