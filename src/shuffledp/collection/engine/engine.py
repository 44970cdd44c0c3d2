"""What an engine does; the kernels are the same in all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from shuffledp.collection import kernel
from shuffledp.collection.input.table import Table
from shuffledp.collection.kernel import Total
from shuffledp.collection.lot import Lot
from shuffledp.collection.manifest import Manifest
from shuffledp.errors import ShuffledpError
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.parts.reading import Reading
from shuffledp.progress import Progress
from shuffledp.tasks.column import Column, Tally


class EngineFailed(ShuffledpError):
    """The machine failed, not the data: a collection keeps what is done, and can go on."""


class Engine(ABC):
    """Runs the steps of a collection over files.

    Contract: ``encode`` gives every row of the table its message (or as many as the mechanism sends), and the same one
    whenever it is repeated with the same key; ``shuffle`` writes files that are a function of the multiset of messages
    alone; ``aggregate`` adds up the mechanism's statistic over all of them.
    """

    name: ClassVar[str]

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def prepare(self) -> None:
        """Fail now where it cannot run at all: before anything is looked at or written."""
        return None

    @abstractmethod
    def check(self, table: Table, column: Column) -> int:
        """How many rows there are, if every value is good; a sentence otherwise. Writes nothing."""

    def counted(self, table: Table, column: Column) -> Tally:
        """How many values become others by the column's rules."""
        return kernel.counted(column, table.batches(column, kernel.CHUNK_ROWS))

    @abstractmethod
    def encode(self, table: Table, column: Column, key: bytes, lot: Lot, directory: Path) -> None:
        """Write the messages of all rows to a directory, once: what is complete there is not encoded again."""

    @abstractmethod
    def shuffle(self, encoded: Path, lot: Lot, directory: Path) -> None:
        """Write the messages of one directory to another, in order of their bytes, with their manifest."""

    @abstractmethod
    def aggregate(self, mechanism: Mechanism, shuffled: Path, messages: int, reading: Reading | None = None) -> Total:
        """The mechanism's statistic over all shuffled messages, and how many there are.

        Where some options are asked for, it is the statistic of their ``reading``.
        """

    def manifest(self, shuffled: Path) -> Manifest:
        """What was said of the shuffled messages."""
        return Manifest.read(shuffled)

    def deliver(self, release: Path) -> None:
        """Put report and estimates beside messages that lie elsewhere; again, where a run was killed meanwhile."""
        return None

    def close(self) -> None:
        """Give back what the engine holds."""
        return None
