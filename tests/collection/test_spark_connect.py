"""Spark Connect: messages are shuffled and read there; a key is not given to sessions that cannot be looked at."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.spark.engine import Spark
from tests.cli import plain_environment
from tests.collection import expected_messages, random_column, small_plan, write_table

ROOT = Path(__file__).parents[2]
ROWS = 2000
KEY = bytes(range(32))
PLAN = small_plan("oue", users=ROWS, epsilon_local=0.5, bound="efmrtt19")
pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("no_pictures")]


@pytest.fixture(scope="module")
def found(spark: Spark, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Messages of a session that keeps a key, in files that a session of Spark Connect reads."""
    room = tmp_path_factory.mktemp("connect")
    PLAN.save(room / "plan.json")
    write_table(room / "data.parquet", value=random_column("oue", ROWS), who=range(ROWS))
    rows = spark.session.read.parquet(f"file:{room}/data.parquet")
    sdp.spark.encode(rows, PLAN, "value", secret=KEY).write.parquet(f"file:{room}/messages")
    sdp.spark.encode(rows, PLAN, "value").write.parquet(f"file:{room}/late")
    command = [sys.executable, "-m", "tests.collection.spark_connect_scenario", str(room)]
    environment = plain_environment() | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    with (room / "log").open("wb") as log:
        done = subprocess.run(command, stdout=log, stderr=log, cwd=ROOT, env=environment, timeout=600)
    assert done.returncode == 0, (room / "log").read_text("utf-8", "replace")[-4000:]
    told: dict[str, Any] = json.loads((room / "found.json").read_text("utf-8"))
    return told


def test_messages_are_shuffled_and_estimated(found: dict[str, Any]) -> None:
    """Over several ranges: sorted, each once, and the estimates of all of them."""
    assert ".connect." in found["kind"]
    wanted = expected_messages(PLAN.mechanism, PLAN.column("value").read_values(random_column("oue", ROWS)), KEY)
    counts = Counter(row.tobytes().hex() for row in wanted)
    assert found["rows"] == [[text, count] for text, count in sorted(counts.items())]
    again = PLAN.mechanism.estimate(PLAN.mechanism.unpack(wanted))
    np.testing.assert_allclose(found["estimate"], again.value, rtol=1e-12)


def test_messages_are_not_shuffled_again_with_others(found: dict[str, Any]) -> None:
    """Neither together with late ones nor some of them."""
    assert found["union"].startswith("shuffle: 1 of the 2 files were shuffled before, together with others")
    assert found["some"].startswith("shuffle: expected all messages from encode, or unions of them, got a Limit of")


@pytest.mark.parametrize("name", ["encode", "keyed", "collect"])
def test_no_key_is_given_to_a_session_that_cannot_be_looked_at(found: dict[str, Any], name: str) -> None:
    """One sentence, before anything is written."""
    assert found[name].startswith("spark: expected a session of Spark itself, got one of Spark Connect")
    assert found[name].endswith(".")
    assert found["nothing"]
