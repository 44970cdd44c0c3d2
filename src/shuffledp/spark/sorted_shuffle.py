"""The exact shuffle of a data frame: distinct messages in order of their bytes, with their counts.

The range of a message depends on its bytes and on boundaries, which are messages chosen by a hash of their own bytes.
Nothing depends on the order of rows, on partitions, retries or machines, and only boundaries, counts of ranges and
digests of files pass through the driver.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp._core.validation import Bytes, Integers, Words
from shuffledp.collection import message_files
from shuffledp.spark.deterministic_rows import Batches
from shuffledp.spark.worker_tasks import (
    COUNT_COLUMN,
    MESSAGES_SCHEMA,
    build_batch,
    decode_numbers,
    map_batches,
    merge_equal,
    read_batches,
)
from shuffledp.storage import sorting

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

RANGE_COLUMN, FILE_COLUMN = "range", "file"
RANGE_BYTES = 16 << 20
"""Approximate size of the messages of a range; a task sorts a few ranges at a time."""
SAMPLES_PER_RANGE, MAX_SAMPLES = 64, 1 << 16
HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
HASH_SPACE = 1 << 32
CHANGED_MESSAGE = "messages: expected as many messages as were counted, got others; the input has changed."


@dataclass(frozen=True)
class RangeBoundaries:
    """The sorted first messages of ranges: a function of the multiset of messages alone."""

    width: int
    boundaries: sorting.ByteStrings

    @property
    def range_count(self) -> int:
        return len(self.boundaries) + 1

    def find_ranges(self, wire: Bytes) -> Integers:
        """Returns the range of each message."""
        rows = sorting.view_as_byte_strings(np.ascontiguousarray(wire))
        return np.searchsorted(self.boundaries, rows, side="right").astype(np.int64)


def shuffle_messages(messages: DataFrame, width: int) -> DataFrame:
    """Returns the canonical form of a multiset of messages: sorted, each once, with its count."""
    if width <= message_files.MAX_COUNTED_BYTES:
        return _count_small_domain(messages)
    boundaries = choose_boundaries(messages, width, count_messages(messages))
    ranged = map_batches(
        messages, _build_range_task(boundaries), f"{MESSAGES_SCHEMA}, {RANGE_COLUMN} int"
    ).repartitionById(boundaries.range_count, RANGE_COLUMN)
    return map_batches(ranged, _build_merge_task(width), MESSAGES_SCHEMA)


def _count_small_domain(messages: DataFrame) -> DataFrame:
    """Counts messages of a small domain: at most 2^16 rows, wherever they were counted."""
    from pyspark.sql import functions as F

    summed = messages.groupBy(message_files.MESSAGE_COLUMN).agg(F.sum(COUNT_COLUMN).alias(COUNT_COLUMN))
    return summed.coalesce(1).sortWithinPartitions(message_files.MESSAGE_COLUMN)


def count_messages(messages: DataFrame) -> int:
    """Returns the number of messages, including repetitions."""
    row: Any = messages.groupBy().sum(COUNT_COLUMN).first()
    return int(row[0] or 0)


# --- Boundaries of ranges ---


def choose_boundaries(messages: DataFrame, width: int, total: int) -> RangeBoundaries:
    """Chooses boundaries by the hashes of messages; the number and width of the messages determine how many."""
    ranges = -(-total * width // RANGE_BYTES)
    if width <= message_files.MAX_COUNTED_BYTES or ranges <= 1:
        return RangeBoundaries(width, np.empty(0, dtype=f"S{width}"))
    wanted = min(MAX_SAMPLES, SAMPLES_PER_RANGE * ranges)
    chosen = map_batches(
        messages, _build_sample_task(width, min(HASH_SPACE, HASH_SPACE * wanted // total)), MESSAGES_SCHEMA
    ).distinct()
    every = np.sort(
        np.array([bytes(row[0]) for row in chosen.select(message_files.MESSAGE_COLUMN).collect()], dtype=f"S{width}")
    )
    if not len(every):
        return RangeBoundaries(width, np.empty(0, dtype=f"S{width}"))
    return RangeBoundaries(width, np.unique(every[np.arange(1, ranges) * len(every) // ranges]))


def _build_sample_task(width: int, below: int) -> Any:
    """Returns a worker function that selects messages with a hash below a number, by their bytes alone."""

    def run(batches: Batches) -> Batches:
        for wire, _ in read_batches(batches, width):
            chosen = wire[hash_messages(wire) < np.uint64(below)]
            if len(chosen):
                # Their counts are not needed here, and would make equal ones differ.
                distinct, counts = merge_equal(chosen, None)
                yield build_batch(distinct, np.ones_like(counts))

    return run


def hash_messages(wire: Bytes) -> Words:
    """Returns a hash below 2^32 of the bytes of each message, unrelated to their order."""
    padded = np.zeros((len(wire), -(-wire.shape[1] // 8) * 8), dtype=np.uint8)
    padded[:, : wire.shape[1]] = wire
    found = np.full(len(wire), HASH_MULTIPLIER, dtype=np.uint64)
    for word in padded.view(np.uint64).T:
        found = (found ^ word) * HASH_MULTIPLIER
        found ^= found >> np.uint64(29)
    return (found * HASH_MULTIPLIER) >> np.uint64(32)


def _build_range_task(boundaries: RangeBoundaries) -> Any:
    """Returns a worker function that adds the range of each message."""

    def run(batches: Batches) -> Batches:
        for wire, counts in read_batches(batches, boundaries.width):
            yield _append_column(build_batch(wire, counts), RANGE_COLUMN, boundaries.find_ranges(wire))

    return run


def _append_column(batch: pa.RecordBatch, name: str, numbers: Integers) -> pa.RecordBatch:
    import pyarrow as pa

    return batch.append_column(pa.field(name, pa.int32()), pa.array(numbers, pa.int32()))


def _build_merge_task(width: int) -> Any:
    """Returns a worker function that sorts all messages of a partition and merges equal ones."""

    def run(batches: Batches) -> Batches:
        wire, counts = _merge_pieces(list(read_batches(batches, width)), width)
        step = message_files.group_rows(width)
        for start in range(0, len(wire), step):
            yield build_batch(wire[start : start + step], counts[start : start + step])

    return run


def _merge_pieces(pieces: list[tuple[Bytes, Integers]], width: int) -> tuple[Bytes, Integers]:
    """Returns the distinct messages of all pieces in order, and their counts."""
    if not pieces:
        return np.empty((0, width), dtype=np.uint8), np.empty(0, dtype=np.int64)
    return merge_equal(np.concatenate([wire for wire, _ in pieces]), np.concatenate([counts for _, counts in pieces]))


# --- Files ---


@dataclass(frozen=True)
class FileLayout:
    """The assignment of messages to files: a fixed number in each, by their rank among all messages."""

    boundaries: RangeBoundaries
    range_starts: tuple[int, ...]
    """Number of messages before each range, and in total."""
    rows_per_file: int
    """Number of messages in a file, except the last."""

    @classmethod
    def from_messages(cls, messages: DataFrame, width: int, rows: int) -> FileLayout:
        """Computes the layout from the exact number of messages in each range."""
        total = count_messages(messages)
        boundaries = choose_boundaries(messages, width, total)
        if boundaries.range_count == 1:
            return cls(boundaries, (0, total), rows)
        ranged = map_batches(messages, _build_range_task(boundaries), f"{MESSAGES_SCHEMA}, {RANGE_COLUMN} int")
        counts = np.zeros(boundaries.range_count, dtype=np.int64)
        for row in ranged.groupBy(RANGE_COLUMN).sum(COUNT_COLUMN).collect():
            counts[row[0]] = row[1]
        return cls(boundaries, (0, *np.cumsum(counts).tolist()), rows)

    @property
    def message_count(self) -> int:
        return self.range_starts[-1]

    @property
    def file_count(self) -> int:
        return -(-self.message_count // self.rows_per_file)

    def find_files(self, number: int) -> range:
        """Returns the files that hold messages of a range."""
        start, stop = self.range_starts[number], self.range_starts[number + 1]
        return range(
            start // self.rows_per_file, -(-stop // self.rows_per_file) if stop > start else start // self.rows_per_file
        )

    def find_range(self, rank: int) -> int:
        """Returns the range of the message with this rank, counted from 0."""
        return int(np.searchsorted(self.range_starts, rank, side="right")) - 1

    def partition_by_file(self, messages: DataFrame) -> DataFrame:
        """Returns one partition per file: its messages, and those around them in the same ranges."""
        divided = map_batches(messages, self._build_divide_task(), f"{MESSAGES_SCHEMA}, {FILE_COLUMN} int")
        return divided.repartitionById(max(1, self.file_count), FILE_COLUMN)

    def _build_divide_task(self) -> Any:
        def run(batches: Batches) -> Batches:
            for wire, counts in read_batches(batches, self.boundaries.width):
                ranges = self.boundaries.find_ranges(wire)
                for number in np.unique(ranges).tolist():
                    own = ranges == number
                    for file in self.find_files(number):
                        yield _append_column(
                            build_batch(wire[own], counts[own]),
                            FILE_COLUMN,
                            np.full(int(own.sum()), file, dtype=np.int64),
                        )

        return run

    def read_files(self, batches: Batches) -> Iterator[tuple[int, Iterator[Bytes]]]:
        """Yields each file of a partition with its messages, including repetitions, one range at a time.

        A partition has one file, unless Spark has merged two.
        """
        held: dict[int, dict[int, list[tuple[Bytes, Integers]]]] = {}
        for batch in filter(len, batches):
            files = batch.column(FILE_COLUMN).to_numpy()
            for wire, counts in read_batches(iter([batch]), self.boundaries.width):
                ranges = self.boundaries.find_ranges(wire)
                for file, number in np.unique(np.stack([files, ranges]), axis=1).T.tolist():
                    own = (files == file) & (ranges == number)
                    held.setdefault(file, {}).setdefault(number, []).append((wire[own], counts[own]))
        for file in sorted(held):
            yield file, self.merge_file(held.pop(file), file)

    def merge_file(self, held: dict[int, list[tuple[Bytes, Integers]]], file: int) -> Iterator[Bytes]:
        """Yields the messages of a file, including repetitions, in batches of bounded size."""
        low, high = file * self.rows_per_file, min(self.message_count, (file + 1) * self.rows_per_file)
        for number in range(self.find_range(low), self.find_range(high - 1) + 1):
            wire, counts = _merge_pieces(held.pop(number, []), self.boundaries.width)
            if counts.sum() != self.range_starts[number + 1] - self.range_starts[number]:
                raise ValueError(CHANGED_MESSAGE)
            ends = self.range_starts[number] + np.cumsum(counts)
            inside = np.minimum(ends, high) - np.maximum(ends - counts, low)
            is_inside = inside > 0
            yield from repeat_messages(wire[is_inside], inside[is_inside])
        if held:
            raise ValueError(CHANGED_MESSAGE)


def repeat_messages(wire: Bytes, counts: Integers) -> Iterator[Bytes]:
    """Yields each message as often as it was counted, one row group at a time."""
    ends = np.cumsum(counts)
    total, step = int(ends[-1]) if len(ends) else 0, message_files.group_rows(wire.shape[1])
    for start in range(0, total, step):
        stop = min(total, start + step)
        first, last = np.searchsorted(ends, [start, stop - 1], side="right")
        places = np.arange(first, last + 1)
        inside = np.minimum(ends[places], stop) - np.maximum(ends[places] - counts[places], start)
        yield np.repeat(wire[places], inside, axis=0)


def write_files(messages: DataFrame, layout: FileLayout, directory: Path) -> None:
    """Writes files of messages to a directory that all workers see, one task per file; a retry writes the same."""
    width, group = layout.boundaries.width, message_files.group_rows(layout.boundaries.width)

    def run(batches: Batches) -> Batches:
        import pyarrow as pa

        if not directory.is_dir():
            raise OSError(f"workers do not see {directory}; give an address that they see, such as hdfs://…, as output")
        for file, wires in layout.read_files(batches):
            name = directory / f"messages-{file:05d}.parquet"
            unfinished = name.with_name(f".{name.name}-{os.urandom(8).hex()}")
            with message_files.open_writer(unfinished, width) as writer:
                for wire in _rechunk(wires, group, width):
                    writer.write_table(
                        pa.table({message_files.MESSAGE_COLUMN: message_files.to_arrow(wire)}), row_group_size=group
                    )
            os.replace(unfinished, name)
        yield pa.RecordBatch.from_pydict({"done": pa.array([1], pa.int32())})

    map_batches(layout.partition_by_file(messages), run, "done int").collect()
    for left in directory.glob(".messages-*"):
        # Left by an attempt that was stopped because another one was faster.
        left.unlink(missing_ok=True)


def order_messages(messages: DataFrame, layout: FileLayout) -> DataFrame:
    """Returns one row per message, in order, with one partition per file."""

    def run(batches: Batches) -> Batches:
        import pyarrow as pa

        for _, wires in layout.read_files(batches):
            for wire in wires:
                yield pa.RecordBatch.from_pydict(
                    {message_files.MESSAGE_COLUMN: message_files.to_arrow(wire).cast(pa.binary())}
                )

    return map_batches(layout.partition_by_file(messages), run, f"{message_files.MESSAGE_COLUMN} binary")


def compute_digests(written: DataFrame, width: int) -> list[tuple[str, int, str]]:
    """Returns the name, number of messages and SHA-256 of the messages of each file, computed by the workers.

    ``written`` must be read in whole files.
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
                wire = message_files.from_arrow(batch.column(0).slice(start, stop - start), width)
                hashed.update(np.ascontiguousarray(wire).data)
                found[-1] = (called, before + stop - start, hashed)
        for called, messages, hashed in found:
            columns = {"name": [called], "messages": [messages], "sha256": [hashed.hexdigest()]}
            yield pa.RecordBatch.from_pydict(columns)

    rows = map_batches(
        written.selectExpr(message_files.MESSAGE_COLUMN, name), run, "name string, messages long, sha256 string"
    ).collect()
    return sorted((row["name"], row["messages"], row["sha256"]) for row in rows)


