"""Counts of items that few hold: intervals cover, and standard errors are as honest as they."""

from __future__ import annotations

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp._core.validation import Floats
from shuffledp.mechanisms.base.error_laws import CountErrorLaw, Cumulant
from shuffledp.mechanisms.base.estimator import Estimate
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.tasks.counts_and_frequencies import standard_error

HELD = np.array([130, 93, 57, 10, 2])
"""Users of each of five options, out of 300."""
USERS, REPEATS = 300, 200
TASK = sdp.tasks.ItemSets(["tea", "milk", "wine", "beer", "rum"], 2)


def sets() -> Floats:
    """The first option with another, or with a dummy; as a mechanism for sets of two out of seven takes them."""
    flat = np.repeat(np.arange(5), HELD)
    rows = np.full((USERS, 2), -1)
    rows[: min(USERS, len(flat)), 0] = flat[:USERS]
    dummies = np.where(rows[:, 0] < 0, 6, 5)
    return np.stack([np.where(rows[:, 0] < 0, 5, rows[:, 0]), dummies], axis=1)


@pytest.mark.exhaustive("mechanism1", "mechanism2")
@pytest.mark.parametrize("mechanism", [sdp.SamplingRAPPOR(8.0, 7, 2), sdp.Wheel(8.0, 7, 2), sdp.PrivSet(7.0, 7, 2)])
def test_errors_are_as_large_as_standard_errors_say(mechanism: Mechanism) -> None:
    """200 collections with little noise: errors of an option that ten hold are no larger than is said, in mean square.

    An estimate of 0 that took its error from 0 users would say that there is none, and be off by many of it.
    """
    rng, values = np.random.default_rng(2), mechanism.check(sets())
    truth = mechanism.truth(values)[:5]
    scores, plain = [], []
    for _ in range(REPEATS):
        estimate = mechanism.estimate(mechanism.encode(values, rng=rng), USERS)
        (found,) = TASK.quantities(mechanism, estimate, 0.95)
        assert found.standard_error is not None
        scores.append((found.value - truth) / found.standard_error)
        plain.append((found.value - truth) / estimate.standard_error[:5])
    assert np.square(scores).mean(axis=0).max() < 1.6
    assert np.square(plain).mean(axis=0).max() > 1.9


def test_a_standard_error_is_half_an_interval_or_more() -> None:
    """By hand: V(0) = 4, slope 9; at 0 the interval is the θ with θ² ≤ z²·(4 + 9θ), of which none is below −2z."""
    z = 1.959963984540054
    value, variance = np.array([0.0, 400.0, -3.0]), np.array([4.0, 4.0 + 9 * 400, 4.0])
    sloping = Estimate(value, variance, 1000, CountErrorLaw(Cumulant(4.0, 9.0)))
    low, high = sloping.interval(0.95)
    root = max(np.roots([1.0, -9 * z**2, -4 * z**2]))
    assert [low[0], high[0]] == pytest.approx([-2 * z, root])
    said = standard_error(sloping)
    assert said[0] == pytest.approx((root + 2 * z) / (2 * z))
    assert (said >= sloping.standard_error).all()
    assert said[1] == pytest.approx(sloping.standard_error[1], rel=0.02)
    flat = Estimate(value, variance, 1000)
    np.testing.assert_allclose(standard_error(flat), flat.standard_error)


def test_it_does_not_depend_on_the_confidence_of_the_intervals() -> None:
    mechanism = sdp.SamplingRAPPOR(8.0, 7, 2)
    estimate = mechanism.estimate(mechanism.encode(sets(), rng=np.random.default_rng(3)), USERS)
    wide, narrow = (TASK.quantities(mechanism, estimate, confidence)[0] for confidence in (0.99, 0.8))
    assert wide.standard_error is not None
    assert narrow.standard_error is not None
    np.testing.assert_array_equal(wide.standard_error, narrow.standard_error)
    assert wide.high is not None
    assert narrow.high is not None
    assert (wide.high > narrow.high).all()
