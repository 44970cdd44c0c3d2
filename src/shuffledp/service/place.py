"""Where a shuffler keeps what: one directory for its state, and one for its keys, which belongs in no backup::

state/reports.sqlite         campaigns, rounds, and reports as they came, unless a database holds them
state/batches/               what is mixed and not yet fetched
state/work/                  for sorting; emptied whenever a round is closed
state/reserve                space on the disk, given to the steps of rounds where there is no other
state/clock                  how long the machine has been running; ``observed_time.py`` says what for
keys/identity                what the shuffler signs with
keys/CAMPAIGN-ROUND          what opens the reports of one round, until they are mixed
keys/spent/CAMPAIGN-ROUND    that a round is over: the digest of its batch, or nothing where none is handed on

The keys are outside of the state, by default beside it as ``STATE.keys``: a copy of the state that is put back has
neither keys of rounds that are over, nor an old list of which are.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from shuffledp.collection import durable
from shuffledp.collection.postgres_session import SCHEMES
from shuffledp.service.envelope import KEY_BYTES, PrivateKey
from shuffledp.service.key_file import ShufflerKey
from shuffledp.service.postgres_store import PostgresStore
from shuffledp.service.sqlite_store import SqliteStore
from shuffledp.service.store import Round, Store

WHO = "shuffler"
OTHERS = 0o077
IDENTITY = "identity"
KEPT_FREE_BYTES = 8 << 20
"""Of the disk, for giving up a round and for the database's own log, whoever has filled the rest of it."""


@dataclass(frozen=True)
class Front:
    """A server that takes reports into a database for a shuffler elsewhere: it has neither keys nor batches."""

    database: str

    def store(self) -> Store:
        """A connection of one's own."""
        return _shared(self.database)


@dataclass(frozen=True)
class Place:
    """The two directories of one shuffler, and the database that it shares with others, if there is one."""

    state: Path
    keys: Path
    database: str | None = None

    @classmethod
    def of(cls, state: Path, keys: Path | None = None, database: str | None = None) -> Self:
        """By default the keys are beside the state; a sentence where they are in it.

        Raises:
            ValueError: If one of the two directories is inside of the other.
        """
        within, beside = state / "keys", _beside(state)
        chosen = beside if keys is None else keys
        if (within / IDENTITY).exists() and chosen.resolve() in (beside.resolve(), within.resolve()):
            raise ValueError(
                f"{WHO}: keys belong outside of the state, where a backup of it does not have them: stop the shuffler "
                f"and move them by `mv {within} {beside}`."
            )
        if _is_within(chosen.resolve(), state.resolve()) or _is_within(state.resolve(), chosen.resolve()):
            raise ValueError(
                f"{WHO}: --state {state} is for backups and --keys {chosen} is not: neither may be in the other."
            )
        return cls(state, chosen, database)

    def make(self, identity: ShufflerKey) -> None:
        """The directories, for their owner only, and the shuffler's key; one that is there must be the same."""
        for directory in (self.state, self.keys, self.batches):
            durable.make_directory(directory, durable.OWNER_ONLY_DIRECTORY)
        if not self._identity.exists():
            identity.save(self._identity)
        if self.identity != identity:
            raise ValueError(f"{WHO}: {self.keys} has the key of another shuffler than the one given.")

    @property
    def _identity(self) -> Path:
        return self.keys / IDENTITY

    @property
    def identity(self) -> ShufflerKey:
        """What it signs with; a sentence where there is no shuffler."""
        if not self._identity.exists():
            raise ValueError(
                f"{WHO}: there is none in {self.state} with keys in {self.keys}; begin by `shuffledp campaign accept`."
            )
        for directory in (self.state, self.keys):
            durable.demand_own_directory(directory.resolve())
        if self.keys.stat().st_mode & OTHERS:
            raise ValueError(f"{WHO}: {self.keys} is for the shuffler alone; take it from the others by `chmod 700`.")
        return ShufflerKey.load(self._identity)

    def store(self) -> Store:
        """A connection of one's own."""
        return SqliteStore(self.state / "reports.sqlite") if self.database is None else _shared(self.database)

    @property
    def batches(self) -> Path:
        return self.state / "batches"

    @property
    def work(self) -> Path:
        return self.state / "work"

    def batch(self, of: Round) -> Path:
        """Where the batch of a round is."""
        return self.batches / of.name

    # --- the keys of rounds -----------------------------------------------------------------------------------

    def new_key(self, name: str) -> PrivateKey:
        """The key of a new round; what a killed process left is as good: nobody was told of it."""
        durable.write_whole(self.keys / name, PrivateKey.new().secret)
        found = self.key(name)
        assert found is not None, "it was just written"
        return found

    def key(self, name: str) -> PrivateKey | None:
        """The key of a round; None where there is none, for instance in a copy that was restored."""
        path = self.keys / name
        content = path.read_bytes() if path.exists() else b""
        # One that is being destroyed is zeros.
        return PrivateKey(content) if len(content) == KEY_BYTES and any(content) else None

    def destroy_key(self, name: str) -> None:
        """What it opened is noise from now on."""
        durable.destroy(self.keys / name)

    # --- the rounds that are over -----------------------------------------------------------------------------

    def spent(self, name: str) -> str | None:
        """The digest of the batch by which a round ended, empty where there is none; None where it is not over."""
        path = self._spent / name
        return durable.read_own(path).decode("ascii", "replace") if path.exists() else None

    def spend(self, name: str, digest: str = "") -> None:
        """Write down for good that a round is over, and by which batch: before it is handed on, or given up."""
        durable.make_directory(self._spent, durable.OWNER_ONLY_DIRECTORY)
        durable.replace_whole(self._spent / name, digest.encode())

    @property
    def _spent(self) -> Path:
        return self.keys / "spent"

    # --- the reserve of disk ----------------------------------------------------------------------------------

    @property
    def _reserve(self) -> Path:
        return self.state / "reserve"

    @contextmanager
    def room(self) -> Iterator[None]:
        """Give the reserve to the block where the disk is full, before anything else is opened; keep one afterwards."""
        if shutil.disk_usage(self.state).free < KEPT_FREE_BYTES:
            self._reserve.unlink(missing_ok=True)
        try:
            yield
        finally:
            self._keep_reserve()

    def _keep_reserve(self) -> None:
        with suppress(OSError):
            if self._reserve.exists() or shutil.disk_usage(self.state).free < 2 * KEPT_FREE_BYTES:
                return
            descriptor = os.open(self._reserve, os.O_WRONLY | os.O_CREAT | os.O_EXCL, durable.OWNER_ONLY)
            try:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(descriptor, 0, KEPT_FREE_BYTES)
            finally:
                os.close(descriptor)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes from changing rounds meanwhile; ``BlockingIOError`` where one is at it."""
        with durable.locked(self.state / "lock"):
            yield


def _beside(state: Path) -> Path:
    """``STATE.keys``, also where the state is given as ``.`` or ``..``."""
    named = Path(os.path.normpath(state))
    whole = named if named.name not in ("", "..") else Path(os.path.abspath(state))
    return whole.with_name(f"{whole.name}.keys")


def _is_within(path: Path, other: Path) -> bool:
    return path == other or other in path.parents


def _shared(database: str) -> Store:
    if not database.startswith(SCHEMES):
        # It may hold a password: it is not said again.
        raise ValueError(f"{WHO}: expected a database such as postgresql://host/name, got something else.")
    return PostgresStore(database)
