"""What this user last saw of each ledger: a file that was deleted, emptied, restored, replaced or copied is noticed."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from shuffledp.collection import durable
from shuffledp.collection.chain import Head, LedgerFailed
from shuffledp.collection.ledger_place import LedgerAddress

FOLDER = "ledger-heads"
"""Two small files for each ledger, so that runs on different ledgers never wait for each other."""


def data_directory() -> Path:
    """Where this user's programs keep their data."""
    if chosen := os.environ.get("XDG_DATA_HOME"):
        return Path(chosen) / "shuffledp"
    home = _home()
    shared = home / "Library" / "Application Support" if sys.platform == "darwin" else home / ".local" / "share"
    return shared / "shuffledp"


def state_directory() -> Path:
    """Where this user's programs keep what they remember."""
    chosen = os.environ.get("XDG_STATE_HOME")
    return (Path(chosen) if chosen else _home() / ".local" / "state") / "shuffledp"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        raise LedgerFailed("ledger: this user has no home directory; set XDG_DATA_HOME and XDG_STATE_HOME.") from None


@dataclass(frozen=True)
class Sighting:
    """Where a ledger was seen, and how far it was."""

    place: str
    head: Head


class Witness:
    """What was last seen of the ledger at one path, or in one database, and of the same ledger wherever it was."""

    def __init__(self, ledger: Path | LedgerAddress) -> None:
        self.ledger = str(ledger.resolve())

    @property
    def path(self) -> Path:
        """Where it is remembered what stood at this place."""
        name = hashlib.sha256(os.fsencode(self.ledger)).hexdigest()[:32]
        return state_directory() / FOLDER / f"{name}.json"

    def last(self) -> Head | None:
        """The head of the ledger at this place; None where this user never saw one."""
        return next((seen.head for seen in self._read(self.path)), None)

    def everywhere(self, ledger: str) -> list[Sighting]:
        """Where this user last saw the ledger of this id, at any place; empty where they never did.

        Older versions remembered places only: of those, every one that the ledger stood at is returned.
        """
        if found := self._read(id_path(ledger)):
            return found
        places = state_directory() / FOLDER
        known = []
        for path in sorted(places.glob("*.json")) if places.is_dir() else []:
            # Another ledger's file that cannot be read is that ledger's matter.
            with suppress(LedgerFailed):
                known += [seen for seen in self._read(path) if seen.head.ledger == ledger]
        return known

    def knows(self, ledger: str) -> bool:
        """Whether anything is remembered under this id."""
        return id_path(ledger).exists()

    def is_home(self, ledger: str) -> bool:
        """Whether this is the place where the ledger of this id was last written, as far as is known."""
        found = self._read(id_path(ledger))
        return not found or found[0].place == self.ledger

    def remember(self, head: Head) -> None:
        """Write down, whole or not at all, that the ledger stands there: at this place, and under its id.

        Where that cannot be done there is no witness, and nothing stops.
        """
        self.remember_here(head)
        self._write(id_path(head.ledger), head)

    def remember_here(self, head: Head) -> None:
        """The same of this place only: a copy that was looked at is not where the ledger is kept."""
        self._write(self.path, head)

    def _write(self, path: Path, head: Head) -> None:
        text = json.dumps({"ledger": self.ledger, "last": head.document()}, ensure_ascii=False) + "\n"
        with suppress(OSError):
            durable.make_directory(path.parent, 0o700)
            durable.replace_whole(path, text.encode("utf-8", "surrogateescape"))

    def _read(self, path: Path) -> list[Sighting]:
        """What a file remembers; nothing where there is no file."""
        try:
            document = json.loads(path.read_text(encoding="utf-8", errors="surrogateescape"))
            return [Sighting(str(document["ledger"]), Head.read("ledger", document["last"]))]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            raise LedgerFailed(
                f"ledger: what was last seen of {self.ledger} cannot be read from {path}; look at the ledger by "
                f"`shuffledp ledger check`, and if it is the right one, run `shuffledp ledger accept`."
            ) from None


def id_path(ledger: str) -> Path:
    """Where it is remembered how far the ledger of this id was seen."""
    # A file that is not ours may claim any text as its id.
    return state_directory() / FOLDER / f"id-{hashlib.sha256(ledger.encode()).hexdigest()[:32]}.json"
