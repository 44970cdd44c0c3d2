"""How far a distance shrinks when messages are shuffled: published closed forms, exact clones, the numeric bound."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

from flint import arb

from shuffledp.bounds.amplify import amplify
from shuffledp.metric.noise import AnyNoise, Noise
from shuffledp.numerics.ball import precision, round_up
from shuffledp.privacy.curve import PrivacyCurve
from shuffledp.privacy.space import Surroundings
from shuffledp.privacy.value import BoundValue
from shuffledp.privacy.variation_ratio import VariationRatio

BITS = 192


@dataclass(frozen=True)
class Amplification(ABC):
    """One theorem that bounds the distance of two inputs after shuffling."""

    name: ClassVar[str]
    theorem: ClassVar[str]
    uniform: ClassVar[bool] = False
    """Whether it counts the largest distance of all for every pair, as the solvers of the paper do."""

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

    @abstractmethod
    def _epsilon(self, pair: Surroundings, users: int, delta: float) -> tuple[float, float]:
        """The theorem's value and its slack, for a positive distance; infinite where it does not apply."""

    def _value(self, upper: float, slack: float, delta: float) -> BoundValue:
        return BoundValue(upper, slack, self.name, self.theorem, certified=True, guarantee=True, delta=delta)


class _ClosedForm(Amplification):
    """log(1 + tanh(D/2)·K) with a factor K of R, n and δ."""

    def _epsilon(self, pair: Surroundings, users: int, delta: float) -> tuple[float, float]:
        with precision(BITS):
            factor = self.factor(self.clones(pair), users, delta)
            if factor is None:
                return math.inf, 0.0
            value = round_up((1 + (arb(pair.distance) / 2).tanh() * factor).log())
        return value, math.ulp(value)

    def clones(self, pair: Surroundings) -> arb:
        """R: the inverse of half the chance that another user's message is a clone of user 1's."""
        return arb(pair.clone_sum)

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
    uniform = True

    def clones(self, pair: Surroundings) -> arb:
        return 2 * arb(pair.diameter).exp()


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
    uniform = True

    def clones(self, pair: Surroundings) -> arb:
        return 2 * arb(pair.diameter).exp()


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


class ExactClone(_Numeric):
    """The clones behind Theorem 1, numerically exact.

    Theorem: [MDP] Supplementary A, Step 2: every other message is a clone of K(a), and of K(b), with probability
    1/R_ab; user 1 of the other input's with probability 1/(e^D + 1).
    Requires: R_ab ≥ e^D + 1, which c = a gives.
    Returns: a certified upper bound with its numerical slack.
    """

    name = "clone"
    theorem = "clones of [MDP] Theorem 1, numerically exact"

    def parameters(self, pair: Surroundings) -> VariationRatio:
        with precision(BITS):
            ratio = arb(pair.distance).exp()
            hiding = round_up(arb(pair.clone_sum) * ratio / (1 + ratio))
            return VariationRatio(round_up(ratio), round_up((arb(pair.distance) / 2).tanh()), hiding)


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

    def parameters(self, pair: Surroundings) -> VariationRatio:
        with precision(BITS):
            ratio, q0, q1 = (round_up(arb(d).exp()) for d in (pair.distance, pair.far_first, pair.far_second))
        return VariationRatio(ratio, self.noise.total_variation(pair.distance), (max(q0, ratio), max(q1, ratio)))


def all_amplifications() -> dict[str, Amplification]:
    """Every theorem by name; the numeric one for any randomizer."""
    kinds = (Theorem1(), Corollary1(), Corollary2(), UniformCorollary2(), ExactClone(), MetricVariationRatio())
    return {kind.name: kind for kind in kinds}


def amplification_of(name: str) -> Amplification:
    """A theorem by name: theorem-1, corollary-1, corollary-2, corollary-2-uniform, clone or variation-ratio.

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
