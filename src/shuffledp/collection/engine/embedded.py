"""The engine inside this process: Arrow batches, numpy kernels, and sorted runs on disk where memory is too small."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shuffledp.collection import durable, kernel, manifest, message, shuffling
from shuffledp.collection.engine.engine import Engine, EngineFailed
from shuffledp.collection.input.table import Table, chunks
from shuffledp.collection.kernel import Total
from shuffledp.collection.lot import Lot
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.parts.reading import Reading
from shuffledp.tasks.column import Column

if TYPE_CHECKING:
    import pyarrow as pa

PART_CHUNKS = 32
"""Chunks in a part: what a killed run has to repeat at most."""


class Embedded(Engine):
    """Everything in this process, memory bounded whatever the size of the data."""

    name = "embedded"

    def check(self, table: Table, column: Column) -> int:
        with self.progress.step("checking", None) as advance, table.located():
            return kernel.check(column, told(table.batches(column, kernel.CHUNK_ROWS), advance))

    def encode(self, table: Table, column: Column, key: bytes, lot: Lot, directory: Path) -> None:
        durable.make_directory(directory)
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

        with self.progress.step("encoding", lot.users) as advance:
            for part in range(-(-lot.users // (PART_CHUNKS * chunk_rows))):
                pieces = counted(islice(arrays, PART_CHUNKS))
                path = directory / f"part-{part:05d}.parquet"
                if path.exists():
                    deque(pieces, maxlen=0)
                else:
                    with durable.whole_file(path) as file:
                        message.write_to(file, lot.width, encoder.part(pieces, part))
        if encoded != lot.users or next(arrays, None) is not None:
            raise ValueError(f"input: expected {lot.users} rows as at the first look; the file has changed since.")

    def shuffle(self, encoded: Path, lot: Lot, directory: Path) -> None:
        files = message.files_of(encoded)
        total = message.count(files) if lot.messages is None else lot.messages
        batches = message.read(files, lot.width)
        with self.progress.step("shuffling", total) as advance, durable.whole_directory(directory) as unfinished:
            messages = shuffling.in_order(told(batches, advance), lot.width, total, unfinished)
            written = manifest.write(messages, lot, unfinished)
            if written.messages != total:
                raise EngineFailed(f"collect: expected {total} messages to shuffle, got {written.messages}.")

    def aggregate(self, mechanism: Mechanism, shuffled: Path, messages: int, reading: Reading | None = None) -> Total:
        with self.progress.step("aggregating", messages) as advance:
            batches = told(manifest.Manifest.read(shuffled).checked(shuffled), advance)
            found = kernel.accumulate(mechanism, batches, reading)
        if found is None:
            raise ValueError(f"messages: expected at least one message of {mechanism.name}, got none.")
        return found


def told(batches: Iterator[Any], advance: Callable[[int], None]) -> Iterator[Any]:
    """The same batches, with word of each that is done."""
    for batch in batches:
        yield batch
        advance(len(batch))
