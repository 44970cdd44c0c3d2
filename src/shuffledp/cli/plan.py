"""``shuffledp plan``: which mechanism, which settings, what error, for a privacy target."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from shuffledp.calibration.target import Target
from shuffledp.cli import figure as figures, options, plan_figure, show
from shuffledp.cli.plan_task import NAMES, Given
from shuffledp.document import json_text
from shuffledp.planner.goal import Goal, Limits
from shuffledp.planner.ranking import Ranking, run, trials, workers_for
from shuffledp.planner.trial import Offer


def command(
    task: Annotated[str, typer.Option(help=f"What to estimate: {', '.join(NAMES)}.")],
    users: Annotated[float, typer.Option(help="How many users will take part.")],
    epsilon: Annotated[float, typer.Option(help="The central ε that they are promised, over all rounds.")],
    delta: Annotated[float, typer.Option(help="The central δ.")],
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
    rounds: Annotated[float, typer.Option(help="Rounds in which the same users answer.")] = 1,
    max_bits: Annotated[float | None, typer.Option(help="Most bits a user.")] = None,
    max_messages: Annotated[float | None, typer.Option(help="Most messages a user.")] = None,
    local_epsilon_at_most: Annotated[
        float | None, typer.Option(help="A local ε that holds even without the shuffler.")
    ] = None,
    mechanism: Annotated[str | None, typer.Option(help="Plan with this mechanism only.")] = None,
    population: Annotated[str, typer.Option(help="What the ledger calls these users.")] = "everyone",
    out: Annotated[Path | None, typer.Option(help="Write the plan, for `shuffledp collect`.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw error against bits to this file.")] = None,
    json: options.Json = False,
) -> None:
    """Mechanisms that meet a target, ranked by error; a plan.

    Every mechanism for the task is calibrated to the target; the plan is for `collect`.
    """
    given = Given(domain, categories, items, low, high, dimension, west, east, south, north, columns, degrees or None)
    limits = Limits(max_bits, max_messages, local_epsilon_at_most)  # type: ignore[arg-type]
    goal = Goal(given.task(task), users, Target(epsilon, delta), rounds, limits)  # type: ignore[arg-type]
    _demand_writable(out, plot)
    ranking = rank(goal, mechanism)
    chosen = ranking.best.plan(goal, population)
    if plot is not None:
        plot_to(ranking, plot)
    if out is not None:
        chosen.save(out)
    if json:
        typer.echo(json_text(ranking.document() | {"plan": chosen.document()}))
        return
    show_ranking(ranking)
    if out is not None:
        typer.echo(f"\nThe plan with {ranking.best.name} is in {out}: hand it to `shuffledp collect`.")


def _demand_writable(out: Path | None, plot: Path | None) -> None:
    """Stop before the long work where its result could not be written."""
    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        raise ValueError(f"plan: expected a file in an existing directory to write to, got {out}.")
    figures.demand_place("plan", plot)


def rank(goal: Goal, only: str | None = None) -> Ranking:
    """Run all trials with a progress bar."""
    waiting = trials(goal, only)
    console = Console(stderr=True)
    columns = (TextColumn("{task.description:30}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    outcomes = []
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("Calibrating", total=len(waiting))
        for outcome in run(waiting, workers_for(waiting)):
            outcomes.append(outcome)
            bar.update(task, advance=1, description=f"Calibrated {outcome.name}")
    return Ranking.of(goal, outcomes)


def plot_to(ranking: Ranking, path: Path) -> None:
    """Draw to a file; a sentence where it cannot be written."""
    try:
        plan_figure.draw(ranking, path)
    except (OSError, ValueError) as error:
        raise ValueError(f"plan: could not write the plot to {path}: {error}.") from None


def show_ranking(ranking: Ranking) -> None:
    """The table, the yardstick, and what does not meet the goal."""
    goal = ranking.goal
    rounds = "" if goal.rounds == 1 else f", {goal.rounds} rounds"
    limits = f"; {goal.limits.words()}" if goal.limits.words() else ""
    target = f"ε = {goal.target.epsilon:g}, δ = {goal.target.delta:g}"
    title = f"{goal.task.name}: {goal.users:,} users, {target}{rounds}{limits}"
    table = Table(title=Text(title), title_justify="left", box=None, pad_edge=False, collapse_padding=True)
    table.add_column("mechanism", no_wrap=True)
    for name in ("error", "local ε", "bits", "msgs", "client", "server"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("rests on")
    for offer in ranking.offers:
        table.add_row(*_cells(offer, goal.users))
    console = Console()
    console.print(table)
    central = goal.yardstick
    lines = [
        f"error: the standard error in {goal.task.unit}, for {goal.task.data} (root mean square over all estimates).",
        f"A trusted curator's error ({central.noise} noise): {central.standard_error:.4g}; "
        f"{ranking.best.name} has {ranking.best.standard_error / central.standard_error:.3g} times that.",
        "local ε: what messages keep even from the shuffler. bits, msgs: sent by each user. client: time to encode one",
        "user, server: to read all messages, as measured here. rests on: what must hold, that the shuffler hides who",
        "sent what; where it is the shuffler only, messages promise nothing without it; seeds must be pseudorandom.",
    ]
    console.print("\n" + "\n".join(lines), highlight=False, soft_wrap=True)
    if ranking.refusals:
        console.print("\nLeft out:", highlight=False)
        for reason, names in ranking.reasons().items():
            console.print(Text(f"  {', '.join(names)}: {reason}"), soft_wrap=True)


def _cells(offer: Offer, users: int) -> list[str]:
    local = offer.mechanism.local_epsilon
    return [
        offer.name,
        f"{offer.standard_error:.4g}",
        "–" if local is None else show.upper(local, 3),
        f"{offer.bits:,}",
        f"{offer.messages:,}",
        _duration(offer.cost.client),
        _duration(offer.cost.server(users)),
        offer.rests_on,
    ]


def _duration(seconds: float) -> str:
    """One digit is all that a short measurement tells."""
    for size, unit in ((3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")):
        digit = float(f"{seconds / size:.1g}")
        if digit >= 1:
            return f"{digit:g} {unit}"
    return "0"
