"""How far a distance shrinks when messages are shuffled: published closed forms, exact clones, the numeric bound."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from flint import arb

from shuffledp.array import Floats
from shuffledp.bounds.all_crowds import FEWEST, AllCrowdsCurve
from shuffledp.bounds.amplify import amplify
from shuffledp.metric.many_pairs import ManyPairs
from shuffledp.metric.noise import AnyNoise, Noise
from shuffledp.numerics.ball import precision, round_up
from shuffledp.numerics.many_roots import Places, find_crossings
from shuffledp.privacy.curve import PrivacyCurve
from shuffledp.privacy.ratio_floats import log_divergences
from shuffledp.privacy.space import Space, Surroundings
from shuffledp.privacy.value import BoundValue
from shuffledp.privacy.variation_ratio import VariationRatio

BITS = 192
DOUBT = 5e-5
"""What an estimate of log δ adds, so that few distances found with it have to be lowered again: a little more than
the quick proof is wide. Not more, because some distances hardly move log δ: by a hundredth of their own change."""
MORE_DOUBT = 1e-3
"""The same where constant crowds stand for all."""
GUESS_WIDTH = 1e-6
"""Relative width to which an ε is searched in floats before it is proved."""
HAIR = 1e-9
"""By how much a closed form in floats is raised."""


@dataclass(frozen=True)
class Amplification(ABC):
    """One theorem that bounds the distance of two inputs after shuffling."""

    name: ClassVar[str]
    theorem: ClassVar[str]
    asks: ClassVar[tuple[str, ...]]
    """Which of a pair's numbers it looks at, by their names in ``Surroundings``."""

    @property
    def uniform(self) -> bool:
        """Whether it counts the largest distance of all for every pair, as the solvers of the paper do."""
        return "diameter" in self.asks

    def check_space(self, who: str, space: Space) -> None:
        """Refuse a space that the theorem says nothing about; by default there is none."""
        del who, space

    def epsilon(self, pair: Surroundings, users: int, delta: float) -> BoundValue:
        """ε for which the two inputs are (ε, δ)-indistinguishable; never above their local distance."""
        if pair.distance == 0.0:
            return self._value(0.0, 0.0, delta)
        upper, slack = self._epsilon(pair, users, delta)
        if upper >= pair.distance:
            return self._value(pair.distance, max(0.0, slack - (upper - pair.distance)), delta)
        return self._value(upper, slack, delta)

    def excess(self, pair: Surroundings, users: int, delta: float, target: float) -> float:
        """At most 0 exactly where the two inputs are proved (target, δ)-indistinguishable; grows with the distances."""
        if pair.distance <= target:
            return -math.inf
        return self._excess(pair, users, delta, target)

    def _excess(self, pair: Surroundings, users: int, delta: float, target: float) -> float:
        return self._epsilon(pair, users, delta)[0] - target

    def proved(self, pair: Surroundings, users: int, delta: float, target: float, guess: float) -> float:
        """An ε of at most the target with which the two inputs are proved (ε, δ)-indistinguishable; else infinity.

        ``guess`` is an ε that may well be provable, found in floats.
        """
        del guess
        found = self.epsilon(pair, users, delta).upper
        return found if found <= target else math.inf

    # --- in floats, for searching -----------------------------------------------------------------------------

    def estimates(self, pairs: ManyPairs, users: int, delta: float, targets: Floats) -> Floats:
        """About the excess of many pairs, a little more rather than less; infinite where floats give out."""
        result = np.full(len(targets), -np.inf)
        (far,) = np.nonzero(pairs.distance > targets)
        with np.errstate(all="ignore"):
            result[far] = self._estimates(pairs.at(far), users, delta, targets[far])
        return np.where(np.isnan(result), np.inf, result)

    @abstractmethod
    def _estimates(self, pairs: ManyPairs, users: int, delta: float, targets: Floats) -> Floats:
        """The same for distances above their targets; no number (NaN) where floats give out."""

    def guesses(self, pairs: ManyPairs, users: int, delta: float) -> Floats:
        """About the ε of many pairs, where proving one needs a guess."""
        del users, delta
        return pairs.distance

    # --- the theorem ------------------------------------------------------------------------------------------

    @abstractmethod
    def _epsilon(self, pair: Surroundings, users: int, delta: float) -> tuple[float, float]:
        """The theorem's value and its slack, for a positive distance; infinite where it does not apply."""

    def _value(self, upper: float, slack: float, delta: float) -> BoundValue:
        return BoundValue(upper, slack, self.name, self.theorem, certified=True, guarantee=True, delta=delta)


