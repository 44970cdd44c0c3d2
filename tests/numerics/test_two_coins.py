"""The sum of two binomials and one more coin, against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from random import Random

import pytest
from flint import arb

from shuffledp.bounds import exact_binary
from shuffledp.bounds.exact_binary import TwoBinomials
from shuffledp.numerics.ball_arithmetic import precision


def divergence(coins: TwoBinomials, growth: Fraction) -> Fraction:
    """Σ (P − growth·Q)_+ by multiplying out all coins one by one."""
    law = [Fraction(1)]
    for chance in [coins.high] * coins.many + [coins.low] * coins.few:
        law = [
            (law[t] * (1 - chance) if t < len(law) else Fraction(0)) + (law[t - 1] * chance if t else Fraction(0))
            for t in range(len(law) + 1)
        ]
    padded = [Fraction(0), *law, Fraction(0)]
    total = Fraction(0)
    for below, here in pairwise(padded):
        first = coins.high * below + (1 - coins.high) * here
        second = coins.low * below + (1 - coins.low) * here
        total += max(Fraction(0), first - growth * second)
    return total


def exponentials(x: float) -> tuple[Fraction, Fraction]:
    """Fractions on both sides of e^x."""
    with precision(256):
        ball = arb(x).exp()
        low, high = ball.lower().fmpq(), ball.upper().fmpq()
    return Fraction(int(low.p), int(low.q)), Fraction(int(high.p), int(high.q))


def any_coins(seed: int) -> tuple[TwoBinomials, float]:
    """Any two coins, sure ones included, any crowd of up to 24, any x below and beyond the largest ratio."""
    rng = Random(seed)
    low, high = sorted((Fraction(rng.randint(0, 63), 64), Fraction(rng.randint(1, 64), 64)))
    if low == high:
        low = high / 2
    coins = TwoBinomials(high, low, rng.randint(0, 12), rng.randint(0, 12))
    return coins, rng.random() * rng.choice([0.0, 0.01, 0.3, 1.0, 3.0])


@pytest.fixture(params=[exact_binary.MAX_EXPANDED_COINS, -1], ids=["multiplied out", "circle"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Either way to sum, whatever the number of coins."""
    monkeypatch.setattr(exact_binary, "MAX_EXPANDED_COINS", request.param)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("seed", range(120))
def test_the_bracket_holds_the_exact_value_and_is_narrow(seed: int) -> None:
    """By multiplying out all coins."""
    coins, x = any_coins(seed)
    found = coins.bracket(x)
    below, above = exponentials(x)
    with precision(256):
        largest = divergence(coins, below)
        smallest = divergence(coins, above)
        assert found.upper >= arb(smallest.numerator) / smallest.denominator
        assert found.lower <= arb(largest.numerator) / largest.denominator
    width = found.upper_float() - found.lower_float()
    assert width <= 1e-12 * found.upper_float() + 1e-40


@pytest.mark.parametrize("seed", range(120))
def test_what_is_only_bounded_is_above_the_exact_value(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chernoff's bound beyond the last total that is certainly not positive, wherever it is used."""
    monkeypatch.setattr(exact_binary, "LOG_NEGLIGIBLE_VALUE", math.inf)
    monkeypatch.setattr(exact_binary, "MAX_EXPANDED_COINS", -1)
    coins, x = any_coins(seed)
    found = coins.bracket(x)
    smallest = divergence(coins, exponentials(x)[1])
    assert found.lower == 0
    with precision(256):
        assert found.upper >= arb(smallest.numerator) / smallest.denominator


def test_what_is_next_to_nothing_takes_no_time() -> None:
    """Two coins that hardly differ, at half of their local ε among billions: far below every float."""
    half, tiny = Fraction(1, 2), Fraction(1, 10**14)
    found = TwoBinomials(half + tiny, half - tiny, 10**10, 10**10).bracket(2e-14)
    assert found.lower == 0
    assert found.upper_float() == 5e-324


@pytest.mark.usefixtures("way")
def test_a_tie_is_no_obstacle() -> None:
    """Where a total is exactly as likely under both laws up to the factor, its term is 0 and nothing is undecided."""
    found = TwoBinomials(Fraction(3, 4), Fraction(1, 4), 4, 4).bracket(0.0)
    exact = divergence(TwoBinomials(Fraction(3, 4), Fraction(1, 4), 4, 4), Fraction(1))
    assert found.lower_float() <= float(exact) <= found.upper_float()
    assert found.upper_float() - found.lower_float() < 1e-12


@pytest.mark.parametrize("x", [0.0, 0.05, 0.5, 1.5])
@pytest.mark.parametrize(("many", "few"), [(130, 270), (400, 0), (0, 400)])
def test_both_ways_agree(many: int, few: int, x: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the most coins that are summed term by term, to all digits of a float."""
    coins = TwoBinomials(Fraction(3, 4), Fraction(1, 4), many, few)
    terms = coins.bracket(x)
    monkeypatch.setattr(exact_binary, "MAX_EXPANDED_COINS", -1)
    circle = coins.bracket(x)
    assert circle.lower <= terms.upper
    assert terms.lower <= circle.upper
    assert terms.upper_float() == pytest.approx(circle.upper_float(), rel=1e-12)


@pytest.mark.parametrize("many", [10**3, 10**6, 10**9, 10**12])
def test_more_coins_hide_better(many: int) -> None:
    """Each further coin, of either kind, is post-processing: the divergence falls."""
    high, low = Fraction(3, 4), Fraction(1, 4)
    x = 4 * TwoBinomials(high, low, many, many).natural_scale()
    start = TwoBinomials(high, low, many, many).bracket(x)
    for more in (TwoBinomials(high, low, many + many // 100, many), TwoBinomials(high, low, many, many + many // 100)):
        assert more.bracket(x).upper < start.lower
