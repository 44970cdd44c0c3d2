"""Clients that begin and do not go on: each is given up, with the documented status where a request had begun."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import uvicorn

from shuffledp.service import _server_connection_limits, ingest
from shuffledp.service.serve import bind_socket, build_uvicorn_settings
from shuffledp.service.server import ShufflerApplication
from tests.service import create_campaign, plan_for
from tests.service.server import accept_campaign


async def answers(port: int, words: bytes, more: bytes = b"") -> bytes:
    """Everything that comes back until the server closes; ``more`` is sent after the first answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(words)
        found = b""
        if more:
            found = await reader.readuntil(b"\r\n\r\n")
            writer.write(more)
        return found + await asyncio.wait_for(reader.read(), 30)
    finally:
        writer.close()


def test_they_are_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing, half a head, half a second head, no body, half a body, too much; somebody else is answered meanwhile."""
    monkeypatch.setattr(_server_connection_limits, "HEAD_TIMEOUT_SECONDS", 0.2)
    monkeypatch.setattr(ingest, "BODY_TIMEOUT_SECONDS", 0.2)
    campaign = create_campaign(plan_for(30))
    paths = accept_campaign(tmp_path / "state", campaign)
    path = f"/v1/campaigns/{campaign.id}/rounds/1/reports"
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {ingest.REPORTS_MEDIA_TYPE}\r\nContent-Length: "
    health = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"

    async def work() -> list[bytes]:
        with bind_socket("127.0.0.1:0") as listening:
            listening.listen()
            server = uvicorn.Server(uvicorn.Config(ShufflerApplication(paths), **build_uvicorn_settings()))
            running = asyncio.create_task(server.serve(sockets=[listening]))
            port = listening.getsockname()[1]
            found = await asyncio.gather(
                answers(port, b""),
                answers(port, head.encode()),
                answers(port, health, health[:20]),
                answers(port, f"{head}97\r\n\r\n".encode()),
                answers(port, f"{head}97\r\n\r\nabc".encode()),
                answers(port, f"{head}{1 << 30}\r\n\r\nabc".encode()),
                answers(port, head.encode() + b"97\r\nConnection: close\r\n\r\n" + bytes(97)),
            )
            server.should_exit = True
            await running
            return list(found)

    found = asyncio.run(work())
    assert [answer[9:12].decode() for answer in found] == ["", "", "204", "408", "408", "413", "201"]
    assert found[2].count(b"HTTP/1.1") == 1
    store = paths.open_store()
    assert store.stored_bytes(campaign.id, 1) == 97
    store.close()
