"""shuffledp calibrate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import shuffledp as sdp
from tests.cli import run

# The same few searches in many words.
pytestmark = pytest.mark.usefixtures("each_curve_once")

KRR = ["--mechanism", "krr", "--set", "options=128"]
TARGET = ["--epsilon", "1", "--delta", "1e-8"]


def answer(*words: str) -> dict[str, Any]:
    outcome = run("calibrate", *words, "--json")
    assert outcome.status == 0, outcome.err
    assert outcome.err == ""
    document = json.loads(outcome.out)
    assert isinstance(document, dict)
    return document


def test_the_largest_local_epsilon() -> None:
    """The same value as in Python, with what stands behind it."""
    document = answer(*KRR, "--users", "1e4", *TARGET)
    expected = sdp.calibrate(sdp.KRR, options=128, users=10_000, epsilon=1.0, delta=1e-8, effort="quick")
    assert document["value"] == document["mechanism"]["epsilon"] == expected.value
    for spelling in ("local-epsilon", "epsilon-local"):
        assert answer("--users", "1e3", *TARGET, "--find", spelling)["find"] == "epsilon_local"
    assert document["find"] == "epsilon_local"
    assert document["epsilon"]["upper"] == expected.epsilon.upper <= 1
    assert document["epsilon"]["lower"] <= document["epsilon"]["upper"]
    assert document["certified"]
    assert document["guarantee"]
    assert document["target"] == {"epsilon": 1.0, "delta": 1e-8}
    assert document["users"] == 10_000
    assert document["limit"] == ""


@pytest.mark.exhaustive
def test_any_randomizer_and_the_fewest_users(tmp_path: Path) -> None:
    """Without a mechanism: any ε0-LDP randomizer; with --find users also a table."""
    assert "mechanism" not in answer("--users", "1e5", *TARGET)
    low = ("--epsilon", "0.2", "--delta", "1e-8")
    few = answer("--epsilon-local", "2", "--find", "users", *low)
    assert few["value"] == few["users"] < 10_000
    path = tmp_path / "table.csv"
    path.write_text("0.6,0.3,0.1\n0.1,0.6,0.3\n0.3,0.1,0.6\n", "utf-8")
    assert answer("--table", str(path), "--find", "users", *low)["value"] > 1


def test_the_table_names_value_and_target() -> None:
    """A person reads the setting, the guarantee and the target; a limit only where there is one."""
    shown = run("calibrate", *KRR, "--users", "1000", *TARGET).out
    for text in ("epsilon local", "central ε (guaranteed)", "ε = 1 at δ = 1e-8", "krr: epsilon = "):
        assert text in shown
    assert "limit" not in shown
    assert "limit" in run("calibrate", *KRR, "--users", "10", "--epsilon", "65", "--delta", "1e-3").out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--users", "10", "--mechanism", "nothing"], "mechanism must be one of"),
        (["--users", "10", "--mechanism", "krr"], "setting options is missing"),
        (["--users", "10", *KRR, "--find", "dummies"], "find must be one of epsilon_local, users, rounds"),
        (["--users", "10", *KRR, "--find", "users", "--epsilon-local", "2"], "users is the searched setting"),
        (["--users", "10", *KRR, "--epsilon-local", "2"], "--epsilon-local is the searched setting"),
        ([*KRR], "users must be given"),
        ([*KRR, "--find", "users"], "--mechanism needs --epsilon-local"),
        (["--users", "10", "--table", "x.csv"], "--table leaves only users or rounds to find"),
    ],
)
def test_bad_input_is_one_sentence(words: list[str], sentence: str) -> None:
    """Exit code 2, one line on stderr, nothing on stdout."""
    outcome = run("calibrate", *words, *TARGET)
    assert outcome.status == 2
    assert outcome.out == ""
    assert outcome.err.count("\n") == 1
    assert sentence in outcome.err
