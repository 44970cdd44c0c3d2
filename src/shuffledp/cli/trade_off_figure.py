"""Trade-off curves as a figure for a paper: type I against type II error, or power on two logarithmic axes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from shuffledp import figure as figures
from shuffledp.array import Floats
from shuffledp.tradeoff.trade_off import TradeOff

LEAST = 1e-6


def levels() -> Floats:
    """Type I errors at which to draw: close together near both ends."""
    small = np.geomspace(LEAST * 1e-3, 0.5, 400)
    return np.unique(np.concatenate([[0.0], small, 1.0 - small, [1.0]]))


def draw(curves: Mapping[str, TradeOff], path: Path, *, title: str = "", log: bool = False) -> None:
    """Write the figure; the file's ending says the format (png, pdf, svg)."""
    from matplotlib.figure import Figure

    with figures.look():
        figure = Figure(figsize=(5.2, 4.6), layout="constrained")
        axes = figure.subplots()
        x = levels()
        for place, (name, curve) in enumerate(curves.items()):
            y = curve.tpr(x) if log else curve.fnr(x)
            # The first curve is a broad band on which the dashes of one that coincides with it still show.
            width = 2.6 if place == 0 else 1.4
            axes.plot(x, y, label=name, linewidth=width, zorder=3 + place, **figures.line_style(place))
        axes.plot(x, x if log else 1 - x, label="perfect privacy", color="0.55", linewidth=1.0, zorder=1)
        if log:
            axes.set(xscale="log", yscale="log", xlim=(LEAST, 1), ylim=(LEAST, 1))
            axes.set(xlabel="false-positive rate", ylabel="largest true-positive rate")
        else:
            axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="type I error (false-positive rate)")
            axes.set_ylabel("smallest type II error (false-negative rate)")
        axes.set_aspect("equal")
        axes.grid(visible=True, which="major")
        if title:
            axes.set_title(title, fontsize=10)
        axes.legend(loc="lower right" if log else "upper right")
        figures.save("tradeoff", figure, path)
