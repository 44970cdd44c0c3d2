"""Σ_s μ(s)·(1 − e^(x−s))_+ for the convolution μ of many measures on one grid, certified on both sides.

Each measure has masses w_j ≥ 0 at j·h. Tilting by θ writes w_j = v_j·exp(a − θ·j·h), so that the convolution of all
of them is exp(A − θ·s)·(v * … * v)(s) with A the sum of the a's: with θ at the saddle point the sum is near the
middle of the tilted law, and errors of the tilted convolution are relative errors of the result even at 1e-100.

The tilted convolution is computed on N points modulo N by the Fourier transform. Its errors are bounded as follows:

- at each point of a window of N it holds the exact value plus the values a multiple of N away: never less than the
  exact value. The mass outside the window is bounded by exp(Λ(λ) − λ·edge) for any λ (Chernoff);
- a transform of length N is off, in the Euclidean norm, by at most TRANSFORM_ERROR·log2(N) roundings relative to its
  result (Higham, Accuracy and Stability, Theorem 24.2; twice his constant). So each transform φ of one measure is
  off by at most r = √N·‖v‖·(that), and |Π a_i − Π b_i| ≤ Π(|a_i| + r_i) − Π|a_i| bounds the product;
- tilting in floats changes each v_j by a relative error that is raised to the number of factors.

All of this is added to the upper side and subtracted from the lower side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shuffledp._core.errors import NumericalError
from shuffledp._core.validation import Floats, Integers
from shuffledp.numerics.roots import find_crossing

UNIT_ROUNDOFF = 2.0**-53
TRANSFORM_ERROR = 14.0
MAX_TRANSFORM_LENGTH = 1 << 23
"""Points of the longest transform: a few seconds."""
LOG_OUTSIDE = -60.0
LOG_MARGIN = 2.0
"""The window omits exp(LOG_OUTSIDE) according to floats; exp(LOG_OUTSIDE + LOG_MARGIN) is claimed."""
SMALLEST_FLOAT = 5e-324
MAX_SUM_DISTANCE = 100.0
"""Distance, in units of 1/tilt, up to which points to the right are summed."""
WINDOW_TILT_SHIFTS = np.geomspace(0.3, 60.0, 40)
"""Tilts tried for the window's edges, in standard deviations."""
MIN_TILT, MAX_TILT = 1e-9, 1e9


def _inner_product(one: Floats, other: Floats) -> float:
    """Returns the inner product by a plain sum: BLAS would start threads that cost a hundred times what they save."""
    return float(np.sum(one * other))


class TransformTooLong(NumericalError):
    """The error raised when a sum spreads over more grid points than a transform can have."""


@dataclass(frozen=True)
class GridMeasure:
    """Exact masses ≥ 0 at ascending multiples of a step with so few bits that the products are exact floats."""

    step: float
    indices: Integers
    masses: Floats

    @cached_property
    def points(self) -> Floats:
        return np.asarray(self.step * self.indices.astype(np.float64))

    @cached_property
    def log_masses(self) -> Floats:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.masses))

    def log_moment(self, tilt: float) -> float:
        """Returns log Σ w_j·exp(tilt·j·h), in floats."""
        exponents = self.log_masses + tilt * self.points
        top = float(exponents.max())
        return top + math.log(float(np.sum(np.exp(exponents - top))))

    def moments(self, tilt: float) -> tuple[float, float, float]:
        """Returns log Σ w_j·exp(tilt·j·h) and the mean and variance of the tilted law, in floats."""
        exponents = self.log_masses + tilt * self.points
        top = float(exponents.max())
        weights = np.exp(exponents - top)
        mass = float(weights.sum())
        mean = _inner_product(weights, self.points) / mass
        return top + math.log(mass), mean, _inner_product(weights, (self.points - mean) ** 2) / mass


