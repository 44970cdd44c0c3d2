"""``shuffledp collect``, its roles ``encode``, ``shuffle``, ``release`` and ``estimate``, and ``shuffledp ask``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from shuffledp import collection
from shuffledp._core import plotting
from shuffledp._core.formatting import format_json, format_percentage
from shuffledp.cli import options, output
from shuffledp.cli.ledger import LedgerOption, NoLedger, Round, resolve_ledger
from shuffledp.cli.options import InputOptions, takes_input
from shuffledp.cli.output import ProgressBars
from shuffledp.collection import estimate_tables, message_files
from shuffledp.collection.collect import collect
from shuffledp.collection.engine import Engine, open_engine
from shuffledp.collection.estimate_tables import DEFAULT_CONFIDENCE
from shuffledp.collection.input.base import is_address
from shuffledp.collection.message_files import EncodedFile
from shuffledp.collection.report import Report, ask
from shuffledp.ledger.ledger import choose_round
from shuffledp.planning.plan import Plan
from shuffledp.service.campaign import Campaign
from shuffledp.service.sealing import CampaignSealer
from shuffledp.spark.engine import Spark
from shuffledp.spark.frame_table import is_for_spark, read_frame
from shuffledp.tasks.base import POST_PROCESSING_METHODS
from shuffledp.tasks.domain import read_lines

# --- shuffledp ask ---


RANGE_SEPARATOR = "\x1f"
"""Joins the two ends of a range into one word for the parser; no label contains it."""


class TakesRanges(TyperCommand):
    """A command that takes two words after every ``--range``; the parser supports lists of single words only."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        joined: list[str] = []
        left = list(args)
        while left:
            word = left.pop(0)
            joined.append(word)
            if word == "--range" and len(left) < 2:
                raise ValueError(f"ask: --range takes the first and the last value, got {' '.join(left) or 'nothing'}.")
            if word == "--range":
                joined.append(RANGE_SEPARATOR.join((left.pop(0), left.pop(0))))
        return super().parse_args(ctx, joined)


def ask_command(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The directory that `collect` or `estimate` wrote.")],
    range_: Annotated[
        list[str] | None,
        typer.Option(
            "--range", metavar="FIRST LAST", help="Count the users from FIRST to LAST, both included; repeatable."
        ),
    ] = None,
    quantile: Annotated[
        list[float] | None,
        typer.Option(
            parser=options.number,
            metavar="SHARE",
            help="Find the first value that this share of users, such as 50% or 0.5, do not exceed; repeatable.",
        ),
    ] = None,
    confidence: options.Confidence = DEFAULT_CONFIDENCE,
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """Query a finished collection of ranges, which costs no privacy.

    Values are named as in the domain. Both ends of a range are included.
    """
    if not range_ and not quantile:
        raise ValueError("ask: expected --range FIRST LAST or --quantile SHARE, got neither.")
    ends = [pair.split(RANGE_SEPARATOR) for pair in range_ or ()]
    ranges = [(first, last) for first, last in ends]
    answers = ask(directory, ranges=ranges, quantiles=quantile or (), confidence=confidence)
    if json:
        typer.echo(format_json({"confidence": confidence, "answers": [answer.document() for answer in answers]}))
        return
    rows = []
    for answer in answers:
        summary = dict(answer.summary())
        first = summary.get("users", summary.get("value", ""))
        rows.append((answer.heading, f"{first}  ({summary['interval']})"))
    output.print_rows(f"Answers, with {format_percentage(confidence)} intervals", rows)


RESHUFFLE_WARNING = (
    "The guarantee holds only if these files are never shuffled again together with others, here or elsewhere: the "
    "difference would reveal the others' messages."
)
Reservation = Annotated[
    str | None, typer.Option("--reservation", help="Id from `ledger reserve`, to settle with the users who took part.")
]
PlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="The plan file.")]
OptionsFile = Annotated[
    Path | None, typer.Option("--options", help="Only these options, one a line, of a domain of any size (frequency).")
]
PostProcessing = Annotated[
    str | None,
    typer.Option(
        "--post",
        metavar="WAY",
        help="Post-processing, shown beside the estimates: " + ", ".join(POST_PROCESSING_METHODS) + ".",
    ),
]
Results = Annotated[
    Path | None, typer.Option("--results", help="Write the table of estimates here, too: .csv, .parquet or .json.")
]
AllowWeaker = Annotated[
    bool, typer.Option("--allow-weaker", help="Continue even if there are too few users to meet the target.")
]
RoundOfMessages = Annotated[
    int | None, typer.Option("--round", help="Number of the plan's round; by default the round of the messages.")
]
RoundEncoded = Annotated[
    int | None, typer.Option("--round", help="Number of the plan's round; required if the plan has several.")
]
SampledInput = Annotated[
    bool,
    typer.Option("--drawn", help="The input is a sample that was drawn already; it must remain secret who is in it."),
]
SealingCampaign = Annotated[
    Path | None, typer.Option("--seal", metavar="CAMPAIGN", help="Seal each message to this campaign's analyst.")
]
EngineName = Annotated[str, typer.Option("--engine", help="embedded (this machine) or spark.")]
Key = Annotated[
    list[str] | None,
    typer.Option(
        "--key", help="With spark: the column that distinguishes rows if their place in files does not; repeatable."
    ),
]
Master = Annotated[str | None, typer.Option("--master", help="Spark's master; all cores of this machine by default.")]


