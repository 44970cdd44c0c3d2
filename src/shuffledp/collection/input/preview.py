"""What a table tells before anything is planned: how many users, what kind of question, and its domain.

A domain that is read from people's own data is itself a release, which no guarantee covers: whoever plans is told, and
so is whoever reads the report.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from shuffledp.collection.input.gathered_table import GatheredTable
from shuffledp.collection.input.given_data import named, table_of
from shuffledp.collection.input.present_table import PresentTable
from shuffledp.collection.input.sight import MOST_LABELS, Seen, Sight
from shuffledp.collection.input.table import Table
from shuffledp.tasks import label
from shuffledp.tasks.given import Given
from shuffledp.tasks.location import EDGES, axis_of
from shuffledp.tasks.rules import CATEGORY, NO_VALUE, REFUSE, STRICT, Rules

WHO = "plan"
READ_ROWS = 1 << 17
FEW_VALUES, FEW_PEOPLE = 20, 10
"""A list of at most so many values is short enough to be read; a value that fewer people hold is rare."""
FEW_NAMES = 10
"""A list of more values, most of which one person holds, is one of names, addresses or numbers of people."""
SAFE = {
    "categories": "--categories FILE",
    "items": "--items",
    "low": "--low and --high",
    "west": "--west, --east, --south and --north",
}
"""What to give in place of what was read."""
USUAL_GAPS = ("na", "n/a", "n.a.", "nan", "none", "null", "nil", "missing", "unknown", "?", "-", ".")
"""What people write where they know nothing, in any letters."""
DEGREES = ("lat", "latitude", "lon", "lng", "longitude")


@dataclass(frozen=True)
class Preview:
    """How many users a table has, which task it suggests, and what is known of the task's domain.

    ``read`` names what was read from the data themselves, and not given.

    >>> import pyarrow
    >>> import shuffledp as sdp
    >>> sdp.collection.preview(pyarrow.array([20, 64, 31]), task="mean").read
    ('low', 'high')
    """

    title: str
    users: int
    task: str
    given: Given
    read: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    """A sentence for each thing about cells without a value that somebody should look at."""

    def words(self) -> str:
        """What was read, in a sentence; and that it is a release."""
        return " ".join((self._read_words(), *self.warnings))

    def _read_words(self) -> str:
        if not self.read:
            return f"{self.title} has {self.users:,} users."
        safe = ", ".join(option for name, option in SAFE.items() if name in self.read)
        return (
            f"{self.title} has {self.users:,} users. Its {' and '.join(self.read)} were read from the data: that is a "
            f"release of its own, which no ε covers; give what is public by {safe} to be safe."
        )


def preview(
    data: object,
    columns: str | Sequence[str] | None = None,
    *,
    task: str | None = None,
    given: Given | None = None,
    user: str | None = None,
    rows_per_user: int = 1,
    rules: Rules = STRICT,
    delimiter: str | None = None,
    gather: bool = False,
    domain_from_data: bool = False,
) -> Preview:
    """What a table tells for a plan: ``given`` is what is known of the domain already, the rest is read.

    ``data``, ``columns``, ``user``, ``rows_per_user``, ``rules``, ``delimiter`` and ``gather`` as for ``collect``;
    ``task`` is what is to be estimated, by its name on the command line, suggested by the data if it is left out.

    Many different values, most of which few people hold, are refused as categories: they are what people typed, or who
    they are, and a plan is public. ``domain_from_data`` takes them all the same.

    >>> import pyarrow
    >>> import shuffledp as sdp
    >>> found = sdp.collection.preview(pyarrow.array(["red", "green", "red", "green", "blue"]))
    >>> found.users, found.task, found.given.labels
    (5, 'frequency', ('blue', 'green', 'red'))
    """
    names = named(columns)
    table = table_of(data, names, user, rows_per_user, delimiter, gather)
    names = table.columns_named(names)
    sights = _sights(table, names, rules)
    numeric = [sight.whole.numbers for sight in sights]
    present = _demand_rows(table, names, sights)
    if rules.drops:
        own = (user,) if gather and user is not None else ()
        table = PresentTable(table, (*names, *own), (*numeric, *(False for _ in own)), rules.gaps)
        present = table.selection.used
    if gather and user is not None:
        table = GatheredTable(table, user)
        sights = _sights(table, names, rules)
        present = sights[0].rows
    chosen = _suggested(names, sights) if task is None else task.strip().lower().replace("_", "-").replace(" ", "-")
    looked = _Looked(table.title, names, sights, rules, present, 1 if gather else table.per_person, domain_from_data)
    known = replace(given or Given(), called=names if len(names) > 1 else ())
    filled = looked.filled(chosen, known)
    return Preview(table.title, present, chosen, filled, _what_was_read(known, filled), looked.warnings(filled))


def _sights(table: Table, names: tuple[str, ...], rules: Rules) -> list[Sight]:
    sights = [Sight(rules) for _ in names]
    for batch in table.read(names, READ_ROWS):
        for sight, array in zip(sights, batch.columns, strict=True):
            sight.see(array)
    return sights


def _demand_rows(table: Table, names: tuple[str, ...], sights: list[Sight]) -> int:
    """How many rows there are, if there are any with a value."""
    rows = sights[0].rows
    if rows == 0:
        raise ValueError(f"input: expected at least one row, got none in {table.place}.")
    empty = [name for name, sight in zip(names, sights, strict=True) if sight.missing == rows]
    if empty:
        raise ValueError(f"input: no row of {table.title} has a value in column {empty[0]!r}.")
    return rows


def _suggested(names: tuple[str, ...], sights: list[Sight]) -> str:
    """The task that such columns are usually for."""
    numbers = [sight.whole.numbers for sight in sights]
    if len(sights) > 1:
        if len(sights) == 2 and {axis_of(name) for name in names} == {"x", "y"}:
            return "location"
        if all(numbers):
            return "vector-mean"
        if len(sights) == 2 and numbers == [False, True]:
            return "key-value"
        raise ValueError(f"{WHO}: these columns suggest no task; name it by --task.")
    (sight,) = sights
    if sight.lists:
        return "key-value" if sight.pairs else "set-valued"
    if sight.whole.truths:
        return "count"
    if sight.whole.numbers:
        return "mean"
    return "range-queries" if sight.whole.dates else "frequency"


@dataclass(frozen=True)
class _Looked:
    """A table that was looked at, and what its columns tell of a task's domain."""

    title: str
    names: tuple[str, ...]
    sights: list[Sight]
    rules: Rules
    rows: int
    per_person: int
    """The most rows that one person has."""
    insists: bool
    """Whether values become categories however rare they are."""

    def filled(self, task: str, given: Given) -> Given:
        """What is given, and the rest as it was seen."""
        ways: dict[str, Callable[[Given], Given]] = {
            "frequency": self._options,
            "range-queries": self._steps,
            "counts-over-time": self._steps,
            "set-valued": lambda known: self._items(self._options(known)),
            "key-value": lambda known: self._items(self._range(self._options(known), self._valued())),
            "mean": lambda known: self._range(known, self.sights),
            "sum": lambda known: self._range(known, self.sights),
            "variance": lambda known: self._range(known, self.sights),
            "vector-mean": self._sides,
            "location": self._edges,
        }
        return ways[task](given) if task in ways else given

    def warnings(self, filled: Given) -> tuple[str, ...]:
        """What `collect` would stop at, and categories that look as if they stood for no value."""
        found = []
        if self.rules.missing == REFUSE and any(sight.missing or sight.whole.missing for sight in self.sights):
            found.append("Some rows have no value, and collect will refuse them: say what becomes of them (--missing).")
        for text in filled.labels or ():
            if text.casefold() in USUAL_GAPS:
                found.append(f"One category is {text!r}: if that stands for no value, add --gap {text} and --missing.")
        return tuple(found)

    def _valued(self) -> list[Sight]:
        """Where the numbers of pairs stand."""
        if len(self.sights) > 1:
            return self.sights[1:]
        return [replace(self.sights[0], whole=self.sights[0].paired, lists=False)]

    def _options(self, given: Given, steps: bool = False) -> Given:
        if given.domain is not None or given.categories is not None:
            return given
        seen = self.sights[0].whole
        if seen.labels is None:
            raise self._too_many(f"more than {MOST_LABELS:,} different values", "")
        if not (steps and seen.stepped) and not self.insists:
            self._demand_common(seen)
        if steps and seen.some_dates and not seen.dates:
            raise ValueError(
                f"{WHO}: column {self.names[0]!r} of {self.title} has days such as 2026-01-31 and other texts, which "
                f"have no order; write all days in this form."
            )
        told = seen.every_step() if steps else seen.in_order()
        unseen = sum(map(label.is_refused, told))
        if unseen:
            raise ValueError(
                f"{WHO}: column {self.names[0]!r} has {unseen:,} different values with control characters or others "
                f"that cannot be seen; clean them, or give the categories by --categories FILE."
            )
        if self.rules.missing == CATEGORY and not steps:
            told = (*told, NO_VALUE)
        return replace(given, labels=told)

    def _demand_common(self, seen: Seen) -> None:
        """Refuse values that would make the plan a list of what single people typed, or of who they are.

        A value that fewer than ten people hold says something about each of them, as statistical offices count it; up
        to twenty values somebody reads before a plan is handed on. Above that, most of them rare is the mark of free
        text, whose counts fall like Zipf's law, whatever the number of rows: half of all words are typed once. A public
        list of options has rare ones, too, but most of them common as soon as there are people enough to count. Names,
        addresses and ids show in fewer rows already: most of them are of one person.
        """
        assert seen.labels is not None, "they were counted"
        count, most = len(seen.labels), len(seen.labels) / 2
        if count > FEW_NAMES and seen.rare(self.per_person + 1) > most:
            raise self._too_many(f"{count:,} different values", ", most of them one person's alone")
        if count > FEW_VALUES and seen.rare(FEW_PEOPLE * self.per_person) > most:
            raise self._too_many(f"{count:,} different values", f", most of them of fewer than {FEW_PEOPLE} people")

    def _too_many(self, found: str, rare: str) -> ValueError:
        insisting = ", or insist by --domain-from-data if all of them are public" if rare else ""
        kind = "--bits 48" if self.sights[0].whole.numbers else "--strings 64"
        return ValueError(
            f"{WHO}: column {self.names[0]!r} has {found} in {self.rows:,} rows{rare}, and categories stand in the "
            f"plan, a public file that everybody reads; find the common ones by `shuffledp plan --task heavy-hitters "
            f"{kind}`, give a public list by --categories FILE{insisting}."
        )

    def _steps(self, given: Given) -> Given:
        return self._options(given, steps=True)

    def _items(self, given: Given) -> Given:
        longest = max(1, self.sights[0].longest)
        return given if given.items is not None else replace(given, items=longest)

    def _range(self, given: Given, sights: Sequence[Sight]) -> Given:
        if given.low and given.high:
            return given
        (low, high), *_ = self._ends(sights)
        return replace(given, low=given.low or (low,), high=given.high or (high,))

    def _sides(self, given: Given) -> Given:
        """An interval for each column; lists in one column have one interval for all of their numbers."""
        if len(self.sights) == 1:
            dimension = given.dimension if given.dimension is not None else max(1, self.sights[0].longest)
            return replace(self._range(given, self.sights), dimension=dimension)
        ends = self._ends(self.sights)
        low, high = given.low or tuple(low for low, _ in ends), given.high or tuple(high for _, high in ends)
        return replace(given, dimension=given.dimension or len(ends), low=low, high=high)

    def _edges(self, given: Given) -> Given:
        if len(self.sights) != 2:
            raise ValueError(f"{WHO}: give the map's edges, or two columns, one for each coordinate.")
        ends = dict(zip(map(axis_of, self.names), self._ends(self.sights), strict=True))
        if set(ends) != {"x", "y"}:
            raise ValueError(f"{WHO}: give the map's edges, or columns called x and y, or latitude and longitude.")
        seen = dict(zip(EDGES, (*ends["x"], *ends["y"]), strict=True))
        degrees = all(name.strip().casefold() in DEGREES for name in self.names)
        if degrees:
            seen["south"], seen["north"] = max(-90.0, seen["south"]), min(90.0, seen["north"])
        unknown = {name: value for name, value in seen.items() if getattr(given, name) is None}
        return replace(given, **unknown, degrees=given.degrees or degrees or None)  # type: ignore[arg-type]

    def _ends(self, sights: Sequence[Sight]) -> list[tuple[float, float]]:
        for name, sight in zip(self.names, sights, strict=False):
            if not sight.whole.numbers or not sight.whole.low <= sight.whole.high:
                raise ValueError(f"{WHO}: column {name!r} of {self.title} holds values that are no numbers.")
        return [sight.whole.ends() for sight in sights]


def _what_was_read(before: Given, after: Given) -> tuple[str, ...]:
    """What was not given, by the names of the options."""
    parts = ["categories"] if after.labels else []
    parts += [name for name in ("low", "high", "items", *EDGES) if getattr(before, name) != getattr(after, name)]
    return tuple(parts)
