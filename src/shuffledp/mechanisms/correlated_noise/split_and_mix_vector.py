"""Means of vectors by additive shares modulo N of every coordinate: the shuffled shares reveal only the noisy sums."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import numpy as np
from flint import arb

from shuffledp._core import validation
from shuffledp._core.errors import NotApplicable
from shuffledp._core.results_and_value_objects import ValueObject
from shuffledp._core.validation import Array, Floats, checked
from shuffledp.mechanisms.base.domain import BoxVector, InputDomain
from shuffledp.mechanisms.base.encoding import WholeNumberEncoding
from shuffledp.mechanisms.base.error_laws import NegativeBinomialErrorLaw, SkellamErrorLaw
from shuffledp.mechanisms.base.estimator import ConcatenatedErrorLaw, ErrorLaw, Estimate, Estimator, Influence
from shuffledp.mechanisms.base.law import AggregateNoiseLaw
from shuffledp.mechanisms.base.mechanism import Mechanism, OutputTable, TunableParameter
from shuffledp.mechanisms.correlated_noise.split_and_mix import (
    LIMB_BITS,
    MAX_MESSAGES,
    MAX_MODULUS,
    USER_MARGIN_FACTOR,
    AdditiveSharesPlan,
    ModularShares,
    PartialLaplaceSum,
    RoundedSumErrorLaw,
    SplitAndMixLoss,
    SplitSums,
    SummedNoise,
    check_between,
    check_headroom,
    design_message_count,
    least_modulus,
    max_rounding_variance,
)
from shuffledp.mechanisms.vector._unit_ball_parts import NUMBERS_AT_ONCE, UnitBall
from shuffledp.numerics.ball_arithmetic import float_above, precision, round_down, round_up, to_rational
from shuffledp.numerics.distributions import PolyaDifferenceLaw
from shuffledp.privacy.aggregate_noise import NoiseFacts
from shuffledp.privacy.randomizer_interface import HasAggregateLoss
from shuffledp.sampling import rounding_and_digits
from shuffledp.sampling.noise import PolyaDifference, SkellamDifference
from shuffledp.sampling.random_sources import RandomSource

# --- Skellam noise on a vector of sums ---


PRECISION_BITS = 128
MAX_ORDER = 10**6
ORDER_WINDOW = 2
"""Number of orders tried on either side of the best guess."""


@dataclass(frozen=True)
class SkellamSum(SummedNoise):
    """Independent Skellam noise of variance μ on each coordinate of a sum of integer vectors.

    ``variance`` is μ. ``squared_length_bound`` bounds the square of the Euclidean length of one user's change, Δ₂².
    ``absolute_sum_bound`` bounds the sum of the absolute values of its coordinates, Δ₁.

    Theorem: [Agarwal, Kairouz, Liu 2021] Theorem 3.5: for every whole order α > 1 the Rényi divergence is at most
    α·Δ₂²/(2μ) + min(((2α−1)·Δ₂² + 6·Δ₁)/(4μ²), 3·Δ₁/(2μ)); and [Canonne, Kamath, Steinke 2020] Proposition 12:
    δ(ε) ≤ e^((α−1)(D_α−ε))/(α−1)·(1−1/α)^α. The least over a few whole orders near the best one.
    """

    variance: Fraction
    squared_length_bound: Fraction
    absolute_sum_bound: Fraction

    @property
    def theorem(self) -> str:
        return "Skellam noise [Agarwal, Kairouz, Liu 2021], by Rényi divergences"

    def divergence(self, order: int) -> Fraction:
        """Returns the bound of the Rényi divergence at a whole order, exactly."""
        mean = self.variance
        first = ((2 * order - 1) * self.squared_length_bound + 6 * self.absolute_sum_bound) / (4 * mean**2)
        return order * self.squared_length_bound / (2 * mean) + min(first, 3 * self.absolute_sum_bound / (2 * mean))

    def delta(self, epsilon: float) -> tuple[float, float]:
        deltas = [self._delta(epsilon, order) for order in self._orders(epsilon)]
        return min(1.0, min(upper for upper, _ in deltas)), min(1.0, min(lower for _, lower in deltas))

    def _delta(self, epsilon: float, order: int) -> tuple[float, float]:
        with precision(PRECISION_BITS):
            power = arb(to_rational((order - 1) * (self.divergence(order) - Fraction(epsilon))))
            value = (power + order * arb(to_rational(Fraction(order - 1, order))).log()).exp() / (order - 1)
            return round_up(value), max(0.0, round_down(value))

    def _orders(self, epsilon: float) -> list[int]:
        """Returns orders near the minimum of log δ, about (α−1)(α·c + b − ε) − log α, c half the squared distance."""
        half = max(float(self.squared_length_bound / (2 * self.variance)), 1e-300)
        rest = max(0.0, epsilon - float(self.divergence(2) - 2 * self.squared_length_bound / (2 * self.variance)))
        # Root of the derivative c·(2α − 1) − rest − 1/α, a quadratic.
        level = (half + rest) / (2 * half)
        best = (level + math.sqrt(level**2 + 2 / half)) / 2
        middle = int(min(max(best, 2.0), MAX_ORDER))
        return [order for order in range(middle - ORDER_WINDOW, middle + ORDER_WINDOW + 1) if order >= 2]

    def deviation(self) -> float:
        return math.sqrt(self.squared_length_bound / self.variance)

    def noise_facts(self) -> NoiseFacts:
        return {
            "kind": "skellam",
            "variance": self.variance,
            "square": self.squared_length_bound,
            "total": self.absolute_sum_bound,
        }


def skellam_tail(variance: Fraction, beyond: int) -> arb:
    """Returns an upper bound of P(|Z| ≥ beyond) for Skellam Z of this variance v, for beyond > 0.

    Theorem: Markov's inequality for e^(θZ), whose mean is e^(v·(cosh θ − 1)).
    """
    theta = math.asinh(beyond / float(variance))
    with precision(PRECISION_BITS):
        by = arb(theta)
        bound: arb = 2 * (arb(to_rational(variance)) * (by.cosh() - 1) - by * beyond).exp()
        return bound.upper() if bound <= 1 else arb(1)


# --- Noise on every coordinate of a vector of sums ---


BALL, BOX = "ball", "box"
SKELLAM, LAPLACE = "skellam", "laplace"
LENGTH_ERROR = Fraction(1, 1 << 30)
"""Larger than the relative error of the length of a vector of floats."""


@dataclass(frozen=True)
class VectorChange:
    """The largest change by one user of a sum of vectors, rounded at random to whole numbers near k·x, x from −1 to 1.

    ``levels`` is k. ``shape`` is "ball" for vectors of length at most 1, or "box". The length of each of two rounded
    vectors is at most k·r + √d, r the length of the longest vector, and at most k·√d; no coordinate exceeds k.
    """

    levels: int
    dimension: int
    shape: str

    @property
    def root_dimension(self) -> Fraction:
        """√d, rounded up."""
        return Fraction(math.isqrt(self.dimension << 80) + 1, 1 << 40)

    @property
    def length(self) -> Fraction:
        """An upper bound of Δ₂."""
        most = self.levels * self.root_dimension
        return 2 * (most if self.shape == BOX else min(self.levels * (1 + LENGTH_ERROR) + self.root_dimension, most))

    @property
    def absolute_sum(self) -> Fraction:
        """An upper bound of Δ₁, the sum of the absolute values of all changes."""
        return min(self.length * self.root_dimension, Fraction(2 * self.levels * self.dimension))


@dataclass(frozen=True)
class PureLaplaceVector(SummedNoise):
    """Discrete Laplace noise on every coordinate: losses are at most ε₀ = rate·Δ₁.

    Theorem: randomized response on one bit dominates every mechanism with losses of at most ε₀:
    δ(ε) ≤ (e^ε₀ − e^ε)/(1 + e^ε₀).
    """

    rate: Fraction
    absolute_sum_bound: Fraction

    @property
    def theorem(self) -> str:
        return "discrete Laplace noise on every coordinate"

    @property
    def largest_epsilon(self) -> float:
        with precision(PRECISION_BITS):
            return round_up(arb(to_rational(self.rate * self.absolute_sum_bound)))

    def delta(self, epsilon: float) -> tuple[float, float]:
        most = self.rate * self.absolute_sum_bound
        if Fraction(epsilon) >= most:
            return 0.0, 0.0
        with precision(PRECISION_BITS):
            value = 1 - arb(to_rational(Fraction(epsilon) - most)).exp()
            upper = round_up(value / (1 + arb(to_rational(-most)).exp()))
        return upper, upper * (1 - 1e-15)

    def deviation(self) -> float:
        return float(self.rate * self.absolute_sum_bound)

    def noise_facts(self) -> NoiseFacts:
        return {"kind": "bounded", "largest": self.rate * self.absolute_sum_bound}


@dataclass(frozen=True)
class PartialLaplaceVector(SummedNoise):
    """The part of discrete Laplace noise that fewer users than planned add, composed over the coordinates.

    Theorem: basic composition: d coordinates with (ε/d, δ) each are (ε, d·δ) together.
    """

    each: PartialLaplaceSum
    dimension: int

    @property
    def theorem(self) -> str:
        return f"{self.each.theorem} on every coordinate, composed"

    def delta(self, epsilon: float) -> tuple[float, float]:
        upper, lower = self.each.delta(epsilon / self.dimension * (1 - 1e-15))
        return min(1.0, upper * self.dimension * (1 + 1e-15)), min(1.0, lower * self.dimension)

    def deviation(self) -> float:
        return self.each.deviation() * self.dimension

    def noise_facts(self) -> NoiseFacts:
        return self.each.noise_facts() | {"sums": Fraction(self.dimension)}


class SharedVectorNoise(ValueObject):
    """The noise of a coordinate's sum, of which every user adds a share."""

    @abstractmethod
    def total_noise(self, honest: int, change: VectorChange) -> SummedNoise:
        """Returns the noise that ``honest`` users add together, with the largest change by one user."""

    @abstractmethod
    def sampler(self) -> PolyaDifference | SkellamDifference:
        """Returns the sampler of one user's share."""

    @abstractmethod
    def variance(self) -> float:
        """Returns the variance of one user's share."""

    @abstractmethod
    def tail(self, users: int, beyond: int) -> arb:
        """Returns an upper bound of the probability that the noise of ``users`` users is at least ``beyond`` from 0."""


