"""One look at a column: what kind of values it holds, from where to where, which ones, and how long its lists are."""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from shuffledp.array import Integers
from shuffledp.tasks import cell
from shuffledp.tasks.column import BETWEEN
from shuffledp.tasks.count import WORDS
from shuffledp.tasks.rules import Rules
from shuffledp.tasks.shorter import first_of_each

if TYPE_CHECKING:
    import pyarrow as pa

DAY = r"^\d{4}-\d{2}-\d{2}$"
MOST_LABELS = 100_000
"""Different values that are told apart."""
PARTS_OF_A_RANGE = 20
"""Ends of a range are rounded outwards to about so many parts of it."""


@dataclass
class Seen:
    """Values that stand in cells, or in lists in cells: kept up to date batch by batch."""

    count: int = 0
    missing: int = 0
    """How many among numbers are none."""
    numbers: bool = True
    dates: bool = True
    some_dates: bool = False
    truths: bool = True
    low: float = math.inf
    high: float = -math.inf
    labels: dict[str, int] | None = field(default_factory=dict)
    """The different ones, and how many rows hold each; None where there are too many."""

    def see(self, array: pa.Array, rules: Rules) -> None:
        """More of them."""
        import pyarrow as pa
        import pyarrow.compute as pc

        array = cell.plain(array)
        if cell.is_numeric(array) or self._are_numbers(array, rules):
            gaps = cell.gaps(array, rules.gaps, numeric=True)
            self.missing += int(gaps.sum())
            array = array.filter(pa.array(~gaps))
            found, _ = cell.floats(array)
            finite = found[np.isfinite(found)]
            if finite.size:
                self.low, self.high = min(self.low, float(finite.min())), max(self.high, float(finite.max()))
        else:
            array = array.filter(pa.array(~cell.gaps(array, rules.gaps, numeric=False)))
            self.numbers = self.numbers and not len(array)
        told = cell.trimmed(cell.labels(array))
        told = pc.replace_substring_regex(told, cell.WHOLE, r"\1")
        self.count += len(array)
        days = pc.match_substring_regex(told, DAY)
        self.dates = self.dates and bool(pc.all(days).as_py() in (True, None))
        self.some_dates = self.some_dates or bool(pc.any(days).as_py())
        self._keep({each["values"]: each["counts"] for each in pc.value_counts(told).to_pylist()})

    @staticmethod
    def _are_numbers(array: pa.Array, rules: Rules) -> bool:
        import pyarrow as pa

        if not cell.is_text(array.type):
            return False
        present = array.filter(pa.array(~cell.gaps(array, rules.gaps, numeric=True)))
        return len(present) > 0 and not cell.floats(present)[1].any()

    def _keep(self, texts: dict[str, int]) -> None:
        self.truths = self.truths and all(text.casefold() in WORDS and not text.isdecimal() for text in texts)
        if self.labels is not None:
            for text, rows in texts.items():
                self.labels[text] = self.labels.get(text, 0) + rows
            if len(self.labels) > MOST_LABELS:
                self.labels = None

    def in_order(self) -> tuple[str, ...]:
        """The different values, numbers by size."""
        assert self.labels is not None, "they were counted"
        return tuple(sorted(self.labels, key=(lambda text: (float(text), text)) if self.numbers else None))

    def rare(self, rows: int) -> int:
        """How many of the different values fewer than so many rows hold."""
        assert self.labels is not None, "they were counted"
        return sum(held < rows for held in self.labels.values())

    @property
    def stepped(self) -> bool:
        """Whether all are days, or whole numbers, between which the others are known."""
        return bool(self.count) and (self.dates or (self.numbers and all(map(_is_whole, self.labels or ("",)))))

    def every_step(self) -> tuple[str, ...]:
        """All whole numbers or days from the first to the last; of other texts those that are there."""
        if not self.stepped:
            return self.in_order()
        if self.dates:
            first, last = (
                datetime.date.fromisoformat(text) for text in (min(self.labels or ()), max(self.labels or ()))
            )
            days = (last - first).days + 1
            return tuple((first + datetime.timedelta(day)).isoformat() for day in range(days))
        return tuple(map(str, range(int(self.low), int(self.high) + 1)))

    def ends(self) -> tuple[float, float]:
        """From where to where the numbers go, rounded outwards so that nobody's number is an end."""
        width = self.high - self.low or abs(self.high) or 1.0
        step = 10.0 ** math.floor(math.log10(width / PARTS_OF_A_RANGE))
        step *= next(times for times in (1, 2, 5, 10) if width / (step * times) <= PARTS_OF_A_RANGE)
        digits = max(0, -math.floor(math.log10(step)))
        low, high = math.floor(self.low / step) * step, math.ceil(self.high / step) * step
        return round(low, digits), round(high if high > low else low + step, digits)


