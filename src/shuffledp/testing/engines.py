"""``check_engine``: the contract of engines.

Messages are determined by the key, the order of shuffled messages reveals nothing, and a retry repeats them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp._core.results_and_value_objects import Progress
from shuffledp._core.validation import Bytes
from shuffledp.collection import batch_processing, message_files
from shuffledp.collection.engine import Engine
from shuffledp.collection.input.files import FileTable
from shuffledp.collection.message_files import USERS, BatchSpec
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.mechanisms.dummies.pure_and_mix_dump import PureDUMP
from shuffledp.mechanisms.frequency.randomized_response import KRR
from shuffledp.mechanisms.frequency.unary_encoding import OUE
from shuffledp.sampling.random_sources import KeyedSource
from shuffledp.storage import sorting
from shuffledp.tasks.column_reader import ColumnReader
from shuffledp.tasks.counts_and_frequencies import Frequency
from shuffledp.testing._check_framework import Check, CheckResult, collect_refusals, conformance_check, run_all

if TYPE_CHECKING:
    import pyarrow as pa

KEY = bytes(range(32))
PLAN_ID = "0" * 64
MESSAGE_WIDTHS = (1, 2, 3, 16)
ROWS = 700


@dataclass(frozen=True)
class ColumnSample:
    """A column of a table, and its rows."""

    column: ColumnReader
    array: pa.Array

    @property
    def mechanism(self) -> Mechanism:
        return self.column.mechanism

    @property
    def batch_spec(self) -> BatchSpec:
        """The expected size and identity of the batch, as an engine receives it."""
        return BatchSpec.from_mechanism(PLAN_ID, self.mechanism, len(self.array))

    def expected_messages(self, part_rows: int | None = None) -> Bytes:
        """Returns the messages that the key determines, in the order of the rows.

        Parts consist of chunks, each with its own stream.
        """
        values = self.column.read_values(self.array)
        part_rows = len(values) if part_rows is None else part_rows
        chunk_rows, rows = batch_processing.rows_per_chunk(self.mechanism), []
        for part, start in enumerate(range(0, len(values), part_rows)):
            own = values[start : start + part_rows]
            for chunk, first in enumerate(range(0, len(own), chunk_rows)):
                source = KeyedSource(KEY, part * batch_processing.STREAMS_PER_PART + chunk)
                rows.append(self.mechanism.pack(self.mechanism.randomize(own[first : first + chunk_rows], source)))
        return np.concatenate(rows)


@dataclass(frozen=True)
class EngineUnderTest:
    """An engine under test, with an empty directory."""

    engine: Engine
    directory: Path

    def make_directory(self, name: str) -> Path:
        """Creates a directory for one check."""
        place = self.directory / name
        place.mkdir()
        return place


def check_engine(
    make: Callable[[], Engine], *, directory: Path | None = None, raises: bool = True, progress: Progress | None = None
) -> CheckResult:
    """Runs the contract suite on an engine.

    A few hundred rows are encoded, shuffled and aggregated, and compared, message by message, with the messages that
    the key determines. The engine is closed afterwards.

    Args:
        make: The engine's class, or any function without arguments that returns an engine, which must be able to read
            and write local files, or files in ``directory``.
        directory: Where to create the temporary directory, such as a place that all machines share.
        raises: If False, failures are only listed in the result.
        progress: Receives the progress.

    Returns:
        The outcome; each failure comes with its meaning.

    Raises:
        ConformanceError: If a check fails; it lists all failures.
        TypeError: If ``make`` does not return an engine.

    >>> import shuffledp as sdp
    >>> from shuffledp.collection.engine import create_engine
    >>> sdp.testing.check_engine(lambda: create_engine("embedded")).passed
    True
    """
    engine = make()
    if not isinstance(engine, Engine):
        raise TypeError(f"check_engine: expected a function that gives an Engine, got one that gives {engine!r}.")
    try:
        with tempfile.TemporaryDirectory(dir=directory) as room:
            outcome = run_all(type(engine).__name__, EngineUnderTest(engine, Path(room)), ENGINE_CHECKS, progress)
    finally:
        engine.close()
    return outcome.raise_if_failed(raises)


def column_samples() -> Iterator[ColumnSample]:
    """Yields columns of options: messages of one byte, of several bytes, and several messages per user."""
    import pyarrow as pa

    mechanisms = (KRR(2.0, 4), OUE(2.0, 40), PureDUMP(4, 30))
    for mechanism in mechanisms:
        options = mechanism.options
        numbers = (options * np.random.default_rng(1).random(ROWS) ** 2).astype(np.int64)
        yield ColumnSample(ColumnReader(("value",), Frequency(options), mechanism), pa.array(numbers))


# --- Errors of an engine in a directory ---


def find_wrong_messages(engine: Engine, sample: ColumnSample, path: Path, directory: Path) -> Iterator[str]:
    """Encodes and shuffles a file; the messages must be those of the key, each once, in the order of their bytes."""
    name, expected = sample.mechanism.name, sort_messages(sample.expected_messages())
    width, rows = sample.mechanism.message_bytes, len(sample.array)
    count = engine.check(FileTable(path), sample.column)
    if count != rows:
        yield f"{name}: check() counts {count} of {rows} rows"
    engine.encode(FileTable(path), sample.column, KEY, sample.batch_spec, directory / "encoded")
    encoded = read_messages(directory / "encoded", width)
    if sorted(encoded) != expected:
        yield f"{name}: {len(encoded)} messages are not the {len(expected)} that the key gives"
    engine.shuffle(directory / "encoded", sample.batch_spec, directory / "shuffled")
    shuffled = read_messages(directory / "shuffled", width)
    if shuffled != expected:
        error = "not in order of their bytes" if sorted(shuffled) == expected else "other ones than were encoded"
        yield f"{name}: the shuffled messages are {error}"


def find_wrong_statistic(engine: Engine, sample: ColumnSample, shuffled: Path) -> Iterator[str]:
    """Aggregates messages; the statistic must be that of all messages at once."""
    mechanism, wire = sample.mechanism, sample.expected_messages()
    total = engine.aggregate(mechanism, shuffled, len(wire))
    if total.messages != len(wire):
        yield f"{mechanism.name}: aggregate() counts {total.messages} of {len(wire)} messages"
    if total.refused:
        yield f"{mechanism.name}: aggregate() refuses {total.refused} good messages"
    if not np.array_equal(total.statistic, mechanism.accumulate(mechanism.unpack(wire))):
        yield f"{mechanism.name}: the statistic is not that of all messages"
    if mechanism.estimator.option_count is not None:
        partial_estimator = mechanism.build_estimator([mechanism.estimator.option_count - 1, 0])
        total = engine.aggregate(mechanism, shuffled, len(wire), partial_estimator)
        if not np.array_equal(total.statistic, partial_estimator.accumulate(mechanism.unpack(wire))):
            yield f"{mechanism.name}: the statistic of some options is not that of all messages"


def find_order_leaks(engine: Engine, width: int, directory: Path) -> Iterator[str]:
    """Shuffles the same messages in other orders and files; the output must have the same bytes, in sorted order."""
    generator = np.random.default_rng(7)
    wire = generator.integers(0, 256, (1000, width), dtype=np.uint8)
    wire[::3] = wire[0]  # ties
    wire[1::7, -1] = 0  # bytes that end in zeros
    outputs = []
    for number, cuts in enumerate(([1000], [1, 400, 1000], [250, 500, 750, 1000])):
        mixed = generator.permutation(wire)
        parts = [mixed[a:b] for a, b in zip([0, *cuts], cuts, strict=False)]
        shuffled = directory / f"shuffled{number}"
        engine.shuffle(write_messages(directory / f"encoded{number}", parts), build_batch_spec(width, 1000), shuffled)
        outputs.append({path.name: path.read_bytes() for path in shuffled.iterdir()})
        if read_messages(shuffled, width) != sort_messages(wire):
            yield f"messages of {width} bytes in {len(cuts)} files do not come out in order of their bytes"
    if any(output != outputs[0] for output in outputs):
        yield f"the files of the same messages of {width} bytes depend on the order and the files in which they came"


def find_kill_leftovers(engine: Engine, directory: Path) -> Iterator[str]:
    """Shuffles beside the leftovers of a killed shuffle, which must be removed and must not be released."""
    wire = np.random.default_rng(8).integers(0, 256, (300, 5), dtype=np.uint8)
    encoded = write_messages(directory / "encoded", [wire])
    write_messages(directory / "sorted", [wire[:7]])
    left = write_messages(directory / "shuffled.unfinished-1", [wire[:9]])
    engine.shuffle(encoded, build_batch_spec(5, 300), directory / "shuffled")
    if read_messages(directory / "shuffled", 5) != sort_messages(wire):
        yield "the messages are not those that were encoded"
    if left.exists():
        yield "the leftovers of the killed one remain, and reveal which messages came together"


def find_shape_leaks(engine: Engine, width: int, directory: Path) -> Iterator[str]:
    """Shuffles different messages; files must have the same names, row groups and rows, and no footer metadata."""
    generator = np.random.default_rng(8)
    shapes = []
    for number, most in enumerate((256, 2)):
        wire = generator.integers(0, most, (601, width), dtype=np.uint8)
        encoded = write_messages(directory / f"encoded{number}", [wire])
        engine.shuffle(encoded, build_batch_spec(width, 601), directory / f"shuffled{number}")
        shapes.append(read_file_shapes(directory / f"shuffled{number}"))
    if shapes[0] != shapes[1]:
        yield f"names, row groups or statistics of files of 601 messages of {width} bytes depend on their content"
    if any(words is not None for shape in shapes for _, _, words, _ in shape):
        yield "the footers of the files hold metadata besides the messages"


def find_retry_differences(engine: Engine, sample: ColumnSample, path: Path, directory: Path) -> Iterator[str]:
    """Encodes again, over the same files and elsewhere; every row must send the same message as before."""
    width, messages = sample.mechanism.message_bytes, []
    for name in ("first", "first", "second"):
        engine.encode(FileTable(path), sample.column, KEY, sample.batch_spec, directory / name)
        messages.append(sorted(read_messages(directory / name, width)))
    if messages[1] != messages[0]:
        yield f"{sample.mechanism.name}: encoding over what is complete changes the messages"
    if messages[2] != messages[0]:
        yield f"{sample.mechanism.name}: the same rows under the same key send other messages"


# --- The suite ---


@conformance_check(
    "The messages are not those of the key",
    "rows are lost, sent twice or randomized by another law than the analysed one",
)
def messages_are_those_of_the_key(bench: EngineUnderTest) -> Iterator[str]:
    """Checks that encoding is a function of the key and the rows, as in every engine, and shuffling sorts messages."""
    place = bench.make_directory("messages")
    for number, sample in enumerate(column_samples()):
        directory = bench.make_directory(f"messages-{number}")
        path = write_table(place / f"{number}.parquet", other=range(ROWS), value=sample.array)
        yield from find_wrong_messages(bench.engine, sample, path, directory)


@conformance_check("The statistic does not add up", "the estimate is not that of the messages")
def the_statistic_adds_up(bench: EngineUnderTest) -> Iterator[str]:
    """Checks that ``aggregate`` is the mechanism's own ``accumulate`` of all messages."""
    for number, sample in enumerate(column_samples()):
        wire = sample.expected_messages()
        shuffled = bench.make_directory(f"statistic-{number}") / "shuffled"
        shuffled.mkdir()
        message_files.write_shuffled([sorting.sort_in_memory(wire)], sample.batch_spec, shuffled)
        yield from find_wrong_statistic(bench.engine, sample, shuffled)


