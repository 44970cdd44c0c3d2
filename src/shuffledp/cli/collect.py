"""``shuffledp collect``, and its three roles apart: ``encode``, ``shuffle``, ``estimate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shuffledp import figure
from shuffledp.cli import options, show
from shuffledp.cli.bars import Bars
from shuffledp.collection import role
from shuffledp.collection.collect import collect
from shuffledp.collection.engine.register import running
from shuffledp.collection.report import Report
from shuffledp.document import json_text
from shuffledp.planner.plan_file import Plan

LEDGER = Path("shuffledp-ledger.sqlite")

PlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="The plan file.")]
Input = Annotated[Path, typer.Option("--input", help="A .parquet or .csv file, or a directory of .parquet files.")]
ColumnName = Annotated[str, typer.Option("--column", help="The column with the users' values.")]
UserColumn = Annotated[
    str | None, typer.Option("--user", help="The column that says whose each row is; without it a row is a person.")
]
RowsPerUser = Annotated[
    int, typer.Option("--rows-per-user", help="The most rows of one user that are used, the first ones of the input.")
]
MostRows = Annotated[int, typer.Option("--rows-per-user", help="The most rows of one user that the encoders used.")]
Weaker = Annotated[bool, typer.Option("--allow-weaker", help="Go on even if too few users miss the target.")]
LedgerFile = Annotated[Path, typer.Option("--ledger", envvar="SHUFFLEDP_LEDGER", help="The ledger of what was given.")]
EngineName = Annotated[str, typer.Option("--engine", help="embedded (this machine) or spark.")]
Master = Annotated[str | None, typer.Option("--master", help="Spark's master; all cores of this machine by default.")]


def command(
    plan: PlanFile,
    input_: Input,
    column: ColumnName,
    out: Annotated[Path, typer.Option("--out", help="A new directory for messages, estimates and report.")],
    user: UserColumn = None,
    rows_per_user: RowsPerUser = 1,
    engine: EngineName = "embedded",
    master: Master = None,
    ledger: LedgerFile = LEDGER,
    allow_weaker: Weaker = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a collection that was killed.")] = False,
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """Collect privately: encode, shuffle, aggregate, report. This party sees the raw data."""
    chosen = Plan.load(plan)
    with running(engine, Bars(), master) as started:
        report = collect(
            chosen, input_, column, out=out, user=user, rows_per_user=rows_per_user, engine=started, ledger=ledger,
            allow_weaker=allow_weaker, resume=resume,
        )  # fmt: skip
    _tell(report, out, json)


def encode(
    plan: PlanFile,
    input_: Input,
    column: ColumnName,
    out: Annotated[Path, typer.Option("--out", help="A new .parquet file of messages, for the shuffler.")],
    user: UserColumn = None,
    rows_per_user: RowsPerUser = 1,
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """The encoder's role: randomize values into messages. Needs no sight of others' data."""
    chosen = Plan.load(plan)
    users = role.encode(chosen, input_, column, out=out, user=user, rows_per_user=rows_per_user, progress=Bars())
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
    rows_per_user: MostRows = 1,
    allow_weaker: Weaker = False,
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """The shuffler's role: take away order and origin. Needs no sight of what messages mean."""
    messages = role.shuffle(
        inputs, out=out, plan=plan, ledger=ledger, rows_per_user=rows_per_user, allow_weaker=allow_weaker,
        progress=Bars(),
    )  # fmt: skip
    if json:
        typer.echo(json_text({"messages": messages, "out": str(out)}))
    else:
        typer.echo(f"{messages:,} messages, shuffled, in {out}: hand them to the estimator, and delete what came in.")


def estimate(
    plan: PlanFile,
    messages: Annotated[Path, typer.Option("--input", help="The directory from `shuffledp shuffle`.")],
    out: Annotated[Path, typer.Option("--out", help="A new directory for estimates and report.")],
    rows_per_user: MostRows = 1,
    allow_weaker: Weaker = False,
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """The estimator's role: a report from shuffled messages. Estimates come with intervals."""
    report = role.estimate(
        plan, messages, out=out, rows_per_user=rows_per_user, allow_weaker=allow_weaker, progress=Bars()
    )
    _tell(report, out, json)


def _tell(report: Report, out: Path, json: bool) -> None:
    if json:
        typer.echo(json_text(report.document() | {"out": str(out)}))
        return
    show.rows(report.heading, report.summary())
    left = "Report, estimates and plot" if figure.can_draw() else "Report and estimates"
    typer.echo(f"\n{report.parties}\n{left} are in {out}.")