@dataclass(frozen=True)
class SkellamShares(SharedVectorNoise):
    """Differences of Poisson numbers; ``scale`` is the standard deviation of the noise of ``honest`` users."""

    scale: Fraction
    honest: int

    def _total_variance(self, users: int) -> Fraction:
        """Returns the variance of the noise of ``users`` users."""
        return self.scale**2 * users / self.honest

    def total_noise(self, honest: int, change: VectorChange) -> SkellamSum:
        return SkellamSum(self._total_variance(honest), change.length**2, change.absolute_sum)

    def sampler(self) -> SkellamDifference:
        return SkellamDifference(self._total_variance(1) / 2)

    def variance(self) -> float:
        return float(self._total_variance(1))

    def tail(self, users: int, beyond: int) -> arb:
        return skellam_tail(self._total_variance(users), beyond)


@dataclass(frozen=True)
class LaplaceShares(SharedVectorNoise):
    """Differences of negative binomials; the noise of ``honest`` users is discrete Laplace of rate 1/``scale``."""

    scale: Fraction
    honest: int

    def total_noise(self, honest: int, change: VectorChange) -> SummedNoise:
        if honest >= self.honest:
            return PureLaplaceVector(1 / self.scale, change.absolute_sum)
        part = PartialLaplaceSum(1 / self.scale, 2 * change.levels, Fraction(honest, self.honest))
        if not part.has_table:
            raise NotApplicable(
                "own-noise", f"the noise needs {self.honest:,} honest users, got {honest:,}; plan for fewer."
            )
        return PartialLaplaceVector(part, change.dimension)

    def sampler(self) -> PolyaDifference:
        return PolyaDifference(1 / self.scale, Fraction(1, self.honest))

    def variance(self) -> float:
        return 1 / (2 * math.sinh(1 / (2 * float(self.scale))) ** 2) / self.honest

    def tail(self, users: int, beyond: int) -> arb:
        return PolyaDifferenceLaw(1 / self.scale, Fraction(users, self.honest)).tail(beyond)


