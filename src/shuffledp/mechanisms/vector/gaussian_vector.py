"""A vector in the unit ball, with Gaussian noise."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from shuffledp import argument
from shuffledp.array import Array, Floats
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.ball_noise import FAR, WHO, BallLaw, BallLoss, CutBall, WidestBall, reach_of
from shuffledp.mechanisms.parts.reading import Reading
from shuffledp.mechanisms.parts.sway import Sway
from shuffledp.mechanisms.parts.unit_ball import NUMBERS_AT_ONCE, LatticeWire, UnitBall, in_parts
from shuffledp.mechanisms.tuning import Tuning
from shuffledp.numerics.root import find_crossing
from shuffledp.privacy.randomizer import HasOwnLoss, HasQuickForm, HasTails
from shuffledp.sampling.lattice import NOISE_VARIANCE, noisy_rounding
from shuffledp.sampling.normal import normals
from shuffledp.sampling.random import RandomSource

LEAST_MULTIPLIER, MOST_MULTIPLIER = 0.8, 1e4
LEAST_PLANNED, PLANNED_MORE = 1.0, (1.01, 1.03, 1.1, 1.3, 2.0)
LARGEST_DIMENSION = 1 << 16
STEPS_OF_NOISE = 8
"""Steps in the noise's standard deviation, as a power of two: rounding and its noise add at most 7e-5 to a variance."""
FAR_NOISE = 1 << 8
MOST_ROUNDING = 0.25
"""The most of f(1−f) of a fraction f."""


@dataclass(frozen=True)
class NoisyVectorReading(Reading):
    """The mean of vectors with noise of a known variance in each coordinate, both in steps."""

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
        """The mean, and its variance, the rounding counted at its most."""
        spread = (self.noise_variance + MOST_ROUNDING) * self.step**2 / users
        return Estimate(np.asarray(total) * (self.step / users), np.full(self.dimension, spread), users)

    def sways(self, messages: float) -> tuple[Sway, ...]:
        most = messages * self.largest * self.step
        return (Sway(-most, most, -1.0, 1.0),)

    def truth(self, values: Array) -> Floats:
        return np.asarray(values.mean(axis=0))

    def variance(self, values: Array) -> Floats:
        """With f(1−f) at its mean over the noise, 1/6 to many digits."""
        return np.full(self.dimension, (self.noise_variance + 1 / 6) * self.step**2 / len(values))


