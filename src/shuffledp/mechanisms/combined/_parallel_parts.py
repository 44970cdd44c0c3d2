"""Domains, encodings, estimators and proposal laws when users answer one or all of several queries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from shuffledp._core.validation import Array, Bytes, Floats, Integers, Words
from shuffledp.mechanisms.base.domain import InputDomain
from shuffledp.mechanisms.base.encoding import Encoding, ValidRows
from shuffledp.mechanisms.base.error_laws import CountErrorLaw
from shuffledp.mechanisms.base.estimator import NORMAL, ConcatenatedErrorLaw, Estimate, Estimator, Influence
from shuffledp.mechanisms.base.seed_compression import WEIGHT_BITS, WORDS_PER_INTEGER, Proposal, integers_below
from shuffledp.numerics.ball_arithmetic import float_above
from shuffledp.sampling.random_sources import RandomSource, SystemSource

MAX_EXACT_INTEGER = 1 << 53
"""Largest whole number that is stored exactly in a row of floats."""


@dataclass(frozen=True)
class QueryColumn:
    """Values of one query, stored as some numbers of a row that also holds the other queries' values."""

    error_prefix: str
    domain: InputDomain

    @cached_property
    def audit_pair(self) -> Array:
        return self.domain.audit_pair()

    @property
    def width(self) -> int:
        """The number of entries of a row that belong to this query."""
        return math.prod(self.audit_pair.shape[1:])

    def check(self, number: int, column: Any) -> Array:
        """Returns the column of a query, whose number is for error messages, as rows of numbers.

        Raises:
            TypeError: If values have the wrong type.
            ValueError: If a value is outside the domain, has the wrong shape or exceeds 2^53.
        """
        who = f"{self.error_prefix}: query {number}"
        try:
            checked = self.domain.check(column)
        except (ValueError, TypeError) as error:
            raise type(error)(f"{who}: {error}") from None
        if checked.shape[1:] != self.audit_pair.shape[1:]:
            expected, got = self.audit_pair.shape[1:], checked.shape[1:]
            raise ValueError(f"{who}: expected values of shape {expected} a user, got {got}.")
        if checked.dtype.kind in "iu" and int(np.abs(checked).max()) > MAX_EXACT_INTEGER:
            raise ValueError(f"{who}: expected values up to 2^53, got {int(np.abs(checked).max())}.")
        return checked.reshape(len(checked), -1)

    def restore(self, rows: Array) -> Array:
        """Returns the values from rows of numbers; the inverse of `check`."""
        shaped = rows.reshape(len(rows), *self.audit_pair.shape[1:])
        if self.audit_pair.dtype.kind in "iu" and rows.dtype.kind == "f" and (np.floor(shaped) != shaped).any():
            return shaped
        return shaped.astype(self.audit_pair.dtype)


