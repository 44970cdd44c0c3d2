"""Answers as people need them: labelled tables in order, intervals as sure as asked, post-processing on request."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import shuffledp as sdp
from shuffledp.collection.report import Report
from tests.collection.task_cases import CASES, CITIES, collect_report

# A few collections, looked at from all sides.
pytestmark = pytest.mark.usefixtures("each_curve_once")

COLUMNS = ["quantity", "label", "estimate", "standard_error", "low", "high", "confidence"]


@pytest.mark.exhaustive("survey")
@pytest.mark.parametrize("name", CASES)
def test_every_task_has_a_table(name: str) -> None:
    """A row for each label of each quantity, as they are; the frame and Arrow's table say the same."""
    report = collect_report(name)
    frame, table = report.to_frame(), report.to_arrow()
    assert [one for one in frame.columns if one != "question"] == COLUMNS
    labels = [label for quantity in report.quantities for label in quantity.labels]
    assert frame["label"].tolist() == labels == table["label"].to_pylist()
    values = np.concatenate([quantity.value for quantity in report.quantities])
    np.testing.assert_array_equal(frame["estimate"], values)
    told = frame["estimate"].notna()
    assert (frame["confidence"] == 0.95).all()
    assert ((frame["low"] <= frame["high"]) | ~told).all()
    back = table.to_pandas()
    pd.testing.assert_frame_equal(back.astype({"label": object}), frame.astype({"label": object}), check_dtype=False)


def test_rows_stand_in_the_order_of_the_domain() -> None:
    """Not by size."""
    assert collect_report("frequency").to_frame()["label"].tolist() == list(CITIES)
    assert collect_report("numbers").to_frame()["label"].tolist() == [str(hour) for hour in range(24)]


