"""Spherical caps: the points of the unit sphere at least so high in one direction. Their share, moments and draws."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from flint import arb, ctx, fmpq

from shuffledp.array import Floats
from shuffledp.numerics.ball import precision, rational
from shuffledp.sampling.normal import exponentials, normals
from shuffledp.sampling.random import RandomSource

MOMENT_BITS = 192
FEW_DIMENSIONS = 6
"""Below, the elevation is proposed uniformly: no bell curve is near to its law yet."""
NEAR_THE_EQUATOR = 0.7
"""Caps that begin this few standard deviations above the equator are drawn from the whole upper half."""
WORST_SHARE = 4.0
"""A direction is kept if its length is at least 1/4 of that of all numbers drawn with it."""


@lru_cache(maxsize=256)
def _share(dimension: int, height: float, bits: int) -> arb:
    """Of a cap, at this precision: that of a flat one takes a second, and is asked for again and again."""
    with precision(bits):
        ball = arb(rational(height))
        return (1 - ball * ball).beta_lower(arb(fmpq(dimension - 1, 2)), arb(0.5), regularized=True) / 2


@dataclass(frozen=True)
class Cap:
    """The points of the unit sphere in ``dimension`` ≥ 2 whose height ⟨V, x⟩ is at least ``height``, from 0 to 1.

    With C = 1/B(½, (d−1)/2) the height t of a uniform point has the density C(1−t²)^((d−3)/2), and its elevation φ,
    t = sin φ, a density in proportion to cos^(d−2) φ.
    """

    dimension: int
    height: float

    def share(self) -> arb:
        """q: the probability of a uniform point in the cap, a ball at the working precision."""
        return _share(self.dimension, self.height, ctx.prec)

    def mean(self) -> arb:
        """E[t] in the cap: ∫ tC(1−t²)^((d−3)/2) = C(1−γ²)^((d−1)/2)/(d−1), over q."""
        return self._edge() / (self.dimension - 1) / self.share()

    def second_moment(self) -> arb:
        """E[t²] in the cap: (1−dt²)(1−t²)^((d−3)/2) is the derivative of t(1−t²)^((d−1)/2)."""
        return (1 + arb(rational(self.height)) * self._edge() / self.share()) / self.dimension

    def _edge(self) -> arb:
        """C(1−γ²)^((d−1)/2)."""
        d, height = self.dimension, arb(rational(self.height))
        log_constant = arb(fmpq(d, 2)).lgamma() - arb(fmpq(d - 1, 2)).lgamma()
        return log_constant.exp() / arb.pi().sqrt() * (1 - height * height) ** arb(fmpq(d - 1, 2))

    @cached_property
    def moments(self) -> tuple[float, float]:
        """E[t] and E[t²] in the cap, as floats."""
        with precision(MOMENT_BITS):
            return float(self.mean()), float(self.second_moment())

    # --- drawing ----------------------------------------------------------------------------------------------

    def elevations(self, source: RandomSource, count: int) -> Floats:
        """Independent elevations of uniform points of the cap.

        By rejection: a proposal is kept if an exponential number exceeds its cost, which is the log of the ratio of
        the densities. The density is that of the cap, but for the rounding of the cost.
        """
        result = np.empty(count)
        open_places = np.arange(count)
        while open_places.size:
            proposal, cost = self._propose(source, open_places.size)
            kept = exponentials(source, open_places.size) >= cost
            result[open_places[kept]] = proposal[kept]
            open_places = open_places[~kept]
        return result

    def _propose(self, source: RandomSource, count: int) -> tuple[Floats, Floats]:
        power, start = self.dimension - 2, self._start
        if self.dimension < FEW_DIMENSIONS:
            share: Floats = source.below(1 << 53, count).astype(np.float64) * 2.0**-53
            angle: Floats = start + (math.pi / 2 - start) * share
            cost = power * (math.log(math.cos(start)) - _log_cosine(angle))
        elif start * math.sqrt(power) < NEAR_THE_EQUATOR:
            angle = np.abs(normals(source, count, 1)[:, 0]) / math.sqrt(power)
            cost = -power * (_log_cosine(angle) + angle * angle / 2)
        else:
            slope = power * math.tan(start)
            beyond = exponentials(source, count) / slope
            angle = start + beyond
            cost = power * (math.log(math.cos(start)) - _log_cosine(angle)) - slope * beyond
        return angle, np.where((angle >= start) & (angle < math.pi / 2), cost, np.inf)

    @cached_property
    def _start(self) -> float:
        """The elevation at which the cap begins."""
        return math.asin(self.height)

    def points(self, source: RandomSource, poles: Floats, in_cap: np.ndarray) -> Floats:
        """Per row: a uniform point of the cap around its pole (a unit vector), or of the whole sphere.

        A point of a cap is drawn around the first axis and moved by the reflection that takes the axis to the pole.
        It is within 2^-38 of the real-number point. A point of the whole sphere does not depend on the pole at all.
        """
        points = self._directions(source, in_cap)
        caps = np.flatnonzero(in_cap)
        elevation = self.elevations(source, caps.size)
        side = np.where(poles[:, 0] < 0, -1.0, 1.0)
        length = np.ones(len(points))
        length[caps] = np.cos(elevation)
        points *= length[:, None]
        points[caps, 0] = -side[caps] * np.sin(elevation)
        first = points[:, 0].copy()
        shift = np.einsum("ij,ij->i", poles, points) + side * first
        shift *= np.where(in_cap, 1 / (1 + np.abs(poles[:, 0])), 0.0)
        points -= shift[:, None] * poles
        points[:, 0] -= shift * side
        return points

    def _directions(self, source: RandomSource, in_cap: np.ndarray) -> Floats:
        """Uniform unit vectors; where ``in_cap``, of all axes but the first.

        Numbers are drawn in pairs, and a vector that is short beside what was drawn with it is drawn again: its
        direction would be less precise. Whether it is short says nothing of its direction.
        """
        d = self.dimension
        drawn = normals(source, len(in_cap), d + d % 2)
        everything = np.einsum("ij,ij->i", drawn, drawn)
        used = everything - np.where(in_cap, drawn[:, 0] ** 2, 0.0)
        if d % 2:
            used -= drawn[:, -1] ** 2
        points = drawn[:, :d]
        points *= (1 / np.sqrt(np.maximum(used, everything * 2.0**-40)))[:, None]
        short = np.flatnonzero(used * WORST_SHARE**2 < everything)
        if short.size:
            points[short] = self._directions(source, in_cap[short])
        return points


def _log_cosine(angle: Floats) -> Floats:
    """log cos, with no complaint about angles beyond a right one."""
    return np.log(np.maximum(np.cos(angle), np.finfo(np.float64).tiny))
