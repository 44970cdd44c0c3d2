"""``shuffledp simulate``: does a plan keep its promised error, at any scale?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from shuffledp.cli import options, show
from shuffledp.cli.bars import Bars
from shuffledp.document import json_text
from shuffledp.planner.plan_file import Plan
from shuffledp.planner.simulation import CONFIDENCE, Outcome, Simulation


def command(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan file.")],
    users: Annotated[float | None, typer.Option(help="How many users; as planned by default.")] = None,
    repeat: Annotated[float, typer.Option(help="How many simulated collections.")] = 100,
    seed: Annotated[float, typer.Option(help="The same seed gives the same simulations.")] = 0,
    json: options.Json = False,
) -> None:
    """Try a plan on made-up users: is the error as promised?"""
    chosen = Plan.load(plan)
    crowd = chosen.users if users is None else users
    simulation = Simulation(chosen, crowd, repeat, seed)  # type: ignore[arg-type]
    with Bars().step("simulating", simulation.repeats) as advance:
        outcome = simulation.run(advance)
    if json:
        typer.echo(json_text(_document(simulation, outcome)))
        return
    _print(simulation, outcome)


def _document(simulation: Simulation, outcome: Outcome) -> dict[str, Any]:
    return {
        "task": simulation.plan.task,
        "mechanism": simulation.plan.mechanism_name,
        "users": outcome.users,
        "users_asked_for": simulation.users,
        "repeats": outcome.repeats,
        "estimates": outcome.estimates,
        "data": simulation.task.data,
        "standard_error": {"expected": outcome.expected, "simulated": outcome.found, "ratio": outcome.ratio},
        "promised": simulation.plan.promise.get("standard_error"),
        "confidence": CONFIDENCE,
        "covered": outcome.covered,
        "exact_law": outcome.exact,
    }


def _print(simulation: Simulation, outcome: Outcome) -> None:
    plan = simulation.plan
    pairs = [
        ("mechanism", plan.mechanism_name),
        ("users", f"{outcome.users:,}, {simulation.task.data}"),
        ("simulated collections", f"{outcome.repeats:,}, each with {outcome.estimates:,} estimates"),
        ("standard error, expected", f"{outcome.expected:.6g} {simulation.task.unit}"),
        ("standard error, simulated", f"{outcome.found:.6g} ({outcome.ratio:.4f} of what is expected)"),
        (f"within {CONFIDENCE:.0%} intervals", f"{outcome.covered:.2%} of the estimates"),
    ]
    promised = plan.promise.get("standard_error")
    if promised is not None and simulation.users == plan.users:
        pairs.insert(3, ("standard error, promised", f"{promised:.6g}"))
    show.rows(f"Simulation: {plan.task}", pairs)
    if outcome.exact:
        typer.echo("\nEstimates were drawn by their exact law, without drawing messages.")
    else:
        fewer = "" if outcome.users == simulation.users else f", of {outcome.users:,} users as more would take long"
        typer.echo(f"\nMessages were really encoded and read{fewer}: this mechanism's law has no short cut.")