def test_the_three_files_say_the_same(tmp_path: Path) -> None:
    """Whatever is in a label; and other endings are refused."""
    report = collect_report("frequency")
    for ending in ("csv", "parquet", "json"):
        report.save(tmp_path / f"told.{ending}")
    with open(tmp_path / "told.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    document = json.loads((tmp_path / "told.json").read_text("utf-8"))["estimates"]
    table = pq.read_table(tmp_path / "told.parquet").to_pylist()
    assert document == table
    assert [row["label"] for row in document] == list(CITIES)
    assert [float(row["estimate"]) for row in rows] == [row["estimate"] for row in table]
    with pytest.raises(ValueError, match=r"must end in \.csv, \.parquet or \.json"):
        report.save(tmp_path / "told.xlsx")


AS_ESTIMATED = ("frequency", "numbers", "many", "map", "large map", "ranges")
"""Tasks that report the mechanism's own estimate, whose intervals are then those of its exact law."""


@pytest.mark.exhaustive("survey")
@pytest.mark.parametrize("name", [name for name in CASES if name not in ("search", "sets", "pairs")])
def test_intervals_are_as_sure_as_asked(name: str) -> None:
    """About the normal law's, whatever was asked for; counts by their own law are up to a step wider or narrower."""
    case, estimate = CASES[name], collect_report(name).estimate
    widths = {}
    for level in (0.8, 0.99):
        for number, quantity in enumerate(case.task.quantities(case.mechanism, estimate, level)):
            assert quantity.low is not None
            assert quantity.high is not None
            half = (quantity.high - quantity.low) / 2
            widths.setdefault(number, []).append(half)
            if quantity.standard_error is not None:
                normal = NormalDist().inv_cdf((1 + level) / 2) * quantity.standard_error
                np.testing.assert_allclose(half, normal, rtol=0.35)
            if name in AS_ESTIMATED and number == 0:
                for told, known in zip((quantity.low, quantity.high), estimate.interval(level), strict=True):
                    np.testing.assert_allclose(told, known, rtol=1e-9, atol=1e-9)
    assert all((narrow <= wide).all() and narrow.sum() < wide.sum() for narrow, wide in widths.values())


def test_the_confidence_is_told() -> None:
    """In the table, the report, its document and below the picture."""
    narrow = collect_report("ranges", confidence=0.8)
    assert narrow.confidence == 0.8
    assert (narrow.to_frame()["confidence"] == 0.8).all()
    assert narrow.document()["confidence"] == 0.8
    assert "with confidence 80%" in narrow.markdown("none", drawn=False)
    assert "with 80% intervals" in narrow.plot().axes[0].get_ylabel().replace("\n", " ")


@pytest.mark.parametrize("name", ["sets", "pairs", "search"])
def test_other_intervals_are_wider_the_surer_they_are(name: str) -> None:
    """Those that are not about the estimate."""
    case = CASES[name]
    estimate = collect_report(name).estimate
    narrow, wide = (case.task.quantities(case.mechanism, estimate, level)[0] for level in (0.8, 0.99))
    assert narrow.low is not None
    assert narrow.high is not None
    assert wide.low is not None
    assert wide.high is not None
    assert (wide.high - wide.low >= narrow.high - narrow.low).all()
    assert ((wide.high - wide.low) > (narrow.high - narrow.low)).any()


@pytest.mark.parametrize("level", [0.0, 1.0, 90, -0.1])
def test_no_other_confidence(level: float, tmp_path: Path) -> None:
    """Nothing is collected."""
    plan = sdp.Plan(sdp.tasks.Mean(0, 1), sdp.Laplace(1.0), users=10, epsilon=9.0, delta=0.1)
    with pytest.raises(ValueError, match=r"^collect: confidence must be between 0 and 1"):
        sdp.collect(plan, np.zeros(10), out=tmp_path / "out", confidence=level)
    with pytest.raises(ValueError, match=r"^simulate: confidence must be between 0 and 1"):
        sdp.simulate(plan, confidence=level)
    assert not (tmp_path / "out").exists()


def test_ranges_and_quantiles_are_as_sure_as_the_report() -> None:
    """Unless something else is asked for."""
    report = collect_report("ranges", confidence=0.8)
    assert report.range(0, 9) == report.range(0, 9, confidence=0.8)
    assert report.range(0, 9) != report.range(0, 9, confidence=0.95)


# --- post-processing ----------------------------------------------------------------------------------------------


@pytest.mark.exhaustive("survey")
@pytest.mark.parametrize(("name", "way"), [(name, way) for name, case in CASES.items() for way in case.task.post])
def test_adjusted_values_stand_beside_the_estimates(name: str, way: str) -> None:
    """They are within what is possible, marked, and the estimates with their intervals are as before."""
    case, plain = CASES[name], collect_report(name)
    found = case.task.quantities(case.mechanism, plain.estimate, 0.95) if name != "search" else plain.quantities
    values = case.task.post_process(case.mechanism, plain.estimate, found, way)
    assert len(values) == len(found)
    assert any(one is not None for one in values)
    for quantity, after in zip(found, values, strict=True):
        if after is None:
            continue
        assert after.shape == quantity.value.shape
        if way == "consistent":
            good = np.isnan(after) | ((after >= quantity.shape.least) & (after <= np.add(quantity.shape.most, 1e-6)))
            assert good.all()


@pytest.fixture(scope="module")
def adjusted() -> Report:
    return collect_report("numbers", post="consistent")


def test_post_processing_is_marked_in_table_and_report(adjusted: Report) -> None:
    """A column of its own, a sentence, and the raw intervals."""
    frame = adjusted.to_frame()
    assert frame["adjusted"].min() >= 0
    assert frame["adjusted"].sum() == pytest.approx(adjusted.guarantee.users)
    assert (frame["low"] < frame["estimate"]).all()
    assert (frame["estimate"] < frame["high"]).all()
    words = adjusted.markdown("none", drawn=False)
    assert "Adjusted values (consistent) are post-processing" in words
    assert "| adjusted |" in words
    assert "Adjusted values (consistent) are post-processing" in str(adjusted)
    assert adjusted.document()["post"]["way"] == "consistent"
    assert "post" not in collect_report("numbers").document()
    assert "adjusted" not in collect_report("numbers").to_frame().columns


@pytest.mark.parametrize(("name", "way"), [("mean", "non-negative"), ("sets", "adds-up"), ("ranges", "adds-up")])
def test_what_says_nothing_of_a_task_is_refused(name: str, way: str, tmp_path: Path) -> None:
    """Before anything is collected."""
    case = CASES[name]
    plan = sdp.Plan(case.task, case.mechanism, users=600, epsilon=500.0, delta=1e-3)
    with pytest.raises(ValueError, match=rf"^collect: post='{way}' does not go with the task"):
        sdp.collect(plan, case.data(np.random.default_rng(1)), case.columns, out=tmp_path / "out", post=way)
    assert not (tmp_path / "out").exists()


def test_a_part_of_the_options_does_not_add_up(tmp_path: Path) -> None:
    case = CASES["numbers"]
    plan = sdp.Plan(case.task, case.mechanism, users=600, epsilon=500.0, delta=1e-3)
    with pytest.raises(ValueError, match="does not go with the task"):
        sdp.collect(plan, np.zeros(600, dtype=int), out=tmp_path / "out", post="adds-up", options=[1, 2])
