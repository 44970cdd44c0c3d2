"""``shuffledp amplify --rounds K --population N``: the same numbers as in Python, and one sentence for bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import shuffledp as sdp
from tests.cli import run

ROUND = ("amplify", "--mechanism", "krr", "--epsilon-local", "1", "--set", "options=8", "--users", "2000")


def answer(*arguments: str) -> dict[str, object]:
    outcome = run(*ROUND, *arguments, "--json")
    assert (outcome.status, outcome.err) == (0, "")
    document = json.loads(outcome.out)
    assert isinstance(document, dict)
    return document


def test_rounds_of_samples() -> None:
    """Samples first, then rounds; ε for a δ and δ for an ε."""
    once = sdp.amplify(sdp.KRR(epsilon=1.0, options=8), 2000)
    curve = sdp.compose(sdp.subsample(once, 1e4), 5)
    document = answer("--delta", "1e-6", "--rounds", "5", "--population", "1e4")
    expected = curve.epsilon(1e-6)
    assert document["epsilon"] == {"lower": None, "upper": expected.upper, "slack": expected.slack}
    assert (document["rounds"], document["population"], document["users"]) == (5, 10_000, 2000)
    assert document["theorem"] == expected.theorem
    back = answer("--epsilon", "0.02", "--rounds", "5", "--population", "1e4")
    assert back["delta"]["upper"] == pytest.approx(curve.delta(0.02).upper)  # type: ignore[index]


def test_one_round_of_everybody_is_as_before() -> None:
    """Without the options nothing changes but two more keys."""
    document = answer("--delta", "1e-6")
    assert (document["rounds"], document["population"]) == (1, None)
    assert (
        document["epsilon"]["upper"]
        == sdp.amplify(  # type: ignore[index]
            sdp.KRR(epsilon=1.0, options=8), 2000
        )
        .epsilon(1e-6)
        .upper
    )


def test_the_table_says_both() -> None:
    """A person reads how many rounds, and from how many the users are drawn."""
    outcome = run(*ROUND, "--delta", "1e-6", "--rounds", "3", "--population", "50000")
    assert outcome.status == 0
    assert "50,000, each round anew" in outcome.out
    assert "3 rounds composed" in " ".join(outcome.out.split())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--rounds", "0"), "rounds must be at least 1"),
        (("--rounds", "2.5"), "whole number"),
        (("--population", "100"), "population must be at least the curve's 2000 users, got 100"),
        (("--rounds", "2", "--certificate", "claim.json"), "one round of all users"),
    ],
)
def test_bad_input(arguments: tuple[str, ...], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence, exit 2, nothing written."""
    monkeypatch.chdir(tmp_path)
    outcome = run(*ROUND, "--delta", "1e-6", *arguments)
    assert outcome.status == 2
    assert sentence in outcome.err
    assert outcome.err.count("\n") <= 2
    assert not list(tmp_path.iterdir())
