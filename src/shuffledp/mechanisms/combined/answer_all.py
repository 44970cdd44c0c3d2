"""Several queries to the same users, each of whom answers all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from shuffledp._core.errors import NotApplicable
from shuffledp._core.validation import Array, Bytes, Floats, checked
from shuffledp.mechanisms.base.estimator import ConcatenatedErrorLaw, Estimate, Estimator, Influence
from shuffledp.mechanisms.base.law import Law
from shuffledp.mechanisms.base.mechanism import Mechanism, MultiQueryCapability, OutputTable
from shuffledp.mechanisms.base.message_plan import MessagePlan
from shuffledp.mechanisms.combined._parallel_parts import (
    QueryColumn,
    QuerySetDomain,
    QuerySetEncoding,
    concatenate_estimates,
    concatenate_influences,
)
from shuffledp.mechanisms.combined.parallel import check_mechanisms
from shuffledp.mechanisms.correlated_noise.counts_with_cancelling_noise import CancellingNoise
from shuffledp.mechanisms.correlated_noise.split_and_mix import SplitAndMix
from shuffledp.mechanisms.frequency.randomized_response import KRR
from shuffledp.mechanisms.mean.piecewise import Piecewise
from shuffledp.numerics.ball_arithmetic import float_above
from shuffledp.privacy.dominating_pairs import HidingPair
from shuffledp.privacy.randomizer_interface import HasParts, Randomizer
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling.random_sources import RandomSource, SystemSource

# --- Law, message plan and estimator of all queries ---


@dataclass(frozen=True)
class MultiQueryLaw(Law):
    """Law to which bounds on single messages do not apply: each query's messages hide only each other."""

    error_prefix: str
    missing_attack_reason = "each question has attacks of its own"

    def variation_ratio(self) -> VariationRatio:
        raise NotApplicable("variation-ratio", f"{self.error_prefix} sends a message for each of several questions.")

    def blankets(self) -> Sequence[HidingPair]:
        return ()

    def attacks(self) -> Sequence[HidingPair]:
        return ()


@dataclass(frozen=True)
class CombinedMessagePlan(MessagePlan):
    """Message plan of all queries; the messages of each query hide each other by its own plan."""

    parts: tuple[MessagePlan, ...]

    @property
    def messages_per_user(self) -> float:
        return math.fsum(part.messages_per_user for part in self.parts)

    @property
    def max_messages(self) -> float:
        return math.fsum(part.max_messages for part in self.parts)

    @property
    def is_variable(self) -> bool:
        return any(part.is_variable for part in self.parts)

    @property
    def has_shuffler_noise(self) -> bool:
        """True if the shuffler draws messages for some query."""
        return any(part.has_shuffler_noise for part in self.parts)

    @property
    def is_participation_independent(self) -> bool:
        return all(part.is_participation_independent for part in self.parts)

    @property
    def min_messages(self) -> int:
        return sum(part.min_messages for part in self.parts)

    @property
    def shuffler_messages(self) -> float:
        return math.fsum(part.shuffler_messages for part in self.parts)

    def premises(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(sentence for part in self.parts for sentence in part.premises()))

    def user_messages(self, users: int) -> int | None:
        return _sum_if_known([part.user_messages(users) for part in self.parts])

    def total_messages(self, users: int) -> int | None:
        return _sum_if_known([part.total_messages(users) for part in self.parts])

    def hiding_messages(self, users: int) -> int:
        """Returns the number of honest users; each query counts its own messages."""
        return users


