"""Theorem 4.2 of [FDP] as a bound: the published figures, exact small cases, and the corollary as a second route."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from shuffledp import VariationRatio, amplify
from shuffledp.bounds.clones import MixtureBound
from shuffledp.privacy.shuffled_tradeoff import CloneErrors
from tests.oracle.tradeoff import delta_of_curve, mixture, shuffled_extremes, symmetrised, tradeoff_curve

FIGURES = [
    (10**3, 1e-5, 1.0, 0.12504, 0.13591),
    (10**3, 1e-5, 4.0, 1.498244, 1.561623),
    (10**4, 1e-6, 1.0, 0.0432062, 0.0444093),
    (10**4, 1e-6, 2.0, 0.11440, 0.11664),
    (10**5, 1e-8, 3.0, 0.0848275, 0.0852241),
]


@pytest.mark.parametrize(("users", "delta", "epsilon_local", "exact", "published"), FIGURES)
def test_the_exact_value_beside_the_theorem(
    users: int, delta: float, epsilon_local: float, exact: float, published: float
) -> None:
    """ε at the five settings of theory §4, to the digits given there."""
    parameters = VariationRatio.from_ldp(epsilon_local)
    assert amplify(parameters, users, bound="stronger-clone").epsilon(delta).upper == pytest.approx(exact, rel=5e-5)
    curve = MixtureBound().curve(parameters, users)
    value = curve.epsilon(delta)
    assert value.upper == pytest.approx(published, rel=5e-5)
    assert value.slack <= 1e-9
    assert curve.delta(value.upper).upper <= delta * (1 + 1e-12)
    assert CloneErrors(epsilon_local, users).published_delta(value.upper) == pytest.approx(delta, rel=1e-6)


@pytest.mark.parametrize("users", [3, 5, 9])
@pytest.mark.parametrize("step", [Fraction(1), Fraction(5, 4), Fraction(2)])
def test_delta_against_exact_fractions(users: int, step: Fraction) -> None:
    """The symmetrised curve 2w(1−x) + (1−2w)·T(P_0, Q_0) in rational arithmetic; above the pair's own δ."""
    ratio = Fraction(3)
    first, second, w = shuffled_extremes(users, ratio)
    inner = tradeoff_curve(first, second)
    whole = symmetrised([(x, 2 * w * (1 - x) + (1 - 2 * w) * y) for x, y in inner])
    curve = amplify(VariationRatio(3.0, 0.5, 3.0), users, bound="mixture")
    epsilon = math.log(step)
    value = curve.delta(epsilon)
    wanted = float(delta_of_curve(whole, Fraction(math.exp(epsilon))))
    assert value.upper == pytest.approx(wanted, rel=1e-12)
    assert value.upper - value.slack <= wanted * (1 + 1e-15)
    truth = tradeoff_curve(mixture(first, second, w), mixture(second, first, w))
    assert wanted >= float(delta_of_curve(truth, Fraction(math.exp(epsilon))))


@pytest.mark.parametrize(("epsilon_local", "epsilon", "right"), [(0.5, 0.3, 1.3807e-2), (4.0, 3.6, 0.7896)])
def test_the_corollary_without_floors(epsilon_local: float, epsilon: float, right: float) -> None:
    """FD-4 on our code: the threshold (1−2w)/(e^ε−2w) gives the theorem's δ, where the printed one under-reports."""
    curve = amplify(VariationRatio.from_ldp(epsilon_local), 12, bound="mixture")
    assert curve.delta(epsilon).upper == pytest.approx(right, rel=1e-3)
    assert CloneErrors(epsilon_local, 12).published_delta(epsilon) == pytest.approx(
        curve.delta(epsilon).upper, rel=1e-12
    )
    assert (
        curve.delta(epsilon).upper
        >= amplify(VariationRatio.from_ldp(epsilon_local), 12, effort="quick").delta(epsilon).upper
    )


def test_a_hundred_million_users() -> None:
    """Never below the exact value of the same pair, and close to it."""
    parameters = VariationRatio.from_ldp(1.0)
    exact = amplify(parameters, 10**8, bound="stronger-clone").epsilon(1e-9).upper
    published = amplify(parameters, 10**8, bound="mixture").epsilon(1e-9).upper
    assert exact <= published <= 1.001 * exact


def test_the_ends() -> None:
    """A δ above 1 − 2w needs no ε; beyond ε0 nothing changes in sign; far out δ is tiny but not negative."""
    curve = amplify(VariationRatio.from_ldp(0.1), 20, bound="mixture")
    assert curve.epsilon(0.2).upper == 0.0
    assert 0.0 <= curve.delta(5.0).upper < 1e-3
    assert curve.delta(800.0).upper >= 0.0
    assert curve.delta(0.0).upper <= math.tanh(0.05) * (1 + 1e-9)
