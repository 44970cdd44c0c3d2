"""External sorting of messages: sorted runs on disk, then a merge of one range of values after another.

The ends of the ranges are sampled evenly from the sorted runs, so that each range fits into memory. A value that is too
frequent for that is itself an end of ranges; it is repeated without being read.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shuffledp._core.validation import Bytes

RUN_BYTES = 128 << 20
MERGE_BYTES = 32 << 20
"""Bytes sorted at a time in memory, and bytes merged at a time."""
SAMPLES_PER_RUN = 1 << 10

ByteStrings = NDArray[np.bytes_]
"""Messages as byte strings of one length: they compare byte by byte, unsigned, and trailing zeros only pad."""


def sort_in_memory(wire: Bytes) -> Bytes:
    """Returns a batch of messages in the order of their bytes."""
    texts = np.sort(view_as_byte_strings(np.ascontiguousarray(wire)))
    return texts.view(np.uint8).reshape(wire.shape)


def view_as_byte_strings(wire: Bytes) -> ByteStrings:
    """Returns contiguous rows of bytes as byte strings, without a copy."""
    return wire.view(f"S{wire.shape[1]}").reshape(-1)


class SortedRun:
    """A file of sorted messages; not memory-mapped, as the pages that a search touches would count as our memory."""

    def __init__(self, path: Path, width: int) -> None:
        self._file, self._width = path.open("rb"), width
        self._length = path.stat().st_size // width

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, place: int) -> bytes:
        return os.pread(self._file.fileno(), self._width, place * self._width)

    def read_slice(self, start: int, stop: int) -> ByteStrings:
        """Returns the messages from one position to another."""
        self._file.seek(start * self._width)
        return np.fromfile(self._file, dtype=f"S{self._width}", count=stop - start)

    def close(self) -> None:
        self._file.close()


def sort_on_disk(batches: Iterable[Bytes], width: int, room: Path, rows: int) -> Iterator[Bytes]:
    """Yields the messages of all batches in order, at most ``rows`` at a time; ``room`` is a directory for the runs."""
    files, samples = _write_runs(batches, width, room)
    if not files:
        return
    with ExitStack() as stack:
        runs = [stack.enter_context(closing(SortedRun(file, width))) for file in files]
        for low, high in pairwise([None, *_choose_range_ends(samples, sum(map(len, runs)) * width), None]):
            yield from _merge_range(runs, width, low, high, rows)


def _write_runs(batches: Iterable[Bytes], width: int, room: Path) -> tuple[list[Path], list[ByteStrings]]:
    """Writes the sorted runs; returns their files and an even sample of each."""
    files: list[Path] = []
    samples: list[ByteStrings] = []
    for run in _fill_runs(batches, width):
        texts = view_as_byte_strings(run)
        texts.sort()
        samples.append(texts[:: max(1, len(texts) // SAMPLES_PER_RUN)].copy())
        files.append(room / f"run-{len(files):05d}")
        run.tofile(files[-1])
    return files, samples


def _fill_runs(batches: Iterable[Bytes], width: int) -> Iterator[Bytes]:
    """Yields the same messages, as many at a time as a run holds."""
    room = np.empty((max(1, RUN_BYTES // width), width), dtype=np.uint8)
    held = 0
    for wire in batches:
        taken = 0
        while taken < len(wire):
            take = min(len(room) - held, len(wire) - taken)
            room[held : held + take] = wire[taken : taken + take]
            held, taken = held + take, taken + take
            if held == len(room):
                yield room
                held = 0
    if held:
        yield room[:held]


def _choose_range_ends(samples: list[ByteStrings], size: int) -> list[bytes]:
    """Returns distinct messages, in order, with about MERGE_BYTES of messages from each to the next."""
    every = np.sort(np.concatenate(samples))
    ranges = -(-size // MERGE_BYTES)
    chosen = np.unique(every[np.arange(1, ranges) * len(every) // ranges])
    return [row.tobytes() for row in chosen.view(np.uint8).reshape(-1, every.dtype.itemsize)]


def _merge_range(
    runs: list[SortedRun], width: int, low: bytes | None, high: bytes | None, rows: int
) -> Iterator[Bytes]:
    """Yields the messages equal to ``low``, then those between ``low`` and ``high``."""
    starts = [0 if low is None else bisect_right(run, low) for run in runs]
    stops = [len(run) if high is None else bisect_left(run, high) for run in runs]
    if low is not None:
        yield from _repeat_message(low, sum(starts) - sum(bisect_left(run, low) for run in runs), rows)
    merged = np.concatenate([run.read_slice(start, stop) for run, start, stop in zip(runs, starts, stops, strict=True)])
    # A stable sort merges sorted parts that follow each other in little more than one pass.
    merged.sort(kind="stable")
    wire = merged.view(np.uint8).reshape(-1, width)
    for start in range(0, len(wire), rows):
        yield wire[start : start + rows]


def _repeat_message(value: bytes, count: int, rows: int) -> Iterator[Bytes]:
    wire = np.tile(np.frombuffer(value, dtype=np.uint8), (min(count, rows), 1))
    for start in range(0, count, rows):
        yield wire[: count - start]
