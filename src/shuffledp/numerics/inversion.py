"""Where a decreasing function crosses a level, with both ends certified."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from shuffledp.numerics.finite_law import Bracket
from shuffledp.numerics.root import find_crossing

CERTIFIED_RELATIVE = 1e-11
SEARCH_RELATIVE = 1e-5
WIDTH_SHARE = 0.05
"""No use in placing the upper end more sharply than this share of the certified width."""
NEAR = 1.0
"""A float estimate this far above the level needs no certified check at 0."""
NOTHING = 1e-15
"""Steps in x of less than this share of the natural scale are not told apart."""
SMALLEST = 5e-324
MOST_WIDENINGS = 10


class Decreasing(Protocol):
    """A decreasing function of x ≥ 0 with values in [0, 1]: certified values, and cheap ones to search with."""

    def bracket(self, x: float) -> Bracket: ...

    def log_estimate(self, x: float) -> float: ...

    def natural_scale(self) -> float:
        """How much x must grow for f to fall by about one standard deviation."""
        ...


@runtime_checkable
class HasQuickBrackets(Protocol):
    """What has certified values, nearly as sharp, that take much less time: to search with."""

    def quick_bracket(self, x: float) -> Bracket: ...


@dataclass(frozen=True)
class Inverse:
    """``upper`` certainly satisfies f(upper) ≤ level; the exact crossing is at least ``lower``."""

    upper: float
    lower: float
    route: str


def _score(log_value: float) -> float:
    """√(−2·log f): nearly linear in x where f has a Gaussian tail, so that a secant converges at once."""
    return math.sqrt(-2.0 * log_value) if log_value < 0 else 0.0


def invert(function: Decreasing, level: float, high: float, *, zero_at_high: bool) -> Inverse:
    """The smallest x in [0, high] with f(x) ≤ level; infinity if f(high) > level.

    ``zero_at_high`` promises f(high) = 0, a certified cap.
    """
    log_level = math.log(level)
    if function.log_estimate(0.0) <= log_level + NEAR:
        at_zero = function.bracket(0.0)
        if at_zero.upper <= level:
            return Inverse(0.0, 0.0, at_zero.route)
    if not zero_at_high and function.log_estimate(high) > log_level:
        at_high = function.bracket(high)
        if at_high.lower > level:
            return Inverse(math.inf, high, at_high.route)
    target = _score(log_level)

    def distance(x: float) -> float:
        return _score(function.log_estimate(x)) - target

    scale = function.natural_scale()
    guess = min(max(0.5, target - 1.5) * scale, 0.9 * high)
    found = find_crossing(distance, 0.0, high, guess=guess, relative=SEARCH_RELATIVE, absolute=NOTHING * scale)
    start = found.middle
    aside = start * (1 - 1e-3)
    slope = (distance(start) - distance(aside)) / (start - aside) if aside < start else math.nan
    certifier = _Certifier(function, level, high, slope, NOTHING * scale)
    result = certifier.run(start)
    if result.upper == high and not (zero_at_high or function.bracket(high).upper <= level):
        return Inverse(math.inf, certifier.lower_end(high, 0.0), result.route)
    if result.lower == 0.0 and function.bracket(0.0).upper <= level:
        return Inverse(0.0, 0.0, result.route)
    return result


class _Certifier:
    """Moves a good guess to a certified upper end, then proves a lower one.

    It searches by quick values where there are any; the upper end is proved by the function's own.
    """

    def __init__(self, function: Decreasing, level: float, high: float, slope: float, least: float) -> None:
        self.function = function
        self.level = level
        self.high = high
        self.least = least
        self.target = _score(math.log(level))
        self.slope = slope if math.isfinite(slope) and slope > 0 else None
        self.look = function.quick_bracket if isinstance(function, HasQuickBrackets) else function.bracket
        self.seen: dict[float, Bracket] = {}

    def value(self, x: float) -> Bracket:
        if x not in self.seen:
            self.seen[x] = self.look(x)
        return self.seen[x]

    def excess(self, x: float) -> float:
        """Positive exactly where f(x) ≤ level is proved."""
        value = self.value(x)
        score = _score(value.log_upper()) - self.target
        return max(score, SMALLEST) if value.upper <= self.level else min(score, 0.0)

    def width(self, x: float) -> float:
        """How far, in x, the two certified sides at x are apart."""
        value = self.value(x)
        if self.slope is None or not value.lower > 0:
            return 0.0
        return max(0.0, _score(value.log_lower()) - _score(value.log_upper())) / self.slope

    def run(self, start: float) -> Inverse:
        """From a guess near the crossing."""
        found = self._searched(start)
        if self.look == self.function.bracket or found.upper not in self.seen:
            return found
        own = self.function.bracket(found.upper)
        if own.upper <= self.level:
            return found
        # Quick values promised too much, by a hair: the function's own are searched.
        self.look, self.seen = self.function.bracket, {found.upper: own}
        return self._searched(found.upper)

    def _searched(self, start: float) -> Inverse:
        tolerance = max(CERTIFIED_RELATIVE * start, WIDTH_SHARE * self.width(start), self.least)
        found = find_crossing(
            self.excess, 0.0, self.high, guess=start, slope=self.slope, relative=0.0, absolute=tolerance
        )
        upper = found.above
        route = self.value(upper).route if upper in self.seen else "cap"
        return Inverse(upper, self.lower_end(upper, tolerance), route)

    def proves_above(self, x: float) -> bool:
        return bool(self.value(x).lower >= self.level)

    def lower_end(self, upper: float, tolerance: float) -> float:
        """The largest point found at which f ≥ level is proved: the exact crossing is not below it."""
        best = max((x for x in list(self.seen) if self.proves_above(x)), default=0.0)
        step = max(2 * tolerance, CERTIFIED_RELATIVE * upper)
        if upper in self.seen:
            step += 1.05 * self.width(upper)
        for _ in range(MOST_WIDENINGS):
            x = upper - step
            if x <= best or self.proves_above(x):
                return max(x, best)
            step *= 4
        return best
