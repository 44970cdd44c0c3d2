"""Exponential mechanisms on a finite metric space: near inputs are likelier reports.

The file holds tables of whole units that are private for a distance, their law, and the mechanisms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb, fmpq
from numpy.typing import NDArray

from shuffledp._core import validation
from shuffledp._core.validation import Floats, Integers
from shuffledp.mechanisms.base.table_law import TableLaw, UnitTable, UnitTriple, canonicalize_pair, merge_columns
from shuffledp.mechanisms.base.table_mechanism import TableMechanism
from shuffledp.numerics.ball_arithmetic import float_above, integer_below, precision, round_up
from shuffledp.privacy.dominating_pairs import Classes, HidingPair, MessageClass
from shuffledp.privacy.input_pairs import (
    Neighbours,
    build_attack,
    identical_neighbours,
    neighbours_from_pair,
    neighbours_from_parameters,
)
from shuffledp.privacy.metric_space import DistanceMatrix
from shuffledp.privacy.randomizer_interface import HasNeighbours

# --- Tables on a finite space that are private for a distance, exactly ---
#
# Each input sends one of the inputs or nothing (the last column). Whole weights near the desired ones are lowered
# until no entry exceeds e^D times another of its column; the difference of each row to the common sum goes to the last
# column, and the sum is the least for which that column keeps its ratios too.


BigIntegers = NDArray[np.object_]
"""Python integers, which never overflow."""
TOTAL_UNITS = 1 << 61
"""About the number of units of a row."""
RATIO_BITS = 100
MAX_DISTANCE = 36.0
"""Largest distance, at which a weight still has thousands of units."""
MIN_DISTANCE = 1e-9
"""Smallest distance of two inputs with different whole weights."""
MAX_PAIRS, MAX_KINDS = 2016, 300
"""Most pairs, and kinds of pairs, that each have a blanket; beyond, the worst parameters stand for all."""


@dataclass(frozen=True)
class UnitClasses:
    """Classes of two rows and a hiding law in whole units, each law with its own sum."""

    columns: tuple[UnitTriple, ...]
    sums: UnitTriple

    def __call__(self) -> Classes:
        return [
            MessageClass(*(arb(fmpq(x, whole)) for x, whole in zip(c, self.sums, strict=True))) for c in self.columns
        ]


@dataclass(frozen=True)
class MetricLaw(TableLaw):
    """Law of a table whose rows a, b differ by a factor of at most e^D(a,b) in every column, exactly."""

    space: DistanceMatrix
    """The privacy distances D."""

    @cached_property
    def _floor(self) -> Integers:
        """The least entry of each column, which is below every input's law."""
        return np.asarray(self.table.units.min(axis=0))

    def blankets(self) -> Sequence[HidingPair]:
        """Returns every kind of pair, the one that differs most first; if there are too many, the worst parameters."""
        return self._all_kinds or [self.variation_ratio().pair(0.0)]

    @cached_property
    def _all_kinds(self) -> list[HidingPair]:
        return self._kinds(list(self.space.pairs()))

    def _kinds(self, pairs: Sequence[tuple[int, int]]) -> list[HidingPair]:
        """Returns the different pairs against the minimum of all laws, those that differ most first; [] if too many."""
        if len(pairs) > MAX_PAIRS:
            return []
        kinds = {canonicalize_pair(self._pair_columns(a, b, self._floor)) for a, b in pairs}
        if len(kinds) > MAX_KINDS:
            return []
        ordered = sorted(kinds, key=lambda kind: (sum(abs(x - y) for x, y, _ in kind), kind), reverse=True)
        return [self.pair(kind) for kind in ordered]

    def _pair_columns(self, a: int, b: int, hiding: Integers) -> list[UnitTriple]:
        """Returns two rows and a hiding law, merging proportional columns and omitting those that are never sent."""
        units = self.table.units
        sent = units.any(axis=0)
        return merge_columns(units[a][sent], units[b][sent], hiding[sent])

    # --- near inputs ---

    def neighbours_between(self, a: int, b: int) -> Neighbours:
        """Returns the exact laws of two inputs against the minimum of all laws."""
        if a == b:
            return identical_neighbours()
        return neighbours_from_pair(self._classes(a, b, self._floor, self.table.total_units), self._build_attacks(a, b))

    def _classes(self, a: int, b: int, hiding: Integers, total: int) -> UnitClasses:
        """Returns two rows and a hiding law in units of 1/total."""
        whole = self.table.total_units
        return UnitClasses(tuple(self._pair_columns(a, b, hiding)), (whole, whole, total))

    def _build_attacks(self, a: int, b: int) -> list[HidingPair]:
        """Returns attacks where all others hold the input that is farthest from both, or one of the two at random."""
        units, whole = self.table.units, self.table.total_units
        far = int(np.argmax(np.exp(self.space.matrix[a]) + np.exp(self.space.matrix[b])))
        hiding_laws = [(units[far], whole), (units[a] + units[b], 2 * whole)]
        return [build_attack(self._classes(a, b, hiding, total)) for hiding, total in hiding_laws]

    def neighbours_within(self, diameter: float) -> Neighbours:
        """Returns every two inputs at most this far apart; the attacks are on those surely so near that differ most."""
        near = list(self.near_pairs(validation.positive_finite(self.error_prefix, "diameter", diameter, up=True)))
        if not near:
            raise ValueError(
                f"{self.error_prefix}: diameter must be at least the smallest distance "
                f"{self.space.smallest_distance!r}, got {diameter!r}."
            )
        near.sort(key=lambda pair: self._variation(*pair), reverse=True)
        worst = near[0]
        with precision(2 * RATIO_BITS):
            p = round_up(arb(max(float(self.space.matrix[pair]) for pair in near)).exp())
        beta = float_above(Fraction(self._variation(*worst), self.table.total_units))
        from_parameters = neighbours_from_parameters(p, beta, self.variation_ratio().p)
        pairs = self._kinds(near) or from_parameters.blankets()
        attacked = next((pair for pair in near if self.is_surely_near(*pair, diameter)), None)
        attacks = () if attacked is None else tuple(self._build_attacks(*attacked))
        return Neighbours(from_parameters.parameters, tuple(pairs), attacks)

    def _variation(self, a: int, b: int) -> int:
        """Returns the total variation of two inputs in units."""
        return int(np.maximum(self.table.units[a] - self.table.units[b], 0).sum())

    def near_pairs(self, diameter: float) -> Iterator[tuple[int, int]]:
        """Returns the pairs of inputs at most this far apart."""
        return ((a, b) for a, b in self.space.pairs() if self.space.matrix[a, b] <= diameter)

    def is_surely_near(self, a: int, b: int, diameter: float) -> bool:
        """Returns True if two such inputs are certainly at most this far apart: always, for a matrix of distances."""
        return True