class _ClosedForm(Amplification):
    """log(1 + tanh(D/2)·K) with a factor K of R, n and δ."""

    asks = ("distance", "clone_sum")

    def _epsilon(self, pair: Surroundings, users: int, delta: float) -> tuple[float, float]:
        with precision(BITS):
            factor = self.factor(self.clones(pair), users, delta)
            if factor is None:
                return math.inf, 0.0
            value = round_up((1 + (arb(pair.distance) / 2).tanh() * factor).log())
        return value, math.ulp(value)

    def _estimates(self, pairs: ManyPairs, users: int, delta: float, targets: Floats) -> Floats:
        numbers, places = np.unique(getattr(pairs, self.asks[-1]), return_inverse=True)
        with precision(BITS):
            factors = [self.factor(self._clones_of(arb(number)), users, delta) for number in numbers.tolist()]
        factor = np.array([math.inf if each is None else float(each.mid()) for each in factors])[places]
        return np.asarray(np.log1p(np.tanh(pairs.distance / 2) * factor) * (1 + HAIR) - targets)

    def clones(self, pair: Surroundings) -> arb:
        """R: the inverse of half the chance that another user's message is a clone of user 1's."""
        return self._clones_of(arb(getattr(pair, self.asks[-1])))

    def _clones_of(self, number: arb) -> arb:
        """R by the number that is asked for besides the distance: R itself, or the diameter."""
        return 2 * number.exp() if self.uniform else number

    @abstractmethod
    def factor(self, clones: arb, users: int, delta: float) -> arb | None:
        """K as a ball, None where the theorem gives nothing."""


class Theorem1(_ClosedForm):
    """Amplification of metric privacy by shuffling.

    Theorem: [MDP] Theorem 1: log(1 + tanh(D/2)·(2√(ΩL/2) + 1)/(Ω/2 − √(ΩL/2))), L = log(4/δ), π = 2/R_ab,
    Ω = (n−1)π − √(3(n−1)πL).
    Requires: Ω > 2L; else the distance itself.
    Returns: a certified upper bound, never above the local distance.
    Deviates: the weight is tanh(D/2) (docs/errata.md, MD-1).
    """

    name = "theorem-1"
    theorem = "[MDP] Theorem 1"

    def factor(self, clones: arb, users: int, delta: float) -> arb | None:
        log, chance, others = (4 / arb(delta)).log(), 2 / clones, arb(users - 1)
        mean = others * chance
        omega = mean - (3 * mean * log).sqrt()
        if not omega > 2 * log:
            return None
        root = (omega * log / 2).sqrt()
        return (2 * root + 1) / (omega / 2 - root)


class Corollary1(Theorem1):
    """The same with one number for all pairs.

    Theorem: [MDP] Corollary 1: Theorem 1 with R = 2e^D_max.
    Requires: Ω > 2L; else the distance itself.
    Returns: a certified upper bound, never below Theorem 1's.
    """

    name = "corollary-1"
    theorem = "[MDP] Corollary 1"
    asks = ("distance", "diameter")


class Corollary2(_ClosedForm):
    """The simplified form.

    Theorem: [MDP] Corollary 2: log(1 + 8·tanh(D/2)(√(RL/(2(n−1))) + R/(2(n−1)))).
    Requires: n ≥ 8LR; else the distance itself.
    Returns: a certified upper bound, never above the local distance.
    """

    name = "corollary-2"
    theorem = "[MDP] Corollary 2"

    def factor(self, clones: arb, users: int, delta: float) -> arb | None:
        log = (4 / arb(delta)).log()
        if not arb(users) >= 8 * log * clones:
            return None
        share = clones / (2 * arb(users - 1))
        return 8 * ((share * log).sqrt() + share)


class UniformCorollary2(Corollary2):
    """The simplified form with one number for all pairs, as the solver of the paper uses it.

    Theorem: [MDP] Corollary 2 with R = 2e^D_max (Algorithm 3).
    Requires: n ≥ 16L·e^D_max; else the distance itself.
    Returns: a certified upper bound, never below Corollary 2's.
    """

    name = "corollary-2-uniform"
    theorem = "[MDP] Corollary 2, R = 2·exp(largest distance)"
    asks = ("distance", "diameter")


