"""A bound on what one person contributes: the first K rows of each user in the order of the input, and no more.

Memory stays bounded: beside one bit a row, users are sorted in runs, on disk where they are many.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp.array import Bytes, Integers, Words
from shuffledp.collection import external_sort
from shuffledp.collection.input.id_hash import IdHash
from shuffledp.collection.input.table import RowCount, Table

if TYPE_CHECKING:
    import pyarrow as pa

READ_ROWS = 1 << 17
HASH_BYTES, RECORD_BYTES = 16, 24
"""A user's hash, and with the number of the row behind it: in order of their bytes, each user's rows are in order."""
IN_MEMORY_BYTES = 64 << 20
"""Records that are sorted in memory; more are sorted on disk."""


@dataclass(frozen=True)
class Selection:
    """Which rows are used: a bit for each, the first one lowest."""

    bits: Bytes
    rows: int
    used: int
    users: int

    def part(self, start: int, stop: int) -> np.ndarray:
        """Whether each row from one place to another is used."""
        if stop > self.rows:
            raise changed(self.rows)
        first = start // 8
        whole = np.unpackbits(self.bits[first : -(-stop // 8)], bitorder="little")
        return whole[start - 8 * first : stop - 8 * first].astype(np.bool_)

    def kept(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows that are used, of all rows in order."""
        import pyarrow as pa

        place = 0
        for batch in batches:
            kept = self.part(place, place + len(batch))
            place += len(batch)
            yield batch.filter(pa.array(kept))
        if place != self.rows:
            raise changed(self.rows)

    def place(self, used: int) -> int:
        """Which of all rows is the one before which so many are used."""
        return int(np.flatnonzero(np.unpackbits(self.bits, bitorder="little"))[used])


@dataclass(frozen=True, eq=False)
class BoundedTable(Table):
    """The first rows of each user of a table, ``most`` at the most; ids are read to count them, and go nowhere."""

    whole: Table
    user: str
    most: int

    @property
    def title(self) -> str:
        return self.whole.title

    @property
    def place(self) -> str:
        return self.whole.place

    @property
    def per_person(self) -> int:
        return self.most

    @property
    def by_id(self) -> bool:
        return True

    def names(self) -> list[str]:
        return [name for name in self.whole.names() if name != self.user]

    def fingerprint(self) -> dict[str, Any]:
        """That of all rows, and how some of them are chosen."""
        return {**self.whole.fingerprint(), "user": self.user, "rows_per_user": self.most}

    def read(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        if self.user in columns:
            raise ValueError(f"input: the column of the users, {self.user!r}, is not collected; choose another column.")
        yield from self.selection.kept(self.whole.read(columns, rows))

    def where(self, row: int) -> str:
        return self.whole.where(self.selection.place(row))

    def counted(self, used: int) -> RowCount:
        chosen = self.selection
        return RowCount(used, chosen.rows - chosen.used, chosen.users, self.most)

    @cached_property
    def selection(self) -> Selection:
        """Made when it is first needed, from one look at the ids."""
        with tempfile.TemporaryDirectory(prefix="shuffledp-users-") as room:
            return self._select(Path(room))

    def _select(self, room: Path) -> Selection:
        hashing, total = IdHash(self.user), 0

        def records() -> Iterator[Bytes]:
            nonlocal total
            for batch in self.whole.read([self.user], READ_ROWS):
                numbers = np.arange(total, total + len(batch), dtype=">u8").view(np.uint8).reshape(-1, 8)
                total += len(batch)
                yield np.concatenate([hashing.of(batch.column(0)), numbers], axis=1)

        users = used = 0
        bits = np.zeros(0, dtype=np.uint8)
        for ranks, rows in _ranked(_in_order(records(), room)):
            if not len(bits):
                # Sorting begins when everything is read.
                bits = np.zeros(-(-total // 8), dtype=np.uint8)
            chosen = rows[ranks < self.most]
            np.bitwise_or.at(bits, chosen >> 3, np.left_shift(1, chosen & 7).astype(np.uint8))
            users, used = users + int((ranks == 0).sum()), used + len(chosen)
        return Selection(bits, total, used, users)


def changed(rows: int) -> ValueError:
    """What is said where the rows are no longer those of the first look."""
    return ValueError(f"input: expected {rows} rows as at the first look; the file has changed since.")


def _in_order(records: Iterator[Bytes], room: Path) -> Iterator[Bytes]:
    """All records in order of their bytes, on disk if there are many."""
    held, size = [], 0
    for batch in records:
        held.append(batch)
        size += batch.size
        if size > IN_MEMORY_BYTES:
            yield from external_sort.sort(_rest(held, records), RECORD_BYTES, room, READ_ROWS)
            return
    if held:
        yield external_sort.in_order(np.concatenate(held))


def _rest(held: list[Bytes], records: Iterator[Bytes]) -> Iterator[Bytes]:
    """What was read already, each given up as it goes, then the others."""
    while held:
        yield held.pop(0)
    yield from records


def _ranked(batches: Iterator[Bytes]) -> Iterator[tuple[Integers, Integers]]:
    """For each record: how many rows of the same user are before it, and the number of its row."""
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
            # The user of the last batch goes on.
            ranks[: int(np.argmax(new)) if new.any() else len(new)] += before
        last, before = hashes[-1].copy(), int(ranks[-1]) + 1
        yield ranks, rows
