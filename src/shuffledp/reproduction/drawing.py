"""The figure of a reproduced item: one pair of axes for each panel, at most three side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shuffledp import figure as figures
from shuffledp.reproduction.sheet import Chart

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ACROSS = 2
WIDTH, HEIGHT, ROW = 4.6, 3.1, 0.24


def draw(panels: Sequence[Chart], title: str, path: Path) -> None:
    """All panels, with one legend for the lines that they share."""
    from matplotlib.figure import Figure

    across = min(ACROSS, len(panels))
    down = -(-len(panels) // across)
    tall = max(HEIGHT, 0.9 + ROW * max(len(panel.rows) for panel in panels))
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    with figures.look():
        figure = Figure(figsize=(WIDTH * across, tall * down + 0.7), layout="constrained")
        grid = figure.subplots(down, across, squeeze=False).ravel()
        for axes, panel in zip(grid, panels, strict=False):
            _panel(axes, panel, names)
        for axes in grid[len(panels) :]:
            axes.set_visible(False)
        figure.suptitle(title, fontsize=11)
        known = dict[str, Any]()
        for axes in grid[: len(panels)]:
            for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
                known.setdefault(name, handle)
        if len(known) > 1:
            figure.legend(list(known.values()), list(known), loc="outside lower center", ncols=min(4, len(known)))
        figures.save("reproduce", figure, path)


def _panel(axes: Axes, panel: Chart, names: Sequence[str]) -> None:
    for name, points in panel.lines.items():
        if not points:
            continue
        xs, ys = zip(*points, strict=True)
        place = names.index(name)
        if panel.rows:
            axes.plot(xs, ys, "o", label=name, color=figures.COLOURS[place % 7], markersize=7 - 1.4 * min(place, 3))
        elif name.startswith("attack"):
            axes.plot(xs, ys, "k:", label=name, linewidth=1.5)
        else:
            axes.plot(xs, ys, label=name, **figures.line_style(place), linewidth=1.5)
    if panel.rows:
        axes.set_yticks(range(len(panel.rows)), panel.rows, fontsize=7)
        axes.invert_yaxis()
    for which in panel.log:
        figures.logarithmic(axes, which)
    axes.set(xlabel=panel.across, ylabel=panel.up)
    axes.set_title(panel.title, fontsize=9)
    axes.grid(visible=True, which="major")
