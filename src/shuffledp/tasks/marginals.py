"""Marginals: the number of users with each value of a column, and with each pair of values of two columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from shuffledp._core import validation
from shuffledp._core.errors import InvalidArgument
from shuffledp._core.message_phrases import phrase
from shuffledp._core.validation import Floats
from shuffledp.mechanisms.base.estimator import ErrorLaw, Estimate, KnownCovarianceEstimator
from shuffledp.mechanisms.base.mechanism import Mechanism, MultiQueryCapability, find_range_estimator, supports_ranges
from shuffledp.tasks.base import CONSISTENT, Quantity, Shape, Task, post_process_quantity
from shuffledp.tasks.column_reader import ColumnReader
from shuffledp.tasks.counts_and_frequencies import Frequency
from shuffledp.tasks.domain import PLAN_PREFIX, TASK_PREFIX, TaskOptions, Values, build_option_domain, parse_domain
from shuffledp.tasks.survey import Question, Survey

if TYPE_CHECKING:
    import pyarrow as pa


# --- Consistent two-way tables by weighted least squares ---
#
# Post-processing: it costs no privacy, and it stays unbiased for any data.


@dataclass(frozen=True)
class TwoWayTable:
    """The estimate of one two-way table: the number of users with each pair of values of two columns."""

    columns: tuple[int, int]
    sizes: tuple[int, int]
    estimate: Estimate
    estimator: KnownCovarianceEstimator
    """The estimator, which knows the covariances of the table's cells."""

    @cached_property
    def cells(self) -> Floats:
        return self.estimate.value.reshape(self.sizes)

    @cached_property
    def _effects(self) -> tuple[Floats, Floats]:
        """The effects as weights of the cells: the sum of each row and of each column, less the mean of these sums."""
        first, second = self.sizes
        rows = np.kron(np.eye(first), np.ones(second))
        columns = np.kron(np.ones(first), np.eye(second))
        return rows - rows.mean(axis=0), columns - columns.mean(axis=0)

    def effect(self, side: int) -> Floats:
        """Returns, for each value of one of the two columns, the excess of its users over the mean."""
        return np.asarray(self._effects[side] @ self.estimate.value)

    def effect_variance(self, side: int) -> Floats:
        return self._weighted_variance(self._effects[side])

    def cell_variance(self, kept: tuple[float, float]) -> tuple[Floats, float]:
        """Returns the variance of each cell if its effects have these weights from this table.

        Also returns the effective number of equal errors in each cell, which determines its tails.
        """
        first, second = self.sizes
        rows, columns = self._effects
        inside = np.eye(first * second) - 1 / (first * second)
        inside -= (1 - kept[0]) / second * np.repeat(rows, second, axis=0)
        inside -= (1 - kept[1]) / first * np.tile(columns, (first, 1))
        squares = inside[0] ** 2
        return self._weighted_variance(inside), float(squares.sum() ** 2 / (squares**2).sum())

    def _weighted_variance(self, weights: Floats) -> Floats:
        users = self.estimate.users
        return self.estimator.combined_variance(weights, np.clip(self.estimate.value, 0.0, users), users)


