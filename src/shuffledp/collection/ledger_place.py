"""Where a ledger is: a file of this machine, or a database that several machines reach."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from shuffledp.collection.postgres_session import SCHEMES


@dataclass(frozen=True)
class LedgerAddress(os.PathLike[str]):
    """A database of PostgreSQL. It is shown without its password."""

    url: str

    def __fspath__(self) -> str:
        return self.url

    def resolve(self) -> LedgerAddress:
        """The same, wherever one stands."""
        return self

    def __str__(self) -> str:
        parts = urlsplit(self.url)
        host = parts.netloc.rpartition("@")[2]
        user = parts.username
        # A password may stand among the settings, too: of these only the host is shown, which may be a socket.
        where = [each for each in parts.query.split("&") if each.partition("=")[0] in ("host", "port")]
        query = f"?{'&'.join(where)}" if where else ""
        return f"postgresql://{f'{user}@' if user else ''}{host}{parts.path}{query}"

    def __repr__(self) -> str:
        return f"LedgerAddress({str(self)!r})"


def place_of(given: str | os.PathLike[str]) -> Path | LedgerAddress:
    """What was given for a ledger: a path, or the address of a database."""
    text = os.fspath(given)
    return LedgerAddress(text) if isinstance(text, str) and text.startswith(SCHEMES) else Path(text)
