"""The rows of any table as one private Parquet file, for an engine that reads files: so there is one reader of each."""

from __future__ import annotations

import os
from pathlib import Path

from shuffledp.collection.input.file_table import FileTable
from shuffledp.collection.input.table import Table, chunks
from shuffledp.tasks.column import Column

READ_ROWS, GROUP_ROWS = 1 << 17, 1 << 20


def spill(table: Table, column: Column, path: Path) -> FileTable:
    """Write what is read, a row group at a time, to a file that only its owner may read."""
    import pyarrow.parquet as pq

    writer = None
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        try:
            for piece in chunks(table.batches(column, READ_ROWS), GROUP_ROWS):
                rows = column.table(piece)
                if writer is None:
                    writer = pq.ParquetWriter(file, rows.schema)
                writer.write_table(rows, row_group_size=GROUP_ROWS)
        finally:
            if writer is not None:
                writer.close()
    if writer is None:
        raise ValueError(f"input: expected at least one row, got none in {table.place}.")
    return FileTable(path)
