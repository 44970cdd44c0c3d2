"""Counts of the nodes of a binary tree over an ordered domain, where each user reports the node of one level."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shuffledp.array import Array, Floats, Integers
from shuffledp.mechanisms.estimate import Estimate, JoinedTails
from shuffledp.mechanisms.parts.reading import SimulatedReading, TreeReading
from shuffledp.mechanisms.parts.support import CountedOption
from shuffledp.mechanisms.parts.sway import Sway
from shuffledp.mechanisms.parts.value_tree import ValueTree


@dataclass(frozen=True)
class NodeCounts(SimulatedReading, TreeReading):
    """Node j of level ℓ, of 2^ℓ nodes, is message 2^ℓ − 2 + j; each user reports one level, drawn uniformly.

    ``levels`` read the reports of each level, from two nodes to all values.
    """

    who: str
    levels: tuple[CountedOption, ...]

    @cached_property
    def tree(self) -> ValueTree:  # type: ignore[override]
        return ValueTree(self.options, 2)

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
        value, tails = np.empty(self.nodes), []
        for part, level in self._parts():
            counts = np.asarray(total[part], dtype=np.float64)
            value[part] = self.height * level.from_supports(counts, int(counts.sum())).value
            tails.append(level.tails(1).thinned(1 / self.height, 1, users))
        joined = JoinedTails(tuple(tails), tuple(level.options for level in self.levels))
        return Estimate(value, self.variance_of_counts(np.clip(value, 0.0, users), users), users, joined)

    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        """The estimate where ``held`` users hold each value, from message counts drawn by their exact law."""
        asked = rng.multinomial(held, np.full(self.height, 1.0 / self.height)).T
        totals = []
        for here, level in zip(asked, self.levels, strict=True):
            nodes = here.reshape(level.options, -1).sum(axis=1)
            totals.append(level.draw_supports(nodes, int(nodes.sum()), rng))
        return self.finish(np.concatenate(totals), users)

    def sways(self, messages: float) -> list[Sway]:
        """Every message is of one node, or of others of its level; it counts H times."""
        return [sway.times(messages * self.height) for level in self.levels for sway in level.sways(1)]

    def truth(self, values: Array) -> Floats:
        """The number of users in each node, level after level."""
        return self.tree.of_leaves(np.bincount(values, minlength=self.options).astype(np.float64))

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

    @property
    def empty(self) -> tuple[float, ...]:
        """The variance of an empty node of each level, a user."""
        every = self.variance_of_counts(np.zeros(self.nodes), 1)
        return tuple(float(level[0]) for level in self.tree.levels(every))

    def combined_variance(self, weights: Floats, held: Floats, users: int) -> Floats:
        """A user adds H·Z_ℓ for the one level ℓ that is drawn: variance H·Σ_ℓ E[Z_ℓ²] − (Σ_ℓ E[Z_ℓ])².

        E[Z_ℓ] is the weight of the user's own node.
        """
        inside = self.tree.levels(self.tree.of_leaves(held))
        parts = self.tree.levels(weights)
        squares = sum(
            level.squares(part, here, users) for level, part, here in zip(self.levels, parts, inside, strict=True)
        )
        own = sum(np.repeat(part, width, axis=-1) for part, width in zip(parts, self.tree.widths, strict=True))
        return np.asarray(self.height * squares - own**2 @ held)
