"""Frequency oracles of the support kind: a message supports some options, one's own more often than the others."""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction
from typing import Any

import numpy as np

from shuffledp.array import Array, Floats, Integers
from shuffledp.mechanisms.mechanism import Estimate, Mechanism
from shuffledp.mechanisms.parts import user_values


class SupportOracle(Mechanism):
    """Estimates how many users hold each option by (support count − n·(r + dummies' mean))/(s − r).

    s is the chance that a message supports its user's own option, r that it supports any other given option. Messages
    that do not depend on the value, dummies, support every option alike.
    """

    task = "frequency"
    options: int

    @property
    @abstractmethod
    def own_support(self) -> Fraction:
        """s, of the executed randomizer."""

    @property
    @abstractmethod
    def other_support(self) -> Fraction:
        """r, of the executed randomizer."""

    @property
    def dummy_mean(self) -> Fraction:
        """How many of a user's dummies support a given option, on average."""
        return Fraction(0)

    @property
    def dummy_variance(self) -> Fraction:
        """The variance of that number."""
        return Fraction(0)

    def check(self, values: Any) -> Array:
        return user_values.categories(type(self).__name__, values, self.options)

    def probe(self) -> Array:
        return self.check([0, self.options - 1])

    def finish(self, total: Array, users: int) -> Estimate:
        s, r = self.own_support, self.other_support
        value = (np.asarray(total, dtype=np.float64) - users * float(r + self.dummy_mean)) / float(s - r)
        held = np.clip(value, 0.0, users)
        return Estimate(value, self._variance_of_counts(held, users), users)

    # --- simulations ------------------------------------------------------------------------------------------

    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        """The estimate where ``held`` users hold each option, drawn without drawing any message.

        Each option's estimate has its exact law, but for chances rounded to floats; where a message supports several
        options, how these hang together is not drawn.
        """
        return SupportOracle.finish(self, self.draw_supports(held, users, rng), users)

    def draw_supports(self, held: Integers, users: int, rng: np.random.Generator) -> Integers:
        """How many messages support each option: s of its holders, r of the others, and dummies."""
        own, other = rng.binomial(held, float(self.own_support)), rng.binomial(users - held, float(self.other_support))
        return np.asarray(own + other + self.draw_dummies(users, rng))

    def draw_dummies(self, users: int, rng: np.random.Generator) -> Integers:
        """How many dummies support each option."""
        del users, rng
        return np.zeros(self.options, dtype=np.int64)

    def truth(self, values: Any) -> Floats:
        return np.bincount(self.check(values), minlength=self.options).astype(np.float64)

    def variance(self, values: Any) -> Floats:
        counts = self.truth(values)
        return self._variance_of_counts(counts, int(counts.sum()))

    def _variance_of_counts(self, counts: Floats, users: int) -> Floats:
        s, r = self.own_support, self.other_support
        own, other, gap = float(s * (1 - s)), float(r * (1 - r)), float((s - r) ** 2)
        return np.asarray((counts * own + (users - counts) * other + users * float(self.dummy_variance)) / gap)


def true_or_uniform(held: Integers, users: int, uniform_share: float, rng: np.random.Generator) -> Integers:
    """Counts of options where each user reports a uniform one with this chance, else the own one."""
    honest = rng.binomial(held, 1.0 - uniform_share)
    return np.asarray(honest + uniform_counts(users - int(honest.sum()), len(held), rng))


def uniform_counts(draws: int, options: int, rng: np.random.Generator) -> Integers:
    """How often each option comes up in so many uniform draws."""
    return rng.multinomial(draws, np.full(options, 1.0 / options))
