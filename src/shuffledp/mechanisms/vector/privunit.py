"""PrivUnit, as published and optimized: means of vectors in the unit ball by points of a cap around the user's vector.

First come the worst datasets of caps, then the sampler ``CapReport``, which the mechanisms share.
"""

from __future__ import annotations

import heapq
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from flint import acb, arb, ctx, fmpq

from shuffledp._core import validation
from shuffledp._core.validation import Array, Floats, checked
from shuffledp.mechanisms.base.law import check_informative_epsilon
from shuffledp.mechanisms.base.mechanism import Mechanism, OutputTable
from shuffledp.mechanisms.base.two_level_law import TwoLevelLaw, TwoLevelResponse
from shuffledp.mechanisms.vector._unit_ball_parts import (
    LatticeEncoding,
    LatticeEstimator,
    UnitBall,
    draw_directions,
    draw_in_batches,
)
from shuffledp.numerics.ball_arithmetic import float_below, integer_below, precision, to_rational
from shuffledp.privacy.dominating_pairs import Classes, HidingPair, ListedOtherUsers, MessageClass, OtherUsers
from shuffledp.sampling import random_sources
from shuffledp.sampling.random_sources import RandomSource
from shuffledp.sampling.rounding_and_digits import NOISE_VARIANCE, ROUNDING_VARIANCE, round_with_noise
from shuffledp.sampling.spherical_caps_and_frames import Cap

# --- Worst datasets of spherical caps: triples of caps that meet two by two and never all three ---
#
# S_x is the cap of height h ≥ 0 around x, q its share of the sphere, o(θ) the share of the overlap of two caps at an
# angle θ, k(β) = o(π − β). P, Q and R are uniform, but p times likelier on S_0, S_1 and S; c = e^ε; all values of G are
# in units of the uniform density.
#
# One law of G. Let B, o_0, o_1, b be the shares of S_0∩S_1, S_0∩S, S_1∩S and of all three. Counting cell by cell,
#
# E Φ(G) = const − (B−b)·S(Φ) − b·T(Φ) − o_0·X(Φ) − o_1·Y(Φ)
#
# times the uniform density, where S = Φ(p−c) + Φ(1−pc) − Φ(p−pc) − Φ(1−c) ≥ 0, T = the same of p·Φ(·/p), ≥ 0, and Y =
# Ψ(1−c) − Ψ(1−pc) ≥ 0, X = Ψ(1−c) − Ψ(p−c) with Ψ(g) = pΦ(g/p) − Φ(g), which rises up to 0 and falls after it, Φ
# convex. X may have either sign. So b may be taken as 0 if B is taken as B − b. (For P, Q and R each with a height
# of its own the signs are the same.)
#
# Possible shares. (a) k is convex: a cap that turns by dθ gains points at its rim in proportion to their
# speed s, and those of the other cap have s ≤ −h·tan(θ/2); (h, s) has the density (m/π)(1 − h² − s²)^(m−1), m =
# (d−2)/2, so that k'(β) = (1 − h²/sin²(β/2))_+^m/2π, which rises. (b) Fix x and its angles θ_0, θ_1 to x_0 and x_1,
# and turn x_1 about x away from x_0. At every height ⟨V, x⟩ the two other caps are caps of a smaller sphere whose
# centres move apart, so their overlap shrinks: in a reflection of one centre to the other, each point that is lost is
# nearer to the fixed centre than the point gained for it. So B − b falls. At the end all are on a great circle. If
# θ_0 + θ_1 ≥ π, 0 is a mean of x, x_0 and x_1, no point is in all three caps, and B − b = o(2π − θ_0 − θ_1). Else
# B − b ≥ 0 = k(0). So B − b ≥ k(β_2), o_0 ≥ k(β_0), o_1 ≥ k(β_1) for some β ≥ 0 with β_0 + β_1 + β_2 = π: no overlap
# of a triple is smaller than that of some triple on a great circle.
#
# Few triples. If a mean of some kinds has no more of B − b, o_0 and o_1 than a triple has, a mean of these and of
# the kind S = S_0 (o_0 = q, the other two 0) has the same o_0, and no more of the others, so it is larger in convex
# order for either sign of X. Triangles cover all β. On a triangle each of the three k is above a tangent; the kinds of
# its corners are the values of the tangents there, the least over all triangles at a corner. (For β below 2·arcsin h,
# k is 0.)
#
# Executed law. With probability γ a message has one law ρ for all, else C_x. They are computed in floats; K·ρ and
# K·C_x, those of exact points V and rounding and noise K, are within factors e^±κ. So P − cQ ≤ γe^−κ(1−c)·Kρ +
# (1−γ)·(e^κ·KC_0 − c·e^−κ·KC_1) and R ≥ e^−κ·KR', R' being exact. Without K, which hides more, this is the kind with
# γe^−κρ + (1−γ)e^κC_0 for P, e^−κ·(γρ + (1−γ)C_1) for Q, and a part e^−κ of R', the rest revealed.


