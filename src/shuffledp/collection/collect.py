"""A whole collection by one party: check, reserve, encode, shuffle, aggregate, report, release.

Nothing is written unless every value is good, the target is met and the ledger agrees. Nothing is released before it
is complete. Nothing is ever encoded twice with different randomness.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shuffledp.collection.engine.engine import Engine, EngineFailed
from shuffledp.collection.engine.register import running
from shuffledp.collection.guarantee import Guarantee
from shuffledp.collection.input.given_data import table_of
from shuffledp.collection.input.table import Table
from shuffledp.collection.job import JOB, MESSAGES, REPORT, Job, whole_directory
from shuffledp.collection.ledger import Ledger, Standing
from shuffledp.collection.report import CONFIDENCE, ONE_PARTY, Report
from shuffledp.errors import ShuffledpError
from shuffledp.planner.plan_file import Plan
from shuffledp.progress import Progress


def collect(
    plan: Plan | str | os.PathLike[str],
    data: Any,
    column: str | None = None,
    *,
    out: str | os.PathLike[str],
    user: str | None = None,
    rows_per_user: int = 1,
    engine: str | Engine = "embedded",
    ledger: str | os.PathLike[str] | None = None,
    allow_weaker: bool = False,
    resume: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Run a plan on data: randomize every value, shuffle the messages, estimate and report.

    ``plan`` is a plan or the path of its file. ``data`` has a row per user: the path of a .parquet or .csv file or of a
    directory of .parquet files, or a data frame, series, table or array of pandas, polars or pyarrow; ``column`` names
    the column with the users' values, and may be left out where there is but one. ``user`` names the column that says
    whose each row is: of each user the first ``rows_per_user`` rows in the order of the input are used; without it each
    row is taken as one person. ``out`` is a new directory for messages, estimates and report. ``engine`` is "embedded"
    (this process), "spark" or a running engine; ``ledger`` the path of the ledger of what was given, None to keep none.
    ``allow_weaker`` goes on even if too few users miss the target; ``resume`` goes on with one that was killed.
    ``progress`` is told how far it is.

    Whoever calls this sees the raw data: ``encode``, ``shuffle`` and ``estimate`` divide that trust.

    >>> import pyarrow, tempfile
    >>> from shuffledp.mechanisms.frequency.krr import KRR
    >>> from shuffledp.tasks.frequency import Frequency
    >>> plan = Plan(Frequency(["red", "green"]), KRR(2.0, 2), users=1000, epsilon=1.0, delta=1e-6)
    >>> with tempfile.TemporaryDirectory() as room:
    ...     report = collect(plan, pyarrow.array(["red", "green"] * 500), out=f"{room}/result")
    >>> report.guarantee.kept
    True
    """
    chosen, kept = Plan.of(plan), None if ledger is None else Path(ledger)
    with running(engine, progress) as started:
        table = table_of(data, column, user, rows_per_user)
        request = Request(chosen, table, table.column_named(column), Path(out), kept, allow_weaker, resume)
        return run(request, started)


@dataclass(frozen=True)
class Request:
    """What is to be collected, and where to."""

    plan: Plan
    table: Table
    column: str
    out: Path
    ledger: Path | None = None
    allow_weaker: bool = False
    resume: bool = False


def run(request: Request, engine: Engine) -> Report:
    """Run a collection, or the rest of one that was killed."""
    column, table = request.plan.column(request.column), request.table
    ledger = None if request.ledger is None else Ledger(request.ledger)
    job = _left_behind(request, engine)
    if job is None:
        users = engine.check(table, column)
        if users == 0:
            raise ValueError(f"input: expected at least one row, got none in {table.place}.")
        guarantee = Guarantee(request.plan, users, table.per_person)
        guarantee.demand(request.allow_weaker)
        job = Job.begin(request.out, request.plan, request.column, table.fingerprint(), users, engine.name)
    else:
        guarantee = Guarantee(job.plan, job.users, table.per_person)
        guarantee.demand(request.allow_weaker)
    with job.alone():
        try:
            if ledger is not None:
                ledger.reserve(job.id, guarantee)
            report = _run(job, table, guarantee, engine, ledger)
        except (EngineFailed, OSError) as error:
            reason = str(error).rstrip(".")
            raise EngineFailed(f"{reason}; what is done is kept: go on with --resume.") from error
        except (ValueError, TypeError, ShuffledpError):
            # Nothing was released, so that nothing was spent.
            with suppress(ValueError):
                _abandon(job, ledger)
            raise
        if ledger is not None:
            ledger.release(job.id)
        job.publish()
    return report


def _left_behind(request: Request, engine: Engine) -> Job | None:
    """The job to go on with; None to begin a new one; a sentence where neither is right."""
    out = request.out
    if out.exists() and not out.is_dir():
        raise ValueError(f"collect: expected a directory for the output, got the file {out}.")
    job = Job.unfinished(out)
    if job is None:
        left = [] if not out.exists() else sorted(path.name for path in out.iterdir() if path.name != "work")
        if REPORT in left:
            shutil.rmtree(out / "work", ignore_errors=True)
            raise ValueError(f"collect: {out} already holds a finished collection; choose another directory.")
        if left:
            raise ValueError(f"collect: expected an empty directory, but {out} has {left[0]!r}.")
        work = out / "work"
        if work.is_dir() and any(not path.name.startswith(JOB) for path in work.iterdir()):
            # Messages of another plan, for all that is known.
            raise ValueError(f"collect: {work} holds work of which nothing is known any more; delete it.")
        return None
    if not request.resume:
        raise ValueError(f"collect: {out} holds an unfinished collection; go on with --resume, or delete it.")
    same = {
        "plan": (job.plan, request.plan),
        "column": (job.column, request.column),
        "input": (dict(job.source), request.table.fingerprint()),
        "engine": (job.engine, engine.name),
    }
    changed = [name for name, (before, now) in same.items() if before != now]
    if changed:
        raise ValueError(f"collect: the {changed[0]} is not the one that the collection in {out} began with.")
    return job


def _run(job: Job, table: Table, guarantee: Guarantee, engine: Engine, ledger: Ledger | None) -> Report:
    """Everything up to the report, from where it stands."""
    column = job.plan.column(job.column)
    mechanism = job.plan.mechanism
    messages = job.users * mechanism.messages_per_user
    if not job.is_shuffled:
        engine.encode(table, column, job.key(), job.users, job.encoded)
        if table.fingerprint() != dict(job.source):
            raise ValueError("input: the file has changed during the collection.")
        engine.shuffle(job.encoded, mechanism.message_bytes, job.shuffled, messages)
    job.forget_order()
    shuffled = job.shuffled if job.shuffled.exists() else job.out / MESSAGES
    total, found = engine.aggregate(mechanism, shuffled, messages)
    if found != messages:
        raise ValueError(f"collect: expected {messages} shuffled messages, got {found}.")
    estimate = mechanism.finish(total, job.users)
    quantities = column.quantities(estimate, CONFIDENCE)
    rows = table.counted(job.users)
    report = Report(guarantee, estimate, quantities, ONE_PARTY, engine.name, _standing(job, ledger), rows)
    if not job.is_reported:
        with whole_directory(job.release) as unfinished:
            report.write(unfinished)
    return report


def _standing(job: Job, ledger: Ledger | None) -> Standing | None:
    return None if ledger is None else ledger.standings(job.plan.population, without_budget=job.plan.delta)[0]


def _abandon(job: Job, ledger: Ledger | None) -> None:
    if job.is_reported:
        return
    try:
        if ledger is not None and ledger.has_reserved(job.id):
            ledger.forget(job.id)
    finally:
        job.abandon()
