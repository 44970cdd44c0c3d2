"""How every figure looks, and where it may be written."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shuffledp.errors import ShuffledpError, installing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0b3c5d", "#d1495b", "#edae49", "#3b8f6b", "#7b5ea7", "#8d6e53", "#4c9fc1")
STYLES = ("-", "--", "-.", (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5, 1, 1.5)), (0, (3, 2)), (0, (8, 2)))
"""Each curve has its own colour and its own dashes, so that the figure survives a grey printer."""
LOOK: dict[Any, Any] = {
    "font.size": 10,
    "axes.linewidth": 0.8,
    "axes.axisbelow": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.6,
    "legend.fontsize": 8,
    "legend.edgecolor": "0.85",
    "legend.framealpha": 0.95,
    "mathtext.fontset": "dejavusans",
    "svg.fonttype": "none",
}
ENDINGS = (".png", ".pdf", ".svg")
DOTS_PER_INCH = 300
LEAST_RANGE, SHORT = 1.5, 200.0
"""How many times its least number a logarithmic axis reaches: at least, and where more than powers are labelled."""


def line_style(place: int) -> dict[str, Any]:
    """Colour and dashes of the curve at this place; the pair repeats only after the square of seven."""
    turn = place // len(COLOURS)
    return {"color": COLOURS[place % len(COLOURS)], "linestyle": STYLES[(place + turn) % len(STYLES)]}


def scientific(value: float) -> str:
    """A number as a paper prints it: 10⁻⁶, 2.5·10⁻⁶."""
    digits, exponent = f"{value:.3e}".split("e")
    factor = float(digits)
    power = f"10^{{{int(exponent)}}}"
    return f"${power}$" if factor == 1 else rf"${factor:g}\cdot{power}$"


def logarithmic(axes: Axes, which: str) -> None:
    """A logarithmic axis that is labelled by plain numbers where it is short, and is never shorter than a factor 1.5.

    Call it when everything is drawn.
    """
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    getattr(axes, f"set_{which}scale")("log")
    low, high = getattr(axes, f"get_{which}lim")()
    if high < LEAST_RANGE * low:
        middle = math.sqrt(low * high)
        low, high = middle / math.sqrt(LEAST_RANGE), middle * math.sqrt(LEAST_RANGE)
        getattr(axes, f"set_{which}lim")(low, high)
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_minor_formatter(NullFormatter())
    if high < SHORT * low:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=12) if high > 6 * low else MaxNLocator(5))
        axis.set_major_formatter(lambda value, _: f"{value:.4g}")


def demand_place(who: str, path: Path | None) -> None:
    """Refuse a figure that could not be written, before anything is computed."""
    if path is None:
        return
    if find_spec("matplotlib") is None:
        raise ValueError(f"{who}: --plot needs matplotlib; {installing('plot')}.")
    if path.suffix.lower() not in ENDINGS:
        raise ValueError(f"{who}: --plot must end in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}, got {str(path)!r}.")
    if path.is_dir():
        raise ValueError(f"{who}: could not write the plot to {path}: it is a directory.")
    if not path.parent.is_dir():
        raise ValueError(f"{who}: could not write the plot to {path}: there is no directory {path.parent}.")


def can_draw() -> bool:
    """Whether matplotlib is installed, which only figures need."""
    return find_spec("matplotlib") is not None


def demand_matplotlib() -> None:
    """Stop where it is not."""
    if not can_draw():
        raise ShuffledpError(f"plot: matplotlib is not installed; {installing('plot')}.")


@contextmanager
def look() -> Iterator[None]:
    """Draw and save inside of this."""
    demand_matplotlib()
    import matplotlib as mpl

    with mpl.rc_context(LOOK):
        yield


def save(who: str, figure: Figure, path: Path) -> None:
    """Write the figure; the file's ending says the format."""
    try:
        figure.savefig(path, dpi=DOTS_PER_INCH, bbox_inches="tight", pad_inches=0.05)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ValueError(f"{who}: could not write the plot to {path}: {reason.rstrip('.')}.") from None


def empty() -> tuple[Figure, Axes]:
    """A figure with one pair of axes."""
    demand_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.grid(visible=True, color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    return figure, axes
