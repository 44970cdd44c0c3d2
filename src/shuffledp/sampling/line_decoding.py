"""For every j, how many lines (slope, offset) modulo a prime P have offset + j·slope among 0 … arc−1: exactly.

Lines are counted, the counts of each slope are summed over circular windows of width arc, and option j reads, for each
slope, the window that starts at −j·slope: n + P² + P·d steps instead of n·d.
"""

from __future__ import annotations

import numpy as np

from shuffledp.array import Array, Integers
from shuffledp.sampling import asked_support
from shuffledp.sampling.linear_hash import LinearHash

MOST_CELLS = 1 << 24
"""Counts held at a time: 128 MiB."""
CELLS_AT_ONCE = 1 << 14
"""Few enough for all working arrays to stay in the processor's cache."""


def supports_of_counts(counts: Array, prime: int, arc: int, options: int) -> Integers:
    """From the number of each line slope·P + offset."""
    table = np.asarray(counts, dtype=np.int64).reshape(prime, prime)
    numbers, result = np.arange(options), np.zeros(options, dtype=np.int64)
    rows = max(1, CELLS_AT_ONCE // prime)
    for first in range(0, prime, rows):
        windows = _window_sums(table[first : first + rows], arc)
        slopes = np.arange(first, first + len(windows))[:, None]
        starts = (prime - slopes) * numbers
        # Division by one number is fast, the remainder is not.
        starts -= starts // prime * prime
        starts += (slopes - first) * prime
        result += windows.reshape(-1).take(starts).sum(axis=0)
    return result


def _window_sums(rows: Integers, arc: int) -> Integers:
    """For each row and place, the sum of the ``arc`` entries from there on, around the circle."""
    length = rows.shape[1]
    sums = np.zeros((len(rows), length + arc + 1), dtype=np.int64)
    np.cumsum(rows, axis=1, out=sums[:, 1 : length + 1])
    np.add(sums[:, 1 : arc + 1], sums[:, length, None], out=sums[:, length + 1 :])
    return np.ascontiguousarray(sums[:, arc : arc + length] - sums[:, :length])


def supports_of_lines(lines: Array, prime: int, arc: int, options: int) -> Integers:
    """From the lines themselves, one after another, where there are too many different ones to count them."""
    slopes, offsets = np.divmod(np.asarray(lines, dtype=np.int64), prime)
    return LinearHash(prime, options).support((prime - slopes)[:, None] % prime, offsets, arc)


def supports_of_some(lines: Array, prime: int, arc: int, options: Integers) -> Integers:
    """The same for these options only."""
    slopes, offsets = np.divmod(np.asarray(lines, dtype=np.int64), prime)
    # The line is below the arc where offset − (P − slope)·j is.
    return asked_support.supports((prime - slopes)[:, None] % prime, offsets, options[:, None], prime, arc)
