"""The published trade-off bound of shuffling: a mixture of two extreme pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from flint import arb

from shuffledp.bounds.bound import Bound
from shuffledp.bounds.clone import local_ratio
from shuffledp.bounds.reduction import numeric_curve
from shuffledp.numerics.ball import above, precision, round_down, round_up
from shuffledp.privacy.curve import LARGEST_EPSILON, NumericCurve, PrivacyCurve
from shuffledp.privacy.randomizer import Randomizer
from shuffledp.privacy.value import BoundValue
from shuffledp.privacy.variation_ratio import VariationRatio

BITS = 128


@dataclass(frozen=True)
class ExchangedCurve(PrivacyCurve):
    """δ(ε') = (1−2w)·δ_0(ε) with e^ε' = 2w + (1−2w)·e^ε, from the curve δ_0 of the extreme pair.

    Never more than ε0, which holds without shuffling.
    """

    inner: NumericCurve
    ratio: float
    """e^ε0, with w = 1/(e^ε0 + 1)."""

    @property
    def certified(self) -> bool:
        return self.inner.certified

    def _kept(self) -> arb:
        """1 − 2w."""
        return 1 - 2 / (arb(self.ratio) + 1)

    def _local(self) -> float:
        """ε0, rounded up."""
        with precision(BITS):
            return round_up(arb(self.ratio).log())

    def _delta(self, epsilon: float) -> BoundValue:
        if epsilon >= self._local():
            return self._value(0.0, 0.0)
        with precision(BITS):
            kept = self._kept()
            ratio = 1 + (arb(min(epsilon, LARGEST_EPSILON)).exp() - 1) / kept
            # δ_0 falls in ε: the smaller ε is on the safe side, and costs at most e^ε times the step.
            inner = max(0.0, round_down(ratio.log()))
            value = self.inner.delta(inner)
            slack = kept * value.slack + ratio * 2 * math.ulp(inner) + math.ulp(value.upper)
            return self._value(min(1.0, round_up(kept * value.upper)), _up(slack))

    def _epsilon(self, delta: float) -> BoundValue:
        found, local = self._by_the_theorem(delta), self._local()
        if found.upper <= local:
            return found
        return self._value(local, max(0.0, local - max(0.0, found.upper - found.slack)))

    def _by_the_theorem(self, delta: float) -> BoundValue:
        with precision(BITS):
            kept = self._kept()
            target = round_down(arb(delta) / kept)
            if target >= 1.0:
                return self._value(0.0, 0.0)
            value = self.inner.epsilon(target)
            if math.isinf(value.upper):
                return self._value(value.upper, value.slack)
            # The exact target is a little larger, and so is crossed a little earlier.
            loose = self.inner.epsilon(math.nextafter(target, 1.0)) if math.nextafter(target, 1.0) < 1 else value
            least = max(0.0, min(value.upper - value.slack, loose.upper - loose.slack))
            upper, lower = (kept * arb(value.upper).expm1()).log1p(), (kept * arb(least).expm1()).log1p()
            return self._value(round_up(upper), _up(upper - lower + math.ulp(value.upper)))


def _up(width: arb) -> float:
    return max(0.0, round_up(width))


class MixtureBound(Bound):
    """Shuffling as a mixture, by joint concavity of trade-off functions; for reproduction.

    Theorem: [FDP] Theorem 4.2: f = C(2w·(1−x) + (1−2w)·T(P_0, Q_0)), w = 1/(e^ε0+1), with P_0 = (A+1, C−A) and
    Q_0 = (A, C−A+1), C ~ Bin(n−1, 2w), A ~ Bin(C, ½); its δ(ε) is Corollary 4.3.
    Requires: e^ε0 = max(p, q0, q1, q_common) finite.
    Returns: a certified upper bound with its numerical slack; never below the stronger clones', which are the exact
    value of the same pair.
    Deviates: print takes it for the pair's own curve (docs/errata.md, FD-3), and finds the threshold with floors
    that under-report δ (FD-4). T(P_0, Q_0) is evaluated as the pair of p = ∞, β = 1, q = 1/w.
    """

    name = "mixture"
    theorem = "[FDP] Theorem 4.2"
    summary = "any ε0-LDP randomizer, as a mixture of two extreme pairs"
    never_better_than = "stronger-clone"
    guarantees = True

    def curve(self, randomizer: Randomizer, users: int) -> ExchangedCurve:
        ratio = local_ratio(self, randomizer)
        extreme = VariationRatio(p=math.inf, beta=1.0, q=above(Fraction(ratio) + 1))
        return ExchangedCurve(self.source(users), numeric_curve(self, extreme, users), ratio)
