"""The base class of tasks, the quantities that a task reports, and their post-processing.

A task is a question about the users. Its class holds everything about it: the public domain, the suitable mechanisms
and their settings, the data for which errors are stated, the conversion of columns to values and of estimates to rows
of the report, and serialisation. ``registry.TASKS`` lists the classes.

Post-processing on request adds, beside the estimates, the nearest values that the true ones could have. The true values
lie in a known closed convex set, and a projection onto it never increases a distance: the projected estimate is at most
as far from the true values as the estimate itself, whatever the data and the noise. It costs no privacy, but the
results are no longer unbiased and have no intervals.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from shuffledp._core import validation
from shuffledp._core.errors import InvalidArgument
from shuffledp._core.message_phrases import Argument, phrase
from shuffledp._core.validation import Array, Floats, Integers
from shuffledp.mechanisms.base.estimator import Estimate, Estimator, SimulableEstimator
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.mechanisms.metric.planar_laplace import MapGrid
from shuffledp.tasks.domain import PLAN_PREFIX, TASK_PREFIX, TaskOptions, Values, parse_domain

if TYPE_CHECKING:
    import pyarrow as pa

    from shuffledp.tasks.column_reader import ColumnReader
    from shuffledp.tasks.survey import Question


# --- Public knowledge about the estimated values ---


COUNTS, NUMBERS, COORDINATES, CELLS, BINS, RUNNING = "counts", "numbers", "coordinates", "cells", "bins", "running"

DAY_PATTERN = re.compile(r"\d{4}(-\d\d){0,2}([ T].*)?")
"""Matches days, months and timestamps in forms whose text order is their time order."""


@dataclass(frozen=True, eq=False)
class Shape:
    """The kind of the estimated values and the public bounds on their true values, for post-processing and plots.

    Every user and every analyst knows these bounds, so post-processing may use them.

    Args:
        kind: COUNTS, NUMBERS, COORDINATES, CELLS, BINS or RUNNING.
        least: Lower bound of each true value: one number, or one for each value.
        most: Upper bound of each true value: one number, or one for each value.
        total: Sum of all true values; None if it is not known.
        grid: Map whose cells the labels are.
        sizes: Numbers of rows and columns, if the labels are the cells of a two-way table.
        levels: Index of the first label of each level, if the labels are the nodes of a tree.
        ordered: True if the labels have an order of their own, which plots preserve.
    """

    kind: str = NUMBERS
    least: float | Floats = -np.inf
    most: float | Floats = np.inf
    total: float | None = None
    grid: MapGrid | None = None
    sizes: tuple[int, int] | None = None
    levels: tuple[int, ...] = ()
    ordered: bool = False


ANY_SHAPE = Shape()


def count_shape(users: int, *, all_in_one: bool, ordered: bool = False) -> Shape:
    """Returns the shape of counts of ``users``; with ``all_in_one`` each user is counted exactly once."""
    return Shape(COUNTS, 0.0, float(users), float(users) if all_in_one else None, ordered=ordered)


def cumulative_shape(users: int) -> Shape:
    """Returns the shape of cumulative counts of ``users``."""
    return Shape(RUNNING, 0.0, float(users), ordered=True)


def are_labels_ordered(names: tuple[str, ...] | None) -> bool:
    """Returns True if the labels are increasing numbers or dates, or if there are none.

    >>> [are_labels_ordered(labels) for labels in (("1", "2", "10"), ("2026-01-31", "2026-02-01"), ("tea", "milk"))]
    [True, True, False]
    """
    if names is None:
        return True
    try:
        return all(one < other for one, other in pairwise(map(float, names)))
    except ValueError:
        return all(map(DAY_PATTERN.fullmatch, names)) and all(one < other for one, other in pairwise(names))


# --- Reported quantities ---


@dataclass(frozen=True)
class Quantity:
    """One kind of estimate for each label, with confidence intervals if there are any.

    Args:
        name: Name of the quantity, such as "users" or "mean".
        labels: One label for each value.
        value: Estimates.
        standard_error: Standard error of each estimate.
        low: Lower ends of the confidence intervals.
        high: Upper ends of the confidence intervals.
        question: Name of the question, if the task is a survey.
        shape: Public bounds on the true values.
        adjusted: Values after post-processing, if that was requested. All other fields describe the estimates before
            it.
    """

    name: str
    labels: tuple[str, ...]
    value: Floats
    standard_error: Floats | None = None
    low: Floats | None = None
    high: Floats | None = None
    question: str = ""
    shape: Shape = ANY_SHAPE
    adjusted: Floats | None = None

    @classmethod
    def from_estimate(
        cls, name: str, labels: Iterable[str], estimate: Estimate, confidence: float, shape: Shape = ANY_SHAPE
    ) -> Quantity:
        """Returns the quantity of an estimate, with its intervals."""
        low, high = estimate.interval(confidence)
        return cls(name, tuple(labels), estimate.value, estimate.standard_error, low, high, shape=shape)


# --- Post-processing ---


NON_NEGATIVE, ADDS_UP, CONSISTENT = "non-negative", "adds-up", "consistent"
POST_PROCESSING_METHODS = {
    NON_NEGATIVE: "counts below 0 are set to 0",
    ADDS_UP: "all counts are shifted by the same amount, so that they add up to the number of users",
    CONSISTENT: "they are the nearest possible values: within the known bounds, and with the known totals",
}
"""Descriptions of the methods of post-processing."""


def check_post_processing(who: str, way: str, possible: Sequence[str], task: str) -> None:
    """Raises ValueError if the method of post-processing is unknown or is not offered by this task."""
    if way not in POST_PROCESSING_METHODS:
        expected = f"must be {', '.join(list(POST_PROCESSING_METHODS)[:-1])} or {CONSISTENT}"
        raise InvalidArgument(who, expected, got=repr(way), parameter=Argument("post"))
    if way not in possible:
        raise InvalidArgument(
            who,
            f"does not go with the task {task!r}, whose estimates have no such constraint",
            hint=phrase("take {post}", post=Argument("post", " or ".join(map(repr, possible)))),
            parameter=Argument("post", repr(way)),
        )


def post_process_quantity(quantity: Quantity, way: str) -> Floats | None:
    """Post-processes one quantity by itself; returns None if the method does not apply to it."""
    shape, value, total = quantity.shape, quantity.value, quantity.shape.total
    if way == CONSISTENT:
        return np.clip(value, shape.least, shape.most) if total is None else project_to_simplex(value, total)
    if way == ADDS_UP:
        return None if total is None else np.asarray(value + (total - value.sum()) / len(value))
    return None if shape.kind in (NUMBERS, COORDINATES) else np.maximum(value, 0.0)


def project_to_simplex(value: Floats, total: float) -> Floats:
    """Projects onto the simplex of nonnegative numbers with sum ``total``: subtracts one constant and clips at 0.

    >>> project_to_simplex(np.array([60.0, 50.0, -20.0]), 100.0).tolist()
    [55.0, 45.0, 0.0]
    """
    if total <= 0:
        return np.zeros_like(value)
    falling = np.sort(value)[::-1]
    shifts = (np.cumsum(falling) - total) / np.arange(1, len(value) + 1)
    # Only the largest values stay positive: the last of them determines the shift.
    shift = float(shifts[np.flatnonzero(falling > shifts)[-1]])
    return np.maximum(value - shift, 0.0)


SAMPLE_SEED = 0
"""Seed of the representative data for which errors are stated."""


@dataclass(frozen=True)
class Sensitivity:
    """Sensitivity of the exact result to the replacement of one user: ``l1`` is the L1 norm, ``l2`` the L2 norm."""

    l1: float
    l2: float


@dataclass(frozen=True)
class Needs:
    """The target and the limits of a plan, from which some tasks derive settings.

    Args:
        users: Number of users in a round.
        epsilon: Target ε for all rounds together.
        delta: Target δ for all rounds together.
        rounds: Number of rounds with the same users.
        bits: Largest number of bits that a user sends; None for no limit.
        messages: Largest number of messages that a user sends; None for no limit.
        by_shuffler: True if the shuffler draws the noise.

    >>> import shuffledp as sdp
    >>> sdp.tasks.Needs(users=10**6, epsilon=1.0, delta=1e-8).rounds
    1
    """

    users: int
    epsilon: float
    delta: float
    rounds: int = 1
    bits: int | None = None
    messages: float | None = None
    by_shuffler: bool = False


class Task(ABC):
    """Base class of tasks.

    Errors are root mean squares over all estimated numbers, for users as ``data_description`` describes them.
    """

    name: ClassVar[str]
    mechanism_tasks: ClassVar[tuple[str, ...]]
    """The values of ``Mechanism.task`` of suitable mechanisms."""
    data_description: ClassVar[str]
    """Description of the users for whom errors are stated."""
    unit: ClassVar[str]
    """Unit of the error."""
    is_average: ClassVar[bool] = False
    """True if a mean is estimated, which more users make more accurate; False for a sum over users."""
    allows_shuffler_noise: ClassVar[bool] = False
    """True if a plan may let the shuffler draw noise that otherwise the users draw."""
    parameters: ClassVar[tuple[str, ...]] = ()
    """The attributes that, besides the domain, determine the task: fields of its document."""
    accepted_options: ClassVar[tuple[str, ...]]
    """The command-line options of the task."""
    takes_lists: ClassVar[bool] = False
    """True if a user holds several values, which may be spread over several rows."""
    is_numeric: ClassVar[bool] = False
    """True if users hold numbers; a text such as "nan" is then a missing value."""
    supports_subsampling: ClassVar[bool] = False
    """True if errors and intervals are known if only a random sample of the users answers."""

    @property
    def questions(self) -> tuple[Question, ...]:
        """The questions of a survey, each about columns of its own; empty for a single task."""
        return ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the questions in the report."""
        return ()

    def question_errors(self, mechanism: Mechanism, users: int) -> tuple[float, ...]:
        """Returns the standard error of each question.

        Args:
            mechanism: Mechanism that answers the questions.
            users: Number of users.

        Returns:
            One standard error for each question, in the unit of its own task; empty for a single task.
        """
        del mechanism, users
        return ()

    # --- Domain, mechanisms and rounds ---

    @property
    @abstractmethod
    def domain(self) -> Values:
        """The public domain of the users' values."""

    @property
    @abstractmethod
    def mechanism_settings(self) -> Mapping[str, Any]:
        """The settings of mechanisms that the task determines, by name."""

    def mechanism_settings_for(self, kind: type[Mechanism] | Mechanism) -> Mapping[str, Any]:
        """Returns the settings that the task determines for one mechanism.

        Args:
            kind: Mechanism, or class of mechanisms.

        Returns:
            Values by the names of the settings.
        """
        del kind
        return self.mechanism_settings

    @classmethod
    def can_use(cls, kind: type[Mechanism] | Mechanism) -> bool:
        """Returns True if the mechanism can do this task.

        Args:
            kind: Mechanism, or class of mechanisms.

        Returns:
            True if it can.
        """
        return kind.task in cls.mechanism_tasks

    def check_mechanism(self, mechanism: Mechanism) -> None:
        """Checks that the mechanism can do this task and fits the domain.

        Args:
            mechanism: Mechanism to check.

        Raises:
            ValueError: If the mechanism is for another task, or its options, keys, rows, dimension or items do not
                match.
        """
        if not self.can_use(mechanism):
            raise ValueError(
                f"{PLAN_PREFIX}: the task is {self.name!r}, but {mechanism.name} is a mechanism for {mechanism.task!r}."
            )
        size, most = self.domain.size, getattr(mechanism, "options", math.inf)
        if size is not None and size > most:
            raise ValueError(f"{PLAN_PREFIX}: {mechanism.name} has room for {most} options, but the domain has {size}.")
        self._check_table_rows(mechanism, size)
        settings, expected = mechanism.settings(), self.mechanism_settings_for(mechanism)
        for name in ("options", "keys"):
            if settings.get(name, size) not in (size, expected.get(name, size)):
                contents = "numbers" if size is None else f"{size} options"
                raise ValueError(
                    f"{PLAN_PREFIX}: {mechanism.name} has {name} = {settings[name]}, but the domain has {contents}."
                )
        for name in ("dimension", "items"):
            number = expected.get(name)
            if number is not None and settings.get(name, number) != number:
                found = f"{mechanism.name} has {name} = {settings[name]}"
                raise ValueError(f"{PLAN_PREFIX}: {found}, but the task has {name} = {number}.")

    @staticmethod
    def _check_table_rows(mechanism: Mechanism, size: int | None) -> None:
        """Raises ValueError if a mechanism given as a table has another number of rows than the domain has values."""
        name = mechanism.table_setting
        rows = len(mechanism.settings()[name]) if name else size
        if rows != size:
            raise ValueError(
                f"{PLAN_PREFIX}: {mechanism.name} has {rows} rows of {name}, but the domain has {size} options."
            )

    def choose_settings(self, needs: Needs) -> Task:
        """Returns this task with the settings that a plan chooses.

        Args:
            needs: Target and limits of the plan.

        Returns:
            The task to be collected; by default this one.

        Raises:
            ValueError: If no settings meet the target within the limits.
        """
        del needs
        return self

    @property
    def only_round(self) -> int | None:
        """The only round that a plan of this task is for; None if it is for all rounds."""
        return None

    def check_round(self, number: int) -> None:
        """Checks that a plan of this task is for a round.

        Args:
            number: Round, counted from 1.

        Raises:
            ValueError: If it is for another round.
        """
        del number

    def check_planned_round(self, number: int, rounds: int) -> None:
        """Checks that a plan of this task has a round of this number.

        Args:
            number: Round, counted from 1.
            rounds: Number of planned rounds.

        Raises:
            ValueError: If there is no such round, or the plan is for another one.
        """
        validation.count("plan", "round", number)
        if number > rounds:
            raise ValueError(f"plan: round must be at most {rounds}, as planned, got {number}.")
        self.check_round(number)

    # --- Errors ---

    @abstractmethod
    def representative_values(self, mechanism: Mechanism) -> Array:
        """Returns the values of representative users, for whom errors are stated.

        Args:
            mechanism: Mechanism that is used.

        Returns:
            The values, in the unit of the mechanism.
        """

    @abstractmethod
    def sensitivity(self, users: int) -> Sensitivity:
        """Returns the sensitivity of the exact result to the replacement of one user.

        Args:
            users: Number of users.

        Returns:
            The sensitivity, in ``unit``.
        """

    def scale(self, mechanism: Mechanism) -> float:
        """Returns the factor from the mechanism's unit to ``unit``.

        Args:
            mechanism: Mechanism that is used.

        Returns:
            The size of one unit of the mechanism, in ``unit``.
        """
        del mechanism
        return 1.0

    def user_influence(self, users: int) -> float:
        """Returns the largest influence of one user on one estimated number.

        Args:
            users: Number of users.

        Returns:
            The influence, in ``unit``.
        """
        del users
        return 1.0

    def timed_estimator(self, mechanism: Mechanism) -> Estimator:
        """Returns the estimator whose running time plans measure.

        Args:
            mechanism: Mechanism that is used.

        Returns:
            The estimator, restricted to some options if there are very many.
        """
        return mechanism.estimator

    @property
    def timed_estimator_description(self) -> str:
        """Description of the part of the estimates that ``timed_estimator`` computes; empty if it computes all."""
        return ""

    def estimator_variance(self, mechanism: Mechanism, values: Array, variance: Floats | None = None) -> Floats:
        """Returns the exact variance of each estimated number.

        Args:
            mechanism: Mechanism that is used.
            values: Values of the users, in the unit of the mechanism.
            variance: Variance of the mechanism's own numbers, if not all users answer.

        Returns:
            The variances, in the squared unit of the mechanism.
        """
        return mechanism.variance(values) if variance is None else variance

    def standard_error(
        self, mechanism: Mechanism, users: int, variance: Callable[[Array], Floats] | None = None
    ) -> float:
        """Returns the root mean square error for ``users`` with the data of ``representative_values``.

        Since users answer independently, the variance of a sum over users is proportional to their number, and that of
        a mean to its reciprocal: the variance for a few users determines it for any number.

        Args:
            mechanism: Mechanism that is used.
            users: Number of users.
            variance: Function from values to the variance of the mechanism's own numbers, if not all users answer.

        Returns:
            The error, in ``unit``.
        """
        values = mechanism.check(self.representative_values(mechanism))
        share = len(values) / users if self.is_average else users / len(values)
        if mechanism.message_plan.has_shuffler_noise:
            # The shuffler draws its noise once, however many users there are.
            share = 1.0
        spread = self.estimator_variance(mechanism, values, None if variance is None else variance(values))
        return self.scale(mechanism) * math.sqrt(max(0.0, float(np.mean(spread)) * share))

    def true_counts(self, mechanism: Mechanism, users: int) -> Integers:
        """Returns the true counts of ``users`` with the data of ``representative_values``, rounded to integers.

        ``simulate`` draws from them: they must agree with ``data_description``.

        Args:
            mechanism: Mechanism that is used.
            users: Number of users.

        Returns:
            The number of users with each option.
        """
        values = mechanism.check(self.representative_values(mechanism))
        return apportion(mechanism.truth(values) / len(values), users)

    def compute_errors_and_margins(
        self, mechanism: Mechanism, estimate: Estimate, held: Floats, confidence: float
    ) -> tuple[Floats, Floats]:
        """Compares an estimate with the truth.

        Args:
            mechanism: Mechanism that is used.
            estimate: Estimate of the mechanism.
            held: True values, in the unit of the estimate.
            confidence: Confidence of the intervals.

        Returns:
            The errors (estimate minus truth), and the margins of the intervals on the side of the truth, both in
            ``unit``.
        """
        scale = self.scale(mechanism)
        return scale * (estimate.value - held), scale * estimate.margin_towards(held, confidence)

    def central_factor(self) -> float:
        """Returns the ratio of a curator's error for this task to the error of one noisy number."""
        return 1.0

    def curator_statistics(self, users: int) -> Iterable[tuple[Sensitivity, float]]:
        """Returns the statistics that a curator could add noise to.

        Args:
            users: Number of users.

        Returns:
            For each, its sensitivity and its error as a multiple of the error of one noisy number.
        """
        return [(self.sensitivity(users), self.central_factor())]

    def can_draw_estimates(self, mechanism: Mechanism) -> bool:
        """Returns True if estimates can be drawn from their law, without messages.

        Args:
            mechanism: Mechanism that is used.

        Returns:
            True if they can be drawn, as ``compute_errors_and_margins`` takes them.
        """
        return isinstance(mechanism.estimator, SimulableEstimator)

    def independent_parts(self, mechanism: Mechanism, users: int) -> Sequence[tuple[Task, Mechanism, float]]:
        """Splits the task into tasks whose estimates are independent.

        Args:
            mechanism: Mechanism of this task.
            users: Number of users.

        Returns:
            Each task with its mechanism and the factor of its errors in those of this task.
        """
        del users
        return [(self, mechanism, 1.0)]

    def ranking_remark(self, offered: Sequence[Mechanism]) -> str:
        """Returns a remark below a ranking of mechanisms.

        Args:
            offered: Mechanisms of the ranking.

        Returns:
            Sentences; empty if there is nothing to remark.
        """
        del offered
        return ""

    def promises(self, mechanism: Mechanism, users: int) -> dict[str, float]:
        """Returns the guarantees of a plan besides its error.

        Args:
            mechanism: Mechanism of the plan.
            users: Number of users.

        Returns:
            Numbers by name.
        """
        del mechanism, users
        return {}

    def describe_promises(self, promise: Mapping[str, float]) -> list[tuple[str, str]]:
        """Describes the guarantees of a plan.

        Args:
            promise: Guarantees as ``promises`` returns them.

        Returns:
            Pairs of a heading and a text.
        """
        del promise
        return []

    # --- Input and report ---

    def is_number_column(self, place: int) -> bool:
        """Returns True if a column holds numbers.

        Args:
            place: Index of the column among those that the task reads.

        Returns:
            True if it does.
        """
        del place
        return self.is_numeric

    def resolve_columns(self, named: tuple[str, ...]) -> tuple[str, ...]:
        """Returns the columns that the task reads.

        Args:
            named: Columns that the caller named; empty for the only column of the table.

        Returns:
            The columns in the order in which the task reads them.

        Raises:
            ValueError: If there are too many.
        """
        if len(named) > 1:
            raise ValueError(f"input: the task {self.name!r} reads one column, got {len(named)} of them; name one.")
        return named

    @abstractmethod
    def read_values(self, column: ColumnReader, array: pa.Array) -> Any:
        """Converts the rows of a column to values for the mechanism's check.

        Args:
            column: Reader of the column, with its rules.
            array: Rows; structs if several columns are read.

        Returns:
            One value for each row.

        Raises:
            BadRow: If a row holds no value or one outside the domain.
        """

    @abstractmethod
    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        """Converts an estimate to the rows of the report, in the users' labels and units.

        Args:
            mechanism: Mechanism that was used.
            estimate: Estimate of the mechanism.
            confidence: Confidence of the intervals.

        Returns:
            The reported quantities.
        """

    post: ClassVar[tuple[str, ...]] = (NON_NEGATIVE, CONSISTENT)
    """The available methods of post-processing."""

    def post_process(
        self, mechanism: Mechanism, estimate: Estimate, quantities: Sequence[Quantity], way: str
    ) -> list[Any]:
        """Post-processes quantities.

        Args:
            mechanism: Mechanism that was used.
            estimate: Estimate of the mechanism.
            quantities: Quantities of that estimate.
            way: Method of post-processing.

        Returns:
            The new values of each quantity; None if the method does not apply to it.
        """
        del mechanism, estimate
        return [post_process_quantity(quantity, way) for quantity in quantities]

    @property
    def has_next_round(self) -> bool:
        """True if another round may follow, whose plan depends on the results of this one."""
        return False

    def build_next_task(self, estimate: Estimate) -> Task | None:
        """Returns the task of the next round.

        Args:
            estimate: Estimate of this round.

        Returns:
            The next task; None if rounds do not depend on each other or this is the last one.
        """
        del estimate
        return None

    def parse_options(self, who: str, options: Any) -> Integers:
        """Returns the numbers of the options that are to be estimated.

        Args:
            who: Prefix of error messages.
            options: Labels or numbers of the options.

        Returns:
            The numbers of the options.

        Raises:
            ValueError: If there is no such option, or the task always estimates everything.
        """
        del options
        raise ValueError(f"{who}: the task {self.name!r} estimates everything; options are for frequencies.")

    def option_true_counts(self, options: Integers, users: int) -> Integers:
        """Returns the true counts of some options for the data of ``representative_values``.

        Args:
            options: Numbers of the options.
            users: Number of users.

        Returns:
            The number of users with each of these options.
        """
        raise NotImplementedError(f"{self.name}: single options are not estimated.")

    def option_quantities(self, options: Integers, estimate: Estimate, confidence: float) -> list[Quantity]:
        """Converts an estimate of some options to the rows of the report.

        Args:
            options: Numbers of the options.
            estimate: Estimate of these options.
            confidence: Confidence of the intervals.

        Returns:
            The reported quantities.
        """
        raise NotImplementedError(f"{self.name}: single options are not estimated.")

    # --- Serialisation ---

    def to_document(self) -> dict[str, Any]:
        """Returns the JSON document of the task: its name, its domain and its parameters."""
        parameters = {name: getattr(self, name) for name in self.parameters}
        return {"name": self.name, "domain": self.domain.to_document(), **parameters}

    @classmethod
    def document_fields(cls) -> tuple[str, ...]:
        """Returns the fields of the document besides the name."""
        return ("domain", *cls.parameters)

    @classmethod
    def from_document(cls, document: Mapping[str, Any], read: Callable[[Mapping[str, Any]], Task]) -> Task:
        """Reads the task from its document.

        Args:
            document: The ``document_fields`` of the document.
            read: Function that reads the document of another task.

        Returns:
            The task.

        Raises:
            ValueError: If a field is invalid.
        """
        del read
        return cls.from_domain(parse_domain(document["domain"]), {name: document[name] for name in cls.parameters})

    @classmethod
    @abstractmethod
    def from_domain(cls, domain: Values, parameters: Mapping[str, Any]) -> Task:
        """Builds the task from its domain and parameters.

        Args:
            domain: Domain of the users' values.
            parameters: Values of ``parameters``, by name.

        Returns:
            The task.

        Raises:
            ValueError: If the domain is of another kind, or a parameter is invalid.
        """

    @classmethod
    @abstractmethod
    def from_options(cls, given: TaskOptions) -> Task:
        """Builds the task from options of the command line.

        Args:
            given: Options as typed.

        Returns:
            The task.

        Raises:
            ValueError: If an option is missing or invalid.
        """

    @classmethod
    def command_name(cls) -> str:
        """Returns the name of the task on the command line."""
        return cls.name.replace(" ", "-")

    def _require_domain_kind(self, domain: Values, kind: str) -> Self:
        if domain.kind != kind:
            raise ValueError(f"{TASK_PREFIX}: the task {self.name!r} needs a domain of {kind}, got {domain.kind}.")
        return self


def option_labels(domain: Values, count: int) -> tuple[str, ...]:
    """Returns the labels of the first ``count`` options."""
    return tuple(domain.label(option) for option in range(count))


def apportion(shares: Floats, users: int) -> Integers:
    """Rounds ``shares``·``users`` to integers by largest remainders."""
    exact = shares * users
    whole = np.floor(exact).astype(np.int64)
    missing = max(0, round(float(exact.sum())) - int(whole.sum()))
    whole[np.argsort(whole - exact, kind="stable")[:missing]] += 1
    return whole
