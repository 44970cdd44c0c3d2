"""Binary counters, one for each option: bits in the clear among the bits of coins, sent, counted and hidden."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from math import inf, prod
from typing import Any

import numpy as np
from flint import arb

from shuffledp import argument
from shuffledp.array import Array, Integers
from shuffledp.mechanisms.estimate import Estimate, JoinedTails
from shuffledp.mechanisms.output_table import HidingTable, OutputTable
from shuffledp.mechanisms.parts.asked import Asked
from shuffledp.mechanisms.parts.pair_law import PairLaw
from shuffledp.mechanisms.parts.reading import PickedReading, Reading
from shuffledp.mechanisms.parts.support import Pairs, SupportReading, independent
from shuffledp.mechanisms.parts.sway import Sway
from shuffledp.mechanisms.tuning import Tuning
from shuffledp.numerics.ball import above, rational
from shuffledp.privacy.pair import HidingPair, exact_pair
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling import bits
from shuffledp.sampling.random import RandomSource

COINS_AT_ONCE = 1 << 18
MOST_REPORTS_OF_A_TABLE = 1 << 14
MOST_COINS = 1_000_000
MOST_MESSAGES = 1 << 28
"""Of one user, who sends some for every counter."""
COINS = Tuning("coins", True, True, 1, MOST_COINS)


def checked_coins(who: str, coins: Any) -> int:
    """A number of coins, or a sentence."""
    count = argument.count(who, "coins", coins)
    if count > MOST_COINS:
        raise ValueError(f"{who}: coins must be at most {MOST_COINS}, got {count}.")
    return count


@dataclass(frozen=True)
class CounterReading(SupportReading):
    """A message is the number 2j + bit of counter j; each user adds the own bits and ``coins`` coins to every counter.

    ``heads`` is the chance that a coin is 1.
    """

    own: Fraction = field(init=False, default=Fraction(1))
    other: Fraction = field(init=False, default=Fraction(0))
    dummy_mean: Fraction = field(init=False)
    dummy_variance: Fraction = field(init=False)
    counters: int
    coins: int
    heads: Fraction

    def __post_init__(self) -> None:
        mean = self.coins * self.heads
        object.__setattr__(self, "dummy_mean", mean)
        object.__setattr__(self, "dummy_variance", mean * (1 - self.heads))

    @property
    def dummy_third(self) -> Fraction:
        return self.dummy_variance * (1 - 2 * self.heads)

    def accumulate(self, messages: Array) -> Array:
        return np.bincount(messages, minlength=2 * self.counters)[1::2]

    @property
    def pairs(self) -> Pairs | None:
        """Counters are independent; two options have one counter, of which they are both made."""
        return independent(self) if self.counters > 1 else None

    @property
    def draws_together(self) -> bool:
        return True

    def some(self, asked: Asked) -> Reading:
        """Two options have one counter, from which both are read."""
        return super().some(asked) if self.counters > 1 else PickedReading(self, asked)

    def supports_of(self, messages: Array, asked: Asked) -> Integers:
        return asked.counts(messages[messages % 2 == 1] // 2)

    def finish(self, total: Array, users: int) -> Estimate:
        found = self.from_supports(total, users)
        if self.counters > 1:
            return found
        ones = found.value[0]
        tails = JoinedTails((found.tails.moved(-1.0, users), found.tails), (1, 1))
        return Estimate(np.array([users - ones, ones]), np.repeat(found.variance, 2), users, tails)

    def sways(self, messages: float) -> tuple[Sway, ...]:
        """Of one counter's two options, the other is held by those who do not hold the counted one."""
        found = super().sways(messages)
        if self.counters > 1:
            return found
        (ones,) = found
        return ones, Sway(1.0 - ones.most, 1.0 - ones.least)

    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        """The bits that are sent in the clear, and coins, of every counter."""
        real = held[1:] if self.counters == 1 else held
        return self.finish(real + rng.binomial(users * self.coins, float(self.heads), self.counters), users)


