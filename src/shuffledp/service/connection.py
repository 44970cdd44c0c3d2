"""Connections that wait for a request only so long: uvicorn itself waits for the head of a request forever."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

HEAD_SECONDS = 10.0
"""How long a request's head may take, at least; at most twice that."""


class Connection(HttpToolsProtocol):
    """Closes itself where nothing, or half a head, comes."""

    _late: asyncio.TimerHandle | None = None
    _looked_at: RequestResponseCycle | None = None
    _waited = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._late = self.loop.call_later(HEAD_SECONDS, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._late is not None:
            self._late.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        # Between two requests uvicorn's own timer runs, until the first byte of the next.
        waits = (self.cycle is None or self.cycle.response_complete) and self.timeout_keep_alive_task is None
        if waits and self._waited and self._looked_at is self.cycle:
            self.transport.close()
            return
        self._waited, self._looked_at = waits, self.cycle
        self._late = self.loop.call_later(HEAD_SECONDS, self._look)
