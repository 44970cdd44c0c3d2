"""The input: one column of a Parquet or CSV file, or of a directory of Parquet files, in batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shuffledp.collection.column import Column

if TYPE_CHECKING:
    import pyarrow as pa

PARQUET, CSV = (".parquet", ".pq"), (".csv",)
READ_BYTES = 1 << 20
CSV_BLOCK_BYTES = 1 << 22


@dataclass(frozen=True)
class Table:
    """A file on disk, or a directory of Parquet files, which are read in the order of their names."""

    path: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))
        if self.path.is_dir():
            if not self.files():
                raise ValueError(f"input: expected .parquet files in the directory {str(self.path)!r}, got none.")
        elif not self.path.is_file():
            raise ValueError(f"input: expected a file, got {str(self.path)!r}, which is none.")
        elif self.path.suffix.lower() not in PARQUET + CSV:
            raise ValueError(f"input: expected a .parquet or .csv file, got {self.path.name!r}.")

    @property
    def is_parquet(self) -> bool:
        return self.path.is_dir() or self.path.suffix.lower() in PARQUET

    def files(self) -> list[Path]:
        """The files that hold the rows, in order."""
        if not self.path.is_dir():
            return [self.path]
        return sorted(path for path in self.path.iterdir() if path.suffix.lower() in PARQUET)

    def fingerprint(self) -> dict[str, Any]:
        """What changes if a file does."""
        found = [(str(path.resolve()), path.stat()) for path in self.files()]
        return {"files": [[name, known.st_size, known.st_mtime_ns] for name, known in found]}

    def batches(self, column: Column, rows: int) -> Iterator[pa.Array]:
        """The column, at most ``rows`` rows at a time, in the order of the file."""
        with self._readable():
            yield from self._parquet(column, rows) if self.is_parquet else self._csv(column, rows)

    @contextmanager
    def _readable(self) -> Iterator[None]:
        import pyarrow as pa

        try:
            yield
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            reason = " ".join(str(error).split()).rstrip(".")
            raise ValueError(f"input: cannot read {self.path.name}: {reason}.") from None

    def _parquet(self, column: Column, rows: int) -> Iterator[pa.Array]:
        import pyarrow.parquet as pq

        kind = None
        for path in self.files():
            # Reading in small pieces keeps memory small whatever the size of the row groups.
            with pq.ParquetFile(path, buffer_size=READ_BYTES, pre_buffer=False) as file:
                self.demand_column(column.name, file.schema_arrow.names)
                kind = kind or file.schema_arrow.field(column.name).type
                for batch in file.iter_batches(batch_size=rows, columns=[column.name]):
                    yield batch.column(0).cast(kind)

    def _csv(self, column: Column, rows: int) -> Iterator[pa.Array]:
        import pyarrow.csv as csv

        kind = column.csv_type()
        reading = csv.ReadOptions(block_size=CSV_BLOCK_BYTES)
        with csv.open_csv(self.path, read_options=reading) as whole:
            self.demand_column(column.name, whole.schema.names)
        converting = csv.ConvertOptions(include_columns=[column.name], column_types={column.name: kind})
        with csv.open_csv(self.path, read_options=reading, convert_options=converting) as file:
            for batch in file:
                for start in range(0, len(batch), rows):
                    yield batch.column(0).slice(start, rows)

    def demand_column(self, name: str, names: list[str]) -> None:
        """Stop if the file has no such column."""
        if name not in names:
            shown = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
            raise ValueError(f"input: {self.path.name} has no column {name!r}; it has {shown}.")


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
