"""Storage of a ledger: a hash chain of events in a SQLite file or in PostgreSQL, and the heads last seen.

A write is durable when it returns; opening a ledger never creates it; a file is readable by its owner only.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from shuffledp._core.errors import ShuffledpError
from shuffledp.storage import durable_files
from shuffledp.storage.postgres_session import URL_SCHEMES, PostgresSession
from shuffledp.storage.schema import Execute, PostgresSchema, SqliteSchema

# --- Hash chain ---
#
# The hash of each event covers all events before it, so that none can be changed or removed unnoticed.


EVENT_HASH_PREFIX = b"shuffledp ledger event\0"
GENESIS_HASH = "0" * 64
"""The hash before the first event."""
HEX_DIGITS = frozenset("0123456789abcdef")


class LedgerError(ShuffledpError, ValueError):
    """The ledger cannot be used in its present state; nothing was written to it."""


@dataclass(frozen=True)
class Head:
    """A position of a ledger: its id, the number of its events, and the hash that covers all of them."""

    ledger: str
    entries: int
    hash: str

    def to_document(self) -> dict[str, Any]:
        """Returns the JSON document."""
        return {"id": self.ledger, "entry": self.entries, "head": self.hash}

    @classmethod
    def from_document(cls, who: str, document: Any) -> Self:
        """Inverts ``to_document``; raises ValueError for anything else."""
        if isinstance(document, Mapping) and document.keys() == {"id", "entry", "head"}:
            ledger, entries, head = document["id"], document["entry"], document["head"]
            whole = isinstance(entries, int) and not isinstance(entries, bool) and entries > 0
            if whole and _is_hex(ledger, 32) and _is_hex(head, 64):
                return cls(ledger, entries, head)
        raise ValueError(f'{who}: expected a ledger\'s "id", "entry" and "head", got something else.')


@dataclass(frozen=True)
class Event:
    """One event of a ledger."""

    number: int
    kind: str
    time: str
    payload: Mapping[str, Any]
    hash: str


def format_canonical_json(document: Mapping[str, Any]) -> str:
    """Serialises a JSON object to its canonical text."""
    return json.dumps(document, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))


def compute_event_hash(previous: str, number: int, payload: str) -> str:
    """Returns the hash of an event, from the hash of the event before it."""
    parts = (EVENT_HASH_PREFIX, bytes.fromhex(previous), number.to_bytes(8, "big"), payload.encode())
    return hashlib.sha256(b"".join(parts)).hexdigest()


def chain_payloads(previous: str, number: int, payloads: Iterable[Mapping[str, Any]]) -> Iterator[tuple[int, str, str]]:
    """Yields number, text and hash of events that follow the one with this number and hash."""
    for payload in payloads:
        number += 1
        text = format_canonical_json(payload)
        previous = compute_event_hash(previous, number, text)
        yield number, text, previous


def verify_events(place: object, rows: Iterable[tuple[Any, Any, Any]]) -> Iterator[Event]:
    """Yields the events of a file's rows, in order; raises LedgerError at the first that was changed."""
    previous = GENESIS_HASH
    for expected, (number, text, found) in enumerate(rows, 1):
        if type(number) is not int or number != expected or type(text) is not str or type(found) is not str:
            raise build_tampering_error(place, expected)
        try:
            right = compute_event_hash(previous, number, text)
        except UnicodeEncodeError:
            raise build_tampering_error(place, expected) from None
        if found != right:
            raise build_tampering_error(place, expected)
        yield _parse_event(place, number, text, found)
        previous = found


def build_tampering_error(place: object, number: int) -> LedgerError:
    """Returns the error for a ledger whose entries were changed."""
    return LedgerError(
        f"ledger: entry {number} of {place} is not what was written, so nothing in this file can be trusted; "
        f"restore a copy."
    )


def _parse_event(place: object, number: int, text: str, found: str) -> Event:
    try:
        payload = json.loads(text)
        return Event(number, payload["kind"], payload["time"], payload, found)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise build_tampering_error(place, number) from None


def to_json_number(number: float) -> float | str:
    """Converts a number for JSON, which has no infinity."""
    return "inf" if math.isinf(number) else number


def _is_hex(text: Any, digits: int) -> bool:
    return isinstance(text, str) and len(text) == digits and set(text) <= HEX_DIGITS


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