def build_shared_noise(kind: str, scale: float, honest: int) -> SharedVectorNoise:
    """Returns the noise of a name."""
    return (SkellamShares if kind == SKELLAM else LaplaceShares)(Fraction(scale), honest)


ERROR_PREFIX = "SplitAndMixVector"
MAX_LEVELS = rounding_and_digits.MAX_STEPS // 2
MIN_SCALE, MAX_SCALE = 1e-3, 1e9
ROUNDING_SHARE, NORM_SHARE = 0.01, 0.005
"""Approximate shares of the noise's variance and of a vector's length that rounding adds in a design."""
NEGLIGIBLE_ROUNDING_SHARE = 0.1
"""Rounding whose variance is at most this share of the noise's changes no interval by more than 5%."""
MAX_USER_VARIANCE = 1 << 20
"""Largest variance of one user's Skellam noise: the work of drawing a Poisson number grows with its mean."""
NEGLIGIBLE_ROUNDING_LEVELS = 1 << 15
"""Number of levels of a grid on which rounding is negligible."""
MIXING_SHARE = 0.01
"""Share of δ that a design leaves to mixing."""


@dataclass(frozen=True)
class NoisyVectorSumEstimator(Estimator):
    """Estimates the mean of vectors on a grid from the noisy sums of all shares of each coordinate."""

    dimension: int
    levels: int
    noise: SharedVectorNoise
    shares: ModularShares
    in_ball: bool = False
    """True if vectors have a length of at most 1."""

    def accumulate(self, messages: Array) -> Array:
        """Returns, for each coordinate, the sum of each digit of its shares."""
        places, shares = np.divmod(messages, self.shares.modulus)
        digits = (shares >> (LIMB_BITS * limb) & ((1 << LIMB_BITS) - 1) for limb in range(self.shares.digits))
        # Sums of digits are exact as floats.
        sums = [np.bincount(places, weights=digit, minlength=self.dimension) for digit in digits]
        return np.stack(sums, axis=1).astype(np.int64)

    def finish(self, total: Array, users: int) -> Estimate:
        """Returns the mean and its variance, with the largest rounding variance of users with this mean."""
        check_headroom(ERROR_PREFIX, users, self.shares.modulus, self.wrap_chance(users))
        most = users * self.levels
        steps = np.array([self.shares.unwrap_sum(sums, -most, most) for sums in np.asarray(total)], dtype=np.float64)
        mean = steps / users / self.levels
        rounded = self.max_rounding_variance(mean, users)
        variance = (self.noise.variance() + rounded) / self.levels**2 / users
        return Estimate(mean, variance, users, self._error_law(mean, users))

    def max_rounding_variance(self, mean: Floats, users: int) -> Floats:
        """Returns the largest mean variance of rounding of users with this mean, per coordinate, in steps squared.

        For numbers from −1 to 1 see ``max_rounding_variance``. In a ball the mean square of a coordinate is at most 1
        minus the squares of the other means; rounding adds at most √w − w if w, this bound in steps squared, is below
        ¼.
        """
        ends = np.array([max_rounding_variance(self.levels * (1 + one), 2 * self.levels) for one in mean.tolist()])
        return np.asarray(np.minimum(ends, self._cross_coordinate_rounding_bound(mean, users)))

    def _cross_coordinate_rounding_bound(self, mean: Floats, users: int) -> Floats:
        """Returns the largest rounding variance that the other coordinates' means allow."""
        if not self.in_ball:
            return np.full(self.dimension, 0.25)
        # The square of an estimate is too large by its variance.
        squares = np.clip(mean**2 - self.noise.variance() / self.levels**2 / users, 0.0, 1.0)
        remaining = np.clip(1 - (squares.sum() - squares), 0.0, 1.0) * self.levels**2
        root = np.sqrt(np.minimum(remaining, 0.25))
        return np.asarray(root - root**2)

    def _error_law(self, mean: Floats, users: int) -> ErrorLaw:
        """Returns the tails of each coordinate, with its rounding unless that is negligible."""
        law: ErrorLaw = SkellamErrorLaw(users * self.noise.variance())
        if isinstance(self.noise, LaplaceShares):
            law = NegativeBinomialErrorLaw(users / self.noise.honest, 1 / float(self.noise.scale))
        if NEGLIGIBLE_ROUNDING_SHARE * self.noise.variance() >= 0.25:
            return law
        grid = (self.noise.variance(), 2 * self.levels, -1.0, 1 / self.levels)
        parts = tuple(
            RoundedSumErrorLaw(law, *grid, most) for most in self._cross_coordinate_rounding_bound(mean, users).tolist()
        )
        return ConcatenatedErrorLaw(parts, (1,) * self.dimension)

    def truth(self, values: Array) -> Floats:
        return np.asarray(values.mean(axis=0))

    def variance(self, values: Array) -> Floats:
        up = (
            rounding_and_digits.grid_position(rounding_and_digits.signed_to_units(values), 2 * self.levels)[1]
            / rounding_and_digits.RANGE_UNITS
        )
        spread = self.noise.variance() + (up * (1 - up)).mean(axis=0)
        return np.asarray(spread / self.levels**2 / len(values))

    def influence(self, messages: float) -> tuple[Influence, ...]:
        """Returns an unlimited influence: a user may choose any share."""
        del messages
        return (Influence(-math.inf, math.inf, -1.0, 1.0),)

    def wrap_chance(self, users: int) -> float:
        """Returns an upper bound of the probability that the noise wraps some coordinate's sum around."""
        most = users * self.levels
        room = self.shares.headroom(-most, most)
        if room < 1:
            return 1.0
        with precision(64):
            return round_up(self.noise.tail(users, room + 1) * self.dimension)


