"""What every engine runs on a batch: check, encode, accumulate. Nothing here knows which engine it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from shuffledp.array import Array, Bytes
from shuffledp.collection import durable, message
from shuffledp.collection.input.table import chunks
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.parts.reading import Reading
from shuffledp.sampling.random import WORD, KeyedSource, RandomSource
from shuffledp.tasks.column import BadRow, Column, Tally

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK_ROWS, CHUNK_BYTES = 1 << 17, 1 << 24
"""Most users, and bytes of messages, in a chunk."""
STREAMS_OF_A_PART = 1 << 32
SHUFFLER_FILE = "shuffler.parquet"
SHUFFLER_STREAM = WORD - 1
"""The stream of the key from which the shuffler's own messages are drawn: no part of the input has it."""


def chunk_rows(mechanism: Mechanism) -> int:
    """Users who share one stream of randomness: always the same ones, so that a retry gives the same messages."""
    return max(1, min(CHUNK_ROWS, int(CHUNK_BYTES // (mechanism.messages_per_user * mechanism.message_bytes))))


def check(column: Column, arrays: Iterable[pa.Array]) -> int:
    """How many rows there are, if every value is good; a sentence otherwise."""
    rows = 0
    for array in arrays:
        if len(array):
            try:
                column.values(array)
            except BadRow as error:
                raise BadRow(str(error), None if error.row is None else rows + error.row) from None
        rows += len(array)
    return rows


def counted(column: Column, arrays: Iterable[pa.Array]) -> Tally:
    """How many values become others by the column's rules."""
    return sum((column.counted(array) for array in arrays if len(array)), Tally())


@dataclass(frozen=True)
class Encoder:
    """Encodes a column under a secret key: the messages of a chunk depend on the key and the chunk's number alone."""

    column: Column
    key: bytes

    def encode(self, array: pa.Array, part: int, chunk: int) -> Bytes:
        """The messages of one chunk of one part of the input."""
        mechanism = self.column.mechanism
        source = KeyedSource(self.key, part * STREAMS_OF_A_PART + chunk)
        return mechanism.pack(mechanism.randomize(self.column.values(array, source), source))

    def part(self, arrays: Iterator[pa.Array], part: int) -> Iterator[Bytes]:
        """The messages of one part of the input, chunk by chunk."""
        for chunk, array in enumerate(chunks(arrays, chunk_rows(self.column.mechanism))):
            yield self.encode(array, part, chunk)

    def __repr__(self) -> str:
        # The key undoes the noise: it must not reach a log.
        return f"Encoder({self.column!r})"


def drawn_by_shuffler(mechanism: Mechanism, source: RandomSource) -> Bytes:
    """The messages that the shuffler adds to those of the users; none where it has nothing to draw."""
    drawn = mechanism.drawn_by_shuffler(source)
    if drawn is None:
        return np.empty((0, mechanism.message_bytes), dtype=np.uint8)
    return mechanism.pack(drawn)


def add_noise(mechanism: Mechanism, key: bytes, encoded: Path) -> None:
    """The shuffler's own messages beside the encoded ones, once: a repetition draws the same ones."""
    path = encoded / SHUFFLER_FILE
    if mechanism.crowd.by_shuffler and not path.exists():
        drawn = drawn_by_shuffler(mechanism, KeyedSource(key, SHUFFLER_STREAM))
        with durable.whole_file(path) as file:
            message.write_to(file, mechanism.message_bytes, [drawn])


@dataclass(frozen=True)
class Total:
    """What was read: the statistic that the estimate needs, and from how many messages."""

    statistic: Array
    messages: int
    refused: int
    """Rows that are no messages of the mechanism; they are in neither of the others."""

    def __add__(self, other: Total) -> Total:
        statistic = np.asarray(self.statistic + other.statistic)
        return Total(statistic, self.messages + other.messages, self.refused + other.refused)


def accumulate(mechanism: Mechanism, batches: Iterable[Bytes], reading: Reading | None = None) -> Total | None:
    """Everything added up; None of no messages. A row that is no message is counted, and does nothing else.

    ``reading`` is that of some options, where not all are asked for.
    """
    server = mechanism.reading if reading is None else reading
    total: Total | None = None
    refused = 0
    for wire in batches:
        messages, good = mechanism.wire.read(mechanism.wire.rows(wire))
        found = int(np.count_nonzero(good))
        refused += len(good) - found
        if found:
            sent = messages if found == len(good) else messages[good]
            part = Total(np.asarray(server.accumulate(sent)), found, 0)
            total = part if total is None else total + part
    return None if total is None else replace(total, refused=refused)


def sifted(mechanism: Mechanism, wire: Bytes) -> tuple[Bytes, int]:
    """The rows that are messages of the mechanism, and how many others there are."""
    if not len(wire):
        return wire, 0
    good = mechanism.valid(wire)
    bad = len(good) - int(np.count_nonzero(good))
    return (wire[good] if bad else wire), bad
