"""Errors of the trade-off paper [FDP]."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from math import comb

import pytest
from scipy.integrate import quad
from scipy.special import ndtr

from tests.oracle.double_precision import delta_published_float
from tests.oracle.tradeoff import (
    Curve,
    delta_of_curve,
    mixture,
    shuffled_extremes,
    symmetrised,
    tradeoff_curve,
    value_at,
)

GRID = [Fraction(k, 64) for k in range(65)]


def law(*weights: int) -> dict[int, Fraction]:
    """A law on 0, 1, 2, ... with the given integer weights."""
    return {y: Fraction(weight, sum(weights)) for y, weight in enumerate(weights)}


def shuffled_pair(users: int, exp_epsilon: Fraction) -> tuple[dict, dict, Curve, Fraction]:
    """P, Q, T(P0, Q0) and w of the shuffled pair."""
    first, second, w = shuffled_extremes(users, exp_epsilon)
    return mixture(first, second, w), mixture(second, first, w), tradeoff_curve(first, second), w


def theorem_curve(users: int, exp_epsilon: Fraction) -> Curve:
    """2w (1 - x) + (1 - 2w) T(P0, Q0)(x), not symmetrised."""
    _, _, extremes, w = shuffled_pair(users, exp_epsilon)
    return [(x, 2 * w * (1 - x) + (1 - 2 * w) * y) for x, y in extremes]


def test_mixtures_share_a_threshold_not_a_level() -> None:
    """FD-1: curves averaged at one level are above the mixture's; at one threshold they are it."""
    first, second = (law(3, 1), law(1, 3)), (law(9, 1), law(1, 9))
    half = Fraction(1, 2)
    shifted = [{y + 2: value for y, value in one.items()} for one in second]
    mixed = tradeoff_curve(mixture(first[0], shifted[0], half), mixture(first[1], shifted[1], half))
    curves = [tradeoff_curve(*first), tradeoff_curve(*second)]
    at_one_level = [sum(value_at(curve, x) for curve in curves) / 2 for x in GRID]
    truth = [value_at(mixed, x) for x in GRID]
    assert all(level >= true for level, true in zip(at_one_level, truth, strict=True))
    assert max(level - true for level, true in zip(at_one_level, truth, strict=True)) > Fraction(1, 50)
    pairs = [first, second]
    for threshold in (Fraction(1, 9), Fraction(1, 3), Fraction(1), Fraction(3), Fraction(9)):
        alpha = sum(p[y] for p, q in pairs for y in p if p[y] < threshold * q[y]) / 2
        beta = sum(q[y] for p, q in pairs for y in p if p[y] >= threshold * q[y]) / 2
        assert value_at(mixed, alpha) == beta


@pytest.mark.parametrize("users", [3, 5])
def test_the_shuffled_curve_must_be_symmetrised(users: int) -> None:
    """FD-2: without the symmetrisation Theorem 4.2's curve is above the true one for x > 3/8 or so."""
    ratio = Fraction(3)
    first, second, _, _ = shuffled_pair(users, ratio)
    truth, printed = tradeoff_curve(first, second), theorem_curve(users, ratio)
    assert any(value_at(printed, x) > value_at(truth, x) for x in GRID)
    right = symmetrised(printed)
    assert all(value_at(right, x) <= value_at(truth, x) for x in GRID)


@pytest.mark.parametrize("users", [3, 5])
def test_the_shuffled_curve_is_a_bound_not_an_equality(users: int) -> None:
    """FD-3: the proof writes an equality for x <= x-bar; the true curve is above it and known exactly."""
    ratio = Fraction(3)
    first, second, extremes, w = shuffled_pair(users, ratio)
    truth, printed = tradeoff_curve(first, second), theorem_curve(users, ratio)
    assert value_at(truth, Fraction(1, 16)) > value_at(printed, Fraction(1, 16)) + Fraction(1, 100)
    for alpha, beta in extremes:
        point = (1 - w) * alpha + w * (1 - beta), (1 - w) * beta + w * (1 - alpha)
        assert value_at(truth, point[0]) == point[1]


