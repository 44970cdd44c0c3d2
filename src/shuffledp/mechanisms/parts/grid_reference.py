"""The reference law of numbers with noise on a grid: every point alike, but for the two ends."""

from __future__ import annotations

import itertools
import operator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from flint import arb

from shuffledp.array import Array, Floats, Integers
from shuffledp.mechanisms.parts.grid_noise import PARAMETER_BITS, GridNoise
from shuffledp.mechanisms.parts.weighted_reference import WEIGHT_BITS, WeightedReference
from shuffledp.numerics.ball import precision, round_down, round_up, whole_below
from shuffledp.sampling import rounding


@dataclass(frozen=True)
class GridReference(WeightedReference):
    """Numbers of [low, high] as points of a grid with noise, cut at its ends.

    A message is likeliest from the point that it names: 1/(1+λ) at the ends, (1−λ)/(1+λ) between them. Weights are in
    proportion to that but for rounding; C is near 1 + ε/2 on a fine grid.
    """

    noise: GridNoise
    low: float
    high: float

    @property
    def _likeliest(self) -> tuple[arb, arb]:
        """The largest probability of an end, and of a point between them, as balls at the working precision."""
        step = self.noise.power(1)
        return 1 / (1 + step), (1 - step) / (1 + step)

    @cached_property
    def _weight_pair(self) -> tuple[int, int]:
        """The weight of an end, and of a point between them."""
        with precision(PARAMETER_BITS):
            end, inside = self._likeliest
            scale = arb(2) ** WEIGHT_BITS / (2 * end + (self.noise.grid - 1) * inside)
            return whole_below(end * scale), max(1, whole_below(inside * scale))

    @cached_property
    def weights(self) -> Integers:
        end, inside = self._weight_pair
        return np.array([end, *[inside] * (self.noise.grid - 1), end])

    def _over_reference(self, kind: int) -> arb:
        """The largest ratio to the reference law at an end (0), or between them (1)."""
        return self._likeliest[kind] * self.total / self._weight_pair[kind]

    @property
    def _kinds(self) -> range:
        """A grid of two points has none between them."""
        return range(1 if self.noise.grid == 1 else 2)

    @cached_property
    def ratio(self) -> float:
        with precision(PARAMETER_BITS):
            return max(round_up(self._over_reference(kind)) for kind in self._kinds)

    @cached_property
    def least_ratio(self) -> Fraction:
        """A point between the ends is one step nearer to the farther one than an end is."""
        with precision(PARAMETER_BITS):
            far = [self._over_reference(kind) * self.noise.power(self.noise.grid - kind) for kind in self._kinds]
            return Fraction(min(map(round_down, far)))

    def acceptance(self, values: Array, messages: Array) -> Floats:
        """A number is a mixture of two points."""
        grid = self.noise.grid
        point, left = rounding.grid_position(rounding.units_of_interval(values, self.low, self.high), grid)
        up = left / rounding.WHOLE
        below, above = np.abs(messages - point), np.minimum(np.abs(messages - point - 1), grid)
        chances = (1 - up) * self._powers[below] + up * self._powers[above]
        chances *= np.where((messages == 0) | (messages == grid), *self._scales)
        return np.minimum(chances, 1.0)

    @cached_property
    def _powers(self) -> Floats:
        """λ^0 … λ^g."""
        with precision(PARAMETER_BITS):
            steps = [self.noise.power(1)] * self.noise.grid
            return np.array([float(power.mid()) for power in itertools.accumulate(steps, operator.mul, initial=arb(1))])

    @cached_property
    def _scales(self) -> tuple[float, float]:
        """The largest ratio at an end, and between them, over C."""
        with precision(PARAMETER_BITS):
            end, inside = (float((self._over_reference(kind) / self.ratio).mid()) for kind in (0, 1))
        return end, inside
