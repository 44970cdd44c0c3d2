"""Plans: what is offered meets the target, is ranked by its error, keeps to the limits, and is written down."""

from __future__ import annotations

import dataclasses
import itertools
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from shuffledp import KRR, BalcerCheu, HadamardResponse, NotApplicable, amplify, calibrate, compose
from shuffledp.calibration.targets import Target
from shuffledp.mechanisms import catalogue
from shuffledp.planning import mechanism_calibration
from shuffledp.planning.goal import Goal, Limits
from shuffledp.planning.mechanism_calibration import MAX_BITS, SHUFFLER_NOISE_SUFFIX, Candidate, Rejection, Trial
from shuffledp.planning.plan import Plan
from shuffledp.planning.ranking import Ranking, build_trials, run_jobs
from shuffledp.tasks import Frequency, UnitVectorMean, VectorMean
from tests.planning.goals import TASKS, is_skipped, small_goal, small_ranking


@pytest.mark.exhaustive(
    "boxed vectors", "count", "frequency", "mean", "range queries", "set-valued", "sum", "variance", "vector mean"
)
@pytest.mark.parametrize("name", TASKS)
def test_every_offer_meets_the_target(name: str, shared_folder: Path) -> None:
    """The plan's file gives a mechanism whose certified curve keeps the promise."""
    ranking = small_ranking(name, shared_folder)
    goal = ranking.goal
    for offer in ranking.candidates:
        plan = Plan.parse(offer.plan.text())
        assert plan.mechanism.to_document() == offer.mechanism.to_document()
        value = amplify(plan.mechanism, goal.users, effort="quick").epsilon(goal.target.delta)
        assert value.certified
        assert value.upper <= goal.target.epsilon
        assert value.upper == pytest.approx(offer.proof.upper, rel=1e-9)


@pytest.mark.exhaustive(
    "boxed vectors", "count", "frequency", "mean", "range queries", "set-valued", "sum", "variance", "vector mean"
)
@pytest.mark.parametrize("name", TASKS)
def test_every_mechanism_is_offered_or_refused_with_a_reason(name: str, shared_folder: Path) -> None:
    """Nothing of the catalogue is forgotten, and the smallest error is first."""
    ranking = small_ranking(name, shared_folder)
    told = [offer.name for offer in ranking.candidates] + [refusal.name for refusal in ranking.rejections]
    kinds = [kind for kind in catalogue.all_mechanisms().values() if kind.has_numeric_settings]
    expected = {kind.name for kind in kinds if ranking.goal.task.can_use(kind)}
    assert expected <= {trial.name for trial in build_trials(ranking.goal)}
    assert {kind for kind in expected if not is_skipped(name, kind)} <= set(told)
    # Only a front has several offers of one name.
    once = [
        name
        for name in told
        if not catalogue.find_buildable_class(name.removesuffix(f" {SHUFFLER_NOISE_SUFFIX}")).has_design_frontier
    ]
    assert len(once) == len(set(once))
    errors = [offer.standard_error for offer in ranking.candidates]
    assert all(first <= second * (1 + 1e-3) for first, second in itertools.pairwise(errors))
    assert all(refusal.reason.endswith(".") for refusal in ranking.rejections)


@pytest.mark.exhaustive(
    "boxed vectors", "count", "frequency", "mean", "range queries", "set-valued", "sum", "variance", "vector mean"
)
@pytest.mark.parametrize("name", TASKS)
def test_the_promised_error_is_that_of_the_plan(name: str, shared_folder: Path) -> None:
    """What is read back from the file is the same task, with the same error."""
    ranking = small_ranking(name, shared_folder)
    for offer in ranking.candidates:
        plan = Plan.parse(offer.plan.text())
        assert plan.task == ranking.goal.task
        found = plan.task.standard_error(plan.mechanism, plan.users)
        assert found == pytest.approx(plan.promise["standard_error"], rel=1e-12)


def test_the_error_of_a_frequency_is_the_formula() -> None:
    """Pure-dump's only noise is its dummies: √(n·λ(1−λ)), λ = share/d; by the plan's own numbers."""
    goal = Goal(TASKS["frequency"], 20_000, Target(1.0, 1e-6))
    (trial,) = build_trials(goal, "pure-dump")
    (offer,) = trial.run()
    assert isinstance(offer, Candidate)
    settings = offer.mechanism.settings()
    chance = settings["share"] / 9
    expected = math.sqrt(20_000 * settings["dummies"] * chance * (1 - chance))
    assert offer.standard_error == pytest.approx(expected, rel=1e-9)


