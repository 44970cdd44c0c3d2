"""A whole collection by one party: check, reserve, encode, shuffle, aggregate, report, release.

Nothing is written unless every value is good, the target is met and the ledger agrees. Nothing is released before it
is complete. Nothing is ever encoded twice with different randomness.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from shuffledp.collection.column import column_of
from shuffledp.collection.engine.engine import Engine, EngineFailed
from shuffledp.collection.guarantee import Guarantee
from shuffledp.collection.job import JOB, MESSAGES, REPORT, Job, whole_directory
from shuffledp.collection.ledger import Ledger, Standing
from shuffledp.collection.report import CONFIDENCE, ONE_PARTY, Report
from shuffledp.collection.table import Table
from shuffledp.errors import ShuffledpError
from shuffledp.planner.plan_file import Plan


@dataclass(frozen=True)
class Request:
    """What is to be collected, and where to."""

    plan: Plan
    input: Path
    column: str
    out: Path
    ledger: Path | None = None
    allow_weaker: bool = False
    resume: bool = False


def collect(request: Request, engine: Engine) -> Report:
    """Run a collection, or the rest of one that was killed."""
    column = column_of(request.plan, request.column)
    table = Table(request.input)
    ledger = None if request.ledger is None else Ledger(request.ledger)
    job = _left_behind(request, engine, table)
    if job is None:
        users = engine.check(table, column)
        if users == 0:
            raise ValueError(f"input: expected at least one row, got none in {request.input}.")
        guarantee = Guarantee(request.plan, users)
        guarantee.demand(request.allow_weaker)
        job = Job.begin(request.out, request.plan, request.column, table.fingerprint(), users, engine.name)
    else:
        guarantee = Guarantee(job.plan, job.users)
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


def _left_behind(request: Request, engine: Engine, table: Table) -> Job | None:
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
        "input": (dict(job.source), table.fingerprint()),
        "engine": (job.engine, engine.name),
    }
    changed = [name for name, (before, now) in same.items() if before != now]
    if changed:
        raise ValueError(f"collect: the {changed[0]} is not the one that the collection in {out} began with.")
    return job


def _run(job: Job, table: Table, guarantee: Guarantee, engine: Engine, ledger: Ledger | None) -> Report:
    """Everything up to the report, from where it stands."""
    column = column_of(job.plan, job.column)
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
    report = Report(guarantee, estimate, quantities, ONE_PARTY, engine.name, _standing(job, ledger))
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