@dataclass(frozen=True)
class GaussianVector(Mechanism, HasTails, HasOwnLoss, HasQuickForm):
    """Add Gaussian noise to every coordinate of a vector in the unit ball.

    A message alone keeps no ε: far noise tells much. Among others it does, and as well in many dimensions as on a
    line: only the plane of three inputs counts (``ball_crowds``). Reals cannot be sent, so the noisy vector is
    divided by a step of about a 256th of the noise, rounded to whole numbers with the right mean, and given two-
    sided geometric noise of a few steps. Rounding and that noise are exact; the vector is computed in float
    arithmetic, and moves a little: but for a probability of e^-72, no message's probability changes by more than a
    factor e^κ, which is counted. Only this is taken on trust: the accuracy of log, cos and √ in float arithmetic.

    ``multiplier``: the noise's standard deviation in each coordinate, in units of the ball's radius 1 (where two
    vectors may be 2 apart). ``dimension``: d, how many numbers a vector has; its length is at most 1.

    Theorem: absent user with a cut law (docs/crowds.md), every two points of the ball and every crowd of them.
    Requires: d from 1 to 2^16. Where few take part, or there is little noise, it is what one message alone keeps.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.GaussianVector(multiplier=4.0, dimension=16)
    >>> mechanism.message_bits
    256
    >>> mechanism.without_tails(1e-8).lost(0.01) < 1e-8
    True
    """

    multiplier: float
    dimension: int
    epsilon: float = field(init=False, default=math.inf)

    name = "gaussian-vector"
    task = "vector mean"
    summary = "mean of vectors in the unit ball: the vector with Gaussian noise"
    take_it = "Where vectors must carry Gaussian noise, as in learning."
    also_called = ("gaussian-ball",)
    tuning: ClassVar[tuple[Tuning, ...]] = (Tuning("multiplier", False, True, LEAST_MULTIPLIER, MOST_MULTIPLIER),)
    has_table = False

    def __post_init__(self) -> None:
        multiplier = argument.positive_finite(WHO, "multiplier", self.multiplier)
        if not LEAST_MULTIPLIER <= multiplier <= MOST_MULTIPLIER:
            least, most = f"{LEAST_MULTIPLIER:g}", f"{MOST_MULTIPLIER:g}"
            raise ValueError(f"{WHO}: multiplier must be between {least} and {most}, got {multiplier!r}.")
        dimension = argument.count(WHO, "dimension", self.dimension)
        if dimension > LARGEST_DIMENSION:
            raise ValueError(f"{WHO}: dimension must be at most {LARGEST_DIMENSION}, got {dimension}.")
        object.__setattr__(self, "multiplier", multiplier)
        object.__setattr__(self, "dimension", dimension)

    @classmethod
    def designs(
        cls, facts: Mapping[str, Any], users: int, epsilon: float, delta: float, rounds: int
    ) -> Iterator[dict[str, Any]]:
        """The noise of the limit of many users, and a little more."""
        usual = max(LEAST_PLANNED, _limit_multiplier(users, epsilon, delta, rounds))
        for more in PLANNED_MORE:
            if more * usual <= MOST_MULTIPLIER:
                yield {"multiplier": more * usual, "dimension": facts["dimension"]}

    # --- what is sent -------------------------------------------------------------------------------------------

    @cached_property
    def step(self) -> float:
        """What one whole number stands for: a power of two."""
        return 2.0 ** (math.floor(math.log2(self.multiplier)) - STEPS_OF_NOISE)

    @cached_property
    def _longest(self) -> float:
        """L in the ball's units: what a noisy vector is longer than with a probability below e^-72, whoever sent it."""
        return (3.0 + self.multiplier * (math.sqrt(self.dimension) + FAR)) * (1 + 2.0**-20)

    @cached_property
    def _places(self) -> int:
        """No coordinate of such a vector has more binary digits, in steps."""
        return math.ceil(math.log2(self._longest / self.step)) + 1

    @cached_property
    def realisation_error(self) -> float:
        """κ: the distance to the exact vector in steps, summed over the coordinates, and the rounding before the noise.

        Normal numbers are right to 2^-43 of their length; scaling and adding, to 2^-51; and a checked vector may be
        longer than 1 by d·2^-50.
        """
        distance = 2.0**-42 * self._longest + self.dimension * 2.0**-50
        moved = math.sqrt(self.dimension) * distance / self.step
        return (moved + self.dimension * 2.0 ** (self._places + 1 - 52)) * (1 + 2.0**-40)

    @cached_property
    def values(self) -> UnitBall:
        return UnitBall(WHO, self.dimension)

    @cached_property
    def wire(self) -> LatticeWire:
        return LatticeWire(WHO, self.dimension, 2 if self._places <= 14 else 4, (1 << self._places) + FAR_NOISE)

    @cached_property
    def reading(self) -> NoisyVectorReading:
        noise = (self.multiplier / self.step) ** 2 + NOISE_VARIANCE
        return NoisyVectorReading(self.dimension, self.step, noise, self.wire.largest)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        def draw(vectors: Floats) -> Array:
            noisy = normals(source, *vectors.shape)
            noisy *= self.multiplier
            noisy += vectors
            noisy *= 1 / self.step
            largest = self.wire.largest
            np.clip(noisy, -largest, largest, out=noisy)
            return np.clip(noisy_rounding(noisy, source, self._places + 1), -largest, largest)

        return in_parts(values, self.wire.coordinate_bytes, draw)

    # --- its privacy --------------------------------------------------------------------------------------------

    @cached_property
    def law(self) -> BallLaw:
        return BallLaw()

    @property
    def has_tails(self) -> bool:
        return True

    def without_tails(self, share: float) -> CutBall:
        return CutBall(self.multiplier, self.realisation_error, reach_of(self.multiplier, share), quick=False)

    def quick_form(self) -> WidestBall:
        return WidestBall(self.multiplier, self.realisation_error)

    def own_loss(self, honest: int) -> BallLoss:
        return BallLoss(self.multiplier, self.realisation_error, honest)

    def table(self) -> OutputTable:
        raise ValueError(f"{WHO}: vectors of many digits cannot be written down as a table.")

    @classmethod
    def examples(cls) -> Sequence[GaussianVector]:
        return [cls(multiplier=40.0, dimension=2), cls(multiplier=5.0, dimension=16), cls(multiplier=1.0, dimension=3)]


def _limit_multiplier(users: int, epsilon: float, delta: float, rounds: int) -> float:
    """Where the limit of many users meets a target, two opposite unit vectors, all others with one: for planning."""

    def excess(log_multiplier: float) -> float:
        mu = math.sqrt(rounds * math.expm1(min(700.0, 4 * math.exp(-2 * log_multiplier))) / users)
        return delta - (_normal(mu / 2 - epsilon / mu) - math.exp(epsilon) * _normal(-mu / 2 - epsilon / mu))

    least, most = math.log(LEAST_MULTIPLIER), math.log(MOST_MULTIPLIER)
    return math.exp(find_crossing(excess, least, most, relative=0.0, absolute=1e-4).middle)


def _normal(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2
