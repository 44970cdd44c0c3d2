"""The Spark engine: the same kernels inside ``mapInArrow``, on this machine or on a cluster.

On a cluster the input and the output directory must be on a file system that the driver and all workers see under the
same path, and the package must be installed on the workers. The job's key travels to the workers with the tasks: turn
on Spark's own encryption (spark.network.crypto.enabled) where the network is not trusted.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp.array import Array
from shuffledp.collection import kernel, message, shuffling
from shuffledp.collection.engine.embedded import told
from shuffledp.collection.engine.engine import Engine, EngineFailed
from shuffledp.collection.job import input_beside, whole_directory
from shuffledp.collection.table import FileTable, MemoryTable, Table
from shuffledp.errors import ShuffledpError, installing
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.progress import Progress
from shuffledp.tasks.column import Column

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Batches = Iterator["pa.RecordBatch"]

DEFAULT_MASTER = "local[*]"
SETTINGS = {
    # How the input is divided must not depend on the number of cores: a part's randomness depends on its number.
    "spark.sql.files.maxPartitionBytes": "67108864",
    "spark.sql.files.openCostInBytes": "4194304",
    "spark.sql.files.minPartitionNum": "64",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(kernel.CHUNK_ROWS),
    # Files between two steps still tell what came together.
    "spark.io.encryption.enabled": "true",
    "spark.sql.sources.commitProtocolClass": (
        "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"
    ),
}
QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
BEAT_SECONDS = 0.5


class Spark(Engine):
    """A Spark session, started when it is first needed."""

    name = "spark"

    def __init__(self, progress: Progress, master: str | None = None) -> None:
        super().__init__(progress)
        self._master = DEFAULT_MASTER if master is None else master
        self._session: SparkSession | None = None
        self._room: Path | None = None
        """Where Spark on this machine keeps what it sorts: for this user's eyes only, and gone at the end."""

    @property
    def session(self) -> SparkSession:
        if self._session is None:
            if self._room is None and self._master.startswith("local"):
                self._room = Path(tempfile.mkdtemp(prefix="shuffledp-spark-"))
            with self._alive("starting Spark"):
                self._session = start(self._master, self._room)
        return self._session

    def close(self) -> None:
        if self._session is not None:
            self._session.stop()
            self._session = None
        if self._room is not None:
            shutil.rmtree(self._room, ignore_errors=True)
            self._room = None

    def check(self, table: Table, column: Column) -> int:
        if not isinstance(table, FileTable):
            # Nothing may be written before every value is good.
            with self.progress.step("checking", None) as advance:
                return kernel.check(column, told(table.batches(column, kernel.CHUNK_ROWS), advance))
        with self._step("checking"):
            found = _mapped(
                self._input(table, column), _checking(column, not table.is_parquet), "rows long, problem string"
            ).collect()
        problems = sorted(row.problem for row in found if row.problem)
        if problems:
            raise ValueError(problems[0])
        return sum(row.rows for row in found)

    def encode(self, table: Table, column: Column, key: bytes, users: int, directory: Path) -> None:
        if directory.exists():
            return
        with self._step("encoding"), whole_directory(directory) as unfinished, _as_files(table, directory) as files:
            encoder = kernel.Encoder(column, key)
            messages = _mapped(
                self._input(files, column), _encoding(encoder, not files.is_parquet), f"{message.COLUMN} binary"
            )
            messages.write.mode("overwrite").parquet(_address(unfinished))
            written = sum(message.count_of(path) for path in unfinished.glob("*.parquet"))
            if written != users * column.mechanism.messages_per_user:
                raise ValueError(f"input: expected {users} rows as at the first look; the file has changed since.")

    def shuffle(self, encoded: Path, width: int, directory: Path, messages: int) -> None:
        with self._step("shuffling"), whole_directory(directory) as unfinished:
            found = self.session.read.parquet(_address(encoded))
            if width <= shuffling.COUNTED_BYTES:
                written = shuffling.write(shuffling.runs(_counts(found, width), width), width, unfinished)
            else:
                # How Spark divides a sort depends on the order that it found: only the order that it makes is kept.
                divided = directory.with_name("sorted")
                shutil.rmtree(divided, ignore_errors=True)
                with whole_directory(divided) as by_spark:
                    found.sort(message.COLUMN).write.mode("overwrite").parquet(_address(by_spark))
                batches = shuffling.certainly_in_order(message.read(message.files_of(divided), width))
                written = shuffling.write(batches, width, unfinished)
                shutil.rmtree(divided)
            if written != messages:
                raise ValueError(f"collect: expected {messages} messages to shuffle, got {written}.")

    def aggregate(self, mechanism: Mechanism, shuffled: Path, messages: int) -> tuple[Array, int]:
        with self._step("aggregating"):
            found = self.session.read.parquet(_address(shuffled))
            parts = _mapped(found, _accumulating(mechanism), "statistic binary, messages long").collect()
        if not parts:
            raise ValueError("messages: expected at least one message, got none.")
        total = sum(np.load(io.BytesIO(part.statistic), allow_pickle=False) for part in parts)
        return np.asarray(total), sum(part.messages for part in parts)

    def _input(self, table: FileTable, column: Column) -> DataFrame:
        read = self.session.read
        path = _address(table.path)
        data = read.parquet(path) if table.is_parquet else read.option("header", True).csv(path)
        table.demand_column(column.name, data.columns)
        quoted = column.name.replace("`", "``")
        return data.select(f"`{quoted}`")

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        """A step of Spark's; starting it is a step of its own."""
        _ = self.session
        with self._alive(name), _in_a_sentence(name):
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


