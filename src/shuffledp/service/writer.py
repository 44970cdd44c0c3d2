"""One thread that writes: whatever gathered since the last commit goes into the next, without a delay of its own."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

from shuffledp.service.store import Piece, Store, Unavailable

MOST_WAITING_BYTES = 64 << 20
"""What may wait for a commit; more is refused until the disk has caught up."""

Waiting = list[tuple[Piece, "asyncio.Future[bool]"]]


class GroupWriter:
    """The store's only writer of reports in this process; ``connect`` gives it a connection of its own."""

    def __init__(self, connect: Callable[[], Store]) -> None:
        self._connect = connect
        self._changed = threading.Condition()
        self._waiting: Waiting = []
        self._bytes = 0
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

    def start(self) -> None:
        """Once a loop is running: it is told of what is done."""
        self._loop, self._store = asyncio.get_running_loop(), self._connect()
        self._thread.start()

    def stop(self) -> None:
        """When everything that waits is written."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()

    async def append(self, piece: Piece) -> bool:
        """Whether the reports are durably stored; False if their round is not open."""
        done: asyncio.Future[bool] = self._loop.create_future()
        with self._changed:
            if self._stopping or self._bytes > MOST_WAITING_BYTES:
                raise Unavailable
            self._waiting.append((piece, done))
            self._bytes += len(piece.content)
            if len(self._waiting) == 1:
                self._changed.notify()
        return await done

    def _run(self) -> None:
        while gathered := self._gathered():
            try:
                taken: list[bool] | None = self._store.append([piece for piece, _ in gathered], time.time())
            # Whatever the reason is: nobody is told that anything was stored.
            except Exception:
                taken = None
            self._loop.call_soon_threadsafe(_answer, gathered, taken)
        self._store.close()

    def _gathered(self) -> Waiting:
        """What waits, as soon as there is anything; nothing at the end."""
        with self._changed:
            while not self._waiting and not self._stopping:
                self._changed.wait()
            gathered, self._waiting, self._bytes = self._waiting, [], 0
            return gathered


def _answer(gathered: Waiting, taken: list[bool] | None) -> None:
    for place, (_, done) in enumerate(gathered):
        if done.done():
            # Whoever asked has gone.
            continue
        if taken is None:
            done.set_exception(Unavailable())
        else:
            done.set_result(taken[place])
