"""Range queries: how many users hold a value in any range of an ordered domain."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from shuffledp.array import Array, Floats, Integers
from shuffledp.mechanisms.ability import AnswersRanges
from shuffledp.mechanisms.combined.range_queries import RangeQueries
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.sampling import dyadic_tree
from shuffledp.tasks.frequency import Frequency
from shuffledp.tasks.quantity import Quantity
from shuffledp.tasks.task import SEED, Sensitivity, apportioned

RANGES = 256
"""Random ranges that stand for all of them."""


@dataclass(frozen=True, init=False)
class Ranges(Frequency):
    """How many users hold a value in a range of an ordered domain.

    ``options`` is the public list of values in their order, as texts, or how many there are, which users' data then
    number from 0.

    >>> Ranges(256).facts
    {'height': 8}
    """

    name = "range queries"
    kinds = ("range queries",)
    data = "users spread evenly over the values, ranges with random ends"

    @property
    def height(self) -> int:
        """Levels of the tree of halves, quarters, … below the whole."""
        return max(1, (self.count - 1).bit_length())

    @property
    def facts(self) -> Mapping[str, Any]:
        return {"height": self.height}

    def sample(self, mechanism: Mechanism) -> Array:
        return np.arange(1 << self.height)

    @cached_property
    def ranges(self) -> list[tuple[int, int]]:
        """Two different ends, drawn uniformly."""
        rng = np.random.default_rng(SEED)
        drawn = [sorted(rng.choice(self.count + 1, 2, replace=False).tolist()) for _ in range(RANGES)]
        return [(low, high) for low, high in drawn]

    def spread(self, mechanism: Mechanism, values: Array) -> Floats:
        assert isinstance(mechanism, AnswersRanges), "a mechanism for range queries"
        return mechanism.range_variance(values, self.ranges)

    def held(self, mechanism: Mechanism, users: int) -> Integers:
        return apportioned(np.full(1 << self.height, 2.0**-self.height), users)

    def compare(
        self, mechanism: Mechanism, estimate: Estimate, held: Floats, confidence: float
    ) -> tuple[Floats, Floats]:
        assert isinstance(mechanism, AnswersRanges), "a mechanism for range queries"
        found = mechanism.ranges(estimate, self.ranges)
        below = np.concatenate([[0.0], np.cumsum(held)])
        truth = np.array([below[high] - below[low] for low, high in self.ranges])
        return found.value - truth, found.margin(confidence)

    def sensitivity(self, users: int) -> Sensitivity:
        return Sensitivity(2.0 * self.height, math.sqrt(2.0 * self.height))

    def central_factor(self) -> float:
        """A curator, too, adds up the nodes of a tree, each with its own noise."""
        nodes = [dyadic_tree.decompose(range_, self.height) for range_ in self.ranges]
        return math.sqrt(np.mean([0 if parts is None else len(parts) for parts in nodes]))

    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        """How many users are in each half, quarter, … of the domain."""
        assert isinstance(mechanism, RangeQueries), "a mechanism for range queries"
        labels, kept = [], []
        node = 0
        for level in range(1, mechanism.height + 1):
            width = mechanism.options >> level
            for first in range(0, mechanism.options, width):
                if first < self.count:
                    last = min(first + width, self.count) - 1
                    ends = [self.domain.label(first), self.domain.label(last)]
                    labels.append(" … ".join(ends if last > first else ends[:1]))
                    kept.append(node)
                node += 1
        inside = Estimate(estimate.value[kept], estimate.variance[kept], estimate.users, estimate.tails)
        return [Quantity.of("users", labels, inside, confidence)]
