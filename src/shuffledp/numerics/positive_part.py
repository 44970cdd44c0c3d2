"""The numerical core of most bounds: D(x) = (1/n)·E[(G_1 + … + G_n)_+], G with a finite law that depends on x.

Several methods return a certified ``Bracket``; the cheapest sufficient one is taken:

- no value is positive: D = 0; only one value: D is known;
- ``enumeration``: few enough count vectors;
- ``recurrence`` over the counts: at most three values and few enough counts to visit;
- ``double recurrence`` over pairs of counts: four values and few enough pairs to visit;
- ``contour`` integral: everything else, at a cost that does not grow with n.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from flint import arb

from shuffledp.numerics import contour_integral
from shuffledp.numerics.ball_arithmetic import compute_until_narrow, precision
from shuffledp.numerics.contour_integral import ContourEstimate, TiltedLaw
from shuffledp.numerics.distributions import (
    FLOAT_VIEW_BITS,
    Bracket,
    Coin,
    FiniteLaw,
    Window,
    binomial_upper_tail,
    find_chernoff_window,
    point_mass,
    sort_descending,
)

# --- Three values: a recurrence over the counts, exact, in O(√n) steps ---
#
# Let A0 > A2 > A1 be the values and c the number of summands on A0 or A1. Given c, the number a on A0 is Bin(c, θ),
# and the sum is positive iff a > low_c = −(c·A1 + (n−c)·A2)/(A0−A1). With k_c = ⌊low_c⌋ + 1 and E[(a − cθ)·1{a ≥ k}]
# = k(1−θ)·P(a = k),
#
# E(S)_+ = Σ_c P(c) · { [c·μ + (n−c)·A2]·P(a ≥ k_c) + (A0−A1)(1−θ)·k_c·P(a = k_c) }, μ = θA0 + (1−θ)A1.
#
# low_c is linear in c with slope in (0, 1), so from c to c−1 the threshold moves by 0 or 1 and both P(a ≥ k) and
# P(a = k) follow by one multiplication each. c decreases, the direction in which tails grow, so that digits are kept.
# Counts outside a window contribute at least 0 and at most n·A0 times their probability.


FIRST_BITS = 128


@dataclass(frozen=True)
class ThreePointLaw:
    """A law sorted as top A0, bottom A1, middle A2; the middle weight is exactly 0 if there are only two values."""

    top: arb
    bottom: arb
    middle: arb
    top_weight: arb
    bottom_weight: arb
    middle_weight: arb

    @classmethod
    def from_law(cls, law: FiniteLaw) -> ThreePointLaw:
        atoms = sort_descending(law.atoms())
        (top, top_weight), (bottom, bottom_weight) = atoms[0], atoms[-1]
        middle, middle_weight = atoms[1] if len(atoms) == 3 else (arb(0), arb(0))
        return cls(top, bottom, middle, top_weight, bottom_weight, middle_weight)

    @property
    def extreme(self) -> Coin:
        """The coin that is heads if G is top or bottom."""
        return Coin.from_weights(self.top_weight + self.bottom_weight, self.middle_weight)

    @property
    def split(self) -> Coin:
        """The coin that is heads if G is top, given that it is top or bottom: θ."""
        return Coin.from_weights(self.top_weight, self.bottom_weight)


def recurrence_steps(law: FiniteLaw, count: int, log_mass: float) -> int:
    """Returns about how many counts the recurrence would visit, with the terms of the tail that it starts from."""
    with precision(FIRST_BITS):
        span = find_chernoff_window(count, ThreePointLaw.from_law(law).extreme, log_mass)
    return span.high - span.low + 1 + 4 * math.isqrt(span.high)


def bracket_by_recurrence(law: FiniteLaw, count: int, log_mass: float) -> Bracket:
    """Returns a certified enclosure of E(S)_+; the window may omit probability exp(log_mass) on each side."""

    def compute() -> tuple[arb, arb]:
        values = ThreePointLaw.from_law(law)
        span = find_chernoff_window(count, values.extreme, log_mass)
        return _sum_recurrence(values, count, span), span.outside * values.top * count

    total, left_out = compute_until_narrow(compute, FIRST_BITS)
    return Bracket(total.lower(), (total + left_out).upper(), "recurrence")


def _sum_recurrence(values: ThreePointLaw, count: int, span: Window) -> arb:
    extreme, split = values.extreme, values.split
    mean = split.success * values.top + split.failure * values.bottom
    inverse_success, inverse_failure = 1 / split.success, 1 / split.failure
    point_factor = (values.top - values.bottom) * split.failure
    step_down = extreme.failure / extreme.success
    level = span.high * mean + (count - span.high) * values.middle
    fall = mean - values.middle
    chance = point_mass(count, span.high, extreme)
    total, doubt = arb(0), arb(0)
    k = -1
    tail = point = arb(0)
    for c, threshold, tied in _thresholds(values, count, span):
        if threshold > c:
            break
        if k < 0 or threshold not in (k, k - 1):
            tail, point = binomial_upper_tail(c, threshold, split), point_mass(c, threshold, split)
        elif k > 0:
            moved = point * k / (c + 1)
            tail -= moved
            if threshold < k:
                point = moved * inverse_success
                tail += point
            else:
                point = point * (c + 1 - k) * inverse_failure / (c + 1)
        else:
            point = point * inverse_failure
        k = threshold
        total += chance * (level * tail + point_factor * (point * k))
        if tied:
            at_tie = (k * values.top + (c - k) * values.bottom + (count - c) * values.middle).abs_upper()
            doubt += chance * point * at_tie
        chance = chance * c * step_down / (count - c + 1)
        level -= fall
    return total + doubt.union(arb(0))


def _thresholds(values: ThreePointLaw, count: int, span: Window) -> Iterator[tuple[int, int, bool]]:
    """Yields (c, k_c, tied) from the largest c down, k_c at least 0; tied if low_c may be an integer.

    At a tie k_c is the integer itself: the sum there is a ball around 0, and its whole size is added as doubt.
    """
    width = values.top - values.bottom
    offset = -values.middle * count / width
    slope = (values.middle - values.bottom) / width
    float_offset, float_slope = float(offset.mid()), float(slope.mid())
    guard = 1e-14 * (abs(float_offset) + span.high + 1.0)
    for c in range(span.high, span.low - 1, -1):
        low = float_offset + float_slope * c
        nearest = round(low)
        if abs(low - nearest) > guard:
            yield c, max(0, math.floor(low) + 1), False
            continue
        exact = offset + slope * c
        if exact < nearest:
            yield c, max(0, nearest), False
        elif exact > nearest:
            yield c, max(0, nearest + 1), False
        else:
            yield c, max(0, nearest), nearest >= 0


# --- Four values: a recurrence over pairs of counts, exact, if few pairs matter ---
#
# As above, c counts the summands on the top or bottom value. Given c, the number m on the third value is binomial and
# independent of the split a of c, so with T = B·m + C·(n−c−m) and thresholds k(c, m)
#
# E(S)_+ = Σ_c P(c) Σ_m P(m | c) · { (c·μ + T)·P(a ≥ k) + (A0−A1)(1−θ)·k·P(a = k) }.
#
# k depends on m only through an integer part, so neighbouring m share it and are summed up first. Counts outside the
# windows contribute at least 0 and at most n·A0 times their probability.


@dataclass(frozen=True)
class FourPointLaw:
    """A law sorted as top A0, bottom A1 and two values B, C between them."""

    top: arb
    bottom: arb
    third: arb
    fourth: arb
    split: Coin
    """The coin that is heads if G is top, given that it is top or bottom: θ."""
    inner: Coin
    """The coin that is heads if G is third, given that it is third or fourth."""
    extreme: Coin
    """The coin that is heads if G is top or bottom."""

    @classmethod
    def from_law(cls, law: FiniteLaw) -> FourPointLaw:
        atoms = sort_descending(law.atoms())
        (top, w_top), (third, w_third), (fourth, w_fourth), (bottom, w_bottom) = atoms
        return cls(
            top,
            bottom,
            third,
            fourth,
            split=Coin.from_weights(w_top, w_bottom),
            inner=Coin.from_weights(w_third, w_fourth),
            extreme=Coin.from_weights(w_top + w_bottom, w_third + w_fourth),
        )


def double_recurrence_steps(law: FiniteLaw, count: int, log_mass: float) -> int:
    """Returns about how many pairs of counts, and tails for them, would be visited."""
    with precision(FIRST_BITS):
        values = FourPointLaw.from_law(law)
        outer = find_chernoff_window(count, values.extreme, log_mass)
        inner = find_chernoff_window(count, values.inner, log_mass)
    return (outer.high - outer.low + 1) * (inner.high - inner.low + 1 + outer.high)


def bracket_by_double_recurrence(law: FiniteLaw, count: int, log_mass: float) -> Bracket:
    """Returns a certified enclosure of E(S)_+; each window may omit probability exp(log_mass) on each side."""

    def compute() -> tuple[arb, arb]:
        values = FourPointLaw.from_law(law)
        outer = find_chernoff_window(count, values.extreme, log_mass)
        total, outside = arb(0), outer.outside
        for c in range(outer.low, outer.high + 1):
            inner = find_chernoff_window(count - c, values.inner, log_mass)
            total += point_mass(count, c, values.extreme) * _conditional_mean(values, count, c, inner)
            outside = outside + inner.outside
        return total, outside * values.top * count

    total, left_out = compute_until_narrow(compute, FIRST_BITS)
    return Bracket(total.lower(), (total + left_out).upper(), "double recurrence")


def _conditional_mean(values: FourPointLaw, count: int, c: int, span: Window) -> arb:
    """Returns E[(S)_+ | c], over the window of m."""
    split = values.split
    tails, points = _tails(c, split)
    base = c * (split.success * values.top + split.failure * values.bottom)
    point_factor = (values.top - values.bottom) * split.failure
    total, doubt = arb(0), arb(0)
    for k, tied, mass, moment, tie in _group_by_threshold(values, count, c, span):
        if k <= c:
            total += (base * mass + moment) * tails[k] + point_factor * (points[k] * k) * mass
            if tied:
                doubt += mass * points[k] * tie
    return total + doubt.union(arb(0))


def _tails(c: int, split: Coin) -> tuple[list[arb], list[arb]]:
    """Returns P(Bin(c, θ) ≥ k) and P(= k) for k = 0 … c."""
    points = [split.failure**c]
    odds = split.success / split.failure
    for k in range(c):
        points.append(points[-1] * odds * (c - k) / (k + 1))
    tails = [arb(0)] * (c + 1)
    running = arb(0)
    for k in range(c, -1, -1):
        running += points[k]
        tails[k] = running
    return tails, points


def _group_by_threshold(
    values: FourPointLaw, count: int, c: int, span: Window
) -> Iterator[tuple[int, bool, arb, arb, arb]]:
    """Yields runs of m with one threshold: (k, tied, Σ P(m), Σ P(m)·T, |S| at the tie)."""
    rest = count - c
    width = values.top - values.bottom
    step = values.third - values.fourth
    level = values.fourth * rest + step * span.low
    start, slope = (-(level + values.bottom * c)) / width, -step / width
    float_start, float_slope = float(start.mid()), float(slope.mid())
    guard = 1e-13 * (abs(float_start) + abs(float_slope) * rest + 1.0)
    chance = point_mass(rest, span.low, values.inner)
    odds = values.inner.success / values.inner.failure
    group: int | None = None
    mass, moment = arb(0), arb(0)
    for m in range(span.low, span.high + 1):
        low = float_start + float_slope * (m - span.low)
        nearest = round(low)
        k, tied = max(0, math.floor(low) + 1), False
        if abs(low - nearest) <= guard:
            exact = start + slope * (m - span.low)
            tied = not (exact < nearest or exact > nearest)
            k = max(0, nearest + 1 if exact > nearest else nearest)
        if k != group or tied:
            if group is not None:
                yield group, False, mass, moment, arb(0)
            group, mass, moment = k, arb(0), arb(0)
        if tied:
            size = (k * values.top + (c - k) * values.bottom + level).abs_upper()
            yield k, nearest >= 0, chance, chance * level, size
            group = None
        else:
            mass += chance
            moment += chance * level
        chance = chance * odds * (rest - m) / (m + 1)
        level += step
    if group is not None:
        yield group, False, mass, moment, arb(0)


# --- Enumeration of all count vectors: for small n, and as the reference for the other methods ---


BITS = 192


def count_vectors(values: int, count: int) -> int:
    """Returns the number of count vectors."""
    return math.comb(count + values - 1, values - 1)


def bracket_by_enumeration(law: FiniteLaw, count: int) -> Bracket:
    """Returns a certified enclosure of E(S)_+."""
    with precision(BITS):
        atoms = list(law.atoms())
        powers = [_powers(weight, count) for _, weight in atoms]
        total = arb(0)
        for chance, value in _enumerate_vectors([value for value, _ in atoms], powers, count):
            total += chance * value.max(arb(0))
        return Bracket(total.lower(), total.upper(), "enumeration")


def _powers(weight: arb, count: int) -> list[arb]:
    """Returns weight^k / k! for k = 0 … count."""
    result = [arb(1)]
    for k in range(1, count + 1):
        result.append(result[-1] * weight / k)
    return result


def _enumerate_vectors(values: list[arb], powers: list[list[arb]], count: int) -> Iterator[tuple[arb, arb]]:
    """Yields (probability, sum) of every count vector; the multinomial factor count! is folded into the start."""
    last = len(values) - 1

    def descend(index: int, left: int, chance: arb, value: arb) -> Iterator[tuple[arb, arb]]:
        if index == last:
            yield chance * powers[last][left], value + values[last] * left
            return
        for k in range(left + 1):
            yield from descend(index + 1, left - k, chance * powers[index][k], value + values[index] * k)

    yield from descend(0, count, arb(count).fac() if count < 1 else arb.fac_ui(count), arb(0))


MAX_STEPS = 4_000
MAX_PAIRS = 40_000
MAX_VECTORS = 2_500
MAX_FALLBACK_PAIRS = 500_000
MAX_CONTOUR_WIDTH = 1e-3
"""A contour bracket wider than this, relative to its value, is replaced by a double recurrence of up to this length."""
LOG_NEGLIGIBLE_VALUE = -720.0
"""Values below the exponential of this, at the end of the floats, are only bounded if many are computed."""
MAX_FULL_RECURRENCE_COUNT = 400
"""Up to this n the recurrence visits every count and needs no estimate to choose its window."""
LOG_WINDOW_MARGIN = 40.0
"""A window omits the exponential of this times less than the result."""
SEARCH_TOLERANCE = 1e-5
CERTIFIED_TOLERANCE = 5e-10
BATCH_TOLERANCE = 4e-6
MAX_PLAN_WIDENING = 1.5
FLOAT_ROUNDING_TOLERANCE = 4e-9
SMOOTHING_ROUNDING_SHARE = 0.01
"""Limits of the contour's relative width and rounding.

