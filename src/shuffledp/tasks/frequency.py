"""Frequencies: how many users hold each option of a public list (a histogram, by a frequency oracle)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from shuffledp.array import Array
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.tasks.column import Column
from shuffledp.tasks.domain import Values, options_of
from shuffledp.tasks.given import Given
from shuffledp.tasks.quantity import Quantity
from shuffledp.tasks.task import Sensitivity, Task, every_label

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, init=False)
class Frequency(Task):
    """How many users hold each option, where each holds one.

    ``options`` is the public list of options as texts, or how many there are, which users' data then number from 0;
    or a ``Categories`` or ``Options``.

    >>> Frequency(["red", "green", "blue"]).count
    3
    >>> Frequency(1024).domain
    Options(count=1024)
    """

    options: Values

    name = "frequency"
    kinds: ClassVar[tuple[str, ...]] = ("frequency",)
    data = "users spread evenly over the options"
    unit = "users"
    taken: ClassVar[tuple[str, ...]] = ("domain", "categories")

    def __init__(self, options: Values | Sequence[str] | float) -> None:
        object.__setattr__(self, "options", options_of(options))
        self._demand_kind(self.options, "options")

    @property
    def count(self) -> int:
        """How many options there are."""
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

    def csv_type(self) -> pa.DataType:
        import pyarrow as pa

        return pa.int64() if self.domain.names is None else pa.string()

    def values(self, column: Column, array: pa.Array) -> Any:
        return column.option_numbers(array, self.domain.names)

    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        return [Quantity.of("users", every_label(self.domain, len(estimate.value)), estimate, confidence)]

    @classmethod
    def read(cls, domain: Values, parameters: Mapping[str, Any]) -> Task:
        return cls(domain, **parameters)

    @classmethod
    def from_options(cls, given: Given) -> Task:
        return cls(given.options())
