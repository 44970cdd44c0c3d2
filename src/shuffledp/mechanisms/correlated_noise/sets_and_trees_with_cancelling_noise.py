"""Item sets and range trees, counted with cancelling noise."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from shuffledp._core import validation
from shuffledp._core.validation import Array, Floats, Integers, checked
from shuffledp.mechanisms.base.domain import BoundedItemSet, Category
from shuffledp.mechanisms.base.encoding import WholeNumberEncoding
from shuffledp.mechanisms.base.error_laws import NegativeBinomialErrorLaw
from shuffledp.mechanisms.base.estimator import Estimate, Influence, SimulableEstimator
from shuffledp.mechanisms.base.law import AggregateNoiseLaw
from shuffledp.mechanisms.base.mechanism import Mechanism, OutputTable, RangeQueryCapability
from shuffledp.mechanisms.base.message_plan import SharedNoise
from shuffledp.mechanisms.base.range_estimator import ConsistentRangeEstimator, TreeEstimator
from shuffledp.mechanisms.base.value_tree import ValueTree
from shuffledp.mechanisms.correlated_noise.cancelling_noise_design import design_noise
from shuffledp.mechanisms.correlated_noise.cancelling_noise_loss import CancellingNoiseLaw
from shuffledp.mechanisms.correlated_noise.counts_with_cancelling_noise import (
    MAX_OPTIONS,
    MAX_RATE,
    MAX_SHAPE,
    TUNABLE_SHAPE,
    CancellingNoise,
    NoiseShare,
    SignedCountsEstimator,
    check_ratio,
    iterate_designs,
)
from shuffledp.mechanisms.dummies.poisson_dummies import check_positive
from shuffledp.mechanisms.dummies.poisson_tables_and_trees import MAX_NODES, fan_outs
from shuffledp.privacy.randomizer_interface import HasParts, Randomizer
from shuffledp.sampling.random_sources import RandomSource

# --- Sets ---


SETS_PREFIX = "CancellingSets"


@dataclass(frozen=True)
class CancellingSets(Mechanism, HasParts):
    """Sends every item of a set unperturbed; all users together, or the shuffler, add noise as in ``CancellingNoise``.

    A user holds any number of items up to ``items`` and sends one message for each. The number of a user's messages
    reveals the size of their set to an observer such as the shuffler; the noise hides it from the analyst. There is no
    local ε.

    Theorem: a changed set removes a message from at most ``items`` options and adds one to at most ``items`` others:
    the losses of as many pairs of counts, which are independent, composed.
    Requires: d ≥ 2; 1 ≤ items < d.

    Args:
        options: Number of options d; items are numbered from 0 to d − 1.
        items: Largest number of items of one user.
        rate: Rate of the noise that does not cancel.
        shape: Shape of the noise that cancels.
        ratio: Ratio of the noise that cancels.
        honest: Number of honest users who add the noise together; 0 if the shuffler draws it.

    Raises:
        ValueError: If a parameter is out of range.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.CancellingSets(options=50, items=3, rate=0.15, shape=20, ratio=0.97, honest=100_000)
    >>> f"{sdp.amplify(mechanism, users=100_000).epsilon(delta=1e-6).upper:.3f}"
    '0.938'
    """

    options: int = field(metadata=checked(validation.count, at_least=2, at_most=MAX_OPTIONS))
    items: int = field(metadata=checked(validation.count))
    rate: float = field(metadata=checked(check_positive, at_most=MAX_RATE))
    shape: float = field(metadata=checked(check_positive, at_most=MAX_SHAPE))
    ratio: float = field(metadata=checked(check_ratio))
    honest: int = field(metadata=checked(validation.count, at_least=0))

    name = "cancelling-sets"
    task = "set-valued"
    summary = "every item, and noise that cancels: a curator's error, private only by the shuffler"
    use_case = "For sets near a curator's error, where the shuffler is trusted."
    tunable = (TUNABLE_SHAPE,)
    has_table = False
    has_design_frontier = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.items >= self.options:
            raise ValueError(f"{SETS_PREFIX}: items must be below the {self.options} options, got {self.items}.")

    @cached_property
    def single_item_mechanism(self) -> CancellingNoise:
        """The mechanism of users with one item each, which has the loss of one pair of counts."""
        return CancellingNoise(self.options, self.rate, self.shape, self.ratio, self.honest)

    @cached_property
    def _share(self) -> NoiseShare:
        return NoiseShare(self.single_item_mechanism.noise, self.options, Fraction(1, max(1, self.honest)))

    @cached_property
    def domain(self) -> BoundedItemSet:
        return BoundedItemSet(SETS_PREFIX, self.options, self.items)

    @cached_property
    def message_plan(self) -> SharedNoise:
        return SharedNoise(self.items, self._share.messages, self.honest, is_exact=False)

    @cached_property
    def encoding(self) -> WholeNumberEncoding:
        return WholeNumberEncoding(SETS_PREFIX, 2 * self.options)

    @cached_property
    def estimator(self) -> SignedCountsEstimator:
        return SignedCountsEstimator(
            self.options, self.single_item_mechanism.noise, self.honest, has_single_option=False
        )

    def parts(self) -> Sequence[tuple[Randomizer, int]]:
        return [(self.single_item_mechanism, self.items)]

    def randomize(self, values: Array, source: RandomSource) -> Array:
        """Returns the messages of all users, 2·option for and 2·option + 1 against an option, the items first."""
        own = 2 * values[values >= 0]
        return own if self.honest == 0 else np.concatenate([own, self._share.draw(source, len(values))])

    @classmethod
    def designs(
        cls, facts: Mapping[str, Any], users: int, epsilon: float, delta: float, rounds: int
    ) -> Iterator[dict[str, Any]]:
        """Yields designs from least error to fewest messages; ``facts`` must contain ``options`` and ``items``."""
        sizes = {"options": facts["options"], "items": facts["items"]}
        return iterate_designs(sizes, users, epsilon, delta, rounds, losses=2 * facts["items"])

    @property
    def law(self) -> AggregateNoiseLaw:
        return AggregateNoiseLaw("CancellingSets")

    def draw_shuffler_messages(self, source: RandomSource) -> Array | None:
        return self._share.draw(source, 1) if self.honest == 0 else None

    def table(self) -> OutputTable:
        raise ValueError("CancellingSets: its noise is unbounded, so its law cannot be written down as a table.")

    @classmethod
    def examples(cls) -> Sequence[CancellingSets]:
        return [
            cls(options=5, items=2, rate=0.5, shape=3.5, ratio=0.8, honest=25),
            cls(options=6, items=3, rate=0.8, shape=6.0, ratio=0.7, honest=0),
        ]


# --- Trees ---


TREE_PREFIX = "CancellingTree"
MAX_PLANNED_HEIGHT, MAX_RELATIVE_ERROR, TREE_PLANNED_ERRORS = 4, 1.3, (1.05, 1.25, 2.0)
"""Tallest tree that plans compare, largest error relative to the best tree, and errors relative to ideal noise."""
USERS_AT_ONCE = 1 << 16
"""Number of users encoded at a time."""


@dataclass(frozen=True)
class SignedNodesEstimator(SimulableEstimator, TreeEstimator):
    """Estimates each node of a ``tree`` by the messages for it minus those against it; the noise ignores the values."""

    tree: ValueTree
    noise: CancellingNoiseLaw
    honest: int

    @property
    def has_independent_noise(self) -> bool:
        return True

    def message_nodes(self, messages: Array) -> Integers:
        return np.asarray(messages, dtype=np.int64) // 2

    def accumulate(self, messages: Array) -> Array:
        counts = np.bincount(messages, minlength=2 * self.tree.node_count).reshape(self.tree.node_count, 2)
        return np.asarray(counts[:, 0] - counts[:, 1])

    def finish(self, total: Array, users: int) -> Estimate:
        value = np.asarray(total, dtype=np.float64)
        tails = NegativeBinomialErrorLaw(self._noise_multiple(users), self.noise.rate)
        return Estimate(value, np.full(self.tree.node_count, self.noise_variance(users)), users, tails)

    def influence(self, messages: float) -> tuple[Influence, ...]:
        """Returns the influence of a user whose messages are all for one node or all against it."""
        return (Influence(-messages, messages),)

    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        stop = -math.expm1(-self.noise.rate)
        drawn = [rng.negative_binomial(self._noise_multiple(users), stop, self.tree.node_count) for _ in range(2)]
        return self.finish(self.tree.sum_leaves(held) + drawn[0] - drawn[1], users)

    def truth(self, values: Array) -> Floats:
        return self.tree.sum_leaves(np.bincount(values, minlength=self.tree.value_count).astype(np.float64))

    def variance(self, values: Array) -> Floats:
        return np.full(self.tree.node_count, self.noise_variance(len(values)))

    def combined_variance(self, weights: Floats, held: Floats, users: int) -> Floats:
        del held
        return np.asarray(self.noise_variance(users) * (weights**2).sum(axis=-1))

    def noise_variance(self, users: int) -> float:
        """Returns the variance of a node's noise, 2q/(1−q)² times the multiple of the planned noise that is present."""
        return self._noise_multiple(users) * 2 * math.exp(-self.noise.rate) / math.expm1(-self.noise.rate) ** 2

    def _noise_multiple(self, users: int) -> float:
        """Returns the multiple of the planned noise that is present: 1 from the shuffler, else users/honest."""
        return 1.0 if self.honest == 0 else users / self.honest


