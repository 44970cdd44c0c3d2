"""log E(S)_+ of many laws in floats: against counts one by one, the certified engine, and a law of one value."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import arb
from scipy.stats import multinomial

from shuffledp.numerics.contour_integral import log_positive_part_means
from shuffledp.numerics.distributions import FiniteLaw
from shuffledp.numerics.positive_part import positive_part_mean


def by_counts(values: list[float], weights: list[float], count: int) -> float:
    """log E(S)_+ by a sum over all pairs of counts."""
    total = 0.0
    law = multinomial(count, [*weights, 1 - sum(weights)])
    for first in range(count + 1):
        second = np.arange(count - first + 1)
        sums = first * values[0] + second * values[1]
        counts = np.stack([np.full_like(second, first), second, count - first - second], axis=1)
        total += float(np.dot(np.maximum(sums, 0.0), law.pmf(counts)))
    return math.log(total)


@pytest.mark.parametrize("count", [60, 150])
def test_against_all_counts(count: int) -> None:
    """A few dozen messages decide, and the estimate is off by less than a hundredth."""
    values, weights = [2.0, -2.7], [0.30, 0.28]
    (found,) = log_positive_part_means(np.array([values]), np.array([weights]), count)
    assert found == pytest.approx(by_counts(values, weights, count), abs=0.01)


def test_against_the_certified_engine() -> None:
    """Random laws of three and four values, all in one call: within a thousandth where many messages decide."""
    draws = np.random.default_rng(20)
    values = np.stack([draws.uniform(1, 9, 12), -draws.uniform(1, 9, 12), -draws.uniform(0.1, 1, 12)], axis=1)
    weights = np.stack([draws.uniform(0.02, 0.3, 12), draws.uniform(0.02, 0.3, 12), draws.uniform(0, 0.3, 12)], axis=1)
    # As in every use: the mean is a little below 0, so that the sum is positive in the tail.
    values[:, 1] = -(weights[:, 0] * values[:, 0] * 1.05) / weights[:, 1]
    count = 20_000
    found = log_positive_part_means(values, weights, count)
    for row, log_mean in enumerate(found.tolist()):
        rest = 1 - sum(map(arb, weights[row].tolist()), arb(0))
        pairs = [*zip(map(arb, values[row].tolist()), map(arb, weights[row].tolist()), strict=True), (arb(0), rest)]
        exact = positive_part_mean(FiniteLaw(lambda pairs=pairs: pairs), count, 1e-6)
        assert log_mean == pytest.approx(exact.log_upper(), abs=1e-3)


def test_the_limits() -> None:
    """No positive value: nothing; n as large as there are; both rows as if alone."""
    nothing = log_positive_part_means(np.array([[-1.0, -2.0]]), np.array([[0.2, 0.2]]), 100)
    assert nothing.tolist() == [-math.inf]
    values, weights = np.array([[2.0, -2.0], [3.0, -2.9]]), np.array([[0.1, 0.1001], [0.05, 0.0518]])
    both = log_positive_part_means(values, weights, 10**6)
    alone = [float(log_positive_part_means(values[[row]], weights[[row]], 10**6)[0]) for row in (0, 1)]
    assert both.tolist() == pytest.approx(alone, rel=1e-9)
    # A fair sum of variance n·0.8: E(S)_+ = √(n·0.8/2π) but for 1/n.
    (fair,) = log_positive_part_means(np.array([[2.0, -2.0]]), np.array([[0.1, 0.1]]), 10**12)
    assert fair == pytest.approx(0.5 * math.log(10**12 * 0.8 / (2 * math.pi)), abs=1e-6)
