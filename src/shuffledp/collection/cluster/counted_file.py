"""Files of messages of one or two bytes: there are few different ones, and all that is moved of them is how many.

Spark itself repeats them while it writes, and counts them again where the files lie.
"""

from __future__ import annotations

import hashlib
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


def digests(written: DataFrame, width: int) -> list[tuple[str, int, str]]:
    """Name, number of messages and SHA-256 of the messages of each file that was written.

    Spark counts them where the files lie. Where each message begins and ends there shows that they are in order.
    """
    from pyspark.sql import functions as F

    named = written.selectExpr(message.COLUMN, f"_metadata.file_name AS {NAME}", "_metadata.row_index AS place")
    runs = named.groupBy(NAME, message.COLUMN).agg(
        F.count("*").alias(COUNT), F.min("place").alias(FIRST), F.max("place").alias(LAST)
    )
    together = runs.repartition(NAME).sortWithinPartitions(NAME, FIRST)
    rows = mapped(together, _hashing(width), "name string, messages long, sha256 string").collect()
    return sorted((row["name"], row["messages"], row["sha256"]) for row in rows)


def _hashing(width: int) -> Any:
    def run(batches: Batches) -> Batches:
        import pyarrow as pa
        import pyarrow.compute as pc

        held = list(batches)
        runs = pa.Table.from_batches(held) if held else pa.table({NAME: []})
        for name in pc.unique(runs.column(NAME)).to_pylist():
            own = runs.filter(pc.equal(runs.column(NAME), name)).combine_chunks()
            found = {"messages": [pc.sum(own.column(COUNT)).as_py()], "sha256": [sha256_of(own, width)]}
            yield pa.RecordBatch.from_pydict({NAME: [name]} | found)

    return run


def sha256_of(runs: pa.Table, width: int) -> str:
    """Of the messages of one file, from where each of them stands."""
    wire = message.wire_of(runs.column(message.COLUMN).combine_chunks(), width)
    counts, first, last = (runs.column(name).to_numpy() for name in (COUNT, FIRST, LAST))
    ends = np.cumsum(counts)
    if (first != ends - counts).any() or (last != ends - 1).any() or (np.diff(numbers_of(wire)) <= 0).any():
        raise ValueError("messages: expected a file in order of its messages, got another order.")
    hashed = hashlib.sha256()
    for piece in exact_shuffle.repeated(wire, counts):
        hashed.update(np.ascontiguousarray(piece).data)
    return hashed.hexdigest()
