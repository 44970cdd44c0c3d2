"""Curves of mixtures: never above the truth, exact where they say so; the paper's counter-examples on our code."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from research.reproduction import f_dp
from shuffledp._core.results_and_value_objects import Progress
from shuffledp.privacy.tradeoff import GaussianTradeOff, PiecewiseTradeOff, lowest
from shuffledp.privacy.tradeoff_mixtures import (
    advanced_joint_concavity,
    averaged,
    exchanged,
    exchanged_bound,
    highest,
    mixed,
    mixed_unequally,
    subsampled,
)
from tests.oracle.tradeoff import mixture, shuffled_extremes, tradeoff_curve, value_at

X = np.linspace(0, 1, 129)
HALF = Fraction(1, 2)


def law(*weights: int) -> dict[int, Fraction]:
    return {y: Fraction(weight, sum(weights)) for y, weight in enumerate(weights)}


def curve(first: dict, second: dict) -> PiecewiseTradeOff:
    return PiecewiseTradeOff.from_laws(first, second)


def random_laws(rng: np.random.Generator, number: int) -> np.ndarray:
    return rng.dirichlet(np.full(int(rng.integers(2, 6)), rng.choice([0.3, 1.0])), size=number)


def test_parts_are_tested_at_one_threshold() -> None:
    """FD-1 on our code: on disjoint outputs the mixture's curve is exact, and below the average at one level."""
    first, second = (law(3, 1), law(1, 3)), (law(9, 1), law(1, 9))
    shifted = [{y + 2: value for y, value in one.items()} for one in second]
    truth = tradeoff_curve(mixture(first[0], shifted[0], HALF), mixture(first[1], shifted[1], HALF))
    found = mixed([curve(*first), curve(*second)], [0.5, 0.5])
    for x in X.tolist():
        assert float(found.fnr(x)) == pytest.approx(float(value_at(truth, Fraction(x))), abs=1e-15)
    level = (curve(*first).fnr(X) + curve(*second).fnr(X)) / 2
    assert np.max(level - found.fnr(X)) > 0.02


def test_joint_concavity_holds_for_random_mixtures() -> None:
    """Lemma 3.1: T of the mixtures is never below; 300 random pairs of three parts."""
    rng = np.random.default_rng(1)
    for _ in range(300):
        laws = random_laws(rng, 6)
        weights = rng.dirichlet(np.ones(3))
        found = mixed([PiecewiseTradeOff(laws[i], laws[i + 3]) for i in range(3)], weights.tolist())
        truth = PiecewiseTradeOff(weights @ laws[:3], weights @ laws[3:])
        assert np.all(found.fnr(X) <= truth.fnr(X) + 1e-12)


@pytest.mark.parametrize(("rows", "columns"), [(2, 2), (1, 3), (3, 2), (5, 4)])
def test_unequal_weights(rows: int, columns: int) -> None:
    """Proposition B.1 for any number of parts: never above the truth, and no joint law has a smaller δ at its ε."""
    rng = np.random.default_rng(rows + 10 * columns)
    for _ in range(60):
        laws = random_laws(rng, rows + columns)
        first, second = laws[:rows], laws[rows:]
        a, b = rng.dirichlet(np.ones(rows)), rng.dirichlet(np.ones(columns))
        table = [[PiecewiseTradeOff(p, q) for q in second] for p in first]
        truth = PiecewiseTradeOff(a @ first, b @ second)
        epsilon = float(rng.uniform(-0.5, 1.0))
        found = mixed_unequally(table, a, b, epsilon=epsilon)
        assert np.all(found.fnr(X) <= truth.fnr(X) + 1e-12)
        alone = sum(a[i] * b[j] * table[i][j].delta(epsilon) for i in range(rows) for j in range(columns))
        assert truth.delta(epsilon) <= found.delta(epsilon) + 1e-12 <= alone + 2e-12
        if rows == columns:
            plain = mixed([table[k][k] for k in range(rows)], a)
            assert mixed_unequally(table, a, a, epsilon=epsilon).delta(epsilon) <= plain.delta(epsilon) + 1e-12


