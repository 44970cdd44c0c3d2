"""A random half-space: a point of the sphere on the user's side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shuffledp.array import Array, Floats
from shuffledp.mechanisms.parts.reference_report import ReferenceReport
from shuffledp.mechanisms.parts.two_level import TwoLevel
from shuffledp.numerics.ball import rational
from shuffledp.privacy.pair import HidingPair
from shuffledp.sampling.cap import Cap
from shuffledp.sampling.random import RandomSource


@dataclass(frozen=True)
class PrivHS(ReferenceReport):
    """A uniform point V of the sphere; with probability 1−γ it is moved to the user's side, V or −V.

    A row of words and the row with turned sign bits give V and −V, so both are equally likely, and exactly one of them
    is on the user's side: ⟨V, x⟩ > 0 as computed (float arithmetic turns its sign with V and with x), a 0 being decided
    by the first coordinates of V and x that are not 0. Each own set is thus exactly one half, and that of −x the other
    half: the guarantee is exact, and attained.

    Theorem: [LC] Appendix C, PrivHS: p = q = e^ε, β = (e^ε−1)/(e^ε+1), scale (e^ε+1)/(e^ε−1)·√π·Γ((d+1)/2)/Γ(d/2).
    """

    name = "privhs"
    tight = True
    summary = "mean of vectors in the unit ball: a point of the sphere on the vector's side; a seed can stand for it"

    @property
    def own_share(self) -> Fraction:
        return Fraction(1, 2)

    @property
    def step(self) -> float:
        return 2.0**-28

    @cached_property
    def scale(self) -> float:
        """E|⟨V, x⟩| is the mean height of the upper half of the sphere."""
        return 1 / (float(1 - self.uniform_share) * Cap(self.dimension, 0.0).moments[0])

    @property
    def square_moments(self) -> tuple[float, float]:
        return 1 / self.dimension, 0.0

    def reference_points(self, normal: Floats) -> Floats:
        normal *= (1 / (self.step * np.sqrt(np.add.reduce(normal * normal, axis=1))))[:, None]
        return normal

    def in_own_set(self, directions: Floats, messages: Array) -> NDArray[np.bool_]:
        height = self.heights(directions, messages)
        ahead = height > 0
        even = np.flatnonzero(height == 0)
        if even.size:
            ahead[even] = _first_signs(messages[even]) == _first_signs(directions[even])
        return np.asarray(ahead)

    def _move(self, messages: Array, directions: Floats, chosen: NDArray[np.int64], source: RandomSource) -> None:
        behind = chosen[~self.in_own_set(directions[chosen], messages[chosen])]
        messages[behind] *= -1

    def attacks(self) -> Sequence[HidingPair]:
        """A direction against the opposite one; the others all hold the first, or all hold 0."""
        half = rational(self.own_share)
        return [*TwoLevel.attacks(self), self._pair_against(half, half, 1 - 2 * half)]

    @classmethod
    def examples(cls) -> Sequence[PrivHS]:
        return [cls(epsilon=1.0, dimension=2), cls(epsilon=3.0, dimension=5), cls(epsilon=0.5, dimension=64)]


def _first_signs(rows: Array) -> NDArray[np.bool_]:
    """Whether the first number of each row that is not 0 is positive."""
    return np.asarray(rows[np.arange(len(rows)), (rows != 0).argmax(axis=1)] > 0)
