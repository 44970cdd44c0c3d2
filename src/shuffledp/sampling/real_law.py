"""Laws on whole numbers whose probabilities are irrational, drawn exactly by inversion."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from flint import arb

from shuffledp.array import Integers, Words
from shuffledp.numerics.ball import precision
from shuffledp.sampling.random import WORD, RandomSource

WORD_BITS = WORD.bit_length() - 1
GUARD_BITS = 32
MOST_VALUES = 1 << 20
"""Most numbers that a table is made for."""

Real = Callable[[], arb]
"""A real number as a ball at the working precision."""


class RealLaw(ABC):
    """A law on whole numbers from ``first`` on, drawn exactly.

    A uniform real number is compared with the cumulative probabilities digit by digit, to base 2^64. The first digit
    decides unless it is the first digit of one of them; then as many more digits are drawn as are needed.
    """

    first: int = 0

    @abstractmethod
    def chances(self) -> Iterator[arb]:
        """The probabilities of ``first``, ``first`` + 1, …, as balls at the working precision, without end."""

    def draw(self, source: RandomSource, count: int) -> Integers:
        """``count`` independent numbers."""
        result = np.full(count, self.first, dtype=np.int64)
        words = source.words(count)
        # Most draws of a rare number end here: those below the first digit are the first number.
        later = np.flatnonzero(words >= self._table[0][0])
        result[later] += self._places(words[later], source)
        return result

    def _places(self, words: Words, source: RandomSource) -> Integers:
        """How many cumulative probabilities are at most the number that begins with each word."""
        digits, whole = self._table
        places = np.searchsorted(digits, words, side="left")
        undecided = digits[np.minimum(places, len(digits) - 1)] == words
        if not whole:
            undecided |= places == len(digits)
        for place in np.flatnonzero(undecided).tolist():
            places[place] = self._decided(int(words[place]), source)
        return np.asarray(places)

    @cached_property
    def _table(self) -> tuple[Words, bool]:
        """The first digits of the cumulative probabilities, and whether they go as far as a digit tells."""
        bits = 2 * WORD_BITS + GUARD_BITS
        while True:
            with precision(bits):
                total = arb(0)
                found: list[int] = []
                for chance in self.chances():
                    total += chance
                    if total > 1 - arb(2) ** -WORD_BITS:
                        # All beyond begin with the last digit of all.
                        return np.array([*found, WORD - 1], dtype=np.uint64), True
                    digit = (total * arb(2) ** WORD_BITS).floor().unique_fmpz()
                    if digit is None:
                        break
                    found.append(int(digit))
                    if len(found) == MOST_VALUES:
                        return np.array(found, dtype=np.uint64), False
            bits *= 2

    def _decided(self, word: int, source: RandomSource) -> int:
        """The place of a uniform number that begins with this digit, as far after the point as it takes."""
        number, digits = word, 1
        while True:
            number, digits = number * WORD + int(source.words(1)[0]), digits + 1
            place = self._place(number, digits)
            if place is not None:
                return place

    def _place(self, number: int, digits: int) -> int | None:
        """How many cumulative probabilities are at most the number; None where these digits do not decide."""
        with precision((digits + 1) * WORD_BITS + GUARD_BITS):
            low, high = (arb(number + step) / arb(2) ** (WORD_BITS * digits) for step in (0, 1))
            total = arb(0)
            for place, chance in enumerate(self.chances()):
                total += chance
                if total >= high:
                    return place
                if not total <= low or chance.is_zero():
                    return None
        raise AssertionError("a law has no end")


@dataclass(frozen=True)
class PoissonLaw(RealLaw):
    """Whole numbers k with probability e^−m·m^k/k!."""

    mean: Real = field(repr=False)

    def chances(self) -> Iterator[arb]:
        mean = self.mean()
        chance, k = (-mean).exp(), 0
        while True:
            yield chance
            k += 1
            chance = chance * mean / k


@dataclass(frozen=True)
class LogarithmicLaw(RealLaw):
    """Whole numbers k ≥ 1 with probability s^k/(k·log(1/(1−s))): the sizes of a negative binomial's clusters."""

    ratio: Real = field(repr=False)

    first = 1

    def chances(self) -> Iterator[arb]:
        ratio = self.ratio()
        power, k = 1 / -(1 - ratio).log(), 0
        while True:
            k += 1
            power = power * ratio
            yield power / k


@dataclass(frozen=True)
class ChoiceLaw(RealLaw):
    """One of a few kinds, with probabilities in proportion to these weights."""

    weights: tuple[Real, ...] = field(repr=False)

    def chances(self) -> Iterator[arb]:
        weights = [weight() for weight in self.weights]
        total = sum(weights, arb(0))
        *others, _ = weights
        for weight in others:
            yield weight / total
        rest = sum(others, arb(0)) / total
        yield 1 - rest
        while True:
            yield arb(0)
