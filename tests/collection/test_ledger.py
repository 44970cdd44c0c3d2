"""The ledger: what a population has given in all, and a budget that cannot be spent twice."""

from __future__ import annotations

import multiprocessing
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from shuffledp import KRR, amplify
from shuffledp.collection.collect import Request, collect, run
from shuffledp.collection.engine.register import engine_of
from shuffledp.collection.guarantee import Guarantee, TooWeak, composed_epsilon
from shuffledp.collection.input.file_table import FileTable
from shuffledp.collection.ledger import Ledger
from shuffledp.collection.report import standing_document
from shuffledp.version import __version__
from tests.collection import data_of, everything_under, plan_of, write_table

CHEAP = {"epsilon_local": 0.5, "bound": "efmrtt19"}
USERS = 1000


def alone(**changes: Any) -> Guarantee:
    return Guarantee(plan_of("krr", users=USERS, **(CHEAP | changes)), USERS)


def test_entries_tell_their_privacy_again(tmp_path: Path) -> None:
    """A fresh reader computes from the file what amplify says of the mechanism."""
    ledger = Ledger(tmp_path / "ledger.sqlite")
    guarantee = Guarantee(plan_of("krr"), 5000)
    ledger.reserve("a", guarantee)
    (standing,) = Ledger(tmp_path / "ledger.sqlite").standings(delta=1e-7)
    (entry,) = standing.entries
    direct = amplify(KRR(epsilon=2.0, options=4), 5000)
    assert entry.curve().epsilon(1e-7).upper == direct.epsilon(1e-7).upper
    assert standing.epsilon == direct.epsilon(1e-7).upper
    assert entry.epsilon == direct.epsilon(1e-6).upper
    assert (entry.state, entry.released, standing.budget, standing.left) == ("reserved", None, None, None)


def test_rounds_are_composed_soundly(tmp_path: Path) -> None:
    """Never below one round alone, and at most the sum of the rounds at a share of δ each."""
    ledger = Ledger(tmp_path / "ledger.sqlite")
    for number, users in enumerate((2000, 3000, 4000)):
        ledger.reserve(str(number), Guarantee(plan_of("krr"), users))
    ledger.reserve("other", Guarantee(plan_of("krr", population="elsewhere"), 9000))
    elsewhere, standing = ledger.standings(delta=1e-6)
    assert (elsewhere.population, len(elsewhere.entries)) == ("elsewhere", 1)
    mechanism = KRR(epsilon=2.0, options=4)
    curves = [amplify(mechanism, users) for users in (2000, 3000, 4000)]
    assert standing.epsilon <= sum(curve.epsilon(1e-6 / 3).upper for curve in curves) * (1 + 1e-12)
    assert standing.epsilon > curves[0].epsilon(1e-6).upper
    assert composed_epsilon([], 1e-6) == 0.0
    assert composed_epsilon(curves[:1], 1e-6) == pytest.approx(curves[0].epsilon(1e-6).upper, rel=1e-9)


def test_a_budget_refuses_what_would_exceed_it(tmp_path: Path) -> None:
    """Two rounds fit, the third does not; another population is not concerned; nothing is written down."""
    ledger = Ledger(tmp_path / "ledger.sqlite")
    twice = composed_epsilon([alone().curve] * 2, 1e-6)
    ledger.set_budget("test", twice, 1e-6)
    ledger.reserve("a", alone())
    ledger.reserve("b", alone())
    with pytest.raises(TooWeak, match=r"would bring 'test' from ε = .* above the budget .*; nothing was collected\.$"):
        ledger.reserve("c", alone())
    ledger.reserve("c", alone(population="elsewhere"))
    (standing,) = ledger.standings("test")
    assert [entry.id for entry in standing.entries] == ["a", "b"]
    assert standing.left == 0.0
    assert standing.epsilon == twice


