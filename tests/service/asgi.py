"""Requests to an ASGI application in this process, without a network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from shuffledp.service.ingest import REPORTS_MEDIA_TYPE
from shuffledp.service.server import ShufflerApplication


@dataclass(frozen=True)
class AsgiResponse:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class AsgiClient:
    """Asks one application, and remembers which path answered how."""

    def __init__(self, app: Callable[..., Coroutine[Any, Any, None]]) -> None:
        self._app = app
        self.seen: list[tuple[str, str, int]] = []

    async def __call__(
        self,
        method: str,
        path: str,
        body: bytes | Sequence[bytes] = b"",
        *,
        token: str | None = None,
        **headers: str,
    ) -> AsgiResponse:
        pieces = [body] if isinstance(body, bytes) else list(body)
        waiting = [
            {"type": "http.request", "body": piece, "more_body": place < len(pieces) - 1}
            for place, piece in enumerate(pieces)
        ]
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        if method == "POST":
            told = {"content-type": REPORTS_MEDIA_TYPE} | told
        if token is not None:
            told["authorization"] = f"Bearer {token}"
        place, _, query = path.partition("?")
        scope = {
            "type": "http", "http_version": "1.1", "method": method, "path": unquote(place), "raw_path": path.encode(),
            "root_path": "", "scheme": "http", "query_string": query.encode(), "server": ("127.0.0.1", 1),
            "client": ("203.0.113.9", 5), "headers": [(name.encode(), value.encode()) for name, value in told.items()],
        }  # fmt: skip
        sent: list[Any] = []

        async def receive() -> Any:
            if not waiting:
                await asyncio.sleep(3600)
            message = waiting.pop(0)
            if message["body"] == b"never":
                await asyncio.sleep(3600)
            if message["body"] == b"gone":
                return {"type": "http.disconnect"}
            return message

        async def send(message: Any) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        found = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
        answer = AsgiResponse(sent[0]["status"], found, b"".join(one.get("body", b"") for one in sent[1:]))
        self.seen.append((method, place, answer.status))
        return answer


@asynccontextmanager
async def run_application(service: ShufflerApplication) -> AsyncIterator[AsgiClient]:
    """The application from its start to its end."""
    async with service._lifespan(None):
        yield AsgiClient(service)
