"""What stands in front of a shuffler, as deploy/ has it, with a real client, shuffler and analyst at its ends."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest

from shuffledp import Client
from shuffledp.service.batch_receiver import fetch_and_open
from shuffledp.service.campaign import Campaign
from shuffledp.service.crypto import REPORTS_MEDIA_TYPE
from shuffledp.service.stores import ShufflerPaths
from shuffledp.service.table_sender import send
from tests.service import ANALYST, COLOURS, create_campaign, plan_for
from tests.service.proxies import RecordingProxy, caddy_files, nginx_files, run_proxy
from tests.service.server import Server, accept_campaign, close_round_now, run_server, wait_for_state

pytestmark = pytest.mark.proxy

KINDS: dict[str, Callable[[Path, int], tuple[list[str], int, int]]] = {"nginx": nginx_files, "caddy": caddy_files}
TELLING = {
    "User-Agent": "telltale-agent/7.3", "X-Forwarded-For": "203.0.113.77", "X-Real-IP": "203.0.113.78",
    "Forwarded": "for=203.0.113.79", "Via": "1.1 telltale-via", "Cookie": "telltale=cookie",
    "Referer": "https://telltale.example/", "Origin": "https://telltale.example", "Accept-Language": "telltale",
    "Accept": "text/telltale", "Sec-CH-UA": '"telltale"', "X-Client-IP": "203.0.113.80", "DNT": "1",
}  # fmt: skip
NEEDED = {"host", "content-type", "content-length", "authorization", "range", "connection", "accept-encoding",
          "transfer-encoding"}  # fmt: skip
SOMEBODY = "127.0.0.2"
"""Whom the proxies see, and nobody else."""


class Front(NamedTuple):
    """A proxy, or two, before a shuffler, and what was heard behind them."""

    kind: str
    tap: RecordingProxy
    first: int
    """The port that clients know."""
    proxy: int
    """The port that the analyst knows."""
    room: Path

    def link(self, port: int) -> http.client.HTTPSConnection:
        """From an address that can be told from all others."""
        trusted = ssl.create_default_context(cafile=str(self.room / "localhost.pem"))
        return http.client.HTTPSConnection("localhost", port, timeout=20, context=trusted, source_address=(SOMEBODY, 0))

    def ask(
        self, method: str, path: str, body: bytes | None = None, *, port: int = 0, **more: str
    ) -> http.client.HTTPResponse:
        """With everything that a browser tells about somebody."""
        kind = {} if body is None else {"Content-Type": REPORTS_MEDIA_TYPE}
        link = self.link(port or self.proxy)
        link.request(method, path, body, TELLING | kind | {name.replace("_", "-"): text for name, text in more.items()})
        answer = link.getresponse()
        answer.read()
        link.close()
        return answer


class Stage(NamedTuple):
    """One shuffler behind all of them."""

    campaign: Campaign
    paths: ShufflerPaths
    server: Server
    fronts: dict[str, Front]

    @property
    def reports(self) -> str:
        return f"/v1/campaigns/{self.campaign.id}/rounds/1/reports"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    campaign, room = create_campaign(plan_for(30)), tmp_path_factory.mktemp("proxies")
    paths = accept_campaign(room / "state", campaign)
    with run_server(paths.state) as server, ExitStack() as stack:
        fronts = {}
        for kind, files in KINDS.items():
            own = room / kind
            own.mkdir()
            tap = stack.enter_context(RecordingProxy(int(server.url.rpartition(":")[2])))
            command, first, proxy = files(own, tap.port)
            stack.enter_context(run_proxy(command, first, own))
            fronts[kind] = Front(kind, tap, first, proxy, own)
        yield Stage(campaign, paths, server, fronts)


@pytest.fixture(params=list(KINDS))
def front(request: pytest.FixtureRequest, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Front:
    found = stage.fronts[request.param]
    monkeypatch.setenv("SSL_CERT_FILE", str(found.room / "localhost.pem"))
    return found


def test_statuses_pass(front: Front, stage: Stage) -> None:
    """With the headers by which pages of every origin may read them."""
    size, path, shown = stage.campaign.report_bytes, stage.reports, f"/v1/campaigns/{stage.campaign.id}"
    token = f"Bearer {ANALYST.fetch_token(stage.campaign.nonce)}"
    asked = [
        front.ask("GET", "/v1/campaigns/" + "0" * 64), front.ask("POST", path, b"x"),
        front.ask("POST", path, bytes(size), Content_Type="text/plain"), front.ask("POST", path, bytes(1001 * size)),
        front.ask("OPTIONS", path), front.ask("GET", shown, port=front.first), front.ask("GET", f"{shown}/rounds/1"),
        front.ask("GET", f"{shown}/rounds/1", Authorization=token),
    ]  # fmt: skip
    assert [answer.status for answer in asked] == [404, 400, 415, 413, 204, 200, 401, 200]
    assert [answer.headers.get_all("access-control-allow-origin") for answer in asked] == [["*"]] * len(asked)
    batch = front.ask("GET", f"{shown}/rounds/1/batch", port=front.first, Authorization=token)
    assert b"html" in (batch.headers["content-type"] or "").encode() or front.kind == "caddy"
    assert batch.status == 404
    # The shuffler hears what is too large to its end: whether it or the proxy is quicker makes no difference.
    assert [front.ask("POST", path, bytes(1001 * size)).status for _ in range(30)] == [413] * 30


def test_what_is_too_large(front: Front, stage: Stage) -> None:
    """Is refused by the first who sees it, before it is sent."""
    heard = len(front.tap.heard)
    link = front.link(front.first)
    link.putrequest("POST", stage.reports)
    link.putheader("Content-Length", str(9 << 20))
    link.endheaders(b"abc")
    answer = link.getresponse()
    assert (answer.status, answer.headers.get_all("access-control-allow-origin")) == (413, ["*"])
    link.close()
    assert len(front.tap.heard) == heard


@pytest.mark.parametrize("half", ["header", "body"])
def test_a_slow_client_is_cut_off(front: Front, stage: Stage, half: str) -> None:
    """Half a request, then nothing: the proxy does not wait for the rest."""
    if (front.kind, half) == ("caddy", "body"):
        return  # The shuffler's own patience ends it, which is tested where it is built.
    link = front.link(front.first)
    link.connect()
    head = f"POST {stage.reports} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {REPORTS_MEDIA_TYPE}\r\nContent-Length: "
    link.sock.sendall((head + ("97\r\n\r\nabc" if half == "body" else "")).encode())
    with suppress(ConnectionResetError):
        said = link.sock.recv(100)
        assert said == b"" or said.split()[1] in (b"400", b"408")
    link.close()


def test_people_take_part(front: Front, stage: Stage, tmp_path: Path) -> None:
    """By Python's client and by an edge server; nobody behind the proxy hears who sent what."""
    campaign, url = stage.campaign, f"https://localhost:{front.first}"
    Client(campaign, tmp_path / "wallet", limit=3.0, url=url).send("red")
    values = [COLOURS[number % 3] for number in range(14)]
    assert send(campaign, pa.array(values), spool=tmp_path / "spool", url=url).reports == 14
    # What is no report is stored, and set aside when the round is closed.
    assert front.ask("POST", stage.reports, bytes(campaign.report_bytes), port=front.first).status == 201
    heard = bytes(front.tap.heard)
    assert heard.count(b"POST ") >= 3
    assert not [told for told in (b"telltale", b"203.0.113", SOMEBODY.encode()) if told in heard]
    # Go's own, the same for everybody.
    assert front.tap.header_names() <= NEEDED | ({"user-agent"} if front.kind == "caddy" else set())


