"""Who a row is where a table has no order: what its randomness depends on besides the job's key.

Either a key column says it, or the row's place in a plan whose partitions and order are fixed. What can be neither is
refused: a retry would randomize such rows a second time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp.array import Integers
from shuffledp.collection.input.table import NAMES_SHOWN

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column as Expression, DataFrame

    from shuffledp.tasks.column import Column

Batches = Iterator["pa.RecordBatch"]
Batched = Iterator[tuple[int, "pa.RecordBatch"]]

BUCKETS = 64
"""Parts into which rows with a key are divided by its hash: always as many, whatever the machine."""
TASK_BYTES = 8 << 20
"""Of rows with a key that a task takes, about: a task takes several buckets where they are small."""
FIRST, SECOND, PART = "shuffledp first hash", "shuffledp second hash", "shuffledp part"
BY_ORDER = {"Deduplicate", "GlobalLimit", "LocalLimit", "Offset", "Sample", "Tail"}
"""Steps of a plan that take whatever rows come first."""
OF_SOME_ROW = re.compile(r"\b(first|last|any_value|first_value|last_value|collect_list|collect_set)\(")
STABLE_LEAVES = {"LocalRelation", "LogicalRDD", "OneRowRelation", "Range"}
STABLE_RELATIONS = {"HadoopFsRelation"}
PLAIN_STEPS = {
    "EventTimeWatermark", "Filter", "Project", "StreamingRelation", "StreamingRelationV2", "SubqueryAlias", "View",
}  # fmt: skip
INSTEAD = "write the data frame to files once, and read those"


class NotRepeatable(ValueError):
    """A data frame of which a retry might give other rows, or the same ones to other randomness."""


def identified(frame: DataFrame, columns: Sequence[str], key: Sequence[str]) -> DataFrame:
    """These columns, arranged so that every partition's rows, in their order, are the same whenever they are made.

    By the hash of the key where there is one, which then stands beside the values; else as they stand in files.
    """
    demand_columns(frame, [*columns, *key])
    demand_deterministic(frame)
    if key:
        return _by_key(frame, columns, key)
    from pyspark.sql import functions as F

    # Not the number of the task: a union or a coalesce would give the partition another one.
    chosen = frame.select(*map(quoted, columns), F.spark_partition_id().alias(PART))
    if frame.isStreaming:
        _demand_plain_stream(chosen)
        return chosen
    return _pinned(chosen)


def parts(batches: Batches, column: Column, keyed: bool) -> Iterator[tuple[int, Iterator[pa.Array]]]:
    """Each part of the input with its number and its rows, in order: a bucket of keys, or a partition of files."""
    pieces = _pieces(batches) if keyed else _partitions(batches)
    for part, own in groupby(pieces, key=itemgetter(0)):
        yield part, (column.array(batch) for _, batch in own)


def quoted(name: str) -> str:
    """A column's name as Spark reads it: dots and signs are part of it."""
    return f"`{name.replace('`', '``')}`"


def demand_columns(frame: DataFrame, wanted: Sequence[str]) -> None:
    """Stop if one of these columns is not there, or twice."""
    names = frame.columns
    for name in wanted:
        if name not in names:
            shown = ", ".join(names[:NAMES_SHOWN]) + (", …" if len(names) > NAMES_SHOWN else "")
            raise ValueError(f"input: the data frame has no column {name!r}; it has {shown}.")
        if sum(name.casefold() == each.casefold() for each in names) > 1:
            raise ValueError(f"input: the data frame has several columns {name!r}; give each its own name.")


# --- by a key -----------------------------------------------------------------------------------------------------


def _by_key(frame: DataFrame, columns: Sequence[str], key: Sequence[str]) -> DataFrame:
    """Rows in buckets of their keys' hash, in order of two hashes: a function of the rows alone."""
    from pyspark.sql import functions as F

    if frame.isStreaming:
        raise ValueError("encode: a stream is known by its place in the source; leave key out.")
    _demand_whatever_order(frame)
    hashed = frame.select(*map(quoted, columns), *_hashes(key))
    bucket = F.pmod(F.col(f"`{FIRST}`"), F.lit(BUCKETS)).cast("int")
    # A row without a key has no hash: it goes anywhere, to be refused there. A number that is given is never changed by
    # Spark, which might divide partitions otherwise.
    tasks = _tasks(frame)
    placed = hashed.repartitionById(tasks, F.coalesce(bucket % tasks, F.lit(0)))
    return placed.sortWithinPartitions(bucket, f"`{FIRST}`", f"`{SECOND}`")


