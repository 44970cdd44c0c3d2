"""``release``, as it is typed: from the plan to the running counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import shuffledp as sdp
from shuffledp.ledger.ledger import Ledger
from tests.cli import replace_options, run
from tests.collection import list_paths, write_table

pytestmark = pytest.mark.usefixtures("no_pictures")

DAYS = ("mon", "tue", "wed", "thu")


@pytest.fixture
def room(tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a plan, where the command is typed."""
    monkeypatch.chdir(tmp_path)
    task, mechanism = sdp.tasks.OverTime(DAYS), sdp.RangeTree(4, 60.0, 0)
    sdp.Plan(task, mechanism, users=100, epsilon=3.0, delta=1e-5, population="test").save(tmp_path / "plan.json")
    return tmp_path


def test_day_by_day(room: Path, ledger: Ledger) -> None:
    """Encode, release, estimate; what was not as planned is told to the shuffler only, all days are paid for once."""
    write_table(room / "mon.csv", day=["mon"] * 40 + ["thu"])
    assert run("encode", "plan.json", "--input", "mon.csv", "--column", "day", "--out", "mon.messages").status == 0
    asked = ("--plan", "plan.json", "--state", "own", "--out", "released")
    first = run("release", "mon.messages", *asked, "--day", "mon")
    assert (first.status, first.err) == (0, "")
    words = " ".join(first.out.split())
    assert words.startswith("Day mon: ")
    assert "messages, including noise, are public in released; delete the input files." in words
    assert words.endswith("For the shuffler alone: 2 messages of another day.")
    second = json.loads(run("release", *asked, "--day", "tue", "--json").out)
    assert second.keys() == {"day", "messages", "users", "refused", "astray", "missing", "out"}
    assert (second["day"], second["users"], second["astray"]) == (1, 0, 0)
    told = run("estimate", "plan.json", "--input", "released", "--out", "result")
    assert told.status == 0
    assert "mon … tue: 2 of 4" in told.out
    report = json.loads((room / "result" / "report.json").read_text("utf-8"))
    assert [row["label"] for row in report["estimates"]] == ["mon", "tue"]
    assert all(abs(row["estimate"] - 40) < 8 * row["standard_error"] for row in report["estimates"])
    assert len(ledger.budget_statuses("test")[0].entries) == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--day", "tue"), "release: expected day mon, which comes next, got tue; a day without events is released"),
        (("--day", "sun"), "release: expected a value of the domain, such as 'mon', got 'sun'."),
        (("nothing.messages", "--day", "mon"), "messages: expected a file or a directory of .messages files"),
        (("--day", "mon", "--out", "own/public"), "neither may contain the other."),
        (("--day", "mon", "--round", "2"), "plan: round must be at most 1, as planned, got 2."),
    ],
)
def test_bad_input_is_one_sentence(room: Path, arguments: tuple[str, ...], sentence: str) -> None:
    """And nothing is released."""
    outcome = run(
        *replace_options(("release", "--plan", "plan.json", "--state", "own", "--out", "released"), *arguments)
    )
    assert (outcome.status, outcome.out) == (2, "")
    assert sentence in outcome.err
    assert outcome.err.count("\n") == 1
    assert set(list_paths(room)) <= {"own", "own/lock", "plan.json"}
