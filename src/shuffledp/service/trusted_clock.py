"""The time by which rounds are closed and batches erased: the machine's clock, as long as it agrees with elapsed time.

Closing, expiring and erasing cannot be undone, and a clock can be set to any year, by mistake or by whoever controls
its time server. The time for which the shuffler's machine has been running is therefore recorded on disk. A clock that
deviates from it by more than an hour is not trusted: rounds follow the elapsed time until the clock agrees again or the
operator confirms it by ``shuffledp campaign clock --confirm``. Time while the machine is switched off is not
counted, so a clock is not trusted after more than an hour of that either.
"""

from __future__ import annotations

import json
import time
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from shuffledp.storage import durable_files

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


def _new_record(told: float) -> _ClockRecord:
    """Returns a new record with the anchor at this time of the clock."""
    return _ClockRecord(boot_id(), uptime(), 0.0, 0.0, told)


def _advance_record(known: _ClockRecord) -> _ClockRecord:
    """Adds the running time since the record was written; after a reboot, the time since that."""
    name, since = boot_id(), uptime()
    same = name == known.boot and since >= known.uptime
    return replace(known, boot=name, uptime=since, running=known.running + since - (known.uptime if same else 0.0))


@dataclass(frozen=True)
class TrustedClock:
    """The time of one shuffler, recorded in its state directory and shared by its processes."""

    state: Path

    def read(self) -> TrustedTime:
        """Returns the current time for rounds and updates the record."""
        known, told = self._read_record(), clock_time()
        observed = _new_record(told) if known is None else _advance_record(known)
        jump = told - observed.time
        if abs(jump) > MAX_CLOCK_DEVIATION_SECONDS:
            self._save_record_if_stale(known, observed)
            return TrustedTime(int(observed.time), int(jump))
        if observed.running - observed.anchor_running >= DAY_SECONDS:
            observed = replace(observed, anchor_running=observed.running, anchor_time=told)
        self._save_record_if_stale(known, observed)
        return TrustedTime(int(told), 0)

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
            told = json.loads(self._path.read_bytes())
            kinds = {field.name: str if field.type == "str" else float for field in fields(_ClockRecord)}
            if told.keys() != kinds.keys() or any(type(told[name]) is not kind for name, kind in kinds.items()):
                raise ValueError
        except FileNotFoundError:
            return None
        except (ValueError, AttributeError):
            raise ValueError(
                f"shuffler: {self._path} is damaged; check this machine's clock, then confirm it by `shuffledp "
                f"campaign clock --confirm`."
            ) from None
        return _ClockRecord(**told)

    def _save_record_if_stale(self, known: _ClockRecord | None, observed: _ClockRecord) -> None:
        """Writes the record if it is older than KEPT_SECONDS or the anchor changed; a failed write is retried later."""
        anchored = known is not None and known.anchor_time == observed.anchor_time
        if known is not None and anchored and observed.running - known.running < RECORD_INTERVAL_SECONDS:
            return
        with suppress(OSError), self._locked():
            # Another process may have written the record, or the operator may have confirmed the clock.
            if self._read_record() == known:
                self._write_record(observed)

    def _write_record(self, observed: _ClockRecord) -> None:
        durable_files.replace_atomically(self._path, json.dumps(asdict(observed)).encode())
