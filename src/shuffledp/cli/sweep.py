"""``--plot``, ``--curve`` and ``--against`` of a command: its number along one axis, drawn or as CSV."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from shuffledp import figure as figures
from shuffledp.bounds.best import QUICK
from shuffledp.bounds.schedule import Schedule
from shuffledp.bounds.sweep import AXES, LOCAL, USERS, Sweep, sweep
from shuffledp.cli import show
from shuffledp.cli.bars import Bars
from shuffledp.cli.randomizer import Choice
from shuffledp.document import typed
from shuffledp.privacy.randomizer import Randomizer

Plot = Annotated[Path | None, typer.Option(help="Draw ε along --against to this file (png, pdf, svg).")]
CurveFile = Annotated[Path | None, typer.Option("--curve", help="Write the same numbers as CSV.")]
Against = Annotated[str | None, typer.Option(metavar="AXIS", help=f"{', '.join(AXES)} (δ at each ε). [{USERS}]")]


def demand_curve(who: str, path: Path | None) -> None:
    """Refuse a file that could not be written, before anything is computed."""
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        raise ValueError(f"{who}: could not write the curve to {path}: there is no such place.")


@dataclass(frozen=True)
class Wanted:
    """What is to be written, and along which axis."""

    who: str
    plot: Path | None
    curve: Path | None
    against: str | None

    def __post_init__(self) -> None:
        figures.demand_place(self.who, self.plot)
        if self.against is not None and self.plot is None and self.curve is None:
            raise ValueError(f"{self.who}: --against is about the figure; add --plot FILE or --curve FILE.csv.")
        if self.against is not None and self.against not in AXES:
            raise ValueError(f"{self.who}: --against must be one of {', '.join(AXES)}, got {self.against!r}.")
        demand_curve(self.who, self.curve)

    def write(
        self, choice: Choice, subject: Randomizer, schedule: Schedule, delta: float | None, bound: str, colluding: float
    ) -> None:
        """Draw and write what was asked for."""
        if self.plot is None and self.curve is None:
            return
        if delta is None:
            raise ValueError(f"{self.who}: --plot and --curve need --delta.")
        over = self.against or USERS
        local = choice.epsilon_local
        if over == LOCAL and local is None:
            raise ValueError(f"{self.who}: --against {LOCAL} needs --epsilon-local.")
        made = (lambda x: replace(choice, epsilon_local=x).build()) if over == LOCAL else subject
        found = sweep(
            made, schedule, over=over, delta=delta, local=local, bound=bound, colluding=colluding, effort=QUICK,
            about=_about(choice, schedule, over, delta), progress=Bars(),
        )  # fmt: skip
        self._save(found)

    def _save(self, found: Sweep) -> None:
        if self.curve is not None:
            found.save(self.curve, self.who)
            show.written("curve", self.curve)
        if self.plot is not None:
            found.plot(self.plot, self.who)
            show.written("figure", self.plot)


def _about(choice: Choice, schedule: Schedule, over: str, delta: float) -> str:
    """Whose curve it is, and what does not change along it."""
    settings = f" ({', '.join(choice.settings)})" if choice.settings else ""
    name = f"{choice.mechanism}{settings}" if choice.mechanism else "any randomizer with these parameters"
    local = "" if over == LOCAL or choice.epsilon_local is None else f", local ε = {typed(choice.epsilon_local)}"
    users = "" if over == USERS else f", {schedule.expected:,} users"
    rounds = "" if schedule.rounds == 1 or over == "rounds" else f", {schedule.rounds:,} rounds"
    at = "" if over == "epsilon" else f", δ = {figures.scientific(delta)}"
    return f"{name}{local}{users}{rounds}{at}"
