"""The common style of all figures, and the checks before one is drawn or written."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shuffledp._core.errors import InvalidArgument, ShuffledpError, install_hint
from shuffledp._core.message_phrases import Argument

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0b3c5d", "#d1495b", "#edae49", "#3b8f6b", "#7b5ea7", "#8d6e53", "#4c9fc1")
DASH_STYLES = ("-", "--", "-.", (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5, 1, 1.5)), (0, (3, 2)), (0, (8, 2)))
"""Each curve has its own colour and its own dashes, so that the figure is readable in black and white."""
MATPLOTLIB_STYLE: dict[Any, Any] = {
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
FIGURE_SUFFIXES = (".png", ".pdf", ".svg")
DOTS_PER_INCH = 300
MIN_AXIS_RATIO, SHORT_AXIS_RATIO = 1.5, 200.0
"""Smallest ratio of a logarithmic axis's ends, and the ratio below which it is labelled with plain numbers."""


def line_style(place: int) -> dict[str, Any]:
    """Returns colour and dashes of the curve at this place; a pair repeats only after 7² curves."""
    turn = place // len(COLOURS)
    return {"color": COLOURS[place % len(COLOURS)], "linestyle": DASH_STYLES[(place + turn) % len(DASH_STYLES)]}


def format_scientific(value: float) -> str:
    """Returns a number in scientific notation as TeX: 10⁻⁶, 2.5·10⁻⁶."""
    digits, exponent = f"{value:.3e}".split("e")
    factor = float(digits)
    power = f"10^{{{int(exponent)}}}"
    return f"${power}$" if factor == 1 else rf"${factor:g}\cdot{power}$"


def set_log_axis(axes: Axes, which: str) -> None:
    """Makes an axis logarithmic, spanning at least a factor of 1.5; a short axis is labelled with plain numbers.

    Call it after everything is drawn.
    """
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    getattr(axes, f"set_{which}scale")("log")
    low, high = getattr(axes, f"get_{which}lim")()
    if high < MIN_AXIS_RATIO * low:
        middle = math.sqrt(low * high)
        low, high = middle / math.sqrt(MIN_AXIS_RATIO), middle * math.sqrt(MIN_AXIS_RATIO)
        getattr(axes, f"set_{which}lim")(low, high)
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_minor_formatter(NullFormatter())
    if high < SHORT_AXIS_RATIO * low:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=12) if high > 6 * low else MaxNLocator(5))
        axis.set_major_formatter(lambda value, _: f"{value:.4g}")


PLOT_PATH = Argument("path", command_line="--plot")


def check_plot_path(who: str, path: Path | None) -> None:
    """Raises ValueError if a figure could not be written to ``path``; call it before anything is computed."""
    if path is None:
        return
    if find_spec("matplotlib") is None:
        raise InvalidArgument(who, "needs matplotlib", hint=install_hint("plot"), parameter=PLOT_PATH)
    if path.suffix.lower() not in FIGURE_SUFFIXES:
        expected = f"must end in {', '.join(FIGURE_SUFFIXES[:-1])} or {FIGURE_SUFFIXES[-1]}"
        raise InvalidArgument(who, expected, got=repr(str(path)), parameter=PLOT_PATH)
    if path.is_dir():
        raise ValueError(f"{who}: could not write the plot to {path}: it is a directory.")
    if not path.parent.is_dir():
        raise ValueError(f"{who}: could not write the plot to {path}: there is no directory {path.parent}.")


def has_matplotlib() -> bool:
    """Returns True if matplotlib is installed."""
    return find_spec("matplotlib") is not None


def require_matplotlib() -> None:
    """Raises ShuffledpError if matplotlib is not installed."""
    if not has_matplotlib():
        raise ShuffledpError(f"plot: matplotlib is not installed; {install_hint('plot')}.")


@contextmanager
def figure_style() -> Iterator[None]:
    """Sets the common style while figures are drawn and saved."""
    require_matplotlib()
    import matplotlib as mpl

    with mpl.rc_context(MATPLOTLIB_STYLE):
        yield


def save_figure(who: str, figure: Figure, path: Path) -> None:
    """Writes the figure in the format of the file's ending."""
    try:
        figure.savefig(path, dpi=DOTS_PER_INCH, bbox_inches="tight", pad_inches=0.05)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ValueError(f"{who}: could not write the plot to {path}: {reason.rstrip('.')}.") from None


def create_figure() -> tuple[Figure, Axes]:
    """Returns a figure with one pair of axes."""
    require_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.grid(visible=True, color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    return figure, axes
