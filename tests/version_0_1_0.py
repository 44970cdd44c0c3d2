"""Files of shuffledp 0.1.0, from tests/golden/version_0_1_0, as they stood on the machine that wrote them."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from shuffledp import KRR, Plan, tasks
from shuffledp.ledger.rollback_guard import RollbackGuard
from shuffledp.ledger.storage import parse_location

FOLDER = Path(__file__).parent / "golden" / "version_0_1_0"
EXPECTED: dict[str, Any] = json.loads((FOLDER / "expected.json").read_text("utf-8"))
"""What 0.1.0 said of its files."""
NOW, WINDOW = 1_800_000_000, 3600
"""When its campaigns began, and how long each of their rounds is open."""
ROWS, ENTRY_USERS = 120, 500
"""Users of its collections, and of entries of its ledgers."""


def old_plan(users: int, rounds: int = 1, **more: Any) -> Plan:
    """The plans that it wrote."""
    return Plan(tasks.Frequency(["red", "green", "blue"]), KRR(0.5, 3), users=users, epsilon=1.0 * rounds, delta=1e-6,
                rounds=rounds, bound="stronger-clone", **more)  # fmt: skip


def restore_file(text: Path, path: Path) -> None:
    """Make an SQLite file out of its text."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(text.read_text("utf-8"))
    path.chmod(0o600)


def restore_database(url: str) -> None:
    """Fill an empty database; one that is not empty is emptied."""
    text = (FOLDER / "postgres" / "database.sql").read_text("utf-8").replace("LEDGER-ADDRESS", url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(b"DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        connection.execute(text.encode())


class OldFiles:
    """A directory with everything that 0.1.0 wrote of one kind, which becomes the working directory."""

    def __init__(self, room: Path, database: str | None, patch: pytest.MonkeyPatch) -> None:
        self.kind, self.room, self.database = "sqlite" if database is None else "postgres", room / "old", database
        self.expected: dict[str, Any] = EXPECTED[self.kind]
        shutil.copytree(FOLDER / self.kind, self.room)
        for folder, _, names in os.walk(self.room):
            os.chmod(folder, 0o700)
            for name in names:
                os.chmod(Path(folder, name), 0o600)
        # Every test restores the same ledger: to one user of one machine it would be a copy that is behind.
        patch.setenv("XDG_STATE_HOME", str(room / "memory"))
        patch.chdir(self.room)
        self.restore()
        self._remember()

    @property
    def ledger(self) -> str:
        return self.database or "ledger.sqlite"

    def restore(self) -> None:
        """Put both stores back, as from a backup that was made before the upgrade."""
        if self.database is None:
            restore_file(FOLDER / "sqlite" / "ledger.sql", self.room / "ledger.sqlite")
            restore_file(FOLDER / "sqlite" / "reports.sql", self.room / "state" / "reports.sqlite")
        else:
            restore_database(self.database)

    def _remember(self) -> None:
        """What 0.1.0 remembered of the ledger, which was its place alone."""
        witness = RollbackGuard(parse_location(self.ledger))
        witness.path.parent.mkdir(parents=True)
        told = {"ledger": witness.ledger, "last": self.expected["head"]}
        witness.path.write_text(json.dumps(told), "utf-8")

    def rows(self, in_sqlite: str, in_postgres: str, store: str = "ledger.sqlite") -> list[tuple[Any, ...]]:
        """What a query finds, asked by somebody else."""
        if self.database is None:
            with closing(sqlite3.connect(self.room / store)) as file:
                return file.execute(in_sqlite).fetchall()
        with psycopg.connect(self.database, autocommit=True) as connection:
            cursor = connection.execute(in_postgres.encode())
            return [] if cursor.description is None else cursor.fetchall()

    def change(self, in_sqlite: str, in_postgres: str, store: str = "ledger.sqlite") -> None:
        """Change something behind the software's back."""
        if self.database is None:
            with closing(sqlite3.connect(self.room / store, isolation_level=None)) as file:
                file.executescript(in_sqlite)
        else:
            self.rows(in_sqlite, in_postgres)
