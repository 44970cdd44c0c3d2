"""Counts of users in any range of an ordered domain, from randomized response on the levels of a binary tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from shuffledp._core import validation
from shuffledp._core.validation import Array, Floats, Integers, checked
from shuffledp.mechanisms.base.domain import Category
from shuffledp.mechanisms.base.encoding import WholeNumberEncoding
from shuffledp.mechanisms.base.estimator import ConcatenatedErrorLaw, Estimate, Influence, SimulableEstimator
from shuffledp.mechanisms.base.law import PairLaw, check_informative_epsilon
from shuffledp.mechanisms.base.mechanism import Mechanism, OutputTable, RangeQueryCapability
from shuffledp.mechanisms.base.range_estimator import ConsistentRangeEstimator, TreeEstimator
from shuffledp.mechanisms.base.support_counts import OptionCountEstimator
from shuffledp.mechanisms.base.two_level_law import SetMembership, TwoLevelResponse
from shuffledp.mechanisms.base.value_tree import ValueTree
from shuffledp.mechanisms.combined.parallel import mix_pairs
from shuffledp.mechanisms.frequency.randomized_response import KRR
from shuffledp.numerics.ball_arithmetic import float_above, float_below, to_rational
from shuffledp.privacy.dominating_pairs import HidingPair, ListedOtherUsers, OtherUsers, exact_pair
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling.random_sources import WORD_RANGE, RandomSource

# --- Estimator of the nodes ---


@dataclass(frozen=True)
class NodeCountEstimator(SimulableEstimator, TreeEstimator):
    """Estimator of the counts of all nodes of a binary tree, where each user reports a node of one random level.

    Node j of level ℓ, of 2^ℓ nodes, is message 2^ℓ − 2 + j; the level is drawn uniformly.

    Args:
        error_prefix: Name that begins error messages.
        levels: Estimator of each level, from two nodes to all values.
    """

    error_prefix: str
    levels: tuple[OptionCountEstimator, ...]

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

    def _parts(self) -> Iterator[tuple[slice, OptionCountEstimator]]:
        """Yields the nodes of each level among all nodes, and the level's estimator."""
        for level in self.levels:
            yield slice(level.options - 2, 2 * level.options - 2), level

    def accumulate(self, messages: Array) -> Array:
        return np.bincount(messages, minlength=self.nodes)

    def finish(self, total: Array, users: int) -> Estimate:
        """Returns the number of users in each node, level after level.

        Users report one of H levels: a message of level ℓ counts H times, and only against the messages of its own
        level.
        """
        value, tails = np.empty(self.nodes), []
        for part, level in self._parts():
            counts = np.asarray(total[part], dtype=np.float64)
            value[part] = self.height * level.estimate_from_supports(counts, int(counts.sum())).value
            tails.append(level.error_law(1).subsample(1 / self.height, 1, users))
        joined = ConcatenatedErrorLaw(tuple(tails), tuple(level.options for level in self.levels))
        return Estimate(value, self.variance_of_counts(np.clip(value, 0.0, users), users), users, joined)

    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        """Draws the estimate from message counts drawn by their exact law."""
        held_by_level = rng.multinomial(held, np.full(self.height, 1.0 / self.height)).T
        totals = []
        for values, level in zip(held_by_level, self.levels, strict=True):
            nodes = values.reshape(level.options, -1).sum(axis=1)
            totals.append(level.draw_supports(nodes, int(nodes.sum()), rng))
        return self.finish(np.concatenate(totals), users)

    def influence(self, messages: float) -> list[Influence]:
        """Returns the influence of messages that name one node, or others of its level; each counts H times."""
        return [each.scale(messages * self.height) for level in self.levels for each in level.influence(1)]

    def truth(self, values: Array) -> Floats:
        """Returns the number of users in each node, level after level."""
        return self.tree.sum_leaves(np.bincount(values, minlength=self.options).astype(np.float64))

    def variance(self, values: Array) -> Floats:
        return self.variance_of_counts(self.truth(values), len(values))

    def variance_of_counts(self, counts: Floats, users: int) -> Floats:
        """Returns the variances: a user adds H·E with probability 1/H, E of mean m, 0 or 1: H(Var E + m²) − m²."""
        result = np.empty(self.nodes)
        for part, level in self._parts():
            held = counts[part]
            s, r = level.true_support, level.false_support
            own, other = float(s * (1 - s) / (s - r) ** 2), float(r * (1 - r) / (s - r) ** 2)
            result[part] = self.height * (held * own + (users - held) * other) + (self.height - 1) * held
        return result

    @property
    def empty_node_variances(self) -> tuple[float, ...]:
        """The variance of an empty node of each level, per user."""
        every = self.variance_of_counts(np.zeros(self.nodes), 1)
        return tuple(float(level[0]) for level in self.tree.split_levels(every))

    def combined_variance(self, weights: Floats, held: Floats, users: int) -> Floats:
        """Returns the exact variance of weighted sums of the estimates, one per row of weights.

        A user adds H·Z_ℓ for the one level ℓ that is drawn: variance H·Σ_ℓ E[Z_ℓ²] − (Σ_ℓ E[Z_ℓ])². E[Z_ℓ] is the
        weight of the user's own node.
        """
        inside = self.tree.split_levels(self.tree.sum_leaves(held))
        parts = self.tree.split_levels(weights)
        squares = sum(
            level.second_moment_sum(part, here, users)
            for level, part, here in zip(self.levels, parts, inside, strict=True)
        )
        own = sum(np.repeat(part, width, axis=-1) for part, width in zip(parts, self.tree.node_widths, strict=True))
        return np.asarray(self.height * squares - own**2 @ held)


