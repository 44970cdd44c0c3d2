"""The interface of an input table: rows in batches, in a fixed order, wherever they are stored."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from shuffledp._core.errors import InvalidArgument, error_phrase
from shuffledp._core.message_phrases import Phrase, phrase
from shuffledp.tasks.column_reader import BadRow, ColumnReader

if TYPE_CHECKING:
    import pyarrow as pa

MAX_NAMES_SHOWN = 20
VALUE_PATTERN = re.compile(r"\s*([+-]?[\d.,:/-]+(e[+-]?\d+)?)?\s*", re.IGNORECASE)
"""Matches a number, a date or an empty text: values of people rather than names of columns."""
OTHER_DELIMITERS = (";", "\t", "|")


@dataclass(frozen=True)
class RowCount:
    """Counts of the rows of the input that were used, and nothing else about them."""

    used: int
    left_out: int = 0
    users: int | None = None
    """Number of people whose rows these are; None if each row was taken as one person."""
    per_person: int = 1
    dropped: int = 0
    """Number of rows without a value, which a rule left out."""
    gathered: bool = False
    """True if all rows of a person form one."""

    def format_sentence(self) -> str:
        """Returns the sentence for the report."""
        dropped = f" {self.dropped:,} rows without a value were not used." if self.dropped else ""
        if self.gathered:
            return f"All rows of each of {self.users:,} people were combined.{dropped}"
        if self.users is None:
            return f"Each row was taken as one person: someone with several rows contributed several times.{dropped}"
        most = "one row" if self.per_person == 1 else f"{self.per_person:,} rows"
        return (
            f"At most {most} of each of {self.users:,} people, the first in the order of the input, were used: "
            f"{self.used:,} rows; {self.left_out:,} rows were left out.{dropped}"
        )

    def document(self) -> dict[str, Any]:
        """Returns the fields for JSON."""
        return {name: value for name, value in vars(self).items() if name not in ("dropped", "gathered") or value}


class Table(ABC):
    """Rows of users, in a fixed order."""

    @property
    @abstractmethod
    def title(self) -> str:
        """Name of the table in error messages."""

    @property
    def place(self) -> str:
        """Location of the table in error messages."""
        return self.title

    @property
    def per_person(self) -> int:
        """The largest number of rows of one person; each row counts as a person unless a column identifies users."""
        return 1

    @property
    def has_user_ids(self) -> bool:
        """True if a column identifies the users."""
        return False

    @abstractmethod
    def names(self) -> list[str]:
        """Returns the names of the columns."""

    @abstractmethod
    def fingerprint(self) -> dict[str, Any]:
        """Returns a fingerprint that changes if and only if the data do."""

    @abstractmethod
    def read(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Yields these columns, in this order, in batches of at most ``rows`` rows; text files yield strings."""

    def batches(self, column: ColumnReader, rows: int) -> Iterator[pa.Array]:
        """Yields the values of a column in order, in batches of at most ``rows`` rows."""
        for batch in self.read(column.names, rows):
            yield column.join_columns(batch)

    def count_rows(self, used: int) -> RowCount:
        """Returns the row counts for the report; ``used`` is the number of rows that were used."""
        return RowCount(used)

    def locate_row(self, row: int) -> str:
        """Returns the location of a row, counted from 0, for an error message: file, and row counted from 1."""
        return f"{self.title}, row {row + 1:,}"

    @contextmanager
    def locate_errors(self) -> Iterator[None]:
        """Adds the location of the row to errors about it."""
        try:
            yield
        except BadRow as error:
            where = self.title if error.row is None else self.locate_row(error.row)
            raise ValueError(phrase("{where}, {error}", where=where, error=error_phrase(error))) from None

    def check_columns(self, wanted: Sequence[str], names: list[str]) -> None:
        """Raises ValueError if one of these columns is missing or occurs twice."""
        for name in wanted:
            if name not in names:
                raise InvalidArgument(
                    "input", f"{self.title} has no column {name!r}", hint=_suggest_column(name, names)
                )
            if names.count(name) > 1:
                raise ValueError(
                    f"input: {self.title} has {names.count(name)} columns {name!r}; give each its own name."
                )

    def choose_columns(self, named: tuple[str, ...]) -> tuple[str, ...]:
        """Returns the given column names, or the only column if none are given."""
        names = self.names() if not named else []
        if not named and len(names) != 1:
            raise ValueError(f"input: expected the name of a column of {self.title}, which has {len(names)}.")
        return named or tuple(names)


def _suggest_column(name: str, names: list[str]) -> str | Phrase:
    """Suggests what to use instead of a missing column; if the first line is data, nothing of it is shown."""
    if any(VALUE_PATTERN.fullmatch(each) for each in names):
        return "its first line must hold the names of columns, and looks like data"
    if len(names) == 1:
        for delimiter in OTHER_DELIMITERS:
            if delimiter in names[0]:
                return phrase("its fields seem to be separated by {character} ({delimiter})", character=repr(delimiter))
    close = get_close_matches(name.casefold(), {each.casefold(): each for each in names}, 1)
    meant = next((each for each in names if close and each.casefold() == close[0]), None)
    shown = ", ".join(names[:MAX_NAMES_SHOWN]) + (", …" if len(names) > MAX_NAMES_SHOWN else "")
    return f"it has {shown}" + ("" if meant is None else f"; did you mean {meant!r}?").rstrip("?")


MAX_ROW_BYTES = 1 << 10
"""Largest average size of a row, where many are processed together."""


def rechunk(arrays: Iterator[pa.Array], rows: int, row_bytes: int | None = MAX_ROW_BYTES) -> Iterator[pa.Array]:
    """Yields the same rows in pieces of exactly ``rows``, except the last, however they were divided.

    Raises ValueError if they are longer than ``row_bytes`` on average (None allows any length): a small file may expand
    to more than fits into memory.
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


def is_spark_frame(data: Any) -> bool:
    """Returns True for a Spark data frame of any kind, without importing Spark."""
    return any(
        kind.__module__.startswith("pyspark.sql") and kind.__name__ == "DataFrame" for kind in type(data).__mro__
    )


ADDRESS_PATTERN = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:/")


def is_address(text: Any) -> bool:
    """Returns True for an address on a file system, such as ``s3a://bucket/data``, rather than a local path."""
    return isinstance(text, str) and ADDRESS_PATTERN.match(text) is not None
