"""A driver that is killed with all that it started: the same messages or none, in the ledger once."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from shuffledp.spark.engine import Spark
from tests.cli import plain_environment
from tests.collection import (
    expected_messages,
    killed_spark_driver,
    new_ledger,
    random_column,
    read_messages,
    small_plan,
    sort_messages,
    write_table,
)

ROOT = Path(__file__).parents[2]
ROWS = 2000
WIDTH = 5
pytestmark = [pytest.mark.spark, pytest.mark.crash]


def killed(room: Path, step: str) -> None:
    """The collection goes on until this step."""
    command = [sys.executable, "-m", "tests.collection.killed_spark_driver", str(room), step]
    environment = plain_environment() | {"PYTHONPATH": str(ROOT / "src")}
    with (room / "log").open("wb") as log:
        done = subprocess.run(command, stdout=log, stderr=log, cwd=ROOT, env=environment, timeout=600)
    assert done.returncode == -signal.SIGKILL, (room / "log").read_text("utf-8", "replace")[-3000:]


def test_a_driver_killed_at_two_steps(spark: Spark, tmp_path: Path) -> None:
    """One collection, killed and resumed twice, the last time in another session: under its first key."""
    plan = small_plan("oue", users=ROWS, epsilon_local=0.5, bound="efmrtt19")
    plan.save(tmp_path / "plan.json")
    write_table(tmp_path / "data.parquet", value=random_column("oue", ROWS))
    ledger, out = new_ledger(tmp_path / "ledger.sqlite"), tmp_path / "out"
    unnamed, unreported = killed_spark_driver.STEPS

    killed(tmp_path, unnamed)
    key = (tmp_path / "state" / "work" / "key").read_bytes()
    values = plan.column("value").read_values(random_column("oue", ROWS))
    wanted = sort_messages(expected_messages(plan.mechanism, values, key))
    assert not (out / "messages").exists()
    assert [entry.state for entry in ledger.budget_statuses("test")[0].entries] == ["reserved"]

    killed(tmp_path, unreported)
    assert read_messages(out / "messages", WIDTH) == wanted
    assert not (out / "report.json").exists()
    assert [entry.state for entry in ledger.budget_statuses("test")[0].entries] == ["released"]

    report = killed_spark_driver.run_collection(tmp_path, spark)
    assert report.guarantee.users == ROWS
    assert read_messages(out / "messages", WIDTH) == wanted
    assert (out / "report.json").exists()
    assert not (tmp_path / "state").exists()
    assert [entry.state for entry in ledger.budget_statuses("test")[0].entries] == ["released"]
