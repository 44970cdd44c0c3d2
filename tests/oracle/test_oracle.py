"""The oracles agree with each other, with the identity behind the bounds, and with known numbers."""

from __future__ import annotations

import itertools
from fractions import Fraction
from random import Random

import pytest
from mpmath import e, inf, log, mp, mpf

from . import multi_message_divergence
from .double_precision import delta_published_float
from .exact_enumeration import (
    hockey_stick,
    hockey_stick_of_counts,
    krr_table,
    positive_part_mean,
    random_extremal_table,
    random_table,
    shuffled_divergence,
    variation_ratio_of_table,
    worst_divergence,
)
from .highprecision import delta_published, delta_sound, solve_epsilon
from .tradeoff import delta_of_curve, mixture, shuffled_extremes, tradeoff_curve


def binary_response_delta(users: int, ones: int, epsilon_local: float, epsilon: float) -> mpf:
    """Shuffled binary randomized response when `ones` of the others hold 1: larger of both directions."""
    keep = mpf(e) ** epsilon_local / (mpf(e) ** epsilon_local + 1)

    def count_law(first: int) -> list[mpf]:
        law = [mpf(1)]
        for chance in [keep] * (ones + first) + [1 - keep] * (users - ones - first):
            longer = [mpf(0)] * (len(law) + 1)
            for k, value in enumerate(law):
                longer[k] += value * (1 - chance)
                longer[k + 1] += value * chance
            law = longer
        return law

    zero, one, factor = count_law(0), count_law(1), mpf(e) ** epsilon
    pairs = [(zero, one), (one, zero)]
    return max(sum(max(mpf(0), p - factor * q) for p, q in zip(*pair, strict=True)) for pair in pairs)


def test_counts_equal_the_positive_part_mean() -> None:
    """The divergence of the counts is E[(G_1 + ... + G_n)_+] / n, exactly, when the hiding law is full."""
    rng = Random(1)
    for _ in range(10):
        first, second, hiding = random_table(rng, 3, 3)
        users, ratio = rng.randint(1, 5), Fraction(rng.randint(1, 8), 4)
        gains = [(a - ratio * b) / w for a, b, w in zip(first, second, hiding, strict=True)]
        expected = positive_part_mean(gains, hiding, users) / users
        assert hockey_stick_of_counts(first, second, hiding, users, ratio) == expected


def test_counts_with_a_rest_equal_the_positive_part_mean() -> None:
    """A hiding law that sums to less than 1 is the same identity with one more value, zero."""
    first, second = [Fraction(2, 3), Fraction(1, 3)], [Fraction(1, 3), Fraction(2, 3)]
    hiding, ratio = [Fraction(1, 5), Fraction(1, 4)], Fraction(5, 4)
    gains = [(a - ratio * b) / w for a, b, w in zip(first, second, hiding, strict=True)]
    expected = positive_part_mean([*gains, Fraction(0)], [*hiding, Fraction(11, 20)], 6) / 6
    assert hockey_stick_of_counts(first, second, hiding, 6, ratio) == expected


def test_the_protocol_equals_the_counts_when_all_others_agree() -> None:
    """With every other user on one input, the protocol is a victim among identical hiding messages."""
    rng = Random(2)
    for _ in range(5):
        table = random_table(rng, 3, 3)
        direct = shuffled_divergence([table] * 4, 0, 1, [2] * 3, Fraction(3, 2))
        assert direct == hockey_stick_of_counts(table[0], table[1], table[2], 4, Fraction(3, 2))


def test_the_worst_divergence_is_attained_and_never_exceeded() -> None:
    """The maximum over datasets is one of them, and one user alone has the divergence of the table."""
    table = krr_table(3, 2)
    datasets = [(i, j) for i in range(3) for j in range(3)]
    values = [shuffled_divergence([table] * 3, 0, 1, others, Fraction(5, 4)) for others in datasets]
    assert worst_divergence(table, 3, Fraction(5, 4)) == max(values)
    assert worst_divergence(table, 1, 1) == Fraction(1, 4)


def test_users_with_different_tables() -> None:
    """A user whose table is a point mass on a private output hides nothing."""
    table = [[*row, Fraction(0)] for row in krr_table(2, 3)]
    silent = [[Fraction(0), Fraction(0), Fraction(1)]] * 2
    assert shuffled_divergence([table, silent, silent], 0, 1, [0, 1], 1) == Fraction(1, 2)