def _sum_if_known(counts: list[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


@dataclass(frozen=True)
class AnswerEstimator:
    """Estimator of one query, with the shapes of its statistic and its estimate."""

    estimator: Estimator
    statistic_shape: tuple[int, ...]
    statistic_type: str
    """Numpy type of the statistic: beside floats of another query, whole numbers up to 2^53 are floats, too."""
    estimate_shape: tuple[int, ...]

    @property
    def statistic_size(self) -> int:
        """The number of entries of the statistic."""
        return math.prod(self.statistic_shape)

    def restore_statistic(self, numbers: Array) -> Array:
        """Returns the statistic from its entries in a row."""
        return np.asarray(numbers).astype(self.statistic_type).reshape(self.statistic_shape)

    @property
    def empty_statistic(self) -> Array:
        """The statistic of no messages, in a row."""
        return np.zeros(self.statistic_size, dtype=self.statistic_type)


@dataclass(frozen=True)
class AnswerSetEstimator(Estimator):
    """Estimator that puts the queries' estimates in one row; messages are rows of bytes as sent."""

    domain: QuerySetDomain
    encoding: QuerySetEncoding
    answer_estimators: tuple[AnswerEstimator, ...]

    def accumulate(self, messages: Array) -> Array:
        """Returns the statistics of the queries, one after the other."""
        parts = []
        for number, answer in enumerate(self.answer_estimators):
            own = messages[messages[:, 0] == number]
            statistic = (
                answer.estimator.accumulate(self.encoding.decode_query(number, own))
                if len(own)
                else answer.empty_statistic
            )
            parts.append(np.asarray(statistic).reshape(-1))
        return np.concatenate(parts)

    def finish(self, total: Array, users: int) -> Estimate:
        start, estimates = 0, []
        for answer in self.answer_estimators:
            stop = start + answer.statistic_size
            estimates.append(answer.estimator.finish(answer.restore_statistic(total[start:stop]), users))
            start = stop
        return concatenate_estimates(estimates, users)

    def split_estimate(self, estimate: Estimate) -> list[Estimate]:
        """Splits an estimate into the estimates of the queries, each in the shape that its own estimator returns."""
        tails = (
            estimate.error_law.parts
            if isinstance(estimate.error_law, ConcatenatedErrorLaw)
            else (estimate.error_law,) * len(self.answer_estimators)
        )
        pairs = zip(self.split_row(estimate.value), self.split_row(estimate.variance), tails, strict=True)
        return [Estimate(value, variance, estimate.users, tail) for value, variance, tail in pairs]

    def split_row(self, row: Floats) -> list[Floats]:
        """Splits a row with one number per component into the queries' parts."""
        ends = np.cumsum([math.prod(answer.estimate_shape) for answer in self.answer_estimators])
        return [
            part.reshape(one.estimate_shape)
            for part, one in zip(np.split(row, ends[:-1]), self.answer_estimators, strict=True)
        ]

    def influence(self, messages: float) -> Sequence[Influence] | None:
        """Returns the influence of a liar who sends all messages, or none, to the targeted query."""
        return concatenate_influences([answer.estimator.influence(messages) for answer in self.answer_estimators])

    def truth(self, values: Array) -> Floats:
        return np.concatenate([answer.estimator.truth(column).reshape(-1) for answer, column in self._columns(values)])

    def variance(self, values: Array) -> Floats:
        return np.concatenate(
            [answer.estimator.variance(column).reshape(-1) for answer, column in self._columns(values)]
        )

    def _columns(self, values: Array) -> Sequence[tuple[AnswerEstimator, Array]]:
        return list(zip(self.answer_estimators, self.domain.split_columns(values), strict=True))


ERROR_PREFIX = "AllAnswered"


@dataclass(frozen=True)
class AllAnswered(Mechanism, MultiQueryCapability, HasParts):
    """Combination of several queries, each of which every user answers with the query's own mechanism.

    A message is the query's number and the mechanism's message, padded to one length: messages of different queries do
    not hide each other.

    Values: one column for each query, in the form that its mechanism takes; in Python a sequence of columns, in
    canonical form one row of numbers per user. The estimate puts the queries' estimates in one row, which `queries`
    splits.

    Theorem: a user may change every answer; the messages of one query are those of its mechanism alone, and each
    query's randomness is its own: the mechanisms' own curves, composed. A local ε is the sum of the mechanisms'.
    Requires: 1 to 256 mechanisms.

    Args:
        mechanisms: One mechanism per query. They may send several messages, and the shuffler may draw their noise.

    Raises:
        TypeError: If one of them is not a mechanism.
        ValueError: If there are none, or more than 256.

    Example:
        >>> import shuffledp as sdp
        >>> mechanism = sdp.AllAnswered([sdp.KRR(1.0, options=4), sdp.Piecewise(1.0)])
        >>> mechanism.messages_per_user, mechanism.local_epsilon
        (2.0, 2.0)
        >>> value = sdp.amplify(mechanism, users=10_000).epsilon(delta=1e-6)
        >>> f"{value.upper:.4f}", value.bound
        ('0.0538', 'composed-parts')
    """

    mechanisms: Sequence[Mechanism] = field(metadata=checked(check_mechanisms))

    name = "all-answered"
    task = "several queries"
    summary = "every one of several queries, each by its own mechanism"
    use_case = "For several questions, every one of which everybody answers."
    has_numeric_settings = False
    combines_mechanisms = True
    tunable = ()
    has_table = False

    # --- Parts ---

    @property
    def shares(self) -> tuple[Fraction, ...]:
        return (Fraction(1),) * len(self.mechanisms)

    def parts(self) -> Sequence[tuple[Randomizer, int]]:
        """Returns the mechanisms of the queries, whose privacy curves compose, each once."""
        return [(mechanism, 1) for mechanism in self.mechanisms]

    @cached_property
    def domain(self) -> QuerySetDomain:
        return QuerySetDomain(ERROR_PREFIX, tuple(QueryColumn(ERROR_PREFIX, one.domain) for one in self.mechanisms))

    @property
    def law(self) -> MultiQueryLaw:
        return MultiQueryLaw(ERROR_PREFIX)

    @cached_property
    def message_plan(self) -> CombinedMessagePlan:
        return CombinedMessagePlan(tuple(one.message_plan for one in self.mechanisms))

    @cached_property
    def encoding(self) -> QuerySetEncoding:
        return QuerySetEncoding(ERROR_PREFIX, tuple(one.encoding for one in self.mechanisms))

    @cached_property
    def estimator(self) -> AnswerSetEstimator:
        answers = map(_build_answer_estimator, self.domain.queries, self.mechanisms)
        return AnswerSetEstimator(self.domain, self.encoding, tuple(answers))

    def queries(self, estimate: Estimate) -> list[Estimate]:
        return self.estimator.split_estimate(estimate)

    def query_variance(self, number: int, values: Array) -> Floats:
        return self.estimator.answer_estimators[number].estimator.variance(values)

    @property
    def local_epsilon(self) -> float | None:
        """The local guarantee of all messages of a user: the sum of the mechanisms'; None if one of them has none."""
        known = [one.local_epsilon for one in self.mechanisms]
        exact = [Fraction(one) for one in known if one is not None]
        return float_above(sum(exact, Fraction(0))) if len(exact) == len(known) else None

    @property
    def expected_random_words(self) -> float:
        return sum(one.expected_random_words for one in self.mechanisms)

    @property
    def assumption(self) -> str:
        known = (one.assumption for one in self.mechanisms)
        return " ".join(dict.fromkeys(sentence for sentence in known if sentence))

    # --- Running the mechanism ---

    def randomize(self, values: Array, source: RandomSource) -> Array:
        """Returns the messages of all queries, query after query, one row of bytes per message."""
        columns = zip(self.mechanisms, self.domain.split_columns(values), strict=True)
        parts = [self._encode_query(k, one.randomize(column, source)) for k, (one, column) in enumerate(columns)]
        return np.concatenate(parts)

    def draw_shuffler_messages(self, source: RandomSource) -> Array | None:
        drawn = [(k, one.draw_shuffler_messages(source)) for k, one in enumerate(self.mechanisms)]
        parts = [self._encode_query(k, messages) for k, messages in drawn if messages is not None]
        return np.concatenate(parts) if parts else None

    def _encode_query(self, number: int, messages: Array) -> Bytes:
        """Returns messages of one query as rows of bytes with the query's number."""
        rows = np.zeros((len(messages), self.encoding.byte_length), dtype=np.uint8)
        self.encoding.write_messages(rows, number, slice(None), messages)
        return rows

    # --- Tests and the catalogue ---

    def table(self) -> OutputTable:
        raise ValueError(f"{ERROR_PREFIX}: several messages of different kinds cannot be written down as a table.")

    @classmethod
    def examples(cls) -> Sequence[AllAnswered]:
        cancelling = CancellingNoise(options=3, rate=0.8, shape=6.0, ratio=0.7, honest=0)
        return [
            cls([KRR(1.0, 3), KRR(0.5, 2)]),
            cls([Piecewise(1.0), SplitAndMix.examples()[0]]),
            cls([CancellingNoise(2, rate=1.0, shape=4.0, ratio=0.5, honest=10), KRR(2.0, 2), cancelling]),
        ]


def _build_answer_estimator(column: QueryColumn, mechanism: Mechanism) -> AnswerEstimator:
    """Returns the estimator of one query; the shape of its statistic is found by running the mechanism once."""
    statistic = np.asarray(mechanism.accumulate(mechanism.randomize(column.audit_pair, SystemSource())))
    shape = mechanism.estimator.truth(column.audit_pair[:1]).shape
    return AnswerEstimator(mechanism.estimator, statistic.shape, statistic.dtype.str, shape)