def _tasks(frame: DataFrame) -> int:
    """How many tasks take the buckets, each of them whole: messages do not depend on it, and every task costs time."""
    plan: Any = getattr(frame, "_jdf", None)
    if plan is None:
        return BUCKETS
    size = int(plan.queryExecution().optimizedPlan().stats().sizeInBytes())
    return min(BUCKETS, max(frame.sparkSession.sparkContext.defaultParallelism, -(-size // TASK_BYTES)))


def _hashes(key: Sequence[str]) -> list[Expression]:
    """Two hashes of 64 bits: rows that have both in common have the same key."""
    from pyspark.sql import functions as F

    names = list(map(quoted, key))
    there = F.lit(True)
    for name in names:
        there = there & F.col(name).isNotNull()
    first = F.when(there, F.xxhash64(*names))
    return [first.alias(FIRST), F.xxhash64(F.lit("again"), *names).alias(SECOND)]


def _pieces(batches: Batches) -> Batched:
    """Batches in order of their hashes, cut where a bucket ends, without the hashes; no key may be there twice."""
    last: tuple[int, int] | None = None
    for batch in batches:
        if not len(batch):
            continue
        if batch.column(FIRST).null_count:
            raise ValueError("key: expected a key in every row, got rows without one.")
        first, second = (batch.column(name).to_numpy() for name in (FIRST, SECOND))
        again = (first[1:] == first[:-1]) & (second[1:] == second[:-1])
        if again.any() or last == (first[0], second[0]):
            raise ValueError("key: expected a different key in every row, got one twice; name what tells rows apart.")
        last = (int(first[-1]), int(second[-1]))
        yield from _cut(batch.select(batch.schema.names[:-2]), first % BUCKETS)


def _cut(batch: pa.RecordBatch, numbers: Integers) -> Batched:
    """The rows of each number, which stand together."""
    starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(batch)]
    for start, stop in pairwise(starts):
        yield int(numbers[start]), batch.slice(start, stop - start)


# --- by the place in files ----------------------------------------------------------------------------------------


def _partitions(batches: Batches) -> Batched:
    """Batches with the number of their partition, which stands in every row."""
    for batch in batches:
        if len(batch):
            yield from _cut(batch.select(batch.schema.names[:-1]), batch.column(PART).to_numpy())


def _pinned(frame: DataFrame) -> DataFrame:
    """The same rows, with partitions as they are planned now: whatever is set later, and whoever reads it."""
    plan: Any = getattr(frame, "_jdf", None)
    if plan is None:
        raise NotRepeatable(
            "encode: over Spark Connect the order of rows cannot be seen; name a column that tells rows apart (key)."
        )
    execution = plan.queryExecution()
    _demand_stable_leaves(execution.optimizedPlan())
    rows = execution.toRdd()
    if rows.outputDeterministicLevel().toString() != "DETERMINATE":
        raise NotRepeatable(
            "encode: expected rows whose order a retry repeats, got a data frame that was joined, sorted, grouped or "
            f"repartitioned; name a column that tells rows apart (key), or {INSTEAD}."
        )
    from pyspark.sql import DataFrame as Frame

    session: Any = frame.sparkSession
    return Frame(session._jsparkSession.internalCreateDataFrame(rows, plan.schema(), False), session)


def _demand_plain_stream(frame: DataFrame) -> None:
    """Rows of a stream as its source gives them: what is chosen and computed from each alone."""
    plan: Any = getattr(frame, "_jdf", None)
    others = set() if plan is None else set(_steps(plan.queryExecution().analyzed())) - PLAIN_STEPS
    if others:
        raise NotRepeatable(
            "encode: expected a stream of rows in the order of their source, got one with "
            f"{', '.join(sorted(others))}; encode it before."
        )


def _demand_stable_leaves(plan: Any) -> None:
    """Files and data of the driver have an order; a database or a service has none."""
    leaves = plan.collectLeaves().iterator()
    while leaves.hasNext():
        leaf = leaves.next()
        kind = leaf.getClass().getSimpleName()
        if kind == "InMemoryRelation":
            _demand_stable_leaves(leaf.cacheBuilder().logicalPlan())
        elif kind == "LogicalRelation":
            kind = leaf.relation().getClass().getSimpleName()
            _demand_stable(kind, kind in STABLE_RELATIONS)
        elif kind.startswith("DataSourceV2"):
            origin = (leaf.scan() if kind == "DataSourceV2ScanRelation" else leaf.table()).getClass().getName()
            known = ("org.apache.spark.sql.execution.datasources.v2.", "org.apache.iceberg.")
            _demand_stable(origin.rpartition(".")[2], origin.startswith(known) and ".jdbc." not in origin)
        else:
            _demand_stable(kind, kind in STABLE_LEAVES)


def _demand_stable(kind: str, is_stable: bool) -> None:
    if not is_stable:
        raise NotRepeatable(
            f"encode: expected rows of files, whose order a retry repeats, got a source ({kind}) that promises none; "
            f"name a column that tells rows apart (key), or {INSTEAD}."
        )


# --- what would randomize twice -----------------------------------------------------------------------------------


def demand_deterministic(frame: DataFrame) -> None:
    """A sentence where the plan itself draws at random, or numbers rows as they come."""
    plan: Any = getattr(frame, "_jdf", None)
    if plan is not None and not plan.queryExecution().analyzed().deterministic():
        raise NotRepeatable(
            "encode: expected a data frame that is the same whenever it is computed, got one that draws at random or "
            f"numbers rows as they come (rand, uuid, monotonically_increasing_id, …); {INSTEAD}."
        )


def _demand_whatever_order(frame: DataFrame) -> None:
    """A sentence where which rows there are, or what they hold, depends on the order in which Spark finds them."""
    plan: Any = getattr(frame, "_jdf", None)
    if plan is None:
        return
    analyzed = plan.queryExecution().analyzed()
    taken = sorted(BY_ORDER.intersection(_steps(analyzed)))
    if taken or OF_SOME_ROW.search(analyzed.toString()):
        what = "limit, sample, dropDuplicates, first, …"
        raise NotRepeatable(
            f"encode: expected a data frame that does not depend on the order of rows, got one with {what}; {INSTEAD}."
        )


def _steps(plan: Any) -> Iterator[str]:
    yield plan.getClass().getSimpleName()
    children = plan.children().iterator()
    while children.hasNext():
        yield from _steps(children.next())
