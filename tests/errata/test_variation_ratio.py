"""Errors of the variation-ratio paper [VR] and of its public code: the reduction and the bounds."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.stats import binom

from tests.oracle.double_precision import binomial_tail, delta_published_float, epsilon_published_float
from tests.oracle.exact_enumeration import (
    hockey_stick_of_counts,
    krr_table,
    positive_part_mean,
    random_table,
    shuffled_divergence,
    variation_ratio_of_table,
    worst_divergence,
)
from tests.oracle.highprecision import delta_published, delta_sound


def published_divergence(p: Fraction, beta: Fraction, q: Fraction, users: int, ratio: Fraction) -> Fraction:
    """D(P || Q) of the published pair, exactly."""
    alpha = beta / (p - 1)
    gamma, r = 1 - alpha - p * alpha, p * alpha / q
    first, second = [p * alpha, alpha, gamma], [alpha, p * alpha, gamma]
    return hockey_stick_of_counts(first, second, [r, r, 1 - 2 * r], users, ratio)


def test_published_reduction_is_not_an_upper_bound() -> None:
    """VR-1: randomized response on 4 options beats Theorem 4.2; the sound pair stays above it."""
    table, users, ratio = krr_table(4, 2), 10, Fraction(3, 2)
    true = shuffled_divergence([table] * users, 0, 1, [3] * 9, ratio)
    pair = variation_ratio_of_table(table)[0, 1]
    assert pair == (2, Fraction(1, 5), 2, 1)
    published = published_divergence(pair.p, pair.beta, pair.q, users, ratio)
    alpha = pair.beta / (pair.p - 1)
    gamma, r = 1 - 3 * alpha, 2 * alpha / pair.q
    first, second = [2 * alpha, alpha, gamma], [alpha, 2 * alpha, gamma]
    sound = hockey_stick_of_counts(first, second, [r, r, gamma / pair.q_common], users, ratio)
    assert published < true <= sound
    assert (round(float(published), 10), round(float(true), 10)) == (0.0009434624, 0.0011326976)


def test_published_reduction_holds_without_a_common_part() -> None:
    """VR-1: with gamma = 0 (binary randomized response) the published pair does bound every dataset."""
    for ratio in (Fraction(5, 4), Fraction(2)):
        published = published_divergence(Fraction(3), Fraction(1, 2), Fraction(3), 5, ratio)
        assert worst_divergence(krr_table(2, 3), 5, ratio) <= published


@pytest.mark.parametrize("users", [2, 4, 8])
def test_the_removed_labels_cannot_be_restored(users: int) -> None:
    """VR-2: user 1's own label 2 is never sent by others, so seeing it tells that the counts say nothing."""
    p, alpha, r, ratio = Fraction(2), Fraction(1, 5), Fraction(1, 5), Fraction(3, 2)
    gamma = 1 - alpha - p * alpha
    first, second = [p * alpha, alpha, gamma], [alpha, p * alpha, gamma]
    with_labels = hockey_stick_of_counts(first, second, [r, r, Fraction(0)], users, ratio)
    counts_only = hockey_stick_of_counts(first, second, [r, r, 1 - 2 * r], users, ratio)
    assert with_labels > counts_only


@pytest.mark.parametrize(("p", "users", "ratio"), [(3, 6, Fraction(2)), (8, 6, Fraction(3)), (4, 7, Fraction(5, 4))])
def test_extremal_mechanisms_are_not_tight(p: int, users: int, ratio: Fraction) -> None:
    """VR-3: randomized response on 4 options is above the bound that is called exactly tight."""
    pair = variation_ratio_of_table(krr_table(4, p))[0, 1]
    assert worst_divergence(krr_table(4, p), users, ratio) > published_divergence(
        pair.p, pair.beta, pair.q, users, ratio
    )


