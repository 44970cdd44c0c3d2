"""Protocols with dummies in which the others' own noise hides, too."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb

from shuffledp.array import Floats
from shuffledp.bounds.blanket import OptimalBound
from shuffledp.bounds.bound import Bound
from shuffledp.errors import NotApplicable
from shuffledp.numerics.ball import precision, rational, round_down, round_up
from shuffledp.numerics.binomial import Coin, masses_between, window
from shuffledp.numerics.root import find_crossing
from shuffledp.privacy.curve import LARGEST_EPSILON, NumericCurve, PrivacyCurve
from shuffledp.privacy.randomizer import HasNoisyOthers, Randomizer
from shuffledp.privacy.value import BoundValue

BITS = 128
ROOM = 2.0**-12
"""The share of δ that is left for crowds of unlikely size; it costs about as much of log δ."""
LEAST_DELTA = 1e-290
"""A δ below this is not split."""
MASSES = (1e-4, 1e-5, 1e-6, 1e-8, 1e-10, 1e-12, 1e-15, 1e-18, 1e-22, 1e-28, 1e-35, 1e-50, 1e-80, 1e-120)
"""What sizes of crowd may be left out, of which each ε takes the largest that is little beside its δ."""
SPREAD = 0.0005
"""Sizes that differ by less than this share of all that hides are one stratum; ε moves by about half as much."""
MOST_STRATA, MOST_STRATA_OF_MANY, MANY = 24, 3, 8
"""How many strata there may be, for few ε and for many."""
MOST_STEPS = 1 << 17
"""Sizes that are walked through to find the chances of the strata."""
RELATIVE = 2e-6
"""How closely ε is searched."""
ROUNDING, UNDERFLOW = 1e-14, 1e-321
"""More than the rounding error of a sum over strata in floats, relative and at the end of the floats."""


@dataclass(frozen=True)
class Strata:
    """Sizes of the crowd from each edge up to before the next one, and at last up to ``end``."""

    edges: tuple[int, ...]
    end: int
    upper: Floats
    """At least the chance of each stratum; the last one's covers what is above ``end``, too."""
    lower: Floats
    """At most the chance of each stratum."""
    below: float
    """At least the chance of a smaller crowd."""


@dataclass(frozen=True)
class _Among:
    """The curve of the hiding law alone, among any number of messages."""

    randomizer: Randomizer

    def __call__(self, messages: int) -> NumericCurve:
        return OptimalBound().whole(self.randomizer, messages)


