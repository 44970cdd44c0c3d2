"""What is known of the messages of one collection, or of one encoder's part of it, before they are there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from shuffledp.planner.plan_file import Plan


@dataclass(frozen=True)
class Lot:
    """Whose messages they are, and how many there must be."""

    plan: str
    """The identity of the plan's round."""
    width: int
    users: int
    per_person: int
    """The most rows of one person, each of which counts as a user."""
    messages: int

    @classmethod
    def of(cls, plan: Plan, round_number: int, users: int, per_person: int) -> Self:
        """The messages of so many users of a plan's round."""
        mechanism = plan.mechanism
        messages = users * mechanism.messages_per_user
        return cls(plan.identity(round_number), mechanism.message_bytes, users, per_person, messages)
