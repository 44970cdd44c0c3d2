"""The ledger: the privacy spent by each population, as a hash chain of events in a SQLite file or in PostgreSQL.

A collection reserves its share before anything is encoded, and settles it with the users who came or gives it back. Two
concurrent runs cannot both spend the same budget, and none waits while another computes. A reservation counts as spent
until it is given back, so that a killed run errs on the safe side.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from shuffledp._core import __version__, validation
from shuffledp._core.errors import GuaranteeTooWeak, InvalidArgument
from shuffledp._core.message_phrases import Phrase, phrase
from shuffledp.ledger import accounting
from shuffledp.ledger.accounting import (
    DATE_LENGTH,
    PLAN_DIGITS,
    RELEASED,
    RESERVED,
    BudgetStatus,
    LedgerEntry,
    LedgerState,
    PrivacyAccountant,
    build_ledger_state,
    normalize_population_name,
)
from shuffledp.ledger.collection_guarantee import CurveInputs, Guarantee
from shuffledp.ledger.hash_chain import Head, LedgerError, to_json_number
from shuffledp.ledger.rollback_guard import HeadRecord, RollbackGuard, data_directory
from shuffledp.ledger.storage import LedgerAddress, LedgerDatabase, LedgerFile, parse_location
from shuffledp.planning.plan import Plan

ERROR_PREFIX = "ledger"
EVERYONE = "everyone"
"""The population of plans that name none: counting all people together is safe."""
DEFAULT_DELTA = 1e-9
FILE_VARIABLE, FILE_NAME = "SHUFFLEDP_LEDGER", "ledger.sqlite"

Payload = Mapping[str, Any]


class RoundTaken(LedgerError):
    """The round was released before or is reserved; nothing was written."""


class Ledger:
    """An existing ledger; ``Ledger.create`` creates one.

    Args:
        path: Path of its file, or address of its database, ``postgresql://…``.

    >>> import pathlib, tempfile
    >>> from shuffledp.collection import Ledger
    >>> with tempfile.TemporaryDirectory() as room:
    ...     ledger = Ledger.create(pathlib.Path(room, "ledger.sqlite"))
    ...     ledger.register("Readers")
    ...     ledger.set_budget("readers", epsilon=2.0, delta=1e-6)
    ...     (status,) = ledger.budget_statuses("readers")
    >>> status.budget.epsilon, len(status.entries), status.remaining
    (2.0, 0, 2.0)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = parse_location(path)
        self._file = LedgerFile(self.path) if isinstance(self.path, Path) else LedgerDatabase(self.path)
        self._rollback_guard = RollbackGuard(self.path)
        self._accountant = PrivacyAccountant(self._file.read_curves)

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> Self:
        """Creates a ledger with the population "everyone"; never changes an existing file.

        Args:
            path: Path of the new file, or address of the database.

        Returns:
            The ledger.

        Raises:
            LedgerError: If there is already a ledger, or it cannot be created.
        """
        ledger = cls(path)
        ledger._file.create([
            _build_event(accounting.CREATE, ledger=uuid.uuid4().hex, software=__version__),
            _build_event(accounting.REGISTER, population=EVERYONE),
        ])  # fmt: skip
        if ledger._rollback_guard.read_last_head() is None:
            ledger._read()
        return ledger

    @staticmethod
    def default_path() -> Path | LedgerAddress:
        """Returns SHUFFLEDP_LEDGER, or the path of this user's own ledger; never a file of the working directory."""
        chosen = os.environ.get(FILE_VARIABLE)
        return parse_location(chosen) if chosen else data_directory() / FILE_NAME

    def exists(self) -> bool:
        """Returns True if there is anything at its path or address."""
        return self._file.exists()

    @staticmethod
    def new_id() -> str:
        """Returns a unique id for a collection."""
        return uuid.uuid4().hex

    # --- Populations and budgets ---

    def register(self, population: str) -> None:
        """Registers a population; does nothing if it is registered.

        Args:
            population: Name of the population.

        Raises:
            ValueError: If the name is empty.
            TypeError: If it is not a text.
            LedgerError: If the ledger cannot be read or written.
        """
        name = normalize_population_name(population)

        def decide(account: LedgerState) -> list[Payload]:
            return [] if name in account.populations else [_build_event(accounting.REGISTER, population=name)]

        self._write(decide)

    def find_similar_name_warnings(self, population: str) -> list[str]:
        """Returns a warning if the name of a population resembles that of another.

        Args:
            population: Name of a registered population.

        Returns:
            The warning, or an empty list.

        Raises:
            LedgerError: If the population is not registered, or the ledger cannot be read.
        """
        account = self._read()
        name = account.check_population(population)
        near = account.find_similar_population(name)
        if not near:
            return []
        return [
            f"{ERROR_PREFIX}: {name!r} and {near!r} are two populations; if they are the same people, use one name."
        ]

    def set_budget(self, population: str, epsilon: float, delta: float) -> None:
        """Sets the budget of a population, in place of any earlier one.

        Args:
            population: Name of a registered population.
            epsilon: Largest composed ε.
            delta: δ at which ε is computed.

        Raises:
            ValueError: If ``epsilon`` or ``delta`` is out of range.
            TypeError: If one of them is not a number.
            LedgerError: If the population is not registered, or the ledger cannot be written.
        """
        epsilon = validation.positive_finite(ERROR_PREFIX, "epsilon", epsilon)
        delta = validation.open_probability(ERROR_PREFIX, "delta", delta)

        def decide(account: LedgerState) -> list[Payload]:
            name = account.check_population(population)
            return [_build_event(accounting.BUDGET, population=name, epsilon=epsilon, delta=delta)]

        self._write(decide)

    # --- Collections ---

    def reserve(self, id_: str, guarantee: Guarantee) -> None:
        """Records a collection before it begins.

        A collection that is already recorded, by a run that was killed, is left as it is.

        Args:
            id_: Id of the collection.
            guarantee: Guarantee of the collection.

        Raises:
            GuaranteeTooWeak: If it would exceed the population's budget.
            RoundTaken: If the round is released or reserved.
            LedgerError: If the population is not registered, or the ledger cannot be written or is not the plan's.
        """
        self._accountant.add_curve(guarantee)

        def decide(account: LedgerState) -> list[Payload]:
            if id_ in account.entries:
                return []
            return [self._build_reservation(account, id_, guarantee)]

        self._write(decide)

    def next_round(self, plan: Plan) -> int:
        """Returns the first round of a plan that is neither released nor reserved.

        Args:
            plan: Plan of the collection.

        Returns:
            The round, from 1.

        Raises:
            RoundTaken: If there is no such round.
            LedgerError: If earlier collections like this one have no round number, or the ledger cannot be read.
        """
        account = self._read()
        taken, name = account.find_rounds(plan.fingerprint), normalize_population_name(plan.population)
        mechanism = CurveInputs.from_plan(plan, plan.users).mechanism
        unnumbered = [
            entry for entry in account.find_entries(name)
            if entry.plan is None and (entry.task, entry.recipe.mechanism) == (plan.task.name, mechanism)
        ]  # fmt: skip
        if unnumbered:
            plural = "s" if len(unnumbered) > 1 else ""
            found = f"{self.path} has {len(unnumbered)} collection{plural}"
            raise LedgerError(
                phrase(
                    f"{ERROR_PREFIX}: {{found}} like this one from before rounds were recorded; give the round by "
                    "{round_number=…}.",
                    found=found,
                )
            )
        for number in plan.round_numbers:
            if number not in taken:
                return number
        waiting = [taken[number] for number in plan.round_numbers if taken[number].state == RESERVED]
        if waiting or len(plan.round_numbers) == 1:
            raise self._build_round_taken_error(plan, (waiting or [taken[plan.round_numbers[0]]])[0])
        raise RoundTaken(
            f"{ERROR_PREFIX}: all {plan.rounds} rounds of the plan {plan.fingerprint[:PLAN_DIGITS]} were released, "
            f"each once; plan more rounds to go on."
        )

    def check_round_is_free(self, plan: Plan, round_number: int) -> None:
        """Checks that a round is neither released nor reserved, before any work is done for it.

        Args:
            plan: Plan of the collection.
            round_number: Round, from 1.

        Raises:
            RoundTaken: If it is released or reserved.
            LedgerError: If the ledger cannot be read.
        """
        self._check_round(self._read(), Guarantee(plan, plan.users, round_number=round_number), None)

    def check_budget(self, guarantee: Guarantee, rounds: int) -> None:
        """Checks that the budget allows several collections like this one, before the first of them.

        Args:
            guarantee: Guarantee of one collection.
            rounds: Number of collections.

        Raises:
            GuaranteeTooWeak: If they would exceed the population's budget.
            LedgerError: If the population is not registered, or the ledger cannot be read.
        """
        self._accountant.add_curve(guarantee)
        account = self._read()
        name = account.check_population(guarantee.plan.population)
        budget = account.budgets.get(name)
        if budget is None:
            return
        earlier = [entry.recipe for entry in account.find_entries(name)]
        spent, total = (
            self._accountant.epsilon([*earlier, *[guarantee.curve_inputs] * times], budget.delta, account.curves)
            for times in (0, rounds)
        )
        if total > budget.epsilon:
            raise GuaranteeTooWeak(
                f"{ERROR_PREFIX}: {rounds} rounds {accounting.format_budget_excess(budget, spent, total)}; "
                f"nothing was collected."
            )

    def settle(self, id_: str, guarantee: Guarantee, digest: str) -> None:
        """Settles a reservation with the users who came, before anyone sees their messages.

        Fewer users than reserved cost more ε, more users less. Repeating the same settlement changes nothing.

        Args:
            id_: Id of the collection.
            guarantee: Guarantee of the users who came.
            digest: Digest of the messages.

        Raises:
            GuaranteeTooWeak: If it would exceed the population's budget.
            RoundTaken: If another collection released or reserved the round.
            LedgerError: If the reservation does not exist or does not match, or the ledger cannot be written.
        """
        self._accountant.add_curve(guarantee)

        self._write(lambda account: self._build_settlement(account, id_, guarantee, digest))

    def give_back(self, id_: str) -> None:
        """Withdraws the reservation of a collection that never released anything.

        Args:
            id_: Id of the collection.

        Raises:
            LedgerError: If the collection was released or does not exist, or the ledger cannot be written.
        """

        def decide(account: LedgerState) -> list[Payload]:
            if id_ in account.withdrawn_ids:
                return []
            if self._find_entry(account, id_).state == RELEASED:
                raise LedgerError(f"{ERROR_PREFIX}: collection {id_} was released, which cannot be taken back.")
            return [_build_event(accounting.GIVE_BACK, id=id_)]

        self._write(decide)

    def book(
        self, guarantee: Guarantee, digest: str, reservation: str | None = None, bundles: str | None = None
    ) -> str:
        """Reserves and settles at once the messages that a role passes on, or settles an existing reservation.

        Messages that are already recorded for the same people with the same guarantee are not counted again. Other
        messages of a released round are rejected: anyone who sees both could find the messages of the files that only
        one of them contains.

        Args:
            guarantee: Guarantee of the users who came.
            digest: Digest of the messages.
            reservation: Id of the reservation to settle; None reserves at once.
            bundles: Hash of the ids of all files that were shuffled.

        Returns:
            The id of the collection.

        Raises:
            GuaranteeTooWeak: If it would exceed the population's budget.
            RoundTaken: If another collection released or reserved the round.
            LedgerError: If the reservation does not exist or does not match, or the ledger cannot be written.
        """
        self._accountant.add_curve(guarantee)
        id_ = self.new_id()
        found = id_

        def decide(account: LedgerState) -> list[Payload]:
            nonlocal found
            reserved = None if reservation is None else self._find_entry(account, reservation)
            for entry in account.find_entries(account.check_population(guarantee.plan.population)):
                if entry.digest == digest and entry.recipe.covers(guarantee.curve_inputs):
                    found = entry.id
                    return []
            if reserved is not None and reserved.state == RESERVED:
                found = reserved.id
                return self._build_settlement(account, reserved.id, guarantee, digest, bundles)
            found = id_
            reservation_made = self._build_reservation(account, id_, guarantee, digest, bundles)
            return [reservation_made, _build_settlement_event(id_, guarantee, digest, bundles)]

        self._write(decide)
        return found

    def has_reserved(self, id_: str) -> bool:
        """Returns True if a collection is reserved and not released.

        Args:
            id_: Id of the collection.

        Returns:
            True if it is.
        """
        return self._find_state(id_) == RESERVED

    def has_released(self, id_: str) -> bool:
        """Returns True if a collection was released.

        Args:
            id_: Id of the collection.

        Returns:
            True if it was.
        """
        return self._find_state(id_) == RELEASED

    def _find_state(self, id_: str) -> str | None:
        entry = self._read().entries.get(id_)
        return None if entry is None else entry.state

    # --- Reading ---

    def head(self) -> Head:
        """Returns the head of the ledger, for reports and plans to quote."""
        return self._read().head

    def check_contains(self, head: Any, who: str) -> None:
        """Checks that the ledger once had a head.

        Args:
            head: Head as ``Head.to_document()`` returns it.
            who: Prefix of error messages.

        Raises:
            ValueError: If ``head`` is not such a document.
            LedgerError: If the ledger never had it, or cannot be read.
        """
        self._check_head(self._read(), Head.from_document(who, head), who)

    def budget_statuses(self, population: str | None = None, delta: float | None = None) -> list[BudgetStatus]:
        """Returns the status of one or of every population.

        Args:
            population: Name of the population; None for all.
            delta: δ at which ε is computed; None for that of the budget or else of the last collection.

        Returns:
            The collections, composed ε and budget of each population.

        Raises:
            ValueError: If ``delta`` is not between 0 and 1.
            LedgerError: If the population is not registered, or the ledger cannot be read.
        """
        if delta is not None:
            delta = validation.open_probability(ERROR_PREFIX, "delta", delta)
        account = self._read()
        names = sorted(account.populations) if population is None else [account.check_population(population)]
        statuses = [self._build_budget_status(account, name, delta) for name in names]
        self._store_curves(account)
        return statuses

    def _build_budget_status(self, account: LedgerState, population: str, delta: float | None) -> BudgetStatus:
        entries, budget = account.find_entries(population), account.budgets.get(population)
        if delta is None:
            delta = budget.delta if budget else entries[-1].delta if entries else DEFAULT_DELTA
        recipes = [entry.recipe for entry in entries]
        epsilon = self._accountant.epsilon(recipes, delta, account.curves)
        spent = epsilon if budget is None else self._accountant.epsilon(recipes, budget.delta, account.curves)
        warnings = accounting.find_new_name_warnings(account, population) if entries else []
        if budget is not None and spent >= budget.epsilon:
            warnings.append(accounting.format_spent_warning(budget, spent))
        return BudgetStatus(
            population, entries, budget, epsilon, delta, spent, account.head, account.accepted_times, tuple(warnings)
        )

    def warnings(self, plan: Plan, *, ahead: bool = False) -> list[str]:
        """Returns warnings before a plan is collected: about its population's name and the budget that is left.

        Args:
            plan: Plan of the collection.
            ahead: True to add up all rounds of the plan and compare them with the budget.

        Returns:
            The warnings, possibly none.

        Raises:
            LedgerError: If the ledger cannot be read.
        """
        account, name = self._read(), normalize_population_name(plan.population)
        if name not in account.populations:
            return [account.format_unknown_population(name)]
        found, budget = accounting.find_new_name_warnings(account, name), account.budgets.get(name)
        if budget is None:
            return found
        recipes = [entry.recipe for entry in account.find_entries(name)]
        spent = self._accountant.epsilon(recipes, budget.delta, account.curves)
        if spent >= budget.epsilon:
            found.append(accounting.format_spent_warning(budget, spent))
        elif ahead:
            guarantee = Guarantee(plan, plan.fewest)
            self._accountant.add_curve(guarantee)
            after = [*recipes, *[guarantee.curve_inputs] * plan.rounds]
            total = self._accountant.epsilon(after, budget.delta, account.curves)
            if total > budget.epsilon:
                found.append(f"{ERROR_PREFIX}: this plan {accounting.format_budget_excess(budget, spent, total)}.")
        self._store_curves(account)
        return found

    # --- Accepting a replaced ledger ---

    def accept(self) -> None:
        """Continues with a ledger that is not the one last seen here, and records that in it.

        Raises LedgerError if it is the one last seen.
        """
        account = self._replay_events()
        try:
            guard = self._rollback_guard
            seen = self._find_conflicting_record(
                account, guard.read_last_head(), guard.find_records(account.head.ledger)
            )
        except LedgerError:
            seen = None
        else:
            if seen is None:
                raise LedgerError(
                    f"{ERROR_PREFIX}: there is nothing to accept: {self.path} is the ledger last seen there."
                )
        last = None if seen is None else seen.head.to_document()
        head = None
        while head is None:
            head = self._file.append_events(
                self._replay_events().head, [_build_event(accounting.ACCEPT, last=last)], {}
            )
        self._rollback_guard.record_head(head)

    # --- File ---

    def _replay_events(self) -> LedgerState:
        if not self.exists():
            raise LedgerError(self._format_missing())
        return build_ledger_state(self.path, self._file.read_events())

    def _format_missing(self) -> Phrase:
        seen = self._rollback_guard.read_last_head()
        lost = f", though there was one with {seen.entries} entries: restore it" if seen else ""
        return phrase(
            f"{ERROR_PREFIX}: there is no ledger at {{path}}; create it by `shuffledp ledger create`, name another one "
            "by {ledger=…}, or keep none by {ledger=None}.",
            path=f"{self.path}{lost}",
        )

    def _read(self) -> LedgerState:
        """Reads and verifies the ledger, and checks that it continues the one last seen."""
        # Read before the file: meanwhile others may extend the ledger, but never shorten it.
        seen = self._rollback_guard.read_last_head()
        account = self._replay_events()
        known = self._rollback_guard.find_records(account.head.ledger)
        if self._find_conflicting_record(account, None, known) is not None:
            # The id of the ledger was known only from the file: it may have been extended since.
            account = self._replay_events()
        if seen is not None and not account.contains(seen):
            raise LedgerError(
                f"{ERROR_PREFIX}: {self.path} is not the ledger last seen there, of {seen.entries} entries: it was "
                f"replaced, restored or edited; restore that one, or run `shuffledp ledger accept`."
            )
        if (lost := self._find_conflicting_record(account, None, known)) is not None:
            raise LedgerError(
                f"{ERROR_PREFIX}: {self.path} is a copy of a ledger that has gone on since, to {lost.head.entries} "
                f"entries at {lost.location}, which are missing here; use that one, or run `shuffledp ledger accept`."
            )
        # Read again: another process may have recorded the ledger meanwhile, for the first time or with more entries. A
        # record that this ledger does not continue, of a copy, is kept: the next look reports it.
        recorded = self._rollback_guard.find_record_by_id(account.head.ledger)
        if recorded is None or (account.head.entries > recorded.head.entries and account.contains(recorded.head)):
            self._rollback_guard.record_head(account.head)
        elif seen is None or account.head.entries > seen.entries:
            self._rollback_guard.record_head_here(account.head)
        return account

    def _find_conflicting_record(
        self, account: LedgerState, seen: Head | None, known: Sequence[HeadRecord]
    ) -> HeadRecord | None:
        """Returns the first record, of this place or of the ledger elsewhere, that the ledger does not continue."""
        here = [] if seen is None else [HeadRecord(str(self.path), seen)]
        return next((each for each in [*here, *known] if not account.contains(each.head)), None)

    def _write(self, decide: Callable[[LedgerState], list[Payload]]) -> None:
        """Appends the events that ``decide`` derives from the account; decides again if it changed meanwhile.

        No lock is held while deciding.
        """
        while True:
            account = self._read()
            payloads = decide(account)
            if not payloads:
                return
            hashes, contents = self._accountant.find_new_curves(account.curves)
            if hashes:
                payloads[-1] = {**payloads[-1], "curves": hashes}
            head = self._file.append_events(account.head, payloads, contents)
            if head is not None:
                self._accountant.clear_new_curves()
                self._rollback_guard.record_head(head)
                return

    def _store_curves(self, account: LedgerState) -> None:
        """Stores computed curves if that is possible at once: no result depends on it."""
        hashes, contents = self._accountant.find_new_curves(account.curves)
        if not contents:
            return
        if hashes and not self._rollback_guard.is_current_location(account.head.ledger):
            # Reading a copy must not put it ahead of the ledger itself.
            return
        payloads = [_build_event(accounting.CURVES, curves=hashes)] if hashes else []
        with suppress(LedgerError):
            head = self._file.append_events(account.head, payloads, contents, wait=False)
            if head is not None:
                self._accountant.clear_new_curves()
                self._rollback_guard.record_head(head)

    # --- Decisions ---

    def _find_entry(self, account: LedgerState, id_: str) -> LedgerEntry:
        if id_ not in account.entries:
            raise LedgerError(f"{ERROR_PREFIX}: there is no collection {id_} in {self.path}.")
        return account.entries[id_]

    def _check_round(
        self,
        account: LedgerState,
        guarantee: Guarantee,
        own: LedgerEntry | None,
        digest: str | None = None,
        bundles: str | None = None,
    ) -> None:
        """Raises RoundTaken if another collection has the round, unless it released the very same messages."""
        plan, number = guarantee.plan, guarantee.round_number
        if number is None:
            return
        if own is not None and own.plan is not None and (own.plan, own.round) != (plan.fingerprint, number):
            raise LedgerError(
                f"{ERROR_PREFIX}: collection {own.id} was reserved for round {own.round_text} of the plan "
                f"{own.plan[:PLAN_DIGITS]}, got round {number} of the plan {plan.fingerprint[:PLAN_DIGITS]}; give the "
                f"reservation of this round."
            )
        taken = account.find_rounds(plan.fingerprint).get(number)
        if taken is None or (own is not None and taken.id == own.id) or (digest is not None and taken.digest == digest):
            return
        raise self._build_round_taken_error(plan, taken, bundles)

    def _build_round_taken_error(self, plan: Plan, entry: LedgerEntry, bundles: str | None = None) -> RoundTaken:
        assert entry.round is not None, "rounds are found by their number"
        round_ = f"{plan.format_round(entry.round)} of the plan {plan.fingerprint[:PLAN_DIGITS]}"
        if entry.state == RESERVED:
            return RoundTaken(
                phrase(
                    f"{ERROR_PREFIX}: {{round_}} is reserved by the collection {{id}}; go on with that one, by "
                    "{resume=True} or {reservation=…}, or take it back by `shuffledp ledger forget {id}`, if nobody "
                    "has seen any of it.",
                    round_=round_,
                    id=entry.id,
                )
            )
        when = f"{ERROR_PREFIX}: {round_} was released on {(entry.released or entry.started)[:DATE_LENGTH]}"
        if bundles is not None and bundles == entry.bundles:
            return RoundTaken(f"{when} from the same files, with other noise; use that release.")
        more = "or plan more rounds" if plan.rounds == len(plan.round_numbers) else "or plan another search"
        return RoundTaken(
            f"{when}, and a round is released once, from all its files together; encode late ones for the next round, "
            f"{more}."
        )

    def _build_reservation(
        self,
        account: LedgerState,
        id_: str,
        guarantee: Guarantee,
        digest: str | None = None,
        bundles: str | None = None,
    ) -> Payload:
        plan = guarantee.plan
        population = account.check_population(plan.population)
        self._check_round(account, guarantee, None, digest, bundles)
        if plan.ledger:
            self._check_head(account, Head.from_document("plan", plan.ledger), "plan")
        self._check_affordable(account, population, guarantee.curve_inputs)
        self._precompute_curves(account, population, guarantee.curve_inputs)
        return _build_event(
            accounting.RESERVE,
            id=id_,
            population=population,
            task=plan.task.name,
            recipe=guarantee.curve_inputs.to_document(),
            epsilon=to_json_number(guarantee.value.upper),
            delta=plan.delta,
            software=__version__,
            **({} if plan.minimum is None else {"minimum": plan.minimum}),
            **_build_round_fields(guarantee),
        )

    def _build_settlement(
        self, account: LedgerState, id_: str, guarantee: Guarantee, digest: str, bundles: str | None = None
    ) -> list[Payload]:
        """Returns the settlement of a reservation; empty if it is already settled the same way."""
        before = self._find_entry(account, id_)
        if account.check_population(guarantee.plan.population) != before.population:
            raise LedgerError(
                f"{ERROR_PREFIX}: collection {id_} was reserved for the population {before.population!r}."
            )
        if before.state == RELEASED:
            if before.digest != digest:
                raise LedgerError(f"{ERROR_PREFIX}: collection {id_} was already released, with other messages.")
            if not before.recipe.covers(guarantee.curve_inputs):
                raise LedgerError(
                    f"{ERROR_PREFIX}: collection {id_} was already settled with {before.users} users and another "
                    f"guarantee than that of {guarantee.users}; a settlement cannot be changed."
                )
            return []
        self._check_round(account, guarantee, before, digest, bundles)
        if not before.recipe.has_same_sampling(guarantee.curve_inputs):
            raise LedgerError(
                f"{ERROR_PREFIX}: collection {id_} was reserved for {before.recipe.sample_size} people drawn from "
                f"{before.recipe.sampled_from or 'no more'}, and must be settled as such: those who were drawn and "
                f"stayed away count as drawn."
            )
        self._check_affordable(account, before.population, guarantee.curve_inputs, before)
        self._precompute_curves(account, before.population, guarantee.curve_inputs, before)
        return [_build_settlement_event(id_, guarantee, digest, bundles)]

    def _check_affordable(
        self, account: LedgerState, population: str, recipe: CurveInputs, reserved: LedgerEntry | None = None
    ) -> None:
        """Raises GuaranteeTooWeak if a collection would exceed the budget; a granted reservation may still shrink."""
        budget = account.budgets.get(population)
        if budget is None or (reserved is not None and reserved.recipe == recipe):
            return
        others = [entry.recipe for entry in account.find_entries(population) if entry != reserved]
        total = self._accountant.epsilon([*others, recipe], budget.delta, account.curves)
        if total <= budget.epsilon:
            return
        before = [*others, reserved.recipe] if reserved else others
        spent = self._accountant.epsilon(before, budget.delta, account.curves)
        if reserved is not None and total <= spent:
            return
        raise GuaranteeTooWeak(
            f"{ERROR_PREFIX}: this collection {accounting.format_budget_excess(budget, spent, total)}; "
            f"nothing was {'released' if reserved else 'collected'}."
        )

    def _precompute_curves(
        self, account: LedgerState, population: str, recipe: CurveInputs, reserved: LedgerEntry | None = None
    ) -> None:
        """Computes the curves that later reads of these collections need, before anything is locked."""
        others = [entry.recipe for entry in account.find_entries(population) if entry != reserved]
        self._accountant.precompute([*others, recipe], account.curves)

    def _check_head(self, account: LedgerState, head: Head, who: str) -> None:
        if not account.contains(head):
            raise LedgerError(
                f"{who}: expected the ledger {head.ledger[:8]}… with the {head.entries} entries that it had, but "
                f"{self.path} is another one, or was restored or edited; use the one that it began with."
            )


