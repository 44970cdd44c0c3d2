"""Means of keys with numbers: intervals of the ratio of two estimates that cover as often as they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.mechanisms.sets_and_key_values.pckv_and_privkv import KeyValueEstimator

KINDS = (sdp.PrivKV, sdp.PCKV, sdp.Collision)
SHARES = np.array([0.5, 0.3, 0.15, 0.04, 0.01])
MEANS = np.array([0.6, -0.4, 0.0, 1.0, -0.8])
"""What share of the users holds each key, the last ones few, and all with this number."""
MECHANISMS: dict[str, Any] = {
    "privkv": sdp.PrivKV(2.0, 5),
    "privkv, large ε": sdp.PrivKV(4.0, 5),
    "pckv": sdp.PCKV(2.0, 5, 1),
    "pckv, small ε": sdp.PCKV(0.5, 5, 1),
    "collision": sdp.Collision(2.0, 5, 1, length=5),
}
REPEATS = 1200


@pytest.mark.parametrize("kind", KINDS)
def test_the_covariance_is_exact(kind: Any) -> None:
    """Of one user's contributions to count and sum, enumerated over all messages."""
    for mechanism in kind.examples():
        table, reading = mechanism.table(), mechanism.estimator
        each = np.stack(
            [reading.finish(reading.accumulate(table.messages[[i]]), 1).value for i in range(len(table.messages))]
        )
        for held, row in zip(table.inputs, table.probabilities, strict=True):
            law = np.array([float(chance) for chance in row])
            counts, sums = np.tensordot(law, each, 1)
            found = np.tensordot(law, each[:, 0] * each[:, 1], 1) - counts * sums
            np.testing.assert_allclose(reading.covariance(reading.truth(held[None])[1]), found, atol=1e-9)


class Simulated:
    """Totals of messages drawn by their exact law, users with the same pair at once."""

    def __init__(self, mechanism: Any) -> None:
        table, reading = mechanism.table(), mechanism.estimator
        law_of = getattr(mechanism, "law_of", None) or mechanism._average_law
        each = np.stack([reading.accumulate(table.messages[[i]]) for i in range(len(table.messages))])
        # Messages that count alike are one.
        patterns, place = np.unique(each.reshape(len(each), -1), axis=0, return_inverse=True)
        self.patterns = patterns.reshape(-1, *each.shape[1:])
        self.laws = []
        for key, value in enumerate(MEANS):
            law = [float(chance) for chance in law_of(np.array([[key, value]]))]
            self.laws.append(np.bincount(place.reshape(-1), weights=law))

    def total(self, holders: Any, rng: np.random.Generator) -> Any:
        drawn = sum(rng.multinomial(n, law / law.sum()) for n, law in zip(holders, self.laws, strict=True))
        return np.tensordot(drawn, self.patterns, 1)


@pytest.mark.exhaustive("collision")
@pytest.mark.parametrize("users", [300, 20_000])
@pytest.mark.parametrize("name", MECHANISMS)
def test_intervals_of_means_cover(name: str, users: int) -> None:
    """At least 93% of 95% intervals, for frequent and for rare keys; where little is known they are all there is."""
    mechanism, rng = MECHANISMS[name], np.random.default_rng(11)
    reading, simulated = mechanism.estimator, Simulated(mechanism)
    assert isinstance(reading, KeyValueEstimator)
    holders = np.round(users * SHARES).astype(int)
    covered, told = np.zeros(5), np.zeros(5)
    for _ in range(REPEATS):
        estimate = reading.finish(simulated.total(holders, rng), users)
        low, high = reading.mean_intervals(estimate, 0.95)
        covered += (low <= MEANS) & (high >= MEANS)
        told += high - low < 2
        unsure = estimate.value[0] <= 1.96 * estimate.standard_error[0]
        assert (low[unsure] == -1).all()
        assert (high[unsure] == 1).all()
    assert (covered / REPEATS >= 0.93).all()
    # Not by saying nothing: the most frequent keys have intervals, and they are no wider than need be.
    if users == 20_000:
        assert (told[:2] / REPEATS > 0.99).all()
        assert (covered[1:3] / REPEATS < 0.975).all()


def test_the_task_reports_them_in_the_users_own_unit() -> None:
    """Within the interval of the numbers, about the mean; of a key that nobody holds nothing is told."""
    task = sdp.tasks.KeyValue(["book", "film", "song"], low=0, high=5, items=1)
    mechanism = sdp.PCKV(4.0, 3, 1)
    numbers = np.where(np.arange(20_000) % 2 == 0, 0.2, -0.6)
    pairs = np.stack([np.arange(20_000) % 2, numbers], axis=-1)[:, None, :]
    estimate = mechanism.estimate(mechanism.encode(pairs, rng=np.random.default_rng(2)))
    users, means = task.quantities(mechanism, estimate, 0.95)
    assert (users.name, means.name) == ("users", "mean")
    assert means.low is not None
    assert means.high is not None
    assert means.standard_error is None
    assert (means.low[:2] <= means.value[:2]).all()
    assert (means.value[:2] <= means.high[:2]).all()
    assert means.low[0] < 3.0 < means.high[0] < means.low[0] + 0.4
    assert means.low[1] < 1.0 < means.high[1] < means.low[1] + 0.4
    assert np.isnan([means.value[2], means.low[2], means.high[2]]).all()
    wider = task.quantities(mechanism, estimate, 0.999)[1]
    assert wider.low is not None
    assert wider.low[0] < means.low[0]
