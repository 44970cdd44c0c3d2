"""Plots of estimates with their intervals: bars, dots, histograms, running counts, and cells of a map or a table.

Every panel shows its intervals, or notes below the plot that they are narrower than the marks they are drawn over;
large maps state the widest interval.
"""

from __future__ import annotations

import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from shuffledp._core import plotting
from shuffledp._core.formatting import escape_line
from shuffledp._core.plotting import COLOURS
from shuffledp._core.validation import Bools, Floats, Integers
from shuffledp.collection.estimate_tables import EstimateOptions, decimals
from shuffledp.tasks.base import BINS, CELLS, COORDINATES, COUNTS, RUNNING, Quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# --- Labels in any script ---


BASE_FONT = "DejaVu Sans"
MAX_LABEL_LENGTH = 40
"""Largest number of characters of a label."""
UNUSABLE_FONT_PREFIXES = ("LastResort", "Last Resort", ".")
"""Prefixes of the names of fonts that have a box for every character, or are not for use."""
SPELLED_NOTE = "Letters that no installed font has are spelled out; the tables have the letters themselves."
NORMAL_FONT_WEIGHTS = (400, "normal", "regular", "book")
IDEOGRAPH_PREFIXES = ("CJK ", "TANGUT ", "NUSHU ", "KHITAN ")
"""Scripts whose letters have numbers for names."""


@dataclass(frozen=True)
class FontSelection:
    """The fonts for some texts, and the way each text is written in them."""

    families: tuple[str, ...]
    drawable: frozenset[str]
    """Letters that one of the fonts has."""
    has_spelled_letters: bool
    """True if some letters are in none of the fonts."""

    @classmethod
    def from_texts(cls, texts: Iterable[str]) -> FontSelection:
        """Finds fonts of this machine for all letters of these texts, as far as there are any."""
        wanted = {letter for text in texts for letter in text if letter.isprintable()}
        chosen, missing = [BASE_FONT], wanted - _read_letters(BASE_FONT)
        for family in _find_fonts() if missing else ():
            found = missing & _read_letters(family)
            if found:
                chosen.append(family)
                missing -= found
            if not missing:
                break
        visible = {letter for letter in missing if not _is_silent(letter)}
        return cls(tuple(chosen), frozenset(wanted - missing), bool(visible))

    def format_label(self, text: str, longest: int = MAX_LABEL_LENGTH) -> str:
        """Returns a text in letters that can be drawn, shortened to leave room for the estimates."""
        written = "".join(self._spell_missing(escape_line(text))).strip()
        short = written if len(written) <= longest else written[: longest - 1] + "…"
        return short.replace("$", r"\$")

    def _spell_missing(self, text: str) -> list[str]:
        parts: list[str] = []
        for letter in text:
            if letter in self.drawable or letter.isascii():
                parts.append(letter)
            elif not _is_silent(letter):
                _spell(letter, parts)
            elif parts and _drops_vowel(letter):
                parts[-1] = parts[-1].removesuffix("a")
        return parts


def _spell(letter: str, parts: list[str]) -> None:
    """Appends the sound of a letter according to its name, or its name, or its number."""
    name = unicodedata.name(letter, "")
    sound = name.split(" WITH ")[0].split(" ")[-1].lower()
    if not name or name.startswith(IDEOGRAPH_PREFIXES):
        between = " " if parts and parts[-1].lstrip().startswith("U+") else ""
        parts.append(f"{between}U+{ord(letter):04X}")
    elif " VOWEL SIGN " in name:
        # A consonant is read with an inherent a, which the sign replaces.
        if parts:
            parts[-1] = parts[-1].removesuffix("a")
        parts.append(sound)
    elif " LETTER " in name or " SYLLABLE " in name:
        parts.append(sound)
    elif " DIGIT " in name:
        parts.append(str(unicodedata.digit(letter, 0)))
    else:
        parts.append(f"[{name.lower()}]")


def _drops_vowel(letter: str) -> bool:
    return "VIRAMA" in unicodedata.name(letter, "")


def _is_silent(letter: str) -> bool:
    """Returns True for marks and joiners without a sound of their own; vowel signs have one."""
    if " VOWEL SIGN " in unicodedata.name(letter, ""):
        return False
    return unicodedata.category(letter) in ("Cf", "Mn", "Me", "Zs")