def test_parameters_of_randomized_response() -> None:
    """p = q = e^eps, beta = (e^eps - 1)/(e^eps + d - 1), and its blanket is q_common = 1."""
    for pair in variation_ratio_of_table(krr_table(4, 3)).values():
        assert pair == (3, Fraction(1, 3), 3, 1)
    for pair in variation_ratio_of_table(krr_table(2, 3)).values():
        assert pair == (3, Fraction(1, 2), 3, None)


def test_random_tables_are_what_they_say() -> None:
    """Rows sum to 1; extremal tables have only two values in a column, in the stated ratio."""
    rng = Random(3)
    for _ in range(10):
        table = random_extremal_table(rng, 3, 4, 3)
        assert all(sum(row) == 1 for row in table)
        for column in zip(*table, strict=True):
            low, high = min(column), max(column)
            assert high in (low, 3 * low)
            assert all(value in (low, high) for value in column)
        assert all(sum(row) == 1 for row in random_table(rng, 3, 4))


@pytest.mark.parametrize("seed", range(4))
def test_the_sound_pair_bounds_every_dataset(seed: int) -> None:
    """The sound reduction with minimal q_common is never below the true worst divergence."""
    rng = Random(seed)
    table = random_extremal_table(rng, 3, 3, 3) if seed % 2 else random_table(rng, 3, 3)
    ratio = Fraction(5, 4)
    for (x0, x1), pair in variation_ratio_of_table(table).items():
        if pair.beta == 0:
            continue
        q_common = pair.q_common or pair.q
        with mp.workdps(50):
            bound = delta_sound(pair.p, pair.beta, pair.q, pair.q, q_common, 3, log(mpf(ratio)))
            for others in [(i, j) for i in range(3) for j in range(i, 3)]:
                true = shuffled_divergence([table] * 3, x0, x1, others, ratio)
                assert mpf(true) <= bound + mpf(10) ** -40


def test_the_exact_and_the_high_precision_pairs_agree() -> None:
    """Both oracles give the same published and sound divergences."""
    p, beta, q, users, ratio = Fraction(3), Fraction(1, 3), Fraction(2), 5, Fraction(3, 2)
    alpha = beta / (p - 1)
    gamma, r = 1 - alpha - p * alpha, p * alpha / q
    first, second = [p * alpha, alpha, gamma], [alpha, p * alpha, gamma]
    published = hockey_stick_of_counts(first, second, [r, r, 1 - 2 * r], users, ratio)
    sound = hockey_stick_of_counts(first, second, [r, r, gamma / q], users, ratio)
    with mp.workdps(50):
        epsilon = log(mpf(ratio))
        assert abs(mpf(published) - delta_published(p, beta, q, q, users, epsilon)) < mpf(10) ** -45
        assert abs(mpf(sound) - delta_sound(p, beta, q, q, q, users, epsilon)) < mpf(10) ** -45


def test_infinite_ratio_is_the_limit_of_large_ratios() -> None:
    """p = inf is the limit p -> inf of both pairs."""
    for function, extra in [(delta_published, ()), (delta_sound, (3,))]:
        limit = function(inf, 0.5, 4, 4, *extra, 8, 0.2)
        near = function(mpf(10) ** 15, 0.5, 4, 4, *extra, 8, 0.2)
        assert abs(limit - near) < mpf(10) ** -13


@pytest.mark.exhaustive
def test_epsilon_of_inverts() -> None:
    """epsilon_of returns an epsilon whose delta is the target, from the safe side."""

    def curve(epsilon: mpf) -> mpf:
        return delta_published(mpf(e), (mpf(e) - 1) / (mpf(e) + 1), mpf(e), mpf(e), 20, epsilon)

    epsilon = solve_epsilon(curve, 1e-4, tolerance="1e-9")
    assert curve(epsilon) <= mpf(1e-4) < curve(epsilon - mpf("1e-8"))


def test_randomized_response_beats_the_published_bound() -> None:
    """Four options, e^eps0 = 2, ten users, the others on option 3: truth above the published formula."""
    table = krr_table(4, 2)
    true = shuffled_divergence([table] * 10, 0, 1, [3] * 9, Fraction(3, 2))
    pair = variation_ratio_of_table(table)[0, 1]
    alpha = pair.beta / (pair.p - 1)
    gamma, r = 1 - 3 * alpha, 2 * alpha / pair.q
    first, second = [2 * alpha, alpha, gamma], [alpha, 2 * alpha, gamma]
    published = hockey_stick_of_counts(first, second, [r, r, 1 - 2 * r], 10, Fraction(3, 2))
    assert round(float(true), 10) == 0.0011326976
    assert round(float(published), 10) == 0.0009434624


