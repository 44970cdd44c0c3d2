"""Exact, unbiased randomized rounding of real values to a grid, rounding with noise, and rows of digits as bytes.

A value is first rounded to whole units, a tiny share of its range: a fixed function of the value, so that privacy does
not depend on it. From there on everything is exact: the coins are fair bits compared with whole numbers.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp._core import validation
from shuffledp._core.validation import Bytes, Floats, Integers
from shuffledp.sampling.random_sources import RandomSource

# --- Rows of digits in one base ---


Digits = NDArray[Any]

LIMB_BITS = 32
LIMB_MASK = np.uint64((1 << LIMB_BITS) - 1)
MAX_BASE = 1 << 31
"""A limb times a base, plus a carry, stays below 2^64."""

MAX_DRAW = 1 << 56
"""Numbers are drawn below this, so that fewer than 1 in 256 words are rejected."""


def number_type(base: int) -> np.dtype[Any]:
    """Returns the smallest type of digits in this base."""
    return np.min_scalar_type(base - 1)


def encoded_bits(base: int, count: int) -> int:
    """Returns the number of bits that ``count`` digits need together."""
    return int(base**count - 1).bit_length()


def draw(source: RandomSource, base: int, rows: int, count: int) -> NDArray[np.int64]:
    """Returns rows of independent digits, exactly uniform; several digits come from one random word."""
    result = np.empty((rows, count), dtype=np.int64)
    for start, stop in _group_digits(base, count, MAX_DRAW):
        number = source.integers_below(base ** (stop - start), rows)
        for place in range(start, stop - 1):
            higher = number // base
            result[:, place] = number - higher * base
            number = higher
        result[:, stop - 1] = number
    return result


def pack(digits: Digits, base: int) -> Bytes:
    """Returns each row as one big-endian number, the first digit the most significant: sorting bytes sorts rows."""
    rows, count = digits.shape
    width = -(-encoded_bits(base, count) // 8)
    limbs = np.zeros((-(-8 * width // LIMB_BITS), rows), dtype=np.uint64)
    for start, stop in _group_digits(base, count):
        carry = _join_digits(digits[:, start:stop], base)
        factor = np.uint64(base ** (stop - start))
        for limb in limbs:
            limb *= factor
            limb += carry
            carry = limb >> np.uint64(LIMB_BITS)
            limb &= LIMB_MASK
    wide = np.ascontiguousarray(limbs[::-1].T.astype(">u4")).view(np.uint8)
    return np.ascontiguousarray(wide[:, wide.shape[1] - width :])


def unpack(array: Bytes, base: int, count: int) -> tuple[Digits, NDArray[np.bool_]]:
    """Returns the inverse of ``pack``, and an array that is False for rows whose number is too large."""
    width = array.shape[1]
    wide = np.zeros((len(array), -(-8 * width // LIMB_BITS) * 4), dtype=np.uint8)
    wide[:, wide.shape[1] - width :] = array
    limbs = np.ascontiguousarray(wide.view(">u4").T).astype(np.uint64)
    digits = np.empty((len(array), count), dtype=number_type(base))
    for start, stop in reversed(_group_digits(base, count)):
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


def _group_digits(base: int, count: int, largest: int = MAX_BASE) -> list[tuple[int, int]]:
    """Returns runs of digits whose joint number stays within ``largest``."""
    together = 1
    while base ** (together + 1) <= largest:
        together += 1
    return [(start, min(start + together, count)) for start in range(0, count, together)]


def _join_digits(digits: Digits, base: int) -> NDArray[np.uint64]:
    number = np.zeros(len(digits), dtype=np.uint64)
    for column in digits.T:
        number *= np.uint64(base)
        number += column.astype(np.uint64)
    return number


# --- Noisy rounding: the result's law hardly depends on a value's last digits ---


ROUNDING_SHIFT = 1.5 * 2.0**52
"""Adding this to a float below 2^51 leaves the nearest whole number in its last bits."""
NOISE_BITS = 16
UNDECIDED_NOISE = 127
NOISE_VARIANCE = 4.0
"""2λ/(1−λ)² at λ = ½."""
ROUNDING_VARIANCE = 1 / 6
"""The mean of f(1−f) over a uniform fraction f."""


def _noise_table() -> np.ndarray:
    """Returns the differences of the trailing zeros of a word's two bytes; ``UNDECIDED_NOISE`` where a byte is 0."""
    byte = np.arange(256)
    zeros = np.bitwise_count((byte & -byte) - 1)
    difference = zeros[:, None].astype(np.int8) - zeros[None, :].astype(np.int8)
    difference[0, :] = difference[:, 0] = UNDECIDED_NOISE
    return np.asarray(difference.reshape(-1))


NOISE_TABLE = _noise_table()