@contextmanager
def _as_files(table: Table, encoded: Path) -> Iterator[FileTable]:
    """The input as files; data from memory are written beside the messages for as long as they are encoded."""
    if not isinstance(table, MemoryTable):
        assert isinstance(table, FileTable), "a table is in files or in memory"
        yield table
        return
    with _private(input_beside(encoded)) as room:
        yield table.write(room / "data.parquet")


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


def _mapped(data: DataFrame, work: Callable[[Batches], Batches], schema: str) -> DataFrame:
    with _quiet():
        return data.mapInArrow(work, schema)


def _columns(batches: Batches, column: Column, as_text: bool) -> Iterator[pa.Array]:
    """The only column; the texts of a CSV file as what they stand for."""
    import pyarrow as pa

    for batch in batches:
        array = batch.column(0)
        if as_text:
            try:
                array = array.cast(column.csv_type())
            except pa.ArrowException as error:
                raise column.refuse(" ".join(str(error).split()).rstrip(".")) from None
        yield array


def _checking(column: Column, as_text: bool) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        import pyarrow as pa

        rows, problem = 0, None
        for batch in batches:
            try:
                rows += kernel.check(column, _columns(iter([batch]), column, as_text))
            except (ValueError, TypeError) as error:
                problem = problem or str(error)
        yield pa.RecordBatch.from_pydict({"rows": pa.array([rows]), "problem": pa.array([problem], pa.string())})

    return run


def _encoding(encoder: kernel.Encoder, as_text: bool) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        import pyarrow as pa
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        for wire in encoder.part(_columns(batches, encoder.column, as_text), task.partitionId()):
            yield pa.RecordBatch.from_pydict({message.COLUMN: message.array_of(wire).cast(pa.binary())})

    return run


def _accumulating(mechanism: Mechanism) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        import pyarrow as pa

        wires = (message.wire_of(batch.column(0), mechanism.message_bytes) for batch in batches)
        found = kernel.accumulate(mechanism, wires)
        if found is not None:
            statistic = io.BytesIO()
            np.save(statistic, found[0], allow_pickle=False)
            columns = {"statistic": [statistic.getvalue()], "messages": [found[1]]}
            yield pa.RecordBatch.from_pydict(columns)

    return run


def _counts(messages: DataFrame, width: int) -> Any:
    """How often each message of one or two bytes occurs."""
    counts = np.zeros(1 << 8 * width, dtype=np.int64)
    for row in messages.groupBy(message.COLUMN).count().collect():
        counts[int.from_bytes(row[0], "big")] += row[1]
    return counts


# --- the session --------------------------------------------------------------------------------------------------


def start(master: str, room: Path | None) -> SparkSession:
    """A session; a sentence where PySpark or Java is missing."""
    try:
        with _quiet():
            from pyspark.sql import SparkSession
    except ImportError:
        raise ShuffledpError(
            f"spark: PySpark is not installed; {installing('spark')}, or use --engine embedded."
        ) from None
    if "JAVA_HOME" not in os.environ and shutil.which("java") is None:
        raise ShuffledpError(
            "spark: Java 17 was not found; install it (Debian: apt install openjdk-17-jre-headless), set JAVA_HOME, "
            "or use --engine embedded."
        )
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master).appName("shuffledp")
    for name, value in {**QUIET, **SETTINGS, **({} if room is None else {"spark.local.dir": str(room)})}.items():
        builder = builder.config(name, value)
    with _in_a_sentence("starting"), _quiet():
        return builder.getOrCreate()


@contextmanager
def _quiet() -> Iterator[None]:
    """PySpark warns of pandas versions, which nothing here uses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield


@contextmanager
def _in_a_sentence(step: str) -> Iterator[None]:
    """Spark's failures, which are pages long, as one sentence."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        told = (line for line in reversed(lines) if "Error: " in line or "Exception: " in line)
        reason = next(told, lines[0] if lines else "no reason given")
        raise EngineFailed(f"spark: {step} failed: {reason.rstrip('.')}.") from error
