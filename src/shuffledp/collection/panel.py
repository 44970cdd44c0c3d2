"""One quantity drawn along an axis: bars from zero for counts, dots for numbers, histograms, running counts.

Every panel shows its intervals, or says below the picture that they are narrower than what they would be drawn over.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from shuffledp.array import Floats, Integers
from shuffledp.collection.estimate_text import decimals
from shuffledp.collection.lettering import Lettering
from shuffledp.figure import COLOURS
from shuffledp.tasks.quantity import Quantity
from shuffledp.tasks.shape import COORDINATES, COUNTS, RUNNING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_BARS, MOST_STEPS, MOST_LETTERED = 30, 60, 4096
"""How many of the largest estimates are drawn as bars, how many in their order, and how many labels are looked at."""
MOST_WIDE = 200
"""How many values a line of usual width goes through."""
ROW, DOT, LINE = 0.25, 5.0, 1.4
"""A bar's height in inches; a dot and a line in points."""
DARK, FILL, AFTER = COLOURS[0], "#a9c3d6", COLOURS[1]
NARROW_DOT, NARROW_LINE = "narrower than the dots", "narrower than the lines"


class Panel(ABC):
    """One quantity in one pair of axes."""

    height = 2.9
    narrow = NARROW_LINE
    """What intervals may be hidden behind, and how wide that is in points."""
    hides = LINE

    def __init__(self, quantity: Quantity, letters: Lettering, sure: str) -> None:
        self.quantity, self.letters, self.sure = quantity, letters, sure
        self.order: Integers = self._ordered()

    def _ordered(self) -> Integers:
        """The labels that are drawn, in this order: all as they are."""
        return np.arange(len(self.quantity.labels))

    def stand(self, axes: Axes) -> None:
        """Take these axes."""
        self.axes = axes

    @abstractmethod
    def draw(self) -> None:
        """Into the axes."""

    def notes(self) -> Iterator[str]:
        """What must be said below the picture, once all is in its place."""
        wide = self._widths()
        if not len(wide):
            return
        hidden = wide < self.hides
        if hidden.any():
            yield f"{'The' if hidden.all() else 'Some'} {self.sure} intervals are {self.narrow}."

    # --- what panels share ------------------------------------------------------------------------------------

    @property
    def intervals(self) -> tuple[Floats, Floats] | None:
        """Low and high of what is drawn, where there are intervals."""
        low, high = self.quantity.low, self.quantity.high
        return None if low is None or high is None else (low[self.order], high[self.order])

    @property
    def values(self) -> Floats:
        return self.quantity.value[self.order]

    @property
    def after(self) -> Floats | None:
        """The adjusted values of what is drawn."""
        return None if self.quantity.adjusted is None else self.quantity.adjusted[self.order]

    @property
    def reach(self) -> Floats | None:
        """How far the intervals reach below and above the values."""
        if self.intervals is None:
            return None
        low, high = self.intervals
        return np.maximum(0.0, [self.values - low, high - self.values])

    def _widths(self) -> Floats:
        """How wide each interval is drawn, in points."""
        if self.intervals is None:
            return np.zeros(0)
        low, high = (self._points(ends) for ends in self.intervals)
        found = np.asarray(high - low)
        return found[np.isfinite(found)]

    along = 0
    """The axis that values are drawn along: 0 for x."""

    def _points(self, values: Floats) -> Floats:
        """Where values are along their axis, in points."""
        places = np.zeros((len(values), 2))
        places[:, self.along] = values
        figure = self.axes.get_figure()
        assert figure is not None, "axes stand in a figure"
        return np.asarray(self.axes.transData.transform(places)[:, self.along] * 72 / figure.dpi)

    def _said(self) -> str:
        """What the values are."""
        name = self.quantity.name
        return name if self.intervals is None else f"{name}, with {self.sure} intervals"

    def _named(self) -> None:
        """The question above, and how much of it is drawn."""
        left = len(self.quantity.labels) - len(self.order)
        more = f"largest {len(self.order):,} of {len(self.quantity.labels):,}" if left else ""
        parts = [self.letters.shown(self.quantity.question), more]
        self.axes.set_title(": ".join(filter(None, parts)), loc="left", fontsize=9.5, color="0.25")

    def _plain(self, grid: str) -> None:
        """Few lines: those that help to read values."""
        for side in ("top", "right"):
            self.axes.spines[side].set_visible(False)
        self.axes.grid(axis=grid)  # type: ignore[arg-type]
        (self.axes.xaxis if grid == "x" else self.axes.yaxis).set_major_formatter(number_text)

    def _ticks(self, labels: Sequence[str], places: Floats) -> None:
        """As many labels along x as have room beside each other."""
        longest = max(map(len, labels), default=1)
        room = max(2, int(75 / (longest + 2)))
        least = -(-len(labels) // room)
        # Of numbers every tenth or fifth is easier to read than every seventh.
        step = next(one for one in _round_steps() if one >= least) if labels[0].isdecimal() else least
        self.axes.set_xticks(places[::step], list(labels)[::step])


class DotPanel(Panel):
    """A dot with its interval for each label, from above: means, and coordinates in their order."""

    narrow, hides = NARROW_DOT, DOT

    def __init__(self, quantity: Quantity, letters: Lettering, sure: str) -> None:
        super().__init__(quantity, letters, sure)
        self.height = 0.75 + ROW * max(1, len(self.order))

    def _ordered(self) -> Integers:
        value = self.quantity.value
        if self.quantity.shape.ordered:
            return np.arange(len(value))[:MOST_BARS]
        return np.argsort(np.where(np.isnan(value), np.inf, -value), kind="stable")[:MOST_BARS]

    def is_beside(self, other: DotPanel) -> bool:
        """Whether it is of the same labels."""
        mine, its = self.quantity, other.quantity
        return (mine.labels, mine.question) == (its.labels, its.question)

    def draw(self) -> None:
        places = np.arange(len(self.order))
        scaled = self._scaled()
        self._marks(places, scaled)
        labels = [self.letters.shown(self.quantity.labels[place]) for place in self.order]
        self.axes.set_yticks(places, labels)
        self.axes.set_ylim(len(places) - 0.5, -0.5)
        self.axes.tick_params(axis="y", length=0)
        self._plain("x")
        if scaled:
            self._beside(places)
        else:
            self.axes.set_xlabel(self._said())
        self._named()
        if len(places) == 1 and np.isfinite(self.values[0]):
            self.axes.set_title(self._told(0), loc="right", fontsize=9.5, color="0.25")

    def _scaled(self) -> bool:
        """Whether coordinates have ranges of their own, so that each is drawn within its range."""
        shape = self.quantity.shape
        widths = np.subtract(shape.most, shape.least)
        return shape.kind == COORDINATES and widths.ndim > 0 and bool(widths.max() > 3 * widths.min())

    def _within(self, values: Floats) -> Floats:
        """As a share of each coordinate's own range."""
        low, high = np.asarray(self.quantity.shape.least), np.asarray(self.quantity.shape.most)
        return np.asarray((values - low[self.order]) / (high - low)[self.order])

    def _marks(self, places: Integers, scaled: bool) -> None:
        move = self._within if scaled else np.asarray
        reach = None if self.intervals is None else np.abs([move(ends) - move(self.values) for ends in self.intervals])
        self.axes.errorbar(
            move(self.values), places, xerr=reach, fmt="o", markersize=DOT, capsize=2.5, elinewidth=LINE, color=DARK
        )
        if self.after is not None:
            self.axes.plot(move(self.after), places, "D", markersize=6, markerfacecolor="none", color=AFTER)
        if scaled:
            self.axes.set_xlim(0, 1)

    def _points(self, values: Floats) -> Floats:
        return super()._points(self._within(values) if self._scaled() else values)

    def _beside(self, places: Integers) -> None:
        """The values in their own units, to the right."""
        self.axes.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
        self.axes.set_xlabel(f"{self._said()}, as shares of each coordinate's own range")
        right = self.axes.twinx()
        right.set_ylim(self.axes.get_ylim())
        right.set_yticks(places, [self._told(place) for place in range(len(places))])
        right.tick_params(axis="y", length=0, labelsize=9)
        for side in right.spines.values():
            side.set_visible(False)

    def _told(self, place: int) -> str:
        """The value and its interval, all with as many places behind the point as the interval tells."""
        value, ends = float(self.values[place]), self.intervals
        if ends is None:
            return number_text(float(f"{value:.5g}"))
        low, high = (float(one[place]) for one in ends)
        places = decimals((high - low) / 2)
        said = [f"{one:,.{places}f}".replace("-", "−") for one in (value, low, high)]
        return f"{said[0]}  ({said[1]} … {said[2]})"

    def notes(self) -> Iterator[str]:
        yield from super().notes()
        untold = int(np.isnan(self.values).sum())
        if untold:
            labels = f"{untold:,} label{'s' if untold > 1 else ''}"
            yield f"Of {labels} no {self.quantity.name} is told: too few users, by their errors, hold them."


class BarPanel(DotPanel):
    """A bar from zero for each label."""

    narrow, hides = NARROW_LINE, 2 * LINE

    def _marks(self, places: Integers, scaled: bool) -> None:
        del scaled
        self.axes.barh(places, self.values, height=0.68, color=FILL)
        if self.reach is not None:
            self.axes.errorbar(
                self.values, places, xerr=self.reach, fmt="none", capsize=2.5, elinewidth=LINE, color=DARK
            )
        if self.after is not None:
            self.axes.plot(self.after, places, "D", markersize=6, markerfacecolor="none", color=AFTER)
        self.axes.axvline(0.0, color="0.35", linewidth=0.8)


class StepPanel(Panel):
    """Bars from zero in the order of the values: a histogram."""

    hides, along = 2 * LINE, 1

    def _ordered(self) -> Integers:
        """Of a tree the finest level that can be drawn; if none can, the coarsest."""
        levels = (*self.quantity.shape.levels, len(self.quantity.labels))
        if len(levels) == 1:
            return np.arange(len(self.quantity.labels))
        sizes = np.diff(levels)
        good = np.flatnonzero(sizes <= MOST_STEPS)
        level = int(good[-1]) if len(good) else 0
        return np.arange(levels[level], levels[level + 1])

    def draw(self) -> None:
        places = np.arange(len(self.order), dtype=np.float64) + 0.5
        if len(places) <= MOST_STEPS:
            self.axes.bar(places, self.values, width=0.86, color=FILL)
            if self.reach is not None:
                cap = 2.5 if len(places) <= MOST_BARS else 1.5
                self.axes.errorbar(
                    places, self.values, yerr=self.reach, fmt="none", capsize=cap, elinewidth=LINE, color=DARK
                )
        else:
            _band(self, places)
        if self.after is not None:
            self.axes.plot(places, self.after, "D", markersize=4, markerfacecolor="none", color=AFTER)
        self.axes.axhline(0.0, color="0.35", linewidth=0.8)
        self.axes.set_xlim(0, len(places))
        # A bin is named by where it begins: the next one says where it ends.
        begins = [self.quantity.labels[place].split(" … ")[0] for place in self.order]
        several = " … " in self.quantity.labels[self.order[0]]
        self._ticks([self.letters.shown(label) for label in begins], places - 0.5 if several else places)
        self._plain("y")
        self.axes.set_ylabel(self._said().replace(", ", ",\n"))
        self._named()

    def _named(self) -> None:
        first = self.quantity.labels[self.order[0]]
        bins = f"{len(self.order):,} bins, the first {first.replace(' … ', ' to ')}" if " … " in first else ""
        parts = [self.quantity.question, bins]
        self.axes.set_title(
            ": ".join(self.letters.shown(one) for one in parts if one), loc="left", fontsize=9.5, color="0.25"
        )


class BandPanel(Panel):
    """A line with a band of intervals: running counts, and many coordinates in their order."""

    along = 1

    def draw(self) -> None:
        places = np.arange(len(self.order), dtype=np.float64) + 0.5
        _band(self, places)
        if self.after is not None:
            self.axes.plot(places, self.after, linestyle="--", linewidth=LINE, color=AFTER, label="adjusted")
        if self.quantity.shape.kind == RUNNING:
            self._shares()
        if self.quantity.shape.kind in (COUNTS, RUNNING):
            self.axes.axhline(0.0, color="0.35", linewidth=0.8)
        self.axes.set_xlim(0, len(places))
        self._ticks([self.letters.shown(self.quantity.labels[place]) for place in self.order], places)
        self._plain("y")
        self.axes.set_ylabel(self._said().replace(", ", ",\n"))
        self._named()

    def _shares(self) -> None:
        """Of all users, to the right: quantiles are read there."""
        users = float(np.max(self.quantity.shape.most))
        ends = (lambda count: np.asarray(count) / users, lambda share: np.asarray(share) * users)
        right = self.axes.secondary_yaxis("right", functions=ends)
        right.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
        right.spines["right"].set_visible(False)


def _band(panel: Panel, places: Floats) -> None:
    if panel.intervals is not None:
        panel.axes.fill_between(places, *panel.intervals, color=FILL, alpha=0.75, linewidth=0)
    # Of very many noisy values a line as wide as ever would be one dark area.
    panel.axes.plot(places, panel.values, color=DARK, linewidth=LINE if len(places) <= MOST_WIDE else LINE / 3)


def number_text(value: float, place: float | None = None) -> str:
    """A number as axes show it."""
    del place
    return f"{value:,.10g}".replace("-", "−")


def _round_steps() -> Iterator[int]:
    """1, 2, 5, 10, 20, 50, …"""
    return (digit * 10**power for power in range(20) for digit in (1, 2, 5))
