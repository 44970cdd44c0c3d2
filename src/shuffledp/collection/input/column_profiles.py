"""A preview of a table before planning: number of users, suggested task, and domain.

A domain that is read from people's own data is itself a release, which no guarantee covers; the preview and the report
say so.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from shuffledp._core.errors import InvalidArgument
from shuffledp._core.message_phrases import Argument, phrase
from shuffledp._core.validation import Integers
from shuffledp.collection.input.base import Table
from shuffledp.collection.input.table_views import CompleteRowsTable, GroupedByUserTable
from shuffledp.collection.input.tables import check_column_names, open_input
from shuffledp.tasks import value_parsing
from shuffledp.tasks.column_reader import KEY_VALUE_SEPARATOR
from shuffledp.tasks.counts_and_frequencies import YES_NO_VALUES
from shuffledp.tasks.domain import TaskOptions
from shuffledp.tasks.location import EDGES, find_axis
from shuffledp.tasks.value_parsing import (
    CATEGORY,
    MISSING_CATEGORY,
    REFUSE,
    STRICT_RULES,
    Rules,
    find_first_occurrences,
)

if TYPE_CHECKING:
    import pyarrow as pa


# --- Column profiles ---


DATE_PATTERN = r"^\d{4}-\d{2}-\d{2}$"
MAX_DISTINCT_VALUES = 100_000
"""Largest number of distinct values that are counted."""
MAX_RANGE_STEPS = 20
"""The ends of a range are rounded outwards to multiples of about this fraction of it."""


@dataclass
class ValueProfile:
    """A profile of the values in cells, or in lists in cells, updated batch by batch."""

    count: int = 0
    missing: int = 0
    """Number of missing values among numbers."""
    all_numbers: bool = True
    all_dates: bool = True
    any_dates: bool = False
    all_booleans: bool = True
    low: float = math.inf
    high: float = -math.inf
    labels: dict[str, int] | None = field(default_factory=dict)
    """The distinct values, and the number of rows with each; None if there are too many."""

    def update(self, array: pa.Array, rules: Rules) -> None:
        """Adds the values of a batch."""
        import pyarrow as pa
        import pyarrow.compute as pc

        array = value_parsing.decode_array(array)
        if value_parsing.is_numeric(array) or self._are_numbers(array, rules):
            gaps = value_parsing.find_missing(array, rules.gaps, numeric=True)
            self.missing += int(gaps.sum())
            array = array.filter(pa.array(~gaps))
            numbers, _ = value_parsing.parse_floats(array)
            finite = numbers[np.isfinite(numbers)]
            if finite.size:
                self.low, self.high = min(self.low, float(finite.min())), max(self.high, float(finite.max()))
        else:
            array = array.filter(pa.array(~value_parsing.find_missing(array, rules.gaps, numeric=False)))
            self.all_numbers = self.all_numbers and not len(array)
        texts = value_parsing.trim(value_parsing.format_labels(array))
        texts = pc.replace_substring_regex(texts, value_parsing.INTEGER_PATTERN, r"\1")
        self.count += len(array)
        days = pc.match_substring_regex(texts, DATE_PATTERN)
        self.all_dates = self.all_dates and bool(pc.all(days).as_py() in (True, None))
        self.any_dates = self.any_dates or bool(pc.any(days).as_py())
        self._count_labels({each["values"]: each["counts"] for each in pc.value_counts(texts).to_pylist()})

    @staticmethod
    def _are_numbers(array: pa.Array, rules: Rules) -> bool:
        import pyarrow as pa

        if not value_parsing.is_text(array.type):
            return False
        present = array.filter(pa.array(~value_parsing.find_missing(array, rules.gaps, numeric=True)))
        return len(present) > 0 and not value_parsing.parse_floats(present)[1].any()

    def _count_labels(self, texts: dict[str, int]) -> None:
        self.all_booleans = self.all_booleans and all(
            text.casefold() in YES_NO_VALUES and not text.isdecimal() for text in texts
        )
        if self.labels is not None:
            for text, rows in texts.items():
                self.labels[text] = self.labels.get(text, 0) + rows
            if len(self.labels) > MAX_DISTINCT_VALUES:
                self.labels = None

    def sorted_values(self) -> tuple[str, ...]:
        """Returns the distinct values in order; numbers by size."""
        assert self.labels is not None, "they were counted"
        return tuple(sorted(self.labels, key=(lambda text: (float(text), text)) if self.all_numbers else None))

    def count_rare(self, rows: int) -> int:
        """Returns the number of distinct values that occur in fewer than this many rows."""
        assert self.labels is not None, "they were counted"
        return sum(count_of_rows < rows for count_of_rows in self.labels.values())

    @property
    def is_enumerable(self) -> bool:
        """True if all values are days or integers, so that the values in between are known."""
        return bool(self.count) and (
            self.all_dates or (self.all_numbers and all(map(_is_integer, self.labels or ("",))))
        )

    def list_steps(self) -> tuple[str, ...]:
        """Returns all integers or days from the first to the last; for other texts, the distinct values."""
        if not self.is_enumerable:
            return self.sorted_values()
        if self.all_dates:
            first, last = (
                datetime.date.fromisoformat(text) for text in (min(self.labels or ()), max(self.labels or ()))
            )
            days = (last - first).days + 1
            return tuple((first + datetime.timedelta(day)).isoformat() for day in range(days))
        return tuple(map(str, range(int(self.low), int(self.high) + 1)))

    def rounded_range(self) -> tuple[float, float]:
        """Returns the range of the numbers, rounded outwards so that no end is a person's own number."""
        width = self.high - self.low or abs(self.high) or 1.0
        step = 10.0 ** math.floor(math.log10(width / MAX_RANGE_STEPS))
        step *= next(times for times in (1, 2, 5, 10) if width / (step * times) <= MAX_RANGE_STEPS)
        digits = max(0, -math.floor(math.log10(step)))
        low, high = math.floor(self.low / step) * step, math.ceil(self.high / step) * step
        return round(low, digits), round(high if high > low else low + step, digits)


