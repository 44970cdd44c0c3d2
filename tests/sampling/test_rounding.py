"""Exact randomised rounding."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from shuffledp._core.validation import Words
from shuffledp.sampling import rounding_and_digits
from shuffledp.sampling.random_sources import RandomSource, SeededSource


class Fixed(RandomSource):
    """Every word is the same."""

    def __init__(self, word: int) -> None:
        self._word = word

    def words(self, count: int) -> Words:
        return np.full(count, self._word, dtype=np.uint64)


@pytest.mark.parametrize("steps", [1, 3, 1000, 1024, 65535, 65536])
def test_the_position_on_the_grid_is_exact(steps: int) -> None:
    """Whole steps and units left over are those of the exact product, also where it exceeds 64 bits."""
    generator = np.random.default_rng(3)
    units = np.append(
        generator.integers(0, rounding_and_digits.RANGE_UNITS, 500),
        [0, 1, rounding_and_digits.RANGE_UNITS - 1, rounding_and_digits.RANGE_UNITS],
    )
    whole, left = rounding_and_digits.grid_position(units, steps)
    for unit, a, b in zip(units.tolist(), whole.tolist(), left.tolist(), strict=True):
        assert (a, b) == divmod(unit * steps, rounding_and_digits.RANGE_UNITS)
        law = rounding_and_digits.grid_law(unit, steps)
        assert sum(k * chance for k, chance in law.items()) == Fraction(unit * steps, rounding_and_digits.RANGE_UNITS)
        assert sum(law.values()) == 1
        assert law.get(a + 1, 0) == Fraction(b, rounding_and_digits.RANGE_UNITS)


def test_values_become_the_nearest_units() -> None:
    """[0, 1] and [−1, 1] are rounded to the nearest unit; the ends are exact; subnormal numbers are 0."""
    generator = np.random.default_rng(4)
    values = np.append(generator.random(300), [0.0, 1.0, 5e-324, 2.0**-54, 1 - 2.0**-53])
    for x, unit in zip(values.tolist(), rounding_and_digits.interval_to_units(values, 0.0, 1.0).tolist(), strict=True):
        assert abs(Fraction(x) * rounding_and_digits.RANGE_UNITS - unit) <= Fraction(1, 2)
    signed = np.concatenate([values, -values])
    for x, unit in zip(signed.tolist(), rounding_and_digits.signed_to_units(signed).tolist(), strict=True):
        assert abs((Fraction(x) + 1) * (rounding_and_digits.RANGE_UNITS // 2) - unit) <= Fraction(1, 2)


@pytest.mark.parametrize(("low", "high"), [(-3.0, 5.0), (0.0, 0.1), (1e16, 1e16 + 8), (-1e300, 1e308), (0.0, 5e-324)])
def test_any_interval(low: float, high: float) -> None:
    """Both ends are exact and nothing is off by more than 2^-51 of the range."""
    values = np.linspace(low, high, 101)
    units = rounding_and_digits.interval_to_units(values, low, high).tolist()
    assert (units[0], units[-1]) == (0, rounding_and_digits.RANGE_UNITS)
    for x, unit in zip(values.tolist(), units, strict=True):
        share = (Fraction(x) - Fraction(low)) / (Fraction(high) - Fraction(low))
        assert abs(share - Fraction(unit, rounding_and_digits.RANGE_UNITS)) <= Fraction(1, 1 << 51)


def test_a_coin_compares_all_its_bits() -> None:
    """The first 16 bits, and in a tie the other 37, are compared with the units."""
    word = 0xABCD_ABCD_ABCD_ABCD
    tied = (0xABCD << 37) | (word >> 27)
    units = np.array([tied - 1, tied, tied + 1, 0, rounding_and_digits.RANGE_UNITS, (0xABCE << 37), (0xABCD << 37) - 1])
    assert rounding_and_digits.coins(units, Fixed(word)).tolist() == [False, False, True, False, True, True, False]


def test_coins_of_any_shape() -> None:
    """Certain coins are certain, whatever the shape."""
    units = np.zeros((5, 7), dtype=np.int64)
    units[:, 3] = rounding_and_digits.RANGE_UNITS
    heads = rounding_and_digits.coins(units, SeededSource(np.random.default_rng(0)))
    np.testing.assert_array_equal(heads, units > 0)


def test_a_grid_that_is_too_fine_is_refused() -> None:
    """One sentence, with the limit."""
    with pytest.raises(ValueError, match=r"^Some: grid must be at most 65536, got 65537\.$"):
        rounding_and_digits.check_grid_size("Some", "grid", 65537, at_least=1)
