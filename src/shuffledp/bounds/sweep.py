"""Guarantees along one axis, of the best bound or of every bound: numbers, CSV and figures."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shuffledp._core import plotting
from shuffledp._core.errors import NotApplicable
from shuffledp._core.formatting import (
    format_exact,
    format_rounded_up,
)
from shuffledp._core.results_and_value_objects import PrintableResult, Progress, Row
from shuffledp.bounds import pointwise_minimum, registry
from shuffledp.bounds.amplify import MAX_USERS, BoundChoice
from shuffledp.bounds.dummies_and_noise import ProtocolPublishedBound
from shuffledp.bounds.participation import Participation
from shuffledp.privacy.curve import BoundValue, PrivacyCurve
from shuffledp.privacy.randomizer_interface import Randomizer

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
from shuffledp.bounds.compare import Comparison

SWEEP = "sweep"
USERS, ROUNDS, LOCAL_EPSILON, EPSILON = AXES = ("users", "rounds", "local-epsilon", "epsilon")
AXIS_LABELS = {USERS: "users", ROUNDS: "rounds", LOCAL_EPSILON: "local ε", EPSILON: "ε"}
DEFAULT_POINT_COUNT = 17
ATTACK_COLOUR = plotting.COLOURS[2]
GROUPED_DIGITS_THRESHOLD = 1000
DEFAULT_RANGE_FACTOR = 100
"""Factor by which the default range extends to fewer and to more users, and to more rounds."""
MIN_LOCAL_EPSILON, MAX_LOCAL_EPSILON = 0.1, 6.0
EPSILON_RANGE_FACTOR = 3.0
"""Multiple of the requested ε at which the default range of ε ends."""
RandomizerFactory = Callable[[float], Randomizer]


@dataclass(frozen=True)
class Sweep(PrintableResult):
    """Guarantees along one axis; ``print`` it, ``save`` it as CSV, ``plot`` it.

    Args:
        axis: The quantity that changes: "users", "rounds", "local-epsilon" or "epsilon".
        points: Positions on the axis with the value at each; None where no bound applies.
        marked_position: The position that is marked in the figure.
        title: Title of the figure.

    >>> import shuffledp as sdp
    >>> found = sdp.sweep(sdp.KRR(1.0, options=4), sdp.Participation(1000), over="rounds", delta=1e-6, at=[1, 4])
    >>> [(rounds, f"{value.upper:.4f}") for rounds, value in found.points]
    [(1, '0.1178'), (4, '0.2474')]
    """

    axis: str
    points: tuple[tuple[float, BoundValue | None], ...]
    marked_position: float
    title: str

    @property
    def defined_points(self) -> list[tuple[float, BoundValue]]:
        """The points that have a value."""
        return [(x, value) for x, value in self.points if value is not None]

    @property
    def unit(self) -> str:
        """The symbol of the values: δ along ε, ε along all other axes."""
        return "δ" if self.axis == EPSILON else "ε"

    @property
    def heading(self) -> str:
        return f"{self.unit} against {AXIS_LABELS[self.axis]}: {self.title}"

    def summary(self) -> list[Row]:
        return [
            (_format_position(x), "none" if value is None else format_rounded_up(value.upper))
            for x, value in self.points
        ]

    def save(self, path: str | PathLike[str], who: str = SWEEP) -> None:
        """Writes a CSV file: position, guarantee, lower bound of an attack, bound.

        Args:
            path: File to write.
            who: Caller's name, at the beginning of error messages.

        Raises:
            ValueError: If the file cannot be written.
        """
        head = (self.axis.replace("-", "_"), "delta" if self.axis == EPSILON else "epsilon", "attack", "bound")
        try:
            with Path(path).open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(head)
                for x, value in self.points:
                    cells = ("", "", "")
                    if value is not None:
                        cells = repr(value.upper), "" if value.lower is None else repr(value.lower), value.bound
                    writer.writerow((_format_position(x), *cells))
        except OSError as error:
            raise ValueError(f"{who}: could not write the curve to {path}: {error.strerror}.") from None

    def plot(self, path: str | PathLike[str] | None = None, who: str = SWEEP) -> Figure:
        """Draws the guarantee, and the lower bound of an attack where one is known.

        Args:
            path: File to save the figure to; None saves nothing.
            who: Caller's name, at the beginning of error messages.

        Returns:
            The matplotlib figure.

        Raises:
            ValueError: If the file cannot be written.
        """
        with plotting.figure_style():
            figure, axes = plotting.create_figure()
            points = [(x, value) for x, value in self.defined_points if 0 < value.upper < math.inf]
            axes.plot(
                [x for x, _ in points],
                [value.upper for _, value in points],
                linewidth=2.2,
                label="guaranteed",
                **plotting.line_style(0),
            )
            attack = [(x, value.lower) for x, value in points if value.lower]
            if attack:
                axes.plot(*zip(*attack, strict=True), ":", color=ATTACK_COLOUR, label="attack: no less is possible")
            axes.axvline(self.marked_position, color="0.6", linewidth=1.0, linestyle=(0, (4, 3)))
            mark = (
                f"{AXIS_LABELS[self.axis]} = {self.marked_position:,.4g}"
                if self.marked_position < GROUPED_DIGITS_THRESHOLD
                else f"{self.marked_position:,.0f} {self.axis}"
            )
            axes.annotate(mark, (self.marked_position, 1.0), xycoords=("data", "axes fraction"), xytext=(4, -12),
                          textcoords="offset points", fontsize=8, color="0.35")  # fmt: skip
            axes.set(xlabel=AXIS_LABELS[self.axis], ylabel=self.unit)
            for which in ("y", "x") if self.axis in (USERS, ROUNDS) else ("y",):
                plotting.set_log_axis(axes, which)
            axes.set_title(self.title, fontsize=10)
            axes.legend()
            if path is not None:
                plotting.save_figure(who, figure, Path(path))
        return figure


def sweep(
    randomizer: Randomizer | RandomizerFactory,
    schedule: Participation,
    *,
    over: str,
    delta: float,
    local: float | None = None,
    at: Sequence[float] | None = None,
    bound: BoundChoice = pointwise_minimum.BEST_BOUND_NAME,
    colluding: float = 0,
    effort: str = registry.QUICK_EFFORT,
    about: str = "",
    progress: Progress | None = None,
) -> Sweep:
    """Computes guarantees along one axis: ε at ``delta``, or δ at each ε if that is the axis.

    Args:
        randomizer: A randomizer; for the axis "local-epsilon", a function that returns one for a local ε.
        schedule: Participation and number of rounds.
        over: The axis: "users", "rounds", "local-epsilon" or "epsilon".
        delta: The δ of all rounds together.
        local: If ``randomizer`` is a function, the local ε to mark or, on other axes, to use.
        at: Positions on the axis; by default a range around the scheduled value.
        bound: As in ``amplify``.
        colluding: Number of users who reveal their messages and hide nobody.
        effort: As in ``amplify``.
        about: Title of the figure; by default the randomizer's name.
        progress: Receives the progress.

    Returns:
        The points of the curve, with None where no bound applies.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If ``over`` is unknown, ``randomizer`` does not fit it, ``local`` is missing, a number is out of
            range, or ε is 0 or infinite and ``at`` does not say where to evaluate δ.

    >>> import shuffledp as sdp
    >>> users = sdp.Participation(1000)
    >>> found = sdp.sweep(sdp.KRR(1.0, options=4), users, over="users", delta=1e-6, at=[100, 1000, 10_000])
    >>> print(found)
    ε against users: KRR
      100    0.398453
      1000   0.117825
      10000  0.0342594
    """
    if over not in AXES:
        raise ValueError(f"{SWEEP}: over must be one of {', '.join(AXES)}, got {over!r}.")
    make, fixed = _choose_factory(randomizer, over, local)
    arguments = _SweepArguments(make, schedule, delta, bound, colluding, effort)
    marked = {USERS: schedule.expected_users, ROUNDS: schedule.rounds, LOCAL_EPSILON: fixed}.get(over)
    if marked is None:
        marked = arguments.value(schedule, fixed).upper
    positions = list(at) if at is not None else _default_positions(over, marked)
    bars = progress or Progress()
    points = tuple((x, arguments.evaluate(over, x, fixed)) for x in bars.track("evaluating", positions))
    title = about or (type(randomizer).__name__ if isinstance(randomizer, Randomizer) else "any local ε")
    return Sweep(over, points, marked, title)


def _choose_factory(
    randomizer: Randomizer | RandomizerFactory, over: str, local: float | None
) -> tuple[RandomizerFactory, float]:
    if isinstance(randomizer, Randomizer):
        if over == LOCAL_EPSILON:
            raise ValueError(f"{SWEEP}: over a local ε, randomizer must be a function that returns one for it.")
        return (lambda _: randomizer), 0.0
    if local is None:
        raise ValueError(f"{SWEEP}: local must be given where randomizer is a function: the local ε to mark or to use.")
    return randomizer, local


def _default_positions(over: str, marked: float) -> list[float]:
    """Returns positions around the marked one: equal factors for users and rounds, equal steps for ε."""
    if over == USERS:
        positions = _geometric_positions(
            max(2.0, marked / DEFAULT_RANGE_FACTOR), min(float(MAX_USERS), marked * DEFAULT_RANGE_FACTOR)
        )
    elif over == ROUNDS:
        positions = _geometric_positions(1.0, max(DEFAULT_RANGE_FACTOR, marked * 10))
    elif over == LOCAL_EPSILON:
        # Small local ε, where the guarantee changes by the largest factors, get more points.
        few = [MIN_LOCAL_EPSILON * 2**step for step in range(3)]
        positions = [*few, *_even_positions(MIN_LOCAL_EPSILON, max(MAX_LOCAL_EPSILON, marked))]
    else:
        if not 0 < marked < math.inf:
            raise ValueError(
                f"{SWEEP}: at must be given where ε is 0 or infinite, got ε = {format_rounded_up(marked)}."
            )
        positions = _even_positions(0.0, EPSILON_RANGE_FACTOR * marked)
    return sorted({*positions, marked})


def _geometric_positions(low: float, high: float) -> list[float]:
    step = (high / low) ** (1 / (DEFAULT_POINT_COUNT - 1))
    return [float(round(low * step**place)) for place in range(DEFAULT_POINT_COUNT)]


def _even_positions(low: float, high: float) -> list[float]:
    return [low + (high - low) * place / (DEFAULT_POINT_COUNT - 1) for place in range(DEFAULT_POINT_COUNT)]


@dataclass(frozen=True)
class _SweepArguments:
    """The arguments of a sweep that are the same at every position."""

    randomizer_factory: RandomizerFactory
    schedule: Participation
    delta: float
    bound: BoundChoice
    colluding: float
    effort: str

    def evaluate(self, over: str, x: float, local: float) -> BoundValue | None:
        """Returns the value at one position; None where no bound applies."""
        try:
            if over == EPSILON:
                return self._curve(self.schedule, local).delta(x)
            return self.value(self._participation_at(over, x), x if over == LOCAL_EPSILON else local)
        except NotApplicable:
            return None

    def value(self, schedule: Participation, local: float) -> BoundValue:
        return self._curve(schedule, local).epsilon(self.delta)

    def _curve(self, schedule: Participation, local: float) -> PrivacyCurve:
        return schedule.curve(
            self.randomizer_factory(local), bound=self.bound, colluding=self.colluding, effort=self.effort
        )

    def _participation_at(self, over: str, x: float) -> Participation:
        if over == ROUNDS:
            return replace(self.schedule, rounds=int(x))
        return self.schedule.scaled_to(int(x)) if over == USERS else self.schedule


def _format_position(x: float) -> str:
    return format_exact(int(x) if x == int(x) else x)


COMPARE = "compare"
MAX_LABELLED_LINES = 5
"""Number of lines with a colour and a name, the attack included; the others are grey."""
ATTACK_NAME = "attack"
PUBLISHED_BOUND_NAME = ProtocolPublishedBound.name
GREY = "0.78"
Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class BoundLine:
    """ε of one bound along the axis, where it applies."""

    bound: str
    guarantee: bool
    points: Points

    @property
    def label(self) -> str:
        return self.bound if self.guarantee else f"{self.bound} (no guarantee)"

    def epsilon_near(self, position: float) -> float:
        """Returns ε at the point nearest to a position."""
        return min(self.points, key=lambda point: abs(point[0] - position))[1]


@dataclass(frozen=True)
class ComparisonSweep:
    """All bounds along one axis, and the lower bound of an attack; ``save`` it as CSV, ``plot`` it."""

    axis: str
    lines: tuple[BoundLine, ...]
    attack: Points
    marked_position: float
    """The position that is marked in the figure."""
    title: str

    def labelled_lines(self) -> list[BoundLine]:
        """Returns the lines that get a name: the best guarantees at the marked position, and one non-guarantee."""
        ranked = sorted(self.lines, key=lambda line: line.epsilon_near(self.marked_position))
        proved = [line for line in ranked if line.guarantee]
        # The value that a protocol's own paper claims comes first.
        printed = sorted(
            (line for line in ranked if not line.guarantee), key=lambda line: line.bound != PUBLISHED_BOUND_NAME
        )[:1]
        room = MAX_LABELLED_LINES - len(printed) - bool(self.attack)
        return [*proved[:room], *printed]

    def save(self, path: str | PathLike[str], who: str = COMPARE) -> None:
        """Writes a CSV file: a row for each bound, and for the attack, at each position."""
        rows = [(x, line.bound, epsilon, line.guarantee) for line in self.lines for x, epsilon in line.points]
        rows += [(x, ATTACK_NAME, epsilon, False) for x, epsilon in self.attack]
        try:
            with Path(path).open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file)
                writer.writerow((self.axis.replace("-", "_"), "bound", "epsilon", "guarantee"))
                writer.writerows((repr(x), name, repr(epsilon), proved) for x, name, epsilon, proved in rows)
        except OSError as error:
            raise ValueError(f"{who}: could not write the curve to {path}: {error.strerror}.") from None

    def plot(self, path: str | PathLike[str] | None = None, who: str = COMPARE) -> Figure:
        """Draws at most five named lines, the others grey, and the marked position; saves the figure to a path."""
        from matplotlib.figure import Figure

        with plotting.figure_style():
            figure = Figure(figsize=(7.6, 4.2), layout="constrained")
            axes = figure.subplots()
            named = self.labelled_lines()
            others = [line for line in self.lines if line not in named]
            for line in others:
                axes.plot(*self._plot_coordinates(line.points), color=GREY, linewidth=1.0, zorder=1)
            for place, line in enumerate(named):
                style: dict[str, Any] = {**plotting.line_style(place), "linewidth": 2.4 if place == 0 else 1.5}
                axes.plot(*self._plot_coordinates(line.points), label=line.label, **style)
            if self.attack:
                bound = "no more is possible" if self.axis == LOCAL_EPSILON else "no less is possible"
                axes.plot(*self._plot_coordinates(self.attack), "k:", label=f"{ATTACK_NAME}: {bound}", linewidth=1.3)
            self._draw_labels(axes, len(others))
            figure.legend(loc="outside right upper")
            if path is not None:
                plotting.save_figure(who, figure, Path(path))
        return figure

    def _plot_coordinates(self, points: Points) -> tuple[list[float], list[float]]:
        """Returns the coordinates to draw: ε0/ε over the local ε, ε itself over the users."""
        ratios = self.axis == LOCAL_EPSILON
        return [x for x, _ in points], [x / epsilon if ratios else epsilon for x, epsilon in points]

    def _draw_labels(self, axes: Axes, others: int) -> None:
        axes.axvline(self.marked_position, color="0.45", linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
        mark = (
            f"ε₀ = {self.marked_position:.4g}" if self.axis == LOCAL_EPSILON else f"{self.marked_position:,.0f} users"
        )
        axes.annotate(mark, (self.marked_position, 1.0), xycoords=("data", "axes fraction"), xytext=(4, -12),
                      textcoords="offset points", fontsize=8, color="0.3",
                      bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})  # fmt: skip
        if others:
            axes.annotate(f"grey: {others} other bound{'s' if others > 1 else ''}", (0.015, 0.02),
                          xycoords="axes fraction", fontsize=8, color="0.5",
                          bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})  # fmt: skip
        if self.axis == LOCAL_EPSILON:
            axes.set(xlabel="local ε₀", ylabel="amplification ε₀ / ε", yscale="log")
        else:
            axes.set(xlabel=AXIS_LABELS[USERS], ylabel="ε", xscale="log", yscale="log")
        axes.set_title(self.title, fontsize=10)
        axes.grid(visible=True, which="major")


def compare_along(
    compare_at: Callable[[float], Comparison],
    positions: Sequence[float],
    *,
    axis: str,
    marked_position: float,
    title: str,
    progress: Progress | None = None,
) -> ComparisonSweep:
    """Computes every bound, also published ones that are no guarantee, at each position where some bound applies."""
    points: dict[str, list[tuple[float, float]]] = {}
    proved: dict[str, bool] = {}
    attack: list[tuple[float, float]] = []
    for x in (progress or Progress()).track("comparing", list(positions)):
        try:
            comparison = compare_at(x)
        except NotApplicable:
            continue
        for row in comparison.rows:
            if row.value is not None and 0 < row.value.upper < math.inf:
                points.setdefault(row.bound, []).append((x, row.value.upper))
                proved[row.bound] = proved.get(row.bound, True) and row.value.guarantee
        if comparison.lower:
            attack.append((x, comparison.lower))
    lines = tuple(BoundLine(name, proved[name], tuple(line)) for name, line in points.items())
    return ComparisonSweep(axis, lines, tuple(attack), marked_position, title)
