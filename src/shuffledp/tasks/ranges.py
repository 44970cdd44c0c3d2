"""Range queries, cumulative counts and quantiles of an ordered domain."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from shuffledp._core import validation
from shuffledp._core.results_and_value_objects import PrintableResult
from shuffledp._core.validation import Array, Floats, Integers
from shuffledp.mechanisms.base.estimator import Estimate, KnownCovarianceEstimator
from shuffledp.mechanisms.base.mechanism import Mechanism, find_range_estimator, supports_ranges
from shuffledp.mechanisms.base.range_estimator import ConsistentRangeEstimator, CumulativeCounts
from shuffledp.mechanisms.base.support_counts import SupportEstimator
from shuffledp.mechanisms.base.value_tree import ValueTree
from shuffledp.mechanisms.dummies.poisson_tables_and_trees import fan_outs
from shuffledp.tasks.base import (
    BINS,
    CONSISTENT,
    NON_NEGATIVE,
    SAMPLE_SEED,
    Quantity,
    Sensitivity,
    Shape,
    apportion,
    cumulative_shape,
    post_process_quantity,
    project_to_simplex,
)
from shuffledp.tasks.counts_and_frequencies import Frequency
from shuffledp.tasks.domain import PLAN_PREFIX, Values

MAX_SHOWN_VALUES = 1024
"""Largest number of values for which the report shows a cumulative count."""
SAMPLE_RANGES = 256
"""Number of representative random ranges."""


@dataclass(frozen=True, init=False)
class Ranges(Frequency):
    """The number of users with a value in a range of an ordered domain.

    Args:
        options: Public list of values in their order, as texts, or their number, if users' data number them from 0.

    Raises:
        ValueError: If there are fewer than two values, two look alike, or the domain is not one of options.
        TypeError: If it is neither a number nor a list of texts.

    >>> Ranges(256).mechanism_settings
    {'options': 256, 'height': 8}
    """

    name = "range queries"
    mechanism_tasks: ClassVar[tuple[str, ...]] = ("range queries", "frequency")
    data_description = "users spread evenly over the values, ranges with random ends"
    supports_subsampling = False
    post: ClassVar[tuple[str, ...]] = (NON_NEGATIVE, CONSISTENT)

    @property
    def height(self) -> int:
        """The number of levels of the binary tree below the root."""
        return max(1, (self.count - 1).bit_length())

    @property
    def mechanism_settings(self) -> Mapping[str, Any]:
        return {"options": self.count, "height": self.height}

    @classmethod
    def can_use(cls, kind: type[Mechanism] | Mechanism) -> bool:
        # Trees, and frequency oracles whose counts can be added up.
        return kind.task in cls.mechanism_tasks and supports_ranges(kind)

    def range_estimator(self, mechanism: Mechanism) -> ConsistentRangeEstimator:
        """Returns the mechanism's estimator of ranges.

        Args:
            mechanism: Mechanism that is used.

        Returns:
            The estimator.

        Raises:
            ValueError: If the mechanism with its settings does not answer ranges.
        """
        found = find_range_estimator(mechanism)
        if found is None:
            raise ValueError(f"{PLAN_PREFIX}: {mechanism.name} with these settings does not answer ranges.")
        return found

    @cached_property
    def sample_ranges(self) -> list[tuple[int, int]]:
        """Representative ranges: two different ends, drawn uniformly."""
        rng = np.random.default_rng(SAMPLE_SEED)
        drawn = [sorted(rng.choice(self.count + 1, 2, replace=False).tolist()) for _ in range(SAMPLE_RANGES)]
        return [(low, high) for low, high in drawn]

    def estimator_variance(self, mechanism: Mechanism, values: Array, variance: Floats | None = None) -> Floats:
        del variance
        return self.range_estimator(mechanism).range_variance(values, self.sample_ranges)

    def standard_error(
        self, mechanism: Mechanism, users: int, variance: Callable[[Array], Floats] | None = None
    ) -> float:
        del variance
        held = self.true_counts(mechanism, users).astype(np.float64)
        spread = self.range_estimator(mechanism).range_variance_at_counts(held, users, self.sample_ranges)
        return math.sqrt(max(0.0, float(np.mean(spread))))

    def true_counts(self, mechanism: Mechanism, users: int) -> Integers:
        held = np.zeros(self.range_estimator(mechanism).tree.value_count, dtype=np.int64)
        held[: self.count] = apportion(np.full(self.count, 1 / self.count), users)
        return held

    def compute_errors_and_margins(
        self, mechanism: Mechanism, estimate: Estimate, held: Floats, confidence: float
    ) -> tuple[Floats, Floats]:
        counts = self.range_estimator(mechanism).ranges(estimate, self.sample_ranges)
        below = np.concatenate([[0.0], np.cumsum(held)])
        truth = np.array([below[high] - below[low] for low, high in self.sample_ranges])
        return counts.value - truth, counts.margin_towards(truth, confidence)

    def can_draw_estimates(self, mechanism: Mechanism) -> bool:
        # Counts that are added up must be drawn with the correlations that they have in messages.
        estimator = mechanism.estimator
        return super().can_draw_estimates(mechanism) and (
            not isinstance(estimator, SupportEstimator) or estimator.has_joint_simulation
        )

    def sensitivity(self, users: int) -> Sensitivity:
        return Sensitivity(2.0 * self.height, math.sqrt(2.0 * self.height))

    def curator_statistics(self, users: int) -> Iterator[tuple[Sensitivity, float]]:
        # A curator adds independent noise to all nodes of a tree, flat or tall, and makes them consistent.
        del users
        for fan_out in fan_outs(self.count):
            tree = ValueTree(self.count, fan_out)
            levels = tree.height
            noise = ConsistentRangeEstimator("curator", tree, (1.0,) * levels, _NodeNoiseEstimator())
            spread = noise.range_variance_at_counts(np.zeros(self.count), 0, self.sample_ranges)
            yield Sensitivity(2.0 * levels, math.sqrt(2.0 * levels)), math.sqrt(float(np.mean(spread)))

    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        # The count of each node of the tree, and cumulative counts up to values of the domain.
        estimator = self.range_estimator(mechanism)
        tree = estimator.tree
        labels, levels = [], [0] * len(tree.level_starts)
        kept: list[int] = []
        for level, place, first, last in self._nodes(tree):
            levels[level] = levels[level] or len(kept)
            ends = [self.domain.label(first), self.domain.label(last)]
            labels.append(" … ".join(ends if last > first else ends[:1]))
            kept.append(place)
        bins = Shape(BINS, 0.0, float(estimate.users), levels=tuple(levels), ordered=True)
        shown = self._shown_values
        cumulative = CumulativeCounts(estimator, estimate, self.count).estimate_cumulative(shown)
        names, shape = [self.domain.label(int(value)) for value in shown], cumulative_shape(estimate.users)
        return [
            Quantity.from_estimate("users", labels, estimate.select(kept), confidence, bins),
            Quantity.from_estimate("users up to", names, cumulative, confidence, shape),
        ]

    def _nodes(self, tree: ValueTree) -> Iterator[tuple[int, int, int, int]]:
        """Yields the level and the index of each node with values, and its first and last value."""
        for level, start in enumerate(tree.level_starts):
            for node in range(tree.level_sizes[level]):
                first, end = tree.node_range(level, node)
                if first < self.count:
                    yield level, start + node, first, min(end, self.count) - 1

    @property
    def _shown_values(self) -> Integers:
        """The values whose cumulative counts are shown, at most ``MAX_SHOWN_VALUES``."""
        return np.unique(np.linspace(0, self.count - 1, min(self.count, MAX_SHOWN_VALUES)).astype(np.int64))

    def post_process(
        self, mechanism: Mechanism, estimate: Estimate, quantities: Sequence[Quantity], way: str
    ) -> list[Any]:
        # The least-squares counts of single values are projected onto the possible ones, then summed.
        if way != CONSISTENT:
            return [post_process_quantity(quantity, way) for quantity in quantities]
        estimator = self.range_estimator(mechanism)
        counts = project_to_simplex(estimator.value_counts(estimate)[: self.count], float(estimate.users))
        below = np.append(0.0, np.cumsum(counts))
        ends = np.array([(first, last + 1) for _, _, first, last in self._nodes(estimator.tree)])
        return [below[ends[:, 1]] - below[ends[:, 0]], below[self._shown_values + 1]]


@dataclass(frozen=True)
class _NodeNoiseEstimator(KnownCovarianceEstimator):
    """A curator's counts: independent noise of variance 1 on every node."""

    def combined_variance(self, weights: Floats, held: Floats, users: int) -> Floats:
        del held, users
        return np.asarray((weights**2).sum(axis=-1))


