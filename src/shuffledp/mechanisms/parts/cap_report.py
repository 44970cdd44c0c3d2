"""Points of a spherical cap around the user's vector, hidden among points of the whole sphere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial

import numpy as np
from flint import arb

from shuffledp.array import Array, Floats
from shuffledp.mechanisms.parts.cap_crowds import others_of_caps
from shuffledp.mechanisms.parts.own_region import OwnRegion, RegionLaw
from shuffledp.mechanisms.parts.unit_ball import LatticeReading, LatticeWire, drawn_directions, in_parts
from shuffledp.numerics.ball import rational
from shuffledp.privacy.others import Others
from shuffledp.sampling import dyadic
from shuffledp.sampling.cap import Cap
from shuffledp.sampling.lattice import NOISE_VARIANCE, ROUNDING_VARIANCE, noisy_rounding
from shuffledp.sampling.random import RandomSource

STEPS_OF_A_COORDINATE = 8
"""Steps in the usual size 1/√d of a coordinate, as a power of two: the noise then adds at most 6.5e-5 to |V|² = 1."""
ALLOWED_DISTANCE = 2.0**-38
"""Between the computed point and the real-number one; float arithmetic keeps 2^-48, its analysis 2^-39."""
ALLOWED_DENSITY = 2.0**-30
"""Log of the factor by which rejection in float arithmetic may bend a density; it bends it by less than 2^-35."""
SHARE_BITS = 256
LARGEST_EXPONENT = 80.0
"""The cap is chosen for an ε of at most this: smaller caps than its 2^-115 of a sphere say nothing more."""
LARGEST_DIMENSION = 1 << 20
FAR_NOISE = 1 << 8
"""Coordinates are cut off this many steps beyond the sphere; noise goes so far with a probability below 2^-256."""

NOISED_POINTS = "its points are computed in floats and noised, so that how many are in a cap is known nearly only."


@dataclass(frozen=True)
class CapReport:
    """With probability γ a uniform point V of the sphere, else a uniform point of the cap ⟨V, x⟩ ≥ height.

    This is PrivUnit(p, height) with p = γq + 1 − γ, q the cap's share of the sphere. Reals cannot be sent, so V is:
    divided by ``step``, rounded to a whole number with the right mean, and given two-sided geometric noise of a few
    steps, coordinate by coordinate. Coins, rounding and noise are exact. The point itself is computed in float
    arithmetic, which moves it by at most 2^-38; the noise bounds what this can do: no message's probability changes
    by more than a factor e^κ, κ = √d·2^-38/step + …, about 1e-6 at d = 1024. A cap's law is then at most e^2κ/q times
    the law of a message of a uniform point, and q·e^−2κ, certified, is the own ``share`` s: γ follows from it as in
    ``OwnRegion``, and with it the guarantee. Only this is taken on trust: the accuracy of log, cos and √ in float
    arithmetic, of which a thousandth is used.

    Theorem: R(x) = γρ + (1−γ)·C_x with C_x ≤ ρ/s is dominated by two disjoint own sets of share s: for densities
    between γ and γ + (1−γ)/s with mean 1, E φ(f − e^ε·g) is largest, φ convex, where both take the two ends only, in
    opposite order.
    Requires: d from 2 to 2^20.
    """

    who: str
    dimension: int
    height: float
    """Where the cap begins."""

    @cached_property
    def cap(self) -> Cap:
        return Cap(self.dimension, self.height)

    @cached_property
    def _places(self) -> int:
        return STEPS_OF_A_COORDINATE + math.ceil(math.log2(self.dimension) / 2)

    @property
    def step(self) -> float:
        """What one whole number stands for."""
        return 2.0**-self._places

    @cached_property
    def realisation_error(self) -> float:
        """κ: the distance in steps, summed over the coordinates; the rounding before the noise; the rejection."""
        distance = math.sqrt(self.dimension) * ALLOWED_DISTANCE / self.step
        rounding = self.dimension * 2.0 ** (self._places + 1 - 52)
        return (distance + rounding) * (1 + 2.0**-40) + ALLOWED_DENSITY

    @cached_property
    def share(self) -> Fraction:
        """s: what a cap's law is at most 1/s times the law of."""
        loss = rational(-2 * self.realisation_error)
        return dyadic.at_most(lambda: self.cap.share() * arb(loss).exp(), SHARE_BITS)

    @cached_property
    def wire(self) -> LatticeWire:
        return LatticeWire(self.who, self.dimension, 2 if self._places <= 14 else 4, (1 << self._places) + FAR_NOISE)

    def law(self, region: OwnRegion) -> CapLaw:
        """The law where γ is that of the region."""
        return CapLaw(region, region.share, covers_mixtures=True, why_no_attack=NOISED_POINTS, report=self)

    def reading(self, region: OwnRegion) -> LatticeReading:
        """How messages are read where γ is that of the region."""
        d, caps = self.dimension, float(1 - region.uniform_share)
        along = (1 - caps) / d + caps * self.cap.moments[1]
        across = (1 - along) / (d - 1)
        scale = 1 / (float(1 - region.uniform_share) * self.cap.moments[0])
        noise = (NOISE_VARIANCE + ROUNDING_VARIANCE) * self.step**2
        return LatticeReading(
            d, self.step, scale, across + noise, along - across, cubes_of(self.cap), self.wire.largest
        )

    def randomize(self, uniform_share: Fraction, values: Floats, source: RandomSource) -> Array:
        """Messages of checked vectors."""
        return in_parts(values, self.wire.coordinate_bytes, partial(self._draw, uniform_share, source))

    def _draw(self, uniform_share: Fraction, source: RandomSource, values: Floats) -> Array:
        poles = drawn_directions(values, source)
        in_cap = ~source.coins(uniform_share, len(values))
        points = self.cap.points(source, poles, in_cap)
        points *= 1 / self.step
        largest = self.wire.largest
        return np.clip(noisy_rounding(points, source, self._places + 1), -largest, largest)


@dataclass(frozen=True)
class CapLaw(RegionLaw):
    """The law of caps: two disjoint ones, whatever else there is; the caps of two users and a third meet as caps do.

    No attack is given: noise hides a little of which caps a message is in, and how little is not certified.
    """

    report: CapReport = field(kw_only=True)

    def others(self) -> Sequence[Others]:
        """Triples of caps on a great circle; where float arithmetic blurs them, any region."""
        return super().others() if self._triples is None else [self._triples]

    @cached_property
    def _triples(self) -> Others | None:
        return others_of_caps(self.report.cap, self.region.uniform_share, self.report.realisation_error)


def cubes_of(cap: Cap) -> tuple[float, float]:
    """p and q of E[V_j³] = m·(p·x_j + q·x_j³), m the mean of V along x.

    V is t along x and √(1 − t²) in a uniform direction across: E[V_j³] = x³·E[t³] + 3x(1 − x²)·E[t(1 − t²)]/(d − 1).
    In the cap that begins at h, E[t(1 − t²)] = E[t]·(1 − h²)(d − 1)/(d + 1). Points of the whole sphere add nothing.
    """
    d, rest = cap.dimension, 1 - cap.height**2
    first = 3 * rest / (d + 1)
    return first, 1 - rest * (d - 1) / (d + 1) - first


def checked_dimension(who: str, dimension: int) -> int:
    """A dimension for which the proof holds."""
    if dimension > LARGEST_DIMENSION:
        raise ValueError(f"{who}: dimension must be at most {LARGEST_DIMENSION}, got {dimension}.")
    return dimension
