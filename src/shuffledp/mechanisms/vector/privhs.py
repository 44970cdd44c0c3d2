"""A random half-space: a point of the sphere on the user's side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shuffledp.array import Array, Floats
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.cap_report import cubes_of
from shuffledp.mechanisms.parts.own_region import OwnRegion, RegionLaw
from shuffledp.mechanisms.parts.reference_report import COORDINATE_BYTES, ReferenceReport, heights
from shuffledp.mechanisms.parts.unit_ball import LatticeReading, LatticeWire, UnitBall, checked_settings
from shuffledp.sampling.cap import Cap
from shuffledp.sampling.random import RandomSource

STEP = 2.0**-28


@dataclass(frozen=True)
class HalfSpaceReport(ReferenceReport):
    """Uniform points of the sphere; the own set of a direction is its side."""

    def points(self, normal: Floats) -> Floats:
        normal *= (1 / (self.step * np.sqrt(np.add.reduce(normal * normal, axis=1))))[:, None]
        return normal

    def in_own_set(self, directions: Floats, messages: Array) -> NDArray[np.bool_]:
        height = heights(directions, messages)
        ahead = height > 0
        even = np.flatnonzero(height == 0)
        if even.size:
            ahead[even] = _first_signs(messages[even]) == _first_signs(directions[even])
        return np.asarray(ahead)

    def move(self, messages: Array, directions: Floats, chosen: NDArray[np.int64], source: RandomSource) -> None:
        behind = chosen[~self.in_own_set(directions[chosen], messages[chosen])]
        messages[behind] *= -1


@dataclass(frozen=True)
class PrivHS(Mechanism):
    """A uniform point V of the sphere; with probability 1−γ it is moved to the user's side, V or −V.

    A row of words and the row with turned sign bits give V and −V, so both are equally likely, and exactly one of them
    is on the user's side: ⟨V, x⟩ > 0 as computed (float arithmetic turns its sign with V and with x), a 0 being decided
    by the first coordinates of V and x that are not 0. Each own set is thus exactly one half, and that of −x the other
    half: the guarantee is exact, and attained.

    ``epsilon``: the local ε that every message keeps. ``dimension``: d, how many numbers a vector has; its length is at
    most 1.

    Theorem: [LC] Appendix C, PrivHS: p = q = e^ε, β = (e^ε−1)/(e^ε+1), scale (e^ε+1)/(e^ε−1)·√π·Γ((d+1)/2)/Γ(d/2).

    >>> import shuffledp as sdp
    >>> mechanism = sdp.PrivHS(epsilon=1.0, dimension=8)
    >>> mechanism.message_bits
    256
    >>> f"{mechanism.variation_ratio().beta:.4f}"
    '0.4621'
    >>> f"{sdp.amplify(mechanism, users=10_000).epsilon(delta=1e-6).upper:.4f}"
    '0.0357'
    """

    epsilon: float
    dimension: int

    name = "privhs"
    task = "vector mean"
    summary = "mean of vectors in the unit ball: a point of the sphere on the vector's side; a seed can stand for it"
    take_it = "For vectors in the unit ball that are sent as a seed, at a small local ε."
    also_called = ("hemisphere",)
    has_table = False

    def __post_init__(self) -> None:
        epsilon, dimension = checked_settings("PrivHS", self.epsilon, self.dimension)
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "dimension", dimension)

    @cached_property
    def region(self) -> OwnRegion:
        """The own set: the points on the user's side."""
        return OwnRegion("PrivHS", self.epsilon, Fraction(1, 2))

    @cached_property
    def values(self) -> UnitBall:
        return UnitBall("PrivHS", self.dimension)

    @cached_property
    def law(self) -> RegionLaw:
        """Attacked by a direction against the opposite one; the others all hold the first, or all hold 0."""
        half = self.region.share
        attacked = (self.region.disjoint_attack(), self.region.disjoint_attack((half, half, 1 - 2 * half)))
        return RegionLaw.of_disjoint(self.region, attacked=attacked, tight=True)

    @cached_property
    def wire(self) -> LatticeWire:
        return LatticeWire("PrivHS", self.dimension, COORDINATE_BYTES, int(1 / STEP) + 1)

    @cached_property
    def reading(self) -> LatticeReading:
        """E|⟨V, x⟩| is the mean height of the upper half of the sphere."""
        half = Cap(self.dimension, 0.0)
        scale = 1 / (float(1 - self.region.uniform_share) * half.moments[0])
        return LatticeReading(self.dimension, STEP, scale, 1 / self.dimension, 0.0, cubes_of(half), self.wire.largest)

    @cached_property
    def reference(self) -> HalfSpaceReport:
        return HalfSpaceReport(self.region, self.dimension, STEP)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        return self.reference.randomize(values, source)

    def table(self) -> OutputTable:
        raise ValueError("PrivHS: vectors of many digits cannot be written down as a table.")

    @classmethod
    def examples(cls) -> Sequence[PrivHS]:
        return [cls(epsilon=1.0, dimension=2), cls(epsilon=3.0, dimension=5), cls(epsilon=0.5, dimension=64)]


def _first_signs(rows: Array) -> NDArray[np.bool_]:
    """Whether the first number of each row that is not 0 is positive."""
    return np.asarray(rows[np.arange(len(rows)), (rows != 0).argmax(axis=1)] > 0)
