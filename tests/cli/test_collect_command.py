"""``collect``, its roles apart, and ``ledger``, as they are typed."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from shuffledp import amplify
from shuffledp.ledger.ledger import Ledger
from tests.cli import run
from tests.collection import COLOURS, list_paths, random_column, small_plan, write_table

ROWS = 1000


@pytest.fixture
def room(tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a plan and data, where the command is typed."""
    monkeypatch.chdir(tmp_path)
    small_plan("krr", users=ROWS).save(tmp_path / "plan.json")
    write_table(tmp_path / "data.csv", colour=random_column("krr", ROWS), age=random_column("laplace", ROWS))
    return tmp_path


def test_collect_writes_a_report(room: Path) -> None:
    """The summary names the guarantee; the certificate can be proved again; the ledger knows."""
    outcome = run("collect", "plan.json", "--input", "data.csv", "--column", "colour", "--out", "out")
    assert (outcome.status, outcome.err) == (0, "")
    assert "saw the raw data" in " ".join(outcome.out.split())
    for label in COLOURS:
        assert label in outcome.out
    words = (room / "out" / "report.md").read_text("utf-8")
    for part in ("differential privacy", "saw the raw data", "1,000 of 1,000 planned", "certificate.json", "red"):
        assert part in words
    assert run("verify", "out/certificate.json").status == 0
    assert pq.read_table(room / "out" / "estimates.parquet").num_rows == len(COLOURS)
    assert (room / "out" / "estimates.csv").read_text("utf-8").splitlines()[0].startswith('"quantity","label"')
    assert (room / "out" / "estimates.png").read_bytes()[1:4] == b"PNG"
    shown = run("ledger")
    assert shown.status == 0
    assert "test: ε = " in shown.out
    assert "released" in shown.out


def test_json_is_all_there_is_on_stdout(room: Path) -> None:
    """The report as one object; the numbers are amplify's, raised to what the certificate claims."""
    outcome = run("collect", "plan.json", "--input", "data.csv", "--column", "colour", "--out", "out", "--json")
    assert outcome.err == ""
    document = json.loads(outcome.out)
    wanted = amplify(small_plan("krr").mechanism, ROWS, effort="quick").epsilon(1e-6)
    assert document["guarantee"]["without_certificate"] == {"upper": wanted.upper, "bound": wanted.bound}
    assert wanted.upper <= document["guarantee"]["epsilon"]["upper"] <= wanted.upper * (1 + 1e-6)
    assert document["guarantee"]["epsilon"]["lower"] == wanted.lower
    assert document["guarantee"]["certified"] is True
    assert document["users"] == ROWS
    assert [row["label"] for row in document["estimates"]] == list(COLOURS)
    saved = json.loads((room / "out" / "report.json").read_text("utf-8"))
    assert saved == {key: value for key, value in document.items() if key != "out"}
    ledger = json.loads(run("ledger", "show", "--json").out)
    assert [len(people["collections"]) for people in ledger["populations"]] == [0, 1]
    assert ledger["populations"][1]["collections"][0]["users"] == ROWS
    assert ledger["populations"][1]["collections"][0]["digest"]
    assert run("ledger", "check", "--report", "out/report.json").status == 0


def test_roles_apart(room: Path) -> None:
    """encode, shuffle, estimate, each with --json."""
    common = ("--input", "data.csv", "--column", "colour", "--json")
    assert json.loads(run("encode", "plan.json", *common, "--out", "a.parquet").out)["messages"] == ROWS
    assert run("encode", "plan.json", *common[:-1], "--out", "b.parquet").status == 0
    shuffled = run("shuffle", "a.parquet", "b.parquet", "--out", "shuffled", "--plan", "plan.json", "--json")
    assert json.loads(shuffled.out)["messages"] == 2 * ROWS
    outcome = run("estimate", "plan.json", "--input", "shuffled", "--out", "out", "--json")
    assert json.loads(outcome.out)["users"] == 2 * ROWS
    (people,) = json.loads(run("ledger", "show", "--population", "test", "--json").out)["populations"]
    # The estimator sees what the shuffler has already written down.
    assert [entry["users"] for entry in people["collections"]] == [2 * ROWS]


def test_a_budget_on_the_command_line(room: Path) -> None:
    """Set, shown, and kept: exit code 2 and nothing written."""
    assert run("ledger", "budget", "test", "--epsilon", "0.01", "--delta", "1e-6").status == 0
    before = list_paths(room)
    outcome = run("collect", "plan.json", "--input", "data.csv", "--column", "colour", "--out", "out")
    assert (outcome.status, outcome.out) == (2, "")
    assert "above the budget 0.01" in outcome.err
    assert list_paths(room) == before
    assert "budget 0.01" in run("ledger").out
    assert "--delta" in run("ledger", "budget", "test", "--epsilon", "1").err


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("none.json", "--input", "data.csv", "--column", "colour"), "plan: cannot read none.json"),
        (("data.csv", "--input", "data.csv", "--column", "colour"), "plan: expected JSON"),
        (("plan.json", "--input", "none.csv", "--column", "colour"), "expected a file, got 'none.csv'"),
        (
            ("plan.json", "--input", "plan.json", "--column", "colour"),
            "expected a file whose name ends in .parquet",
        ),
        (("plan.json", "--input", "data.csv", "--column", "color"), "has no column 'color'; it has colour, age"),
        (("plan.json", "--input", "data.csv", "--column", "age"), "expected one of the plan's 4 categories"),
        (
            ("mean.json", "--input", "data.csv", "--column", "colour"),
            "row 1, column 'colour': expected numbers",
        ),
        (("plan.json", "--input", "empty.csv", "--column", "colour"), "cannot read empty.csv"),
        (("plan.json", "--input", "header.csv", "--column", "colour"), "at least one row"),
        (("plan.json", "--input", "bad.parquet", "--column", "colour"), "cannot read bad.parquet"),
        (("plan.json", "--input", "data.csv", "--column", "colour", "--engine", "dask"), "engine must be one of"),
        (("plan.json", "--input", "data.csv", "--column", "colour", "--master", "x"), "--master needs"),
        (("large.json", "--input", "data.csv", "--column", "colour"), "above the target 0.01; nothing was released"),
        (("plan.json", "--column", "colour"), "--input"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_written(room: Path, arguments: tuple[str, ...], part: str) -> None:
    """Exit code 2, one line on stderr, and the same files as before."""
    small_plan("laplace").save(room / "mean.json")
    small_plan("krr", users=100_000, epsilon=0.01).save(room / "large.json")
    (room / "empty.csv").write_text("")
    (room / "header.csv").write_text("colour\n")
    (room / "bad.parquet").write_text("no parquet")
    before = list_paths(room)
    outcome = run("collect", *arguments, "--out", "out")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.count("\n") == 1
    assert part in outcome.err
    assert list_paths(room) == before


def test_spark_without_java_is_a_sentence(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what to install, and what to use instead."""
    monkeypatch.setattr("shuffledp.spark.secure_session.shutil.which", lambda name: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("shuffledp.spark.secure_session.find_running_session", lambda: None)
    arguments = ("plan.json", "--input", "data.csv", "--column", "colour", "--out", "out", "--engine", "spark")
    outcome = run("collect", *arguments)
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert "Java 17 was not found" in outcome.err
    assert "--engine embedded" in outcome.err
