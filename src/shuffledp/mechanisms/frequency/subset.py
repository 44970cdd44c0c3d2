"""Subset selection: report a set of options that is likelier to contain the true one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shuffledp import argument
from shuffledp.array import Array
from shuffledp.mechanisms.mechanism import OutputTable
from shuffledp.mechanisms.parts.subset_response import SubsetResponse
from shuffledp.sampling import combination
from shuffledp.sampling.random import RandomSource


@dataclass(frozen=True)
class Subset(SubsetResponse):
    """Report a uniform k-subset of the options with probability γ, else a uniform one of those with the true option.

    γ = d/(k·e^ε + d − k), rounded up to a multiple of 2^-64, which keeps the ratio at most e^ε; the subsets are drawn
    exactly, and γ times the uniform law is the privacy blanket. By default k is the best size, next to d/(e^ε+1).
    A message is the k option numbers in increasing order.

    Theorem: [VR] Table 1, k-subset: p = q = e^ε, β = (e^ε−1)·C(d−2,k−1)/(e^ε·C(d−1,k−1) + C(d−1,k)); q_common = 1
    for k = 1, else q.
    Requires: ε > 0 finite; d ≥ 2; 1 ≤ k ≤ d−1.
    """

    epsilon: float
    options: int
    size: int | None = None

    name = "subset"
    summary = "subset selection: a set of options that is likelier to contain the true one"

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", argument.count("Subset", "options", self.options, at_least=2))
        self._settle()

    @property
    def held(self) -> int:
        return 1

    def randomize(self, values: Array, source: RandomSource) -> Array:
        truthful = ~source.coins(self.region.uniform_share, len(values))
        return combination.draw(source, self.options, self.subset_size, values, truthful)

    def table(self) -> OutputTable:
        every = np.arange(self.options)
        return self._table(every, [[int(x)] for x in every])

    @classmethod
    def examples(cls) -> Sequence[Subset]:
        return [
            cls(epsilon=1.0, options=2),
            cls(epsilon=0.5, options=6),
            cls(epsilon=2.0, options=5, size=4),
            cls(epsilon=3.0, options=7, size=3),
        ]
