"""The Spark engine: the same kernels inside ``mapInArrow``, on this machine or on a cluster.

On a cluster the input and the output directory must be on a file system that the driver and all workers see under the
same path, and the package must be installed on the workers. The job's key travels to the workers with the tasks, hence
only in a session that keeps it.
"""

from __future__ import annotations

import io
import operator
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from shuffledp.collection import durable, kernel, manifest, message, shuffling
from shuffledp.collection.engine import spark_session
from shuffledp.collection.engine.embedded import told
from shuffledp.collection.engine.engine import Engine, EngineFailed
from shuffledp.collection.engine.spark_session import in_a_sentence, quiet
from shuffledp.collection.input import listing
from shuffledp.collection.input.file_table import FileTable
from shuffledp.collection.input.format import damaged
from shuffledp.collection.input.spill import spill
from shuffledp.collection.input.table import Table
from shuffledp.collection.job import input_beside
from shuffledp.collection.kernel import Total
from shuffledp.collection.lot import Lot
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.parts.reading import Reading
from shuffledp.progress import Progress
from shuffledp.tasks.column import Column

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Batches = Iterator["pa.RecordBatch"]

DEFAULT_MASTER = "local[*]"
BEAT_SECONDS = 0.5


class Spark(Engine):
    """A session of Spark: the one that is given, or that runs in this process already, or one that is started here.

    Somebody else's session is used only if a key is safe in it, with settings for our own queries alone, and is left
    running; our own is started when it is first needed, and stopped at the end.
    """

    name = "spark"

    def __init__(
        self, progress: Progress | None = None, master: str | None = None, session: SparkSession | None = None
    ) -> None:
        super().__init__(Progress() if progress is None else progress)
        self._master = master
        self._given = session
        self._session: SparkSession | None = None
        self._is_own = False
        self._room: Path | None = None
        """Where Spark on this machine keeps what it sorts: for this user's eyes only, and gone at the end."""

    @property
    def session(self) -> SparkSession:
        if self._session is None:
            found = spark_session.running() if self._given is None else self._given
            self._session = self._start() if found is None else spark_session.beside(found, self._master)
            self._is_own = found is None
        return self._session

    def _start(self) -> SparkSession:
        master = DEFAULT_MASTER if self._master is None else self._master
        if self._room is None and master.startswith("local"):
            self._room = Path(tempfile.mkdtemp(prefix="shuffledp-spark-"))
        try:
            with self._alive("starting Spark"):
                return spark_session.start(master, self._room)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._session is not None and self._is_own:
            self._session.stop()
        self._session = None
        if self._room is not None:
            shutil.rmtree(self._room, ignore_errors=True)
            self._room = None

    def prepare(self) -> None:
        """A session that may be given the key."""
        _ = self.session

    def check(self, table: Table, column: Column) -> int:
        if not _is_for_spark(table, column):
            # Nothing may be written before every value is good.
            return self._checked_here(table, column)
        # Files of another type, or without the column, would be read as nulls or not at all.
        expected = table.told_rows(column)
        with self._step("checking"):
            found = _mapped(self._input(table, column), _checking(column), "rows long, problem string").collect()
        problems = sorted(row.problem for row in found if row.problem)
        if problems:
            # Workers do not know where in the input a row stands.
            self._checked_here(table, column)
            raise ValueError(problems[0])
        rows = sum(int(row.rows) for row in found)
        if rows != expected:
            raise damaged(table.title, expected, rows)
        return rows

    def _checked_here(self, table: Table, column: Column) -> int:
        with self.progress.step("checking", None) as advance, table.located():
            return kernel.check(column, told(table.batches(column, kernel.CHUNK_ROWS), advance))

    def encode(self, table: Table, column: Column, key: bytes, lot: Lot, directory: Path) -> None:
        if directory.exists():
            return
        whole = durable.whole_directory(directory)
        with self._step("encoding"), whole as unfinished, _as_files(table, column, directory) as files:
            encoder = kernel.Encoder(column, key)
            messages = _mapped(self._input(files, column), _encoding(encoder), f"{message.COLUMN} binary")
            messages.write.mode("overwrite").parquet(_address(unfinished))
            if not lot.is_sent(self.session.read.parquet(_address(unfinished)).count()):
                raise ValueError(f"input: expected {lot.users} rows as at the first look; the file has changed since.")

    def shuffle(self, encoded: Path, lot: Lot, directory: Path) -> None:
        width = lot.width
        with self._step("shuffling"), durable.whole_directory(directory) as unfinished:
            found = self.session.read.parquet(_address(encoded))
            total = message.count(message.files_of(encoded)) if lot.messages is None else lot.messages
            if width <= shuffling.COUNTED_BYTES:
                counts = shuffling.runs(_counts(found, width), width)
                written = manifest.write(counts, lot, unfinished)
            else:
                # How Spark divides a sort depends on the order that it found: only the order that it makes is kept.
                divided = directory.with_name("sorted")
                shutil.rmtree(divided, ignore_errors=True)
                with durable.whole_directory(divided) as by_spark:
                    found.sort(message.COLUMN).write.mode("overwrite").parquet(_address(by_spark))
                batches = shuffling.certainly_in_order(message.read(message.files_of(divided), width))
                written = manifest.write(batches, lot, unfinished)
                shutil.rmtree(divided)
            if written.messages != total:
                raise EngineFailed(f"collect: expected {total} messages to shuffle, got {written.messages}.")

    def aggregate(self, mechanism: Mechanism, shuffled: Path, messages: int, reading: Reading | None = None) -> Total:
        with self._step("aggregating"):
            found = self.session.read.parquet(_address(shuffled))
            parts = _mapped(
                found, _accumulating(mechanism, reading), "statistic binary, messages long, refused long"
            ).collect()
        if not parts:
            raise ValueError(f"messages: expected at least one message of {mechanism.name}, got none.")
        statistics = (np.load(io.BytesIO(part.statistic), allow_pickle=False) for part in parts)
        totals = (Total(array, part.messages, part.refused) for array, part in zip(statistics, parts, strict=True))
        return reduce(operator.add, totals)

    def _input(self, table: FileTable, column: Column) -> DataFrame:
        """The columns of exactly the files that every engine reads; ``table`` is one of Parquet files."""
        files = [_literally(_address(path)) for path in table.files()]
        quoted = [f"`{name.replace('`', '``')}`" for name in column.names]
        return self.session.read.parquet(*files).select(*quoted)

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        """A step of Spark's; starting it is a step of its own."""
        _ = self.session
        with self._alive(name), in_a_sentence(name):
            yield

    @contextmanager
    def _alive(self, name: str) -> Iterator[None]:
        """A step whose length only Spark knows: the bar shows that it is alive."""
        done = threading.Event()
        with self.progress.step(name, None) as advance:

            def beat() -> None:
                while not done.wait(BEAT_SECONDS):
                    advance(0)

            beating = threading.Thread(target=beat, daemon=True)
            beating.start()
            try:
                yield
            finally:
                done.set()
                beating.join()


