"""Clones: the bounds of Feldman, McMillan and Talwar, numerically and in closed form."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction

from flint import arb

from shuffledp._core.errors import NotApplicable
from shuffledp.bounds.base import Bound, require_inequality
from shuffledp.numerics.intervals import float_above, precision, round_down, round_up
from shuffledp.privacy.curve import MAX_EPSILON, BoundValue, ClosedFormCurve, CurveSource, NumericCurve, PrivacyCurve
from shuffledp.privacy.dominating_pairs import ConstantPair
from shuffledp.privacy.randomizer import HasPublishedGuarantee, Randomizer
from shuffledp.privacy.variation_ratio import SNAP_TOLERANCE, ReducedPairs, VariationRatio

# --- Numerical bounds ---


def numeric_curve(bound: Bound, parameters: VariationRatio, users: int) -> NumericCurve:
    """Returns the curve of the sound reduction under a bound's name, for both directions."""
    ways = (parameters,) if parameters.is_symmetric else (parameters, parameters.swapped())
    return NumericCurve(bound.source(users), tuple(map(ReducedPairs, ways)), parameters.largest_log_ratio())


class VariationRatioBound(Bound):
    """The sound variation-ratio bound, evaluated numerically exactly.

    Theorem: sound reduction [VR §4, corrected]: user 1 adds one to a, b or c₂ with probabilities (pα, α, γ) or (α, pα,
    γ), each other user adds one with (r0, r1, γ/q_common); the rest is revealed.
    Requires: the conditions that VariationRatio checks.
    Returns: a certified upper bound of δ(ε) and of ε(δ) with its numerical slack.
    Deviates: [VR] Theorem 4.2 is not an upper bound when γ > 0 (docs/errata.md, VR-1).
    """

    name = "variation-ratio"
    theorem = "sound variation-ratio reduction [VR §4, corrected]"
    summary = "sound for any randomizer with ratio p, total variation β and ratio q to the others"
    guarantees = True

    def curve(self, randomizer: Randomizer, users: int) -> NumericCurve:
        return numeric_curve(self, self.parameters_of(randomizer), users)


class PublishedVariationRatioBound(Bound):
    """The published variation-ratio pair, for reproducing the paper's tables.

    Theorem: [VR] Theorem 4.2.
    Requires: the conditions that VariationRatio checks.
    Returns: the published value, numerically exact; an upper bound of the privacy loss only where γ = 0.
    Deviates: computed as printed, but flagged: ``guarantee`` is False where γ > 0 or may be (docs/errata.md, VR-1).
    """

    name = "variation-ratio-published"
    theorem = "[VR] Theorem 4.2 as published"
    summary = "as published, for reproduction: not an upper bound when γ > 0"

    def curve(self, randomizer: Randomizer, users: int) -> NumericCurve:
        parameters = self.parameters_of(randomizer)
        sound = parameters.has_no_common_part
        note = "" if sound else "Not a privacy guarantee: the published theorem is not an upper bound when γ > 0."
        pair = parameters.published_pair()
        pairs = (pair,) if pair.symmetric else (pair, pair.swapped())
        source = self.source(users, guarantee=sound, note=note)
        return NumericCurve(source, tuple(map(ConstantPair, pairs)), parameters.largest_log_ratio())


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


# --- Closed forms ---


@dataclass(frozen=True)
class _FormulaSymbols:
    """The symbols of the formulas as balls: q is the largest ratio (raising q is sound); p enters through pα and α."""

    n: int
    beta: arb
    p_alpha: arb
    alpha: arb
    gamma: arb
    r: arb
    q_common: arb

    @classmethod
    def from_parameters(cls, parameters: VariationRatio, users: int) -> _FormulaSymbols:
        q0, q1, q_common = parameters.ratios
        q = max(q0, q1, q_common)
        return cls(
            users,
            arb(parameters.p_alpha - parameters.alpha),
            arb(parameters.p_alpha),
            arb(parameters.alpha),
            arb(parameters.gamma),
            arb(parameters.p_alpha / q),
            arb(q_common),
        )


@dataclass(frozen=True)
class _ParameterFormula:
    """ε(δ) of a closed form at given parameters."""

    bound: _ClosedForm
    parameters: VariationRatio
    users: int

    def __call__(self, delta: arb) -> arb:
        letters = _FormulaSymbols.from_parameters(self.parameters, self.users)
        return arb(0) if letters.beta.is_zero() else self.bound.formula(letters, delta)


class _ClosedForm(Bound):
    """A formula in the parameters, n and δ."""

    never_better_than = "variation-ratio"
    sound_without_common_part = False
    """True if the formula is an upper bound at least where γ = 0."""

    @abstractmethod
    def formula(self, letters: _FormulaSymbols, delta: arb) -> arb:
        """Returns ε(δ) as a ball, or raises NotApplicable."""

    def curve(self, randomizer: Randomizer, users: int) -> ClosedFormCurve:
        parameters = self.parameters_of(randomizer)
        sound = self.guarantees or (self.sound_without_common_part and parameters.gamma == 0)
        note = "" if sound else "Not a privacy guarantee: the published theorem is not an upper bound when γ > 0."
        source = self.source(users, guarantee=sound, note=note)
        return ClosedFormCurve(source, _ParameterFormula(self, parameters, users), parameters.largest_log_ratio())


