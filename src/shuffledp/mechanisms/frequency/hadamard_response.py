"""Hadamard response, a frequency oracle: an index that is likelier where the own row of a Hadamard matrix is +1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from shuffledp import argument
from shuffledp.array import Array, Words
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.hadamard import HadamardColumns, HadamardReading
from shuffledp.mechanisms.parts.own_region import OwnRegion, RegionLaw, Regions
from shuffledp.mechanisms.parts.reference import UniformReference
from shuffledp.mechanisms.parts.user_values import OneOption
from shuffledp.mechanisms.parts.wire import WholeNumberWire
from shuffledp.privacy.pair import HidingPair
from shuffledp.sampling.random import RandomSource

MOST_OUTPUTS = 1 << 62
BATCH = 1 << 15
"""Users encoded at a time, so that the working arrays stay in the processor's cache."""


@dataclass(frozen=True)
class HadamardResponse(Mechanism):
    """Report a uniform index below K with probability γ, else a uniform one of the K/(2B) that the option owns.

    B blocks of b = K/B columns, b the smallest power of two with B(b−1) ≥ d; option x owns the columns of block
    x ÷ (b−1) where row 1 + x mod (b−1) of the b × b Hadamard matrix is +1, that is where row & column has an even
    number of ones. γ = K/(s(e^ε−1) + K), s = b/2, rounded up to a multiple of 2^-64, which keeps the ratio at most e^ε.
    A uniform owned column: a uniform column, its bit at the row's lowest one flipped if it is not owned.
    The estimate is the Hadamard transform of the counts over 1 − γ.

    ``epsilon``: the local ε that every message keeps. ``options``: d, how many options there are; a user's value is the
    number of one of them, from 0. ``blocks``: B, 1 by default; at a large ε several blocks have a smaller error,
    because an option then owns fewer columns.

    Theorem: [VR] Table 1, Hadamard response: p = q = e^ε, β = (s/2)(e^ε−1)/(s·e^ε + K − s) where one block holds all
    options, else s(e^ε−1)/(s·e^ε + K − s).
    Requires: ε > 0 finite; d ≥ 2; B a power of two.
    Deviates: column 0 is owned by all options of its block, so that with one block in use the blanket is e^ε times
    larger there. Pairs in different blocks are worse than pairs in one (see ``OwnRegion.pair``).

    >>> import shuffledp as sdp
    >>> mechanism = sdp.HadamardResponse(epsilon=1.0, options=1000)
    >>> mechanism.columns.outputs, mechanism.message_bits
    (1024, 10)
    >>> [f"{sdp.HadamardResponse(4.0, 1000, blocks).variance([0] * 1000).sum():.0f}" for blocks in (1, 16)]
    ['1075022', '159206']
    """

    epsilon: float
    options: int
    blocks: int = 1

    name = "hadamard-response"
    task = "frequency"
    summary = "Hadamard response: an index below a power of two, decoded by a fast transform"
    take_it = "For many options in short messages, at small local ε."
    also_called = (
        "hr",
        "hadamard",
    )

    @classmethod
    def variants(cls, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """As many blocks as there is more than one option for."""
        blocks = 1
        while blocks < facts["options"]:
            yield {"blocks": blocks}
            blocks *= 2

    def __post_init__(self) -> None:
        who = "HadamardResponse"
        object.__setattr__(self, "epsilon", argument.positive_finite(who, "epsilon", self.epsilon))
        object.__setattr__(self, "options", argument.count(who, "options", self.options, at_least=2))
        object.__setattr__(self, "blocks", argument.count(who, "blocks", self.blocks))
        if self.blocks & (self.blocks - 1):
            raise ValueError(f"{who}: blocks must be a power of two, got {self.blocks}.")
        if self.outputs > MOST_OUTPUTS:
            raise ValueError(
                f"{who}: options and blocks must give at most 2^62 messages, got {self.outputs} for {self.options} "
                f"options and {self.blocks} blocks."
            )
        _ = self.region

    @cached_property
    def columns(self) -> HadamardColumns:
        """The messages, and which of them an option owns."""
        return HadamardColumns(self.options, self.blocks)

    @property
    def block_size(self) -> int:
        """b: the columns of a block."""
        return self.columns.block_size

    @property
    def outputs(self) -> int:
        """K: the number of messages."""
        return self.columns.outputs

    @cached_property
    def region(self) -> OwnRegion:
        """An option's region is the columns that it owns."""
        return OwnRegion("HadamardResponse", self.epsilon, Fraction(1, 2 * self.blocks))

    @cached_property
    def values(self) -> OneOption:
        return OneOption("HadamardResponse", self.options)

    @cached_property
    def law(self) -> RegionLaw:
        """The worst pair is in two blocks, or else in one, whose column 0 every option owns."""
        # Column 0 apart, a column that two options own is p times likelier than for an option that does not own it.
        columns_of_two = 0 if self.block_size == 2 else self.block_size // 4 - int(self._one_block_in_use)
        return RegionLaw(
            self.region,
            only_one=self._only_one,
            always=Fraction(1, self.outputs) if self._one_block_in_use else Fraction(0),
            q_common=None if columns_of_two else 1.0,
            attacked=(self._attack(),),
            tight=True,
            covers_mixtures=True,
            space=(self.name, self.options, self.blocks),
        )

    @property
    def _one_block_in_use(self) -> bool:
        return self.options < self.block_size

    @property
    def _only_one(self) -> Fraction:
        """The share of messages that one option owns and another does not, for the worst pair."""
        return self.region.share / 2 if self._one_block_in_use else self.region.share

    def _attack(self) -> HidingPair:
        """The worst pair, where all others hold a third option (with two options only, the first).

        In one block the third row is the sum of the pair's two: it owns what both own and what neither owns.
        With blocks it is one of a third block, or else another one of the first's block.
        """
        h, half = self.region.share, self.region.share / 2
        shares: dict[Regions, Fraction]
        if self.options == 2:
            shares = {(True, False, True): self._only_one, (False, True, False): self._only_one}
            shares[True, True, True] = h - self._only_one
        elif self._one_block_in_use:
            shares = {(True, False, False): half, (False, True, False): half}
            shares |= {(True, True, True): half, (False, False, True): half}
        elif self.options > 2 * (self.block_size - 1):
            shares = {(True, False, False): h, (False, True, False): h, (False, False, True): h}
        else:
            shares = {(True, False, False): half, (True, False, True): half, (False, True, False): h}
            shares[False, False, True] = half
        shares[False, False, False] = 1 - sum(shares.values(), Fraction(0))
        return self.region.attack(shares, symmetric=shares.get((True, False, True), 0) == 0)

    @cached_property
    def wire(self) -> WholeNumberWire:
        return WholeNumberWire("HadamardResponse", self.outputs)

    @cached_property
    def reading(self) -> HadamardReading:
        return HadamardReading(self.columns, self.region.uniform_share)

    @cached_property
    def reference(self) -> UniformColumn:
        return UniformColumn(self.region, self.columns, self.outputs)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        result = np.empty(len(values), dtype=np.int64)
        for start in range(0, len(values), BATCH):
            part = values[start : start + BATCH]
            truthful = ~source.coins(self.region.uniform_share, len(part))
            drawn = source.below(self.outputs, len(part))
            result[start : start + BATCH] = self.columns.moved(part, truthful, drawn)
        return result

    def table(self) -> OutputTable:
        every, messages = np.arange(self.options), np.arange(self.outputs)
        owned = [self.columns(np.full_like(messages, x), messages) for x in every]
        inside, outside = self.region.inside / self.outputs, self.region.outside / self.outputs
        return OutputTable(every, messages, tuple(tuple(inside if o else outside for o in own) for own in owned))

    @classmethod
    def examples(cls) -> Sequence[HadamardResponse]:
        return [
            cls(epsilon=1.0, options=3),
            cls(epsilon=0.5, options=5),
            cls(epsilon=2.0, options=9, blocks=4),
            cls(epsilon=3.0, options=3, blocks=2),
            cls(epsilon=2.0, options=4, blocks=4),
        ]


@dataclass(frozen=True)
class UniformColumn(UniformReference):
    """The reference law: every index alike, the low bits of one word."""

    outputs: int

    @property
    def words(self) -> int:
        return 1

    def messages(self, words: Words) -> Array:
        return (words[:, 0] & np.uint64(self.outputs - 1)).astype(np.int64)
