"""``ask``: ranges and quantiles of a released collection, as they are typed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import shuffledp as sdp
from tests.cli import run

# One collection is asked many questions.
pytestmark = pytest.mark.usefixtures("each_curve_once", "no_pictures")

DAYS = [f"2024-05-{day:02}" for day in range(1, 32)]


def collected(directory: Path, task: sdp.tasks.Task, mechanism: sdp.Mechanism, rows: list[object]) -> sdp.Report:
    plan = sdp.Plan(task, mechanism, users=len(rows), epsilon=20.0, delta=1e-3)
    return sdp.collect(plan, pa.array(rows), out=directory)


@pytest.fixture(autouse=True)
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.exhaustive
def test_ranges_and_quantiles_of_a_tree(room: Path) -> None:
    """As many as are typed, both ends included; numbers are those of the report in Python."""
    values = (np.arange(3000) ** 2 % 64).tolist()
    report = collected(room / "out", sdp.tasks.Ranges(64), sdp.RangeTree(64, 30.0, 3000), values)
    outcome = run("ask", "out", "--range", "5", "20", "--range", "0", "63", "--quantile", "0.5", "--quantile", "0.9")
    assert (outcome.status, outcome.err) == (0, "")
    assert "From 5 up to and including 20" in outcome.out
    assert "3,000  (3,000 … 3,000)" in outcome.out
    assert "Quantile 0.9" in outcome.out
    told = json.loads(run("ask", "out", "--range", "5", "20", "--quantile", "0.5", "--json").out)
    few, middle = told["answers"]
    assert few == report.range(5, 20).document()
    assert middle == report.quantile(0.5).document()
    truth = sum(5 <= value <= 20 for value in values)
    assert abs(few["estimate"] - truth) < 6 * few["standard_error"]
    wider = json.loads(run("ask", "out", "--range", "5", "20", "--confidence", "0.999", "--json").out)["answers"][0]
    assert wider["low"] < few["low"] < few["high"] < wider["high"]


@pytest.mark.parametrize(
    "mechanism",
    [
        sdp.KRR(9.0, 31),
        sdp.PureDUMP(31),
        sdp.RangeQueries(9.0, 5),
        sdp.CancellingTree(31, 0.9, 20.0, 0.6, 0, fan_out=6),
    ],
    ids=lambda m: m.name,
)
def test_labels_of_the_domain(room: Path, mechanism: sdp.Mechanism) -> None:
    """Flat mechanisms and trees alike; days by their names."""
    rows: list[object] = [DAYS[k * k % 31] for k in range(2000)]
    collected(room / "out", sdp.tasks.Ranges(DAYS), mechanism, rows)
    told = json.loads(run("ask", "out", "--range", "2024-05-05", "2024-05-20", "--quantile", "0.25", "--json").out)
    few, quarter = told["answers"]
    truth = sum("2024-05-05" <= str(day) <= "2024-05-20" for day in rows)
    assert abs(few["estimate"] - truth) <= 6 * few["standard_error"]
    assert quarter["low"] <= quarter["value"] <= quarter["high"]
    assert quarter["value"] in DAYS


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        (("--range", "20", "5"), "ask: a range goes from the first to the last value, got 20 after 5."),
        (("--range", "5", "64"), "ask: expected a whole number from 0 to 63, got '64'."),
        (("--range", "5"), "ask: --range takes the first and the last value, got 5."),
        (("--quantile", "1.5"), "ask: a quantile must be"),
        (("--confidence", "2", "--range", "1", "2"), "expected a share below the whole, such as 95% or 0.95"),
        ((), "ask: expected --range FIRST LAST or --quantile SHARE, got neither."),
    ],
)
def test_bad_questions_are_a_sentence(room: Path, typed: tuple[str, ...], sentence: str) -> None:
    collected(room / "out", sdp.tasks.Ranges(64), sdp.KRR(9.0, 64), [1, 2, 3] * 100)
    outcome = run("ask", "out", *typed)
    assert outcome.status == 2
    assert outcome.out == ""
    assert sentence in outcome.err
    assert len(outcome.err.splitlines()) == 1


def test_only_ranges_can_be_asked(room: Path) -> None:
    """Another task, and what is no collection, are a sentence each."""
    collected(room / "out", sdp.tasks.Frequency(4), sdp.KRR(5.0, 4), [0, 1, 2, 3] * 100)
    outcome = run("ask", "out", "--quantile", "0.5")
    assert outcome.status == 2
    assert "expected a collection of the task 'range queries', got 'frequency'." in " ".join(outcome.err.split())
    nowhere = run("ask", "nowhere", "--quantile", "0.5")
    assert nowhere.status == 2
    assert "expected the directory of a finished collection, got nowhere." in nowhere.err
