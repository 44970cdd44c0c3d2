"""The ledger: what each population has already given, in a SQLite file.

A collection reserves its share before anything is encoded, in one exclusive transaction: two runs at once cannot both
spend the same budget. A reservation counts as spent until it is forgotten, so that a killed run is on the safe side.
"""

from __future__ import annotations

import json
import os
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from shuffledp import argument
from shuffledp.bounds.amplify import amplify
from shuffledp.collection.guarantee import Guarantee, TooWeak, composed_epsilon
from shuffledp.mechanisms import catalogue
from shuffledp.privacy.curve import PrivacyCurve
from shuffledp.version import __version__

WAIT_SECONDS = 120.0
"""How long to wait for another run that is at the ledger."""
DEFAULT_DELTA = 1e-9
RESERVED, RELEASED = "reserved", "released"
TABLES = """
CREATE TABLE IF NOT EXISTS collection (
    id TEXT PRIMARY KEY, state TEXT NOT NULL, started TEXT NOT NULL, released TEXT, population TEXT NOT NULL,
    task TEXT NOT NULL, mechanism TEXT NOT NULL, epsilon_local REAL, settings TEXT NOT NULL,
    users INTEGER NOT NULL, bound TEXT NOT NULL, epsilon REAL NOT NULL, delta REAL NOT NULL, software TEXT);
CREATE TABLE IF NOT EXISTS budget (
    population TEXT PRIMARY KEY, epsilon REAL NOT NULL, delta REAL NOT NULL);
"""
ADD_SOFTWARE = "ALTER TABLE collection ADD COLUMN software TEXT"
"""For ledgers from before versions were written down."""


@dataclass(frozen=True)
class Entry:
    """One collection: all that is needed to compute its privacy again."""

    id: str
    state: str
    started: str
    released: str | None
    population: str
    task: str
    mechanism: str
    epsilon_local: float | None
    settings: str
    users: int
    bound: str
    epsilon: float
    delta: float
    software: str | None = None
    """The version that collected; None in entries from before it was written down."""

    def recipe(self) -> tuple[Any, ...]:
        """Entries with the same recipe have the same curve."""
        return (self.mechanism, self.epsilon_local, self.settings, self.users, self.bound)

    def curve(self) -> PrivacyCurve:
        """The privacy of this collection, from what stands in the ledger."""
        document = {"name": self.mechanism, "epsilon": self.epsilon_local, "settings": json.loads(self.settings)}
        return amplify(catalogue.read(document), self.users, bound=self.bound)


@dataclass(frozen=True)
class Budget:
    """The most that a population may be asked to give."""

    population: str
    epsilon: float
    delta: float


@dataclass(frozen=True)
class Standing:
    """One population: its collections, and what they amount to together."""

    population: str
    entries: tuple[Entry, ...]
    budget: Budget | None
    epsilon: float
    delta: float

    @property
    def left(self) -> float | None:
        """ε that is not spent yet; None where there is no budget."""
        return None if self.budget is None else max(0.0, self.budget.epsilon - self.epsilon)


