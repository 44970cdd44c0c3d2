"""Some options out of a domain of any size: which were asked for, and how often each of them occurs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shuffledp.array import Array, Integers


@dataclass(frozen=True, eq=False)
class Asked:
    """The numbers of the options that were asked for, in the order of the answers; one may be there twice."""

    options: Integers

    def __len__(self) -> int:
        return len(self.options)

    @cached_property
    def _distinct(self) -> tuple[Integers, Integers]:
        """The different ones in order, and the place among them of each that was asked for."""
        distinct, places = np.unique(self.options, return_inverse=True)
        return distinct, places

    def counts(self, numbers: Array) -> Integers:
        """How often each occurs among these numbers."""
        distinct, places = self._distinct
        found = np.searchsorted(distinct, numbers)
        np.minimum(found, len(distinct) - 1, out=found)
        return np.bincount(found[distinct[found] == numbers], minlength=len(distinct))[places]