@dataclass(frozen=True)
class SplitAndMixVector(Mechanism, HasAggregateLoss):
    """Sends each coordinate, with a share of the noise, as additive shares that are uniform but for their sum modulo N.

    A coordinate x from −1 to 1 is rounded at random without bias to a whole number near k·x, k = ``levels``. The user
    adds a share of the noise, exactly: the shares of ``honest`` users add up to the difference of two Poisson numbers
    (Skellam noise, nearly normal), or to discrete Laplace noise, which is smaller for few coordinates. Each coordinate
    is split into ``messages`` shares modulo N = ``modulus``, which are sent with its index. The server adds up each
    coordinate modulo N: a curator's accuracy. Without the shuffler, the messages of one user reveal their vector.

    Theorem: δ(ε) = δ of the noise + (1 + e^ε)·d·η; η as for ``SplitAndMix`` (docs/means.md). A rounded vector is never
    longer than k·r + √d, r the length of the longest vector, which bounds the change by one user with certainty.

    Args:
        dimension: Number of coordinates d.
        scale: Scale of the noise of a coordinate's sum, in steps: the standard deviation of Skellam noise, or 1/rate of
            Laplace noise.
        levels: Number of steps k from 0 to 1.
        modulus: Modulus N of the shares; estimates and guarantees for a number of users whose sum may wrap around are
            refused.
        messages: Number of shares per coordinate; a user sends d times as many.
        honest: Fewest users who take part and do not collude.
        shape: "ball" for vectors of length at most 1, "box" for any coordinates from −1 to 1.
        noise: "skellam" or "laplace".

    Raises:
        ValueError: If a parameter is out of range, the modulus is too small for the grid, or one user's share of
            Skellam noise is too large to draw.

    >>> import numpy as np, shuffledp as sdp
    >>> mechanism = sdp.SplitAndMixVector(
    ...     dimension=2, scale=300, levels=32, modulus=1 << 20, messages=8, honest=10_000)
    >>> f"{sdp.amplify(mechanism, users=10_000).epsilon(delta=1e-6).upper:.3f}"
    '1.010'
    >>> found = mechanism.estimate(mechanism.encode(np.full((10_000, 2), 0.5), rng=np.random.default_rng(1)))
    >>> found.value.round(2).tolist(), f"{found.standard_error[0]:.5f}"
    ([0.5, 0.5], '0.00095')
    """

    dimension: int = field(metadata=checked(validation.count, at_least=2))
    scale: float = field(metadata=checked(check_between, at_least=MIN_SCALE, at_most=MAX_SCALE))
    levels: int = field(metadata=checked(validation.count, at_most=MAX_LEVELS))
    modulus: int = field(metadata=checked(validation.count, at_least=2, at_most=MAX_MODULUS))
    messages: int = field(metadata=checked(validation.count, at_least=2, at_most=MAX_MESSAGES))
    honest: int = field(metadata=checked(validation.count))
    shape: str = BALL
    noise: str = SKELLAM

    name = "split-and-mix-vector"
    task = "vector mean"
    summary = "vector mean: shares of every coordinate and noise; private only among many users"
    use_case = "For mean vectors at a curator's error, where the shuffler is trusted."
    tunable = (
        TunableParameter("scale", is_integer=False, more_is_more_private=True, minimum=MIN_SCALE, maximum=MAX_SCALE),
    )
    has_table = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, one, other in (("shape", BALL, BOX), ("noise", SKELLAM, LAPLACE)):
            if getattr(self, name) not in (one, other):
                raise ValueError(f"{ERROR_PREFIX}: {name} must be {one!r} or {other!r}, got {getattr(self, name)!r}.")
        if (size := self.modulus * self.dimension) > MAX_MODULUS:
            raise ValueError(f"{ERROR_PREFIX}: modulus·dimension must be at most {MAX_MODULUS}, got {size}.")
        if self.noise == SKELLAM and self.scale**2 > MAX_USER_VARIANCE * self.honest:
            raise ValueError(
                f"{ERROR_PREFIX}: one user's share of the noise must have a variance of at most {MAX_USER_VARIANCE}, "
                f"got {self.scale**2 / self.honest:.3g}; plan for more users, or take a coarser grid."
            )
        if self.estimator.shares.headroom(-self.levels, self.levels) < 1:
            raise ValueError(f"{ERROR_PREFIX}: modulus must be above {2 * self.levels + 2}, got {self.modulus}.")

    @cached_property
    def domain(self) -> InputDomain:
        kind = UnitBall if self.shape == BALL else BoxVector
        return kind(ERROR_PREFIX, self.dimension)

    @cached_property
    def law(self) -> AggregateNoiseLaw:
        return AggregateNoiseLaw(ERROR_PREFIX)

    @property
    def message_plan(self) -> AdditiveSharesPlan:
        return AdditiveSharesPlan(self.messages * self.dimension)

    @cached_property
    def encoding(self) -> WholeNumberEncoding:
        return WholeNumberEncoding(ERROR_PREFIX, self.modulus * self.dimension)

    @cached_property
    def estimator(self) -> NoisyVectorSumEstimator:
        shares = ModularShares(self.modulus, self.messages)
        return NoisyVectorSumEstimator(self.dimension, self.levels, self._shared_noise, shares, self.shape == BALL)

    @property
    def _shared_noise(self) -> SharedVectorNoise:
        return build_shared_noise(self.noise, self.scale, self.honest)

    @cached_property
    def _share_sampler(self) -> PolyaDifference | SkellamDifference:
        """Sampler of one user's share of the noise of a coordinate."""
        return self._shared_noise.sampler()

    def randomize(self, values: Array, source: RandomSource) -> Array:
        """Returns ``messages`` shares of each coordinate of each user, as coordinate·N + share."""
        places = np.arange(self.dimension)[None, :, None] * self.modulus
        messages = np.empty((len(values), self.dimension, self.messages), dtype=np.int64)
        at_once = max(1, NUMBERS_AT_ONCE // self.dimension)
        for start in range(0, len(values), at_once):
            part = values[start : start + at_once]
            steps = (
                rounding_and_digits.round_to_grid(rounding_and_digits.signed_to_units(part), 2 * self.levels, source)
                - self.levels
            )
            numbers = steps.reshape(-1) + self._share_sampler.draw(source, steps.size)
            split = self.estimator.shares.split(numbers, source).reshape(*part.shape, self.messages)
            messages[start : start + at_once] = split + places
        return messages.reshape(-1)

    # --- privacy ---

    def aggregate_loss(self, honest: int) -> SplitAndMixLoss:
        """Returns the loss of the noisy sums, and the distance that mixing leaves.

        Raises:
            NotApplicable: If a sum may wrap around, or too few users take part to tabulate their noise.
        """
        try:
            check_headroom(ERROR_PREFIX, honest, self.modulus, self.estimator.wrap_chance(honest))
        except ValueError as error:
            raise NotApplicable("own-noise", str(error)) from None
        summed = self._shared_noise.total_noise(honest, VectorChange(self.levels, self.dimension, self.shape))
        with precision(64):
            distance = round_up(self.estimator.shares.distance(honest) * self.dimension)
        shares = f"{self.messages} shares of each of {self.dimension} coordinates of each of {honest:,} users"
        mixing = SplitSums(honest, self.messages - 1, self.modulus, self.dimension)
        return SplitAndMixLoss(summed, min(1.0, distance), shares, mixing=mixing)

    def delta_parts(self, epsilon: float, honest: int) -> tuple[float, float]:
        """Returns the two parts of δ at ε.

        Args:
            epsilon: Central ε.
            honest: Number of honest users.

        Returns:
            Upper bounds of the δ of the noise, and of the part that mixing adds.

        Raises:
            NotApplicable: As for ``aggregate_loss``.
        """
        return self.aggregate_loss(honest).delta_parts(epsilon)

    # --- settings ---

    @classmethod
    def designs(
        cls, facts: Mapping[str, Any], users: int, epsilon: float, delta: float, rounds: int
    ) -> Iterator[dict[str, Any]]:
        """Yields designs with Skellam or Laplace noise, whichever is smaller; mixing gets a small part of δ.

        The losses of several rounds are nearly normal: the deviation of each is divided by √rounds. ``facts`` must
        contain ``dimension`` and may contain ``shape``.

        Raises:
            ValueError: If the dimension is below 2.
        """
        dimension, shape = facts["dimension"], facts.get("shape", BALL)
        if dimension < 2:
            raise ValueError(f"{ERROR_PREFIX}: dimension must be at least 2, got {dimension}.")
        each = delta / rounds / dimension
        room_for = USER_MARGIN_FACTOR * max(users, facts.get("users", users))
        for factor in (1.0,) if rounds == 1 else (1.0, 1.05, 1.1, 1.2, 1.4):
            target = (factor, rounds, epsilon, (1 - 1.01 * MIXING_SHARE) * delta)
            kind = min(
                (SKELLAM, LAPLACE),
                key=lambda kind: _find_scale(kind, NEGLIGIBLE_ROUNDING_LEVELS, *target, shape, dimension)[1],
            )
            deviation = _find_scale(kind, NEGLIGIBLE_ROUNDING_LEVELS, *target, shape, dimension)[1]
            for_variance = math.sqrt(users / (6 * ROUNDING_SHARE)) * NEGLIGIBLE_ROUNDING_LEVELS / deviation
            for_length = math.sqrt(dimension) / NORM_SHARE if shape == BALL else 1.0
            levels = min(MAX_LEVELS, max(1, math.ceil(max(for_variance, for_length))))
            scale, _ = _find_scale(kind, levels, *target, shape, dimension)
            noise = build_shared_noise(kind, scale, users)
            modulus = least_modulus(partial(_wrap_chance, room_for, dimension, levels, noise))
            messages = design_message_count(users, modulus, epsilon, MIXING_SHARE * each, each / 2)
            yield {
                "dimension": dimension, "scale": scale, "levels": levels, "modulus": modulus,
                "messages": messages, "honest": users, "shape": shape, "noise": kind,
            }  # fmt: skip

    # --- for tests and the catalogue ---

    def table(self) -> OutputTable:
        raise ValueError(f"{ERROR_PREFIX}: its output law is too large to write down as a table.")

    @classmethod
    def examples(cls) -> Sequence[SplitAndMixVector]:
        return [
            cls(dimension=2, scale=20.0, levels=8, modulus=1 << 14, messages=3, honest=50),
            cls(dimension=3, scale=30.5, levels=5, modulus=100_003, messages=2, honest=10, shape=BOX),
            cls(dimension=2, scale=12.5, levels=6, modulus=1 << 16, messages=2, honest=5, noise=LAPLACE),
        ]


def _wrap_chance(users: int, dimension: int, levels: int, noise: SharedVectorNoise, modulus: int) -> float:
    """Returns the probability that a sum wraps around modulo a candidate."""
    return NoisyVectorSumEstimator(dimension, levels, noise, ModularShares(modulus, 2)).wrap_chance(users)


def _find_scale(
    kind: str, levels: int, factor: float, rounds: int, epsilon: float, delta: float, shape: str, dimension: int
) -> tuple[float, float]:
    """Returns almost the least scale with which the noise alone meets the target, and its standard deviation.

    Over several rounds the squares of Skellam deviations add up, and the losses of Laplace noise.
    """
    change = VectorChange(levels, dimension, shape)
    if kind == LAPLACE:
        scale = float_above(change.absolute_sum * rounds / Fraction(epsilon)) * factor
        return scale, math.sqrt(2.0) * scale
    low = high = 2.0 * float(change.length) / epsilon
    while _delta(high, change, epsilon) > delta:
        high *= 2
    while _delta(low, change, epsilon) <= delta:
        low /= 2
    while high > low * (1 + 1e-6):
        middle = (low + high) / 2
        low, high = (low, middle) if _delta(middle, change, epsilon) <= delta else (middle, high)
    scale = factor * math.sqrt(rounds) * high
    return scale, scale


def _delta(scale: float, change: VectorChange, epsilon: float) -> float:
    return SkellamShares(Fraction(scale), 1).total_noise(1, change).delta(epsilon)[0]
