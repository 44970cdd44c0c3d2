"""Secret samples: exactly as many as are wanted, every subset equally probable, the same for the same key."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from shuffledp._core.validation import Words
from shuffledp.sampling import random_sources
from shuffledp.sampling.random_sources import KeyedSource


class TwoBits(KeyedSource):
    """Words of two bits: nearly all are equal to others."""

    def words(self, count: int) -> Words:
        return super().words(count) & np.uint64(3)


def members(bits: np.ndarray, people: int) -> tuple[int, ...]:
    return tuple(np.flatnonzero(np.unpackbits(bits, count=people, bitorder="little")).tolist())


def key_of(number: int) -> bytes:
    return number.to_bytes(32, "big")


@pytest.mark.parametrize("kind", [KeyedSource, TwoBits])
@pytest.mark.parametrize(("people", "size"), [(5, 2), (6, 3)])
def test_every_subset_is_equally_probable(kind: type[KeyedSource], people: int, size: int) -> None:
    """Chi-square over all subsets, with fixed keys; where words are equal, others decide."""
    draws = 6000
    found = Counter(
        members(random_sources.draw_subset(lambda: kind(key_of(number), 7), people, size), people)  # noqa: B023
        for number in range(draws)
    )
    subsets = list(itertools.combinations(range(people), size))
    assert set(found) <= set(subsets)
    mean = draws / len(subsets)
    square = sum((found[subset] - mean) ** 2 / mean for subset in subsets)
    freedom = len(subsets) - 1
    assert square < freedom + 4 * (2 * freedom) ** 0.5


def test_coins_are_independent_and_exact() -> None:
    """All outcomes of three coins of probability 0.3, with fixed keys."""
    draws, rate = 6000, Fraction(3, 10)
    found = Counter(
        members(random_sources.draw_poisson_sample(KeyedSource(key_of(n), 7), 3, rate), 3) for n in range(draws)
    )
    square = 0.0
    for size in range(4):
        for subset in itertools.combinations(range(3), size):
            mean = draws * float(rate**size * (1 - rate) ** (3 - size))
            square += (found[subset] - mean) ** 2 / mean
    assert square < 7 + 4 * 14**0.5


@pytest.mark.parametrize(("people", "size"), [(1, 0), (1, 1), (8, 8), (9, 1), (200_001, 4_000), (200_001, 199_999)])
def test_exactly_so_many(people: int, size: int) -> None:
    """Over several pieces, too; and the same again for the same key."""

    def begin() -> KeyedSource:
        return KeyedSource(key_of(1), 7)

    bits = random_sources.draw_subset(begin, people, size)
    assert len(bits) == -(-people // 8)
    assert len(members(bits, people)) == int(np.bitwise_count(bits).sum()) == size
    np.testing.assert_array_equal(bits, random_sources.draw_subset(begin, people, size))


def test_the_first_and_the_last_are_drawn_as_often() -> None:
    """Over the borders of pieces."""
    people, rate = 200_000, Fraction(1, 50)
    bits = random_sources.draw_subset(lambda: KeyedSource(key_of(2), 7), people, 4_000)
    coins = random_sources.draw_poisson_sample(KeyedSource(key_of(2), 8), people, rate)
    for drawn in (bits, coins):
        places = np.array(members(drawn, people))
        counts = np.histogram(places, bins=10, range=(0, people))[0]
        assert ((counts - 400) ** 2 / 400).sum() < 9 + 4 * 18**0.5


def test_more_than_there_are() -> None:
    """One sentence."""
    with pytest.raises(ValueError, match="size must be between 0 and 3, got 4"):
        random_sources.draw_subset(lambda: KeyedSource(key_of(1), 1), 3, 4)
