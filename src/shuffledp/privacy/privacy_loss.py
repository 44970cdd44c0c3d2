"""Privacy-loss distributions of curves on a grid, their moments, and losses known from the law of aggregate noise.

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
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from flint import arb

from shuffledp._core.base_classes import ValueObject
from shuffledp._core.formatting import format_rounded_up
from shuffledp._core.validation import Floats, Integers
from shuffledp.numerics.convolution import PiecewiseLinear, fit_piecewise_linear
from shuffledp.numerics.distributions import Bracket
from shuffledp.numerics.intervals import precision, round_up
from shuffledp.numerics.roots import InverseValue, invert
from shuffledp.privacy.curve import MAX_EPSILON, BoundValue, CurveSource, PrivacyCurve
from shuffledp.privacy.lower_bounds import Attack

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


# --- Losses known from the law of the noise ---


METHOD = "law of the noise"
NoiseFacts = dict[str, Any]
"""Noise in exact numbers: its ``kind``, a ``Fraction`` under each name, and ``noise``, the facts of noise within it."""


class AggregateNoiseLoss(ValueObject, ABC):
    """δ(ε) of all messages together, for every pair of inputs and both directions, from the law of the noise.

    Subclasses are frozen dataclasses that hold the data of the law, so that equal ones give equal curves.
    """

    @property
    @abstractmethod
    def theorem(self) -> str:
        """The theorem that proves its values."""

    @property
    def note(self) -> str:
        """Further conditions that the reader must know; empty if there are none."""
        return ""

    @property
    def is_attained(self) -> bool:
        """True if two inputs have exactly this loss to an attacker who knows all other values: then it is an attack."""
        return False

    @property
    def largest_epsilon(self) -> float:
        """An ε from which on δ is 0; infinity if there is none."""
        return math.inf

    @abstractmethod
    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Returns certified upper and lower values of δ at each ε ≥ 0, equal up to rounding if the law is exact.

        Args:
            epsilons: Values of ε.
        """

    def deviation(self) -> float:
        """Returns about the standard deviation of the loss, at which a search begins."""
        return 1.0

    def noise_facts(self) -> NoiseFacts | None:
        """Returns the data that determine its values, for a second proof; None if there is none."""
        return None


@dataclass(frozen=True)
class LossDivergence:
    """The loss as a decreasing function, for inversion."""

    loss: AggregateNoiseLoss

    def bracket(self, epsilon: float) -> Bracket:
        upper, lower = self.loss.profile(np.array([epsilon]))
        return Bracket(arb(float(lower[0])), arb(float(upper[0])), METHOD)

    def log_estimate(self, epsilon: float) -> float:
        upper, _ = self.loss.profile(np.array([epsilon]))
        return math.log(upper[0]) if upper[0] > 0 else -math.inf

    def natural_scale(self) -> float:
        return self.loss.deviation()


@lru_cache(maxsize=256)
def _inverse(loss: AggregateNoiseLoss, delta: float) -> InverseValue:
    high = min(loss.largest_epsilon, MAX_EPSILON)
    return invert(LossDivergence(loss), delta, high, zero_at_high=loss.largest_epsilon <= MAX_EPSILON)


@dataclass(frozen=True)
class AggregateNoiseCurve(PrivacyCurve):
    """The curve of noise whose loss is known from its law."""

    loss: AggregateNoiseLoss

    @property
    def certified(self) -> bool:
        return True

    def loss_deviation(self) -> float | None:
        return self.loss.deviation()

    def _epsilon(self, delta: float) -> BoundValue:
        found = _inverse(self.loss, delta)
        if math.isinf(found.upper) and math.isfinite(self.loss.largest_epsilon):
            return self._value(self.loss.largest_epsilon, self.loss.largest_epsilon - found.lower)
        if math.isinf(found.upper):
            # Values between the largest ε that is evaluated and infinity cannot be distinguished.
            return self._value(math.inf, 0.0 if found.lower >= MAX_EPSILON else math.inf)
        return self._value(found.upper, found.upper - found.lower)

    def _delta(self, epsilon: float) -> BoundValue:
        upper, lower = self._profile(np.array([epsilon]))
        high, low = float(upper[0]), float(lower[0])
        return self._value(high, math.nextafter(high - low, math.inf) if high > low else 0.0)

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        upper, lower = self.loss.profile(np.minimum(epsilons, MAX_EPSILON))
        beyond = epsilons >= self.loss.largest_epsilon
        lower = np.where(beyond | (epsilons > MAX_EPSILON), 0.0, np.maximum(lower, 0.0))
        return np.where(beyond, 0.0, np.minimum(upper, 1.0)), np.minimum(lower, 1.0)


