"""``--mechanism-file``: a mechanism of one's own on the command line, by its name or alone in its file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shuffledp.mechanisms import plugins
from tests.cli import run
from tests.mechanisms.test_visitor import TOY, forget

# One mechanism, asked by every command.
pytestmark = pytest.mark.usefixtures("each_curve_once", "no_pictures")

__all__ = ["forget"]

CROWD = ("--users", "100")
COMMANDS = {
    "amplify": ("amplify", *CROWD, "--delta", "1e-6", "--epsilon-local", "1"),
    "compare": ("compare", *CROWD, "--delta", "1e-6", "--epsilon-local", "1"),
    "calibrate": ("calibrate", *CROWD, "--delta", "1e-6", "--epsilon", "0.5"),
    "tradeoff": ("tradeoff", *CROWD, "--epsilon-local", "1", "--fpr", "0.1"),
}


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Randomized response under a name of its own."""
    path = tmp_path / "mine.py"
    path.write_text(TOY.format(name="toy"), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_mechanism_of_ones_own(file: str, name: str) -> None:
    """By its name or, alone in its file, without; the numbers are those of the randomized response that it is."""
    words = (*COMMANDS[name], "--set", "options=4", "--json")
    own = run(*words, "--mechanism", "krr").out
    for chosen in (("--mechanism-file", file), ("--mechanism", "toy", "--mechanism-file", file)):
        outcome = run(*words, *chosen)
        assert (outcome.status, outcome.err) == (0, "")
        assert outcome.out.replace('"toy"', '"krr"').replace("Toy", "KRR") == own


def test_an_audit_of_it(file: str) -> None:
    """Its own promise is tested."""
    words = ("audit", "--mechanism-file", file, "--epsilon-local", "1", "--set", "options=4", "--samples", "2000")
    outcome = run(*words, "--json")
    assert outcome.status == 0
    assert json.loads(outcome.out)["epsilon"]["claimed"] == 1.0
    assert json.loads(outcome.out)["subject"].startswith("Toy(")


def test_several_in_one_file_are_told_apart_by_name(tmp_path: Path) -> None:
    """Without a name: one sentence that lists them."""
    path = tmp_path / "two.py"
    second = TOY.format(name="second").replace("class Toy", "class Second")
    path.write_text(TOY.format(name="first") + second, encoding="utf-8")
    words = (*COMMANDS["amplify"], "--set", "options=4", "--mechanism-file", str(path))
    assert run(*words, "--mechanism", "second", "--json").status == 0
    outcome = run(*words)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err == "shuffledp: amplify: two.py has first, second; add --mechanism NAME.\n"


def test_a_bad_file_is_one_sentence(tmp_path: Path) -> None:
    """Exit code 2, nothing on stdout."""
    path = tmp_path / "bad.py"
    path.write_text("def broken(:\n", encoding="utf-8")
    outcome = run(*COMMANDS["amplify"], "--mechanism-file", str(path))
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.startswith("shuffledp: mechanism file: bad.py, line 1: ")
    assert outcome.err.count("\n") == 1


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """Says just that."""
    outcome = run(*COMMANDS["amplify"], "--mechanism-file", str(tmp_path / "gone.py"))
    assert (outcome.status, outcome.out) == (2, "")
    assert "expected a Python file, but there is none at" in outcome.err


def test_a_plan_and_a_collection_with_it(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planned, tried and run; without the file, the plan's mechanism is unknown."""
    plan, out, data = (str(tmp_path / name) for name in ("plan.json", "result", "data.csv"))
    wanted = ("--task", "frequency", "--domain", "4", "--users", "2000", "--epsilon", "1", "--delta", "1e-6")
    made = run("plan", *wanted, "--mechanism", "toy", "--mechanism-file", file, "--out", plan)
    assert (made.status, made.err) == (0, "")
    assert json.loads(Path(plan).read_text("utf-8"))["mechanism"]["name"] == "toy"
    assert run("simulate", plan, "--repeat", "5", "--mechanism-file", file).status == 0
    Path(data).write_text("choice\n" + "0\n1\n2\n3\n" * 500, encoding="utf-8")
    assert run("ledger", "create", "--ledger", str(tmp_path / "ledger")).status == 0
    words = ("collect", plan, "--input", data, "--column", "choice", "--ledger", str(tmp_path / "ledger"))
    collected = run(*words, "--out", out, "--mechanism-file", file)
    assert (collected.status, collected.err) == (0, "")
    certificate = json.loads((Path(out) / "certificate.json").read_text("utf-8"))
    assert "Toy" in json.dumps(certificate["randomizer"])
    plugins._registered.clear()
    monkeypatch.setenv(plugins.FILES_VARIABLE, "")
    refused = run(*words, "--out", str(tmp_path / "again"))
    assert (refused.status, refused.out) == (2, "")
    assert "toy" in refused.err
