"""The store in one SQLite file, with a write-ahead log that is on disk before anything is acknowledged."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import compress
from pathlib import Path
from typing import Any

from shuffledp.collection.durable import OWNER_ONLY
from shuffledp.service.campaign import Campaign
from shuffledp.service.store import (
    Accepted,
    Piece,
    Round,
    State,
    Store,
    Unavailable,
    fitting,
    segments_of,
    stored_campaign,
)

PATIENCE_SECONDS = 20.0
"""How long to wait for another process that writes."""
SCHEMA = """
CREATE TABLE IF NOT EXISTS campaigns (
  id TEXT PRIMARY KEY, place INTEGER NOT NULL, content BLOB NOT NULL, ledger TEXT
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sizes (campaign TEXT PRIMARY KEY, report INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rounds (
  id INTEGER PRIMARY KEY, campaign TEXT NOT NULL, number INTEGER NOT NULL, state TEXT NOT NULL,
  closes INTEGER NOT NULL, extended INTEGER NOT NULL, notice BLOB NOT NULL, statement BLOB,
  UNIQUE (campaign, number)
);
CREATE TABLE IF NOT EXISTS segments (round INTEGER NOT NULL, content BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS held (round INTEGER PRIMARY KEY, bytes INTEGER NOT NULL);
"""
COLUMNS = "campaign, number, state, closes, extended, notice, statement"
OF_ROUND = "round = (SELECT id FROM rounds WHERE campaign = ? AND number = ?)"

OPEN = (
    "SELECT id, coalesce(bytes, (SELECT coalesce(sum(length(content)), 0) FROM segments WHERE round = id)) "
    "FROM rounds LEFT JOIN held ON round = id WHERE campaign = ? AND number = ? AND state = 'open' AND closes > ?"
)
"""A round that takes reports, and how many bytes it has; they are counted where an earlier version stored them."""
RESERVE_BYTES, CLOSING_TIMES = 256 << 20, 3
"""What must be free on the disk before reports are stored: so many bytes, and for each byte of a report so many more.
Closing a round sorts its reports, then its messages, and writes these, each on disk where they are many."""


class SqliteStore(Store):
    """A connection to the file at ``path``, which is made if it is not there."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._directory = path.parent
        try:
            self._connect(path)
        except (OSError, sqlite3.Error) as error:
            raise ValueError(f"shuffler: cannot open {path}: {error}.") from None
        self._campaigns: dict[str, Campaign] = {}

    def _connect(self, path: Path) -> None:
        # Its owner's only, and so are the files that SQLite makes beside it. A file that is there must not be opened
        # here: closing it would drop the locks that other connections of this process have on it.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, OWNER_ONLY))
        self._file = sqlite3.connect(path, timeout=PATIENCE_SECONDS, isolation_level=None, check_same_thread=False)
        self._file.execute("PRAGMA journal_mode = WAL")
        self._file.execute("PRAGMA synchronous = FULL")
        self._file.executescript(SCHEMA)

    def _read(self, id_: str, content: bytes) -> Campaign:
        """Campaigns never change: each is read once."""
        if id_ not in self._campaigns:
            self._campaigns[id_] = stored_campaign(id_, content)
        return self._campaigns[id_]

    def _run(self, statement: str, parameters: Sequence[Any] = ()) -> sqlite3.Cursor:
        try:
            return self._file.execute(statement, parameters)
        # A disk that is full, a file that others keep locked.
        except sqlite3.Error as error:
            raise Unavailable(f"shuffler: the database cannot be used now: {error}.") from None

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._run("BEGIN IMMEDIATE")
        try:
            yield
            self._run("COMMIT")
        except BaseException:
            # Some errors have taken it back already.
            if self._file.in_transaction:
                self._file.execute("ROLLBACK")
            raise

    def accept(self, accepted: Accepted) -> None:
        campaign = accepted.campaign
        with self._transaction():
            self._run(
                "INSERT OR IGNORE INTO campaigns SELECT ?, count(*), ?, ? FROM campaigns",
                (campaign.id, campaign.content, accepted.ledger),
            )
            self._run("INSERT OR IGNORE INTO sizes VALUES (?, ?)", (campaign.id, campaign.report_bytes))

    def accepted(self) -> list[Accepted]:
        found = self._run("SELECT id, content, ledger FROM campaigns ORDER BY place").fetchall()
        return [Accepted(self._read(id_, content), ledger) for id_, content, ledger in found]

    def campaign(self, id_: str) -> Campaign | None:
        found = self._run("SELECT content FROM campaigns WHERE id = ?", (id_,)).fetchone()
        return None if found is None else self._read(id_, found[0])

    def _stored_bytes(self, id_: str) -> int | None:
        found = self._run("SELECT report FROM sizes WHERE campaign = ?", (id_,)).fetchone()
        return None if found is None else int(found[0])

    def open_round(self, opened: Round) -> bool:
        done = self._run(
            f"INSERT OR IGNORE INTO rounds ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (opened.campaign, opened.number, opened.state, opened.closes, opened.extended, opened.notice, None),
        )
        return done.rowcount == 1

    def rounds(self, campaign: str) -> list[Round]:
        found = self._run(f"SELECT {COLUMNS} FROM rounds WHERE campaign = ? ORDER BY number", (campaign,))
        return [Round(id_, number, State(state), *rest) for id_, number, state, *rest in found.fetchall()]

    def move(self, before: Round, after: Round) -> bool:
        done = self._run(
            "UPDATE rounds SET state = ?, closes = ?, extended = ?, notice = ?, statement = ? "
            "WHERE campaign = ? AND number = ? AND state = ? AND closes = ?",
            (
                *(after.state, after.closes, after.extended, after.notice, after.statement),
                *(before.campaign, before.number, before.state, before.closes),
            ),
        )
        return done.rowcount == 1

    def append(self, pieces: Sequence[Piece], now: float) -> list[bool]:
        self.demand_room()
        with self._transaction():
            rounds, room = {}, {}
            for key in {(piece.campaign, piece.number) for piece in pieces}:
                rounds[key] = self._run(OPEN, (*key, now)).fetchone()
                room[key] = -1 if rounds[key] is None else self._most_bytes(key[0]) - rounds[key][1]
            taken = fitting(pieces, room)
            for campaign, number, content in segments_of(list(compress(pieces, taken))):
                id_, held = rounds[campaign, number]
                rounds[campaign, number] = id_, held + len(content)
                self._run("INSERT INTO segments VALUES (?, ?)", (id_, content))
                self._run("INSERT OR REPLACE INTO held VALUES (?, ?)", (id_, held + len(content)))
        return taken

    def demand_room(self) -> None:
        free = shutil.disk_usage(self._directory).free
        (held,) = self._run("SELECT coalesce(sum(bytes), 0) FROM held").fetchone()
        if free < RESERVE_BYTES + CLOSING_TIMES * held:
            raise Unavailable(
                f"shuffler: {free:,} bytes are free in {self._directory}, which is kept for closing rounds; make room."
            )

    def size(self, campaign: str, number: int) -> int:
        found = self._run(
            f"SELECT coalesce(sum(length(content)), 0) FROM segments WHERE {OF_ROUND}", (campaign, number)
        )
        return int(found.fetchone()[0])

    def reports(self, campaign: str, number: int) -> Iterator[bytes]:
        for (content,) in self._run(f"SELECT content FROM segments WHERE {OF_ROUND}", (campaign, number)):
            yield content

    def forget_reports(self, campaign: str, number: int) -> None:
        self._run(f"DELETE FROM segments WHERE {OF_ROUND}", (campaign, number))
        self._run(f"DELETE FROM held WHERE {OF_ROUND}", (campaign, number))
        # The log holds them, too, until it is written anew.
        self._run("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        self._file.close()
