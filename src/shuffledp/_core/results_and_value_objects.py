"""Base classes: value objects, results that print themselves, progress displays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from shuffledp._core.formatting import escape_line, escape_terminal, format_html_table

Row = tuple[str, str]
"""A label and its text."""


class PrintableResult(ABC):
    """A result with a heading, rows and perhaps a remark, for ``print`` and notebooks; ``repr`` is the dataclass's."""

    @property
    @abstractmethod
    def heading(self) -> str:
        """The title, one line."""

    @abstractmethod
    def summary(self) -> list[Row]:
        """Returns labelled texts, the most important first."""

    @property
    def remark(self) -> str:
        """The text below the rows; may be empty."""
        return ""

    def __str__(self) -> str:
        rows = [(escape_line(name), escape_terminal(text)) for name, text in self.summary()]
        width = max((len(name) for name, _ in rows), default=0)
        lines = [escape_terminal(self.heading), *(f"  {name:<{width}}  {text}" for name, text in rows)]
        return "\n".join([*lines, escape_terminal(self.remark)] if self.remark else lines)

    def _repr_html_(self) -> str:
        """Returns a small table for notebooks."""
        return format_html_table(self.heading, self.summary(), self.remark)


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


# --- Value objects ---


class ValueObject:
    """Base of frozen dataclasses that are compared, hashed and pickled by their fields alone.

    ``cached_property`` values enter neither comparisons nor pickles. A dataclass that holds arrays takes ``eq=False``,
    so that the comparison here, of arrays by their content, is used.
    """

    def __getstate__(self) -> dict[str, Any]:
        kind = type(self)
        return {
            name: held
            for name, held in vars(self).items()
            if not isinstance(getattr(kind, name, None), cached_property)
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        for held in state.values():
            if isinstance(held, np.ndarray):
                held.setflags(write=False)
        vars(self).update(state)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return _compared_values(self) == _compared_values(other)

    def __hash__(self) -> int:
        return hash(_compared_values(self))


def _compared_values(record: Any) -> tuple[object, ...]:
    held = (getattr(record, one.name) for one in fields(record) if one.compare)
    return tuple((one.dtype.str, one.shape, one.tobytes()) if isinstance(one, np.ndarray) else one for one in held)
