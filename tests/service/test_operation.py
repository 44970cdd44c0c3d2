"""What operators rely on: numbers that tell little, servers in front of one shuffler, and copies that are restored."""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from shuffledp.ledger.ledger import Ledger
from shuffledp.service import batch_receiver, rounds
from shuffledp.service.batch_receiver import fetch_and_open
from shuffledp.service.client import HttpClient
from shuffledp.service.crypto import ShufflerKey
from shuffledp.service.ingest import REPORTS_MEDIA_TYPE
from shuffledp.service.rounds import RoundManager
from shuffledp.service.serve import MetricsServer, bind_socket, format_metrics, socket_address
from shuffledp.service.stores import IngestNode, RoundState, ShufflerPaths
from shuffledp.service.table_sender import send
from tests.cli import run
from tests.service import ANALYST, COLOURS, SHUFFLER, create_campaign, plan_for
from tests.service.postgres import Postgres
from tests.service.server import accept_campaign, close_round_now, run_server, wait_for_state
from tests.service.test_round import NOW, USERS, Shuffler

pytestmark = pytest.mark.usefixtures("no_pictures")

SENT = {"Content-Type": REPORTS_MEDIA_TYPE}


def numbers(text: str) -> dict[str, float]:
    """Name and value of each line; every name has its type before it."""
    lines = text.splitlines()
    found = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}
    typed = {line.split()[2] for line in lines if line.startswith("# TYPE ")}
    assert {name.partition("{")[0] for name in found} == typed
    return found


def test_metrics_are_coarse(tmp_path: Path) -> None:
    """States of rounds, and a power of four: the count of reports is told to nobody while a round is open."""
    shuffler = Shuffler(tmp_path, create_campaign(plan_for(USERS, minimum=30, rounds=2)))
    seen = []
    for report in shuffler.reports([0] * USERS):
        shuffler.post(report)
        told = numbers(format_metrics(shuffler.paths.open_store, NOW))
        seen.append(told["shuffledp_stored_bytes_at_most"])
    sizes = [97 * count for count in range(1, USERS + 1)]
    assert all(size <= most < 4 * size for size, most in zip(sizes, seen, strict=True))
    assert sorted(set(seen)) == [256, 1024, 4096]
    assert told['shuffledp_rounds{state="open"}'] == told["shuffledp_store_up"] == 1
    assert told["shuffledp_overdue_seconds"] == 0
    assert numbers(format_metrics(shuffler.paths.open_store, NOW + 3700))["shuffledp_overdue_seconds"] == 100
    shuffler.turn()
    told = numbers(format_metrics(shuffler.paths.open_store, NOW + 3700))
    assert (told['shuffledp_rounds{state="forgotten"}'], told['shuffledp_rounds{state="open"}']) == (1, 1)
    assert told["shuffledp_stored_bytes_at_most"] == told["shuffledp_overdue_seconds"] == 0
    shuffler.store.close()


def test_metrics_without_a_store() -> None:
    """They say so; on a socket of their own, and nothing else is there."""
    down = IngestNode("postgresql://nobody@127.0.0.1:1/x").open_store
    assert numbers(format_metrics(down, NOW))["shuffledp_store_up"] == 0
    listening = bind_socket("127.0.0.1:0")
    url = socket_address(listening)
    with MetricsServer(listening, down):
        with urllib.request.urlopen(f"{url}/metrics") as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert "shuffledp_store_up 0\n" in answer.read().decode()
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{url}/")


def test_the_log_is_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """Of what the server below has to say the first line, and of an error its kind."""
    import logging

    rounds.log_event("round", state="mixed")
    try:
        raise RuntimeError("203.0.113.7")
    except RuntimeError:
        import sys

        record = logging.LogRecord("uvicorn.error", 40, "", 1, "it failed\nfor %s", ("203.0.113.7",), sys.exc_info())
    line = rounds.JsonLineFormatter().format(record)
    assert line.endswith('"event": "server", "level": "error", "message": "it failed", "error": "RuntimeError"}')
    assert '"event": "round", "state": "mixed"}\n' in capsys.readouterr().err


@pytest.mark.database
def test_servers_in_front(tmp_path: Path, database_server: Postgres) -> None:
    """They take reports with neither keys nor directories; the one behind them closes, and hands over the batch."""
    database = database_server.new_database()
    campaign = create_campaign(plan_for(30))
    paths = accept_campaign(tmp_path / "state", campaign, database=database)
    (tmp_path / "front").mkdir()
    token = ANALYST.fetch_token(campaign.nonce)
    with (
        run_server(tmp_path / "front", database=database, front=True) as first,
        run_server(tmp_path / "front", database=database, front=True, workers=2) as second,
        run_server(paths.state, database=database) as third,
    ):
        for number, server in enumerate((first, second, third)):
            done = send(campaign, pa.array(COLOURS * 4), spool=tmp_path / f"spool-{number}", url=server.url)
            assert done.reports == 12
        close_round_now(paths, campaign)
        wait_for_state(first, campaign, token, "forgotten")
        with HttpClient(first.url) as link:
            name = f"/v1/campaigns/{campaign.id}/rounds/1/batch/messages-00000.parquet"
            assert link.request("GET", name, headers={"Authorization": f"Bearer {token}"}).status == 404
        assert fetch_and_open(campaign, ANALYST, out=tmp_path / "opened", url=third.url).users == 36
    assert {path.name for path in (tmp_path / "front").iterdir()} == {"stderr.log"}
    assert (tmp_path / "front" / "stderr.log").read_bytes() == b""


