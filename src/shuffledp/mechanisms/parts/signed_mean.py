"""Means of vectors in [−1, 1]^d from messages that are signs: what mechanisms that send signs share.

Coordinates are first rounded to the nearest multiple of 2^-52, then to ±1 with that mean, by an exact coin.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from shuffledp.array import Array, Floats
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.parts.mean_tails import MeanTails
from shuffledp.mechanisms.parts.own_region import OwnRegion, RegionLaw
from shuffledp.mechanisms.parts.reading import Reading
from shuffledp.mechanisms.parts.sway import Sway
from shuffledp.sampling import bits


@dataclass(frozen=True)
class SignReading(Reading):
    """A message is a sign, or 0, per coordinate; ``scale`` times it has the user's vector as its mean.

    ``second_moment`` is the mean square of each coordinate of a scaled message, whatever the value.
    """

    dimension: int
    scale: float
    second_moment: float

    def finish(self, total: Array, users: int) -> Estimate:
        """The mean, from the sum of the signs; its variance taken as if all users held the mean, which is no less."""
        value = np.asarray(total, dtype=np.float64) * (self.scale / users)
        variance = (self.second_moment - np.clip(value, -1.0, 1.0) ** 2) / users
        return Estimate(value, variance, users, self.tails(users))

    def tails(self, users: int) -> MeanTails:
        """A message adds the scale, the same less, or nothing: its mean cube is scale² times its mean.

        Where all messages have a sign, one that is turned round moves the sum by 2.
        """
        third_slope, step = self.scale**2 - 3 * self.second_moment, self.scale / users
        steps = (step, 0.0) if self.has_zeros else (2 * step, -self.scale)
        return MeanTails.of_messages(users, self.second_moment, -1.0, third_slope, *steps)

    @property
    def has_zeros(self) -> bool:
        """Whether some messages say nothing of a coordinate."""
        return self.dimension > 1

    def of_ends(self, estimate: Estimate) -> Estimate:
        """Every value's square is 1, and not that of the mean; whoever of the users answered."""
        own = (1 - np.clip(estimate.value, -1.0, 1.0) ** 2) / estimate.users
        tails = estimate.tails.of_ends() if isinstance(estimate.tails, MeanTails) else estimate.tails
        return replace(estimate, variance=np.maximum(estimate.variance - own, 0.0), tails=tails)

    def mean_square(self, total: Array, users: int) -> Floats | None:
        return np.full(self.dimension, self.second_moment)

    def sways(self, messages: float) -> tuple[Sway, ...]:
        """Every message has the same sign at a given coordinate."""
        return (Sway(-messages * self.scale, messages * self.scale, -1.0, 1.0),)

    def truth(self, values: Array) -> Floats:
        return np.asarray(values.mean(axis=0))

    def variance(self, values: Array) -> Floats:
        return np.asarray((self.second_moment - (values**2).mean(axis=0)) / len(values))


@dataclass(frozen=True)
class SignRow(SignReading):
    """A message is a row of packed bits, 1 for +."""

    @property
    def has_zeros(self) -> bool:
        return False

    def accumulate(self, messages: Array) -> Array:
        """The sum of the signs of each coordinate."""
        return np.asarray(2 * bits.column_sums(messages, self.dimension) - len(messages))


@dataclass(frozen=True)
class OneSign(SignReading):
    """A message is 2j + 1 for coordinate j with sign +, 2j with sign −; the other coordinates are 0."""

    def accumulate(self, messages: Array) -> Array:
        """The sum of the signs of each coordinate."""
        counts = np.bincount(messages, minlength=2 * self.dimension)
        return np.asarray(counts[1::2] - counts[::2])


def sign_law(region: OwnRegion, dimension: int) -> RegionLaw:
    """Attacked where the others all hold the first of the two inputs; or all hold 0, so that they send uniform signs.

    With one coordinate there are two messages, and the ends of [−1, 1] are the extreme inputs.
    """
    share, least = region.share, region.uniform_share / 2
    return RegionLaw(
        region, share, attacked=(region.disjoint_attack(), region.disjoint_attack((share, share, 1 - 2 * share))),
        coin=(least, 1 - least) if dimension == 1 else None, tight=True, covers_mixtures=True,
        space=(region.who, dimension),
    )  # fmt: skip


def table_inputs(dimension: int) -> Array:
    """Both ends of a diagonal, a third corner, and three vectors between, all of multiples of 2^-52."""
    ones = np.ones(dimension)
    signs = np.where(np.arange(dimension) % 2, -1.0, 1.0)
    mixed = np.resize([0.3125, -0.75, 2.0**-50, 1.0 - 2.0**-52], dimension)
    return np.array([ones, -ones, signs, 0 * ones, mixed, signs / 2])
