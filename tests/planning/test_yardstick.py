"""The curator's error, against the mechanisms' own privacy computed another way."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

from shuffledp.calibration.targets import Target
from shuffledp.planning.goal import Goal, compute_central_baseline
from shuffledp.tasks.base import Sensitivity
from shuffledp.tasks.counts_and_frequencies import Frequency
from shuffledp.tasks.domain import Options


def gaussian_delta(mu: float, epsilon: float) -> float:
    """δ of two unit normals at a distance, by quadrature of the positive part."""
    with mp.workdps(40):
        m, e = mp.mpf(mu), mp.mpf(epsilon)
        crossing = e / m + m / 2
        value = mp.quad(
            lambda x: mp.npdf(x, m, 1) - mp.exp(e) * mp.npdf(x, 0, 1), [crossing, crossing + 5, crossing + 30]
        )
    return float(value)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-9), (0.1, 1e-5), (4.0, 1e-12)])
@pytest.mark.parametrize("rounds", [1, 7])
def test_gaussian_noise_just_meets_the_target(epsilon: float, delta: float, rounds: int) -> None:
    """The least σ: its exact δ is the target's. The sum of changes is so large that Laplace noise is worse."""
    found = compute_central_baseline(Sensitivity(1e6, 3.0), Target(epsilon, delta), rounds)
    assert found.noise == "Gaussian"
    assert gaussian_delta(math.sqrt(rounds) * 3.0 / found.standard_error, epsilon) == pytest.approx(delta, rel=1e-6)


def test_laplace_noise_where_it_is_less() -> None:
    """Scale Δ₁/ε has standard deviation √2·Δ₁/ε, and ε is divided over the rounds."""
    found = compute_central_baseline(Sensitivity(2.0, math.sqrt(2.0)), Target(1.0, 1e-12), 3)
    assert (found.noise, found.standard_error) == ("Laplace", pytest.approx(6 * math.sqrt(2.0)))


def test_a_curator_knows_how_many_users_there_are() -> None:
    """With the mean of all noise taken off, counts add up, and each has (d−1)/d of the variance: by draws."""
    noise = np.random.default_rng(4).laplace(0.0, 2.0, (200_000, 5))
    expected = math.sqrt(np.mean((noise - noise.mean(axis=1, keepdims=True)) ** 2))
    goal = Goal(Frequency(Options(5)), 1000, Target(1.0, 1e-9))
    assert goal.central_baseline.noise == "Laplace"
    assert goal.central_baseline.standard_error == pytest.approx(expected, rel=0.01)
