"""A disk that reports, or anybody, have filled: reports are refused in time, and rounds are closed and given up."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from shuffledp.ledger.ledger import Ledger
from shuffledp.service import stores
from shuffledp.service.stores import PostedReports, RoundState, SqliteStore, StoreUnavailable
from tests.cli import run
from tests.service import create_campaign, plan_for
from tests.service.test_round import NOW, USERS, Shuffler

DISK_BYTES, KEPT_FREE_BYTES, RESERVE_BYTES = 12 << 20, 2 << 20, 1 << 20
MAX_PIECES = 200
WRITES = ("INSERT", "UPDATE", "DELETE", "COMMIT")


class Usage(NamedTuple):
    """As ``shutil.disk_usage`` has it."""

    total: int
    used: int
    free: int


@dataclass
class Disk:
    """A small disk: a real one in memory, or one that only seems small."""

    room: Path
    filled: bool = False

    def fill(self) -> None:
        """To the last byte."""
        self.filled = True
        with (self.room / "filling").open("wb", buffering=0) as file:
            for size in (1 << 16, 1 << 10, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    continue


@dataclass
class SeemingDisk(Disk):
    """Sizes of files below it count; what is written when it is full fails as SQLite says it."""

    def usage(self, _: object) -> Usage:
        files = [path for path in self.room.rglob("*") if path.is_file()]
        used = sum(path.stat().st_size for path in files)
        reserve = any(path.name == "reserve" for path in files)
        free = (0 if reserve else KEPT_FREE_BYTES) if self.filled else max(0, DISK_BYTES - used)
        return Usage(DISK_BYTES, DISK_BYTES - free, free)

    def fill(self) -> None:
        self.filled = True


@pytest.fixture(params=["mounted", "seeming"])
def disk(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """A disk of a few megabytes; one that seems so, also in place of a real one where nothing can be mounted."""
    monkeypatch.setattr(stores, "RESERVE_FILE_BYTES", KEPT_FREE_BYTES)
    monkeypatch.setattr(stores, "MIN_FREE_BYTES", RESERVE_BYTES)
    room = tmp_path / "disk"
    room.mkdir()
    if request.param == "mounted":
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(room)]
        mounted = (
            not os.geteuid() and shutil.which("mount") and not subprocess.run(mount, capture_output=True).returncode
        )
        if mounted:
            yield Disk(room)
            subprocess.run(["umount", "--lazy", str(room)], check=True)
            return
    made, really = SeemingDisk(room), SqliteStore._execute

    def limited(self: SqliteStore, statement: str, parameters: Sequence[Any] = ()) -> sqlite3.Cursor:
        if statement.startswith(WRITES) and not made.usage(None).free:
            raise StoreUnavailable("shuffler: the database cannot be used now: database or disk is full.")
        return really(self, statement, parameters)

    monkeypatch.setattr(SqliteStore, "_execute", limited)
    monkeypatch.setattr(shutil, "disk_usage", made.usage)
    yield made


@pytest.mark.exhaustive
def test_reports_leave_room_for_closing(disk: Disk) -> None:
    """They are refused before the disk is full, for now; the round is closed, and then there is room again."""
    shuffler = Shuffler(disk.room, create_campaign(plan_for(USERS, minimum=30, rounds=2)))
    for report in shuffler.reports([0] * USERS):
        assert shuffler.post(report)
    garbage, posted = os.urandom(97_000), 0
    with suppress(StoreUnavailable):
        for posted in range(MAX_PIECES):
            shuffler.store.append_reports(
                [PostedReports(shuffler.campaign.id, 1, garbage[posted:] + garbage[:posted])], NOW
            )
    with pytest.raises(StoreUnavailable, match="needed for closing rounds"):
        shuffler.store.check_disk_space()
    held = shuffler.store.stored_bytes(shuffler.campaign.id, 1)
    assert held == 97 * (USERS + 1000 * posted) > 1 << 20
    assert shutil.disk_usage(disk.room).free >= 2 * held
    assert shuffler.turn() is RoundState.FORGOTTEN
    assert shuffler.store.append_reports([PostedReports(shuffler.campaign.id, 2, bytes(97))], NOW + 3601) == [True]
    shuffler.store.close()


@pytest.mark.parametrize(("command", "state"), [("expire", RoundState.EXPIRED), ("close", RoundState.FORGOTTEN)])
def test_a_disk_that_somebody_else_filled(disk: Disk, command: str, state: RoundState) -> None:
    """No report is taken; the operator gives the round up, or closes one that is small, from what was kept free."""
    ledger = Ledger.create(disk.room / "ledger.sqlite")
    shuffler = Shuffler(disk.room, create_campaign(plan_for(USERS, minimum=30)), ledger.path)
    with shuffler.paths.release_reserve():
        assert not (shuffler.paths.state / "reserve").exists()
    assert (shuffler.paths.state / "reserve").stat().st_size == KEPT_FREE_BYTES
    for report in shuffler.reports([0] * USERS):
        assert shuffler.post(report)
    for _ in range(200):
        shuffler.post(bytes(970))
    disk.fill()
    with pytest.raises(StoreUnavailable):
        shuffler.post(bytes(97))
    found = shuffler.round()
    shuffler.store.close()
    outcome = run("campaign", command, shuffler.campaign.id[:9], "--state", str(shuffler.paths.state))
    assert outcome.status == 0, outcome.err
    shuffler.store = shuffler.paths.open_store()
    assert shuffler.round().state is state
    assert shuffler.paths.round_key(found.name) is None
    assert shuffler.store.stored_bytes(shuffler.campaign.id, 1) == 0
    assert [entry.users for standing in ledger.budget_statuses() for entry in standing.entries] == (
        [USERS] if command == "close" else []
    )
    shuffler.store.close()
