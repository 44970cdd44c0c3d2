"""Trade-off curves as a figure for a paper: type I against type II error, or power on two logarithmic axes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from shuffledp.privacy.trade_off import Floats, TradeOff

COLOURS = ("#0b3c5d", "#d1495b", "#edae49", "#3b8f6b", "#7b5ea7", "#8d6e53", "#4c9fc1")
STYLES = ("-", "--", "-.", (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5, 1, 1.5)), (0, (3, 2)), (0, (8, 2)))
"""Each curve has its own colour and its own dashes, so that the figure survives a grey printer."""
LEAST = 1e-6


def levels() -> Floats:
    """Type I errors at which to draw: close together near both ends."""
    small = np.geomspace(LEAST * 1e-3, 0.5, 400)
    return np.unique(np.concatenate([[0.0], small, 1.0 - small, [1.0]]))


def draw(curves: Mapping[str, TradeOff], path: Path, *, title: str = "", log: bool = False) -> None:
    """Write the figure; the file's ending says the format (png, pdf, svg)."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    look: dict[Any, Any] = {
        "font.size": 10,
        "axes.linewidth": 0.8,
        "mathtext.fontset": "dejavuserif",
        "svg.fonttype": "none",
    }
    with mpl.rc_context(look):
        figure = Figure(figsize=(5.2, 4.6), layout="constrained")
        axes = figure.subplots()
        x = levels()
        for place, (name, curve) in enumerate(curves.items()):
            style = STYLES[place % len(STYLES)]
            y = curve.tpr(x) if log else curve.fnr(x)
            # The first curve is a broad band on which the dashes of one that coincides with it still show.
            colour, width = COLOURS[place % len(COLOURS)], 2.6 if place == 0 else 1.4
            axes.plot(x, y, label=name, color=colour, linestyle=style, linewidth=width, zorder=3 + place)
        axes.plot(x, x if log else 1 - x, label="perfect privacy", color="0.55", linewidth=1.0, zorder=1)
        if log:
            axes.set(xscale="log", yscale="log", xlim=(LEAST, 1), ylim=(LEAST, 1))
            axes.set(xlabel="false-positive rate", ylabel="largest true-positive rate")
        else:
            axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="type I error (false-positive rate)")
            axes.set_ylabel("smallest type II error (false-negative rate)")
        axes.set_aspect("equal")
        axes.grid(visible=True, which="major", color="0.9", linewidth=0.6)
        axes.set_axisbelow(True)
        if title:
            axes.set_title(title, fontsize=10)
        axes.legend(fontsize=8, loc="lower right" if log else "upper right", framealpha=0.95, edgecolor="0.85")
        try:
            figure.savefig(path, dpi=300)
        except (OSError, ValueError) as error:
            raise ValueError(f"tradeoff: could not write the plot to {path}: {error}.") from None
