"""Counts of users in any range of an ordered domain: everybody names the node of each level, among cancelling noise."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from shuffledp import argument
from shuffledp.array import Array, Floats, Integers
from shuffledp.mechanisms.ability import AnswersRanges
from shuffledp.mechanisms.combined.range_tree import MOST_NODES, fan_outs
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.multimessage.cancelling_noise import CancellingNoise
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.consistent_ranges import ConsistentRanges
from shuffledp.mechanisms.parts.crowd import SharedNoise
from shuffledp.mechanisms.parts.flood_design import flood_within
from shuffledp.mechanisms.parts.flooded_noise import FloodedNoise
from shuffledp.mechanisms.parts.noise_share import NoiseShare
from shuffledp.mechanisms.parts.noise_tails import CountNoiseTails
from shuffledp.mechanisms.parts.own_noise_law import OwnNoiseLaw
from shuffledp.mechanisms.parts.reading import SimulatedReading, TreeReading
from shuffledp.mechanisms.parts.sway import Sway
from shuffledp.mechanisms.parts.user_values import OneOption
from shuffledp.mechanisms.parts.value_tree import ValueTree
from shuffledp.mechanisms.parts.wire import WholeNumberWire
from shuffledp.mechanisms.tuning import Tuning
from shuffledp.privacy.randomizer import HasParts, Randomizer
from shuffledp.sampling.random import RandomSource

WHO = "CancellingTree"
TALLEST, FAR, ERRORS = 4, 1.3, (1.05, 1.25, 2.0)
"""Levels of trees, how far behind the best one they may be, and errors against ideal noise, that plans compare."""
USERS_AT_ONCE = 1 << 16
"""Users encoded at a time."""


@dataclass(frozen=True)
class SignedNodes(SimulatedReading, TreeReading):
    """For each node of a ``tree`` the messages for it less those against it: independent noise, whatever the values."""

    tree: ValueTree
    noise: FloodedNoise
    honest: int

    @property
    def values_free(self) -> bool:
        return True

    def nodes_named(self, messages: Array) -> Integers:
        return np.asarray(messages, dtype=np.int64) // 2

    def accumulate(self, messages: Array) -> Array:
        counts = np.bincount(messages, minlength=2 * self.tree.nodes).reshape(self.tree.nodes, 2)
        return np.asarray(counts[:, 0] - counts[:, 1])

    def finish(self, total: Array, users: int) -> Estimate:
        value = np.asarray(total, dtype=np.float64)
        tails = CountNoiseTails(self._times(users), self.noise.rate)
        return Estimate(value, np.full(self.tree.nodes, self.spread(users)), users, tails)

    def sways(self, messages: float) -> tuple[Sway, ...]:
        """All messages are for one node, or all against it."""
        return (Sway(-messages, messages),)

    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        stop = -math.expm1(-self.noise.rate)
        drawn = [rng.negative_binomial(self._times(users), stop, self.tree.nodes) for _ in range(2)]
        return self.finish(self.tree.of_leaves(held) + drawn[0] - drawn[1], users)

    def truth(self, values: Array) -> Floats:
        return self.tree.of_leaves(np.bincount(values, minlength=self.tree.values).astype(np.float64))

    def variance(self, values: Array) -> Floats:
        return np.full(self.tree.nodes, self.spread(len(values)))

    def combined_variance(self, weights: Floats, held: Floats, users: int) -> Floats:
        del held
        return np.asarray(self.spread(users) * (weights**2).sum(axis=-1))

    def spread(self, users: int) -> float:
        """The variance of a node's noise, 2q/(1−q)², as many times over as the noise is there."""
        return self._times(users) * 2 * math.exp(-self.noise.rate) / math.expm1(-self.noise.rate) ** 2

    def _times(self, users: int) -> float:
        return 1.0 if self.honest == 0 else users / self.honest


def _worthwhile(options: int) -> list[ValueTree]:
    """Trees whose error with Laplace noise, which grows with the height, is near the least.

    Where taller ones would be better Laplace-like noise is not, and ``RangeTree`` is. One level alone is
    ``CancellingNoise``, and not offered a second time.
    """
    trees = [tree for tree in (ValueTree(options, fan_out) for fan_out in fan_outs(options)) if tree.height <= TALLEST]
    errors = [tree.height * math.sqrt(tree.typical_spread()) for tree in trees]
    near = [tree for tree, error in zip(trees, errors, strict=True) if error <= FAR * min(errors)]
    return [tree for tree in near if tree.height > 1] or near


