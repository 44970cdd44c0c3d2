"""Divergences against closed forms, definitions and quadrature in high precision, none of which asks the package."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from numpy.typing import ArrayLike

import shuffledp as sdp
from shuffledp._core.errors import NotApplicable, NumericalError
from shuffledp._core.validation import Floats
from shuffledp.privacy.divergences import DIVERGENCE_KINDS
from shuffledp.privacy.random_initialization import LeastSquares
from shuffledp.tradeoff import GaussianTradeOff, GuaranteedTradeOff, NoisyStep, PiecewiseTradeOff, TradeOff

ORDERS = (1.01, 1.5, 2.0, 7.0, 16.0, 64.0)


def by_quadrature(
    p: Callable[[mpmath.mpf], mpmath.mpf], q: Callable[[mpmath.mpf], mpmath.mpf], order: float, edges: list[float]
) -> float:
    """The Rényi divergence of two densities, given by their logarithms, by its definition; KL at order 1."""
    with mpmath.workdps(25):
        if order == 1:
            return float(mpmath.quad(lambda x: mpmath.exp(p(x)) * (p(x) - q(x)), edges))
        total = mpmath.quad(lambda x: mpmath.exp(order * p(x) - (order - 1) * q(x)), edges)
        return float(mpmath.log(total) / (mpmath.mpf(order) - 1))


def log_normal_density(x: mpmath.mpf) -> mpmath.mpf:
    return -(x * x + mpmath.log(2 * mpmath.pi)) / 2


@dataclass(frozen=True)
class Laplace(TradeOff):
    """Two Laplace laws of scale 1 at a distance: known by its formula for δ only, as anybody's own curve may be."""

    distance: float
    theorem: str = field(default="Laplace", init=False)
    guarantee: bool = field(default=False, init=False)
    certified: bool = field(default=False, init=False)

    def fnr(self, fpr: ArrayLike) -> Floats:
        raise AssertionError("not asked for")

    tpr = fnr

    def to_piecewise(self) -> PiecewiseTradeOff:
        raise AssertionError("not asked for")

    def delta(self, epsilon: float) -> float:
        if epsilon < 0:
            return -math.expm1(epsilon) + math.exp(epsilon) * self.delta(-epsilon)
        return max(0.0, -math.expm1((epsilon - self.distance) / 2))

    def inverse(self) -> Laplace:
        return self


@pytest.mark.parametrize("mu", [0.0, 0.01, 0.7, 3.0])
@pytest.mark.parametrize("order", ORDERS)
def test_gaussian(mu: float, order: float) -> None:
    """order·μ²/2, also by quadrature; at μ = 3 and order 16 it is 72."""
    curve = GaussianTradeOff(mu)
    found = sdp.divergence(curve, "renyi", order)
    assert found == pytest.approx(order * mu**2 / 2, rel=1e-12)
    if mu > 0:
        centre = order * mu
        edges = [centre + step for step in (-40, -12, -4, 0, 4, 12, 40)]
        truth = by_quadrature(lambda x: log_normal_density(x - mu), log_normal_density, order, edges)
        assert found == pytest.approx(truth, rel=1e-6)
        assert sdp.divergence(curve, "kl") == pytest.approx(mu**2 / 2, rel=1e-12)
        assert sdp.divergence(curve, "chi-square") == pytest.approx(math.expm1(mu**2), rel=1e-12)


@pytest.mark.parametrize("distance", [0.05, 1.0, 8.0])
@pytest.mark.parametrize("order", [1.0, *ORDERS])
def test_laplace_by_its_deltas(distance: float, order: float) -> None:
    """A curve that is known by δ(ε) only is integrated; against the closed form and the definition."""
    found = sdp.divergence(Laplace(distance), "kl") if order == 1 else sdp.divergence(Laplace(distance), "renyi", order)
    with mpmath.workdps(40):
        d, a = mpmath.mpf(distance), mpmath.mpf(order)
        closed = d - 1 + mpmath.exp(-d)
        if order > 1:
            moment = a / (2 * a - 1) * mpmath.exp((a - 1) * d) + (a - 1) / (2 * a - 1) * mpmath.exp(-a * d)
            closed = mpmath.log(moment) / (a - 1)
    assert found == pytest.approx(float(closed), rel=1e-6)
    truth = by_quadrature(
        lambda x: -abs(x - distance) - mpmath.ln2, lambda x: -abs(x) - mpmath.ln2, order,
        [-90, -10, 0, distance / 2, distance, distance + 10, distance + 90],
    )  # fmt: skip
    assert found == pytest.approx(truth, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 5.0, 12.0])