def private_table(space: DistanceMatrix, weights: Sequence[Sequence[arb]]) -> UnitTable:
    """Returns the table near these weights, given as balls of any common scale, that is private for the distances."""
    ratios = ratios_below(space)
    scale = units_per_weight(space, np.array([float(sum(row, arb(0)).mid()) for row in weights]))
    rows = np.array([[round_to_units(weight, scale) for weight in row] for row in weights], dtype=object)
    return UnitTable(add_rest_column(lower_to_ratios(rows, ratios), ratios).astype(np.int64))


def ratios_below(space: DistanceMatrix) -> BigIntegers:
    """Returns e^D in units of 2^-100, rounded down."""
    with precision(4 * RATIO_BITS):
        return np.array([[ratio_below(float(distance)) for distance in row] for row in space.matrix], dtype=object)


def ratio_below(distance: float | arb) -> int:
    """Returns e^distance in units of 2^-100, rounded down."""
    return integer_below(arb(distance).exp() * arb(2) ** RATIO_BITS)


def units_per_weight(space: DistanceMatrix, sums: Floats) -> arb:
    """Returns the units of weight 1 for which the common sum of rows with these sums is about `TOTAL_UNITS`."""
    excess = np.expm1(space.matrix)
    np.fill_diagonal(excess, np.inf)
    most = sums[:, None] + (sums[:, None] - sums) / excess
    return arb(TOTAL_UNITS) / arb(float(most.max()))


def round_to_units(weight: arb, scale: arb) -> int:
    """Returns a weight in whole units, at least one."""
    return max(1, integer_below(weight * scale))


