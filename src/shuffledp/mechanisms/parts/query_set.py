"""Several queries to the same users, of which each answers one: rows of values, padded messages, estimates in a row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shuffledp.array import Array, Bytes, Floats, Integers
from shuffledp.mechanisms.estimate import NORMAL, Estimate, JoinedTails
from shuffledp.mechanisms.parts.query import Query, QueryColumn
from shuffledp.mechanisms.parts.reading import Reading
from shuffledp.mechanisms.parts.sway import Sway
from shuffledp.mechanisms.parts.user_values import UserValues
from shuffledp.mechanisms.parts.wire import Mask, Wire


@dataclass(frozen=True)
class QuerySetValues(UserValues):
    """One column for each query: from Python a sequence of columns; in canonical form one row of numbers per user."""

    who: str
    queries: tuple[QueryColumn, ...]

    def check(self, values: Any) -> Array:
        if isinstance(values, np.ndarray):
            columns = self.columns(self._checked_rows(values))
        elif isinstance(values, tuple | list) and len(values) == len(self.queries):
            columns = list(values)
        else:
            got = f"{len(values)}" if isinstance(values, tuple | list) else type(values).__name__
            raise TypeError(
                f"{self.who}: expected a column of values for each of {len(self.queries)} queries, got {got}."
            )
        checked = [
            query.check(number, column)
            for number, (query, column) in enumerate(zip(self.queries, columns, strict=True))
        ]
        lengths = {len(rows) for rows in checked}
        if len(lengths) > 1:
            raise ValueError(f"{self.who}: expected columns of one length, got {sorted(lengths)}.")
        return np.concatenate(checked, axis=1)

    def _checked_rows(self, values: Array) -> Array:
        width = sum(query.width for query in self.queries)
        if values.dtype.kind not in "iuf" or values.ndim != 2 or values.shape[1] != width:
            shape = f"{values.dtype} of shape {values.shape}"
            raise ValueError(f"{self.who}: expected rows of {width} numbers, or a list of columns, got {shape}.")
        return values

    def columns(self, rows: Array) -> list[Array]:
        """The values of each query, as its mechanism has them in canonical form."""
        ends = np.cumsum([query.width for query in self.queries])
        return [
            query.restore(part) for query, part in zip(self.queries, np.split(rows, ends[:-1], axis=1), strict=True)
        ]

    def probe(self) -> Array:
        return self.check([query.probe for query in self.queries])


@dataclass(frozen=True)
class QuerySetWire(Wire):
    """The number of the query and the message of its own wire, padded with zeros to one length."""

    who: str
    wires: tuple[Wire, ...]

    @property
    def bits(self) -> int:
        return 8 + 8 * max(wire.bytes for wire in self.wires)

    @property
    def expected(self) -> str:
        return f"messages of queries below {len(self.wires)}, with zeros after them"

    def pack(self, messages: Array) -> Bytes:
        return np.ascontiguousarray(messages, dtype=np.uint8)

    def read(self, rows: Bytes) -> tuple[Array, Mask]:
        good = rows[:, 0] < len(self.wires)
        for number, inner in enumerate(self.wires):
            here = np.flatnonzero(rows[:, 0] == number)
            own = rows[here]
            good[here] = ~own[:, 1 + inner.bytes :].any(axis=1) & inner.valid(self._inside(number, own))
        return rows, good

    def messages(self, number: int, rows: Bytes) -> Array:
        """The messages of a query in rows that are all its."""
        return self.wires[number].unpack(self._inside(number, rows))

    def _inside(self, number: int, rows: Bytes) -> Bytes:
        return np.ascontiguousarray(rows[:, 1 : 1 + self.wires[number].bytes])

    def put(self, rows: Bytes, number: int, places: slice | Integers, messages: Array) -> None:
        """Messages of a query into some rows that are still zeros."""
        rows[places, 0] = number
        rows[places, 1 : 1 + self.wires[number].bytes] = self.wires[number].pack(messages)


@dataclass(frozen=True)
class QuerySetReading(Reading):
    """The queries' estimates in one row; messages are rows of bytes as they are sent."""

    values: QuerySetValues
    wire: QuerySetWire
    queries: tuple[Query, ...]

    def accumulate(self, messages: Array) -> Array:
        """For each query the number of its messages, then its own statistic."""
        parts = []
        for number, query in enumerate(self.queries):
            own = messages[messages[:, 0] == number]
            statistic = query.reading.accumulate(self.wire.messages(number, own)) if len(own) else query.blank
            parts += [np.array([len(own)]), np.asarray(statistic).reshape(-1)]
        return np.concatenate(parts)

    def finish(self, total: Array, users: int) -> Estimate:
        start, found = 0, []
        for query in self.queries:
            stop = start + 1 + math.prod(query.statistic_shape)
            found.append(query.finish(total[start + 1 : stop], int(total[start]), users))
            start = stop
        value = np.concatenate([estimate.value.reshape(-1) for estimate in found])
        variance = np.concatenate([estimate.variance.reshape(-1) for estimate in found])
        tails = JoinedTails(tuple(one.tails for one in found), tuple(one.value.size for one in found))
        return Estimate(value, variance, users, tails)

    def sways(self, messages: float) -> Sequence[Sway] | None:
        """A liar answers the query whose estimate is to be moved; whoever answers another one adds nothing to it."""
        found: list[Sway] = []
        for query in self.queries:
            own = query.sways(messages)
            if own is None:
                return None
            found += own
        return found if len(self.queries) == 1 else [sway.or_nothing() for sway in found]

    def apart(self, estimate: Estimate) -> list[Estimate]:
        """The estimate of each query, in the shape that its own reading gives."""
        start, result = 0, []
        tails = estimate.tails.parts if isinstance(estimate.tails, JoinedTails) else (NORMAL,) * len(self.queries)
        for query, own in zip(self.queries, tails, strict=True):
            part, shape = slice(start, start + math.prod(query.shape)), query.shape
            value, variance = estimate.value[part].reshape(shape), estimate.variance[part].reshape(shape)
            result.append(Estimate(value, variance, estimate.users, own))
            start = part.stop
        return result

    def truth(self, values: Array) -> Floats:
        return np.concatenate([query.truth(column) for query, column in self._columns(values)])

    def variance(self, values: Array) -> Floats:
        return np.concatenate([query.variance(column) for query, column in self._columns(values)])

    def _columns(self, values: Array) -> Sequence[tuple[Query, Array]]:
        return list(zip(self.queries, self.values.columns(values), strict=True))
