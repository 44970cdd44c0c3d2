"""The two-sided geometric law (discrete Laplace), drawn exactly."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from flint import arb

from shuffledp.array import Integers
from shuffledp.numerics.ball import rational
from shuffledp.sampling.coin import RealCoin
from shuffledp.sampling.random import RandomSource


@dataclass(frozen=True)
class TwoSidedGeometric:
    """Whole numbers z with probability (1−λ)/(1+λ)·λ^|z|, λ = e^−rate, those beyond ±reach moved to ±reach.

    z is 0 with probability (1−λ)/(1+λ); else its sign is a fair coin and |z|−1 is geometric. The binary digits of a
    geometric number are independent: digit i is 1 with probability λ^(2^i)/(1+λ^(2^i)), because
    Π(1+λ^(2^i)) = 1/(1−λ); and it is 2^m or more with probability λ^(2^m). All these are coins of an irrational
    probability (e to a rational power), drawn exactly.
    """

    rate: Fraction
    reach: int

    def draw(self, source: RandomSource, count: int) -> Integers:
        """``count`` independent numbers."""
        size = np.ones(count, dtype=np.int64)
        for place, coin in enumerate(self._digits):
            size += coin.flip(source, count).astype(np.int64) << place
        np.minimum(size, self.reach, out=size)
        size *= self._moves.flip(source, count)
        negative = (source.words(count) & np.uint64(1)).astype(np.bool_)
        return np.negative(size, out=size, where=negative)

    @cached_property
    def _digits(self) -> tuple[RealCoin, ...]:
        """One coin a digit up to the reach; the last says whether the number is beyond them all."""
        places = (self.reach - 1).bit_length()
        return (*(self._digit(place) for place in range(places)), self._beyond(places))

    def _digit(self, place: int) -> RealCoin:
        return RealCoin(_Logistic(1, self.rate * (1 << place)))

    def _beyond(self, places: int) -> RealCoin:
        return RealCoin(_Power(self.rate * -(1 << places)))

    @cached_property
    def _moves(self) -> RealCoin:
        """z is not 0."""
        return RealCoin(_Logistic(2, self.rate))


@dataclass(frozen=True)
class _Power:
    """e^exponent."""

    exponent: Fraction

    def __call__(self) -> arb:
        return arb(rational(self.exponent)).exp()


@dataclass(frozen=True)
class _Logistic:
    """times/(1 + e^exponent)."""

    times: int
    exponent: Fraction

    def __call__(self) -> arb:
        return self.times / (1 + arb(rational(self.exponent)).exp())
