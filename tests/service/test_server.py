"""A real server: from the campaign to the estimate, and what is left on its disk."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pyarrow as pa
import pytest

from shuffledp import Client
from shuffledp.service.batch_receiver import fetch_and_open
from shuffledp.service.campaign import Campaign
from shuffledp.service.client import HttpClient
from shuffledp.service.table_sender import send
from tests.cli import run
from tests.service import ANALYST, COLOURS, contains_outside_campaign, create_campaign, plan_for
from tests.service.server import accept_campaign, close_round_now, fetch_round_state, run_server, wait_for_state
from tests.service.test_round import keys_in

pytestmark = pytest.mark.usefixtures("no_pictures")


def scan(directory: Path, campaign: Campaign, agent: str) -> None:
    """No file below it tells of a person or a machine, or holds what only the analyst may."""
    told = [agent.encode(), b"203.0.113.77", b"secret-plaintext", ANALYST.private_key.secret]
    # A database's own files have such short words by themselves.
    told += [b"127.0.0.1", *(colour.encode() for colour in COLOURS)] if directory.name != "data" else []
    files = [path for path in directory.rglob("*") if path.is_file()]
    assert files
    for path in files:
        content = path.read_bytes()
        assert not [telltale for telltale in told if contains_outside_campaign(content, telltale, campaign)], path


@pytest.mark.exhaustive
def test_the_clock_closes_and_nothing_is_left(
    tmp_path: Path, database: str | None, request: pytest.FixtureRequest
) -> None:
    """By two workers; afterwards neither disk, log nor batch holds an address, an agent, a plaintext or a report."""
    campaign = create_campaign(plan_for(30), retention=3600)
    paths = accept_campaign(tmp_path / "state", campaign, database=database)
    token, agent = ANALYST.fetch_token(campaign.nonce), "telltale-agent/7.3"
    with run_server(paths.state, workers=2, database=database) as server:
        values = [COLOURS[number % 3] for number in range(30)]
        reports = tmp_path / "spool"
        posted = send(campaign, pa.array(values[:-1]), spool=reports, url=server.url)
        assert posted.reports == 29
        Client(campaign, tmp_path / "wallet", limit=3.0, url=server.url).send("red")
        link = HttpClient(server.url)
        answer = link.request("POST", f"/v1/campaigns/{campaign.id}/rounds/1/reports", b"secret-plaintext",
                          {"User-Agent": agent, "X-Forwarded-For": "203.0.113.77"})  # fmt: skip
        assert answer.status == 400
        link.close()
        close_round_now(paths, campaign)
        wait_for_state(server, campaign, token, "forgotten")
        scan(paths.batches_directory, campaign, agent)
        made = fetch_and_open(campaign, ANALYST, out=tmp_path / "opened", url=server.url)
        assert (made.users, made.refused) == (30, 0)
        wait_for_state(server, campaign, token, "erased")
    lines = [json.loads(line) for line in (paths.state / "stderr.log").read_text("utf-8").splitlines()]
    assert (lines[0]["event"], lines.pop(0)["campaign"]) == ("no ledger", campaign.id[:12])
    assert {tuple(line) for line in lines} == {("time", "event", "campaign", "round", "state")}
    assert [line["state"] for line in lines] == ["closing", "mixed", "forgotten", "erased"]
    wallet = b"".join(path.read_bytes() for path in (tmp_path / "wallet").glob("*.answer"))
    scan(paths.state, campaign, agent)
    if database is not None:
        scan(request.getfixturevalue("database_server").data, campaign, agent)
    assert b'"report": ""' in wallet
    assert keys_in(paths) == []


@pytest.mark.exhaustive
def test_hostile_connections(tmp_path: Path) -> None:
    """Slow, huge, broken and half requests: the service keeps answering everybody else, and stores nothing of them."""
    campaign = create_campaign(plan_for(30))
    paths = accept_campaign(tmp_path / "state", campaign)
    with run_server(paths.state) as server:
        port = int(server.url.rpartition(":")[2])
        path = f"/v1/campaigns/{campaign.id}/rounds/1/reports"
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/vnd.shuffledp.reports\r\n"
        opened = []
        for words in (
            head + "Content-Length: 97\r\n\r\nabc",
            head + f"Content-Length: {1 << 30}\r\n\r\n",
            head + "Transfer-Encoding: chunked\r\n\r\n5\r\nabc",
            head + "Content-Length: -1\r\n\r\n",
            head + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
            "GARBAGE\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\nX: " + "a" * 200_000 + "\r\n\r\n",
            f"POST {'/' * 9000} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
        ):
            connection = socket.create_connection(("127.0.0.1", port), timeout=20)
            connection.sendall(words.encode())
            opened.append(connection)
        opened[1].settimeout(20)
        assert opened[1].recv(100).startswith(b"HTTP/1.1 413")
        assert Client(campaign, tmp_path / "wallet", limit=3.0, url=server.url).send("red") == 1
        for connection in opened:
            connection.close()
        with HttpClient(server.url) as link:
            assert link.request("GET", "/readyz").status == 204
        assert fetch_round_state(server, campaign, ANALYST.fetch_token(campaign.nonce)) == "open"
        # What listens reads no plan: the numbers behind it are more than all the rest of its memory.
        loaded = Path(f"/proc/{server.process.pid}/maps").read_text("utf-8")
        assert "_ssl" in loaded
        assert not [name for name in ("flint", "scipy", "pyarrow") if f"/{name}/" in loaded]
    store = paths.open_store()
    assert store.stored_bytes(campaign.id, 1) == campaign.report_bytes
    store.close()


def test_an_address_in_use(tmp_path: Path) -> None:
    """Is a sentence, and so are an address that is none and a shuffler that is none."""
    campaign = create_campaign(plan_for(30))
    accept_campaign(tmp_path / "state", campaign)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        outcome = run("serve", "--state", str(tmp_path / "state"), "--listen", f"127.0.0.1:{port}")
    assert (outcome.status, outcome.out) == (2, "")
    assert "cannot listen" in outcome.err
    assert run("serve", "--state", str(tmp_path / "state"), "--listen", "nowhere").status == 2
    assert "workers must be at least 1" in run("serve", "--state", str(tmp_path / "state"), "--workers", "0").err
    assert "campaign accept" in run("serve", "--state", str(tmp_path / "none")).err
    assert not (tmp_path / "none").exists()
