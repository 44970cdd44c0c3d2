"""Clients: one answer a round, the same bytes again, a limit of their own; and who signs the round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from shuffledp import Client, PureDUMP, tasks
from shuffledp.collection.guarantee import TooWeak
from shuffledp.planner.plan_file import Plan
from shuffledp.service import send as sending
from shuffledp.service.delivery import RoundOver
from shuffledp.service.key_file import ShufflerKey
from shuffledp.service.link import Link, Reply
from shuffledp.service.send import send
from shuffledp.service.wallet import Wallet
from tests.service import campaign_of, plan_for
from tests.service.test_round import NOW, USERS, Shuffler


class Wire:
    """A shuffler at the other end of ``Link``, which may fail before or after it has stored something."""

    def __init__(self, shuffler: Shuffler) -> None:
        self.shuffler, self.posted, self.fails = shuffler, [], ""
        self.closed = False

    posted: list[bytes]

    def ask(
        self, _: Link, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        if method == "GET":
            return Reply(410, b"") if self.closed else Reply(200, self.shuffler.round().notice)
        assert body is not None
        if self.fails != "before":
            self.posted.append(body)
            assert self.shuffler.post(body)
        if self.fails:
            raise ValueError("shuffler: no answer.")
        return Reply(410 if self.closed else 201, b"")


@pytest.fixture
def wire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wire:
    made = Wire(Shuffler(tmp_path, campaign_of(plan_for(USERS, rounds=2))))
    monkeypatch.setattr(Link, "ask", lambda *arguments, **named: made.ask(*arguments, **named))
    return made


def client_of(wire: Wire, room: Path, **settings: Any) -> Client:
    return Client(wire.shuffler.campaign, room / "wallet", **{"limit": 5.0} | settings)


@pytest.mark.parametrize("fails", ["before", "after"])
def test_the_same_bytes_again(wire: Wire, tmp_path: Path, fails: str) -> None:
    """Whether the acknowledgement or the request was lost, and whatever is answered the second time."""
    wire.fails = fails
    with pytest.raises(ValueError, match="no answer"):
        client_of(wire, tmp_path).send("red")
    wire.fails = ""
    assert client_of(wire, tmp_path).send("blue") == 1
    assert client_of(wire, tmp_path).send("blue") == 1
    assert len(set(wire.posted)) == 1
    assert len(wire.posted) == (2 if fails == "after" else 1)
    (answer,) = Wallet.at(tmp_path / "wallet", 5.0).answers()
    assert answer.report == ""


def test_what_is_promised_is_added_up(wire: Wire, tmp_path: Path) -> None:
    """At the campaign's minimum, over all campaigns; above the limit nothing is sent, or randomised."""
    client = client_of(wire, tmp_path)
    assert client.spent == 0.0
    client.send("red")
    once = client.spent
    other = Shuffler(tmp_path / "other", campaign_of(plan_for(USERS)))
    wire.shuffler = other
    poor = Client(other.campaign, tmp_path / "wallet", limit=once)
    with pytest.raises(TooWeak, match="above your limit"):
        poor.send("red")
    assert len(wire.posted) == 1
    assert poor.spent == once
    Client(other.campaign, tmp_path / "wallet", limit=5.0).send("red")
    assert once < client.spent <= 2 * once


