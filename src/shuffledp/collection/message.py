"""Files of shuffled messages: Parquet with one column of fixed-width bytes, and nothing else.

Names and row groups of shuffled files depend on the number of messages only, sizes on their multiset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Self

import numpy as np

from shuffledp.array import Bytes

if TYPE_CHECKING:
    import pyarrow as pa

COLUMN = "message"
GROUP_ROWS, GROUP_BYTES = 1 << 20, 1 << 23
FILE_GROUPS = 16
"""Most messages and bytes in a row group, and row groups in a file."""
READ_BYTES = 1 << 20


def group_rows(width: int) -> int:
    """Messages of this width in a row group, but for the last one; also how many are worked on at a time."""
    return max(1, min(GROUP_ROWS, GROUP_BYTES // width))


def array_of(wire: Bytes) -> pa.Array:
    """Rows of bytes as an Arrow array, without a copy."""
    import pyarrow as pa

    rows = np.ascontiguousarray(wire)
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(rows.shape[1]), len(rows), [None, pa.py_buffer(rows)])


def wire_of(array: pa.Array, width: int) -> Bytes:
    """The inverse of ``array_of``; bytes of variable length are accepted if all have this one."""
    import pyarrow as pa

    if array.null_count:
        raise ValueError(f"messages: expected a message in every row, got {array.null_count} nulls.")
    kind = pa.binary(width)
    if array.type != kind:
        try:
            array = array.cast(kind)
        except pa.ArrowException:
            raise ValueError(f"messages: expected rows of {width} bytes, got {array.type} of other lengths.") from None
    array.validate(full=True)
    start = array.offset * width
    flat = np.frombuffer(array.buffers()[1], dtype=np.uint8)[start : start + len(array) * width]
    return flat.reshape(len(array), width)


def read(paths: Iterable[Path], width: int) -> Iterator[Bytes]:
    """The messages of files, a bounded number at a time: those that are really there, whatever a footer says."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for path in paths:
        try:
            with pq.ParquetFile(path, buffer_size=READ_BYTES, pre_buffer=False) as file:
                _demand_messages(path, file.schema_arrow, width)
                for batch in file.iter_batches(batch_size=group_rows(width), columns=[COLUMN]):
                    yield wire_of(batch.column(0), width)
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"messages: cannot read {path}: {' '.join(str(error).split()).rstrip('.')}.") from None


def count(paths: Iterable[Path]) -> int:
    """How many messages there are in files of our own, as they say."""
    import pyarrow.parquet as pq

    return sum(pq.read_metadata(path).num_rows for path in paths)


def _demand_messages(path: Path, schema: pa.Schema, width: int) -> None:
    import pyarrow as pa

    kinds = (pa.binary(width), pa.binary())
    if schema.names != [COLUMN] or schema.field(0).type not in kinds:
        raise ValueError(f"messages: {path} does not hold messages of {width} bytes: expected one column {COLUMN!r}.")


def files_of(directory: Path) -> list[Path]:
    """The files of a directory of messages in order; a file stands for itself."""
    if directory.is_file():
        return [directory]
    found = sorted(path for path in directory.iterdir() if path.suffix == ".parquet") if directory.is_dir() else []
    if not found:
        raise ValueError(f"messages: expected a file or a directory of messages, got {str(directory)!r}.")
    return found


class Writer:
    """Writes messages to one file after another, in row groups of one size."""

    def __init__(self, directory: Path, width: int, stem: str = "messages") -> None:
        self._directory, self._width, self._stem = directory, width, stem
        self._group = np.empty((group_rows(width), width), dtype=np.uint8)
        self._held = self._groups = self._files = 0
        self._file: pa.parquet.ParquetWriter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is None:
            self._flush()
        self._close()

    def write(self, wire: Bytes) -> None:
        """Add these messages."""
        taken = 0
        while taken < len(wire):
            take = min(len(self._group) - self._held, len(wire) - taken)
            self._group[self._held : self._held + take] = wire[taken : taken + take]
            self._held, taken = self._held + take, taken + take
            if self._held == len(self._group):
                self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        if not self._held:
            return
        if self._file is None:
            self._file = open_writer(self._directory / f"{self._stem}-{self._files:05d}.parquet", self._width)
            self._files += 1
        self._file.write_table(pa.table({COLUMN: array_of(self._group[: self._held])}), row_group_size=self._held)
        self._groups, self._held = self._groups + 1, 0
        if self._groups >= FILE_GROUPS:
            self._close()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file, self._groups = None, 0


def write_to(file: BinaryIO, width: int, batches: Iterable[Bytes]) -> None:
    """Messages in the order in which they come, into an open file."""
    import pyarrow as pa

    with open_writer(file, width) as writer:
        for wire in batches:
            writer.write_table(pa.table({COLUMN: array_of(wire)}))


def open_writer(where: Path | BinaryIO, width: int) -> pa.parquet.ParquetWriter:
    """A file for messages of this width; sorted messages take next to no space."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([pa.field(COLUMN, pa.binary(width), nullable=True)])
    return pq.ParquetWriter(
        where, schema, use_dictionary=False, compression="zstd", compression_level=1, write_statistics=False,
        store_schema=False,
    )  # fmt: skip
