"""Messages replaced by seeds: the proposal laws that seeds stand for, and rejection sampling from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from flint import arb

from shuffledp._core.errors import NotApplicable
from shuffledp._core.validation import Array, Bools, Bytes, Floats, Integers, Words
from shuffledp.mechanisms.base.encoding import Encoding, ValidRows, accept_all_rows
from shuffledp.mechanisms.base.estimator import Estimate, Estimator, Influence, SelectedOptions
from shuffledp.mechanisms.base.law import Law
from shuffledp.mechanisms.base.two_level_law import TwoLevelLaw, TwoLevelResponse
from shuffledp.numerics.ball_arithmetic import float_above, precision, round_down, round_up, to_rational
from shuffledp.privacy.dominating_pairs import HidingPair
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling.random_sources import PseudorandomGenerator, RandomSource, Seeds

# --- Proposal laws ---


HALF_WORD_BITS = np.uint64(32)
LOW_HALF_MASK = np.uint64((1 << 32) - 1)
WORDS_PER_INTEGER = 2
"""Words that one bounded integer consumes: no value's probability is then off by more than a relative 2^-65."""
ACCEPTANCE_ROUNDING = Fraction(1, 1 << 50)
"""Relative error of a product of a few floats."""


class Proposal(ABC):
    """Input-independent law ρ to which every output law R(x) has a bounded ratio."""

    @property
    @abstractmethod
    def ratio(self) -> float:
        """C: an upper bound of R(x)(y)/ρ(y) over all inputs and messages."""

    @property
    @abstractmethod
    def min_ratio(self) -> Fraction:
        """A positive lower bound of R(x)(y)/ρ(y)."""

    @property
    def deletion_epsilon(self) -> float:
        """An ε, rounded up, such that every R(x) is within e^{±ε} of ρ."""
        return log_rounded_up(max(Fraction(self.ratio), 1 / self.min_ratio))

    @property
    @abstractmethod
    def word_count(self) -> int:
        """The number of uniform 64-bit words that one draw from ρ consumes."""

    @property
    def step_count(self) -> float:
        """The steps of one draw beyond the expansion of its words."""
        return 0.0

    @abstractmethod
    def draw_messages(self, words: Words) -> Array:
        """Draws messages from ρ; the same words give the same messages.

        Args:
            words: One row of `self.word_count` uniform 64-bit words per message.

        Returns:
            One message per row.
        """

    def draw_latent_inputs(self, values: Array, source: RandomSource) -> Array:
        """Draws the latent inputs that `acceptance` takes in place of values; by default the values themselves.

        If R(x) is a mixture, a component may be drawn for each value, whose law is then that of `acceptance`: a
        guarantee for every two components holds for their mixtures.

        Args:
            values: Values in canonical form.
            source: Source of randomness.

        Returns:
            One latent input per value.
        """
        del source
        return values

    @abstractmethod
    def acceptance(self, values: Array, messages: Array) -> Floats:
        """Returns R(x)(y)/(C·ρ(y)), between 0 and 1.

        It has a relative error of at most `rounding` and may in addition be too large by a factor of up to
        e^acceptance_error, which includes the deviation of the law of `draw_messages` from ρ.

        Args:
            values: Latent inputs x, as `draw_latent_inputs` returns them.
            messages: One message y per input.

        Returns:
            One acceptance probability per row.
        """

    @property
    def acceptance_error(self) -> float:
        """κ: the logarithm of the largest factor by which `acceptance` may be too large; 0 if it is exact."""
        return 0.0

    @property
    def rounding(self) -> Fraction:
        """The largest relative error of `acceptance`."""
        return ACCEPTANCE_ROUNDING


class ApproximateProposal(Proposal):
    """Proposal law of a randomizer that is private only up to δ: `acceptance` may exceed 1 where a ratio exceeds C."""

    @property
    def min_ratio(self) -> Fraction:
        """Zero: no positive lower bound of the ratios is known."""
        return Fraction(0)

    @property
    @abstractmethod
    def deletion_epsilon(self) -> float:
        """An ε such that every R(x) is within e^{±ε} of ρ, up to `deletion_delta`."""

    @property
    @abstractmethod
    def deletion_delta(self) -> float:
        """A δ such that R(x) and ρ are (deletion_epsilon, δ)-close both ways; C is e^deletion_epsilon, rounded up."""

    @property
    @abstractmethod
    def replacement_epsilon(self) -> float:
        """An ε such that every two output laws are (ε, replacement_delta)-close."""

    @property
    @abstractmethod
    def replacement_delta(self) -> float:
        """δ of the exchange of one input for another."""


