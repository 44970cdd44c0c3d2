"""A name for shuffled messages, which is the same for everybody who holds them, in however many files."""

from __future__ import annotations

import hashlib
from pathlib import Path

from shuffledp.collection import message


def digest_of(directory: Path, width: int) -> str:
    """The SHA-256 of the messages one after the other, in hexadecimal digits."""
    found = hashlib.sha256()
    for wire in message.read(message.files_of(directory), width):
        found.update(wire.tobytes())
    return found.hexdigest()