def _is_for_spark(table: Table, column: Column) -> TypeGuard[FileTable]:
    """Whether Spark reads the files itself: only Parquet, of which every reader sees the same rows.

    It takes columns that differ in case only for one, and no file with a colon in its name or one that looks hidden.
    """
    if not isinstance(table, FileTable) or not table.is_parquet:
        return False
    odd = any(":" in path.name or listing.is_hidden(path.name) for path in table.files())
    return not odd and not table.has_lookalike(column)


@contextmanager
def _as_files(table: Table, column: Column, encoded: Path) -> Iterator[FileTable]:
    """The input as Parquet files; all else is written beside the messages for as long as it is encoded.

    A CSV file, data from memory, and rows that are chosen by user are read by this process: what a row is, and which
    rows come first, does not depend on the engine.
    """
    if _is_for_spark(table, column):
        yield table
        return
    with _private(input_beside(encoded)) as room:
        yield spill(table, column, room / "data.parquet")


@contextmanager
def _private(room: Path) -> Iterator[Path]:
    """A new directory for its owner only, gone at the end."""
    shutil.rmtree(room, ignore_errors=True)
    room.mkdir(mode=0o700)
    try:
        yield room
    finally:
        shutil.rmtree(room, ignore_errors=True)


# --- what runs on the workers -------------------------------------------------------------------------------------


def _address(path: Path) -> str:
    """Whatever file system Spark takes for its own, ours is the one that this process sees."""
    return f"file://{path.resolve()}"


def _literally(address: str) -> str:
    """The address as Spark's patterns: each of these characters stands for itself."""
    return re.sub(r"([\\\[\]{}*?])", r"\\\1", address)


def _mapped(data: DataFrame, work: Callable[[Batches], Batches], schema: str) -> DataFrame:
    with quiet():
        return data.mapInArrow(work, schema)


def _checking(column: Column) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        import pyarrow as pa

        rows, problem = 0, None
        for batch in batches:
            try:
                rows += kernel.check(column, [column.array(batch)])
            except (ValueError, TypeError) as error:
                problem = problem or str(error)
        yield pa.RecordBatch.from_pydict({"rows": pa.array([rows]), "problem": pa.array([problem], pa.string())})

    return run


def _encoding(encoder: kernel.Encoder) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        import pyarrow as pa
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        for wire in encoder.part(map(encoder.column.array, batches), task.partitionId()):
            yield pa.RecordBatch.from_pydict({message.COLUMN: message.array_of(wire).cast(pa.binary())})

    return run


def _accumulating(mechanism: Mechanism, reading: Reading | None) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        import pyarrow as pa

        wires = (message.wire_of(batch.column(0), mechanism.message_bytes) for batch in batches)
        found = kernel.accumulate(mechanism, wires, reading)
        if found is not None:
            statistic = io.BytesIO()
            np.save(statistic, found.statistic, allow_pickle=False)
            columns = {"statistic": [statistic.getvalue()], "messages": [found.messages], "refused": [found.refused]}
            yield pa.RecordBatch.from_pydict(columns)

    return run


def _counts(messages: DataFrame, width: int) -> Any:
    """How often each message of one or two bytes occurs."""
    counts = np.zeros(1 << 8 * width, dtype=np.int64)
    for row in messages.groupBy(message.COLUMN).count().collect():
        counts[int.from_bytes(row[0], "big")] += row[1]
    return counts
