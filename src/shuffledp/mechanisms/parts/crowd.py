"""How many messages every user sends, and how many messages of all users hide each other."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar


class Crowd(ABC):
    """What one message hides among, and how many messages there are.

    Where every user sends the same number, counting messages tells nothing but n. Where it varies, it does so whatever
    the value, and n is what the encoders say.
    """

    keeps_local: ClassVar[bool] = False
    """Whether a report alone keeps a local ε; otherwise it promises nothing without the others."""

    @property
    @abstractmethod
    def per_user(self) -> float:
        """Messages of each user, on average where their number varies."""

    @property
    def most(self) -> float:
        """The most messages that one user can have taken for hers; infinity where nothing limits them."""
        return math.inf if self.varies else self.per_user

    @property
    def varies(self) -> bool:
        """Whether users send different numbers of messages."""
        return False

    @property
    def by_shuffler(self) -> bool:
        """Whether the shuffler draws what hides the messages, and not the users."""
        return False

    @property
    def added(self) -> int:
        """Messages that the shuffler adds to those of the users, where their number is fixed."""
        return 0

    def sent_by(self, users: int) -> int | None:
        """How many messages so many users send, without the shuffler's; None where it varies."""
        return None if self.varies else users * int(self.per_user)

    def messages_of(self, users: int) -> int | None:
        """How many messages there are of so many users; None where it varies."""
        sent = self.sent_by(users)
        return None if sent is None or self.varies else sent + self.added

    @abstractmethod
    def hiding(self, users: int) -> int:
        """How many messages of ``users`` honest users hide each other: one that depends on the value among them."""


@dataclass(frozen=True)
class OneEach(Crowd):
    """Every user sends one message, and they hide each other."""

    keeps_local = True

    @property
    def per_user(self) -> int:
        return 1

    def hiding(self, users: int) -> int:
        return users


@dataclass(frozen=True)
class AmongDummies(Crowd):
    """One message that depends on the value and ``dummies`` that do not, all dummies of all users with one law.

    Theorem: identity (★) with w = the law of a dummy and M − 1 = all dummies of all honest users, the victim's own
    among them. Others' real messages are revealed: known, or independent of the victim's value, they take nothing away.
    Returns: exact where others' real messages are a function of their values; else an upper bound.
    """

    dummies: int

    @property
    def per_user(self) -> int:
        return 1 + self.dummies

    def hiding(self, users: int) -> int:
        return users * self.dummies + 1

    def others(self, messages: int) -> int:
        """How many users besides the victim there are where this many messages hide each other."""
        return (messages - 1) // self.dummies - 1


@dataclass(frozen=True)
class AmongCoins(Crowd):
    """For each counter a bit in the clear and ``coins`` coins, which hide it; counters do not hide each other."""

    counters: int
    coins: int

    @property
    def per_user(self) -> int:
        return self.counters * (1 + self.coins)

    def hiding(self, users: int) -> int:
        return users * self.coins + 1
