"""Views of a table: some rows of each user, a secret sample, rows grouped by user, rows with values.

The rows per user are limited in bounded memory: besides one bit per row, user ids are sorted in runs, on disk if there
are many.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from shuffledp._core.validation import Bytes, Integers, Words
from shuffledp.bounds.participation import Participation
from shuffledp.collection.input.base import RowCount, Table
from shuffledp.sampling import random_sources
from shuffledp.sampling.random_sources import BLOCK_BYTES, KEY_BYTES, WORD_RANGE, KeyedSource
from shuffledp.storage import sorting
from shuffledp.tasks.value_parsing import find_missing, find_missing_rows

if TYPE_CHECKING:
    import pyarrow as pa


# --- Hashed user ids ---
#
# Ids are hashed under a secret key of this process: equal ids stay equal, and nobody else can link them to people. They
# are compared, sorted and, if memory is too small, written to disk in this form only.


FIRST_BLOCK_ID_BYTES = BLOCK_BYTES // 2
"""Bytes of an id that stand beside its length in the first block."""
MAX_ID_BYTES = 1 << 10
"""Largest size of an id."""


class IdHash:
    """A keyed hash of 16 bytes: CBC-MAC under AES-256, with a fresh key, of the id preceded by its length.

    With lengths prepended no message is a prefix of another; on such messages CBC-MAC is a pseudorandom function.
    """

    def __init__(self, column: str) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        self._column = column
        self._cipher = Cipher(algorithms.AES(os.urandom(KEY_BYTES)), modes.ECB()).encryptor()

    def hash_ids(self, ids: pa.Array) -> Bytes:
        """Returns a row of 16 bytes for each id; raises ValueError if a row has no valid id."""
        import pyarrow as pa

        if pa.types.is_dictionary(ids.type):
            ids = ids.dictionary_decode()
        if ids.null_count:
            raise self._build_error(
                f"expected a user in every row, got {ids.null_count} rows without one; leave them out"
            )
        if pa.types.is_integer(ids.type):
            return self._hash_numbers(ids)
        texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_binary,
                 pa.types.is_large_binary, pa.types.is_fixed_size_binary)  # fmt: skip
        if not any(is_kind(ids.type) for is_kind in texts):
            raise self._build_error(f"expected texts or whole numbers that identify users, got {ids.type}")
        return self._hash_texts(ids)

    def _build_error(self, sentence: str) -> ValueError:
        return ValueError(f"user column {self._column!r}: {sentence}.")

    def _hash_numbers(self, ids: pa.Array) -> Bytes:
        words = np.zeros((len(ids), 2), dtype=np.uint64)
        words[:, 0] = ids.to_numpy(zero_copy_only=False).astype(np.uint64)
        return self._encrypt(words.view(np.uint8))

    def _hash_texts(self, ids: pa.Array) -> Bytes:
        import pyarrow as pa

        plain = ids.cast(pa.binary() if pa.types.is_fixed_size_binary(ids.type) else ids.type).cast(pa.large_binary())
        _, offsets, data = plain.buffers()
        ends = np.frombuffer(offsets, dtype=np.int64)[plain.offset : plain.offset + len(plain) + 1]
        # Windows of the last id may reach beyond the end.
        content = np.zeros(int(ends[-1]) + BLOCK_BYTES, dtype=np.uint8)
        if data is not None:
            content[: ends[-1]] = np.frombuffer(data, dtype=np.uint8)[: ends[-1]]
        starts, lengths = ends[:-1], np.diff(ends)
        if len(lengths) and not lengths.all():
            missing = int((lengths == 0).sum())
            raise self._build_error(f"expected a user in every row, got {missing} rows without one; leave them out")
        if len(lengths) and lengths.max() > MAX_ID_BYTES:
            raise self._build_error(f"expected ids of at most {MAX_ID_BYTES} bytes, got one of {lengths.max()}")
        first = np.zeros((len(plain), BLOCK_BYTES), dtype=np.uint8)
        first[:, :FIRST_BLOCK_ID_BYTES] = lengths.astype("<u8").view(np.uint8).reshape(-1, FIRST_BLOCK_ID_BYTES)
        first[:, FIRST_BLOCK_ID_BYTES:] = _extract_windows(content, starts, lengths, FIRST_BLOCK_ID_BYTES)
        state = self._encrypt(first)
        for done in range(FIRST_BLOCK_ID_BYTES, int(lengths.max(initial=0)), BLOCK_BYTES):
            longer = np.flatnonzero(lengths > done)
            block = _extract_windows(content, starts[longer] + done, lengths[longer] - done, BLOCK_BYTES)
            state[longer] = self._encrypt(state[longer] ^ block)
        return state

    def _encrypt(self, blocks: Bytes) -> Bytes:
        sealed = self._cipher.update(np.ascontiguousarray(blocks).tobytes())
        return np.frombuffer(bytearray(sealed), dtype=np.uint8).reshape(blocks.shape)


def _extract_windows(content: Bytes, starts: np.ndarray, lengths: np.ndarray, width: int) -> Bytes:
    """Returns ``width`` bytes from each start, with zeros after the end."""
    places = np.arange(width)
    window = content[np.minimum(starts[:, None] + places, len(content) - 1)]
    return np.where(places < lengths[:, None], window, np.uint8(0))


READ_ROWS = 1 << 17
HASH_BYTES, RECORD_BYTES = 16, 24
"""Size of a user's hash, and with the row number appended: sorted by bytes, each user's rows are in order."""
MAX_IN_MEMORY_BYTES = 64 << 20
"""Largest size of records that are sorted in memory; more are sorted on disk."""


@dataclass(frozen=True)
class RowSelection:
    """The rows that are used: one bit per row, the lowest bit first."""

    bits: Bytes
    rows: int
    used: int
    users: int

    def slice_mask(self, start: int, stop: int) -> np.ndarray:
        """Returns for each row of an interval True if it is used."""
        if stop > self.rows:
            raise build_changed_error(self.rows)
        first = start // 8
        whole = np.unpackbits(self.bits[first : -(-stop // 8)], bitorder="little")
        return whole[start - 8 * first : stop - 8 * first].astype(np.bool_)

    def filter_batches(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the used rows, given all rows in order."""
        import pyarrow as pa

        place = 0
        for batch in batches:
            mask = self.slice_mask(place, place + len(batch))
            place += len(batch)
            yield batch.filter(pa.array(mask))
        if place != self.rows:
            raise build_changed_error(self.rows)

    def find_row(self, used: int) -> int:
        """Returns the index among all rows of the used row with this index."""
        return int(np.flatnonzero(np.unpackbits(self.bits, bitorder="little"))[used])


