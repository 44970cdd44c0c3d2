"""A survey of three questions from end to end: every engine, the roles apart, one report; and intervals that hold."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shuffledp as sdp
from shuffledp.collection.collect import CollectionRequest, run_collection
from shuffledp.collection.engine import Engine
from shuffledp.collection.input.tables import open_input
from shuffledp.collection.report import GuaranteeText
from shuffledp.ledger.collection_guarantee import Guarantee
from shuffledp.ledger.ledger import Ledger

ROWS = 3000
CITIES = ("Rome", "Oslo", "Bern")
SURVEY = sdp.tasks.Survey(
    [
        ("city", sdp.tasks.Frequency(CITIES), 0.5),
        ("age", sdp.tasks.Mean(0, 120), 0.3),
        ("member", sdp.tasks.Count(), 0.2),
    ]
)
SPLIT = sdp.SplitAndMix(**next(sdp.SplitAndMix.designs({"dimension": 1, "users": ROWS}, ROWS, 2.0, 1e-6, 1)))
MADE = {
    "drawn": sdp.Parallel([sdp.KRR(3.0, 3), sdp.Piecewise(3.0), sdp.Duchi(3.0, 1)], SURVEY.shares),
    "local": sdp.AllAnswered([sdp.KRR(3.0, 3), sdp.Piecewise(3.0), sdp.Duchi(3.0, 1)]),
    "shuffler": sdp.AllAnswered([sdp.CancellingNoise(3, rate=0.2, shape=12.0, ratio=0.95, honest=ROWS), SPLIT, SPLIT]),
    "noise": sdp.AllAnswered([sdp.CancellingNoise(3, rate=0.2, shape=12.0, ratio=0.95, honest=0), SPLIT, SPLIT]),
}


def people() -> pa.Table:
    rng = np.random.default_rng(3)
    return pa.table(
        {
            "member": np.where(rng.random(ROWS) < 0.35, "yes", "no"),
            "age": rng.integers(0, 100, ROWS),
            "city": np.array(CITIES)[rng.choice(3, ROWS, p=[0.5, 0.3, 0.2])],
        }
    )


def truth(data: pa.Table) -> dict[tuple[str, str], float]:
    city, age, member = (np.array(data[name].to_pylist()) for name in ("city", "age", "member"))
    counts = {("city", name): float((city == name).sum()) for name in CITIES}
    return {**counts, ("age", "mean"): float(age.mean()), ("member", "yes"): float((member == "yes").sum())}


def plan_of(name: str) -> sdp.Plan:
    return sdp.Plan(SURVEY, MADE[name], users=ROWS, epsilon=9.0, delta=1e-4)


@pytest.mark.parametrize("name", ["drawn", "noise"])
def test_every_engine_collects_a_survey(name: str, engine: Engine, tmp_path: Path) -> None:
    """Five numbers, two inputs: beyond 7 standard errors, or as many of such noise, once in 1e8."""
    data = people()
    pq.write_table(data, tmp_path / "data.parquet")
    ledger = Ledger.create(tmp_path / "ledger.sqlite")
    table, names = open_input(tmp_path / "data.parquet"), SURVEY.resolve_columns(())
    report = run_collection(CollectionRequest(plan_of(name), table, names, tmp_path / "out", ledger.path), engine)
    known = truth(data)
    for row in json.loads((tmp_path / "out" / "report.json").read_text())["estimates"]:
        assert abs(row["estimate"] - known[row["question"], row["label"]]) < 12 * row["standard_error"]
    with open(tmp_path / "out" / "estimates.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["question"] for row in rows] == ["city"] * 3 + ["age", "member"]
    told = (tmp_path / "out" / "report.md").read_text()
    assert all(f"### {question}" in told for question in SURVEY.names)
    assert (tmp_path / "out" / "estimates.png").exists()
    spent = Ledger(ledger.path).budget_statuses("everyone", 1e-4)[0].epsilon
    assert report.guarantee.value.upper <= spent * (1 + 1e-9) <= report.guarantee.value.upper * 1.01


def test_the_roles_apart(tmp_path: Path) -> None:
    plan, data = plan_of("noise"), people()
    for number, part in enumerate((data.slice(0, 1000), data.slice(1000))):
        sdp.collection.encode(plan, part, out=tmp_path / f"{number}.messages")
    files = [tmp_path / "0.messages", tmp_path / "1.messages"]
    sdp.collection.shuffle(files, out=tmp_path / "shuffled", plan=plan)
    report = sdp.collection.estimate(plan, tmp_path / "shuffled", out=tmp_path / "out")
    found = {(one.question, label): one for one in report.quantities for label in one.labels}
    for (question, label), value in truth(data).items():
        one = found[question, label]
        place = one.labels.index(label)
        assert one.standard_error is not None
        assert abs(one.value[place] - value) < 12 * one.standard_error[place]
    assert "does not matter" not in report.statement()
    assert report.errors().keys() == {"city", "age", "member"}
    assert "city: Rome" in str(report)


@pytest.mark.exhaustive
def test_the_local_promise_is_of_all_that_is_sent() -> None:
    for name, words in (
        ("drawn", "Each message alone has local ε = 3"),
        ("local", "All messages of a user together have local ε = 9"),
    ):
        plan = plan_of(name)
        assert plan.mechanism.local_epsilon == pytest.approx(float(words.split()[-1]))
        told = str(GuaranteeText(Guarantee(plan, ROWS), "", "", 0, None))
        assert f"{words}, even against the shuffler." in told


@pytest.mark.exhaustive("local", "noise", "shuffler")
@pytest.mark.parametrize("name", list(MADE))
def test_truths_are_within_their_intervals(name: str) -> None:
    """500 collections of five numbers, of which those of one question hang together: as if three were independent.

    1,500 of them are off 95% by 3 points once in 1e7. That a mean's own spread is taken as noise, and that noise comes
    in whole numbers, makes intervals hold a little more: 97% at the most.
    """
    made, data = MADE[name], people()
    column = plan_of(name).column(*SURVEY.resolve_columns(()))
    rows = data.select(list(column.names)).combine_chunks().to_batches()[0]
    values, known = column.read_values(column.join_columns(rows)), truth(data)
    rng, inside = np.random.default_rng(5), []
    for _ in range(500):
        total: Any = made.accumulate(made.randomize(values, sdp_source(rng)))
        drawn = made.draw_shuffler_messages(sdp_source(rng))
        total = total if drawn is None else total + made.accumulate(drawn)
        for one in SURVEY.quantities(made, made.finish(total, ROWS), 0.95):
            assert one.low is not None
            assert one.high is not None
            right = np.array([known[one.question, label] for label in one.labels])
            inside += list((one.low <= right) & (right <= one.high))
    assert 0.92 < np.mean(inside) < 0.98


def sdp_source(rng: np.random.Generator) -> Any:
    from shuffledp.sampling.random_sources import resolve_source

    return resolve_source(rng)