@dataclass(frozen=True)
class ConsistentTables:
    """All two-way tables of a few columns, each with noise of its own, adjusted until their sums agree.

    Theorem: if the errors of a table's cells are independent and of equal variance, its grand total, row sums, column
        sums and the rest are orthogonal. Least squares leaves the rest unchanged, takes the known total, and replaces
        each column's sums by the mean over all tables that have it, weighted by their precision. With other errors it
        is still unbiased, and the variances are exact.
    """

    tables: Sequence[TwoWayTable]

    @property
    def users(self) -> int:
        return self.tables[0].estimate.users

    def _tables_with(self, column: int) -> list[tuple[TwoWayTable, int]]:
        """Returns the tables with a column, and the side on which each has it."""
        return [(table, table.columns.index(column)) for table in self.tables if column in table.columns]

    def _precision_weights(self, column: int) -> list[float]:
        """Returns the weight of each of these tables."""
        precision = [1 / float(np.mean(table.effect_variance(side))) for table, side in self._tables_with(column)]
        return [one / sum(precision) for one in precision]

    @cached_property
    def _effects(self) -> dict[int, tuple[Floats, Floats]]:
        """The effect of each value of each column, from all tables, and its variance."""
        effects = {}
        for column in sorted({column for table in self.tables for column in table.columns}):
            parts = list(zip(self._tables_with(column), self._precision_weights(column), strict=True))
            value = sum(share * table.effect(side) for (table, side), share in parts)
            variance = sum(share**2 * table.effect_variance(side) for (table, side), share in parts)
            effects[column] = np.asarray(value), np.asarray(variance)
        return effects

    def one_way(self, column: int) -> Estimate:
        """Returns the number of users with each value of a column."""
        value, variance = self._effects[column]
        return Estimate(self.users / len(value) + value, variance, self.users)

    def two_way(self, table: TwoWayTable) -> Estimate:
        """Returns the cells of a table, with sums that agree with ``one_way``."""
        (first, second), value = table.sizes, table.cells
        own = [table.effect(side) for side in (0, 1)]
        effects = [self._effects[column] for column in table.columns]
        value = value + ((effects[0][0] - own[0]) / second)[:, None] + ((effects[1][0] - own[1]) / first)[None, :]
        value += (self.users - table.estimate.value.sum()) / value.size
        kept = self._precision_weight(table, 0), self._precision_weight(table, 1)
        variance, parts = table.cell_variance(kept)
        spread = variance.reshape(table.sizes)
        for side, size in ((0, second), (1, first)):
            # The contribution of the other tables is independent of this one.
            others = effects[side][1] - kept[side] ** 2 * table.effect_variance(side)
            spread = spread + np.expand_dims(np.maximum(others, 0.0), 1 - side) / size**2
        tails: ErrorLaw = table.estimate.error_law.sum_law(parts)
        return Estimate(value.reshape(-1), spread.reshape(-1), self.users, tails)

    def _precision_weight(self, table: TwoWayTable, side: int) -> float:
        """Returns the weight of this table in the effect of one of its columns."""
        column = table.columns[side]
        pairs = zip(self._tables_with(column), self._precision_weights(column), strict=True)
        return next(share for (one, _), share in pairs if one is table)


# --- Nearest possible two-way tables ---
#
# [Dykstra 1983]: alternating projections with corrections find the nearest point of an intersection of convex sets,
# here of the tables without negative cells and of those whose sums agree.


MAX_PROJECTIONS, PROJECTION_TOLERANCE = 5000, 1e-9
"""Largest number of projections, and the largest move of a cell, relative to the users, at which they stop."""

ColumnPairs = Sequence[tuple[int, int]]


def project_to_consistent_tables(tables: Sequence[Floats], places: ColumnPairs, users: float) -> list[Floats]:
    """Returns the nearest nonnegative tables whose sums agree, by squares over all cells.

    ``places`` gives the two columns of each table.
    """
    projected, corrections = list(tables), [np.zeros_like(table) for table in tables]
    for _ in range(MAX_PROJECTIONS):
        agreeing = _make_consistent(projected, places, users)
        corrected = [table + rest for table, rest in zip(agreeing, corrections, strict=True)]
        projected = [np.maximum(table, 0.0) for table in corrected]
        corrections = [table - up for table, up in zip(corrected, projected, strict=True)]
        move = max(float(np.abs(up - table).max()) for up, table in zip(projected, agreeing, strict=True))
        if move <= PROJECTION_TOLERANCE * users:
            break
    return projected


def one_way_counts(tables: Sequence[Floats], places: ColumnPairs, columns: int) -> list[Floats]:
    """Returns the number of users with each value of every column, averaged over the tables that have it."""
    return [np.mean(_column_sums(tables, places, column), axis=0) for column in range(columns)]


def _column_sums(tables: Sequence[Floats], places: ColumnPairs, column: int) -> list[Floats]:
    """Returns the sums over a column's values of each table that has it."""
    pairs = zip(tables, places, strict=True)
    return [table.sum(axis=1 - two.index(column)) for table, two in pairs if column in two]


def _make_consistent(tables: Sequence[Floats], places: ColumnPairs, users: float) -> list[Floats]:
    """Returns the nearest tables whose sums agree and add up to the users; cells may be negative.

    A table's total, its row sums less their mean, its column sums likewise, and the rest are orthogonal: the sums of a
    column become a weighted mean over the tables, with larger weights if a sum runs over fewer cells.
    """
    result = [table + (users - table.sum()) / table.size for table in tables]
    for column in sorted({one for two in places for one in two}):
        sharing = [(table, two.index(column)) for table, two in enumerate(places) if column in two]
        sums = [result[table].sum(axis=1 - side) for table, side in sharing]
        weights = [1 / result[table].shape[1 - side] for table, side in sharing]
        agreed = np.average(sums, axis=0, weights=weights)
        for (table, side), own in zip(sharing, sums, strict=True):
            shift = (agreed - own) / result[table].shape[1 - side]
            result[table] = result[table] + np.expand_dims(shift, 1 - side)
    return result


