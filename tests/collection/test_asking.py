"""Collections that are asked for some options: the same numbers as in the whole, in domains of any size."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import shuffledp as sdp
from shuffledp.cli.app import app

pytestmark = pytest.mark.usefixtures("no_pictures")

HUGE = 1 << 48
COLOURS = ["red", "green", "blue", "black", "white"]


def huge_plan() -> sdp.Plan:
    return sdp.Plan(sdp.tasks.Frequency(HUGE), sdp.ProjectiveGeometry(6.0, HUGE), users=2000, epsilon=6.0, delta=1e-6)


@pytest.mark.exhaustive
def test_a_report_of_some_options_is_a_part_of_the_whole_one(tmp_path: Path) -> None:
    plan = sdp.Plan(sdp.tasks.Frequency(COLOURS), sdp.KRR(3.0, 5), users=500, epsilon=3.0, delta=1e-6)
    data = pa.array(COLOURS * 100)
    users = sdp.collection.encode(plan, data, out=tmp_path / "ours.messages")
    sdp.collection.shuffle([tmp_path / "ours.messages"], out=tmp_path / "shuffled")
    whole = sdp.collection.estimate(plan, tmp_path / "shuffled", out=tmp_path / "whole")
    some = sdp.collection.estimate(plan, tmp_path / "shuffled", out=tmp_path / "some", options=["white", "red"])
    assert users == 500
    (every,), (asked,) = whole.quantities, some.quantities
    assert asked.labels == ("white", "red")
    assert asked.value.tolist() == every.value[[4, 0]].tolist()
    assert asked.low is not None
    assert every.low is not None
    assert asked.low.tolist() == every.low[[4, 0]].tolist()
    assert (whole.selected_count, some.selected_count) == (None, 2)
    assert json.loads((tmp_path / "some" / "report.json").read_text())["asked"] == 2
    assert "2 selected options out of 5" in (tmp_path / "some" / "report.md").read_text()
    assert (tmp_path / "some" / "estimates.csv").read_text().count("\n") == 3


def test_two_to_the_48_options_are_collected_and_asked_for_again(tmp_path: Path) -> None:
    """1,200 of 2,000 users hold one option; its interval of 6 standard errors holds that (false alarm 2e-9)."""
    plan, rng = huge_plan(), np.random.default_rng(0)
    held = np.concatenate([np.full(1200, HUGE - 7), rng.integers(0, HUGE, 800)])
    report = sdp.collect(plan, pa.array(held), out=tmp_path / "out", options=[HUGE - 7, 5])
    (found,) = report.quantities
    assert found.labels == (str(HUGE - 7), "5")
    assert found.standard_error is not None
    assert (np.abs(found.value - [1200, 0]) < 6 * found.standard_error).all()
    again = sdp.collection.estimate(plan, tmp_path / "out" / "messages", out=tmp_path / "again", options=["5"])
    assert again.quantities[0].value.tolist() == found.value[1:].tolist()


def test_a_whole_histogram_that_does_not_fit_is_refused_before_any_work(tmp_path: Path) -> None:
    plan, values = huge_plan(), pa.array([1] * 2000)
    sentence = (
        r": all 281,474,976,710,656 options at once would take [\d,]+ bytes, where 4,294,967,296 are the most; ask"
    )
    with pytest.raises(ValueError, match=f"^collect{sentence}"):
        sdp.collect(plan, values, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(ValueError, match=f"^estimate{sentence}"):
        sdp.collection.estimate(plan, tmp_path / "nothing", out=tmp_path / "out")
    with pytest.raises(ValueError, match=f"^simulate{sentence}"):
        sdp.simulate(plan)
    wide = sdp.Plan(sdp.tasks.Frequency(1 << 24), sdp.KRR(9.0, 1 << 24), users=2000, epsilon=6.0, delta=1e-6)
    # What can be estimated in Python may still be too many rows for a report.
    with pytest.raises(ValueError, match=r"^collect: all 16,777,216 options at once would take 8,589,934,592 bytes"):
        sdp.collect(wide, values, out=tmp_path / "out")


def test_what_cannot_be_asked_for_is_refused(tmp_path: Path) -> None:
    plan = sdp.Plan(sdp.tasks.Frequency(COLOURS), sdp.KRR(3.0, 5), users=500, epsilon=3.0, delta=1e-6)
    for options, sentence in (
        (["pink"], "collect: expected a value of the domain, such as 'red', got 'pink'."),
        (["red", "red"], "collect: expected different options, got 'red' twice."),
        ([], "collect: expected at least one option, got none."),
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
            sdp.collect(plan, pa.array(COLOURS * 100), out=tmp_path / "out", options=options)
    mean = sdp.Plan(sdp.tasks.Mean(0.0, 1.0), sdp.Laplace(1.0), users=500, epsilon=1.0, delta=1e-6)
    with pytest.raises(ValueError, match=r"^collect: the task 'mean' estimates everything; options are for"):
        sdp.collect(mean, pa.array([0.5] * 500), out=tmp_path / "out", options=[1])


def test_the_command_line_takes_a_file_of_options(tmp_path: Path) -> None:
    huge_plan().save(tmp_path / "plan.json")
    (tmp_path / "ask.txt").write_text(f"{HUGE - 7}\n5\n")
    (tmp_path / "in.csv").write_text("v\n" + f"{HUGE - 7}\n" * 2000)
    common = ["--options", str(tmp_path / "ask.txt"), "--json"]
    told = CliRunner().invoke(
        app,
        ["collect", str(tmp_path / "plan.json"), "--input", str(tmp_path / "in.csv"), "--column", "v",
         "--out", str(tmp_path / "out"), "--no-ledger", *common],
    )  # fmt: skip
    assert told.exit_code == 0, told.output
    rows = json.loads(told.stdout)["estimates"]
    assert [row["label"] for row in rows] == [str(HUGE - 7), "5"]
    tried = CliRunner().invoke(app, ["simulate", str(tmp_path / "plan.json"), "--repeat", "400", *common])
    assert tried.exit_code == 0, tried.output
    outcome = json.loads(tried.stdout)
    assert outcome["estimates"] == 2
    # 800 estimates: the ratio is within 6/√1600 of 1.
    assert abs(outcome["standard_error"]["ratio"] - 1) < 0.15
