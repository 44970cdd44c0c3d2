"""Standard normal and exponential numbers from uniform words, with a known distance to the real-number laws.

Box–Muller: the radius is √(2E) with E exponential, the angle uniform. A word stands for a cell of real numbers, and the
float that is computed from it is near to what every real number of the cell gives: the radius to a relative 2^-44, the
direction of a pair to 2^-49, together 2^-43 of the pair's length. Near the ends of its range a uniform number of 52
digits would not do, and more are used: as many as needed (``normals``), or 52 more (``normals_of_words``, where this
fails for a pair with probability 2^-51).

Sine and cosine are Taylor polynomials: faster here than the library's, and their error is known.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from shuffledp.array import Floats, Words
from shuffledp.sampling.random import RandomSource

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
    """Two standard normal numbers from three words each, a row from a row; the same words give the same numbers.

    Turning the highest bit of each of the last third of a row's words turns the signs of all its numbers.
    """
    rows, pairs = len(words), words.shape[1] // 3
    first = words[:, :pairs].reshape(-1)
    exponential, outer = _first_digits(first)
    more = _uniform(words[:, pairs : 2 * pairs].reshape(-1)[outer])
    exponential[outer] = _End(first[outer]).minus_log(more)
    return _pairs(exponential.reshape(rows, pairs), words[:, 2 * pairs :])


def exponentials(source: RandomSource, count: int) -> Floats:
    """Independent exponential numbers of mean 1, each right to a relative 2^-43."""
    words = source.words(count)
    result, outer = _first_digits(words)
    end = _End(words[outer])
    more = _uniform(source.words(outer.size))
    while (empty := end.empty()).size:
        end.take(empty, more)
        more[empty] = _uniform(source.words(empty.size))
    result[outer] = end.minus_log(more)
    return result


def _first_digits(words: Words) -> tuple[Floats, NDArray[np.int64]]:
    """−log of the uniform numbers of 52 digits, and the places where these do not suffice."""
    uniform = _uniform(words)
    outer = np.flatnonzero((uniform < OUTER) | (uniform > 1 - OUTER))
    result: Floats = np.log(uniform, out=uniform)
    np.negative(result, out=result)
    return result, outer


def _uniform(words: Words) -> Floats:
    """The middle of the word's cell in (0, 1), from its first 52 bits; exact."""
    bits = words >> np.uint64(64 - MANTISSA)
    bits |= ONE_BITS
    result = bits.view(np.float64)
    result -= 1 - 2.0**-53
    return result


class _End:
    """Uniform numbers by their distance to the nearer end of (0, 1): (whole + more)·2^-places, ``more`` below 1."""

    def __init__(self, words: Words) -> None:
        digits = words >> np.uint64(64 - MANTISSA)
        self.upper = digits >> np.uint64(MANTISSA - 1) == 1
        self.whole = np.where(self.upper, MANTISSA_MASK - digits, digits).astype(np.float64)
        self.places = np.full(len(words), float(MANTISSA))

    def empty(self) -> NDArray[np.int64]:
        """Where no digit but 0 has been seen."""
        return np.flatnonzero(self.whole == 0)

    def take(self, at: NDArray[np.int64], more: Floats) -> None:
        """The digits of ``more`` become the whole ones."""
        self.whole[at] = np.floor(more[at] * 2.0**MANTISSA)
        self.places[at] += MANTISSA

    def minus_log(self, more: Floats) -> Floats:
        distance = self.whole + more
        low = self.places * math.log(2) - np.log(distance)
        return np.where(self.upper, -np.log1p(-distance * np.exp2(-self.places)), low)


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
