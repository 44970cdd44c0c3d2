"""``shuffledp tradeoff``: numbers, JSON, figures, targets and bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shuffledp import AttackRisk, VariationRatio, amplify

from . import run

# The same few curves in many formats.
pytestmark = pytest.mark.usefixtures("each_curve_once")

CROWD = ("tradeoff", "--epsilon-local", "2", "--users", "200")


def test_json_has_the_numbers_of_the_package() -> None:
    """One object; its values are those of AttackRisk; the curve falls from 1 to 0."""
    outcome = run(*CROWD, "--fpr", "0.01", "--fpr", "0.1", "--prior", "0.2", "--points", "11", "--json")
    assert outcome.status == 0
    document = json.loads(outcome.out)
    risk = AttackRisk(amplify(VariationRatio.from_ldp(2.0), 200, effort="quick"))
    assert document["advantage"] == {"lower": risk.advantage().attained, "upper": risk.advantage().value}
    for row, x in zip(document["tpr"], (0.01, 0.1), strict=True):
        assert row == {"fpr": x, "tpr": pytest.approx(risk.tpr(x).value, rel=1e-4)}
    assert document["bayes_risk"] == {"prior": 0.2, "risk": risk.bayes_risk(0.2).value}
    assert document["ppv"][0]["ppv"] == pytest.approx(risk.ppv(0.01, 0.2).value, rel=1e-4)
    assert document["guarantee"] is True
    assert document["certified"] is True
    assert document["users"] == document["messages"] == 200
    fnr = document["curve"]["fnr"]
    assert len(fnr) == 11
    assert fnr == sorted(fnr, reverse=True)
    assert fnr[0] > 0.999
    assert fnr[-1] == 0.0


def test_the_table_says_what_is_guaranteed() -> None:
    """Plain words; a bound that is no guarantee is marked."""
    outcome = run(*CROWD)
    assert outcome.status == 0
    assert "advantage TPR - FPR" in outcome.out
    assert "at most" in outcome.out
    krr = ("tradeoff", "--mechanism", "krr", "--epsilon-local", "2", "--set", "options=8", "--users", "1000")
    published = run(*krr, "--bound", "variation-ratio-published")
    assert "NOT guaranteed" in published.out
    assert "an attack on a constructed dataset achieves" in " ".join(run(*krr).out.split())


@pytest.mark.parametrize("name", ["curve.png", "curve.pdf", "curve.svg"])
@pytest.mark.parametrize("axes", [(), ("--log",)])
def test_a_figure_is_written(tmp_path: Path, name: str, axes: tuple[str, ...]) -> None:
    """Several curves, both kinds of axes, three formats; the words of the axes are in the drawing."""
    path = tmp_path / name
    outcome = run(*CROWD, "--against", "mixture", "--plot", str(path), *axes)
    assert outcome.status == 0
    assert path.stat().st_size > 5_000
    if name.endswith("svg"):
        text = path.read_text(encoding="utf-8")
        words = ["false-positive rate", "mixture", "perfect privacy", "not shuffled"]
        assert all(word in text for word in [*words, "true-positive rate" if axes else "type II error"])


@pytest.mark.exhaustive
def test_targets() -> None:
    """Users from a target, the local ε from a target; the found value is in the JSON and meets it."""
    found = json.loads(run("tradeoff", "--epsilon-local", "2", "--advantage", "0.05", "--json").out)
    assert found["calibrated"]["users"] == found["users"]
    assert found["advantage"]["upper"] <= 0.05
    fewer = amplify(VariationRatio.from_ldp(2.0), found["users"] - 1, effort="quick")
    assert AttackRisk(fewer).advantage().value > 0.05
    local = json.loads(run("tradeoff", "--users", "200", "--tpr", "0.003", "--fpr", "0.001", "--json").out)
    assert local["tpr"] == [{"fpr": 0.001, "tpr": local["calibrated"]["risk"]}]
    assert 0 < local["calibrated"]["epsilon_local"] < 20
    assert "users needed" in run("tradeoff", "--epsilon-local", "2", "--advantage", "0.05").out


def test_colluding_users_hide_nobody() -> None:
    """200 users of whom 50 collude are 150 users."""
    colluding = json.loads(run(*CROWD, "--colluding", "50", "--fpr", "0.1", "--json").out)
    alone = json.loads(run("tradeoff", "--epsilon-local", "2", "--users", "150", "--fpr", "0.1", "--json").out)
    # Of how many users that is said differs, and what may be so of them.
    assert colluding.pop("conditions") != alone.pop("conditions")
    assert colluding == alone


@pytest.mark.exhaustive
def test_one_noisy_step(tmp_path: Path) -> None:
    """The paper's advantage beside the plain step's, and a figure of both."""
    path = tmp_path / "step.svg"
    step = ("tradeoff", "--step", "least-squares", "--set", "clip=2", "--fpr", "0.1")
    found = json.loads(run(*step, "--plot", str(path), "--json").out)
    assert found["advantage"]["upper"] == pytest.approx(0.393, abs=5e-4)
    assert found["plain_advantage"] == pytest.approx(0.683, abs=5e-4)
    assert found["step"] == "least-squares"
    assert found["clip"] == 2.0
    assert found["certified"] is False
    assert found["guarantee"] is True
    assert "plain Gaussian step" in path.read_text(encoding="utf-8")
    assert "plain Gaussian step" in run(*step).out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--epsilon-local", "2"), "give --users, or a target"),
        (("--users", "10", "--epsilon-local", "2", "--advantage", "0.1"), "leave out one of the two"),
        (("--epsilon-local", "2", "--tpr", "0.1"), "exactly one --fpr"),
        (("--step", "cubic"), "--step must be one of"),
        (("--step", "logistic", "--users", "5"), "--step goes with"),
        (("--step", "logistic", "--set", "clip=2"), "takes --set limit, noise"),
        (("--step", "logistic", "--set", "limit=x"), "limit must be a number"),
        (("--users", "10", "--epsilon-local", "2", "--points", "1"), "--points must be between"),
        (("--users", "10", "--epsilon-local", "2", "--fpr", "2"), "fpr must be between 0 and 1"),
        (("--users", "10", "--epsilon-local", "2", "--plot", "no/such/folder/a.png"), "could not write the plot"),
        (("--users", "10", "--epsilon-local", "2", "--against", "nothing"), ""),
    ],
)
def test_bad_input_is_one_sentence(arguments: tuple[str, ...], message: str) -> None:
    """Exit code 2, nothing on stdout, one line on stderr."""
    outcome = run("tradeoff", *arguments, *(("--plot", "unused.png") if "--against" in arguments else ()), "--json")
    assert outcome.status == 2
    assert outcome.out == ""
    assert message in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1
