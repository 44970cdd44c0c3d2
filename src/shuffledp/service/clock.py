"""What closes rounds while a server runs: a thread that looks every second, and a process of its own for the work."""

from __future__ import annotations

import multiprocessing
import sys
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial

from shuffledp.errors import ShuffledpError
from shuffledp.service import journal
from shuffledp.service.observed_time import ObservedTime
from shuffledp.service.place import Place
from shuffledp.service.round import Keeper

TICK_SECONDS, PAUSE_SECONDS = 1.0, 30.0
"""Between two looks; and after a step that failed."""

DOUBTS = (
    "the clock is so many seconds ahead of the time that passed; rounds are closed and erased by the latter until it "
    "agrees again, or you confirm the clock by `shuffledp campaign clock --confirm`"
)


def turn(place: Place, now: int, workers: int | None = None, *, logs: bool = False) -> bool:
    """Every step of every round that is due; False where another process is at it."""
    with place.room(), closing(place.store()) as store:
        try:
            with place.alone(), store.alone():
                Keeper(place, store, workers, logs).turn(now)
        except BlockingIOError:
            return False
    return True


def recover(place: Place) -> bool:
    """Remove what was left, and close for good what a copy that was put back reopened; False where that failed.

    A server does it before it takes anything. Where another process is changing rounds, that one looks itself.
    """
    with closing(place.store()) as store:
        if Keeper(place, store).asks_ledgers():
            return _run(_recover, place)
    return _recover(place)


def _recover(place: Place) -> bool:
    with closing(place.store()) as store, suppress(BlockingIOError), place.alone():
        Keeper(place, store, logs=True).recover(ObservedTime(place.state).look().now)
    return True


def _run(work: Callable[..., object], *arguments: object) -> bool:
    """Work in a process of its own: memory and processors are given back; False where it failed, which it says."""
    process = multiprocessing.get_context("spawn").Process(target=_in_its_own_process, args=(work, *arguments))
    process.start()
    process.join()
    return process.exitcode == 0


def _in_its_own_process(work: Callable[..., object], *arguments: object) -> None:
    """A sentence where it fails."""
    try:
        work(*arguments)
    except (ShuffledpError, ValueError, OSError) as error:
        journal.tell("failed", reason=" ".join(str(error).split()))
        sys.exit(1)
    # Of what nobody thought of, no more than its kind: its words may hold anything.
    except Exception as error:
        journal.tell("failed", reason=type(error).__name__)
        sys.exit(1)


@dataclass
class Clock:
    """Looks at the rounds of a shuffler as long as it runs."""

    place: Place
    recovered: bool = False
    """Whether somebody looked what a kill or a copy that was put back left."""
    _ended: threading.Event = field(default_factory=threading.Event)
    _doubts: bool = False

    def start(self) -> None:
        """In a thread."""
        self._thread = threading.Thread(target=self._run, name="clock", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """After the step that it is at."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self._look_again_and_again()
            # Whatever a disk or a store does: rounds must be closed once it works again.
            except Exception as error:
                journal.tell("failed", reason=f"rounds cannot be looked at: {type(error).__name__}")
                self._ended.wait(PAUSE_SECONDS)

    def _look_again_and_again(self) -> None:
        with closing(self.place.store()) as store:
            keeper, pause = Keeper(self.place, store), TICK_SECONDS
            while not self._ended.wait(pause):
                if not self.recovered and not recover(self.place):
                    pause = PAUSE_SECONDS
                    continue
                self.recovered, now = True, self._now()
                pause = PAUSE_SECONDS if keeper.is_due(now) and not self._worked(now) else TICK_SECONDS

    def _now(self) -> int:
        """The time for rounds; a line where the machine's clock is not believed from now on, or is again."""
        moment = ObservedTime(self.place.state).look()
        if bool(moment.jump) != self._doubts:
            self._doubts = not self._doubts
            journal.tell("clock", jump=moment.jump, reason=DOUBTS if self._doubts else "the clock is believed again")
        return moment.now

    def _is_free(self) -> bool:
        """Whether nobody on this machine is at it: a process only to find that out would cost more than the look."""
        try:
            with self.place.alone():
                return True
        except BlockingIOError:
            return False

    def _worked(self, now: int) -> bool:
        """Take the steps that are due; False where one failed."""
        if not self._is_free():
            return True
        return _run(partial(turn, logs=True), self.place, now)
