"""Connections with limits: uvicorn itself waits for the head of a request forever, and keeps all of it in memory.

The body is not limited here but where its size is known, in ``ingest.py``.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from shuffledp.service.ingest import head_of_problem, problem

HEAD_SECONDS = 10.0
"""How long a request's head may take, at least; at most twice that."""
MOST_HEAD_BYTES = 1 << 14
"""A head of so many bytes is read; one of twice as many is not. The same holds for whatever of a request is neither
head nor body: trailers, and what may stand between the chunks of a body."""
MOST_FIELDS = 100
"""In one head, with its trailers: many small fields take far more memory than bytes."""
MOST_AHEAD = 8
"""Requests that may wait on one connection for the answer to an earlier one."""
TOO_LARGE = 431


class _Exceeded(Exception):
    """A request has too many fields, or too many requests wait."""


class Connection(HttpToolsProtocol):
    """Closes itself where nothing, half a head, or a head without an end comes."""

    _late: asyncio.TimerHandle | None = None
    _looked_at: RequestResponseCycle | None = None
    _waited = False
    _advanced = False
    _unfinished = 0
    """Bytes since the last head, piece of a body, or end of a request."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._late = self.loop.call_later(HEAD_SECONDS, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._late is not None:
            self._late.cancel()
        super().connection_lost(exc)

    # --- time ---------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        # Between two requests uvicorn's own timer runs, until the first byte of the next.
        waits = (self.cycle is None or self.cycle.response_complete) and self.timeout_keep_alive_task is None
        if waits and self._waited and self._looked_at is self.cycle:
            self.transport.close()
            return
        self._waited, self._looked_at = waits, self.cycle
        self._late = self.loop.call_later(HEAD_SECONDS, self._look)

    # --- bytes --------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        # In pieces: where in a piece a head begins is not known, so that a piece is how exactly heads are measured.
        if len(data) <= MOST_HEAD_BYTES:
            self._parse(data)
        else:
            for start in range(0, len(data), MOST_HEAD_BYTES):
                self._parse(data[start : start + MOST_HEAD_BYTES])

    def _parse(self, piece: bytes) -> None:
        if self.transport.is_closing():
            return
        self._advanced = False
        super().data_received(piece)
        self._unfinished = 0 if self._advanced else self._unfinished + len(piece)
        if self._unfinished > MOST_HEAD_BYTES:
            self._refuse()

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= MOST_FIELDS:
            raise _Exceeded
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= MOST_AHEAD:
            raise _Exceeded
        self._advanced = True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._advanced = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._advanced = True
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """What uvicorn says of a request that its parser, or one of the methods above, gave up."""
        if len(self.headers or ()) >= MOST_FIELDS or len(self.pipeline) >= MOST_AHEAD:
            self._refuse()
        else:
            super().send_400_response(msg)

    def _refuse(self) -> None:
        if self.transport.is_closing():
            return
        # In the middle of an earlier answer there is no room for another one.
        answering = self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete
        if not answering and not self.pipeline:
            fields = [name + b": " + value + b"\r\n" for name, value in head_of_problem(TOO_LARGE)]
            self.transport.write(b"".join([STATUS_LINE[TOO_LARGE], *fields, b"\r\n", problem(TOO_LARGE)]))
        self.transport.close()