class FloorCorollary:
    """The quantities of Corollary 4.3 for a given number of users and local epsilon."""

    def __init__(self, users: int, epsilon_local: float) -> None:
        """Weights of C ~ Bin(users - 1, 2w)."""
        self.users, self.w = users, 1 / (math.exp(epsilon_local) + 1)
        others, chance = users - 1, 2 * self.w
        self.weights = [comb(others, i) * chance**i * (1 - chance) ** (others - i) for i in range(users)]
        self.knots = sorted({Fraction(a, b) for a in range(users) for b in range(1, users + 1 - a)})

    def mass(self, i: int, k: int) -> float:
        """P(Bin(i, 1/2) = k)."""
        return comb(i, k) / 2**i if 0 <= k <= i else 0.0

    def last(self, i: int, t: Fraction) -> int:
        """The largest count that is rejected at threshold t."""
        return math.floor(i - Fraction(i + 1) / (t + 1))

    def errors(self, t: Fraction) -> tuple[float, float]:
        """alpha_0(t) and beta_0(t), with beta_i = 1 - F_i(s_i + 1)."""
        alpha = beta = 0.0
        for i, weight in enumerate(self.weights):
            s = self.last(i, t)
            alpha += weight * sum(self.mass(i, k) for k in range(s + 1))
            beta += weight * sum(self.mass(i, k) for k in range(s + 2, i + 1))
        return alpha, beta

    def printed_slope(self, t: Fraction) -> float:
        """l(t) as printed, with floors."""
        pairs = [(weight, i, self.last(i, t)) for i, weight in enumerate(self.weights)]
        below = sum(weight * self.mass(i, s) for weight, i, s in pairs)
        return -sum(weight * self.mass(i, s + 1) for weight, i, s in pairs) / below if below else -math.inf

    def delta(self, t: Fraction, epsilon: float) -> float:
        """1 + f*(-e^eps) if the maximum is at threshold t."""
        alpha, beta = self.errors(t)
        return 1 - math.exp(epsilon) * alpha - 2 * self.w * (1 - alpha) - (1 - 2 * self.w) * beta


@pytest.mark.parametrize(
    ("epsilon_local", "epsilon", "printed", "right"),
    [(0.5, 0.3, 9.647e-3, 1.3807e-2), (4.0, 3.6, -4.642, 0.7896)],
)
def test_the_floors_of_the_corollary(epsilon_local: float, epsilon: float, printed: float, right: float) -> None:
    """FD-4: the printed l(t) picks a wrong threshold; t = (1-2w)/(e^eps-2w) attains the maximum."""
    case = FloorCorollary(12, epsilon_local)
    w, factor = case.w, math.exp(epsilon)
    candidates = sorted({*case.knots, *((a + b) / 2 for a, b in pairwise(case.knots))})
    chosen = next(t for t in candidates if -factor + 2 * w - (1 - 2 * w) * case.printed_slope(t) <= 0)
    corrected = max(t for t in case.knots if t <= (1 - 2 * w) / (factor - 2 * w))
    best = max(case.delta(t, epsilon) for t in case.knots)
    assert case.delta(corrected, epsilon) == pytest.approx(best, rel=1e-12)
    assert case.delta(chosen, epsilon) == pytest.approx(printed, rel=1e-3)
    assert best == pytest.approx(right, rel=1e-3)
    p = math.exp(epsilon_local)
    true = delta_published_float(p, (p - 1) / (p + 1), p, p, 12, epsilon)
    assert true <= best
    assert (case.delta(chosen, epsilon) < true) == (epsilon_local == 4.0)


@pytest.mark.parametrize("users", [2, 5])
def test_the_type_two_error_is_one_minus_the_distribution_function(users: int) -> None:
    """FD-5: beta_i = F_i(s_i + 1) grows with the level; 1 - F_i(s_i + 1) is the type II error."""
    first, second, _ = shuffled_extremes(users, Fraction(3))
    given = users - 1
    ways = sum(comb(given, a) for a in range(given + 1))
    mine = {(a + 1, given - a): Fraction(comb(given, a), ways) for a in range(given + 1)}
    other = {(a, given - a + 1): Fraction(comb(given, a), ways) for a in range(given + 1)}
    assert {*mine} <= {*first}
    assert {*other} <= {*second}
    curve = tradeoff_curve(mine, other)

    def distribution(k: int) -> Fraction:
        return sum((Fraction(comb(given, j), ways) for j in range(k + 1)), start=Fraction(0))

    for s in range(-1, given):
        assert value_at(curve, distribution(s)) == 1 - distribution(s + 1)
        if distribution(s + 1) != Fraction(1, 2):
            assert value_at(curve, distribution(s)) != distribution(s + 1)


def test_the_middle_piece_of_the_symmetrisation() -> None:
    """FD-6: x-bar - f(x-bar) - x does not join (x-bar, f(x-bar)) to its mirror; x-bar + f(x-bar) - x does."""
    curve = theorem_curve(5, Fraction(3))
    left = next(x0 for (x0, y0), (x1, y1) in pairwise(curve) if y1 - y0 >= x0 - x1)
    height = value_at(curve, left)
    assert left < height

    def printed(x: Fraction) -> Fraction:
        return left - height - x

    whole = symmetrised(curve)
    for x in (left, (left + height) / 2, height):
        assert value_at(whole, x) == left + height - x
        assert printed(x) < 0
    slopes = [(y1 - y0) / (x1 - x0) for (x0, y0), (x1, y1) in pairwise(whole) if x1 > x0]
    assert slopes == sorted(slopes)


