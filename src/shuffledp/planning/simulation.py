"""Simulation of plans with artificial users: estimates are drawn from their exact law, for any number of users."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from shuffledp._core import validation
from shuffledp._core.errors import InvalidArgument
from shuffledp._core.formatting import format_epsilon_equation, format_exact, format_percentage
from shuffledp._core.message_phrases import phrase
from shuffledp._core.results_and_value_objects import PrintableResult, Progress
from shuffledp._core.validation import Array, Floats, Integers
from shuffledp.bounds.participation import SAMPLING_SECRECY_CONDITION
from shuffledp.mechanisms.base.estimator import Estimator, SimulableEstimator
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.planning.mechanism_calibration import measure_cost
from shuffledp.planning.plan import Plan
from shuffledp.planning.turnout_guarantees import (
    TurnoutGuarantee,
    guarantee_at_turnout,
    known_sample_epsilon,
    reduced_turnout_guarantees,
)
from shuffledp.sampling.random_sources import resolve_source
from shuffledp.tasks.base import Task
from shuffledp.tasks.heavy_hitters_search import (
    SIMULATED_DATA_DESCRIPTION,
    SearchSimulation,
    SimulatedUsers,
    ValueSearch,
)
from shuffledp.tasks.survey import concatenate_errors

# --- Searches ---


DEFAULT_CONFIDENCE = 0.95


@dataclass(frozen=True)
class SearchOutcome(PrintableResult):
    """The finds of simulated searches, compared with the plan's guarantees; ``print`` it to read it.

    ``recall`` is the fraction of the items above the plan's threshold that were found, ``precision`` the fraction of
    the finds with more users than the plan's floor, ``false_finds`` the mean number of finds without any user, and
    ``covered`` the fraction of intervals that contain the truth.

    Args:
        plan: Plan that was simulated.
        users: Number of simulated users.
        searches: Results of the single searches.
        promised: Guarantees of the plan for this number of users, by name.
        confidence: Confidence of the intervals.

    >>> import shuffledp as sdp
    >>> task = sdp.tasks.HeavyHitters(bits=16, room=1024, keep=60.0, show=80.0, rounds=3)
    >>> plan = sdp.Plan(task, sdp.PoissonDUMP(1024, 160.0, 50_000), users=50_000, epsilon=1.0, delta=1e-8, rounds=3)
    >>> outcome = sdp.simulate(plan, repeats=20)
    >>> outcome.recall > 0.98, outcome.precision > 0.95
    (True, True)
    """

    plan: Plan
    users: int
    searches: tuple[SearchSimulation, ...]
    promised: dict[str, float]
    confidence: float = DEFAULT_CONFIDENCE

    @cached_property
    def guarantee(self) -> TurnoutGuarantee:
        """The privacy guarantee of the plan for the simulated number of users."""
        return guarantee_at_turnout(self.plan, self.users)

    @property
    def repeats(self) -> int:
        """The number of simulated searches."""
        return len(self.searches)

    @property
    def recall(self) -> float:
        """The share of the heavy strings that were found."""
        heavy = sum(one.heavy for one in self.searches)
        return sum(one.recalled for one in self.searches) / heavy if heavy else 1.0

    @property
    def precision(self) -> float:
        """The share of the reported strings whose true count exceeds the promised floor."""
        return float(np.mean(self._true_counts > self.promised["floor"])) if len(self._true_counts) else 1.0

    @property
    def false_finds(self) -> float:
        """The mean number of reported strings per search that nobody holds."""
        return float(np.count_nonzero(self._true_counts == 0)) / self.repeats

    @property
    def covered(self) -> float:
        """The share of the reported intervals that contain the true count."""
        return sum(one.covering_intervals for one in self.searches) / max(1, len(self._true_counts))

    @cached_property
    def _true_counts(self) -> Integers:
        return np.concatenate([one.true_counts for one in self.searches])

    @cached_property
    def reduced_turnout_guarantees(self) -> tuple[TurnoutGuarantee, ...]:
        """The guarantees of the plan if only half or a tenth of the planned users take part."""
        return reduced_turnout_guarantees(self.plan)

    def document(self) -> dict[str, Any]:
        """Returns the JSON document."""
        return {
            "task": self.plan.task.name,
            "mechanism": self.plan.mechanism.name,
            "users": self.users,
            "repeats": self.repeats,
            "data": SIMULATED_DATA_DESCRIPTION,
            "promised": self.promised,
            "recall": self.recall,
            "precision": self.precision,
            "false_finds": self.false_finds,
            "confidence": self.confidence,
            "covered": self.covered,
            "shown": self._mean_per_search("shown"),
            "whole": self._mean_per_search("whole"),
            "exact_law": True,
            "target": {"epsilon": self.plan.epsilon, "delta": self.plan.delta},
            "guarantee": {"users": self.users, "epsilon": self.guarantee.epsilon, "delta": self.plan.delta},
            **self.plan.participation.to_document(),
            "fewer_users": [each.document() for each in self.reduced_turnout_guarantees],
        }

    def _mean_per_search(self, name: str) -> float:
        return float(sum(getattr(one, name) for one in self.searches) / self.repeats)

    @property
    def heading(self) -> str:
        return f"Simulation: {self.plan.task.name}"

    def summary(self) -> list[tuple[str, str]]:
        """Returns the headings and texts of the summary."""
        threshold, floor, delta = self.promised["threshold"], self.promised["floor"], format_exact(self.plan.delta)
        return [
            ("users", f"{self.users:,}, {SIMULATED_DATA_DESCRIPTION}"),
            (
                "simulated searches",
                f"{self.repeats:,}, each with {self._mean_per_search('heavy'):,.1f} items above the threshold",
            ),
            ("threshold", f"{threshold:,.0f} users: each item found with 99% probability"),
            ("of these found", f"{self.recall:.3%}"),
            (
                "finds shown",
                f"{self._mean_per_search('shown'):,.1f}, {self._mean_per_search('whole'):,.1f} of them complete values",
            ),
            (f"finds with more than {floor:,.0f} users", f"{self.precision:.3%}"),
            ("finds without any user", f"{self.false_finds:.3g}, expected {self.promised['false_finds']:.3g}"),
            (f"within {format_percentage(self.confidence)} intervals", f"{self.covered:.2%} of the finds"),
            (f"guarantee for {self.users:,} users", f"{self.guarantee.text} at δ = {delta}"),
            *self.plan.participation.rows(),
            *(
                (f"if {fewer.share} take part", f"{fewer.text} at δ = {delta}")
                for fewer in self.reduced_turnout_guarantees
            ),
        ]

    @property
    def sampling_note(self) -> str:
        """A sentence on the simulation of counts."""
        return "Counts were drawn from their exact law, without messages, in all rounds of every search."

    remark = sampling_note


def simulate_searches(
    plan: Plan,
    task: ValueSearch,
    simulated: SimulatedUsers,
    repeats: int,
    seed: int,
    advance: Callable[[int], None],
    confidence: float = DEFAULT_CONFIDENCE,
) -> SearchOutcome:
    """Simulates ``repeats`` searches with these users."""
    rng, users, searches = np.random.default_rng(seed), int(simulated.counts.sum()), []
    for _ in range(repeats):
        searches.append(task.simulate_search(plan.mechanism, simulated, confidence, rng))
        advance(1)
    return SearchOutcome(plan, users, tuple(searches), plan.task.promises(plan.mechanism, users), confidence)


SIMULATE_PREFIX = "simulate"
MAX_MESSAGES = 10**15
"""Largest number of messages: counts up to here are exact in floats."""
MAX_ENCODED_USERS = 1_000_000
MAX_ENCODING_SECONDS = 10.0
"""Limits if messages must really be encoded: the number of users, and the approximate time."""
ENCODING_BATCH_USERS = 1 << 12
MAX_LISTED_ESTIMATES = 100
"""Largest number of estimates of one collection that are listed individually."""


@dataclass(frozen=True)
class SimulatedExample:
    """The first estimates of one simulated collection: their errors and the margins of their intervals.

    ``truth`` has the true values, if they are as many numbers; otherwise None.
    """

    errors: tuple[float, ...]
    margins: tuple[float, ...]
    truth: tuple[float, ...] | None

    @classmethod
    def from_errors(cls, errors: Floats, margins: Floats, truth: Any) -> SimulatedExample:
        """Takes as many estimates as fit into a plot."""
        listed = slice(MAX_LISTED_ESTIMATES)
        comparable = truth is not None and np.shape(truth) == errors.shape
        return cls(
            tuple(errors[listed].tolist()),
            tuple(margins[listed].tolist()),
            tuple(np.asarray(truth)[listed].tolist()) if comparable else None,
        )


@dataclass(frozen=True)
class Outcome(PrintableResult):
    """The errors of simulated collections, compared with the plan's expectation; ``print`` it to read it.

    Args:
        plan: Plan that was simulated.
        requested_users: Requested number of users.
        users: Simulated number of users; smaller than requested if messages had to be encoded, which takes long.
        repeats: Number of simulated collections.
        expected: Standard error of the plan's mechanism with this number of users.
        simulated_error: Root mean square error of all simulated estimates.
        covered: Fraction of estimates whose own confidence interval contains the truth.
        exact: True if estimates were drawn from their exact law; False if messages were encoded.
        estimates: Number of estimates of each simulated collection.
        example: One of the simulated collections, estimate by estimate.
        confidence: Confidence of the intervals.

    >>> import shuffledp as sdp
    >>> plan = sdp.Plan(sdp.tasks.Frequency(4), sdp.KRR(2.0, 4), users=1000, epsilon=1.0, delta=1e-6)
    >>> outcome = sdp.simulate(plan, users=1e6, repeats=200)
    >>> outcome.exact, outcome.estimates
    (True, 4)
    >>> f"{outcome.ratio:.1f}", outcome.covered > 0.9
    ('1.0', True)
    """

    plan: Plan
    requested_users: int
    users: int
    repeats: int
    expected: float
    simulated_error: float
    covered: float
    exact: bool
    estimates: int
    example: SimulatedExample | None = None
    confidence: float = DEFAULT_CONFIDENCE

    @cached_property
    def reduced_turnout_guarantees(self) -> tuple[TurnoutGuarantee, ...]:
        """The guarantees of the plan if only half or a tenth of the planned users take part."""
        return reduced_turnout_guarantees(self.plan)

    @cached_property
    def guarantee(self) -> TurnoutGuarantee:
        """The privacy guarantee of the plan for the requested number of users."""
        return guarantee_at_turnout(self.plan, self.requested_users)

    @property
    def ratio(self) -> float:
        """The simulated error over the expected one: near 1 if the expectation is correct."""
        return self.simulated_error / self.expected if self.expected else math.inf

    def document(self) -> dict[str, Any]:
        """Returns the JSON document."""
        return {
            "task": self.plan.task.name,
            "mechanism": self.plan.mechanism.name,
            "users": self.users,
            "users_asked_for": self.requested_users,
            "repeats": self.repeats,
            "estimates": self.estimates,
            "data": self.plan.task.data_description,
            "standard_error": {"expected": self.expected, "simulated": self.simulated_error, "ratio": self.ratio},
            "promised": self.plan.promise.get("standard_error"),
            "confidence": self.confidence,
            "covered": self.covered,
            "exact_law": self.exact,
            "example": None if self.example is None else vars(self.example),
            "target": {"epsilon": self.plan.epsilon, "delta": self.plan.delta},
            "guarantee": {"users": self.requested_users, "epsilon": self.guarantee.epsilon, "delta": self.plan.delta},
            **self.plan.participation.to_document(),
            **(
                {"condition": SAMPLING_SECRECY_CONDITION, "if_known": known_sample_epsilon(self.plan)}
                if self.plan.participation.is_sampled
                else {}
            ),
            "fewer_users": [each.document() for each in self.reduced_turnout_guarantees],
            "conditions": list(self.plan.conditions()),
        }

    def summary(self) -> list[tuple[str, str]]:
        """Returns the headings and texts of the summary."""
        task, promised = self.plan.task, self.plan.promise.get("standard_error")
        as_planned = promised is not None and self.requested_users == self.plan.users
        return [
            ("mechanism", self.plan.mechanism.name),
            ("users", f"{self.users:,}, {task.data_description}"),
            ("simulated collections", f"{self.repeats:,}, each with {self.estimates:,} estimates"),
            *([("standard error, promised", f"{promised:.6g}")] if as_planned else []),
            ("standard error, expected", f"{self.expected:.6g} {task.unit}"),
            ("standard error, simulated", f"{self.simulated_error:.6g} ({self.ratio:.4f} of the expected one)"),
            (f"within {format_percentage(self.confidence)} intervals", f"{self.covered:.2%} of the estimates"),
            (
                f"guarantee for {self.requested_users:,} users",
                f"{self.guarantee.text} at δ = {format_exact(self.plan.delta)}",
            ),
            *self.plan.participation.rows(),
            *(
                (f"if {fewer.share} take part", self._format_turnout(fewer))
                for fewer in self.reduced_turnout_guarantees
            ),
            *(
                self.plan.participation.condition_rows(format_epsilon_equation(known_sample_epsilon(self.plan)))
                if self.plan.participation.is_sampled
                else []
            ),
        ]

    def _format_turnout(self, fewer: TurnoutGuarantee) -> str:
        """Returns the guarantee with fewer users, and the target."""
        target = f"target {format_exact(self.plan.epsilon)}"
        return f"{fewer.text} at δ = {format_exact(self.plan.delta)} with {fewer.users:,} users ({target})"

    @property
    def heading(self) -> str:
        return f"Simulation: {self.plan.task.name}"

    @property
    def sampling_note(self) -> str:
        """A sentence on the simulation of estimates."""
        if self.exact:
            return "Estimates were drawn from their exact law, without messages."
        fewer = "" if self.users == self.requested_users else f", of {self.users:,} users as more would take too long"
        return f"Messages were encoded and read{fewer}: the law of this mechanism's estimates cannot be drawn directly."

    remark = sampling_note


@dataclass(frozen=True)
class Simulation:
    """A plan to be tried with simulated users, as ``task.data_description`` describes them."""

    plan: Plan
    users: int
    repeats: int
    seed: int = 0
    options: Integers | None = None
    """The options that are estimated; None for all that the task estimates."""
    confidence: float = DEFAULT_CONFIDENCE

    def __post_init__(self) -> None:
        if self.options is None:
            self.mechanism.check_estimate_memory(SIMULATE_PREFIX)
        object.__setattr__(self, "users", validation.count(SIMULATE_PREFIX, "users", self.users))
        object.__setattr__(self, "repeats", validation.count(SIMULATE_PREFIX, "repeat", self.repeats))
        object.__setattr__(self, "seed", validation.count(SIMULATE_PREFIX, "seed", self.seed, at_least=0))
        level = validation.open_probability(SIMULATE_PREFIX, "confidence", self.confidence, up=True)
        object.__setattr__(self, "confidence", level)
        if self.users * self.mechanism.messages_per_user > MAX_MESSAGES:
            expected = f"expected at most {MAX_MESSAGES:.0e} messages in all"
            raise InvalidArgument(SIMULATE_PREFIX, expected, got="more", hint=phrase("lower {users}"))

    @property
    def mechanism(self) -> Mechanism:
        return self.plan.mechanism

    @property
    def task(self) -> Task:
        return self.plan.task

    def run(self, advance: Callable[[int], None] = lambda done: None) -> Outcome:
        """Runs all repeats; ``advance`` is called after each."""
        rng = np.random.default_rng(self.seed)
        parts = self._parts(self.users)
        exact = all(part.is_exact for part in parts)
        users = min(part.max_encodable_users(self.repeats * len(parts)) for part in parts)
        parts = parts if users == self.users else self._parts(users)
        square, inside, total = 0.0, 0, 0
        example: SimulatedExample | None = None
        for _ in range(self.repeats):
            errors, margins = concatenate_errors([part.simulate(rng) for part in parts])
            example = example or SimulatedExample.from_errors(
                errors, margins, parts[0].truth if len(parts) == 1 else None
            )
            square += float(np.sum(errors**2))
            inside += int(np.sum(np.abs(errors) <= margins))
            total += errors.size
            advance(1)
        return Outcome(
            self.plan, self.users, users, self.repeats, self._expected(users), math.sqrt(square / total),
            inside / total, exact, total // self.repeats, example, self.confidence,
        )  # fmt: skip

    def _expected(self, users: int) -> float:
        """Returns the standard error of the simulated estimates."""
        if self.options is None:
            return self.task.standard_error(self.mechanism, users)
        estimator, counts = (
            self.mechanism.build_estimator(self.options),
            self.task.option_true_counts(self.options, users),
        )
        variance = estimator.variance_at_counts(counts.astype(np.float64), users)
        if variance is None:
            sample = self.mechanism.check(self.task.representative_values(self.mechanism))
            variance = estimator.variance(sample) * (users / len(sample))
        return float(np.sqrt(np.mean(variance)))

    def _parts(self, users: int) -> list[_Part]:
        """Returns the parts of the task that are simulated independently."""
        if self.options is not None:
            return [_Part(self.task, self.mechanism, 1.0, users, self.options, self.confidence)]
        return [
            _Part(*part, users, confidence=self.confidence)
            for part in self.task.independent_parts(self.mechanism, users)
        ]


@dataclass(frozen=True)
class _Part:
    """A task with its mechanism, and the factor of its errors in those of the whole task."""

    task: Task
    mechanism: Mechanism
    factor: float
    users: int
    options: Integers | None = None
    """The options that are estimated; None for all."""
    confidence: float = DEFAULT_CONFIDENCE

    @cached_property
    def estimator(self) -> Estimator:
        """The estimator of everything, or of the chosen options."""
        return self.mechanism.estimator if self.options is None else self.mechanism.build_estimator(self.options)

    @property
    def is_exact(self) -> bool:
        """True if estimates can be drawn from their law, without drawing messages."""
        return isinstance(self.estimator, SimulableEstimator) and self.task.can_draw_estimates(self.mechanism)

    def simulate(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Returns the errors and margins of one simulated collection."""
        errors, margins = self._simulate_by_law(rng) if self.is_exact else self._simulate_by_encoding(rng)
        return self.factor * errors.reshape(-1), self.factor * margins.reshape(-1)

    def _simulate_by_law(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draws estimates from their law."""
        assert isinstance(self.estimator, SimulableEstimator)
        estimate = self.estimator.simulate(self._true_counts, self.users, rng)
        return self.task.compute_errors_and_margins(self.mechanism, estimate, self._true_counts, self.confidence)

    @cached_property
    def _true_counts(self) -> Any:
        """The number of users with each option."""
        if self.options is None:
            return self.task.true_counts(self.mechanism, self.users)
        return self.task.option_true_counts(self.options, self.users)

    @property
    def truth(self) -> Any:
        """The number of users with each option, if that is what is estimated."""
        return self._true_counts if self.is_exact and self.factor == 1.0 and self.task.unit == "users" else None

    def max_encodable_users(self, repeats: int) -> int:
        """Returns the users whose messages can be encoded ``repeats`` times in a short time, if they must be."""
        if self.is_exact:
            return self.users
        sample = self.task.representative_values(self.mechanism)
        cost = measure_cost(self.mechanism, sample, self.estimator)
        affordable = MAX_ENCODING_SECONDS / repeats / (cost.encoding_seconds + cost.reading_seconds)
        # A power of ten, since the measurement is noisy.
        return min(self.users, MAX_ENCODED_USERS, int(10.0 ** max(0, math.floor(math.log10(affordable)))))

    def _simulate_by_encoding(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Computes estimates from real messages of users who repeat the sample."""
        mechanism, users, estimator = self.mechanism, self.users, self.estimator
        sample = mechanism.check(self.task.representative_values(mechanism))
        total: Array | None = None
        for start in range(0, users, ENCODING_BATCH_USERS):
            batch = sample[np.arange(start, min(users, start + ENCODING_BATCH_USERS)) % len(sample)]
            part = estimator.accumulate(mechanism.encode(batch, rng))
            total = part if total is None else total + part
        noise = mechanism.draw_shuffler_messages(resolve_source(rng))
        if noise is not None:
            total = total + estimator.accumulate(noise)
        assert total is not None, "there is at least one user"
        truth = estimator.truth(sample[np.arange(users) % len(sample)])
        return self.task.compute_errors_and_margins(mechanism, estimator.finish(total, users), truth, self.confidence)


def simulate(
    plan: Plan | str | os.PathLike[str],
    users: float | None = None,
    repeats: float = 100,
    seed: float = 0,
    progress: Progress | None = None,
    options: Any = None,
    confidence: float = DEFAULT_CONFIDENCE,
) -> Outcome | SearchOutcome:
    """Simulates collections of a plan and compares their errors with the expected ones.

    Args:
        plan: Plan, or path of its file.
        users: Number of simulated users; None for the planned number.
        repeats: Number of simulated collections.
        seed: Seed of the simulation; the same seed gives the same results.
        progress: Receiver of progress reports.
        options: Options that are estimated, by label or number, if the task is frequency with a domain of any size;
            None for all.
        confidence: Confidence of the intervals whose coverage is measured.

    Returns:
        The errors and the coverage; for heavy hitters, the recall and precision of the searches.

    Raises:
        ValueError: If the plan cannot be read, a number is out of range, or the task does not estimate single options.
        TypeError: If an argument is of the wrong type.

    >>> from shuffledp.mechanisms.frequency.randomized_response import KRR
    >>> from shuffledp.tasks.counts_and_frequencies import Frequency
    >>> plan = Plan(Frequency(4), KRR(2.0, 4), users=1000, epsilon=1.0, delta=1e-6)
    >>> round(simulate(plan, users=1e12, repeats=200).ratio, 1)
    1.0
    """
    plan = Plan.load_if_path(plan)
    task, users = plan.task, plan.users if users is None else users
    numbers = None if options is None else task.parse_options(SIMULATE_PREFIX, options)
    simulation = Simulation(plan, users, repeats, seed, numbers, confidence)  # type: ignore[arg-type]
    with (Progress() if progress is None else progress).step("simulating", simulation.repeats) as advance:
        if isinstance(task, ValueSearch):
            simulated = task.draw_simulated_users(simulation.users)
            return simulate_searches(
                plan, task, simulated, simulation.repeats, simulation.seed, advance, simulation.confidence
            )
        return simulation.run(advance)