@dataclass
class ColumnProfile:
    """A profile of one column."""

    rules: Rules
    rows: int = 0
    missing: int = 0
    has_lists: bool = False
    """True if cells hold several values."""
    only_pairs: bool = True
    max_entries: int = 0
    values: ValueProfile = field(default_factory=ValueProfile)
    """The values in cells or in their lists."""
    pair_values: ValueProfile = field(default_factory=ValueProfile)
    """The numbers of pairs, whose keys are the values."""

    def update(self, array: pa.Array) -> None:
        """Adds the rows of a batch."""
        import pyarrow as pa

        array = value_parsing.decode_array(array)
        gaps = value_parsing.find_missing(array, self.rules.gaps, numeric=False)
        self.rows, self.missing = self.rows + len(array), self.missing + int(gaps.sum())
        array = array.filter(pa.array(~gaps))
        if value_parsing.is_list(array.type) or (value_parsing.is_text(array.type) and self._looks_like_lists(array)):
            self._update_lists(array)
        else:
            self.only_pairs = self.only_pairs and not len(array)
            self.max_entries = max(self.max_entries, min(1, len(array)))
            self.values.update(array, self.rules)

    def _looks_like_lists(self, array: pa.Array) -> bool:
        """Returns True if texts have several entries or are pairs."""
        import pyarrow.compute as pc

        several = pc.any(pc.match_substring(array, self.rules.separator)).as_py()
        return self.has_lists or bool(several) or self._all_pairs(array)

    @staticmethod
    def _all_pairs(entries: pa.Array) -> bool:
        import pyarrow.compute as pc

        if not len(entries) or not pc.all(pc.match_substring(entries, KEY_VALUE_SEPARATOR)).as_py():
            return False
        _, values, bad = value_parsing.split_pairs(entries, KEY_VALUE_SEPARATOR)
        return not bad.any() and not value_parsing.parse_floats(values)[1].any()

    def _update_lists(self, array: pa.Array) -> None:
        import pyarrow as pa

        self.has_lists = True
        if value_parsing.is_text(array.type):
            array = value_parsing.split_texts(array, self.rules.separator)
        elif pa.types.is_map(array.type):
            array = array.cast(pa.list_(pa.struct([("key", array.type.key_type), ("value", array.type.item_type)])))
        lengths = array.value_lengths().to_numpy(zero_copy_only=False)
        self._update_entries(array.flatten(), np.repeat(np.arange(len(lengths)), lengths))

    def _update_entries(self, entries: pa.Array, owners: Integers) -> None:
        import pyarrow as pa

        if pa.types.is_struct(entries.type) and entries.type.num_fields == 2:
            keys, numbers = entries.flatten()
        elif value_parsing.is_text(entries.type) and self.only_pairs and self._all_pairs(entries):
            keys, numbers, _ = value_parsing.split_pairs(entries, KEY_VALUE_SEPARATOR)
        else:
            self.only_pairs = self.only_pairs and not len(entries)
            keys, numbers = entries, None
        # Count repeated values of a user once.
        codes = np.asarray(value_parsing.decode_array(keys).dictionary_encode().indices.fill_null(-1), dtype=np.int64)
        once = find_first_occurrences(owners, codes)
        self.max_entries = max(self.max_entries, int(np.bincount(owners[once], minlength=1).max()))
        self.values.update(keys.take(pa.array(once)), self.rules)
        if numbers is not None:
            self.pair_values.update(numbers, self.rules)