The first three are the relative width in x while searching, in a certified value, and in one of many. The fourth is
the factor by which a shared plan may become wider than its first bracket. The last two are the relative rounding, and
its share of the cost of smoothing, up to which a sum in floats replaces one in balls.
"""


@dataclass(frozen=True)
class PositivePartMean:
    """D(x) for a family of laws ``law_at(x)`` and a number of summands ``count``; D decreases in x."""

    law_at: Callable[[float], FiniteLaw]
    count: int

    def bracket(self, x: float, tolerance: float = CERTIFIED_TOLERANCE) -> Bracket:
        """Returns a certified enclosure of D(x)."""
        return positive_part_mean(self.law_at(x), self.count, tolerance).scaled(self.count)

    def quick_bracket(self, x: float) -> Bracket:
        """Returns nearly the same enclosure: the contour's nodes are summed in floats if these are sharp enough."""
        return positive_part_mean(self.law_at(x), self.count, in_floats=True).scaled(self.count)

    def brackets(self, xs: Iterable[float], tolerance: float = BATCH_TOLERANCE) -> list[Bracket]:
        """Returns certified enclosures of D at many x, coarser than ``bracket`` and many times faster.

        The contour's nodes are summed in floats. Where that is wide, or few counts can be visited one by one, the exact
        methods take over. Neighbouring x share a plan while it suits them, so they should be in order.
        """
        result: list[Bracket] = []
        shared: _SharedPlan | None = None
        for x in xs:
            law = self.law_at(x)
            found = None if shared is None else shared.bracket(law, self.count)
            if found is None:
                found, shared = self._bracket_coarsely(law, tolerance)
            result.append(found.scaled(self.count))
        return result

    def _bracket_coarsely(self, law: FiniteLaw, tolerance: float) -> tuple[Bracket, _SharedPlan | None]:
        if not contour_integral.has_positive_value(law) or _is_small(law, self.count):
            return positive_part_mean(law, self.count), None
        if (nothing := contour_integral.bracket_if_negligible(law, self.count, LOG_NEGLIGIBLE_VALUE)) is not None:
            return nothing, None
        plan = contour_integral.make_plan(law, self.count, tolerance)
        found = contour_integral.bracket(law, self.count, plan, in_floats=True)
        width = found.relative_width()
        if width > MAX_CONTOUR_WIDTH:
            return positive_part_mean(law, self.count), None
        return found, _SharedPlan(plan, width) if plan.reach > 0 else None

    def is_at_most(self, level: float, x: float) -> bool:
        """Returns True if D(x) ≤ level is proved; first by Chernoff's bound, which is many times cheaper."""
        law = self.law_at(x)
        if contour_integral.has_positive_value(law) and _chernoff(law, self.count) <= level:
            return True
        return bool(self.bracket(x).upper <= level)

    def log_estimate(self, x: float) -> float:
        """Returns log D(x) in floats, for searching: exact if that is cheap, by the contour in floats otherwise."""
        law = self.law_at(x)
        if not contour_integral.has_positive_value(law):
            return -math.inf
        if _is_small(law, self.count):
            return self.bracket(x).log_upper()
        return _estimate(law, self.count).log_value - math.log(self.count)

    def natural_scale(self) -> float:
        """Returns the standard deviation of G at x = 0 over √n: the sum's mean there moves by about n per unit of x."""
        values, weights = self.law_at(0.0).floats()
        largest = float(np.abs(values).max())
        if largest == 0:
            return 0.0
        return largest * math.sqrt(float(np.dot(weights, (values / largest) ** 2)) / self.count)


