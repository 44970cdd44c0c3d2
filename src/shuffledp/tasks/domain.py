"""The public domain of users' values, as a plan states it: what may be collected is fixed before anybody answers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from shuffledp import argument

WHO = "plan"
TASK = "task"
"""Who speaks where a task or its domain is made, for a plan or without one."""


class Values(ABC):
    """What users may hold."""

    kind: ClassVar[str]
    """What they are, in words: a task needs one kind."""

    @abstractmethod
    def document(self) -> dict[str, Any]:
        """The plan file's "domain"."""

    @property
    def size(self) -> int | None:
        """How many different options there are; None where values are numbers."""
        return None

    @property
    def names(self) -> tuple[str, ...] | None:
        """What users' data call the options; None where they are numbered, or values are numbers."""
        return None

    def label(self, option: int) -> str:
        """What the report calls this option, or this coordinate of a vector."""
        return str(option)

    def place(self, who: str, given: Any) -> int:
        """The number of an option, from its label where options have one; a sentence of ``who`` if there is none."""
        assert self.size is not None, "the options can be counted"
        if self.names is not None:
            if str(given) not in self.names:
                raise ValueError(
                    f"{who}: expected a value of the domain, such as {self.names[0]!r}, got {str(given)!r}."
                )
            return self.names.index(str(given))
        text = str(given).strip()
        if not text.isdecimal() or int(text) >= self.size:
            raise ValueError(f"{who}: expected a whole number from 0 to {self.size - 1}, got {str(given)!r}.")
        return int(text)


@dataclass(frozen=True)
class Categories(Values):
    """A public list of options; values are texts, and each must be in the list.

    ``labels`` are the options in the order of the estimate: at least two, all different.

    >>> import shuffledp as sdp
    >>> answers = sdp.tasks.Categories(("yes", "no", "rather not say"))
    >>> answers.size, answers.label(2)
    (3, 'rather not say')
    """

    labels: tuple[str, ...]
    kind = "options"

    def __post_init__(self) -> None:
        if isinstance(self.labels, str) or not isinstance(self.labels, Sequence):
            raise TypeError(f"{TASK}: categories must be a list of texts, got {self.labels!r}.")
        wrong = [label for label in self.labels if not isinstance(label, str)]
        if wrong:
            raise TypeError(f"{TASK}: categories must be texts, got {wrong[0]!r}.")
        object.__setattr__(self, "labels", tuple(self.labels))
        if len(set(self.labels)) != len(self.labels):
            twice = next(label for place, label in enumerate(self.labels) if label in self.labels[:place])
            raise ValueError(f"{TASK}: categories must be different, got {twice!r} twice.")
        argument.count(TASK, "the number of categories", len(self.labels), at_least=2)

    def document(self) -> dict[str, Any]:
        return {"categories": list(self.labels)}

    @property
    def size(self) -> int | None:
        return len(self.labels)

    @property
    def names(self) -> tuple[str, ...] | None:
        return self.labels

    def label(self, option: int) -> str:
        return self.labels[option]


@dataclass(frozen=True)
class Options(Values):
    """Options without names: whole numbers from 0 to count−1.

    ``count`` is how many there are, at least two.

    >>> import shuffledp as sdp
    >>> sdp.tasks.Options(128).size
    128
    """

    count: int
    kind = "options"

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", argument.count(TASK, "count", self.count, at_least=2))

    def document(self) -> dict[str, Any]:
        return {"count": self.count}

    @property
    def size(self) -> int | None:
        return self.count


@dataclass(frozen=True)
class Interval(Values):
    """Numbers from low to high, both included, in the users' own unit.

    ``low`` and ``high`` are public and finite, the first below the second.

    >>> import shuffledp as sdp
    >>> ages = sdp.tasks.Interval(low=0.0, high=120.0)
    >>> ages.width, ages.document()
    (120.0, {'low': 0.0, 'high': 120.0})
    """

    low: float
    high: float
    kind = "numbers"

    def __post_init__(self) -> None:
        low, high = argument.real(TASK, "low", self.low), argument.real(TASK, "high", self.high, up=True)
        if not 0.0 < high - low < math.inf:
            raise ValueError(f"{TASK}: low must be below high and both finite, got {low!r} and {high!r}.")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    def document(self) -> dict[str, Any]:
        return {"low": self.low, "high": self.high}

    @property
    def width(self) -> float:
        """From the least number to the largest."""
        return self.high - self.low