def lower_to_ratios(rows: BigIntegers, ratios: BigIntegers) -> BigIntegers:
    """Returns the largest whole entries below the given ones with entry(a) ≤ e^D(a,b)·entry(b) in every column.

    Entries only fall, and none below 1, so the loop ends; if the weights were private but for rounding, after a step or
    two.
    """
    rows = rows.copy()
    for column in rows.T:
        while True:
            least = ((ratios * column) >> RATIO_BITS).min(axis=1)
            if (least >= column).all():
                break
            np.minimum(column, least, out=column)
    return rows


def add_rest_column(rows: BigIntegers, ratios: BigIntegers) -> BigIntegers:
    """Returns the rows with a last column that fills them up to the least common sum for which it keeps its ratios.

    The rest W − Σa is at most e^D times W − Σb exactly if W ≥ (e^D·Σb − Σa)/(e^D − 1).
    """
    sums = rows.sum(axis=1)
    one, whole = 1 << RATIO_BITS, max(sums)
    for a, line in enumerate(ratios):
        for b, ratio in enumerate(line):
            if a != b:
                whole = max(whole, -((one * sums[a] - ratio * sums[b]) // (ratio - one)))
    return np.concatenate([rows, (whole - sums)[:, None]], axis=1)


def check_largest_distance(who: str, name: str, value: object) -> float:
    """Returns a local ε that is the largest distance of a table of whole units."""
    number = validation.positive_finite(who, name, value)
    if not MIN_DISTANCE <= number <= MAX_DISTANCE:
        raise ValueError(f"{who}: {name} must be from {MIN_DISTANCE:g} to {MAX_DISTANCE:g}, got {number!r}.")
    return number


def check_space(who: str, distances: Any) -> DistanceMatrix:
    """Returns the metric; raises ValueError if a table of whole units cannot follow its distances."""
    space = distances if isinstance(distances, DistanceMatrix) else DistanceMatrix(distances)
    space.check_triangle_inequality(who)
    if space.diameter > MAX_DISTANCE:
        raise ValueError(f"{who}: distances must be at most {MAX_DISTANCE:g}, got {space.diameter!r}.")
    if space.smallest_distance < MIN_DISTANCE:
        raise ValueError(f"{who}: distances must be at least {MIN_DISTANCE:g}, got {space.smallest_distance!r}.")
    return space


PRECISION_BITS = 200


@dataclass(frozen=True, eq=False, repr=False)
class Exponential(TableMechanism, HasNeighbours):
    """Reports input z with probability in proportion to e^(−D(x,z)/2) when holding x.

    Half of each distance pays for the weights, half for their different sums. The table is one of whole units that is
    private for D exactly (``private_table``); the probability lost to rounding, below 1e-9, goes to a silent message.
    ``epsilon`` is the logarithm of the largest ratio of all.

    Theorem: exponential mechanism with the score −D(x,z): private for D.

    Args:
        distances: Privacy distances D, a square table with one row for each input: symmetric, 0 on the diagonal, and
            with the triangle inequality. A user's value is the number of a row, from 0.

    Raises:
        ValueError: If the distances are not a metric, or too small or too large.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.Exponential([[0.0, 0.5, 2.0], [0.5, 0.0, 2.0], [2.0, 2.0, 0.0]])
    >>> near, far = (sdp.amplify(mechanism, users=10_000, pair=(0, other)) for other in (1, 2))
    >>> f"{near.epsilon(delta=1e-6).upper:.4f}", f"{far.epsilon(delta=1e-6).upper:.4f}"
    ('0.0097', '0.0372')
    """

    distances: Floats
    epsilon: float = field(init=False)
    space: DistanceMatrix = field(init=False)

    name = "exponential"
    summary = "an item of a finite metric space: near items are likelier"
    use_case = "For a finite space whose distances matter: near values are hidden best."
    aliases = ("metric-exponential",)
    table_setting = "distances"

    def __post_init__(self) -> None:
        space = check_space("Exponential", self.distances)
        object.__setattr__(self, "space", space)
        object.__setattr__(self, "distances", space.matrix)
        with precision(PRECISION_BITS):
            table = private_table(space, self._weights())
        self._set_table(table)

    def _weights(self) -> list[list[arb]]:
        weights = [[(-arb(float(distance)) / 2).exp() for distance in row] for row in self.space.matrix]
        sums = [sum(row, arb(0)) for row in weights]
        return [[weight / total for weight in row] for row, total in zip(weights, sums, strict=True)]

    @cached_property
    def law(self) -> MetricLaw:
        return MetricLaw("Exponential", self.unit_table, self.space)

    def _equality_key(self) -> tuple[Any, ...]:
        return (self.space,)

    def neighbours_between(self, first: Any, second: Any) -> Neighbours:
        return self.law.neighbours_between(self.space.check_index(first), self.space.check_index(second))

    def neighbours_within(self, diameter: float) -> Neighbours:
        return self.law.neighbours_within(diameter)

    @classmethod
    def examples(cls) -> Sequence[Exponential]:
        tables = [
            [[0.0, 1.0], [1.0, 0.0]],
            [[0.0, 2.0, 3.0], [2.0, 0.0, 4.0], [3.0, 4.0, 0.0]],
            [[abs(a - b) / 2 for a in range(5)] for b in range(5)],
        ]
        return [cls(table) for table in tables]  # type: ignore[arg-type]


# --- Padded exponential mechanism ---


@dataclass(frozen=True, eq=False, repr=False)
class PaddedExponential(TableMechanism, HasNeighbours):
    """Reports input z with probability e^(−D(x,z))/N when holding x, and nothing with the remaining probability.

    Two inputs a, b differ by a factor of at most e^D(a,b) in every message, exactly: the table is one of whole units
    (``private_table``). N is the least for which the silent message keeps its ratios too. ``epsilon`` is the logarithm
    of the largest ratio of all.

    Theorem: [MDP] Table I, padded exponential mechanism, on any number of inputs: private for D.
    Deviates: the triangle inequality, which print does not ask for, is needed (docs/errata.md, MD-6).

    Args:
        distances: Privacy distances D, a square table with one row for each input: symmetric, 0 on the diagonal, and
            with the triangle inequality. A user's value is the number of a row, from 0.

    Raises:
        ValueError: If the distances are not a metric, or too small or too large.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.PaddedExponential([[0.0, 0.5, 2.0], [0.5, 0.0, 2.0], [2.0, 2.0, 0.0]])
    >>> f"{mechanism.epsilon:.4f}"
    '2.0000'
    >>> f"{sdp.amplify(mechanism, users=10_000, diameter=0.5).epsilon(delta=1e-6).upper:.4f}"
    '0.0381'
    """

    distances: Floats
    epsilon: float = field(init=False)
    space: DistanceMatrix = field(init=False)

    name = "padded-exponential"
    summary = "an item of a finite metric space: near items are likelier, some messages are empty"
    use_case = "For a finite space of distances; it shows what no metric randomizer can beat."
    table_setting = "distances"

    def __post_init__(self) -> None:
        space = check_space("PaddedExponential", self.distances)
        object.__setattr__(self, "space", space)
        object.__setattr__(self, "distances", space.matrix)
        with precision(PRECISION_BITS):
            table = private_table(space, self._weights())
        self._set_table(table)

    def _weights(self) -> list[list[arb]]:
        return [[(-arb(float(distance))).exp() for distance in row] for row in self.space.matrix]

    @cached_property
    def law(self) -> MetricLaw:
        return MetricLaw("PaddedExponential", self.unit_table, self.space)

    def _equality_key(self) -> tuple[Any, ...]:
        return (self.space,)

    def neighbours_between(self, first: Any, second: Any) -> Neighbours:
        return self.law.neighbours_between(self.space.check_index(first), self.space.check_index(second))

    def neighbours_within(self, diameter: float) -> Neighbours:
        return self.law.neighbours_within(diameter)

    @classmethod
    def examples(cls) -> Sequence[PaddedExponential]:
        far = math.log(50)
        tables = [
            [[0.0, 1.0], [1.0, 0.0]],
            [[0.0, 1.0, 1.0 + far], [1.0, 0.0, far], [1.0 + far, far, 0.0]],
            [[abs(a - b) / 2 for a in range(5)] for b in range(5)],
        ]
        return [cls(table) for table in tables]  # type: ignore[arg-type]
