"""The steps that every engine runs on a batch of rows or messages: check, encode, accumulate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from shuffledp._core.errors import error_phrase
from shuffledp._core.validation import Array, Bytes
from shuffledp.collection import message_files
from shuffledp.collection.input.base import rechunk
from shuffledp.mechanisms.base.estimator import Estimator
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.sampling.random_sources import WORD_RANGE, KeyedSource, RandomSource
from shuffledp.storage import durable_files
from shuffledp.tasks.column_reader import BadRow, ColumnReader, Tally

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK_ROWS, CHUNK_BYTES = 1 << 17, 1 << 24
"""Upper limits of the number of users, and of the bytes of their messages, in a chunk."""
STREAMS_PER_PART = 1 << 32
SHUFFLER_FILE = "shuffler.parquet"
SHUFFLER_STREAM = WORD_RANGE - 1
"""Key stream from which the shuffler's own messages are drawn; no part of the input uses it."""


def rows_per_chunk(mechanism: Mechanism) -> int:
    """Returns the number of users who share one stream of randomness: a constant, so that retries agree."""
    return max(1, min(CHUNK_ROWS, int(CHUNK_BYTES // (mechanism.messages_per_user * mechanism.message_bytes))))


def check_values(column: ColumnReader, arrays: Iterable[pa.Array]) -> int:
    """Returns the number of rows; raises BadRow, a ValueError, if a value is not as planned."""
    rows = 0
    for array in arrays:
        if len(array):
            try:
                column.read_values(array)
            except BadRow as error:
                raise BadRow(error_phrase(error), None if error.row is None else rows + error.row) from None
        rows += len(array)
    return rows


def count_changed_values(column: ColumnReader, arrays: Iterable[pa.Array]) -> Tally:
    """Counts the values that the column's rules change."""
    return sum((column.count_changes(array) for array in arrays if len(array)), Tally())


@dataclass(frozen=True)
class Encoder:
    """Encodes a column under a secret key.

    The messages of a chunk depend only on the key, the part and the chunk's number.
    """

    column: ColumnReader
    key: bytes

    def encode(self, array: pa.Array, part: int, chunk: int) -> Bytes:
        """Returns the messages of one chunk of one part of the input."""
        mechanism = self.column.mechanism
        source = KeyedSource(self.key, part * STREAMS_PER_PART + chunk)
        return mechanism.pack(mechanism.randomize(self.column.read_values(array, source), source))

    def encode_part(self, arrays: Iterator[pa.Array], part: int) -> Iterator[Bytes]:
        """Yields the messages of one part of the input, chunk by chunk."""
        for chunk, array in enumerate(rechunk(arrays, rows_per_chunk(self.column.mechanism))):
            yield self.encode(array, part, chunk)

    def __repr__(self) -> str:
        # The key reveals the noise: it must not reach a log.
        return f"Encoder({self.column!r})"


def draw_shuffler_messages(mechanism: Mechanism, source: RandomSource) -> Bytes:
    """Returns the messages that the shuffler adds to those of the users; an empty array if it adds none."""
    noise = mechanism.draw_shuffler_messages(source)
    return np.empty((0, mechanism.message_bytes), dtype=np.uint8) if noise is None else mechanism.pack(noise)


def add_noise(mechanism: Mechanism, key: bytes, encoded: Path) -> None:
    """Writes the shuffler's own messages beside the encoded ones; a repeated call draws the same messages."""
    path = encoded / SHUFFLER_FILE
    if mechanism.message_plan.has_shuffler_noise and not path.exists():
        noise = draw_shuffler_messages(mechanism, KeyedSource(key, SHUFFLER_STREAM))
        with durable_files.create_atomic_file(path) as file:
            message_files.write_messages_to(file, mechanism.message_bytes, [noise])


@dataclass(frozen=True)
class AccumulatedStatistic:
    """The accumulated statistic that an estimate needs, and the number of messages in it."""

    statistic: Array
    messages: int
    refused: int
    """Rows that are not messages of the mechanism; ``statistic`` and ``messages`` exclude them."""

    def __add__(self, other: AccumulatedStatistic) -> AccumulatedStatistic:
        statistic = np.asarray(self.statistic + other.statistic)
        return AccumulatedStatistic(statistic, self.messages + other.messages, self.refused + other.refused)


def accumulate(
    mechanism: Mechanism, batches: Iterable[Bytes], estimator: Estimator | None = None
) -> AccumulatedStatistic | None:
    """Adds up the statistic over all messages; returns None if there are none.

    Rows that are not messages of the mechanism are counted and otherwise ignored. ``estimator`` is the estimator of
    selected options; None selects all of them.
    """
    if estimator is None:
        estimator = mechanism.estimator
    total: AccumulatedStatistic | None = None
    refused = 0
    for wire in batches:
        messages, good = mechanism.encoding.decode_rows(mechanism.encoding.check_rows(wire))
        count = int(np.count_nonzero(good))
        refused += len(good) - count
        if count:
            valid = messages if count == len(good) else messages[good]
            part = AccumulatedStatistic(np.asarray(estimator.accumulate(valid)), count, 0)
            total = part if total is None else total + part
    return None if total is None else replace(total, refused=refused)


def filter_valid(mechanism: Mechanism, wire: Bytes) -> tuple[Bytes, int]:
    """Returns the rows that are messages of the mechanism, and the number of all other rows."""
    if not len(wire):
        return wire, 0
    good = mechanism.valid(wire)
    bad = len(good) - int(np.count_nonzero(good))
    return (wire[good] if bad else wire), bad
