"""One noisy gradient step with a random start: quadrature, the paper's figures, and the safe side."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr

from shuffledp.privacy.random_initialization import CustomGradient, Gradient, LeastSquares, Logistic, NoisyStep
from shuffledp.privacy.tradeoff import GaussianTradeOff

FIGURES = [
    (LeastSquares(1.0, 1.0), 0.293, 0.383),
    (LeastSquares(1.0, 2.0), 0.393, 0.683),
    (Logistic(1.0), 0.264, 0.383),
    (Logistic(2.0), 0.559, 0.683),
]


def expectation(gradient: Gradient, of) -> float:
    """E over the start of a function of |μ|, by adaptive quadrature split where |μ| may have a kink."""

    def inside(start: float) -> float:
        size = float(gradient.size(np.array([start]))[0])
        return of(size) * math.exp(-start * start / 2) / math.sqrt(2 * math.pi)

    kinks = [-12.0, -1.0, 0.0, 1.0, 2.0, 3.0, 12.0]
    return math.fsum(quad(inside, a, b, epsabs=1e-13)[0] for a, b in pairwise(kinks))


@pytest.mark.parametrize(("gradient", "advantage", "plain"), FIGURES)
def test_the_advantages_of_the_paper(gradient: Gradient, advantage: float, plain: float) -> None:
    """FD-9 and FD-10 on our code: 0.293, 0.393, 0.264, 0.559 against 0.383 and 0.683 of the plain step."""
    step = NoisyStep(gradient)
    by_quadrature = expectation(gradient, lambda mu: 2 * ndtr(mu / 2) - 1)
    assert step.advantage() == pytest.approx(advantage, abs=5e-4)
    assert step.advantage() == pytest.approx(by_quadrature, abs=1e-7)
    assert GaussianTradeOff(gradient.largest_size()).advantage() == pytest.approx(plain, abs=5e-4)


def test_delta_at_one() -> None:
    """Clip 2: 0.204 against 0.510 of the plain step."""
    assert NoisyStep(LeastSquares(1.0, 2.0)).delta(1.0) == pytest.approx(0.204, abs=5e-4)
    assert GaussianTradeOff(2.0).delta(1.0) == pytest.approx(0.510, abs=5e-4)


@pytest.mark.parametrize("gradient", [LeastSquares(1.0, 2.0), LeastSquares(0.5), Logistic(2.0)])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_delta_against_quadrature(gradient: Gradient, epsilon: float) -> None:
    """The estimate to 1e-6; the upper bound above it, by less than 0.2%."""

    def gaussian(mu: float) -> float:
        if mu == 0:
            return 0.0
        return ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)

    step, wanted = NoisyStep(gradient), expectation(gradient, gaussian)
    assert step.delta(epsilon) == pytest.approx(wanted, rel=1e-6)
    assert wanted <= step.delta_upper(epsilon) <= wanted * 1.002


def test_the_errors_at_one_threshold() -> None:
    """E Φ(−t_I) and E Φ(t_I − |μ_I|) by quadrature; an atom at μ = 0 is not told apart."""
    gradient = Logistic(1.5)
    step = NoisyStep(gradient)
    for t in (-0.7, 0.0, 0.4):
        fpr, fnr = step.errors(t)
        assert float(fpr[0]) == pytest.approx(expectation(gradient, lambda mu, t=t: ndtr(t / mu - mu / 2)), abs=1e-6)
        assert float(fnr[0]) == pytest.approx(expectation(gradient, lambda mu, t=t: ndtr(-t / mu - mu / 2)), abs=1e-6)
    still = NoisyStep(CustomGradient(lambda start: np.where(start > 0, 2.0, 0.0)))
    assert still.advantage() == pytest.approx((2 * ndtr(1.0) - 1) / 2, abs=1e-4)
    fpr, fnr = still.errors([-1e-9, 0.0])
    assert (fpr + fnr).tolist() == pytest.approx([1 - still.advantage()] * 2, abs=1e-3)
    assert float(fpr[1] - fpr[0]) == pytest.approx(0.5, abs=1e-3)


def test_the_curve_is_symmetric_and_above_the_plain_step() -> None:
    """fnr(fnr(x)) = x up to the polygon; the random start only helps; the safe curve is below."""
    step = NoisyStep(LeastSquares(1.0, 2.0))
    x = np.linspace(0.01, 0.99, 40)
    assert np.allclose(step.fnr(step.fnr(x)), x, atol=2e-4)
    assert np.all(step.fnr(x) >= GaussianTradeOff(2.0).fnr(x))
    safe = step.guaranteed_curve(points=80)
    assert safe.guarantee
    assert not safe.certified
    assert not step.guarantee
    assert np.all(safe.fnr(x) <= step.fnr(x))
    assert np.all(safe.fnr(x) >= step.fnr(x) - 4e-3)
    assert safe.advantage() == step.delta_upper(0.0)


def test_more_noise_hides_more() -> None:
    """The noise scales the gradient; a constant gradient is the plain Gaussian step."""
    assert NoisyStep(Logistic(1.0), noise=2.0).advantage() < NoisyStep(Logistic(1.0)).advantage()
    constant = NoisyStep(CustomGradient(lambda start: np.full_like(start, 3.0)), noise=2.0)
    for epsilon in (0.0, 1.0):
        assert constant.delta(epsilon) == pytest.approx(GaussianTradeOff(1.5).delta(epsilon), rel=1e-12)
    assert constant.guaranteed_curve(points=3).guarantee is False
    vouched = NoisyStep(CustomGradient(lambda start: np.full_like(start, 3.0), no_inner_peak=True))
    assert vouched.guaranteed_curve(points=3).guarantee is True


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: LeastSquares(math.inf), "optimum must be finite"),
        (lambda: LeastSquares(1.0, 0.0), "clip must be above 0"),
        (lambda: Logistic(0.0), "limit must be above 0"),
        (lambda: NoisyStep(Logistic(1.0), noise=0.0), "noise must be above 0"),
        (lambda: NoisyStep(CustomGradient(lambda start: np.array([1.0]))).delta(1.0), "one number for each start"),
    ],
)
def test_bad_input(build, message: str) -> None:
    """Refused in one sentence."""
    with pytest.raises(ValueError, match=message):
        build()