def test_a_reservation_can_be_forgotten_and_a_release_cannot(tmp_path: Path) -> None:
    """What was given cannot be taken back."""
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.set_budget("test", alone().value.upper * 1.01, 1e-6)
    ledger.reserve("a", alone())
    ledger.reserve("a", alone())  # a run that goes on
    with pytest.raises(TooWeak):
        ledger.reserve("b", alone())
    ledger.forget("a")
    ledger.reserve("b", alone())
    ledger.release("b")
    ledger.release("b")
    with pytest.raises(ValueError, match="cannot be taken back"):
        ledger.forget("b")
    with pytest.raises(ValueError, match="there is no collection z"):
        ledger.forget("z")
    with pytest.raises(ValueError, match="expected the collection z"):
        ledger.release("z")


def test_reading_creates_nothing(tmp_path: Path) -> None:
    """Looking at a ledger that is not there leaves it so; a file that is no ledger is a sentence."""
    ledger = Ledger(tmp_path / "ledger.sqlite")
    assert ledger.standings() == []
    with pytest.raises(ValueError, match="there is no ledger"):
        ledger.forget("a")
    assert everything_under(tmp_path) == []
    (tmp_path / "text.sqlite").write_text("not a ledger at all" * 100)
    with pytest.raises(ValueError, match=r"^ledger: cannot use .*\.$"):
        Ledger(tmp_path / "text.sqlite").standings()
    with pytest.raises(ValueError, match="epsilon must be above 0"):
        ledger.set_budget("test", 0.0, 1e-6)


def spend(path: Path, name: str, begin: Any, results: Any) -> None:
    """Try to reserve one round, at the same moment as others do."""
    begin.wait(60)
    try:
        Ledger(path).reserve(name, alone())
        results.put("reserved")
    except TooWeak:
        results.put("refused")


def test_two_runs_at_once_cannot_both_spend_a_budget(tmp_path: Path) -> None:
    """Of four processes that try at the same time, exactly as many succeed as the budget allows: one."""
    path = tmp_path / "ledger.sqlite"
    Ledger(path).set_budget("test", alone().value.upper * 1.5, 1e-6)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.collection.test_ledger"])
    begin, results = context.Barrier(4), context.Queue()
    processes = [context.Process(target=spend, args=(path, str(number), begin, results)) for number in range(4)]
    for process in processes:
        process.start()
    answers = sorted(results.get(timeout=120) for _ in processes)
    for process in processes:
        process.join(60)
    assert answers == ["refused", "refused", "refused", "reserved"]
    (standing,) = Ledger(path).standings()
    assert len(standing.entries) == 1


def test_a_look_waits_for_nobody_and_sees_whole_entries(tmp_path: Path) -> None:
    """While another run is at the ledger, what is committed can be read."""
    path = tmp_path / "ledger.sqlite"
    ledger = Ledger(path)
    ledger.reserve("a", alone())
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("DELETE FROM collection")
    (standing,) = ledger.standings()
    assert [entry.id for entry in standing.entries] == ["a"]
    other.execute("ROLLBACK")
    other.close()


def test_a_refused_collection_leaves_nothing(tmp_path: Path) -> None:
    """Neither output nor entry; and one that misses the target is not even asked for at the ledger."""
    path = write_table(tmp_path / "data.parquet", value=data_of("krr", USERS))
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.set_budget("test", alone().value.upper / 2, 1e-6)
    before = everything_under(tmp_path)
    request = Request(alone().plan, FileTable(path), "value", tmp_path / "out", ledger.path)
    with pytest.raises(TooWeak, match="above the budget"):
        run(request, engine_of("embedded"))
    assert everything_under(tmp_path) == before
    assert ledger.standings("test")[0].entries == ()