def test_the_advanced_joint_concavity_mixes_the_second_argument() -> None:
    """FD-7: averaging over the first argument exceeds T(P_w, Q_w); averaging over the second does not."""
    half = Fraction(1, 2)
    first, second = (law(1, 0, 0), law(0, 0, 1)), (law(1, 0, 0), law(1, 0, 0))
    mixed_first, mixed_second = mixture(*first, half), mixture(*second, half)
    truth = tradeoff_curve(mixed_first, mixed_second)
    printed = [tradeoff_curve(one, mixed_second) for one in first]
    assert value_at(truth, half) == 0
    assert sum(value_at(curve, half) for curve in printed) / 2 == Fraction(1, 4)
    cases = [(first, second), ((law(3, 2, 1), law(1, 1, 4)), (law(1, 2, 5), law(2, 5, 1)))]
    for ones, others in cases:
        mixed = mixture(*ones, half)
        truth = tradeoff_curve(mixed, mixture(*others, half))
        right = [tradeoff_curve(mixed, other) for other in others]
        assert all(value_at(truth, x) >= sum(value_at(curve, x) for curve in right) / 2 for x in GRID)


def test_subsampling_needs_the_common_part_to_be_close_too() -> None:
    """FD-8: with P0 apart from P1, delta is above Proposition E.1's; with P0 = P1 it is not."""
    w, factor = Fraction(1, 2), Fraction(5, 4)
    inner = tradeoff_curve(law(3, 7, 0), law(7, 3, 0))
    claimed = [(x, (1 - w) * (1 - x) + w * y) for x, y in inner]
    apart = tradeoff_curve(mixture(law(0, 0, 1), law(3, 7, 0), w), mixture(law(0, 0, 1), law(7, 3, 0), w))
    assert delta_of_curve(apart, factor) > delta_of_curve(claimed, factor) + Fraction(1, 100)
    close = tradeoff_curve(law(3, 7, 0), mixture(law(3, 7, 0), law(7, 3, 0), w))
    assert delta_of_curve(close, factor) <= delta_of_curve(claimed, factor)


@pytest.mark.parametrize(("limit", "start"), [(1.0, 0.7), (2.0, 1.0), (2.0, -0.5)])
def test_the_logistic_gradient_has_the_factor_of_the_feature(limit: float, start: float) -> None:
    """FD-9: the gradient of log(1 + exp(-theta y x)) is |yx| times what is printed."""

    def loss(theta: float, feature: float) -> float:
        return math.log1p(math.exp(-theta * feature))

    step, features = 1e-6, [limit * k / 50 for k in range(-50, 51)]
    slopes = [(loss(start + step, x) - loss(start - step, x)) / (2 * step) for x in features]
    largest = max(abs(slope) for slope in slopes)
    printed = max(math.exp(-start * x) / (1 + math.exp(-start * x)) for x in features)
    right = limit / (1 + math.exp(-abs(start) * limit))
    assert largest == pytest.approx(right, rel=1e-6)
    if limit != 1:
        assert printed < 0.6 * right


def advantage(limit: float) -> float:
    """Largest 1 - alpha - beta of one logistic step with a normal start, alpha and beta by quadrature."""

    def shift(start: float) -> float:
        return limit / (1 + math.exp(-abs(start) * limit))

    def density(start: float) -> float:
        return math.exp(-start * start / 2) / math.sqrt(2 * math.pi)

    return 2 * quad(lambda start: (2 * ndtr(shift(start) / 2) - 1) * density(start), 0, 12)[0]


def test_the_advantage_of_a_logistic_step() -> None:
    """FD-9: with the factor the advantages are 0.264 (M = 1) and 0.559 (M = 2)."""
    assert advantage(1.0) == pytest.approx(0.264, abs=5e-4)
    assert advantage(2.0) == pytest.approx(0.559, abs=5e-4)


def test_the_gaussian_weight_needs_its_normaliser() -> None:
    """FD-10: without 1/sqrt(2 pi) the two errors at mu = 1, t = 0 add up to 1.55, not 0.617."""
    shift, threshold = 1.0, 0.0
    at = shift / 2 - threshold / shift

    def total(scale: float) -> float:
        return quad(lambda w: scale * (ndtr(-at) + ndtr(at - shift)) * math.exp(-w * w / 2), -12, 12)[0]

    assert total(1.0) == pytest.approx(1.547, abs=1e-3)
    normalised = total(1 / math.sqrt(2 * math.pi))
    assert normalised == pytest.approx(2 * ndtr(-shift / 2), rel=1e-9)


