"""The public domain of users' values, as a plan states it: what may be collected is fixed before anybody answers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from shuffledp import argument
from shuffledp.tasks import label as label_form

WHO = "plan"
TASK = "task"
"""Who speaks where a task or its domain is made, for a plan or without one."""
MOST_BYTES, MOST_NUMBER_BITS = 64, 64
"""Of a text, and of a number, that a search may find."""


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
            wanted = label_form.canonical(str(given))
            for place, name in enumerate(self.names):
                if label_form.canonical(name) == wanted:
                    return place
            raise ValueError(f"{who}: expected a value of the domain, such as {self.names[0]!r}, got {str(given)!r}.")
        text = str(given).strip()
        if not text.isdecimal() or int(text) >= self.size:
            raise ValueError(f"{who}: expected a whole number from 0 to {self.size - 1}, got {str(given)!r}.")
        return int(text)


@dataclass(frozen=True)
class Categories(Values):
    """A public list of options; values are texts, and each must be in the list.

    ``labels`` are the options in the order of the estimate: at least two, all different, and in letters that can be
    seen. Spellings that look alike (Unicode's NFC and NFD, zero-width characters) are one option.

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
        object.__setattr__(self, "labels", label_form.checked(TASK, tuple(self.labels)))
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
class Intervals(Values):
    """Vectors whose coordinates have an interval each, in their own units.

    ``low`` and ``high`` are the least and the largest number of each coordinate; ``called`` what they are called, by
    their numbers where nothing is given.

    >>> import shuffledp as sdp
    >>> penguin = sdp.tasks.Intervals(low=(30.0, 170.0), high=(60.0, 240.0), called=("bill", "flipper"))
    >>> penguin.intervals[1], penguin.label(0)
    (Interval(low=170.0, high=240.0), 'bill')
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    called: tuple[str, ...] | None = None
    kind = "vectors"

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            given = getattr(self, name)
            if isinstance(given, str) or not isinstance(given, Sequence):
                raise TypeError(f"{TASK}: {name} must be a list of numbers, one for each coordinate, got {given!r}.")
        if len(self.low) != len(self.high):
            raise ValueError(f"{TASK}: expected as many low as high, got {len(self.low)} and {len(self.high)}.")
        ends = [Interval(low, high) for low, high in zip(self.low, self.high, strict=True)]
        object.__setattr__(self, "low", tuple(each.low for each in ends))
        object.__setattr__(self, "high", tuple(each.high for each in ends))
        if self.called is not None:
            object.__setattr__(self, "called", tuple(self.called))
            if len(self.called) != len(self.low) or not all(isinstance(name, str) for name in self.called):
                raise ValueError(f"{TASK}: expected a name for each of {len(self.low)} coordinates, got others.")

    def document(self) -> dict[str, Any]:
        names = {} if self.called is None else {"names": list(self.called)}
        return {"low": list(self.low), "high": list(self.high), **names}

    @property
    def intervals(self) -> tuple[Interval, ...]:
        """That of each coordinate."""
        return tuple(Interval(low, high) for low, high in zip(self.low, self.high, strict=True))

    def label(self, option: int) -> str:
        return super().label(option) if self.called is None else self.called[option]


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


@dataclass(frozen=True)
class Strings(Values):
    """Texts that nobody listed, of any script.

    ``length`` is the most bytes of one in UTF-8.

    >>> import shuffledp as sdp
    >>> sdp.tasks.Strings(64).document()
    {'strings': 64}
    """

    length: int
    kind = "strings"

    def __post_init__(self) -> None:
        length = argument.count(TASK, "strings", self.length, at_most=MOST_BYTES)
        object.__setattr__(self, "length", length)

    def document(self) -> dict[str, Any]:
        return {"strings": self.length}


@dataclass(frozen=True)
class Numbers(Values):
    """Whole numbers that nobody listed, from 0.

    ``bits`` is the most bits of one.

    >>> import shuffledp as sdp
    >>> sdp.tasks.Numbers(48).document()
    {'bits': 48}
    """

    bits: int
    kind = "whole numbers"

    def __post_init__(self) -> None:
        object.__setattr__(self, "bits", argument.count(TASK, "bits", self.bits, at_most=MOST_NUMBER_BITS))

    def document(self) -> dict[str, Any]:
        return {"bits": self.bits}


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
        frozenset({"low", "high"}): _interval_or_several,
        frozenset({"low", "high", "names"}): lambda d: Intervals(
            _texts(d["low"]), _texts(d["high"]), _texts(d["names"])
        ),
        frozenset({"keys", "low", "high"}): lambda d: KeyedInterval(
            Categories(_texts(d["keys"])), Interval(d["low"], d["high"])
        ),
        frozenset({"west", "east", "south", "north"}): lambda d: Area(**d),
        frozenset({"strings"}): lambda d: Strings(d["strings"]),
        frozenset({"bits"}): lambda d: Numbers(d["bits"]),
    }
    fields = frozenset(document) if isinstance(document, Mapping) else None
    if fields not in forms:
        got = sorted(fields) if fields is not None else document
        raise ValueError(
            f"{WHO}: domain must have categories, or count, or low and high, or keys with low and high, "
            f"or west, east, south and north, or strings, or bits, got {got!r}."
        )
    values: Values = forms[fields](document)
    return values


def _interval_or_several(document: Mapping[str, Any]) -> Values:
    low, high = document["low"], document["high"]
    return Intervals(_texts(low), _texts(high)) if isinstance(low, list) else Interval(low, high)


def _texts(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