@dataclass(frozen=True, eq=False)
class TableView(Table):
    """A view of another table, which answers all questions that the view does not."""

    source: Table

    @property
    def title(self) -> str:
        return self.source.title

    @property
    def place(self) -> str:
        return self.source.place

    @property
    def per_person(self) -> int:
        return self.source.per_person

    @property
    def has_user_ids(self) -> bool:
        return self.source.has_user_ids

    def names(self) -> list[str]:
        return self.source.names()

    def fingerprint(self) -> dict[str, Any]:
        return self.source.fingerprint()

    def count_rows(self, used: int) -> RowCount:
        return self.source.count_rows(used)


class SelectedRowsTable(TableView):
    """Some rows of a table."""

    selection: RowSelection

    def read(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        yield from self.selection.filter_batches(self.source.read(columns, rows))

    def locate_row(self, row: int) -> str:
        return self.source.locate_row(self.selection.find_row(row))


@dataclass(frozen=True, eq=False)
class RowsPerUserTable(SelectedRowsTable):
    """The first rows of each user of a table, at most ``max_rows``; ids are read only to count rows per user."""

    user: str
    max_rows: int

    @property
    def per_person(self) -> int:
        return self.max_rows

    @property
    def has_user_ids(self) -> bool:
        return True

    def names(self) -> list[str]:
        return [name for name in self.source.names() if name != self.user]

    def fingerprint(self) -> dict[str, Any]:
        """Returns the fingerprint of all rows, with the rule that selects some of them."""
        return {**self.source.fingerprint(), "user": self.user, "rows_per_user": self.max_rows}

    def read(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        _check_not_user_column(columns, self.user)
        yield from super().read(columns, rows)

    def count_rows(self, used: int) -> RowCount:
        selection = self.selection
        return RowCount(used, selection.rows - selection.used, selection.users, self.max_rows)

    @cached_property
    def selection(self) -> RowSelection:  # type: ignore[override]
        """The selected rows, computed on first use from one pass over the ids."""
        with tempfile.TemporaryDirectory(prefix="shuffledp-users-") as room:
            return self._select_rows(Path(room))

    def _select_rows(self, room: Path) -> RowSelection:
        hashing, total = IdHash(self.user), 0

        def records() -> Iterator[Bytes]:
            nonlocal total
            for batch in self.source.read([self.user], READ_ROWS):
                numbers = np.arange(total, total + len(batch), dtype=">u8").view(np.uint8).reshape(-1, 8)
                total += len(batch)
                yield np.concatenate([hashing.hash_ids(batch.column(0)), numbers], axis=1)

        users = used = 0
        bits = np.zeros(0, dtype=np.uint8)
        for ranks, rows in _rank_rows(_sort_records(records(), room)):
            if not len(bits):
                # Sorting begins after everything is read.
                bits = np.zeros(-(-total // 8), dtype=np.uint8)
            chosen = rows[ranks < self.max_rows]
            np.bitwise_or.at(bits, chosen >> 3, np.left_shift(1, chosen & 7).astype(np.uint8))
            users, used = users + int((ranks == 0).sum()), used + len(chosen)
        return RowSelection(bits, total, used, users)


def _check_not_user_column(columns: Sequence[str], user: str) -> None:
    if user in columns:
        raise ValueError(f"input: the column of the users, {user!r}, is not collected; choose another column.")


def build_changed_error(rows: int) -> ValueError:
    """Returns the error for rows that differ from those of the first pass."""
    return ValueError(f"input: expected {rows} rows as in the first pass; the file has changed since.")


def _sort_records(records: Iterator[Bytes], room: Path) -> Iterator[Bytes]:
    """Yields all records in order of their bytes; sorts on disk if there are many."""
    held, size = [], 0
    for batch in records:
        held.append(batch)
        size += batch.size
        if size > MAX_IN_MEMORY_BYTES:
            yield from sorting.sort_on_disk(_chain_batches(held, records), RECORD_BYTES, room, READ_ROWS)
            return
    if held:
        yield sorting.sort_in_memory(np.concatenate(held))


def _chain_batches(held: list[Bytes], records: Iterator[Bytes]) -> Iterator[Bytes]:
    """Yields the batches in memory, releasing each, and then the others."""
    while held:
        yield held.pop(0)
    yield from records


def _rank_rows(batches: Iterator[Bytes]) -> Iterator[tuple[Integers, Integers]]:
    """Yields for each record the number of earlier rows of the same user, and the number of its row."""
    last: Words | None = None
    before = 0
    for batch in batches:
        if not len(batch):
            continue
        hashes = np.ascontiguousarray(batch[:, :HASH_BYTES]).view(np.uint64)
        rows = np.ascontiguousarray(batch[:, HASH_BYTES:]).view(">u8").reshape(-1).astype(np.int64)
        new = np.ones(len(batch), dtype=np.bool_)
        new[1:] = (hashes[1:] != hashes[:-1]).any(axis=1)
        new[0] = last is None or bool((hashes[0] != last).any())
        places = np.arange(len(batch))
        ranks = places - np.maximum.accumulate(np.where(new, places, 0))
        if not new[0]:
            # The last user of the previous batch continues.
            ranks[: int(np.argmax(new)) if new.any() else len(new)] += before
        last, before = hashes[-1].copy(), int(ranks[-1]) + 1
        yield ranks, rows


SAMPLE_STREAM = WORD_RANGE - 2
"""Key stream from which the sample is drawn; neither a part of the input nor the shuffler's noise uses it."""


@dataclass(frozen=True, eq=False)
class SampledTable(SelectedRowsTable):
    """A secret sample of a table's rows: the same rows for the same key, whichever engine reads them."""

    selection: RowSelection

    @classmethod
    def draw(cls, table: Table, rows: int, schedule: Participation, key: bytes) -> Self:
        """Draws the planned number of rows, or each row by a coin flip."""

        def begin() -> KeyedSource:
            return KeyedSource(key, SAMPLE_STREAM)

        if schedule.rate is None:
            bits = random_sources.draw_subset(begin, rows, min(rows, schedule.expected_users))
        else:
            bits = random_sources.draw_poisson_sample(begin(), rows, schedule.rate)
        used = int(np.bitwise_count(bits).sum())
        if used == 0:
            raise ValueError(
                "input: the coin flips drew nobody; nothing was collected, and a new collection flips again."
            )
        return cls(table, RowSelection(bits, rows, used, used))

    @property
    def sample_size(self) -> int:
        """The number of rows in the sample."""
        return self.selection.used


@dataclass(frozen=True, eq=False)
class GroupedByUserTable(TableView):
    """One row of lists for each user of a table, in order of first appearance; its columns are held in memory."""

    user: str

    @property
    def per_person(self) -> int:
        return 1

    @property
    def has_user_ids(self) -> bool:
        return True

    def names(self) -> list[str]:
        return [name for name in self.source.names() if name != self.user]

    def fingerprint(self) -> dict[str, Any]:
        """Returns the fingerprint of all rows, with the rule that groups them."""
        return {**self.source.fingerprint(), "user": self.user, "gathered": True}

    def read(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        _check_not_user_column(columns, self.user)
        table = pa.Table.from_batches(self._read_with_users([*columns, self.user]))
        groups = table.group_by(self.user, use_threads=False).aggregate([(name, "list") for name in columns])
        lists = groups.select([f"{name}_list" for name in columns]).rename_columns(list(columns))
        yield from lists.combine_chunks().to_batches(max_chunksize=rows)

    def _read_with_users(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Yields all rows; raises ValueError if a row has no user."""
        for batch in self.source.read(columns, READ_ROWS):
            missing = int(find_missing(batch.column(len(columns) - 1), (), numeric=False).sum())
            if missing:
                raise ValueError(
                    f"user column {self.user!r}: expected a user in every row, got {missing} rows without one; leave "
                    f"them out."
                )
            yield batch

    def locate_row(self, row: int) -> str:
        return f"{self.title}, user number {row + 1:,} in order of appearance"

    def count_rows(self, used: int) -> RowCount:
        before = self.source.count_rows(used)
        return RowCount(used, 0, used, 1, before.dropped, gathered=True)


@dataclass(frozen=True, eq=False)
class CompleteRowsTable(SelectedRowsTable):
    """The rows that have a value in every column that is read, decided for each row independently of the others.

    Their number is public, as the number of users is.
    """

    columns: Sequence[str]
    numeric: Sequence[bool]
    """True for columns in which a text such as "nan" is a missing value."""
    gaps: tuple[str, ...] = ()
    """Texts that stand for a missing value in any column."""

    def count_rows(self, used: int) -> RowCount:
        return replace(self.source.count_rows(used), dropped=self.selection.rows - self.selection.used)

    @cached_property
    def selection(self) -> RowSelection:  # type: ignore[override]
        """The selected rows, computed on first use from one pass over the columns."""
        bits: list[Bytes] = []
        left = np.zeros(0, dtype=np.bool_)
        rows = used = 0
        for batch in self.source.read(self.columns, READ_ROWS):
            present = ~find_missing_rows(batch.columns, self.numeric, self.gaps)
            rows, used = rows + len(present), used + int(present.sum())
            left = np.concatenate([left, present])
            whole = len(left) // 8 * 8
            bits.append(np.packbits(left[:whole], bitorder="little"))
            left = left[whole:]
        bits.append(np.packbits(left, bitorder="little"))
        if rows and not used:
            raise ValueError(f"input: no row of {self.title} has a value in {', '.join(self.columns)}.")
        return RowSelection(np.concatenate(bits), rows, used, used)
