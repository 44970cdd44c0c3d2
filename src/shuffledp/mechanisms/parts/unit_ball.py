"""Means of vectors in the unit ball: what the mechanisms for them share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shuffledp import argument
from shuffledp.array import Array, Bytes, Floats
from shuffledp.mechanisms.mechanism import Estimate
from shuffledp.mechanisms.parts import user_values
from shuffledp.mechanisms.parts.bit_response import informative_epsilon
from shuffledp.mechanisms.parts.two_level import TwoLevel
from shuffledp.privacy.pair import HidingPair
from shuffledp.sampling import rounding
from shuffledp.sampling.random import RandomSource

TOO_LONG = 1e-6
"""Unit vectors of 32-bit floats are this much too long at times; they are taken at length 1."""
NOTHING = 2.0**-1000
"""Vectors shorter than this are taken as 0: their direction is not sure."""
NUMBERS_AT_ONCE = 1 << 17
"""Coordinates that are worked on at a time, for the cache."""


@dataclass(frozen=True)
class UnitBall(TwoLevel):
    """A value is a vector of length at most 1, of which only a direction is used.

    A vector of length ℓ below 1 counts as its direction with probability (1+ℓ)/2, else as the opposite one, by an
    exact coin after ℓ is rounded to a multiple of 2^-52. A shorter vector's law is then a mixture of two directions'
    laws, and no easier to tell from another's.
    """

    epsilon: float
    dimension: int

    task = "vector mean"
    tight = False

    def __post_init__(self) -> None:
        who = type(self).__name__
        informative_epsilon(who, self.epsilon)
        object.__setattr__(self, "dimension", argument.count(who, "dimension", self.dimension, at_least=2))

    def check(self, values: Any) -> Array:
        """Vectors of length at most 1; those a little longer, by rounding, are made unit vectors."""
        who = type(self).__name__
        vectors = user_values.reals(who, values, -1.0 - TOO_LONG, 1.0 + TOO_LONG, axes=2)
        if vectors.shape[1] != self.dimension:
            raise ValueError(f"{who}: expected vectors of {self.dimension} numbers, got {vectors.shape[1]}.")
        length = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
        if length.max() > 1.0 + TOO_LONG:
            raise ValueError(f"{who}: vectors must have length at most 1, got {float(length.max())!r}.")
        return np.asarray(vectors / np.maximum(length, 1.0)[:, None])

    def directions(self, vectors: Floats) -> tuple[Floats, Floats]:
        """Unit vectors and lengths; the vector 0 has the direction of the first axis."""
        largest = np.abs(vectors).max(axis=1)
        nothing = largest < NOTHING
        scaled = vectors / np.where(nothing, 1.0, largest)[:, None]
        scaled[nothing] = 0.0
        scaled[nothing, 0] = 1.0
        length = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
        scaled /= length[:, None]
        return scaled, np.where(nothing, 0.0, np.minimum(length * largest, 1.0))

    def drawn_directions(self, vectors: Floats, source: RandomSource) -> Floats:
        """The direction of each vector, or the opposite one, so that the mean is the vector."""
        unit, length = self.directions(vectors)
        ahead = rounding.coins(rounding.units_of_signed(length), source)
        return np.asarray(unit * np.where(ahead, 1.0, -1.0)[:, None])

    def truth(self, values: Any) -> Floats:
        return np.asarray(self.check(values).mean(axis=0))

    def attacks(self) -> Sequence[HidingPair]:
        """None whose exact law is known."""
        return []

    def probe(self) -> Array:
        """A direction and the opposite one."""
        first = np.zeros(self.dimension)
        first[0] = 1.0
        return np.stack([first, -first])


@dataclass(frozen=True)
class LatticeVector(UnitBall):
    """A message is a vector of whole numbers; ``step·scale`` times it has the user's vector as its mean.

    On the wire each coordinate is a signed number, highest byte first.
    """

    has_table = False

    @property
    @abstractmethod
    def step(self) -> float:
        """What one whole number stands for, a power of two."""

    @property
    @abstractmethod
    def coordinate_bytes(self) -> int:
        """Bytes of a coordinate on the wire."""

    @property
    @abstractmethod
    def scale(self) -> float:
        """1/E⟨V, x⟩ of a point V for a unit vector x."""

    @property
    @abstractmethod
    def square_moments(self) -> tuple[float, float]:
        """A and B where E[V_j²] = A + B·x_j² for a unit vector x, all rounding and noise of the message included."""

    @property
    def error(self) -> float:
        """The mean squared distance of one user's estimate from their unit vector."""
        across, along = self.square_moments
        return (self.dimension * across + along) * self.scale**2 - 1

    @abstractmethod
    def _randomize(self, values: Floats, source: RandomSource) -> Array:
        """Messages for a part of the values that fits in the cache."""

    def randomize(self, values: Array, source: RandomSource) -> Array:
        messages = np.empty(values.shape, dtype=f"i{self.coordinate_bytes}")
        at_once = max(1, NUMBERS_AT_ONCE // self.dimension)
        for start in range(0, len(values), at_once):
            messages[start : start + at_once] = self._randomize(values[start : start + at_once], source)
        return messages

    @property
    def message_bits(self) -> int:
        return 8 * self.coordinate_bytes * self.dimension

    def pack(self, messages: Array) -> Bytes:
        wire = np.ascontiguousarray(messages, dtype=f">i{self.coordinate_bytes}")
        return wire.view(np.uint8).reshape(len(wire), self.message_bytes)

    def unpack(self, wire: Bytes) -> Array:
        rows, width = np.asarray(wire), self.message_bytes
        if rows.dtype != np.uint8 or rows.ndim != 2 or rows.shape[1] != width:
            who = type(self).__name__
            raise ValueError(f"{who}: expected rows of {width} bytes, got {rows.dtype} of shape {rows.shape}.")
        size = self.coordinate_bytes
        return np.ascontiguousarray(rows).view(f">i{size}").astype(f"i{size}")

    def accumulate(self, messages: Array) -> Array:
        """The sums of the coordinates, which are exact, and of their squares."""
        total = np.zeros((2, self.dimension))
        at_once = max(1, NUMBERS_AT_ONCE // self.dimension)
        for start in range(0, len(messages), at_once):
            part = messages[start : start + at_once].astype(np.float64)
            total[0] += part.sum(axis=0)
            total[1] += np.einsum("ij,ij->j", part, part)
        return total

    def finish(self, total: Array, users: int) -> Estimate:
        """The mean; its variance from the squares, as if all users held the mean, which is no less."""
        factor = self.step * self.scale
        value, square = np.asarray(total[0]) * (factor / users), np.asarray(total[1]) * (factor**2 / users)
        return Estimate(value, (square - np.clip(value, -1.0, 1.0) ** 2) / users, users)

    def variance(self, values: Any) -> Floats:
        vectors = self.check(values)
        across, along = self.square_moments
        unit, _ = self.directions(vectors)
        spread = self.scale**2 * (across + along * unit**2) - vectors**2
        return np.asarray(spread.mean(axis=0) / len(vectors))
