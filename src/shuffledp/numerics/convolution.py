"""Σ_s μ(s)·(1 − e^(x−s))_+ for the convolution μ of many measures on one grid, certified on both sides.

Each measure has masses w_j ≥ 0 at j·h. Tilting by θ writes w_j = v_j·exp(a − θ·j·h), so that the convolution of all
of them is exp(A − θ·s)·(v * … * v)(s) with A the sum of the a's: with θ at the saddle point the sum is near the
middle of the tilted law, and errors of the tilted convolution are relative errors of the result even at 1e-100.

The tilted convolution is computed on N points modulo N by the Fourier transform. What is known of it:

- it holds, at each point of a window of N, the exact value plus what lies a multiple of N away: never less than the
  exact value. What lies outside the window is bounded by exp(Λ(λ) − λ·edge) for any λ (Chernoff);
- a transform of length N is off, in the Euclidean norm, by at most TRANSFORM_ERROR·log2(N) roundings relative to its
  result (Higham, Accuracy and Stability, Theorem 24.2; twice his constant). So each transform φ of one measure is
  off by at most r = √N·‖v‖·(that), and |Π a_i − Π b_i| ≤ Π(|a_i| + r_i) − Π|a_i| bounds the product;
- tilting in floats changes each v_j by a relative error that is raised to the number of factors.

All of this is added to the upper side and taken from the lower side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shuffledp.array import Floats, Integers
from shuffledp.errors import NumericalError
from shuffledp.numerics.root import find_crossing

UNIT = 2.0**-53
TRANSFORM_ERROR = 14.0
LONGEST = 1 << 23
"""Points of the longest transform: a few seconds."""
LOG_OUTSIDE = -60.0
LOG_MARGIN = 2.0
"""The window leaves out exp(LOG_OUTSIDE) by floats, and exp(LOG_OUTSIDE + LOG_MARGIN) is what is claimed."""
TINIEST = 5e-324
FARTHEST = 100.0
"""How far, in units of 1/tilt, points to the right are looked at."""
SHIFTS = np.geomspace(0.3, 60.0, 40)
"""Tilts tried for the window's edges, in standard deviations."""
LEAST_TILT, MOST_TILT = 1e-9, 1e9


def _inner(one: Floats, other: Floats) -> float:
    """The inner product, by a plain sum: a library's starts threads that cost a hundred times as much as they save."""
    return float(np.sum(one * other))


class TooLong(NumericalError):
    """A sum spreads over more grid points than a transform can have."""


@dataclass(frozen=True)
class GridMeasure:
    """Exact masses ≥ 0 at ascending multiples of a step that has so few bits that the products are exact floats."""

    step: float
    indices: Integers
    masses: Floats

    @cached_property
    def places(self) -> Floats:
        return np.asarray(self.step * self.indices.astype(np.float64))

    @cached_property
    def log_masses(self) -> Floats:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.masses))

    def log_moment(self, tilt: float) -> float:
        """log Σ w_j·exp(tilt·j·h), in floats."""
        exponents = self.log_masses + tilt * self.places
        top = float(exponents.max())
        return top + math.log(float(np.sum(np.exp(exponents - top))))

    def moments(self, tilt: float) -> tuple[float, float, float]:
        """log Σ w_j·exp(tilt·j·h) and the mean and variance of the tilted law, in floats."""
        exponents = self.log_masses + tilt * self.places
        top = float(exponents.max())
        weights = np.exp(exponents - top)
        mass = float(weights.sum())
        mean = _inner(weights, self.places) / mass
        return top + math.log(mass), mean, _inner(weights, (self.places - mean) ** 2) / mass


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
    def most(self) -> float:
        """Beyond this there is no mass."""
        return math.fsum(times * float(measure.places[-1]) for measure, times in self.parts)

    def tilt_for(self, x: float) -> float:
        """The tilt under which the positive part at x is near the middle of the law; 0 where that is left of it."""

        def excess(log_tilt: float) -> float:
            tilt = math.exp(log_tilt)
            return self.moments(tilt)[1] - x - 1 / tilt - 1 / (1 + tilt)

        return self._crossing(excess)

    def tilt_for_level(self, log_level: float) -> float:
        """The tilt that suits the point where the positive part is about exp(log_level)."""

        def excess(log_tilt: float) -> float:
            tilt = math.exp(log_tilt)
            log_mass, mean, variance = self.moments(tilt)
            x = mean - 1 / tilt - 1 / (1 + tilt)
            return log_level - (log_mass - tilt * x - math.log(tilt * (1 + tilt) * math.sqrt(7 * variance) + 1))

        return self._crossing(excess)

    def _crossing(self, excess: Callable[[float], float]) -> float:
        low, high = math.log(LEAST_TILT), math.log(MOST_TILT)
        found = find_crossing(excess, low, high, guess=0.0, relative=0.0, absolute=1e-2)
        return 0.0 if found.middle < low + 1 else math.exp(min(found.middle, math.log(200.0 / self.step)))

    def tilted(self, tilt: float, least: float) -> TiltedSum:
        """The convolution at a tilt ≥ 0, to be asked at points from ``least`` on."""
        return TiltedSum(self, tilt, least)


