"""What this user last saw of each ledger: a file that was deleted, emptied, restored or replaced is noticed."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from contextlib import suppress
from pathlib import Path

from shuffledp.collection import durable
from shuffledp.collection.chain import Head, LedgerFailed
from shuffledp.collection.ledger_place import LedgerAddress

FOLDER = "ledger-heads"
"""One small file for each ledger, so that runs on different ledgers never wait for each other."""


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


class Witness:
    """What was last seen of the ledger at one path, or in one database."""

    def __init__(self, ledger: Path | LedgerAddress) -> None:
        self.ledger = str(ledger.resolve())

    @property
    def path(self) -> Path:
        """Where it is remembered."""
        name = hashlib.sha256(os.fsencode(self.ledger)).hexdigest()[:32]
        return state_directory() / FOLDER / f"{name}.json"

    def last(self) -> Head | None:
        """Where the ledger stood; None where this user never saw it."""
        path = self.path
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            return Head.read("ledger", document["last"])
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            raise LedgerFailed(
                f"ledger: what was last seen of {self.ledger} cannot be read from {path}; look at the ledger by "
                f"`shuffledp ledger check`, and if it is the right one, run `shuffledp ledger accept`."
            ) from None

    def remember(self, head: Head) -> None:
        """Write it down, whole or not at all. Where that cannot be done there is no witness, and nothing stops."""
        text = json.dumps({"ledger": self.ledger, "last": head.document()}, ensure_ascii=False) + "\n"
        with suppress(OSError):
            durable.make_directory(self.path.parent, 0o700)
            durable.replace_whole(self.path, text.encode("utf-8", "surrogateescape"))