def _chernoff(law: FiniteLaw, count: int) -> arb:
    """Returns Chernoff's bound: E(S)_+/count ≤ M(t)^count/(e·t·count) for any t > 0, because s ≤ e^(ts)/(e·t)."""
    tilted = TiltedLaw(law, count)
    with precision(2 * FLOAT_VIEW_BITS):
        t = arb(tilted.saddle(0.0) / tilted.scale)
        moment = sum((weight * (t * value).exp() for value, weight in law.atoms()), arb(0))
        return (count * moment.log() - 1).exp() / (t * count)


@dataclass(frozen=True)
class _SharedPlan:
    """A plan for a law and its neighbours, and the width of its first bracket."""

    plan: contour_integral.ContourPlan
    width: float

    def bracket(self, law: FiniteLaw, count: int) -> Bracket | None:
        """Returns the bracket of a neighbour's sum; None if the plan no longer suits it."""
        if (
            not contour_integral.has_positive_value(law)
            or (plan := contour_integral.adapt_plan(self.plan, law, count)) is None
        ):
            return None
        found = contour_integral.bracket(law, count, plan, in_floats=True)
        return found if found.relative_width() <= MAX_PLAN_WIDENING * self.width else None


def positive_part_mean(
    law: FiniteLaw, count: int, tolerance: float = CERTIFIED_TOLERANCE, *, in_floats: bool = False
) -> Bracket:
    """Returns a certified enclosure of E[(G_1 + … + G_count)_+] by the cheapest method that is exact enough.

    A contour's nodes are summed in floats if their proved rounding is within the tolerance or negligible beside the
    cost of smoothing, or with ``in_floats`` if it hardly widens the enclosure; in balls otherwise.
    """
    if not contour_integral.has_positive_value(law):
        return _bracket_nonpositive(law, count)
    values = _number_of_values(law)
    if values == 1:
        return _bracket_single_value(law, count)
    if values > 3 and count_vectors(values, count) <= MAX_VECTORS:
        return bracket_by_enumeration(law, count)
    if values <= 4:
        log_mass = -math.inf if _is_small(law, count) else _log_omitted_mass(law, count)
        if values <= 3 and recurrence_steps(law, count, log_mass) <= MAX_STEPS:
            return bracket_by_recurrence(law, count, log_mass)
        if values == 4 and double_recurrence_steps(law, count, log_mass) <= MAX_PAIRS:
            return bracket_by_double_recurrence(law, count, log_mass)
    plan = contour_integral.make_plan(law, count, tolerance)
    rounding = max(
        FLOAT_ROUNDING_TOLERANCE if in_floats else tolerance, SMOOTHING_ROUNDING_SHARE * plan.variance * plan.tilt**2
    )
    found = contour_integral.bracket(law, count, plan, in_floats=True, rounding=rounding)
    # Far in the tail of few rare messages the sum is all atoms, which smoothing blurs: worth a long recurrence.
    blurred = values == 4 and found.relative_width() > MAX_CONTOUR_WIDTH
    if blurred and double_recurrence_steps(law, count, log_mass) <= MAX_FALLBACK_PAIRS:
        return bracket_by_double_recurrence(law, count, log_mass)
    return found


