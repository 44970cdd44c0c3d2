"""Counts of users in any range of an ordered domain, from a hierarchy of randomized responses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from shuffledp import argument
from shuffledp.array import Array, Floats, Integers
from shuffledp.mechanisms.frequency.krr import KRR
from shuffledp.mechanisms.mechanism import Estimate, OutputTable
from shuffledp.mechanisms.parts import user_values
from shuffledp.mechanisms.parts.old_whole_number import WholeNumber
from shuffledp.numerics.ball import above, rational
from shuffledp.privacy.pair import HidingPair, exact_pair
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling import dyadic_tree
from shuffledp.sampling.random import WORD, RandomSource

TALLEST = 24
"""The estimate holds two numbers for each of 2^(height+1) nodes."""
TALLEST_TABLE = 6


@dataclass(frozen=True)
class RangeQueries(WholeNumber):
    """Report the node of one level of a binary tree over 2^H values, through randomized response on that level.

    Level ℓ = 1 … H has 2^ℓ nodes and is drawn uniformly, exactly; on it runs ``KRR(epsilon, 2^ℓ)``, whose law is exact.
    Node j of level ℓ is message 2^ℓ − 2 + j. The root is not asked for: everybody is in it.

    Privacy: a message is a mixture of the levels' messages, so the law of G in (★) is the mixture of the levels' laws.
    On one level two different nodes are no easier to hide than one node that stays: giving the own node's two chances
    to one input each keeps the sum of the two values of G and moves them apart. So values that differ on all levels,
    such as the first and the last, are the worst pair. The levels' ratios differ by roundings of 2^-64 only: each level
    is taken at the largest of them, of which its own law is a post-processing.

    Theorem: [VR] Theorem 6.1, corrected: p = q = e^ε, β = Σ_ℓ (1/H)(e^ε−1)/(e^ε+2^ℓ−1) in the sound reduction.
    Requires: ε > 0 finite; 1 ≤ H ≤ 24.
    Deviates: the reduction of [VR] Theorem 4.2 that the print uses is not an upper bound (docs/errata.md, VR-1).
    """

    epsilon: float
    height: int

    name = "range-queries"
    task = "range queries"
    summary = "the node of one random level of a binary tree, by randomized response"
    covers_mixtures = True

    def __post_init__(self) -> None:
        height = argument.count("RangeQueries", "height", self.height)
        if height > TALLEST:
            raise ValueError(f"RangeQueries: height must be at most {TALLEST}, got {height}.")
        object.__setattr__(self, "height", height)
        try:
            assert self.levels
        except (ValueError, TypeError) as error:
            raise type(error)(str(error).replace("KRR", "RangeQueries", 1)) from None

    @cached_property
    def levels(self) -> tuple[KRR, ...]:
        """Randomized response on each level, from two nodes to all values."""
        return tuple(KRR(self.epsilon, 1 << level) for level in self._numbers)

    @property
    def options(self) -> int:
        """The number of values."""
        return 1 << self.height

    @property
    def nodes(self) -> int:
        """The number of different messages."""
        return 2 * self.options - 2

    @property
    def _numbers(self) -> range:
        return range(1, self.height + 1)

    # --- running it -------------------------------------------------------------------------------------------

    def check(self, values: Any) -> Array:
        return user_values.categories("RangeQueries", values, self.options)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        level = 1 + source.below(self.height, len(values))
        size = np.left_shift(1, level)
        by_chance = source.words(len(values)) < self._thresholds[level]
        drawn = source.words(len(values)).view(np.int64) & (size - 1)
        own = np.right_shift(values, self.height - level)
        return np.asarray(size - 2 + np.where(by_chance, drawn, own))

    @cached_property
    def _thresholds(self) -> Array:
        """γ of each level in units of 2^-64; level 0 is not used."""
        return np.array([0, *(int(level.region.uniform_share * WORD) for level in self.levels)], dtype=np.uint64)

    @property
    def outputs(self) -> int:
        return self.nodes

    # --- reading the messages ---------------------------------------------------------------------------------

    def accumulate(self, messages: Array) -> Array:
        return np.bincount(messages, minlength=self.nodes)

    def finish(self, total: Array, users: int) -> Estimate:
        """The number of users in each node, level after level.

        A message of level ℓ is one of H: it counts H times, and only against the messages of its own level.
        """
        value = np.empty(self.nodes)
        for part, response in self._parts():
            counts = np.asarray(total[part], dtype=np.float64)
            value[part] = self.height * response.finish(counts, int(counts.sum())).value
        return Estimate(value, self._variance(np.clip(value, 0.0, users), users), users)

    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        """The estimate where ``held`` users hold each value, from message counts drawn by their exact law."""
        levels = rng.multinomial(held, np.full(self.height, 1.0 / self.height)).T
        totals = []
        for asked, response in zip(levels, self.levels, strict=True):
            nodes = asked.reshape(response.options, -1).sum(axis=1)
            totals.append(response.reading.draw_supports(nodes, int(nodes.sum()), rng))
        return self.finish(np.concatenate(totals), users)

    def truth(self, values: Any) -> Floats:
        """The number of users in each node, level after level."""
        leaves = np.bincount(self.check(values), minlength=self.options).astype(np.float64)
        return dyadic_tree.of_leaves(leaves)

    def variance(self, values: Any) -> Floats:
        counts = self.truth(values)
        return self._variance(counts, int(counts[:2].sum()))

    def _parts(self) -> Iterator[tuple[slice, KRR]]:
        """The nodes of each level among all, and its randomized response."""
        for response in self.levels:
            yield slice(response.options - 2, 2 * response.options - 2), response

    def _variance(self, counts: Floats, users: int) -> Floats:
        """A user adds H·E to a node with probability 1/H, where E has mean m, 0 or 1: variance H(Var E + m²) − m²."""
        result = np.empty(self.nodes)
        for part, response in self._parts():
            held = counts[part]
            s, r = response.reading.own, response.reading.other
            own, other = float(s * (1 - s) / (s - r) ** 2), float(r * (1 - r) / (s - r) ** 2)
            result[part] = self.height * (held * own + (users - held) * other) + (self.height - 1) * held
        return result

    def ranges(self, estimate: Estimate, ranges: Sequence[tuple[int, int]]) -> Estimate:
        """The number of users with a value in [a, b), for each range, by the fewest nodes that make it up.

        Unbiased, from ``estimate(messages)``. So is its estimated variance, which is linear in the nodes' counts:
        these are taken as estimated, below 0 too, because many small nodes would add up what clipping each adds.
        """
        spread = self._variance(estimate.value, estimate.users)
        parts = [dyadic_tree.decompose(self._bounds(a, b), self.height) for a, b in ranges]
        value = [estimate.users if nodes is None else estimate.value[nodes].sum() for nodes in parts]
        variance = [self._range_variance(nodes, estimate.value, spread, estimate.users) for nodes in parts]
        return Estimate(np.array(value, dtype=np.float64), np.maximum(variance, 0.0), estimate.users)

    def range_variance(self, values: Any, ranges: Sequence[tuple[int, int]]) -> Floats:
        """The exact variance of ``ranges`` for these true values."""
        counts, variance, users = self.truth(values), self.variance(values), len(self.check(values))
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
        for part, response in self._parts():
            here = nodes[(nodes >= part.start) & (nodes < part.stop)]
            if len(here) == 2:
                s, r = float(response.reading.own), float(response.reading.other)
                inside = float(counts[here].sum())
                result -= 2 * self.height * (r * r * (users - inside) + r * s * inside) / (s - r) ** 2
        return result

    def _bounds(self, a: Any, b: Any) -> tuple[int, int]:
        low = argument.count("RangeQueries", "the start of a range", a, at_least=0)
        high = argument.count("RangeQueries", "the end of a range", b, at_least=0)
        if not low < high <= self.options:
            raise ValueError(f"RangeQueries: a range [a, b) must have a < b ≤ {self.options}, got [{low}, {high}).")
        return low, high

    def consistent(self, estimate: Estimate) -> Floats:
        """The same counts, adjusted by least squares so that children add up to their parent and all to the users.

        Post-processing: still unbiased and of smaller variance on the whole; the weights are those of empty nodes.
        """
        empty = self._variance(np.zeros(self.nodes), 1)
        return dyadic_tree.least_squares(estimate.value, empty, float(estimate.users))

    # --- its privacy ------------------------------------------------------------------------------------------

    def variation_ratio(self) -> VariationRatio:
        beta = sum((1 - response.region.uniform_share for response in self.levels), Fraction(0)) / self.height
        ratio = above(self._largest_ratio)
        return VariationRatio(p=ratio, beta=above(beta), q=ratio)

    @property
    def _largest_ratio(self) -> Fraction:
        return max(_ratio(response) for response in self.levels)

    def blankets(self) -> Sequence[HidingPair]:
        levels = list(self._at_ratio(self._largest_ratio))
        own, other = sum(own for _, own, _ in levels), sum(other for _, _, other in levels)
        same = sum((size - 2) * other for size, _, other in levels)
        return [_pair([(own, other, other), (other, own, other), (same, same, same)], symmetric=True)]

    def attacks(self) -> Sequence[HidingPair]:
        """The first value against the last; the others all hold the last value of the first half.

        That is a third node on every level but the first. Each level is taken at the smallest of the levels' ratios,
        which is a post-processing of all messages.
        """
        total = np.zeros((6, 3), dtype=object)
        for size, own, other in self._at_ratio(min(_ratio(response) for response in self.levels)):
            if size == 2:
                total[:2] += np.array([(own, other, own), (other, own, other)])
            else:
                rest = (size - 3) * other
                cells = [(own, other, other), (other, own, other), (other, other, own), (rest, rest, rest)]
                total[2:] += np.array(cells)
        return [_pair([(a, b, c) for a, b, c in total], symmetric=False)]

    def _at_ratio(self, ratio: Fraction) -> Iterator[tuple[int, Fraction, Fraction]]:
        """Nodes of each level, and the chances of the own and of another node, the level's own chance included."""
        for response in self.levels:
            other = 1 / (self.height * (ratio + response.options - 1))
            yield response.options, ratio * other, other

    # --- for tests and the catalogue --------------------------------------------------------------------------

    def probe(self) -> Array:
        return self.check([0, self.options - 1])

    def table(self) -> OutputTable:
        if self.height > TALLEST_TABLE:
            raise ValueError(f"RangeQueries: a table needs a height of at most {TALLEST_TABLE}, got {self.height}.")
        values = np.arange(self.options)
        return OutputTable(values, np.arange(self.nodes), tuple(self._row(int(value)) for value in values))

    def _row(self, value: int) -> tuple[Fraction, ...]:
        chances = []
        for level, response in zip(self._numbers, self.levels, strict=True):
            own = value >> (self.height - level)
            supports = [response.reading.own if j == own else response.reading.other for j in range(1 << level)]
            chances += [support / self.height for support in supports]
        return tuple(chances)

    @classmethod
    def examples(cls) -> Sequence[RangeQueries]:
        return [cls(epsilon=1.0, height=1), cls(epsilon=0.5, height=2), cls(epsilon=3.0, height=3)]


def _ratio(response: KRR) -> Fraction:
    return response.reading.own / response.reading.other


def _pair(cells: Sequence[tuple[Fraction | int, Fraction | int, Fraction | int]], *, symmetric: bool) -> HidingPair:
    exact = [(rational(first), rational(second), rational(hiding)) for first, second, hiding in cells]
    return exact_pair(exact, symmetric=symmetric)
