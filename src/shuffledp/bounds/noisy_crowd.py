"""Protocols with dummies in which the others' own noise hides, too."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb

from shuffledp.bounds.blanket import OptimalBound
from shuffledp.bounds.bound import Bound
from shuffledp.errors import NotApplicable
from shuffledp.numerics.ball import precision, rational, round_down, round_up
from shuffledp.numerics.binomial import Coin, window
from shuffledp.privacy.capability import GivesBlankets, GivesNoisyOthers
from shuffledp.privacy.curve import BoundValue, NumericCurve, PrivacyCurve
from shuffledp.privacy.profile import Floats

BITS = 128
ROOM = 2.0**-12
"""The share of δ that is left for crowds of unlikely size; it costs about as much of log δ."""
LEAST_DELTA = 1e-290
"""A δ below this is not split."""
MASSES = (1e-4, 1e-5, 1e-6, 1e-8, 1e-10, 1e-12, 1e-15, 1e-18, 1e-22, 1e-28, 1e-35, 1e-50, 1e-80, 1e-120)
"""For many ε at once: what sizes of crowd may be left out, of which each ε takes the largest that is little."""


@dataclass(frozen=True)
class NoisyCrowdCurve(PrivacyCurve):
    """δ(ε) = E[D_{M+H}(ε)], where H ~ Bin(others, chance) of the others' real messages hide like dummies.

    D_m, the divergence among m messages, falls in m: one more independent message is post-processing. So
    D_{M+high}·P(H ≤ high) ≤ δ ≤ D_{M+low} + P(H < low)·D_M for every low and high.
    """

    among: Callable[[int], NumericCurve]
    """The curve of D_m."""
    others: int
    chance: Fraction

    def _sizes(self, mass: float) -> tuple[int, int, float]:
        """low and high such that H is outside with at most about ``mass``, and a proved bound of that probability."""
        with precision(BITS):
            share = arb(rational(self.chance))
            found = window(self.others, Coin(share, 1 - share), math.log(mass))
            return found.low, found.high, round_up(found.outside)

    def _epsilon(self, delta: float) -> BoundValue:
        low, high, outside = self._sizes(max(delta, LEAST_DELTA) * ROOM)
        if outside >= delta:
            low, high, outside = 0, self.others, 0.0
        with precision(BITS):
            left = round_down(arb(delta) - arb(outside))
            more = round_up(arb(delta) / (1 - arb(outside)))
        upper = self.among(self.users + low).epsilon(left).upper
        best = self.among(self.users + high).epsilon(more)
        return self._value(upper, _gap(upper, best))

    def _delta(self, epsilon: float) -> BoundValue:
        whole = self.among(self.users).delta(epsilon).upper
        middle = self.among(self.users + int(self.others * self.chance)).delta(epsilon).upper
        low, high, outside = self._sizes(max(middle, LEAST_DELTA) * ROOM)
        inside = self.among(self.users + low).delta(epsilon).upper
        with precision(BITS):
            upper = min(whole, round_up(arb(inside) + arb(outside) * arb(whole)))
        best = self.among(self.users + high).delta(epsilon)
        return self._value(upper, _gap(upper, best, 1 - outside))

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        whole = self.among(self.users).profile(epsilons).upper
        upper = whole.copy()
        _, high, outside = self._sizes(MASSES[0])
        lower = self.among(self.users + high).profile(epsilons).lower * ((1 - outside) * (1 - 1e-15))
        # Each ε leaves out as much as is little beside what its δ is at least; the last mass is for δ of almost 0.
        wanted = ROOM * lower / np.maximum(whole, LEAST_DELTA)
        masses = np.array(MASSES)
        taken = np.minimum(np.searchsorted(-masses, -wanted), len(masses) - 1)
        for step in np.unique(taken):
            low, _, outside = self._sizes(masses[step])
            if low > 0:
                some = taken == step
                near = self.among(self.users + low).profile(epsilons[some]).upper
                spilt = np.nextafter(outside * whole[some], np.inf)
                upper[some] = np.minimum(whole[some], np.nextafter(near + spilt, np.inf))
        return upper, lower


def _gap(upper: float, best: BoundValue, share: float = 1.0) -> float:
    """How far ``upper`` may be above the truth, which is at least this share of ``best``."""
    if math.isinf(upper):
        return 0.0 if math.isinf(best.upper) else upper
    lower = max(0.0, (best.upper - best.slack) * share * (1 - 1e-15))
    return math.nextafter(max(0.0, upper - lower), math.inf)


class NoisyCrowdBound(Bound):
    """Dummies, and the others' real messages as far as they are certain to hide.

    Theorem: with R(x) ≥ λ·w for every x, w the law of a dummy, each other real message is a draw from w with chance λ,
    independently of everything; revealing the rest leaves E[D_{M+H}], H ~ Bin(others, λ), by (★) for each H.
    Requires: the law of what hides, λ > 0, and somebody else.
    Returns: a certified upper bound; its slack holds what the unlikely values of H cost.
    """

    name = "noisy-crowd"
    theorem = "identity (★) with dummies and with the others' own noise"
    summary = "dummies, and what the others' own randomness hides on top"

    def curve(self, randomizer: object, users: int) -> NoisyCrowdCurve:
        if not isinstance(randomizer, GivesNoisyOthers) or not isinstance(randomizer, GivesBlankets):
            raise NotApplicable(self.name, f"{type(randomizer).__name__} gives no noise besides dummies.")
        others, chance = randomizer.noisy_others(users)
        if others < 1:
            raise NotApplicable(self.name, "needs other users, got none.")

        def among(messages: int) -> NumericCurve:
            return OptimalBound().curve(randomizer, messages)

        return NoisyCrowdCurve(self.source(users), among, others, chance)
