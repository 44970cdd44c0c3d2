"""Data frames as input and as messages: reading them, identifying rows, and the functions that workers run.

The randomness of a row depends on the job's key and on the row's identity: its key column, or its place in a query plan
whose partitions and order are fixed. Rows with neither are refused: a retry would randomize them a second time.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import groupby, pairwise
from operator import add, itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp._core.validation import Bytes, Integers
from shuffledp.collection import batch_processing, message_files
from shuffledp.collection.batch_processing import AccumulatedStatistic
from shuffledp.collection.engine import EngineError
from shuffledp.collection.input.base import MAX_NAMES_SHOWN, Table, is_address
from shuffledp.mechanisms.base.estimator import Estimator
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.spark.secure_session import convert_spark_errors, suppress_warnings
from shuffledp.storage import sorting
from shuffledp.tasks.column_reader import ColumnReader, Tally

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column as Expression, DataFrame, SparkSession


# --- Inputs that Spark reads itself ---


TABLE_PREFIX = "table"
FORMATS = ("avro", "csv", "delta", "iceberg", "json", "orc", "parquet")
"""Formats that may precede an address, with a colon."""
FORMAT_BY_SUFFIX = {".csv": "csv", ".tsv": "csv", ".csv.gz": "csv", ".json": "json", ".orc": "orc", ".avro": "avro"}
CSV_OPTIONS = {"header": "true", "escape": '"', "multiLine": "true", "mode": "FAILFAST"}
"""Options for CSV as elsewhere in the package: a header, doubled quotes, and an error for a bad row."""


def is_for_spark(path: Any) -> bool:
    """Returns True if only Spark can read it: an address, ``table:NAME``, or a format and an address."""
    return isinstance(path, str) and (is_address(path) or _split_format(path)[0] is not None)


def read_frame(session: SparkSession, paths: Sequence[str], delimiter: str | None = None) -> DataFrame:
    """Returns the rows of all inputs, which must have one format."""
    kinds = {_find_format(path) for path in paths}
    if len(kinds) != 1:
        raise ValueError(f"input: expected inputs of one format, got {', '.join(sorted(kinds))}.")
    (kind,) = kinds
    places = [_split_format(path)[1] for path in paths]
    with convert_spark_errors("reading the input"):
        if kind == TABLE_PREFIX:
            if len(places) > 1:
                raise ValueError(f"input: expected one table, got {len(places)}.")
            return session.table(places[0])
        if kind in ("delta", "iceberg"):
            if len(places) > 1:
                raise ValueError(f"input: expected one {kind} table, got {len(places)}.")
            return _read_extension_format(session, kind, places[0])
        reader = session.read.options(**CSV_OPTIONS) if kind == "csv" else session.read
        if kind == "csv" and (delimiter or places[0].endswith(".tsv")):
            reader = reader.option("sep", delimiter or "\t")
        return reader.format(kind).load(places)


def _read_extension_format(session: SparkSession, kind: str, place: str) -> DataFrame:
    """Reads a table of a format that does not come with Spark."""
    try:
        return session.read.format(kind).load(place)
    except Exception as error:
        if "DATA_SOURCE_NOT_FOUND" in str(error) or "ClassNotFoundException" in str(error):
            raise EngineError(
                f"input: Spark cannot read {kind} here; add its package to the session (spark.jars.packages)."
            ) from None
        raise


def _find_format(path: str) -> str:
    named = _split_format(path)[0]
    return named or next((kind for suffix, kind in FORMAT_BY_SUFFIX.items() if path.endswith(suffix)), "parquet")


def _split_format(path: str) -> tuple[str | None, str]:
    """Returns the format before an address, or None, and the address."""
    kind, colon, rest = path.partition(":")
    if colon and (kind == TABLE_PREFIX or (kind in FORMATS and is_address(rest))):
        return kind, rest
    return None, path


Batches = Iterator["pa.RecordBatch"]
NumberedBatches = Iterator[tuple[int, "pa.RecordBatch"]]

BUCKET_COUNT = 64
"""Number of parts into which rows are divided by the hash of their key; the same on every machine."""
TASK_BYTES = 8 << 20
"""Approximate size of the rows with a key per task; a task takes several small buckets."""
FIRST_HASH_COLUMN, SECOND_HASH_COLUMN, PART_COLUMN = "shuffledp first hash", "shuffledp second hash", "shuffledp part"
ORDER_DEPENDENT_STEPS = {"Deduplicate", "GlobalLimit", "LocalLimit", "Offset", "Sample", "Tail"}
"""Steps of a query plan that take the rows that come first."""
ORDER_DEPENDENT_PATTERN = re.compile(r"\b(first|last|any_value|first_value|last_value|collect_list|collect_set)\(")
STABLE_LEAVES = {"LocalRelation", "LogicalRDD", "OneRowRelation", "Range"}
STABLE_RELATIONS = {"HadoopFsRelation"}
ROWWISE_STEPS = {
    "EventTimeWatermark", "Filter", "Project", "StreamingRelation", "StreamingRelationV2", "SubqueryAlias", "View",
}  # fmt: skip
WRITE_FILES_ADVICE = "write the data frame to files once, and read those"


class NotRepeatable(ValueError):
    """A data frame whose rows, or their randomness, a retry might change."""


def identify_rows(frame: DataFrame, columns: Sequence[str], key: Sequence[str]) -> DataFrame:
    """Selects columns so that the rows of every partition, and their order, are the same whenever they are computed.

    With a key, rows are arranged by its hash, which is added as columns; otherwise they stay as they are in files.
    """
    check_columns(frame, [*columns, *key])
    check_deterministic(frame)
    if key:
        return _arrange_by_key(frame, columns, key)
    from pyspark.sql import functions as F

    # Not the number of the task: a union or a coalesce would change it.
    chosen = frame.select(*map(quote_name, columns), F.spark_partition_id().alias(PART_COLUMN))
    if frame.isStreaming:
        _check_rowwise_stream(chosen)
        return chosen
    return _pin_partitions(chosen)


def split_parts(batches: Batches, column: ColumnReader, keyed: bool) -> Iterator[tuple[int, Iterator[pa.Array]]]:
    """Yields the number and the rows of each part of the input, in order: a bucket of keys, or a partition of files."""
    pieces = _split_buckets(batches) if keyed else _split_partitions(batches)
    for part, own in groupby(pieces, key=itemgetter(0)):
        yield part, (column.join_columns(batch) for _, batch in own)


def quote_name(name: str) -> str:
    """Quotes a column name for Spark, so that dots and symbols are part of it."""
    return f"`{name.replace('`', '``')}`"


def check_columns(frame: DataFrame, wanted: Sequence[str]) -> None:
    """Raises ValueError if one of these columns is missing or occurs twice."""
    names = frame.columns
    for name in wanted:
        if name not in names:
            shown = ", ".join(names[:MAX_NAMES_SHOWN]) + (", …" if len(names) > MAX_NAMES_SHOWN else "")
            raise ValueError(f"input: the data frame has no column {name!r}; it has {shown}.")
        if sum(name.casefold() == each.casefold() for each in names) > 1:
            raise ValueError(f"input: the data frame has several columns {name!r}; give each its own name.")


# --- Rows identified by a key ---


def _arrange_by_key(frame: DataFrame, columns: Sequence[str], key: Sequence[str]) -> DataFrame:
    """Arranges rows in buckets by the hash of their key, sorted by two hashes: a function of the rows alone."""
    from pyspark.sql import functions as F

    if frame.isStreaming:
        raise ValueError("encode: rows of a stream are identified by their place in the source; leave out key.")
    _check_order_independent(frame)
    hashed = frame.select(*map(quote_name, columns), *_hash_columns(key))
    bucket = F.pmod(F.col(f"`{FIRST_HASH_COLUMN}`"), F.lit(BUCKET_COUNT)).cast("int")
    # A row without a key has no hash: it goes to any bucket, to be refused there. Spark never changes a number of
    # partitions that is given; otherwise it might divide them differently.
    tasks = _count_tasks(frame)
    placed = hashed.repartitionById(tasks, F.coalesce(bucket % tasks, F.lit(0)))
    return placed.sortWithinPartitions(bucket, f"`{FIRST_HASH_COLUMN}`", f"`{SECOND_HASH_COLUMN}`")


def _count_tasks(frame: DataFrame) -> int:
    """Returns the number of tasks for the buckets; messages do not depend on it, and every task costs time."""
    plan: Any = getattr(frame, "_jdf", None)
    if plan is None:
        return BUCKET_COUNT
    size = int(plan.queryExecution().optimizedPlan().stats().sizeInBytes())
    return min(BUCKET_COUNT, max(frame.sparkSession.sparkContext.defaultParallelism, -(-size // TASK_BYTES)))


def _hash_columns(key: Sequence[str]) -> list[Expression]:
    """Returns two hashes of 64 bits; rows that agree in both are taken to have the same key."""
    from pyspark.sql import functions as F

    names = list(map(quote_name, key))
    is_complete = F.lit(True)
    for name in names:
        is_complete = is_complete & F.col(name).isNotNull()
    first = F.when(is_complete, F.xxhash64(*names))
    return [first.alias(FIRST_HASH_COLUMN), F.xxhash64(F.lit("again"), *names).alias(SECOND_HASH_COLUMN)]


def _split_buckets(batches: Batches) -> NumberedBatches:
    """Yields sorted batches, cut where a bucket ends, without the hashes; raises ValueError if a key occurs twice."""
    last: tuple[int, int] | None = None
    for batch in batches:
        if not len(batch):
            continue
        if batch.column(FIRST_HASH_COLUMN).null_count:
            raise ValueError("key: expected a key in every row, got rows without one.")
        first, second = (batch.column(name).to_numpy() for name in (FIRST_HASH_COLUMN, SECOND_HASH_COLUMN))
        again = (first[1:] == first[:-1]) & (second[1:] == second[:-1])
        if again.any() or last == (first[0], second[0]):
            raise ValueError(
                "key: expected a different key in every row, got one twice; name columns that distinguish rows."
            )
        last = (int(first[-1]), int(second[-1]))
        yield from _split_by_number(batch.select(batch.schema.names[:-2]), first % BUCKET_COUNT)


def _split_by_number(batch: pa.RecordBatch, numbers: Integers) -> NumberedBatches:
    """Yields the rows of each number, which must be contiguous."""
    starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(batch)]
    for start, stop in pairwise(starts):
        yield int(numbers[start]), batch.slice(start, stop - start)


# --- Rows identified by their place in files ---


def _split_partitions(batches: Batches) -> NumberedBatches:
    """Yields batches with the number of their partition, which is in every row."""
    for batch in batches:
        if len(batch):
            yield from _split_by_number(batch.select(batch.schema.names[:-1]), batch.column(PART_COLUMN).to_numpy())


def _pin_partitions(frame: DataFrame) -> DataFrame:
    """Returns the same rows with the partitions fixed as they are planned now, whatever settings change later."""
    plan: Any = getattr(frame, "_jdf", None)
    if plan is None:
        raise NotRepeatable(
            "encode: over Spark Connect the order of rows is unknown; name a column that distinguishes rows (key)."
        )
    execution = plan.queryExecution()
    _check_sources(execution.optimizedPlan())
    rows = execution.toRdd()
    if rows.outputDeterministicLevel().toString() != "DETERMINATE":
        raise NotRepeatable(
            "encode: expected rows whose order a retry repeats, got a data frame that was joined, sorted, grouped or "
            f"repartitioned; name a column that distinguishes rows (key), or {WRITE_FILES_ADVICE}."
        )
    from pyspark.sql import DataFrame as Frame

    session: Any = frame.sparkSession
    return Frame(session._jsparkSession.internalCreateDataFrame(rows, plan.schema(), False), session)


def _check_rowwise_stream(frame: DataFrame) -> None:
    """Raises NotRepeatable unless a stream only selects and computes from each row of its source alone."""
    plan: Any = getattr(frame, "_jdf", None)
    others = set() if plan is None else set(_list_steps(plan.queryExecution().analyzed())) - ROWWISE_STEPS
    if others:
        raise NotRepeatable(
            "encode: expected a stream of rows in the order of their source, got one with "
            f"{', '.join(sorted(others))}; encode it before."
        )


def _check_sources(plan: Any) -> None:
    """Raises NotRepeatable for a source without a fixed order, such as a database; files and local data have one."""
    leaves = plan.collectLeaves().iterator()
    while leaves.hasNext():
        leaf = leaves.next()
        kind = leaf.getClass().getSimpleName()
        if kind == "InMemoryRelation":
            _check_sources(leaf.cacheBuilder().logicalPlan())
        elif kind == "LogicalRelation":
            kind = leaf.relation().getClass().getSimpleName()
            _require_stable(kind, kind in STABLE_RELATIONS)
        elif kind.startswith("DataSourceV2"):
            origin = (leaf.scan() if kind == "DataSourceV2ScanRelation" else leaf.table()).getClass().getName()
            known = ("org.apache.spark.sql.execution.datasources.v2.", "org.apache.iceberg.")
            _require_stable(origin.rpartition(".")[2], origin.startswith(known) and ".jdbc." not in origin)
        else:
            _require_stable(kind, kind in STABLE_LEAVES)


def _require_stable(kind: str, is_stable: bool) -> None:
    if not is_stable:
        raise NotRepeatable(
            f"encode: expected rows of files, whose order a retry repeats, got a source ({kind}) without one; "
            f"name a column that distinguishes rows (key), or {WRITE_FILES_ADVICE}."
        )


# --- Data frames that are not repeatable ---


def check_deterministic(frame: DataFrame) -> None:
    """Raises NotRepeatable if the query itself draws at random, or numbers rows as they come."""
    plan: Any = getattr(frame, "_jdf", None)
    if plan is not None and not plan.queryExecution().analyzed().deterministic():
        raise NotRepeatable(
            "encode: expected a data frame that is the same whenever it is computed, got one that draws at random or "
            f"numbers rows as they come (rand, uuid, monotonically_increasing_id, …); {WRITE_FILES_ADVICE}."
        )


def _check_order_independent(frame: DataFrame) -> None:
    """Raises NotRepeatable if the rows or their values depend on the order in which Spark finds them."""
    plan: Any = getattr(frame, "_jdf", None)
    if plan is None:
        return
    analyzed = plan.queryExecution().analyzed()
    steps = sorted(ORDER_DEPENDENT_STEPS.intersection(_list_steps(analyzed)))
    if steps or ORDER_DEPENDENT_PATTERN.search(analyzed.toString()):
        examples = "limit, sample, dropDuplicates, first, …"
        raise NotRepeatable(
            f"encode: expected a data frame that does not depend on the order of rows, got one with {examples}; "
            f"{WRITE_FILES_ADVICE}."
        )


def _list_steps(plan: Any) -> Iterator[str]:
    yield plan.getClass().getSimpleName()
    children = plan.children().iterator()
    while children.hasNext():
        yield from _list_steps(children.next())


# --- Data frames of messages with their counts ---
#
# Equal messages of a task are counted before they leave it: there is no order among them, and nothing is moved twice.


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


# --- Checking ---


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
                problem = problem or str(error)
        yield pa.RecordBatch.from_pydict({"rows": pa.array([rows]), "problem": pa.array([problem], pa.string())})

    return run


def check_values(data: DataFrame, column: ColumnReader) -> tuple[int, str | None]:
    """Returns the number of rows, and the alphabetically first message about bad ones, if any."""
    found = map_batches(data, build_check_task(column), "rows long, problem string").agg(
        {"rows": "sum", "problem": "min"}
    )
    row: Any = found.first()
    return int(row["sum(rows)"] or 0), row["min(problem)"]


def count_changed_values(data: DataFrame, column: ColumnReader) -> Tally:
    """Counts the values that the column's rules change."""

    def run(batches: Batches) -> Batches:
        import pyarrow as pa

        tally = batch_processing.count_changed_values(column, map(column.join_columns, batches))
        yield pa.RecordBatch.from_pydict({"clipped": [tally.clipped], "shortened": [tally.shortened]})

    rows = map_batches(data, run, "clipped long, shortened long").groupBy().sum().collect()
    return Tally(*(int(each or 0) for each in rows[0])) if rows else Tally()


