"""Bounds for multi-message protocols: dummies with random blankets, aggregate noise, and published analyses."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb

from shuffledp._core.errors import NotApplicable
from shuffledp._core.validation import Floats
from shuffledp.bounds.base import Bound
from shuffledp.bounds.blanket import OptimalBound
from shuffledp.numerics.ball_arithmetic import precision, round_down, round_up, to_rational
from shuffledp.numerics.distributions import Coin, find_chernoff_window, masses_between
from shuffledp.numerics.roots import find_crossing
from shuffledp.privacy.aggregate_noise import AggregateNoiseCurve
from shuffledp.privacy.curve import MAX_EPSILON, BoundValue, ClosedFormCurve, CurveSource, NumericCurve, PrivacyCurve
from shuffledp.privacy.randomizer_interface import HasAggregateLoss, HasNoisyMessages, HasPublishedGuarantee, Randomizer

BITS = 128
UNLIKELY_DELTA_SHARE = 2.0**-12
"""Share of δ reserved for unlikely numbers of hiding messages; it costs about as much of log δ."""
MIN_DELTA = 1e-290
"""A δ below this is not split."""
OMITTED_MASSES = (1e-4, 1e-5, 1e-6, 1e-8, 1e-10, 1e-12, 1e-15, 1e-18, 1e-22, 1e-28, 1e-35, 1e-50, 1e-80, 1e-120)
"""Probabilities of omitted numbers of hiding messages; each ε takes the largest that is small beside its δ."""
STRATUM_WIDTH = 0.0005
"""Numbers that differ by less than this share of all hiding messages form one stratum; ε moves by about half as much.
"""
MAX_STRATA, MAX_PROFILE_STRATA, MAX_FULL_EPSILONS = 24, 3, 8
"""Largest number of strata: for few ε, for many ε, and the number of ε from which there are many."""
MAX_SUMMED_SIZES = 1 << 17
"""Largest number of sizes to add up for the probabilities of the strata."""
EPSILON_TOLERANCE = 2e-6
"""Relative width of the search for ε."""
ROUNDING_MARGIN, UNDERFLOW_MARGIN = 1e-14, 1e-321
"""Above the rounding error of a sum over strata in floats: the relative part, and underflow."""


@dataclass(frozen=True)
class Strata:
    """Ranges of the number of hiding messages: from each edge up to the next, the last one up to ``end``."""

    edges: tuple[int, ...]
    end: int
    upper: Floats
    """Upper bounds of the probability of each stratum; that of the last one includes the numbers above ``end``."""
    lower: Floats
    """Lower bounds of the probability of each stratum."""
    below: float
    """Upper bound of the probability of a smaller number."""


@dataclass(frozen=True)
class _DummyCurves:
    """The curve of the hiding law alone, among any number of messages."""

    randomizer: Randomizer

    def __call__(self, messages: int) -> NumericCurve:
        return OptimalBound().untruncated_curve(self.randomizer, messages)


@dataclass(frozen=True)
class RandomBlanketCurve(PrivacyCurve):
    """δ(ε) = E[D_{M+H}(ε)], where H ~ Bin(others, chance) of the others' real messages hide like dummies.

    D_m, the divergence among m messages, falls in m: one more independent message is post-processing. So every stratum
    a ≤ H < b contributes between its probability times D_{M+b} and times D_{M+a}, and an H below the first stratum at
    most D_M.
    """

    messages_curve: Callable[[int], NumericCurve]
    """Returns the curve of D_m."""
    others: int
    chance: Fraction

    @property
    def certified(self) -> bool:
        return True

    def _build_strata(self, mass: float, most: int) -> Strata:
        """Returns up to ``most`` strata, outside of which H lies with a probability of at most about ``mass``."""
        with precision(BITS):
            share = arb(to_rational(self.chance))
            coin = Coin(share, 1 - share)
            window = find_chernoff_window(self.others, coin, math.log(mass))
            below = round_up(window.outside)
            edges = self._stratum_edges(window.low, window.high, most)
            if len(edges) == 1:
                return Strata(edges, window.high, np.ones(1), np.array([round_down(1 - arb(below))]), below)
            chances = masses_between(self.others, (*edges, window.high + 1), coin)
            upper = [round_up(chance) for chance in chances[:-1]] + [round_up(chances[-1] + arb(below))]
            lower = [round_down(chance) for chance in chances]
        return Strata(edges, window.high, np.array(upper), np.array(lower), below)

    def _stratum_edges(self, low: int, high: int, most: int) -> tuple[int, ...]:
        """Returns edges up to somewhat above the mean; numbers beyond contribute little."""
        mean = self.others * float(self.chance)
        top = min(high, math.ceil(mean + math.sqrt(mean)))
        count = min(most, math.ceil((top - low) / (STRATUM_WIDTH * (self.messages + mean))))
        if count <= 1 or high - low > MAX_SUMMED_SIZES:
            return (low,)
        return tuple(np.unique(np.linspace(low, top, count, endpoint=False).astype(np.int64)).tolist())

    def _bound_delta(self, epsilons: Floats, strata: Strata, whole: Floats) -> tuple[Floats, Floats]:
        """Returns an upper and a lower bound of δ, where ``whole`` is at least D_M."""
        if strata.edges[0] == 0 and len(strata.edges) == 1:
            upper = whole
        else:
            profiles = [self.messages_curve(self.messages + size).profile(epsilons) for size in strata.edges]
            parts = [chance * each.upper for chance, each in zip(strata.upper, profiles, strict=True)]
            upper = np.minimum(whole, _raise_bounds(strata.below * whole + np.sum(parts, axis=0)))
        last = self.messages_curve(self.messages + strata.end).profile(epsilons).lower
        nexts = [] if len(strata.edges) == 1 else [each.lower for each in profiles[1:]]
        parts = [chance * each for chance, each in zip(strata.lower, [*nexts, last], strict=True)]
        return upper, np.maximum(0.0, np.sum(parts, axis=0) * (1 - ROUNDING_MARGIN) - UNDERFLOW_MARGIN)

    def _dummies_only_profile(self, epsilons: Floats) -> Floats:
        return self.messages_curve(self.messages).profile(epsilons).upper

    def _omitted_mass(self, whole: Floats) -> Floats:
        """Returns the probability of sizes to omit; it costs ``whole`` times as much, which is small beside δ."""
        # log D is about proportional to the number of messages: this estimates δ with the others' noise at its mean.
        share = self.others * float(self.chance) / self.messages
        masses = np.array(OMITTED_MASSES)
        mass = UNLIKELY_DELTA_SHARE * np.maximum(whole, MIN_DELTA) ** share
        return masses[np.minimum(np.searchsorted(-masses, -mass), len(masses) - 1)]

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        most = MAX_STRATA if len(epsilons) <= MAX_FULL_EPSILONS else MAX_PROFILE_STRATA
        whole = self._dummies_only_profile(epsilons)
        upper, lower = np.empty_like(whole), np.empty_like(whole)
        omitted = self._omitted_mass(whole)
        for mass in np.unique(omitted):
            selected = omitted == mass
            strata = self._build_strata(float(mass), most)
            upper[selected], lower[selected] = self._bound_delta(epsilons[selected], strata, whole[selected])
        return upper, np.minimum(lower, upper)

    def _delta(self, epsilon: float) -> BoundValue:
        (upper,), (lower,) = self._profile(np.array([epsilon]))
        return self._value(float(upper), _slack(float(upper), float(lower)))

    def _epsilon(self, delta: float) -> BoundValue:
        lower, strata = self._bound_epsilon_below(delta)
        with precision(BITS):
            left = round_down(arb(delta) - arb(strata.below) * arb(self._dummies_only_delta(lower)))
        upper = max(lower, self.messages_curve(self.messages + strata.edges[0]).epsilon(left).upper)
        if len(strata.edges) > 1 and math.isfinite(upper):
            upper, lower = self._narrow_epsilon(delta, strata, lower, upper)
        return self._value(upper, _slack(upper, lower))

    def _dummies_only_delta(self, epsilon: float) -> float:
        """Returns D_M, the δ without the others' noise, at this ε; it falls with ε."""
        return min(1.0, float(self._dummies_only_profile(np.array([min(epsilon, MAX_EPSILON)]))[0]))

    def _bound_epsilon_below(self, delta: float) -> tuple[float, Strata]:
        """Returns a lower bound of ε, and strata outside of which little of δ is lost from there on."""
        strata = self._build_strata(max(delta, MIN_DELTA) * UNLIKELY_DELTA_SHARE, MAX_STRATA)
        if strata.below >= delta:
            strata = Strata((0,), self.others, np.ones(1), np.ones(1), 0.0)
        with precision(BITS):
            more = round_up(arb(delta) / arb(float(strata.lower.sum() * (1 - ROUNDING_MARGIN))))
        lower = self._lower_epsilon(more, strata.end)
        alone = self._dummies_only_delta(lower)
        wider = self._build_strata(float(self._omitted_mass(np.array([alone]))[0]), MAX_STRATA)
        return lower, wider if wider.below * alone < delta / 2 else strata

    def _lower_epsilon(self, delta: float, most: int) -> float:
        """Returns a lower bound of ε for a number of hiding messages that is almost never above ``most``."""
        if delta >= 1:
            return 0.0
        best = self.messages_curve(self.messages + most).epsilon(delta)
        if math.isfinite(best.upper):
            return max(0.0, math.nextafter(best.upper - best.slack, 0.0))
        return best.upper if best.slack == 0 else 0.0

    def _narrow_epsilon(self, delta: float, strata: Strata, lower: float, upper: float) -> tuple[float, float]:
        """Returns an ε proved with all strata and a lower bound, both between the given ones."""
        proved = lower

        def logs(epsilon: float) -> tuple[float, float]:
            """Returns upper and lower bounds of log δ relative to the target."""
            nonlocal proved
            point = np.array([epsilon])
            (above,), (below,) = self._bound_delta(point, strata, self._dummies_only_profile(point))
            if below >= delta:
                proved = max(proved, epsilon)
            return _log_ratio(float(above), delta), _log_ratio(float(below), delta)

        crossing = find_crossing(lambda epsilon: -logs(epsilon)[0], lower, upper, relative=EPSILON_TOLERANCE)
        epsilon = min(upper, crossing.above)
        if crossing.f_below < 0 and math.isfinite(crossing.f_below) and crossing.below > proved:
            # Go down by the gap between the two sides, with the slope between the known ends.
            gap = logs(crossing.below)[0] - logs(crossing.below)[1]
            slope = (crossing.f_above - crossing.f_below) / (crossing.above - crossing.below)
            if math.isfinite(gap) and slope > 0:
                for stretch in (1.2, 2.0):
                    if proved < crossing.below - stretch * gap / slope:
                        logs(crossing.below - stretch * gap / slope)
        return epsilon, proved


