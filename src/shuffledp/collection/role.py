"""The three roles of a collection, each on its own machine, over files of wire messages.

The encoder sees only its own people's data; the shuffler sees messages without their meaning; the estimator sees the
shuffled messages only.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from shuffledp import argument
from shuffledp.collection import external_sort, kernel, message, shuffling
from shuffledp.collection.engine.embedded import Embedded, told, write_messages
from shuffledp.collection.guarantee import Guarantee
from shuffledp.collection.input.given_data import table_of
from shuffledp.collection.job import whole_directory
from shuffledp.collection.ledger import Ledger
from shuffledp.collection.report import CONFIDENCE, PARTIES_APART, Report
from shuffledp.planner.plan_file import Plan
from shuffledp.progress import Progress
from shuffledp.sampling.random import KEY_BYTES


def encode(
    plan: Plan | str | os.PathLike[str],
    data: Any,
    column: str | None = None,
    *,
    out: str | os.PathLike[str],
    user: str | None = None,
    rows_per_user: int = 1,
    progress: Progress | None = None,
) -> int:
    """The encoder: one file of messages for the rows of a table; returns how many rows.

    ``plan``, ``data``, ``column``, ``user`` and ``rows_per_user`` as for ``collect``; ``out`` is a new .parquet file of
    messages, for the shuffler. The randomness is the operating system's and is not kept. A file that is already there
    is not written again: two messages of the same people would tell more than one. Ids of users go nowhere.

    >>> import pyarrow, tempfile
    >>> from shuffledp.mechanisms.frequency.krr import KRR
    >>> from shuffledp.tasks.frequency import Frequency
    >>> plan = Plan(Frequency(["red", "green"]), KRR(2.0, 2), users=1000, epsilon=1.0, delta=1e-6)
    >>> with tempfile.TemporaryDirectory() as room:
    ...     encode(plan, pyarrow.array(["red", "green"] * 500), out=f"{room}/messages.parquet")
    1000
    """
    chosen, path = Plan.of(plan), Path(out)
    if path.exists():
        raise ValueError(f"encode: {path} is already there; encoding the same people again would weaken their privacy.")
    if not path.parent.is_dir():
        raise ValueError(f"encode: expected a directory {path.parent} to write to, but there is none.")
    table = table_of(data, column, user, rows_per_user)
    engine = Embedded(Progress() if progress is None else progress)
    read = chosen.column(table.column_named(column))
    users = engine.check(table, read)
    if users == 0:
        raise ValueError(f"input: expected at least one row, got none in {table.place}.")
    encoder = kernel.Encoder(read, os.urandom(KEY_BYTES))
    with engine.progress.step("encoding", users) as advance:
        batches = encoder.part(told(table.batches(read, kernel.CHUNK_ROWS), advance), 0)
        if chosen.mechanism.messages_per_user > 1:
            # A user's real message comes first: in order of their bytes the shuffler cannot tell it from dummies.
            batches = map(external_sort.in_order, batches)
        try:
            write_messages(path, chosen.mechanism.message_bytes, batches)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error).rstrip(".")
            raise ValueError(f"encode: cannot write {path}: {reason}.") from None
    return users


def shuffle(
    inputs: Iterable[str | os.PathLike[str]],
    *,
    out: str | os.PathLike[str],
    plan: Plan | str | os.PathLike[str] | None = None,
    ledger: str | os.PathLike[str] | None = None,
    rows_per_user: int = 1,
    allow_weaker: bool = False,
    progress: Progress | None = None,
) -> int:
    """The shuffler: the messages of all encoders in order of their bytes; returns how many.

    ``inputs`` are files from ``encode``, ``out`` is a new directory. No plan is needed. With one, fewer messages than
    the target needs are not handed on, unless ``allow_weaker``, and the ``ledger`` at a path is kept;
    ``rows_per_user`` is the most rows of one person that an encoder used.

    >>> import pyarrow, tempfile
    >>> from shuffledp.mechanisms.frequency.krr import KRR
    >>> from shuffledp.tasks.frequency import Frequency
    >>> plan = Plan(Frequency(["red", "green"]), KRR(2.0, 2), users=1000, epsilon=1.0, delta=1e-6)
    >>> with tempfile.TemporaryDirectory() as room:
    ...     users = encode(plan, pyarrow.array(["red", "green"] * 500), out=f"{room}/messages.parquet")
    ...     shuffle([f"{room}/messages.parquet"], out=f"{room}/shuffled", plan=plan)
    1000
    """
    chosen = None if plan is None else Plan.of(plan)
    directory, most = Path(out), argument.count("shuffle", "rows_per_user", rows_per_user)
    new_directory("shuffle", directory)
    files = [file for path in inputs for file in message.files_of(Path(path))]
    _demand_different(files)
    widths = {message.width_of(file) for file in files}
    if chosen is not None:
        widths.add(chosen.mechanism.message_bytes)
    if len(widths) != 1:
        raise ValueError(f"shuffle: expected messages of one width, got {', '.join(map(str, sorted(widths)))} bytes.")
    messages = sum(message.count_of(file) for file in files)
    if messages == 0:
        raise ValueError("shuffle: expected at least one message, got none.")
    if chosen is not None:
        guarantee = Guarantee(chosen, chosen.mechanism.users_behind(messages), most)
        guarantee.demand(allow_weaker)
        if ledger is not None:
            # What is handed on cannot be taken back: it is written down before.
            kept = Ledger(ledger)
            id_ = kept.new_id()
            kept.reserve(id_, guarantee)
            kept.release(id_)
    shown = Progress() if progress is None else progress
    with shown.step("shuffling", messages) as advance, whole_directory(directory) as unfinished:
        shuffling.shuffle_files(files, widths.pop(), unfinished, advance)
    return messages


def estimate(
    plan: Plan | str | os.PathLike[str],
    messages: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str],
    rows_per_user: int = 1,
    allow_weaker: bool = False,
    progress: Progress | None = None,
) -> Report:
    """The estimator: estimates and report from shuffled messages.

    ``messages`` is the directory from ``shuffle``, ``out`` a new directory for estimates and report; ``rows_per_user``
    is the most rows of one person that an encoder used; ``allow_weaker`` goes on even if too few users miss the target.

    >>> import pyarrow, tempfile
    >>> from shuffledp.mechanisms.frequency.krr import KRR
    >>> from shuffledp.tasks.frequency import Frequency
    >>> plan = Plan(Frequency(["red", "green"]), KRR(2.0, 2), users=1000, epsilon=1.0, delta=1e-6)
    >>> with tempfile.TemporaryDirectory() as room:
    ...     users = encode(plan, pyarrow.array(["red", "green"] * 500), out=f"{room}/messages.parquet")
    ...     count = shuffle([f"{room}/messages.parquet"], out=f"{room}/shuffled")
    ...     report = estimate(plan, f"{room}/shuffled", out=f"{room}/result")
    >>> report.guarantee.users
    1000
    """
    chosen, given, directory = Plan.of(plan), Path(messages), Path(out)
    mechanism, engine = chosen.mechanism, Embedded(Progress() if progress is None else progress)
    most = argument.count("estimate", "rows_per_user", rows_per_user)
    new_directory("estimate", directory)
    for file in message.files_of(given):
        if message.width_of(file) != mechanism.message_bytes:
            raise ValueError(f"estimate: {file} does not hold messages of {mechanism.name} as planned.")
    expected = sum(message.count_of(file) for file in message.files_of(given))
    if expected == 0:
        raise ValueError("estimate: expected at least one message, got none.")
    guarantee = Guarantee(chosen, mechanism.users_behind(expected), most)
    guarantee.demand(allow_weaker)
    _demand_shuffled(given, mechanism.message_bytes)
    total, _ = engine.aggregate(mechanism, given, expected)
    result = mechanism.finish(total, guarantee.users)
    quantities = chosen.task.quantities(mechanism, result, CONFIDENCE)
    report = Report(guarantee, result, quantities, PARTIES_APART, engine.name)
    with whole_directory(directory) as unfinished:
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
