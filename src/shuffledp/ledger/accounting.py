"""Accounting of a ledger's events: populations, budgets, collections, and their composed ε."""

from __future__ import annotations

import difflib
import hashlib
import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from shuffledp._core import __version__
from shuffledp._core.formatting import format_epsilon, format_epsilon_equation, format_exact
from shuffledp.ledger.collection_guarantee import (
    CurveInputs,
    Guarantee,
    composed_epsilon,
    compute_entry_curve,
    limit_nonresponse_delta,
)
from shuffledp.ledger.hash_chain import Event, Head, LedgerError, build_tampering_error, format_canonical_json
from shuffledp.privacy.composition import TRUNCATION_SHARE
from shuffledp.privacy.curve import BoundValue, CurveSource, PrivacyCurve
from shuffledp.privacy.sampled_curve import NEGLIGIBLE_DELTA, SampledCurve, SampledDeltas, fingerprint
from shuffledp.statement import NEIGHBOURS_CONDITION, RANDOMNESS_CONDITION, SHUFFLER_CONDITION, Statement

CREATE, REGISTER, BUDGET, RESERVE, SETTLE, GIVE_BACK, ACCEPT, CURVES = (
    "create", "register", "budget", "reserve", "settle", "give-back", "accept", "curves",
)  # fmt: skip
RESERVED, RELEASED = "reserved", "released"


def normalize_population_name(population: str) -> str:
    """Normalises the name of a population: case, width, invisible marks and spaces."""
    if not isinstance(population, str):
        raise TypeError(f"ledger: population must be a name, got {population!r}.")
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", population).casefold())
    name = " ".join("".join(letter for letter in folded if unicodedata.category(letter) != "Cf").split())
    if not name:
        raise ValueError(f"ledger: population must be a name, got {population!r}.")
    return name


@dataclass(frozen=True)
class LedgerEntry:
    """One collection: everything needed to compute its privacy again."""

    id: str
    state: str
    started: str
    released: str | None
    population: str
    task: str
    recipe: CurveInputs
    epsilon: float
    delta: float
    software: str
    """The version that collected."""
    digest: str | None = None
    """The digest of the released messages."""
    minimum: int | None = None
    """The smallest number of users with whom the plan's target had to be met; None for all planned users."""
    plan: str | None = None
    """The fingerprint of the plan; None, as are ``round`` and ``rounds``, in entries of older versions."""
    round: int | None = None
    rounds: int | None = None
    """The number of rounds of the plan."""
    bundles: str | None = None
    """A hash of the ids of the shuffled files; None if the messages came otherwise."""

    @property
    def users(self) -> int:
        return self.recipe.users

    @property
    def mechanism(self) -> str:
        """The name of the mechanism."""
        return str(self.recipe.to_document()["mechanism"]["name"])

    @property
    def round_text(self) -> str:
        """A text such as "3 of 52"; "-" if the round is not recorded."""
        return "-" if self.round is None else f"{self.round:,} of {self.rounds:,}"

    def document(self) -> dict[str, Any]:
        """Returns the JSON document."""
        recipe = self.recipe.to_document()
        mechanism = recipe.pop("mechanism")
        entry = {name: value for name, value in vars(self).items() if name != "recipe"}
        settings = {"mechanism": mechanism["name"], "epsilon_local": mechanism["epsilon"],
                    "settings": mechanism["settings"]}  # fmt: skip
        return entry | settings | recipe


@dataclass(frozen=True)
class Budget:
    """The largest composed ε of a population at δ."""

    population: str
    epsilon: float
    delta: float


