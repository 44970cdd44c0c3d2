"""The shuffle: messages in the order of their bytes, which is a function of their multiset alone.

Who sent what, in which order they came, in which files, and how the work was divided leave no trace. No randomness is
drawn, so that there is none to leak, and a repetition gives the same files.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shuffledp.array import Bytes
from shuffledp.collection import external_sort, message

Advance = Callable[[int], None]
COUNTED_BYTES = 2
"""Messages of so few bytes are counted rather than sorted."""
IN_MEMORY_BYTES = 192 << 20
"""Messages that are sorted in memory; more are sorted on disk."""


def shuffle_files(paths: list[Path], width: int, directory: Path, advance: Advance) -> int:
    """Write the messages of files, in order, to a directory; return how many there are."""
    count = sum(message.count_of(path) for path in paths)
    if width <= COUNTED_BYTES:
        sorted_messages = counted(paths, width, advance)
    elif count * width <= IN_MEMORY_BYTES:
        sorted_messages = in_memory(paths, width, count, advance)
    else:
        sorted_messages = on_disk(paths, width, directory, advance)
    return write(sorted_messages, width, directory)


def write(sorted_messages: Iterable[Bytes], width: int, directory: Path) -> int:
    """Write messages that are in order."""
    written = 0
    with message.Writer(directory, width) as writer:
        for wire in sorted_messages:
            writer.write(wire)
            written += len(wire)
    return written


def counted(paths: list[Path], width: int, advance: Advance) -> Iterator[Bytes]:
    """By counting how often each of the 2^(8·width) messages occurs."""
    counts = np.zeros(1 << 8 * width, dtype=np.int64)
    for wire in message.read(paths, width):
        numbers = wire.reshape(-1) if width == 1 else wire.view(">u2").reshape(-1).astype(np.uint16)
        counts += np.bincount(numbers, minlength=len(counts))
        advance(len(wire))
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


def in_memory(paths: list[Path], width: int, count: int, advance: Advance) -> Iterator[Bytes]:
    """By sorting one array."""
    every = np.empty((count, width), dtype=np.uint8)
    place = 0
    for wire in message.read(paths, width):
        every[place : place + len(wire)] = wire
        place += len(wire)
        advance(len(wire))
    external_sort.texts_of(every).sort()
    step = message.group_rows(width)
    for start in range(0, count, step):
        yield every[start : start + step]


def on_disk(paths: list[Path], width: int, directory: Path, advance: Advance) -> Iterator[Bytes]:
    """By sorted runs on disk, for more messages than memory holds."""

    def told() -> Iterator[Bytes]:
        for wire in message.read(paths, width):
            yield wire
            advance(len(wire))

    # Inside of what is removed if this process is killed: runs still tell which messages came together.
    with tempfile.TemporaryDirectory(dir=directory) as room:
        yield from external_sort.sort(told(), width, Path(room), message.group_rows(width))


def certainly_in_order(batches: Iterable[Bytes]) -> Iterator[Bytes]:
    """The same batches, each looked at: a message before its predecessor is an error of whoever sorted."""
    last: bytes = b""
    for wire in batches:
        texts = external_sort.texts_of(np.ascontiguousarray(wire))
        if len(wire) and (wire[0].tobytes() < last or (texts[1:] < texts[:-1]).any()):
            raise ValueError("shuffle: the messages are not in order.")
        last = wire[-1].tobytes() if len(wire) else last
        yield wire


def is_in_order(batches: Iterable[Bytes]) -> bool:
    """Whether no message comes before its predecessor."""
    try:
        deque(certainly_in_order(batches), maxlen=0)
    except ValueError:
        return False
    return True