def test_a_random_time(wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sent before it, and the bytes are those that were sealed then."""
    monkeypatch.setattr("shuffledp.service.client.time.time", lambda: float(NOW))
    client = client_of(wire, tmp_path)
    due = client.prepare("red")
    assert NOW <= due <= NOW + 3240
    assert client.prepare("blue") == due
    assert client.deliver(due - 1) == 0
    assert wire.posted == []
    assert client.deliver(due) == 1
    assert client.deliver(due) == 0
    assert len(wire.posted) == 1


def test_a_round_that_is_over(wire: Wire, tmp_path: Path) -> None:
    """Is a sentence; a prepared answer stays counted."""
    client = client_of(wire, tmp_path)
    client.prepare("red")
    spent, wire.closed = client.spent, True
    with pytest.raises(RoundOver):
        client_of(wire, tmp_path / "other").send("red")
    assert client.deliver(NOW * 2) == 0
    assert client.spent == spent > 0


def test_what_a_client_refuses(wire: Wire, tmp_path: Path) -> None:
    """A forged notice, a value outside the domain, too weak a local promise, an address that is none."""
    client, found = client_of(wire, tmp_path), wire.shuffler.round()
    with pytest.raises(ValueError, match=r"one of the plan's 3 categories"):
        client.send("violet")
    with pytest.raises(ValueError, match="value"):
        client.send(object())
    forged = wire.shuffler.notice().signed(ShufflerKey.new())
    wire.shuffler.store.move(found, replace(found, notice=forged))
    with pytest.raises(ValueError, match="not signed by the shuffler"):
        client.send("red")
    assert wire.posted == []
    assert client.wallet.answers() == []
    with pytest.raises(TooWeak, match="without the shuffler"):
        client_of(wire, tmp_path, local_limit=0.4)
    with pytest.raises(ValueError, match="expected an address"):
        client_of(wire, tmp_path, url="ftp://x")


@pytest.mark.parametrize(
    "url",
    [
        "http://shuffler.example", "http://127.0.0.1.example", "http://0.0.0.0", "http://localhost.example",
        "http://10.0.0.1:8080", "https://ann@shuffler.example", "https://ann:secret@shuffler.example",
        "http://127.0.0.1@shuffler.example", "https://shuffler.example?secret=1", "https://shuffler.example/#",
        "https://shuffler.example:port", "https://shuffler.example\\path", "https://shuffler\n.example", "https://[::1",
        "https://", "shuffler.example", "file:///etc/hosts",
    ],
)  # fmt: skip
def test_addresses_that_tell_others_who_takes_part_are_refused(url: str) -> None:
    """Plain HTTP beyond this machine, names and passwords, and what is no address."""
    with pytest.raises(
        ValueError, match=r"^shuffler: expected an address such as https://shuffler\.example, got "
    ) as told:
        Link(url)
    assert "secret@" not in str(told.value)
    with pytest.raises(ValueError, match=r"^shuffler: expected an address"):
        campaign_of(url=url)


@pytest.mark.parametrize(
    "url",
    ["https://shuffler.example", "https://shuffler.example:8443/mix", "http://127.0.0.1:8080", "http://127.9.9.9",
     "http://[::1]:8080", "http://localhost:1", "HTTPS://shuffler.example", "https://192.0.2.1"],
)  # fmt: skip
def test_addresses_of_shufflers(url: str) -> None:
    """HTTPS anywhere, HTTP on this machine."""
    assert Link(url).url == url


def test_a_damaged_wallet_is_said(wire: Wire, tmp_path: Path) -> None:
    """What was given can no longer be added up: nothing more is sent."""
    client = client_of(wire, tmp_path)
    client.send("red")
    (path,) = (tmp_path / "wallet").glob("*.answer")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match="damaged"):
        _ = client.spent


def test_an_edge_server_goes_on(wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row is randomised once: what is sent after a failure are the same bytes; at the end a mark stays."""
    monkeypatch.setattr(sending, "REPORTS_A_REQUEST", 4)
    values, spool = pa.array(["red", "green", "blue"] * 4), tmp_path / "spool"
    real = wire.ask

    def third_fails(*arguments: Any, **named: Any) -> Reply:
        if arguments[1] == "POST" and len(wire.posted) == 2:
            wire.fails = "after"
        return real(*arguments, **named)

    monkeypatch.setattr(Link, "ask", third_fails)
    with pytest.raises(ValueError, match="no answer"):
        send(wire.shuffler.campaign, values, spool=spool)
    sealed = spool.read_bytes()[40:]
    wire.fails = ""
    monkeypatch.setattr(Link, "ask", lambda *arguments, **named: real(*arguments, **named))
    for _ in range(2):
        assert send(wire.shuffler.campaign, values, spool=spool).reports == 12
    # Three requests, of which the last was repeated.
    assert b"".join(wire.posted[:2]) + wire.posted[3] == sealed
    assert wire.posted[2] == wire.posted[3]
    assert spool.stat().st_size == 40
    with pytest.raises(ValueError, match="another campaign"):
        send(campaign_of(), values, spool=spool)


def test_messages_of_one_client_travel_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one report of one size, whatever the answer is."""
    plan = Plan(tasks.Frequency(3), PureDUMP(3, dummies=60), users=30, epsilon=20.0, delta=1e-2)
    wire = Wire(Shuffler(tmp_path, campaign_of(plan)))
    monkeypatch.setattr(Link, "ask", lambda *arguments, **named: wire.ask(*arguments, **named))
    for number in range(3):
        Client(wire.shuffler.campaign, tmp_path / f"w{number}", limit=50.0, delta=1e-2).send(number)
    assert {len(body) for body in wire.posted} == {wire.shuffler.campaign.report_bytes}