@dataclass(frozen=True)
class GridSum:
    """The convolution of measures on one grid, each taken a number of times."""

    parts: tuple[tuple[GridMeasure, int], ...]

    @property
    def step(self) -> float:
        return self.parts[0][0].step

    @property
    def factors(self) -> int:
        return sum(times for _, times in self.parts)

    def log_moment(self, tilt: float) -> float:
        return math.fsum(times * measure.log_moment(tilt) for measure, times in self.parts)

    def moments(self, tilt: float) -> tuple[float, float, float]:
        found = [(times, measure.moments(tilt)) for measure, times in self.parts]
        log_mass, mean, variance = (math.fsum(times * values[k] for times, values in found) for k in range(3))
        return log_mass, mean, max(variance, self.step**2)

    @property
    def largest_point(self) -> float:
        """The largest point: there is no mass beyond it."""
        return math.fsum(times * float(measure.points[-1]) for measure, times in self.parts)

    def tilt_for(self, x: float) -> float:
        """Returns the tilt under which the positive part at x is near the middle of the law.

        Returns 0 if that point is left of the middle.
        """

        def excess(log_tilt: float) -> float:
            tilt = math.exp(log_tilt)
            return self.moments(tilt)[1] - x - 1 / tilt - 1 / (1 + tilt)

        return self._crossing(excess)

    def tilt_for_level(self, log_level: float) -> float:
        """Returns the tilt for the point where the positive part is about exp(log_level)."""

        def excess(log_tilt: float) -> float:
            tilt = math.exp(log_tilt)
            log_mass, mean, variance = self.moments(tilt)
            x = mean - 1 / tilt - 1 / (1 + tilt)
            return log_level - (log_mass - tilt * x - math.log(tilt * (1 + tilt) * math.sqrt(7 * variance) + 1))

        return self._crossing(excess)

    def _crossing(self, excess: Callable[[float], float]) -> float:
        low, high = math.log(MIN_TILT), math.log(MAX_TILT)
        found = find_crossing(excess, low, high, guess=0.0, relative=0.0, absolute=1e-2)
        return 0.0 if found.middle < low + 1 else math.exp(min(found.middle, math.log(200.0 / self.step)))

    def apply_tilt(self, tilt: float, least: float) -> TiltedSum:
        """Returns the convolution at a tilt ≥ 0, for evaluation at points from ``least`` on."""
        return TiltedSum(self, tilt, least)


class TiltedSum:
    """The tilted convolution in floats, with bounds of its errors."""

    def __init__(self, total: GridSum, tilt: float, least: float) -> None:
        self.tilt, self.step = tilt, total.step
        self.least = least
        offsets = [measure.log_moment(tilt) for measure, _ in total.parts]
        tilted = [
            np.exp(measure.log_masses + (tilt * measure.points - offset))
            for (measure, _), offset in zip(total.parts, offsets, strict=True)
        ]
        times = [count for _, count in total.parts]
        self.log_scale = math.fsum(count * offset for count, offset in zip(times, offsets, strict=True))
        sizes = [
            abs(offset) + float(np.max(np.abs(tilt * measure.points))) + 800.0
            for (measure, _), offset in zip(total.parts, offsets, strict=True)
        ]
        # log w, tilt·j·h and their sum are each off by a few roundings of their size; |log w| ≤ 745.
        self.relative_error = (
            8 * UNIT_ROUNDOFF * math.fsum(n * (size + 8) for n, size in zip(times, sizes, strict=True))
        )
        self.relative_error += (
            8 * UNIT_ROUNDOFF * math.fsum(n * abs(offset) for n, offset in zip(times, offsets, strict=True))
        )
        if self.relative_error > 1e-3:
            raise NumericalError(f"compose: {total.factors} factors are too many for floats; compose fewer.")
        self.bottom, length = self._window(total)
        self.values, self.absolute_error = _circular_convolution(
            [(measure.indices, v, count) for (measure, count), v in zip(total.parts, tilted, strict=True)], length
        )
        self.values = np.roll(self.values, -(self.bottom % length))
        self.outside_mass = 2 * math.exp(LOG_OUTSIDE + LOG_MARGIN)
        self.places = self.step * np.arange(self.bottom, self.bottom + length, dtype=np.float64)

    def _window(self, total: GridSum) -> tuple[int, int]:
        """Returns the first index and the length, a power of two, of a window that holds all but exp(LOG_OUTSIDE)."""
        log_mass, mean, variance = total.moments(self.tilt)
        shifts = WINDOW_TILT_SHIFTS / math.sqrt(variance)
        top, bottom = total.largest_point, -math.inf
        for shift in shifts.tolist():
            for way in (shift, -shift):
                edge = (total.log_moment(self.tilt + way) - log_mass - LOG_OUTSIDE) / way
                if way > 0:
                    top = min(top, edge)
                else:
                    bottom = max(bottom, edge)
        low = math.floor(min(bottom, mean, self.least) / self.step) - 1
        high = math.ceil(max(top, mean, self.least) / self.step) + 1
        length = 1 << (high - low + 1).bit_length()
        if length > MAX_TRANSFORM_LENGTH:
            raise TransformTooLong(
                f"compose: the sum spreads over {high - low + 1} grid points, at most {MAX_TRANSFORM_LENGTH} are "
                f"possible; "
                f"ask for less accuracy."
            )
        return low, length

    def upper(self, x: float) -> float:
        """Returns an upper bound of Σ μ(s)(1 − e^(x−s))_+."""
        values, gaps, error = self._terms_beyond(x)
        far = math.exp(-self.tilt * max(0.0, float(self.places[-1]) - x)) if self.tilt > 0 else 1.0
        weights = np.exp(-self.tilt * gaps) * -np.expm1(-gaps)
        total = _inner_product(np.maximum(0.0, values + self.absolute_error), weights)
        total += self.outside_mass * far + 2 * math.exp(-MAX_SUM_DISTANCE)
        log_factor = self.log_scale - self.tilt * x
        if log_factor > 700.0:
            return 1.0
        return min(1.0, math.exp(log_factor) * total * (1 + error) + SMALLEST_FLOAT)

    def lower(self, x: float) -> float:
        """Returns a lower bound of Σ μ(s)(1 − e^(x−s))_+."""
        values, gaps, error = self._terms_beyond(x)
        weights = np.exp(-self.tilt * gaps) * -np.expm1(-gaps)
        spent = self.absolute_error * float(weights.sum()) + self.outside_mass
        total = _inner_product(values, weights) - spent * (1 + error)
        log_factor = self.log_scale - self.tilt * x
        if total <= 0 or log_factor > 700.0:
            return 0.0
        size = _inner_product(np.abs(values), weights)
        return max(0.0, math.exp(log_factor) * (total - error * size) * (1 - error))

    def _terms_beyond(self, x: float) -> tuple[Floats, Floats, float]:
        """Returns values and distances of the relevant grid points beyond x, and the relative error of a sum over them.

        Points so far away that the tilt makes them worth less than exp(−``MAX_SUM_DISTANCE``) are omitted; all of them
        together have a tilted mass of less than 2.
        """
        if x < self.least:
            raise ValueError(f"TiltedSum: x must be at least {self.least!r}, got {x!r}.")
        start = max(0, math.floor(x / self.step) - self.bottom)
        end = len(self.places)
        if self.tilt > 0:
            end = min(end, start + 3 + math.ceil(MAX_SUM_DISTANCE / (self.tilt * self.step)))
        gaps = self.places[start:end] - x
        keep = gaps > 0
        error = self.relative_error + UNIT_ROUNDOFF * (
            2 * len(gaps) + 16 * (abs(self.log_scale) + self.tilt * abs(x) + 100)
        )
        # A distance is off by one rounding, and tilt·distance is at most about MAX_SUM_DISTANCE.
        return self.values[start:end][keep], gaps[keep], error + 32 * UNIT_ROUNDOFF * MAX_SUM_DISTANCE


