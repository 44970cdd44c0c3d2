"""A whole collection from a data frame of Spark: rows and messages stay on the cluster.

On the driver are the job's state with its key, the ledger, and what is small: report and estimates.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shuffledp.collection.asking import Asking
from shuffledp.collection.cluster.file_system import FileSystem, is_address
from shuffledp.collection.cluster.frame_table import FrameTable
from shuffledp.collection.collect import Request, run
from shuffledp.collection.engine.engine import Engine
from shuffledp.collection.engine.spark_engine import Spark
from shuffledp.collection.engine.spark_session import in_a_sentence
from shuffledp.collection.input.given_data import named
from shuffledp.collection.job import REPORT, Job
from shuffledp.collection.ledger_place import place_of
from shuffledp.collection.manner import CONFIDENCE, Manner
from shuffledp.collection.report import Report
from shuffledp.collection.rounds_in_turn import all_rounds
from shuffledp.planner.plan_file import Plan
from shuffledp.progress import Progress
from shuffledp.tasks.rules import STRICT, Rules

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STATE = "XDG_STATE_HOME"


def collect(
    frame: DataFrame,
    plan: Plan | str | os.PathLike[str],
    column: str | Sequence[str] | None = None,
    *,
    out: str | os.PathLike[str],
    key: str | Sequence[str] | None = None,
    state: str | os.PathLike[str] | None = None,
    engine: str | Engine = "spark",
    ledger: str | os.PathLike[str] | None = None,
    allow_weaker: bool = False,
    resume: bool = False,
    round_number: int | None = None,
    drawn: bool = False,
    rules: Rules = STRICT,
    options: Any = None,
    confidence: float = CONFIDENCE,
    post: str | None = None,
    progress: Progress | None = None,
) -> Report:
    """Run a plan on a data frame of Spark: every row is a person.

    ``out`` is a new directory: a path of the driver, or the address of one that Spark writes to (``s3a://…``,
    ``hdfs://…``, ``file:/…``), where the messages then are written by the workers, and report and estimates beside
    them. Messages of more than two bytes need such an address, unless the workers see the driver's paths. ``state``,
    with an address, is the directory of the driver for the job's key and what ``resume`` goes on from; by default one
    of your own. ``key`` as for ``encode``, all others as for ``shuffledp.collect``.
    """
    chosen, kept = Plan.of(plan), None if ledger is None else place_of(ledger)
    if rules.drops:
        raise ValueError("collect: rows without a value are dropped in Spark: take df.dropna() of their column first.")
    names = chosen.task.columns_read(named(column))
    whole = FrameTable(frame, named(key))
    columns = whole.columns_named(names)
    read = chosen.column(*columns, rules=rules)
    place = str(out) if is_address(out) else None
    here = Path(out) if place is None else _state_of(place, state)
    request = Request(
        chosen, whole.narrowed(columns), read.names, here, kept, allow_weaker, resume, round_number, drawn, rules,
        Asking.of("collect", chosen, options),
        manner=Manner.of("collect", confidence, post, chosen.task, whole=options is None),
    )  # fmt: skip
    if request.draws:
        raise ValueError(
            "collect: the plan draws its users; choose the rows of those who were drawn in Spark, write them once, and "
            "say so (drawn, --drawn)."
        )
    started = engine if isinstance(engine, Spark) else Spark(progress, session=frame.sparkSession)
    if not isinstance(engine, Spark) and engine != "spark":
        raise ValueError("collect: a data frame of Spark is collected by the engine spark.")
    if place is None:
        return _run(chosen, request, started)
    return _into(place, chosen, request, started)


def _run(plan: Plan, request: Request, engine: Spark) -> Report:
    return all_rounds(request, lambda one: run(one, engine)) if plan.task.asks_on else run(request, engine)


def _into(place: str, plan: Plan, request: Request, engine: Spark) -> Report:
    """Into a directory of another file system: messages by the workers, the rest when all of it is complete."""
    if plan.task.asks_on:
        raise ValueError("collect: a search runs in rounds, which need a path of the driver; give one with out.")
    files = FileSystem(engine.session)
    with in_a_sentence("looking at the output"):
        there = files.names(place)
    if there and Job.unfinished(request.out) is None:
        # A job that is there may have been killed after its report had its place, and before it could forget itself.
        if REPORT in there:
            raise ValueError(f"collect: {place} already holds a finished collection; choose another directory.")
        raise ValueError(f"collect: expected a new or empty directory, got {place}.")
    engine.place = place
    report = run(request, engine)
    shutil.rmtree(request.out)
    return report


def _state_of(place: str, given: str | os.PathLike[str] | None) -> Path:
    """Where the driver keeps what belongs to an address."""
    if given is not None:
        return Path(given)
    home = os.environ.get(STATE) or Path.home() / ".local" / "state"
    return Path(home) / "shuffledp" / "jobs" / hashlib.sha256(place.rstrip("/").encode()).hexdigest()[:32]
