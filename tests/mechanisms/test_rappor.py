"""RAPPOR: its law and its textbook numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import arb, ctx

from shuffledp.mechanisms.frequency.unary_encoding import RAPPOR


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 6.0])
def test_parameters_of_the_ideal_law(epsilon: float) -> None:
    """beta = (e^{ε/2}-1)/(e^{ε/2}+1) and p = e^ε, up to the rounding of f towards privacy."""
    mechanism = RAPPOR(epsilon, 128)
    parameters = mechanism.variation_ratio()
    assert parameters.beta == pytest.approx(math.tanh(epsilon / 4), rel=1e-14)
    assert parameters.p == pytest.approx(math.exp(epsilon), rel=1e-14)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 6.0])
def test_flip_is_rounded_towards_privacy(epsilon: float) -> None:
    """f is the smallest multiple of 2^-64 that is not below 1/(e^{ε/2}+1)."""
    steps = RAPPOR(epsilon, 128).flip * 2**64
    assert steps.denominator == 1
    with ctx.workprec(256):
        ideal = arb(2) ** 64 / (arb(epsilon / 2).exp() + 1)
        assert int(steps) - 1 < ideal <= int(steps)


def test_variance_of_the_ideal_law() -> None:
    """Every count has the variance n·e^{ε/2}/(e^{ε/2}-1)², whatever the true counts."""
    variance = RAPPOR(2.0, 10).variance(np.zeros(1000, dtype=int))
    np.testing.assert_allclose(variance, 1000 * math.e / (math.e - 1) ** 2, rtol=1e-13)
