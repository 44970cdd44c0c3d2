"""How many messages every user sends, and how many messages of all users hide each other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar


class Crowd(ABC):
    """What one message hides among. Every user sends the same number, so that counting messages tells nothing but n."""

    keeps_local: ClassVar[bool] = False
    """Whether a report alone keeps a local ε; otherwise it promises nothing without the others."""

    @property
    @abstractmethod
    def per_user(self) -> int:
        """Messages of each user."""

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