# --- Queries about an ordered domain after the collection ---


ASK_PREFIX = "ask"


@dataclass(frozen=True)
class RangeCount(PrintableResult):
    """The number of users with a value from ``first`` up to and including ``last``; ``print`` it to read it.

    Args:
        first: Label of the first value of the range.
        last: Label of the last value of the range.
        value: Estimate.
        standard_error: Standard error of the estimate.
        low: Lower end of the confidence interval.
        high: Upper end of the confidence interval.

    >>> import shuffledp as sdp
    >>> found = sdp.tasks.RangeCount("5", "20", 120.0, 10.0, 100.4, 139.6)
    >>> print(found)
    From 5 up to and including 20
      users           120
      standard error  10
      interval        100.4 … 139.6
    """

    first: str
    last: str
    value: float
    standard_error: float
    low: float
    high: float

    def document(self) -> dict[str, Any]:
        """Returns the JSON document."""
        return {
            "range": [self.first, self.last], "estimate": self.value, "standard_error": self.standard_error,
            "low": self.low, "high": self.high,
        }  # fmt: skip

    @property
    def heading(self) -> str:
        return f"From {self.first} up to and including {self.last}"

    def summary(self) -> list[tuple[str, str]]:
        """Returns the headings and texts of the summary."""
        return [
            ("users", f"{self.value:,.6g}"),
            ("standard error", f"{self.standard_error:,.4g}"),
            ("interval", f"{self.low:,.6g} … {self.high:,.6g}"),
        ]