def _is_integer(text: str) -> bool:
    return text.lstrip("+-").isdecimal()


ERROR_PREFIX = "plan"
READ_ROWS = 1 << 17
MAX_REVIEWABLE_VALUES, MIN_PEOPLE_PER_VALUE = 20, 10
"""Up to this many values are few enough for somebody to read; a value held by fewer people than this is rare."""
MAX_UNIQUE_VALUES = 10
"""Of more distinct values than this, most of them held by one person, the column holds names, addresses or ids."""
DOMAIN_OPTIONS = {
    "categories": "--categories FILE",
    "items": "--items",
    "low": "--low and --high",
    "west": "--west, --east, --south and --north",
}
"""The options that replace a domain read from the data."""
COMMON_MISSING_TEXTS = ("na", "n/a", "n.a.", "nan", "none", "null", "nil", "missing", "unknown", "?", "-", ".")
"""Common texts for missing values, in any case."""
DEGREE_COLUMN_NAMES = ("lat", "latitude", "lon", "lng", "longitude")


@dataclass(frozen=True)
class Preview:
    """The result of previewing a table: number of users, suggested task, and the task's domain.

    Args:
        title: Name of the table.
        users: Number of users, or of rows if users are not identified.
        task: The given or suggested task, by its name on the command line.
        task_options: The domain: the given settings, completed from the data.
        settings_from_data: Names of the settings that were read from the data rather than given.
        warnings: One sentence for each problem with missing values that somebody should look at.

    >>> import pyarrow
    >>> import shuffledp as sdp
    >>> sdp.collection.preview(pyarrow.array([20, 64, 31]), task="mean").settings_from_data
    ('low', 'high')
    """

    title: str
    users: int
    task: str
    task_options: TaskOptions
    settings_from_data: tuple[str, ...]
    warnings: tuple[str, ...] = ()

    def format_text(self) -> str:
        """Returns sentences about the users, the settings read from the data, and the warnings."""
        return " ".join((self._format_settings(), *self.warnings))

    def _format_settings(self) -> str:
        if not self.settings_from_data:
            return f"{self.title} has {self.users:,} users."
        safe = ", ".join(option for name, option in DOMAIN_OPTIONS.items() if name in self.settings_from_data)
        return (
            f"{self.title} has {self.users:,} users. Its {' and '.join(self.settings_from_data)} were read from the "
            f"data: that is a release of its own, which no ε covers; to be safe, give public ones by {safe}."
        )


