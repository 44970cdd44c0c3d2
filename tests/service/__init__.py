"""Tests of the service: one campaign of few users, its keys, and how its envelopes are made."""

from __future__ import annotations

from shuffledp import KRR, Plan, tasks
from shuffledp.service.campaign import Campaign
from shuffledp.service.crypto import AnalystKey, ShufflerKey

COLOURS = ["red", "green", "blue"]
ANALYST, SHUFFLER = AnalystKey.new(), ShufflerKey.new()


def plan_for(users: int = 40, minimum: int | None = None, rounds: int = 1, colluding: int = 0) -> Plan:
    """A cheap plan for few users."""
    return Plan(
        tasks.Frequency(COLOURS), KRR(0.5, 3), users=users, epsilon=1.0 * rounds, delta=1e-6, minimum=minimum,
        rounds=rounds, bound="stronger-clone", colluding=colluding,
    )  # fmt: skip


def create_campaign(
    plan: Plan | None = None,
    *,
    window: int = 3600,
    extensions: int = 0,
    retention: int = 7200,
    capacity: int | None = None,
    url: str = "http://127.0.0.1",
) -> Campaign:
    """A campaign of the keys above."""
    return Campaign.create(
        plan_for() if plan is None else plan, ANALYST, SHUFFLER.identity, url=url,
        operators=("Example Institute", "Other House"), window=window, extensions=extensions, retention=retention,
        capacity=capacity,
    )  # fmt: skip


def contains_outside_campaign(content: bytes, telltale: bytes, campaign: Campaign, piece: int = 24) -> bool:
    """Whether a file has these bytes elsewhere than in the campaign's document, which stores keep in pieces."""
    if telltale not in content:
        return False
    left = bytearray(content)
    for start in range(len(campaign.content) - piece + 1):
        part, place = campaign.content[start : start + piece], -1
        while (place := content.find(part, place + 1)) >= 0:
            left[place : place + piece] = bytes(piece)
    return telltale in left
