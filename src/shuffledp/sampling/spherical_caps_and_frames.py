"""Spherical caps and public Hadamard frames, for mechanisms on vectors."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from flint import arb, ctx, fmpq
from numpy.typing import NDArray

from shuffledp._core.validation import Floats, Integers
from shuffledp.numerics.ball_arithmetic import precision, to_rational
from shuffledp.sampling.noise import exponentials, normals
from shuffledp.sampling.random_sources import RandomSource

# --- Spherical caps ---


MOMENT_BITS = 192
MIN_BELL_CURVE_DIMENSION = 6
"""Below this dimension the elevation is proposed uniformly: its law is not yet close to a bell curve."""
MIN_CAP_DEVIATIONS = 0.7
"""Caps that begin fewer standard deviations above the equator than this are drawn from the whole upper half."""
MAX_LENGTH_RATIO = 4.0
"""A direction is accepted if its length is at least 1/4 of that of all numbers drawn with it."""


@lru_cache(maxsize=256)
def _cap_probability(dimension: int, height: float, bits: int) -> arb:
    """Returns the share of a cap, cached: that of a flat cap takes a second and is needed repeatedly."""
    with precision(bits):
        ball = arb(to_rational(height))
        return (1 - ball * ball).beta_lower(arb(fmpq(dimension - 1, 2)), arb(0.5), regularized=True) / 2


@dataclass(frozen=True)
class Cap:
    """The points of the unit sphere in ``dimension`` ≥ 2 whose height ⟨V, x⟩ is at least ``height``, from 0 to 1.

    With C = 1/B(½, (d−1)/2) the height t of a uniform point has the density C(1−t²)^((d−3)/2), and its elevation φ,
    t = sin φ, a density proportional to cos^(d−2) φ.
    """

    dimension: int
    height: float

    def share(self) -> arb:
        """Returns q, the probability that a uniform point is in the cap, as a ball at the working precision."""
        return _cap_probability(self.dimension, self.height, ctx.prec)

    def mean(self) -> arb:
        """Returns E[t] in the cap: ∫ tC(1−t²)^((d−3)/2) = C(1−γ²)^((d−1)/2)/(d−1), over q."""
        return self._edge() / (self.dimension - 1) / self.share()

    def second_moment(self) -> arb:
        """Returns E[t²] in the cap: (1−dt²)(1−t²)^((d−3)/2) is the derivative of t(1−t²)^((d−1)/2)."""
        return (1 + arb(to_rational(self.height)) * self._edge() / self.share()) / self.dimension

    def _edge(self) -> arb:
        """Returns C(1−γ²)^((d−1)/2)."""
        d, height = self.dimension, arb(to_rational(self.height))
        log_constant = arb(fmpq(d, 2)).lgamma() - arb(fmpq(d - 1, 2)).lgamma()
        return log_constant.exp() / arb.pi().sqrt() * (1 - height * height) ** arb(fmpq(d - 1, 2))

    @cached_property
    def moments(self) -> tuple[float, float]:
        """E[t] and E[t²] in the cap, as floats."""
        with precision(MOMENT_BITS):
            return float(self.mean()), float(self.second_moment())

    # --- Drawing ---

    def elevations(self, source: RandomSource, count: int) -> Floats:
        """Draws independent elevations of uniform points of the cap.

        By rejection: a proposal is accepted if an exponential number exceeds its cost, the log of the ratio of the
        densities. The density is that of the cap, up to the rounding of the cost.
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
        power, start = self.dimension - 2, self._lowest_elevation
        if self.dimension < MIN_BELL_CURVE_DIMENSION:
            share: Floats = source.integers_below(1 << 53, count).astype(np.float64) * 2.0**-53
            angle: Floats = start + (math.pi / 2 - start) * share
            cost = power * (math.log(math.cos(start)) - _log_cosine(angle))
        elif start * math.sqrt(power) < MIN_CAP_DEVIATIONS:
            angle = np.abs(normals(source, count, 1)[:, 0]) / math.sqrt(power)
            cost = -power * (_log_cosine(angle) + angle * angle / 2)
        else:
            slope = power * math.tan(start)
            beyond = exponentials(source, count) / slope
            angle = start + beyond
            cost = power * (math.log(math.cos(start)) - _log_cosine(angle)) - slope * beyond
        return angle, np.where((angle >= start) & (angle < math.pi / 2), cost, np.inf)

    @cached_property
    def _lowest_elevation(self) -> float:
        """The elevation at which the cap begins."""
        return math.asin(self.height)

    def points(self, source: RandomSource, poles: Floats, in_cap: np.ndarray) -> Floats:
        """Draws for each row a uniform point of the cap around its pole (a unit vector), or of the whole sphere.

        A point of a cap is drawn around the first axis and moved by the reflection that takes the axis to the pole. It
        is within 2^-38 of the real-number point. A point of the whole sphere does not depend on the pole at all.
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
        """Draws uniform unit vectors; where ``in_cap``, with all axes but the first.

        Numbers are drawn in pairs, and a vector that is short compared with all numbers drawn for it is drawn again:
        its direction would be less precise. Its length carries no information about its direction.
        """
        d = self.dimension
        drawn = normals(source, len(in_cap), d + d % 2)
        everything = np.einsum("ij,ij->i", drawn, drawn)
        used = everything - np.where(in_cap, drawn[:, 0] ** 2, 0.0)
        if d % 2:
            used -= drawn[:, -1] ** 2
        points = drawn[:, :d]
        points *= (1 / np.sqrt(np.maximum(used, everything * 2.0**-40)))[:, None]
        short = np.flatnonzero(used * MAX_LENGTH_RATIO**2 < everything)
        if short.size:
            points[short] = self._directions(source, in_cap[short])
        return points


def _log_cosine(angle: Floats) -> Floats:
    """Returns log cos, without a warning for angles beyond a right one."""
    return np.log(np.maximum(np.cos(angle), np.finfo(np.float64).tiny))


# --- Hadamard frames: every vector has coefficients that are all small ---


CLIPPING_LIMITS = (*[0.95] * 20, *[0.999] * 280)
"""Limits of the coefficients in each round, as shares of the final limit: restoring the vector may add a little.

