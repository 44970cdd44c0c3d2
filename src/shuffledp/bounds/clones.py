"""Bounds from the local ε0 alone: clones, stronger clones, their predecessor, and the mixture of extreme pairs."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction

from flint import arb

from shuffledp._core.errors import NotApplicable
from shuffledp.bounds.base import Bound, require_inequality
from shuffledp.bounds.variation_ratio import numeric_curve
from shuffledp.numerics.ball_arithmetic import float_above, precision, round_down, round_up
from shuffledp.privacy.curve import MAX_EPSILON, BoundValue, ClosedFormCurve, NumericCurve, PrivacyCurve
from shuffledp.privacy.randomizer_interface import Randomizer
from shuffledp.privacy.variation_ratio import SNAP_TOLERANCE, VariationRatio


def local_ratio(bound: Bound, randomizer: Randomizer) -> float:
    """Returns e^ε0, the largest ratio between any two users' output laws; raises NotApplicable if it is infinite."""
    ratio = bound.parameters_of(randomizer).largest_ratio
    if math.isinf(ratio):
        raise NotApplicable(bound.name, "needs a finite local ratio, got p = inf.")
    return ratio


class StrongerCloneBound(Bound):
    """Stronger clones: any ε0-LDP randomizer, evaluated numerically exactly.

    Theorem: [FMT23] stronger clones, in the engine p = q = e^ε0 at the largest β.
    Requires: e^ε0 = max(p, q0, q1, q_common) finite.
    Returns: a certified upper bound with its numerical slack.
    Deviates: nothing; never below the variation-ratio bound, because that grows with p, β and q.
    """

    name = "stronger-clone"
    theorem = "stronger clones [FMT23]"
    summary = "any ε0-LDP randomizer, whatever else is known"
    never_better_than = "variation-ratio"
    guarantees = True

    def curve(self, randomizer: Randomizer, users: int) -> NumericCurve:
        ratio = local_ratio(self, randomizer)
        return numeric_curve(self, VariationRatio(p=ratio, beta=(ratio - 1.0) / (ratio + 1.0), q=ratio), users)


class CloneBound(Bound):
    """Clones: any ε0-LDP randomizer, the first version of the argument, evaluated numerically exactly.

    Theorem: [FMT21] Theorem 3.2: a clone appears with probability e^-ε0; in the engine q = 2p²/(p+1).
    Requires: e^ε0 = max(p, q0, q1, q_common) finite.
    Returns: a certified upper bound with its numerical slack; never below the stronger clones'.
    """

    name = "clone"
    theorem = "clones [FMT21]"
    summary = "any ε0-LDP randomizer, the older argument"
    never_better_than = "stronger-clone"
    guarantees = True

    def curve(self, randomizer: Randomizer, users: int) -> NumericCurve:
        ratio = local_ratio(self, randomizer)
        hiding = float_above(2 * Fraction(ratio) ** 2 / (Fraction(ratio) + 1))
        if math.isinf(hiding):
            raise NotApplicable(self.name, f"needs 2p²/(p+1) in the range of floats, got p = {ratio:g}.")
        return numeric_curve(self, VariationRatio(p=ratio, beta=(ratio - 1.0) / (ratio + 1.0), q=hiding), users)


@dataclass(frozen=True)
class _LocalFormula:
    """ε(δ) of a closed form at e^ε0 = ``ratio``."""

    bound: _LocalClosedForm
    ratio: float
    users: int

    def __call__(self, delta: arb) -> arb:
        return self.bound.formula(arb(self.ratio), self.users, delta)


class _LocalClosedForm(Bound):
    """A closed form in e^ε0, n and δ alone."""

    @abstractmethod
    def formula(self, ratio: arb, users: int, delta: arb) -> arb:
        """Returns ε(δ) as a ball, or raises NotApplicable."""

    def curve(self, randomizer: Randomizer, users: int) -> ClosedFormCurve:
        ratio = local_ratio(self, randomizer)
        largest = VariationRatio(p=ratio, beta=0.0, q=ratio).largest_log_ratio()
        return ClosedFormCurve(self.source(users), _LocalFormula(self, ratio, users), largest)


