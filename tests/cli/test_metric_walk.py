"""From a solved metric to a running collection: solve, plan, collect, and what is said where a file does not fit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp._core.errors import GuaranteeTooWeak
from shuffledp.ledger.collection_guarantee import Guarantee
from tests.cli import CommandResult, replace_options, run

SOLVE = ["metric", "solve", "--users", "1e4", "--delta", "1e-6", "--diameters", "1"]
PLAN = ["plan", "--task", "frequency", "--epsilon", "0.3", "--delta", "1e-6", "--mechanism", "padded-exponential"]


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A solved metric and its target, a plan, and people at three places."""
    room = tmp_path_factory.mktemp("walk")
    (room / "wanted.csv").write_text("0,0.1,0.3\n0.1,0,0.2\n0.3,0.2,0\n", "utf-8")
    shown = run(*SOLVE, "--matrix", str(room / "wanted.csv"), "--out", str(room / "m.csv"))
    assert shown.status == 0, shown.err
    # What is printed at the end is how to go on.
    assert f"--set distances={room / 'm.csv'} --target-distances {room / 'm.target.csv'}" in shown.out
    assert "--domain 3 --users 10000 --epsilon 0.3 --delta 1e-06" in shown.out
    planned = run(*PLAN, "--users", "1e4", "--domain", "3", *files(room), "--out", str(room / "plan.json"))
    assert planned.status == 0, planned.err
    for name, people in (("people.csv", 10_000), ("few.csv", 6_000)):
        (room / name).write_text("place\n" + "0\n1\n1\n2\n" * (people // 4), "utf-8")
    return room


def files(room: Path) -> list[str]:
    return ["--set", f"distances={room / 'm.csv'}", "--target-distances", str(room / "m.target.csv")]


def collected(room: Path, people: str, out: str, *more: str) -> CommandResult:
    words = ["--input", str(room / people), "--column", "place", "--no-ledger", "--out", str(room / out)]
    return run("collect", str(room / "plan.json"), *words, *more)


def test_the_files(room: Path) -> None:
    """Every number as it was found: a metric that meets its target, pair by pair."""
    local, target = (sdp.metric.DistanceMatrix.from_csv(room / name) for name in ("m.csv", "m.target.csv"))
    assert target == sdp.metric.DistanceMatrix.from_csv(room / "wanted.csv")
    local.check_triangle_inequality("m.csv")
    assert (sdp.metric.AmplifiedMetric(local, 10_000, 1e-6).matrix <= target.matrix * (1 + 1e-9)).all()


def test_the_plan_says_what_it_runs(room: Path) -> None:
    """The table and the targets are in the plan, which needs the files no more."""
    plan = sdp.Plan.load(room / "plan.json")
    local = sdp.metric.DistanceMatrix.from_csv(room / "m.csv")
    assert plan.mechanism == sdp.PaddedExponential(local.matrix)
    assert plan.target_distances == sdp.metric.DistanceMatrix.from_csv(room / "m.target.csv")
    assert sdp.Plan.parse(plan.text()) == plan
    assert ("mechanism", "padded-exponential (distances = a table of 3 × 3)") in plan.summary()
    assert ("target of two values", "an ε for each pair, from 0.1 to 0.3") in plan.summary()
    python = sdp.plan(
        sdp.tasks.Frequency(3), 1e4, 0.3, 1e-6, mechanism="padded-exponential",
        settings={"distances": local.matrix}, target_distances=plan.target_distances,
    )  # fmt: skip
    assert python.best.plan == plan


def test_the_collection(room: Path) -> None:
    """The report has the guarantee of every pair, at most its target, and the certificate is proved."""
    shown = collected(room, "people.csv", "result")
    assert shown.status == 0, shown.err
    assert "an ε for each pair, from 0.1 to 0.3, met" in shown.out
    report = json.loads((room / "result" / "report.json").read_text("utf-8"))
    held = report["guarantee"]
    target, proved = np.array(held["target_distances"]), np.array(held["distances"])
    assert held["target_met"]
    assert (proved <= target).all()
    # By another route: the exact laws of the mechanism, pair by pair.
    own = sdp.metric.MechanismMetric(sdp.Plan.load(room / "plan.json").mechanism, 10_000, 1e-6).matrix(range(3))
    assert (own <= proved).all()
    assert own.max() <= held["epsilon"]["upper"] * (1 + 1e-9)
    assert "Every two values keep an ε for each pair, from 0.1 to 0.3, as planned" in report["statement"]
    assert sum(row["estimate"] for row in report["estimates"]) == pytest.approx(10_000)
    proof = run("verify", str(room / "result" / "certificate.json"))
    assert proof.status == 0, proof.out


def test_too_few_users(room: Path) -> None:
    """Fewer than the metric was solved for: refused by a plan and by a collection, unless that is accepted."""
    planned = run(*PLAN, "--users", "6000", "--domain", "3", *files(room))
    refused = collected(room, "few.csv", "refused")
    for outcome in (planned, refused):
        assert outcome.status in (2, 3)
        assert (
            "values 0 and 1 have the target ε = 0.1, which cannot be proved for the local distances with 6,000 users"
            in outcome.err
        )
        assert outcome.err.count("\n") == 1
    assert not (room / "refused").exists()
    assert collected(room, "few.csv", "weaker", "--allow-weaker").status == 0
    statement = json.loads((room / "weaker" / "report.json").read_text("utf-8"))["statement"]
    assert "Values 0 and 1, and perhaps others, MISS the ε of their own" in statement


@pytest.mark.exhaustive
def test_the_mechanism_elsewhere(room: Path) -> None:
    """``amplify`` takes the file too, for all values or for two."""
    words = ["amplify", "--users", "1e4", "--delta", "1e-6", "--mechanism", "padded-exponential", *files(room)[:2]]
    mechanism = sdp.PaddedExponential(sdp.metric.DistanceMatrix.from_csv(room / "m.csv").matrix)
    for more, pair in (([], None), (["--pair", "0", "--pair", "1"], (0, 1))):
        outcome = run(*words, *more, "--json")
        assert outcome.status == 0, outcome.err
        wanted = sdp.amplify(mechanism, 10_000, pair=pair).epsilon(1e-6).upper
        assert json.loads(outcome.out)["epsilon"]["upper"] == wanted


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ("0,1\n1,0\n1,1\n", "plan: expected as many rows as columns, got shape (3, 2)."),
        ("0,1,1\n1,0\n1,1,0\n", "plan: expected rows of numbers, all of one length."),
        ("0,1,1\n1,0,1\n1,2,0\n", "plan: row 1, column 2 must equal row 2, column 1, which is 2.0, got 1.0."),
        ("0,-1,1\n-1,0,1\n1,1,0\n", "plan: row 0, column 1 must not be negative, got -1.0."),
        ("0,x,1\n1,0,1\n1,1,0\n", "plan: row 0, column 1 must be a number, got 'x'."),
        ("0,1,5\n1,0,2\n5,2,0\n", "plan: the distances must obey the triangle inequality, but row 0, column 2 is 5.0"),
        ("0,1\n1,0\n", "plan: padded-exponential has 2 rows of distances, but the domain has 3 options."),
    ],
)
def test_bad_tables_are_one_sentence(tmp_path: Path, table: str, sentence: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(table, "utf-8")
    outcome = run(*PLAN, "--users", "1e4", "--domain", "3", "--set", f"distances={path}")
    assert outcome.status == 2
    assert outcome.err.count("\n") == 1
    assert sentence in outcome.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "plan: setting distances is missing; add --set distances=…."),
        (["--set", "distances=no-such.csv"], "plan: cannot read no-such.csv"),
        (["--set", "distances=M", "--target-distances", "TWO"], "expected target distances of 3 values"),
        (["--set", "distances=M", "--target-distances", "T", "--rounds", "2"], "target distances are for one round"),
        (["--set", "distances=M", "--epsilon", "0.001"], "no mechanism meets the target within the limits; it reaches"),
        (["--set", "distances=M", "--mechanism", "krr"], "settings are searched, unless the mechanism is a table"),
        (["--target-distances", "T", "--mechanism", "krr"], "target distances need a mechanism on distances"),
    ],
)
def test_bad_choices_are_one_sentence(room: Path, words: list[str], sentence: str) -> None:
    two = room / "two.csv"
    two.write_text("0,1\n1,0\n", "utf-8")
    places = {"distances=M": f"distances={room / 'm.csv'}", "T": str(room / "m.target.csv"), "TWO": str(two)}
    asked = (*PLAN, "--users", "1e4", "--domain", "3")
    outcome = run(*replace_options(asked, *(places.get(word, word) for word in words)))
    assert outcome.status == 2
    assert outcome.err.count("\n") == 1
    assert sentence in outcome.err