def _rechunk(wires: Iterator[Bytes], rows: int, width: int) -> Iterator[Bytes]:
    """Yields the same messages in pieces of ``rows``, except the last."""
    held = np.empty((0, width), dtype=np.uint8)
    for wire in wires:
        held = np.concatenate([held, wire])
        while len(held) >= rows:
            yield held[:rows]
            held = held[rows:]
    if len(held):
        yield held


# --- Messages of one or two bytes ---
#
# There are few distinct ones, and only their counts are moved. Spark itself repeats them while it writes, and counts
# them again where the files are.


MAX_REPETITIONS = 1 << 12
"""Largest number of repetitions of a message at a time, which bounds the lengths of both lists."""
CHECKSUM_EXPRESSION = (
    f"crc32({message_files.MESSAGE_COLUMN}) + "
    f"shiftleft(CAST(octet_length({message_files.MESSAGE_COLUMN}) AS BIGINT), 32)"
)
NAME_COLUMN, FIRST_COLUMN, LAST_COLUMN = "name", "first", "last"


def count_each_message(messages: DataFrame, width: int) -> Integers:
    """Returns the count of each message of one or two bytes."""
    counts = np.zeros(1 << 8 * width, dtype=np.int64)
    for row in shuffle_messages(messages, width).collect():
        counts[int.from_bytes(row[0], "big")] += row[1]
    return counts


