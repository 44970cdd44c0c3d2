"""Frequency oracles of the support kind: a message supports some options, one's own more often than the others."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from shuffledp.array import Array, Floats, Integers
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.parts.asked import Asked
from shuffledp.mechanisms.parts.count_tails import CountTails
from shuffledp.mechanisms.parts.reading import Reading, SimulatedReading, SomeReading, TreeReading
from shuffledp.mechanisms.parts.sway import Sway
from shuffledp.mechanisms.parts.value_tree import ValueTree
from shuffledp.sampling import bits


@dataclass(frozen=True)
class Pairs:
    """The chance that a message supports two given options: the own one and another, or two others.

    ``dummies`` is the covariance of how many of a user's dummies support each of two options.
    """

    own: Fraction
    others: Fraction
    dummies: Fraction = Fraction(0)


@dataclass(frozen=True)
class SupportReading(SimulatedReading, TreeReading):
    """Estimates how many users hold each option by (support count − n·(r + dummies' mean))/(s − r).

    A message supports an option once or not at all, whoever sent it. ``own`` is s, the chance that a message supports
    its user's own option, ``other`` is r, that it supports any other given option. Messages that do not depend on the
    value, dummies, support every option alike: ``dummy_mean`` of a user's on average, with variance ``dummy_variance``.
    """

    options: int
    own: Fraction
    other: Fraction
    dummy_mean: Fraction = Fraction(0)
    dummy_variance: Fraction = Fraction(0)

    def supports(self, total: Array) -> Array:
        """How many messages support each option, from the added-up statistic."""
        return total

    def finish(self, total: Array, users: int) -> Estimate:
        return self.from_supports(self.supports(total), users)

    def from_supports(self, supports: Array, users: int) -> Estimate:
        """The estimate from how many messages support each option."""
        s, r = self.own, self.other
        value = (np.asarray(supports, dtype=np.float64) - users * float(r + self.dummy_mean)) / float(s - r)
        return Estimate(value, self.variance_of_counts(np.clip(value, 0.0, users), users), users, self.tails(users))

    def tails(self, users: int) -> CountTails:
        """The support of an option is a sum over users of two kinds, and of their dummies: a whole number."""
        s, r, gap = self.own, self.other, float(self.own - self.other)
        spread = [float(p * (1 - p) + self.dummy_variance) / gap**2 for p in (s, r)]
        third = [float(p * (1 - p) * (1 - 2 * p) + self.dummy_third) / gap**3 for p in (s, r)]
        start = -users * float(r + self.dummy_mean) / gap
        return CountTails.of_users(users, spread, third, 1 / abs(gap), start)

    @property
    def dummy_third(self) -> Fraction:
        """The third cumulant of how many of a user's dummies support an option."""
        return Fraction(0)

    @property
    def counted(self) -> int:
        return self.options

    def some(self, asked: Asked) -> Reading:
        return SomeSupports(self, asked)

    def supports_of(self, messages: Array, asked: Asked) -> Integers:
        """How many of the messages support each of these options."""
        return np.asarray(self.supports(self.accumulate(messages))[asked.options])

    def sways(self, messages: float) -> tuple[Sway, ...]:
        """Every message supports a given option, or none does."""
        gap, unsupported = float(self.own - self.other), float(self.other + self.dummy_mean)
        ends = -unsupported / gap, (messages - unsupported) / gap
        return (Sway(min(ends), max(ends)),)

    def truth(self, values: Array) -> Floats:
        return np.bincount(values.reshape(-1), minlength=self.options).astype(np.float64)

    def variance(self, values: Array) -> Floats:
        return self.variance_of_counts(self.truth(values), len(values))

    def variance_of_counts(self, counts: Floats, users: float) -> Floats:
        """The variance of each option's estimate where so many of the users hold it."""
        s, r = self.own, self.other
        own, other, gap = float(s * (1 - s)), float(r * (1 - r)), float((s - r) ** 2)
        return np.asarray((counts * own + (users - counts) * other + users * float(self.dummy_variance)) / gap)

    # --- sums of estimates ------------------------------------------------------------------------------------

    @property
    def pairs(self) -> Pairs | None:
        """How two options hang together, where that is the same for every two and exactly known."""
        return None

    @property
    def combines(self) -> bool:
        return self.pairs is not None

    @cached_property
    def tree(self) -> ValueTree:  # type: ignore[override]
        return ValueTree(self.options, self.options)

    def squares(self, weights: Floats, held: Floats, users: int) -> Floats:
        """Σ over users of E[Z²], Z = Σ_j w_j(S_j − r)/(s − r) with S_j whether the user's real message supports j.

        E[Z] is the weight of the user's own option. Of the weights only W1 = Σ w_j, W2 = Σ w_j², and both sums over the
        users' own options are needed, because every two options are alike.
        """
        own, mixed, each, together = self._square_terms
        first, second = weights.sum(axis=-1), (weights**2).sum(axis=-1)
        found = own * (weights**2 @ held) + mixed * first * (weights @ held)
        return np.asarray(found + users * (each * second + together * first**2))

    @cached_property
    def _square_terms(self) -> tuple[float, float, float, float]:
        """What Σ w² and W1·Σ w over the users' own options count, and W2 and W1² for each user."""
        pairs = self.pairs
        assert pairs is not None, "how options hang together is known"
        s, r, u, t = self.own, self.other, pairs.own, pairs.others
        terms = s - r - 2 * u + 2 * t, 2 * (u - t - r * (s - r)), r - t, t - r * r
        own, mixed, each, together = (float(term / (s - r) ** 2) for term in terms)
        return own, mixed, each, together

    def combined_variance(self, weights: Floats, held: Floats, users: int) -> Floats:
        assert self.pairs is not None, "how options hang together is known"
        first, second = weights.sum(axis=-1), (weights**2).sum(axis=-1)
        noise = float(self.dummy_variance) * second + float(self.pairs.dummies) * (first**2 - second)
        real = self.squares(weights, held, users) - weights**2 @ held
        return np.asarray(real + users * noise / float((self.own - self.other) ** 2))

    # --- simulations ------------------------------------------------------------------------------------------

    @property
    def draws_together(self) -> bool:
        """Whether what ``simulate`` draws hangs together as estimates do."""
        return False

    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        """Each option's estimate has its exact law, but for chances rounded to floats.

        Where a message supports several options, how these hang together is not drawn unless ``draws_together``.
        """
        return self.from_supports(self.draw_supports(held, users, rng), users)

    def draw_supports(self, held: Integers, users: int, rng: np.random.Generator) -> Integers:
        """How many messages support each option: s of its holders, r of the others, and dummies."""
        own, other = rng.binomial(held, float(self.own)), rng.binomial(users - held, float(self.other))
        return np.asarray(own + other + self.draw_dummies(users, len(held), rng))

    def draw_dummies(self, users: int, options: int, rng: np.random.Generator) -> Integers:
        """How many dummies support each of so many options, each by itself."""
        del users, rng
        return np.zeros(options, dtype=np.int64)


@dataclass(frozen=True)
class SomeSupports(SomeReading):
    """The support of the options that were asked for."""

    whole: SupportReading
    asked: Asked

    def accumulate(self, messages: Array) -> Array:
        return self.whole.supports_of(messages, self.asked)

    def finish(self, total: Array, users: int) -> Estimate:
        return self.whole.from_supports(total, users)

    def sways(self, messages: float) -> tuple[Sway, ...]:
        return self.whole.sways(messages)

    def variance_where(self, held: Floats, users: float) -> Floats:
        return self.whole.variance_of_counts(held, users)

    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        """Each option's estimate by its exact law, as if the others were not there."""
        return self.whole.from_supports(SupportReading.draw_supports(self.whole, held, users, rng), users)


@dataclass(frozen=True)
class DecodedSupports(SomeSupports):
    """The same where the statistic of the whole is a count of messages: those are few, and are decoded together."""

    def accumulate(self, messages: Array) -> Array:
        return self.whole.accumulate(messages)

    def finish(self, total: Array, users: int) -> Estimate:
        return self.whole.from_supports(self.whole.supports(total)[self.asked.options], users)


@dataclass(frozen=True)
class CountedOption(SupportReading):
    """A message is an option, the one that it supports; each user sends a uniform one with probability γ."""

    uniform_share: Fraction = Fraction(0)

    def accumulate(self, messages: Array) -> Array:
        return np.bincount(messages, minlength=self.options)

    def supports_of(self, messages: Array, asked: Asked) -> Integers:
        return asked.counts(messages)

    @property
    def pairs(self) -> Pairs:
        return Pairs(Fraction(0), Fraction(0))

    @property
    def draws_together(self) -> bool:
        return True

    def draw_supports(self, held: Integers, users: int, rng: np.random.Generator) -> Integers:
        """Those who report the truth, and a uniform option of everybody else."""
        return true_or_uniform(held, users, float(self.uniform_share), rng)


@dataclass(frozen=True)
class SummedBits(SupportReading):
    """A message is a row of packed bits, and supports the options whose bit is 1."""

    def accumulate(self, messages: Array) -> Array:
        return bits.column_sums(messages, self.options)

    def supports_of(self, messages: Array, asked: Asked) -> Integers:
        return bits.some_column_sums(messages, asked.options)

    @property
    def pairs(self) -> Pairs:
        return independent(self)

    @property
    def draws_together(self) -> bool:
        return True


def independent(reading: SupportReading) -> Pairs:
    """Every option is supported by a coin of its own, and by dummies of its own."""
    return Pairs(reading.own * reading.other, reading.other**2)


def true_or_uniform(held: Integers, users: int, uniform_share: float, rng: np.random.Generator) -> Integers:
    """Counts of options where each user reports a uniform one with this chance, else the own one."""
    honest = rng.binomial(held, 1.0 - uniform_share)
    return np.asarray(honest + uniform_counts(users - int(honest.sum()), len(held), rng))


def uniform_counts(draws: int, options: int, rng: np.random.Generator) -> Integers:
    """How often each option comes up in so many uniform draws."""
    return rng.multinomial(draws, np.full(options, 1.0 / options))
