"""A task is what is to be estimated from whom, as one object from the command line through the plan to the report.

A class in one file says everything about its task: the public domain, what mechanisms are told and which of them can do
it, the data for which errors are stated, how a column becomes values and an estimate becomes rows, and how the task
is written down. ``task_list.TASKS`` lists the classes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from shuffledp.array import Array, Floats, Integers
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.parts.reading import Reading, SimulatedReading
from shuffledp.tasks.adjustment import CONSISTENT, NON_NEGATIVE, nearest
from shuffledp.tasks.domain import TASK, WHO, Values, parse
from shuffledp.tasks.given import Given
from shuffledp.tasks.quantity import Quantity

if TYPE_CHECKING:
    import pyarrow as pa

    from shuffledp.tasks.column import Column
    from shuffledp.tasks.survey import Question

SEED = 0
"""For the data that stand for all."""


@dataclass(frozen=True)
class Sensitivity:
    """How far replacing one user moves the exact result: the sum of the changes, and the root of that of squares."""

    sum: float
    root: float


@dataclass(frozen=True)
class Needs:
    """What a plan is to reach, and what it may cost: for tasks with settings of their own.

    ``epsilon`` and ``delta`` are for the users of all ``rounds``; ``bits`` and ``messages`` are the most of a user,
    None where anything goes.

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
    """Whether the shuffler is to draw the noise."""