def test_the_best_joint_law_of_two_parts() -> None:
    """Two by two there is one free number: none on a fine grid is better than what was chosen."""
    laws = random_laws(np.random.default_rng(7), 4)
    table = [[PiecewiseTradeOff(laws[i], laws[2 + j]) for j in (0, 1)] for i in (0, 1)]
    a, b = 0.3, 0.6
    for epsilon in (0.0, 0.7):
        found = mixed_unequally(table, [1 - a, a], [1 - b, b], epsilon=epsilon).delta(epsilon)
        grid = np.linspace(max(0.0, a + b - 1), min(a, b), 501)
        costs = [[one.delta(epsilon) for one in row] for row in table]
        values = (1 - a - b + grid) * costs[0][0] + (b - grid) * costs[0][1] + (a - grid) * costs[1][0]
        assert found == pytest.approx(float(np.min(values + grid * costs[1][1])), abs=1e-12)


def test_unequal_weights_must_fit() -> None:
    one = curve(law(1, 2), law(2, 1))
    with pytest.raises(ValueError, match="expected a table of 2 times 1 curves"):
        mixed_unequally([[one]], [0.5, 0.5], [1.0])
    with pytest.raises(ValueError, match="sum to 1"):
        mixed_unequally([[one], [one]], [0.5, 0.6], [1.0])


@pytest.mark.parametrize("users", [3, 5])
def test_the_exchange_is_exact_and_the_published_curve_below_it(users: int) -> None:
    """FD-2 and FD-3 on our code: Theorem 4.2's curve, symmetrised, is below the exact one, which is the truth."""
    first, second, w = shuffled_extremes(users, Fraction(3))
    truth = tradeoff_curve(mixture(first, second, w), mixture(second, first, w))
    inner = curve(first, second)
    exact, published = exchanged(inner, float(w)), exchanged_bound(inner, float(w))
    for x in X.tolist():
        assert float(exact.fnr(x)) == pytest.approx(float(value_at(truth, Fraction(x))), abs=1e-15)
    assert np.all(published.fnr(X) <= exact.fnr(X) + 1e-15)
    assert float(exact.fnr(1 / 16) - published.fnr(1 / 16)) > 0.01
    raw = 2 * float(w) * (1 - X) + (1 - 2 * float(w)) * inner.fnr(X)
    assert np.any(raw > exact.fnr(X) + 1e-3), "without the symmetrisation it would not be a bound"


def test_the_exchange_of_a_lower_curve_is_a_lower_curve() -> None:
    """Exchanging keeps the order: a more distinguishable inner pair stays so."""
    inner, lower = GaussianTradeOff(0.5).to_piecewise(), GaussianTradeOff(0.6).to_piecewise()
    assert np.all(exchanged(lower, 0.3).fnr(X) <= exchanged(inner, 0.3).fnr(X) + 1e-12)
    assert np.allclose(exchanged(inner, 0.5).fnr(X), 1 - X, atol=1e-12)
    with pytest.raises(ValueError, match="at most 1/2"):
        exchanged(inner, 0.6)


def test_advanced_joint_concavity_holds_for_random_mixtures() -> None:
    """Lemma 6.3 with the first argument mixed inside: never above the truth, γ and η on either side."""
    rng = np.random.default_rng(3)
    tighter = 0
    for _ in range(400):
        laws = random_laws(rng, 4)
        w = float(rng.uniform(0.05, 0.95))
        gamma, eta = float(rng.uniform(0, w)), float(rng.uniform(w, 1))
        if rng.random() < 0.5:
            gamma, eta = eta, gamma
        four = tuple(tuple(PiecewiseTradeOff(laws[i], laws[2 + j]) for j in (0, 1)) for i in (0, 1))
        truth = PiecewiseTradeOff((1 - w) * laws[0] + w * laws[1], (1 - w) * laws[2] + w * laws[3])
        found = advanced_joint_concavity(four, w, gamma, eta)
        assert np.all(found.fnr(X) <= truth.fnr(X) + 1e-12)
        plain = mixed([four[0][0], four[1][1]], [1 - w, w])
        tighter += bool(np.any(found.fnr(X) > plain.fnr(X) + 1e-3))
    assert tighter > 40, "it should often be better than Lemma 3.1 somewhere"


