"""The mechanism under test in a conformance suite, with its tables and messages, and exact laws of G."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from math import gcd, lcm
from typing import Any

import numpy as np
from flint import ctx

from shuffledp._core.validation import Array, Floats
from shuffledp.mechanisms.base.mechanism import HidingTable, Mechanism, OutputTable
from shuffledp.privacy.dominating_pairs import HidingPair
from shuffledp.privacy.randomizer_interface import HasTails
from shuffledp.sampling.random_sources import resolve_source
from shuffledp.testing import exact_enumeration

# --- Laws of G and their convex order, in exact fractions ---


RationalGainLaw = dict[Fraction, Fraction]
"""The law of G: the probability of each value."""
CONVEX_ORDER_TOLERANCE = Fraction(1, 10**14)


def gain_law(
    first: Sequence[Fraction], second: Sequence[Fraction], hiding: Sequence[Fraction], ratio: Fraction
) -> RationalGainLaw:
    """Returns the law of G = (first − ratio·second)/hiding under ``hiding``, whose missing mass is revealed and adds 0.

    Integers are many times faster than fractions: values are numerators and denominators, probabilities are in units.
    """
    unit = lcm(*(w.denominator for w in hiding))
    units: dict[tuple[int, int], int] = {(0, 1): unit}
    up, down = ratio.as_integer_ratio()
    for a, b, w in zip(first, second, hiding, strict=True):
        own = w.numerator * (unit // w.denominator)
        units[0, 1] -= own
        if own > 0:
            over = (down * a.numerator * b.denominator - up * b.numerator * a.denominator) * w.denominator
            under = down * a.denominator * b.denominator * w.numerator
            common = gcd(over, under)
            value = over // common, under // common
            units[value] = units.get(value, 0) + own
    return {Fraction(*value): Fraction(own, unit) for value, own in units.items()}


def gain_law_of_pair(pair: HidingPair, ratio: Fraction) -> RationalGainLaw:
    """Returns the law of G of one of the package's pairs; balls are replaced by their midpoints, to 60 digits."""
    if pair.exact is not None:
        triples = [tuple(Fraction(int(x.p), int(x.q)) for x in triple) for triple in pair.exact]
    else:
        with ctx.workprec(200):
            triples = [tuple(Fraction(str(x.mid().str(60, radius=False))) for x in triple) for triple in pair.classes()]
    first, second, hiding = zip(*triples, strict=True)
    return gain_law(first, second, hiding, ratio)


def expected_excesses(law: RationalGainLaw, levels: Sequence[Fraction]) -> list[Fraction]:
    """Returns E(G − t)_+ at each level t, for decreasing levels."""
    excesses = []
    values = sorted(law, reverse=True)
    chances = [Fraction(0), *accumulate(law[value] for value in values)]
    parts = [Fraction(0), *accumulate(value * law[value] for value in values)]
    above = 0
    for level in levels:
        while above < len(values) and values[above] > level:
            above += 1
        excesses.append(parts[above] - level * chances[above])
    return excesses


def is_below_in_convex_order(law: RationalGainLaw, other: RationalGainLaw) -> bool:
    """Returns True if ``law`` is below ``other`` in convex order: E(G − t)_+ is nowhere larger, and the means agree.

    It suffices to compare at the values, between which E(G − t)_+ is linear.
    """
    means = [sum((value * chance for value, chance in one.items()), Fraction(0)) for one in (law, other)]
    if abs(means[0] - means[1]) > CONVEX_ORDER_TOLERANCE:
        return False
    levels = sorted({*law, *other}, reverse=True)
    return all(
        a <= b + CONVEX_ORDER_TOLERANCE
        for a, b in zip(expected_excesses(law, levels), expected_excesses(other, levels), strict=True)
    )


DEFAULT_SEED, DEFAULT_SAMPLES = 20_240_001, 20_000
"""Seed of the statistical checks, and number of users of each input that they encode."""
BLANKET_LEVELS = ((1, Fraction(11, 10)), (2, Fraction(5, 4)), (3, Fraction(21, 20)))
"""Numbers of users and e^ε at which blankets are compared."""
MAX_PAIRED_MESSAGES = 60
"""Largest number of messages for which estimates from every pair of messages are computed."""

Probabilities = tuple[Fraction, ...]


# --- The mechanism under test ---


@dataclass(frozen=True)
class EstimateMoments:
    """The law of the estimate for some values: its mean and variance, exact up to rounding."""

    values: Array
    mean: Floats
    variance: Floats
    scale: float


