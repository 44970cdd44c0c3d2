"""A number in an interval, with Laplace noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from shuffledp import argument
from shuffledp.array import Array, Floats
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.bit_response import informative_epsilon
from shuffledp.mechanisms.parts.grid_noise import GridNoise, GridNoiseLaw
from shuffledp.mechanisms.parts.grid_reference import GridReference
from shuffledp.mechanisms.parts.reading import Reading
from shuffledp.mechanisms.parts.sway import Sway
from shuffledp.mechanisms.parts.user_values import RealNumber
from shuffledp.mechanisms.parts.wire import WholeNumberWire
from shuffledp.privacy.neighbours import Neighbours, identical
from shuffledp.privacy.randomizer import HasNeighbours
from shuffledp.sampling import rounding
from shuffledp.sampling.geometric import TwoSidedGeometric
from shuffledp.sampling.random import RandomSource

LARGEST_EPSILON = 700.0
"""e^ε is still a float."""
INPUTS_OF_A_TABLE = 7
MOST_STEPS_OF_A_TABLE = 256
USERS_AT_ONCE = 1 << 15


@dataclass(frozen=True)
class CutNoiseReading(Reading):
    """The mean of numbers from points of a grid with two-sided geometric noise of this ``rate``, cut at the ends."""

    low: float
    high: float
    grid: int
    rate: Fraction

    def accumulate(self, messages: Array) -> Array:
        """The sum of the messages, how many are 0, how many are g, and the sum of the messages' squares.

        In floats: the squares of billions of users are beyond whole numbers of 64 bits. All but these are exact.
        """
        steps = messages.astype(np.float64)
        return np.array([steps.sum(), (steps == 0).sum(), (steps == self.grid).sum(), np.dot(steps, steps)])

    def finish(self, total: Array, users: int) -> Estimate:
        """The mean, and its variance from the share of messages at the ends, the rounding counted at its most."""
        inside, at_low, at_high = np.asarray(total, dtype=np.float64)[:3] / users
        steps = inside + (at_high - at_low) * self._beyond
        spread = self._noise_variance(at_low + at_high) + 0.25
        value = self.low + steps * self._step
        return Estimate(np.array([value]), np.array([spread * self._step**2 / users]), users)

    def mean_square(self, total: Array, users: int) -> Floats | None:
        """With the ends read as what is beyond them on average."""
        inside, at_low, at_high, squares = np.asarray(total, dtype=np.float64) / users
        steps = inside + (at_high - at_low) * self._beyond
        squares = squares + at_low * self._beyond**2 + at_high * self._beyond * (2 * self.grid + self._beyond)
        return np.array([self.low**2 + 2 * self.low * self._step * steps + self._step**2 * squares])

    def sways(self, messages: float) -> tuple[Sway, ...]:
        """The ends of the grid are read as what is beyond them on average."""
        least = self.low - messages * self._beyond * self._step
        most = self.low + messages * (self.grid + self._beyond) * self._step
        return (Sway(least, most, self.low, self.high),)

    def truth(self, values: Array) -> Floats:
        return np.array([values.mean()])

    def variance(self, values: Array) -> Floats:
        """A point k is at an end with probability (λ^k + λ^(g−k))/(1+λ)."""
        whole, left = rounding.grid_position(rounding.units_of_interval(values, self.low, self.high), self.grid)
        up, rate = left / rounding.WHOLE, float(self.rate)
        spread = up * (1 - up)
        for steps, share in ((whole, 1 - up), (whole + 1, up)):
            ends = np.exp(-rate * steps) + np.exp(-rate * np.maximum(self.grid - steps, 0))
            spread += share * self._noise_variance(ends / (1 + math.exp(-rate)))
        return np.array([spread.mean() * self._step**2 / len(up)])

    @property
    def _step(self) -> float:
        return (self.high - self.low) / self.grid

    @cached_property
    def _beyond(self) -> float:
        """λ/(1−λ): the mean distance of the sum beyond an end, given that it is there or at the end."""
        return 1 / math.expm1(float(self.rate))

    def _noise_variance(self, ends: Any) -> Any:
        """Variance in steps: 2λ/(1−λ)² in all, less λ/(1−λ)² times the probability of the ends."""
        return self._beyond * (1 + self._beyond) * (2 - ends)


@dataclass(frozen=True)
class Laplace(Mechanism, HasNeighbours):
    """Add two-sided geometric noise to a number on a grid, and report where on the grid the sum falls.

    The number is rounded to a whole number of units of 2^-53 of [low, high], then at random without bias to one of the
    points 0 … g, g = ``grid`` (``rounding``). The noise z has probability in proportion to λ^|z|, λ = e^(−ε'/g) exactly
    (``TwoSidedGeometric``), ε' the float below ε: the ratio is e^ε' < e^ε. A sum below 0 is reported as 0, one above g
    as g. Nothing is lost by that: beyond the ends all inputs' laws have the same shape, so the place beyond an end
    tells nothing, and its mean is known. The estimator reads 0 as −λ/(1−λ) and g as g + λ/(1−λ), and is unbiased.

    ``epsilon``: the local ε that every message keeps. ``low``, ``high``: the ends of the interval in which the users'
    numbers lie. ``grid``: g, in how many steps it is divided.

    Theorem: [VR] Table 1, Laplace on [0, 1]: p = q = e^ε', β = 1 − e^(−ε'/2) if g is even,
    1 − 2λ^((g+1)/2)/(1+λ) if g is odd.
    Deviates: a grid in place of real numbers; noise beyond the ends is replaced by its mean, which makes the variance
    smaller by up to a half and a message log2(g+1) bits.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.Laplace(epsilon=1.0, low=18, high=98, grid=80)
    >>> mechanism.message_bits
    7
    >>> everybody = sdp.amplify(mechanism, users=10_000, effort="quick").epsilon(delta=1e-6).upper
    >>> near = sdp.amplify(mechanism, users=10_000, effort="quick", diameter=10).epsilon(delta=1e-6).upper
    >>> f"{everybody:.4f}", f"{near:.4f}"
    ('0.0378', '0.0063')
    """

    epsilon: float
    low: float = 0.0
    high: float = 1.0
    grid: int = 1024

    name = "laplace"
    task = "mean"
    summary = "mean of numbers in an interval: the number with Laplace noise, on a grid"
    take_it = "For numbers, where messages must stay near the truth."
    also_called = ("local-laplace",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", informative_epsilon("Laplace", self.epsilon))
        if self.epsilon > LARGEST_EPSILON:
            raise ValueError(f"Laplace: epsilon must be at most {LARGEST_EPSILON:g}, got {self.epsilon!r}.")
        low, high = argument.real("Laplace", "low", self.low), argument.real("Laplace", "high", self.high, up=True)
        if not 0.0 < high - low < math.inf:
            raise ValueError(f"Laplace: low must be below high and both finite, got {low!r} and {high!r}.")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        object.__setattr__(self, "grid", rounding.grid_size("Laplace", self.grid, at_least=1))

    @cached_property
    def noise(self) -> TwoSidedGeometric:
        """The noise in steps; what is further than from end to end need not be told apart."""
        return TwoSidedGeometric(Fraction(math.nextafter(self.epsilon, 0.0)) / self.grid, reach=self.grid)

    @cached_property
    def values(self) -> RealNumber:
        return RealNumber("Laplace", self.low, self.high)

    @cached_property
    def law(self) -> GridNoiseLaw:
        (middle,) = self._units(np.array([self.low + (self.high - self.low) / 2])).tolist()
        return GridNoiseLaw(GridNoise(self.noise.rate, self.grid), self.epsilon, middle)

    @cached_property
    def wire(self) -> WholeNumberWire:
        return WholeNumberWire("Laplace", self.grid + 1)

    @cached_property
    def reading(self) -> CutNoiseReading:
        return CutNoiseReading(self.low, self.high, self.grid, self.noise.rate)

    @cached_property
    def reference(self) -> GridReference:
        return GridReference(self.law.noise, self.low, self.high)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        messages = np.empty(len(values), dtype=np.int64)
        for start in range(0, len(values), USERS_AT_ONCE):
            part = values[start : start + USERS_AT_ONCE]
            steps = rounding.to_grid(self._units(part), self.grid, source)
            steps += self.noise.draw(source, len(part))
            np.clip(steps, 0, self.grid, out=messages[start : start + USERS_AT_ONCE])
        return messages

    def _units(self, values: Floats) -> Array:
        return rounding.units_of_interval(values, self.low, self.high)

    # --- near inputs ------------------------------------------------------------------------------------------

    def between(self, first: Any, second: Any) -> Neighbours:
        """The exact laws of two numbers against the blanket, which is at each point the law of the farther end."""
        numbers = self.check([first, second])
        a, b = self._units(numbers).tolist()
        if a == b:
            return identical()
        return self.law.between(a, b, far=0 if sum(numbers.tolist()) > self.low + self.high else rounding.WHOLE)

    def within(self, diameter: float) -> Neighbours:
        """Numbers at most this far apart are mixtures of points at most so many steps apart, rounded up.

        What is known from below is for two numbers that are at most this far apart themselves.
        """
        size = argument.positive_finite("Laplace", "diameter", diameter, up=True)
        (apart,) = self._units(np.array([rounding.farthest_within(size, self.low, self.high)])).tolist()
        return self.law.within(rounding.steps_within(size, self.low, self.high, self.grid), apart)

    # --- for tests and the catalogue --------------------------------------------------------------------------

    def table(self) -> OutputTable:
        """Its probabilities are irrational: given to within 2^-200, as fractions whose rows sum to exactly 1."""
        if self.grid > MOST_STEPS_OF_A_TABLE:
            raise ValueError(f"Laplace: a table needs a grid of at most {MOST_STEPS_OF_A_TABLE}, got {self.grid}.")
        inputs = np.linspace(self.low, self.high, INPUTS_OF_A_TABLE)
        points = [self.law.noise.row(k) for k in range(self.grid + 1)]
        rows = []
        for unit in self._units(inputs).tolist():
            law = rounding.grid_law(unit, self.grid)
            rows.append(tuple(sum((law[k] * points[k][y] for k in law), Fraction(0)) for y in range(self.grid + 1)))
        return OutputTable(inputs, np.arange(self.grid + 1), tuple(rows))

    @classmethod
    def examples(cls) -> Sequence[Laplace]:
        return [
            cls(epsilon=1.0, grid=1),
            cls(epsilon=0.5, low=-3.0, high=5.0, grid=4),
            cls(epsilon=3.0, grid=7),
            cls(epsilon=8.0, low=0.0, high=0.1, grid=10),
        ]
