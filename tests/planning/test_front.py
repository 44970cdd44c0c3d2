"""Mechanisms that are offered from little error to few messages, and noise that the shuffler draws."""

from __future__ import annotations

import math

import pytest

import shuffledp as sdp
from shuffledp.calibration.targets import Target
from shuffledp.planning.goal import Goal, Limits
from shuffledp.planning.mechanism_calibration import Candidate
from shuffledp.planning.ranking import Ranking, build_trials, run_jobs
from shuffledp.tasks import Frequency, ItemSets, Task


def ranking_of(task: Task, name: str, **changes: object) -> Ranking:
    goal = Goal(task, 50_000, Target(1.0, 1e-7), **changes)  # type: ignore[arg-type]
    return Ranking.from_outcomes(goal, run_jobs(build_trials(goal, name)))


def test_the_front_of_cancelling_noise() -> None:
    """Less error takes more messages; every offer is certified, and the winner is near the least error."""
    ranking = ranking_of(Frequency(32), "cancelling-noise", rests_on="shuffler")
    front = [offer for offer in ranking.candidates if not offer.has_shuffler_noise]
    assert len(front) >= 5
    messages = [offer.messages for offer in front]
    assert messages == sorted(messages, reverse=True)
    for offer in ranking.candidates:
        assert 0.99 < offer.proof.upper <= 1.0
        assert offer.proof.certified
        assert offer.proof.bound == "own-noise"
        assert offer.rests_on == ("its noise" if offer.has_shuffler_noise else "shuffler")
    assert front[0].curator_error_ratio == pytest.approx(1.05, abs=0.001)
    assert ranking.best in front
    assert ranking.best.standard_error <= 1.05 * front[0].standard_error
    assert ranking.best.bits < front[0].bits


def test_noise_that_the_shuffler_draws_must_be_asked_for() -> None:
    ranking = ranking_of(Frequency(32), "cancelling-noise", rests_on="shuffler-noise")
    best = ranking.best
    assert best.has_shuffler_noise
    assert best.messages == 1
    assert best.mechanism.settings()["honest"] == 0
    assert best.name == "cancelling-noise (shuffler)"
    assert "draws the noise" in best.assumption
    text = str(ranking)
    assert "this is the plan" in text
    assert "but not on the number of users who take part" in " ".join(text.split())
    (half, tenth) = ranking.reduced_turnout_guarantees[best.name]
    assert half.epsilon == tenth.epsilon == best.proof.upper
    assert ("noise", "drawn by the shuffler") in best.plan.summary()
    assert ranking.document()["best_by_noise"] == best.name
    # The error does not grow with the users, either.
    assert best.plan.task.standard_error(best.mechanism, 10**9) == best.standard_error
    other = ranking_of(Frequency(32), "krr", rests_on="shuffler-noise")
    with pytest.raises(ValueError, match="in no mechanism that meets the target does the shuffler draw the noise"):
        _ = other.best


def test_a_plan_for_fewer_honest_users() -> None:
    """The noise is made by those who surely take part; all others add to it."""
    plain = ranking_of(Frequency(32), "cancelling-noise", rests_on="shuffler").best
    careful = ranking_of(Frequency(32), "cancelling-noise", rests_on="shuffler", minimum=20_000, colluding=5_000).best
    assert careful.mechanism.settings()["honest"] == 15_000
    assert sdp.amplify(careful.mechanism, 20_000, colluding=5_000, effort="quick").epsilon(1e-7).upper <= 1.0
    ratio = careful.standard_error / plain.standard_error
    assert ratio == pytest.approx(math.sqrt(50_000 / 15_000), rel=1e-9)


def test_limits_choose_from_the_front() -> None:
    ranking = ranking_of(Frequency(32), "cancelling-noise", rests_on="shuffler", limits=Limits(messages=1.4))
    assert all(offer.messages <= 1.4 for offer in ranking.candidates)
    assert ranking.best.messages > 1.2
    with pytest.raises(ValueError, match=r"sends \d+\.\d+ messages a user"):
        _ = ranking_of(Frequency(4096), "cancelling-noise", rests_on="shuffler", limits=Limits(messages=1.0001)).best


@pytest.mark.exhaustive
def test_sets_of_items() -> None:
    """Several losses in one report, composed; designed for all of them together."""
    ranking = ranking_of(ItemSets(20, 3), "cancelling-sets", rests_on="shuffler")
    for offer in ranking.candidates:
        assert isinstance(offer, Candidate)
        assert 0.95 < offer.proof.upper <= 1.0
        assert offer.proof.bound == "composed-parts"
    assert ranking.best.curator_error_ratio < 1.3
