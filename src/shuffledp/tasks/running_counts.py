"""The task ``counts-over-time``: running counts of events, released day by day."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shuffledp._core.validation import Array, Floats
from shuffledp.mechanisms.base.estimator import Estimate
from shuffledp.mechanisms.base.mechanism import Mechanism, find_range_estimator
from shuffledp.mechanisms.base.range_estimator import TreeEstimator
from shuffledp.mechanisms.base.value_tree import ValueTree
from shuffledp.mechanisms.dummies.poisson_tables_and_trees import fan_outs
from shuffledp.tasks.base import (
    CONSISTENT,
    Quantity,
    Sensitivity,
    cumulative_shape,
    option_labels,
    post_process_quantity,
)
from shuffledp.tasks.domain import PLAN_PREFIX
from shuffledp.tasks.ranges import Ranges


@dataclass(frozen=True, init=False)
class OverTime(Ranges):
    """The number of users whose event was on or before each day, where every user has one event.

    Days are the values of a tree. A node's count can be released when its last day is over, and on each day the running
    count is a sum of nodes that are over. The guarantee covers all nodes of the whole period, so that daily releases
    need no further budget. If the shuffler draws the noise, ``collection.release`` releases day by day; ``collect``
    reports a finished collection: for each day, the count that could have been released on it.

    Args:
        options: Public list of days in their order, as texts, or their number, if users' data number them from 0.

    Raises:
        ValueError: If there are fewer than two days, two look alike, or the domain is not one of options.
        TypeError: If it is neither a number nor a list of texts.

    >>> import shuffledp as sdp
    >>> year = sdp.tasks.OverTime(365)
    >>> print(f"{year.standard_error(sdp.RangeTree(365, 100.0, 0), 10_000):.1f}")
    15.6
    """

    name = "counts over time"
    data_description = "events spread evenly over the days, running counts of every day"

    @classmethod
    def can_use(cls, kind: type[Mechanism] | Mechanism) -> bool:
        # Trees whose nodes have independent noise: a node can be estimated without the counts of the others.
        estimators = [one.estimator for one in (kind.examples() if isinstance(kind, type) else [kind])]
        return kind.task in cls.mechanism_tasks and any(
            isinstance(one, TreeEstimator) and one.has_independent_noise for one in estimators
        )

    def estimator_variance(self, mechanism: Mechanism, values: Array, variance: Floats | None = None) -> Floats:
        del variance
        return self._running_release(mechanism, len(values)).variance()

    def standard_error(
        self, mechanism: Mechanism, users: int, variance: Callable[[Array], Floats] | None = None
    ) -> float:
        del variance
        return math.sqrt(float(np.mean(self._running_release(mechanism, users).variance())))

    def compute_errors_and_margins(
        self, mechanism: Mechanism, estimate: Estimate, held: Floats, confidence: float
    ) -> tuple[Floats, Floats]:
        counts = self._running_release(mechanism, estimate.users).estimate(estimate)
        truth = np.cumsum(held)
        return counts.value - truth, counts.margin_towards(truth, confidence)

    def curator_statistics(self, users: int) -> Iterator[tuple[Sensitivity, float]]:
        # A curator also releases the nodes of a tree when they are over.
        del users
        for fan_out in fan_outs(self.count):
            tree = ValueTree(self.count, fan_out)
            spread = RunningRelease(tree, 1.0).variance()
            yield Sensitivity(2.0 * tree.height, math.sqrt(2.0 * tree.height)), math.sqrt(float(np.mean(spread)))

    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        # The running count of every day, as it could have been released on that day.
        counts = self._running_release(mechanism, estimate.users).estimate(estimate)
        labels, shape = option_labels(self.domain, self.count), cumulative_shape(estimate.users)
        return [Quantity.from_estimate("users up to", labels, counts, confidence, shape)]

    def post_process(
        self, mechanism: Mechanism, estimate: Estimate, quantities: Sequence[Quantity], way: str
    ) -> list[Any]:
        # Running counts never decrease: the nearest such counts, within the possible range.
        from scipy.optimize import isotonic_regression

        if way != CONSISTENT:
            return [post_process_quantity(quantity, way) for quantity in quantities]
        return [np.clip(isotonic_regression(quantity.value).x, 0.0, float(estimate.users)) for quantity in quantities]

    def running_counts(self, mechanism: Mechanism, estimate: Estimate, days: int) -> Estimate:
        """Returns the running counts of the first days, from the nodes that are over.

        The number of users is not public yet, so the last day is estimated like the others.

        Args:
            mechanism: Mechanism that is used.
            estimate: Estimate whose nodes that are over are correct.
            days: Number of days that are over.

        Returns:
            The running count of each of these days.

        Raises:
            ValueError: If the mechanism cannot release one count before the others.
        """
        return self._running_release(mechanism, estimate.users).running_counts(estimate, days)

    def _running_release(self, mechanism: Mechanism, users: int) -> RunningRelease:
        ranges = find_range_estimator(mechanism)
        if ranges is None or not self.can_use(mechanism):
            raise ValueError(f"{PLAN_PREFIX}: {mechanism.name} cannot release one count before the others.")
        first = np.zeros(ranges.tree.node_count)
        first[0] = 1.0
        noise = float(ranges.estimator.combined_variance(first, np.zeros(ranges.tree.value_count), users))
        return RunningRelease(ranges.tree, noise)


@dataclass(frozen=True)
class RunningRelease:
    """Running counts from the nodes that are over, each improved by all nodes within it.

    ``noise`` is the variance of each node's own number; all are independent. On the last day of a finished collection
    the number of users is known.
    """

    tree: ValueTree
    noise: float

    def variance(self) -> Floats:
        """Returns the variance of each day's running count."""
        variances = self._variances()
        variances[-1] = 0.0
        return variances

    def estimate(self, estimate: Estimate) -> Estimate:
        """Returns the running count of each day, from the estimate of all nodes."""
        value = self._values(estimate)
        value[-1] = estimate.users
        return Estimate(value, self.variance(), estimate.users)

    def running_counts(self, estimate: Estimate, days: int) -> Estimate:
        """Returns the running counts of the first days, from an estimate whose nodes that are over are correct."""
        return Estimate(self._values(estimate)[:days], self._variances()[:days], estimate.users)

    def _variances(self) -> Floats:
        return self._cumulative_sums(self.tree.combined_variances((self.noise,) * self.tree.height))

    def _values(self, estimate: Estimate) -> Floats:
        return self._cumulative_sums(self.tree.combine_upwards(estimate.value, (1.0,) * self.tree.height))

    def _cumulative_sums(self, numbers: list[Floats]) -> Floats:
        """Sums the nodes that make up each [0, k]: the widest one that ends there, and those of [0, its first day)."""
        values, widths = self.tree.value_count, self.tree.node_widths
        found = np.zeros(values + 1)
        for end in range(1, values + 1):
            # On the last day the truncated nodes are also over.
            level = next(level for level, width in enumerate(widths) if end % width == 0 or end == values)
            node = (end - 1) // widths[level]
            found[end] = found[node * widths[level]] + numbers[level][node]
        return found[1:]
