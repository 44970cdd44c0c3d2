"""Means of vectors by shares modulo N of every coordinate: the shuffler mixes them, and only the noisy sum is read."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import numpy as np

from shuffledp import argument
from shuffledp.array import Array, Floats
from shuffledp.errors import NotApplicable
from shuffledp.mechanisms.estimate import Estimate, JoinedTails, Tails
from shuffledp.mechanisms.mean.split_and_mix import RoundedSumTails, most_rounding
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.mixed_loss import MixedLoss, SplitSums
from shuffledp.mechanisms.parts.modular_share import (
    LARGEST_MODULUS,
    LIMB_BITS,
    ROOM_FOR,
    MixedShares,
    ModularShares,
    checked_shares,
    demand_room,
    designed_messages,
    least_modulus,
)
from shuffledp.mechanisms.parts.noise_tails import CountNoiseTails, SkellamTails
from shuffledp.mechanisms.parts.own_noise_law import OwnNoiseLaw
from shuffledp.mechanisms.parts.reading import Reading
from shuffledp.mechanisms.parts.sway import Sway
from shuffledp.mechanisms.parts.unit_ball import NUMBERS_AT_ONCE, UnitBall
from shuffledp.mechanisms.parts.user_values import BoxVector, UserValues
from shuffledp.mechanisms.parts.vector_noise import (
    BALL,
    BOX,
    LAPLACE,
    SKELLAM,
    LaplaceShares,
    SharedVectorNoise,
    SkellamShares,
    VectorChange,
    shared_noise,
)
from shuffledp.mechanisms.parts.wire import WholeNumberWire
from shuffledp.mechanisms.tuning import Tuning
from shuffledp.numerics.ball import above, precision, round_up
from shuffledp.privacy.randomizer import HasOwnLoss
from shuffledp.sampling import rounding
from shuffledp.sampling.divided_noise import PolyaDifference, SkellamDifference
from shuffledp.sampling.random import RandomSource

WHO = "SplitAndMixVector"
MOST_LEVELS = rounding.MOST_STEPS // 2
LEAST_SCALE, MOST_SCALE = 1e-3, 1e9
ROUNDING_SHARE, NORM_SHARE = 0.01, 0.005
"""A design's grid is so fine that rounding adds about this to the variance, and to the length of a vector."""
FAINT = 0.1
"""Rounding whose variance is at most this part of the noise's changes no interval by more than 5%."""
MOST_OF_ONE = 1 << 20
"""The largest variance of one user's Skellam noise: a Poisson number takes work in proportion to its mean."""
FINE = 1 << 15
"""A grid on which rounding does not count."""
MIXING_SHARE = 0.01
"""Of δ, what a design leaves to mixing."""


