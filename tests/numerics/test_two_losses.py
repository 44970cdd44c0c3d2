"""E(1 − e^(x − l − l'))₊ of two finite laws, against the double sum in many digits."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from shuffledp.mechanisms.correlated_noise.cancelling_noise_loss import LossAtoms, bound_sum_profile


def double_sum(first: LossAtoms, second: LossAtoms, x: float) -> float:
    """Term by term; a loss at infinity counts 1."""
    with mpmath.workdps(40):
        pairs = [
            (mpmath.mpf(p) * mpmath.mpf(q), mpmath.mpf(value) + mpmath.mpf(other))
            for value, p in zip(first.values.tolist(), first.masses.tolist(), strict=True)
            for other, q in zip(second.values.tolist(), second.masses.tolist(), strict=True)
        ]
        found = mpmath.fsum(mass * max(0, 1 - mpmath.exp(x - loss)) for mass, loss in pairs)
        return float(found)


def law(seed: int, size: int, spread: float) -> LossAtoms:
    rng = np.random.default_rng(seed)
    masses = rng.exponential(size=size)
    return LossAtoms(rng.normal(0.0, spread, size), masses / masses.sum() * (1 - 1e-9), 1e-9, 0.0, 1e-15)


@pytest.mark.parametrize("spread", [0.01, 1.0, 30.0, 100.0])
@pytest.mark.parametrize("sizes", [(1, 1), (3, 40), (60, 25)])
def test_both_sides_enclose_the_double_sum(spread: float, sizes: tuple[int, int]) -> None:
    """Losses of any size up to 350, and x beyond."""
    first, second = law(1, sizes[0], spread), law(2, sizes[1], spread)
    # The values of a law are where the sum has its corners.
    points = np.concatenate([np.linspace(0.0, 4 * spread, 9), np.abs(first.values[:2]) + np.abs(second.values[:1])])
    upper, lower = bound_sum_profile(first, second, points)
    for x, high, low in zip(points.tolist(), upper.tolist(), lower.tolist(), strict=True):
        truth = double_sum(first, second, x)
        assert low <= truth <= high
        assert high - low <= 3e-9


def test_losses_beyond_the_floats_have_no_lower_side() -> None:
    """Their exponentials are cut: the upper side is still one, and nothing is claimed from below."""
    far = LossAtoms(np.array([-900.0, 900.0]), np.array([0.25, 0.75]), 0.0, 0.0, 0.0)
    upper, lower = bound_sum_profile(far, far, np.array([0.0, 5.0]))
    for x, high in zip((0.0, 5.0), upper.tolist(), strict=True):
        assert high >= double_sum(far, far, x)
    assert lower.tolist() == [0.0, 0.0]