def _log_ratio(value: float, delta: float) -> float:
    return math.log(value / delta) if value > 0 else -math.inf


def _raise_bounds(values: Floats) -> Floats:
    return np.asarray(values * (1 + ROUNDING_MARGIN) + UNDERFLOW_MARGIN)


def _slack(upper: float, lower: float) -> float:
    """Returns a bound of the excess of ``upper`` over the exact value, which is at least ``lower``."""
    if math.isinf(upper):
        return 0.0 if math.isinf(lower) else upper
    return math.nextafter(max(0.0, upper - lower), math.inf)


class RandomBlanketBound(Bound):
    """Dummies, and the others' real messages as far as they are certain to hide.

    Theorem: with R(x) ≥ λ·w for every x, w the law of a dummy, each other real message is a draw from w with
    probability λ, independently of everything; revealing the rest leaves E[D_{M+H}], H ~ Bin(others, λ), by (★) for
    each H.
    Requires: the law of the hiding messages, λ > 0, and at least one other user.
    Returns: a certified upper bound; its slack includes the cost of the unlikely values of H.
    """

    name = "noisy-crowd"
    theorem = "identity (★) with dummies and with the others' own noise"
    summary = "dummies, and the noise of the others' own messages"
    guarantees = True

    def curve(self, randomizer: Randomizer, users: int) -> RandomBlanketCurve:
        if not isinstance(randomizer, HasNoisyMessages):
            raise NotApplicable(self.name, f"{type(randomizer).__name__} gives no noise besides dummies.")
        others, chance = randomizer.count_noisy_messages(users)
        if others < 1:
            raise NotApplicable(self.name, "needs other users, got none.")
        return RandomBlanketCurve(self.source(users), _DummyCurves(randomizer), others, chance)