PRECISION_BITS = 96
DATASET_SHARE_BITS = 80
TABLE_SIZE = 4096
GUIDE_TILTS = (0.05, 1.0)
"""Values of t(p−1) for which E e^(tG) decides where the triangles must be fine."""
EXCESS_TOLERANCE = 2e-4
"""Largest relative increase of these over the worst triple."""
MAX_TRIANGLES = 96
MIN_FREE_SHARE, MAX_REALISATION_ERROR = 2.0**-40, 2.0**-18
"""Least share of points in none of three caps, and largest κ; beyond, any region counts."""

Corner = tuple[float, float, float]
"""Weights of the corners of all triples; β = lowest + width·weight. In order: the pair, the first, the second."""
Triangle = tuple[Corner, Corner, Corner]
Overlaps = tuple[Fraction, Fraction, Fraction]
"""Shares of a cap in the overlaps of user 1's two caps, of the first and another user's, the second and another's."""

NO_OVERLAP, FULL_OVERLAP = Fraction(0), Fraction(1)


@dataclass(frozen=True)
class CapOverlap:
    """k(β), the share of two caps whose centres are π − β apart."""

    cap: Cap

    @cached_property
    def lowest(self) -> float:
        """Slightly less than 2·arcsin h, up to which k is 0."""
        return 2 * math.asin(self.cap.height) * (1 - 2.0**-40)

    @cached_property
    def _start(self) -> float:
        return 2 * math.asin(self.cap.height) * (1 + 2.0**-30)

    def slope(self, angle: float) -> arb:
        """Returns k'(β), or 0 where ``value`` is."""
        if angle <= self._start:
            return arb(0)
        inside = 1 - (arb(to_rational(self.cap.height)) / (arb(to_rational(angle)) / 2).sin()) ** 2
        return inside ** arb(fmpq(self.cap.dimension - 2, 2)) / (2 * arb.pi())

    def value(self, angle: float) -> arb:
        """Returns a lower bound of k(β), without the part next to where it begins."""
        if angle <= self._start:
            return arb(0)
        if (angle, ctx.prec) not in self._values:
            self._values[angle, ctx.prec] = self._integrate(angle)
        return self._values[angle, ctx.prec]

    @cached_property
    def _values(self) -> dict[tuple[float, int], arb]:
        """Values by angle and precision, as neighbouring triangles have the same."""
        return {}

    def _integrate(self, angle: float) -> arb:
        square, power = arb(to_rational(self.cap.height)) ** 2, fmpq(self.cap.dimension - 2, 2)

        def rate(t: acb, analytic: bool) -> acb:
            inside = 1 - square / (t / 2).sin() ** 2
            return inside ** int(power) if power.q == 1 else inside.pow(acb(power), analytic=analytic)

        return acb.integral(rate, acb(self._start), acb(arb(to_rational(angle)))).real / (2 * arb.pi())

    # --- in floats, for planning ---

    @cached_property
    def float_table(self) -> tuple[Floats, Floats, Floats]:
        angles = np.linspace(self.lowest, math.pi, TABLE_SIZE + 1)
        inside = np.maximum(0.0, 1 - (self.cap.height / np.sin(angles / 2)) ** 2)
        slopes = inside ** ((self.cap.dimension - 2) / 2) / (2 * math.pi)
        steps = np.diff(angles) * (slopes[1:] + slopes[:-1]) / 2
        return angles, np.concatenate([[0.0], np.cumsum(steps)]), slopes

    def approximate(self, angle: float) -> tuple[float, float]:
        """Returns k and k' in floats."""
        angles, values, slopes = self.float_table
        place = min(max((angle - angles[0]) / (angles[-1] - angles[0]) * TABLE_SIZE, 0.0), float(TABLE_SIZE))
        left = min(int(place), TABLE_SIZE - 1)
        part, width = place - left, angles[1] - angles[0]
        slope = slopes[left] + part * (slopes[left + 1] - slopes[left])
        return float(values[left] + part * width * (slopes[left] + slope) / 2), float(slope)

    @cached_property
    def _tangents(self) -> dict[tuple[float, float], Tangent]:
        return {}

    def tangent(self, low: float, high: float) -> Tangent:
        """Returns the tangent for k from ``low`` to ``high``: in the middle, if it is not below 0 at ``low``."""
        if (low, high) not in self._tangents:
            self._tangents[low, high] = self._tangent(low, high)
        return self._tangents[low, high]

    def _tangent(self, low: float, high: float) -> Tangent:
        for part in (0.5, 0.35, 0.25, 0.125):
            place = low + (high - low) * part
            value, slope = self.approximate(place)
            if value - slope * (place - low) > 1e-9 * value:
                return Tangent(place, value, slope)
        return Tangent(low, *self.approximate(low))


