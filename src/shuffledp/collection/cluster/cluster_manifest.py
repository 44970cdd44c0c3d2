"""The manifest of messages that a cluster wrote: as any other, but that its checksum is one of the files' checksums.

So nobody has to read all messages one after the other. The digest that a ledger knows them by follows from it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from shuffledp.collection.lot import Lot
from shuffledp.collection.manifest import NAME, Manifest, fields_in

FORMAT, VERSION = "shuffledp shuffled messages of a cluster", 1
LACKS = ("bundles",)
"""They are those of one collection, and not of files."""


@dataclass(frozen=True)
class ClusterManifest(Manifest):
    """What is said of messages that lie where Spark wrote them."""

    where: str = ""
    """The address of their directory."""

    def write(self, directory: Path) -> None:
        told = {name: value for name, value in asdict(self).items() if name not in LACKS}
        document = {"format": FORMAT, "version": VERSION} | told
        (directory / NAME).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, directory: Path) -> Self:
        return cls(**fields_in(directory, cls, FORMAT, {VERSION: LACKS}))

    @classmethod
    def of(cls, lot: Lot, files: Sequence[tuple[str, int, str]], where: str) -> Self:
        """Of files with their numbers of messages and SHA-256, in order."""
        hashed = hashlib.sha256("".join(f"{messages} {told}\n" for _, messages, told in files).encode()).hexdigest()
        total = sum(messages for _, messages, _ in files)
        return cls(
            lot.plan, lot.width, total, hashed, lot.users, lot.per_person, 0, 0, lot.noise, where=where
        )  # fmt: skip


def is_of_a_cluster(directory: Path) -> bool:
    """Whether the messages themselves lie elsewhere."""
    try:
        return bool(json.loads((directory / NAME).read_text("utf-8")).get("format") == FORMAT)
    except (OSError, ValueError, AttributeError):
        return False
