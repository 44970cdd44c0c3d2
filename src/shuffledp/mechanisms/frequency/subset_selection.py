"""Subset selection: a frequency oracle whose messages are subsets of the options, all of the same size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from shuffledp._core import validation
from shuffledp._core.validation import Array, checked
from shuffledp.mechanisms.base.domain import Category
from shuffledp.mechanisms.base.encoding import check_message_size
from shuffledp.mechanisms.base.mechanism import Mechanism, OutputTable
from shuffledp.mechanisms.base.subset_parts import (
    IntersectingSubsets,
    SubsetEncoding,
    SubsetEstimator,
    UniformSubsetProposal,
    choose_size,
    contains_user_option,
)
from shuffledp.mechanisms.base.two_level_law import TwoLevelLaw, TwoLevelResponse
from shuffledp.sampling import bits_and_subsets
from shuffledp.sampling.random_sources import RandomSource

# --- Subset selection ---


@dataclass(frozen=True)
class Subset(Mechanism):
    """Reports a uniform k-subset of the options with probability γ, else a uniform one of those with the true option.

    γ = d/(k·e^ε + d − k), rounded up to a multiple of 2^-64, which keeps the ratio at most e^ε; the subsets are drawn
    exactly, and γ times the uniform law is the privacy blanket. By default k is the best size, next to d/(e^ε+1). A
    message is the k option numbers in increasing order.

    Theorem: [VR] Table 1, k-subset: p = q = e^ε, β = (e^ε−1)·C(d−2,k−1)/(e^ε·C(d−1,k−1) + C(d−1,k)); q_common = 1
    for k = 1, else q.
    Requires: ε > 0 finite; d ≥ 2; 1 ≤ k ≤ d−1.

    Args:
        epsilon: Local ε of every message.
        options: Number of options d; a user's value is an option from 0 to d − 1.
        size: Number of options k that a message names; None for the size with the least total variance.

    Raises:
        ValueError: If a parameter is out of range, or a message would be too long.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.Subset(epsilon=1.0, options=16)
    >>> mechanism.size, mechanism.message_bits
    (4, 16)
    >>> f"{sdp.amplify(mechanism, users=10_000).epsilon(delta=1e-6).upper:.4f}"
    '0.0281'
    """

    epsilon: float = field(metadata=checked(validation.positive_finite))
    options: int = field(metadata=checked(validation.count, at_least=2))
    size: int | None = None

    name = "subset"
    task = "frequency"
    summary = "subset selection: a set of options that is likelier to contain the true one"
    use_case = "For many options at the least error of one message with a local ε."
    aliases = ("ss", "subset-selection", "omega-subset")

    def __post_init__(self) -> None:
        super().__post_init__()
        size = choose_size("Subset", self.epsilon, self.options, 1, self.size)
        object.__setattr__(self, "size", size)
        _ = self.response
        check_message_size("Subset", self.encoding.bits)

    @property
    def subset_size(self) -> int:
        """k, as given or as chosen by the constructor."""
        assert self.size is not None, "the constructor has chosen it"
        return self.size

    @cached_property
    def subsets(self) -> IntersectingSubsets:
        """All messages, and those that meet a user's options."""
        return IntersectingSubsets(self.options, self.subset_size, options_held=1)

    @cached_property
    def response(self) -> TwoLevelResponse:
        """The subsets that meet the user's options."""
        return TwoLevelResponse("Subset", self.epsilon, self.subsets.share)

    @cached_property
    def domain(self) -> Category:
        return Category("Subset", self.options)

    @cached_property
    def law(self) -> TwoLevelLaw:
        return self.subsets.build_law(self.response)

    @cached_property
    def encoding(self) -> SubsetEncoding:
        return SubsetEncoding("Subset", self.options, self.subset_size)

    @cached_property
    def estimator(self) -> SubsetEstimator:
        return self.subsets.build_estimator(self.response)

    @cached_property
    def proposal(self) -> UniformSubsetProposal:
        return UniformSubsetProposal(self.response, contains_user_option, self.options, self.subset_size)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        truthful = ~source.coins(self.response.uniform_share, len(values))
        return bits_and_subsets.draw(source, self.options, self.subset_size, values, truthful)

    def table(self) -> OutputTable:
        every = np.arange(self.options)
        return self.subsets.table(self.response, every, [[int(x)] for x in every])

    @classmethod
    def examples(cls) -> Sequence[Subset]:
        return [
            cls(epsilon=1.0, options=2),
            cls(epsilon=0.5, options=6),
            cls(epsilon=2.0, options=5, size=4),
            cls(epsilon=3.0, options=7, size=3),
        ]