class Tangent(NamedTuple):
    """A tangent of k, in floats."""

    touch_angle: float
    value: float
    slope: float

    def value_at(self, angle: float) -> float:
        return max(0.0, self.value + self.slope * (angle - self.touch_angle))


@dataclass(frozen=True)
class CapWorstDataset:
    """Kinds that stand for all triples of caps, where a message is p = ``ratio`` times likelier in the own cap."""

    overlap: CapOverlap
    ratio: float

    @cached_property
    def width(self) -> float:
        """The range of β; at most 0 if three caps may be disjoint: then they are the worst of all regions."""
        return math.nextafter(math.pi - 3 * self.overlap.lowest, -math.inf) - 2.0**-50

    def _angle(self, weight: float) -> float:
        return self.overlap.lowest + self.width * weight

    @cached_property
    def triangles(self) -> list[Triangle]:
        """Half of all triples, the other half being their mirror images; finer where kinds are nearly the worst."""
        finished: list[Triangle] = []
        waiting: list[tuple[float, int, Triangle]] = []
        whole: Triangle = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.5, 0.5))
        heapq.heappush(waiting, (-self._excess(whole), 0, whole))
        number = 1
        while waiting and len(finished) + len(waiting) < MAX_TRIANGLES:
            excess, _, triangle = heapq.heappop(waiting)
            if -excess <= EXCESS_TOLERANCE:
                finished.append(triangle)
                continue
            for part in _split_triangle(triangle, self._bend):
                heapq.heappush(waiting, (-self._excess(part), number, part))
                number += 1
        return finished + [triangle for _, _, triangle in waiting]

    def _excess(self, triangle: Triangle) -> float:
        """Returns by how much, relatively, the worst of its kinds is worse than every triple."""
        lines = [self._find_tangent(triangle, place) for place in range(3)]
        return max(
            self.excess([line.value_at(self._angle(weight)) for line, weight in zip(lines, corner, strict=True)])
            for corner in triangle
        )

    def _bend(self, first: Corner, second: Corner) -> float:
        """Returns how far a side is above the k of its middle, weighted by costs."""
        total = 0.0
        for u, v, cost in zip(first, second, self._guides[0][0][1:], strict=True):
            ends = self.overlap.approximate(self._angle(u))[0] + self.overlap.approximate(self._angle(v))[0]
            total += cost * (ends / 2 - self.overlap.approximate(self._angle((u + v) / 2))[0])
        return total

    def excess(self, shares: Sequence[float]) -> float:
        """Returns the relative excess for three shares; more if they are too small to be those of a law."""
        room = 1 - 3 * self._share + sum(shares)
        if room < MIN_FREE_SHARE:
            return 1.0 - room
        return max(
            (least - float(sum(map(operator.mul, shares, costs)))) / (own - least)
            for (own, *costs), least in self._guides
        )

    @cached_property
    def _share(self) -> float:
        return self.overlap.approximate(math.pi)[0]

    @cached_property
    def _guides(self) -> list[tuple[tuple[float, float, float, float], float]]:
        """For some Φ: q·(S + …), the costs S, X, Y of the caps' overlaps, and the least cost of a triple."""
        p, share = self.ratio, self._share
        result = []
        for tilt in GUIDE_TILTS:
            t = tilt / (p - 1)
            up, down, near, far = (_excess_of_exponential(t * g) for g in (p - 1, 1 - p, 1 - 1 / p, 1 / p - 1))
            both, first, second = up + down, up - p * near, down - p * far
            for costs in ((both, first, second), (both, second, first)):
                result.append(((share * both, *costs), self._min_cost(costs)))
        return result

    def _min_cost(self, costs: tuple[float, float, float]) -> float:
        """Returns the minimum over triples in floats, by ever finer grids: the cost is convex in β."""
        angles, values, _ = self.overlap.float_table
        low, width = self.overlap.lowest, self.width
        middle, size, best = np.array([0.0, 0.5]), 1.0, math.inf
        for _ in range(12):
            pair, first = (np.clip(m + size * np.linspace(-1, 1, 21), 0.0, 1.0) for m in middle)
            grid = np.stack(np.meshgrid(pair, first, indexing="ij"), axis=-1).reshape(-1, 2)
            grid = grid[grid.sum(axis=1) <= 1.0]
            weights = np.column_stack([grid, 1 - grid.sum(axis=1)])
            cost = np.interp(low + width * weights, angles, values) @ np.array(costs)
            place = int(np.argmin(cost))
            best, middle, size = float(cost[place]), grid[place], size / 3
        return best

    def _find_tangent(self, triangle: Triangle, place: int) -> Tangent:
        """Returns the tangent that stands for one of the three k on a triangle."""
        ends = [self._angle(corner[place]) for corner in triangle]
        return self.overlap.tangent(min(ends), max(ends))

    # --- certified ---

    def kinds(self) -> list[Overlaps]:
        """Returns the overlaps of the kinds, rounded down, each with its mirror image."""
        ends: list[Overlaps] = [(NO_OVERLAP, FULL_OVERLAP, NO_OVERLAP), (NO_OVERLAP, NO_OVERLAP, FULL_OVERLAP)]
        known: dict[Corner, list[Overlaps]] = {}
        with precision(PRECISION_BITS):
            for triangle in self.triangles:
                for corner, overlaps in zip(triangle, self._corner_overlaps(triangle), strict=True):
                    self._merge_kind(known.setdefault(corner, []), overlaps)
        kinds = {overlaps for some in known.values() for overlaps in some}
        mirrored = {(pair, second, first) for pair, first, second in kinds}
        return ends + sorted(kinds | mirrored)

    def _merge_kind(self, known: list[Overlaps], overlaps: Overlaps) -> None:
        """Adds a kind, merged with one of another triangle if that is not much worse."""
        for place, other in enumerate(known):
            pair, first, second = map(min, overlaps, other)
            if self.excess([self._share * float(each) for each in (pair, first, second)]) <= EXCESS_TOLERANCE:
                known[place] = pair, first, second
                return
        known.append(overlaps)

    def _corner_overlaps(self, triangle: Triangle) -> Iterator[Overlaps]:
        """Yields the overlaps of the kinds at the corners of a triangle."""
        lines = [
            self._certified_tangent(self._find_tangent(triangle, place).touch_angle, min(weights))
            for place, weights in enumerate(zip(*triangle, strict=True))
        ]
        for corner in triangle:
            pair, first, second = (line(weight) for line, weight in zip(lines, corner, strict=True))
            yield pair, first, second

    def _certified_tangent(self, touch: float, first: float) -> Callable[[float], Fraction]:
        """Returns a tangent of k in parts of a cap, nowhere above k/q and never below 0 from the first weight on."""
        value, slope = self.overlap.value(touch), self.overlap.slope(touch)

        def line(weight: float) -> Fraction:
            angle = Fraction(self.overlap.lowest) + Fraction(self.width) * Fraction(weight)
            scaled = (
                (value + slope * arb(to_rational(angle - Fraction(touch)))) / self._exact_share * 2**DATASET_SHARE_BITS
            )
            return Fraction(integer_below(scaled), 1 << DATASET_SHARE_BITS)

        return line if line(first) >= 0 else lambda weight: NO_OVERLAP

    @cached_property
    def _exact_share(self) -> arb:
        return self.overlap.cap.share()


