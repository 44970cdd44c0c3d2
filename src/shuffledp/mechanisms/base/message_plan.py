"""Message plans: how many messages each user sends, and how many messages of all users hide each other."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar


class MessagePlan(ABC):
    """Number of messages of each user, and the messages among which one hides.

    If every user sends the same number, the count of messages reveals only n. If it varies, it does so independently of
    the value, and the encoders report n.
    """

    has_local_guarantee: ClassVar[bool] = False
    """True if a report alone has a local ε; otherwise it has no guarantee without the others."""
    is_single_message: ClassVar[bool] = False
    """True if every user sends one message and all of them hide each other."""

    @property
    @abstractmethod
    def messages_per_user(self) -> float:
        """The number of messages of each user, on average if it varies."""

    @property
    def max_messages(self) -> float:
        """The largest number of messages accepted from one user; infinity if nothing limits it."""
        return math.inf if self.is_variable else self.messages_per_user

    @property
    def is_variable(self) -> bool:
        """True if users send different numbers of messages."""
        return False

    @property
    def has_shuffler_noise(self) -> bool:
        """True if the shuffler, not the users, draws the hiding messages."""
        return False

    @property
    def shuffler_messages(self) -> float:
        """The mean number of messages that the shuffler draws."""
        return 0.0

    @property
    def is_participation_independent(self) -> bool:
        """True if the hiding messages are present however many users take part or collude."""
        return self.has_shuffler_noise

    @property
    def min_messages(self) -> int:
        """The smallest number of messages of a user."""
        return int(self.messages_per_user)

    def premises(self) -> tuple[str, ...]:
        """Returns the assumptions, as sentences, under which messages hide each other in this way."""
        return ()

    def user_messages(self, users: int) -> int | None:
        """Returns how many messages users send, without the shuffler's.

        Args:
            users: Number of users.

        Returns:
            The number of messages, or None if it varies.
        """
        return None if self.is_variable else users * int(self.messages_per_user)

    def total_messages(self, users: int) -> int | None:
        """Returns how many messages there are, the shuffler's included.

        Args:
            users: Number of users.

        Returns:
            The number of messages, or None if it varies.
        """
        return None if self.is_variable else self.user_messages(users)

    @abstractmethod
    def hiding_messages(self, users: int) -> int:
        """Returns how many messages hide each other, the one that depends on the value included.

        Args:
            users: Number of honest users.

        Returns:
            The number of messages.
        """


@dataclass(frozen=True)
class SingleMessage(MessagePlan):
    """Every user sends one message, and all of them hide each other."""

    has_local_guarantee = True
    is_single_message = True

    @property
    def messages_per_user(self) -> int:
        return 1

    def hiding_messages(self, users: int) -> int:
        return users


@dataclass(frozen=True)
class WithDummies(MessagePlan):
    """One message that depends on the value and `dummies` that do not; all dummies of all users have one law.

    Theorem: identity (★) with w = the law of a dummy and M − 1 = all dummies of all honest users, the target user's own
    among them. Others' real messages are revealed: known, or independent of the target user's value, they take nothing
    away.
    Returns: exact if others' real messages are a function of their values; else an upper bound.

    Args:
        dummies: Dummies of each user.
    """

    dummies: int

    @property
    def messages_per_user(self) -> int:
        return 1 + self.dummies

    def hiding_messages(self, users: int) -> int:
        return users * self.dummies + 1

    def other_user_count(self, messages: int) -> int:
        """Returns how many users besides the target user there are if this many messages hide each other.

        Args:
            messages: Number of messages that hide each other.

        Returns:
            The number of other users.
        """
        return (messages - 1) // self.dummies - 1


@dataclass(frozen=True)
class WithRandomBits(MessagePlan):
    """For each counter a bit in the clear and `random_bits` random bits that hide it; counters do not hide each other.

    Args:
        counters: Number of counters.
        random_bits: Random bits of each user for each counter.
    """

    counters: int
    random_bits: int

    @property
    def messages_per_user(self) -> int:
        return self.counters * (1 + self.random_bits)

    def hiding_messages(self, users: int) -> int:
        return users * self.random_bits + 1


@dataclass(frozen=True)
class SharedNoise(MessagePlan):
    """Messages that depend on the value, and noise messages of honest users together or of the shuffler.

    Args:
        value_messages: Messages of a user that depend on the value.
        noise_messages: Mean number of noise messages that a user adds or, if `honest_users` is 0, that the shuffler
            draws.
        honest_users: Number of honest users whose noise hides a value; 0 if the shuffler draws the noise and users add
            none.
        padded_messages: If above 0, the number of messages that every user sends, blanks included.
        is_exact: True if every user has exactly `value_messages` messages, False if at most so many.
    """

    value_messages: int
    noise_messages: float
    honest_users: int
    padded_messages: int = 0
    is_exact: bool = True

    @property
    def messages_per_user(self) -> float:
        users_noise = 0.0 if self.has_shuffler_noise else self.noise_messages
        return float(self.padded_messages or self.value_messages + users_noise)

    @property
    def is_variable(self) -> bool:
        """True unless every user sends `padded_messages` messages; the shuffler's noise varies, too."""
        return not self.padded_messages

    @property
    def has_shuffler_noise(self) -> bool:
        return self.honest_users == 0

    def premises(self) -> tuple[str, ...]:
        if self.has_shuffler_noise:
            return ("The shuffler draws the noise as planned, and keeps it secret.",)
        return () if self.padded_messages else ("Nobody learns how many messages a user sent.",)

    @property
    def shuffler_messages(self) -> float:
        return self.noise_messages if self.has_shuffler_noise else 0.0

    @property
    def max_messages(self) -> float:
        return float(self.value_messages) if self.has_shuffler_noise else super().max_messages

    @property
    def min_messages(self) -> int:
        return self.padded_messages or (self.value_messages if self.is_exact else 0)

    def user_messages(self, users: int) -> int | None:
        if self.has_shuffler_noise and self.is_exact:
            return users * self.value_messages
        return super().user_messages(users)

    def hiding_messages(self, users: int) -> int:
        return users
