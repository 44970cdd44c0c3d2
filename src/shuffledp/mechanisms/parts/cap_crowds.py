"""Caps of a sphere: every pair and every other user, from triples of caps that meet two by two and never all three.

S_x is the cap of height h ≥ 0 around x, q its share, o(θ) the share of two caps at an angle θ, k(β) = o(π − β). P, Q
and R are uniform, but p times likelier on S_0, S_1 and S; c = e^ε; all values of G in units of the uniform density.

One law of G. Let B, o_0, o_1, b be the shares of S_0∩S_1, S_0∩S, S_1∩S and of all three. Counting cell by cell,

    E Φ(G) = const − (B−b)·S(Φ) − b·T(Φ) − o_0·X(Φ) − o_1·Y(Φ)

times the uniform density, where S = Φ(p−c) + Φ(1−pc) − Φ(p−pc) − Φ(1−c) ≥ 0, T = the same of p·Φ(·/p), ≥ 0, and Y =
Ψ(1−c) − Ψ(1−pc) ≥ 0, X = Ψ(1−c) − Ψ(p−c) with Ψ(g) = pΦ(g/p) − Φ(g), which rises up to 0 and falls after it, Φ
convex. X may be of either sign. So b may be told as 0 if B is told as B − b. (For P, Q and R each with a height of
its own the signs are the same.)

Which shares there are. (a) k is convex: a cap that turns by dθ takes in points at its rim in proportion to their
speed s, and those of the other cap have s ≤ −h·tan(θ/2); (h, s) has the density (m/π)(1 − h² − s²)^(m−1), m =
(d−2)/2, so that k'(β) = (1 − h²/sin²(β/2))_+^m/2π, which rises. (b) Fix x and its angles θ_0, θ_1 to x_0 and x_1, and
turn x_1 about x away from x_0. At every height ⟨V, x⟩ the two other caps are caps of a smaller sphere whose centres
move apart, so that they share less: reflect one centre to the other, and each point that is lost is higher towards
the fixed one than that which is won for it. So B − b falls. At the end all are on a great circle. If θ_0 + θ_1 ≥ π, 0
is a mean of x, x_0 and x_1, no point is in all three caps, and B − b = o(2π − θ_0 − θ_1). Else B − b ≥ 0 = k(0). So B
− b ≥ k(β_2), o_0 ≥ k(β_0), o_1 ≥ k(β_1) for some β ≥ 0 with β_0 + β_1 + β_2 = π: a triple on a great circle is below
every other.

Few triples. Where a mean of some kinds has no more of B − b, o_0 and o_1 than a triple has, a mean of these and of
the kind S = S_0 (o_0 = q, the other two 0) has the same o_0, and no more of the others, so that it is above in convex
order whatever the sign of X. All β are in triangles. On a triangle each of the three k is above a tangent; the kinds
of its corners are what the tangents say there, for all triangles at a corner the least. (In β below 2·arcsin h k is
0.)

What is executed. With probability γ a message of one law ρ for all, else of C_x. They are computed in floats; K·ρ and
K·C_x, those of exact points V and rounding and noise K, are within factors e^±κ. So P − cQ ≤ γe^−κ(1−c)·Kρ +
(1−γ)·(e^κ·KC_0 − c·e^−κ·KC_1) and R ≥ e^−κ·KR', R' being exact. Without K, which tells less, this is the kind with
γe^−κρ + (1−γ)e^κC_0 for P, e^−κ·(γρ + (1−γ)C_1) for Q, and a part e^−κ of R', the rest revealed.
"""

from __future__ import annotations

import heapq
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
from flint import acb, arb, ctx, fmpq

from shuffledp.array import Floats
from shuffledp.numerics.ball import below, precision, rational, whole_below
from shuffledp.privacy.others import KnownOthers, Others
from shuffledp.privacy.pair import Classes, HidingPair, MessageClass
from shuffledp.sampling.cap import Cap

BITS = 96
SHARE_BITS = 80
TABLE = 4096
GUIDES = (0.05, 1.0)
"""Where the triangles must be fine: by E e^(tG) with these t(p−1)."""
NEAR = 2e-4
"""How much worse than every triple a kind may be, relatively, by these."""
MOST_TRIANGLES = 96
LEAST_ROOM, MOST_ERROR = 2.0**-40, 2.0**-18
"""Of the points in none of three caps, and of κ: beyond, any region counts."""

