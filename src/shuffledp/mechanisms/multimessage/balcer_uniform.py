"""Balcer, Cheu, Joseph and Mao: bits in the clear among fair coins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from flint import arb

from shuffledp import argument
from shuffledp.array import Array
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import HidingTable, OutputTable
from shuffledp.mechanisms.parts.counter import COINS, CoinCounters, CounterReading, checked_coins
from shuffledp.mechanisms.parts.crowd import AmongCoins
from shuffledp.mechanisms.parts.pair_law import PairLaw
from shuffledp.mechanisms.parts.published import inverse_coth
from shuffledp.mechanisms.parts.user_values import OneOption
from shuffledp.mechanisms.parts.wire import WholeNumberWire
from shuffledp.privacy.randomizer import HasPublishedGuarantee
from shuffledp.sampling.random import RandomSource


@dataclass(frozen=True)
class BalcerUniform(Mechanism, HasPublishedGuarantee):
    """Count each option with the own bit and ``coins`` fair coins.

    ``options``: how many options there are; a user's value is the number of one of them, from 0. ``coins``: how many
    fair noise bits every user adds for each option, 1 by default. There is no local ε: a message hides only among the
    others' coins.

    Theorem: [VR] Table 3, uniform coin (two options): p = ∞, β = 1, q = 2, by (★) exactly; more options as in
    ``CoinCounters``.
    Requires: options ≥ 2; coins ≥ 1.

    >>> import shuffledp as sdp
    >>> curve = sdp.amplify(sdp.BalcerUniform(options=2, coins=4), users=1000)
    >>> curve.messages
    4001
    >>> f"{curve.epsilon(delta=1e-6).upper:.4f}"
    '0.1160'
    """

    options: int
    coins: int = 1

    name = "balcer-uniform"
    task = "frequency"
    summary = "the bits of each option in the clear, and fair coins"
    take_it = "To compare with the paper; others send far fewer messages."
    tuning = (COINS,)
    published_theorem = (
        "the binomial mechanism's analysis, used by [BCJM21]: coins/2 = 10·coth²(ε/2)·log(2/δ); (2ε, 2δ) for more than "
        "two options"
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", argument.count("BalcerUniform", "options", self.options, at_least=2))
        object.__setattr__(self, "coins", checked_coins("BalcerUniform", self.coins))
        self.counted.demand_few("BalcerUniform")

    @cached_property
    def counted(self) -> CoinCounters:
        """What is sent."""
        return CoinCounters(self.options, self.coins, Fraction(1, 2))

    @cached_property
    def values(self) -> OneOption:
        return OneOption("BalcerUniform", self.options)

    @cached_property
    def law(self) -> PairLaw:
        return self.counted.law()

    @cached_property
    def wire(self) -> WholeNumberWire:
        return WholeNumberWire("BalcerUniform", self.counted.outputs)

    @cached_property
    def reading(self) -> CounterReading:
        return self.counted.reading()

    @property
    def crowd(self) -> AmongCoins:
        return AmongCoins(self.counted.counters, self.coins)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        return self.counted.send(values, source)

    def published_epsilon(self, messages: int, delta: arb) -> arb:
        moved, part = self.counted.split(delta)
        return moved * 2 * inverse_coth((messages - 1) / (20 * (2 / part).log()))

    def hiding_table(self) -> HidingTable:
        return self.counted.hiding_table()

    def table(self) -> OutputTable:
        return self.counted.table("BalcerUniform")

    @classmethod
    def examples(cls) -> Sequence[BalcerUniform]:
        return [cls(options=2), cls(options=3), cls(options=2, coins=4)]
