"""What estimates say of their own error: exact moments by enumeration, and coverage on data that is hard."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import shuffledp as sdp
from shuffledp._core.validation import Array, Integers
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.mechanisms.base.table_mechanism import TableEstimator
from shuffledp.mechanisms.catalogue import all_mechanisms
from tests.oracle import exact_enumeration

FALSE_ALARM = 1e-7
LEAST, MOST = 0.93, 0.97
"""Of intervals of 95%."""

TABLES = [
    sdp.FromTable(
        [[float(chance) for chance in row] for row in exact_enumeration.random_table(Random(seed), 3, outputs)]
    )
    for seed, outputs in ((1, 3), (2, 4), (3, 5))
]


@pytest.mark.parametrize("mechanism", TABLES, ids=["3 outputs", "4 outputs", "5 outputs"])
@pytest.mark.parametrize("crowd", [(0, 0), (0, 1), (2, 2, 1), (0, 1, 2)], ids=str)
def test_squares_tell_the_variance_without_bias(mechanism: sdp.FromTable, crowd: Sequence[int]) -> None:
    """Over every outcome of two and three users: the mean of the variance that is told is that of the estimate."""
    reading, rows = mechanism.estimator, mechanism.table().probabilities
    assert isinstance(reading, TableEstimator)
    told, first, second = np.zeros((3, 3))
    for outcome in itertools.product(range(len(rows[0])), repeat=len(crowd)):
        chance = float(
            math.prod((rows[user][sent] for user, sent in zip(crowd, outcome, strict=True)), start=Fraction(1))
        )
        counted = np.bincount(outcome, minlength=len(rows[0])).astype(float)
        value = reading.finish(counted, len(crowd)).value
        told += chance * reading.variance_from_squares(counted)
        first, second = first + chance * value, second + chance * value**2
    np.testing.assert_allclose(first, np.bincount(crowd, minlength=3), atol=1e-9)
    np.testing.assert_allclose(told, second - first**2, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("mechanism", TABLES, ids=["3 outputs", "4 outputs", "5 outputs"])
def test_fitted_counts_are_no_less_likely_than_others(mechanism: sdp.FromTable) -> None:
    """They add up to the messages, are not negative, and no other crowd explains the messages much better."""
    reading = mechanism.estimator
    assert isinstance(reading, TableEstimator)
    chances = np.array(mechanism.table().probabilities, dtype=float)
    rng = np.random.default_rng(4)
    for held in ([50, 0, 0], [20, 20, 10], [0, 1, 49]):
        counted = rng.multinomial(held, chances).sum(axis=0).astype(float)
        found = reading.fit_counts(counted)
        assert (found >= 0).all()
        assert found.sum() == pytest.approx(50, rel=1e-12)
        likelihood = counted @ np.log(found @ chances)
        others = [(a, b, 50 - a - b) for a in range(51) for b in range(51 - a)]
        best = max(counted @ np.log(np.maximum(np.array(one) @ chances, 1e-300)) for one in others)
        # A likelihood ratio of e^0.1 at most: less than any test can tell.
        assert likelihood >= best - 0.1


def crowds_of_cells(cells: int, users: int) -> dict[str, Integers]:
    """All in a corner, all in the middle, half in each of two corners, and everywhere."""
    found = {name: np.zeros(cells, dtype=np.int64) for name in ("corner", "middle", "two corners")}
    found["corner"][0] = found["middle"][cells // 2] = users
    found["two corners"][[0, -1]] = users // 2
    return {**found, "everywhere": np.full(cells, users // cells)}


@pytest.mark.parametrize("epsilon", [1.0, 3.0, 8.0, 16.0])
@pytest.mark.parametrize("name", ["corner", "middle", "two corners", "everywhere"])
def test_intervals_of_cells_cover_and_are_not_wide_for_nothing(epsilon: float, name: str) -> None:
    """400 collections of 3,000 users: 93 to 97% of all counts are within 95% intervals, whatever the noise.

    The counts of a collection hang together, as if there were one of them in each at the worst: beyond the bar only
    by chance of 1e-7.
    """
    mechanism, users, repeats = sdp.PlanarLaplace(epsilon, east=10.0, north=6.0, columns=5, rows=3), 3000, 400
    held, rng = crowds_of_cells(15, users)[name], np.random.default_rng(5)
    found = [mechanism.estimator.simulate(held, users, rng) for _ in range(repeats)]
    covered = np.mean([np.abs(one.value - held) <= one.margin(0.95) for one in found])
    assert (
        binom.ppf(FALSE_ALARM, repeats, LEAST) / repeats <= covered <= binom.isf(FALSE_ALARM, repeats, MOST) / repeats
    )
    stated = np.mean([one.variance for one in found], axis=0)
    ratio = stated / mechanism.variance(mechanism.grid.centres.repeat(held, axis=0))
    assert ratio.min() >= 0.85
    assert ratio.mean() <= 1.25


# --- some users are asked -----------------------------------------------------------------------------------------

TELL_SQUARES = [
    pytest.param(example, id=f"{name}-{number}")
    for name, kind in all_mechanisms().items()
    for number, example in enumerate(kind.examples())
    if example.has_table
    and example.estimator.mean_square(example.accumulate(example.encode(example.audit_pair())), 2) is not None
]


@pytest.mark.parametrize("mechanism", TELL_SQUARES)
def test_mean_squares_are_those_of_what_messages_add(mechanism: Mechanism) -> None:
    """By the exact law of every input: what is told of single messages, averaged, is the variance and the square."""
    table = mechanism.table()
    singles = [mechanism.accumulate(message[None, ...]) for message in table.messages]
    added = np.array([mechanism.finish(single, 1).value for single in singles])
    told = np.array([mechanism.estimator.mean_square(single, 1) for single in singles])
    for value, row in zip(table.inputs, np.array(table.probabilities, dtype=float), strict=True):
        np.testing.assert_allclose(row @ told, row @ added**2, rtol=1e-9)
        one = mechanism.check(value[None, ...])
        expected = mechanism.variance(one) + mechanism.truth(one) ** 2
        np.testing.assert_allclose(row @ told, expected, rtol=1e-8, atol=1e-9)
    both = singles[0] + singles[-1]
    np.testing.assert_allclose(mechanism.estimator.mean_square(both, 2), (told[0] + told[-1]) / 2, rtol=1e-12)


def test_some_mechanisms_tell_squares() -> None:
    assert {"laplace", "piecewise", "duchi", "witch-hat"} <= {param.values[0].name for param in TELL_SQUARES}


LAPLACE = sdp.Laplace(2.0)
NUMBERS: dict[str, Any] = {
    "all at 0": np.zeros(1500),
    "all at 1": np.ones(1500),
    "all in the middle": np.full(1500, 0.5),
    "both ends": np.repeat([0.0, 1.0], 750),
    "few at the end": np.repeat([0.02, 1.0], [1490, 10]),
    "spread": np.linspace(0.0, 1.0, 1500),
}


@pytest.mark.exhaustive("all at 0")
@pytest.mark.parametrize("mechanism", [LAPLACE, sdp.Laplace(8.0, grid=16), sdp.Piecewise(3.0)], ids=str)
@pytest.mark.parametrize("name", NUMBERS)
def test_intervals_of_a_mean_that_some_are_asked_for(mechanism: Mechanism, name: str) -> None:
    """600 collections of 1,500 users of whom a third answers: 93 to 97%, but for chance of 1e-7."""
    made = sdp.Parallel([mechanism, sdp.KRR(2.0, 3)], [1, 2])
    low, high = mechanism.value_range
    values: list[Array] = [low + (high - low) * NUMBERS[name], np.zeros(1500, dtype=np.int64)]
    truth, variance = made.truth(values)[0], made.variance(values)[0]
    rng, repeats = np.random.default_rng(6), 600
    found = [made.queries(made.estimate(made.encode(values, rng=rng)))[0] for _ in range(repeats)]
    covered = np.mean([abs(one.value[0] - truth) <= one.margin(0.95)[0] for one in found])
    assert (
        binom.ppf(FALSE_ALARM, repeats, LEAST) / repeats <= covered <= binom.isf(FALSE_ALARM, repeats, MOST) / repeats
    )
    assert 0.97 <= np.mean([one.variance[0] for one in found]) / variance <= 1.1


def test_the_squares_of_billions_of_users_are_no_overflow() -> None:
    """On the finest grid, with everybody at its end: sums of as many messages as a lake may hold."""
    mechanism = sdp.Laplace(epsilon=2.0, low=0.0, high=1.0, grid=1 << 16)
    once = mechanism.estimator.accumulate(np.full(1000, 1 << 16, dtype=np.int64))
    users, total = 1000, once
    for _ in range(24):
        users, total = 2 * users, total + total
    small, large = (mechanism.estimator.mean_square(*each) for each in ((once, 1000), (total, users)))
    assert small is not None
    assert large is not None
    assert large[0] == pytest.approx(small[0], rel=1e-12)
