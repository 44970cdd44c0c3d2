"""A public hash of rows of bytes into buckets: the same everywhere and for ever; no secret, and hiding nothing."""

from __future__ import annotations

import numpy as np

from shuffledp.array import Bytes, Integers, Words

GOLDEN, FIRST, SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
HALF = np.uint64(32)


def buckets(rows: Bytes, salt: int, count: int) -> Integers:
    """A bucket from 0 to count−1, up to 2^32 of them, for each row; another ``salt`` is another hash.

    Zeros behind a row do not count as long as all rows are as wide.
    """
    wide = np.zeros((len(rows), -(-rows.shape[1] // 8) * 8), dtype=np.uint8)
    wide[:, : rows.shape[1]] = rows
    state = _mixed(np.full(len(rows), salt + 1, dtype=np.uint64) * GOLDEN)
    for word in wide.view("<u8").T:
        state = _mixed(state + GOLDEN ^ word.astype(np.uint64))
    return ((state >> HALF) * np.uint64(count) >> HALF).astype(np.int64)


def _mixed(words: Words) -> Words:
    """Every bit of a word depends on all of its bits."""
    words = (words ^ (words >> np.uint64(30))) * FIRST
    words = (words ^ (words >> np.uint64(27))) * SECOND
    return np.asarray(words ^ (words >> np.uint64(31)))
