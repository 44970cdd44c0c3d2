"""A record of the message files that this user has shuffled, per round of a plan.

An observer of two releases, one shuffled from some files and one from the same files and a late one, could subtract
them and obtain the late file's messages with nobody to hide them. A ledger refuses the second release of a round.
Without a ledger, this record on the user's machine, beside the heads of ledgers, lists the files released together.
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

from shuffledp.collection import message_files
from shuffledp.ledger.storage import state_directory
from shuffledp.storage import durable_files

RECORDS_FOLDER = "shuffled"
"""Holds one file per round of a plan, with one line per set of message files released together."""
ID_DIGITS = 32


class AlreadyShuffled(ValueError):
    """Some of the message files were released before, together with others; nothing was released now."""


def record_shuffle(who: str, plan: str, ids: Collection[str], digest: str, *, drawn: bool) -> None:
    """Records that these message files of a plan's round are released together, before anybody sees the result.

    The same set may be released again, unless noise was ``drawn`` for it and the result, identified by its ``digest``,
    differs from the earlier one: noise that is drawn twice averages out. If the record cannot be written, nothing is
    recorded.

    Raises:
        AlreadyShuffled: If some of them were released before in another set, or the same set with other noise.
    """
    own = {_hash_id(id_) for id_ in ids}
    try:
        with _open_record(plan) as file:
            content = file.read()
            if any(_matches_record(who, line, own, digest, drawn) for line in content.splitlines()):
                return
            # A line that a power loss cut off was written before anybody saw its release.
            file.seek(content.rfind(b"\n") + 1)
            file.truncate()
            file.write(json.dumps({"ids": sorted(own), "digest": digest}).encode() + b"\n")
            file.flush()
            durable_files.sync(file.fileno())
            durable_files.sync_path(record_path(plan).parent)
    except OSError:
        return


def _matches_record(who: str, line: bytes, own: set[str], digest: str, drawn: bool) -> bool:
    """Returns True if a line records this very set; raises AlreadyShuffled if it records a part of it."""
    try:
        told = json.loads(line)
        before, released = set(told["ids"]), told["digest"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return False
    if before.isdisjoint(own):
        return False
    if before != own:
        raise AlreadyShuffled(
            f"{who}: {len(before & own)} of the {len(own)} files were shuffled before, together with others or without "
            f"the rest: the difference would show what a few sent; give all files of a round at once, and encode late "
            f"ones for the next round."
        )
    if drawn and released != digest:
        raise AlreadyShuffled(f"{who}: these files were shuffled before, with other noise; use what came out then.")
    return True


def _hash_id(id_: str) -> str:
    return hashlib.sha256(id_.encode("utf-8", "surrogatepass")).hexdigest()[:ID_DIGITS]


def record_path(plan: str) -> Path:
    """Returns the path of the record of a plan's round."""
    # Whoever wrote the message file chose the plan's identity: hash it before it becomes a file name.
    return state_directory() / RECORDS_FOLDER / f"{message_files.hash_ids([plan])[:ID_DIGITS]}.jsonl"


@contextmanager
def _open_record(plan: str) -> Iterator[BinaryIO]:
    """Opens the record of a plan's round under an exclusive lock."""
    path = record_path(plan)
    durable_files.make_directory(path.parent, 0o700)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    with open(os.open(path, flags, durable_files.OWNER_ONLY), "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file
