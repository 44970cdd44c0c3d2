"""A search collected: all rounds by one call, the roles apart, the ledger, and what is killed goes on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import shuffledp as sdp
from shuffledp._core.errors import GuaranteeTooWeak
from shuffledp.collection import Ledger, encode, estimate, shuffle
from shuffledp.collection.engine import Engine
from shuffledp.collection.report import NEXT_PLAN_FILE, Report
from shuffledp.ledger.collection_guarantee import Guarantee
from shuffledp.planning.plan import Plan
from shuffledp.tasks import HeavyHitters, HittersAtOnce
from tests.collection import new_ledger

pytestmark = pytest.mark.usefixtures("no_pictures")

USERS, ROUNDS = 4000, 4
WORDS = {"apple": 1500, "pear": 900, "дом": 700, "日": 400, "a\x1b": 300}
COLUMN = pa.array([word for word, held in WORDS.items() for _ in range(held)] + [f"w{n}" for n in range(200)])


def plan_of(honest: int = USERS, rounds: int = ROUNDS) -> Plan:
    asked = HeavyHitters(strings=12, reach=40, room=2048, keep=60.0, show=80.0, rounds=rounds)
    mechanism = sdp.PoissonDUMP(2048, 40.0, honest)
    return Plan(asked, mechanism, users=USERS, epsilon=3.0, delta=1e-6, rounds=rounds, population="test")


def at_once() -> Plan:
    asked = HittersAtOnce(strings=12, reach=40, room=2048, step=5, keep=90.0)
    mechanism = sdp.PoissonTables(**asked.mechanism_settings, mean=120.0, honest=USERS)
    return Plan(asked, mechanism, users=USERS, epsilon=3.0, delta=1e-6, population="test")


def demand_words(report: Report) -> None:
    (found,) = report.quantities
    assert found.labels == ("apple", "pear", "дом", "日", "a\\u001b")
    assert found.standard_error is not None
    # Six standard deviations, and more than four people who share a bucket.
    assert (np.abs(found.value - list(WORDS.values())) < 6 * found.standard_error + 20).all()
    assert found.low is not None
    assert (found.low < found.value).all()


def test_all_rounds_by_one_call(tmp_path: Path) -> None:
    """Each round is in the ledger by itself; all together are what the plan promised."""
    ledger = new_ledger(tmp_path / "ledger.sqlite")
    report = sdp.collect(plan_of(), COLUMN, out=tmp_path / "out", ledger=ledger.path)
    demand_words(report)
    assert report.guarantee.is_target_met
    (standing,) = ledger.budget_statuses("test", 1e-6)
    assert len(standing.entries) == ROUNDS
    assert standing.epsilon == report.guarantee.epsilon <= 3.0
    # Whoever came to one round only has given what its own entry says.
    assert {entry.epsilon for entry in standing.entries} == {report.guarantee.value.upper}
    assert report.guarantee.value.upper < 0.75 * report.guarantee.epsilon
    assert f"ε of all {ROUNDS} rounds" in str(report)
    told = json.loads((tmp_path / "out" / "report.json").read_text("utf-8"))
    assert [row["label"] for row in told["estimates"]] == list(report.quantities[0].labels)
    assert told["plan"]["task"]["round"] == ROUNDS
    assert not (tmp_path / "out" / f"round-{ROUNDS}" / NEXT_PLAN_FILE).exists()
    with pytest.raises(ValueError, match="already holds a finished collection"):
        sdp.collect(plan_of(), COLUMN, out=tmp_path / "out", ledger=ledger.path, resume=True)


@pytest.mark.exhaustive
def test_in_one_round(tmp_path: Path) -> None:
    demand_words(sdp.collect(at_once(), COLUMN, out=tmp_path / "out"))


def test_every_engine_asks_on(tmp_path: Path, engine: Engine) -> None:
    """Two rounds: what the second asks depends on the first."""
    asked = HeavyHitters(bits=10, room=64, keep=60.0, show=60.0, rounds=2)
    mechanism = sdp.PoissonDUMP(64, 30.0, 1000)
    plan = Plan(asked, mechanism, users=1000, epsilon=4.0, delta=1e-4, rounds=2)
    report = sdp.collect(plan, pa.array([5, 1000] * 500), out=tmp_path / "out", engine=engine)
    assert set(report.quantities[0].labels) == {"5", "1000"}


def test_the_roles_apart(tmp_path: Path) -> None:
    """Every round has a plan, which the round before wrote; messages of another round's plan are refused."""
    plan = plan_of(honest=0)
    for number in range(1, ROUNDS + 1):
        place = tmp_path / str(number)
        place.mkdir()
        with pytest.raises(ValueError, match=f"for round {number} of {ROUNDS}, got round {number % ROUNDS + 1}"):
            encode(plan, COLUMN, out=place / "ours", round_number=number % ROUNDS + 1)
        encode(plan, COLUMN, out=place / "ours", round_number=number)
        shuffle([place / "ours"], out=place / "shuffled", plan=plan, round_number=number)
        if number > 1:
            with pytest.raises(ValueError, match="made for another plan or round"):
                estimate(plan, tmp_path / "1" / "shuffled", out=place / "no", round_number=number)
        report = estimate(plan, place / "shuffled", out=place / "result", round_number=number)
        if number < ROUNDS:
            plan = Plan.load(place / "result" / NEXT_PLAN_FILE)
    demand_words(report)


