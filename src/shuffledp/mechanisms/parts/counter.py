"""Binary counters: bits in the clear among the bits of coins, one counter for each option."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import inf, prod
from typing import ClassVar

import numpy as np
from flint import arb

from shuffledp import argument
from shuffledp.array import Array, Integers
from shuffledp.mechanisms.mechanism import Estimate, HidingTable, OutputTable, Tuning
from shuffledp.mechanisms.parts.old_support import SupportOracle
from shuffledp.mechanisms.parts.old_whole_number import WholeNumber
from shuffledp.numerics.ball import above, rational
from shuffledp.privacy.pair import HidingPair, exact_pair
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling import bits
from shuffledp.sampling.random import RandomSource

COINS_AT_ONCE = 1 << 18
MOST_COINS = 1_000_000
MOST_REPORTS_OF_A_TABLE = 1 << 14
COINS = Tuning("coins", True, True, 1, MOST_COINS)


class CoinCounters(WholeNumber, SupportOracle):
    """For every counter, send the own bit in the clear and ``coins`` bits that are 1 with probability ϖ.

    Two options need one counter, of those who hold option 1; more options have a counter each, and the own bit is 1 in
    one of them. A message is the number 2j + bit of counter j. Coins are exact: ϖ is a multiple of 2^-64.

    Theorem: one counter: identity (★), exact, with w = the law of a coin and M − 1 = (honest users)·coins, as the
    others' bits are known and can be taken out: p = ∞, β = 1, q0 = 1/ϖ, q1 = 1/(1−ϖ).
    Many counters: replacing x by x' takes one from counter x and gives one to counter x', and no other counter moves.
    The counters' coins are independent. Let coin i of counter x travel with coin i of counter x', and the victim's two
    bits together: that shows more than the counts do, and is (★) with w = the law of two coins, of which only (1, 0)
    and (0, 1), each ϖ(1−ϖ), can be the victim's.
    Returns: exact for two options, an upper bound for more.
    """

    coins: int
    tuning: ClassVar[tuple[Tuning, ...]] = (COINS,)

    @property
    @abstractmethod
    def heads(self) -> Fraction:
        """ϖ: the chance that a coin is 1."""

    def _check_counters(self) -> None:
        who = type(self).__name__
        object.__setattr__(self, "options", argument.count(who, "options", self.options, at_least=2))
        count = argument.count(who, "coins", self.coins)
        if count > MOST_COINS:
            raise ValueError(f"{who}: coins must be at most {MOST_COINS}, got {count}.")
        object.__setattr__(self, "coins", count)

    @property
    def counters(self) -> int:
        return 1 if self.options == 2 else self.options

    @property
    def local_epsilon(self) -> None:
        return None

    @property
    def messages_per_user(self) -> int:
        return self.counters * (1 + self.coins)

    def hiding_messages(self, users: int) -> int:
        return users * self.coins + 1

    @property
    def own_support(self) -> Fraction:
        return Fraction(1)

    @property
    def other_support(self) -> Fraction:
        return Fraction(0)

    @property
    def dummy_mean(self) -> Fraction:
        return self.coins * self.heads

    @property
    def dummy_variance(self) -> Fraction:
        return self.dummy_mean * (1 - self.heads)

    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        """The bits that are sent in the clear, and coins, of every counter."""
        real = held[1:] if self.counters == 1 else held
        return self.finish(real + rng.binomial(users * self.coins, float(self.heads), self.counters), users)

    def _own_bits(self, values: Array) -> Array:
        """The own bit of every counter, one row per user."""
        marked = [1] if self.counters == 1 else np.arange(self.options)
        return np.asarray(values[:, None] == marked)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        kind = np.min_scalar_type(2 * self.counters - 1)
        messages = np.empty((len(values), self.counters, 1 + self.coins), dtype=kind)
        messages[:] = (2 * np.arange(self.counters, dtype=kind))[:, None]
        step = max(1, COINS_AT_ONCE // self.messages_per_user)
        for start in range(0, len(values), step):
            own, part = values[start : start + step], messages[start : start + step]
            part[:, :, 0] += self._own_bits(own)
            tossed = part[:, :, 1:]
            coins = bits.single_bits(bits.coin_rows(source, self.heads, 1, tossed.size), tossed.size)
            tossed += coins.reshape(tossed.shape)
        return messages.reshape(-1)

    @property
    def outputs(self) -> int:
        return 2 * self.counters

    def accumulate(self, messages: Array) -> Array:
        return np.bincount(messages, minlength=2 * self.counters)[1::2]

    def finish(self, total: Array, users: int) -> Estimate:
        found = super().finish(total, users)
        if self.counters > 1:
            return found
        ones = found.value[0]
        return Estimate(np.array([users - ones, ones]), np.repeat(found.variance, 2), users)

    @property
    def _both_ways(self) -> tuple[Fraction, Fraction]:
        """The chance that what hides looks like the first input of a pair, and like the second."""
        one, none = self.heads, 1 - self.heads
        return (one, none) if self.counters == 1 else (one * none, one * none)

    def variation_ratio(self) -> VariationRatio:
        first, second = self._both_ways
        return VariationRatio(p=inf, beta=1.0, q=(above(1 / first), above(1 / second)))

    def blankets(self) -> Sequence[HidingPair]:
        return [_disjoint(*self._both_ways)]

    def attacks(self) -> Sequence[HidingPair]:
        """Any dataset: whoever knows the others' bits takes them out, and looks at one counter."""
        return [_disjoint(self.heads, 1 - self.heads)]

    def split(self, delta: arb) -> tuple[int, arb]:
        """How many counters a change moves, and the share of δ for each: how the printed analyses compose."""
        moved = 1 if self.counters == 1 else 2
        return moved, delta / moved

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
        own = self._own_bits(np.arange(self.options))
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
