"""Who may ask: only a page that came from here, at this address, with the secret of this run in its path.

A page of another site cannot know the secret, cannot pass for this host by a name that it makes resolve to loopback
(DNS rebinding), and is refused by the Origin and Sec-Fetch-Site that its browser sends. The secret is no cookie:
browsers send cookies to every port of a host, hence to servers of other users of this machine.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
]
SAME = (b"same-origin", b"none")
"""What a browser says of requests by the page itself, and of addresses that somebody typed."""


ENTERING = {b"sec-fetch-mode": b"navigate", b"sec-fetch-dest": b"document"}
"""What a browser says where a link of another page, such as the file that `shuffledp web` opens, leads to this one."""


class Doorway:
    """An ASGI application before another one, which sees only requests that may be made.

    ``entered`` is called when somebody first comes with the secret.
    """

    def __init__(
        self, inside: Application, token: str, hosts: Collection[str], entered: Callable[[], None] | None = None
    ) -> None:
        self._inside, self._token, self._entered = inside, token, entered
        self._hosts = frozenset(host.lower().encode() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or hand on with the secret taken off the path."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._inside(scope, receive, send)
            return
        _, _, rest = scope["path"].partition("/")
        token, found, path = rest.partition("/")
        headers = dict(scope["headers"])
        # The page itself does nothing by being opened, wherever the link to it stands.
        entering = not path and scope["method"] == "GET" and headers.items() >= ENTERING.items()
        refusal = self._refusal(headers, entering)
        if refusal:
            await _refuse(send, 403, refusal)
            return
        if not found or not hmac.compare_digest(token.encode(), self._token.encode()):
            await _refuse(send, 404, "The address of the page has a secret that `shuffledp web` prints; open that one.")
            return
        if self._entered is not None:
            entered, self._entered = self._entered, None
            entered()
        inner = {**scope, "path": f"/{path}", "raw_path": f"/{path}".encode(), "root_path": ""}
        await self._inside(inner, receive, _with_headers(send))

    def _refusal(self, headers: dict[bytes, bytes], entering: bool) -> str:
        """Why a request is not answered, whoever sent it; empty where it is."""
        if headers.get(b"host", b"").lower() not in self._hosts:
            return "This page answers under its own address only."
        origin = headers.get(b"origin")
        if origin is not None and origin.lower().removeprefix(b"http://") not in self._hosts:
            return "Requests by other sites are refused."
        if not entering and headers.get(b"sec-fetch-site", b"none").lower() not in SAME:
            return "Requests by other sites are refused."
        return ""


async def _refuse(send: Send, status: int, sentence: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store"), *HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": sentence.encode() + b"\n"})


def _with_headers(send: Send) -> Send:
    async def sent(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", []), *HEADERS]
        await send(message)

    return sent