def test_the_slope_at_a_threshold_is_its_inverse() -> None:
    """FD-11: with rejection at p < t q the slope of the curve at t is -1/t, not -t."""
    first, second = law(1, 2, 3, 6), law(6, 3, 2, 1)
    curve = tradeoff_curve(first, second)
    ratios = sorted(first[y] / second[y] for y in first)
    slopes = [(y1 - y0) / (x1 - x0) for (x0, y0), (x1, y1) in pairwise(curve)]
    assert slopes == [-1 / ratio for ratio in ratios]
    assert slopes != [-ratio for ratio in ratios]


def test_the_exact_curve_agrees_with_the_pair() -> None:
    """FD-3: the corrected curve gives the pair's own delta, below Theorem 4.2's (n = 12, eps0 = 0.5)."""
    epsilon, case = 0.3, FloorCorollary(12, 0.5)
    factor, w = math.exp(epsilon), case.w
    exact = 0.0
    for t in case.knots:
        alpha0, beta0 = case.errors(t)
        alpha, beta = (1 - w) * alpha0 + w * (1 - beta0), (1 - w) * beta0 + w * (1 - alpha0)
        exact = max(exact, 1 - beta - factor * alpha)
    p = math.exp(0.5)
    assert exact == pytest.approx(delta_published_float(p, (p - 1) / (p + 1), p, p, 12, epsilon), rel=1e-10)
    assert exact < max(case.delta(t, epsilon) for t in case.knots)


def test_unequal_weights_share_a_threshold_too() -> None:
    """FD-12: at equal weights Proposition B.1 is the average at one level, which is above the mixture's curve."""
    first, second = (law(3, 1), law(1, 3)), (law(9, 1), law(1, 9))
    half = Fraction(1, 2)
    shifted = [{y + 2: value for y, value in one.items()} for one in second]
    truth = tradeoff_curve(mixture(first[0], shifted[0], half), mixture(first[1], shifted[1], half))
    # min(w_i, w_i') = 1/2 twice, and nothing is left for the crossed pairs.
    printed = [half * value_at(tradeoff_curve(*first), x) + half * value_at(tradeoff_curve(*second), x) for x in GRID]
    assert max(p - value_at(truth, x) for p, x in zip(printed, GRID, strict=True)) > Fraction(1, 50)


def test_the_value_of_the_function_at_zero() -> None:
    """FD-13: with F(0) = lim F(s) the total variation of (0, 1) against (1/2, 1/2) is 1/2; F(s)/s has no limit."""
    first, second = law(0, 1), law(1, 1)

    def function(s: Fraction) -> Fraction:
        return abs(s - 1) / 2

    right = sum(second[y] * function(first[y] / second[y]) for y in second)
    assert right == sum(abs(first[y] - second[y]) for y in first) / 2 == Fraction(1, 2)
    small = [function(s) / s for s in (Fraction(1, 10**k) for k in range(1, 6))]
    assert all(after > 5 * before for before, after in pairwise(small))


def test_the_crossed_pairs_of_the_advanced_joint_concavity() -> None:
    """FD-14: the weights of T(P_0, Q_1) and T(P_1, Q_0) are exchanged; as printed, delta is 3/8 instead of 1/2."""
    first, second = (law(1, 0), law(1, 0)), (law(1, 0), law(0, 1))
    w, gamma, eta, ratio = Fraction(1, 2), Fraction(0), Fraction(3, 4), Fraction(3)
    truth = delta_of_curve(tradeoff_curve(mixture(*first, w), mixture(*second, w)), ratio)
    scale = ratio * (eta - w) / ((1 - w) * (eta - gamma)), ratio * (w - gamma) / (w * (eta - gamma))

    def delta(i: int, j: int, part: int) -> Fraction:
        return delta_of_curve(tradeoff_curve(first[i], second[j]), scale[part])

    straight = (1 - w) * (1 - gamma) * delta(0, 0, 0) + w * eta * delta(1, 1, 1)
    printed = straight + (1 - w) * gamma * delta(0, 1, 0) + w * (1 - eta) * delta(1, 0, 1)
    right = straight + (1 - w) * gamma * delta(1, 0, 0) + w * (1 - eta) * delta(0, 1, 1)
    assert printed == Fraction(3, 8)
    assert printed < truth == right == Fraction(1, 2)
