"""A table on disk: one file, several, or a directory of them, all of one format, by one reader for every engine."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shuffledp.collection.input import listing
from shuffledp.collection.input.format import PARQUET, TEXT, Format, TextFormat, opened
from shuffledp.collection.input.parquet_page import Damaged, demand_sound
from shuffledp.collection.input.table import Table
from shuffledp.tasks import cell
from shuffledp.tasks.column import Column

if TYPE_CHECKING:
    import pyarrow as pa

OF_A_PERSON = re.compile(
    r"(CSV parse error: .*?got \d+|CSV conversion error to \S+|CSV .*?invalid UTF8 data).*", re.DOTALL
)
"""What Arrow says of a bad row; behind it, it quotes the row."""
HINTS = (
    ("invalid UTF8 data", "save it as UTF-8"),
    ("incorrect header check", "it is not compressed as its name says"),
    ("Empty CSV file", "it needs a line with the names of columns, and rows"),
)
"""What may be done about what Arrow says."""
PIECE_BYTES = 1 << 24
"""Of rows that are read at a time; fewer than are asked for, where their texts are long."""


@dataclass(frozen=True, init=False)
class FileTable(Table):
    """Files on disk, which are read in the order given; those of a directory in the order of their names.

    ``delimiter`` divides the fields of a CSV file, where it is not the one that its name says.
    """

    paths: tuple[Path, ...]
    delimiter: str | None

    def __init__(self, path: str | Path, *more: str | Path, delimiter: str | None = None) -> None:
        object.__setattr__(self, "paths", tuple(map(Path, (path, *more))))
        object.__setattr__(self, "delimiter", delimiter)
        if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
            raise ValueError(f"input: delimiter must be one sign such as ';', got {delimiter!r}.")
        with self._readable(self.paths[0]):
            listing.demand_unlike(self.files())
        if delimiter is not None and self.format is not TEXT:
            raise ValueError(f"input: --delimiter is for CSV files, got {self.title}.")

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
        """Of all files."""
        found = listing.one_format(self.files())
        return found

    @property
    def _reader(self) -> Format:
        return self.format if self.delimiter is None else TextFormat(self.delimiter)

    def files(self) -> list[Path]:
        """The files that hold the rows, in order."""
        with self._readable(self.paths[0]):
            return listing.all_files(self.paths)

    def names(self) -> list[str]:
        first = self.files()[0]
        with self._readable(first):
            return list(self._reader.schema(first).names)

    def fingerprint(self) -> dict[str, Any]:
        """Size and SHA-256 of each file, in order: whatever their names and times are."""
        with self._readable(self.paths[0]):
            known = [(path, listing.digest(path)) for path in self.files()]
            listing.demand_no_copies(known)
            return {"files": [[path.stat().st_size, told] for path, told in known]}

    def read(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        schema = None
        for path in self.files():
            with self._readable(path):
                schema = self._schema(path, columns, schema)
                for piece in (one for batch in self._reader.read(path, columns, rows) for one in _short_pieces(batch)):
                    alike = [array.cast(field.type) for array, field in zip(piece.columns, schema, strict=True)]
                    yield pa.RecordBatch.from_arrays(alike, schema=schema)

    def where(self, row: int) -> str:
        left = row
        for path in self.files():
            with self._readable(path):
                found = self._reader.rows(path) if len(self.files()) > 1 else left + 1
            if left < found:
                return f"{path.name}, row {left + 1:,}"
            left -= found
        return self.title

    @contextmanager
    def _readable(self, path: Path) -> Iterator[None]:
        import pyarrow as pa

        try:
            yield
        except Damaged as error:
            raise ValueError(f"input: {path.name} is damaged: {error}.") from None
        except (pa.ArrowException, OSError, UnicodeDecodeError, EOFError, zipfile.BadZipFile) as error:
            reason = OF_A_PERSON.sub(r"\1", " ".join(str(error).split())).rstrip(".")
            hint = next((f"; {told}" for said, told in HINTS if said in reason), "")
            raise ValueError(f"input: cannot read {path.name}: {reason}{hint}.") from None

    def _schema(self, path: Path, names: Sequence[str], first: pa.Schema | None) -> pa.Schema:
        """The types of these columns, which must be the same in all files: those of the first one."""
        import pyarrow as pa

        whole = self._reader.schema(path)
        self.demand_columns(names, list(whole.names))
        kinds = [pa.string() if self.format is TEXT else _written_out(whole.field(name).type) for name in names]
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

    # --- Parquet that another reader reads --------------------------------------------------------------------

    def told_rows(self, column: Column) -> int:
        """How many rows the footers of Parquet files tell, if the columns are the same in all of them.

        For an engine that reads the files itself: it must find as many.
        """
        rows, schema = 0, None
        for path in self.files():
            with self._readable(path), opened(path) as file:
                schema = self._schema(path, column.names, schema)
                demand_sound(path, file.metadata, column.names)
                rows += file.metadata.num_rows
        return rows

    def has_lookalike(self, column: Column) -> bool:
        """Whether something else has a column's name but for upper and lower case, which not all readers tell apart.

        Another column, or a directory that is called ``name=value``.
        """
        for path in self.files():
            with self._readable(path):
                folded = [name.casefold() for name in self._reader.schema(path).names]
            folded += [part.partition("=")[0].casefold() for part in path.parts[:-1] if "=" in part]
            if any(folded.count(name.casefold()) > 1 for name in column.names):
                return True
        return False


def _written_out(kind: pa.DataType) -> pa.DataType:
    """What a column holds where no dictionary stands for it."""
    import pyarrow as pa

    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _short_pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The same rows, so many at a time that they are short when every row has its own copy of a dictionary's text."""
    if len(batch) > 1 and sum(map(_size_written_out, batch.columns)) > PIECE_BYTES:
        middle = len(batch) // 2
        yield from _short_pieces(batch.slice(0, middle))
        yield from _short_pieces(batch.slice(middle))
    else:
        yield batch


def _size_written_out(array: pa.Array) -> int:
    """The bytes of an array without dictionaries."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = array.type
    if pa.types.is_dictionary(kind) and (cell.is_text(kind.value_type) or pa.types.is_binary(kind.value_type)):
        lengths = pc.binary_length(array.dictionary).take(array.indices)
        return int(pc.sum(lengths.cast(pa.int64())).as_py() or 0)
    if pa.types.is_map(kind):
        pairs = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
        return _size_written_out(array.cast(pa.list_(pairs)))
    if cell.is_list(kind):
        return _size_written_out(array.flatten())
    if pa.types.is_struct(kind):
        return sum(map(_size_written_out, array.flatten()))
    return int(array.nbytes)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """What a column holds, however Arrow keeps it: texts are texts in a dictionary, too."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    return kind