@conformance_check(
    "The order of the shuffled messages carries information",
    "messages can be traced to their users, and no amplification by shuffling holds",
)
def the_order_tells_nothing(bench: EngineUnderTest) -> Iterator[str]:
    """Checks that the shuffled files are a function of the multiset of messages."""
    for width in MESSAGE_WIDTHS:
        yield from find_order_leaks(bench.engine, width, bench.make_directory(f"order-{width}"))


@conformance_check(
    "The shape of the shuffled files carries information",
    "files of some messages can be told from files of others without reading them",
)
def the_shape_tells_the_number_only(bench: EngineUnderTest) -> Iterator[str]:
    """Checks that names and row groups depend on the number of messages only."""
    for width in (2, 16):
        yield from find_shape_leaks(bench.engine, width, bench.make_directory(f"shape-{width}"))


@conformance_check(
    "A retry gives other messages", "a crash makes users send two messages about one value, which costs privacy twice"
)
def a_retry_repeats(bench: EngineUnderTest) -> Iterator[str]:
    """Checks that the same key gives every row the same message."""
    for number, sample in enumerate(column_samples()):
        directory = bench.make_directory(f"retry-{number}")
        path = write_table(directory / "data.parquet", value=sample.array)
        yield from find_retry_differences(bench.engine, sample, path, directory)


