"""Optional capabilities of mechanisms: abstract base classes, and the functions that test for them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from shuffledp._core.types import Array, Floats
from shuffledp.mechanisms.base.estimator import Estimate, TreeEstimator
from shuffledp.mechanisms.base.range_estimates import ConsistentRangeEstimator
from shuffledp.mechanisms.base.seed_compression import SeedEstimator

if TYPE_CHECKING:
    from shuffledp.mechanisms.base.mechanism import Mechanism


class RangeQueryCapability(ABC):
    """Mechanism that estimates how many users hold a value in a range [a, b), from the nodes of a tree."""

    @property
    @abstractmethod
    def range_estimator(self) -> ConsistentRangeEstimator:
        """The estimator of ranges from the estimates of all nodes."""

    def ranges(self, estimate: Estimate, ranges: Sequence[tuple[int, int]]) -> Estimate:
        """Returns unbiased estimates of the number of users with a value in each range [a, b).

        Args:
            estimate: The result of `estimate(messages)`.
            ranges: Pairs (a, b).

        Returns:
            One component per range.

        Raises:
            ValueError: If a range is empty or outside the domain.
        """
        return self.range_estimator.ranges(estimate, ranges)

    def range_variance(self, values: Any, ranges: Sequence[tuple[int, int]]) -> Floats:
        """Returns the exact variance of `ranges`.

        Args:
            values: The true values, one per user.
            ranges: Pairs (a, b).

        Returns:
            One variance per range.

        Raises:
            ValueError: If a value or a range is outside the domain.
        """
        assert hasattr(self, "check"), "a mechanism"
        return self.range_estimator.range_variance(self.check(values), ranges)


class MultiQueryCapability(ABC):
    """Mechanism that answers several queries to the same users, each by a mechanism of its own."""

    mechanisms: Sequence[Mechanism]

    @property
    @abstractmethod
    def shares(self) -> tuple[Fraction, ...]:
        """The probability with which a user answers each query."""

    @abstractmethod
    def queries(self, estimate: Estimate) -> list[Estimate]:
        """Splits an estimate into the estimates of the queries.

        Args:
            estimate: The result of `estimate(messages)`.

        Returns:
            One estimate per query, in the shape that its mechanism returns.
        """

    @abstractmethod
    def query_variance(self, number: int, values: Array) -> Floats:
        """Returns the exact variance of the estimate of one query.

        Args:
            number: Index of the query.
            values: The true values of its column, in canonical form.

        Returns:
            One variance per component.
        """


def find_range_estimator(mechanism: Mechanism) -> ConsistentRangeEstimator | None:
    """Returns a mechanism's estimator of ranges, from nodes of a tree or sums of options; None if it has none."""
    reading = mechanism.estimator.inner if isinstance(mechanism.estimator, SeedEstimator) else mechanism.estimator
    if not isinstance(reading, TreeEstimator) or not reading.has_known_covariances:
        return None
    return ConsistentRangeEstimator.from_estimator(type(mechanism).__name__, reading)


def supports_ranges(kind: type[Mechanism] | Mechanism) -> bool:
    """Returns True if a mechanism, or some example of a class, answers ranges."""
    some = kind.examples() if isinstance(kind, type) else [kind]
    return any(find_range_estimator(one) is not None for one in some)


def requires_padding(kind: type[Mechanism] | Mechanism) -> bool:
    """Returns True if users must hold exactly the stated number of items and are padded with dummies."""
    some = kind.examples() if isinstance(kind, type) else [kind]
    return any(one.domain.requires_padding for one in some)
