"""Objects that people read: a few lines for ``print``, a small table for a notebook, a figure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = tuple[str, str]
"""What something is called, and what it is."""


class Readable(ABC):
    """Says itself in a title and rows; ``repr`` stays that of the dataclass."""

    @abstractmethod
    def _title(self) -> str:
        """One line."""

    @abstractmethod
    def _rows(self) -> list[Row]:
        """What is worth saying, the most important first."""

    def __str__(self) -> str:
        rows = self._rows()
        width = max((len(name) for name, _ in rows), default=0)
        return "\n".join([self._title(), *(f"  {name:<{width}}  {text}" for name, text in rows)])

    def _repr_html_(self) -> str:
        """A small table, for notebooks."""
        rows = "".join(
            f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(text)}</td></tr>'
            for name, text in self._rows()
        )
        return f"<table><caption>{escape(self._title())}</caption><tbody>{rows}</tbody></table>"


def empty_figure() -> tuple[Figure, Axes]:
    """A figure with one pair of axes; a sentence where matplotlib is missing."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("plot: matplotlib is not installed; install shuffledp[plot].") from None
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.grid(visible=True, color="0.9", linewidth=0.6)
    return figure, axes


def yes_or_no(holds: bool, otherwise: str = "no") -> str:
    return "yes" if holds else otherwise