@pytest.mark.parametrize("order", ORDERS)
def test_randomized_response(epsilon: float, order: float) -> None:
    """Two outcomes in high precision."""
    with mpmath.workdps(60):
        p = mpmath.exp(epsilon) / (1 + mpmath.exp(epsilon))
        moment = p**order * (1 - p) ** (1 - order) + (1 - p) ** order * p ** (1 - order)
        renyi, kl = mpmath.log(moment) / (order - 1), (2 * p - 1) * epsilon
        chi, likely, unlikely = (2 * p - 1) ** 2 / (p * (1 - p)), float(p), float(1 - p)
    curve = PiecewiseTradeOff(np.array([likely, unlikely]), np.array([unlikely, likely]))
    assert sdp.divergence(curve, "renyi", order) == pytest.approx(float(renyi), rel=1e-9)
    assert sdp.divergence(curve, "kl") == pytest.approx(float(kl), rel=1e-9)
    assert sdp.divergence(curve, "chi-square") == pytest.approx(float(chi), rel=1e-9)


@pytest.mark.parametrize(("one", "two"), [([1, 2, 3, 6], [4, 4, 3, 1]), ([0, 2, 3, 6], [4, 4, 3, 1]), ([3, 1], [0, 4])])
def test_finite_laws_by_definition(one: list[int], two: list[int]) -> None:
    """In rationals, outcomes that one law does not have included: infinite where P has mass that Q has not."""
    first, second = ([Fraction(number, sum(law)) for number in law] for law in (one, two))
    curve = PiecewiseTradeOff.from_laws(dict(enumerate(first)), dict(enumerate(second)))
    pairs = list(zip(first, second, strict=True))
    infinite = any(p > 0 == q for p, q in pairs)
    kl = math.inf if infinite else sum(float(p) * math.log(p / q) for p, q in pairs if p > 0)
    chi = math.inf if infinite else float(sum((p - q) ** 2 / q for p, q in pairs if q > 0))
    third = math.inf if infinite else float(sum(p**3 / q**2 for p, q in pairs if q > 0))
    assert sdp.divergence(curve, "kl") == pytest.approx(kl, rel=1e-13)
    assert sdp.divergence(curve, "chi-square") == pytest.approx(chi, rel=1e-13)
    assert sdp.divergence(curve, "power", 3) == pytest.approx(third, rel=1e-13)
    assert sdp.divergence(curve, "renyi", 3) == pytest.approx(math.log(third) / 2, rel=1e-12)
    for ratio in (Fraction(0), Fraction(1, 2), Fraction(3, 2), Fraction(20)):
        exact = sum(max(Fraction(0), p - ratio * q) for p, q in pairs)
        assert sdp.divergence(curve, "hockey-stick", float(ratio)) == pytest.approx(float(exact), abs=1e-15)
    half = sum(abs(p - q) for p, q in pairs) / 2
    assert sdp.divergence(curve, "total-variation") == pytest.approx(float(half), abs=1e-15)


def test_a_delta_is_an_infinite_divergence() -> None:
    """(ε, δ)-DP with δ > 0 bounds no Rényi divergence; with δ = 0 it is randomized response's."""
    for kind, order in (("renyi", 1.5), ("kl", None), ("chi-square", None), ("power", 64)):
        assert sdp.divergence(GuaranteedTradeOff(np.array([0.0, 1.0]), np.array([0.5, 1e-30])), kind, order) == math.inf
    # The tangents that stand for a Gaussian curve in a mixture end at a small δ too.
    mixed = sdp.tradeoff.mixed([GaussianTradeOff(1.0), GaussianTradeOff(2.0)], [0.5, 0.5])
    assert sdp.divergence(mixed, "renyi", 1.5) == math.inf
    assert sdp.divergence(mixed, "total-variation") >= (math.erf(0.5 / 2**0.5) + math.erf(1 / 2**0.5)) / 2
    pure = GuaranteedTradeOff(np.array([0.0, 1.0]), np.array([1.0, 0.0]))
    p = math.e / (1 + math.e)
    assert sdp.divergence(pure, "kl") == pytest.approx(2 * p - 1, rel=1e-12)


def test_a_curve_through_points_is_refused() -> None:
    """What is known at points is bounded from below only; so is whatever is made of it."""
    points = PiecewiseTradeOff.from_error_points([0.1, 0.4], [0.5, 0.2])
    for curve in (points, points.inverse(), points.symmetrised(),
                  sdp.tradeoff.mixed([points, points], [0.5, 0.5]), sdp.tradeoff.exchanged(points, 0.2),
                  sdp.tradeoff.lowest([points]), sdp.tradeoff.highest([points])):  # fmt: skip
        for kind in DIVERGENCE_KINDS:
            order = 2.0 if kind in ("renyi", "power", "hockey-stick") else None
            with pytest.raises(NotApplicable, match="known everywhere, got one through points"):
                sdp.divergence(curve, kind, order)
    with pytest.raises(NotApplicable, match="through points"):
        sdp.tradeoff.f_divergence(points, np.abs, 0.0, 1.0)


