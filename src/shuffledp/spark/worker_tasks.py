"""Functions that run on Spark workers, over Arrow batches: check, encode, merge and add up."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp._core.errors import error_phrase
from shuffledp._core.message_phrases import Argument, Phrase
from shuffledp._core.validation import Bytes, Integers
from shuffledp.collection import batch_processing, message_files
from shuffledp.collection.batch_processing import AccumulatedStatistic
from shuffledp.mechanisms.base.estimator import Estimator
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.spark.deterministic_rows import Batches, split_parts
from shuffledp.spark.secure_session import suppress_warnings
from shuffledp.storage import sorting
from shuffledp.tasks.column_reader import ColumnReader, Tally

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


WorkerFunction = Callable[[Batches], Batches]

COUNT_COLUMN = "count"
MESSAGES_SCHEMA = f"{message_files.MESSAGE_COLUMN} binary, {COUNT_COLUMN} long"
STATISTIC_SCHEMA = "statistic binary, messages long, refused long"
BATCH_PROPERTY, QUERY_PROPERTY = "streaming.sql.batchId", "sql.streaming.queryId"
"""Properties in which Spark gives a task the batch and the query of its stream."""


def map_batches(data: DataFrame, task: WorkerFunction, schema: str) -> DataFrame:
    """Applies a function of batches to every partition."""
    with suppress_warnings():
        return data.mapInArrow(task, schema)


def build_check_task(column: ColumnReader) -> WorkerFunction:
    """Returns a worker function that counts rows and finds the first problem; values may come with their counts."""

    def run(batches: Batches) -> Batches:
        import pyarrow as pa

        rows, problem = 0, None
        for batch in batches:
            has_counts = batch.num_columns > len(column.names)
            try:
                found = batch_processing.check_values(
                    column, [column.join_columns(batch.select(range(len(column.names))))]
                )
                rows += int(np.sum(batch.column(COUNT_COLUMN).to_numpy())) if has_counts else found
            except (ValueError, TypeError) as error:
                problem = problem or json.dumps(error_phrase(error).parts)
        yield pa.RecordBatch.from_pydict({"rows": pa.array([rows]), "problem": pa.array([problem], pa.string())})

    return run


def check_values(data: DataFrame, column: ColumnReader) -> tuple[int, Phrase | None]:
    """Returns the number of rows, and the alphabetically first message about bad ones, if any."""
    found = map_batches(data, build_check_task(column), "rows long, problem string").agg(
        {"rows": "sum", "problem": "min"}
    )
    row: Any = found.first()
    problem = row["min(problem)"]
    return int(row["sum(rows)"] or 0), None if problem is None else _parse_problem(problem)


def _parse_problem(text: str) -> Phrase:
    """Reads a message that a worker wrote as JSON, because its references to arguments must reach the driver."""
    return Phrase(tuple(part if isinstance(part, str) else Argument(*part) for part in json.loads(text)))


def count_changed_values(data: DataFrame, column: ColumnReader) -> Tally:
    """Counts the values that the column's rules change."""

    def run(batches: Batches) -> Batches:
        import pyarrow as pa

        tally = batch_processing.count_changed_values(column, map(column.join_columns, batches))
        yield pa.RecordBatch.from_pydict({"clipped": [tally.clipped], "shortened": [tally.shortened]})

    rows = map_batches(data, run, "clipped long, shortened long").groupBy().sum().collect()
    return Tally(*(int(each or 0) for each in rows[0])) if rows else Tally()


def build_encode_task(encoder: batch_processing.Encoder, keyed: bool, streams: bool = False) -> WorkerFunction:
    """Returns a worker function that encodes identified rows and counts equal messages of a task."""
    width = encoder.column.mechanism.message_bytes

    def run(batches: Batches) -> Batches:
        part_encoder = _derive_stream_encoder(encoder) if streams else encoder
        wires = (
            wire
            for part, arrays in split_parts(batches, encoder.column, keyed)
            for wire in part_encoder.encode_part(arrays, part)
        )
        yield from combine_messages(((wire, None) for wire in wires), width)

    return run


def _derive_stream_encoder(encoder: batch_processing.Encoder) -> batch_processing.Encoder:
    """Derives the encoder of this batch of this query, which shares no randomness with other batches and queries."""
    from pyspark import TaskContext

    task = TaskContext.get()
    batch, query = (
        (None, None) if task is None else (task.getLocalProperty(BATCH_PROPERTY), task.getLocalProperty(QUERY_PROPERTY))
    )
    if batch is None or query is None:
        raise ValueError("encode: expected to run in a batch of a stream, got none.")
    return replace(encoder, key=hashlib.sha256(encoder.key + f"{query}:{batch}".encode()).digest())


