"""Binary counters, one for each option: bits in the clear among the bits of coins; how they are counted."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from shuffledp import argument
from shuffledp.array import Array, Integers
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.parts.support import SupportReading
from shuffledp.mechanisms.tuning import Tuning

MOST_COINS = 1_000_000
COINS = Tuning("coins", True, True, 1, MOST_COINS)


def checked_coins(who: str, coins: Any) -> int:
    """A number of coins, or a sentence."""
    count = argument.count(who, "coins", coins)
    if count > MOST_COINS:
        raise ValueError(f"{who}: coins must be at most {MOST_COINS}, got {count}.")
    return count


def counters_of(options: int) -> int:
    """Two options need one counter, of those who hold option 1; more options have a counter each."""
    return 1 if options == 2 else options


def own_bits(values: Array, options: int) -> Array:
    """The own bit of every counter, one row per user."""
    marked = [1] if counters_of(options) == 1 else np.arange(options)
    return np.asarray(values[:, None] == marked)


@dataclass(frozen=True)
class CounterReading(SupportReading):
    """A message is the number 2j + bit of counter j; each user adds the own bits and ``coins`` coins to every counter.

    ``heads`` is the chance that a coin is 1.
    """

    own: Fraction = field(init=False, default=Fraction(1))
    other: Fraction = field(init=False, default=Fraction(0))
    dummy_mean: Fraction = field(init=False)
    dummy_variance: Fraction = field(init=False)
    coins: int
    heads: Fraction

    def __post_init__(self) -> None:
        mean = self.coins * self.heads
        object.__setattr__(self, "dummy_mean", mean)
        object.__setattr__(self, "dummy_variance", mean * (1 - self.heads))

    @property
    def counters(self) -> int:
        return counters_of(self.options)

    def accumulate(self, messages: Array) -> Array:
        return np.bincount(messages, minlength=2 * self.counters)[1::2]

    def finish(self, total: Array, users: int) -> Estimate:
        found = self.from_supports(total, users)
        if self.counters > 1:
            return found
        ones = found.value[0]
        return Estimate(np.array([users - ones, ones]), np.repeat(found.variance, 2), users)

    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        """The bits that are sent in the clear, and coins, of every counter."""
        real = held[1:] if self.counters == 1 else held
        return self.finish(real + rng.binomial(users * self.coins, float(self.heads), self.counters), users)
