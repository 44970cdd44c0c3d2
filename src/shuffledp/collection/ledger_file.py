"""The ledger's SQLite file: durable when a write returns, never created by opening it, readable by its owner only."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from shuffledp.collection import durable
from shuffledp.collection.chain import BEGINNING, Event, Head, LedgerFailed, changed, extended, verified

WAIT_SECONDS = 120.0
"""How long to wait for another run that is at the ledger."""
APPLICATION = 0x53445031
"""Says in the file's head that it is a ledger."""
SETTINGS = ("PRAGMA synchronous = EXTRA", "PRAGMA fullfsync = ON", "PRAGMA cell_size_check = ON")
"""What is committed survives a power loss; damaged pages are noticed."""
TABLES = (
    f"PRAGMA application_id = {APPLICATION}",
    "CREATE TABLE event (number INTEGER PRIMARY KEY, payload TEXT NOT NULL, hash TEXT NOT NULL)",
    # The last event once more: rows that a damaged page lost at the end would leave a chain that looks whole.
    "CREATE TABLE head (number INTEGER NOT NULL, hash TEXT NOT NULL)",
    "CREATE TABLE curve (key TEXT PRIMARY KEY, content BLOB NOT NULL)",
)


class LedgerFile:
    """One ledger's file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def exists(self) -> bool:
        """Whether anything is there."""
        return os.path.lexists(self.path)

    def create(self, payloads: Iterable[Mapping[str, Any]]) -> None:
        """A new file with its first events; it gets its name only when it is complete on disk."""
        if self.exists():
            raise LedgerFailed(f"ledger: {self.path} is already there; a ledger is created only once.")
        unfinished = durable.unfinished_name(self.path)
        try:
            durable.make_directory(self.path.parent, 0o700)
            os.close(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        except OSError as error:
            raise LedgerFailed(f"ledger: cannot create {self.path}: {error.strerror}.") from None
        try:
            with LedgerFile(unfinished)._writing() as connection:
                for statement in TABLES:
                    connection.execute(statement)
                connection.execute("INSERT INTO head VALUES (0, ?)", (BEGINNING,))
                _append(connection, extended(BEGINNING, 0, payloads))
            durable.sync_path(unfinished)
            os.link(unfinished, self.path)
        except FileExistsError:
            raise LedgerFailed(f"ledger: {self.path} is already there; a ledger is created only once.") from None
        except OSError as error:
            raise LedgerFailed(f"ledger: cannot create {self.path}: {error.strerror}.") from None
        finally:
            unfinished.unlink(missing_ok=True)
        durable.sync_path(self.path.parent)

    def events(self) -> Sequence[Event]:
        """Every event, each proved to be what was written."""
        with self._reading() as connection:
            if connection.execute("PRAGMA application_id").fetchone() != (APPLICATION,):
                raise LedgerFailed(
                    f"ledger: {self.path} is not a ledger, or one that was emptied or that an older version wrote; "
                    f"restore a copy, or create a new one elsewhere."
                )
            rows = connection.execute("SELECT number, payload, hash FROM event ORDER BY number").fetchall()
            heads = connection.execute("SELECT number, hash FROM head").fetchall()
        events = list(verified(self.path, rows))
        last = (events[-1].number, events[-1].hash) if events else (0, BEGINNING)
        if heads != [last]:
            raise changed(self.path, last[0] + 1)
        return events

    def curves(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Stored curves' bytes, as they are found: they are to be compared with their hashes."""
        with self._reading() as connection:
            query = "SELECT key, content FROM curve WHERE key = ?"
            rows = [row for key in keys for row in connection.execute(query, (key,))]
        return {key: content for key, content in rows if isinstance(content, bytes)}

    def extend(
        self, head: Head, payloads: Sequence[Mapping[str, Any]], curves: Mapping[str, bytes], *, wait: bool = True
    ) -> Head | None:
        """Write events after this head, all or none; None, and nothing, where the ledger has gone on since.

        Without ``wait`` another run that is at the ledger is an error at once.
        """
        with self._writing(wait) as connection:
            found = connection.execute("SELECT number, hash FROM head").fetchone()
            if found != (head.entries, head.hash):
                return None
            rows = list(extended(head.hash, head.entries, payloads))
            _append(connection, rows)
            for key, content in curves.items():
                connection.execute("INSERT OR REPLACE INTO curve VALUES (?, ?)", (key, content))
        return Head(head.ledger, rows[-1][0], rows[-1][2]) if rows else head

    # --- the connection ---------------------------------------------------------------------------------------

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """One state of the file, whatever others write meanwhile."""
        with self._connected(WAIT_SECONDS) as connection:
            connection.execute("BEGIN")
            yield connection
            connection.execute("COMMIT")

    @contextmanager
    def _writing(self, wait: bool = True) -> Iterator[sqlite3.Connection]:
        """One writer at a time, for as short as can be; what is written is on disk when this ends."""
        with self._connected(WAIT_SECONDS if wait else 0.0) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    @contextmanager
    def _connected(self, seconds: float) -> Iterator[sqlite3.Connection]:
        try:
            # Opening must not create: a ledger that is missing has to be noticed.
            address = f"{self.path.absolute().as_uri()}?mode=rw"
            connection = sqlite3.connect(address, timeout=seconds, isolation_level=None, uri=True)
        except sqlite3.Error as error:
            raise LedgerFailed(f"ledger: cannot open {self.path}: {error}.") from None
        with closing(connection):
            try:
                for setting in SETTINGS:
                    connection.execute(setting)
                yield connection
            except sqlite3.Error as error:
                raise LedgerFailed(f"ledger: cannot use {self.path}: {error}.") from None


def _append(connection: sqlite3.Connection, rows: Iterable[tuple[int, str, str]]) -> None:
    for row in rows:
        connection.execute("INSERT INTO event VALUES (?, ?, ?)", row)
        connection.execute("UPDATE head SET number = ?, hash = ?", (row[0], row[2]))
