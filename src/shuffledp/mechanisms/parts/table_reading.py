"""A frequency oracle from any table of probabilities: how often each input occurs, by weighted least squares."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shuffledp.array import Array, Floats, Integers
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.parts.count_tails import CountTails, Cumulant, plain
from shuffledp.mechanisms.parts.reading import SimulatedReading
from shuffledp.mechanisms.parts.sway import Sway
from shuffledp.mechanisms.parts.unit_table import UnitTable

FITTING_STEPS = 100
"""After so many, counts that are fitted to messages give variances that are off by some percent."""
FIT_ERROR = 0.03
"""Relative error of a variance from fitted counts: that from squares counts as much where its own is as large."""
TINY = 1e-300


@dataclass(frozen=True)
class TableReading(SimulatedReading):
    """The estimate is the count of each input: unbiased, with the least variance if all inputs are equally common.

    A user's value is the number of the row, the message the number of the column.
    """

    who: str
    table: UnitTable

    @property
    def counted(self) -> int:
        return self.table.inputs

    def accumulate(self, messages: Array) -> Array:
        return np.bincount(messages, minlength=self.table.outputs)

    def finish(self, total: Array, users: int) -> Estimate:
        """The counts, and their variances by two routes.

        The messages' own squares tell the variance without bias, and well where there is much noise; counts that are
        not negative and explain the messages best tell it well where there is little. (Estimated counts that are cut
        off at 0 are too many in all: they overstate it, by far where there is much noise.) The first route is trusted
        the more, the smaller its relative error.
        """
        counted = np.asarray(total, dtype=np.float64)
        value, fitted = self._estimator @ counted, self.fitted(counted)
        by_fit, by_squares = fitted @ self._variances, self.by_squares(counted)
        chance = np.square(self._estimator**2 - self._estimator) @ (fitted @ self._chances)
        trust = by_fit**2 / np.maximum(by_fit**2 + chance / FIT_ERROR**2, TINY)
        variance = trust * np.maximum(by_squares, 0.0) + (1 - trust) * by_fit
        return Estimate(value, variance, users, self._tails(variance, fitted))

    def _tails(self, variance: Floats, fitted: Floats) -> CountTails:
        """Those of each count where the others' proportions are as ``fitted``, and its own is another."""
        spread, third = (Cumulant.among(added, fitted) for added in (self._variances, self._thirds))
        slope = np.asarray(spread.slope)
        own = Cumulant(plain(variance - slope * fitted), spread.slope)
        return CountTails(own, third)

    def by_squares(self, counted: Floats) -> Floats:
        """The variance, unbiased: of a user whose message adds X to a count that she is in or not it is E[X² − X]."""
        return np.asarray((self._estimator**2 - self._estimator) @ counted)

    def fitted(self, counted: Floats) -> Floats:
        """How many users hold each input, none of them negative, so that the messages are about as they were counted.

        Theorem: [Dempster, Laird and Rubin 1977]: every step makes the messages no less likely.
        """
        chances = self._chances
        held = np.full(len(chances), counted.sum() / len(chances))
        for _ in range(FITTING_STEPS):
            expected = held @ chances
            held = held * (chances @ np.divide(counted, expected, out=np.zeros_like(expected), where=expected > 0))
        return held

    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        """The estimate from message counts drawn by their exact law, but for chances rounded to floats."""
        units = self.table.units
        chances = units / units.sum(axis=1, dtype=np.float64, keepdims=True)
        return self.finish(rng.multinomial(held, chances).sum(axis=0), users)

    def sways(self, messages: float) -> tuple[Sway, ...] | None:
        """The output that adds most to some input's estimate, and the one that adds least; also those never sent."""
        try:
            added = self._estimator
        except ValueError:
            # There is no estimate to move.
            return None
        return (Sway(messages * float(added.min()), messages * float(added.max())),)

    def truth(self, values: Array) -> Floats:
        return np.bincount(values, minlength=self.table.inputs).astype(np.float64)

    def variance(self, values: Array) -> Floats:
        return np.asarray(self.truth(values) @ self._variances)

    @cached_property
    def _chances(self) -> Floats:
        return np.asarray(self.table.units / self.table.whole, dtype=np.float64)

    @cached_property
    def _estimator(self) -> Floats:
        """What one message adds to the estimate of each input: one row per input, one column per output."""
        chances = self._chances
        common = chances.mean(axis=0)
        root = np.sqrt(np.where(common > 0, common, 1.0))
        left, sizes, right = np.linalg.svd(chances / root, full_matrices=False)
        rank = int((sizes > sizes[0] * max(chances.shape) * np.finfo(np.float64).eps).sum())
        if rank < len(chances):
            raise ValueError(
                f"{self.who}: no unbiased estimate exists, because the rows depend on each other "
                f"({len(chances)} inputs, rank {rank})."
            )
        return np.asarray(left / sizes @ right / root)

    @cached_property
    def _variances(self) -> Floats:
        """Variance of each component (column) that one user of each input (row) adds."""
        chances = self._chances
        return np.asarray(chances @ (self._estimator**2).T - (chances @ self._estimator.T) ** 2)

    @cached_property
    def _thirds(self) -> Floats:
        """Third cumulant of each component (column) that one user of each input (row) adds."""
        first, second, third = (self._chances @ (self._estimator**power).T for power in (1, 2, 3))
        return np.asarray(third - 3 * first * second + 2 * first**3)
