"""Reading users' values from the columns of a table, and the errors for values that cannot be read.

A value outside the task's public domain stops a collection before anything is encoded, unless a public rule says how to
treat it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp._core.message_phrases import Phrase, phrase
from shuffledp._core.validation import Array, Bools, Floats, Integers
from shuffledp.mechanisms.base.estimator import Estimate
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.sampling.random_sources import RandomSource
from shuffledp.tasks import value_parsing
from shuffledp.tasks.base import Quantity
from shuffledp.tasks.domain import Interval
from shuffledp.tasks.value_parsing import (
    CATEGORY,
    EMPTY,
    MISSING_CATEGORY,
    SAMPLE,
    STRICT_RULES,
    Rules,
    draw_positions,
    find_first_occurrences,
    find_kept_entries,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from shuffledp.tasks.base import Task

KEY_VALUE_SEPARATOR = ":"
"""Separator of a key and its number in a cell of text."""


class BadRow(ValueError):
    """An input error, with the index of the first bad row, from 0; None if the error is not in a row."""

    def __init__(self, sentence: str | Phrase, row: int | None = None) -> None:
        super().__init__(sentence)
        self.row = row


@dataclass
class Tally:
    """Counts of the values that a rule changed; only the holder of the raw data may see them."""

    clipped: int = 0
    shortened: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.clipped + other.clipped, self.shortened + other.shortened)


@dataclass(frozen=True)
class ColumnReader:
    """Reader of the columns of a collection; several columns are an array of structs.

    Args:
        names: Names of the columns.
        task: Task whose values are read.
        mechanism: Mechanism that encodes the values.
        rules: Rules for cells that do not fit the plan.
        source: Randomness that draws entries of long lists; None takes the first entries, for a check only.
        tally: Counts of changed values.
    """

    names: tuple[str, ...]
    task: Task
    mechanism: Mechanism
    rules: Rules = STRICT_RULES
    source: RandomSource | None = field(default=None, compare=False, repr=False)
    tally: Tally = field(default_factory=Tally, compare=False, repr=False)

    def read_values(self, array: pa.Array, source: RandomSource | None = None) -> Array:
        """Returns one value per row in the mechanism's canonical form; raises BadRow if one is missing or bad."""
        reader = replace(self, source=source)
        return reader.check_values(self.task.read_values(reader, array))

    def count_changes(self, array: pa.Array) -> Tally:
        """Counts the values that the rules change."""
        reader = replace(self, tally=Tally())
        self.task.read_values(reader, array)
        return reader.tally

    def join_columns(self, batch: pa.RecordBatch) -> pa.Array:
        """Joins these columns, in the order of ``names``, to one array."""
        import pyarrow as pa

        if len(self.names) == 1:
            return batch.column(0)
        return pa.StructArray.from_arrays(batch.columns, list(self.names))

    def to_table(self, array: pa.Array) -> pa.Table:
        """Inverts ``join_columns``."""
        import pyarrow as pa

        return pa.table(dict(zip(self.names, [array] if len(self.names) == 1 else array.flatten(), strict=True)))

    @property
    def numeric_columns(self) -> tuple[bool, ...]:
        """True for each column that holds numbers."""
        return tuple(self.task.is_number_column(place) for place in range(len(self.names)))

    def quantities(self, estimate: Estimate, confidence: float) -> list[Quantity]:
        """Converts the estimate to the rows of the report."""
        return self.task.quantities(self.mechanism, estimate, confidence)

    # --- Readers for tasks ---

    @property
    def title(self) -> str:
        """The name of the columns in error messages."""
        return ("column " if len(self.names) == 1 else "columns ") + ", ".join(map(repr, self.names))

    def build_error(self, sentence: str | Phrase, bad: Bools | None = None) -> BadRow:
        """Returns the exception to raise; ``bad`` is True for the rows at fault."""
        message = phrase("{title}: {sentence}.", title=self.title, sentence=sentence)
        return BadRow(message, None if bad is None else int(np.argmax(bad)))

    def check_values(self, values: Any, check: Callable[[Any], Array] | None = None, hint: str = "") -> Array:
        """Applies ``check``, by default the mechanism's; ``hint`` are words for a phrase, about a rejected value."""
        check = check or self.mechanism.check
        try:
            return check(values)
        except (ValueError, TypeError) as error:
            # The error of the mechanism may contain a user's value.
            expected, got, _ = str(error).partition(", got ")
            words = "{title}: {expected}" + (f", got others{hint}." if got else "")
            raise BadRow(
                phrase(words, title=self.title, expected=expected), _find_first_bad_row(check, values)
            ) from None

    def require_values(self, array: pa.Array, *, numeric: bool = False) -> pa.Array:
        """Returns the array; raises BadRow if a row has no value."""
        bad = value_parsing.find_missing(array, self.rules.gaps, numeric=numeric)
        if bad.any():
            words = phrase(
                "expected a value in every row, got {count} without one; choose a treatment of such rows "
                "({rules=Rules(missing=…)})",
                count=f"{int(bad.sum()):,}",
            )
            raise self.build_error(words, bad)
        return array

    def read_option_numbers(
        self, array: pa.Array, labels: tuple[str, ...] | None, rows: Integers | None = None
    ) -> Array:
        """Returns the index of each value in the public list, or the integers themselves if there is no list.

        ``rows`` gives the row of each entry, if the array holds the entries of lists.
        """
        array = self._replace_missing(value_parsing.decode_array(array), labels)
        if labels is None:
            return self._read_domain_integers(array, rows)
        if value_parsing.is_list(array.type):
            raise self.build_error(f"expected texts from the plan's categories, got {array.type}")
        numbers, bad = value_parsing.find_label_indices(value_parsing.format_labels(array), labels)
        if bad.any():
            # Entries of lists may have been read from texts.
            hint = "" if rows is None else "; entries are separated by {character} ({rules=Rules(separator=…)})"
            found = f"expected one of the plan's {len(labels)} categories{_format_bad_count(bad)}"
            words = phrase(f"{{found}}{hint}", found=found, character=repr(self.rules.separator))
            raise self.build_error(words, _rows_with_bad_entries(bad, rows))
        return numbers

    def _replace_missing(self, array: pa.Array, labels: tuple[str, ...] | None) -> pa.Array:
        """Replaces missing values by their category if that is the rule; otherwise raises BadRow if there are any."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self.rules.missing != CATEGORY:
            return self.require_values(array)
        if labels is None or MISSING_CATEGORY not in labels:
            raise self.build_error(
                f"expected a plan with the category {MISSING_CATEGORY!r} for rows without a value, got none"
            )
        texts = value_parsing.format_labels(array)
        missing = pa.array(value_parsing.find_missing(array, self.rules.gaps, numeric=False))
        return pc.if_else(missing, pa.scalar(MISSING_CATEGORY, texts.type), texts)

    def _read_domain_integers(self, array: pa.Array, rows: Integers | None) -> Array:
        """Returns integers of the domain, though a mechanism may have more options: trees are padded."""
        if not (value_parsing.is_numeric(array) or value_parsing.is_text(array.type)):
            raise self.build_error(f"expected whole numbers from 0 on, got {array.type}")
        numbers, bad = value_parsing.parse_integers(array)
        size = self.task.domain.size
        bad = bad | (numbers < 0) | ((numbers >= size) if size is not None else False)
        if bad.any():
            range_end = "on" if size is None else f"to {size - 1}"
            raise self.build_error(
                f"expected whole numbers from 0 {range_end}{_format_bad_count(bad)}", _rows_with_bad_entries(bad, rows)
            )
        return numbers

    def read_scaled_numbers(self, array: pa.Array, interval: Interval, rows: Integers | None = None) -> Floats:
        """Returns numbers of the public interval, rescaled to the mechanism's range."""
        limits = f"from {interval.low:g} to {interval.high:g}"
        numbers = self.clip_numbers(self.read_numbers(array, limits, rows), interval)
        outside = ~((numbers >= interval.low) & (numbers <= interval.high))
        if outside.any():
            found = f"expected numbers {limits}{_format_bad_count(outside)}"
            words = phrase("{found}; clip them ({rules=Rules(clip=True)}), or plan for a wider domain", found=found)
            raise self.build_error(words, _rows_with_bad_entries(outside, rows))
        low, high = self.mechanism.value_range
        share = (numbers - interval.low) / (interval.high - interval.low)
        return np.asarray(np.clip(low + share * (high - low), low, high))

    def read_numbers(self, array: pa.Array, which: str, rows: Integers | None = None) -> Floats:
        """Returns numbers without rescaling."""
        array = value_parsing.decode_array(array)
        if not (value_parsing.is_numeric(array) or value_parsing.is_text(array.type)):
            raise self.build_error(f"expected numbers {which}, got {array.type}")
        numbers, bad = value_parsing.parse_floats(self.require_values(array, numeric=True))
        if bad.any():
            got = f"got other text in {_format_share(bad)}; numbers are written as 1234.5"
            raise self.build_error(f"expected numbers {which}, {got}", _rows_with_bad_entries(bad, rows))
        return numbers

    def clip_numbers(self, numbers: Floats, interval: Interval) -> Floats:
        """Clips numbers to the interval if that is the rule; infinite ones are left for the caller to reject."""
        if not self.rules.clip:
            return numbers
        moved = np.where(np.isfinite(numbers), np.clip(numbers, interval.low, interval.high), numbers)
        self.tally.clipped += int(np.count_nonzero(moved != numbers))
        return np.asarray(moved)

    def read_lists(self, array: pa.Array) -> tuple[Array, pa.Array]:
        """Returns the number of entries of each row, and all entries."""
        import pyarrow as pa

        array = value_parsing.decode_array(array)
        if value_parsing.is_text(array.type):
            array = value_parsing.split_texts(self._check_missing_lists(array), self.rules.separator)
        elif not value_parsing.is_list(array.type):
            raise self.build_error(f"expected a list in every row, got {array.type}")
        if pa.types.is_map(array.type):
            array = array.cast(pa.list_(pa.struct([("key", array.type.key_type), ("value", array.type.item_type)])))
        if pa.types.is_fixed_size_list(array.type):
            array = array.cast(pa.list_(array.type.value_type))
        self._check_missing_lists(array)
        sizes = np.nan_to_num(array.value_lengths().to_numpy(zero_copy_only=False)).astype(np.int64)
        return sizes, array.flatten()

    def _check_missing_lists(self, array: pa.Array) -> pa.Array:
        """Accepts missing lists if the rule makes them empty; otherwise raises BadRow if there are any."""
        return array if self.rules.missing == EMPTY else self.require_values(array)

    def read_vectors(self, array: pa.Array, intervals: Sequence[Interval]) -> Floats:
        """Returns a number of each interval per row, from as many columns, from lists, or from a column of numbers."""
        count = len(intervals)
        if len(self.names) > 1:
            parts = array.flatten()
        elif count == 1 and not value_parsing.is_list(array.type):
            parts = [array]
        else:
            sizes, entries = self.read_lists(array)
            if (sizes != count).any():
                raise self.build_error(
                    f"expected {count} numbers in every row, got lists of other lengths", sizes != count
                )
            parts = [entries.take(np.arange(len(sizes)) * count + place) for place in range(count)]
        coordinates = zip(parts, intervals, strict=True)
        return np.stack([self.read_scaled_numbers(part, interval) for part, interval in coordinates], axis=1)

    def read_sets(self, array: pa.Array, labels: tuple[str, ...] | None, most: int) -> tuple[Integers, Integers]:
        """Returns the number of distinct options of each row, at most ``most``, and all of them."""
        if self.rules.missing == CATEGORY:
            array = self._replace_missing_lists(array)
        sizes, entries = self.read_lists(array)
        owners = np.repeat(np.arange(len(sizes)), sizes)
        numbers = np.asarray(self.read_option_numbers(entries, labels, owners), dtype=np.int64)
        once = find_first_occurrences(owners, numbers)
        owners, numbers = owners[once], numbers[once]
        kept = self._shorten_lists(np.bincount(owners, minlength=len(sizes)), most)
        return np.bincount(owners[kept], minlength=len(sizes)), numbers[kept]

    def _replace_missing_lists(self, array: pa.Array) -> pa.Array:
        """Replaces each missing list by one with the category of missing values."""
        import pyarrow as pa

        gaps = value_parsing.find_missing(array, self.rules.gaps, numeric=False)
        if not value_parsing.is_text(array.type):
            replacement = pa.array([[MISSING_CATEGORY]], pa.list_(pa.string()))
            lists = pa.concat_arrays([array.cast(pa.list_(pa.string())), replacement])
            return lists.take(pa.array(np.where(gaps, len(array), np.arange(len(array)))))
        return self._replace_missing(array, (MISSING_CATEGORY,))

    def read_pairs(
        self, array: pa.Array, labels: tuple[str, ...], interval: Interval, most: int
    ) -> tuple[Integers, Integers, Floats]:
        """Returns the number of pairs of each row, and the keys and numbers of all pairs."""
        import pyarrow as pa

        if len(self.names) > 1:
            return self._read_pair_columns(array, labels, interval, most)
        sizes, entries = self.read_lists(array)
        owners = np.repeat(np.arange(len(sizes)), sizes)
        entries = value_parsing.decode_array(entries)
        if value_parsing.is_text(entries.type):
            keys, numbers, bad = value_parsing.split_pairs(entries, KEY_VALUE_SEPARATOR)
            if bad.any():
                expected = f"expected pairs such as key{KEY_VALUE_SEPARATOR}2.5, separated by {self.rules.separator!r}"
                raise self.build_error(f"{expected}{_format_bad_count(bad)}", _rows_with_bad_entries(bad, owners))
        elif pa.types.is_struct(entries.type) and entries.type.num_fields == 2:
            keys, numbers = self.require_values(entries).flatten()
        else:
            raise self.build_error(f"expected lists of a key and a number, or maps, got lists of {entries.type}")
        places = np.asarray(replace(self, rules=STRICT_RULES).read_option_numbers(keys, labels, owners), dtype=np.int64)
        found = self.read_scaled_numbers(numbers, interval, owners)
        once = np.zeros(len(places), dtype=np.bool_)
        once[find_first_occurrences(owners, places)] = True
        if not once.all():
            raise self.build_error(
                "expected different keys in every row, got one twice", _rows_with_bad_entries(~once, owners)
            )
        kept = self._shorten_lists(sizes, most)
        return np.bincount(owners[kept], minlength=len(sizes)), places[kept], found[kept]

    def _read_pair_columns(
        self, array: pa.Array, labels: tuple[str, ...], interval: Interval, most: int
    ) -> tuple[Integers, Integers, Floats]:
        """Reads pairs from a column of keys and one of numbers: one pair per row, or all pairs of a user.

        If a user has several rows with the same key, its number is their mean.
        """
        keys, numbers = array.flatten()
        sizes = np.ones(len(array), dtype=np.int64)
        if value_parsing.is_list(keys.type):
            sizes, keys = self.read_lists(keys)
            numbers = numbers.flatten()
        owners = np.repeat(np.arange(len(sizes)), sizes)
        places = np.asarray(self.read_option_numbers(keys, labels, owners), dtype=np.int64)
        found = self.read_scaled_numbers(numbers, interval, owners)
        once = find_first_occurrences(owners, places)
        _, same = np.unique(owners * len(labels) + places, return_inverse=True)
        means = np.bincount(same, weights=found) / np.bincount(same)
        owners, places, found = owners[once], places[once], means[same[once]]
        kept = self._shorten_lists(np.bincount(owners, minlength=len(sizes)), most)
        return np.bincount(owners[kept], minlength=len(sizes)), places[kept], found[kept]

    def _shorten_lists(self, sizes: Integers, most: int) -> Integers:
        """Returns the indices of the retained entries, so that no row has more than ``most``."""
        longer = sizes > most
        if longer.any() and self.rules.longer != SAMPLE:
            rows = f"{int(longer.sum()):,} of {len(sizes):,} rows"
            words = phrase(
                "expected at most {most} items in every row, got more in {rows}; plan for more ({items}), or draw a "
                "sample ({rules=Rules(longer='sample')})",
                most=most,
                rows=rows,
            )
            raise self.build_error(words, longer)
        self.tally.shortened += int(longer.sum())
        return find_kept_entries(sizes, draw_positions(sizes, most, self.source), most)


