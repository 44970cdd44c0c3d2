"""Convex, decreasing, piecewise linear functions F of x = e^y with kinks on a grid of y, as measures.

F(x) = Σ_j w_j·(1 − x/x_j)_+ + rest, x_j = e^(j·h), w_j ≥ 0: the weights are x_j times the jumps of the slope. All
functions here are symmetric: F(x) = 1 − x + x·F(1/x), so that values at x ≥ 1 tell everything, and F(0) = 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shuffledp.array import Floats, Integers
from shuffledp.numerics.convolution import UNIT, GridMeasure

LEAST_HEIGHT = 1e-280
MOST_RAISED = 1 + 1e-9
"""What floats lost beyond this factor, by underflow, is added to the rest."""
SMALLEST = 1e-300
"""A mass at 0 that changes nothing and lets the logarithm of the measure exist."""


@dataclass(frozen=True)
class Kinked:
    """One such function: the measure of its kinks, and its value at infinity."""

    kinks: GridMeasure
    rest: float


def kinked(step: float, indices: Integers, values: Floats, *, upper: bool) -> Kinked:
    """The largest symmetric convex decreasing function below ``values`` at e^(index·step), rounded to one side.

    It is at least (``upper``) or at most (otherwise) the exact one. Beyond the last index it is constant.
    Requires: ``indices`` ascend from 0; ``values`` are between 0 and 1.
    Every convex function that is below the values is below the largest one: so if the values are upper bounds of a
    symmetric convex decreasing F, what is returned is an upper bound of F everywhere.
    """
    heights = np.minimum.accumulate(values)
    # Slopes of smaller values would leave the floats.
    heights = np.where((heights > 0) & (heights < LEAST_HEIGHT), LEAST_HEIGHT if upper else 0.0, heights)
    beyond = np.expm1(step * indices.astype(np.float64))
    # The line through a point and its mirror image crosses x = 1 at this height: convexity allows no more.
    heights[0] = min(heights[0], float(np.min((2 * heights + beyond) / (beyond + 2))))
    heights = np.minimum.accumulate(heights)
    corners = lower_hull(beyond, heights)
    places = step * indices.astype(np.float64)
    at = places[corners]
    slopes = np.diff(heights[corners]) / (np.exp(at[:-1]) * np.expm1(np.diff(at)))
    jumps = np.zeros(len(places))
    jumps[corners[1:]] = np.maximum(0.0, np.diff(np.append(slopes, 0.0)))
    middle = max(SMALLEST, 1 - heights[0] + 2 * (slopes[0] if len(slopes) else 0.0))
    right = np.exp(places) * jumps
    masses = np.concatenate((jumps[:0:-1], [middle], right[1:]))
    scale, missing = _correction(places, heights, masses, upper=upper)
    both = np.concatenate((-indices[:0:-1], indices))
    return Kinked(GridMeasure(step, both, masses * scale), float(heights[-1] * scale) + missing)


def lower_hull(x: Floats, y: Floats) -> list[int]:
    """Indices of the corners of the lower convex hull, first and last included."""
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
    """The factor that makes the function at least, or at most, what it should be, and what to add to its rest.

    With w the masses, B_i = Σ_{j>i} w_j/x_j and F_i = F_{i+1} + (x_{i+1} − x_i)·B_i: sums of terms ≥ 0, so floats
    give F at every point, and at x = 0, up to the relative error below. Between points both sides are linear. The
    upper function must be above the hull, which is what it is at the points that carry mass; the lower one below all
    points, because floats may take a point that is a hair below a chord for one that is above it.
    """
    ys = np.concatenate((-places[:0:-1], places))
    x = np.exp(ys)
    wanted = np.concatenate(((-np.expm1(-places) + np.exp(-places) * heights)[:0:-1], heights))
    slopes = np.cumsum((masses / x)[::-1])[::-1]
    rises = np.exp(ys[:-1]) * np.expm1(np.diff(ys)) * slopes[1:]
    found = np.append(np.cumsum(rises[::-1])[::-1], 0.0) + heights[-1]
    at_zero = float(found[0] + x[0] * slopes[0])
    error = UNIT * (8 * len(ys) + 64)
    if not upper:
        ratios = wanted[found > 0] / found[found > 0]
        return min(1.0, float(ratios.min(initial=1.0)), 1 / at_zero) * (1 - error), 0.0
    wanted, found = wanted[masses > 0], found[masses > 0]
    small = wanted > found * MOST_RAISED
    ratios = wanted[~small & (found > 0)] / found[~small & (found > 0)]
    missing = float(np.max(wanted[small] - found[small], initial=0.0)) * (1 + error)
    return max(1.0, float(ratios.max(initial=1.0)), 1 / at_zero) * (1 + error), missing