@dataclass(frozen=True)
class LedgerState:
    """The state of a ledger after all its events."""

    place: str
    head: Head
    hashes: tuple[str, ...]
    populations: Mapping[str, str]
    """Registered names, each with the time of registration."""
    budgets: Mapping[str, Budget]
    entries: Mapping[str, LedgerEntry]
    """Collections that count, by their id, in the order of their reservations."""
    withdrawn_ids: frozenset[str]
    curves: Mapping[str, str]
    """The hashes of stored curves, by their keys."""
    accepted_times: tuple[str, ...]
    """The times at which the ledger was accepted although it was not the one last seen."""

    def contains(self, head: Head) -> bool:
        """Returns True if the ledger once had this head."""
        number = head.entries
        return head.ledger == self.head.ledger and number <= len(self.hashes) and self.hashes[number - 1] == head.hash

    def find_entries(self, population: str) -> tuple[LedgerEntry, ...]:
        """Returns the collections of one population."""
        return tuple(entry for entry in self.entries.values() if entry.population == population)

    def find_rounds(self, plan: str) -> dict[int, LedgerEntry]:
        """Returns the first collection of each round of the plan with this fingerprint."""
        rounds: dict[int, LedgerEntry] = {}
        for entry in self.entries.values():
            if entry.plan == plan and entry.round is not None:
                rounds.setdefault(entry.round, entry)
        return rounds

    def check_population(self, population: str) -> str:
        """Returns the normal name of a registered population; raises LedgerError for any other."""
        name = normalize_population_name(population)
        if name in self.populations:
            return name
        raise LedgerError(self.format_unknown_population(name))

    def format_unknown_population(self, name: str) -> str:
        """Returns the error message for a population that is not registered."""
        near = self.find_similar_population(name)
        hint = f"did you mean {near!r}?" if near else f"it knows {', '.join(sorted(self.populations))}."
        return (
            f"ledger: {self.place} knows no population {name!r}; {hint} A new one is registered by "
            f"`shuffledp ledger register {name!r}`."
        )

    def find_similar_population(self, name: str) -> str | None:
        """Returns the name of another population that resembles this one; None if there is none."""
        return next(iter(difflib.get_close_matches(name, [one for one in self.populations if one != name], 1)), None)

    def is_new(self, population: str) -> bool:
        """Returns True if a population is new but others have collections, so that its name may be a mistake.

        A population is new if it has no collection, or only one, which is the last of the ledger.
        """
        own = self.find_entries(population)
        others = len(self.entries) - len(own)
        return others > 0 and (not own or (len(own) == 1 and list(self.entries)[-1] == own[0].id))


@dataclass
class _LedgerStateBuilder:
    """The mutable state while events are read."""

    populations: dict[str, str] = field(default_factory=dict)
    budgets: dict[str, Budget] = field(default_factory=dict)
    entries: dict[str, LedgerEntry] = field(default_factory=dict)
    withdrawn_ids: set[str] = field(default_factory=set)
    curves: dict[str, str] = field(default_factory=dict)
    accepted_times: list[str] = field(default_factory=list)

    def apply_event(self, event: Event) -> None:
        payload = event.payload
        if event.kind == REGISTER:
            self.populations.setdefault(payload["population"], event.time)
        elif event.kind == BUDGET:
            name = payload["population"]
            self.budgets[name] = Budget(name, float(payload["epsilon"]), float(payload["delta"]))
        elif event.kind == RESERVE:
            self._reserve(event)
        elif event.kind == SETTLE:
            self._settle(event)
        elif event.kind == GIVE_BACK:
            del self.entries[payload["id"]]
            self.withdrawn_ids.add(payload["id"])
        elif event.kind == ACCEPT:
            self.accepted_times.append(event.time)
        elif event.kind != CURVES:
            raise LedgerError(
                f"ledger: entry {event.number} is a {event.kind!r}, which this version does not know; use a newer one."
            )
        self.curves.update(payload.get("curves", {}))

    def _reserve(self, event: Event) -> None:
        payload = event.payload
        self.withdrawn_ids.discard(payload["id"])
        self.entries[payload["id"]] = LedgerEntry(
            payload["id"],
            RESERVED,
            event.time,
            None,
            payload["population"],
            payload["task"],
            CurveInputs.from_document(payload["recipe"]),
            float(payload["epsilon"]),
            float(payload["delta"]),
            payload["software"],
            minimum=payload.get("minimum"),
            **_read_round_fields(payload),
        )

    def _settle(self, event: Event) -> None:
        payload = event.payload
        before = self.entries[payload["id"]]
        self.entries[before.id] = replace(
            before, state=RELEASED, released=event.time, recipe=CurveInputs.from_document(payload["recipe"]),
            epsilon=float(payload["epsilon"]), software=payload["software"], digest=payload["digest"],
            bundles=payload.get("bundles"), **_read_round_fields(payload),
        )  # fmt: skip


