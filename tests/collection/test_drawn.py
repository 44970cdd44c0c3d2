"""Collections of a secret sample: drawn from the job's key, the same on both engines, or taken as it was drawn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from shuffledp_verify import Verdict

from shuffledp import collection
from shuffledp._core.errors import GuaranteeTooWeak
from shuffledp.bounds.participation import SAMPLING_SECRECY_CONDITION, Participation
from shuffledp.certificates.claim import read_claim, verify
from shuffledp.collection import resumable_job as jobs
from shuffledp.collection.collect import InputChanged, collect
from shuffledp.collection.engine import Engine
from shuffledp.collection.input.files import FileTable
from shuffledp.collection.input.table_views import RowsPerUserTable, SampledTable
from shuffledp.collection.message_files import Manifest
from shuffledp.ledger.collection_guarantee import CurveInputs, Guarantee
from shuffledp.planning.plan import Plan
from shuffledp.statement import NONRESPONSE_CONDITION
from shuffledp.testing.engines import KEY, read_messages
from tests.cli import run
from tests.collection import expected_messages, new_ledger, random_column, small_plan, write_table

# A dozen collections by three plans.
pytestmark = pytest.mark.usefixtures("each_curve_once", "no_pictures")

ROWS = 3000
FIXED: dict[str, Any] = {"users": 300, "out_of": ROWS}
COINS: dict[str, Any] = {"users": 300, "out_of": ROWS, "rate": "10%"}
SAMPLES = pytest.mark.parametrize("sample", [FIXED, COINS], ids=["fixed", "coins"])


def sampled_plan(sample: dict[str, Any], **changes: Any) -> Plan:
    return small_plan("krr", **(sample | changes))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_table(tmp_path / "data.parquet", value=random_column("krr", ROWS))


def drawn_values(plan: Plan, table: Path, key: bytes) -> list[str]:
    """The values of those who are drawn, looked up another way."""
    drawn = SampledTable.draw(FileTable(table), ROWS, plan.participation, key)
    marks = np.unpackbits(drawn.selection.bits, count=ROWS, bitorder="little").astype(bool)
    values: list[str] = np.array(pq.read_table(table)["value"].to_pylist())[marks].tolist()
    return values


@pytest.mark.exhaustive
@SAMPLES
def test_the_messages_are_those_of_who_was_drawn(
    engine: Engine, sample: dict[str, Any], table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every engine encodes the same people for the same key, and nobody else."""
    monkeypatch.setattr(jobs.os, "urandom", lambda count: KEY[:count])
    plan = sampled_plan(sample)
    report = collect(plan, table, "value", out=tmp_path / "out", engine=engine)
    values = drawn_values(plan, table, KEY)
    assert report.guarantee.users == len(values) == Manifest.read(tmp_path / "out" / "messages").users
    numbers = plan.column("value").read_values(pa.array(values))
    wanted = sorted(row.tobytes() for row in expected_messages(plan.mechanism, numbers, KEY))
    assert read_messages(tmp_path / "out" / "messages", plan.mechanism.message_bytes) == wanted


@pytest.mark.exhaustive
@SAMPLES
def test_the_report_states_the_condition(sample: dict[str, Any], table: Path, tmp_path: Path) -> None:
    """JSON, words and the ledger: out of how many, and what is left if it is known."""
    plan = sampled_plan(sample, rounds=2 if sample is FIXED else 1)
    new_ledger(tmp_path / "ledger")
    report = collect(plan, table, "value", out=tmp_path / "out", ledger=tmp_path / "ledger")
    told = json.loads((tmp_path / "out" / "report.json").read_text("utf-8"))["guarantee"]
    assert (told["of"], told["condition"]) == (ROWS, SAMPLING_SECRECY_CONDITION)
    assert told.get("rate") == ("0.1" if sample is COINS else None)
    schedule = plan.participation
    alone = schedule.single_round().curve(plan.mechanism, effort="quick").epsilon(1e-6).upper
    assert told["without_certificate"]["upper"] == alone <= told["epsilon"]["upper"] <= alone * 1.02
    came = Participation(report.guarantee.users, rounds=schedule.rounds)
    known = came.curve(plan.mechanism, effort="quick").epsilon(1e-6).upper
    assert told["if_known"]["epsilon_all_rounds"] == pytest.approx(known)
    assert known > told["epsilon_all_rounds"]
    statement = report.statement()
    assert f"This {SAMPLING_SECRECY_CONDITION}; if it is known, a user who was drawn has ε = " in statement
    assert ("and over 2 rounds ε = " in statement) == (sample is FIXED)
    assert "condition" in dict(report.summary())
    (entry,) = report.budget_status.entries if report.budget_status is not None else ()
    assert (entry.document()["of"], entry.document().get("rate")) == (ROWS, told.get("rate"))
    assert CurveInputs.from_document(entry.recipe.to_document()) == entry.recipe
    claim = read_claim(tmp_path / "out" / "certificate.json")
    assert f"one of {ROWS} people changes the shuffled messages of 1 round, in which" in claim.statement
    # Its proof looks at fewer sizes of the sample, which costs most where few are drawn by coins.
    assert told["epsilon"]["upper"] <= claim.epsilon <= told["epsilon"]["upper"] * (1.02 if sample is COINS else 1.005)
    assert verify(claim).verdict is Verdict.YES
    shown = run("ledger", "show", "--ledger", str(tmp_path / "ledger")).out
    assert "300 of 3,000" in shown
    assert ("by coins" in shown) == (sample is COINS)


