"""The bundles that this user has shuffled, by the round of a plan that they belong to.

Whoever sees what was shuffled from some files, and from the same ones together with a late one, takes the difference
and has the late one's messages without anybody who hides them. A ledger refuses the second release of a round. Where
none is kept, this user's machine still remembers which files were handed on together, beside the heads of ledgers.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from shuffledp.collection import bundle, durable
from shuffledp.collection.witness import state_directory

FOLDER = "shuffled"
"""One file for each round of a plan, with a line for each set of bundles that was handed on."""
ID_DIGITS = 32


class ShuffledBefore(ValueError):
    """Some of the bundles were handed on before, together with others; nothing was released."""


def remember(who: str, plan: str, ids: Collection[str], digest: str, *, drawn: bool) -> None:
    """Write down that these bundles of a plan's round are handed on together, before anybody sees what came of them.

    The same set again is accepted, but not where noise was ``drawn`` for it and what came of it, by its ``digest``, is
    other than before: noise that is drawn twice averages out. Where nothing can be written nothing is remembered.

    Raises:
        ShuffledBefore: If some of them were handed on before, and not exactly these.
    """
    own = {_digest_of(id_) for id_ in ids}
    try:
        with _opened(plan) as file:
            content = file.read()
            if any(_is_same(who, line, own, digest, drawn) for line in content.splitlines()):
                return
            # A line that a power loss cut off was written before anything of it was seen.
            file.seek(content.rfind(b"\n") + 1)
            file.truncate()
            file.write(json.dumps({"ids": sorted(own), "digest": digest}).encode() + b"\n")
            file.flush()
            durable.sync(file.fileno())
            durable.sync_path(record_path(plan).parent)
    except OSError:
        return


def _is_same(who: str, line: bytes, own: set[str], digest: str, drawn: bool) -> bool:
    """Whether a line is of this very set; a sentence where it is of some of it."""
    try:
        told = json.loads(line)
        before, released = set(told["ids"]), told["digest"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return False
    if before.isdisjoint(own):
        return False
    if before != own:
        raise ShuffledBefore(
            f"{who}: {len(before & own)} of the {len(own)} files were shuffled before, together with others or without "
            f"the rest: the difference would show what a few sent; give all files of a round at once, and encode late "
            f"ones for the next round."
        )
    if drawn and released != digest:
        raise ShuffledBefore(f"{who}: these files were shuffled before, with other noise; use what came out then.")
    return True


def _digest_of(id_: str) -> str:
    return hashlib.sha256(id_.encode("utf-8", "surrogatepass")).hexdigest()[:ID_DIGITS]


def record_path(plan: str) -> Path:
    """Where it is remembered what was shuffled for a plan's round."""
    # Whoever wrote the file of messages chose that text.
    return state_directory() / FOLDER / f"{bundle.hash_of([plan])[:ID_DIGITS]}.jsonl"


@contextmanager
def _opened(plan: str) -> Iterator[BinaryIO]:
    """The record of a plan's round, while no other process has it."""
    path = record_path(plan)
    durable.make_directory(path.parent, 0o700)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    with open(os.open(path, flags, durable.OWNER_ONLY), "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file
