"""Data frames of messages: each message with how often it was sent, from the values of a data frame to a statistic.

Equal messages of a task are counted before they leave it: there is no order among them, and nothing is moved twice.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp.array import Bytes, Integers
from shuffledp.collection import external_sort, kernel, message, shuffling
from shuffledp.collection.cluster import row_identity
from shuffledp.collection.engine.spark_session import quiet
from shuffledp.collection.kernel import Total
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.parts.reading import Reading
from shuffledp.tasks.column import Column, Tally

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

Batches = Iterator["pa.RecordBatch"]
Work = Callable[[Batches], Batches]

COUNT = "count"
SCHEMA = f"{message.COLUMN} binary, {COUNT} long"
STATISTIC = "statistic binary, messages long, refused long"
BATCH, QUERY = "streaming.sql.batchId", "sql.streaming.queryId"
"""What Spark tells a task of the stream that it works on."""


def mapped(data: DataFrame, work: Work, schema: str) -> DataFrame:
    """A function of batches on every partition."""
    with quiet():
        return data.mapInArrow(work, schema)


# --- checking -----------------------------------------------------------------------------------------------------


def checking(column: Column) -> Work:
    """How many rows there are, and what is wrong with them; values may stand there with how often they occur."""

    def run(batches: Batches) -> Batches:
        import pyarrow as pa

        rows, problem = 0, None
        for batch in batches:
            has_counts = batch.num_columns > len(column.names)
            try:
                found = kernel.check(column, [column.array(batch.select(range(len(column.names))))])
                rows += int(np.sum(batch.column(COUNT).to_numpy())) if has_counts else found
            except (ValueError, TypeError) as error:
                problem = problem or str(error)
        yield pa.RecordBatch.from_pydict({"rows": pa.array([rows]), "problem": pa.array([problem], pa.string())})

    return run


def checked(data: DataFrame, column: Column) -> tuple[int, str | None]:
    """How many rows there are, and the first of the sentences about bad ones."""
    found = mapped(data, checking(column), "rows long, problem string").agg({"rows": "sum", "problem": "min"})
    told: Any = found.first()
    return int(told["sum(rows)"] or 0), told["min(problem)"]


def tallied(data: DataFrame, column: Column) -> Tally:
    """How many values become others by the column's rules."""

    def run(batches: Batches) -> Batches:
        import pyarrow as pa

        told = kernel.counted(column, map(column.array, batches))
        yield pa.RecordBatch.from_pydict({"clipped": [told.clipped], "shortened": [told.shortened]})

    rows = mapped(data, run, "clipped long, shortened long").groupBy().sum().collect()
    return Tally(*(int(each or 0) for each in rows[0])) if rows else Tally()


# --- encoding -----------------------------------------------------------------------------------------------------


def encoding(encoder: kernel.Encoder, keyed: bool, streams: bool = False) -> Work:
    """Messages of rows whose identity is fixed, each with how often it occurs in this task."""
    width = encoder.column.mechanism.message_bytes

    def run(batches: Batches) -> Batches:
        own = _in_stream(encoder) if streams else encoder
        wires = (
            wire
            for part, arrays in row_identity.parts(batches, encoder.column, keyed)
            for wire in own.part(arrays, part)
        )
        yield from combined(((wire, None) for wire in wires), width)

    return run


def _in_stream(encoder: kernel.Encoder) -> kernel.Encoder:
    """Who encodes in this batch of this query: neither another batch nor another query shares what it draws."""
    from pyspark import TaskContext

    task = TaskContext.get()
    batch, query = (None, None) if task is None else (task.getLocalProperty(BATCH), task.getLocalProperty(QUERY))
    if batch is None or query is None:
        raise ValueError("encode: expected to run in a batch of a stream, got none.")
    return replace(encoder, key=hashlib.sha256(encoder.key + f"{query}:{batch}".encode()).digest())


