"""Quantiles from consistent counts: the running count turned round, with a confidence interval of values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shuffledp.array import Floats, Integers
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.parts.consistent_ranges import ConsistentRanges

ALL_AT_ONCE = 1 << 6
"""Up to so many values the running count of each has its interval; else only of those that a search looks at."""


@dataclass(frozen=True)
class QuantileInterval:
    """A value, and the first and last value that cannot be told from it."""

    value: int
    low: int
    high: int


@dataclass(frozen=True)
class RunningCount:
    """How many users hold at most each of the first ``count`` values."""

    answers: ConsistentRanges
    estimate: Estimate
    count: int

    def values(self) -> Floats:
        """Estimated, never falling, from 0 to all users."""
        users = float(self.estimate.users)
        found = np.clip(np.cumsum(self._held[: self.count]), 0.0, users)
        found[-1] = users
        return np.maximum.accumulate(found)

    def up_to(self, values: Integers) -> Estimate:
        """The number of users who hold at most each of these values, unbiased, with its variance."""
        ends = [self.answers.tree.values if value == self.count - 1 else int(value) + 1 for value in values]
        spread = self.answers.variance_of(self._held, self.estimate.users, [(0, end) for end in ends])
        return Estimate(self._below[ends], np.maximum(spread, 0.0), self.estimate.users)

    @cached_property
    def _held(self) -> Floats:
        return self.answers.counts(self.estimate)

    @cached_property
    def _below(self) -> Floats:
        """How many users hold less than each value, from 0 to everybody."""
        found = np.append(0.0, np.cumsum(self._held))
        found[-1] = self.estimate.users
        return found

    def quantile(self, share: float, confidence: float) -> QuantileInterval:
        """The first value that at least this share of users do not exceed, and which values it may be.

        Value v is the quantile where F(v − 1) < share·n ≤ F(v). It is in the interval unless one of the two is outside
        the interval of its own count: each is so with at most half of 1 − confidence, hence both with all of it.
        """
        wanted = share * self.estimate.users
        best = int(np.searchsorted(self.values(), wanted * (1 - 1e-12), side="left"))

        def possible(values: Integers) -> Floats:
            low, high = self._bounds(np.concatenate([values, values - 1]), confidence)
            return np.asarray((high[: len(values)] >= wanted) & (low[len(values) :] < wanted))

        if self.count <= ALL_AT_ONCE:
            inside = np.flatnonzero(possible(np.arange(self.count)))
            ends = (int(inside[0]), int(inside[-1])) if len(inside) else (best, best)
        else:
            ends = _edge(possible, best, -1, 0), _edge(possible, best, 1, self.count - 1)
        return QuantileInterval(best, min(best, ends[0]), max(best, ends[1]))

    def _bounds(self, values: Integers, confidence: float) -> tuple[Floats, Floats]:
        """The intervals of the running count; below the first value nobody is, and at the last everybody."""
        found = self.up_to(np.maximum(values, 0))
        low, high = found.interval(confidence)
        before, last = values < 0, values == self.count - 1
        users = float(self.estimate.users)
        low, high = np.where(last, users, low), np.where(last, users, high)
        return np.where(before, -1.0, low), np.where(before, -1.0, high)


def _edge(possible: Callable[[Integers], Floats], start: int, sign: int, end: int) -> int:
    """The last possible value in one direction: steps that double, then halving."""
    inside, step = start, 1
    while inside != end:
        tried = inside + sign * min(step, abs(end - inside))
        if not possible(np.array([tried]))[0]:
            outside = tried
            while abs(outside - inside) > 1:
                middle = (outside + inside) // 2
                inside, outside = (middle, outside) if possible(np.array([middle]))[0] else (inside, middle)
            return inside
        inside, step = tried, 2 * step
    return inside