def _find_first_bad_row(check: Callable[[Any], Array], values: Any) -> int:
    """Returns the first row that the check rejects, by bisection."""
    low, high = 0, len(values) if hasattr(values, "__len__") else 0
    while high - low > 1:
        middle = (low + high) // 2
        try:
            check(values[low:middle])
            low = middle
        except (ValueError, TypeError):
            high = middle
    return low


def _rows_with_bad_entries(bad: Bools, rows: Integers | None) -> Bools:
    """Returns True for each row that holds a bad entry."""
    if rows is None:
        return bad
    found = np.zeros(int(rows.max(initial=0)) + 1, dtype=np.bool_)
    found[rows[bad]] = True
    return found


def _format_bad_count(bad: Bools) -> str:
    """Returns the end of an error message: the number of bad values, never their content."""
    return f", got something else in {_format_share(bad)}"


def _format_share(bad: Bools) -> str:
    return f"{int(np.count_nonzero(bad)):,} of {len(bad):,} values"


# --- Dummy options for users with fewer items ---
#
# Some mechanisms need the same number of items from every user. Empty places are filled with dummy options, which are
# numbered after those of the domain; there are as many as places, so that no user needs one twice. Estimates of real
# options are the same as if every user held that many items; those of dummies are dropped.


NO_ITEM = -1
"""Marks a place without an item."""


def fill_with_dummies(column: ColumnReader, options: Array, count: int, items: int) -> Array:
    """Fills empty places with the dummy options ``count``, ``count`` + 1, …, if the mechanism needs full rows.

    Raises BadRow for a row that is not full if the mechanism has no options beyond those of the domain.
    """
    mechanism = column.mechanism
    if not mechanism.domain.requires_padding:
        return options
    empty = options == NO_ITEM
    if mechanism.settings().get("options", count) == count and empty.any():
        bad = empty.any(axis=1)
        raise column.build_error(f"expected {items} items in every row, got fewer in {int(bad.sum()):,} rows", bad)
    return np.where(empty, count + np.arange(options.shape[1]), options)


def drop_dummies(estimate: Estimate, count: int) -> Estimate:
    """Drops the estimates of the dummies."""
    return estimate.select((..., slice(count)))
