"""``SampledCurve``: a privacy curve stored as some hundred points, to compose it later without computing it again."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from shuffledp._core.validation import Floats, Integers
from shuffledp.numerics.roots import find_crossing
from shuffledp.privacy.curve import MAX_EPSILON, BoundValue, PrivacyCurve
from shuffledp.privacy.privacy_loss import FLOOR_FACTOR, SURVEY_BUDGET, LossGrid, LossSurvey, round_step

POINT_SPACING, POINT_REACH = 0.03, 5.0
"""Spacing of the points and the range over which it is kept, both in standard deviations of the loss."""
MAX_REFINEMENT, MAX_FALL = 64, 1.35
"""Points are refined by at most the first factor where the curve falls by more than the second between two of them."""
NEGLIGIBLE_DELTA = 1e-20
"""Points are added until the curve is at most about this."""
MARGIN = 1e-12
"""Exceeds the relative rounding error of a chord in floats."""
MAGIC = b"shuffledp dots 1\n"


@dataclass(frozen=True, eq=False)
class SampledDeltas:
    """Upper values of δ(ε), never rising, at multiples of a step of few bits, from ε = 0 on."""

    step: float
    indices: Integers
    upper: Floats

    @classmethod
    def from_curve(cls, curve: PrivacyCurve) -> Self:
        """Samples a curve: densely where most of its loss lies, more widely beyond."""
        survey = LossSurvey(curve, SURVEY_BUDGET)
        deviation = math.sqrt(survey.variance)
        grid = LossGrid(curve, round_step(POINT_SPACING / MAX_REFINEMENT * deviation), survey.floor)
        grid.evaluate(
            grid.choose_points(
                POINT_REACH * deviation, max(NEGLIGIBLE_DELTA, survey.floor * FLOOR_FACTOR), MAX_REFINEMENT
            )
        )
        while True:
            samples = cls._from_grid(grid)
            before, after, cells = samples.upper[:-1], samples.upper[1:], np.diff(samples.indices)
            falls = (before > MAX_FALL * after) & (before > NEGLIGIBLE_DELTA) & (cells > 1)
            if not falls.any():
                return samples
            grid.evaluate((samples.indices[:-1] + cells // 2)[falls])

    @classmethod
    def _from_grid(cls, grid: LossGrid) -> Self:
        indices = np.array(sorted(grid.evaluated_bounds), dtype=np.int64)
        upper = np.array([grid.evaluated_bounds[place][0] for place in indices.tolist()])
        # The true curve never rises, whatever its bounds do.
        return cls(grid.step, indices, np.minimum.accumulate(np.minimum(1.0, upper)))

    def to_bytes(self) -> bytes:
        """Returns the points as bytes, without loss."""
        parts = (np.array([self.step]), self.indices, self.upper)
        return MAGIC + b"".join(part.astype(part.dtype.newbyteorder("<")).tobytes() for part in parts)

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Restores the result of ``to_bytes``; compare its hash first."""
        body = content[len(MAGIC) :]
        count = (len(body) - 8) // 16
        (step,), upper = np.frombuffer(body[:8], "<f8").tolist(), np.frombuffer(body[8 + 8 * count :], "<f8")
        return cls(step, np.frombuffer(body[8 : 8 + 8 * count], "<i8").astype(np.int64), upper.astype(np.float64))

    @cached_property
    def epsilons(self) -> Floats:
        return np.asarray(self.step * self.indices.astype(np.float64))


def fingerprint(content: bytes) -> str:
    """Returns the hash that identifies stored points."""
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True)
class SampledCurve(PrivacyCurve):
    """The chords between sampled upper values of a curve.

    Theorem: connect the dots [Doroshenko et al. 2022]: the true δ is convex in e^ε and never rises, so chords between
    upper values lie above it, and beyond the last point that point's value does (privacy/privacy_loss.py).
    Requires: the points are values of a guarantee for all inputs.
    Returns: a certified upper bound; ``slack`` is the rounding of the chords, not their distance to the curve.
    """

    samples: SampledDeltas

    @property
    def certified(self) -> bool:
        return True

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        upper, places = self.samples.upper, self.samples.epsilons
        points = np.minimum(epsilons, places[-1])
        right = np.clip(np.searchsorted(places, points, side="left"), 1, len(places) - 1)
        left = right - 1
        # (e^b − e^ε)/(e^b − e^a) for a ≤ ε ≤ b, as a product of factors that are each accurate.
        weight = (
            np.expm1(places[right] - points) * np.exp(points - places[left]) / np.expm1(places[right] - places[left])
        )
        chord = upper[right] + (upper[left] - upper[right]) * weight
        return np.minimum(1.0, chord * (1 + MARGIN)), np.minimum(1.0, chord * (1 - MARGIN))

    def _delta(self, epsilon: float) -> BoundValue:
        (upper,), (lower,) = self._profile(np.array([epsilon]))
        return self._value(float(upper), max(0.0, math.nextafter(upper - lower, math.inf)))

    def _epsilon(self, delta: float) -> BoundValue:
        def excess(epsilon: float) -> float:
            return delta - self._delta(epsilon).upper

        if excess(0.0) >= 0:
            return self._value(0.0, 0.0)
        if excess(MAX_EPSILON) < 0:
            return self._value(math.inf, 0.0)
        crossing = find_crossing(excess, 0.0, MAX_EPSILON, relative=1e-12)
        return self._value(crossing.above, crossing.above - crossing.below)
