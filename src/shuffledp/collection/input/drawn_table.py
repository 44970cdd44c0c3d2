"""A secret sample of a table's rows, drawn from a key: the same rows for the same key, whichever engine reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from shuffledp.bounds.schedule import Schedule
from shuffledp.collection.input.contribution import Selection
from shuffledp.collection.input.table import RowCount, Table
from shuffledp.sampling import secret_sample
from shuffledp.sampling.random import WORD, KeyedSource

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLE_STREAM = WORD - 2
"""The stream of the key from which the sample is drawn: no part of the input has it, nor the shuffler's noise."""


@dataclass(frozen=True, eq=False)
class DrawnTable(Table):
    """The rows of a table that were drawn; which ones they are goes nowhere."""

    whole: Table
    selection: Selection

    @classmethod
    def of(cls, table: Table, rows: int, schedule: Schedule, key: bytes) -> Self:
        """As many of the table's rows as a schedule draws in a round, or each by its coin."""

        def begin() -> KeyedSource:
            return KeyedSource(key, SAMPLE_STREAM)

        if schedule.rate is None:
            bits = secret_sample.of_size(begin, rows, min(rows, schedule.expected))
        else:
            bits = secret_sample.by_coins(begin(), rows, schedule.rate)
        used = int(np.bitwise_count(bits).sum())
        if used == 0:
            raise ValueError("input: the coins drew nobody; nothing was collected, and a new collection draws anew.")
        return cls(table, Selection(bits, rows, used, used))

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

    @property
    def used(self) -> int:
        """How many rows were drawn."""
        return self.selection.used

    def names(self) -> list[str]:
        return self.whole.names()

    def fingerprint(self) -> dict[str, Any]:
        return self.whole.fingerprint()

    def read(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        yield from self.selection.kept(self.whole.read(columns, rows))

    def where(self, row: int) -> str:
        return self.whole.where(self.selection.place(row))

    def counted(self, used: int) -> RowCount:
        return self.whole.counted(used)