@pytest.mark.database
def test_shufflers_that_share_a_database(tmp_path: Path, database_server: Postgres) -> None:
    """Each closes its own rounds: one that has not the key of a round would give it up."""
    from shuffledp.service.crypto import ShufflerKey

    database = database_server.new_database()
    shuffler = Shuffler(tmp_path, create_campaign(plan_for(USERS, minimum=30)), database=database)
    for report in shuffler.reports([0] * 30):
        assert shuffler.post(report)
    other = ShufflerPaths.from_directories(tmp_path / "other", None, database)
    other.create_directories(ShufflerKey.new())
    with closing(other.open_store()) as store:
        manager = RoundManager(other, store)
        assert not manager.is_due(NOW + 9999)
        manager.take_due_steps(NOW + 9999)
    assert shuffler.round().state is RoundState.OPEN
    assert shuffler.turn() is RoundState.FORGOTTEN
    shuffler.store.close()


def test_what_a_server_needs() -> None:
    """A sentence where there is neither a directory nor a database, or the database is none."""
    assert "--state" in run("serve").err
    outcome = run("serve", "--database", "mysql://me:secret@host/x", "--listen", "127.0.0.1:0")
    assert outcome.status == 2
    assert "postgresql://" in outcome.err
    assert "secret" not in outcome.err + outcome.out


def copied(state: Path, target: Path) -> None:
    """A backup of the directory, as it stands, without keys."""
    shutil.copytree(state, target, ignore=shutil.ignore_patterns("keys", "reports.sqlite*"))
    with (
        closing(sqlite3.connect(state / "reports.sqlite")) as now,
        closing(sqlite3.connect(target / "reports.sqlite")) as copy,
    ):
        now.backup(copy)  # fmt: skip


def test_a_backup_that_is_restored(tmp_path: Path) -> None:
    """From before a release: its reports stay noise, and no round that was released is asked for again."""
    ledger = Ledger.create(tmp_path / "ledger.sqlite")
    shuffler = Shuffler(tmp_path, create_campaign(plan_for(USERS, minimum=30, rounds=3)), ledger.path)
    reports = shuffler.reports([0] * 30)
    for report in reports:
        shuffler.post(report)
    copied(shuffler.paths.state, tmp_path / "backup")
    assert shuffler.turn() is RoundState.FORGOTTEN
    for report in shuffler.reports([1] * 30, 2):
        assert shuffler.post(report, NOW + 3601, 2)
    shuffler.turn(NOW + 7200)
    assert shuffler.round(2).state is RoundState.FORGOTTEN
    before = ledger.budget_statuses()[0].entries
    keys = shuffler.paths.keys
    shuffler.store.close()
    paths = ShufflerPaths.from_directories(tmp_path / "backup", keys)
    with closing(paths.open_store()) as store:
        assert store.stored_bytes(shuffler.campaign.id, 1) == 30 * 97
        manager = RoundManager(paths, store)
        for later in range(4):
            manager.take_due_steps(NOW + 7201 + later)
        found = store.rounds(shuffler.campaign.id)
        assert [each.state for each in found] == [RoundState.EXPIRED, RoundState.EXPIRED, RoundState.OPEN]
        assert store.stored_bytes(shuffler.campaign.id, 1) == 0
    assert ledger.budget_statuses()[0].entries == before
    assert not list(paths.batches_directory.iterdir())


@pytest.mark.exhaustive("True")
@pytest.mark.parametrize("with_ledger", [True, False])
def test_a_server_on_a_copy_that_was_put_back(tmp_path: Path, with_ledger: bool) -> None:
    """Before it takes anything it asks the ledger, or looks at its marks; it says so, and goes on with what is next."""
    ledger = Ledger.create(tmp_path / "ledger.sqlite")
    campaign = create_campaign(plan_for(USERS, minimum=30, rounds=2))
    shuffler = Shuffler(tmp_path, campaign, ledger.path if with_ledger else None)
    paths, name = shuffler.paths, shuffler.round().name
    key = (paths.keys / name).read_bytes()
    copied(paths.state, tmp_path / "copy")
    for report in shuffler.reports([0] * 30):
        assert shuffler.post(report)
    assert shuffler.turn() is RoundState.FORGOTTEN
    shuffler.store.close()
    shutil.rmtree(paths.state)
    (tmp_path / "copy").rename(paths.state)
    paths.state.chmod(0o700)
    with sqlite3.connect(paths.state / "reports.sqlite") as file:
        file.execute("UPDATE rounds SET closes = ?", (int(time.time()) + 3600,))
    file.close()
    (paths.keys / name).write_bytes(key)
    if with_ledger:
        shutil.rmtree(paths.keys / "spent")
    with run_server(paths.state) as server, HttpClient(server.url) as link:
        answer = link.request(
            "POST", f"/v1/campaigns/{campaign.id}/rounds/1/reports", bytes(campaign.report_bytes), SENT
        )
        assert answer.status == 410
    events = [json.loads(line) for line in (paths.state / "stderr.log").read_text().splitlines()]
    assert "closed for good" in next(event["reason"] for event in events if event["event"] == "put back")
    with closing(paths.open_store()) as store:
        assert store.rounds(campaign.id)[0].state is RoundState.EXPIRED
    assert paths.round_key(name) is None