@dataclass(frozen=True)
class CancellingTree(Mechanism, AnswersRanges, HasParts):
    """Name the node of the own value on every level of a tree, in the clear; all users together add cancelling noise.

    As ``RangeTree``, with the noise of ``CancellingNoise`` on every node: a curator's Laplace noise. It suits trees of
    few levels, or a large ε; where many levels are composed Poisson dummies have less error.

    ``options``: how many values there are; a user's value is a whole number from 0. ``rate``: of the noise that is
    left; ``shape``, ``ratio``: of the flood; ``honest``: how many honest users make the noise together, 0 where the
    shuffler draws it. ``fan_out``: how many nodes a node is divided into. There is no local ε.

    Theorem: a changed value changes one message a level; the levels' counts are independent, each ``CancellingNoise``
    on its nodes: the exact losses of the levels, composed.
    Requires: options ≥ 2; 2 ≤ fan_out; rate > 0; shape > 0; 0 < ratio < 1; honest ≥ 0.

    >>> import numpy as np, shuffledp as sdp
    >>> mechanism = sdp.CancellingTree(options=100, rate=0.5, shape=20.0, ratio=0.9, honest=10_000, fan_out=10)
    >>> mechanism.height, mechanism.nodes, f"{mechanism.messages_per_user:.2f}"
    (2, 110, '5.99')
    >>> messages = mechanism.encode([3] * 5000 + [60] * 5000, rng=np.random.default_rng(1))
    >>> found = mechanism.ranges(mechanism.estimate(messages, users=10_000), [(0, 50)])
    >>> bool(abs(found.value[0] - 5000) < 8 * found.standard_error[0])
    True
    """

    options: int
    rate: float
    shape: float
    ratio: float
    honest: int
    fan_out: int = 2

    name = "cancelling-tree"
    task = "range queries"
    summary = "the node of every level of a tree, and noise that cancels"
    take_it = "For ranges near a curator's error, where the shuffler is trusted."
    designs_a_front = True
    tuning = (Tuning("shape", False, True, 0.1, 1e3),)
    has_table = False

    @classmethod
    def designs(
        cls, facts: Mapping[str, Any], users: int, epsilon: float, delta: float, rounds: int
    ) -> Iterator[dict[str, Any]]:
        """From little error to few messages, of a few heights; first the least error, also by the shuffler's noise."""
        found: list[tuple[float, float, dict[str, Any]]] = []
        for tree in _worthwhile(facts["options"]):
            for times in ERRORS:
                design = flood_within(times, epsilon, delta, rounds * tree.height)
                if design is not None:
                    rate, flood = design
                    noise = {"rate": rate, "shape": flood.shape, "ratio": flood.ratio, "fan_out": tree.fan_out}
                    spread = SignedNodes(tree, FloodedNoise(rate, flood.shape, flood.ratio), 0).spread(1)
                    sent = tree.height + tree.nodes * flood.messages / users
                    found.append((spread * tree.typical_spread(), sent, noise))
        least = math.inf
        for place, (_, sent, noise) in enumerate(sorted(found, key=lambda one: one[:2])):
            if place == 0:
                yield {"options": facts["options"], **noise, "honest": 0}
            if sent < least:
                yield {"options": facts["options"], **noise, "honest": users}
            least = min(least, sent)

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", argument.count(WHO, "options", self.options, at_least=2))
        object.__setattr__(self, "fan_out", argument.count(WHO, "fan_out", self.fan_out, at_least=2))
        if self.nodes > MOST_NODES:
            raise ValueError(f"{WHO}: a tree of {self.options} values is too large; at most {MOST_NODES} nodes.")
        with argument.said_by(WHO, "CancellingNoise"):
            level = CancellingNoise(self.options, self.rate, self.shape, self.ratio, self.honest)
        for name in ("rate", "shape", "ratio", "honest"):
            object.__setattr__(self, name, getattr(level, name))

    @cached_property
    def tree(self) -> ValueTree:
        """The nodes, level after level."""
        return ValueTree(self.options, self.fan_out)

    @property
    def height(self) -> int:
        """The number of levels."""
        return self.tree.height

    @property
    def nodes(self) -> int:
        """The number of nodes, each of which has two messages."""
        return self.tree.nodes

    @property
    def noise(self) -> FloodedNoise:
        """The law of the noise of one node, once it is all there."""
        return FloodedNoise(self.rate, self.shape, self.ratio)

    @cached_property
    def _share(self) -> NoiseShare:
        return NoiseShare(self.noise, self.nodes, Fraction(1, max(1, self.honest)))

    # --- its parts --------------------------------------------------------------------------------------------

    def parts(self) -> Sequence[tuple[Randomizer, int]]:
        """The levels are alike: what a level's counts tell does not depend on how many nodes it has."""
        return [(CancellingNoise(self.options, self.rate, self.shape, self.ratio, self.honest), self.height)]

    @cached_property
    def values(self) -> OneOption:
        return OneOption(WHO, self.options)

    @property
    def law(self) -> OwnNoiseLaw:
        return OwnNoiseLaw(WHO)

    @cached_property
    def crowd(self) -> SharedNoise:
        return SharedNoise(self.height, self._share.messages, self.honest)

    @cached_property
    def wire(self) -> WholeNumberWire:
        return WholeNumberWire(WHO, 2 * self.nodes)

    @cached_property
    def reading(self) -> SignedNodes:
        return SignedNodes(self.tree, self.noise, self.honest)

    @cached_property
    def answers(self) -> ConsistentRanges:
        return ConsistentRanges.of(WHO, self.reading)

    # --- running it -------------------------------------------------------------------------------------------

    def randomize(self, values: Array, source: RandomSource) -> Array:
        parts: list[Integers] = []
        for start in range(0, len(values), USERS_AT_ONCE):
            own = values[start : start + USERS_AT_ONCE]
            parts.append(2 * self.tree.places(own).reshape(-1))
            if self.honest:
                parts.append(self._share.draw(source, len(own)))
        return np.concatenate(parts)

    def drawn_by_shuffler(self, source: RandomSource) -> Array | None:
        return self._share.draw(source, 1) if self.honest == 0 else None

    def table(self) -> OutputTable:
        raise ValueError(f"{WHO}: its noise has no end, so that its law cannot be written down as a table.")

    @classmethod
    def examples(cls) -> Sequence[CancellingTree]:
        return [
            cls(options=4, rate=1.0, shape=4.0, ratio=0.5, honest=10),
            cls(options=5, rate=0.5, shape=3.5, ratio=0.8, honest=25, fan_out=3),
            cls(options=4, rate=0.8, shape=6.0, ratio=0.7, honest=0, fan_out=4),
        ]
