"""The life of a round: mixing, the steps from open to erased, the thread that takes them, the clock and the log.

Each step may be interrupted and is then repeated; an unfinished batch is discarded and written anew::

    open → closing → mixed → forgotten → handed over → erased
       ↘ too few users: open again, as often as the campaign allows, then expired

=========== ====================================================================================================
open        The round's key is on disk and its cost is reserved in the ledger before its notice is published.
closing     No more reports are accepted. Equal reports are dropped, the others opened and counted. With fewer users
            than the minimum the round is extended or expires. The batch follows from the stored reports and from the
            noise, if the shuffler draws it.
mixed       The batch is complete on disk under its name, the ledger is settled with the number of users, a mark
            beside the keys records the batch, and the statement is signed: the round can no longer expire.
forgotten   The round's key is destroyed and its reports are deleted: nobody can link messages to reports any more.
            Only now can the analyst fetch the batch.
handed over The analyst has confirmed the receipt.
erased      The batch is deleted, after it was handed over or when its retention time has passed.
expired     Nothing is handed over; key, reports and any mixed messages are destroyed, the reservation is released.
=========== ====================================================================================================

If an old copy of the state is restored, the ledger and the marks know more than the copy: a round that is finished
according to them is closed permanently, whatever the copy says. They are consulted when a shuffler starts and before
each notice and batch.

All reports of a round's window are in its batch, so fast clients cannot choose who hides whom.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp._core.errors import ShuffledpError, error_phrase
from shuffledp._core.message_phrases import write_option
from shuffledp._core.validation import Bytes
from shuffledp.collection import message_files
from shuffledp.collection.message_files import Manifest, drop_repeated_rows, find_noise_party
from shuffledp.service.campaign import Campaign
from shuffledp.service.crypto import REPORT_LABEL, EnvelopeOpener, PrivateKey, build_context
from shuffledp.service.notices_and_statements import BatchStatement, RoundNotice
from shuffledp.service.sealing import CampaignSealer
from shuffledp.service.stores import AcceptedCampaign, Round, RoundState, ShufflerPaths, Store
from shuffledp.service.tokens import Admission
from shuffledp.storage import durable_files

if TYPE_CHECKING:
    from shuffledp.ledger.ledger import Ledger


# --- The trusted clock ---


MAX_CLOCK_DEVIATION_SECONDS = 3600.0
"""Maximum deviation of the clock from the time elapsed since the anchor."""
DAY_SECONDS = 24 * 3600.0
RECORD_INTERVAL_SECONDS = 60.0
"""Interval between two writes of the record."""
LOCK_ATTEMPTS, LOCK_RETRY_SECONDS = 50, 0.1
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class TrustedTime:
    """The time for rounds, and by how much the machine's clock is ahead of it; 0 if the clock is trusted."""

    now: int
    jump: int


@dataclass(frozen=True)
class _ClockRecord:
    """The record on disk; all times are in seconds."""

    boot: str
    uptime: float
    """Uptime of that boot."""
    running: float
    """Observed running time of the machine, over all boots."""
    anchor_running: float
    anchor_time: float
    """The anchor: the clock's time, and ``running``, when the clock was confirmed or last trusted for a day."""

    @property
    def time(self) -> float:
        """The anchor's time plus the running time since then."""
        return self.anchor_time + self.running - self.anchor_running


def clock_time() -> float:
    """Returns the time of the machine's clock in seconds since 1970."""
    return time.time()


