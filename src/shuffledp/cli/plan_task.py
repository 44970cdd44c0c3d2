"""How the plan command names what is to be estimated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

from shuffledp import argument
from shuffledp.tasks import task as tasks
from shuffledp.tasks.domain import Area, Categories, Interval, KeyedInterval, Options, Values
from shuffledp.tasks.task import Task

MOST_NAMED_KEYS = 1_000_000
COLUMNS = 6


@dataclass(frozen=True)
class Given:
    """The options as typed; None where not given."""

    domain: float | None = None
    categories: Path | None = None
    items: float | None = None
    low: float | None = None
    high: float | None = None
    dimension: float | None = None
    west: float | None = None
    east: float | None = None
    south: float | None = None
    north: float | None = None
    columns: float | None = None
    degrees: bool | None = None

    def task(self, name: str) -> Task:
        """The task, or a sentence that says what is missing or too much."""
        plain = name.strip().lower().replace("_", "-").replace(" ", "-")
        if plain not in FORMS:
            raise ValueError(f"plan: task must be one of {', '.join(NAMES)}, got {name!r}.")
        build, taken = FORMS[plain]
        extra = [field.name for field in fields(self) if field.name not in taken and getattr(self, field.name)]
        if extra:
            raise ValueError(f"plan: --{extra[0]} does not go with --task {plain}.")
        return build(self)

    def options(self) -> Values:
        """The options, by name or by number."""
        if self.categories is not None:
            if self.domain is not None:
                raise ValueError("plan: give either --domain or --categories, not both.")
            return Categories(_lines(self.categories))
        return Options(argument.count("plan", "domain", self._need("domain", " or --categories FILE"), at_least=2))

    def interval(self) -> Interval:
        return Interval(self._need("low"), self._need("high"))

    def keys(self) -> Categories:
        """The keys by name; where only their number is given, they are called 0, 1, …"""
        options = self.options()
        if isinstance(options, Categories):
            return options
        count = options.size or 0
        if count > MOST_NAMED_KEYS:
            raise ValueError(f"plan: domain must be at most {MOST_NAMED_KEYS} keys, got {count}.")
        return Categories(tuple(map(str, range(count))))

    def count(self, name: str) -> int:
        """An option that is a whole number."""
        return argument.count("plan", name, self._need(name))

    def _need(self, name: str, otherwise: str = "") -> float:
        value = getattr(self, name)
        if value is None:
            raise ValueError(f"plan: this task needs --{name}{otherwise}.")
        number: float = value
        return number


def _lines(path: Path) -> tuple[str, ...]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ValueError(f"plan: cannot read {path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ValueError(f"plan: {path} is not text.") from None
    return tuple(line for line in text.splitlines() if line.strip())


def _vectors(given: Given) -> Task:
    if given.low is None and given.high is None:
        return tasks.UnitVectorMean(dimension=given.count("dimension"))
    return tasks.BoxedVectorMean(given.interval(), given.count("dimension"))


def _location(given: Given) -> Task:
    edges = [given._need(name) for name in ("west", "east", "south", "north")]
    columns = COLUMNS if given.columns is None else given.count("columns")
    return tasks.Location(Area(*edges), columns, coordinates="degrees" if given.degrees else "plane")


OPTIONS = ("domain", "categories")
NUMBERS = ("low", "high")
FORMS: dict[str, tuple[Callable[[Given], Task], tuple[str, ...]]] = {
    "frequency": (lambda g: tasks.Frequency(g.options()), OPTIONS),
    "mean": (lambda g: tasks.Mean(g.interval()), NUMBERS),
    "set-valued": (lambda g: tasks.ItemSets(g.options(), g.count("items")), (*OPTIONS, "items")),
    "key-value": (
        lambda g: tasks.KeyValue(KeyedInterval(g.keys(), g.interval()), g.count("items")),
        (*OPTIONS, *NUMBERS, "items"),
    ),
    "vector-mean": (_vectors, (*NUMBERS, "dimension")),
    "location": (_location, ("west", "east", "south", "north", "columns", "degrees")),
    "range-queries": (lambda g: tasks.Ranges(g.options()), OPTIONS),
}
"""For each task, how it is built and which options it takes."""
NAMES = tuple(FORMS)
