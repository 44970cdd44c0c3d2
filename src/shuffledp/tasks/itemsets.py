"""Item sets: how many users hold each option, where each user holds a set of several (set-valued data)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from shuffledp import argument
from shuffledp.array import Array
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.parts.user_values import ItemsUpTo
from shuffledp.tasks.column import Column
from shuffledp.tasks.domain import TASK, Values
from shuffledp.tasks.frequency import Frequency
from shuffledp.tasks.given import Given
from shuffledp.tasks.task import Sensitivity, Task

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, init=False)
class ItemSets(Frequency):
    """How many users hold each option, where each holds several different ones.

    ``options`` as for ``Frequency``; ``items`` is how many options every user holds.

    >>> ItemSets(["tea", "coffee", "milk"], items=2).facts
    {'options': 3, 'items': 2}
    """

    items: int

    name = "set-valued"
    kinds = ("set-valued",)
    data = "users' options spread evenly over all options"
    parameters = ("items",)
    taken: ClassVar[tuple[str, ...]] = ("domain", "categories", "items")

    def __init__(self, options: Values | Sequence[str] | float, items: float) -> None:
        super().__init__(options)
        object.__setattr__(self, "items", argument.count(TASK, "items", items))
        if self.items >= self.count:
            raise ValueError(f"{TASK}: items must be below the {self.count} options, got {self.items}.")

    @property
    def facts(self) -> Mapping[str, Any]:
        return {"options": self.count, "items": self.items}

    def sample(self, mechanism: Mechanism) -> Array:
        return np.add.outer(np.arange(self.count), np.arange(self.items)) % self.count

    def sensitivity(self, users: int) -> Sensitivity:
        changed = 2.0 * min(self.items, self.count - self.items)
        return Sensitivity(changed, math.sqrt(changed))

    def values(self, column: Column, array: pa.Array) -> Any:
        if isinstance(column.mechanism.values.plain, ItemsUpTo):
            sizes, entries = column.lists(array)
            return self._padded(column, sizes, column.option_numbers(entries, self.domain.names))
        rows, entries = column.lists_of_one_length(array)
        return column.option_numbers(entries, self.domain.names).reshape(rows, -1)

    def _padded(self, column: Column, sizes: Array, numbers: Array) -> Array:
        """Sets of any length up to the stated one, in rows of one length with −1 for none."""
        longer = int(np.count_nonzero(sizes > self.items))
        if longer:
            rows = f"{longer:,} of {len(sizes):,} rows"
            raise column.refuse(f"expected at most {self.items} items in every row, got more in {rows}")
        result = np.full((len(sizes), self.items), -1, dtype=np.int64)
        result[np.arange(self.items) < sizes[:, None]] = numbers
        return result

    @classmethod
    def from_options(cls, given: Given) -> Task:
        return cls(given.options(), given.count("items"))
