"""Bounds from the parameters p, β and q of a randomizer: the sound and the published reduction, and closed forms."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from flint import arb

from shuffledp.bounds.base import Bound, require_inequality
from shuffledp.privacy.curve import ClosedFormCurve, NumericCurve
from shuffledp.privacy.dominating_pairs import ConstantPair
from shuffledp.privacy.randomizer_interface import Randomizer
from shuffledp.privacy.variation_ratio import ReducedPairs, VariationRatio


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
