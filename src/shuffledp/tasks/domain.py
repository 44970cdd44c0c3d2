"""Public domains of users' values, fixed before anybody answers, and the command-line options that describe a task."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from shuffledp._core import validation
from shuffledp._core.errors import InvalidArgument
from shuffledp._core.message_phrases import Argument, phrase
from shuffledp.tasks import value_parsing

PLAN_PREFIX = "plan"
TASK_PREFIX = "task"
"""Prefixes of error messages about a plan, and about a task or domain."""
MAX_TEXT_BYTES, MAX_NUMBER_BITS = 64, 64
"""Largest lengths of a text and of a number that a search can find."""


class Values(ABC):
    """Base class of the public domains of users' values."""

    kind: ClassVar[str]
    """The kind of values in words; each task needs a certain kind."""

    def to_document(self) -> dict[str, Any]:
        """Returns the "domain" of a plan file; by default the fields by their names."""
        return dict(vars(self))

    @property
    def size(self) -> int | None:
        """The number of different options; None if values are numbers."""
        return None

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the options in users' data; None if they are numbered, or values are numbers."""
        return None

    def label(self, option: int) -> str:
        """Returns the name in the report of an option, or of a coordinate of a vector.

        Args:
            option: Number of the option or coordinate, from 0.

        Returns:
            The label.
        """
        return str(option)

    def find_option_number(self, who: str, given: Any) -> int:
        """Returns the number of an option.

        Args:
            who: Prefix of error messages.
            given: Label of the option if options have names, otherwise its number.

        Returns:
            The number of the option, from 0.

        Raises:
            ValueError: If there is no such option.
        """
        assert self.size is not None, "the options can be counted"
        if self.names is not None:
            names = [value_parsing.canonicalize(name) for name in self.names]
            label = value_parsing.canonicalize(str(given))
            if label in names:
                return names.index(label)
            raise ValueError(f"{who}: expected a value of the domain, such as {self.names[0]!r}, got {str(given)!r}.")
        text = str(given).strip()
        if not text.isdecimal() or int(text) >= self.size:
            raise ValueError(f"{who}: expected a whole number from 0 to {self.size - 1}, got {str(given)!r}.")
        return int(text)


@dataclass(frozen=True)
class Categories(Values):
    """A public list of options; values are texts, and each must be in the list.

    Spellings that look alike (Unicode's NFC and NFD, zero-width characters) are the same option.

    Args:
        labels: The options in the order of the estimate: at least two, all different, without invisible characters.

    Raises:
        TypeError: If ``labels`` is not a list of texts.
        ValueError: If there are fewer than two, or two look alike, or one holds control or invisible characters.

    >>> import shuffledp as sdp
    >>> answers = sdp.tasks.Categories(("yes", "no", "rather not say"))
    >>> answers.size, answers.label(2)
    (3, 'rather not say')
    """

    labels: tuple[str, ...]
    kind = "options"

    def __post_init__(self) -> None:
        if isinstance(self.labels, str) or not isinstance(self.labels, Sequence):
            raise TypeError(f"{TASK_PREFIX}: categories must be a list of texts, got {self.labels!r}.")
        for label in self.labels:
            if not isinstance(label, str):
                raise TypeError(f"{TASK_PREFIX}: categories must be texts, got {label!r}.")
        object.__setattr__(self, "labels", value_parsing.check_names(TASK_PREFIX, tuple(self.labels)))
        validation.count(TASK_PREFIX, "the number of categories", len(self.labels), at_least=2)

    def to_document(self) -> dict[str, Any]:
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
    """Options without names: integers from 0 to count − 1.

    Args:
        count: Number of options, at least two.

    Raises:
        TypeError: If ``count`` is not a number.
        ValueError: If it is not an integer of at least 2.

    >>> import shuffledp as sdp
    >>> sdp.tasks.Options(128).size
    128
    """

    count: int
    kind = "options"

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", validation.count(TASK_PREFIX, "count", self.count, at_least=2))

    @property
    def size(self) -> int | None:
        return self.count


