"""A collection by one party: check, reserve, encode, shuffle, aggregate, report, release.

No message is written unless every value is as planned, the target is met and the ledger has room; a collection that is
refused leaves no job. Nothing is released before it is complete. Nothing is ever encoded twice with different
randomness.

A search, such as that for heavy hitters, runs several rounds. Each round is a collection of its own, is recorded in
the ledger, and can be killed and resumed like any other. Its questions are a function of the earlier releases, so only
the rounds themselves have to be accounted for. The output directory of a search holds::

    search.json     the plan, the input and all other arguments that the search began with
    round-1/ …      each round as ``collect`` writes it, with the plan of the next one
    report.json …   the files of the last round's report
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shuffledp._core.errors import GuaranteeTooWeak, InvalidArgument, ShuffledpError, error_phrase
from shuffledp._core.message_phrases import Argument, phrase
from shuffledp._core.results_and_value_objects import Progress
from shuffledp.collection import batch_processing
from shuffledp.collection.engine import Engine, EngineError, open_engine
from shuffledp.collection.estimate_tables import (
    DEFAULT_CONFIDENCE,
    DEFAULT_ESTIMATE_OPTIONS,
    EstimateOptions,
    OptionSelection,
)
from shuffledp.collection.input.base import Table, is_address, is_spark_frame
from shuffledp.collection.input.table_views import SampledTable
from shuffledp.collection.input.tables import check_column_names, open_input, prepare_table
from shuffledp.collection.message_files import BatchSpec
from shuffledp.collection.report import NEXT_PLAN_FILE, ONE_PARTY_TEXT, Report
from shuffledp.collection.resumable_job import JOB_FILE, MESSAGES_DIRECTORY, REPORT_FILE, Job, JobArguments
from shuffledp.ledger.collection_guarantee import Guarantee
from shuffledp.ledger.ledger import Ledger, choose_round
from shuffledp.ledger.storage import LedgerAddress, parse_location
from shuffledp.planning.plan import Plan
from shuffledp.storage import durable_files
from shuffledp.tasks.column_reader import Tally
from shuffledp.tasks.value_parsing import STRICT_RULES, Rules

# --- Searches over several rounds ---


SEARCH_FILE = "search.json"

RESUME_OR_DELETE = phrase("continue with {resume=True}, or delete it")


def run_request(request: CollectionRequest, engine: Engine) -> Report:
    """Runs a collection, or all rounds of a search."""
    return _run_all_rounds(request, engine) if request.plan.task.has_next_round else run_collection(request, engine)


def _run_all_rounds(request: CollectionRequest, engine: Engine) -> Report:
    """Runs every unfinished round in turn and returns the report of the last."""
    _require_same_rounds(request)
    plan: Plan | None = request.plan
    number, report, last = _first_round(request), None, request.out
    while plan is not None:
        last = request.out / f"round-{number}"
        if not (last / REPORT_FILE).exists():
            round_request = replace(
                request, plan=plan, out=last, round_number=number, resume=(last / "work").exists(),
                planned_rounds=plan.rounds - number + 1, option_selection=None,
            )  # fmt: skip
            report = run_collection(round_request, engine)
        plan, number = _load_next_plan(last), number + 1
    _publish(last, request.out)
    if report is None:
        raise ValueError(f"collect: {request.out} already holds a finished collection; choose another directory.")
    return report


def _first_round(request: CollectionRequest) -> int:
    """Returns the number of the first round: the plan of a search says which round it is for."""
    return request.plan.round_numbers[0] if request.round_number is None else request.round_number


def _require_same_rounds(request: CollectionRequest) -> None:
    """Raises ValueError if the output directory holds a search that began with other arguments."""
    out, path = request.out, request.out / SEARCH_FILE
    arguments = {
        "plan": request.plan.document(),
        "columns": list(request.columns),
        "rule for cells": request.rules.document(),
        "input": request.table.fingerprint(),
        "confidence or post-processing": request.estimate_options.to_document(),
    }
    text = json.dumps(arguments, sort_keys=True)
    if not path.exists():
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise ValueError(f"collect: expected a new or empty directory, got {out}.")
        request.plan.identity(_first_round(request))
        durable_files.make_directory(out)
        durable_files.create_atomically(path, text.encode())
        return
    if not request.resume:
        raise InvalidArgument("collect", f"{out} holds an unfinished search", hint=RESUME_OR_DELETE)
    before = json.loads(path.read_text(encoding="utf-8"))
    changed = [name for name, value in json.loads(text).items() if before.get(name, {}) != value]
    if changed:
        raise ValueError(f"collect: the {changed[0]} is not the one that the search in {out} began with.")


def _load_next_plan(directory: Path) -> Plan | None:
    path = directory / NEXT_PLAN_FILE
    return Plan.load(path) if path.exists() else None


def _publish(last: Path, out: Path) -> None:
    """Copies the files of the last round's report, but not its messages, to the output directory."""
    files = [path for path in last.iterdir() if path.is_file()]
    for path in sorted(files, key=lambda path: (path.name == REPORT_FILE, path.name)):
        durable_files.replace_atomically(out / path.name, path.read_bytes())


