"""What cancelling noise tells of one message, by another way than the engine's: a divergence, from both sides."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from flint import arb, arb_poly, fmpq

from shuffledp.certificate.line import Sides
from shuffledp.certificate.losses import LossCells
from shuffledp.certificate.moved import Counts, moved, negative_binomial, negative_binomial_size, positive_sum

MOST_COUNTS, MOST_TABLE = 1 << 17, 1 << 20


@dataclass(frozen=True)
class FloodedCounts:
    """X + F messages for an option and Y + F against it.

    X and Y are geometric with ratio q = e^−rate, F negative binomial of this shape and ratio, all independent.
    """

    rate: fmpq
    shape: fmpq
    ratio: fmpq
    share: fmpq
    """Of all who were to add noise, those who do; with fewer than all X, Y and F are smaller."""

    def divergence(self, factor: arb, left_out: float) -> Sides | None:
        """The hockey-stick divergence at e^ε = factor ≥ 1 of one option's message for another's.

        Theorem: the smaller of two geometric numbers, geometric with ratio q², is independent of their difference Z,
        P(Z = z) ∝ q^|z| (no memory). So the two counts are W = min(X, Y) + F and Z, independent. A message more for the
        option makes Z one larger, and W too where Z was below 0. With g(w) = P(W = w+1)/P(W = w), where both options
        are told by their own (W, Z), the messages' chances in world 1 are those of world 0 times

            q²/g(w'−1)   with P(w')/(1+q)²        (the first option's Z at least 0, the second's below 1),
            g(w)/q²      with q²·P(w)/(1+q)²      (below 0, and at least 1),
            g(w)/g(w'−1) with q·P(w)P(w')/(1+q)²  (below 0, and below 1),

        and 1 for the rest, which counts for nothing as e^ε ≥ 1. Exchanging the options exchanges the worlds.
        """
        q = (-arb(self.rate)).exp()
        counts = self._smaller_counts(q, left_out)
        if counts is None:
            return None
        both = moved(counts, factor)
        if both is None:
            return None
        masses = counts.masses
        square = q * q
        first = positive_sum(masses[1:], [factor * square * mass for mass in masses[:-1]])
        second = positive_sum(masses[:-1], [factor / square * mass for mass in masses[1:]])
        # Nothing is below the least W; that of the largest one is not in the table.
        edge = masses[0], masses[-1] + counts.outside
        lower = first[0] + edge[0] + square * second[0] + q * both.lower
        upper = first[1] + edge[0] + counts.outside + square * (second[1] + edge[1]) + q * both.upper
        whole = (1 + q) ** 2
        return Sides((lower / whole).lower(), (upper / whole).upper())

    def cells(self, left_out: float) -> tuple[LossCells, LossCells] | None:
        """What a message taken away from an option tells, and one added; independent of each other."""
        if self.share != 1:
            return self._cells_of_fewer(left_out)
        q = (-arb(self.rate)).exp()
        counts = self._smaller_counts(q, left_out)
        if counts is None:
            return None
        masses, whole = counts.masses, 1 + q
        taken = [1 / whole, *(q * mass / whole for mass in masses[:-1])], [q / whole, *(m / whole for m in masses[1:])]
        added = [q / whole, *(mass / whole for mass in masses[1:])], [1 / whole, *(q * m / whole for m in masses[:-1])]
        return LossCells.of(*taken), LossCells.of(*added, masses[0] / whole)

    def _smaller_counts(self, q: arb, left_out: float) -> Counts | None:
        """The law of W, from 0 on, as the product of two power series, exact as far as both are known."""
        floods = negative_binomial_size(float(self.shape), float(self.ratio), left_out)
        size = floods + math.ceil(math.log(left_out) / (-2 * float(self.rate)))
        if size > MOST_COUNTS:
            return None
        flood = negative_binomial(arb(self.shape), arb(self.ratio), size)
        product = arb_poly(flood) * arb_poly(negative_binomial(arb(1), q * q, size))
        masses = [product[place] for place in range(size)]
        if not all(mass > 0 for mass in masses):
            return None
        return Counts(0, masses, (1 - sum(masses, arb(0))).upper().max(arb(0)))

    def _cells_of_fewer(self, left_out: float) -> tuple[LossCells, LossCells] | None:
        """The same where X and Y are negative binomial of shape ``share`` and F of shape share·shape: every two counts.

        With d = |u − v| and m the smaller one, P(u, v) = Σ_f P(F = f)·g(m−f)·g(m−f+d): for each d a product of series.
        """
        rate, shape = float(self.rate), self.share * self.shape
        far = math.ceil(-math.log(left_out) / rate)
        size = negative_binomial_size(float(shape), float(self.ratio), left_out) + far // 2
        if far * size > MOST_TABLE:
            return None
        flood = arb_poly(negative_binomial(arb(shape), arb(self.ratio), size))
        single = negative_binomial(arb(self.share), (-arb(self.rate)).exp(), size + far)
        rows = []
        for distance in range(far + 1):
            products = [one * other for one, other in zip(single[:size], single[distance:], strict=False)]
            row = flood * arb_poly(products)
            rows.append([row[place] for place in range(size)])
        first, second, told = [], [], arb(0)
        for nearer, further in pairwise(rows):
            # The count that gets a message is not the smaller one, or it is.
            first += nearer + further[:-1]
            second += further + nearer[1:]
            told += nearer[0]
        return LossCells.of(first, second), LossCells.of(second, first, told)
