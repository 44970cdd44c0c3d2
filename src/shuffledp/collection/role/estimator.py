"""The estimator: sees the shuffled messages only, and reads them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from shuffledp.collection import day as days, durable
from shuffledp.collection.asking import Asking
from shuffledp.collection.day import Calendar
from shuffledp.collection.engine.embedded import Embedded
from shuffledp.collection.guarantee import Guarantee
from shuffledp.collection.ledger import Ledger
from shuffledp.collection.lot import noise_of
from shuffledp.collection.manifest import Manifest
from shuffledp.collection.manner import CONFIDENCE, Manner
from shuffledp.collection.report import PARTIES_APART, Report
from shuffledp.collection.role.shuffler import demand_new_directory
from shuffledp.collection.running_report import RunningReport
from shuffledp.planner.plan_file import Plan
from shuffledp.progress import Progress
from shuffledp.tasks.over_time import OverTime
from shuffledp.tasks.quantity import Quantity
from shuffledp.tasks.shape import running
from shuffledp.tasks.task import every_label


def estimate(
    plan: Plan | str | os.PathLike[str],
    messages: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str],
    ledger: str | os.PathLike[str] | None = None,
    reservation: str | None = None,
    allow_weaker: bool = False,
    round_number: int | None = None,
    options: Any = None,
    confidence: float = CONFIDENCE,
    post: str | None = None,
    progress: Progress | None = None,
) -> Report:
    """The estimator: estimates and report from shuffled messages.

    ``messages`` is the directory from ``shuffle``, or the public one from ``release``: then the report has the running
    counts of all days that are there. ``out`` is a new directory for estimates and report; ``allow_weaker`` goes on
    even if too few users miss the target. Messages of another plan or round are refused; rows that are no
    messages are set aside, counted and reported. The ``ledger`` at a path is kept, if it does not have these messages
    already: a ``reservation`` made there before is settled with those who came, and other messages of a round that was
    released are refused. ``round_number`` is by default the one that the messages were encoded for. ``options``,
    ``confidence`` and ``post`` as for ``collect``: the same messages may be asked for other options again, or told
    otherwise, which costs no privacy.

    >>> import pyarrow, tempfile
    >>> from shuffledp.collection import encode, shuffle
    >>> from shuffledp.mechanisms.frequency.krr import KRR
    >>> from shuffledp.tasks.frequency import Frequency
    >>> plan = Plan(Frequency(["red", "green"]), KRR(2.0, 2), users=1000, epsilon=1.0, delta=1e-6)
    >>> with tempfile.TemporaryDirectory() as room:
    ...     users = encode(plan, pyarrow.array(["red", "green"] * 500), out=f"{room}/ours.messages")
    ...     count = shuffle([f"{room}/ours.messages"], out=f"{room}/shuffled")
    ...     report = estimate(plan, f"{room}/shuffled", out=f"{room}/result")
    >>> report.guarantee.users
    1000
    """
    chosen, given, directory = Plan.of(plan), Path(messages), Path(out)
    mechanism, engine = chosen.mechanism, Embedded(Progress() if progress is None else progress)
    demand_new_directory("estimate", directory)
    manner = Manner.of("estimate", confidence, post, chosen.task, whole=options is None)
    if days.numbers_in(given):
        if reservation is not None:
            raise ValueError("estimate: a release day by day is paid for on its first day; give no reservation.")
        if options is not None:
            chosen.task.options_asked("estimate", options)
        return _so_far(chosen, given, directory, round_number, allow_weaker, ledger, engine, manner)
    asking = Asking.of("estimate", chosen, options)
    manifest = Manifest.read(given)
    number = _round(chosen, round_number, manifest.plan, given)
    if manifest.width != mechanism.message_bytes:
        raise _of_another(given)
    if manifest.noise != noise_of(mechanism):
        raise ValueError(f"estimate: the shuffler was to draw the noise of this plan, and did not for {given}.")
    total = engine.aggregate(mechanism, given, manifest.messages, asking.reading)
    guarantee = manifest.guarantee(chosen, number, total.refused)
    guarantee.demand(allow_weaker)
    result = asking.reading.finish(total.statistic, manifest.users_read(total.messages, mechanism.crowd))
    quantities = manner.quantities(asking, result)
    counts = {
        "messages": total.messages,
        "refused": manifest.refused + total.refused,
        "missing": manifest.missing_of(mechanism.crowd),
    }
    report = Report(
        guarantee, result, quantities, PARTIES_APART, engine.name, counts=counts, asked=asking.count, manner=manner
    )
    return _written(report, directory, ledger, manifest.digest, reservation, manifest.bundles)


def _round(plan: Plan, given: int | None, identity: str, where: Path) -> int:
    """The plan's round that messages belong to; a sentence where it is another one than was given, or of none."""
    if given is not None:
        plan.identity(given)
    found = plan.round_of(identity)
    if found is None or given not in (None, found):
        raise _of_another(where)
    return found


def _of_another(where: Path) -> ValueError:
    return ValueError(f"estimate: the messages in {where} were made for another plan or round than the one given.")


def _written(
    report: Report,
    directory: Path,
    ledger: str | os.PathLike[str] | None,
    digest: str,
    reservation: str | None = None,
    bundles: str | None = None,
) -> Report:
    """The report in its directory, after the ledger was told."""
    plan = report.guarantee.plan
    with durable.whole_directory(directory) as unfinished:
        if ledger is not None:
            kept = Ledger(ledger)
            kept.book(report.guarantee, digest, reservation, bundles)
            report = replace(report, standing=kept.standings(plan.population, plan.delta)[0])
        report = replace(report, guarantee=report.guarantee.with_certificate())
        report.write(unfinished)
    return report


def _so_far(
    plan: Plan, given: Path, directory: Path, round_number: int | None, allow_weaker: bool,
    ledger: str | os.PathLike[str] | None, engine: Embedded, manner: Manner,
) -> Report:  # fmt: skip
    """The running counts of all days that were released."""
    calendar, released, mechanism, task = Calendar.of("estimate", plan), days.released(given), plan.mechanism, plan.task
    assert isinstance(task, OverTime), "that is what has a calendar"
    number = _round(plan, round_number, released[0].plan, given)
    if released[0].width != mechanism.message_bytes or len(released) > calendar.tree.values:
        raise _of_another(given)
    guarantee = Guarantee(plan, plan.users, round_number=number)
    guarantee.demand(allow_weaker)
    total = np.zeros(calendar.tree.nodes, dtype=np.int64)
    with engine.progress.step("aggregating", sum(each.messages for each in released)) as advance:
        for each in released:
            for wire in each.checked(days.place(given, each.day)):
                found = mechanism.unpack(wire)
                if (calendar.over_on(found) != each.day).any():
                    raise ValueError(
                        f"estimate: day {each.day} in {given} has messages of what is not over on that day."
                    )
                total += mechanism.accumulate(found)
                advance(len(wire))
    counts = task.so_far(mechanism, mechanism.finish(total, plan.users), len(released))
    labels = every_label(task.domain, len(released))
    quantity = Quantity.of("users up to", labels, counts, manner.confidence, running(plan.users))
    sent = {"messages": sum(each.messages for each in released)}
    told = manner.adjusted(task, mechanism, counts, [quantity])
    report = RunningReport(guarantee, counts, told, PARTIES_APART, engine.name, counts=sent, manner=manner)
    return _written(report, directory, ledger, released[0].digest)