def encode_numbers(numbers: Integers, width: int) -> Bytes:
    """Converts numbers to messages."""
    return np.ascontiguousarray(numbers.astype(f">u{width}")).view(np.uint8).reshape(-1, width)


def build_runs(counts: Integers, width: int, rows: int) -> pa.Table:
    """Returns the messages in order with their counts in files of ``rows`` messages; a run ends where a file does."""
    import pyarrow as pa

    ends = np.cumsum(counts)
    total = int(ends[-1])
    starts = np.unique(np.concatenate([(ends - counts)[counts > 0], np.arange(0, total, rows, dtype=np.int64)]))
    return pa.table(
        {
            FILE_COLUMN: pa.array(starts // rows, pa.int32()),
            message_files.MESSAGE_COLUMN: message_files.to_arrow(
                encode_numbers(np.searchsorted(ends, starts, side="right"), width)
            ).cast(pa.binary()),
            COUNT_COLUMN: pa.array(np.diff(np.append(starts, total)), pa.int64()),
        }
    )


def order_counts(session: SparkSession, counts: Integers, width: int, rows: int) -> DataFrame:
    """Returns one row per message, in order, with one partition per file."""
    from pyspark.sql import functions as F

    files = max(1, -(-int(counts.sum()) // rows))

    def run(batches: Batches) -> Batches:
        import pyarrow.compute as pc

        runs = build_runs(counts, width, rows)
        for batch in batches:
            for file in batch.column(0).to_pylist():
                yield from runs.filter(pc.equal(runs.column(FILE_COLUMN), file)).to_batches()

    runs_frame = map_batches(session.range(0, files, 1, files), run, f"{FILE_COLUMN} int, {MESSAGES_SCHEMA}")
    piece = F.explode(F.sequence(F.lit(0), F.col(COUNT_COLUMN) - 1, F.lit(MAX_REPETITIONS))).alias("done")
    times = F.least(F.lit(MAX_REPETITIONS), F.col(COUNT_COLUMN) - F.col("done")).cast("int")
    repeated = F.explode(F.array_repeat(message_files.MESSAGE_COLUMN, times)).alias(message_files.MESSAGE_COLUMN)
    return runs_frame.select(message_files.MESSAGE_COLUMN, COUNT_COLUMN, piece).select(repeated)


def count_distinct_messages(written: DataFrame) -> DataFrame:
    """Returns the distinct messages of files with their counts: few rows, counted without Python workers."""
    from pyspark.sql import functions as F

    return written.groupBy(message_files.MESSAGE_COLUMN).agg(F.count("*").alias(COUNT_COLUMN))


def verify_files(written: DataFrame, width: int) -> tuple[list[tuple[str, int, str]], Integers]:
    """Returns name, number of messages and SHA-256 of each file that was written, and the count of each message.

    Spark counts where the files are; the first and last positions of a message in its file show that all are in order.
    """
    from pyspark.sql import functions as F

    # Spark groups integers faster than bytes.
    named = written.selectExpr(
        f"{CHECKSUM_EXPRESSION} AS sum", f"_metadata.file_name AS {NAME_COLUMN}", "_metadata.row_index AS place"
    )
    runs = named.groupBy(NAME_COLUMN, "sum").agg(
        F.count("*").alias(COUNT_COLUMN), F.min("place").alias(FIRST_COLUMN), F.max("place").alias(LAST_COLUMN)
    )
    known = build_checksum_table(width)
    files: dict[str, list[Any]] = {}
    for row in runs.sort(NAME_COLUMN, FIRST_COLUMN).collect():
        files.setdefault(row[NAME_COLUMN], []).append(
            row.asDict() | {message_files.MESSAGE_COLUMN: known.get(row["sum"], b"")}
        )
    counts = np.zeros(1 << 8 * width, dtype=np.int64)
    digests = []
    for name, rows in files.items():
        wire, times = check_file_order(rows, width)
        counts[decode_numbers(wire)] += times
        digests.append((name, int(times.sum()), compute_sha256(wire, times)))
    return digests, counts


def build_checksum_table(width: int) -> dict[int, bytes]:
    """Returns each message by its CRC-32 and length; distinct strings of one length up to 4 have distinct CRC-32s."""
    every = [row.tobytes() for row in encode_numbers(np.arange(1 << 8 * width), width)]
    return {zlib.crc32(each) + (width << 32): each for each in every}


def check_file_order(rows: Sequence[Any], width: int) -> tuple[Bytes, Integers]:
    """Returns the messages of a file and their counts; raises ValueError if they are not in order."""
    if any(len(row[message_files.MESSAGE_COLUMN]) != width for row in rows):
        raise ValueError(f"messages: expected rows of {width} bytes, got others.")
    wire = np.frombuffer(b"".join(row[message_files.MESSAGE_COLUMN] for row in rows), dtype=np.uint8).reshape(-1, width)
    times, first, last = (
        np.array([row[name] for row in rows], dtype=np.int64) for name in (COUNT_COLUMN, FIRST_COLUMN, LAST_COLUMN)
    )
    ends = np.cumsum(times)
    if (first != ends - times).any() or (last != ends - 1).any() or (np.diff(decode_numbers(wire)) <= 0).any():
        raise ValueError("messages: expected a file in order of its messages, got another order.")
    return wire, times


def compute_sha256(wire: Bytes, times: Integers) -> str:
    """Returns the SHA-256 of each message, repeated as often as it occurs, one after the other."""
    hashed = hashlib.sha256()
    for piece in repeat_messages(wire, times):
        hashed.update(np.ascontiguousarray(piece).data)
    return hashed.hexdigest()