@dataclass(frozen=True)
class NoisyCrowdCurve(PrivacyCurve):
    """δ(ε) = E[D_{M+H}(ε)], where H ~ Bin(others, chance) of the others' real messages hide like dummies.

    D_m, the divergence among m messages, falls in m: one more independent message is post-processing. So every stratum
    a ≤ H < b of sizes has between its chance times D_{M+b} and times D_{M+a}, and less than the first one at most D_M.
    """

    among: Callable[[int], NumericCurve]
    """The curve of D_m."""
    others: int
    chance: Fraction

    @property
    def certified(self) -> bool:
        return True

    def _strata(self, mass: float, most: int) -> Strata:
        """Strata that H is outside of with at most about ``mass``, ``most`` of them."""
        with precision(BITS):
            share = arb(rational(self.chance))
            coin = Coin(share, 1 - share)
            found = window(self.others, coin, math.log(mass))
            below = round_up(found.outside)
            edges = self._edges(found.low, found.high, most)
            if len(edges) == 1:
                return Strata(edges, found.high, np.ones(1), np.array([round_down(1 - arb(below))]), below)
            chances = masses_between(self.others, (*edges, found.high + 1), coin)
            upper = [round_up(chance) for chance in chances[:-1]] + [round_up(chances[-1] + arb(below))]
            lower = [round_down(chance) for chance in chances]
        return Strata(edges, found.high, np.array(upper), np.array(lower), below)

    def _edges(self, low: int, high: int, most: int) -> tuple[int, ...]:
        """Up to somewhat above the mean, where what is left no longer counts."""
        mean = self.others * float(self.chance)
        top = min(high, math.ceil(mean + math.sqrt(mean)))
        wanted = min(most, math.ceil((top - low) / (SPREAD * (self.messages + mean))))
        if wanted <= 1 or high - low > MOST_STEPS:
            return (low,)
        return tuple(np.unique(np.linspace(low, top, wanted, endpoint=False).astype(np.int64)).tolist())

    def _bounds(self, epsilons: Floats, strata: Strata, whole: Floats) -> tuple[Floats, Floats]:
        """(upper, lower) of δ, where ``whole`` is at least D_M."""
        if strata.edges[0] == 0 and len(strata.edges) == 1:
            upper = whole
        else:
            found = [self.among(self.messages + size).profile(epsilons) for size in strata.edges]
            parts = [chance * each.upper for chance, each in zip(strata.upper, found, strict=True)]
            upper = np.minimum(whole, _up(strata.below * whole + np.sum(parts, axis=0)))
        last = self.among(self.messages + strata.end).profile(epsilons).lower
        nexts = [] if len(strata.edges) == 1 else [each.lower for each in found[1:]]
        parts = [chance * each for chance, each in zip(strata.lower, [*nexts, last], strict=True)]
        return upper, np.maximum(0.0, np.sum(parts, axis=0) * (1 - ROUNDING) - UNDERFLOW)

    def _whole(self, epsilons: Floats) -> Floats:
        return self.among(self.messages).profile(epsilons).upper

    def _unlikely(self, whole: Floats) -> Floats:
        """The chance of crowds that may be left out, where that costs ``whole`` times as much: little beside δ."""
        # log D is about proportional to the messages: what all others' noise, at its mean, makes of δ.
        share = self.others * float(self.chance) / self.messages
        masses = np.array(MASSES)
        wanted = ROOM * np.maximum(whole, LEAST_DELTA) ** share
        return masses[np.minimum(np.searchsorted(-masses, -wanted), len(masses) - 1)]

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        most = MOST_STRATA if len(epsilons) <= MANY else MOST_STRATA_OF_MANY
        whole = self._whole(epsilons)
        upper, lower = np.empty_like(whole), np.empty_like(whole)
        taken = self._unlikely(whole)
        for mass in np.unique(taken):
            some = taken == mass
            strata = self._strata(float(mass), most)
            upper[some], lower[some] = self._bounds(epsilons[some], strata, whole[some])
        return upper, np.minimum(lower, upper)

    def _delta(self, epsilon: float) -> BoundValue:
        (upper,), (lower,) = self._profile(np.array([epsilon]))
        return self._value(float(upper), _gap(float(upper), float(lower)))

    def _epsilon(self, delta: float) -> BoundValue:
        lower, strata = self._from_below(delta)
        with precision(BITS):
            left = round_down(arb(delta) - arb(strata.below) * arb(self._alone(lower)))
        upper = max(lower, self.among(self.messages + strata.edges[0]).epsilon(left).upper)
        if len(strata.edges) > 1 and math.isfinite(upper):
            upper, lower = self._narrowed(delta, strata, lower, upper)
        return self._value(upper, _gap(upper, lower))

    def _alone(self, epsilon: float) -> float:
        """What a crowd without the others' noise costs, at this ε and from there on."""
        return min(1.0, float(self._whole(np.array([min(epsilon, LARGEST_EPSILON)]))[0]))

    def _from_below(self, delta: float) -> tuple[float, Strata]:
        """What ε is not below; and strata outside of which little of δ is lost from there on."""
        strata = self._strata(max(delta, LEAST_DELTA) * ROOM, MOST_STRATA)
        if strata.below >= delta:
            strata = Strata((0,), self.others, np.ones(1), np.ones(1), 0.0)
        with precision(BITS):
            more = round_up(arb(delta) / arb(float(strata.lower.sum() * (1 - ROUNDING))))
        lower = self._at_least(more, strata.end)
        alone = self._alone(lower)
        wider = self._strata(float(self._unlikely(np.array([alone]))[0]), MOST_STRATA)
        return lower, wider if wider.below * alone < delta / 2 else strata

    def _at_least(self, delta: float, most: int) -> float:
        """What ε is not below, of a crowd that is nearly never larger than this."""
        if delta >= 1:
            return 0.0
        best = self.among(self.messages + most).epsilon(delta)
        if math.isfinite(best.upper):
            return max(0.0, math.nextafter(best.upper - best.slack, 0.0))
        return best.upper if best.slack == 0 else 0.0

    def _narrowed(self, delta: float, strata: Strata, lower: float, upper: float) -> tuple[float, float]:
        """A proved ε by all strata, and one from below; between those that are known."""
        proved = lower

        def logs(epsilon: float) -> tuple[float, float]:
            """log δ from above and from below, at most the target's where it is small enough."""
            nonlocal proved
            point = np.array([epsilon])
            (above,), (below,) = self._bounds(point, strata, self._whole(point))
            if below >= delta:
                proved = max(proved, epsilon)
            return _log_ratio(float(above), delta), _log_ratio(float(below), delta)

        found = find_crossing(lambda epsilon: -logs(epsilon)[0], lower, upper, relative=RELATIVE)
        epsilon = min(upper, found.above)
        if found.f_below < 0 and math.isfinite(found.f_below) and found.below > proved:
            # As far down as the two sides are apart, by the slope between the known ends.
            gap = logs(found.below)[0] - logs(found.below)[1]
            slope = (found.f_above - found.f_below) / (found.above - found.below)
            if math.isfinite(gap) and slope > 0:
                for stretch in (1.2, 2.0):
                    if proved < found.below - stretch * gap / slope:
                        logs(found.below - stretch * gap / slope)
        return epsilon, proved


def _log_ratio(value: float, delta: float) -> float:
    return math.log(value / delta) if value > 0 else -math.inf


def _up(values: Floats) -> Floats:
    return np.asarray(values * (1 + ROUNDING) + UNDERFLOW)


def _gap(upper: float, lower: float) -> float:
    """How far ``upper`` may be above the truth, which is at least ``lower``."""
    if math.isinf(upper):
        return 0.0 if math.isinf(lower) else upper
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
    guarantees = True

    def curve(self, randomizer: Randomizer, users: int) -> NoisyCrowdCurve:
        if not isinstance(randomizer, HasNoisyOthers):
            raise NotApplicable(self.name, f"{type(randomizer).__name__} gives no noise besides dummies.")
        others, chance = randomizer.noisy_others(users)
        if others < 1:
            raise NotApplicable(self.name, "needs other users, got none.")
        return NoisyCrowdCurve(self.source(users), _Among(randomizer), others, chance)
