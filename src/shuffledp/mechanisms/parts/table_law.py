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
from shuffledp.errors import NotApplicable
from shuffledp.mechanisms.parts.law import Law
from shuffledp.mechanisms.parts.unit_table import UnitTable
from shuffledp.numerics.ball import above, below, precision, rational, round_up
from shuffledp.numerics.many_crowds import FloatView
from shuffledp.privacy.cut_randomizer import CutRandomizer
from shuffledp.privacy.mixed_others import MixedOthers
from shuffledp.privacy.others import Others
from shuffledp.privacy.pair import HidingPair, exact_pair
from shuffledp.privacy.record import Record
from shuffledp.privacy.variation_ratio import VariationRatio

MOST_ATTACKS = 8
MOST_PRODUCTS = 1 << 29
MOST_CHANCES = 1 << 26
"""Pairs times different inputs times kinds of messages up to which every crowd is looked at."""
MOST_MIXED_CHANCES = 1 << 18
"""The same for the groups of a mixed crowd."""
LONG_TAILS = 8.0
"""Above this local ε some messages may hide so badly that it is better to count them to δ."""
UNSEEN = (1e-5, 1e-8, 1e-11)
"""Probabilities of what an attacker leaves out, because rare messages of great weight are hard to add up."""
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
            raise NotApplicable(
                self.who,
                f"no finite ratio exists, because input {sometimes} may send output {column} "
                f"and input {never} never does; give every input some probability there.",
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

        Or the two that differ most, all others holding one of a few inputs, or one of these two by chance. What nobody
        else sends is not looked at: an attacker may do less than there is to be done.
        """
        rows = self._columns
        if len(rows) == 1:
            return []
        _, first, second = max(self._total_variations())
        table, others = UnitRows(rows, self.table.whole), [rows[first] + rows[second]]
        hard = table.hard_to_hide()
        worst = [self.pair(table.classes(rows[a], b, third)) for a, b, third in hard]
        if self.has_tails:
            worst += [self._cut(share).pair(*triple) for triple in hard for share in UNSEEN]
        if not worst:
            others += list(rows[:MOST_ATTACKS])
        return [*worst, *(self._attack(rows[first], rows[second], each) for each in others)]

    def _attack(self, first: Array, second: Array, crowd: Array) -> HidingPair:
        there = crowd > 0
        return self.pair(merged_columns(first[there], second[there], crowd[there]), others=sum(crowd.tolist()))

    def others(self) -> Sequence[Others]:
        """Every pair of different rows, where another user may hold any row."""
        rows = self._columns
        pairs = list(combinations(range(len(rows)), 2))
        if self._largest_ratio is None or not pairs or len(pairs) * rows.size > MOST_CHANCES:
            return []
        shared = below(Fraction(sum(rows.min(axis=0).tolist()), self.table.whole))
        table = UnitRows(rows, self.table.whole)
        return [RowOthers(shared, False, table, table, a, b) for a, b in pairs]

    def among(self, hiders: Sequence[Law]) -> Sequence[MixedOthers]:
        """Tables with as many columns: column j is message j of each."""
        laws = [law for law in hiders if isinstance(law, TableLaw) and law.messages == self.messages]
        tables = [_different_rows(law.table.units) for law in laws]
        kinds, own = sum(map(len, tables)), _different_rows(self.table.units)
        pairs = list(combinations(own, 2))
        if len(laws) < len(hiders) or len(pairs) * kinds * self.messages > MOST_MIXED_CHANCES:
            return ()
        wholes = [law.table.whole for law in laws]
        common = math.lcm(*wholes)
        least = np.min([table.min(axis=0).astype(object) * (common // whole)
                        for table, whole in zip(tables, wholes, strict=True)], axis=0)  # fmt: skip
        gamma = below(Fraction(sum(least.tolist()), common))
        if not gamma > 0 or not all(table.all() for table in tables):
            return ()
        result = []
        for a, b in pairs:
            aligned = tuple(
                tuple(unit_pair(list(zip(a.tolist(), b.tolist(), row.tolist(), strict=True)), self.table.whole, whole)
                      for row in table)
                for table, whole in zip(tables, wholes, strict=True)
            )  # fmt: skip
            groups = tuple(
                tuple(self.pair(merged_columns(a, b, row.astype(a.dtype)), others=whole) for row in table)
                for table, whole in zip(tables, wholes, strict=True)
            )
            result.append(MixedOthers((gamma,) * len(laws), groups, symmetric=False, aligned=aligned))
        return result

    @property
    def messages(self) -> int:
        """How many there are."""
        return int(self.table.units.shape[1])

    # --- what another input hardly ever sends ------------------------------------------------------------------

    @property
    def has_tails(self) -> bool:
        return self.epsilon > LONG_TAILS

    def without_tails(self, share: float) -> CutTable | None:
        """Each row, as user 1's, without the messages that hide worst, as many as have a probability of ``share``.

        What some input never sends is always among them. None where no message is sent by all inputs.
        """
        return self._cut(share) if self._columns.min(axis=0).any() else None

    def _cut(self, share: float) -> CutTable:
        rows, whole = self._columns, self.table.whole
        left, lost = _without_worst(rows, int(Fraction(share) * whole))
        return CutTable(self.who, UnitRows(rows, whole), UnitRows(left, whole), above(Fraction(lost, whole)))

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
            there = row > 0
            products = rows[:, there] / row[there] @ rows[:, there].T
            own = np.diag(products)
            spread = np.triu(own[:, None] + own - 2 * products)
            place = int(np.argmax(spread))
            found.append((float(spread.flat[place]), (*divmod(place, len(rows)), third)))
        found.sort(reverse=True)
        return [(int(a), int(b), third) for _, (a, b, third) in found[:most]]

    def classes(self, first: Array, second: int, third: int) -> tuple[Triple, ...]:
        """The classes of messages that the third row sends, where user 1 has the law ``first`` or a row."""
        there = self.units[third] > 0
        return tuple(merged_columns(first[there], self.units[second, there], self.units[third, there]))


@dataclass(frozen=True)
class CutTable(CutRandomizer):
    """A table, and in ``firsts`` its rows without what was cut, a probability of at most ``mass``."""

    who: str
    table: UnitRows
    firsts: UnitRows
    mass: float

    def lost(self, epsilon: float) -> float:
        return self.mass

    def variation_ratio(self) -> VariationRatio:
        raise NotApplicable(self.who, "some input sends what another hardly ever does: no ratios tell of it.")

    def blankets(self) -> Sequence[HidingPair]:
        """Every pair of rows against the least of each column: the cut of either is that of its own direction."""
        rows = self.table.units
        found = [self._hidden_by(a, b, rows.min(axis=0)) for a, b in combinations(range(len(rows)), 2)]
        # A table that is its own mirror image has every pair twice.
        return list({frozenset((pair.classes, pair.back)): pair for pair in found}.values())

    def pair(self, a: int, b: int, third: int) -> HidingPair:
        """Two rows where everybody else has a third one: what user 1 sends rarely is not seen."""
        return self._hidden_by(a, b, self.table.units[third])

    def _hidden_by(self, a: int, b: int, hiding: Array) -> HidingPair:
        there = hiding > 0
        one, other = (
            unit_pair(merged_columns(*(each[there] for each in triple)), self.table.whole).classes
            for triple in (
                (self.firsts.units[a], self.table.units[b], hiding),
                (self.firsts.units[b], self.table.units[a], hiding),
            )
        )
        return HidingPair(one, False, back=other)

    def attacks(self) -> Sequence[HidingPair]:
        return ()

    def others(self) -> Sequence[Others]:
        rows = self.table.units
        pairs = list(combinations(range(len(rows)), 2))
        if len(pairs) * rows.size > MOST_CHANCES:
            return ()
        shared = below(Fraction(sum(rows.min(axis=0).tolist()), self.table.whole))
        return [RowOthers(shared, False, self.table, self.firsts, a, b) for a, b in pairs]


@dataclass(frozen=True)
class RowOthers(Others):
    """Two rows of a table, where another user may have any row.

    Messages that another user never sends are left out for that kind: user 1 does not send them as the first, and as
    the second they lower the divergence.
    """

    table: UnitRows
    firsts: UnitRows
    """The rows as the first of a pair: those of the table, or cut."""
    first: int
    second: int

    @cached_property
    def signature(self) -> frozenset[object]:
        return frozenset(self._classes)

    @cached_property
    def _classes(self) -> tuple[tuple[Triple, ...], ...]:
        return tuple(self._class(third) for third in range(len(self.table.units)))

    def _class(self, third: int) -> tuple[Triple, ...]:
        return self.table.classes(self.firsts.units[self.first], self.second, third)

    @cached_property
    def kinds(self) -> tuple[HidingPair, ...]:
        return tuple(unit_pair(classes, self.table.whole) for classes in dict.fromkeys(self._classes))

    def kind(self, place: int) -> HidingPair:
        return unit_pair(self._class(place), self.table.whole)

    def swapped(self) -> Others:
        return replace(self, first=self.second, second=self.first)

    @property
    def view(self) -> FloatView:
        rows = self.table.floats
        return FloatView(self.firsts.floats[self.first], rows[self.second], rows)

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


def _without_worst(rows: Array, most: int) -> tuple[Array, int]:
    """The rows without the messages of the largest ratios to the least row's, up to ``most`` units of each, and how
    many units that is where it is most; what the least row never sends is cut whatever it is."""
    left, lost = rows.copy(), 0
    least = rows.min(axis=0)
    for row in left:
        gone = int(row[least == 0].sum())
        row[least == 0] = 0
        ratios = [chance / low if low else 0.0 for chance, low in zip(row.tolist(), least.tolist(), strict=True)]
        for column in sorted(range(len(ratios)), key=lambda column: -ratios[column]):
            if gone + row[column] > most:
                break
            gone += int(row[column])
            row[column] = 0
        lost = max(lost, gone)
    return left, lost


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
