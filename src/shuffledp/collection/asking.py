"""What is read out of a collection's messages: the whole estimate, where there is room for it, or some options."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from shuffledp.array import Integers
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.parts.reading import Reading, demand_room
from shuffledp.planner.plan_file import Plan
from shuffledp.tasks.quantity import Quantity

BYTES_OF_A_ROW = 512
"""About what one option takes in a report: a row of each of its files while they are written."""


@dataclass(frozen=True, eq=False)
class Asking:
    """What a report of a plan's messages is to tell; None for ``options`` asks for everything."""

    plan: Plan
    options: Integers | None

    @classmethod
    def of(cls, who: str, plan: Plan, options: Any = None) -> Self:
        """What was asked for, if there is such a thing and room for it; a sentence of ``who`` otherwise."""
        if options is not None:
            return cls(plan, plan.task.options_asked(who, options))
        counted = plan.mechanism.reading.counted
        if counted is not None:
            demand_room(who, counted, max(BYTES_OF_A_ROW * counted, plan.mechanism.reading.whole_bytes))
        return cls(plan, None)

    @cached_property
    def reading(self) -> Reading:
        """How messages are read for it."""
        mechanism = self.plan.mechanism
        return mechanism.reading if self.options is None else mechanism.reading_of(self.options)

    @property
    def count(self) -> int | None:
        """How many options were asked for; None where it is everything."""
        return None if self.options is None else len(self.options)

    def numbers(self) -> list[int] | None:
        """Which ones, as JSON has them."""
        return None if self.options is None else self.options.tolist()

    def quantities(self, estimate: Estimate, confidence: float) -> list[Quantity]:
        """The estimate in the users' own words and units."""
        task = self.plan.task
        if self.options is None:
            return task.quantities(self.plan.mechanism, estimate, confidence)
        return task.quantities_of(self.options, estimate, confidence)

    def is_that_of(self, numbers: list[int] | None) -> bool:
        """Whether the same was asked for."""
        return numbers is None if self.options is None else np.array_equal(self.options, numbers or [])
