"""What a client sends: its messages, each sealed to the analyst, and all of them together to the shuffler's round."""

from __future__ import annotations

import numpy as np

from shuffledp.array import Bytes
from shuffledp.collection import external_sort
from shuffledp.service.campaign import Campaign
from shuffledp.service.envelope import REPORT, context
from shuffledp.service.notice import Notice
from shuffledp.service.sealing import Sealing


def sealed_reports(campaign: Campaign, notice: Notice, wire: Bytes, tokens: Bytes | None = None) -> Bytes:
    """Reports of clients, a row each; ``wire`` has the messages of each client next to each other.

    ``tokens``: what each shows to be admitted, where the campaign asks for that.
    """
    if (0 if tokens is None else tokens.shape[1]) != campaign.token_bytes:
        raise ValueError(
            f"client: the campaign admits people by tokens of {campaign.token_bytes} bytes; give each person's own."
            if campaign.token_bytes
            else "client: the campaign admits everybody; give no token."
        )
    number = notice.number
    closed = Sealing(campaign, number).close(wire).reshape(-1, campaign.messages, campaign.message_bytes)
    # In order of their bytes, which are random: a client's real message is not told from dummies by its place.
    inside = np.array([external_sort.in_order(messages).reshape(-1) for messages in closed], dtype=np.uint8)
    inside = inside.reshape(len(closed), campaign.messages * campaign.message_bytes)
    if tokens is not None:
        inside = np.concatenate([inside, tokens], axis=1)
    return notice.key.seal_rows(context(REPORT, campaign.id, number), inside)
