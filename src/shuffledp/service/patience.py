"""Waiting for bodies only so long, with one timer for all of them: one for each would cost as much as the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Patience:
    """Tasks that wait, and since when; ``TimeoutError`` in those that waited longer than ``seconds``."""

    def __init__(self) -> None:
        self._since: dict[asyncio.Task[Any], float] = {}
        self._late: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Give the block so long, and at most as long again."""
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None, "a server runs its applications in tasks"
        self._since[task] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(seconds, self._look, loop, seconds)
        try:
            yield
        except asyncio.CancelledError:
            if task not in self._late:
                raise
            task.uncancel()
            raise TimeoutError from None
        finally:
            del self._since[task]
            self._late.discard(task)

    def _look(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._timer = loop.call_later(seconds, self._look, loop, seconds) if self._since else None
        for task, begun in self._since.items():
            if loop.time() - begun >= seconds and task not in self._late:
                self._late.add(task)
                task.cancel()