# --- collect ---


def collect(
    plan: Plan | str | os.PathLike[str],
    data: Any,
    column: str | Sequence[str] | None = None,
    *,
    out: str | os.PathLike[str],
    user: str | None = None,
    rows_per_user: int = 1,
    engine: str | Engine = "embedded",
    ledger: str | os.PathLike[str] | None = None,
    allow_weaker: bool = False,
    resume: bool = False,
    round_number: int | None = None,
    drawn: bool = False,
    rules: Rules = STRICT_RULES,
    delimiter: str | None = None,
    gather: bool = False,
    options: Any = None,
    key: str | Sequence[str] | None = None,
    confidence: float = DEFAULT_CONFIDENCE,
    post: str | None = None,
    progress: Progress | None = None,
) -> Report:
    """Runs a plan on data: randomizes every value, shuffles the messages, estimates and reports.

    A search, such as that for heavy hitters, runs all its rounds one after the other, each in its own directory
    ``round-1``, … The caller sees the raw data; ``encode``, ``shuffle`` and ``estimate`` divide that trust.

    Args:
        plan: A plan, or the path of its file.
        data: One row per user: the path of a CSV, Parquet or Arrow file or of a directory of them, several such paths,
            a data frame, series, table or array of pandas, polars or pyarrow, or a Spark data frame
            (``shuffledp.spark.collect`` has more options for those).
        column: Name of the column with the users' values, or several names if the task reads several columns. Optional
            if the data have only one column.
        out: New directory for messages, estimates and report.
        user: Name of the column that identifies the user of each row. Without it, each row is taken as one person.
        rows_per_user: Number of rows used per user, the first ones in the order of the input.
        engine: "embedded" (this process), "spark", or a running engine.
        ledger: Path of the ledger that records the privacy loss of the population; None to keep none.
        allow_weaker: If True, continues even if there are too few users to meet the target.
        resume: If True, resumes a collection that was killed.
        round_number: Number of the plan's round. The default is the next round that is free in the ledger; a plan of
            several rounds needs it if there is no ledger.
        drawn: If the plan samples its users, ``data`` holds by default the whole population, and the sample is drawn
            here, secretly. If True, ``data`` holds only the users who were sampled already; nobody may learn who they
            are.
        rules: How to treat cells that are not as planned.
        delimiter: Field separator of a CSV file.
        gather: If True, all rows of a user form one list; for tasks that take lists.
        options: The options to report, by label or number, for the task frequency. Only these are decoded, so the
            domain may have any size.
        key: Columns that distinguish the rows of a Spark data frame.
        confidence: Probability that an interval holds the true value, for each interval by itself.
        post: Post-processing, reported beside the estimates: "non-negative", "adds-up" (to the number of users) or
            "consistent".
        progress: Receives the progress of each step.

    Returns:
        The report, which is also written to ``out``.

    Raises:
        ValueError: If an argument or a value of the data is not as planned, ``out`` is in use, the input changed during
            the collection, or the ledger refuses the round.
        GuaranteeTooWeak: If there are too few users to meet the target, or the budget has no room for the round.
        EngineError: If a step fails after values were encoded; completed work is kept for ``resume``.

    >>> import pyarrow, tempfile
    >>> from shuffledp.mechanisms.frequency.randomized_response import KRR
    >>> from shuffledp.tasks.counts_and_frequencies import Frequency
    >>> plan = Plan(Frequency(["red", "green"]), KRR(2.0, 2), users=1000, epsilon=1.0, delta=1e-6)
    >>> with tempfile.TemporaryDirectory() as room:
    ...     report = collect(plan, pyarrow.array(["red", "green"] * 500), out=f"{room}/result")
    >>> report.guarantee.is_target_met
    True
    """
    if is_spark_frame(data):
        return _collect_from_frame(
            data, plan, column, user, gather, delimiter, out=out, engine="spark" if engine == "embedded" else engine,
            ledger=ledger, allow_weaker=allow_weaker, resume=resume, round_number=round_number, drawn=drawn,
            rules=rules, options=options, key=key, confidence=confidence, post=post, progress=progress,
        )  # fmt: skip
    if is_address(out):
        raise ValueError(f"collect: only Spark writes to {out}, from a Spark data frame or addresses that it reads.")
    if key is not None:
        raise ValueError("collect: key is for Spark data frames; rows of other data are identified by their order.")
    plan, location = Plan.load_if_path(plan), None if ledger is None else parse_location(ledger)
    with open_engine(engine, progress) as running_engine:
        names = plan.task.resolve_columns(check_column_names(column))
        table = open_input(data, names, user, rows_per_user, delimiter, gather)
        reader = plan.column(*table.choose_columns(names), rules=rules)
        request = CollectionRequest(
            plan, prepare_table(table, reader, user, gather), reader.names, Path(out), location, allow_weaker, resume,
            round_number, drawn, rules, OptionSelection.from_options("collect", plan, options),
            estimate_options=EstimateOptions.from_arguments(
                "collect", confidence, post, plan.task, whole=options is None
            ),
        )  # fmt: skip
        return run_request(request, running_engine)


