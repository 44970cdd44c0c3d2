"""The input: rows of a table, in batches and in an order that stays the same, wherever they are."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from shuffledp.tasks.column import BadRow, Column

if TYPE_CHECKING:
    import pyarrow as pa

NAMES_SHOWN = 20
LIKE_A_VALUE = re.compile(r"\s*([+-]?[\d.,:/-]+(e[+-]?\d+)?)?\s*", re.IGNORECASE)
"""A number, a date or nothing: what people hold rather than what columns are called."""
OTHER_DELIMITERS = (";", "\t", "|")


@dataclass(frozen=True)
class RowCount:
    """Which rows of the input were used: counts, and nothing else."""

    used: int
    left_out: int = 0
    users: int | None = None
    """How many people these rows are of; None where each row was taken as one."""
    per_person: int = 1
    dropped: int = 0
    """Rows without a value, which a rule left out."""
    gathered: bool = False
    """Whether all rows of a person are one."""

    def sentence(self) -> str:
        """For the report."""
        dropped = f" {self.dropped:,} rows without a value were not used." if self.dropped else ""
        if self.gathered:
            return f"All rows of each of {self.users:,} people were taken together.{dropped}"
        if self.users is None:
            return f"Each row was taken as one person: whoever has several has given several times.{dropped}"
        most = "one row" if self.per_person == 1 else f"{self.per_person:,} rows"
        return (
            f"At most {most} of each of {self.users:,} people, the first in the order of the input, were used: "
            f"{self.used:,} rows; {self.left_out:,} rows were left out.{dropped}"
        )

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {name: value for name, value in vars(self).items() if name not in ("dropped", "gathered") or value}


class Table(ABC):
    """Rows of users, in an order that stays the same."""

    @property
    @abstractmethod
    def title(self) -> str:
        """What sentences call it."""

    @property
    def place(self) -> str:
        """Where it is."""
        return self.title

    @property
    def per_person(self) -> int:
        """The most rows that one person has, as far as is known: each row is a person unless somebody says whose."""
        return 1

    @property
    def by_id(self) -> bool:
        """Whether somebody says whose the rows are."""
        return False

    @abstractmethod
    def names(self) -> list[str]:
        """Its columns."""

    @abstractmethod
    def fingerprint(self) -> dict[str, Any]:
        """What changes if the data do, and only then."""

    @abstractmethod
    def read(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """These columns, in this order, at most ``rows`` rows at a time; what a file of texts holds are texts."""

    def batches(self, column: Column, rows: int) -> Iterator[pa.Array]:
        """What is read of it, at most ``rows`` rows at a time, in order."""
        for batch in self.read(column.names, rows):
            yield column.array(batch)

    def counted(self, used: int) -> RowCount:
        """What is told of the rows, of which this many were used."""
        return RowCount(used)

    def where(self, row: int) -> str:
        """The place of one of the rows that are read, counted from 0: file and row, counted from 1, for a sentence."""
        return f"{self.title}, row {row + 1:,}"

    @contextmanager
    def located(self) -> Iterator[None]:
        """What is said of a row says where it is."""
        try:
            yield
        except BadRow as error:
            where = self.title if error.row is None else self.where(error.row)
            raise ValueError(f"{where}, {error}") from None

    def demand_columns(self, wanted: Sequence[str], names: list[str]) -> None:
        """Stop if one of these columns is not there, or twice."""
        for name in wanted:
            if name not in names:
                raise ValueError(f"input: {self.title} has no column {name!r}; {_instead(name, names)}.")
            if names.count(name) > 1:
                raise ValueError(
                    f"input: {self.title} has {names.count(name)} columns {name!r}; give each its own name."
                )

    def columns_named(self, named: tuple[str, ...]) -> tuple[str, ...]:
        """The columns that were named, or the only one."""
        names = self.names() if not named else []
        if not named and len(names) != 1:
            raise ValueError(f"input: expected the name of a column of {self.title}, which has {len(names)}.")
        return named or tuple(names)


def _instead(name: str, names: list[str]) -> str:
    """What there is in place of a column; where the first line is a person's and no header, nothing of it is told."""
    if any(LIKE_A_VALUE.fullmatch(each) for each in names):
        return "its first line does not look like the names of columns, which must stand there"
    if len(names) == 1:
        for delimiter in OTHER_DELIMITERS:
            if delimiter in names[0]:
                return f"its fields seem to be divided by {delimiter!r} (--delimiter)"
    close = get_close_matches(name.casefold(), {each.casefold(): each for each in names}, 1)
    meant = next((each for each in names if close and each.casefold() == close[0]), None)
    shown = ", ".join(names[:NAMES_SHOWN]) + (", …" if len(names) > NAMES_SHOWN else "")
    return f"it has {shown}" + ("" if meant is None else f"; did you mean {meant!r}?").rstrip("?")


MOST_ROW_BYTES = 1 << 10
"""Of a row on average, where many are worked on together."""


def chunks(arrays: Iterator[pa.Array], rows: int, row_bytes: int | None = MOST_ROW_BYTES) -> Iterator[pa.Array]:
    """The same rows in pieces of exactly ``rows``, but for the last one, however they came.

    A sentence where they are longer than ``row_bytes`` on average, None for any length: a small file may stand for more
    than there is memory.
    """
    import pyarrow as pa

    waiting: list[pa.Array] = []
    held = size = 0
    for array in arrays:
        size += array.nbytes
        if row_bytes is not None and size > rows * row_bytes:
            raise ValueError(
                f"input: expected values of at most {row_bytes:,} bytes on average, got longer ones in {rows:,} rows; "
                f"choose another column, or shorten them."
            )
        while held + len(array) >= rows:
            take = rows - held
            waiting.append(array.slice(0, take))
            yield waiting[0] if len(waiting) == 1 else pa.concat_arrays(waiting)
            array, waiting, held = array.slice(take), [], 0
            size = array.nbytes
        if len(array):
            waiting.append(array)
            held += len(array)
    if held:
        yield waiting[0] if len(waiting) == 1 else pa.concat_arrays(waiting)
