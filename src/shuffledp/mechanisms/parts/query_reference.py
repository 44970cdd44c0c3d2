"""The reference law of several queries of which each user answers one: the mixture of the queries' reference laws."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from shuffledp.array import Array, Floats, Integers, Words
from shuffledp.mechanisms.parts.query_set import QuerySetValues, QuerySetWire
from shuffledp.mechanisms.parts.reference import WORDS_OF_AN_INTEGER, Reference, integers_below
from shuffledp.mechanisms.parts.weighted_reference import WEIGHT_BITS
from shuffledp.numerics.ball import above
from shuffledp.sampling.random import RandomSource, SystemSource

MULTIPLIED = Fraction(1, 1 << 51)
"""The relative error of one more float in a product."""


@dataclass(frozen=True)
class QuerySetReference(Reference):
    """A query drawn by whole weights, then a message of its own reference law.

    Query k, which users answer with probability π_k, has a weight in proportion to π_k·C_k, C_k the largest ratio of
    its own: the largest ratio of all is then Σ π_k·C_k, the least that any weights have, but for rounding.
    """

    values: QuerySetValues
    wire: QuerySetWire
    references: tuple[Reference, ...]
    shares: tuple[Fraction, ...]

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """Of the queries."""
        wanted = [share * Fraction(one.ratio) for share, one in zip(self.shares, self.references, strict=True)]
        return tuple(max(1, int(part / sum(wanted) * (1 << WEIGHT_BITS))) for part in wanted)

    @cached_property
    def _ratios(self) -> tuple[Fraction, ...]:
        """By how much users answer each query more often than the reference law names it."""
        whole = sum(self.weights)
        return tuple(share * whole / weight for share, weight in zip(self.shares, self.weights, strict=True))

    @cached_property
    def ratio(self) -> float:
        return above(max(more * Fraction(one.ratio) for more, one in zip(self._ratios, self.references, strict=True)))

    @cached_property
    def least_ratio(self) -> Fraction:
        return min(more * one.least_ratio for more, one in zip(self._ratios, self.references, strict=True))

    @property
    def words(self) -> int:
        return WORDS_OF_AN_INTEGER + max(one.words for one in self.references)

    def messages(self, words: Words) -> Array:
        numbers = self._ends.searchsorted(integers_below(int(self._ends[-1]), words), side="right")
        rows = np.zeros((len(words), self.wire.bytes), dtype=np.uint8)
        for number, one in enumerate(self.references):
            here = np.flatnonzero(numbers == number)
            if here.size:
                own = words[here, WORDS_OF_AN_INTEGER : WORDS_OF_AN_INTEGER + one.words]
                self.wire.put(rows, number, here, one.messages(np.ascontiguousarray(own)))
        return rows

    @cached_property
    def _ends(self) -> Integers:
        return np.cumsum(np.array(self.weights))

    def drawn(self, values: Array, source: RandomSource) -> Array:
        """One row of numbers per user, as values are."""
        columns = self.values.columns(values)
        parts = [one.drawn(column, source) for one, column in zip(self.references, columns, strict=True)]
        return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)

    @cached_property
    def _forms(self) -> tuple[tuple[tuple[int, ...], str], ...]:
        """Shape and type of each query's drawn values, found out by drawing once."""
        probes = [query.probe for query in self.values.queries]
        drawn = [one.drawn(probe, SystemSource()) for one, probe in zip(self.references, probes, strict=True)]
        return tuple((part.shape[1:], part.dtype.str) for part in drawn)

    def acceptance(self, values: Array, messages: Array) -> Floats:
        chances = np.empty(len(messages))
        start = 0
        for number, (shape, kind) in enumerate(self._forms):
            stop = start + int(np.prod(shape, dtype=np.int64))
            here = np.flatnonzero(messages[:, 0] == number)
            if here.size:
                own = values[here, start:stop].reshape(len(here), *shape).astype(kind)
                found = self.references[number].acceptance(own, self.wire.messages(number, messages[here]))
                chances[here] = found * self._scales[number]
            start = stop
        return np.minimum(chances, 1.0)

    @cached_property
    def _scales(self) -> tuple[float, ...]:
        """Each query's largest ratio over that of all."""
        pairs = zip(self._ratios, self.references, strict=True)
        return tuple(float(more * Fraction(one.ratio) / Fraction(self.ratio)) for more, one in pairs)

    @property
    def acceptance_error(self) -> float:
        return max(one.acceptance_error for one in self.references)

    @property
    def rounding(self) -> Fraction:
        return max(one.rounding for one in self.references) + MULTIPLIED
