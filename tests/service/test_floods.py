"""A real server under floods: hostile connections are cut off, memory is bounded, everybody else is answered."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from select import select

import pytest

from shuffledp import Plan, PureDUMP, tasks
from shuffledp.service.campaign import Campaign
from shuffledp.service.ingest import REPORTS_MEDIA_TYPE
from tests.service import create_campaign, plan_for
from tests.service.server import Server, accept_campaign, run_server

MEGABYTE = 1 << 20
PIECE = 1 << 14
MAX_REQUESTS, AT_ONCE = 200_000, 1000
PIECES = 3
"""More than a connection may send of what has no end."""


def head_of(campaign: Campaign, length: int | None) -> bytes:
    body = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    path = f"/v1/campaigns/{campaign.id}/rounds/1/reports"
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {REPORTS_MEDIA_TYPE}\r\n{body}\r\n\r\n".encode()


def memory_of(server: Server) -> int:
    """The largest resident size of the server so far."""
    status = Path(f"/proc/{server.process.pid}/status").read_text("utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


class Posting:
    """A client that keeps its connection and counts what is acknowledged."""

    def __init__(self, server: Server, campaign: Campaign) -> None:
        self._port = int(server.url.rpartition(":")[2])
        self._connection = self.connect()
        self._request = head_of(campaign, campaign.report_bytes) + bytes(campaign.report_bytes)
        self.acknowledged = 0

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._port), timeout=60)

    def post(self) -> None:
        self._connection.sendall(self._request)
        self.acknowledged += self._connection.recv(1 << 16).startswith(b"HTTP/1.1 201")

    def close(self) -> None:
        self._connection.close()


@contextmanager
def posting(server: Server, campaign: Campaign) -> Iterator[Posting]:
    made = Posting(server, campaign)
    try:
        yield made
    finally:
        made.close()


GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
ENDLESS: dict[str, tuple[Callable[[Campaign], bytes], bytes]] = {
    "value": (lambda _: GET + b"X: ", b"a" * PIECE),
    "name": (lambda _: GET, b"a" * PIECE),
    "fields": (lambda _: GET, b"a:\r\n" * (PIECE // 4)),
    "address": (lambda _: b"GET /", b"a" * PIECE),
    "lines": (lambda _: b"", b"\r\n" * (PIECE // 2)),
    "trailer": (lambda campaign: head_of(campaign, None) + b"0\r\nX: ", b"a" * PIECE),
    "trailers": (lambda campaign: head_of(campaign, None) + b"0\r\n", b"a:\r\n" * (PIECE // 4)),
    "extension": (lambda campaign: head_of(campaign, None) + b"1;", b"a" * PIECE),
}


def test_heads_are_bounded(tmp_path: Path) -> None:
    """Whatever of a request has no end: 431 after a few pieces of 16 KiB, and nobody else waits for it."""
    campaign = create_campaign(plan_for(30))
    paths = accept_campaign(tmp_path / "state", campaign)
    with run_server(paths.state) as server, posting(server, campaign) as client:
        client.post()
        before, statuses = memory_of(server), {}
        for name, (begin, piece) in ENDLESS.items():
            with client.connect() as hostile:
                hostile.sendall(begin(campaign))
                for _ in range(PIECES):
                    # The last piece may find the connection closed.
                    with suppress(OSError):
                        hostile.sendall(piece)
                    client.post()
                statuses[name] = hostile.recv(1 << 12)[9:12]
        asked = 1 + PIECES * len(ENDLESS)
        assert client.acknowledged == asked
        assert statuses == dict.fromkeys(ENDLESS, b"431")
        assert memory_of(server) - before < 8 * MEGABYTE
    store = paths.open_store()
    assert store.stored_bytes(campaign.id, 1) == asked * campaign.report_bytes
    store.close()
    assert "server" not in (paths.state / "stderr.log").read_text("utf-8")


def test_requests_ahead_are_bounded(tmp_path: Path) -> None:
    """Whoever sends requests without waiting for answers is cut off after a few, and costs no memory."""
    campaign = create_campaign(plan_for(30))
    paths = accept_campaign(tmp_path / "state", campaign)
    with run_server(paths.state) as server, posting(server, campaign) as client:
        client.post()
        before = memory_of(server)
        with client.connect() as hostile:
            for _ in range(MAX_REQUESTS // AT_ONCE):
                try:
                    hostile.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n" * AT_ONCE)
                except OSError:
                    break
                client.post()
            else:
                pytest.fail(f"{MAX_REQUESTS} requests were taken ahead of their answers")
        assert memory_of(server) - before < 16 * MEGABYTE
        client.post()
        assert client.acknowledged >= 2


def test_unfinished_bodies_share_a_budget(tmp_path: Path) -> None:
    """Above it 503; a report that comes in one piece is taken meanwhile, and large ones again afterwards."""
    plan = Plan(tasks.Frequency(3), PureDUMP(3, dummies=60), users=30, epsilon=20.0, delta=1e-2)
    campaign = create_campaign(plan)
    size, count = campaign.report_bytes, 44
    held = (1000 * size - 1) // size * size
    paths = accept_campaign(tmp_path / "state", campaign)
    with run_server(paths.state) as server, posting(server, campaign) as client, ExitStack() as stack:
        client.post()
        before, statuses = memory_of(server), []
        opened = [stack.enter_context(client.connect()) for _ in range(count)]
        for place_of, hostile in enumerate(opened):
            length = None if place_of % 2 else held + size
            hostile.sendall(head_of(campaign, length))
            # What was refused may be closed before everything is sent.
            with suppress(OSError):
                hostile.sendall((b"%x\r\n" % (held + size) if length is None else b"") + bytes(held))
            client.post()
        assert client.acknowledged == count + 1
        most = 64 * MEGABYTE // held
        until = time.monotonic() + 60
        while len(answered := select(opened, [], [], 1.0)[0]) < count - most:
            assert time.monotonic() < until, len(answered)
        for hostile in answered:
            # What arrives at a connection that is closed resets it, which may be faster than the answer.
            with suppress(OSError):
                statuses.append(hostile.recv(1 << 12))
        assert len(answered) <= count - most + 2
        assert len(statuses) >= len(answered) // 2
        for answer in statuses:
            assert answer.startswith(b"HTTP/1.1 503")
            assert b"retry-after: 5\r\n" in answer
            assert b"connection: close\r\n" in answer
        assert memory_of(server) - before < 120 * MEGABYTE
        # Those that have room go on to their end.
        assert opened[0] not in answered
        opened[0].settimeout(60)
        opened[0].sendall(bytes(size))
        assert opened[0].recv(1 << 12).startswith(b"HTTP/1.1 201")


def test_numbers_that_are_none(tmp_path: Path) -> None:
    """Of a round, or of a campaign: 404, and no line in the log, however long they are."""
    campaign = create_campaign(plan_for(30))
    paths = accept_campaign(tmp_path / "state", campaign)
    path, statuses = f"/v1/campaigns/{campaign.id}/rounds/", []
    with run_server(paths.state) as server, posting(server, campaign) as client:
        for asked in (path + "9" * 4301, path + "0", path + "01", path + "1" * 10 + "/batch", "/v1/campaigns/%00"):
            with client.connect() as asking:
                asking.sendall(f"GET {asked} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                statuses.append(asking.recv(1 << 12)[9:12])
    assert statuses == [b"404"] * 5
    assert "server" not in (paths.state / "stderr.log").read_text("utf-8")


def test_a_round_takes_what_its_campaign_says(tmp_path: Path) -> None:
    """Whoever floods it with good or bad reports is told that it is full; what it has is what was acknowledged."""
    campaign = create_campaign(plan_for(30), capacity=1500)
    paths, size = accept_campaign(tmp_path / "state", campaign), campaign.report_bytes
    statuses = []
    with run_server(paths.state) as server, posting(server, campaign) as client:
        for count in (1000, 1000, 500, 1):
            with client.connect() as flooding:
                flooding.sendall(head_of(campaign, count * size) + bytes(count * size))
                statuses.append(flooding.recv(1 << 12)[9:12])
        client.post()
        assert client.acknowledged == 0
    assert statuses == [b"201", b"507", b"201", b"507"]
    store = paths.open_store()
    assert store.stored_bytes(campaign.id, 1) == 1500 * size
    store.close()
