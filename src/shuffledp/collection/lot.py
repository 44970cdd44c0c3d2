"""What is known of the messages of one collection, or of one encoder's part of it, before they are there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from shuffledp.mechanisms.mechanism import Mechanism
    from shuffledp.planner.plan_file import Plan

USERS, SHUFFLER = "users", "shuffler"


@dataclass(frozen=True)
class Lot:
    """Whose messages they are, and how many there must be."""

    plan: str
    """The identity of the plan's round."""
    width: int
    users: int
    per_person: int
    """The most rows of one person, each of which counts as a user."""
    sent: int | None
    """How many messages the users send; None where it varies."""
    messages: int | None
    """The same with those that the shuffler adds."""
    noise: str
    """Who draws what hides the messages: ``USERS`` or ``SHUFFLER``."""

    @classmethod
    def of(cls, plan: Plan, round_number: int, users: int, per_person: int) -> Self:
        """The messages of so many users of a plan's round."""
        return cls.for_mechanism(plan.identity(round_number), plan.mechanism, users, per_person)

    @classmethod
    def for_mechanism(cls, identity: str, mechanism: Mechanism, users: int, per_person: int = 1) -> Self:
        """The messages of so many users of a mechanism, under the identity of a plan's round."""
        crowd = mechanism.crowd
        sent, messages = crowd.sent_by(users), crowd.messages_of(users)
        return cls(identity, mechanism.message_bytes, users, per_person, sent, messages, noise_of(mechanism))

    def is_sent(self, messages: int) -> bool:
        """Whether this many can be all messages of the users."""
        return self.sent in (None, messages)

    def is_complete(self, messages: int) -> bool:
        """Whether this many can be all messages, those of the shuffler included."""
        return self.messages in (None, messages)


def noise_of(mechanism: Mechanism) -> str:
    """Who draws what hides the messages of a mechanism."""
    return SHUFFLER if mechanism.crowd.by_shuffler else USERS
