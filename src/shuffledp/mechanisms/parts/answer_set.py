"""Several questions that everybody answers: all answers of a crowd, and each question's estimate from its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shuffledp.array import Array, Floats
from shuffledp.errors import NotApplicable
from shuffledp.mechanisms.estimate import Estimate, JoinedTails
from shuffledp.mechanisms.parts.crowd import CrowdRule
from shuffledp.mechanisms.parts.law import Law
from shuffledp.mechanisms.parts.query_set import QuerySetValues, QuerySetWire
from shuffledp.mechanisms.parts.reading import Reading
from shuffledp.mechanisms.parts.sway import Sway
from shuffledp.privacy.pair import HidingPair
from shuffledp.privacy.variation_ratio import VariationRatio


@dataclass(frozen=True)
class AnswersLaw(Law):
    """Nothing to tell of one message: each question's messages are hidden by their own crowd."""

    who: str
    why_no_attack = "each question has attacks of its own"

    def variation_ratio(self) -> VariationRatio:
        raise NotApplicable("variation-ratio", f"{self.who} sends a message for each of several questions.")

    def blankets(self) -> Sequence[HidingPair]:
        return ()

    def attacks(self) -> Sequence[HidingPair]:
        return ()


@dataclass(frozen=True)
class SeveralCrowds(CrowdRule):
    """The messages of all questions; those of each hide each other as its own rule says."""

    parts: tuple[CrowdRule, ...]

    @property
    def per_user(self) -> float:
        return math.fsum(part.per_user for part in self.parts)

    @property
    def most(self) -> float:
        return math.fsum(part.most for part in self.parts)

    @property
    def varies(self) -> bool:
        return any(part.varies for part in self.parts)

    @property
    def by_shuffler(self) -> bool:
        """The shuffler has something to draw."""
        return any(part.by_shuffler for part in self.parts)

    @property
    def whoever_comes(self) -> bool:
        return all(part.whoever_comes for part in self.parts)

    @property
    def least(self) -> int:
        return sum(part.least for part in self.parts)

    @property
    def drawn(self) -> float:
        return math.fsum(part.drawn for part in self.parts)

    def premises(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(sentence for part in self.parts for sentence in part.premises()))

    def sent_by(self, users: int) -> int | None:
        return _sum([part.sent_by(users) for part in self.parts])

    def messages_of(self, users: int) -> int | None:
        return _sum([part.messages_of(users) for part in self.parts])

    def hiding(self, users: int) -> int:
        """Each question counts its own messages; here it is the honest users who are counted."""
        return users


def _sum(counts: list[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


@dataclass(frozen=True)
class AnswerReading:
    """One question: its reading, and the forms of its statistic and of its estimate."""

    reading: Reading
    statistic: tuple[int, ...]
    kind: str
    """The statistic's type: beside another question's floats, whole numbers up to 2^53 are floats, too."""
    shape: tuple[int, ...]

    @property
    def room(self) -> int:
        """How many numbers the statistic is."""
        return math.prod(self.statistic)

    def statistic_of(self, numbers: Array) -> Array:
        """The statistic from its numbers in a row."""
        return np.asarray(numbers).astype(self.kind).reshape(self.statistic)

    @property
    def blank(self) -> Array:
        """The statistic of no messages, in a row."""
        return np.zeros(self.room, dtype=self.kind)


@dataclass(frozen=True)
class AnswerSetReading(Reading):
    """The questions' estimates in one row; messages are rows of bytes as they are sent."""

    values: QuerySetValues
    wire: QuerySetWire
    answers: tuple[AnswerReading, ...]

    def accumulate(self, messages: Array) -> Array:
        """Each question's own statistic, one after the other."""
        parts = []
        for number, answer in enumerate(self.answers):
            own = messages[messages[:, 0] == number]
            found = answer.reading.accumulate(self.wire.messages(number, own)) if len(own) else answer.blank
            parts.append(np.asarray(found).reshape(-1))
        return np.concatenate(parts)

    def finish(self, total: Array, users: int) -> Estimate:
        start, found = 0, []
        for answer in self.answers:
            stop = start + answer.room
            found.append(answer.reading.finish(answer.statistic_of(total[start:stop]), users))
            start = stop
        value = np.concatenate([one.value.reshape(-1) for one in found])
        variance = np.concatenate([one.variance.reshape(-1) for one in found])
        tails = JoinedTails(tuple(one.tails for one in found), tuple(one.value.size for one in found))
        return Estimate(value, variance, users, tails)

    def apart(self, estimate: Estimate) -> list[Estimate]:
        """The estimate of each question, in the shape that its own reading gives."""
        tails = (
            estimate.tails.parts if isinstance(estimate.tails, JoinedTails) else (estimate.tails,) * len(self.answers)
        )
        pairs = zip(self.split(estimate.value), self.split(estimate.variance), tails, strict=True)
        return [Estimate(value, variance, estimate.users, tail) for value, variance, tail in pairs]

    def split(self, row: Floats) -> list[Floats]:
        """A row of numbers, one for each of all estimates, question by question."""
        ends = np.cumsum([math.prod(answer.shape) for answer in self.answers])
        return [part.reshape(one.shape) for part, one in zip(np.split(row, ends[:-1]), self.answers, strict=True)]

    def sways(self, messages: float) -> Sequence[Sway] | None:
        """A liar sends all messages to the question whose estimate is to be moved, or none."""
        found: list[Sway] = []
        for answer in self.answers:
            own = answer.reading.sways(messages)
            if own is None:
                return None
            found += own
        return found if len(self.answers) == 1 else [sway.or_nothing() for sway in found]

    def truth(self, values: Array) -> Floats:
        return np.concatenate([answer.reading.truth(column).reshape(-1) for answer, column in self._columns(values)])

    def variance(self, values: Array) -> Floats:
        return np.concatenate([answer.reading.variance(column).reshape(-1) for answer, column in self._columns(values)])

    def _columns(self, values: Array) -> Sequence[tuple[AnswerReading, Array]]:
        return list(zip(self.answers, self.values.columns(values), strict=True))