def uptime() -> float:
    """Returns the seconds since boot, including suspended time if the system counts it."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def boot_id() -> str:
    """Returns an identifier of the current boot; empty if the system has none."""
    return BOOT_ID.read_text("utf-8").strip() if BOOT_ID.exists() else ""


def _new_record(clock: float) -> _ClockRecord:
    """Returns a new record with the anchor at this time of the clock."""
    return _ClockRecord(boot_id(), uptime(), 0.0, 0.0, clock)


def _advance_record(known: _ClockRecord) -> _ClockRecord:
    """Adds the running time since the record was written; after a reboot, the time since that."""
    boot, now = boot_id(), uptime()
    before = known.uptime if boot == known.boot and now >= known.uptime else 0.0
    return replace(known, boot=boot, uptime=now, running=known.running + now - before)


@dataclass(frozen=True)
class TrustedClock:
    """The time of one shuffler, recorded in its state directory and shared by its processes."""

    state: Path

    def read(self) -> TrustedTime:
        """Returns the current time for rounds and updates the record."""
        known, clock = self._read_record(), clock_time()
        observed = _new_record(clock) if known is None else _advance_record(known)
        jump = clock - observed.time
        if abs(jump) > MAX_CLOCK_DEVIATION_SECONDS:
            self._save_record_if_stale(known, observed)
            return TrustedTime(int(observed.time), int(jump))
        if observed.running - observed.anchor_running >= DAY_SECONDS:
            observed = replace(observed, anchor_running=observed.running, anchor_time=clock)
        self._save_record_if_stale(known, observed)
        return TrustedTime(int(clock), 0)

    def confirm(self) -> None:
        """Trusts the clock from now on, after the operator has checked it."""
        for _ in range(LOCK_ATTEMPTS):
            try:
                with self._locked():
                    self._write_record(_new_record(clock_time()))
                    return
            except BlockingIOError:
                time.sleep(LOCK_RETRY_SECONDS)
        raise ValueError(f"campaign: another process keeps {self._path} locked; try again.")

    # --- Record on disk ---

    @property
    def _path(self) -> Path:
        return self.state / "clock"

    def _locked(self) -> AbstractContextManager[object]:
        return durable_files.open_locked(self.state / "clock.lock")

    def _read_record(self) -> _ClockRecord | None:
        try:
            document = json.loads(self._path.read_bytes())
            kinds = {field.name: str if field.type == "str" else float for field in fields(_ClockRecord)}
            if document.keys() != kinds.keys() or any(type(document[name]) is not kind for name, kind in kinds.items()):
                raise ValueError
        except FileNotFoundError:
            return None
        except (ValueError, AttributeError):
            raise ValueError(
                f"shuffler: {self._path} is damaged; check this machine's clock, then confirm it with `shuffledp "
                f"campaign clock --confirm`."
            ) from None
        return _ClockRecord(**document)

    def _save_record_if_stale(self, known: _ClockRecord | None, observed: _ClockRecord) -> None:
        """Writes the record if it is old or its anchor changed; a failed write is retried at the next reading."""
        anchored = known is not None and known.anchor_time == observed.anchor_time
        if known is not None and anchored and observed.running - known.running < RECORD_INTERVAL_SECONDS:
            return
        with suppress(OSError), self._locked():
            # Another process may have written the record, or the operator may have confirmed the clock.
            if self._read_record() == known:
                self._write_record(observed)

    def _write_record(self, observed: _ClockRecord) -> None:
        durable_files.replace_atomically(self._path, json.dumps(asdict(observed)).encode())


# --- Mixing ---
# The batch is a function of the set of reports, the key and, if the shuffler draws it, the noise. Equal reports count
# once (an altered copy does not open), reports that do not open are discarded, and the remaining messages are sealed to
# the analyst, so the shuffler cannot read them. Sorted by their bytes, they do not reveal which came together, in which
# order or when.

IN_MEMORY_BYTES = 64 << 20
"""Up to this size reports, or messages, are sorted in memory; larger sets are sorted on disk."""
DISCARD_COUNTS_NAME = "_aside.json"
"""File beside the messages with the counts of discarded reports."""


class TooFewUsers(Exception):
    """The round has fewer users than the campaign's minimum, so nothing may be handed over."""