@conformance_check(
    "A shuffle that was killed is not repeated cleanly", "its leftovers reveal which messages came together"
)
def a_killed_shuffle_is_done_again(bench: EngineUnderTest) -> Iterator[str]:
    """Checks that leftovers are removed and are not released."""
    yield from find_kill_leftovers(bench.engine, bench.make_directory("killed"))


@conformance_check("A bad table is not refused", "a collection would stop half-way, after messages were encoded")
def a_bad_value_is_refused(bench: EngineUnderTest) -> Iterator[str]:
    """Checks that ``check`` raises ValueError for a value outside the domain, and writes nothing."""
    import pyarrow as pa

    for number, sample in enumerate(column_samples()):
        directory = bench.make_directory(f"bad-{number}")
        array = pa.array([*sample.array.to_pylist()[:-1], 10**6])
        path = write_table(directory / "data.parquet", value=array)
        with collect_refusals(ValueError) as sentences:
            bench.engine.check(FileTable(path), sample.column)
        if not sentences:
            yield f"{sample.mechanism.name}: check() took a value outside the domain"
        elif not sentences[0].endswith(".") or "\n" in sentences[0]:
            yield f"{sample.mechanism.name}: the error is not one sentence: {sentences[0]!r}"
        if list(directory.iterdir()) != [path]:
            yield f"{sample.mechanism.name}: check() left files behind"


