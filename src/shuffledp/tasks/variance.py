"""The mean and the variance of one number per user, from the means of the number and of its square."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp.array import Array, Floats
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.tasks.column import Column
from shuffledp.tasks.mean import POINTS, Mean, moved_to
from shuffledp.tasks.quantity import Quantity
from shuffledp.tasks.shape import NUMBERS, Shape
from shuffledp.tasks.task import Sensitivity

if TYPE_CHECKING:
    import pyarrow as pa


class Variance(Mean):
    """The variance of one number per user, and the mean beside it.

    ``low`` and ``high`` are the least and the largest number that a user may hold, in the users' own unit; or ``low``
    is an ``Interval``. A number t, moved to [−1, 1], is sent as the vector (t, 2t² − 1) of a box: any mechanism for
    vectors will do. The variance is that of these users, not of a population that they are a sample of.

    >>> task = Variance(0, 10)
    >>> task.facts["dimension"], f"{task.sensitivity(users=1000).sum:.4f}"
    (2, '0.0999')
    """

    name = "variance"
    kinds = ("vector mean",)
    unit = "the numbers' unit, squared"
    sampled = False

    @property
    def facts(self) -> Mapping[str, Any]:
        return {"dimension": 2, "shape": "box"}

    def sample(self, mechanism: Mechanism) -> Array:
        return _with_square(2 * (np.arange(POINTS) + 0.5) / POINTS - 1)

    def scale(self, mechanism: Mechanism) -> float:
        return (self.interval.width / 2) ** 2

    def one_user(self, users: int) -> float:
        return self.sensitivity(users).sum

    def spread(self, mechanism: Mechanism, values: Array, variance: Floats | None = None) -> Floats:
        first, second = mechanism.variance(values) if variance is None else variance
        return np.array([second / 4 + 4 * mechanism.truth(values)[0] ** 2 * first])

    def sensitivity(self, users: int) -> Sensitivity:
        """(high − low)²·(n − 1)/n²: attained where one user alone goes from the others' end to the other one."""
        moved = self.interval.width**2 * (users - 1) / users**2 or self.interval.width**2
        return Sensitivity(moved, moved)

    def compare(
        self, mechanism: Mechanism, estimate: Estimate, held: Floats, confidence: float
    ) -> tuple[Floats, Floats]:
        found, scale = variance_of(estimate), self.scale(mechanism)
        truth = (held[1] + 1) / 2 - held[0] ** 2
        return scale * (found.value - truth), scale * found.margin_towards(truth, confidence)

    def values(self, column: Column, array: pa.Array) -> Any:
        return _with_square(column.numbers(array, self.interval))

    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        first = estimate.some(slice(1))
        mean, found, scale = moved_to(self.interval, mechanism, first), variance_of(estimate), self.scale(mechanism)
        variance = found.moved(scale)
        return [
            Quantity.of("mean", ["mean"], mean, confidence, Shape(NUMBERS, self.interval.low, self.interval.high)),
            # No numbers of an interval vary more than those at its two ends, half of them at each.
            Quantity.of(
                "variance", ["variance"], variance, confidence, Shape(NUMBERS, 0.0, self.interval.width**2 / 4)
            ),
        ]


def _with_square(numbers: Floats) -> Array:
    """(t, 2t² − 1) of each number of [−1, 1]."""
    return np.stack([numbers, np.clip(2 * numbers**2 - 1, -1.0, 1.0)], axis=1)


def variance_of(estimate: Estimate) -> Estimate:
    """The variance from estimates of the means of t and of 2t² − 1, whose errors are independent.

    The square of an estimate is too large by its variance on average, which is taken off. The variance is that of
    the first order, with the second order of the square.
    """
    (mean, double), (first, second) = estimate.value, estimate.variance
    value = (double + 1) / 2 - mean**2 + first
    spread = second / 4 + 4 * mean**2 * first + 2 * first**2
    return Estimate(np.array([value]), np.array([spread]), estimate.users, estimate.tails.of_sum(1.0))
