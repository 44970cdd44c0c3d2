"""Planning a survey: both ways, certified, with the budget divided and used up."""

from __future__ import annotations

import math

import pytest

import shuffledp as sdp
from shuffledp.planning._survey_strategies import split_budget
from shuffledp.planning.goal import Goal

BY_SHUFFLER = sdp.tasks.Survey(
    [
        sdp.tasks.Question("city", sdp.tasks.Frequency(4), 2, "poisson-dump"),
        sdp.tasks.Question("age", sdp.tasks.Mean(0, 120), 1, "split-and-mix"),
        sdp.tasks.Question("done", sdp.tasks.Count(), 1, "split-and-mix"),
    ]
)
LOCAL = sdp.tasks.Survey(
    [
        sdp.tasks.Question("city", sdp.tasks.Frequency(4), 0.6, "krr"),
        sdp.tasks.Question("colour", sdp.tasks.Frequency(3), 0.4, "krr"),
    ]
)


def test_curator_grade_mechanisms_beside_each_other() -> None:
    ranking = sdp.plan(BY_SHUFFLER, users=20_000, epsilon=1, delta=1e-6, rests_on="shuffler")
    best = ranking.best
    assert best.name == "all-answered"
    assert 0.98 <= best.proof.upper <= 1.0
    assert best.proof.guarantee
    assert sdp.amplify(best.mechanism, 20_000, effort="quick").epsilon(1e-6).upper == best.proof.upper
    assert [one.name for one in best.mechanism.mechanisms] == ["poisson-dump", "split-and-mix", "split-and-mix"]  # type: ignore[attr-defined]
    assert {refusal.name for refusal in ranking.rejections} >= {"parallel", "all-answered, local"}
    by_hand = sum(
        weight * (error / unit) ** 2
        for weight, error, unit in zip(
            (0.5, 0.25, 0.25), BY_SHUFFLER.question_errors(best.mechanism, 20_000), (1, 120 / 2e4, 1), strict=True
        )
    )
    assert best.standard_error == pytest.approx(math.sqrt(by_hand), rel=1e-12)
    for words in (
        "city by poisson-dump, error",
        "age by split-and-mix, error",
        "times that of a curator who asks only this question",
    ):
        assert words in " ".join(str(ranking).split())
    told = next(one for one in ranking.document()["mechanisms"] if one["name"] == best.name)
    assert [one["name"] for one in told["questions"]] == ["city", "age", "done"]
    simulated = sdp.simulate(best.plan, repeats=400)
    # 400 mean squares of five numbers, with heavy tails: off by a quarter less than once in 1e8.
    assert 0.75 < simulated.ratio < 1.25
    assert sdp.Plan.parse(best.plan.text()) == best.plan


@pytest.mark.exhaustive
def test_one_question_each_or_all_of_them() -> None:
    ranking = sdp.plan(LOCAL, users=400, epsilon=2, delta=1e-4, minimum=300, colluding=50)
    assert {offer.name for offer in ranking.candidates} == {"parallel", "all-answered, local"}
    for offer in ranking.candidates:
        assert 1.94 <= offer.proof.upper <= 2.0
        assert sdp.amplify(offer.mechanism, 300, colluding=50, effort="quick").epsilon(1e-4).upper <= 2.0
    assert ranking.best.standard_error == min(offer.standard_error for offer in ranking.candidates)
    one = sdp.plan(LOCAL, users=400, epsilon=2, delta=1e-4, max_messages=1, mechanism="parallel").best
    assert one.mechanism.name == "parallel"
    assert [str(share) for share in one.mechanism.shares] == ["3/5", "2/5"]  # type: ignore[attr-defined]


def test_the_budget_is_divided_as_a_curator_would() -> None:
    goal = Goal(BY_SHUFFLER, 20_000, sdp.Target(1.0, 1e-6))
    shares = [share for share, _ in split_budget(goal)]
    assert math.fsum(shares) == pytest.approx(1.0)
    wanted = [(0.5 * 4 * (1 - 1 / 4)) ** (1 / 3), 0.25 ** (1 / 3), 0.25 ** (1 / 3)]
    assert shares == pytest.approx([one / sum(wanted) for one in wanted], rel=1e-9)


def test_what_a_survey_is_not_planned_with() -> None:
    given = {"users": 1000, "epsilon": 1, "delta": 1e-5}
    for options, sentence in (
        ({"mechanism": "krr"}, "mechanism must be one of parallel, all-answered for the task 'survey', got 'krr'"),
        ({"settings": {"options": 3}}, "settings are for one mechanism, not for a survey"),
        ({"target_distances": [[0.0, 1.0], [1.0, 0.0]]}, "target distances are for one question"),
    ):
        with pytest.raises(ValueError, match=sentence):
            sdp.plan(LOCAL, **given, **options)  # type: ignore[arg-type]
    wrong = sdp.tasks.Survey([sdp.tasks.Question("city", sdp.tasks.Frequency(4), mechanism="piecewise")])
    with pytest.raises(ValueError, match=r"the question 'city' can be answered by .*krr.*, got 'piecewise'"):
        sdp.plan(wrong, **given)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no mechanism meets the target within the limits"):
        sdp.plan(BY_SHUFFLER, **given, max_messages=2)  # type: ignore[arg-type]
