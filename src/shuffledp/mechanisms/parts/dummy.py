"""Dummies: messages that do not depend on the value and hide the one that does; how they are sent, counted, drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

import numpy as np

from shuffledp import argument
from shuffledp.array import Array, Integers
from shuffledp.mechanisms.output_table import HidingTable, OutputTable
from shuffledp.mechanisms.parts.asked import Asked
from shuffledp.mechanisms.parts.support import Pairs, SupportReading, true_or_uniform, uniform_counts
from shuffledp.mechanisms.tuning import Tuning
from shuffledp.numerics.ball import rational
from shuffledp.privacy.pair import ExactClass
from shuffledp.sampling import dyadic
from shuffledp.sampling.random import RandomSource

USERS_AT_ONCE = 1 << 14
"""Users encoded at a time, so that the working arrays stay in the processor's cache."""
MOST_REPORTS_OF_A_TABLE = 1 << 14
MOST_DUMMIES = 1_000_000

DUMMIES = Tuning("dummies", True, True, 1, MOST_DUMMIES)
SHARE = Tuning("share", False, True, 2.0**-40, 1.0)

MOST_COMPARED = 1 << 10
"""The most dummies a user that plans compare."""


def numbers_of_dummies() -> Iterator[dict[str, Any]]:
    """How many dummies plans compare where another setting is searched: each number twice the one before."""
    count = 1
    while count <= MOST_COMPARED:
        yield {"dummies": count}
        count *= 2


def checked_dummies(who: str, dummies: Any) -> int:
    """A number of dummies, or a sentence."""
    count = argument.count(who, "dummies", dummies)
    if count > MOST_DUMMIES:
        raise ValueError(f"{who}: dummies must be at most {MOST_DUMMIES}, got {count}.")
    return count


def checked_share(who: str, given: Any) -> float:
    """The share of dummies that are not blank, or a sentence."""
    share = argument.real(who, "share", given)
    if not 0 < share <= 1:
        raise ValueError(f"{who}: share must be above 0 and at most 1, got {share!r}.")
    return share


@dataclass(frozen=True)
class MessageTable:
    """The laws of single messages: the one that depends on the value, a row per input, and a dummy."""

    messages: Array
    rows: tuple[tuple[Fraction, ...], ...]
    dummy: tuple[Fraction, ...]

    def hiding(self) -> HidingTable:
        return HidingTable(self.rows, self.dummy)

    def with_dummies(self, who: str, dummies: int) -> OutputTable:
        """The law of all messages of a user; the inputs are options."""
        if len(self.messages) ** (1 + dummies) > MOST_REPORTS_OF_A_TABLE:
            raise ValueError(f"{who}: a table needs fewer messages or dummies.")
        reports = list(product(range(len(self.messages)), repeat=1 + dummies))
        hidden = [prod((self.dummy[k] for k in later), start=Fraction(1)) for _, *later in reports]
        rows = tuple(
            tuple(row[report[0]] * chance for report, chance in zip(reports, hidden, strict=True)) for row in self.rows
        )
        return OutputTable(np.arange(len(rows)), self.messages[np.array(reports)], rows)


