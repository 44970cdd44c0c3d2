"""Storage of a shuffler: the store of campaigns, rounds and reports in SQLite or PostgreSQL, and the key directory.

A store may be shared by several servers. Checking that a round is open and storing its reports is one transaction: a
report is either acknowledged and in the round, or refused. Reports are stored in segments, one or more per commit,
without an index, an id or a time. The SQLite store uses a write-ahead log that is on disk before anything is
acknowledged.

A shuffler has a directory for its state and one for its keys, which must not be backed up::

    state/reports.sqlite       campaigns, rounds, and reports as received, unless a database holds them
    state/batches/             mixed batches that are not yet fetched
    state/work/                files for sorting; emptied whenever a round is closed
    state/reserve              disk space that is released to the steps of rounds if the disk is full
    state/clock                how long the machine has been running; see ``TrustedClock`` in ``rounds.py``
    keys/identity              the shuffler's signing key
    keys/CAMPAIGN-ROUND        the private key of a round, until its reports are mixed
    keys/spent/CAMPAIGN-ROUND  mark that a round is over: the digest of its batch, or empty if none is handed over

The keys are outside the state, by default in ``STATE.keys`` beside it. Restoring an old copy of the state therefore
restores neither keys of finished rounds nor an old list of which rounds are finished.
"""

from __future__ import annotations

import math
import os
import shutil
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple, Self

from shuffledp._core.errors import InvalidArgument, ShuffledpError
from shuffledp._core.message_phrases import phrase
from shuffledp.service.campaign import Campaign
from shuffledp.service.crypto import KEY_BYTES, PrivateKey, ShufflerKey
from shuffledp.storage import durable_files
from shuffledp.storage.durable_files import OWNER_ONLY
from shuffledp.storage.migrations import Execute, NewerSchema, PostgresSchema, SqliteSchema
from shuffledp.storage.postgres_session import URL_SCHEMES, PostgresSession

# --- Interface of stores ---

SEGMENT_BYTES = 1 << 20
"""Size at which a segment ends, so that a round can be read with little memory."""


def format_utc(seconds: int) -> str:
    """Formats a time in seconds since 1970."""
    return f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime(seconds))} UTC"


class StoreUnavailable(ShuffledpError):
    """The store cannot be used now; nothing was acknowledged, and the request may be repeated."""


class NewerStore(StoreUnavailable, NewerSchema):
    """The store was written by a newer version: a starting server stops, and a running one accepts nothing."""


class RoundState(StrEnum):
    """State of a round; ``rounds.py`` describes each step."""

    OPEN = "open"
    CLOSING = "closing"
    MIXED = "mixed"
    FORGOTTEN = "forgotten"
    HANDED_OVER = "handed over"
    ERASED = "erased"
    EXPIRED = "expired"


@dataclass(frozen=True)
class Round:
    """A round of a campaign, as stored."""

    campaign: str
    number: int
    state: RoundState
    closes: int
    """Deadline in seconds since 1970."""
    extended: int
    notice: bytes
    """The signed notice for clients."""
    statement: bytes | None = None
    """The signed statement about the batch, once it is mixed."""

    @property
    def name(self) -> str:
        """Name of the round's files and ledger entry."""
        return f"{self.campaign}-{self.number}"


@dataclass(frozen=True)
class AcceptedCampaign:
    """A campaign that the shuffler accepted, with the path of the ledger for it; None if there is no ledger."""

    campaign: Campaign
    ledger: str | None


class PostedReports(NamedTuple):
    """The concatenated reports of one request."""

    campaign: str
    number: int
    content: bytes


def group_into_segments(pieces: Sequence[PostedReports]) -> Iterator[tuple[str, int, bytes]]:
    """Groups requests into segments: campaign, round and concatenated reports; a request is never split."""
    grouped: dict[tuple[str, int], list[bytes]] = {}
    for piece in pieces:
        grouped.setdefault((piece.campaign, piece.number), []).append(piece.content)
    for (campaign, number), contents in grouped.items():
        start, size = 0, 0
        for end, content in enumerate(contents, 1):
            size += len(content)
            if size >= SEGMENT_BYTES or end == len(contents):
                yield campaign, number, b"".join(contents[start:end])
                start, size = end, 0


