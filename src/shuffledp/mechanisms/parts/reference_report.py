"""Vectors drawn without looking at the input, of which those that lie towards the user's vector are preferred."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from shuffledp.array import Array, Floats, Words
from shuffledp.mechanisms.parts.own_region import OwnRegion
from shuffledp.mechanisms.parts.reference import Reference
from shuffledp.mechanisms.parts.unit_ball import directions_of, drawn_directions, in_parts
from shuffledp.numerics.ball import above
from shuffledp.sampling.normal import normals_of_words
from shuffledp.sampling.random import RandomSource

COORDINATE_BYTES = 4


@dataclass(frozen=True)
class ReferenceReport(Reference):
    """With probability γ a vector of the reference law, else one of those in the user's own set.

    The reference law is that of vectors of whole numbers computed from uniform words: some finite law that no input
    can change. Whether a vector is in the own set of a direction is a fixed function of the two, computed in float
    arithmetic. So the executed law is exactly γρ + (1−γ)·ρ(·|own set), whatever float arithmetic makes of ρ and of the
    sets; all that privacy needs of them is that no own set has a share below that of ``region``.

    ``share_error``: log of the ratio between the largest and the smallest share of an own set, at most.
    """

    region: OwnRegion
    dimension: int
    step: float
    share_error: float = 0.0

    # --- the reference law --------------------------------------------------------------------------------------

    @property
    def words(self) -> int:
        """Three for two coordinates."""
        return 3 * -(-self.dimension // 2)

    @abstractmethod
    def points(self, normal: Floats) -> Floats:
        """Vectors in units of the step from standard normal numbers, which it may overwrite."""

    def messages(self, words: Words) -> Array:
        """Vectors of the reference law, one for each row of words."""
        points = self.points(normals_of_words(words)[:, : self.dimension])
        return np.rint(points, out=points).astype(np.int32)

    def draws(self, source: RandomSource, rows: int) -> Array:
        """Fresh vectors of the reference law."""
        return self.messages(source.words(rows * self.words).reshape(rows, self.words))

    # --- running it ---------------------------------------------------------------------------------------------

    @abstractmethod
    def in_own_set(self, directions: Floats, messages: Array) -> NDArray[np.bool_]:
        """Whether each message is in the own set of the direction in the same row."""

    @abstractmethod
    def move(self, messages: Array, directions: Floats, chosen: NDArray[np.int64], source: RandomSource) -> None:
        """Bring the chosen messages into their own sets, in place: each gets the law ρ(·|own set)."""

    def randomize(self, values: Floats, source: RandomSource) -> Array:
        """Messages of checked vectors."""
        return in_parts(values, COORDINATE_BYTES, partial(self._draw, source))

    def _draw(self, source: RandomSource, values: Floats) -> Array:
        directions = drawn_directions(values, source)
        messages = self.draws(source, len(values))
        towards = ~source.coins(self.region.uniform_share, len(values))
        self.move(messages, directions, np.flatnonzero(towards), source)
        return messages

    # --- for compression ----------------------------------------------------------------------------------------

    @property
    def ratio(self) -> float:
        """C ≥ R(x)(y)/ρ(y)."""
        return above(self.region.inside)

    @property
    def least_ratio(self) -> Fraction:
        return self.region.uniform_share

    @property
    def acceptance_error(self) -> float:
        """In an own set larger than the region's the density is smaller than ``acceptance`` takes it to be."""
        return self.share_error

    def acceptance(self, values: Array, messages: Array) -> Floats:
        """R(x)(y)/(C·ρ(y)), too large by up to e^``share_error`` in the own set.

        Keeping y with this probability draws from the law in proportion to it, which is as private as ``epsilon``
        says: γ has room for that factor.
        """
        directions, length = directions_of(values)
        low = float(self.region.uniform_share / self.region.inside)
        result = np.where(self.in_own_set(directions, messages), 1.0, low)
        shorter = np.flatnonzero(length < 1.0)
        if shorter.size:
            behind = np.where(self.in_own_set(-directions[shorter], messages[shorter]), 1.0, low)
            part = length[shorter]
            result[shorter] = (1 + part) / 2 * result[shorter] + (1 - part) / 2 * behind
        return result


def heights(directions: Floats, messages: Array) -> Floats:
    """⟨V, x⟩ in steps; added up in one order however the rows are batched."""
    return np.asarray(np.add.reduce(messages * directions, axis=1))
