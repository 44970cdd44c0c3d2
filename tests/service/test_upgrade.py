"""A shuffler's store of version 0.1.0 is migrated once, whoever opens it and whenever it is killed, and goes on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shuffledp import collection
from shuffledp.ledger.ledger import Ledger
from shuffledp.service import serve
from shuffledp.service.batch_receiver import receive
from shuffledp.service.campaign import Campaign
from shuffledp.service.client import Wallet
from shuffledp.service.crypto import AnalystKey
from shuffledp.service.notices_and_statements import RoundNotice
from shuffledp.service.rounds import RoundManager
from shuffledp.service.sealing import seal_reports
from shuffledp.service.stores import IngestNode, PostedReports, RoundState, ShufflerPaths, Store, StoreUnavailable
from shuffledp.storage.migrations import NewerSchema
from tests.collection import read_messages
from tests.version_0_1_0 import NOW, WINDOW, OldFiles

pytestmark = pytest.mark.usefixtures("no_pictures")

REPORTS = "state/reports.sqlite"
LAST = NOW + 2 * WINDOW
"""When the round that is open was opened."""


@pytest.fixture
def old(tmp_path: Path, database: str | None, monkeypatch: pytest.MonkeyPatch) -> OldFiles:
    return OldFiles(tmp_path, database, monkeypatch)


class Shuffler:
    """The one that 0.1.0 left, under the present version."""

    def __init__(self, old: OldFiles) -> None:
        self.paths = ShufflerPaths.from_directories(Path("state"), Path("keys"), old.database)
        self.store = self.paths.open_store()
        self.manager = RoundManager(self.paths, self.store)
        self.long, self.short = Campaign.load("campaign-3.json"), Campaign.load("campaign-1.json")

    def states(self) -> dict[str, str]:
        rounds = [each for campaign in (self.long, self.short) for each in self.store.rounds(campaign.id)]
        return {each.name: each.state.value for each in rounds}

    def opened(self, campaign: Campaign, number: int) -> list[int]:
        """The messages of a batch, which the analyst opens and estimates from."""
        found, out = self.store.round(campaign.id, number), Path(f"opened-{campaign.rounds}-{number}")
        assert found is not None
        made = receive(campaign, AnalystKey.load("analyst.key"), self.paths.batch_directory(found), out=out)
        messages = [message[0] for message in read_messages(out, 1)]
        report = collection.estimate(campaign.plan, out, out=Path(f"result-{campaign.rounds}-{number}"))
        assert made.users == report.guarantee.users == len(messages)
        return messages


@pytest.fixture
def shuffler(old: OldFiles) -> Iterator[Shuffler]:
    made = Shuffler(old)
    yield made
    made.store.close()


def version_of(old: OldFiles) -> int:
    """As it is recorded; 0 where it is not."""
    if old.rows("SELECT 0", "SELECT count(*) FROM pg_tables WHERE tablename = 'shuffledp_schema'") == [(0,)]:
        return int(old.rows("PRAGMA user_version", "SELECT 0", REPORTS)[0][0])
    return int(old.rows("", "SELECT version FROM shuffledp_schema WHERE store = 'reports'")[0][0])


def held(old: OldFiles) -> list[tuple[Any, ...]]:
    """Bytes of each round that has reports, by its state."""
    return old.rows(
        "SELECT state, bytes FROM held JOIN rounds ON round = id ORDER BY state",
        "SELECT state, bytes FROM shuffledp_held JOIN shuffledp_rounds ON round = id ORDER BY state",
        REPORTS,
    )


# --- going on -----------------------------------------------------------------------------------------------------


def test_a_shuffler_goes_on(old: OldFiles, shuffler: Shuffler) -> None:
    """Rounds that are open take reports, one that was killed is mixed, a batch that waits is fetched: none is lost."""
    paths, store, long, short = shuffler.paths, shuffler.store, shuffler.long, shuffler.short
    expected = old.expected["rounds"]
    assert shuffler.states() == expected["states"]
    size = long.report_bytes
    assert (store.report_bytes(long.id), store.report_bytes("0" * 64)) == (size, None)
    assert held(old) == [("closing", 9 * size), ("open", 7 * size)]
    shuffler.manager.recover(LAST)
    assert shuffler.states() == expected["states"]

    # An answer that a client prepared before, and two that are made now.
    wallet = Wallet.open_directory("wallet", 9.0)
    assert wallet.total_epsilon() == pytest.approx(old.expected["answers"]["wallet"], rel=1e-9)
    (pending,) = [bytes.fromhex(answer.report) for answer in wallet.answers() if answer.report]
    assert wallet.answer(short, 1) is not None
    opened = store.round(long.id, 3)
    assert opened is not None
    wire = long.plan.mechanism.pack(np.array([1, 2]))
    reports = [row.tobytes() for row in seal_reports(long, RoundNotice.from_signed(long, opened.notice), wire)]
    assert store.append_reports([PostedReports(long.id, 3, each) for each in [pending, *reports]], LAST) == [True] * 3
    assert sum(count for state, count in held(old) if state == "open") == 10 * size
    assert store.append_reports([PostedReports(short.id, 1, pending)], LAST) == [False]

    shuffler.manager.take_due_steps(LAST + WINDOW)
    found = list(shuffler.states().values())
    assert found == ["erased", "forgotten", "forgotten", "forgotten"]
    assert shuffler.opened(long, 2) == sorted(expected["waiting"])
    assert shuffler.opened(long, 3) == sorted([*expected["open"], *old.expected["answers"]["pending"], 1, 2])
    assert shuffler.opened(short, 1) == sorted(expected["closing"])
    entries = {entry.id: entry for entry in Ledger(old.ledger).budget_statuses("everyone")[0].entries}
    users = {name: (entries[name].state, entries[name].users) for name in shuffler.states()}
    assert sorted(users.values()) == [("released", count) for count in (9, 10, 10, 11)]
    assert sum(path.is_file() for path in paths.keys.iterdir()) == 1, "the keys of all rounds are destroyed"
    shuffler.manager.take_due_steps(NOW + 10 * WINDOW + long.retention)
    assert set(shuffler.states().values()) == {"erased"}


def test_a_round_keeps_its_capacity(old: OldFiles, shuffler: Shuffler) -> None:
    """What 0.1.0 took counts."""
    size, room = shuffler.long.report_bytes, shuffler.long.capacity - 7
    pieces = [PostedReports(shuffler.long.id, 3, bytes(count * size)) for count in (room, 1)]
    assert shuffler.store.append_reports(pieces, LAST) == [True, False]
    assert version_of(old) == 2


@pytest.mark.parametrize("ledger", [True, False])
def test_a_backup_from_before_the_upgrade_asks_nobody_twice(old: OldFiles, shuffler: Shuffler, ledger: bool) -> None:
    """Rounds that 0.1.0 ended are marked when the new version starts, with a ledger or without one."""
    if not ledger:
        old.change("UPDATE campaigns SET ledger = NULL", "UPDATE shuffledp_campaigns SET ledger = NULL", REPORTS)
    shuffler.manager.recover(LAST)
    second = shuffler.store.round(shuffler.long.id, 2)
    assert second is not None
    assert shuffler.paths.finished_digest(second.name) not in (None, "")
    shuffler.manager.take_due_steps(LAST + WINDOW)
    shuffler.store.close()

    # A copy of the time when the second round was open; its key was in it.
    copied, state = old.room / "copied", shuffler.paths.state
    state.rename(copied)
    (state / "batches").mkdir(parents=True, mode=0o700)
    state.chmod(0o700)
    old.restore()
    where = f"campaign = '{shuffler.long.id}' AND number >= 2"
    change = (
        "DELETE FROM {0} WHERE "
        + where.replace(">= 2", "> 2")
        + f"; UPDATE {{0}} SET state = 'open', closes = {LAST + WINDOW} WHERE "
        + where
    )
    old.change(change.format("rounds"), change.format("shuffledp_rounds"), REPORTS)
    if not ledger:
        old.change("UPDATE campaigns SET ledger = NULL", "UPDATE shuffledp_campaigns SET ledger = NULL", REPORTS)
    (shuffler.paths.keys / second.name).write_bytes(bytes(range(32)))
    if ledger:
        Ledger(old.ledger).accept()
    again = Shuffler(old)
    again.manager.recover(LAST)
    again.manager.take_due_steps(LAST)
    states = [each.state for each in again.store.rounds(shuffler.long.id)]
    assert states[1:] == [RoundState.EXPIRED] * (len(states) - 1)
    assert not again.paths.batch_directory(second).exists()
    again.store.close()


# --- newer --------------------------------------------------------------------------------------------------------


def test_a_newer_store_is_refused(old: OldFiles, shuffler: Shuffler) -> None:
    """By one sentence, and never as a store that is only away: whoever begins to serve stops."""
    shuffler.store.accepted_campaigns()
    assert version_of(old) == 2
    old.change("PRAGMA user_version = 3", "UPDATE shuffledp_schema SET version = 3 WHERE store = 'reports'", REPORTS)
    words = r"^shuffler: .* has schema version 3, and shuffledp \S+ knows versions up to 2; upgrade shuffledp\.$"
    with pytest.raises(NewerSchema, match=words) as caught:
        shuffler.paths.open_store().accepted_campaigns()
    assert isinstance(caught.value, StoreUnavailable), "clients of a process that serves are told to come again"
    places: list[ShufflerPaths | IngestNode] = [
        shuffler.paths,
        *([] if old.database is None else [IngestNode(old.database)]),
    ]
    for paths in places:
        with pytest.raises(NewerSchema, match=words):
            serve.serve(paths, "127.0.0.1:0", ready=lambda address: pytest.fail(f"it listens at {address}"))
    assert version_of(old) == 3


# --- killed, and several at once ----------------------------------------------------------------------------------

OPEN = """
import dataclasses, os, signal, sys, time
from pathlib import Path
from shuffledp.service import stores
from shuffledp.service.stores import ShufflerPaths

