"""Files of rows by their suffix: texts (CSV and its kin), Parquet, Arrow; one reader of each for every engine."""

from __future__ import annotations

import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from shuffledp.collection.input.parquet_page import demand_sound

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

READ_BYTES = 1 << 20
CSV_BLOCK_BYTES = 1 << 22


class Format(ABC):
    """How the rows of one kind of file are read."""

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]

    @abstractmethod
    def schema(self, path: Path) -> pa.Schema:
        """The columns of a file, and what each holds."""

    @abstractmethod
    def read(self, path: Path, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """These columns, in this order, at most ``rows`` rows at a time."""

    def rows(self, path: Path) -> int:
        """How many rows there are."""
        first = self.schema(path).names[:1]
        return sum(len(batch) for batch in self.read(path, first, 1 << 17))


class ParquetFormat(Format):
    """Parquet; what the footer says and what can be read must agree."""

    name = "Parquet"
    suffixes = (".parquet", ".pq")

    def schema(self, path: Path) -> pa.Schema:
        with opened(path) as file:
            return file.schema_arrow

    def read(self, path: Path, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        names = list(columns)
        with opened(path) as file:
            demand_sound(path, file.metadata, names)
            found = 0
            for batch in file.iter_batches(batch_size=rows, columns=names):
                yield batch.select(names)
                found += len(batch)
            if found != file.metadata.num_rows:
                raise damaged(path.name, file.metadata.num_rows, found)

    def rows(self, path: Path) -> int:
        with opened(path) as file:
            return int(file.metadata.num_rows)


class ArrowFormat(Format):
    """Arrow's own files (Feather), and streams of its batches."""

    name = "Arrow"
    suffixes = (".arrow", ".feather", ".ipc", ".arrows")

    def schema(self, path: Path) -> pa.Schema:
        import pyarrow as pa

        with pa.OSFile(str(path), "rb") as file:
            return _arrow(file).schema

    def read(self, path: Path, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        with pa.OSFile(str(path), "rb") as file:
            source = _arrow(file)
            whole = isinstance(source, pa.ipc.RecordBatchFileReader)
            batches = (source.get_batch(i) for i in range(source.num_record_batches)) if whole else iter(source)
            for batch in batches:
                own = batch.select(list(columns))
                for start in range(0, len(own), rows):
                    yield own.slice(start, rows)


class TextFormat(Format):
    """Fields divided by a sign (RFC 4180), plain or compressed; every field is a text, whatever it looks like."""

    name = "CSV"
    suffixes = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".csv.bz2", ".csv.zst", ".csv.zip")

    def __init__(self, delimiter: str | None = None) -> None:
        self.delimiter = delimiter

    def schema(self, path: Path) -> pa.Schema:
        with self._opened(path) as whole:
            return whole.schema

    def read(self, path: Path, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        import pyarrow.csv as pc

        names = list(dict.fromkeys(columns))
        converting = pc.ConvertOptions(include_columns=names, column_types=dict.fromkeys(names, pa.string()))
        with self._opened(path, converting) as file:
            for batch in file:
                for start in range(0, len(batch), rows):
                    yield batch.slice(start, rows)

    def _opened(self, path: Path, converting: pc.ConvertOptions | None = None) -> pc.CSVStreamingReader:
        import pyarrow.csv as pc

        tab = path.name.lower().endswith((".tsv", ".tsv.gz"))
        return pc.open_csv(
            _only_member(path) if path.name.lower().endswith(".zip") else path,
            read_options=pc.ReadOptions(block_size=CSV_BLOCK_BYTES),
            # A line break between quotes is part of a value, not the end of a row.
            parse_options=pc.ParseOptions(newlines_in_values=True, delimiter=self.delimiter or ("\t" if tab else ",")),
            convert_options=converting,
        )


PARQUET, ARROW, TEXT = ParquetFormat(), ArrowFormat(), TextFormat()
FORMATS: tuple[Format, ...] = (PARQUET, TEXT, ARROW)


def format_of(path: Path) -> Format | None:
    """The format that a file's name says; None where it says none that is known."""
    name = path.name.lower()
    return next((kind for kind in FORMATS if name.endswith(kind.suffixes)), None)


def damaged(name: str, told: int, found: int) -> ValueError:
    """A footer and what follows from the rest of a file are two things: only where they agree both are believed."""
    return ValueError(f"input: {name} says that it has {told} rows, but {found} can be read; it is damaged.")


def opened(path: Path) -> pq.ParquetFile:
    """A Parquet file; reading in small pieces keeps memory small whatever the size of the row groups."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(path, buffer_size=READ_BYTES, pre_buffer=False, page_checksum_verification=True)


def _only_member(path: Path) -> Any:
    """The one file in an archive."""
    archive = zipfile.ZipFile(path)
    names = [name for name in archive.namelist() if not name.endswith("/")]
    if len(names) != 1:
        raise ValueError(f"input: expected one file in {path.name}, got {len(names)}.")
    return archive.open(names[0])


def _arrow(file: pa.NativeFile) -> pa.ipc.RecordBatchFileReader | pa.ipc.RecordBatchStreamReader:
    """Either form that Arrow has on disk."""
    import pyarrow as pa

    is_whole = file.read(6) == b"ARROW1"
    file.seek(0)
    return pa.ipc.open_file(file) if is_whole else pa.ipc.open_stream(file)