def select_fitting(pieces: Sequence[PostedReports], room: Mapping[tuple[str, int], float]) -> list[bool]:
    """Returns, for each request in order, True if it fits into the bytes that its round has left (``room``)."""
    left, fits = dict(room), []
    for piece in pieces:
        key = piece.campaign, piece.number
        fits.append(len(piece.content) <= left[key])
        left[key] -= len(piece.content) if fits[-1] else 0
    return fits


def check_stored_campaign(id_: str, content: bytes) -> Campaign:
    """Returns a stored campaign; its id, a hash, proves that these are the bytes that were checked when accepted."""
    campaign = Campaign(bytes(content))
    if campaign.id != id_:
        raise StoreUnavailable(f"shuffler: the stored campaign {id_[:12]} is damaged.")
    return campaign


class Store(ABC):
    """A connection to the store, for use by one thread.

    All changes are durable when a method returns. Methods raise ``StoreUnavailable`` if the store does not respond or
    refuses; then nothing has changed, and the connection may be used again.
    """

    def __init__(self) -> None:
        self._capacities: dict[str, int] = {}
        self._campaigns: dict[str, Campaign] = {}

    def _cached_campaign(self, id_: str, content: bytes) -> Campaign:
        """Returns a stored campaign from its content, checked once; campaigns never change."""
        if id_ not in self._campaigns:
            self._campaigns[id_] = check_stored_campaign(id_, content)
        return self._campaigns[id_]

    @abstractmethod
    def add_campaign(self, accepted: AcceptedCampaign) -> None:
        """Stores a campaign; does nothing if it is already stored."""

    @abstractmethod
    def accepted_campaigns(self) -> list[AcceptedCampaign]:
        """Returns all campaigns in the order of acceptance."""

    @abstractmethod
    def campaign(self, id_: str) -> Campaign | None:
        """Returns the campaign with this id, or None."""

    @abstractmethod
    def report_bytes(self, id_: str) -> int | None:
        """Returns the size of a campaign's reports; None if there is no such campaign.

        The size is stored with the campaign so that a process that takes reports need not read the plan.
        """

    @abstractmethod
    def open_round(self, opened: Round) -> bool:
        """Stores a new round; returns False, and changes nothing, if it exists."""

    @abstractmethod
    def rounds(self, campaign: str) -> list[Round]:
        """Returns all rounds of a campaign in order."""

    def round(self, campaign: str, number: int) -> Round | None:
        """Returns one round of a campaign, or None."""
        return next((each for each in self.rounds(campaign) if each.number == number), None)

    @abstractmethod
    def update_round(self, before: Round, after: Round) -> bool:
        """Replaces a stored round if its state and deadline are still those of ``before``; returns True if so."""

    @abstractmethod
    def append_reports(self, pieces: Sequence[PostedReports], now: float) -> list[bool]:
        """Stores reports in one transaction.

        Returns True for each request whose round is open, before its deadline, and not full; the others are not
        stored. A round is full when it has as many bytes as the campaign's ``capacity`` of reports. If several servers
        share a store, the capacity may be exceeded by what each of them commits at the same moment.
        """

    def _max_round_bytes(self, campaign: str) -> float:
        """Returns the maximum size of a round's reports; infinite if the campaign is not stored."""
        if campaign not in self._capacities:
            stored, size = self.campaign(campaign), self.report_bytes(campaign)
            if stored is None or size is None:
                return math.inf
            self._capacities[campaign] = stored.capacity * size
        return self._capacities[campaign]

    def check_disk_space(self) -> None:
        """Raises ``StoreUnavailable`` if the disk has no room for reports; does nothing for a database's disk."""
        return

    @abstractmethod
    def stored_bytes(self, campaign: str, number: int) -> int:
        """Returns the total size of a round's reports."""

    @abstractmethod
    def reports(self, campaign: str, number: int) -> Iterator[bytes]:
        """Yields all segments of a round."""

    @abstractmethod
    def delete_reports(self, campaign: str, number: int) -> None:
        """Deletes all segments of a round."""

    def lock_rounds(self) -> AbstractContextManager[None]:
        """Locks the rounds of a shared store; raises ``BlockingIOError`` if another machine holds the lock.

        Does nothing for a store of one machine, where ``ShufflerPaths.lock_rounds`` locks out other processes.
        """
        return nullcontext()

    @abstractmethod
    def close(self) -> None:
        """Closes the connection."""