@dataclass(frozen=True)
class KeyedInterval(Values):
    """Pairs of a key from a public list and a number from low to high.

    ``keys`` are the keys by name; ``interval`` holds every key's number.

    >>> import shuffledp as sdp
    >>> stars = sdp.tasks.KeyedInterval(sdp.tasks.Categories(("film", "book")), sdp.tasks.Interval(1.0, 5.0))
    >>> stars.size, stars.label(1)
    (2, 'book')
    >>> stars.document()
    {'keys': ['film', 'book'], 'low': 1.0, 'high': 5.0}
    """

    keys: Categories
    interval: Interval
    kind = "keys with numbers"

    def document(self) -> dict[str, Any]:
        return {"keys": list(self.keys.labels), **self.interval.document()}

    @property
    def size(self) -> int | None:
        return self.keys.size

    def label(self, option: int) -> str:
        return self.keys.label(option)


@dataclass(frozen=True)
class Area(Values):
    """Places in a rectangle of the plane or of the map; latitude first where the mechanism counts in degrees.

    ``west`` and ``east`` are its ends along x or longitude, ``south`` and ``north`` along y or latitude.

    >>> import shuffledp as sdp
    >>> city = sdp.tasks.Area(west=8.4, east=8.7, south=47.3, north=47.5)
    >>> city.kind, city.document()
    ('places', {'west': 8.4, 'east': 8.7, 'south': 47.3, 'north': 47.5})
    """

    west: float
    east: float
    south: float
    north: float
    kind = "places"

    def __post_init__(self) -> None:
        for low, high in (("west", "east"), ("south", "north")):
            ends = [argument.real(TASK, name, getattr(self, name), up=name == high) for name in (low, high)]
            if not 0.0 < ends[1] - ends[0] < math.inf:
                raise ValueError(
                    f"{TASK}: {low} must be below {high} and both finite, got {ends[0]!r} and {ends[1]!r}."
                )
            object.__setattr__(self, low, ends[0])
            object.__setattr__(self, high, ends[1])

    def document(self) -> dict[str, Any]:
        return {"west": self.west, "east": self.east, "south": self.south, "north": self.north}


def options_of(given: Values | Sequence[str] | float) -> Values:
    """Options from their names, or from how many there are."""
    if isinstance(given, Values):
        return given
    if argument.is_number(given):
        return Options(given)  # type: ignore[arg-type]
    return Categories(given)  # type: ignore[arg-type]


def interval_of(low: float | Interval, high: float | None = None) -> Interval:
    """An interval from its ends, or as it is."""
    if isinstance(low, Interval):
        if high is not None:
            raise TypeError(f"{TASK}: expected an interval or its two ends, got {low!r} and {high!r}.")
        return low
    return Interval(low, high)  # type: ignore[arg-type]


def parse(document: Any) -> Values:
    """The values of a plan file's "domain"."""
    forms: dict[frozenset[str], Any] = {
        frozenset({"categories"}): lambda d: Categories(_texts(d["categories"])),
        frozenset({"count"}): lambda d: Options(d["count"]),
        frozenset({"low", "high"}): lambda d: Interval(d["low"], d["high"]),
        frozenset({"keys", "low", "high"}): lambda d: KeyedInterval(
            Categories(_texts(d["keys"])), Interval(d["low"], d["high"])
        ),
        frozenset({"west", "east", "south", "north"}): lambda d: Area(**d),
    }
    fields = frozenset(document) if isinstance(document, Mapping) else None
    if fields not in forms:
        got = sorted(fields) if fields is not None else document
        raise ValueError(
            f"{WHO}: domain must have categories, or count, or low and high, or keys with low and high, "
            f"or west, east, south and north, got {got!r}."
        )
    values: Values = forms[fields](document)
    return values


def _texts(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
