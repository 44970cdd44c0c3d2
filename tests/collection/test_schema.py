"""Ledgers and job directories of version 0.1.0 go on, with the numbers that they had; newer ones are refused."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from shuffledp.collection.collect import collect
from shuffledp.ledger.collection_guarantee import Guarantee
from shuffledp.ledger.hash_chain import Head, LedgerError
from shuffledp.ledger.ledger import Ledger
from shuffledp.planning.plan import Plan
from shuffledp.storage.migrations import NewerSchema, SqliteSchema
from tests.cli import run as run_command
from tests.service.postgres import Postgres
from tests.version_0_1_0 import ENTRY_USERS, EXPECTED, ROWS, OldFiles, old_plan

pytestmark = pytest.mark.usefixtures("no_pictures")

EVENTS = "SELECT number, payload, hash FROM event ORDER BY number"
EVENTS_THERE = "SELECT number, payload, hash FROM shuffledp_ledger_event ORDER BY number"
VERSION, VERSION_THERE = "PRAGMA user_version", "SELECT version FROM shuffledp_schema WHERE store = 'ledger'"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.database)])
def old(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OldFiles:
    if request.param == "sqlite":
        return OldFiles(tmp_path, None, monkeypatch)
    server: Postgres = request.getfixturevalue("database_server")
    return OldFiles(tmp_path, server.new_database(), monkeypatch)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OldFiles:
    """Those beside SQLite, where the collections are."""
    return OldFiles(tmp_path, None, monkeypatch)


def readers(round_number: int) -> Guarantee:
    return Guarantee(old_plan(ENTRY_USERS, rounds=3, population="readers"), ENTRY_USERS, round_number=round_number)


# --- ledgers ------------------------------------------------------------------------------------------------------


def test_a_ledger_goes_on(old: OldFiles, tmp_path: Path) -> None:
    """The same numbers, the same chain; new entries come after it, and the version is recorded with the first."""
    ledger, before = Ledger(old.ledger), old.rows(EVENTS, EVENTS_THERE)
    assert len(before) == old.expected["head"]["entry"]
    found = {standing.population: standing.epsilon for standing in ledger.budget_statuses()}
    assert found == pytest.approx(old.expected["epsilon"], rel=1e-9)
    entries = {entry.id: entry for entry in ledger.budget_statuses("readers")[0].entries}
    assert (entries["released"].state, entries["reserved"].state) == ("released", "reserved")
    assert "given back" not in entries
    with pytest.raises(LedgerError, match="from before rounds were recorded; give the round by round_number=…"):
        ledger.next_round(readers(1).plan)
    ledger.settle("reserved", readers(2), "7" * 64)
    assert old.rows(VERSION, VERSION_THERE) == [(2,)]
    ledger.reserve("new", readers(3))
    assert old.rows(EVENTS, EVENTS_THERE)[: len(before)] == before
    ledger.check_contains(old.expected["head"], "test")
    assert ledger.has_released("reserved")

    # The same collections in a ledger that was never upgraded.
    fresh = Ledger.create(tmp_path / "fresh.sqlite")
    fresh.register("readers")
    (standing,) = ledger.budget_statuses("readers", delta=1e-6)
    for entry in standing.entries:
        guarantee = readers(1) if entry.users == ENTRY_USERS else Guarantee(Plan.load("plan-rounds.json"), ROWS)
        fresh.reserve(entry.id, Guarantee(guarantee.plan, entry.users))
    # Equal curves are composed in another order.
    assert standing.epsilon == pytest.approx(fresh.budget_statuses("readers", delta=1e-6)[0].epsilon, rel=1e-12)


def test_a_look_does_not_migrate(files: OldFiles) -> None:
    """Whoever may only read a ledger of 0.1.0 can read it."""
    Path("ledger.sqlite").chmod(0o400)
    content = Path("ledger.sqlite").read_bytes()
    Ledger(files.ledger).budget_statuses()
    assert Path("ledger.sqlite").read_bytes() == content


def test_a_newer_ledger_is_refused(old: OldFiles) -> None:
    """By one sentence, that names both versions; nothing is written, not even by whoever had read it before."""
    ledger = Ledger(old.ledger)
    ledger.register("others")
    head = ledger.head()
    old.change("PRAGMA user_version = 7", "UPDATE shuffledp_schema SET version = 7")
    before = old.rows(EVENTS, EVENTS_THERE)
    words = r"^ledger: .* has schema version 7, and shuffledp \S+ knows versions up to 2; upgrade shuffledp\.$"
    with pytest.raises(NewerSchema, match=words):
        ledger.budget_statuses()
    with pytest.raises(NewerSchema, match=words):
        ledger.accept()
    with pytest.raises(NewerSchema, match=words):
        ledger._file.append_events(head, [{"kind": "register", "time": "", "population": "more"}], {})
    assert old.rows(EVENTS, EVENTS_THERE) == before
    shown = run_command("ledger", "show", "--ledger", old.ledger)
    assert (shown.status, shown.err.count("\n")) == (2, 1)
    assert "has schema version 7" in shown.err


def test_a_backup_from_before_the_upgrade_is_noticed(old: OldFiles) -> None:
    """As any older state is; once it is accepted it is migrated like the first time."""
    ledger = Ledger(old.ledger)
    ledger.reserve("since", readers(3))
    old.restore()
    with pytest.raises(LedgerError, match="it was replaced, restored or edited"):
        ledger.reserve("again", readers(3))
    ledger.accept()
    assert old.rows(VERSION, VERSION_THERE) == [(2,)]
    ledger.reserve("again", readers(3))
    assert ledger.budget_statuses("readers")[0].accepted_times
    ledger.check_contains(old.expected["head"], "test")


def test_the_backup_itself_is_the_ledger_last_seen(old: OldFiles) -> None:
    """Migrating alone adds no entry: whoever goes back before anything was written loses nothing."""
    Ledger(old.ledger).budget_statuses()
    old.restore()
    assert Ledger(old.ledger).head() == Head.from_document("test", old.expected["head"])


def test_a_new_ledger_records_its_version(tmp_path: Path) -> None:
    """From the beginning; and its tables are those of one that was migrated."""
    Ledger.create(tmp_path / "ledger.sqlite")
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as file:
        assert file.execute(VERSION).fetchone() == (2,)


# --- the machinery ------------------------------------------------------------------------------------------------


@pytest.fixture
def file() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        yield connection


def test_migrations_run_once_and_in_order(file: sqlite3.Connection) -> None:
    """A new store runs all, an older one those that it lacks, and one that fails leaves nothing."""
    steps = tuple(lambda execute, number=number: execute(f"CREATE TABLE step_{number} (x)") for number in (1, 2, 3))
    two, three = (SqliteSchema("test", "step_1", steps[:count]) for count in (2, 3))
    assert two.check(file.execute, "test: it") == 0
    two.upgrade(file, "test: it")
    two.upgrade(file, "test: it")
    assert (two.check(file.execute, "test: it"), three.check(file.execute, "test: it")) == (2, 2)

    def fails(execute: object) -> None:
        steps[2](execute)
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        SqliteSchema("test", "step_1", (*steps[:2], fails)).upgrade(file, "test: it")
    assert not file.in_transaction
    assert three.check(file.execute, "test: it") == 2
    three.upgrade(file, "test: it")
    assert three.check(file.execute, "test: it") == 3
    with pytest.raises(NewerSchema, match=r"version 3, and .* up to 2"):
        two.upgrade(file, "test: it")


@pytest.mark.parametrize("version", [-1, 99])
def test_a_version_that_nobody_wrote(file: sqlite3.Connection, version: int) -> None:
    """Is never guessed at, even where the tables are missing."""
    file.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(NewerSchema, match=f"version {version}, "):
        SqliteSchema("test", "step", (lambda execute: execute("CREATE TABLE step (x)"),)).upgrade(file, "test: it")
    assert file.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)


# --- collections --------------------------------------------------------------------------------------------------


def messages_of(*paths: Path) -> list[bytes]:
    """All messages of some files."""
    found: list[bytes] = []
    for path in paths:
        table = pq.read_table(path)
        for row in table.to_pylist():
            found += [bytes(row["message"])] * row.get("count", 1)
    return sorted(found)


def test_an_interrupted_collection_goes_on(files: OldFiles) -> None:
    """Nothing is randomised again, the report has the guarantee of its users, and the ledger is settled."""
    encoded = messages_of(*Path("interrupted/work/encoded").glob("*.parquet"))
    assert len(encoded) == ROWS
    plan = Plan.load("plan-rounds.json")
    report = collect(plan, "data.csv", "colour", out="interrupted", ledger=files.ledger, resume=True)
    assert not Path("interrupted/work").exists()
    assert messages_of(*Path("interrupted/messages").glob("*.parquet")) == encoded
    expected = EXPECTED["sqlite"]["jobs"]
    wanted = Guarantee(plan, ROWS, round_number=2).with_certificate()
    assert report.guarantee.epsilon == wanted.epsilon
    # The certified number is a little above the engine's, which 0.1.0 stated.
    assert expected["finished"] <= wanted.epsilon < 1.002 * expected["finished"]
    (entry,) = [each for each in Ledger(files.ledger).budget_statuses("readers")[0].entries if each.round is not None]
    assert (entry.state, entry.round, entry.users) == ("released", 2, ROWS)
    counts = [sum(1 for message in encoded if message[0] == option) for option in range(3)]
    # Randomized response over three options tells the truth with e^ε / (e^ε + 2).
    keep, other = (weight / (math.exp(0.5) + 2) for weight in (math.exp(0.5), 1.0))
    estimates = [(count - ROWS * other) / (keep - other) for count in counts]
    told = json.loads(Path("interrupted/report.json").read_text("utf-8"))["estimates"]
    assert [row["estimate"] for row in told] == pytest.approx(estimates)


def test_a_job_of_a_newer_version_is_refused(files: OldFiles) -> None:
    """And nothing of it is touched."""
    path = Path("interrupted/work/job.json")
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {"version": 2}), "utf-8")
    before = sorted((each, each.stat().st_mtime_ns) for each in Path("interrupted").rglob("*"))
    words = r"^collect: interrupted/work/job\.json has schema version 2, and shuffledp \S+ knows versions up to 1; "
    with pytest.raises(NewerSchema, match=words):
        collect("plan-rounds.json", "data.csv", "colour", out="interrupted", ledger=files.ledger, resume=True)
    assert sorted((each, each.stat().st_mtime_ns) for each in Path("interrupted").rglob("*")) == before
    assert Ledger(files.ledger).head().entries == files.expected["head"]["entry"]


def test_a_new_job_records_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the file that says what it began with."""
    from shuffledp.collection.engine import EmbeddedEngine

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(EmbeddedEngine, "shuffle", stop)
    (tmp_path / "data.csv").write_text("colour\nred\ngreen\n", "utf-8")
    with pytest.raises(KeyboardInterrupt):
        collect(old_plan(2), tmp_path / "data.csv", "colour", out=tmp_path / "out")
    assert json.loads((tmp_path / "out/work/job.json").read_text("utf-8"))["version"] == 1


def test_a_finished_collection_is_known(files: OldFiles) -> None:
    """It is not collected again, its report agrees with the ledger, and its proof still verifies."""
    plan = Plan.load("plan-rounds.json")
    with pytest.raises(ValueError, match="already holds a finished collection"):
        collect(plan, "data.csv", "colour", out="finished", ledger=files.ledger, round_number=1)
    checked = run_command("ledger", "check", "--report", "finished/report.json", "--ledger", files.ledger)
    assert checked.status == 0, checked.err
    verified = run_command("verify", "finished/certificate.json")
    assert verified.status == 0, verified.err


def test_plans_are_the_same(files: OldFiles) -> None:
    """Their messages have the identity that they had, and they are written as they were."""
    plan = Plan.load("plan-rounds.json")
    assert plan.identity(2) == files.expected["jobs"]["identity"]
    for name in ("plan-rounds.json", "plan-sample.json"):
        assert Plan.load(name).text() == Path(name).read_text("utf-8")
