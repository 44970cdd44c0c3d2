"""Engines that run a collection: the interface, the engine inside this process, and the choice of an engine by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from shuffledp._core.errors import InvalidArgument, ShuffledpError
from shuffledp._core.message_phrases import Argument, phrase
from shuffledp._core.results_and_value_objects import Progress
from shuffledp.collection import batch_processing, message_files
from shuffledp.collection.batch_processing import AccumulatedStatistic
from shuffledp.collection.input.base import Table, rechunk
from shuffledp.collection.message_files import BatchSpec, Manifest
from shuffledp.mechanisms.base.estimator import Estimator
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.storage import durable_files
from shuffledp.tasks.column_reader import ColumnReader, Tally

if TYPE_CHECKING:
    import pyarrow as pa


class EngineError(ShuffledpError):
    """A failure of the machine rather than of the data; completed work is kept and the collection can be resumed."""


class Engine(ABC):
    """Runs the steps of a collection over files.

    Contract: ``encode`` writes all messages of every row, the same ones whenever it is repeated with the same key;
    ``shuffle`` writes files that are a function of the multiset of messages alone; ``aggregate`` adds up the
    mechanism's statistic over all messages.
    """

    name: ClassVar[str]

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def prepare(self) -> None:
        """Raises an exception if the engine cannot run at all, before any data are read or written."""
        return None

    @abstractmethod
    def check(self, table: Table, column: ColumnReader) -> int:
        """Returns the number of rows; raises ValueError if a value is not as planned. Writes nothing."""

    def count_changed_values(self, table: Table, column: ColumnReader) -> Tally:
        """Counts the values that the column's rules change."""
        return batch_processing.count_changed_values(column, table.batches(column, batch_processing.CHUNK_ROWS))

    @abstractmethod
    def encode(self, table: Table, column: ColumnReader, key: bytes, spec: BatchSpec, directory: Path) -> None:
        """Writes the messages of all rows to a directory; parts that are complete there are not encoded again."""

    @abstractmethod
    def shuffle(self, encoded: Path, spec: BatchSpec, directory: Path) -> None:
        """Writes the messages of one directory to another, in order of their bytes, with their manifest."""

    @abstractmethod
    def aggregate(
        self, mechanism: Mechanism, shuffled: Path, messages: int, estimator: Estimator | None = None
    ) -> AccumulatedStatistic:
        """Returns the mechanism's statistic over all shuffled messages, and their number.

        ``estimator`` is the estimator of selected options; None selects all of them.
        """

    def manifest(self, shuffled: Path) -> Manifest:
        """Returns the manifest of the shuffled messages."""
        return Manifest.read(shuffled)

    def deliver_report(self, release: Path) -> None:
        """Copies report and estimates to messages that lie elsewhere; can be repeated after a killed run."""
        return None

    def close(self) -> None:
        """Releases the resources that the engine holds."""
        return None


# --- The engine inside this process ---


CHUNKS_PER_PART = 32
"""Chunks in a part, which is the most that a killed run has to repeat."""


class EmbeddedEngine(Engine):
    """Runs everything in this process: Arrow batches, numpy kernels, and sorted runs on disk.

    Memory is bounded whatever the size of the data.
    """

    name = "embedded"

    def check(self, table: Table, column: ColumnReader) -> int:
        with self.progress.step("checking", None) as advance, table.locate_errors():
            return batch_processing.check_values(
                column, report_progress(table.batches(column, batch_processing.CHUNK_ROWS), advance)
            )

    def encode(self, table: Table, column: ColumnReader, key: bytes, spec: BatchSpec, directory: Path) -> None:
        durable_files.make_directory(directory)
        encoder = batch_processing.Encoder(column, key)
        chunk_rows = batch_processing.rows_per_chunk(column.mechanism)
        arrays = rechunk(table.batches(column, batch_processing.CHUNK_ROWS), chunk_rows)
        encoded = 0

        def counted(pieces: Iterator[pa.Array]) -> Iterator[pa.Array]:
            nonlocal encoded
            for piece in pieces:
                encoded += len(piece)
                yield piece
                advance(len(piece))

        with self.progress.step("encoding", spec.users) as advance:
            for part in range(-(-spec.users // (CHUNKS_PER_PART * chunk_rows))):
                pieces = counted(islice(arrays, CHUNKS_PER_PART))
                path = directory / f"part-{part:05d}.parquet"
                if path.exists():
                    deque(pieces, maxlen=0)
                else:
                    with durable_files.create_atomic_file(path) as file:
                        message_files.write_messages_to(file, spec.width, encoder.encode_part(pieces, part))
        if encoded != spec.users or next(arrays, None) is not None:
            raise ValueError(f"input: expected {spec.users} rows as in the first pass; the file has changed since.")

    def shuffle(self, encoded: Path, spec: BatchSpec, directory: Path) -> None:
        files = message_files.list_message_files(encoded)
        total = message_files.count_messages(files) if spec.messages is None else spec.messages
        batches = message_files.read_messages(files, spec.width)
        with (
            self.progress.step("shuffling", total) as advance,
            durable_files.create_atomic_directory(directory) as unfinished,
        ):
            messages = message_files.sort_messages(report_progress(batches, advance), spec.width, total, unfinished)
            written = message_files.write_shuffled(messages, spec, unfinished)
            if written.messages != total:
                raise EngineError(f"collect: expected {total} messages to shuffle, got {written.messages}.")

    def aggregate(
        self, mechanism: Mechanism, shuffled: Path, messages: int, estimator: Estimator | None = None
    ) -> AccumulatedStatistic:
        with self.progress.step("aggregating", messages) as advance:
            batches = report_progress(message_files.Manifest.read(shuffled).read_verified_messages(shuffled), advance)
            total = batch_processing.accumulate(mechanism, batches, estimator)
        if total is None:
            raise ValueError(f"messages: expected at least one message of {mechanism.name}, got none.")
        return total


def report_progress(batches: Iterator[Any], advance: Callable[[int], None]) -> Iterator[Any]:
    """Yields the same batches and reports each one as progress."""
    for batch in batches:
        yield batch
        advance(len(batch))


# --- Engines by name ---


ENGINE_NAMES = ("embedded", "spark")


def create_engine(name: str, progress: Progress | None = None, master: str | None = None) -> Engine:
    """Returns the engine of this name, ready to run; Spark uses the active session of this process, if any."""
    progress = Progress() if progress is None else progress
    if name == "spark":
        from shuffledp.spark.engine import Spark

        return Spark(progress, master)
    if name != "embedded":
        raise ValueError(f"collect: engine must be one of {', '.join(ENGINE_NAMES)}, got {name!r}.")
    if master is not None:
        raise InvalidArgument("collect", phrase("needs {engine='spark'}"), parameter=Argument("master"))
    return EmbeddedEngine(progress)


@contextmanager
def open_engine(engine: str | Engine, progress: Progress | None = None, master: str | None = None) -> Iterator[Engine]:
    """Starts the engine of a name and closes it at the end; an engine that is already running is left open."""
    if isinstance(engine, Engine):
        yield engine
        return
    running_engine = create_engine(engine, progress, master)
    try:
        yield running_engine
    finally:
        running_engine.close()