def test_no_more_dummies_than_needed() -> None:
    """One dummy that is mostly blank is enough, and the guess that decides about limits knows it."""
    goal = Goal(Frequency(1024), 10**6, Target(1.0, 1e-9), limits=Limits(bits=22, messages=2))
    (outcome,) = run_jobs(build_trials(goal, "pure-dump"))
    assert isinstance(outcome, Candidate)
    assert (outcome.messages, outcome.bits) == (2, 22)


def test_a_plan_is_calibrated_as_calibrate_does() -> None:
    """The same local ε as the function of that name finds, to its own precision."""
    goal = small_goal("frequency")
    (trial,) = build_trials(goal, "krr")
    (offer,) = trial.run()
    assert isinstance(offer, Candidate)
    found = calibrate(
        catalogue.find_buildable_class("krr"), users=20_000, epsilon=1.0, delta=1e-6, options=9, effort="quick"
    )
    assert offer.mechanism.epsilon == pytest.approx(found.value, rel=1e-4)


@pytest.mark.exhaustive
def test_rounds_share_the_target() -> None:
    """Three rounds, composed, meet what one alone would."""
    goal = small_goal("frequency", rounds=3)
    (trial,) = build_trials(goal, "oue")
    (offer,) = trial.run()
    assert isinstance(offer, Candidate)
    curve = amplify(offer.mechanism, goal.users, effort="quick")
    assert compose(curve, 3).epsilon(1e-6).upper <= 1.0 < compose(curve, 4).epsilon(1e-6).upper
    assert offer.plan.rounds == 3


@pytest.mark.parametrize(
    ("limits", "refused", "offered"),
    [
        (Limits(bits=8), "oue", "krr"),
        (Limits(messages=1), "pure-dump", "krr"),
        (Limits(epsilon_local=3.0), "pure-dump", "krr"),
    ],
    ids=["bits", "messages", "local"],
)
def test_limits_are_kept(limits: Limits, refused: str, offered: str) -> None:
    """What is beyond them is refused with the reason, what is within them is offered."""
    goal = small_goal("frequency", limits=limits)
    (no,), (yes,) = (list(run_jobs(build_trials(goal, name))) for name in (refused, offered))
    assert not isinstance(no, Candidate)
    assert isinstance(yes, Candidate)
    assert limits.find_violation(yes.mechanism) is None
    assert no.reason.endswith(".")


