"""A privacy curve at any ε from proved values at a few: chords of a function that is convex in e^ε."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

from shuffledp.array import Floats
from shuffledp.privacy.curve import LARGEST_EPSILON

NOTHING_LEFT = 1e-24
ROUNDING = 1e-14


@dataclass(frozen=True, eq=False)
class Knots:
    """``lower`` ≤ δ ≤ ``upper`` at ``points``, from 0 on, where δ(ε) is convex in e^ε and falls, to 0 at ``largest``.

    Theorem: the largest divergence over all datasets is convex in e^ε: between two points the chord is above it; where
    the chord of two neighbours goes on, it is below it.
    """

    points: Floats
    upper: Floats
    lower: Floats
    largest: float

    @classmethod
    def of(cls, at: Callable[[float], tuple[float, float]], step: float, largest: float, most: int) -> Self:
        """From (upper, lower) at ε = 0, step, 2·step, … until nothing is left."""
        points: list[float] = []
        uppers: list[float] = []
        lowers: list[float] = []
        while len(points) < most:
            point = min(step * len(points), largest, LARGEST_EPSILON)
            upper, lower = at(point)
            points.append(point)
            uppers.append(upper)
            lowers.append(lower)
            if point >= min(largest, LARGEST_EPSILON) or upper < NOTHING_LEFT:
                break
        return cls(np.array(points), np.array(uppers), np.array(lowers), largest)

    def between(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """(upper, lower) at any ε ≥ 0."""
        points, upper, lower = self.points, self.upper, self.lower
        if len(points) == 1:
            # Nothing is told at ε = 0 already.
            return np.full_like(epsilons, upper[0]), np.zeros_like(epsilons)
        seen = np.minimum(epsilons, points[-1])
        right = np.clip(np.searchsorted(points, seen, side="right"), 1, len(points) - 1)
        share = _share(seen, points[right - 1], points[right])
        most = (upper[right - 1] + (upper[right] - upper[right - 1]) * share) * (1 + ROUNDING)
        # Where the chord between two neighbours of a convex function goes on, it is below the function. Before ε = 0
        # comes the mirror image of the first ε beyond it: D_x(P‖Q) = 1 − x + x·D_{1/x}(Q‖P).
        before = np.concatenate(([-points[1]], points))[right - 1]
        mirrored = -np.expm1(-points[1]) + upper[1] * np.exp(-points[1])
        above = np.concatenate(([mirrored], upper))[right - 1]
        reach = (seen - points[right - 1]) / (points[right - 1] - before)
        least = lower[right - 1] * (1 + reach) - above * reach * np.exp(points[right] - before)
        least = np.maximum(lower[right], least * (1 - ROUNDING) - ROUNDING * above)
        beyond = epsilons > points[-1]
        most = np.where(beyond & (epsilons >= self.largest), 0.0, most)
        return most, np.where(beyond, 0.0, np.maximum(0.0, least))


def _share(points: Floats, left: Floats, right: Floats) -> Floats:
    """How far e^ε has gone from the left to the right end, rounded down."""
    # The exponentials are off by an ulp or two, which moves the share by less than the rounding.
    return np.asarray(np.maximum(0.0, np.expm1(points - left) / np.expm1(right - left) * (1 - ROUNDING)))
