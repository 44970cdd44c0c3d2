"""All rows of a person as one row of lists: one value a person, however many rows there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shuffledp.collection.input.contribution import READ_ROWS
from shuffledp.collection.input.table import RowCount, Table

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class GatheredTable(Table):
    """A row for each user of a table, in the order in which they first come; what is read of it is held in memory."""

    whole: Table
    user: str

    @property
    def title(self) -> str:
        return self.whole.title

    @property
    def place(self) -> str:
        return self.whole.place

    @property
    def by_id(self) -> bool:
        return True

    def names(self) -> list[str]:
        return [name for name in self.whole.names() if name != self.user]

    def fingerprint(self) -> dict[str, Any]:
        """That of all rows, and how they are put together."""
        return {**self.whole.fingerprint(), "user": self.user, "gathered": True}

    def read(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        if self.user in columns:
            raise ValueError(f"input: the column of the users, {self.user!r}, is not collected; choose another column.")
        found = pa.Table.from_batches(self._checked([*columns, self.user]))
        grouped = found.group_by(self.user, use_threads=False).aggregate([(name, "list") for name in columns])
        gathered = grouped.select([f"{name}_list" for name in columns]).rename_columns(list(columns))
        yield from gathered.combine_chunks().to_batches(max_chunksize=rows)

    def _checked(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """All rows, each of which has a user."""
        from shuffledp.tasks.cell import gaps

        for batch in self.whole.read(columns, READ_ROWS):
            missing = int(gaps(batch.column(len(columns) - 1), (), numeric=False).sum())
            if missing:
                raise ValueError(
                    f"user column {self.user!r}: expected a user in every row, got {missing} rows without one; leave "
                    f"them out."
                )
            yield batch

    def where(self, row: int) -> str:
        return f"{self.title}, the user who comes as number {row + 1:,}"

    def counted(self, used: int) -> RowCount:
        before = self.whole.counted(used)
        return RowCount(used, 0, used, 1, before.dropped, gathered=True)
