"""``shuffledp collect``, and its roles apart: ``encode``, ``shuffle`` or, day by day, ``release``, and ``estimate``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from shuffledp import collection, figure
from shuffledp.cli import options, report as report_option, show
from shuffledp.cli.bars import Bars
from shuffledp.cli.ledger import LedgerGiven, NoLedger, Round, kept
from shuffledp.cli.source import Origin, takes_input
from shuffledp.collection import bundle, result
from shuffledp.collection.bundle import Bundle
from shuffledp.collection.cluster.file_system import is_address
from shuffledp.collection.cluster.frame_source import frame_of, is_for_spark
from shuffledp.collection.collect import collect
from shuffledp.collection.engine.engine import Engine
from shuffledp.collection.engine.register import running
from shuffledp.collection.engine.spark_engine import Spark
from shuffledp.collection.ledger import chosen_round
from shuffledp.collection.manner import CONFIDENCE
from shuffledp.collection.report import Report
from shuffledp.document import json_text
from shuffledp.planner.plan_file import Plan
from shuffledp.service.campaign import Campaign
from shuffledp.service.sealing import Sealing
from shuffledp.tasks.adjustment import WAYS
from shuffledp.tasks.given import lines_of

NEVER_AGAIN = (
    "The promise holds if these files are never shuffled again together with others, here or elsewhere: the difference "
    "would show what the others sent."
)
Reservation = Annotated[
    str | None, typer.Option("--reservation", help="From `ledger reserve`: settle it with those who came.")
]
PlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="The plan file.")]
OptionsFile = Annotated[
    Path | None, typer.Option("--options", help="Only these options, one a line, of a domain of any size (frequency).")
]
Post = Annotated[
    str | None,
    typer.Option("--post", metavar="WAY", help="Post-processing, told beside the estimates: " + ", ".join(WAYS) + "."),
]
Results = Annotated[
    Path | None, typer.Option("--results", help="Write the table of estimates here, too: .csv, .parquet or .json.")
]
Weaker = Annotated[bool, typer.Option("--allow-weaker", help="Go on even if too few users miss the target.")]
RoundOfMessages = Annotated[
    int | None,
    typer.Option("--round", help="Which of the plan's rounds this is; by default the one the messages are of."),
]
RoundEncoded = Annotated[
    int | None, typer.Option("--round", help="Which of the plan's rounds this is; needed where it has several.")
]
Drawn = Annotated[
    bool, typer.Option("--drawn", help="The input is a sample that was drawn already; nobody may learn who is in it.")
]
Seal = Annotated[
    Path | None,
    typer.Option("--seal", metavar="CAMPAIGN", help="Seal each message to this campaign's analyst."),
]
EngineName = Annotated[str, typer.Option("--engine", help="embedded (this machine) or spark.")]
Key = Annotated[
    list[str] | None,
    typer.Option("--key", help="With spark: the column that tells rows apart, where files do not; repeatable."),
]
Master = Annotated[str | None, typer.Option("--master", help="Spark's master; all cores of this machine by default.")]


@takes_input
def command(
    plan: PlanFile,
    source: Origin,
    out: Annotated[
        str, typer.Option("--out", help="A new directory for messages, estimates and report; with spark any address.")
    ],
    engine: EngineName = "embedded",
    master: Master = None,
    key: Key = None,
    ledger: LedgerGiven = None,
    no_ledger: NoLedger = False,
    allow_weaker: Weaker = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a collection that was killed.")] = False,
    round_number: Round = None,
    drawn: Drawn = False,
    report_file: report_option.Report = None,
    options_file: OptionsFile = None,
    confidence: options.Confidence = CONFIDENCE,
    post: Post = None,
    results: Results = None,
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """Collect privately: encode, shuffle, aggregate, report. This party sees the raw data."""
    report_option.demand_place("collect", report_file)
    result.demand_place("collect", results)
    chosen = Plan.load(plan)
    book = kept("collect", ledger, no_ledger, chosen)
    with running(engine, Bars(), master) as started:
        given, own = _rows(started, source.paths, source.delimiter, key, out)
        report = collect(
            chosen, given, source.columns, out=out, user=source.user, rows_per_user=source.rows_per_user,
            engine=started, ledger=book, allow_weaker=allow_weaker, resume=resume, round_number=round_number,
            drawn=drawn, rules=source.rules, gather=source.gather, options=_asked("collect", options_file),
            confidence=confidence, post=post, **own,
        )  # fmt: skip
    _tell(report, out, json)
    _state("collect", report, report_file)
    _table("collect", report, results)


@takes_input
def encode(
    plan: PlanFile,
    source: Origin,
    out: Annotated[Path, typer.Option("--out", help="A new file of messages, for the shuffler.")],
    round_number: RoundEncoded = None,
    drawn: Drawn = False,
    seal: Seal = None,
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """The encoder's role: randomize values into messages. Needs no sight of others' data."""
    chosen = Plan.load(plan)
    users = collection.encode(
        chosen, source.paths, source.columns, out=out, user=source.user, rows_per_user=source.rows_per_user,
        round_number=round_number, drawn=drawn, rules=source.rules, delimiter=source.delimiter, gather=source.gather,
        wrapper=_sealing("encode", seal, round_number), progress=Bars(),
    )  # fmt: skip
    messages = Bundle.open(out).messages
    if json:
        typer.echo(json_text({"users": users, "messages": messages, "out": str(out)}))
    else:
        show.say(f"{messages:,} messages in {out}: hand them to the shuffler, and to nobody else.")
        if chosen.mechanism.crowd.by_shuffler:
            show.say("They are not private before the shuffler has drawn the noise, as the plan says.")


def shuffle(
    inputs: Annotated[list[Path], typer.Argument(metavar="MESSAGES", help="Files from `shuffledp encode`.")],
    out: Annotated[Path, typer.Option("--out", help="A new directory for the shuffled messages.")],
    plan: Annotated[
        Path | None, typer.Option("--plan", help="Refuse fewer messages than this plan needs, and keep the ledger.")
    ] = None,
    ledger: LedgerGiven = None,
    no_ledger: NoLedger = False,
    reservation: Reservation = None,
    allow_weaker: Weaker = False,
    round_number: RoundOfMessages = None,
    sealed: Annotated[
        Path | None, typer.Option("--sealed", metavar="CAMPAIGN", help="With --plan: the messages are sealed to it.")
    ] = None,
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """The shuffler's role: take away order and origin. Needs no sight of what messages mean."""
    if reservation is not None and plan is None:
        raise ValueError("shuffle: --reservation needs --plan.")
    if sealed is not None and plan is None:
        raise ValueError("shuffle: --sealed needs --plan; without a plan sealed messages are mixed as any others.")
    # Without a plan nobody knows what the messages give away.
    book = None if plan is None else kept("shuffle", ledger, no_ledger, Plan.load(plan))
    messages = collection.shuffle(
        inputs, out=out, plan=plan, ledger=book, reservation=reservation, allow_weaker=allow_weaker,
        round_number=round_number, wrapper=_sealing("shuffle", sealed, round_number, inputs), progress=Bars(),
    )  # fmt: skip
    if json:
        typer.echo(json_text({"messages": messages, "out": str(out)}))
    else:
        show.say(f"{messages:,} messages, shuffled, in {out}: hand them to the estimator, and delete what came in.")
        if plan is None:
            show.say("Without --plan it was not looked at whether they are enough, and no ledger was kept.")
        if book is None:
            show.say(NEVER_AGAIN)