PAIR_SEPARATOR = " × "
MAX_CELLS = 1 << 14
"""Largest number of cells of a two-way table: larger ones would need too much memory to be made consistent."""


@dataclass(frozen=True)
class PairDomain(Values):
    """Every value of one column with every value of another; the second varies fastest."""

    first: Values
    second: Values
    kind = "options"

    def to_document(self) -> dict[str, Any]:
        return {"pairs": [self.first.to_document(), self.second.to_document()]}

    @property
    def sizes(self) -> tuple[int, int]:
        """The number of values of each column."""
        return self.first.size or 0, self.second.size or 0

    @property
    def size(self) -> int | None:
        return math.prod(self.sizes)

    def label(self, option: int) -> str:
        first, second = divmod(option, self.sizes[1])
        return f"{self.first.label(first)}{PAIR_SEPARATOR}{self.second.label(second)}"


@dataclass(frozen=True, init=False)
class _PairFrequency(Frequency):
    """The number of users with each pair of values of two columns."""

    name = "two-way marginal"
    supports_subsampling: ClassVar[bool] = False
    # The covariances of the tables, which are made consistent later, are not known under subsampling.

    def __init__(self, first: Values, second: Values) -> None:
        super().__init__(PairDomain(first, second))

    def public_shape(self, users: int) -> Shape:
        return replace(super().public_shape(users), sizes=self.pairs.sizes, ordered=False)

    @property
    def pairs(self) -> PairDomain:
        assert isinstance(self.options, PairDomain)
        return self.options

    @classmethod
    def can_use(cls, kind: type[Mechanism] | Mechanism) -> bool:
        # Frequency oracles whose counts can be added up.
        return kind.task in cls.mechanism_tasks and supports_ranges(kind)

    def resolve_columns(self, named: tuple[str, ...]) -> tuple[str, ...]:
        if len(named) != 2:
            raise ValueError(f"input: the task {self.name!r} reads two columns, got {len(named)}.")
        return named

    def read_values(self, column: ColumnReader, array: pa.Array) -> Any:
        pairs = zip(column.names, (self.pairs.first, self.pairs.second), array.flatten(), strict=True)
        first, second = (
            replace(column, names=(name,), task=Frequency(values)).read_option_numbers(own, values.names)
            for name, values, own in pairs
        )
        return np.asarray(first, dtype=np.int64) * self.pairs.sizes[1] + second


# --- The task ---


