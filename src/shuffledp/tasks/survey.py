"""Surveys: several questions to the same users, about some columns each, with one guarantee for all."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from shuffledp._core import validation
from shuffledp._core.errors import InvalidArgument
from shuffledp._core.message_phrases import phrase
from shuffledp._core.validation import Array, Floats
from shuffledp.mechanisms.base.estimator import Estimate
from shuffledp.mechanisms.base.mechanism import Mechanism, MultiQueryCapability
from shuffledp.mechanisms.combined.parallel import MAX_QUERIES
from shuffledp.tasks.base import Quantity, Sensitivity, Task
from shuffledp.tasks.column_reader import ColumnReader
from shuffledp.tasks.domain import PLAN_PREFIX, TASK_PREFIX, TaskOptions, Values
from shuffledp.tasks.heavy_hitters_search import ValueSearch

if TYPE_CHECKING:
    import pyarrow as pa

MAX_SAMPLE_ROWS = 1 << 14
"""Largest number of representative users."""


@dataclass(frozen=True, init=False)
class Question:
    """One question of a survey: its columns, its task and its weight.

    Args:
        columns: Name of the column with the answers, or several names if the task reads several columns.
        task: Task that is estimated.
        weight: Weight relative to the other questions: of its error and, if each user answers one question, of the
            probability that it is this one.
        mechanism: Name of the only mechanism to plan with; None for any.

    Raises:
        TypeError: If the columns are not names, ``task`` is not a task, or ``mechanism`` is not a name.
        ValueError: If the task is a survey or a search, reads another number of columns, or ``weight`` is not positive
            and finite.

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
            raise TypeError(f"{TASK_PREFIX}: a question needs the name of its column, got {columns!r}.")
        if not isinstance(task, Task):
            raise TypeError(f"{TASK_PREFIX}: a question needs a task, such as tasks.Frequency(10), got {task!r}.")
        if task.questions:
            raise ValueError(f"{TASK_PREFIX}: a question is a single task, got the task {task.name!r}.")
        if isinstance(task, ValueSearch):
            raise ValueError(f"{TASK_PREFIX}: a question cannot be a search, got the task {task.name!r}.")
        if mechanism is not None and not isinstance(mechanism, str):
            raise TypeError(f"{TASK_PREFIX}: a question's mechanism must be a name, got {mechanism!r}.")
        object.__setattr__(self, "columns", task.resolve_columns(names))
        object.__setattr__(self, "task", task)
        object.__setattr__(self, "weight", validation.positive_finite(TASK_PREFIX, "weight", weight))
        object.__setattr__(self, "mechanism", mechanism)

    @property
    def title(self) -> str:
        """The name of the question if no other one is about the same columns."""
        return " × ".join(self.columns)

    def to_document(self) -> dict[str, Any]:
        """Returns the JSON document."""
        column = self.columns[0] if len(self.columns) == 1 else list(self.columns)
        only = {} if self.mechanism is None else {"mechanism": self.mechanism}
        return {"column": column, "weight": self.weight, "task": self.task.to_document(), **only}

    @classmethod
    def from_document(cls, document: Any, read: Callable[[Mapping[str, Any]], Task]) -> Question:
        """Reads a question from its document.

        Args:
            document: Document of the question.
            read: Function that reads the document of a task.

        Returns:
            The question.

        Raises:
            ValueError: If the document is invalid.
        """
        if not isinstance(document, Mapping) or not {"column", "task"} <= document.keys() <= {*_FIELDS}:
            raise ValueError(f"{PLAN_PREFIX}: a question has {', '.join(_FIELDS)}, got something else.")
        if not isinstance(document["task"], Mapping) or not isinstance(document["column"], str | list):
            raise ValueError(f"{PLAN_PREFIX}: a question needs a column and a task, got something else.")
        return cls(document["column"], read(document["task"]), document.get("weight", 1.0), document.get("mechanism"))