def release(
    plan: Annotated[Path, typer.Option("--plan", help="The plan file, of counts over time by the shuffler's noise.")],
    day: Annotated[str, typer.Option("--day", help="The day that is over, named as in the plan's domain.")],
    state: Annotated[Path, typer.Option("--state", help="The shuffler's own directory: what is not over yet.")],
    out: Annotated[Path, typer.Option("--out", help="The public directory, with a directory for each day.")],
    inputs: Annotated[
        list[Path] | None, typer.Argument(metavar="[MESSAGES]...", help="The day's files from `shuffledp encode`.")
    ] = None,
    ledger: LedgerGiven = None,
    no_ledger: NoLedger = False,
    allow_weaker: Weaker = False,
    round_number: RoundOfMessages = None,
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """The shuffler's role day by day: release what is over today. All days are promised, and paid for, once."""
    book = kept("release", ledger, no_ledger, Plan.load(plan))
    done = collection.release(
        inputs or [], plan=plan, day=day, state=state, out=out, ledger=book, allow_weaker=allow_weaker,
        round_number=round_number, progress=Bars(),
    )  # fmt: skip
    if json:
        typer.echo(json_text(asdict(done) | {"out": str(out)}))
        return
    show.say(f"Day {day}: {done.messages:,} messages, noise among them, are public in {out}; delete what came in.")
    aside = {"rows that are no messages": done.refused, "messages of another day": done.astray,
             "messages too few or too many": done.missing}  # fmt: skip
    told = ", ".join(f"{number:,} {words}" for words, number in aside.items() if number)
    if told:
        show.say(f"For the shuffler alone: {told}.")


def estimate(
    plan: PlanFile,
    messages: Annotated[Path, typer.Option("--input", help="The directory from `shuffledp shuffle` or `release`.")],
    out: Annotated[Path, typer.Option("--out", help="A new directory for estimates and report.")],
    ledger: LedgerGiven = None,
    no_ledger: NoLedger = False,
    reservation: Reservation = None,
    allow_weaker: Weaker = False,
    round_number: RoundOfMessages = None,
    report_file: report_option.Report = None,
    options_file: OptionsFile = None,
    confidence: options.Confidence = CONFIDENCE,
    post: Post = None,
    results: Results = None,
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """The estimator's role: a report from shuffled messages. Estimates come with intervals."""
    report_option.demand_place("estimate", report_file)
    result.demand_place("estimate", results)
    chosen = Plan.load(plan)
    book = kept("estimate", ledger, no_ledger, chosen)
    report = collection.estimate(
        chosen, messages, out=out, ledger=book, reservation=reservation, allow_weaker=allow_weaker,
        round_number=round_number, options=_asked("estimate", options_file), confidence=confidence, post=post,
        progress=Bars(),
    )  # fmt: skip
    _tell(report, out, json)
    _state("estimate", report, report_file)
    _table("estimate", report, results)


def _state(who: str, report: Report, path: Path | None) -> None:
    """The statement, where it was asked for."""
    if path is not None:
        report_option.write(who, report.guarantee.statement(report_option.command_typed()), path)


def _table(who: str, report: Report, path: Path | None) -> None:
    """The estimates as a table of their own, where it was asked for."""
    if path is not None:
        try:
            report.save(path)
        except OSError as error:
            raise ValueError(f"{who}: could not write the results to {path}: {error.strerror}.") from None
        show.written("table of results", path)


def _asked(who: str, file: Path | None) -> tuple[str, ...] | None:
    """The options that a file asks for, where one is given."""
    return None if file is None else lines_of(file, who)


def _sealing(who: str, file: Path | None, round_number: int | None, messages: Sequence[Path] = ()) -> Sealing | None:
    """The sealing of messages to a campaign's analyst; messages that are there tell their round."""
    if file is None:
        return None
    campaign = Campaign.load(file)
    for path in messages if round_number is None else ():
        found = Sealing.of_messages(campaign, Bundle.open(bundle.files_of(path)[0]).plan)
        return found or Sealing(campaign, campaign.plan.round_numbers[0])
    return Sealing(campaign, chosen_round(who, campaign.plan, round_number, None))


def _rows(
    engine: Engine, paths: tuple[str, ...], delimiter: str | None, key: list[str] | None, out: str
) -> tuple[Any, dict[str, Any]]:
    """The input as ``collect`` takes it, and what else it needs to know: Spark reads addresses and tables itself."""
    theirs = [path for path in paths if is_for_spark(path)]
    if not theirs and not is_address(out) and not key:
        return paths, {"delimiter": delimiter}
    if not isinstance(engine, Spark):
        raise ValueError(f"collect: {(theirs or [out])[0]} needs --engine spark, and so does --key.")
    if len(theirs) != len(paths):
        raise ValueError(
            "collect: expected addresses that Spark reads, such as file:/data, got a path of this machine."
        )
    return frame_of(engine.session, paths, delimiter), {"key": key}


def _tell(report: Report, out: Path | str, json: bool) -> None:
    if json:
        typer.echo(json_text(report.document() | {"out": str(out)}))
        return
    show.rows(report.heading, report.summary())
    show.conditions(report.guarantee.conditions())
    left = "Report, estimates and plot" if figure.can_draw() else "Report and estimates"
    show.say(f"\n{report.remark}\n{left} were written to {out}.")
    if report.alone():
        show.say(report.alone())
