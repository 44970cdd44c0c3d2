"""Everything that a plan offers can be collected, to the last file of the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shuffledp.calibration.targets import Target
from shuffledp.certificates.claim import verify
from shuffledp.collection.collect import collect
from shuffledp.planning.goal import Goal
from shuffledp.planning.mechanism_calibration import Candidate
from shuffledp.planning.ranking import build_trials, run_jobs
from shuffledp.tasks import Frequency, Task, UnitVectorMean, VectorMean
from tests.planning.goals import TASKS, small_ranking

# What is planned is collected, and a certificate that was proved when it was made is proved.
pytestmark = pytest.mark.usefixtures("each_curve_once", "no_pictures")

COMPRESSED: dict[str, Task] = {
    "many options": Frequency(4096),
    "many coordinates": UnitVectorMean(64),
    "many signs": VectorMean(200, 0.0, 1.0),
}


def data_for(name: str, rows: int) -> pa.Array:
    """Values of the small tasks' domains."""
    generator = np.random.default_rng(3)
    letters = np.array(list("abcde"))
    made: dict[str, Any] = {
        "frequency": lambda: generator.integers(0, 9, rows),
        "mean": lambda: generator.uniform(-20, 60, rows),
        "sum": lambda: generator.uniform(-20, 60, rows),
        "variance": lambda: generator.uniform(-20, 60, rows),
        "count": lambda: generator.integers(0, 2, rows) == 1,
        "set-valued": lambda: np.sort(generator.permuted(np.tile(np.arange(9), (rows, 1)), axis=1)[:, :2]).tolist(),
        "key-value": lambda: [
            [{"key": str(letters[k % 5]), "value": 4.0}, {"key": str(letters[(k + 2) % 5]), "value": 7.5}]
            for k in range(rows)
        ],
        "vector mean": lambda: generator.uniform(-0.4, 0.4, (rows, 4)).tolist(),
        "boxed vectors": lambda: generator.uniform(0, 10, (rows, 3)).tolist(),
        "location": lambda: np.column_stack([generator.uniform(0, 2, rows), generator.uniform(0, 1, rows)]).tolist(),
        "range queries": lambda: generator.integers(0, 13, rows),
        "many options": lambda: generator.integers(0, 4096, rows),
        "many coordinates": lambda: generator.uniform(-0.1, 0.1, (rows, 64)).tolist(),
        "many signs": lambda: generator.uniform(0.0, 1.0, (rows, 200)).tolist(),
    }
    return pa.array(made[name]())


def assert_collected(offer: Candidate, data: pa.Array, out: Path) -> None:
    report = collect(offer.plan, data, out=out)
    assert report.guarantee.is_target_met, offer.name
    assert report.guarantee.value.upper == pytest.approx(offer.proof.upper, rel=1e-9)
    document = json.loads((out / "report.json").read_text("utf-8"))
    assert document["users"] == len(data)
    assert document["guarantee"]["target_met"]
    for quantity in report.quantities:
        assert np.isfinite(quantity.value).all(), offer.name
    certificate = out / "certificate.json"
    if certificate.exists():
        assert verify(certificate).verdict.value == "yes", offer.name
    else:
        assert "| certificate | none: " in (out / "report.md").read_text("utf-8")
    assert not (out / "work").exists()


@pytest.mark.exhaustive(
    "boxed vectors",
    "frequency",
    "key-value",
    "location",
    "mean",
    "range queries",
    "set-valued",
    "variance",
    "vector mean",
)
@pytest.mark.parametrize("name", TASKS)
def test_every_offer_of_every_task(name: str, tmp_path: Path, shared_folder: Path) -> None:
    """As planned for as many users as are planned, with a certificate that holds wherever there is one."""
    ranking = small_ranking(name, shared_folder)
    assert ranking.candidates
    data = data_for(name, ranking.goal.users)
    for number, offer in enumerate(ranking.candidates):
        # A front has several offers of one name.
        assert_collected(offer, data, tmp_path / f"{offer.name} {number}")


@pytest.mark.exhaustive("many coordinates", "many options")
@pytest.mark.parametrize("name", COMPRESSED)
def test_every_compressed_offer(name: str, tmp_path: Path) -> None:
    """Where a seed is shorter than the message, or several are."""
    goal = Goal(COMPRESSED[name], 1000, Target(1.0, 1e-6))
    waiting = [trial for trial in build_trials(goal) if "compressed-" in trial.name]
    offers = [outcome for outcome in run_jobs(waiting) if isinstance(outcome, Candidate)]
    assert len(offers) >= (1 if name == "many signs" else 2)
    for offer in offers:
        assert_collected(offer, data_for(name, 1000), tmp_path / offer.name)