def _collect_from_frame(
    data: Any, plan: Any, column: Any, user: str | None, gather: bool, delimiter: str | None, **others: Any
) -> Report:
    """Collects from a Spark data frame, with Spark."""
    from shuffledp.spark.collection import collect as collect_frame

    if user is not None or gather or delimiter is not None:
        raise ValueError(
            "collect: user, gather and delimiter are not for Spark data frames; choose each person's rows in Spark."
        )
    return collect_frame(data, plan, column, **others)


@dataclass(frozen=True)
class CollectionRequest:
    """The checked arguments of a collection."""

    plan: Plan
    table: Table
    columns: tuple[str, ...]
    out: Path
    ledger: Path | LedgerAddress | None = None
    allow_weaker: bool = False
    resume: bool = False
    round_number: int | None = None
    """Number of the plan's round; None is the next one that is free in the ledger."""
    already_sampled: bool = False
    rules: Rules = STRICT_RULES
    option_selection: OptionSelection | None = None
    """The options to report; None selects all of them."""
    planned_rounds: int = 1
    """Number of rounds that the budget must have room for before this one begins."""
    estimate_options: EstimateOptions = DEFAULT_ESTIMATE_OPTIONS

    @property
    def checked_selection(self) -> OptionSelection:
        """The options to report, after checking that all of them fit into memory if none are selected."""
        if self.option_selection is None:
            return OptionSelection.from_options("collect", self.plan)
        return self.option_selection

    @property
    def draws_sample(self) -> bool:
        """True if the collection has to draw a sample of the rows."""
        if self.already_sampled and not self.plan.participation.is_sampled:
            raise InvalidArgument(
                "collect",
                phrase("is for plans whose users are drawn out of more people ({of})"),
                parameter=Argument("drawn"),
            )
        return self.plan.participation.is_sampled and not self.already_sampled


class InputChanged(ValueError):
    """The input differs from the one that was checked first; none of the work can be used."""


def run_collection(request: CollectionRequest, engine: Engine) -> Report:
    """Runs a collection, or the rest of one that was killed."""
    ledger = None if request.ledger is None else Ledger(request.ledger)
    job = _find_unfinished_job(request, engine, ledger)
    if job is None:
        job, guarantee = _begin_job(request, engine, ledger)
    else:
        guarantee = _build_guarantee(
            job.plan, job.arguments.round_number, job.rows, request.table, job.arguments.draws_sample
        )
        guarantee.require_target(request.allow_weaker)
    with job.lock(), _keep_work(job, ledger):
        if ledger is not None:
            ledger.reserve(job.id, guarantee)
        report = _run_steps(job, request.table, request.checked_selection, guarantee, engine, ledger)
        engine.deliver_report(job.release_directory)
        job.publish()
    return report


