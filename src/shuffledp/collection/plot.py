"""Estimates with their confidence intervals, as a picture."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from shuffledp import figure as figures
from shuffledp.tasks.quantity import Quantity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_BARS, LONGEST_LABEL, MOST_PANELS = 30, 40, 12
"""How many of the largest estimates are drawn, how much of their names, and how many quantities."""


def draw(quantities: Sequence[Quantity], path: Path | None, confidence: float) -> Figure:
    """One panel for each quantity; to a file where one is named."""
    figures.demand_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # A picture must stay one that can be drawn: of many quantities the first ones.
    quantities = quantities[:MOST_PANELS]
    longest = max(min(MOST_BARS, len(quantity.labels)) for quantity in quantities)
    figure = Figure(figsize=(7.0 * len(quantities), 1.5 + 0.24 * longest), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, quantity in zip(np.atleast_1d(figure.subplots(1, len(quantities))), quantities, strict=True):
        order = np.argsort(-quantity.value, kind="stable")[:MOST_BARS]
        values, places = quantity.value[order], np.arange(len(order))
        reach = None
        if quantity.low is not None and quantity.high is not None:
            reach = np.maximum(0.0, [values - quantity.low[order], quantity.high[order] - values])
        axes.errorbar(values, places, xerr=reach, fmt="o", markersize=4, capsize=2, color="#20639b")
        axes.set_yticks(places, [_shown(quantity.labels[place]) for place in order])
        axes.set_ylim(len(order) - 0.5, -0.5)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
        name = f"{_shown(quantity.question)}: {quantity.name}" if quantity.question else quantity.name
        axes.set_xlabel(name if reach is None else f"{name}, with {confidence:.0%} intervals")
        axes.grid(axis="x", alpha=0.3)
        if len(order) < len(quantity.labels):
            axes.set_title(f"largest {len(order)} of {len(quantity.labels)}")
    if path is not None:
        with warnings.catch_warnings():
            # Labels in scripts that the font does not have are boxes, and no reason to stop.
            warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
            figure.savefig(path, dpi=200)
    return figure


def _shown(label: str) -> str:
    """A label as plain text, cut where it would leave no room for the estimates."""
    short = label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "…"
    return short.replace("$", r"\$")