@cache
def _read_letters(family: str) -> frozenset[str]:
    """Returns the letters of a font; none if it cannot be used for drawing."""
    from matplotlib import font_manager

    try:
        font = font_manager.get_font(_find_fonts()[family])
        return frozenset(map(chr, font.get_charmap())) if font.scalable else frozenset()
    except (KeyError, RuntimeError, OSError):
        return frozenset()


@cache
def _find_fonts() -> dict[str, str]:
    """Returns the files of the upright fonts of normal weight on this machine, by name."""
    from matplotlib import font_manager

    fonts = [one for one in font_manager.fontManager.ttflist if not one.name.startswith(UNUSABLE_FONT_PREFIXES)]
    usual = [
        one for one in fonts if (one.style, one.stretch) == ("normal", "normal") and one.weight in NORMAL_FONT_WEIGHTS
    ]
    return {one.name: one.fname for one in sorted(usual, key=lambda one: one.name)}


MAX_BARS, MAX_STEPS, MAX_INSPECTED_LABELS = 30, 60, 4096
"""Limits: largest estimates drawn as bars, values drawn in their order, and labels inspected for their letters."""
MAX_WIDE_LINE_VALUES = 200
"""Largest number of values for a line of normal width."""
BAR_HEIGHT, DOT_SIZE, LINE_WIDTH = 0.25, 5.0, 1.4
"""Height of a bar in inches; sizes of a dot and a line in points."""
LINE_COLOUR, FILL_COLOUR, ADJUSTED_COLOUR = COLOURS[0], "#a9c3d6", COLOURS[1]
NARROW_DOT, NARROW_LINE = "narrower than the dots", "narrower than the lines"