@dataclass(frozen=True)
class Interval(Values):
    """Numbers from ``low`` to ``high``, both included, in the users' own unit.

    Args:
        low: Smallest number: public and finite.
        high: Largest number: public, finite and above ``low``.

    Raises:
        TypeError: If an end is not a number.
        ValueError: If ``low`` is not below ``high``, or one of them is not finite.

    >>> import shuffledp as sdp
    >>> ages = sdp.tasks.Interval(low=0.0, high=120.0)
    >>> ages.width, ages.to_document()
    (120.0, {'low': 0.0, 'high': 120.0})
    """

    low: float
    high: float
    kind = "numbers"

    def __post_init__(self) -> None:
        _check_ends(self, "low", "high")

    @property
    def width(self) -> float:
        """The length of the interval."""
        return self.high - self.low


@dataclass(frozen=True)
class Intervals(Values):
    """Vectors with an interval for each coordinate, in its own unit.

    Args:
        low: Smallest number of each coordinate.
        high: Largest number of each coordinate.
        called: Names of the coordinates; None for their numbers.

    Raises:
        TypeError: If ``low`` or ``high`` is not a list of numbers.
        ValueError: If their lengths or that of ``called`` differ, or an interval is empty or not finite.

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
                raise TypeError(
                    f"{TASK_PREFIX}: {name} must be a list of numbers, one for each coordinate, got {given!r}."
                )
        if len(self.low) != len(self.high):
            lengths = f"{len(self.low)} and {len(self.high)}"
            raise ValueError(f"{TASK_PREFIX}: low and high must have equal lengths, got {lengths}.")
        ends = [Interval(low, high) for low, high in zip(self.low, self.high, strict=True)]
        object.__setattr__(self, "low", tuple(each.low for each in ends))
        object.__setattr__(self, "high", tuple(each.high for each in ends))
        if self.called is not None:
            object.__setattr__(self, "called", tuple(self.called))
            if len(self.called) != len(self.low) or not all(isinstance(name, str) for name in self.called):
                raise ValueError(f"{TASK_PREFIX}: called must have a name for each of {len(self.low)} coordinates.")

    def to_document(self) -> dict[str, Any]:
        names = {} if self.called is None else {"names": list(self.called)}
        return {"low": list(self.low), "high": list(self.high), **names}

    @property
    def intervals(self) -> tuple[Interval, ...]:
        """The interval of each coordinate."""
        return tuple(Interval(low, high) for low, high in zip(self.low, self.high, strict=True))

    def label(self, option: int) -> str:
        return super().label(option) if self.called is None else self.called[option]


@dataclass(frozen=True)
class KeyedInterval(Values):
    """Pairs of a key from a public list and a number of an interval.

    Args:
        keys: The keys by name.
        interval: Interval of the numbers, the same for all keys.

    >>> import shuffledp as sdp
    >>> stars = sdp.tasks.KeyedInterval(sdp.tasks.Categories(("film", "book")), sdp.tasks.Interval(1.0, 5.0))
    >>> stars.size, stars.label(1)
    (2, 'book')
    >>> stars.to_document()
    {'keys': ['film', 'book'], 'low': 1.0, 'high': 5.0}
    """

    keys: Categories
    interval: Interval
    kind = "keys with numbers"

    def to_document(self) -> dict[str, Any]:
        return {"keys": list(self.keys.labels), **self.interval.to_document()}

    @property
    def size(self) -> int | None:
        return self.keys.size

    def label(self, option: int) -> str:
        return self.keys.label(option)


@dataclass(frozen=True)
class Area(Values):
    """Places in a rectangle of the plane or of the map; latitude first if the mechanism works in degrees.

    Args:
        west: Smallest x or longitude.
        east: Largest x or longitude.
        south: Smallest y or latitude.
        north: Largest y or latitude.

    Raises:
        TypeError: If an edge is not a number.
        ValueError: If ``west`` is not below ``east``, ``south`` not below ``north``, or an edge is not finite.

    >>> import shuffledp as sdp
    >>> city = sdp.tasks.Area(west=8.4, east=8.7, south=47.3, north=47.5)
    >>> city.kind, city.to_document()
    ('places', {'west': 8.4, 'east': 8.7, 'south': 47.3, 'north': 47.5})
    """

    west: float
    east: float
    south: float
    north: float
    kind = "places"

    def __post_init__(self) -> None:
        _check_ends(self, "west", "east")
        _check_ends(self, "south", "north")


@dataclass(frozen=True)
class Strings(Values):
    """Texts of any script, without a public list.

    Args:
        length: Largest number of bytes in UTF-8, at most 64.

    Raises:
        TypeError: If ``length`` is not a number.
        ValueError: If it is not an integer from 1 to 64.

    >>> import shuffledp as sdp
    >>> sdp.tasks.Strings(64).to_document()
    {'strings': 64}
    """

    length: int
    kind = "strings"

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "length", validation.count(TASK_PREFIX, "strings", self.length, at_most=MAX_TEXT_BYTES)
        )

    def to_document(self) -> dict[str, Any]:
        return {"strings": self.length}


@dataclass(frozen=True)
class Numbers(Values):
    """Integers from 0, without a public list.

    Args:
        bits: Largest number of bits, at most 64.

    Raises:
        TypeError: If ``bits`` is not a number.
        ValueError: If it is not an integer from 1 to 64.

    >>> import shuffledp as sdp
    >>> sdp.tasks.Numbers(48).to_document()
    {'bits': 48}
    """

    bits: int
    kind = "whole numbers"

    def __post_init__(self) -> None:
        object.__setattr__(self, "bits", validation.count(TASK_PREFIX, "bits", self.bits, at_most=MAX_NUMBER_BITS))


Domain = TypeVar("Domain", bound=Values)


def _check_ends(domain: Values, lower: str, upper: str) -> None:
    """Rounds the fields of an interval's ends outwards; raises ValueError if it is empty or not finite."""
    low = validation.real(TASK_PREFIX, lower, getattr(domain, lower))
    high = validation.real(TASK_PREFIX, upper, getattr(domain, upper), up=True)
    if not 0.0 < high - low < math.inf:
        raise ValueError(f"{TASK_PREFIX}: {lower} must be below {upper} and both finite, got {low!r} and {high!r}.")
    object.__setattr__(domain, lower, low)
    object.__setattr__(domain, upper, high)


