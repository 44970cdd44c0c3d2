"""A chain of events: each is bound by its hash to all before it, so that none can be changed or left out unnoticed."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from shuffledp.errors import ShuffledpError

LABEL = b"shuffledp ledger event\0"
BEGINNING = "0" * 64
"""What stands for the hash before the first event."""
HEX = frozenset("0123456789abcdef")


class LedgerFailed(ShuffledpError, ValueError):
    """The ledger cannot be used as it is, or not now; nothing was written to it."""


@dataclass(frozen=True)
class Head:
    """Where a ledger stood: which one it is, how many events it had, and the hash that binds all of them."""

    ledger: str
    entries: int
    hash: str

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {"id": self.ledger, "entry": self.entries, "head": self.hash}

    @classmethod
    def read(cls, who: str, document: Any) -> Self:
        """The inverse of ``document``; a sentence for anything else."""
        if isinstance(document, Mapping) and document.keys() == {"id", "entry", "head"}:
            ledger, entries, head = document["id"], document["entry"], document["head"]
            whole = isinstance(entries, int) and not isinstance(entries, bool) and entries > 0
            if whole and _is_hex(ledger, 32) and _is_hex(head, 64):
                return cls(ledger, entries, head)
        raise ValueError(f'{who}: expected a ledger\'s "id", "entry" and "head", got something else.')


@dataclass(frozen=True)
class Event:
    """One thing that happened to the ledger."""

    number: int
    kind: str
    time: str
    payload: Mapping[str, Any]
    hash: str


def canonical(document: Mapping[str, Any]) -> str:
    """The one text of a JSON object."""
    return json.dumps(document, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))


def link(previous: str, number: int, payload: str) -> str:
    """The hash of an event, from the hash of the one before it."""
    parts = (LABEL, bytes.fromhex(previous), number.to_bytes(8, "big"), payload.encode())
    return hashlib.sha256(b"".join(parts)).hexdigest()


def extended(previous: str, number: int, payloads: Iterable[Mapping[str, Any]]) -> Iterator[tuple[int, str, str]]:
    """Number, text and hash of events that come after the one with this number and hash."""
    for payload in payloads:
        number += 1
        text = canonical(payload)
        previous = link(previous, number, text)
        yield number, text, previous


def verified(place: object, rows: Iterable[tuple[Any, Any, Any]]) -> Iterator[Event]:
    """The events of a file's rows, in order; a sentence at the first that is not what was written."""
    previous = BEGINNING
    for expected, (number, text, found) in enumerate(rows, 1):
        if type(number) is not int or number != expected or type(text) is not str or type(found) is not str:
            raise changed(place, expected)
        try:
            right = link(previous, number, text)
        except UnicodeEncodeError:
            raise changed(place, expected) from None
        if found != right:
            raise changed(place, expected)
        yield _event(place, number, text, found)
        previous = found


def changed(place: object, number: int) -> LedgerFailed:
    """What to say of a file whose entries are not those that were written."""
    return LedgerFailed(
        f"ledger: entry {number} of {place} is not what was written, so that nothing in this file can be believed; "
        f"restore a copy."
    )


def _event(place: object, number: int, text: str, found: str) -> Event:
    try:
        payload = json.loads(text)
        return Event(number, payload["kind"], payload["time"], payload, found)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise changed(place, number) from None


def told(number: float) -> float | str:
    """A number for JSON, which has no infinity."""
    return "inf" if math.isinf(number) else number


def _is_hex(text: Any, digits: int) -> bool:
    return isinstance(text, str) and len(text) == digits and set(text) <= HEX
