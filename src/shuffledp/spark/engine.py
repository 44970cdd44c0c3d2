"""The Spark engine: the same kernels inside ``mapInArrow``, on this machine or on a cluster.

Files of this machine must be on a file system that the driver and all workers see under the same path. Data frames, and
messages at an address that Spark writes to, need no shared paths. The package must be installed on the workers. The
job's key is sent to them with the tasks, hence only in a session that keeps it secret.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from shuffledp._core.results_and_value_objects import Progress
from shuffledp._core.validation import Integers
from shuffledp.collection import batch_processing, message_files
from shuffledp.collection.batch_processing import AccumulatedStatistic
from shuffledp.collection.engine import Engine, EngineError, report_progress
from shuffledp.collection.input import files as listing
from shuffledp.collection.input.base import Table, rechunk
from shuffledp.collection.input.files import FileTable, build_row_count_error
from shuffledp.collection.message_files import BatchSpec, Manifest
from shuffledp.collection.resumable_job import MESSAGES_DIRECTORY, REPORT_FILE, input_directory
from shuffledp.mechanisms.base.estimator import Estimator
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.spark import cluster_files as cluster_file, secure_session as spark_session, sorted_shuffle, worker_tasks
from shuffledp.spark.cluster_files import ClusterManifest, FileSystem, is_cluster_manifest
from shuffledp.spark.frame_table import FrameTable
from shuffledp.spark.secure_session import convert_spark_errors
from shuffledp.spark.sorted_shuffle import FileLayout
from shuffledp.spark.worker_tasks import decode_numbers
from shuffledp.storage import durable_files
from shuffledp.tasks.column_reader import ColumnReader, Tally

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


# --- Any table as a private Parquet file ---


READ_ROWS, GROUP_ROWS = 1 << 17, 1 << 20


def write_private_parquet(table: Table, column: ColumnReader, path: Path) -> FileTable:
    """Writes a column, one row group at a time, to a file that only its owner may read."""
    import pyarrow.parquet as pq

    writer = None
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        try:
            for piece in rechunk(table.batches(column, READ_ROWS), GROUP_ROWS):
                rows = column.to_table(piece)
                if writer is None:
                    writer = pq.ParquetWriter(file, rows.schema)
                writer.write_table(rows, row_group_size=GROUP_ROWS)
        finally:
            if writer is not None:
                writer.close()
    if writer is None:
        raise ValueError(f"input: expected at least one row, got none in {table.place}.")
    return FileTable(path)


Batches = Iterator["pa.RecordBatch"]

DEFAULT_MASTER = "local[*]"
HEARTBEAT_SECONDS = 0.5
BATCH_BYTES_SETTING = "spark.sql.execution.arrow.maxBytesPerBatch"
SHORT_TYPES = {"tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "date", "timestamp"}
MAX_SHORT_MESSAGE_BYTES = 512
"""Types of values, and widths of messages, for which every batch is small."""


class Spark(Engine):
    """An engine on a Spark session: the given one, the one that runs in this process, or a new one.

    Somebody else's session is used only if it keeps the key secret; it gets settings for our own queries alone and is
    left running. A session of our own is started when it is first needed, and stopped at the end.

    Args:
        progress: Receives the progress of each step.
        master: Master URL of the Spark session; by default this machine with all cores.
        session: A running session to use.
        place: Address of a directory for the messages, on a file system that the workers see; None for local paths.
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
        self._given_session = session
        self.place = place
        self._lazy_messages: dict[Path, DataFrame] = {}
        """Messages of data frames, computed when they are shuffled, by the directory that they stand for."""
        self._message_counts: dict[str, Integers] = {}
        """Counts of each message of one or two bytes in files that this engine wrote, by their address."""
        self._session: SparkSession | None = None
        self._owns_session = False
        self._temporary_directory: Path | None = None
        """Directory for Spark's temporary files on this machine; readable by its owner only, and deleted at the end."""

    @property
    def session(self) -> SparkSession:
        """The session; it is found or started when first used."""
        if self._session is None:
            running = spark_session.find_running_session() if self._given_session is None else self._given_session
            self._session = (
                self._start() if running is None else spark_session.create_sibling_session(running, self._master)
            )
            self._owns_session = running is None
        return self._session

    def _start(self) -> SparkSession:
        master = DEFAULT_MASTER if self._master is None else self._master
        if self._temporary_directory is None and master.startswith("local"):
            self._temporary_directory = Path(tempfile.mkdtemp(prefix="shuffledp-spark-"))
        try:
            with self._show_progress("starting Spark"):
                return spark_session.start_session(master, self._temporary_directory)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._session is not None and self._owns_session:
            self._session.stop()
        self._session = None
        if self._temporary_directory is not None:
            shutil.rmtree(self._temporary_directory, ignore_errors=True)
            self._temporary_directory = None

    def prepare(self) -> None:
        """Starts the session, or checks that the running one keeps the key secret."""
        _ = self.session

    def check(self, table: Table, column: ColumnReader) -> int:
        """Checks every value, without writing anything.

        Args:
            table: The input.
            column: The column to read.

        Returns:
            The number of rows.

        Raises:
            ValueError: If a value is not as planned, a file is damaged, or the rows of a data frame cannot be
                identified.
            EngineError: If Spark fails.
        """
        if isinstance(table, FrameTable):
            # Before anything begins: rows that cannot be repeated are refused here.
            table.identify_rows(column)
            self._set_batch_limit(table, column)
            with self._run_step("checking"):
                return table.check(column)
        if not _is_for_spark(table, column):
            # Nothing may be written before every value is checked.
            return self._check_locally(table, column)
        # Spark would read files of another type, or without the column, as nulls or not at all.
        expected = table.count_footer_rows(column)
        with self._run_step("checking"):
            rows, problem = worker_tasks.check_values(self._read_input(table, column), column)
        if problem is not None:
            # Workers do not know the place of a row in the input.
            self._check_locally(table, column)
            raise ValueError(problem)
        if rows != expected:
            raise build_row_count_error(table.title, expected, rows)
        return rows

    def _set_batch_limit(self, table: FrameTable, column: ColumnReader) -> None:
        """Limits batches by rows rather than bytes if every row is short.

        Otherwise Spark sums a batch's bytes after each row, which takes as long as everything else it does.
        """
        kinds = {kind for name, kind in table.frame.dtypes if name in column.names}
        is_short = kinds <= SHORT_TYPES and column.mechanism.message_bytes <= MAX_SHORT_MESSAGE_BYTES
        self.session.conf.set(BATCH_BYTES_SETTING, str((1 << 31) - 1 if is_short else 1 << 26))

    def _check_locally(self, table: Table, column: ColumnReader) -> int:
        with self.progress.step("checking", None) as advance, table.locate_errors():
            return batch_processing.check_values(
                column, report_progress(table.batches(column, batch_processing.CHUNK_ROWS), advance)
            )

    def count_changed_values(self, table: Table, column: ColumnReader) -> Tally:
        """Counts the values that the column's rules change.

        Args:
            table: The input.
            column: The column to read.

        Returns:
            The counts.
        """
        if not isinstance(table, FrameTable):
            return super().count_changed_values(table, column)
        with self._run_step("counting"):
            return worker_tasks.count_changed_values(table.select_columns(column.names).frame, column)

    def encode(self, table: Table, column: ColumnReader, key: bytes, spec: BatchSpec, directory: Path) -> None:
        """Writes the messages of all rows; those of a data frame are computed lazily instead.

        Args:
            table: The input.
            column: The column to encode.
            key: Secret key from which the randomness is derived.
            spec: The expected messages.
            directory: Directory for the messages; if it is complete, nothing is encoded again.

        Raises:
            ValueError: If the number of rows has changed since the check.
            EngineError: If Spark fails.
        """
        if isinstance(table, FrameTable):
            # Nothing is written in the order of the input: a message can be computed again whenever it is needed.
            durable_files.make_directory(directory)
            self._set_batch_limit(table, column)
            task = worker_tasks.build_encode_task(batch_processing.Encoder(column, key), bool(table.key))
            self._lazy_messages[directory] = worker_tasks.map_batches(
                table.identify_rows(column), task, worker_tasks.MESSAGES_SCHEMA
            )
            return
        if directory.exists():
            return
        whole = durable_files.create_atomic_directory(directory)
        with self._run_step("encoding"), whole as unfinished, _open_as_parquet(table, column, directory) as files:
            encoder = batch_processing.Encoder(column, key)
            messages = worker_tasks.map_batches(
                self._read_input(files, column), _build_encode_task(encoder), f"{message_files.MESSAGE_COLUMN} binary"
            )
            messages.write.mode("overwrite").parquet(_to_address(unfinished))
            if not spec.allows_user_messages(self.session.read.parquet(_to_address(unfinished)).count()):
                raise ValueError(f"input: expected {spec.users} rows as in the first pass; the file has changed since.")

    def shuffle(self, encoded: Path, spec: BatchSpec, directory: Path) -> None:
        """Writes the messages in order of their bytes, with their manifest.

        Args:
            encoded: Directory given to ``encode``.
            spec: The expected messages.
            directory: Directory for the shuffled messages, or only for their manifest if ``place`` is set.

        Raises:
            EngineError: If the number of messages is wrong, or Spark fails.
        """
        with (
            self._run_step("shuffling"),
            self._read_messages(encoded, spec) as messages,
            durable_files.create_atomic_directory(directory) as unfinished,
        ):
            if self.place is not None:
                manifest: Manifest = self._shuffle_to_address(messages, spec)
                manifest.write(unfinished)
            elif spec.width <= message_files.MAX_COUNTED_BYTES:
                manifest = message_files.write_shuffled(
                    message_files.expand_counts(sorted_shuffle.count_each_message(messages, spec.width), spec.width),
                    spec,
                    unfinished,
                )
            else:
                layout = FileLayout.from_messages(
                    messages, spec.width, message_files.group_rows(spec.width) * message_files.GROUPS_PER_FILE
                )
                sorted_shuffle.write_files(messages, layout, unfinished)
                manifest = message_files.write_manifest(spec, unfinished)
            if not spec.allows_total_messages(manifest.messages):
                raise EngineError(f"collect: expected {spec.messages} messages to shuffle, got {manifest.messages}.")

    @contextmanager
    def _read_messages(self, encoded: Path, spec: BatchSpec) -> Iterator[DataFrame]:
        """Yields messages with their counts: of files, or of a data frame and the shuffler's own messages."""
        files = (
            sorted(encoded.glob("*.parquet"))
            if encoded in self._lazy_messages
            else message_files.list_message_files(encoded)
        )
        messages = self._lazy_messages.pop(encoded, None)
        if messages is None:
            addresses = [_escape_address(_to_address(path)) for path in files]
            raw = self.session.read.parquet(*addresses)
            yield _combine_files(raw, spec.width)
            return
        noise = list(
            worker_tasks.combine_messages(
                ((wire, None) for wire in message_files.read_messages(files, spec.width)), spec.width
            )
        )
        if noise:
            import pyarrow as pa

            messages = messages.union(messages.sparkSession.createDataFrame(pa.Table.from_batches(noise)))
        if spec.width <= message_files.MAX_COUNTED_BYTES:
            # Counted once, and not used again.
            yield messages
            return
        from pyspark import StorageLevel

        # Only a cache: lost parts are computed again, with the same result.
        cached = messages.persist(StorageLevel.DISK_ONLY)
        try:
            yield cached
        finally:
            cached.unpersist()

    def _shuffle_to_address(self, messages: DataFrame, spec: BatchSpec) -> ClusterManifest:
        """Writes the files at the address that the workers see; they are complete before they get their names."""
        assert self.place is not None
        manifest, counts = cluster_file.write_shuffled(
            self.session, messages, spec, f"{self.place.rstrip('/')}/{MESSAGES_DIRECTORY}"
        )
        if counts is not None:
            self._message_counts[manifest.where] = counts
        return manifest

    def manifest(self, shuffled: Path) -> Manifest:
        """Reads the manifest of shuffled messages.

        Args:
            shuffled: Directory given to ``shuffle``.

        Returns:
            The manifest.
        """
        return ClusterManifest.read(shuffled) if is_cluster_manifest(shuffled) else super().manifest(shuffled)

    def deliver_report(self, release: Path) -> None:
        """Copies report and estimates to the address of the messages, if ``place`` is set; can be repeated.

        Args:
            release: Directory with report and estimates.
        """
        if self.place is None or not release.exists():
            # If it is gone, everything was delivered before.
            return
        files = FileSystem(self.session)
        with self._run_step("writing the report"):
            for path in sorted(release.iterdir(), key=lambda path: (path.name == REPORT_FILE, path.name)):
                files.upload(path, f"{self.place.rstrip('/')}/{path.name}")

    def aggregate(
        self, mechanism: Mechanism, shuffled: Path, messages: int, estimator: Estimator | None = None
    ) -> AccumulatedStatistic:
        """Adds up the mechanism's statistic over all shuffled messages.

        Args:
            mechanism: The mechanism of the messages.
            shuffled: Directory given to ``shuffle``.
            messages: Expected number of messages; not used by this engine.
            estimator: Estimator of selected options; None selects all of them.

        Returns:
            The statistic, and the numbers of messages in it and of invalid rows.

        Raises:
            ValueError: If there are no messages.
            EngineError: If Spark fails.
        """
        width, is_there = mechanism.message_bytes, is_cluster_manifest(shuffled)
        with self._run_step("aggregating"):
            where = ClusterManifest.read(shuffled).where if is_there else _to_address(shuffled)
            if width <= message_files.MAX_COUNTED_BYTES and not is_there:
                # They were written here, where the workers may not see them.
                total = _accumulate_counts(mechanism, _count_locally(shuffled), estimator)
            elif where in self._message_counts:
                total = _accumulate_counts(mechanism, self._message_counts.pop(where), estimator)
            else:
                written = self.session.read.parquet(where)
                few = width <= message_files.MAX_COUNTED_BYTES
                counted = sorted_shuffle.count_distinct_messages(written) if few else _combine_files(written, width)
                total = worker_tasks.sum_statistics(counted, mechanism, estimator)
        if total is None:
            raise ValueError(f"messages: expected at least one message of {mechanism.name}, got none.")
        return total

    def _read_input(self, table: FileTable, column: ColumnReader) -> DataFrame:
        """Reads the columns of exactly the Parquet files that every engine reads."""
        files = [_escape_address(_to_address(path)) for path in table.files()]
        quoted = [f"`{name.replace('`', '``')}`" for name in column.names]
        return self.session.read.parquet(*files).select(*quoted)

    @contextmanager
    def _run_step(self, name: str) -> Iterator[None]:
        """Runs a step of Spark's; starting the session is a separate step."""
        _ = self.session
        with self._show_progress(name), convert_spark_errors(name):
            yield

    @contextmanager
    def _show_progress(self, name: str) -> Iterator[None]:
        """Runs a step of unknown length, with a progress bar that shows that it is alive."""
        done = threading.Event()
        with self.progress.step(name, None) as advance:

            def beat() -> None:
                while not done.wait(HEARTBEAT_SECONDS):
                    advance(0)

            beating = threading.Thread(target=beat, daemon=True)
            beating.start()
            try:
                yield
            finally:
                done.set()
                beating.join()


