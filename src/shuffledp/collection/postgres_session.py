"""A connection to PostgreSQL: made when it is first needed, made anew after it broke, and durable when it commits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from shuffledp.errors import installing

if TYPE_CHECKING:
    import psycopg

SCHEMES = ("postgresql://", "postgres://")
SETTINGS: dict[str, Any] = {"connect_timeout": 5, "tcp_user_timeout": 20_000, "application_name": "shuffledp"}
"""A server that is gone is noticed, whatever the network says."""
PAUSE_SECONDS = 1.0
"""After a server could not be reached, before it is tried again: whoever asks meanwhile is told at once."""

Row = tuple[Any, ...]


class PostgresSession:
    """One connection to the database at ``url``; ``failed`` makes the error of whoever uses it out of a few words.

    ``schema``: statements that make its tables, all or none, where ``table`` is not there yet.
    """

    def __init__(self, url: str, schema: Sequence[str], table: str, failed: Callable[[str], Exception]) -> None:
        _module()
        self._url, self._schema, self._table, self._failed = url, schema, table, failed
        self._open: psycopg.Connection[Row] | None = None
        self._held, self._not_before = False, 0.0

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """What a query finds."""
        with self._connected() as connection:
            return connection.execute(statement.encode(), parameters, binary=True).fetchall()

    def change(self, statement: str, parameters: Sequence[Any] = ()) -> int:
        """How many rows a statement changes; it is on disk when this returns."""
        with self._connected() as connection:
            return connection.execute(statement.encode(), parameters).rowcount

    def change_all(self, statements: Sequence[tuple[str, Sequence[Any]]]) -> list[int]:
        """The same for several, all or none."""
        if len(statements) == 1:
            # A transaction by itself, in one message instead of three.
            return [self.change(*statements[0])]
        with self._connected() as connection, connection.transaction():
            return [connection.execute(text.encode(), told).rowcount for text, told in statements]

    @contextmanager
    def together(self) -> Iterator[Callable[..., int]]:
        """Statements, all or none, of which each may depend on those before: how many rows it finds or changes."""
        with self._connected() as connection, connection.transaction():
            yield lambda statement, parameters=(): connection.execute(statement.encode(), parameters).rowcount

    def stream(self, statement: str, parameters: Sequence[Any], rows_at_a_time: int) -> Iterator[Row]:
        """What a query finds, a few rows at a time."""
        with (
            self._connected() as connection,
            connection.transaction(),
            connection.cursor("stream", binary=True) as cursor,
        ):
            cursor.itersize = rows_at_a_time
            yield from cursor.execute(statement.encode(), parameters)

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """A lock of this name, as long as this very connection lives; ``BlockingIOError`` where another has it."""
        if not self.rows("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", (name,))[0][0]:
            raise BlockingIOError(name)
        # Another connection would not have the lock.
        self._held = True
        try:
            yield
        finally:
            self._held = False
            # Which also gives the lock back.
            self.close()

    def close(self) -> None:
        """End the connection; the next statement opens another one."""
        if self._open is not None:
            self._open.close()
            self._open = None

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection[Row]]:
        psycopg = _module()
        try:
            yield self._connection()
        except psycopg.Error as error:
            if self._open is None or self._open.closed or isinstance(error, psycopg.OperationalError):
                self.close()
            raise self._failed(type(error).__name__) from None

    def _connection(self) -> psycopg.Connection[Row]:
        if self._open is None:
            if self._held:
                raise self._failed("the connection that held the lock is gone")
            if time.monotonic() < self._not_before:
                raise self._failed("it could not be reached a moment ago")
            made = self._reached()
            try:
                self._prepare(made)
            except BaseException:
                made.close()
                raise
            self._open = made
        return self._open

    def _reached(self) -> psycopg.Connection[Row]:
        driver = _module()
        try:
            made: psycopg.Connection[Row] = driver.connect(self._url, autocommit=True, **SETTINGS)
        except driver.Error:
            self._not_before = time.monotonic() + PAUSE_SECONDS
            raise
        return made

    def _prepare(self, made: psycopg.Connection[Row]) -> None:
        # Whatever the server's default is: what is acknowledged is on disk.
        made.execute("SET synchronous_commit = on")
        if made.execute("SHOW fsync").fetchone() != ("on",):
            raise self._failed("it does not write through to its disk (fsync is off)")
        # A change of a table waits for whoever reads it, and lets nobody write meanwhile: it is made once.
        if self._is_there(made):
            return
        with made.transaction():
            # Two that begin at once would both make the tables.
            made.execute("SELECT pg_advisory_xact_lock(hashtextextended('shuffledp schema', 0))")
            for statement in () if self._is_there(made) else self._schema:
                made.execute(statement.encode())

    def _is_there(self, made: psycopg.Connection[Row]) -> bool:
        return made.execute("SELECT to_regclass(%s)", (self._table,)).fetchone() != (None,)


def _module() -> Any:
    try:
        import psycopg
    except ImportError:
        raise ValueError(f"database: PostgreSQL needs psycopg; {installing('postgres')}.") from None
    return psycopg
