"""The one path that is asked often: taking reports, as a bare ASGI function.

Nothing of a request but its body is looked at or kept: no address, no header, no time.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from shuffledp.service.campaign import Campaign
from shuffledp.service.store import Piece, Store, Unavailable
from shuffledp.service.writer import GroupWriter

MOST_REPORTS = 1000
"""In one request."""
BODY_SECONDS = 20.0
"""How long a body may take."""
REPORTS_TYPE = "application/vnd.shuffledp.reports"
PATH = re.compile(r"/v1/campaigns/([0-9a-f]{64})/rounds/([1-9][0-9]{0,8})/reports")
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
    503: "Reports cannot be stored now; send the same bytes again.",
}
EXTRA_HEADERS = {
    401: [(b"www-authenticate", b"Bearer")],
    # What is left of the body is not waited for.
    408: [(b"connection", b"close")],
    413: [(b"connection", b"close")],
    503: [(b"retry-after", b"5")],
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


async def answer(send: Send, status: int) -> None:
    """An empty answer, or a problem."""
    body = b"" if status < 400 else problem(status)
    headers = [ANYBODY, (b"content-length", str(len(body)).encode()), *extra_headers(status)]
    if body:
        headers.append((b"content-type", b"application/problem+json"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class Ingest:
    """Takes reports: 201 once they are on disk, also for those that are there already."""

    def __init__(self, writer: GroupWriter, store: Store) -> None:
        self._writer, self._store = writer, store
        self._sizes: dict[str, int] = {}

    async def __call__(self, path: str, headers: Iterable[tuple[bytes, bytes]], receive: Receive, send: Send) -> None:
        """Answer one POST."""
        try:
            await self._take(path, headers, receive)
        except Refused as refused:
            await answer(send, refused.status)
        except Unavailable:
            await answer(send, 503)
        else:
            await answer(send, 201)

    async def _take(self, path: str, headers: Iterable[tuple[bytes, bytes]], receive: Receive) -> None:
        found = PATH.fullmatch(path)
        if found is None:
            raise Refused(404)
        campaign, number = found[1], int(found[2])
        size = self._sizes.get(campaign) or self._size(campaign)
        most = size * MOST_REPORTS
        for name, value in headers:
            if name == b"content-length" and (not value.isdigit() or int(value[:20]) > most):
                raise Refused(413)
            if name == b"content-type" and value.partition(b";")[0].strip().lower() != REPORTS_TYPE.encode():
                raise Refused(415)
        content = await _body(receive, most)
        if not content or len(content) % size:
            raise Refused(400)
        if not await self._writer.append(Piece(campaign, number, content)):
            raise Refused(404 if self._store.round(campaign, number) is None else 410)

    def _size(self, id_: str) -> int:
        """Of a report, if there is such a campaign."""
        campaign: Campaign | None = self._store.campaign(id_)
        if campaign is None:
            raise Refused(404)
        return self._sizes.setdefault(id_, campaign.report_bytes)


async def _body(receive: Receive, most: int) -> bytes:
    pieces, held, more = [], 0, True
    try:
        # Also for the first byte: it may never come.
        async with asyncio.timeout(BODY_SECONDS):
            while more:
                message = await receive()
                more = message.get("more_body", False)
                pieces.append(message.get("body", b""))
                held += len(pieces[-1])
                _demand(message, held, most)
    except TimeoutError:
        raise Refused(408) from None
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _demand(message: Message, held: int, most: int) -> None:
    if message["type"] == "http.disconnect":
        raise Refused(400)
    if held > most:
        raise Refused(413)
