"""Coins of an irrational probability, and the two-sided geometric law drawn with them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from scipy.stats import chi2

from shuffledp._core.validation import Words
from shuffledp.sampling.noise import TwoSidedGeometric
from shuffledp.sampling.random_sources import RandomSource, RealCoin, SeededSource

FALSE_ALARM = 1e-7


class Script(RandomSource):
    """Words in a given order."""

    def __init__(self, words: Sequence[int]) -> None:
        self._words = list(words)

    def words(self, count: int) -> Words:
        taken, self._words = self._words[:count], self._words[count:]
        assert len(taken) == count
        return np.array(taken, dtype=np.uint64)


def inverse_e() -> arb:
    return arb(-1).exp()


def digits_of_inverse_e() -> list[int]:
    """The digits of 1/e to base 2^64, from its series in whole numbers."""
    scale, total, term = 1 << 400, 0, 1 << 400
    for k in range(1, 200):
        total += term if k % 2 else -term
        term //= k
    number = total * (1 << 192) // scale
    return [number >> 128, number >> 64 & (1 << 64) - 1, number & (1 << 64) - 1]


def test_a_coin_is_decided_by_the_first_digit_that_differs() -> None:
    """Words equal to the probability's own digits leave it open; the next word decides."""
    first, second, third = digits_of_inverse_e()
    coin = RealCoin(inverse_e)
    assert coin.flip(Script([first - 1, first + 1]), 2).tolist() == [True, False]
    tied = Script([first, 0, first, second - 1, second])
    assert coin.flip(Script([first, 0, first, second, second + 1, third - 1]), 3).tolist() == [True, True, False]
    assert coin.flip(tied, 1).tolist() == [True]


def test_a_tiny_probability_has_leading_zeros() -> None:
    """e^-100 starts with two digits 0: only a word of 0 leaves it open."""
    coin = RealCoin(lambda: arb(-100).exp())
    assert not coin.flip(Script([1]), 1).any()
    assert not coin.flip(Script([0, 1 << 63]), 1).any()
    assert coin.flip(Script([0, 0, 0]), 1).all()


@pytest.mark.parametrize(("rate", "reach"), [("1/3", 12), ("2", 1), ("1/100", 257), ("5", 4)])
def test_the_two_sided_geometric_law(rate: str, reach: int) -> None:
    """The empirical law fits the formula (chi-square), with the tails on ±reach."""
    law, users = TwoSidedGeometric(Fraction(rate), reach), 200_000
    drawn = law.draw(SeededSource(np.random.default_rng(11)), users)
    step = math.exp(-float(Fraction(rate)))
    sizes = np.abs(np.arange(-reach, reach + 1))
    chances = np.where(sizes == reach, 1.0, 1 - step) * step**sizes / (1 + step)
    assert chances.sum() == pytest.approx(1, rel=1e-12)
    seen = np.bincount(drawn + reach, minlength=len(sizes))
    common = chances * users > 5
    statistic = (((seen - chances * users) ** 2 / (chances * users))[common]).sum()
    assert statistic <= chi2.isf(FALSE_ALARM, max(1, common.sum() - 1))
