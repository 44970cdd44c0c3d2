"""Reference laws of messages that are numbers, in proportion to whole weights."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shuffledp.array import Array, Integers, Words
from shuffledp.mechanisms.parts.reference import WORDS_OF_AN_INTEGER, Reference, integers_below

WEIGHT_BITS = 61
"""About how many binary digits the sum of the weights has; it must be below 2^63."""


@dataclass(frozen=True)
class WeightedReference(Reference):
    """ρ(y) is the weight of y over the sum of all: a uniform number below the sum falls into one of them.

    The law that makes the largest ratio C least is that of the largest probability of each message, over all values:
    C = Σ_y ρ(y)·C ≥ Σ_y max_x R(x)(y) for every law ρ, with equality for this one. Weights need only be near to it: C
    is then that of the weights as they are.
    """

    @property
    @abstractmethod
    def weights(self) -> Integers:
        """One for each message; 0 for those that are never sent."""

    @cached_property
    def total(self) -> int:
        """The sum of the weights."""
        return int(self._ends[-1])

    @cached_property
    def _ends(self) -> Integers:
        return np.cumsum(self.weights)

    @property
    def words(self) -> int:
        return WORDS_OF_AN_INTEGER

    def messages(self, words: Words) -> Array:
        return np.asarray(self._ends.searchsorted(integers_below(self.total, words), side="right"))
