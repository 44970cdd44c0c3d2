"""What the events of a ledger amount to: populations, budgets, and the collections that count."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from shuffledp.collection.chain import Event, Head, LedgerFailed, changed
from shuffledp.collection.guarantee import Recipe

CREATE, REGISTER, BUDGET, RESERVE, SETTLE, GIVE_BACK, ACCEPT, CURVES = (
    "create", "register", "budget", "reserve", "settle", "give-back", "accept", "curves",
)  # fmt: skip
RESERVED, RELEASED = "reserved", "released"


def normal_name(population: str) -> str:
    """The one form of a population's name, however it is typed: case, width, marks that are not seen, spaces."""
    if not isinstance(population, str):
        raise TypeError(f"ledger: population must be a name, got {population!r}.")
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", population).casefold())
    name = " ".join("".join(letter for letter in folded if unicodedata.category(letter) != "Cf").split())
    if not name:
        raise ValueError(f"ledger: population must be a name, got {population!r}.")
    return name


@dataclass(frozen=True)
class Entry:
    """One collection: all that is needed to compute its privacy again."""

    id: str
    state: str
    started: str
    released: str | None
    population: str
    task: str
    recipe: Recipe
    epsilon: float
    delta: float
    software: str
    """The version that collected."""
    digest: str | None = None
    """Names the messages that were released."""
    minimum: int | None = None
    """The fewest users with whom the plan's target was to be met; None where that was all who were planned for."""
    plan: str | None = None
    """The fingerprint of the plan; None, as are ``round`` and ``rounds``, in entries of older versions."""
    round: int | None = None
    rounds: int | None = None
    """The number of rounds of the plan."""
    bundles: str | None = None
    """A hash of the ids of the files that were shuffled; None where the messages came otherwise."""

    @property
    def users(self) -> int:
        return self.recipe.users

    @property
    def mechanism(self) -> str:
        """Its name."""
        return str(self.recipe.document()["mechanism"]["name"])

    @property
    def round_words(self) -> str:
        """Such as "3 of 52"; "-" where it was not written down."""
        return "-" if self.round is None else f"{self.round:,} of {self.rounds:,}"

    def document(self) -> dict[str, Any]:
        """For JSON."""
        recipe = self.recipe.document()
        mechanism = recipe.pop("mechanism")
        told = {"mechanism": mechanism["name"], "epsilon_local": mechanism["epsilon"],
                "settings": mechanism["settings"]}  # fmt: skip
        return {name: value for name, value in vars(self).items() if name != "recipe"} | told | recipe


@dataclass(frozen=True)
class Budget:
    """The most that a population may be asked to give."""

    population: str
    epsilon: float
    delta: float


@dataclass(frozen=True)
class Account:
    """A ledger as its events leave it."""

    place: str
    head: Head
    hashes: tuple[str, ...]
    populations: Mapping[str, str]
    """Registered names, each with when."""
    budgets: Mapping[str, Budget]
    entries: Mapping[str, Entry]
    """Collections that count, by their id, in the order of their reservations."""
    given_back: frozenset[str]
    curves: Mapping[str, str]
    """The hashes of stored curves, by their keys."""
    accepted: tuple[str, ...]
    """When the file was accepted though it was not the one last seen."""

    def contains(self, head: Head) -> bool:
        """Whether the ledger once stood there."""
        number = head.entries
        return head.ledger == self.head.ledger and number <= len(self.hashes) and self.hashes[number - 1] == head.hash

    def of(self, population: str) -> tuple[Entry, ...]:
        """The collections of one population."""
        return tuple(entry for entry in self.entries.values() if entry.population == population)

    def of_plan(self, plan: str) -> dict[int, Entry]:
        """The first collection of each round of a plan, by the plan's fingerprint."""
        found: dict[int, Entry] = {}
        for entry in self.entries.values():
            if entry.plan == plan and entry.round is not None:
                found.setdefault(entry.round, entry)
        return found

    def known(self, population: str) -> str:
        """A registered population's name; a sentence for any other."""
        name = normal_name(population)
        if name in self.populations:
            return name
        raise LedgerFailed(self.unknown(name))

    def unknown(self, name: str) -> str:
        """The sentence for a population that is not registered."""
        near = self.like(name)
        meant = f" did you mean {near!r}?" if near else f" it knows {', '.join(sorted(self.populations))}."
        return (
            f"ledger: {self.place} knows no population {name!r};{meant} A new one is registered by "
            f"`shuffledp ledger register {name!r}`."
        )

    def like(self, name: str) -> str | None:
        """The name of another population that this one may be mistaken for; None if there is none."""
        return next(iter(difflib.get_close_matches(name, [one for one in self.populations if one != name], 1)), None)

    def is_new(self, population: str) -> bool:
        """Whether nothing was collected from these people, or for the first time as the last thing that was, while
        others have given before: the name may be a mistake."""
        own = self.of(population)
        others = len(self.entries) - len(own)
        return others > 0 and (not own or (len(own) == 1 and list(self.entries)[-1] == own[0].id))


