"""Every bound along one axis, the local ε or the users: as numbers, as CSV and as a figure."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shuffledp import figure as figures
from shuffledp.bounds.compare import Comparison
from shuffledp.bounds.protocol import ProtocolPublishedBound
from shuffledp.bounds.sweep import LOCAL, NAMES, USERS
from shuffledp.errors import NotApplicable
from shuffledp.progress import Progress

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WHO = "compare"
MOST_LABELLED = 5
"""Lines with a colour and a name, the attack among them; the others are grey."""
ATTACK = "attack"
PRINTED = ProtocolPublishedBound.name
GREY = "0.78"

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class BoundLine:
    """One bound where it applies: the axis and ε."""

    bound: str
    guarantee: bool
    points: Points

    @property
    def told(self) -> str:
        return self.bound if self.guarantee else f"{self.bound} (no guarantee)"

    def at(self, asked: float) -> float:
        """ε where it was looked nearest to what is asked."""
        return min(self.points, key=lambda point: abs(point[0] - asked))[1]


@dataclass(frozen=True)
class ComparisonSweep:
    """All bounds along one axis, and what an attack attains; ``save`` it as CSV, ``plot`` it."""

    axis: str
    lines: tuple[BoundLine, ...]
    attack: Points
    asked: float
    """The point that was asked about."""
    about: str

    def labelled(self) -> list[BoundLine]:
        """The best guarantees where it is asked, and one number that is none: with the attack five lines."""
        ranked = sorted(self.lines, key=lambda line: line.at(self.asked))
        proved = [line for line in ranked if line.guarantee]
        # What a protocol's own paper says is looked for first.
        printed = sorted((line for line in ranked if not line.guarantee), key=lambda line: line.bound != PRINTED)[:1]
        room = MOST_LABELLED - len(printed) - bool(self.attack)
        return [*proved[:room], *printed]

    def save(self, path: str | PathLike[str], who: str = WHO) -> None:
        """As CSV: a row for each bound at each place, and for what an attack attains."""
        rows = [(x, line.bound, epsilon, line.guarantee) for line in self.lines for x, epsilon in line.points]
        rows += [(x, ATTACK, epsilon, False) for x, epsilon in self.attack]
        try:
            with Path(path).open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file)
                writer.writerow((self.axis.replace("-", "_"), "bound", "epsilon", "guarantee"))
                writer.writerows((repr(x), name, repr(epsilon), proved) for x, name, epsilon, proved in rows)
        except OSError as error:
            raise ValueError(f"{who}: could not write the curve to {path}: {error.strerror}.") from None

    def plot(self, path: str | PathLike[str] | None = None, who: str = WHO) -> Figure:
        """At most five lines with a name, the others grey, and what was asked marked; also to a file."""
        from matplotlib.figure import Figure

        with figures.look():
            figure = Figure(figsize=(7.6, 4.2), layout="constrained")
            axes = figure.subplots()
            named = self.labelled()
            others = [line for line in self.lines if line not in named]
            for line in others:
                axes.plot(*self._drawn(line.points), color=GREY, linewidth=1.0, zorder=1)
            for place, line in enumerate(named):
                style: dict[str, Any] = {**figures.line_style(place), "linewidth": 2.4 if place == 0 else 1.5}
                axes.plot(*self._drawn(line.points), label=line.told, **style)
            if self.attack:
                bound = "no more is possible" if self.axis == LOCAL else "no less is possible"
                axes.plot(*self._drawn(self.attack), "k:", label=f"{ATTACK}: {bound}", linewidth=1.3)
            self._labels(axes, len(others))
            figure.legend(loc="outside right upper")
            if path is not None:
                figures.save(who, figure, Path(path))
        return figure

    def _drawn(self, points: Points) -> tuple[list[float], list[float]]:
        """Amplification ε0/ε along the local ε, ε itself along the users."""
        ratios = self.axis == LOCAL
        return [x for x, _ in points], [x / epsilon if ratios else epsilon for x, epsilon in points]

    def _labels(self, axes: Axes, others: int) -> None:
        axes.axvline(self.asked, color="0.45", linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
        told = f"ε₀ = {self.asked:.4g}" if self.axis == LOCAL else f"{self.asked:,.0f} users"
        axes.annotate(told, (self.asked, 1.0), xycoords=("data", "axes fraction"), xytext=(4, -12),
                      textcoords="offset points", fontsize=8, color="0.3",
                      bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})  # fmt: skip
        if others:
            axes.annotate(f"grey: {others} other bound{'s' if others > 1 else ''}", (0.015, 0.02),
                          xycoords="axes fraction", fontsize=8, color="0.5",
                          bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})  # fmt: skip
        if self.axis == LOCAL:
            axes.set(xlabel="local ε₀", ylabel="amplification ε₀ / ε", yscale="log")
        else:
            axes.set(xlabel=NAMES[USERS], ylabel="ε", xscale="log", yscale="log")
        axes.set_title(self.about, fontsize=10)
        axes.grid(visible=True, which="major")


def compare_along(
    asked_at: Callable[[float], Comparison],
    places: Sequence[float],
    *,
    axis: str,
    asked: float,
    about: str,
    progress: Progress | None = None,
) -> ComparisonSweep:
    """Every bound, printed ones that are no guarantee included, at each place where there is a comparison at all."""
    found: dict[str, list[tuple[float, float]]] = {}
    proved: dict[str, bool] = {}
    attack: list[tuple[float, float]] = []
    for place in (progress or Progress()).each("comparing", list(places)):
        try:
            result = asked_at(place)
        except NotApplicable:
            continue
        for row in result.rows:
            if row.value is not None and 0 < row.value.upper < math.inf:
                found.setdefault(row.bound, []).append((place, row.value.upper))
                proved[row.bound] = proved.get(row.bound, True) and row.value.guarantee
        if result.lower:
            attack.append((place, result.lower))
    lines = tuple(BoundLine(name, proved[name], tuple(points)) for name, points in found.items())
    return ComparisonSweep(axis, lines, tuple(attack), asked, about)
