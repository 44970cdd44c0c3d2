"""``shuffledp plan`` and ``shuffledp simulate``: tables, JSON, the plan file that ``collect`` takes, and bad input."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from shuffledp.planning.plan import Plan
from shuffledp.tasks.registry import command_names
from tests.cli import run
from tests.collection import write_table

# The same few plans in many words.
pytestmark = pytest.mark.usefixtures("each_curve_once")

TARGET = ("--users", "2e4", "--epsilon", "1", "--delta", "1e-6")
TASKS = {
    "frequency": ("--domain", "8", "--mechanism", "krr"),
    "mean": ("--low", "0", "--high", "5", "--mechanism", "piecewise"),
    "sum": ("--low", "0", "--high", "5", "--mechanism", "piecewise"),
    "count": ("--mechanism", "piecewise"),
    "variance": ("--low", "0", "--high", "5", "--mechanism", "harmony"),
    "set-valued": ("--domain", "8", "--items", "2", "--mechanism", "privset"),
    "key-value": ("--domain", "5", "--items", "2", "--low", "0", "--high", "5", "--mechanism", "pckv"),
    "vector-mean": ("--dimension", "3", "--mechanism", "harmony"),
    "location": ("--west", "0", "--east", "2", "--south", "0", "--north", "1", "--columns", "4", "--mechanism", "krr"),
    "range-queries": ("--domain", "12", "--mechanism", "range-queries"),
    "survey": ("--question", "poisson-dump:a:2:domain=3", "--question", "split-and-mix:b::low=0,high=9", "--rests-on",
               "shuffler"),
    "marginals": ("--question", "frequency:a::domain=3", "--question", "frequency:b::domain=2", "--mechanism",
                  "parallel"),
    "counts-over-time": ("--domain", "12", "--mechanism", "range-tree", "--rests-on", "shuffler"),
}  # fmt: skip


ELSEWHERE = {"heavy-hitters", "heavy-hitters-at-once"}
"""What promises more than an error: tests/tasks and tests/collection try these."""


def test_every_task_is_tried() -> None:
    assert {*TASKS, *ELSEWHERE} == set(command_names()), "add its options to TASKS above"


@pytest.mark.exhaustive("marginals")
@pytest.mark.parametrize("task", TASKS)
def test_every_task_is_planned_and_simulated(task: str, tmp_path: Path) -> None:
    """From the target to a file, and from the file to the check of its promise."""
    path = tmp_path / "plan.json"
    outcome = run("plan", "--task", task, *TASKS[task], *TARGET, "--out", str(path), "--json")
    assert (outcome.status, outcome.err) == (0, "")
    document = json.loads(outcome.out)
    (best,) = (offer for offer in document["mechanisms"] if offer["name"] == document["best"])
    # Noise that is read day by day is in the clear.
    assert document["best_local"] == (None if task in ("counts-over-time", "survey") else document["best"])
    assert best["epsilon"]["upper"] <= 1.0
    assert best["certified"]
    written = json.loads(path.read_text("utf-8"))
    assert len(written.pop("check")) == 64
    assert document["plan"] == written
    checked = run("simulate", str(path), "--repeat", "20", "--json")
    assert (checked.status, checked.err) == (0, "")
    told = json.loads(checked.out)
    assert told["promised"] == pytest.approx(best["standard_error"])
    # Twenty errors or more: their mean square is within a factor of 4 but for one chance in 1e6.
    assert 0.5 < told["standard_error"]["ratio"] < 2


@pytest.mark.exhaustive
def test_the_table_says_what_counts() -> None:
    """Error, local ε, bits, the yardstick, what the error is stated for, and who must be trusted."""
    outcome = run("plan", "--task", "frequency", "--domain", "8", *TARGET, "--max-messages", "1", "--max-bits", "4")
    assert (outcome.status, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert all(len(line.rstrip()) <= 80 for line in lines[: lines.index("Left out:")])
    text = " ".join(outcome.out.split())
    assert "frequency: 20,000 users, ε = 1, δ = 1e-6; at most 4 bits, at most 1 messages" in text
    assert "users spread evenly over the options" in text
    assert "trusted curator's error (Laplace noise)" in text
    assert "pure-dump, mix-dump" in text or "sends 2 messages a user." in text
    assert any(line.startswith("krr ") and line.rstrip().endswith("local ε") for line in lines)


def test_what_rests_on_the_shuffler_alone_must_be_asked_for(tmp_path: Path) -> None:
    """Without the option nothing is written, and a sentence says what to ask for; a table alone is shown."""
    path = tmp_path / "plan.json"
    asked = ("plan", "--task", "frequency", "--domain", "8", *TARGET, "--mechanism", "pure-dump")
    refused = run(*asked, "--out", str(path))
    assert (refused.status, refused.out) == (2, "")
    assert refused.err.startswith("shuffledp: plan: no mechanism that meets the target has a local ε")
    assert refused.err.endswith("get pure-dump, which rests on the shuffler alone, by --rests-on shuffler.\n")
    assert refused.err.count("\n") == 1
    assert not path.exists()
    shown = run(*asked)
    assert (shown.status, shown.err) == (0, "")
    assert "No plan: no mechanism that meets the target has a local ε" in " ".join(shown.out.split())
    told = json.loads(run(*asked, "--json").out)
    assert (told["plan"], told["best"], told["best_by_shuffler"]) == (None, None, "pure-dump")
    written = run(*asked, "--rests-on", "shuffler", "--out", str(path))
    assert (written.status, written.err) == (0, "")
    assert f"The plan with pure-dump was written to {path}" in " ".join(written.out.split())
    assert Plan.load(path).mechanism.local_epsilon is None


def test_a_plan_for_fewer_users(tmp_path: Path) -> None:
    """Both numbers are typed, in the head of the table, in the file and in JSON; the promise at fewer is below."""
    path = tmp_path / "plan.json"
    asked = ("plan", "--task", "frequency", "--domain", "8", *TARGET, "--mechanism", "krr", "--minimum", "5e3",
             "--colluding", "500", "--out", str(path))  # fmt: skip
    shown = run(*asked)
    assert (shown.status, shown.err) == (0, "")
    text = " ".join(shown.out.split())
    assert text.startswith("frequency: 20,000 users (at least 5,000), 500 colluding, ε = 1, δ = 1e-6")
    assert "with 10,000 users (half) and ε = " in text
    assert "with 2,000 users (a tenth)" in text
    plan = Plan.load(path)
    assert (plan.users, plan.minimum, plan.colluding) == (20_000, 5000, 500)
    told = json.loads(run(*asked, "--json").out)
    assert (told["minimum"], told["colluding"]) == (5000, 500)
    assert [each["share"] for each in told["fewer_users"]["krr"]] == ["half", "a tenth"]
    simulated = run("simulate", str(path), "--repeat", "2")
    assert (simulated.status, simulated.err) == (0, "")
    for share in ("if half take part", "if a tenth take part"):
        assert share in simulated.out
    told = json.loads(run("simulate", str(path), "--repeat", "2", "--json").out)
    assert [each["users"] for each in told["fewer_users"]] == [10_000, 2000]


@pytest.mark.exhaustive
def test_a_plot_is_drawn(tmp_path: Path) -> None:
    """A picture of some size."""
    path = tmp_path / "plan.png"
    done = run("plan", "--task", "frequency", "--domain", "4", *TARGET, "--mechanism", "krr", "--plot", str(path))
    assert done.status == 0
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert path.stat().st_size > 10_000


def test_collect_takes_the_plan(tmp_path: Path) -> None:
    """Names of options from a file, then a collection of them that meets the target."""
    names = tmp_path / "colours.txt"
    names.write_text("red\ngreen\nblue\n", encoding="utf-8")
    plan = tmp_path / "plan.json"
    asked = ("--task", "frequency", "--categories", str(names), "--users", "3000", "--epsilon", "1", "--delta", "1e-6")
    assert run("plan", *asked, "--mechanism", "pure-dump", "--rests-on", "shuffler", "--out", str(plan),
               "--population", "painters").status == 0  # fmt: skip
    assert Plan.load(plan).population == "painters"
    rng = np.random.default_rng(5)
    data = write_table(tmp_path / "data.parquet", colour=rng.choice(["red", "green", "blue"], 3000).tolist())
    ledger = ("--ledger", str(tmp_path / "ledger.sqlite"))
    assert run("ledger", "create", *ledger, "--population", "painters").status == 0
    done = run("collect", str(plan), "--input", str(data), "--column", "colour", "--out", str(tmp_path / "out"),
               *ledger, "--json")  # fmt: skip
    assert (done.status, done.err) == (0, "")
    report = json.loads(done.out)
    assert report["guarantee"]["target_met"]
    assert report["standard_error"] == pytest.approx(report["promise"]["standard_error"], rel=0.01)


def test_simulations_of_many_users_say_what_they_did(tmp_path: Path) -> None:
    """A trillion users by their law; a mean by real messages of fewer."""
    plan = tmp_path / "plan.json"
    assert run("plan", "--task", "frequency", *TASKS["frequency"], *TARGET, "--out", str(plan)).status == 0
    text = run("simulate", str(plan), "--users", "1e12").out
    assert "1,000,000,000,000" in text
    assert "drawn from their exact law" in text
    assert run("plan", "--task", "mean", *TASKS["mean"], *TARGET, "--out", str(plan)).status == 0
    text = run("simulate", str(plan), "--repeat", "2", "--users", "1e9").out
    assert "Messages were encoded" in text
    assert "as more would take too long" in text


BAD = [
    (("--task", "guess"), "task must be one of frequency, mean"),
    (("--task", "frequency"), "needs --domain or --categories FILE"),
    (("--task", "frequency", "--domain", "1"), "domain must be at least 2"),
    (("--task", "frequency", "--domain", "8", "--items", "2"), "--items does not go with --task frequency"),
    (("--task", "mean", "--low", "3"), "needs --high"),
    (("--task", "mean", "--low", "3", "--high", "2"), "low must be below high"),
    (("--task", "set-valued", "--domain", "8", "--items", "9"), "items must be at most the 8 options"),
    (("--task", "location", "--west", "0"), "needs --east"),
    (("--task", "frequency", "--categories", "nowhere.txt"), "cannot read nowhere.txt"),
    (("--task", "frequency", "--domain", "8", "--mechanism", "laplace"), "mechanism must be one of"),
    (("--task", "frequency", "--domain", "8", "--rests-on", "nothing"), "rests-on must be local, shuffler or"),
    (("--task", "frequency", "--domain", "8", "--minimum", "0"), "minimum must be at least 1, got 0"),
    (("--task", "frequency", "--domain", "8", "--minimum", "3e4"), "minimum must be at most the 20000 planned users"),
    (("--task", "frequency", "--domain", "8", "--minimum", "50", "--colluding", "50"), "colluding must be below the"),
    (("--task", "frequency", "--domain", "8", "--colluding", "2e4"), "colluding must be below the 20000 users"),
    (("--task", "frequency", "--domain", "8", "--max-bits", "0"), "max-bits must be at least 1"),
    (("--task", "frequency", "--domain", "8", "--plot", "plot.txt"), "--plot must end in .png"),
    (("--task", "frequency", "--domain", "8", "--out", "nowhere/plan.json"), "in an existing directory"),
    (("--task", "frequency", "--domain", "8", "--mechanism", "oue", "--max-bits", "4"), "sends 8 bits a user"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "part"), BAD, ids=[part for _, part in BAD])
def test_bad_input_is_one_sentence(
    arguments: tuple[str, ...], part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 2, nothing on stdout, nothing written."""
    monkeypatch.chdir(tmp_path)
    outcome = run("plan", *arguments, *TARGET)
    assert (outcome.status, outcome.out) == (2, "")
    assert part in outcome.err
    assert outcome.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"--users": "0"}, "users must be at least 1"),
        ({"--epsilon": "-1"}, "epsilon must be above 0"),
        ({"--delta": "1"}, "delta must be between 0 and 1"),
        ({"--rounds": "0"}, "rounds must be at least 1"),
    ],
)
def test_bad_targets_are_sentences(changes: dict[str, str], part: str) -> None:
    """The numbers of the goal are checked before anything is computed."""
    given = {"--users": "1e4", "--epsilon": "1", "--delta": "1e-6"} | changes
    outcome = run("plan", "--task", "frequency", "--domain", "8", *(text for pair in given.items() for text in pair))
    assert (outcome.status, outcome.out) == (2, "")
    assert part in outcome.err


def test_bad_simulations_are_sentences(tmp_path: Path) -> None:
    """No plan, and too many users."""
    outcome = run("simulate", str(tmp_path / "plan.json"))
    assert (outcome.status, outcome.out) == (2, "")
    assert "cannot read" in outcome.err
    plan = tmp_path / "plan.json"
    assert run("plan", "--task", "frequency", *TASKS["frequency"], *TARGET, "--out", str(plan)).status == 0
    outcome = run("simulate", str(plan), "--users", "1e18")
    assert (outcome.status, outcome.out) == (2, "")
    assert "at most 1e+15 messages" in outcome.err