Corner = tuple[float, float, float]
"""Weights of the corners of all triples; β = lowest + width·weight. In order: the pair, the first, the second."""
Triangle = tuple[Corner, Corner, Corner]
Overlaps = tuple[Fraction, Fraction, Fraction]
"""What the two of user 1, the first and another, the second and another share of a cap."""

NONE, ALL = Fraction(0), Fraction(1)


@dataclass(frozen=True)
class CapOverlap:
    """k(β): the share of two caps whose centres are π − β apart."""

    cap: Cap

    @cached_property
    def lowest(self) -> float:
        """A little less than 2·arcsin h, up to which k is 0."""
        return 2 * math.asin(self.cap.height) * (1 - 2.0**-40)

    @cached_property
    def _start(self) -> float:
        return 2 * math.asin(self.cap.height) * (1 + 2.0**-30)

    def slope(self, angle: float) -> arb:
        """k'(β), or 0 where ``value`` is."""
        if angle <= self._start:
            return arb(0)
        inside = 1 - (arb(rational(self.cap.height)) / (arb(rational(angle)) / 2).sin()) ** 2
        return inside ** arb(fmpq(self.cap.dimension - 2, 2)) / (2 * arb.pi())

    def value(self, angle: float) -> arb:
        """k(β) without what is next to where it begins, so that it is not above k(β)."""
        if angle <= self._start:
            return arb(0)
        if (angle, ctx.prec) not in self._values:
            self._values[angle, ctx.prec] = self._integrated(angle)
        return self._values[angle, ctx.prec]

    @cached_property
    def _values(self) -> dict[tuple[float, int], arb]:
        """By angle and precision: neighbouring triangles have the same."""
        return {}

    def _integrated(self, angle: float) -> arb:
        square, power = arb(rational(self.cap.height)) ** 2, fmpq(self.cap.dimension - 2, 2)

        def rate(t: acb, analytic: bool) -> acb:
            inside = 1 - square / (t / 2).sin() ** 2
            return inside ** int(power) if power.q == 1 else inside.pow(acb(power), analytic=analytic)

        return acb.integral(rate, acb(self._start), acb(arb(rational(angle)))).real / (2 * arb.pi())

    # --- in floats, to plan by ----------------------------------------------------------------------------------

    @cached_property
    def table(self) -> tuple[Floats, Floats, Floats]:
        angles = np.linspace(self.lowest, math.pi, TABLE + 1)
        inside = np.maximum(0.0, 1 - (self.cap.height / np.sin(angles / 2)) ** 2)
        slopes = inside ** ((self.cap.dimension - 2) / 2) / (2 * math.pi)
        steps = np.diff(angles) * (slopes[1:] + slopes[:-1]) / 2
        return angles, np.concatenate([[0.0], np.cumsum(steps)]), slopes

    def about(self, angle: float) -> tuple[float, float]:
        """k and k'."""
        angles, values, slopes = self.table
        place = min(max((angle - angles[0]) / (angles[-1] - angles[0]) * TABLE, 0.0), float(TABLE))
        left = min(int(place), TABLE - 1)
        part, width = place - left, angles[1] - angles[0]
        slope = slopes[left] + part * (slopes[left + 1] - slopes[left])
        return float(values[left] + part * width * (slopes[left] + slope) / 2), float(slope)

    @cached_property
    def _tangents(self) -> dict[tuple[float, float], Tangent]:
        return {}

    def tangent(self, low: float, high: float) -> Tangent:
        """The tangent that stands for k from ``low`` to ``high``: in the middle, if it is not below 0 at ``low``."""
        if (low, high) not in self._tangents:
            self._tangents[low, high] = self._tangent(low, high)
        return self._tangents[low, high]

    def _tangent(self, low: float, high: float) -> Tangent:
        for part in (0.5, 0.35, 0.25, 0.125):
            place = low + (high - low) * part
            value, slope = self.about(place)
            if value - slope * (place - low) > 1e-9 * value:
                return Tangent(place, value, slope)
        return Tangent(low, *self.about(low))


class Tangent(NamedTuple):
    """Of k, in floats."""

    touch: float
    value: float
    slope: float

    def at(self, angle: float) -> float:
        return max(0.0, self.value + self.slope * (angle - self.touch))


