"""A PostgreSQL connection that opens when first needed, reopens after a failure, and commits durably."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from shuffledp._core.errors import install_hint
from shuffledp.storage.migrations import Execute

if TYPE_CHECKING:
    import psycopg

URL_SCHEMES = ("postgresql://", "postgres://")
CONNECTION_SETTINGS: dict[str, Any] = {
    "connect_timeout": 5,
    "tcp_user_timeout": 20_000,
    "application_name": "shuffledp",
}
"""Timeouts that detect a server that is gone, even if the network reports nothing."""
RECONNECT_PAUSE_SECONDS = 1.0
"""After a failed connection, calls within this time fail at once instead of trying again."""

Row = tuple[Any, ...]


class PostgresSession:
    """One connection to the database at ``url``; ``failed`` turns a few words into the caller's exception.

    ``migrate`` brings the tables to the version that this software knows, whenever a connection is opened.
    """

    def __init__(
        self, url: str, failed: Callable[[str], Exception], migrate: Callable[[Execute], None] | None = None
    ) -> None:
        _import_psycopg()
        self._url, self._build_error, self._migrate = url, failed, migrate
        self._open: psycopg.Connection[Row] | None = None
        self._holds_lock, self._retry_time = False, 0.0

    def fetch_rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Returns the rows of a query."""
        with self._use_connection() as connection:
            return connection.execute(statement.encode(), parameters, binary=True).fetchall()

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> int:
        """Executes a statement, durably, and returns the number of rows that it changed."""
        with self._use_connection() as connection:
            return connection.execute(statement.encode(), parameters).rowcount

    def execute_all(self, statements: Sequence[tuple[str, Sequence[Any]]]) -> list[int]:
        """Executes several statements, all or none, and returns the number of rows that each changed."""
        if len(statements) == 1:
            # Already a transaction, in one network message instead of three.
            return [self.execute(*statements[0])]
        with self._use_connection() as connection, connection.transaction():
            return [connection.execute(text.encode(), parameters).rowcount for text, parameters in statements]

    @contextmanager
    def transaction(self) -> Iterator[Execute]:
        """Yields a function that executes a statement and returns its cursor; all statements succeed or none does."""
        with self._use_connection() as connection, connection.transaction():
            yield _build_executor(connection)

    def stream_rows(self, statement: str, parameters: Sequence[Any], rows_at_a_time: int) -> Iterator[Row]:
        """Yields the rows of a query, fetching ``rows_at_a_time``."""
        with (
            self._use_connection() as connection,
            connection.transaction(),
            connection.cursor("stream", binary=True) as cursor,
        ):
            cursor.itersize = rows_at_a_time
            yield from cursor.execute(statement.encode(), parameters)

    @contextmanager
    def hold_lock(self, name: str) -> Iterator[None]:
        """Holds the lock of this name while this connection lives; raises ``BlockingIOError`` if it is taken."""
        if not self.fetch_rows("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", (name,))[0][0]:
            raise BlockingIOError(name)
        # Another connection would not have the lock.
        self._holds_lock = True
        try:
            yield
        finally:
            self._holds_lock = False
            if self._open is not None:
                # Closing releases the lock too, but only when the server notices it.
                with suppress(_import_psycopg().Error):
                    self._open.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", (name,))
            self.close()

    def close(self) -> None:
        """Closes the connection; the next statement opens another."""
        if self._open is not None:
            self._open.close()
            self._open = None

    @contextmanager
    def _use_connection(self) -> Iterator[psycopg.Connection[Row]]:
        psycopg = _import_psycopg()
        try:
            yield self._ensure_connection()
        except psycopg.Error as error:
            if self._open is None or self._open.closed or isinstance(error, psycopg.OperationalError):
                self.close()
            raise self._build_error(type(error).__name__) from None

    def _ensure_connection(self) -> psycopg.Connection[Row]:
        if self._open is None:
            if self._holds_lock:
                raise self._build_error("the connection that held the lock is gone")
            if time.monotonic() < self._retry_time:
                raise self._build_error("it could not be reached a moment ago")
            made = self._connect()
            try:
                self._configure(made)
            except BaseException:
                made.close()
                raise
            self._open = made
        return self._open

    def _connect(self) -> psycopg.Connection[Row]:
        driver = _import_psycopg()
        try:
            made: psycopg.Connection[Row] = driver.connect(self._url, autocommit=True, **CONNECTION_SETTINGS)
        except driver.Error:
            self._retry_time = time.monotonic() + RECONNECT_PAUSE_SECONDS
            raise
        return made

    def _configure(self, made: psycopg.Connection[Row]) -> None:
        # Whatever the server's default: acknowledged data are on disk.
        made.execute("SET synchronous_commit = on")
        if made.execute("SHOW fsync").fetchone() != ("on",):
            raise self._build_error("it does not write through to its disk (fsync is off)")
        if self._migrate is not None:
            with made.transaction():
                self._migrate(_build_executor(made))


def _build_executor(connection: psycopg.Connection[Row]) -> Execute:
    return lambda statement, parameters=(): connection.execute(statement.encode(), parameters)


def _import_psycopg() -> Any:
    try:
        import psycopg
    except ImportError:
        raise ValueError(f"database: PostgreSQL needs psycopg; {install_hint('postgres')}.") from None
    return psycopg
