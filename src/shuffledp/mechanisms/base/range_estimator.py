"""Estimators of ranges and quantiles from trees of counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from shuffledp._core import validation
from shuffledp._core.validation import Array, Floats, Integers
from shuffledp.mechanisms.base.estimator import Estimate, KnownCovarianceEstimator
from shuffledp.mechanisms.base.value_tree import ValueTree


class TreeEstimator(KnownCovarianceEstimator):
    """Estimator of the counts of all nodes of a tree over an ordered domain; a histogram is a tree of one level."""

    tree: ValueTree

    @property
    def has_known_covariances(self) -> bool:
        """True if the covariances are known with these settings."""
        return True

    @property
    def has_independent_noise(self) -> bool:
        """True if the noise of every node is independent of the other nodes and of the values."""
        return False

    def message_nodes(self, messages: Array) -> Integers:
        """Returns the node that each message is about.

        Args:
            messages: The messages.

        Returns:
            One node per message.

        Raises:
            ValueError: If not every message is about one node.
        """
        raise ValueError("messages: those of this mechanism are not about one node of a tree each.")

    @property
    def empty_node_variances(self) -> tuple[float, ...]:
        """The variance of an empty node's estimate on each level, in any unit."""
        return (1.0,) * self.tree.height


MAX_BLOCK_ENTRIES = 1 << 21
"""Entries of the weight matrix that are computed at a time."""

ValueRange = tuple[int, int]


