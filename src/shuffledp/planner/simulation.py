"""Does a plan keep its promised error? Estimates are drawn by their exact law, for any number of users."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from shuffledp import argument
from shuffledp.array import Array, Floats, Integers
from shuffledp.bounds.schedule import CONDITION
from shuffledp.document import epsilon_is, share_text, typed
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.parts.reading import Reading, SimulatedReading
from shuffledp.planner import cost
from shuffledp.planner.plan_file import Plan
from shuffledp.planner.search_outcome import SearchOutcome, searched
from shuffledp.planner.turnout import Turnout, known_epsilon, turnout, turnouts
from shuffledp.progress import Progress
from shuffledp.readable import Readable
from shuffledp.sampling.random import source_of
from shuffledp.tasks.rehearsal import Searching
from shuffledp.tasks.survey import joined
from shuffledp.tasks.task import Task

WHO = "simulate"
CONFIDENCE = 0.95
MOST_USERS = 10**15
"""Counts of users, and of their messages, are exact floats far beyond this."""
MOST_ENCODED = 1_000_000
ENCODING_SECONDS = 10.0
"""Where messages must really be drawn: most users, and about how long it may take."""
USERS_AT_ONCE = 1 << 12
MOST_SHOWN = 100
"""Estimates of one collection that are told singly."""


@dataclass(frozen=True)
class Example:
    """The first estimates of one simulated collection: by how much each is off, and half its interval's width.

    ``truth``: what is to be estimated, where it is as many numbers; None otherwise.
    """

    errors: tuple[float, ...]
    margins: tuple[float, ...]
    truth: tuple[float, ...] | None

    @classmethod
    def of(cls, errors: Floats, margins: Floats, held: Any) -> Example:
        """Of as many as fit into a picture."""
        truth = np.asarray(held) if held is not None else None
        whole = truth is not None and truth.shape == errors.shape
        return cls(
            tuple(errors[:MOST_SHOWN].tolist()),
            tuple(margins[:MOST_SHOWN].tolist()),
            tuple(truth[:MOST_SHOWN].tolist()) if whole and truth is not None else None,
        )


@dataclass(frozen=True)
class Outcome(Readable):
    """What simulations of a plan found, against what was promised; ``print`` it to read it.

    ``plan``: what was tried. ``repeats``: how many times the collection was simulated.

    >>> import shuffledp as sdp
    >>> plan = sdp.Plan(sdp.tasks.Frequency(4), sdp.KRR(2.0, 4), users=1000, epsilon=1.0, delta=1e-6)
    >>> outcome = sdp.simulate(plan, users=1e6, repeats=200)
    >>> outcome.exact, outcome.estimates
    (True, 4)
    >>> f"{outcome.ratio:.1f}", outcome.covered > 0.9
    ('1.0', True)
    """

    plan: Plan
    asked: int
    """How many users were to be simulated."""
    users: int
    """How many were: fewer where messages had to be encoded and more would have taken long."""
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
    example: Example | None = None
    """One of the simulated collections, estimate by estimate."""
    confidence: float = CONFIDENCE
    """How sure the intervals are."""

    @cached_property
    def fewer(self) -> tuple[Turnout, ...]:
        """What the plan promises if only half or a tenth of the planned users take part."""
        return turnouts(self.plan)

    @cached_property
    def promise(self) -> Turnout:
        """What the plan promises to as many users as were to be simulated."""
        return turnout(self.plan, self.asked)

    @property
    def ratio(self) -> float:
        """Found over expected: near 1 where the promise is kept."""
        return self.found / self.expected if self.expected else math.inf

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "task": self.plan.task.name,
            "mechanism": self.plan.mechanism.name,
            "users": self.users,
            "users_asked_for": self.asked,
            "repeats": self.repeats,
            "estimates": self.estimates,
            "data": self.plan.task.data,
            "standard_error": {"expected": self.expected, "simulated": self.found, "ratio": self.ratio},
            "promised": self.plan.promise.get("standard_error"),
            "confidence": self.confidence,
            "covered": self.covered,
            "exact_law": self.exact,
            "example": None if self.example is None else vars(self.example),
            "target": {"epsilon": self.plan.epsilon, "delta": self.plan.delta},
            "guarantee": {"users": self.asked, "epsilon": self.promise.epsilon, "delta": self.plan.delta},
            **self.plan.schedule.document(),
            **({"condition": CONDITION, "if_known": self._known()} if self.plan.schedule.is_sampled else {}),
            "fewer_users": [each.document() for each in self.fewer],
            "conditions": list(self.plan.conditions()),
        }

    def summary(self) -> list[tuple[str, str]]:
        """The outcome in a few lines: what each is called, and what it is."""
        task, promised = self.plan.task, self.plan.promise.get("standard_error")
        as_planned = promised is not None and self.asked == self.plan.users
        return [
            ("mechanism", self.plan.mechanism.name),
            ("users", f"{self.users:,}, {task.data}"),
            ("simulated collections", f"{self.repeats:,}, each with {self.estimates:,} estimates"),
            *([("standard error, promised", f"{promised:.6g}")] if as_planned else []),
            ("standard error, expected", f"{self.expected:.6g} {task.unit}"),
            ("standard error, simulated", f"{self.found:.6g} ({self.ratio:.4f} of what is expected)"),
            (f"within {share_text(self.confidence)} intervals", f"{self.covered:.2%} of the estimates"),
            (f"promised to {self.asked:,} users", f"{self.promise.words} at δ = {typed(self.plan.delta)}"),
            *self.plan.schedule.rows(),
            *((f"if {each.share} take part", self._weaker(each)) for each in self.fewer),
            *self._condition(),
        ]

    def _condition(self) -> list[tuple[str, str]]:
        """What the promise rests on, where users are drawn."""
        if not self.plan.schedule.is_sampled:
            return []
        return self.plan.schedule.condition(epsilon_is(self._known()))

    def _known(self) -> float:
        """ε of all rounds if everybody learns who was drawn."""
        return known_epsilon(self.plan)

    def _weaker(self, fewer: Turnout) -> str:
        """What is promised then, beside the target."""
        target = f"target {typed(self.plan.epsilon)}"
        return f"{fewer.words} at δ = {typed(self.plan.delta)} with {fewer.users:,} users ({target})"

    @property
    def heading(self) -> str:
        return f"Simulation: {self.plan.task.name}"

    @property
    def how(self) -> str:
        """How estimates were drawn, as a sentence."""
        if self.exact:
            return "Estimates were drawn by their exact law, without drawing messages."
        fewer = "" if self.users == self.asked else f", of {self.users:,} users as more would take long"
        return f"Messages were really encoded and read{fewer}: this mechanism's law has no short cut."

    @property
    def remark(self) -> str:
        return self.how


@dataclass(frozen=True)
class Simulation:
    """A plan to be tried on made-up users: those of ``task.data``."""

    plan: Plan
    users: int
    repeats: int
    seed: int = 0
    options: Integers | None = None
    """Those that are estimated; None for all that the task estimates."""
    confidence: float = CONFIDENCE

    def __post_init__(self) -> None:
        if self.options is None:
            self.mechanism.demand_whole(WHO)
        object.__setattr__(self, "users", argument.count(WHO, "users", self.users))
        object.__setattr__(self, "repeats", argument.count(WHO, "repeat", self.repeats))
        object.__setattr__(self, "seed", argument.count(WHO, "seed", self.seed, at_least=0))
        level = argument.open_probability(WHO, "confidence", self.confidence, up=True)
        object.__setattr__(self, "confidence", level)
        if self.users * self.mechanism.messages_per_user > MOST_USERS:
            raise ValueError(f"{WHO}: expected at most {MOST_USERS:.0e} messages in all, got more; lower --users.")

    @property
    def mechanism(self) -> Mechanism:
        return self.plan.mechanism

    @property
    def task(self) -> Task:
        return self.plan.task

    def run(self, advance: Callable[[int], None] = lambda done: None) -> Outcome:
        """All repeats; ``advance`` is called after each."""
        rng = np.random.default_rng(self.seed)
        parts = self._parts(self.users)
        exact = all(part.exact for part in parts)
        users = min(part.encodable(self.repeats * len(parts)) for part in parts)
        parts = parts if users == self.users else self._parts(users)
        square, inside, total = 0.0, 0, 0
        example: Example | None = None
        for _ in range(self.repeats):
            errors, margins = _together([part.run(rng) for part in parts])
            example = example or Example.of(errors, margins, parts[0].truth if len(parts) == 1 else None)
            square += float(np.sum(errors**2))
            inside += int(np.sum(np.abs(errors) <= margins))
            total += errors.size
            advance(1)
        expected = self._expected(users)
        each = total // self.repeats
        found = math.sqrt(square / total)
        return Outcome(
            self.plan,
            self.users,
            users,
            self.repeats,
            expected,
            found,
            inside / total,
            exact,
            each,
            example,
            self.confidence,
        )

    def _expected(self, users: int) -> float:
        """The standard error of what is estimated."""
        if self.options is None:
            return self.task.standard_error(self.mechanism, users)
        reading, held = self.mechanism.reading_of(self.options), self.task.held_of(self.options, users)
        variance = reading.variance_where(held.astype(np.float64), users)
        if variance is None:
            sample = self.mechanism.check(self.task.sample(self.mechanism))
            variance = reading.variance(sample) * (users / len(sample))
        return float(np.sqrt(np.mean(variance)))

    def _parts(self, users: int) -> list[_Part]:
        """What is simulated, each by itself."""
        if self.options is not None:
            return [_Part(self.task, self.mechanism, 1.0, users, self.options, self.confidence)]
        return [_Part(*part, users, confidence=self.confidence) for part in self.task.apart(self.mechanism, users)]


@dataclass(frozen=True)
class _Part:
    """A task that is estimated by a mechanism, whose errors count so many times in those of all."""

    task: Task
    mechanism: Mechanism
    factor: float
    users: int
    options: Integers | None = None
    """Those that are asked for; None where it is everything."""
    confidence: float = CONFIDENCE

    @cached_property
    def reading(self) -> Reading:
        """Of all that is estimated, or of the options that are asked for."""
        return self.mechanism.reading if self.options is None else self.mechanism.reading_of(self.options)

    @property
    def exact(self) -> bool:
        """Whether estimates can be drawn by their law, without drawing messages."""
        return isinstance(self.reading, SimulatedReading) and self.task.drawn_by_law(self.mechanism)

    def run(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Errors and half the intervals' widths of one simulated collection."""
        errors, margins = self._drawn(rng) if self.exact else self._encoded(rng)
        return self.factor * errors.reshape(-1), self.factor * margins.reshape(-1)

    def _drawn(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Of estimates drawn by their law."""
        assert isinstance(self.reading, SimulatedReading)
        estimate = self.reading.simulate(self._held, self.users, rng)
        return self.task.compare(self.mechanism, estimate, self._held, self.confidence)

    @cached_property
    def _held(self) -> Any:
        """How many users hold each."""
        if self.options is None:
            return self.task.held(self.mechanism, self.users)
        return self.task.held_of(self.options, self.users)

    @property
    def truth(self) -> Any:
        """How many users hold each, where that is what is estimated."""
        return self._held if self.exact and self.factor == 1.0 and self.task.unit == "users" else None

    def encodable(self, repeats: int) -> int:
        """How many users' messages can be encoded so often in a short time, where they must be."""
        if self.exact:
            return self.users
        sample = self.task.sample(self.mechanism)
        spent = cost.measure(self.mechanism, sample, self.reading)
        affordable = ENCODING_SECONDS / repeats / (spent.client + spent.reading)
        # A round number: what a measurement gives is not the same twice.
        return min(self.users, MOST_ENCODED, int(10.0 ** max(0, math.floor(math.log10(affordable)))))

    def _encoded(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """The same from real messages of users who are the sample over and over."""
        mechanism, users, reading = self.mechanism, self.users, self.reading
        sample = mechanism.check(self.task.sample(mechanism))
        total: Array | None = None
        for start in range(0, users, USERS_AT_ONCE):
            own = sample[np.arange(start, min(users, start + USERS_AT_ONCE)) % len(sample)]
            added = reading.accumulate(mechanism.encode(own, rng))
            total = added if total is None else total + added
        drawn = mechanism.drawn_by_shuffler(source_of(rng))
        if drawn is not None:
            total = total + reading.accumulate(drawn)
        assert total is not None, "there is at least one user"
        truth = reading.truth(sample[np.arange(users) % len(sample)])
        return self.task.compare(mechanism, reading.finish(total, users), truth, self.confidence)


def _together(found: Sequence[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """Errors and margins of all parts in one row: a part counts the same however many numbers it has."""
    return found[0] if len(found) == 1 else joined(found)


def simulate(
    plan: Plan | str | os.PathLike[str],
    users: float | None = None,
    repeats: float = 100,
    seed: float = 0,
    progress: Progress | None = None,
    options: Any = None,
    confidence: float = CONFIDENCE,
) -> Outcome | SearchOutcome:
    """Try a plan on made-up users: is the error as promised?

    ``plan`` is a plan or the path of its file; ``users`` how many are made up, as planned where it is None; ``repeats``
    how many collections are simulated; the same ``seed`` gives the same simulations. ``progress`` hears how far it is.
    Where the task is frequency, ``options`` are those that are estimated, by label or number: of a domain of any size.
    ``confidence`` is how sure the intervals are whose share that holds the truth is counted.

    >>> from shuffledp.mechanisms.frequency.krr import KRR
    >>> from shuffledp.tasks.frequency import Frequency
    >>> plan = Plan(Frequency(4), KRR(2.0, 4), users=1000, epsilon=1.0, delta=1e-6)
    >>> round(simulate(plan, users=1e12, repeats=200).ratio, 1)
    1.0
    """
    chosen = Plan.of(plan)
    crowd = chosen.users if users is None else users
    asked = None if options is None else chosen.task.options_asked(WHO, options)
    simulation = Simulation(chosen, crowd, repeats, seed, asked, confidence)  # type: ignore[arg-type]
    task = chosen.task
    with (Progress() if progress is None else progress).step("simulating", simulation.repeats) as advance:
        if isinstance(task, Searching):
            made_up = task.made_up(simulation.users)
            return searched(chosen, task, made_up, simulation.repeats, simulation.seed, advance, simulation.confidence)
        return simulation.run(advance)
