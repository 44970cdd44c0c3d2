"""A connection to a shuffler: plain HTTP requests, tried again while it cannot be reached."""

from __future__ import annotations

import http.client
import ipaddress
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import SplitResult, urlsplit

from shuffledp import argument

TRIES, FIRST_PAUSE, LONGEST_PAUSE = 6, 0.2, 5.0
TIMEOUT_SECONDS = 30.0
PROBLEM_BYTES = 1 << 12
"""The most that is read of an answer that is none, and of one that says nothing but its status."""
LATER = (408, 429, 500, 502, 503, 504)
"""Answers after which the same may be asked again."""


@dataclass(frozen=True)
class Reply:
    """What the shuffler said."""

    status: int
    content: bytes


def read_address(url: str) -> SplitResult:
    """The parts of a shuffler's address: one of HTTPS, or of HTTP on this machine, with nothing but host and path.

    Over plain HTTP anybody on the way sees who takes part and can change which round they seal to; a name and password
    would stand in a file that everybody reads.
    """
    wanted = "shuffler: expected an address such as https://shuffler.example"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        parts, host = urlsplit(""), ""
    # What is refused is not repeated where it may hold a password.
    if "@" in url:
        raise ValueError(f"{wanted}, got one with a user's name before @; leave that out, the campaign is public.")
    if parts.scheme not in ("http", "https") or not host or not url.isprintable() or set(url) & set(" \\"):
        raise ValueError(f"{wanted}, got {argument.shown(url)}.")
    if "?" in url or "#" in url:
        raise ValueError(f"{wanted}, got {argument.shown(url)}; leave out what follows ? or #.")
    if parts.scheme == "http" and not _is_loopback(host):
        raise ValueError(
            f"{wanted}, got {argument.shown(url)}; plain http is for this machine alone (127.0.0.1, [::1], localhost): "
            f"put TLS in front of the shuffler, and give its https address."
        )
    return parts


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass
class Link:
    """Requests to the shuffler at ``url``; every one of them may be repeated without doing anything twice."""

    url: str
    tries: int = TRIES
    _connection: http.client.HTTPConnection | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self._parts = read_address(self.url)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        at_most: int = PROBLEM_BYTES,
    ) -> Reply:
        """The answer; a sentence if there is none after several tries, or if it has more bytes than ``at_most``."""
        pause, reason = FIRST_PAUSE, ""
        for attempt in range(self.tries):
            if attempt:
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            try:
                answer = self._once(method, path, body, headers or {}, at_most)
            except (OSError, http.client.HTTPException) as error:
                self.close()
                reason = getattr(error, "strerror", None) or type(error).__name__
                continue
            if answer.status not in LATER:
                return answer
            reason = f"status {answer.status}"
        raise ValueError(f"shuffler: no answer from {self.url}: {reason}; try again later, nothing is lost.")

    def _once(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], at_most: int) -> Reply:
        if self._connection is None:
            kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
            host = self._parts.hostname
            assert host is not None, "it was checked"
            self._connection = kind(host, self._parts.port, timeout=TIMEOUT_SECONDS)
        # No header tells one client from another.
        self._connection.request(method, self._parts.path.rstrip("/") + path, body, dict(headers))
        answer = self._connection.getresponse()
        return Reply(answer.status, self._content(answer, at_most if answer.status < 400 else PROBLEM_BYTES))

    def _content(self, answer: http.client.HTTPResponse, at_most: int) -> bytes:
        """The body, whatever length it claims to have; of a problem that is too long the beginning."""
        content = answer.read(at_most + 1)
        if len(content) > at_most:
            # The rest of it is not waited for.
            self.close()
            if answer.status < 400:
                raise ValueError(
                    f"shuffler: an answer from {self.url} is longer than the {at_most:,} bytes that it may have; do "
                    f"not rely on it."
                )
        elif answer.length:
            raise http.client.IncompleteRead(content, answer.length)
        return content[:at_most]

    def close(self) -> None:
        """End the connection; the next request opens another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
