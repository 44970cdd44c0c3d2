"""Tails of the hypergeometric law, against exact fractions and against scipy where numbers are large."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import pytest
from flint import arb, fmpq
from scipy.stats import hypergeom

from shuffledp.numerics.ball_arithmetic import precision
from shuffledp.numerics.distributions import hypergeometric_upper_tail


def exact_tail(population: int, marked: int, drawn: int, k: int) -> Fraction:
    ways = sum(comb(marked, at) * comb(population - marked, drawn - at) for at in range(max(0, k), drawn + 1))
    return Fraction(ways, comb(population, drawn))


@pytest.mark.parametrize("population", [1, 2, 5, 12, 40])
def test_every_small_tail_holds_the_exact_fraction(population: int) -> None:
    """All marked, drawn and k of small populations."""
    some = range(population + 1) if population < 40 else (0, 1, 3, 17, 20, 39, 40)
    with precision(128):
        for marked in some:
            for drawn in some:
                for k in range(-1, drawn + 2):
                    exact = exact_tail(population, marked, drawn, k)
                    found = hypergeometric_upper_tail(population, marked, drawn, k)
                    assert found.overlaps(arb(fmpq(exact.numerator, exact.denominator))), (marked, drawn, k)
                    assert found.rad() < 1e-25


@pytest.mark.parametrize(("population", "marked", "drawn", "k"), [
    (2000, 300, 200, 40), (2000, 1835, 200, 35), (100_000, 60_000, 10_000, 6_200), (10_000_000, 900_000, 50_000, 4_300),
])  # fmt: skip
def test_large_tails_agree_with_scipy(population: int, marked: int, drawn: int, k: int) -> None:
    """Twelve digits are scipy's own."""
    with precision(128):
        found = hypergeometric_upper_tail(population, marked, drawn, k)
        assert float(found.mid()) == pytest.approx(hypergeom.sf(k - 1, population, marked, drawn), rel=1e-8)
        assert found.rad() < 1e-25
