"""The law of a table of probabilities: ratios, total variation, blankets and attacks, exact to the last unit.

A class of one's own that knows its output law as a table of exact fractions has its law in one line:
``TableLaw.of("Mine", rows)``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from flint import arb, fmpq

from shuffledp.array import Array, Floats
from shuffledp.mechanisms.parts.law import Law
from shuffledp.mechanisms.parts.unit_table import UnitTable
from shuffledp.numerics.ball import above, below, precision, rational, round_up
from shuffledp.numerics.many_crowds import FloatView
from shuffledp.privacy.others import Others
from shuffledp.privacy.pair import HidingPair, exact_pair
from shuffledp.privacy.record import Record
from shuffledp.privacy.variation_ratio import VariationRatio

MOST_ATTACKS = 8
MOST_PRODUCTS = 1 << 29
MOST_CHANCES = 1 << 26
"""Pairs times different inputs times kinds of messages up to which every crowd is looked at."""
NEAR = 1 - 1e-9
"""Floats this near to the largest are compared exactly."""

Triple = tuple[int, int, int]
"""Units of the first input, the second input and the hiding law on one class of outputs."""


@dataclass(frozen=True)
class TableLaw(Law):
    """Every answer about privacy is of the table in whole units, and exact: the worst over all rows.

    Theorem: [VR] §4, (p, β)-variation and q-ratio: the exact maxima over all pairs of rows.
    """

    who: str
    table: UnitTable

    tight = True

    @classmethod
    def of(cls, who: str, rows: Any) -> TableLaw:
        """The law of a table, rows are inputs: of fractions as they are, of floats as ``UnitTable`` writes them.

        Where floats are given it is the law of ``table.draw``, not of another way to draw from them.
        """
        return cls(who, UnitTable.of(who, rows))

    def coin_range(self) -> tuple[Fraction, Fraction] | None:
        units, whole = self.table.units, self.table.whole
        sent = units[:, _somewhere(units)]
        if sent.shape[1] != 2 or self._largest_ratio is None:
            return None
        return Fraction(int(sent[:, 0].min()), whole), Fraction(int(sent[:, 0].max()), whole)

    @property
    def epsilon(self) -> float:
        """The logarithm of the largest ratio, rounded up: the local guarantee; infinity where there is none."""
        ratio = self._largest_ratio
        if ratio is None:
            return math.inf
        with precision(128):
            return max(0.0, round_up(arb(rational(ratio)).log()))

    @cached_property
    def _largest_ratio(self) -> Fraction | None:
        """Over all columns and pairs of rows; None where a zero stands against a non-zero."""
        least, most = self._columns.min(axis=0), self._columns.max(axis=0)
        if not least.all():
            return None
        ratios = most / least
        near = np.flatnonzero(ratios >= ratios.max() * NEAR)
        return max(Fraction(int(most[column]), int(least[column])) for column in near)

    def _finite_ratio(self) -> Fraction:
        if self._largest_ratio is None:
            units = self.table.units
            column = int(np.flatnonzero((units == 0).any(axis=0) & (units > 0).any(axis=0))[0])
            never, sometimes = np.argmin(units[:, column]), np.argmax(units[:, column])
            raise ValueError(
                f"{self.who}: no finite ratio exists, because input {sometimes} may send output {column} "
                f"and input {never} never does; give every input some probability there."
            )
        return self._largest_ratio

    @cached_property
    def _columns(self) -> Array:
        """The table for questions of privacy: equal rows once, proportional columns as one, empty columns left out."""
        rows = _different_rows(self.table.units)
        return _merged(rows[:, _somewhere(rows)]).T

    def variation_ratio(self) -> VariationRatio:
        """The worst case over all pairs of inputs and all others: p = q, since user 1 and the others run one table."""
        ratio = self._finite_ratio()
        if ratio == 1:
            barely = math.nextafter(1.0, math.inf)
            return VariationRatio(p=barely, beta=0.0, q=barely)
        p = above(ratio)
        beta = above(Fraction(max(variation for variation, _, _ in self._total_variations()), self.table.whole))
        return VariationRatio(p=p, beta=beta, q=p, q_common=above(self._common_ratio(Fraction(p))))

    def _total_variations(self) -> Iterator[tuple[int, int, int]]:
        """For each row, the largest total variation (in units) to a later row, and both numbers."""
        rows = self._columns
        for first in range(len(rows) - 1):
            excess = np.maximum(rows[first] - rows[first + 1 :], 0).sum(axis=1)
            farthest = int(np.argmax(excess))
            yield int(excess[farthest]), first, first + 1 + farthest

    def _common_ratio(self, p: Fraction) -> Fraction:
        """The least q_common for all pairs: common part min − |a−b|/(p−1) against what is spare of the others.

        With a ≥ b and least entry h in a column it is 1 + (p−1)(b−h)/((p−1)h − (a−b)), which grows in a and in b:
        the two largest entries of each column decide.
        """
        ordered = np.sort(self._columns, axis=0)
        least, second, most = (ordered[row].tolist() for row in (0, -2, -1))
        return max(
            1 + (p - 1) * (b - h) / ((p - 1) * h - (a - b)) if b > h else Fraction(1)
            for h, b, a in zip(least, second, most, strict=True)
        )

    def blankets(self) -> Sequence[HidingPair]:
        """Every pair of different rows, each kind once; their number grows with the square of the inputs."""
        self._finite_ratio()
        rows, whole = self._columns, self.table.whole
        if len(rows) == 1:
            return [self.pair([(whole, whole, whole)])]
        hiding = rows.min(axis=0)
        kinds = dict.fromkeys(either_way(merged_columns(a, b, hiding)) for a, b in combinations(rows, 2))
        return [self.pair(kind) for kind in kinds]

    def attacks(self) -> Sequence[HidingPair]:
        """Two inputs, all others holding one and the same input: where that hides worst, if they are not too many.

        Or the two that differ most, all others holding one of a few inputs, or one of these two by chance.
        """
        rows = self._columns
        if self._largest_ratio is None or len(rows) == 1:
            return []
        _, first, second = max(self._total_variations())
        table, others = UnitRows(rows, self.table.whole), [rows[first] + rows[second]]
        worst = [self.pair(table.classes(*triple)) for triple in table.hard_to_hide()]
        if not worst:
            others += list(rows[:MOST_ATTACKS])
        victim = rows[first], rows[second]
        return [*worst, *(self.pair(merged_columns(*victim, each), others=sum(each.tolist())) for each in others)]

    def others(self) -> Sequence[Others]:
        """Every pair of different rows, where another user may hold any row."""
        rows = self._columns
        pairs = list(combinations(range(len(rows)), 2))
        if self._largest_ratio is None or not pairs or len(pairs) * rows.size > MOST_CHANCES:
            return []
        shared = below(Fraction(sum(rows.min(axis=0).tolist()), self.table.whole))
        table = UnitRows(rows, self.table.whole)
        return [RowOthers(shared, False, table, a, b) for a, b in pairs]

    def pair(self, classes: Sequence[Triple], others: int | None = None) -> HidingPair:
        """Two rows and a hiding law in units of its own."""
        return unit_pair(classes, self.table.whole, others)


@dataclass(frozen=True, eq=False)
class UnitRows(Record):
    """The laws of some inputs in whole units, a row each."""

    units: Array
    whole: int

    @cached_property
    def floats(self) -> Floats:
        return np.array([[chance / self.whole for chance in row] for row in self.units.tolist()])

    def hard_to_hide(self, most: int = 2) -> list[tuple[int, int, int]]:
        """Two rows and a third with the largest Σ (first − second)²/third: which hides worst, if all others have it.

        None where there are too many to look at all.
        """
        rows = self.floats
        if len(rows) ** 2 * rows.size > MOST_PRODUCTS:
            return []
        found = []
        for third, row in enumerate(rows):
            products = rows / row @ rows.T
            own = np.diag(products)
            spread = np.triu(own[:, None] + own - 2 * products)
            place = int(np.argmax(spread))
            found.append((float(spread.flat[place]), (*divmod(place, len(rows)), third)))
        found.sort(reverse=True)
        return [(int(a), int(b), third) for _, (a, b, third) in found[:most]]

    def classes(self, first: int, second: int, third: int) -> tuple[Triple, ...]:
        """The classes of messages where user 1 has one of two rows, and another user the third."""
        return tuple(merged_columns(self.units[first], self.units[second], self.units[third]))


@dataclass(frozen=True)
class RowOthers(Others):
    """Two rows of a table, where another user may have any row."""

    table: UnitRows
    first: int
    second: int

    @cached_property
    def signature(self) -> frozenset[object]:
        return frozenset(self._classes)

    @cached_property
    def _classes(self) -> tuple[tuple[Triple, ...], ...]:
        return tuple(self.table.classes(self.first, self.second, third) for third in range(len(self.table.units)))

    @cached_property
    def kinds(self) -> tuple[HidingPair, ...]:
        return tuple(unit_pair(classes, self.table.whole) for classes in dict.fromkeys(self._classes))

    def kind(self, place: int) -> HidingPair:
        return unit_pair(self.table.classes(self.first, self.second, place), self.table.whole)

    def swapped(self) -> Others:
        return replace(self, first=self.second, second=self.first)

    @property
    def view(self) -> FloatView:
        rows = self.table.floats
        return FloatView(rows[self.first], rows[self.second], rows)

    def largest_log_ratio(self) -> float:
        return self.kind(self.first).largest_log_ratio()


def unit_pair(classes: Sequence[Triple], whole: int, others: int | None = None) -> HidingPair:
    """Two rows in units of 1/``whole`` and a hiding law in units of its own."""
    crowd = others or whole
    exact = [(fmpq(first, whole), fmpq(second, whole), fmpq(hiding, crowd)) for first, second, hiding in classes]
    return exact_pair(exact, symmetric=sorted(classes) == _swapped(classes))


def merged_columns(first: Array, second: Array, hiding: Array) -> list[Triple]:
    """The columns with proportional entries put together, in a fixed order."""
    merged = _merged(np.stack([first, second, hiding]))
    return sorted((a, b, h) for a, b, h in merged.tolist())


def either_way(classes: Sequence[Triple]) -> tuple[Triple, ...]:
    """The same for a pair and the pair the other way round."""
    return tuple(min(list(classes), _swapped(classes)))


def _swapped(classes: Sequence[Triple]) -> list[Triple]:
    return sorted((second, first, hiding) for first, second, hiding in classes)


def _somewhere(rows: Array) -> Array:
    """Which columns are not empty."""
    return np.asarray((rows != 0).any(axis=0))


def _different_rows(rows: Array) -> Array:
    """Equal rows once, in ascending order."""
    if rows.dtype != object:
        return np.unique(rows, axis=0)
    return np.array(sorted(set(map(tuple, rows.tolist()))), dtype=object)


def _merged(rows: Array) -> Array:
    """The columns, as rows, with proportional ones put together, in ascending order of their shapes."""
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
