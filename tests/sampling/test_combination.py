"""Subsets of a fixed size: both ways of drawing follow the exact law, and bytes are subsets or refused."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest
from scipy.stats import chi2

from shuffledp.sampling import bits_and_subsets
from shuffledp.sampling.random_sources import SeededSource

FALSE_ALARM = 1e-6
"""Of each chi-square test; the seeds are fixed."""


def source(seed: int) -> SeededSource:
    return SeededSource(np.random.default_rng(seed))


def misfit(rows: np.ndarray, possible: list[tuple[int, ...]]) -> bool:
    """Whether a chi-square test rejects that rows are uniform on the possible subsets; others fail at once."""
    places = {subset: number for number, subset in enumerate(possible)}
    seen = np.bincount([places[tuple(row)] for row in rows.tolist()], minlength=len(possible))
    expected = len(rows) / len(possible)
    return len(possible) > 1 and ((seen - expected) ** 2).sum() / expected > chi2.isf(FALSE_ALARM, len(possible) - 1)


@pytest.mark.parametrize("way", [bits_and_subsets._draw_by_comparison, bits_and_subsets._draw_by_marking])
@pytest.mark.parametrize(("options", "size"), [(2, 1), (5, 1), (5, 3), (6, 2), (6, 5)])
def test_draws_are_uniform_with_and_without_the_pivot(way, options: int, size: int) -> None:
    """Not forced: uniform on all subsets. Forced: uniform on those that contain the pivot. For every pivot."""
    every = list(combinations(range(options), size))
    for pivot in range(options):
        pivots = np.full(30_000, pivot)
        forced = np.arange(30_000) % 2 == 0
        rows = np.asarray(way(source(7 + pivot), options, size, pivots, forced))
        assert not misfit(rows[~forced], every)
        assert not misfit(rows[forced], [subset for subset in every if pivot in subset])


@pytest.mark.parametrize(("options", "size"), [(300, 20), (300, 100), (70_000, 3), (5_000_000_000, 2), (257, 256)])
def test_draws_are_increasing_and_in_range(options: int, size: int) -> None:
    """Rows are subsets in the smallest type, forced ones contain the pivot, over several batches."""
    users = 70_000 if size < 50 else 5_000
    generator = np.random.default_rng(3)
    pivots, forced = generator.integers(0, options, users), generator.integers(0, 2, users) == 1
    rows = bits_and_subsets.draw(source(4), options, size, pivots, forced)
    assert rows.dtype == bits_and_subsets.number_type(options)
    wide = rows.astype(np.int64)
    assert (np.diff(wide, axis=1) > 0).all()
    assert wide.min() >= 0
    assert wide.max() < options
    contains = (wide == pivots[:, None]).any(axis=1)
    assert contains[forced].all()
    # Six standard errors: a false alarm with probability below 1e-8.
    chance, others = size / options, (~forced).sum()
    assert abs(contains[~forced].sum() - others * chance) <= 6 * np.sqrt(others * chance * (1 - chance)) + 1


def test_digits_are_independent_and_uniform() -> None:
    """Several draws from one word: every combination of digits is equally likely."""
    bounds = [3, 4, 5]
    first, second, third = bits_and_subsets._draw_below_each(source(11), bounds, 60_000)
    seen = np.bincount((first * 4 + second) * 5 + third, minlength=60)
    assert ((seen - 1000) ** 2).sum() / 1000 < chi2.isf(FALSE_ALARM, 59)


@pytest.mark.parametrize(("options", "size"), [(2, 1), (5, 2), (9, 4), (17, 1), (256, 3), (300, 60), (1000, 7)])
def test_bytes_and_back(options: int, size: int) -> None:
    """Rows have the stated width and survive; the form is the shorter of the two."""
    pivots = np.arange(500) % options
    rows = bits_and_subsets.draw(source(5), options, size, pivots, pivots % 2 == 0)
    wire = bits_and_subsets.pack(rows, options)
    bits = bits_and_subsets.encoded_bits(options, size)
    assert bits == min(options, size * (options - 1).bit_length())
    assert wire.shape == (500, -(-bits // 8))
    back, good = bits_and_subsets.unpack(wire, options, size)
    assert good.all()
    assert back.dtype == rows.dtype
    np.testing.assert_array_equal(back, rows)


@pytest.mark.parametrize(
    ("options", "size", "row"),
    [
        (5, 2, [0b10000000]),  # one option only
        (5, 2, [0b11001000 | 0b00000001]),  # a bit beyond the last option
        (100, 2, [0b00000010, 0b00000100]),  # 1, 1: not different
        (100, 2, [0b00000100, 0b00000100]),  # 2, 1: not increasing
        (100, 2, [0b00000011, 0b11111100]),  # 1, 127: no option
        (100, 2, [0b00000010, 0b00001001]),  # an unused bit is set
    ],
)
def test_bytes_that_are_no_subset_are_told(options: int, size: int, row: list[int]) -> None:
    """Wrong number of options, order, range or padding, beside a row that is a subset."""
    fine = bits_and_subsets.pack(np.arange(size)[None, :], options)
    back, good = bits_and_subsets.unpack(
        np.concatenate([fine, np.array([row, row], dtype=np.uint8), fine]), options, size
    )
    assert good.tolist() == [True, False, False, True]
    np.testing.assert_array_equal(back[[0, 3]], [np.arange(size)] * 2)


def test_missing_share() -> None:
    """C(d−m, k)/C(d, k) for every small d, k, m; 0 where no subset is left."""
    for options in range(1, 9):
        for size in range(1, options + 1):
            for items in range(options + 3):
                left = comb(options - items, size) if items <= options else 0
                assert bits_and_subsets.missing_share(options, size, items) == Fraction(left, comb(options, size))
