"""Ingest of reports, the frequent request: checked, read within limits, and stored by a group commit.

Only the body of a request is stored: no address, no header, no time.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from shuffledp.service.crypto import REPORTS_MEDIA_TYPE
from shuffledp.service.stores import PostedReports, RoundState, Store, StoreUnavailable

# --- Asynchronous access to a store ---

QueryResult = TypeVar("QueryResult")


class AsyncStore:
    """A store that is queried in its own thread, so that a slow store does not block the event loop.

    A connection may be used by one thread only, so queries wait for each other.
    """

    def __init__(self, connect: Callable[[], Store]) -> None:
        self._store = connect()
        self._thread = ThreadPoolExecutor(1, "store")

    async def query(self, question: Callable[[Store], QueryResult]) -> QueryResult:
        """Runs a query in the store's thread and returns its result or raises its exception."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, question, self._store)

    def close(self) -> None:
        """Closes the store after pending queries are answered."""
        self._thread.shutdown()
        self._store.close()


# --- Timeout of request bodies ---


class BodyTimeout:
    """A timeout for many tasks with a single timer; a timer per request would double the cost of a request."""

    def __init__(self) -> None:
        self._since: dict[asyncio.Task[Any], float] = {}
        self._late: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def limit(self, seconds: float) -> Iterator[None]:
        """Raises ``TimeoutError`` in the block if it takes too long: after ``seconds`` to twice ``seconds``."""
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None, "a server runs its applications in tasks"
        self._since[task] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(seconds, self._cancel_late_tasks, loop, seconds)
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

    def _cancel_late_tasks(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._timer = loop.call_later(seconds, self._cancel_late_tasks, loop, seconds) if self._since else None
        for task, begun in self._since.items():
            if loop.time() - begun >= seconds and task not in self._late:
                self._late.add(task)
                task.cancel()


# --- Group commit ---

MAX_PENDING_BYTES = 64 << 20
"""Maximum size of reports that wait for a commit; more are refused until the disk has caught up."""

PendingReports = list[tuple[PostedReports, "asyncio.Future[bool]"]]


class GroupWriter:
    """The thread that writes all reports of this process, with its own connection from ``connect``.

    All requests that arrived since the last commit go into the next one, without an added delay.
    """

    def __init__(self, connect: Callable[[], Store]) -> None:
        self._connect = connect
        self._changed = threading.Condition()
        self._waiting: PendingReports = []
        self._bytes = 0
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

    def start(self) -> None:
        """Starts the thread; needs a running event loop, to which results are reported."""
        self._loop, self._store = asyncio.get_running_loop(), self._connect()
        self._thread.start()

    def stop(self) -> None:
        """Stops the thread after all waiting reports are written."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()

    async def append(self, piece: PostedReports) -> bool:
        """Returns True once the reports are durably stored; False if their round is closed or full.

        Raises:
            StoreUnavailable: If the store failed, the thread is stopping, or too many reports wait.
        """
        done: asyncio.Future[bool] = self._loop.create_future()
        with self._changed:
            if self._stopping or self._bytes > MAX_PENDING_BYTES:
                raise StoreUnavailable
            self._waiting.append((piece, done))
            self._bytes += len(piece.content)
            if len(self._waiting) == 1:
                self._changed.notify()
        return await done

    def _run(self) -> None:
        while pending := self._take_pending():
            try:
                stored: list[bool] | None = self._store.append_reports([piece for piece, _ in pending], time.time())
            # After any failure, nothing is acknowledged.
            except Exception:
                stored = None
            self._loop.call_soon_threadsafe(_resolve_futures, pending, stored)
        self._store.close()

    def _take_pending(self) -> PendingReports:
        """Waits for reports and returns them; returns an empty list when stopping."""
        with self._changed:
            while not self._waiting and not self._stopping:
                self._changed.wait()
            pending, self._waiting, self._bytes = self._waiting, [], 0
            return pending


def _resolve_futures(pending: PendingReports, stored: list[bool] | None) -> None:
    for place, (_, done) in enumerate(pending):
        if done.done():
            # The client has disconnected.
            continue
        if stored is None:
            done.set_exception(StoreUnavailable())
        else:
            done.set_result(stored[place])


# --- Requests with reports ---

MAX_REPORTS_PER_REQUEST = 1000
"""Maximum number of reports in one request."""
BODY_TIMEOUT_SECONDS = 20.0
"""Time within which a body must arrive."""
MAX_UNFINISHED_BYTES = 64 << 20
"""Maximum total size of unfinished bodies in this process; above it they are refused. Only received bytes count:
announcing a length costs an attacker nothing."""
MAX_DISCARDED_BYTES = 8 << 20
"""A body that is too large is read to its end and discarded up to this many bytes, then cut off: a proxy that is still
forwarding it when the connection closes would report that the shuffler does not respond."""
REPORTS_CONTENT_TYPE = REPORTS_MEDIA_TYPE.encode()
CAMPAIGN_PATTERN, ROUND_PATTERN = "[0-9a-f]{64}", "[1-9][0-9]{0,8}"
"""Patterns of campaign ids and round numbers in paths; anything else is not looked up."""
REPORTS_PATH = re.compile(f"/v1/campaigns/({CAMPAIGN_PATTERN})/rounds/({ROUND_PATTERN})/reports")
ALLOW_ANY_ORIGIN = (b"access-control-allow-origin", b"*")
"""Pages of every origin may send requests: no authorization uses cookies."""
TITLES = {
    400: "The body must be one or more reports of the campaign's size, one after another.",
    401: "Only the campaign's analyst may fetch this.",
    404: "There is no such campaign or round.",
    405: "This method is not supported here.",
    408: "The body did not arrive in time.",
    409: "The digest is not that of the batch.",
    410: "The round is closed.",
    413: f"A request may hold at most {MAX_REPORTS_PER_REQUEST} reports.",
    415: f"Reports are sent as {REPORTS_MEDIA_TYPE}.",
    431: "The head of the request is too large.",
    503: "Reports cannot be stored now; send the same bytes again.",
    507: "The round is full: it has as many reports as its campaign accepts.",
}
EXTRA_HEADERS = {
    401: [(b"www-authenticate", b"Bearer")],
    # The rest of the request is not read.
    408: [(b"connection", b"close")],
    413: [(b"connection", b"close")],
    431: [(b"connection", b"close")],
    503: [(b"retry-after", b"5"), (b"connection", b"close")],
}

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class HttpError(Exception):
    """The error raised to answer a request with this status and its title."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def format_problem(status: int) -> bytes:
    """Returns the body of an error response (problem details, RFC 9457)."""
    return json.dumps({"type": "about:blank", "title": TITLES[status], "status": status}).encode()


def extra_response_headers(status: int) -> list[tuple[bytes, bytes]]:
    """Returns the additional headers of a status."""
    return EXTRA_HEADERS.get(status, [])


def problem_headers(status: int) -> list[tuple[bytes, bytes]]:
    """Returns the headers of an error response."""
    length, kind = str(len(format_problem(status))).encode(), b"application/problem+json"
    return [ALLOW_ANY_ORIGIN, (b"content-length", length), *extra_response_headers(status), (b"content-type", kind)]


def _build_response(status: int) -> tuple[Message, Message]:
    """Returns the ASGI messages of an empty response, or of an error response."""
    body = b"" if status < 400 else format_problem(status)
    headers = problem_headers(status) if body else [ALLOW_ANY_ORIGIN, (b"content-length", b"0")]
    return (
        {"type": "http.response.start", "status": status, "headers": headers},
        {"type": "http.response.body", "body": body},
    )


CREATED = 201
RESPONSES = {status: _build_response(status) for status in (CREATED, *TITLES)}


class ReportTarget(NamedTuple):
    """The destination of reports: a campaign, its round, and the size of a report."""

    campaign: str
    number: int
    report_bytes: int


class Ingest:
    """Accepts reports; answers 201 once they are on disk, also for repeated ones."""

    def __init__(self, writer: GroupWriter, store: AsyncStore) -> None:
        self._writer, self._store = writer, store
        self._body_timeout = BodyTimeout()
        self._targets: dict[str, ReportTarget] = {}
        self._unfinished = 0

    async def __call__(self, path: str, headers: Iterable[tuple[bytes, bytes]], receive: Receive, send: Send) -> None:
        """Answers a POST request."""
        try:
            target = self._targets.get(path) or await self._find_target(path)
            # Covers the first byte, which may never come.
            with self._body_timeout.limit(BODY_TIMEOUT_SECONDS):
                content = await self._read_body(receive, _max_body_bytes(target, headers))
            if not content or len(content) % target.report_bytes:
                raise HttpError(400)
            if not await self._writer.append(PostedReports(target.campaign, target.number, content)):
                raise HttpError(await self._rejection_status(target))
            # Only existing paths are cached, so that requests for others cannot fill the memory.
            self._targets[path] = target
            status = CREATED
        except HttpError as error:
            status = error.status
        except TimeoutError:
            status = 408
        except StoreUnavailable:
            status = 503
        start, body = RESPONSES[status]
        await send(start)
        await send(body)

    async def _rejection_status(self, target: ReportTarget) -> int:
        """Returns the status for reports that were not stored."""
        found = await self._store.query(lambda store: store.round(target.campaign, target.number))
        if found is None:
            return 404
        return 507 if found.state is RoundState.OPEN and found.closes > time.time() else 410

    async def _find_target(self, path: str) -> ReportTarget:
        found = REPORTS_PATH.fullmatch(path)
        if found is None:
            raise HttpError(404)
        size: int | None = await self._store.query(lambda store: store.report_bytes(found[1]))
        if size is None:
            raise HttpError(404)
        return ReportTarget(found[1], int(found[2]), size)

    async def _read_body(self, receive: Receive, most: int) -> bytes:
        message = await receive()
        content = _message_body(message)
        if not message.get("more_body", False) and len(content) <= most:
            # A body in one piece is never unfinished, so it is accepted even if unfinished ones use all the memory.
            return content
        pieces: list[bytes] = []
        received, held = 0, 0
        try:
            while True:
                received += len(content)
                if received > most:
                    # Read to the end, but not stored.
                    self._unfinished -= held
                    held = 0
                    pieces.clear()
                elif self._unfinished + len(content) > MAX_UNFINISHED_BYTES:
                    raise HttpError(503)
                else:
                    self._unfinished += len(content)
                    held += len(content)
                    pieces.append(content)
                if not message.get("more_body", False) or received > max(most, MAX_DISCARDED_BYTES):
                    break
                message = await receive()
                content = _message_body(message)
        finally:
            self._unfinished -= held
        if received > most:
            raise HttpError(413)
        return b"".join(pieces)


def _max_body_bytes(target: ReportTarget, headers: Iterable[tuple[bytes, bytes]]) -> int:
    """Returns the maximum size of a body; raises HttpError for headers with a larger length or another media type."""
    most = target.report_bytes * MAX_REPORTS_PER_REQUEST
    for name, value in headers:
        if name == b"content-length" and (not value.isdigit() or int(value[:20]) > max(most, MAX_DISCARDED_BYTES)):
            raise HttpError(413)
        if (
            name == b"content-type"
            and value != REPORTS_CONTENT_TYPE
            and value.partition(b";")[0].strip().lower() != REPORTS_CONTENT_TYPE
        ):
            raise HttpError(415)
    return most


def _message_body(message: Message) -> bytes:
    if message["type"] == "http.disconnect":
        raise HttpError(400)
    content: bytes = message.get("body", b"")
    return content
