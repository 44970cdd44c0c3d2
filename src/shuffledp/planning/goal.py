"""``Goal``: the task, users and privacy target of a plan, its limits, and the error of a trusted curator."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from shuffledp._core import validation
from shuffledp._core.formatting import format_average
from shuffledp.bounds.participation import Participation
from shuffledp.bounds.registry import QUICK_EFFORT, check_effort
from shuffledp.calibration.targets import Target
from shuffledp.mechanisms import catalogue, plugins
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.numerics.roots import find_crossing
from shuffledp.planning.plan import PairTargets, check_honest_users
from shuffledp.privacy.curve import MAX_EPSILON
from shuffledp.privacy.metric_space import DistanceMatrix
from shuffledp.privacy.tradeoff import gaussian_delta
from shuffledp.tasks.base import Needs, Sensitivity, Task
from shuffledp.tasks.domain import PLAN_PREFIX

# --- Limits ---


MAX_DELTA = 0.5
LOCAL, SHUFFLER, NOISE = "local", "shuffler", "shuffler-noise"
TRUST_ASSUMPTIONS = (LOCAL, SHUFFLER, NOISE)
"""Trust assumptions of a plan: none (a local ε even against the shuffler), the shuffler, or the shuffler and its noise.
"""


@dataclass(frozen=True)
class Limits:
    """Limits of the cost of a plan; None for no limit."""

    bits: int | None = None
    """Bits that a user sends, all messages together."""
    messages: float | None = None
    """Messages that a user sends, on average if their number varies."""
    epsilon_local: float | None = None
    """The local ε that every message must guarantee even without the shuffler."""

    def __post_init__(self) -> None:
        if self.bits is not None:
            object.__setattr__(self, "bits", validation.count(PLAN_PREFIX, "max-bits", self.bits))
        if self.messages is not None:
            most = validation.positive_finite(PLAN_PREFIX, "max-messages", self.messages)
            if most < 1:
                raise ValueError(f"{PLAN_PREFIX}: max-messages must be at least 1, got {most!r}.")
            object.__setattr__(self, "messages", most)
        if self.epsilon_local is not None:
            most = validation.positive_finite(PLAN_PREFIX, "local-epsilon-at-most", self.epsilon_local)
            object.__setattr__(self, "epsilon_local", most)

    def describe(self) -> str:
        """Returns a short text of the limits; empty if there are none."""
        parts = [
            "" if self.bits is None else f"at most {self.bits:,} bits",
            "" if self.messages is None else f"at most {format_average(self.messages)} messages",
            "" if self.epsilon_local is None else f"local ε at most {self.epsilon_local:g}",
        ]
        return ", ".join(filter(None, parts))

    def find_violation(self, mechanism: Mechanism) -> str | None:
        """Returns the reason why a mechanism exceeds the limits; None if it does not."""
        each = mechanism.messages_per_user
        bits = each * mechanism.message_bits
        if self.messages is not None and each > self.messages:
            return f"sends {format_average(each)} messages a user"
        if self.bits is not None and bits > self.bits:
            return f"sends {format_average(bits)} bits a user"
        if self.epsilon_local is None:
            return None
        local = mechanism.local_epsilon
        if local is None:
            return "has no local ε; the shuffler must be trusted"
        return None if local <= self.epsilon_local else f"needs local ε = {local:.4g}"


@dataclass(frozen=True)
class Goal:
    """A task, its users, their participation and the privacy target."""

    task: Task
    users: int
    """Users in each round; the expected number if each person takes part by a coin flip."""
    target: Target
    rounds: int = 1
    limits: Limits = field(default_factory=Limits)
    population: str = "everyone"
    """The name of the population in the ledger."""
    rests_on: str = LOCAL
    """The trust assumption of the mechanism that becomes the plan."""
    minimum: int | None = None
    """The smallest number of users with whom the target must be met; None for all of them."""
    colluding: int = 0
    """The number of those who collude with the analyst and hide nobody."""
    target_distances: DistanceMatrix | None = None
    """The target ε of every two values, if near values are protected more strongly than distant ones."""
    effort: str = QUICK_EFFORT
    """The bounds that may prove the target: "quick" for those that take milliseconds, or "full" for all."""
    of: int | None = None
    """The number of people from whom the users of a round are drawn; None if they are always the same."""
    rate: str | None = None
    """The probability with which each of these people takes part, if a coin flip decides."""

    def __post_init__(self) -> None:
        if self.rests_on not in TRUST_ASSUMPTIONS:
            raise ValueError(
                f"{PLAN_PREFIX}: rests-on must be {LOCAL}, {SHUFFLER} or {NOISE}, got "
                f"{validation.format_value(self.rests_on)}."
            )
        check_effort(PLAN_PREFIX, self.effort)
        with validation.relabel_errors(PLAN_PREFIX, "Participation"):
            object.__setattr__(self, "users", self.participation.expected_users)
        object.__setattr__(self, "rounds", self.participation.rounds)
        minimum, colluding = check_honest_users(self.users, self.minimum, self.colluding)
        object.__setattr__(self, "minimum", minimum)
        object.__setattr__(self, "colluding", colluding)
        if self.target_distances is not None and self.participation.is_sampled:
            raise ValueError(f"{PLAN_PREFIX}: target distances are for all users, not for a sample of them.")

    def with_task_settings(self) -> Goal:
        """Returns the goal with the task's settings chosen for this target."""
        target, limits = self.inner_target, self.limits
        needs = Needs(
            self.users, target.epsilon, target.delta, self.rounds, limits.bits, limits.messages, self.rests_on == NOISE
        )
        task = self.task.choose_settings(needs)
        return self if task is self.task else replace(self, task=task)

    @cached_property
    def participation(self) -> Participation:
        """The participation in each round, and the number of rounds."""
        return Participation.from_document(
            {"users": self.users, "of": self.of, "rate": self.rate, "rounds": self.rounds}
        )

    @property
    def least_participation(self) -> Participation:
        """The participation of the fewest users with whom the target must be met."""
        planned = self.participation
        return planned if self.minimum is None else planned.with_respondents(self.minimum, self.target.delta)

    @property
    def fewest(self) -> int:
        """The smallest number of users with whom the target must be met."""
        return self.users if self.minimum is None else self.minimum

    def build_pair_targets(self, mechanism: Mechanism) -> PairTargets | None:
        """Returns the targets of pairs of values; None if there are none.

        Raises ValueError if the mechanism has no distances.
        """
        if self.target_distances is None:
            return None
        return PairTargets(self.target_distances, mechanism, self.target.delta, self.rounds)

    def describe_users(self) -> str:
        """Returns a text of the number of users."""
        minimum = "" if self.minimum is None else f" (at least {self.minimum:,})"
        drawn = f" (drawn: {self.participation.describe()})" if self.participation.is_sampled else ""
        colluding = f", {self.colluding:,} colluding" if self.colluding else ""
        return f"{self.users:,} users{minimum}{drawn}{colluding}"

    @cached_property
    def central_baseline(self) -> CentralBaseline:
        """The error of a trusted curator with the same users."""
        baselines = []
        for sensitivity, factor in self.task.curator_statistics(self.users):
            baseline = compute_central_baseline(sensitivity, self.inner_target, self.rounds)
            baselines.append(replace(baseline, standard_error=baseline.standard_error * factor))
        return min(baselines, key=lambda baseline: baseline.standard_error)

    @property
    def inner_target(self) -> Target:
        """The approximate target without the amplification by sampling, for choosing settings that are then proved."""
        share = float(self.participation.share)
        if share == 1:
            return self.target
        epsilon = math.log1p(math.expm1(min(self.target.epsilon, MAX_EPSILON)) / share)
        return Target(epsilon, min(MAX_DELTA, self.target.delta / share))

    def usable_mechanisms(self) -> Iterator[tuple[str, type[Mechanism]]]:
        """Yields the names and classes of the mechanisms that can do the task, also inside wrappers."""
        for name, kind in (catalogue.all_mechanisms() | plugins.registered_mechanisms()).items():
            if self.task.can_use(kind) and kind.has_numeric_settings:
                yield name, kind
                yield from ((f"{prefix}-{name}", kind) for prefix in catalogue.wrapper_candidates(kind.examples()[0]))

    def find_mechanisms(self, name: str) -> list[tuple[str, type[Mechanism]]]:
        """Returns the canonical name and the class of the mechanism with this name; empty if the task cannot use it."""
        name = catalogue.canonical_name(name)
        wrappers, inner = catalogue.split_wrappers(name)
        return [(name, kind) for known, kind in self.usable_mechanisms() if known == (inner if wrappers else name)]