class StrongerCloneAnalyticBound(_LocalClosedForm):
    """The closed form of the stronger clones.

    Theorem: [FMT23] Theorem 3.1 closed form: log(1 + (e^ε0−1)(4√(2·log(4/δ)/((e^ε0+1)n)) + 4/n)).
    Requires: ε0 ≤ log(n/(8·log(2/δ)) − 1).
    Returns: a certified upper bound.
    """

    name = "stronger-clone-analytic"
    theorem = "stronger clones, closed form [FMT23]"
    summary = "any ε0-LDP randomizer; closed form"
    never_better_than = "stronger-clone"
    guarantees = True

    def formula(self, ratio: arb, users: int, delta: arb) -> arb:
        most = users / (8 * (2 / delta).log()) - 1
        require_inequality(self.name, ratio <= most, "e^ε0 ≤ n/(8·log(2/δ)) − 1", ratio, most)
        root = (2 * (4 / delta).log() / ((ratio + 1) * users)).sqrt()
        return (1 + (ratio - 1) * (4 * root + arb(4) / users)).log()


class CloneAnalyticBound(_LocalClosedForm):
    """The closed form of the clones.

    Theorem: [FMT21] Theorem 3.1: log(1 + ((e^ε0−1)/(e^ε0+1))(8√(e^ε0·log(4/δ)/n) + 8e^ε0/n)).
    Requires: ε0 ≤ log(n/(16·log(2/δ))).
    Returns: a certified upper bound.
    """

    name = "clone-analytic"
    theorem = "clones, closed form [FMT21]"
    summary = "any ε0-LDP randomizer, the older argument; closed form"
    never_better_than = "clone"
    guarantees = True

    def formula(self, ratio: arb, users: int, delta: arb) -> arb:
        most = users / (16 * (2 / delta).log())
        require_inequality(self.name, ratio <= most, "e^ε0 ≤ n/(16·log(2/δ))", ratio, most)
        root = (ratio * (4 / delta).log() / users).sqrt()
        return (1 + (ratio - 1) / (ratio + 1) * (8 * root + 8 * ratio / users)).log()


class Efmrtt19Bound(_LocalClosedForm):
    """Amplification by shuffling, the first analysis.

    Theorem: Erlingsson et al. 2019: ε = 12·ε0·√(log(1/δ)/n).
    Requires: ε0 ≤ ½, n ≥ 1000, δ ≤ 0.01.
    Returns: a certified upper bound; far from tight.
    """

    name = "efmrtt19"
    theorem = "Erlingsson et al. 2019"
    summary = "the first closed form; small ε0 only"
    never_better_than = "clone"
    guarantees = True

    def formula(self, ratio: arb, users: int, delta: arb) -> arb:
        local = ratio.log()
        # e^½ was rounded up before, so the condition has a tolerance; the value there is far above the clones', so it
        # is safe.
        require_inequality(self.name, local <= arb(0.5) * (1 + arb(SNAP_TOLERANCE)), "ε0 ≤ 1/2", local, arb(1) / 2)
        require_inequality(self.name, users >= 1000, "n ≥ 1000", arb(users), arb(1000))
        require_inequality(self.name, delta <= arb(0.01), "δ ≤ 0.01", delta, arb(0.01))
        return 12 * local * (-delta.log() / users).sqrt()


# --- The published trade-off bound of shuffling ---


BITS = 128


