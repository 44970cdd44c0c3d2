"""Truncation of tails: messages that hide badly are removed from user 1's law, and their probability is added to δ."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from shuffledp._core.errors import NotApplicable
from shuffledp._core.types import Floats
from shuffledp.bounds.base import Bound
from shuffledp.numerics.intervals import float_above, float_below
from shuffledp.privacy.curve import BoundValue, PrivacyCurve
from shuffledp.privacy.randomizer import HasTails, Randomizer, TruncatedRandomizer

TRUNCATED_DELTA_SHARES = (0.03, 1e-3)
"""Share of δ planned for the truncated part; the second one if the first leaves a law without heavy tails."""
MAX_TAIL_FREE_SLACK = 1e-3
"""Relative numerical slack below which the rest counts as free of heavy tails."""
MIN_TRUNCATED_PROBABILITY = 1e-300
MAX_ITERATIONS = 8
NEGLIGIBLE_DELTA_SHARE = 2e-3
"""Share of δ below which a smaller truncation would hardly improve the bound."""
MIN_SHRINK_FACTOR, MAX_EXCESS_FACTOR = 1e-3, 16.0
"""LARGEST_STEP limits how fast the truncated part shrinks; more than TOO_MUCH times the requested part ends the search.
"""
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
        """Returns the standard deviation with the second of ``PROFILE_TRUNCATIONS``; beyond it a few messages would
        dominate."""
        found = self._truncate(PROFILE_TRUNCATIONS[1])
        return None if found is None else found[1].loss_deviation()

    @property
    def has_fast_profile(self) -> bool:
        found = self._truncate(PROFILE_TRUNCATIONS[1])
        return found is not None and found[1].has_fast_profile

    def may_beat(self, epsilon: float, delta: float) -> bool:
        found = self._truncate(delta * TRUNCATED_DELTA_SHARES[0]) if delta > 0 else None
        if found is None:
            return True
        cut, curve = found
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
        found = [] if self.untruncated_curve is None else [self.untruncated_curve.epsilon(delta)]
        for share in TRUNCATED_DELTA_SHARES:
            made = self._truncate(share * delta)
            if made is None:
                break
            value = self._epsilon_with_truncation(*made, delta)
            found.append(value)
            if (
                not value.slack <= MAX_TAIL_FREE_SLACK * value.upper
                or made[0].truncation_delta(value.upper) <= NEGLIGIBLE_DELTA_SHARE * delta
            ):
                break
        best = min(found, key=float, default=None)
        return self._value(math.inf, math.inf) if best is None else self._value(best.upper, best.slack)

    def _epsilon_with_truncation(self, cut: TruncatedRandomizer, curve: PrivacyCurve, delta: float) -> BoundValue:
        """Returns the least ε at which rest and truncated part are within δ; iterates upwards because the latter grows
        with ε.
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
        found = [] if self.untruncated_curve is None else [self.untruncated_curve.delta(epsilon)]
        share = PROFILE_TRUNCATIONS[0]
        for look in range(MAX_ITERATIONS):
            made = self._truncate(share)
            if made is None:
                break
            cut, curve = made
            value, lost = curve.delta(epsilon), cut.truncation_delta(epsilon)
            upper = min(1.0, float_above(Fraction(value.upper) + Fraction(lost)))
            found.append(self._value(upper, min(upper, float_above(Fraction(value.slack) + Fraction(lost)))))
            if lost <= NEGLIGIBLE_DELTA_SHARE * upper or lost > MAX_EXCESS_FACTOR * share:
                break
            if look == 0:
                share = max(TRUNCATED_DELTA_SHARES[0] * min(share, value.upper), MIN_SHRINK_FACTOR * share)
            elif look == 1:
                # The same truncation that ``_epsilon`` uses for this δ.
                share = TRUNCATED_DELTA_SHARES[0] * upper
            elif value.slack <= MAX_TAIL_FREE_SLACK * value.upper:
                share *= TRUNCATED_DELTA_SHARES[0]
            else:
                break
        best = min(found, key=float, default=None)
        return self._value(1.0, 1.0) if best is None else self._value(best.upper, best.slack)

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        upper, lower = np.ones_like(epsilons), np.zeros_like(epsilons)
        if self.untruncated_curve is not None:
            whole = self.untruncated_curve.profile(epsilons)
            upper, lower = whole.upper.copy(), whole.lower.copy()
        for made in map(self._truncate, PROFILE_TRUNCATIONS):
            if made is None:
                continue
            cut, curve = made
            found = curve.profile(epsilons)
            lost = np.array([cut.truncation_delta(float(epsilon)) for epsilon in epsilons])
            total = np.minimum(1.0, np.nextafter(found.upper + lost, np.inf))
            lower = np.where(total < upper, found.lower, lower)
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
            "nothing is left once it is cut: no message is sent by all inputs often enough.",
        )
    return curve
