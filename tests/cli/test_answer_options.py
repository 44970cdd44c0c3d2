"""--confidence, --post and --results of collect and estimate; --confidence and the guarantee of simulate."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cli import run
from tests.collection import COLOURS, random_column, small_plan, write_table

pytestmark = pytest.mark.usefixtures("no_pictures")

ROWS = 1000


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A plan and its data, where commands are typed."""
    monkeypatch.chdir(tmp_path)
    small_plan("krr", users=ROWS, epsilon_local=0.5, bound="efmrtt19").save(tmp_path / "plan.json")
    write_table(tmp_path / "data.csv", colour=random_column("krr", ROWS))
    return tmp_path


def test_collect_tells_it_as_asked(desk: Path) -> None:
    """The table in the order of the domain, 90% intervals, adjusted values beside, and where all of it is."""
    done = run("collect", "plan.json", "--input", "data.csv", "--out", "out", "--no-ledger", "--confidence", "90%",
               "--post", "consistent", "--results", "told.csv")  # fmt: skip
    assert (done.status, done.err) == (0, "The table of results was written to told.csv.\n")
    assert "written to out." in done.out
    assert "Adjusted values (consistent) are post-processing" in " ".join(done.out.split())
    with open(desk / "told.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["label"] for row in rows] == list(COLOURS)
    assert {float(row["confidence"]) for row in rows} == {0.9}
    assert sum(float(row["adjusted"]) for row in rows) == pytest.approx(ROWS)
    half = [(float(row["high"]) - float(row["low"])) / 2 / float(row["standard_error"]) for row in rows]
    assert half == pytest.approx([1.6448536269514722] * len(rows), rel=0.1)
    assert "confidence 90%" in (desk / "out" / "report.md").read_text("utf-8")


def test_estimate_tells_the_same_messages_otherwise(desk: Path) -> None:
    """Twice: other intervals, the same estimates."""
    assert run("encode", "plan.json", "--input", "data.csv", "--out", "a.messages").status == 0
    assert run("shuffle", "a.messages", "--out", "shuffled").status == 0
    told = {}
    for level in ("0.8", "99.9%"):
        done = run("estimate", "plan.json", "--input", "shuffled", "--out", level, "--no-ledger", "--confidence", level,
                   "--results", f"{level}.parquet", "--json")  # fmt: skip
        assert done.status == 0, done.err
        told[level] = pq.read_table(f"{level}.parquet").to_pydict()
        assert json.loads(done.out)["estimates"] == pq.read_table(f"{level}.parquet").to_pylist()
    narrow, wide = told.values()
    assert set(wide["confidence"]) == {0.999}
    assert narrow["estimate"] == wide["estimate"]
    assert all(low < other for low, other in zip(wide["low"], narrow["low"], strict=True))


def test_simulate_counts_intervals_of_any_confidence_and_states_its_guarantee(desk: Path) -> None:
    """Half of the truths lie in 50% intervals; ε is that of the users who were simulated."""
    done = json.loads(run("simulate", "plan.json", "--repeat", "400", "--confidence", "50%", "--json").out)
    assert done["confidence"] == 0.5
    assert 0.4 < done["covered"] < 0.6
    assert done["guarantee"]["users"] == ROWS
    shown = run("simulate", "plan.json", "--repeat", "5", "--users", "100,000").out
    more = json.loads(run("simulate", "plan.json", "--repeat", "5", "--users", "100,000", "--json").out)["guarantee"]
    assert more["epsilon"] < done["guarantee"]["epsilon"]
    assert "guarantee for 100,000 users" in shown


def test_a_killed_collection_goes_on_as_it_was_told_to(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another confidence is another report."""
    words = ("collect", "plan.json", "--input", "data.csv", "--out", "out", "--no-ledger")

    def fails(*_: object) -> None:
        raise OSError("no room")

    with monkeypatch.context() as broken:
        broken.setattr("shuffledp.collection.report.write_estimates", fails)
        assert run(*words, "--confidence", "80%").status == 2
    assert "the confidence or post-processing is not the one" in run(*words, "--resume").err
    assert run(*words, "--resume", "--confidence", "80%").status == 0
