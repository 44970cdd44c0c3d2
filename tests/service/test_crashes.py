"""SIGKILL before every step of a round, and of the server under load: what was acknowledged is counted once.

Steps are changes of files below the shuffler's directory, as Python's audit events tell them, and every statement to
its database.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from shuffledp.collection.ledger import Ledger
from shuffledp.service.delivery import deliver
from shuffledp.service.link import Link
from shuffledp.service.notice import BatchRecord
from shuffledp.service.place import Place
from shuffledp.service.round import Keeper
from shuffledp.service.sqlite_store import SqliteStore
from shuffledp.service.store import Piece, State
from tests.collection import messages_in
from tests.collection.killing import killed_at
from tests.service import campaign_of, plan_for
from tests.service.server import Server, accepted
from tests.service.test_round import NOW, Shuffler

USERS = 12
CAMPAIGN = campaign_of(plan_for(USERS, minimum=10))
END = NOW + 3600
WRITES = ("INSERT", "UPDATE", "DELETE", "COMMIT")


def closing(state: Path, step: int) -> None:
    """Close the rounds of a shuffler; die before this statement to its database, if it is one."""
    statements = 0

    def before(statement: str) -> None:
        nonlocal statements
        if statement.startswith(WRITES):
            statements += 1
            if statements == step:
                os.kill(os.getpid(), signal.SIGKILL)

    place = Place.of(state)
    store = place.store()
    assert isinstance(store, SqliteStore)
    store._file.set_trace_callback(before)
    with place.alone():
        Keeper(place, store).turn(END)


def begun(room: Path, ledger: Ledger, users: int = USERS) -> tuple[Shuffler, list[bytes]]:
    """A round that has its reports, one of them twice."""
    shuffler = Shuffler(room, CAMPAIGN, ledger.path)
    reports = shuffler.reports([0] * users)
    for report in [*reports, reports[0]]:
        assert shuffler.post(report)
    return shuffler, reports


def check(shuffler: Shuffler, reports: list[bytes], key: bytes, ledger: Ledger) -> None:
    """After whatever happened: everybody once, key and reports gone, the ledger right."""
    from shuffledp.service.envelope import REPORT, context
    from tests.oracle import hpke

    assert shuffler.turn(END) is State.FORGOTTEN
    inside = [hpke.opened(key, context(REPORT, CAMPAIGN.id, 1), report) for report in reports]
    assert messages_in(shuffler.place.batch(shuffler.round()), 49) == sorted(inside)
    statement = BatchRecord.read(CAMPAIGN, shuffler.round().statement or b"")
    assert (statement.manifest.users, statement.repeated) == (len(reports), 1)
    assert [path.name for path in shuffler.place.keys.iterdir()] == ["identity"]
    assert [path.name for path in shuffler.place.batches.iterdir()] == [shuffler.round().name]
    assert shuffler.store.size(CAMPAIGN.id, 1) == 0
    mine = [entry for entry in ledger.standings()[0].entries if entry.digest == statement.manifest.digest]
    assert [(entry.users, entry.state) for entry in mine] == [(len(reports), "released")]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["files", "statements"])
def test_killed_before_every_step(tmp_path: Path, kind: str) -> None:
    """One round for each step; what is left is closed by the next process, as if nothing had happened."""
    step = 0
    while True:
        step += 1
        room = tmp_path / str(step)
        room.mkdir()
        ledger = Ledger.create(room / "ledger.sqlite")
        shuffler, reports = begun(room, ledger)
        key = (shuffler.place.keys / shuffler.round().name).read_bytes()
        state = shuffler.place.state
        file_step, statement = (step, 0) if kind == "files" else (0, step)
        ended = killed_at(file_step, state, closing, state, statement)
        if shuffler.round().state is not State.OPEN:
            assert not shuffler.post(reports[0])
        if shuffler.round().state is State.FORGOTTEN:
            assert shuffler.place.key(shuffler.round().name) is None
        check(shuffler, reports, key, ledger)
        shuffler.store.close()
        if ended:
            break
    assert step > (10 if kind == "files" else 4)


@pytest.mark.slow
def test_killed_while_too_few_came(tmp_path: Path) -> None:
    """Whenever it is killed, nothing of them is handed on, and the round is given up."""
    for step in range(1, 9):
        room = tmp_path / str(step)
        room.mkdir()
        shuffler, _ = begun(room, Ledger.create(room / "ledger.sqlite"), users=9)
        killed_at(step, shuffler.place.state, closing, shuffler.place.state, 0)
        assert shuffler.turn(END) is State.EXPIRED
        assert list(shuffler.place.batches.iterdir()) == []
        assert [path.name for path in shuffler.place.keys.iterdir()] == ["identity"]
        shuffler.store.close()


@pytest.mark.slow
def test_killed_under_load(tmp_path: Path) -> None:
    """Clients that repeat until they are acknowledged: every acknowledged report is in the batch, each once."""
    kills, chance = 6, random.Random(5)
    place = accepted(tmp_path / "state", CAMPAIGN)
    shuffler = Shuffler.__new__(Shuffler)
    shuffler.place, shuffler.campaign, shuffler.store = place, CAMPAIGN, place.store()
    reports = shuffler.reports([0, 1, 2] * 200)
    servers = [Server(place.state)]
    taken: list[bytes] = []
    ended = threading.Event()

    def client(mine: list[bytes]) -> None:
        for report in mine:
            while not ended.is_set():
                try:
                    with Link(servers[-1].url, tries=1) as link:
                        deliver(CAMPAIGN, 1, link, report)
                except ValueError:
                    time.sleep(0.02)
                else:
                    taken.append(report)
                    break

    clients = [threading.Thread(target=client, args=(reports[place::3],)) for place in range(3)]
    try:
        for each in clients:
            each.start()
        for _ in range(kills):
            wanted = len(taken) + chance.randrange(10, 60)
            until = time.monotonic() + 60
            while len(taken) < wanted and time.monotonic() < until:
                time.sleep(0.005)
            servers[-1].kill()
            servers.append(Server(place.state))
        for each in clients:
            each.join(120)
    finally:
        ended.set()
        servers[-1].kill()
    assert sorted(taken) == sorted(reports)
    assert sqlite3.connect(place.state / "reports.sqlite").execute("PRAGMA integrity_check").fetchone() == ("ok",)
    Keeper(place, shuffler.store).turn(int(time.time()) + 3601)
    statement = BatchRecord.read(CAMPAIGN, shuffler.round().statement or b"")
    assert (statement.manifest.users, statement.refused) == (len(reports), 0)
    shuffler.store.close()


def test_a_store_and_two_processes(tmp_path: Path) -> None:
    """A round that is closed while others write: what was acknowledged is in, what was refused is not."""
    shuffler = Shuffler(tmp_path, CAMPAIGN)
    reports = shuffler.reports([0] * 60)
    taken: list[bytes] = []

    def write(mine: list[bytes]) -> None:
        store = shuffler.place.store()
        for report in mine:
            if store.append([Piece(CAMPAIGN.id, 1, report)], NOW)[0]:
                taken.append(report)
        store.close()

    writers = [threading.Thread(target=write, args=(reports[place::2],)) for place in range(2)]
    for each in writers:
        each.start()
    while len(taken) < 15:
        time.sleep(0.001)
    Keeper(shuffler.place, shuffler.store).turn(END)
    for each in writers:
        each.join()
    statement = BatchRecord.read(CAMPAIGN, shuffler.round().statement or b"")
    assert statement.manifest.users == len(taken)
    assert statement.repeated == statement.refused == 0


def visitor(state: Path) -> None:
    """Another process that looks at the store and goes."""
    store = Place.of(state).store()
    store.accepted()
    store.close()


def test_another_process_comes_and_goes(tmp_path: Path) -> None:
    """What is acknowledged afterwards is seen by everybody.

    A process that opens and closes a database's file by itself loses its locks on it: the next visitor to go takes
    itself for the last one, and removes the log that others still write to.
    """
    shuffler = Shuffler(tmp_path, CAMPAIGN)
    # A second connection of this process, after the first one has its locks.
    second = shuffler.place.store()
    second.accepted()
    assert killed_at(0, shuffler.place.state, visitor, shuffler.place.state)
    (report,) = shuffler.reports([0])
    assert shuffler.post(report)
    assert killed_at(0, shuffler.place.state, visitor, shuffler.place.state)
    fresh = shuffler.place.store()
    for store in (shuffler.store, second, fresh):
        assert store.size(CAMPAIGN.id, 1) == len(report)
        store.close()
