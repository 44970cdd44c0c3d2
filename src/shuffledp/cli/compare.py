"""``shuffledp compare``: every bound side by side, as a table, JSON or a plot."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from shuffledp import figure as figures
from shuffledp.bounds.compare import ComparedBound, Comparison, compare
from shuffledp.bounds.schedule import CONDITION
from shuffledp.cli import options, show
from shuffledp.cli.bars import Bars, waiting
from shuffledp.cli.randomizer import Choice
from shuffledp.document import json_text, typed
from shuffledp.errors import NotApplicable
from shuffledp.privacy.randomizer import Randomizer
from shuffledp.privacy.value import BoundValue
from shuffledp.statement.condition import conditions

POINTS = 25
LEAST, MOST = 0.1, 6.0
"""The local ε that a plot covers, and in how many points."""


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
        Path | None, typer.Option(help="Draw amplification against ε0 to this file (png, pdf, svg).")
    ] = None,
    json: options.Json = False,
) -> None:
    """Every bound side by side, and the best known attack."""
    figures.demand_place("compare", plot)
    if plot is not None and choice.epsilon_local is None:
        raise ValueError("compare: --plot needs --epsilon-local, alone or with --mechanism.")
    schedule = options.schedule_of("compare", users, of, rate, rounds)
    asked = partial(compare, users=users, delta=delta, colluding=colluding, rounds=rounds, of=of, rate=rate)
    with waiting("Comparing"):
        randomizer = choice.build()
        result = asked(randomizer)
    needed = conditions(randomizer, schedule, colluding=int(colluding))
    if plot is not None:
        _draw(choice, asked, result, delta, plot)
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
        console.print(f"No attack on a real dataset is known for this input{why}", highlight=False)
    elif result.lower > 0:
        gap = 100 * (best.value.upper / result.lower - 1)
        far = f": the gap is {gap:.3g}%" if math.isfinite(gap) else ""
        console.print(f"An attack attains ε = {show.lower(result.lower)}{far}.", highlight=False)
    else:
        console.print("The known attacks attain no positive ε.")
    for name, words in result.told_schedule():
        console.print(Text(f"{name.capitalize()}: {words}."))


def _draw(
    choice: Choice, asked: Callable[[Randomizer], Comparison], known: Comparison, delta: float, path: Path
) -> None:
    """Amplification ratio ε0/ε against ε0, one line per bound that applies."""
    locals_ = np.linspace(LEAST, MOST, POINTS).tolist()
    lines: dict[str, list[tuple[float, float]]] = {}
    attack: list[tuple[float, float]] = []
    for local in Bars().each("drawing", locals_):
        try:
            result = asked(dataclasses.replace(choice, epsilon_local=local).build())
        except NotApplicable:
            continue
        for row in result.rows:
            if row.value is not None and row.value.guarantee and row.value.upper > 0:
                lines.setdefault(row.bound, []).append((local, local / row.value.upper))
        if result.lower:
            attack.append((local, local / result.lower))
    settings = f" ({', '.join(choice.settings)})" if choice.settings else ""
    subject = f"{choice.mechanism}{settings}" if choice.mechanism else "any randomizer with local ε₀"
    schedule = known.schedule
    crowd = f"{0 if schedule is None else schedule.expected:,} users"
    rounds = "" if schedule is None or schedule.rounds == 1 else f", {schedule.rounds:,} rounds"
    _figure(lines, attack, f"{subject}, {crowd}{rounds}, δ = {figures.scientific(delta)}", path)


def _figure(
    lines: dict[str, list[tuple[float, float]]], attack: list[tuple[float, float]], title: str, path: Path
) -> None:
    """The best bound comes first in the legend, as it does in the figure."""
    from matplotlib.figure import Figure

    with figures.look():
        figure = Figure(figsize=(7.6, 4.2), layout="constrained")
        axes = figure.subplots()
        best_first = sorted(lines.items(), key=lambda line: -max(ratio for _, ratio in line[1]))
        for place, (name, points) in enumerate(best_first):
            width = 2.6 if place == 0 else 1.4
            axes.plot(*zip(*points, strict=True), label=name, linewidth=width, **figures.line_style(place))
        if attack:
            axes.plot(*zip(*attack, strict=True), "k:", label="attack: no more is possible", linewidth=1.2)
        axes.set(xlabel="local ε₀", ylabel="amplification ε₀ / ε", yscale="log", xlim=(0, MOST))
        axes.set_title(title, fontsize=10)
        axes.grid(visible=True, which="major")
        figure.legend(loc="outside right upper")
        figures.save("compare", figure, path)
