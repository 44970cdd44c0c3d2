"""PrivSet: each user holds a set of options and reports a set that is likelier to meet it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from shuffledp import argument
from shuffledp.array import Array
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.own_region import OwnRegion, RegionLaw
from shuffledp.mechanisms.parts.subset_response import (
    MeetingSubsets,
    SubsetReading,
    SubsetWire,
    UniformSubset,
    chosen_size,
    meets,
)
from shuffledp.mechanisms.parts.user_values import ItemSet
from shuffledp.sampling import combination
from shuffledp.sampling.random import RandomSource


@dataclass(frozen=True)
class PrivSet(Mechanism):
    """Report a uniform k-subset of the options with probability γ, else a uniform one of those that meet the user's.

    Each user holds ``items`` different options, one row of option numbers; the estimate is how many users hold each
    option. γ = C(d,k)/Ω with Ω = e^ε(C(d,k) − C(d−s,k)) + C(d−s,k), rounded up to a multiple of 2^-64, which keeps the
    ratio at most e^ε. The subsets are drawn exactly: those that meet the user's by accepting draws, at most 1/0.63 on
    average (see ``randomize``). By default k has the smallest variance summed over all options. A message is the k
    option numbers in increasing order.

    ``epsilon``: the local ε that every message keeps. ``options``: d, how many options there are, numbered from 0.
    ``items``: s, how many of them every user holds, no more and no fewer. ``size``: k, how many options a message
    names.

    Theorem: [VR] Table 5, PrivSet: p = q = e^ε, β = (e^ε−1)(C(d−s,k) − C(d−2s,k))/Ω.
    Requires: ε > 0 finite; 1 ≤ s < d; 1 ≤ k ≤ d−s.
    Deviates: Ω as above, where one version prints its parentheses wrongly; C(d−2s,k) is 0 for d < 2s. The worst pair
    of inputs is the one that shares the fewest options. Sizes above d−s say nothing and are refused.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.PrivSet(epsilon=1.0, options=16, items=3)
    >>> mechanism.size
    1
    >>> mechanism.check([[5, 2, 9], [0, 1, 2]]).tolist()
    [[2, 5, 9], [0, 1, 2]]
    >>> mechanism.truth([[5, 2, 9], [0, 1, 2]])[:4].tolist()
    [1.0, 1.0, 2.0, 0.0]
    """

    epsilon: float
    options: int
    items: int
    size: int | None = None

    name = "privset"
    task = "set-valued"
    summary = "sets of options: a set that is likelier to meet the true one"
    take_it = "For sets of a fixed size, with a local ε."
    also_called = ("priv-set",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", argument.count("PrivSet", "options", self.options, at_least=2))
        object.__setattr__(self, "items", argument.count("PrivSet", "items", self.items))
        if self.items >= self.options:
            raise ValueError(f"PrivSet: items must be below the {self.options} options, got {self.items}.")
        object.__setattr__(self, "epsilon", argument.positive_finite("PrivSet", "epsilon", self.epsilon))
        size = chosen_size("PrivSet", self.epsilon, self.options, self.items, self.size)
        object.__setattr__(self, "size", size)
        _ = self.region

    @property
    def subset_size(self) -> int:
        """k: as given, or as chosen when the mechanism was made."""
        assert self.size is not None, "the constructor has chosen it"
        return self.size

    @cached_property
    def subsets(self) -> MeetingSubsets:
        """All messages, and which of them meet what a user holds."""
        return MeetingSubsets(self.options, self.subset_size, held=self.items)

    @cached_property
    def region(self) -> OwnRegion:
        """The region of a user is all subsets that meet the user's options."""
        return OwnRegion("PrivSet", self.epsilon, self.subsets.share)

    @cached_property
    def values(self) -> ItemSet:
        return ItemSet("PrivSet", self.options, self.items)

    @cached_property
    def law(self) -> RegionLaw:
        return self.subsets.law(self.region)

    @cached_property
    def wire(self) -> SubsetWire:
        return SubsetWire("PrivSet", self.options, self.subset_size)

    @cached_property
    def reading(self) -> SubsetReading:
        return self.subsets.reading(self.region)

    @cached_property
    def reference(self) -> UniformSubset:
        return UniformSubset(self.region, meets, self.options, self.subset_size)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        """Draws, and for truthful users draws again until one is accepted.

        Where a uniform subset meets the user's options s·k/d ≥ 1 times on average, it is accepted if it meets them.
        Elsewhere it is drawn around a uniform one of the user's options and accepted if that is the smallest one it
        meets: each subset that meets them is then accepted for exactly one of them. Either way at least a share
        1 − 1/e is accepted.
        """
        truthful = ~source.coins(self.region.uniform_share, len(values))
        result = np.empty((len(values), self.subset_size), dtype=combination.number_type(self.options))
        waiting = np.arange(len(values))
        while waiting.size:
            again = []
            for start in range(0, len(waiting), combination.MOST_USERS):
                part = waiting[start : start + combination.MOST_USERS]
                rows, refused = self._draw(values[part], truthful[part], source)
                result[part] = rows
                again.append(part[refused])
            waiting = np.concatenate(again)
        return result

    def _draw(self, own: Array, truthful: Array, source: RandomSource) -> tuple[Array, Array]:
        """One draw for each user, and whether it is refused."""
        around = self.items * self.subset_size < self.options
        picks = source.below(self.items, len(own)) if around else np.zeros(len(own), dtype=np.int64)
        pivots = own[np.arange(len(own)), picks]
        rows = combination.draw(source, self.options, self.subset_size, pivots, truthful & around)
        first = _first_met(rows, own.astype(rows.dtype))
        return rows, truthful & (first != picks if around else first == self.items)

    def table(self) -> OutputTable:
        inputs = list(combinations(range(self.options), self.items))
        return self.subsets.table(self.region, np.array(inputs), inputs)

    @classmethod
    def examples(cls) -> Sequence[PrivSet]:
        return [
            cls(epsilon=1.0, options=6, items=2),
            cls(epsilon=2.0, options=5, items=2, size=1),
            cls(epsilon=0.5, options=5, items=3, size=2),
            cls(epsilon=3.0, options=6, items=2, size=4),
        ]


def _first_met(rows: Array, own: Array) -> NDArray[np.int64]:
    """For each user the place of the first own option that the row contains; their number if it contains none."""
    items = own.shape[1]
    first = np.full(len(rows), items)
    numbers = np.ascontiguousarray(rows.T)
    for place in range(items - 1, -1, -1):
        first[(numbers == own[:, place]).any(axis=0)] = place
    return first