def _begin_job(request: CollectionRequest, engine: Engine, ledger: Ledger | None) -> tuple[Job, Guarantee]:
    """Begins a new job if all values are as planned and the target is met."""
    plan, table, draws_sample = request.plan, request.table, request.draws_sample
    options = request.checked_selection.indices()
    if ledger is None or request.round_number is not None:
        choose_round("collect", plan, request.round_number, None)
    engine.prepare()
    fingerprint = table.fingerprint()
    # Check all rows, sampled or not: an error about a bad value must not depend on who was sampled.
    column = plan.column(*request.columns, rules=request.rules)
    rows = engine.check(table, column)
    if rows == 0:
        raise ValueError(f"input: expected at least one row, got none in {table.place}.")
    guarantee = _build_guarantee(plan, None, rows, table, draws_sample)
    guarantee.require_target(request.allow_weaker)
    # Chosen last, because no round is needed if there are too few users.
    number = choose_round("collect", plan, request.round_number, ledger)
    guarantee = guarantee.with_round(number)
    if ledger is not None:
        ledger.check_round_is_free(plan, number)
        if request.planned_rounds > 1:
            ledger.check_budget(guarantee, request.planned_rounds)
    tally = engine.count_changed_values(table, column) if request.rules.changes_values else Tally()
    head = None if ledger is None else ledger.head().to_document()
    arguments = JobArguments(
        plan, number, request.columns, fingerprint, rows, head, options, draws_sample, request.rules, tally,
        request.estimate_options,
    )  # fmt: skip
    return Job.begin(request.out, arguments, engine.name), guarantee


def _build_guarantee(plan: Plan, number: int | None, rows: int, table: Table, draws_sample: bool) -> Guarantee:
    """Returns the guarantee of a round whose users are all rows, or a sample of them."""
    if not draws_sample:
        return Guarantee(plan, rows, table.per_person, has_user_ids=table.has_user_ids, round_number=number)
    planned = plan.participation
    users = min(rows, planned.expected_users) if planned.rate is None else math.floor(planned.rate * rows)
    return Guarantee(plan, users, table.per_person, rows, table.has_user_ids, round_number=number)


@contextmanager
def _keep_work(job: Job, ledger: Ledger | None) -> Iterator[None]:
    """Keeps completed work, to be resumed, if the collection fails; deletes work that cannot be used."""
    try:
        yield
    except InputChanged:
        _abandon(job, ledger)
        raise
    except durable_files.ForeignFile:
        # Do not delete files that others could have changed.
        raise
    except Exception as error:
        if not job.has_begun:
            # Nothing was encoded, so nothing is lost.
            _abandon(job, ledger)
            raise
        kind = type(error) if isinstance(error, GuaranteeTooWeak) else EngineError
        stopped = f"collect: stopped by {type(error).__name__}"
        reason = error_phrase(error).without_period() if str(error) else stopped
        raise kind(phrase("{reason}; completed work is kept: continue with {resume=True}.", reason=reason)) from error


def _find_unfinished_job(request: CollectionRequest, engine: Engine, ledger: Ledger | None) -> Job | None:
    """Returns the job to resume, or None to begin a new one; raises ValueError if the directory allows neither."""
    out = request.out
    if out.exists() and not out.is_dir():
        raise ValueError(f"collect: expected a directory for the output, got the file {out}.")
    job = Job.find_unfinished(out)
    if job is None:
        names = [] if not out.exists() else sorted(path.name for path in out.iterdir() if path.name != "work")
        if REPORT_FILE in names:
            durable_files.remove_tree(out / "work")
            raise ValueError(f"collect: {out} already holds a finished collection; choose another directory.")
        if names:
            raise ValueError(f"collect: expected an empty directory, but {out} has {names[0]!r}.")
        work = out / "work"
        if work.is_dir() and any(not path.name.startswith(JOB_FILE) for path in work.iterdir()):
            # These may be messages of another plan.
            raise ValueError(f"collect: {work} holds work without a description; delete it.")
        return None
    if not request.resume:
        raise InvalidArgument("collect", f"{out} holds an unfinished collection", hint=RESUME_OR_DELETE)
    _require_same_request(job, request, engine, ledger)
    return job