def test_cheu_zhilyaev_is_above_its_published_bound() -> None:
    """VR-4: with the two bits in question kept apart, the exact divergence exceeds the parameters' bound."""
    flip, users, ratio = Fraction(1, 4), 9, Fraction(3)
    keep = 1 - flip
    first = [keep * keep, flip * flip, flip * keep, keep * flip]
    second = [flip * flip, keep * keep, flip * keep, keep * flip]
    blanket = [flip * keep, flip * keep, keep * keep, flip * flip]
    exact = hockey_stick_of_counts(first, second, blanket, users, ratio)
    published = published_divergence((keep / flip) ** 2, 1 - 2 * flip, keep / flip, users, ratio)
    assert exact > published
    assert (round(float(published), 6), round(float(exact), 6)) == (0.006986, 0.012291)


def test_a_large_ratio_is_not_infinity() -> None:
    """VR-5: p = 1e5 in place of infinity reports an epsilon whose delta is above the target."""
    users, q, delta, p = 2000, 16.0, 1e-7, 1e5
    reported = epsilon_published_float(p, (p - 1) / (p + 1), q, users, delta)
    right = epsilon_published_float(math.inf, 1.0, q, users, delta, upper=3.0)
    assert reported < right
    assert delta_published_float(math.inf, 1.0, q, q, users, reported) > delta * (1 + 1e-4)
    assert delta_published_float(math.inf, 1.0, q, q, users, right) == pytest.approx(delta, rel=1e-6)


def expectation_form(
    p: Fraction, beta: Fraction, q: Fraction, users: int, ratio: Fraction, factor_of_c: Fraction
) -> Fraction:
    """Theorem 4.6 with low_c = (factor_of_c * alpha * c + (e - 1) f) / (alpha (e + 1)(p - 1))."""
    alpha = beta / (p - 1)
    gamma, r = 1 - alpha - p * alpha, p * alpha / q

    def low(c: int) -> int:
        common = gamma * (users - c) * r / (1 - 2 * r)
        return math.ceil((factor_of_c * alpha * c + (ratio - 1) * common) / (alpha * (ratio + 1) * (p - 1)))

    def tail(c: int, k: int) -> Fraction:
        return Fraction(sum(math.comb(c, i) for i in range(max(k, 0), c + 1)), 2**c)

    total = Fraction(0)
    for c in range(users):
        weight = math.comb(users - 1, c) * (2 * r) ** c * (1 - 2 * r) ** (users - 1 - c)
        gain = (p - ratio) * alpha * tail(c, low(c + 1) - 1) + (1 - p * ratio) * alpha * tail(c, low(c + 1))
        total += weight * (gain + (1 - ratio) * gamma * tail(c, low(c)))
    return total


def test_the_threshold_needs_the_factor_p() -> None:
    """VR-6: the appendix prints (e - 1) alpha c where (e p - 1) alpha c is right."""
    p, beta, q, users, ratio = Fraction(3), Fraction(2, 5), Fraction(3), 12, Fraction(3, 2)
    direct = published_divergence(p, beta, q, users, ratio)
    assert expectation_form(p, beta, q, users, ratio, p * ratio - 1) == direct
    assert expectation_form(p, beta, q, users, ratio, ratio - 1) < direct


def test_the_weight_of_c_is_r0_plus_r1() -> None:
    """VR-7: (2r)^c (1-2r)^(n-1-c) is the law of c only for r = (r0 + r1)/2, which is neither r0 nor r1."""
    r0, r1, users = Fraction(1, 5), Fraction(2, 5), 6
    law = [Fraction(0)] * users
    for a in range(users):
        for b in range(users - a):
            ways = math.comb(users - 1, a) * math.comb(users - 1 - a, b)
            law[a + b] += ways * r0**a * r1**b * (1 - r0 - r1) ** (users - 1 - a - b)

    def binomial(chance: Fraction) -> list[Fraction]:
        others = users - 1
        return [math.comb(others, c) * chance**c * (1 - chance) ** (others - c) for c in range(users)]

    assert binomial(r0 + r1) == law
    assert binomial(2 * r0) != law
    assert binomial(2 * r1) != law


