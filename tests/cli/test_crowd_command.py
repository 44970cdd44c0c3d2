"""shuffledp crowd."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import shuffledp as sdp
from tests.cli import run

# The same few crowds in many formats.
pytestmark = pytest.mark.usefixtures("each_curve_once")

KRR = ("--mechanism", "krr", "--set", "options=4")


@pytest.mark.exhaustive
def test_each_group_has_its_line() -> None:
    """The same values as in Python, rounded up, with what an attack attains beside them."""
    words = ("crowd", *KRR, "--group", "1:600", "--group", "3:400", "--opt-outs", "100", "--delta", "1e-6")
    outcome = run(*words, "--json")
    assert (outcome.status, outcome.err) == (0, "")
    document = json.loads(outcome.out)
    quiet, loud = sdp.KRR(1.0, options=4), sdp.KRR(3.0, options=4)
    curve = sdp.amplify(sdp.Crowd({quiet: 600, loud: 400, sdp.OptOut(quiet): 100}))
    assert (document["users"], document["opt_outs"], document["rounds"], document["worst"]) == (1100, 100, 1, 1)
    for group, mechanism in zip(document["groups"], (quiet, loud), strict=True):
        value = curve.group_curve(mechanism).epsilon(delta=1e-6)
        assert group["epsilon"]["upper"] == value.upper
        assert group["epsilon"]["lower"] == value.lower
        assert group["guarantee"]
        assert group["certified"]
    shown = run(*words)
    assert (shown.status, shown.err) == (0, "")
    for part in ("local ε 1", "local ε 3", "opt-outs", "600", "400", "100", "δ = 1e-6"):
        assert part in shown.out


@pytest.mark.exhaustive
def test_the_other_way_round_and_over_rounds() -> None:
    once = json.loads(run("crowd", *KRR, "--group", "1:500", "--epsilon", "0.1", "--json").out)
    assert 0 < once["groups"][0]["delta"]["upper"] < 0.1
    words = ("crowd", *KRR, "--group", "1:500", "--delta", "1e-6", "--json", "--effort", "quick")
    one, four = (json.loads(run(*words, "--rounds", rounds).out)["groups"][0]["epsilon"]["upper"] for rounds in "14")
    assert 1.5 * one < four < 4 * one
    most = json.loads(run(*words, "--colluding", "100").out)["groups"][0]["epsilon"]["upper"]
    assert most > one


@pytest.mark.exhaustive
def test_tables(tmp_path: Path) -> None:
    for name, rows in (("a.csv", "0.6,0.4\n0.4,0.6\n"), ("b.csv", "0.7,0.3\n0.2,0.8\n")):
        (tmp_path / name).write_text(rows)
    groups = ("--group", f"{tmp_path / 'a.csv'}:300", "--group", f"{tmp_path / 'b.csv'}:300")
    document = json.loads(run("crowd", *groups, "--delta", "1e-4", "--json").out)
    assert [group["users"] for group in document["groups"]] == [300, 300]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--group", "1:500", "--delta", "1e-6"), "needs --mechanism"),
        ((*KRR, "--group", "1", "--delta", "1e-6"), "EPSILON:USERS"),
        ((*KRR, "--group", "1:0", "--delta", "1e-6"), "EPSILON:USERS"),
        ((*KRR, "--group", "no.csv:9", "--delta", "1e-6"), "where there is --mechanism"),
        (("--group", "no.csv:9", "--delta", "1e-6"), "no.csv"),
        ((*KRR, "--group", "1:5", "--group", "1:6", "--delta", "1e-6"), "each --group once"),
        ((*KRR, "--group", "1:5"), "either --delta"),
        ((*KRR, "--group", "1:5", "--delta", "1e-6", "--epsilon", "1"), "either --delta"),
        ((*KRR, "--group", "1:5", "--delta", "1e-6", "--colluding", "5"), "colluding must be below"),
        ((*KRR, "--group", "1:5", "--delta", "1e-6", "--opt-outs", "-1"), "opt-outs must be"),
        (("--mechanism", "laplace", "--group", "1:5", "--opt-outs", "1", "--delta", "1e-6"), "does not answer"),
    ],
)
def test_wrong_words_are_one_sentence(words: tuple[str, ...], sentence: str) -> None:
    outcome = run("crowd", *words)
    assert (outcome.status, outcome.out) == (2, "")
    assert sentence in outcome.err
    assert outcome.err.count("\n") == 1
