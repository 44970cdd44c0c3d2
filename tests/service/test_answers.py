"""Shufflers that answer without an end, or claim what cannot be: nobody reads more than such an answer may have."""

from __future__ import annotations

import socket
import threading
from collections import namedtuple
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from shuffledp import Client
from shuffledp.collection.message_files import Manifest
from shuffledp.service import batch_receiver
from shuffledp.service.batch_receiver import fetch_and_open
from shuffledp.service.client import HttpClient, ShufflerResponse
from shuffledp.service.notices_and_statements import STATEMENT_LABEL, BatchStatement
from shuffledp.service.sealing import CampaignSealer
from tests.service import ANALYST, SHUFFLER, create_campaign, plan_for

CAMPAIGN = create_campaign(plan_for(30))
ENDLESS_BYTES, FEW_BYTES = 48 << 20, 16 << 20
"""What the liar sends if nobody stops it; and more than buffers of the network on this machine hold."""
PIECE = bytes(1 << 16)
HEADS = {
    "no length": b"\r\n",
    "a length": b"Content-Length: 3000000000\r\n\r\n",
    "chunks": b"Transfer-Encoding: chunked\r\n\r\n" + b"%x\r\n" % ENDLESS_BYTES,
}


@contextmanager
def liar(status: int, head: bytes) -> Iterator[tuple[str, list[int]]]:
    """The address of a server that answers every request without an end, and how many bytes it got rid of each time."""
    sent: list[int] = []

    def answer(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(1 << 16)
            connection.sendall(b"HTTP/1.1 %d X\r\n" % status + head)
            sent.append(0)
            while sent[-1] < ENDLESS_BYTES:
                connection.sendall(PIECE)
                sent[-1] += len(PIECE)

    def serve(listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                answer(listening.accept()[0])

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}", sent
        finally:
            # What waits in accept is not woken by a close alone.
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(60)


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_answers_without_an_end(tmp_path: Path, head: bytes) -> None:
    """A notice, an acknowledgement, a statement: no more is read than such an answer may have, and it is said."""
    with liar(200, head) as (url, sent):
        with pytest.raises(ValueError, match="longer than the permitted 65,536 bytes"):
            Client(CAMPAIGN, tmp_path / "wallet", url=url).send("red")
        with pytest.raises(ValueError, match="longer than the permitted 1,048,576 bytes"):
            fetch_and_open(CAMPAIGN, ANALYST, out=tmp_path / "opened", url=url)
        with HttpClient(url) as link, pytest.raises(ValueError, match="longer than the permitted 4,096 bytes"):
            link.request("DELETE", "/")
    with liar(404, head) as (url, refused), HttpClient(url, max_attempts=1) as link:
        assert link.request("GET", "/").status == 404
    assert len(sent) == 3
    assert max(sent + refused) < FEW_BYTES


def test_answers_that_break_off() -> None:
    """Are asked for again, and are not taken for whole ones."""

    def serve(listening: socket.socket) -> None:
        for content in (b"ab", b"abcd"):
            with listening.accept()[0] as connection:
                connection.recv(1 << 16)
                connection.sendall(b"HTTP/1.1 200 X\r\nContent-Length: 4\r\n\r\n" + content)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,), daemon=True)
        thread.start()
        with HttpClient(f"http://127.0.0.1:{listening.getsockname()[1]}") as link:
            assert link.request("GET", "/") == ShufflerResponse(200, b"abcd")
        thread.join(60)


# --- claims -----------------------------------------------------------------------------------------------------------


def record(messages: int, users: int, files: Mapping[str, Any]) -> BatchStatement:
    identity, width = CampaignSealer(CAMPAIGN).identity(CAMPAIGN.plan, 1), CAMPAIGN.message_bytes
    manifest = Manifest(identity, width, messages, "0" * 64, users, 1, 0, 0, "users")
    return BatchStatement(CAMPAIGN.id, 1, manifest, files, 0, 0)