@dataclass(frozen=True)
class CapClasses:
    """Classes of points by the caps that contain them: user 1's two and another user's, which never all meet.

    ``overlaps`` are the parts of a cap that two of them share. ``first`` is bounded from above, ``second`` and the
    hiding law from below.
    """

    cap: Cap
    uniform_share: Fraction
    error: float
    """κ: laws are known up to factors e^±κ."""
    overlaps: Overlaps

    def __call__(self) -> Classes:
        pair, first, second = self.overlaps
        share, uniform, loss = self.cap.share(), arb(to_rational(self.uniform_share)), arb(to_rational(self.error))
        less = (-loss).exp()
        low, own = uniform * less, (1 - uniform) / share
        high, most = low + own * less, low + own * loss.exp()
        parts = [
            (1 - pair - first, most, low, low), (first, most, low, high), (1 - pair - second, low, high, low),
            (second, low, high, high), (pair, most, high, low), (1 - first - second, low, low, high),
        ]  # fmt: skip
        cells = [(share * arb(to_rational(part)), *densities) for part, *densities in parts if part]
        cells.append((1 - share * arb(to_rational(3 - pair - first - second)), low, low, low))
        result = []
        for size, one, two, other in cells:
            sent = size * one
            result.append(MessageClass(sent, sent if two is one else size * two, size * other))
        return [*result, MessageClass(arb(0), arb(0), -(-loss).expm1())]

    def swapped(self) -> CapClasses:
        """Returns the classes with the two inputs of user 1 exchanged."""
        pair, first, second = self.overlaps
        return replace(self, overlaps=(pair, second, first))


