"""What the protocols answer in which bits in the clear hide among the bits of coins."""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction
from functools import cached_property

from flint import arb

from shuffledp import argument
from shuffledp.array import Array
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import HidingTable, OutputTable
from shuffledp.mechanisms.parts.counter import CoinCounters, CounterReading, checked_coins
from shuffledp.mechanisms.parts.pair_law import PairLaw
from shuffledp.mechanisms.parts.user_values import OneOption
from shuffledp.mechanisms.parts.wire import WholeNumberWire
from shuffledp.sampling.random import RandomSource


class CoinProtocol(Mechanism):
    """For every counter, send the own bit in the clear and ``coins`` bits that are 1 with probability ϖ.

    Two options need one counter, of those who hold option 1; more options have a counter each, and the own bit is 1 in
    one of them. A message is the number 2j + bit of counter j. Coins are exact: ϖ is a multiple of 2^-64.

    A base besides the part ``CoinCounters``, because bounds, certificates and collections ask the mechanism itself; the
    protocols, which differ in ϖ only, would repeat these answers word by word.

    Theorem: one counter: identity (★), exact, with w = the law of a coin and M − 1 = (honest users)·coins, as the
    others' bits are known and can be taken out: p = ∞, β = 1, q0 = 1/ϖ, q1 = 1/(1−ϖ).
    Many counters: replacing x by x' takes one from counter x and gives one to counter x', and no other counter moves.
    The counters' coins are independent. Let coin i of counter x travel with coin i of counter x', and the victim's two
    bits together: that shows more than the counts do, and is (★) with w = the law of two coins, of which only (1, 0)
    and (0, 1), each ϖ(1−ϖ), can be the victim's.
    Returns: exact for two options, an upper bound for more.
    """

    task = "frequency"
    options: int
    coins: int

    def __post_init__(self) -> None:
        who = type(self).__name__
        object.__setattr__(self, "options", argument.count(who, "options", self.options, at_least=2))
        object.__setattr__(self, "coins", checked_coins(who, self.coins))

    @property
    @abstractmethod
    def heads(self) -> Fraction:
        """ϖ: the chance that a coin is 1."""

    @cached_property
    def counted(self) -> CoinCounters:
        """What is sent."""
        return CoinCounters(self.options, self.coins, self.heads)

    @cached_property
    def values(self) -> OneOption:
        return OneOption(type(self).__name__, self.options)

    @cached_property
    def law(self) -> PairLaw:
        return self.counted.law()

    @cached_property
    def wire(self) -> WholeNumberWire:
        return WholeNumberWire(type(self).__name__, self.counted.outputs)

    @cached_property
    def reading(self) -> CounterReading:
        return self.counted.reading()

    def randomize(self, values: Array, source: RandomSource) -> Array:
        return self.counted.send(values, source)

    @property
    def local_epsilon(self) -> None:
        return None

    @property
    def messages_per_user(self) -> int:
        return self.counted.messages

    def hiding_messages(self, users: int) -> int:
        return users * self.coins + 1

    def split(self, delta: arb) -> tuple[int, arb]:
        """How many counters a change moves, and the share of δ for each: how the printed analyses compose."""
        moved = 1 if self.counted.counters == 1 else 2
        return moved, delta / moved

    def hiding_table(self) -> HidingTable:
        return self.counted.hiding_table()

    def table(self) -> OutputTable:
        return self.counted.table(type(self).__name__)