# --- PostgreSQL, for servers on several machines ---

ROUND_COLUMNS = "campaign, number, state, closes, extended, notice, statement"
POSTGRES_ROUND_FILTER = "round = (SELECT id FROM shuffledp_rounds WHERE campaign = %s AND number = %s)"
# FOR SHARE: closing the round waits for running inserts, and inserts that waited for the closing find it closed.
# Each connection counts the bytes of a round in its own row; with a single row connections would wait for each other.
POSTGRES_APPEND = (
    "WITH stored AS (INSERT INTO shuffledp_segments (SELECT id, %b FROM shuffledp_rounds "
    "WHERE campaign = %s AND number = %s AND state = 'open' AND closes > %s FOR SHARE) RETURNING round) "
    "INSERT INTO shuffledp_held SELECT round, %s, %s FROM stored "
    "ON CONFLICT (round, writer) DO UPDATE SET bytes = shuffledp_held.bytes + excluded.bytes"
)
POSTGRES_STORED_BYTES = f"SELECT coalesce(sum(bytes), 0)::bigint FROM shuffledp_held WHERE {POSTGRES_ROUND_FILTER}"
SEGMENT_FETCH_SIZE = 16
POSTGRES_LOCK_NAME = "shuffledp rounds"


def create_postgres_tables(execute: Execute) -> None:
    """Version 1 (shuffledp 0.1.0): campaigns, the size of their reports, rounds, and reports in segments."""
    execute(
        "CREATE TABLE shuffledp_campaigns "
        "(id text PRIMARY KEY, place bigint GENERATED ALWAYS AS IDENTITY, content bytea NOT NULL, ledger text)"
    )
    execute("CREATE TABLE shuffledp_sizes (campaign text PRIMARY KEY, report bigint NOT NULL)")
    execute(
        "CREATE TABLE shuffledp_rounds (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, campaign text NOT NULL, "
        "number bigint NOT NULL, state text NOT NULL, closes bigint NOT NULL, extended bigint NOT NULL, "
        "notice bytea NOT NULL, statement bytea, UNIQUE (campaign, number))"
    )
    execute("CREATE TABLE shuffledp_segments (round bigint NOT NULL, content bytea NOT NULL)")
    # Ciphertexts cannot be compressed.
    execute("ALTER TABLE shuffledp_segments ALTER COLUMN content SET STORAGE EXTERNAL")


def count_postgres_bytes(execute: Execute) -> None:
    """Version 2: the size of each round is stored, so that no round exceeds its capacity."""
    # Development checkouts between the two versions may have created the table.
    execute(
        "CREATE TABLE IF NOT EXISTS shuffledp_held "
        "(round bigint NOT NULL, writer text NOT NULL, bytes bigint NOT NULL, PRIMARY KEY (round, writer))"
    )
    # Blocks concurrent inserts, so that each report is counted once.
    execute("LOCK TABLE shuffledp_segments IN SHARE MODE")
    execute(
        "INSERT INTO shuffledp_held SELECT round, '', sum(length(content)) FROM shuffledp_segments "
        "WHERE round NOT IN (SELECT round FROM shuffledp_held) GROUP BY round"
    )


POSTGRES_SCHEMA = PostgresSchema(
    "reports", "shuffledp_rounds", (create_postgres_tables, count_postgres_bytes), NewerStore
)


