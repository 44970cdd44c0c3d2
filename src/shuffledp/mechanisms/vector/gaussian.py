"""Gaussian mechanism for the mean of vectors in the unit ball.

The proof about its worst dataset is in docs/crowds.md, "Gaussian noise in a ball".
"""

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
from shuffledp._core.results_and_value_objects import ValueObject
from shuffledp._core.validation import Array, Floats, checked
from shuffledp.mechanisms.base.estimator import Estimate, Estimator, Influence
from shuffledp.mechanisms.base.law import Law
from shuffledp.mechanisms.base.mechanism import Mechanism, OutputTable, TunableParameter
from shuffledp.mechanisms.vector._gaussian_worst_dataset import (
    PRECISION_BITS,
    build_ball_other_users,
    domination_slack,
    normal_tail,
)
from shuffledp.mechanisms.vector._unit_ball_parts import NUMBERS_AT_ONCE, LatticeEncoding, UnitBall, draw_in_batches
from shuffledp.numerics.ball_arithmetic import precision, round_down, round_up, to_rational
from shuffledp.numerics.roots import find_crossing
from shuffledp.privacy.aggregate_noise import AggregateNoiseLoss
from shuffledp.privacy.dominating_pairs import (
    HidingPair,
    OtherUsers,
)
from shuffledp.privacy.randomizer_interface import (
    HasAggregateLoss,
    HasQuickForm,
    HasTails,
    Randomizer,
    TruncatedRandomizer,
)
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling.noise import normals
from shuffledp.sampling.random_sources import RandomSource
from shuffledp.sampling.rounding_and_digits import NOISE_VARIANCE, round_with_noise

# --- Privacy of Gaussian noise in the unit ball: of one message alone, and truncated among others ---


ERROR_PREFIX = "GaussianVector"
LENGTH_MARGIN = 12
"""A normal vector is longer than √d + 12 with probability below e^-72."""
MIN_REACH, MAX_REACH, MIN_TAIL_PROBABILITY = 2.0, 11.0, 1e-300
MAX_EPSILON = 40.0
"""Largest ε; beyond it e^-72 is no longer negligible."""
EPSILON_STEP, REACH_DIVISOR, LOW_NOISE_REACH_DIVISOR, HIGH_NOISE_SIGMA = 0.25, 150.0, 3.0, 3.0
NO_RATIO_REASON = "Gaussian noise has no bounded likelihood ratio, and so no variation-ratio parameters."
NO_ATTACK_REASON = "its vectors are computed in floats and noised, so their law is known only approximately."


class _UnboundedRatio:
    """Answers of a law without a bounded likelihood ratio: no parameters, no blankets and no attacks."""

    def variation_ratio(self) -> VariationRatio:
        raise NotApplicable(ERROR_PREFIX, NO_RATIO_REASON)

    def blankets(self) -> Sequence[HidingPair]:
        return ()

    def attacks(self) -> Sequence[HidingPair]:
        return ()


@dataclass(frozen=True)
class GaussianBallLaw(_UnboundedRatio, Law):
    """The law of points of the unit ball with Gaussian noise, which has no blanket unless it is truncated."""

    missing_attack_reason = NO_ATTACK_REASON


