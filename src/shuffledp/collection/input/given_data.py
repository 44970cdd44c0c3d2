"""The input as it was given: a path or data in memory, and whose rows they are, as one table."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from shuffledp import argument
from shuffledp.collection.input.contribution import BoundedTable
from shuffledp.collection.input.file_table import FileTable
from shuffledp.collection.input.memory_table import in_memory
from shuffledp.collection.input.table import Table


def table_of(data: Any, column: str | None = None, user: str | None = None, rows_per_user: float = 1) -> Table:
    """The input that was given: a path, or a data frame, series, table or array that Arrow understands.

    With the name of the column that says whose rows they are, at most ``rows_per_user`` rows of each are in it.
    """
    most = argument.count("input", "rows_per_user", rows_per_user)
    if user is None and most != 1:
        raise ValueError(f"input: rows_per_user = {most} needs the column of the users; name it with user (--user).")
    if isinstance(data, Table):
        table = data
    elif isinstance(data, str | os.PathLike):
        table = FileTable(Path(data))
    else:
        table = in_memory(data, column, user)
    return table if user is None else BoundedTable(table, user, most)
