"""Estimators of frequency oracles whose messages support options: the user's own option more often than the others."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from shuffledp._core.validation import Array, Floats, Integers
from shuffledp.mechanisms.base.error_laws import CountErrorLaw
from shuffledp.mechanisms.base.estimator import (
    Estimate,
    Estimator,
    Influence,
    SelectedOptions,
    SelectedOptionsEstimator,
    SimulableEstimator,
)
from shuffledp.mechanisms.base.range_estimator import TreeEstimator
from shuffledp.mechanisms.base.value_tree import ValueTree
from shuffledp.sampling import bits_and_subsets


@dataclass(frozen=True)
class PairSupport:
    """Probabilities that one message supports two given options.

    Args:
        true_and_other: Probability that it supports the user's option and another one.
        both_other: Probability that it supports two options that the user does not hold.
        dummy_covariance: Covariance of the numbers of a user's dummies that support each of two options.
    """

    true_and_other: Fraction
    both_other: Fraction
    dummy_covariance: Fraction = Fraction(0)


@dataclass(frozen=True)
class SupportEstimator(SimulableEstimator, TreeEstimator):
    """Estimator of how many users hold each option: (support count − n·(r + dummies' mean))/(s − r).

    A message supports an option at most once. Dummies, which do not depend on the value, support every option alike.

    Args:
        options: Number of options.
        true_support: s, the probability that a message supports its user's option.
        false_support: r, the probability that it supports any other given option.
        dummy_mean: Mean number of a user's dummies that support an option.
        dummy_variance: Variance of that number.
    """

    options: int
    true_support: Fraction
    false_support: Fraction
    dummy_mean: Fraction = Fraction(0)
    dummy_variance: Fraction = Fraction(0)

    def support_counts(self, total: Array) -> Array:
        """Returns how many messages support each option.

        Args:
            total: The sum of `accumulate` over all messages.

        Returns:
            One count per option.
        """
        return total

    def finish(self, total: Array, users: int) -> Estimate:
        return self.estimate_from_supports(self.support_counts(total), users)

    def estimate_from_supports(self, supports: Array, users: int) -> Estimate:
        """Returns the estimate from the support counts.

        Args:
            supports: How many messages support each option.
            users: Number of users.

        Returns:
            The unbiased estimate.
        """
        s, r = self.true_support, self.false_support
        value = (np.asarray(supports, dtype=np.float64) - users * float(r + self.dummy_mean)) / float(s - r)
        return Estimate(value, self.variance_of_counts(np.clip(value, 0.0, users), users), users, self.error_law(users))

    def error_law(self, users: int) -> CountErrorLaw:
        """Returns the error law of the support, a whole number summed over holders, other users and dummies.

        Args:
            users: Number of users.
        """
        s, r, gap = self.true_support, self.false_support, float(self.true_support - self.false_support)
        spread = [float(p * (1 - p) + self.dummy_variance) / gap**2 for p in (s, r)]
        third = [float(p * (1 - p) * (1 - 2 * p) + self.dummy_third_cumulant) / gap**3 for p in (s, r)]
        start = -users * float(r + self.dummy_mean) / gap
        return CountErrorLaw.from_users(users, spread, third, 1 / abs(gap), start)

    @property
    def dummy_third_cumulant(self) -> Fraction:
        """The third cumulant of the number of a user's dummies that support an option."""
        return Fraction(0)

    @property
    def option_count(self) -> int:
        return self.options

    def select(self, selection: SelectedOptions) -> Estimator:
        return SelectedSupportEstimator(self, selection)

    def count_supports(self, messages: Array, selection: SelectedOptions) -> Integers:
        """Returns how many of the messages support each of the chosen options.

        Args:
            messages: A batch of messages.
            selection: The chosen options.

        Returns:
            One count per chosen option.
        """
        return np.asarray(self.support_counts(self.accumulate(messages))[selection.options])

    def influence(self, messages: float) -> tuple[Influence, ...]:
        """Returns the influence if every message supports a given option, or none does."""
        gap, unsupported = float(self.true_support - self.false_support), float(self.false_support + self.dummy_mean)
        ends = -unsupported / gap, (messages - unsupported) / gap
        return (Influence(min(ends), max(ends)),)

    def truth(self, values: Array) -> Floats:
        return np.bincount(values.reshape(-1), minlength=self.options).astype(np.float64)

    def variance(self, values: Array) -> Floats:
        return self.variance_of_counts(self.truth(values), len(values))

    def variance_of_counts(self, counts: Floats, users: float) -> Floats:
        """Returns the variance of each option's estimate.

        Args:
            counts: Number of users who hold each option.
            users: Number of users.

        Returns:
            One variance per option.
        """
        s, r = self.true_support, self.false_support
        own, other, gap = float(s * (1 - s)), float(r * (1 - r)), float((s - r) ** 2)
        return np.asarray((counts * own + (users - counts) * other + users * float(self.dummy_variance)) / gap)

    # --- Sums of estimates ---

    @property
    def pair_support(self) -> PairSupport | None:
        """The joint support probabilities of two options, if they are the same for every two and exactly known."""
        return None

    @property
    def has_known_covariances(self) -> bool:
        return self.pair_support is not None

    @cached_property
    def tree(self) -> ValueTree:  # type: ignore[override]
        """A tree of one level, whose leaves are the options."""
        return ValueTree(self.options, self.options)

    def second_moment_sum(self, weights: Floats, held: Floats, users: int) -> Floats:
        """Returns Σ over users of E[Z²], Z = Σ_j w_j(S_j − r)/(s − r), S_j = 1 if the real message supports j.

        E[Z] is the weight of the user's own option. Of the weights only W1 = Σ w_j, W2 = Σ w_j², and both sums over the
        users' own options are needed, because every two options are alike.

        Args:
            weights: Rows of weights, one weight per option.
            held: Number of users who hold each option.
            users: Number of users.
        """
        own, mixed, each, together = self._second_moment_coefficients
        first, second = weights.sum(axis=-1), (weights**2).sum(axis=-1)
        holders = own * (weights**2 @ held) + mixed * first * (weights @ held)
        return np.asarray(holders + users * (each * second + together * first**2))

    @cached_property
    def _second_moment_coefficients(self) -> tuple[float, float, float, float]:
        """The coefficients of Σ w² and W1·Σ w over the users' own options, and of W2 and W1² for each user."""
        pairs = self.pair_support
        assert pairs is not None, "the joint support probabilities are known"
        s, r, u, t = self.true_support, self.false_support, pairs.true_and_other, pairs.both_other
        terms = s - r - 2 * u + 2 * t, 2 * (u - t - r * (s - r)), r - t, t - r * r
        own, mixed, each, together = (float(term / (s - r) ** 2) for term in terms)
        return own, mixed, each, together

    def combined_variance(self, weights: Floats, held: Floats, users: int) -> Floats:
        assert self.pair_support is not None, "the joint support probabilities are known"
        first, second = weights.sum(axis=-1), (weights**2).sum(axis=-1)
        noise = float(self.dummy_variance) * second + float(self.pair_support.dummy_covariance) * (first**2 - second)
        real = self.second_moment_sum(weights, held, users) - weights**2 @ held
        return np.asarray(real + users * noise / float((self.true_support - self.false_support) ** 2))

    # --- Simulations ---

    @property
    def has_joint_simulation(self) -> bool:
        """True if `simulate` draws the joint law of the estimates, not only the law of each."""
        return False

    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        """Draws each option's estimate by its exact law, up to probabilities rounded to floats.

        If a message supports several options, their dependence is not drawn unless `has_joint_simulation`.
        """
        return self.estimate_from_supports(self.draw_supports(held, users, rng), users)

    def draw_supports(self, held: Integers, users: int, rng: np.random.Generator) -> Integers:
        """Returns random support counts of all options: Binomial(s) of holders, Binomial(r) of others, and dummies.

        Args:
            held: Number of users who hold each option.
            users: Number of users.
            rng: Source of randomness.
        """
        own, other = rng.binomial(held, float(self.true_support)), rng.binomial(users - held, float(self.false_support))
        return np.asarray(own + other + self.draw_dummies(users, len(held), rng))

    def draw_dummies(self, users: int, options: int, rng: np.random.Generator) -> Integers:
        """Returns random numbers of dummies that support each option, independently.

        Args:
            users: Number of users.
            options: Number of options.
            rng: Source of randomness.
        """
        del users, rng
        return np.zeros(options, dtype=np.int64)


@dataclass(frozen=True)
class SelectedSupportEstimator(SelectedOptionsEstimator):
    """Estimator of chosen options from their support counts."""

    full_estimator: SupportEstimator
    selection: SelectedOptions

    def accumulate(self, messages: Array) -> Array:
        return self.full_estimator.count_supports(messages, self.selection)

    def finish(self, total: Array, users: int) -> Estimate:
        return self.full_estimator.estimate_from_supports(total, users)

    def influence(self, messages: float) -> tuple[Influence, ...]:
        return self.full_estimator.influence(messages)

    def variance_at_counts(self, held: Floats, users: float) -> Floats:
        return self.full_estimator.variance_of_counts(held, users)

    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        """Draws each option's estimate by its exact law, independently of the other options."""
        supports = SupportEstimator.draw_supports(self.full_estimator, held, users, rng)
        return self.full_estimator.estimate_from_supports(supports, users)


@dataclass(frozen=True)
class DecodedSupportEstimator(SelectedSupportEstimator):
    """Estimator of chosen options if the full statistic counts messages, which are few and are decoded together."""

    def accumulate(self, messages: Array) -> Array:
        return self.full_estimator.accumulate(messages)

    def finish(self, total: Array, users: int) -> Estimate:
        supports = self.full_estimator.support_counts(total)[self.selection.options]
        return self.full_estimator.estimate_from_supports(supports, users)


@dataclass(frozen=True)
class OptionCountEstimator(SupportEstimator):
    """Estimator for messages that are the one option that they support.

    Args:
        options: Number of options.
        true_support: s, the probability that a message supports its user's option.
        false_support: r, the probability that it supports any other given option.
        dummy_mean: Mean number of a user's dummies that support an option.
        dummy_variance: Variance of that number.
        uniform_share: γ, the probability that a user sends a uniform option.
    """

    uniform_share: Fraction = Fraction(0)

    def accumulate(self, messages: Array) -> Array:
        return np.bincount(messages, minlength=self.options)

    def count_supports(self, messages: Array, selection: SelectedOptions) -> Integers:
        return selection.counts(messages)

    @property
    def pair_support(self) -> PairSupport:
        return PairSupport(Fraction(0), Fraction(0))

    @property
    def has_joint_simulation(self) -> bool:
        return True

    def draw_supports(self, held: Integers, users: int, rng: np.random.Generator) -> Integers:
        """Draws the counts of those who report the truth, and uniform options for all others."""
        return draw_response_counts(held, users, float(self.uniform_share), rng)


@dataclass(frozen=True)
class BitSumEstimator(SupportEstimator):
    """Estimator for messages that are rows of packed bits and support the options whose bit is 1."""

    def accumulate(self, messages: Array) -> Array:
        return bits_and_subsets.column_sums(messages, self.options)

    def count_supports(self, messages: Array, selection: SelectedOptions) -> Integers:
        return bits_and_subsets.selected_column_sums(messages, selection.options)

    @property
    def pair_support(self) -> PairSupport:
        return independent_pair_support(self)

    @property
    def has_joint_simulation(self) -> bool:
        return True


def independent_pair_support(estimator: SupportEstimator) -> PairSupport:
    """Returns the joint support probabilities if every option has an independent coin and independent dummies."""
    return PairSupport(estimator.true_support * estimator.false_support, estimator.false_support**2)


def draw_response_counts(held: Integers, users: int, uniform_share: float, rng: np.random.Generator) -> Integers:
    """Draws counts of options if each user reports a uniform option with this probability, else their own."""
    honest = rng.binomial(held, 1.0 - uniform_share)
    return np.asarray(honest + draw_uniform_counts(users - int(honest.sum()), len(held), rng))


def draw_uniform_counts(draws: int, options: int, rng: np.random.Generator) -> Integers:
    """Draws how often each option occurs in this many uniform draws."""
    return rng.multinomial(draws, np.full(options, 1.0 / options))
