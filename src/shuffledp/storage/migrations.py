"""Schema versions: the layout of a store, recorded in the store itself, and the migrations from one to the next.

A store lists its migrations, one plain function for each version: the first creates the tables of version 1, every
later one turns version n - 1 into version n. A new store runs all of them, an older one those that it lacks, in one
transaction: if the process is killed the store stays as it was, and if several processes open the store at once, one
migrates while the others wait. A store of a version that is not listed was written by a newer shuffledp; it is
rejected and left unchanged.

Version 1 of every store is the layout of shuffledp 0.1.0, which recorded no version; nothing older is read.

=============================== ==================================================
store                           where its version is recorded
=============================== ==================================================
ledger, file of the shuffler    ``PRAGMA user_version`` of the SQLite file
the same in PostgreSQL          a row of the table ``shuffledp_schema``
``work/job.json``               the field ``version``; it has no migrations
=============================== ==================================================
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shuffledp._core import __version__
from shuffledp._core.errors import ShuffledpError

FIRST_VERSION = 1
"""The version of a store that records none."""
VERSION_TABLE = "shuffledp_schema"
# Not by to_regclass: it may answer from a cache older than the lock that this transaction waited for.
TABLE_EXISTS_QUERY = "SELECT FROM pg_tables WHERE tablename = %s AND schemaname = ANY (current_schemas(false))"

Execute = Callable[..., Any]
"""Runs an SQL statement with its parameters and returns a cursor."""
Migration = Callable[[Execute], None]


class NewerSchema(ShuffledpError, ValueError):
    """The store was written by a newer version of the software; it was not changed."""


def check_version(place: str, found: int, newest: int, newer: type[NewerSchema] = NewerSchema) -> None:
    """Raises unless the store at ``place`` has a version that this software knows.

    Args:
        place: The caller and the store, such as "ledger: /home/me/ledger.sqlite".
        found: The version of the store.
        newest: The newest version that this software knows.
        newer: The exception to raise.

    Raises:
        NewerSchema: If the store has another version.
    """
    if not 0 <= found <= newest:
        raise newer(
            f"{place} has schema version {found}, and shuffledp {__version__} knows versions up to {newest}; "
            f"upgrade shuffledp."
        )


@dataclass(frozen=True)
class Schema(ABC):
    """All versions of one kind of store."""

    name: str
    table: str
    """A table that every version has."""
    migrations: tuple[Migration, ...]
    error_type: type[NewerSchema] = NewerSchema

    @property
    def newest_version(self) -> int:
        """The version that this software writes."""
        return len(self.migrations)

    def check(self, execute: Execute, place: str) -> int:
        """Returns the version of a store, 0 if it has no tables yet; raises ``NewerSchema`` if it is unknown."""
        recorded = self._recorded(execute)
        check_version(place, FIRST_VERSION if recorded is None else recorded, self.newest_version, self.error_type)
        if not self._has_table(execute):
            return 0
        return FIRST_VERSION if recorded is None else recorded

    def migrate(self, execute: Execute, place: str) -> None:
        """Brings a store to the newest version, in the transaction of the caller, who must be the only writer."""
        found = self.check(execute, place)
        for migration in self.migrations[found:]:
            migration(execute)
        if found < self.newest_version:
            self._record(execute)

    @abstractmethod
    def _recorded(self, execute: Execute) -> int | None:
        """Returns the recorded version; None if there is none."""

    @abstractmethod
    def _record(self, execute: Execute) -> None:
        """Records the newest version."""

    @abstractmethod
    def _has_table(self, execute: Execute) -> bool:
        """Returns True if the store has its table."""


class SqliteSchema(Schema):
    """The versions of an SQLite file."""

    def upgrade(self, connection: sqlite3.Connection, place: str) -> None:
        """Brings a file to the newest version in a transaction of its own; a file that has it is only read."""
        if self.check(connection.execute, place) == self.newest_version:
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            self.migrate(connection.execute, place)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _recorded(self, execute: Execute) -> int | None:
        (found,) = execute("PRAGMA user_version").fetchone()
        return found or None

    def _record(self, execute: Execute) -> None:
        execute(f"PRAGMA user_version = {self.newest_version}")

    def _has_table(self, execute: Execute) -> bool:
        query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
        return execute(query, (self.table,)).fetchone() is not None


class PostgresSchema(Schema):
    """The versions of tables in PostgreSQL; a database may hold several kinds of stores."""

    def migrate(self, execute: Execute, place: str) -> None:
        if self.check(execute, place) == self.newest_version:
            return
        # Held until the end of the transaction: two processes that begin at once would both create the tables.
        execute("SELECT pg_advisory_xact_lock(hashtextextended('shuffledp schema', 0))")
        super().migrate(execute, place)

    def _recorded(self, execute: Execute) -> int | None:
        if not execute(TABLE_EXISTS_QUERY, (VERSION_TABLE,)).rowcount:
            return None
        found = execute(f"SELECT version FROM {VERSION_TABLE} WHERE store = %s", (self.name,)).fetchone()
        return None if found is None else int(found[0])

    def _record(self, execute: Execute) -> None:
        execute(f"CREATE TABLE IF NOT EXISTS {VERSION_TABLE} (store text PRIMARY KEY, version bigint NOT NULL)")
        execute(
            f"INSERT INTO {VERSION_TABLE} VALUES (%s, %s) ON CONFLICT (store) DO UPDATE SET version = excluded.version",
            (self.name, self.newest_version),
        )

    def _has_table(self, execute: Execute) -> bool:
        return bool(execute(TABLE_EXISTS_QUERY, (self.table,)).rowcount)
