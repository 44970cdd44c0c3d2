"""Curves of randomizers with rare messages of unbounded likelihood ratio, whose tails are cut at a price in δ."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from shuffledp._core.errors import NotApplicable
from shuffledp._core.validation import Floats
from shuffledp.bounds.base import Bound
from shuffledp.numerics.ball_arithmetic import float_above, float_below
from shuffledp.privacy.curve import (
    BoundValue,
    PrivacyCurve,
)
from shuffledp.privacy.randomizer_interface import HasTails, Randomizer, TruncatedRandomizer

TRUNCATED_DELTA_SHARES = (0.03, 1e-3)
"""Share of δ planned for the truncated part; the second one if the first leaves a law without heavy tails."""
MAX_TAIL_FREE_SLACK = 1e-3
"""Relative numerical slack below which the rest counts as free of heavy tails."""
MIN_TRUNCATED_PROBABILITY = 1e-300
MAX_ITERATIONS = 8
NEGLIGIBLE_DELTA_SHARE = 2e-3
"""Share of δ below which a smaller truncation would hardly improve the bound."""
MIN_SHRINK_FACTOR = 1e-3
"""The truncated part shrinks at most by this factor at a time."""
MAX_EXCESS_FACTOR = 16.0
"""A truncated part larger than the requested one by more than this factor ends the search."""
PROFILE_TRUNCATIONS = (1e-4, 1e-7, 1e-11)
"""Truncated probabilities that are used where δ is needed at many ε."""
EPSILON_MARGIN = 1e-6


@dataclass(frozen=True)
class TruncatedTailCurve(PrivacyCurve):
    """The smallest, over several truncations, of a bound's δ for the rest plus the truncated probability."""

    inner_bound: Bound
    randomizer: Randomizer
    """A randomizer with tails."""
    untruncated_curve: PrivacyCurve | None
    """The curve without truncation, if there is one."""

    @property
    def certified(self) -> bool:
        return True

    def loss_deviation(self) -> float | None:
        """Returns the standard deviation with the second of ``PROFILE_TRUNCATIONS``.

        Beyond it a few messages would dominate.
        """
        truncation = self._truncate(PROFILE_TRUNCATIONS[1])
        return None if truncation is None else truncation[1].loss_deviation()

    @property
    def has_fast_profile(self) -> bool:
        truncation = self._truncate(PROFILE_TRUNCATIONS[1])
        return truncation is not None and truncation[1].has_fast_profile

    def may_beat(self, epsilon: float, delta: float) -> bool:
        truncation = self._truncate(delta * TRUNCATED_DELTA_SHARES[0]) if delta > 0 else None
        if truncation is None:
            return True
        cut, curve = truncation
        # At a smaller ε the truncated part costs less.
        return curve.may_beat(epsilon, max(delta - cut.truncation_delta(epsilon), delta / 2))

    @cached_property
    def _cached_truncations(self) -> dict[float, tuple[TruncatedRandomizer, PrivacyCurve] | None]:
        return {}

    def _truncate(self, share: float) -> tuple[TruncatedRandomizer, PrivacyCurve] | None:
        """Returns the truncated randomizer and its curve; None if so small a truncation is impossible."""
        share = max(share, MIN_TRUNCATED_PROBABILITY)
        if share not in self._cached_truncations:
            assert isinstance(self.randomizer, HasTails)
            cut = self.randomizer.truncate_tails(share)
            same = next((one for one in self._cached_truncations.values() if one is not None and one[0] == cut), None)
            self._cached_truncations[share] = same or (
                None if cut is None else (cut, self.inner_bound.curve(cut, self.messages))
            )
        return self._cached_truncations[share]

    def _epsilon(self, delta: float) -> BoundValue:
        values = [] if self.untruncated_curve is None else [self.untruncated_curve.epsilon(delta)]
        for share in TRUNCATED_DELTA_SHARES:
            truncation = self._truncate(share * delta)
            if truncation is None:
                break
            value = self._epsilon_with_truncation(*truncation, delta)
            values.append(value)
            if (
                not value.slack <= MAX_TAIL_FREE_SLACK * value.upper
                or truncation[0].truncation_delta(value.upper) <= NEGLIGIBLE_DELTA_SHARE * delta
            ):
                break
        best = min(values, key=float, default=None)
        return self._value(math.inf, math.inf) if best is None else self._value(best.upper, best.slack)

    def _epsilon_with_truncation(self, cut: TruncatedRandomizer, curve: PrivacyCurve, delta: float) -> BoundValue:
        """Returns the least ε at which rest and truncated part are within δ.

        It iterates upwards because the truncated part grows with ε.
        """
        epsilon = 0.0
        for _ in range(MAX_ITERATIONS):
            room = float_below(Fraction(delta) - Fraction(cut.truncation_delta(epsilon)))
            if not room > 0:
                return self._value(math.inf, math.inf)
            value = curve.epsilon(room)
            if value.upper <= epsilon:
                return self._value(epsilon, max(0.0, epsilon - (value.upper - value.slack)))
            if cut.truncation_delta(value.upper) == cut.truncation_delta(epsilon):
                return value
            epsilon = value.upper * (1 + EPSILON_MARGIN)
        return self._value(math.inf, math.inf)

    def _delta(self, epsilon: float) -> BoundValue:
        """Truncates less and less until the truncated part is a little below δ, as estimated from the rest."""
        values = [] if self.untruncated_curve is None else [self.untruncated_curve.delta(epsilon)]
        share = PROFILE_TRUNCATIONS[0]
        for iteration in range(MAX_ITERATIONS):
            truncation = self._truncate(share)
            if truncation is None:
                break
            cut, curve = truncation
            value, truncated = curve.delta(epsilon), cut.truncation_delta(epsilon)
            upper = min(1.0, float_above(Fraction(value.upper) + Fraction(truncated)))
            values.append(self._value(upper, min(upper, float_above(Fraction(value.slack) + Fraction(truncated)))))
            if truncated <= NEGLIGIBLE_DELTA_SHARE * upper or truncated > MAX_EXCESS_FACTOR * share:
                break
            if iteration == 0:
                share = max(TRUNCATED_DELTA_SHARES[0] * min(share, value.upper), MIN_SHRINK_FACTOR * share)
            elif iteration == 1:
                # The same truncation that ``_epsilon`` uses for this δ.
                share = TRUNCATED_DELTA_SHARES[0] * upper
            elif value.slack <= MAX_TAIL_FREE_SLACK * value.upper:
                share *= TRUNCATED_DELTA_SHARES[0]
            else:
                break
        best = min(values, key=float, default=None)
        return self._value(1.0, 1.0) if best is None else self._value(best.upper, best.slack)

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        upper, lower = np.ones_like(epsilons), np.zeros_like(epsilons)
        if self.untruncated_curve is not None:
            untruncated = self.untruncated_curve.profile(epsilons)
            upper, lower = untruncated.upper.copy(), untruncated.lower.copy()
        for truncation in map(self._truncate, PROFILE_TRUNCATIONS):
            if truncation is None:
                continue
            cut, curve = truncation
            profile = curve.profile(epsilons)
            truncated = np.array([cut.truncation_delta(float(epsilon)) for epsilon in epsilons])
            total = np.minimum(1.0, np.nextafter(profile.upper + truncated, np.inf))
            lower = np.where(total < upper, profile.lower, lower)
            upper = np.minimum(upper, total)
        return upper, lower


def has_tails(randomizer: Randomizer) -> bool:
    """Returns True if a bound should truncate the randomizer's law."""
    return isinstance(randomizer, HasTails) and randomizer.has_tails


def tail_curve(bound: Bound, randomizer: Randomizer, users: int, finite: PrivacyCurve | None) -> PrivacyCurve:
    """Returns a bound's curve in which parts of user 1's law may be truncated."""
    assert isinstance(randomizer, HasTails)
    curve = TruncatedTailCurve(bound.source(users), bound, randomizer, finite)
    if finite is None and curve._truncate(PROFILE_TRUNCATIONS[0]) is None:
        raise NotApplicable(
            bound.name,
            "nothing is left after truncation: no message is sent by all inputs often enough.",
        )
    return curve
