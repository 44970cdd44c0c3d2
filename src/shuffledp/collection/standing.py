"""``Standing``: what one population has given so far, according to a ledger."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from shuffledp.collection.account import Budget, Entry
from shuffledp.collection.chain import Head
from shuffledp.document import epsilon_is, epsilon_text, typed
from shuffledp.privacy.value import BoundValue
from shuffledp.statement.condition import NEIGHBOURS, RANDOMNESS, SHUFFLER
from shuffledp.statement.statement import Statement

DAY = len("2026-01-01")
PLAN_DIGITS = 8
"""Of a plan's fingerprint, as people are shown it."""


def _round(entry: Entry) -> str:
    """Which round of which plan an entry is, where it says so."""
    return "" if entry.plan is None else f", plan {entry.plan[:PLAN_DIGITS]}, round {entry.round_words}"


@dataclass(frozen=True)
class Standing:
    """One population: its collections, and what they amount to together."""

    population: str
    entries: tuple[Entry, ...]
    budget: Budget | None
    epsilon: float
    """At ``delta``."""
    delta: float
    spent: float
    """ε at the budget's δ; where there is no budget, at ``delta``."""
    head: Head
    """Where the ledger stood."""
    accepted: tuple[str, ...] = ()
    """When the ledger was found to be another than the one last seen, and accepted as it was."""
    warnings: tuple[str, ...] = ()
    """A sentence for each thing that somebody should look at: a name that is new, a budget that is spent."""

    @property
    def left(self) -> float | None:
        """ε that is not spent yet, at the budget's δ; None where there is no budget."""
        return None if self.budget is None else max(0.0, self.budget.epsilon - self.spent)

    def conditions(self) -> tuple[str, ...]:
        """What must be so for all that the population was promised."""
        own = (sentence for entry in self.entries for sentence in entry.recipe.premises())
        count = len(self.entries)
        entries = "This collection is" if count == 1 else f"These {count:,} collections are"
        entries = f"{entries} all that was released about these people."
        people = "Whoever takes part in several of them is counted in each; one row a person, or as the entry says."
        return tuple(dict.fromkeys((SHUFFLER, RANDOMNESS, *own, NEIGHBOURS, entries, people)))

    def statement(self, command: str = "") -> Statement:
        """What the population was promised in all, for people who must defend it."""
        if not self.entries:
            raise ValueError(f"ledger: nothing was collected from {self.population!r}, so there is nothing to state.")
        count = len(self.entries)
        theorem = f"{count:,} collection{'s' if count > 1 else ''} composed [VR Lemma 7.2], each by its own theorem"
        value = BoundValue(
            self.epsilon, math.inf, "composition", theorem, certified=True, guarantee=True, delta=self.delta
        )
        budget = [] if self.budget is None else [("budget", f"ε = {typed(self.budget.epsilon)}")]
        entries = [(entry.started[:DAY], f"{entry.task}{_round(entry)}, {entry.mechanism}, "
                    f"{entry.recipe.crowd_words()} users, {epsilon_is(entry.epsilon, 4)} alone")
                   for entry in self.entries]  # fmt: skip
        head = ("ledger", f"{self.head.ledger}, entry {self.head.entries}, hash {self.head.hash}")
        facts = [("population", self.population), *budget, *entries, head]
        return Statement(value, self.conditions(), command=command, facts=facts)

    def document(self) -> dict[str, Any]:
        """For JSON."""
        budget = self.budget
        return {
            "population": self.population,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "budget": None if budget is None else {"epsilon": budget.epsilon, "delta": budget.delta},
            "spent": self.spent,
            "left": self.left,
            "collections": [entry.document() for entry in self.entries],
            "head": self.head.document(),
            "accepted": list(self.accepted),
            "warnings": list(self.warnings),
            "conditions": list(self.conditions()),
        }

    def rows(self) -> list[tuple[str, str]]:
        """What was given so far, and of which budget."""
        told = [(f"{self.population!r} so far", f"{epsilon_is(self.epsilon, 7)} at δ = {typed(self.delta)}")]
        if self.budget is not None:
            whole = f"{typed(self.budget.epsilon)} at δ = {typed(self.budget.delta)}"
            told.append(("of the budget", f"{epsilon_is(self.spent, 7)} of {whole}"))
        return told

    def words(self) -> str:
        """The same in sentences, with where the ledger stands."""
        rounds, budget, head = len(self.entries), self.budget, self.head
        text = (
            f"{self.population!r} has now taken part in {rounds} collection{'s' if rounds > 1 else ''}, "
            f"{epsilon_is(self.epsilon)} at δ = {typed(self.delta)} in all."
        )
        if budget is not None:
            spent = f", of which {epsilon_text(self.spent)} are spent" if budget.delta != self.delta else ""
            text += f" The budget is ε = {typed(budget.epsilon)} at δ = {typed(budget.delta)}{spent}."
        text += f" The ledger is {head.ledger}, and its entry {head.entries} has the hash {head.hash}."
        return " ".join(filter(None, (text, self.accepted_words())))

    def accepted_words(self) -> str:
        """What stays to be said of a ledger that is not the one that was there before; empty where it is."""
        if not self.accepted:
            return ""
        times = ", ".join(time[:DAY] for time in self.accepted)
        return f"This ledger was replaced or restored on {times}; what was given before may be missing."
