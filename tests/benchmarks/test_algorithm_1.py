"""The benchmark's Algorithm 1 gives the published pair's numbers, so that its time is the time of the same job."""

from __future__ import annotations

import math

import pytest
from mpmath import mpf

from benchmarks.algorithm_1 import CHUNK, Algorithm1
from shuffledp import VariationRatio, amplify
from tests.oracle.highprecision import delta_published, solve_epsilon

SETTINGS = [
    (math.e, (math.e - 1) / (math.e + 1), math.e),
    (math.e, (math.e - 1) / (math.e + 15), math.e),
    (math.exp(3), 1 - math.exp(-1.5), math.exp(3)),
    (4.0, 0.3, 9.0),
]
"""(p, β, q): any LDP (γ = 0), randomized response on 16 options, Laplace, and a q of its own."""
FLOAT_ERROR = 1e-9


@pytest.mark.parametrize(("p", "beta", "q"), SETTINGS)
@pytest.mark.parametrize("users", [1, 2, 15])
def test_divergences_agree_with_high_precision(p: float, beta: float, q: float, users: int) -> None:
    """The procedure Delta is D(P‖Q) of the published pair."""
    for epsilon in (0.01, 0.2, 0.9):
        exact = delta_published(p, beta, q, q, users, epsilon)
        assert abs(Algorithm1(p, beta, q, users).delta(epsilon) - exact) <= FLOAT_ERROR * exact


@pytest.mark.parametrize(("p", "beta", "q"), SETTINGS)
def test_its_epsilon_agrees_with_high_precision(p: float, beta: float, q: float) -> None:
    """The ε that it returns is at most its resolution above the crossing."""
    users, delta = 12, 1e-3
    algorithm = Algorithm1(p, beta, q, users)
    exact = solve_epsilon(lambda epsilon: delta_published(p, beta, q, q, users, epsilon, 30), delta, tolerance="1e-10")
    assert -FLOAT_ERROR <= mpf(algorithm.epsilon(delta)) - exact <= algorithm.resolution + FLOAT_ERROR


@pytest.mark.parametrize(("p", "beta", "q"), SETTINGS)
@pytest.mark.parametrize(("users", "delta"), [(40, 1e-2), (300, 1e-4), (5_000, 1e-8), (20_000, 1e-30)])
def test_its_epsilon_agrees_with_ours(p: float, beta: float, q: float, users: int, delta: float) -> None:
    """The certified published ε lies in its last interval."""
    ours = amplify(VariationRatio(p, beta, q), users, bound="variation-ratio-published").epsilon(delta)
    algorithm = Algorithm1(p, beta, q, users)
    found = algorithm.epsilon(delta)
    assert found - algorithm.resolution <= ours.upper + FLOAT_ERROR
    assert ours.upper - ours.slack <= found + FLOAT_ERROR


def test_blocks_hold_every_count_once() -> None:
    """The blocks cover 0 … n−1, and those near the mean hold all that matters."""
    users = 3 * CHUNK + 5
    algorithm = Algorithm1(*SETTINGS[1], users)
    blocks = [range(start, min(start + CHUNK, users)) for start in algorithm.chunks()]
    assert [c for block in blocks for c in block] == list(range(users))
    near = algorithm.chunks_near_mean(12.0)
    assert 0 < len(near) < len(blocks)
    whole = algorithm.delta(0.01)
    assert whole > 0
    assert abs(algorithm.delta_of(0.01, near) - whole) <= FLOAT_ERROR * whole
