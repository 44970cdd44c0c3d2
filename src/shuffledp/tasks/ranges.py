"""Range queries: how many users hold a value in any range of an ordered domain."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from shuffledp.array import Array, Floats, Integers
from shuffledp.mechanisms.ability import answers_ranges, range_answers
from shuffledp.mechanisms.combined.range_tree import fan_outs
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.parts.consistent_ranges import ConsistentRanges
from shuffledp.mechanisms.parts.quantile import RunningCount
from shuffledp.mechanisms.parts.reading import CombinedReading
from shuffledp.mechanisms.parts.support import SupportReading
from shuffledp.mechanisms.parts.value_tree import ValueTree
from shuffledp.tasks.adjustment import CONSISTENT, NON_NEGATIVE, nearest, on_simplex
from shuffledp.tasks.domain import WHO
from shuffledp.tasks.frequency import Frequency
from shuffledp.tasks.quantity import Quantity
from shuffledp.tasks.shape import BINS, Shape, running
from shuffledp.tasks.task import SEED, Sensitivity, apportioned

SHOWN = 1024
"""Most values of which the report tells how many users hold at most that."""
RANGES = 256
"""Random ranges that stand for all of them."""


@dataclass(frozen=True, init=False)
class Ranges(Frequency):
    """How many users hold a value in a range of an ordered domain.

    ``options`` is the public list of values in their order, as texts, or how many there are, which users' data then
    number from 0.

    >>> Ranges(256).facts
    {'options': 256, 'height': 8}
    """

    name = "range queries"
    kinds: ClassVar[tuple[str, ...]] = ("range queries", "frequency")
    data = "users spread evenly over the values, ranges with random ends"
    sampled = False
    post: ClassVar[tuple[str, ...]] = (NON_NEGATIVE, CONSISTENT)

    @property
    def height(self) -> int:
        """Levels of the tree of halves, quarters, … below the whole."""
        return max(1, (self.count - 1).bit_length())

    @property
    def facts(self) -> Mapping[str, Any]:
        return {"options": self.count, "height": self.height}

    @classmethod
    def can_use(cls, kind: type[Mechanism] | Mechanism) -> bool:
        """Trees, and frequency oracles whose counts can be added up."""
        return kind.task in cls.kinds and answers_ranges(kind)

    def answers(self, mechanism: Mechanism) -> ConsistentRanges:
        """How the mechanism answers ranges; a sentence where it does not."""
        found = range_answers(mechanism)
        if found is None:
            raise ValueError(f"{WHO}: {mechanism.name} with these settings does not answer ranges.")
        return found

    @cached_property
    def ranges(self) -> list[tuple[int, int]]:
        """Two different ends, drawn uniformly."""
        rng = np.random.default_rng(SEED)
        drawn = [sorted(rng.choice(self.count + 1, 2, replace=False).tolist()) for _ in range(RANGES)]
        return [(low, high) for low, high in drawn]

    def spread(self, mechanism: Mechanism, values: Array, variance: Floats | None = None) -> Floats:
        del variance
        return self.answers(mechanism).range_variance(values, self.ranges)

    def standard_error(
        self, mechanism: Mechanism, users: int, variance: Callable[[Array], Floats] | None = None
    ) -> float:
        del variance
        held = self.held(mechanism, users).astype(np.float64)
        spread = self.answers(mechanism).variance_of(held, users, self.ranges)
        return math.sqrt(max(0.0, float(np.mean(spread))))

    def held(self, mechanism: Mechanism, users: int) -> Integers:
        held = np.zeros(self.answers(mechanism).tree.values, dtype=np.int64)
        held[: self.count] = apportioned(np.full(self.count, 1 / self.count), users)
        return held

    def compare(
        self, mechanism: Mechanism, estimate: Estimate, held: Floats, confidence: float
    ) -> tuple[Floats, Floats]:
        found = self.answers(mechanism).ranges(estimate, self.ranges)
        below = np.concatenate([[0.0], np.cumsum(held)])
        truth = np.array([below[high] - below[low] for low, high in self.ranges])
        return found.value - truth, found.margin_towards(truth, confidence)

    def drawn_by_law(self, mechanism: Mechanism) -> bool:
        """Counts that are added up must hang together as they do in messages."""
        reading = mechanism.reading
        return super().drawn_by_law(mechanism) and (not isinstance(reading, SupportReading) or reading.draws_together)

    def sensitivity(self, users: int) -> Sensitivity:
        return Sensitivity(2.0 * self.height, math.sqrt(2.0 * self.height))

    def curators(self, users: int) -> Iterator[tuple[Sensitivity, float]]:
        """A curator, too, asks all levels of a tree, flat or tall, each node with its own noise, made to add up."""
        del users
        for fan_out in fan_outs(self.count):
            tree = ValueTree(self.count, fan_out)
            levels = tree.height
            noise = ConsistentRanges("curator", tree, (1.0,) * levels, _NodeNoise())
            spread = noise.variance_of(np.zeros(self.count), 0, self.ranges)
            yield Sensitivity(2.0 * levels, math.sqrt(2.0 * levels)), math.sqrt(float(np.mean(spread)))

    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        """How many users are in each node of the tree, as estimated by itself, and up to values of the domain."""
        answers = self.answers(mechanism)
        tree = answers.tree
        labels, levels = [], [0] * len(tree.starts)
        kept: list[int] = []
        for level, place, first, last in self._nodes(tree):
            levels[level] = levels[level] or len(kept)
            ends = [self.domain.label(first), self.domain.label(last)]
            labels.append(" … ".join(ends if last > first else ends[:1]))
            kept.append(place)
        inside = estimate.some(kept)
        bins = Shape(BINS, 0.0, float(estimate.users), levels=tuple(levels), ordered=True)
        return [Quantity.of("users", labels, inside, confidence, bins), self._up_to(answers, estimate, confidence)]

    def _nodes(self, tree: ValueTree) -> Iterator[tuple[int, int, int, int]]:
        """The level and the place of each node that has values, with the first and the last of these."""
        for level, start in enumerate(tree.starts):
            for node in range(tree.sizes[level]):
                first, end = tree.ends(level, node)
                if first < self.count:
                    yield level, start + node, first, min(end, self.count) - 1

    @property
    def _shown(self) -> Integers:
        """The values up to which users are counted."""
        return np.unique(np.linspace(0, self.count - 1, min(self.count, SHOWN)).astype(np.int64))

    def adjusted(self, mechanism: Mechanism, estimate: Estimate, quantities: Sequence[Quantity], way: str) -> list[Any]:
        """The counts of single values that least squares give, moved to the nearest that are possible; then added."""
        if way != CONSISTENT:
            return [nearest(quantity, way) for quantity in quantities]
        answers = self.answers(mechanism)
        held = on_simplex(answers.counts(estimate)[: self.count], float(estimate.users))
        below = np.append(0.0, np.cumsum(held))
        ends = np.array([(first, last + 1) for _, _, first, last in self._nodes(answers.tree)])
        return [below[ends[:, 1]] - below[ends[:, 0]], below[self._shown + 1]]

    def _up_to(self, answers: ConsistentRanges, estimate: Estimate, confidence: float) -> Quantity:
        """How many users hold at most each value, of at most ``SHOWN`` values."""
        shown = self._shown
        found = RunningCount(answers, estimate, self.count).up_to(shown)
        labels = [self.domain.label(int(value)) for value in shown]
        return Quantity.of("users up to", labels, found, confidence, running(estimate.users))


@dataclass(frozen=True)
class _NodeNoise(CombinedReading):
    """A curator's counts: independent noise of variance 1 on every node."""

    def combined_variance(self, weights: Floats, held: Floats, users: int) -> Floats:
        del held, users
        return np.asarray((weights**2).sum(axis=-1))
