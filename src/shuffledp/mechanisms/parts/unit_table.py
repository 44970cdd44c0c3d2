"""A table of probabilities in whole units, run exactly as written: one row per input, one column per output."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from numbers import Rational
from typing import Any

import numpy as np

from shuffledp import argument
from shuffledp.array import Array, Floats, Integers
from shuffledp.sampling.random import RandomSource

UNITS = 1 << 62
"""Probability 1 in whole units where floats are given: this, or a few less where rounding down lost some."""
USERS_AT_ONCE = 1 << 20


@dataclass(frozen=True, eq=False)
class UnitTable:
    """Whole numbers, all rows with the same sum, which is probability 1.

    Two tables are equal if all their numbers are. Units finer than 2^-62 are kept as Python's integers: such a table
    answers every question of privacy, but cannot be drawn from.
    """

    units: Array

    def __post_init__(self) -> None:
        units = np.array(self.units)
        units.setflags(write=False)
        object.__setattr__(self, "units", units)

    @classmethod
    def of(cls, who: str, rows: Any) -> UnitTable:
        """A table of fractions, which are exact, or of floats, which are written in whole units of about 2^-62.

        Fractions must sum to 1 in each row. Floats are normalised; zeros stay zero, and nothing else becomes zero.
        """
        if all(isinstance(chance, Rational) for row in _rows(rows) for chance in row):
            return cls.of_fractions(who, [[Fraction(chance) for chance in row] for row in rows])
        return cls.of_floats(checked_probabilities(who, rows))

    @classmethod
    def of_floats(cls, probabilities: Floats) -> UnitTable:
        """The table whose rows are in proportion to these, which are not negative and not all 0."""
        return cls(_whole_units(probabilities))

    @classmethod
    def of_fractions(cls, who: str, rows: Sequence[Sequence[Fraction]]) -> UnitTable:
        """The table of exactly these probabilities."""
        if len(rows) < 2 or len({len(row) for row in rows}) > 1:
            raise ValueError(f"{who}: expected at least two rows of probabilities, all of one length.")
        for number, row in enumerate(rows):
            if min(row, default=Fraction(0)) < 0 or sum(row) != 1:
                raise ValueError(f"{who}: the probabilities of input {number} must be 0 or more and sum to exactly 1.")
        whole = math.lcm(*(chance.denominator for row in rows for chance in row))
        units = [[chance.numerator * (whole // chance.denominator) for chance in row] for row in rows]
        return cls(np.array(units, dtype=np.int64 if whole <= UNITS else object))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnitTable) and np.array_equal(self.units, other.units)

    def __hash__(self) -> int:
        if self.units.dtype == np.int64:
            return hash((self.units.shape, self.units.tobytes()))
        return hash(tuple(map(tuple, self.units.tolist())))

    def __reduce__(self) -> tuple[type[UnitTable], tuple[Array]]:
        """Only the numbers travel; made anew, they cannot be written to either."""
        return type(self), (self.units,)

    @property
    def inputs(self) -> int:
        return len(self.units)

    @property
    def outputs(self) -> int:
        return int(self.units.shape[1])

    @cached_property
    def whole(self) -> int:
        """The units of probability 1."""
        return int(self.units[0].sum())

    def fractions(self) -> tuple[tuple[Fraction, ...], ...]:
        """The exact probabilities."""
        return tuple(tuple(Fraction(unit, self.whole) for unit in row) for row in self.units.tolist())

    def farthest(self) -> tuple[int, int]:
        """The two rows of the largest ratio in one column."""
        least = self.units.min(axis=0)
        column = int(np.argmax(self.units.max(axis=0) / np.maximum(least, 0.5)))
        return int(np.argmax(self.units[:, column])), int(np.argmin(self.units[:, column]))

    # --- drawing ----------------------------------------------------------------------------------------------

    def draw(self, inputs: Integers, source: RandomSource) -> Integers:
        """An output of each input's row: exactly uniform whole numbers against whole thresholds."""
        if self.units.dtype != np.int64:
            raise ValueError("UnitTable: drawing needs units of at least 2^-62, got finer ones; draw in another way.")
        parts = range(0, len(inputs), USERS_AT_ONCE)
        return np.concatenate([self._draw(inputs[start : start + USERS_AT_ONCE], source) for start in parts])

    def _draw(self, inputs: Integers, source: RandomSource) -> Integers:
        draws = source.below(self.whole, len(inputs))
        # Users with the same input share one search; short numbers sort in linear time.
        by_input = np.argsort(inputs.astype(np.min_scalar_type(len(self.units) - 1)), kind="stable")
        ends = np.cumsum(np.bincount(inputs, minlength=len(self.units)))
        messages = np.empty(len(inputs), dtype=np.int64)
        for thresholds, users in zip(self._thresholds, np.split(by_input, ends[:-1]), strict=True):
            messages[users] = thresholds.searchsorted(draws[users], side="right")
        return messages

    @cached_property
    def _thresholds(self) -> Integers:
        return np.cumsum(self.units, axis=1)


def checked_probabilities(who: str, rows: Any) -> Floats:
    """A table of at least two rows of finite non-negative numbers."""
    try:
        given = np.asarray(rows)
    except ValueError:
        raise ValueError(f"{who}: expected rows of numbers, all of one length.") from None
    if given.dtype.kind not in "iufO":
        raise TypeError(f"{who}: expected a table of numbers, got {given.dtype}.")
    numbers = argument.reals(who, "probabilities", given)
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


def _rows(rows: Any) -> Sequence[Sequence[Any]]:
    """The rows where there are rows; what is no table is refused as one of floats."""
    try:
        return [list(row) for row in rows] or [[None]]
    except TypeError:
        return [[None]]


def _whole_units(probabilities: Floats) -> Integers:
    """Rows in proportion to the given ones, in whole units: zeros stay zero, all else at least one unit.

    Rounding down keeps equal entries of a row equal. Rows with a smaller sum than others then get what they lack at
    their largest entry, so that all sums are the same; where rows are rearrangements of each other, nothing is lacking.
    """
    units = np.empty(probabilities.shape, dtype=np.int64)
    for row, numbers in enumerate(probabilities):
        different, places, counts = np.unique(numbers, return_inverse=True, return_counts=True)
        fractions = [number.as_integer_ratio() for number in different.tolist()]
        # Denominators of floats are powers of two, so that the largest is common to all.
        common = max(below for _, below in fractions)
        exact = [top * (common // below) for top, below in fractions]
        total = sum(number * count for number, count in zip(exact, counts.tolist(), strict=True))
        whole = [max(1, number * UNITS // total) if number else 0 for number in exact]
        units[row] = np.array(whole, dtype=np.int64)[places]
    sums = units.sum(axis=1)
    # Entries raised to one unit may put a sum above.
    units[np.arange(len(units)), units.argmax(axis=1)] += min(int(sums.max()), UNITS) - sums
    return units
