"""Where some messages hide badly, or not at all: they are cut off user 1's law, their probability is added to δ."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from shuffledp.array import Floats
from shuffledp.bounds.bound import Bound
from shuffledp.errors import NotApplicable
from shuffledp.numerics.ball import above, below
from shuffledp.privacy.curve import PrivacyCurve
from shuffledp.privacy.cut_randomizer import CutRandomizer
from shuffledp.privacy.randomizer import HasTails, Randomizer
from shuffledp.privacy.value import BoundValue

SHARES = (0.03, 1e-3)
"""How much of δ is planned for what is cut: the second where the first left a law without heavy tails."""
SHARP = 1e-3
"""A numerical slack, relatively, that says so."""
LEAST = 1e-300
MOST_LOOKS = 8
ENOUGH = 2e-3
"""Where what is cut is no more of δ than this, another cut would hardly do better."""
LARGEST_STEP, TOO_MUCH = 1e-3, 16.0
"""What is cut where another size of it cannot be had, in units of what was wished for."""
LEVELS = (1e-4, 1e-7, 1e-11)
"""What is cut where δ is asked for at many ε."""
ROOM = 1e-6


@dataclass(frozen=True)
class TailCurve(PrivacyCurve):
    """The smallest, over some cuts, of a bound's δ of what is left and the probability of what was cut."""

    bounding: Bound
    randomizer: Randomizer
    """One that has tails."""
    finite: PrivacyCurve | None
    """The curve of the whole, where there is one."""

    @property
    def certified(self) -> bool:
        return True

    def loss_deviation(self) -> float | None:
        """Of what is left by the second of the usual cuts: more would be a few messages."""
        found = self._cut(LEVELS[1])
        return None if found is None else found[1].loss_deviation()

    @property
    def tells_many(self) -> bool:
        found = self._cut(LEVELS[1])
        return found is not None and found[1].tells_many

    def may_beat(self, epsilon: float, delta: float) -> bool:
        found = self._cut(delta * SHARES[0]) if delta > 0 else None
        if found is None:
            return True
        cut, curve = found
        # At a smaller ε less is lost.
        return curve.may_beat(epsilon, max(delta - cut.lost(epsilon), delta / 2))

    @cached_property
    def _known(self) -> dict[float, tuple[CutRandomizer, PrivacyCurve] | None]:
        return {}

    def _cut(self, share: float) -> tuple[CutRandomizer, PrivacyCurve] | None:
        """What is left of the randomizer, and its curve; None where this is too little to cut."""
        share = max(share, LEAST)
        if share not in self._known:
            assert isinstance(self.randomizer, HasTails)
            cut = self.randomizer.without_tails(share)
            same = next((one for one in self._known.values() if one is not None and one[0] == cut), None)
            self._known[share] = same or (None if cut is None else (cut, self.bounding.curve(cut, self.messages)))
        return self._known[share]

    def _epsilon(self, delta: float) -> BoundValue:
        found = [] if self.finite is None else [self.finite.epsilon(delta)]
        for share in SHARES:
            made = self._cut(share * delta)
            if made is None:
                break
            value = self._with_loss(*made, delta)
            found.append(value)
            if not value.slack <= SHARP * value.upper or made[0].lost(value.upper) <= ENOUGH * delta:
                break
        best = min(found, key=float, default=None)
        return self._value(math.inf, math.inf) if best is None else self._value(best.upper, best.slack)

    def _with_loss(self, cut: CutRandomizer, curve: PrivacyCurve, delta: float) -> BoundValue:
        """The least ε where what is left and what was cut are within δ: found from below, as more ε may cut more."""
        epsilon = 0.0
        for _ in range(MOST_LOOKS):
            room = below(Fraction(delta) - Fraction(cut.lost(epsilon)))
            if not room > 0:
                return self._value(math.inf, math.inf)
            value = curve.epsilon(room)
            if value.upper <= epsilon:
                return self._value(epsilon, max(0.0, epsilon - (value.upper - value.slack)))
            if cut.lost(value.upper) == cut.lost(epsilon):
                return value
            epsilon = value.upper * (1 + ROOM)
        return self._value(math.inf, math.inf)

    def _delta(self, epsilon: float) -> BoundValue:
        """A cut a little below δ, which is found by cutting less and less: what is left says about how small δ is."""
        found = [] if self.finite is None else [self.finite.delta(epsilon)]
        share = LEVELS[0]
        for look in range(MOST_LOOKS):
            made = self._cut(share)
            if made is None:
                break
            cut, curve = made
            value, lost = curve.delta(epsilon), cut.lost(epsilon)
            upper = min(1.0, above(Fraction(value.upper) + Fraction(lost)))
            found.append(self._value(upper, min(upper, above(Fraction(value.slack) + Fraction(lost)))))
            if lost <= ENOUGH * upper or lost > TOO_MUCH * share:
                break
            if look == 0:
                share = max(SHARES[0] * min(share, value.upper), LARGEST_STEP * share)
            elif look == 1:
                # As ε is found for this δ.
                share = SHARES[0] * upper
            elif value.slack <= SHARP * value.upper:
                share *= SHARES[0]
            else:
                break
        best = min(found, key=float, default=None)
        return self._value(1.0, 1.0) if best is None else self._value(best.upper, best.slack)

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        upper, lower = np.ones_like(epsilons), np.zeros_like(epsilons)
        if self.finite is not None:
            whole = self.finite.profile(epsilons)
            upper, lower = whole.upper.copy(), whole.lower.copy()
        for made in map(self._cut, LEVELS):
            if made is None:
                continue
            cut, curve = made
            found = curve.profile(epsilons)
            lost = np.array([cut.lost(float(epsilon)) for epsilon in epsilons])
            total = np.minimum(1.0, np.nextafter(found.upper + lost, np.inf))
            lower = np.where(total < upper, found.lower, lower)
            upper = np.minimum(upper, total)
        return upper, lower


def has_tails(randomizer: Randomizer) -> bool:
    """Whether a bound should cut."""
    return isinstance(randomizer, HasTails) and randomizer.has_tails


def tail_curve(bound: Bound, randomizer: Randomizer, users: int, finite: PrivacyCurve | None) -> PrivacyCurve:
    """A bound's curve where some of user 1's law may be cut."""
    assert isinstance(randomizer, HasTails)
    curve = TailCurve(bound.source(users), bound, randomizer, finite)
    if finite is None and curve._cut(LEVELS[0]) is None:
        raise NotApplicable(
            bound.name,
            "nothing is left once it is cut: no message is sent by all inputs often enough.",
        )
    return curve