# --- Aggregate noise ---


class AggregateNoiseBound(Bound):
    """The privacy loss of noise that all honest users, or the shuffler, add together.

    Theorem: the protocol's own, proved where its loss is computed; each curve names it.
    Requires: a protocol whose noise has a known law, and as many honest users as it needs.
    Returns: certified values of δ(ε); exact where the protocol says that an attack attains them.
    """

    name = "own-noise"
    theorem = "the law of the protocol's own noise"
    summary = "exact, for protocols whose users or shuffler add noise with a law of its own"
    guarantees = True

    def curve(self, randomizer: Randomizer, users: int) -> AggregateNoiseCurve:
        if not isinstance(randomizer, HasAggregateLoss):
            raise NotApplicable(self.name, f"{type(randomizer).__name__} has no noise with a law of its own.")
        loss = randomizer.aggregate_loss(users)
        return AggregateNoiseCurve(CurveSource(self.name, loss.theorem, users, self.guarantees, loss.note), loss)


# --- Published guarantees of protocols ---


@dataclass(frozen=True)
class _PublishedFormula:
    """ε(δ) as printed in a protocol's paper."""

    protocol: HasPublishedGuarantee
    messages: int

    def __call__(self, delta: arb) -> arb:
        return self.protocol.published_epsilon(self.messages, delta)


class ProtocolPublishedBound(Bound):
    """The guarantee that a multi-message protocol was published with.

    Theorem: the protocol's own, as printed; each curve names it.
    Requires: a protocol that quotes its paper.
    Returns: the printed ε; not checked by us, hence not returned as a guarantee.
    """

    name = "protocol-published"
    theorem = "the protocol's own published analysis"
    summary = "as printed in the protocol's paper, for comparison; not checked by us"

    def curve(self, randomizer: Randomizer, users: int) -> ClosedFormCurve:
        if not isinstance(randomizer, HasPublishedGuarantee):
            raise NotApplicable(self.name, f"{type(randomizer).__name__} gives no published analysis of its own.")
        note = "Not a guarantee of ours: the printed analysis, for comparison."
        source = CurveSource(self.name, randomizer.published_theorem, users, guarantee=False, note=note)
        return ClosedFormCurve(source, _PublishedFormula(randomizer, users), math.inf)
