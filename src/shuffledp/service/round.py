"""Rounds, step by step; a step that was killed is done again with the same result::

    open → closing → mixed → forgotten → handed over → erased
       ↘ too few: open again, as often as the campaign says, then expired

=========== ====================================================================================================
open        The round's key is on disk and its share is reserved in the ledger, before anybody is told of it.
closing     No report is taken any more. Equal ones are dropped, the others opened and counted. Fewer than the
            minimum: longer, or expired. All of it is a function of what is stored.
mixed       The batch is whole on disk under its name, the ledger is settled with those who came, a mark beside the
            keys says which batch it is, and that is signed: from now on it cannot be given up.
forgotten   The round's key is destroyed, the reports are deleted: from now on nobody can link. Only now is the
            batch shown to the analyst.
handed over The analyst has it and says so.
erased      The batch is deleted, at once when it was handed over, or when its time is over.
expired     Nothing is handed on; key, reports and whatever was mixed are destroyed, the reservation is taken back.
=========== ====================================================================================================

An old copy of the state that is put back knows less than the ledger and the marks: a round that they know to be over
is closed for good, whatever the copy says. They are asked when a shuffler starts, and before each notice and batch.

Everything of a round's window is in its batch: which clients hide each other is not for the fastest to choose.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
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

PUT_BACK = (
    "was handed on before, and an old copy of the state was put back: it is closed for good, and what was sent to it "
    "since is destroyed"
)

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
        """Keep a campaign and open its first round; one that is there already stays as it is, unless it is over."""
        campaign = accepted.campaign
        campaign.demand_shuffler(self.place.identity)
        if not self.store.rounds(campaign.id):
            # First: a budget that does not allow it refuses the campaign.
            self._reserve(accepted, 1)
            self.store.accept(accepted)
            self._open(accepted, 1, now)
        else:
            self.recover(now)
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
        accepted = next(found for found in self.own() if found.campaign.id == each.campaign)
        if self._was_handed_on(accepted, each):
            self._expire(accepted, each, now)
            raise ValueError(f"campaign: round {each.number} {PUT_BACK}.")
        self.store.move(each, replace(each, closes=now))
        self.turn(now)

    def expire(self, accepted: Accepted, each: Round) -> None:
        """Give a round up: nothing of it is handed on. That is possible until its batch is signed."""
        if each.state not in BEFORE_MIXED:
            raise ValueError(f"campaign: round {each.number} is {each.state}: what is mixed cannot be taken back.")
        self._expire(accepted, each, 0)

    def recover(self, now: int) -> None:
        """Bring the directories to what the rounds may have: after a kill, and where an old copy was put back.

        Whoever begins to serve calls it first, ``Place.alone``.
        """
        durable.remove_tree(self.place.work, surely=True)
        for accepted in self.own():
            for each in self.store.rounds(accepted.campaign.id):
                durable.remove_unfinished(self.place.batch(each))
                if each.state not in BEFORE_MIXED and each.state is not State.MIXED:
                    self.place.destroy_key(each.name)
                if each.state in (State.ERASED, State.EXPIRED):
                    durable.remove_tree(self.place.batch(each), surely=True)
                if each.state in BEFORE_MIXED and self._was_handed_on(accepted, each):
                    self._close_for_good(accepted, each, now)

    def asks_ledgers(self) -> bool:
        """Whether ``recover`` has to ask a ledger, which takes memory that a server does not need."""
        return any(
            accepted.ledger is not None and any(each.state in BEFORE_MIXED for each in rounds)
            for accepted in self.own()
            if (rounds := self.store.rounds(accepted.campaign.id))
        )

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
            if self._is_marked(each):
                # A step to "expired" that was killed, or an old copy that was put back.
                return self._close_for_good if self.place.spent(each.name) else self._expire
            if key is None and not mixed:
                return self._expire
            if each.state is State.CLOSING:
                return self._mix
            return self._end if each.closes <= now or key is None else None
        if each.state is State.MIXED:
            return self._forget
        over = each.closes + accepted.campaign.retention <= now
        return self._erase if each.state is State.HANDED_OVER or (each.state is State.FORGOTTEN and over) else None

    def _is_marked(self, each: Round) -> bool:
        """Whether the mark beside the keys says that a round is over, by another batch than the one that is there."""
        spent, batch = self.place.spent(each.name), self.place.batch(each)
        return spent is not None and (not batch.exists() or Manifest.read(batch).digest != spent)

    def _was_handed_on(self, accepted: Accepted, each: Round) -> bool:
        """Whether a round that is to be mixed was handed on before, as the mark or the ledger knows."""
        if self._is_marked(each):
            return True
        # Killed between the ledger's entry and the next state, its batch is there; if it is another, settling says so.
        return not self.place.batch(each).exists() and self._is_released(accepted, each.name)

    def _is_released(self, accepted: Accepted, name: str) -> bool:
        return accepted.ledger is not None and _ledger(accepted.ledger).has_released(name)

    # --- the steps --------------------------------------------------------------------------------------------

    def _open(self, accepted: Accepted, number: int, now: int) -> None:
        campaign = accepted.campaign
        name, closes = f"{campaign.id}-{number}", now + campaign.window
        if self.place.spent(name) is not None or self._is_released(accepted, name):
            # An old copy that was put back: what people were asked once they are not asked again.
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
        from shuffledp.service.batch_mixing import ASIDE, TooFew

        if self._was_handed_on(accepted, each):
            self._close_for_good(accepted, each, now)
            return
        batch = self.place.batch(each)
        if not batch.exists():
            try:
                self._write(accepted, each)
            except TooFew:
                self._too_few(accepted, each, now)
                return
        manifest = Manifest.read(batch)
        if not self._settle(accepted, each, manifest):
            self._close_for_good(accepted, each, now)
            return
        self.place.spend(each.name, manifest.digest)
        aside = json.loads((batch / ASIDE).read_text("utf-8"))
        files = {path.name: path.stat().st_size for path in sorted(batch.glob("*.parquet"))}
        statement = BatchRecord(each.campaign, each.number, manifest, files, aside["repeated"], aside["refused"])
        signed = statement.signed(self.place.identity)
        self.store.move(each, replace(each, state=State.MIXED, statement=signed))

    def _settle(self, accepted: Accepted, each: Round, manifest: Manifest) -> bool:
        """Tell the ledger who came; False where it knows the round as released with other messages."""
        if accepted.ledger is None:
            return True
        from shuffledp.collection.chain import LedgerFailed
        from shuffledp.collection.guarantee import Guarantee

        ledger = _ledger(accepted.ledger)
        try:
            came = Guarantee(accepted.campaign.plan, manifest.users, round_number=each.number)
            ledger.settle(each.name, came, manifest.digest)
        except LedgerFailed:
            if not ledger.has_released(each.name):
                raise
            return False
        return True

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
        self._sweep(each)
        self.store.forget_reports(each.campaign, each.number)
        self.store.move(each, replace(each, state=State.FORGOTTEN))

    def _erase(self, accepted: Accepted, each: Round, now: int) -> None:
        del accepted, now
        durable.remove_tree(self.place.batch(each), surely=True)
        self.store.move(each, replace(each, state=State.ERASED))

    def _expire(self, accepted: Accepted, each: Round, now: int) -> None:
        del now
        # First, and for good: a round with such a mark is given up whenever somebody looks at it. A disk that is full
        # has room for it only when the rest is gone.
        with suppress(OSError):
            self.place.spend(each.name)
        self.place.destroy_key(each.name)
        self._sweep(each)
        durable.remove_tree(self.place.batch(each), surely=True)
        if self.place.spent(each.name) != "":
            self.place.spend(each.name)
        if each.state is State.OPEN:
            self.store.move(each, replace(each, state=State.CLOSING))
            each = replace(each, state=State.CLOSING)
        self.store.forget_reports(each.campaign, each.number)
        if accepted.ledger is not None and _ledger(accepted.ledger).has_reserved(each.name):
            _ledger(accepted.ledger).give_back(each.name)
        self.store.move(each, replace(each, state=State.EXPIRED))

    def _sweep(self, each: Round) -> None:
        """Remove what killed processes left on the way to a round's batch: it tells what came together, or opens."""
        durable.remove_tree(self.place.work, surely=True)
        durable.remove_unfinished(self.place.batch(each))

    def _close_for_good(self, accepted: Accepted, each: Round, now: int) -> None:
        """Leave a round that was handed on before."""
        if self.logs:
            journal.tell("put back", campaign=each.campaign[:12], round=each.number, reason=f"it {PUT_BACK}")
        self._expire(accepted, each, now)


def _ledger(path: str) -> Ledger:
    """Imported with the proofs that it rests on: whoever only looks whether something is due needs neither."""
    from shuffledp.collection.ledger import Ledger

    return Ledger(path)