def build_cap_other_users(cap: Cap, uniform_share: Fraction, error: float) -> OtherUsers | None:
    """Returns every two caps and every dataset of caps.

    None if arbitrary regions are no worse, κ is too large, or a kind is not certainly a law.
    """
    if error > MAX_REALISATION_ERROR:
        return None
    with precision(PRECISION_BITS):
        share = cap.share()
        odds = float((1 - to_rational(uniform_share)) / to_rational(uniform_share) / share)
        worst_dataset = CapWorstDataset(CapOverlap(cap), 1 + odds)
        if worst_dataset.width <= 0:
            return None
        kinds = worst_dataset.kinds()
        if not all(1 - share * arb(to_rational(3 - sum(overlaps))) > MIN_FREE_SHARE for overlaps in kinds):
            return None
    classes = [CapClasses(cap, uniform_share, error, overlaps) for overlaps in kinds]
    pairs = tuple(HidingPair(each, symmetric=False, reverse_classes=each.swapped()) for each in classes)
    return ListedOtherUsers(float_below(uniform_share), symmetric=True, listed_pairs=pairs)


def _split_triangle(triangle: Triangle, bend: Callable[[Corner, Corner], float]) -> Iterator[Triangle]:
    """Yields the two halves, cut through the middle of the side that is bent most."""
    sides = [(triangle[place - 1], triangle[place - 2], triangle[place]) for place in range(3)]
    first, second, third = max(sides, key=lambda side: bend(*side[:2]))
    pair, one, other = ((u + v) / 2 for u, v in zip(first, second, strict=True))
    middle = pair, one, other
    yield first, middle, third
    yield middle, second, third


def _excess_of_exponential(x: float) -> float:
    """Returns e^x − 1 − x."""
    return math.expm1(x) - x


# --- Points of a spherical cap around the user's vector, hidden among points of the whole sphere ---


LOG2_STEPS_PER_COORDINATE = 8
"""Steps in the usual size 1/√d of a coordinate, as a power of two: noise then adds at most 6.5e-5 to |V|² = 1."""
MAX_POINT_ERROR = 2.0**-38
"""Distance between the computed point and the real one; float arithmetic keeps 2^-48, its analysis 2^-39."""
MAX_LOG_DENSITY_ERROR = 2.0**-30
"""Logarithm of the factor by which float rejection may change a density; it changes it by less than 2^-35."""
CAP_SHARE_BITS = 256
MAX_EXPONENT = 80.0
"""Largest ε for which the cap is chosen: caps smaller than its 2^-115 of a sphere add no information."""
MAX_DIMENSION = 1 << 20
"""Largest dimension for which the proof holds."""
NOISE_MARGIN_STEPS = 1 << 8
"""Coordinates are truncated this many steps beyond the sphere; noise goes so far with probability below 2^-256."""

NO_ATTACK_REASON = (
    "its points are computed in floats and noised, so the probability of a cap is known only approximately."
)


