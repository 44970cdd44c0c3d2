"""What is read of a table under a task, a column or several, and sentences for what cannot be read.

Every value must be in the task's public domain: one that is not stops a collection before anything is encoded, unless
a public rule says what becomes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp.array import Array, Bools, Floats, Integers
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.sampling.random import RandomSource
from shuffledp.tasks import cell
from shuffledp.tasks.domain import Interval
from shuffledp.tasks.quantity import Quantity
from shuffledp.tasks.rules import CATEGORY, EMPTY, NO_VALUE, SAMPLE, STRICT, Rules
from shuffledp.tasks.shorter import drawn_of, first_of_each, kept_entries

if TYPE_CHECKING:
    import pyarrow as pa

    from shuffledp.tasks.task import Task

BETWEEN = ":"
"""What stands between a key and its number in a cell of text."""
HELP = "say what becomes of such rows (--missing)"


class BadRow(ValueError):
    """What cannot be read, in a sentence, and in which row, counted from 0; None where it is no row's fault."""

    def __init__(self, sentence: str, row: int | None = None) -> None:
        super().__init__(sentence)
        self.row = row


@dataclass
class Tally:
    """How many values became others by a rule: counts, for nobody but whoever holds the raw data."""

    clipped: int = 0
    shortened: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.clipped + other.clipped, self.shortened + other.shortened)