class _Numeric(Amplification):
    """A pair of variation-ratio parameters, evaluated numerically exactly."""

    @abstractmethod
    def parameters(self, pair: Surroundings) -> VariationRatio:
        """The parameters of two inputs at a positive distance."""

    def curve(self, pair: Surroundings, users: int) -> PrivacyCurve:
        """The whole curve δ(ε) of the pair."""
        return amplify(self.parameters(pair), users, bound="variation-ratio")

    def _epsilon(self, pair: Surroundings, users: int, delta: float) -> tuple[float, float]:
        value = self.curve(pair, users).epsilon(delta)
        return value.upper, value.slack

    def _excess(self, pair: Surroundings, users: int, delta: float, target: float) -> float:
        """One evaluation of δ at the target, no search."""
        found = self.curve(pair, users).delta(target).upper
        if found <= delta:
            return min(0.0, math.log(found / delta)) if found > 0 else -math.inf
        return max(math.log(found / delta), math.ulp(1.0))

    def proved(self, pair: Surroundings, users: int, delta: float, target: float, guess: float) -> float:
        """By δ at the guess, at the target, and last by the sharper value there."""
        most = min(target, pair.distance)
        if most == pair.distance <= guess:
            return most
        curve = self.curve(pair, users)
        for epsilon in sorted({min(guess, most), most}):
            if self._quickly(curve, epsilon) <= delta:
                return epsilon
        return most if self.excess(pair, users, delta, most) <= 0 else math.inf

    def _quickly(self, curve: PrivacyCurve, epsilon: float) -> float:
        """A proved δ at ε, sharp enough for a guess."""
        return float(curve.profile([epsilon]).upper[0])

    @abstractmethod
    def log_ratios(self, pairs: ManyPairs) -> tuple[Floats, Floats, Floats]:
        """β, log q0 and log q1 of many pairs, in floats; log p is their distance."""

    def _estimates(self, pairs: ManyPairs, users: int, delta: float, targets: Floats) -> Floats:
        found = log_divergences(pairs.distance, *self.log_ratios(pairs), targets, users)
        return np.asarray(found - math.log(delta) + DOUBT)

    def guesses(self, pairs: ManyPairs, users: int, delta: float) -> Floats:
        """Where the estimate of δ falls to the δ that is wanted."""

        def room(epsilon: Floats, places: Places) -> Floats:
            return -self.estimates(pairs.at(places), users, delta, epsilon)

        _, above = find_crossings(room, np.zeros_like(pairs.distance), pairs.distance, GUESS_WIDTH)
        return above


class ExactClone(_Numeric):
    """The clones behind Theorem 1, numerically exact.

    Theorem: [MDP] Supplementary A, Step 2: every other message is a clone of K(a), and of K(b), with probability
    1/R_ab; user 1 of the other input's with probability 1/(e^D + 1).
    Requires: R_ab ≥ e^D + 1, which c = a gives.
    Returns: a certified upper bound with its numerical slack.
    """

    name = "clone"
    theorem = "clones of [MDP] Theorem 1, numerically exact"
    asks = ("distance", "clone_sum")

    def parameters(self, pair: Surroundings) -> VariationRatio:
        with precision(BITS):
            ratio = arb(pair.distance).exp()
            hiding = round_up(arb(pair.clone_sum) * ratio / (1 + ratio))
            return VariationRatio(round_up(ratio), round_up((arb(pair.distance) / 2).tanh()), hiding)

    def log_ratios(self, pairs: ManyPairs) -> tuple[Floats, Floats, Floats]:
        log_q = np.log(pairs.clone_sum) - np.log1p(np.exp(-pairs.distance))
        return np.tanh(pairs.distance / 2), log_q, log_q


