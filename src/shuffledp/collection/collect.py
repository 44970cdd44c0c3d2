"""A whole collection by one party: check, reserve, encode, shuffle, aggregate, report, release.

Nothing is written unless every value is good, the target is met and the ledger agrees. Nothing is released before it
is complete. Nothing is ever encoded twice with different randomness.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shuffledp.collection import durable, kernel
from shuffledp.collection.asking import Asking
from shuffledp.collection.cluster.file_system import is_address
from shuffledp.collection.cluster.frame_table import is_frame
from shuffledp.collection.engine.engine import Engine, EngineFailed
from shuffledp.collection.engine.register import running
from shuffledp.collection.guarantee import Guarantee, TooWeak
from shuffledp.collection.input.drawn_table import DrawnTable
from shuffledp.collection.input.given_data import named, prepared, table_of
from shuffledp.collection.input.table import Table
from shuffledp.collection.job import JOB, MESSAGES, REPORT, Job, Start
from shuffledp.collection.ledger import Ledger, chosen_round
from shuffledp.collection.ledger_place import LedgerAddress, place_of
from shuffledp.collection.lot import Lot
from shuffledp.collection.manner import CONFIDENCE, USUAL, Manner
from shuffledp.collection.report import ONE_PARTY, Report
from shuffledp.collection.rounds_in_turn import all_rounds
from shuffledp.collection.standing import Standing
from shuffledp.errors import ShuffledpError
from shuffledp.planner.plan_file import Plan
from shuffledp.progress import Progress
from shuffledp.tasks.column import Tally
from shuffledp.tasks.rules import STRICT, Rules


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
    rules: Rules = STRICT,
    delimiter: str | None = None,
    gather: bool = False,
    options: Any = None,
    key: str | Sequence[str] | None = None,
    confidence: float = CONFIDENCE,
    post: str | None = None,
    progress: Progress | None = None,
) -> Report:
    """Run a plan on data: randomize every value, shuffle the messages, estimate and report.

    ``plan`` is a plan or the path of its file. ``data`` has a row per user: the path of a CSV, Parquet or Arrow file or
    of a directory of them, several such paths, a data frame, series, table or array of pandas, polars or pyarrow, or a
    data frame of Spark (``shuffledp.spark.collect`` has more for those);
    ``column`` names the column with the users' values, or several where the task reads several, and may be left out
    where there is but one; ``rules`` say what becomes of cells that are not as planned, and ``delimiter`` what divides
    the fields of a CSV file. ``user`` names the column that says whose each row is: of each user the first
    ``rows_per_user`` rows in the order of the input are used; without it each row is taken as one person; with
    ``gather`` all rows of a user are one list, where the task takes lists. ``out`` is a new directory for messages,
    estimates and report. ``engine`` is "embedded" (this process), "spark" or a running engine; ``ledger`` the path of
    the ledger of what was given, None to keep none. ``allow_weaker`` goes on even if too few users miss the target;
    ``resume`` goes on with one that was killed. ``round_number`` says which of the plan's rounds this is: by default
    the next one that the ledger has free; without a ledger a plan of several rounds needs it. Where the plan draws the
    users out of more people, the data are of all of them, and some are drawn here, secretly; with ``drawn`` the data
    are of those who were drawn already, and nobody may learn who they are. ``options`` are those that the report is to
    tell, by label or number, where the task is frequency: of a domain of any size only these are read. ``confidence``
    is how sure each interval is to hold the truth. ``post`` asks for post-processing, which stands beside the
    estimates: "non-negative", "adds-up" (to the users) or "consistent". ``key`` names what tells the rows of a data
    frame of Spark apart. ``progress`` is told how far it is. A search, such as that of heavy hitters, runs all its
    rounds one after the other, each in a directory ``round-1``, … of its own.

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
    if is_frame(data):
        return _of_frame(
            data, plan, column, user, gather, delimiter, out=out, engine="spark" if engine == "embedded" else engine,
            ledger=ledger, allow_weaker=allow_weaker, resume=resume, round_number=round_number, drawn=drawn,
            rules=rules, options=options, key=key, confidence=confidence, post=post, progress=progress,
        )  # fmt: skip
    if is_address(out):
        raise ValueError(f"collect: {out} is written by Spark, from a data frame of Spark or addresses that it reads.")
    if key is not None:
        raise ValueError("collect: key is for data frames of Spark; of other data rows are known by their order.")
    chosen, kept = Plan.of(plan), None if ledger is None else place_of(ledger)
    with running(engine, progress) as started:
        names = chosen.task.columns_read(named(column))
        table = table_of(data, names, user, rows_per_user, delimiter, gather)
        read = chosen.column(*table.columns_named(names), rules=rules)
        request = Request(
            chosen, prepared(table, read, user, gather), read.names, Path(out), kept, allow_weaker, resume,
            round_number, drawn, rules, Asking.of("collect", chosen, options),
            manner=Manner.of("collect", confidence, post, chosen.task, whole=options is None),
        )  # fmt: skip
        if chosen.task.asks_on:
            return all_rounds(request, lambda one: run(one, started))
        return run(request, started)


