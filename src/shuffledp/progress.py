"""How far a long step is: the pipeline tells, whoever started it shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")


class Progress:
    """Shows nothing; the command line draws bars."""

    @contextmanager
    def step(self, name: str, total: int | None) -> Iterator[Callable[[int], None]]:
        """A step of ``total`` rows (None: unknown); call what it gives with every number of rows done."""
        del name, total
        yield lambda rows: None

    def each(self, name: str, items: Sequence[Item]) -> Iterator[Item]:
        """A step that goes through these."""
        with self.step(name, len(items)) as advance:
            for item in items:
                yield item
                advance(1)