def combined(pieces: Iterable[tuple[Bytes, Integers | None]], width: int) -> Batches:
    """Messages and how often they occur, with equal ones taken together: all of a task, or of a batch of wide ones."""
    if width <= shuffling.COUNTED_BYTES:
        totals = np.zeros(1 << 8 * width, dtype=np.int64)
        for wire, counts in pieces:
            # Counts are whole numbers far below 2^53, which weights keep.
            totals += np.bincount(numbers_of(wire), counts, len(totals)).astype(np.int64)
        there = np.flatnonzero(totals)
        if len(there):
            yield batch_of(there.astype(f">u{width}").view(np.uint8).reshape(-1, width), totals[there])
        return
    for wire, counts in pieces:
        if len(wire):
            yield batch_of(*merged(wire, counts))


def numbers_of(wire: Bytes) -> Integers:
    """Messages of one or two bytes as numbers."""
    rows = np.ascontiguousarray(wire)
    return rows.view(f">u{wire.shape[1]}").reshape(-1).astype(np.int64)


def merged(wire: Bytes, counts: Integers | None) -> tuple[Bytes, Integers]:
    """Different messages in order of their bytes, and how often each occurs."""
    width = wire.shape[1]
    rows = np.ascontiguousarray(wire)
    if counts is None:
        ordered = external_sort.in_order(rows)
        ones: Integers = np.ones(len(rows), dtype=np.int64)
    else:
        places = np.argsort(external_sort.texts_of(rows), kind="stable")
        ordered, ones = rows[places], counts[places]
    new = np.ones(len(ordered), dtype=np.bool_)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    starts = np.flatnonzero(new)
    if not len(starts):
        return ordered.reshape(0, width), ones
    return ordered[starts], np.add.reduceat(ones, starts)


def batch_of(wire: Bytes, counts: Integers) -> pa.RecordBatch:
    """Messages with their counts for Spark, whose bytes have no fixed length."""
    import pyarrow as pa

    column = message.array_of(wire).cast(pa.binary())
    return pa.RecordBatch.from_pydict({message.COLUMN: column, COUNT: pa.array(counts, pa.int64())})


def pieces_of(batches: Batches, width: int) -> Iterator[tuple[Bytes, Integers]]:
    """The inverse of ``batch_of``."""
    for batch in batches:
        if len(batch):
            counts = batch.column(batch.schema.get_field_index(COUNT)).to_numpy()
            yield message.wire_of(batch.column(batch.schema.get_field_index(message.COLUMN)), width), counts


# --- reading ------------------------------------------------------------------------------------------------------


def total(messages: DataFrame, mechanism: Mechanism, reading: Reading | None = None) -> Total | None:
    """The statistic of all messages: one from each partition, added up here; None of no messages."""
    found = mapped(messages, accumulating(mechanism, reading), STATISTIC).collect()
    if not found:
        return None
    statistics = (np.load(io.BytesIO(row["statistic"]), allow_pickle=False) for row in found)
    return reduce(
        add, (Total(one, row["messages"], row["refused"]) for one, row in zip(statistics, found, strict=True))
    )


def accumulating(mechanism: Mechanism, reading: Reading | None) -> Work:
    """The statistic of a partition's messages."""

    def run(batches: Batches) -> Batches:
        import pyarrow as pa

        totals = [weighed(mechanism, reading, *piece) for piece in pieces_of(batches, mechanism.message_bytes)]
        if totals:
            found = reduce(add, totals)
            statistic = io.BytesIO()
            np.save(statistic, found.statistic, allow_pickle=False)
            columns = {"statistic": [statistic.getvalue()], "messages": [found.messages], "refused": [found.refused]}
            yield pa.RecordBatch.from_pydict(columns)

    return run


def weighed(mechanism: Mechanism, reading: Reading | None, wire: Bytes, counts: Integers) -> Total:
    """The statistic of messages that occur so often each.

    Statistics add up: those whose count has a bit are added up once, and taken as often as the bit says.
    """
    good = mechanism.valid(wire)
    refused, wire, counts = int(counts[~good].sum()), wire[good], counts[good]
    server = mechanism.reading if reading is None else reading
    found = Total(np.asarray(server.accumulate(mechanism.unpack(wire[:0]))), 0, refused)
    for bit in range(int(counts.max(initial=0)).bit_length()):
        chosen = wire[(counts >> bit) & 1 == 1]
        if len(chosen):
            once = np.asarray(server.accumulate(mechanism.unpack(chosen)))
            found += Total(once * once.dtype.type(1 << bit), len(chosen) << bit, 0)
    return found
