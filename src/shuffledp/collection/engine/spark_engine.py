"""The Spark engine: the same kernels inside ``mapInArrow``, on this machine or on a cluster.

Files of this machine must be on a file system that the driver and all workers see under the same path. Data frames, and
messages at an address that Spark writes to, need none: workers then see nothing of the driver's. The package must be
installed on the workers. The job's key travels to them with the tasks, hence only in a session that keeps it.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from shuffledp.array import Integers
from shuffledp.collection import durable, kernel, manifest, message, shuffling
from shuffledp.collection.cluster import cluster_file, counted_file, exact_shuffle, message_frame
from shuffledp.collection.cluster.cluster_manifest import ClusterManifest, is_of_a_cluster
from shuffledp.collection.cluster.exact_shuffle import Layout
from shuffledp.collection.cluster.file_system import FileSystem
from shuffledp.collection.cluster.frame_table import FrameTable
from shuffledp.collection.cluster.message_frame import numbers_of
from shuffledp.collection.engine import spark_session
from shuffledp.collection.engine.embedded import told
from shuffledp.collection.engine.engine import Engine, EngineFailed
from shuffledp.collection.engine.spark_session import in_a_sentence
from shuffledp.collection.input import listing
from shuffledp.collection.input.file_table import FileTable
from shuffledp.collection.input.format import damaged
from shuffledp.collection.input.spill import spill
from shuffledp.collection.input.table import Table
from shuffledp.collection.job import MESSAGES, REPORT, input_beside
from shuffledp.collection.kernel import Total
from shuffledp.collection.lot import Lot
from shuffledp.collection.manifest import Manifest
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.parts.reading import Reading
from shuffledp.progress import Progress
from shuffledp.tasks.column import Column, Tally

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Batches = Iterator["pa.RecordBatch"]

DEFAULT_MASTER = "local[*]"
BEAT_SECONDS = 0.5
BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
SHORT = {"tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "date", "timestamp"}
SHORT_BYTES = 512
"""Types of values, and bytes of messages, of which a batch is small."""


class Spark(Engine):
    """A session of Spark: the one that is given, or that runs in this process already, or one that is started here.

    Somebody else's session is used only if a key is safe in it, with settings for our own queries alone, and is left
    running; our own is started when it is first needed, and stopped at the end.
    """

    name = "spark"

    def __init__(
        self,
        progress: Progress | None = None,
        master: str | None = None,
        session: SparkSession | None = None,
        place: str | None = None,
    ) -> None:
        super().__init__(Progress() if progress is None else progress)
        self._master = master
        self._given = session
        self.place = place
        """The address of a directory for the messages, on a file system that the workers see; None for local paths."""
        self._made: dict[Path, DataFrame] = {}
        """Messages of data frames, which are made when they are shuffled, by the directory that they stand for."""
        self._found: dict[str, Integers] = {}
        """How often each message of one or two bytes is in files that were written by this engine, by their address."""
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
        if isinstance(table, FrameTable):
            # Before anything is begun: what cannot be repeated is refused here.
            table.identified(column)
            self._suit(table, column)
            with self._step("checking"):
                return table.check(column)
        if not _is_for_spark(table, column):
            # Nothing may be written before every value is good.
            return self._checked_here(table, column)
        # Files of another type, or without the column, would be read as nulls or not at all.
        expected = table.told_rows(column)
        with self._step("checking"):
            rows, problem = message_frame.checked(self._input(table, column), column)
        if problem is not None:
            # Workers do not know where in the input a row stands.
            self._checked_here(table, column)
            raise ValueError(problem)
        if rows != expected:
            raise damaged(table.title, expected, rows)
        return rows

    def _suit(self, table: FrameTable, column: Column) -> None:
        """Batches of so many rows, whatever their bytes, where every row is short.

        Spark adds up a batch's bytes after each row otherwise, which takes as long as all the rest of what it does.
        """
        kinds = {kind for name, kind in table.frame.dtypes if name in column.names}
        is_short = kinds <= SHORT and column.mechanism.message_bytes <= SHORT_BYTES
        self.session.conf.set(BATCH_BYTES, str((1 << 31) - 1 if is_short else 1 << 26))

    def _checked_here(self, table: Table, column: Column) -> int:
        with self.progress.step("checking", None) as advance, table.located():
            return kernel.check(column, told(table.batches(column, kernel.CHUNK_ROWS), advance))

    def counted(self, table: Table, column: Column) -> Tally:
        if not isinstance(table, FrameTable):
            return super().counted(table, column)
        with self._step("counting"):
            return message_frame.tallied(table.narrowed(column.names).frame, column)

    def encode(self, table: Table, column: Column, key: bytes, lot: Lot, directory: Path) -> None:
        if isinstance(table, FrameTable):
            # Nothing is written in the order of the input: a message can be made again whenever it is needed.
            durable.make_directory(directory)
            self._suit(table, column)
            work = message_frame.encoding(kernel.Encoder(column, key), bool(table.key))
            self._made[directory] = message_frame.mapped(table.identified(column), work, message_frame.SCHEMA)
            return
        if directory.exists():
            return
        whole = durable.whole_directory(directory)
        with self._step("encoding"), whole as unfinished, _as_files(table, column, directory) as files:
            encoder = kernel.Encoder(column, key)
            messages = message_frame.mapped(self._input(files, column), _encoding(encoder), f"{message.COLUMN} binary")
            messages.write.mode("overwrite").parquet(_address(unfinished))
            if not lot.is_sent(self.session.read.parquet(_address(unfinished)).count()):
                raise ValueError(f"input: expected {lot.users} rows as at the first look; the file has changed since.")

    def shuffle(self, encoded: Path, lot: Lot, directory: Path) -> None:
        with (
            self._step("shuffling"),
            self._messages(encoded, lot) as messages,
            durable.whole_directory(directory) as unfinished,
        ):
            if self.place is not None:
                made: Manifest = self._shuffled_there(messages, lot)
                made.write(unfinished)
            elif lot.width <= shuffling.COUNTED_BYTES:
                made = manifest.write(
                    shuffling.runs(counted_file.counts_of(messages, lot.width), lot.width), lot, unfinished
                )
            else:
                layout = Layout.of(messages, lot.width, message.group_rows(lot.width) * message.FILE_GROUPS)
                exact_shuffle.write(messages, layout, unfinished)
                made = manifest.of_files(lot, unfinished)
            if not lot.is_complete(made.messages):
                raise EngineFailed(f"collect: expected {lot.messages} messages to shuffle, got {made.messages}.")

    @contextmanager
    def _messages(self, encoded: Path, lot: Lot) -> Iterator[DataFrame]:
        """Messages with their counts: of files, or of a data frame and what the shuffler drew."""
        files = sorted(encoded.glob("*.parquet")) if encoded in self._made else message.files_of(encoded)
        found = self._made.pop(encoded, None)
        if found is None:
            addresses = [_literally(_address(path)) for path in files]
            raw = self.session.read.parquet(*addresses)
            yield _combined(raw, lot.width)
            return
        drawn = list(message_frame.combined(((wire, None) for wire in message.read(files, lot.width)), lot.width))
        if drawn:
            import pyarrow as pa

            found = found.union(found.sparkSession.createDataFrame(pa.Table.from_batches(drawn)))
        if lot.width <= shuffling.COUNTED_BYTES:
            # Counted, and not used again.
            yield found
            return
        from pyspark import StorageLevel

        # Only a cache: what is lost of it is made again, and is the same.
        kept = found.persist(StorageLevel.DISK_ONLY)
        try:
            yield kept
        finally:
            kept.unpersist()

    def _shuffled_there(self, messages: DataFrame, lot: Lot) -> ClusterManifest:
        """The files at the place that the workers see: complete before they have their name."""
        assert self.place is not None
        made, counts = cluster_file.write(self.session, messages, lot, f"{self.place.rstrip('/')}/{MESSAGES}")
        if counts is not None:
            self._found[made.where] = counts
        return made

    def manifest(self, shuffled: Path) -> Manifest:
        return ClusterManifest.read(shuffled) if is_of_a_cluster(shuffled) else super().manifest(shuffled)

    def deliver(self, release: Path) -> None:
        if self.place is None or not release.exists():
            # Where it is gone, all was delivered before.
            return
        files = FileSystem(self.session)
        with self._step("writing the report"):
            for path in sorted(release.iterdir(), key=lambda path: (path.name == REPORT, path.name)):
                files.put(path, f"{self.place.rstrip('/')}/{path.name}")

    def aggregate(self, mechanism: Mechanism, shuffled: Path, messages: int, reading: Reading | None = None) -> Total:
        width, is_there = mechanism.message_bytes, is_of_a_cluster(shuffled)
        with self._step("aggregating"):
            where = ClusterManifest.read(shuffled).where if is_there else _address(shuffled)
            if width <= shuffling.COUNTED_BYTES and not is_there:
                # They were written here, where the workers may not see them.
                found = _weighed(mechanism, _counts_here(shuffled), reading)
            elif where in self._found:
                found = _weighed(mechanism, self._found.pop(where), reading)
            else:
                written = self.session.read.parquet(where)
                few = width <= shuffling.COUNTED_BYTES
                counted = counted_file.counted(written) if few else _combined(written, width)
                found = message_frame.total(counted, mechanism, reading)
        if found is None:
            raise ValueError(f"messages: expected at least one message of {mechanism.name}, got none.")
        return found

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


def _encoding(encoder: kernel.Encoder) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        import pyarrow as pa
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        for wire in encoder.part(map(encoder.column.array, batches), task.partitionId()):
            yield pa.RecordBatch.from_pydict({message.COLUMN: message.array_of(wire).cast(pa.binary())})

    return run


def _combining(width: int) -> Callable[[Batches], Batches]:
    """Messages of files, equal ones taken together."""

    def run(batches: Batches) -> Batches:
        wires = (message.wire_of(batch.column(0), width) for batch in batches)
        yield from message_frame.combined(((wire, None) for wire in wires), width)

    return run


def _combined(raw: DataFrame, width: int) -> DataFrame:
    return message_frame.mapped(raw, _combining(width), message_frame.SCHEMA)


# --- few messages, in this process --------------------------------------------------------------------------------


def _counts_here(shuffled: Path) -> Integers:
    wires = Manifest.read(shuffled).checked(shuffled)
    return sum((np.bincount(numbers_of(wire), minlength=1 << 16) for wire in wires), np.zeros(1 << 16, np.int64))


def _weighed(mechanism: Mechanism, counts: Integers, reading: Reading | None) -> Total | None:
    """The statistic of messages that occur so often each."""
    there = np.flatnonzero(counts)
    wire = counted_file.wire_of(there, mechanism.message_bytes)
    return message_frame.weighed(mechanism, reading, wire, counts[there]) if len(there) else None
