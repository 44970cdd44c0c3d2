"""Clients: one answer a round, the same bytes again, a limit of their own; and who signs the round."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from shuffledp import Client, PureDUMP, tasks
from shuffledp._core.errors import GuaranteeTooWeak
from shuffledp.planning.plan import Plan
from shuffledp.service import table_sender
from shuffledp.service.campaign import Campaign
from shuffledp.service.client import HttpClient, RoundClosed, ShufflerResponse, Wallet
from shuffledp.service.crypto import ShufflerKey
from shuffledp.service.table_sender import send
from shuffledp.storage import durable_files
from shuffledp.storage.durable_files import ForeignFile
from shuffledp.tasks.value_parsing import STRICT_RULES, Rules
from tests.collection.kill_points import run_and_kill_at
from tests.service import COLOURS, create_campaign, plan_for
from tests.service.test_round import NOW, USERS, Shuffler


class Wire:
    """A shuffler at the other end of ``HttpClient``, which may fail before or after it has stored something."""

    def __init__(self, shuffler: Shuffler) -> None:
        self.shuffler, self.posted, self.fails = shuffler, [], ""
        self.closed, self.number, self.now = False, 1, NOW

    posted: list[bytes]

    def ask(
        self,
        _: HttpClient,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        at_most: int = 0,
    ) -> ShufflerResponse:
        if method == "GET":
            return (
                ShufflerResponse(410, b"")
                if self.closed
                else ShufflerResponse(200, self.shuffler.round(self.number).notice)
            )
        assert body is not None
        if self.fails != "before":
            self.posted.append(body)
            assert self.shuffler.post(body, self.now, self.number)
        if self.fails:
            raise ValueError("shuffler: no answer.")
        return ShufflerResponse(410 if self.closed else 201, b"")


@pytest.fixture
def wire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wire:
    made = Wire(Shuffler(tmp_path, create_campaign(plan_for(USERS, rounds=2))))
    monkeypatch.setattr(HttpClient, "request", lambda *arguments, **named: made.ask(*arguments, **named))
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
    (answer,) = Wallet.open_directory(tmp_path / "wallet", 5.0).answers()
    assert answer.report == ""


def test_what_is_promised_is_added_up(wire: Wire, tmp_path: Path) -> None:
    """At the campaign's minimum, over all campaigns; above the limit nothing is sent, or randomised."""
    client = client_of(wire, tmp_path)
    assert client.spent == 0.0
    client.send("red")
    once = client.spent
    other = Shuffler(tmp_path / "other", create_campaign(plan_for(USERS)))
    wire.shuffler = other
    poor = Client(other.campaign, tmp_path / "wallet", limit=once)
    with pytest.raises(GuaranteeTooWeak, match="above your limit"):
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
    with pytest.raises(RoundClosed):
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
    forged = wire.shuffler.notice().sign(ShufflerKey.new())
    wire.shuffler.store.update_round(found, replace(found, notice=forged))
    with pytest.raises(ValueError, match="not signed by the shuffler"):
        client.send("red")
    assert wire.posted == []
    assert client.wallet.answers() == []
    with pytest.raises(GuaranteeTooWeak, match="without the shuffler"):
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
        HttpClient(url)
    assert "secret@" not in str(told.value)
    with pytest.raises(ValueError, match=r"^shuffler: expected an address"):
        create_campaign(url=url)


@pytest.mark.parametrize(
    "url",
    ["https://shuffler.example", "https://shuffler.example:8443/mix", "http://127.0.0.1:8080", "http://127.9.9.9",
     "http://[::1]:8080", "http://localhost:1", "HTTPS://shuffler.example", "https://192.0.2.1"],
)  # fmt: skip
def test_addresses_of_shufflers(url: str) -> None:
    """HTTPS anywhere, HTTP on this machine."""
    assert HttpClient(url).url == url


def test_a_damaged_wallet_is_said(wire: Wire, tmp_path: Path) -> None:
    """What was given can no longer be added up: nothing more is sent."""
    client = client_of(wire, tmp_path)
    client.send("red")
    (path,) = (tmp_path / "wallet").glob("*.answer")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match="damaged"):
        _ = client.spent


def test_a_wallet_that_others_can_write_to(wire: Wire, tmp_path: Path) -> None:
    """They could take away that something was given."""
    (tmp_path / "wallet").mkdir()
    (tmp_path / "wallet").chmod(0o777)
    with pytest.raises(ForeignFile, match="wallet"):
        client_of(wire, tmp_path)


# --- an edge server -----------------------------------------------------------------------------------------------

TABLE = pa.array([*COLOURS * 4])


