"""Several runs of one randomizer on the same value, sent as one message: the parts around those of one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from shuffledp.array import Array, Bytes, Floats, Words
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.parts.reading import Reading
from shuffledp.mechanisms.parts.reference import Reference
from shuffledp.mechanisms.parts.sway import Sway
from shuffledp.mechanisms.parts.wire import Mask, Wire
from shuffledp.numerics.ball import above
from shuffledp.sampling.random import RandomSource


@dataclass(frozen=True)
class RepeatedWire(Wire):
    """The runs' messages, each in whole bytes, one after the other; in memory along the second axis."""

    who: str
    single: Wire
    runs: int

    @property
    def bits(self) -> int:
        return 8 * self.runs * self.single.bytes

    @property
    def expected(self) -> str:
        return f"{self.runs} times {self.single.expected}"

    def pack(self, messages: Array) -> Bytes:
        return np.concatenate([self.single.pack(messages[:, run]) for run in range(self.runs)], axis=1)

    def read(self, rows: Bytes) -> tuple[Array, Mask]:
        found = [self.single.read(np.ascontiguousarray(part)) for part in np.split(rows, self.runs, axis=1)]
        return np.stack([messages for messages, _ in found], axis=1), np.all([good for _, good in found], axis=0)


@dataclass(frozen=True)
class RepeatedReading(Reading):
    """The mean over all runs of all users, as if each run were a user."""

    single: Reading
    runs: int

    def accumulate(self, messages: Array) -> Array:
        return self.single.accumulate(messages.reshape(-1, *messages.shape[2:]))

    def finish(self, total: Array, users: int) -> Estimate:
        estimate = self.single.finish(total, users * self.runs)
        return replace(estimate, users=users)

    def sways(self, messages: float) -> Sequence[Sway] | None:
        """A mean over runs that are all alike is what one of them is."""
        return self.single.sways(messages)

    def truth(self, values: Array) -> Floats:
        return self.single.truth(values)

    def variance(self, values: Array) -> Floats:
        return np.asarray(self.single.variance(values) / self.runs)


@dataclass(frozen=True)
class RepeatedReference(Reference):
    """Independent draws of the reference law of one run: densities multiply, and so does what it costs to try them."""

    single: Reference
    runs: int

    @property
    def ratio(self) -> float:
        return above(Fraction(self.single.ratio) ** self.runs)

    @property
    def least_ratio(self) -> Fraction:
        return self.single.least_ratio**self.runs

    @property
    def words(self) -> int:
        return self.runs * self.single.words

    def messages(self, words: Words) -> Array:
        drawn = self.single.messages(words.reshape(-1, self.single.words))
        return drawn.reshape(-1, self.runs, *drawn.shape[1:])

    def drawn(self, values: Array, source: RandomSource) -> Array:
        """One for each run."""
        return np.stack([self.single.drawn(values, source) for _ in range(self.runs)], axis=1)

    def acceptance(self, values: Array, messages: Array) -> Floats:
        every = [rows.reshape(-1, *rows.shape[2:]) for rows in (values, messages)]
        chances = self.single.acceptance(*every).reshape(-1, self.runs).prod(axis=1)
        # The product of the ratios was rounded up.
        return np.asarray(chances * float(Fraction(self.single.ratio) ** self.runs / Fraction(self.ratio)))

    @property
    def acceptance_error(self) -> float:
        return above(self.runs * Fraction(self.single.acceptance_error))

    @property
    def rounding(self) -> Fraction:
        """That of each run, and of their product."""
        return 2 * self.runs * self.single.rounding
