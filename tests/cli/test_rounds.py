"""``--rounds``, ``--of`` and ``--rate`` of the commands: the same numbers as in Python, one sentence for bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import shuffledp as sdp
from shuffledp.bounds.participation import SAMPLING_SECRECY_CONDITION
from tests.cli import run

# As JSON, as a table, as a certificate and in Python: the same curves.
pytestmark = pytest.mark.usefixtures("each_curve_once")

KRR = ("--mechanism", "krr", "--set", "options=8")
LOCAL = (*KRR, "--epsilon-local", "1")
QUICK = ("--effort", "quick")
FIXED = ("--users", "2000", "--of", "1e4", "--rounds", "5")
COINS = ("--of", "1e4", "--rate", "20%", "--rounds", "5")
ROUND = ("amplify", *LOCAL, "--users", "2000")
MECHANISM = sdp.KRR(epsilon=1.0, options=8)
SCHEDULES = {
    FIXED: sdp.Participation(2000, 10_000, rounds=5),
    COINS: sdp.Participation(of=10_000, rate="0.2", rounds=5),
}  # type: ignore[arg-type]


def answer(*arguments: str) -> dict[str, Any]:
    outcome = run(*arguments, "--json")
    assert (outcome.status, outcome.err) == (0, "")
    document = json.loads(outcome.out)
    assert isinstance(document, dict)
    return document


@pytest.mark.exhaustive("coins")
@pytest.mark.parametrize("options", [FIXED, COINS], ids=["fixed", "coins"])
def test_amplify(options: tuple[str, ...]) -> None:
    """Samples first, then rounds; ε for a δ, and beside it what is left if the sample is known."""
    schedule = SCHEDULES[options]
    document = answer("amplify", *LOCAL, *options, "--delta", "1e-6", *QUICK)
    expected = schedule.curve(MECHANISM, effort="quick").epsilon(1e-6)
    assert document["epsilon"] == {"lower": expected.lower, "upper": expected.upper, "slack": expected.slack}
    assert (document["rounds"], document["of"], document["users"]) == (5, 10_000, 2000)
    assert document["rate"] == (None if options is FIXED else "0.2")
    assert (document["theorem"], document["condition"]) == (expected.theorem, SAMPLING_SECRECY_CONDITION)
    known = schedule.disclosed_sample_curve(MECHANISM, effort="quick").epsilon(1e-6).upper
    assert document["if_known"]["epsilon"]["upper"] == known > 5 * expected.upper


def test_delta_for_an_epsilon() -> None:
    """The other way round."""
    curve = SCHEDULES[FIXED].curve(MECHANISM, effort="quick")
    back = answer("amplify", *LOCAL, *FIXED, "--epsilon", "0.02", *QUICK)
    assert back["delta"]["upper"] == pytest.approx(curve.delta(0.02).upper)
    assert back["if_known"]["delta"]["upper"] > 100 * back["delta"]["upper"]


def test_one_round_of_everybody_is_as_before() -> None:
    """Without the options nothing changes but three more keys, and nothing is conditional."""
    document = answer(*ROUND, "--delta", "1e-6", *QUICK)
    assert (document["rounds"], document["of"], document["rate"]) == (1, None, None)
    assert "if_known" not in document
    assert document["epsilon"]["upper"] == sdp.amplify(MECHANISM, 2000, effort="quick").epsilon(1e-6).upper


@pytest.mark.exhaustive
def test_the_table_says_it_all() -> None:
    """A person reads how many rounds, out of how many the users are drawn, and the condition."""
    outcome = run("amplify", *LOCAL, *FIXED, "--delta", "1e-6", *QUICK)
    text = " ".join(outcome.out.split())
    assert outcome.status == 0
    assert "drawn 2,000 of 10,000, secretly, each round anew rounds 5" in text
    assert "condition holds only if nobody learns who was drawn; if it is known: ε = 0.14494" in text
    assert "5 rounds composed" in text
    text = " ".join(run("amplify", *LOCAL, *COINS, "--delta", "1e-6", *QUICK).out.split())
    assert "each of 10,000 by a secret coin of 20%, each round anew" in text


@pytest.mark.exhaustive
@pytest.mark.parametrize("options", [FIXED, COINS], ids=["fixed", "coins"])
def test_a_certificate(options: tuple[str, ...], tmp_path: Path) -> None:
    """It claims the rounds, the sample and the condition, close to the answer, and is proved again."""
    path = tmp_path / "claim.json"
    outcome = run("amplify", *LOCAL, *options, "--delta", "1e-6", *QUICK, "--certificate", str(path), "--json")
    assert outcome.status == 0
    claim, answered = json.loads(path.read_text("utf-8")), json.loads(outcome.out)
    assert outcome.err == ""
    assert claim["epsilon"] == pytest.approx(answered["epsilon"]["upper"], rel=1e-3)
    assert "one of 10000 people changes the shuffled messages of 5 rounds" in claim["statement"]
    assert claim["statement"].endswith(f"This {SAMPLING_SECRECY_CONDITION}.")
    verdict = run("verify", str(path))
    assert verdict.status == 0
    assert "nobody learns who was drawn" in " ".join(verdict.out.split())


@pytest.mark.exhaustive
def test_calibrate_is_the_inverse() -> None:
    """The largest local ε, the most rounds, the most users of a population, and the fewest people to draw from."""
    target = ("--epsilon", "0.02602472", "--delta", "1e-6", *QUICK)
    found = answer("calibrate", *KRR, *FIXED, *target)
    assert found["value"] == pytest.approx(1.0, rel=1e-3)
    assert (found["of"], found["rounds"], found["condition"]) == (10_000, 5, SAMPLING_SECRECY_CONDITION)
    assert found["if_known"]["epsilon"]["upper"] == pytest.approx(0.1449, rel=1e-2)
    for find, given in (
        ("rounds", ("--users", "2000", "--of", "1e4")),
        ("users", ("--of", "1e4", "--rounds", "5")),
        ("of", ("--users", "2000", "--rounds", "5")),
    ):
        found = answer("calibrate", *LOCAL, *given, "--find", find, *target)
        assert (found["find"], found["value"]) == (find, {"rounds": 5, "users": 2000, "of": 10_000}[find])
    text = " ".join(run("calibrate", *KRR, *FIXED, *target).out.split())
    assert "holds only if nobody learns who was drawn; if it is known: ε = 0.144" in text


@pytest.mark.exhaustive
def test_calibrate_by_coins() -> None:
    """Searched for samples of the mean size, proved for the coins, and not far from the best."""
    found = answer("calibrate", *KRR, *COINS, "--epsilon", "0.0263362", "--delta", "1e-6", *QUICK)
    assert found["epsilon"]["upper"] <= 0.0263362
    assert found["value"] == pytest.approx(1.0, rel=2e-3)
    assert (found["rate"], found["users"]) == ("0.2", 2000)
    refused = run("calibrate", *LOCAL, "--of", "1e4", "--rate", "20%", "--find", "users", "--epsilon", "1",
                  "--delta", "1e-6")  # fmt: skip
    assert (refused.status, "find of instead" in refused.err) == (2, True)


@pytest.mark.exhaustive
def test_compare() -> None:
    """Every bound over all rounds of samples, the best one beside what is left."""
    schedule = ("--users", "100", "--of", "1e3", "--rounds", "2")
    document = answer("compare", *LOCAL, *schedule, "--delta", "1e-5")
    assert (document["of"], document["rounds"]) == (1000, 2)
    best = document["bounds"][0]
    assert 0 < document["lower"] < best["epsilon"]["upper"]
    expected = sdp.Participation(100, 1000, rounds=2).curve(MECHANISM, bound=best["bound"]).epsilon(1e-5).upper
    assert best["epsilon"]["upper"] == expected < document["if_known"]["epsilon"]["upper"]
    outcome = run("compare", *LOCAL, *schedule, "--delta", "1e-5")
    text = " ".join(outcome.out.split())
    assert outcome.status == 0
    assert "for 100 users, 2 rounds" in text
    assert "Condition: holds only if nobody learns who was drawn; if it is known: ε =" in text


@pytest.mark.exhaustive
def test_tradeoff() -> None:
    """Attacks on all rounds of samples, and on one whose drawing is known."""
    schedule = ("--users", "100", "--of", "1e3", "--rounds", "2", "--bound", "variation-ratio", "--points", "3")
    document = answer("tradeoff", *LOCAL, *schedule)
    assert (document["of"], document["rounds"], document["users"]) == (1000, 2, 100)
    assert document["advantage"]["upper"] < 0.3 * document["if_known"]["advantage"]
    text = " ".join(run("tradeoff", *LOCAL, *schedule).out.split())
    assert "100 of 1,000, secretly, each round anew" in text
    assert "if it is known: advantage at most" in text


@pytest.mark.exhaustive
def test_plan_and_simulate(tmp_path: Path) -> None:
    """The plan file has the schedule, old ones have none; simulations tell the condition."""
    path = tmp_path / "plan.json"
    asked = ("plan", "--task", "frequency", "--domain", "8", "--mechanism", "krr", "--delta", "1e-6")
    document = answer(*asked, "--users", "2000", "--of", "1e4", "--rounds", "5", "--epsilon", "0.02602472",
                      "--out", str(path))  # fmt: skip
    assert (document["of"], document["rounds"], document["condition"]) == (10_000, 5, SAMPLING_SECRECY_CONDITION)
    assert document["if_known"]["krr"] == pytest.approx(0.1449, rel=1e-2)
    written = sdp.Plan.load(path)
    assert written.mechanism.epsilon == pytest.approx(1.0, rel=1e-3)
    assert written.participation == SCHEDULES[FIXED]
    assert sdp.Plan.parse(written.text()) == written
    outcome = answer("simulate", str(path), "--repeat", "2")
    assert (outcome["of"], outcome["condition"]) == (10_000, SAMPLING_SECRECY_CONDITION)
    assert outcome["if_known"] == pytest.approx(0.1449, rel=1e-2)
    assert "condition" in run("simulate", str(path), "--repeat", "2").out
    plain = sdp.Plan(sdp.tasks.Frequency(4), sdp.KRR(1.0, 4), users=100, epsilon=3.0, delta=1e-6)
    assert not {"of", "rate"} & plain.document().keys()


def test_a_plan_with_coins() -> None:
    """The rate is an exact decimal, and users follow from it; another number is refused."""
    given: dict[str, Any] = {"epsilon": 3.0, "delta": 1e-6, "out_of": 5000, "rate": "2%"}
    plan = sdp.Plan(sdp.tasks.Frequency(4), sdp.KRR(1.0, 4), users=100, **given)
    assert (plan.document()["of"], plan.document()["rate"]) == (5000, "0.02")
    assert sdp.Plan.parse(plan.text()) == plan
    with pytest.raises(ValueError, match="plan: users must be 100, which follows from of and rate"):
        sdp.Plan(sdp.tasks.Frequency(4), sdp.KRR(1.0, 4), users=99, **given)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--rounds", "0"), "rounds must be at least 1"),
        (("--rounds", "2.5"), "whole number"),
        (("--of", "100"), "of must be at least the 2000 users who are drawn, got 100"),
        (("--rate", "2%"), "rate needs of"),
        (("--of", "1e5", "--rate", "2%"), "give users or rate, not both"),
    ],
)
def test_bad_input(arguments: tuple[str, ...], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence, exit 2, nothing written."""
    monkeypatch.chdir(tmp_path)
    outcome = run(*ROUND, "--delta", "1e-6", *arguments)
    assert outcome.status == 2
    assert sentence in " ".join(outcome.err.split())
    assert outcome.err.count("\n") <= 2
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["amplify", "compare", "plan"])
def test_nobody_is_named(command: str) -> None:
    """Neither users nor coins: one sentence of the command itself."""
    task = ("--task", "frequency", "--domain", "8", "--epsilon", "1") if command == "plan" else LOCAL
    outcome = run(command, *task, "--delta", "1e-6")
    assert (outcome.status, outcome.err) == (2, f"shuffledp: {command}: give --users, or --of and --rate.\n")
    for rate in ("2", "0", "-1%", "much", "1e-30"):
        outcome = run(command, *task, "--delta", "1e-6", "--of", "1e4", "--rate", rate)
        assert outcome.status == 2
        assert outcome.err.startswith(f"shuffledp: {command}: rate must be")


@pytest.mark.exhaustive
def test_a_year_of_weekly_samples() -> None:
    """RAPPOR with 64 options at ε0 = 2, 100,000 of 5,000,000 a week, 52 weeks, δ = 1e-8."""
    rappor = ("--mechanism", "rappor", "--set", "options=64", "--epsilon-local", "2", "--rounds", "52",
              "--delta", "1e-8", *QUICK)  # fmt: skip
    fixed = answer("amplify", *rappor, "--users", "1e5", "--of", "5e6")
    assert fixed["epsilon"]["upper"] <= 0.004392
    assert fixed["if_known"]["epsilon"]["upper"] <= 0.26568
    coins = answer("amplify", *rappor, "--of", "5e6", "--rate", "2%")
    assert coins["epsilon"]["upper"] <= 0.0044
    assert coins["if_known"]["epsilon"]["upper"] <= 0.266
