"""Tables on disk: one file, several, or a directory of them, all of one format, with one reader for every engine.

In a directory, names that begin with ``_`` or ``.`` are not data, as for Spark, nor are files that Hadoop is still
copying and files without the suffix of a known format. Files that count people twice, or rows that a table format has
deleted, would make the guarantee false: they are refused.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import zipfile
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar

from shuffledp._core.errors import InvalidArgument
from shuffledp._core.message_phrases import Argument
from shuffledp.collection.input.base import Table
from shuffledp.tasks import value_parsing
from shuffledp.tasks.column_reader import ColumnReader

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.csv as pc
    import pyarrow.parquet as pq


# --- Parquet page headers ---
#
# A header gives the memory that its page takes and the number of its values. A forged or damaged header could make a
# reader allocate gigabytes or return whatever lies in memory, so headers are parsed and checked here first.


MAX_PAGE_BYTES = 1 << 29
"""Largest page in memory; writers make pages of about a megabyte."""
FIRST_READ_BYTES, MAX_HEADER_BYTES = 1 << 8, 1 << 22
"""Bytes of a header that are read first, and at most."""
MAX_STRUCT_DEPTH = 8
MAX_VALUES_PER_BYTE = 8
DICTIONARY_PAGE, UNCOMPRESSED_SIZE, COMPRESSED_SIZE, VALUE_COUNT = 7, 2, 3, 1
DATA_PAGES = (5, 8)
"""Field numbers in the header of a page, and in its part for each kind of page."""
BYTE, DOUBLE, BINARY, STRUCT = 3, 7, 8, 12
TRUE, FALSE = 1, 2
INTEGER_KINDS = (4, 5, 6)


class DamagedFile(ValueError):
    """A file that contradicts itself."""


class _TruncatedHeader(Exception):
    """The header continues beyond the bytes that were read."""


@dataclass
class _CompactParser:
    """A parser of Thrift's compact protocol, as far as headers need it."""

    content: bytes
    position: int = 0

    def read_bytes(self, count: int) -> bytes:
        if count < 0 or self.position + count > len(self.content):
            raise _TruncatedHeader
        self.position += count
        return self.content[self.position - count : self.position]

    def read_varint(self) -> int:
        """Reads a varint, with seven bits per byte."""
        value = shift = 0
        while True:
            byte = self.read_bytes(1)[0]
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise DamagedFile("a number that does not end")

    def read_zigzag(self) -> int:
        value = self.read_varint()
        return (value >> 1) ^ -(value & 1)

    def read_struct(self, depth: int = 0) -> dict[int, Any]:
        """Reads a struct: values by field number."""
        if depth > MAX_STRUCT_DEPTH:
            raise DamagedFile("headers that are nested too deeply")
        fields: dict[int, Any] = {}
        number = 0
        while True:
            head = self.read_bytes(1)[0]
            if head == 0:
                return fields
            number = number + (head >> 4) if head >> 4 else self.read_zigzag()
            fields[number] = self._read_value(head & 15, depth)

    def _read_value(self, kind: int, depth: int) -> Any:
        if kind in (TRUE, FALSE):
            return kind == TRUE
        if kind == BYTE:
            return self.read_bytes(1)[0]
        if kind in INTEGER_KINDS:
            return self.read_zigzag()
        if kind == DOUBLE:
            return self.read_bytes(8)
        if kind == BINARY:
            return self.read_bytes(self.read_varint())
        if kind == STRUCT:
            return self.read_struct(depth + 1)
        # Headers of pages have no lists, sets or maps.
        raise DamagedFile(f"a field of kind {kind}")


