"""``shuffledp amplify --certificate`` and ``shuffledp verify``: exit codes, JSON, sentences."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli import run

KRR = ("amplify", "--mechanism", "krr", "--epsilon-local", "2", "--set", "options=16", "--users", "1000")
RAW = ("amplify", "--p", "4", "--beta", "0.2", "--q0", "3", "--q1", "2", "--q-common", "3", "--users", "1000")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A certificate."""
    path = tmp_path / "claim.json"
    outcome = run(*KRR, "--delta", "1e-6", "--certificate", str(path), "--json")
    assert (outcome.status, outcome.err) == (0, "")
    document, claim = json.loads(outcome.out), json.loads(path.read_text(encoding="utf-8"))
    assert document["epsilon"]["upper"] == claim["epsilon"]
    alone = document["without_certificate"]["upper"]
    assert alone < claim["epsilon"] < alone * (1 + 2e-6)
    assert claim["bound"] == document["bound"]
    return path


def test_yes(file: Path) -> None:
    """Exit code 0; the verdict as JSON and as a table."""
    outcome = run("verify", str(file), "--json")
    assert (outcome.status, outcome.err) == (0, "")
    document = json.loads(outcome.out)
    assert document.keys() == {"verdict", "reason", "method"}
    assert document["verdict"] == "yes"
    outcome = run("verify", str(file))
    assert outcome.status == 0
    assert "verdict  yes" in outcome.out


def test_no(file: Path) -> None:
    """Exit code 1 for an ε that is too small."""
    text = file.read_text(encoding="utf-8")
    epsilon = json.loads(text)["epsilon"]
    file.write_text(text.replace(repr(epsilon), repr(epsilon / 2)), encoding="utf-8")
    outcome = run("verify", str(file), "--json")
    assert (outcome.status, outcome.err) == (1, "")
    assert json.loads(outcome.out)["verdict"] == "no"
    assert "above δ" in json.loads(outcome.out)["reason"]


def test_cannot_decide(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 3 where the proof gives up."""
    monkeypatch.setattr("shuffledp_verify.divergence.MAX_TERMS", 1)
    outcome = run("verify", str(file), "--json")
    assert (outcome.status, outcome.err) == (3, "")
    assert json.loads(outcome.out)["verdict"] == "cannot decide"


def test_bad_files(file: Path, tmp_path: Path) -> None:
    """Exit code 2, nothing on stdout, one sentence on stderr."""
    binary, other = tmp_path / "binary", tmp_path / "other.json"
    binary.write_bytes(b"\xff\xfe")
    other.write_text('{"epsilon": 1}', encoding="utf-8")
    for path in (tmp_path / "missing", tmp_path, binary, other):
        outcome = run("verify", str(path))
        assert (outcome.status, outcome.out) == (2, "")
        assert outcome.err.startswith("shuffledp: ")
        assert outcome.err.count("\n") == 1
    outcome = run(*KRR, "--delta", "1e-6", "--certificate", str(tmp_path / "no" / "where"))
    assert (outcome.status, outcome.out) == (2, "")
    assert "cannot write" in outcome.err


@pytest.mark.parametrize("target", [("--delta", "1e-7"), ("--epsilon", "0.1")])
def test_raw_parameters_and_delta_for_epsilon(tmp_path: Path, target: tuple[str, str]) -> None:
    """Both kinds of answers, users after colluding."""
    path = tmp_path / "claim.json"
    assert run(*RAW, *target, "--colluding", "100", "--certificate", str(path)).status == 0
    assert json.loads(path.read_text(encoding="utf-8"))["users"] == 900
    assert run("verify", str(path)).status == 0


def test_a_table(tmp_path: Path) -> None:
    """A randomizer from a file."""
    table, path = tmp_path / "table.csv", tmp_path / "claim.json"
    table.write_text("0.5,0.3,0.2\n0.2,0.3,0.5\n0.3,0.4,0.3\n", encoding="utf-8")
    arguments = ("amplify", "--table", str(table), "--users", "300", "--delta", "1e-6", "--certificate", str(path))
    assert run(*arguments).status == 0
    assert run("verify", str(path)).status == 0


@pytest.mark.parametrize("bound", ["variation-ratio-published", "analytic"])
def test_what_is_not_certified(tmp_path: Path, bound: str) -> None:
    """A published number and a closed form: one sentence, no file."""
    path = tmp_path / "claim.json"
    given = ("amplify", "--p", "4", "--beta", "0.2", "--q", "4", "--users", "1e6", "--delta", "1e-6")
    outcome = run(*given, "--bound", bound, "--certificate", str(path))
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.startswith("shuffledp: certificate: ")
    assert not path.exists()