class Claiming:
    """A shuffler that signs whatever it likes."""

    def __init__(self, statement: bytes) -> None:
        self._statement, self.parts = statement, 0

    def ask(self, _: HttpClient, method: str, path: str, *told: Any, **named: Any) -> ShufflerResponse:
        if path.endswith("/batch"):
            return ShufflerResponse(200, self._statement)
        self.parts += 1
        return ShufflerResponse(206, b"x")


def refused(statement: bytes, room: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The sentence with which the analyst refuses it, before anything is fetched."""
    shuffler = Claiming(statement)
    monkeypatch.setattr(HttpClient, "request", lambda *told, **named: shuffler.ask(*told, **named))
    with pytest.raises(ValueError, match=r"^(batch|receive): ") as failed:
        fetch_and_open(CAMPAIGN, ANALYST, out=room / "opened")
    assert shuffler.parts == 0
    assert not (room / "opened.sealed").exists()
    return str(failed.value)


@pytest.mark.parametrize(
    "files",
    [{"messages-00000.parquet": size} for size in ("1234", -1, 1.5, None, True)] + [["messages-00000.parquet"]],
    ids=str,
)
def test_sizes_that_are_none(files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text, a negative number: a sentence, though the shuffler signed it."""
    told = {"format": "shuffledp batch", "version": 1, "campaign": CAMPAIGN.id, "round": 1,
            "manifest": asdict(record(30, 30, {}).manifest), "files": files, "repeated": 0, "refused": 0}  # fmt: skip
    assert "cannot be read" in refused(SHUFFLER.sign_document(STATEMENT_LABEL, told), tmp_path, monkeypatch)


@pytest.mark.parametrize("field", ["messages", "users", "width"])
def test_counts_that_are_none(field: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Less than nothing."""
    good = record(30, 30, {"messages-00000.parquet": 3000})
    bad = replace(good, manifest=replace(good.manifest, **{field: -1}))
    assert "cannot be read" in refused(bad.sign(SHUFFLER), tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("messages", "users", "size"),
    [(30, 30, 10**12), (10**10, 30, 10**12), (10**10, 10**10, 10**12), (31, 30, 3000)],
)
def test_claims_that_cannot_be(
    messages: int, users: int, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More bytes than the messages have, more messages than users send, more users than the campaign takes."""
    statement = record(messages, users, {"messages-00000.parquet": size}).sign(SHUFFLER)
    assert "more than" in refused(statement, tmp_path, monkeypatch)


def test_more_than_the_disk_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is said before the first byte is fetched."""
    free = namedtuple("free", "total used free")(10**9, 10**9, 2999)
    monkeypatch.setattr(batch_receiver.shutil, "disk_usage", lambda _: free)
    statement = record(30, 30, {"messages-00000.parquet": 3000}).sign(SHUFFLER)
    assert "3,000 more bytes, and 2,999 are free" in refused(statement, tmp_path, monkeypatch)


def test_parts_are_exactly_as_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a longer one nor a whole file in place of a part is read."""
    asked: list[int] = []

    def ask(_: HttpClient, method: str, path: str, *told: Any, at_most: int = 0, **named: Any) -> ShufflerResponse:
        if path.endswith("/batch"):
            return ShufflerResponse(200, record(30, 30, {"messages-00000.parquet": 3000}).sign(SHUFFLER))
        asked.append(at_most)
        return ShufflerResponse(200, bytes(1000)) if len(asked) == 3 else ShufflerResponse(206, bytes(1000))

    monkeypatch.setattr(HttpClient, "request", ask)
    monkeypatch.setattr(batch_receiver, "PART_BYTES", 1000)
    with pytest.raises(ValueError, match="does not hand over"):
        fetch_and_open(CAMPAIGN, ANALYST, out=tmp_path / "opened")
    assert asked == [1000, 1000, 1000]
