"""``shuffledp metric compare``: every theorem on distances side by side, and what none of them can be below."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from shuffledp import figure as figures
from shuffledp.cli import metric, options, show
from shuffledp.cli.bars import Bars
from shuffledp.cli.show import Console
from shuffledp.document import json_text, typed
from shuffledp.metric.compared_pair import ComparedPair, compare_pairs
from shuffledp.privacy.space import DistanceMatrix

WHO = "metric compare"
MOST_LABELLED = 4
"""Theorems with a colour of their own; the lower bound is the fifth line."""
NONE = "–"


def command(
    users: metric.Users,
    delta: options.Delta,
    matrix: metric.Matrix = None,
    points: metric.Points = None,
    degrees: metric.Degrees = False,
    rate: metric.Rate = None,
    pair: Annotated[
        tuple[int, int] | None, typer.Option(metavar="A B", help="Only these two inputs, by number from 0.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw amplified against local distances (png, pdf, svg).")] = None,
    json: options.Json = False,
) -> None:
    """Every theorem side by side, and what none can beat."""
    figures.demand_place(WHO, plot)
    space = metric.SpaceChoice(WHO, matrix, points, degrees, None, rate).finite()
    found = compare_pairs(space, users, delta, None if pair is None else [_checked(space, pair)], Bars())
    if plot is not None:
        _draw(found, f"{int(users):,} users, δ = {figures.scientific(delta)}", plot)
        show.note(f"The figure was written to {plot}.")
    if json:
        rows = [_document(each) for each in found]
        typer.echo(json_text({"users": int(users), "delta": delta, "certified": True, "pairs": rows}))
        return
    show.say(f"Privacy distances (ε) after shuffling {int(users):,} messages, δ = {typed(delta)}.\n")
    _print(found)


def _checked(space: DistanceMatrix, pair: tuple[int, int]) -> tuple[int, int]:
    if pair[0] == pair[1] or not all(0 <= place < space.size for place in pair):
        raise ValueError(f"{WHO}: --pair must be two inputs from 0 to {space.size - 1}, got {pair[0]} and {pair[1]}.")
    return pair


def _document(found: ComparedPair) -> dict[str, object]:
    bounds = {name: value.document(attacked=False)["epsilon"] for name, value in found.values.items()}
    return {
        "pair": [found.first, found.second],
        "local": found.local,
        "bounds": bounds,
        "best": found.best,
        "lower": found.lower,
        **({"why_no_lower": found.why} if found.why else {}),
    }


def _print(found: list[ComparedPair]) -> None:
    """A row for each theorem, a column for each pair: theorems have long names."""
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for each in found:
        table.add_column(f"{each.first}, {each.second}", justify="right")
    table.add_row("local", *(f"{each.local:.6g}" for each in found))
    for name in found[0].values:
        table.add_row(name, *(show.epsilon(each.values[name].upper, 5) for each in found))
    table.add_row("no bound below", *(NONE if each.lower is None else show.lower(each.lower, 5) for each in found))
    Console().print(table)
    for why in dict.fromkeys(each.why for each in found if each.why):
        Console().print(f"\n{NONE}: {why}", highlight=False)


def _draw(found: list[ComparedPair], title: str, path: Path) -> None:
    """Dots for every pair; the tightest theorems have a colour, the others are grey."""
    from matplotlib.figure import Figure

    ranked = sorted(found[0].values, key=lambda name: sum(each.values[name].upper for each in found))
    with figures.look():
        figure = Figure(figsize=(6.8, 4.0), layout="constrained")
        axes = figure.subplots()
        local = [each.local for each in found]
        for place, name in reversed(list(enumerate(ranked))):
            shown = place < MOST_LABELLED
            style: dict[str, Any] = {
                "color": figures.COLOURS[place] if shown else "0.8",
                "markersize": 5 - 0.5 * min(place, 4),
            }
            axes.plot(local, [each.values[name].upper for each in found], "o", label=name if shown else None, **style)
        attacked = [(each.local, each.lower) for each in found if each.lower is not None]
        if attacked:
            axes.plot(*zip(*attacked, strict=True), "k_", markersize=9, label="no bound below")
        others = len(ranked) - MOST_LABELLED
        if others > 0:
            axes.annotate(f"grey: {others} other theorems", (0.985, 0.02), xycoords="axes fraction", ha="right",
                          fontsize=8, color="0.5")  # fmt: skip
        axes.set(xlabel="local privacy distance (ε)", ylabel="privacy distance after shuffling (ε)", xlim=0, ylim=0)
        axes.set_title(title, fontsize=10)
        axes.grid(visible=True, which="major")
        axes.legend(loc="upper left")
        figures.save(WHO, figure, path)


app = metric.app
app.command("compare")(command)
