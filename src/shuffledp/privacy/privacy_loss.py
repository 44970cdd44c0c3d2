"""Privacy-loss distributions of curves on a grid, and their moments.

The grid gives one pair that dominates the curve and one that is dominated by it.

Theorem: connect the dots [Doroshenko et al. 2022]: F(x) = D_x(P‖Q) is convex in x = e^ε, so the chords between its
values on a grid are the divergence of a pair that dominates (P, Q). Two pairs with F ≤ F' pointwise keep that order
when each is composed with the same pair, because D_x of a product is a positive mixture of F over its arguments; by
exchanging one factor after the other, composed chords are an upper bound, and composed functions below F a lower one.

A curve δ(ε), ε ≥ 0, that bounds both directions of every neighbouring pair is extended by symmetry,
F(x) = 1 − x + x·δ(−log x) for x < 1. This is convex where it matters: if f and g are the two directions of one pair,
f(1) = g(1) = t and convexity of f across 1 says f'(1+) + g'(1+) ≥ −(1−t), so the larger of the two slopes, that of
the maximum, is at least −(1−t)/2, as convexity of the symmetric extension at 1 requires. Since replacing a
record is a symmetric relation, a dominating pair must dominate both directions: nothing is lost by the symmetry.

A pointwise minimum of several bounds need not be convex. The true F is convex and below each of them, hence below
the largest convex function under the minimum: the hull is a valid bound, and the smallest that the values allow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np

from shuffledp._core.validation import Floats, Integers
from shuffledp.numerics.convolution import PiecewiseLinear, fit_piecewise_linear
from shuffledp.privacy.curve import MAX_EPSILON, PrivacyCurve

STEP_BITS = 10
"""Significant bits of a grid step: products with whole numbers below 2^43 are then exact."""
SURVEY_POINT_RATIO = 1.6
FIRST_SURVEY_POINT, MAX_FIRST_DROP, MIN_EPSILON = 0.05, 0.8, 1e-14
CHORD_TOLERANCE = 0.01
"""A chord that exceeds the curve by more than this share is split, where that matters."""
FLOOR_FACTOR = 1.0001
POINT_WIDENING = 0.12
SPARSE_DELTA = 1e-200
"""Below this δ points may lie far apart: floats end at 1e-308."""
MAX_POINTS = 3_000


def round_step(step: float) -> float:
    """Rounds a step down to few significant bits."""
    mantissa, exponent = math.frexp(step)
    return math.ldexp(math.floor(math.ldexp(mantissa, STEP_BITS)), exponent - STEP_BITS)


class LossSurvey:
    """A first scan of a curve: the range and the variance of its loss."""

    def __init__(self, curve: PrivacyCurve, budget: float) -> None:
        self.at_zero, self.floor = curve.profile([0.0, MAX_EPSILON]).upper.tolist()
        scale = max(self.at_zero, 1e-12) * math.sqrt(2 * math.pi)
        count = math.ceil(math.log(MAX_EPSILON / (FIRST_SURVEY_POINT * scale)) / math.log(SURVEY_POINT_RATIO))
        points = np.minimum(
            MAX_EPSILON, FIRST_SURVEY_POINT * scale * SURVEY_POINT_RATIO ** np.arange(max(1, count) + 1)
        )
        self.values = [self.at_zero]
        self.epsilons = [0.0]
        for start in range(0, len(points), 8):
            block = points[start : start + 8]
            self.epsilons += block.tolist()
            self.values += curve.profile(block).upper.tolist()
            if self.values[-1] <= max(budget, self.floor * FLOOR_FACTOR):
                break
        # A loose bound may fall from 1 to almost 0 before the first point.
        while self.values[1] < MAX_FIRST_DROP * self.at_zero and self.epsilons[1] > MIN_EPSILON:
            block = self.epsilons[1] * SURVEY_POINT_RATIO ** np.arange(-8.0, 0.0)
            self.epsilons[1:1] = block.tolist()
            self.values[1:1] = curve.profile(block).upper.tolist()

    @cached_property
    def variance(self) -> float:
        """Approximate variance of the loss: 4∫δ dε, exact in the limit of small losses."""
        epsilons, values = np.array(self.epsilons), np.array(self.values)
        bounded = np.maximum(0.0, values - self.floor)
        return max(4 * float(np.sum(np.diff(epsilons) * np.sqrt(bounded[1:] * bounded[:-1]))), 1e-30)


class LossGrid:
    """A curve on the grid of multiples of ``step``; each value is computed once, when it is first needed."""

    def __init__(self, curve: PrivacyCurve, step: float, floor: float) -> None:
        self.curve, self.step, self.floor = curve, step, floor
        self.evaluated_bounds: dict[int, tuple[float, float]] = {}
        self.last = math.floor(MAX_EPSILON / step)

    def pairs(
        self,
        fine: float,
        budget: float,
        negligible: Callable[[Floats], Floats],
        *,
        rough: float = CHORD_TOLERANCE,
        stride: int = 1,
    ) -> tuple[PiecewiseLinear, PiecewiseLinear]:
        """Returns a dominating pair and a dominated one.

        Every ``stride``-th grid point up to ``fine`` is used, fewer beyond. The mass left at infinity exceeds the
        curve's own by at most about ``budget``. Chords may be off by ``negligible`` of ε, or by the share ``rough``.
        """
        indices = self.choose_points(fine, max(budget, self.floor * FLOOR_FACTOR), stride)
        while True:
            self.evaluate(indices)
            upper, lower = self._values(indices)
            gaps = _chord_gaps(self.step, indices, upper, lower)
            cells = np.diff(indices)
            unimportant = negligible(self.step * indices[1:].astype(np.float64))
            split = (gaps > np.maximum(unimportant, rough * upper[1:])) & (cells > 1) & (upper[:-1] > SPARSE_DELTA)
            if not split.any() or len(indices) > MAX_POINTS:
                break
            indices = np.union1d(indices, (indices[:-1] + cells // 2)[split])
        below = _lower_grid_values(lower, gaps)
        return fit_piecewise_linear(self.step, indices, upper, upper=True), fit_piecewise_linear(
            self.step, indices, below, upper=False
        )

    def choose_points(self, fine: float, enough: float, stride: int) -> Integers:
        """Returns grid points, even up to ``fine``, then wider and wider until the curve is at most ``enough``."""
        chosen = list(range(0, max(2 * stride, min(self.last, math.ceil(fine / self.step))) + 1, stride))
        probes = chosen[8::8] + chosen[-1:]
        width = stride
        while True:
            self.evaluate(np.array(probes))
            reached = [place for place in probes if self.evaluated_bounds[place][0] <= enough]
            if reached or chosen[-1] >= self.last:
                break
            hardly = self.evaluated_bounds[chosen[-1]][0] < SPARSE_DELTA
            widening, block = (2.0, 4) if hardly else (1 + POINT_WIDENING, 16)
            probes = []
            while len(probes) < block and chosen[-1] < self.last:
                width = max(width + 1, math.ceil(width * widening))
                chosen.append(min(self.last, chosen[-1] + width))
                probes.append(chosen[-1])
        end = min(reached, default=chosen[-1])
        return np.array([place for place in chosen if place <= end])

    def evaluate(self, indices: Integers) -> None:
        """Computes the missing values at these grid points."""
        missing = [place for place in indices.tolist() if place not in self.evaluated_bounds]
        if missing:
            found = self.curve.profile(self.step * np.array(missing, dtype=np.float64))
            self.evaluated_bounds.update(
                zip(missing, zip(found.upper.tolist(), found.lower.tolist(), strict=True), strict=True)
            )

    def _values(self, indices: Integers) -> tuple[Floats, Floats]:
        both = np.array([self.evaluated_bounds[place] for place in indices.tolist()])
        return np.minimum(1.0, both[:, 0]), both[:, 1].copy()


def _lower_grid_values(lower: Floats, gaps: Floats) -> Floats:
    """Returns grid values whose chords are below the curve: lower values less the gaps of both neighbouring cells.

    Where they fall to 0 their chord crosses 0 inside a cell, off the grid; the last positive value is dropped too,
    and the chord that ends there at 0 is below the former one and below the curve, which is never negative.
    """
    values = lower - np.maximum(np.append(gaps, 0.0), np.concatenate(([0.0], gaps)))
    values[-1] = 0.0
    last = max(0, int(np.argmax(values <= 0)) - 1)
    values[last:] = 0.0
    return np.asarray(np.maximum(0.0, values))


def _chord_gaps(step: float, indices: Integers, upper: Floats, lower: Floats) -> Floats:
    """Bounds, for each cell, the excess of the chord of the lower values over the convex curve.

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


