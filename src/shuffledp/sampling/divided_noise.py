"""Shares of noise: numbers that add up, over so many people, to noise of a known law. All are drawn exactly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
from flint import arb, ctx

from shuffledp.array import Integers
from shuffledp.numerics.ball import rational
from shuffledp.sampling.coin import RealCoin
from shuffledp.sampling.random import RandomSource
from shuffledp.sampling.real_law import PoissonLaw, RealLaw

GUARD_BITS = 16
LARGEST_MEAN = 1 << 13
"""A Poisson number with a larger mean is a sum of several, so that no table is long."""


@dataclass(frozen=True)
class _Blocks(RealLaw):
    """The block b, 2^b ≤ k < 2^(b+1), of a number k that is proposed: in proportion to λ^(2^b)·(1 − λ^(2^b))/2^b."""

    rate: Fraction

    def chances(self) -> Iterator[arb]:
        rate, weights, place = arb(rational(self.rate)), list[arb](), 0
        # From here on λ^(2^b) is below the working precision, and all that follow sum to less than twice the next one.
        while not weights or not rate * 2**place > (ctx.prec + GUARD_BITS) * arb(2).log():
            weights.append(_block_weight(rate, place))
            place += 1
        rest = 2 * (-rate * 2**place).exp()
        total = sum(weights, arb(0)) + rest.union(arb(0))
        for weight in weights:
            yield weight / total
        while True:
            yield _block_weight(rate, place) / total
            place += 1


def _block_weight(rate: arb, place: int) -> arb:
    power = -rate * 2**place
    weight: arb = -power.exp() * power.expm1() / arb(2) ** place
    return weight


@dataclass(frozen=True)
class _Digit:
    """1/(1 + e^exponent): the chance of a digit of a geometric number."""

    exponent: Fraction

    def __call__(self) -> arb:
        return 1 / (1 + arb(rational(self.exponent)).exp())


@dataclass(frozen=True)
class LogarithmicSize:
    """Whole numbers k ≥ 1 with probability in proportion to λ^k/k, λ = e^−rate, however near to 1 λ is: no long table.

    In the block 2^b ≤ k < 2^(b+1) the number k is proposed with probability in proportion to λ^k/2^b, and taken with
    probability 2^b/k ≥ 1/2. The proposals of a block have independent binary digits below the first: digit i is 1 with
    probability 1/(1 + λ^−(2^i)), as the digits of a geometric number; and Σ λ^k over a block is in proportion to
    λ^(2^b)·(1 − λ^(2^b)), which says how often the block is proposed.
    """

    rate: Fraction

    def draw(self, source: RandomSource, count: int) -> Integers:
        """``count`` independent numbers."""
        found = np.zeros(count, dtype=np.int64)
        waiting = np.arange(count)
        while waiting.size:
            proposed, blocks = self._propose(source, waiting.size)
            taken = _taken(proposed, blocks, source)
            found[waiting[taken]] = proposed[taken]
            waiting = waiting[~taken]
        return found

    def _propose(self, source: RandomSource, count: int) -> tuple[Integers, Integers]:
        blocks = self._blocks.draw(source, count)
        numbers = np.left_shift(np.int64(1), blocks)
        for place in range(int(blocks.max(initial=0))):
            longer = np.flatnonzero(blocks > place)
            numbers[longer] += self._coin(place).flip(source, longer.size).astype(np.int64) << place
        return numbers, blocks

    def _coin(self, place: int) -> RealCoin:
        while len(self._coins) <= place:
            self._coins.append(RealCoin(_Digit(self.rate * (1 << len(self._coins)))))
        return self._coins[place]

    @cached_property
    def _coins(self) -> list[RealCoin]:
        return []

    @cached_property
    def _blocks(self) -> _Blocks:
        return _Blocks(self.rate)


def _taken(numbers: Integers, blocks: Integers, source: RandomSource) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Coins that are True with probability exactly 2^b/k: a uniform number below k is below 2^b.

    It is drawn below 2^(b+1), and again where it is not below k.
    """
    taken = np.zeros(len(numbers), dtype=np.bool_)
    waiting = np.arange(len(numbers))
    while waiting.size:
        below = source.words(waiting.size) >> (63 - blocks[waiting]).astype(np.uint64)
        drawn = below.astype(np.int64)
        taken[waiting] = drawn >> blocks[waiting] == 0
        waiting = waiting[drawn >= numbers[waiting]]
    return taken


@dataclass(frozen=True)
class _Clusters:
    """−2·shape·ln(1 − e^−rate): how many clusters two negative binomials have on average."""

    rate: Fraction
    shape: Fraction

    def __call__(self) -> arb:
        return -2 * arb(rational(self.shape)) * (-arb(rational(-self.rate)).expm1()).log()


@dataclass(frozen=True)
class PolyaDifference:
    """X − Y, each negative binomial of shape a (``shape``) and ratio λ = e^−rate: P(X = i) ∝ C(i+a−1, i)·λ^i.

    The shares of h people with a = 1/h add up to the two-sided geometric law (discrete Laplace). A negative binomial
    number is the sum of a Poisson(−a·ln(1−λ)) number of clusters of logarithmic sizes; those of X and of Y are drawn
    together, each with a fair sign.
    """

    rate: Fraction
    shape: Fraction

    def draw(self, source: RandomSource, count: int) -> Integers:
        """``count`` independent numbers."""
        result = np.zeros(count, dtype=np.int64)
        clusters = self._clusters.draw(source, count)
        some = np.flatnonzero(clusters)
        owners = np.repeat(some, clusters[some])
        sizes = self._sizes.draw(source, owners.size)
        negative = (source.words(owners.size) & np.uint64(1)).astype(np.bool_)
        np.add.at(result, owners, np.where(negative, -sizes, sizes))
        return result

    @cached_property
    def _clusters(self) -> PoissonLaw:
        return PoissonLaw(_Clusters(self.rate, self.shape))

    @cached_property
    def _sizes(self) -> LogarithmicSize:
        return LogarithmicSize(self.rate)


@dataclass(frozen=True)
class _Exactly:
    number: Fraction

    def __call__(self) -> arb:
        return arb(rational(self.number))


@dataclass(frozen=True)
class SkellamDifference:
    """X − Y, each Poisson with this mean: shares of it add up to the same law with the means' sum."""

    mean: Fraction
    pieces: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pieces", max(1, -(-self.mean // LARGEST_MEAN)))

    def draw(self, source: RandomSource, count: int) -> Integers:
        """``count`` independent numbers."""
        result = np.zeros(count, dtype=np.int64)
        for _ in range(self.pieces):
            result += self._piece.draw(source, count)
            result -= self._piece.draw(source, count)
        return result

    @cached_property
    def _piece(self) -> PoissonLaw:
        return PoissonLaw(_Exactly(self.mean / self.pieces))