@dataclass(frozen=True)
class MixtureCurve(PrivacyCurve):
    """δ(ε') = (1−2w)·δ_0(ε) with e^ε' = 2w + (1−2w)·e^ε, from the curve δ_0 of the extreme pair.

    Never more than ε0, which holds without shuffling.
    """

    inner: NumericCurve
    ratio: float
    """e^ε0, with w = 1/(e^ε0 + 1)."""

    @property
    def certified(self) -> bool:
        return self.inner.certified

    def _remaining_weight(self) -> arb:
        """Returns 1 − 2w."""
        return 1 - 2 / (arb(self.ratio) + 1)

    def _local_epsilon(self) -> float:
        """Returns ε0, rounded up."""
        with precision(BITS):
            return round_up(arb(self.ratio).log())

    def _delta(self, epsilon: float) -> BoundValue:
        if epsilon >= self._local_epsilon():
            return self._value(0.0, 0.0)
        with precision(BITS):
            weight = self._remaining_weight()
            ratio = 1 + (arb(min(epsilon, MAX_EPSILON)).exp() - 1) / weight
            # δ_0 falls in ε: the smaller ε is the safe side, and costs at most e^ε times the step.
            inner = max(0.0, round_down(ratio.log()))
            value = self.inner.delta(inner)
            slack = weight * value.slack + ratio * 2 * math.ulp(inner) + math.ulp(value.upper)
            return self._value(min(1.0, round_up(weight * value.upper)), _round_up_width(slack))

    def _epsilon(self, delta: float) -> BoundValue:
        value, local = self._epsilon_from_theorem(delta), self._local_epsilon()
        if value.upper <= local:
            return value
        return self._value(local, max(0.0, local - max(0.0, value.upper - value.slack)))

    def _epsilon_from_theorem(self, delta: float) -> BoundValue:
        with precision(BITS):
            weight = self._remaining_weight()
            target = round_down(arb(delta) / weight)
            if target >= 1.0:
                return self._value(0.0, 0.0)
            value = self.inner.epsilon(target)
            if math.isinf(value.upper):
                return self._value(value.upper, value.slack)
            # The exact target is a little larger, and so is crossed a little earlier.
            next_value = self.inner.epsilon(math.nextafter(target, 1.0)) if math.nextafter(target, 1.0) < 1 else value
            least = max(0.0, min(value.upper - value.slack, next_value.upper - next_value.slack))
            upper, lower = (weight * arb(value.upper).expm1()).log1p(), (weight * arb(least).expm1()).log1p()
            return self._value(round_up(upper), _round_up_width(upper - lower + math.ulp(value.upper)))


def _round_up_width(width: arb) -> float:
    return max(0.0, round_up(width))


class MixtureBound(Bound):
    """Shuffling as a mixture of two extreme pairs, by joint concavity of trade-off functions; for reproduction.

    Theorem: [FDP] Theorem 4.2: f = C(2w·(1−x) + (1−2w)·T(P_0, Q_0)), w = 1/(e^ε0+1), with P_0 = (A+1, C−A) and Q_0 =
    (A, C−A+1), C ~ Bin(n−1, 2w), A ~ Bin(C, ½); its δ(ε) is Corollary 4.3.
    Requires: e^ε0 = max(p, q0, q1, q_common) finite.
    Returns: a certified upper bound with its numerical slack; never below the stronger clones', which are the exact
    value of the same pair.
    Deviates: the paper takes it for the pair's own curve (docs/errata.md, FD-3), and finds the threshold with floors
    that under-report δ (FD-4). T(P_0, Q_0) is evaluated as the pair of p = ∞, β = 1, q = 1/w.
    """

    name = "mixture"
    theorem = "[FDP] Theorem 4.2"
    summary = "any ε0-LDP randomizer, as a mixture of two extreme pairs"
    never_better_than = "stronger-clone"
    guarantees = True

    def curve(self, randomizer: Randomizer, users: int) -> MixtureCurve:
        ratio = local_ratio(self, randomizer)
        extreme = VariationRatio(p=math.inf, beta=1.0, q=float_above(Fraction(ratio) + 1))
        return MixtureCurve(self.source(users), numeric_curve(self, extreme, users), ratio)