@dataclass(frozen=True)
class NoisySumsReading(Reading):
    """The mean of vectors on a grid from the sums of all shares of each coordinate, with the noise of all users."""

    dimension: int
    levels: int
    noise: SharedVectorNoise
    shares: ModularShares
    in_ball: bool = False
    """Whether vectors have a length of at most 1."""

    def accumulate(self, messages: Array) -> Array:
        """For each coordinate the sum of each digit of its shares."""
        places, shares = np.divmod(messages, self.shares.modulus)
        digits = (shares >> (LIMB_BITS * limb) & ((1 << LIMB_BITS) - 1) for limb in range(self.shares.limbs))
        # Sums of digits are exact as floats.
        sums = [np.bincount(places, weights=digit, minlength=self.dimension) for digit in digits]
        return np.stack(sums, axis=1).astype(np.int64)

    def finish(self, total: Array, users: int) -> Estimate:
        """The mean, and its variance; the rounding is counted at the most that users of this mean can have."""
        demand_room(WHO, users, self.shares.modulus, self.wrap_chance(users))
        most = users * self.levels
        steps = np.array([self.shares.centred(sums, -most, most) for sums in np.asarray(total)], dtype=np.float64)
        mean = steps / users / self.levels
        rounded = self.most_rounded(mean, users)
        variance = (self.noise.variance() + rounded) / self.levels**2 / users
        return Estimate(mean, variance, users, self._tails(mean, users))

    def most_rounded(self, mean: Floats, users: int) -> Floats:
        """The largest mean variance of rounding that users with this mean can have, per coordinate, in steps squared.

        For numbers from −1 to 1 see ``most_rounding``. In a ball the mean square of a coordinate is at most what the
        squares of the other means leave of 1; rounding adds at most √w − w where w, in steps squared, is below ¼.
        """
        ends = np.array([most_rounding(self.levels * (1 + one), 2 * self.levels) for one in mean.tolist()])
        return np.asarray(np.minimum(ends, self._left_by_others(mean, users)))

    def _left_by_others(self, mean: Floats, users: int) -> Floats:
        """What the other coordinates' means leave of it."""
        if not self.in_ball:
            return np.full(self.dimension, 0.25)
        # The square of an estimate is too large by its variance.
        squares = np.clip(mean**2 - self.noise.variance() / self.levels**2 / users, 0.0, 1.0)
        left = np.clip(1 - (squares.sum() - squares), 0.0, 1.0) * self.levels**2
        root = np.sqrt(np.minimum(left, 0.25))
        return np.asarray(root - root**2)

    def _tails(self, mean: Floats, users: int) -> Tails:
        """Each coordinate is rounded by itself, where that counts."""
        own: Tails = SkellamTails(users * self.noise.variance())
        if isinstance(self.noise, LaplaceShares):
            own = CountNoiseTails(users / self.noise.honest, 1 / float(self.noise.scale))
        if FAINT * self.noise.variance() >= 0.25:
            return own
        grid = (self.noise.variance(), 2 * self.levels, -1.0, 1 / self.levels)
        parts = tuple(RoundedSumTails(own, *grid, most) for most in self._left_by_others(mean, users).tolist())
        return JoinedTails(parts, (1,) * self.dimension)

    def truth(self, values: Array) -> Floats:
        return np.asarray(values.mean(axis=0))

    def variance(self, values: Array) -> Floats:
        up = rounding.grid_position(rounding.units_of_signed(values), 2 * self.levels)[1] / rounding.WHOLE
        spread = self.noise.variance() + (up * (1 - up)).mean(axis=0)
        return np.asarray(spread / self.levels**2 / len(values))

    def sways(self, messages: float) -> tuple[Sway, ...]:
        """Anywhere: a share says nothing about what it is a share of."""
        del messages
        return (Sway(-math.inf, math.inf, -1.0, 1.0),)

    def wrap_chance(self, users: int) -> float:
        """An upper bound of the chance that the noise of so many users takes some coordinate's sum around."""
        most = users * self.levels
        room = self.shares.room(-most, most)
        if room < 1:
            return 1.0
        with precision(64):
            return round_up(self.noise.tail(users, room + 1) * self.dimension)


