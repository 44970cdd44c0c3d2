"""A real cluster of processes: the contract, nothing of the driver's in sight, the same bytes whatever dies."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli import plain_environment
from tests.collection import cluster_scenario, small_plan, standalone_cluster

ROOT = Path(__file__).parents[2]
SETTINGS = {
    **standalone_cluster.SPECULATION,
    "spark.executor.extraJavaOptions": standalone_cluster.JVM_OPTIONS,
    "spark.executorEnv.PYTHONPATH": f"{standalone_cluster.SOURCE}:{ROOT}",
}
pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the owner of a cluster found."""
    room, place = tmp_path_factory.mktemp("driver"), tmp_path_factory.mktemp("cluster")
    for name in ("krr-wide", "oue"):
        small_plan(name, users=cluster_scenario.ROWS, epsilon_local=0.5, bound="efmrtt19").save(
            room / f"plan-{name}.json"
        )
    with standalone_cluster.run_cluster(place, room, SETTINGS) as cluster, (room / "log").open("wb") as log:
        command = [sys.executable, "-m", "tests.collection.cluster_scenario", room, cluster.shared, cluster.master]
        done = subprocess.run(
            list(map(str, command)),
            stdout=log,
            stderr=log,
            cwd=ROOT,
            env=plain_environment()
            | {
                "SPARK_CONF_DIR": str(cluster.configuration),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "PYTHONPATH": str(ROOT / "src"),
            }
            | {"XDG_STATE_HOME": str(room / "home")},
            timeout=900,
        )
    assert done.returncode == 0, (room / "log").read_text("utf-8", "replace")[-4000:]
    told: dict[str, Any] = json.loads((room / "found.json").read_text("utf-8"))
    return told


def test_the_contract_on_a_cluster(found: dict[str, Any]) -> None:
    """The same suite as for the engine in this process."""
    assert found["failures"] == []


def test_workers_do_not_see_the_driver(found: dict[str, Any]) -> None:
    """The plan, the key and the ledger lie where no worker can read them."""
    assert found["seen"] == [True, False]


@pytest.mark.parametrize("name", ["krr-wide", "oue"])
def test_a_collection_where_workers_see_nothing_of_the_driver(found: dict[str, Any], name: str) -> None:
    """One value of 99% of the people: every message is there, and the estimate is within 7 standard errors."""
    mechanism = "krr" if name == "krr-wide" else name
    told = found[name]
    assert (told["users"], told["messages"], told["left"]) == (cluster_scenario.ROWS, cluster_scenario.ROWS, False)
    assert {"messages", "report.json", "report.md", "estimates.csv", "plan.json"} <= set(told["names"])
    estimate, error = told["seven"]
    truth = sum(number % 100 != 0 or number % 40 == 7 for number in range(cluster_scenario.ROWS))
    assert abs(estimate - truth) < 7 * error, mechanism


def test_two_attempts_of_a_task_side_by_side(found: dict[str, Any]) -> None:
    """One does all its work and does not end, until another one has done the same: it counts once."""
    told = found["same"]["beside"]
    (one, stage, *_), (other, again, beside) = told["first"], told["second"]
    assert one != other
    assert stage == again
    assert beside
    _demand_same_files(found, "beside")


def test_a_process_that_is_killed_while_it_works(found: dict[str, Any]) -> None:
    """The task that it ran begins again elsewhere; the rows come in another order and other partitions besides."""
    told = found["same"]["killed"]
    (one, *_, process), (other, _, is_there) = told["first"], told["second"]
    assert told["killed"] == [process]
    assert one != other
    assert not is_there
    _demand_same_files(found, "killed")


def _demand_same_files(found: dict[str, Any], event: str) -> None:
    wanted = found["same"]["plain"]
    assert "messages-00000.parquet" in wanted["files"]
    assert wanted["first"] is None
    assert found["same"][event]["files"] == wanted["files"]
