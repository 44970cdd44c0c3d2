"""What only some mechanisms can: a class that such a mechanism names in its bases, so that a task may ask for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from shuffledp.array import Floats
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.parts.consistent_ranges import ConsistentRanges
from shuffledp.mechanisms.parts.seed import SeedReading
from shuffledp.mechanisms.parts.support import SupportReading
from shuffledp.mechanisms.parts.value_tree import ValueTree

if TYPE_CHECKING:
    from shuffledp.mechanisms.mechanism import Mechanism


class AnswersRanges(ABC):
    """Estimates how many users hold a value in a range [a, b), from the nodes of a tree."""

    @property
    @abstractmethod
    def answers(self) -> ConsistentRanges:
        """How ranges are answered from the estimate of all nodes."""

    def ranges(self, estimate: Estimate, ranges: Sequence[tuple[int, int]]) -> Estimate:
        """The number of users with a value in [a, b), for each range, from ``estimate(messages)``; unbiased."""
        return self.answers.ranges(estimate, ranges)

    def range_variance(self, values: Any, ranges: Sequence[tuple[int, int]]) -> Floats:
        """The exact variance of ``ranges`` for these true values."""
        assert hasattr(self, "check"), "a mechanism"
        return self.answers.range_variance(self.check(values), ranges)


def range_answers(mechanism: Mechanism) -> ConsistentRanges | None:
    """How a mechanism answers ranges: its own way, or counts of options added up where their covariances are known.

    None where it has no way.
    """
    if isinstance(mechanism, AnswersRanges):
        return mechanism.answers
    reading = mechanism.reading.inner if isinstance(mechanism.reading, SeedReading) else mechanism.reading
    if not isinstance(reading, SupportReading) or reading.pairs is None:
        return None
    tree = ValueTree(reading.options, reading.options)
    return ConsistentRanges(type(mechanism).__name__, tree, (1.0,), reading)


def answers_ranges(kind: type[Mechanism] | Mechanism) -> bool:
    """Whether a mechanism, or some mechanism of a class, answers ranges."""
    some = kind.examples() if isinstance(kind, type) else [kind]
    return any(range_answers(one) is not None for one in some)
