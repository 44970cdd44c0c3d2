"""Gaussian mechanism for the mean of vectors in the unit ball."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from flint import arb

from shuffledp._core import validation
from shuffledp._core.errors import NotApplicable
from shuffledp._core.types import Array, Floats
from shuffledp.mechanisms.base.estimator import Estimate, Estimator, Influence
from shuffledp.mechanisms.base.law import Law
from shuffledp.mechanisms.base.mechanism import Mechanism, OutputTable, TunableParameter
from shuffledp.mechanisms.vector._gaussian_worst_dataset import build_ball_other_users, domination_slack
from shuffledp.mechanisms.vector.unit_ball import NUMBERS_AT_ONCE, LatticeEncoding, UnitBall, draw_in_batches
from shuffledp.numerics.intervals import precision, round_down, round_up, to_rational
from shuffledp.numerics.roots import find_crossing
from shuffledp.privacy.dominating_pairs import HidingPair, OtherUsers
from shuffledp.privacy.privacy_loss import AggregateNoiseLoss
from shuffledp.privacy.randomizer import (
    HasAggregateLoss,
    HasQuickForm,
    HasTails,
    Randomizer,
    TruncatedRandomizer,
    ValueObject,
)
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling.noise import normals
from shuffledp.sampling.random_sources import RandomSource
from shuffledp.sampling.rounding import NOISE_VARIANCE, round_with_noise

# --- Privacy of Gaussian noise in the unit ball: of one message alone, and truncated among others ---


ERROR_PREFIX = "GaussianVector"
LENGTH_MARGIN = 12
"""A normal vector is longer than √d + 12 with probability below e^-72."""
MIN_REACH, MAX_REACH, MIN_TAIL_PROBABILITY = 2.0, 11.0, 1e-300
MAX_EPSILON = 40.0
"""Largest ε; beyond it e^-72 is no longer negligible."""
EPSILON_STEP, REACH_DIVISOR, LOW_NOISE_REACH_DIVISOR, HIGH_NOISE_SIGMA = 0.25, 150.0, 3.0, 3.0
NO_RATIO_REASON = "Gaussian noise bounds no ratio: no parameters tell of it."
NO_ATTACK_REASON = "its vectors are computed in floats and noised, so that their law is known nearly only."
PRECISION_BITS = 256


@dataclass(frozen=True)
class GaussianBallLaw(Law):
    """The law of points of the unit ball with Gaussian noise, which has no blanket unless it is truncated."""

    missing_attack_reason = NO_ATTACK_REASON

    def variation_ratio(self) -> VariationRatio:
        raise NotApplicable(ERROR_PREFIX, NO_RATIO_REASON)

    def blankets(self) -> Sequence[HidingPair]:
        return ()

    def attacks(self) -> Sequence[HidingPair]:
        return ()


@dataclass(frozen=True)
class TruncatedGaussianBall(TruncatedRandomizer, ValueObject):
    """The law without messages beyond ``reach`` standard deviations, for one other user after the other.

    Theorem: absent user with a common part up to τ (``gaussian_worst_dataset``): besides the worst dataset δ has 3τe^κ
    + η + t(1 + e^κ + 2e^ε) + (τ + t)(1 + e^ε), over 1 − 2(τ + t), with τ = P(N > reach), η = 4τ + 2^-45 and t = e^-72.
    """

    sigma: float
    error: float
    reach: float
    quick: bool

    def truncation_delta(self, epsilon: float) -> float:
        """Returns the δ lost by truncation, with e^ε at the next step of ε: one number for all small ε."""
        if epsilon > MAX_EPSILON:
            return 1.0
        with precision(PRECISION_BITS):
            tau, rare = self._tau(), arb(-LENGTH_MARGIN * LENGTH_MARGIN // 2).exp()
            more, ratio = (
                arb(to_rational(self.error)).exp(),
                arb(EPSILON_STEP * (1 + math.floor(epsilon / EPSILON_STEP))).exp(),
            )
            total = (
                3 * tau * more
                + arb(to_rational(domination_slack(self.reach)))
                + rare * (1 + more + 2 * ratio)
                + (tau + rare) * (1 + ratio)
            )
            return round_up(total / (1 - 2 * (tau + rare)))

    def _tau(self) -> arb:
        return (arb(to_rational(self.reach)) / arb(2).sqrt()).erfc() / 2

    def variation_ratio(self) -> VariationRatio:
        raise NotApplicable(ERROR_PREFIX, NO_RATIO_REASON)

    def blankets(self) -> Sequence[HidingPair]:
        return ()

    def attacks(self) -> Sequence[HidingPair]:
        return ()

    @cached_property
    def _others(self) -> OtherUsers:
        return build_ball_other_users(self.sigma, self.reach, self.error, quick=self.quick)

    def other_users(self) -> Sequence[OtherUsers]:
        return (self._others,)


@dataclass(frozen=True)
class QuickGaussianBall(Randomizer, HasTails, ValueObject):
    """The same noise where one kind of other user stands for all: about a fifth more ε, in less than a second."""

    sigma: float
    error: float

    @property
    def has_tails(self) -> bool:
        return True

    def truncate_tails(self, share: float) -> TruncatedGaussianBall:
        return TruncatedGaussianBall(self.sigma, self.error, find_reach(self.sigma, share), quick=True)

    def variation_ratio(self) -> VariationRatio:
        raise NotApplicable(ERROR_PREFIX, NO_RATIO_REASON)

    def blankets(self) -> Sequence[HidingPair]:
        return ()

    def attacks(self) -> Sequence[HidingPair]:
        return ()


@dataclass(frozen=True)
class SingleMessageLoss(AggregateNoiseLoss):
    """The loss of one message by itself, which bounds that among any others.

    Theorem: Gaussian noise of the ball's diameter, μ = 2/σ: δ = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ). As it is executed,
    e^κ times that at ε − 2κ, and t(1 + e^ε), t = e^-72 (``gaussian_worst_dataset``).
    """

    sigma: float
    error: float
    honest: int

    @property
    def theorem(self) -> str:
        return "one message alone: the curve of Gaussian noise"

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        with precision(PRECISION_BITS):
            found = [self._delta(float(epsilon)) for epsilon in epsilons]
            upper = np.array([round_up(delta) for delta in found])
            lower = np.array([round_down(delta) for delta in found])
        return np.clip(upper, 0.0, 1.0), np.clip(lower, 0.0, 1.0)

    def _delta(self, epsilon: float) -> arb:
        mu, error, level = (
            2 / arb(to_rational(self.sigma)),
            arb(to_rational(self.error)),
            arb(to_rational(min(epsilon, MAX_EPSILON))),
        )
        moved = level - 2 * error
        found = _normal_cdf_ball(mu / 2 - moved / mu) - moved.exp() * _normal_cdf_ball(-mu / 2 - moved / mu)
        return error.exp() * found + arb(-LENGTH_MARGIN * LENGTH_MARGIN // 2).exp() * (1 + level.exp())

    def deviation(self) -> float:
        """Returns the standard deviation of the loss among many others, or of the message alone."""
        return min(2 / self.sigma, math.sqrt(math.expm1(4 / self.sigma**2) / self.honest))


def _normal_cdf_ball(x: arb) -> arb:
    """Returns P(N < x)."""
    return (-x / arb(2).sqrt()).erfc() / 2


def find_reach(sigma: float, share: float) -> float:
    """Returns about the reach at which P(N > reach) is a given part of ``share``.

    Truncation costs little, so a small part suffices; if single messages weigh much, it is worth a good part of δ.
    """
    chance = share / (REACH_DIVISOR if sigma >= HIGH_NOISE_SIGMA else LOW_NOISE_REACH_DIVISOR)

    def room(reach: float) -> float:
        return math.log(max(chance, MIN_TAIL_PROBABILITY)) - math.log(_normal_tail(reach))

    if room(MIN_REACH) >= 0:
        return MIN_REACH
    if room(MAX_REACH) <= 0:
        return MAX_REACH
    return find_crossing(room, MIN_REACH, MAX_REACH, relative=0.0, absolute=1e-3).middle


def _normal_tail(x: float) -> float:
    """Returns P(N > x)."""
    return math.erfc(x / math.sqrt(2)) / 2


MIN_MULTIPLIER, MAX_MULTIPLIER = 0.8, 1e4
MIN_PLANNED_MULTIPLIER, PLANNED_FACTORS = 1.0, (1.01, 1.03, 1.1, 1.3, 2.0)
MAX_DIMENSION = 1 << 16
LOG2_STEPS_PER_DEVIATION = 8
"""Steps per standard deviation of the noise, as a power of two: rounding adds at most 7e-5 to a variance."""
NOISE_MARGIN_STEPS = 1 << 8
MAX_ROUNDING_VARIANCE = 0.25
"""Largest f(1−f) of a fraction f."""


@dataclass(frozen=True)
class NoisyVectorEstimator(Estimator):
    """Estimates the mean of vectors with noise of a known variance in each coordinate, both in steps."""

    dimension: int
    step: float
    noise_variance: float
    largest: int

    def accumulate(self, messages: Array) -> Array:
        total = np.zeros(self.dimension, dtype=np.int64)
        at_once = max(1, NUMBERS_AT_ONCE // self.dimension)
        for start in range(0, len(messages), at_once):
            total += messages[start : start + at_once].sum(axis=0, dtype=np.int64)
        return total

    def finish(self, total: Array, users: int) -> Estimate:
        """Returns the mean and its variance, with the largest possible variance of rounding."""
        spread = (self.noise_variance + MAX_ROUNDING_VARIANCE) * self.step**2 / users
        return Estimate(np.asarray(total) * (self.step / users), np.full(self.dimension, spread), users)

    def influence(self, messages: float) -> tuple[Influence, ...]:
        most = messages * self.largest * self.step
        return (Influence(-most, most, -1.0, 1.0),)

    def truth(self, values: Array) -> Floats:
        return np.asarray(values.mean(axis=0))

    def variance(self, values: Array) -> Floats:
        """Returns the variance, with f(1−f) at its mean over the noise, 1/6 to many digits."""
        return np.full(self.dimension, (self.noise_variance + 1 / 6) * self.step**2 / len(values))


@dataclass(frozen=True)
class GaussianVector(Mechanism, HasTails, HasAggregateLoss, HasQuickForm):
    """Adds Gaussian noise to every coordinate of a vector in the unit ball.

    A message alone has no local ε, as extreme noise reveals much. Among others it has a central one, as small in many
    dimensions as on a line: only the plane of three inputs matters (``gaussian_worst_dataset``). Reals cannot be sent,
    so the noisy vector is divided by a step of about a 256th of the noise, rounded to whole numbers with the right
    mean, and given two-sided geometric noise of a few steps. Rounding and that noise are exact; the vector is computed
    in float arithmetic, and is off slightly: but for a probability of e^-72, no message's probability changes by more
    than a factor e^κ, which is counted. The only assumption is the accuracy of log, cos and √ in float arithmetic.

    Theorem: absent user with a cut law (docs/crowds.md), every two points of the ball and every dataset of them.
    Requires: d from 1 to 2^16. Where few take part, or there is little noise, it is what one message alone keeps.

    Args:
        multiplier: Standard deviation of the noise in each coordinate, in units of the ball's radius 1 (two vectors may
            be 2 apart).
        dimension: Number of coordinates d; a vector's length is at most 1.

    Raises:
        ValueError: If a parameter is out of range.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.GaussianVector(multiplier=4.0, dimension=16)
    >>> mechanism.message_bits
    256
    >>> mechanism.truncate_tails(1e-8).truncation_delta(0.01) < 1e-8
    True
    """

    multiplier: float
    dimension: int
    epsilon: float = field(init=False, default=math.inf)

    name = "gaussian-vector"
    task = "vector mean"
    summary = "mean of vectors in the unit ball: the vector with Gaussian noise"
    use_case = "Where vectors must carry Gaussian noise, as in learning."
    aliases = ("gaussian-ball",)
    tunable: ClassVar[tuple[TunableParameter, ...]] = (
        TunableParameter("multiplier", False, True, MIN_MULTIPLIER, MAX_MULTIPLIER),
    )
    has_table = False

    def __post_init__(self) -> None:
        multiplier = validation.positive_finite(ERROR_PREFIX, "multiplier", self.multiplier)
        if not MIN_MULTIPLIER <= multiplier <= MAX_MULTIPLIER:
            least, most = f"{MIN_MULTIPLIER:g}", f"{MAX_MULTIPLIER:g}"
            raise ValueError(f"{ERROR_PREFIX}: multiplier must be between {least} and {most}, got {multiplier!r}.")
        dimension = validation.count(ERROR_PREFIX, "dimension", self.dimension)
        if dimension > MAX_DIMENSION:
            raise ValueError(f"{ERROR_PREFIX}: dimension must be at most {MAX_DIMENSION}, got {dimension}.")
        object.__setattr__(self, "multiplier", multiplier)
        object.__setattr__(self, "dimension", dimension)

    @classmethod
    def designs(
        cls, facts: Mapping[str, Any], users: int, epsilon: float, delta: float, rounds: int
    ) -> Iterator[dict[str, Any]]:
        """Yields the noise of the limit of many users, and slightly more.

        Args:
            facts: Known facts of the task: ``dimension`` is required; ``users``, if present, is the expected number of
                users.
            users: Fewest honest users for whom the target must hold.
            epsilon: Target ε of all rounds together.
            delta: Target δ of all rounds together.
            rounds: Number of rounds in which the same users take part.

        Yields:
            Constructor arguments by name, the most accurate design first.
        """
        usual = max(MIN_PLANNED_MULTIPLIER, _limit_multiplier(users, epsilon, delta, rounds))
        for more in PLANNED_FACTORS:
            if more * usual <= MAX_MULTIPLIER:
                yield {"multiplier": more * usual, "dimension": facts["dimension"]}

    # --- encoding ---

    @cached_property
    def step(self) -> float:
        """The size of one step, a power of two."""
        return 2.0 ** (math.floor(math.log2(self.multiplier)) - LOG2_STEPS_PER_DEVIATION)

    @cached_property
    def _max_length(self) -> float:
        """L, a length that a noisy vector exceeds with probability below e^-72, for every input."""
        return (3.0 + self.multiplier * (math.sqrt(self.dimension) + LENGTH_MARGIN)) * (1 + 2.0**-20)

    @cached_property
    def _coordinate_bits(self) -> int:
        """Largest number of binary digits of a coordinate of such a vector, in steps."""
        return math.ceil(math.log2(self._max_length / self.step)) + 1

    @cached_property
    def realisation_error(self) -> float:
        """κ: the distance to the exact vector in steps, summed over the coordinates, and the rounding before the noise.

        Normal numbers are right to 2^-43 of their length; scaling and adding, to 2^-51; and a checked vector may be
        longer than 1 by d·2^-50.
        """
        distance = 2.0**-42 * self._max_length + self.dimension * 2.0**-50
        moved = math.sqrt(self.dimension) * distance / self.step
        return (moved + self.dimension * 2.0 ** (self._coordinate_bits + 1 - 52)) * (1 + 2.0**-40)

    @cached_property
    def domain(self) -> UnitBall:
        return UnitBall(ERROR_PREFIX, self.dimension)

    @cached_property
    def encoding(self) -> LatticeEncoding:
        return LatticeEncoding(
            ERROR_PREFIX,
            self.dimension,
            2 if self._coordinate_bits <= 14 else 4,
            (1 << self._coordinate_bits) + NOISE_MARGIN_STEPS,
        )

    @cached_property
    def estimator(self) -> NoisyVectorEstimator:
        noise = (self.multiplier / self.step) ** 2 + NOISE_VARIANCE
        return NoisyVectorEstimator(self.dimension, self.step, noise, self.encoding.largest)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        """Returns one vector of whole numbers per user.

        Args:
            values: Checked vectors, one row per user.
            source: Source of randomness.

        Returns:
            One row of whole numbers, in steps, per user.
        """

        def draw(vectors: Floats) -> Array:
            noisy = normals(source, *vectors.shape)
            noisy *= self.multiplier
            noisy += vectors
            noisy *= 1 / self.step
            largest = self.encoding.largest
            np.clip(noisy, -largest, largest, out=noisy)
            return np.clip(round_with_noise(noisy, source, self._coordinate_bits + 1), -largest, largest)

        return draw_in_batches(values, self.encoding.coordinate_bytes, draw)

    # --- privacy ---

    @cached_property
    def law(self) -> GaussianBallLaw:
        return GaussianBallLaw()

    @property
    def has_tails(self) -> bool:
        return True

    def truncate_tails(self, share: float) -> TruncatedGaussianBall:
        """Returns the law without its tails.

        Args:
            share: About the δ that truncation may cost.

        Returns:
            The truncated law, with every kind of other user.
        """
        return TruncatedGaussianBall(
            self.multiplier, self.realisation_error, find_reach(self.multiplier, share), quick=False
        )

    def quick_form(self) -> QuickGaussianBall:
        return QuickGaussianBall(self.multiplier, self.realisation_error)

    def aggregate_loss(self, honest: int) -> SingleMessageLoss:
        """Returns the loss of one message by itself.

        Args:
            honest: Number of honest users, for the scale of the loss.

        Returns:
            The loss, which holds among any others.
        """
        return SingleMessageLoss(self.multiplier, self.realisation_error, honest)

    def table(self) -> OutputTable:
        raise ValueError(f"{ERROR_PREFIX}: vectors of many digits cannot be written down as a table.")

    @classmethod
    def examples(cls) -> Sequence[GaussianVector]:
        return [cls(multiplier=40.0, dimension=2), cls(multiplier=5.0, dimension=16), cls(multiplier=1.0, dimension=3)]


def _limit_multiplier(users: int, epsilon: float, delta: float, rounds: int) -> float:
    """Returns the multiplier at which the limit of many users meets a target, for planning.

    User 1 holds one of two opposite unit vectors, and all others one of them.
    """

    def excess(log_multiplier: float) -> float:
        mu = math.sqrt(rounds * math.expm1(min(700.0, 4 * math.exp(-2 * log_multiplier))) / users)
        return delta - (_normal_cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * _normal_cdf(-mu / 2 - epsilon / mu))

    least, most = math.log(MIN_MULTIPLIER), math.log(MAX_MULTIPLIER)
    return math.exp(find_crossing(excess, least, most, relative=0.0, absolute=1e-4).middle)


def _normal_cdf(x: float) -> float:
    """Returns the standard normal distribution function."""
    return math.erfc(-x / math.sqrt(2)) / 2
