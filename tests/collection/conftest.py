"""One Spark session for all tests of a run, and the places that a ledger may be at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shuffledp._core.results_and_value_objects import Progress
from shuffledp.collection.engine import Engine, create_engine
from shuffledp.spark.engine import Spark
from tests.collection import FRAME_ROWS, random_column, task_cases

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tests.service.postgres import Postgres


MASTER = "local[2,3]"
"""Two cores, and a task that fails is tried again."""


@pytest.fixture(autouse=True, scope="session")
def reports_once(shared_folder: Path) -> None:
    """Reports of every task are collected once in a run."""
    task_cases.REPORT_FOLDERS[:] = [shared_folder]


@pytest.fixture(scope="session")
def spark() -> Iterator[Spark]:
    """A running session; where Java is missing this fails with the sentence that users get."""
    engine = Spark(Progress(), MASTER)
    _ = engine.session
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def frames(spark: Spark, tmp_path_factory: pytest.TempPathFactory) -> dict[str, DataFrame]:
    """A file for each kind of column, with a key."""
    room, found = tmp_path_factory.mktemp("frames"), {}
    for name in ("krr-wide", "oue"):
        who = [f"p{number}" for number in range(FRAME_ROWS)]
        pq.write_table(pa.table({"who": who, "value": random_column(name, FRAME_ROWS)}), room / f"{name}.parquet")
        found[name] = spark.session.read.parquet(f"file:{room}/{name}.parquet")
    return found


@pytest.fixture(params=["file", pytest.param("database", marks=pytest.mark.database)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """Where a ledger may be."""
    if request.param == "file":
        return tmp_path / "ledger.sqlite"
    server: Postgres = request.getfixturevalue("database_server")
    return server.new_database()


@pytest.fixture(params=["embedded", pytest.param("spark", marks=pytest.mark.spark)])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn."""
    if request.param == "spark":
        running: Engine = request.getfixturevalue("spark")
        return running
    return create_engine("embedded")