def _circular_convolution(parts: Sequence[tuple[Integers, Floats, int]], length: int) -> tuple[Floats, float]:
    """Returns the convolution modulo ``length`` from index 0 on, and a bound of the error of each of its values."""
    rate = TRANSFORM_ERROR * UNIT_ROUNDOFF * math.log2(length)
    half = length // 2 + 1
    log_size, log_most, angle, doubt = (np.zeros(half) for _ in range(4))
    for indices, masses, times in parts:
        spread = np.bincount(indices % length, weights=masses, minlength=length).astype(np.float64)
        transform = np.fft.rfft(spread)
        radius = 1.01 * rate * math.sqrt(length) * math.sqrt(_inner_product(spread, spread)) + 1e-300
        size = np.log(np.abs(transform) + 1e-300)
        turn = np.angle(transform)
        log_size += times * size
        log_most += times * np.log(np.abs(transform) + radius)
        angle += times * turn
        doubt += times * (np.abs(size) + np.abs(turn) + 4)
    most = np.exp(np.minimum(log_most, 700.0))
    # A few roundings for each part, and one of the sum so far for each that is added to it.
    doubt *= (32 + 2 * len(parts)) * UNIT_ROUNDOFF
    errors = most * (-np.expm1(np.minimum(0.0, log_size - log_most)) + np.minimum(2.0, doubt))
    values = np.fft.irfft(np.exp(log_size) * (np.cos(angle) + 1j * np.sin(angle)), n=length)
    absolute = 2 * float(errors.sum()) / length * (1 + length * UNIT_ROUNDOFF)
    absolute += 1.1 * rate * (math.sqrt(_inner_product(values, values)) + absolute * math.sqrt(length))
    return values, 1.01 * absolute


# --- Piecewise linear functions as measures ---
#
# Convex, decreasing, piecewise linear functions F of x = e^y with kinks on a grid of y:
# F(x) = Σ_j w_j·(1 − x/x_j)_+ + rest, x_j = e^(j·h), w_j ≥ 0: the weights are x_j times the jumps of the slope. All
# functions here are symmetric: F(x) = 1 − x + x·F(1/x), so that values at x ≥ 1 determine everything, and F(0) = 1.


