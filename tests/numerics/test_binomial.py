"""Binomial probabilities in balls against exact fractions, high precision and doubles."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random

import pytest
from flint import arb
from mpmath import mp, mpf
from scipy.special import betainc

from shuffledp.numerics.ball_arithmetic import precision, to_rational
from shuffledp.numerics.distributions import (
    Coin,
    binomial_upper_tail,
    find_chernoff_window,
    masses_between,
    point_mass,
    tail_bound,
)

from .exact_law import contains, lower_end, upper_end


def coin_of(chance: Fraction) -> Coin:
    """The coin with an exact success probability."""
    return Coin(arb(to_rational(chance)), arb(to_rational(1 - chance)))


def exact_point(count: int, k: int, chance: Fraction) -> Fraction:
    """P(Bin(count, chance) = k)."""
    return math.comb(count, k) * chance**k * (1 - chance) ** (count - k) if 0 <= k <= count else Fraction(0)


def exact_tail(count: int, k: int, chance: Fraction) -> Fraction:
    """P(Bin(count, chance) >= k)."""
    return sum((exact_point(count, a, chance) for a in range(max(k, 0), count + 1)), start=Fraction(0))


def precise_tail(count: int, k: int, chance: Fraction) -> mpf:
    """P(Bin >= k) above the mean, term by term at the precision in force."""
    p = mpf(chance.numerator) / chance.denominator
    log_ways = mp.loggamma(count + 1) - mp.loggamma(k + 1) - mp.loggamma(count - k + 1)
    term = mp.exp(log_ways + k * mp.log(p) + (count - k) * mp.log(1 - p))
    total = mpf(0)
    while k <= count and term > total * mp.eps:
        total += term
        term *= p / (1 - p) * (count - k) / (k + 1)
        k += 1
    return total


def random_chance(rng: Random) -> Fraction:
    """A probability, often close to 0 or 1."""
    tiny = Fraction(rng.randint(1, 9), 10 ** rng.randint(1, 14))
    return rng.choice((Fraction(rng.randint(1, 99), 100), tiny, 1 - tiny))


@pytest.mark.exhaustive("64")
@pytest.mark.parametrize("bits", [64, 128, 256])
def test_points_and_tails_hold_the_exact_fractions(bits: int) -> None:
    """For small counts every ball encloses the exact probability and is narrow relative to it."""
    rng = Random(bits)
    for _ in range(150):
        count, chance = rng.randint(0, 30), random_chance(rng)
        with precision(bits):
            coin = coin_of(chance)
            for k in range(-1, count + 2):
                point, tail = point_mass(count, k, coin), binomial_upper_tail(count, k, coin)
                exact, exact_sum = exact_point(count, k, chance), exact_tail(count, k, chance)
                assert contains(point, exact)
                assert contains(tail, exact_sum)
                assert upper_end(point) - lower_end(point) <= exact * Fraction(2) ** (20 - bits)
                assert upper_end(tail) - lower_end(tail) <= Fraction(2) ** (20 - bits)
                if k >= count * chance:
                    assert upper_end(tail) - lower_end(tail) <= exact_sum * Fraction(2) ** (20 - bits)


@pytest.mark.parametrize(("count", "k", "chance"), [(1000, 700, 0.5), (10**6, 510_000, 0.5), (10**6, 3, 1e-7)])
def test_tails_agree_with_doubles(count: int, k: int, chance: float) -> None:
    """The incomplete beta function in doubles gives the same upper tail to its own accuracy."""
    with precision(128):
        tail = binomial_upper_tail(count, k, coin_of(Fraction(chance)))
    assert float(tail) == pytest.approx(float(betainc(k, count - k + 1, chance)), rel=1e-9)


@pytest.mark.parametrize(
    ("count", "k", "chance"),
    [(2000, 1800, "0.5"), (5000, 4990, "0.3"), (10**5, 60_000, "0.5"), (10**6, 520_000, "0.5"), (400, 399, "1e-3")],
)
def test_tiny_tails_keep_their_relative_digits(count: int, k: int, chance: str) -> None:
    """Tails down to 1e-2000 agree with their sum at high precision."""
    with mp.workdps(60):
        exact = precise_tail(count, k, Fraction(chance))
        with precision(160):
            tail = binomial_upper_tail(count, k, coin_of(Fraction(chance)))
            low, high = lower_end(tail), upper_end(tail)
        low, high = mpf(low.numerator) / low.denominator, mpf(high.numerator) / high.denominator
        assert low <= exact * (1 + mpf(10) ** -45)
        assert exact <= high * (1 + mpf(10) ** -45)
        assert high / low - 1 < mpf(10) ** -25


def test_tails_below_the_mean_are_near_one() -> None:
    """Well below the mean the complement is summed, so that the ball stays narrow around a value near 1."""
    with precision(128):
        tail = binomial_upper_tail(10**5, 100, coin_of(Fraction(1, 2)))
        assert binomial_upper_tail(10, 0, coin_of(Fraction(1, 2))) == 1
        assert binomial_upper_tail(10, 11, coin_of(Fraction(1, 2))).is_zero()
    assert contains(tail, Fraction(1)) or upper_end(tail) <= 1
    assert 1 - lower_end(tail) < Fraction(1, 10**30)


def test_a_coin_with_no_failure_is_exact() -> None:
    """Odds against nothing give the certain coin: no rounding, and a window of one point."""
    with precision(128):
        coin = Coin.from_weights(arb(1) / 3, arb(0))
        assert (coin.success, coin.failure) == (1, 0)
        span = find_chernoff_window(50, coin, -math.inf)
    assert (span.low, span.high) == (50, 50)
    assert span.outside.is_zero()


def test_odds_become_probabilities() -> None:
    """Weights 2 to 6 are a coin of 1/4, each side with its own digits; turning it swaps the sides."""
    with precision(128):
        coin = Coin.from_weights(arb(2), arb(6))
        assert contains(coin.success, Fraction(1, 4))
        assert contains(coin.complement().success, Fraction(3, 4))
        tiny = Coin.from_weights(arb(1), arb(10) ** -60)
    assert abs(upper_end(tiny.failure) * 10**60 - 1) < Fraction(1, 10**30)


def test_the_chernoff_bound_is_above_the_tail() -> None:
    """On either side of the mean the bound is at least the exact tail, ends of the range included."""
    rng = Random(3)
    for _ in range(300):
        count, chance = rng.randint(1, 25), random_chance(rng)
        k = rng.randint(0, count)
        with precision(128):
            bound = lower_end(tail_bound(count, k, coin_of(chance)))
        slack = 1 + Fraction(1, 10**30)
        if k >= count * chance:
            assert exact_tail(count, k, chance) <= bound * slack
        if k <= count * chance:
            assert 1 - exact_tail(count, k + 1, chance) <= bound * slack


@pytest.mark.parametrize("log_mass", [-0.5, -3.0, -20.0, -200.0, -math.inf])
def test_what_a_window_leaves_out_is_bounded(log_mass: float) -> None:
    """The exact probability outside the window is at most the stated one; the mean is inside."""
    rng = Random(int(abs(log_mass)) if math.isfinite(log_mass) else 999)
    for _ in range(100):
        count, chance = rng.randint(1, 40), random_chance(rng)
        with precision(128):
            span = find_chernoff_window(count, coin_of(chance), log_mass)
            stated = upper_end(span.outside)
        assert 0 <= span.low <= count * chance <= span.high <= count
        inside = sum((exact_point(count, k, chance) for k in range(span.low, span.high + 1)), start=Fraction(0))
        assert 1 - inside <= stated
        if math.isinf(log_mass):
            assert (span.low, span.high, stated) == (0, count, 0)
        else:
            assert float(stated) <= 2.01 * math.exp(log_mass)


@pytest.mark.parametrize("count", [10**4, 10**8, 10**12])
def test_a_window_is_a_few_standard_deviations_wide(count: int) -> None:
    """A window that leaves out e^-50 on each side is about ten standard deviations each way, at any n."""
    with precision(128):
        span = find_chernoff_window(count, coin_of(Fraction(1, 3)), -50.0)
    deviation = math.sqrt(count * 2 / 9)
    assert 9 * deviation < span.high - count / 3 < 11 * deviation
    assert 9 * deviation < count / 3 - span.low < 11 * deviation
    assert 0 < float(span.outside) <= 2.01 * math.exp(-50)


@pytest.mark.parametrize("chance", [Fraction(1, 2), Fraction(1, 1000), Fraction(97, 100)])
@pytest.mark.parametrize("count", [1, 7, 60])
def test_masses_between_edges(count: int, chance: Fraction) -> None:
    """Every stratum holds its exact chance, and all together 1."""
    edges = sorted({0, 1, count // 3, count // 2, count, count + 1})
    with precision(128):
        found = masses_between(count, edges, coin_of(chance))
        for first, end, mass in zip(edges[:-1], edges[1:], found, strict=True):
            expected = sum((exact_point(count, a, chance) for a in range(first, end)), start=Fraction(0))
            assert contains(mass, expected)
            assert mass.rel_accuracy_bits() > 90
        assert contains(sum(found, arb(0)), Fraction(1))
