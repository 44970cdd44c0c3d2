"""Fewer users than planned: what is promised then, and plans that hold for a minimum of whom some collude."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest

from shuffledp import KRR, PureDUMP, amplify, calibrate, compose
from shuffledp._core.errors import NotApplicable
from shuffledp._core.formatting import format_rounded_up
from shuffledp.ledger.collection_guarantee import Guarantee
from shuffledp.planning.goal import Goal
from shuffledp.planning.mechanism_calibration import Rejection
from shuffledp.planning.plan import Plan
from shuffledp.planning.planner import plan
from shuffledp.planning.ranking import Ranking, build_trials, run_jobs
from shuffledp.planning.simulation import simulate
from shuffledp.planning.turnout_guarantees import guarantee_at_turnout, reduced_turnout_guarantees
from shuffledp.statement import NONRESPONSE_CONDITION
from shuffledp.tasks import Frequency
from tests.planning.goals import small_goal

PLAN = Plan(Frequency(4), KRR(3.0, 4), users=1000, epsilon=1.0, delta=1e-6)
REFUSAL = "Shy: expected at least 300 honest users, got too few."


class Shy(KRR):
    """Takes no part in small crowds."""

    def hiding_messages(self, users: int) -> int:
        if users < 300:
            raise ValueError(REFUSAL)
        return super().hiding_messages(users)


class Unproved(KRR):
    """No theorem holds for small crowds."""

    def hiding_messages(self, users: int) -> int:
        if users < 300:
            raise NotApplicable("shy", "needs 300 honest users.")
        return super().hiding_messages(users)


# --- what if ----------------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive("3")
@pytest.mark.parametrize("rounds", [1, 3])
def test_half_and_a_tenth(rounds: int) -> None:
    """The certified ε of all rounds at the plan's δ, with so many users."""
    half, tenth = reduced_turnout_guarantees(dataclasses.replace(PLAN, rounds=rounds))
    for found, share, users in ((half, "half", 500), (tenth, "a tenth", 100)):
        curve = amplify(PLAN.mechanism, users, effort="quick")
        expected = (curve if rounds == 1 else compose(curve, rounds)).epsilon(1e-6).upper
        assert (found.share, found.users, found.epsilon) == (share, users, expected)
        assert found.text == f"ε = {format_rounded_up(expected, 4)}"


def test_colluding_users_are_taken_off_whoever_comes() -> None:
    """As many as the plan says; where nobody else is left, nothing is proved, and that is said."""
    half, tenth = reduced_turnout_guarantees(dataclasses.replace(PLAN, colluding=100))
    assert half.epsilon == amplify(PLAN.mechanism, 500, colluding=100, effort="quick").epsilon(1e-6).upper
    assert (tenth.epsilon, tenth.text) == (None, "no central ε")
    assert tenth.reason == "amplify: colluding must be below users = 100, got 100."


@pytest.mark.parametrize("kind", [Shy, Unproved])
def test_a_mechanism_that_refuses_is_no_error(kind: type[KRR]) -> None:
    """The question is what if; the reason is kept."""
    half, tenth = reduced_turnout_guarantees(dataclasses.replace(PLAN, mechanism=kind(3.0, 4)))
    assert half.epsilon is not None
    assert tenth.epsilon is None
    assert "300 honest users" in tenth.reason


def test_few_users_have_no_tenth() -> None:
    """Nine users: four are half of them; one alone has no half."""
    assert [each.users for each in reduced_turnout_guarantees(dataclasses.replace(PLAN, users=9))] == [4]
    assert reduced_turnout_guarantees(dataclasses.replace(PLAN, users=1)) == ()


def test_a_published_formula_promises_nothing() -> None:
    """Whatever it says."""
    (half, _) = reduced_turnout_guarantees(dataclasses.replace(PLAN, bound="variation-ratio-published"))
    assert (half.epsilon, half.reason) == (None, "The plan's bound variation-ratio-published is no guarantee.")


