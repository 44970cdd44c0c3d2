"""The points of a projective space over a prime field, by number, and how many messages are orthogonal to each.

A point is a vector of t numbers modulo q whose first non-zero one is 1. The points whose first non-zero coordinate is
number j form chart j: (0, …, 0, 1, x) for every x of t−1−j numbers. Points are numbered chart by chart, and in a chart
by x as a number in base q.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shuffledp.array import Array, Integers
from shuffledp.sampling import asked_support

MESSAGES_AT_ONCE = 1 << 18
LARGEST_TABLE = 1 << 18
"""Of inverses."""
MOST_MESSAGES_TO_ROUND = 1 << 40
"""Sums of fewer counts come out of a Fourier transform within 1/4 of the whole number that they are.

Every transformed value is at most n, with an error of at most n·c·log2(points)·2^-53 for a small constant c.
"""


@dataclass(frozen=True)
class ProjectiveSpace:
    """All points, for q prime and t ≥ 1 coordinates."""

    base: int
    """q."""
    coordinates: int
    """t."""

    @property
    def size(self) -> int:
        """How many points there are: (q^t − 1)/(q − 1)."""
        return points(self.base, self.coordinates)

    @cached_property
    def _first(self) -> Integers:
        """The number of the first point of each chart."""
        sizes = [self.base ** (self.coordinates - 1 - chart) for chart in range(self.coordinates)]
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    @cached_property
    def _table(self) -> Integers:
        return self._powers(np.arange(self.base))

    def _inverse(self, numbers: Integers) -> Integers:
        """1/a modulo q, and 0 for 0: looked up where there are few numbers."""
        return self._table[numbers] if self.base <= LARGEST_TABLE else self._powers(numbers)

    def _powers(self, numbers: Integers) -> Integers:
        """1/a = a^{q−2} modulo q for a = 1 … q−1, and 0 for 0."""
        power, result = np.array(numbers), np.minimum(numbers, 1)
        for bit in reversed(bin(self.base - 2)[2:]):
            if bit == "1":
                result = result * power % self.base
            power = power * power % self.base
        return result

    def vectors(self, numbers: Array) -> Integers:
        """The points with these numbers, one row each."""
        chart = np.searchsorted(self._first, numbers, side="right") - 1
        rest = numbers - self._first[chart]
        rows = np.empty((len(numbers), self.coordinates), dtype=np.int64)
        for place in range(self.coordinates - 1, -1, -1):
            higher = rest // self.base
            rows[:, place] = rest - higher * self.base
            rest = higher
        rows[np.arange(len(numbers)), chart] = 1
        return rows

    def numbers(self, rows: Array) -> tuple[Integers, Integers]:
        """The point on each row's line, and the row's first non-zero coordinate; −1 and 0 for a row of zeros."""
        scale = np.zeros(len(rows), dtype=np.int64)
        chart = np.full(len(rows), self.coordinates, dtype=np.int64)
        for place in range(self.coordinates - 1, -1, -1):
            here = rows[:, place] != 0
            np.copyto(scale, rows[:, place], where=here)
            chart[here] = place
        inverse, number = self._inverse(scale), np.zeros(len(rows), dtype=np.int64)
        for place in range(self.coordinates):
            digit = rows[:, place] * inverse
            digit -= digit // self.base * self.base
            # The leading 1 itself is no digit of x.
            digit[chart == place] = 0
            number *= self.base
            number += digit
        number += self._first[chart]
        number[scale == 0] = -1
        return number, scale

    def orthogonal(self, first: Array, second: Array) -> NDArray[np.bool_]:
        """Whether the points beside each other have inner product 0."""
        return np.asarray((self.vectors(first) * self.vectors(second)).sum(axis=1) % self.base == 0)

    def orthogonal_to(self, messages: Array, options: Integers) -> Integers:
        """How many messages are orthogonal to each of these points, one pair after the other."""
        codes, total = self.vectors(options), np.zeros(len(options), dtype=np.int64)
        for start in range(0, len(messages), MESSAGES_AT_ONCE):
            rows = self.vectors(np.asarray(messages[start : start + MESSAGES_AT_ONCE], dtype=np.int64))
            total += asked_support.supports(rows, np.zeros(len(rows), dtype=np.int64), codes, self.base)
        return total

    def orthogonal_counts(self, counts: Array, options: int) -> Integers:
        """For each of the first points, how many messages are orthogonal to it, from the number of each message.

        Chart by chart: a message (0, …, 0, 1, x) is orthogonal to v if ⟨x, w⟩ = −v_j, w the coordinates of v after the
        j-th. The counts over x are summed over the lines ⟨x, w'⟩ = a for every point w' of the smaller space and every
        a: a Fourier transform over x, read along the multiples of w' and transformed back. w = λw' asks for a = −v_j/λ.
        """
        if int(counts.sum()) >= MOST_MESSAGES_TO_ROUND:
            raise ValueError("ProjectiveGeometry: expected fewer than 2^40 messages to decode at once.")
        result = np.zeros(options, dtype=np.int64)
        targets = self.vectors(np.arange(options))
        for chart in range(self.coordinates):
            part = counts[self._first[chart] : self._first[chart + 1]]
            own, later = targets[:, chart], targets[:, chart + 1 :]
            nothing_later = ~later.any(axis=1)
            result[nothing_later & (own == 0)] += part.sum()
            if later.shape[1] and part.any():
                smaller = ProjectiveSpace(self.base, later.shape[1])
                point, scale = smaller.numbers(later)
                value = -own * self._inverse(scale) % self.base
                result += np.where(nothing_later, 0, smaller._line_sums(part)[point, value])
        return result

    def _line_sums(self, counts: Array) -> Integers:
        """Sums of counts over ⟨x, w⟩ = a, by the point w and the number a; counts are by x as a number in base q."""
        from scipy import fft

        q, t = self.base, self.coordinates
        if t == 1:
            return np.asarray(counts, dtype=np.int64).reshape(1, q)
        spectrum = fft.fftn(counts.reshape((q,) * t).astype(np.float64)).reshape(-1)
        points, places = self.vectors(np.arange(self.size)), q ** np.arange(t - 1, -1, -1)
        along = np.zeros((self.size, q), dtype=np.int64)
        for coordinate in range(t):
            along += points[:, coordinate, None] * np.arange(q) % q * places[coordinate]
        return np.asarray(np.rint(fft.ifft(spectrum[along], axis=1).real), dtype=np.int64)


def points(base: int, coordinates: int) -> int:
    """(q^t − 1)/(q − 1): how many points there are."""
    return int((base**coordinates - 1) // (base - 1))
