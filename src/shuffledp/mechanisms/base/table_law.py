"""Output laws given as tables of exact probabilities: sampler, ratios, total variation, blankets and attacks.

A mechanism class that knows its output law as a table of exact fractions gets its law in one line:
``TableLaw.from_rows("Mine", rows)``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from numbers import Rational
from typing import Any

import numpy as np
from flint import arb, fmpq

from shuffledp._core import validation
from shuffledp._core.errors import NotApplicable
from shuffledp._core.results_and_value_objects import ValueObject
from shuffledp._core.validation import Array, Floats, Integers
from shuffledp.mechanisms.base.law import Law
from shuffledp.numerics.ball_arithmetic import float_above, float_below, precision, round_up, to_rational
from shuffledp.numerics.worst_case_positive_part import MessageProbabilities
from shuffledp.privacy.dominating_pairs import HidingPair, MixedOtherUsers, OtherUsers, exact_pair
from shuffledp.privacy.randomizer_interface import TruncatedRandomizer
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling.random_sources import RandomSource

# --- Tables in whole units, sampled exactly: one row per input, one column per output ---


MAX_TOTAL_UNITS = 1 << 62
"""Probability 1 in whole units if floats are given: this, or slightly less where rounding down lost some."""
MAX_BLOCK_USERS = 1 << 20


@dataclass(frozen=True, eq=False)
class UnitTable:
    """Table of whole numbers whose rows have the same sum, which is probability 1.

    Two tables are equal if all their numbers are. Units finer than 2^-62 are stored as Python integers: such a table
    supports every privacy computation, but cannot be sampled.

    Args:
        units: One row per input, one column per output.
    """

    units: Array

    def __post_init__(self) -> None:
        units = np.array(self.units)
        units.setflags(write=False)
        object.__setattr__(self, "units", units)

    @classmethod
    def from_rows(cls, who: str, rows: Any) -> UnitTable:
        """Returns the table of exact fractions, or of floats, which are rounded to whole units of about 2^-62.

        Floats are normalised; zeros stay zero, and no other entry becomes zero.

        Args:
            who: Name that begins error messages.
            rows: Probabilities, one row per input; rows of fractions must sum to 1.

        Returns:
            The table.

        Raises:
            TypeError: If an entry is not a number.
            ValueError: If there are fewer than two rows, rows differ in length, an entry is negative or not finite, or
                fractions of a row do not sum to 1.
        """
        if all(isinstance(chance, Rational) for row in _to_rows(rows) for chance in row):
            return cls.from_fractions(who, [[Fraction(chance) for chance in row] for row in rows])
        return cls.from_floats(check_probabilities(who, rows))

    @classmethod
    def from_floats(cls, probabilities: Floats) -> UnitTable:
        """Returns the table whose rows are in proportion to these.

        Args:
            probabilities: Rows of non-negative numbers, not all 0.

        Returns:
            The table.
        """
        return cls(_round_to_units(probabilities))

    @classmethod
    def from_fractions(cls, who: str, rows: Sequence[Sequence[Fraction]]) -> UnitTable:
        """Returns the table of exactly these probabilities.

        Args:
            who: Name that begins error messages.
            rows: At least two rows of one length, each with sum 1.

        Returns:
            The table.

        Raises:
            ValueError: If there are fewer than two rows, rows differ in length, an entry is negative or a sum is not 1.
        """
        if len(rows) < 2 or len({len(row) for row in rows}) > 1:
            raise ValueError(f"{who}: expected at least two rows of probabilities, all of one length.")
        for number, row in enumerate(rows):
            if min(row, default=Fraction(0)) < 0 or sum(row) != 1:
                raise ValueError(f"{who}: the probabilities of input {number} must be 0 or more and sum to exactly 1.")
        whole = math.lcm(*(chance.denominator for row in rows for chance in row))
        units = [[chance.numerator * (whole // chance.denominator) for chance in row] for row in rows]
        return cls(np.array(units, dtype=np.int64 if whole <= MAX_TOTAL_UNITS else object))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnitTable) and np.array_equal(self.units, other.units)

    def __hash__(self) -> int:
        if self.units.dtype == np.int64:
            return hash((self.units.shape, self.units.tobytes()))
        return hash(tuple(map(tuple, self.units.tolist())))

    def __reduce__(self) -> tuple[type[UnitTable], tuple[Array]]:
        """Pickles only the numbers; the rebuilt array is read-only, too."""
        return type(self), (self.units,)

    @property
    def inputs(self) -> int:
        """The number of rows."""
        return len(self.units)

    @property
    def outputs(self) -> int:
        """The number of columns."""
        return int(self.units.shape[1])

    @cached_property
    def total_units(self) -> int:
        """The number of units of probability 1."""
        return int(self.units[0].sum())

    def fractions(self) -> tuple[tuple[Fraction, ...], ...]:
        """Returns the exact probabilities."""
        return tuple(tuple(Fraction(unit, self.total_units) for unit in row) for row in self.units.tolist())

    def find_farthest_rows(self) -> tuple[int, int]:
        """Returns the two rows with the largest ratio in one column."""
        least = self.units.min(axis=0)
        column = int(np.argmax(self.units.max(axis=0) / np.maximum(least, 0.5)))
        return int(np.argmax(self.units[:, column])), int(np.argmin(self.units[:, column]))

    # --- Sampling ---

    def draw(self, inputs: Integers, source: RandomSource) -> Integers:
        """Draws an output from each input's row, comparing exactly uniform whole numbers with whole thresholds.

        Args:
            inputs: Row numbers.
            source: Source of randomness.

        Returns:
            One column number per input.

        Raises:
            ValueError: If the units are finer than 2^-62.
        """
        if self.units.dtype != np.int64:
            raise ValueError("UnitTable: drawing needs units of at least 2^-62, got finer ones; draw in another way.")
        parts = range(0, len(inputs), MAX_BLOCK_USERS)
        return np.concatenate([self._draw(inputs[start : start + MAX_BLOCK_USERS], source) for start in parts])

    def _draw(self, inputs: Integers, source: RandomSource) -> Integers:
        draws = source.integers_below(self.total_units, len(inputs))
        # Users with the same input share one search; short integers sort in linear time.
        by_input = np.argsort(inputs.astype(np.min_scalar_type(len(self.units) - 1)), kind="stable")
        ends = np.cumsum(np.bincount(inputs, minlength=len(self.units)))
        messages = np.empty(len(inputs), dtype=np.int64)
        for thresholds, users in zip(self._thresholds, np.split(by_input, ends[:-1]), strict=True):
            messages[users] = thresholds.searchsorted(draws[users], side="right")
        return messages

    @cached_property
    def _thresholds(self) -> Integers:
        return np.cumsum(self.units, axis=1)


def check_probabilities(who: str, rows: Any) -> Floats:
    """Returns the rows, one per input, as a table of at least two rows of finite non-negative numbers."""
    try:
        array = np.asarray(rows)
    except ValueError:
        raise ValueError(f"{who}: expected rows of numbers, all of one length.") from None
    if array.dtype.kind not in "iufO":
        raise TypeError(f"{who}: expected a table of numbers, got {array.dtype}.")
    numbers = validation.reals(who, "probabilities", array)
    if numbers.ndim != 2:
        raise ValueError(f"{who}: expected a table (rows are inputs, columns are outputs), got shape {numbers.shape}.")
    inputs, outputs = numbers.shape
    if inputs < 2 or outputs < 1:
        raise ValueError(
            f"{who}: expected at least two inputs (rows) to tell apart and one output (column), "
            f"got {inputs} and {outputs}."
        )
    bad = np.argwhere(~((numbers >= 0) & (numbers < math.inf)))
    if len(bad):
        row, column = bad[0].tolist()
        value = float(numbers[row, column])
        raise ValueError(f"{who}: input {row}, output {column}: expected a probability, got {value!r}.")
    return numbers


def _to_rows(rows: Any) -> Sequence[Sequence[Any]]:
    """Returns the rows as lists; anything that is not a table becomes a row that the check of floats rejects."""
    try:
        return [list(row) for row in rows] or [[None]]
    except TypeError:
        return [[None]]


def _round_to_units(probabilities: Floats) -> Integers:
    """Returns rows in proportion to the given ones, in whole units: zeros stay zero, all else is at least one unit.

    Rounding down keeps equal entries of a row equal. The largest entry of each row with a smaller sum is then raised so
    that all sums agree; if rows are permutations of each other, no entry changes.
    """
    units = np.empty(probabilities.shape, dtype=np.int64)
    for row, numbers in enumerate(probabilities):
        different, places, counts = np.unique(numbers, return_inverse=True, return_counts=True)
        fractions = [number.as_integer_ratio() for number in different.tolist()]
        # Denominators of floats are powers of two, so the largest is a common denominator.
        common = max(below for _, below in fractions)
        exact = [top * (common // below) for top, below in fractions]
        total = sum(number * count for number, count in zip(exact, counts.tolist(), strict=True))
        whole = [max(1, number * MAX_TOTAL_UNITS // total) if number else 0 for number in exact]
        units[row] = np.array(whole, dtype=np.int64)[places]
    sums = units.sum(axis=1)
    # Entries raised to one unit may make a sum too large.
    units[np.arange(len(units)), units.argmax(axis=1)] += min(int(sums.max()), MAX_TOTAL_UNITS) - sums
    return units


MAX_ATTACKS = 8
MAX_PRODUCTS = 1 << 29
MAX_DATASET_SEARCH_SIZE = 1 << 26
"""Largest product of pairs, distinct inputs and kinds of messages for which all worst-case datasets are examined."""
MAX_MIXED_SEARCH_SIZE = 1 << 18
"""The same for the groups of a mixed population."""
MIN_TAIL_EPSILON = 8.0
"""Local ε above which some messages may hide so badly that it is better to count them towards δ."""
IGNORED_PROBABILITIES = (1e-5, 1e-8, 1e-11)
"""Probabilities of messages that an attacker ignores, because rare messages of great weight are hard to sum."""
NEAR_MAXIMUM_FACTOR = 1 - 1e-9
"""Floats at least this fraction of the largest are compared exactly."""

UnitTriple = tuple[int, int, int]
"""Units of the first input, the second input and the hiding law on one class of outputs."""


# --- The law ---


@dataclass(frozen=True)
class TableLaw(Law):
    """Law of a table in whole units; every privacy parameter is the exact maximum over all rows.

    Theorem: [VR] §4, (p, β)-variation and q-ratio: the exact maxima over all pairs of rows.

    Args:
        error_prefix: Name that begins error messages.
        table: The table that is executed.
    """

    error_prefix: str
    table: UnitTable

    tight = True

    @classmethod
    def from_rows(cls, who: str, rows: Any) -> TableLaw:
        """Returns the law of a table.

        If floats are given it is the law of `table.draw`, not of another way to sample from them.

        Args:
            who: Name that begins error messages.
            rows: Probabilities, one row per input, as for `UnitTable.from_rows`.

        Returns:
            The law.

        Raises:
            TypeError: If an entry is not a number.
            ValueError: If the rows are not a table of probabilities.
        """
        return cls(who, UnitTable.from_rows(who, rows))

    def coin_range(self) -> tuple[Fraction, Fraction] | None:
        units, whole = self.table.units, self.table.total_units
        columns = units[:, _nonempty_columns(units)]
        if columns.shape[1] != 2 or self._largest_ratio is None:
            return None
        return Fraction(int(columns[:, 0].min()), whole), Fraction(int(columns[:, 0].max()), whole)

    @property
    def epsilon(self) -> float:
        """The local guarantee, the logarithm of the largest ratio, rounded up; infinity if there is none."""
        ratio = self._largest_ratio
        if ratio is None:
            return math.inf
        with precision(128):
            return max(0.0, round_up(arb(to_rational(ratio)).log()))

    @cached_property
    def _largest_ratio(self) -> Fraction | None:
        """The largest ratio over all columns and pairs of rows; None if a zero stands against a non-zero."""
        least, most = self._reduced_table.min(axis=0), self._reduced_table.max(axis=0)
        if not least.all():
            return None
        ratios = most / least
        near = np.flatnonzero(ratios >= ratios.max() * NEAR_MAXIMUM_FACTOR)
        return max(Fraction(int(most[column]), int(least[column])) for column in near)

    def _require_finite_ratio(self) -> Fraction:
        if self._largest_ratio is None:
            units = self.table.units
            column = int(np.flatnonzero((units == 0).any(axis=0) & (units > 0).any(axis=0))[0])
            zero, largest = np.argmin(units[:, column]), np.argmax(units[:, column])
            raise NotApplicable(
                self.error_prefix,
                f"no finite ratio exists, because input {largest} may send output {column} "
                f"and input {zero} never does; give every input some probability there.",
            )
        return self._largest_ratio

    @cached_property
    def _reduced_table(self) -> Array:
        """The table for privacy computations: distinct rows, proportional columns merged, empty columns left out."""
        rows = _distinct_rows(self.table.units)
        return _merge_proportional_columns(rows[:, _nonempty_columns(rows)]).T

    def variation_ratio(self) -> VariationRatio:
        """Returns the worst case over all pairs of inputs and all others: p = q, since all users run one table."""
        ratio = self._require_finite_ratio()
        if ratio == 1:
            barely = math.nextafter(1.0, math.inf)
            return VariationRatio(p=barely, beta=0.0, q=barely)
        p = float_above(ratio)
        variation, _, _ = max(self._total_variations())
        beta = float_above(Fraction(variation, self.table.total_units))
        return VariationRatio(p=p, beta=beta, q=p, q_common=float_above(self._common_ratio(Fraction(p))))

    def _total_variations(self) -> Iterator[tuple[int, int, int]]:
        """Yields, for each row, the largest total variation (in units) to a later row, and both row numbers."""
        rows = self._reduced_table
        for first in range(len(rows) - 1):
            excess = np.maximum(rows[first] - rows[first + 1 :], 0).sum(axis=1)
            farthest = int(np.argmax(excess))
            yield int(excess[farthest]), first, first + 1 + farthest

    def _common_ratio(self, p: Fraction) -> Fraction:
        """Returns the least q_common for all pairs: common part min − |a−b|/(p−1) against the spare part of the others.

        With a ≥ b and least entry h in a column it is 1 + (p−1)(b−h)/((p−1)h − (a−b)), which grows in a and in b:
        the two largest entries of each column decide.
        """
        ordered = np.sort(self._reduced_table, axis=0)
        least, second, most = (ordered[row].tolist() for row in (0, -2, -1))
        return max(
            1 + (p - 1) * (b - h) / ((p - 1) * h - (a - b)) if b > h else Fraction(1)
            for h, b, a in zip(least, second, most, strict=True)
        )

    def blankets(self) -> Sequence[HidingPair]:
        """Returns every pair of different rows, each kind once; their number grows with the square of the inputs."""
        self._require_finite_ratio()
        rows, whole = self._reduced_table, self.table.total_units
        if len(rows) == 1:
            return [self.pair([(whole, whole, whole)])]
        hiding = rows.min(axis=0)
        kinds = dict.fromkeys(canonicalize_pair(merge_columns(a, b, hiding)) for a, b in combinations(rows, 2))
        return [self.pair(kind) for kind in kinds]

    def attacks(self) -> Sequence[HidingPair]:
        """Returns pairs of inputs among others who all hold the same input, the worst ones if there are few enough.

        Added to them are the two inputs that differ most, where all others hold one of a few inputs, or one of these
        two at random. Messages that no other user sends are ignored: an attacker may use less than all information.
        """
        rows = self._reduced_table
        if len(rows) == 1:
            return []
        _, first, second = max(self._total_variations())
        table, others = UnitRows(rows, self.table.total_units), [rows[first] + rows[second]]
        hard = table.worst_triples()
        worst = [self.pair(table.classes(rows[a], b, third)) for a, b, third in hard]
        if self.has_tails:
            worst += [self._truncate(share).pair(*triple) for triple in hard for share in IGNORED_PROBABILITIES]
        if not worst:
            others += list(rows[:MAX_ATTACKS])
        return [*worst, *(self._attack(rows[first], rows[second], each) for each in others)]

    def _attack(self, first: Array, second: Array, hiding: Array) -> HidingPair:
        there = hiding > 0
        return self.pair(merge_columns(first[there], second[there], hiding[there]), others=sum(hiding.tolist()))

    def other_users(self) -> Sequence[OtherUsers]:
        """Returns every pair of different rows, where another user may hold any row."""
        rows = self._reduced_table
        pairs = list(combinations(range(len(rows)), 2))
        if self._largest_ratio is None or not pairs or len(pairs) * rows.size > MAX_DATASET_SEARCH_SIZE:
            return []
        shared = float_below(Fraction(sum(rows.min(axis=0).tolist()), self.table.total_units))
        table = UnitRows(rows, self.table.total_units)
        return [RowOtherUsers(shared, False, table, table, a, b) for a, b in pairs]

    def mixed_other_users(self, hiders: Sequence[Law]) -> Sequence[MixedOtherUsers]:
        """Returns the mixed hiding laws of tables with the same number of columns: column j is message j of each."""
        laws = [law for law in hiders if isinstance(law, TableLaw) and law.message_count == self.message_count]
        tables = [_distinct_rows(law.table.units) for law in laws]
        row_count, pairs = sum(map(len, tables)), list(combinations(_distinct_rows(self.table.units), 2))
        if len(laws) < len(hiders) or len(pairs) * row_count * self.message_count > MAX_MIXED_SEARCH_SIZE:
            return ()
        wholes = [law.table.total_units for law in laws]
        common = math.lcm(*wholes)
        least = np.min([table.min(axis=0).astype(object) * (common // whole)
                        for table, whole in zip(tables, wholes, strict=True)], axis=0)  # fmt: skip
        gamma = float_below(Fraction(sum(least.tolist()), common))
        if not gamma > 0 or not all(table.all() for table in tables):
            return ()
        result = []
        for a, b in pairs:
            aligned = tuple(
                tuple(
                    unit_pair(
                        list(zip(a.tolist(), b.tolist(), row.tolist(), strict=True)), self.table.total_units, whole
                    )
                    for row in table
                )
                for table, whole in zip(tables, wholes, strict=True)
            )
            groups = tuple(
                tuple(self.pair(merge_columns(a, b, row.astype(a.dtype)), others=whole) for row in table)
                for table, whole in zip(tables, wholes, strict=True)
            )
            result.append(MixedOtherUsers((gamma,) * len(laws), groups, symmetric=False, aligned=aligned))
        return result

    @property
    def message_count(self) -> int:
        """The number of messages."""
        return self.table.outputs

    # --- Truncation of messages that other inputs hardly ever send ---

    @property
    def has_tails(self) -> bool:
        """True if cutting off rare messages helps."""
        return self.epsilon > MIN_TAIL_EPSILON

    def truncate_tails(self, share: float) -> TruncatedTable | None:
        """Truncates the rows of user 1 by the messages that hide worst, up to a probability of `share`.

        Args:
            share: Probability that may be cut from each row. Messages that some input never sends are always cut.

        Returns:
            The truncated randomizer, or None if no message is sent by all inputs.
        """
        return self._truncate(share) if self._reduced_table.min(axis=0).any() else None

    def _truncate(self, share: float) -> TruncatedTable:
        rows, whole = self._reduced_table, self.table.total_units
        truncated, lost = _truncate_worst(rows, int(Fraction(share) * whole))
        return TruncatedTable(
            self.error_prefix, UnitRows(rows, whole), UnitRows(truncated, whole), float_above(Fraction(lost, whole))
        )

    def pair(self, classes: Sequence[UnitTriple], others: int | None = None) -> HidingPair:
        """Returns two rows against a hiding law, which may have its own units.

        Args:
            classes: Units of the first row, the second row and the hiding law on each class of outputs.
            others: Units of probability 1 of the hiding law, if they differ.

        Returns:
            The pair.
        """
        return unit_pair(classes, self.table.total_units, others)


@dataclass(frozen=True, eq=False)
class UnitRows(ValueObject):
    """Laws of some inputs in whole units, one per row."""

    units: Array
    total_units: int

    @cached_property
    def floats(self) -> Floats:
        return np.array([[chance / self.total_units for chance in row] for row in self.units.tolist()])

    def worst_triples(self, most: int = 2) -> list[tuple[int, int, int]]:
        """Returns two rows and a third with the largest Σ (first − second)²/third, over the third row's messages.

        All others holding the third row hide the two worst. The list is empty if there are too many rows to compare.
        """
        rows = self.floats
        if len(rows) ** 2 * rows.size > MAX_PRODUCTS:
            return []
        triples = []
        for third, row in enumerate(rows):
            there = row > 0
            products = rows[:, there] / row[there] @ rows[:, there].T
            own = np.diag(products)
            spread = np.triu(own[:, None] + own - 2 * products)
            place = int(np.argmax(spread))
            triples.append((float(spread.flat[place]), (*divmod(place, len(rows)), third)))
        triples.sort(reverse=True)
        return [(int(a), int(b), third) for _, (a, b, third) in triples[:most]]

    def classes(self, first: Array, second: int, third: int) -> tuple[UnitTriple, ...]:
        """Returns the classes of messages that the third row sends; user 1 has the law `first` or row `second`."""
        there = self.units[third] > 0
        return tuple(merge_columns(first[there], self.units[second, there], self.units[third, there]))


@dataclass(frozen=True)
class TruncatedTable(TruncatedRandomizer):
    """Table with truncated rows `truncated_rows`, each of which lost a probability of at most `truncated_mass`."""

    error_prefix: str
    table: UnitRows
    truncated_rows: UnitRows
    truncated_mass: float

    def truncation_delta(self, epsilon: float) -> float:
        return self.truncated_mass

    def variation_ratio(self) -> VariationRatio:
        raise NotApplicable(
            self.error_prefix,
            "some input sends messages that another hardly ever sends, so that no finite ratio exists.",
        )

    def blankets(self) -> Sequence[HidingPair]:
        """Returns every pair of rows against the column minima; each direction truncates its own first row."""
        rows = self.table.units
        pairs = [self._pair_against(a, b, rows.min(axis=0)) for a, b in combinations(range(len(rows)), 2)]
        # A table that is its own mirror image has every pair twice.
        return list({frozenset((pair.classes, pair.reverse_classes)): pair for pair in pairs}.values())

    def pair(self, a: int, b: int, third: int) -> HidingPair:
        """Returns two rows where all others have a third one; the truncated messages of user 1 are ignored."""
        return self._pair_against(a, b, self.table.units[third])

    def _pair_against(self, a: int, b: int, hiding: Array) -> HidingPair:
        there = hiding > 0
        one, other = (
            unit_pair(merge_columns(*(each[there] for each in triple)), self.table.total_units).classes
            for triple in (
                (self.truncated_rows.units[a], self.table.units[b], hiding),
                (self.truncated_rows.units[b], self.table.units[a], hiding),
            )
        )
        return HidingPair(one, False, reverse_classes=other)

    def attacks(self) -> Sequence[HidingPair]:
        return ()

    def other_users(self) -> Sequence[OtherUsers]:
        rows = self.table.units
        pairs = list(combinations(range(len(rows)), 2))
        if len(pairs) * rows.size > MAX_DATASET_SEARCH_SIZE:
            return ()
        shared = float_below(Fraction(sum(rows.min(axis=0).tolist()), self.table.total_units))
        return [RowOtherUsers(shared, False, self.table, self.truncated_rows, a, b) for a, b in pairs]


@dataclass(frozen=True)
class RowOtherUsers(OtherUsers):
    """Two rows of a table, where another user may have any row.

    Messages that another user never sends are left out for that kind: user 1 does not send them as the first, and as
    the second they lower the divergence.
    """

    table: UnitRows
    first_rows: UnitRows
    """Rows as the first of a pair: those of the table, or truncated."""
    first: int
    second: int

    @cached_property
    def signature(self) -> frozenset[object]:
        return frozenset(self._classes)

    @cached_property
    def _classes(self) -> tuple[tuple[UnitTriple, ...], ...]:
        return tuple(self._classes_of_row(third) for third in range(len(self.table.units)))

    def _classes_of_row(self, third: int) -> tuple[UnitTriple, ...]:
        return self.table.classes(self.first_rows.units[self.first], self.second, third)

    @cached_property
    def user_pairs(self) -> tuple[HidingPair, ...]:
        return tuple(unit_pair(classes, self.table.total_units) for classes in dict.fromkeys(self._classes))

    def user_pair(self, place: int) -> HidingPair:
        return unit_pair(self._classes_of_row(place), self.table.total_units)

    def swapped(self) -> OtherUsers:
        return replace(self, first=self.second, second=self.first)

    @property
    def probabilities(self) -> MessageProbabilities:
        rows = self.table.floats
        return MessageProbabilities(self.first_rows.floats[self.first], rows[self.second], rows)

    def largest_log_ratio(self) -> float:
        return self.user_pair(self.first).largest_log_ratio()


def unit_pair(classes: Sequence[UnitTriple], whole: int, others: int | None = None) -> HidingPair:
    """Returns the pair of two rows in units of 1/`whole` and a hiding law in units of 1/`others`."""
    hiding_units = others or whole
    exact = [(fmpq(first, whole), fmpq(second, whole), fmpq(hiding, hiding_units)) for first, second, hiding in classes]
    return exact_pair(exact, symmetric=sorted(classes) == _swap_classes(classes))


def merge_columns(first: Array, second: Array, hiding: Array) -> list[UnitTriple]:
    """Merges columns with proportional entries, in a fixed order."""
    merged = _merge_proportional_columns(np.stack([first, second, hiding]))
    return sorted((a, b, h) for a, b, h in merged.tolist())


def canonicalize_pair(classes: Sequence[UnitTriple]) -> tuple[UnitTriple, ...]:
    """Returns a canonical form that is the same for a pair and the swapped pair."""
    return tuple(min(list(classes), _swap_classes(classes)))


def _swap_classes(classes: Sequence[UnitTriple]) -> list[UnitTriple]:
    return sorted((second, first, hiding) for first, second, hiding in classes)


def _truncate_worst(rows: Array, most: int) -> tuple[Array, int]:
    """Truncates each row by the messages of the largest ratios to the column minima, up to `most` units.

    Messages with a minimum of 0 are cut in any case. Also returns the largest number of units that a row lost.
    """
    truncated, most_lost = rows.copy(), 0
    least = rows.min(axis=0)
    for row in truncated:
        lost = int(row[least == 0].sum())
        row[least == 0] = 0
        ratios = [chance / low if low else 0.0 for chance, low in zip(row.tolist(), least.tolist(), strict=True)]
        for column in sorted(range(len(ratios)), key=lambda column: -ratios[column]):
            if lost + row[column] > most:
                break
            lost += int(row[column])
            row[column] = 0
        most_lost = max(most_lost, lost)
    return truncated, most_lost


def _nonempty_columns(rows: Array) -> Array:
    """Returns which columns are not empty."""
    return np.asarray((rows != 0).any(axis=0))


def _distinct_rows(rows: Array) -> Array:
    """Returns the distinct rows in ascending order."""
    if rows.dtype != object:
        return np.unique(rows, axis=0)
    return np.array(sorted(set(map(tuple, rows.tolist()))), dtype=object)


def _merge_proportional_columns(rows: Array) -> Array:
    """Returns the columns, as rows, with proportional ones merged, in ascending order of their shapes."""
    shapes = rows // np.gcd.reduce(rows, axis=0)
    if rows.dtype != object:
        _, kinds = np.unique(shapes, axis=1, return_inverse=True)
    else:
        keys = list(map(tuple, shapes.T.tolist()))
        place = {key: number for number, key in enumerate(sorted(set(keys)))}
        kinds = np.array([place[key] for key in keys])
    merged = np.zeros((int(kinds.max()) + 1, len(rows)), dtype=rows.dtype)
    np.add.at(merged, kinds.reshape(-1), rows.T)
    return merged
