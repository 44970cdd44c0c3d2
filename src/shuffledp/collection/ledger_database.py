"""The ledger in a database of PostgreSQL: for clusters and services, whose runs are on several machines.

The same contract as the file's: durable when a write returns, never created by opening it, one state to every reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from shuffledp.collection.chain import BEGINNING, Event, Head, LedgerFailed, changed, extended, verified
from shuffledp.collection.ledger_place import LedgerAddress
from shuffledp.collection.postgres_session import PostgresSession

WAIT = "120s"
"""How long to wait for another run that is at the ledger."""
HEAD = "shuffledp_ledger_head"
TABLES = (
    # One ledger a database: its first line is its only one.
    f"CREATE TABLE {HEAD} (one INTEGER PRIMARY KEY CHECK (one = 1), number BIGINT NOT NULL, hash TEXT NOT NULL)",
    "CREATE TABLE shuffledp_ledger_event (number BIGINT PRIMARY KEY, payload TEXT NOT NULL, hash TEXT NOT NULL)",
    "CREATE TABLE shuffledp_ledger_curve (key TEXT PRIMARY KEY, content BYTEA NOT NULL)",
)
EVENTS = f"""
SELECT 0, number, payload, hash FROM shuffledp_ledger_event
UNION ALL SELECT 1, number, '', hash FROM {HEAD} ORDER BY 1, 2
"""
"""All that there is in one look, whatever others write meanwhile."""
CURVE = """
INSERT INTO shuffledp_ledger_curve VALUES (%s, %s) ON CONFLICT (key) DO UPDATE SET content = EXCLUDED.content
"""

Execute = Callable[..., int]


class LedgerDatabase:
    """One ledger's tables. A connection lasts for one look or one change."""

    def __init__(self, place: LedgerAddress) -> None:
        self.place = place
        self._session = PostgresSession(place.url, (), HEAD, self._failed)

    def exists(self) -> bool:
        """Whether there is a ledger."""
        with self._opened() as session:
            return session.rows("SELECT to_regclass(%s) IS NOT NULL", (HEAD,)) == [(True,)]

    def create(self, payloads: Iterable[Mapping[str, Any]]) -> None:
        """New tables with their first events, all or none."""
        if self.exists():
            raise self._is_there()
        try:
            with self._opened() as session, session.together() as execute:
                for statement in TABLES:
                    execute(statement)
                execute(f"INSERT INTO {HEAD} VALUES (1, 0, %s)", (BEGINNING,))
                _append(execute, list(extended(BEGINNING, 0, payloads)))
        except LedgerFailed:
            if self.exists():
                # Of another one, who was faster.
                raise self._is_there() from None
            raise

    def events(self) -> Sequence[Event]:
        """Every event, each proved to be what was written."""
        with self._opened() as session:
            rows = session.rows(EVENTS)
        events = list(verified(self.place, [row[1:] for row in rows if row[0] == 0]))
        last = (events[-1].number, events[-1].hash) if events else (0, BEGINNING)
        if [(row[1], row[3]) for row in rows if row[0] == 1] != [last]:
            raise changed(self.place, last[0] + 1)
        return events

    def curves(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Stored curves' bytes, as they are found: they are to be compared with their hashes."""
        with self._opened() as session:
            rows = session.rows("SELECT key, content FROM shuffledp_ledger_curve WHERE key = ANY(%s)", (list(keys),))
        return {key: bytes(content) for key, content in rows}

    def extend(
        self, head: Head, payloads: Sequence[Mapping[str, Any]], curves: Mapping[str, bytes], *, wait: bool = True
    ) -> Head | None:
        """Write events after this head, all or none; None, and nothing, where the ledger has gone on since.

        Without ``wait`` another run that is at the ledger is an error at once.
        """
        rows = list(extended(head.hash, head.entries, payloads))
        with self._opened() as session, session.together() as execute:
            execute(f"SET LOCAL lock_timeout = '{WAIT if wait else '1ms'}'")
            # Whoever holds this row is the only one who writes.
            held = f"SELECT 1 FROM {HEAD} WHERE number = %s AND hash = %s FOR UPDATE"
            if execute(held, (head.entries, head.hash)) != 1:
                return None
            _append(execute, rows)
            for key, content in curves.items():
                execute(CURVE, (key, content))
        return Head(head.ledger, rows[-1][0], rows[-1][2]) if rows else head

    @contextmanager
    def _opened(self) -> Iterator[PostgresSession]:
        try:
            yield self._session
        finally:
            self._session.close()

    def _failed(self, why: str) -> LedgerFailed:
        return LedgerFailed(f"ledger: cannot use {self.place}: {why}.")

    def _is_there(self) -> LedgerFailed:
        return LedgerFailed(f"ledger: {self.place} is already there; a ledger is created only once.")


def _append(execute: Execute, rows: Sequence[tuple[int, str, str]]) -> None:
    for row in rows:
        execute("INSERT INTO shuffledp_ledger_event VALUES (%s, %s, %s)", row)
    if rows:
        execute(f"UPDATE {HEAD} SET number = %s, hash = %s", (rows[-1][0], rows[-1][2]))