# --- Encoding ---


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


# --- Aggregating ---


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


# --- A data frame as a table ---


MAX_DISTINCT_VALUES = 1 << 16
COUNTABLE = {"tinyint", "smallint", "int", "bigint", "string", "boolean"}
"""Types of columns that can have few distinct values."""
HASH_MODULUS = (1 << 61) - 1
DIGIT_BITS = 21


@dataclass(frozen=True, eq=False)
class FrameTable(Table):
    """The rows of a data frame, identified by a key or by their place in files; they stay on the cluster."""

    frame: DataFrame
    key: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return "the data frame"

    def names(self) -> list[str]:
        return [name for name in self.frame.columns if name not in self.key]

    def read(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        raise ValueError(
            "input: the rows of a data frame are not read here; choose, drop or gather them in Spark first, and "
            "use --engine spark."
        )

    def fingerprint(self) -> dict[str, Any]:
        """Returns the number of rows and the sum of their hashes over all columns, as at the first call."""
        return dict(self._fingerprint)

    @cached_property
    def _fingerprint(self) -> dict[str, Any]:
        from pyspark.sql import functions as F

        names = list(map(quote_name, self.frame.columns))
        hashed = self.frame.select(F.xxhash64(*names).alias("hash"))
        folded = F.pmod(F.col("hash"), F.lit(HASH_MODULUS))
        # Sums integers of 61 bits by thirds, none of which comes near 2^63: decimals take ten times as long.
        thirds = [
            F.shiftright(folded, DIGIT_BITS * place).bitwiseAND(F.lit((1 << DIGIT_BITS) - 1)) for place in range(3)
        ]
        row: Any = hashed.agg(F.count("*"), F.bit_xor("hash"), *map(F.sum, thirds)).first()
        total = sum(int(third or 0) << DIGIT_BITS * place for place, third in enumerate(row[2:]))
        return {"rows": int(row[0]), "sum": str(total), "xor": int(row[1] or 0), "columns": self.frame.columns}

    # --- On the cluster ---

    def select_columns(self, columns: Sequence[str]) -> FrameTable:
        """Returns the table with only these columns and the key."""
        check_columns(self.frame, [*columns, *self.key])
        return FrameTable(self.frame.select(*map(quote_name, (*columns, *self.key))), self.key)

    def identify_rows(self, column: ColumnReader) -> DataFrame:
        """Returns its rows in partitions and an order that a retry repeats."""
        return identify_rows(self.frame, column.names, self.key)

    def check(self, column: ColumnReader) -> int:
        """Returns the number of rows; raises ValueError if a value is not as planned."""
        values = self.frame.select(*map(quote_name, column.names))
        rows, problem = check_values(self._count_distinct(column) or values, column)
        if problem is not None:
            # The distinct values do not show how many rows hold them.
            _, row_problem = check_values(values, column)
            raise ValueError(f"{self.title}, {row_problem or problem}")
        return rows

    def _count_distinct(self, column: ColumnReader) -> DataFrame | None:
        """Returns the distinct values with their counts if they are few: Spark counts them without leaving Java."""
        kinds = {name: kind for name, kind in self.frame.dtypes if name in column.names}
        size = column.task.domain.size
        if len(column.names) > 1 or size is None or size > MAX_DISTINCT_VALUES or set(kinds.values()) - COUNTABLE:
            return None
        return self.frame.groupBy(quote_name(column.names[0])).count().withColumnRenamed("count", COUNT_COLUMN)
