"""``open_input``: files, data frames and columns in memory as the input of a collection."""

from __future__ import annotations

import glob
import hashlib
import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shuffledp._core import validation
from shuffledp._core.errors import InvalidArgument
from shuffledp._core.message_phrases import phrase
from shuffledp.collection.input.base import MAX_NAMES_SHOWN, Table, rechunk
from shuffledp.collection.input.files import FileTable
from shuffledp.collection.input.table_views import CompleteRowsTable, GroupedByUserTable, RowsPerUserTable
from shuffledp.tasks.column_reader import ColumnReader
from shuffledp.tasks.value_parsing import decode_string_views

if TYPE_CHECKING:
    import pyarrow as pa


# --- Data in memory ---


FINGERPRINT_BATCH_ROWS = 1 << 16
UNNAMED_COLUMN = "value"
"""Name of a column without a name."""


@dataclass(frozen=True, eq=False)
class MemoryTable(Table):
    """Columns in memory as Arrow arrays, and the column that identifies users if it is needed.

    Accepts data frames, series, tables and arrays of any library that supports Arrow.
    """

    columns: Mapping[str, pa.ChunkedArray]
    id_columns: Mapping[str, pa.ChunkedArray] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return "the data"

    @property
    def all_columns(self) -> dict[str, pa.ChunkedArray]:
        return {**self.columns, **self.id_columns}

    def names(self) -> list[str]:
        return list(self.all_columns)

    def fingerprint(self) -> dict[str, Any]:
        """Returns a hash of each column's buffers, however they are divided."""
        columns, ids = (
            {name: fingerprint_column(column) for name, column in group.items()}
            for group in (self.columns, self.id_columns)
        )
        # A single column has no name here, for compatibility with older fingerprints.
        fingerprint = next(iter(columns.values())) if len(columns) == 1 else {"columns": columns}
        return fingerprint | ({"others": ids} if ids else {})

    def read(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        self.check_columns(columns, self.names())
        yield from pa.table({name: self.all_columns[name] for name in columns}).to_batches(max_chunksize=rows)


def fingerprint_column(column: pa.ChunkedArray) -> dict[str, Any]:
    """Returns a fingerprint of a column that changes if one of its values does."""
    import pyarrow as pa

    digest = hashlib.sha256()
    schema = pa.schema([pa.field("column", column.type)])
    for piece in rechunk(iter(column.chunks), FINGERPRINT_BATCH_ROWS, None):
        # Concatenating makes a copy without the memory around it.
        alone = pa.concat_arrays([piece.slice(0, 0), piece])
        digest.update(pa.RecordBatch.from_arrays([alone], schema=schema).serialize())
    return {"rows": len(column), "type": str(column.type), "sha256": digest.hexdigest()}


def read_memory_table(data: Any, columns: tuple[str, ...], user: str | None) -> MemoryTable:
    """Reads the columns of data in memory, and that of the users, through Arrow.

    If no column is named, there must be only one.
    """
    import pyarrow as pa

    try:
        if not _is_tabular(data):
            if user is not None:
                raise ValueError(f"input: expected data with a column {user!r} of users, got a single column.")
            if len(columns) > 1:
                raise ValueError(f"input: expected data with {len(columns)} columns, got a single one.")
        wanted: tuple[str | None, ...] = columns or (None,)
        if user is None:
            return MemoryTable(dict(_read_column(data, name) for name in wanted))
        names = [name for name in _list_column_names(data) if name != user]
        values = dict(_read_column(data, _choose_column(names, name)) for name in wanted)
        return MemoryTable(values, dict([_read_column(data, user)]))
    except pa.ArrowException as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise ValueError(f"input: cannot read the data: {reason}.") from None


def _is_tabular(data: Any) -> bool:
    import pyarrow as pa

    return isinstance(data, pa.Table | pa.RecordBatch) or (hasattr(data, "columns") and not isinstance(data, pa.Array))


def _list_column_names(data: Any) -> list[Any]:
    import pyarrow as pa

    return list(data.schema.names if isinstance(data, pa.Table | pa.RecordBatch) else data.columns)


def _read_column(data: Any, column: str | None) -> tuple[str, pa.ChunkedArray]:
    """Returns the name and the values of one column."""
    import pyarrow as pa

    if _is_tabular(data):
        name = _choose_column(_list_column_names(data), column)
        # Only this column: others may have types that Arrow does not support.
        column_data = data.select([name]) if isinstance(data, pa.Table | pa.RecordBatch) else data[[name]]
        return name, _decode_column(pa.table(column_data)[name])
    if isinstance(data, pa.Array):
        return _find_column_name(data, column), _decode_column(pa.chunked_array([data]))
    known = isinstance(data, pa.ChunkedArray) or hasattr(data, "__arrow_c_stream__")
    return _find_column_name(data, column), _decode_column(pa.chunked_array(data if known else [_convert_series(data)]))


def _choose_column(names: list[Any], column: str | None) -> str:
    """Returns the given column, or the only one."""
    if column is None and len(names) != 1:
        raise ValueError(f"input: expected the name of a column of the data, which has {len(names)}.")
    name = names[0] if column is None else column
    if name not in names:
        shown = ", ".join(map(str, names[:MAX_NAMES_SHOWN])) + (", …" if len(names) > MAX_NAMES_SHOWN else "")
        raise ValueError(f"input: the data has no column {name!r}; it has {shown}.")
    if names.count(name) > 1:
        raise ValueError(f"input: the data has {names.count(name)} columns {name!r}; give each its own name.")
    if not isinstance(name, str):
        raise TypeError(f"input: expected a column whose name is a text, got {name!r}.")
    return name


def _find_column_name(data: Any, column: str | None) -> str:
    """Returns the given name of a single column, or its own."""
    own = getattr(data, "name", None)
    return column if column is not None else own if isinstance(own, str) and own else UNNAMED_COLUMN


def _convert_series(data: Any) -> pa.Array:
    """Converts a series of a library that does not support Arrow's C interface."""
    import pyarrow as pa

    if not hasattr(data, "__array__"):
        raise TypeError(f"input: expected a path, or a data frame, series, table or array, got {type(data).__name__}.")
    return pa.array(data, from_pandas=True)


def _decode_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Decodes dictionaries and views, so that each row holds its value."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = pa.chunked_array(
            [
                pa.DictionaryArray.from_arrays(piece.indices, decode_string_views(piece.dictionary)).dictionary_decode()
                for piece in column.chunks
            ],
            type=decode_string_views(pa.array([], column.type.value_type)).type,
        )
    return decode_string_views(column)


