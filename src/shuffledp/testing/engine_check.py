"""Whether an engine keeps its contract: the messages of the key, an order that tells nothing, a retry that repeats."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp.array import Bytes
from shuffledp.collection import external_sort, kernel, manifest, message
from shuffledp.collection.engine.engine import Engine
from shuffledp.collection.input.file_table import FileTable
from shuffledp.collection.lot import USERS, Lot
from shuffledp.mechanisms.frequency.krr import KRR
from shuffledp.mechanisms.frequency.oue import OUE
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.multimessage.pure_dump import PureDUMP
from shuffledp.progress import Progress
from shuffledp.sampling.random import KeyedSource
from shuffledp.tasks.column import Column
from shuffledp.tasks.frequency import Frequency
from shuffledp.testing.check import Check, checks, refused, run_all
from shuffledp.testing.checked import Checked

if TYPE_CHECKING:
    import pyarrow as pa

KEY = bytes(range(32))
PLAN = "0" * 64
WIDTHS = (1, 2, 3, 16)
ROWS = 700


@dataclass(frozen=True)
class Sample:
    """A column of a table, and its rows."""

    column: Column
    array: pa.Array

    @property
    def mechanism(self) -> Mechanism:
        return self.column.mechanism

    @property
    def lot(self) -> Lot:
        """What an engine is told of it."""
        return Lot.for_mechanism(PLAN, self.mechanism, len(self.array))

    def messages(self, part_rows: int | None = None) -> Bytes:
        """What encoding under the key gives, in the order of the rows: parts of chunks, each with its own stream."""
        values = self.column.values(self.array)
        part_rows = len(values) if part_rows is None else part_rows
        chunk_rows, rows = kernel.chunk_rows(self.mechanism), []
        for part, start in enumerate(range(0, len(values), part_rows)):
            own = values[start : start + part_rows]
            for chunk, first in enumerate(range(0, len(own), chunk_rows)):
                source = KeyedSource(KEY, part * kernel.STREAMS_OF_A_PART + chunk)
                rows.append(self.mechanism.pack(self.mechanism.randomize(own[first : first + chunk_rows], source)))
        return np.concatenate(rows)


@dataclass(frozen=True)
class Bench:
    """An engine that is checked, with an empty directory."""

    engine: Engine
    room: Path

    def place(self, name: str) -> Path:
        """A new directory for one check."""
        place = self.room / name
        place.mkdir()
        return place


def check_engine(
    make: Callable[[], Engine], *, directory: Path | None = None, raises: bool = True, progress: Progress | None = None
) -> Checked:
    """Run the contract suite on an engine: ``make`` is its class, or any function without arguments that gives one.

    A few hundred rows are encoded, shuffled and added up in a temporary directory (in ``directory``, where one is
    given, such as one that all machines share) and compared with what the key determines, message by message.
    ``progress`` shows how far it is.

    Requires: an engine that can read and write local files, or files in ``directory``.
    Returns: what was checked. All failures are in one ConformanceError (an AssertionError), each with what it means;
    with ``raises=False`` they are only listed, as ``failures``. The engine is closed.

    >>> import shuffledp as sdp
    >>> from shuffledp.collection.engine.register import engine_of
    >>> sdp.testing.check_engine(lambda: engine_of("embedded")).passed
    True
    """
    engine = make()
    if not isinstance(engine, Engine):
        raise TypeError(f"check_engine: expected a function that gives an Engine, got one that gives {engine!r}.")
    try:
        with tempfile.TemporaryDirectory(dir=directory) as room:
            outcome = run_all(type(engine).__name__, Bench(engine, Path(room)), ENGINE_CHECKS, progress)
    finally:
        engine.close()
    return outcome.demanded(raises)


def samples() -> Iterator[Sample]:
    """Columns of options: messages of one byte, of several bytes, and several messages of a user."""
    import pyarrow as pa

    mechanisms = (KRR(2.0, 4), OUE(2.0, 40), PureDUMP(4, 30))
    for mechanism in mechanisms:
        options = mechanism.options
        numbers = (options * np.random.default_rng(1).random(ROWS) ** 2).astype(np.int64)
        yield Sample(Column(("value",), Frequency(options), mechanism), pa.array(numbers))


# --- what is wrong, given the engine and where to work ------------------------------------------------------------


def wrong_messages(engine: Engine, sample: Sample, path: Path, directory: Path) -> Iterator[str]:
    """Encode and shuffle a file; the messages must be those of the key, each once, in order of their bytes."""
    who, wanted = sample.mechanism.name, in_order(sample.messages())
    width, rows = sample.mechanism.message_bytes, len(sample.array)
    found = engine.check(FileTable(path), sample.column)
    if found != rows:
        yield f"{who}: check() counts {found} of {rows} rows"
    engine.encode(FileTable(path), sample.column, KEY, sample.lot, directory / "encoded")
    encoded = messages_in(directory / "encoded", width)
    if sorted(encoded) != wanted:
        yield f"{who}: {len(encoded)} messages are not the {len(wanted)} that the key gives"
    engine.shuffle(directory / "encoded", sample.lot, directory / "shuffled")
    shuffled = messages_in(directory / "shuffled", width)
    if shuffled != wanted:
        same = "not in order of their bytes" if sorted(shuffled) == wanted else "other ones than were encoded"
        yield f"{who}: the shuffled messages are {same}"


def wrong_statistic(engine: Engine, sample: Sample, shuffled: Path) -> Iterator[str]:
    """The added-up statistic must be that of all messages at once."""
    mechanism, wire = sample.mechanism, sample.messages()
    total = engine.aggregate(mechanism, shuffled, len(wire))
    if total.messages != len(wire):
        yield f"{mechanism.name}: aggregate() counts {total.messages} of {len(wire)} messages"
    if total.refused:
        yield f"{mechanism.name}: aggregate() refuses {total.refused} good messages"
    if not np.array_equal(total.statistic, mechanism.accumulate(mechanism.unpack(wire))):
        yield f"{mechanism.name}: the statistic is not that of all messages"
    if mechanism.reading.counted is not None:
        some = mechanism.reading_of([mechanism.reading.counted - 1, 0])
        total = engine.aggregate(mechanism, shuffled, len(wire), some)
        if not np.array_equal(total.statistic, some.accumulate(mechanism.unpack(wire))):
            yield f"{mechanism.name}: the statistic of some options is not that of all messages"


def wrong_order(engine: Engine, width: int, directory: Path) -> Iterator[str]:
    """The same messages in another order, in other files, must give the same bytes; and they must be in order."""
    generator = np.random.default_rng(7)
    wire = generator.integers(0, 256, (1000, width), dtype=np.uint8)
    wire[::3] = wire[0]  # ties
    wire[1::7, -1] = 0  # bytes that end in zeros
    outputs = []
    for number, cuts in enumerate(([1000], [1, 400, 1000], [250, 500, 750, 1000])):
        mixed = generator.permutation(wire)
        parts = [mixed[a:b] for a, b in zip([0, *cuts], cuts, strict=False)]
        shuffled = directory / f"shuffled{number}"
        engine.shuffle(write_messages(directory / f"encoded{number}", parts), lot_of(width, 1000), shuffled)
        outputs.append({path.name: path.read_bytes() for path in shuffled.iterdir()})
        if messages_in(shuffled, width) != in_order(wire):
            yield f"messages of {width} bytes in {len(cuts)} files do not come out in order of their bytes"
    if any(output != outputs[0] for output in outputs):
        yield f"the files of the same messages of {width} bytes depend on the order and the files in which they came"


def wrong_after_a_kill(engine: Engine, directory: Path) -> Iterator[str]:
    """What a killed shuffle left, other messages among it, must not be in the way and must not come out."""
    wire = np.random.default_rng(8).integers(0, 256, (300, 5), dtype=np.uint8)
    encoded = write_messages(directory / "encoded", [wire])
    write_messages(directory / "sorted", [wire[:7]])
    left = write_messages(directory / "shuffled.unfinished-1", [wire[:9]])
    engine.shuffle(encoded, lot_of(5, 300), directory / "shuffled")
    if messages_in(directory / "shuffled", 5) != in_order(wire):
        yield "the messages are not those that were encoded"
    if left.exists():
        yield "what the killed one left is still there, and tells which messages came together"


def telling_shape(engine: Engine, width: int, directory: Path) -> Iterator[str]:
    """Whatever the messages are: there must be as many files, row groups and rows, and no words in the footers."""
    generator = np.random.default_rng(8)
    shapes = []
    for number, most in enumerate((256, 2)):
        wire = generator.integers(0, most, (601, width), dtype=np.uint8)
        encoded = write_messages(directory / f"encoded{number}", [wire])
        engine.shuffle(encoded, lot_of(width, 601), directory / f"shuffled{number}")
        shapes.append(shape_of(directory / f"shuffled{number}"))
    if shapes[0] != shapes[1]:
        yield f"names, row groups or statistics of files of 601 messages of {width} bytes depend on what they are"
    if any(words is not None for shape in shapes for _, _, words, _ in shape):
        yield "the footers of the files hold words besides the messages"


def different_on_a_retry(engine: Engine, sample: Sample, path: Path, directory: Path) -> Iterator[str]:
    """Encoded once more, over what is there and elsewhere, every row must send the message that it sent before."""
    width, found = sample.mechanism.message_bytes, []
    for name in ("first", "first", "second"):
        engine.encode(FileTable(path), sample.column, KEY, sample.lot, directory / name)
        found.append(sorted(messages_in(directory / name, width)))
    if found[1] != found[0]:
        yield f"{sample.mechanism.name}: encoding over what is complete changes the messages"
    if found[2] != found[0]:
        yield f"{sample.mechanism.name}: the same rows under the same key send other messages"


# --- the suite ----------------------------------------------------------------------------------------------------


@checks(
    "The messages are not those of the key",
    "rows are lost, sent twice or randomized in a way that nobody has analysed",
)
def messages_are_those_of_the_key(bench: Bench) -> Iterator[str]:
    """Encoding is a function of the key and the rows, the same in every engine; shuffling sorts its messages."""
    place = bench.place("messages")
    for number, sample in enumerate(samples()):
        directory = bench.place(f"messages-{number}")
        path = write_table(place / f"{number}.parquet", other=range(ROWS), value=sample.array)
        yield from wrong_messages(bench.engine, sample, path, directory)


@checks("The statistic does not add up", "the estimate is not that of the messages")
def the_statistic_adds_up(bench: Bench) -> Iterator[str]:
    """``aggregate`` is the mechanism's own ``accumulate`` of all messages."""
    for number, sample in enumerate(samples()):
        wire = sample.messages()
        shuffled = bench.place(f"statistic-{number}") / "shuffled"
        shuffled.mkdir()
        manifest.write([external_sort.in_order(wire)], sample.lot, shuffled)
        yield from wrong_statistic(bench.engine, sample, shuffled)


