"""Checks that the rows of a Spark data frame are the same each time they are computed, which retries need."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp._core.validation import Integers
from shuffledp.collection.input.base import MAX_NAMES_SHOWN
from shuffledp.tasks.column_reader import ColumnReader

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column as Expression, DataFrame


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