def _of_frame(
    data: Any, plan: Any, column: Any, user: str | None, gather: bool, delimiter: str | None, **others: Any
) -> Report:
    """A data frame of Spark, where it is."""
    from shuffledp.collection.cluster.frame_collection import collect as collect_frame

    if user is not None or gather or delimiter is not None:
        raise ValueError("collect: of a data frame of Spark choose each person's rows in Spark, and leave out user.")
    return collect_frame(data, plan, column, **others)


@dataclass(frozen=True)
class Request:
    """What is to be collected, and where to."""

    plan: Plan
    table: Table
    columns: tuple[str, ...]
    out: Path
    ledger: Path | LedgerAddress | None = None
    allow_weaker: bool = False
    resume: bool = False
    round_number: int | None = None
    """The number of the plan's round; None is the next one that is free in the ledger."""
    drawn: bool = False
    rules: Rules = STRICT
    asking: Asking | None = None
    """What the report is to tell; None asks for everything."""
    ahead: int = 1
    """How many rounds the budget must have room for before this one begins."""
    manner: Manner = USUAL

    @property
    def asked(self) -> Asking:
        """The same, checked for room."""
        return Asking.of("collect", self.plan) if self.asking is None else self.asking

    @property
    def draws(self) -> bool:
        """Whether some of the rows are to be drawn here."""
        if self.drawn and not self.plan.schedule.is_sampled:
            raise ValueError("collect: --drawn is for plans whose users are drawn out of more people (--of).")
        return self.plan.schedule.is_sampled and not self.drawn


class InputChanged(ValueError):
    """The input is not what it was at the first look: nothing of the work can be used."""


def run(request: Request, engine: Engine) -> Report:
    """Run a collection, or the rest of one that was killed."""
    ledger = None if request.ledger is None else Ledger(request.ledger)
    job = _left_behind(request, engine, ledger)
    if job is None:
        job, guarantee = _begun(request, engine, ledger)
    else:
        guarantee = _guarantee(job.plan, job.start.round_number, job.rows, request.table, job.start.draws)
        guarantee.demand(request.allow_weaker)
    with job.alone(), _kept(job, ledger):
        if ledger is not None:
            ledger.reserve(job.id, guarantee)
        report = _run(job, request.table, request.asked, guarantee, engine, ledger)
        engine.deliver(job.release)
        job.publish()
    return report


def _begun(request: Request, engine: Engine, ledger: Ledger | None) -> tuple[Job, Guarantee]:
    """A new job, if all values are good and the target is met."""
    plan, table, draws = request.plan, request.table, request.draws
    asked = request.asked.numbers()
    if ledger is None or request.round_number is not None:
        chosen_round("collect", plan, request.round_number, None)
    engine.prepare()
    source = table.fingerprint()
    # All of them, drawn or not: what is said of a bad value must not depend on who was.
    column = plan.column(*request.columns, rules=request.rules)
    rows = engine.check(table, column)
    if rows == 0:
        raise ValueError(f"input: expected at least one row, got none in {table.place}.")
    guarantee = _guarantee(plan, None, rows, table, draws)
    guarantee.demand(request.allow_weaker)
    # After that: too few users need no round.
    number = chosen_round("collect", plan, request.round_number, ledger)
    guarantee = guarantee.in_round(number)
    if ledger is not None:
        ledger.demand_free(plan, number)
    if ledger is not None and request.ahead > 1:
        ledger.demand_room(guarantee, request.ahead)
    tally = engine.counted(table, column) if request.rules.changes else Tally()
    head = None if ledger is None else ledger.head().document()
    start = Start(
        plan,
        number,
        request.columns,
        source,
        rows,
        head,
        asked,
        draws,
        request.rules,
        tally,
        request.manner,
    )
    return Job.begin(request.out, start, engine.name), guarantee


def _guarantee(plan: Plan, number: int | None, rows: int, table: Table, draws: bool) -> Guarantee:
    """The guarantee of a round for users who are all rows, or will be drawn out of them."""
    if not draws:
        return Guarantee(plan, rows, table.per_person, by_id=table.by_id, round_number=number)
    planned = plan.schedule
    users = min(rows, planned.expected) if planned.rate is None else math.floor(planned.rate * rows)
    return Guarantee(plan, users, table.per_person, rows, table.by_id, round_number=number)


@contextmanager
def _kept(job: Job, ledger: Ledger | None) -> Iterator[None]:
    """Whatever fails leaves what is done, to go on from; only work that can be of no use is thrown away."""
    try:
        yield
    except InputChanged:
        _abandon(job, ledger)
        raise
    except durable.ForeignFile:
        # What others could have changed is not ours to delete.
        raise
    except Exception as error:
        if not job.has_begun:
            # Nothing was encoded, so that nothing is lost.
            _abandon(job, ledger)
            raise
        kind = type(error) if isinstance(error, TooWeak) else EngineFailed
        reason = str(error).rstrip(".") or f"collect: stopped by {type(error).__name__}"
        raise kind(f"{reason}; what is done is kept: go on with --resume.") from error


