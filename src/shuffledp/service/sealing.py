"""Messages sealed to a campaign's analyst, one envelope each: the shuffler mixes them and reads nothing."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from shuffledp.array import Bytes
from shuffledp.planner.cost import SEAL_BYTES
from shuffledp.planner.plan_file import Plan
from shuffledp.service.campaign import Campaign
from shuffledp.service.envelope import MESSAGE, context

IDENTITY = b"shuffledp v1 sealed messages\0"


@dataclass(frozen=True)
class Sealing:
    """The ``Wrapper`` of one round of a campaign, for the roles that work on files."""

    campaign: Campaign
    round_number: int = 1

    @classmethod
    def of_messages(cls, campaign: Campaign, identity: str) -> Self | None:
        """How messages of this ``identity`` were sealed, which tells their round; None if not for this campaign."""
        plan = campaign.plan
        made = (cls(campaign, number) for number in plan.round_numbers)
        return next((one for one in made if one.identity(plan, one.round_number) == identity), None)

    @cached_property
    def info(self) -> bytes:
        """What the envelopes are bound to."""
        self.campaign.demand_round(self.round_number)
        return context(MESSAGE, self.campaign.id, self.round_number)

    def identity(self, plan: Plan, round_number: int) -> str:
        """What the sealed messages belong to: this campaign's round and no other."""
        if plan != self.campaign.plan or round_number != self.round_number:
            raise ValueError(
                "seal: the campaign is not about this plan and round; take the plan that it was made from."
            )
        return hashlib.sha256(IDENTITY + self.info + bytes.fromhex(plan.identity(round_number))).hexdigest()

    def width(self, plain: int) -> int:
        """Of a sealed message."""
        return plain + SEAL_BYTES

    def close(self, wire: Bytes) -> Bytes:
        """Each row in an envelope to the analyst."""
        return self.campaign.analyst.seal_rows(self.info, wire)