def preview(
    data: object,
    columns: str | Sequence[str] | None = None,
    *,
    task: str | None = None,
    given: TaskOptions | None = None,
    user: str | None = None,
    rows_per_user: int = 1,
    rules: Rules = STRICT_RULES,
    delimiter: str | None = None,
    gather: bool = False,
    domain_from_data: bool = False,
) -> Preview:
    """Previews a table for a plan: counts its users, suggests a task, and reads its domain.

    Many distinct values, most of them rare, are refused as categories: they are free text or identities, and a plan is
    public.

    Args:
        data: One row per user, as for ``collect``.
        columns: Name or names of the columns with the users' values, as for ``collect``.
        task: The task, by its name on the command line; None to suggest one.
        given: The settings of the domain that are known; the others are read from the data.
        user: Name of the column that identifies the user of each row. Without it, each row is taken as one person.
        rows_per_user: Number of rows used per user, the first ones in the order of the input.
        rules: How to treat cells that are not as planned.
        delimiter: Field separator of a CSV file.
        gather: If True, all rows of a user form one list; for tasks that take lists.
        domain_from_data: If True, accepts rare values as categories.

    Returns:
        The preview, which names the settings that were read from the data.

    Raises:
        ValueError: If the table has no values, suggests no task, or its values do not fit the task or are too rare for
            a public list of categories.

    >>> import pyarrow
    >>> import shuffledp as sdp
    >>> found = sdp.collection.preview(pyarrow.array(["red", "green", "red", "green", "blue"]))
    >>> found.users, found.task, found.task_options.labels
    (5, 'frequency', ('blue', 'green', 'red'))
    """
    names = check_column_names(columns)
    table = open_input(data, names, user, rows_per_user, delimiter, gather)
    names = table.choose_columns(names)
    profiles = _profile_columns(table, names, rules)
    numeric = [profile.values.all_numbers for profile in profiles]
    rows = _check_rows(table, names, profiles)
    if rules.drops_rows:
        user_columns = (user,) if gather and user is not None else ()
        table = CompleteRowsTable(
            table, (*names, *user_columns), (*numeric, *(False for _ in user_columns)), rules.gaps
        )
        rows = table.selection.used
    if gather and user is not None:
        table = GroupedByUserTable(table, user)
        profiles = _profile_columns(table, names, rules)
        rows = profiles[0].rows
    task_name = (
        _suggest_task(names, profiles) if task is None else task.strip().lower().replace("_", "-").replace(" ", "-")
    )
    reader = _DomainReader(
        table.title, names, profiles, rules, rows, 1 if gather else table.per_person, domain_from_data
    )
    known_options = replace(given or TaskOptions(), called=names if len(names) > 1 else ())
    completed = reader.complete_options(task_name, known_options)
    return Preview(
        table.title,
        rows,
        task_name,
        completed,
        _list_settings_from_data(known_options, completed),
        reader.warnings(completed),
    )


def _profile_columns(table: Table, names: tuple[str, ...], rules: Rules) -> list[ColumnProfile]:
    profiles = [ColumnProfile(rules) for _ in names]
    for batch in table.read(names, READ_ROWS):
        for profile, array in zip(profiles, batch.columns, strict=True):
            profile.update(array)
    return profiles


def _check_rows(table: Table, names: tuple[str, ...], profiles: list[ColumnProfile]) -> int:
    """Returns the number of rows; raises ValueError if there are none, or a column has no value."""
    rows = profiles[0].rows
    if rows == 0:
        raise ValueError(f"input: expected at least one row, got none in {table.place}.")
    empty = [name for name, profile in zip(names, profiles, strict=True) if profile.missing == rows]
    if empty:
        raise ValueError(f"input: no row of {table.title} has a value in column {empty[0]!r}.")
    return rows


def _suggest_task(names: tuple[str, ...], profiles: list[ColumnProfile]) -> str:
    """Returns the task that such columns are usually for."""
    numbers = [profile.values.all_numbers for profile in profiles]
    if len(profiles) > 1:
        if len(profiles) == 2 and {find_axis(name) for name in names} == {"x", "y"}:
            return "location"
        if all(numbers):
            return "vector-mean"
        if len(profiles) == 2 and numbers == [False, True]:
            return "key-value"
        raise InvalidArgument(ERROR_PREFIX, "these columns suggest no task", hint=phrase("name one with {task}"))
    (profile,) = profiles
    if profile.has_lists:
        return "key-value" if profile.only_pairs else "set-valued"
    if profile.values.all_booleans:
        return "count"
    if profile.values.all_numbers:
        return "mean"
    return "range-queries" if profile.values.all_dates else "frequency"


