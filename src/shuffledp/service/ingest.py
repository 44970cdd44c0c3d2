"""The one path that is asked often: taking reports, as a bare ASGI function.

Nothing of a request but its body is looked at or kept: no address, no header, no time.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, NamedTuple

from shuffledp.service.asked_store import AskedStore
from shuffledp.service.patience import Patience
from shuffledp.service.store import Piece, State, Unavailable
from shuffledp.service.writer import GroupWriter

MOST_REPORTS = 1000
"""In one request."""
BODY_SECONDS = 20.0
"""How long a body may take."""
MOST_UNFINISHED_BYTES = 64 << 20
"""What all bodies of this process that have begun and not ended may hold together; above it they are refused. Counted
are bytes that came: a length that is only announced would cost whoever announces it nothing."""
MOST_WASTED = 8 << 20
"""Up to so many bytes a body that is too large is read to its end and thrown away: a proxy that is still passing it on
when the connection is closed would say of the shuffler that it does not answer. More is cut off."""
REPORTS_TYPE = "application/vnd.shuffledp.reports"
TYPE = REPORTS_TYPE.encode()
CAMPAIGN_PATTERN, ROUND_PATTERN = "[0-9a-f]{64}", "[1-9][0-9]{0,8}"
"""What ids of campaigns and numbers of rounds look like in addresses; nothing else is looked up."""
PATH = re.compile(f"/v1/campaigns/({CAMPAIGN_PATTERN})/rounds/({ROUND_PATTERN})/reports")
ANYBODY = (b"access-control-allow-origin", b"*")
"""Pages of every origin may send: nothing here rests on cookies."""
TITLES = {
    400: "The body must be one or more reports of the campaign's size, one after another.",
    401: "Only the campaign's analyst may see this.",
    404: "There is no such campaign or round.",
    405: "There is nothing of this kind here.",
    408: "The body took too long.",
    409: "This is not the batch that is here.",
    410: "The round is closed.",
    413: f"A request may hold at most {MOST_REPORTS} reports.",
    415: f"Reports are sent as {REPORTS_TYPE}.",
    431: "The head of the request is too large.",
    503: "Reports cannot be stored now; send the same bytes again.",
    507: "The round has taken as many reports as its campaign lets it.",
}
EXTRA_HEADERS = {
    401: [(b"www-authenticate", b"Bearer")],
    # What is left of the request is not waited for.
    408: [(b"connection", b"close")],
    413: [(b"connection", b"close")],
    431: [(b"connection", b"close")],
    503: [(b"retry-after", b"5"), (b"connection", b"close")],
}

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Refused(Exception):
    """A request gets this status and a sentence."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def problem(status: int) -> bytes:
    """The body of an answer that is none (RFC 9457)."""
    return json.dumps({"type": "about:blank", "title": TITLES[status], "status": status}).encode()


def extra_headers(status: int) -> list[tuple[bytes, bytes]]:
    """What some statuses say besides."""
    return EXTRA_HEADERS.get(status, [])


def head_of_problem(status: int) -> list[tuple[bytes, bytes]]:
    """The fields of the head of such an answer."""
    length, kind = str(len(problem(status))).encode(), b"application/problem+json"
    return [ANYBODY, (b"content-length", length), *extra_headers(status), (b"content-type", kind)]


def _said(status: int) -> tuple[Message, Message]:
    """An empty answer, or a problem."""
    body = b"" if status < 400 else problem(status)
    headers = head_of_problem(status) if body else [ANYBODY, (b"content-length", b"0")]
    return (
        {"type": "http.response.start", "status": status, "headers": headers},
        {"type": "http.response.body", "body": body},
    )


CREATED = 201
ANSWERS = {status: _said(status) for status in (CREATED, *TITLES)}


class Inbox(NamedTuple):
    """Where reports go: the campaign and its round, and the bytes of a report."""

    campaign: str
    number: int
    size: int


class Ingest:
    """Takes reports: 201 once they are on disk, also for those that are there already."""

    def __init__(self, writer: GroupWriter, store: AskedStore) -> None:
        self._writer, self._store = writer, store
        self._patience = Patience()
        self._inboxes: dict[str, Inbox] = {}
        self._unfinished = 0

    async def __call__(self, path: str, headers: Iterable[tuple[bytes, bytes]], receive: Receive, send: Send) -> None:
        """Answer one POST."""
        try:
            inbox = self._inboxes.get(path) or await self._inbox(path)
            # Also for the first byte: it may never come.
            with self._patience.within(BODY_SECONDS):
                content = await self._body(receive, _most(inbox, headers))
            if not content or len(content) % inbox.size:
                raise Refused(400)
            if not await self._writer.append(Piece(inbox.campaign, inbox.number, content)):
                raise Refused(await self._why(inbox))
            # Only what exists is remembered, however many are asked for.
            self._inboxes[path] = inbox
            status = CREATED
        except Refused as refused:
            status = refused.status
        except TimeoutError:
            status = 408
        except Unavailable:
            status = 503
        start, body = ANSWERS[status]
        await send(start)
        await send(body)

    async def _why(self, inbox: Inbox) -> int:
        """The status for reports that were not stored."""
        found = await self._store.ask(lambda store: store.round(inbox.campaign, inbox.number))
        if found is None:
            return 404
        return 507 if found.state is State.OPEN and found.closes > time.time() else 410

    async def _inbox(self, path: str) -> Inbox:
        found = PATH.fullmatch(path)
        if found is None:
            raise Refused(404)
        size: int | None = await self._store.ask(lambda store: store.report_bytes(found[1]))
        if size is None:
            raise Refused(404)
        return Inbox(found[1], int(found[2]), size)

    async def _body(self, receive: Receive, most: int) -> bytes:
        message = await receive()
        content = _content(message)
        if not message.get("more_body", False) and len(content) <= most:
            # It came in one piece, and is no unfinished one: these are taken even where the others have all the room.
            return content
        pieces: list[bytes] = []
        came, held = 0, 0
        try:
            while True:
                came += len(content)
                if came > most:
                    # It is heard to its end and not kept.
                    self._unfinished -= held
                    held = 0
                    pieces.clear()
                elif self._unfinished + len(content) > MOST_UNFINISHED_BYTES:
                    raise Refused(503)
                else:
                    self._unfinished += len(content)
                    held += len(content)
                    pieces.append(content)
                if not message.get("more_body", False) or came > max(most, MOST_WASTED):
                    break
                message = await receive()
                content = _content(message)
        finally:
            self._unfinished -= held
        if came > most:
            raise Refused(413)
        return b"".join(pieces)


def _most(inbox: Inbox, headers: Iterable[tuple[bytes, bytes]]) -> int:
    """How many bytes a body may have; headers that say otherwise are refused."""
    most = inbox.size * MOST_REPORTS
    for name, value in headers:
        if name == b"content-length" and (not value.isdigit() or int(value[:20]) > max(most, MOST_WASTED)):
            raise Refused(413)
        if name == b"content-type" and value != TYPE and value.partition(b";")[0].strip().lower() != TYPE:
            raise Refused(415)
    return most


def _content(message: Message) -> bytes:
    if message["type"] == "http.disconnect":
        raise Refused(400)
    content: bytes = message.get("body", b"")
    return content
