"""A survey: several questions to the same users, each about columns of its own, with one promise for all."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from shuffledp import argument
from shuffledp.array import Array, Floats
from shuffledp.mechanisms.ability import AnswersQueries
from shuffledp.mechanisms.combined.parallel import MOST_QUERIES
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.tasks.column import Column
from shuffledp.tasks.domain import TASK, WHO, Values
from shuffledp.tasks.given import Given
from shuffledp.tasks.quantity import Quantity
from shuffledp.tasks.rehearsal import Searching
from shuffledp.tasks.task import Sensitivity, Task

if TYPE_CHECKING:
    import pyarrow as pa

MOST_ROWS = 1 << 14
"""Users who stand for all."""


@dataclass(frozen=True, init=False)
class Question:
    """One question of a survey: which columns it is about, what is estimated, and how much it counts.

    ``columns`` is the name of the column with the answers, or several where the ``task`` reads several. ``weight`` is
    relative to the other questions': how much its error counts and, where users answer one question each, how probably
    it is this one. ``mechanism`` is the only one to plan with, where it is given by name.

    >>> import shuffledp as sdp
    >>> Question("city", sdp.tasks.Frequency(["Rome", "Oslo"]), weight=2).columns
    ('city',)
    """

    columns: tuple[str, ...]
    task: Task
    weight: float
    mechanism: str | None

    def __init__(
        self, columns: str | Sequence[str], task: Task, weight: float = 1.0, mechanism: str | None = None
    ) -> None:
        names = (columns,) if isinstance(columns, str) else tuple(columns)
        if not names or not all(isinstance(name, str) and name for name in names):
            raise TypeError(f"{TASK}: a question needs the name of its column, got {columns!r}.")
        if not isinstance(task, Task):
            raise TypeError(f"{TASK}: a question needs a task, such as tasks.Frequency(10), got {task!r}.")
        if task.questions:
            raise ValueError(f"{TASK}: a question is one task, got the task {task.name!r}, which is several.")
        if isinstance(task, Searching):
            raise ValueError(f"{TASK}: a question is answered at once, got the task {task.name!r}, which is a search.")
        if mechanism is not None and not isinstance(mechanism, str):
            raise TypeError(f"{TASK}: a question's mechanism must be a name, got {mechanism!r}.")
        object.__setattr__(self, "columns", task.columns_read(names))
        object.__setattr__(self, "task", task)
        object.__setattr__(self, "weight", argument.positive_finite(TASK, "weight", weight))
        object.__setattr__(self, "mechanism", mechanism)

    @property
    def title(self) -> str:
        """What it is called where no other is about the same columns."""
        return " × ".join(self.columns)

    def document(self) -> dict[str, Any]:
        """For JSON."""
        column = self.columns[0] if len(self.columns) == 1 else list(self.columns)
        only = {} if self.mechanism is None else {"mechanism": self.mechanism}
        return {"column": column, "weight": self.weight, "task": self.task.document(), **only}

    @classmethod
    def read(cls, told: Any, read: Callable[[Mapping[str, Any]], Task]) -> Question:
        """The inverse of ``document``."""
        if not isinstance(told, Mapping) or not {"column", "task"} <= told.keys() <= {*_FIELDS}:
            raise ValueError(f"{WHO}: a question has {', '.join(_FIELDS)}, got something else.")
        if not isinstance(told["task"], Mapping) or not isinstance(told["column"], str | list):
            raise ValueError(f"{WHO}: a question needs a column and a task, got something else.")
        return cls(told["column"], read(told["task"]), told.get("weight", 1.0), told.get("mechanism"))


_FIELDS = ("column", "weight", "task", "mechanism")


@dataclass(frozen=True)
class EachColumn(Values):
    """What users may hold in the columns of each question."""

    parts: tuple[tuple[str, Values], ...]
    kind = "several questions"

    def document(self) -> dict[str, Any]:
        return {name: values.document() for name, values in self.parts}


@dataclass(frozen=True, init=False)
class Survey(Task):
    """Several questions to the same users, each about columns of its own.

    ``asked`` are ``Question`` objects, or tuples of what makes one: (column, task) or (column, task, weight).
    Everybody answers every question, or each user one, drawn with a probability in proportion to the weights; a plan
    says which. The error is counted in users: how many users, if each changes her answer from one end to the other,
    move an estimate so far; over the questions it is the root of the weighted mean of squares.

    >>> import shuffledp as sdp
    >>> survey = Survey([("city", sdp.tasks.Frequency(["Rome", "Oslo"]), 2), ("age", sdp.tasks.Mean(0, 120))])
    >>> survey.names, [str(share) for share in survey.shares]
    (('city', 'age'), ['2/3', '1/3'])
    """

    asked: tuple[Question, ...]

    name = "survey"
    kinds = ("several queries",)
    data = "each question's users as stated for it alone"
    unit = "users"
    taken: ClassVar[tuple[str, ...]] = ("questions",)

    def __init__(self, asked: Iterable[Question | tuple[Any, ...]]) -> None:
        if isinstance(asked, str) or not isinstance(asked, Iterable):
            raise TypeError(f"{TASK}: a survey needs a list of questions, got {asked!r}.")
        object.__setattr__(self, "asked", tuple(map(_question, asked)))
        ways = dict.fromkeys(way for question in self.asked for way in question.task.post)
        object.__setattr__(self, "post", tuple(ways))
        argument.count(TASK, "the number of questions", len(self.asked), at_most=MOST_QUERIES)
        twice = next((name for name in self.names if self.names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"{TASK}: expected each question once, got {twice!r} twice.")

    # --- what it is about -------------------------------------------------------------------------------------

    @property
    def questions(self) -> tuple[Question, ...]:
        return self.asked

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What the report calls the questions: by their columns, and by the task where others are about the same."""
        titles = [question.title for question in self.asked]
        return tuple(
            one.title if titles.count(one.title) == 1 else f"{one.title} ({one.task.name})" for one in self.asked
        )

    @cached_property
    def shares(self) -> tuple[Fraction, ...]:
        """The weights as parts of a whole, exactly as they are written."""
        exact = [Fraction(str(question.weight)) for question in self.asked]
        return tuple(weight / sum(exact) for weight in exact)

    @property
    def domain(self) -> Values:
        return EachColumn(tuple(zip(self.names, (one.task.domain for one in self.asked), strict=True)))

    @property
    def facts(self) -> Mapping[str, Any]:
        return {}

    def demand(self, mechanism: Mechanism) -> None:
        if not isinstance(mechanism, AnswersQueries) or len(mechanism.mechanisms) != len(self.asked):
            what = f"a mechanism for {len(self.asked)} queries, such as all-answered"
            raise ValueError(f"{WHO}: the task is {self.name!r}, which needs {what}, got {mechanism.name}.")
        for question, name, part, share in self._parts(mechanism):
            question.task.demand(part)
            if share < 1 and not question.task.sampled:
                raise ValueError(
                    f"{WHO}: the errors of {question.task.name!r} are not known where only some users answer "
                    f"{name!r}; let everybody answer every question."
                )

    def _parts(self, mechanism: Mechanism) -> list[tuple[Question, str, Mechanism, Fraction]]:
        """Each question with its name, its mechanism and how probably a user answers it."""
        assert isinstance(mechanism, AnswersQueries), "a mechanism for several queries"
        return list(zip(self.asked, self.names, mechanism.mechanisms, mechanism.shares, strict=True))

    # --- its error --------------------------------------------------------------------------------------------

    def sample(self, mechanism: Mechanism) -> Array:
        own = [part.check(question.task.sample(part)) for question, _, part, _ in self._parts(mechanism)]
        rows = min(MOST_ROWS, max(map(len, own)))
        place = np.arange(rows)
        return mechanism.check([one[place % len(one) if len(one) <= rows else place * len(one) // rows] for one in own])

    def errors(self, mechanism: Mechanism, users: int) -> tuple[float, ...]:
        """The standard error of each question, in its own unit."""
        assert isinstance(mechanism, AnswersQueries), "a mechanism for several queries"
        found = []
        for number, (question, _, part, share) in enumerate(self._parts(mechanism)):
            spread = None if share == 1 else _QueryVariance(mechanism, number)
            found.append(question.task.standard_error(part, users, spread))
        return tuple(found)

    def standard_error(
        self, mechanism: Mechanism, users: int, variance: Callable[[Array], Floats] | None = None
    ) -> float:
        del variance
        counted = zip(self._factors(users), self.errors(mechanism, users), strict=True)
        return math.sqrt(math.fsum((factor * error) ** 2 for factor, error in counted))

    def _factors(self, users: int) -> list[float]:
        """What the error of each question counts: in users, times the root of its share of the weights."""
        return [math.sqrt(share) / one.task.one_user(users) for share, one in zip(self.shares, self.asked, strict=True)]

    def apart(self, mechanism: Mechanism, users: int) -> Sequence[tuple[Task, Mechanism, float]]:
        parts = self._parts(mechanism)
        if any(share < 1 for *_, share in parts):
            return super().apart(mechanism, users)
        factors = zip(parts, self._factors(users), strict=True)
        return [(question.task, part, factor) for (question, _, part, _), factor in factors]

    def compare(
        self, mechanism: Mechanism, estimate: Estimate, held: Floats, confidence: float
    ) -> tuple[Floats, Floats]:
        """Each question by itself, where ``held`` is the truth of all numbers; errors count so that all are alike."""
        assert isinstance(mechanism, AnswersQueries), "a mechanism for several queries"
        found, start = [], 0
        rows = zip(self._parts(mechanism), mechanism.queries(estimate), self._factors(estimate.users), strict=True)
        for (question, _, part, _), own, factor in rows:
            truth = held[start : start + own.value.size].reshape(own.value.shape)
            start += own.value.size
            errors, margins = question.task.compare(part, own, truth, confidence)
            found.append((factor * errors.reshape(-1), factor * margins.reshape(-1)))
        return joined(found)

    def sensitivity(self, users: int) -> Sensitivity:
        """Of a curator who adds noise to every answer, divided so that the error of all of them is the least.

        With Laplace noise question k gets ε_k of Σε_k = ε and has the error a_k/ε_k, with Gaussian noise μ_k² of μ².
        """
        sums, roots = [], []
        for share, question in zip(map(float, self.shares), self.asked, strict=True):
            known = [(one.sum * factor, one.root * factor) for one, factor in question.task.curators(users)]
            unit = question.task.one_user(users)
            sums.append((share * (min(one for one, _ in known) / unit) ** 2) ** (1 / 3))
            roots.append(math.sqrt(share) * min(one for _, one in known) / unit)
        return Sensitivity(math.fsum(sums) ** 1.5, math.fsum(roots))

    # --- from a table to a report -----------------------------------------------------------------------------

    def columns_read(self, named: tuple[str, ...]) -> tuple[str, ...]:
        own = tuple(dict.fromkeys(column for question in self.asked for column in question.columns))
        if named and set(named) != set(own):
            raise ValueError(
                f"input: the plan says which columns its questions are about: {', '.join(own)}; name none."
            )
        return own

    def is_number(self, place: int) -> bool:
        name = self.columns_read(())[place]
        asked = [one for one in self.asked if name in one.columns]
        return all(one.task.is_number(one.columns.index(name)) for one in asked)

    def values(self, column: Column, array: pa.Array) -> Any:
        import pyarrow as pa

        arrays = dict(zip(column.names, [array] if len(column.names) == 1 else array.flatten(), strict=True))
        found = []
        for question, _, part, _ in self._parts(column.mechanism):
            own = [arrays[name] for name in question.columns]
            rows = own[0] if len(own) == 1 else pa.StructArray.from_arrays(own, list(question.columns))
            reader = replace(column, names=question.columns, task=question.task, mechanism=part)
            found.append(reader.values(rows, column.source))
        return found

    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        assert isinstance(mechanism, AnswersQueries), "a mechanism for several queries"
        return [
            replace(quantity, question=name)
            for (question, name, part, _), own in zip(self._parts(mechanism), mechanism.queries(estimate), strict=True)
            for quantity in question.task.quantities(part, own, confidence)
        ]

    def adjusted(self, mechanism: Mechanism, estimate: Estimate, quantities: Sequence[Quantity], way: str) -> list[Any]:
        """Each question by itself, where its own task can be adjusted so."""
        assert isinstance(mechanism, AnswersQueries), "a mechanism for several queries"
        found: list[Any] = []
        for (question, name, part, _), own in zip(self._parts(mechanism), mechanism.queries(estimate), strict=True):
            mine = [quantity for quantity in quantities if quantity.question == name]
            can = way in question.task.post
            found += question.task.adjusted(part, own, mine, way) if can else [None] * len(mine)
        return found

    # --- written down -----------------------------------------------------------------------------------------

    def document(self) -> dict[str, Any]:
        return {"name": self.name, "questions": [question.document() for question in self.asked]}

    @classmethod
    def fields(cls) -> tuple[str, ...]:
        return ("questions",)

    @classmethod
    def of_document(cls, told: Mapping[str, Any], read: Callable[[Mapping[str, Any]], Task]) -> Task:
        given = told["questions"]
        if not isinstance(given, list):
            raise ValueError(f"{WHO}: questions must be a list, got {argument.shown(given)}.")
        return cls(Question.read(one, read) for one in given)

    @classmethod
    def read(cls, domain: Values, parameters: Mapping[str, Any]) -> Task:
        raise ValueError(f"{WHO}: the task {cls.name!r} needs questions, got a domain of {domain.kind}.")

    @classmethod
    def from_options(cls, given: Given) -> Task:
        if not given.questions:
            raise ValueError(f"{WHO}: this task needs --question or --questions.")
        return cls(given.questions)


@dataclass(frozen=True)
class _QueryVariance:
    """The variance of one query's numbers, of which only some users answer it."""

    mechanism: AnswersQueries
    number: int

    def __call__(self, values: Array) -> Floats:
        return self.mechanism.query_variance(self.number, values)


def joined(found: Sequence[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """Errors and margins of several questions in one row: a question counts the same however many numbers it has."""
    size = sum(len(errors) for errors, _ in found)
    scales = [math.sqrt(size / len(errors)) for errors, _ in found]
    errors, margins = ([scale * one[side] for scale, one in zip(scales, found, strict=True)] for side in (0, 1))
    return np.concatenate(errors), np.concatenate(margins)


def _question(given: Any) -> Question:
    if isinstance(given, Question):
        return given
    if isinstance(given, tuple | list) and 2 <= len(given) <= 4:
        return Question(*given)
    raise TypeError(f"{TASK}: a question is (column, task) or (column, task, weight), got {argument.shown(given)}.")
