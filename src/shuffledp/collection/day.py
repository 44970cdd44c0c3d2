"""The public side of a release day by day: a directory for each day, whose manifest names that of the day before.

A day has the messages of the nodes that are over on it, the shuffler's noise among them. Its manifest does not tell how
many people, or messages of theirs, there were: that is what the noise hides.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import numpy as np

from shuffledp.array import Array, Bytes, Integers
from shuffledp.collection import manifest
from shuffledp.collection.shuffling import Written
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.parts.reading import TreeReading
from shuffledp.mechanisms.parts.value_tree import ValueTree
from shuffledp.planner.plan_file import Plan
from shuffledp.tasks.over_time import OverTime

FORMAT, VERSION = "shuffledp messages of one day", 1
DIGEST = b"shuffledp release day by day\0"
DIRECTORY = re.compile(r"day-(\d{5,})")


@dataclass(frozen=True)
class DayManifest:
    """What the shuffler says of one day's messages: a function of them, of the plan, and of the day before."""

    plan: str
    """The identity of the plan's round that they belong to."""
    release: str
    """Random, and the same on all days: no other release of the plan has it."""
    day: int
    width: int
    messages: int
    sha256: str
    """Of all messages, one after the other, in order of their bytes."""
    before: str
    """The ``fingerprint`` of the day before; empty on the first day."""

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self._text().encode()).hexdigest()

    @property
    def digest(self) -> str:
        """A name for all days of this release together: they are promised, and paid for, once."""
        return hashlib.sha256(DIGEST + f"{self.plan}:{self.release}".encode()).hexdigest()

    def _text(self) -> str:
        return json.dumps({"format": FORMAT, "version": VERSION} | asdict(self), indent=1) + "\n"

    def write(self, directory: Path) -> None:
        """Into the directory of the day's messages."""
        (directory / manifest.NAME).write_text(self._text(), encoding="utf-8")

    @classmethod
    def read(cls, directory: Path) -> Self:
        """From the directory of the day's messages; a sentence if there is none."""
        found = cls(**manifest.fields_in(directory, cls, FORMAT, {VERSION: ()}))
        if found.width < 1:
            raise ValueError(f"messages: {directory / manifest.NAME} is damaged: expected a width of at least 1.")
        return found

    def checked(self, directory: Path) -> Iterator[Bytes]:
        """The day's messages, a bounded number at a time; a sentence as soon as they are not those of the manifest."""
        return manifest.checked(directory, self.width, Written(self.messages, self.sha256))


@dataclass(frozen=True)
class Calendar:
    """Which messages of a mechanism are about which days, and can be released when."""

    mechanism: Mechanism
    reading: TreeReading

    @classmethod
    def of(cls, who: str, plan: Plan) -> Self:
        """The calendar of a plan that can be released day by day; a sentence for another."""
        mechanism = plan.mechanism
        reading = mechanism.reading
        if not isinstance(plan.task, OverTime) or not isinstance(reading, TreeReading):
            raise ValueError(
                f"{who}: only the task 'counts over time' is released day by day, got {plan.task.name!r}; "
                f"plan with --task counts-over-time --rests-on shuffler-noise."
            )
        if not mechanism.crowd.by_shuffler:
            raise ValueError(
                f"{who}: the noise of {mechanism.name} is the users', of whom those of later days are missing in the "
                f"first ones; plan with --rests-on shuffler-noise to release day by day."
            )
        return cls(mechanism, reading)

    @property
    def tree(self) -> ValueTree:
        return self.reading.tree

    def over_on(self, messages: Array) -> Integers:
        """The last day of what each message is about."""
        return np.asarray(self.tree.lasts[self.reading.nodes_named(messages)])

    def of_day(self, messages: Array, day: int) -> Array:
        """Of each message, whether somebody whose event was on this day can have sent it."""
        return np.isin(self.reading.nodes_named(messages), self.tree.places(np.array([day])))


def place(directory: Path, day: int) -> Path:
    """Where a day is kept."""
    return directory / f"day-{day:05d}"


def numbers_in(directory: Path) -> list[int]:
    """The days that are in a directory, in order."""
    found = [DIRECTORY.fullmatch(path.name) for path in directory.iterdir()] if directory.is_dir() else []
    return sorted(int(each[1]) for each in found if each is not None)


def released(directory: Path) -> list[DayManifest]:
    """All days from the first to the last that is there; a sentence if one is missing, or is not what follows."""
    days: list[DayManifest] = []
    for expected, number in enumerate(numbers_in(directory)):
        if number != expected:
            raise ValueError(f"messages: {directory} lacks day {expected}: all days up to the last one are needed.")
        found = DayManifest.read(place(directory, number))
        before = days[-1].fingerprint if days else ""
        same = not days or (found.plan, found.release, found.width) == (days[0].plan, days[0].release, days[0].width)
        if not same or (found.day, found.before) != (number, before):
            raise ValueError(f"messages: {place(directory, number)} does not follow the day before: one was changed.")
        days.append(found)
    return days