MIN_HEIGHT = 1e-280
MAX_CORRECTION_FACTOR = 1 + 1e-9
"""Losses of floats beyond this factor, by underflow, are added to the rest."""
NEGLIGIBLE_MASS = 1e-300
"""A mass at 0 that changes nothing and lets the logarithm of the measure exist."""


@dataclass(frozen=True)
class PiecewiseLinear:
    """A symmetric convex decreasing piecewise linear function: the measure of its kinks and its value at infinity."""

    kinks: GridMeasure
    value_at_infinity: float


def fit_piecewise_linear(step: float, indices: Integers, values: Floats, *, upper: bool) -> PiecewiseLinear:
    """Returns the largest symmetric convex decreasing function below ``values`` at e^(index·step), rounded to one side.

    It is at least (``upper``) or at most (otherwise) the exact one. Beyond the last index it is constant.
    Requires: ``indices`` ascend from 0; ``values`` are between 0 and 1.
    Every convex function below the values is below the largest one: so if the values are upper bounds of a symmetric
    convex decreasing F, the returned function is an upper bound of F everywhere.
    """
    heights = np.minimum.accumulate(values)
    # Slopes of smaller values would underflow.
    heights = np.where((heights > 0) & (heights < MIN_HEIGHT), MIN_HEIGHT if upper else 0.0, heights)
    beyond = np.expm1(step * indices.astype(np.float64))
    # The line through a point and its mirror image crosses x = 1 at this height: convexity allows no more.
    heights[0] = min(heights[0], float(np.min((2 * heights + beyond) / (beyond + 2))))
    heights = np.minimum.accumulate(heights)
    corners = lower_convex_hull(beyond, heights)
    places = step * indices.astype(np.float64)
    at = places[corners]
    slopes = np.diff(heights[corners]) / (np.exp(at[:-1]) * np.expm1(np.diff(at)))
    jumps = np.zeros(len(places))
    jumps[corners[1:]] = np.maximum(0.0, np.diff(np.append(slopes, 0.0)))
    middle = max(NEGLIGIBLE_MASS, 1 - heights[0] + 2 * (slopes[0] if len(slopes) else 0.0))
    right = np.exp(places) * jumps
    masses = np.concatenate((jumps[:0:-1], [middle], right[1:]))
    scale, missing = _correction(places, heights, masses, upper=upper)
    both = np.concatenate((-indices[:0:-1], indices))
    return PiecewiseLinear(GridMeasure(step, both, masses * scale), float(heights[-1] * scale) + missing)


def lower_convex_hull(x: Floats, y: Floats) -> list[int]:
    """Returns the indices of the corners of the lower convex hull, first and last included."""
    hull: list[int] = []
    for k in range(len(x)):
        while len(hull) > 1:
            a, b = hull[-2], hull[-1]
            if (y[b] - y[a]) * (x[k] - x[b]) < (y[k] - y[b]) * (x[b] - x[a]):
                break
            hull.pop()
        hull.append(k)
    return hull


def _correction(places: Floats, heights: Floats, masses: Floats, *, upper: bool) -> tuple[float, float]:
    """Returns the factor that makes the function a valid upper or lower one, and the amount to add to its rest.

    With w the masses, B_i = Σ_{j>i} w_j/x_j and F_i = F_{i+1} + (x_{i+1} − x_i)·B_i: sums of terms ≥ 0, so floats give
    F at every point, and at x = 0, up to the relative error below. Between points both sides are linear. The upper
    function must be above the hull, and it is if it is so at the points that carry mass; the lower one must be below
    all points, because floats may take a point slightly below a chord for one above it.
    """
    ys = np.concatenate((-places[:0:-1], places))
    x = np.exp(ys)
    wanted = np.concatenate(((-np.expm1(-places) + np.exp(-places) * heights)[:0:-1], heights))
    slopes = np.cumsum((masses / x)[::-1])[::-1]
    rises = np.exp(ys[:-1]) * np.expm1(np.diff(ys)) * slopes[1:]
    found = np.append(np.cumsum(rises[::-1])[::-1], 0.0) + heights[-1]
    at_zero = float(found[0] + x[0] * slopes[0])
    error = UNIT_ROUNDOFF * (8 * len(ys) + 64)
    if not upper:
        ratios = wanted[found > 0] / found[found > 0]
        return min(1.0, float(ratios.min(initial=1.0)), 1 / at_zero) * (1 - error), 0.0
    wanted, found = wanted[masses > 0], found[masses > 0]
    small = wanted > found * MAX_CORRECTION_FACTOR
    ratios = wanted[~small & (found > 0)] / found[~small & (found > 0)]
    missing = float(np.max(wanted[small] - found[small], initial=0.0)) * (1 + error)
    return max(1.0, float(ratios.max(initial=1.0)), 1 / at_zero) * (1 + error), missing
