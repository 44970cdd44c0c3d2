"""OUE: its law and its textbook numbers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from shuffledp.mechanisms.frequency.unary_encoding import OUE


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 6.0])
def test_parameters_of_the_ideal_law(epsilon: float) -> None:
    """beta = (e^ε-1)/(2(e^ε+1)) and p = e^ε, up to the rounding of r towards privacy; the own bit is fair."""
    mechanism = OUE(epsilon, 128)
    parameters = mechanism.variation_ratio()
    assert parameters.beta == pytest.approx(math.tanh(epsilon / 2) / 2, rel=1e-14)
    assert parameters.p == pytest.approx(math.exp(epsilon), rel=1e-14)
    assert mechanism.estimator.true_support == Fraction(1, 2)


def test_variance_of_the_ideal_law() -> None:
    """An option that nobody holds has the variance 4n·e^ε/(e^ε-1)²; each holder adds 1."""
    values = np.repeat([0, 3], [400, 600])
    noise = 1000 * 4 * math.e**2 / (math.e**2 - 1) ** 2
    variance = OUE(2.0, 4).variance(values)
    np.testing.assert_allclose(variance, [noise + 400, noise, noise, noise + 600], rtol=1e-13)
