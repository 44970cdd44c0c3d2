"""Counts of the nodes of a binary tree over an ordered domain, read level by level, and of ranges made up of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shuffledp import argument
from shuffledp.array import Array, Floats, Integers
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.parts.reading import SimulatedReading
from shuffledp.mechanisms.parts.support import CountedOption
from shuffledp.mechanisms.parts.sway import Sway
from shuffledp.sampling import dyadic_tree


@dataclass(frozen=True)
class NodeCounts(SimulatedReading):
    """Node j of level ℓ, of 2^ℓ nodes, is message 2^ℓ − 2 + j; each user reports one level, drawn uniformly.

    ``levels`` read the reports of each level, from two nodes to all values.
    """

    who: str
    levels: tuple[CountedOption, ...]

    @property
    def height(self) -> int:
        return len(self.levels)

    @property
    def options(self) -> int:
        """The number of values."""
        return 1 << self.height

    @property
    def nodes(self) -> int:
        return 2 * self.options - 2

    def _parts(self) -> Iterator[tuple[slice, CountedOption]]:
        """The nodes of each level among all, and how they are read."""
        for level in self.levels:
            yield slice(level.options - 2, 2 * level.options - 2), level

    def accumulate(self, messages: Array) -> Array:
        return np.bincount(messages, minlength=self.nodes)

    def finish(self, total: Array, users: int) -> Estimate:
        """The number of users in each node, level after level.

        A message of level ℓ is one of H: it counts H times, and only against the messages of its own level.
        """
        value = np.empty(self.nodes)
        for part, level in self._parts():
            counts = np.asarray(total[part], dtype=np.float64)
            value[part] = self.height * level.from_supports(counts, int(counts.sum())).value
        return Estimate(value, self.variance_of_counts(np.clip(value, 0.0, users), users), users)

    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        """The estimate where ``held`` users hold each value, from message counts drawn by their exact law."""
        asked = rng.multinomial(held, np.full(self.height, 1.0 / self.height)).T
        totals = []
        for here, level in zip(asked, self.levels, strict=True):
            nodes = here.reshape(level.options, -1).sum(axis=1)
            totals.append(level.draw_supports(nodes, int(nodes.sum()), rng))
        return self.finish(np.concatenate(totals), users)

    def sways(self, messages: float) -> list[Sway]:
        """Every message is of one node, or of others of its level; it counts H times.

        Nor does it move a range further: of two nodes of one level it is of one at most.
        """
        return [sway.times(messages * self.height) for level in self.levels for sway in level.sways(1)]

    def truth(self, values: Array) -> Floats:
        """The number of users in each node, level after level."""
        return dyadic_tree.of_leaves(np.bincount(values, minlength=self.options).astype(np.float64))

    def variance(self, values: Array) -> Floats:
        return self.variance_of_counts(self.truth(values), len(values))

    def variance_of_counts(self, counts: Floats, users: int) -> Floats:
        """A user adds H·E to a node with probability 1/H, where E has mean m, 0 or 1: variance H(Var E + m²) − m²."""
        result = np.empty(self.nodes)
        for part, level in self._parts():
            held = counts[part]
            s, r = level.own, level.other
            own, other = float(s * (1 - s) / (s - r) ** 2), float(r * (1 - r) / (s - r) ** 2)
            result[part] = self.height * (held * own + (users - held) * other) + (self.height - 1) * held
        return result

    # --- ranges -----------------------------------------------------------------------------------------------

    def ranges(self, estimate: Estimate, ranges: Sequence[tuple[int, int]]) -> Estimate:
        """The number of users with a value in [a, b), for each range, by the fewest nodes that make it up.

        Unbiased, from the estimate of all nodes. So is its estimated variance, which is linear in the nodes' counts:
        these are taken as estimated, below 0 too, because many small nodes would add up what clipping each adds.
        """
        spread = self.variance_of_counts(estimate.value, estimate.users)
        parts = [dyadic_tree.decompose(self._bounds(a, b), self.height) for a, b in ranges]
        value = [estimate.users if nodes is None else estimate.value[nodes].sum() for nodes in parts]
        variance = [self._range_variance(nodes, estimate.value, spread, estimate.users) for nodes in parts]
        return Estimate(np.array(value, dtype=np.float64), np.maximum(variance, 0.0), estimate.users)

    def range_variance(self, values: Array, ranges: Sequence[tuple[int, int]]) -> Floats:
        """The exact variance of ``ranges`` for these true values."""
        counts, users = self.truth(values), len(values)
        variance = self.variance_of_counts(counts, users)
        parts = [dyadic_tree.decompose(self._bounds(a, b), self.height) for a, b in ranges]
        return np.array([self._range_variance(nodes, counts, variance, users) for nodes in parts])

    def _range_variance(self, nodes: Array | None, counts: Floats, variance: Floats, users: int) -> float:
        """Disjoint nodes of different levels are uncorrelated, because nobody reports two levels or is in two nodes.

        Two of one level: a message of that level, with mean product 0, against the chance r that each has: −r² for a
        user of neither node, −r·s for a user of one of them, H times over (s−r)².
        """
        if nodes is None:
            return 0.0
        result = float(variance[nodes].sum())
        for part, level in self._parts():
            here = nodes[(nodes >= part.start) & (nodes < part.stop)]
            if len(here) == 2:
                s, r = float(level.own), float(level.other)
                inside = float(counts[here].sum())
                result -= 2 * self.height * (r * r * (users - inside) + r * s * inside) / (s - r) ** 2
        return result

    def _bounds(self, a: Any, b: Any) -> tuple[int, int]:
        low = argument.count(self.who, "the start of a range", a, at_least=0)
        high = argument.count(self.who, "the end of a range", b, at_least=0)
        if not low < high <= self.options:
            raise ValueError(f"{self.who}: a range [a, b) must have a < b ≤ {self.options}, got [{low}, {high}).")
        return low, high

    def consistent(self, estimate: Estimate) -> Floats:
        """The same counts, adjusted by least squares so that children add up to their parent and all to the users.

        Post-processing: still unbiased and of smaller variance on the whole; the weights are those of empty nodes.
        """
        empty = self.variance_of_counts(np.zeros(self.nodes), 1)
        return dyadic_tree.least_squares(estimate.value, empty, float(estimate.users))