# --- Moments of the loss ---


ACCURACY = 1e-4
NEGLIGIBLE_MOMENT_SHARE = 1e-5
SURVEY_BUDGET = 1e-12
REACH = 4.0
"""Standard deviations of the loss, beyond the shift by the moment, within which every grid point is used."""
ROUNDING = 1e-11
"""Exceeds the relative rounding error of a sum of some thousand positive terms and of its logarithm."""


class LossMoments:
    """E_Q[(P/Q)^α] of one round, as Rényi divergences."""

    def __init__(self, curve: PrivacyCurve) -> None:
        self.survey = LossSurvey(curve, SURVEY_BUDGET)
        self.grid = LossGrid(curve, round_step(math.sqrt(6 * ACCURACY * self.survey.variance)), self.survey.floor)

    def divergence(self, order: float) -> tuple[float, float]:
        """Returns (upper, lower) values of the divergence."""
        if self.survey.floor > 0:
            return math.inf, 0.0
        variance = self.survey.variance
        fine = (order - 1) * variance + REACH * math.sqrt(variance)

        def negligible(epsilon: Floats) -> Floats:
            """Returns the permitted error of a chord: its share of the moment is negligible."""
            return np.asarray(
                NEGLIGIBLE_MOMENT_SHARE * variance * np.exp(-np.minimum((order - 1) * epsilon, 700.0)) / epsilon
            )

        # A relative error of the moment is divided by α − 1 in the divergence, which is about α·variance/2.
        rough = min(1.0, max(0.01, 1e-3 * (order - 1) * min(1.0, order * variance / 2)))
        above, below = self.grid.pairs(fine, 0.0, negligible, rough=rough)
        if above.value_at_infinity > 0:
            return math.inf, _divergence(below, order) * (1 - ROUNDING)
        return _divergence(above, order) * (1 + ROUNDING), _divergence(below, order) * (1 - ROUNDING)


def _divergence(function: PiecewiseLinear, order: float) -> float:
    """Returns the Rényi divergence of the pair of a piecewise linear function that vanishes at infinity."""
    kinks = function.kinks
    # The mass at −ε_j is the jump at ε_j.
    used = (kinks.indices < 0) & (kinks.masses > 0)
    jumps, losses = kinks.masses[used], -kinks.points[used]
    if not len(jumps):
        return 0.0
    logs = (
        np.log(jumps) + np.log(-np.expm1(-(order - 1) * losses)) + order * losses + np.log1p(-np.exp(-order * losses))
    )
    top = float(logs.max())
    log_excess = top + math.log(float(np.sum(np.exp(logs - top))))
    return float(np.logaddexp(0.0, log_excess)) / (order - 1)
