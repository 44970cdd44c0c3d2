"""What messages may travel in: so closed that the shuffler mixes them and cannot read them."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from shuffledp.array import Bytes
from shuffledp.collection.lot import Lot
from shuffledp.planner.plan_file import Plan


class Wrapper(Protocol):
    """Closes each message for whoever estimates; whoever mixes sees rows of one width and nothing else."""

    @property
    def round_number(self) -> int:
        """The round that it is for."""

    def identity(self, plan: Plan, round_number: int) -> str:
        """What the closed messages of a plan's round belong to; a sentence if this is not for that plan."""

    def width(self, plain: int) -> int:
        """Of a closed message."""

    def close(self, wire: Bytes) -> Bytes:
        """Each row closed on its own, in the same order."""


def closed(lot: Lot, wrapper: Wrapper | None, plan: Plan, round_number: int) -> Lot:
    """The same messages, closed."""
    if wrapper is None:
        return lot
    return replace(lot, plan=wrapper.identity(plan, round_number), width=wrapper.width(lot.width))
