"""``sweep``: ε against the users, the rounds or the local ε, and δ against ε, as numbers and as a figure."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from shuffledp import figure as figures
from shuffledp.bounds import best
from shuffledp.bounds.amplify import MOST_USERS, BoundChoice
from shuffledp.bounds.schedule import Schedule
from shuffledp.document import rounded_up, typed
from shuffledp.errors import NotApplicable
from shuffledp.privacy.curve import PrivacyCurve
from shuffledp.privacy.randomizer import Randomizer
from shuffledp.privacy.value import BoundValue
from shuffledp.progress import Progress
from shuffledp.readable import Readable, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WHO = "sweep"
USERS, ROUNDS, LOCAL, EPSILON = AXES = ("users", "rounds", "local-epsilon", "epsilon")
NAMES = {USERS: "users", ROUNDS: "rounds", LOCAL: "local ε", EPSILON: "ε"}
POINTS = 17
ATTACK = figures.COLOURS[2]
THOUSANDS = 1000
REACH = 100
"""By which factor fewer and more users, and more rounds, are looked at."""
LEAST_LOCAL, MOST_LOCAL = 0.1, 6.0
FURTHER = 3.0
"""How many times as far as the asked value δ is looked at."""

Maker = Callable[[float], Randomizer]


@dataclass(frozen=True)
class Sweep(Readable):
    """A row of guarantees along one axis; ``print`` it, ``save`` it as CSV, ``plot`` it.

    ``axis``: what changes. ``points``: where it was looked, and the value there, None where no bound applies.
    ``asked``: the point that was asked about, marked in the figure. ``about``: whose, in words.

    >>> import shuffledp as sdp
    >>> found = sdp.sweep(sdp.KRR(1.0, options=4), sdp.Schedule(1000), over="rounds", delta=1e-6, at=[1, 4])
    >>> [(rounds, f"{value.upper:.4f}") for rounds, value in found.points]
    [(1, '0.1178'), (4, '0.2474')]
    """

    axis: str
    points: tuple[tuple[float, BoundValue | None], ...]
    asked: float
    about: str

    @property
    def found(self) -> list[tuple[float, BoundValue]]:
        """Where there is a value."""
        return [(x, value) for x, value in self.points if value is not None]

    @property
    def unit(self) -> str:
        """What the values are."""
        return "δ" if self.axis == EPSILON else "ε"

    @property
    def heading(self) -> str:
        return f"{self.unit} against {NAMES[self.axis]}: {self.about}"

    def summary(self) -> list[Row]:
        return [(_place(x), "none" if value is None else rounded_up(value.upper)) for x, value in self.points]

    def save(self, path: str | PathLike[str], who: str = WHO) -> None:
        """As CSV: where, the guarantee, what an attack attains, and the bound."""
        head = (self.axis.replace("-", "_"), "delta" if self.axis == EPSILON else "epsilon", "attack", "bound")
        try:
            with Path(path).open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(head)
                for x, value in self.points:
                    told = ("", "", "") if value is None else (repr(value.upper), _lower(value), value.bound)
                    writer.writerow((_place(x), *told))
        except OSError as error:
            raise ValueError(f"{who}: could not write the curve to {path}: {error.strerror}.") from None

    def plot(self, path: str | PathLike[str] | None = None, who: str = WHO) -> Figure:
        """The guarantee, and what an attack attains where one is known; also to a file where ``path`` names one."""
        with figures.look():
            figure, axes = figures.empty()
            found = [(x, value) for x, value in self.found if 0 < value.upper < math.inf]
            xs = [x for x, _ in found]
            axes.plot(
                xs, [value.upper for _, value in found], linewidth=2.2, label="guaranteed", **figures.line_style(0)
            )
            attacked = [(x, value.lower) for x, value in found if value.lower]
            if attacked:
                axes.plot(*zip(*attacked, strict=True), ":", color=ATTACK, label="attack: no less is possible")
            axes.axvline(self.asked, color="0.6", linewidth=1.0, linestyle=(0, (4, 3)))
            told = (
                f"{NAMES[self.axis]} = {self.asked:,.4g}"
                if self.asked < THOUSANDS
                else f"{self.asked:,.0f} {self.axis}"
            )
            axes.annotate(told, (self.asked, 1.0), xycoords=("data", "axes fraction"), xytext=(4, -12),
                          textcoords="offset points", fontsize=8, color="0.35")  # fmt: skip
            axes.set(xlabel=NAMES[self.axis], ylabel=self.unit)
            for which in ("y", "x") if self.axis in (USERS, ROUNDS) else ("y",):
                figures.logarithmic(axes, which)
            axes.set_title(self.about, fontsize=10)
            axes.legend()
            if path is not None:
                figures.save(who, figure, Path(path))
        return figure


def sweep(
    randomizer: Randomizer | Maker,
    schedule: Schedule,
    *,
    over: str,
    delta: float,
    local: float | None = None,
    at: Sequence[float] | None = None,
    bound: BoundChoice = best.NAME,
    colluding: float = 0,
    effort: str = best.QUICK,
    about: str = "",
    progress: Progress | None = None,
) -> Sweep:
    """Guarantees along one axis: ε at ``delta``, or δ at each ε where that is the axis.

    ``randomizer``: for the axis "local-epsilon" a function that makes one of a local ε, of which ``local`` is the one
    asked about. ``over``: "users", "rounds", "local-epsilon" or "epsilon". ``at``: where to look; by default about what
    is asked.

    >>> import shuffledp as sdp
    >>> found = sdp.sweep(sdp.KRR(1.0, options=4), sdp.Schedule(1000), over="users", delta=1e-6, at=[100, 1000, 10_000])
    >>> print(found)
    ε against users: KRR
      100    0.398453
      1000   0.117825
      10000  0.0342594
    """
    if over not in AXES:
        raise ValueError(f"{WHO}: over must be one of {', '.join(AXES)}, got {over!r}.")
    make, fixed = _made(randomizer, over, local)
    question = _Question(make, schedule, delta, bound, colluding, effort)
    asked = {USERS: schedule.expected, ROUNDS: schedule.rounds, LOCAL: fixed}.get(over)
    if asked is None:
        asked = question.value(schedule, fixed).upper
    places = list(at) if at is not None else _places(over, asked)
    shown = progress or Progress()
    points = tuple((x, question.at(over, x, fixed)) for x in shown.each("looking", places))
    named = about or (type(randomizer).__name__ if isinstance(randomizer, Randomizer) else "any local ε")
    return Sweep(over, points, asked, named)


def _made(randomizer: Randomizer | Maker, over: str, local: float | None) -> tuple[Maker, float]:
    if isinstance(randomizer, Randomizer):
        if over == LOCAL:
            raise ValueError(f"{WHO}: over a local ε, randomizer must be a function that makes one of it.")
        return (lambda _: randomizer), 0.0
    if local is None:
        raise ValueError(f"{WHO}: where randomizer is a function, local must say which local ε is asked about.")
    return randomizer, local


def _places(over: str, asked: float) -> list[float]:
    """About what is asked: by equal factors for numbers of people and rounds, by equal steps for ε."""
    if over == USERS:
        places = _geometric(max(2.0, asked / REACH), min(float(MOST_USERS), asked * REACH))
    elif over == ROUNDS:
        places = _geometric(1.0, max(REACH, asked * 10))
    elif over == LOCAL:
        # Small ones, between which ε changes by the largest factor, are looked at more closely.
        few = [LEAST_LOCAL * 2**step for step in range(3)]
        places = [*few, *_even(LEAST_LOCAL, max(MOST_LOCAL, asked))]
    else:
        if not 0 < asked < math.inf:
            raise ValueError(f"{WHO}: there is no ε to look about: it is {rounded_up(asked)}.")
        places = _even(0.0, FURTHER * asked)
    return sorted({*places, asked})


def _geometric(low: float, high: float) -> list[float]:
    step = (high / low) ** (1 / (POINTS - 1))
    return [float(round(low * step**place)) for place in range(POINTS)]


def _even(low: float, high: float) -> list[float]:
    return [low + (high - low) * place / (POINTS - 1) for place in range(POINTS)]


@dataclass(frozen=True)
class _Question:
    """What is asked everywhere along the axis."""

    make: Maker
    schedule: Schedule
    delta: float
    bound: BoundChoice
    colluding: float
    effort: str

    def at(self, over: str, x: float, local: float) -> BoundValue | None:
        """The value at one place; None where no bound applies there."""
        try:
            if over == EPSILON:
                return self._curve(self.schedule, local).delta(x)
            return self.value(self._schedule(over, x), x if over == LOCAL else local)
        except NotApplicable:
            return None

    def value(self, schedule: Schedule, local: float) -> BoundValue:
        return self._curve(schedule, local).epsilon(self.delta)

    def _curve(self, schedule: Schedule, local: float) -> PrivacyCurve:
        return schedule.curve(self.make(local), bound=self.bound, colluding=self.colluding, effort=self.effort)

    def _schedule(self, over: str, x: float) -> Schedule:
        if over == ROUNDS:
            return replace(self.schedule, rounds=int(x))
        return self.schedule.scaled_to(int(x)) if over == USERS else self.schedule


def _place(x: float) -> str:
    return typed(int(x) if x == int(x) else x)


def _lower(value: BoundValue) -> str:
    return "" if value.lower is None else repr(value.lower)