@dataclass(frozen=True)
class CapCrowds:
    """Kinds that stand for all triples of caps, where a message is p = ``ratio`` times likelier in the own cap."""

    overlap: CapOverlap
    ratio: float

    @cached_property
    def width(self) -> float:
        """What β is free by; not above 0 if three caps may be disjoint, and any three regions are as bad as they."""
        return math.nextafter(math.pi - 3 * self.overlap.lowest, -math.inf) - 2.0**-50

    def _angle(self, weight: float) -> float:
        return self.overlap.lowest + self.width * weight

    @cached_property
    def triangles(self) -> list[Triangle]:
        """Half of all triples, the other half being their mirror images: finer where kinds are nearly the worst."""
        found: list[Triangle] = []
        waiting: list[tuple[float, int, Triangle]] = []
        whole: Triangle = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.5, 0.5))
        heapq.heappush(waiting, (-self._excess(whole), 0, whole))
        number = 1
        while waiting and len(found) + len(waiting) < MOST_TRIANGLES:
            excess, _, triangle = heapq.heappop(waiting)
            if -excess <= NEAR:
                found.append(triangle)
                continue
            for part in _halves(triangle, self._bend):
                heapq.heappush(waiting, (-self._excess(part), number, part))
                number += 1
        return found + [triangle for _, _, triangle in waiting]

    def _excess(self, triangle: Triangle) -> float:
        """By how much one of its kinds is worse than every triple, relatively, at the most."""
        lines = [self._line(triangle, place) for place in range(3)]
        return max(
            self.excess([line.at(self._angle(weight)) for line, weight in zip(lines, corner, strict=True)])
            for corner in triangle
        )

    def _bend(self, first: Corner, second: Corner) -> float:
        """How far a side is above the k of its middle, weighed by what they cost."""
        total = 0.0
        for u, v, cost in zip(first, second, self._guides[0][0][1:], strict=True):
            ends = self.overlap.about(self._angle(u))[0] + self.overlap.about(self._angle(v))[0]
            total += cost * (ends / 2 - self.overlap.about(self._angle((u + v) / 2))[0])
        return total

    def excess(self, shares: Sequence[float]) -> float:
        """The same of three shares; where they are too small to be those of a law, more."""
        room = 1 - 3 * self._share + sum(shares)
        if room < LEAST_ROOM:
            return 1.0 - room
        return max(
            (least - float(sum(map(operator.mul, shares, costs)))) / (own - least)
            for (own, *costs), least in self._guides
        )

    @cached_property
    def _share(self) -> float:
        return self.overlap.about(math.pi)[0]

    @cached_property
    def _guides(self) -> list[tuple[tuple[float, float, float, float], float]]:
        """For some Φ: q·(S + …), the costs S, X, Y of what caps share, and the least cost of a triple."""
        p, share = self.ratio, self._share
        result = []
        for tilt in GUIDES:
            t = tilt / (p - 1)
            up, down, near, far = (_excess_of_exponential(t * g) for g in (p - 1, 1 - p, 1 - 1 / p, 1 / p - 1))
            both, first, second = up + down, up - p * near, down - p * far
            for costs in ((both, first, second), (both, second, first)):
                result.append(((share * both, *costs), self._least(costs)))
        return result

    def _least(self, costs: tuple[float, float, float]) -> float:
        """Over triples, in floats: the cost is convex in β; by looking around ever nearer."""
        angles, values, _ = self.overlap.table
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

    def _line(self, triangle: Triangle, place: int) -> Tangent:
        """What stands for one of the three k on a triangle."""
        ends = [self._angle(corner[place]) for corner in triangle]
        return self.overlap.tangent(min(ends), max(ends))

    # --- certified ----------------------------------------------------------------------------------------------

    def kinds(self) -> list[Overlaps]:
        """What the kinds share, rounded down; with each its mirror image."""
        ends: list[Overlaps] = [(NONE, ALL, NONE), (NONE, NONE, ALL)]
        known: dict[Corner, list[Overlaps]] = {}
        with precision(BITS):
            for triangle in self.triangles:
                for corner, overlaps in zip(triangle, self._corners(triangle), strict=True):
                    self._add(known.setdefault(corner, []), overlaps)
        found = {overlaps for some in known.values() for overlaps in some}
        mirrored = {(pair, second, first) for pair, first, second in found}
        return ends + sorted(found | mirrored)

    def _add(self, known: list[Overlaps], overlaps: Overlaps) -> None:
        """One kind for several triangles, where it is not much worse."""
        for place, other in enumerate(known):
            pair, first, second = map(min, overlaps, other)
            if self.excess([self._share * float(each) for each in (pair, first, second)]) <= NEAR:
                known[place] = pair, first, second
                return
        known.append(overlaps)

    def _corners(self, triangle: Triangle) -> Iterator[Overlaps]:
        told = []
        for place in range(3):
            told.append(self._told(self._line(triangle, place).touch, min(corner[place] for corner in triangle)))
        for corner in triangle:
            pair, first, second = (line(weight) for line, weight in zip(told, corner, strict=True))
            yield pair, first, second

    def _told(self, touch: float, first: float) -> Callable[[float], Fraction]:
        """A tangent of k in parts of a cap, nowhere above k/q and never below 0 from the first weight on."""
        value, slope = self.overlap.value(touch), self.overlap.slope(touch)

        def line(weight: float) -> Fraction:
            angle = Fraction(self.overlap.lowest) + Fraction(self.width) * Fraction(weight)
            scaled = (value + slope * arb(rational(angle - Fraction(touch)))) / self._exact_share * 2**SHARE_BITS
            return Fraction(whole_below(scaled), 1 << SHARE_BITS)

        return line if line(first) >= 0 else lambda weight: NONE

    @cached_property
    def _exact_share(self) -> arb:
        return self.overlap.cap.share()


