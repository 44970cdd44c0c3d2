"""Sorting more messages than memory holds: sorted runs on disk, then one range of values after another from all runs.

Ranges are cut at values that were sampled evenly from the sorted runs, so that each fits into memory; a value that is
too frequent for that is itself such a cut, and need not be read to be repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shuffledp.mechanisms.mechanism import WireBytes

RUN_BYTES = 128 << 20
RANGE_BYTES = 32 << 20
"""Sorted at a time in memory, and merged at a time."""
SAMPLES_OF_A_RUN = 1 << 10

Texts = NDArray[np.bytes_]
"""Messages as texts of one length: they compare byte by byte, unsigned, and trailing zeros only pad."""


def texts_of(wire: WireBytes) -> Texts:
    """Rows of bytes, contiguous, as texts; without a copy."""
    return wire.view(f"S{wire.shape[1]}").reshape(-1)


def sort(batches: Iterable[WireBytes], width: int, room: Path, rows: int) -> Iterator[WireBytes]:
    """The messages of all batches in order, at most ``rows`` at a time; ``room`` is a directory for the runs."""
    files, samples = _write_runs(batches, width, room)
    if not files:
        return
    # Mapped, not read: a search touches a few pages only.
    runs: list[Texts] = [np.memmap(file, dtype=f"S{width}", mode="r") for file in files]
    for low, high in pairwise([None, *_cuts(samples, sum(map(len, runs)) * width), None]):
        yield from _range(files, runs, low, high, rows)


def _write_runs(batches: Iterable[WireBytes], width: int, room: Path) -> tuple[list[Path], list[Texts]]:
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


def _gathered(batches: Iterable[WireBytes], width: int) -> Iterator[WireBytes]:
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


def _cuts(samples: list[Texts], size: int) -> list[Texts]:
    """Different values, in order, with about RANGE_BYTES of messages from each to the next; arrays of one each."""
    every = np.sort(np.concatenate(samples))
    ranges = -(-size // RANGE_BYTES)
    places = np.arange(1, ranges) * len(every) // ranges
    return list(np.unique(every[places]).reshape(-1, 1))


def _range(
    files: list[Path], runs: list[Texts], low: Texts | None, high: Texts | None, rows: int
) -> Iterator[WireBytes]:
    """The messages that are ``low``, then those between ``low`` and ``high``."""
    width = runs[0].dtype.itemsize
    starts = [0] * len(runs) if low is None else [int(run.searchsorted(low, "right")[0]) for run in runs]
    stops = [len(run) if high is None else int(run.searchsorted(high, "left")[0]) for run in runs]
    if low is not None:
        first = [int(run.searchsorted(low, "left")[0]) for run in runs]
        yield from _repeated(low, sum(starts) - sum(first), rows)
    parts = [
        np.fromfile(file, dtype=f"S{width}", count=stop - start, offset=start * width)
        for file, start, stop in zip(files, starts, stops, strict=True)
    ]
    merged = np.concatenate(parts)
    # Of sorted parts one after another a stable sort makes one in little more than a look at each.
    merged.sort(kind="stable")
    wire = merged.view(np.uint8).reshape(-1, width)
    for start in range(0, len(wire), rows):
        yield wire[start : start + rows]


def _repeated(value: Texts, count: int, rows: int) -> Iterator[WireBytes]:
    wire = np.repeat(value.view(np.uint8).reshape(1, -1), min(count, rows), axis=0)
    for start in range(0, count, rows):
        yield wire[: count - start]