class Ledger:
    """A SQLite file; it is created when something is first written to it.

    ``path``: where the file is.

    >>> import pathlib, tempfile
    >>> from shuffledp.collection import Ledger
    >>> with tempfile.TemporaryDirectory() as room:
    ...     ledger = Ledger(pathlib.Path(room, "ledger.db"))
    ...     ledger.set_budget("readers", epsilon=2.0, delta=1e-6)
    ...     standing = ledger.standings("readers")[0]
    >>> standing.budget.epsilon, len(standing.entries), standing.left
    (2.0, 0, 2.0)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._known: dict[Any, PrivacyCurve] = {}
        """The curves of recipes that were already computed."""

    @staticmethod
    def new_id() -> str:
        """A name that no other collection has."""
        return uuid.uuid4().hex

    # --- writing ----------------------------------------------------------------------------------------------

    def set_budget(self, population: str, epsilon: float, delta: float) -> None:
        """Give a population a budget, in place of the one it had."""
        if not population.strip():
            raise ValueError(f"ledger: population must be a name, got {population!r}.")
        epsilon = argument.positive_finite("ledger", "epsilon", epsilon)
        delta = argument.open_probability("ledger", "delta", delta)
        with self._exclusive() as connection:
            connection.execute("INSERT OR REPLACE INTO budget VALUES (?, ?, ?)", (population, epsilon, delta))

    def reserve(self, id_: str, guarantee: Guarantee) -> None:
        """Write a collection down before it begins; refuse it if the population's budget does not allow it.

        A collection that is already there, from a run that was killed, is left as it is.
        """
        plan, mechanism = guarantee.plan, guarantee.plan.mechanism.document()
        local = mechanism["epsilon"]
        entry = Entry(
            id_, RESERVED, _now(), None, plan.population, plan.task.name, mechanism["name"],
            None if local is None else float(local), json.dumps(mechanism["settings"], sort_keys=True),
            guarantee.users, plan.bound, guarantee.value.upper, plan.delta, __version__,
        )  # fmt: skip
        self._known[entry.recipe()] = guarantee.curve
        with self._exclusive() as connection:
            if connection.execute("SELECT 1 FROM collection WHERE id = ?", (id_,)).fetchone():
                return
            self._afford(connection, entry)
            places = ", ".join("?" * len(vars(entry)))
            connection.execute(
                f"INSERT INTO collection ({', '.join(vars(entry))}) VALUES ({places})", tuple(vars(entry).values())
            )

    def release(self, id_: str) -> None:
        """The collection's messages are about to be seen."""
        with self._exclusive() as connection:
            changed = connection.execute(
                "UPDATE collection SET state = ?, released = COALESCE(released, ?) WHERE id = ?",
                (RELEASED, _now(), id_),
            )
            if changed.rowcount != 1:
                raise ValueError(f"ledger: expected the collection {id_} in {self.path}, but it is not there.")

    def forget(self, id_: str) -> None:
        """Take back a reservation of a collection that never released anything."""
        if not self.path.exists():
            raise ValueError(f"ledger: there is no ledger at {self.path}.")
        with self._exclusive() as connection:
            row = connection.execute("SELECT state FROM collection WHERE id = ?", (id_,)).fetchone()
            if row is None:
                raise ValueError(f"ledger: there is no collection {id_}.")
            if row[0] != RESERVED:
                raise ValueError(f"ledger: collection {id_} was released: what was given cannot be taken back.")
            connection.execute("DELETE FROM collection WHERE id = ?", (id_,))

    def has_reserved(self, id_: str) -> bool:
        """Whether this collection is reserved and not released."""
        if not self.path.exists():
            return False
        with self._connected() as connection:
            query = "SELECT 1 FROM collection WHERE id = ? AND state = ?"
            return connection.execute(query, (id_, RESERVED)).fetchone() is not None

    # --- reading ----------------------------------------------------------------------------------------------

    def standings(
        self, population: str | None = None, delta: float | None = None, without_budget: float = DEFAULT_DELTA
    ) -> list[Standing]:
        """Every population (or one) with its collections.

        ε is told at ``delta``; if that is None, at the budget's δ, or at ``without_budget`` where there is none.
        """
        if delta is not None:
            delta = argument.open_probability("ledger", "delta", delta)
        if not self.path.exists():
            return []
        with self._connected() as connection:
            found = {row[0] for row in connection.execute("SELECT population FROM collection")}
            found |= {row[0] for row in connection.execute("SELECT population FROM budget")}
            wanted = sorted(found) if population is None else [population]
            return [self._standing(connection, name, delta, without_budget) for name in wanted]

    def _standing(
        self, connection: sqlite3.Connection, population: str, delta: float | None, without_budget: float
    ) -> Standing:
        entries, budget = _entries(connection, population), _budget(connection, population)
        if delta is None:
            delta = without_budget if budget is None else budget.delta
        return Standing(population, entries, budget, composed_epsilon(self._curves(entries), delta), delta)

    def _afford(self, connection: sqlite3.Connection, entry: Entry) -> None:
        budget = _budget(connection, entry.population)
        if budget is None:
            return
        before = _entries(connection, entry.population)
        total = composed_epsilon(self._curves((*before, entry)), budget.delta)
        if total > budget.epsilon:
            spent = composed_epsilon(self._curves(before), budget.delta)
            raise TooWeak(
                f"ledger: this collection would bring {entry.population!r} from ε = {spent:.6g} to {total:.6g} "
                f"at δ = {budget.delta:g}, above the budget {budget.epsilon:g}; nothing was collected."
            )

    def _curves(self, entries: tuple[Entry, ...]) -> list[PrivacyCurve]:
        """One object for all entries that are alike, so that composing them shares the work."""
        for entry in entries:
            if entry.recipe() not in self._known:
                self._known[entry.recipe()] = entry.curve()
        return [self._known[entry.recipe()] for entry in entries]

    # --- the file ---------------------------------------------------------------------------------------------

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        try:
            connection = sqlite3.connect(self.path, timeout=WAIT_SECONDS, isolation_level=None)
        except sqlite3.Error as error:
            raise ValueError(f"ledger: cannot open {self.path}: {error}.") from None
        try:
            yield connection
        except sqlite3.Error as error:
            raise ValueError(f"ledger: cannot use {self.path}: {error}.") from None
        finally:
            connection.close()

    @contextmanager
    def _exclusive(self) -> Iterator[sqlite3.Connection]:
        """One transaction at a time, from the first look to the last change."""
        with self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                for statement in TABLES.split(";"):
                    connection.execute(statement)
                if "software" not in _columns(connection):
                    connection.execute(ADD_SOFTWARE)
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")


def _entries(connection: sqlite3.Connection, population: str) -> tuple[Entry, ...]:
    columns = [name for name in Entry.__dataclass_fields__ if name in _columns(connection)]
    query = f"SELECT {', '.join(columns)} FROM collection WHERE population = ? ORDER BY started, id"
    return tuple(Entry(*row) for row in connection.execute(query, (population,)))


def _columns(connection: sqlite3.Connection) -> set[str]:
    return {row[1] for row in connection.execute("PRAGMA table_info(collection)")}


def _budget(connection: sqlite3.Connection, population: str) -> Budget | None:
    row = connection.execute("SELECT * FROM budget WHERE population = ?", (population,)).fetchone()
    return None if row is None else Budget(*row)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