@pytest.mark.exhaustive
def test_answers_can_be_chosen(tmp_path: Path) -> None:
    """By number, or the one with which counts have the least error."""
    (tmp_path / "wanted.csv").write_text("0,0.1,0.3\n0.1,0,0.2\n0.3,0.2,0\n", "utf-8")
    words = ["metric", "solve", "--users", "1e4", "--delta", "1e-6", "--diameters", "2", "--json"]
    words += ["--matrix", str(tmp_path / "wanted.csv")]
    best = json.loads(run(*words, "--out", str(tmp_path / "best.csv")).out)
    errors = [
        sdp.tasks.Frequency(3).standard_error(sdp.PaddedExponential(np.array(answer["metric"])), 10_000)
        for answer in best["solutions"]
    ]
    assert len(errors) == 2
    assert best["written"]["answer"] == 1 + int(np.argmin(errors))
    assert best["written"]["standard_error"] == pytest.approx(min(errors))
    other = 3 - best["written"]["answer"]
    chosen = run(*words, "--out", str(tmp_path / "other.csv"), "--answer", str(other))
    written = sdp.metric.DistanceMatrix.from_csv(tmp_path / "other.csv")
    assert written.matrix.tolist() == json.loads(chosen.out)["solutions"][other - 1]["metric"]
    for more, sentence in (
        (["--out", str(tmp_path / "x.csv"), "--answer", "3"], "--answer must be at most the 2 answers found, got 3"),
        (["--answer", "1"], "--answer goes with --out"),
        (["--out", str(tmp_path / "no" / "x.csv")], "expected a file in an existing directory to write to"),
    ):
        outcome = run(*words, *more)
        assert outcome.status == 2
        assert sentence in outcome.err


def test_a_plan_of_a_table_by_hand() -> None:
    """A path in a plan file is not read: a plan says itself what it runs."""
    table = [[0.0, 1.0], [1.0, 0.0]]
    plan = sdp.Plan(sdp.tasks.Frequency(2), sdp.PaddedExponential(table), users=1000, epsilon=1, delta=1e-6)  # type: ignore[arg-type]
    document = plan.document()
    document["mechanism"]["settings"]["distances"] = "m.csv"
    with pytest.raises(ValueError, match="distances must be a table, a list of rows"):
        sdp.Plan.parse(json.dumps(document))


def test_a_promise_for_pairs_is_for_one_row_of_each_person() -> None:
    table = sdp.metric.DistanceMatrix([[0.0, 1.0], [1.0, 0.0]])  # type: ignore[arg-type]
    mechanism = sdp.PaddedExponential(table.matrix)
    task = sdp.tasks.Frequency(2)
    plan = sdp.Plan(task, mechanism, users=1000, epsilon=1, delta=1e-6, target_distances=table)
    with pytest.raises(GuaranteeTooWeak, match="holds for one row of each person, got up to 2"):
        Guarantee(plan, 1000, per_person=2).require_target(allow_weaker=False)