def test_a_ledger_tells_who_stayed_away() -> None:
    """In one cell: who came, out of how many, by which coins, who was drawn in vain, and who hides nobody."""
    recipe = CurveInputs("{}", 900, "best", colluding=5, sampled_from=20_000, fixed_sample_size=1000, failure=1e-7)
    assert recipe.format_participants() == "900 of 20,000 came, 100 drawn stayed away (5 colluding)"
    coins = CurveInputs("{}", 900, "best", sampled_from=20_000, rate="0.0225")
    assert coins.format_participants() == "900 of 20,000 by coins of 2.25%"
    assert CurveInputs("{}", 90_000, "best").format_participants() == "90,000"


@pytest.mark.exhaustive
def test_the_share_is_that_of_the_rows_that_are_there(table: Path, tmp_path: Path) -> None:
    """300 out of 3,000 where 6,000 were planned is a larger share: refused, unless that was allowed."""
    plan = sampled_plan(FIXED | {"out_of": 2 * ROWS}, epsilon=0.045)
    assert Guarantee(plan, 300, 1, 2 * ROWS).is_target_met
    with pytest.raises(GuaranteeTooWeak, match="300 users took part out of 3000 where 300 were planned"):
        collect(plan, table, "value", out=tmp_path / "out")
    report = collect(plan, table, "value", out=tmp_path / "out", allow_weaker=True)
    assert report.guarantee.participation == Participation(300, ROWS)


@pytest.mark.exhaustive
@SAMPLES
def test_a_sample_that_was_drawn(sample: dict[str, Any], tmp_path: Path) -> None:
    """Nobody is drawn again, and those who came decide what is promised."""
    plan = sampled_plan(sample)
    table = write_table(tmp_path / "drawn.parquet", value=random_column("krr", 290))
    report = collect(plan, table, "value", out=tmp_path / "out", drawn=True)
    assert report.guarantee.users == 290
    assert report.guarantee.participation == plan.participation.with_respondents(290, plan.delta)
    recipe = report.guarantee.curve_inputs
    assert (recipe.users, recipe.fixed_sample_size) == ((290, 300) if sample is FIXED else (290, None))
    told = json.loads((tmp_path / "out" / "report.json").read_text("utf-8"))["guarantee"]
    assert (told["came"], told["failure"]) == (290, plan.delta / 2)
    assert NONRESPONSE_CONDITION in told["conditions"]
    assert not (tmp_path / "out" / "certificate.json").exists()
    few = Guarantee(plan, 30)
    assert (few.curve_inputs.users, few.curve_inputs.sampled_from) == (30, ROWS)
    assert few.value.upper > report.guarantee.value.upper


def test_one_row_of_a_sample_is_one_person(tmp_path: Path) -> None:
    """A plan of 36 who come on average, and a table of one row: refused, with what that would promise."""
    plan = sampled_plan({"users": 36, "out_of": 360, "rate": "0.1"}, epsilon=0.12)
    table = write_table(tmp_path / "one.parquet", value=random_column("krr", 1))
    with pytest.raises(
        GuaranteeTooWeak, match=r"1 users took part out of 360 where 36 were planned.*plan again with minimum"
    ):
        collect(plan, table, "value", out=tmp_path / "out", drawn=True)
    report = collect(plan, table, "value", out=tmp_path / "out", drawn=True, allow_weaker=True)
    assert report.guarantee.value.upper == pytest.approx(plan.mechanism.local_epsilon, rel=1e-6)
    assert report.guarantee.epsilon_if_sample_known == pytest.approx(plan.mechanism.local_epsilon, rel=1e-6)


