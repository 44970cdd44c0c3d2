"""Counts of users in any range of an ordered domain: everybody names the node of every level, among Poisson dummies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from shuffledp import argument
from shuffledp.array import Array
from shuffledp.mechanisms.ability import AnswersRanges
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.multimessage.poisson_dump import PoissonDUMP
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.consistent_ranges import ConsistentRanges
from shuffledp.mechanisms.parts.crowd import SharedNoise
from shuffledp.mechanisms.parts.own_noise_law import OwnNoiseLaw
from shuffledp.mechanisms.parts.poisson_dummy import (
    MEAN,
    CountedAmongPoisson,
    PoissonDummies,
    checked_mean,
)
from shuffledp.mechanisms.parts.user_values import OneOption
from shuffledp.mechanisms.parts.value_tree import ValueTree
from shuffledp.mechanisms.parts.wire import WholeNumberWire
from shuffledp.privacy.randomizer import HasParts, Randomizer
from shuffledp.sampling.random import RandomSource

MOST_NODES = 1 << 26
"""The estimate holds two numbers for each node."""


def fan_outs(options: int) -> list[int]:
    """For each number of levels the fewest nodes a node that suffice, from two."""
    found: dict[int, int] = {}
    height = ValueTree(options, 2).height
    for levels in range(height, 0, -1):
        # The least b with b^levels ≥ options; the root of a float may be one off.
        guess = max(2, round(options ** (1 / levels)) - 1)
        fan_out = next(b for b in range(guess, options + 1) if b**levels >= options)
        found.setdefault(ValueTree(options, fan_out).height, fan_out)
    return list(found.values())


@dataclass(frozen=True)
class RangeTree(Mechanism, AnswersRanges, HasParts):
    """Name the node of the own value on every level of a tree, in the clear; all users together add Poisson dummies.

    The tree has nodes of ``fan_out`` nodes each, so many levels as the values need, and each level's last node may be
    cut short. Each user sends one message a level, and a Poisson(nodes·mean/honest) number of dummies, uniform over all
    nodes of all levels: then the numbers of dummies of all nodes are independent and Poisson. Ranges are answered by
    weighted least squares over the whole tree.

    ``options``: how many values there are; a user's value is a whole number from 0. ``mean``: dummies of each node in
    all. ``honest``: how many users add their share, 0 where the shuffler draws all. ``fan_out``: how many nodes a node
    is divided into, 2 by default; with more of them fewer messages are sent. There is no local ε.

    Theorem: a changed value changes one message a level; the levels' counts are independent, each ``PoissonDUMP`` on
    its nodes: the exact losses of the levels, composed. Values that differ on the first level differ on all.
    Requires: options ≥ 2; 2 ≤ fan_out; mean > 0; honest ≥ 0.

    >>> import numpy as np, shuffledp as sdp
    >>> mechanism = sdp.RangeTree(options=100, mean=50.0, honest=10_000)
    >>> mechanism.height, mechanism.nodes, f"{mechanism.messages_per_user:.2f}"
    (7, 201, '8.00')
    >>> messages = mechanism.encode([3] * 5000 + [60] * 5000, rng=np.random.default_rng(1))
    >>> found = mechanism.ranges(mechanism.estimate(messages, users=10_000), [(0, 50)])
    >>> bool(abs(found.value[0] - 5000) < 5 * found.standard_error[0])
    True
    """

    options: int
    mean: float
    honest: int
    fan_out: int = 2

    name = "range-tree"
    task = "range queries"
    summary = "the node of every level of a tree, among a Poisson number of dummies of each node"
    take_it = "For ranges by dummies, where the shuffler is trusted."
    tuning = (MEAN,)
    has_table = False

    @classmethod
    def variants(cls, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        yield from ({"fan_out": fan_out} for fan_out in fan_outs(facts["options"]))

    def __post_init__(self) -> None:
        who = "RangeTree"
        object.__setattr__(self, "options", argument.count(who, "options", self.options, at_least=2))
        object.__setattr__(self, "fan_out", argument.count(who, "fan_out", self.fan_out, at_least=2))
        object.__setattr__(self, "mean", checked_mean(who, self.mean))
        object.__setattr__(self, "honest", argument.count(who, "honest", self.honest, at_least=0))
        if self.nodes > MOST_NODES:
            raise ValueError(f"{who}: a tree of {self.options} values is too large; at most {MOST_NODES} nodes.")

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
        """The number of different messages."""
        return self.tree.nodes

    @cached_property
    def dummies(self) -> PoissonDummies:
        """What hides the nodes."""
        return PoissonDummies(self.nodes, self.mean, self.honest)

    # --- its parts --------------------------------------------------------------------------------------------

    def parts(self) -> Sequence[tuple[Randomizer, int]]:
        """The levels are alike: what a level's counts tell does not depend on how many nodes it has."""
        return [(PoissonDUMP(max(2, self.options), self.mean, self.honest), self.height)]

    @cached_property
    def values(self) -> OneOption:
        return OneOption("RangeTree", self.options)

    @cached_property
    def law(self) -> OwnNoiseLaw:
        return OwnNoiseLaw("RangeTree")

    @cached_property
    def crowd(self) -> SharedNoise:
        return self.dummies.around_messages(self.height)

    @cached_property
    def wire(self) -> WholeNumberWire:
        return WholeNumberWire("RangeTree", self.nodes)

    @cached_property
    def reading(self) -> CountedAmongPoisson:
        return CountedAmongPoisson(self.tree, self.dummies)

    @cached_property
    def answers(self) -> ConsistentRanges:
        return ConsistentRanges.of("RangeTree", self.reading)

    # --- running it -------------------------------------------------------------------------------------------

    def randomize(self, values: Array, source: RandomSource) -> Array:
        return self.dummies.around(self.tree.places(values), source)

    def drawn_by_shuffler(self, source: RandomSource) -> Array | None:
        return self.dummies.drawn(source)

    def table(self) -> OutputTable:
        raise ValueError("RangeTree: any number of messages cannot be written down as a table.")

    @classmethod
    def examples(cls) -> Sequence[RangeTree]:
        return [cls(options=4, mean=10.0, honest=100), cls(options=5, mean=20.0, honest=50, fan_out=3)]