def test_the_winners_are_shown_with_fewer_users() -> None:
    """Below the table, and in JSON for both winners and no other."""
    goal = Goal(Frequency(9), 20_000, small_goal("frequency").target)
    found = [outcome for name in ("krr", "pure-dump", "oue") for outcome in run_jobs(build_trials(goal, name))]
    ranking = Ranking.from_outcomes(goal, found)
    text = " ".join(str(ranking).split())
    told = ranking.document()["fewer_users"]
    assert set(told) == {"krr", "pure-dump"}
    for offer in ranking.winners:
        half, tenth = (amplify(offer.mechanism, users, effort="quick").epsilon(1e-6).upper for users in (10_000, 2_000))
        assert 1.0 < half < tenth
        assert [(each["users"], each["epsilon"]) for each in told[offer.name]] == [(10_000, half), (2_000, tenth)]
        at = "ε above 700" if math.isinf(tenth) else f"ε = {format_rounded_up(tenth, 4)}"
        words = f"ε = {format_rounded_up(half, 4)} with 10,000 users (half) and {at} with"
        assert f"{offer.name} guarantees, at δ = 1e-6, {words}" in text
    assert "--minimum plans for this case." in text


def test_simulations_show_it_too() -> None:
    """Of the planned users, however many are simulated; lines for people and JSON."""
    outcome = simulate(PLAN, users=1e6, repeats=5)
    half, tenth = reduced_turnout_guarantees(PLAN)
    lines = dict(outcome.summary())
    assert lines["if half take part"] == f"{half.text} at δ = 1e-6 with 500 users (target 1)"
    assert lines["if a tenth take part"] == f"{tenth.text} at δ = 1e-6 with 100 users (target 1)"
    assert [each["epsilon"] for each in outcome.document()["fewer_users"]] == [half.epsilon, tenth.epsilon]


# --- a minimum --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["krr", "pure-dump"])
def test_the_target_is_met_with_the_minimum_of_whom_some_collude(name: str) -> None:
    """Proved at 5,000 of 20,000 users, 500 colluding; the error is that of 20,000."""
    ranking = plan(
        Frequency(9), 2e4, 1, 1e-6, mechanism=name, rests_on="local" if name == "krr" else "shuffler",
        minimum=5000, colluding=500,
    )  # fmt: skip
    best = ranking.best
    at_least = amplify(best.mechanism, 5000, colluding=500, effort="quick").epsilon(1e-6)
    assert at_least.certified
    assert 0.99 < at_least.upper <= 1.0
    assert at_least.upper == pytest.approx(best.proof.upper, rel=1e-9)
    assert best.standard_error == ranking.goal.task.standard_error(best.mechanism, 20_000)
    assert best.plan.promise["standard_error"] == best.standard_error
    assert (best.plan.users, best.plan.minimum, best.plan.colluding) == (20_000, 5000, 500)
    head = str(ranking).splitlines()[0]
    assert head == "frequency: 20,000 users (at least 5,000), 500 colluding, ε = 1, δ = 1e-6"
    told = ranking.document()
    assert (told["users"], told["minimum"], told["colluding"]) == (20_000, 5000, 500)


def test_a_minimum_is_calibrated_as_calibrate_does() -> None:
    """The same local ε."""
    best = plan(Frequency(9), 2e4, 1, 1e-6, mechanism="krr", minimum=5000, colluding=500).best
    found = calibrate(KRR, options=9, users=5000, colluding=500, epsilon=1.0, delta=1e-6, effort="quick")
    assert best.mechanism.epsilon == pytest.approx(found.value, rel=1e-4)


