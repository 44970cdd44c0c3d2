"""Rows of packed bits and subsets of fixed size, drawn and stored as bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp._core.validation import Bytes, Integers, Words
from shuffledp.sampling.random_sources import WORD_RANGE, RandomSource

# --- Rows of packed bits ---
#
# Column j of a row is bit j mod 8 (the lowest is bit 0) of byte j div 8; bits beyond the last column are 0. Bits are
# never unpacked to one byte each, except a few rows at the very end of a sum.


FIRST_DIGITS = 9
"""Digits drawn for every bit; the rest only for words with an undecided bit, a share below 64·2^-9 = 12.5%."""
BLOCK_WORDS = 8192
"""Words drawn at a time: 64 KiB stay in the processor's cache."""
PART_WORDS = 1 << 18
"""Words finished at a time: the few that need more digits are collected, enough of them to draw those at once."""
ROWS_AT_ONCE = 1 << 15
SUM_BYTES = 1 << 20
WIDEST_BYTES = 1 << 12
"""Bytes whose columns are summed at a time, and the widest row among them, also for the cache."""
MAX_UNPACKED_ROWS = 8
"""Rows that are summed unpacked: adders would gain nothing on so few."""


def bytes_per_row(columns: int) -> int:
    """Returns the bytes in a row of this many bits."""
    return -(-columns // 8)


def coin_rows(source: RandomSource, probability: Fraction, rows: int, columns: int) -> Bytes:
    """Returns rows of independent bits, each 1 with exactly this probability, a multiple of 2^-64."""
    if WORD_RANGE % probability.denominator or not 0 <= probability <= 1:
        raise ValueError(f"coin_rows: probability must be a multiple of 2^-64 between 0 and 1, got {probability}.")
    digits = probability.denominator.bit_length() - 1
    width = bytes_per_row(columns)
    words = np.empty(-(-rows * width // 8), dtype=np.uint64)
    for start in range(0, len(words), PART_WORDS):
        _fill_with_coins(source, probability.numerator, digits, words[start : start + PART_WORDS])
    result = words.view(np.uint8)[: rows * width].reshape(rows, width)
    if columns % 8:
        result[:, -1] &= np.uint8((1 << columns % 8) - 1)
    return result


def _fill_with_coins(source: RandomSource, threshold: int, digits: int, words: Words) -> None:
    """Fills words with independent bits, each 1 with probability threshold/2^digits.

    A bit is [U < t] for a uniform U. Read from the least to the most significant digit, the comparison becomes u | (the
    comparison so far) where t has a 1, and u & (the comparison so far) where it has a 0, u a fresh fair bit. The first
    digits settle nearly every bit: ``low`` and ``high`` are the outcome if all digits below decide for 0 and for 1.
    """
    if threshold in (0, 1 << digits):
        words[:] = WORD_RANGE - 1 if threshold else 0
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
        _fill_with_coins(source, threshold & ((1 << below) - 1), below, tossed)
        words[open_places] |= rest & tossed


def _first_digits(source: RandomSource, threshold: int, digits: int, count: int) -> tuple[Words, Words]:
    """Returns the least and the greatest outcome that these digits of the comparison leave possible."""
    low = np.zeros(count, dtype=np.uint64)
    high = ~low
    for place in range(digits):
        fair = source.words(count)
        combine = np.bitwise_or if threshold >> place & 1 else np.bitwise_and
        combine(low, fair, out=low)
        combine(high, fair, out=high)
    return low, high


def set_bit_per_row(rows: Bytes, columns: Integers, bits: Bytes) -> None:
    """Overwrites, in place, one bit of each row: column ``columns[i]`` of row i becomes ``bits[i]`` (0 or 1)."""
    width = rows.shape[1]
    for start in range(0, len(rows), ROWS_AT_ONCE):
        part = rows[start : start + ROWS_AT_ONCE].reshape(-1, copy=False)
        column, bit = columns[start : start + ROWS_AT_ONCE], bits[start : start + ROWS_AT_ONCE]
        at = (column >> 3) + np.arange(0, len(part), width)
        shift = (column & 7).astype(np.uint8)
        held = part[at]
        part[at] = held ^ ((held >> shift ^ bit) & np.uint8(1)) << shift


def unpack_bits(rows: Bytes, count: int) -> Bytes:
    """Returns the first ``count`` bits of the concatenated rows as 0s and 1s."""
    return np.unpackbits(rows.reshape(-1), count=count, bitorder="little")


def column_sums(rows: Bytes, columns: int) -> Integers:
    """Returns for each column the number of rows with a 1."""
    width = bytes_per_row(columns)
    sums = np.zeros(8 * width, dtype=np.int64)
    for left in range(0, width, WIDEST_BYTES):
        strip = rows[:, left : left + WIDEST_BYTES]
        height = SUM_BYTES // strip.shape[1]
        part = sums[8 * left : 8 * (left + strip.shape[1])]
        for top in range(0, len(rows), height):
            part += _column_sums(strip[top : top + height].copy())
    return sums[:columns]


def selected_column_sums(rows: Bytes, columns: Integers) -> Integers:
    """Returns the sums of these columns only; bytes without any of them are not read."""
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
        while len(rows) > MAX_UNPACKED_ROWS:
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


# --- Subsets of a fixed size: rows of increasing numbers below ``options`` ---


Rows = NDArray[Any]

WORD_SPAN = 1 << 60
"""One random word serves draws whose bounds multiply to at most this: at most a sixteenth of the words is rejected."""
WORKING_CELLS = 1 << 20
"""Cells of the working arrays of one batch of users, for the processor's cache."""
MAX_USERS = 1 << 15
MAX_COMPARED_SIZE, MAX_MARKED_OPTIONS = 1 << 12, 1 << 24
"""Largest subset whose numbers are compared one by one, and largest number of options that are marked."""


def missing_share(options: int, size: int, items: int) -> Fraction:
    """Returns the share of all ``size``-subsets that contain none of ``items`` given numbers."""
    fewer, more = sorted((size, items))
    return Fraction(comb(options - more, fewer), comb(options, fewer)) if more <= options else Fraction(0)


def number_type(options: int) -> np.dtype[Any]:
    """Returns the smallest type of numbers below ``options``."""
    kinds = (np.uint8, np.uint16, np.uint32)
    return next((np.dtype(kind) for kind in kinds if options - 1 <= np.iinfo(kind).max), np.dtype(np.int64))


def draw(source: RandomSource, options: int, size: int, pivots: Integers, forced: NDArray[np.bool_]) -> Rows:
    """Draws a uniform subset per user: of all subsets, or if ``forced`` of those that contain the user's pivot.

    Floyd's algorithm: for j = options−size … options−1 draw t uniformly from 0 … j and add t, or j if t is there
    already. Before the last step the set is uniform on the (size−1)-subsets of the numbers below options−1, so that
    adding options−1 in any case gives a uniform subset among those that contain it; then options−1 and the pivot
    are exchanged.
    """
    if size > MAX_COMPARED_SIZE and options > MAX_MARKED_OPTIONS:
        rows = [
            _draw_with_refill(source, options, size, int(own) if held else None) for own, held in _users(pivots, forced)
        ]
        return np.stack(rows).astype(number_type(options))
    # Comparing with every number drawn so far costs about size²/2 per user, marking them options.
    dense = size * size > 2 * options
    batch = min(MAX_USERS, max(1, WORKING_CELLS // (options if dense else size)))
    some = _draw_by_marking if dense else _draw_by_comparison
    result = np.empty((len(pivots), size), dtype=number_type(options))
    for start in range(0, len(pivots), batch):
        part = slice(start, start + batch)
        result[part] = some(source, options, size, pivots[part], forced[part])
    return result


def _users(pivots: Integers, forced: NDArray[np.bool_]) -> Iterator[tuple[Any, Any]]:
    return zip(pivots, forced, strict=True)


def _draw_with_refill(source: RandomSource, options: int, size: int, pivot: int | None) -> Integers:
    """Draws a large subset of very many options: repeatedly draws numbers and drops duplicates, until it is complete.

    Every added number is uniform among those not yet in the set. A pivot is in the set from the beginning.
    """
    chosen = np.empty(0, dtype=np.int64) if pivot is None else np.array([pivot])
    while len(chosen) < size:
        # Whichever of equal numbers comes first, the set is the same; and there are never too many.
        chosen = np.unique(np.concatenate([chosen, source.integers_below(options, size - len(chosen))]))
    return chosen


def _draw_by_comparison(
    source: RandomSource, options: int, size: int, pivots: Integers, forced: NDArray[np.bool_]
) -> Rows:
    kind = number_type(options).type
    chosen = np.empty((size, len(pivots)), dtype=kind)
    last = options - 1
    for step, (j, drawn) in enumerate(_floyd(source, options, size, len(pivots))):
        t = drawn.astype(kind)
        present = (chosen[:step] == t).any(axis=0)
        if j == last:
            present |= forced
        chosen[step] = np.where(present, kind(j), t)
    # Only the last step can have added the number options−1.
    final, names = chosen[-1].copy(), pivots.astype(kind)
    chosen = np.where(chosen == names, kind(last), chosen)
    chosen[-1] = np.where(final == last, names, chosen[-1])
    return np.sort(chosen.T, axis=1) if size > 1 else chosen.T


def _draw_by_marking(
    source: RandomSource, options: int, size: int, pivots: Integers, forced: NDArray[np.bool_]
) -> Rows:
    marks = np.zeros(len(pivots) * options, dtype=np.bool_)
    starts = np.arange(len(pivots)) * options
    last = options - 1
    for j, t in _floyd(source, options, size, len(pivots)):
        place = starts + t
        present = marks[place]
        if j == last:
            present |= forced
        marks[np.where(present, starts + j, place)] = True
    here, there = starts + pivots, starts + last
    marks[here], marks[there] = marks[there], marks[here]
    return np.flatnonzero(marks).reshape(-1, size) - starts[:, None]


def _floyd(source: RandomSource, options: int, size: int, users: int) -> Iterator[tuple[int, Integers]]:
    steps = range(options - size, options)
    return zip(steps, _draw_below_each(source, (j + 1 for j in steps), users), strict=True)


def _draw_below_each(source: RandomSource, bounds: Iterable[int], count: int) -> Iterator[Integers]:
    """Returns for each bound ``count`` independent, exactly uniform integers: the digits of fewer, larger ones."""
    waiting: list[int] = []
    span = 1
    for bound in bounds:
        if waiting and span * bound > WORD_SPAN:
            yield from _digits(source.integers_below(span, count), waiting)
            waiting, span = [], 1
        waiting.append(bound)
        span *= bound
    if waiting:
        yield from _digits(source.integers_below(span, count), waiting)


def _digits(numbers: Integers, bounds: list[int]) -> Iterator[Integers]:
    for bound in bounds[:-1]:
        rest = numbers // bound
        yield numbers - rest * bound
        numbers = rest
    yield numbers


# --- Subsets as bytes ---


def encoded_bits(options: int, size: int) -> int:
    """Returns the bits of one encoded subset: its numbers in sequence or one bit per option, whichever is shorter."""
    return min(options, size * _width(options))


def pack(rows: Rows, options: int) -> NDArray[np.uint8]:
    """Returns subsets as rows of bytes, unused bits 0."""
    size = rows.shape[1]
    bits = encoded_bits(options, size)
    result = np.empty((len(rows), -(-bits // 8)), dtype=np.uint8)
    batch = max(1, WORKING_CELLS // bits)
    for start in range(0, len(rows), batch):
        part = rows[start : start + batch]
        result[start : start + batch] = np.packbits(_bits_of(part, options, bits), axis=1)
    return result


def unpack(rows: NDArray[np.uint8], options: int, size: int) -> tuple[Rows, NDArray[np.bool_]]:
    """Returns the inverse of ``pack``, and True for rows that are subsets of this size; other rows are meaningless."""
    result = np.zeros((len(rows), size), dtype=number_type(options))
    good = np.empty(len(rows), dtype=np.bool_)
    batch = max(1, WORKING_CELLS // encoded_bits(options, size))
    for start in range(0, len(rows), batch):
        part = slice(start, start + batch)
        result[part], good[part] = _rows_of(rows[part], options, size)
    return result, good


def _width(options: int) -> int:
    return max(1, (options - 1).bit_length())


def _bits_of(rows: Rows, options: int, bits: int) -> NDArray[np.uint8]:
    if bits == options:
        marks = np.zeros((len(rows), options), dtype=np.uint8)
        np.put_along_axis(marks, rows.astype(np.int64), 1, axis=1)
        return marks
    shifts = np.arange(_width(options) - 1, -1, -1)
    return (rows[:, :, None].astype(np.int64) >> shifts & 1).astype(np.uint8).reshape(len(rows), bits)


def _rows_of(wire: NDArray[np.uint8], options: int, size: int) -> tuple[Rows, NDArray[np.bool_]]:
    bits = encoded_bits(options, size)
    cells = np.unpackbits(wire, axis=1).view(np.bool_)
    good = ~cells[:, bits:].any(axis=1)
    cells = cells[:, :bits]
    if bits == options:
        good &= np.count_nonzero(cells, axis=1) == size
        rows = np.zeros((len(cells), size), dtype=np.int64)
        starts = np.arange(int(good.sum())) * options
        rows[good] = np.flatnonzero(cells if good.all() else cells[good]).reshape(-1, size) - starts[:, None]
        return rows, np.asarray(good)
    places = 1 << np.arange(_width(options) - 1, -1, -1)
    rows = np.asarray(cells.reshape(len(wire), size, -1) @ places)
    good &= (rows < options).all(axis=1) & (rows[:, 1:] > rows[:, :-1]).all(axis=1)
    return rows, np.asarray(good)
