"""The input: one column of a Parquet or CSV file, of a directory of Parquet files, or of data in memory, in batches."""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shuffledp.tasks.column import Column, without_views

if TYPE_CHECKING:
    import pyarrow as pa

PARQUET, CSV = (".parquet", ".pq"), (".csv",)
READ_BYTES = 1 << 20
CSV_BLOCK_BYTES = 1 << 22
HASHED_ROWS = 1 << 16
NAMELESS = "value"
"""What a column without a name is called."""


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

    @abstractmethod
    def names(self) -> list[str]:
        """Its columns."""

    @abstractmethod
    def fingerprint(self) -> dict[str, Any]:
        """What changes if the data do."""

    @abstractmethod
    def batches(self, column: Column, rows: int) -> Iterator[pa.Array]:
        """The column, at most ``rows`` rows at a time, in order."""

    def demand_column(self, name: str, names: list[str]) -> None:
        """Stop if there is no such column."""
        if name not in names:
            shown = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
            raise ValueError(f"input: {self.title} has no column {name!r}; it has {shown}.")

    def column_named(self, name: str | None) -> str:
        """The name that was given, or that of the only column."""
        if name is not None:
            return name
        names = self.names()
        if len(names) != 1:
            raise ValueError(f"input: expected the name of a column of {self.title}, which has {len(names)}.")
        return names[0]


@dataclass(frozen=True)
class FileTable(Table):
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
    def title(self) -> str:
        return self.path.name

    @property
    def place(self) -> str:
        return str(self.path)

    @property
    def is_parquet(self) -> bool:
        return self.path.is_dir() or self.path.suffix.lower() in PARQUET

    def names(self) -> list[str]:
        import pyarrow.csv as csv
        import pyarrow.parquet as pq

        with self._readable():
            if self.is_parquet:
                return list(pq.read_schema(self.files()[0]).names)
            with csv.open_csv(self.path, read_options=csv.ReadOptions(block_size=CSV_BLOCK_BYTES)) as whole:
                return list(whole.schema.names)

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


@dataclass(frozen=True, eq=False)
class MemoryTable(Table):
    """One column in memory, as Arrow holds it."""

    name: str
    column: pa.ChunkedArray

    @property
    def title(self) -> str:
        return "the data"

    def names(self) -> list[str]:
        return [self.name]

    def fingerprint(self) -> dict[str, Any]:
        """A hash of the column's buffers, however they are divided."""
        import pyarrow as pa

        hashed = hashlib.sha256()
        field = pa.field("column", self.column.type)
        for piece in chunks(iter(self.column.chunks), HASHED_ROWS):
            # Put together from two, it is a copy without what lies around it in memory.
            alone = pa.concat_arrays([piece.slice(0, 0), piece])
            hashed.update(pa.RecordBatch.from_arrays([alone], schema=pa.schema([field])).serialize())
        return {"rows": len(self.column), "type": str(self.column.type), "sha256": hashed.hexdigest()}

    def batches(self, column: Column, rows: int) -> Iterator[pa.Array]:
        self.demand_column(column.name, self.names())
        for piece in self.column.chunks:
            for start in range(0, len(piece), rows):
                yield piece.slice(start, rows)

    def write(self, path: Path) -> FileTable:
        """The same column as a Parquet file that only its owner may read, for an engine that reads files."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            pq.write_table(pa.table({self.name: self.column}), file)
        return FileTable(path)


def table_of(data: Any, column: str | None = None) -> Table:
    """The input that was given: a path, or a data frame, series, table or array that Arrow understands."""
    if isinstance(data, Table):
        return data
    if isinstance(data, str | os.PathLike):
        return FileTable(Path(data))
    import pyarrow as pa

    try:
        name, found = _in_memory(data, column)
    except pa.ArrowException as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise ValueError(f"input: cannot read the data: {reason}.") from None
    return MemoryTable(name, _plain(found))


def _in_memory(data: Any, column: str | None) -> tuple[str, pa.ChunkedArray]:
    """The column of data in memory, and its name; pandas, polars and others hand it over by Arrow's C interface."""
    import pyarrow as pa

    if isinstance(data, pa.Array):
        return _named(data, column), pa.chunked_array([data])
    tabular = isinstance(data, pa.Table | pa.RecordBatch)
    if tabular or hasattr(data, "columns"):
        names = list(data.schema.names if tabular else data.columns)
        name = _chosen(names, column)
        # Only this one: others may hold what Arrow does not know.
        return name, pa.table(data.select([name]) if tabular else data[[name]])[name]
    known = isinstance(data, pa.ChunkedArray) or hasattr(data, "__arrow_c_stream__")
    return _named(data, column), pa.chunked_array(data if known else [_array(data)])


def _chosen(names: list[Any], column: str | None) -> str:
    """The column that was named, or the only one."""
    if column is None and len(names) != 1:
        raise ValueError(f"input: expected the name of a column of the data, which has {len(names)}.")
    name = names[0] if column is None else column
    if name not in names:
        shown = ", ".join(map(str, names[:20])) + (", …" if len(names) > 20 else "")
        raise ValueError(f"input: the data has no column {name!r}; it has {shown}.")
    if not isinstance(name, str):
        raise TypeError(f"input: expected a column whose name is a text, got {name!r}.")
    return name


def _named(data: Any, column: str | None) -> str:
    """A single column has the name that is given, or its own."""
    own = getattr(data, "name", None)
    return column if column is not None else own if isinstance(own, str) and own else NAMELESS


def _array(data: Any) -> pa.Array:
    """A series of a library that does not know Arrow's C interface yet."""
    import pyarrow as pa

    if not hasattr(data, "__array__"):
        raise TypeError(f"input: expected a path, or a data frame, series, table or array, got {type(data).__name__}.")
    return pa.array(data, from_pandas=True)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Without dictionaries and views: what is in each row stands there."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = pa.chunked_array(
            [
                pa.DictionaryArray.from_arrays(piece.indices, without_views(piece.dictionary)).dictionary_decode()
                for piece in column.chunks
            ],
            type=without_views(pa.array([], column.type.value_type)).type,
        )
    return without_views(column)


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
