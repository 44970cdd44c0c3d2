"""The one root finder: a bracketing search for the sign change of an increasing function."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

PATIENCE = 3
"""Steps without halving the interval after which it is halved."""
MOST_STEPS = 300
"""Bisection alone narrows any pair of floats of one sign and scale in fewer steps than this."""


@dataclass(frozen=True)
class Crossing:
    """Two points with f(below) ≤ 0 < f(above) or the like: the sign change lies between them."""

    below: float
    above: float
    f_below: float
    f_above: float

    @property
    def middle(self) -> float:
        """The secant's estimate of the crossing, or the midpoint where a value is infinite."""
        if math.isinf(self.f_below) or math.isinf(self.f_above) or self.f_above == self.f_below:
            return 0.5 * (self.below + self.above)
        share = -self.f_below / (self.f_above - self.f_below)
        return self.below + min(1.0, max(0.0, share)) * (self.above - self.below)


def find_crossing(
    f: Callable[[float], float],
    low: float,
    high: float,
    *,
    guess: float | None = None,
    slope: float | None = None,
    relative: float = 1e-12,
    absolute: float = 0.0,
) -> Crossing:
    """Narrow the point where the increasing function ``f`` changes from ≤ 0 to > 0 inside [low, high].

    The ends are not evaluated: the caller knows that f(low) ≤ 0 < f(high), and ``f`` may be infinite there.
    Inverse quadratic interpolation where three points allow it (Chandrupatla's test), secant otherwise,
    bisection when neither makes progress. A value of exactly 0 counts as below. With a ``slope`` (of f near the
    crossing) a single point already tells where to go next, and the search ends as soon as ``above`` is within
    the tolerance of the crossing by that slope.
    """
    below, above, f_below, f_above = low, high, -math.inf, math.inf
    x = guess if guess is not None and low < guess < high else 0.5 * (low + high)
    previous: tuple[float, float] | None = None
    widths: list[float] = []
    for step in range(MOST_STEPS):
        value = f(x)
        replaced = (below, f_below) if value <= 0 else (above, f_above)
        if value <= 0:
            below, f_below = x, value
        else:
            above, f_above = x, value
        width = above - below
        tolerance = relative * max(abs(below), abs(above)) + absolute
        if width <= tolerance or not below < 0.5 * (below + above) < above:
            break
        if slope is not None and f_above <= slope * tolerance:
            break
        widths.append(width)
        stalled = len(widths) > PATIENCE and width > 0.5 * widths[-1 - PATIENCE]
        x = 0.5 * (below + above)
        if not stalled:
            x = _next_point(below, above, f_below, f_above, previous, tolerance, slope, step)
        previous = replaced
    return Crossing(below, above, f_below, f_above)


def _next_point(
    below: float,
    above: float,
    f_below: float,
    f_above: float,
    previous: tuple[float, float] | None,
    tolerance: float,
    slope: float | None,
    step: int,
) -> float:
    middle = 0.5 * (below + above)
    if math.isinf(f_above) or math.isinf(f_below):
        # One side only is known: step from it by its own scale before halving the unknown side.
        known = below if math.isinf(f_above) else above
        if not math.isinf(f_below) or not math.isinf(f_above):
            factor = 1.1 if math.isinf(f_above) else 1 / 1.1
            stepped = known * math.pow(factor, 2 ** min(step, 8))
            if slope is not None and step < 4:
                value = f_below if math.isinf(f_above) else f_above
                stepped = known - value / slope + 0.5 * tolerance
            if below < stepped < above:
                return stepped
        return middle
    x = _interpolated(below, above, f_below, f_above, previous)
    # Landing a hair beyond the estimate makes the two ends close in together.
    nudge = 0.45 * tolerance
    x = x + nudge if abs(f_below) < abs(f_above) else x - nudge
    return x if below + 0.2 * tolerance < x < above - 0.2 * tolerance else middle


def _interpolated(
    below: float, above: float, f_below: float, f_above: float, previous: tuple[float, float] | None
) -> float:
    secant = below - f_below * (above - below) / (f_above - f_below)
    if previous is None or math.isinf(previous[1]):
        return secant
    old, f_old = previous
    if f_old in (f_below, f_above):
        return secant
    spans = ((f_below - f_above) * (f_below - f_old), (f_above - f_below) * (f_above - f_old))
    if 0.0 in (*spans, (f_old - f_below) * (f_old - f_above)):
        return secant
    inverse = (
        below * f_above * f_old / ((f_below - f_above) * (f_below - f_old))
        + above * f_below * f_old / ((f_above - f_below) * (f_above - f_old))
        + old * f_below * f_above / ((f_old - f_below) * (f_old - f_above))
    )
    return inverse if below < inverse < above else secant
