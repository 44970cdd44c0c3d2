"""What a shuffler keeps: campaigns, the state of their rounds, and the reports of those that are not mixed yet.

A store is a contract, so that several servers may share one. **That a round is open, and that reports are stored, is
one transaction**: a report is either acknowledged and in the round, or refused. Reports are kept in segments, as many
as came between two commits, without an index, an id or a time.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from shuffledp.errors import ShuffledpError
from shuffledp.service.campaign import Campaign

SEGMENT_BYTES = 1 << 20
"""A segment is ended when it has so many: a round is read with little memory."""


def utc(seconds: int) -> str:
    """A time for people, from seconds since 1970."""
    return f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime(seconds))} UTC"


class Unavailable(ShuffledpError):
    """The store cannot be used now; nothing was acknowledged, and the same may be asked again."""


class State(StrEnum):
    """Where a round stands; ``round.py`` says what each step does."""

    OPEN = "open"
    CLOSING = "closing"
    MIXED = "mixed"
    FORGOTTEN = "forgotten"
    HANDED_OVER = "handed over"
    ERASED = "erased"
    EXPIRED = "expired"


@dataclass(frozen=True)
class Round:
    """One round of a campaign, as it is stored."""

    campaign: str
    number: int
    state: State
    closes: int
    """Seconds since 1970."""
    extended: int
    notice: bytes
    """What the shuffler signed about it, for clients."""
    statement: bytes | None = None
    """What the shuffler signed about its batch, once it is mixed."""

    @property
    def name(self) -> str:
        """For files and for the ledger."""
        return f"{self.campaign}-{self.number}"


@dataclass(frozen=True)
class Accepted:
    """A campaign that this shuffler mixes, and the ledger that it keeps for it; None where it keeps none."""

    campaign: Campaign
    ledger: str | None


class Piece(NamedTuple):
    """Reports of one request, one after the other."""

    campaign: str
    number: int
    content: bytes


def segments_of(pieces: Sequence[Piece]) -> Iterator[tuple[str, int, bytes]]:
    """What to store of pieces that came together: for each round, whole requests one after another."""
    together: dict[tuple[str, int], list[bytes]] = {}
    for piece in pieces:
        together.setdefault((piece.campaign, piece.number), []).append(piece.content)
    for (campaign, number), contents in together.items():
        first, held = 0, 0
        for place, content in enumerate(contents, 1):
            held += len(content)
            if held >= SEGMENT_BYTES or place == len(contents):
                yield campaign, number, b"".join(contents[first:place])
                first, held = place, 0


def fitting(pieces: Sequence[Piece], room: Mapping[tuple[str, int], float]) -> list[bool]:
    """Whether each of several requests is stored, in order, where the rounds have so many bytes left."""
    left, taken = dict(room), []
    for piece in pieces:
        key = piece.campaign, piece.number
        taken.append(len(piece.content) <= left[key])
        left[key] -= len(piece.content) if taken[-1] else 0
    return taken


def stored_campaign(id_: str, content: bytes) -> Campaign:
    """A campaign as it was accepted: it was looked at then, and its id tells that these are the same bytes."""
    campaign = Campaign(bytes(content))
    if campaign.id != id_:
        raise Unavailable(f"shuffler: what is stored of campaign {id_[:12]} is damaged.")
    return campaign


class Store(ABC):
    """One connection to the store; each thread has its own.

    Everything is durable when a method returns. ``Unavailable`` where the store does not answer, or refuses: then
    nothing changed, and the same connection may be used again.
    """

    def __init__(self) -> None:
        self._capacities: dict[str, int] = {}

    @abstractmethod
    def accept(self, accepted: Accepted) -> None:
        """Keep a campaign; one that is there stays as it is."""

    @abstractmethod
    def accepted(self) -> list[Accepted]:
        """All campaigns, in the order in which they were accepted."""

    @abstractmethod
    def campaign(self, id_: str) -> Campaign | None:
        """One of them."""

    def report_bytes(self, id_: str) -> int | None:
        """Of each report of a campaign, as it was when it was accepted; None where there is no such campaign.

        The plan would tell, but whoever takes reports need not load what plans need.
        """
        found = self._stored_bytes(id_)
        if found is not None:
            return found
        # Accepted by a version that did not store it.
        campaign = self.campaign(id_)
        return None if campaign is None else campaign.report_bytes

    @abstractmethod
    def _stored_bytes(self, id_: str) -> int | None:
        """The same, where it is stored."""

    @abstractmethod
    def open_round(self, opened: Round) -> bool:
        """A new round; False, and nothing changes, if it is there already."""

    @abstractmethod
    def rounds(self, campaign: str) -> list[Round]:
        """All rounds of a campaign in order."""

    def round(self, campaign: str, number: int) -> Round | None:
        """One of them."""
        return next((each for each in self.rounds(campaign) if each.number == number), None)

    @abstractmethod
    def move(self, before: Round, after: Round) -> bool:
        """Replace what is stored of a round, if its state and deadline are still those of ``before``."""

    @abstractmethod
    def append(self, pieces: Sequence[Piece], now: float) -> list[bool]:
        """Store reports in one transaction: True for those whose round is open, not past its deadline, and not full.

        The others are not stored. A round is full when it has as many bytes as its campaign's ``capacity`` of reports;
        where several servers share a store, each may add what it commits at that moment.
        """

    def _most_bytes(self, campaign: str) -> float:
        """Bytes that a round of a campaign takes; one whose campaign is not stored has no limit."""
        if campaign not in self._capacities:
            found, size = self.campaign(campaign), self.report_bytes(campaign)
            if found is None or size is None:
                return math.inf
            self._capacities[campaign] = found.capacity * size
        return self._capacities[campaign]

    def demand_room(self) -> None:
        """``Unavailable`` where the disk has no room for more reports; that of a database is watched over there."""
        return

    @abstractmethod
    def size(self, campaign: str, number: int) -> int:
        """Bytes of all reports of a round."""

    @abstractmethod
    def reports(self, campaign: str, number: int) -> Iterator[bytes]:
        """All segments of a round."""

    @abstractmethod
    def forget_reports(self, campaign: str, number: int) -> None:
        """Delete all segments of a round."""

    def alone(self) -> AbstractContextManager[None]:
        """Keep others who share the store from changing rounds; ``BlockingIOError`` where one is at it.

        Nothing here, where only processes of one machine share it: ``Place.alone`` keeps those away.
        """
        return nullcontext()

    @abstractmethod
    def close(self) -> None:
        """End the connection."""
