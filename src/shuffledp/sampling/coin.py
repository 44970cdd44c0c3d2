"""Coins whose probability is an irrational number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from flint import arb
from numpy.typing import NDArray

from shuffledp.numerics.ball import precision
from shuffledp.sampling.random import WORD, RandomSource

WORD_BITS = WORD.bit_length() - 1


@dataclass(frozen=True)
class RealCoin:
    """A coin that is True with exactly the probability ``probability()``, an irrational number between 0 and 1.

    A uniform real number and the probability are compared digit by digit, to base 2^64. The first digit decides
    but for one case in 2^64; then the next one is drawn, and the probability is computed that far.
    """

    probability: Callable[[], arb] = field(repr=False)
    """A ball at the working precision."""

    def flip(self, source: RandomSource, count: int) -> NDArray[np.bool_]:
        """``count`` independent coins."""
        words = source.words(count)
        heads = np.asarray(words < self._first)
        undecided, place = np.flatnonzero(words == self._first), 1
        while undecided.size:
            words, digit = source.words(undecided.size), self._digit(place)
            heads[undecided] = words < digit
            undecided, place = undecided[words == digit], place + 1
        return heads

    @cached_property
    def _first(self) -> np.uint64:
        return self._digit(0)

    def _digit(self, place: int) -> np.uint64:
        """The digit of the probability at this place after the point, to base 2^64."""
        shift = WORD_BITS * (place + 1)
        bits = shift + WORD_BITS
        while True:
            with precision(bits):
                whole = (self.probability() * arb(2) ** shift).floor().unique_fmpz()
            if whole is not None:
                return np.uint64(int(whole) % WORD)
            bits *= 2