def test_the_hull_of_polygons_is_known() -> None:
    """The lowest and the highest of known polygons are known themselves."""
    coins = PiecewiseTradeOff(np.array([0.75, 0.25]), np.array([0.25, 0.75]))
    for both in (sdp.tradeoff.lowest([coins, coins]), sdp.tradeoff.highest([coins, coins])):
        assert sdp.divergence(both, "renyi", 3.0) == pytest.approx(sdp.divergence(coins, "renyi", 3.0), rel=1e-12)


@pytest.mark.exhaustive
@pytest.mark.parametrize("order", [1.0, 2.0, 8.0])
def test_a_random_start(order: float) -> None:
    """A mixture of Gaussians that shows its part: the mean over starts of e^(a(a−1)μ²/2), by its own quadrature."""
    step = NoisyStep(LeastSquares(optimum=1.0, clip=2.0), noise=2.0)
    starts = np.linspace(-9, 9, 200_001)
    weight = np.exp(-(starts**2) / 2)
    mu = np.minimum(2.0, np.abs(starts - 1.0)) / 2.0
    mean = np.average(mu**2 / 2 if order == 1 else np.exp(order * (order - 1) * mu**2 / 2), weights=weight)
    wanted = mean if order == 1 else math.log(mean) / (order - 1)
    found = sdp.divergence(step, "kl") if order == 1 else sdp.divergence(step, "renyi", order)
    assert found == pytest.approx(float(wanted), rel=1e-3)


@pytest.mark.exhaustive
def test_a_privacy_curve_is_bounded_from_above() -> None:
    """A shuffled protocol whose every count is known: above the exact values, and close; rounds add up."""
    parameters = sdp.VariationRatio.from_ldp(2.0)
    curve = sdp.amplify(parameters, 500, bound="stronger-clone")
    exact = sdp.tradeoff.shuffled_trade_off(parameters.pair(0.0), users=500)
    p, q = exact.null, exact.alternative
    for order in (2.0, 16.0):
        truth = math.log(float(np.sum(q * (p / q) ** order))) / (order - 1)
        assert truth * (1 - 1e-9) <= sdp.divergence(curve, "renyi", order) <= truth * 1.003
    truth = float(np.sum(p * np.log(p / q)))
    assert truth <= sdp.divergence(curve, "kl") <= truth * 1.003
    assert sdp.divergence(curve, "chi-square") == pytest.approx(sdp.divergence(curve, "power", 2) - 1, rel=1e-9)
    assert sdp.divergence(curve, "total-variation") == curve.delta(0.0).upper
    assert sdp.divergence(curve, "hockey-stick", 0.5) == pytest.approx(0.5 + 0.5 * curve.delta(math.log(2)).upper)
    assert sdp.divergence(sdp.compose(curve, 5), "renyi", 2) == pytest.approx(5 * sdp.divergence(curve, "renyi", 2))
    gaussian = sdp.compose(sdp.privacy_curve(GaussianTradeOff(3.0)), 4)
    assert sdp.divergence(gaussian, "renyi", 16) == pytest.approx(4 * 72.0, rel=1e-10)


def test_what_floats_cannot_hold_is_a_sentence() -> None:
    """Neither a wrong number nor an infinity that is none."""
    with pytest.raises(NumericalError, match=r"about e\^18144, more than a float holds; ask for kind='renyi'"):
        sdp.divergence(GaussianTradeOff(3.0), "power", 64)
    assert sdp.divergence(GaussianTradeOff(3.0), "renyi", 64) == 288.0
    with pytest.raises(NumericalError, match="beyond the range of floats"):
        TradeOff.renyi(GaussianTradeOff(3.0), 64.0)


@pytest.mark.parametrize(
    ("kind", "order", "words"),
    [
        ("renyi", None, "renyi needs an order above 1"), ("renyi", 1.0, "must be above 1 and finite"),
        ("power", math.inf, "above 1 and finite"), ("hockey-stick", -1.0, "at least 0"),
        ("kl", 2.0, "kl has no order"), ("hellinger", None, "kind must be one of renyi, kl"),
    ],
)  # fmt: skip
def test_bad_input(kind: str, order: float | None, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        sdp.divergence(GaussianTradeOff(1.0), kind, order)
    with pytest.raises(TypeError, match="expected a trade-off curve or a privacy curve"):
        sdp.divergence(3.0, "kl")  # type: ignore[arg-type]