@dataclass(frozen=True)
class AggregateNoiseAttack(Attack):
    """An attacker who knows all other values attains the loss itself: its certified lower side."""

    loss: AggregateNoiseLoss

    def delta(self, epsilon: float) -> float:
        _, lower = self.loss.profile(np.array([min(epsilon, MAX_EPSILON)]))
        return max(0.0, float(lower[0]))

    def epsilon(self, delta: float) -> float:
        return _inverse(self.loss, delta).lower

    def exact_curves(self) -> list[PrivacyCurve]:
        source = CurveSource("attack", self.loss.theorem, 1, guarantee=False)
        return [AggregateNoiseCurve(source, self.loss)]


# --- Losses known approximately ---


BITS = 160
SEARCH_TOLERANCE = 1e-6
MAX_SEARCH_EPSILON = 64.0


def distance_delta(distance: float, epsilon: float) -> float:
    """Returns (1 + e^ε)·η, rounded up: the amount that a distance η in total variation adds to δ.

    Theorem: if P is within η of P' in total variation, Q of Q', and P' ≤ e^ε·Q' + δ for every set, then
    P ≤ P' + η ≤ e^ε·Q' + δ + η ≤ e^ε·(Q + η) + δ + η.
    """
    with precision(BITS):
        return round_up((1 + arb(epsilon).exp()) * arb(distance))


def turning_point(total: Callable[[float], float], high: float) -> float:
    """Returns about where on [0, high] a function is least that is convex in e^ε and perhaps capped at 1."""
    low = 0.0
    if total(high) < total(high * (1 - SEARCH_TOLERANCE)):
        return high
    while high - low > SEARCH_TOLERANCE:
        third = (high - low) / 3
        if total(low + third) <= total(high - third):
            high -= third
        else:
            low += third
    return (low + high) / 2


@dataclass(frozen=True)
class ApproximateLoss(AggregateNoiseLoss):
    """The loss of messages within total variation ``distance`` η, for all values, of messages with this ``loss``.

    Theorem: δ(ε) ≤ δ_loss(ε) + (1 + e^ε)·η (``distance_delta``). As δ falls with ε, the value at a smaller ε also
        holds.
    Returns: an upper bound; an attack on the loss itself may be off by as much.
    """

    loss: AggregateNoiseLoss
    distance: float
    distance_event: str
    """The event whose probability is η, for the note."""
    distance_facts: Callable[[], NoiseFacts] | None = None
    """Returns the kind and the numbers that η follows from, if they are known."""

    @property
    def theorem(self) -> str:
        return f"{self.loss.theorem} + (1 + e^ε)·η"

    @property
    def note(self) -> str:
        note = f"Of δ, (1 + e^ε)·η is that {self.distance_event}: η = {format_rounded_up(self.distance, 3)}."
        return f"{self.loss.note} {note}".strip()

    def _upper(self, epsilon: float) -> float:
        (upper,), _ = self.loss.profile(np.array([epsilon]))
        return min(1.0, math.nextafter(float(upper) + distance_delta(self.distance, epsilon), math.inf))

    @cached_property
    def _turning_epsilon(self) -> float:
        return turning_point(self._upper, min(self.loss.largest_epsilon, MAX_SEARCH_EPSILON))

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        upper = np.array([self._upper(min(float(epsilon), self._turning_epsilon)) for epsilon in epsilons])
        # Relative to the bound itself, not to the truth: the amount by which rounding may have raised it.
        return upper, upper * (1 - 1e-9)

    def deviation(self) -> float:
        return self.loss.deviation()

    def noise_facts(self) -> NoiseFacts | None:
        inside = self.loss.noise_facts()
        return None if self.distance_facts is None or inside is None else {**self.distance_facts(), "noise": inside}
