"""A store that a server asks in a thread of its own: one that is slow, or does not answer, keeps no other waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from shuffledp.service.store import Store

Answer = TypeVar("Answer")


class AskedStore:
    """One connection in one thread, because a connection is for one: questions wait for each other and for no more."""

    def __init__(self, connect: Callable[[], Store]) -> None:
        self._store = connect()
        self._thread = ThreadPoolExecutor(1, "store")

    async def ask(self, question: Callable[[Store], Answer]) -> Answer:
        """What the store answers; what it raises is raised here."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, question, self._store)

    def close(self) -> None:
        """When what was asked is answered."""
        self._thread.shutdown()
        self._store.close()
