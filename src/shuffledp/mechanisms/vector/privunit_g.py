"""PrivUnit with normal vectors in place of points of the sphere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import arb
from numpy.typing import NDArray

from shuffledp.array import Array, Floats
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.own_region import OwnRegion, RegionLaw
from shuffledp.mechanisms.parts.reference_report import COORDINATE_BYTES, ReferenceReport, heights
from shuffledp.mechanisms.parts.unit_ball import LatticeReading, LatticeWire, UnitBall, checked_settings
from shuffledp.numerics.ball import precision, rational, round_up
from shuffledp.sampling import dyadic
from shuffledp.sampling.random import RandomSource

SHARE_BITS = 128
LARGEST_EXPONENT = 100.0
HALVINGS = 60
COMPUTED_VECTORS = "its vectors are computed in floats, so that how many of them reach a height is known nearly only."
HIGHEST = 3.4
"""The own set is at least 1/3000 of all vectors: they are found by trying."""
LENGTH_BEYOND = 12
"""A normal vector is longer than √d + 12 with probability below e^-72."""
STEP = 2.0**-27
FAR = 13.0
"""No normal number from a word of 104 digits is larger: √(2·104·log 2) < 12.01."""


@dataclass(frozen=True)
class NormalReport(ReferenceReport):
    """Normal vectors; the own set of a direction is those that reach the ``height`` in it."""

    height: float = 0.0

    def points(self, normal: Floats) -> Floats:
        normal *= 1 / self.step
        return normal

    def in_own_set(self, directions: Floats, messages: Array) -> NDArray[np.bool_]:
        return np.asarray(heights(directions, messages) >= self.height / self.step)

    def move(self, messages: Array, directions: Floats, chosen: NDArray[np.int64], source: RandomSource) -> None:
        while chosen.size:
            chosen = chosen[~self.in_own_set(directions[chosen], messages[chosen])]
            messages[chosen] = self.draws(source, chosen.size)


@dataclass(frozen=True)
class PrivUnitG(Mechanism):
    """A vector V of d standard normal numbers, often one with ⟨V, x⟩ ≥ height; found by trying again and again.

    Real normal vectors have a share q = P(N ≥ height) in every own set. The finite law that is run is near to theirs:
    but for an event of probability below d·2^-51 + e^-72, V is within √d·2^-28 + (√d + 12)·2^-43 of a real normal
    vector, and the computed height within as much and its own rounding. So each own set's share is between
    P(N ≥ height + t) and P(N ≥ height − t), up to that probability; the lower end, certified, is ``region.share``.

    The height makes the error least: m = φ(h)(e^ε−1)/(1+q(e^ε−1)) is largest at h = m.

    ``epsilon``: the local ε that every message keeps. ``dimension``: d, how many numbers a vector has; its length is at
    most 1.

    Theorem: [LC] Appendix C, PrivUnitG: C_x ≤ ρ/s as in ``CapReport``; error (E|V|²)/m² − 1.
    Deviates: h at most 3.4, which binds from about ε = 8.9 on.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.PrivUnitG(epsilon=4.0, dimension=16)
    >>> f"{mechanism.height:.3f}"
    '1.516'
    >>> mechanism.message_bits, sdp.Compressed(mechanism, prg="shake128").message_bits
    (512, 128)
    """

    epsilon: float
    dimension: int

    name = "privunit-g"
    task = "vector mean"
    summary = "mean of vectors in the unit ball: a normal vector near the vector; a seed can stand for it"
    take_it = "For vectors in the unit ball that are sent as a seed."
    also_called = ("privunitg",)
    has_table = False

    def __post_init__(self) -> None:
        epsilon, dimension = checked_settings("PrivUnitG", self.epsilon, self.dimension)
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "dimension", dimension)
        if self.epsilon <= 4 * self.share_error:
            raise ValueError(
                f"PrivUnitG: epsilon must be above {4 * self.share_error:.3g} for {self.dimension} numbers, "
                f"or float arithmetic would drown it, got {self.epsilon!r}."
            )

    @cached_property
    def height(self) -> float:
        """In standard deviations."""
        return min(HIGHEST, _best_height(self.epsilon))

    @cached_property
    def share_error(self) -> float:
        """log of the ratio between the largest and the smallest share of an own set, at most."""
        with precision(SHARE_BITS):
            return round_up((self._share(-1) / self._share(1)).log())

    def _share(self, side: int) -> arb:
        """An own set's share at least (side 1) or at most (side −1)."""
        root = arb(self.dimension).sqrt()
        distance = root * arb(2) ** -28 + (root + LENGTH_BEYOND) * (arb(2) ** -43 + self.dimension * arb(2) ** -52)
        tail = ((arb(rational(self.height)) + side * distance) / arb(2).sqrt()).erfc() / 2
        return tail - side * (self.dimension * arb(2) ** -51 + arb(-72).exp())

    @cached_property
    def region(self) -> OwnRegion:
        """The own set: vectors that reach the height. γ as ever, with room for laws in proportion to ``acceptance``."""
        own_share = dyadic.at_most(lambda: self._share(1), SHARE_BITS)
        share, less = rational(own_share), min(self.epsilon, LARGEST_EXPONENT) - 2 * self.share_error
        gamma = dyadic.at_least(lambda: 1 / (1 + arb(share) * (arb(less).exp() - 1)))
        return OwnRegion("PrivUnitG", self.epsilon, own_share, gamma)

    @cached_property
    def values(self) -> UnitBall:
        return UnitBall("PrivUnitG", self.dimension)

    @cached_property
    def law(self) -> RegionLaw:
        return RegionLaw.of_disjoint(self.region, why_no_attack=COMPUTED_VECTORS)

    @cached_property
    def wire(self) -> LatticeWire:
        return LatticeWire("PrivUnitG", self.dimension, COORDINATE_BYTES, int(FAR / STEP))

    @cached_property
    def reading(self) -> LatticeReading:
        """E[N | N ≥ h] = φ(h)/q, E[N² | N ≥ h] = 1 + h·φ(h)/q and E[N³ | N ≥ h] = (h² + 2)·φ(h)/q.

        Across x it is normal: E[V_j³] = x³·E[N³] + 3x(1 − x²)·E[N] of what reaches the height.
        """
        share = math.erfc(self.height / math.sqrt(2)) / 2
        mean_height = math.exp(-(self.height**2) / 2) / math.sqrt(2 * math.pi) / share
        told = float(1 - self.region.uniform_share)
        along = told * self.height * mean_height
        scale, cubes = 1 / (told * mean_height), (3.0, self.height**2 - 1)
        return LatticeReading(self.dimension, STEP, scale, 1.0, along, cubes, self.wire.largest)

    @cached_property
    def reference(self) -> NormalReport:
        return NormalReport(self.region, self.dimension, STEP, self.share_error, self.height)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        return self.reference.randomize(values, source)

    def table(self) -> OutputTable:
        raise ValueError("PrivUnitG: vectors of many digits cannot be written down as a table.")

    @classmethod
    def examples(cls) -> Sequence[PrivUnitG]:
        return [cls(epsilon=1.0, dimension=2), cls(epsilon=3.0, dimension=5), cls(epsilon=0.5, dimension=64)]


def _best_height(epsilon: float) -> float:
    """Where h = φ(h)(e^ε−1)/(1+q(e^ε−1)), by halving; any height keeps the guarantee."""
    excess = math.expm1(min(epsilon, LARGEST_EXPONENT))
    low, high = 0.0, 40.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        share = math.erfc(middle / math.sqrt(2)) / 2
        gain = math.exp(-(middle**2) / 2) / math.sqrt(2 * math.pi) * excess / (1 + share * excess)
        low, high = (low, middle) if middle > gain else (middle, high)
    return low
