"""What is left of a randomizer's guarantees once seeds stand for its messages."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from flint import arb

from shuffledp.numerics.ball import above, precision, rational, round_down, round_up
from shuffledp.privacy.variation_ratio import VariationRatio

BITS = 128
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

    c = C·β_G + 2η, η the relative error of an executed acceptance probability (``acceptance``, and the 2^-64 of its
    coin), is how far E_s[π_x(G(s))] can be from 1, π_x = R(x)/ρ: that is all that a generator can change ([LC] Lemma
    3.2).
    κ: acceptance probabilities may be too large by up to e^κ, which changes no density by more than that.

    Theorem: [LC] Lemma 3.2 (A.1), deletion ε+2c+κ; Lemma A.6, replacement ε_r+4c+2κ; Lemma A.8, deletion
    (ε+2δ+2c, δ+c); Lemma A.10, replacement (ε_r+2δ+4c, 2δ_r+2c); Lemma 3.3 (A.3), total variation γ+J·β_G;
    Lemma 3.5 (A.5), deletion 2ε for an arbitrary G.
    Requires: δ + c + 2κ < 1/4, below the lemmas' 1/2; κ = 0 where δ > 0.
    Deviates: C replaces e^ε, as π_x ≤ C is what the proofs use; β_G is joined by the rounding of the executed
    probabilities. Who runs out of tries sends a seed of the reference law, for some values oftener than for others:
    replacement is the larger of the replacement and the deletion guarantee (print assumes ε ≤ ε_r).
    """

    ratio: float
    """C."""
    least: Fraction
    """The smallest π_x, at least; 0 where δ > 0."""
    tries: int
    """J."""
    gamma: float
    advantage: float
    """β_G."""
    excess: float
    """κ."""
    acceptance: Fraction
    """The relative error of the acceptance probabilities as they are computed."""
    base: Promise

    @cached_property
    def rounding(self) -> Fraction:
        """η. Acceptance probabilities are at least e^{−ε}/C where they matter, and coins are multiples of 2^-64."""
        largest = max(self.base.deletion_epsilon, self.base.replacement_epsilon)
        with precision(BITS):
            scale = round_up(arb(largest).exp() * self.ratio)
        return self.acceptance + Fraction(scale) / (1 << 64)

    @cached_property
    def disturbance(self) -> Fraction:
        """c."""
        return Fraction(self.ratio) * Fraction(self.advantage) + 2 * self.rounding

    @property
    def reach(self) -> Fraction:
        """δ + c + 2κ."""
        return Fraction(self.base.deletion_delta) + self.disturbance + 2 * Fraction(self.excess)

    def holds(self) -> bool:
        """Whether the lemmas apply."""
        exact = self.excess == 0 or self.pure
        return exact and self.reach < MOST_DISTURBANCE

    @property
    def pure(self) -> bool:
        """δ = 0."""
        return self.base.deletion_delta == 0 and self.base.replacement_delta == 0

    @cached_property
    def seeds(self) -> Promise:
        """The guarantees of the seeds that are sent."""
        base, c, kappa = self.base, self.disturbance, Fraction(self.excess)
        delta = Fraction(base.deletion_delta)
        deletion = Fraction(base.deletion_epsilon) + 2 * delta + 2 * c + kappa
        replacement = max(Fraction(base.replacement_epsilon) + 2 * delta + 4 * c + 2 * kappa, deletion)
        if self.pure:
            return Promise(above(replacement), 0.0, above(deletion), 0.0)
        missed = max(2 * Fraction(base.replacement_delta) + 2 * c, delta + c)
        return Promise(above(replacement), above(missed), above(deletion), above(delta + c))

    @cached_property
    def whatever_the_generator(self) -> Promise | None:
        """The guarantees for an arbitrary function in place of the generator, where δ = 0.

        E_s[π_x(G(s))] is between e^{−ε} and C, whatever G is.
        """
        if not self.pure:
            return None
        base, slack = self.base, 4 * self.rounding + 2 * Fraction(self.excess)
        with precision(BITS):
            spread = Fraction(round_up(arb(self.ratio).log() + arb(base.deletion_epsilon)))
        deletion = 2 * Fraction(base.deletion_epsilon) + slack
        replacement = max(Fraction(base.replacement_epsilon) + spread + slack, deletion)
        return Promise(above(min(replacement, 2 * deletion)), 0.0, above(deletion), 0.0)

    @cached_property
    def levels(self) -> tuple[Fraction, Fraction]:
        """The least and the largest probability of a seed, over all values, in units of the uniform one, where δ = 0.

        A seed's probability is a_x(G(s))/ζ_x, ζ_x = E_s[a_x(G(s))], or 1 for those who run out of tries. An executed
        a_x is at most C, as no coin is surer than sure, and at least π_x·(1−η); ζ_x is from 1−c to e^κ·(1+c).
        """
        with precision(BITS):
            room, more = arb(rational(2 * self.disturbance)).exp(), arb(rational(self.excess)).exp()
            low, high = round_down(arb(rational(self.least)) / room / more), round_up(arb(self.ratio) * room)
        return Fraction(low), Fraction(high)

    @cached_property
    def _away(self) -> Fraction:
        """c' ≥ c + 2(e^κ−1): how far E_s of an executed density is from 1, and these from R's in the mean."""
        # e^κ − 1 ≤ 2κ, as κ is below 1/8.
        return self.disturbance + 4 * Fraction(self.excess)

    @cached_property
    def _running_out(self) -> Fraction:
        """By how much the chance (1−ζ/C)^J to run out of tries can differ between two inputs, ζ within c' of 1.

        Its slope is at most (J/C)·(1−(1−c')/C)^{J−1} ≤ (J/C)·γ·e^{1+c'J/C}.
        """
        per_ratio = self.tries / Fraction(self.ratio)
        steep = 8 * Fraction(self.gamma) if self._away * per_ratio <= 1 else Fraction(1)
        return 2 * self._away * per_ratio * min(steep, Fraction(1))

    @cached_property
    def total_variation(self) -> float:
        """How far the law of the expanded messages is from R(x), for every test that can be run."""
        exhausted = Fraction(self.gamma) + self._running_out
        truncated = Fraction(self.base.deletion_delta)
        return above(exhausted + truncated + self.tries * Fraction(self.advantage) + 2 * self._away)

    def variation_ratio(self, base: VariationRatio) -> VariationRatio:
        """Parameters of the seeds' law from those of R, where δ = 0.

        Theorem: [LC] Lemma A.6, and for the total variation the same argument with the tests π_x − π_x' ≥ θ:
        E_s(π_x/ζ_x − π_x'/ζ_x')_+ ≤ (β+5c')/(1−c') for ζ = E_s[π] within c' = c + 4κ of 1.
        Deviates: ``q_common`` is given up, so that it is q.
        """
        grown = 4 * self.disturbance + 2 * Fraction(self.excess)
        with precision(BITS):
            factor = arb(rational(grown)).exp()
            near = arb(rational(Fraction(self.seeds.deletion_epsilon))).exp()
            p, q = (round_up((arb(number) * factor).max(near)) for number in (base.p, max(base.q_pair)))
        beta = above((Fraction(base.beta) + 5 * self._away) / (1 - self._away) + self._running_out)
        return VariationRatio(p=p, beta=min(beta, (p - 1) / (p + 1)), q=max(p, q))
