"""The hash chain of a ledger: the hash of each event covers all events before it, so that a change is noticed."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from shuffledp._core.errors import ShuffledpError

EVENT_HASH_PREFIX = b"shuffledp ledger event\0"
GENESIS_HASH = "0" * 64
"""The hash before the first event."""
HEX_DIGITS = frozenset("0123456789abcdef")


class LedgerError(ShuffledpError, ValueError):
    """The ledger cannot be used in its present state; nothing was written to it."""


@dataclass(frozen=True)
class Head:
    """A position of a ledger: its id, the number of its events, and the hash that covers all of them."""

    ledger: str
    entries: int
    hash: str

    def to_document(self) -> dict[str, Any]:
        """Returns the JSON document."""
        return {"id": self.ledger, "entry": self.entries, "head": self.hash}

    @classmethod
    def from_document(cls, who: str, document: Any) -> Self:
        """Inverts ``to_document``; raises ValueError for anything else."""
        if isinstance(document, Mapping) and document.keys() == {"id", "entry", "head"}:
            ledger, entries, head = document["id"], document["entry"], document["head"]
            whole = isinstance(entries, int) and not isinstance(entries, bool) and entries > 0
            if whole and _is_hex(ledger, 32) and _is_hex(head, 64):
                return cls(ledger, entries, head)
        raise ValueError(f'{who}: expected a ledger\'s "id", "entry" and "head", got something else.')


@dataclass(frozen=True)
class Event:
    """One event of a ledger."""

    number: int
    kind: str
    time: str
    payload: Mapping[str, Any]
    hash: str


def format_canonical_json(document: Mapping[str, Any]) -> str:
    """Serialises a JSON object to its canonical text."""
    return json.dumps(document, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))


def compute_event_hash(previous: str, number: int, payload: str) -> str:
    """Returns the hash of an event, from the hash of the event before it."""
    parts = (EVENT_HASH_PREFIX, bytes.fromhex(previous), number.to_bytes(8, "big"), payload.encode())
    return hashlib.sha256(b"".join(parts)).hexdigest()


def chain_payloads(previous: str, number: int, payloads: Iterable[Mapping[str, Any]]) -> Iterator[tuple[int, str, str]]:
    """Yields number, text and hash of events that follow the one with this number and hash."""
    for payload in payloads:
        number += 1
        text = format_canonical_json(payload)
        previous = compute_event_hash(previous, number, text)
        yield number, text, previous


def verify_events(place: object, rows: Iterable[tuple[Any, Any, Any]]) -> Iterator[Event]:
    """Yields the events of a file's rows, in order; raises LedgerError at the first that was changed."""
    previous = GENESIS_HASH
    for expected, (number, text, found) in enumerate(rows, 1):
        if type(number) is not int or number != expected or type(text) is not str or type(found) is not str:
            raise build_tampering_error(place, expected)
        try:
            right = compute_event_hash(previous, number, text)
        except UnicodeEncodeError:
            raise build_tampering_error(place, expected) from None
        if found != right:
            raise build_tampering_error(place, expected)
        yield _parse_event(place, number, text, found)
        previous = found


def build_tampering_error(place: object, number: int) -> LedgerError:
    """Returns the error for a ledger whose entries were changed."""
    return LedgerError(
        f"ledger: entry {number} of {place} is not what was written, so nothing in this file can be trusted; "
        f"restore a copy."
    )


def _parse_event(place: object, number: int, text: str, found: str) -> Event:
    try:
        payload = json.loads(text)
        return Event(number, payload["kind"], payload["time"], payload, found)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise build_tampering_error(place, number) from None


def to_json_number(number: float) -> float | str:
    """Converts a number for JSON, which has no infinity."""
    return "inf" if math.isinf(number) else number


def _is_hex(text: Any, digits: int) -> bool:
    return isinstance(text, str) and len(text) == digits and set(text) <= HEX_DIGITS
