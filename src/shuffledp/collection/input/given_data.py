"""The input as it was given: paths, standard input or data in memory, and whose rows they are, as one table."""

from __future__ import annotations

import glob
import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shuffledp import argument
from shuffledp.collection.input.contribution import BoundedTable
from shuffledp.collection.input.file_table import FileTable
from shuffledp.collection.input.gathered_table import GatheredTable
from shuffledp.collection.input.memory_table import in_memory
from shuffledp.collection.input.present_table import PresentTable
from shuffledp.collection.input.table import Table
from shuffledp.tasks.column import Column

STANDARD_INPUT = "-"
BEGINNINGS = ((b"PAR1", ".parquet"), (b"ARROW1", ".arrow"), (b"\x1f\x8b", ".csv.gz"))
"""With what files begin that are no plain text."""


def named(column: Any) -> tuple[str, ...]:
    """The names of columns that were given: one, several, or none."""
    names = () if column is None else (column,) if isinstance(column, str) else column
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"input: column must be a name or a list of names, got {column!r}.")
    if len(set(names)) != len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise ValueError(f"input: expected each column once, got {twice!r} twice.")
    return tuple(names)


def table_of(
    data: Any,
    column: str | Sequence[str] | None = None,
    user: str | None = None,
    rows_per_user: float = 1,
    delimiter: str | None = None,
    gather: bool = False,
) -> Table:
    """The input that was given: a path or several, or a data frame, series, table or array that Arrow understands.

    With the name of the column that says whose rows they are, at most ``rows_per_user`` rows of each are in it; all
    where they are to be gathered.
    """
    most = argument.count("input", "rows_per_user", rows_per_user)
    if user is None and most != 1:
        raise ValueError(f"input: rows_per_user = {most} needs the column of the users; name it with user (--user).")
    if gather and (user is None or most != 1):
        raise ValueError("input: gather needs the column of the users (--user), and takes all of their rows.")
    if isinstance(data, Table):
        table = data
    elif isinstance(data, str | os.PathLike) or _are_paths(data):
        table = files_of([data] if isinstance(data, str | os.PathLike) else data, delimiter)
    elif delimiter is not None:
        raise ValueError("input: delimiter is for CSV files, got data in memory.")
    else:
        table = in_memory(data, named(column), user)
    return table if user is None or gather else BoundedTable(table, user, most)


def prepared(table: Table, column: Column, user: str | None, gather: bool) -> Table:
    """The rows that have a value, where the column's rules leave the others out; each user's as one, where gathered."""
    rules, own = column.rules, (user,) if gather and user is not None else ()
    present = table
    if rules.drops:
        present = PresentTable(table, (*column.names, *own), (*column.numeric, *(False for _ in own)), rules.gaps)
    if not gather:
        return present
    if not column.task.takes_lists:
        raise ValueError(f"input: the task {column.task.name!r} takes no lists into which rows could be gathered.")
    assert user is not None, "table_of has looked"
    return GatheredTable(present, user)


def _are_paths(data: Any) -> bool:
    """Whether a list is one of paths; an empty one is nothing else."""
    return isinstance(data, list | tuple) and all(isinstance(each, str | os.PathLike) for each in data)


def files_of(given: Sequence[str | os.PathLike[str]], delimiter: str | None = None) -> FileTable:
    """The table of paths, patterns such as ``data/*.csv``, or "-", which is standard input."""
    paths = [path for each in given for path in _matching(os.fspath(each))]
    if not paths:
        raise ValueError("input: expected the path of a file or a directory, got none.")
    if STANDARD_INPUT not in paths:
        return FileTable(*paths, delimiter=delimiter)
    if len(paths) > 1:
        raise ValueError("input: standard input does not go with files beside it; give one of them.")
    return _kept_input(delimiter)


def _matching(path: str) -> list[str]:
    """The files of a pattern, in order; a path that is there is no pattern."""
    if path == STANDARD_INPUT or os.path.lexists(path) or not glob.has_magic(path):
        return [path]
    found = sorted(glob.glob(path, recursive=True))
    if not found:
        raise ValueError(f"input: no file matches {path!r}.")
    return found


def _kept_input(delimiter: str | None) -> FileTable:
    """Standard input, which can be read but once, in a file for its owner only that goes when nobody needs it."""
    if sys.stdin.isatty():
        raise ValueError("input: expected rows on standard input, got a terminal; pipe a file into it.")
    room = Path(tempfile.mkdtemp(prefix="shuffledp-input-"))
    raw = room / "standard-input"
    with open(os.open(raw, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    with raw.open("rb") as file:
        head = file.read(8)
    suffix = next((suffix for known, suffix in BEGINNINGS if head.startswith(known)), ".csv")
    path = raw.rename(room / f"standard-input{suffix}")
    try:
        table = FileTable(path, delimiter=delimiter)
    except BaseException:
        shutil.rmtree(room, ignore_errors=True)
        raise
    weakref.finalize(table, shutil.rmtree, room, ignore_errors=True)
    return table
