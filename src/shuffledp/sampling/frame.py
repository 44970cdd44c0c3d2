"""A public random frame, in which every vector can be written with coefficients that are all small."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shuffledp.array import Floats, Integers

CUTS = (*[0.95] * 20, *[0.999] * 280)
"""Coefficients are cut a little below the limit, so that putting back what was cut may add a little. Most vectors need
three or four rounds; the few that are nearly a column of the frame need the finer cut."""
STRETCH = 1.9
"""A cut goes almost twice as far as needed: such alternating projections still converge, several times faster."""


@dataclass(frozen=True)
class HadamardFrame:
    """U: d rows of the orthonormal Hadamard matrix of size N = 2^⌈log2 2d⌉, rows and columns with signs; UUᵀ = I.

    Which rows and signs is random but public: they follow from ``number`` by SHAKE-256, so that everybody has the
    same. The first d rows would not do: their columns come in equal pairs, and many vectors then have no coefficients
    that are all small. Signs of the rows keep simple vectors, such as a constant one, away from the frame's columns.
    """

    dimension: int
    number: int = 0

    @cached_property
    def size(self) -> int:
        return 1 << (2 * self.dimension - 1).bit_length()

    @cached_property
    def _public(self) -> tuple[Integers, Floats, Floats]:
        """The chosen rows, their signs, and the signs of the columns over √N."""
        text = f"Hadamard frame {self.number} of {self.dimension} rows of {self.size}"
        words = np.frombuffer(hashlib.shake_256(text.encode()).digest(24 * self.size), dtype="<u8")
        keys, row_words, column_words = np.split(words, 3)
        rows = np.sort(np.argsort(keys, kind="stable")[: self.dimension])
        row_signs, column_signs = (
            np.where(part >> np.uint64(63) == 1, -1.0, 1.0) for part in (row_words, column_words)
        )
        return rows, row_signs[: self.dimension], column_signs / np.sqrt(self.size)

    def analyse(self, vectors: Floats) -> Floats:
        """Uᵀx for each row x."""
        rows, row_signs, column_signs = self._public
        spread = np.zeros((len(vectors), self.size))
        spread[:, rows] = vectors * row_signs
        return transform(spread) * column_signs

    def combine(self, coefficients: Floats) -> Floats:
        """Ua for each row a."""
        rows, row_signs, column_signs = self._public
        return np.asarray(transform(coefficients * column_signs)[:, rows] * row_signs)

    def small_coefficients(self, vectors: Floats, limit: float) -> tuple[Floats, NDArray[np.bool_]]:
        """Coefficients a with Ua = x, and whether all of a row are within the limit.

        Cut what is above the limit, put back what the cut took away, spread over all coefficients; again, until all
        are within.
        """
        result = self.analyse(vectors)
        left = np.flatnonzero(np.abs(result).max(axis=1) > limit)
        for share in CUTS:
            if not left.size:
                break
            held = result[left]
            held += STRETCH * (np.clip(held, -share * limit, share * limit) - held)
            result[left] = held + self.analyse(vectors[left] - self.combine(held))
            left = left[np.abs(result[left]).max(axis=1) > limit]
        within = np.ones(len(vectors), dtype=np.bool_)
        within[left] = False
        return result, within


def transform(rows: Floats) -> Floats:
    """Each row times the Hadamard matrix of its length, a power of two, in the natural order.

    Users run along the last axis meanwhile, so that every step adds and subtracts long stretches of memory.
    """
    users, length = rows.shape
    columns = np.array(rows.T, order="C")
    difference = np.empty(length // 2 * users)
    half = 1
    while half < length:
        pairs = columns.reshape(-1, 2, half, users)
        first, second = pairs[:, 0], pairs[:, 1]
        np.subtract(first, second, out=difference.reshape(first.shape))
        first += second
        second[...] = difference.reshape(first.shape)
        half *= 2
    return np.ascontiguousarray(columns.T)
