"""Sorting more messages than memory holds: sorted runs on disk, then one range of values after another from all runs.

Ranges are cut at values that were sampled evenly from the sorted runs, so that each fits into memory; a value that is
too frequent for that is itself such a cut, and need not be read to be repeated.
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

from shuffledp.array import Bytes

RUN_BYTES = 128 << 20
RANGE_BYTES = 32 << 20
"""Sorted at a time in memory, and merged at a time."""
SAMPLES_OF_A_RUN = 1 << 10

Texts = NDArray[np.bytes_]
"""Messages as texts of one length: they compare byte by byte, unsigned, and trailing zeros only pad."""


def in_order(wire: Bytes) -> Bytes:
    """A batch of messages in order of their bytes."""
    texts = np.sort(texts_of(np.ascontiguousarray(wire)))
    return texts.view(np.uint8).reshape(wire.shape)


def texts_of(wire: Bytes) -> Texts:
    """Rows of bytes, contiguous, as texts; without a copy."""
    return wire.view(f"S{wire.shape[1]}").reshape(-1)


class Run:
    """A file of sorted messages. It is not mapped: pages that a search only passes would count as ours."""

    def __init__(self, path: Path, width: int) -> None:
        self._file, self._width = path.open("rb"), width
        self._length = path.stat().st_size // width

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, place: int) -> bytes:
        return os.pread(self._file.fileno(), self._width, place * self._width)

    def part(self, start: int, stop: int) -> Texts:
        """The messages from one place to another."""
        self._file.seek(start * self._width)
        return np.fromfile(self._file, dtype=f"S{self._width}", count=stop - start)

    def close(self) -> None:
        self._file.close()


def sort(batches: Iterable[Bytes], width: int, room: Path, rows: int) -> Iterator[Bytes]:
    """The messages of all batches in order, at most ``rows`` at a time; ``room`` is a directory for the runs."""
    files, samples = _write_runs(batches, width, room)
    if not files:
        return
    with ExitStack() as stack:
        runs = [stack.enter_context(closing(Run(file, width))) for file in files]
        for low, high in pairwise([None, *_cuts(samples, sum(map(len, runs)) * width), None]):
            yield from _range(runs, width, low, high, rows)


def _write_runs(batches: Iterable[Bytes], width: int, room: Path) -> tuple[list[Path], list[Texts]]:
    """Files of sorted messages, and an even sample of each."""
    files: list[Path] = []
    samples: list[Texts] = []
    for run in _gathered(batches, width):
        texts = texts_of(run)
        texts.sort()
        samples.append(texts[:: max(1, len(texts) // SAMPLES_OF_A_RUN)].copy())
        files.append(room / f"run-{len(files):05d}")
        run.tofile(files[-1])
    return files, samples


def _gathered(batches: Iterable[Bytes], width: int) -> Iterator[Bytes]:
    """The same messages, as many at a time as a run holds."""
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


def _cuts(samples: list[Texts], size: int) -> list[bytes]:
    """Different messages, in order, with about RANGE_BYTES of messages from each to the next."""
    every = np.sort(np.concatenate(samples))
    ranges = -(-size // RANGE_BYTES)
    chosen = np.unique(every[np.arange(1, ranges) * len(every) // ranges])
    return [row.tobytes() for row in chosen.view(np.uint8).reshape(-1, every.dtype.itemsize)]


def _range(runs: list[Run], width: int, low: bytes | None, high: bytes | None, rows: int) -> Iterator[Bytes]:
    """The messages that are ``low``, then those between ``low`` and ``high``."""
    starts = [0 if low is None else bisect_right(run, low) for run in runs]
    stops = [len(run) if high is None else bisect_left(run, high) for run in runs]
    if low is not None:
        yield from _repeated(low, sum(starts) - sum(bisect_left(run, low) for run in runs), rows)
    merged = np.concatenate([run.part(start, stop) for run, start, stop in zip(runs, starts, stops, strict=True)])
    # Of sorted parts one after another a stable sort makes one in little more than a look at each.
    merged.sort(kind="stable")
    wire = merged.view(np.uint8).reshape(-1, width)
    for start in range(0, len(wire), rows):
        yield wire[start : start + rows]


def _repeated(value: bytes, count: int, rows: int) -> Iterator[Bytes]:
    wire = np.tile(np.frombuffer(value, dtype=np.uint8), (min(count, rows), 1))
    for start in range(0, count, rows):
        yield wire[: count - start]
