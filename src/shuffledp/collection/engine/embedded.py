"""The engine inside this process: Arrow batches, numpy kernels, and sorted runs on disk where memory is too small."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shuffledp.array import Array, Bytes
from shuffledp.collection import kernel, message, shuffling
from shuffledp.collection.engine.engine import Engine
from shuffledp.collection.input.table import Table, chunks
from shuffledp.collection.job import whole_directory
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.tasks.column import Column

if TYPE_CHECKING:
    import pyarrow as pa

PART_CHUNKS = 32
"""Chunks in a part: what a killed run has to repeat at most."""


class Embedded(Engine):
    """Everything in this process, memory bounded whatever the size of the data."""

    name = "embedded"

    def check(self, table: Table, column: Column) -> int:
        with self.progress.step("checking", None) as advance:
            return kernel.check(column, told(table.batches(column, kernel.CHUNK_ROWS), advance))

    def encode(self, table: Table, column: Column, key: bytes, users: int, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        encoder = kernel.Encoder(column, key)
        chunk_rows = kernel.chunk_rows(column.mechanism)
        arrays = chunks(table.batches(column, kernel.CHUNK_ROWS), chunk_rows)
        encoded = 0

        def counted(pieces: Iterator[pa.Array]) -> Iterator[pa.Array]:
            nonlocal encoded
            for piece in pieces:
                encoded += len(piece)
                yield piece
                advance(len(piece))

        with self.progress.step("encoding", users) as advance:
            for part in range(-(-users // (PART_CHUNKS * chunk_rows))):
                pieces = counted(islice(arrays, PART_CHUNKS))
                path = directory / f"part-{part:05d}.parquet"
                if path.exists():
                    deque(pieces, maxlen=0)
                else:
                    write_messages(path, column.mechanism.message_bytes, encoder.part(pieces, part))
        if encoded != users or next(arrays, None) is not None:
            raise ValueError(f"input: expected {users} rows as at the first look; the file has changed since.")

    def shuffle(self, encoded: Path, width: int, directory: Path, messages: int) -> None:
        with self.progress.step("shuffling", messages) as advance, whole_directory(directory) as unfinished:
            written = shuffling.shuffle_files(message.files_of(encoded), width, unfinished, advance)
            if written != messages:
                raise ValueError(f"collect: expected {messages} messages to shuffle, got {written}.")

    def aggregate(self, mechanism: Mechanism, shuffled: Path, messages: int) -> tuple[Array, int]:
        with self.progress.step("aggregating", messages) as advance:
            batches = told(message.read(message.files_of(shuffled), mechanism.message_bytes), advance)
            found = kernel.accumulate(mechanism, batches)
        if found is None:
            raise ValueError("messages: expected at least one message, got none.")
        return found


def write_messages(path: Path, width: int, batches: Iterator[Bytes]) -> None:
    """One file of messages, for its owner only; it gets its name when it is complete, unless that is taken."""
    import pyarrow as pa

    unfinished = path.with_name(f"{path.name}.unfinished-{os.urandom(8).hex()}")
    os.close(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        with message.open_writer(unfinished, width) as file:
            for wire in batches:
                file.write_table(pa.table({message.COLUMN: message.array_of(wire)}))
        os.link(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def told(batches: Iterator[Any], advance: Callable[[int], None]) -> Iterator[Any]:
    """The same batches, with word of each that is done."""
    for batch in batches:
        yield batch
        advance(len(batch))
