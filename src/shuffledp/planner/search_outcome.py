"""Does a plan find what it says? Whole searches on made-up users, counts drawn by their exact law."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from shuffledp.array import Integers
from shuffledp.document import share_text, typed
from shuffledp.planner.plan_file import Plan
from shuffledp.planner.turnout import Turnout, turnout, turnouts
from shuffledp.readable import Readable
from shuffledp.tasks.rehearsal import DATA, MadeUp, Rehearsal, Searching

CONFIDENCE = 0.95


@dataclass(frozen=True)
class SearchOutcome(Readable):
    """What simulated searches found, against what was promised; ``print`` it to read it.

    ``recall`` is the share of the items above the plan's threshold that were found, ``precision`` that of what was
    shown and held by more users than the plan's floor, ``false_finds`` how many of what was shown nobody holds, on
    average, ``covered`` the share of intervals that hold the truth.

    >>> import shuffledp as sdp
    >>> asked = sdp.tasks.HeavyHitters(bits=16, room=1024, keep=60.0, show=80.0, rounds=3)
    >>> plan = sdp.Plan(asked, sdp.PoissonDUMP(1024, 160.0, 50_000), users=50_000, epsilon=1.0, delta=1e-8, rounds=3)
    >>> outcome = sdp.simulate(plan, repeats=20)
    >>> outcome.recall > 0.98, outcome.precision > 0.95
    (True, True)
    """

    plan: Plan
    users: int
    searches: tuple[Rehearsal, ...]
    promised: dict[str, float]
    confidence: float = CONFIDENCE

    @cached_property
    def promise(self) -> Turnout:
        """What the plan promises to as many users as were made up."""
        return turnout(self.plan, self.users)

    @property
    def repeats(self) -> int:
        return len(self.searches)

    @property
    def recall(self) -> float:
        heavy = sum(one.heavy for one in self.searches)
        return sum(one.recalled for one in self.searches) / heavy if heavy else 1.0

    @property
    def precision(self) -> float:
        return float(np.mean(self._held > self.promised["floor"])) if len(self._held) else 1.0

    @property
    def false_finds(self) -> float:
        return float(np.count_nonzero(self._held == 0)) / self.repeats

    @property
    def covered(self) -> float:
        return sum(one.inside for one in self.searches) / max(1, len(self._held))

    @cached_property
    def _held(self) -> Integers:
        return np.concatenate([one.held for one in self.searches])

    @cached_property
    def fewer(self) -> tuple[Turnout, ...]:
        """What the plan promises if only half or a tenth of the planned users take part."""
        return turnouts(self.plan)

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "task": self.plan.task.name, "mechanism": self.plan.mechanism.name, "users": self.users,
            "repeats": self.repeats, "data": DATA, "promised": self.promised, "recall": self.recall,
            "precision": self.precision, "false_finds": self.false_finds, "confidence": self.confidence,
            "covered": self.covered, "shown": self._each("shown"), "whole": self._each("whole"), "exact_law": True,
            "target": {"epsilon": self.plan.epsilon, "delta": self.plan.delta},
            "guarantee": {"users": self.users, "epsilon": self.promise.epsilon, "delta": self.plan.delta},
            **self.plan.schedule.document(),
            "fewer_users": [each.document() for each in self.fewer],
        }  # fmt: skip

    def _each(self, name: str) -> float:
        return float(sum(getattr(one, name) for one in self.searches) / self.repeats)

    @property
    def heading(self) -> str:
        return f"Simulation: {self.plan.task.name}"

    def summary(self) -> list[tuple[str, str]]:
        """The outcome in a few lines: what each is called, and what it is."""
        threshold, floor = self.promised["threshold"], self.promised["floor"]
        return [
            ("users", f"{self.users:,}, {DATA}"),
            ("simulated searches", f"{self.repeats:,}, each with {self._each('heavy'):,.1f} items above the threshold"),
            ("threshold", f"{threshold:,.0f} users: each item found with 99% probability"),
            ("found of those", f"{self.recall:.3%}"),
            ("shown", f"{self._each('shown'):,.1f}, {self._each('whole'):,.1f} of them whole values"),
            (f"held by more than {floor:,.0f}", f"{self.precision:.3%} of what is shown"),
            ("held by nobody", f"{self.false_finds:.3g}, where {self.promised['false_finds']:.3g} are expected"),
            (f"within {share_text(self.confidence)} intervals", f"{self.covered:.2%} of what is shown"),
            (f"promised to {self.users:,} users", f"{self.promise.words} at δ = {typed(self.plan.delta)}"),
            *self.plan.schedule.rows(),
            *((f"if {each.share} take part", f"{each.words} at δ = {typed(self.plan.delta)}") for each in self.fewer),
        ]

    @property
    def how(self) -> str:
        """How counts were drawn, as a sentence."""
        return "Counts were drawn by their exact law, without drawing messages; every search is whole, all its rounds."

    @property
    def remark(self) -> str:
        return self.how


def searched(
    plan: Plan,
    task: Searching,
    crowd: MadeUp,
    repeats: int,
    seed: int,
    advance: Callable[[int], None],
    confidence: float = CONFIDENCE,
) -> SearchOutcome:
    """So many searches of these users."""
    rng, users, found = np.random.default_rng(seed), int(crowd.held.sum()), []
    for _ in range(repeats):
        found.append(task.rehearse(plan.mechanism, crowd, confidence, rng))
        advance(1)
    return SearchOutcome(plan, users, tuple(found), plan.task.promises(plan.mechanism, users), confidence)
