"""Frequencies: how many users hold each option of a public list (a histogram, by a frequency oracle)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from shuffledp.array import Array, Floats, Integers
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.parts.asked import Asked
from shuffledp.mechanisms.parts.reading import Reading
from shuffledp.tasks.adjustment import WAYS
from shuffledp.tasks.column import Column
from shuffledp.tasks.domain import Values, options_of
from shuffledp.tasks.given import Given
from shuffledp.tasks.quantity import Quantity
from shuffledp.tasks.shape import Shape, are_in_order, counted
from shuffledp.tasks.task import Sensitivity, Task, every_label

if TYPE_CHECKING:
    import pyarrow as pa

MOST_SAMPLED = 1 << 16
"""Options that made-up users are spread over one by one; of more, so many stand for all."""
MOST_MEASURED, MOST_ASKED = 1 << 18, 10_000
"""Options that are all read where a plan measures the time; of more, so many are asked for."""


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
    sampled = True
    post: ClassVar[tuple[str, ...]] = tuple(WAYS)
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
        return self._typical(MOST_SAMPLED)

    def _typical(self, most: int) -> Integers:
        """All options, or so many that are spread evenly over them."""
        return np.arange(self.count) if self.count <= most else np.arange(most) * (self.count // most)

    def reading(self, mechanism: Mechanism) -> Reading:
        if self.count <= MOST_MEASURED:
            return mechanism.reading
        return mechanism.reading.some(Asked(self._typical(MOST_ASKED)))

    @property
    def read_words(self) -> str:
        return "" if self.count <= MOST_MEASURED else f" for {MOST_ASKED:,} of the {self.count:,} options"

    def standard_error(
        self, mechanism: Mechanism, users: int, variance: Callable[[Array], Floats] | None = None
    ) -> float:
        """Of very many options those that stand for all: each is held by as many users, on average, as any other."""
        if self.count > MOST_SAMPLED and variance is None:
            options = self._typical(MOST_ASKED)
            held = np.full(len(options), users / self.count)
            known = mechanism.reading.some(Asked(options)).variance_where(held, users)
            if known is not None:
                return math.sqrt(max(0.0, float(np.mean(known))))
        return super().standard_error(mechanism, users, variance)

    def sensitivity(self, users: int) -> Sensitivity:
        return Sensitivity(2.0, math.sqrt(2.0))

    def central_factor(self) -> float:
        """All counts together are known: a curator, too, takes the mean of the noise off."""
        return math.sqrt(1 - 1 / self.count)

    def values(self, column: Column, array: pa.Array) -> Any:
        return column.option_numbers(array, self.domain.names)

    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        labels, shape = every_label(self.domain, len(estimate.value)), self.known(estimate.users)
        return [Quantity.of("users", labels, estimate, confidence, shape)]

    def known(self, users: int) -> Shape:
        """Of the counts of all options, where each user holds one."""
        return counted(users, all_in_one=True, ordered=are_in_order(self.domain.names))

    def options_asked(self, who: str, options: Any) -> Integers:
        given = [options] if isinstance(options, str) else list(options)
        if not given:
            raise ValueError(f"{who}: expected at least one option to ask for, got none.")
        numbers = np.array([self._place(who, option) for option in given], dtype=np.int64)
        distinct, times = np.unique(numbers, return_counts=True)
        if len(distinct) < len(numbers):
            twice = self.domain.label(int(distinct[times > 1][0]))
            raise ValueError(f"{who}: expected options that are different, got {twice!r} twice.")
        return numbers

    def _place(self, who: str, option: Any) -> int:
        """Its number, from its label."""
        known = self._places.get(str(option))
        return self.domain.place(who, option) if known is None else known

    @cached_property
    def _places(self) -> Mapping[str, int]:
        """The numbers of the labels, where there are any."""
        return {label: place for place, label in enumerate(self.domain.names or ())}

    def held_of(self, options: Integers, users: int) -> Integers:
        """As ``held`` has it: the first options have one user more where they cannot all have as many."""
        each, more = divmod(users, self.count)
        return np.asarray(each + (options < more), dtype=np.int64)

    def quantities_of(self, options: Integers, estimate: Estimate, confidence: float) -> list[Quantity]:
        shape = counted(estimate.users, all_in_one=False)
        return [Quantity.of("users", map(self.domain.label, options.tolist()), estimate, confidence, shape)]

    @classmethod
    def read(cls, domain: Values, parameters: Mapping[str, Any]) -> Task:
        return cls(domain, **parameters)

    @classmethod
    def from_options(cls, given: Given) -> Task:
        return cls(given.options())