def _read_round_fields(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the plan and round that an event names; empty if it names none."""
    if "plan" not in payload:
        return {}
    return {"plan": str(payload["plan"]), "round": int(payload["round"]), "rounds": int(payload["rounds"])}


def build_ledger_state(place: object, events: Iterable[Event]) -> LedgerState:
    """Adds up a chain of events; raises LedgerError if the chain is empty or invalid."""
    builder, hashes, ledger = _LedgerStateBuilder(), [], ""
    for event in events:
        hashes.append(event.hash)
        try:
            if event.number == 1:
                if event.kind != CREATE:
                    raise build_tampering_error(place, 1)
                ledger = str(event.payload["ledger"])
            else:
                builder.apply_event(event)
        except LedgerError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError):
            raise build_tampering_error(place, event.number) from None
    if not hashes:
        raise LedgerError(f"ledger: {place} is empty, but a ledger has at least one entry; restore a copy.")
    return LedgerState(
        str(place), Head(ledger, len(hashes), hashes[-1]), tuple(hashes), builder.populations, builder.budgets,
        builder.entries, frozenset(builder.withdrawn_ids), builder.curves, tuple(builder.accepted_times),
    )  # fmt: skip


# --- Warnings ---


def format_budget_excess(budget: Budget, spent: float, total: float) -> str:
    """Returns the end of a sentence about a collection that would exceed a budget."""
    return (
        f"would bring {budget.population!r} from ε = {spent:.6g} to {total:.6g} at δ = {format_exact(budget.delta)}, "
        f"above the budget {format_exact(budget.epsilon)}"
    )


def format_spent_warning(budget: Budget, spent: float) -> str:
    """Returns the warning for a budget that is spent."""
    return (
        f"ledger: the budget of {budget.population!r} is spent: ε = {spent:.6g} of {format_exact(budget.epsilon)} at "
        f"δ = {format_exact(budget.delta)}."
    )


def find_new_name_warnings(account: LedgerState, population: str) -> list[str]:
    """Returns a warning if nothing was collected under this name before, but other populations have collections."""
    if not account.is_new(population):
        return []
    near = account.find_similar_population(population)
    condition = f"if {near!r} are the same people" if near else "if these people have another name in it"
    return [
        f"ledger: nothing was collected from {population!r} before in {account.place}; {condition}, their collections "
        f"under that name are not counted."
    ]


# --- Composition ---


CURVE_KEY_PREFIX = b"shuffledp ledger curve\0"


def curve_key(recipe: CurveInputs) -> str:
    """Returns the key of a stored sampled curve, as this version computes it."""
    text = format_canonical_json({"recipe": recipe.to_document(), "software": __version__})
    return hashlib.sha256(CURVE_KEY_PREFIX + text.encode()).hexdigest()


class PrivacyAccountant:
    """Composition of collections to one ε, with a cache of results.

    Curves that take long to compute are sampled and stored. ``stored`` looks up their bytes by key; they are used only
    if the chain of events has their hash (``vouched``), and are computed again otherwise.
    """

    def __init__(self, stored: Callable[[Collection[str]], Mapping[str, bytes]]) -> None:
        self._stored = stored
        self._curves: dict[CurveInputs, PrivacyCurve] = {}
        self._sampled: dict[CurveInputs, SampledCurve] = {}
        self._computed: dict[str, bytes] = {}
        self._epsilons: dict[tuple[frozenset[tuple[CurveInputs, int]], float], float] = {}

    def add_curve(self, guarantee: Guarantee) -> None:
        """Uses the curve that a guarantee has already computed."""
        self._curves.setdefault(guarantee.curve_inputs, guarantee.curve)

    def epsilon(self, recipes: Iterable[CurveInputs], delta: float, vouched: Mapping[str, str]) -> float:
        """Returns an upper bound of ε at δ of all these collections together, with the same people in each."""
        counts = Counter(limit_nonresponse_delta(recipes, delta))
        key = frozenset(counts.items()), delta
        if key not in self._epsilons:
            self._epsilons[key] = self._compose(counts, delta, vouched)
        return self._epsilons[key]

    def precompute(self, recipes: Collection[CurveInputs], vouched: Mapping[str, str]) -> None:
        """Computes the sampled curves of these inputs, so that the next write stores them.

        Equal rounds need none.
        """
        if len(set(recipes)) > 1:
            self._find_sampled_curves(recipes, vouched)

    def find_new_curves(self, vouched: Mapping[str, str]) -> tuple[dict[str, str], dict[str, bytes]]:
        """Returns the sampled curves computed here: the hashes that are not in the chain yet, and the bytes of all."""
        hashes = {key: fingerprint(content) for key, content in self._computed.items()}
        return {key: hash_ for key, hash_ in hashes.items() if vouched.get(key) != hash_}, dict(self._computed)

    def clear_new_curves(self) -> None:
        """Forgets the computed curves, which are stored now."""
        self._computed.clear()

    def _compose(self, counts: Counter[CurveInputs], delta: float, vouched: Mapping[str, str]) -> float:
        # Equal rounds are composed as in their plan, to the last digit; and a very small δ needs the far tails.
        exact = len(counts) <= 1 or delta * TRUNCATION_SHARE < NEGLIGIBLE_DELTA * counts.total()
        curve_of = self._curve if exact else self._find_sampled_curves(counts, vouched).__getitem__
        curves = {recipe: curve_of(recipe) for recipe in sorted(counts, key=curve_key)}
        return composed_epsilon([curve for recipe, curve in curves.items() for _ in range(counts[recipe])], delta)

    def _curve(self, recipe: CurveInputs) -> PrivacyCurve:
        if recipe not in self._curves:
            self._curves[recipe] = _compute_guaranteed_curve(recipe)
        return self._curves[recipe]

    def _find_sampled_curves(
        self, recipes: Collection[CurveInputs], vouched: Mapping[str, str]
    ) -> Mapping[CurveInputs, SampledCurve]:
        missing = {curve_key(recipe): recipe for recipe in recipes if recipe not in self._sampled}
        stored = self._stored([key for key in missing if key in vouched])
        for key, recipe in missing.items():
            content = stored.get(key)
            if content is None or fingerprint(content) != vouched[key]:
                # Computed from a new curve: earlier queries of another one must not change a bit.
                content = self._computed[key] = SampledDeltas.from_curve(_compute_guaranteed_curve(recipe)).to_bytes()
            source = CurveSource(recipe.bound, "connected dots", recipe.users, guarantee=True)
            self._sampled[recipe] = SampledCurve(source, SampledDeltas.from_bytes(content))
        return self._sampled


def _compute_guaranteed_curve(recipe: CurveInputs) -> PrivacyCurve:
    curve = compute_entry_curve(recipe)
    if not curve.guarantee:
        raise ValueError(f"ledger: the bound {recipe.bound} is not a guarantee and cannot be composed.")
    return curve


# --- Budget status ---


DATE_LENGTH = len("2026-01-01")
PLAN_DIGITS = 8
"""Number of shown digits of a plan's fingerprint."""


def _format_round(entry: LedgerEntry) -> str:
    """Returns a text of the plan and round of an entry, if they are recorded."""
    return "" if entry.plan is None else f", plan {entry.plan[:PLAN_DIGITS]}, round {entry.round_text}"


@dataclass(frozen=True)
class BudgetStatus:
    """One population: its collections, their composed ε, and its budget."""

    population: str
    entries: tuple[LedgerEntry, ...]
    budget: Budget | None
    epsilon: float
    """Composed ε at ``delta``."""
    delta: float
    spent: float
    """Composed ε at the budget's δ; without a budget, at ``delta``."""
    head: Head
    """The head of the ledger."""
    accepted_times: tuple[str, ...] = ()
    """The times at which the ledger was accepted although it was not the one last seen."""
    warnings: tuple[str, ...] = ()
    """Sentences about possible problems: a new name, a spent budget."""

    @property
    def remaining(self) -> float | None:
        """The ε that is left at the budget's δ; None without a budget."""
        return None if self.budget is None else max(0.0, self.budget.epsilon - self.spent)

    def conditions(self) -> tuple[str, ...]:
        """Returns the conditions of all guarantees of the population."""
        premises = (sentence for entry in self.entries for sentence in entry.recipe.premises())
        count = len(self.entries)
        entries = "This collection is" if count == 1 else f"These {count:,} collections are"
        return tuple(
            dict.fromkeys((
                SHUFFLER_CONDITION, RANDOMNESS_CONDITION, *premises, NEIGHBOURS_CONDITION,
                f"{entries} all that was released about these people.",
                "A person who takes part in several of them is counted in each, with one row unless the entry says "
                "otherwise.",
            ))
        )  # fmt: skip

    def statement(self, command: str = "") -> Statement:
        """Returns the statement of the total guarantee of the population.

        Raises ValueError if nothing was collected from it.
        """
        if not self.entries:
            raise ValueError(f"ledger: nothing was collected from {self.population!r}, so there is nothing to state.")
        count = len(self.entries)
        theorem = f"{count:,} collection{'s' if count > 1 else ''} composed [VR Lemma 7.2], each by its own theorem"
        value = BoundValue(
            self.epsilon, math.inf, "composition", theorem, certified=True, guarantee=True, delta=self.delta
        )
        budget = [] if self.budget is None else [("budget", f"ε = {format_exact(self.budget.epsilon)}")]
        entries = [(entry.started[:DATE_LENGTH], f"{entry.task}{_format_round(entry)}, {entry.mechanism}, "
                    f"{entry.recipe.format_participants()} users, {format_epsilon_equation(entry.epsilon, 4)} alone")
                   for entry in self.entries]  # fmt: skip
        head = ("ledger", f"{self.head.ledger}, entry {self.head.entries}, hash {self.head.hash}")
        facts = [("population", self.population), *budget, *entries, head]
        return Statement(value, self.conditions(), command=command, facts=facts)

    def document(self) -> dict[str, Any]:
        """Returns the JSON document."""
        budget = self.budget
        return {
            "population": self.population,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "budget": None if budget is None else {"epsilon": budget.epsilon, "delta": budget.delta},
            "spent": self.spent,
            "left": self.remaining,
            "collections": [entry.document() for entry in self.entries],
            "head": self.head.to_document(),
            "accepted": list(self.accepted_times),
            "warnings": list(self.warnings),
            "conditions": list(self.conditions()),
        }

    def summary_rows(self) -> list[tuple[str, str]]:
        """Returns the rows of the summary: the composed ε, and the part of the budget."""
        total = f"{format_epsilon_equation(self.epsilon, 7)} at δ = {format_exact(self.delta)}"
        rows = [(f"{self.population!r} so far", total)]
        if self.budget is not None:
            budget = f"{format_exact(self.budget.epsilon)} at δ = {format_exact(self.budget.delta)}"
            rows.append(("of the budget", f"{format_epsilon_equation(self.spent, 7)} of {budget}"))
        return rows

    def format_text(self) -> str:
        """Returns the sentences of the report, with the head of the ledger."""
        rounds, budget, head = len(self.entries), self.budget, self.head
        text = (
            f"{self.population!r} has now taken part in {rounds} collection{'s' if rounds > 1 else ''}, "
            f"{format_epsilon_equation(self.epsilon)} at δ = {format_exact(self.delta)} in all."
        )
        if budget is not None:
            spent = f", of which {format_epsilon(self.spent)} are spent" if budget.delta != self.delta else ""
            text += f" The budget is ε = {format_exact(budget.epsilon)} at δ = {format_exact(budget.delta)}{spent}."
        text += f" The ledger is {head.ledger}, and its entry {head.entries} has the hash {head.hash}."
        return " ".join(filter(None, (text, self.format_acceptances())))

    def format_acceptances(self) -> str:
        """Returns the sentence about a ledger that was replaced or restored; empty if it never was."""
        if not self.accepted_times:
            return ""
        times = ", ".join(time[:DATE_LENGTH] for time in self.accepted_times)
        return f"This ledger was replaced or restored on {times}; earlier collections may be missing."
