"""``RollbackGuard``: the heads of ledgers that this user last saw, to notice a restored or copied ledger."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from shuffledp.ledger.hash_chain import (
    Head,
    LedgerError,
)
from shuffledp.ledger.storage import LedgerAddress
from shuffledp.storage import durable_files

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

    def find_record_by_id(self, ledger: str) -> HeadRecord | None:
        """Returns the last known place and head of the ledger as recorded under its id; None if nothing is."""
        return next(iter(self._read(id_path(ledger))), None)

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
