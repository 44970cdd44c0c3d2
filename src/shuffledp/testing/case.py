"""One mechanism that is checked, with what several checks need of it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from shuffledp.array import Array, Floats
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import HidingTable, OutputTable
from shuffledp.privacy.randomizer import HasTails
from shuffledp.sampling.random import source_of
from shuffledp.testing import oracle
from shuffledp.testing.convex_order import Gain, law_of

SEED, SAMPLES = 20_240_001, 20_000
"""The seed of the statistical checks, and how many users of each input they encode."""
LEVELS = ((1, Fraction(11, 10)), (2, Fraction(5, 4)), (3, Fraction(21, 20)))
"""Users and e^ε at which blankets are compared."""
MOST_PAIRS = 60
"""Up to how many messages every pair of them is estimated from."""

Probabilities = tuple[Fraction, ...]


@dataclass(frozen=True)
class Estimated:
    """The law of the estimate for some values: its exact mean and variance, up to rounding."""

    values: Array
    mean: Floats
    variance: Floats
    scale: float


@dataclass(frozen=True)
class Case:
    """A mechanism, the seed and the number of samples of the statistical checks."""

    mechanism: Mechanism
    seed: int = SEED
    samples: int = SAMPLES

    @property
    def who(self) -> str:
        """The mechanism's class, as its error sentences begin."""
        return type(self.mechanism).__name__

    @property
    def has_tails(self) -> bool:
        """Whether guarantees leave out some of its law, so that it need not keep any ratio."""
        return isinstance(self.mechanism, HasTails) and self.mechanism.has_tails

    def generator(self, number: int = 0) -> np.random.Generator:
        """A generator of its own for each statistical check."""
        return np.random.default_rng(self.seed + number)

    @cached_property
    def table(self) -> OutputTable:
        return self.mechanism.table()

    @cached_property
    def hiding(self) -> HidingTable:
        return self.mechanism.hiding_table()

    @property
    def rows(self) -> tuple[Probabilities, ...]:
        return self.table.probabilities

    @cached_property
    def input_pairs(self) -> list[tuple[int, int]]:
        """Every two inputs, by their rows."""
        return list(itertools.combinations(range(len(self.hiding.rows)), 2))

    @cached_property
    def values(self) -> Array:
        """A few inputs."""
        return self.table.inputs if self.mechanism.has_table else self.mechanism.probe()

    @cached_property
    def messages(self) -> Array:
        """All messages, or else a few that were sent."""
        if self.mechanism.has_table:
            return self.as_messages(self.table.messages)
        return self.sent(np.repeat(self.mechanism.probe(), 8, axis=0), self.generator(2))

    def sent(self, values: Array, rng: Any) -> Array:
        """The messages of users with these values, and those that the shuffler adds."""
        source = source_of(rng)
        own, added = self.mechanism.encode(values, source), self.mechanism.drawn_by_shuffler(source)
        return own if added is None else np.concatenate([own, added])

    def as_messages(self, reports: Array) -> Array:
        """Reports as messages, those of a user next to each other."""
        return reports if self.mechanism.messages_per_user == 1 else reports.reshape(-1, *reports.shape[2:])

    @cached_property
    def blanket_divergences(self) -> list[tuple[int, Fraction, Fraction, float]]:
        """At each level: users, e^ε, the largest divergence of a pair's own blanket, and what the blankets claim."""
        from shuffledp.numerics.expectation import PositivePartMean

        result = []
        for users, ratio in LEVELS:
            truth = max(self._blanket_divergence(a, b, users, ratio) for a, b in self.input_pairs)
            epsilon = float(np.log(float(ratio)))
            ways = [way for pair in self.mechanism.blankets() for way in (pair, pair.swapped())]
            claims = [PositivePartMean(way.law, users).bracket(epsilon).upper_float() for way in ways]
            result.append((users, ratio, truth, max([0.0, *claims])))
        return result

    def _blanket_divergence(self, a: int, b: int, users: int, ratio: Fraction) -> Fraction:
        """Both directions of (1/n)·E(ΣG)_+ for one pair, from the table alone; equal values of G are merged first."""
        worst = Fraction(0)
        for law in (self.gain(a, b, ratio), self.gain(b, a, ratio)):
            worst = max(worst, self._positive_part_mean(frozenset(law.items()), users) / users)
        return worst

    def _positive_part_mean(self, law: frozenset[tuple[Fraction, Fraction]], users: int) -> Fraction:
        """Inputs that are alike have the same law: its mean is found once."""
        if (law, users) not in self._means:
            values, weights = zip(*((value, weight) for value, weight in law if weight), strict=True)
            self._means[law, users] = oracle.positive_part_mean(values, weights, users)
        return self._means[law, users]

    @cached_property
    def _means(self) -> dict[tuple[frozenset[tuple[Fraction, Fraction]], int], Fraction]:
        return {}

    def gain(self, a: int, b: int, ratio: Fraction) -> Gain:
        """The law of G = (P − ratio·Q)/floor for two inputs; what the floor lacks to 1 is revealed and adds 0."""
        return law_of(self.hiding.rows[a], self.hiding.rows[b], self.hiding.floor, ratio)

    @cached_property
    def singles(self) -> Floats:
        """What each report of the table alone is estimated to say."""
        return np.array([self._estimate([place]) for place in range(len(self.table.messages))])

    @cached_property
    def estimates(self) -> list[Estimated]:
        """For one user of each input, and for two users where that is small: the estimate's mean and variance."""
        table = self.table
        result = []
        for value, row in zip(table.inputs, table.probabilities, strict=True):
            result.append(_moments(value[None, ...], self.singles, [float(chance) for chance in row]))
        if len(table.messages) <= MOST_PAIRS:
            places = list(itertools.product(range(len(table.messages)), repeat=2))
            pairs = np.array([self._estimate(list(pair)) for pair in places])
            first, last = table.probabilities[0], table.probabilities[-1]
            result.append(_moments(table.inputs[[0, -1]], pairs, [float(first[a] * last[b]) for a, b in places]))
        return result

    def _estimate(self, places: list[int]) -> Any:
        return self.mechanism.estimate(self.as_messages(self.table.messages[places])).value


def _moments(values: Array, estimates: Floats, chances: list[float]) -> Estimated:
    mean = np.tensordot(np.array(chances), estimates, axes=1)
    variance = np.tensordot(np.array(chances), (estimates - mean) ** 2, axes=1)
    return Estimated(values, mean, variance, max(1.0, float(np.abs(estimates).max())))


def with_table(case: Case) -> str:
    """Only for mechanisms whose law can be written down."""
    return "" if case.mechanism.has_table else "its law cannot be written down as a table"


def with_ratios(case: Case) -> str:
    """Only for those of them whose likelihood ratios are bounded."""
    return with_table(case) or ("some input may send what another hardly ever does" if case.has_tails else "")


def without_table(case: Case) -> str:
    """Only for the others."""
    return "its law is checked exactly, by its table" if case.mechanism.has_table else ""
