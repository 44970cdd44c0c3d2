"""Rows of digits in one base: drawn uniformly, and as rows of bytes in as few bits as they need together."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.array import Bytes
from shuffledp.sampling.random import RandomSource

Digits = NDArray[Any]

LIMB_BITS = 32
LIMB_MASK = np.uint64((1 << LIMB_BITS) - 1)
LARGEST_BASE = 1 << 31
"""A limb times a base, plus a carry, stays below 2^64."""

LARGEST_DRAW = 1 << 56
"""Of numbers drawn below this, fewer than 1 in 256 words are refused."""


def number_type(base: int) -> np.dtype[Any]:
    """The smallest type of digits in this base."""
    return np.min_scalar_type(base - 1)


def wire_bits(base: int, count: int) -> int:
    """Bits that ``count`` digits need together."""
    return int(base**count - 1).bit_length()


def draw(source: RandomSource, base: int, rows: int, count: int) -> NDArray[np.int64]:
    """Rows of independent digits, exactly uniform; several digits from one random word."""
    result = np.empty((rows, count), dtype=np.int64)
    for start, stop in _groups(base, count, LARGEST_DRAW):
        number = source.below(base ** (stop - start), rows)
        for place in range(start, stop - 1):
            higher = number // base
            result[:, place] = number - higher * base
            number = higher
        result[:, stop - 1] = number
    return result


def pack(digits: Digits, base: int) -> Bytes:
    """Each row as one big-endian number, the first digit the most significant, so that sorting bytes sorts rows."""
    rows, count = digits.shape
    width = -(-wire_bits(base, count) // 8)
    limbs = np.zeros((-(-8 * width // LIMB_BITS), rows), dtype=np.uint64)
    for start, stop in _groups(base, count):
        carry = _joined(digits[:, start:stop], base)
        factor = np.uint64(base ** (stop - start))
        for limb in limbs:
            limb *= factor
            limb += carry
            carry = limb >> np.uint64(LIMB_BITS)
            limb &= LIMB_MASK
    wide = np.ascontiguousarray(limbs[::-1].T.astype(">u4")).view(np.uint8)
    return np.ascontiguousarray(wide[:, wide.shape[1] - width :])


def unpack(array: Bytes, base: int, count: int) -> tuple[Digits, NDArray[np.bool_]]:
    """The inverse of ``pack``, and which rows are not too large a number."""
    width = array.shape[1]
    wide = np.zeros((len(array), -(-8 * width // LIMB_BITS) * 4), dtype=np.uint8)
    wide[:, wide.shape[1] - width :] = array
    limbs = np.ascontiguousarray(wide.view(">u4").T).astype(np.uint64)
    digits = np.empty((len(array), count), dtype=number_type(base))
    for start, stop in reversed(_groups(base, count)):
        divisor = np.uint64(base ** (stop - start))
        rest = np.zeros(len(array), dtype=np.uint64)
        for limb in limbs:
            limb |= rest << np.uint64(LIMB_BITS)
            quotient = limb // divisor
            rest = limb - quotient * divisor
            limb[:] = quotient
        for place in range(stop - 1, start - 1, -1):
            higher = rest // np.uint64(base)
            digits[:, place] = rest - higher * np.uint64(base)
            rest = higher
    return digits, np.asarray(~limbs.any(axis=0))


def _groups(base: int, count: int, largest: int = LARGEST_BASE) -> list[tuple[int, int]]:
    """Runs of digits whose joint number stays within the largest base."""
    together = 1
    while base ** (together + 1) <= largest:
        together += 1
    return [(start, min(start + together, count)) for start in range(0, count, together)]


def _joined(digits: Digits, base: int) -> NDArray[np.uint64]:
    number = np.zeros(len(digits), dtype=np.uint64)
    for column in digits.T:
        number *= np.uint64(base)
        number += column.astype(np.uint64)
    return number
