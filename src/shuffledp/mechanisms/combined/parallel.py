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

from shuffledp.array import Array, Bytes, Floats
from shuffledp.mechanisms.frequency.krr import KRR
from shuffledp.mechanisms.frequency.oue import OUE
from shuffledp.mechanisms.mean.laplace import Laplace
from shuffledp.mechanisms.mechanism import Estimate, Mechanism, OutputTable
from shuffledp.mechanisms.parts.branch import covering_parameters, mixed_pairs, mixtures, shares_of
from shuffledp.mechanisms.parts.query import Query
from shuffledp.numerics.ball import above
from shuffledp.privacy.pair import HidingPair
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling.random import RandomSource

MOST_QUERIES = 256
MOST_INPUTS_OF_A_TABLE = 256


@dataclass(frozen=True)
class Parallel(Mechanism):
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
    """

    mechanisms: Sequence[Mechanism]
    weights: Sequence[Any] | None = None
    epsilon: float = field(init=False)

    name = "parallel"
    task = "several queries"
    summary = "one of several queries, drawn at random, by its own mechanism"
    built_from_numbers = False
    tuning = ()

    def __post_init__(self) -> None:
        if not isinstance(self.mechanisms, Sequence) or not 1 <= len(self.mechanisms) <= MOST_QUERIES:
            raise ValueError(f"Parallel: expected 1 to {MOST_QUERIES} mechanisms in a list, got {self.mechanisms!r}.")
        for mechanism in self.mechanisms:
            if not isinstance(mechanism, Mechanism):
                raise TypeError(f"Parallel: expected mechanisms such as KRR(1.0, 16), got {mechanism!r}.")
            if mechanism.messages_per_user != 1:
                raise ValueError(f"Parallel: every mechanism must send one message a user, got {mechanism!r}.")
            if not math.isfinite(getattr(mechanism, "epsilon", math.inf)):
                raise ValueError(f"Parallel: every mechanism needs a finite local epsilon, got {mechanism!r}.")
        object.__setattr__(self, "mechanisms", tuple(self.mechanisms))
        object.__setattr__(self, "weights", shares_of("Parallel", self.weights, len(self.mechanisms)))
        object.__setattr__(self, "epsilon", max(mechanism.epsilon for mechanism in self.mechanisms))
        covered = all(mechanism.law.covers_mixtures for mechanism in self.mechanisms)
        object.__setattr__(self, "covers_mixtures", covered)
        object.__setattr__(self, "has_table", all(mechanism.has_table for mechanism in self.mechanisms))
        object.__setattr__(self, "tight", covered and all(mechanism.law.tight for mechanism in self.mechanisms))

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """The probability of each query."""
        assert self.weights is not None
        return tuple(self.weights)

    @cached_property
    def _queries(self) -> tuple[Query, ...]:
        return tuple(map(Query, self.mechanisms, self.shares))

    # --- running it -------------------------------------------------------------------------------------------

    def check(self, values: Any) -> Array:
        if isinstance(values, np.ndarray):
            columns = self._columns(self._checked_rows(values))
        elif isinstance(values, tuple | list) and len(values) == len(self.mechanisms):
            columns = list(values)
        else:
            got = f"{len(values)}" if isinstance(values, tuple | list) else type(values).__name__
            raise TypeError(
                f"Parallel: expected a column of values for each of {len(self.mechanisms)} queries, got {got}."
            )
        checked = [
            query.check(number, column)
            for number, (query, column) in enumerate(zip(self._queries, columns, strict=True))
        ]
        lengths = {len(rows) for rows in checked}
        if len(lengths) > 1:
            raise ValueError(f"Parallel: expected columns of one length, got {sorted(lengths)}.")
        return np.concatenate(checked, axis=1)

    def _checked_rows(self, values: Array) -> Array:
        width = sum(query.width for query in self._queries)
        if values.dtype.kind not in "iuf" or values.ndim != 2 or values.shape[1] != width:
            shape = f"{values.dtype} of shape {values.shape}"
            raise ValueError(f"Parallel: expected rows of {width} numbers, or a list of columns, got {shape}.")
        return values

    def _columns(self, rows: Array) -> list[Array]:
        """The values of each query, as its mechanism has them in canonical form."""
        ends = np.cumsum([query.width for query in self._queries])
        return [
            query.values(part) for query, part in zip(self._queries, np.split(rows, ends[:-1], axis=1), strict=True)
        ]

    def randomize(self, values: Array, source: RandomSource) -> Array:
        drawn = self._draw(len(values), source)
        messages = np.zeros((len(values), self.message_bytes), dtype=np.uint8)
        messages[:, 0] = drawn
        for number, (mechanism, column) in enumerate(zip(self.mechanisms, self._columns(values), strict=True)):
            own = np.flatnonzero(drawn == number)
            if own.size:
                wire = mechanism.pack(mechanism.randomize(column[own], source))
                messages[own, 1 : 1 + mechanism.message_bytes] = wire
        return messages

    def _draw(self, users: int, source: RandomSource) -> Array:
        whole = math.lcm(*(share.denominator for share in self.shares))
        ends = np.cumsum([int(share * whole) for share in self.shares])
        return np.searchsorted(ends, source.below(whole, users), side="right")

    @property
    def message_bits(self) -> int:
        return 8 + 8 * max(mechanism.message_bytes for mechanism in self.mechanisms)

    def pack(self, messages: Array) -> Bytes:
        return np.ascontiguousarray(messages, dtype=np.uint8)

    def unpack(self, wire: Bytes) -> Array:
        rows = np.asarray(wire)
        if rows.dtype != np.uint8 or rows.ndim != 2 or rows.shape[1] != self.message_bytes:
            got = f"{rows.dtype} of shape {rows.shape}"
            raise ValueError(f"Parallel: expected rows of {self.message_bytes} bytes, got {got}.")
        if len(rows) and int(rows[:, 0].max()) >= len(self.mechanisms):
            raise ValueError(f"Parallel: expected queries below {len(self.mechanisms)}, got {int(rows[:, 0].max())}.")
        for number, mechanism in enumerate(self.mechanisms):
            own = rows[rows[:, 0] == number]
            if own[:, 1 + mechanism.message_bytes :].any():
                raise ValueError(f"Parallel: expected zeros after a message of query {number}, got others.")
            mechanism.unpack(self._inner(own, mechanism))
        return rows

    @staticmethod
    def _inner(rows: Array, mechanism: Mechanism) -> Bytes:
        return np.ascontiguousarray(rows[:, 1 : 1 + mechanism.message_bytes])

    # --- reading the messages ---------------------------------------------------------------------------------

    def accumulate(self, messages: Array) -> Array:
        """For each query the number of its messages, then its mechanism's own statistic."""
        parts = []
        for number, query in enumerate(self._queries):
            own = messages[messages[:, 0] == number]
            statistic = query.blank
            if len(own):
                statistic = query.mechanism.accumulate(query.mechanism.unpack(self._inner(own, query.mechanism)))
            parts += [np.array([len(own)]), np.asarray(statistic).reshape(-1)]
        return np.concatenate(parts)

    def finish(self, total: Array, users: int) -> Estimate:
        start, found = 0, []
        for query in self._queries:
            stop = start + 1 + query.blank.size
            found.append(query.finish(total[start + 1 : stop], int(total[start]), users))
            start = stop
        value = np.concatenate([estimate.value.reshape(-1) for estimate in found])
        return Estimate(value, np.concatenate([estimate.variance.reshape(-1) for estimate in found]), users)

    def queries(self, estimate: Estimate) -> list[Estimate]:
        """The estimate of each query, in the shape that its mechanism gives."""
        start, result = 0, []
        for query in self._queries:
            part, shape = slice(start, start + math.prod(query.shape)), query.shape
            value, variance = estimate.value[part].reshape(shape), estimate.variance[part].reshape(shape)
            result.append(Estimate(value, variance, estimate.users))
            start = part.stop
        return result

    def truth(self, values: Any) -> Floats:
        columns = self._columns(self.check(values))
        return np.concatenate([query.truth(column) for query, column in zip(self._queries, columns, strict=True)])

    def variance(self, values: Any) -> Floats:
        columns = self._columns(self.check(values))
        return np.concatenate([query.variance(column) for query, column in zip(self._queries, columns, strict=True)])

    # --- its privacy ------------------------------------------------------------------------------------------

    @property
    def assumption(self) -> str:
        """What the mechanisms' guarantees rest on besides mathematics; empty where there is nothing."""
        known = (one.assumption for one in self.mechanisms)
        return " ".join(dict.fromkeys(sentence for sentence in known if sentence))

    def variation_ratio(self) -> VariationRatio:
        known = [covering_parameters(mechanism) for mechanism in self.mechanisms]
        beta = sum((share * Fraction(one.beta) for share, one in zip(self.shares, known, strict=True)), Fraction(0))
        return VariationRatio(
            p=max(one.p for one in known), beta=above(beta), q=max(one.largest_ratio for one in known)
        )

    def blankets(self) -> Sequence[HidingPair]:
        return mixtures(self.mechanisms, self.shares)

    def attacks(self) -> Sequence[HidingPair]:
        """All queries attacked at once, the others' values those of the queries' own attacks, taken in turn."""
        known = [list(one.attacks()) for one in self.mechanisms]
        if not all(known):
            return []
        turns = range(max(map(len, known)))
        return [mixed_pairs([pairs[turn % len(pairs)] for pairs in known], self.shares) for turn in turns]

    # --- for tests and the catalogue --------------------------------------------------------------------------

    def probe(self) -> Array:
        return self.check([mechanism.probe() for mechanism in self.mechanisms])

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
        for number, (mechanism, table) in enumerate(zip(self.mechanisms, tables, strict=True)):
            wire = mechanism.pack(table.messages)
            part = np.zeros((len(wire), self.message_bytes), dtype=np.uint8)
            part[:, 0], part[:, 1 : 1 + wire.shape[1]] = number, wire
            parts.append(part)
        return np.concatenate(parts)

    @classmethod
    def examples(cls) -> Sequence[Parallel]:
        return [
            cls([KRR(1.0, 3), KRR(1.0, 2)]),
            cls([OUE(1.0, 2), KRR(0.5, 2)], [1, 3]),
            cls([KRR(2.0, 2), Laplace(1.0, grid=1)], [0.7, 0.3]),
        ]
