"""The exact shuffle of a data frame: different messages in order of their bytes, with how often each was sent.

Which range a message falls into depends on its bytes and on cuts, and cuts are messages that were chosen by a hash of
their own bytes: nothing here depends on the order of rows, on partitions, retries or machines, and nothing but cuts,
counts of ranges and digests of files goes through the driver.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp.array import Bytes, Integers, Words
from shuffledp.collection import external_sort, message, shuffling
from shuffledp.collection.cluster.message_frame import COUNT, SCHEMA, Batches, batch_of, mapped, merged, pieces_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

RANGE, FILE = "range", "file"
RANGE_BYTES = 16 << 20
"""Messages of a range, about: what a task sorts at a time is a few of them."""
SAMPLES_OF_A_RANGE, MOST_SAMPLES = 64, 1 << 16
MIX = np.uint64(0x9E3779B97F4A7C15)
HASH_SPACE = 1 << 32
CHANGED = "messages: expected as many messages as were counted, got others; the input has changed."


@dataclass(frozen=True)
class Cuts:
    """Where ranges of messages begin, in order: a function of the multiset of messages alone."""

    width: int
    texts: external_sort.Texts

    @property
    def ranges(self) -> int:
        return len(self.texts) + 1

    def ranges_of(self, wire: Bytes) -> Integers:
        """Which range each message falls into."""
        rows = external_sort.texts_of(np.ascontiguousarray(wire))
        return np.searchsorted(self.texts, rows, side="right").astype(np.int64)


def shuffled(messages: DataFrame, width: int) -> DataFrame:
    """The multiset of messages in its one form: sorted, each once, with its count."""
    if width <= shuffling.COUNTED_BYTES:
        return _few(messages)
    cuts = cuts_of(messages, width, count(messages))
    ranged = mapped(messages, _ranging(cuts), f"{SCHEMA}, {RANGE} int").repartitionById(cuts.ranges, RANGE)
    return mapped(ranged, _merging(width), SCHEMA)


def _few(messages: DataFrame) -> DataFrame:
    """Messages of a small domain: at most 2^16 rows, wherever they were counted."""
    from pyspark.sql import functions as F

    summed = messages.groupBy(message.COLUMN).agg(F.sum(COUNT).alias(COUNT))
    return summed.coalesce(1).sortWithinPartitions(message.COLUMN)


def count(messages: DataFrame) -> int:
    """How many messages there are, however often each occurs."""
    row: Any = messages.groupBy().sum(COUNT).first()
    return int(row[0] or 0)


# --- cuts ---------------------------------------------------------------------------------------------------------


def cuts_of(messages: DataFrame, width: int, total: int) -> Cuts:
    """Cuts for so many messages: as many as their number and width say, at messages that their hashes choose."""
    ranges = -(-total * width // RANGE_BYTES)
    if width <= shuffling.COUNTED_BYTES or ranges <= 1:
        return Cuts(width, np.empty(0, dtype=f"S{width}"))
    wanted = min(MOST_SAMPLES, SAMPLES_OF_A_RANGE * ranges)
    chosen = mapped(messages, _choosing(width, min(HASH_SPACE, HASH_SPACE * wanted // total)), SCHEMA).distinct()
    every = np.sort(np.array([bytes(row[0]) for row in chosen.select(message.COLUMN).collect()], dtype=f"S{width}"))
    if not len(every):
        return Cuts(width, np.empty(0, dtype=f"S{width}"))
    return Cuts(width, np.unique(every[np.arange(1, ranges) * len(every) // ranges]))


def _choosing(width: int, below: int) -> Any:
    """Messages whose hash is below a number: which ones depends on their bytes alone."""

    def run(batches: Batches) -> Batches:
        for wire, _ in pieces_of(batches, width):
            chosen = wire[hashes_of(wire) < np.uint64(below)]
            if len(chosen):
                # How often they occur is of no use here, and would make equal ones differ.
                kept, counts = merged(chosen, None)
                yield batch_of(kept, np.ones_like(counts))

    return run


def hashes_of(wire: Bytes) -> Words:
    """A number below 2^32 from the bytes of each message, that has nothing to do with their order."""
    padded = np.zeros((len(wire), -(-wire.shape[1] // 8) * 8), dtype=np.uint8)
    padded[:, : wire.shape[1]] = wire
    found = np.full(len(wire), MIX, dtype=np.uint64)
    for word in padded.view(np.uint64).T:
        found = (found ^ word) * MIX
        found ^= found >> np.uint64(29)
    return (found * MIX) >> np.uint64(32)


def _ranging(cuts: Cuts) -> Any:
    """Each message with the number of its range."""

    def run(batches: Batches) -> Batches:
        for wire, counts in pieces_of(batches, cuts.width):
            yield _with(batch_of(wire, counts), RANGE, cuts.ranges_of(wire))

    return run


def _with(batch: pa.RecordBatch, name: str, numbers: Integers) -> pa.RecordBatch:
    import pyarrow as pa

    return batch.append_column(pa.field(name, pa.int32()), pa.array(numbers, pa.int32()))


def _merging(width: int) -> Any:
    """All messages of a partition in order, each once."""

    def run(batches: Batches) -> Batches:
        wire, counts = _merged(list(pieces_of(batches, width)), width)
        step = message.group_rows(width)
        for start in range(0, len(wire), step):
            yield batch_of(wire[start : start + step], counts[start : start + step])

    return run


def _merged(pieces: list[tuple[Bytes, Integers]], width: int) -> tuple[Bytes, Integers]:
    """Different messages of all pieces in order, and how often each occurs."""
    if not pieces:
        return np.empty((0, width), dtype=np.uint8), np.empty(0, dtype=np.int64)
    return merged(np.concatenate([wire for wire, _ in pieces]), np.concatenate([counts for _, counts in pieces]))


# --- files --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """Which messages go into which file: so many in each, by their rank among all of them."""

    cuts: Cuts
    starts: tuple[int, ...]
    """How many messages are before each range, and in all of them."""
    rows: int
    """Messages of a file, but for the last one."""

    @classmethod
    def of(cls, messages: DataFrame, width: int, rows: int) -> Layout:
        """From the exact number of messages in each range."""
        total = count(messages)
        cuts = cuts_of(messages, width, total)
        if cuts.ranges == 1:
            return cls(cuts, (0, total), rows)
        ranged = mapped(messages, _ranging(cuts), f"{SCHEMA}, {RANGE} int")
        counts = np.zeros(cuts.ranges, dtype=np.int64)
        for row in ranged.groupBy(RANGE).sum(COUNT).collect():
            counts[row[0]] = row[1]
        return cls(cuts, (0, *np.cumsum(counts).tolist()), rows)

    @property
    def total(self) -> int:
        return self.starts[-1]

    @property
    def files(self) -> int:
        return -(-self.total // self.rows)

    def files_of(self, number: int) -> range:
        """The files that a range has messages in."""
        start, stop = self.starts[number], self.starts[number + 1]
        return range(start // self.rows, -(-stop // self.rows) if stop > start else start // self.rows)

    def range_at(self, rank: int) -> int:
        """The range of the message that has so many before it."""
        return int(np.searchsorted(self.starts, rank, side="right")) - 1

    def divided(self, messages: DataFrame) -> DataFrame:
        """A partition for each file: its messages, and those around them in the same ranges."""
        divided = mapped(messages, self._dividing(), f"{SCHEMA}, {FILE} int")
        return divided.repartitionById(max(1, self.files), FILE)

    def _dividing(self) -> Any:
        def run(batches: Batches) -> Batches:
            for wire, counts in pieces_of(batches, self.cuts.width):
                ranges = self.cuts.ranges_of(wire)
                for number in np.unique(ranges).tolist():
                    own = ranges == number
                    for file in self.files_of(number):
                        yield _with(
                            batch_of(wire[own], counts[own]), FILE, np.full(int(own.sum()), file, dtype=np.int64)
                        )

        return run

    def files_in(self, batches: Batches) -> Iterator[tuple[int, Iterator[Bytes]]]:
        """Each file of a partition with its messages one by one, a range at a time.

        A partition has one file, unless Spark has put two together.
        """
        held: dict[int, dict[int, list[tuple[Bytes, Integers]]]] = {}
        for batch in filter(len, batches):
            files = batch.column(FILE).to_numpy()
            for wire, counts in pieces_of(iter([batch]), self.cuts.width):
                ranges = self.cuts.ranges_of(wire)
                for file, number in np.unique(np.stack([files, ranges]), axis=1).T.tolist():
                    own = (files == file) & (ranges == number)
                    held.setdefault(file, {}).setdefault(number, []).append((wire[own], counts[own]))
        for file in sorted(held):
            yield file, self.runs(held.pop(file), file)

    def runs(self, held: dict[int, list[tuple[Bytes, Integers]]], file: int) -> Iterator[Bytes]:
        """The messages of a file one by one, a bounded number at a time, from those of its ranges."""
        low, high = file * self.rows, min(self.total, (file + 1) * self.rows)
        for number in range(self.range_at(low), self.range_at(high - 1) + 1):
            wire, counts = _merged(held.pop(number, []), self.cuts.width)
            if counts.sum() != self.starts[number + 1] - self.starts[number]:
                raise ValueError(CHANGED)
            ends = self.starts[number] + np.cumsum(counts)
            inside = np.minimum(ends, high) - np.maximum(ends - counts, low)
            kept = inside > 0
            yield from repeated(wire[kept], inside[kept])
        if held:
            raise ValueError(CHANGED)


def repeated(wire: Bytes, counts: Integers) -> Iterator[Bytes]:
    """Each message as often as it was counted, a row group at a time."""
    ends = np.cumsum(counts)
    total, step = int(ends[-1]) if len(ends) else 0, message.group_rows(wire.shape[1])
    for start in range(0, total, step):
        stop = min(total, start + step)
        first, last = np.searchsorted(ends, [start, stop - 1], side="right")
        places = np.arange(first, last + 1)
        inside = np.minimum(ends[places], stop) - np.maximum(ends[places] - counts[places], start)
        yield np.repeat(wire[places], inside, axis=0)


def write(messages: DataFrame, layout: Layout, directory: Path) -> None:
    """Files of messages into a directory that all workers see, a task each; what a retry writes is the same."""
    width, group = layout.cuts.width, message.group_rows(layout.cuts.width)

    def run(batches: Batches) -> Batches:
        import pyarrow as pa

        if not directory.is_dir():
            raise OSError(f"workers do not see {directory}; give an address that they see, such as hdfs://…, as output")
        for file, wires in layout.files_in(batches):
            name = directory / f"messages-{file:05d}.parquet"
            unfinished = name.with_name(f".{name.name}-{os.urandom(8).hex()}")
            with message.open_writer(unfinished, width) as writer:
                for wire in _of_size(wires, group, width):
                    writer.write_table(pa.table({message.COLUMN: message.array_of(wire)}), row_group_size=group)
            os.replace(unfinished, name)
        yield pa.RecordBatch.from_pydict({"done": pa.array([1], pa.int32())})

    mapped(layout.divided(messages), run, "done int").collect()
    for left in directory.glob(".messages-*"):
        # Of an attempt that was stopped, as another one was faster.
        left.unlink(missing_ok=True)


def ordered(messages: DataFrame, layout: Layout) -> DataFrame:
    """One row a message, in order, a partition for each file."""

    def run(batches: Batches) -> Batches:
        import pyarrow as pa

        for _, wires in layout.files_in(batches):
            for wire in wires:
                yield pa.RecordBatch.from_pydict({message.COLUMN: message.array_of(wire).cast(pa.binary())})

    return mapped(layout.divided(messages), run, f"{message.COLUMN} binary")


def digests(written: DataFrame, width: int) -> list[tuple[str, int, str]]:
    """Name, number of messages and SHA-256 of the messages of each file that was written, read where it lies.

    ``written`` is read whole file by whole file.
    """
    # A name in every row would cost more than the messages.
    name = "CASE WHEN _metadata.row_index = 0 THEN _metadata.file_name END AS name"

    def run(batches: Batches) -> Batches:
        import pyarrow as pa

        found: list[tuple[str, int, Any]] = []
        for batch in batches:
            starts = set(np.flatnonzero(batch.column(1).is_valid().to_numpy(zero_copy_only=False)).tolist())
            for start, stop in pairwise(sorted({0, *starts, len(batch)})):
                if start in starts:
                    found.append((batch.column(1)[start].as_py(), 0, hashlib.sha256()))
                called, before, hashed = found[-1]
                wire = message.wire_of(batch.column(0).slice(start, stop - start), width)
                hashed.update(np.ascontiguousarray(wire).data)
                found[-1] = (called, before + stop - start, hashed)
        for called, messages, hashed in found:
            told = {"name": [called], "messages": [messages], "sha256": [hashed.hexdigest()]}
            yield pa.RecordBatch.from_pydict(told)

    rows = mapped(written.selectExpr(message.COLUMN, name), run, "name string, messages long, sha256 string").collect()
    return sorted((row["name"], row["messages"], row["sha256"]) for row in rows)


def _of_size(wires: Iterator[Bytes], rows: int, width: int) -> Iterator[Bytes]:
    """The same messages, so many at a time but for the last ones."""
    held = np.empty((0, width), dtype=np.uint8)
    for wire in wires:
        held = np.concatenate([held, wire])
        while len(held) >= rows:
            yield held[:rows]
            held = held[rows:]
    if len(held):
        yield held
