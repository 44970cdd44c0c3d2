"""Gaussian noise: the guarantee of every crowd meets an attack, and holds at every number of users."""

from __future__ import annotations

import math

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.mechanisms.mean.gaussian import Gaussian

FRONTIER = [(1.0, 10_000, 0.04594), (1.0, 100_000, 0.01307), (2.0, 10_000, 0.01711), (4.0, 10_000, 0.00763)]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("multiplier", "users", "stated"), FRONTIER)
def test_every_crowd_meets_the_attack(multiplier: float, users: int, stated: float) -> None:
    curve = sdp.amplify(Gaussian(multiplier), users, bound="all-crowds")
    value = curve.epsilon(1e-6)
    assert value.certified
    assert value.upper <= stated
    assert value.lower is not None
    assert value.lower <= value.upper <= 1.001 * value.lower


@pytest.mark.exhaustive
def test_the_attack_against_a_sum_of_lognormal_numbers() -> None:
    """Everybody else at one end: the divergence by Fourier transform of the law of real Gaussian noise."""
    users, steps, size = 10_000, 0.004, 1 << 22
    y = np.linspace(-12, 12, 400_001)
    weights = np.exp(-y * y / 2)
    ratio = np.exp(y - 0.5)

    def delta(epsilon: float) -> float:
        gain = ratio - math.exp(epsilon)
        places = (gain - gain.min()) / steps
        low = np.floor(places).astype(int)
        law = np.bincount(low, weights * (1 - places + low)) + np.bincount(low + 1, weights * (places - low))[:-1]
        total = np.fft.irfft(np.fft.rfft(law / weights.sum(), size) ** users, size)
        mean = users * -math.expm1(epsilon)
        start = users * gain.min()
        places = np.arange(size) + size * np.round(((mean - start) / steps - np.arange(size)) / size)
        return float((total * np.maximum(start + steps * places, 0.0)).sum()) / users

    known = sdp.amplify(Gaussian(1.0), users, effort="quick").source.attack
    assert known is not None
    assert known.delta(0.0458) == pytest.approx(delta(0.0458), rel=0.02)


@pytest.mark.exhaustive("0.5-30", "0.8-100")
@pytest.mark.parametrize(("multiplier", "users"), [(0.5, 30), (0.8, 100), (1.0, 2)])
def test_small_crowds_and_heavy_tails_are_answered(multiplier: float, users: int) -> None:
    """Where noise is small, few messages tell much: never below the attack."""
    value = sdp.amplify(Gaussian(multiplier, grid=1), users, effort="quick").epsilon(1e-5)
    assert value.lower is not None
    assert value.lower <= value.upper


@pytest.mark.exhaustive
def test_a_user_alone_by_the_law_of_the_noise() -> None:
    z = np.arange(-100, 101)
    law = np.exp(-(z**2) / 128.0) / np.exp(-(z**2) / 128.0).sum()
    alone = np.maximum(law[:-8] - math.e * law[8:], 0).sum()
    assert sdp.amplify(Gaussian(1.0), 1, effort="quick").delta(1.0).upper == pytest.approx(alone, rel=5e-4)


def test_the_mean_is_unbiased_and_its_variance_is_stated() -> None:
    mechanism = Gaussian(0.8, low=-2.0, high=6.0)
    values = np.linspace(-2, 6, 20_000)
    found = mechanism.estimate(mechanism.encode(values, np.random.default_rng(4)))
    deviation = math.sqrt(float(mechanism.variance(values)[0]))
    assert deviation == pytest.approx(0.8 * 8 / math.sqrt(20_000), rel=0.01)
    assert abs(float(found.value[0]) - 2.0) < 5 * deviation
    assert float(found.variance[0]) >= float(mechanism.variance(values)[0])


def test_settings_are_refused_in_a_sentence() -> None:
    with pytest.raises(ValueError, match=r"^Gaussian: multiplier must be between 0.4 and 10000, got 0.1.$"):
        Gaussian(0.1)
    with pytest.raises(ValueError, match="low must be below high"):
        Gaussian(1.0, low=1.0, high=1.0)
    with pytest.raises(ValueError, match="grid and multiplier"):
        Gaussian(1.0, grid=1 << 17)


def test_it_is_planned_and_calibrated() -> None:
    found = sdp.calibrate(Gaussian, users=100_000, epsilon=0.02, delta=1e-6, grid=1, effort="quick")
    assert 0.4 < found.value < 2.0
    assert found.mechanism.local_epsilon is None