@dataclass(frozen=True)
class SplitAndMixVector(Mechanism, HasOwnLoss):
    """Send every coordinate, with a share of the noise, as shares that are uniform but for their sum modulo N.

    A coordinate x from −1 to 1 is rounded at random without bias to a whole number near k·x, k = ``levels``. The user
    adds a share of the noise, exactly: those of ``honest`` users add up to the difference of two Poisson numbers
    (Skellam noise, nearly normal), or to discrete Laplace noise, which is less for few coordinates. Each coordinate is
    split into ``messages`` shares modulo N = ``modulus``, which are sent with its place. The server adds up, coordinate
    by coordinate, modulo N: a curator's accuracy. Without the shuffler the messages of one user tell all.

    ``dimension``: d, how many numbers a vector has. ``scale``: of the noise of a coordinate's sum, in steps: the
    standard deviation of Skellam noise, and 1/rate of Laplace noise. ``levels``: k. ``modulus``, ``messages``: of the
    shares of a coordinate; d times as many are sent. ``honest``: the fewest users who will not collude and take part.
    ``shape``: "ball" for vectors of length at most 1, "box" for any numbers from −1 to 1. ``noise``: "skellam" or
    "laplace".

    Theorem: δ(ε) = δ of the noise + (1 + e^ε)·d·η; η as for ``SplitAndMix`` (docs/means.md). A rounded vector is
    never longer than k·r + √d, r the length of the longest vector: that bounds what one user changes, for sure.

    >>> import numpy as np, shuffledp as sdp
    >>> mechanism = sdp.SplitAndMixVector(
    ...     dimension=2, scale=300, levels=32, modulus=1 << 20, messages=8, honest=10_000)
    >>> f"{sdp.amplify(mechanism, users=10_000).epsilon(delta=1e-6).upper:.3f}"
    '1.010'
    >>> found = mechanism.estimate(mechanism.encode(np.full((10_000, 2), 0.5), rng=np.random.default_rng(1)))
    >>> found.value.round(2).tolist(), f"{found.standard_error[0]:.5f}"
    ([0.5, 0.5], '0.00095')
    """

    dimension: int
    scale: float
    levels: int
    modulus: int
    messages: int
    honest: int
    shape: str = BALL
    noise: str = SKELLAM

    name = "split-and-mix-vector"
    task = "vector mean"
    summary = "vector mean: shares of every coordinate and noise; private only among many users"
    take_it = "For mean vectors at a curator's error, where the shuffler is trusted."
    tuning = (Tuning("scale", whole=False, more_is_more_private=True, least=LEAST_SCALE, most=MOST_SCALE),)
    has_table = False

    def __post_init__(self) -> None:
        scale = argument.positive_finite(WHO, "scale", self.scale)
        if not LEAST_SCALE <= scale <= MOST_SCALE:
            raise ValueError(f"{WHO}: scale must be from {LEAST_SCALE:g} to {MOST_SCALE:g}, got {scale!r}.")
        levels = argument.count(WHO, "levels", self.levels, at_most=MOST_LEVELS)
        dimension = argument.count(WHO, "dimension", self.dimension, at_least=2)
        modulus, messages = checked_shares(WHO, self.modulus, self.messages)
        honest = argument.count(WHO, "honest", self.honest)
        for name, one, other in (("shape", BALL, BOX), ("noise", SKELLAM, LAPLACE)):
            if getattr(self, name) not in (one, other):
                raise ValueError(f"{WHO}: {name} must be {one!r} or {other!r}, got {getattr(self, name)!r}.")
        if modulus * dimension > LARGEST_MODULUS:
            raise ValueError(f"{WHO}: modulus·dimension must be at most {LARGEST_MODULUS}, got {modulus * dimension}.")
        if self.noise == SKELLAM and scale**2 > MOST_OF_ONE * honest:
            raise ValueError(
                f"{WHO}: one user's share of the noise must have a variance of at most {MOST_OF_ONE}, "
                f"got {scale**2 / honest:.3g}; plan for more users, or take a coarser grid."
            )
        checked = {"dimension": dimension, "scale": scale, "levels": levels, "modulus": modulus}
        for name, value in (checked | {"messages": messages, "honest": honest}).items():
            object.__setattr__(self, name, value)
        if self.reading.shares.room(-levels, levels) < 1:
            raise ValueError(f"{WHO}: modulus must be above {2 * levels + 2}, got {modulus}.")

    @cached_property
    def values(self) -> UserValues:
        kind = UnitBall if self.shape == BALL else BoxVector
        return kind(WHO, self.dimension)

    @cached_property
    def law(self) -> OwnNoiseLaw:
        return OwnNoiseLaw(WHO)

    @property
    def crowd(self) -> MixedShares:
        return MixedShares(self.messages * self.dimension)

    @cached_property
    def wire(self) -> WholeNumberWire:
        return WholeNumberWire(WHO, self.modulus * self.dimension)

    @cached_property
    def reading(self) -> NoisySumsReading:
        shares = ModularShares(self.modulus, self.messages)
        return NoisySumsReading(self.dimension, self.levels, self._shared, shares, self.shape == BALL)

    @property
    def _shared(self) -> SharedVectorNoise:
        return shared_noise(self.noise, self.scale, self.honest)

    @cached_property
    def _share(self) -> PolyaDifference | SkellamDifference:
        """A user's share of the noise of a coordinate."""
        return self._shared.draws()

    def randomize(self, values: Array, source: RandomSource) -> Array:
        places = np.arange(self.dimension)[None, :, None] * self.modulus
        messages = np.empty((len(values), self.dimension, self.messages), dtype=np.int64)
        at_once = max(1, NUMBERS_AT_ONCE // self.dimension)
        for start in range(0, len(values), at_once):
            part = values[start : start + at_once]
            steps = rounding.to_grid(rounding.units_of_signed(part), 2 * self.levels, source) - self.levels
            numbers = steps.reshape(-1) + self._share.draw(source, steps.size)
            split = self.reading.shares.split(numbers, source).reshape(*part.shape, self.messages)
            messages[start : start + at_once] = split + places
        return messages.reshape(-1)

    # --- privacy ----------------------------------------------------------------------------------------------

    def own_loss(self, honest: int) -> MixedLoss:
        """By the law of what so many honest users add."""
        try:
            demand_room(WHO, honest, self.modulus, self.reading.wrap_chance(honest))
        except ValueError as error:
            raise NotApplicable("own-noise", str(error)) from None
        summed = self._shared.summed(honest, VectorChange(self.levels, self.dimension, self.shape))
        with precision(64):
            distance = round_up(self.reading.shares.distance(honest) * self.dimension)
        shares = f"{self.messages} shares of each of {self.dimension} coordinates of each of {honest:,} users"
        mixing = SplitSums(honest, self.messages - 1, self.modulus, self.dimension)
        return MixedLoss(summed, min(1.0, distance), shares, mixing=mixing)

    def delta_parts(self, epsilon: float, honest: int) -> tuple[float, float]:
        """δ at ε in its two parts: that of the noise, and what mixing adds; both are upper bounds."""
        return self.own_loss(honest).parts(epsilon)

    # --- settings ---------------------------------------------------------------------------------------------

    @classmethod
    def designs(
        cls, facts: Mapping[str, Any], users: int, epsilon: float, delta: float, rounds: int
    ) -> Iterator[dict[str, Any]]:
        """Skellam or Laplace noise, whichever is less; mixing has a small part of δ, the noise the rest.

        Losses of several rounds are normal enough: each may have a deviation smaller by their root.
        """
        dimension, shape = facts["dimension"], facts.get("shape", BALL)
        if dimension < 2:
            raise ValueError(f"{WHO}: dimension must be at least 2, got {dimension}.")
        each = delta / rounds / dimension
        room_for = ROOM_FOR * max(users, facts.get("users", users))
        for factor in (1.0,) if rounds == 1 else (1.0, 1.05, 1.1, 1.2, 1.4):
            target = (factor, rounds, epsilon, (1 - 1.01 * MIXING_SHARE) * delta)
            kind = min((SKELLAM, LAPLACE), key=lambda kind: _scale(kind, FINE, *target, shape, dimension)[1])
            fine = math.sqrt(users / (6 * ROUNDING_SHARE)) * FINE / _scale(kind, FINE, *target, shape, dimension)[1]
            short = math.sqrt(dimension) / NORM_SHARE if shape == BALL else 1.0
            levels = min(MOST_LEVELS, max(1, math.ceil(max(fine, short))))
            scale, _ = _scale(kind, levels, *target, shape, dimension)
            noise = shared_noise(kind, scale, users)
            modulus = least_modulus(partial(_wrap_chance, room_for, dimension, levels, noise))
            messages = designed_messages(users, modulus, epsilon, MIXING_SHARE * each, each / 2)
            yield {
                "dimension": dimension, "scale": scale, "levels": levels, "modulus": modulus,
                "messages": messages, "honest": users, "shape": shape, "noise": kind,
            }  # fmt: skip

    # --- for tests and the catalogue --------------------------------------------------------------------------

    def table(self) -> OutputTable:
        raise ValueError(f"{WHO}: its output law is too large to write down as a table.")

    @classmethod
    def examples(cls) -> Sequence[SplitAndMixVector]:
        return [
            cls(dimension=2, scale=20.0, levels=8, modulus=1 << 14, messages=3, honest=50),
            cls(dimension=3, scale=30.5, levels=5, modulus=100_003, messages=2, honest=10, shape=BOX),
            cls(dimension=2, scale=12.5, levels=6, modulus=1 << 16, messages=2, honest=5, noise=LAPLACE),
        ]


def _wrap_chance(users: int, dimension: int, levels: int, noise: SharedVectorNoise, modulus: int) -> float:
    return NoisySumsReading(dimension, levels, noise, ModularShares(modulus, 2)).wrap_chance(users)


def _scale(
    kind: str, levels: int, factor: float, rounds: int, epsilon: float, delta: float, shape: str, dimension: int
) -> tuple[float, float]:
    """The least scale, but for a hair, with which the noise alone meets the target; and its standard deviation.

    Of several rounds the Skellam deviations add up as squares do, and of Laplace noise the losses.
    """
    change = VectorChange(levels, dimension, shape)
    if kind == LAPLACE:
        scale = above(change.total * rounds / Fraction(epsilon)) * factor
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
    return SkellamShares(Fraction(scale), 1).summed(1, change).delta(epsilon)[0]
