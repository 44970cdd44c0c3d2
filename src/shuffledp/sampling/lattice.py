"""Real numbers as whole numbers with exact noise, so that the law of the result hardly depends on the last digits."""

from __future__ import annotations

import numpy as np

from shuffledp.array import Floats, Integers
from shuffledp.sampling.random import RandomSource

SHIFTER = 1.5 * 2.0**52
"""Adding this to a float below 2^51 leaves the nearest whole number in its last bits."""
NOISE_BITS = 16
MISSING = 127
NOISE_VARIANCE = 4.0
"""2λ/(1−λ)² at λ = ½."""
ROUNDING_VARIANCE = 1 / 6
"""The mean of f(1−f) over a fraction f that is uniform."""


def _noise_table() -> np.ndarray:
    """The difference of the trailing zeros of both bytes of a 16-bit word; MISSING where a byte is 0."""
    byte = np.arange(256)
    zeros = np.bitwise_count((byte & -byte) - 1)
    difference = zeros[:, None].astype(np.int8) - zeros[None, :].astype(np.int8)
    difference[0, :] = difference[:, 0] = MISSING
    return np.asarray(difference.reshape(-1))


NOISE = _noise_table()


def noisy_rounding(numbers: Floats, source: RandomSource, bits: int) -> Integers:
    """Each number, below 2^bits in size, to one of the two whole numbers beside it, plus two-sided geometric noise.

    The number is first rounded to a multiple of 2^-(51−bits); from there on all is exact. The rounding has the number
    as its mean; the noise z has the probability 2^-|z|/3. Moving a number by m changes the probability of any result
    by a factor of at most e^m: the result's law is linear in the fraction, with slope at most its own value, since
    neighbouring probabilities of the noise differ by a factor of 2.
    """
    places = 51 - bits
    fixed = numbers * 2.0**places
    fixed += SHIFTER
    result = fixed.view(np.int64)
    result -= np.float64(SHIFTER).view(np.int64)
    words = source.words(numbers.size).reshape(numbers.shape)
    result += (words & np.uint64((1 << places) - 1)).view(np.int64)
    result >>= places
    noise = NOISE[words >> np.uint64(64 - NOISE_BITS)]
    result += noise
    missing = np.nonzero(noise == MISSING)
    if missing[0].size:
        pattern = (words[missing] >> np.uint64(64 - NOISE_BITS)).astype(np.int64)
        result[missing] += _geometric(pattern >> 8, source) - _geometric(pattern & 255, source) - MISSING
    return result


def _geometric(byte: Integers, source: RandomSource) -> Integers:
    """Trailing zeros of an endless row of random bits that begins with this byte."""
    count = np.zeros(len(byte), dtype=np.int64)
    byte = byte.copy()
    while (empty := np.flatnonzero(byte == 0)).size:
        count[empty] += 8
        byte[empty] = (source.words(empty.size) & np.uint64(255)).astype(np.int64)
    return np.asarray(count + np.bitwise_count((byte & -byte) - 1))