# --- shuffledp collect, and the roles encode, shuffle, release and estimate ---


@takes_input
def collect_command(
    plan: PlanFile,
    source: InputOptions,
    out: Annotated[
        str, typer.Option("--out", help="A new directory for messages, estimates and report; with spark any address.")
    ],
    engine: EngineName = "embedded",
    master: Master = None,
    key: Key = None,
    ledger: LedgerOption = None,
    no_ledger: NoLedger = False,
    allow_weaker: AllowWeaker = False,
    resume: Annotated[bool, typer.Option("--resume", help="Resume a collection that was killed.")] = False,
    round_number: Round = None,
    drawn: SampledInput = False,
    report_file: options.Report = None,
    options_file: OptionsFile = None,
    confidence: options.Confidence = DEFAULT_CONFIDENCE,
    post: PostProcessing = None,
    results: Results = None,
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """Collect privately: encode, shuffle, aggregate, report. This party sees the raw data."""
    options.check_report_path("collect", report_file)
    estimate_tables.check_output_path("collect", results)
    loaded_plan = Plan.load(plan)
    ledger_location = resolve_ledger("collect", ledger, no_ledger, loaded_plan)
    with open_engine(engine, ProgressBars(), master) as started:
        data, spark_arguments = _open_input(started, source.paths, source.delimiter, key, out)
        report = collect(
            loaded_plan, data, source.columns, out=out, user=source.user, rows_per_user=source.rows_per_user,
            engine=started, ledger=ledger_location, allow_weaker=allow_weaker, resume=resume, round_number=round_number,
            drawn=drawn, rules=source.rules, gather=source.gather, options=_read_options("collect", options_file),
            confidence=confidence, post=post, **spark_arguments,
        )  # fmt: skip
    _print_report(report, out, json)
    _write_statement("collect", report, report_file)
    _write_results("collect", report, results)


@takes_input
def encode(
    plan: PlanFile,
    source: InputOptions,
    out: Annotated[Path, typer.Option("--out", help="A new file of messages, for the shuffler.")],
    round_number: RoundEncoded = None,
    drawn: SampledInput = False,
    seal: SealingCampaign = None,
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """Randomize values into messages, in the role of the encoder. It sees no data of others."""
    loaded_plan = Plan.load(plan)
    users = collection.encode(
        loaded_plan, source.paths, source.columns, out=out, user=source.user, rows_per_user=source.rows_per_user,
        round_number=round_number, drawn=drawn, rules=source.rules, delimiter=source.delimiter, gather=source.gather,
        wrapper=_build_sealer("encode", seal, round_number), progress=ProgressBars(),
    )  # fmt: skip
    messages = EncodedFile.open(out).messages
    if json:
        typer.echo(format_json({"users": users, "messages": messages, "out": str(out)}))
    else:
        output.print_text(f"{messages:,} messages in {out}: give them to the shuffler, and to nobody else.")
        if loaded_plan.mechanism.message_plan.has_shuffler_noise:
            output.print_text("They are not private until the shuffler has added the plan's noise.")


def shuffle(
    inputs: Annotated[list[Path], typer.Argument(metavar="MESSAGES", help="Files from `shuffledp encode`.")],
    out: Annotated[Path, typer.Option("--out", help="A new directory for the shuffled messages.")],
    plan: Annotated[
        Path | None, typer.Option("--plan", help="Require enough messages for this plan, and charge the ledger.")
    ] = None,
    ledger: LedgerOption = None,
    no_ledger: NoLedger = False,
    reservation: Reservation = None,
    allow_weaker: AllowWeaker = False,
    round_number: RoundOfMessages = None,
    sealed: Annotated[
        Path | None, typer.Option("--sealed", metavar="CAMPAIGN", help="With --plan: the messages are sealed to it.")
    ] = None,
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """Remove order and origin of messages, in the role of the shuffler. It cannot read sealed messages."""
    if reservation is not None and plan is None:
        raise ValueError("shuffle: --reservation needs --plan.")
    if sealed is not None and plan is None:
        raise ValueError("shuffle: --sealed needs --plan; without a plan sealed messages are mixed as any others.")
    # Without a plan, the privacy loss of the messages is unknown.
    ledger_location = None if plan is None else resolve_ledger("shuffle", ledger, no_ledger, Plan.load(plan))
    messages = collection.shuffle(
        inputs,
        out=out,
        plan=plan,
        ledger=ledger_location,
        reservation=reservation,
        allow_weaker=allow_weaker,
        round_number=round_number,
        wrapper=_build_sealer("shuffle", sealed, round_number, inputs),
        progress=ProgressBars(),
    )
    if json:
        typer.echo(format_json({"messages": messages, "out": str(out)}))
    else:
        output.print_text(
            f"{messages:,} messages, shuffled, in {out}: give them to the analyst, and delete the input files."
        )
        if plan is None:
            output.print_text("Without --plan, the number of messages was not checked, and no ledger was kept.")
        if ledger_location is None:
            output.print_text(RESHUFFLE_WARNING)


def release(
    plan: Annotated[
        Path, typer.Option("--plan", help="The plan file, for counts over time with noise of the shuffler.")
    ],
    day: Annotated[str, typer.Option("--day", help="The day that is over, named as in the plan's domain.")],
    state: Annotated[
        Path, typer.Option("--state", help="The shuffler's own directory, with the messages of later days.")
    ],
    out: Annotated[Path, typer.Option("--out", help="The public directory, with a directory for each day.")],
    inputs: Annotated[
        list[Path] | None, typer.Argument(metavar="[MESSAGES]...", help="The day's files from `shuffledp encode`.")
    ] = None,
    ledger: LedgerOption = None,
    no_ledger: NoLedger = False,
    allow_weaker: AllowWeaker = False,
    round_number: RoundOfMessages = None,
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """Release the messages of one day, in the role of the shuffler. All days are charged once."""
    ledger_location = resolve_ledger("release", ledger, no_ledger, Plan.load(plan))
    released = collection.release(
        inputs or [], plan=plan, day=day, state=state, out=out, ledger=ledger_location, allow_weaker=allow_weaker,
        round_number=round_number, progress=ProgressBars(),
    )  # fmt: skip
    if json:
        typer.echo(format_json(asdict(released) | {"out": str(out)}))
        return
    output.print_text(
        f"Day {day}: {released.messages:,} messages, including noise, are public in {out}; delete the input files."
    )
    rejected = {"rows that are no messages": released.refused, "messages of another day": released.astray,
             "messages too few or too many": released.missing}  # fmt: skip
    text = ", ".join(f"{number:,} {words}" for words, number in rejected.items() if number)
    if text:
        output.print_text(f"For the shuffler alone: {text}.")


def estimate(
    plan: PlanFile,
    messages: Annotated[Path, typer.Option("--input", help="The directory from `shuffledp shuffle` or `release`.")],
    out: Annotated[Path, typer.Option("--out", help="A new directory for estimates and report.")],
    ledger: LedgerOption = None,
    no_ledger: NoLedger = False,
    reservation: Reservation = None,
    allow_weaker: AllowWeaker = False,
    round_number: RoundOfMessages = None,
    report_file: options.Report = None,
    options_file: OptionsFile = None,
    confidence: options.Confidence = DEFAULT_CONFIDENCE,
    post: PostProcessing = None,
    results: Results = None,
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """Write a report from shuffled messages, in the role of the analyst. Estimates come with intervals."""
    options.check_report_path("estimate", report_file)
    estimate_tables.check_output_path("estimate", results)
    loaded_plan = Plan.load(plan)
    ledger_location = resolve_ledger("estimate", ledger, no_ledger, loaded_plan)
    report = collection.estimate(
        loaded_plan, messages, out=out, ledger=ledger_location, reservation=reservation, allow_weaker=allow_weaker,
        round_number=round_number, options=_read_options("estimate", options_file), confidence=confidence, post=post,
        progress=ProgressBars(),
    )  # fmt: skip
    _print_report(report, out, json)
    _write_statement("estimate", report, report_file)
    _write_results("estimate", report, results)


def _write_statement(who: str, report: Report, path: Path | None) -> None:
    """Writes the statement of the guarantee if a path is given."""
    if path is not None:
        options.write_statement(who, report.guarantee.statement(options.format_command_line()), path)


def _write_results(who: str, report: Report, path: Path | None) -> None:
    """Writes the estimates as a table if a path is given."""
    if path is not None:
        try:
            report.save(path)
        except OSError as error:
            raise ValueError(f"{who}: could not write the results to {path}: {error.strerror}.") from None
        output.print_written_path("table of results", path)


def _read_options(who: str, file: Path | None) -> tuple[str, ...] | None:
    """Returns the options listed in a file, or None without a file."""
    return None if file is None else read_lines(file, who)


def _build_sealer(
    who: str, file: Path | None, round_number: int | None, messages: Sequence[Path] = ()
) -> CampaignSealer | None:
    """Returns the sealing of messages to a campaign's analyst; the messages determine the round if none is given."""
    if file is None:
        return None
    campaign = Campaign.load(file)
    for path in messages if round_number is None else ():
        sealer = CampaignSealer.from_identity(
            campaign, EncodedFile.open(message_files.list_encoded_files(path)[0]).plan
        )
        return sealer or CampaignSealer(campaign, campaign.plan.round_numbers[0])
    return CampaignSealer(campaign, choose_round(who, campaign.plan, round_number, None))


def _open_input(
    engine: Engine, paths: tuple[str, ...], delimiter: str | None, key: list[str] | None, out: str
) -> tuple[Any, dict[str, Any]]:
    """Returns the input for ``collect`` and further arguments; Spark reads addresses and tables itself."""
    spark_paths = [path for path in paths if is_for_spark(path)]
    if not spark_paths and not is_address(out) and not key:
        return paths, {"delimiter": delimiter}
    if not isinstance(engine, Spark):
        raise ValueError(f"collect: {(spark_paths or [out])[0]} needs --engine spark, and so does --key.")
    if len(spark_paths) != len(paths):
        raise ValueError(
            "collect: expected addresses that Spark reads, such as file:/data, got a path of this machine."
        )
    return read_frame(engine.session, paths, delimiter), {"key": key}


def _print_report(report: Report, out: Path | str, json: bool) -> None:
    if json:
        typer.echo(format_json(report.document() | {"out": str(out)}))
        return
    output.print_rows(report.heading, report.summary())
    output.print_conditions(report.guarantee.conditions())
    files = "Report, estimates and plot" if plotting.has_matplotlib() else "Report and estimates"
    output.print_text(f"\n{report.remark}\n{files} were written to {out}.")
    if report.private_counts_text():
        output.print_text(report.private_counts_text())