def _build_event(kind: str, **payload: Any) -> Payload:
    return {"kind": kind, "time": datetime.now(UTC).isoformat(timespec="seconds"), **payload}


def choose_round(who: str, plan: Plan, given: int | None, ledger: Ledger | None) -> int:
    """Returns the round to collect: the given one, or the next free one of the ledger.

    Without a ledger the next round is unknown, unless the plan has only one.
    """
    if given is not None:
        plan.identity(given)
        return given
    if ledger is not None:
        return ledger.next_round(plan)
    if len(plan.round_numbers) == 1:
        return plan.round_numbers[0]
    raise InvalidArgument(
        who,
        f"the plan has {plan.rounds} rounds, and without a ledger the next one is unknown",
        hint=phrase("give it by {round_number=…}"),
    )


def _build_round_fields(guarantee: Guarantee) -> Payload:
    """Returns the plan and round for an event; empty if the guarantee names no round."""
    if guarantee.round_number is None:
        return {}
    plan = guarantee.plan
    return {"plan": plan.fingerprint, "round": guarantee.round_number, "rounds": plan.rounds}


def _build_settlement_event(id_: str, guarantee: Guarantee, digest: str, bundles: str | None) -> Payload:
    return _build_event(
        accounting.SETTLE,
        id=id_,
        recipe=guarantee.curve_inputs.to_document(),
        epsilon=to_json_number(guarantee.value.upper),
        digest=digest,
        software=__version__,
        **({"bundles": bundles} if bundles else {}),
        **_build_round_fields(guarantee),
    )