@dataclass(frozen=True, init=False)
class Marginals(Survey):
    """The number of users with each value of several columns and, with ``ways`` 2, with each pair of values.

    With two ways every pair of columns is a question; then all tables are made consistent by weighted least squares,
    which costs no privacy, and those of single columns follow from them.

    Args:
        columns: Columns by name, each with its public list of values as texts, or their number.
        ways: 1 for single columns, 2 for pairs of columns too.

    Raises:
        ValueError: If a column is given twice, there are fewer columns than ``ways``, a pair has more than 2¹⁴ cells,
            or a domain is invalid.
        TypeError: If an argument is of the wrong type.

    >>> task = Marginals({"sex": ["f", "m"], "age": 5, "city": ["Rome", "Oslo", "Bern"]}, ways=2)
    >>> task.names
    ('sex × age', 'sex × city', 'age × city')
    """

    domains: tuple[tuple[str, Values], ...]
    ways: int

    name = "marginals"
    data_description = "users spread evenly over the values"
    accepted_options: ClassVar[tuple[str, ...]] = ("questions", "ways")

    def __init__(
        self,
        columns: Mapping[str, Values | Sequence[str] | float] | Iterable[tuple[str, Values | Sequence[str] | float]],
        ways: float = 1,
    ) -> None:
        listed = columns.items() if isinstance(columns, Mapping) else columns
        named = tuple((name, Frequency(build_option_domain(values)).options) for name, values in listed)
        object.__setattr__(self, "domains", named)
        object.__setattr__(self, "ways", validation.count(TASK_PREFIX, "ways", ways, at_most=2))
        names = [name for name, _ in named]
        if len(set(names)) != len(names):
            raise ValueError(f"{TASK_PREFIX}: expected each column once, got one twice.")
        if len(named) < self.ways:
            raise ValueError(f"{TASK_PREFIX}: ways = {self.ways} needs at least as many columns, got {len(named)}.")
        super().__init__(self._build_questions())

    def _build_questions(self) -> list[Question]:
        if self.ways == 1:
            return [Question(name, Frequency(values)) for name, values in self.domains]
        pairs = list(combinations(self.domains, 2))
        for (first, one), (second, other) in pairs:
            cells = PairDomain(one, other).size or 0
            if cells > MAX_CELLS:
                raise ValueError(
                    f"{TASK_PREFIX}: expected at most {MAX_CELLS:,} cells, got {cells:,} of {first!r} and {second!r}."
                )
        return [Question((first, second), _PairFrequency(one, other)) for (first, one), (second, other) in pairs]

    # --- Input and report ---

    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        if self.ways == 1:
            return super().quantities(mechanism, estimate, confidence)
        tables = self.tables(mechanism, estimate)
        columns = (
            (name, Frequency(values), tables.one_way(place)) for place, (name, values) in enumerate(self.domains)
        )
        pairs = zip(self.names, (one.task for one in self.asked), map(tables.two_way, tables.tables), strict=True)
        return [
            replace(quantity, question=name)
            for name, task, counts in (*columns, *pairs)
            for quantity in task.quantities(mechanism, counts, confidence)
        ]

    def post_process(
        self, mechanism: Mechanism, estimate: Estimate, quantities: Sequence[Quantity], way: str
    ) -> list[Any]:
        # All two-way tables are adjusted together, so that they stay consistent.
        if self.ways == 1:
            return super().post_process(mechanism, estimate, quantities, way)
        if way != CONSISTENT:
            return [post_process_quantity(quantity, way) for quantity in quantities]
        cut = len(self.domains)
        places = list(combinations(range(cut), 2))
        tables = [quantity.value.reshape(quantity.shape.sizes) for quantity in quantities[cut:]]
        tables = project_to_consistent_tables(tables, places, float(estimate.users))
        return [*one_way_counts(tables, places, cut), *(table.reshape(-1) for table in tables)]

    def tables(self, mechanism: Mechanism, estimate: Estimate) -> ConsistentTables:
        """Collects the two-way tables of an estimate, to be made consistent.

        Args:
            mechanism: Mechanism that answered the questions.
            estimate: Estimate of the mechanism.

        Returns:
            The tables.

        Raises:
            ValueError: If the counts of a mechanism cannot be added up.
        """
        assert isinstance(mechanism, MultiQueryCapability), "a mechanism for several queries"
        places = combinations(range(len(self.domains)), 2)
        rows = zip(places, self.asked, mechanism.mechanisms, mechanism.queries(estimate), strict=True)
        tables = []
        for columns, question, part, counts in rows:
            ranges, domain = find_range_estimator(part), question.task.domain
            if ranges is None or not isinstance(domain, PairDomain):
                raise ValueError(f"{PLAN_PREFIX}: counts of {part.name} with these settings cannot be added up.")
            tables.append(TwoWayTable(columns, domain.sizes, counts, ranges.estimator))
        return ConsistentTables(tables)

    # --- Serialisation ---

    def to_document(self) -> dict[str, Any]:
        columns = [{"column": name, "domain": values.to_document()} for name, values in self.domains]
        return {"name": self.name, "columns": columns, "ways": self.ways}

    @classmethod
    def document_fields(cls) -> tuple[str, ...]:
        return ("columns", "ways")

    @classmethod
    def from_document(cls, document: Mapping[str, Any], read: Callable[[Mapping[str, Any]], Task]) -> Task:
        del read
        listed = document["columns"]
        if not isinstance(listed, list) or not all(
            isinstance(one, Mapping) and one.keys() == {"column", "domain"} and isinstance(one["column"], str)
            for one in listed
        ):
            raise ValueError(
                f"{PLAN_PREFIX}: columns must be a list of objects with column and domain, got something else."
            )
        return cls([(one["column"], parse_domain(one["domain"])) for one in listed], document["ways"])

    @classmethod
    def from_options(cls, given: TaskOptions) -> Task:
        if not given.questions:
            raise InvalidArgument(PLAN_PREFIX, phrase("this task needs {question} or {questions}, one for each column"))
        for one in given.questions:
            if type(one.task) is not Frequency or one.mechanism is not None or one.weight != 1.0:
                raise ValueError(
                    f"{PLAN_PREFIX}: marginals are frequencies of columns, without weights or mechanisms, got the "
                    f"question {one.title!r}."
                )
        return cls([(one.title, one.task.domain) for one in given.questions], given.ways or 1)