def _is_for_spark(table: Table, column: ColumnReader) -> TypeGuard[FileTable]:
    """Returns True if Spark can read the files itself: only Parquet, in which every reader finds the same rows.

    Spark merges columns that differ only in case, and rejects files whose names have a colon or look hidden.
    """
    if not isinstance(table, FileTable) or not table.is_parquet:
        return False
    odd = any(":" in path.name or listing.is_hidden(path.name) for path in table.files())
    return not odd and not table.has_lookalike(column)


@contextmanager
def _open_as_parquet(table: Table, column: ColumnReader, encoded: Path) -> Iterator[FileTable]:
    """Yields the input as Parquet files; other input is written beside the messages while it is encoded.

    This process reads CSV files, data from memory, and tables with rows selected by user, so that the rows and their
    order do not depend on the engine.
    """
    if _is_for_spark(table, column):
        yield table
        return
    with _create_private_directory(input_directory(encoded)) as room:
        yield write_private_parquet(table, column, room / "data.parquet")


@contextmanager
def _create_private_directory(room: Path) -> Iterator[Path]:
    """Creates a directory for its owner only, and deletes it at the end."""
    shutil.rmtree(room, ignore_errors=True)
    room.mkdir(mode=0o700)
    try:
        yield room
    finally:
        shutil.rmtree(room, ignore_errors=True)


