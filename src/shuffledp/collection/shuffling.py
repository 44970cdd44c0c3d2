"""The shuffle: messages in the order of their bytes, which is a function of their multiset alone.

Who sent what, in which order they came, in which files, and how the work was divided leave no trace. No randomness is
drawn, so that there is none to leak, and a repetition gives the same files.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shuffledp.array import Bytes
from shuffledp.collection import external_sort, message

COUNTED_BYTES = 2
"""Messages of so few bytes are counted rather than sorted."""
IN_MEMORY_BYTES = 192 << 20
"""Messages that are sorted in memory; more are sorted on disk."""


@dataclass(frozen=True)
class Written:
    """Messages that were written in order: how many, and a SHA-256 of them one after the other."""

    messages: int
    sha256: str


def in_order(batches: Iterable[Bytes], width: int, at_most: int, room: Path) -> Iterator[Bytes]:
    """The messages in order of their bytes; ``at_most`` is how many there can be, ``room`` a directory to sort in."""
    if width <= COUNTED_BYTES:
        return counted(batches, width)
    if at_most * width <= IN_MEMORY_BYTES:
        return in_memory(batches, width, at_most)
    return on_disk(batches, width, room)


def write(sorted_messages: Iterable[Bytes], width: int, directory: Path) -> Written:
    """Write messages that are in order."""
    written, hashed = 0, hashlib.sha256()
    with message.Writer(directory, width) as writer:
        for wire in sorted_messages:
            writer.write(wire)
            hashed.update(np.ascontiguousarray(wire).data)
            written += len(wire)
    return Written(written, hashed.hexdigest())


def counted(batches: Iterable[Bytes], width: int) -> Iterator[Bytes]:
    """By counting how often each of the 2^(8·width) messages occurs."""
    counts = np.zeros(1 << 8 * width, dtype=np.int64)
    for wire in batches:
        rows = np.ascontiguousarray(wire)
        numbers = rows.reshape(-1) if width == 1 else rows.view(">u2").reshape(-1).astype(np.uint16)
        counts += np.bincount(numbers, minlength=len(counts))
    yield from runs(counts, width)


def runs(counts: NDArray[np.int64], width: int) -> Iterator[Bytes]:
    """Each number as often as it was counted, as messages in order, a bounded number at a time."""
    ends = np.cumsum(counts)
    total = int(ends[-1])
    step = message.group_rows(width)
    for start in range(0, total, step):
        stop = min(total, start + step)
        first, last = np.searchsorted(ends, [start, stop - 1], side="right")
        numbers = np.arange(first, last + 1)
        inside = np.minimum(ends[numbers], stop) - np.maximum(ends[numbers] - counts[numbers], start)
        wire = np.repeat(numbers.astype(f">u{width}"), inside)
        yield wire.view(np.uint8).reshape(-1, width)


def in_memory(batches: Iterable[Bytes], width: int, at_most: int) -> Iterator[Bytes]:
    """By sorting one array."""
    room = np.empty((at_most, width), dtype=np.uint8)
    count = 0
    for wire in batches:
        if count + len(wire) > at_most:
            raise ValueError(f"messages: expected at most {at_most}, got more.")
        room[count : count + len(wire)] = wire
        count += len(wire)
    # Of the room only what was read: the rest is whatever was in memory before.
    every = room[:count]
    external_sort.texts_of(every).sort()
    step = message.group_rows(width)
    for start in range(0, count, step):
        yield every[start : start + step]


def on_disk(batches: Iterable[Bytes], width: int, directory: Path) -> Iterator[Bytes]:
    """By sorted runs on disk, for more messages than memory holds."""
    # Inside of what is removed if this process is killed: runs still tell which messages came together.
    with tempfile.TemporaryDirectory(dir=directory) as room:
        yield from external_sort.sort(iter(batches), width, Path(room), message.group_rows(width))


def certainly_in_order(batches: Iterable[Bytes]) -> Iterator[Bytes]:
    """The same batches, each looked at: a message before its predecessor is an error of whoever sorted."""
    last: bytes = b""
    for wire in batches:
        texts = external_sort.texts_of(np.ascontiguousarray(wire))
        if len(wire) and (wire[0].tobytes() < last or (texts[1:] < texts[:-1]).any()):
            raise ValueError(
                "messages: they are not in order: they were not shuffled; run `shuffledp shuffle` on them first."
            )
        last = wire[-1].tobytes() if len(wire) else last
        yield wire
