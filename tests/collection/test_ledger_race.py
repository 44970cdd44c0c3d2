"""Many processes and one budget: whoever is killed whenever, exactly what is allowed is spent."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from shuffledp._core.errors import GuaranteeTooWeak
from shuffledp.ledger import storage
from shuffledp.ledger.accounting import RELEASED
from shuffledp.ledger.collection_guarantee import composed_epsilon
from shuffledp.ledger.ledger import Ledger
from shuffledp.ledger.storage import LedgerDatabase, LedgerFile
from tests.collection import new_ledger
from tests.collection.test_ledger import DIGEST, alone

PROCESSES, ALLOWED = 64, 10
ENDS_WELL, KILLED_SOMETIME, KILLED_IN_TRANSACTION, KILLED_AFTER_COMMIT = range(4)
LONGEST = 4.0
"""Seconds until a process that is killed some time is killed."""


def die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def spend(path: Path | str, name: str, fate: int, seed: int, begin: Any) -> None:
    """Reserve one round and settle it, at the same time as others; the exit code says how that ended."""
    rng = random.Random(seed)
    begin.wait(120)
    if fate == KILLED_SOMETIME:
        threading.Timer(LONGEST * rng.random(), die).start()
    elif fate == KILLED_IN_TRANSACTION:
        name = "_append_to_file" if isinstance(path, Path) else "_append_to_database"
        append = getattr(storage, name)
        setattr(storage, name, lambda *rows: (append(*rows), die()))
    elif fate == KILLED_AFTER_COMMIT:
        kind: Any = LedgerFile if isinstance(path, Path) else LedgerDatabase
        append = kind.append_events
        kind.append_events = lambda *given: (append(*given), die())
    ledger = Ledger(path)
    try:
        ledger.reserve(name, alone())
    except GuaranteeTooWeak:
        os._exit(3)
    if rng.random() < 0.2:
        ledger.give_back(name)
        os._exit(4)
    ledger.settle(name, alone(), DIGEST)
    os._exit(0)


@pytest.mark.crash
def test_many_processes_spend_exactly_one_budget(place: Path | str) -> None:
    """Never more while they run; what the killed ones hold is counted, and given back: then all of it is spent."""
    allowed = composed_epsilon([alone().curve] * ALLOWED, 1e-6)
    assert composed_epsilon([alone().curve] * (ALLOWED + 1), 1e-6) > allowed
    new_ledger(place).set_budget("test", allowed, 1e-6)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.collection.test_ledger_race"])
    begin, rng = context.Barrier(PROCESSES), random.Random(64)
    processes = [
        context.Process(target=spend, args=(place, str(number), rng.randrange(4), rng.random(), begin))
        for number in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(300)
    ends = Counter(process.exitcode for process in processes)
    assert set(ends) <= {0, 3, 4, -signal.SIGKILL}, ends
    assert ends[-signal.SIGKILL] > 8
    ledger = Ledger(place)
    (standing,) = ledger.budget_statuses("test")
    released = [entry for entry in standing.entries if entry.state == RELEASED]
    # A killed one may have settled just before.
    assert ends[0] <= len(released) <= len(standing.entries) <= ALLOWED
    assert standing.spent <= allowed
    for entry in standing.entries:
        if entry.state != RELEASED:
            ledger.give_back(entry.id)
    number = 0
    while True:
        try:
            ledger.reserve(f"late {number}", alone())
        except GuaranteeTooWeak:
            break
        ledger.settle(f"late {number}", alone(), DIGEST)
        number += 1
    (standing,) = Ledger(place).budget_statuses("test")
    assert [entry.state for entry in standing.entries] == [RELEASED] * ALLOWED
    assert (standing.spent, standing.remaining) == (allowed, 0.0)
    assert number == ALLOWED - len(released)
