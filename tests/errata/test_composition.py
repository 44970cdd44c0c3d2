"""Errors about parallel composition [VR Section 6, 8.3] and about limits of composed rounds."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from scipy.special import ndtr

from tests.oracle.double_precision import delta_published_float, epsilon_published_float, epsilon_root
from tests.oracle.tables import parallel_range_query, worst_total_variation


def mean_total_variation(options: int, epsilon_local: float) -> float:
    """The average over the levels of the total variation of randomized response on the nodes."""
    levels, ratio = int(math.log2(options)), math.exp(epsilon_local)
    return sum((ratio - 1) / (ratio + options / 2**h - 1) for h in range(levels)) / levels


def last_term_only(options: int, epsilon_local: float) -> float:
    """What a loop that overwrites instead of summing leaves: the term of the finest level."""
    levels, ratio = int(math.log2(options)), math.exp(epsilon_local)
    return (ratio - 1) / (ratio + options - 1) / levels


def test_the_terms_of_a_range_query_are_summed() -> None:
    """CO-1: the sum is the total variation of the mechanism; its last term alone is far below it."""
    ratio, levels = Fraction(3), 3
    true = worst_total_variation(parallel_range_query(levels, ratio))
    terms = [(ratio - 1) / (ratio + 2 ** (levels - h) - 1) / levels for h in range(levels)]
    assert true == sum(terms)
    assert true > 5 * terms[0]


def test_the_epsilon_of_a_range_query() -> None:
    """CO-1: eps0 = 1, d = 64, n = 1e4, delta = 1e-6: the last term reports 0.0034 where 0.0264 is right."""
    users, delta, ratio = 10_000, 1e-6, math.e
    summed = epsilon_published_float(ratio, mean_total_variation(64, 1.0), ratio, users, delta)
    overwritten = epsilon_published_float(ratio, last_term_only(64, 1.0), ratio, users, delta)
    basic = epsilon_published_float(ratio, math.tanh(0.5), ratio, users, delta)
    assert (round(overwritten, 4), round(summed, 5), round(basic, 5)) == (0.0034, 0.02641, 0.04321)


@pytest.mark.parametrize("options", [64, 2048])
@pytest.mark.parametrize("users", [10_000, 100_000])
def test_the_saving_of_parallel_composition(options: int, users: int) -> None:
    """CO-2: at no local epsilon is 75% saved over basic composition; the most is 61%, the least 5%."""
    delta, savings, overwritten = 0.01 / users, [], []
    for epsilon_local in (0.1, 1.0, 2.0, 3.0, 5.0):
        ratio = math.exp(epsilon_local)
        basic = epsilon_published_float(ratio, math.tanh(epsilon_local / 2), ratio, users, delta)
        for beta, kept in [
            (mean_total_variation(options, epsilon_local), savings),
            (last_term_only(options, epsilon_local), overwritten),
        ]:
            kept.append(1 - epsilon_published_float(ratio, beta, ratio, users, delta) / basic)
    assert max(savings) < 0.62
    assert savings == sorted(savings, reverse=True)
    assert max(overwritten) > 0.75
    if (options, users) == (2048, 100_000):
        assert [round(saving, 2) for saving in savings] == [0.6, 0.55, 0.48, 0.4, 0.23]


@pytest.mark.parametrize(
    ("users", "epsilon_local", "delta", "limit"), [(1000, 4.0, 1e-5, 1.2213), (100, 2.0, 1e-5, 1.1815)]
)
def test_the_gaussian_limit_is_no_upper_bound(users: int, epsilon_local: float, delta: float, limit: float) -> None:
    """CO-3: the normal limit of one shuffled round reports an epsilon far below the exact one."""
    ratio = math.exp(epsilon_local)
    shift = (ratio - 1) * math.sqrt(2 / ((ratio + 1) * users))

    def gaussian(epsilon: float) -> float:
        near, far = shift / 2 - epsilon / shift, -shift / 2 - epsilon / shift
        return float(ndtr(near) - math.exp(epsilon) * ndtr(far))

    reported = epsilon_root(gaussian, delta, epsilon_local)
    exact = epsilon_published_float(ratio, (ratio - 1) / (ratio + 1), ratio, users, delta)
    assert reported == pytest.approx(limit, abs=1e-4)
    assert exact > 1.15 * reported
    assert delta_published_float(ratio, (ratio - 1) / (ratio + 1), ratio, ratio, users, reported) > 5 * delta