@pytest.mark.parametrize(
    ("named", "part"),
    [
        ({"minimum": 0}, "minimum must be at least 1, got 0"),
        ({"minimum": 1.5}, "minimum must be a whole number of at least 1, got 1.5"),
        ({"minimum": 1001}, "minimum must be at most the 1000 planned users, got 1001"),
        ({"minimum": 10, "colluding": 10}, "colluding must be below the 10 users of the minimum, got 10"),
        ({"colluding": 1000}, "colluding must be below the 1000 users of the minimum, got 1000"),
        ({"colluding": -1}, "colluding must be at least 0, got -1"),
    ],
)
def test_bad_turnouts_are_sentences(named: dict[str, float], part: str) -> None:
    """Of the planner and of a plan alike."""
    with pytest.raises(ValueError, match=rf"^plan: {part}\.$"):
        plan(Frequency(4), 1000, 1, 1e-6, **named)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=rf"^plan: {part}\.$"):
        dataclasses.replace(PLAN, **named)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=rf"^plan: {part}\.$"):
        Plan.parse(json.dumps(PLAN.document() | named))


def test_a_mechanism_that_refuses_the_minimum_is_left_out_with_its_sentence() -> None:
    """Not an error of the planner."""
    goal = dataclasses.replace(small_goal("frequency"), minimum=200)
    trial = dataclasses.replace(build_trials(goal, "krr")[0], kind=Shy)
    (outcome,) = trial.run()
    assert isinstance(outcome, Rejection)
    assert outcome.reason == REFUSAL.partition(": ")[2]


# --- the file ---------------------------------------------------------------------------------------------------------


def test_both_numbers_are_in_the_file() -> None:
    """Only where they say something: other plans are the files that they were."""
    careful = dataclasses.replace(PLAN, minimum=400, colluding=30)
    again = Plan.parse(careful.text())
    assert again == careful
    assert (again.minimum, again.fewest, again.colluding) == (400, 400, 30)
    assert again != PLAN
    assert (PLAN.minimum, PLAN.fewest, PLAN.colluding) == (None, 1000, 0)
    assert not {"minimum", "colluding"} & PLAN.document().keys()
    assert dataclasses.replace(PLAN, minimum=1000) == PLAN
    assert dataclasses.replace(dataclasses.replace(PLAN, minimum=1000), users=10).fewest == 10
    assert [line.split(maxsplit=1)[0] for line in str(careful).splitlines()][2:4] == ["minimum", "colluding"]


def test_messages_do_not_depend_on_them() -> None:
    """Their identity is that of the plan without."""
    careful = dataclasses.replace(PLAN, minimum=400, colluding=30)
    assert careful.identity() == PLAN.identity()
    assert PLAN.identity() == "97cf4760297d4c3d11eb65d2ab1c7778600c85ba0b0ee95722cbbd1caf71217d"


def test_dummies_hide_by_those_who_come() -> None:
    """Of a mechanism without a local ε: a tenth of the users may promise nothing at all."""
    careless = Plan(Frequency(64), PureDUMP(64, 1), users=5000, epsilon=1.0, delta=1e-6)
    half, tenth = reduced_turnout_guarantees(careless)
    assert half.epsilon is not None
    assert tenth.epsilon is not None
    assert half.epsilon < tenth.epsilon


@pytest.mark.exhaustive
def test_a_sample_of_which_some_stay_away_is_planned_for_those_who_come() -> None:
    """The target is met given how many came, whoever would have: no less than 60 of the 100 who are drawn."""
    best = plan(Frequency(4), 100, 0.1, 1e-6, of=1000, minimum=60, mechanism="krr").best.plan
    assert best is not None
    assert 0.099 < Guarantee(best, 60).epsilon <= 0.1
    assert Guarantee(best, 100).epsilon < Guarantee(best, 60).epsilon
    assert NONRESPONSE_CONDITION in best.conditions()
    assert guarantee_at_turnout(best, 60).epsilon == Guarantee(best, 60).epsilon
    half, tenth = (found.epsilon for found in reduced_turnout_guarantees(best))
    assert half is not None
    assert tenth is not None
    assert 0.1 < half < tenth
