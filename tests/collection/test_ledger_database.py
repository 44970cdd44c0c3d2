"""A ledger in PostgreSQL: never made by opening it, what is changed there is noticed, and no password is shown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from shuffledp.collection.collect import collect
from shuffledp.ledger.hash_chain import LedgerError
from shuffledp.ledger.ledger import Ledger
from shuffledp.ledger.storage import LedgerAddress, parse_location
from tests.cli import run as run_command
from tests.collection import new_ledger, random_column, write_table
from tests.collection.test_ledger import DIGEST, USERS, alone
from tests.service.postgres import Postgres

pytestmark = pytest.mark.usefixtures("no_pictures")


def changed(url: str, *statements: str) -> None:
    """By somebody else."""
    with psycopg.connect(url) as connection:
        for statement in statements:
            connection.execute(statement.encode())


@pytest.fixture
def url(database_server: Postgres) -> str:
    return database_server.new_database()


@pytest.mark.database
def test_it_is_created_on_purpose(url: str) -> None:
    """And once: looking at it creates nothing."""
    for _ in range(2):
        with pytest.raises(LedgerError, match=r"there is no ledger at postgresql://.*ledger create"):
            Ledger(url).budget_statuses()
    ledger = Ledger.create(url)
    with pytest.raises(LedgerError, match="already there; a ledger is created only once"):
        Ledger.create(url)
    assert [standing.population for standing in ledger.budget_statuses()] == ["everyone"]
    assert isinstance(ledger.path, LedgerAddress)


@pytest.mark.database
@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (
            "UPDATE shuffledp_ledger_event SET payload = replace(payload, 'test', 'rest')",
            "entry 3 of .* is not what was",
        ),
        ("DELETE FROM shuffledp_ledger_event WHERE number = 3", "entry 3 of .* is not what was written"),
        ("DELETE FROM shuffledp_ledger_head", "is not what was written"),
        ("DROP TABLE shuffledp_ledger_event", "cannot use postgresql://.*UndefinedTable"),
        ("DROP TABLE shuffledp_ledger_head", "though there was one with 3 entries: restore it"),
    ],
)
def test_what_is_changed_there_is_noticed(url: str, statement: str, words: str) -> None:
    """By the chain, or by what was last seen here."""
    ledger = new_ledger(url, "other test")
    changed(url, statement)
    with pytest.raises(LedgerError, match=words):
        ledger.budget_statuses()


@pytest.mark.database
def test_an_older_state_that_is_restored_is_noticed(url: str) -> None:
    """A chain that is whole, and shorter than it was."""
    ledger = new_ledger(url)
    before = ledger.head()
    ledger.reserve("a", alone())
    back = f"UPDATE shuffledp_ledger_head SET number = {before.entries}, hash = '{before.hash}'"
    changed(url, f"DELETE FROM shuffledp_ledger_event WHERE number > {before.entries}", back)
    with pytest.raises(LedgerError, match="it was replaced, restored or edited"):
        ledger.reserve("b", alone())
    ledger.accept()
    assert ledger.budget_statuses("test")[0].accepted_times


@pytest.mark.database
def test_a_look_waits_for_nobody(url: str) -> None:
    """While another run is at the ledger, what is committed can be read; nothing is kept of it meanwhile."""
    ledger = new_ledger(url)
    ledger.reserve("a", alone())
    with psycopg.connect(url) as other:
        other.execute("SELECT * FROM shuffledp_ledger_head FOR UPDATE")
        other.execute("DELETE FROM shuffledp_ledger_event")
        assert [entry.id for entry in ledger.budget_statuses("test")[0].entries] == ["a"]
        with pytest.raises(LedgerError, match="LockNotAvailable"):
            ledger._file.append_events(ledger.head(), [{"kind": "none"}], {}, wait=False)
        other.rollback()
    assert ledger._file.append_events(ledger.head(), [], {}, wait=False) == ledger.head()


@pytest.mark.database
def test_a_collection_and_the_commands_keep_it(url: str, tmp_path: Path) -> None:
    """In Python and on the command line, as a file is kept."""
    assert run_command("ledger", "create", "--population", "test", "--ledger", url).status == 0
    assert run_command("ledger", "budget", "test", "--epsilon", "9", "--delta", "1e-6", "--ledger", url).status == 0
    path, plan = write_table(tmp_path / "data.parquet", value=random_column("krr", USERS)), alone(rounds=2).plan
    plan.save(tmp_path / "plan.json")
    collect(plan, path, "value", out=tmp_path / "one", ledger=url)
    arguments = ("collect", str(tmp_path / "plan.json"), "--input", str(path), "--column", "value", "--ledger", url)
    done = run_command(*arguments, "--out", str(tmp_path / "two"))
    assert done.status == 0, done.err
    shown = run_command("ledger", "show", "--ledger", url)
    assert shown.status == 0, shown.err
    (standing,) = Ledger(url).budget_statuses("test")
    assert [(entry.state, entry.round) for entry in standing.entries] == [("released", 1), ("released", 2)]
    assert run_command("ledger", "check", "--ledger", url).status == 0


def test_a_server_that_is_gone_is_a_sentence() -> None:
    """With neither password nor traceback; and what is not there is not a new ledger."""
    with pytest.raises(LedgerError) as caught:
        Ledger("postgresql://me:hunter2@127.0.0.1:1/books").reserve("a", alone())
    assert str(caught.value) == "ledger: cannot use postgresql://me@127.0.0.1:1/books: OperationalError."


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("postgresql://me:pa@host:5433/books", "postgresql://me@host:5433/books"),
        ("postgres://host/books?password=secret&host=/run/pg", "postgresql://host/books?host=/run/pg"),
        ("postgresql:///books", "postgresql:///books"),
    ],
)
def test_no_password_is_shown(given: str, shown: str) -> None:
    """Neither as text nor for programmers; who connects has it."""
    place = parse_location(given)
    assert isinstance(place, LedgerAddress)
    assert (str(place), repr(place), place.__fspath__()) == (shown, f"LedgerAddress({shown!r})", given)
    assert parse_location(Path("a") / "b") == Path("a/b")


def test_a_file_needs_no_driver() -> None:
    """PostgreSQL's driver is loaded where a database is named, and nowhere else."""
    code = "import sys, shuffledp.ledger.ledger; sys.exit('psycopg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.database
def test_released_is_released_from_another_machine(url: str) -> None:
    """Somebody who never saw the ledger finds what others wrote."""
    ledger = new_ledger(url)
    ledger.reserve("a", alone())
    ledger.settle("a", alone(), DIGEST)
    ledger._rollback_guard.path.unlink()
    assert Ledger(url).has_released("a")
