"""One coordinate of a vector, by a sign."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from shuffledp.array import Array
from shuffledp.mechanisms.mechanism import OutputTable
from shuffledp.mechanisms.parts.old_whole_number import WholeNumber
from shuffledp.mechanisms.parts.signed_mean import SignedMean
from shuffledp.sampling import rounding
from shuffledp.sampling.random import RandomSource

MOST_COORDINATES_OF_A_TABLE = 100


@dataclass(frozen=True)
class Harmony(WholeNumber, SignedMean):
    """Report the sign of one coordinate, drawn uniformly, through randomized response.

    A message is 2j + 1 for coordinate j with sign +, 2j with sign −. The own set is {(j, v_j)}: one of the two signs
    for each coordinate, v the vector rounded to signs.

    Theorem: [VR] Table 5, Harmony: p = q = e^ε, β = (e^ε−1)/(e^ε+1).
    """

    name = "harmony"
    summary = "vector mean: the sign of one random coordinate"

    @property
    def own_share(self) -> Fraction:
        return Fraction(1, 2)

    @property
    def scale(self) -> float:
        return float(self.dimension / (1 - self.uniform_share))

    @property
    def second_moment(self) -> float:
        return self.scale**2 / self.dimension

    def randomize(self, values: Array, source: RandomSource) -> Array:
        users = len(values)
        chosen = source.below(self.dimension, users)
        units = rounding.units_of_signed(values[np.arange(users), chosen])
        fair = source.below(2, users).astype(np.bool_)
        sign = np.where(source.coins(self.uniform_share, users), fair, rounding.coins(units, source))
        return np.asarray(2 * chosen + sign)

    @property
    def outputs(self) -> int:
        return 2 * self.dimension

    def accumulate(self, messages: Array) -> Array:
        """The sum of the signs of each coordinate."""
        counts = np.bincount(messages, minlength=2 * self.dimension)
        return np.asarray(counts[1::2] - counts[::2])

    def table(self) -> OutputTable:
        if self.dimension > MOST_COORDINATES_OF_A_TABLE:
            most = MOST_COORDINATES_OF_A_TABLE
            raise ValueError(f"Harmony: a table needs at most {most} coordinates, got {self.dimension}.")
        inputs = self.table_inputs()
        rows = tuple(
            tuple(self._chance(Fraction(x), sign) for x in vector.tolist() for sign in (-1, 1)) for vector in inputs
        )
        return OutputTable(inputs, np.arange(2 * self.dimension), rows)

    def _chance(self, x: Fraction, sign: int) -> Fraction:
        """The probability of one coordinate with one sign, where the vector has x there, a multiple of 2^-52."""
        return (1 + sign * x * (1 - self.uniform_share)) / (2 * self.dimension)

    @classmethod
    def examples(cls) -> Sequence[Harmony]:
        return [cls(epsilon=1.0, dimension=1), cls(epsilon=0.5, dimension=3), cls(epsilon=4.0, dimension=8)]
