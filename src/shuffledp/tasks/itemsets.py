"""Item sets: how many users hold each option, where each user holds a set of several (set-valued data)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from shuffledp import argument
from shuffledp.array import Array, Floats
from shuffledp.mechanisms.ability import fills_places
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.tasks.adjustment import CONSISTENT, NON_NEGATIVE
from shuffledp.tasks.column import Column
from shuffledp.tasks.count_interval import counts
from shuffledp.tasks.domain import TASK, Values
from shuffledp.tasks.frequency import Frequency
from shuffledp.tasks.given import Given
from shuffledp.tasks.padding import EMPTY, filled, first_of
from shuffledp.tasks.quantity import Quantity
from shuffledp.tasks.task import Sensitivity, Task, every_label

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, init=False)
class ItemSets(Frequency):
    """How many users hold each option, where each holds several different ones, or none.

    ``options`` as for ``Frequency``; ``items`` is how many options a user holds at the most. A mechanism whose users
    must all hold as many is given ``items`` dummy options more, with which sets are filled up: estimates stay unbiased.

    >>> ItemSets(["tea", "coffee", "milk"], items=2).facts
    {'options': 3, 'items': 2}
    """

    items: int

    name = "set-valued"
    kinds = ("set-valued",)
    data = "users' options spread evenly over all options"
    takes_lists = True
    post = (NON_NEGATIVE, CONSISTENT)
    parameters = ("items",)
    taken: ClassVar[tuple[str, ...]] = ("domain", "categories", "items")

    def __init__(self, options: Values | Sequence[str] | float, items: float) -> None:
        super().__init__(options)
        object.__setattr__(self, "items", argument.count(TASK, "items", items))
        if self.items > self.count:
            raise ValueError(f"{TASK}: items must be at most the {self.count} options, got {self.items}.")

    @property
    def facts(self) -> Mapping[str, Any]:
        return {"options": self.count, "items": self.items}

    def facts_for(self, kind: type[Mechanism] | Mechanism) -> Mapping[str, Any]:
        dummies = self.items if fills_places(kind) else 0
        return {"options": self.count + dummies, "items": self.items}

    def sample(self, mechanism: Mechanism) -> Array:
        return np.add.outer(np.arange(self.count), np.arange(self.items)) % self.count

    def spread(self, mechanism: Mechanism, values: Array, variance: Floats | None = None) -> Floats:
        return super().spread(mechanism, values, variance)[: self.count]

    def compare(
        self, mechanism: Mechanism, estimate: Estimate, held: Floats, confidence: float
    ) -> tuple[Floats, Floats]:
        own = first_of(estimate, self.count)
        return super().compare(mechanism, own, held[: self.count], confidence)

    def sensitivity(self, users: int) -> Sensitivity:
        changed = float(min(2 * self.items, self.count))
        return Sensitivity(changed, math.sqrt(changed))

    def central_factor(self) -> float:
        """Sets may be of any size: what all counts add up to is not known."""
        return 1.0

    def values(self, column: Column, array: pa.Array) -> Any:
        sizes, entries = column.sets(array, self.domain.names, self.items)
        rows = np.full((len(sizes), self.items), EMPTY, dtype=np.int64)
        rows[np.arange(self.items) < sizes[:, None]] = entries
        return filled(column, rows, self.count, self.items)

    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        labels = every_label(self.domain, self.count)
        return [counts(labels, first_of(estimate, self.count), confidence)]

    @classmethod
    def from_options(cls, given: Given) -> Task:
        return cls(given.options(), given.count("items"))