def _find_worthwhile_trees(options: int) -> list[ValueTree]:
    """Returns the trees whose error with Laplace noise, which grows with the height, is close to the least.

    Where taller trees would be better, ``RangeTree`` is too. A single level is ``CancellingNoise``; it is returned only
    if no taller tree is close to the least error.
    """
    candidates = (ValueTree(options, fan_out) for fan_out in fan_outs(options))
    trees = [tree for tree in candidates if tree.height <= MAX_PLANNED_HEIGHT]
    errors = [tree.height * math.sqrt(tree.mean_range_variance()) for tree in trees]
    near = [tree for tree, error in zip(trees, errors, strict=True) if error <= MAX_RELATIVE_ERROR * min(errors)]
    return [tree for tree in near if tree.height > 1] or near


@dataclass(frozen=True)
class CancellingTree(Mechanism, RangeQueryCapability, HasParts):
    """Sends the node of the true value on every level of a tree; the users, or the shuffler, add cancelling noise.

    This is ``RangeTree`` with the noise of ``CancellingNoise`` on every node: a curator's Laplace noise. It suits trees
    of few levels, or a large ε; where many levels compose, Poisson dummies have less error. There is no local ε.

    Theorem: a changed value changes one message a level; the levels' counts are independent, each ``CancellingNoise``
    on its nodes: the exact losses of the levels, composed.
    Requires: options ≥ 2; 2 ≤ fan_out; rate > 0; shape > 0; 0 < ratio < 1; honest ≥ 0.

    Args:
        options: Number of values; a user's value is a whole number from 0 to options − 1.
        rate: Rate of the noise that does not cancel.
        shape: Shape of the noise that cancels.
        ratio: Ratio of the noise that cancels.
        honest: Number of honest users who add the noise together; 0 if the shuffler draws it.
        fan_out: Number of children of a node.

    Raises:
        ValueError: If a parameter is out of range, or the tree has too many nodes.

    >>> import numpy as np, shuffledp as sdp
    >>> mechanism = sdp.CancellingTree(options=100, rate=0.5, shape=20.0, ratio=0.9, honest=10_000, fan_out=10)
    >>> mechanism.height, mechanism.nodes, f"{mechanism.messages_per_user:.2f}"
    (2, 110, '5.99')
    >>> messages = mechanism.encode([3] * 5000 + [60] * 5000, rng=np.random.default_rng(1))
    >>> found = mechanism.ranges(mechanism.estimate(messages, users=10_000), [(0, 50)])
    >>> bool(abs(found.value[0] - 5000) < 8 * found.standard_error[0])
    True
    """

    options: int = field(metadata=checked(validation.count, at_least=2, at_most=MAX_OPTIONS))
    rate: float = field(metadata=checked(check_positive, at_most=MAX_RATE))
    shape: float = field(metadata=checked(check_positive, at_most=MAX_SHAPE))
    ratio: float = field(metadata=checked(check_ratio))
    honest: int = field(metadata=checked(validation.count, at_least=0))
    fan_out: int = field(default=2, metadata=checked(validation.count, at_least=2))

    name = "cancelling-tree"
    task = "range queries"
    summary = "the node of every level of a tree, and noise that cancels"
    use_case = "For ranges near a curator's error, where the shuffler is trusted."
    tunable = (TUNABLE_SHAPE,)
    has_table = False
    has_design_frontier = True

    @classmethod
    def designs(
        cls, facts: Mapping[str, Any], users: int, epsilon: float, delta: float, rounds: int
    ) -> Iterator[dict[str, Any]]:
        """Yields designs of a few heights from least error to fewest messages; ``facts`` must contain ``options``.

        The most accurate design also comes with the shuffler's noise.
        """
        candidates: list[tuple[float, float, dict[str, Any]]] = []
        for tree in _find_worthwhile_trees(facts["options"]):
            for times in TREE_PLANNED_ERRORS:
                design = design_noise(times, epsilon, delta, rounds * tree.height)
                if design is not None:
                    rate, pairs = design
                    noise = {"rate": rate, "shape": pairs.shape, "ratio": pairs.ratio, "fan_out": tree.fan_out}
                    law = CancellingNoiseLaw(rate, pairs.shape, pairs.ratio)
                    spread = SignedNodesEstimator(tree, law, 0).noise_variance(1)
                    messages = tree.height + tree.node_count * pairs.messages / users
                    candidates.append((spread * tree.mean_range_variance(), messages, noise))
        fewest = math.inf
        for place, (_, messages, noise) in enumerate(sorted(candidates, key=lambda candidate: candidate[:2])):
            if place == 0:
                yield {"options": facts["options"], **noise, "honest": 0}
            if messages < fewest:
                yield {"options": facts["options"], **noise, "honest": users}
            fewest = min(fewest, messages)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nodes > MAX_NODES:
            raise ValueError(f"{TREE_PREFIX}: a tree of {self.options} values is too large; at most {MAX_NODES} nodes.")

    @cached_property
    def tree(self) -> ValueTree:
        """The nodes, level by level."""
        return ValueTree(self.options, self.fan_out)

    @property
    def height(self) -> int:
        """The number of levels."""
        return self.tree.height

    @property
    def nodes(self) -> int:
        """The number of nodes; there are two messages for each."""
        return self.tree.node_count

    @property
    def noise(self) -> CancellingNoiseLaw:
        """The law of the noise of one node if all planned users take part."""
        return CancellingNoiseLaw(self.rate, self.shape, self.ratio)

    @cached_property
    def _share(self) -> NoiseShare:
        return NoiseShare(self.noise, self.nodes, Fraction(1, max(1, self.honest)))

    # --- parts of the mechanism ---

    def parts(self) -> Sequence[tuple[Randomizer, int]]:
        """Returns the mechanism of one level, whose loss does not depend on its size, and the number of levels."""
        return [(CancellingNoise(self.options, self.rate, self.shape, self.ratio, self.honest), self.height)]

    @cached_property
    def domain(self) -> Category:
        return Category(TREE_PREFIX, self.options)

    @cached_property
    def message_plan(self) -> SharedNoise:
        return SharedNoise(self.height, self._share.messages, self.honest)

    @cached_property
    def encoding(self) -> WholeNumberEncoding:
        return WholeNumberEncoding(TREE_PREFIX, 2 * self.nodes)

    @cached_property
    def estimator(self) -> SignedNodesEstimator:
        return SignedNodesEstimator(self.tree, self.noise, self.honest)

    @cached_property
    def range_estimator(self) -> ConsistentRangeEstimator:
        return ConsistentRangeEstimator.from_estimator(TREE_PREFIX, self.estimator)

    # --- encoding ---

    def randomize(self, values: Array, source: RandomSource) -> Array:
        """Returns the messages of all users, 2·node for and 2·node + 1 against a node."""
        parts: list[Integers] = []
        for start in range(0, len(values), USERS_AT_ONCE):
            own = values[start : start + USERS_AT_ONCE]
            parts.append(2 * self.tree.find_nodes(own).reshape(-1))
            if self.honest:
                parts.append(self._share.draw(source, len(own)))
        return np.concatenate(parts)

    @property
    def law(self) -> AggregateNoiseLaw:
        return AggregateNoiseLaw("CancellingTree")

    def draw_shuffler_messages(self, source: RandomSource) -> Array | None:
        return self._share.draw(source, 1) if self.honest == 0 else None

    def table(self) -> OutputTable:
        raise ValueError("CancellingTree: its noise is unbounded, so its law cannot be written down as a table.")

    @classmethod
    def examples(cls) -> Sequence[CancellingTree]:
        return [
            cls(options=4, rate=1.0, shape=4.0, ratio=0.5, honest=10),
            cls(options=5, rate=0.5, shape=3.5, ratio=0.8, honest=25, fan_out=3),
            cls(options=4, rate=0.8, shape=6.0, ratio=0.7, honest=0, fan_out=4),
        ]