@dataclass(frozen=True)
class UniformProposal(Proposal):
    """Uniform proposal law of a two-level response.

    Theorem: [LC] Section 3: R(x) is within e^{±ε} of ρ for ε = max(log inside, −log outside), probabilities in units of
    the uniform one; the acceptance probability R(x)(y)/(C·ρ(y)), C = inside, is 1 in the region.

    Args:
        response: The two-level response.
        in_response_set: Function of values and messages that returns whether each message is in the region of its
            value.
    """

    response: TwoLevelResponse
    in_response_set: Callable[[Array, Array], Bools]

    @property
    def ratio(self) -> float:
        return float_above(self.response.inside_density)

    @property
    def min_ratio(self) -> Fraction:
        return self.response.outside_density

    def acceptance(self, values: Array, messages: Array) -> Floats:
        ratio = Fraction(self.ratio)
        inside, outside = float(self.response.inside_density / ratio), float(self.response.outside_density / ratio)
        return np.where(self.in_response_set(values, messages), inside, outside)


@dataclass(frozen=True)
class UniformNumberProposal(UniformProposal):
    """Uniform proposal law of messages that are whole numbers.

    Args:
        response: The two-level response.
        in_response_set: Function of values and messages that returns whether each message is in the region of its
            value.
        outputs: Number of different messages.
    """

    outputs: int

    @property
    def word_count(self) -> int:
        return WORDS_PER_INTEGER

    def draw_messages(self, words: Words) -> Array:
        return integers_below(self.outputs, words)


def exact_proposals(proposals: Sequence[Proposal | None]) -> tuple[Proposal, ...] | None:
    """Returns the proposals if each is present and bounds every ratio; else None."""
    exact = tuple(each for each in proposals if each is not None and not isinstance(each, ApproximateProposal))
    return exact if len(exact) == len(proposals) else None


def log_rounded_up(ratio: Fraction) -> float:
    """Returns the logarithm of an exact number, rounded up."""
    with precision(128):
        return round_up(arb(to_rational(ratio)).log())


def integers_below(bound: int, words: Words) -> Integers:
    """Returns ⌊w·bound/2^128⌋ for each row's two words, w = first·2^64 + second: uniform below `bound` ≤ 2^63."""
    factor = np.uint64(bound)
    low, high = words[:, 0] * factor, _high_product(words[:, 0], factor)
    carry = low + _high_product(words[:, 1], factor) < low
    return np.asarray((high + carry).view(np.int64))


def _high_product(words: Words, factor: np.uint64) -> Words:
    """Returns the upper 64 bits of each 128-bit product, computed from 32-bit halves."""
    upper, lower = words >> HALF_WORD_BITS, words & LOW_HALF_MASK
    factor_upper, factor_lower = factor >> HALF_WORD_BITS, factor & LOW_HALF_MASK
    first, second = upper * factor_lower, lower * factor_upper
    middle = (lower * factor_lower >> HALF_WORD_BITS) + (first & LOW_HALF_MASK) + (second & LOW_HALF_MASK)
    return np.asarray(
        upper * factor_upper + (first >> HALF_WORD_BITS) + (second >> HALF_WORD_BITS) + (middle >> HALF_WORD_BITS)
    )


# --- Messages drawn in proportion to whole weights ---


WEIGHT_BITS = 61
"""Approximate number of bits of the sum of the weights, which must be below 2^63."""


@dataclass(frozen=True)
class WeightedProposal(Proposal):
    """Proposal law in proportion to whole weights: a uniform number below their sum selects a message.

    The law with the smallest largest ratio C is in proportion to the largest probability of each message over all
    values: C = Σ_y ρ(y)·C ≥ Σ_y max_x R(x)(y) for every law ρ, with equality for this one. Weights need only be close
    to it: C is then computed from the weights as they are.
    """

    @property
    @abstractmethod
    def weights(self) -> Integers:
        """One weight per message; 0 for messages that are never sent."""

    @cached_property
    def total_weight(self) -> int:
        """The sum of the weights."""
        return int(self._cumulative_weights[-1])

    @cached_property
    def _cumulative_weights(self) -> Integers:
        return np.cumsum(self.weights)

    @property
    def word_count(self) -> int:
        return WORDS_PER_INTEGER

    def draw_messages(self, words: Words) -> Array:
        return np.asarray(self._cumulative_weights.searchsorted(integers_below(self.total_weight, words), side="right"))


# --- Rejection sampling ---


PRECISION_BITS = 128
MAX_DISTURBANCE = Fraction(1, 4)


