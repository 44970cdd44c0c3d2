"""Storage of a ledger: its events in a SQLite file or in PostgreSQL.

A write is durable when it returns; opening a ledger never creates it; a file is readable by its owner only.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from shuffledp.ledger.hash_chain import (
    GENESIS_HASH,
    Event,
    Head,
    LedgerError,
    build_tampering_error,
    chain_payloads,
    verify_events,
)
from shuffledp.storage import durable_files
from shuffledp.storage.migrations import Execute, PostgresSchema, SqliteSchema
from shuffledp.storage.postgres_session import URL_SCHEMES, PostgresSession

# --- SQLite, for one machine ---


SQLITE_WAIT_SECONDS = 120.0
"""Time to wait for another run that uses the ledger."""
SQLITE_APPLICATION_ID = 0x53445031
"""Marks the file as a ledger in its header."""
SQLITE_PRAGMAS = ("PRAGMA synchronous = EXTRA", "PRAGMA fullfsync = ON", "PRAGMA cell_size_check = ON")
"""Commits survive a power loss; damaged pages are detected."""


def create_file_tables(execute: Execute) -> None:
    """Version 1 (shuffledp 0.1.0): the chain of events, its head, and stored curves."""
    execute(f"PRAGMA application_id = {SQLITE_APPLICATION_ID}")
    execute("CREATE TABLE event (number INTEGER PRIMARY KEY, payload TEXT NOT NULL, hash TEXT NOT NULL)")
    # The last event once more: if a damaged page lost the last rows, the rest would look like a complete chain.
    execute("CREATE TABLE head (number INTEGER NOT NULL, hash TEXT NOT NULL)")
    execute("CREATE TABLE curve (key TEXT PRIMARY KEY, content BLOB NOT NULL)")


def add_round_fields(execute: Execute) -> None:
    """Version 2: new entries name their plan and round, which a reader of version 1 would ignore.

    Existing entries stay unchanged: a chain is never rewritten.
    """
    del execute


FILE_SCHEMA = SqliteSchema("ledger", "event", (create_file_tables, add_round_fields))


class LedgerFile:
    """A ledger in a SQLite file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def exists(self) -> bool:
        """Returns True if anything is at its path."""
        return os.path.lexists(self.path)

    def create(self, payloads: Iterable[Mapping[str, Any]]) -> None:
        """Creates the file with its first events; it gets its name only when it is complete on disk."""
        if self.exists():
            raise LedgerError(f"ledger: {self.path} is already there; a ledger is created only once.")
        unfinished = durable_files.unfinished_name(self.path)
        try:
            durable_files.make_directory(self.path.parent, 0o700)
            os.close(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        except OSError as error:
            raise LedgerError(f"ledger: cannot create {self.path}: {error.strerror}.") from None
        try:
            with LedgerFile(unfinished)._writing() as connection:
                FILE_SCHEMA.migrate(connection.execute, self._error_prefix)
                connection.execute("INSERT INTO head VALUES (0, ?)", (GENESIS_HASH,))
                _append_to_file(connection, chain_payloads(GENESIS_HASH, 0, payloads))
            durable_files.sync_path(unfinished)
            os.link(unfinished, self.path)
        except FileExistsError:
            raise LedgerError(f"ledger: {self.path} is already there; a ledger is created only once.") from None
        except OSError as error:
            raise LedgerError(f"ledger: cannot create {self.path}: {error.strerror}.") from None
        finally:
            unfinished.unlink(missing_ok=True)
        durable_files.sync_path(self.path.parent)

    def read_events(self) -> Sequence[Event]:
        """Returns all events, verified."""
        with self._open_for_reading() as connection:
            if connection.execute("PRAGMA application_id").fetchone() != (SQLITE_APPLICATION_ID,):
                raise LedgerError(
                    f"ledger: {self.path} is not a ledger, or one that was emptied or that an older version wrote; "
                    f"restore a copy, or create a new one elsewhere."
                )
            FILE_SCHEMA.check(connection.execute, self._error_prefix)
            rows = connection.execute("SELECT number, payload, hash FROM event ORDER BY number").fetchall()
            heads = connection.execute("SELECT number, hash FROM head").fetchall()
        events = list(verify_events(self.path, rows))
        last = (events[-1].number, events[-1].hash) if events else (0, GENESIS_HASH)
        if heads != [last]:
            raise build_tampering_error(self.path, last[0] + 1)
        return events

    def read_curves(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Returns the bytes of stored curves, unverified: the caller compares them with their hashes."""
        with self._open_for_reading() as connection:
            query = "SELECT key, content FROM curve WHERE key = ?"
            rows = [row for key in keys for row in connection.execute(query, (key,))]
        return {key: content for key, content in rows if isinstance(content, bytes)}

    def append_events(
        self, head: Head, payloads: Sequence[Mapping[str, Any]], curves: Mapping[str, bytes], *, wait: bool = True
    ) -> Head | None:
        """Appends events after this head, all or none.

        Returns the new head, or None without writing anything if the ledger was extended since. Without ``wait``,
        another run that uses the ledger is an error at once, and a ledger of an older layout is left as it is: None.
        """
        with self._writing(wait) as connection:
            if not wait and FILE_SCHEMA.check(connection.execute, self._error_prefix) < FILE_SCHEMA.newest_version:
                return None
            FILE_SCHEMA.migrate(connection.execute, self._error_prefix)
            found = connection.execute("SELECT number, hash FROM head").fetchone()
            if found != (head.entries, head.hash):
                return None
            rows = list(chain_payloads(head.hash, head.entries, payloads))
            _append_to_file(connection, rows)
            for key, content in curves.items():
                connection.execute("INSERT OR REPLACE INTO curve VALUES (?, ?)", (key, content))
        return Head(head.ledger, rows[-1][0], rows[-1][2]) if rows else head

    @property
    def _error_prefix(self) -> str:
        return f"ledger: {self.path}"

    # --- Connection ---

    @contextmanager
    def _open_for_reading(self) -> Iterator[sqlite3.Connection]:
        """Opens one consistent state of the file, whatever others write meanwhile."""
        with self._connect(SQLITE_WAIT_SECONDS) as connection:
            connection.execute("BEGIN")
            yield connection
            connection.execute("COMMIT")

    @contextmanager
    def _writing(self, wait: bool = True) -> Iterator[sqlite3.Connection]:
        """Opens the file for one writer at a time; all changes are on disk at the end."""
        with self._connect(SQLITE_WAIT_SECONDS if wait else 0.0) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    @contextmanager
    def _connect(self, seconds: float) -> Iterator[sqlite3.Connection]:
        try:
            # Opening must not create: a missing ledger has to be noticed.
            address = f"{self.path.absolute().as_uri()}?mode=rw"
            connection = sqlite3.connect(address, timeout=seconds, isolation_level=None, uri=True)
        except sqlite3.Error as error:
            raise LedgerError(f"ledger: cannot open {self.path}: {error}.") from None
        with closing(connection):
            try:
                for setting in SQLITE_PRAGMAS:
                    connection.execute(setting)
                yield connection
            except sqlite3.Error as error:
                raise LedgerError(f"ledger: cannot use {self.path}: {error}.") from None


def _append_to_file(connection: sqlite3.Connection, rows: Iterable[tuple[int, str, str]]) -> None:
    for row in rows:
        connection.execute("INSERT INTO event VALUES (?, ?, ?)", row)
        connection.execute("UPDATE head SET number = ?, hash = ?", (row[0], row[2]))


# --- Address: a file, or a database that several machines reach ---


@dataclass(frozen=True)
class LedgerAddress(os.PathLike[str]):
    """The address of a PostgreSQL database, shown without its password."""

    url: str

    def __fspath__(self) -> str:
        return self.url

    def resolve(self) -> LedgerAddress:
        """Returns the address itself, as ``Path.resolve`` does for an absolute path."""
        return self

    def __str__(self) -> str:
        parts = urlsplit(self.url)
        host = parts.netloc.rpartition("@")[2]
        user = parts.username
        # A password may also be in the query; of that, only the host, which may be a socket, and the port are shown.
        where = [each for each in parts.query.split("&") if each.partition("=")[0] in ("host", "port")]
        query = f"?{'&'.join(where)}" if where else ""
        return f"postgresql://{f'{user}@' if user else ''}{host}{parts.path}{query}"

    def __repr__(self) -> str:
        return f"LedgerAddress({str(self)!r})"


def parse_location(given: str | os.PathLike[str]) -> Path | LedgerAddress:
    """Converts the location of a ledger to a path or the address of a database."""
    text = os.fspath(given)
    return LedgerAddress(text) if isinstance(text, str) and text.startswith(URL_SCHEMES) else Path(text)


# --- PostgreSQL, for clusters and services on several machines ---
#
# The same contract as for the file: a write is durable when it returns, opening never creates, and every reader gets
# one consistent state.


POSTGRES_LOCK_TIMEOUT = "120s"
"""Time to wait for another run that uses the ledger."""
HEAD_TABLE = "shuffledp_ledger_head"
SELECT_EVENTS = f"""
SELECT 0, number, payload, hash FROM shuffledp_ledger_event
UNION ALL SELECT 1, number, '', hash FROM {HEAD_TABLE} ORDER BY 1, 2
"""
"""Events and head in one query, consistent whatever others write meanwhile."""
UPSERT_CURVE = """
INSERT INTO shuffledp_ledger_curve VALUES (%s, %s) ON CONFLICT (key) DO UPDATE SET content = EXCLUDED.content
"""


def create_database_tables(execute: Execute) -> None:
    """Version 1 (shuffledp 0.1.0): the chain of events, its head, and stored curves."""
    # One ledger per database: this table has only one row.
    execute(
        f"CREATE TABLE {HEAD_TABLE} (one INTEGER PRIMARY KEY CHECK (one = 1), number BIGINT NOT NULL, hash TEXT NOT "
        f"NULL)"
    )
    execute(
        "CREATE TABLE shuffledp_ledger_event (number BIGINT PRIMARY KEY, payload TEXT NOT NULL, hash TEXT NOT NULL)"
    )
    execute("CREATE TABLE shuffledp_ledger_curve (key TEXT PRIMARY KEY, content BYTEA NOT NULL)")


DATABASE_SCHEMA = PostgresSchema("ledger", HEAD_TABLE, (create_database_tables, add_round_fields))


class LedgerDatabase:
    """A ledger in a PostgreSQL database. A connection lasts for one read or one change."""

    def __init__(self, place: LedgerAddress) -> None:
        self.address = place
        self._session = PostgresSession(place.url, self._build_error)

    def exists(self) -> bool:
        """Returns True if there is a ledger."""
        with self._open_session() as session:
            return session.fetch_rows("SELECT to_regclass(%s) IS NOT NULL", (HEAD_TABLE,)) == [(True,)]

    def create(self, payloads: Iterable[Mapping[str, Any]]) -> None:
        """Creates the tables with their first events, all or none."""
        if self.exists():
            raise self._build_exists_error()
        try:
            with self._open_session() as session, session.transaction() as execute:
                DATABASE_SCHEMA.migrate(execute, self._error_prefix)
                execute(f"INSERT INTO {HEAD_TABLE} VALUES (1, 0, %s)", (GENESIS_HASH,))
                _append_to_database(execute, list(chain_payloads(GENESIS_HASH, 0, payloads)))
        except LedgerError:
            if self.exists():
                # Another run created it first.
                raise self._build_exists_error() from None
            raise

    def read_events(self) -> Sequence[Event]:
        """Returns all events, verified."""
        with self._open_session() as session, session.transaction() as execute:
            DATABASE_SCHEMA.check(execute, self._error_prefix)
            rows = execute(SELECT_EVENTS).fetchall()
        events = list(verify_events(self.address, [row[1:] for row in rows if row[0] == 0]))
        last = (events[-1].number, events[-1].hash) if events else (0, GENESIS_HASH)
        if [(row[1], row[3]) for row in rows if row[0] == 1] != [last]:
            raise build_tampering_error(self.address, last[0] + 1)
        return events

    def read_curves(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Returns the bytes of stored curves, unverified: the caller compares them with their hashes."""
        with self._open_session() as session:
            rows = session.fetch_rows(
                "SELECT key, content FROM shuffledp_ledger_curve WHERE key = ANY(%s)", (list(keys),)
            )
        return {key: bytes(content) for key, content in rows}

    def append_events(
        self, head: Head, payloads: Sequence[Mapping[str, Any]], curves: Mapping[str, bytes], *, wait: bool = True
    ) -> Head | None:
        """Appends events after this head, all or none.

        Returns the new head, or None without writing anything if the ledger was extended since. Without ``wait``,
        another run that uses the ledger is an error at once, and a ledger of an older layout is left as it is: None.
        """
        rows = list(chain_payloads(head.hash, head.entries, payloads))
        with self._open_session() as session, session.transaction() as execute:
            execute(f"SET LOCAL lock_timeout = '{POSTGRES_LOCK_TIMEOUT if wait else '1ms'}'")
            if not wait and DATABASE_SCHEMA.check(execute, self._error_prefix) < DATABASE_SCHEMA.newest_version:
                return None
            DATABASE_SCHEMA.migrate(execute, self._error_prefix)
            # The row lock admits only one writer.
            held = f"SELECT 1 FROM {HEAD_TABLE} WHERE number = %s AND hash = %s FOR UPDATE"
            if execute(held, (head.entries, head.hash)).rowcount != 1:
                return None
            _append_to_database(execute, rows)
            for key, content in curves.items():
                execute(UPSERT_CURVE, (key, content))
        return Head(head.ledger, rows[-1][0], rows[-1][2]) if rows else head

    @property
    def _error_prefix(self) -> str:
        return f"ledger: {self.address}"

    @contextmanager
    def _open_session(self) -> Iterator[PostgresSession]:
        try:
            yield self._session
        finally:
            self._session.close()

    def _build_error(self, why: str) -> LedgerError:
        return LedgerError(f"ledger: cannot use {self.address}: {why}.")

    def _build_exists_error(self) -> LedgerError:
        return LedgerError(f"ledger: {self.address} is already there; a ledger is created only once.")


def _append_to_database(execute: Execute, rows: Sequence[tuple[int, str, str]]) -> None:
    for row in rows:
        execute("INSERT INTO shuffledp_ledger_event VALUES (%s, %s, %s)", row)
    if rows:
        execute(f"UPDATE {HEAD_TABLE} SET number = %s, hash = %s", (rows[-1][0], rows[-1][2]))