@pytest.mark.parametrize(
    ("p", "users", "ratio", "true", "published", "sound", "blanket"),
    [
        (3, 6, Fraction(2), 0.012924, 0.009838, 0.033016, 0.015668),
        (8, 6, Fraction(3), 0.190393, 0.189775, 0.248705, 0.193026),
        (4, 7, Fraction(5, 4), 0.165289, 0.165262, 0.165842, 0.165298),
    ],
)
def test_small_cases_of_randomized_response(
    p: int, users: int, ratio: Fraction, true: float, published: float, sound: float, blanket: float
) -> None:
    """True worst dataset, published bound, sound bound with q_common = q and = 1, on four options."""
    pair = variation_ratio_of_table(krr_table(4, p))[0, 1]
    beta, epsilon = pair.beta, log(mpf(ratio))
    assert round(float(worst_divergence(krr_table(4, p), users, ratio)), 6) == true
    assert round(float(delta_published(p, beta, p, p, users, epsilon)), 6) == published
    assert round(float(delta_sound(p, beta, p, p, p, users, epsilon)), 6) == sound
    assert round(float(delta_sound(p, beta, p, p, 1, users, epsilon)), 6) == blanket


def test_binary_response_is_not_worst_when_all_others_agree() -> None:
    """n = 50, eps0 = 1, eps = 0.3: all others equal 0.0022563, one other user different 0.0023562."""
    assert round(float(binary_response_delta(50, 0, 1, 0.3)), 7) == 0.0022563
    assert round(float(binary_response_delta(50, 1, 1, 0.3)), 7) == 0.0023562


@pytest.mark.parametrize(
    ("p", "beta", "q0", "q1"),
    [(2.5, 0.3, 2.0, 2.5), (3.0, 0.5, 3.0, 3.0), (inf, 0.7, 4.0, 3.0), (inf, 1.0, 2.0, 2.0)],
)
def test_the_floating_pair_agrees_with_the_high_precision_one(p: float, beta: float, q0: float, q1: float) -> None:
    """The sum over one count in doubles equals the direct double sum, with and without a common part."""
    for epsilon in (0.0, 0.1, 0.6):
        exact = float(delta_published(p, beta, q0, q1, 25, epsilon))
        assert delta_published_float(float(p), beta, q0, q1, 25, epsilon) == pytest.approx(exact, rel=1e-9)


def test_the_trade_off_curve_gives_the_divergence() -> None:
    """1 + f*(-ratio) of the shuffled pair's curve is its hockey-stick divergence, from the definition."""
    first, second, w = shuffled_extremes(4, Fraction(3))
    one, other = mixture(first, second, w), mixture(second, first, w)
    curve = tradeoff_curve(one, other)
    for ratio in (Fraction(1, 2), Fraction(1), Fraction(5, 4), Fraction(5, 2)):
        assert delta_of_curve(curve, ratio) == hockey_stick(other, one, ratio)
    p, ratio = Fraction(3), Fraction(5, 4)
    shares = [p / (p + 1), 1 / (p + 1)]
    own = hockey_stick_of_counts(shares, shares[::-1], [w, w], 4, ratio)
    assert delta_of_curve(curve, ratio) == own


def test_reports_are_counted_as_they_are_enumerated() -> None:
    """Several messages a user: the worst dataset in whole units is that of fractions, one dataset after the other."""
    rng = Random(5)
    kinds = [frozenset({("a", 2)}), frozenset({("a", 1), ("b", 1)}), frozenset({("b", 2)}), frozenset({("c", 1)})]
    for ratio in (Fraction(1), Fraction(9, 7)):
        laws = [dict(zip(kinds, row, strict=True)) for row in random_table(rng, 3, 4)]
        datasets = itertools.combinations_with_replacement(range(3), 2)
        expected = max(max(multi_message_divergence.dataset_divergences(laws, others, ratio)) for others in datasets)
        assert multi_message_divergence.worst_divergence(laws, 3, ratio) == expected