Most vectors need three or four rounds; the few that are nearly a column of the frame need the finer limit.
"""
OVERRELAXATION = 1.9
"""Overrelaxation: clipping goes almost twice as far as needed. Such alternating projections still converge, faster."""


@dataclass(frozen=True)
class HadamardFrame:
    """U: d rows of the orthonormal Hadamard matrix of size N = 2^⌈log2 2d⌉, rows and columns with signs; UUᵀ = I.

    The choice of rows and signs is random but public: they follow from ``number`` by SHAKE-256, so that everybody has
    the same. The first d rows would not do: their columns come in equal pairs, and many vectors then have no
    coefficients that are all small. Signs of the rows keep simple vectors, such as a constant one, away from the
    frame's columns.
    """

    dimension: int
    number: int = 0

    @cached_property
    def size(self) -> int:
        return 1 << (2 * self.dimension - 1).bit_length()

    @cached_property
    def _rows_and_signs(self) -> tuple[Integers, Floats, Floats]:
        """The chosen rows, their signs, and the signs of the columns over √N."""
        text = f"Hadamard frame {self.number} of {self.dimension} rows of {self.size}"
        words = np.frombuffer(hashlib.shake_256(text.encode()).digest(24 * self.size), dtype="<u8")
        keys, row_words, column_words = np.split(words, 3)
        rows = np.sort(np.argsort(keys, kind="stable")[: self.dimension])
        row_signs, column_signs = (
            np.where(part >> np.uint64(63) == 1, -1.0, 1.0) for part in (row_words, column_words)
        )
        return rows, row_signs[: self.dimension], column_signs / np.sqrt(self.size)

    def analyse(self, vectors: Floats) -> Floats:
        """Returns Uᵀx for each row x."""
        rows, row_signs, column_signs = self._rows_and_signs
        spread = np.zeros((len(vectors), self.size))
        spread[:, rows] = vectors * row_signs
        return hadamard_transform(spread) * column_signs

    def combine(self, coefficients: Floats) -> Floats:
        """Returns Ua for each row a."""
        rows, row_signs, column_signs = self._rows_and_signs
        return np.asarray(hadamard_transform(coefficients * column_signs)[:, rows] * row_signs)

    def small_coefficients(self, vectors: Floats, limit: float) -> tuple[Floats, NDArray[np.bool_]]:
        """Returns coefficients a with Ua = x, and for each row True if all are within the limit.

        Repeats until all are within: clip the coefficients above the limit, then restore the vector by spreading the
        removed part over all coefficients.
        """
        result = self.analyse(vectors)
        left = np.flatnonzero(np.abs(result).max(axis=1) > limit)
        for share in CLIPPING_LIMITS:
            if not left.size:
                break
            held = result[left]
            held += OVERRELAXATION * (np.clip(held, -share * limit, share * limit) - held)
            result[left] = held + self.analyse(vectors[left] - self.combine(held))
            left = left[np.abs(result[left]).max(axis=1) > limit]
        within = np.ones(len(vectors), dtype=np.bool_)
        within[left] = False
        return result, within


def hadamard_transform(rows: Floats) -> Floats:
    """Multiplies each row by the Hadamard matrix of its length, a power of two, in the natural order.

    Internally users run along the last axis, so that every step adds and subtracts long contiguous pieces of memory.
    """
    users, length = rows.shape
    columns = np.array(rows.T, order="C")
    difference = np.empty(length // 2 * users)
    half = 1
    while half < length:
        pairs = columns.reshape(-1, 2, half, users)
        first, second = pairs[:, 0], pairs[:, 1]
        np.subtract(first, second, out=difference.reshape(first.shape))
        first += second
        second[...] = difference.reshape(first.shape)
        half *= 2
    return np.ascontiguousarray(columns.T)
