"""The privacy-loss distribution of a curve on a grid: a pair that is worse than the curve, and one that is better.

Theorem: connect the dots [Doroshenko et al. 2022]: F(x) = D_x(P‖Q) is convex in x = e^ε, so the chords between its
values on a grid are the divergence of a pair that dominates (P, Q). Two pairs with F ≤ F' pointwise keep that order
when each is composed with the same pair, because D_x of a product is a positive mixture of F over its arguments; by
exchanging one factor after the other, composed chords are an upper bound, and composed functions below F a lower one.

A curve δ(ε), ε ≥ 0, that bounds both directions of every neighbouring pair is extended by symmetry,
F(x) = 1 − x + x·δ(−log x) for x < 1. This is convex where it matters: if f and g are the two directions of one pair,
f(1) = g(1) = t and convexity of f across 1 says f'(1+) + g'(1+) ≥ −(1−t), so the larger of the two slopes, that of
the maximum, is at least −(1−t)/2, which is what convexity of the symmetric extension at 1 asks for. Since replacing a
record is a symmetric relation, a dominating pair must dominate both directions: nothing is lost by the symmetry.

A pointwise minimum of several bounds need not be convex. The true F is convex and below each of them, hence below
the largest convex function under the minimum: the hull is a valid bound, and the smallest that the values allow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np

from shuffledp.array import Floats, Integers
from shuffledp.numerics.hull import Kinked, kinked
from shuffledp.privacy.curve import LARGEST_EPSILON, PrivacyCurve

STEP_BITS = 10
"""Significant bits of a grid step: products with whole numbers below 2^43 are then exact."""
SURVEY_RATIO = 1.6
FIRST_SURVEY, STEEP, LEAST_EPSILON = 0.05, 0.8, 1e-14
ROUGH = 0.01
"""A chord that is above the curve by more than this share is split, where that matters."""
FLAT = 1.0001
WIDENING = 0.12
HARDLY_ANYTHING = 1e-200
"""Below this δ points may lie far apart: floats end at 1e-308."""
MOST_POINTS = 3_000


def round_step(step: float) -> float:
    """A step of few significant bits, not above the given one."""
    mantissa, exponent = math.frexp(step)
    return math.ldexp(math.floor(math.ldexp(mantissa, STEP_BITS)), exponent - STEP_BITS)


class LossSurvey:
    """A first look at a curve: how far it reaches and how wide its loss is."""

    def __init__(self, curve: PrivacyCurve, budget: float) -> None:
        self.at_zero, self.floor = curve.profile([0.0, LARGEST_EPSILON]).upper.tolist()
        scale = max(self.at_zero, 1e-12) * math.sqrt(2 * math.pi)
        count = math.ceil(math.log(LARGEST_EPSILON / (FIRST_SURVEY * scale)) / math.log(SURVEY_RATIO))
        points = np.minimum(LARGEST_EPSILON, FIRST_SURVEY * scale * SURVEY_RATIO ** np.arange(max(1, count) + 1))
        self.values = [self.at_zero]
        self.epsilons = [0.0]
        for start in range(0, len(points), 8):
            block = points[start : start + 8]
            self.epsilons += block.tolist()
            self.values += curve.profile(block).upper.tolist()
            if self.values[-1] <= max(budget, self.floor * FLAT):
                break
        # A loose bound may fall from 1 to almost nothing before the first point.
        while self.values[1] < STEEP * self.at_zero and self.epsilons[1] > LEAST_EPSILON:
            block = self.epsilons[1] * SURVEY_RATIO ** np.arange(-8.0, 0.0)
            self.epsilons[1:1] = block.tolist()
            self.values[1:1] = curve.profile(block).upper.tolist()

    @cached_property
    def variance(self) -> float:
        """About the variance of the loss: 4∫δ dε, exact in the limit of small losses."""
        epsilons, values = np.array(self.epsilons), np.array(self.values)
        bounded = np.maximum(0.0, values - self.floor)
        return max(4 * float(np.sum(np.diff(epsilons) * np.sqrt(bounded[1:] * bounded[:-1]))), 1e-30)


class LossGrid:
    """A curve on the grid of multiples of ``step``: values are computed once, and more where more is asked."""

    def __init__(self, curve: PrivacyCurve, step: float, floor: float) -> None:
        self.curve, self.step, self.floor = curve, step, floor
        self.known: dict[int, tuple[float, float]] = {}
        self.last = math.floor(LARGEST_EPSILON / step)

    def pairs(
        self,
        fine: float,
        budget: float,
        negligible: Callable[[Floats], Floats],
        *,
        rough: float = ROUGH,
        stride: int = 1,
    ) -> tuple[Kinked, Kinked]:
        """A dominating pair and a dominated one.

        Every ``stride``-th grid point up to ``fine`` is used, fewer beyond; what is left at infinity is at most about
        ``budget`` above what the curve itself has there; chords may be off by ``negligible`` of ε, or by the share
        ``rough``.
        """
        indices = self.spread(fine, max(budget, self.floor * FLAT), stride)
        while True:
            self.look_at(indices)
            upper, lower = self._values(indices)
            gaps = _gaps(self.step, indices, upper, lower)
            cells = np.diff(indices)
            unimportant = negligible(self.step * indices[1:].astype(np.float64))
            split = (gaps > np.maximum(unimportant, rough * upper[1:])) & (cells > 1) & (upper[:-1] > HARDLY_ANYTHING)
            if not split.any() or len(indices) > MOST_POINTS:
                break
            indices = np.union1d(indices, (indices[:-1] + cells // 2)[split])
        below = _below(lower, gaps)
        return kinked(self.step, indices, upper, upper=True), kinked(self.step, indices, below, upper=False)

    def spread(self, fine: float, enough: float, stride: int) -> Integers:
        """Evenly up to ``fine``, then wider and wider until the curve is at most ``enough``."""
        chosen = list(range(0, max(2 * stride, min(self.last, math.ceil(fine / self.step))) + 1, stride))
        probes = chosen[8::8] + chosen[-1:]
        width = stride
        while True:
            self.look_at(np.array(probes))
            reached = [place for place in probes if self.known[place][0] <= enough]
            if reached or chosen[-1] >= self.last:
                break
            hardly = self.known[chosen[-1]][0] < HARDLY_ANYTHING
            widening, block = (2.0, 4) if hardly else (1 + WIDENING, 16)
            probes = []
            while len(probes) < block and chosen[-1] < self.last:
                width = max(width + 1, math.ceil(width * widening))
                chosen.append(min(self.last, chosen[-1] + width))
                probes.append(chosen[-1])
        end = min(reached, default=chosen[-1])
        return np.array([place for place in chosen if place <= end])

    def look_at(self, indices: Integers) -> None:
        """Compute what is not known yet at these grid points."""
        missing = [place for place in indices.tolist() if place not in self.known]
        if missing:
            found = self.curve.profile(self.step * np.array(missing, dtype=np.float64))
            self.known.update(zip(missing, zip(found.upper.tolist(), found.lower.tolist(), strict=True), strict=True))

    def _values(self, indices: Integers) -> tuple[Floats, Floats]:
        both = np.array([self.known[place] for place in indices.tolist()])
        return np.minimum(1.0, both[:, 0]), both[:, 1].copy()


def _below(lower: Floats, gaps: Floats) -> Floats:
    """Values on the grid whose chords are below the curve: lower values less the gaps of both neighbouring cells.

    Where they fall to 0 their chord crosses 0 inside a cell, off the grid; the last positive value is given up too,
    and the chord that ends there at 0 is below the former one and below the curve, which is never negative.
    """
    values = lower - np.maximum(np.append(gaps, 0.0), np.concatenate(([0.0], gaps)))
    values[-1] = 0.0
    last = max(0, int(np.argmax(values <= 0)) - 1)
    values[last:] = 0.0
    return np.asarray(np.maximum(0.0, values))


def _gaps(step: float, indices: Integers, upper: Floats, lower: Floats) -> Floats:
    """How far, in each cell, the chord of the lower values may be above the convex curve.

    The curve is above the neighbouring cells' chords extended into the cell, each with its far end at the upper and
    its near end at the lower value; the chord is above both by at most w·a·b/(a + b), w the cell's width and a, b
    the differences of slope. In the outer cells one neighbour is missing: at x = 1 the mirror image serves, whose
    slope is −1 + δ(0) − slope; at the far end the slope 0.
    """
    places = step * indices.astype(np.float64)
    widths = np.exp(places[:-1]) * np.expm1(np.diff(places))
    chords = np.diff(lower) / widths
    mirrored = -1.0 + lower[0] - (upper[1] - lower[0]) / widths[0]
    from_left = np.concatenate(([mirrored], (lower[1:] - upper[:-1])[:-1] / widths[:-1]))
    from_right = np.concatenate(((upper[1:] - lower[:-1])[1:] / widths[1:], [0.0]))
    a, b = np.maximum(0.0, chords - from_left), np.maximum(0.0, from_right - chords)
    with np.errstate(invalid="ignore", divide="ignore"):
        gaps = np.where((a > 0) & (b > 0), widths * a * b / (a + b), 0.0)
    return np.asarray(gaps * (1 + 1e-9) + 1e-300)