class PostgresStore(Store):
    """A connection to the PostgreSQL database at ``url``; tables are created if missing."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._session = PostgresSession(
            url, _unavailable_error, lambda execute: POSTGRES_SCHEMA.migrate(execute, "shuffler: the database")
        )
        self._writer = os.urandom(8).hex()

    def add_campaign(self, accepted: AcceptedCampaign) -> None:
        campaign = accepted.campaign
        row, size = (campaign.id, campaign.content, accepted.ledger), (campaign.id, campaign.report_bytes)
        self._session.execute_all([
            ("INSERT INTO shuffledp_campaigns (id, content, ledger) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING", row),
            ("INSERT INTO shuffledp_sizes VALUES (%s, %s) ON CONFLICT DO NOTHING", size),
        ])  # fmt: skip

    def accepted_campaigns(self) -> list[AcceptedCampaign]:
        found = self._session.fetch_rows("SELECT id, content, ledger FROM shuffledp_campaigns ORDER BY place")
        return [AcceptedCampaign(self._cached_campaign(id_, content), ledger) for id_, content, ledger in found]

    def campaign(self, id_: str) -> Campaign | None:
        found = self._session.fetch_rows("SELECT content FROM shuffledp_campaigns WHERE id = %s", (id_,))
        return self._cached_campaign(id_, found[0][0]) if found else None

    def report_bytes(self, id_: str) -> int | None:
        found = self._session.fetch_rows("SELECT report FROM shuffledp_sizes WHERE campaign = %s", (id_,))
        return int(found[0][0]) if found else None

    def open_round(self, opened: Round) -> bool:
        return (
            self._session.execute(
                f"INSERT INTO shuffledp_rounds ({ROUND_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, NULL) "
                "ON CONFLICT DO NOTHING",
                (opened.campaign, opened.number, opened.state.value, opened.closes, opened.extended, opened.notice),
            )
            == 1
        )

    def rounds(self, campaign: str) -> list[Round]:
        found = self._session.fetch_rows(
            f"SELECT {ROUND_COLUMNS} FROM shuffledp_rounds WHERE campaign = %s ORDER BY number", (campaign,)
        )
        return [Round(id_, number, RoundState(state), *rest) for id_, number, state, *rest in found]

    def update_round(self, before: Round, after: Round) -> bool:
        return (
            self._session.execute(
                "UPDATE shuffledp_rounds SET state = %s, closes = %s, extended = %s, notice = %s, statement = %s "
                "WHERE campaign = %s AND number = %s AND state = %s AND closes = %s",
                (
                    *(after.state.value, after.closes, after.extended, after.notice, after.statement),
                    *(before.campaign, before.number, before.state.value, before.closes),
                ),
            )
            == 1
        )

    def append_reports(self, pieces: Sequence[PostedReports], now: float) -> list[bool]:
        keys = {(piece.campaign, piece.number) for piece in pieces}
        fits = select_fitting(pieces, {key: self._max_round_bytes(key[0]) - self._counted_bytes(*key) for key in keys})
        segments = list(group_into_segments(list(compress(pieces, fits))))
        if not segments:
            return fits
        changed = self._session.execute_all([
            (POSTGRES_APPEND, (content, campaign, number, now, self._writer, len(content)))
            for campaign, number, content in segments
        ])  # fmt: skip
        taken = {(campaign, number): rows == 1 for (campaign, number, _), rows in zip(segments, changed, strict=True)}
        return [fit and taken[piece.campaign, piece.number] for piece, fit in zip(pieces, fits, strict=True)]

    def _counted_bytes(self, campaign: str, number: int) -> int:
        """Returns the counted size of a round's reports."""
        ((found,),) = self._session.fetch_rows(POSTGRES_STORED_BYTES, (campaign, number))
        return int(found)

    def stored_bytes(self, campaign: str, number: int) -> int:
        found = self._session.fetch_rows(
            f"SELECT coalesce(sum(length(content)), 0)::bigint FROM shuffledp_segments WHERE {POSTGRES_ROUND_FILTER}",
            (campaign, number),
        )
        return int(found[0][0])

    def reports(self, campaign: str, number: int) -> Iterator[bytes]:
        query = f"SELECT content FROM shuffledp_segments WHERE {POSTGRES_ROUND_FILTER}"
        for (content,) in self._session.stream_rows(query, (campaign, number), SEGMENT_FETCH_SIZE):
            yield content

    def delete_reports(self, campaign: str, number: int) -> None:
        self._session.execute(f"DELETE FROM shuffledp_segments WHERE {POSTGRES_ROUND_FILTER}", (campaign, number))
        self._session.execute(f"DELETE FROM shuffledp_held WHERE {POSTGRES_ROUND_FILTER}", (campaign, number))

    def lock_rounds(self) -> AbstractContextManager[None]:
        return self._session.hold_lock(POSTGRES_LOCK_NAME)

    def close(self) -> None:
        self._session.close()