def round_with_noise(numbers: Floats, source: RandomSource, bits: int) -> Integers:
    """Rounds each number, below 2^bits in size, randomly to a neighbouring integer and adds two-sided geometric noise.

    The number is first rounded to a multiple of 2^-(51−bits); from there on all is exact. The rounding is unbiased; the
    noise z has probability 2^-|z|/3. Moving a number by m changes the probability of any result by a factor of at most
    e^m: the result's law is linear in the fraction, with slope at most its own value, since neighbouring probabilities
    of the noise differ by a factor of 2.
    """
    places = 51 - bits
    fixed = numbers * 2.0**places
    fixed += ROUNDING_SHIFT
    result = fixed.view(np.int64)
    result -= np.float64(ROUNDING_SHIFT).view(np.int64)
    words = source.words(numbers.size).reshape(numbers.shape)
    result += (words & np.uint64((1 << places) - 1)).view(np.int64)
    result >>= places
    noise = NOISE_TABLE[words >> np.uint64(64 - NOISE_BITS)]
    result += noise
    missing = np.nonzero(noise == UNDECIDED_NOISE)
    if missing[0].size:
        pattern = (words[missing] >> np.uint64(64 - NOISE_BITS)).astype(np.int64)
        result[missing] += _geometric(pattern >> 8, source) - _geometric(pattern & 255, source) - UNDECIDED_NOISE
    return result


def _geometric(byte: Integers, source: RandomSource) -> Integers:
    """Returns the number of trailing zeros of an endless row of random bits that begins with this byte."""
    count = np.zeros(len(byte), dtype=np.int64)
    byte = byte.copy()
    while (empty := np.flatnonzero(byte == 0)).size:
        count[empty] += 8
        byte[empty] = (source.words(empty.size) & np.uint64(255)).astype(np.int64)
    return np.asarray(count + np.bitwise_count((byte & -byte) - 1))


UNIT_BITS = 53
RANGE_UNITS = 1 << UNIT_BITS
"""Number of units in the range."""
FIRST_BITS = 16
LATER_BITS = UNIT_BITS - FIRST_BITS
"""A coin is decided by 16 fair bits; in one case of 2^16 the other 37 are drawn too."""
HALF_BITS = 27
MAX_STEPS = 1 << 16
"""Number of steps of the finest grid."""


def interval_to_units(values: NDArray[np.float64], low: float, high: float) -> Integers:
    """Returns values of [low, high] in units, off by at most 2^-51 of the range, on [0, 1] by at most half a unit."""
    share = (values - low) / (high - low)
    return np.minimum(np.rint(share * RANGE_UNITS), RANGE_UNITS).astype(np.int64)


def max_steps_apart(size: float, low: float, high: float, steps: int) -> int:
    """Returns how many steps apart ``round_to_grid`` can put two values of [low, high] that are at most ``size`` apart.

    Rounding both with the same coin puts them at most ⌈difference in steps⌉ apart, and leaves each one's law unchanged.
    The difference is that of the units, each of which is off by at most 2^-51 of the range.
    """
    share = Fraction(size) / (Fraction(high) - Fraction(low)) + Fraction(1, 1 << (UNIT_BITS - 4))
    return min(steps, math.ceil(share * steps))


def largest_float_within(size: float, low: float, high: float) -> float:
    """Returns the largest float of [low, high] that is at most ``size`` above low, exactly."""
    farthest = min(high, low + size)
    while Fraction(farthest) - Fraction(low) > Fraction(size):
        farthest = math.nextafter(farthest, -math.inf)
    return farthest


def signed_to_units(values: NDArray[np.float64]) -> Integers:
    """Returns values of [−1, 1] in units of 2^-52 above −1, rounded to the nearest."""
    return np.rint(values * (RANGE_UNITS // 2)).astype(np.int64) + RANGE_UNITS // 2


def coins(units: Integers, source: RandomSource) -> NDArray[np.bool_]:
    """Returns independent coins, each True with probability exactly units/2^53."""
    flat = units.reshape(-1)
    first = source.words(-(-flat.size // 4)).view(np.uint16)[: flat.size]
    threshold = (flat >> LATER_BITS).astype(np.int32)
    heads = np.asarray(first < threshold)
    undecided = np.flatnonzero(first == threshold)
    later = source.words(undecided.size) >> np.uint64(64 - LATER_BITS)
    heads[undecided] = later < (flat[undecided] & ((1 << LATER_BITS) - 1)).astype(np.uint64)
    return heads.reshape(units.shape)


def round_to_grid(units: Integers, steps: int, source: RandomSource) -> Integers:
    """Returns a whole number from 0 to steps for each value, with mean exactly units·steps/2^53."""
    whole, left = grid_position(units, steps)
    return np.asarray(whole + coins(left, source))


def grid_position(units: Integers, steps: int) -> tuple[Integers, Integers]:
    """Returns units·steps/2^53 as whole steps and remaining units.

    Computed in halves, 64 bits suffice up to 2^16 steps.
    """
    top, bottom = (units >> HALF_BITS) * steps, (units & ((1 << HALF_BITS) - 1)) * steps
    top += bottom >> HALF_BITS
    bottom &= (1 << HALF_BITS) - 1
    places = UNIT_BITS - HALF_BITS
    return top >> places, (top & ((1 << places) - 1)) << HALF_BITS | bottom


def grid_law(unit: int, steps: int) -> dict[int, Fraction]:
    """Returns the law of ``round_to_grid`` for one value."""
    position = Fraction(unit * steps, RANGE_UNITS)
    below = int(position)
    up = position - below
    return {below: 1 - up, below + 1: up} if up else {below: Fraction(1)}


def check_grid_size(who: str, name: str, grid: object, *, at_least: int) -> int:
    """Returns a grid size for which the rounding is exact; raises ValueError for others."""
    size = validation.count(who, name, grid, at_least=at_least)
    if size > MAX_STEPS:
        raise ValueError(f"{who}: {name} must be at most {MAX_STEPS}, got {size}.")
    return size