def test_advanced_joint_concavity_by_its_conjugate() -> None:
    """δ of the curve is the weighted sum of the four δ's at the two ratios that the lemma names."""
    laws = random_laws(np.random.default_rng(4), 4)
    w, gamma, eta = 0.4, 0.1, 0.8
    four = tuple(tuple(PiecewiseTradeOff(laws[i], laws[2 + j]) for j in (0, 1)) for i in (0, 1))
    found = advanced_joint_concavity(four, w, gamma, eta)
    for epsilon in (-0.5, 0.0, 0.4, 1.2):
        one = epsilon + np.log((eta - w) / ((1 - w) * (eta - gamma)))
        two = epsilon + np.log((w - gamma) / (w * (eta - gamma)))
        wanted = (1 - w) * ((1 - gamma) * four[0][0].delta(one) + gamma * four[1][0].delta(one))
        wanted += w * ((1 - eta) * four[0][1].delta(two) + eta * four[1][1].delta(two))
        assert found.delta(epsilon) == pytest.approx(wanted, abs=1e-14)
    with pytest.raises(ValueError, match="different sides"):
        advanced_joint_concavity(four, 0.4, 0.5, 0.8)


@pytest.mark.exhaustive
def test_what_leans_on_the_crossed_pairs_is_chosen() -> None:
    """Never above the truth, and at every slope at least about as good as any γ and η on a grid of their own."""
    rng = np.random.default_rng(5)
    for _ in range(6):
        laws = random_laws(rng, 4)
        w = float(rng.uniform(0.1, 0.9))
        four = tuple(tuple(PiecewiseTradeOff(laws[i], laws[2 + j]) for j in (0, 1)) for i in (0, 1))
        truth = PiecewiseTradeOff((1 - w) * laws[0] + w * laws[1], (1 - w) * laws[2] + w * laws[3])
        found = advanced_joint_concavity(four, w)
        assert np.all(found.fnr(X) <= truth.fnr(X) + 1e-12)
        below, above = np.linspace(0, w, 12)[:-1], np.linspace(w, 1, 12)[1:]
        pairs = [(x, y) for x in below for y in above] + [(y, x) for x in below for y in above]
        for epsilon in (0.0, 0.5, 1.0):
            best = min(advanced_joint_concavity(four, w, gamma, eta).delta(epsilon) for gamma, eta in pairs)
            assert truth.delta(epsilon) - 1e-12 <= found.delta(epsilon) <= best + 2e-3
    with pytest.raises(ValueError, match="both gamma and eta, or none"):
        advanced_joint_concavity(four, w, gamma=0.0)


def test_the_highest_of_curves_is_the_largest_of_each() -> None:
    """At every level, crossings included, and convex."""
    rng = np.random.default_rng(6)
    for _ in range(100):
        laws = random_laws(rng, 6)
        curves = [PiecewiseTradeOff(laws[k], laws[3 + k]) for k in range(3)]
        found = highest(curves)
        x = np.union1d(X, found.fpr_knots)
        assert np.allclose(found.fnr(x), np.max([one.fnr(x) for one in curves], axis=0), atol=1e-12)
        assert np.all(np.diff(np.diff(found.fnr_knots) / np.diff(found.fpr_knots)) >= -1e-6)
    with pytest.raises(ValueError, match="at least one curve"):
        highest([])


def test_the_second_argument_may_be_averaged_at_one_level() -> None:
    """FD-7 on our code: averaging over Q is a lower curve, over P it is not."""
    half = Fraction(1, 2)
    first, second = (law(1, 0, 0), law(0, 0, 1)), (law(1, 0, 0), law(1, 0, 0))
    both = mixture(*first, half)
    found = averaged([curve(both, one) for one in second], [0.5, 0.5])
    truth = curve(both, mixture(*second, half))
    assert np.all(found.fnr(X) <= truth.fnr(X) + 1e-15)
    printed = averaged([curve(one, mixture(*second, half)) for one in first], [0.5, 0.5])
    assert float(printed.fnr(0.5) - truth.fnr(0.5)) == pytest.approx(0.25)
    rng = np.random.default_rng(5)
    for _ in range(200):
        laws, w = random_laws(rng, 3), float(rng.random())
        lower = averaged([PiecewiseTradeOff(laws[0], laws[1]), PiecewiseTradeOff(laws[0], laws[2])], [1 - w, w])
        mixture_curve = PiecewiseTradeOff(laws[0], (1 - w) * laws[1] + w * laws[2])
        assert np.all(lower.fnr(X) <= mixture_curve.fnr(X) + 1e-12)