def _unavailable_error(words: str) -> StoreUnavailable:
    return StoreUnavailable(f"shuffler: the database cannot be used now: {words}.")


# --- SQLite, for one machine ---

BUSY_TIMEOUT_SECONDS = 20.0
"""Time to wait for another process that is writing."""
SQLITE_ROUND_FILTER = "round = (SELECT id FROM rounds WHERE campaign = ? AND number = ?)"

SQLITE_OPEN_ROUND = (
    "SELECT id, coalesce(bytes, 0) FROM rounds LEFT JOIN held ON round = id "
    "WHERE campaign = ? AND number = ? AND state = 'open' AND closes > ?"
)
"""Selects an open round and the size of its reports."""
MIN_FREE_BYTES, CLOSING_SPACE_FACTOR = 256 << 20, 3
"""Reports are stored only if MIN_FREE_BYTES plus CLOSING_SPACE_FACTOR times the size of all stored reports are free.
Closing a round sorts its reports, sorts its messages, and writes the messages, each on disk if they are many."""


def create_sqlite_tables(execute: Execute) -> None:
    """Version 1 (shuffledp 0.1.0): campaigns, the size of their reports, rounds, and reports in segments."""
    execute(
        "CREATE TABLE campaigns (id TEXT PRIMARY KEY, place INTEGER NOT NULL, content BLOB NOT NULL, ledger TEXT) "
        "WITHOUT ROWID"
    )
    execute("CREATE TABLE sizes (campaign TEXT PRIMARY KEY, report INTEGER NOT NULL) WITHOUT ROWID")
    execute(
        "CREATE TABLE rounds (id INTEGER PRIMARY KEY, campaign TEXT NOT NULL, number INTEGER NOT NULL, "
        "state TEXT NOT NULL, closes INTEGER NOT NULL, extended INTEGER NOT NULL, notice BLOB NOT NULL, "
        "statement BLOB, UNIQUE (campaign, number))"
    )
    execute("CREATE TABLE segments (round INTEGER NOT NULL, content BLOB NOT NULL)")


def count_sqlite_bytes(execute: Execute) -> None:
    """Version 2: the size of each round is stored, so that no round exceeds its capacity."""
    # Development checkouts between the two versions may have created the table.
    execute("CREATE TABLE IF NOT EXISTS held (round INTEGER PRIMARY KEY, bytes INTEGER NOT NULL)")
    execute("INSERT OR IGNORE INTO held SELECT round, sum(length(content)) FROM segments GROUP BY round")


SQLITE_SCHEMA = SqliteSchema("reports", "rounds", (create_sqlite_tables, count_sqlite_bytes), NewerStore)


