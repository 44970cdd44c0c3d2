"""What the protocols have in common in which bits in the clear hide among the bits of coins."""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import inf, prod

import numpy as np
from flint import arb

from shuffledp import argument
from shuffledp.array import Array
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import HidingTable, OutputTable
from shuffledp.mechanisms.parts.counter import CounterReading, checked_coins, counters_of, own_bits
from shuffledp.mechanisms.parts.pair_law import PairLaw
from shuffledp.mechanisms.parts.user_values import OneOption
from shuffledp.mechanisms.parts.wire import WholeNumberWire
from shuffledp.numerics.ball import above, rational
from shuffledp.privacy.pair import HidingPair, exact_pair
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling import bits
from shuffledp.sampling.random import RandomSource

COINS_AT_ONCE = 1 << 18
MOST_REPORTS_OF_A_TABLE = 1 << 14


class CoinProtocol(Mechanism):
    """For every counter, send the own bit in the clear and ``coins`` bits that are 1 with probability ϖ.

    Two options need one counter, of those who hold option 1; more options have a counter each, and the own bit is 1 in
    one of them. A message is the number 2j + bit of counter j. Coins are exact: ϖ is a multiple of 2^-64.

    A base and no part, because the protocols differ in one number only, ϖ, and in where they were published.

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

    @property
    def counters(self) -> int:
        return counters_of(self.options)

    @cached_property
    def values(self) -> OneOption:
        return OneOption(type(self).__name__, self.options)

    @cached_property
    def law(self) -> PairLaw:
        """Any dataset is attacked: whoever knows the others' bits takes them out, and looks at one counter."""
        one, none = self.heads, 1 - self.heads
        # The chance that what hides looks like the first input of a pair, and like the second.
        first, second = (one, none) if self.counters == 1 else (one * none, one * none)
        parameters = VariationRatio(p=inf, beta=1.0, q=(above(1 / first), above(1 / second)))
        return PairLaw(parameters, (_disjoint(first, second),), attacked=(_disjoint(one, none),), tight=True)

    @cached_property
    def wire(self) -> WholeNumberWire:
        return WholeNumberWire(type(self).__name__, 2 * self.counters)

    @cached_property
    def reading(self) -> CounterReading:
        return CounterReading(self.options, self.coins, self.heads)

    # --- what it answers itself ---------------------------------------------------------------------------------

    @property
    def local_epsilon(self) -> None:
        return None

    @property
    def messages_per_user(self) -> int:
        return self.counters * (1 + self.coins)

    def hiding_messages(self, users: int) -> int:
        return users * self.coins + 1

    def split(self, delta: arb) -> tuple[int, arb]:
        """How many counters a change moves, and the share of δ for each: how the printed analyses compose."""
        moved = 1 if self.counters == 1 else 2
        return moved, delta / moved

    def randomize(self, values: Array, source: RandomSource) -> Array:
        kind = np.min_scalar_type(2 * self.counters - 1)
        messages = np.empty((len(values), self.counters, 1 + self.coins), dtype=kind)
        messages[:] = (2 * np.arange(self.counters, dtype=kind))[:, None]
        step = max(1, COINS_AT_ONCE // self.messages_per_user)
        for start in range(0, len(values), step):
            own, part = values[start : start + step], messages[start : start + step]
            part[:, :, 0] += own_bits(own, self.options)
            tossed = part[:, :, 1:]
            coins = bits.single_bits(bits.coin_rows(source, self.heads, 1, tossed.size), tossed.size)
            tossed += coins.reshape(tossed.shape)
        return messages.reshape(-1)

    # --- for tests and certificates -----------------------------------------------------------------------------

    def hiding_table(self) -> HidingTable:
        one, none, zero = Fraction(1), 1 - self.heads, Fraction(0)
        if self.counters == 1:
            return HidingTable(((zero, one), (one, zero)), (none, self.heads))
        patterns = list(product((0, 1), repeat=2))
        floor = tuple(prod((self.heads if bit else none for bit in pattern), start=one) for pattern in patterns)
        rows = tuple(tuple(Fraction(pattern == own) for pattern in patterns) for own in ((1, 0), (0, 1)))
        return HidingTable(rows, floor)

    def table(self) -> OutputTable:
        if 2**self.messages_per_user > MOST_REPORTS_OF_A_TABLE:
            raise ValueError(f"{type(self).__name__}: a table needs fewer options or coins.")
        reports = np.array(list(product((0, 1), repeat=self.messages_per_user)))
        shaped = reports.reshape(-1, self.counters, 1 + self.coins)
        own = own_bits(np.arange(self.options), self.options)
        tails = 1 - self.heads
        chances = [
            prod((self.heads if bit else tails for bit in row.flat), start=Fraction(1)) for row in shaped[:, :, 1:]
        ]
        rows = tuple(
            tuple(
                chance if (report[:, 0] == mine).all() else Fraction(0)
                for report, chance in zip(shaped, chances, strict=True)
            )
            for mine in own
        )
        labels = np.repeat(2 * np.arange(self.counters), 1 + self.coins)
        return OutputTable(np.arange(self.options), reports + labels, rows)


def _disjoint(first: Fraction, second: Fraction) -> HidingPair:
    """The pair of two inputs that never look alike, hidden with these chances."""
    one, none = rational(1), rational(0)
    return exact_pair([(one, none, rational(first)), (none, one, rational(second))], symmetric=first == second)