@dataclass(frozen=True)
class CapReport:
    """With probability γ a uniform point V of the sphere, else a uniform point of the cap ⟨V, x⟩ ≥ height.

    This is PrivUnit(p, height) with p = γq + 1 − γ, q the cap's share of the sphere. Reals cannot be sent, so V is
    divided by ``step``, rounded to a whole number with the right mean, and given two-sided geometric noise of a few
    steps, coordinate by coordinate. Coins, rounding and noise are exact. The point itself is computed in float
    arithmetic, which moves it by at most 2^-38; the noise bounds the effect: no message's probability changes by more
    than a factor e^κ, κ = √d·2^-38/step + …, about 1e-6 at d = 1024. A cap's law is then at most e^2κ/q times the law
    of a message of a uniform point, and q·e^−2κ, certified, is the ``share`` s of a response set: γ follows from it as
    in ``TwoLevelResponse``, and with it the guarantee. The only assumption is the accuracy of log, cos and √ in float
    arithmetic; a thousandth of it would suffice.

    Theorem: R(x) = γρ + (1−γ)·C_x with C_x ≤ ρ/s is dominated by two disjoint response sets of share s: for densities
    between γ and γ + (1−γ)/s with mean 1, E φ(f − e^ε·g) is largest, φ convex, where both take only the two ends, in
    opposite order.
    Requires: d from 2 to 2^20.
    """

    error_prefix: str
    dimension: int
    height: float
    """Height at which the cap begins."""

    @cached_property
    def cap(self) -> Cap:
        return Cap(self.dimension, self.height)

    @cached_property
    def _step_bits(self) -> int:
        return LOG2_STEPS_PER_COORDINATE + math.ceil(math.log2(self.dimension) / 2)

    @property
    def step(self) -> float:
        """The size of one step."""
        return 2.0**-self._step_bits

    @cached_property
    def realisation_error(self) -> float:
        """κ: the distance in steps, summed over the coordinates; the rounding before the noise; the rejection."""
        distance = math.sqrt(self.dimension) * MAX_POINT_ERROR / self.step
        rounding = self.dimension * 2.0 ** (self._step_bits + 1 - 52)
        return (distance + rounding) * (1 + 2.0**-40) + MAX_LOG_DENSITY_ERROR

    @cached_property
    def share(self) -> Fraction:
        """s: a cap's law is at most 1/s times the uniform one."""
        loss = to_rational(-2 * self.realisation_error)
        return random_sources.round_down_to_multiple(lambda: self.cap.share() * arb(loss).exp(), CAP_SHARE_BITS)

    @cached_property
    def encoding(self) -> LatticeEncoding:
        return LatticeEncoding(
            self.error_prefix,
            self.dimension,
            2 if self._step_bits <= 14 else 4,
            (1 << self._step_bits) + NOISE_MARGIN_STEPS,
        )

    def build_law(self, region: TwoLevelResponse) -> CapLaw:
        """Returns the law with the γ of the region."""
        return CapLaw(region, region.share, covers_mixtures=True, missing_attack_reason=NO_ATTACK_REASON, report=self)

    def build_estimator(self, region: TwoLevelResponse) -> LatticeEstimator:
        """Returns the estimator with the γ of the region."""
        d, caps = self.dimension, float(1 - region.uniform_share)
        along = (1 - caps) / d + caps * self.cap.moments[1]
        across = (1 - along) / (d - 1)
        scale = 1 / (float(1 - region.uniform_share) * self.cap.moments[0])
        noise = (NOISE_VARIANCE + ROUNDING_VARIANCE) * self.step**2
        return LatticeEstimator(
            d,
            self.step,
            scale,
            across + noise,
            along - across,
            third_moment_coefficients(self.cap),
            self.encoding.largest,
        )

    def randomize(self, uniform_share: Fraction, values: Floats, source: RandomSource) -> Array:
        """Returns the messages of checked vectors."""
        return draw_in_batches(values, self.encoding.coordinate_bytes, partial(self._draw, uniform_share, source))

    def _draw(self, uniform_share: Fraction, source: RandomSource, values: Floats) -> Array:
        poles = draw_directions(values, source)
        in_cap = ~source.coins(uniform_share, len(values))
        points = self.cap.points(source, poles, in_cap)
        points *= 1 / self.step
        largest = self.encoding.largest
        return np.clip(round_with_noise(points, source, self._step_bits + 1), -largest, largest)


@dataclass(frozen=True)
class CapLaw(TwoLevelLaw):
    """The law of caps: two disjoint ones are the worst pair, and caps of three users overlap as caps can.

    There is no attack: the noise slightly hides which caps contain a message, by an amount that is not certified.
    """

    report: CapReport = field(kw_only=True)

    def other_users(self) -> Sequence[OtherUsers]:
        """Returns triples of caps on a great circle, or any regions if float arithmetic blurs the caps."""
        return super().other_users() if self._cap_other_users is None else [self._cap_other_users]

    @cached_property
    def _cap_other_users(self) -> OtherUsers | None:
        return build_cap_other_users(self.report.cap, self.response.uniform_share, self.report.realisation_error)


def third_moment_coefficients(cap: Cap) -> tuple[float, float]:
    """Returns p and q of E[V_j³] = m·(p·x_j + q·x_j³), m the mean of V along x.

    V is t along x and √(1 − t²) in a uniform direction across: E[V_j³] = x³·E[t³] + 3x(1 − x²)·E[t(1 − t²)]/(d − 1). In
    the cap that begins at h, E[t(1 − t²)] = E[t]·(1 − h²)(d − 1)/(d + 1). Points of the whole sphere add nothing.
    """
    d, rest = cap.dimension, 1 - cap.height**2
    first = 3 * rest / (d + 1)
    return first, 1 - rest * (d - 1) / (d + 1) - first


EPSILON_SPLITS = 64
"""Number of splits of ε between the coin and the cap that are compared."""


