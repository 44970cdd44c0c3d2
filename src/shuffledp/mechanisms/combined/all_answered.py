"""Several queries to the same users, of which each user answers every one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from shuffledp.array import Array, Bytes, Floats
from shuffledp.mechanisms.ability import AnswersQueries
from shuffledp.mechanisms.combined.parallel import MOST_QUERIES
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.frequency.krr import KRR
from shuffledp.mechanisms.mean.piecewise import Piecewise
from shuffledp.mechanisms.mean.split_and_mix import SplitAndMix
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.multimessage.cancelling_noise import CancellingNoise
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.answer_set import AnswerReading, AnswerSetReading, AnswersLaw, SeveralCrowds
from shuffledp.mechanisms.parts.query import QueryColumn
from shuffledp.mechanisms.parts.query_set import QuerySetValues, QuerySetWire
from shuffledp.numerics.ball import above
from shuffledp.privacy.randomizer import HasParts, Randomizer
from shuffledp.sampling.random import RandomSource, SystemSource

WHO = "AllAnswered"


@dataclass(frozen=True)
class AllAnswered(Mechanism, AnswersQueries, HasParts):
    """Each user answers every one of several queries, each with its own mechanism.

    ``mechanisms`` answer one query each, with one message or several, also such whose noise the shuffler draws. A
    message is the query's number and the mechanism's message, padded to one length: messages of different queries do
    not hide each other.

    Values: one column for each query, each as its mechanism takes it. From Python a sequence of columns; in canonical
    form one row of numbers per user. The estimate puts the queries' estimates in one row (``queries`` takes them
    apart).

    Theorem: a user may change every answer; the messages of one query are those of its mechanism alone, and each
    query's randomness is its own: the mechanisms' own curves, composed. A local ε is the sum of the mechanisms'.
    Requires: 1 to 256 mechanisms.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.AllAnswered([sdp.KRR(1.0, options=4), sdp.Piecewise(1.0)])
    >>> mechanism.messages_per_user, mechanism.local_epsilon
    (2.0, 2.0)
    >>> value = sdp.amplify(mechanism, users=10_000).epsilon(delta=1e-6)
    >>> f"{value.upper:.4f}", value.bound
    ('0.0538', 'composed-parts')
    """

    mechanisms: Sequence[Mechanism]

    name = "all-answered"
    task = "several queries"
    summary = "every one of several queries, each by its own mechanism"
    take_it = "For several questions, every one of which everybody answers."
    built_from_numbers = False
    built_from_mechanisms = True
    tuning = ()
    has_table = False

    def __post_init__(self) -> None:
        if not isinstance(self.mechanisms, Sequence) or not 1 <= len(self.mechanisms) <= MOST_QUERIES:
            raise ValueError(f"{WHO}: expected 1 to {MOST_QUERIES} mechanisms in a list, got {self.mechanisms!r}.")
        for mechanism in self.mechanisms:
            if not isinstance(mechanism, Mechanism):
                raise TypeError(f"{WHO}: expected mechanisms such as KRR(1.0, 16), got {mechanism!r}.")
        object.__setattr__(self, "mechanisms", tuple(self.mechanisms))

    # --- its parts --------------------------------------------------------------------------------------------

    @property
    def shares(self) -> tuple[Fraction, ...]:
        return (Fraction(1),) * len(self.mechanisms)

    def parts(self) -> Sequence[tuple[Randomizer, int]]:
        return [(mechanism, 1) for mechanism in self.mechanisms]

    @cached_property
    def values(self) -> QuerySetValues:
        return QuerySetValues(WHO, tuple(QueryColumn(WHO, one.values) for one in self.mechanisms))

    @property
    def law(self) -> AnswersLaw:
        return AnswersLaw(WHO)

    @cached_property
    def crowd(self) -> SeveralCrowds:
        return SeveralCrowds(tuple(one.crowd for one in self.mechanisms))

    @cached_property
    def wire(self) -> QuerySetWire:
        return QuerySetWire(WHO, tuple(one.wire for one in self.mechanisms))

    @cached_property
    def reading(self) -> AnswerSetReading:
        answers = map(_answer, self.values.queries, self.mechanisms)
        return AnswerSetReading(self.values, self.wire, tuple(answers))

    def queries(self, estimate: Estimate) -> list[Estimate]:
        return self.reading.apart(estimate)

    def query_variance(self, number: int, values: Array) -> Floats:
        return self.reading.answers[number].reading.variance(values)

    @property
    def local_epsilon(self) -> float | None:
        """All that a user sends: the sum of what her answers keep, each alone."""
        known = [one.local_epsilon for one in self.mechanisms]
        exact = [Fraction(one) for one in known if one is not None]
        return above(sum(exact, Fraction(0))) if len(exact) == len(known) else None

    @property
    def words_tried(self) -> float:
        return sum(one.words_tried for one in self.mechanisms)

    @property
    def assumption(self) -> str:
        known = (one.assumption for one in self.mechanisms)
        return " ".join(dict.fromkeys(sentence for sentence in known if sentence))

    # --- running it -------------------------------------------------------------------------------------------

    def randomize(self, values: Array, source: RandomSource) -> Array:
        columns = zip(self.mechanisms, self.values.columns(values), strict=True)
        parts = [self._tagged(k, one.randomize(column, source)) for k, (one, column) in enumerate(columns)]
        return np.concatenate(parts)

    def drawn_by_shuffler(self, source: RandomSource) -> Array | None:
        drawn = [(k, one.drawn_by_shuffler(source)) for k, one in enumerate(self.mechanisms)]
        parts = [self._tagged(k, messages) for k, messages in drawn if messages is not None]
        return np.concatenate(parts) if parts else None

    def _tagged(self, number: int, messages: Array) -> Bytes:
        """Messages of one query as they are sent."""
        rows = np.zeros((len(messages), self.wire.bytes), dtype=np.uint8)
        self.wire.put(rows, number, slice(None), messages)
        return rows

    # --- for tests and the catalogue --------------------------------------------------------------------------

    def table(self) -> OutputTable:
        raise ValueError(f"{WHO}: several messages of different kinds cannot be written down as a table.")

    @classmethod
    def examples(cls) -> Sequence[AllAnswered]:
        cancelling = CancellingNoise(options=3, rate=0.8, shape=6.0, ratio=0.7, honest=0)
        return [
            cls([KRR(1.0, 3), KRR(0.5, 2)]),
            cls([Piecewise(1.0), SplitAndMix.examples()[0]]),
            cls([CancellingNoise(2, rate=1.0, shape=4.0, ratio=0.5, honest=10), KRR(2.0, 2), cancelling]),
        ]


def _answer(column: QueryColumn, mechanism: Mechanism) -> AnswerReading:
    """One query; the form of its statistic is found out by running it once."""
    statistic = np.asarray(mechanism.accumulate(mechanism.randomize(column.probe, SystemSource())))
    shape = mechanism.reading.truth(column.probe[:1]).shape
    return AnswerReading(mechanism.reading, statistic.shape, statistic.dtype.str, shape)
