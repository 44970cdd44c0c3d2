"""Does a plan keep its promised error? Estimates are drawn by their exact law, for any number of users."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from shuffledp import argument
from shuffledp.array import Array, Floats
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.parts.reading import SimulatedReading
from shuffledp.planner import cost
from shuffledp.planner.plan_file import Plan
from shuffledp.tasks import task as tasks
from shuffledp.tasks.domain import Area, Interval, KeyedInterval
from shuffledp.tasks.task import Task

WHO = "simulate"
CONFIDENCE = 0.95
REACH = 1.959963984540054
"""Standard errors on either side of an estimate in an interval of this confidence."""
MOST_USERS = 10**15
"""Counts of users, and of their messages, are exact floats far beyond this."""
MOST_ENCODED = 1_000_000
ENCODING_SECONDS = 10.0
"""Where messages must really be drawn: most users, and about how long it may take."""
USERS_AT_ONCE = 1 << 12


@dataclass(frozen=True)
class Outcome:
    """What simulations of a plan found, against what was promised."""

    users: int
    repeats: int
    expected: float
    """The standard error that the plan's mechanism has with so many users."""
    found: float
    """The root mean square error of all simulated estimates."""
    covered: float
    """The share of estimates within their own confidence interval of the truth."""
    exact: bool
    """Whether estimates were drawn by their exact law; otherwise messages were really encoded."""
    estimates: int
    """How many numbers each simulation estimates."""

    @property
    def ratio(self) -> float:
        """Found over expected: near 1 where the promise is kept."""
        return self.found / self.expected if self.expected else math.inf


@dataclass(frozen=True)
class Simulation:
    """A plan to be tried on made-up users: those of ``task.data``."""

    plan: Plan
    users: int
    repeats: int
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "users", argument.count(WHO, "users", self.users))
        object.__setattr__(self, "repeats", argument.count(WHO, "repeat", self.repeats))
        object.__setattr__(self, "seed", argument.count(WHO, "seed", self.seed, at_least=0))
        if self.users * self.mechanism.messages_per_user > MOST_USERS:
            raise ValueError(f"{WHO}: expected at most {MOST_USERS:.0e} messages in all, got more; lower --users.")

    @property
    def mechanism(self) -> Mechanism:
        return self.plan.mechanism

    @cached_property
    def task(self) -> Task:
        return task_of(self.plan)

    def run(self, advance: Callable[[int], None] = lambda done: None) -> Outcome:
        """All repeats; ``advance`` is called after each."""
        rng = np.random.default_rng(self.seed)
        exact = isinstance(self.mechanism.reading, SimulatedReading)
        users = self.users if exact else self._encodable()
        square, inside, total = 0.0, 0, 0
        for _ in range(self.repeats):
            errors, spread = self._drawn(users, rng) if exact else self._encoded(users, rng)
            square += float(np.sum(errors**2))
            inside += int(np.sum(np.abs(errors) <= REACH * spread))
            total += errors.size
            advance(1)
        expected = self.task.standard_error(self.mechanism, users)
        each = total // self.repeats
        return Outcome(users, self.repeats, expected, math.sqrt(square / total), inside / total, exact, each)

    def _drawn(self, users: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Errors and standard errors of estimates drawn by their law."""
        reading = self.mechanism.reading
        assert isinstance(reading, SimulatedReading)
        return self.task.compare(self.mechanism, reading.simulate(self._held, users, rng), self._held)

    @cached_property
    def _held(self) -> Any:
        return self.task.held(self.mechanism, self.users)

    def _encodable(self) -> int:
        """How many users' messages can be encoded in a short time."""
        sample = self.task.sample(self.mechanism)
        spent = cost.measure(self.mechanism, sample)
        affordable = ENCODING_SECONDS / self.repeats / (spent.client + spent.reading)
        # A round number: what a measurement gives is not the same twice.
        return min(self.users, MOST_ENCODED, int(10.0 ** max(0, math.floor(math.log10(affordable)))))

    def _encoded(self, users: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """The same from real messages of users who are the sample over and over."""
        sample = self.mechanism.check(self.task.sample(self.mechanism))
        total: Array | None = None
        for start in range(0, users, USERS_AT_ONCE):
            own = sample[np.arange(start, min(users, start + USERS_AT_ONCE)) % len(sample)]
            added = self.mechanism.accumulate(self.mechanism.encode(own, rng))
            total = added if total is None else total + added
        assert total is not None, "there is at least one user"
        truth = self.mechanism.truth(sample[np.arange(users) % len(sample)])
        return self.task.compare(self.mechanism, self.mechanism.finish(total, users), truth)


def task_of(plan: Plan) -> Task:
    """What a plan is about; a sentence for tasks that cannot be simulated."""
    if plan.task not in TASKS:
        raise ValueError(f"{WHO}: expected a plan for {', '.join(TASKS)}, got one for {plan.task!r}.")
    return TASKS[plan.task](plan, plan.mechanism.settings())


def _vectors(plan: Plan, settings: dict[str, Any]) -> Task:
    assert isinstance(plan.domain, Interval), "the plan has checked it"
    dimension = settings["dimension"]
    if dimension == 1:
        return tasks.Mean(plan.domain)
    unit = tasks.UnitVectorMean(dimension=dimension)
    return unit if plan.domain == unit.interval else tasks.BoxedVectorMean(plan.domain, dimension)


def _mean(plan: Plan, settings: dict[str, Any]) -> Task:
    assert isinstance(plan.domain, Interval), "the plan has checked it"
    return tasks.Mean(plan.domain)


def _pairs(plan: Plan, settings: dict[str, Any]) -> Task:
    assert isinstance(plan.domain, KeyedInterval), "the plan has checked it"
    return tasks.KeyValue(plan.domain, settings["items"] if "items" in settings else settings["padding"])


def _location(plan: Plan, settings: dict[str, Any]) -> Task:
    assert isinstance(plan.domain, Area), "the plan has checked it"
    return tasks.Location(plan.domain, settings["columns"], settings["rows"], settings["coordinates"])


TASKS: dict[str, Callable[[Plan, dict[str, Any]], Task]] = {
    "frequency": lambda plan, settings: tasks.Frequency(plan.domain),
    "set-valued": lambda plan, settings: tasks.ItemSets(plan.domain, settings["items"]),
    "mean": _mean,
    "vector mean": _vectors,
    "key-value": _pairs,
    "location": _location,
    "range queries": lambda plan, settings: tasks.Ranges(plan.domain),
}
"""The task of a plan, by its name."""
