"""Counts of the options of several tables, each less the mean number of its dummies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shuffledp.array import Array, Floats, Integers
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.parts.count_tails import PoissonTails
from shuffledp.mechanisms.parts.poisson_dummy import PoissonDummies
from shuffledp.mechanisms.parts.reading import Reading
from shuffledp.mechanisms.parts.sway import Sway


@dataclass(frozen=True)
class CountedInTables(Reading):
    """Table after table; a message is the place of its option among all of them."""

    options: int
    tables: int
    dummies: PoissonDummies

    def places(self, values: Array) -> Integers:
        """Rows of one option a table as places among all options."""
        return np.asarray(values + self.options * np.arange(self.tables), dtype=np.int64)

    @property
    def _kinds(self) -> int:
        return self.options * self.tables

    def accumulate(self, messages: Array) -> Array:
        return np.bincount(messages, minlength=self._kinds)

    def finish(self, total: Array, users: int) -> Estimate:
        noise = float(self.dummies.of_each_kind(users))
        value = np.asarray(total, dtype=np.float64) - noise
        return Estimate(value, np.full(self._kinds, noise), users, PoissonTails(noise))

    def truth(self, values: Array) -> Floats:
        return np.bincount(self.places(values).reshape(-1), minlength=self._kinds).astype(np.float64)

    def variance(self, values: Array) -> Floats:
        return np.full(self._kinds, float(self.dummies.of_each_kind(len(values))))

    def sways(self, messages: float) -> tuple[Sway, ...]:
        """All messages name one option."""
        expected = float(self.dummies.of_each_kind(1))
        return (Sway(-expected, messages - expected),)