@dataclass(frozen=True)
class Query:
    """Query that each user answers with probability `share`, independently of everything else.

    The contributions of the users who answer are multiplied by 1/share: unbiased for the sum over all users (or for the
    mean, if `estimator` estimates means).

    Args:
        column: Values of the query.
        estimator: Estimator of the query's mechanism.
        share: Probability with which a user answers.
        statistic_shape: Shape of the statistic that `estimator` accumulates; also used if nobody answered.
        statistic_type: Its numpy type.
    """

    column: QueryColumn
    estimator: Estimator
    share: Fraction
    statistic_shape: tuple[int, ...]
    statistic_type: str

    @property
    def empty_statistic(self) -> Array:
        """The statistic of no messages."""
        return np.zeros(self.statistic_shape, dtype=self.statistic_type)

    # --- Estimate ---

    @cached_property
    def _single_user_truths(self) -> list[Floats]:
        return [self.estimator.truth(self.column.audit_pair[[k]]) for k in (0, 1)]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the estimate."""
        return self._single_user_truths[0].shape

    @cached_property
    def is_mean(self) -> bool:
        """True if the query estimates a mean: then each user taken twice gives the same estimate."""
        twice = [self.estimator.truth(self.column.audit_pair[[k, k]]) for k in (0, 1)]
        return all(np.allclose(both, one) for both, one in zip(twice, self._single_user_truths, strict=True))

    @cached_property
    def is_count(self) -> bool:
        """True if a user adds 0 or 1 to every component."""
        return not self.is_mean and all(np.isin(single, (0.0, 1.0)).all() for single in self._single_user_truths)

    def finish(self, statistic: Array, answers: int, users: int) -> Estimate:
        """Returns the estimate from the answers to this query.

        Its variance is the answers' own plus that of drawing the query, (1/π − 1)·Σm², where m is a user's contribution
        to the truth. For counts Σm² is the count; otherwise m is taken at its largest, unless the statistic contains
        the mean square of the messages' contributions: that is m² plus the answers' own variance, which is known.
        The variance is infinite if nobody answered.
        """
        if answers == 0:
            return Estimate(np.zeros(self.shape), np.full(self.shape, np.inf), users)
        total = np.asarray(statistic).reshape(self.statistic_shape)
        answered = self.estimator.finish(total, answers)
        share = float(self.share)
        scale = answers / (share * users) if self.is_mean else 1 / share
        value = answered.value * scale
        if self.is_mean:
            mean_square = self._mean_square_values(answered, self.estimator.mean_square(total, answers))
            spread = answered.variance * answers
            return Estimate(value, (spread / share + (1 / share - 1) * mean_square) / users, users)
        squares = (
            np.clip(value, 0.0, users) if self.is_count else np.full(self.shape, users * self._max_contribution**2)
        )
        law = answered.error_law
        tails = law.subsample(share, answers, users) if isinstance(law, CountErrorLaw) else NORMAL
        return Estimate(value, answered.variance * scale**2 + (1 / share - 1) * squares, users, tails)

    def _mean_square_values(self, answered: Estimate, squares: Floats | None) -> Floats:
        """Returns the mean of m² over users who answered, from the mean `squares` of their messages' contributions.

        It is clipped to the range from the square of their mean to that of the largest number, which is taken if
        `squares` is None.
        """
        largest = self._max_contribution
        least, most = np.clip(answered.value, -largest, largest) ** 2, np.full(self.shape, largest**2)
        if squares is None:
            return most
        return np.asarray(np.clip(squares.reshape(self.shape) - answered.variance * answered.users, least, most))

    @cached_property
    def _max_contribution(self) -> float:
        """The largest absolute contribution of a user."""
        return max(float(np.abs(single).max()) for single in self._single_user_truths)

    def influence(self, messages: float) -> list[Influence] | None:
        """Returns the influence of messages that all answer this query: 1/share times that on its estimator."""
        influences = self.estimator.influence(1)
        return None if influences is None else [each.scale(messages / float(self.share)) for each in influences]

    def truth(self, column: Array) -> Floats:
        return self.estimator.truth(column).reshape(-1)

    def variance(self, column: Array) -> Floats:
        """Returns the exact variance: a user adds E/π with probability π, E of mean m: (Var E)/π + (1/π − 1)·m²."""
        share, users = float(self.share), len(column)
        drawing = self._sum_of_squares(column) / (users**2 if self.is_mean else 1)
        return (self.estimator.variance(column).reshape(-1)) / share + (1 / share - 1) * drawing

    def _sum_of_squares(self, column: Array) -> Floats:
        """Returns Σm² over the users."""
        if self.is_count:
            return self.truth(column)
        kinds, times = np.unique(column.reshape(len(column), -1), axis=0, return_counts=True)
        singles = [self.truth(self.column.restore(kind[None, :])) for kind in kinds]
        return np.asarray(times @ np.square(singles))


# --- Several queries of which each user answers one: rows of values, padded messages, estimates in a row ---


@dataclass(frozen=True)
class QuerySetDomain(InputDomain):
    """Domain with one column per query: a sequence of columns in Python, rows of numbers in canonical form."""

    error_prefix: str
    queries: tuple[QueryColumn, ...]

    def check(self, values: Any) -> Array:
        if isinstance(values, np.ndarray):
            columns = self.split_columns(self._check_rows(values))
        elif isinstance(values, tuple | list) and len(values) == len(self.queries):
            columns = list(values)
        else:
            got = f"{len(values)}" if isinstance(values, tuple | list) else type(values).__name__
            raise TypeError(
                f"{self.error_prefix}: expected a column of values for each of {len(self.queries)} queries, got {got}."
            )
        checked = [
            query.check(number, column)
            for number, (query, column) in enumerate(zip(self.queries, columns, strict=True))
        ]
        lengths = {len(rows) for rows in checked}
        if len(lengths) > 1:
            raise ValueError(f"{self.error_prefix}: expected columns of one length, got {sorted(lengths)}.")
        return np.concatenate(checked, axis=1)

    def _check_rows(self, values: Array) -> Array:
        width = sum(query.width for query in self.queries)
        if values.dtype.kind not in "iuf" or values.ndim != 2 or values.shape[1] != width:
            shape = f"{values.dtype} of shape {values.shape}"
            raise ValueError(
                f"{self.error_prefix}: expected rows of {width} numbers, or a list of columns, got {shape}."
            )
        return values

    def split_columns(self, rows: Array) -> list[Array]:
        """Returns the values of each query in the canonical form of its mechanism, from one row of numbers per user."""
        ends = np.cumsum([query.width for query in self.queries])
        return [
            query.restore(part) for query, part in zip(self.queries, np.split(rows, ends[:-1], axis=1), strict=True)
        ]

    def audit_pair(self) -> Array:
        return self.check([query.audit_pair for query in self.queries])


@dataclass(frozen=True)
class QuerySetEncoding(Encoding):
    """Encoding as the number of the query and its mechanism's encoded message, padded with zeros to one length."""

    error_prefix: str
    encodings: tuple[Encoding, ...]

    @property
    def bits(self) -> int:
        return 8 + 8 * max(wire.byte_length for wire in self.encodings)

    @property
    def expected_format(self) -> str:
        return f"messages of queries below {len(self.encodings)}, with zeros after them"

    def pack(self, messages: Array) -> Bytes:
        return np.ascontiguousarray(messages, dtype=np.uint8)

    def decode_rows(self, rows: Bytes) -> tuple[Array, ValidRows]:
        good = rows[:, 0] < len(self.encodings)
        for number, inner in enumerate(self.encodings):
            here = np.flatnonzero(rows[:, 0] == number)
            own = rows[here]
            good[here] = ~own[:, 1 + inner.byte_length :].any(axis=1) & inner.valid(self._query_bytes(number, own))
        return rows, good

    def decode_query(self, number: int, rows: Bytes) -> Array:
        """Returns the messages of one query's mechanism from rows of bytes; raises ValueError if one is no message."""
        return self.encodings[number].unpack(self._query_bytes(number, rows))

    def _query_bytes(self, number: int, rows: Bytes) -> Bytes:
        return np.ascontiguousarray(rows[:, 1 : 1 + self.encodings[number].byte_length])

    def write_messages(self, rows: Bytes, number: int, places: slice | Integers, messages: Array) -> None:
        """Writes encoded messages of a query into some rows of zeros, in place."""
        rows[places, 0] = number
        rows[places, 1 : 1 + self.encodings[number].byte_length] = self.encodings[number].pack(messages)


