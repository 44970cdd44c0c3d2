"""The time by which rounds are closed and batches erased: the machine's clock, while it goes with the time that passes.

What closing, expiring and erasing do cannot be taken back, and a clock can be set to any year, by mistake or by whoever
answers its questions. How long the shuffler's machine has really been running is kept on disk. A clock that is ahead of
that, or behind it, by more than an hour is not believed: rounds go on by the time that passes, until the clock agrees
again or the operator confirms it by ``shuffledp campaign clock --confirm``. A machine that was switched off for longer
has not seen that time pass either.
"""

from __future__ import annotations

import json
import time
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from shuffledp.collection import durable

MOST_JUMP_SECONDS = 3600.0
"""How far the clock may be from the time that passed since it was last believed for a whole day."""
DAY_SECONDS = 24 * 3600.0
KEPT_SECONDS = 60.0
"""What passes until it is written again."""
TRIES, PAUSE_SECONDS = 50, 0.1
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class Moment:
    """What time it is for rounds, and by how much the machine's clock is ahead of it; 0 where that is believed."""

    now: int
    jump: int


@dataclass(frozen=True)
class _Observed:
    """What is kept: all in seconds, but for the name of the boot."""

    boot: str
    uptime: float
    """Of that boot."""
    running: float
    """That the machine was seen to run, over all its boots."""
    anchor_running: float
    anchor_time: float
    """When the clock was last believed for a whole day, or confirmed: that very time, and ``running`` then."""

    @property
    def time(self) -> float:
        """What the clock would say had it gone on with the time that passed."""
        return self.anchor_time + self.running - self.anchor_running


def clock() -> float:
    """What the machine's clock says, in seconds since 1970."""
    return time.time()


def uptime() -> float:
    """Seconds since the machine was switched on; time asleep counts where the system counts it."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def boot() -> str:
    """A name that is another one whenever the machine is switched on; empty where the system has none."""
    return BOOT_ID.read_text("utf-8").strip() if BOOT_ID.exists() else ""


def _anchored(told: float) -> _Observed:
    """From now on, by a clock that tells this."""
    return _Observed(boot(), uptime(), 0.0, 0.0, told)


def _passed(known: _Observed) -> _Observed:
    """What was kept, and what has passed since: after another boot, the time since that."""
    name, since = boot(), uptime()
    same = name == known.boot and since >= known.uptime
    return replace(known, boot=name, uptime=since, running=known.running + since - (known.uptime if same else 0.0))


@dataclass(frozen=True)
class ObservedTime:
    """The time of one shuffler, in its state directory; all its processes may ask."""

    state: Path

    def look(self) -> Moment:
        """The time for rounds now."""
        known, told = self._read(), clock()
        observed = _anchored(told) if known is None else _passed(known)
        jump = told - observed.time
        if abs(jump) > MOST_JUMP_SECONDS:
            self._keep(known, observed)
            return Moment(int(observed.time), int(jump))
        if observed.running - observed.anchor_running >= DAY_SECONDS:
            observed = replace(observed, anchor_running=observed.running, anchor_time=told)
        self._keep(known, observed)
        return Moment(int(told), 0)

    def confirm(self) -> None:
        """Believe the clock, whatever it says: for the operator, who has looked at it."""
        for _ in range(TRIES):
            try:
                with self._locked():
                    self._write(_anchored(clock()))
                    return
            except BlockingIOError:
                time.sleep(PAUSE_SECONDS)
        raise ValueError(f"campaign: another process keeps {self._path} locked; try again.")

    # --- the file ---------------------------------------------------------------------------------------------

    @property
    def _path(self) -> Path:
        return self.state / "clock"

    def _locked(self) -> AbstractContextManager[object]:
        return durable.locked(self.state / "clock.lock")

    def _read(self) -> _Observed | None:
        try:
            told = json.loads(self._path.read_bytes())
            kinds = {field.name: str if field.type == "str" else float for field in fields(_Observed)}
            if told.keys() != kinds.keys() or any(type(told[name]) is not kind for name, kind in kinds.items()):
                raise ValueError
        except FileNotFoundError:
            return None
        except (ValueError, AttributeError):
            raise ValueError(
                f"shuffler: {self._path} is damaged; check this machine's clock, then confirm it by `shuffledp "
                f"campaign clock --confirm`."
            ) from None
        return _Observed(**told)

    def _keep(self, known: _Observed | None, observed: _Observed) -> None:
        """Write what has passed, now and then; where that fails, it is done the next time."""
        anchored = known is not None and known.anchor_time == observed.anchor_time
        if known is not None and anchored and observed.running - known.running < KEPT_SECONDS:
            return
        with suppress(OSError), self._locked():
            # Unless another process has written, or the operator confirmed, meanwhile.
            if self._read() == known:
                self._write(observed)

    def _write(self, observed: _Observed) -> None:
        durable.replace_whole(self._path, json.dumps(asdict(observed)).encode())
