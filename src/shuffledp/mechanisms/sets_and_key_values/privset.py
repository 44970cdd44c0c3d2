"""PrivSet: every user holds a set of options and reports a set that is likelier to meet it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

import numpy as np

from shuffledp._core import validation
from shuffledp._core.validation import Array, Integers, checked
from shuffledp.mechanisms.base.domain import ItemSet
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


@dataclass(frozen=True)
class PrivSet(Mechanism):
    """Reports a uniform k-subset of the options with probability γ, else a uniform one of those that meet the user's.

    Each user holds ``items`` different options, one row of option numbers; the estimate is the number of users who hold
    each option. γ = C(d,k)/Ω with Ω = e^ε(C(d,k) − C(d−s,k)) + C(d−s,k), rounded up to a multiple of 2^-64, which keeps
    the ratio at most e^ε. The subsets are drawn exactly; those that meet the user's by rejection, with at most 1/0.63
    draws on average. By default k has the smallest variance summed over all options. A message is
    the k option numbers in increasing order.

    Theorem: [VR] Table 5, PrivSet: p = q = e^ε, β = (e^ε−1)(C(d−s,k) − C(d−2s,k))/Ω.
    Requires: ε > 0 finite; 1 ≤ s < d; 1 ≤ k ≤ d−s.
    Deviates: Ω as above, where one version prints its parentheses wrongly; C(d−2s,k) is 0 for d < 2s. The worst pair
    of inputs is the one that shares the fewest options. Sizes above d−s reveal nothing and are refused.

    Args:
        epsilon: Local ε of every message.
        options: Number of options d, numbered from 0.
        items: Number of options s that every user holds, no more and no fewer.
        size: Number of options k that a message names; None for the size with the least total variance.

    Raises:
        ValueError: If a parameter is out of range.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.PrivSet(epsilon=1.0, options=16, items=3)
    >>> mechanism.size
    1
    >>> mechanism.check([[5, 2, 9], [0, 1, 2]]).tolist()
    [[2, 5, 9], [0, 1, 2]]
    >>> mechanism.truth([[5, 2, 9], [0, 1, 2]])[:4].tolist()
    [1.0, 1.0, 2.0, 0.0]
    """

    epsilon: float = field(metadata=checked(validation.positive_finite))
    options: int = field(metadata=checked(validation.count, at_least=2))
    items: int = field(metadata=checked(validation.count))
    size: int | None = None

    name = "privset"
    task = "set-valued"
    summary = "sets of options: a set that is likelier to meet the true one"
    use_case = "For sets of a fixed size, with a local ε."
    aliases = ("priv-set",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.items >= self.options:
            raise ValueError(f"PrivSet: items must be below the {self.options} options, got {self.items}.")
        size = choose_size("PrivSet", self.epsilon, self.options, self.items, self.size)
        object.__setattr__(self, "size", size)
        _ = self.response

    @property
    def subset_size(self) -> int:
        """k, as given or as chosen by the constructor."""
        assert self.size is not None, "the constructor has chosen it"
        return self.size

    @cached_property
    def subsets(self) -> IntersectingSubsets:
        """All messages, and those that meet a user's options."""
        return IntersectingSubsets(self.options, self.subset_size, options_held=self.items)

    @cached_property
    def response(self) -> TwoLevelResponse:
        """The subsets that meet the user's options."""
        return TwoLevelResponse("PrivSet", self.epsilon, self.subsets.share)

    @cached_property
    def domain(self) -> ItemSet:
        return ItemSet("PrivSet", self.options, self.items)

    @cached_property
    def law(self) -> TwoLevelLaw:
        return self.subsets.build_law(self.response)

    @cached_property
    def encoding(self) -> SubsetEncoding:
        return SubsetEncoding("PrivSet", self.options, self.subset_size)

    @cached_property
    def estimator(self) -> SubsetEstimator:
        return self.subsets.build_estimator(self.response)

    @cached_property
    def proposal(self) -> UniformSubsetProposal:
        return UniformSubsetProposal(self.response, contains_user_option, self.options, self.subset_size)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        truthful = ~source.coins(self.response.uniform_share, len(values))
        result = np.empty((len(values), self.subset_size), dtype=bits_and_subsets.number_type(self.options))
        waiting = np.arange(len(values))
        while waiting.size:
            remaining = []
            for start in range(0, len(waiting), bits_and_subsets.MAX_USERS):
                part = waiting[start : start + bits_and_subsets.MAX_USERS]
                result[part], rejected = self._draw(values[part], truthful[part], source)
                remaining.append(part[rejected])
            waiting = np.concatenate(remaining)
        return result

    def _draw(self, own: Array, truthful: Array, source: RandomSource) -> tuple[Array, Array]:
        """Returns one draw for each user, and whether it is rejected.

        If a uniform subset meets the user's options s·k/d ≥ 1 times on average, it is accepted if it meets them.
        Otherwise it is drawn around a uniform one of the user's options and accepted if that is the smallest one it
        meets: each subset that meets them is then accepted for exactly one of them. Either way at least a share 1 − 1/e
        is accepted.
        """
        around = self.items * self.subset_size < self.options
        picks = source.integers_below(self.items, len(own)) if around else np.zeros(len(own), dtype=np.int64)
        pivots = own[np.arange(len(own)), picks]
        rows = bits_and_subsets.draw(source, self.options, self.subset_size, pivots, truthful & around)
        first = _find_first_shared_option(rows, own.astype(rows.dtype))
        return rows, truthful & (first != picks if around else first == self.items)

    def table(self) -> OutputTable:
        inputs = list(combinations(range(self.options), self.items))
        return self.subsets.table(self.response, np.array(inputs), inputs)

    @classmethod
    def examples(cls) -> Sequence[PrivSet]:
        return [
            cls(epsilon=1.0, options=6, items=2),
            cls(epsilon=2.0, options=5, items=2, size=1),
            cls(epsilon=0.5, options=5, items=3, size=2),
            cls(epsilon=3.0, options=6, items=2, size=4),
        ]


def _find_first_shared_option(rows: Array, own: Array) -> Integers:
    """Returns the position of the first own option that each row contains, or their number if it contains none."""
    items = own.shape[1]
    first = np.full(len(rows), items)
    numbers = np.ascontiguousarray(rows.T)
    for place in range(items - 1, -1, -1):
        first[(numbers == own[:, place]).any(axis=0)] = place
    return first