# --- Functions for the workers ---


def _to_address(path: Path) -> str:
    """Returns the address of a local file, whatever Spark's default file system is."""
    return f"file://{path.resolve()}"


def _escape_address(address: str) -> str:
    """Escapes an address, so that Spark does not read it as a pattern."""
    return re.sub(r"([\\\[\]{}*?])", r"\\\1", address)


def _build_encode_task(encoder: batch_processing.Encoder) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        import pyarrow as pa
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        for wire in encoder.encode_part(map(encoder.column.join_columns, batches), task.partitionId()):
            yield pa.RecordBatch.from_pydict(
                {message_files.MESSAGE_COLUMN: message_files.to_arrow(wire).cast(pa.binary())}
            )

    return run


def _build_combine_task(width: int) -> Callable[[Batches], Batches]:
    """Returns a worker function that counts equal messages of files."""

    def run(batches: Batches) -> Batches:
        wires = (message_files.from_arrow(batch.column(0), width) for batch in batches)
        yield from worker_tasks.combine_messages(((wire, None) for wire in wires), width)

    return run


def _combine_files(raw: DataFrame, width: int) -> DataFrame:
    return worker_tasks.map_batches(raw, _build_combine_task(width), worker_tasks.MESSAGES_SCHEMA)


# --- Short messages, in this process ---


def _count_locally(shuffled: Path) -> Integers:
    wires = Manifest.read(shuffled).read_verified_messages(shuffled)
    return sum((np.bincount(decode_numbers(wire), minlength=1 << 16) for wire in wires), np.zeros(1 << 16, np.int64))


def _accumulate_counts(
    mechanism: Mechanism, counts: Integers, estimator: Estimator | None
) -> AccumulatedStatistic | None:
    """Returns the statistic of messages with these counts."""
    occurring = np.flatnonzero(counts)
    wire = sorted_shuffle.encode_numbers(occurring, mechanism.message_bytes)
    return worker_tasks.accumulate_counts(mechanism, estimator, wire, counts[occurring]) if len(occurring) else None
