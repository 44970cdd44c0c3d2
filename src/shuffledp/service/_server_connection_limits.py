"""HTTP connections with limits on the head of a request; uvicorn alone waits for it forever and buffers all of it.

The body is limited in ``ingest.py``, where its maximum size is known.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from shuffledp.service.ingest import format_problem, problem_headers

HEAD_TIMEOUT_SECONDS = 10.0
"""A request's head must arrive within this time; slower ones are cut off after at most twice the time."""
MAX_HEAD_BYTES = 1 << 14
"""A head of this size is accepted, one of twice the size is refused. The same holds for the parts of a request that are
neither head nor body: trailers, and extensions between the chunks of a body."""
MAX_HEADER_FIELDS = 100
"""Maximum number of fields in a head and its trailers: many small fields take far more memory than their bytes."""
MAX_PIPELINED_REQUESTS = 8
"""Maximum number of pipelined requests that wait on one connection."""
HEADER_FIELDS_TOO_LARGE = 431


class _LimitExceeded(Exception):
    """The error raised if a request has too many fields, or too many requests wait."""


class LimitedConnection(HttpToolsProtocol):
    """A connection that closes itself if the head of a request is missing, incomplete or too large."""

    _head_timer: asyncio.TimerHandle | None = None
    _checked_cycle: RequestResponseCycle | None = None
    _was_waiting = False
    _made_progress = False
    _unfinished_bytes = 0
    """Bytes received since the last complete head, piece of a body, or end of a request."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head_timer = self.loop.call_later(HEAD_TIMEOUT_SECONDS, self._check_progress)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
        super().connection_lost(exc)

    # --- Time limit ---

    def _check_progress(self) -> None:
        # Between two requests, until the first byte of the next, uvicorn's keep-alive timer runs.
        waits = (self.cycle is None or self.cycle.response_complete) and self.timeout_keep_alive_task is None
        if waits and self._was_waiting and self._checked_cycle is self.cycle:
            self.transport.close()
            return
        self._was_waiting, self._checked_cycle = waits, self.cycle
        self._head_timer = self.loop.call_later(HEAD_TIMEOUT_SECONDS, self._check_progress)

    # --- Size limits ---

    def data_received(self, data: bytes) -> None:
        # Heads are measured in units of pieces, because it is not known where in a piece a head begins.
        if len(data) <= MAX_HEAD_BYTES:
            self._parse(data)
        else:
            for start in range(0, len(data), MAX_HEAD_BYTES):
                self._parse(data[start : start + MAX_HEAD_BYTES])

    def _parse(self, piece: bytes) -> None:
        if self.transport.is_closing():
            return
        self._made_progress = False
        super().data_received(piece)
        self._unfinished_bytes = 0 if self._made_progress else self._unfinished_bytes + len(piece)
        if self._unfinished_bytes > MAX_HEAD_BYTES:
            self._reject_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= MAX_HEADER_FIELDS:
            raise _LimitExceeded
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= MAX_PIPELINED_REQUESTS:
            raise _LimitExceeded
        self._made_progress = True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._made_progress = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._made_progress = True
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answers a request that uvicorn's parser, or one of the methods above, rejected."""
        if len(self.headers or ()) >= MAX_HEADER_FIELDS or len(self.pipeline) >= MAX_PIPELINED_REQUESTS:
            self._reject_head()
        else:
            super().send_400_response(msg)

    def _reject_head(self) -> None:
        if self.transport.is_closing():
            return
        # No response can be written in the middle of an earlier one.
        answering = self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete
        if not answering and not self.pipeline:
            fields = [name + b": " + value + b"\r\n" for name, value in problem_headers(HEADER_FIELDS_TOO_LARGE)]
            self.transport.write(
                b"".join(
                    [STATUS_LINE[HEADER_FIELDS_TOO_LARGE], *fields, b"\r\n", format_problem(HEADER_FIELDS_TOO_LARGE)]
                )
            )
        self.transport.close()
