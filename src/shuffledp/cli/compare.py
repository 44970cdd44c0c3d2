"""``shuffledp compare``: every bound side by side, as a table, JSON or a plot."""

from __future__ import annotations

import dataclasses
import math
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

from shuffledp import figure as figures
from shuffledp.bounds.compare import ComparedBound, Comparison, compare
from shuffledp.bounds.comparison_sweep import compare_along
from shuffledp.bounds.schedule import CONDITION, Schedule
from shuffledp.bounds.sweep import LOCAL, USERS
from shuffledp.cli import options, show, sweep
from shuffledp.cli.bars import Bars, waiting
from shuffledp.cli.randomizer import Choice
from shuffledp.cli.show import Console
from shuffledp.document import json_text, typed
from shuffledp.privacy.value import BoundValue
from shuffledp.statement.condition import conditions

POINTS = 25
LEAST, MOST = 0.1, 6.0
"""The local ε that a plot covers, and in how many points."""
REACH = 100
"""By which factor fewer and more users are looked at."""
AXES = (LOCAL, USERS)


@options.takes_randomizer("compare")
def command(
    *,
    users: options.MaybeUsers = None,
    delta: options.Delta,
    choice: Choice,
    colluding: options.Colluding = 0,
    of: options.Of = None,
    rate: options.Rate = None,
    rounds: options.Rounds = 1,
    plot: Annotated[
        Path | None, typer.Option(help="Draw every bound along --against to this file (png, pdf, svg).")
    ] = None,
    curve_file: sweep.CurveFile = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="AXIS", help="local-epsilon (the default where there is one) or users."),
    ] = None,
    range_: Annotated[
        tuple[float, float] | None,
        typer.Option("--range", metavar="LOW HIGH", help="From where to where on that axis, 0.1 to 6 for a local ε."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Every bound side by side, and the best known attack."""
    wanted = _Wanted(plot, curve_file, _axis(choice, against), range_)
    wanted.demand(against)
    schedule = options.schedule_of("compare", users, of, rate, rounds)
    if rate is not None and wanted.is_wanted and wanted.axis == USERS:
        raise ValueError("compare: how many users come follows from --of and --rate; draw --against local-epsilon.")
    asked = partial(compare, delta=delta, colluding=colluding, rounds=rounds, of=of, rate=rate)
    with waiting("Comparing"):
        randomizer = choice.build()
        result = asked(randomizer, users=users)
    needed = conditions(randomizer, schedule, colluding=int(colluding))
    wanted.write(choice, asked, schedule, delta)
    if json:
        typer.echo(json_text(_document(result, delta) | {"conditions": list(needed)}))
    else:
        _print(result, delta)
        show.conditions(needed)


def _document(result: Comparison, delta: float) -> dict[str, Any]:
    return {
        "users": result.users,
        "messages": result.messages,
        "delta": delta,
        "lower": result.lower,
        "best": result.best.bound,
        "bounds": [_row(row) for row in result.rows],
        **({} if result.schedule is None else result.schedule.document()),
        **({} if result.known is None else {"condition": CONDITION, "if_known": _known(result.known)}),
    }


def _known(value: BoundValue) -> dict[str, Any]:
    return value.document(attacked=False)


def _row(row: ComparedBound) -> dict[str, Any]:
    said = {} if row.value is None else row.value.document(attacked=False)
    return {
        "bound": row.bound,
        "theorem": row.theorem,
        "epsilon": said.get("epsilon"),
        "certified": said.get("certified", False),
        "guarantee": said.get("guarantee", False),
        "reason": row.reason,
    }


def _print(result: Comparison, delta: float) -> None:
    rounds = "" if result.schedule is None or result.schedule.rounds == 1 else f", {result.schedule.rounds:,} rounds"
    table = Table(
        title=Text(f"ε at δ = {typed(delta)} for {result.users:,} users{rounds}"), title_justify="left", box=None
    )
    table.add_column("bound")
    table.add_column("ε", justify="right")
    table.add_column("theorem, or why it does not apply", overflow="fold")
    for row in result.rows:
        if row.value is None:
            table.add_row(row.bound, "–", Text(row.reason, style="dim"))
            continue
        theorem = Text(row.theorem) if row.value.guarantee else Text(f"{row.theorem}: NOT a guarantee", style="red")
        table.add_row(row.bound, show.epsilon(row.value.upper), theorem)
    console = Console()
    console.print(table)
    best = result.best
    assert best.value is not None
    console.print(f"\nBest guarantee: {show.epsilon_is(best.value.upper)} by {best.bound}.", highlight=False)
    if result.lower is None:
        why = f": {result.why_no_attack}" if result.why_no_attack else "."
        console.print(f"No attack is known for this input{why}", highlight=False)
    elif result.lower > 0:
        gap = 100 * (best.value.upper / result.lower - 1)
        far = f": the gap is {gap:.3g}%" if math.isfinite(gap) else ""
        attained = f"A concrete attack on a constructed dataset achieves ε = {show.lower(result.lower)}"
        console.print(f"{attained}{far}.", highlight=False)
    else:
        console.print("The known attacks attain no positive ε.")
    for name, words in result.told_schedule():
        console.print(Text(f"{name.capitalize()}: {words}."))


def _axis(choice: Choice, against: str | None) -> str:
    """What changes along the figure: the local ε, or the users where a protocol has none."""
    if against is not None and against not in AXES:
        raise ValueError(f"compare: --against must be one of {', '.join(AXES)}, got {against!r}.")
    if against == LOCAL and choice.epsilon_local is None:
        raise ValueError(f"compare: --against {LOCAL} needs --epsilon-local.")
    return against or (USERS if choice.epsilon_local is None else LOCAL)


@dataclasses.dataclass(frozen=True)
class _Wanted:
    """The figure and the file that were asked for, and along which axis."""

    plot: Path | None
    curve: Path | None
    axis: str
    range: tuple[float, float] | None

    @property
    def is_wanted(self) -> bool:
        return self.plot is not None or self.curve is not None

    def demand(self, against: str | None) -> None:
        """Refuse before anything is computed what could not be written."""
        figures.demand_place("compare", self.plot)
        sweep.demand_curve("compare", self.curve)
        if not self.is_wanted and (against is not None or self.range is not None):
            raise ValueError(
                "compare: --against and --range are about the figure; add --plot FILE or --curve FILE.csv."
            )
        if self.range is not None and not 0 < self.range[0] < self.range[1] < math.inf:
            raise ValueError("compare: --range must be two numbers above 0, the smaller one first.")

    def write(self, choice: Choice, asked: partial[Comparison], schedule: Schedule, delta: float) -> None:
        if not self.is_wanted:
            return
        own = choice.epsilon_local if self.axis == LOCAL else float(schedule.expected)
        assert own is not None, "a local ε is demanded where it is the axis"
        found = compare_along(
            lambda place: self._at(place, choice, asked, schedule), self._places(own, schedule.of), axis=self.axis,
            asked=own, about=_about(choice, schedule, self.axis, delta), progress=Bars(),
        )  # fmt: skip
        if self.curve is not None:
            found.save(self.curve)
            show.note(f"The curve was written to {self.curve}.")
        if self.plot is not None:
            found.plot(self.plot)
            show.note(f"The figure was written to {self.plot}.")

    def _at(self, place: float, choice: Choice, asked: partial[Comparison], schedule: Schedule) -> Comparison:
        if self.axis == LOCAL:
            # Coins say themselves how many come.
            users = None if asked.keywords["rate"] is not None else schedule.expected
            return asked(dataclasses.replace(choice, epsilon_local=place).build(), users=users)
        return asked(choice.build(), users=place)

    def _places(self, own: float, of: float | None) -> list[float]:
        if self.axis == LOCAL:
            low, high = self.range or (LEAST, max(MOST, own))
            return sorted({*np.linspace(low, high, POINTS).tolist(), *([own] if low <= own <= high else [])})
        low, high = self.range or (max(2.0, own / REACH), min(own * REACH, of or math.inf))
        return sorted({float(round(x)) for x in (*np.geomspace(low, high, POINTS), own)})


def _about(choice: Choice, schedule: Schedule, axis: str, delta: float) -> str:
    """Whose bounds they are, and what does not change along them."""
    settings = f" ({', '.join(choice.settings)})" if choice.settings else ""
    any_one = "any randomizer with local ε₀" if axis == LOCAL else "a randomizer of these parameters"
    subject = f"{choice.mechanism}{settings}" if choice.mechanism else any_one
    local = "" if axis == LOCAL or choice.epsilon_local is None else f", ε₀ = {typed(choice.epsilon_local)}"
    crowd = "" if axis == USERS else f", {schedule.expected:,} users"
    rounds = "" if schedule.rounds == 1 else f", {schedule.rounds:,} rounds"
    return f"{subject}{local}{crowd}{rounds}, δ = {figures.scientific(delta)}"