@dataclass(frozen=True)
class PrivUnit(Mechanism):
    """Reports a point of the sphere, often from a cap around the user's vector that the published condition chooses.

    ε = ε0 + ε1: the cap is chosen with probability p = e^ε0/(1+e^ε0), and begins at the largest height that a closed
    form grants to ε1: h ≤ tanh(ε1/2)·√(π/(2(d−1))), or h ≥ √(2/d) with ½·log d + log 6 − (d−1)/2·log(1−h²) + log h ≤
    ε1. Of 64 splits, the one with the smallest error is used. The closed form is conservative, so the executed law
    stays below ε: its own parameters are amplified.

    Theorem: [LC] Appendix C, PrivUnit(p, h), conditions of Bhowmick et al. 2018; error 1/m²−1.
    Deviates: the conditions only choose; the guarantee is that of the certified share of the cap. A message is a
    vector of whole numbers with noise of a few steps; see ``CapReport``.

    Args:
        epsilon: Local ε of every message, float error included.
        dimension: Number of coordinates d; a vector's length is at most 1.

    Raises:
        ValueError: If a parameter is out of range.

    >>> import shuffledp as sdp
    >>> vectors = [[1.0] + [0.0] * 15] * 100
    >>> published = sdp.PrivUnit(epsilon=4.0, dimension=16).variance(vectors).sum()
    >>> best = sdp.PrivUnitOptimized(epsilon=4.0, dimension=16).variance(vectors).sum()
    >>> f"{published:.3f}", f"{best:.3f}"
    ('0.088', '0.063')
    """

    epsilon: float = field(metadata=checked(check_informative_epsilon))
    dimension: int = field(metadata=checked(validation.count, at_least=2, at_most=MAX_DIMENSION))

    name = "privunit"
    task = "vector mean"
    summary = (
        "mean of vectors in the unit ball: a point of the sphere near the vector, as published; ε covers float error"
    )
    use_case = "To compare with the paper; privunit-optimized chooses its settings for the least error."
    aliases = ("priv-unit",)
    has_table = False

    @cached_property
    def _best_split(self) -> tuple[float, float]:
        """The height, and the ε0 of the coin."""
        budget = min(self.epsilon, MAX_EXPONENT)
        splits = [budget * (k + 0.5) / EPSILON_SPLITS for k in range(EPSILON_SPLITS)]
        choices = [(_granted_height(self.dimension, budget - coin), coin) for coin in splits]
        return max(choices, key=self._log_signal)

    def _log_signal(self, choice: tuple[float, float]) -> float:
        """Returns log m, up to a constant."""
        from scipy.special import betainc

        height, coin = choice
        rest = 1 - height * height
        share = float(betainc((self.dimension - 1) / 2, 0.5, rest)) / 2
        p = 1 / (1 + math.exp(-coin))
        return (self.dimension - 1) / 2 * math.log(rest) + math.log(p / share - (1 - p) / (1 - share))

    @property
    def height(self) -> float:
        """The height of the cap: its smallest inner product with the user's direction."""
        return self._best_split[0]

    @cached_property
    def response(self) -> TwoLevelResponse:
        """The region with γ = (1−p)/(1−q) of the published p, but never below the γ that ε requires."""
        coin, sufficient = self._best_split[1], TwoLevelResponse("PrivUnit", self.epsilon, self.report.share)
        published = random_sources.round_up_to_multiple(
            lambda: 1 / ((1 + arb(coin).exp()) * (1 - self.report.cap.share()))
        )
        return replace(sufficient, exact_uniform_share=max(published, sufficient.uniform_share))

    @cached_property
    def report(self) -> CapReport:
        """The cap, and the sampler of its points."""
        return CapReport("PrivUnit", self.dimension, self.height)

    @cached_property
    def domain(self) -> UnitBall:
        return UnitBall("PrivUnit", self.dimension)

    @cached_property
    def law(self) -> CapLaw:
        return self.report.build_law(self.response)

    @cached_property
    def encoding(self) -> LatticeEncoding:
        return self.report.encoding

    @cached_property
    def estimator(self) -> LatticeEstimator:
        return self.report.build_estimator(self.response)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        """Returns one point per user, a row of whole numbers in steps."""
        return self.report.randomize(self.response.uniform_share, values, source)

    def table(self) -> OutputTable:
        raise ValueError("PrivUnit: points of a sphere cannot be written down as a table.")

    @classmethod
    def examples(cls) -> Sequence[PrivUnit]:
        return [cls(epsilon=1.0, dimension=3), cls(epsilon=3.0, dimension=2), cls(epsilon=8.0, dimension=100)]


