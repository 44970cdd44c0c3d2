"""The encoder: sees only its own people's data, and hands on messages."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from shuffledp.array import Bytes
from shuffledp.collection import bundle, durable, external_sort, kernel
from shuffledp.collection.engine.embedded import Embedded, told
from shuffledp.collection.input.drawn_table import DrawnTable
from shuffledp.collection.input.given_data import named, prepared, table_of
from shuffledp.collection.ledger import chosen_round
from shuffledp.collection.lot import Lot
from shuffledp.collection.wrapper import Wrapper, closed
from shuffledp.planner.plan_file import Plan
from shuffledp.progress import Progress
from shuffledp.sampling.random import KEY_BYTES
from shuffledp.tasks.rules import STRICT, Rules


def encode(
    plan: Plan | str | os.PathLike[str],
    data: Any,
    column: str | Sequence[str] | None = None,
    *,
    out: str | os.PathLike[str],
    user: str | None = None,
    rows_per_user: int = 1,
    round_number: int | None = None,
    drawn: bool = False,
    rules: Rules = STRICT,
    delimiter: str | None = None,
    gather: bool = False,
    wrapper: Wrapper | None = None,
    progress: Progress | None = None,
) -> int:
    """The encoder: one file of messages for the rows of a table; returns how many rows.

    ``plan``, ``data``, ``column``, ``user``, ``rows_per_user``, ``rules``, ``delimiter`` and ``gather`` as for
    ``collect``; ``round_number`` must be given where the plan has more than one round; ``out`` is a new file of
    messages, for the shuffler. The randomness is the operating
    system's and is not kept. A file that is already there is not written again, and what a killed run left is destroyed
    first: two messages of the same people would tell more than one. Ids of users go nowhere. Where the plan draws the
    users by coins, they are tossed here; where it draws a fixed number of all people, or with ``drawn``, the data are
    of those who were drawn already. With a ``wrapper`` each message is closed for the analyst, so that the shuffler
    cannot read it.

    >>> import pyarrow, tempfile
    >>> from shuffledp.mechanisms.frequency.krr import KRR
    >>> from shuffledp.tasks.frequency import Frequency
    >>> plan = Plan(Frequency(["red", "green"]), KRR(2.0, 2), users=1000, epsilon=1.0, delta=1e-6)
    >>> with tempfile.TemporaryDirectory() as room:
    ...     encode(plan, pyarrow.array(["red", "green"] * 500), out=f"{room}/ours.messages")
    1000
    """
    chosen, path = Plan.of(plan), Path(out)
    number = wrapper.round_number if round_number is None and wrapper is not None else round_number
    number = chosen_round("encode", chosen, number, None)
    _demand_new(path)
    if not path.parent.is_dir():
        raise ValueError(f"encode: expected a directory {path.parent} to write to, but there is none.")
    names = chosen.task.columns_read(named(column))
    table = table_of(data, names, user, rows_per_user, delimiter, gather)
    engine = Embedded(Progress() if progress is None else progress)
    read, mechanism = chosen.column(*table.columns_named(names), rules=rules), chosen.mechanism
    table = prepared(table, read, user, gather)
    users = engine.check(table, read)
    if users == 0:
        raise ValueError(f"input: expected at least one row, got none in {table.place}.")
    if _tosses(chosen, drawn):
        table = DrawnTable.of(table, users, chosen.schedule, os.urandom(KEY_BYTES))
        users = table.used
    lot = closed(Lot.of(chosen, number, users, table.per_person), wrapper, chosen, number)
    encoder = kernel.Encoder(read, os.urandom(KEY_BYTES))
    with engine.progress.step("encoding", users) as advance:
        batches = encoder.part(told(table.batches(read, kernel.CHUNK_ROWS), advance), 0)
        if wrapper is not None:
            batches = map(wrapper.close, batches)
        if mechanism.messages_per_user != 1:
            # A user's real message comes first: in order of their bytes the shuffler cannot tell it from dummies.
            batches = map(external_sort.in_order, batches)
        try:
            bundle.write(path, lot, _exactly(lot, batches))
        except BlockingIOError:
            raise ValueError(f"encode: another process is encoding into {path}.") from None
        except FileExistsError:
            _demand_new(path)
            raise
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error).rstrip(".")
            raise ValueError(f"encode: cannot write {path}: {reason}.") from None
    return users


def _tosses(plan: Plan, drawn: bool) -> bool:
    """Whether coins are tossed here; a sentence where nobody said who was drawn."""
    sampled = plan.schedule.is_sampled
    if drawn and not sampled:
        raise ValueError("encode: --drawn is for plans whose users are drawn out of more people (--of).")
    if sampled and not drawn and plan.rate is None:
        raise ValueError(
            "encode: the plan draws a fixed number out of all people, of whom an encoder sees only some; draw them "
            "before, hand over the rows of those who were drawn, and say so by --drawn."
        )
    return sampled and not drawn


def _demand_new(path: Path) -> None:
    if path.exists():
        durable.tidy(path)
        raise ValueError(f"encode: {path} is already there; encoding the same people again would weaken their privacy.")


def _exactly(lot: Lot, batches: Iterator[Bytes]) -> Iterator[Bytes]:
    """The messages, if they are as many as there must be; a sentence otherwise, before the bundle has its name."""
    found = 0
    for wire in batches:
        found += len(wire)
        yield wire
    if not lot.is_sent(found):
        raise ValueError(f"input: expected {lot.users} rows as at the first look; the file has changed since.")