def test_a_search_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds that are finished are not asked again, and one that was begun is not drawn again."""
    out = tmp_path / "out"
    begun: list[str] = []
    settle = Ledger.settle

    def dies(self: Ledger, id_: str, guarantee: Guarantee, digest: str) -> None:
        begun.append(digest)
        if len(begun) == 2:
            raise KeyboardInterrupt
        settle(self, id_, guarantee, digest)

    ledger = new_ledger(tmp_path / "ledger.sqlite")
    monkeypatch.setattr(Ledger, "settle", dies)
    with pytest.raises(KeyboardInterrupt):
        sdp.collect(plan_of(), COLUMN, out=out, ledger=ledger.path)
    with pytest.raises(ValueError, match="holds an unfinished search; continue with resume=True"):
        sdp.collect(plan_of(), COLUMN, out=out, ledger=ledger.path)
    with pytest.raises(ValueError, match="the input is not the one that the search"):
        sdp.collect(plan_of(), COLUMN.slice(1), out=out, ledger=ledger.path, resume=True)
    with pytest.raises(ValueError, match="the plan is not the one that the search"):
        sdp.collect(plan_of(rounds=2), COLUMN, out=out, ledger=ledger.path, resume=True)
    demand_words(sdp.collect(plan_of(), COLUMN, out=out, ledger=ledger.path, resume=True))
    assert begun[1] == begun[2]
    assert len(set(begun)) == ROUNDS
    assert len(ledger.budget_statuses("test", 1e-6)[0].entries) == ROUNDS


def test_a_budget_must_have_room_for_all_rounds(tmp_path: Path) -> None:
    """Or nothing is asked at all."""
    ledger = new_ledger(tmp_path / "ledger.sqlite")
    ledger.set_budget("test", 1.5, 1e-6)
    with pytest.raises(GuaranteeTooWeak, match=r"4 rounds .* nothing was collected"):
        sdp.collect(plan_of(), COLUMN, out=tmp_path / "out", ledger=ledger.path)
    assert ledger.budget_statuses("test", 1e-6)[0].entries == ()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("")
    with pytest.raises(ValueError, match="expected a new or empty directory"):
        sdp.collect(plan_of(), COLUMN, out=tmp_path / "other")


def test_nothing_found_is_a_report(tmp_path: Path) -> None:
    """Nothing survives the first round: the search is over, and nothing more is spent."""
    ledger = new_ledger(tmp_path / "ledger.sqlite")
    letters = np.random.default_rng(2).choice(list("etaoinshrdlu"), (USERS, 10))
    nobody = pa.array(["".join(row) for row in letters])
    report = sdp.collect(plan_of(), nobody, out=tmp_path / "out", ledger=ledger.path)
    (found,) = report.quantities
    assert found.labels == ()
    assert len(ledger.budget_statuses("test", 1e-6)[0].entries) == 1
    assert report.largest_error() == 0.0
    assert "Collection: heavy hitters" in str(report)