def combine_messages(pieces: Iterable[tuple[Bytes, Integers | None]], width: int) -> Batches:
    """Merges equal messages and adds up their counts: over a whole task, or per batch for wide messages."""
    if width <= message_files.MAX_COUNTED_BYTES:
        totals = np.zeros(1 << 8 * width, dtype=np.int64)
        for wire, counts in pieces:
            # Counts are integers far below 2^53, so that weights represent them exactly.
            totals += np.bincount(decode_numbers(wire), counts, len(totals)).astype(np.int64)
        occurring = np.flatnonzero(totals)
        if len(occurring):
            yield build_batch(occurring.astype(f">u{width}").view(np.uint8).reshape(-1, width), totals[occurring])
        return
    for wire, counts in pieces:
        if len(wire):
            yield build_batch(*merge_equal(wire, counts))


def decode_numbers(wire: Bytes) -> Integers:
    """Converts messages of one or two bytes to numbers."""
    rows = np.ascontiguousarray(wire)
    return rows.view(f">u{wire.shape[1]}").reshape(-1).astype(np.int64)


def merge_equal(wire: Bytes, counts: Integers | None) -> tuple[Bytes, Integers]:
    """Returns the distinct messages in order of their bytes, and their counts."""
    width = wire.shape[1]
    rows = np.ascontiguousarray(wire)
    if counts is None:
        ordered = sorting.sort_in_memory(rows)
        ones: Integers = np.ones(len(rows), dtype=np.int64)
    else:
        places = np.argsort(sorting.view_as_byte_strings(rows), kind="stable")
        ordered, ones = rows[places], counts[places]
    new = np.ones(len(ordered), dtype=np.bool_)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    starts = np.flatnonzero(new)
    if not len(starts):
        return ordered.reshape(0, width), ones
    return ordered[starts], np.add.reduceat(ones, starts)


def build_batch(wire: Bytes, counts: Integers) -> pa.RecordBatch:
    """Converts messages and counts to a batch for Spark, whose binary type has no fixed length."""
    import pyarrow as pa

    column = message_files.to_arrow(wire).cast(pa.binary())
    return pa.RecordBatch.from_pydict(
        {message_files.MESSAGE_COLUMN: column, COUNT_COLUMN: pa.array(counts, pa.int64())}
    )


def read_batches(batches: Batches, width: int) -> Iterator[tuple[Bytes, Integers]]:
    """Restores the arguments of ``build_batch``."""
    for batch in batches:
        if len(batch):
            counts = batch.column(batch.schema.get_field_index(COUNT_COLUMN)).to_numpy()
            yield (
                message_files.from_arrow(
                    batch.column(batch.schema.get_field_index(message_files.MESSAGE_COLUMN)), width
                ),
                counts,
            )


def sum_statistics(
    messages: DataFrame, mechanism: Mechanism, estimator: Estimator | None = None
) -> AccumulatedStatistic | None:
    """Adds up the statistics of all partitions; returns None if there are no messages."""
    rows = map_batches(messages, build_accumulate_task(mechanism, estimator), STATISTIC_SCHEMA).collect()
    if not rows:
        return None
    statistics = (np.load(io.BytesIO(row["statistic"]), allow_pickle=False) for row in rows)
    return reduce(
        add,
        (
            AccumulatedStatistic(statistic, row["messages"], row["refused"])
            for statistic, row in zip(statistics, rows, strict=True)
        ),
    )


def build_accumulate_task(mechanism: Mechanism, estimator: Estimator | None) -> WorkerFunction:
    """Returns a worker function that computes the statistic of a partition's messages."""

    def run(batches: Batches) -> Batches:
        import pyarrow as pa

        totals = [
            accumulate_counts(mechanism, estimator, *piece) for piece in read_batches(batches, mechanism.message_bytes)
        ]
        if totals:
            total = reduce(add, totals)
            statistic = io.BytesIO()
            np.save(statistic, total.statistic, allow_pickle=False)
            columns = {"statistic": [statistic.getvalue()], "messages": [total.messages], "refused": [total.refused]}
            yield pa.RecordBatch.from_pydict(columns)

    return run


def accumulate_counts(
    mechanism: Mechanism, estimator: Estimator | None, wire: Bytes, counts: Integers
) -> AccumulatedStatistic:
    """Returns the statistic of messages with these counts.

    Statistics are additive: for each bit, the messages whose count has it are accumulated once and multiplied.
    """
    good = mechanism.valid(wire)
    refused, wire, counts = int(counts[~good].sum()), wire[good], counts[good]
    estimator_used = mechanism.estimator if estimator is None else estimator
    total = AccumulatedStatistic(np.asarray(estimator_used.accumulate(mechanism.unpack(wire[:0]))), 0, refused)
    for bit in range(int(counts.max(initial=0)).bit_length()):
        selected = wire[(counts >> bit) & 1 == 1]
        if len(selected):
            statistic = np.asarray(estimator_used.accumulate(mechanism.unpack(selected)))
            total += AccumulatedStatistic(statistic * statistic.dtype.type(1 << bit), len(selected) << bit, 0)
    return total