@checks(
    "The order of the shuffled messages tells something",
    "messages can be traced to their users, and no amplification by shuffling holds",
)
def the_order_tells_nothing(bench: Bench) -> Iterator[str]:
    """The shuffled files are a function of the multiset of messages."""
    for width in WIDTHS:
        yield from wrong_order(bench.engine, width, bench.place(f"order-{width}"))


@checks(
    "The shape of the shuffled files tells something",
    "files of some messages can be told from files of others without reading them",
)
def the_shape_tells_the_number_only(bench: Bench) -> Iterator[str]:
    """Names and row groups depend on the number of messages only."""
    for width in (2, 16):
        yield from telling_shape(bench.engine, width, bench.place(f"shape-{width}"))


@checks(
    "A retry gives other messages",
    "a crash makes users send two messages about one value, which costs privacy twice",
)
def a_retry_repeats(bench: Bench) -> Iterator[str]:
    """The same key gives every row the same message."""
    for number, sample in enumerate(samples()):
        directory = bench.place(f"retry-{number}")
        path = write_table(directory / "data.parquet", value=sample.array)
        yield from different_on_a_retry(bench.engine, sample, path, directory)


@checks("A shuffle that was killed is not repeated cleanly", "what it left behind tells which messages came together")
def a_killed_shuffle_is_done_again(bench: Bench) -> Iterator[str]:
    """Leftovers are removed and do not come out."""
    yield from wrong_after_a_kill(bench.engine, bench.place("killed"))


