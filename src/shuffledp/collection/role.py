"""The three roles of a collection, each on its own machine, over files of wire messages.

The encoder sees only its own people's data; the shuffler sees messages without their meaning; the estimator sees the
shuffled messages only.
"""

from __future__ import annotations

import os
from pathlib import Path

from shuffledp.collection import external_sort, kernel, message, shuffling
from shuffledp.collection.column import column_of
from shuffledp.collection.engine.embedded import told, write_messages
from shuffledp.collection.engine.engine import Engine
from shuffledp.collection.guarantee import Guarantee
from shuffledp.collection.job import whole_directory
from shuffledp.collection.ledger import Ledger
from shuffledp.collection.report import CONFIDENCE, PARTIES_APART, Report
from shuffledp.collection.table import Table
from shuffledp.planner.plan_file import Plan
from shuffledp.progress import Progress
from shuffledp.sampling.random import KEY_BYTES


def encode(plan: Plan, input_: Path, column_name: str, out: Path, engine: Engine) -> int:
    """The encoder: one file of messages for the rows of a table; returns how many rows.

    The randomness is the operating system's and is not kept. A file that is already there is not written again: two
    messages of the same people would tell more than one.
    """
    if out.exists():
        raise ValueError(f"encode: {out} is already there; encoding the same people again would weaken their privacy.")
    if not out.parent.is_dir():
        raise ValueError(f"encode: expected a directory {out.parent} to write to, but there is none.")
    column, table = column_of(plan, column_name), Table(input_)
    users = engine.check(table, column)
    if users == 0:
        raise ValueError(f"input: expected at least one row, got none in {input_}.")
    encoder = kernel.Encoder(column, os.urandom(KEY_BYTES))
    with engine.progress.step("encoding", users) as advance:
        batches = encoder.part(told(table.batches(column, kernel.CHUNK_ROWS), advance), 0)
        if plan.mechanism.messages_per_user > 1:
            # A user's real message comes first: in order of their bytes the shuffler cannot tell it from dummies.
            batches = map(external_sort.in_order, batches)
        try:
            write_messages(out, plan.mechanism.message_bytes, batches)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error).rstrip(".")
            raise ValueError(f"encode: cannot write {out}: {reason}.") from None
    return users


def shuffle(
    inputs: list[Path],
    out: Path,
    progress: Progress,
    *,
    plan: Plan | None = None,
    ledger: Ledger | None = None,
    allow_weaker: bool = False,
) -> int:
    """The shuffler: the messages of all encoders in order of their bytes; returns how many.

    It needs no plan. With one it refuses to hand on fewer messages than the target needs, and keeps the ledger.
    """
    new_directory("shuffle", out)
    files = [file for path in inputs for file in message.files_of(path)]
    _demand_different(files)
    widths = {message.width_of(file) for file in files}
    if plan is not None:
        widths.add(plan.mechanism.message_bytes)
    if len(widths) != 1:
        raise ValueError(f"shuffle: expected messages of one width, got {', '.join(map(str, sorted(widths)))} bytes.")
    messages = sum(message.count_of(file) for file in files)
    if messages == 0:
        raise ValueError("shuffle: expected at least one message, got none.")
    if plan is not None:
        guarantee = Guarantee(plan, plan.mechanism.users_behind(messages))
        guarantee.demand(allow_weaker)
        if ledger is not None:
            # What is handed on cannot be taken back: it is written down before.
            id_ = ledger.new_id()
            ledger.reserve(id_, guarantee)
            ledger.release(id_)
    with progress.step("shuffling", messages) as advance, whole_directory(out) as unfinished:
        shuffling.shuffle_files(files, widths.pop(), unfinished, advance)
    return messages


def estimate(plan: Plan, messages: Path, out: Path, engine: Engine, *, allow_weaker: bool = False) -> Report:
    """The estimator: estimates and report from shuffled messages."""
    new_directory("estimate", out)
    for file in message.files_of(messages):
        if message.width_of(file) != plan.mechanism.message_bytes:
            raise ValueError(f"estimate: {file} does not hold messages of {plan.mechanism_name} as planned.")
    expected = sum(message.count_of(file) for file in message.files_of(messages))
    if expected == 0:
        raise ValueError("estimate: expected at least one message, got none.")
    guarantee = Guarantee(plan, plan.mechanism.users_behind(expected))
    guarantee.demand(allow_weaker)
    _demand_shuffled(messages, plan.mechanism.message_bytes)
    total, _ = engine.aggregate(plan.mechanism, messages, expected)
    result = plan.mechanism.finish(total, guarantee.users)
    quantities = column_of(plan, plan.task).quantities(result, CONFIDENCE)
    report = Report(guarantee, result, quantities, PARTIES_APART, engine.name)
    with whole_directory(out) as unfinished:
        report.write(unfinished)
    return report


def _demand_different(files: list[Path]) -> None:
    """The same messages twice would count their senders twice."""
    seen: set[tuple[int, int]] = set()
    for file in files:
        status = file.stat()
        if (status.st_dev, status.st_ino) in seen:
            raise ValueError(f"shuffle: {file} is given twice; each file of messages must be given once.")
        seen.add((status.st_dev, status.st_ino))


def _demand_shuffled(messages: Path, width: int) -> None:
    """What comes from the shuffler is in order of its bytes: anything else would not be as private as reported."""
    if not shuffling.is_in_order(message.read(message.files_of(messages), width)):
        raise ValueError(
            f"estimate: the messages in {messages} were not shuffled; run `shuffledp shuffle` on them first."
        )


def new_directory(who: str, out: Path) -> None:
    """Nothing is there yet that would be overwritten."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{who}: expected a new or empty directory, got {out}.")
