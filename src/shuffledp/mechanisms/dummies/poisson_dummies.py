"""Poisson dummies: of each kind of message a Poisson number in total, from all users together or the shuffler."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb

from shuffledp._core import validation
from shuffledp._core.validation import Array, Floats, Integers, checked
from shuffledp.mechanisms.base.domain import Category
from shuffledp.mechanisms.base.encoding import WholeNumberEncoding
from shuffledp.mechanisms.base.error_laws import PoissonErrorLaw
from shuffledp.mechanisms.base.estimator import (
    Estimate,
    Estimator,
    Influence,
    SelectedOptions,
    SelectedOptionsEstimator,
    SimulableEstimator,
)
from shuffledp.mechanisms.base.law import AggregateNoiseLaw
from shuffledp.mechanisms.base.mechanism import Mechanism, OutputTable, TunableParameter
from shuffledp.mechanisms.base.message_plan import SharedNoise
from shuffledp.mechanisms.base.range_estimator import TreeEstimator
from shuffledp.mechanisms.base.value_tree import ValueTree
from shuffledp.numerics.ball_arithmetic import precision, to_rational
from shuffledp.privacy.aggregate_noise import AggregateNoiseLoss, NoiseFacts
from shuffledp.privacy.randomizer_interface import HasAggregateLoss
from shuffledp.sampling.noise import PoissonLaw
from shuffledp.sampling.random_sources import RandomSource

# --- Two Poisson counts, one of which is larger by one: certified hockey-stick divergence ---


UNIT_ROUNDOFF = 2.0**-53
MAX_NEGATIVE_LOG_PROBABILITY = 200 * math.log(2.0)
"""Negative logarithm of the smallest probability of a count that is included; the omitted mass is added."""
PRECISION_BITS = 128
CELLS_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class PoissonPair:
    """Pair of laws (X + 1, Y) and (X, Y + 1), with X and Y independent Poisson numbers of mean m.

    Theorem: the likelihood ratio at (a, b) is a/b, since P(X = a−1)/P(X = a) = a/m. So the divergence at e^ε = c is
    Σ_{x, y} P(x)P(y)(1 − c·y/(x+1))₊ = Σ_y P(y)·(Q(k_y) − c·(y/m)·Q(k_y + 1)), where k_y = ⌊c·y⌋ is the first x with
    x + 1 > c·y and Q(k) = P(X ≥ k), because P(x)/(x+1) = P(x+1)/m. Both directions are equal.
    Returns: floats. Every number is a sum of products of positive ones, off by at most the number of roundings times
    2^-53, relatively; the omitted mass of the law is added to the upper value.

    Args:
        mean: m.
    """

    mean: Fraction

    @cached_property
    def _window(self) -> tuple[int, Floats, Floats, float]:
        """The first count, the probabilities from there on, their upper tail sums, and a bound of the omitted mass."""
        m = float(self.mean)
        # Probabilities decrease on both sides of the mode; at this distance they are below the limit, by Chernoff.
        reach = math.sqrt(2 * MAX_NEGATIVE_LOG_PROBABILITY * m) + MAX_NEGATIVE_LOG_PROBABILITY
        first, last, mode = max(0, math.floor(m - reach)), math.ceil(m + reach), math.floor(m)
        with precision(PRECISION_BITS):
            exact = arb(to_rational(self.mean))
            peak = float((mode * exact.log() - exact - arb(mode + 1).lgamma()).exp())
        upwards = np.cumprod(m / np.arange(mode + 1, last + 1, dtype=np.float64))
        downwards = np.cumprod(np.arange(mode, first, -1, dtype=np.float64) / m)
        chances = peak * np.concatenate([downwards[::-1], [1.0], upwards])
        at_least = np.append(np.cumsum(chances[::-1])[::-1], 0.0)
        above = float(chances[-1]) * (1 + m / (last + 1 - m))
        below = float(chances[0]) * first / max(m - first, UNIT_ROUNDOFF) if first else 0.0
        return first, chances, at_least, 2 * (above + below) * (1 + 1e-6)

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Returns the upper and the lower values of the divergence, one per ε."""
        chances = self._window[1]
        step = max(1, CELLS_AT_ONCE // len(chances))
        parts = [self._profile_batch(epsilons[start : start + step]) for start in range(0, len(epsilons), step)]
        upper, lower = (np.concatenate(side) for side in zip(*parts, strict=True)) if parts else (epsilons, epsilons)
        return upper, lower

    def _profile_batch(self, epsilons: Floats) -> tuple[Floats, Floats]:
        first, chances, at_least, omitted = self._window
        counts = np.arange(first, first + len(chances), dtype=np.float64)
        # An x whose sign is lost in rounding may count either way: its summand is within 2^-50 of 0.
        factor = np.exp(np.minimum(epsilons, 700.0))[:, None]
        with np.errstate(over="ignore"):
            least = np.minimum(factor * counts * (1 - 8 * UNIT_ROUNDOFF), counts[-1] + 1)
        places = np.maximum(np.floor(least) - first, 0.0).astype(np.int64)
        places = np.minimum(places, len(chances))
        plain = (chances * at_least[places]).sum(axis=1)
        moved = chances * counts / float(self.mean)
        subtracted = (moved * at_least[np.minimum(places + 1, len(chances))]).sum(axis=1) * factor[:, 0]
        error = (16 * len(chances) + 256) * UNIT_ROUNDOFF * (plain + subtracted)
        value = plain - subtracted
        return np.minimum(value + error + omitted, 1.0), np.maximum(value - error - omitted, 0.0)


def log_ratio_deviation(mean: Fraction) -> float:
    """Returns approximately the standard deviation of log((X + 1)/Y)."""
    return math.sqrt(2.0 / max(float(mean), 0.1))


MAX_MEAN, MAX_COUNTED_DUMMIES = 1e9, 1e8
"""Largest mean number of dummies of an option, and the largest number of them that a guarantee counts."""
TUNABLE_MEAN = TunableParameter("mean", False, True, 1e-3, MAX_MEAN)
MAX_DRAW = 64
"""Largest mean of one Poisson draw; a larger mean is drawn as a sum of several, which has the same law."""
DRAWS_AT_ONCE = 1 << 22
SHUFFLER_NOTE = "The shuffler draws the noise, and must draw all of it."


def check_positive(who: str, name: str, value: Any, *, at_most: float) -> float:
    """Returns a number above 0 and at most ``at_most``; raises TypeError or ValueError otherwise."""
    number = validation.positive_finite(who, name, value)
    if number > at_most:
        raise ValueError(f"{who}: {name} must be at most {at_most:g}, got {number!r}.")
    return number


@dataclass(frozen=True)
class PoissonLoss(AggregateNoiseLoss):
    """Privacy loss of all messages about one user's option, among Poisson numbers of dummies of each option.

    Theorem: the others' options are known and can be subtracted from the counts. Replacing option a by b moves one
    message between two independent Poisson counts, whose divergence ``PoissonPair`` computes; no other count changes.
    Returns: exact, whatever the domain and the number of users; attained by an attacker who knows all other options.

    Args:
        mean: Mean number of dummies of each option.
        has_shuffler_noise: True if the shuffler draws the dummies.
        exact: True if there are no more dummies than these.
    """

    mean: Fraction
    has_shuffler_noise: bool = False
    exact: bool = True

    @property
    def theorem(self) -> str:
        return "exact law of Poisson dummies (ours)"

    @property
    def note(self) -> str:
        return SHUFFLER_NOTE if self.has_shuffler_noise else ""

    @property
    def is_attained(self) -> bool:
        return self.exact

    @cached_property
    def _pair(self) -> PoissonPair:
        return PoissonPair(self.mean)

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        return self._pair.profile(epsilons)

    def deviation(self) -> float:
        return log_ratio_deviation(self.mean)

    def noise_facts(self) -> NoiseFacts:
        return {"kind": "poisson", "mean": self.mean}


@dataclass(frozen=True)
class PoissonDummies:
    """Poisson(mean) numbers of dummies of each kind of message, if `honest` users add their shares.

    A user draws a Poisson(kinds·mean/honest) number and for each dummy its kind uniformly, exactly: the numbers of each
    kind, over any users, are then independent and Poisson.

    Args:
        kinds: Number of different messages.
        mean: Mean number of dummies of each kind.
        honest: Number of users who together add that mean; 0 if the shuffler draws all dummies, once.
    """

    kinds: int
    mean: float
    honest: int

    @property
    def has_shuffler_noise(self) -> bool:
        return self.honest == 0

    def mean_per_kind(self, users: float) -> Fraction:
        """Returns the mean number of dummies of each kind if this many users take part."""
        return Fraction(self.mean) if self.has_shuffler_noise else Fraction(self.mean) * Fraction(users) / self.honest

    def build_message_plan(self, real: int) -> SharedNoise:
        """Returns the message plan of users with `real` real messages each."""
        return SharedNoise(real, float(self.kinds * self.mean_per_kind(1)), self.honest)

    def loss(self, users: int) -> PoissonLoss:
        """Returns the privacy loss; more dummies only hide more, so at most `MAX_COUNTED_DUMMIES` are counted."""
        mean = self.mean_per_kind(users)
        return PoissonLoss(
            min(mean, Fraction(MAX_COUNTED_DUMMIES)), self.has_shuffler_noise, mean <= MAX_COUNTED_DUMMIES
        )

    @cached_property
    def _law(self) -> tuple[PoissonLaw, int]:
        """The law of a draw, and the number of draws that make up the dummies of one party."""
        whole = self.kinds * self.mean_per_kind(1)
        draws = max(1, -(-whole.numerator // (whole.denominator * MAX_DRAW)))
        return PoissonLaw(_RationalBall(whole / draws)), draws

    def draw_counts(self, parties: int, source: RandomSource) -> Integers:
        """Draws the number of dummies that each party adds."""
        law, draws = self._law
        if draws == 1:
            return law.draw(source, parties)
        step = max(1, DRAWS_AT_ONCE // draws)
        sizes = [min(step, parties - start) for start in range(0, parties, step)]
        return np.concatenate([law.draw(source, size * draws).reshape(size, draws).sum(axis=1) for size in sizes])

    def add_dummies(self, real: Array, source: RandomSource) -> Array:
        """Returns all messages of users: for each the real ones, then dummies.

        Args:
            real: Real messages, one row per user.
            source: Source of randomness.

        Returns:
            The messages, those of one user next to each other.
        """
        users, each = real.shape
        if self.has_shuffler_noise:
            return real.reshape(-1)
        dummies = self.draw_counts(users, source)
        ends = np.cumsum(dummies + each)
        first = ends - dummies - each
        messages = np.empty(int(ends[-1]), dtype=np.int64)
        is_real = np.zeros(len(messages), dtype=np.bool_)
        for place in range(each):
            messages[first + place] = real[:, place]
            is_real[first + place] = True
        messages[~is_real] = source.integers_below(self.kinds, int(dummies.sum()))
        return messages

    def draw_shuffler_messages(self, source: RandomSource) -> Array | None:
        """Draws the dummies that the shuffler adds; returns None if the users add them."""
        if not self.has_shuffler_noise:
            return None
        return source.integers_below(self.kinds, int(self.draw_counts(1, source)[0]))


@dataclass(frozen=True)
class _RationalBall:
    """Fraction as a ball at the working precision."""

    value: Fraction

    def __call__(self) -> arb:
        return arb(to_rational(self.value))


@dataclass(frozen=True)
class PoissonDummiesEstimator(SimulableEstimator, TreeEstimator):
    """Estimator of the counts of the nodes of a tree: message counts minus the mean number of dummies.

    Every user is in one node per level. The noise of the nodes is independent, with a variance that does not depend on
    the values.

    Args:
        tree: The tree, of one level for a histogram.
        dummies: The dummies among the messages.
    """

    tree: ValueTree
    dummies: PoissonDummies

    @property
    def has_independent_noise(self) -> bool:
        return True

    def message_nodes(self, messages: Array) -> Integers:
        return np.asarray(messages, dtype=np.int64)

    def accumulate(self, messages: Array) -> Array:
        return np.bincount(messages, minlength=self.tree.node_count)

    def finish(self, total: Array, users: int) -> Estimate:
        noise = float(self.dummies.mean_per_kind(users))
        value = np.asarray(total, dtype=np.float64) - noise
        return Estimate(value, np.full(self.tree.node_count, noise), users, PoissonErrorLaw(noise))

    @property
    def option_count(self) -> int | None:
        """The number of options if the tree is flat; a tall tree has other nodes besides, so None."""
        return self.tree.value_count if self.tree.height == 1 else None

    def select(self, selection: SelectedOptions) -> Estimator:
        return SelectedPoissonDummiesEstimator(self, selection)

    def influence(self, messages: float) -> tuple[Influence, ...]:
        """Returns the influence of messages that all name one node."""
        expected = float(self.dummies.mean_per_kind(1))
        return (Influence(-expected, messages - expected),)

    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        noise = rng.poisson(float(self.dummies.mean_per_kind(users)), self.tree.node_count)
        return self.finish(self.tree.sum_leaves(held) + noise, users)

    def truth(self, values: Array) -> Floats:
        return self.tree.sum_leaves(np.bincount(values, minlength=self.tree.value_count).astype(np.float64))

    def variance(self, values: Array) -> Floats:
        return np.full(self.tree.node_count, float(self.dummies.mean_per_kind(len(values))))

    def combined_variance(self, weights: Floats, held: Floats, users: int) -> Floats:
        del held
        return np.asarray(float(self.dummies.mean_per_kind(users)) * (weights**2).sum(axis=-1))


@dataclass(frozen=True)
class SelectedPoissonDummiesEstimator(SelectedOptionsEstimator):
    """Estimator of the counts of chosen options."""

    full_estimator: PoissonDummiesEstimator
    selection: SelectedOptions

    def accumulate(self, messages: Array) -> Array:
        return self.selection.counts(messages)

    def finish(self, total: Array, users: int) -> Estimate:
        noise = self._noise(users)
        value = np.asarray(total, dtype=np.float64) - noise
        return Estimate(value, np.full(len(self.selection), noise), users, PoissonErrorLaw(noise))

    def influence(self, messages: float) -> tuple[Influence, ...]:
        return self.full_estimator.influence(messages)

    def variance_at_counts(self, held: Floats, users: float) -> Floats:
        return np.full(len(held), self._noise(users))

    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        return self.finish(held + rng.poisson(self._noise(users), len(held)), users)

    def _noise(self, users: float) -> float:
        """Returns the mean number of dummies of each option."""
        return float(self.full_estimator.dummies.mean_per_kind(users))


# --- PoissonDUMP ---


@dataclass(frozen=True)
class PoissonDUMP(Mechanism, HasAggregateLoss):
    """The true option in the clear among a Poisson number of dummies of each option.

    Each user adds a Poisson(options·mean/honest) number of uniform options, drawn exactly, most often none: the number
    of messages of a user varies independently of the value. The estimate is a count minus the mean number of its
    dummies: the noise has variance `mean`, like a Gaussian's, and is the same for every option. There is no local ε:
    the user's message is in the clear.

    Theorem: the loss of moving one message between two independent Poisson counts (``PoissonLoss``), exact, whatever d
    and n.
    Requires: d ≥ 2; mean > 0; honest ≥ 0.

    Args:
        options: d, the number of options; a user's value is the number of one of them, from 0.
        mean: Mean number of dummies of each option in total.
        honest: Number of users who together add that mean; fewer make less noise and more make more. 0 if the shuffler
            draws all dummies.

    Raises:
        TypeError: If an argument is not a number.
        ValueError: If an argument is outside its range.

    Example:
        >>> import shuffledp as sdp
        >>> mechanism = sdp.PoissonDUMP(options=1024, mean=100.0, honest=1_000_000)
        >>> f"{mechanism.messages_per_user:.4f}"
        '1.1024'
        >>> answer = sdp.amplify(mechanism, users=1_000_000).epsilon(delta=1e-9)
        >>> f"{answer.upper:.4f} {answer.lower:.4f}"
        '0.8183 0.8183'
    """

    options: int = field(metadata=checked(validation.count, at_least=2))
    mean: float = field(metadata=checked(check_positive, at_most=MAX_MEAN))
    honest: int = field(metadata=checked(validation.count, at_least=0))

    name = "poisson-dump"
    task = "frequency"
    summary = "the true option, and a Poisson number of dummies of each option in all"
    use_case = "For counts by dummies where users come and go: each adds a Poisson number."
    tunable = (TUNABLE_MEAN,)
    has_table = False

    @cached_property
    def dummies(self) -> PoissonDummies:
        """The dummies that hide the option."""
        return PoissonDummies(self.options, self.mean, self.honest)

    @cached_property
    def domain(self) -> Category:
        return Category("PoissonDUMP", self.options)

    @cached_property
    def message_plan(self) -> SharedNoise:
        return self.dummies.build_message_plan(1)

    @cached_property
    def estimator(self) -> PoissonDummiesEstimator:
        return PoissonDummiesEstimator(ValueTree(self.options, self.options), self.dummies)

    def aggregate_loss(self, honest: int) -> PoissonLoss:
        """Returns the exact privacy loss of all messages."""
        return self.dummies.loss(honest)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        return self.dummies.add_dummies(values[:, None], source)

    @cached_property
    def law(self) -> AggregateNoiseLaw:
        return AggregateNoiseLaw("PoissonDUMP")

    @cached_property
    def encoding(self) -> WholeNumberEncoding:
        return WholeNumberEncoding("PoissonDUMP", self.dummies.kinds)

    def draw_shuffler_messages(self, source: RandomSource) -> Array | None:
        return self.dummies.draw_shuffler_messages(source)

    def table(self) -> OutputTable:
        raise ValueError("PoissonDUMP: any number of messages cannot be written down as a table.")

    @classmethod
    def examples(cls) -> Sequence[PoissonDUMP]:
        return [cls(options=2, mean=3.0, honest=10), cls(options=5, mean=20.0, honest=100)]