MAX_HEIGHT = 24
"""Largest height: the estimate holds two numbers for each of 2^(height+1) nodes."""
MAX_TABLE_HEIGHT = 6


@dataclass(frozen=True)
class RangeQueries(Mechanism, RangeQueryCapability):
    """Randomized response on the node of one random level of a binary tree over 2^H values.

    Level ℓ = 1 … H has 2^ℓ nodes and is drawn uniformly, exactly; on it runs `KRR(epsilon, 2^ℓ)`, whose law is exact.
    Node j of level ℓ is message 2^ℓ − 2 + j. The root is not reported: everybody is in it.

    Privacy: a message is a mixture of the levels' messages, so the law of G in (★) is the mixture of the levels' laws.
    On one level two different nodes are no easier to hide than one unchanged node: giving the own node's two
    probabilities to one input each keeps the sum of the two values of G and moves them apart. So values that differ on
    all levels, such as the first and the last, are the worst pair. The levels' ratios differ only by rounding to
    2^-64: each level is taken at the largest of them, of which its own law is a post-processing.

    Theorem: [VR] Theorem 6.1, corrected: p = q = e^ε, β = Σ_ℓ (1/H)(e^ε−1)/(e^ε+2^ℓ−1) in the sound reduction.
    Requires: ε > 0 finite; 1 ≤ H ≤ 24.
    Deviates: the reduction of [VR] Theorem 4.2 that the print uses is not an upper bound (docs/errata.md, VR-1).

    Args:
        epsilon: Local ε of every message.
        height: H; a user's value is a whole number from 0 to 2^H − 1.

    Raises:
        TypeError: If an argument is not a number.
        ValueError: If an argument is outside its range.

    Example:
        >>> import numpy as np, shuffledp as sdp
        >>> mechanism = sdp.RangeQueries(epsilon=4.0, height=4)
        >>> mechanism.options, mechanism.nodes
        (16, 30)
        >>> messages = mechanism.encode([3] * 5000 + [12] * 5000, rng=np.random.default_rng(1))
        >>> found = mechanism.ranges(mechanism.estimate(messages), [(0, 8)])
        >>> bool(abs(found.value[0] - 5000) < 5 * found.standard_error[0])
        True
    """

    epsilon: float = field(metadata=checked(check_informative_epsilon))
    height: int = field(metadata=checked(validation.count, at_most=MAX_HEIGHT))

    name = "range-queries"
    task = "range queries"
    summary = "the node of one random level of a binary tree, by randomized response"
    use_case = "For ranges with a local ε."
    aliases = ("hierarchy",)

    @cached_property
    def levels(self) -> tuple[KRR, ...]:
        """Randomized response on each level, from two nodes to all values."""
        return tuple(KRR(self.epsilon, 1 << level) for level in self._level_numbers)

    @property
    def options(self) -> int:
        """The number of values."""
        return 1 << self.height

    @property
    def nodes(self) -> int:
        """The number of different messages."""
        return 2 * self.options - 2

    @property
    def _level_numbers(self) -> range:
        return range(1, self.height + 1)

    # --- Parts ---

    @cached_property
    def domain(self) -> Category:
        return Category("RangeQueries", self.options)

    @cached_property
    def law(self) -> PairLaw:
        beta = sum((1 - response.response.uniform_share for response in self.levels), Fraction(0)) / self.height
        largest = max(map(_ratio, self.levels))
        parameters = VariationRatio(p=float_above(largest), beta=float_above(beta), q=float_above(largest))
        return TreeLaw(
            parameters,
            (self._blanket_pair(largest),),
            attack_pairs=(self._attack_pair(),),
            tight=True,
            covers_mixtures=True,
            regions=tuple(response.response for response in self.levels),
        )

    def _blanket_pair(self, largest: Fraction) -> HidingPair:
        levels = list(self._levels_at_ratio(largest))
        own, other = sum(own for _, own, _ in levels), sum(other for _, _, other in levels)
        same = sum((size - 2) * other for size, _, other in levels)
        return _pair([(own, other, other), (other, own, other), (same, same, same)], symmetric=True)

    def _attack_pair(self) -> HidingPair:
        """Returns the first value against the last, where all others hold the last value of the first half.

        Theirs is a third node on every level but the first. Each level is taken at the smallest of the levels'
        ratios, which is a post-processing of all messages.
        """
        total = np.zeros((6, 3), dtype=object)
        for size, own, other in self._levels_at_ratio(min(map(_ratio, self.levels))):
            if size == 2:
                total[:2] += np.array([(own, other, own), (other, own, other)])
            else:
                rest = (size - 3) * other
                cells = [(own, other, other), (other, own, other), (other, other, own), (rest, rest, rest)]
                total[2:] += np.array(cells)
        return _pair([(a, b, c) for a, b, c in total], symmetric=False)

    def _levels_at_ratio(self, ratio: Fraction) -> Iterator[tuple[int, Fraction, Fraction]]:
        """Yields each level's number of nodes, and the probabilities of its own and of another node in a message."""
        for response in self.levels:
            other = 1 / (self.height * (ratio + response.options - 1))
            yield response.options, ratio * other, other

    @cached_property
    def encoding(self) -> WholeNumberEncoding:
        return WholeNumberEncoding("RangeQueries", self.nodes)

    @cached_property
    def estimator(self) -> NodeCountEstimator:
        return NodeCountEstimator("RangeQueries", tuple(response.estimator for response in self.levels))

    # --- Running the mechanism ---

    def randomize(self, values: Array, source: RandomSource) -> Array:
        """Returns one message per user, a node."""
        level = 1 + source.integers_below(self.height, len(values))
        size = np.left_shift(1, level)
        by_chance = source.words(len(values)) < self._thresholds[level]
        drawn = source.words(len(values)).view(np.int64) & (size - 1)
        own = np.right_shift(values, self.height - level)
        return np.asarray(size - 2 + np.where(by_chance, drawn, own))

    @cached_property
    def _thresholds(self) -> Array:
        """γ of each level in units of 2^-64; level 0 is not used."""
        return np.array(
            [0, *(int(level.response.uniform_share * WORD_RANGE) for level in self.levels)], dtype=np.uint64
        )

    # --- Ranges ---

    @cached_property
    def range_estimator(self) -> ConsistentRangeEstimator:
        """The estimator of ranges, consistent by least squares over all levels."""
        return ConsistentRangeEstimator.from_estimator("RangeQueries", self.estimator)

    def consistent(self, estimate: Estimate) -> Floats:
        """Returns the node counts, level after level, adjusted by least squares.

        Children then sum to their parent, and every level sums to the number of users.

        Args:
            estimate: The result of `estimate(messages)`.
        """
        return self.estimator.tree.make_consistent(
            estimate.value, self.estimator.empty_node_variances, float(estimate.users)
        )

    # --- Tests and the catalogue ---

    def table(self) -> OutputTable:
        if self.height > MAX_TABLE_HEIGHT:
            raise ValueError(f"RangeQueries: a table needs a height of at most {MAX_TABLE_HEIGHT}, got {self.height}.")
        values = np.arange(self.options)
        return OutputTable(values, np.arange(self.nodes), tuple(self._table_row(int(value)) for value in values))

    def _table_row(self, value: int) -> tuple[Fraction, ...]:
        chances = []
        for level, response in zip(self._level_numbers, self.levels, strict=True):
            own = value >> (self.height - level)
            supports = [
                response.estimator.true_support if j == own else response.estimator.false_support
                for j in range(1 << level)
            ]
            chances += [support / self.height for support in supports]
        return tuple(chances)

    @classmethod
    def examples(cls) -> Sequence[RangeQueries]:
        return [cls(epsilon=1.0, height=1), cls(epsilon=0.5, height=2), cls(epsilon=3.0, height=3)]


