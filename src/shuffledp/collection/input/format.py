"""Files of rows by their suffix: texts (CSV and its kin), Parquet, Arrow; one reader of each for every engine."""

from __future__ import annotations

import io
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from shuffledp.collection.input.parquet_page import demand_sound

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

READ_BYTES = 1 << 20
FEW_ROWS = 1 << 12
"""Of columns whose texts stand in lists, or are told by how they differ: no dictionary keeps those short."""
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
            texts, whole = _texts_of(file, names)
        # A short page may stand for long texts, each as often as there are rows: they stay in their dictionary.
        with opened(path, texts if whole else []) as file:
            found = 0
            for batch in file.iter_batches(batch_size=rows if whole else min(rows, FEW_ROWS), columns=names):
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
                # Where texts begin and end is as the file tells it: beyond its end is other memory.
                own.validate(full=True)
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
            Unzipped(path) if path.name.lower().endswith(".zip") else path,
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


def opened(path: Path, in_dictionaries: Sequence[str] = ()) -> pq.ParquetFile:
    """A Parquet file; reading in small pieces keeps memory small whatever the size of the row groups."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(
        path, buffer_size=READ_BYTES, pre_buffer=False, page_checksum_verification=True,
        read_dictionary=list(in_dictionaries),
    )  # fmt: skip


def _texts_of(file: pq.ParquetFile, names: Sequence[str]) -> tuple[list[str], bool]:
    """The paths of texts in these columns, and whether all of them can be read into dictionaries."""
    kept = [
        (place, file.schema.column(place))
        for place in range(len(file.schema))
        if file.schema.column(place).path.split(".")[0] in names or file.schema.column(place).path in names
    ]
    texts = [(place, one.path) for place, one in kept if one.physical_type == "BYTE_ARRAY"]
    told = [file.metadata.row_group(group) for group in range(file.metadata.num_row_groups)]
    delta = any("DELTA" in kind for group in told for place, _ in texts for kind in group.column(place).encodings)
    return [path for _, path in texts], not delta and all(path in names for _, path in texts)


class Unzipped(io.RawIOBase):
    """The one file in an archive, in pieces of the size that is asked for; whatever is wrong is an ``OSError``."""

    def __init__(self, path: Path) -> None:
        with self._sound():
            archive = zipfile.ZipFile(path)
            found = [each for each in archive.infolist() if not each.is_dir()]
            if len(found) != 1:
                raise ValueError(f"input: expected one file in {path.name}, got {len(found)}.")
            if found[0].compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                # Others are unpacked as a whole, however much that is.
                raise OSError("it is packed in an uncommon way; pack it anew (deflate), or unpack it")
            if found[0].flag_bits & 1:
                raise OSError("it has a password; unpack it first")
            self._member = archive.open(found[0])

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        with self._sound():
            content = self._member.read(len(room))
            room[: len(content)] = content
            return len(content)

    @staticmethod
    @contextmanager
    def _sound() -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError):
            raise
        except Exception as error:
            # What a damaged archive raises, from zlib.error to NotImplementedError, is of its reader's making.
            raise OSError(f"it is no archive that can be unpacked ({error or type(error).__name__})") from None


def _arrow(file: pa.NativeFile) -> pa.ipc.RecordBatchFileReader | pa.ipc.RecordBatchStreamReader:
    """Either form that Arrow has on disk."""
    import pyarrow as pa

    is_whole = file.read(6) == b"ARROW1"
    file.seek(0)
    return pa.ipc.open_file(file) if is_whole else pa.ipc.open_stream(file)
