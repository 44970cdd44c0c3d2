"""The estimator: sees the shuffled messages only, and reads them."""

from __future__ import annotations

import os
from pathlib import Path

from shuffledp.collection import durable
from shuffledp.collection.engine.embedded import Embedded
from shuffledp.collection.guarantee import Guarantee
from shuffledp.collection.ledger import Ledger
from shuffledp.collection.lot import noise_of
from shuffledp.collection.manifest import Manifest
from shuffledp.collection.report import CONFIDENCE, PARTIES_APART, Report
from shuffledp.collection.role.shuffler import demand_new_directory
from shuffledp.planner.plan_file import Plan
from shuffledp.progress import Progress


def estimate(
    plan: Plan | str | os.PathLike[str],
    messages: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str],
    ledger: str | os.PathLike[str] | None = None,
    allow_weaker: bool = False,
    round_number: int = 1,
    progress: Progress | None = None,
) -> Report:
    """The estimator: estimates and report from shuffled messages.

    ``messages`` is the directory from ``shuffle``, ``out`` a new directory for estimates and report; ``allow_weaker``
    goes on even if too few users miss the target. Messages of another plan or round are refused; rows that are no
    messages are set aside, counted and reported. The ``ledger`` at a path is kept, if it does not have these messages
    already. ``round_number`` as for ``collect``.

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
    manifest = Manifest.read(given)
    if manifest.plan != chosen.identity(round_number) or manifest.width != mechanism.message_bytes:
        raise ValueError(f"estimate: the messages in {given} were made for another plan or round than the one given.")
    if manifest.noise != noise_of(mechanism):
        raise ValueError(f"estimate: the shuffler was to draw the noise of this plan, and did not for {given}.")
    total = engine.aggregate(mechanism, given, manifest.messages)
    guarantee = Guarantee(chosen, manifest.hiding(total.refused, mechanism.crowd), manifest.per_person)
    guarantee.demand(allow_weaker)
    result = mechanism.finish(total.statistic, manifest.users_read(total.messages, mechanism.crowd))
    quantities = chosen.task.quantities(mechanism, result, CONFIDENCE)
    counts = {
        "messages": total.messages,
        "refused": manifest.refused + total.refused,
        "missing": manifest.missing_of(mechanism.crowd),
    }
    kept = None if ledger is None else Ledger(ledger)
    with durable.whole_directory(directory) as unfinished:
        if kept is not None:
            kept.book(guarantee, manifest.digest)
        standing = None if kept is None else kept.standings(chosen.population, chosen.delta)[0]
        report = Report(guarantee, result, quantities, PARTIES_APART, engine.name, standing, counts=counts)
        report.write(unfinished)
    return report
