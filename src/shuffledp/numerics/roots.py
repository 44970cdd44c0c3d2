"""Root finding for monotone functions, one or many at once, and certified inverses of decreasing functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from shuffledp._core.validation import Floats
from shuffledp.numerics.distributions import Bracket

# --- A bracketing search for the sign change of an increasing function ---


MAX_SLOW_STEPS = 3
"""Steps without halving the interval after which it is halved."""
MAX_STEPS = 300
"""Bisection alone narrows any pair of floats of one sign and scale in fewer steps than this."""


@dataclass(frozen=True)
class Crossing:
    """Two points around a sign change: f(below) ≤ 0 < f(above)."""

    below: float
    above: float
    f_below: float
    f_above: float

    @property
    def middle(self) -> float:
        """The secant's estimate of the crossing, or the midpoint if a value is infinite."""
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
    """Narrows the point where the increasing function ``f`` changes from ≤ 0 to > 0 inside [low, high].

    The ends are not evaluated: the caller knows that f(low) ≤ 0 < f(high), and ``f`` may be infinite there. Inverse
    quadratic interpolation if three points allow it (Chandrupatla's test), secant otherwise, bisection if neither makes
    progress. A value of exactly 0 counts as below. With a ``slope`` (of f near the crossing) a single point already
    determines the next one, and the search ends once ``above`` is within the tolerance of the crossing by that slope.
    """
    below, above, f_below, f_above = low, high, -math.inf, math.inf
    x = guess if guess is not None and low < guess < high else 0.5 * (low + high)
    previous: tuple[float, float] | None = None
    widths: list[float] = []
    for step in range(MAX_STEPS):
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
        stalled = len(widths) > MAX_SLOW_STEPS and width > 0.5 * widths[-1 - MAX_SLOW_STEPS]
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
        # Only one side is known: step from it by its own scale before halving the unknown side.
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
    x = _interpolate(below, above, f_below, f_above, previous)
    # Landing slightly beyond the estimate lets both ends converge.
    nudge = 0.45 * tolerance
    x = x + nudge if abs(f_below) < abs(f_above) else x - nudge
    return x if below + 0.2 * tolerance < x < above - 0.2 * tolerance else middle