@dataclass(frozen=True)
class _DomainReader:
    """The profiles of a table's columns, from which a task's domain is completed."""

    title: str
    names: tuple[str, ...]
    profiles: list[ColumnProfile]
    rules: Rules
    rows: int
    per_person: int
    """Largest number of rows of one person."""
    accepts_rare_values: bool
    """True if values become categories however rare they are."""

    def complete_options(self, task: str, given: TaskOptions) -> TaskOptions:
        """Returns the given settings, completed from the profiles."""
        readers: dict[str, Callable[[TaskOptions], TaskOptions]] = {
            "frequency": self._read_labels,
            "range-queries": self._read_ordered_labels,
            "counts-over-time": self._read_ordered_labels,
            "set-valued": lambda known: self._read_items(self._read_labels(known)),
            "key-value": lambda known: self._read_items(
                self._read_range(self._read_labels(known), self._pair_value_profiles())
            ),
            "mean": lambda known: self._read_range(known, self.profiles),
            "sum": lambda known: self._read_range(known, self.profiles),
            "variance": lambda known: self._read_range(known, self.profiles),
            "vector-mean": self._read_vector_ranges,
            "location": self._read_map_edges,
        }
        return readers[task](given) if task in readers else given

    def warnings(self, completed: TaskOptions) -> tuple[str, ...]:
        """Returns warnings about missing values that `collect` refuses, and about categories that look like them."""
        warnings_found = []
        if self.rules.missing == REFUSE and any(profile.missing or profile.values.missing for profile in self.profiles):
            warnings_found.append(
                "Some rows have no value, and collect will refuse them; choose a treatment with --missing."
            )
        for text in completed.labels or ():
            if text.casefold() in COMMON_MISSING_TEXTS:
                warnings_found.append(
                    f"One category is {text!r}: if it stands for a missing value, add --gap {text} and --missing."
                )
        return tuple(warnings_found)

    def _pair_value_profiles(self) -> list[ColumnProfile]:
        """Returns the profiles of the numbers in pairs."""
        if len(self.profiles) > 1:
            return self.profiles[1:]
        return [replace(self.profiles[0], values=self.profiles[0].pair_values, has_lists=False)]

    def _read_labels(self, given: TaskOptions, steps: bool = False) -> TaskOptions:
        if given.domain is not None or given.categories is not None:
            return given
        values = self.profiles[0].values
        if values.labels is None:
            raise self._build_too_many_error(f"more than {MAX_DISTINCT_VALUES:,} different values", "")
        if not (steps and values.is_enumerable) and not self.accepts_rare_values:
            self._check_common(values)
        if steps and values.any_dates and not values.all_dates:
            raise ValueError(
                f"{ERROR_PREFIX}: column {self.names[0]!r} of {self.title} has days such as 2026-01-31 and other "
                "texts, which have no order; write all days in this form."
            )
        labels = values.list_steps() if steps else values.sorted_values()
        invisible = sum(map(value_parsing.is_refused_name, labels))
        if invisible:
            raise InvalidArgument(
                ERROR_PREFIX,
                f"column {self.names[0]!r} has {invisible:,} different values with control characters or others that "
                "cannot be seen",
                hint=phrase("clean them, or give the categories by {categories=…}"),
            )
        if self.rules.missing == CATEGORY and not steps:
            labels = (*labels, MISSING_CATEGORY)
        return replace(given, labels=labels)

    def _check_common(self, values: ValueProfile) -> None:
        """Raises ValueError if the categories would reveal what single people typed, or who they are.

        A value held by fewer than ten people reveals something about each of them, by the standard of statistical
        offices; up to twenty values are read by somebody before a plan is published. Above that, a majority of rare
        values indicates free text, whose counts follow Zipf's law whatever the number of rows: half of all words are
        typed once. A public list of options has rare ones, too, but most are common as soon as there are enough people.
        Names, addresses and ids show in fewer rows already: most of them belong to one person.
        """
        assert values.labels is not None, "they were counted"
        count, most = len(values.labels), len(values.labels) / 2
        if count > MAX_UNIQUE_VALUES and values.count_rare(self.per_person + 1) > most:
            raise self._build_too_many_error(f"{count:,} different values", ", most of them one person's alone")
        if count > MAX_REVIEWABLE_VALUES and values.count_rare(MIN_PEOPLE_PER_VALUE * self.per_person) > most:
            raise self._build_too_many_error(
                f"{count:,} different values", f", most of them of fewer than {MIN_PEOPLE_PER_VALUE} people"
            )

    def _build_too_many_error(self, found: str, rare: str) -> ValueError:
        insisting = ", or insist by {domain_from_data=True} if all of them are public" if rare else ""
        kind = "--bits 48" if self.profiles[0].values.all_numbers else "--strings 64"
        search = Argument("task", "'heavy-hitters'", f"`shuffledp plan --task heavy-hitters {kind}`")
        return InvalidArgument(
            ERROR_PREFIX,
            f"column {self.names[0]!r} has {found} in {self.rows:,} rows{rare}, and categories stand in the plan, a "
            "public file that everybody reads",
            hint=phrase(
                f"find the common ones by {{search}}, give a public list by {{categories=…}}{insisting}", search=search
            ),
        )

    def _read_ordered_labels(self, given: TaskOptions) -> TaskOptions:
        return self._read_labels(given, steps=True)

    def _read_items(self, given: TaskOptions) -> TaskOptions:
        longest = max(1, self.profiles[0].max_entries)
        return given if given.items is not None else replace(given, items=longest)

    def _read_range(self, given: TaskOptions, profiles: Sequence[ColumnProfile]) -> TaskOptions:
        if given.low and given.high:
            return given
        (low, high), *_ = self._read_rounded_ranges(profiles)
        return replace(given, low=given.low or (low,), high=given.high or (high,))

    def _read_vector_ranges(self, given: TaskOptions) -> TaskOptions:
        """Sets an interval for each column; lists in one column have one interval for all their numbers."""
        if len(self.profiles) == 1:
            dimension = given.dimension if given.dimension is not None else max(1, self.profiles[0].max_entries)
            return replace(self._read_range(given, self.profiles), dimension=dimension)
        ends = self._read_rounded_ranges(self.profiles)
        low, high = given.low or tuple(low for low, _ in ends), given.high or tuple(high for _, high in ends)
        return replace(given, dimension=given.dimension or len(ends), low=low, high=high)

    def _read_map_edges(self, given: TaskOptions) -> TaskOptions:
        if len(self.profiles) != 2:
            raise ValueError(f"{ERROR_PREFIX}: give the map's edges, or two columns, one for each coordinate.")
        ends = dict(zip(map(find_axis, self.names), self._read_rounded_ranges(self.profiles), strict=True))
        if set(ends) != {"x", "y"}:
            raise ValueError(
                f"{ERROR_PREFIX}: give the map's edges, or columns called x and y, or latitude and longitude."
            )
        edges = dict(zip(EDGES, (*ends["x"], *ends["y"]), strict=True))
        degrees = all(name.strip().casefold() in DEGREE_COLUMN_NAMES for name in self.names)
        if degrees:
            edges["south"], edges["north"] = max(-90.0, edges["south"]), min(90.0, edges["north"])
        unknown = {name: value for name, value in edges.items() if getattr(given, name) is None}
        return replace(given, **unknown, degrees=given.degrees or degrees or None)  # type: ignore[arg-type]

    def _read_rounded_ranges(self, profiles: Sequence[ColumnProfile]) -> list[tuple[float, float]]:
        for name, profile in zip(self.names, profiles, strict=False):
            if not profile.values.all_numbers or not profile.values.low <= profile.values.high:
                raise ValueError(f"{ERROR_PREFIX}: column {name!r} of {self.title} holds values that are not numbers.")
        return [profile.values.rounded_range() for profile in profiles]


def _list_settings_from_data(before: TaskOptions, after: TaskOptions) -> tuple[str, ...]:
    """Returns the names of the settings that were read from the data."""
    parts = ["categories"] if after.labels else []
    parts += [name for name in ("low", "high", "items", *EDGES) if getattr(before, name) != getattr(after, name)]
    return tuple(parts)
