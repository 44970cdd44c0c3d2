"""The ledger: what each population has already given, as a chain of events in a SQLite file or in PostgreSQL.

A collection reserves its share before anything is encoded and settles it with those who really came, or gives it back.
Two runs at once cannot both spend the same budget, and nobody waits while another computes. A reservation counts as
spent until it is given back, so that a killed run is on the safe side.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from shuffledp import argument
from shuffledp.collection import account as accounts, caution
from shuffledp.collection.account import RELEASED, RESERVED, Account, Entry, account_of, normal_name
from shuffledp.collection.chain import Head, LedgerFailed, told
from shuffledp.collection.guarantee import Guarantee, Recipe, TooWeak
from shuffledp.collection.ledger_database import LedgerDatabase
from shuffledp.collection.ledger_file import LedgerFile
from shuffledp.collection.ledger_place import LedgerAddress, place_of
from shuffledp.collection.spending import Spending
from shuffledp.collection.standing import DAY, PLAN_DIGITS, Standing
from shuffledp.collection.witness import Sighting, Witness, data_directory
from shuffledp.planner.plan_file import Plan
from shuffledp.version import __version__

WHO = "ledger"
EVERYONE = "everyone"
"""The population of plans that name none: counting all people together is the safe side."""
DEFAULT_DELTA = 1e-9
FILE_VARIABLE, FILE_NAME = "SHUFFLEDP_LEDGER", "ledger.sqlite"

Payload = Mapping[str, Any]


class RoundTaken(LedgerFailed):
    """The round was released before, or is reserved; nothing was written."""


class Ledger:
    """A ledger that is there; ``Ledger.create`` makes one.

    ``path``: where its file is, or the address of its database, ``postgresql://…``.

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
        self.path = place_of(path)
        self._file = LedgerFile(self.path) if isinstance(self.path, Path) else LedgerDatabase(self.path)
        self._witness = Witness(self.path)
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
    def default_path() -> Path | LedgerAddress:
        """SHUFFLEDP_LEDGER, or this user's own; never a file of the working directory."""
        chosen = os.environ.get(FILE_VARIABLE)
        return place_of(chosen) if chosen else data_directory() / FILE_NAME

    def exists(self) -> bool:
        """Whether there is anything at its place."""
        return self._file.exists()

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

    def mistakable(self, population: str) -> list[str]:
        """A sentence where a population's name is nearly that of another one."""
        account = self._read()
        name = account.known(population)
        near = account.like(name)
        words = f"{WHO}: {name!r} and {near!r} are two populations; if they are the same people, use one name."
        return [words] if near else []

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

    def next_round(self, plan: Plan) -> int:
        """Returns the first round of a plan that is neither released nor reserved; a sentence where there is none."""
        account = self._read()
        taken, name = account.of_plan(plan.fingerprint), normal_name(plan.population)
        mechanism = Recipe.of(plan, plan.users).mechanism
        unnumbered = [
            entry for entry in account.of(name)
            if entry.plan is None and (entry.task, entry.recipe.mechanism) == (plan.task.name, mechanism)
        ]  # fmt: skip
        if unnumbered:
            plural = "s" if len(unnumbered) > 1 else ""
            raise LedgerFailed(
                f"{WHO}: {self.path} has {len(unnumbered)} collection{plural} like this one from before rounds were "
                f"written down; say which round this is by --round."
            )
        for number in plan.round_numbers:
            if number not in taken:
                return number
        waiting = [taken[number] for number in plan.round_numbers if taken[number].state == RESERVED]
        if waiting or len(plan.round_numbers) == 1:
            raise self._taken(plan, (waiting or [taken[plan.round_numbers[0]]])[0])
        raise RoundTaken(
            f"{WHO}: all {plan.rounds} rounds of the plan {plan.fingerprint[:PLAN_DIGITS]} were released, each once; "
            f"plan more rounds to go on."
        )

    def demand_free(self, plan: Plan, round_number: int) -> None:
        """Stop where a round is released or reserved already, before any work is done for it."""
        self._demand_round(self._read(), Guarantee(plan, plan.users, round_number=round_number), None)

    def demand_room(self, guarantee: Guarantee, rounds: int) -> None:
        """Stop where the budget does not allow so many collections like this one: none of them may be in vain."""
        self._spending.learn(guarantee)
        account = self._read()
        name = account.known(guarantee.plan.population)
        budget = account.budgets.get(name)
        if budget is None:
            return
        given = [entry.recipe for entry in account.of(name)]
        spent, total = (
            self._spending.epsilon([*given, *[guarantee.recipe] * times], budget.delta, account.curves)
            for times in (0, rounds)
        )
        if total > budget.epsilon:
            raise TooWeak(f"{WHO}: {rounds} rounds {caution.would_bring(budget, spent, total)}; nothing was collected.")

    def settle(self, id_: str, guarantee: Guarantee, digest: str) -> None:
        """The messages named by ``digest`` are about to be seen: the reservation becomes those who really came.

        Fewer users count more than was reserved, more count less. Saying the same again changes nothing. A round that
        another collection has released is refused.
        """
        self._spending.learn(guarantee)

        self._write(lambda account: self._settled(account, id_, guarantee, digest))

    def give_back(self, id_: str) -> None:
        """Take back a reservation of a collection that never released anything."""

        def decide(account: Account) -> list[Payload]:
            if id_ in account.given_back:
                return []
            if self._entry(account, id_).state == RELEASED:
                raise LedgerFailed(f"{WHO}: collection {id_} was released: what was given cannot be taken back.")
            return [_event(accounts.GIVE_BACK, id=id_)]

        self._write(decide)

    def book(
        self, guarantee: Guarantee, digest: str, reservation: str | None = None, bundles: str | None = None
    ) -> str:
        """Reserve and settle at once what a role hands on, or settle its ``reservation``; returns the collection's id.

        Messages that are already booked for the same people and under the same promise are not counted again. Others
        of a round that was released are refused: whoever sees both learns what the files have sent that are in only
        one of them. ``bundles`` is a hash of the ids of all files that were shuffled.
        """
        self._spending.learn(guarantee)
        id_ = self.new_id()
        found = id_

        def decide(account: Account) -> list[Payload]:
            nonlocal found
            reserved = None if reservation is None else self._entry(account, reservation)
            for entry in account.of(account.known(guarantee.plan.population)):
                if entry.digest == digest and entry.recipe.covers(guarantee.recipe):
                    found = entry.id
                    return []
            if reserved is not None and reserved.state == RESERVED:
                found = reserved.id
                return self._settled(account, reserved.id, guarantee, digest, bundles)
            found = id_
            reservation_made = self._reservation(account, id_, guarantee, digest, bundles)
            return [reservation_made, _settlement(id_, guarantee, digest, bundles)]

        self._write(decide)
        return found

    def has_reserved(self, id_: str) -> bool:
        """Whether this collection is reserved and not released."""
        return self._state(id_) == RESERVED

    def has_released(self, id_: str) -> bool:
        """Whether this collection was released."""
        return self._state(id_) == RELEASED

    def _state(self, id_: str) -> str | None:
        entry = self._read().entries.get(id_)
        return None if entry is None else entry.state

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
        found = [self._standing(account, name, delta) for name in wanted]
        self._keep_curves(account)
        return found

    def _standing(self, account: Account, population: str, delta: float | None) -> Standing:
        entries, budget = account.of(population), account.budgets.get(population)
        if delta is None:
            delta = budget.delta if budget else entries[-1].delta if entries else DEFAULT_DELTA
        recipes = [entry.recipe for entry in entries]
        epsilon = self._spending.epsilon(recipes, delta, account.curves)
        spent = epsilon if budget is None else self._spending.epsilon(recipes, budget.delta, account.curves)
        warnings = caution.new_name(account, population) if entries else []
        if budget is not None and spent >= budget.epsilon:
            warnings.append(caution.is_spent(budget, spent))
        return Standing(
            population, entries, budget, epsilon, delta, spent, account.head, account.accepted, tuple(warnings)
        )

    def warnings(self, plan: Plan, *, ahead: bool = False) -> list[str]:
        """What to look at before a plan is collected: its population's name, and what is left of the budget.

        ``ahead`` also adds up what the population will have given after all rounds of the plan.
        """
        account, name = self._read(), normal_name(plan.population)
        if name not in account.populations:
            return [account.unknown(name)]
        found, budget = caution.new_name(account, name), account.budgets.get(name)
        if budget is None:
            return found
        recipes = [entry.recipe for entry in account.of(name)]
        spent = self._spending.epsilon(recipes, budget.delta, account.curves)
        if spent >= budget.epsilon:
            found.append(caution.is_spent(budget, spent))
        elif ahead:
            guarantee = Guarantee(plan, plan.fewest)
            self._spending.learn(guarantee)
            after = [*recipes, *[guarantee.recipe] * plan.rounds]
            total = self._spending.epsilon(after, budget.delta, account.curves)
            if total > budget.epsilon:
                found.append(f"{WHO}: this plan {caution.would_bring(budget, spent, total)}.")
        self._keep_curves(account)
        return found

    # --- accepting --------------------------------------------------------------------------------------------

    def accept(self) -> None:
        """Go on with a ledger that is not the one last seen here; that stays written in it."""
        account = self._account()
        try:
            seen = self._lost(account, self._witness.last(), self._witness.everywhere(account.head.ledger))
        except LedgerFailed:
            seen = None
        else:
            if seen is None:
                raise LedgerFailed(f"{WHO}: there is nothing to accept: {self.path} is the ledger last seen there.")
        last = None if seen is None else seen.head.document()
        head = None
        while head is None:
            head = self._file.extend(self._account().head, [_event(accounts.ACCEPT, last=last)], {})
        self._witness.remember(head)

    # --- the file ---------------------------------------------------------------------------------------------

    def _account(self) -> Account:
        if not self.exists():
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
        known = self._witness.everywhere(account.head.ledger)
        if self._lost(account, None, known) is not None:
            # Which ledger it is was known only from the file: somebody may have gone on since.
            account = self._account()
        if seen is not None and not account.contains(seen):
            raise LedgerFailed(
                f"{WHO}: {self.path} is not what was last seen there, a ledger of {seen.entries} entries: it was "
                f"replaced, restored or edited; bring that one back, or run `shuffledp ledger accept`."
            )
        if (lost := self._lost(account, None, known)) is not None:
            raise LedgerFailed(
                f"{WHO}: {self.path} is a copy of a ledger that has gone on since, to {lost.head.entries} entries at "
                f"{lost.place}: what was given there is missing here; use that one, or run `shuffledp ledger accept`."
            )
        if not self._witness.knows(account.head.ledger) or account.head.entries > known[0].head.entries:
            self._witness.remember(account.head)
        elif seen is None or account.head.entries > seen.entries:
            self._witness.remember_here(account.head)
        return account

    def _lost(self, account: Account, seen: Head | None, known: Sequence[Sighting]) -> Sighting | None:
        """The first sighting that the ledger does not go on from: of this place, or of its id anywhere."""
        here = [] if seen is None else [Sighting(str(self.path), seen)]
        return next((each for each in [*here, *known] if not account.contains(each.head)), None)

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

    def _keep_curves(self, account: Account) -> None:
        """Store what a reader had to compute, if that can be done at once: no answer depends on it."""
        hashes, contents = self._spending.computed(account.curves)
        if not contents:
            return
        if hashes and not self._witness.is_home(account.head.ledger):
            # A look at a copy must not put it ahead of the ledger itself.
            return
        payloads = [_event(accounts.CURVES, curves=hashes)] if hashes else []
        with suppress(LedgerFailed):
            head = self._file.extend(account.head, payloads, contents, wait=False)
            if head is not None:
                self._spending.kept()
                self._witness.remember(head)

    # --- deciding ---------------------------------------------------------------------------------------------

    def _entry(self, account: Account, id_: str) -> Entry:
        if id_ not in account.entries:
            raise LedgerFailed(f"{WHO}: there is no collection {id_} in {self.path}.")
        return account.entries[id_]

    def _demand_round(
        self,
        account: Account,
        guarantee: Guarantee,
        own: Entry | None,
        digest: str | None = None,
        bundles: str | None = None,
    ) -> None:
        """Refuse a round that another collection has, unless that released the very same messages."""
        plan, number = guarantee.plan, guarantee.round_number
        if number is None:
            return
        if own is not None and own.plan is not None and (own.plan, own.round) != (plan.fingerprint, number):
            raise LedgerFailed(
                f"{WHO}: collection {own.id} was reserved for round {own.round_words} of the plan "
                f"{own.plan[:PLAN_DIGITS]}, got round {number} of the plan {plan.fingerprint[:PLAN_DIGITS]}; give the "
                f"reservation of this one."
            )
        taken = account.of_plan(plan.fingerprint).get(number)
        if taken is None or (own is not None and taken.id == own.id) or (digest is not None and taken.digest == digest):
            return
        raise self._taken(plan, taken, bundles)

    def _taken(self, plan: Plan, entry: Entry, bundles: str | None = None) -> RoundTaken:
        assert entry.round is not None, "rounds are found by their number"
        words = f"{plan.round_words(entry.round)} of the plan {plan.fingerprint[:PLAN_DIGITS]}"
        if entry.state == RESERVED:
            return RoundTaken(
                f"{WHO}: {words} is reserved by the collection {entry.id}; go on with that one, by --resume or "
                f"--reservation, or take it back by `shuffledp ledger forget {entry.id}`, if nothing was seen."
            )
        when = f"{WHO}: {words} was released on {(entry.released or entry.started)[:DAY]}"
        if bundles is not None and bundles == entry.bundles:
            return RoundTaken(f"{when} from the same files, with other noise; use what was released then.")
        more = "or plan more rounds" if plan.rounds == len(plan.round_numbers) else "or plan another search"
        return RoundTaken(
            f"{when}, and a round is released once, from all its files together; encode late ones for the next round, "
            f"{more}."
        )

    def _reservation(
        self,
        account: Account,
        id_: str,
        guarantee: Guarantee,
        digest: str | None = None,
        bundles: str | None = None,
    ) -> Payload:
        plan = guarantee.plan
        population = account.known(plan.population)
        self._demand_round(account, guarantee, None, digest, bundles)
        if plan.ledger:
            self._demand(account, Head.read("plan", plan.ledger), "plan")
        self._afford(account, population, guarantee.recipe)
        self._prepare(account, population, guarantee.recipe)
        return _event(
            accounts.RESERVE, id=id_, population=population, task=plan.task.name, recipe=guarantee.recipe.document(),
            epsilon=told(guarantee.value.upper), delta=plan.delta, software=__version__,
            **({} if plan.minimum is None else {"minimum": plan.minimum}), **_round_told(guarantee),
        )  # fmt: skip

    def _settled(
        self, account: Account, id_: str, guarantee: Guarantee, digest: str, bundles: str | None = None
    ) -> list[Payload]:
        """The settlement of a reservation; nothing, if it is already settled so."""
        before = self._entry(account, id_)
        if account.known(guarantee.plan.population) != before.population:
            raise LedgerFailed(f"{WHO}: collection {id_} was reserved for the population {before.population!r}.")
        if before.state == RELEASED:
            if before.digest != digest:
                raise LedgerFailed(f"{WHO}: collection {id_} was already released, with other messages.")
            if not before.recipe.covers(guarantee.recipe):
                raise LedgerFailed(
                    f"{WHO}: collection {id_} was already settled with {before.users} users, and under another "
                    f"promise than that of {guarantee.users}; what was given cannot be written anew."
                )
            return []
        self._demand_round(account, guarantee, before, digest, bundles)
        if not before.recipe.drawn_alike(guarantee.recipe):
            raise LedgerFailed(
                f"{WHO}: collection {id_} was reserved for {before.recipe.asked} people drawn from "
                f"{before.recipe.drawn_from or 'no more'}, and must be settled as such: those who were drawn and "
                f"stayed away count as drawn."
            )
        self._afford(account, before.population, guarantee.recipe, before)
        self._prepare(account, before.population, guarantee.recipe, before)
        return [_settlement(id_, guarantee, digest, bundles)]

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
            f"{WHO}: this collection {caution.would_bring(budget, spent, total)}; nothing was "
            f"{'released' if reserved else 'collected'}."
        )

    def _prepare(self, account: Account, population: str, recipe: Recipe, reserved: Entry | None = None) -> None:
        """Have what a later look needs of each collection, before anything is locked."""
        others = [entry.recipe for entry in account.of(population) if entry != reserved]
        self._spending.prepare([*others, recipe], account.curves)

    def _demand(self, account: Account, head: Head, who: str) -> None:
        if not account.contains(head):
            raise LedgerFailed(
                f"{who}: expected the ledger {head.ledger[:8]}… with the {head.entries} entries that it had, but "
                f"{self.path} is another one, or was restored or edited; use the one that it began with."
            )