FIRST_PATH, SECOND_PATH, BOTH_PATHS, NEITHER_PATH = (True, False), (False, True), (True, True), (False, False)
"""Membership of a node in the paths to the first and to the second of two values."""


@dataclass(frozen=True)
class TreeLaw(PairLaw):
    """Law of a node on one level of a tree; only the levels at which the paths of two values and a third part matter.

    Args:
        regions: Randomized response on each level, from two nodes on.
    """

    regions: tuple[TwoLevelResponse, ...] = field(kw_only=True)

    def other_users(self) -> Sequence[OtherUsers]:
        """Returns, for every level at which two values part, the pairs against every path of a third value."""
        height = len(self.regions)
        shares = [Fraction(1, height)] * height
        gamma = float_below(sum((region.uniform_share for region in self.regions), Fraction(0)) / height)
        return [
            ListedOtherUsers(
                gamma, symmetric=True, listed_pairs=tuple(mix_pairs(way, shares) for way in self._third_paths(parted))
            )
            for parted in range(height)
        ]

    def _third_paths(self, parted: int) -> Iterator[list[HidingPair]]:
        """Yields the pairs on all levels for each path of a third value, given the level at which the two values part.

        The third value leaves their common path before that level, or follows one of the two for some levels.
        """
        height = len(self.regions)
        for left in range(parted):
            yield [self._level_pair(k, parted, BOTH_PATHS if k < left else NEITHER_PATH) for k in range(height)]
        for with_one in (FIRST_PATH, SECOND_PATH):
            for left in range(parted + 1, height + 1):
                places = [BOTH_PATHS] * parted + [with_one] * (left - parted) + [NEITHER_PATH] * (height - left)
                yield [self._level_pair(k, parted, place) for k, place in enumerate(places)]

    def _level_pair(self, level: int, parted: int, third: tuple[bool, bool]) -> HidingPair:
        """Returns the pair on one level, given the node of the third value."""
        nodes = [BOTH_PATHS] if level < parted else [FIRST_PATH, SECOND_PATH]
        nodes += [NEITHER_PATH] if third == NEITHER_PATH else []
        share = self.regions[level].share
        cells: dict[SetMembership, Fraction] = {(*node, node == third): share for node in nodes}
        cells[False, False, False] = 1 - len(nodes) * share
        return self.regions[level].attack(cells, symmetric=False)


def _ratio(response: KRR) -> Fraction:
    return response.estimator.true_support / response.estimator.false_support


def _pair(cells: Sequence[tuple[Fraction | int, Fraction | int, Fraction | int]], *, symmetric: bool) -> HidingPair:
    exact = [(to_rational(first), to_rational(second), to_rational(hiding)) for first, second, hiding in cells]
    return exact_pair(exact, symmetric=symmetric)