@dataclass(frozen=True)
class ReplaceDeleteGuarantee:
    """(ε, δ) guarantees against replacing a value, and against deleting it (compared with the proposal law)."""

    replacement_epsilon: float
    replacement_delta: float
    deletion_epsilon: float
    deletion_delta: float


@dataclass(frozen=True)
class SeedGuarantee:
    """Guarantees of R[G, γ] from those of R, the density ratio C, the tries J and the advantage β_G.

    c = C·β_G + 2η, η the relative error of an executed acceptance probability (`acceptance_rounding`, and the 2^-64 of
    its coin), bounds the distance of E_s[π_x(G(s))] from 1, π_x = R(x)/ρ: a generator can change nothing else ([LC]
    Lemma 3.2). κ: acceptance probabilities may be too large by up to e^κ, which changes no density by more than that.

    Theorem: [LC] Lemma 3.2 (A.1), deletion ε+2c+κ; Lemma A.6, replacement ε_r+4c+2κ; Lemma A.8, deletion
    (ε+2δ+2c, δ+c); Lemma A.10, replacement (ε_r+2δ+4c, 2δ_r+2c); Lemma 3.3 (A.3), total variation γ+J·β_G;
    Lemma 3.5 (A.5), deletion 2ε for an arbitrary G.
    Requires: δ + c + 2κ < 1/4, below the lemmas' 1/2; κ = 0 where δ > 0.
    Deviates: C replaces e^ε, as the proofs use only π_x ≤ C; β_G is joined by the rounding of the executed
    probabilities. A client that runs out of tries sends a seed of the proposal law, for some values more often than
    for others: replacement is the larger of the replacement and the deletion guarantee (print assumes ε ≤ ε_r).

    Args:
        ratio: C, the density ratio.
        min_ratio: A lower bound of π_x; 0 where δ > 0.
        tries: J, the number of seeds that a client tries.
        gamma: γ, the probability of running out of tries.
        advantage: β_G, the advantage of a distinguisher against the generator.
        log_excess: κ, the logarithm of the largest factor by which acceptance probabilities may be too large.
        acceptance_rounding: Relative error of the computed acceptance probabilities.
        base_guarantee: Guarantees of R.
    """

    ratio: float
    min_ratio: Fraction
    tries: int
    gamma: float
    advantage: float
    log_excess: float
    acceptance_rounding: Fraction
    base_guarantee: ReplaceDeleteGuarantee

    @cached_property
    def rounding(self) -> Fraction:
        """η: acceptance probabilities are at least e^{−ε}/C where they matter, and coins are multiples of 2^-64."""
        largest = max(self.base_guarantee.deletion_epsilon, self.base_guarantee.replacement_epsilon)
        with precision(PRECISION_BITS):
            scale = round_up(arb(largest).exp() * self.ratio)
        return self.acceptance_rounding + Fraction(scale) / (1 << 64)

    @cached_property
    def disturbance(self) -> Fraction:
        """The constant c."""
        return Fraction(self.ratio) * Fraction(self.advantage) + 2 * self.rounding

    @property
    def total_error(self) -> Fraction:
        """The sum δ + c + 2κ."""
        return Fraction(self.base_guarantee.deletion_delta) + self.disturbance + 2 * Fraction(self.log_excess)

    def holds(self) -> bool:
        """Returns True if the lemmas apply."""
        return (self.log_excess == 0 or self.is_pure) and self.total_error < MAX_DISTURBANCE

    @property
    def is_pure(self) -> bool:
        """True if δ = 0."""
        return self.base_guarantee.deletion_delta == 0 and self.base_guarantee.replacement_delta == 0

    @cached_property
    def seed_guarantee(self) -> ReplaceDeleteGuarantee:
        """The guarantees of the transmitted seeds."""
        base, c, kappa = self.base_guarantee, self.disturbance, Fraction(self.log_excess)
        delta = Fraction(base.deletion_delta)
        deletion = Fraction(base.deletion_epsilon) + 2 * delta + 2 * c + kappa
        replacement = max(Fraction(base.replacement_epsilon) + 2 * delta + 4 * c + 2 * kappa, deletion)
        if self.is_pure:
            return ReplaceDeleteGuarantee(float_above(replacement), 0.0, float_above(deletion), 0.0)
        replacement_delta = max(2 * Fraction(base.replacement_delta) + 2 * c, delta + c)
        return ReplaceDeleteGuarantee(
            float_above(replacement), float_above(replacement_delta), float_above(deletion), float_above(delta + c)
        )

    @cached_property
    def unconditional_guarantee(self) -> ReplaceDeleteGuarantee | None:
        """The guarantees for an arbitrary function in place of the generator, if δ = 0; else None.

        E_s[π_x(G(s))] is between e^{−ε} and C for every G.
        """
        if not self.is_pure:
            return None
        base, slack = self.base_guarantee, 4 * self.rounding + 2 * Fraction(self.log_excess)
        with precision(PRECISION_BITS):
            spread = Fraction(round_up(arb(self.ratio).log() + arb(base.deletion_epsilon)))
        deletion = 2 * Fraction(base.deletion_epsilon) + slack
        replacement = max(Fraction(base.replacement_epsilon) + spread + slack, deletion)
        return ReplaceDeleteGuarantee(float_above(min(replacement, 2 * deletion)), 0.0, float_above(deletion), 0.0)

    @cached_property
    def density_levels(self) -> tuple[Fraction, Fraction]:
        """The least and the largest probability of a seed, over all values, in units of the uniform one, if δ = 0.

        A seed's probability is a_x(G(s))/ζ_x, ζ_x = E_s[a_x(G(s))], or 1 for clients that run out of tries. An executed
        a_x is at most C, as no probability exceeds 1, and at least π_x·(1−η); ζ_x is from 1−c to e^κ·(1+c).
        """
        with precision(PRECISION_BITS):
            room, more = arb(to_rational(2 * self.disturbance)).exp(), arb(to_rational(self.log_excess)).exp()
            low, high = round_down(arb(to_rational(self.min_ratio)) / room / more), round_up(arb(self.ratio) * room)
        return Fraction(low), Fraction(high)

    @cached_property
    def _density_error(self) -> Fraction:
        """A bound c' ≥ c + 2(e^κ−1) of the distance of E_s of a density from 1, and of these from R's in the mean."""
        # e^κ − 1 ≤ 2κ, as κ is below 1/8.
        return self.disturbance + 4 * Fraction(self.log_excess)

    @cached_property
    def _exhaustion_difference(self) -> Fraction:
        """The most by which the probability (1−ζ/C)^J of running out of tries differs between two inputs.

        Here ζ is within c' of 1. The slope is at most (J/C)·(1−(1−c')/C)^{J−1} ≤ (J/C)·γ·e^{1+c'J/C}.
        """
        per_ratio = self.tries / Fraction(self.ratio)
        steep = 8 * Fraction(self.gamma) if self._density_error * per_ratio <= 1 else Fraction(1)
        return 2 * self._density_error * per_ratio * min(steep, Fraction(1))

    @cached_property
    def total_variation(self) -> float:
        """The distance of the law of the expanded messages from R(x), for every efficient test."""
        exhausted = Fraction(self.gamma) + self._exhaustion_difference
        truncated = Fraction(self.base_guarantee.deletion_delta)
        return float_above(exhausted + truncated + self.tries * Fraction(self.advantage) + 2 * self._density_error)

    def variation_ratio(self, base: VariationRatio) -> VariationRatio:
        """Returns the parameters of the seeds' law from those of R, if δ = 0.

        Theorem: [LC] Lemma A.6, and for the total variation the same argument with the tests π_x − π_x' ≥ θ:
        E_s(π_x/ζ_x − π_x'/ζ_x')_+ ≤ (β+5c')/(1−c') for ζ = E_s[π] within c' = c + 4κ of 1.
        Deviates: `q_common` is given up, so that it is q.
        """
        grown = 4 * self.disturbance + 2 * Fraction(self.log_excess)
        with precision(PRECISION_BITS):
            factor = arb(to_rational(grown)).exp()
            near = arb(to_rational(Fraction(self.seed_guarantee.deletion_epsilon))).exp()
            p, q = (round_up((arb(number) * factor).max(near)) for number in (base.p, max(base.q_pair)))
        beta = float_above(
            (Fraction(base.beta) + 5 * self._density_error) / (1 - self._density_error) + self._exhaustion_difference
        )
        return VariationRatio(p=p, beta=min(beta, (p - 1) / (p + 1)), q=max(p, q))