def _event(kind: str, **payload: Any) -> Payload:
    return {"kind": kind, "time": datetime.now(UTC).isoformat(timespec="seconds"), **payload}


def chosen_round(who: str, plan: Plan, given: int | None, ledger: Ledger | None) -> int:
    """Returns the round that is collected: the one that is given, or the next free one of the ledger.

    Where no ledger is kept nobody knows which is next: then a plan of one round is the only one that says it.
    """
    if given is not None:
        plan.identity(given)
        return given
    if ledger is not None:
        return ledger.next_round(plan)
    if len(plan.round_numbers) == 1:
        return plan.round_numbers[0]
    raise ValueError(
        f"{who}: the plan has {plan.rounds} rounds, and no ledger says which of them is next; say it by --round."
    )


def _round_told(guarantee: Guarantee) -> Payload:
    """The plan and round for an event; nothing where no round is said."""
    if guarantee.round_number is None:
        return {}
    plan = guarantee.plan
    return {"plan": plan.fingerprint, "round": guarantee.round_number, "rounds": plan.rounds}


def _settlement(id_: str, guarantee: Guarantee, digest: str, bundles: str | None) -> Payload:
    return _event(
        accounts.SETTLE, id=id_, recipe=guarantee.recipe.document(), epsilon=told(guarantee.value.upper),
        digest=digest, software=__version__, **({"bundles": bundles} if bundles else {}), **_round_told(guarantee),
    )  # fmt: skip