@dataclass(frozen=True)
class QuerySetEstimator(Estimator):
    """Estimator that puts the queries' estimates in one row; messages are rows of bytes as sent."""

    domain: QuerySetDomain
    encoding: QuerySetEncoding
    queries: tuple[Query, ...]

    def accumulate(self, messages: Array) -> Array:
        """Returns, for each query, the number of its messages and then its own statistic."""
        parts = []
        for number, query in enumerate(self.queries):
            own = messages[messages[:, 0] == number]
            statistic = (
                query.estimator.accumulate(self.encoding.decode_query(number, own))
                if len(own)
                else query.empty_statistic
            )
            parts += [np.array([len(own)]), np.asarray(statistic).reshape(-1)]
        return np.concatenate(parts)

    def finish(self, total: Array, users: int) -> Estimate:
        start, estimates = 0, []
        for query in self.queries:
            stop = start + 1 + math.prod(query.statistic_shape)
            estimates.append(query.finish(total[start + 1 : stop], int(total[start]), users))
            start = stop
        return concatenate_estimates(estimates, users)

    def influence(self, messages: float) -> Sequence[Influence] | None:
        """Returns the influence of a liar who answers the targeted query; other answers add nothing to it."""
        return concatenate_influences([query.influence(messages) for query in self.queries])

    def split_estimate(self, estimate: Estimate) -> list[Estimate]:
        """Splits an estimate into the estimates of the queries, each in the shape that its own estimator returns."""
        start, result = 0, []
        tails = (
            estimate.error_law.parts
            if isinstance(estimate.error_law, ConcatenatedErrorLaw)
            else (NORMAL,) * len(self.queries)
        )
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
        return list(zip(self.queries, self.domain.split_columns(values), strict=True))


def concatenate_estimates(estimates: Sequence[Estimate], users: int) -> Estimate:
    """Returns the estimates of all queries as one estimate in a row."""
    value = np.concatenate([estimate.value.reshape(-1) for estimate in estimates])
    variance = np.concatenate([estimate.variance.reshape(-1) for estimate in estimates])
    laws, sizes = tuple(each.error_law for each in estimates), tuple(each.value.size for each in estimates)
    return Estimate(value, variance, users, ConcatenatedErrorLaw(laws, sizes))