# --- Seeds in place of messages ---


MAX_BLOCK_WORDS = 1 << 17
"""Words expanded at a time, so that they and their messages stay in the processor's cache."""


@dataclass(frozen=True)
class SeedExpansion:
    """Expansion of a seed s to the message R_∅(G(s)), drawn from the proposal law with the generator's words."""

    proposal: Proposal
    generator: PseudorandomGenerator

    @property
    def block_rows(self) -> int:
        """The number of seeds expanded at a time."""
        return max(1, MAX_BLOCK_WORDS // int(self.proposal.word_count))

    def expand_blocks(self, seeds: Seeds) -> Iterator[tuple[slice, Array]]:
        """Yields the rows of a block of seeds, and their messages."""
        for start in range(0, len(seeds), self.block_rows):
            rows = slice(start, start + self.block_rows)
            words = self.generator.expand(seeds[rows], self.proposal.word_count)
            yield rows, self.proposal.draw_messages(words)


@dataclass(frozen=True)
class SeedEncoding(Encoding):
    """Encoding of seeds of whole bytes, which are sent as they are."""

    error_prefix: str
    seed_bits: int

    @property
    def bits(self) -> int:
        return self.seed_bits

    @property
    def expected_format(self) -> str:
        return f"seeds of {self.seed_bits} bits"

    def pack(self, messages: Array) -> Bytes:
        return np.ascontiguousarray(messages)

    def decode_rows(self, rows: Bytes) -> tuple[Array, ValidRows]:
        return rows, accept_all_rows(rows)


@dataclass(frozen=True)
class SeedEstimator(Estimator):
    """Estimator that expands seeds and applies the `inner` estimator to the messages."""

    encoding: SeedEncoding
    expansion: SeedExpansion
    inner: Estimator

    def expand(self, messages: Array) -> Array:
        """Returns the randomizer's message for each seed; raises ValueError if a row is not a seed."""
        return np.concatenate([part for _, part in self.expansion.expand_blocks(self.encoding.unpack(messages))])

    def accumulate(self, messages: Array) -> Array:
        """Accumulates a block of seeds at a time, because their messages may be far longer."""
        total: Array | None = None
        for _, part in self.expansion.expand_blocks(self.encoding.unpack(messages)):
            added = np.asarray(self.inner.accumulate(part))
            total = added if total is None else total + added
        if total is None:
            raise ValueError(f"{self.encoding.error_prefix}: expected at least one message to estimate from, got none.")
        return total

    def finish(self, total: Array, users: int) -> Estimate:
        return self.inner.finish(total, users)

    @property
    def option_count(self) -> int | None:
        return self.inner.option_count

    @property
    def full_estimate_bytes(self) -> int:
        return self.inner.full_estimate_bytes

    def select(self, selection: SelectedOptions) -> Estimator:
        return replace(self, inner=self.inner.select(selection))

    def variance_at_counts(self, held: Floats, users: float) -> Floats | None:
        return self.inner.variance_at_counts(held, users)

    def influence(self, messages: float) -> Sequence[Influence] | None:
        """Returns the influence as if some seed stood for every message: a liar may try any number of seeds."""
        return self.inner.influence(messages)

    def truth(self, values: Array) -> Floats:
        return self.inner.truth(values)

    def variance(self, values: Array) -> Floats:
        return self.inner.variance(values)


@dataclass(frozen=True)
class SeedLaw(Law):
    """Law of seeds: parameters from those of the `inner` law, a blanket from the least and the largest density.

    Every value's law has a density f to uniform seeds between two levels. Of all laws of (f(x), f(x')) on that square
    with means 1 the one on its corners, (high, low) and (low, high) as often as possible, maximises the mean of every
    convex function of f(x) − e^ε·f(x'): that is the law of two regions with the least overlap, and the least level
    times the uniform law is in every other user's. An unchanged value is one more law on that square.

    Theorem: two-level randomizers, as in `TwoLevelLaw`, for densities between the levels.
    """

    error_prefix: str
    guarantee: SeedGuarantee
    inner: Law

    missing_attack_reason = (
        "how likely a seed is depends on a cryptographic generator, of which no law is known exactly."
    )

    @property
    def covers_mixtures(self) -> bool:  # type: ignore[override]
        return self.guarantee.is_pure

    @cached_property
    def two_level_law(self) -> TwoLevelLaw:
        """The two-level law with these levels, if δ = 0."""
        low, high = self.guarantee.density_levels
        share = (1 - low) / (high - low)
        region = TwoLevelResponse(self.error_prefix, self.guarantee.seed_guarantee.replacement_epsilon, share, low)
        return TwoLevelLaw(region, exclusive_share=min(share, 1 - share), covers_mixtures=True)

    def variation_ratio(self) -> VariationRatio:
        delta = self.guarantee.seed_guarantee.replacement_delta
        if delta:
            raise NotApplicable(
                self.error_prefix,
                f"the randomizer is private only up to δ = {delta:.3g}, so there is no largest ratio.",
            )
        return self.guarantee.variation_ratio(self.inner.variation_ratio())

    def blankets(self) -> Sequence[HidingPair]:
        return self.two_level_law.blankets() if self.guarantee.is_pure else ()

    def attacks(self) -> Sequence[HidingPair]:
        return ()
