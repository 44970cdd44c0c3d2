"""A bundle: the messages of one encoder in one file, on their way to the shuffler, who does not trust the file.

A line that says what it is, a line of JSON, the messages one after the other, and a SHA-256 of all before it::

    shuffledp messages 2
    {"id": "…", "plan": "…", "users": 1000, "per_person": 1, "width": 1, "noise": "users"}
    …

How many messages there are follows from the file's own size: nothing in it can claim or expand to more. ``plan`` is the
identity of the plan's round that they belong to, ``per_person`` the most rows of one person, each of which counts as a
user; ``id`` is random and tells copies of a bundle from bundles alike; ``noise`` says who draws what hides the
messages: where it is the shuffler, these are not private before it has.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np

from shuffledp.array import Bytes
from shuffledp.collection import durable, message
from shuffledp.collection.lot import SHUFFLER, USERS, Lot

FIRST_LINE = b"shuffledp messages 2\n"
LONGEST_HEADER = 4096
CHECKSUM_BYTES = hashlib.sha256().digest_size
WIDEST = 1 << 26
"""No mechanism sends messages of more bytes."""
MOST = 1 << 62
"""Nobody has more users; larger numbers would only be work."""
FIELDS = {"id": str, "plan": str, "users": int, "per_person": int, "width": int, "noise": str}
SUFFIX = ".messages"


@dataclass(frozen=True)
class Bundle:
    """A file of messages: what it says of itself, and how many messages there really are."""

    path: Path
    id: str
    plan: str
    users: int
    per_person: int
    width: int
    noise: str
    messages: int
    start: int
    """Where the messages begin."""

    @classmethod
    def open(cls, path: Path) -> Self:
        """What a file says, if it is a bundle; a sentence otherwise. Its checksum is looked at by ``read``."""
        try:
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                first, header = file.read(len(FIRST_LINE)), file.readline(LONGEST_HEADER)
        except OSError as error:
            raise ValueError(f"messages: cannot read {path}: {error.strerror}.") from None
        if first != FIRST_LINE:
            raise ValueError(f"messages: {path} is not a file of messages from `shuffledp encode`.")
        told = _fields(path, header)
        start, width = len(FIRST_LINE) + len(header), told["width"]
        messages, left = divmod(size - start - CHECKSUM_BYTES, width)
        if left or messages < 0:
            raise _damaged(path)
        return cls(path, messages=messages, start=start, **told)

    def read(self) -> Iterator[Bytes]:
        """The messages, a bounded number at a time; at the end a sentence if any byte is not what was written.

        Until then nothing that was read may be relied on.
        """
        hashed, left = hashlib.sha256(), self.messages
        with open(self.path, "rb") as file:
            hashed.update(file.read(self.start))
            while left:
                count = min(left, message.group_rows(self.width))
                wire = np.fromfile(file, dtype=np.uint8, count=count * self.width)
                if len(wire) != count * self.width:
                    raise _damaged(self.path)
                hashed.update(wire.data)
                left -= count
                yield wire.reshape(count, self.width)
            if file.read(CHECKSUM_BYTES + 1) != hashed.digest():
                raise _damaged(self.path)


def write(path: Path, lot: Lot, batches: Iterable[Bytes]) -> None:
    """One bundle, for its owner only; it gets its name when it is complete on disk."""
    with durable.whole_file(path) as file:
        write_to(file, lot, batches)


def write_to(file: BinaryIO, lot: Lot, batches: Iterable[Bytes]) -> None:
    """A bundle into an open file."""
    told = {"plan": lot.plan, "users": lot.users, "per_person": lot.per_person, "width": lot.width, "noise": lot.noise}
    header = {"id": os.urandom(16).hex()} | told
    hashed = hashlib.sha256()
    for piece in (FIRST_LINE, json.dumps(header).encode() + b"\n"):
        file.write(piece)
        hashed.update(piece)
    for wire in batches:
        rows = np.ascontiguousarray(wire)
        file.write(rows.data)
        hashed.update(rows.data)
    file.write(hashed.digest())


def hash_of(ids: Iterable[str]) -> str:
    """One name for a set of bundles, from their ids."""
    return hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest()


def files_of(path: Path) -> list[Path]:
    """The bundles of a directory in order of their names; a file stands for itself."""
    if path.is_file():
        return [path]
    found = sorted(file for file in path.iterdir() if file.suffix == SUFFIX) if path.is_dir() else []
    if not found:
        raise ValueError(f"messages: expected a file or a directory of {SUFFIX} files, got {str(path)!r}.")
    return found


def _fields(path: Path, header: bytes) -> dict[str, Any]:
    try:
        told = json.loads(header)
    except (ValueError, RecursionError):
        raise _damaged(path) from None
    good = (
        isinstance(told, dict)
        and told.keys() == FIELDS.keys()
        and all(type(told[name]) is kind for name, kind in FIELDS.items())
        and 0 <= told["users"] <= MOST
        and 1 <= told["per_person"] <= MOST
        and 1 <= told["width"] <= WIDEST
        and told["noise"] in (USERS, SHUFFLER)
    )
    if not good:
        raise _damaged(path)
    return dict(told)


def _damaged(path: Path) -> ValueError:
    return ValueError(f"messages: {path} is damaged: it is not what its encoder wrote; ask for it again.")
