"""A driver that is killed with all that it started: the same messages or none, in the ledger once."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from shuffledp.collection.engine.spark_engine import Spark
from tests.cli import plain_environment
from tests.collection import (
    data_of,
    expected_messages,
    in_order,
    messages_in,
    new_ledger,
    plan_of,
    spark_victim,
    write_table,
)

ROOT = Path(__file__).parents[2]
ROWS = 2000
WIDTH = 5
pytestmark = pytest.mark.slow


def killed(room: Path, step: str) -> None:
    """The collection goes on until this step."""
    command = [sys.executable, "-m", "tests.collection.spark_victim", str(room), step]
    environment = plain_environment() | {"PYTHONPATH": str(ROOT / "src")}
    with (room / "log").open("wb") as log:
        done = subprocess.run(command, stdout=log, stderr=log, cwd=ROOT, env=environment, timeout=600)
    assert done.returncode == -signal.SIGKILL, (room / "log").read_text("utf-8", "replace")[-3000:]


def test_a_driver_killed_at_two_steps(spark: Spark, tmp_path: Path) -> None:
    """One collection, killed and resumed twice, the last time in another session: under its first key."""
    plan = plan_of("oue", users=ROWS, epsilon_local=0.5, bound="efmrtt19")
    plan.save(tmp_path / "plan.json")
    write_table(tmp_path / "data.parquet", value=data_of("oue", ROWS))
    ledger, out = new_ledger(tmp_path / "ledger.sqlite"), tmp_path / "out"
    unnamed, unreported = spark_victim.STEPS

    killed(tmp_path, unnamed)
    key = (tmp_path / "state" / "work" / "key").read_bytes()
    values = plan.column("value").values(data_of("oue", ROWS))
    wanted = in_order(expected_messages(plan.mechanism, values, key))
    assert not (out / "messages").exists()
    assert [entry.state for entry in ledger.standings("test")[0].entries] == ["reserved"]

    killed(tmp_path, unreported)
    assert messages_in(out / "messages", WIDTH) == wanted
    assert not (out / "report.json").exists()
    assert [entry.state for entry in ledger.standings("test")[0].entries] == ["released"]

    report = spark_victim.collected(tmp_path, spark)
    assert report.guarantee.users == ROWS
    assert messages_in(out / "messages", WIDTH) == wanted
    assert (out / "report.json").exists()
    assert not (tmp_path / "state").exists()
    assert [entry.state for entry in ledger.standings("test")[0].entries] == ["released"]