@dataclass(frozen=True)
class MetricVariationRatio(_Numeric):
    """The sound variation-ratio bound with the distances of this pair to everyone.

    Theorem: sound reduction [VR §4, corrected] with p = e^D(a,b), q0 = max e^D(a,c), q1 = max e^D(b,c) over all c, and
    the noise's own β (tanh(D/2) for any randomizer).
    Requires: a randomizer that is private for the distances, with total variation at most β.
    Returns: a certified upper bound with its numerical slack.
    """

    noise: Noise = field(default_factory=AnyNoise)

    name = "variation-ratio"
    theorem = "sound variation-ratio reduction [VR §4, corrected] with metric parameters"
    asks = ("distance", "far_first", "far_second")

    def check_space(self, who: str, space: Space) -> None:
        self.noise.check_space(who, space)

    def parameters(self, pair: Surroundings) -> VariationRatio:
        with precision(BITS):
            ratio, q0, q1 = (round_up(arb(d).exp()) for d in (pair.distance, pair.far_first, pair.far_second))
        return VariationRatio(ratio, self.noise.total_variation(pair.distance), (max(q0, ratio), max(q1, ratio)))

    def log_ratios(self, pairs: ManyPairs) -> tuple[Floats, Floats, Floats]:
        return self.noise.estimates(pairs.distance), pairs.far_first, pairs.far_second


class MetricAllCrowds(MetricVariationRatio):
    """The worst of all crowds with the distances of this pair to everyone.

    Theorem: absent user (docs/crowds.md) for every randomizer with the ratios e^D(a,b), max e^D(a,c), max e^D(b,c), all
    ways, and the noise's own β.
    Requires: a randomizer that is private for the distances, with total variation at most β; more than 16 users, else
    the distance itself.
    Returns: a certified upper bound; takes seconds where the others take milliseconds.
    """

    name = "all-crowds"
    theorem = "absent user: the worst of all crowds, with metric parameters (ours)"

    def parameters(self, pair: Surroundings) -> VariationRatio:
        return replace(super().parameters(pair), local=True)

    def curve(self, pair: Surroundings, users: int) -> PrivacyCurve:
        return amplify(self.parameters(pair), users, bound="all-crowds")

    def _epsilon(self, pair: Surroundings, users: int, delta: float) -> tuple[float, float]:
        return super()._epsilon(pair, users, delta) if users > FEWEST else (math.inf, 0.0)

    def _excess(self, pair: Surroundings, users: int, delta: float, target: float) -> float:
        return super()._excess(pair, users, delta, target) if users > FEWEST else math.inf

    def proved(self, pair: Surroundings, users: int, delta: float, target: float, guess: float) -> float:
        if users > FEWEST:
            return super().proved(pair, users, delta, target, guess)
        return pair.distance if pair.distance <= target else math.inf

    def _quickly(self, curve: PrivacyCurve, epsilon: float) -> float:
        return curve.delta(epsilon).upper

    def _estimates(self, pairs: ManyPairs, users: int, delta: float, targets: Floats) -> Floats:
        """One by one, by constant crowds."""
        if users <= FEWEST:
            return np.full(len(targets), np.inf)
        found = []
        for distance, first, second, target in zip(
            pairs.distance.tolist(), pairs.far_first.tolist(), pairs.far_second.tolist(), targets.tolist(), strict=True
        ):
            curve = self.curve(Surroundings(distance, first, second, math.inf, math.inf), users)
            assert isinstance(curve, AllCrowdsCurve)
            found.append(max(way.log_estimate(target) for way in curve.directions))
        return np.array(found) - math.log(delta) + MORE_DOUBT


def all_amplifications() -> dict[str, Amplification]:
    """Every theorem by name; the numeric one for any randomizer."""
    kinds = (
        Theorem1(), Corollary1(), Corollary2(), UniformCorollary2(), ExactClone(), MetricVariationRatio(),
        MetricAllCrowds(),
    )  # fmt: skip
    return {kind.name: kind for kind in kinds}


def amplification_of(name: str) -> Amplification:
    """A theorem by name: theorem-1, corollary-1, corollary-2, corollary-2-uniform, clone, variation-ratio or
    all-crowds.

    >>> import shuffledp as sdp
    >>> places = sdp.metric.DistanceMatrix.from_points([[0.0], [1.0]])
    >>> theorem = sdp.metric.amplification_of("theorem-1")
    >>> print(f"{sdp.metric.AmplifiedMetric(places, 10_000, 1e-6, theorem)(0, 1).upper:.4f}")
    0.0764
    """
    known = all_amplifications()
    if name not in known:
        raise ValueError(f"metric: bound must be one of {', '.join(known)}, got {name!r}.")
    return known[name]