class TiltedSum:
    """The tilted convolution in floats, with what it may be off by."""

    def __init__(self, total: GridSum, tilt: float, least: float) -> None:
        self.tilt, self.step = tilt, total.step
        self.least = least
        offsets = [measure.log_moment(tilt) for measure, _ in total.parts]
        tilted = [
            np.exp(measure.log_masses + (tilt * measure.places - offset))
            for (measure, _), offset in zip(total.parts, offsets, strict=True)
        ]
        times = [count for _, count in total.parts]
        self.log_scale = math.fsum(count * offset for count, offset in zip(times, offsets, strict=True))
        sizes = [
            abs(offset) + float(np.max(np.abs(tilt * measure.places))) + 800.0
            for (measure, _), offset in zip(total.parts, offsets, strict=True)
        ]
        # log w, tilt·j·h and their sum are each off by a few roundings of their size; |log w| ≤ 745.
        self.relative = 8 * UNIT * math.fsum(n * (size + 8) for n, size in zip(times, sizes, strict=True))
        self.relative += 8 * UNIT * math.fsum(n * abs(offset) for n, offset in zip(times, offsets, strict=True))
        if self.relative > 1e-3:
            raise NumericalError(f"compose: {total.factors} factors are too many for floats; compose fewer.")
        self.bottom, length = self._window(total)
        self.values, self.absolute = _circular(
            [(measure.indices, v, count) for (measure, count), v in zip(total.parts, tilted, strict=True)], length
        )
        self.values = np.roll(self.values, -(self.bottom % length))
        self.outside = 2 * math.exp(LOG_OUTSIDE + LOG_MARGIN)
        self.places = self.step * np.arange(self.bottom, self.bottom + length, dtype=np.float64)

    def _window(self, total: GridSum) -> tuple[int, int]:
        """The first index and the length, a power of two, of a window that holds all but exp(LOG_OUTSIDE)."""
        log_mass, mean, variance = total.moments(self.tilt)
        shifts = SHIFTS / math.sqrt(variance)
        top, bottom = total.most, -math.inf
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
        if length > LONGEST:
            raise TooLong(
                f"compose: the sum spreads over {high - low + 1} grid points, at most {LONGEST} are possible; "
                f"ask for less accuracy."
            )
        return low, length

    def upper(self, x: float) -> float:
        """At least Σ μ(s)(1 − e^(x−s))_+."""
        values, gaps, error = self._right_of(x)
        far = math.exp(-self.tilt * max(0.0, float(self.places[-1]) - x)) if self.tilt > 0 else 1.0
        weights = np.exp(-self.tilt * gaps) * -np.expm1(-gaps)
        total = _inner(np.maximum(0.0, values + self.absolute), weights)
        total += self.outside * far + 2 * math.exp(-FARTHEST)
        log_factor = self.log_scale - self.tilt * x
        if log_factor > 700.0:
            return 1.0
        return min(1.0, math.exp(log_factor) * total * (1 + error) + TINIEST)

    def lower(self, x: float) -> float:
        """At most Σ μ(s)(1 − e^(x−s))_+."""
        values, gaps, error = self._right_of(x)
        weights = np.exp(-self.tilt * gaps) * -np.expm1(-gaps)
        spent = self.absolute * float(weights.sum()) + self.outside
        total = _inner(values, weights) - spent * (1 + error)
        log_factor = self.log_scale - self.tilt * x
        if total <= 0 or log_factor > 700.0:
            return 0.0
        size = _inner(np.abs(values), weights)
        return max(0.0, math.exp(log_factor) * (total - error * size) * (1 - error))

    def _right_of(self, x: float) -> tuple[Floats, Floats, float]:
        """Values and distances of the grid points beyond x that matter, and the relative error of a sum over them.

        Points so far away that the tilt makes them worth less than exp(−FARTHEST) are left out; all of them
        together have a tilted mass of less than 2.
        """
        if x < self.least:
            raise ValueError(f"TiltedSum: x must be at least {self.least!r}, got {x!r}.")
        start = max(0, math.floor(x / self.step) - self.bottom)
        end = len(self.places)
        if self.tilt > 0:
            end = min(end, start + 3 + math.ceil(FARTHEST / (self.tilt * self.step)))
        gaps = self.places[start:end] - x
        keep = gaps > 0
        error = self.relative + UNIT * (2 * len(gaps) + 16 * (abs(self.log_scale) + self.tilt * abs(x) + 100))
        # A distance is off by one rounding, and tilt·distance is at most about FARTHEST.
        return self.values[start:end][keep], gaps[keep], error + 32 * UNIT * FARTHEST


def _circular(parts: Sequence[tuple[Integers, Floats, int]], length: int) -> tuple[Floats, float]:
    """The convolution modulo ``length`` from index 0 on, and a bound of the error of each of its values."""
    rate = TRANSFORM_ERROR * UNIT * math.log2(length)
    half = length // 2 + 1
    log_size, log_most, angle, doubt = (np.zeros(half) for _ in range(4))
    for indices, masses, times in parts:
        spread = np.bincount(indices % length, weights=masses, minlength=length).astype(np.float64)
        transform = np.fft.rfft(spread)
        radius = 1.01 * rate * math.sqrt(length) * math.sqrt(_inner(spread, spread)) + 1e-300
        size = np.log(np.abs(transform) + 1e-300)
        turn = np.angle(transform)
        log_size += times * size
        log_most += times * np.log(np.abs(transform) + radius)
        angle += times * turn
        doubt += times * (np.abs(size) + np.abs(turn) + 4)
    most = np.exp(np.minimum(log_most, 700.0))
    # A few roundings for each part, and one of the sum so far for each that is added to it.
    doubt *= (32 + 2 * len(parts)) * UNIT
    errors = most * (-np.expm1(np.minimum(0.0, log_size - log_most)) + np.minimum(2.0, doubt))
    values = np.fft.irfft(np.exp(log_size) * (np.cos(angle) + 1j * np.sin(angle)), n=length)
    absolute = 2 * float(errors.sum()) / length * (1 + length * UNIT)
    absolute += 1.1 * rate * (math.sqrt(_inner(values, values)) + absolute * math.sqrt(length))
    return values, 1.01 * absolute