class Panel(ABC):
    """One quantity in one pair of axes."""

    height = 2.9
    narrow_note = NARROW_LINE
    """The marks that may hide intervals; ``mark_size`` is their size in points."""
    mark_size = LINE_WIDTH

    def __init__(self, quantity: Quantity, fonts: FontSelection, confidence_text: str) -> None:
        self.quantity, self.fonts, self.confidence_text = quantity, fonts, confidence_text
        self.order: Integers = self._select_order()

    def _select_order(self) -> Integers:
        """Returns the indices of the labels to draw, in order; by default all of them."""
        return np.arange(len(self.quantity.labels))

    def set_axes(self, axes: Axes) -> None:
        """Assigns the axes of this panel."""
        self.axes = axes

    @abstractmethod
    def draw(self) -> None:
        """Draws into the axes."""

    def notes(self) -> Iterator[str]:
        """Yields the notes for below the plot, once everything is in its place."""
        wide = self._interval_widths()
        if not len(wide):
            return
        hidden = wide < self.mark_size
        if hidden.any():
            yield f"{'The' if hidden.all() else 'Some'} {self.confidence_text} intervals are {self.narrow_note}."

    # --- Shared by all panels ---

    @property
    def intervals(self) -> tuple[Floats, Floats] | None:
        """Lower and upper ends of the intervals drawn; None if there are none."""
        low, high = self.quantity.low, self.quantity.high
        return None if low is None or high is None else (low[self.order], high[self.order])

    @property
    def values(self) -> Floats:
        return self.quantity.value[self.order]

    @property
    def adjusted(self) -> Floats | None:
        """The adjusted values of the labels drawn."""
        return None if self.quantity.adjusted is None else self.quantity.adjusted[self.order]

    @property
    def error_bars(self) -> Floats | None:
        """Distances from the values to the lower and upper ends of their intervals."""
        if self.intervals is None:
            return None
        low, high = self.intervals
        return np.maximum(0.0, [self.values - low, high - self.values])

    def _interval_widths(self) -> Floats:
        """Returns the width of each interval as drawn, in points."""
        if self.intervals is None:
            return np.zeros(0)
        low, high = (self._to_points(ends) for ends in self.intervals)
        found = np.asarray(high - low)
        return found[np.isfinite(found)]

    value_axis = 0
    """The axis that values are drawn along: 0 for x, 1 for y."""

    def _to_points(self, values: Floats) -> Floats:
        """Returns the positions of values along their axis, in points."""
        places = np.zeros((len(values), 2))
        places[:, self.value_axis] = values
        figure = self.axes.get_figure()
        assert figure is not None, "axes stand in a figure"
        return np.asarray(self.axes.transData.transform(places)[:, self.value_axis] * 72 / figure.dpi)

    def _value_label(self) -> str:
        """Returns the axis label of the values."""
        name = self.quantity.name
        return name if self.intervals is None else f"{name}, with {self.confidence_text} intervals"

    def _set_title(self) -> None:
        """Sets the title: the question, and the share of its labels that is drawn."""
        left = len(self.quantity.labels) - len(self.order)
        more = f"largest {len(self.order):,} of {len(self.quantity.labels):,}" if left else ""
        parts = [self.fonts.format_label(self.quantity.question), more]
        self.axes.set_title(": ".join(filter(None, parts)), loc="left", fontsize=9.5, color="0.25")

    def _simplify_axes(self, grid: str) -> None:
        """Keeps only the lines that help to read values."""
        for side in ("top", "right"):
            self.axes.spines[side].set_visible(False)
        self.axes.grid(axis=grid)  # type: ignore[arg-type]
        (self.axes.xaxis if grid == "x" else self.axes.yaxis).set_major_formatter(format_number)

    def _set_ticks(self, labels: Sequence[str], places: Floats) -> None:
        """Sets as many labels along x as fit beside each other."""
        longest = max(map(len, labels), default=1)
        room = max(2, int(75 / (longest + 2)))
        least = -(-len(labels) // room)
        # For numbers, every tenth or fifth is easier to read than every seventh.
        step = next(one for one in _round_steps() if one >= least) if labels[0].isdecimal() else least
        self.axes.set_xticks(places[::step], list(labels)[::step])


class DotPanel(Panel):
    """A dot with its interval for each label, from the top: means, and coordinates in their order."""

    narrow_note, mark_size = NARROW_DOT, DOT_SIZE

    def __init__(self, quantity: Quantity, fonts: FontSelection, confidence_text: str) -> None:
        super().__init__(quantity, fonts, confidence_text)
        self.height = 0.75 + BAR_HEIGHT * max(1, len(self.order))

    def _select_order(self) -> Integers:
        value = self.quantity.value
        if self.quantity.shape.ordered:
            return np.arange(len(value))[:MAX_BARS]
        return np.argsort(np.where(np.isnan(value), np.inf, -value), kind="stable")[:MAX_BARS]

    def is_beside(self, other: DotPanel) -> bool:
        """Returns True if the other panel has the same labels and question."""
        mine, its = self.quantity, other.quantity
        return (mine.labels, mine.question) == (its.labels, its.question)

    def draw(self) -> None:
        places = np.arange(len(self.order))
        scaled = self._is_scaled()
        self._draw_marks(places, scaled)
        labels = [self.fonts.format_label(self.quantity.labels[place]) for place in self.order]
        self.axes.set_yticks(places, labels)
        self.axes.set_ylim(len(places) - 0.5, -0.5)
        self.axes.tick_params(axis="y", length=0)
        self._simplify_axes("x")
        if scaled:
            self._label_values(places)
        else:
            self.axes.set_xlabel(self._value_label())
        self._set_title()
        if len(places) == 1 and np.isfinite(self.values[0]):
            self.axes.set_title(self._format_value(0), loc="right", fontsize=9.5, color="0.25")

    def _is_scaled(self) -> bool:
        """Returns True if the ranges of coordinates differ so much that each is drawn relative to its own range."""
        shape = self.quantity.shape
        widths = np.subtract(shape.most, shape.least)
        return shape.kind == COORDINATES and widths.ndim > 0 and bool(widths.max() > 3 * widths.min())

    def _to_shares(self, values: Floats) -> Floats:
        """Returns values as shares of each coordinate's own range."""
        low, high = np.asarray(self.quantity.shape.least), np.asarray(self.quantity.shape.most)
        return np.asarray((values - low[self.order]) / (high - low)[self.order])

    def _draw_marks(self, places: Integers, scaled: bool) -> None:
        move = self._to_shares if scaled else np.asarray
        reach = None if self.intervals is None else np.abs([move(ends) - move(self.values) for ends in self.intervals])
        self.axes.errorbar(
            move(self.values),
            places,
            xerr=reach,
            fmt="o",
            markersize=DOT_SIZE,
            capsize=2.5,
            elinewidth=LINE_WIDTH,
            color=LINE_COLOUR,
        )
        if self.adjusted is not None:
            self.axes.plot(
                move(self.adjusted), places, "D", markersize=6, markerfacecolor="none", color=ADJUSTED_COLOUR
            )
        if scaled:
            self.axes.set_xlim(0, 1)

    def _to_points(self, values: Floats) -> Floats:
        return super()._to_points(self._to_shares(values) if self._is_scaled() else values)

    def _label_values(self, places: Integers) -> None:
        """Writes the values in their own units to the right."""
        self.axes.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
        self.axes.set_xlabel(f"{self._value_label()}, as shares of each coordinate's own range")
        right = self.axes.twinx()
        right.set_ylim(self.axes.get_ylim())
        right.set_yticks(places, [self._format_value(place) for place in range(len(places))])
        right.tick_params(axis="y", length=0, labelsize=9)
        for side in right.spines.values():
            side.set_visible(False)

    def _format_value(self, place: int) -> str:
        """Formats a value and its interval, all with as many decimal places as the interval justifies."""
        value, ends = float(self.values[place]), self.intervals
        if ends is None:
            return format_number(float(f"{value:.5g}"))
        low, high = (float(one[place]) for one in ends)
        places = decimals((high - low) / 2)
        texts = [f"{one:,.{places}f}".replace("-", "−") for one in (value, low, high)]
        return f"{texts[0]}  ({texts[1]} … {texts[2]})"

    def notes(self) -> Iterator[str]:
        yield from super().notes()
        hidden = int(np.isnan(self.values).sum())
        if hidden:
            labels = f"{hidden:,} label{'s' if hidden > 1 else ''}"
            yield f"No {self.quantity.name} is shown for {labels}: their counts are not above their errors."


class BarPanel(DotPanel):
    """A bar from zero for each label."""

    narrow_note, mark_size = NARROW_LINE, 2 * LINE_WIDTH

    def _draw_marks(self, places: Integers, scaled: bool) -> None:
        del scaled
        self.axes.barh(places, self.values, height=0.68, color=FILL_COLOUR)
        if self.error_bars is not None:
            self.axes.errorbar(
                self.values,
                places,
                xerr=self.error_bars,
                fmt="none",
                capsize=2.5,
                elinewidth=LINE_WIDTH,
                color=LINE_COLOUR,
            )
        if self.adjusted is not None:
            self.axes.plot(self.adjusted, places, "D", markersize=6, markerfacecolor="none", color=ADJUSTED_COLOUR)
        self.axes.axvline(0.0, color="0.35", linewidth=0.8)


class HistogramPanel(Panel):
    """Bars from zero in the order of the values: a histogram."""

    mark_size, value_axis = 2 * LINE_WIDTH, 1

    def _select_order(self) -> Integers:
        """Returns the finest level of a tree that can be drawn; if none can, the coarsest."""
        levels = (*self.quantity.shape.levels, len(self.quantity.labels))
        if len(levels) == 1:
            return np.arange(len(self.quantity.labels))
        sizes = np.diff(levels)
        good = np.flatnonzero(sizes <= MAX_STEPS)
        level = int(good[-1]) if len(good) else 0
        return np.arange(levels[level], levels[level + 1])

    def draw(self) -> None:
        places = np.arange(len(self.order), dtype=np.float64) + 0.5
        if len(places) <= MAX_STEPS:
            self.axes.bar(places, self.values, width=0.86, color=FILL_COLOUR)
            if self.error_bars is not None:
                cap = 2.5 if len(places) <= MAX_BARS else 1.5
                self.axes.errorbar(
                    places,
                    self.values,
                    yerr=self.error_bars,
                    fmt="none",
                    capsize=cap,
                    elinewidth=LINE_WIDTH,
                    color=LINE_COLOUR,
                )
        else:
            _draw_band(self, places)
        if self.adjusted is not None:
            self.axes.plot(places, self.adjusted, "D", markersize=4, markerfacecolor="none", color=ADJUSTED_COLOUR)
        self.axes.axhline(0.0, color="0.35", linewidth=0.8)
        self.axes.set_xlim(0, len(places))
        # A bin is labelled by its beginning: the next label says where it ends.
        begins = [self.quantity.labels[place].split(" … ")[0] for place in self.order]
        several = " … " in self.quantity.labels[self.order[0]]
        self._set_ticks([self.fonts.format_label(label) for label in begins], places - 0.5 if several else places)
        self._simplify_axes("y")
        self.axes.set_ylabel(self._value_label().replace(", ", ",\n"))
        self._set_title()

    def _set_title(self) -> None:
        first = self.quantity.labels[self.order[0]]
        bins = f"{len(self.order):,} bins, the first {first.replace(' … ', ' to ')}" if " … " in first else ""
        parts = [self.quantity.question, bins]
        self.axes.set_title(
            ": ".join(self.fonts.format_label(one) for one in parts if one), loc="left", fontsize=9.5, color="0.25"
        )


class BandPanel(Panel):
    """A line with a band of intervals: running counts, and many coordinates in their order."""

    value_axis = 1

    def draw(self) -> None:
        places = np.arange(len(self.order), dtype=np.float64) + 0.5
        _draw_band(self, places)
        if self.adjusted is not None:
            self.axes.plot(
                places, self.adjusted, linestyle="--", linewidth=LINE_WIDTH, color=ADJUSTED_COLOUR, label="adjusted"
            )
        if self.quantity.shape.kind == RUNNING:
            self._add_share_axis()
        if self.quantity.shape.kind in (COUNTS, RUNNING):
            self.axes.axhline(0.0, color="0.35", linewidth=0.8)
        self.axes.set_xlim(0, len(places))
        self._set_ticks([self.fonts.format_label(self.quantity.labels[place]) for place in self.order], places)
        self._simplify_axes("y")
        self.axes.set_ylabel(self._value_label().replace(", ", ",\n"))
        self._set_title()

    def _add_share_axis(self) -> None:
        """Adds an axis with shares of all users to the right, for reading quantiles."""
        users = float(np.max(self.quantity.shape.most))
        ends = (lambda count: np.asarray(count) / users, lambda share: np.asarray(share) * users)
        right = self.axes.secondary_yaxis("right", functions=ends)
        right.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
        right.spines["right"].set_visible(False)


def _draw_band(panel: Panel, places: Floats) -> None:
    if panel.intervals is not None:
        panel.axes.fill_between(places, *panel.intervals, color=FILL_COLOUR, alpha=0.75, linewidth=0)
    # With very many noisy values, a line of normal width would be one dark area.
    panel.axes.plot(
        places,
        panel.values,
        color=LINE_COLOUR,
        linewidth=LINE_WIDTH if len(places) <= MAX_WIDE_LINE_VALUES else LINE_WIDTH / 3,
    )


def format_number(value: float, place: float | None = None) -> str:
    """Formats a number for an axis."""
    del place
    return f"{value:,.10g}".replace("-", "−")


def _round_steps() -> Iterator[int]:
    """Yields 1, 2, 5, 10, 20, 50, … in this order."""
    return (digit * 10**power for power in range(20) for digit in (1, 2, 5))


# --- Cells of a map or of a table of two columns ---


MAX_SHARE_FOR_DARK_TEXT = 0.65
"""Up to this share of the largest count, dark letters have more contrast on a cell's colour than white ones."""


class CellPanel(Panel):
    """Cells of a map, or of a table of two columns, coloured by their counts."""

    MAX_ANNOTATED_CELLS = 80
    """Largest number of cells for which counts and intervals are written inside."""

    def __init__(self, quantity: Quantity, fonts: FontSelection, confidence_text: str) -> None:
        super().__init__(quantity, fonts, confidence_text)
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
        bar = figure.colorbar(drawn, ax=self.axes, shrink=0.9, pad=0.02, format=format_number)
        bar.outline.set_visible(False)
        bar.ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        bar.set_label(self.quantity.name)
        self._set_axis_labels(grid)
        if self._table.size <= self.MAX_ANNOTATED_CELLS:
            self._annotate_cells(top)
        self._set_title()

    def _aspect(self) -> float | Literal["auto"]:
        """Returns the aspect ratio that gives cells their shape on the ground."""
        grid = self.quantity.shape.grid
        if grid is None:
            return "auto"
        width, height = grid.size
        return (height / (grid.north - grid.south)) / (width / (grid.east - grid.west))

    def _set_axis_labels(self, grid: Any) -> None:
        if grid is not None:
            degrees = grid.coordinates == "degrees"
            self.axes.set_xlabel("longitude" if degrees else "x")
            self.axes.set_ylabel("latitude" if degrees else "y")
            return
        pairs = [label.split(" × ", 1) for label in self.quantity.labels]
        firsts = [pairs[row * self.columns][0] for row in range(self.rows)]
        self.axes.set_yticks(np.arange(self.rows), [self.fonts.format_label(label) for label in firsts])
        seconds = [self.fonts.format_label(pair[-1]) for pair in pairs[: self.columns]]
        self._set_ticks(seconds, np.arange(self.columns, dtype=float))

    def _cell_centres(self) -> Floats:
        """Returns the position of the middle of each cell."""
        grid = self.quantity.shape.grid
        if grid is not None:
            return grid.centres[:, grid.coordinate_order]
        rows, columns = np.divmod(np.arange(self._table.size), self.columns)
        return np.stack([columns, rows], axis=1).astype(float)

    def _annotate_cells(self, top: float) -> None:
        """Writes count and interval into each cell, in letters that are legible on its colour."""
        half_widths = self._half_widths()
        for place, (x, y) in enumerate(self._cell_centres()):
            value = self.quantity.value[place]
            text = format_number(round(value)) + ("" if half_widths is None else f"\n±{half_widths[place]:,.0f}")
            adjusted = (
                "" if self.quantity.adjusted is None else f"\n◇ {format_number(round(self.quantity.adjusted[place]))}"
            )
            colour = "white" if value > MAX_SHARE_FOR_DARK_TEXT * top else "0.2"
            self.axes.text(x, y, text + adjusted, ha="center", va="center", fontsize=7, color=colour, linespacing=1.15)

    def _half_widths(self) -> Floats | None:
        return None if self.error_bars is None else self.error_bars.max(axis=0)

    def _may_be_empty(self) -> Bools:
        return np.zeros(0, bool) if self.intervals is None else np.asarray(self.intervals[0] <= 0.0)

    def notes(self) -> Iterator[str]:
        half_widths = self._half_widths()
        if half_widths is None:
            return
        if self._table.size <= self.MAX_ANNOTATED_CELLS:
            yield f"±: the {self.confidence_text} interval of each cell."
        else:
            yield f"The {self.confidence_text} interval of each cell is its count ± at most {half_widths.max():,.0f}."
        empty = int(self._may_be_empty().sum())
        if empty:
            head = f"{self.fonts.format_label(self.quantity.question)}: " if self.quantity.question else ""
            yield f"{head}{empty:,} of {self._table.size:,} cells may be empty: their intervals hold 0."


# --- The figure ---


MAX_PANELS = 12
"""Largest number of panels, so that the figure can be drawn; the first quantities are shown."""
SINGLE_WIDTH, DOUBLE_WIDTH, CAPTION_HEIGHT, MARGIN = 6.8, 11.0, 0.95, 0.09
"""Widths, space for the caption, and margin, in inches."""
DOTS_PER_INCH = 200
MAX_CAPTION_LENGTH = 72
"""Largest number of characters of a caption."""


def draw_figure(
    quantities: Sequence[Quantity], path: Path | None, estimate_options: EstimateOptions, caption: str
) -> Figure:
    """Draws one panel per quantity, with a caption above and notes below; writes it to ``path`` if that is given."""
    plotting.require_matplotlib()
    import matplotlib as mpl

    shown = list(quantities[:MAX_PANELS])
    texts = [text for one in shown for text in (*one.labels[:MAX_INSPECTED_LABELS], one.question)]
    fonts = FontSelection.from_texts([*texts, caption])
    with plotting.figure_style(), mpl.rc_context({"font.family": list(fonts.families)}):
        layout = _FigureLayout.from_quantities(shown, fonts, estimate_options, caption)
        layout.draw(len(quantities) - len(shown))
        if path is not None:
            layout.figure.savefig(path, dpi=DOTS_PER_INCH)
    return layout.figure


@dataclass(frozen=True)
class _FigureLayout:
    figure: Figure
    panels: list[list[Panel]]
    """Rows of panels."""
    fonts: FontSelection
    estimate_options: EstimateOptions

    @classmethod
    def from_quantities(
        cls, quantities: Sequence[Quantity], fonts: FontSelection, estimate_options: EstimateOptions, caption: str
    ) -> _FigureLayout:
        """Lays out the empty panels."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine

        rows = list(_arrange_rows(list(build_panels(quantities, fonts, estimate_options.confidence_text))))
        wide = max(map(len, rows))
        heights = [max(one.height for one in row) for row in rows]
        size = (SINGLE_WIDTH if wide == 1 else DOUBLE_WIDTH, CAPTION_HEIGHT + sum(heights))
        figure = Figure(
            figsize=size, layout=ConstrainedLayoutEngine(w_pad=MARGIN, h_pad=MARGIN, wspace=0.03, hspace=0.03)
        )
        FigureCanvasAgg(figure)
        title, _, facts = caption.partition("\n")
        figure.suptitle(
            f"{fonts.format_label(title, MAX_CAPTION_LENGTH)}\n{facts}",
            x=0.012,
            ha="left",
            fontsize=11,
            linespacing=1.4,
            color="0.15",
        )
        grid = figure.add_gridspec(len(rows), wide, height_ratios=heights)
        for place, row in enumerate(rows):
            for column, one in enumerate(row):
                across = slice(column, wide) if column == len(row) - 1 and len(row) < wide else column
                one.set_axes(figure.add_subplot(grid[place, across]))
        return cls(figure, rows, fonts, estimate_options)

    def draw(self, left_out: int) -> None:
        """Draws every panel, and then the notes, which depend on the layout."""
        every = [one for row in self.panels for one in row]
        for one in every:
            one.draw()
        self.figure.canvas.draw()
        notes = list(dict.fromkeys(note for one in every for note in one.notes()))
        if self.estimate_options.post is not None and any(one.quantity.adjusted is not None for one in every):
            description = f"adjusted ({self.estimate_options.post}), post-processing without intervals of its own"
            dashes = [isinstance(one, BandPanel) for one in every if one.quantity.adjusted is not None]
            marks = "Dashes" if all(dashes) else "Diamonds and dashes" if any(dashes) else "Diamonds"
            notes.append(f"{marks}: {description}.")
        if left_out:
            notes.append(f"{left_out:,} more quantities are in the tables.")
        if self.fonts.has_spelled_letters:
            notes.append(SPELLED_NOTE)
        if notes:
            self.figure.supxlabel("\n".join(notes), x=0.012, ha="left", fontsize=8, color="0.4")


def _arrange_rows(every: Sequence[Panel]) -> Iterator[list[Panel]]:
    """Yields rows of panels: two side by side, but histograms and their running counts below each other."""
    for _, group in groupby(every, key=lambda one: one.quantity.shape.kind in (BINS, RUNNING)):
        own = list(group)
        step = 1 if own[0].quantity.shape.kind in (BINS, RUNNING) or len(own) == 1 else 2
        yield from (own[start : start + step] for start in range(0, len(own), step))


def build_panels(quantities: Sequence[Quantity], fonts: FontSelection, confidence_text: str) -> Iterator[Panel]:
    """Yields the suitable panel for each quantity; means of keys are in the order of their counts."""
    previous: DotPanel | None = None
    for quantity in quantities:
        panel = _choose_panel(quantity)(quantity, fonts, confidence_text)
        if isinstance(panel, DotPanel):
            if previous is not None and previous.is_beside(panel):
                panel.order = previous.order
            previous = panel
        yield panel


def _choose_panel(quantity: Quantity) -> type[Panel]:
    shape = quantity.shape
    if shape.kind == CELLS or shape.sizes is not None:
        return CellPanel
    if shape.kind == BINS:
        return HistogramPanel
    if shape.kind == RUNNING or (shape.kind == COORDINATES and len(quantity.labels) > MAX_BARS):
        return BandPanel
    if shape.kind == COUNTS and shape.ordered and len(quantity.labels) > 2:
        return HistogramPanel if len(quantity.labels) <= MAX_STEPS else BandPanel
    return BarPanel if shape.kind == COUNTS else DotPanel
