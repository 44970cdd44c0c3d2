"""What a plan says about its error: exact, for any number of users, and what replacing a user changes."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from shuffledp import KRR, OUE, PCKV, CancellingSets, Laplace, PrivKV, PrivSet, RangeQueries
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.planning.mechanism_calibration import Trial
from shuffledp.tasks import ItemSets, Mean, Task
from shuffledp.tasks.base import apportion
from tests.planning.goals import TASKS, small_goal


def mechanisms_of(name: str) -> list[Mechanism]:
    """Every mechanism of the task, where a quick guess puts it."""
    goal = small_goal(name)
    found = []
    for known, kind in goal.usable_mechanisms():
        trial = Trial(known, kind, goal)
        try:
            target = goal.target
            designs = kind.designs(
                goal.task.mechanism_settings_for(kind), goal.users, target.epsilon, target.delta, goal.rounds
            )
            # Noise that the shuffler draws does not grow with the users.
            designed = next((design for design in designs if design.get("honest", True)), None)
            searched = trial._determined_settings() | next(trial._variants())
            made = kind(**designed) if designed else trial._guess_mechanism(searched)
            goal.task.standard_error(made, 10)
        except ValueError:
            continue
        found.append(made)
    return found


@pytest.mark.exhaustive("set-valued")
@pytest.mark.parametrize("name", TASKS)
def test_the_error_of_few_users_tells_that_of_many(name: str) -> None:
    """``variance`` of all users is what is predicted from the sample: sums grow with n, means fall with it."""
    task = TASKS[name]
    found = mechanisms_of(name)
    assert found
    for mechanism in found:
        sample = mechanism.check(task.representative_values(mechanism))
        many = np.concatenate([sample] * 7)
        whole = float(np.mean(task.estimator_variance(mechanism, many)))
        expected = task.scale(mechanism) * math.sqrt(whole)
        assert task.standard_error(mechanism, len(many)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("mechanism", [KRR(2.0, 9), OUE(1.0, 9)], ids=lambda m: m.name)
def test_frequencies_have_the_same_error_for_any_data(mechanism: Mechanism) -> None:
    """Users spread evenly stand for all: the squared error summed over the options does not depend on the data."""
    skewed = np.array([0] * 50 + [1] * 30 + [8] * 10)
    found = math.sqrt(float(np.mean(mechanism.variance(skewed))))
    assert TASKS["frequency"].standard_error(mechanism, 90) == pytest.approx(found, rel=1e-12)


def test_a_mean_is_in_the_users_unit() -> None:
    """The error of delays in minutes is that of the unit interval times the interval's width."""
    wide, unit = Mean(-60, 180), Mean(0, 1)
    mechanism = Laplace(2.0)
    assert wide.standard_error(mechanism, 500) == pytest.approx(240 * unit.standard_error(mechanism, 500))


def largest_change(mechanism: Mechanism, one: list[Any], power: int) -> float:
    """Over all pairs of one user's values, how far the truth moves: by enumeration."""
    truths = [mechanism.truth(np.array([value])).reshape(-1) for value in one]
    pairs = itertools.combinations(truths, 2)
    return max(float((np.abs(a - b) ** power).sum()) for a, b in pairs) ** (1 / power)


def key_value_rows() -> list[Any]:
    """Two different keys of five with extreme values."""
    keys = itertools.combinations(range(5), 2)
    return [[[a, x], [b, y]] for a, b in keys for x in (-1, 1) for y in (-1, 1)]


@pytest.mark.parametrize(
    ("task", "mechanism", "values"),
    [
        (TASKS["frequency"], KRR(1.0, 9), list(range(9))),
        (TASKS["set-valued"], PrivSet(1.0, 9, 2), list(map(list, itertools.combinations(range(9), 2)))),
        (
            ItemSets(5, 4),
            CancellingSets(5, 4, 0.5, 3.5, 0.8, 0),
            [[*own, *[-1] * (4 - size)] for size in range(5) for own in itertools.combinations(range(5), size)],
        ),
        (TASKS["key-value"], PrivKV(1.0, 5, items=2), key_value_rows()),
        (TASKS["key-value"], PCKV(1.0, 5, 2), key_value_rows()),
        (TASKS["range queries"], RangeQueries(1.0, 4), list(range(16))),
    ],
    ids=["frequency", "sets", "large sets", "privkv", "pckv", "ranges"],
)
def test_sensitivity_is_the_largest_change(task: Task, mechanism: Mechanism, values: list[Any]) -> None:
    """By enumeration of all two values of one user."""
    known = task.sensitivity(1)
    assert known.l1 == pytest.approx(largest_change(mechanism, values, 1))
    assert known.l2 == pytest.approx(largest_change(mechanism, values, 2))


def test_sensitivity_of_means() -> None:
    """One of n users moves each coordinate by at most the interval's width over n."""
    assert TASKS["mean"].sensitivity(10).l1 == pytest.approx(8.0)
    box, ball = TASKS["boxed vectors"].sensitivity(10), TASKS["vector mean"].sensitivity(10)
    assert (box.l1, box.l2) == (pytest.approx(3.0), pytest.approx(math.sqrt(3.0)))
    assert (ball.l1, ball.l2) == (pytest.approx(0.2 * 2.0), pytest.approx(0.2))


@pytest.mark.parametrize("users", [1, 10, 12345, 10**12])
def test_users_are_apportioned_to_the_last(users: int) -> None:
    """Whole numbers that add up, none off by one or more."""
    shares = np.array([0.5, 0.3, 0.125, 0.075])
    held = apportion(shares, users)
    assert int(held.sum()) == users
    assert (np.abs(held - shares * users) < 1).all()


def test_too_many_items_are_refused() -> None:
    """Nobody holds more options than there are."""
    with pytest.raises(ValueError, match=r"items must be at most the 9 options, got 10\."):
        ItemSets(9, 10)
