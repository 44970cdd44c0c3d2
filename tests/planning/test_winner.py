"""Two winners: the best that keeps a local ε, which is the plan, and the best by the shuffler alone, if asked for."""

from __future__ import annotations

import dataclasses
from functools import cache

import pytest

from shuffledp.planning.goal import Goal
from shuffledp.planning.mechanism_calibration import Candidate
from shuffledp.planning.planner import plan
from shuffledp.planning.ranking import Ranking, build_trials, run_jobs
from shuffledp.tasks import Frequency
from tests.planning.goals import small_goal

NAMES = ("krr", "pure-dump", "oue", "balcer-cheu")


@cache
def outcomes() -> tuple[Candidate, ...]:
    """Of each kind two, the one with less error rests on the shuffler alone."""
    goal = small_goal("frequency")
    found = [
        outcome for name in NAMES for outcome in run_jobs(build_trials(goal, name)) if isinstance(outcome, Candidate)
    ]
    assert len(found) == len(NAMES)
    return tuple(found)


def ranking(*names: str, rests_on: str = "local") -> Ranking:
    goal = dataclasses.replace(small_goal("frequency"), rests_on=rests_on)
    offers = [dataclasses.replace(offer, goal=goal) for offer in outcomes() if offer.name in names]
    return Ranking.from_outcomes(goal, offers)


def words(shown: Ranking) -> str:
    return " ".join(str(shown).split())


def test_all_are_ranked_by_error_and_the_plan_keeps_a_local_epsilon() -> None:
    """The first row is not the plan: its messages promise nothing without the shuffler."""
    shown = ranking(*NAMES)
    errors = [offer.standard_error for offer in shown.candidates]
    assert errors == sorted(errors)
    assert shown.candidates[0].mechanism.local_epsilon is None
    assert shown.best.name == "krr"
    assert shown.best.plan.mechanism.local_epsilon is not None
    assert shown.best_by_shuffler is not None
    assert shown.best_by_shuffler.name == "pure-dump"


def test_the_other_one_is_asked_for() -> None:
    """Both winners stay the same; the plan is the second."""
    shown = ranking(*NAMES, rests_on="shuffler")
    assert shown.best.name == "pure-dump"
    assert shown.winners == ranking(*NAMES, rests_on="shuffler").winners
    assert [offer.name for offer in shown.winners] == ["krr", "pure-dump"]
    assert "to anyone who links them to their sender; this is the plan." in words(shown)


def test_both_are_marked_and_named_with_their_error() -> None:
    """A mark in the table, and below it each beside the curator."""
    shown = ranking(*NAMES)
    lines = str(shown).splitlines()
    marked = [line.split()[0] for line in lines[: 2 + len(NAMES)] if " * " in line]
    assert marked == ["pure-dump", "krr"]
    curator = shown.goal.central_baseline.standard_error
    for offer in shown.winners:
        times = offer.standard_error / curator
        assert f"error {offer.standard_error:.4g}, {times:.3g} times the curator's" in words(shown)
    sentence = "Its messages reveal the true value to anyone who links them to their sender; choose it by "
    assert f"{sentence}--rests-on shuffler." in words(shown)
    assert all(len(line) <= 100 for line in lines)


def test_without_a_local_epsilon_there_is_no_plan_unless_asked_for() -> None:
    """The table is there, and a sentence says what to ask for."""
    shown = ranking("pure-dump", "balcer-cheu")
    assert shown.best_local is None
    sentence = r"no mechanism that meets the target has a local ε .*; get pure-dump, .*, by rests_on='shuffler'\.$"
    with pytest.raises(ValueError, match=f"^plan: {sentence}"):
        _ = shown.best
    assert "No plan: no mechanism" in words(shown)
    document = shown.document()
    assert (document["best"], document["best_local"], document["best_by_shuffler"]) == (None, None, "pure-dump")
    assert ranking("pure-dump", rests_on="shuffler").best.name == "pure-dump"
    assert "No mechanism has a local ε." in words(ranking("pure-dump", rests_on="shuffler"))


def test_nothing_rests_on_the_shuffler_alone() -> None:
    """Asked for in vain: a sentence says what there is."""
    shown = ranking("krr", "oue", rests_on="shuffler")
    with pytest.raises(ValueError, match=r"^plan: every mechanism .* leave out rests_on to get krr\.$"):
        _ = shown.best
    assert "No plan: every mechanism" in words(shown)
    assert "No mechanism rests on the shuffler alone." in words(ranking("krr"))


def test_seeds_keep_a_local_epsilon() -> None:
    """As long as they are pseudorandom, and the table says so."""
    found = plan(Frequency(300), users=5000, epsilon=1, delta=1e-6, mechanism="compressed-oue")
    assert found.best.name == "compressed-oue"
    assert (found.best.has_local_epsilon, found.best.rests_on) == (True, "seeds")


@pytest.mark.parametrize("wrong", ["nothing", "", None, 3, "Shuffler"])
def test_anything_else_is_a_sentence(wrong: object) -> None:
    """Before anything is computed."""
    with pytest.raises(ValueError, match=r"^plan: rests-on must be local, shuffler or shuffler-noise, got .*\.$"):
        plan(Frequency(3), users=1000, epsilon=1, delta=1e-6, rests_on=wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^plan: rests-on"):
        Goal(Frequency(3), 1000, small_goal("frequency").target, rests_on=wrong)  # type: ignore[arg-type]
