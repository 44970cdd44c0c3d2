"""Subset selection, a frequency oracle: report a set of options that is likelier to contain the true one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shuffledp import argument
from shuffledp.array import Array
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.own_region import OwnRegion, RegionLaw
from shuffledp.mechanisms.parts.subset_response import (
    MeetingSubsets,
    SubsetReading,
    SubsetWire,
    UniformSubset,
    chosen_size,
    meets,
)
from shuffledp.mechanisms.parts.user_values import OneOption
from shuffledp.mechanisms.parts.wire import demand_short
from shuffledp.sampling import combination
from shuffledp.sampling.random import RandomSource


@dataclass(frozen=True)
class Subset(Mechanism):
    """Report a uniform k-subset of the options with probability γ, else a uniform one of those with the true option.

    γ = d/(k·e^ε + d − k), rounded up to a multiple of 2^-64, which keeps the ratio at most e^ε; the subsets are drawn
    exactly, and γ times the uniform law is the privacy blanket. By default k is the best size, next to d/(e^ε+1).
    A message is the k option numbers in increasing order.

    ``epsilon``: the local ε that every message keeps. ``options``: d, how many options there are; a user's value is the
    number of one of them, from 0. ``size``: k, how many options a message names.

    Theorem: [VR] Table 1, k-subset: p = q = e^ε, β = (e^ε−1)·C(d−2,k−1)/(e^ε·C(d−1,k−1) + C(d−1,k)); q_common = 1
    for k = 1, else q.
    Requires: ε > 0 finite; d ≥ 2; 1 ≤ k ≤ d−1.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.Subset(epsilon=1.0, options=16)
    >>> mechanism.size, mechanism.message_bits
    (4, 16)
    >>> f"{sdp.amplify(mechanism, users=10_000).epsilon(delta=1e-6).upper:.4f}"
    '0.0281'
    """

    epsilon: float
    options: int
    size: int | None = None

    name = "subset"
    task = "frequency"
    summary = "subset selection: a set of options that is likelier to contain the true one"
    take_it = "For many options at the least error of one message with a local ε."
    also_called = (
        "ss",
        "subset-selection",
        "omega-subset",
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", argument.count("Subset", "options", self.options, at_least=2))
        object.__setattr__(self, "epsilon", argument.positive_finite("Subset", "epsilon", self.epsilon))
        size = chosen_size("Subset", self.epsilon, self.options, 1, self.size)
        object.__setattr__(self, "size", size)
        demand_short("Subset", self.wire.bits)
        _ = self.region

    @property
    def subset_size(self) -> int:
        """k: as given, or as chosen when the mechanism was made."""
        assert self.size is not None, "the constructor has chosen it"
        return self.size

    @cached_property
    def subsets(self) -> MeetingSubsets:
        """All messages, and which of them meet what a user holds."""
        return MeetingSubsets(self.options, self.subset_size, held=1)

    @cached_property
    def region(self) -> OwnRegion:
        """The region of a user is all subsets with the true option."""
        return OwnRegion("Subset", self.epsilon, self.subsets.share)

    @cached_property
    def values(self) -> OneOption:
        return OneOption("Subset", self.options)

    @cached_property
    def law(self) -> RegionLaw:
        return self.subsets.law(self.region)

    @cached_property
    def wire(self) -> SubsetWire:
        return SubsetWire("Subset", self.options, self.subset_size)

    @cached_property
    def reading(self) -> SubsetReading:
        return self.subsets.reading(self.region)

    @cached_property
    def reference(self) -> UniformSubset:
        return UniformSubset(self.region, meets, self.options, self.subset_size)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        truthful = ~source.coins(self.region.uniform_share, len(values))
        return combination.draw(source, self.options, self.subset_size, values, truthful)

    def table(self) -> OutputTable:
        every = np.arange(self.options)
        return self.subsets.table(self.region, every, [[int(x)] for x in every])

    @classmethod
    def examples(cls) -> Sequence[Subset]:
        return [
            cls(epsilon=1.0, options=2),
            cls(epsilon=0.5, options=6),
            cls(epsilon=2.0, options=5, size=4),
            cls(epsilon=3.0, options=7, size=3),
        ]
