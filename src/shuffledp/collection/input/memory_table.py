"""Data in memory as a table: data frames, series, tables and arrays of whatever library speaks Arrow."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from shuffledp.collection.input.table import NAMES_SHOWN, Table, chunks
from shuffledp.tasks.cell import without_views

if TYPE_CHECKING:
    import pyarrow as pa

HASHED_ROWS = 1 << 16
NAMELESS = "value"
"""What a column without a name is called."""


@dataclass(frozen=True, eq=False)
class MemoryTable(Table):
    """Columns in memory, as Arrow holds them, and the one that says whose rows they are, where it is needed."""

    columns: Mapping[str, pa.ChunkedArray]
    others: Mapping[str, pa.ChunkedArray] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return "the data"

    @property
    def held(self) -> dict[str, pa.ChunkedArray]:
        return {**self.columns, **self.others}

    def names(self) -> list[str]:
        return list(self.held)

    def fingerprint(self) -> dict[str, Any]:
        """A hash of each column's buffers, however they are divided."""
        each = {name: hashed(column) for name, column in self.columns.items()}
        # One column needs no name, as ever.
        known = next(iter(each.values())) if len(each) == 1 else {"columns": each}
        return known | (
            {"others": {name: hashed(column) for name, column in self.others.items()}} if self.others else {}
        )

    def read(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        self.demand_columns(columns, self.names())
        yield from pa.table({name: self.held[name] for name in columns}).to_batches(max_chunksize=rows)


def hashed(column: pa.ChunkedArray) -> dict[str, Any]:
    """What changes if one of the column's values does."""
    import pyarrow as pa

    known = hashlib.sha256()
    schema = pa.schema([pa.field("column", column.type)])
    for piece in chunks(iter(column.chunks), HASHED_ROWS, None):
        # Put together from two, it is a copy without what lies around it in memory.
        alone = pa.concat_arrays([piece.slice(0, 0), piece])
        known.update(pa.RecordBatch.from_arrays([alone], schema=schema).serialize())
    return {"rows": len(column), "type": str(column.type), "sha256": known.hexdigest()}


def in_memory(data: Any, columns: tuple[str, ...], user: str | None) -> MemoryTable:
    """The columns of data in memory, and that of the users; pandas, polars and others hand them over by Arrow.

    Where none is named, it is the only one.
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
            return MemoryTable(dict(_column(data, name) for name in wanted))
        others = [one for one in _names(data) if one != user]
        found = dict(_column(data, _chosen(others, name)) for name in wanted)
        return MemoryTable(found, dict([_column(data, user)]))
    except pa.ArrowException as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise ValueError(f"input: cannot read the data: {reason}.") from None


def _is_tabular(data: Any) -> bool:
    import pyarrow as pa

    return isinstance(data, pa.Table | pa.RecordBatch) or (hasattr(data, "columns") and not isinstance(data, pa.Array))


def _names(data: Any) -> list[Any]:
    import pyarrow as pa

    return list(data.schema.names if isinstance(data, pa.Table | pa.RecordBatch) else data.columns)


def _column(data: Any, column: str | None) -> tuple[str, pa.ChunkedArray]:
    """One column of the data, and its name."""
    import pyarrow as pa

    if _is_tabular(data):
        name = _chosen(_names(data), column)
        # Only this one: others may hold what Arrow does not know.
        one = data.select([name]) if isinstance(data, pa.Table | pa.RecordBatch) else data[[name]]
        return name, _plain(pa.table(one)[name])
    if isinstance(data, pa.Array):
        return _named(data, column), _plain(pa.chunked_array([data]))
    known = isinstance(data, pa.ChunkedArray) or hasattr(data, "__arrow_c_stream__")
    return _named(data, column), _plain(pa.chunked_array(data if known else [_array(data)]))


def _chosen(names: list[Any], column: str | None) -> str:
    """The column that was named, or the only one."""
    if column is None and len(names) != 1:
        raise ValueError(f"input: expected the name of a column of the data, which has {len(names)}.")
    name = names[0] if column is None else column
    if name not in names:
        shown = ", ".join(map(str, names[:NAMES_SHOWN])) + (", …" if len(names) > NAMES_SHOWN else "")
        raise ValueError(f"input: the data has no column {name!r}; it has {shown}.")
    if names.count(name) > 1:
        raise ValueError(f"input: the data has {names.count(name)} columns {name!r}; give each its own name.")
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