# --- Rollback guard: the heads that this user last saw ---


SEEN_HEADS_FOLDER = "ledger-heads"
"""Folder with two small files per ledger, so that runs on different ledgers never wait for each other."""


def data_directory() -> Path:
    """Returns the directory of this user's data."""
    if chosen := os.environ.get("XDG_DATA_HOME"):
        return Path(chosen) / "shuffledp"
    home = _home()
    shared = home / "Library" / "Application Support" if sys.platform == "darwin" else home / ".local" / "share"
    return shared / "shuffledp"


def state_directory() -> Path:
    """Returns the directory of this user's state."""
    chosen = os.environ.get("XDG_STATE_HOME")
    return (Path(chosen) if chosen else _home() / ".local" / "state") / "shuffledp"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        raise LedgerError("ledger: this user has no home directory; set XDG_DATA_HOME and XDG_STATE_HOME.") from None


@dataclass(frozen=True)
class HeadRecord:
    """A head of a ledger, and the place where it was seen."""

    location: str
    head: Head


class RollbackGuard:
    """Records the head last seen at one path or database, and the head of the same ledger elsewhere.

    It detects that a ledger was deleted, emptied, restored, replaced or copied.
    """

    def __init__(self, ledger: Path | LedgerAddress) -> None:
        self.ledger = str(ledger.resolve())

    @property
    def path(self) -> Path:
        """The file that records the head last seen at this place."""
        name = hashlib.sha256(os.fsencode(self.ledger)).hexdigest()[:32]
        return state_directory() / SEEN_HEADS_FOLDER / f"{name}.json"

    def read_last_head(self) -> Head | None:
        """Returns the head last seen at this place; None if this user never saw one."""
        return next((seen.head for seen in self._read(self.path)), None)

    def find_records(self, ledger: str) -> list[HeadRecord]:
        """Returns the last known places and heads of the ledger with this id; empty if this user never saw it.

        Older versions recorded places only: then every place where this ledger was is returned.
        """
        if found := self._read(id_path(ledger)):
            return found
        places = state_directory() / SEEN_HEADS_FOLDER
        records = []
        for path in sorted(places.glob("*.json")) if places.is_dir() else []:
            # An unreadable record of another ledger does not concern this one.
            with suppress(LedgerError):
                records += [seen for seen in self._read(path) if seen.head.ledger == ledger]
        return records

    def has_record(self, ledger: str) -> bool:
        """Returns True if anything is recorded under this id."""
        return id_path(ledger).exists()

    def is_current_location(self, ledger: str) -> bool:
        """Returns True if this is the place where the ledger with this id was last written, as far as is known."""
        found = self._read(id_path(ledger))
        return not found or found[0].location == self.ledger

    def record_head(self, head: Head) -> None:
        """Records the head atomically, for this place and for the ledger's id.

        If that fails there is no record, and no error.
        """
        self.record_head_here(head)
        self._write(id_path(head.ledger), head)

    def record_head_here(self, head: Head) -> None:
        """Records the head for this place only: a copy that was only read does not become the place of the ledger."""
        self._write(self.path, head)

    def _write(self, path: Path, head: Head) -> None:
        text = json.dumps({"ledger": self.ledger, "last": head.to_document()}, ensure_ascii=False) + "\n"
        with suppress(OSError):
            durable_files.make_directory(path.parent, 0o700)
            durable_files.replace_atomically(path, text.encode("utf-8", "surrogateescape"))

    def _read(self, path: Path) -> list[HeadRecord]:
        """Reads a record; empty if there is no file."""
        try:
            document = json.loads(path.read_text(encoding="utf-8", errors="surrogateescape"))
            return [HeadRecord(str(document["ledger"]), Head.from_document("ledger", document["last"]))]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            raise LedgerError(
                f"ledger: the last known head of {self.ledger} cannot be read from {path}; look at the ledger by "
                f"`shuffledp ledger check`, and if it is the right one, run `shuffledp ledger accept`."
            ) from None


def id_path(ledger: str) -> Path:
    """Returns the file that records the head of the ledger with this id."""
    # Hashed, since a foreign file may claim any text as its id.
    return state_directory() / SEEN_HEADS_FOLDER / f"id-{hashlib.sha256(ledger.encode()).hexdigest()[:32]}.json"
