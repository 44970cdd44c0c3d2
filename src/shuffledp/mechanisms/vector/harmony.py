"""One coordinate of a vector, by a sign."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from shuffledp import argument
from shuffledp.array import Array
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.bit_response import informative_epsilon
from shuffledp.mechanisms.parts.own_region import OwnRegion, RegionLaw
from shuffledp.mechanisms.parts.signed_mean import OneSign, sign_law, table_inputs
from shuffledp.mechanisms.parts.user_values import BoxVector
from shuffledp.mechanisms.parts.wire import WholeNumberWire
from shuffledp.sampling import rounding
from shuffledp.sampling.random import RandomSource

MOST_COORDINATES_OF_A_TABLE = 100


@dataclass(frozen=True)
class Harmony(Mechanism):
    """Report the sign of one coordinate, drawn uniformly, through randomized response.

    A message is 2j + 1 for coordinate j with sign +, 2j with sign −. The own set is {(j, v_j)}: one of the two signs
    for each coordinate, v the vector rounded to signs.

    ``epsilon``: the local ε that every message keeps. ``dimension``: d, how many numbers a vector has, each from −1 to
    1.

    Theorem: [VR] Table 5, Harmony: p = q = e^ε, β = (e^ε−1)/(e^ε+1).

    >>> import shuffledp as sdp
    >>> mechanism = sdp.Harmony(epsilon=2.0, dimension=100)
    >>> mechanism.message_bits, sdp.Duchi(epsilon=2.0, dimension=100).message_bits
    (8, 100)
    >>> mechanism.variation_ratio() == sdp.Harmony(epsilon=2.0, dimension=5).variation_ratio()
    True
    """

    epsilon: float
    dimension: int

    name = "harmony"
    task = "vector mean"
    summary = "vector mean: the sign of one random coordinate"
    take_it = "For vectors of many coordinates between −1 and 1, one bit and an index each."
    also_called = ("hm",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", informative_epsilon("Harmony", self.epsilon))
        object.__setattr__(self, "dimension", argument.count("Harmony", "dimension", self.dimension))

    @cached_property
    def region(self) -> OwnRegion:
        """The own set: the right sign of each coordinate, half of all messages."""
        return OwnRegion("Harmony", self.epsilon, Fraction(1, 2))

    @cached_property
    def values(self) -> BoxVector:
        return BoxVector("Harmony", self.dimension)

    @cached_property
    def law(self) -> RegionLaw:
        return sign_law(self.region, self.dimension)

    @cached_property
    def wire(self) -> WholeNumberWire:
        return WholeNumberWire("Harmony", 2 * self.dimension)

    @cached_property
    def reading(self) -> OneSign:
        scale = float(self.dimension / (1 - self.region.uniform_share))
        return OneSign(self.dimension, scale, scale**2 / self.dimension)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        users = len(values)
        chosen = source.below(self.dimension, users)
        units = rounding.units_of_signed(values[np.arange(users), chosen])
        fair = source.below(2, users).astype(np.bool_)
        sign = np.where(source.coins(self.region.uniform_share, users), fair, rounding.coins(units, source))
        return np.asarray(2 * chosen + sign)

    def table(self) -> OutputTable:
        if self.dimension > MOST_COORDINATES_OF_A_TABLE:
            most = MOST_COORDINATES_OF_A_TABLE
            raise ValueError(f"Harmony: a table needs at most {most} coordinates, got {self.dimension}.")
        inputs = table_inputs(self.dimension)
        rows = tuple(
            tuple(self._chance(Fraction(x), sign) for x in vector.tolist() for sign in (-1, 1)) for vector in inputs
        )
        return OutputTable(inputs, np.arange(2 * self.dimension), rows)

    def _chance(self, x: Fraction, sign: int) -> Fraction:
        """The probability of one coordinate with one sign, where the vector has x there, a multiple of 2^-52."""
        return (1 + sign * x * (1 - self.region.uniform_share)) / (2 * self.dimension)

    @classmethod
    def examples(cls) -> Sequence[Harmony]:
        return [cls(epsilon=1.0, dimension=1), cls(epsilon=0.5, dimension=3), cls(epsilon=4.0, dimension=8)]