# --- Error of a trusted curator ---

MIN_GAUSSIAN_DISTANCE, MAX_GAUSSIAN_DISTANCE = 1e-9, 1e3
"""Range of the search for the distance between two unit normals."""


@dataclass(frozen=True)
class CentralBaseline:
    """The standard error of each component if a trusted curator adds noise to the exact result."""

    standard_error: float
    noise: str
    """The kind of noise."""


def compute_central_baseline(sensitivity: Sensitivity, target: Target, rounds: int) -> CentralBaseline:
    """Returns the error of Laplace or Gaussian noise, whichever is smaller, for the same target over all rounds.

    Theorem: Laplace mechanism, scale Δ₁·rounds/ε; Gaussian mechanism, the smallest σ whose exact privacy curve meets
        the target, where rounds add up to a distance √rounds·Δ₂/σ.
    Returns: floats, for comparison only.
    """
    laplace = math.sqrt(2.0) * sensitivity.l1 * rounds / target.epsilon
    gaussian = sensitivity.l2 * math.sqrt(rounds) / _gaussian_distance(target)
    return CentralBaseline(laplace, "Laplace") if laplace <= gaussian else CentralBaseline(gaussian, "Gaussian")


def _gaussian_distance(target: Target) -> float:
    """Returns the largest μ for which two unit normals μ apart are within the target."""

    def excess(log_distance: float) -> float:
        delta = float(gaussian_delta(np.array(math.exp(log_distance)), target.epsilon))
        return math.log(delta / target.delta) if delta > 0 else -math.inf

    found = find_crossing(excess, math.log(MIN_GAUSSIAN_DISTANCE), math.log(MAX_GAUSSIAN_DISTANCE), absolute=1e-12)
    return math.exp(found.below)
