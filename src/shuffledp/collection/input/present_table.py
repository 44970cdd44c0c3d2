"""The rows of a table that have a value, where a rule leaves the others out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp.array import Bytes
from shuffledp.collection.input.contribution import READ_ROWS, Selection
from shuffledp.collection.input.table import RowCount, Table
from shuffledp.tasks.cell import missing_rows

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class PresentTable(Table):
    """The rows that have a value in every column that is read: decided row by row, whatever the others hold.

    How many they are is public, as the number of users is.
    """

    whole: Table
    columns: Sequence[str]
    numeric: Sequence[bool]
    """Of which columns a text such as "nan" is no value."""
    gaps: tuple[str, ...] = ()
    """Texts that stand for none in any column."""

    @property
    def title(self) -> str:
        return self.whole.title

    @property
    def place(self) -> str:
        return self.whole.place

    @property
    def per_person(self) -> int:
        return self.whole.per_person

    @property
    def by_id(self) -> bool:
        return self.whole.by_id

    def names(self) -> list[str]:
        return self.whole.names()

    def fingerprint(self) -> dict[str, Any]:
        return self.whole.fingerprint()

    def read(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        yield from self.selection.kept(self.whole.read(columns, rows))

    def where(self, row: int) -> str:
        return self.whole.where(self.selection.place(row))

    def counted(self, used: int) -> RowCount:
        found = self.selection
        return replace(self.whole.counted(used), dropped=found.rows - found.used)

    @cached_property
    def selection(self) -> Selection:
        """Made when it is first needed, from one look at the columns."""
        bits: list[Bytes] = []
        left = np.zeros(0, dtype=np.bool_)
        rows = used = 0
        for batch in self.whole.read(self.columns, READ_ROWS):
            present = ~missing_rows(batch.columns, self.numeric, self.gaps)
            rows, used = rows + len(present), used + int(present.sum())
            left = np.concatenate([left, present])
            whole = len(left) // 8 * 8
            bits.append(np.packbits(left[:whole], bitorder="little"))
            left = left[whole:]
        bits.append(np.packbits(left, bitorder="little"))
        if rows and not used:
            raise ValueError(f"input: no row of {self.title} has a value in {', '.join(self.columns)}.")
        return Selection(np.concatenate(bits), rows, used, used)
