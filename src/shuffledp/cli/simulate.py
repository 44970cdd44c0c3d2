"""``shuffledp simulate``: does a plan keep its promised error, at any scale?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shuffledp.cli import options, show
from shuffledp.cli.bars import Bars
from shuffledp.document import json_text
from shuffledp.planner.simulation import CONFIDENCE, simulate
from shuffledp.tasks.given import lines_of


def command(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan file.")],
    users: Annotated[
        float | None, typer.Option(parser=options.number, help="How many users; as planned by default.")
    ] = None,
    repeat: Annotated[float, typer.Option(parser=options.number, help="How many simulated collections.")] = 100,
    seed: Annotated[float, typer.Option(help="The same seed gives the same simulations.")] = 0,
    options_file: Annotated[
        Path | None, typer.Option("--options", help="Only these options, one a line, of a domain of any size.")
    ] = None,
    confidence: options.Confidence = CONFIDENCE,
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """Try a plan on made-up users: is the error as promised?"""
    asked = None if options_file is None else lines_of(options_file, "simulate")
    outcome = simulate(plan, users, repeat, seed, Bars(), asked, confidence)
    if json:
        typer.echo(json_text(outcome.document()))
        return
    show.rows(outcome.heading, outcome.summary())
    show.say(f"\n{outcome.how}")
