"""A table on disk: a Parquet or CSV file, or a directory of Parquet files, by one reader for every engine."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shuffledp.collection.input import listing
from shuffledp.collection.input.parquet_page import Damaged, demand_sound
from shuffledp.collection.input.table import Table
from shuffledp.tasks.column import Column

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

READ_BYTES = 1 << 20
CSV_BLOCK_BYTES = 1 << 22
OF_A_PERSON = re.compile(
    r"(CSV parse error: .*?got \d+|CSV conversion error to \S+|CSV .*?invalid UTF8 data).*", re.DOTALL
)
"""What Arrow says of a bad row; behind it, it quotes the row."""


@dataclass(frozen=True)
class FileTable(Table):
    """A file on disk, or a directory of Parquet files, which are read in the order of their names."""

    path: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))
        with self._readable():
            listing.demand_unlike(self.files())

    @property
    def title(self) -> str:
        return self.path.name

    @property
    def place(self) -> str:
        return str(self.path)

    @property
    def is_parquet(self) -> bool:
        return self.path.is_dir() or self.path.suffix.lower() in listing.PARQUET

    def files(self) -> list[Path]:
        """The files that hold the rows, in order."""
        with self._readable():
            return listing.data_files(self.path)

    def names(self) -> list[str]:
        with self._readable():
            if self.is_parquet:
                with opened(self.files()[0]) as file:
                    return list(file.schema_arrow.names)
            with self._opened_csv() as whole:
                return list(whole.schema.names)

    def fingerprint(self) -> dict[str, Any]:
        """Size and SHA-256 of each file, in order: whatever their names and times are."""
        with self._readable():
            known = [(path, listing.digest(path)) for path in self.files()]
            listing.demand_no_copies(known)
            return {"files": [[path.stat().st_size, told] for path, told in known]}

    def read(self, columns: Mapping[str, pa.DataType], rows: int) -> Iterator[pa.RecordBatch]:
        with self._readable():
            yield from self._parquet(list(columns), rows) if self.is_parquet else self._csv(columns, rows)

    @contextmanager
    def _readable(self) -> Iterator[None]:
        import pyarrow as pa

        try:
            yield
        except Damaged as error:
            raise ValueError(f"input: {self.path.name} is damaged: {error}.") from None
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            reason = OF_A_PERSON.sub(r"\1", " ".join(str(error).split())).rstrip(".")
            raise ValueError(f"input: cannot read {self.path.name}: {reason}.") from None

    # --- Parquet ----------------------------------------------------------------------------------------------

    def told_rows(self, column: Column) -> int:
        """How many rows the footers of Parquet files tell, if the column is the same in all of them.

        For an engine that reads the files itself: it must find as many.
        """
        with self._readable():
            rows, schema = 0, None
            for path in self.files():
                with opened(path) as file:
                    schema = self._schema(path, file, [column.name], schema)
                    demand_sound(path, file.metadata, [column.name])
                    rows += file.metadata.num_rows
            return rows

    def has_lookalike(self, column: Column) -> bool:
        """Whether another column differs in upper and lower case only, which not every reader tells apart."""
        with self._readable():
            for path in self.files():
                with opened(path) as file:
                    folded = [name.casefold() for name in file.schema_arrow.names]
                    if folded.count(column.name.casefold()) > 1:
                        return True
            return False

    def _parquet(self, names: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        schema = None
        for path in self.files():
            with opened(path) as file:
                schema = self._schema(path, file, names, schema)
                demand_sound(path, file.metadata, names)
                found = 0
                for batch in file.iter_batches(batch_size=rows, columns=names):
                    arrays = [batch.column(batch.schema.get_field_index(name)) for name in names]
                    alike = [array.cast(field.type) for array, field in zip(arrays, schema, strict=True)]
                    yield pa.RecordBatch.from_arrays(alike, schema=schema)
                    found += len(batch)
                if found != file.metadata.num_rows:
                    raise damaged(path.name, file.metadata.num_rows, found)

    def _schema(self, path: Path, file: pq.ParquetFile, names: list[str], first: pa.Schema | None) -> pa.Schema:
        """The types of these columns, which must be the same in all files: those of the first one."""
        import pyarrow as pa

        self.demand_columns(dict.fromkeys(names), list(file.schema_arrow.names))
        own = pa.schema([pa.field(name, file.schema_arrow.field(name).type) for name in names])
        if first is None:
            return own
        for before, field in zip(first, own, strict=True):
            if plain_type(before.type) != plain_type(field.type):
                raise ValueError(
                    f"input: column {field.name!r} is {field.type} in {path.name}, but {before.type} in the files "
                    f"before; give it one type in all files."
                )
        return first

    # --- CSV --------------------------------------------------------------------------------------------------

    def _opened_csv(self, converting: pc.ConvertOptions | None = None) -> pc.CSVStreamingReader:
        import pyarrow.csv as pc

        return pc.open_csv(
            self.path,
            read_options=pc.ReadOptions(block_size=CSV_BLOCK_BYTES),
            # A line break between quotes is part of a value, not the end of a row.
            parse_options=pc.ParseOptions(newlines_in_values=True),
            convert_options=converting,
        )

    def _csv(self, columns: Mapping[str, pa.DataType], rows: int) -> Iterator[pa.RecordBatch]:
        import pyarrow.csv as pc

        with self._opened_csv() as whole:
            self.demand_columns(columns, list(whole.schema.names))
        converting = pc.ConvertOptions(include_columns=list(columns), column_types=dict(columns))
        with self._opened_csv(converting) as file:
            for batch in file:
                for start in range(0, len(batch), rows):
                    yield batch.slice(start, rows)


def damaged(name: str, told: int, found: int) -> ValueError:
    """A footer and what follows from the rest of a file are two things: only where they agree both are believed."""
    return ValueError(f"input: {name} says that it has {told} rows, but {found} can be read; it is damaged.")


def opened(path: Path) -> pq.ParquetFile:
    """A Parquet file; reading in small pieces keeps memory small whatever the size of the row groups."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(path, buffer_size=READ_BYTES, pre_buffer=False, page_checksum_verification=True)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """What a column holds, however Arrow keeps it: texts are texts in a dictionary, too."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    return kind
