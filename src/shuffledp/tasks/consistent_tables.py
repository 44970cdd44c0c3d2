"""Tables of two columns each that say the same of every column: weighted least squares after the collection.

Post-processing: it costs no privacy, and whatever the users hold it stays unbiased.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shuffledp.array import Floats
from shuffledp.mechanisms.estimate import Estimate, Tails
from shuffledp.mechanisms.parts.reading import CombinedReading


@dataclass(frozen=True)
class Crossed:
    """The estimate of one table: how many users hold each value of one column with each of another."""

    columns: tuple[int, int]
    sizes: tuple[int, int]
    estimate: Estimate
    reading: CombinedReading
    """Which knows how the errors of the table's cells hang together."""

    @cached_property
    def cells(self) -> Floats:
        return self.estimate.value.reshape(self.sizes)

    @cached_property
    def _effects(self) -> tuple[Floats, Floats]:
        """As weights of the cells: each row's sum and each column's, less what is the mean of these."""
        first, second = self.sizes
        rows = np.kron(np.eye(first), np.ones(second))
        columns = np.kron(np.ones(first), np.eye(second))
        return rows - rows.mean(axis=0), columns - columns.mean(axis=0)

    def effect(self, side: int) -> Floats:
        """How many users more than the mean hold each value of one of the two columns."""
        return np.asarray(self._effects[side] @ self.estimate.value)

    def effect_variance(self, side: int) -> Floats:
        return self._variance(self._effects[side])

    def kept(self, kept: tuple[float, float]) -> tuple[Floats, float]:
        """The variance of each cell where so much of the effect of either column is this table's own.

        And of how many equal errors each is made, as far as its tails are concerned.
        """
        first, second = self.sizes
        rows, columns = self._effects
        inside = np.eye(first * second) - 1 / (first * second)
        inside -= (1 - kept[0]) / second * np.repeat(rows, second, axis=0)
        inside -= (1 - kept[1]) / first * np.tile(columns, (first, 1))
        squares = inside[0] ** 2
        return self._variance(inside), float(squares.sum() ** 2 / (squares**2).sum())

    def _variance(self, weights: Floats) -> Floats:
        users = self.estimate.users
        return self.reading.combined_variance(weights, np.clip(self.estimate.value, 0.0, users), users)


@dataclass(frozen=True)
class ConsistentTables:
    """All tables of a few columns, each with the noise of its own: their sums are made the same.

    Theorem: where the errors of a table's cells are independent and alike, a table's grand total, row sums, column sums
    and the rest are orthogonal, and least squares leaves the rest as it is, takes the total that is known, and of each
    column's sums the mean of all tables that have it, weighted by their precision. With other errors it is still
    unbiased, and the variances are exact.
    """

    tables: Sequence[Crossed]

    @property
    def users(self) -> int:
        return self.tables[0].estimate.users

    def _having(self, column: int) -> list[tuple[Crossed, int]]:
        """The tables with a column, and on which side it is."""
        return [(table, table.columns.index(column)) for table in self.tables if column in table.columns]

    def _shares(self, column: int) -> list[float]:
        """How much each of these tables counts."""
        precision = [1 / float(np.mean(table.effect_variance(side))) for table, side in self._having(column)]
        return [one / sum(precision) for one in precision]

    @cached_property
    def _effects(self) -> dict[int, tuple[Floats, Floats]]:
        """The effect of each value of each column, from all tables, and its variance."""
        found = {}
        for column in sorted({column for table in self.tables for column in table.columns}):
            parts = list(zip(self._having(column), self._shares(column), strict=True))
            value = sum(share * table.effect(side) for (table, side), share in parts)
            variance = sum(share**2 * table.effect_variance(side) for (table, side), share in parts)
            found[column] = np.asarray(value), np.asarray(variance)
        return found

    def one_way(self, column: int) -> Estimate:
        """How many users hold each value of a column."""
        value, variance = self._effects[column]
        return Estimate(self.users / len(value) + value, variance, self.users)

    def two_way(self, table: Crossed) -> Estimate:
        """The table's cells, whose sums are those of ``one_way``."""
        (first, second), value = table.sizes, table.cells
        own = [table.effect(side) for side in (0, 1)]
        effects = [self._effects[column] for column in table.columns]
        value = value + ((effects[0][0] - own[0]) / second)[:, None] + ((effects[1][0] - own[1]) / first)[None, :]
        value += (self.users - table.estimate.value.sum()) / value.size
        kept = self._kept(table, 0), self._kept(table, 1)
        variance, parts = table.kept(kept)
        spread = variance.reshape(table.sizes)
        for side, size in ((0, second), (1, first)):
            # What comes from the other tables is independent of this one.
            others = effects[side][1] - kept[side] ** 2 * table.effect_variance(side)
            spread = spread + np.expand_dims(np.maximum(others, 0.0), 1 - side) / size**2
        tails: Tails = table.estimate.tails.of_sum(parts)
        return Estimate(value.reshape(-1), spread.reshape(-1), self.users, tails)

    def _kept(self, table: Crossed, side: int) -> float:
        """How much this table counts in the effect of one of its columns."""
        column = table.columns[side]
        pairs = zip(self._having(column), self._shares(column), strict=True)
        return next(share for (one, _), share in pairs if one is table)