def analytic_epsilon(p: float, beta: float, q: float, users: int, delta: float) -> tuple[float, bool, bool]:
    """Theorem 4.7: its epsilon, whether its printed condition holds, whether the corrected one does."""
    alpha = beta / (p - 1)
    r, others, log_term = alpha * p / q, users - 1, math.log(4 / delta)
    common = (1 - alpha - alpha * p) * r / (1 - 2 * r)
    omega = 2 * r * others - math.sqrt(min(6 * r, 0.5) * others * log_term)
    if omega <= 0:
        raise ValueError("Theorem 4.7 does not apply")
    slope, root = (p + 1) * alpha / 2 - common, math.sqrt(omega * log_term / 2)
    printed = (2 * p * (beta + 1 + (beta - 1) * p) * others + beta) / (q + p * (beta - 1 + (beta + 1) * p) - p * q)
    corrected = slope * omega + slope * math.sqrt(2 * omega / log_term) >= common * others + beta / 2
    below = alpha * omega + beta * (omega / 2 - root) + common * (others - omega)
    if min(slope, below) < 0:
        raise ValueError("Theorem 4.7 does not apply")
    return math.log(1 + beta * (2 * root + 1) / below), omega >= printed, corrected


@pytest.mark.parametrize(
    ("p", "beta", "q", "users"), [(34.35, 0.68, 4.81, 50), (8.49, 0.406, 7.36, 200), (3.98, 0.353, 3.24, 50)]
)
def test_the_condition_of_the_analytic_bound(p: float, beta: float, q: float, users: int) -> None:
    """VR-8: where Theorem 4.7's printed condition holds, delta is over 30 times the target."""
    delta = 1e-3
    epsilon, printed, corrected = analytic_epsilon(p, beta, q, users, delta)
    assert printed
    assert not corrected
    assert delta_published_float(p, beta, q, q, users, epsilon) > 30 * delta


def test_the_corrected_condition_of_the_analytic_bound() -> None:
    """VR-8: under the corrected condition no random input exceeds the target."""
    rng, tried = Random(0), 0
    while tried < 200:
        p = math.exp(rng.uniform(0.1, 4))
        beta = rng.uniform(0.1, 1) * (p - 1) / (p + 1)
        q, users, delta = max(1 + beta, math.exp(rng.uniform(0, 2.5))), rng.choice([20, 100, 500]), 1e-2
        try:
            epsilon, _, corrected = analytic_epsilon(p, beta, q, users, delta)
        except (ValueError, ZeroDivisionError):
            continue
        if corrected:
            tried += 1
            assert delta_published_float(p, beta, q, q, users, epsilon) <= delta


def binary_response_delta(users: int, ones: int, epsilon_local: float, epsilon: float) -> mpf:
    """Larger direction for shuffled binary randomized response when `ones` of the others hold 1."""
    keep = mp.exp(epsilon_local) / (mp.exp(epsilon_local) + 1)
    laws = []
    for own in (0, 1):
        law = [mpf(1)]
        for chance in [keep] * (ones + own) + [1 - keep] * (users - ones - own):
            shifted, stay = [mpf(0), *law], [*law, mpf(0)]
            law = [up * chance + same * (1 - chance) for up, same in zip(shifted, stay, strict=True)]
        laws.append(law)
    factor, pairs = mp.exp(epsilon), (laws, laws[::-1])
    return max(sum(max(mpf(0), p - factor * q) for p, q in zip(*pair, strict=True)) for pair in pairs)


def test_asymmetric_ratios_of_one_input_are_no_upper_bound() -> None:
    """VR-9: q0 = 1, q1 = e^eps0 is the dataset with all others equal; another dataset is worse."""
    users, epsilon = 50, 0.3
    one_point = max(
        delta_published_float(math.e, math.tanh(0.5), *q, users, epsilon) for q in [(1, math.e), (math.e, 1)]
    )
    by_ones = [binary_response_delta(users, ones, 1, epsilon) for ones in range(users)]
    assert one_point == pytest.approx(float(by_ones[0]), rel=1e-9)
    assert by_ones[1] > by_ones[0]
    assert (round(float(by_ones[0]), 7), round(float(by_ones[1]), 7)) == (0.0022563, 0.0023562)
    symmetric = delta_published(mp.e, mp.tanh(mpf("0.5")), mp.e, mp.e, users, epsilon)
    assert max(by_ones) <= symmetric


