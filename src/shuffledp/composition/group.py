"""``group``: the privacy of a person who holds several of the values, where a curve protects each value alone."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import arb

from shuffledp import argument
from shuffledp.array import Floats
from shuffledp.numerics.ball import precision, round_down, round_up
from shuffledp.numerics.finite_law import Bracket
from shuffledp.numerics.inversion import invert
from shuffledp.privacy.curve import LARGEST_EPSILON, PrivacyCurve
from shuffledp.privacy.value import BoundValue

BITS = 128
SHIFT = 1e-13
"""More than the relative rounding of ε/K and of Σ e^(iε/K) in floats."""
UNDERFLOW = 1e-320
"""More than a product can lose at the end of the floats."""
FIRST_LOOK, WIDENING, LEAST_SCALE = 0.05, 1.5, 1e-12
"""The points at which the bound is looked at for its running minimum: the first, and from each to the next."""


@dataclass(frozen=True)
class GroupCurve(PrivacyCurve):
    """``inside`` for neighbours that differ in ``size`` values instead of one.

    Theorem: group privacy: over a chain of datasets, each of which changes one more of K values,
    δ_K(ε) ≤ Σ_{i<K} e^(iε/K)·δ(ε/K); and as δ_K never grows, the smallest such value up to ε bounds it, too.
    Requires: ``inside`` bounds both directions for every pair of datasets that differ in one value; the number of
    values, the group's included, is the same in both datasets.
    Returns: a certified upper bound of both directions, rounded up.
    """

    inside: PrivacyCurve
    size: int

    @property
    def certified(self) -> bool:
        return self.inside.certified

    def _epsilon(self, delta: float) -> BoundValue:
        points, smallest = self._looks
        enough = np.flatnonzero(smallest <= delta)
        if not len(enough):
            return self._value(math.inf, math.inf)
        high = float(points[enough[0]])
        if high == 0.0:
            return self._value(0.0, 0.0)
        # A value in floats is a little larger than the same one in balls: there, the level is kept, too.
        found = invert(self, delta, high, zero_at_high=False)
        if math.isinf(found.upper):
            return self._value(high, high)
        return self._value(found.upper, found.upper - found.lower)

    def _delta(self, epsilon: float) -> BoundValue:
        seen = min(epsilon, LARGEST_EPSILON)
        value = self.bracket(seen)
        upper = min(1.0, value.upper_float(), self._smallest_up_to(seen))
        # What lies beyond the largest ε that is looked at is only known from above.
        lower = 0.0 if epsilon > LARGEST_EPSILON else min(upper, value.lower_float())
        return self._value(upper, math.nextafter(upper - lower, math.inf) if upper > lower else 0.0)

    def bracket(self, epsilon: float) -> Bracket:
        """Both sides of the sum at one ε."""
        with precision(BITS):
            step = arb(epsilon) / self.size
            terms = arb(epsilon).expm1() / step.expm1() if epsilon > 0 else arb(self.size)
            early, late = self.inside.delta(max(0.0, round_down(step))), self.inside.delta(round_up(step))
            lower = terms * max(0.0, math.nextafter(late.upper - late.slack, 0.0))
            return Bracket(lower.lower(), (terms * arb(early.upper)).upper(), "a chain of neighbours")

    def log_estimate(self, epsilon: float) -> float:
        return self.bracket(epsilon).log_upper()

    def natural_scale(self) -> float:
        return self._scale * self.size

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        seen = np.minimum(epsilons, LARGEST_EPSILON)
        points, smallest = self._looks
        # The last look at or before each ε.
        before = np.searchsorted(points, seen, side="right") - 1
        upper = np.minimum(self._upper(seen), smallest[before])
        lower = self.inside.profile(seen / self.size * (1 + SHIFT)).lower * self._terms(seen) * (1 - 4 * SHIFT)
        return upper, np.where(epsilons <= LARGEST_EPSILON, np.minimum(lower, upper), 0.0)

    def _upper(self, epsilons: Floats) -> Floats:
        upper = self.inside.profile(epsilons / self.size * (1 - SHIFT)).upper
        raised = upper * self._terms(epsilons) * (1 + 4 * SHIFT) + np.where(upper > 0, UNDERFLOW, 0.0)
        return np.asarray(np.minimum(1.0, raised))

    def _terms(self, epsilons: Floats) -> Floats:
        """Σ_{i<K} e^(iε/K)."""
        positive = np.where(epsilons > 0, epsilons, 1.0)
        return np.asarray(np.where(epsilons > 0, np.expm1(positive) / np.expm1(positive / self.size), self.size))

    def _smallest_up_to(self, epsilon: float) -> float:
        points, smallest = self._looks
        return float(smallest[np.searchsorted(points, epsilon, side="right") - 1])

    @cached_property
    def _scale(self) -> float:
        return max(float(self.inside.profile([0.0]).upper[0]), LEAST_SCALE) * math.sqrt(2 * math.pi)

    @cached_property
    def _looks(self) -> tuple[Floats, Floats]:
        """Points ε from 0 on, and the smallest value of the sum at one of them up to there: mass at infinity, however
        little, makes the sum grow again."""
        first = FIRST_LOOK * self.natural_scale()
        count = max(1, math.ceil(math.log(LARGEST_EPSILON / first) / math.log(WIDENING)))
        points = np.minimum(LARGEST_EPSILON, np.concatenate(([0.0], first * WIDENING ** np.arange(count + 1))))
        return points, np.minimum.accumulate(self._upper(points))


def group(curve: PrivacyCurve, size: float) -> PrivacyCurve:
    """The curve of the same messages for a person who holds ``size`` of the values, where ``curve`` is for one.

    Whatever that person held instead in all of them: how many there are is the same, and is not hidden. Of one value
    it is the curve itself.

    >>> import shuffledp as sdp
    >>> curve = sdp.amplify(sdp.KRR(epsilon=2.0, options=16), users=10_000, effort="quick")
    >>> print(f"{curve.epsilon(delta=1e-6).upper:.4f} {sdp.group(curve, 2).epsilon(delta=1e-6).upper:.4f}")
    0.0675 0.1418
    """
    if not isinstance(curve, PrivacyCurve):
        raise TypeError(f"group: expected a privacy curve as amplify gives it, got {curve!r}.")
    held = argument.count("group", "size", size)
    if held == 1:
        return curve
    theorem = f"group privacy of {held} values of one person, each by: {curve.theorem}"
    return GroupCurve(dataclasses.replace(curve.source, theorem=theorem), curve, held)