def test_a_server_whose_ledger_is_gone(tmp_path: Path) -> None:
    """Whether its open round was released nobody can tell: it does not start."""
    ledger = Ledger.create(tmp_path / "ledger.sqlite")
    shuffler = Shuffler(tmp_path, create_campaign(plan_for(USERS)), ledger.path)
    shuffler.store.close()
    (tmp_path / "ledger.sqlite").unlink()
    outcome = run("serve", "--state", str(shuffler.paths.state), "--listen", "127.0.0.1:0")
    assert outcome.status == 2
    assert "rounds cannot be opened" in outcome.err


def test_a_round_that_is_over_is_not_ended_again(tmp_path: Path) -> None:
    """Ending it by hand would count its retention anew."""
    shuffler = Shuffler(tmp_path, create_campaign(plan_for(USERS, minimum=30)))
    for report in shuffler.reports([0] * 30):
        shuffler.post(report)
    assert shuffler.turn() is RoundState.FORGOTTEN
    with pytest.raises(ValueError, match="is forgotten, not open"):
        shuffler.manager.close_now(shuffler.round(), NOW + 9000)
    assert shuffler.round().closes == NOW + 3600
    shuffler.store.close()


def test_an_operator_sees_where_rounds_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when a slip came first: a wrong key makes no directory that would refuse the right one."""
    monkeypatch.chdir(tmp_path)
    campaign = create_campaign(plan_for(USERS, rounds=2))
    campaign.save("campaign.json")
    assert Path("campaign.json").stat().st_mode & 0o044 == 0o044, "others act on it"
    ShufflerKey.new().save(Path("other.key"))
    SHUFFLER.save(Path("own.key"))
    accept = ("campaign", "accept", "campaign.json", "--state", "shuffler", "--no-ledger", "--key")
    assert "another shuffler" in run(*accept, "other.key").err
    assert not Path("shuffler").exists()
    assert run("campaign", "list", "--state", "shuffler").status == 2
    assert run(*accept, "own.key").status == 0
    shuffler = Shuffler(tmp_path, campaign)
    for report in shuffler.reports([0] * USERS):
        assert shuffler.post(report, time.time())
    before = run("campaign", "list", "--state", "shuffler").out
    assert campaign.id in before
    assert "round 1 of 2  open until" in before
    assert "took part" not in before
    (told,) = json.loads(run("campaign", "list", "--state", "shuffler", "--json").out)["campaigns"]
    assert told["rounds"] == [{"round": 1, "state": "open", "closes": shuffler.round().closes}]
    assert run("campaign", "close", campaign.id[:9], "--state", "shuffler").status == 0
    (told,) = json.loads(run("campaign", "list", "--state", "shuffler", "--json").out)["campaigns"]
    assert [(each["state"], each.get("users")) for each in told["rounds"]] == [("forgotten", USERS), ("open", None)]
    assert f"forgotten, {USERS} took part" in run("campaign", "list", "--state", "shuffler").out


def test_why_there_is_no_batch() -> None:
    """In words: the analyst need not know what states are called."""
    assert "open until 2027-01-15 08:00 UTC; try again" in batch_receiver._describe_missing_batch(RoundState.OPEN, NOW)
    for state in RoundState:
        assert "{" not in batch_receiver._describe_missing_batch(state, NOW)


def test_slips_in_a_campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that is none, an issuer without a key, an option that is there twice."""
    monkeypatch.chdir(tmp_path)
    plan_for(USERS).save("plan.json")
    ANALYST.save(Path("analyst.key"))
    Path("shuffler.json").write_text(json.dumps(SHUFFLER.public_document), "utf-8")
    made = ("campaign", "create", "plan.json", "--analyst-key", "analyst.key", "--shuffler", "shuffler.json", "--out")
    assert "expected an address" in run(*made, "a.json", "--url", "shuffler.example").err
    assert "plain http is for this machine" in run(*made, "a.json", "--url", "http://shuffler.example").err
    told = run(*made, "a.json", "--url", "https://ann:secret@shuffler.example").err
    assert "expected an address" in told
    assert "secret" not in told
    assert "--issuer-key together" in run(*made, "a.json", "--issuer", "issuer.example").err
    assert "given twice" in run(*made, "a.json", "--window", "7d", "--window", "8d").err
    assert not Path("a.json").exists()