def concatenate_influences(parts: Sequence[Sequence[Influence] | None]) -> Sequence[Influence] | None:
    """Returns the influences on all queries of users who target one of them; None if one is unknown."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    influences = [each for part in known for each in part]
    return influences if len(parts) == 1 else [each.include_zero() for each in influences]


# --- Proposal law ---


FACTOR_ROUNDING = Fraction(1, 1 << 51)
"""Relative error of one more float factor."""


@dataclass(frozen=True)
class QuerySetProposal(Proposal):
    """Mixture of the queries' proposal laws: a query drawn by whole weights, then a message of its own law.

    Query k, which users answer with probability π_k, has a weight in proportion to π_k·C_k, where C_k is its own
    largest ratio: the largest ratio overall is then Σ π_k·C_k, the least for any weights, up to rounding.
    """

    domain: QuerySetDomain
    encoding: QuerySetEncoding
    proposals: tuple[Proposal, ...]
    shares: tuple[Fraction, ...]

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """The weights of the queries."""
        products = [share * Fraction(one.ratio) for share, one in zip(self.shares, self.proposals, strict=True)]
        return tuple(max(1, int(part / sum(products) * (1 << WEIGHT_BITS))) for part in products)

    @cached_property
    def _query_ratios(self) -> tuple[Fraction, ...]:
        """The ratio of each query's probability to its probability under the proposal law."""
        whole = sum(self.weights)
        return tuple(share * whole / weight for share, weight in zip(self.shares, self.weights, strict=True))

    @cached_property
    def ratio(self) -> float:
        return float_above(
            max(more * Fraction(one.ratio) for more, one in zip(self._query_ratios, self.proposals, strict=True))
        )

    @cached_property
    def min_ratio(self) -> Fraction:
        return min(more * one.min_ratio for more, one in zip(self._query_ratios, self.proposals, strict=True))

    @property
    def word_count(self) -> int:
        return WORDS_PER_INTEGER + max(one.word_count for one in self.proposals)

    def draw_messages(self, words: Words) -> Array:
        numbers = self._cumulative_weights.searchsorted(
            integers_below(int(self._cumulative_weights[-1]), words), side="right"
        )
        rows = np.zeros((len(words), self.encoding.byte_length), dtype=np.uint8)
        for number, one in enumerate(self.proposals):
            here = np.flatnonzero(numbers == number)
            if here.size:
                own = words[here, WORDS_PER_INTEGER : WORDS_PER_INTEGER + one.word_count]
                self.encoding.write_messages(rows, number, here, one.draw_messages(np.ascontiguousarray(own)))
        return rows

    @cached_property
    def _cumulative_weights(self) -> Integers:
        return np.cumsum(np.array(self.weights))

    def draw_latent_inputs(self, values: Array, source: RandomSource) -> Array:
        """Draws the latent inputs of all queries, one row of numbers per user."""
        columns = self.domain.split_columns(values)
        parts = [one.draw_latent_inputs(column, source) for one, column in zip(self.proposals, columns, strict=True)]
        return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)

    @cached_property
    def _latent_formats(self) -> tuple[tuple[tuple[int, ...], str], ...]:
        """The shape and type of each query's latent inputs, found by drawing once."""
        probes = [query.audit_pair for query in self.domain.queries]
        drawn = [
            one.draw_latent_inputs(probe, SystemSource()) for one, probe in zip(self.proposals, probes, strict=True)
        ]
        return tuple((part.shape[1:], part.dtype.str) for part in drawn)

    def acceptance(self, values: Array, messages: Array) -> Floats:
        chances = np.empty(len(messages))
        start = 0
        for number, (shape, kind) in enumerate(self._latent_formats):
            stop = start + int(np.prod(shape, dtype=np.int64))
            here = np.flatnonzero(messages[:, 0] == number)
            if here.size:
                own = values[here, start:stop].reshape(len(here), *shape).astype(kind)
                accepted = self.proposals[number].acceptance(own, self.encoding.decode_query(number, messages[here]))
                chances[here] = accepted * self._relative_ratios[number]
            start = stop
        return np.minimum(chances, 1.0)

    @cached_property
    def _relative_ratios(self) -> tuple[float, ...]:
        """The largest ratio of each query divided by the overall one."""
        pairs = zip(self._query_ratios, self.proposals, strict=True)
        return tuple(float(more * Fraction(one.ratio) / Fraction(self.ratio)) for more, one in pairs)

    @property
    def acceptance_error(self) -> float:
        return max(one.acceptance_error for one in self.proposals)

    @property
    def rounding(self) -> Fraction:
        return max(one.rounding for one in self.proposals) + FACTOR_ROUNDING