def require_domain(task: str, domain: Values, kind: type[Domain]) -> Domain:
    """Returns the domain; raises ValueError if it is not of the class that the task needs."""
    if not isinstance(domain, kind):
        raise ValueError(f"{PLAN_PREFIX}: the task {task!r} needs a domain of {kind.kind}, got {domain.kind}.")
    return domain


def build_option_domain(options: Values | Sequence[str] | float) -> Values:
    """Builds a domain of options from their names or their number; returns a domain as it is."""
    if isinstance(options, Values):
        return options
    if validation.is_number(options):
        return Options(options)  # type: ignore[arg-type]
    return Categories(options)  # type: ignore[arg-type]


def build_interval(low: float | Interval, high: float | None = None) -> Interval:
    """Builds an interval from its ends; returns an interval as it is."""
    if isinstance(low, Interval):
        if high is not None:
            raise TypeError(f"{TASK_PREFIX}: expected an interval or its two ends, got {low!r} and {high!r}.")
        return low
    return Interval(low, high)  # type: ignore[arg-type]


def parse_domain(document: Any) -> Values:
    """Reads the "domain" of a plan file."""
    forms: dict[frozenset[str], Any] = {
        frozenset({"categories"}): lambda d: Categories(_to_tuple(d["categories"])),
        frozenset({"count"}): lambda d: Options(**d),
        frozenset({"low", "high"}): _parse_intervals,
        frozenset({"low", "high", "names"}): lambda d: Intervals(
            _to_tuple(d["low"]), _to_tuple(d["high"]), _to_tuple(d["names"])
        ),
        frozenset({"keys", "low", "high"}): lambda d: KeyedInterval(
            Categories(_to_tuple(d["keys"])), Interval(d["low"], d["high"])
        ),
        frozenset({"west", "east", "south", "north"}): lambda d: Area(**d),
        frozenset({"strings"}): lambda d: Strings(d["strings"]),
        frozenset({"bits"}): lambda d: Numbers(**d),
    }
    names = frozenset(document) if isinstance(document, Mapping) else None
    if names not in forms:
        got = sorted(names) if names is not None else document
        raise ValueError(
            f"{PLAN_PREFIX}: domain must have categories, or count, or low and high, or keys with low and high, "
            f"or west, east, south and north, or strings, or bits, got {got!r}."
        )
    domain: Values = forms[names](document)
    return domain