def _number_of_values(law: FiniteLaw) -> int:
    return len(law.floats()[0])


def _is_small(law: FiniteLaw, count: int) -> bool:
    """Returns True if every count can be visited, at a cost that suits a search."""
    values = _number_of_values(law)
    return count <= MAX_FULL_RECURRENCE_COUNT if values <= 3 else count_vectors(values, count) <= MAX_VECTORS


def _estimate(law: FiniteLaw, count: int) -> ContourEstimate:
    return contour_integral.estimate(law, count, contour_integral.make_plan(law, count, SEARCH_TOLERANCE))


def _log_omitted_mass(law: FiniteLaw, count: int) -> float:
    """Returns the log probability of counts to omit: a count's share of E(S)_+ is at most count·max(G)·probability."""
    values, _ = law.floats()
    return _estimate(law, count).log_value - math.log(count * float(values.max())) - LOG_WINDOW_MARGIN


def _bracket_single_value(law: FiniteLaw, count: int) -> Bracket:
    """Returns the bracket if S is one number, and positive."""
    with precision(4 * FLOAT_VIEW_BITS):
        ((value, weight),) = law.atoms()
        total = count * value * weight
        return Bracket(total.lower(), total.upper(), "one value")


def _bracket_nonpositive(law: FiniteLaw, count: int) -> Bracket:
    """Returns 0 as a bracket; if a value cannot be distinguished from 0, at most its ball's upper end times count."""
    with precision(4 * FLOAT_VIEW_BITS):
        most = arb(0)
        for value, _ in law.atoms():
            if not value <= 0:
                most = most.max(value)
        return Bracket(arb(0), (most * count).upper(), "no positive value")