@pytest.mark.exhaustive
@pytest.mark.parametrize("limits", [Limits(bits=8), Limits(messages=1), Limits(bits=6, messages=1.5)], ids=str)
def test_what_is_beyond_the_limits_is_not_certified(limits: Limits, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only mechanisms within them are, and these come out as without any limits, where they send no more by nature."""
    certified: list[str] = []

    def note(name: str) -> None:
        real = getattr(Trial, name)

        def noted(self: Trial, *args: Any) -> Any:
            certified.append(self.name)
            return real(self, *args)

        monkeypatch.setattr(Trial, name, noted)

    names = ("krr", "oue", "subset", "pure-dump", "poisson-dump", "hadamard-response")
    free = [found for name in names for found in run_jobs(build_trials(small_goal("frequency"), name))]
    note("_certify")
    note("_search_certified")
    bound = [found for name in names for found in run_jobs(build_trials(small_goal("frequency", limits=limits), name))]
    offered = {found.name for found in bound if isinstance(found, Candidate)}
    assert set(certified) == offered
    assert any(isinstance(found, Rejection) and found.reason.startswith("sends ") for found in bound)
    for one, other in zip(free, bound, strict=True):
        assert isinstance(one, Candidate)
        within = limits.find_violation(one.mechanism) is None
        assert within == isinstance(other, Candidate)
        if isinstance(other, Candidate):
            assert (other.mechanism, other.proof.upper) == (one.mechanism, one.proof.upper)


def test_a_limit_of_local_epsilon_holds_for_seeds_too() -> None:
    """A compressed mechanism's own ε is a hair above that of what it compresses."""
    goal = Goal(Frequency(300), 5000, Target(1.0, 1e-6), limits=Limits(epsilon_local=2.0))
    (trial,) = build_trials(goal, "compressed-oue")
    (offer,) = trial.run()
    assert isinstance(offer, Candidate)
    assert offer.mechanism.local_epsilon is not None
    assert 1.99 <= offer.mechanism.local_epsilon <= 2.0
    assert "pseudorandom" in offer.assumption
    assert offer.bits == 128


def test_a_limit_of_local_epsilon_is_shared_by_runs() -> None:
    """The ε that is searched is that of one run; all runs together keep the limit, and use it."""
    goal = Goal(UnitVectorMean(64), 20_000, Target(5.0, 1e-6), limits=Limits(epsilon_local=6.0))
    (offer,) = run_jobs(build_trials(goal, "repeated-compressed-privunit-g"))
    assert isinstance(offer, Candidate)
    assert offer.mechanism.settings()["runs"] == 2
    assert offer.mechanism.local_epsilon is not None
    assert 5.99 <= offer.mechanism.local_epsilon <= 6.0
    assert offer.bits == 256
    assert "pseudorandom" in offer.assumption
    assert Plan.parse(offer.plan.text()).mechanism == offer.mechanism


def test_two_seeds_win_where_one_is_hard_to_find() -> None:
    """With much ε to spend a single vector cannot use it; runs of vectors that can be found have less noise."""
    goal = Goal(UnitVectorMean(1024), 10**8, Target(2.0, 1e-8), limits=Limits(bits=512))
    one, several = (
        list(run_jobs(build_trials(goal, f"{prefix}-privunit-g"))) for prefix in ("compressed", "repeated-compressed")
    )
    assert isinstance(one[0], Candidate)
    assert isinstance(several[0], Candidate)
    assert several[0].standard_error < 0.97 * one[0].standard_error
    assert several[0].bits == 256


def test_what_is_built_around_a_mechanism_is_tried_where_it_may_win() -> None:
    """Seeds, and several seeds for vectors; whatever else can be built is planned by its name."""
    names = [name for name, _ in Goal(UnitVectorMean(64), 1000, Target(1.0, 1e-6)).usable_mechanisms()]
    assert {"compressed-privunit-g", "repeated-compressed-privunit-g", "repeated-compressed-privhs"} <= set(names)
    assert not {"repeated-privhs", "compressed-repeated-privhs", "repeated-compressed-duchi"} & set(names)
    assert "compressed-duchi" in names
    goal = Goal(UnitVectorMean(64), 5000, Target(1.0, 1e-6))
    for name, bits in (("repeated-privhs", 2 * 2048), ("compressed-repeated-privhs", 128)):
        (outcome,) = run_jobs(build_trials(goal, name))
        assert isinstance(outcome, Candidate)
        assert outcome.bits == bits
        assert outcome.name == outcome.mechanism.name == name
    with pytest.raises(ValueError, match=r"mechanism must be one of .* got 'repeated-krr'"):
        build_trials(goal, "repeated-krr")


def test_seeds_of_long_vectors_of_signs() -> None:
    """Two hundred signs in 128 bits, with the error of the signs."""
    goal = Goal(VectorMean(200, 0.0, 1.0), 20_000, Target(1.0, 1e-6))
    (seed,), (signs,) = (list(run_jobs(build_trials(goal, name))) for name in ("compressed-duchi", "duchi"))
    assert isinstance(seed, Candidate)
    assert isinstance(signs, Candidate)
    assert (seed.bits, signs.bits) == (128, 200)
    assert seed.standard_error <= 1.02 * signs.standard_error


def test_good_settings_are_chosen() -> None:
    """The number of Hadamard blocks that a guess chooses is as good as the best by certified calibration."""
    goal = Goal(Frequency(16), 50_000, Target(1.0, 1e-8))
    (trial,) = build_trials(goal, "hadamard-response")
    (offer,) = trial.run()
    assert isinstance(offer, Candidate)
    every = [
        calibrate(
            HadamardResponse, users=50_000, epsilon=1.0, delta=1e-8, options=16, blocks=blocks, effort="quick"
        ).mechanism
        for blocks in (1, 2, 4, 8)
    ]
    best = min(goal.task.standard_error(mechanism, 50_000) for mechanism in every)
    assert offer.standard_error <= 1.1 * best


def test_an_impossible_target_is_a_sentence() -> None:
    """Two users hide nobody well."""
    goal = Goal(TASKS["frequency"], 2, Target(1e-9, 1e-300))
    with pytest.raises(ValueError, match=r"plan: no mechanism meets the target within the limits; "):
        Ranking.from_outcomes(goal, run_jobs(build_trials(goal, "pure-dump")))


def test_an_unknown_mechanism_is_a_sentence() -> None:
    """The names that would do are listed."""
    with pytest.raises(ValueError, match=r"mechanism must be one of .*krr.* for the task 'frequency', got 'laplace'"):
        build_trials(small_goal("frequency"), "laplace")


@pytest.mark.parametrize("changes", [{"bits": 0}, {"messages": 0.5}, {"epsilon_local": -1.0}])
def test_bad_limits_are_sentences(changes: dict[str, float]) -> None:
    """Limits are positive."""
    with pytest.raises(ValueError, match="plan: "):
        Limits(**changes)  # type: ignore[arg-type]


@pytest.mark.exhaustive
def test_outcomes_are_the_same_in_other_processes() -> None:
    """Two processes find what one does, in any order."""
    goal = small_goal("frequency")
    chosen = [trial for trial in build_trials(goal) if trial.name in ("krr", "subset")]
    alone, together = ({outcome.name: outcome for outcome in run_jobs(chosen, workers)} for workers in (1, 2))
    for name, outcome in alone.items():
        other = together[name]
        assert isinstance(outcome, Candidate)
        assert isinstance(other, Candidate)
        assert dataclasses.replace(other, cost=outcome.cost) == outcome


@pytest.mark.exhaustive
def test_settings_that_a_guess_was_wrong_about_are_passed_over() -> None:
    """One coin a counter cannot hide a hundred users over three rounds, though a guess takes it; four can."""
    goal = Goal(Frequency(10), 100, Target(1.0, 1e-4), rounds=3)
    with pytest.raises(NotApplicable):
        calibrate(BalcerCheu, epsilon=1.0, delta=1e-4, users=100, rounds=3, options=10, coins=1, effort="quick")
    (outcome,) = run_jobs(build_trials(goal, "balcer-cheu"))
    assert isinstance(outcome, Candidate)
    assert outcome.mechanism.settings()["coins"] > 1
    assert 0.999 < outcome.proof.upper <= 1.0


@pytest.mark.exhaustive("local-hash")
@pytest.mark.parametrize("name", ["balcer-cheu", "local-hash", "compressed-oue", "pi-rappor"])
def test_a_million_options_are_planned_for_without_the_work_of_collecting(name: str) -> None:
    """What would take hours or memory to run is costed by little of it, or refused with a reason."""
    goal = Goal(Frequency(10**6), 10**7, Target(1.0, 1e-9))
    (outcome,) = run_jobs(build_trials(goal, name))
    if name == "compressed-oue":
        assert isinstance(outcome, Rejection)
        assert "GB of seeds" in outcome.reason
    else:
        assert isinstance(outcome, Candidate)
        assert outcome.bits <= MAX_BITS
        assert outcome.cost.server_seconds(10**7) > 0


def test_costs_are_measured() -> None:
    """A message of a thousand bits takes longer than one of ten."""
    goal = Goal(Frequency(1000), 1000, Target(1.0, 1e-6))
    spent = {}
    for name in ("krr", "oue"):
        kind = catalogue.find_buildable_class(name)
        mechanism = Trial(name, kind, goal)._guess_mechanism({"options": 1000})
        spent[name] = mechanism_calibration.measure_cost(mechanism, np.arange(1000))
    assert 0 < spent["krr"].encoding_seconds < spent["oue"].encoding_seconds
    assert spent["oue"].server_seconds(10**6) > spent["oue"].server_seconds(1)


@pytest.mark.parametrize("start", [0.0, 0.001, 0.1])
@pytest.mark.parametrize("each", [1e-8, 1e-6, 1e-4, 0.03])
def test_a_cost_is_found_in_little_time(start: float, each: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that only reading moves: what a batch costs whatever its size is not what a user costs."""
    now, read = 0.0, 0

    class Server:
        def accumulate(self, messages: Any) -> int:
            nonlocal now, read
            now, read = now + start + each * len(messages), read + len(messages)
            return 0

        def finish(self, total: int, users: int) -> None:
            nonlocal now
            now += 0.5

    monkeypatch.setattr(mechanism_calibration, "time", SimpleNamespace(process_time=lambda: now))
    found = mechanism_calibration.measure_cost(KRR(1.0, 4), np.arange(4), Server())  # type: ignore[arg-type]
    told = read > 1 and (each * read > 0.001)
    assert found.finishing_seconds == pytest.approx(0.5)
    assert found.reading_seconds == pytest.approx(max(each, mechanism_calibration.MIN_SECONDS), rel=1e-6) or not told
    assert now < 0.5 + 10 * start + 0.5