@dataclass(frozen=True)
class ConsistentRangeEstimator:
    """Estimator of ranges from the estimates of all nodes of a tree, made consistent by least squares.

    Answers are unbiased and linear in the nodes' estimates, with the weights that are optimal for empty nodes; the
    variance is exact for any data, because the weights of every answer are known. A flat histogram is the tree of
    height one, where least squares only spread the excess of the sum of all counts.

    Args:
        error_prefix: Name that begins error messages.
        tree: The tree of values.
        level_variances: Variance of an empty node's estimate on each level, in any unit.
        estimator: Estimator that knows the covariances of the nodes' estimates.
    """

    error_prefix: str
    tree: ValueTree
    level_variances: tuple[float, ...]
    estimator: KnownCovarianceEstimator

    @classmethod
    def from_estimator(cls, who: str, nodes: TreeEstimator) -> ConsistentRangeEstimator:
        """Returns the estimator of ranges for an estimator of nodes."""
        return cls(who, nodes.tree, nodes.empty_node_variances, nodes)

    def value_counts(self, estimate: Estimate) -> Floats:
        """Returns how many users hold each value, consistent with the nodes and with the number of users."""
        nodes = self.tree.make_consistent(estimate.value, self.level_variances, float(estimate.users))
        return self.tree.split_levels(nodes)[-1]

    def ranges(self, estimate: Estimate, ranges: Sequence[ValueRange]) -> Estimate:
        """Returns unbiased estimates of the number of users with a value in each range [a, b).

        The estimated variance is unbiased, too, as it is linear in the counts: these enter unclipped, because clipping
        many small ones at 0 would add up. Raises ValueError if a range is empty or outside the domain.
        """
        held, users = self.value_counts(estimate), estimate.users
        below = np.concatenate([[0.0], np.cumsum(held)])
        ends = self._check_ranges(ranges)
        value = below[ends[:, 1]] - below[ends[:, 0]]
        value[ends[:, 1] - ends[:, 0] == self.tree.value_count] = users
        return Estimate(value, np.maximum(self._variance(ends, held, users), 0.0), users)

    def range_variance(self, values: Integers, ranges: Sequence[ValueRange]) -> Floats:
        """Returns the exact variance of `ranges` if users hold these values."""
        held = np.bincount(values, minlength=self.tree.value_count).astype(np.float64)
        return self.range_variance_at_counts(held, len(values), ranges)

    def range_variance_at_counts(self, held: Floats, users: int, ranges: Sequence[ValueRange]) -> Floats:
        """Returns the exact variance of `ranges` if `held` users hold each value."""
        return self._variance(self._check_ranges(ranges), held, users)

    def _variance(self, ends: Integers, held: Floats, users: int) -> Floats:
        blocks = [self.estimator.combined_variance(weights, held, users) for weights in self._weights(ends)]
        variance = np.concatenate(blocks)
        # The number of all users is known without noise; only rounding error is left of its variance.
        variance[ends[:, 1] - ends[:, 0] == self.tree.value_count] = 0.0
        return variance

    def _weights(self, ends: Integers) -> Iterator[Floats]:
        """Yields the weights of the nodes for a block of answers at a time."""
        places = np.arange(self.tree.value_count)
        step = max(1, MAX_BLOCK_ENTRIES // self.tree.node_count)
        for first in range(0, len(ends), step):
            low, high = ends[first : first + step].T
            inside = (places >= low[:, None]) & (places < high[:, None])
            yield self.tree.adjoint_weights(inside.astype(np.float64), self.level_variances)[0]

    def _check_ranges(self, ranges: Sequence[ValueRange]) -> Integers:
        return np.array([self._check_range(a, b) for a, b in ranges], dtype=np.int64).reshape(-1, 2)

    def _check_range(self, a: Any, b: Any) -> ValueRange:
        low = validation.count(self.error_prefix, "the start of a range", a, at_least=0)
        high = validation.count(self.error_prefix, "the end of a range", b, at_least=0)
        if not low < high <= self.tree.value_count:
            raise ValueError(
                f"{self.error_prefix}: a range [a, b) must have a < b ≤ {self.tree.value_count}, got [{low}, {high})."
            )
        return low, high


MAX_FULL_SCAN_VALUES = 1 << 6
"""Number of values up to which every running count gets an interval; beyond, only those that a search visits."""


@dataclass(frozen=True)
class QuantileInterval:
    """Estimated quantile, and the first and the last value of its confidence interval."""

    value: int
    low: int
    high: int


@dataclass(frozen=True)
class CumulativeCounts:
    """Number of users who hold at most each of the first `value_count` values, from an estimate of all nodes."""

    range_estimator: ConsistentRangeEstimator
    estimate: Estimate
    value_count: int

    def cumulative_counts(self) -> Floats:
        """Returns the estimated running counts, non-decreasing, between 0 and all users."""
        users = float(self.estimate.users)
        counts = np.clip(np.cumsum(self._value_counts[: self.value_count]), 0.0, users)
        counts[-1] = users
        return np.maximum.accumulate(counts)

    def estimate_cumulative(self, values: Integers) -> Estimate:
        """Returns the unbiased number of users who hold at most each of these values, with its variance."""
        ends = [
            self.range_estimator.tree.value_count if value == self.value_count - 1 else int(value) + 1
            for value in values
        ]
        spread = self.range_estimator.range_variance_at_counts(
            self._value_counts, self.estimate.users, [(0, end) for end in ends]
        )
        return Estimate(self._counts_below[ends], np.maximum(spread, 0.0), self.estimate.users)

    @cached_property
    def _value_counts(self) -> Floats:
        return self.range_estimator.value_counts(self.estimate)

    @cached_property
    def _counts_below(self) -> Floats:
        """The number of users who hold less than each value, from 0 to all users."""
        counts = np.append(0.0, np.cumsum(self._value_counts))
        counts[-1] = self.estimate.users
        return counts

    def quantile(self, share: float, confidence: float) -> QuantileInterval:
        """Returns the first value that at least this share of users do not exceed, and its confidence interval.

        Value v is the quantile if F(v − 1) < share·n ≤ F(v). It is in the interval unless one of the two is outside
        the interval of its own count: each event has probability at most (1 − confidence)/2, hence either at most
        1 − confidence.
        """
        rank = share * self.estimate.users
        best = int(np.searchsorted(self.cumulative_counts(), rank * (1 - 1e-12), side="left"))

        def possible(values: Integers) -> Floats:
            low, high = self._count_intervals(np.concatenate([values, values - 1]), confidence)
            return np.asarray((high[: len(values)] >= rank) & (low[len(values) :] < rank))

        if self.value_count <= MAX_FULL_SCAN_VALUES:
            inside = np.flatnonzero(possible(np.arange(self.value_count)))
            ends = (int(inside[0]), int(inside[-1])) if len(inside) else (best, best)
        else:
            ends = _find_edge(possible, best, -1, 0), _find_edge(possible, best, 1, self.value_count - 1)
        return QuantileInterval(best, min(best, ends[0]), max(best, ends[1]))

    def _count_intervals(self, values: Integers, confidence: float) -> tuple[Floats, Floats]:
        """Returns the intervals of the running count: below 0 before the first value, all users at the last."""
        low, high = self.estimate_cumulative(np.maximum(values, 0)).interval(confidence)
        before, last = values < 0, values == self.value_count - 1
        users = float(self.estimate.users)
        low, high = np.where(last, users, low), np.where(last, users, high)
        return np.where(before, -1.0, low), np.where(before, -1.0, high)


def _find_edge(possible: Callable[[Integers], Floats], start: int, sign: int, end: int) -> int:
    """Returns the last possible value in one direction, by doubling steps and then bisection."""
    inside, step = start, 1
    while inside != end:
        probe = inside + sign * min(step, abs(end - inside))
        if not possible(np.array([probe]))[0]:
            outside = probe
            while abs(outside - inside) > 1:
                middle = (outside + inside) // 2
                inside, outside = (middle, outside) if possible(np.array([middle]))[0] else (inside, middle)
            return inside
        inside, step = probe, 2 * step
    return inside
