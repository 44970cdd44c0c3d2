"""The manifest of shuffled messages: which plan they belong to, whose they are together, and what they must add up to.

``_manifest.json`` stands beside the files of messages. It is a function of the multiset of messages, the plan and
counts of what was set aside, as the files are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from shuffledp.array import Bytes
from shuffledp.collection import message, shuffling
from shuffledp.collection.lot import Lot
from shuffledp.collection.shuffling import Written
from shuffledp.mechanisms.parts.crowd import CrowdRule

if TYPE_CHECKING:
    from shuffledp.collection.guarantee import Guarantee
    from shuffledp.planner.plan_file import Plan

NAME = "_manifest.json"
"""Whoever reads the directory as a table passes over names that begin so."""
FORMAT, VERSION, WITHOUT_BUNDLES = "shuffledp shuffled messages", 4, 3
"""The older version, without ``bundles``, is that of messages that were not shuffled from files."""
LONGEST = 1 << 16
DIGEST = b"shuffledp released messages\0"


@dataclass(frozen=True)
class Manifest:
    """What the shuffler says of the messages that it hands on."""

    plan: str
    """The identity of the plan's round that they belong to."""
    width: int
    messages: int
    sha256: str
    """Of all messages, one after the other, in order of their bytes."""
    users: int
    """Of whom the encoders say that they sent them."""
    per_person: int
    """The most rows of one person, each of which counts as a user."""
    refused: int
    """Rows that were no messages of the plan, and were set aside."""
    missing: int
    """How many messages there were too few or too many for the users, added up over the encoders."""
    noise: str
    """Who drew what hides the messages: the users, or the shuffler, whose messages are among these."""
    closed: str = ""
    """The ``digest`` of the same messages as the shuffler handed them on, where they were closed; empty otherwise."""
    bundles: str = ""
    """A hash of the ids of all files that were shuffled, as ``bundle.hash_of`` gives it; empty where there are none."""

    @property
    def digest(self) -> str:
        """A name for these messages of this plan: whoever shuffles the same files again gets the same one.

        Messages keep it when they are opened, so that a ledger counts them once.
        """
        if self.closed:
            return self.closed
        # Files of other people may well hold the same few different messages: they are another release.
        files = f":{self.bundles}" if self.bundles else ""
        return hashlib.sha256(DIGEST + f"{self.plan}:{self.sha256}{files}".encode()).hexdigest()

    def missing_of(self, crowd: CrowdRule) -> int:
        """How many messages there are too few or too many; a shuffler without the plan cannot tell.

        Nobody can where users send different numbers of them.
        """
        expected = crowd.messages_of(self.users)
        return self.missing if expected is None else max(self.missing, abs(expected - self.messages - self.refused))

    def users_read(self, messages: int, crowd: CrowdRule) -> int:
        """How many users the estimate is of, where this many messages were read: at least one.

        Of users whose messages were not all as planned, those that were still count.
        """
        if crowd.varies:
            return max(1, self.users - self.refused - (self.messages - messages))
        return max(1, round(messages / crowd.per_user))

    def hiding(self, refused_since: int, crowd: CrowdRule) -> int:
        """The users who can be relied on to hide each other, after so many more rows turned out to be no messages.

        Whoever sent a row that is none, or too few or too many, may not have followed the plan: each such row takes
        one user off. There are never more than the messages suffice for.
        """
        users = self.users - self.missing_of(crowd) - self.refused - refused_since
        if crowd.least:
            users = min(users, (self.messages - refused_since) // crowd.least)
        if users < 1:
            raise ValueError("messages: expected at least one user who sent what is planned, got none.")
        return users

    def guarantee(self, plan: Plan, round_number: int | None, refused_since: int = 0) -> Guarantee:
        """The promise to those who can be relied on to hide each other, of all who came."""
        # Shufflers that listen read manifests, and need no bounds for that.
        from shuffledp.collection.guarantee import Guarantee

        users = self.hiding(refused_since, plan.mechanism.crowd)
        return Guarantee(plan, users, self.per_person, set_aside=max(0, self.users - users), round_number=round_number)

    # --- the file ---------------------------------------------------------------------------------------------

    def write(self, directory: Path) -> None:
        """Into the directory of the messages."""
        told = {name: value for name, value in asdict(self).items() if name != "bundles" or value}
        document = {"format": FORMAT, "version": VERSION if self.bundles else WITHOUT_BUNDLES} | told
        (directory / NAME).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, directory: Path) -> Self:
        """From the directory of the messages; a sentence if there is none."""
        told = fields_in(directory, cls, FORMAT, {WITHOUT_BUNDLES: ("bundles",), VERSION: ()})
        if min(told["width"], told["per_person"]) < 1:
            raise ValueError(f"messages: {directory / NAME} is damaged: expected counts of at least 0.")
        return cls(**told)

    # --- the messages -----------------------------------------------------------------------------------------

    def checked(self, directory: Path) -> Iterator[Bytes]:
        """The messages, a bounded number at a time; a sentence as soon as they are not those of the manifest.

        That they are all of them, and unchanged, is certain only at the end.
        """
        return checked(directory, self.width, Written(self.messages, self.sha256))