class SqliteStore(Store):
    """A connection to the SQLite file at ``path``, which is created if missing."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._directory = path.parent
        try:
            self._connect(path)
        except NewerSchema:
            self._file.close()
            raise
        except (OSError, sqlite3.Error) as error:
            raise ValueError(f"shuffler: cannot open {path}: {error}.") from None

    def _connect(self, path: Path) -> None:
        # Created for its owner only; SQLite gives the files beside it the same mode. An existing file must not be
        # opened here: closing it would drop the locks that other connections of this process hold on it.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, OWNER_ONLY))
        self._file = sqlite3.connect(path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False)
        place = f"shuffler: {path}"
        SQLITE_SCHEMA.check(self._file.execute, place)
        self._file.execute("PRAGMA journal_mode = WAL")
        self._file.execute("PRAGMA synchronous = FULL")
        SQLITE_SCHEMA.upgrade(self._file, place)

    def _execute(self, statement: str, parameters: Sequence[Any] = ()) -> sqlite3.Cursor:
        try:
            return self._file.execute(statement, parameters)
        # For example a full disk, or a file that another process keeps locked.
        except sqlite3.Error as error:
            raise StoreUnavailable(f"shuffler: the database cannot be used now: {error}.") from None

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._execute("BEGIN IMMEDIATE")
        try:
            yield
            self._execute("COMMIT")
        except BaseException:
            # SQLite rolls back by itself on some errors.
            if self._file.in_transaction:
                self._file.execute("ROLLBACK")
            raise

    def add_campaign(self, accepted: AcceptedCampaign) -> None:
        campaign = accepted.campaign
        with self._transaction():
            self._execute(
                "INSERT OR IGNORE INTO campaigns SELECT ?, count(*), ?, ? FROM campaigns",
                (campaign.id, campaign.content, accepted.ledger),
            )
            self._execute("INSERT OR IGNORE INTO sizes VALUES (?, ?)", (campaign.id, campaign.report_bytes))

    def accepted_campaigns(self) -> list[AcceptedCampaign]:
        found = self._execute("SELECT id, content, ledger FROM campaigns ORDER BY place").fetchall()
        return [AcceptedCampaign(self._cached_campaign(id_, content), ledger) for id_, content, ledger in found]

    def campaign(self, id_: str) -> Campaign | None:
        found = self._execute("SELECT content FROM campaigns WHERE id = ?", (id_,)).fetchone()
        return None if found is None else self._cached_campaign(id_, found[0])

    def report_bytes(self, id_: str) -> int | None:
        found = self._execute("SELECT report FROM sizes WHERE campaign = ?", (id_,)).fetchone()
        return None if found is None else int(found[0])

    def open_round(self, opened: Round) -> bool:
        done = self._execute(
            f"INSERT OR IGNORE INTO rounds ({ROUND_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (opened.campaign, opened.number, opened.state, opened.closes, opened.extended, opened.notice, None),
        )
        return done.rowcount == 1

    def rounds(self, campaign: str) -> list[Round]:
        found = self._execute(f"SELECT {ROUND_COLUMNS} FROM rounds WHERE campaign = ? ORDER BY number", (campaign,))
        return [Round(id_, number, RoundState(state), *rest) for id_, number, state, *rest in found.fetchall()]

    def update_round(self, before: Round, after: Round) -> bool:
        done = self._execute(
            "UPDATE rounds SET state = ?, closes = ?, extended = ?, notice = ?, statement = ? "
            "WHERE campaign = ? AND number = ? AND state = ? AND closes = ?",
            (
                *(after.state, after.closes, after.extended, after.notice, after.statement),
                *(before.campaign, before.number, before.state, before.closes),
            ),
        )
        return done.rowcount == 1

    def append_reports(self, pieces: Sequence[PostedReports], now: float) -> list[bool]:
        self.check_disk_space()
        with self._transaction():
            rounds, room = {}, {}
            for key in {(piece.campaign, piece.number) for piece in pieces}:
                rounds[key] = self._execute(SQLITE_OPEN_ROUND, (*key, now)).fetchone()
                room[key] = -1 if rounds[key] is None else self._max_round_bytes(key[0]) - rounds[key][1]
            taken = select_fitting(pieces, room)
            for campaign, number, content in group_into_segments(list(compress(pieces, taken))):
                id_, held = rounds[campaign, number]
                rounds[campaign, number] = id_, held + len(content)
                self._execute("INSERT INTO segments VALUES (?, ?)", (id_, content))
                self._execute("INSERT OR REPLACE INTO held VALUES (?, ?)", (id_, held + len(content)))
        return taken

    def check_disk_space(self) -> None:
        free = shutil.disk_usage(self._directory).free
        (held,) = self._execute("SELECT coalesce(sum(bytes), 0) FROM held").fetchone()
        if free < MIN_FREE_BYTES + CLOSING_SPACE_FACTOR * held:
            raise StoreUnavailable(
                f"shuffler: {free:,} bytes are free in {self._directory}, needed for closing rounds; make room."
            )

    def stored_bytes(self, campaign: str, number: int) -> int:
        found = self._execute(
            f"SELECT coalesce(sum(length(content)), 0) FROM segments WHERE {SQLITE_ROUND_FILTER}", (campaign, number)
        )
        return int(found.fetchone()[0])

    def reports(self, campaign: str, number: int) -> Iterator[bytes]:
        for (content,) in self._execute(
            f"SELECT content FROM segments WHERE {SQLITE_ROUND_FILTER}", (campaign, number)
        ):
            yield content

    def delete_reports(self, campaign: str, number: int) -> None:
        self._execute(f"DELETE FROM segments WHERE {SQLITE_ROUND_FILTER}", (campaign, number))
        self._execute(f"DELETE FROM held WHERE {SQLITE_ROUND_FILTER}", (campaign, number))
        # The write-ahead log also contains the reports until it is truncated.
        self._execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        self._file.close()


# --- Directories of a shuffler ---

ERROR_PREFIX = "shuffler"
NON_OWNER_MODE = 0o077
IDENTITY_FILE_NAME = "identity"
RESERVE_FILE_BYTES = 8 << 20
"""Disk space reserved for expiring a round and for the database's log when the disk is otherwise full."""


