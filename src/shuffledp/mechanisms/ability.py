"""What only some mechanisms can: a class that such a mechanism names in its bases, so that a task may ask for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from shuffledp.array import Floats
from shuffledp.mechanisms.estimate import Estimate


class AnswersRanges(ABC):
    """Estimates how many users hold a value in a range [a, b)."""

    @abstractmethod
    def ranges(self, estimate: Estimate, ranges: Sequence[tuple[int, int]]) -> Estimate:
        """The number of users in each range, from the estimate of all nodes."""

    @abstractmethod
    def range_variance(self, values: Any, ranges: Sequence[tuple[int, int]]) -> Floats:
        """The exact variance of each range's estimate for these users."""