def _parse_intervals(document: Mapping[str, Any]) -> Values:
    low, high = document["low"], document["high"]
    return Intervals(_to_tuple(low), _to_tuple(high)) if isinstance(low, list) else Interval(low, high)


def _to_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


# --- Command-line options that describe a task ---


@dataclass(frozen=True)
class TaskOptions:
    """The options as typed; None for those that were not typed."""

    domain: float | None = None
    categories: Path | tuple[str, ...] | None = None
    items: float | None = None
    low: tuple[float, ...] = ()
    """One for all coordinates, or one for each."""
    high: tuple[float, ...] = ()
    dimension: float | None = None
    west: float | None = None
    east: float | None = None
    south: float | None = None
    north: float | None = None
    columns: float | None = None
    degrees: bool | None = None
    strings: float | None = None
    bits: float | None = None
    reach: float | None = None
    questions: tuple[Any, ...] | None = None
    ways: float | None = None
    labels: tuple[str, ...] = ()
    """The categories, if they were read from data."""
    called: tuple[str, ...] = ()
    """The names of the input columns."""

    def find_superfluous(self, taken: tuple[str, ...]) -> list[str]:
        """Returns the typed options, 0 included, that the task does not take."""
        typed = [field.name for field in fields(self) if getattr(self, field.name) not in (None, ())]
        return [name for name in typed if name not in (*taken, "labels", "called")]

    def build_option_domain(self) -> Values:
        """Returns the domain of options."""
        if self.categories is not None:
            if self.domain is not None:
                raise InvalidArgument(PLAN_PREFIX, phrase("give either {domain} or {categories}, not both"))
            return Categories(self.categories if isinstance(self.categories, tuple) else read_lines(self.categories))
        if self.labels and self.domain is None:
            return Categories(self.labels)
        count = self.require_number("domain", " or {categories=…}")
        return Options(validation.count(PLAN_PREFIX, "domain", count, at_least=2))

    def build_interval(self) -> Interval:
        """Returns the interval from ``low`` to ``high``."""
        for name in ("low", "high"):
            if len(getattr(self, name)) > 1:
                raise InvalidArgument(
                    PLAN_PREFIX,
                    phrase("this task takes {option} once", option=Argument(name)),
                    got=f"it {len(getattr(self, name))} times",
                )
        return Interval(self.require_number("low"), self.require_number("high"))

    def require_count(self, name: str) -> int:
        """Returns a required integer."""
        return validation.count(PLAN_PREFIX, name, self.require_number(name))

    def optional_count(self, name: str) -> int | None:
        """Returns an optional integer."""
        return None if getattr(self, name) is None else self.require_count(name)

    def require_number(self, name: str, otherwise: str = "") -> float:
        """Returns a required number; ``otherwise`` are words for a phrase, about what can be given instead."""
        value = getattr(self, name)
        if isinstance(value, tuple):
            value = value[0] if value else None
        if value is None:
            words = phrase(f"this task needs {{option}}{otherwise}", option=Argument(name))
            raise InvalidArgument(PLAN_PREFIX, words)
        number: float = value
        return number


def read_lines(path: Path, who: str = PLAN_PREFIX) -> tuple[str, ...]:
    """Returns the nonempty lines of a text file."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ValueError(
            f"{who}: cannot read {path}: {error.strerror}; expected a text file with one value per line."
        ) from None
    except UnicodeDecodeError:
        raise ValueError(f"{who}: {path} is not text.") from None
    return tuple(line for line in text.splitlines() if line.strip())