@dataclass(frozen=True)
class Column:
    """What one collection reads of a table: one column, or several, which are then one array of structs.

    ``rules`` says how cells are read.
    """

    names: tuple[str, ...]
    task: Task
    mechanism: Mechanism
    rules: Rules = STRICT
    source: RandomSource | None = field(default=None, compare=False, repr=False)
    """What entries of a list that is too long are drawn by; without it the first ones are taken, to be checked."""
    tally: Tally = field(default_factory=Tally, compare=False, repr=False)

    def values(self, array: pa.Array, source: RandomSource | None = None) -> Array:
        """One value per row, in the mechanism's canonical form; a sentence if a row holds none or a bad one."""
        reader = replace(self, source=source)
        return reader.checked(self.task.values(reader, array))

    def counted(self, array: pa.Array) -> Tally:
        """How many of these values become others."""
        reader = replace(self, tally=Tally())
        self.task.values(reader, array)
        return reader.tally

    def array(self, batch: pa.RecordBatch) -> pa.Array:
        """The rows of these columns, in the order of ``names``, as one array."""
        import pyarrow as pa

        if len(self.names) == 1:
            return batch.column(0)
        return pa.StructArray.from_arrays(batch.columns, list(self.names))

    def table(self, array: pa.Array) -> pa.Table:
        """The inverse of ``array``."""
        import pyarrow as pa

        return pa.table(dict(zip(self.names, [array] if len(self.names) == 1 else array.flatten(), strict=True)))

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Which of the columns hold numbers."""
        return tuple(self.task.is_number(place) for place in range(len(self.names)))

    def quantities(self, estimate: Estimate, confidence: float) -> list[Quantity]:
        """The estimate in the users' own words and units."""
        return self.task.quantities(self.mechanism, estimate, confidence)

    # --- what tasks read a column with ------------------------------------------------------------------------

    @property
    def title(self) -> str:
        """What sentences call it."""
        return ("column " if len(self.names) == 1 else "columns ") + ", ".join(map(repr, self.names))

    def refuse(self, sentence: str, bad: Bools | None = None) -> BadRow:
        """What is raised; ``bad`` says which rows are meant."""
        return BadRow(f"{self.title}: {sentence}.", None if bad is None else int(np.argmax(bad)))

    def checked(self, values: Any, check: Callable[[Any], Array] | None = None, hint: str = "") -> Array:
        """Through the mechanism's own check, or the one that is given; ``hint``: what to do about what it refuses."""
        judge = check or self.mechanism.check
        try:
            return judge(values)
        except (ValueError, TypeError) as error:
            # What the mechanism found may be somebody's value.
            expected, found, _ = str(error).partition(", got ")
            sentence = f"{self.title}: {f'{expected}, got others{hint}.' if found else expected}"
            raise BadRow(sentence, _first_refused(judge, values)) from None

    def without_nulls(self, array: pa.Array, *, numeric: bool = False) -> pa.Array:
        """The same, if every row has a value."""
        bad = cell.gaps(array, self.rules.gaps, numeric=numeric)
        if bad.any():
            raise self.refuse(f"expected a value in every row, got {int(bad.sum()):,} without one; {HELP}", bad)
        return array

    def option_numbers(self, array: pa.Array, labels: tuple[str, ...] | None, rows: Integers | None = None) -> Array:
        """The place of each value in the public list; whole numbers as they are where there is no list.

        ``rows``: whose each entry is, where these are the entries of lists.
        """
        array = self._with_category(cell.plain(array), labels)
        if labels is None:
            return self._in_domain(array, rows)
        if cell.is_list(array.type):
            raise self.refuse(f"expected texts from the plan's categories, got {array.type}")
        numbers, bad = cell.places(cell.labels(array), labels)
        if bad.any():
            wanted = f"expected one of the plan's {len(labels)} categories"
            raise self.refuse(f"{wanted}{_others(bad)}{self._hint(array, rows)}", _of_rows(bad, rows))
        return numbers

    def _hint(self, array: pa.Array, rows: Integers | None) -> str:
        """What may be the matter where lists were texts."""
        return f"; entries are divided by {self.rules.separator!r} (--separator)" if rows is not None else ""

    def _with_category(self, array: pa.Array, labels: tuple[str, ...] | None) -> pa.Array:
        """Rows without a value as a category of their own, where that is the rule; else there must be none."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self.rules.missing != CATEGORY:
            return self.without_nulls(array)
        if labels is None or NO_VALUE not in labels:
            raise self.refuse(f"expected a plan with the category {NO_VALUE!r} for rows without a value, got none")
        told = cell.labels(array)
        return pc.if_else(
            pa.array(cell.gaps(array, self.rules.gaps, numeric=False)), pa.scalar(NO_VALUE, told.type), told
        )

    def _in_domain(self, array: pa.Array, rows: Integers | None) -> Array:
        """A mechanism may have more options than the domain: a range of values is filled up to a power of two."""
        if not (cell.is_numeric(array) or cell.is_text(array.type)):
            raise self.refuse(f"expected whole numbers from 0 on, got {array.type}")
        numbers, bad = cell.whole_numbers(array)
        size = self.task.domain.size
        bad = bad | (numbers < 0) | ((numbers >= size) if size is not None else False)
        if bad.any():
            most = "on" if size is None else f"to {size - 1}"
            raise self.refuse(f"expected whole numbers from 0 {most}{_others(bad)}", _of_rows(bad, rows))
        return numbers

    def numbers(self, array: pa.Array, interval: Interval, rows: Integers | None = None) -> Floats:
        """Numbers of the public interval, moved to the mechanism's own range."""
        found = self.clipped(self.plain_numbers(array, f"from {interval.low:g} to {interval.high:g}", rows), interval)
        outside = ~((found >= interval.low) & (found <= interval.high))
        if outside.any():
            raise self.refuse(
                f"expected numbers from {interval.low:g} to {interval.high:g}{_others(outside)}; "
                f"clip them (--clip), or plan for a wider domain",
                _of_rows(outside, rows),
            )
        low, high = self.mechanism.value_range
        share = (found - interval.low) / (interval.high - interval.low)
        return np.asarray(np.clip(low + share * (high - low), low, high))

    def plain_numbers(self, array: pa.Array, which: str, rows: Integers | None = None) -> Floats:
        """Numbers as they stand there."""
        array = cell.plain(array)
        if not (cell.is_numeric(array) or cell.is_text(array.type)):
            raise self.refuse(f"expected numbers {which}, got {array.type}")
        found, bad = cell.floats(self.without_nulls(array, numeric=True))
        if bad.any():
            told = f"got a text that is no number in {_share(bad)}; numbers are written as 1234.5"
            raise self.refuse(f"expected numbers {which}, {told}", _of_rows(bad, rows))
        return found

    def clipped(self, numbers: Floats, interval: Interval) -> Floats:
        """Moved into the interval, where that is the rule; infinity is none of the numbers that are."""
        if not self.rules.clip:
            return numbers
        moved = np.where(np.isfinite(numbers), np.clip(numbers, interval.low, interval.high), numbers)
        self.tally.clipped += int(np.count_nonzero(moved != numbers))
        return np.asarray(moved)

    def lists(self, array: pa.Array) -> tuple[Array, pa.Array]:
        """How many entries each row has, and all entries."""
        import pyarrow as pa

        array = cell.plain(array)
        if cell.is_text(array.type):
            array = cell.split(self._without_gaps(array), self.rules.separator)
        elif not cell.is_list(array.type):
            raise self.refuse(f"expected a list in every row, got {array.type}")
        if pa.types.is_map(array.type):
            array = array.cast(pa.list_(pa.struct([("key", array.type.key_type), ("value", array.type.item_type)])))
        if pa.types.is_fixed_size_list(array.type):
            array = array.cast(pa.list_(array.type.value_type))
        self._without_gaps(array)
        sizes = np.nan_to_num(array.value_lengths().to_numpy(zero_copy_only=False)).astype(np.int64)
        return sizes, array.flatten()

    def _without_gaps(self, array: pa.Array) -> pa.Array:
        """Lists that are not there count as empty, where that is the rule; else there must be none."""
        return array if self.rules.missing == EMPTY else self.without_nulls(array)

    def vectors(self, array: pa.Array, intervals: Sequence[Interval]) -> Floats:
        """A number of each interval per row: from as many columns, from a list in every row, or one number."""
        if len(self.names) > 1:
            found = [self.numbers(part, each) for part, each in zip(array.flatten(), intervals, strict=True)]
            return np.stack(found, axis=1)
        if len(intervals) == 1 and not cell.is_list(array.type):
            return self.numbers(array, intervals[0]).reshape(-1, 1)
        sizes, entries = self.lists(array)
        wrong = sizes != len(intervals)
        if wrong.any():
            raise self.refuse(f"expected {len(intervals)} numbers in every row, got lists of other lengths", wrong)
        every = np.arange(len(sizes))
        parts = [entries.take(every * len(intervals) + place) for place in range(len(intervals))]
        return np.stack([self.numbers(part, each) for part, each in zip(parts, intervals, strict=True)], axis=1)

    def sets(self, array: pa.Array, labels: tuple[str, ...] | None, most: int) -> tuple[Integers, Integers]:
        """How many different options each row has, at most so many, and all of them; twice counts once."""
        if self.rules.missing == CATEGORY:
            array = self._single_category(array)
        sizes, entries = self.lists(array)
        owners = np.repeat(np.arange(len(sizes)), sizes)
        numbers = np.asarray(self.option_numbers(entries, labels, owners), dtype=np.int64)
        once = first_of_each(owners, numbers)
        owners, numbers = owners[once], numbers[once]
        kept = self._short_enough(np.bincount(owners, minlength=len(sizes)), most)
        return np.bincount(owners[kept], minlength=len(sizes)), numbers[kept]

    def _single_category(self, array: pa.Array) -> pa.Array:
        """A row without a list holds the category of those without a value."""
        import pyarrow as pa

        gaps = cell.gaps(array, self.rules.gaps, numeric=False)
        if not cell.is_text(array.type):
            own = pa.array([[NO_VALUE]], pa.list_(pa.string()))
            whole = pa.concat_arrays([array.cast(pa.list_(pa.string())), own])
            return whole.take(pa.array(np.where(gaps, len(array), np.arange(len(array)))))
        return self._with_category(array, (NO_VALUE,))

    def pairs(
        self, array: pa.Array, labels: tuple[str, ...], interval: Interval, most: int
    ) -> tuple[Integers, Integers, Floats]:
        """How many pairs each row has, and the keys and numbers of all of them."""
        import pyarrow as pa

        if len(self.names) > 1:
            return self._pairs_of_columns(array, labels, interval, most)
        sizes, entries = self.lists(array)
        owners = np.repeat(np.arange(len(sizes)), sizes)
        entries = cell.plain(entries)
        if cell.is_text(entries.type):
            keys, numbers, bad = cell.pairs(entries, BETWEEN)
            if bad.any():
                wanted = f"expected pairs such as key{BETWEEN}2.5, divided by {self.rules.separator!r}"
                raise self.refuse(f"{wanted}{_others(bad)}", _of_rows(bad, owners))
        elif pa.types.is_struct(entries.type) and entries.type.num_fields == 2:
            keys, numbers = self.without_nulls(entries).flatten()
        else:
            raise self.refuse(f"expected lists of a key and a number, or maps, got lists of {entries.type}")
        places = np.asarray(replace(self, rules=STRICT).option_numbers(keys, labels, owners), dtype=np.int64)
        found = self.numbers(numbers, interval, owners)
        once = np.zeros(len(places), dtype=np.bool_)
        once[first_of_each(owners, places)] = True
        if not once.all():
            raise self.refuse("expected different keys in every row, got one twice", _of_rows(~once, owners))
        kept = self._short_enough(sizes, most)
        return np.bincount(owners[kept], minlength=len(sizes)), places[kept], found[kept]

    def _pairs_of_columns(
        self, array: pa.Array, labels: tuple[str, ...], interval: Interval, most: int
    ) -> tuple[Integers, Integers, Floats]:
        """From a column of keys and one of numbers: a pair per row, or all pairs of a user, who has rows of one key.

        The number of a key is then the mean of hers.
        """
        keys, numbers = array.flatten()
        sizes = np.ones(len(array), dtype=np.int64)
        if cell.is_list(keys.type):
            sizes, keys = self.lists(keys)
            numbers = numbers.flatten()
        owners = np.repeat(np.arange(len(sizes)), sizes)
        places = np.asarray(self.option_numbers(keys, labels, owners), dtype=np.int64)
        found = self.numbers(numbers, interval, owners)
        once = first_of_each(owners, places)
        _, same = np.unique(owners * len(labels) + places, return_inverse=True)
        means = np.bincount(same, weights=found) / np.bincount(same)
        owners, places, found = owners[once], places[once], means[same[once]]
        kept = self._short_enough(np.bincount(owners, minlength=len(sizes)), most)
        return np.bincount(owners[kept], minlength=len(sizes)), places[kept], found[kept]

    def _short_enough(self, sizes: Integers, most: int) -> Integers:
        """The places of the entries that are kept, so that no row has more than so many."""
        longer = sizes > most
        if longer.any() and self.rules.longer != SAMPLE:
            rows = f"{int(longer.sum()):,} of {len(sizes):,} rows"
            raise self.refuse(
                f"expected at most {most} items in every row, got more in {rows}; plan for more (--items), or have "
                f"some drawn (--longer sample)",
                longer,
            )
        self.tally.shortened += int(longer.sum())
        return kept_entries(sizes, drawn_of(sizes, most, self.source), most)


def _first_refused(check: Callable[[Any], Array], values: Any) -> int:
    """The first row that a check refuses, by halves."""
    low, high = 0, len(values) if hasattr(values, "__len__") else 0
    while high - low > 1:
        middle = (low + high) // 2
        try:
            check(values[low:middle])
            low = middle
        except (ValueError, TypeError):
            high = middle
    return low


def _of_rows(bad: Bools, rows: Integers | None) -> Bools:
    """Which rows hold the entries that are bad."""
    if rows is None:
        return bad
    found = np.zeros(int(rows.max(initial=0)) + 1, dtype=np.bool_)
    found[rows[bad]] = True
    return found


def _others(bad: Bools) -> str:
    """What was found instead: how many, and never what."""
    return f", got something else in {_share(bad)}"


def _share(bad: Bools) -> str:
    return f"{int(np.count_nonzero(bad)):,} of {len(bad):,} values"
