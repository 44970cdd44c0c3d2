"""Vectors drawn without looking at the input, of which those that lie towards the user's vector are preferred."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb
from numpy.typing import NDArray

from shuffledp.array import Array, Floats, Words
from shuffledp.mechanisms.mechanism import OutputTable
from shuffledp.mechanisms.parts.unit_ball import LatticeVector
from shuffledp.numerics.ball import above, precision, rational, round_up
from shuffledp.sampling.normal import normals_of_words
from shuffledp.sampling.random import RandomSource

LOG_BITS = 128


@dataclass(frozen=True)
class ReferenceReport(LatticeVector):
    """With probability γ a vector of the reference law, else one of those in the user's own set.

    The reference law is that of vectors of whole numbers computed from uniform words: some finite law that no input
    can change. Whether a vector is in the own set of a direction is a fixed function of the two, computed in float
    arithmetic. So the executed law is exactly γρ + (1−γ)·ρ(·|own set), whatever float arithmetic makes of ρ and of the
    sets; all that privacy needs of them is that no own set has a share below ``own_share``.
    """

    @property
    def coordinate_bytes(self) -> int:
        return 4

    @property
    def reference_words(self) -> int:
        """Three for two coordinates."""
        return 3 * -(-self.dimension // 2)

    @abstractmethod
    def reference_points(self, normal: Floats) -> Floats:
        """Vectors in units of the step from standard normal numbers, which it may overwrite."""

    def reference_messages(self, words: Words) -> Array:
        """Vectors of the reference law, one for each row of words."""
        points = self.reference_points(normals_of_words(words)[:, : self.dimension])
        return np.rint(points, out=points).astype(np.int32)

    def reference_draws(self, source: RandomSource, rows: int) -> Array:
        """Fresh vectors of the reference law."""
        return self.reference_messages(source.words(rows * self.reference_words).reshape(rows, self.reference_words))

    @abstractmethod
    def in_own_set(self, directions: Floats, messages: Array) -> NDArray[np.bool_]:
        """Whether each message is in the own set of the direction in the same row."""

    @staticmethod
    def heights(directions: Floats, messages: Array) -> Floats:
        """⟨V, x⟩ in steps; added up in one order however the rows are batched."""
        return np.asarray(np.add.reduce(messages * directions, axis=1))

    def _randomize(self, values: Floats, source: RandomSource) -> Array:
        directions = self.drawn_directions(values, source)
        messages = self.reference_draws(source, len(values))
        towards = ~source.coins(self.uniform_share, len(values))
        self._move(messages, directions, np.flatnonzero(towards), source)
        return messages

    @abstractmethod
    def _move(self, messages: Array, directions: Floats, chosen: NDArray[np.int64], source: RandomSource) -> None:
        """Bring the chosen messages into their own sets, in place: each gets the law ρ(·|own set)."""

    # --- for compression --------------------------------------------------------------------------------------

    @property
    def own_share_error(self) -> float:
        """log of the ratio between the largest and the smallest share of an own set, at most."""
        return 0.0

    @property
    def _largest(self) -> Fraction:
        return self.uniform_share + (1 - self.uniform_share) / self.own_share

    @property
    def reference_ratio(self) -> float:
        """C ≥ R(x)(y)/ρ(y)."""
        return above(self._largest)

    @property
    def deletion_epsilon(self) -> float:
        with precision(LOG_BITS):
            up = arb(rational(self._largest)).log()
            down = -arb(rational(self.uniform_share)).log() + arb(rational(self.own_share_error))
            return max(round_up(up), round_up(down))

    @property
    def acceptance_error(self) -> float:
        """In an own set larger than ``own_share`` the density is smaller than ``acceptance`` takes it to be."""
        return self.own_share_error

    def acceptance(self, values: Array, messages: Array) -> Floats:
        """R(x)(y)/(C·ρ(y)), too large by up to e^``own_share_error`` in the own set.

        Keeping y with this probability draws from the law in proportion to it, which is as private as ``epsilon``
        says: γ has room for that factor.
        """
        directions, length = self.directions(values)
        low = float(self.uniform_share / self._largest)
        result = np.where(self.in_own_set(directions, messages), 1.0, low)
        shorter = np.flatnonzero(length < 1.0)
        if shorter.size:
            behind = np.where(self.in_own_set(-directions[shorter], messages[shorter]), 1.0, low)
            part = length[shorter]
            result[shorter] = (1 + part) / 2 * result[shorter] + (1 - part) / 2 * behind
        return result

    def table(self) -> OutputTable:
        raise ValueError(f"{type(self).__name__}: vectors of many digits cannot be written down as a table.")
