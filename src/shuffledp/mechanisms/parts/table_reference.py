"""The reference law of a table of probabilities: in proportion to the largest entry of each column."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from shuffledp.array import Array, Floats, Integers
from shuffledp.mechanisms.parts.unit_table import UnitTable
from shuffledp.mechanisms.parts.weighted_reference import WEIGHT_BITS, WeightedReference
from shuffledp.numerics.ball import above

NEAR = 1 + 1e-9
"""Floats this near to the least are compared exactly."""


@dataclass(frozen=True)
class TableReference(WeightedReference):
    """A column's weight is its largest entry, or that over a power of two, rounded up, where the sum would be too long.

    Requires: a table in which no input may send what another never sends.
    """

    table: UnitTable

    @cached_property
    def weights(self) -> Integers:
        most = self.table.units.max(axis=0).tolist()
        return np.array([-(-units >> self._shift) for units in most], dtype=np.int64)

    @cached_property
    def _shift(self) -> int:
        most: list[int] = self.table.units.max(axis=0).tolist()
        return max(0, sum(most).bit_length() - WEIGHT_BITS)

    @cached_property
    def ratio(self) -> float:
        """No entry is above its column's weight times the power of two."""
        return above(Fraction(self.total << self._shift, self.table.whole))

    @cached_property
    def least_ratio(self) -> Fraction:
        sent = np.flatnonzero(self.weights)
        least, weights = self.table.units.min(axis=0)[sent], self._divisors[sent]
        shares = (least / weights).astype(np.float64)
        near = np.flatnonzero(shares <= shares.min() * NEAR)
        smallest = min(Fraction(int(least[column]), int(weights[column])) for column in near)
        return smallest * self.total / self.table.whole

    def acceptance(self, values: Array, messages: Array) -> Floats:
        return np.asarray(self._chances[self.rows(values), messages])

    def rows(self, values: Array) -> Integers:
        """The row of each checked value."""
        return values

    @cached_property
    def _chances(self) -> Floats:
        """R(x)(y)/(C·ρ(y)); 0 for what is never sent."""
        scale = float(Fraction(self.total, self.table.whole) / Fraction(self.ratio))
        shares = (self.table.units / self._divisors).astype(np.float64)
        return np.minimum(shares * scale, 1.0)

    @property
    def _divisors(self) -> Array:
        """The weights as numbers of the table's kind, none of them 0."""
        return np.maximum(self.weights, 1).astype(self.table.units.dtype)
