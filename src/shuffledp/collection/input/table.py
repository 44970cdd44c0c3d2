"""The input: rows of a table, in batches and in an order that stays the same, wherever they are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shuffledp.tasks.column import Column

if TYPE_CHECKING:
    import pyarrow as pa

NAMES_SHOWN = 20


@dataclass(frozen=True)
class RowCount:
    """Which rows of the input were used: counts, and nothing else."""

    used: int
    left_out: int = 0
    users: int | None = None
    """How many people these rows are of; None where each row was taken as one."""
    per_person: int = 1

    def sentence(self) -> str:
        """For the report."""
        if self.users is None:
            return "Each row was taken as one person: whoever has several has given several times."
        most = "one row" if self.per_person == 1 else f"{self.per_person:,} rows"
        return (
            f"At most {most} of each of {self.users:,} people, the first in the order of the input, were used: "
            f"{self.used:,} rows; {self.left_out:,} rows were left out."
        )

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return dict(vars(self))


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

    @abstractmethod
    def names(self) -> list[str]:
        """Its columns."""

    @abstractmethod
    def fingerprint(self) -> dict[str, Any]:
        """What changes if the data do, and only then."""

    @abstractmethod
    def read(self, columns: Mapping[str, pa.DataType], rows: int) -> Iterator[pa.RecordBatch]:
        """These columns, at most ``rows`` rows at a time, in order; the types are what texts of a CSV file stand for.

        The columns of a batch are in the order of ``columns``.
        """

    def batches(self, column: Column, rows: int) -> Iterator[pa.Array]:
        """One column, at most ``rows`` rows at a time, in order."""
        for batch in self.read({column.name: column.csv_type()}, rows):
            yield batch.column(0)

    def counted(self, used: int) -> RowCount:
        """What is told of the rows, of which this many were used."""
        return RowCount(used)

    def demand_columns(self, wanted: Mapping[str, Any], names: list[str]) -> None:
        """Stop if one of these columns is not there, or twice."""
        for name in wanted:
            if name not in names:
                shown = ", ".join(names[:NAMES_SHOWN]) + (", …" if len(names) > NAMES_SHOWN else "")
                raise ValueError(f"input: {self.title} has no column {name!r}; it has {shown}.")
            if names.count(name) > 1:
                raise ValueError(
                    f"input: {self.title} has {names.count(name)} columns {name!r}; give each its own name."
                )

    def column_named(self, name: str | None) -> str:
        """The name that was given, or that of the only column."""
        if name is not None:
            return name
        names = self.names()
        if len(names) != 1:
            raise ValueError(f"input: expected the name of a column of {self.title}, which has {len(names)}.")
        return names[0]


def chunks(arrays: Iterator[pa.Array], rows: int) -> Iterator[pa.Array]:
    """The same rows in pieces of exactly ``rows``, but for the last one, however they came."""
    import pyarrow as pa

    waiting: list[pa.Array] = []
    held = 0
    for array in arrays:
        while held + len(array) >= rows:
            take = rows - held
            waiting.append(array.slice(0, take))
            yield waiting[0] if len(waiting) == 1 else pa.concat_arrays(waiting)
            array, waiting, held = array.slice(take), [], 0
        if len(array):
            waiting.append(array)
            held += len(array)
    if held:
        yield waiting[0] if len(waiting) == 1 else pa.concat_arrays(waiting)
