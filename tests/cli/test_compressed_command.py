"""Compressed mechanisms on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from shuffledp.ledger.ledger import Ledger
from tests.cli import run
from tests.collection import write_table

pytestmark = pytest.mark.usefixtures("no_pictures")


def test_amplify_takes_a_compressed_mechanism() -> None:
    """By its prefixed name; the answer carries the assumption as a note."""
    words = ["amplify", "--mechanism", "compressed-rappor", "--epsilon-local", "2", "--set", "options=100"]
    outcome = run(*words, "--users", "10000", "--delta", "1e-6", "--json")
    assert outcome.status == 0, outcome.err
    document = json.loads(outcome.out)
    assert document["mechanism"] == {
        "name": "compressed-rappor",
        "epsilon": 2.0,
        "options": 100,
        "gamma": 1e-9,
        "prg": "aes-ctr",
    }
    assert document["guarantee"]
    assert "AES-128" in document["note"]
    assert 0 < document["epsilon"]["upper"] < 0.2


def test_calibrate_takes_a_compressed_mechanism() -> None:
    """The local ε is searched as for the mechanism itself."""
    words = ["calibrate", "--mechanism", "compressed-rappor", "--set", "options=100", "--users", "10000"]
    outcome = run(*words, "--epsilon", "0.5", "--delta", "1e-6", "--json")
    assert outcome.status == 0, outcome.err
    document = json.loads(outcome.out)
    assert document["mechanism"]["name"] == "compressed-rappor"
    assert document["mechanism"]["epsilon"] > 2


def test_a_mechanism_without_a_proposal_law_is_refused() -> None:
    """One sentence, exit 2."""
    words = ["amplify", "--mechanism", "compressed-piecewise", "--epsilon-local", "2"]
    outcome = run(*words, "--users", "10000", "--delta", "1e-6")
    assert outcome.status == 2
    assert outcome.out == ""
    assert "with a proposal law" in outcome.err


def test_amplify_takes_runs_of_a_compressed_mechanism() -> None:
    """Prefixes one after the other; ε is that of one run."""
    words = ["amplify", "--mechanism", "repeated-compressed-privunit-g", "--epsilon-local", "2", "--set", "runs=2"]
    outcome = run(*words, "--set", "dimension=64", "--users", "10000", "--delta", "1e-6", "--json")
    assert outcome.status == 0, outcome.err
    document = json.loads(outcome.out)
    assert document["mechanism"]["name"] == "repeated-compressed-privunit-g"
    assert (document["mechanism"]["epsilon"], document["mechanism"]["runs"]) == (2.0, 2)
    assert document["parameters"]["p"] == pytest.approx(np.exp(4.0), rel=1e-5)
    assert "AES-128" in document["note"]


def test_runs_without_their_number_are_refused() -> None:
    """One sentence, exit 2."""
    words = ["amplify", "--mechanism", "repeated-privhs", "--epsilon-local", "2", "--set", "dimension=4"]
    outcome = run(*words, "--users", "10000", "--delta", "1e-6")
    assert (outcome.status, outcome.out) == (2, "")
    assert "setting runs is missing" in outcome.err


def test_runs_of_a_compressed_mechanism_are_planned_and_collected(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the target to a plan, to messages of two seeds, to the mean of the vectors, by each role."""
    monkeypatch.chdir(tmp_path)
    rows, mean = 2000, np.full(16, 0.2)
    words = ("--task", "vector-mean", "--dimension", "16", "--mechanism", "repeated-compressed-privunit-g")
    planned = run("plan", *words, "--users", str(rows), "--epsilon", "2", "--delta", "1e-6", "--out", "plan.json")
    assert planned.status == 0, planned.err
    vectors = mean + np.random.default_rng(1).uniform(-0.02, 0.02, (rows, 16))
    write_table(tmp_path / "data.parquet", vector=vectors.tolist())
    told = ("--input", "data.parquet", "--column", "vector", "--out", "a.parquet", "--json")
    encoded = run("encode", "plan.json", *told)
    assert encoded.status == 0, encoded.err
    assert json.loads(encoded.out)["messages"] == rows
    assert run("shuffle", "a.parquet", "--out", "shuffled", "--plan", "plan.json").status == 0
    outcome = run("estimate", "plan.json", "--input", "shuffled", "--out", "out", "--json")
    assert outcome.status == 0, outcome.err
    document = json.loads(outcome.out)
    assert document["users"] == rows
    assert document["guarantee"]["target_met"]
    found = np.array([row["estimate"] for row in document["estimates"]])
    spread = np.array([row["standard_error"] for row in document["estimates"]])
    assert (np.abs(found - vectors.mean(axis=0)) < 6 * spread).all()
    assert spread.max() < 0.1
