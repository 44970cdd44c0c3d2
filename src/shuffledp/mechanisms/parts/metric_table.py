"""Tables on a finite space that are private for a distance, to the last unit, and their law: near inputs hide better.

Each input sends one of the inputs or nothing (the last column). Whole weights near the wished-for ones are lowered
until no entry exceeds e^D times another of its column; what each row then lacks to the common sum goes to the last
column, and the sum is the least for which that column keeps its ratios too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb, fmpq
from numpy.typing import NDArray

from shuffledp import argument
from shuffledp.mechanisms.parts.table_law import TableLaw, Triple, either_way, merged_columns
from shuffledp.mechanisms.parts.unit_table import UnitTable
from shuffledp.numerics.ball import above, precision, round_up, whole_below
from shuffledp.privacy.neighbours import Neighbours, attack_of, identical, of_one_pair, of_parameters
from shuffledp.privacy.pair import Classes, HidingPair, MessageClass
from shuffledp.privacy.space import DistanceMatrix

Whole = NDArray[np.object_]
"""Python's integers, which never overflow."""
UNITS = 1 << 61
"""About how many units a row has in all."""
RATIO_BITS = 100
LARGEST_DISTANCE = 36.0
"""At this distance a weight still has thousands of units."""
SMALLEST_DISTANCE = 1e-9
"""Two inputs this near still get different whole weights."""
MOST_PAIRS, MOST_KINDS = 2016, 300
"""Up to this many pairs, and kinds of pairs, each has its blanket; beyond, the worst parameters speak for all."""


@dataclass(frozen=True)
class UnitClasses:
    """Classes of two rows and a hiding law in whole units, each law with its own sum."""

    columns: tuple[Triple, ...]
    sums: Triple

    def __call__(self) -> Classes:
        return [
            MessageClass(*(arb(fmpq(x, whole)) for x, whole in zip(c, self.sums, strict=True))) for c in self.columns
        ]


@dataclass(frozen=True)
class MetricLaw(TableLaw):
    """The law of a table whose rows a, b differ by a factor of at most e^D(a,b) in every column, exactly."""

    space: DistanceMatrix
    """The privacy distances D."""

    @cached_property
    def _floor(self) -> NDArray[np.int64]:
        """The least entry of each column: what every input's law contains."""
        return np.asarray(self.table.units.min(axis=0))

    def blankets(self) -> Sequence[HidingPair]:
        """Every kind of pair, the one that differs most first; where there are too many, the worst parameters."""
        return self._all_kinds or [self.variation_ratio().pair(0.0)]

    @cached_property
    def _all_kinds(self) -> list[HidingPair]:
        return self._kinds(list(self.space.pairs()))

    def _kinds(self, pairs: Sequence[tuple[int, int]]) -> list[HidingPair]:
        """The different pairs against what every input's law contains, those that differ most first; [] if too many."""
        if len(pairs) > MOST_PAIRS:
            return []
        kinds = {either_way(self._columns_of(a, b, self._floor)) for a, b in pairs}
        if len(kinds) > MOST_KINDS:
            return []
        ordered = sorted(kinds, key=lambda kind: (sum(abs(x - y) for x, y, _ in kind), kind), reverse=True)
        return [self.pair(kind) for kind in ordered]

    def _columns_of(self, a: int, b: int, hiding: NDArray[np.int64]) -> list[Triple]:
        """Two rows and a hiding law, proportional columns put together, those that are never sent left out."""
        units = self.table.units
        sent = units.any(axis=0)
        return merged_columns(units[a][sent], units[b][sent], hiding[sent])

    # --- near inputs ------------------------------------------------------------------------------------------

    def between(self, a: int, b: int) -> Neighbours:
        """The exact laws of two inputs against what every input's law contains."""
        if a == b:
            return identical()
        return of_one_pair(self._classes(a, b, self._floor, self.table.whole), self._attacks(a, b))

    def _classes(self, a: int, b: int, hiding: NDArray[np.int64], total: int) -> UnitClasses:
        """Two rows and a hiding law in units of 1/total."""
        whole = self.table.whole
        return UnitClasses(tuple(self._columns_of(a, b, hiding)), (whole, whole, total))

    def _attacks(self, a: int, b: int) -> list[HidingPair]:
        """All others hold the input that is farthest from both, or one of the two by chance."""
        units, whole = self.table.units, self.table.whole
        far = int(np.argmax(np.exp(self.space.matrix[a]) + np.exp(self.space.matrix[b])))
        crowds = [(units[far], whole), (units[a] + units[b], 2 * whole)]
        return [attack_of(self._classes(a, b, crowd, total)) for crowd, total in crowds]

    def within(self, diameter: float) -> Neighbours:
        """Every two inputs at most this far apart; attacked with those of them, surely so near, that differ most."""
        near = list(self.near(argument.positive_finite(self.who, "diameter", diameter, up=True)))
        if not near:
            raise ValueError(
                f"{self.who}: diameter must be at least the smallest distance {self.space.smallest!r}, "
                f"got {diameter!r}."
            )
        near.sort(key=lambda pair: self._variation(*pair), reverse=True)
        worst = near[0]
        with precision(2 * RATIO_BITS):
            p = round_up(arb(max(float(self.space.matrix[pair]) for pair in near)).exp())
        found = of_parameters(p, above(Fraction(self._variation(*worst), self.table.whole)), self.variation_ratio().p)
        pairs = self._kinds(near) or found.blankets()
        attacked = next((pair for pair in near if self.surely_near(*pair, diameter)), None)
        attacks = () if attacked is None else tuple(self._attacks(*attacked))
        return Neighbours(found.parameters, tuple(pairs), attacks)

    def _variation(self, a: int, b: int) -> int:
        """The total variation of two inputs in units."""
        return int(np.maximum(self.table.units[a] - self.table.units[b], 0).sum())

    def near(self, diameter: float) -> Iterator[tuple[int, int]]:
        """The pairs of inputs at most this far apart."""
        return ((a, b) for a, b in self.space.pairs() if self.space.matrix[a, b] <= diameter)

    def surely_near(self, a: int, b: int, diameter: float) -> bool:
        """Whether two such inputs are known that are at most this far apart: by their matrix, always."""
        return True