@dataclass(frozen=True)
class IngestNode:
    """An ingest server that stores reports in a database for a shuffler elsewhere; it has neither keys nor batches."""

    database: str

    def open_store(self) -> Store:
        """Opens a new connection to the store."""
        return _open_shared_store(self.database)


@dataclass(frozen=True)
class ShufflerPaths:
    """The state and key directories of a shuffler, and the URL of its database if it uses one."""

    state: Path
    keys: Path
    database: str | None = None

    @classmethod
    def from_directories(cls, state: Path, keys: Path | None = None, database: str | None = None) -> Self:
        """Returns the paths of a shuffler; by default the keys are in ``STATE.keys`` beside the state.

        Raises:
            ValueError: If one of the two directories is inside the other, or keys were left inside the state.
        """
        within, beside = state / "keys", _default_keys_directory(state)
        chosen = beside if keys is None else keys
        if (within / IDENTITY_FILE_NAME).exists() and chosen.resolve() in (beside.resolve(), within.resolve()):
            raise ValueError(
                f"{ERROR_PREFIX}: keys belong outside of the state, so that no backup of it contains them: stop the "
                f"shuffler and run `mv {within} {beside}`."
            )
        if _is_within(chosen.resolve(), state.resolve()) or _is_within(state.resolve(), chosen.resolve()):
            words = "{state} {path} is for backups and {keys} {chosen} is not: neither may be in the other"
            raise InvalidArgument(ERROR_PREFIX, phrase(words, path=state, chosen=chosen))
        return cls(state, chosen, database)

    def create_directories(self, identity: ShufflerKey) -> None:
        """Creates the directories for their owner only and stores the shuffler's key.

        Raises:
            ValueError: If the directory has the key of another shuffler.
        """
        for directory in (self.state, self.keys, self.batches_directory):
            durable_files.make_directory(directory, durable_files.OWNER_ONLY_DIRECTORY)
        if not self._identity_path.exists():
            identity.save(self._identity_path)
        if self.signing_key != identity:
            raise ValueError(f"{ERROR_PREFIX}: {self.keys} has the key of another shuffler.")

    @property
    def _identity_path(self) -> Path:
        return self.keys / IDENTITY_FILE_NAME

    @property
    def signing_key(self) -> ShufflerKey:
        """The shuffler's signing key; raises ValueError if there is none, or if others can read the key directory."""
        if not self._identity_path.exists():
            raise ValueError(
                f"{ERROR_PREFIX}: there is none in {self.state} with keys in {self.keys}; begin with `shuffledp "
                f"campaign accept`."
            )
        for directory in (self.state, self.keys):
            durable_files.check_owned_directory(directory.resolve())
        if self.keys.stat().st_mode & NON_OWNER_MODE:
            raise ValueError(f"{ERROR_PREFIX}: only the shuffler may read {self.keys}; run `chmod 700` on it.")
        return ShufflerKey.load(self._identity_path)

    def open_store(self) -> Store:
        """Opens a new connection to the store."""
        if self.database is None:
            return SqliteStore(self.state / "reports.sqlite")
        return _open_shared_store(self.database)

    @property
    def batches_directory(self) -> Path:
        return self.state / "batches"

    @property
    def work_directory(self) -> Path:
        return self.state / "work"

    def batch_directory(self, of: Round) -> Path:
        """Returns the directory of a round's batch."""
        return self.batches_directory / of.name

    # --- Keys of rounds ---

    def create_round_key(self, name: str) -> PrivateKey:
        """Creates the key of a round; reuses one left by a killed process, since it was never published."""
        durable_files.create_atomically(self.keys / name, PrivateKey.new().secret)
        key = self.round_key(name)
        assert key is not None, "it was just written"
        return key

    def round_key(self, name: str) -> PrivateKey | None:
        """Returns the key of a round; None if there is none, for instance after a restore."""
        path = self.keys / name
        content = path.read_bytes() if path.exists() else b""
        # A key that is being destroyed is overwritten by zeros.
        return PrivateKey(content) if len(content) == KEY_BYTES and any(content) else None

    def destroy_round_key(self, name: str) -> None:
        """Destroys the key of a round."""
        durable_files.destroy(self.keys / name)

    # --- Marks of finished rounds ---

    def finished_digest(self, name: str) -> str | None:
        """Returns the digest of a finished round's batch, empty if it has none; None if the round is not finished."""
        path = self._finished_directory / name
        return durable_files.read_owned_file(path).decode("ascii", "replace") if path.exists() else None

    def mark_finished(self, name: str, digest: str = "") -> None:
        """Marks a round as finished, with the digest of its batch, before the batch is handed over or given up."""
        durable_files.make_directory(self._finished_directory, durable_files.OWNER_ONLY_DIRECTORY)
        durable_files.replace_atomically(self._finished_directory / name, digest.encode())

    @property
    def _finished_directory(self) -> Path:
        return self.keys / "spent"

    # --- Reserve of disk space, and lock ---

    @property
    def _reserve_path(self) -> Path:
        return self.state / "reserve"

    @contextmanager
    def release_reserve(self) -> Iterator[None]:
        """Releases the reserve of disk space for the block if the disk is full, and restores it afterwards.

        Enter it before anything else is opened.
        """
        if shutil.disk_usage(self.state).free < RESERVE_FILE_BYTES:
            self._reserve_path.unlink(missing_ok=True)
        try:
            yield
        finally:
            self._restore_reserve()

    def _restore_reserve(self) -> None:
        with suppress(OSError):
            if self._reserve_path.exists() or shutil.disk_usage(self.state).free < 2 * RESERVE_FILE_BYTES:
                return
            descriptor = os.open(self._reserve_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, durable_files.OWNER_ONLY)
            try:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(descriptor, 0, RESERVE_FILE_BYTES)
            finally:
                os.close(descriptor)

    @contextmanager
    def lock_rounds(self) -> Iterator[None]:
        """Locks the rounds on this machine; raises ``BlockingIOError`` if another process holds the lock."""
        with durable_files.open_locked(self.state / "lock"):
            yield


def _default_keys_directory(state: Path) -> Path:
    """Returns ``STATE.keys``, also if the state is given as ``.`` or ``..``."""
    named = Path(os.path.normpath(state))
    whole = named if named.name not in ("", "..") else Path(os.path.abspath(state))
    return whole.with_name(f"{whole.name}.keys")


def _is_within(path: Path, other: Path) -> bool:
    return path == other or other in path.parents


def _open_shared_store(database: str) -> Store:
    if not database.startswith(URL_SCHEMES):
        # The message does not repeat the URL, which may contain a password.
        raise ValueError(f"{ERROR_PREFIX}: expected a database such as postgresql://host/name, got something else.")
    return PostgresStore(database)