def test_the_analyst_fetches_through_a_proxy(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody's reports, through either proxy, each once."""
    front = stage.fronts["nginx"]
    monkeypatch.setenv("SSL_CERT_FILE", str(front.room / "localhost.pem"))
    close_round_now(stage.paths, stage.campaign)
    wait_for_state(stage.server, stage.campaign, ANALYST.fetch_token(stage.campaign.nonce), "forgotten")
    made = fetch_and_open(stage.campaign, ANALYST, out=tmp_path / "opened", url=f"https://localhost:{front.proxy}")
    assert (made.users, made.refused) == (30, 0)
    for each in stage.fronts.values():
        assert each.ask("POST", stage.reports, bytes(stage.campaign.report_bytes), port=each.first).status == 410


def test_nothing_is_written_about_anybody(stage: Stage) -> None:
    """Neither when somebody asks too often, nor when the shuffler does not answer: that is a status, and no line."""
    shown = f"/v1/campaigns/{stage.campaign.id}"
    relay = stage.fronts["nginx"]
    limited = [relay.ask("GET", shown, port=relay.first) for _ in range(30)]
    limited = [answer for answer in limited if answer.status != 200]
    assert {answer.status for answer in limited} == {429}
    assert {answer.headers["access-control-allow-origin"] for answer in limited} == {"*"}
    assert all(answer.headers["retry-after"] for answer in limited)
    stage.server.stop()
    for front in stage.fronts.values():
        answer = front.ask("GET", shown)
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (503, "*")
        for path in front.room.rglob("*"):
            content = path.read_bytes() if path.is_file() else b""
            assert not [told for told in (b"telltale", b"203.0.113", SOMEBODY.encode()) if told in content], path
