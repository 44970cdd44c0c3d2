"""The interface: every documented status, nothing undocumented, hostile requests, and what is told to whom."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from shuffledp.service import ingest, serve as serving, server
from shuffledp.service.browser.assets import FILES, load_static_file
from shuffledp.service.notices_and_statements import BatchStatement, RoundNotice
from shuffledp.service.rounds import take_due_steps
from shuffledp.service.server import OPENAPI_DOCUMENT, ShufflerApplication
from shuffledp.service.stores import PostedReports, RoundState, SqliteStore, StoreUnavailable
from tests.service import ANALYST, create_campaign, plan_for
from tests.service.asgi import AsgiClient, run_application
from tests.service.server import accept_campaign
from tests.service.test_round import USERS, Shuffler

METHODS = ("get", "post", "delete")


@pytest.fixture
def shuffler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shuffler:
    """One whose clock is ours."""
    monkeypatch.setattr("shuffledp.service.rounds.TICK_SECONDS", 3600.0)
    made = Shuffler(tmp_path, create_campaign(plan_for(USERS, minimum=30)))
    # Open from now on: the server looks at the real time.
    found, now = made.round(), int(time.time())
    notice = RoundNotice(found.campaign, 1, now, now + 3600, made.notice().key).sign(made.paths.signing_key)
    from dataclasses import replace

    made.store.update_round(found, replace(found, closes=now + 3600, notice=notice))
    return made


def documented(method: str, path: str) -> set[int]:
    """The statuses that the description gives for a request."""
    for pattern, item in OPENAPI_DOCUMENT["paths"].items():
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", pattern), path) and method.lower() in item:
            return {int(status) for status in item[method.lower()]["responses"]}
    return set()


def in_service(shuffler: Shuffler, work: Callable[[AsgiClient, str, str], Any]) -> AsgiClient:
    """Ask a running service; afterwards every answer of a documented path must have been a documented one."""

    async def run() -> AsgiClient:
        async with run_application(ShufflerApplication(shuffler.paths)) as ask:
            path = f"/v1/campaigns/{shuffler.campaign.id}"
            await work(ask, path, ANALYST.fetch_token(shuffler.campaign.nonce))
            return ask

    ask = asyncio.run(run())
    for method, path, status in ask.seen:
        allowed = documented(method, path)
        assert status in allowed or (not allowed and status in (204, 404, 405)), (method, path, status)
    return ask


def test_every_documented_status(shuffler: Shuffler, monkeypatch: pytest.MonkeyPatch) -> None:
    """A campaign from the first report to the last word, and everything that can be wrong on the way."""
    monkeypatch.setattr(ingest, "BODY_TIMEOUT_SECONDS", 0.05)
    reports, size = shuffler.reports([0, 1] * 20), shuffler.campaign.report_bytes

    async def work(ask: AsgiClient, path: str, token: str) -> None:
        post = f"{path}/rounds/1/reports"
        assert (await ask("GET", path)).body == shuffler.campaign.content
        notice = RoundNotice.from_signed(shuffler.campaign, (await ask("GET", f"{path}/round")).body)
        assert notice == shuffler.notice()
        assert [(await ask("POST", post, report)).status for report in reports[:20]] == [201] * 20
        assert (await ask("POST", post, reports[20:])).status == 201
        assert (await ask("POST", post, b"".join(reports[:3]))).status == 201
        assert (await ask("POST", post, reports[0][:-1])).status == 400
        assert (await ask("POST", post, b"")).status == 400
        assert (await ask("POST", post, [b"x", b"gone"])).status == 400
        assert (await ask("POST", post, [b"x", b"never"])).status == 408
        assert (await ask("POST", post, [b"never"])).headers["connection"] == "close"
        assert (await ask("POST", post, reports[0], content_length=str(10**30))).status == 413
        assert (await ask("POST", post, [bytes(size)] * 1001)).status == 413
        # Up to some size it is heard to its end, so that a proxy can hand on the answer; beyond, nobody listens.
        assert (await ask("POST", post, [bytes(size)] * 1001 + [b"gone"])).status == 400
        assert (await ask("POST", post, [bytes(ingest.MAX_DISCARDED_BYTES), b"x", b"gone"])).status == 413
        assert (await ask("POST", post, reports[0], content_type="text/plain")).status == 415
        with monkeypatch.context() as patch:
            patch.setattr(SqliteStore, "_max_round_bytes", lambda *_: 0)
            assert (await ask("POST", post, reports[0])).status == 507
        assert (await ask("POST", f"{path}/rounds/2/reports", reports[0])).status == 404
        assert (await ask("POST", f"/v1/campaigns/{'0' * 64}/rounds/1/reports", reports[0])).status == 404
        for other in ("", "/round", "/rounds/1", "/rounds/1/batch", "/rounds/1/batch/x"):
            assert (await ask("GET", f"/v1/campaigns/{'0' * 64}{other}", token=token)).status == 404
        # Before it is mixed nobody is told how many came.
        assert (await ask("GET", f"{path}/rounds/1", token=token)).json.keys() == {"round", "state", "closes"}
        for batch in ("", "/messages-00000.parquet"):
            assert (await ask("GET", f"{path}/rounds/1/batch{batch}", token=token)).status == 404
            assert (await ask("GET", f"{path}/rounds/1/batch{batch}", token="00" * 32)).status == 401
            assert (await ask("GET", f"{path}/rounds/1/batch{batch}")).status == 401
        assert (await ask("DELETE", f"{path}/rounds/1/batch?digest=x", token=token)).status == 404
        assert (await ask("GET", f"{path}/rounds/1")).status == 401
        assert take_due_steps(shuffler.paths, int(time.time()) + 3601, 1)
        assert (await ask("POST", post, reports[0])).status == 410
        assert (await ask("GET", f"{path}/round")).status == 410
        told = (await ask("GET", f"{path}/rounds/1", token=token)).json
        assert (told["state"], told["users"]) == ("forgotten", USERS)
        statement = BatchStatement.from_signed(
            shuffler.campaign, (await ask("GET", f"{path}/rounds/1/batch", token=token)).body
        )
        ((name, length),) = statement.files.items()
        file = f"{path}/rounds/1/batch/{name}"
        whole = (await ask("GET", file, token=token)).body
        part = await ask("GET", file, token=token, range="bytes=5-14")
        assert (len(whole), part.status, part.body) == (length, 206, whole[5:15])
        assert (await ask("GET", file, token=token, range=f"bytes={length}-")).status == 416
        for stranger in ("_manifest.json", "..", "%2e%2e%2f%2e%2e%2freports.sqlite", "identity"):
            assert (await ask("GET", f"{path}/rounds/1/batch/{stranger}", token=token)).status == 404
        assert (await ask("DELETE", f"{path}/rounds/1/batch?digest=x", token=token)).status == 409
        assert (await ask("DELETE", f"{path}/rounds/1/batch?digest=x")).status == 401
        last = f"{path}/rounds/1/batch?digest={statement.manifest.digest}"
        assert [(await ask("DELETE", last, token=token)).status for _ in range(2)] == [204, 204]
        assert shuffler.round().state is RoundState.HANDED_OVER
        assert (await ask("GET", f"{path}/rounds/1/batch", token=token)).status == 404
        assert take_due_steps(shuffler.paths, int(time.time()) + 3601, 1)
        assert not shuffler.paths.batch_directory(shuffler.round()).exists()
        assert (await ask("GET", "/v1/openapi.json")).json == OPENAPI_DOCUMENT
        for name in FILES:
            served = await ask("GET", f"/v1/{name}")
            assert (served.status, served.body) == (200, load_static_file(name).body)
            assert (await ask("GET", f"/v1/{name}", if_none_match=served.headers["etag"])).status == 304
        assert (await ask("GET", "/healthz")).status == (await ask("GET", "/readyz")).status == 204

    async def without_store(ask: AsgiClient, path: str, token: str) -> None:
        def fails(*_: object) -> list[bool]:
            raise sqlite3.OperationalError("no space left")

        monkeypatch.setattr("shuffledp.service.stores.SqliteStore.append_reports", fails)
        answer = await ask("POST", f"{path}/rounds/1/reports", reports[0])
        assert (answer.status, answer.headers["retry-after"]) == (503, "5")
        monkeypatch.setattr("shuffledp.service.stores.SqliteStore._execute", unavailable)
        other = f"/v1/campaigns/{'0' * 64}/rounds/1/reports"
        assert (await ask("POST", other, reports[0])).status == 503
        for suffix in ("", "/round", "/rounds/1", "/rounds/1/batch", "/rounds/1/batch/x"):
            assert (await ask("GET", f"{path}{suffix}", token=token)).status == 503
        assert (await ask("DELETE", f"{path}/rounds/1/batch?digest=x", token=token)).status == 503
        assert (await ask("GET", "/readyz")).status == 503
        assert (await ask("GET", "/healthz")).status == 204

    def unavailable(*_: object) -> None:
        raise StoreUnavailable

    seen = in_service(shuffler, work).seen + in_service(shuffler, without_store).seen
    produced = {
        (pattern, method, status)
        for method, path, status in seen
        for pattern in OPENAPI_DOCUMENT["paths"]
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", pattern), path)
    }
    for pattern, item in OPENAPI_DOCUMENT["paths"].items():
        for method in METHODS:
            for status in item.get(method, {"responses": {}})["responses"]:
                assert (pattern, method.upper(), int(status)) in produced, f"{method} {pattern} never gave {status}"


def test_problems_are_documents(shuffler: Shuffler) -> None:
    """Each names its status, for pages of every origin, and tells nothing else; there are no cookies."""

    async def work(ask: AsgiClient, path: str, token: str) -> None:
        for method, target in (("POST", path), ("GET", "/"), ("PUT", path), ("GET", f"{path}/rounds/x")):
            answer = await ask(method, target, b"x")
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.headers["access-control-allow-origin"] == "*"
            assert answer.json["status"] == answer.status
            assert answer.json["title"] == ingest.TITLES[answer.status]
        asked = await ask("OPTIONS", f"{path}/rounds/1/reports", origin="https://page.example")
        assert (asked.status, asked.headers["access-control-allow-headers"]) == (204, "content-type")
        assert "set-cookie" not in asked.headers

    in_service(shuffler, work)


def test_the_description_is_one(shuffler: Shuffler) -> None:
    """OpenAPI's own demands, as far as they are few: versions, responses with words, parameters of every path."""
    assert OPENAPI_DOCUMENT["openapi"] == "3.1.0"
    for path, item in OPENAPI_DOCUMENT["paths"].items():
        names = {one["name"] for one in item.get("parameters", [])}
        assert names == set(re.findall(r"\{(\w+)\}", path))
        for method in METHODS:
            for status, told in item.get(method, {"responses": {}})["responses"].items():
                assert re.fullmatch(r"[2-5]\d\d", status)
                assert told["description"]