def _granted_height(dimension: int, budget: float) -> float:
    """Returns the largest height that either closed form grants."""
    d = dimension
    first = min(math.tanh(budget / 2) * math.sqrt(math.pi / (2 * (d - 1))), 1 - 2.0**-20)
    low, high = math.sqrt(2 / d), 1 - 2.0**-20

    def is_granted(height: float) -> bool:
        return (math.log(d) - (d - 1) * math.log1p(-height * height)) / 2 + math.log(6 * height) <= budget

    if low >= high or not is_granted(low):
        return first
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if is_granted(middle) else (low, middle)
    return max(first, low)


# --- PrivUnit with the cap of the smallest error ---


HALVINGS = 60


@dataclass(frozen=True)
class PrivUnitOptimized(Mechanism):
    """Reports a point of the sphere, often from the cap around the user's vector that minimizes the error.

    The error 1/m²−1 is least where m = f·(e^ε−1)/(1+q(e^ε−1)) is largest, f = C(1−h²)^((d−1)/2)/(d−1) for a cap from
    height h on: at (d−1)h/(1−h²) = C(1−h²)^((d−3)/2)·(e^ε−1)/(1+q(e^ε−1)), C = 1/B(½, (d−1)/2).

    Theorem: [LC] Appendix C, PrivUnitOptimized: p(1−q)/(q(1−p)) = e^ε with the exact q; error 1/m²−1.
    Deviates: a message is a vector of whole numbers with noise of a few steps; see ``CapReport``.

    Args:
        epsilon: Local ε of every message, float error included.
        dimension: Number of coordinates d; a vector's length is at most 1.

    Raises:
        ValueError: If a parameter is out of range.

    >>> import numpy as np, shuffledp as sdp
    >>> mechanism = sdp.PrivUnitOptimized(epsilon=4.0, dimension=16)
    >>> f"{mechanism.height:.3f}"
    '0.371'
    >>> vectors = np.eye(16)[np.zeros(5000, dtype=int)]
    >>> found = mechanism.estimate(mechanism.encode(vectors, rng=np.random.default_rng(1)))
    >>> int(found.value.argmax()), f"{found.value[0]:.1f}"
    (0, '1.0')
    """

    epsilon: float = field(metadata=checked(check_informative_epsilon))
    dimension: int = field(metadata=checked(validation.count, at_least=2, at_most=MAX_DIMENSION))

    name = "privunit-optimized"
    task = "vector mean"
    summary = (
        "mean of vectors in the unit ball: a point of the sphere near the vector, least error; ε covers float error"
    )
    use_case = "For vectors in the unit ball with a local ε: the first to try."
    aliases = ("privunit-opt",)
    has_table = False

    @cached_property
    def height(self) -> float:
        """The height of the cap: its smallest inner product with the user's direction."""
        return best_height(self.dimension, self.epsilon)

    @cached_property
    def response(self) -> TwoLevelResponse:
        """The cap, less the loss by float arithmetic."""
        return TwoLevelResponse("PrivUnitOptimized", self.epsilon, self.report.share)

    @cached_property
    def report(self) -> CapReport:
        """The cap, and the sampler of its points."""
        return CapReport("PrivUnitOptimized", self.dimension, self.height)

    @cached_property
    def domain(self) -> UnitBall:
        return UnitBall("PrivUnitOptimized", self.dimension)

    @cached_property
    def law(self) -> CapLaw:
        return self.report.build_law(self.response)

    @cached_property
    def encoding(self) -> LatticeEncoding:
        return self.report.encoding

    @cached_property
    def estimator(self) -> LatticeEstimator:
        return self.report.build_estimator(self.response)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        """Returns one point per user, a row of whole numbers in steps."""
        return self.report.randomize(self.response.uniform_share, values, source)

    def table(self) -> OutputTable:
        raise ValueError("PrivUnitOptimized: points of a sphere cannot be written down as a table.")

    @classmethod
    def examples(cls) -> Sequence[PrivUnitOptimized]:
        return [cls(epsilon=1.0, dimension=2), cls(epsilon=4.0, dimension=5), cls(epsilon=0.5, dimension=64)]


def best_height(dimension: int, epsilon: float) -> float:
    """Returns the height of the cap of the smallest error, by bisection; any height keeps the guarantee."""
    from scipy.special import betainc, gammaln

    d, excess = dimension, math.expm1(min(epsilon, MAX_EXPONENT))
    log_constant = float(gammaln(d / 2) - gammaln((d - 1) / 2)) - math.log(math.pi) / 2

    def falls(height: float) -> bool:
        rest = 1 - height * height
        share = float(betainc((d - 1) / 2, 0.5, rest)) / 2
        gain = math.exp(log_constant + (d - 1) / 2 * math.log(rest)) * excess / (1 + share * excess)
        return (d - 1) * height > gain

    low, high = 0.0, 1.0 - 2.0**-40
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if falls(middle) else (middle, high)
    return low
