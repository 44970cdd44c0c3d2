"""Reference laws: what every output law is near to, drawn from a fixed number of uniform words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb
from numpy.typing import NDArray

from shuffledp.array import Array, Floats, Integers, Words
from shuffledp.mechanisms.parts.own_region import OwnRegion
from shuffledp.numerics.ball import above, precision, rational, round_up
from shuffledp.sampling.random import RandomSource

HALF = np.uint64(32)
LOW = np.uint64((1 << 32) - 1)
WORDS_OF_AN_INTEGER = 2
"""Words that one bounded integer consumes: no value's probability is then off by more than a relative 2^-65."""


ACCEPTANCE_ROUNDING = Fraction(1, 1 << 50)
"""The relative error of a few floats multiplied."""


class Reference(ABC):
    """Every output law R(x) is within a bounded ratio of one reference law ρ that needs no input."""

    @property
    @abstractmethod
    def ratio(self) -> float:
        """C: at least the largest R(x)(y)/ρ(y) over all inputs and messages, rounded up."""

    @property
    @abstractmethod
    def least_ratio(self) -> Fraction:
        """At most the smallest R(x)(y)/ρ(y), above 0."""

    @property
    def deletion_epsilon(self) -> float:
        """Every R(x) is within e^{±this} of ρ, rounded up."""
        return log_above(max(Fraction(self.ratio), 1 / self.least_ratio))

    @property
    @abstractmethod
    def words(self) -> int:
        """How many uniform 64-bit words one draw from ρ consumes."""

    @property
    def steps(self) -> float:
        """Steps that one draw takes beyond going through its words."""
        return 0.0

    @abstractmethod
    def messages(self, words: Words) -> Array:
        """One message of law ρ per row of ``words`` uniform words; the same words give the same message."""

    def drawn(self, values: Array, source: RandomSource) -> Array:
        """What ``acceptance`` takes in place of checked values: by default these.

        Where R(x) is a mixture, one of its parts may be drawn for each value, whose law is then that of ``acceptance``:
        what holds for every two parts holds for their mixtures.
        """
        del source
        return values

    @abstractmethod
    def acceptance(self, values: Array, messages: Array) -> Floats:
        """R(x)(y)/(C·ρ(y)), between 0 and 1, for each row's ``drawn`` value x and message y.

        Right to a relative ``rounding`` and up to e^acceptance_error too large, what the law of ``messages`` lacks to ρ
        included.
        """

    @property
    def acceptance_error(self) -> float:
        """κ: the log of the largest factor by which ``acceptance`` may be too large; 0 where it is computed exactly."""
        return 0.0

    @property
    def rounding(self) -> Fraction:
        """The relative error of ``acceptance``, at most."""
        return ACCEPTANCE_ROUNDING


class ApproximateReference(Reference):
    """The same for a randomizer that is private only up to δ: ``acceptance`` may exceed 1 where a ratio exceeds C."""

    @property
    def least_ratio(self) -> Fraction:
        """No ratio is known to be above 0."""
        return Fraction(0)

    @property
    @abstractmethod
    def deletion_epsilon(self) -> float:
        """Every R(x) is within e^{±this} of ρ, up to ``deletion_delta``."""

    @property
    @abstractmethod
    def deletion_delta(self) -> float:
        """Every R(x) and ρ are (deletion_epsilon, this)-close both ways; C is e^deletion_epsilon, rounded up."""

    @property
    @abstractmethod
    def replacement_epsilon(self) -> float:
        """Every two output laws are (this, replacement_delta)-close."""

    @property
    @abstractmethod
    def replacement_delta(self) -> float: ...


@dataclass(frozen=True)
class UniformReference(Reference):
    """The message is uniform, or else uniform on the input's region: ρ is uniform on all messages.

    ``owns`` says whether each message is in the region of the value beside it.

    Theorem: [LC] Section 3: R(x) is within e^{±ε} of ρ for ε = max(log inside, −log outside), probabilities in units of
    the uniform one; the acceptance probability R(x)(y)/(C·ρ(y)), C = inside, is 1 in the region.
    """

    region: OwnRegion
    owns: Callable[[Array, Array], NDArray[np.bool_]]

    @property
    def ratio(self) -> float:
        return above(self.region.inside)

    @property
    def least_ratio(self) -> Fraction:
        return self.region.outside

    def acceptance(self, values: Array, messages: Array) -> Floats:
        ratio = Fraction(self.ratio)
        inside, outside = float(self.region.inside / ratio), float(self.region.outside / ratio)
        return np.where(self.owns(values, messages), inside, outside)


@dataclass(frozen=True)
class UniformNumber(UniformReference):
    """The same for messages that are numbers below ``outputs``."""

    outputs: int

    @property
    def words(self) -> int:
        return WORDS_OF_AN_INTEGER

    def messages(self, words: Words) -> Array:
        return integers_below(self.outputs, words)


def exact_references(given: Sequence[Reference | None]) -> tuple[Reference, ...] | None:
    """All of them, where each is there and bounds every ratio; else None."""
    exact = tuple(one for one in given if one is not None and not isinstance(one, ApproximateReference))
    return exact if len(exact) == len(given) else None


def log_above(ratio: Fraction) -> float:
    """The logarithm of an exact number, rounded up."""
    with precision(128):
        return round_up(arb(rational(ratio)).log())


def integers_below(bound: int, words: Words) -> Integers:
    """⌊w·bound/2^128⌋ for each row's two words, w = first·2^64 + second: uniform below ``bound`` ≤ 2^63."""
    factor = np.uint64(bound)
    low, high = words[:, 0] * factor, _high_product(words[:, 0], factor)
    carry = low + _high_product(words[:, 1], factor) < low
    return np.asarray((high + carry).view(np.int64))


def _high_product(words: Words, factor: np.uint64) -> Words:
    """The upper 64 bits of the 128 of each product, by halves."""
    upper, lower = words >> HALF, words & LOW
    factor_upper, factor_lower = factor >> HALF, factor & LOW
    first, second = upper * factor_lower, lower * factor_upper
    middle = (lower * factor_lower >> HALF) + (first & LOW) + (second & LOW)
    return np.asarray(upper * factor_upper + (first >> HALF) + (second >> HALF) + (middle >> HALF))