@dataclass(frozen=True)
class Quantile(PrintableResult):
    """The first value that at least a ``share`` of the users do not exceed; ``print`` it to read it.

    Args:
        share: Fraction of the users.
        value: Label of the estimated value.
        low: Label of the first value of the confidence interval.
        high: Label of the last value of the confidence interval.

    >>> import shuffledp as sdp
    >>> print(sdp.tasks.Quantile(0.5, "17", "16", "19"))
    Quantile 0.5
      value     17
      interval  16 … 19
    """

    share: float
    value: str
    low: str
    high: str

    def document(self) -> dict[str, Any]:
        """Returns the JSON document."""
        return {"quantile": self.share, "value": self.value, "low": self.low, "high": self.high}

    @property
    def heading(self) -> str:
        return f"Quantile {self.share:g}"

    def summary(self) -> list[tuple[str, str]]:
        """Returns the headings and texts of the summary."""
        return [("value", self.value), ("interval", f"{self.low} … {self.high}")]


@dataclass(frozen=True)
class OrderedDomainQueries:
    """An estimate of an ordered domain that answers ranges and quantiles."""

    domain: Values
    range_estimator: ConsistentRangeEstimator
    estimate: Estimate

    def range(self, first: Any, last: Any, confidence: float) -> RangeCount:
        """Counts the users from ``first`` up to and including ``last``, given as labels or numbers of options."""
        low, high = (self.domain.find_option_number(ASK_PREFIX, end) for end in (first, last))
        if low > high:
            raise ValueError(f"{ASK_PREFIX}: a range goes from the first to the last value, got {first} after {last}.")
        end = self.range_estimator.tree.value_count if high == self._size - 1 else high + 1
        count = self.range_estimator.ranges(self.estimate, [(low, end)])
        numbers = (count.value, count.standard_error, *count.interval(confidence))
        return RangeCount(self.domain.label(low), self.domain.label(high), *(float(each[0]) for each in numbers))

    def quantile(self, share: Any, confidence: float) -> Quantile:
        """Returns the first value that at least this share of the users do not exceed."""
        part = validation.open_probability(ASK_PREFIX, "a quantile", share)
        values = CumulativeCounts(self.range_estimator, self.estimate, self._size).quantile(part, confidence)
        return Quantile(part, *map(self.domain.label, (values.value, values.low, values.high)))

    @property
    def _size(self) -> int:
        assert self.domain.size is not None
        return self.domain.size
