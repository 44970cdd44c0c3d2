"""Protocols in which every user sends, besides a message that depends on the value, dummies that hide it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import prod
from typing import Any, ClassVar

import numpy as np

from shuffledp import argument
from shuffledp.array import Array, Integers
from shuffledp.mechanisms.mechanism import HidingTable, OutputTable, Tuning
from shuffledp.mechanisms.parts.old_support import SupportOracle
from shuffledp.mechanisms.parts.old_whole_number import WholeNumber
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


@dataclass(frozen=True)
class MessageTable:
    """The laws of single messages: the one that depends on the value, a row per input, and a dummy."""

    messages: Array
    rows: tuple[tuple[Fraction, ...], ...]
    dummy: tuple[Fraction, ...]


class DummyOracle(SupportOracle):
    """One message that depends on the value and ``dummies`` that do not, all dummies of all users with one law.

    Theorem: identity (★) with w = the law of a dummy and M − 1 = all dummies of all honest users, the victim's own
    among them. Others' real messages are revealed: known, or independent of the victim's value, they take nothing away.
    Returns: exact where others' real messages are a function of their values; else an upper bound.
    """

    dummies: int

    @property
    def local_epsilon(self) -> None:
        return None

    @property
    def messages_per_user(self) -> int:
        return 1 + self.dummies

    def hiding_messages(self, users: int) -> int:
        return users * self.dummies + 1

    def other_users(self, messages: int) -> int:
        """How many users besides the victim there are where this many messages hide each other."""
        return (messages - 1) // self.dummies - 1

    @property
    @abstractmethod
    def dummy_support(self) -> Fraction:
        """The chance that a dummy supports a given option."""

    @property
    def dummy_mean(self) -> Fraction:
        return self.dummies * self.dummy_support

    @property
    def dummy_variance(self) -> Fraction:
        return self.dummy_mean * (1 - self.dummy_support)

    def draw_dummies(self, users: int, rng: np.random.Generator) -> Integers:
        return np.asarray(rng.binomial(users * self.dummies, float(self.dummy_support), self.options))

    @abstractmethod
    def message_table(self) -> MessageTable:
        """The exact laws of single messages, for instances small enough to write down."""

    def hiding_table(self) -> HidingTable:
        single = self.message_table()
        return HidingTable(single.rows, single.dummy)

    def table(self) -> OutputTable:
        single = self.message_table()
        if len(single.messages) ** self.messages_per_user > MOST_REPORTS_OF_A_TABLE:
            raise ValueError(f"{type(self).__name__}: a table needs fewer messages or dummies.")
        reports = list(product(range(len(single.messages)), repeat=self.messages_per_user))
        hidden = [prod((single.dummy[k] for k in later), start=Fraction(1)) for _, *later in reports]
        rows = tuple(
            tuple(row[report[0]] * chance for report, chance in zip(reports, hidden, strict=True))
            for row in single.rows
        )
        return OutputTable(np.arange(self.options), single.messages[np.array(reports)], rows)


class NumberedDummies(WholeNumber, DummyOracle):
    """Messages are numbers below ``kinds``; a dummy is filled with probability ``share`` and blank otherwise.

    A blank is one more message, which no real message ever is. So the number of messages stays fixed, and with less
    than one dummy a user on average the law of a message that hides is ``share`` times that of a filled dummy.
    ``share`` is rounded up to a multiple of 2^-64, which only hides more.
    """

    share: float
    tuning: ClassVar[tuple[Tuning, ...]] = (DUMMIES, SHARE)

    def _check_dummies(self) -> None:
        who = type(self).__name__
        count = argument.count(who, "dummies", self.dummies)
        if count > MOST_DUMMIES:
            raise ValueError(f"{who}: dummies must be at most {MOST_DUMMIES}, got {count}.")
        share = argument.real(who, "share", self.share)
        if not 0 < share <= 1:
            raise ValueError(f"{who}: share must be above 0 and at most 1, got {share!r}.")
        object.__setattr__(self, "dummies", count)
        object.__setattr__(self, "share", share)

    @property
    @abstractmethod
    def kinds(self) -> int:
        """How many different messages there are, blanks apart."""

    @abstractmethod
    def real_messages(self, values: Array, source: RandomSource) -> Array:
        """The messages that depend on the values."""

    @property
    @abstractmethod
    def filled_support(self) -> Fraction:
        """The chance that a dummy that is not blank supports a given option."""

    @cached_property
    def filled(self) -> Fraction:
        """The executed share."""
        return dyadic.rounded_up(Fraction(self.share))

    @property
    def has_blank(self) -> bool:
        return self.filled < 1

    @property
    def dummy_support(self) -> Fraction:
        return self.filled * self.filled_support

    def randomize(self, values: Array, source: RandomSource) -> Array:
        messages = np.empty((len(values), self.messages_per_user), dtype=np.int64)
        step = max(1, USERS_AT_ONCE // self.messages_per_user)
        for start in range(0, len(values), step):
            own = values[start : start + step]
            part = messages[start : start + step]
            part[:, 0] = self.real_messages(own, source)
            dummies = source.below(self.kinds, len(own) * self.dummies)
            if self.has_blank:
                dummies[~source.coins(self.filled, len(dummies))] = self.kinds
            part[:, 1:] = dummies.reshape(len(own), self.dummies)
        return messages.reshape(-1)

    @property
    def outputs(self) -> int:
        return self.kinds + self.has_blank

    def message_table(self) -> MessageTable:
        """The laws of filled messages with the blank, where there is one, behind them."""
        rows = self.real_rows()
        dummy = (self.filled / self.kinds,) * self.kinds
        if self.has_blank:
            rows, dummy = tuple((*row, Fraction(0)) for row in rows), (*dummy, 1 - self.filled)
        return MessageTable(np.arange(len(dummy)), rows, dummy)

    @abstractmethod
    def real_rows(self) -> tuple[tuple[Fraction, ...], ...]:
        """The exact law of the real message: a row per input, a column per message that is not blank."""

    def _classes(self, laws: Sequence[tuple[Fraction, Fraction, Fraction]]) -> list[ExactClass]:
        """(first, second, chance of a filled dummy) as classes against dummies that may be blank."""
        hiding = self.filled
        return [(rational(first), rational(second), rational(chance * hiding)) for first, second, chance in laws]
