"""Packed bits: exact probabilities by exhausting every digit string, sums and writes against unpacked arrays.

The statistical tests have fixed seeds; each raises a false alarm with probability 1e-8.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from shuffledp._core.validation import Words
from shuffledp.sampling import bits_and_subsets
from shuffledp.sampling.random_sources import WORD_RANGE, RandomSource, SeededSource

SIGMAS = 5.73
"""A normal variable is farther out with probability 1e-8."""


class EveryDigitString(RandomSource):
    """Lane i of 64 draws the digits of the number i, one with each word: all strings of six digits, once each."""

    def __init__(self) -> None:
        self.drawn = 0

    def words(self, count: int) -> Words:
        word = sum((lane >> self.drawn & 1) << lane for lane in range(64))
        self.drawn += 1
        return np.full(count, word, dtype=np.uint64)


def seeded(seed: int) -> SeededSource:
    return SeededSource(np.random.default_rng(seed))


def unpacked(rows: Any, columns: int) -> Any:
    return np.unpackbits(rows, axis=1, bitorder="little")[:, :columns]


@pytest.mark.parametrize("first_digits", [1, 2, 3, 4, 5, 6, 9])
def test_every_probability_of_six_digits_is_exact(first_digits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over all digit strings, a threshold t gives exactly t ones, however the digits are split in stages."""
    monkeypatch.setattr(bits_and_subsets, "FIRST_DIGITS", first_digits)
    for threshold in range(65):
        words = np.empty(1, dtype=np.uint64)
        bits_and_subsets._fill_with_coins(EveryDigitString(), threshold, 6, words)
        assert int(words[0]).bit_count() == threshold


