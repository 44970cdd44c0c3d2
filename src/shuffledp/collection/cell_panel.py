"""Cells of a map, or of a table of two columns, coloured by their counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from shuffledp.array import Bools, Floats
from shuffledp.collection.lettering import Lettering
from shuffledp.collection.panel import Panel, number_text
from shuffledp.tasks.quantity import Quantity

PALE = 0.65
"""Up to this share of the largest count, dark letters have more contrast on a cell's colour than white ones."""


class CellPanel(Panel):
    """Cells of a map, or of a table of two columns, coloured by their counts."""

    MOST_WRITTEN = 80
    """Cells that have their count and interval written in them."""

    def __init__(self, quantity: Quantity, letters: Lettering, sure: str) -> None:
        super().__init__(quantity, letters, sure)
        grid, sizes = quantity.shape.grid, quantity.shape.sizes
        self.rows, self.columns = (grid.rows, grid.columns) if grid is not None else sizes or (1, len(quantity.labels))
        ratio = grid.size[1] / grid.size[0] if grid is not None else self.rows / max(self.columns, 2) * 0.6
        self.height = float(np.clip(0.75 + 4.9 * ratio, 1.9, 6.0))

    @property
    def _table(self) -> Floats:
        return self.quantity.value.reshape(self.rows, self.columns)

    def draw(self) -> None:
        from matplotlib.ticker import MaxNLocator

        grid = self.quantity.shape.grid
        edges = None if grid is None else (grid.west, grid.east, grid.south, grid.north)
        top = max(1e-9, float(self._table.max()))
        drawn = self.axes.imshow(
            self._table, cmap="Blues", vmin=0.0, vmax=top, extent=edges, aspect=self._aspect(), interpolation="nearest",
            origin="lower" if grid is not None else "upper",
        )  # fmt: skip
        figure = self.axes.get_figure()
        assert figure is not None, "axes stand in a figure"
        bar = figure.colorbar(drawn, ax=self.axes, shrink=0.9, pad=0.02, format=number_text)
        bar.outline.set_visible(False)
        bar.ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        bar.set_label(self.quantity.name)
        self._axis_names(grid)
        if self._table.size <= self.MOST_WRITTEN:
            self._write(top)
        self._named()

    def _aspect(self) -> float | Literal["auto"]:
        """A cell as wide and high as it is on the ground."""
        grid = self.quantity.shape.grid
        if grid is None:
            return "auto"
        width, height = grid.size
        return (height / (grid.north - grid.south)) / (width / (grid.east - grid.west))

    def _axis_names(self, grid: Any) -> None:
        if grid is not None:
            degrees = grid.coordinates == "degrees"
            self.axes.set_xlabel("longitude" if degrees else "x")
            self.axes.set_ylabel("latitude" if degrees else "y")
            return
        pairs = [label.split(" × ", 1) for label in self.quantity.labels]
        firsts = [pairs[row * self.columns][0] for row in range(self.rows)]
        self.axes.set_yticks(np.arange(self.rows), [self.letters.shown(label) for label in firsts])
        seconds = [self.letters.shown(pair[-1]) for pair in pairs[: self.columns]]
        self._ticks(seconds, np.arange(self.columns, dtype=float))

    def _middles(self) -> Floats:
        """Where the middle of each cell is drawn."""
        grid = self.quantity.shape.grid
        if grid is not None:
            return grid.centres[:, grid.order]
        rows, columns = np.divmod(np.arange(self._table.size), self.columns)
        return np.stack([columns, rows], axis=1).astype(float)

    def _write(self, top: float) -> None:
        """Count and interval in each cell, in letters that can be read on its colour."""
        reach = self._half()
        for place, (x, y) in enumerate(self._middles()):
            value = self.quantity.value[place]
            said = number_text(round(value)) + ("" if reach is None else f"\n±{reach[place]:,.0f}")
            after = "" if self.quantity.adjusted is None else f"\n◇ {number_text(round(self.quantity.adjusted[place]))}"
            colour = "white" if value > PALE * top else "0.2"
            self.axes.text(x, y, said + after, ha="center", va="center", fontsize=7, color=colour, linespacing=1.15)

    def _half(self) -> Floats | None:
        return None if self.reach is None else self.reach.max(axis=0)

    def _empty(self) -> Bools:
        return np.zeros(0, bool) if self.intervals is None else np.asarray(self.intervals[0] <= 0.0)

    def notes(self) -> Iterator[str]:
        reach = self._half()
        if reach is None:
            return
        if self._table.size <= self.MOST_WRITTEN:
            yield f"±: the {self.sure} interval of each cell."
        else:
            yield f"The {self.sure} interval of each cell is its count ± at most {reach.max():,.0f}."
        empty = int(self._empty().sum())
        if empty:
            head = f"{self.letters.shown(self.quantity.question)}: " if self.quantity.question else ""
            yield f"{head}{empty:,} of {self._table.size:,} cells may be empty: their intervals hold 0."
