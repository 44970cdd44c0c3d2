"""Places are collected by frequency mechanisms on the cells of their map, on every engine and by roles apart."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from shuffledp import KRR, collection
from shuffledp.collection.collect import CollectionRequest, run_collection
from shuffledp.collection.engine import Engine
from shuffledp.collection.input.files import FileTable
from shuffledp.planning.plan import Plan
from shuffledp.tasks import Location
from tests.collection import write_table

pytestmark = pytest.mark.usefixtures("no_pictures")

TASK = Location(west=-5, east=5, south=40, north=45, columns=4, rows=3, coordinates="degrees")
USERS = 3000
PLAN = Plan(TASK, KRR(4.0, options=12), USERS, 3.0, 1e-6)


def places() -> list[list[float]]:
    """Half of the users in one cell, the others anywhere."""
    rng = np.random.default_rng(7)
    anywhere = np.column_stack([rng.uniform(40, 45, USERS), rng.uniform(-5, 5, USERS)])
    anywhere[: USERS // 2] = 41.0, -4.0
    return [[float(number) for number in place] for place in anywhere]


def test_a_map_is_collected(engine: Engine, tmp_path: Path) -> None:
    """Latitude and longitude as for any map; a count with its interval for each cell, named by its centre."""
    held = places()
    path = write_table(tmp_path / "data.parquet", place=held)
    PLAN.save(tmp_path / "plan.json")
    report = run_collection(
        CollectionRequest(Plan.load(tmp_path / "plan.json"), FileTable(path), ("place",), tmp_path / "out"), engine
    )
    (quantity,) = report.quantities
    assert quantity.labels[:2] == ("40.8333, -3.75", "40.8333, -1.25")
    truth = np.bincount(TASK.grid.find_cells(np.array(held)), minlength=12)
    assert truth[0] >= USERS // 2
    assert quantity.standard_error is not None
    # Twelve estimates within six standard errors: one chance in 1e7.
    assert (np.abs(quantity.value - truth) <= 6 * quantity.standard_error + 1e-9).all()
    rows = json.loads((tmp_path / "out" / "report.json").read_text("utf-8"))["estimates"]
    assert [row["label"] for row in rows] == list(quantity.labels)


def test_a_map_is_collected_by_roles_apart(tmp_path: Path) -> None:
    """The estimator knows the cells from the plan alone."""
    data = write_table(tmp_path / "data.parquet", place=places())
    assert collection.encode(PLAN, data, "place", out=tmp_path / "mine.messages") == USERS
    collection.shuffle([tmp_path / "mine.messages"], out=tmp_path / "shuffled", plan=PLAN)
    report = collection.estimate(PLAN, tmp_path / "shuffled", out=tmp_path / "out")
    assert len(report.quantities[0].labels) == 12
    assert report.quantities[0].value[0] > 1000