@dataclass(frozen=True)
class UniformDummies:
    """Messages are numbers below ``kinds``; a dummy is a uniform one with probability ``share`` and blank otherwise.

    A blank is one more message, which no real message ever is. So the number of messages stays fixed, and with less
    than one dummy a user on average the law of a message that hides is ``share`` times that of a filled dummy.
    ``share`` is rounded up to a multiple of 2^-64, which only hides more.
    """

    count: int
    """Of each user."""
    kinds: int
    filled: Fraction
    """The executed share."""

    @classmethod
    def of_share(cls, count: int, kinds: int, share: float) -> UniformDummies:
        return cls(count, kinds, dyadic.rounded_up(Fraction(share)))

    @property
    def has_blank(self) -> bool:
        return self.filled < 1

    @property
    def outputs(self) -> int:
        """How many different messages there are, the blank among them."""
        return self.kinds + self.has_blank

    def around(self, real: Callable[[Array, RandomSource], Array], values: Array, source: RandomSource) -> Array:
        """All messages: for each user the one that ``real`` draws for the value, then the dummies."""
        messages = np.empty((len(values), 1 + self.count), dtype=np.int64)
        step = max(1, USERS_AT_ONCE // (1 + self.count))
        for start in range(0, len(values), step):
            own = values[start : start + step]
            part = messages[start : start + step]
            part[:, 0] = real(own, source)
            dummies = source.below(self.kinds, len(own) * self.count)
            if self.has_blank:
                dummies[~source.coins(self.filled, len(dummies))] = self.kinds
            part[:, 1:] = dummies.reshape(len(own), self.count)
        return messages.reshape(-1)

    def classes(self, laws: Sequence[tuple[Fraction, Fraction, Fraction]]) -> list[ExactClass]:
        """(first, second, chance of a filled dummy) as classes against dummies that may be blank."""
        return [(rational(first), rational(second), rational(chance * self.filled)) for first, second, chance in laws]

    def table(self, rows: tuple[tuple[Fraction, ...], ...]) -> MessageTable:
        """The laws of filled messages, given a row per input, with the blank, where there is one, behind them."""
        dummy = (self.filled / self.kinds,) * self.kinds
        if self.has_blank:
            rows, dummy = tuple((*row, Fraction(0)) for row in rows), (*dummy, 1 - self.filled)
        return MessageTable(np.arange(len(dummy)), rows, dummy)


@dataclass(frozen=True)
class DummyReading(SupportReading):
    """Counts support among ``dummies`` of each user, each of which supports a given option with one chance."""

    dummy_mean: Fraction = field(init=False)
    dummy_variance: Fraction = field(init=False)
    dummies: int
    dummy_support: Fraction

    def __post_init__(self) -> None:
        mean = self.dummies * self.dummy_support
        object.__setattr__(self, "dummy_mean", mean)
        object.__setattr__(self, "dummy_variance", mean * (1 - self.dummy_support))

    @property
    def dummy_third(self) -> Fraction:
        return self.dummy_variance * (1 - 2 * self.dummy_support)

    def draw_dummies(self, users: int, options: int, rng: np.random.Generator) -> Integers:
        return np.asarray(rng.binomial(users * self.dummies, float(self.dummy_support), options))


@dataclass(frozen=True)
class CountedAmongDummies(DummyReading):
    """A message is an option, or blank; the real one is a uniform option with probability γ, else the own one."""

    uniform_share: Fraction
    filled: Fraction
    """The chance that a dummy is not blank."""

    @classmethod
    def of(cls, dummies: UniformDummies, uniform_share: Fraction) -> CountedAmongDummies:
        options, filled = dummies.kinds, dummies.filled
        other = uniform_share / options
        return cls(options, 1 - uniform_share + other, other, dummies.count, filled / options, uniform_share, filled)

    def accumulate(self, messages: Array) -> Array:
        return np.bincount(messages, minlength=self.options + 1)[: self.options]

    def supports_of(self, messages: Array, asked: Asked) -> Integers:
        return asked.counts(messages)

    @property
    def pairs(self) -> Pairs:
        """A message, and so a dummy, supports one option or none."""
        return Pairs(Fraction(0), Fraction(0), -self.dummies * self.dummy_support**2)

    @property
    def draws_together(self) -> bool:
        return True

    def draw_supports(self, held: Integers, users: int, rng: np.random.Generator) -> Integers:
        real = true_or_uniform(held, users, float(self.uniform_share), rng)
        # Blank dummies left out, each is any option.
        filled = int(rng.binomial(users * self.dummies, float(self.filled)))
        return real + uniform_counts(filled, self.options, rng)

    def real_rows(self) -> tuple[tuple[Fraction, ...], ...]:
        """The exact law of the real message: a row per option held, a column per option sent."""
        every = range(self.options)
        return tuple(tuple(self.own if x == y else self.other for y in every) for x in every)
