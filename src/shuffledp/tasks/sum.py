"""The sum of one number per user."""

from __future__ import annotations

import numpy as np

from shuffledp.array import Array, Floats
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.tasks.mean import Mean, moved_to
from shuffledp.tasks.quantity import Quantity
from shuffledp.tasks.shape import NUMBERS, Shape
from shuffledp.tasks.task import Sensitivity


class Sum(Mean):
    """The sum of one number per user: the mean, times how many users there are.

    ``low`` and ``high`` are the least and the largest number that a user may hold, in the users' own unit; or ``low``
    is an ``Interval``. Of numbers that are 0 or 1 it counts the ones.

    >>> Sum(0, 10).sensitivity(users=1000).sum
    10.0
    """

    name = "sum"
    unit = "the numbers' unit, of the sum"
    averages = False

    def one_user(self, users: int) -> float:
        del users
        return self.interval.width

    def spread(self, mechanism: Mechanism, values: Array, variance: Floats | None = None) -> Floats:
        return np.asarray(super().spread(mechanism, values, variance) * len(values) ** 2)

    def compare(
        self, mechanism: Mechanism, estimate: Estimate, held: Floats, confidence: float
    ) -> tuple[Floats, Floats]:
        errors, margins = super().compare(mechanism, estimate, held, confidence)
        return estimate.users * errors, estimate.users * margins

    def sensitivity(self, users: int) -> Sensitivity:
        del users
        return Sensitivity(self.interval.width, self.interval.width)

    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        mean, users = moved_to(self.interval, mechanism, estimate), estimate.users
        total = mean.moved(users)
        shape = Shape(NUMBERS, self.interval.low * users, self.interval.high * users)
        return [Quantity.of("sum", ["sum"], total, confidence, shape)]