def _left_behind(request: Request, engine: Engine, ledger: Ledger | None) -> Job | None:
    """The job to go on with; None to begin a new one; a sentence where neither is right."""
    out = request.out
    if out.exists() and not out.is_dir():
        raise ValueError(f"collect: expected a directory for the output, got the file {out}.")
    job = Job.unfinished(out)
    if job is None:
        left = [] if not out.exists() else sorted(path.name for path in out.iterdir() if path.name != "work")
        if REPORT in left:
            durable.remove_tree(out / "work")
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
    _demand_same(job, request, engine, ledger)
    return job


def _demand_same(job: Job, request: Request, engine: Engine, ledger: Ledger | None) -> None:
    """What goes on is what began."""
    began = job.start
    same = {
        "plan": (began.plan, request.plan),
        "round": (began.round_number, began.round_number if request.round_number is None else request.round_number),
        "column": (began.columns, request.columns),
        "input": (dict(began.source), request.table.fingerprint()),
        "engine": (job.engine, engine.name),
        "ledger": (began.ledger is None, ledger is None),
        "sample": (began.draws, request.draws),
        "rule for cells": (began.rules, request.rules),
        "confidence or post-processing": (began.manner, request.manner),
        "list of options": (request.asked.is_that_of(began.options), True),
    }
    changed = [name for name, (before, now) in same.items() if before != now]
    if changed:
        raise ValueError(f"collect: the {changed[0]} is not the one that the collection in {job.out} began with.")
    if ledger is not None and began.ledger is not None:
        ledger.demand_contains(began.ledger, "collect")


def _run(job: Job, table: Table, asking: Asking, guarantee: Guarantee, engine: Engine, ledger: Ledger | None) -> Report:
    """Everything up to the release, from where it stands."""
    mechanism, column = job.plan.mechanism, job.plan.column(*job.start.columns, rules=job.start.rules)
    if not job.is_shuffled:
        with _input_is_to_blame():
            used, rows = table, job.rows
            if job.start.draws:
                used = DrawnTable.of(table, job.rows, job.plan.schedule, job.key())
                rows = used.used
            lot = _lot(job, rows, guarantee)
            engine.encode(used, column, job.key(), lot, job.encoded)
            if table.fingerprint() != dict(job.start.source):
                raise ValueError("input: the file has changed during the collection.")
        kernel.add_noise(mechanism, job.key(), job.encoded)
        engine.shuffle(job.encoded, lot, job.shuffled)
    job.forget_order()
    shuffled = job.shuffled if job.shuffled.exists() else job.out / MESSAGES
    made = engine.manifest(shuffled)
    users, lot = made.users, _lot(job, made.users, guarantee)
    guarantee = guarantee.came(users).with_certificate()
    total = engine.aggregate(mechanism, shuffled, made.messages, asking.reading)
    if (total.messages, total.refused) != (made.messages, 0) or not lot.is_complete(total.messages):
        raise EngineFailed(f"collect: expected {made.messages} shuffled messages, got {total.messages}.")
    estimate = asking.reading.finish(total.statistic, users)
    manner = job.start.manner
    quantities = manner.quantities(asking, estimate)
    counted = table.counted(job.rows)
    report = Report(
        guarantee, estimate, quantities, ONE_PARTY, engine.name, _standing(job, ledger), counted,
        rules=job.start.rules, tally=job.start.tally, asked=asking.count, manner=manner, columns=job.start.columns,
    )  # fmt: skip
    if not job.is_reported:
        with durable.whole_directory(job.release) as unfinished:
            report.write(unfinished)
    if ledger is not None:
        # All that is to be released is on disk; nothing of it is released yet.
        ledger.settle(job.id, guarantee, made.digest)
    return report


def _lot(job: Job, users: int, guarantee: Guarantee) -> Lot:
    return Lot.of(job.plan, job.start.round_number, users, guarantee.per_person)


@contextmanager
def _input_is_to_blame() -> Iterator[None]:
    """A bad value now was not there at the first look."""
    try:
        yield
    except (EngineFailed, OSError):
        raise
    except (ValueError, TypeError) as error:
        raise InputChanged(str(error)) from error


def _standing(job: Job, ledger: Ledger | None) -> Standing | None:
    return None if ledger is None else ledger.standings(job.plan.population, job.plan.delta)[0]


def _abandon(job: Job, ledger: Ledger | None) -> None:
    """Nothing was released, so that nothing was spent."""
    with suppress(ValueError, ShuffledpError, OSError):
        if ledger is not None and ledger.has_reserved(job.id):
            ledger.give_back(job.id)
    job.abandon()