@dataclass(frozen=True)
class CoinCounters:
    """For every counter the own bit in the clear and ``coins`` bits that are 1 with probability ``heads``, exactly.

    Two options need one counter, of those who hold option 1; more options have a counter each, and the own bit is 1 in
    one of them. A message is the number 2j + bit of counter j.

    Theorem: one counter: identity (★), exact, with w = the law of a coin and M − 1 = (honest users)·coins, as the
    others' bits are known and can be taken out: p = ∞, β = 1, q0 = 1/ϖ, q1 = 1/(1−ϖ).
    Many counters: replacing x by x' takes one from counter x and gives one to counter x', and no other counter moves.
    The counters' coins are independent. Let coin i of counter x travel with coin i of counter x', and the victim's two
    bits together: that shows more than the counts do, and is (★) with w = the law of two coins, of which only (1, 0)
    and (0, 1), each ϖ(1−ϖ), can be the victim's.
    Returns: exact for two options, an upper bound for more.
    """

    options: int
    coins: int
    heads: Fraction
    """ϖ, a multiple of 2^-64."""

    def demand_few(self, who: str) -> None:
        """Stop where a user would send more messages than anybody does."""
        if self.messages > MOST_MESSAGES:
            raise ValueError(
                f"{who}: a user must send at most {MOST_MESSAGES:,} messages, got {self.messages:,}; with so many "
                f"options take a mechanism with few messages, such as balls-into-bins."
            )

    @property
    def counters(self) -> int:
        return 1 if self.options == 2 else self.options

    @property
    def messages(self) -> int:
        """Of each user."""
        return self.counters * (1 + self.coins)

    @property
    def outputs(self) -> int:
        """How many different messages there are."""
        return 2 * self.counters

    def own_bits(self, values: Array) -> Array:
        """The own bit of every counter, one row per user."""
        marked = [1] if self.counters == 1 else np.arange(self.options)
        return np.asarray(values[:, None] == marked)

    def law(self) -> PairLaw:
        """Any dataset is attacked: whoever knows the others' bits takes them out, and looks at one counter."""
        one, none = self.heads, 1 - self.heads
        # The chance that what hides looks like the first input of a pair, and like the second.
        first, second = (one, none) if self.counters == 1 else (one * none, one * none)
        parameters = VariationRatio(p=inf, beta=1.0, q=(above(1 / first), above(1 / second)))
        return PairLaw(parameters, (_disjoint(first, second),), attacked=(_disjoint(one, none),), tight=True)

    def reading(self) -> CounterReading:
        return CounterReading(self.options, self.counters, self.coins, self.heads)

    def send(self, values: Array, source: RandomSource) -> Array:
        """All messages: for each user and counter the own bit, then the coins."""
        kind = np.min_scalar_type(2 * self.counters - 1)
        messages = np.empty((len(values), self.counters, 1 + self.coins), dtype=kind)
        messages[:] = (2 * np.arange(self.counters, dtype=kind))[:, None]
        step = max(1, COINS_AT_ONCE // self.messages)
        for start in range(0, len(values), step):
            own, part = values[start : start + step], messages[start : start + step]
            part[:, :, 0] += self.own_bits(own)
            tossed = part[:, :, 1:]
            coins = bits.single_bits(bits.coin_rows(source, self.heads, 1, tossed.size), tossed.size)
            tossed += coins.reshape(tossed.shape)
        return messages.reshape(-1)

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

    def table(self, who: str) -> OutputTable:
        if 2**self.messages > MOST_REPORTS_OF_A_TABLE:
            raise ValueError(f"{who}: a table needs fewer options or coins.")
        reports = np.array(list(product((0, 1), repeat=self.messages)))
        shaped = reports.reshape(-1, self.counters, 1 + self.coins)
        own = self.own_bits(np.arange(self.options))
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
