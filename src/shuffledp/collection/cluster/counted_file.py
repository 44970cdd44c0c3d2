"""Files of messages of one or two bytes: there are few different ones, and all that is moved of them is how many.

Spark itself repeats them while it writes, and counts them again where the files lie.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp.array import Bytes, Integers
from shuffledp.collection import message
from shuffledp.collection.cluster import exact_shuffle
from shuffledp.collection.cluster.exact_shuffle import FILE
from shuffledp.collection.cluster.message_frame import COUNT, SCHEMA, Batches, mapped, numbers_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

TIMES = 1 << 12
"""How often a message is repeated at a time: of two lists, neither is longer."""
CHECKSUM = f"crc32({message.COLUMN}) + shiftleft(CAST(octet_length({message.COLUMN}) AS BIGINT), 32)"
NAME, FIRST, LAST = "name", "first", "last"


def counts_of(messages: DataFrame, width: int) -> Integers:
    """How often each message of one or two bytes occurs."""
    counts = np.zeros(1 << 8 * width, dtype=np.int64)
    for row in exact_shuffle.shuffled(messages, width).collect():
        counts[int.from_bytes(row[0], "big")] += row[1]
    return counts


def wire_of(numbers: Integers, width: int) -> Bytes:
    """Numbers as messages."""
    return np.ascontiguousarray(numbers.astype(f">u{width}")).view(np.uint8).reshape(-1, width)


def runs_of(counts: Integers, width: int, rows: int) -> pa.Table:
    """The messages in order, each with how often it stands in a file of so many: where a file ends, a run does."""
    import pyarrow as pa

    ends = np.cumsum(counts)
    total = int(ends[-1])
    starts = np.unique(np.concatenate([(ends - counts)[counts > 0], np.arange(0, total, rows, dtype=np.int64)]))
    return pa.table(
        {
            FILE: pa.array(starts // rows, pa.int32()),
            message.COLUMN: message.array_of(wire_of(np.searchsorted(ends, starts, side="right"), width)).cast(
                pa.binary()
            ),
            COUNT: pa.array(np.diff(np.append(starts, total)), pa.int64()),
        }
    )


def ordered(session: SparkSession, counts: Integers, width: int, rows: int) -> DataFrame:
    """One row a message, in order, a partition for each file."""
    from pyspark.sql import functions as F

    files = max(1, -(-int(counts.sum()) // rows))

    def run(batches: Batches) -> Batches:
        import pyarrow.compute as pc

        runs = runs_of(counts, width, rows)
        for batch in batches:
            for file in batch.column(0).to_pylist():
                yield from runs.filter(pc.equal(runs.column(FILE), file)).to_batches()

    kept = mapped(session.range(0, files, 1, files), run, f"{FILE} int, {SCHEMA}")
    piece = F.explode(F.sequence(F.lit(0), F.col(COUNT) - 1, F.lit(TIMES))).alias("done")
    times = F.least(F.lit(TIMES), F.col(COUNT) - F.col("done")).cast("int")
    repeated = F.explode(F.array_repeat(message.COLUMN, times)).alias(message.COLUMN)
    return kept.select(message.COLUMN, COUNT, piece).select(repeated)


def counted(written: DataFrame) -> DataFrame:
    """Different messages of files with how often each occurs: few rows, which no worker of Python had to count."""
    from pyspark.sql import functions as F

    return written.groupBy(message.COLUMN).agg(F.count("*").alias(COUNT))


def read_again(written: DataFrame, width: int) -> tuple[list[tuple[str, int, str]], Integers]:
    """Of each file that was written its name, number of messages and SHA-256, and how often each message occurs.

    Spark counts where the files lie; where a message begins and ends in its file shows that all are in order.
    """
    from pyspark.sql import functions as F

    # Spark groups whole numbers faster than bytes.
    named = written.selectExpr(f"{CHECKSUM} AS sum", f"_metadata.file_name AS {NAME}", "_metadata.row_index AS place")
    runs = named.groupBy(NAME, "sum").agg(
        F.count("*").alias(COUNT), F.min("place").alias(FIRST), F.max("place").alias(LAST)
    )
    known = message_by_checksum(width)
    files: dict[str, list[Any]] = {}
    for row in runs.sort(NAME, FIRST).collect():
        files.setdefault(row[NAME], []).append(row.asDict() | {message.COLUMN: known.get(row["sum"], b"")})
    counts = np.zeros(1 << 8 * width, dtype=np.int64)
    digests = []
    for name, rows in files.items():
        wire, times = in_order(rows, width)
        counts[numbers_of(wire)] += times
        digests.append((name, int(times.sum()), sha256_of(wire, times)))
    return digests, counts


def message_by_checksum(width: int) -> dict[int, bytes]:
    """Each message by its CRC-32 and its length: different strings of one length up to 4 have different ones."""
    every = [row.tobytes() for row in wire_of(np.arange(1 << 8 * width), width)]
    return {zlib.crc32(each) + (width << 32): each for each in every}


def in_order(rows: Sequence[Any], width: int) -> tuple[Bytes, Integers]:
    """The messages of a file and how often each occurs, if they stand there in order."""
    if any(len(row[message.COLUMN]) != width for row in rows):
        raise ValueError(f"messages: expected rows of {width} bytes, got others.")
    wire = np.frombuffer(b"".join(row[message.COLUMN] for row in rows), dtype=np.uint8).reshape(-1, width)
    times, first, last = (np.array([row[name] for row in rows], dtype=np.int64) for name in (COUNT, FIRST, LAST))
    ends = np.cumsum(times)
    if (first != ends - times).any() or (last != ends - 1).any() or (np.diff(numbers_of(wire)) <= 0).any():
        raise ValueError("messages: expected a file in order of its messages, got another order.")
    return wire, times


def sha256_of(wire: Bytes, times: Integers) -> str:
    """Of each message as often as it occurs, one after the other."""
    hashed = hashlib.sha256()
    for piece in exact_shuffle.repeated(wire, times):
        hashed.update(np.ascontiguousarray(piece).data)
    return hashed.hexdigest()