def checked(directory: Path, width: int, written: Written) -> Iterator[Bytes]:
    """The messages of a directory, if they are those that its manifest says were written."""
    # No file is written for no message.
    files = message.files_of(directory) if written.messages else sorted(directory.glob("*.parquet"))
    found, hashed = 0, hashlib.sha256()
    for wire in shuffling.certainly_in_order(message.read(files, width)):
        found += len(wire)
        if found > written.messages:
            break
        hashed.update(np.ascontiguousarray(wire).data)
        yield wire
    if Written(found, hashed.hexdigest()) != written:
        raise ValueError(f"messages: {directory} is damaged: its messages are not those of its {NAME}.")


def write(sorted_messages: Iterable[Bytes], lot: Lot, directory: Path) -> Manifest:
    """Messages that are in order, and what is known of them, into a directory; nothing was set aside."""
    written = shuffling.write(sorted_messages, lot.width, directory)
    made = Manifest(lot.plan, lot.width, written.messages, written.sha256, lot.users, lot.per_person, 0, 0, lot.noise)
    made.write(directory)
    return made


def of_files(lot: Lot, directory: Path) -> Manifest:
    """The manifest of files that are there in order, written beside them; nothing was set aside."""
    found, hashed = 0, hashlib.sha256()
    for wire in shuffling.certainly_in_order(message.read(sorted(directory.glob("*.parquet")), lot.width)):
        hashed.update(np.ascontiguousarray(wire).data)
        found += len(wire)
    made = Manifest(lot.plan, lot.width, found, hashed.hexdigest(), lot.users, lot.per_person, 0, 0, lot.noise)
    made.write(directory)
    return made


def fields_in(directory: Path, kind: type, form: str, versions: Mapping[int, Collection[str]]) -> dict[str, Any]:
    """The fields of a manifest of this kind, from the directory of its messages: texts, and numbers that count.

    ``versions``: those that are read, each with the fields that it lacks.
    """
    path = directory / NAME
    try:
        with open(path, "rb") as file:
            document = json.loads(file.read(LONGEST))
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(
            f"messages: {directory} has no {NAME}: it is not a directory from `shuffledp shuffle`."
        ) from None
    except OSError as error:
        raise ValueError(f"messages: cannot read {path}: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise ValueError(f"messages: {path} is damaged: expected JSON.") from None
    known = isinstance(document, dict) and document.pop("format", None) == form
    version = document.pop("version", None) if known else None
    if type(version) is not int or version not in versions:
        newest = max(versions)
        raise ValueError(f'messages: expected {path} with "format": "{form}", version {newest}, got something else.')
    present = [field for field in fields(kind) if field.name not in versions[version]]
    kinds = {field.name: str if field.type == "str" else int for field in present}
    if document.keys() != kinds.keys() or any(type(document[name]) is not wanted for name, wanted in kinds.items()):
        raise ValueError(f"messages: {path} is damaged: expected {', '.join(kinds)}.")
    if any(document[name] < 0 for name, wanted in kinds.items() if wanted is int):
        raise ValueError(f"messages: {path} is damaged: expected counts of at least 0.")
    return dict(document)