def interrupted(wire: Wire, spool: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """The third of three requests is stored and not answered; returns what is in the spool."""
    real = wire.ask

    def third_fails(*arguments: Any, **named: Any) -> ShufflerResponse:
        if arguments[1] == "POST" and len(wire.posted) == 2:
            wire.fails = "after"
        return real(*arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(HttpClient, "request", third_fails)
        with pytest.raises(ValueError, match="no answer"):
            send(wire.shuffler.campaign, TABLE, spool=spool)
    wire.fails = ""
    return spool.read_bytes()


@pytest.fixture
def small_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_sender, "REPORTS_PER_REQUEST", 4)


@pytest.mark.usefixtures("small_requests")
def test_an_edge_server_goes_on(wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row is randomised once: what is sent after a failure are the same bytes; at the end a mark stays."""
    spool = tmp_path / "spool"
    sealed = interrupted(wire, spool, monkeypatch)
    for _ in range(2):
        assert send(wire.shuffler.campaign, TABLE, spool=spool).reports == 12
    # Three requests, of which the last was repeated.
    assert b"".join(wire.posted[:2]) + wire.posted[3] in sealed
    assert wire.posted[2] == wire.posted[3]
    assert len(wire.posted) == 4
    assert [path.name for path in tmp_path.glob("spool*")] == ["spool.sent"]
    wire.closed = True
    assert send(wire.shuffler.campaign, TABLE, spool=spool).reports == 12
    with pytest.raises(ValueError, match="another campaign"):
        send(create_campaign(), TABLE, spool=spool)


@pytest.mark.usefixtures("small_requests")
def test_a_spool_that_is_gone_is_not_made_anew(wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its people would be randomised a second time, and only the end of it sent; put back, it goes on."""
    spool = tmp_path / "spool"
    sealed = interrupted(wire, spool, monkeypatch)
    spool.unlink()
    with pytest.raises(ValueError, match=r"spool is missing.* 8 of its 12 reports .*restore it"):
        send(wire.shuffler.campaign, TABLE, spool=spool)
    assert not spool.exists()
    assert len(wire.posted) == 3
    spool.write_bytes(sealed)
    assert send(wire.shuffler.campaign, TABLE, spool=spool).reports == 12
    assert len({row for body in wire.posted for row in rows_of(wire, body)}) == 12


def rows_of(wire: Wire, body: bytes) -> list[bytes]:
    size = wire.shuffler.campaign.report_bytes
    return [body[start : start + size] for start in range(0, len(body), size)]


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.usefixtures("small_requests")
def test_a_spool_is_of_one_table(wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finished: bool) -> None:
    """Other data, another column and another rule for cells are refused, sent or not; nothing is randomised."""
    spool, campaign = tmp_path / "spool", wire.shuffler.campaign
    interrupted(wire, spool, monkeypatch)
    if finished:
        send(campaign, TABLE, spool=spool)
    posted = len(wire.posted)
    other = pa.array(["blue", *COLOURS * 3, "red", "red"])
    two = pa.table({"first": TABLE, "second": other})
    for data, column, rules in [
        (other, None, STRICT_RULES),
        (two, "first", STRICT_RULES),
        (TABLE, None, Rules(missing="drop")),
    ]:
        with pytest.raises(ValueError, match=r"other data, .*; choose another spool"):
            send(campaign, data, column, spool=spool, rules=rules)
    assert len(wire.posted) == posted


def test_a_spool_is_of_one_round(wire: Wire, tmp_path: Path) -> None:
    """What was sent in one round was not sent in the next: a success would be none."""
    spool, campaign = tmp_path / "spool", wire.shuffler.campaign
    assert send(campaign, TABLE, spool=spool).round_number == 1
    for report in wire.shuffler.reports([0] * USERS):
        assert wire.shuffler.post(report)
    wire.shuffler.turn()
    wire.number, wire.now, posted = 2, NOW + 3601, len(wire.posted)
    with pytest.raises(ValueError, match=r"12 reports were taken in round 1, and round 2 is open; choose another"):
        send(campaign, TABLE, spool=spool)
    assert len(wire.posted) == posted
    assert send(campaign, TABLE, spool=tmp_path / "second").round_number == 2


def test_a_spool_or_mark_that_is_not_its_own(wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damaged, of another spool, of another version: a sentence, and nothing is sent."""
    spool, mark, campaign = tmp_path / "spool", tmp_path / "spool.sent", wire.shuffler.campaign
    wire.fails = "before"
    for name in ("spool", "other"):
        with pytest.raises(ValueError, match="no answer"):
            send(campaign, TABLE, spool=tmp_path / name)
    wire.fails, whole, told = "", spool.read_bytes(), mark.read_bytes()
    for content in (whole[:-1], whole[:300] + bytes([whole[300] ^ 1]) + whole[301:], whole[:40]):
        spool.write_bytes(content)
        with pytest.raises(ValueError, match=r"spool is damaged"):
            send(campaign, TABLE, spool=spool)
    spool.write_bytes((tmp_path / "other").read_bytes())
    with pytest.raises(ValueError, match=r"not the spool that .*spool.sent is about"):
        send(campaign, TABLE, spool=spool)
    spool.write_bytes(bytes.fromhex(campaign.id) + (1).to_bytes(8, "big"))
    with pytest.raises(ValueError, match=r"no spool of this version"):
        send(campaign, TABLE, spool=spool)
    spool.write_bytes(whole)
    for content in (b"12", b"", b"{}", told[:-3]):
        mark.write_bytes(content)
        with pytest.raises(ValueError, match=r"spool.sent is no mark of this version, or damaged"):
            send(campaign, TABLE, spool=spool)
    mark.unlink()
    mark.symlink_to(tmp_path / "other.sent")
    with pytest.raises(ForeignFile):
        send(campaign, TABLE, spool=spool)
    assert wire.posted == []
    mark.unlink()
    # Killed before the mark was made: nothing was sent yet.
    assert send(campaign, TABLE, spool=spool).reports == 12
    assert b"".join(wire.posted) in whole


def test_a_mark_tells_nothing_that_can_be_compared(wire: Wire, tmp_path: Path) -> None:
    """It is its owner's only; marks of the same table have nothing in common that follows from it."""
    told = []
    for name in "ab":
        send(wire.shuffler.campaign, TABLE, spool=tmp_path / name)
        mark = tmp_path / f"{name}.sent"
        assert mark.stat().st_mode & 0o077 == 0
        told.append(json.loads(mark.read_bytes()))
    assert {name for name in told[0] if told[0][name] != told[1][name]} == {"input", "salt", "spool"}


def test_one_process_sends_a_spool(wire: Wire, tmp_path: Path) -> None:
    """Another one is refused at once."""
    spool, wire.fails = tmp_path / "spool", "before"
    with pytest.raises(ValueError, match="no answer"):
        send(wire.shuffler.campaign, TABLE, spool=spool)
    wire.fails = ""
    with durable_files.open_locked(spool), pytest.raises(ValueError, match="another process is sending"):
        send(wire.shuffler.campaign, TABLE, spool=spool)
    with (
        durable_files.create_atomic_file(tmp_path / "new"),
        pytest.raises(ValueError, match="another process is sealing"),
    ):
        send(wire.shuffler.campaign, TABLE, spool=tmp_path / "new")
    assert wire.posted == []


def sending_into(content: bytes, notice: bytes, room: Path) -> None:
    """Send a table to a shuffler that writes down what it was sent."""

    def ask(
        _: HttpClient, method: str, path: str, body: bytes | None = None, headers: object = None, at_most: int = 0
    ) -> ShufflerResponse:
        if method == "GET":
            return ShufflerResponse(200, notice)
        assert body is not None
        Path(room, "posted", f"{time.monotonic_ns()}").write_bytes(body)
        return ShufflerResponse(201, b"")

    table_sender.REPORTS_PER_REQUEST = 4
    HttpClient.request = ask  # type: ignore[method-assign,assignment]
    assert send(Campaign(content), TABLE, spool=room / "edge" / "spool").reports == 12


@pytest.mark.crash
def test_a_sender_killed_before_every_step(wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGKILL before each change of a file; sent again, what reaches the shuffler are reports of one randomisation."""
    campaign, notice, step, finished = wire.shuffler.campaign, wire.shuffler.round().notice, 0, False
    while not finished:
        step += 1
        room = tmp_path / f"step{step}"
        for name in ("edge", "posted"):
            (room / name).mkdir(parents=True)
        finished = run_and_kill_at(step, room / "edge", sending_into, campaign.content, notice, room)
        with monkeypatch.context() as patched:
            patched.setattr(table_sender, "REPORTS_PER_REQUEST", 4)
            patched.setattr(HttpClient, "request", HttpClient.request)
            sending_into(campaign.content, notice, room)
        bodies = [path.read_bytes() for path in (room / "posted").iterdir()]
        assert len({row for body in bodies for row in rows_of(wire, body)}) == 12, step
        assert [path.name for path in (room / "edge").glob("spool*") if "unfinished" not in path.name] == ["spool.sent"]
    assert step > 10


def test_messages_of_one_client_travel_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one report of one size, whatever the answer is."""
    plan = Plan(tasks.Frequency(3), PureDUMP(3, dummies=60), users=30, epsilon=20.0, delta=1e-2)
    wire = Wire(Shuffler(tmp_path, create_campaign(plan)))
    monkeypatch.setattr(HttpClient, "request", lambda *arguments, **named: wire.ask(*arguments, **named))
    for number in range(3):
        Client(wire.shuffler.campaign, tmp_path / f"w{number}", limit=50.0, delta=1e-2).send(number)
    assert {len(body) for body in wire.posted} == {wire.shuffler.campaign.report_bytes}
