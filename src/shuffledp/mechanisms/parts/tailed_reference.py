"""The reference law of a table in which some input may send what another hardly ever does, or never."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from flint import arb

from shuffledp.array import Array, Integers
from shuffledp.mechanisms.parts.reference import ApproximateReference, log_above
from shuffledp.mechanisms.parts.table_reference import TableReference
from shuffledp.numerics.ball import above, precision, round_down
from shuffledp.numerics.root import find_crossing
from shuffledp.sampling import rounding
from shuffledp.sampling.random import RandomSource

LEFT_OUT = Fraction(1, 10**12)
"""δ beyond what cannot be helped: the less, the larger ε."""
LARGEST_EPSILON = 80.0
BITS = 128


@dataclass(frozen=True)
class TailedReference(TableReference, ApproximateReference):
    """In proportion to the largest entry of each column: no row is above C times it, but some are far below.

    Theorem: [LC] Algorithm 4 with acceptance probabilities that need no cap.
    """

    @property
    def least_ratio(self) -> Fraction:
        return Fraction(0)

    @cached_property
    def deletion_epsilon(self) -> float:
        return max(log_above(Fraction(self.ratio)), self._least_epsilon([self._own], list(self._rows)))

    @cached_property
    def deletion_delta(self) -> float:
        """Of the reference law against every row; the other way round it is 0."""
        return above(_divergence([self._own], list(self._rows), self.deletion_epsilon))

    @cached_property
    def replacement_epsilon(self) -> float:
        rows = list(self._rows)
        return self._least_epsilon(rows, rows)

    @cached_property
    def replacement_delta(self) -> float:
        rows = list(self._rows)
        return above(_divergence(rows, rows, self.replacement_epsilon))

    @cached_property
    def _rows(self) -> tuple[tuple[Fraction, ...], ...]:
        return self.table.fractions()

    @cached_property
    def _own(self) -> tuple[Fraction, ...]:
        return tuple(Fraction(weight, self.total) for weight in self.weights.tolist())

    def _least_epsilon(self, first: list[tuple[Fraction, ...]], second: list[tuple[Fraction, ...]]) -> float:
        """About where δ is all but what is never sent: any ε will do."""
        ones, others = (np.array([[float(p) for p in row] for row in laws]) for laws in (first, second))
        never = max(float(one[other == 0].sum()) for one in ones for other in others)

        def excess(epsilon: float) -> float:
            gaps = np.maximum(ones[:, None] - np.exp(epsilon) * others[None, :], 0.0).sum(axis=2)
            return never + float(LEFT_OUT) - float(gaps.max())

        return find_crossing(excess, 0.0, LARGEST_EPSILON, relative=1e-6).above


@dataclass(frozen=True)
class PointReference(TailedReference):
    """The same where values are numbers of an interval, mixtures of the two rows that are next to them."""

    low: float
    high: float

    def drawn(self, values: Array, source: RandomSource) -> Array:
        units = rounding.units_of_interval(values, self.low, self.high)
        return rounding.to_grid(units, self.table.inputs - 1, source)

    def rows(self, values: Array) -> Integers:
        return values


def _divergence(first: list[tuple[Fraction, ...]], second: list[tuple[Fraction, ...]], epsilon: float) -> Fraction:
    """The largest hockey-stick divergence, from above."""
    with precision(BITS):
        ratio = Fraction(round_down(arb(epsilon).exp()))
    return max(
        sum((max(a - ratio * b, Fraction(0)) for a, b in zip(one, other, strict=True)), Fraction(0))
        for one in first
        for other in second
    )