@dataclass
class RoundMixer:
    """The mixing of one round's reports into a batch, with counts of users and of discarded reports."""

    campaign: Campaign
    number: int
    key: PrivateKey
    workers: int | None = 1
    repeated: int = 0
    refused: int = 0
    users: int = 0

    def write(self, segments: Iterable[bytes], size: int, directory: Path, room: Path) -> Manifest:
        """Writes the batch and its manifest.

        Args:
            segments: The stored reports.
            size: Their total size.
            directory: Directory for the batch.
            room: Directory for temporary sorting files.

        Raises:
            TooFewUsers: If there are fewer users than the campaign's minimum.
        """
        campaign, plan = self.campaign, self.campaign.plan
        reports, width, each = size // campaign.report_bytes, campaign.message_bytes, campaign.messages_per_user
        sealing = CampaignSealer(campaign, self.number)
        # Imported here: the process that listens mixes nothing, and loads no mechanism and no number behind a plan.
        from shuffledp.collection.batch_processing import draw_shuffler_messages
        from shuffledp.sampling.random_sources import SystemSource

        noise = sealing.seal(draw_shuffler_messages(plan.mechanism, SystemSource()))
        rows = (np.frombuffer(segment, dtype=np.uint8).reshape(-1, campaign.report_bytes) for segment in segments)
        ordered = _sort_rows(rows, campaign.report_bytes, reports, room)
        opened = self._open_reports(drop_repeated_rows(ordered, self._count_repeated), reports)
        if campaign.admission is not None:
            opened = self._admit_clients(opened, campaign.admission, reports, room)
        messages = self._count_users(opened)
        mixed = _sort_rows(chain([noise], messages), width, reports * each + len(noise), room)
        written = message_files.write_messages(self._require_minimum(mixed), width, directory)
        manifest = Manifest(
            sealing.identity(plan, self.number), width, written.messages, written.sha256, self.users, 1, 0, 0,
            find_noise_party(plan.mechanism),
        )  # fmt: skip
        manifest.write(directory)
        discarded = {"repeated": self.repeated, "refused": self.refused}
        (directory / DISCARD_COUNTS_NAME).write_text(json.dumps(discarded) + "\n", encoding="utf-8")
        return manifest

    def _count_repeated(self, rows: int) -> None:
        self.repeated += rows

    def _open_reports(self, batches: Iterator[Bytes], reports: int) -> Iterator[Bytes]:
        info = build_context(REPORT_LABEL, self.campaign.id, self.number)
        for opened, bad in EnvelopeOpener(self.key, info).open_all(batches, reports, self.workers):
            self.refused += bad
            yield opened

    def _admit_clients(self, batches: Iterator[Bytes], rule: Admission, reports: int, room: Path) -> Iterator[Bytes]:
        """Yields the messages of admitted clients; of reports with the same token only the first in byte order."""
        width, marks = self.campaign.messages_per_user * self.campaign.message_bytes, rule.token_id_bytes
        ordered = _sort_rows(self._prefix_token_ids(batches, rule, width), marks + width, reports, room)
        for rows in drop_repeated_rows(ordered, self._count_reused_tokens, marks):
            yield rows[:, marks:]

    def _prefix_token_ids(self, batches: Iterator[Bytes], rule: Admission, width: int) -> Iterator[Bytes]:
        """Yields the unique parts of tokens, followed by the messages, of reports with valid tokens."""
        for rows in batches:
            tokens = rows[:, width:]
            is_valid = rule.verify_tokens(tokens, self.campaign.id, self.number)
            self.refused += int(len(is_valid) - np.count_nonzero(is_valid))
            yield np.concatenate([rule.token_ids(tokens), rows[:, :width]], axis=1)[is_valid]

    def _count_reused_tokens(self, rows: int) -> None:
        self.refused += rows

    def _count_users(self, batches: Iterator[Bytes]) -> Iterator[Bytes]:
        for rows in batches:
            self.users += len(rows)
            yield np.ascontiguousarray(rows).reshape(-1, self.campaign.message_bytes)

    def _require_minimum(self, mixed: Iterator[Bytes]) -> Iterator[Bytes]:
        """Returns the messages; raises TooFewUsers below the minimum.

        The first sorted message is available only after all reports were opened, so the count is final.
        """
        first = next(mixed, None)
        if self.users < self.campaign.plan.fewest:
            raise TooFewUsers
        return iter(()) if first is None else chain([first], mixed)


def _sort_rows(batches: Iterable[Bytes], width: int, at_most: int, room: Path) -> Iterator[Bytes]:
    if at_most * width <= IN_MEMORY_BYTES:
        return message_files.sort_in_memory(batches, width, at_most)
    return message_files.sort_on_disk(batches, width, room)


