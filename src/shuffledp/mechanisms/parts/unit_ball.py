"""Means of vectors in the unit ball: what the mechanisms for them share.

A value is a vector of length at most 1, of which only a direction is used. A vector of length ℓ below 1 counts as its
direction with probability (1+ℓ)/2, else as the opposite one, by an exact coin after ℓ is rounded to a multiple of
2^-52. A shorter vector's law is then a mixture of two directions' laws, and no easier to tell from another's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from shuffledp import argument
from shuffledp.array import Array, Bytes, Floats
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.parts.bit_response import informative_epsilon
from shuffledp.mechanisms.parts.mean_tails import MeanTails
from shuffledp.mechanisms.parts.reading import Reading
from shuffledp.mechanisms.parts.sway import Sway
from shuffledp.mechanisms.parts.user_values import UserValues, reals
from shuffledp.mechanisms.parts.wire import Mask, Wire
from shuffledp.sampling import rounding
from shuffledp.sampling.random import RandomSource

TOO_LONG = 1e-6
"""Unit vectors of 32-bit floats are this much too long at times; they are taken at length 1."""
NOTHING = 2.0**-1000
"""Vectors shorter than this are taken as 0: their direction is not sure."""
NUMBERS_AT_ONCE = 1 << 17
"""Coordinates that are worked on at a time, for the cache."""


@dataclass(frozen=True)
class UnitBall(UserValues):
    """A vector of ``dimension`` numbers and length at most 1 per user."""

    who: str
    dimension: int

    def check(self, values: Any) -> Array:
        """Vectors of length at most 1; those a little longer, by rounding, are made unit vectors."""
        vectors = reals(self.who, values, -1.0 - TOO_LONG, 1.0 + TOO_LONG, axes=2)
        if vectors.shape[1] != self.dimension:
            raise ValueError(f"{self.who}: expected vectors of {self.dimension} numbers, got {vectors.shape[1]}.")
        length = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
        if length.max() > 1.0 + TOO_LONG:
            raise ValueError(f"{self.who}: vectors must have length at most 1, got {float(length.max())!r}.")
        return np.asarray(vectors / np.maximum(length, 1.0)[:, None])

    def probe(self) -> Array:
        """A direction and the opposite one."""
        first = np.zeros(self.dimension)
        first[0] = 1.0
        return np.stack([first, -first])


def checked_settings(who: str, epsilon: object, dimension: object) -> tuple[float, int]:
    """Both settings, if they are good."""
    return informative_epsilon(who, epsilon), argument.count(who, "dimension", dimension, at_least=2)


def directions_of(vectors: Floats) -> tuple[Floats, Floats]:
    """Unit vectors and lengths; the vector 0 has the direction of the first axis."""
    largest = np.abs(vectors).max(axis=1)
    nothing = largest < NOTHING
    scaled = vectors / np.where(nothing, 1.0, largest)[:, None]
    scaled[nothing] = 0.0
    scaled[nothing, 0] = 1.0
    length = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
    scaled /= length[:, None]
    return scaled, np.where(nothing, 0.0, np.minimum(length * largest, 1.0))


def drawn_directions(vectors: Floats, source: RandomSource) -> Floats:
    """The direction of each vector, or the opposite one, so that the mean is the vector."""
    unit, length = directions_of(vectors)
    ahead = rounding.coins(rounding.units_of_signed(length), source)
    return np.asarray(unit * np.where(ahead, 1.0, -1.0)[:, None])


# --- messages that are vectors of whole numbers -----------------------------------------------------------------------


@dataclass(frozen=True)
class LatticeWire(Wire):
    """A message is a vector of whole numbers; each coordinate a signed number on the wire, highest byte first."""

    who: str
    dimension: int
    coordinate_bytes: int
    largest: int
    """No coordinate of a message is larger in size."""

    def __post_init__(self) -> None:
        assert 0 < self.largest < 1 << 8 * self.coordinate_bytes - 1, "every coordinate has room on the wire"

    @property
    def expected(self) -> str:
        return f"vectors of whole numbers up to {self.largest} in size"

    @property
    def bits(self) -> int:
        return 8 * self.coordinate_bytes * self.dimension

    def pack(self, messages: Array) -> Bytes:
        wire = np.ascontiguousarray(messages, dtype=f">i{self.coordinate_bytes}")
        return wire.view(np.uint8).reshape(len(wire), self.bytes)

    def read(self, rows: Bytes) -> tuple[Array, Mask]:
        size = self.coordinate_bytes
        messages = np.ascontiguousarray(rows).view(f">i{size}").astype(f"i{size}")
        # The absolute value of the smallest number is no number of this type.
        small = (messages >= -self.largest) & (messages <= self.largest)
        return messages, np.asarray(small.all(axis=1))


@dataclass(frozen=True)
class LatticeReading(Reading):
    """A message is a vector V/step of whole numbers; ``scale`` times V has the user's vector as its mean.

    ``step`` is what one whole number stands for, a power of two; ``scale`` is 1/E⟨V, x⟩ for a unit vector x;
    E[V_j²] = ``across`` + ``along``·x_j², all rounding and noise of the message included, and E[V_j³] is 1/scale times
    p·x_j + q·x_j³, p and q the ``cubes``. No coordinate of a message is above ``largest`` in size.
    """

    dimension: int
    step: float
    scale: float
    across: float
    along: float
    cubes: tuple[float, float]
    largest: int

    @property
    def error(self) -> float:
        """The mean squared distance of one user's estimate from their unit vector."""
        return (self.dimension * self.across + self.along) * self.scale**2 - 1

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
        """The mean; its variance from the squares, as if all users held the mean, which is no less.

        Of users who differ, or hold the middle and send one direction or the opposite, the messages are the same.
        """
        factor = self.step * self.scale
        value, square = np.asarray(total[0]) * (factor / users), np.asarray(total[1]) * (factor**2 / users)
        tails = self.tails(square, users)
        return Estimate(value, tails.variance_of(np.clip(value, -1.0, 1.0)), users, tails)

    def tails(self, square: Floats, users: int) -> MeanTails:
        """Where the messages have these mean squares.

        They tell the mean u² of the users' directions, from 0 to 1, and no less than x² where x is the mean.
        """
        alone, told = self.scale**2 * self.across, self.scale**2 * self.along
        directions = np.clip((square - alone) / told, 0.0, 1.0) if told else np.zeros_like(square)
        square, (first, third) = alone + told * directions, self.cubes
        slope = self.scale**2 * (first + third * directions) - 3 * square
        return MeanTails.of_messages(users, square, -1.0, slope).at_least(alone, min(told - 1.0, 0.0))

    def mean_square(self, total: Array, users: int) -> Floats | None:
        return np.asarray(total[1]) * ((self.step * self.scale) ** 2 / users)

    def sways(self, messages: float) -> tuple[Sway, ...]:
        """A coordinate as large as the wire takes it, however long the whole vector is."""
        most = messages * self.largest * self.step * self.scale
        return (Sway(-most, most, -1.0, 1.0),)

    def truth(self, values: Array) -> Floats:
        return np.asarray(values.mean(axis=0))

    def variance(self, values: Array) -> Floats:
        unit, _ = directions_of(values)
        spread = self.scale**2 * (self.across + self.along * unit**2) - values**2
        return np.asarray(spread.mean(axis=0) / len(values))


def in_parts(values: Floats, coordinate_bytes: int, draw: Callable[[Floats], Array]) -> Array:
    """The messages that ``draw`` makes of the vectors, of as many at a time as fit in the cache."""
    messages = np.empty(values.shape, dtype=f"i{coordinate_bytes}")
    at_once = max(1, NUMBERS_AT_ONCE // values.shape[1])
    for start in range(0, len(values), at_once):
        messages[start : start + at_once] = draw(values[start : start + at_once])
    return messages