class AnalyticBound(_ClosedForm):
    """The sound closed form.

    Theorem: sound closed form: three tails of at most δ/6 each (c and c₂ by Chernoff or Hoeffding, a − c/2 by
    Hoeffding), P/Q − 1 = β(a−b)/(αa + pαb + r·q_common·c₂), supremum over C ≥ Ω at the root.
    Requires: Ω > 0 and A·s*² − β√(L/2)·s* + K > 0.
    Returns: a certified upper bound; loose by a constant factor.
    Deviates: ours; the published closed form bounds the published pair (docs/errata.md, VR-1, VR-8).
    """

    name = "analytic"
    theorem = "sound closed form of the variation-ratio reduction"
    summary = "sound closed form; loose, no search"
    guarantees = True

    def formula(self, letters: _FormulaSymbols, delta: arb) -> arb:
        others = arb(letters.n - 1)
        log = (6 / delta).log()
        shared = letters.gamma / letters.q_common
        half = arb(1) / 2
        omega = 2 * letters.r * others - ((4 * letters.r).min(half) * others * log).sqrt()
        require_inequality(self.name, omega > 0, "Ω = 2r(n−1) − √(min(4r, ½)(n−1)·log(6/δ)) > 0", omega, arb(0))
        common = shared * others - ((2 * shared).min(half) * others * log).sqrt()
        average = (letters.p_alpha + letters.alpha) / 2
        constant = letters.r * letters.q_common * common.max(arb(0))
        bend = letters.beta * (log / 2).sqrt()
        least = omega.sqrt().max(bend / (2 * average))
        margin = average * least * least - bend * least + constant
        require_inequality(self.name, margin > 0, "A·s² − β·√(L/2)·s + K > 0", margin, arb(0))
        lift = average * (2 / log).sqrt()
        root = (-lift + (lift * lift + 4 * average * (constant + letters.beta / 2)).sqrt()) / (2 * average)
        total = omega.max(root * root)
        top = letters.beta * ((2 * log * total).sqrt() + 1)
        return (1 + top / (average * total - bend * total.sqrt() + constant)).log()


class PublishedAnalyticBound(_ClosedForm):
    """The published closed form, with its condition corrected.

    Theorem: [VR] Theorem 4.7.
    Requires: a ≥ 0, Ω > 0, a·Ω + a·√(2Ω/L) ≥ G'(n−1) + β/2, positive denominator.
    Returns: an upper bound of the published pair's ε; of the privacy loss only where γ = 0.
    Deviates: the printed condition is unsound and replaced (docs/errata.md, VR-8).
    """

    name = "analytic-published"
    theorem = "[VR] Theorem 4.7, condition corrected"
    summary = "published closed form, for reproduction: not an upper bound when γ > 0"
    sound_without_common_part = True

    def formula(self, letters: _FormulaSymbols, delta: arb) -> arb:
        others = arb(letters.n - 1)
        log = (4 / delta).log()
        r, beta = letters.r, letters.beta
        rest = arb(0) if letters.gamma.is_zero() else letters.gamma * r / (1 - 2 * r)
        a = (letters.p_alpha + letters.alpha) / 2 - rest
        omega = 2 * r * others - ((6 * r).min(arb(1) / 2) * others * log).sqrt()
        require_inequality(self.name, a >= 0, "(p+1)α/2 ≥ γr/(1−2r)", (letters.p_alpha + letters.alpha) / 2, rest)
        require_inequality(self.name, omega > 0, "Ω = 2r(n−1) − √(min(6r, ½)(n−1)·log(4/δ)) > 0", omega, arb(0))
        left, right = a * omega + a * (2 * omega / log).sqrt(), rest * others + beta / 2
        require_inequality(self.name, left >= right, "aΩ + a·√(2Ω/L) ≥ G'(n−1) + β/2", left, right)
        swing = (omega * log / 2).sqrt()
        bottom = letters.alpha * omega + beta * (omega / 2 - swing) + rest * (others - omega)
        require_inequality(self.name, bottom > 0, "a positive denominator", bottom, arb(0))
        return (1 + beta * (2 * swing + 1) / bottom).log()


class AsymptoticBound(_ClosedForm):
    """The published asymptotic form.

    Theorem: [VR] Theorem 4.8.
    Requires: n ≥ 8·log(2/δ)/r.
    Returns: an upper bound of the published pair's ε; of the privacy loss only where γ = 0.
    """

    name = "asymptotic"
    theorem = "[VR] Theorem 4.8"
    summary = "published asymptotic form, for reproduction: not an upper bound when γ > 0"
    sound_without_common_part = True

    def formula(self, letters: _FormulaSymbols, delta: arb) -> arb:
        r, beta, n = letters.r, letters.beta, arb(letters.n)
        least = 8 * (2 / delta).log() / r
        require_inequality(self.name, n >= least, "n ≥ 8·log(2/δ)/r", n, least)
        log = (4 / delta).log()
        share = arb(0) if letters.gamma.is_zero() else (4 * (1 - 3 * r) / (9 * (1 - 2 * r))).max(arb(0))
        spread = (32 * log / (r * (n - 1))).sqrt() + 4 / (r * n)
        return (1 + beta / ((1 - share) * (letters.p_alpha + letters.alpha) + share) * spread).log()


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