@pytest.mark.parametrize("rounds", [1, 5])
def test_too_few_users_are_noticed_before_anything_is_released(tmp_path: Path, rounds: int) -> None:
    """The ε that was really achieved is named; --allow-weaker releases it, and the report says so."""
    path = write_table(tmp_path / "data.parquet", value=data_of("krr", 400))
    target = Guarantee(plan_of("krr", users=3000, rounds=rounds), 3000).epsilon
    plan = plan_of("krr", users=3000, epsilon=target * 1.0001, rounds=rounds)
    achieved = Guarantee(plan, 400).epsilon
    assert achieved > plan.epsilon
    request = Request(plan, FileTable(path), "value", tmp_path / "out", tmp_path / "ledger.sqlite")
    with pytest.raises(TooWeak, match=rf"400 users took part where 3000 were planned.*ε = {achieved:.6g}"):
        run(request, engine_of("embedded"))
    assert everything_under(tmp_path) == ["data.parquet"]
    weaker = Request(plan, FileTable(path), "value", tmp_path / "out", tmp_path / "ledger.sqlite", allow_weaker=True)
    report = run(weaker, engine_of("embedded"))
    document = report.document()
    assert document["users"] == 400
    assert document["guarantee"]["target_met"] is False
    assert document["guarantee"]["epsilon"]["upper"] == amplify(plan.mechanism, 400).epsilon(1e-6).upper
    assert "WEAKER" in document["statement"]
    assert ("Over 5 such rounds" in document["statement"]) == (rounds == 5)


def test_a_bound_that_is_no_guarantee_is_refused(tmp_path: Path) -> None:
    """The published formula may be planned with, but not collected under."""
    path = write_table(tmp_path / "data.parquet", value=data_of("krr", 400))
    plan = plan_of("krr", users=400, bound="variation-ratio-published")
    with pytest.raises(ValueError, match="is no guarantee"):
        run(Request(plan, FileTable(path), "value", tmp_path / "out", None), engine_of("embedded"))
    assert everything_under(tmp_path) == ["data.parquet"]


OLD_TABLES = """
CREATE TABLE collection (
    id TEXT PRIMARY KEY, state TEXT NOT NULL, started TEXT NOT NULL, released TEXT, population TEXT NOT NULL,
    task TEXT NOT NULL, mechanism TEXT NOT NULL, epsilon_local REAL, settings TEXT NOT NULL,
    users INTEGER NOT NULL, bound TEXT NOT NULL, epsilon REAL NOT NULL, delta REAL NOT NULL);
CREATE TABLE budget (population TEXT PRIMARY KEY, epsilon REAL NOT NULL, delta REAL NOT NULL);
INSERT INTO collection VALUES ('old', 'released', '2026-01-01T00:00:00+00:00', '2026-01-01T00:01:00+00:00', 'test',
    'frequency', 'krr', 2.0, '{"options": 4}', 5000, 'best', 0.1, 1e-06);
"""
"""A ledger from before versions were written down."""


def test_a_ledger_without_versions_still_works(tmp_path: Path) -> None:
    """It is read as it is; a new entry says which version collected, and the old ones count as before."""
    path = tmp_path / "ledger.sqlite"
    with sqlite3.connect(path) as connection:
        connection.executescript(OLD_TABLES)
    connection.close()
    before = path.read_bytes()
    (standing,) = Ledger(path).standings(delta=1e-6)
    assert [(entry.id, entry.software) for entry in standing.entries] == [("old", None)]
    alone_before = amplify(KRR(epsilon=2.0, options=4), 5000).epsilon(1e-6).upper
    assert standing.epsilon == alone_before
    assert path.read_bytes() == before
    ledger = Ledger(path)
    ledger.reserve("new", alone())
    ledger.release("new")
    (standing,) = Ledger(path).standings(delta=1e-6)
    assert [(entry.id, entry.software) for entry in standing.entries] == [("old", None), ("new", __version__)]
    assert standing.epsilon > alone_before
    assert standing_document(standing)["collections"][1]["software"] == __version__


def test_a_mechanism_is_amplified_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checking the target, asking the budget and telling what was spent share one curve."""
    path = write_table(tmp_path / "data.parquet", value=data_of("krr", USERS))
    built: list[Any] = []

    def counted(*arguments: Any, **named: Any) -> Any:
        built.append(arguments)
        return amplify(*arguments, **named)

    monkeypatch.setattr("shuffledp.collection.guarantee.amplify", counted)
    monkeypatch.setattr("shuffledp.collection.ledger.amplify", counted)
    Ledger(tmp_path / "ledger.sqlite").set_budget("test", 10.0, 1e-6)
    collect(alone().plan, path, "value", out=tmp_path / "out", ledger=tmp_path / "ledger.sqlite")
    assert len(built) == 1
