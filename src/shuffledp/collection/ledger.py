"""The ledger: what each population has already given, as a chain of events in a SQLite file.

A collection reserves its share before anything is encoded and settles it with those who really came, or gives it back.
Two runs at once cannot both spend the same budget, and nobody waits while another computes. A reservation counts as
spent until it is given back, so that a killed run is on the safe side.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from shuffledp import argument
from shuffledp.collection import account as accounts
from shuffledp.collection.account import RELEASED, RESERVED, Account, Budget, Entry, account_of, normal_name
from shuffledp.collection.chain import Head, LedgerFailed, told
from shuffledp.collection.guarantee import Guarantee, Recipe, TooWeak
from shuffledp.collection.ledger_file import LedgerFile
from shuffledp.collection.spending import Spending
from shuffledp.collection.witness import Witness, data_directory
from shuffledp.version import __version__

WHO = "ledger"
EVERYONE = "everyone"
"""The population of plans that name none: counting all people together is the safe side."""
DEFAULT_DELTA = 1e-9
FILE_VARIABLE, FILE_NAME = "SHUFFLEDP_LEDGER", "ledger.sqlite"

Payload = Mapping[str, Any]


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

    @property
    def left(self) -> float | None:
        """ε that is not spent yet, at the budget's δ; None where there is no budget."""
        return None if self.budget is None else max(0.0, self.budget.epsilon - self.spent)