def test_only_plans_of_samples_take_one(table: Path, tmp_path: Path) -> None:
    """One sentence, and nothing is written."""
    with pytest.raises(ValueError, match="collect: drawn is for plans whose users are drawn"):
        collect(small_plan("krr"), table, "value", out=tmp_path / "out", drawn=True)
    assert not (tmp_path / "out").exists()


def test_coins_that_draw_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is collected, and nothing is left behind."""
    plan = sampled_plan({"users": 1, "out_of": 2, "rate": "0.5"}, epsilon=9.0)
    table = write_table(tmp_path / "data.parquet", value=random_column("krr", 2))
    for number in range(256):
        key = number.to_bytes(32, "big")
        try:
            SampledTable.draw(FileTable(table), 2, plan.participation, key)
        except ValueError:
            break
    monkeypatch.setattr(jobs.os, "urandom", lambda count: key[:count])
    with pytest.raises(InputChanged, match="the coin flips drew nobody"):
        collect(plan, table, "value", out=tmp_path / "out", allow_weaker=True)
    assert not (tmp_path / "out").exists()


@pytest.mark.exhaustive
def test_rows_of_users_are_bounded_before_they_are_drawn(tmp_path: Path) -> None:
    """A person with several rows is one of those who may be drawn."""
    users = pa.array([row // 2 for row in range(ROWS)])
    path = write_table(tmp_path / "data.parquet", value=random_column("krr", ROWS), user=users)
    plan = sampled_plan(FIXED | {"out_of": ROWS // 2})
    bounded = RowsPerUserTable(FileTable(path), "user", 1)
    drawn = SampledTable.draw(bounded, ROWS // 2, plan.participation, KEY)
    assert sum(len(batch) for batch in drawn.batches(plan.column("value"), 100)) == 300 == drawn.sample_size
    report = collect(plan, path, "value", out=tmp_path / "out", user="user")
    assert report.guarantee.participation == Participation(300, ROWS // 2)


@pytest.mark.exhaustive
def test_encoders_toss_coins_and_draw_no_fixed_number(table: Path, tmp_path: Path) -> None:
    """Who sees only some cannot draw a fixed number of all; the estimator's guarantee is that of the sample."""
    plan = sampled_plan(COINS)
    users = collection.encode(plan, table, "value", out=tmp_path / "coins.messages")
    assert 200 < users < 400
    collection.shuffle([tmp_path / "coins.messages"], out=tmp_path / "shuffled", plan=plan)
    report = collection.estimate(plan, tmp_path / "shuffled", out=tmp_path / "out")
    assert (report.guarantee.users, report.guarantee.participation) == (
        users,
        plan.participation.with_respondents(users, 1e-6),
    )
    with pytest.raises(ValueError, match="add drawn=True"):
        collection.encode(sampled_plan(FIXED), table, "value", out=tmp_path / "fixed.messages")
    few = write_table(tmp_path / "few.parquet", value=random_column("krr", 300))
    assert collection.encode(sampled_plan(FIXED), few, "value", out=tmp_path / "fixed.messages", drawn=True) == 300


def test_the_command(table: Path, tmp_path: Path) -> None:
    """``collect`` draws, ``--drawn`` does not; exit codes and JSON."""
    path = tmp_path / "plan.json"
    sampled_plan(FIXED).save(path)
    given = ("collect", str(path), "--input", str(table), "--column", "value", "--no-ledger")
    outcome = run(*given, "--out", str(tmp_path / "one"), "--json")
    document = json.loads(outcome.out)
    assert (outcome.status, document["users"], document["guarantee"]["of"]) == (0, 300, ROWS)
    outcome = run(*given, "--out", str(tmp_path / "two"), "--drawn")
    assert outcome.status == 0
    assert "3,000 of 300 planned" in outcome.out
    assert "drawn " not in outcome.out
    small_plan("krr").save(path)
    outcome = run(*given, "--out", str(tmp_path / "three"), "--drawn")
    assert (outcome.status, outcome.err) == (
        2,
        "shuffledp: collect: --drawn is for plans whose users are drawn out of more people (--of).\n",
    )