# --- Opening the input ---


STANDARD_INPUT = "-"
MAGIC_BYTES = ((b"PAR1", ".parquet"), (b"ARROW1", ".arrow"), (b"\x1f\x8b", ".csv.gz"))
"""First bytes of files that are not plain text, and their suffixes."""


def check_column_names(column: Any) -> tuple[str, ...]:
    """Checks the given column names: one, several, or none."""
    names = () if column is None else (column,) if isinstance(column, str) else column
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"input: column must be a name or a list of names, got {column!r}.")
    if len(set(names)) != len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise ValueError(f"input: expected each column once, got {twice!r} twice.")
    return tuple(names)


def open_input(
    data: Any,
    column: str | Sequence[str] | None = None,
    user: str | None = None,
    rows_per_user: float = 1,
    delimiter: str | None = None,
    gather: bool = False,
) -> Table:
    """Opens the input: one or several paths, or a data frame, series, table or array that Arrow supports.

    If ``user`` names the column that identifies users, at most ``rows_per_user`` rows of each user are used, or all of
    them with ``gather``.
    """
    most = validation.count("input", "rows_per_user", rows_per_user)
    if user is None and most != 1:
        raise InvalidArgument(
            "input", f"rows_per_user = {most} needs the column of the users", hint=phrase("name it with {user=…}")
        )
    if gather and (user is None or most != 1):
        raise InvalidArgument(
            "input", phrase("gather needs the column of the users ({user}), and takes all of their rows")
        )
    if isinstance(data, Table):
        table = data
    elif isinstance(data, str | os.PathLike) or _are_paths(data):
        table = open_files([data] if isinstance(data, str | os.PathLike) else data, delimiter)
    elif delimiter is not None:
        raise ValueError("input: delimiter is for CSV files, got data in memory.")
    else:
        table = read_memory_table(data, check_column_names(column), user)
    return table if user is None or gather else RowsPerUserTable(table, user, most)


def prepare_table(table: Table, column: ColumnReader, user: str | None, gather: bool) -> Table:
    """Drops rows without a value if the column's rules say so, and groups rows by user if ``gather`` is set."""
    rules, user_columns = column.rules, (user,) if gather and user is not None else ()
    complete = table
    if rules.drops_rows:
        complete = CompleteRowsTable(
            table, (*column.names, *user_columns), (*column.numeric_columns, *(False for _ in user_columns)), rules.gaps
        )
    if not gather:
        return complete
    if not column.task.takes_lists:
        raise InvalidArgument(
            "input", f"the task {column.task.name!r} takes no lists", hint=phrase("leave out {gather}")
        )
    assert user is not None, "open_input has checked this"
    return GroupedByUserTable(complete, user)


def _are_paths(data: Any) -> bool:
    """Returns True for a list or tuple of paths, also if it is empty."""
    return isinstance(data, list | tuple) and all(isinstance(each, str | os.PathLike) for each in data)


def open_files(paths_given: Sequence[str | os.PathLike[str]], delimiter: str | None = None) -> FileTable:
    """Opens paths, patterns such as ``data/*.csv``, or "-", which is standard input."""
    paths = [path for each in paths_given for path in _expand_pattern(os.fspath(each))]
    if not paths:
        raise ValueError("input: expected the path of a file or a directory, got none.")
    if STANDARD_INPUT not in paths:
        return FileTable(*paths, delimiter=delimiter)
    if len(paths) > 1:
        raise ValueError("input: expected standard input or files, got both; give one of them.")
    return _copy_standard_input(delimiter)


def _expand_pattern(path: str) -> list[str]:
    """Returns the files that match a pattern, in order; an existing path is not a pattern."""
    if path == STANDARD_INPUT or os.path.lexists(path) or not glob.has_magic(path):
        return [path]
    paths = sorted(glob.glob(path, recursive=True))
    if not paths:
        raise ValueError(f"input: no file matches {path!r}.")
    return paths


def _copy_standard_input(delimiter: str | None) -> FileTable:
    """Copies standard input, which can be read only once, to a temporary file readable by its owner only.

    The file is deleted when the table is garbage-collected.
    """
    if sys.stdin.isatty():
        raise ValueError("input: expected rows on standard input, got a terminal; pipe a file into it.")
    room = Path(tempfile.mkdtemp(prefix="shuffledp-input-"))
    raw = room / "standard-input"
    with open(os.open(raw, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    with raw.open("rb") as file:
        head = file.read(8)
    suffix = next((suffix for known, suffix in MAGIC_BYTES if head.startswith(known)), ".csv")
    path = raw.rename(room / f"standard-input{suffix}")
    try:
        table = FileTable(path, delimiter=delimiter)
    except BaseException:
        shutil.rmtree(room, ignore_errors=True)
        raise
    weakref.finalize(table, shutil.rmtree, room, ignore_errors=True)
    return table
