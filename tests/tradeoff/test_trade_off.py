"""Trade-off curves of finite laws: against exact fractions, and one identity against another."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from shuffledp.privacy.divergences import curve_length, divergence
from shuffledp.privacy.tradeoff import GaussianTradeOff, PiecewiseTradeOff, gaussian_delta, lowest
from tests.oracle.tradeoff import delta_of_curve, inverse, symmetrised, tradeoff_curve, value_at

GRID = [Fraction(k, 32) for k in range(33)]
RATIOS = [Fraction(1, 3), Fraction(1), Fraction(5, 4), Fraction(3), Fraction(50)]
weights = st.lists(st.integers(0, 9), min_size=4, max_size=4).filter(any)


def law(numbers: list[int]) -> dict[int, Fraction]:
    return {y: Fraction(number, sum(numbers)) for y, number in enumerate(numbers)}


def brute_symmetrised(curve: PiecewiseTradeOff, x: float) -> float:
    """The largest of the lines of slope −1 and steeper that touch the curve, and of their mirror images."""
    best = 0.0
    slopes = [math.inf, 1.0, *(q / p for p, q in zip(curve.null, curve.alternative, strict=True) if q >= p > 0)]
    for ratio in slopes:
        if math.isinf(ratio):
            start = float(curve.fnr_knots[0])
            best = max(best, start if x == 0 else 0.0)
            continue
        top = 1.0 - curve.delta(math.log(ratio))
        best = max(best, top - ratio * x, (top - x) / ratio)
    return best


@settings(max_examples=60, deadline=None)
@given(weights, weights)
def test_everything_agrees_with_exact_fractions(one: list[int], two: list[int]) -> None:
    """Values, δ at ratios below and above 1, and the inverse, to 1e-15."""
    exact = tradeoff_curve(law(one), law(two))
    curve = PiecewiseTradeOff.from_laws(law(one), law(two))
    for x in GRID[1:]:
        assert float(curve.fnr(float(x))) == pytest.approx(float(value_at(exact, x)), abs=2e-15)
        assert float(curve.tpr(float(x))) == pytest.approx(float(1 - value_at(exact, x)), abs=2e-15)
    for ratio in RATIOS:
        epsilon = math.log(ratio)
        wanted = float(delta_of_curve(exact, Fraction(math.exp(epsilon))))
        assert curve.delta(epsilon) == pytest.approx(wanted, abs=2e-15)
    mirrored = tradeoff_curve(law(two), law(one))
    for x in GRID[1:]:
        assert float(curve.inverse().fnr(float(x))) == pytest.approx(float(value_at(mirrored, x)), abs=2e-15)


@settings(max_examples=60, deadline=None)
@given(weights, weights)
def test_the_advantage_is_delta_at_zero(one: list[int], two: list[int]) -> None:
    """δ(0), the total variation and the largest 1 − fpr − fnr of the knots are one number, in both directions."""
    curve = PiecewiseTradeOff.from_laws(law(one), law(two))
    exact = float(sum(abs(law(one)[y] - law(two)[y]) for y in range(4)) / 2)
    for found in (
        curve.advantage(),
        curve.inverse().advantage(),
        divergence(curve, "total-variation"),
        float(np.max(curve.tpr_knots - curve.fpr_knots)),
    ):
        assert found == pytest.approx(exact, abs=1e-15)


@settings(max_examples=60, deadline=None)
@given(weights, weights)
def test_the_symmetrisation_is_the_largest_steep_line(one: list[int], two: list[int]) -> None:
    """In both of its cases; it is its own inverse, and keeps δ at ε ≥ 0 unless it crosses the diagonal."""
    curve = PiecewiseTradeOff.from_laws(law(one), law(two))
    whole = curve.symmetrised()
    for x in np.linspace(0.01, 1, 34).tolist():
        assert float(whole.fnr(x)) == pytest.approx(brute_symmetrised(curve, x), abs=4e-15)
        assert float(whole.fnr(x)) == pytest.approx(float(whole.inverse().fnr(x)), abs=4e-15)
    steep = curve.alternative >= curve.null
    crosses = curve.null[steep].sum() + curve.alternative[steep].sum() > 1 + 1e-12
    for epsilon in (0.0, 0.2, 1.0, 3.0):
        assert whole.inverse().delta(epsilon) == pytest.approx(whole.delta(epsilon), abs=4e-15)
        assert whole.delta(epsilon) <= curve.delta(epsilon) + 4e-15
        assert crosses or whole.delta(epsilon) == pytest.approx(curve.delta(epsilon), abs=4e-15)


def test_the_symmetrisation_agrees_with_exact_fractions() -> None:
    """The case whose point of slope −1 lies above the diagonal, against the oracle."""
    one, two = law([1, 2, 3, 6]), law([4, 4, 3, 1])
    exact = symmetrised(tradeoff_curve(one, two))
    whole = PiecewiseTradeOff.from_laws(one, two).symmetrised()
    for x in GRID:
        assert float(whole.fnr(float(x))) == pytest.approx(float(value_at(exact, x)), abs=1e-15)
    assert inverse(exact)[0] == exact[0]


def test_the_symmetrisation_that_crosses_the_diagonal() -> None:
    """(1, 0) to (0.4, 0.2) by slope −4/3: the curve is cut where both errors are equal."""
    curve = PiecewiseTradeOff(np.array([0.6, 0.4]), np.array([0.8, 0.2]))
    assert curve.null.tolist() == pytest.approx([0.6, 0.4])
    whole = curve.symmetrised()
    crossing = 1 / (1 + 4 / 3)
    assert float(whole.fnr(crossing)) == pytest.approx(crossing, abs=1e-15)
    assert float(whole.fnr(0.1)) == pytest.approx(1 - 0.4 / 3, abs=1e-15)


@settings(max_examples=40, deadline=None)
@given(weights, weights)
def test_the_conjugate_is_the_supremum(one: list[int], two: list[int]) -> None:
    """f*(y) = sup(xy − f(x)), over a fine grid with all knots; at y = 0 it is 0."""
    curve = PiecewiseTradeOff.from_laws(law(one), law(two))
    x = np.unique(np.concatenate([np.linspace(0, 1, 101), curve.fpr_knots]))
    for slope in (-0.01, -0.5, -1.0, -2.5, -40.0):
        assert curve.conjugate(slope) == pytest.approx(float(np.max(slope * x - curve.fnr(x))), abs=1e-14)
    assert curve.conjugate(0.0) == 0.0
    with pytest.raises(ValueError, match="slope must be at most 0"):
        curve.conjugate(1.0)


def test_the_hull_of_points_is_the_largest_convex_curve_below() -> None:
    """Points above a chord do not count; (0, 1) and (1, 0) always belong."""
    curve = PiecewiseTradeOff.from_error_points([0.2, 0.5, 0.5, 0.6], [0.6, 0.45, 0.3, 0.39])
    assert curve.fpr_knots.tolist() == pytest.approx([0, 0.2, 0.5, 1])
    assert curve.fnr_knots.tolist() == pytest.approx([1, 0.6, 0.3, 0])
    started = PiecewiseTradeOff.from_error_points([0.0], [0.7])
    assert float(started.fnr(0.0)) == pytest.approx(0.7)
    assert started.delta(50.0) == pytest.approx(0.3)


def test_the_lowest_of_curves_lies_below_all_of_them() -> None:
    """min(f, g)**: below both, convex, and exact where one curve is below the other everywhere."""
    one = PiecewiseTradeOff.from_laws(law([1, 2, 3, 6]), law([4, 4, 3, 1]))
    two = one.inverse()
    both = lowest([one, two])
    x = np.linspace(0, 1, 201)
    assert np.all(both.fnr(x) <= np.minimum(one.fnr(x), two.fnr(x)) + 1e-15)
    assert np.all(np.diff(both.fnr(x), 2) >= -1e-14)
    for epsilon in (0.0, 0.5, 1.0):
        assert both.delta(epsilon) == pytest.approx(max(one.delta(epsilon), two.delta(epsilon)), abs=1e-15)
    perfect = PiecewiseTradeOff(np.array([1.0]), np.array([1.0]))
    assert np.array_equal(lowest([perfect, one]).fnr(x), lowest([one]).fnr(x))


@settings(max_examples=40, deadline=None)
@given(weights, weights)
def test_the_privacy_loss_goes_there_and_back(one: list[int], two: list[int]) -> None:
    """log(q/p) under Q, infinite losses included, gives the same curve again."""
    curve = PiecewiseTradeOff.from_laws(law(one), law(two))
    losses, masses = curve.privacy_loss()
    again = PiecewiseTradeOff.from_privacy_loss(losses, masses)
    for epsilon in (-1.0, 0.0, 0.7, 3.0):
        tail = float(np.sum(masses * np.maximum(0.0, -np.expm1(np.minimum(epsilon - losses, 50.0)))))
        assert curve.delta(epsilon) == pytest.approx(tail, abs=1e-14)
        assert again.delta(epsilon) == pytest.approx(tail, abs=1e-14)


@settings(max_examples=40, deadline=None)
@given(weights, weights)
def test_the_length_of_the_graph_is_a_divergence(one: list[int], two: list[int]) -> None:
    """Proposition B.7: Σ √(dx² + dy²) over the knots, the vertical start included, equals E_Q √(1 + (p/q)²)."""
    curve = PiecewiseTradeOff.from_laws(law(one), law(two))
    x, y = np.append(0.0, curve.fpr_knots), np.append(1.0, curve.fnr_knots)
    assert curve_length(curve) == pytest.approx(float(np.hypot(np.diff(x), np.diff(y)).sum()), rel=1e-14)
    assert math.sqrt(2) * (1 - 1e-14) <= curve_length(curve) <= 2 * (1 + 1e-14)


@pytest.mark.parametrize("mu", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("epsilon", [-1.0, 0.0, 0.5, 4.0])
def test_gaussian_delta_by_quadrature(mu: float, epsilon: float) -> None:
    """∫ (q − e^ε·p)_+ of two unit normals, to twelve digits, tails included."""
    with mpmath.workdps(30):
        start = mpmath.mpf(mu) / 2 + mpmath.mpf(epsilon) / mu

        def gap(x: mpmath.mpf) -> mpmath.mpf:
            return mpmath.npdf(x, mu) - mpmath.exp(epsilon) * mpmath.npdf(x)

        wanted = mpmath.quad(gap, [start, start + 2, start + 8, start + 30])
    assert float(gaussian_delta(np.array(mu), epsilon)) == pytest.approx(float(wanted), rel=1e-11)
    assert GaussianTradeOff(mu).delta(epsilon) == pytest.approx(float(wanted), rel=1e-11)


def gaussian_errors(mu: float, threshold: float) -> tuple[float, mpmath.mpf]:
    """A type I error that is a float, about Φ(−threshold), and the type II error of the best test there; 40 digits."""
    fpr = float(mpmath.ncdf(-threshold))

    def excess(z: mpmath.mpf) -> mpmath.mpf:
        return mpmath.log(mpmath.ncdf(-z) / fpr) if fpr < 0.5 else mpmath.log(mpmath.ncdf(z) / (1 - mpmath.mpf(fpr)))

    return fpr, mpmath.ncdf(mpmath.findroot(excess, threshold) - mu)


@pytest.mark.parametrize("mu", [1e-9, 0.03, 1.0, 3.0, 25.0])
def test_tangents_are_below_the_gaussian_curve(mu: float) -> None:
    """At the points where tangents touch it, where nothing but rounding is to spare, and between, against 40 digits."""
    polygon = GaussianTradeOff(mu).to_piecewise()
    reach = min(9 + mu / 2, 700 / mu)
    with mpmath.workdps(40):
        for share in (*np.arange(-0.9, 0.95, 0.15).round(2).tolist(), 0.0, 1e-3, 0.1234567):
            fpr, fnr = gaussian_errors(mu, share * reach + mu / 2)
            if 0 < fpr < 1:
                assert mpmath.mpf(float(polygon.fnr(fpr))) <= fnr
                assert mpmath.mpf(float(polygon.tpr(fpr))) >= 1 - fnr
            epsilon = mpmath.mpf(abs(share * reach * mu))
            delta = mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)
            for way in (polygon, polygon.inverse()):
                assert mpmath.mpf(way.delta(float(epsilon))) >= delta


def test_the_gaussian_curve_and_its_polygon() -> None:
    """The polygon is a guarantee, less than 1e-5 below the curve; without a difference it is exact; the curve is
    symmetric."""
    curve = GaussianTradeOff(0.8)
    x = np.concatenate([np.linspace(0.001, 0.999, 301), [1e-9, 1e-12]])
    for mu in (0.8, 3.7):
        polygon = GaussianTradeOff(mu).to_piecewise()
        assert np.all(polygon.fnr(x) <= GaussianTradeOff(mu).fnr(x))
        assert np.all(polygon.fnr(x) >= GaussianTradeOff(mu).fnr(x) - 1e-5)
    assert polygon.guarantee is True
    assert polygon.mu() == math.inf, "lines end at a small δ, which no μ allows"
    assert GaussianTradeOff(0.0).to_piecewise().delta(0.0) == 0.0
    assert np.allclose(curve.fnr(curve.fnr(x[:301])), x[:301], atol=1e-12)
    assert curve.advantage() == pytest.approx(math.erf(0.4 / math.sqrt(2)), rel=1e-12)
    assert GaussianTradeOff(0.0).delta(0.3) == 0.0


def test_mu_is_the_smallest_gaussian_below() -> None:
    """G_μ is below the curve, G of anything smaller is not; a curve with f(0) < 1 has none."""
    curve = PiecewiseTradeOff.from_laws(law([1, 2, 3, 6]), law([6, 3, 2, 1]))
    mu = curve.mu()
    x = curve.fpr_knots[1:-1]
    assert np.all(GaussianTradeOff(mu).fnr(x) <= curve.fnr(x) + 1e-15)
    assert np.any(GaussianTradeOff(mu * 0.999).fnr(x) > curve.fnr(x))
    assert PiecewiseTradeOff.from_laws(law([0, 1]), law([1, 1])).mu() == math.inf
    assert PiecewiseTradeOff.from_laws(law([1, 1]), law([1, 1])).mu() == 0.0


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: PiecewiseTradeOff(np.array([0.5, 0.4]), np.array([0.5, 0.5])), "null must sum to 1"),
        (lambda: PiecewiseTradeOff(np.array([1.5, -0.5]), np.array([0.5, 0.5])), "at least 0"),
        (lambda: PiecewiseTradeOff(np.array([1.0]), np.array([0.5, 0.5])), "equally long"),
        (lambda: PiecewiseTradeOff.from_error_points([1.2], [0.0]), "between 0 and 1"),
        (lambda: PiecewiseTradeOff.from_privacy_loss([-2.0], [1.0]), "must be at most 1"),
        (lambda: GaussianTradeOff(-1.0), "mu must be at least 0"),
        (lambda: GaussianTradeOff(1.0).fnr(1.5), "fpr must be between 0 and 1"),
        (lambda: lowest([]), "at least one curve"),
    ],
)
def test_bad_input_is_one_sentence(build, message: str) -> None:
    """Who expected what, got what."""
    with pytest.raises(ValueError, match=message) as caught:
        build()
    assert str(caught.value).endswith(".")