@pytest.mark.parametrize(("last_digits", "ones"), [(0, 37), (37, 37), (38, 38), (63, 38)])
def test_open_bits_of_all_blocks_are_settled(last_digits: int, ones: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every lane draws its string twice; the one equal to the first six digits, 37, is settled by the last six."""
    monkeypatch.setattr(bits_and_subsets, "BLOCK_WORDS", 3)
    monkeypatch.setattr(bits_and_subsets, "FIRST_DIGITS", 6)

    class Repeating(EveryDigitString):
        def words(self, count: int) -> Words:
            self.drawn %= 6
            return super().words(count)

    words = np.empty(8, dtype=np.uint64)
    bits_and_subsets._fill_with_coins(Repeating(), 37 * 64 + last_digits, 12, words)
    assert [int(word).bit_count() for word in words] == [ones] * 8


@pytest.mark.parametrize(
    "probability",
    [
        Fraction(1, 2),
        Fraction(3, 8),
        Fraction(1, 1 << 12),
        Fraction((1 << 64) // 3, WORD_RANGE),
        Fraction(WORD_RANGE - (1 << 52) - 1, WORD_RANGE),
        Fraction(4_961_000_000_000_000_001, WORD_RANGE),
    ],
)
def test_bits_have_the_asked_share_of_ones(probability: Fraction) -> None:
    """The share of ones over many blocks is within its standard error."""
    rows, columns = 70_001, 61
    drawn = bits_and_subsets.coin_rows(seeded(1), probability, rows, columns)
    ones, count = int(bits_and_subsets.column_sums(drawn, columns).sum()), rows * columns
    spread = float(count * probability * (1 - probability)) ** 0.5
    assert abs(ones - float(count * probability)) <= SIGMAS * spread


def test_neighbouring_bits_are_uncorrelated() -> None:
    """Products of bits at several distances, in a row and across rows, are as frequent as p²."""
    drawn = bits_and_subsets.coin_rows(seeded(2), Fraction((1 << 64) // 5, WORD_RANGE), 20_000, 64)
    flat = unpacked(drawn, 64).reshape(-1).astype(float) - 0.2
    for distance in (1, 7, 8, 63, 64, 65, 512, 64 * 8192):
        product = flat[distance:] * flat[:-distance]
        assert abs(product.mean()) <= SIGMAS * 0.16 / len(product) ** 0.5


def test_certain_bits() -> None:
    """Probabilities 0 and 1 draw nothing at random, and the bits beyond the last column stay 0."""
    assert not bits_and_subsets.coin_rows(seeded(3), Fraction(0), 5, 13).any()
    np.testing.assert_array_equal(bits_and_subsets.coin_rows(seeded(3), Fraction(1), 2, 13), [[0xFF, 0x1F]] * 2)


@pytest.mark.parametrize("probability", [Fraction(1, 3), Fraction(1, 2 * WORD_RANGE), Fraction(-1, 2), Fraction(3, 2)])
def test_probabilities_that_cannot_be_drawn_are_refused(probability: Fraction) -> None:
    """Only multiples of 2^-64 between 0 and 1 can be exact."""
    with pytest.raises(ValueError, match=r"coin_rows: probability must be a multiple of 2\^-64 between 0 and 1, got"):
        bits_and_subsets.coin_rows(seeded(4), probability, 1, 1)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 8), (10, 9), (1000, 64), (70_000, 21)])
def test_shape_and_unused_bits(rows: int, columns: int) -> None:
    """Rows have the width of their columns, and nothing is set beyond."""
    drawn = bits_and_subsets.coin_rows(seeded(5), Fraction((1 << 64) // 3 * 2, WORD_RANGE), rows, columns)
    assert drawn.shape == (rows, bits_and_subsets.bytes_per_row(columns))
    assert drawn.dtype == np.uint8
    assert drawn.flags.c_contiguous
    assert not np.unpackbits(drawn, axis=1, bitorder="little")[:, columns:].any()


def test_part_by_part_equals_at_once_in_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small parts and blocks still give every row its own bits."""
    monkeypatch.setattr(bits_and_subsets, "BLOCK_WORDS", 5)
    monkeypatch.setattr(bits_and_subsets, "PART_WORDS", 13)
    drawn = bits_and_subsets.coin_rows(seeded(6), Fraction((1 << 64) // 3, WORD_RANGE), 1000, 128)
    assert len(np.unique(drawn, axis=0)) == 1000


@settings(max_examples=60, deadline=None)
@given(rows=st.integers(0, 300), columns=st.integers(1, 70), seed=st.integers(0, 10**6), share=st.floats(0, 1))
def test_column_sums_equal_the_sums_of_unpacked_bits(rows: int, columns: int, seed: int, share: float) -> None:
    """Carry-save adders count exactly, for any number of rows, sparse or dense."""
    plain = (np.random.default_rng(seed).random((rows, columns)) < share).astype(np.uint8)
    packed = np.packbits(plain, axis=1, bitorder="little")
    before = packed.copy()
    np.testing.assert_array_equal(bits_and_subsets.column_sums(packed, columns), plain.sum(axis=0, dtype=np.int64))
    np.testing.assert_array_equal(packed, before)


def test_column_sums_over_many_strips_and_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows wider and arrays longer than one piece, and rows that are not contiguous in memory."""
    monkeypatch.setattr(bits_and_subsets, "SUM_BYTES", 100)
    monkeypatch.setattr(bits_and_subsets, "WIDEST_BYTES", 3)
    packed = np.random.default_rng(7).integers(0, 256, (211, 11), dtype=np.uint8)
    packed[:, -1] &= 0x3F
    plain = unpacked(packed, 86)
    np.testing.assert_array_equal(bits_and_subsets.column_sums(packed, 86), plain.sum(axis=0))
    np.testing.assert_array_equal(bits_and_subsets.column_sums(packed[::-2], 86), plain[::-2].sum(axis=0))


def test_column_sums_of_all_ones() -> None:
    """The largest possible sums do not overflow a plane."""
    rows = np.full((100_003, 2), 0xFF, dtype=np.uint8)
    np.testing.assert_array_equal(bits_and_subsets.column_sums(rows, 16), 100_003)


@pytest.mark.parametrize("at_once", [3, 1 << 15])
def test_one_bit_a_row_is_overwritten(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the named column of each row changes, to the given bit."""
    monkeypatch.setattr(bits_and_subsets, "ROWS_AT_ONCE", at_once)
    generator = np.random.default_rng(8)
    packed = generator.integers(0, 256, (100, 3), dtype=np.uint8)
    columns, values = generator.integers(0, 24, 100), generator.integers(0, 2, 100, dtype=np.uint8)
    wanted = unpacked(packed, 24)
    wanted[np.arange(100), columns] = values
    bits_and_subsets.set_bit_per_row(packed, columns, values)
    np.testing.assert_array_equal(unpacked(packed, 24), wanted)


def test_rows_that_cannot_be_written_in_place_are_refused() -> None:
    """Writing into a silent copy would lose the bits."""
    packed = np.zeros((4, 4), dtype=np.uint8)[:, :3]
    with pytest.raises(ValueError, match="copy"):
        bits_and_subsets.set_bit_per_row(packed, np.zeros(4, dtype=np.int64), np.ones(4, dtype=np.uint8))


def test_single_bits_are_read_on_end() -> None:
    """The bits of the rows one after another, lowest bit of a byte first."""
    rows = np.array([[0b0000_0101, 0b1000_0000]], dtype=np.uint8)
    np.testing.assert_array_equal(bits_and_subsets.unpack_bits(rows, 16), [1, 0, 1] + [0] * 12 + [1])
    np.testing.assert_array_equal(bits_and_subsets.unpack_bits(rows, 3), [1, 0, 1])