def _interpolate(
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


CERTIFIED_RELATIVE = 1e-11
SEARCH_RELATIVE = 1e-5
WIDTH_SHARE = 0.05
"""The upper end need not be placed more sharply than this share of the certified width."""
ZERO_CHECK_MARGIN = 1.0
"""A float estimate this far above the level needs no certified check at 0."""
STEP_RESOLUTION = 1e-15
"""Steps in x of less than this share of the natural scale are not distinguished."""
SMALLEST_FLOAT = 5e-324
MAX_WIDENINGS = 10


class DecreasingFunction(Protocol):
    """A decreasing function of x ≥ 0 with values in [0, 1]: certified values, and cheap ones to search with."""

    def bracket(self, x: float) -> Bracket: ...

    def log_estimate(self, x: float) -> float: ...

    def natural_scale(self) -> float:
        """Returns the increase of x for which f falls by about one standard deviation."""
        ...


@runtime_checkable
class HasQuickBrackets(Protocol):
    """A function with certified values, nearly as sharp, that take much less time: to search with."""

    def quick_bracket(self, x: float) -> Bracket: ...


@dataclass(frozen=True)
class InverseValue:
    """An inverse value: certainly f(upper) ≤ level, and the exact crossing is at least ``lower``."""

    upper: float
    lower: float
    method: str


def _root_log_score(log_value: float) -> float:
    """Returns √(−2·log f): nearly linear in x if f has a Gaussian tail, so that a secant converges at once."""
    return math.sqrt(-2.0 * log_value) if log_value < 0 else 0.0


def invert(function: DecreasingFunction, level: float, high: float, *, zero_at_high: bool) -> InverseValue:
    """Returns the smallest x in [0, high] with f(x) ≤ level; infinity if f(high) > level.

    ``zero_at_high`` promises f(high) = 0, a certified cap.
    """
    log_level = math.log(level)
    if function.log_estimate(0.0) <= log_level + ZERO_CHECK_MARGIN:
        at_zero = function.bracket(0.0)
        if at_zero.upper <= level:
            return InverseValue(0.0, 0.0, at_zero.method)
    if not zero_at_high and function.log_estimate(high) > log_level:
        at_high = function.bracket(high)
        if at_high.lower > level:
            return InverseValue(math.inf, high, at_high.method)
    target = _root_log_score(log_level)

    def distance(x: float) -> float:
        return _root_log_score(function.log_estimate(x)) - target

    scale = function.natural_scale()
    guess = min(max(0.5, target - 1.5) * scale, 0.9 * high)
    found = find_crossing(distance, 0.0, high, guess=guess, relative=SEARCH_RELATIVE, absolute=STEP_RESOLUTION * scale)
    start = found.middle
    aside = start * (1 - 1e-3)
    slope = (distance(start) - distance(aside)) / (start - aside) if aside < start else math.nan
    certifier = _Certifier(function, level, high, slope, STEP_RESOLUTION * scale)
    result = certifier.run(start)
    if result.upper == high and not (zero_at_high or function.bracket(high).upper <= level):
        return InverseValue(math.inf, certifier.lower_end(high, 0.0), result.method)
    if result.lower == 0.0 and function.bracket(0.0).upper <= level:
        return InverseValue(0.0, 0.0, result.method)
    return result


class _Certifier:
    """Moves a good guess to a certified upper end, then proves a lower one.

    It searches with quick values if there are any; the upper end is proved with the function's own.
    """

    def __init__(self, function: DecreasingFunction, level: float, high: float, slope: float, least: float) -> None:
        self.function = function
        self.level = level
        self.high = high
        self.least = least
        self.target = _root_log_score(math.log(level))
        self.slope = slope if math.isfinite(slope) and slope > 0 else None
        self.evaluate = function.quick_bracket if isinstance(function, HasQuickBrackets) else function.bracket
        self.evaluated_brackets: dict[float, Bracket] = {}

    def value(self, x: float) -> Bracket:
        if x not in self.evaluated_brackets:
            self.evaluated_brackets[x] = self.evaluate(x)
        return self.evaluated_brackets[x]

    def excess(self, x: float) -> float:
        """Returns a number that is positive exactly if f(x) ≤ level is proved."""
        value = self.value(x)
        score = _root_log_score(value.log_upper()) - self.target
        return max(score, SMALLEST_FLOAT) if value.upper <= self.level else min(score, 0.0)

    def width(self, x: float) -> float:
        """Returns the distance, in x, of the two certified sides at x."""
        value = self.value(x)
        if self.slope is None or not value.lower > 0:
            return 0.0
        return max(0.0, _root_log_score(value.log_lower()) - _root_log_score(value.log_upper())) / self.slope

    def run(self, start: float) -> InverseValue:
        """Returns the certified inverse, from a guess near the crossing."""
        found = self._search(start)
        if self.evaluate == self.function.bracket or found.upper not in self.evaluated_brackets:
            return found
        own = self.function.bracket(found.upper)
        if own.upper <= self.level:
            return found
        # The quick values were slightly too optimistic: search with the function's own.
        self.evaluate, self.evaluated_brackets = self.function.bracket, {found.upper: own}
        return self._search(found.upper)

    def _search(self, start: float) -> InverseValue:
        tolerance = max(CERTIFIED_RELATIVE * start, WIDTH_SHARE * self.width(start), self.least)
        found = find_crossing(
            self.excess, 0.0, self.high, guess=start, slope=self.slope, relative=0.0, absolute=tolerance
        )
        upper = found.above
        route = self.value(upper).method if upper in self.evaluated_brackets else "cap"
        return InverseValue(upper, self.lower_end(upper, tolerance), route)

    def proves_above(self, x: float) -> bool:
        return bool(self.value(x).lower >= self.level)

    def lower_end(self, upper: float, tolerance: float) -> float:
        """Returns the largest point found at which f ≥ level is proved: the exact crossing is not below it."""
        best = max((x for x in list(self.evaluated_brackets) if self.proves_above(x)), default=0.0)
        step = max(2 * tolerance, CERTIFIED_RELATIVE * upper)
        if upper in self.evaluated_brackets:
            step += 1.05 * self.width(upper)
        for _ in range(MAX_WIDENINGS):
            x = upper - step
            if x <= best or self.proves_above(x):
                return max(x, best)
            step *= 4
        return best


# --- Many searches at once, for functions that numpy evaluates together ---


Indices = NDArray[np.int64]
MAX_JOINT_STEPS = 200
BISECTION_PERIOD = 3
"""Every so many steps an interval is halved, whatever its ends say."""


def find_crossings(
    f: Callable[[Floats, Indices], Floats], low: Floats, high: Floats, relative: float
) -> tuple[Floats, Floats]:
    """Returns a point below each function's sign change, where it is at most 0, and one above, ``relative`` apart.

    ``f(x, places)`` are the values of the functions at ``places``, each at its own x. The ends are not evaluated: the
    caller knows that f(low) ≤ 0 < f(high). Secants, with the value of an end that does not move halved (Illinois).
    """
    below, above = low.copy(), high.copy()
    f_below, f_above = np.full_like(below, -np.inf), np.full_like(above, np.inf)
    for step in range(MAX_JOINT_STEPS):
        (places,) = np.nonzero(above - below > relative * np.abs(above))
        if not len(places):
            break
        left, right = below[places], above[places]
        x = 0.5 * (left + right)
        if step % BISECTION_PERIOD:
            with np.errstate(invalid="ignore", divide="ignore"):
                secant = left - f_below[places] * (right - left) / (f_above[places] - f_below[places])
            # Slightly beyond the estimate, so that both ends converge.
            hair = 0.4 * relative * np.abs(right)
            secant += np.where(np.abs(f_below[places]) < np.abs(f_above[places]), hair, -hair)
            x = np.where((secant > left) & (secant < right), secant, x)
        value = f(x, places)
        down = value <= 0
        f_above[places[down]] *= 0.5
        f_below[places[~down]] *= 0.5
        below[places[down]], f_below[places[down]] = x[down], value[down]
        above[places[~down]], f_above[places[~down]] = x[~down], value[~down]
    return below, above