@dataclass(frozen=True)
class MechanismCase:
    """A mechanism under test, with the seed and the number of samples of the statistical checks."""

    mechanism: Mechanism
    seed: int = DEFAULT_SEED
    samples: int = DEFAULT_SAMPLES

    @property
    def class_name(self) -> str:
        """The name of the mechanism's class, with which its error messages begin."""
        return type(self.mechanism).__name__

    @property
    def has_tails(self) -> bool:
        """True if guarantees truncate the law, so that its likelihood ratios need not be bounded."""
        return isinstance(self.mechanism, HasTails) and self.mechanism.has_tails

    def generator(self, number: int = 0) -> np.random.Generator:
        """Returns a separate random generator for each statistical check."""
        return np.random.default_rng(self.seed + number)

    @cached_property
    def table(self) -> OutputTable:
        return self.mechanism.table()

    @cached_property
    def hiding_table(self) -> HidingTable:
        return self.mechanism.hiding_table()

    @property
    def rows(self) -> tuple[Probabilities, ...]:
        return self.table.probabilities

    @cached_property
    def input_pairs(self) -> list[tuple[int, int]]:
        """Every two inputs, by the indices of their rows."""
        return list(itertools.combinations(range(len(self.hiding_table.rows)), 2))

    @cached_property
    def values(self) -> Array:
        """All inputs of the table or, without a table, a few inputs."""
        return self.table.inputs if self.mechanism.has_table else self.mechanism.audit_pair()

    @cached_property
    def messages(self) -> Array:
        """All messages or, without a table, a few that were sent."""
        if self.mechanism.has_table:
            return self.flatten_reports(self.table.messages)
        return self.send_messages(np.repeat(self.mechanism.audit_pair(), 8, axis=0), self.generator(2))

    def send_messages(self, values: Array, rng: Any) -> Array:
        """Returns the messages of users with these values, and those that the shuffler adds."""
        source = resolve_source(rng)
        own, added = self.mechanism.encode(values, source), self.mechanism.draw_shuffler_messages(source)
        return own if added is None else np.concatenate([own, added])

    def flatten_reports(self, reports: Array) -> Array:
        """Flattens reports to messages, those of a user next to each other."""
        return reports if self.mechanism.messages_per_user == 1 else reports.reshape(-1, *reports.shape[2:])

    @cached_property
    def blanket_divergences(self) -> list[tuple[int, Fraction, Fraction, float]]:
        """For each level: users, e^ε, the largest divergence by a pair's own blanket, and that of ``blankets()``."""
        from shuffledp.numerics.positive_part import PositivePartMean

        result = []
        for users, ratio in BLANKET_LEVELS:
            truth = max(self._blanket_divergence(a, b, users, ratio) for a, b in self.input_pairs)
            epsilon = float(np.log(float(ratio)))
            ways = [way for pair in self.mechanism.blankets() for way in (pair, pair.swapped())]
            claims = [PositivePartMean(way.law, users).bracket(epsilon).upper_float() for way in ways]
            result.append((users, ratio, truth, max([0.0, *claims])))
        return result

    def _blanket_divergence(self, a: int, b: int, users: int, ratio: Fraction) -> Fraction:
        """Returns the larger direction of (1/n)·E(ΣG)_+ for one pair, from the table with equal values of G merged."""
        worst = Fraction(0)
        for law in (self.gain_law(a, b, ratio), self.gain_law(b, a, ratio)):
            worst = max(worst, self._positive_part_mean(frozenset(law.items()), users) / users)
        return worst

    def _positive_part_mean(self, law: frozenset[tuple[Fraction, Fraction]], users: int) -> Fraction:
        """Returns E(ΣG)_+, cached because similar inputs have the same law."""
        if (law, users) not in self._positive_part_means:
            values, weights = zip(*((value, weight) for value, weight in law if weight), strict=True)
            self._positive_part_means[law, users] = exact_enumeration.positive_part_mean(values, weights, users)
        return self._positive_part_means[law, users]

    @cached_property
    def _positive_part_means(self) -> dict[tuple[frozenset[tuple[Fraction, Fraction]], int], Fraction]:
        return {}

    def gain_law(self, a: int, b: int, ratio: Fraction) -> RationalGainLaw:
        """Returns the law of G = (P − ratio·Q)/floor for two inputs.

        The missing mass of the floor is revealed and adds 0.
        """
        return gain_law(self.hiding_table.rows[a], self.hiding_table.rows[b], self.hiding_table.blanket, ratio)

    @cached_property
    def single_report_estimates(self) -> Floats:
        """The estimate from each report of the table alone."""
        return np.array([self._estimate([place]) for place in range(len(self.table.messages))])

    @cached_property
    def estimates(self) -> list[EstimateMoments]:
        """Mean and variance of the estimate for one user of each input and, if messages are few, for two users."""
        table = self.table
        result = []
        for value, row in zip(table.inputs, table.probabilities, strict=True):
            result.append(_moments(value[None, ...], self.single_report_estimates, [float(chance) for chance in row]))
        if len(table.messages) <= MAX_PAIRED_MESSAGES:
            places = list(itertools.product(range(len(table.messages)), repeat=2))
            pairs = np.array([self._estimate(list(pair)) for pair in places])
            first, last = table.probabilities[0], table.probabilities[-1]
            result.append(_moments(table.inputs[[0, -1]], pairs, [float(first[a] * last[b]) for a, b in places]))
        return result

    def _estimate(self, places: list[int]) -> Any:
        return self.mechanism.estimate(self.flatten_reports(self.table.messages[places])).value


def _moments(values: Array, estimates: Floats, chances: list[float]) -> EstimateMoments:
    mean = np.tensordot(np.array(chances), estimates, axes=1)
    variance = np.tensordot(np.array(chances), (estimates - mean) ** 2, axes=1)
    return EstimateMoments(values, mean, variance, max(1.0, float(np.abs(estimates).max())))


def require_table(case: MechanismCase) -> str:
    """Returns why a check of the table does not apply; empty if the mechanism has a table."""
    return "" if case.mechanism.has_table else "its law cannot be written down as a table"


def require_bounded_ratios(case: MechanismCase) -> str:
    """Returns why a check of likelihood ratios does not apply; empty if there is a table with bounded ratios."""
    return require_table(case) or (
        "an input may send a message that another input hardly ever sends" if case.has_tails else ""
    )


def require_no_table(case: MechanismCase) -> str:
    """Returns why a check for mechanisms without a table does not apply; empty if there is no table."""
    return "its law is checked exactly, by its table" if case.mechanism.has_table else ""
