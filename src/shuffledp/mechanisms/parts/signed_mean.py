"""Means of vectors in [−1, 1]^d from messages that are signs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from shuffledp import argument
from shuffledp.array import Array, Floats
from shuffledp.mechanisms.mechanism import Estimate
from shuffledp.mechanisms.parts import user_values
from shuffledp.mechanisms.parts.bit_response import informative_epsilon
from shuffledp.mechanisms.parts.two_level import TwoLevel
from shuffledp.numerics.ball import rational
from shuffledp.privacy.pair import HidingPair


@dataclass(frozen=True)
class SignedMean(TwoLevel):
    """A message is a sign, or 0, per coordinate; ``scale`` times it has the user's vector as its mean.

    Coordinates are first rounded to the nearest multiple of 2^-52, then to ±1 with that mean, by an exact coin.
    """

    epsilon: float
    dimension: int

    task = "vector mean"

    def __post_init__(self) -> None:
        who = type(self).__name__
        informative_epsilon(who, self.epsilon)
        object.__setattr__(self, "dimension", argument.count(who, "dimension", self.dimension))

    @property
    @abstractmethod
    def scale(self) -> float:
        """The factor that makes a message unbiased."""

    @property
    @abstractmethod
    def second_moment(self) -> float:
        """The mean square of each coordinate of a scaled message, whatever the value."""

    def check(self, values: Any) -> Array:
        who = type(self).__name__
        vectors = user_values.reals(who, values, -1.0, 1.0, axes=2)
        if vectors.shape[1] != self.dimension:
            raise ValueError(f"{who}: expected vectors of {self.dimension} numbers, got {vectors.shape[1]}.")
        return vectors

    def attacks(self) -> Sequence[HidingPair]:
        """The others all hold the first of the two inputs; or all hold 0, so that their messages are uniform."""
        share = rational(self.own_share)
        return [*super().attacks(), self._pair_against(share, share, 1 - 2 * share)]

    def coin_range(self) -> tuple[Fraction, Fraction] | None:
        """With one coordinate there are two messages, and the ends of [−1, 1] are the extreme inputs."""
        least = self.uniform_share / 2
        return (least, 1 - least) if self.dimension == 1 else None

    def finish(self, total: Array, users: int) -> Estimate:
        """The mean, from the sum of the signs; its variance taken as if all users held the mean, which is no less."""
        value = np.asarray(total, dtype=np.float64) * (self.scale / users)
        return Estimate(value, (self.second_moment - np.clip(value, -1.0, 1.0) ** 2) / users, users)

    def truth(self, values: Any) -> Floats:
        return np.asarray(self.check(values).mean(axis=0))

    def variance(self, values: Any) -> Floats:
        vectors = self.check(values)
        return np.asarray((self.second_moment - (vectors**2).mean(axis=0)) / len(vectors))

    def probe(self) -> Array:
        return np.stack([-np.ones(self.dimension), np.ones(self.dimension)])

    def table_inputs(self) -> Array:
        """Both ends of a diagonal, a third corner, and three vectors between, all of multiples of 2^-52."""
        ones = np.ones(self.dimension)
        signs = np.where(np.arange(self.dimension) % 2, -1.0, 1.0)
        mixed = np.resize([0.3125, -0.75, 2.0**-50, 1.0 - 2.0**-52], self.dimension)
        return np.array([ones, -ones, signs, 0 * ones, mixed, signs / 2])