_FIELDS = ("column", "weight", "task", "mechanism")


@dataclass(frozen=True)
class QuestionDomains(Values):
    """The domains of all questions."""

    parts: tuple[tuple[str, Values], ...]
    kind = "several questions"

    def to_document(self) -> dict[str, Any]:
        return {name: values.to_document() for name, values in self.parts}


@dataclass(frozen=True, init=False)
class Survey(Task):
    """Several questions to the same users, each about its own columns.

    Every user answers every question, or one that is drawn with a probability proportional to the weights; the plan
    chooses. The error is stated in users: the number of users who would have to change their answers from one end of
    the domain to the other to change an estimate as much. Over the questions it is the weighted root mean square.

    Args:
        asked: ``Question`` objects, or tuples (column, task) or (column, task, weight).

    Raises:
        TypeError: If ``asked`` is not a list of questions.
        ValueError: If there is no question, there are too many, or two have the same columns and task.

    >>> import shuffledp as sdp
    >>> survey = Survey([("city", sdp.tasks.Frequency(["Rome", "Oslo"]), 2), ("age", sdp.tasks.Mean(0, 120))])
    >>> survey.names, [str(share) for share in survey.shares]
    (('city', 'age'), ['2/3', '1/3'])
    """

    asked: tuple[Question, ...]

    name = "survey"
    mechanism_tasks = ("several queries",)
    data_description = "each question's users as stated for it alone"
    unit = "users"
    accepted_options: ClassVar[tuple[str, ...]] = ("questions",)

    def __init__(self, asked: Iterable[Question | tuple[Any, ...]]) -> None:
        if isinstance(asked, str) or not isinstance(asked, Iterable):
            raise TypeError(f"{TASK_PREFIX}: a survey needs a list of questions, got {asked!r}.")
        object.__setattr__(self, "asked", tuple(map(_to_question, asked)))
        methods = dict.fromkeys(method for question in self.asked for method in question.task.post)
        object.__setattr__(self, "post", tuple(methods))
        validation.count(TASK_PREFIX, "the number of questions", len(self.asked), at_most=MAX_QUERIES)
        twice = next((name for name in self.names if self.names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"{TASK_PREFIX}: expected each question once, got {twice!r} twice.")

    # --- Domain, mechanisms and rounds ---

    @property
    def questions(self) -> tuple[Question, ...]:
        return self.asked

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the questions in the report: their columns, and the task if several have the same columns."""
        titles = [question.title for question in self.asked]
        return tuple(
            one.title if titles.count(one.title) == 1 else f"{one.title} ({one.task.name})" for one in self.asked
        )

    @cached_property
    def shares(self) -> tuple[Fraction, ...]:
        """The weights divided by their sum, exactly as written."""
        exact = [Fraction(str(question.weight)) for question in self.asked]
        return tuple(weight / sum(exact) for weight in exact)

    @property
    def domain(self) -> Values:
        return QuestionDomains(tuple(zip(self.names, (one.task.domain for one in self.asked), strict=True)))

    @property
    def mechanism_settings(self) -> Mapping[str, Any]:
        return {}

    def check_mechanism(self, mechanism: Mechanism) -> None:
        if not isinstance(mechanism, MultiQueryCapability) or len(mechanism.mechanisms) != len(self.asked):
            expected = f"a mechanism for {len(self.asked)} queries, such as all-answered"
            raise ValueError(f"{PLAN_PREFIX}: the task {self.name!r} needs {expected}, got {mechanism.name}.")
        for question, name, part, share in self._parts(mechanism):
            question.task.check_mechanism(part)
            if share < 1 and not question.task.supports_subsampling:
                raise ValueError(
                    f"{PLAN_PREFIX}: the errors of {question.task.name!r} are not known if only some users answer "
                    f"{name!r}; let all users answer every question."
                )

    def _parts(self, mechanism: Mechanism) -> list[tuple[Question, str, Mechanism, Fraction]]:
        """Returns each question with its name, its mechanism and the probability that a user answers it."""
        assert isinstance(mechanism, MultiQueryCapability), "a mechanism for several queries"
        return list(zip(self.asked, self.names, mechanism.mechanisms, mechanism.shares, strict=True))

    # --- Errors ---

    def representative_values(self, mechanism: Mechanism) -> Array:
        parts = [
            part.check(question.task.representative_values(part)) for question, _, part, _ in self._parts(mechanism)
        ]
        rows = min(MAX_SAMPLE_ROWS, max(map(len, parts)))
        row = np.arange(rows)
        return mechanism.check([
            part[row % len(part) if len(part) <= rows else row * len(part) // rows] for part in parts
        ])  # fmt: skip

    def question_errors(self, mechanism: Mechanism, users: int) -> tuple[float, ...]:
        assert isinstance(mechanism, MultiQueryCapability), "a mechanism for several queries"
        return tuple(
            question.task.standard_error(part, users, None if share == 1 else partial(mechanism.query_variance, number))
            for number, (question, _, part, share) in enumerate(self._parts(mechanism))
        )

    def standard_error(
        self, mechanism: Mechanism, users: int, variance: Callable[[Array], Floats] | None = None
    ) -> float:
        del variance
        counted = zip(self._error_factors(users), self.question_errors(mechanism, users), strict=True)
        return math.sqrt(math.fsum((factor * error) ** 2 for factor, error in counted))

    def _error_factors(self, users: int) -> list[float]:
        """Returns the factor of each question's error: from its unit to users, times the root of its weight share."""
        return [
            math.sqrt(share) / one.task.user_influence(users)
            for share, one in zip(self.shares, self.asked, strict=True)
        ]

    def independent_parts(self, mechanism: Mechanism, users: int) -> Sequence[tuple[Task, Mechanism, float]]:
        parts = self._parts(mechanism)
        if any(share < 1 for *_, share in parts):
            return super().independent_parts(mechanism, users)
        factors = zip(parts, self._error_factors(users), strict=True)
        return [(question.task, part, factor) for (question, _, part, _), factor in factors]

    def compute_errors_and_margins(
        self, mechanism: Mechanism, estimate: Estimate, held: Floats, confidence: float
    ) -> tuple[Floats, Floats]:
        # Each question by itself, with its part of the truth; errors are scaled so that all questions are comparable.
        assert isinstance(mechanism, MultiQueryCapability), "a mechanism for several queries"
        found, start = [], 0
        rows = zip(
            self._parts(mechanism), mechanism.queries(estimate), self._error_factors(estimate.users), strict=True
        )
        for (question, _, part, _), own, factor in rows:
            truth = held[start : start + own.value.size].reshape(own.value.shape)
            start += own.value.size
            errors, margins = question.task.compute_errors_and_margins(part, own, truth, confidence)
            found.append((factor * errors.reshape(-1), factor * margins.reshape(-1)))
        return concatenate_errors(found)

    def sensitivity(self, users: int) -> Sensitivity:
        # A curator adds noise to every answer and divides the budget so that the overall error is smallest: with
        # Laplace noise question k gets ε_k of Σε_k = ε and has the error a_k/ε_k, with Gaussian noise μ_k² of μ².
        sums, roots = [], []
        for share, question in zip(map(float, self.shares), self.asked, strict=True):
            known = [(one.l1 * factor, one.l2 * factor) for one, factor in question.task.curator_statistics(users)]
            unit = question.task.user_influence(users)
            sums.append((share * (min(one for one, _ in known) / unit) ** 2) ** (1 / 3))
            roots.append(math.sqrt(share) * min(one for _, one in known) / unit)
        return Sensitivity(math.fsum(sums) ** 1.5, math.fsum(roots))

    # --- Input and report ---

    def resolve_columns(self, named: tuple[str, ...]) -> tuple[str, ...]:
        columns = tuple(dict.fromkeys(column for question in self.asked for column in question.columns))
        if named and set(named) != set(columns):
            raise ValueError(f"input: the plan names the columns of its questions: {', '.join(columns)}; name none.")
        return columns

    def is_number_column(self, place: int) -> bool:
        name = self.resolve_columns(())[place]
        return all(one.task.is_number_column(one.columns.index(name)) for one in self.asked if name in one.columns)

    def read_values(self, column: ColumnReader, array: pa.Array) -> Any:
        import pyarrow as pa

        arrays = dict(zip(column.names, [array] if len(column.names) == 1 else array.flatten(), strict=True))
        values = []
        for question, _, part, _ in self._parts(column.mechanism):
            inputs = [arrays[name] for name in question.columns]
            rows = inputs[0] if len(inputs) == 1 else pa.StructArray.from_arrays(inputs, list(question.columns))
            reader = replace(column, names=question.columns, task=question.task, mechanism=part)
            values.append(reader.read_values(rows, column.source))
        return values

    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        assert isinstance(mechanism, MultiQueryCapability), "a mechanism for several queries"
        return [
            replace(quantity, question=name)
            for (question, name, part, _), own in zip(self._parts(mechanism), mechanism.queries(estimate), strict=True)
            for quantity in question.task.quantities(part, own, confidence)
        ]

    def post_process(
        self, mechanism: Mechanism, estimate: Estimate, quantities: Sequence[Quantity], way: str
    ) -> list[Any]:
        # Each question by itself, if its own task offers the method.
        assert isinstance(mechanism, MultiQueryCapability), "a mechanism for several queries"
        found: list[Any] = []
        for (question, name, part, _), own in zip(self._parts(mechanism), mechanism.queries(estimate), strict=True):
            mine = [quantity for quantity in quantities if quantity.question == name]
            can = way in question.task.post
            found += question.task.post_process(part, own, mine, way) if can else [None] * len(mine)
        return found

    # --- Serialisation ---

    def to_document(self) -> dict[str, Any]:
        return {"name": self.name, "questions": [question.to_document() for question in self.asked]}

    @classmethod
    def document_fields(cls) -> tuple[str, ...]:
        return ("questions",)

    @classmethod
    def from_document(cls, document: Mapping[str, Any], read: Callable[[Mapping[str, Any]], Task]) -> Task:
        given = document["questions"]
        if not isinstance(given, list):
            raise ValueError(f"{PLAN_PREFIX}: questions must be a list, got {validation.format_value(given)}.")
        return cls(Question.from_document(one, read) for one in given)

    @classmethod
    def from_domain(cls, domain: Values, parameters: Mapping[str, Any]) -> Task:
        raise ValueError(f"{PLAN_PREFIX}: the task {cls.name!r} needs questions, got a domain of {domain.kind}.")

    @classmethod
    def from_options(cls, given: TaskOptions) -> Task:
        if not given.questions:
            raise InvalidArgument(PLAN_PREFIX, phrase("this task needs {question} or {questions}"))
        return cls(given.questions)


def concatenate_errors(found: Sequence[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """Concatenates errors and margins of several questions, scaled so that all questions have the same weight."""
    size = sum(len(errors) for errors, _ in found)
    scales = [math.sqrt(size / len(errors)) for errors, _ in found]
    errors, margins = ([scale * one[side] for scale, one in zip(scales, found, strict=True)] for side in (0, 1))
    return np.concatenate(errors), np.concatenate(margins)


def _to_question(given: Any) -> Question:
    if isinstance(given, Question):
        return given
    if isinstance(given, tuple | list) and 2 <= len(given) <= 4:
        return Question(*given)
    raise TypeError(
        f"{TASK_PREFIX}: a question is (column, task) or (column, task, weight), got {validation.format_value(given)}."
    )
