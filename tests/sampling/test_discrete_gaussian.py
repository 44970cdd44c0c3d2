"""The discrete Gaussian against mpmath: exact chances, and draws that follow them."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from shuffledp.sampling.noise import DiscreteGaussian
from shuffledp.sampling.random_sources import resolve_source

DEVIATIONS = [Fraction(2, 5), Fraction(1), Fraction(7, 2), Fraction(40)]


@pytest.mark.parametrize("deviation", DEVIATIONS)
def test_the_chances_are_those_of_the_law(deviation: Fraction) -> None:
    """To six digits where they are likely, to three far into the tails, and they sum to exactly 1."""
    law = DiscreteGaussian(deviation)
    whole, units = law.probability_units
    assert units[0] + 2 * sum(units[1:]) == whole
    assert min(units) > 0
    with mpmath.workdps(60):
        scale = mpmath.mpf(deviation.numerator) / deviation.denominator
        sizes = [mpmath.exp(-(z**2) / (2 * scale**2)) for z in range(4 * law.reach + 10)]
        total = sizes[0] + 2 * mpmath.fsum(sizes[1:])
        for z, unit in enumerate(units):
            near = z <= 6 * deviation
            assert abs(mpmath.mpf(unit) / whole / (sizes[z] / total) - 1) < (1e-6 if near else 1e-3)
        beyond = 2 * mpmath.fsum(sizes[law.reach + 1 :]) / total
        assert beyond < 2.0**-120


@pytest.mark.parametrize("deviation", DEVIATIONS)
def test_draws_follow_the_chances(deviation: Fraction) -> None:
    """Chi-square over numbers of at least 20 expected (chance of alarm 1e-7)."""
    from scipy.stats import chi2

    law = DiscreteGaussian(deviation)
    whole, units = law.probability_units
    draws = law.draw(resolve_source(np.random.default_rng(3)), 400_000)
    expected = np.array([units[abs(z)] / whole for z in range(-law.reach, law.reach + 1)]) * len(draws)
    seen = np.bincount(draws + law.reach, minlength=len(expected))
    common = expected >= 20
    statistic = ((seen - expected)[common] ** 2 / expected[common]).sum()
    assert statistic <= chi2.isf(1e-7, common.sum() - 1)
    assert law.variance == pytest.approx(float((draws.astype(float) ** 2).mean()), rel=0.02)


def test_what_is_rare_is_drawn_from_further_tables() -> None:
    """With words that always lead on, the far end is reached."""

    class Highest:
        def integers_below(self, bound: int, count: int) -> np.ndarray:
            return np.full(count, bound - 1, dtype=np.int64)

        def words(self, count: int) -> np.ndarray:
            return np.zeros(count, dtype=np.uint64)

    law = DiscreteGaussian(Fraction(3))
    assert law.draw(Highest(), 2).tolist() == [law.reach, law.reach]  # type: ignore[arg-type]