@dataclass
class _Reading:
    """The account while events are being read."""

    populations: dict[str, str] = field(default_factory=dict)
    budgets: dict[str, Budget] = field(default_factory=dict)
    entries: dict[str, Entry] = field(default_factory=dict)
    given_back: set[str] = field(default_factory=set)
    curves: dict[str, str] = field(default_factory=dict)
    accepted: list[str] = field(default_factory=list)

    def take(self, event: Event) -> None:
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
            self.given_back.add(payload["id"])
        elif event.kind == ACCEPT:
            self.accepted.append(event.time)
        elif event.kind != CURVES:
            raise LedgerFailed(
                f"ledger: entry {event.number} is a {event.kind!r}, which this version does not know; use a newer one."
            )
        self.curves.update(payload.get("curves", {}))

    def _reserve(self, event: Event) -> None:
        payload = event.payload
        self.given_back.discard(payload["id"])
        self.entries[payload["id"]] = Entry(
            payload["id"], RESERVED, event.time, None, payload["population"], payload["task"],
            Recipe.read(payload["recipe"]), float(payload["epsilon"]), float(payload["delta"]), payload["software"],
            minimum=payload.get("minimum"), **_round_in(payload),
        )  # fmt: skip

    def _settle(self, event: Event) -> None:
        payload = event.payload
        before = self.entries[payload["id"]]
        self.entries[before.id] = replace(
            before, state=RELEASED, released=event.time, recipe=Recipe.read(payload["recipe"]),
            epsilon=float(payload["epsilon"]), software=payload["software"], digest=payload["digest"],
            bundles=payload.get("bundles"), **_round_in(payload),
        )  # fmt: skip


def _round_in(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The plan and round that an event names; nothing where it names none."""
    if "plan" not in payload:
        return {}
    return {"plan": str(payload["plan"]), "round": int(payload["round"]), "rounds": int(payload["rounds"])}


def account_of(place: object, events: Iterable[Event]) -> Account:
    """What a chain of events amounts to."""
    reading, hashes, ledger = _Reading(), [], ""
    for event in events:
        hashes.append(event.hash)
        try:
            if event.number == 1:
                if event.kind != CREATE:
                    raise changed(place, 1)
                ledger = str(event.payload["ledger"])
            else:
                reading.take(event)
        except LedgerFailed:
            raise
        except (KeyError, TypeError, ValueError, AttributeError):
            raise changed(place, event.number) from None
    if not hashes:
        raise LedgerFailed(f"ledger: {place} is empty, which no ledger is; restore a copy.")
    return Account(
        str(place), Head(ledger, len(hashes), hashes[-1]), tuple(hashes), reading.populations, reading.budgets,
        reading.entries, frozenset(reading.given_back), reading.curves, tuple(reading.accepted),
    )  # fmt: skip
