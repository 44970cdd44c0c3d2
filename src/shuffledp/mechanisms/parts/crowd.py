"""How many messages every user sends, and how many messages of all users hide each other."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar


class CrowdRule(ABC):
    """What one message hides among, and how many messages there are.

    Where every user sends the same number, counting messages tells nothing but n. Where it varies, it does so whatever
    the value, and n is what the encoders say.
    """

    keeps_local: ClassVar[bool] = False
    """Whether a report alone keeps a local ε; otherwise it promises nothing without the others."""
    one_each: ClassVar[bool] = False
    """Whether every user sends one message, and all of them hide each other."""

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
    def drawn(self) -> float:
        """Messages that the shuffler draws on average."""
        return 0.0

    @property
    def whoever_comes(self) -> bool:
        """Whether what hides the messages is there however many users take part or collude."""
        return self.by_shuffler

    @property
    def least(self) -> int:
        """The fewest messages that a user sends."""
        return int(self.per_user)

    def premises(self) -> tuple[str, ...]:
        """What must be so, in sentences, for messages to hide each other in this way."""
        return ()

    def sent_by(self, users: int) -> int | None:
        """How many messages so many users send, without the shuffler's; None where it varies."""
        return None if self.varies else users * int(self.per_user)

    def messages_of(self, users: int) -> int | None:
        """How many messages there are of so many users, the shuffler's included; None where it varies."""
        return None if self.varies else self.sent_by(users)

    @abstractmethod
    def hiding(self, users: int) -> int:
        """How many messages of ``users`` honest users hide each other: one that depends on the value among them."""


@dataclass(frozen=True)
class OneEach(CrowdRule):
    """Every user sends one message, and they hide each other."""

    keeps_local = True
    one_each = True

    @property
    def per_user(self) -> int:
        return 1

    def hiding(self, users: int) -> int:
        return users


@dataclass(frozen=True)
class AmongDummies(CrowdRule):
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
class AmongCoins(CrowdRule):
    """For each counter a bit in the clear and ``coins`` coins, which hide it; counters do not hide each other."""

    counters: int
    coins: int

    @property
    def per_user(self) -> int:
        return self.counters * (1 + self.coins)

    def hiding(self, users: int) -> int:
        return users * self.coins + 1


@dataclass(frozen=True)
class SharedNoise(CrowdRule):
    """``own`` messages that depend on the value, and noise that ``honest`` users, or the shuffler, make together.

    ``noise``: messages of it that a user adds on average; where ``honest`` is 0 the shuffler draws so many, and users
    add none. ``places``: where above 0, every user sends so many messages, blanks included. ``exactly``: whether every
    user has ``own`` messages, or at most so many.
    """

    own: int
    noise: float
    honest: int
    places: int = 0
    exactly: bool = True

    @property
    def per_user(self) -> float:
        return float(self.places or self.own + (0.0 if self.by_shuffler else self.noise))

    @property
    def varies(self) -> bool:
        """The shuffler's noise varies, too."""
        return not self.places

    @property
    def by_shuffler(self) -> bool:
        return self.honest == 0

    def premises(self) -> tuple[str, ...]:
        if self.by_shuffler:
            return ("The shuffler draws the noise as planned, and tells nobody what it drew.",)
        return () if self.places else ("Nobody learns how many messages a user sent.",)

    @property
    def drawn(self) -> float:
        return self.noise if self.by_shuffler else 0.0

    @property
    def most(self) -> float:
        return float(self.own) if self.by_shuffler else super().most

    @property
    def least(self) -> int:
        return self.places or (self.own if self.exactly else 0)

    def sent_by(self, users: int) -> int | None:
        return users * self.own if self.by_shuffler and self.exactly else super().sent_by(users)

    def hiding(self, users: int) -> int:
        return users
