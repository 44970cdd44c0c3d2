"""A real cluster of processes: the contract, nothing of the driver's in sight, the same bytes whatever dies."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli import plain_environment
from tests.collection import cluster_owner, plan_of, standalone

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the owner of a cluster found."""
    room, place = tmp_path_factory.mktemp("driver"), tmp_path_factory.mktemp("cluster")
    for name in ("krr-wide", "oue"):
        plan_of(name, users=cluster_owner.ROWS, epsilon_local=0.5, bound="efmrtt19").save(room / f"plan-{name}.json")
    with standalone.running(place, room) as cluster, (room / "log").open("wb") as log:
        command = [sys.executable, "-m", "tests.collection.cluster_owner", room, cluster.shared, cluster.master]
        done = subprocess.run(
            [*map(str, command), *map(str, cluster.workers)],
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
    assert (told["users"], told["messages"], told["left"]) == (cluster_owner.ROWS, cluster_owner.ROWS, False)
    assert {"messages", "report.json", "report.md", "estimates.csv", "plan.json"} <= set(told["names"])
    estimate, error = told["seven"]
    truth = sum(number % 100 != 0 or number % 40 == 7 for number in range(cluster_owner.ROWS))
    assert abs(estimate - truth) < 7 * error, mechanism


def test_the_same_bytes_whatever_happens(found: dict[str, Any]) -> None:
    """In other partitions, in another order, with two attempts of a task side by side, and with a process killed."""
    told = found["same"]
    assert told["plain"] == told["killed"]
    assert "messages-00000.parquet" in told["plain"]
    assert told["killed again"] > 0