# --- Log ---


def log_event(event: str, **fields: Any) -> None:
    """Writes a log line, a JSON object, to stderr; only rounds and failures are logged, never requests."""
    print(_format_log_line(event, fields), file=sys.stderr, flush=True)


def _format_log_line(event: str, fields: dict[str, Any]) -> str:
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return json.dumps({"time": moment, "event": event, **fields}, ensure_ascii=False)


class JsonLineFormatter(logging.Formatter):
    """Formats uvicorn's log records as JSON lines; of an exception only its type is logged."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {"level": record.levelname.lower(), "message": record.getMessage().partition("\n")[0]}
        error = record.exc_info[0] if record.exc_info else None
        return _format_log_line("server", fields | ({} if error is None else {"error": error.__name__}))


UVICORN_LOG_CONFIG: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"()": "shuffledp.service.rounds.JsonLineFormatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line", "stream": "ext://sys.stderr"}},
    "loggers": {"uvicorn": {"handlers": ["stderr"], "level": "ERROR", "propagate": False}},
}
"""Logging configuration of uvicorn; its messages about single requests, such as invalid ones, are dropped."""

# --- Steps of rounds ---

UNMIXED_STATES = (RoundState.OPEN, RoundState.CLOSING)

RESTORED_STATE_REASON = (
    "was handed over before an old copy of the state was restored: it is closed for good, and reports that were sent "
    "to it since are destroyed"
)

RoundStep = Callable[[AcceptedCampaign, Round, int], None]


@dataclass(frozen=True)
class RoundManager:
    """Takes the steps of all rounds of a shuffler; the caller must hold the lock ``ShufflerPaths.lock_rounds``."""

    paths: ShufflerPaths
    store: Store
    workers: int | None = 1
    """Number of processes that open reports; None stands for one per processor."""
    is_logging: bool = False

    def accept(self, accepted: AcceptedCampaign, now: int) -> Round:
        """Stores a campaign, opens its first round, and returns its latest round.

        A campaign that is already stored is not changed; its rounds are recovered as by ``recover``.
        """
        campaign = accepted.campaign
        campaign.check_shuffler(self.paths.signing_key)
        if not self.store.rounds(campaign.id):
            # Reserves first, so that a campaign above the budget is refused.
            self._reserve(accepted, 1)
            self.store.add_campaign(accepted)
            self._open(accepted, 1, now)
        else:
            self.recover(now)
        return self.store.rounds(campaign.id)[-1]

    def take_due_steps(self, now: int) -> None:
        """Takes every step that is due; a failure in one campaign is raised after the others were handled."""
        failure: Exception | None = None
        for accepted in self.campaigns():
            try:
                self._take_campaign_steps(accepted, now)
            except (ShuffledpError, ValueError, OSError) as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def campaigns(self) -> list[AcceptedCampaign]:
        """Returns the campaigns of this shuffler; others that share the store hold the keys of theirs."""
        own = self.paths.signing_key.identity
        return [accepted for accepted in self.store.accepted_campaigns() if accepted.campaign.shuffler_identity == own]

    def is_due(self, now: int) -> bool:
        """Returns True if ``take_due_steps`` has a step to take."""
        for accepted in self.campaigns():
            rounds = self.store.rounds(accepted.campaign.id)
            if self._next_round_number(accepted, rounds) or any(
                self._next_step(accepted, each, now) for each in rounds
            ):
                return True
        return False

    def close_now(self, each: Round, now: int) -> None:
        """Closes an open round before its deadline; its reports are mixed if there are enough.

        Raises:
            ValueError: If the round is not open, or was handed over before an old copy of the state was restored.
        """
        if each.state is not RoundState.OPEN:
            raise ValueError(f"campaign: round {each.number} is {each.state}, not open.")
        accepted = next(found for found in self.campaigns() if found.campaign.id == each.campaign)
        if self._was_handed_over(accepted, each):
            self._expire(accepted, each, now)
            raise ValueError(f"campaign: round {each.number} {RESTORED_STATE_REASON}.")
        self.store.update_round(each, replace(each, closes=now))
        self.take_due_steps(now)

    def give_up_round(self, accepted: AcceptedCampaign, each: Round) -> None:
        """Gives a round up, so that nothing is handed over; raises ValueError once its batch is mixed."""
        if each.state not in UNMIXED_STATES:
            raise ValueError(f"campaign: round {each.number} is {each.state}: mixed messages cannot be taken back.")
        self._expire(accepted, each, 0)

    def recover(self, now: int) -> None:
        """Removes leftovers of killed processes, and closes rounds that a restored old state reopened.

        A server calls it first, holding the lock ``ShufflerPaths.lock_rounds``.
        """
        durable_files.remove_tree(self.paths.work_directory, surely=True)
        for accepted in self.campaigns():
            for each in self.store.rounds(accepted.campaign.id):
                durable_files.remove_unfinished_directories(self.paths.batch_directory(each))
                if each.state not in UNMIXED_STATES and self.paths.finished_digest(each.name) is None:
                    # Version 0.1.0 wrote no marks. With one, a restored old state cannot reopen the round.
                    self.paths.mark_finished(each.name, _batch_digest(accepted, each))
                if each.state not in UNMIXED_STATES and each.state is not RoundState.MIXED:
                    self.paths.destroy_round_key(each.name)
                if each.state in (RoundState.ERASED, RoundState.EXPIRED):
                    durable_files.remove_tree(self.paths.batch_directory(each), surely=True)
                if each.state in UNMIXED_STATES and self._was_handed_over(accepted, each):
                    self._expire_restored(accepted, each, now)

    def needs_ledger(self) -> bool:
        """Returns True if ``recover`` has to read a ledger, which loads modules that a server does not need."""
        return any(
            accepted.ledger is not None and any(each.state in UNMIXED_STATES for each in rounds)
            for accepted in self.campaigns()
            if (rounds := self.store.rounds(accepted.campaign.id))
        )

    # --- Choosing the next step ---

    def _take_campaign_steps(self, accepted: AcceptedCampaign, now: int) -> None:
        for each in self.store.rounds(accepted.campaign.id):
            current = each
            while step := self._next_step(accepted, current, now):
                step(accepted, current, now)
                after = self.store.round(each.campaign, each.number)
                assert after is not None, "rounds are never removed"
                current = after
                self._log_state(current)
        if number := self._next_round_number(accepted, self.store.rounds(accepted.campaign.id)):
            self._open(accepted, number, now)
            self._log_state(self.store.rounds(accepted.campaign.id)[-1])

    def _log_state(self, each: Round) -> None:
        if self.is_logging:
            log_event("round", campaign=each.campaign[:12], round=each.number, state=each.state.value)

    def _next_round_number(self, accepted: AcceptedCampaign, rounds: list[Round]) -> int:
        """Returns the number of the round to open next; 0 if there is none."""
        if rounds and (rounds[-1].state in UNMIXED_STATES or rounds[-1].number == accepted.campaign.rounds):
            return 0
        return len(rounds) + 1

    def _next_step(self, accepted: AcceptedCampaign, each: Round, now: int) -> RoundStep | None:
        """Returns the step that a round takes now; None if it waits."""
        if each.state in UNMIXED_STATES:
            mixed, key = self.paths.batch_directory(each).exists(), self.paths.round_key(each.name)
            if self._is_marked(each):
                # An interrupted step to "expired", or a restored old state.
                return self._expire_restored if self.paths.finished_digest(each.name) else self._expire
            if key is None and not mixed:
                return self._expire
            if each.state is RoundState.CLOSING:
                return self._mix
            return self._close_round if each.closes <= now or key is None else None
        if each.state is RoundState.MIXED:
            return self._forget
        is_too_old = each.closes + accepted.campaign.retention <= now
        if each.state is RoundState.HANDED_OVER or (each.state is RoundState.FORGOTTEN and is_too_old):
            return self._erase
        return None

    def _is_marked(self, each: Round) -> bool:
        """Returns True if the mark beside the keys says that a round ended without the batch that is on disk."""
        digest, batch = self.paths.finished_digest(each.name), self.paths.batch_directory(each)
        return digest is not None and (not batch.exists() or Manifest.read(batch).digest != digest)

    def _was_handed_over(self, accepted: AcceptedCampaign, each: Round) -> bool:
        """Returns True if the mark or the ledger knows that an unmixed round was handed over before."""
        if self._is_marked(each):
            return True
        # After a kill between the ledger's entry and the next state the batch is on disk; settling detects another one.
        return not self.paths.batch_directory(each).exists() and self._is_released(accepted, each.name)

    def _is_released(self, accepted: AcceptedCampaign, name: str) -> bool:
        return accepted.ledger is not None and _open_ledger(accepted.ledger).has_released(name)

    # --- Steps ---

    def _open(self, accepted: AcceptedCampaign, number: int, now: int) -> None:
        campaign = accepted.campaign
        name, closes = f"{campaign.id}-{number}", now + campaign.window
        if self.paths.finished_digest(name) is not None or self._is_released(accepted, name):
            # A restored old state: the round must not be answered a second time.
            self.store.open_round(Round(campaign.id, number, RoundState.EXPIRED, now, 0, b""))
            return
        key = self.paths.create_round_key(name)
        self._reserve(accepted, number)
        notice = RoundNotice(campaign.id, number, now, closes, key.public_key).sign(self.paths.signing_key)
        self.store.open_round(Round(campaign.id, number, RoundState.OPEN, closes, 0, notice))

    def _reserve(self, accepted: AcceptedCampaign, number: int) -> None:
        if accepted.ledger is not None:
            from shuffledp.ledger.collection_guarantee import Guarantee

            plan = accepted.campaign.plan
            guarantee = Guarantee(plan, plan.fewest, round_number=number)
            _open_ledger(accepted.ledger).reserve(f"{accepted.campaign.id}-{number}", guarantee)

    def _close_round(self, accepted: AcceptedCampaign, each: Round, now: int) -> None:
        del accepted, now
        self.store.update_round(each, replace(each, state=RoundState.CLOSING))

    def _mix(self, accepted: AcceptedCampaign, each: Round, now: int) -> None:
        if self._was_handed_over(accepted, each):
            self._expire_restored(accepted, each, now)
            return
        batch = self.paths.batch_directory(each)
        if not batch.exists():
            try:
                self._write_batch(accepted, each)
            except TooFewUsers:
                self._extend_or_expire(accepted, each, now)
                return
        manifest = Manifest.read(batch)
        if not self._settle(accepted, each, manifest):
            self._expire_restored(accepted, each, now)
            return
        self.paths.mark_finished(each.name, manifest.digest)
        discarded = json.loads((batch / DISCARD_COUNTS_NAME).read_text("utf-8"))
        files = {path.name: path.stat().st_size for path in sorted(batch.glob("*.parquet"))}
        counts = discarded["repeated"], discarded["refused"]
        statement = BatchStatement(each.campaign, each.number, manifest, files, *counts)
        signed = statement.sign(self.paths.signing_key)
        self.store.update_round(each, replace(each, state=RoundState.MIXED, statement=signed))

    def _settle(self, accepted: AcceptedCampaign, each: Round, manifest: Manifest) -> bool:
        """Settles the round in the ledger; returns False if it was already released with other messages."""
        if accepted.ledger is None:
            return True
        from shuffledp.ledger.collection_guarantee import Guarantee
        from shuffledp.ledger.hash_chain import LedgerError

        ledger = _open_ledger(accepted.ledger)
        try:
            guarantee = Guarantee(accepted.campaign.plan, manifest.users, round_number=each.number)
            ledger.settle(each.name, guarantee, manifest.digest)
        except LedgerError:
            if not ledger.has_released(each.name):
                raise
            return False
        return True

    def _write_batch(self, accepted: AcceptedCampaign, each: Round) -> None:
        key, work = self.paths.round_key(each.name), self.paths.work_directory
        assert key is not None, "without a key it would have been expired"
        # Sorted runs of a killed process still reveal which messages came together.
        durable_files.remove_tree(work)
        durable_files.make_directory(work, 0o700)
        size = self.store.stored_bytes(each.campaign, each.number)
        segments = self.store.reports(each.campaign, each.number)
        try:
            with durable_files.create_atomic_directory(self.paths.batch_directory(each)) as unfinished:
                RoundMixer(accepted.campaign, each.number, key, self.workers).write(segments, size, unfinished, work)
        finally:
            durable_files.remove_tree(work)

    def _extend_or_expire(self, accepted: AcceptedCampaign, each: Round, now: int) -> None:
        campaign = accepted.campaign
        if each.extended >= campaign.extensions:
            self._expire(accepted, each, now)
            return
        before, closes = RoundNotice.from_signed(campaign, each.notice), now + campaign.window
        notice = replace(before, closes=closes).sign(self.paths.signing_key)
        extended = replace(each, state=RoundState.OPEN, closes=closes, extended=each.extended + 1, notice=notice)
        self.store.update_round(each, extended)

    def _forget(self, accepted: AcceptedCampaign, each: Round, now: int) -> None:
        del accepted, now
        self.paths.destroy_round_key(each.name)
        self._remove_leftovers(each)
        self.store.delete_reports(each.campaign, each.number)
        self.store.update_round(each, replace(each, state=RoundState.FORGOTTEN))

    def _erase(self, accepted: AcceptedCampaign, each: Round, now: int) -> None:
        del accepted, now
        durable_files.remove_tree(self.paths.batch_directory(each), surely=True)
        self.store.update_round(each, replace(each, state=RoundState.ERASED))

    def _expire(self, accepted: AcceptedCampaign, each: Round, now: int) -> None:
        del now
        # The mark comes first and is permanent: a round with an empty mark expires at every later look. On a full disk
        # writing it succeeds only after the deletions below.
        with suppress(OSError):
            self.paths.mark_finished(each.name)
        self.paths.destroy_round_key(each.name)
        self._remove_leftovers(each)
        durable_files.remove_tree(self.paths.batch_directory(each), surely=True)
        if self.paths.finished_digest(each.name) != "":
            self.paths.mark_finished(each.name)
        if each.state is RoundState.OPEN:
            self.store.update_round(each, replace(each, state=RoundState.CLOSING))
            each = replace(each, state=RoundState.CLOSING)
        self.store.delete_reports(each.campaign, each.number)
        if accepted.ledger is not None and _open_ledger(accepted.ledger).has_reserved(each.name):
            _open_ledger(accepted.ledger).give_back(each.name)
        self.store.update_round(each, replace(each, state=RoundState.EXPIRED))

    def _remove_leftovers(self, each: Round) -> None:
        """Removes leftovers of killed processes, which contain opened reports or reveal what came together."""
        durable_files.remove_tree(self.paths.work_directory, surely=True)
        durable_files.remove_unfinished_directories(self.paths.batch_directory(each))

    def _expire_restored(self, accepted: AcceptedCampaign, each: Round, now: int) -> None:
        """Expires a round that was already handed over before an old copy of the state was restored."""
        if self.is_logging:
            log_event("put back", campaign=each.campaign[:12], round=each.number, reason=f"it {RESTORED_STATE_REASON}")
        self._expire(accepted, each, now)


def _batch_digest(accepted: AcceptedCampaign, each: Round) -> str:
    """Returns the digest in the signed statement of a round; empty if there is none."""
    if each.statement is None:
        return ""
    return BatchStatement.from_signed(accepted.campaign, each.statement).manifest.digest


def _open_ledger(path: str) -> Ledger:
    """Opens a ledger; imported here because its proofs are not needed to find out whether a step is due."""
    from shuffledp.ledger.ledger import Ledger

    return Ledger(path)


# --- Background thread of a server ---

TICK_SECONDS, PAUSE_SECONDS = 1.0, 30.0
"""Time between two checks for due steps, and after a failed step."""

UNTRUSTED_CLOCK_REASON = (
    "the clock is so many seconds ahead of the time that passed; rounds follow the latter until both agree again, or "
    "you confirm the clock with `shuffledp campaign clock --confirm`"
)


def take_due_steps(paths: ShufflerPaths, now: int, workers: int | None = None, *, logs: bool = False) -> bool:
    """Takes every step that is due; returns False if another process holds a lock."""
    with paths.release_reserve(), closing(paths.open_store()) as store:
        try:
            with paths.lock_rounds(), store.lock_rounds():
                RoundManager(paths, store, workers, logs).take_due_steps(now)
        except BlockingIOError:
            return False
    return True


def recover(paths: ShufflerPaths) -> bool:
    """Runs ``RoundManager.recover``, which a server does before it accepts reports; returns False if it failed.

    Does nothing if another process holds the lock: that process recovers itself.
    """
    with closing(paths.open_store()) as store:
        if RoundManager(paths, store).needs_ledger():
            return _run_in_process(_recover, paths)
    return _recover(paths)


def _recover(paths: ShufflerPaths) -> bool:
    with closing(paths.open_store()) as store, suppress(BlockingIOError), paths.lock_rounds():
        RoundManager(paths, store, is_logging=True).recover(TrustedClock(paths.state).read().now)
    return True


def _run_in_process(work: Callable[..., object], *arguments: object) -> bool:
    """Runs work in a separate process, so that its memory is released; returns False if it failed (and logged why)."""
    process = multiprocessing.get_context("spawn").Process(target=_run_and_exit, args=(work, *arguments))
    process.start()
    process.join()
    return process.exitcode == 0


def _run_and_exit(work: Callable[..., object], *arguments: object) -> None:
    """Runs work; after a failure logs it and exits with status 1."""
    try:
        work(*arguments)
    except (ShuffledpError, ValueError, OSError) as error:
        log_event("failed", reason=" ".join(error_phrase(error).write(write_option).split()))
        sys.exit(1)
    # For unexpected errors only the type is logged: the message may contain anything.
    except Exception as error:
        log_event("failed", reason=type(error).__name__)
        sys.exit(1)


@dataclass
class RoundScheduler:
    """A thread that takes the steps of rounds when they are due, each time in a separate process."""

    paths: ShufflerPaths
    recovered: bool = False
    """True once ``recover`` has succeeded."""
    _stop_event: threading.Event = field(default_factory=threading.Event)
    _is_clock_untrusted: bool = False

    def start(self) -> None:
        """Starts the thread."""
        self._thread = threading.Thread(target=self._run, name="clock", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stops the thread after its current step."""
        self._stop_event.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop_event.is_set():
            try:
                self._poll()
            # Continues after any failure of disk or store: rounds must be closed once it works again.
            except Exception as error:
                log_event("failed", reason=f"rounds cannot be checked: {type(error).__name__}")
                self._stop_event.wait(PAUSE_SECONDS)

    def _poll(self) -> None:
        with closing(self.paths.open_store()) as store:
            manager, pause = RoundManager(self.paths, store), TICK_SECONDS
            while not self._stop_event.wait(pause):
                if not self.recovered and not recover(self.paths):
                    pause = PAUSE_SECONDS
                    continue
                self.recovered, now = True, self._read_time()
                pause = PAUSE_SECONDS if manager.is_due(now) and not self._take_steps(now) else TICK_SECONDS

    def _read_time(self) -> int:
        """Returns the time for rounds; logs when the machine's clock becomes untrusted or trusted again."""
        moment = TrustedClock(self.paths.state).read()
        if bool(moment.jump) != self._is_clock_untrusted:
            self._is_clock_untrusted = not self._is_clock_untrusted
            log_event(
                "clock",
                jump=moment.jump,
                reason=UNTRUSTED_CLOCK_REASON if self._is_clock_untrusted else "the clock is trusted again",
            )
        return moment.now

    def _is_lock_free(self) -> bool:
        """Returns True if no process on this machine holds the lock; cheaper than starting a process to find out."""
        try:
            with self.paths.lock_rounds():
                return True
        except BlockingIOError:
            return False

    def _take_steps(self, now: int) -> bool:
        """Takes the steps that are due; returns False if one failed."""
        if not self._is_lock_free():
            return True
        return _run_in_process(partial(take_due_steps, logs=True), self.paths, now)
