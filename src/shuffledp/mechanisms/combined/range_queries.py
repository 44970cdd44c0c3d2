"""Counts of users in any range of an ordered domain, from a hierarchy of randomized responses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from shuffledp import argument
from shuffledp.array import Array, Floats
from shuffledp.mechanisms.ability import AnswersRanges
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.frequency.krr import KRR
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.bit_response import informative_epsilon
from shuffledp.mechanisms.parts.branch import mixed_pairs
from shuffledp.mechanisms.parts.consistent_ranges import ConsistentRanges
from shuffledp.mechanisms.parts.node_count import NodeCounts
from shuffledp.mechanisms.parts.own_region import OwnRegion, Regions
from shuffledp.mechanisms.parts.pair_law import PairLaw
from shuffledp.mechanisms.parts.user_values import OneOption
from shuffledp.mechanisms.parts.wire import WholeNumberWire
from shuffledp.numerics.ball import above, below, rational
from shuffledp.privacy.others import KnownOthers, Others
from shuffledp.privacy.pair import HidingPair, exact_pair
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling.random import WORD, RandomSource

TALLEST = 24
"""The estimate holds two numbers for each of 2^(height+1) nodes."""
TALLEST_TABLE = 6


@dataclass(frozen=True)
class RangeQueries(Mechanism, AnswersRanges):
    """Report the node of one level of a binary tree over 2^H values, through randomized response on that level.

    Level ℓ = 1 … H has 2^ℓ nodes and is drawn uniformly, exactly; on it runs ``KRR(epsilon, 2^ℓ)``, whose law is exact.
    Node j of level ℓ is message 2^ℓ − 2 + j. The root is not asked for: everybody is in it.

    Privacy: a message is a mixture of the levels' messages, so the law of G in (★) is the mixture of the levels' laws.
    On one level two different nodes are no easier to hide than one node that stays: giving the own node's two chances
    to one input each keeps the sum of the two values of G and moves them apart. So values that differ on all levels,
    such as the first and the last, are the worst pair. The levels' ratios differ by roundings of 2^-64 only: each level
    is taken at the largest of them, of which its own law is a post-processing.

    ``epsilon``: the local ε that every message keeps. ``height``: H; a user's value is a whole number from 0 to 2^H −
    1.

    Theorem: [VR] Theorem 6.1, corrected: p = q = e^ε, β = Σ_ℓ (1/H)(e^ε−1)/(e^ε+2^ℓ−1) in the sound reduction.
    Requires: ε > 0 finite; 1 ≤ H ≤ 24.
    Deviates: the reduction of [VR] Theorem 4.2 that the print uses is not an upper bound (docs/errata.md, VR-1).

    >>> import numpy as np, shuffledp as sdp
    >>> mechanism = sdp.RangeQueries(epsilon=4.0, height=4)
    >>> mechanism.options, mechanism.nodes
    (16, 30)
    >>> messages = mechanism.encode([3] * 5000 + [12] * 5000, rng=np.random.default_rng(1))
    >>> found = mechanism.ranges(mechanism.estimate(messages), [(0, 8)])
    >>> bool(abs(found.value[0] - 5000) < 5 * found.standard_error[0])
    True
    """

    epsilon: float
    height: int

    name = "range-queries"
    task = "range queries"
    summary = "the node of one random level of a binary tree, by randomized response"
    take_it = "For ranges with a local ε."
    also_called = ("hierarchy",)

    def __post_init__(self) -> None:
        height = argument.count("RangeQueries", "height", self.height)
        if height > TALLEST:
            raise ValueError(f"RangeQueries: height must be at most {TALLEST}, got {height}.")
        object.__setattr__(self, "height", height)
        object.__setattr__(self, "epsilon", informative_epsilon("RangeQueries", self.epsilon))
        with argument.said_by("RangeQueries", "KRR"):
            assert self.levels

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

    # --- its parts --------------------------------------------------------------------------------------------

    @cached_property
    def values(self) -> OneOption:
        return OneOption("RangeQueries", self.options)

    @cached_property
    def law(self) -> PairLaw:
        beta = sum((1 - response.region.uniform_share for response in self.levels), Fraction(0)) / self.height
        largest = max(map(_ratio, self.levels))
        parameters = VariationRatio(p=above(largest), beta=above(beta), q=above(largest))
        return TreeLaw(
            parameters, (self._hidden(largest),), attacked=(self._attacked(),), tight=True, covers_mixtures=True,
            regions=tuple(response.region for response in self.levels),
        )  # fmt: skip

    def _hidden(self, largest: Fraction) -> HidingPair:
        levels = list(self._at_ratio(largest))
        own, other = sum(own for _, own, _ in levels), sum(other for _, _, other in levels)
        same = sum((size - 2) * other for size, _, other in levels)
        return _pair([(own, other, other), (other, own, other), (same, same, same)], symmetric=True)

    def _attacked(self) -> HidingPair:
        """The first value against the last; the others all hold the last value of the first half.

        That is a third node on every level but the first. Each level is taken at the smallest of the levels' ratios,
        which is a post-processing of all messages.
        """
        total = np.zeros((6, 3), dtype=object)
        for size, own, other in self._at_ratio(min(map(_ratio, self.levels))):
            if size == 2:
                total[:2] += np.array([(own, other, own), (other, own, other)])
            else:
                rest = (size - 3) * other
                cells = [(own, other, other), (other, own, other), (other, other, own), (rest, rest, rest)]
                total[2:] += np.array(cells)
        return _pair([(a, b, c) for a, b, c in total], symmetric=False)

    def _at_ratio(self, ratio: Fraction) -> Iterator[tuple[int, Fraction, Fraction]]:
        """Nodes of each level, and the chances of the own and of another node, the level's own chance included."""
        for response in self.levels:
            other = 1 / (self.height * (ratio + response.options - 1))
            yield response.options, ratio * other, other

    @cached_property
    def wire(self) -> WholeNumberWire:
        return WholeNumberWire("RangeQueries", self.nodes)

    @cached_property
    def reading(self) -> NodeCounts:
        return NodeCounts("RangeQueries", tuple(response.reading for response in self.levels))

    # --- running it -------------------------------------------------------------------------------------------

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

    # --- ranges -----------------------------------------------------------------------------------------------

    @cached_property
    def answers(self) -> ConsistentRanges:
        """Ranges are answered consistently: by least squares over all levels."""
        return ConsistentRanges.of("RangeQueries", self.reading)

    def consistent(self, estimate: Estimate) -> Floats:
        """The same counts, adjusted by least squares so that children add up to their parent and all to the users."""
        return self.reading.tree.consistent(estimate.value, self.reading.empty, float(estimate.users))

    # --- for tests and the catalogue --------------------------------------------------------------------------

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