class Ledger:
    """A ledger that is there; ``Ledger.create`` makes one.

    ``path``: where its file is.

    >>> import pathlib, tempfile
    >>> from shuffledp.collection import Ledger
    >>> with tempfile.TemporaryDirectory() as room:
    ...     ledger = Ledger.create(pathlib.Path(room, "ledger.sqlite"))
    ...     ledger.register("Readers")
    ...     ledger.set_budget("readers", epsilon=2.0, delta=1e-6)
    ...     (standing,) = ledger.standings("readers")
    >>> standing.budget.epsilon, len(standing.entries), standing.left
    (2.0, 0, 2.0)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._file, self._witness = LedgerFile(self.path), Witness(self.path)
        self._spending = Spending(self._file.curves)

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> Self:
        """A new ledger, which knows the population "everyone"; a file that is there is never touched."""
        ledger = cls(path)
        ledger._file.create([
            _event(accounts.CREATE, ledger=uuid.uuid4().hex, software=__version__),
            _event(accounts.REGISTER, population=EVERYONE),
        ])  # fmt: skip
        if ledger._witness.last() is None:
            ledger._read()
        return ledger

    @staticmethod
    def default_path() -> Path:
        """SHUFFLEDP_LEDGER, or this user's own; never a file of the working directory."""
        chosen = os.environ.get(FILE_VARIABLE)
        return Path(chosen) if chosen else data_directory() / FILE_NAME

    @staticmethod
    def new_id() -> str:
        """A name that no other collection has."""
        return uuid.uuid4().hex

    # --- populations and budgets ------------------------------------------------------------------------------

    def register(self, population: str) -> None:
        """Make a population known; one that is known stays as it is."""
        name = normal_name(population)

        def decide(account: Account) -> list[Payload]:
            return [] if name in account.populations else [_event(accounts.REGISTER, population=name)]

        self._write(decide)

    def set_budget(self, population: str, epsilon: float, delta: float) -> None:
        """Give a population a budget, in place of the one it had."""
        epsilon = argument.positive_finite(WHO, "epsilon", epsilon)
        delta = argument.open_probability(WHO, "delta", delta)

        def decide(account: Account) -> list[Payload]:
            return [_event(accounts.BUDGET, population=account.known(population), epsilon=epsilon, delta=delta)]

        self._write(decide)

    # --- collections ------------------------------------------------------------------------------------------

    def reserve(self, id_: str, guarantee: Guarantee) -> None:
        """Write a collection down before it begins; refuse it if the population's budget does not allow it.

        A collection that is already there, from a run that was killed, is left as it is.
        """
        self._spending.learn(guarantee)

        def decide(account: Account) -> list[Payload]:
            if id_ in account.entries:
                return []
            return [self._reservation(account, id_, guarantee)]

        self._write(decide)

    def settle(self, id_: str, guarantee: Guarantee, digest: str) -> None:
        """The messages named by ``digest`` are about to be seen: the reservation becomes those who really came."""
        self._spending.learn(guarantee)

        def decide(account: Account) -> list[Payload]:
            before = self._entry(account, id_)
            if before.state == RELEASED:
                if before.digest == digest:
                    return []
                raise LedgerFailed(f"{WHO}: collection {id_} was already released, with other messages.")
            if account.known(guarantee.plan.population) != before.population:
                raise LedgerFailed(f"{WHO}: collection {id_} was reserved for the population {before.population!r}.")
            self._afford(account, before.population, guarantee.recipe, before)
            return [_settlement(id_, guarantee, digest)]

        self._write(decide)

    def give_back(self, id_: str) -> None:
        """Take back a reservation of a collection that never released anything."""

        def decide(account: Account) -> list[Payload]:
            if id_ in account.given_back:
                return []
            if self._entry(account, id_).state == RELEASED:
                raise LedgerFailed(f"{WHO}: collection {id_} was released: what was given cannot be taken back.")
            return [_event(accounts.GIVE_BACK, id=id_)]

        self._write(decide)

    def book(self, guarantee: Guarantee, digest: str) -> str:
        """Reserve and settle at once what a role hands on; returns the collection's id.

        Messages that are already booked for the same people and under the same promise are not counted again.
        """
        self._spending.learn(guarantee)
        id_ = self.new_id()
        found = id_

        def decide(account: Account) -> list[Payload]:
            nonlocal found
            for entry in account.of(account.known(guarantee.plan.population)):
                if entry.digest == digest and _no_weaker(guarantee.recipe, entry.recipe):
                    found = entry.id
                    return []
            found = id_
            return [self._reservation(account, id_, guarantee), _settlement(id_, guarantee, digest)]

        self._write(decide)
        return found

    def has_reserved(self, id_: str) -> bool:
        """Whether this collection is reserved and not released."""
        entry = self._read().entries.get(id_)
        return entry is not None and entry.state == RESERVED

    # --- reading ----------------------------------------------------------------------------------------------

    def head(self) -> Head:
        """Where the ledger stands: for reports and plans to quote."""
        return self._read().head

    def demand_contains(self, head: Any, who: str) -> None:
        """Stop unless the ledger once stood at a head, given as ``Head.document()``."""
        self._demand(self._read(), Head.read(who, head), who)

    def standings(self, population: str | None = None, delta: float | None = None) -> list[Standing]:
        """Every population (or one) with its collections.

        ε is told at ``delta``; if that is None, at the budget's δ, or else at that of the last collection.
        """
        if delta is not None:
            delta = argument.open_probability(WHO, "delta", delta)
        account = self._read()
        wanted = sorted(account.populations) if population is None else [account.known(population)]
        return [self._standing(account, name, delta) for name in wanted]

    def _standing(self, account: Account, population: str, delta: float | None) -> Standing:
        entries, budget = account.of(population), account.budgets.get(population)
        if delta is None:
            delta = budget.delta if budget else entries[-1].delta if entries else DEFAULT_DELTA
        recipes = [entry.recipe for entry in entries]
        epsilon = self._spending.epsilon(recipes, delta, account.curves)
        spent = epsilon if budget is None else self._spending.epsilon(recipes, budget.delta, account.curves)
        return Standing(population, entries, budget, epsilon, delta, spent, account.head, account.accepted)

    # --- accepting --------------------------------------------------------------------------------------------

    def accept(self) -> None:
        """Go on with a ledger that is not the one last seen here; that stays written in it."""
        account = self._account()
        try:
            seen = self._witness.last()
        except LedgerFailed:
            seen = None
        else:
            if seen is None or account.contains(seen):
                raise LedgerFailed(f"{WHO}: there is nothing to accept: {self.path} is the ledger last seen there.")
        last = None if seen is None else seen.document()
        head = None
        while head is None:
            head = self._file.extend(self._account().head, [_event(accounts.ACCEPT, last=last)], {})
        self._witness.remember(head)

    # --- the file ---------------------------------------------------------------------------------------------

    def _account(self) -> Account:
        if not os.path.lexists(self.path):
            raise LedgerFailed(self._missing())
        return account_of(self.path, self._file.events())

    def _missing(self) -> str:
        seen = self._witness.last()
        lost = f", though there was one of {seen.entries} entries: restore it" if seen else ""
        return (
            f"{WHO}: there is no ledger at {self.path}{lost}; create it by `shuffledp ledger create`, name another one "
            f"by --ledger, or keep none by --no-ledger."
        )

    def _read(self) -> Account:
        """The ledger as it stands, proved to be what was written, and to go on from what was last seen."""
        # Before the file: others may go on meanwhile, and never back.
        seen = self._witness.last()
        account = self._account()
        if seen is not None and not account.contains(seen):
            raise LedgerFailed(
                f"{WHO}: {self.path} is not what was last seen there, a ledger of {seen.entries} entries: it was "
                f"replaced, restored or edited; bring that one back, or run `shuffledp ledger accept`."
            )
        if seen is None or account.head.entries > seen.entries:
            self._witness.remember(account.head)
        return account

    def _write(self, decide: Callable[[Account], list[Payload]]) -> None:
        """Write what follows from the ledger as it stands when it is written; no lock is held while deciding."""
        while True:
            account = self._read()
            payloads = decide(account)
            if not payloads:
                return
            hashes, contents = self._spending.computed(account.curves)
            if hashes:
                payloads[-1] = {**payloads[-1], "curves": hashes}
            head = self._file.extend(account.head, payloads, contents)
            if head is not None:
                self._spending.kept()
                self._witness.remember(head)
                return

    # --- deciding ---------------------------------------------------------------------------------------------

    def _entry(self, account: Account, id_: str) -> Entry:
        if id_ not in account.entries:
            raise LedgerFailed(f"{WHO}: there is no collection {id_} in {self.path}.")
        return account.entries[id_]

    def _reservation(self, account: Account, id_: str, guarantee: Guarantee) -> Payload:
        plan = guarantee.plan
        population = account.known(plan.population)
        if plan.ledger:
            self._demand(account, Head.read("plan", plan.ledger), "plan")
        self._afford(account, population, guarantee.recipe)
        return _event(
            accounts.RESERVE, id=id_, population=population, task=plan.task.name, recipe=guarantee.recipe.document(),
            epsilon=told(guarantee.value.upper), delta=plan.delta, software=__version__,
            **({} if plan.minimum is None else {"minimum": plan.minimum}),
        )  # fmt: skip

    def _afford(self, account: Account, population: str, recipe: Recipe, reserved: Entry | None = None) -> None:
        """Refuse a collection that would exceed the budget; one that was granted may become smaller."""
        budget = account.budgets.get(population)
        if budget is None or (reserved is not None and reserved.recipe == recipe):
            return
        others = [entry.recipe for entry in account.of(population) if entry != reserved]
        total = self._spending.epsilon([*others, recipe], budget.delta, account.curves)
        if total <= budget.epsilon:
            return
        before = [*others, reserved.recipe] if reserved else others
        spent = self._spending.epsilon(before, budget.delta, account.curves)
        if reserved is not None and total <= spent:
            return
        raise TooWeak(
            f"{WHO}: this collection would bring {population!r} from ε = {spent:.6g} to {total:.6g} at "
            f"δ = {budget.delta:g}, above the budget {budget.epsilon:g}; nothing was "
            f"{'released' if reserved else 'collected'}."
        )

    def _demand(self, account: Account, head: Head, who: str) -> None:
        if not account.contains(head):
            raise LedgerFailed(
                f"{who}: expected the ledger {head.ledger[:8]}… with the {head.entries} entries that it had, but "
                f"{self.path} is another one, or was restored or edited; use the one that it began with."
            )


def _event(kind: str, **payload: Any) -> Payload:
    return {"kind": kind, "time": datetime.now(UTC).isoformat(timespec="seconds"), **payload}


def _settlement(id_: str, guarantee: Guarantee, digest: str) -> Payload:
    return _event(
        accounts.SETTLE, id=id_, recipe=guarantee.recipe.document(), epsilon=told(guarantee.value.upper),
        digest=digest, software=__version__,
    )  # fmt: skip


def _no_weaker(given: Recipe, booked: Recipe) -> bool:
    """Whether what was booked counts at least what is given: the same, with as many users or more."""
    if given.out_of is not None:
        # Of a sample more people are a larger share: neither number is on the safe side.
        return given == booked
    users = {"users": None}
    return given.document() | users == booked.document() | users and given.users >= booked.users
