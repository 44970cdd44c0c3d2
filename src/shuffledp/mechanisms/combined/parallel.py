"""Several queries to the same users, of which each user answers one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from shuffledp.array import Array, Floats
from shuffledp.mechanisms.ability import AnswersQueries
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.frequency.krr import KRR
from shuffledp.mechanisms.frequency.oue import OUE
from shuffledp.mechanisms.mean.laplace import Laplace
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.branch import MixtureLaw, shares_of
from shuffledp.mechanisms.parts.query import Query, QueryColumn
from shuffledp.mechanisms.parts.query_reference import QuerySetReference
from shuffledp.mechanisms.parts.query_set import QuerySetReading, QuerySetValues, QuerySetWire
from shuffledp.mechanisms.parts.reference import exact_references
from shuffledp.sampling.random import RandomSource, SystemSource

MOST_QUERIES = 256
MOST_INPUTS_OF_A_TABLE = 256


@dataclass(frozen=True)
class Parallel(Mechanism, AnswersQueries):
    """Each user draws one of several queries and answers it with its own mechanism at full local ε.

    ``mechanisms`` answer one query each; ``weights`` (uniform by default) are taken relative to their sum, as exact
    fractions, or rounded to multiples of 2^-62 where those are too long; a query is drawn by an exactly uniform whole
    number. The message is the query's number and the mechanism's message, padded to one length.

    Values: one column for each query, each as its mechanism takes it. From Python a sequence of columns; in canonical
    form one row of numbers per user.

    The estimate puts the queries' estimates in one row (``queries`` takes them apart). A query that is drawn with
    probability π counts 1/π times, so sums and means over all users are unbiased whoever answers.

    Privacy: the law of G in (★) is the mixture of the queries' laws, whatever the user's other answers are.

    Theorem: [VR] Theorem 6.1, corrected: p = q = max e^ε_k, β̄ = Σ π_k·β_k in the sound reduction.
    Deviates: the reduction of [VR] Theorem 4.2 that the print uses is not an upper bound (docs/errata.md, VR-1).

    >>> import shuffledp as sdp
    >>> mechanism = sdp.Parallel([sdp.KRR(1.0, options=4), sdp.Piecewise(1.0)], weights=[1, 3])
    >>> [str(share) for share in mechanism.shares]
    ['1/4', '3/4']
    >>> mechanism.check([[3, 0], [0.5, -0.25]]).tolist()
    [[3.0, 0.5], [0.0, -0.25]]
    >>> f"{sdp.amplify(mechanism, users=10_000).epsilon(delta=1e-6).upper:.4f}"
    '0.0384'
    """

    mechanisms: Sequence[Mechanism]
    weights: Sequence[Any] | None = None
    epsilon: float = field(init=False)

    name = "parallel"
    task = "several queries"
    summary = "one of several queries, drawn at random, by its own mechanism"
    take_it = "For several questions, of which each user answers one."
    also_called = ("several-queries",)
    built_from_numbers = False
    built_from_mechanisms = True
    tuning = ()

    def __post_init__(self) -> None:
        if not isinstance(self.mechanisms, Sequence) or not 1 <= len(self.mechanisms) <= MOST_QUERIES:
            raise ValueError(f"Parallel: expected 1 to {MOST_QUERIES} mechanisms in a list, got {self.mechanisms!r}.")
        for mechanism in self.mechanisms:
            if not isinstance(mechanism, Mechanism):
                raise TypeError(f"Parallel: expected mechanisms such as KRR(1.0, 16), got {mechanism!r}.")
            if mechanism.messages_per_user != 1:
                # Who is drawn adds noise, and dummies of the others' queries hide nobody: composition is never worse.
                raise ValueError(
                    f"Parallel: every mechanism must send one message a user, got {mechanism!r}; where several are "
                    f"sent, AllAnswered has less error."
                )
            if not math.isfinite(getattr(mechanism, "epsilon", math.inf)):
                raise ValueError(f"Parallel: every mechanism needs a finite local epsilon, got {mechanism!r}.")
        object.__setattr__(self, "mechanisms", tuple(self.mechanisms))
        object.__setattr__(self, "weights", shares_of("Parallel", self.weights, len(self.mechanisms)))
        object.__setattr__(self, "epsilon", max(mechanism.epsilon for mechanism in self.mechanisms))

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """The probability of each query."""
        assert self.weights is not None
        return tuple(self.weights)

    @property
    def has_table(self) -> bool:  # type: ignore[override]
        return all(mechanism.has_table for mechanism in self.mechanisms)

    # --- its parts --------------------------------------------------------------------------------------------

    @cached_property
    def values(self) -> QuerySetValues:
        return QuerySetValues("Parallel", tuple(QueryColumn("Parallel", one.values) for one in self.mechanisms))

    @cached_property
    def law(self) -> MixtureLaw:
        return MixtureLaw(tuple(one.law for one in self.mechanisms), self.shares)

    @cached_property
    def wire(self) -> QuerySetWire:
        return QuerySetWire("Parallel", tuple(one.wire for one in self.mechanisms))

    @cached_property
    def reading(self) -> QuerySetReading:
        queries = map(_query, self.values.queries, self.mechanisms, self.shares)
        return QuerySetReading(self.values, self.wire, tuple(queries))

    @cached_property
    def reference(self) -> QuerySetReference | None:
        """The mixture of the queries' reference laws, where each has one that bounds every ratio."""
        known = exact_references([one.reference for one in self.mechanisms])
        return None if known is None else QuerySetReference(self.values, self.wire, known, self.shares)

    def queries(self, estimate: Estimate) -> list[Estimate]:
        return self.reading.apart(estimate)

    def query_variance(self, number: int, values: Array) -> Floats:
        return self.reading.queries[number].variance(values)

    @property
    def assumption(self) -> str:
        """What the mechanisms' guarantees rest on besides mathematics; empty where there is nothing."""
        known = (one.assumption for one in self.mechanisms)
        return " ".join(dict.fromkeys(sentence for sentence in known if sentence))

    # --- running it -------------------------------------------------------------------------------------------

    def randomize(self, values: Array, source: RandomSource) -> Array:
        drawn = self._draw(len(values), source)
        messages = np.zeros((len(values), self.wire.bytes), dtype=np.uint8)
        for number, (mechanism, column) in enumerate(zip(self.mechanisms, self.values.columns(values), strict=True)):
            own = np.flatnonzero(drawn == number)
            if own.size:
                self.wire.put(messages, number, own, mechanism.randomize(column[own], source))
        return messages

    def _draw(self, users: int, source: RandomSource) -> Array:
        whole = math.lcm(*(share.denominator for share in self.shares))
        ends = np.cumsum([int(share * whole) for share in self.shares])
        return np.searchsorted(ends, source.below(whole, users), side="right")

    # --- for tests and the catalogue --------------------------------------------------------------------------

    def table(self) -> OutputTable:
        tables = [mechanism.table() for mechanism in self.mechanisms]
        inputs = math.prod(len(table.inputs) for table in tables)
        if inputs > MOST_INPUTS_OF_A_TABLE:
            raise ValueError(f"Parallel: a table needs at most {MOST_INPUTS_OF_A_TABLE} inputs, got {inputs}.")
        chosen = list(product(*(range(len(table.inputs)) for table in tables)))
        columns = [table.inputs[[row[k] for row in chosen]] for k, table in enumerate(tables)]
        rows = tuple(tuple(self._row(tables, row)) for row in chosen)
        return OutputTable(self.check(columns), self._every_message(tables), rows)

    def _row(self, tables: list[OutputTable], row: tuple[int, ...]) -> Iterator[Fraction]:
        for table, share, number in zip(tables, self.shares, row, strict=True):
            yield from (share * chance for chance in table.probabilities[number])

    def _every_message(self, tables: list[OutputTable]) -> Array:
        parts = []
        for number, table in enumerate(tables):
            rows = np.zeros((len(table.messages), self.wire.bytes), dtype=np.uint8)
            self.wire.put(rows, number, slice(None), table.messages)
            parts.append(rows)
        return np.concatenate(parts)

    @classmethod
    def examples(cls) -> Sequence[Parallel]:
        return [
            cls([KRR(1.0, 3), KRR(1.0, 2)]),
            cls([OUE(1.0, 2), KRR(0.5, 2)], [1, 3]),
            cls([KRR(2.0, 2), Laplace(1.0, grid=1)], [0.7, 0.3]),
        ]


def _query(column: QueryColumn, mechanism: Mechanism, share: Fraction) -> Query:
    """One query; the shape of its statistic is found out by running it once."""
    statistic = np.asarray(mechanism.accumulate(mechanism.randomize(column.probe, SystemSource())))
    return Query(column, mechanism.reading, share, statistic.shape, statistic.dtype.str)
