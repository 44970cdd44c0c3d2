"""Proposal laws of rejection sampling: input-independent, near every output law, drawn from a fixed number of words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from flint import arb
from numpy.typing import NDArray

from shuffledp._core.types import Array, Floats, Integers, Words
from shuffledp.mechanisms.base.two_level_law import TwoLevelResponse
from shuffledp.numerics.intervals import float_above, precision, round_up, to_rational
from shuffledp.sampling.random_sources import RandomSource

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
    def replacement_delta(self) -> float: ...


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
    in_response_set: Callable[[Array, Array], NDArray[np.bool_]]

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


def exact_proposals(given: Sequence[Proposal | None]) -> tuple[Proposal, ...] | None:
    """Returns all references if each is present and bounds every ratio; else None."""
    exact = tuple(one for one in given if one is not None and not isinstance(one, ApproximateProposal))
    return exact if len(exact) == len(given) else None


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
