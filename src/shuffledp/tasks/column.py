"""One column of a table under a task: what every task needs to read it, and sentences for what cannot be read.

Every value must be in the task's public domain: one that is not stops a collection before anything is encoded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp.array import Array, Floats
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.tasks.domain import Interval
from shuffledp.tasks.quantity import Quantity

if TYPE_CHECKING:
    import pyarrow as pa

    from shuffledp.tasks.task import Task


@dataclass(frozen=True)
class Column:
    """The column of one collection."""

    name: str
    task: Task
    mechanism: Mechanism

    def values(self, array: pa.Array) -> Array:
        """One value per row, in the mechanism's canonical form; a sentence if a row holds none or a bad one."""
        return self.checked(self.task.values(self, array))

    def csv_type(self) -> pa.DataType:
        """What a text in a CSV file is read as."""
        return self.task.csv_type()

    def quantities(self, estimate: Estimate, confidence: float) -> list[Quantity]:
        """The estimate in the users' own words and units."""
        return self.task.quantities(self.mechanism, estimate, confidence)

    # --- what tasks read a column with ------------------------------------------------------------------------

    def refuse(self, sentence: str) -> ValueError:
        return ValueError(f"column {self.name!r}: {sentence}.")

    def checked(self, values: Any, check: Callable[[Any], Array] | None = None) -> Array:
        """Through the mechanism's own check, or the one that is given."""
        try:
            return (check or self.mechanism.check)(values)
        except (ValueError, TypeError) as error:
            # What the mechanism found may be somebody's value.
            expected, found, _ = str(error).partition(", got ")
            raise ValueError(f"column {self.name!r}: {f'{expected}, got others.' if found else expected}") from None

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
        array = array.cast(pa.string()) if pa.types.is_integer(array.type) else without_views(array)
        if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
            raise self.refuse(f"expected texts from the plan's categories, got {array.type}")
        places = pc.index_in(array, value_set=pa.array(labels, type=array.type))
        if places.null_count:
            raise self.refuse(f"expected one of the plan's {len(labels)} categories{_others(places.null_count, array)}")
        return np.asarray(places.to_numpy())

    def _in_domain(self, numbers: Array) -> Array:
        """A mechanism may have more options than the domain: a range of values is filled up to a power of two."""
        size = self.task.domain.size
        if size is not None and len(numbers) and not 0 <= numbers.min() <= numbers.max() < size:
            bad = int(np.count_nonzero((numbers < 0) | (numbers >= size)))
            raise self.refuse(f"expected whole numbers from 0 to {size - 1}{_others(bad, numbers)}")
        return numbers

    def numbers(self, array: pa.Array, interval: Interval) -> Floats:
        """Numbers of the public interval, moved to the mechanism's own range."""
        self.without_nulls(array)
        if not is_numeric(array):
            raise self.refuse(f"expected numbers from {interval.low:g} to {interval.high:g}, got {array.type}")
        numbers = array.to_numpy(zero_copy_only=False).astype(np.float64)
        outside = numbers[~((numbers >= interval.low) & (numbers <= interval.high))]
        if outside.size:
            raise self.refuse(
                f"expected numbers from {interval.low:g} to {interval.high:g}{_others(outside.size, numbers)}; "
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

    def lists_of_one_length(self, array: pa.Array) -> tuple[int, pa.Array]:
        """How many rows there are, and all their entries."""
        sizes, entries = self.lists(array)
        if len(sizes) and (sizes != sizes[0]).any():
            raise self.refuse("expected lists of one length, got lists of different lengths")
        return len(sizes), entries


def _others(bad: int, rows: Any) -> str:
    """What was found instead: how many, and never whose or what."""
    return f", got something else in {bad:,} of {len(rows):,} values"


def is_numeric(array: pa.Array) -> bool:
    """Whole or floating numbers."""
    import pyarrow as pa

    return bool(pa.types.is_integer(array.type) or pa.types.is_floating(array.type))


def without_views(array: Any) -> Any:
    """Texts that stand together, where they were views: few of Arrow's functions know views."""
    import pyarrow as pa

    return array.cast(pa.large_string()) if pa.types.is_string_view(array.type) else array
