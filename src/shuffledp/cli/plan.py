"""``shuffledp plan``: which mechanism, which settings, what error, for a privacy target."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from shuffledp import argument, figure as figures
from shuffledp.bounds.best import QUICK
from shuffledp.cli import options
from shuffledp.cli.bars import Bars
from shuffledp.cli.ledger import LedgerFile
from shuffledp.cli.randomizer import settings_of, with_tables
from shuffledp.collection.ledger import Ledger
from shuffledp.document import json_text
from shuffledp.planner import overview
from shuffledp.planner.goal import LOCAL
from shuffledp.planner.plan import plan
from shuffledp.planner.ranking import Ranking
from shuffledp.privacy.space import DistanceMatrix
from shuffledp.tasks.given import Given
from shuffledp.tasks.task_list import command_names, from_options


def command(
    task: Annotated[str, typer.Option(help=f"What to estimate: {', '.join(command_names())}.")],
    epsilon: Annotated[float, typer.Option(help="The central ε that they are promised, over all rounds.")],
    delta: Annotated[float, typer.Option(help="The central δ.")],
    users: Annotated[float | None, typer.Option(help="How many users will take part in each round.")] = None,
    of: options.Of = None,
    rate: options.Rate = None,
    domain: Annotated[float | None, typer.Option(help="How many options, keys or values there are.")] = None,
    categories: Annotated[Path | None, typer.Option(help="A text file with the options or keys, one a line.")] = None,
    items: Annotated[float | None, typer.Option(help="Options or pairs that a user holds.")] = None,
    low: Annotated[float | None, typer.Option(help="The least number.")] = None,
    high: Annotated[float | None, typer.Option(help="The largest number.")] = None,
    dimension: Annotated[float | None, typer.Option(help="Coordinates of a vector.")] = None,
    west: Annotated[float | None, typer.Option(help="The map's edges: x, or longitude.")] = None,
    east: Annotated[float | None, typer.Option(help="")] = None,
    south: Annotated[float | None, typer.Option(help="y, or latitude.")] = None,
    north: Annotated[float | None, typer.Option(help="")] = None,
    columns: Annotated[float | None, typer.Option(help="Cells of the map from west to east.")] = None,
    degrees: Annotated[bool, typer.Option("--degrees", help="The map's edges are degrees.")] = False,
    minimum: Annotated[
        float | None, typer.Option(help="The fewest users with whom the target must be met; all of them by default.")
    ] = None,
    colluding: options.Colluding = 0,
    rounds: options.Rounds = 1,
    max_bits: Annotated[float | None, typer.Option(help="Most bits a user.")] = None,
    max_messages: Annotated[float | None, typer.Option(help="Most messages a user.")] = None,
    local_epsilon_at_most: Annotated[
        float | None, typer.Option(help="A local ε that holds even without the shuffler.")
    ] = None,
    mechanism: Annotated[str | None, typer.Option(help="Plan with this mechanism only.")] = None,
    mechanism_file: options.MechanismFile = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=FILE", help="The table of a mechanism that is one: distances=FILE."),
    ] = None,
    target_distances: Annotated[
        Path | None,
        typer.Option(help="CSV of the central ε of every two values, a row per value, no header; with such a table."),
    ] = None,
    population: Annotated[str, typer.Option(help="What the ledger calls these users.")] = "everyone",
    ledger: LedgerFile = None,
    rests_on: Annotated[
        str,
        typer.Option(
            help="Which winner to write: local (keeps a local ε), shuffler (rests on it alone) or shuffler-noise (the "
            "shuffler draws the noise)."
        ),
    ] = LOCAL,
    effort: options.Effort = QUICK,
    out: Annotated[Path | None, typer.Option(help="Write the plan, for `shuffledp collect`.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw error against bits to this file.")] = None,
    json: options.Json = False,
) -> None:
    """Mechanisms that meet a target, ranked by error; a plan.

    Every mechanism for the task is calibrated to the target; the plan is for `collect`.
    """
    given = Given(domain, categories, items, low, high, dimension, west, east, south, north, columns, degrees or None)
    asked = from_options(task, given)
    options.schedule_of("plan", users, of, rate, rounds)
    _demand_writable(out, plot)
    quoted = _quoted(ledger)
    ranking = plan(
        asked, users, epsilon, delta, rounds=rounds, of=of, rate=rate, max_bits=max_bits, max_messages=max_messages,
        local_epsilon_at_most=local_epsilon_at_most, mechanism=mechanism, population=population, rests_on=rests_on,
        minimum=minimum, colluding=colluding, settings=_settings(mechanism, set_), workers=None, progress=Bars(),
        target_distances=None if target_distances is None else _distances(target_distances), effort=effort,
    )  # fmt: skip
    # Where the plan is to be written and there is none, that is an error; a table alone says so below itself.
    best = ranking.chosen if out is None else ranking.best
    chosen = None if best is None else replace(best.plan, ledger=quoted)
    if plot is not None:
        plot_to(ranking, plot)
    if out is not None and chosen is not None:
        chosen.save(out)
    if json:
        typer.echo(json_text(ranking.document() | {"plan": None if chosen is None else chosen.document()}))
        return
    show_ranking(ranking)
    if out is not None:
        typer.echo(f"\nThe plan with {ranking.best.name} is in {out}: hand it to `shuffledp collect`.")


def _settings(mechanism: str | None, texts: list[str] | None) -> dict[str, Any]:
    """The settings of the mechanism that is planned with, tables read from their files."""
    if texts and mechanism is None:
        raise ValueError("plan: --set needs --mechanism.")
    return {} if mechanism is None or not texts else with_tables("plan", mechanism, settings_of("plan", tuple(texts)))


def _distances(file: Path) -> DistanceMatrix:
    with argument.said_by("plan", "DistanceMatrix"):
        return DistanceMatrix.from_csv(file)


def _quoted(file: Path | None) -> dict[str, Any]:
    """Where the ledger stands, if there is one: the plan will be collected only with that ledger."""
    ledger = Ledger(Ledger.default_path() if file is None else file)
    return {} if file is None and not ledger.path.exists() else ledger.head().document()


def _demand_writable(out: Path | None, plot: Path | None) -> None:
    """Stop before the long work where its result could not be written."""
    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        raise ValueError(f"plan: expected a file in an existing directory to write to, got {out}.")
    figures.demand_place("plan", plot)


def plot_to(ranking: Ranking, path: Path) -> None:
    """Draw to a file; a sentence where it cannot be written."""
    try:
        ranking.plot(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"plan: could not write the plot to {path}: {error}.") from None


def show_ranking(ranking: Ranking) -> None:
    """The table, the yardstick, and what does not meet the goal."""
    console = Console()
    head, *rows = overview.aligned(ranking.rows(), console.width)
    console.print(Text(overview.title(ranking.goal), style="italic"), soft_wrap=True)
    console.print(Text(head, style="bold"), soft_wrap=True)
    for row in rows:
        console.print(Text(row), soft_wrap=True)
    console.print()
    for line in overview.wrapped(ranking.notes(), console.width):
        console.print(Text(line), soft_wrap=True)
    if ranking.refusals:
        console.print("\nLeft out:", highlight=False)
        for line in ranking.left_out():
            console.print(Text(f"  {line}"), soft_wrap=True)
