"""``shuffledp collect``, and its three roles apart: ``encode``, ``shuffle``, ``estimate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shuffledp.cli import options, show
from shuffledp.cli.bars import Bars
from shuffledp.collection import plot, role
from shuffledp.collection.collect import Request, collect
from shuffledp.collection.engine.register import engine_of
from shuffledp.collection.ledger import Ledger
from shuffledp.collection.report import Report
from shuffledp.document import json_text
from shuffledp.planner.plan_file import Plan

LEDGER = Path("shuffledp-ledger.sqlite")
ROWS_SHOWN = 10

PlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="The plan file.")]
Input = Annotated[
    Path, typer.Option("--input", help="A .parquet or .csv file, or a directory of .parquet files; a row per user.")
]
ColumnName = Annotated[str, typer.Option("--column", help="The column with the users' values.")]
Weaker = Annotated[bool, typer.Option("--allow-weaker", help="Go on even if too few users miss the target.")]
LedgerFile = Annotated[Path, typer.Option("--ledger", envvar="SHUFFLEDP_LEDGER", help="The ledger of what was given.")]
EngineName = Annotated[str, typer.Option("--engine", help="embedded (this machine) or spark.")]
Master = Annotated[str | None, typer.Option("--master", help="Spark's master; all cores of this machine by default.")]


def command(
    plan: PlanFile,
    input_: Input,
    column: ColumnName,
    out: Annotated[Path, typer.Option("--out", help="A new directory for messages, estimates and report.")],
    engine: EngineName = "embedded",
    master: Master = None,
    ledger: LedgerFile = LEDGER,
    allow_weaker: Weaker = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a collection that was killed.")] = False,
    json: options.Json = False,
) -> None:
    """Collect privately: encode, shuffle, aggregate, report. This party sees the raw data."""
    request = Request(Plan.load(plan), input_, column, out, ledger, allow_weaker, resume)
    running = engine_of(engine, Bars(), master)
    try:
        report = collect(request, running)
    finally:
        running.close()
    _tell(report, out, json)


def encode(
    plan: PlanFile,
    input_: Input,
    column: ColumnName,
    out: Annotated[Path, typer.Option("--out", help="A new .parquet file of messages, for the shuffler.")],
    json: options.Json = False,
) -> None:
    """The encoder's role: randomize values into messages. Needs no sight of others' data."""
    chosen = Plan.load(plan)
    users = role.encode(chosen, input_, column, out, engine_of("embedded", Bars()))
    messages = users * chosen.mechanism.messages_per_user
    if json:
        typer.echo(json_text({"users": users, "messages": messages, "out": str(out)}))
    else:
        typer.echo(f"{messages:,} messages in {out}: hand them to the shuffler, and to nobody else.")


def shuffle(
    inputs: Annotated[list[Path], typer.Argument(metavar="MESSAGES", help="Files from `shuffledp encode`.")],
    out: Annotated[Path, typer.Option("--out", help="A new directory for the shuffled messages.")],
    plan: Annotated[
        Path | None, typer.Option("--plan", help="Refuse fewer messages than this plan needs, and keep the ledger.")
    ] = None,
    ledger: LedgerFile = LEDGER,
    allow_weaker: Weaker = False,
    json: options.Json = False,
) -> None:
    """The shuffler's role: take away order and origin. Needs no sight of what messages mean."""
    chosen = None if plan is None else Plan.load(plan)
    messages = role.shuffle(inputs, out, Bars(), plan=chosen, ledger=Ledger(ledger), allow_weaker=allow_weaker)
    if json:
        typer.echo(json_text({"messages": messages, "out": str(out)}))
    else:
        typer.echo(f"{messages:,} messages, shuffled, in {out}: hand them to the estimator, and delete what came in.")


def estimate(
    plan: PlanFile,
    messages: Annotated[Path, typer.Option("--input", help="The directory from `shuffledp shuffle`.")],
    out: Annotated[Path, typer.Option("--out", help="A new directory for estimates and report.")],
    allow_weaker: Weaker = False,
    json: options.Json = False,
) -> None:
    """The estimator's role: a report from shuffled messages. Estimates come with intervals."""
    report = role.estimate(Plan.load(plan), messages, out, engine_of("embedded", Bars()), allow_weaker=allow_weaker)
    _tell(report, out, json)


def _tell(report: Report, out: Path, json: bool) -> None:
    if json:
        typer.echo(json_text(report.document() | {"out": str(out)}))
        return
    held = report.guarantee
    quantity = report.quantities[0]
    largest = sorted(range(len(quantity.labels)), key=lambda place: -quantity.value[place])[:ROWS_SHOWN]
    pairs = [
        ("users", f"{held.users:,} of {held.plan.users:,} planned"),
        ("ε (guaranteed)", show.upper(held.value.upper)),
        ("δ", f"{held.plan.delta:g}"),
        ("target", f"ε = {held.plan.epsilon:g}, " + ("met" if held.kept else "MISSED")),
        ("theorem", held.value.theorem),
    ]
    if report.standing is not None:
        spent = show.upper(report.standing.epsilon)
        pairs.append((f"{held.plan.population!r} so far", f"ε = {spent} at δ = {report.standing.delta:g}"))
    for place in largest:
        interval = ""
        if quantity.low is not None and quantity.high is not None:
            interval = f"  ({quantity.low[place]:,.6g} … {quantity.high[place]:,.6g})"
        pairs.append((quantity.labels[place], f"{quantity.value[place]:,.6g}{interval}"))
    if len(quantity.labels) > len(largest):
        pairs.append(("…", f"{len(quantity.labels) - len(largest):,} more in estimates.csv"))
    show.rows(f"Collection: {held.plan.task}", pairs)
    left = "Report, estimates and plot" if plot.can_draw() else "Report and estimates"
    typer.echo(f"\n{report.parties}\n{left} are in {out}.")