FIRST, SECOND, BOTH, ELSEWHERE = (True, False), (False, True), (True, True), (False, False)
"""Where a node is on the way to the first of two values, the second, both or neither."""


@dataclass(frozen=True)
class TreeLaw(PairLaw):
    """The law of a node on one level of a tree: all that counts is where the ways of two values and a third part."""

    regions: tuple[OwnRegion, ...] = field(kw_only=True)
    """Randomized response on each level, from two nodes on."""

    def others(self) -> Sequence[Others]:
        """Every level from which on two values part, and every way of a third value."""
        height = len(self.regions)
        shares = [Fraction(1, height)] * height
        gamma = below(sum((region.uniform_share for region in self.regions), Fraction(0)) / height)
        return [
            KnownOthers(gamma, symmetric=True, given=tuple(mixed_pairs(way, shares) for way in self._ways(parted)))
            for parted in range(height)
        ]

    def _ways(self, parted: int) -> Iterator[list[HidingPair]]:
        """Two values part at this level; a third one leaves them before, or goes on with one of them for a while."""
        height = len(self.regions)
        for left in range(parted):
            yield [self._level(k, parted, BOTH if k < left else ELSEWHERE) for k in range(height)]
        for with_one in (FIRST, SECOND):
            for left in range(parted + 1, height + 1):
                places = [BOTH] * parted + [with_one] * (left - parted) + [ELSEWHERE] * (height - left)
                yield [self._level(k, parted, place) for k, place in enumerate(places)]

    def _level(self, level: int, parted: int, third: tuple[bool, bool]) -> HidingPair:
        """One level: the two values' nodes, and the third's."""
        nodes = [BOTH] if level < parted else [FIRST, SECOND]
        nodes += [ELSEWHERE] if third == ELSEWHERE else []
        share = self.regions[level].share
        cells: dict[Regions, Fraction] = {(*node, node == third): share for node in nodes}
        cells[False, False, False] = 1 - len(nodes) * share
        return self.regions[level].attack(cells, symmetric=False)


def _ratio(response: KRR) -> Fraction:
    return response.reading.own / response.reading.other


def _pair(cells: Sequence[tuple[Fraction | int, Fraction | int, Fraction | int]], *, symmetric: bool) -> HidingPair:
    exact = [(rational(first), rational(second), rational(hiding)) for first, second, hiding in cells]
    return exact_pair(exact, symmetric=symmetric)
