"""Progress reports of long steps: the pipeline reports, its caller displays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")


class Progress:
    """A progress display that shows nothing; the command line has one with bars."""

    @contextmanager
    def step(self, name: str, total: int | None) -> Iterator[Callable[[int], None]]:
        """Begins a step of ``total`` rows (None: unknown); yields a function to call with each number of rows done."""
        del name, total
        yield lambda rows: None

    def track(self, name: str, items: Sequence[Item]) -> Iterator[Item]:
        """Yields the items as one step."""
        with self.step(name, len(items)) as advance:
            for item in items:
                yield item
                advance(1)