def check_pages(path: Path, metadata: pq.FileMetaData, columns: Collection[str]) -> None:
    """Raises DamagedFile unless the pages of these columns have the stated number of values and reasonable sizes."""
    size = path.stat().st_size
    with path.open("rb") as file:
        rows = 0
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            rows += group.num_rows
            for place in range(group.num_columns):
                chunk = group.column(place)
                if chunk.path_in_schema.split(".")[0] in columns or chunk.path_in_schema in columns:
                    _check_chunk(file, size, chunk)
                    if chunk.path_in_schema in columns and chunk.num_values != group.num_rows:
                        raise DamagedFile(f"a column has {chunk.num_values} values for {group.num_rows} rows")
        if rows != metadata.num_rows:
            raise DamagedFile(f"its parts have {rows} rows, but its footer states {metadata.num_rows}")


def _check_chunk(file: BinaryIO, size: int, chunk: pq.ColumnChunkMetaData) -> None:
    starts = [start for start in (chunk.dictionary_page_offset, chunk.data_page_offset) if start]
    place, values = min(starts, default=0), 0
    while values < chunk.num_values:
        if not 0 < place < size:
            raise DamagedFile("a page lies outside the file")
        header, length = _read_page_header(file, place)
        place += length + _check_page_sizes(header, size - place - length)
        parts = [header[kind] for kind in DATA_PAGES if kind in header]
        for part in parts:
            found = part.get(VALUE_COUNT) if isinstance(part, dict) else None
            if not isinstance(found, int) or found < 0 or values + found > chunk.num_values:
                raise DamagedFile(f"its pages have more values than the {chunk.num_values} that it states")
            values += found


def _check_page_sizes(header: dict[int, Any], left: int) -> int:
    """Checks the sizes in a page header against the ``left`` bytes of the file; returns those of the page."""
    packed, unpacked = header.get(COMPRESSED_SIZE), header.get(UNCOMPRESSED_SIZE)
    if not isinstance(packed, int) or not isinstance(unpacked, int) or not 0 <= packed <= left or unpacked < 0:
        raise DamagedFile("a page is larger than the file")
    if unpacked > MAX_PAGE_BYTES:
        raise DamagedFile(f"a page of {unpacked} bytes, where at most {MAX_PAGE_BYTES} are read")
    dictionary = header.get(DICTIONARY_PAGE)
    if isinstance(dictionary, dict):
        entries = dictionary.get(VALUE_COUNT)
        if not isinstance(entries, int) or not 0 <= entries <= MAX_VALUES_PER_BYTE * unpacked:
            raise DamagedFile("a dictionary has more entries than bytes")
    return packed


def _read_page_header(file: BinaryIO, place: int) -> tuple[dict[int, Any], int]:
    """Returns the header of a page, and its length."""
    look = FIRST_READ_BYTES
    while True:
        file.seek(place)
        reader = _CompactParser(file.read(look))
        try:
            return reader.read_struct(), reader.position
        except _TruncatedHeader:
            if len(reader.content) < look or look >= MAX_HEADER_BYTES:
                raise DamagedFile("a page without a header") from None
            look *= 16


# --- File formats by suffix ---


READ_BYTES = 1 << 20
LONG_TEXT_BATCH_ROWS = 1 << 12
"""Batch size for texts in lists or in delta encoding, which no dictionary keeps short."""
CSV_BLOCK_BYTES = 1 << 22


