"""Counts of users in ranges of an ordered domain, from the counts of a tree's nodes, made consistent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shuffledp import argument
from shuffledp.array import Floats, Integers
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.parts.reading import CombinedReading, TreeReading
from shuffledp.mechanisms.parts.value_tree import ValueTree

CELLS_AT_ONCE = 1 << 21
"""Numbers of nodes in the weights of answers that are made at a time."""

Ends = tuple[int, int]


@dataclass(frozen=True)
class ConsistentRanges:
    """Answers from the estimate of all nodes of a tree: least squares, so that what must add up does.

    Answers are unbiased and linear in the nodes' estimates, whose weights are those that are best where nobody is in a
    node; the variance is exact for any data, because the weights of every answer are known. A flat histogram is the
    tree of height one, where all that least squares do is to take off what all counts together have too much.

    ``spreads``: the variance of an empty node's estimate on each level, in any unit. ``reading``: how nodes' estimates
    hang together.
    """

    who: str
    tree: ValueTree
    spreads: tuple[float, ...]
    reading: CombinedReading

    @classmethod
    def of(cls, who: str, reading: TreeReading) -> ConsistentRanges:
        """Answers from what is read."""
        return cls(who, reading.tree, reading.empty, reading)

    def counts(self, estimate: Estimate) -> Floats:
        """How many users hold each value, consistent with the nodes and with how many there are."""
        whole = self.tree.consistent(estimate.value, self.spreads, float(estimate.users))
        return self.tree.levels(whole)[-1]

    def ranges(self, estimate: Estimate, ranges: Sequence[Ends]) -> Estimate:
        """The number of users with a value in [a, b), for each range, from the estimate of all nodes; unbiased.

        So is its estimated variance, which is linear in the counts: these are taken as estimated, below 0 too, because
        many small ones would add up what clipping each adds.
        """
        held, users = self.counts(estimate), estimate.users
        below = np.concatenate([[0.0], np.cumsum(held)])
        ends = self._checked(ranges)
        value = below[ends[:, 1]] - below[ends[:, 0]]
        value[ends[:, 1] - ends[:, 0] == self.tree.values] = users
        return Estimate(value, np.maximum(self._variance(ends, held, users), 0.0), users)

    def range_variance(self, values: Integers, ranges: Sequence[Ends]) -> Floats:
        """The exact variance of ``ranges`` where users hold these values."""
        held = np.bincount(values, minlength=self.tree.values).astype(np.float64)
        return self.variance_of(held, len(values), ranges)

    def variance_of(self, held: Floats, users: int, ranges: Sequence[Ends]) -> Floats:
        """The exact variance of ``ranges`` where so many users hold each value."""
        return self._variance(self._checked(ranges), held, users)

    def _variance(self, ends: Integers, held: Floats, users: int) -> Floats:
        parts = [self.reading.combined_variance(weights, held, users) for weights in self._weights(ends)]
        found = np.concatenate(parts)
        # Everybody is counted without noise; only rounding is left of it.
        found[ends[:, 1] - ends[:, 0] == self.tree.values] = 0.0
        return found

    def _weights(self, ends: Integers) -> Iterator[Floats]:
        """The weights of the nodes in some answers at a time."""
        places = np.arange(self.tree.values)
        step = max(1, CELLS_AT_ONCE // self.tree.nodes)
        for first in range(0, len(ends), step):
            low, high = ends[first : first + step].T
            inside = (places >= low[:, None]) & (places < high[:, None])
            yield self.tree.weights(inside.astype(np.float64), self.spreads)[0]

    def _checked(self, ranges: Sequence[Ends]) -> Integers:
        return np.array([self._bounds(a, b) for a, b in ranges], dtype=np.int64).reshape(-1, 2)

    def _bounds(self, a: Any, b: Any) -> Ends:
        low = argument.count(self.who, "the start of a range", a, at_least=0)
        high = argument.count(self.who, "the end of a range", b, at_least=0)
        if not low < high <= self.tree.values:
            raise ValueError(f"{self.who}: a range [a, b) must have a < b ≤ {self.tree.values}, got [{low}, {high}).")
        return low, high