class Task(ABC):
    """A task with its domain. Errors are stated for ``data``, the root mean square over all estimated numbers."""

    name: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]]
    """What mechanisms that can do it say they estimate (``Mechanism.task``)."""
    data: ClassVar[str]
    """The users for whom the error is stated, in words."""
    unit: ClassVar[str]
    """What the error is counted in."""
    averages: ClassVar[bool] = False
    """Whether a mean is estimated, which more users make more accurate, or a sum over users."""
    by_either: ClassVar[bool] = False
    """Whether noise that users or the shuffler can draw is the shuffler's where a plan is to rest on that."""
    parameters: ClassVar[tuple[str, ...]] = ()
    """The attributes that say, besides the domain, which task it is: fields of its document."""
    taken: ClassVar[tuple[str, ...]]
    """The options of the command line that it takes."""
    takes_lists: ClassVar[bool] = False
    """Whether a user holds several values, which may stand in several rows."""
    numeric: ClassVar[bool] = False
    """Whether users hold numbers: then a text such as "nan" says that there is none."""
    sampled: ClassVar[bool] = False
    """Whether its errors and intervals are known where only some users, drawn at random, answer."""

    @property
    def questions(self) -> tuple[Question, ...]:
        """The tasks that it is made of, each of columns of its own; none where it is one task."""
        return ()

    @property
    def names(self) -> tuple[str, ...]:
        """What the report calls the questions."""
        return ()

    def errors(self, mechanism: Mechanism, users: int) -> tuple[float, ...]:
        """The standard error of each question, in the unit of its own task."""
        del mechanism, users
        return ()

    # --- what it is about -------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def domain(self) -> Values:
        """What users may hold."""

    @property
    @abstractmethod
    def facts(self) -> Mapping[str, Any]:
        """What mechanisms are told about the domain, by the names of their settings."""

    def facts_for(self, kind: type[Mechanism] | Mechanism) -> Mapping[str, Any]:
        """The same, where it matters which mechanism is told."""
        del kind
        return self.facts

    @classmethod
    def can_use(cls, kind: type[Mechanism] | Mechanism) -> bool:
        """Whether such a mechanism does this task."""
        return kind.task in cls.kinds

    def demand(self, mechanism: Mechanism) -> None:
        """Stop unless the mechanism does this task, and is as large as the domain."""
        if not self.can_use(mechanism):
            raise ValueError(
                f"{WHO}: the task is {self.name!r}, but {mechanism.name} is a mechanism for {mechanism.task!r}."
            )
        size, most = self.domain.size, getattr(mechanism, "options", math.inf)
        if size is not None and size > most:
            raise ValueError(f"{WHO}: {mechanism.name} has room for {most} options, but the domain has {size}.")
        settings, told = mechanism.settings(), self.facts_for(mechanism)
        self._demand_rows(mechanism, size)
        for name in ("options", "keys"):
            if settings.get(name, size) not in (size, told.get(name, size)):
                has = "numbers" if size is None else f"{size} options"
                raise ValueError(f"{WHO}: {mechanism.name} has {name} = {settings[name]}, but the domain has {has}.")
        for name in ("dimension", "items"):
            wanted = told.get(name)
            if wanted is not None and settings.get(name, wanted) != wanted:
                raise ValueError(
                    f"{WHO}: {mechanism.name} has {name} = {settings[name]}, but the task has {name} = {wanted}."
                )

    @staticmethod
    def _demand_rows(mechanism: Mechanism, size: int | None) -> None:
        """Stop where a mechanism is a table for another number of values."""
        if mechanism.built_from_table:
            rows = len(mechanism.settings()[mechanism.built_from_table])
            if rows != size:
                table = f"{mechanism.name} has {rows} rows of {mechanism.built_from_table}"
                raise ValueError(f"{WHO}: {table}, but the domain has {size} options.")

    def planned(self, needs: Needs) -> Task:
        """The same task with what a plan settles; a sentence where it cannot be done so."""
        del needs
        return self

    @property
    def round_asked(self) -> int | None:
        """The only round that a plan of this task is for; None where it is for all of them."""
        return None

    def demand_round(self, number: int) -> None:
        """Stop where a plan of this task is not for that round."""
        del number

    # --- its error --------------------------------------------------------------------------------------------

    @abstractmethod
    def sample(self, mechanism: Mechanism) -> Array:
        """A few users who stand for all, in the unit of the mechanism."""

    @abstractmethod
    def sensitivity(self, users: int) -> Sensitivity:
        """How far replacing one user moves what is estimated, in ``unit``."""

    def scale(self, mechanism: Mechanism) -> float:
        """How many of ``unit`` one unit of the mechanism is."""
        del mechanism
        return 1.0

    def one_user(self, users: int) -> float:
        """The most that one of so many users moves one estimated number by, in ``unit``."""
        del users
        return 1.0

    def reading(self, mechanism: Mechanism) -> Reading:
        """What the server does with messages, as plans measure it."""
        return mechanism.reading

    @property
    def read_words(self) -> str:
        """What is read of the messages there, where it is not everything; empty where it is."""
        return ""

    def spread(self, mechanism: Mechanism, values: Array, variance: Floats | None = None) -> Floats:
        """The exact variance of each number that is estimated from these users.

        ``variance`` is that of the mechanism's own numbers, where not all of them answer.
        """
        return mechanism.variance(values) if variance is None else variance

    def standard_error(
        self, mechanism: Mechanism, users: int, variance: Callable[[Array], Floats] | None = None
    ) -> float:
        """The root mean square error for this many users with such data.

        Users answer independently, so that the variance of a sum over users is proportional to their number, and that
        of a mean to one over it: a few users tell it for any number. ``variance`` is that of the mechanism's own
        numbers for some values, where not all users answer.
        """
        values = mechanism.check(self.sample(mechanism))
        share = len(values) / users if self.averages else users / len(values)
        if mechanism.crowd.by_shuffler:
            # Its noise is drawn once, however many users there are.
            share = 1.0
        spread = self.spread(mechanism, values, None if variance is None else variance(values))
        return self.scale(mechanism) * math.sqrt(max(0.0, float(np.mean(spread)) * share))

    def held(self, mechanism: Mechanism, users: int) -> Integers:
        """How many of so many users with such data hold each option; whole numbers, as near as they come."""
        values = mechanism.check(self.sample(mechanism))
        return apportioned(mechanism.truth(values) / len(values), users)

    def compare(
        self, mechanism: Mechanism, estimate: Estimate, held: Floats, confidence: float
    ) -> tuple[Floats, Floats]:
        """What is estimated too much, and half the intervals' widths, where this is the truth; in ``unit``."""
        scale = self.scale(mechanism)
        return scale * (estimate.value - held), scale * estimate.margin_towards(held, confidence)

    def central_factor(self) -> float:
        """How many times the error of one number with noise a curator has."""
        return 1.0

    def curators(self, users: int) -> Iterable[tuple[Sensitivity, float]]:
        """What a curator could add noise to: how far one user moves it, and its error as a multiple of one number's."""
        return [(self.sensitivity(users), self.central_factor())]

    def drawn_by_law(self, mechanism: Mechanism) -> bool:
        """Whether what ``compare`` needs of an estimate can be drawn by its law, without drawing messages."""
        return isinstance(mechanism.reading, SimulatedReading)

    def apart(self, mechanism: Mechanism, users: int) -> Sequence[tuple[Task, Mechanism, float]]:
        """Tasks whose estimates are independent, each with its mechanism and how its errors count in those of this one.

        All of them together are this one, for so many users.
        """
        del users
        return [(self, mechanism, 1.0)]

    def caveat(self, offered: Sequence[Mechanism]) -> str:
        """What must be said of these mechanisms side by side, besides their errors; empty where there is nothing."""
        del offered
        return ""

    def promises(self, mechanism: Mechanism, users: int) -> dict[str, float]:
        """What a plan of so many users promises besides its error, by name."""
        del mechanism, users
        return {}

    def told(self, promise: Mapping[str, float]) -> list[tuple[str, str]]:
        """The same in words, from what a plan says."""
        del promise
        return []

    # --- from a table to a report -----------------------------------------------------------------------------

    def is_number(self, place: int) -> bool:
        """Whether the column in this place holds numbers."""
        del place
        return self.numeric

    def columns_read(self, named: tuple[str, ...]) -> tuple[str, ...]:
        """The columns that it is read from, where these were named; none: the only one of the table."""
        if len(named) > 1:
            raise ValueError(f"input: the task {self.name!r} reads one column, got {len(named)} of them; name one.")
        return named

    @abstractmethod
    def values(self, column: Column, array: pa.Array) -> Any:
        """The rows of a column as values for the mechanism's check; a sentence if a row holds none or a bad one.

        Where several columns are read, a row is a struct of them.
        """

    @abstractmethod
    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        """The estimate in the users' own words and units."""

    post: ClassVar[tuple[str, ...]] = (NON_NEGATIVE, CONSISTENT)
    """The ways of post-processing that its estimates may be asked for."""

    def adjusted(self, mechanism: Mechanism, estimate: Estimate, quantities: Sequence[Quantity], way: str) -> list[Any]:
        """The values of each of its quantities after post-processing; None where this way says nothing of them."""
        del mechanism, estimate
        return [nearest(quantity, way) for quantity in quantities]

    @property
    def asks_on(self) -> bool:
        """Whether another round may follow, with a plan that this one writes."""
        return False

    def following(self, estimate: Estimate) -> Task | None:
        """What is asked in the next round because of this estimate; None where rounds do not depend on each other."""
        del estimate
        return None

    def options_asked(self, who: str, options: Any) -> Integers:
        """The numbers of the options that somebody asks for, by their labels or numbers; a sentence of ``who``."""
        del options
        raise ValueError(f"{who}: the task {self.name!r} estimates everything; options are for frequencies.")

    def held_of(self, options: Integers, users: int) -> Integers:
        """How many of so many made-up users hold each of those options."""
        raise NotImplementedError(f"{self.name}: nobody can have asked for options.")

    def quantities_of(self, options: Integers, estimate: Estimate, confidence: float) -> list[Quantity]:
        """The estimate of those options in the users' own words."""
        raise NotImplementedError(f"{self.name}: nobody can have asked for options.")

    # --- written down -----------------------------------------------------------------------------------------

    def document(self) -> dict[str, Any]:
        """For JSON: its name, the domain, and what else says which task it is."""
        own = {name: getattr(self, name) for name in self.parameters}
        return {"name": self.name, "domain": self.domain.document(), **own}

    @classmethod
    def fields(cls) -> tuple[str, ...]:
        """What its document holds besides the name."""
        return ("domain", *cls.parameters)

    @classmethod
    def of_document(cls, told: Mapping[str, Any], read: Callable[[Mapping[str, Any]], Task]) -> Task:
        """The task of these ``fields``; ``read`` reads the document of another task."""
        del read
        return cls.read(parse(told["domain"]), {name: told[name] for name in cls.parameters})

    @classmethod
    @abstractmethod
    def read(cls, domain: Values, parameters: Mapping[str, Any]) -> Task:
        """The task with this domain and these ``parameters``."""

    @classmethod
    def of_version_1(cls, domain: Values, settings: Mapping[str, Any]) -> Task:
        """The task of a plan file of version 1, which told it by the mechanism's settings only."""
        return cls.read(domain, {name: settings[name] for name in cls.parameters})

    @classmethod
    @abstractmethod
    def from_options(cls, given: Given) -> Task:
        """The task of these options of the command line; a sentence that says what is missing."""

    @classmethod
    def command_name(cls) -> str:
        """What the command line calls it."""
        return cls.name.replace(" ", "-")

    def _demand_kind(self, domain: Values, kind: str) -> Self:
        if domain.kind != kind:
            raise ValueError(f"{TASK}: the task {self.name!r} needs a domain of {kind}, got {domain.kind}.")
        return self


def every_label(domain: Values, count: int) -> tuple[str, ...]:
    """What the report calls the first so many options."""
    return tuple(domain.label(option) for option in range(count))


def apportioned(shares: Floats, users: int) -> Integers:
    """Whole numbers in these proportions to ``users``: rounded down, those with the largest rests one more."""
    exact = shares * users
    whole = np.floor(exact).astype(np.int64)
    missing = max(0, round(float(exact.sum())) - int(whole.sum()))
    whole[np.argsort(whole - exact, kind="stable")[:missing]] += 1
    return whole
