"""Randomized response on any number of options (KRR, GRR)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from shuffledp._core import validation
from shuffledp._core.validation import Array, checked
from shuffledp.mechanisms.base.domain import Category
from shuffledp.mechanisms.base.encoding import WholeNumberEncoding
from shuffledp.mechanisms.base.law import check_informative_epsilon
from shuffledp.mechanisms.base.mechanism import Mechanism, OutputTable
from shuffledp.mechanisms.base.seed_compression import UniformNumberProposal
from shuffledp.mechanisms.base.support_counts import OptionCountEstimator
from shuffledp.mechanisms.base.two_level_law import SetMembership, TwoLevelLaw, TwoLevelResponse
from shuffledp.privacy.dominating_pairs import HidingPair
from shuffledp.sampling.random_sources import RandomSource

USERS_AT_ONCE = 1 << 15
"""Number of users encoded at a time, so that the working arrays stay in the processor's cache."""


@dataclass(frozen=True)
class KRR(Mechanism):
    """Reports an option drawn uniformly from all with probability γ, the true one otherwise.

    γ = d/(e^ε + d − 1), rounded up to a multiple of 2^-64: the ratio 1 + d(1−γ)/γ is then at most e^ε. The uniform draw
    is the privacy blanket itself.

    Theorem: [VR] Table 1, randomized response: p = q = e^ε, β = (e^ε−1)/(e^ε+d−1); q_common = 1.
    Requires: ε > 0 finite; d ≥ 2.

    Args:
        epsilon: Local ε of every message.
        options: Number of options d, at least 2; a user's value is an option from 0 to d − 1.

    Raises:
        ValueError: If a parameter is out of range.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.KRR(epsilon=1.0, options=4)
    >>> mechanism.message_bits
    2
    >>> f"{sdp.amplify(mechanism, users=10_000).epsilon(delta=1e-6).upper:.4f}"
    '0.0343'
    """

    epsilon: float = field(metadata=checked(check_informative_epsilon))
    options: int = field(metadata=checked(validation.count, at_least=2))

    name = "krr"
    task = "frequency"
    summary = "randomized response: the true option, or one drawn uniformly"
    use_case = "For few options, or a large local ε: the first to try."
    aliases = ("grr", "k-rr", "randomized-response", "rr", "warner", "direct-encoding", "de")

    @cached_property
    def response(self) -> TwoLevelResponse:
        """The option itself."""
        return TwoLevelResponse("KRR", self.epsilon, Fraction(1, self.options))

    @cached_property
    def domain(self) -> Category:
        return Category("KRR", self.options)

    @cached_property
    def law(self) -> TwoLevelLaw:
        d, gamma = self.options, self.response.uniform_share
        coin = (gamma / 2, 1 - gamma / 2) if d == 2 else None
        return TwoLevelLaw(
            self.response,
            Fraction(1, d),
            q_common=1.0,
            attack_pairs=self._build_attacks(),
            binary_extremes=coin,
            tight=True,
            covers_mixtures=True,
            space_key=(self.name, d),
        )

    def _build_attacks(self) -> tuple[HidingPair, ...]:
        """Returns the attacks where all others hold a third option; with two, the first of them, or a fair coin's."""
        each = Fraction(1, self.options)
        if self.options == 2:
            return self.response.disjoint_attack(), self.response.disjoint_attack((each, each, Fraction(0)))
        shares: dict[SetMembership, Fraction] = {
            (True, False, False): each,
            (False, True, False): each,
            (False, False, True): each,
            (False, False, False): 1 - 3 * each,
        }
        return (self.response.attack(shares, symmetric=True),)

    @cached_property
    def encoding(self) -> WholeNumberEncoding:
        return WholeNumberEncoding("KRR", self.options)

    @cached_property
    def estimator(self) -> OptionCountEstimator:
        own, other = self.response.inside_density / self.options, self.response.outside_density / self.options
        return OptionCountEstimator(self.options, own, other, uniform_share=self.response.uniform_share)

    @cached_property
    def proposal(self) -> UniformNumberProposal:
        return UniformNumberProposal(self.response, np.equal, self.options)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        messages = np.empty(len(values), dtype=np.int64)
        for start in range(0, len(values), USERS_AT_ONCE):
            own = values[start : start + USERS_AT_ONCE]
            honest = ~source.coins(self.response.uniform_share, len(own))
            drawn = source.integers_below(self.options, len(own))
            np.copyto(drawn, own, where=honest)
            messages[start : start + USERS_AT_ONCE] = drawn
        return messages

    def table(self) -> OutputTable:
        every = np.arange(self.options)
        own, other = self.estimator.true_support, self.estimator.false_support
        return OutputTable(every, every, tuple(tuple(own if y == x else other for y in every) for x in every))

    @classmethod
    def examples(cls) -> Sequence[KRR]:
        return [cls(epsilon=1.0, options=2), cls(epsilon=0.5, options=3), cls(epsilon=3.0, options=5)]