@dataclass
class Sight:
    """What is seen of one column."""

    rules: Rules
    rows: int = 0
    missing: int = 0
    lists: bool = False
    """Whether cells hold several values."""
    pairs: bool = True
    longest: int = 0
    whole: Seen = field(default_factory=Seen)
    """The cells, or what stands in their lists."""
    paired: Seen = field(default_factory=Seen)
    """The numbers of pairs, whose keys are the values."""

    def see(self, array: pa.Array) -> None:
        """More of its rows."""
        import pyarrow as pa

        array = cell.plain(array)
        gaps = cell.gaps(array, self.rules.gaps, numeric=False)
        self.rows, self.missing = self.rows + len(array), self.missing + int(gaps.sum())
        array = array.filter(pa.array(~gaps))
        if cell.is_list(array.type) or (cell.is_text(array.type) and self._seems_lists(array)):
            self._see_lists(array)
        else:
            self.pairs = self.pairs and not len(array)
            self.longest = max(self.longest, min(1, len(array)))
            self.whole.see(array, self.rules)

    def _seems_lists(self, array: pa.Array) -> bool:
        """Whether texts have several entries, or are pairs."""
        import pyarrow.compute as pc

        several = pc.any(pc.match_substring(array, self.rules.separator)).as_py()
        return self.lists or bool(several) or self._all_pairs(array)

    @staticmethod
    def _all_pairs(entries: pa.Array) -> bool:
        import pyarrow.compute as pc

        if not len(entries) or not pc.all(pc.match_substring(entries, BETWEEN)).as_py():
            return False
        _, values, bad = cell.pairs(entries, BETWEEN)
        return not bad.any() and not cell.floats(values)[1].any()

    def _see_lists(self, array: pa.Array) -> None:
        import pyarrow as pa

        self.lists = True
        if cell.is_text(array.type):
            array = cell.split(array, self.rules.separator)
        elif pa.types.is_map(array.type):
            array = array.cast(pa.list_(pa.struct([("key", array.type.key_type), ("value", array.type.item_type)])))
        lengths = array.value_lengths().to_numpy(zero_copy_only=False)
        self._see_entries(array.flatten(), np.repeat(np.arange(len(lengths)), lengths))

    def _see_entries(self, entries: pa.Array, owners: Integers) -> None:
        import pyarrow as pa

        if pa.types.is_struct(entries.type) and entries.type.num_fields == 2:
            keys, numbers = entries.flatten()
        elif cell.is_text(entries.type) and self.pairs and self._all_pairs(entries):
            keys, numbers, _ = cell.pairs(entries, BETWEEN)
        else:
            self.pairs = self.pairs and not len(entries)
            keys, numbers = entries, None
        # What a user holds twice is held once.
        codes = np.asarray(cell.plain(keys).dictionary_encode().indices.fill_null(-1), dtype=np.int64)
        once = first_of_each(owners, codes)
        self.longest = max(self.longest, int(np.bincount(owners[once], minlength=1).max()))
        self.whole.see(keys.take(pa.array(once)), self.rules)
        if numbers is not None:
            self.paired.see(numbers, self.rules)


def _is_whole(text: str) -> bool:
    return text.lstrip("+-").isdecimal()
