"""What closes rounds while a server runs: a thread that looks every second, and a process of its own for the work."""

from __future__ import annotations

import multiprocessing
import sys
import threading
import time
from contextlib import closing
from dataclasses import dataclass, field

from shuffledp.errors import ShuffledpError
from shuffledp.service.place import Place
from shuffledp.service.round import Keeper

TICK_SECONDS, PAUSE_SECONDS = 1.0, 30.0
"""Between two looks; and after a step that failed."""


def turn(place: Place, now: int, workers: int | None = None) -> bool:
    """Every step of every round that is due; False where another process is at it."""
    store = place.store()
    try:
        with place.alone():
            Keeper(place, store, workers).turn(now)
    except BlockingIOError:
        return False
    finally:
        store.close()
    return True


def _in_its_own_process(place: Place, now: int) -> None:
    """Memory and processors are given back when it is done; a sentence where it fails."""
    try:
        turn(place, now)
    except (ShuffledpError, ValueError, OSError) as error:
        print(f"shuffledp: {' '.join(str(error).split())}", file=sys.stderr, flush=True)
        sys.exit(1)


@dataclass
class Clock:
    """Looks at the rounds of a shuffler as long as it runs."""

    place: Place
    _ended: threading.Event = field(default_factory=threading.Event)

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
                print(f"shuffledp: rounds cannot be looked at: {type(error).__name__}.", file=sys.stderr, flush=True)
                self._ended.wait(PAUSE_SECONDS)

    def _look_again_and_again(self) -> None:
        with closing(self.place.store()) as store:
            keeper, pause = Keeper(self.place, store), TICK_SECONDS
            while not self._ended.wait(pause):
                now = int(time.time())
                pause = PAUSE_SECONDS if keeper.is_due(now) and not self._worked(now) else TICK_SECONDS

    def _worked(self, now: int) -> bool:
        """Take the steps that are due; False where one failed."""
        work = multiprocessing.get_context("spawn").Process(target=_in_its_own_process, args=(self.place, now))
        work.start()
        work.join()
        return work.exitcode == 0
