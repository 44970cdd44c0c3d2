"""Rounds, step by step; a step that was killed is done again with the same result::

    open → closing → mixed → forgotten → handed over → erased
       ↘ too few: open again, as often as the campaign says, then expired

=========== ====================================================================================================
open        The round's key is on disk and its share is reserved in the ledger, before anybody is told of it.
closing     No report is taken any more. Equal ones are dropped, the others opened and counted. Fewer than the
            minimum: longer, or expired. All of it is a function of what is stored.
mixed       The batch is whole on disk under its name, and the ledger is settled with those who came.
forgotten   The round's key is destroyed, the reports are deleted: from now on nobody can link. Only now is the
            batch shown to the analyst.
handed over The analyst has it and says so.
erased      The batch is deleted, at once when it was handed over, or when its time is over.
expired     Nothing is handed on; key and reports are destroyed, the reservation is taken back.
=========== ====================================================================================================

Everything of a round's window is in its batch: which clients hide each other is not for the fastest to choose.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from shuffledp.collection import durable
from shuffledp.collection.manifest import Manifest
from shuffledp.errors import ShuffledpError
from shuffledp.service import journal
from shuffledp.service.notice import BatchRecord, Notice
from shuffledp.service.place import Place
from shuffledp.service.store import Accepted, Round, State, Store

if TYPE_CHECKING:
    from shuffledp.collection.ledger import Ledger

BEFORE_MIXED = (State.OPEN, State.CLOSING)

Step = Callable[[Accepted, Round, int], None]


@dataclass(frozen=True)
class Keeper:
    """Takes the steps of all rounds of a shuffler. One process at a time: whoever calls it is ``Place.alone``."""

    place: Place
    store: Store
    workers: int | None = 1
    """Processes that open reports; None takes one for each processor."""
    logs: bool = False

    def accept(self, accepted: Accepted, now: int) -> Round:
        """Keep a campaign and open its first round; one that is there already stays as it is."""
        campaign = accepted.campaign
        campaign.demand_shuffler(self.place.identity)
        if not self.store.rounds(campaign.id):
            # First: a budget that does not allow it refuses the campaign.
            self._reserve(accepted, 1)
            self.store.accept(accepted)
            self._open(accepted, 1, now)
        return self.store.rounds(campaign.id)[-1]

    def turn(self, now: int) -> None:
        """Every step that is due. What fails in one campaign does not keep the others waiting."""
        failed: Exception | None = None
        for accepted in self.own():
            try:
                self._turn(accepted, now)
            except (ShuffledpError, ValueError, OSError) as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def own(self) -> list[Accepted]:
        """The campaigns of this very shuffler: others that share the store have the keys of theirs."""
        mine = self.place.identity.identity
        return [accepted for accepted in self.store.accepted() if accepted.campaign.identity == mine]

    def is_due(self, now: int) -> bool:
        """Whether ``turn`` has anything to do."""
        for accepted in self.own():
            rounds = self.store.rounds(accepted.campaign.id)
            if self._next_of(accepted, rounds) or any(self._step(accepted, each, now) for each in rounds):
                return True
        return False

    def close_now(self, each: Round, now: int) -> None:
        """End a round before its time; what was taken is mixed if it is enough."""
        if each.state is not State.OPEN:
            raise ValueError(f"campaign: round {each.number} is {each.state}, not open.")
        self.store.move(each, replace(each, closes=now))
        self.turn(now)

    def expire(self, accepted: Accepted, each: Round) -> None:
        """Give a round up: nothing of it is handed on."""
        if each.state not in BEFORE_MIXED or self.place.batch(each).exists():
            raise ValueError(f"campaign: round {each.number} is {each.state}: what is mixed cannot be taken back.")
        self._expire(accepted, each, 0)

    # --- what comes next --------------------------------------------------------------------------------------

    def _turn(self, accepted: Accepted, now: int) -> None:
        for each in self.store.rounds(accepted.campaign.id):
            current = each
            while step := self._step(accepted, current, now):
                step(accepted, current, now)
                found = self.store.round(each.campaign, each.number)
                assert found is not None, "rounds are never removed"
                current = found
                self._log(current)
        if number := self._next_of(accepted, self.store.rounds(accepted.campaign.id)):
            self._open(accepted, number, now)
            self._log(self.store.rounds(accepted.campaign.id)[-1])

    def _log(self, each: Round) -> None:
        if self.logs:
            journal.tell("round", campaign=each.campaign[:12], round=each.number, state=each.state.value)

    def _next_of(self, accepted: Accepted, rounds: list[Round]) -> int:
        """The round that is to be opened; 0 where there is none."""
        if rounds and (rounds[-1].state in BEFORE_MIXED or rounds[-1].number == accepted.campaign.rounds):
            return 0
        return len(rounds) + 1

    def _step(self, accepted: Accepted, each: Round, now: int) -> Step | None:
        """What a round does next; None where it waits."""
        if each.state in BEFORE_MIXED:
            mixed, key = self.place.batch(each).exists(), self.place.key(each.name)
            if key is None and not mixed:
                # A copy that was restored, or a step to "expired" that was killed.
                return self._expire
            if each.state is State.CLOSING:
                return self._mix
            return self._end if each.closes <= now or key is None else None
        if each.state is State.MIXED:
            return self._forget
        over = each.closes + accepted.campaign.retention <= now
        return self._erase if each.state is State.HANDED_OVER or (each.state is State.FORGOTTEN and over) else None

    # --- the steps --------------------------------------------------------------------------------------------

    def _open(self, accepted: Accepted, number: int, now: int) -> None:
        campaign = accepted.campaign
        name, closes = f"{campaign.id}-{number}", now + campaign.window
        if accepted.ledger is not None and _ledger(accepted.ledger).has_released(name):
            # A state from before that was restored: what was given once is not asked for again.
            self.store.open_round(Round(campaign.id, number, State.EXPIRED, now, 0, b""))
            return
        key = self.place.new_key(name)
        self._reserve(accepted, number)
        notice = Notice(campaign.id, number, now, closes, key.public).signed(self.place.identity)
        self.store.open_round(Round(campaign.id, number, State.OPEN, closes, 0, notice))

    def _reserve(self, accepted: Accepted, number: int) -> None:
        if accepted.ledger is not None:
            from shuffledp.collection.guarantee import Guarantee

            plan = accepted.campaign.plan
            held = Guarantee(plan, plan.fewest, round_number=number)
            _ledger(accepted.ledger).reserve(f"{accepted.campaign.id}-{number}", held)

    def _end(self, accepted: Accepted, each: Round, now: int) -> None:
        del accepted, now
        self.store.move(each, replace(each, state=State.CLOSING))

    def _mix(self, accepted: Accepted, each: Round, now: int) -> None:
        from shuffledp.collection.guarantee import Guarantee
        from shuffledp.service.batch_mixing import ASIDE, TooFew

        batch = self.place.batch(each)
        if not batch.exists():
            try:
                self._write(accepted, each)
            except TooFew:
                self._too_few(accepted, each, now)
                return
        manifest = Manifest.read(batch)
        if accepted.ledger is not None:
            came = Guarantee(accepted.campaign.plan, manifest.users, round_number=each.number)
            _ledger(accepted.ledger).settle(each.name, came, manifest.digest)
        aside = json.loads((batch / ASIDE).read_text("utf-8"))
        files = {path.name: path.stat().st_size for path in sorted(batch.glob("*.parquet"))}
        statement = BatchRecord(each.campaign, each.number, manifest, files, aside["repeated"], aside["refused"])
        signed = statement.signed(self.place.identity)
        self.store.move(each, replace(each, state=State.MIXED, statement=signed))

    def _write(self, accepted: Accepted, each: Round) -> None:
        from shuffledp.service.batch_mixing import Mix

        key, work = self.place.key(each.name), self.place.work
        assert key is not None, "without a key it would have been expired"
        # Runs of a process that was killed still tell which messages came together.
        durable.remove_tree(work)
        durable.make_directory(work, 0o700)
        size, segments = self.store.size(each.campaign, each.number), self.store.reports(each.campaign, each.number)
        try:
            with durable.whole_directory(self.place.batch(each)) as unfinished:
                Mix(accepted.campaign, each.number, key, self.workers).write(segments, size, unfinished, work)
        finally:
            durable.remove_tree(work)

    def _too_few(self, accepted: Accepted, each: Round, now: int) -> None:
        campaign = accepted.campaign
        if each.extended >= campaign.extensions:
            self._expire(accepted, each, now)
            return
        before, closes = Notice.read(campaign, each.notice), now + campaign.window
        notice = replace(before, closes=closes).signed(self.place.identity)
        longer = replace(each, state=State.OPEN, closes=closes, extended=each.extended + 1, notice=notice)
        self.store.move(each, longer)

    def _forget(self, accepted: Accepted, each: Round, now: int) -> None:
        del accepted, now
        self.place.destroy_key(each.name)
        self.store.forget_reports(each.campaign, each.number)
        self.store.move(each, replace(each, state=State.FORGOTTEN))

    def _erase(self, accepted: Accepted, each: Round, now: int) -> None:
        del accepted, now
        durable.remove_tree(self.place.batch(each))
        self.store.move(each, replace(each, state=State.ERASED))

    def _expire(self, accepted: Accepted, each: Round, now: int) -> None:
        del now
        # First, and for good: a round without a key is given up whenever somebody looks at it.
        self.place.destroy_key(each.name)
        if each.state is State.OPEN:
            self.store.move(each, replace(each, state=State.CLOSING))
            each = replace(each, state=State.CLOSING)
        self.store.forget_reports(each.campaign, each.number)
        if accepted.ledger is not None and _ledger(accepted.ledger).has_reserved(each.name):
            _ledger(accepted.ledger).give_back(each.name)
        self.store.move(each, replace(each, state=State.EXPIRED))


def _ledger(path: str) -> Ledger:
    """Imported with the proofs that it rests on: whoever only looks whether something is due needs neither."""
    from shuffledp.collection.ledger import Ledger

    return Ledger(path)