def test_subsampling_needs_all_four_curves() -> None:
    """FD-8 on our code: with the curves of P_0 too it bounds both directions; without them it does not."""
    rng = np.random.default_rng(6)
    for _ in range(200):
        none, one, other = random_laws(rng, 3)
        w = float(rng.random())
        seen = [(one, other), (other, one), (none, one), (none, other)]
        found = subsampled(lowest([PiecewiseTradeOff(p, q) for p, q in seen]), w)
        with_one, with_other = (1 - w) * none + w * one, (1 - w) * none + w * other
        for truth in (PiecewiseTradeOff(with_one, with_other), PiecewiseTradeOff(with_other, with_one)):
            assert np.all(found.fnr(X) <= truth.fnr(X) + 1e-12)
    claimed = subsampled(curve(law(3, 7, 0), law(7, 3, 0)), 0.5)
    apart = curve(mixture(law(0, 0, 1), law(3, 7, 0), HALF), mixture(law(0, 0, 1), law(7, 3, 0), HALF))
    assert apart.delta(float(np.log(1.25))) > claimed.delta(float(np.log(1.25))) + 0.01


def test_mixtures_of_gaussian_curves_are_guarantees() -> None:
    """Exact curves of mixtures that show the part, against 30 digits: no value is above, at any level."""
    parts, weights = [0.4, 1.7], [0.75, 0.25]
    found = mixed([GaussianTradeOff(mu) for mu in parts], weights)
    assert found.guarantee
    assert lowest([GaussianTradeOff(mu) for mu in parts]).guarantee
    with mpmath.workdps(30):
        for loss in np.arange(-4.0, 4.05, 0.25).tolist():
            # Each part is tested at the same likelihood ratio, log q/p = μ·z − μ²/2.
            scores = [mpmath.mpf(loss) / mu + mpmath.mpf(mu) / 2 for mu in parts]
            fpr = sum(w * mpmath.ncdf(-z) for w, z in zip(weights, scores, strict=True))
            fnr = sum(w * mpmath.ncdf(z - mu) for w, z, mu in zip(weights, scores, parts, strict=True))
            level = float(fpr)
            # The curve at the float next to this level, by its tangent: within 1e-30.
            truth = fnr - mpmath.exp(loss) * (mpmath.mpf(level) - fpr)
            assert truth - 2e-5 <= mpmath.mpf(float(found.fnr(level))) <= truth


def test_the_figure_of_a_normal_law_and_its_mixture() -> None:
    """[FDP] Figure 4: both lemmas' curves are below the exact one, with nothing to spare for chords."""
    sheet = f_dp.make_figure_4(Progress())
    assert all(judgement.reproduced for judgement in sheet.verdicts)
    for _, _, _, ours, _, exact in sheet.rows:
        assert ours <= exact  # type: ignore[operator]


def test_no_part_without_a_guarantee_gives_one() -> None:
    """A polygon through points of a curve is above it, so nothing made of it is a guarantee."""
    sure = PiecewiseTradeOff(np.array([0.3, 0.7]), np.array([0.7, 0.3]), guarantee=True)
    assert mixed([sure, sure], [0.5, 0.5]).guarantee is True
    points = PiecewiseTradeOff.from_error_points([0.1, 0.4], [0.5, 0.2])
    assert mixed([sure, points], [0.5, 0.5]).guarantee is False
    assert lowest([sure, points]).guarantee is False
    with pytest.raises(ValueError, match="one weight for each"):
        mixed([sure], [0.5, 0.5])
    with pytest.raises(ValueError, match="sum to 1"):
        mixed([sure, sure], [0.5, 0.6])
