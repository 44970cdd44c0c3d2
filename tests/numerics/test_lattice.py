"""Rounding with noise: its law, exactly, and how little it depends on the last digits."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from shuffledp.sampling.random_sources import SeededSource
from shuffledp.sampling.rounding_and_digits import NOISE_TABLE, UNDECIDED_NOISE, round_with_noise

FALSE_ALARM = 1e-7


def noise_chance(z: int) -> Fraction:
    return Fraction(1, 3) / 2 ** abs(z)


def chance(result: int, number: Fraction) -> Fraction:
    """The stated law: one of the two whole numbers beside it, plus noise."""
    below = number.numerator // number.denominator
    up = number - below
    return (1 - up) * noise_chance(result - below) + up * noise_chance(result - below - 1)


def test_the_table_of_the_noise_is_exact() -> None:
    """Trailing zeros a and b of two random bytes have a−b = z with probability 2^-|z|/3, what is beyond added."""
    for z in range(-4, 5):
        seen = Fraction(NOISE_TABLE.tolist().count(z), 1 << 16)
        # Both bytes non-zero: Σ over a, b < 8 with a − b = z; the rest is drawn bit by bit.
        wanted = sum((Fraction(1, 2 ** (a + b + 2)) for a in range(8) for b in range(8) if a - b == z), Fraction(0))
        assert seen == wanted
        assert 0 < noise_chance(z) - wanted < Fraction(1, 2**7)
    assert NOISE_TABLE.tolist().count(UNDECIDED_NOISE) == 511


@pytest.mark.parametrize("number", [Fraction(0), Fraction(13, 4), Fraction(-7, 8), Fraction(-20001, 2)])
def test_the_law(number: Fraction) -> None:
    """Chi-square over 200,000 draws, false alarm 1e-7 each."""
    from scipy.stats import chi2

    draws = 200_000
    found = round_with_noise(np.full(draws, float(number)), SeededSource(np.random.default_rng(5)), 14)
    centre = int(number)
    kinds = range(centre - 14, centre + 15)
    wanted = np.array([float(chance(kind, number)) for kind in kinds]) * draws
    seen = np.array([(found == kind).sum() for kind in kinds])
    often = wanted >= 5
    observed = np.append(seen[often], draws - seen[often].sum())
    expected = np.append(wanted[often], draws - wanted[often].sum())
    assert ((observed - expected) ** 2 / expected).sum() <= chi2.isf(FALSE_ALARM, often.sum())


def test_moving_the_number_changes_no_probability_by_more_than_its_exponential() -> None:
    """Exactly, over a grid of numbers, moves and results: the factor is below 1/(1−m) ≥ e^m, and e^m bounds it."""
    for numerator in range(-16, 17):
        number = Fraction(numerator, 8)
        for move in (Fraction(1, 8), Fraction(1, 64), Fraction(1, 10**6)):
            limit = 1 + move + move**2 / 2 + move**3 / 6
            for result in range(-6, 7):
                ratio = chance(result, number + move) / chance(result, number)
                assert 1 / limit <= ratio <= limit


def test_the_mean_is_the_number() -> None:
    """Within six standard errors, over many different numbers at once; a false alarm in 1e8."""
    numbers = np.random.default_rng(6).uniform(-5000, 5000, 400_000)
    off = round_with_noise(numbers, SeededSource(np.random.default_rng(7)), 14) - numbers
    assert abs(off.mean()) <= 6 * np.sqrt((4 + 1 / 6) / len(off))
    assert off.var() == pytest.approx(4 + 1 / 6, rel=0.03)