ENGINE_CHECKS: tuple[Check[EngineUnderTest], ...] = (
    messages_are_those_of_the_key,
    the_statistic_adds_up,
    the_order_tells_nothing,
    the_shape_tells_the_number_only,
    a_retry_repeats,
    a_killed_shuffle_is_done_again,
    a_bad_value_is_refused,
)


# --- Files ---


def build_batch_spec(width: int, messages: int) -> BatchSpec:
    """Returns the batch of so many messages, each of one user."""
    return BatchSpec(PLAN_ID, width, messages, 1, messages, messages, USERS)


def sort_messages(wire: Bytes) -> list[bytes]:
    """Returns the messages sorted by Python itself."""
    return sorted(row.tobytes() for row in wire)


def read_messages(directory: Path, width: int) -> list[bytes]:
    """Returns the messages of a directory, in the order in which they are stored."""
    return [
        row.tobytes()
        for wire in message_files.read_messages(message_files.list_message_files(directory), width)
        for row in wire
    ]


def write_messages(directory: Path, parts: Sequence[Bytes]) -> Path:
    """Writes files of messages as an encoder might leave them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    directory.mkdir(parents=True)
    for number, wire in enumerate(parts):
        pq.write_table(
            pa.table({message_files.MESSAGE_COLUMN: message_files.to_arrow(wire)}),
            directory / f"part-{number:05d}.parquet",
        )
    return directory


def write_table(path: Path, **columns: Any) -> Path:
    """Writes a Parquet file of these columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({name: pa.array(column) for name, column in columns.items()}), path)
    return path


def read_file_shapes(directory: Path) -> list[tuple[str, list[int], Any, Any]]:
    """Returns the name, rows of row groups, footer metadata and column statistics of each file."""
    import pyarrow.parquet as pq

    shape = []
    for path in message_files.list_message_files(directory):
        footer = pq.read_metadata(path)
        groups = [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]
        shape.append((path.name, groups, footer.metadata, footer.row_group(0).column(0).statistics))
    return shape