def private_table(space: DistanceMatrix, weights: Sequence[Sequence[arb]]) -> UnitTable:
    """The table near these weights, given as balls of any common scale, that is private for the distances."""
    ratios = ratios_below(space)
    scale = units_of_one(space, np.array([float(sum(row, arb(0)).mid()) for row in weights]))
    rows = np.array([[whole_units(weight, scale) for weight in row] for row in weights], dtype=object)
    return UnitTable(with_rest(lowered(rows, ratios), ratios).astype(np.int64))


def ratios_below(space: DistanceMatrix) -> Whole:
    """e^D in units of 2^-100, rounded down."""
    with precision(4 * RATIO_BITS):
        return np.array([[ratio_below(float(distance)) for distance in row] for row in space.matrix], dtype=object)


def ratio_below(distance: float) -> int:
    """e^distance in units of 2^-100, rounded down."""
    return whole_below(arb(distance).exp() * arb(2) ** RATIO_BITS)


def units_of_one(space: DistanceMatrix, sums: NDArray[np.float64]) -> arb:
    """Units of weight 1 with which the common sum of rows with these sums of weights is about UNITS."""
    excess = np.expm1(space.matrix)
    np.fill_diagonal(excess, np.inf)
    most = sums[:, None] + (sums[:, None] - sums) / excess
    return arb(UNITS) / arb(float(most.max()))


def whole_units(weight: arb, scale: arb) -> int:
    """A weight in whole units, at least one."""
    return max(1, whole_below(weight * scale))


def lowered(rows: Whole, ratios: Whole) -> Whole:
    """The largest whole entries below the given ones with entry(a) ≤ e^D(a,b)·entry(b) in every column.

    Entries only fall, and none below 1, so that this ends; where the weights were private but for rounding it ends
    after a step or two.
    """
    rows = rows.copy()
    for column in rows.T:
        while True:
            least = ((ratios * column) >> RATIO_BITS).min(axis=1)
            if (least >= column).all():
                break
            np.minimum(column, least, out=column)
    return rows


def with_rest(rows: Whole, ratios: Whole) -> Whole:
    """The rows with a last column that fills them up to the least common sum for which it keeps its ratios.

    The rest W − Σa is at most e^D times W − Σb exactly if W ≥ (e^D·Σb − Σa)/(e^D − 1).
    """
    sums = rows.sum(axis=1)
    one, whole = 1 << RATIO_BITS, max(sums)
    for a, line in enumerate(ratios):
        for b, ratio in enumerate(line):
            if a != b:
                whole = max(whole, -((one * sums[a] - ratio * sums[b]) // (ratio - one)))
    return np.concatenate([rows, (whole - sums)[:, None]], axis=1)


def checked_space(who: str, distances: Any) -> DistanceMatrix:
    """A metric whose distances a table of whole units can follow."""
    space = distances if isinstance(distances, DistanceMatrix) else DistanceMatrix(distances)
    space.must_be_metric(who)
    if space.diameter > LARGEST_DISTANCE:
        raise ValueError(f"{who}: distances must be at most {LARGEST_DISTANCE:g}, got {space.diameter!r}.")
    if space.smallest < SMALLEST_DISTANCE:
        raise ValueError(f"{who}: distances must be at least {SMALLEST_DISTANCE:g}, got {space.smallest!r}.")
    return space
