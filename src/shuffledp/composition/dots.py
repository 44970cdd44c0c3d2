"""A curve kept as dots: its values at some hundred points, to be composed without computing it once more."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from shuffledp.array import Floats, Integers
from shuffledp.numerics.root import find_crossing
from shuffledp.privacy.curve import LARGEST_EPSILON, PrivacyCurve
from shuffledp.privacy.loss import FLAT, LossGrid, LossSurvey, round_step
from shuffledp.privacy.value import BoundValue

SURVEYED = 1e-12
SHARE, REACH = 0.03, 5.0
"""The distance of dots in standard deviations of the loss, and up to how many of these they are as near as that."""
BETWEEN, FALL = 64, 1.35
"""Dots may come nearer by the first factor, and do so where the curve falls by more than the second in between."""
LEAST = 1e-20
"""Dots go on until the curve is at most about this."""
MARGIN = 1e-12
"""More than the relative rounding of a chord in floats."""
MAGIC = b"shuffledp dots 1\n"


@dataclass(frozen=True, eq=False)
class Dots:
    """Upper values of δ(ε), never rising, at multiples of a step that has few bits, from ε = 0 on."""

    step: float
    indices: Integers
    upper: Floats

    @classmethod
    def of(cls, curve: PrivacyCurve) -> Self:
        """The dots of a curve: near each other where its loss mostly is, wider beyond."""
        survey = LossSurvey(curve, SURVEYED)
        deviation = math.sqrt(survey.variance)
        grid = LossGrid(curve, round_step(SHARE / BETWEEN * deviation), survey.floor)
        grid.look_at(grid.spread(REACH * deviation, max(LEAST, survey.floor * FLAT), BETWEEN))
        while True:
            found = cls._known(grid)
            before, after, cells = found.upper[:-1], found.upper[1:], np.diff(found.indices)
            falls = (before > FALL * after) & (before > LEAST) & (cells > 1)
            if not falls.any():
                return found
            grid.look_at((found.indices[:-1] + cells // 2)[falls])

    @classmethod
    def _known(cls, grid: LossGrid) -> Self:
        indices = np.array(sorted(grid.known), dtype=np.int64)
        upper = np.array([grid.known[place][0] for place in indices.tolist()])
        # The true curve never rises, whatever its bounds do.
        return cls(grid.step, indices, np.minimum.accumulate(np.minimum(1.0, upper)))

    def content(self) -> bytes:
        """Every bit of the dots."""
        parts = (np.array([self.step]), self.indices, self.upper)
        return MAGIC + b"".join(part.astype(part.dtype.newbyteorder("<")).tobytes() for part in parts)

    @classmethod
    def read(cls, content: bytes) -> Self:
        """The inverse of ``content``, which is to be compared with its hash before."""
        body = content[len(MAGIC) :]
        count = (len(body) - 8) // 16
        (step,), upper = np.frombuffer(body[:8], "<f8").tolist(), np.frombuffer(body[8 + 8 * count :], "<f8")
        return cls(step, np.frombuffer(body[8 : 8 + 8 * count], "<i8").astype(np.int64), upper.astype(np.float64))

    @cached_property
    def places(self) -> Floats:
        return np.asarray(self.step * self.indices.astype(np.float64))


def fingerprint(content: bytes) -> str:
    """The hash by which stored dots are known."""
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True)
class DottedCurve(PrivacyCurve):
    """The chords between dots of a curve.

    Theorem: connect the dots [Doroshenko et al. 2022]: the true δ is convex in e^ε and never rises, so that chords
    between upper values are above it, and beyond the last dot its own value is (privacy/loss.py).
    Requires: the dots are values of a guarantee for all inputs.
    Returns: a certified upper bound; ``slack`` is the rounding of the chords, not their distance to the curve.
    """

    dots: Dots

    @property
    def certified(self) -> bool:
        return True

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        upper, places = self.dots.upper, self.dots.places
        seen = np.minimum(epsilons, places[-1])
        right = np.clip(np.searchsorted(places, seen, side="left"), 1, len(places) - 1)
        left = right - 1
        # (e^b − e^ε)/(e^b − e^a) for a ≤ ε ≤ b, by factors that are each precise.
        weight = np.expm1(places[right] - seen) * np.exp(seen - places[left]) / np.expm1(places[right] - places[left])
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
        if excess(LARGEST_EPSILON) < 0:
            return self._value(math.inf, 0.0)
        found = find_crossing(excess, 0.0, LARGEST_EPSILON, relative=1e-12)
        return self._value(found.above, found.above - found.below)
