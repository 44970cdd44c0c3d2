"""Standard normal and exponential numbers from uniform words, with a known distance to the real-number laws.

Box–Muller: the radius is √(2E) with E exponential, the angle uniform. A word stands for a cell of real numbers, and the
float that is computed from it is near to what every real number of the cell gives:

- the radius to a relative 2^-44 (``normals``, which draws more words where 52 bits would not do), the direction of a
  pair to 2^-49: together a pair is moved by at most 2^-43 of its length;
- without more words (``normals_of_words``), pairs with a first word in one of the two outermost 2^-44 parts of its
  range excepted, a pair is moved by at most 2^-43 of its length plus 2^-28.

Sine and cosine are Taylor polynomials: faster here than the library's, and their error is known.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from shuffledp.numerics.random import RandomSource, Words

Floats = NDArray[np.float64]

MANTISSA = 52
ONE_BITS = np.uint64(0x3FF << MANTISSA)
MANTISSA_MASK = np.uint64((1 << MANTISSA) - 1)
SIGN = np.uint64(1 << 63)
OUTER = 2.0**-8
"""Uniform numbers this near to 0 or 1 get more digits."""
TERMS = 11
"""(π/2)^22/22! < 2^-55: what is left out of either series is below a float's rounding."""
COSINE = [(-1) ** k * math.pi ** (2 * k) / math.factorial(2 * k) for k in range(TERMS)]
SINE = [(-1) ** k * math.pi ** (2 * k + 1) / math.factorial(2 * k + 1) for k in range(TERMS)]


def normals(source: RandomSource, rows: int, columns: int) -> Floats:
    """Independent standard normal numbers."""
    pairs = -(-columns // 2)
    exponential = exponentials(source, rows * pairs).reshape(rows, pairs)
    return _pairs(exponential, source.words(rows * pairs).reshape(rows, pairs))[:, :columns]


def normals_of_words(words: Words) -> Floats:
    """As many standard normal numbers as words, an even number a row; the same words give the same numbers.

    Turning the highest bit of the second half of a row's words turns the row's sign.
    """
    pairs = words.shape[1] // 2
    return _pairs(-np.log(_uniform(words[:, :pairs])), words[:, pairs:])


def exponentials(source: RandomSource, count: int) -> Floats:
    """Independent exponential numbers of mean 1, each right to a relative 2^-43."""
    words = source.words(count)
    uniform = _uniform(words)
    outer = np.flatnonzero((uniform < OUTER) | (uniform > 1 - OUTER))
    result: Floats = np.log(uniform, out=uniform)
    np.negative(result, out=result)
    result[outer] = _with_more_digits(words[outer] >> np.uint64(64 - MANTISSA), source)
    return result


def _uniform(words: Words) -> Floats:
    """The middle of the word's cell in (0, 1), from its first 52 bits; exact."""
    bits = words >> np.uint64(64 - MANTISSA)
    bits |= ONE_BITS
    result = bits.view(np.float64)
    result -= 1 - 2.0**-53
    return result


def _with_more_digits(digits: Words, source: RandomSource) -> Floats:
    """−log of uniform numbers whose first 52 digits are given and more are drawn: as many as the smaller side needs.

    The distance to the nearer end is (whole + part)·2^-places; digits are added while ``whole`` is 0.
    """
    upper = digits >> np.uint64(MANTISSA - 1) == 1
    whole = np.where(upper, MANTISSA_MASK - digits, digits).astype(np.float64)
    places = np.full(len(digits), float(MANTISSA))
    part = _uniform(source.words(len(digits)))
    while (empty := np.flatnonzero(whole == 0)).size:
        shifted = part[empty] * 2.0**MANTISSA
        whole[empty] = np.floor(shifted)
        places[empty] += MANTISSA
        part[empty] = _uniform(source.words(empty.size))
    near = whole + part
    low = places * math.log(2) - np.log(near)
    return np.where(upper, -np.log1p(-near * np.exp2(-places)), low)


def _pairs(exponential: Floats, words: Words) -> Floats:
    """Both coordinates of each pair, first those by the cosine, then those by the sine."""
    rows, pairs = words.shape
    result = np.empty((rows, 2 * pairs))
    turn = ((words & MANTISSA_MASK) | ONE_BITS).view(np.float64)
    turn -= 1.5
    square = turn * turn
    radius = np.sqrt(2 * exponential)
    # A half turn by the sign of the radius: angles reach from −π/2 to π/2 only.
    radius.view(np.uint64)[...] |= words & SIGN
    cosine, sine = _polynomial(COSINE, square), _polynomial(SINE, square)
    np.multiply(cosine, radius, out=result[:, :pairs])
    sine *= turn
    np.multiply(sine, radius, out=result[:, pairs:])
    return result


def _polynomial(coefficients: list[float], at: Floats) -> Floats:
    """By Horner's rule."""
    value = at * coefficients[-1]
    for coefficient in coefficients[-2:0:-1]:
        value += coefficient
        value *= at
    value += coefficients[0]
    return value