@dataclass(frozen=True)
class TruncatedGaussianBall(_UnboundedRatio, TruncatedRandomizer, ValueObject):
    """The law without messages beyond ``reach`` standard deviations, applied to one other user after another.

    Theorem: absent user with a common part up to τ (docs/crowds.md): besides the worst dataset δ has 3τe^κ + η +
    t(1 + e^κ + 2e^ε) + (τ + t)(1 + e^ε), over 1 − 2(τ + t), with τ = P(N > reach), η = 4τ + 2^-45 and t = e^-72.
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
            tau, rare = normal_tail(arb(to_rational(self.reach))), arb(-LENGTH_MARGIN * LENGTH_MARGIN // 2).exp()
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

    @cached_property
    def _others(self) -> OtherUsers:
        return build_ball_other_users(self.sigma, self.reach, self.error, quick=self.quick)

    def other_users(self) -> Sequence[OtherUsers]:
        return (self._others,)


@dataclass(frozen=True)
class QuickGaussianBall(_UnboundedRatio, Randomizer, HasTails, ValueObject):
    """The same noise with one kind of other user in place of all: about a fifth more ε, in less than a second."""

    sigma: float
    error: float

    @property
    def has_tails(self) -> bool:
        return True

    def truncate_tails(self, share: float) -> TruncatedGaussianBall:
        return TruncatedGaussianBall(self.sigma, self.error, find_reach(self.sigma, share), quick=True)


@dataclass(frozen=True)
class SingleMessageLoss(AggregateNoiseLoss):
    """The loss of one message alone, which bounds its loss among any others.

    Theorem: Gaussian noise of the ball's diameter, μ = 2/σ: δ = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ). As executed, e^κ
    times that at ε − 2κ, plus t(1 + e^ε), t = e^-72 (docs/crowds.md).
    """

    sigma: float
    error: float
    honest: int

    @property
    def theorem(self) -> str:
        return "one message alone: the curve of Gaussian noise"

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        with precision(PRECISION_BITS):
            deltas = [self._delta(float(epsilon)) for epsilon in epsilons]
            upper = np.array([round_up(delta) for delta in deltas])
            lower = np.array([round_down(delta) for delta in deltas])
        return np.clip(upper, 0.0, 1.0), np.clip(lower, 0.0, 1.0)

    def _delta(self, epsilon: float) -> arb:
        mu, error, level = (
            2 / arb(to_rational(self.sigma)),
            arb(to_rational(self.error)),
            arb(to_rational(min(epsilon, MAX_EPSILON))),
        )
        moved = level - 2 * error
        first, second = normal_tail(-(mu / 2 - moved / mu)), normal_tail(-(-mu / 2 - moved / mu))
        rare = arb(-LENGTH_MARGIN * LENGTH_MARGIN // 2).exp()
        return error.exp() * (first - moved.exp() * second) + rare * (1 + level.exp())

    def deviation(self) -> float:
        """Returns the standard deviation of the loss among many others, or of the message alone."""
        return min(2 / self.sigma, math.sqrt(math.expm1(4 / self.sigma**2) / self.honest))


def find_reach(sigma: float, share: float) -> float:
    """Returns approximately the reach at which P(N > reach) is a certain fraction of ``share``.

    Truncation is cheap, so a small fraction suffices; with little noise a large one is better.
    """
    chance = share / (REACH_DIVISOR if sigma >= HIGH_NOISE_SIGMA else LOW_NOISE_REACH_DIVISOR)

    def room(reach: float) -> float:
        return math.log(max(chance, MIN_TAIL_PROBABILITY)) - math.log(_float_normal_tail(reach))

    if room(MIN_REACH) >= 0:
        return MIN_REACH
    if room(MAX_REACH) <= 0:
        return MAX_REACH
    return find_crossing(room, MIN_REACH, MAX_REACH, relative=0.0, absolute=1e-3).middle


def _float_normal_tail(x: float) -> float:
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


# --- The mechanism ---


@dataclass(frozen=True)
class GaussianVector(Mechanism, HasTails, HasAggregateLoss, HasQuickForm):
    """Adds Gaussian noise to every coordinate of a vector in the unit ball.

    A message alone has no local ε, as extreme noise reveals much. Among others it has a central one, as small in many
    dimensions as on a line: only the plane of three inputs matters (docs/crowds.md). Reals cannot be sent, so the noisy
    vector is divided by a step of about a 256th of the noise, rounded to whole numbers with the right mean, and given
    two-sided geometric noise of a few steps. Rounding and that noise are exact. The vector is computed in float
    arithmetic, which is slightly off: but for a probability of e^-72, no message's probability changes by more than a
    factor e^κ, which the guarantee includes. The only assumption is the accuracy of log, cos and √ in float arithmetic.

    Theorem: absent user with a truncated law (docs/crowds.md), every two points of the ball and every dataset of them.
    Requires: d from 1 to 2^16. With few users or little noise the guarantee is that of one message alone.

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

    multiplier: float = field(metadata=checked(validation.positive_finite))
    dimension: int = field(metadata=checked(validation.count, at_most=MAX_DIMENSION))
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
        super().__post_init__()
        if not MIN_MULTIPLIER <= self.multiplier <= MAX_MULTIPLIER:
            least, most = f"{MIN_MULTIPLIER:g}", f"{MAX_MULTIPLIER:g}"
            raise ValueError(f"{ERROR_PREFIX}: multiplier must be between {least} and {most}, got {self.multiplier!r}.")

    @classmethod
    def designs(
        cls, facts: Mapping[str, Any], users: int, epsilon: float, delta: float, rounds: int
    ) -> Iterator[dict[str, Any]]:
        """Yields slightly more noise than in the limit of many users; ``facts`` must contain ``dimension``."""
        limit = max(MIN_PLANNED_MULTIPLIER, _limit_multiplier(users, epsilon, delta, rounds))
        for factor in PLANNED_FACTORS:
            if factor * limit <= MAX_MULTIPLIER:
                yield {"multiplier": factor * limit, "dimension": facts["dimension"]}

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
        """Returns one vector per user, a row of whole numbers in steps."""

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
        """Returns the law without its tails, with every kind of other user; truncation costs a δ of about ``share``."""
        return TruncatedGaussianBall(
            self.multiplier, self.realisation_error, find_reach(self.multiplier, share), quick=False
        )

    def quick_form(self) -> QuickGaussianBall:
        return QuickGaussianBall(self.multiplier, self.realisation_error)

    def aggregate_loss(self, honest: int) -> SingleMessageLoss:
        """Returns the loss of one message alone; the number of ``honest`` users only sets its scale."""
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
        first, second = _float_normal_tail(-(mu / 2 - epsilon / mu)), _float_normal_tail(-(-mu / 2 - epsilon / mu))
        return delta - (first - math.exp(epsilon) * second)

    least, most = math.log(MIN_MULTIPLIER), math.log(MAX_MULTIPLIER)
    return math.exp(find_crossing(excess, least, most, relative=0.0, absolute=1e-4).middle)