@dataclass(frozen=True)
class CapClasses:
    """Classes of points by the caps that they are in: user 1's two, and another user's, which never meet all three.

    Of a cap the three share ``overlaps``. Bounds: ``first`` from above, ``second`` and what hides from below.
    """

    cap: Cap
    uniform_share: Fraction
    error: float
    """κ: laws are known up to factors e^±κ."""
    overlaps: Overlaps

    def __call__(self) -> Classes:
        pair, first, second = self.overlaps
        share, uniform, loss = self.cap.share(), arb(rational(self.uniform_share)), arb(rational(self.error))
        less = (-loss).exp()
        low, own = uniform * less, (1 - uniform) / share
        high, most = low + own * less, low + own * loss.exp()
        parts = [
            (1 - pair - first, most, low, low), (first, most, low, high), (1 - pair - second, low, high, low),
            (second, low, high, high), (pair, most, high, low), (1 - first - second, low, low, high),
        ]  # fmt: skip
        cells = [(share * arb(rational(part)), *densities) for part, *densities in parts if part]
        cells.append((1 - share * arb(rational(3 - pair - first - second)), low, low, low))
        result = []
        for size, one, two, other in cells:
            sent = size * one
            result.append(MessageClass(sent, sent if two is one else size * two, size * other))
        return [*result, MessageClass(arb(0), arb(0), -(-loss).expm1())]

    def exchanged(self) -> CapClasses:
        """The two inputs of user 1 exchanged."""
        pair, first, second = self.overlaps
        return replace(self, overlaps=(pair, second, first))


def others_of_caps(cap: Cap, uniform_share: Fraction, error: float) -> Others | None:
    """Every two caps and every crowd of caps; none where any region does as well, or κ is
    large, or it is not sure that a kind is a law.
    """
    if error > MOST_ERROR:
        return None
    with precision(BITS):
        share = cap.share()
        odds = float((1 - rational(uniform_share)) / rational(uniform_share) / share)
        crowds = CapCrowds(CapOverlap(cap), 1 + odds)
        if crowds.width <= 0:
            return None
        kinds = crowds.kinds()
        if not all(1 - share * arb(rational(3 - sum(overlaps))) > LEAST_ROOM for overlaps in kinds):
            return None
    classes = [CapClasses(cap, uniform_share, error, overlaps) for overlaps in kinds]
    given = tuple(HidingPair(each, symmetric=False, back=each.exchanged()) for each in classes)
    return KnownOthers(below(uniform_share), symmetric=True, given=given)


def _halves(triangle: Triangle, bend: Callable[[Corner, Corner], float]) -> Iterator[Triangle]:
    """Cut through the middle of the side that is bent most."""
    sides = [(triangle[place - 1], triangle[place - 2], triangle[place]) for place in range(3)]
    first, second, third = max(sides, key=lambda side: bend(*side[:2]))
    pair, one, other = ((u + v) / 2 for u, v in zip(first, second, strict=True))
    middle = pair, one, other
    yield first, middle, third
    yield middle, second, third


def _excess_of_exponential(x: float) -> float:
    """e^x − 1 − x."""
    return math.expm1(x) - x
