"""What is left of a randomizer's guarantees once seeds stand for its messages."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from flint import arb

from shuffledp.numerics.ball import above, precision, rational, round_up
from shuffledp.privacy.variation_ratio import VariationRatio

ACCEPTANCE_ERROR = Fraction(1, 1 << 50)
"""Relative error of the acceptance probabilities, see ``GivesReference``."""
MOST_DISTURBANCE = Fraction(1, 4)


@dataclass(frozen=True)
class Promise:
    """(ε, δ) against replacing a value, and against deleting it (against the reference law)."""

    replacement_epsilon: float
    replacement_delta: float
    deletion_epsilon: float
    deletion_delta: float


@dataclass(frozen=True)
class SeedGuarantee:
    """The guarantees of R[G, γ] from those of R, the density ratio C, the tries J and the advantage β_G.

    c = C·β_G + 2η, η the relative error of an executed acceptance probability (2^-50, and the 2^-64 of its coin), is
    how far E_s[π_x(G(s))] can be from 1, π_x = R(x)/ρ: that is all that a generator can change ([LC] Lemma 3.2).

    Theorem: [LC] Lemma 3.2 (A.1), deletion ε+2c; Lemma A.6, replacement ε_r+4c; Lemma A.8, deletion (ε+2δ+2c, δ+c);
    Lemma A.10, replacement (ε_r+2δ+4c, 2δ_r+2c); Lemma 3.3 (A.3), total variation γ+J·β_G; Lemma 3.5 (A.5), deletion
    2ε for an arbitrary G.
    Requires: δ + c < 1/4, below the lemmas' 1/2.
    Deviates: C replaces e^ε, as π_x ≤ C is what the proofs use; β_G is joined by the rounding of the executed
    probabilities. Who runs out of tries sends a seed of the reference law, for some values oftener than for others:
    replacement is the larger of the replacement and the deletion guarantee (print assumes ε ≤ ε_r).
    """

    ratio: float
    """C."""
    tries: int
    """J."""
    gamma: float
    advantage: float
    """β_G."""
    base: Promise

    @cached_property
    def rounding(self) -> Fraction:
        """η. Acceptance probabilities are at least e^{−ε}/C where they matter, and coins are multiples of 2^-64."""
        largest = max(self.base.deletion_epsilon, self.base.replacement_epsilon)
        with precision(128):
            scale = round_up(arb(largest).exp() * self.ratio)
        return ACCEPTANCE_ERROR + Fraction(scale) / (1 << 64)

    @cached_property
    def disturbance(self) -> Fraction:
        """c."""
        return Fraction(self.ratio) * Fraction(self.advantage) + 2 * self.rounding

    def holds(self) -> bool:
        """Whether the lemmas apply."""
        return self.disturbance + Fraction(self.base.deletion_delta) < MOST_DISTURBANCE

    @cached_property
    def seeds(self) -> Promise:
        """The guarantees of the seeds that are sent."""
        base, c, delta = self.base, self.disturbance, Fraction(self.base.deletion_delta)
        lost = 0 if delta == 0 else delta + c
        deletion = Fraction(base.deletion_epsilon) + 2 * delta + 2 * c
        replacement = max(Fraction(base.replacement_epsilon) + 2 * delta + 4 * c, deletion)
        missed = 0 if delta == base.replacement_delta == 0 else max(2 * Fraction(base.replacement_delta) + 2 * c, lost)
        return Promise(above(replacement), above(missed), above(deletion), above(lost))

    @cached_property
    def whatever_the_generator(self) -> Promise | None:
        """The guarantees for an arbitrary function in place of the generator, where δ = 0.

        E_s[π_x(G(s))] is between e^{−ε} and C, whatever G is.
        """
        base, c = self.base, 4 * self.rounding
        if base.deletion_delta or base.replacement_delta:
            return None
        with precision(128):
            spread = Fraction(round_up(arb(self.ratio).log() + arb(base.deletion_epsilon)))
        deletion = 2 * Fraction(base.deletion_epsilon) + c
        replacement = max(Fraction(base.replacement_epsilon) + spread + c, deletion)
        return Promise(above(min(replacement, 2 * deletion)), 0.0, above(deletion), 0.0)

    @cached_property
    def total_variation(self) -> float:
        """How far the law of the expanded messages is from R(x), for every test that can be run."""
        per_try = self.tries / Fraction(self.ratio)
        exhausted = Fraction(self.gamma) * (1 + 2 * self.disturbance * per_try)
        truncated = Fraction(self.base.deletion_delta)
        return above(exhausted + truncated + self.tries * Fraction(self.advantage) + 2 * self.rounding)

    def variation_ratio(self, base: VariationRatio) -> VariationRatio:
        """Parameters of the seeds' law from those of R, where δ = 0.

        Theorem: [LC] Lemma A.6, and for the total variation the same argument with the tests π_x − π_x' ≥ θ:
        E_s(π_x/ζ_x − π_x'/ζ_x')_+ ≤ (β+5c)/(1−c) for ζ = E_s[π] within c of 1; the chance to run out of tries differs
        by at most 2c·J/C between two inputs.
        Deviates: ``q_common`` is given up, so that it is q.
        """
        c = self.disturbance
        with precision(128):
            factor = (4 * arb(rational(c))).exp()
            near = arb(rational(Fraction(self.seeds.deletion_epsilon))).exp()
            p, q = (round_up((arb(number) * factor).max(near)) for number in (base.p, max(base.q_pair)))
        beta = above((Fraction(base.beta) + 5 * c) / (1 - c) + 2 * c * self.tries / Fraction(self.ratio))
        return VariationRatio(p=p, beta=min(beta, (p - 1) / (p + 1)), q=max(p, q))
