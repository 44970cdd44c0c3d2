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
from shuffledp.privacy.loss import LossGrid, Survey, chord_gaps, round_step
from shuffledp.privacy.value import BoundValue

SURVEYED = 1e-12
SHARE, REACH = 0.03, 5.0
"""The distance of dots in standard deviations of the loss, and up to how many of these they are as near as that."""
BETWEEN = 64
FALL = 4.0
"""Dots may come nearer by the first factor, and do so where a bound that is not convex falls by the second."""
LEAST = 1e-20
"""Dots go on until the curve is at most about this."""
MARGIN = 1e-12
"""More than the relative rounding of a chord in floats."""
MAGIC = b"shuffledp dots 1\n"


@dataclass(frozen=True, eq=False)
class Dots:
    """δ(ε) at multiples of a step that has few bits: certified on both sides."""

    step: float
    indices: Integers
    upper: Floats
    lower: Floats

    @classmethod
    def of(cls, curve: PrivacyCurve) -> Self:
        """The dots of a curve: near each other where its loss mostly is, wider beyond."""
        survey = Survey(curve, SURVEYED)
        deviation = math.sqrt(survey.variance)
        grid = LossGrid(curve, round_step(SHARE / BETWEEN * deviation), survey.floor)
        grid.pairs(REACH * deviation, LEAST, lambda places: np.full_like(places, LEAST), stride=BETWEEN)
        while True:
            found = cls._known(grid)
            cells = np.diff(found.indices)
            falls = (found.upper[:-1] > FALL * found.upper[1:]) & (found.upper[:-1] > LEAST) & (cells > 1)
            if not falls.any():
                return found
            grid.look_at((found.indices[:-1] + cells // 2)[falls])

    @classmethod
    def _known(cls, grid: LossGrid) -> Self:
        indices = np.array(sorted(grid.known), dtype=np.int64)
        both = np.array([grid.known[place] for place in indices.tolist()])
        # The true curve never rises, whatever its bounds do.
        upper = np.minimum.accumulate(np.minimum(1.0, both[:, 0]))
        lower = np.minimum(upper, np.maximum.accumulate(both[::-1, 1])[::-1])
        return cls(grid.step, indices, upper, lower)

    def content(self) -> bytes:
        """Every bit of the dots."""
        parts = (np.array([self.step]), self.indices, self.upper, self.lower)
        return MAGIC + b"".join(part.astype(part.dtype.newbyteorder("<")).tobytes() for part in parts)

    @classmethod
    def read(cls, content: bytes) -> Self:
        """The inverse of ``content``, which is to be compared with its hash before."""
        body = content[len(MAGIC) :]
        (step,), rest = np.frombuffer(body[:8], "<f8").tolist(), body[8:]
        count = len(rest) // 24
        indices = np.frombuffer(rest[: 8 * count], "<i8").astype(np.int64)
        upper, lower = np.frombuffer(rest[8 * count :], "<f8").astype(np.float64).reshape(2, count)
        return cls(step, indices, upper, lower)

    @cached_property
    def places(self) -> Floats:
        return np.asarray(self.step * self.indices.astype(np.float64))


def fingerprint(content: bytes) -> str:
    """The hash by which stored dots are known."""
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True)
class DottedCurve(PrivacyCurve):
    """The chords between dots of a curve.

    Theorem: connect the dots [Doroshenko et al. 2022]: the true δ is convex in e^ε, so that chords between upper values
    are above it (privacy/loss.py).
    Requires: the dots are values of a guarantee for all inputs, from ε = 0 on.
    Returns: upper values on the chords, and beyond the last dot its own; lower values below the true curve.
    """

    dots: Dots

    @property
    def certified(self) -> bool:
        return True

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        dots, places = self.dots, self.dots.places
        seen = np.minimum(epsilons, places[-1])
        right = np.clip(np.searchsorted(places, seen, side="left"), 1, len(places) - 1)
        left = right - 1
        # (e^b − e^ε)/(e^b − e^a) for a ≤ ε ≤ b, by factors that are each precise.
        weight = np.expm1(places[right] - seen) * np.exp(seen - places[left]) / np.expm1(places[right] - places[left])
        upper = dots.upper[right] + (dots.upper[left] - dots.upper[right]) * weight
        lower = dots.lower[right] + (dots.lower[left] - dots.lower[right]) * weight - self._gaps[left]
        lower = np.maximum(dots.lower[right], lower * (1 - MARGIN))
        lower = np.where(epsilons > places[-1], 0.0, lower)
        return np.minimum(1.0, upper * (1 + MARGIN)), np.maximum(0.0, np.minimum(lower, upper))

    @cached_property
    def _gaps(self) -> Floats:
        dots = self.dots
        return chord_gaps(dots.step, dots.indices, dots.upper, dots.lower)

    def _delta(self, epsilon: float) -> BoundValue:
        (upper,), (lower,) = self._profile(np.array([epsilon]))
        return self._value(float(upper), max(0.0, math.nextafter(upper - lower, math.inf)))

    def _epsilon(self, delta: float) -> BoundValue:
        def excess(epsilon: float) -> float:
            return self._delta(epsilon).upper - delta

        if excess(0.0) <= 0:
            return self._value(0.0, 0.0)
        if excess(LARGEST_EPSILON) > 0:
            return self._value(math.inf, math.inf)
        found = find_crossing(lambda epsilon: -excess(epsilon), 0.0, LARGEST_EPSILON, relative=1e-12)
        return self._value(found.above, found.above)
