"""Tasks that count users: those who say yes, or those with each option of a public list, one or several per user."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from shuffledp._core import validation
from shuffledp._core.validation import Array, Floats, Integers
from shuffledp.mechanisms.base.estimator import Estimate, Estimator, SelectedOptions
from shuffledp.mechanisms.base.mechanism import Mechanism, requires_padding
from shuffledp.tasks import value_parsing
from shuffledp.tasks.base import (
    CONSISTENT,
    NON_NEGATIVE,
    POST_PROCESSING_METHODS,
    Quantity,
    Sensitivity,
    Shape,
    Task,
    are_labels_ordered,
    count_shape,
    option_labels,
)
from shuffledp.tasks.column_reader import NO_ITEM, ColumnReader, drop_dummies, fill_with_dummies
from shuffledp.tasks.domain import TASK_PREFIX, Interval, TaskOptions, Values, build_option_domain
from shuffledp.tasks.means import SAMPLE_POINTS, Mean, Sum

if TYPE_CHECKING:
    import pyarrow as pa


UNIT_INTERVAL = Interval(0.0, 1.0)
YES_NO_VALUES = {"yes": 1, "no": 0, "true": 1, "false": 0, "1": 1, "0": 0}
"""Accepted texts, in lower case."""


class Count(Sum):
    """The number of users who say yes: the sum of ones, where no is 0.

    A column holds booleans, the numbers 0 and 1, or the texts yes, no, true, false.

    >>> Count().sensitivity(users=1000).l1
    1.0
    """

    name = "count"
    data_description = "half of the users say yes"
    unit = "users"
    accepted_options: ClassVar[tuple[str, ...]] = ()
    post: ClassVar[tuple[str, ...]] = (NON_NEGATIVE, CONSISTENT)

    def __init__(self) -> None:
        super().__init__(UNIT_INTERVAL)

    def representative_values(self, mechanism: Mechanism) -> Array:
        ends = np.array(mechanism.value_range)
        return ends if mechanism.task == Mean.name else ends[:, None]

    def true_counts(self, mechanism: Mechanism, users: int) -> Integers:
        # The outermost of the representative numbers of a mean, half a thousandth from the ends: nobody is in between.
        counts = np.zeros(SAMPLE_POINTS, dtype=np.int64)
        counts[[0, -1]] = users - users // 2, users // 2
        return counts

    def read_values(self, column: ColumnReader, array: pa.Array) -> Any:
        import pyarrow as pa

        return super().read_values(column, pa.array(self._read_ones(column, array), pa.int8()))

    def _read_ones(self, column: ColumnReader, array: pa.Array) -> Array:
        """Returns 1 for each yes and 0 for each no; raises BadRow for anything else."""
        import pyarrow.compute as pc

        array = value_parsing.decode_array(column.require_values(array))
        if value_parsing.is_text(array.type):
            texts = pc.utf8_lower(value_parsing.trim(array))
            indices, bad = value_parsing.find_label_indices(texts, tuple(YES_NO_VALUES))
            numbers = np.array(list(YES_NO_VALUES.values()))[indices]
        elif value_parsing.is_numeric(array):
            numbers, bad = value_parsing.parse_floats(array)
            bad = bad | ~np.isin(numbers, (0.0, 1.0))
        else:
            raise column.build_error(f"expected yes or no in every row, got {array.type}")
        if bad.any():
            rows = f"{int(bad.sum()):,} rows"
            raise column.build_error(f"expected yes, no, true, false, 1 or 0, got something else in {rows}", bad)
        return numbers.astype(np.int8)

    def compute_errors_and_margins(
        self, mechanism: Mechanism, estimate: Estimate, held: Floats, confidence: float
    ) -> tuple[Floats, Floats]:
        return super().compute_errors_and_margins(
            mechanism, mechanism.estimator.for_endpoint_values(estimate), held, confidence
        )

    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        (total,) = super().quantities(mechanism, mechanism.estimator.for_endpoint_values(estimate), confidence)
        shape = count_shape(estimate.users, all_in_one=False)
        return [Quantity("users", ("yes",), total.value, total.standard_error, total.low, total.high, shape=shape)]

    @classmethod
    def from_domain(cls, domain: Values, parameters: Mapping[str, Any]) -> Task:
        del parameters
        if domain != UNIT_INTERVAL:
            raise ValueError(f"{TASK_PREFIX}: the task 'count' has the domain 0 to 1, got another one.")
        return cls()

    @classmethod
    def from_options(cls, given: TaskOptions) -> Task:
        del given
        return cls()


# --- Counts of rare items ---


STANDARD_ERROR_CONFIDENCE = 0.95
"""Confidence of the intervals from which standard errors are derived, whatever confidence is requested."""


def count_quantity(labels: tuple[str, ...], estimate: Estimate, confidence: float) -> Quantity:
    """Returns the number of users with each label."""
    low, high = estimate.interval(confidence)
    shape = count_shape(estimate.users, all_in_one=False)
    return Quantity("users", labels, estimate.value, standard_error(estimate), low, high, shape=shape)


def standard_error(estimate: Estimate) -> Floats:
    """Returns standard errors that are at least those implied by the 95% intervals, which matters for counts near 0."""
    return np.maximum(
        estimate.standard_error,
        estimate.margin(STANDARD_ERROR_CONFIDENCE) / estimate.error_law.critical_value(STANDARD_ERROR_CONFIDENCE),
    )


MAX_SAMPLE_OPTIONS = 1 << 16
"""Largest number of options of representative users; of more options, this number represents all."""
MAX_TIMED_OPTIONS, REPRESENTATIVE_OPTIONS = 1 << 18, 10_000
"""Largest number of options that are all estimated to measure the time, and the number that represents more."""


# --- Frequencies ---


@dataclass(frozen=True, init=False)
class Frequency(Task):
    """The number of users with each option, where every user holds one.

    Args:
        options: Public list of options as texts, or their number, if users' data number them from 0; or a
            ``Categories`` or ``Options``.

    Raises:
        ValueError: If there are fewer than two options, two look alike, or the domain is not one of options.
        TypeError: If it is neither a number nor a list of texts.

    >>> Frequency(["red", "green", "blue"]).count
    3
    >>> Frequency(1024).domain
    Options(count=1024)
    """

    options: Values

    name = "frequency"
    mechanism_tasks: ClassVar[tuple[str, ...]] = ("frequency",)
    data_description = "users spread evenly over the options"
    unit = "users"
    supports_subsampling = True
    post: ClassVar[tuple[str, ...]] = tuple(POST_PROCESSING_METHODS)
    accepted_options: ClassVar[tuple[str, ...]] = ("domain", "categories")

    def __init__(self, options: Values | Sequence[str] | float) -> None:
        object.__setattr__(self, "options", build_option_domain(options))
        self._require_domain_kind(self.options, "options")

    @property
    def count(self) -> int:
        """The number of options."""
        size = self.options.size
        assert size is not None, "options can be counted"
        return size

    @property
    def domain(self) -> Values:
        return self.options

    @property
    def mechanism_settings(self) -> Mapping[str, Any]:
        return {"options": self.count}

    def representative_values(self, mechanism: Mechanism) -> Array:
        return self._representative_options(MAX_SAMPLE_OPTIONS)

    def _representative_options(self, most: int) -> Integers:
        """Returns all options, or ``most`` of them spread evenly."""
        return np.arange(self.count) if self.count <= most else np.arange(most) * (self.count // most)

    def timed_estimator(self, mechanism: Mechanism) -> Estimator:
        if self.count <= MAX_TIMED_OPTIONS:
            return mechanism.estimator
        return mechanism.estimator.select(SelectedOptions(self._representative_options(REPRESENTATIVE_OPTIONS)))

    @property
    def timed_estimator_description(self) -> str:
        return (
            "" if self.count <= MAX_TIMED_OPTIONS else f" for {REPRESENTATIVE_OPTIONS:,} of the {self.count:,} options"
        )

    def standard_error(
        self, mechanism: Mechanism, users: int, variance: Callable[[Array], Floats] | None = None
    ) -> float:
        # Some options represent all, since each is held by the same number of users on average.
        if self.count > MAX_SAMPLE_OPTIONS and variance is None:
            options = self._representative_options(REPRESENTATIVE_OPTIONS)
            counts = np.full(len(options), users / self.count)
            spread = mechanism.estimator.select(SelectedOptions(options)).variance_at_counts(counts, users)
            if spread is not None:
                return math.sqrt(max(0.0, float(np.mean(spread))))
        return super().standard_error(mechanism, users, variance)

    def sensitivity(self, users: int) -> Sensitivity:
        return Sensitivity(2.0, math.sqrt(2.0))

    def central_factor(self) -> float:
        # The total of all counts is known: a curator, too, subtracts the mean of the noise.
        return math.sqrt(1 - 1 / self.count)

    def read_values(self, column: ColumnReader, array: pa.Array) -> Any:
        return column.read_option_numbers(array, self.domain.names)

    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        labels, shape = option_labels(self.domain, len(estimate.value)), self.public_shape(estimate.users)
        return [Quantity.from_estimate("users", labels, estimate, confidence, shape)]

    def public_shape(self, users: int) -> Shape:
        """Returns the public bounds on the counts of all options.

        Args:
            users: Number of users.

        Returns:
            The shape, with ``users`` as the total.
        """
        return count_shape(users, all_in_one=True, ordered=are_labels_ordered(self.domain.names))

    def parse_options(self, who: str, options: Any) -> Integers:
        listed = [options] if isinstance(options, str) else list(options)
        if not listed:
            raise ValueError(f"{who}: expected at least one option, got none.")
        numbers = np.array([self._find_option_number(who, option) for option in listed], dtype=np.int64)
        distinct, times = np.unique(numbers, return_counts=True)
        if len(distinct) < len(numbers):
            label = self.domain.label(int(distinct[times > 1][0]))
            raise ValueError(f"{who}: expected different options, got {label!r} twice.")
        return numbers

    def _find_option_number(self, who: str, option: Any) -> int:
        """Returns the number of an option from its label or number."""
        number = self._option_numbers.get(str(option))
        return self.domain.find_option_number(who, option) if number is None else number

    @cached_property
    def _option_numbers(self) -> Mapping[str, int]:
        """The number of each label, if options have labels."""
        return {label: number for number, label in enumerate(self.domain.names or ())}

    def option_true_counts(self, options: Integers, users: int) -> Integers:
        # As in ``true_counts``: the first options have one user more if the users cannot be divided evenly.
        each, more = divmod(users, self.count)
        return np.asarray(each + (options < more), dtype=np.int64)

    def option_quantities(self, options: Integers, estimate: Estimate, confidence: float) -> list[Quantity]:
        shape = count_shape(estimate.users, all_in_one=False)
        return [Quantity.from_estimate("users", map(self.domain.label, options.tolist()), estimate, confidence, shape)]

    @classmethod
    def from_domain(cls, domain: Values, parameters: Mapping[str, Any]) -> Task:
        return cls(domain, **parameters)

    @classmethod
    def from_options(cls, given: TaskOptions) -> Task:
        return cls(given.build_option_domain())


# --- Item sets ---


@dataclass(frozen=True, init=False)
class ItemSets(Frequency):
    """The number of users with each option, where every user holds a set of several options or none.

    If a mechanism needs the same number of options from every user, the sets are filled up with ``items`` additional
    dummy options; estimates stay unbiased.

    Args:
        options: Public list of options, as for ``Frequency``.
        items: Largest number of options that a user holds.

    Raises:
        ValueError: If ``items`` is larger than the number of options, or the options are invalid.
        TypeError: If an argument is of the wrong type.

    >>> ItemSets(["tea", "coffee", "milk"], items=2).mechanism_settings
    {'options': 3, 'items': 2}
    """

    items: int

    name = "set-valued"
    mechanism_tasks = ("set-valued",)
    data_description = "users' options spread evenly over all options"
    takes_lists = True
    post = (NON_NEGATIVE, CONSISTENT)
    parameters = ("items",)
    accepted_options: ClassVar[tuple[str, ...]] = ("domain", "categories", "items")

    def __init__(self, options: Values | Sequence[str] | float, items: float) -> None:
        super().__init__(options)
        object.__setattr__(self, "items", validation.count(TASK_PREFIX, "items", items))
        if self.items > self.count:
            raise ValueError(f"{TASK_PREFIX}: items must be at most the {self.count} options, got {self.items}.")

    @property
    def mechanism_settings(self) -> Mapping[str, Any]:
        return {"options": self.count, "items": self.items}

    def mechanism_settings_for(self, kind: type[Mechanism] | Mechanism) -> Mapping[str, Any]:
        dummies = self.items if requires_padding(kind) else 0
        return {"options": self.count + dummies, "items": self.items}

    def representative_values(self, mechanism: Mechanism) -> Array:
        return np.add.outer(np.arange(self.count), np.arange(self.items)) % self.count

    def estimator_variance(self, mechanism: Mechanism, values: Array, variance: Floats | None = None) -> Floats:
        return super().estimator_variance(mechanism, values, variance)[: self.count]

    def compute_errors_and_margins(
        self, mechanism: Mechanism, estimate: Estimate, held: Floats, confidence: float
    ) -> tuple[Floats, Floats]:
        estimate = drop_dummies(estimate, self.count)
        return super().compute_errors_and_margins(mechanism, estimate, held[: self.count], confidence)

    def sensitivity(self, users: int) -> Sensitivity:
        changed = float(min(2 * self.items, self.count))
        return Sensitivity(changed, math.sqrt(changed))

    def central_factor(self) -> float:
        # Sets may be of any size, so the total of all counts is not known.
        return 1.0

    def read_values(self, column: ColumnReader, array: pa.Array) -> Any:
        sizes, entries = column.read_sets(array, self.domain.names, self.items)
        rows = np.full((len(sizes), self.items), NO_ITEM, dtype=np.int64)
        rows[np.arange(self.items) < sizes[:, None]] = entries
        return fill_with_dummies(column, rows, self.count, self.items)

    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        labels = option_labels(self.domain, self.count)
        return [count_quantity(labels, drop_dummies(estimate, self.count), confidence)]

    @classmethod
    def from_options(cls, given: TaskOptions) -> Task:
        return cls(given.build_option_domain(), given.require_count("items"))
