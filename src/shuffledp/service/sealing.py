"""Sealing of messages for a campaign: to the analyst, and all of a client's messages to the round's key."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np

from shuffledp._core.validation import Bytes
from shuffledp.service.crypto import (
    ENVELOPE_OVERHEAD_BYTES,
    MESSAGE_LABEL,
    REPORT_LABEL,
    build_context,
)
from shuffledp.storage import sorting

if TYPE_CHECKING:
    from shuffledp.planning.plan import Plan
    from shuffledp.service.notices_and_statements import RoundNotice
from shuffledp.service.campaign import Campaign

IDENTITY_LABEL = b"shuffledp v1 sealed messages\0"


@dataclass(frozen=True)
class CampaignSealer:
    """The ``MessageSealer`` of one round of a campaign; it seals each message to the analyst."""

    campaign: Campaign
    round_number: int = 1

    @classmethod
    def from_identity(cls, campaign: Campaign, identity: str) -> Self | None:
        """Returns the sealer, and thereby the round, of messages with this identity; None if of another campaign."""
        plan = campaign.plan
        sealers = (cls(campaign, number) for number in plan.round_numbers)
        return next((each for each in sealers if each.identity(plan, each.round_number) == identity), None)

    @cached_property
    def info(self) -> bytes:
        """The context that the envelopes are bound to."""
        self.campaign.check_round(self.round_number)
        return build_context(MESSAGE_LABEL, self.campaign.id, self.round_number)

    def identity(self, plan: Plan, round_number: int) -> str:
        """Returns the identity of the sealed messages, unique to this round of this campaign."""
        if plan != self.campaign.plan or round_number != self.round_number:
            raise ValueError(
                "seal: the campaign is not about this plan and round; use the plan that it was created from."
            )
        return hashlib.sha256(IDENTITY_LABEL + self.info + bytes.fromhex(plan.identity(round_number))).hexdigest()

    def sealed_width(self, plain: int) -> int:
        """Returns the size of a sealed message."""
        return plain + ENVELOPE_OVERHEAD_BYTES

    def seal(self, wire: Bytes) -> Bytes:
        """Seals each row to the analyst."""
        return self.campaign.analyst_key.seal_rows(self.info, wire)


def seal_reports(campaign: Campaign, notice: RoundNotice, wire: Bytes, tokens: Bytes | None = None) -> Bytes:
    """Returns the reports of clients, one row each: messages sealed to the analyst, and together to the round's key.

    Args:
        campaign: The campaign.
        notice: Notice of the open round.
        wire: Encoded messages, those of each client in consecutive rows.
        tokens: The clients' tokens, if the campaign restricts who may take part.

    Raises:
        ValueError: If the tokens do not fit the campaign.
    """
    if (0 if tokens is None else tokens.shape[1]) != campaign.token_bytes:
        raise ValueError(
            f"client: the campaign requires a token of {campaign.token_bytes} bytes from each person; pass theirs."
            if campaign.token_bytes
            else "client: the campaign admits everybody; pass no token."
        )
    number = notice.number
    closed = CampaignSealer(campaign, number).seal(wire).reshape(-1, campaign.messages_per_user, campaign.message_bytes)
    # Sorted by their ciphertexts, which are random, so that the position does not tell a real message from a dummy.
    inside = np.array([sorting.sort_in_memory(messages).reshape(-1) for messages in closed], dtype=np.uint8)
    inside = inside.reshape(len(closed), campaign.messages_per_user * campaign.message_bytes)
    if tokens is not None:
        inside = np.concatenate([inside, tokens], axis=1)
    return notice.key.seal_rows(build_context(REPORT_LABEL, campaign.id, number), inside)
