"""Group privacy: the curve for people who answer together, or whose values change together."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import arb

from shuffledp._core import validation
from shuffledp._core.validation import Floats
from shuffledp.numerics.ball_arithmetic import precision, round_down, round_up
from shuffledp.numerics.distributions import Bracket
from shuffledp.numerics.roots import invert
from shuffledp.privacy.curve import MAX_EPSILON, BoundValue, PrivacyCurve

BITS = 128
ROUNDING_MARGIN = 1e-13
"""Exceeds the relative rounding error of ε/K and of Σ e^(iε/K) in floats."""
UNDERFLOW_MARGIN = 1e-320
"""Exceeds the loss of a product through underflow."""
FIRST_POINT, POINT_RATIO, MIN_SCALE = 0.05, 1.5, 1e-12
"""The points at which the running minimum of the bound is taken: the first one, and the ratio of each to the next."""


@dataclass(frozen=True)
class GroupCurve(PrivacyCurve):
    """The curve ``inner`` for neighbours that differ in ``size`` values instead of one.

    Theorem: group privacy: along a chain of datasets, each of which changes one more of K values,
    δ_K(ε) ≤ Σ_{i<K} e^(iε/K)·δ(ε/K); as δ_K never grows, the smallest such value up to ε bounds it, too.
    Requires: ``inner`` bounds both directions for every pair of datasets that differ in one value; the number of
    values, the group's included, is the same in both datasets.
    Returns: a certified upper bound of both directions, rounded up.
    """

    inner: PrivacyCurve
    size: int

    @property
    def certified(self) -> bool:
        return self.inner.certified

    def _epsilon(self, delta: float) -> BoundValue:
        points, smallest = self._running_minimum
        within = np.flatnonzero(smallest <= delta)
        if not len(within):
            return self._value(math.inf, math.inf)
        high = float(points[within[0]])
        if high == 0.0:
            return self._value(0.0, 0.0)
        # A value in floats is a little larger than the same value in balls, so the level also holds there.
        inverse = invert(self, delta, high, zero_at_high=False)
        if math.isinf(inverse.upper):
            return self._value(high, high)
        return self._value(inverse.upper, inverse.upper - inverse.lower)

    def _delta(self, epsilon: float) -> BoundValue:
        point = min(epsilon, MAX_EPSILON)
        value = self.bracket(point)
        upper = min(1.0, value.upper_float(), self._minimum_up_to(point))
        # Beyond the largest ε that is evaluated only an upper bound is known.
        lower = 0.0 if epsilon > MAX_EPSILON else min(upper, value.lower_float())
        return self._value(upper, math.nextafter(upper - lower, math.inf) if upper > lower else 0.0)

    def bracket(self, epsilon: float) -> Bracket:
        """Returns both sides of the sum at one ε."""
        with precision(BITS):
            step = arb(epsilon) / self.size
            terms = arb(epsilon).expm1() / step.expm1() if epsilon > 0 else arb(self.size)
            early, late = self.inner.delta(max(0.0, round_down(step))), self.inner.delta(round_up(step))
            lower = terms * max(0.0, math.nextafter(late.upper - late.slack, 0.0))
            return Bracket(lower.lower(), (terms * arb(early.upper)).upper(), "a chain of neighbours")

    def log_estimate(self, epsilon: float) -> float:
        return self.bracket(epsilon).log_upper()

    def natural_scale(self) -> float:
        return self._scale * self.size

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        capped = np.minimum(epsilons, MAX_EPSILON)
        points, smallest = self._running_minimum
        # The last point at or before each ε.
        before = np.searchsorted(points, capped, side="right") - 1
        upper = np.minimum(self._upper(capped), smallest[before])
        lower = (
            self.inner.profile(capped / self.size * (1 + ROUNDING_MARGIN)).lower
            * self._terms(capped)
            * (1 - 4 * ROUNDING_MARGIN)
        )
        return upper, np.where(epsilons <= MAX_EPSILON, np.minimum(lower, upper), 0.0)

    def _upper(self, epsilons: Floats) -> Floats:
        upper = self.inner.profile(epsilons / self.size * (1 - ROUNDING_MARGIN)).upper
        raised = upper * self._terms(epsilons) * (1 + 4 * ROUNDING_MARGIN) + np.where(upper > 0, UNDERFLOW_MARGIN, 0.0)
        return np.asarray(np.minimum(1.0, raised))

    def _terms(self, epsilons: Floats) -> Floats:
        """Σ_{i<K} e^(iε/K)."""
        positive = np.where(epsilons > 0, epsilons, 1.0)
        return np.asarray(np.where(epsilons > 0, np.expm1(positive) / np.expm1(positive / self.size), self.size))

    def _minimum_up_to(self, epsilon: float) -> float:
        points, smallest = self._running_minimum
        return float(smallest[np.searchsorted(points, epsilon, side="right") - 1])

    @cached_property
    def _scale(self) -> float:
        return max(float(self.inner.profile([0.0]).upper[0]), MIN_SCALE) * math.sqrt(2 * math.pi)

    @cached_property
    def _running_minimum(self) -> tuple[Floats, Floats]:
        """Returns points ε from 0 on and the running minimum of the sum over them.

        The minimum is needed because any mass at infinity, however little, makes the sum grow again.
        """
        first = FIRST_POINT * self.natural_scale()
        count = max(1, math.ceil(math.log(MAX_EPSILON / first) / math.log(POINT_RATIO)))
        points = np.minimum(MAX_EPSILON, np.concatenate(([0.0], first * POINT_RATIO ** np.arange(count + 1))))
        return points, np.minimum.accumulate(self._upper(points))


def group(curve: PrivacyCurve, size: float) -> PrivacyCurve:
    """Returns the curve for a person who holds several values, where ``curve`` protects each value alone.

    The guarantee compares the person's values with any others, all replaced at once. The number of values is the same
    in both datasets and is not hidden.

    Args:
        curve: Curve of one value.
        size: Number of values that one person holds.

    Returns:
        An upper bound of δ(ε) for all values of one person; the curve itself where ``size`` is 1.

    Raises:
        TypeError: If ``curve`` is not a privacy curve.
        ValueError: If ``size`` is not a whole number of at least 1.

    >>> import shuffledp as sdp
    >>> curve = sdp.amplify(sdp.KRR(epsilon=2.0, options=16), users=10_000, effort="quick")
    >>> print(f"{curve.epsilon(delta=1e-6).upper:.4f} {sdp.group(curve, 2).epsilon(delta=1e-6).upper:.4f}")
    0.0675 0.1418
    """
    if not isinstance(curve, PrivacyCurve):
        raise TypeError(f"group: expected a privacy curve as amplify returns it, got {curve!r}.")
    count = validation.count("group", "size", size)
    if count == 1:
        return curve
    theorem = f"group privacy of {count} values of one person, each by: {curve.theorem}"
    return GroupCurve(dataclasses.replace(curve.source, theorem=theorem), curve, count)