class Format(ABC):
    """A reader of the rows of one kind of file."""

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]

    @abstractmethod
    def read_schema(self, path: Path) -> pa.Schema:
        """Returns the columns of a file, and their types."""

    @abstractmethod
    def read(self, path: Path, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Yields these columns, in this order, in batches of at most ``rows`` rows."""

    def count_rows(self, path: Path) -> int:
        """Returns the number of rows."""
        first = self.read_schema(path).names[:1]
        return sum(len(batch) for batch in self.read(path, first, 1 << 17))


class ParquetFormat(Format):
    """Parquet; the row count of the footer must agree with the rows that can be read."""

    name = "Parquet"
    suffixes = (".parquet", ".pq")

    def read_schema(self, path: Path) -> pa.Schema:
        with open_parquet(path) as file:
            return file.schema_arrow

    def read(self, path: Path, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        names = list(columns)
        with open_parquet(path) as file:
            check_pages(path, file.metadata, names)
            texts, whole = _find_text_columns(file, names)
        # A short page may stand for long texts, repeated in every row: they stay in their dictionary.
        with open_parquet(path, texts if whole else []) as file:
            found = 0
            for batch in file.iter_batches(
                batch_size=rows if whole else min(rows, LONG_TEXT_BATCH_ROWS), columns=names
            ):
                yield batch.select(names)
                found += len(batch)
            if found != file.metadata.num_rows:
                raise build_row_count_error(path.name, file.metadata.num_rows, found)

    def count_rows(self, path: Path) -> int:
        with open_parquet(path) as file:
            return int(file.metadata.num_rows)


class ArrowFormat(Format):
    """Arrow files (Feather), and streams of record batches."""

    name = "Arrow"
    suffixes = (".arrow", ".feather", ".ipc", ".arrows")

    def read_schema(self, path: Path) -> pa.Schema:
        import pyarrow as pa

        with pa.OSFile(str(path), "rb") as file:
            return _open_arrow(file).schema

    def read(self, path: Path, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        with pa.OSFile(str(path), "rb") as file:
            source = _open_arrow(file)
            whole = isinstance(source, pa.ipc.RecordBatchFileReader)
            batches = (source.get_batch(i) for i in range(source.num_record_batches)) if whole else iter(source)
            for batch in batches:
                own = batch.select(list(columns))
                # The file gives the offsets of texts: beyond the end of its data lies other memory.
                own.validate(full=True)
                for start in range(0, len(own), rows):
                    yield own.slice(start, rows)


class TextFormat(Format):
    """Delimited text (RFC 4180), plain or compressed; every field is a string, whatever it looks like."""

    name = "CSV"
    suffixes = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".csv.bz2", ".csv.zst", ".csv.zip")

    def __init__(self, delimiter: str | None = None) -> None:
        self.delimiter = delimiter

    def read_schema(self, path: Path) -> pa.Schema:
        with self._open(path) as whole:
            return whole.schema

    def read(self, path: Path, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        import pyarrow.csv as pc

        names = list(dict.fromkeys(columns))
        converting = pc.ConvertOptions(include_columns=names, column_types=dict.fromkeys(names, pa.string()))
        with self._open(path, converting) as file:
            for batch in file:
                for start in range(0, len(batch), rows):
                    yield batch.slice(start, rows)

    def _open(self, path: Path, converting: pc.ConvertOptions | None = None) -> pc.CSVStreamingReader:
        import pyarrow.csv as pc

        tab = path.name.lower().endswith((".tsv", ".tsv.gz"))
        return pc.open_csv(
            ZipMember(path) if path.name.lower().endswith(".zip") else path,
            read_options=pc.ReadOptions(block_size=CSV_BLOCK_BYTES),
            # A line break between quotes is part of a value, not the end of a row.
            parse_options=pc.ParseOptions(newlines_in_values=True, delimiter=self.delimiter or ("\t" if tab else ",")),
            convert_options=converting,
        )


PARQUET, ARROW, TEXT = ParquetFormat(), ArrowFormat(), TextFormat()
FORMATS: tuple[Format, ...] = (PARQUET, TEXT, ARROW)


def find_format(path: Path) -> Format | None:
    """Returns the format that a file's name indicates; None if it is unknown."""
    name = path.name.lower()
    return next((kind for kind in FORMATS if name.endswith(kind.suffixes)), None)


def build_row_count_error(name: str, stated: int, readable: int) -> ValueError:
    """Returns the error for a file whose footer and content have different numbers of rows."""
    return ValueError(f"input: {name} says that it has {stated} rows, but {readable} can be read; it is damaged.")


def open_parquet(path: Path, in_dictionaries: Sequence[str] = ()) -> pq.ParquetFile:
    """Opens a Parquet file; reading in small pieces bounds memory whatever the size of the row groups."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(
        path, buffer_size=READ_BYTES, pre_buffer=False, page_checksum_verification=True,
        read_dictionary=list(in_dictionaries),
    )  # fmt: skip


def _find_text_columns(file: pq.ParquetFile, names: Sequence[str]) -> tuple[list[str], bool]:
    """Returns the paths of texts in these columns, and True if all of them can be read into dictionaries."""
    columns = [
        (place, file.schema.column(place))
        for place in range(len(file.schema))
        if file.schema.column(place).path.split(".")[0] in names or file.schema.column(place).path in names
    ]
    texts = [(place, one.path) for place, one in columns if one.physical_type == "BYTE_ARRAY"]
    groups = [file.metadata.row_group(group) for group in range(file.metadata.num_row_groups)]
    delta = any("DELTA" in kind for group in groups for place, _ in texts for kind in group.column(place).encodings)
    return [path for _, path in texts], not delta and all(path in names for _, path in texts)


class ZipMember(io.RawIOBase):
    """The only file of a ZIP archive, read in pieces; a damaged archive raises OSError."""

    def __init__(self, path: Path) -> None:
        with self._convert_errors():
            archive = zipfile.ZipFile(path)
            found = [each for each in archive.infolist() if not each.is_dir()]
            if len(found) != 1:
                raise ValueError(f"input: expected one file in {path.name}, got {len(found)}.")
            if found[0].compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                # Other methods decompress everything at once, however much that is.
                raise OSError("its compression method is not supported; compress it again (deflate), or unpack it")
            if found[0].flag_bits & 1:
                raise OSError("it has a password; unpack it first")
            self._member = archive.open(found[0])

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        with self._convert_errors():
            content = self._member.read(len(room))
            room[: len(content)] = content
            return len(content)

    @staticmethod
    @contextmanager
    def _convert_errors() -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError):
            raise
        except Exception as error:
            # A damaged archive raises errors of many types, from zlib.error to NotImplementedError.
            raise OSError(f"it cannot be unpacked ({error or type(error).__name__})") from None


def _open_arrow(file: pa.NativeFile) -> pa.ipc.RecordBatchFileReader | pa.ipc.RecordBatchStreamReader:
    """Opens either of Arrow's two formats on disk."""
    import pyarrow as pa

    is_whole = file.read(6) == b"ARROW1"
    file.seek(0)
    return pa.ipc.open_file(file) if is_whole else pa.ipc.open_stream(file)


# --- Files of a path ---


PARQUET_MAGIC = b"PAR1"
"""First bytes of a Parquet file."""
HADOOP_COPY_SUFFIX = "._COPYING_"
EXPORT_ADVICE = "export its current rows to a plain Parquet file first (read the table with its own reader, write it)"


def list_files(paths: Sequence[Path]) -> list[Path]:
    """Returns the files of several paths, in order; raises ValueError if a file occurs twice."""
    found = [file for path in paths for file in list_data_files(path)]
    _check_distinct_files(found)
    return found


def list_data_files(path: Path) -> list[Path]:
    """Returns the files of a path, in order; of a directory, all files of one format in the order of their names.

    Subdirectories named ``name=value`` are partitions, whose files are included.
    """
    if not path.is_dir():
        _check_file(path)
        _refuse_managed(path)
        return [path]
    _refuse_managed(path)
    found = list(_walk_directory(path))
    if not found:
        known = ", ".join(suffix for kind in FORMATS for suffix in kind.suffixes[:2])
        raise ValueError(f"input: expected files of rows ({known}) in the directory {str(path)!r}, got none.")
    return found


def _walk_directory(path: Path) -> Iterator[Path]:
    """Yields the data files of a directory and of its partitions."""
    for entry in sorted(path.iterdir()):
        if is_hidden(entry.name):
            continue
        if entry.is_symlink():
            _refuse_managed(entry)
        if entry.is_dir():
            if "=" in entry.name and not entry.is_symlink():
                yield from _walk_directory(entry)
            else:
                _refuse_nested(path, entry)
        elif find_format(entry) is not None:
            yield entry
        else:
            _refuse_misnamed_parquet(path, entry)


def find_common_format(files: Sequence[Path]) -> Format:
    """Returns the common format of the files; raises ValueError if they have several."""
    kinds = {find_format(file): file for file in reversed(files)}
    if len(kinds) > 1:
        first, second, *_ = kinds.values()
        raise ValueError(
            f"input: {first.name} and {second.name} are files of different formats; convert them to one, or move "
            "some elsewhere."
        )
    (found,) = kinds
    assert found is not None, "only files of a known format are listed"
    return found


def is_hidden(name: str) -> bool:
    """Returns True if a name in a directory is not that of data."""
    return name.startswith(("_", ".")) or name.endswith(HADOOP_COPY_SUFFIX)


def compute_sha256(path: Path) -> str:
    """Returns the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_contents_differ(files: Iterable[Path]) -> None:
    """Raises ValueError if two files have the same content; only files of the same size are read."""
    sizes: dict[int, list[Path]] = defaultdict(list)
    for file in files:
        sizes[file.stat().st_size].append(file)
    for same_size in sizes.values():
        if len(same_size) > 1:
            check_digests_differ((file, compute_sha256(file)) for file in same_size)


def check_digests_differ(digests: Iterable[tuple[Path, str]]) -> None:
    """Raises ValueError if two files have the same content: their people would count twice."""
    others: dict[str, Path] = {}
    for path, digest in digests:
        if digest in others and not _is_empty(path):
            raise ValueError(
                f"input: {path.name} is a copy of {others[digest].name}, whose people would count twice; remove one of "
                f"them, or put both into one file if they are of different people."
            )
        others.setdefault(digest, path)


def _check_file(path: Path) -> None:
    if not path.is_file():
        raise ValueError(f"input: expected a file, got {str(path)!r}, which is not one.")
    if find_format(path) is None:
        known = ", ".join(suffix for kind in FORMATS for suffix in kind.suffixes)
        raise ValueError(
            f"input: expected a file whose name ends in {known}, got {path.name!r}; save its rows as one of these, "
            f"such as CSV."
        )


def _refuse_managed(path: Path) -> None:
    """Raises ValueError for a Delta, Iceberg or Hudi table, whose files also hold deleted or replaced rows."""
    absolute = path.resolve()
    for room in (absolute, *absolute.parents):
        kind = None
        if (room / "_delta_log").is_dir():
            kind = "Delta"
        elif (room / ".hoodie").is_dir():
            kind = "Hudi"
        elif (room / "metadata").is_dir() and any((room / "metadata").glob("*.metadata.json")):
            kind = "Iceberg"
        if kind is not None:
            where = "is" if room == absolute else "is part of"
            raise ValueError(
                f"input: {path.name} {where} a {kind} table, whose files also hold rows that were deleted or replaced; "
                f"{EXPORT_ADVICE}."
            )


def _refuse_nested(path: Path, entry: Path) -> None:
    if entry.is_symlink():
        raise ValueError(f"input: {path.name} has a link to a directory, {entry.name}; give one directory of files.")
    for room, rooms, names in os.walk(entry):
        rooms[:] = [name for name in rooms if not is_hidden(name)]
        for name in sorted(names):
            if not is_hidden(name) and find_format(Path(name)) is not None:
                inside = (Path(room) / name).relative_to(path)
                raise ValueError(
                    f"input: {path.name} has files in subdirectories, such as {inside}; put all rows into one "
                    "file or one directory of files, or call the directories name=value."
                )


def _refuse_misnamed_parquet(path: Path, entry: Path) -> None:
    if not entry.is_file():
        return
    with entry.open("rb") as file:
        is_parquet = file.read(len(PARQUET_MAGIC)) == PARQUET_MAGIC
    if is_parquet:
        raise ValueError(
            f"input: {path.name} has {entry.name}, a Parquet file without the suffix .parquet; rename it, or move it "
            f"elsewhere."
        )


def _check_distinct_files(files: list[Path]) -> None:
    """Raises ValueError if a file occurs twice, by a symbolic or hard link."""
    others: dict[tuple[int, int], Path] = {}
    for file in files:
        if not file.is_file():
            raise ValueError(f"input: {file.name} cannot be read as a file.")
        status = file.stat()
        identity = status.st_dev, status.st_ino
        if identity in others:
            raise ValueError(
                f"input: {file.name} and {others[identity].name} are two names of the same file; remove one of them."
            )
        others[identity] = file


def _is_empty(path: Path) -> bool:
    """Returns True if a Parquet file has no rows: writers leave many such files, all with the same content."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return int(pq.read_metadata(path).num_rows) == 0
    except (pa.ArrowException, OSError):
        return False


ROW_QUOTE_PATTERN = re.compile(
    r"(CSV parse error: .*?got \d+|CSV conversion error to \S+|CSV .*?invalid UTF8 data).*", re.DOTALL
)
"""Matches Arrow's message about a bad row, after which it quotes the row."""
ERROR_HINTS = (
    ("invalid UTF8 data", "save it as UTF-8"),
    ("incorrect header check", "it is not compressed in the way that its name says"),
    ("Empty CSV file", "it needs a line with the names of columns, and rows"),
)
"""Parts of Arrow's messages, and advice."""
MAX_BATCH_BYTES = 1 << 24
"""Largest size of a batch; batches have fewer rows than requested if their texts are long."""


# --- Files as a table ---


@dataclass(frozen=True, init=False)
class FileTable(Table):
    """Files on disk, read in the order given; those of a directory in the order of their names.

    ``delimiter`` is the field separator of a CSV file, if it is not the one that its name implies.
    """

    paths: tuple[Path, ...]
    delimiter: str | None

    def __init__(self, path: str | Path, *more: str | Path, delimiter: str | None = None) -> None:
        object.__setattr__(self, "paths", tuple(map(Path, (path, *more))))
        object.__setattr__(self, "delimiter", delimiter)
        if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
            raise ValueError(f"input: delimiter must be one character such as ';', got {delimiter!r}.")
        with self._convert_read_errors(self.paths[0]):
            check_contents_differ(self.files())
        if delimiter is not None and self.format is not TEXT:
            raise InvalidArgument("input", "is for CSV files", got=self.title, parameter=Argument("delimiter"))

    @property
    def title(self) -> str:
        more = f" and {len(self.paths) - 1:,} more" if len(self.paths) > 1 else ""
        return self.paths[0].name + more

    @property
    def place(self) -> str:
        return ", ".join(map(str, self.paths))

    @property
    def is_parquet(self) -> bool:
        return self.format is PARQUET

    @cached_property
    def format(self) -> Format:
        """The format of all files."""
        return find_common_format(self.files())

    @property
    def _reader(self) -> Format:
        return self.format if self.delimiter is None else TextFormat(self.delimiter)

    def files(self) -> list[Path]:
        """Returns the files of the table, in order."""
        with self._convert_read_errors(self.paths[0]):
            return list_files(self.paths)

    def names(self) -> list[str]:
        first = self.files()[0]
        with self._convert_read_errors(first):
            return list(self._reader.read_schema(first).names)

    def fingerprint(self) -> dict[str, Any]:
        """Returns size and SHA-256 of each file, in order, whatever their names and times."""
        with self._convert_read_errors(self.paths[0]):
            digests = [(path, compute_sha256(path)) for path in self.files()]
            check_digests_differ(digests)
            return {"files": [[path.stat().st_size, digest] for path, digest in digests]}

    def read(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        schema = None
        for path in self.files():
            with self._convert_read_errors(path):
                schema = self._check_schema(path, columns, schema)
                for piece in (
                    one for batch in self._reader.read(path, columns, rows) for one in _split_large_batch(batch)
                ):
                    arrays = [array.cast(field.type) for array, field in zip(piece.columns, schema, strict=True)]
                    yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def locate_row(self, row: int) -> str:
        left = row
        for path in self.files():
            with self._convert_read_errors(path):
                found = self._reader.count_rows(path) if len(self.files()) > 1 else left + 1
            if left < found:
                return f"{path.name}, row {left + 1:,}"
            left -= found
        return self.title

    @contextmanager
    def _convert_read_errors(self, path: Path) -> Iterator[None]:
        import pyarrow as pa

        try:
            yield
        except DamagedFile as error:
            raise ValueError(f"input: {path.name} is damaged: {error}.") from None
        except (pa.ArrowException, OSError, UnicodeDecodeError, EOFError, zipfile.BadZipFile) as error:
            reason = ROW_QUOTE_PATTERN.sub(r"\1", " ".join(str(error).split())).rstrip(".")
            hint = next((f"; {advice}" for part, advice in ERROR_HINTS if part in reason), "")
            raise ValueError(f"input: cannot read {path.name}: {reason}{hint}.") from None

    def _check_schema(self, path: Path, names: Sequence[str], first: pa.Schema | None) -> pa.Schema:
        """Returns the types of these columns, those of the first file; raises ValueError if another file differs."""
        import pyarrow as pa

        whole = self._reader.read_schema(path)
        self.check_columns(names, list(whole.names))
        kinds = [pa.string() if self.format is TEXT else _decoded_type(whole.field(name).type) for name in names]
        own = pa.schema([pa.field(name, kind) for name, kind in zip(names, kinds, strict=True)])
        if first is None:
            return own
        for before, field in zip(first, own, strict=True):
            if plain_type(before.type) != plain_type(field.type):
                raise ValueError(
                    f"input: column {field.name!r} is {field.type} in {path.name}, but {before.type} in the files "
                    f"before; give it one type in all files."
                )
        return first

    # --- Parquet for other readers ---

    def count_footer_rows(self, column: ColumnReader) -> int:
        """Returns the number of rows according to the footers of Parquet files with the same columns.

        An engine that reads the files itself must find as many.
        """
        rows, schema = 0, None
        for path in self.files():
            with self._convert_read_errors(path), open_parquet(path) as file:
                schema = self._check_schema(path, column.names, schema)
                check_pages(path, file.metadata, column.names)
                rows += file.metadata.num_rows
        return rows

    def has_lookalike(self, column: ColumnReader) -> bool:
        """Returns True if another column, or a partition ``name=value``, has the same name in other case.

        Not all readers distinguish upper and lower case.
        """
        for path in self.files():
            with self._convert_read_errors(path):
                folded = [name.casefold() for name in self._reader.read_schema(path).names]
            folded += [part.partition("=")[0].casefold() for part in path.parts[:-1] if "=" in part]
            if any(folded.count(name.casefold()) > 1 for name in column.names):
                return True
        return False


def _decoded_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type of the values without dictionary encoding."""
    import pyarrow as pa

    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _split_large_batch(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yields the same rows in pieces that stay small when every row has its own copy of a dictionary's text."""
    if len(batch) > 1 and sum(map(_decoded_size, batch.columns)) > MAX_BATCH_BYTES:
        middle = len(batch) // 2
        yield from _split_large_batch(batch.slice(0, middle))
        yield from _split_large_batch(batch.slice(middle))
    else:
        yield batch


def _decoded_size(array: pa.Array) -> int:
    """Returns the size of an array in bytes without dictionary encoding."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = array.type
    if pa.types.is_dictionary(kind) and (value_parsing.is_text(kind.value_type) or pa.types.is_binary(kind.value_type)):
        lengths = pc.binary_length(array.dictionary).take(array.indices)
        return int(pc.sum(lengths.cast(pa.int64())).as_py() or 0)
    if pa.types.is_map(kind):
        pairs = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
        return _decoded_size(array.cast(pa.list_(pairs)))
    if value_parsing.is_list(kind):
        return _decoded_size(array.flatten())
    if pa.types.is_struct(kind):
        return sum(map(_decoded_size, array.flatten()))
    return int(array.nbytes)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type of the values, whatever Arrow's representation: dictionary-encoded texts are strings, too."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    return kind
