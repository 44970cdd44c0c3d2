"""Intervals cover what they say, also where users differ: a mean of squares is no square of a mean."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from scipy.stats import binom

import shuffledp as sdp
from shuffledp._core.validation import Array
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.mechanisms.catalogue import all_mechanisms
from shuffledp.testing._mechanism_case import MechanismCase

USERS, REPEATS = 200, 40
MAX_BYTES = 400_000
FALSE_ALARM = 1e-7
MIN_SHARE = 0.93
"""What a normal interval of few users may cover at the least, where it says 0.95."""
MIN_VARIANCE = 0.85
"""Least part of the true variance that is stated on average: beyond chance, given the number of messages below."""

MECHANISMS = [
    pytest.param(example, id=f"{name}-{number}")
    for name, kind in all_mechanisms().items()
    for number, example in enumerate(kind.examples())
]

COSTLY = (
    *("[rappor", "all-answered", "balcer-cheu", "balcer-uniform", "balls-into-bins", "cheu-zhilyaev", "collision"),
    *("duchi", "hadamard-response", "harmony", "krr", "local-hash", "mix-dump", "oue", "pckv", "pi-rappor", "privset"),
    *("projective-geometry", "pure-dump", "repeated", "sqkr", "subset", "wheel"),
)
"""Mechanisms whose crowds take seconds: what variances they state is also tested by test_stated_variance.py."""


def crowds(mechanism: Mechanism) -> Iterator[Array]:
    """All alike, half and half of two inputs that are far apart, and every input of the table, where there is one."""
    ends = mechanism.audit_pair()
    yield ends[:1]
    yield ends
    if mechanism.has_table:
        yield mechanism.table().inputs


@pytest.mark.exhaustive(*COSTLY)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_mechanism_states_its_variance_from_messages(mechanism: Mechanism) -> None:
    """Over repeated collections of 200 users: coverage, and the average of the stated variance against the exact one.

    False-alarm rate below 1e-7 for each component: the coverage by a binomial law, the variance as a mean of some
    thousand squares, whose relative error is below 2.5%.
    """
    width = mechanism.message_bytes * mechanism.messages_per_user
    repeats = max(10, min(REPEATS, int(MAX_BYTES // (USERS * width))))
    rng = np.random.default_rng(15)
    least = binom.ppf(FALSE_ALARM, repeats, MIN_SHARE) / repeats
    for values in crowds(mechanism):
        crowd = np.resize(values, (USERS, *values.shape[1:]))
        truth, exact = mechanism.truth(crowd), mechanism.variance(crowd)
        found = [mechanism.estimate(MechanismCase(mechanism).send_messages(crowd, rng), USERS) for _ in range(repeats)]
        ends = [estimate.interval(0.95) for estimate in found]
        covered = np.mean([(low <= truth) & (truth <= high) for low, high in ends], axis=0)
        assert covered.min() >= least
        stated = np.mean([estimate.variance for estimate in found], axis=0)
        assert (stated >= MIN_VARIANCE * exact).all()


@pytest.mark.parametrize(
    "mechanism",
    [
        sdp.WitchHat(3.0, grid=64, scale=0.2),
        sdp.WitchHat(6.0, grid=16, scale=0.5),
        sdp.WitchHat(8.0, half_width=5.0, grid=3, scale=3.0),
        sdp.Laplace(6.0, grid=64),
        sdp.Piecewise(5.0),
        sdp.Duchi(epsilon=3.0, dimension=1),
    ],
    ids=str,
)
@pytest.mark.parametrize("share", [0.5, 0.1])
def test_means_of_users_at_both_ends(mechanism: Mechanism, share: float) -> None:
    """1,000 collections of 400 users at the two ends: 95% of the intervals cover, but for chance (1e-7)."""
    low, high = mechanism.audit_pair()
    crowd = np.where(np.arange(400) < 400 * share, np.ravel(high)[0], np.ravel(low)[0]).reshape(400, *np.shape(low))
    truth, repeats = mechanism.truth(crowd), 1000
    messages = mechanism.encode(np.concatenate([crowd] * repeats), rng=np.random.default_rng(9))
    found = [mechanism.estimate(part) for part in np.split(messages, repeats)]
    covered = np.mean([abs(one.value - truth) <= 1.959964 * one.standard_error for one in found])
    assert covered >= binom.ppf(FALSE_ALARM, repeats, 0.945) / repeats
    # Some hundred thousand messages: off by chance by less than half a percent.
    assert np.mean([one.variance for one in found]) >= 0.98 * mechanism.variance(crowd)[0]


@pytest.mark.parametrize(("epsilon", "signs"), [(4.0, 8), (2.0, 5), (1.4, None), (6.0, None)])
def test_vectors_that_point_both_ways(epsilon: float, signs: int | None) -> None:
    """Half of the users hold a vector and half its opposite: the estimate is near 0, its variance is not that of 0."""
    mechanism = sdp.SQKR(epsilon, dimension=8, signs=signs)
    crowd = np.zeros((400, 8))
    crowd[:, 0] = np.where(np.arange(400) % 2, 1.0, -1.0)
    repeats, rng = 150, np.random.default_rng(10)
    found = [mechanism.estimate(mechanism.encode(crowd, rng=rng)) for _ in range(repeats)]
    stated = np.mean([one.variance for one in found], axis=0)
    assert (stated >= 0.99 * mechanism.variance(crowd)).all()
    covered = np.mean([np.abs(one.value) <= 1.959964 * one.standard_error for one in found], axis=0)
    assert covered.min() >= binom.ppf(FALSE_ALARM, repeats, 0.945) / repeats
    assert math.isclose(float(np.mean([one.value for one in found])), 0.0, abs_tol=0.05)
