"""Certified values of a privacy curve at many ε at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shuffledp import argument
from shuffledp.array import Floats
from shuffledp.numerics.expectation import PositivePartMean
from shuffledp.numerics.finite_law import Bracket
from shuffledp.privacy.record import Record

MARGIN = 1e-12
"""Relative margin by which a chord in floats must stay below what it is compared with."""


@dataclass(frozen=True, eq=False)
class Profile(Record):
    """``lower`` ≤ δ(ε) ≤ ``upper`` at each of ``epsilons``: certified, the worse of both directions.

    Of several bounds ``upper`` is the smallest, and ``lower`` belongs to the bound that gave it.
    """

    epsilons: Floats
    upper: Floats
    lower: Floats


def checked_epsilons(epsilons: ArrayLike) -> Floats:
    """Finite numbers of at least 0, in a row."""
    points = np.atleast_1d(argument.reals("PrivacyCurve.profile", "epsilons", epsilons))
    if points.ndim != 1 or not np.all(np.isfinite(points)) or np.any(points < 0):
        raise ValueError("PrivacyCurve.profile: epsilons must be a row of finite numbers of at least 0.")
    return points


def largest_of(divergences: Sequence[PositivePartMean], epsilons: Floats, *, convex: bool) -> tuple[Floats, Floats]:
    """Certified (upper, lower) of the largest divergence at each ε.

    ``convex`` says that every divergence is convex in e^ε. Then one that stays below the largest is looked at only
    where the chord between two of its values does not prove it.
    """
    order = np.argsort(epsilons, kind="stable")
    points = epsilons[order]
    largest = _Largest(points)
    if convex and len(divergences) > 1 and len(points) > 3:
        leader = _leader(divergences, points)
        largest.include_everywhere(divergences[leader])
        for number, divergence in enumerate(divergences):
            if number != leader:
                largest.include_where_needed(divergence)
    else:
        for divergence in divergences:
            largest.include_everywhere(divergence)
    upper, lower = np.empty_like(points), np.empty_like(points)
    upper[order], lower[order] = largest.upper, largest.lower
    return np.minimum(upper, 1.0), np.minimum(lower, 1.0)


def _leader(divergences: Sequence[PositivePartMean], points: Floats) -> int:
    """The divergence that is likely to be the largest almost everywhere."""
    middle = float(points[len(points) // 2])
    return int(np.argmax([divergence.log_estimate(middle) for divergence in divergences]))


class _Largest:
    """The running maximum of divergences on sorted points."""

    def __init__(self, points: Floats) -> None:
        self.points = points
        self.ratios = np.exp(points)
        self.upper = np.zeros_like(points)
        self.lower = np.zeros_like(points)

    def include_everywhere(self, divergence: PositivePartMean) -> None:
        for place, found in enumerate(divergence.brackets(self.points.tolist())):
            self._record(found, place)

    def include(self, divergence: PositivePartMean, place: int) -> float:
        (found,) = divergence.brackets([float(self.points[place])])
        return self._record(found, place)

    def _record(self, found: Bracket, place: int) -> float:
        upper = found.upper_float()
        self.upper[place] = max(self.upper[place], upper)
        self.lower[place] = max(self.lower[place], found.lower_float())
        return upper

    def include_where_needed(self, divergence: PositivePartMean) -> None:
        last = len(self.points) - 1
        intervals = [(0, self.include(divergence, 0), last, self.include(divergence, last))]
        while intervals:
            start, first, end, second = intervals.pop()
            if end - start < 2 or self._chord_is_below(start, first, end, second):
                continue
            middle = (start + end) // 2
            value = self.include(divergence, middle)
            intervals += [(start, first, middle, value), (middle, value, end, second)]

    def _chord_is_below(self, start: int, first: float, end: int, second: float) -> bool:
        """Whether the chord, which is above the divergence, is below a proved lower value everywhere inside."""
        inside = slice(start + 1, end)
        left, right = self.ratios[start], self.ratios[end]
        if not right > left:
            return False
        share = (self.ratios[inside] - left) / (right - left)
        # e^ε in floats is off by an ulp or so, which moves the share by at most this much.
        doubt = 8 * np.spacing(right) / (right - left)
        chord = first + (second - first) * np.maximum(0.0, share - doubt)
        return bool(np.all(chord * (1 + MARGIN) <= self.lower[inside]))
