"""What only some mechanisms can: a class that such a mechanism names in its bases, so that a task may ask for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from shuffledp.array import Array, Floats
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.parts.consistent_ranges import ConsistentRanges
from shuffledp.mechanisms.parts.reading import TreeReading
from shuffledp.mechanisms.parts.seed import SeedReading

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


class AnswersQueries(ABC):
    """Answers several queries to the same users, each by a mechanism of its own."""

    mechanisms: Sequence[Mechanism]

    @property
    @abstractmethod
    def shares(self) -> tuple[Fraction, ...]:
        """The probability with which a user answers each query."""

    @abstractmethod
    def queries(self, estimate: Estimate) -> list[Estimate]:
        """The estimate of each query, in the shape that its mechanism gives."""

    @abstractmethod
    def query_variance(self, number: int, values: Array) -> Floats:
        """The exact variance of the estimate of one query, for these true values of its column."""


def range_answers(mechanism: Mechanism) -> ConsistentRanges | None:
    """How a mechanism answers ranges: from a tree's nodes, or by adding up options; None where it cannot."""
    reading = mechanism.reading.inner if isinstance(mechanism.reading, SeedReading) else mechanism.reading
    if not isinstance(reading, TreeReading) or not reading.combines:
        return None
    return ConsistentRanges.of(type(mechanism).__name__, reading)


def answers_ranges(kind: type[Mechanism] | Mechanism) -> bool:
    """Whether a mechanism, or some mechanism of a class, answers ranges."""
    some = kind.examples() if isinstance(kind, type) else [kind]
    return any(range_answers(one) is not None for one in some)


def fills_places(kind: type[Mechanism] | Mechanism) -> bool:
    """Whether users must hold exactly as many items as a mechanism is made for, and are padded with dummies."""
    some = kind.examples() if isinstance(kind, type) else [kind]
    return any(one.values.fills for one in some)
