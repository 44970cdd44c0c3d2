"""Rows of packed bits: drawing them with an exact probability, setting one bit a row, and summing columns.

Column j of a row is bit j mod 8 (the lowest is bit 0) of byte j div 8; bits beyond the last column are 0. Nothing is
ever unpacked to one byte a bit, except a few rows at the very end of a sum.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from shuffledp.array import Bytes, Integers, Words
from shuffledp.sampling.random import WORD, RandomSource

FIRST_DIGITS = 9
"""Digits drawn for every bit. The rest is drawn only for words with a bit still open: a share below 64·2^-9 = 12.5%."""
BLOCK_WORDS = 8192
"""Words drawn at a time: 64 KiB stay in the processor's cache."""
PART_WORDS = 1 << 18
"""Words finished at a time, with the few that need more digits collected: enough of them to draw those at once."""
ROWS_AT_ONCE = 1 << 15
SUM_BYTES = 1 << 20
WIDEST_BYTES = 1 << 12
"""Bytes whose columns are summed at a time, and the widest row among them, also for the cache."""
FEW_ROWS = 8
"""Rows that are added up unpacked: adders would gain nothing on so few."""


def bytes_of(columns: int) -> int:
    """Bytes in a row of this many bits."""
    return -(-columns // 8)


def coin_rows(source: RandomSource, probability: Fraction, rows: int, columns: int) -> Bytes:
    """Independent bits, each 1 with exactly this probability, a multiple of 2^-64; in ``rows`` rows."""
    if WORD % probability.denominator or not 0 <= probability <= 1:
        raise ValueError(f"coin_rows: probability must be a multiple of 2^-64 between 0 and 1, got {probability}.")
    digits = probability.denominator.bit_length() - 1
    width = bytes_of(columns)
    words = np.empty(-(-rows * width // 8), dtype=np.uint64)
    for start in range(0, len(words), PART_WORDS):
        _toss(source, probability.numerator, digits, words[start : start + PART_WORDS])
    result = words.view(np.uint8)[: rows * width].reshape(rows, width)
    if columns % 8:
        result[:, -1] &= np.uint8((1 << columns % 8) - 1)
    return result


def _toss(source: RandomSource, threshold: int, digits: int, words: Words) -> None:
    """Fill words with independent bits, each 1 with probability threshold/2^digits.

    A bit is [U < t] for a uniform U. Read from the least to the most significant digit, the comparison becomes
    u | (what is below) where t has a 1, and u & (what is below) where it has a 0, u a fresh fair bit. The first
    digits settle nearly every bit: ``low`` and ``high`` are the outcome if all digits below decide for 0 and for 1.
    """
    if threshold in (0, 1 << digits):
        words[:] = WORD - 1 if threshold else 0
        return
    below = max(0, digits - FIRST_DIGITS)
    places, gaps = [], []
    for start in range(0, len(words), BLOCK_WORDS):
        part = words[start : start + BLOCK_WORDS]
        low, high = _first_digits(source, threshold >> below, digits - below, len(part))
        part[:] = low
        unsettled = np.flatnonzero(low != high)
        places.append(unsettled + start)
        gaps.append(high[unsettled])
    open_places, rest = np.concatenate(places), np.concatenate(gaps)
    if len(rest) and below:
        tossed = np.empty_like(rest)
        _toss(source, threshold & ((1 << below) - 1), below, tossed)
        words[open_places] |= rest & tossed


def _first_digits(source: RandomSource, threshold: int, digits: int, count: int) -> tuple[Words, Words]:
    """The least and the greatest outcome that these digits of the comparison leave possible."""
    low = np.zeros(count, dtype=np.uint64)
    high = ~low
    for place in range(digits):
        fair = source.words(count)
        combine = np.bitwise_or if threshold >> place & 1 else np.bitwise_and
        combine(low, fair, out=low)
        combine(high, fair, out=high)
    return low, high


def put_one_per_row(rows: Bytes, columns: Integers, bits: Bytes) -> None:
    """Overwrite, in place, one bit of each row: column ``columns[i]`` of row i becomes ``bits[i]`` (0 or 1)."""
    width = rows.shape[1]
    for start in range(0, len(rows), ROWS_AT_ONCE):
        part = rows[start : start + ROWS_AT_ONCE].reshape(-1, copy=False)
        column, bit = columns[start : start + ROWS_AT_ONCE], bits[start : start + ROWS_AT_ONCE]
        at = (column >> 3) + np.arange(0, len(part), width)
        shift = (column & 7).astype(np.uint8)
        held = part[at]
        part[at] = held ^ ((held >> shift ^ bit) & np.uint8(1)) << shift


def single_bits(rows: Bytes, count: int) -> Bytes:
    """The first ``count`` bits of the rows, read on end, as 0s and 1s."""
    return np.unpackbits(rows.reshape(-1), count=count, bitorder="little")


def column_sums(rows: Bytes, columns: int) -> Integers:
    """How many rows have a 1, for each column."""
    width = bytes_of(columns)
    sums = np.zeros(8 * width, dtype=np.int64)
    for left in range(0, width, WIDEST_BYTES):
        strip = rows[:, left : left + WIDEST_BYTES]
        height = SUM_BYTES // strip.shape[1]
        part = sums[8 * left : 8 * (left + strip.shape[1])]
        for top in range(0, len(rows), height):
            part += _column_sums(strip[top : top + height].copy())
    return sums[:columns]


def some_column_sums(rows: Bytes, columns: Integers) -> Integers:
    """The same for these columns only: bytes without any of them are not looked at."""
    needed, places = np.unique(columns >> 3, return_inverse=True)
    sums = np.zeros(8 * len(needed), dtype=np.int64)
    height = max(1, SUM_BYTES // len(needed))
    for top in range(0, len(rows), height):
        sums += column_sums(rows[top : top + height, needed], len(sums))
    return np.asarray(sums[8 * places + (columns & 7)])


def _column_sums(rows: Bytes) -> Integers:
    """Sums by carry-save adders: three rows of one weight become their sum bits and carries of twice the weight.

    Works on slabs of many rows at once and overwrites ``rows``.
    """
    sums = np.zeros(8 * rows.shape[1], dtype=np.int64)
    weight = 1
    while len(rows):
        carries = np.empty((len(rows) // 2, rows.shape[1]), dtype=np.uint8)
        spare = np.empty((len(rows) // 3, rows.shape[1]), dtype=np.uint8)
        carried = 0
        while len(rows) > FEW_ROWS:
            third = len(rows) // 3
            a, b, c = rows[:third], rows[third : 2 * third], rows[2 * third : 3 * third]
            carry, both = carries[carried : carried + third], spare[:third]
            np.bitwise_and(a, b, out=carry)
            np.bitwise_xor(a, b, out=a)
            np.bitwise_and(a, c, out=both)
            np.bitwise_or(carry, both, out=carry)
            np.bitwise_xor(a, c, out=c)
            carried += third
            rows = rows[2 * third :]
        sums += weight * np.unpackbits(rows, axis=1, bitorder="little").sum(axis=0, dtype=np.int64)
        rows, weight = carries[:carried], 2 * weight
    return sums
