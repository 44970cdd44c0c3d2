"""Marginals: how many users hold each value of several columns, and of every two of them together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from shuffledp import argument
from shuffledp.mechanisms.ability import AnswersQueries, answers_ranges, range_answers
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.tasks.adjustment import CONSISTENT, nearest
from shuffledp.tasks.column import Column
from shuffledp.tasks.consistent_tables import ConsistentTables, Crossed
from shuffledp.tasks.domain import TASK, WHO, Values, options_of, parse
from shuffledp.tasks.frequency import Frequency
from shuffledp.tasks.given import Given
from shuffledp.tasks.nearest_tables import nearest_tables, one_way_of
from shuffledp.tasks.quantity import Quantity
from shuffledp.tasks.shape import Shape
from shuffledp.tasks.survey import Question, Survey
from shuffledp.tasks.task import Task, every_label

if TYPE_CHECKING:
    import pyarrow as pa

BETWEEN = " × "
MOST_CELLS = 1 << 14
"""Of a table of two columns: more could not be made consistent in reasonable memory."""


@dataclass(frozen=True)
class EveryPair(Values):
    """Every value of one column with every value of another, the second one running fastest."""

    first: Values
    second: Values
    kind = "options"

    def document(self) -> dict[str, Any]:
        return {"pairs": [self.first.document(), self.second.document()]}

    @property
    def sizes(self) -> tuple[int, int]:
        """How many values each of the two columns has."""
        return self.first.size or 0, self.second.size or 0

    @property
    def size(self) -> int | None:
        return math.prod(self.sizes)

    def label(self, option: int) -> str:
        first, second = divmod(option, self.sizes[1])
        return f"{self.first.label(first)}{BETWEEN}{self.second.label(second)}"


@dataclass(frozen=True, init=False)
class _Together(Frequency):
    """How many users hold each value of one column with each of another."""

    name = "two-way marginal"
    sampled: ClassVar[bool] = False
    # Of tables that are made consistent afterwards, of which the covariances under a draw are not known.

    def __init__(self, first: Values, second: Values) -> None:
        super().__init__(EveryPair(first, second))

    def known(self, users: int) -> Shape:
        return replace(super().known(users), sizes=self.pairs.sizes, ordered=False)

    @property
    def pairs(self) -> EveryPair:
        assert isinstance(self.options, EveryPair), "it is made of one"
        return self.options

    @classmethod
    def can_use(cls, kind: type[Mechanism] | Mechanism) -> bool:
        """Frequency oracles whose counts can be added up."""
        return kind.task in cls.kinds and answers_ranges(kind)

    def columns_read(self, named: tuple[str, ...]) -> tuple[str, ...]:
        if len(named) != 2:
            raise ValueError(f"input: the task {self.name!r} reads two columns, got {len(named)}.")
        return named

    def values(self, column: Column, array: pa.Array) -> Any:
        pairs = zip(column.names, (self.pairs.first, self.pairs.second), array.flatten(), strict=True)
        first, second = (
            replace(column, names=(name,), task=Frequency(values)).option_numbers(own, values.names)
            for name, values, own in pairs
        )
        return np.asarray(first, dtype=np.int64) * self.pairs.sizes[1] + second


@dataclass(frozen=True, init=False)
class Marginals(Survey):
    """How many users hold each value of several columns, and with ``ways`` 2 of every two of these together.

    ``columns`` are the columns by name, each with its public list of values as texts, or how many there are. With two
    ways every pair of columns is a question; then all tables are made consistent with each other by weighted least
    squares, which costs no privacy, and those of single columns follow from them.

    >>> task = Marginals({"sex": ["f", "m"], "age": 5, "city": ["Rome", "Oslo", "Bern"]}, ways=2)
    >>> task.names
    ('sex × age', 'sex × city', 'age × city')
    """

    domains: tuple[tuple[str, Values], ...]
    ways: int

    name = "marginals"
    data = "users spread evenly over the values"
    taken: ClassVar[tuple[str, ...]] = ("questions", "ways")

    def __init__(
        self,
        columns: Mapping[str, Values | Sequence[str] | float] | Iterable[tuple[str, Values | Sequence[str] | float]],
        ways: float = 1,
    ) -> None:
        listed = columns.items() if isinstance(columns, Mapping) else columns
        named = tuple((name, Frequency(options_of(values)).options) for name, values in listed)
        object.__setattr__(self, "domains", named)
        object.__setattr__(self, "ways", argument.count(TASK, "ways", ways, at_most=2))
        names = [name for name, _ in named]
        if len(set(names)) != len(names):
            raise ValueError(f"{TASK}: expected each column once, got one twice.")
        if len(named) < self.ways:
            raise ValueError(f"{TASK}: marginals of {self.ways} columns need as many, got {len(named)}.")
        super().__init__(self._asked())

    def _asked(self) -> list[Question]:
        if self.ways == 1:
            return [Question(name, Frequency(values)) for name, values in self.domains]
        pairs = list(combinations(self.domains, 2))
        for (first, one), (second, other) in pairs:
            cells = EveryPair(one, other).size or 0
            if cells > MOST_CELLS:
                raise ValueError(f"{TASK}: {first!r} and {second!r} have {cells:,} cells; at most {MOST_CELLS:,}.")
        return [Question((first, second), _Together(one, other)) for (first, one), (second, other) in pairs]

    # --- from a table to a report -----------------------------------------------------------------------------

    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        if self.ways == 1:
            return super().quantities(mechanism, estimate, confidence)
        tables = self.tables(mechanism, estimate)
        one_way = [
            replace(
                Quantity.of(
                    "users",
                    every_label(values, values.size or 0),
                    tables.one_way(place),
                    confidence,
                    Frequency(values).known(estimate.users),
                ),
                question=name,
            )
            for place, (name, values) in enumerate(self.domains)
        ]
        two_way = [
            replace(
                Quantity.of(
                    "users",
                    every_label(question.task.domain, len(own.value)),
                    own,
                    confidence,
                    _known(question.task, estimate.users),
                ),
                question=name,
            )
            for question, name, own in zip(self.asked, self.names, map(tables.two_way, tables.tables), strict=True)
        ]
        return one_way + two_way

    def adjusted(self, mechanism: Mechanism, estimate: Estimate, quantities: Sequence[Quantity], way: str) -> list[Any]:
        """Tables of two columns all together, so that they stay consistent with each other."""
        if self.ways == 1:
            return super().adjusted(mechanism, estimate, quantities, way)
        if way != CONSISTENT:
            return [nearest(quantity, way) for quantity in quantities]
        cut = len(self.domains)
        places = list(combinations(range(cut), 2))
        tables = [quantity.value.reshape(quantity.shape.sizes) for quantity in quantities[cut:]]
        found = nearest_tables(tables, places, float(estimate.users))
        return [*one_way_of(found, places, cut), *(table.reshape(-1) for table in found)]

    def tables(self, mechanism: Mechanism, estimate: Estimate) -> ConsistentTables:
        """All tables, to be made consistent."""
        assert isinstance(mechanism, AnswersQueries), "a mechanism for several queries"
        places = combinations(range(len(self.domains)), 2)
        rows = zip(places, self.asked, mechanism.mechanisms, mechanism.queries(estimate), strict=True)
        found = []
        for columns, question, part, own in rows:
            answers, domain = range_answers(part), question.task.domain
            if answers is None or not isinstance(domain, EveryPair):
                raise ValueError(f"{WHO}: counts of {part.name} with these settings cannot be added up.")
            found.append(Crossed(columns, domain.sizes, own, answers.reading))
        return ConsistentTables(found)

    # --- written down -----------------------------------------------------------------------------------------

    def document(self) -> dict[str, Any]:
        columns = [{"column": name, "domain": values.document()} for name, values in self.domains]
        return {"name": self.name, "columns": columns, "ways": self.ways}

    @classmethod
    def fields(cls) -> tuple[str, ...]:
        return ("columns", "ways")

    @classmethod
    def of_document(cls, told: Mapping[str, Any], read: Callable[[Mapping[str, Any]], Task]) -> Task:
        del read
        listed = told["columns"]
        good = isinstance(listed, list) and all(
            isinstance(one, Mapping) and one.keys() == {"column", "domain"} and isinstance(one["column"], str)
            for one in listed
        )
        if not good:
            raise ValueError(f"{WHO}: columns must be a list, each with its column and domain, got something else.")
        return cls([(one["column"], parse(one["domain"])) for one in listed], told["ways"])

    @classmethod
    def from_options(cls, given: Given) -> Task:
        if not given.questions:
            raise ValueError(f"{WHO}: this task needs --question or --questions, one for each column.")
        for one in given.questions:
            if type(one.task) is not Frequency or one.mechanism is not None or one.weight != 1.0:
                raise ValueError(
                    f"{WHO}: marginals are frequencies of columns, without weights or mechanisms of their own, got "
                    f"the question {one.title!r}."
                )
        return cls([(one.title, one.task.domain) for one in given.questions], given.ways or 1)


def _known(task: Task, users: int) -> Shape:
    assert isinstance(task, _Together), "that is what two columns are asked as"
    return task.known(users)
