"""Sums and variances: in the users' unit, unbiased, with intervals that cover, at a curator's error."""

import math

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.mechanisms.correlated_noise.split_and_mix import SplitAndMix
from shuffledp.mechanisms.correlated_noise.split_and_mix_vector import SplitAndMixVector
from shuffledp.planning.goal import Goal
from shuffledp.planning.mechanism_calibration import Candidate, Trial
from shuffledp.tasks import Mean, Sum, Task, Variance
from shuffledp.tasks.column_reader import ColumnReader
from shuffledp.tasks.means import estimate_variance


def offer_of(task: Task, users: int, delta: float = 1e-8) -> Candidate:
    kind = SplitAndMixVector if isinstance(task, Variance) else SplitAndMix
    (found,) = Trial(kind.name, kind, Goal(task, users, sdp.Target(1.0, delta))).run()
    assert isinstance(found, Candidate)
    return found


@pytest.mark.parametrize(("users", "messages"), [(10_000, 12), (1_000_000, 8)])
def test_means_and_sums_have_a_curators_error(users: int, messages: int) -> None:
    for task in (Mean(0, 10), Sum(0, 10)):
        offer = offer_of(task, users)
        assert offer.proof.upper <= 1.0
        assert offer.messages <= messages
        assert 1.0 <= offer.standard_error / offer.goal.central_baseline.standard_error <= 1.05


def test_a_plan_for_several_rounds_is_certified() -> None:
    goal = Goal(Mean(0, 1), 100_000, sdp.Target(1.0, 1e-8), rounds=4)
    (offer,) = Trial("split-and-mix", SplitAndMix, goal).run()
    assert isinstance(offer, Candidate)
    assert offer.proof.upper <= 1.0
    assert offer.standard_error <= 1.1 * goal.central_baseline.standard_error


def test_a_sum_is_as_many_means_as_there_are_users() -> None:
    mechanism = SplitAndMix(rate=0.01, levels=100, modulus=1 << 26, messages=3, honest=500)
    values = np.random.default_rng(0).uniform(0, 1, 500)
    found = mechanism.estimate(mechanism.encode(values, rng=np.random.default_rng(1)))
    (mean,), (total,) = Mean(-3, 7).quantities(mechanism, found, 0.95), Sum(-3, 7).quantities(mechanism, found, 0.95)
    assert total.name == "sum"
    assert total.value[0] == pytest.approx(500 * mean.value[0])
    assert total.low is not None
    assert mean.low is not None
    assert total.low[0] == pytest.approx(500 * mean.low[0])
    assert Sum(-3, 7).standard_error(mechanism, 500) == pytest.approx(500 * Mean(-3, 7).standard_error(mechanism, 500))


@pytest.mark.parametrize("task", [Mean(-5, 3), Sum(-5, 3)], ids=lambda task: task.name)
def test_plans_keep_what_they_promise(task: Task) -> None:
    """By the exact law; 2,000 runs: two percent is four deviations of what is covered."""
    outcome = sdp.simulate(offer_of(task, 50_000).plan, repeats=2000)
    assert outcome.exact
    assert 0.93 <= outcome.covered <= 0.97
    assert outcome.ratio == pytest.approx(1.0, abs=0.1)


@pytest.mark.exhaustive
@pytest.mark.parametrize("ends", [(-20.0, 60.0)])
def test_variances_are_unbiased_and_their_intervals_cover(ends: tuple[float, float]) -> None:
    """Skewed numbers, real messages; the mean comes along."""
    import pyarrow as pa

    task, users, rng = Variance(*ends), 400, np.random.default_rng(3)
    mechanism = SplitAndMixVector(
        2, scale=800.0, levels=200, modulus=1 << 24, messages=2, honest=users, shape="box", noise="laplace"
    )
    column = ColumnReader(("x",), task, mechanism)
    numbers = ends[0] + (ends[1] - ends[0]) * rng.beta(2, 5, users)
    values = column.read_values(pa.array(numbers))
    inside, errors = 0, []
    for _ in range(1500):
        estimate = mechanism.estimate(mechanism.encode(values, rng=rng))
        mean, variance = task.quantities(mechanism, estimate, 0.95)
        assert variance.low is not None
        assert variance.high is not None
        inside += int(variance.low[0] <= numbers.var() <= variance.high[0])
        errors.append((float(mean.value[0]) - numbers.mean(), float(variance.value[0]) - numbers.var()))
    assert 0.93 <= inside / 1500 <= 0.97
    off, spread = np.mean(errors, axis=0), np.std(errors, axis=0)
    assert (np.abs(off) <= 5 * spread / math.sqrt(1500)).all()


def test_the_square_of_an_estimate_is_not_taken_for_that_of_the_mean() -> None:
    found = estimate_variance(sdp.Estimate(np.array([0.5, 0.2]), np.array([0.01, 0.04]), users=10))
    assert found.value[0] == pytest.approx(0.6 - 0.25 + 0.01)
    assert found.variance[0] == pytest.approx(0.01 + 0.01 + 0.0002)


def test_replacing_one_user_moves_the_variance_by_no_more_than_is_said() -> None:
    rng, users = np.random.default_rng(4), 7
    most = Variance(2, 5).sensitivity(users).l1
    ends = np.where(np.arange(users) < 1, 5.0, 2.0)
    assert ends.var() - np.full(users, 2.0).var() == pytest.approx(most)
    for _ in range(300):
        numbers = rng.uniform(2, 5, users)
        for end in (2.0, 5.0):
            moved = numbers.copy()
            moved[0] = end
            assert abs(moved.var() - numbers.var()) <= most + 1e-12


def test_a_variance_is_near_a_curators() -> None:
    """Half of ε goes to the mean: about twice the error of a curator who tells the variance alone."""
    offer = offer_of(Variance(0, 10), 100_000, 1e-6)
    assert offer.mechanism.settings()["noise"] == "laplace"
    assert offer.standard_error <= 2.5 * offer.goal.central_baseline.standard_error


def test_a_count_of_yes_and_no_is_a_sum() -> None:
    answers = np.random.default_rng(5).integers(0, 2, 5000)
    mechanism = SplitAndMix(rate=0.9, levels=1, modulus=1 << 14, messages=6, honest=5000)
    found = mechanism.estimate(mechanism.encode(answers, rng=np.random.default_rng(6)))
    (total,) = Sum(0, 1).quantities(mechanism, found, 0.95)
    assert abs(total.value[0] - answers.sum()) <= 30
    assert float(mechanism.variance(answers)[0]) * 5000**2 == pytest.approx(2 * math.exp(-0.9) / math.expm1(-0.9) ** 2)


def test_a_plan_for_fewer_users_than_are_expected_has_room_for_all() -> None:
    goal = Goal(Mean(0, 10), 200_000, sdp.Target(1.0, 1e-8), minimum=20_000)
    (offer,) = Trial("split-and-mix", SplitAndMix, goal).run()
    assert isinstance(offer, Candidate)
    assert offer.mechanism.settings()["honest"] == 20_000
    for users in (20_000, 200_000):
        assert sdp.amplify(offer.mechanism, users=users, effort="quick").epsilon(delta=1e-8).upper <= 1.0
