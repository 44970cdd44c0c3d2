"""What a plan must reach, and what it may cost."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from shuffledp import argument
from shuffledp.bounds.best import QUICK, demand_effort
from shuffledp.bounds.schedule import Schedule
from shuffledp.calibration.target import Target
from shuffledp.document import average_text
from shuffledp.mechanisms import catalogue, visitor
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.planner.pair_promise import PairPromise
from shuffledp.planner.plan_file import demand_honest
from shuffledp.planner.yardstick import Yardstick, yardstick
from shuffledp.privacy.curve import LARGEST_EPSILON
from shuffledp.privacy.space import DistanceMatrix
from shuffledp.tasks.domain import WHO
from shuffledp.tasks.task import Needs, Task

MOST_DELTA = 0.5
LOCAL, SHUFFLER, NOISE = "local", "shuffler", "shuffler-noise"
RESTS = (LOCAL, SHUFFLER, NOISE)
"""What a plan may rest on: a local ε that even the shuffler meets with, the shuffler alone, or that it draws noise."""


@dataclass(frozen=True)
class Limits:
    """What a plan may cost; None where anything goes."""

    bits: int | None = None
    """Bits a user, all messages together."""
    messages: float | None = None
    """Messages a user, on average where their number varies."""
    epsilon_local: float | None = None
    """The local ε that every message must keep even without the shuffler."""

    def __post_init__(self) -> None:
        if self.bits is not None:
            object.__setattr__(self, "bits", argument.count(WHO, "max-bits", self.bits))
        if self.messages is not None:
            most = argument.positive_finite(WHO, "max-messages", self.messages)
            if most < 1:
                raise ValueError(f"{WHO}: max-messages must be at least 1, got {most!r}.")
            object.__setattr__(self, "messages", most)
        if self.epsilon_local is not None:
            most = argument.positive_finite(WHO, "local-epsilon-at-most", self.epsilon_local)
            object.__setattr__(self, "epsilon_local", most)

    def words(self) -> str:
        """The limits in short; empty where there are none."""
        parts = [
            "" if self.bits is None else f"at most {self.bits:,} bits",
            "" if self.messages is None else f"at most {average_text(self.messages)} messages",
            "" if self.epsilon_local is None else f"local ε at most {self.epsilon_local:g}",
        ]
        return ", ".join(filter(None, parts))

    def why_not(self, mechanism: Mechanism) -> str | None:
        """Why a mechanism is beyond the limits; None where it is within them."""
        each = mechanism.messages_per_user
        bits = each * mechanism.message_bits
        if self.messages is not None and each > self.messages:
            return f"sends {average_text(each)} messages a user"
        if self.bits is not None and bits > self.bits:
            return f"sends {average_text(bits)} bits a user"
        if self.epsilon_local is None:
            return None
        local = mechanism.local_epsilon
        if local is None:
            return "a message alone keeps no local ε; the shuffler must be trusted"
        return None if local <= self.epsilon_local else f"needs local ε = {local:.4g}"


@dataclass(frozen=True)
class Goal:
    """A task, how many users there are, and the privacy that they are promised."""

    task: Task
    users: int
    """In each round; on average where coins decide."""
    target: Target
    rounds: int = 1
    limits: Limits = field(default_factory=Limits)
    population: str = "everyone"
    """What the ledger calls them."""
    rests_on: str = LOCAL
    """Which of the two winners is the plan: the best that keeps a local ε, or the best by the shuffler alone."""
    minimum: int | None = None
    """The fewest users with whom the target is to be met; None where that is all of them."""
    colluding: int = 0
    """How many of those hide nobody."""
    target_distances: DistanceMatrix | None = None
    """What every two values are promised, where near ones are promised more than far ones."""
    effort: str = QUICK
    """Which bounds the promise may come from: those that take milliseconds, or all."""
    of: int | None = None
    """Out of how many people the users of a round are drawn; None where they are always the same."""
    rate: str | None = None
    """The probability with which each of them takes part, where a coin decides."""

    def __post_init__(self) -> None:
        if self.rests_on not in RESTS:
            raise ValueError(
                f"{WHO}: rests-on must be {LOCAL}, {SHUFFLER} or {NOISE}, got {argument.shown(self.rests_on)}."
            )
        demand_effort(WHO, self.effort)
        with argument.said_by(WHO, "Schedule"):
            object.__setattr__(self, "users", self.schedule.expected)
        object.__setattr__(self, "rounds", self.schedule.rounds)
        minimum, colluding = demand_honest(self.users, self.minimum, self.colluding)
        object.__setattr__(self, "minimum", minimum)
        object.__setattr__(self, "colluding", colluding)
        if self.target_distances is not None and self.schedule.is_sampled:
            raise ValueError(f"{WHO}: target distances are for all users, not for those who are drawn out of more.")

    def settled(self) -> Goal:
        """The same, where the task has settled what a plan must say of it."""
        inner, limits = self.inner_target, self.limits
        needs = Needs(
            self.users, inner.epsilon, inner.delta, self.rounds, limits.bits, limits.messages, self.rests_on == NOISE
        )
        task = self.task.planned(needs)
        return self if task is self.task else replace(self, task=task)

    @cached_property
    def schedule(self) -> Schedule:
        """Who takes part in each round, and in how many rounds."""
        return Schedule.read({"users": self.users, "of": self.of, "rate": self.rate, "rounds": self.rounds})

    @property
    def least(self) -> Schedule:
        """The schedule with which the target is to be met: that of the fewest users."""
        return self.schedule if self.minimum is None else self.schedule.answered_by(self.minimum, self.target.delta)

    @property
    def fewest(self) -> int:
        """The fewest users with whom the target is to be met."""
        return self.users if self.minimum is None else self.minimum

    def promise_of(self, mechanism: Mechanism) -> PairPromise | None:
        """What every two values are promised by such a mechanism, where they are; a sentence where it cannot be."""
        if self.target_distances is None:
            return None
        return PairPromise(self.target_distances, mechanism, self.target.delta, self.rounds)

    def turnout(self) -> str:
        """How many users there are, in words."""
        least = "" if self.minimum is None else f" ({self.minimum:,} at the least)"
        drawn = f" (drawn: {self.schedule.words()})" if self.schedule.is_sampled else ""
        lost = f", {self.colluding:,} colluding" if self.colluding else ""
        return f"{self.users:,} users{least}{drawn}{lost}"

    @cached_property
    def yardstick(self) -> Yardstick:
        """What a trusted curator would reach, of the same users."""
        found = []
        for sensitivity, factor in self.task.curators(self.users):
            one = yardstick(sensitivity, self.inner_target, self.rounds)
            found.append(Yardstick(one.standard_error * factor, one.noise))
        return min(found, key=lambda one: one.standard_error)

    @property
    def inner_target(self) -> Target:
        """About what the drawn users themselves must be promised; only to choose settings that are then proved."""
        share = float(self.schedule.share)
        epsilon = math.log1p(math.expm1(min(self.target.epsilon, LARGEST_EPSILON)) / share)
        return Target(epsilon, min(MOST_DELTA, self.target.delta / share)) if share < 1 else self.target

    def kinds(self) -> Iterator[tuple[str, type[Mechanism]]]:
        """The names and classes of the mechanisms that do the task, what is built around them included."""
        for name, kind in (catalogue.all_mechanisms() | visitor.registered()).items():
            if self.task.can_use(kind) and kind.built_from_numbers:
                yield name, kind
                yield from ((f"{prefix}-{name}", kind) for prefix in catalogue.worth_trying(kind.examples()[0]))

    def kinds_named(self, name: str) -> list[tuple[str, type[Mechanism]]]:
        """The same for one name, or another that it is known by, whatever is built around the mechanism."""
        name = catalogue.own_name(name)
        wrappers, inner = catalogue.wrappers_of(name)
        every = [known for known in self.kinds() if known[0] == (inner if wrappers else name)]
        return [(name, kind) for _, kind in every]
