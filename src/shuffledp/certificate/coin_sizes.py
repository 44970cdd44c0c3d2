"""How many people come where a coin decides for each: cells of sizes, and at most how probable each is.

The number is binomial. Its masses are log-concave, so that within a block of neighbours none is above the one that is
nearest to the mode; beyond the cells they fall at least geometrically.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from flint import arb, fmpq

from shuffledp.numerics.ball import precision

BITS = 256
BLOCKS = 500
"""Blocks in a standard deviation, where that is more people."""
WIDEST, NARROWEST, FINE = 4, 16, 1000
"""Cells in a standard deviation, at the least and at the most, and in the mean."""


@dataclass(frozen=True)
class SizeCell:
    """Sizes from ``least`` to ``most``, and at least the probability of them."""

    least: int
    most: int
    chance: arb


class Coins:
    """The number of people who come out of ``people``, each with probability ``rate``."""

    def __init__(self, people: int, rate: Fraction) -> None:
        self.people, self.rate = people, rate
        self.mean = float(people * rate)
        self.deviation = max(1.0, math.sqrt(self.mean * float(1 - rate)))
        self.mode = min(people, math.floor((people + 1) * rate))
        with precision(BITS):
            self._yes, self._no = (arb(fmpq(p.numerator, p.denominator)).log() for p in (rate, 1 - rate))
            self._all = arb(people + 1).lgamma()

    def mass(self, size: int) -> arb:
        """The probability of a size."""
        with precision(BITS):
            ways = self._all - arb(size + 1).lgamma() - arb(self.people - size + 1).lgamma()
            return (ways + size * self._yes + (self.people - size) * self._no).exp()

    def below(self, size: int) -> arb:
        """At least the probability of fewer: each mass is at most a share of the next, the same or smaller."""
        if size <= 0:
            return arb(0)
        last = size - 1
        share = Fraction(last) * (1 - self.rate) / ((self.people - last + 1) * self.rate)
        return self._tail(last, share)

    def above(self, size: int) -> arb:
        """At least the probability of more."""
        if size >= self.people:
            return arb(0)
        first = size + 1
        share = Fraction(self.people - first) * self.rate / ((first + 1) * (1 - self.rate))
        return self._tail(first, share)

    def _tail(self, end: int, share: Fraction) -> arb:
        if share >= 1:
            return arb(1)
        with precision(BITS):
            return (self.mass(end) / arb(fmpq((1 - share).numerator, (1 - share).denominator))).min(arb(1))

    def most(self, left: float) -> int:
        """A size above which it is at most as probable as this, or everybody."""
        deviations = 1.0
        while True:
            size = min(self.people, math.ceil(self.mean + deviations * self.deviation))
            if size == self.people or self.above(size) <= left:
                return size
            deviations *= 1.25

    def cells(self, starts: Sequence[int], most: int) -> list[SizeCell]:
        """From the first start to ``most``; every start begins a cell."""
        finest = max(self.deviation / NARROWEST, self.mean / FINE)
        width = max(1, math.floor(min(self.deviation / WIDEST, finest)))
        found: list[SizeCell] = []
        for start, end in zip(starts, [*starts[1:], most + 1], strict=True):
            found += [self._cell(low, min(low + width, end) - 1) for low in range(start, end, width)]
        return found

    def _cell(self, least: int, most: int) -> SizeCell:
        width = max(1, math.floor(self.deviation / BLOCKS))
        chance = arb(0)
        with precision(BITS):
            for low in range(least, most + 1, width):
                high = min(low + width - 1, most)
                chance += (high - low + 1) * self.mass(min(max(low, self.mode), high))
        return SizeCell(least, most, chance)
