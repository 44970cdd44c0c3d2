"""SIGKILL before every step of a round, and of the server under load: what was acknowledged is counted once.

Steps are changes of files below the shuffler's directory, as Python's audit events tell them, and every change of its
store. ``endurance`` kills more often.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from shuffledp.ledger.ledger import Ledger
from shuffledp.service.notices_and_statements import BatchStatement
from shuffledp.service.rounds import RoundManager
from shuffledp.service.stores import RoundState, ShufflerPaths, SqliteStore
from shuffledp.storage.postgres_session import PostgresSession
from tests.collection import read_messages
from tests.collection.kill_points import run_and_kill_at
from tests.service import create_campaign, plan_for
from tests.service.endurance import run_endurance
from tests.service.test_round import NOW, Shuffler, keys_in

USERS = 12
CAMPAIGN = create_campaign(plan_for(USERS, minimum=10))
END = NOW + 3600
WRITES = ("INSERT", "UPDATE", "DELETE", "COMMIT")


def closing(state: Path, database: str | None, step: int) -> None:
    """Close the rounds of a shuffler; die before this change of its store, if it is one."""
    changes = 0

    def before(statement: str) -> None:
        nonlocal changes
        if statement.startswith(WRITES):
            changes += 1
            if changes == step:
                os.kill(os.getpid(), signal.SIGKILL)

    paths = ShufflerPaths.from_directories(state, None, database)
    store = paths.open_store()
    if isinstance(store, SqliteStore):
        store._file.set_trace_callback(before)
    else:
        _tell_before(before)
    with paths.lock_rounds(), store.lock_rounds():
        RoundManager(paths, store).take_due_steps(END)


def _tell_before(act: Callable[[str], None]) -> None:
    """Of every change that a session makes."""
    change = PostgresSession.execute

    def told(self: PostgresSession, statement: str, parameters: Sequence[Any] = ()) -> int:
        act(statement)
        return change(self, statement, parameters)

    PostgresSession.execute = told  # type: ignore[method-assign]


def begun(room: Path, ledger: Ledger, users: int = USERS, database: str | None = None) -> tuple[Shuffler, list[bytes]]:
    """A round that has its reports, one of them twice."""
    shuffler = Shuffler(room, CAMPAIGN, ledger.path, database)
    reports = shuffler.reports([0] * users)
    for report in [*reports, reports[0]]:
        assert shuffler.post(report)
    return shuffler, reports


def check(shuffler: Shuffler, reports: list[bytes], key: bytes, ledger: Ledger) -> None:
    """After whatever happened: everybody once, key and reports gone, the ledger right."""
    from shuffledp.service.crypto import REPORT_LABEL, build_context
    from tests.oracle import hpke

    assert shuffler.turn(END) is RoundState.FORGOTTEN
    inside = [hpke.open_envelope(key, build_context(REPORT_LABEL, CAMPAIGN.id, 1), report) for report in reports]
    assert read_messages(shuffler.paths.batch_directory(shuffler.round()), 49) == sorted(inside)
    statement = BatchStatement.from_signed(CAMPAIGN, shuffler.round().statement or b"")
    assert (statement.manifest.users, statement.repeated) == (len(reports), 1)
    assert keys_in(shuffler.paths) == []
    assert [path.name for path in shuffler.paths.batches_directory.iterdir()] == [shuffler.round().name]
    assert shuffler.store.stored_bytes(CAMPAIGN.id, 1) == 0
    mine = [entry for entry in ledger.budget_statuses()[0].entries if entry.digest == statement.manifest.digest]
    assert [(entry.users, entry.state) for entry in mine] == [(len(reports), "released")]


@pytest.mark.database("database")
@pytest.mark.crash
@pytest.mark.parametrize("kind", ["files", "statements", "database"])
def test_killed_before_every_step(tmp_path: Path, kind: str, request: pytest.FixtureRequest) -> None:
    """One round for each step; what is left is closed by the next process, as if nothing had happened."""
    step = 0
    while True:
        step += 1
        room = tmp_path / str(step)
        room.mkdir()
        ledger = Ledger.create(room / "ledger.sqlite")
        database = request.getfixturevalue("database_server").new_database() if kind == "database" else None
        shuffler, reports = begun(room, ledger, database=database)
        key = (shuffler.paths.keys / shuffler.round().name).read_bytes()
        state = shuffler.paths.state
        file_step, change = (step, 0) if kind == "files" else (0, step)
        ended = run_and_kill_at(file_step, state, closing, state, database, change)
        if shuffler.round().state is not RoundState.OPEN:
            assert not shuffler.post(reports[0])
        if shuffler.round().state is RoundState.FORGOTTEN:
            assert shuffler.paths.round_key(shuffler.round().name) is None
        check(shuffler, reports, key, ledger)
        shuffler.store.close()
        if ended:
            break
    assert step > (10 if kind == "files" else 4)


@pytest.mark.crash
def test_killed_while_too_few_came(tmp_path: Path) -> None:
    """Whenever it is killed, nothing of them is handed on, and the round is given up."""
    for step in range(1, 9):
        room = tmp_path / str(step)
        room.mkdir()
        shuffler, _ = begun(room, Ledger.create(room / "ledger.sqlite"), users=9)
        run_and_kill_at(step, shuffler.paths.state, closing, shuffler.paths.state, None, 0)
        assert shuffler.turn(END) is RoundState.EXPIRED
        assert list(shuffler.paths.batches_directory.iterdir()) == []
        assert keys_in(shuffler.paths) == []
        shuffler.store.close()


@pytest.mark.crash
def test_killed_under_load(tmp_path: Path, database: str | None) -> None:
    """Clients that repeat until they are acknowledged: every report is in the batch, each once; the key is gone."""
    assert run_endurance(tmp_path, database, kills=4, rounds=1, users=150, seed=5).kills == 4


def visitor(state: Path) -> None:
    """Another process that looks at the store and goes."""
    store = ShufflerPaths.from_directories(state).open_store()
    store.accepted_campaigns()
    store.close()


def test_another_process_comes_and_goes(tmp_path: Path) -> None:
    """What is acknowledged afterwards is seen by everybody.

    A process that opens and closes a database's file by itself loses its locks on it: the next visitor to go takes
    itself for the last one, and removes the log that others still write to.
    """
    shuffler = Shuffler(tmp_path, CAMPAIGN)
    # A second connection of this process, after the first one has its locks.
    second = shuffler.paths.open_store()
    second.accepted_campaigns()
    assert run_and_kill_at(0, shuffler.paths.state, visitor, shuffler.paths.state)
    (report,) = shuffler.reports([0])
    assert shuffler.post(report)
    assert run_and_kill_at(0, shuffler.paths.state, visitor, shuffler.paths.state)
    fresh = shuffler.paths.open_store()
    for store in (shuffler.store, second, fresh):
        assert store.stored_bytes(CAMPAIGN.id, 1) == len(report)
        store.close()
