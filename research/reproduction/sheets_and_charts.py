"""Results of a reproduction: a table, its charts, and a verdict on each claim of the paper."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shuffledp._core import plotting
from shuffledp._core.results_and_value_objects import Progress

if TYPE_CHECKING:
    from matplotlib.axes import Axes


PRINTED, PUBLISHED, SOUND, ATTACK = COLUMNS = ("printed", "published", "sound", "attack")
"""Columns: the printed number, the value of the published formula, the proved bound, and the attack's ε."""

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class ClaimVerdict:
    """One claim of a paper, and the verdict on it."""

    test_name: str
    """Name of the test, without ``test_``, that computes both sides; required for claims that are not reproduced."""
    claim: str
    reproduced: bool

    @property
    def verdict_text(self) -> str:
        return "reproduced" if self.reproduced else "not reproduced"


@dataclass(frozen=True)
class Chart:
    """One pair of axes: lines by name, or points in named rows if ``rows`` is not empty."""

    title: str
    x_label: str
    y_label: str
    lines: Mapping[str, Points]
    rows: Sequence[str] = ()
    log: str = ""
    """Logarithmic axes: "x", "y" or "xy"."""


@dataclass(frozen=True)
class Sheet:
    """The result of one item."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    verdicts: Sequence[ClaimVerdict]
    charts: Sequence[Chart]

    def save(self, path: Path) -> None:
        """Writes the table as CSV; numbers have all digits, inapplicable cells are empty."""
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(self.columns)
            writer.writerows([_format_cell(value) for value in row] for row in self.rows)


@dataclass(frozen=True)
class ReproducedItem:
    """One table or figure of a paper.

    Args:
        name: Name of the item on the command line.
        paper: Key of the paper in docs/errata.md.
        reference: Number of the table or figure in the paper.
        title: Subject of the table or figure.
        make: Computes the item.
    """

    name: str
    paper: str
    reference: str
    title: str
    make: Callable[[Progress], Sheet]


def _format_cell(value: Any) -> str:
    if value is None:
        return ""
    return repr(value) if isinstance(value, float) else str(value)


# --- The figure ---

CHARTS_PER_ROW = 2
WIDTH, HEIGHT, ROW_HEIGHT = 4.6, 3.1, 0.24


def draw_charts(panels: Sequence[Chart], title: str, path: Path) -> None:
    """Draws all charts, with one legend for their common lines."""
    from matplotlib.figure import Figure

    across = min(CHARTS_PER_ROW, len(panels))
    down = -(-len(panels) // across)
    tall = max(HEIGHT, 0.9 + ROW_HEIGHT * max(len(panel.rows) for panel in panels))
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    with plotting.figure_style():
        figure = Figure(figsize=(WIDTH * across, tall * down + 0.7), layout="constrained")
        grid = figure.subplots(down, across, squeeze=False).ravel()
        for axes, panel in zip(grid, panels, strict=False):
            _draw_chart(axes, panel, names)
        for axes in grid[len(panels) :]:
            axes.set_visible(False)
        figure.suptitle(title, fontsize=11)
        known = dict[str, Any]()
        for axes in grid[: len(panels)]:
            for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
                known.setdefault(name, handle)
        if len(known) > 1:
            figure.legend(list(known.values()), list(known), loc="outside lower center", ncols=min(4, len(known)))
        plotting.save_figure("reproduce", figure, path)


def _draw_chart(axes: Axes, panel: Chart, names: Sequence[str]) -> None:
    for name, points in panel.lines.items():
        if not points:
            continue
        xs, ys = zip(*points, strict=True)
        place = names.index(name)
        if panel.rows:
            axes.plot(xs, ys, "o", label=name, color=plotting.COLOURS[place % 7], markersize=7 - 1.4 * min(place, 3))
        elif name.startswith("attack"):
            axes.plot(xs, ys, "k:", label=name, linewidth=1.5)
        else:
            axes.plot(xs, ys, label=name, **plotting.line_style(place), linewidth=1.5)
    if panel.rows:
        axes.set_yticks(range(len(panel.rows)), panel.rows, fontsize=7)
        axes.invert_yaxis()
    for which in panel.log:
        plotting.set_log_axis(axes, which)
    axes.set(xlabel=panel.x_label, ylabel=panel.y_label)
    axes.set_title(panel.title, fontsize=9)
    axes.grid(visible=True, which="major")