@checks("A bad table is not refused", "a collection would stop half-way, after messages were encoded")
def a_bad_value_is_refused(bench: Bench) -> Iterator[str]:
    """``check`` refuses a value outside the domain by one sentence, and writes nothing."""
    import pyarrow as pa

    for number, sample in enumerate(samples()):
        directory = bench.place(f"bad-{number}")
        array = pa.array([*sample.array.to_pylist()[:-1], 10**6])
        path = write_table(directory / "data.parquet", value=array)
        with refused(ValueError) as sentences:
            bench.engine.check(FileTable(path), sample.column)
        if not sentences:
            yield f"{sample.mechanism.name}: check() took a value outside the domain"
        elif not sentences[0].endswith(".") or "\n" in sentences[0]:
            yield f"{sample.mechanism.name}: the refusal is no sentence: {sentences[0]!r}"
        if list(directory.iterdir()) != [path]:
            yield f"{sample.mechanism.name}: check() left files behind"


ENGINE_CHECKS: tuple[Check[Bench], ...] = (
    messages_are_those_of_the_key,
    the_statistic_adds_up,
    the_order_tells_nothing,
    the_shape_tells_the_number_only,
    a_retry_repeats,
    a_killed_shuffle_is_done_again,
    a_bad_value_is_refused,
)


# --- files --------------------------------------------------------------------------------------------------------


def lot_of(width: int, messages: int) -> Lot:
    """So many messages, each of a user."""
    return Lot(PLAN, width, messages, 1, messages, messages, USERS)


def in_order(wire: Bytes) -> list[bytes]:
    """The messages sorted by Python itself."""
    return sorted(row.tobytes() for row in wire)


def messages_in(directory: Path, width: int) -> list[bytes]:
    """The messages of a directory of files, in the order in which they stand there."""
    return [row.tobytes() for wire in message.read(message.files_of(directory), width) for row in wire]


def write_messages(directory: Path, parts: Sequence[Bytes]) -> Path:
    """Files of messages as an encoder might leave them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    directory.mkdir(parents=True)
    for number, wire in enumerate(parts):
        pq.write_table(pa.table({message.COLUMN: message.array_of(wire)}), directory / f"part-{number:05d}.parquet")
    return directory


def write_table(path: Path, **columns: Any) -> Path:
    """A Parquet file of these columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({name: pa.array(column) for name, column in columns.items()}), path)
    return path


def shape_of(directory: Path) -> list[tuple[str, list[int], Any, Any]]:
    """Of each file: its name, the rows of its row groups, the words in its footer, and a column's statistics."""
    import pyarrow.parquet as pq

    shape = []
    for path in message.files_of(directory):
        footer = pq.read_metadata(path)
        groups = [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]
        shape.append((path.name, groups, footer.metadata, footer.row_group(0).column(0).statistics))
    return shape