database, deadly, log = sys.argv[1] or None, int(sys.argv[2]), sys.argv[3]
schema, steps = ("SQLITE_SCHEMA" if database is None else "POSTGRES_SCHEMA"), 0

def watched(migration):
    def run(execute):
        def counted(*arguments):
            global steps
            steps += 1
            if steps == deadly:
                os.kill(os.getpid(), signal.SIGKILL)
            return execute(*arguments)
        with open(log, "a") as file:
            file.write(f"{migration.__name__}\\n")
        if not deadly:
            # The others are there meanwhile.
            time.sleep(0.3)
        migration(counted)
        counted("SELECT 1")
    return run

found = getattr(stores, schema)
setattr(stores, schema, dataclasses.replace(found, migrations=tuple(map(watched, found.migrations))))
if not deadly:
    print("ready", flush=True)
    sys.stdin.readline()
paths = ShufflerPaths(Path("state"), Path("keys"), database)
store = paths.open_store()
print(len(store.accepted_campaigns()), flush=True)
store.close()
"""


def opening(old: OldFiles, deadly: int = 0) -> subprocess.Popen[str]:
    """Another process, which opens the store; ``deadly`` is the number of the statement before which it is killed."""
    arguments = [sys.executable, "-c", OPEN, old.database or "", str(deadly), str(old.room / "log")]
    return subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def layout(old: OldFiles) -> list[tuple[Any, ...]]:
    """Tables with their columns."""
    return old.rows(
        "SELECT m.name, c.name, c.type, c.pk FROM sqlite_master m, pragma_table_info(m.name) c "
        "WHERE m.type = 'table' ORDER BY m.name, c.name",
        "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns "
        "WHERE table_schema = 'public' AND table_name NOT LIKE 'shuffledp_ledger%' ORDER BY 1, 2",
        REPORTS,
    )


def test_a_migration_that_is_killed_is_done_again(old: OldFiles) -> None:
    """Before each of its statements: the store is as it was, and the next process migrates it."""
    before, deadly = layout(old), 1
    while True:
        process = opening(old, deadly)
        said, _ = process.communicate()
        if process.returncode == 0:
            break
        assert (process.returncode, said) == (-9, "")
        assert (layout(old), version_of(old)) == (before, 0)
        deadly += 1
    assert deadly > 3
    assert (said, version_of(old)) == ("2\n", 2)
    size = Campaign.load("campaign-3.json").report_bytes
    assert held(old) == [("closing", 9 * size), ("open", 7 * size)]


def test_several_open_it_at_once(old: OldFiles) -> None:
    """One migrates, the others wait for it; and so they do where there is no store yet."""
    for fresh in (False, True):
        log = old.room / "log"
        log.unlink(missing_ok=True)
        if fresh:
            migrated = layout(old)
            tables = ("campaigns", "sizes", "rounds", "segments", "held")
            dropped = "; ".join(f"DROP TABLE {table}" for table in tables)
            there = "; ".join(f"DROP TABLE shuffledp_{table}" for table in (*tables, "schema"))
            old.change(f"{dropped}; PRAGMA user_version = 0", there, REPORTS)
        processes = [opening(old) for _ in range(4)]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        for process in processes:
            said, _ = process.communicate()
            assert (process.returncode, said) == (0, "0\n" if fresh else "2\n")
        assert log.read_text("utf-8").split() == [f"create_{old.kind}_tables"] * fresh + [f"count_{old.kind}_bytes"]
        assert version_of(old) == 2
    assert layout(old) == migrated


def test_the_store_is_closed_by_whoever_opened_it(old: OldFiles) -> None:
    """A connection that finds the newest version changes nothing."""
    stores: list[Store] = [ShufflerPaths(Path("state"), Path("keys"), old.database).open_store() for _ in range(2)]
    for store in stores:
        assert len(store.accepted_campaigns()) == 2
    assert version_of(old) == 2
    for store in stores:
        store.close()