def test_the_lower_bound_needs_equal_ratios_in_both_directions() -> None:
    """VR-10: with unequal ratios the 'lower bound' of Theorem 5.1 exceeds every dataset's divergence."""
    table = [[Fraction(k, 10) for k in row] for row in [(8, 1, 1), (2, 7, 1), (4, 1, 5)]]
    users, ratio = 2, Fraction(2)
    # Class 0 is where input 0 is likelier, class 1 where input 1 is; the third output is common.
    p_up, p_down = table[1][1] / table[0][1], table[0][0] / table[1][0]
    assert (p_up, p_down) == (7, 4)
    least = [min(table[1][1] / row[1], table[0][0] / row[0]) for row in table]
    star = least.index(max(least))
    assert star == 2
    assert least.count(least[star]) == 1
    beta = table[1][1] - table[0][1]
    alpha = beta / (p_up - 1)
    gamma = 1 - alpha - p_up * alpha
    r0 = alpha * p_up * table[star][0] / table[0][0]
    r1 = alpha * p_up * table[star][1] / table[1][1]
    first, second = [p_up * alpha, alpha, gamma], [alpha, p_up * alpha, gamma]
    claimed = hockey_stick_of_counts(first, second, [r0, r1, 1 - r0 - r1], users, ratio)
    pairs = [(0, 1), (1, 0)]
    true = [shuffled_divergence([table] * users, *pair, [other], ratio) for pair in pairs for other in range(3)]
    assert (claimed, max(true)) == (Fraction(38, 100), Fraction(35, 100))
    # Right: every likelihood ratio kept as its own value is the exact divergence of that dataset.
    gains = [(a - ratio * b) / w for a, b, w in zip(*table, strict=True)]
    assert positive_part_mean(gains, table[star], users) / users == true[star]


def test_the_asymptotic_bound_of_the_appendix() -> None:
    """VR-11: the appendix's last line multiplies c_r by (1-beta)(1+p)/(p-1) and under-reports."""
    p, users, delta = 1.1, 2000, 1e-8
    beta, q = (p - 1) / (p + 1), 4 * p
    r = p * beta / ((p - 1) * q)
    c_r = max(0.0, 4 * (1 - 3 * r) / (9 * (1 - 2 * r)))
    spread = math.sqrt(32 * math.log(4 / delta) / (r * (users - 1))) + 4 / (r * users)
    extremes = beta * (1 + p) / (p - 1)
    assert users >= 8 * math.log(2 / delta) / r
    printed = math.log(1 + beta / (extremes + (1 - beta) * (1 + p) / (p - 1) * c_r) * spread)
    right = math.log(1 + beta / (extremes + (1 - extremes) * c_r) * spread)
    assert delta_published_float(p, beta, q, q, users, printed) > 1000 * delta
    assert delta_published_float(p, beta, q, q, users, right) <= delta


def test_not_every_q_of_at_least_one_is_possible() -> None:
    """VR-12: p = 3, beta = 1/2, q = 1 is allowed in print and makes 2r = 3/2; truly 1 + beta <= q."""
    p, beta, q = Fraction(3), Fraction(1, 2), Fraction(1)
    assert beta <= (p - 1) / (p + 1)
    assert q >= 1
    assert 2 * p * beta / ((p - 1) * q) > 1
    rng = Random(5)
    for _ in range(30):
        for pair in variation_ratio_of_table(random_table(rng, 3, 4)).values():
            assert 1 + pair.beta <= pair.q
    with pytest.raises(ValueError, match="at most 1"):
        delta_sound(p, beta, q, q, q, 5, 0)


def test_one_minus_a_cdf_loses_the_tail() -> None:
    """VR-13: the public code's 1 - cdf is 0 where the tail is 2.6e-17, and 17% off at 9.5e-17."""
    trials, at_least = 200, np.array([158, 157])
    exact = [float(Fraction(sum(math.comb(trials, i) for i in range(k, trials + 1)), 2**trials)) for k in at_least]
    by_difference = 1 - binom.cdf(at_least - 1, trials, 0.5)
    assert by_difference[0] == 0.0 < exact[0]
    assert abs(by_difference[1] / exact[1] - 1) > 0.1
    assert binomial_tail(at_least, trials, 0.5) == pytest.approx(exact, rel=1e-10)
