"""``shuffledp collect``, and its roles apart: ``encode``, ``shuffle`` or, day by day, ``release``, and ``estimate``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from shuffledp import collection, figure
from shuffledp.cli import options, show
from shuffledp.cli.bars import Bars
from shuffledp.cli.ledger import LedgerFile, NoLedger, kept
from shuffledp.collection.bundle import Bundle
from shuffledp.collection.collect import collect
from shuffledp.collection.engine.register import running
from shuffledp.collection.report import Report
from shuffledp.document import json_text
from shuffledp.planner.plan_file import Plan

PlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="The plan file.")]
Input = Annotated[Path, typer.Option("--input", help="A .parquet or .csv file, or a directory of .parquet files.")]
ColumnName = Annotated[str, typer.Option("--column", help="The column with the users' values.")]
UserColumn = Annotated[
    str | None, typer.Option("--user", help="The column that says whose each row is; without it a row is a person.")
]
RowsPerUser = Annotated[
    int, typer.Option("--rows-per-user", help="The most rows of one user that are used, the first ones of the input.")
]
Weaker = Annotated[bool, typer.Option("--allow-weaker", help="Go on even if too few users miss the target.")]
Round = Annotated[int, typer.Option("--round", help="Which of the plan's rounds this is.")]
Drawn = Annotated[
    bool, typer.Option("--drawn", help="The input is a sample that was drawn already; nobody may learn who is in it.")
]
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
    ledger: LedgerFile = None,
    no_ledger: NoLedger = False,
    allow_weaker: Weaker = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a collection that was killed.")] = False,
    round_number: Round = 1,
    drawn: Drawn = False,
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """Collect privately: encode, shuffle, aggregate, report. This party sees the raw data."""
    chosen, book = Plan.load(plan), kept("collect", ledger, no_ledger)
    with running(engine, Bars(), master) as started:
        report = collect(
            chosen, input_, column, out=out, user=user, rows_per_user=rows_per_user, engine=started, ledger=book,
            allow_weaker=allow_weaker, resume=resume, round_number=round_number, drawn=drawn,
        )  # fmt: skip
    _tell(report, out, json)


def encode(
    plan: PlanFile,
    input_: Input,
    column: ColumnName,
    out: Annotated[Path, typer.Option("--out", help="A new file of messages, for the shuffler.")],
    user: UserColumn = None,
    rows_per_user: RowsPerUser = 1,
    round_number: Round = 1,
    drawn: Drawn = False,
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """The encoder's role: randomize values into messages. Needs no sight of others' data."""
    chosen = Plan.load(plan)
    users = collection.encode(
        chosen, input_, column, out=out, user=user, rows_per_user=rows_per_user, round_number=round_number,
        drawn=drawn, progress=Bars(),
    )  # fmt: skip
    messages = Bundle.open(out).messages
    if json:
        typer.echo(json_text({"users": users, "messages": messages, "out": str(out)}))
    else:
        typer.echo(f"{messages:,} messages in {out}: hand them to the shuffler, and to nobody else.")
        if chosen.mechanism.crowd.by_shuffler:
            typer.echo("They are not private before the shuffler has drawn the noise, as the plan says.")


def shuffle(
    inputs: Annotated[list[Path], typer.Argument(metavar="MESSAGES", help="Files from `shuffledp encode`.")],
    out: Annotated[Path, typer.Option("--out", help="A new directory for the shuffled messages.")],
    plan: Annotated[
        Path | None, typer.Option("--plan", help="Refuse fewer messages than this plan needs, and keep the ledger.")
    ] = None,
    ledger: LedgerFile = None,
    no_ledger: NoLedger = False,
    allow_weaker: Weaker = False,
    round_number: Round = 1,
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """The shuffler's role: take away order and origin. Needs no sight of what messages mean."""
    # Without a plan nobody knows what the messages give away.
    book = None if plan is None else kept("shuffle", ledger, no_ledger)
    messages = collection.shuffle(
        inputs, out=out, plan=plan, ledger=book, allow_weaker=allow_weaker, round_number=round_number, progress=Bars()
    )
    if json:
        typer.echo(json_text({"messages": messages, "out": str(out)}))
    else:
        typer.echo(f"{messages:,} messages, shuffled, in {out}: hand them to the estimator, and delete what came in.")
        if plan is None:
            typer.echo("Without --plan it was not looked at whether they are enough, and no ledger was kept.")


def release(
    plan: Annotated[Path, typer.Option("--plan", help="The plan file, of counts over time by the shuffler's noise.")],
    day: Annotated[str, typer.Option("--day", help="The day that is over, named as in the plan's domain.")],
    state: Annotated[Path, typer.Option("--state", help="The shuffler's own directory: what is not over yet.")],
    out: Annotated[Path, typer.Option("--out", help="The public directory, with a directory for each day.")],
    inputs: Annotated[
        list[Path] | None, typer.Argument(metavar="[MESSAGES]...", help="The day's files from `shuffledp encode`.")
    ] = None,
    ledger: LedgerFile = None,
    no_ledger: NoLedger = False,
    allow_weaker: Weaker = False,
    round_number: Round = 1,
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """The shuffler's role day by day: release what is over today. All days are promised, and paid for, once."""
    book = kept("release", ledger, no_ledger)
    done = collection.release(
        inputs or [], plan=plan, day=day, state=state, out=out, ledger=book, allow_weaker=allow_weaker,
        round_number=round_number, progress=Bars(),
    )  # fmt: skip
    if json:
        typer.echo(json_text(asdict(done) | {"out": str(out)}))
        return
    typer.echo(f"Day {day}: {done.messages:,} messages, noise among them, are public in {out}; delete what came in.")
    aside = {"rows that are no messages": done.refused, "messages of another day": done.astray,
             "messages too few or too many": done.missing}  # fmt: skip
    told = ", ".join(f"{number:,} {words}" for words, number in aside.items() if number)
    if told:
        typer.echo(f"For the shuffler alone: {told}.")


def estimate(
    plan: PlanFile,
    messages: Annotated[Path, typer.Option("--input", help="The directory from `shuffledp shuffle` or `release`.")],
    out: Annotated[Path, typer.Option("--out", help="A new directory for estimates and report.")],
    ledger: LedgerFile = None,
    no_ledger: NoLedger = False,
    allow_weaker: Weaker = False,
    round_number: Round = 1,
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """The estimator's role: a report from shuffled messages. Estimates come with intervals."""
    chosen, book = Plan.load(plan), kept("estimate", ledger, no_ledger)
    report = collection.estimate(
        chosen, messages, out=out, ledger=book, allow_weaker=allow_weaker, round_number=round_number, progress=Bars()
    )
    _tell(report, out, json)


def _tell(report: Report, out: Path, json: bool) -> None:
    if json:
        typer.echo(json_text(report.document() | {"out": str(out)}))
        return
    show.rows(report.heading, report.summary())
    left = "Report, estimates and plot" if figure.can_draw() else "Report and estimates"
    typer.echo(f"\n{report.parties}\n{left} are in {out}.")