def _require_same_request(job: Job, request: CollectionRequest, engine: Engine, ledger: Ledger | None) -> None:
    """Raises ValueError if the job to resume began with other arguments."""
    began = job.arguments
    same = {
        "plan": (began.plan, request.plan),
        "round": (began.round_number, began.round_number if request.round_number is None else request.round_number),
        "column": (began.columns, request.columns),
        "input": (dict(began.input_fingerprint), request.table.fingerprint()),
        "engine": (job.engine, engine.name),
        "ledger": (began.ledger is None, ledger is None),
        "sample": (began.draws_sample, request.draws_sample),
        "rule for cells": (began.rules, request.rules),
        "confidence or post-processing": (began.estimate_options, request.estimate_options),
        "list of options": (request.checked_selection.has_indices(began.options), True),
    }
    changed = [name for name, (before, now) in same.items() if before != now]
    if changed:
        raise ValueError(f"collect: the {changed[0]} is not the one that the collection in {job.out} began with.")
    if ledger is not None and began.ledger is not None:
        ledger.check_contains(began.ledger, "collect")


def _run_steps(
    job: Job, table: Table, selection: OptionSelection, guarantee: Guarantee, engine: Engine, ledger: Ledger | None
) -> Report:
    """Runs all steps before the release, from the first unfinished one."""
    mechanism, column = job.plan.mechanism, job.plan.column(*job.arguments.columns, rules=job.arguments.rules)
    if not job.is_shuffled:
        with _convert_input_errors():
            rows_to_encode, users = table, job.rows
            if job.arguments.draws_sample:
                rows_to_encode = SampledTable.draw(table, job.rows, job.plan.participation, job.load_key())
                users = rows_to_encode.sample_size
            spec = _build_batch_spec(job, users, guarantee)
            engine.encode(rows_to_encode, column, job.load_key(), spec, job.encoded_directory)
            if table.fingerprint() != dict(job.arguments.input_fingerprint):
                raise ValueError("input: the file has changed during the collection.")
        batch_processing.add_noise(mechanism, job.load_key(), job.encoded_directory)
        engine.shuffle(job.encoded_directory, spec, job.shuffled_directory)
    job.forget_order()
    shuffled = job.shuffled_directory if job.shuffled_directory.exists() else job.out / MESSAGES_DIRECTORY
    manifest = engine.manifest(shuffled)
    users, spec = manifest.users, _build_batch_spec(job, manifest.users, guarantee)
    guarantee = guarantee.with_users(users).with_certificate()
    total = engine.aggregate(mechanism, shuffled, manifest.messages, selection.estimator)
    if (total.messages, total.refused) != (manifest.messages, 0) or not spec.allows_total_messages(total.messages):
        raise EngineError(f"collect: expected {manifest.messages} shuffled messages, got {total.messages}.")
    estimate = selection.estimator.finish(total.statistic, users)
    arguments = job.arguments
    report = Report(
        guarantee, estimate, arguments.estimate_options.quantities(selection, estimate), ONE_PARTY_TEXT, engine.name,
        None if ledger is None else ledger.budget_statuses(job.plan.population, job.plan.delta)[0],
        table.count_rows(job.rows), rules=arguments.rules, tally=arguments.tally, selected_count=selection.count,
        estimate_options=arguments.estimate_options, columns=arguments.columns,
    )  # fmt: skip
    if not job.is_reported:
        with durable_files.create_atomic_directory(job.release_directory) as unfinished:
            report.write(unfinished)
    if ledger is not None:
        # Everything to be released is on disk, and nothing is released yet.
        ledger.settle(job.id, guarantee, manifest.digest)
    return report


def _build_batch_spec(job: Job, users: int, guarantee: Guarantee) -> BatchSpec:
    return BatchSpec.from_plan(job.plan, job.arguments.round_number, users, guarantee.per_person)


@contextmanager
def _convert_input_errors() -> Iterator[None]:
    """Raises InputChanged for a bad value, since the first check did not find it."""
    try:
        yield
    except (EngineError, OSError):
        raise
    except (ValueError, TypeError) as error:
        raise InputChanged(error_phrase(error)) from error


def _abandon(job: Job, ledger: Ledger | None) -> None:
    """Deletes the job and gives back its reservation: nothing was released, so nothing was spent."""
    with suppress(ValueError, ShuffledpError, OSError):
        if ledger is not None and ledger.has_reserved(job.id):
            ledger.give_back(job.id)
    job.abandon()