def test_many_requests_share_a_commit(shuffler: Shuffler, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that come while another commit is at the disk go into the next one, together, and each has its answer."""
    sizes: list[int] = []
    held = shuffler.store.append_reports

    def slowly(self: object, pieces: list[PostedReports], now: float) -> list[bool]:
        sizes.append(len(pieces))
        time.sleep(0.05)
        return held(pieces, now)

    monkeypatch.setattr("shuffledp.service.stores.SqliteStore.append_reports", slowly)
    reports = shuffler.reports([0] * 30)

    async def work(ask: AsgiClient, path: str, token: str) -> None:
        post = f"{path}/rounds/1/reports"
        answers = await asyncio.gather(*(ask("POST", post, report) for report in reports))
        assert {answer.status for answer in answers} == {201}

    in_service(shuffler, work)
    assert sum(sizes) == 30
    assert len(sizes) <= 4
    assert sorted(
        b"".join(shuffler.store.reports(shuffler.campaign.id, 1))[i * 97 : i * 97 + 97] for i in range(30)
    ) == (sorted(reports))


def test_what_waits_is_bounded(shuffler: Shuffler, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that does not keep up is said, not kept in memory."""
    monkeypatch.setattr(ingest, "MAX_PENDING_BYTES", -1)

    async def work(ask: AsgiClient, path: str, token: str) -> None:
        assert (await ask("POST", f"{path}/rounds/1/reports", bytes(97))).status == 503

    in_service(shuffler, work)


def test_the_application_of_a_server(shuffler: Shuffler, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Servers that import it find it by two variables; there is none where there is no shuffler."""
    monkeypatch.setenv(server.STATE_VARIABLE, str(shuffler.paths.state))
    monkeypatch.setenv(server.KEYS_VARIABLE, str(shuffler.paths.keys))
    assert isinstance(server.from_environment(), ShufflerApplication)
    monkeypatch.setenv(server.KEYS_VARIABLE, str(tmp_path / "elsewhere"))
    with pytest.raises(ValueError, match="campaign accept"):
        server.from_environment()


def test_a_store_that_hangs_keeps_no_other_waiting(shuffler: Shuffler, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one waits for the store, health is told and reports of a round that is known are taken."""
    reports, free, asked = shuffler.reports([0, 1]), threading.Event(), threading.Event()

    async def work(ask: AsgiClient, path: str, token: str) -> None:
        post = f"{path}/rounds/1/reports"
        assert (await ask("POST", post, reports[0])).status == 201
        found = SqliteStore.campaign

        def slow(self: SqliteStore, id_: str) -> Any:
            asked.set()
            assert free.wait(60)
            return found(self, id_)

        monkeypatch.setattr(SqliteStore, "campaign", slow)
        waiting = asyncio.create_task(ask("GET", path))
        try:
            assert await asyncio.to_thread(asked.wait, 60)
            assert (await ask("GET", "/healthz")).status == 204
            assert (await ask("POST", post, reports[1])).status == 201
            assert not waiting.done()
        finally:
            free.set()
        assert (await waiting).body == shuffler.campaign.content

    in_service(shuffler, work)


@pytest.mark.parametrize("guarded", [True, False])
def test_serve_says_what_no_ledger_guards(tmp_path: Path, guarded: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """In a line of the log when it starts, and in none where there is a ledger."""
    from shuffledp.ledger.ledger import Ledger

    book = tmp_path / "ledger.sqlite"
    Ledger.create(book)
    campaign = create_campaign(plan_for(USERS))
    paths = accept_campaign(tmp_path / "state", campaign, book if guarded else None)
    with closing(paths.open_store()) as store:
        assert serving._recover_rounds(paths, store)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["campaign"] for line in lines] == ([] if guarded else [campaign.id[:12]])
    assert all("old copies" in line["reason"] and "--ledger" in line["reason"] for line in lines)
