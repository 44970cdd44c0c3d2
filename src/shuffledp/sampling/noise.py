"""Exact samplers of noise on whole numbers (discrete Gaussian, discrete Laplace, Pólya, Skellam, Poisson), and normals.

Pólya and Skellam noise is divisible: the shares of many users add up to noise of a known law.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from shuffledp._core.validation import Floats, Integers, Words
from shuffledp.numerics.ball_arithmetic import integer_below, precision, to_rational
from shuffledp.sampling.random_sources import WORD_RANGE, RandomSource, RealCoin

# --- Discrete Gaussian ---


WHOLE_BITS = 62
PROBABILITY_UNITS = 1 << WHOLE_BITS
MIN_BITS = 32
"""The share that a table leaves to the next one is at least 2^-32, so that it is known to as many digits."""
REACH_BITS = 128
"""Numbers of probability at most 2^-128 are not drawn."""
BITS = 256


@dataclass(frozen=True)
class DiscreteGaussian:
    """The discrete Gaussian of parameter s = ``deviation``: P(z) ∝ e^(−z²/2s²) to table precision, up to about 13 s.

    |z| is drawn from a table in units of 2^-62; its last entry leads to a table of larger numbers, which is drawn from
    in turn, and so on; the sign is a fair coin. ``probability_units`` are exactly the probabilities that result.
    """

    deviation: Fraction

    def _sizes(self) -> list[arb]:
        """Returns e^(−z²/2s²) for z ≥ 0, up to the reach; halved at 0, which has no sign."""
        rate = 1 / (2 * arb(to_rational(self.deviation)) ** 2)
        reach = math.ceil(math.sqrt(2 * (REACH_BITS - 1) * math.log(2)) * float(self.deviation))
        return [(-rate * z * z).exp() / (2 if z == 0 else 1) for z in range(max(1, reach) + 1)]

    @cached_property
    def _tables(self) -> tuple[tuple[int, Integers], ...]:
        """The first number of each table, and its units.

        The last entry of each but the last leads to the next table.
        """
        result = []
        start = 0
        with precision(BITS):
            sizes = self._sizes()
            while start < len(sizes):
                rest = sizes[start:]
                total = sum(rest, arb(0))
                units = [integer_below(size / total * PROBABILITY_UNITS) for size in rest]
                after = np.cumsum(np.array(units[::-1], dtype=object))[::-1]
                kept = max(1, sum(1 for rest_units in after[1:] if rest_units >= PROBABILITY_UNITS >> MIN_BITS))
                if kept < len(units):
                    table = [*units[:kept], PROBABILITY_UNITS - sum(units[:kept])]
                else:
                    table = [units[0] + PROBABILITY_UNITS - sum(units), *units[1:]]
                result.append((start, np.array(table, dtype=np.int64)))
                start += kept
        return tuple(result)

    @cached_property
    def probability_units(self) -> tuple[int, tuple[int, ...]]:
        """Probability 1 in units, and the units of z = 0, 1, 2, …; those of −z are the same."""
        levels = len(self._tables)
        whole = 1 << (WHOLE_BITS * levels + 1)
        units: list[int] = []
        lead = 1
        for level, (_, table) in enumerate(self._tables):
            own = table.tolist() if level == levels - 1 else table.tolist()[:-1]
            # A size z > 0 is z or −z.
            scale = lead << (WHOLE_BITS * (levels - 1 - level))
            units += [scale * unit * (2 if not units and k == 0 else 1) for k, unit in enumerate(own)]
            lead *= int(table[-1])
        return whole, tuple(units)

    @property
    def reach(self) -> int:
        """The largest number that is drawn."""
        return len(self.probability_units[1]) - 1

    @cached_property
    def variance(self) -> float:
        whole, units = self.probability_units
        return float(Fraction(2 * sum(z * z * unit for z, unit in enumerate(units)), whole))

    def draw(self, source: RandomSource, count: int) -> Integers:
        """Returns ``count`` independent numbers."""
        size = np.empty(count, dtype=np.int64)
        waiting = np.arange(count)
        for level, (start, table) in enumerate(self._tables):
            found = np.cumsum(table).searchsorted(source.integers_below(PROBABILITY_UNITS, len(waiting)), side="right")
            size[waiting] = start + found
            if level < len(self._tables) - 1:
                waiting = waiting[found == len(table) - 1]
        negative = (source.words(count) & np.uint64(1)).astype(np.bool_)
        return np.negative(size, out=size, where=negative)


# --- Laws with irrational probabilities, drawn by inversion ---


WORD_BITS = WORD_RANGE.bit_length() - 1
DENSITY_GUARD_BITS = 32
MAX_VALUES = 1 << 20
"""Largest size of a table."""

Real = Callable[[], arb]
"""A real number as a ball at the working precision."""


class RealLaw(ABC):
    """A law on whole numbers from ``first`` on, drawn exactly.

    A uniform real number is compared with the cumulative probabilities digit by digit, to base 2^64. The first digit
    decides unless it is the first digit of one of them; then as many more digits are drawn as are needed.
    """

    first: int = 0

    @abstractmethod
    def probabilities(self) -> Iterator[arb]:
        """Yields the probabilities of ``first``, ``first`` + 1, …, as balls at the working precision, without end."""

    def draw(self, source: RandomSource, count: int) -> Integers:
        """Returns ``count`` independent numbers."""
        result = np.full(count, self.first, dtype=np.int64)
        words = source.words(count)
        # Most draws of a rare number end here: those below the first digit are the first number.
        later = np.flatnonzero(words >= self._table[0][0])
        result[later] += self._places(words[later], source)
        return result

    def _places(self, words: Words, source: RandomSource) -> Integers:
        """Returns the number of cumulative probabilities that are at most the number that begins with each word."""
        digits, whole = self._table
        places = np.searchsorted(digits, words, side="left")
        undecided = digits[np.minimum(places, len(digits) - 1)] == words
        if not whole:
            undecided |= places == len(digits)
        for place in np.flatnonzero(undecided).tolist():
            places[place] = self._decide(int(words[place]), source)
        return np.asarray(places)

    @cached_property
    def _table(self) -> tuple[Words, bool]:
        """The first digits of the cumulative probabilities, and True if they cover all that one digit distinguishes."""
        bits = 2 * WORD_BITS + DENSITY_GUARD_BITS
        while True:
            with precision(bits):
                total = arb(0)
                found: list[int] = []
                for chance in self.probabilities():
                    total += chance
                    if total > 1 - arb(2) ** -WORD_BITS:
                        # All later ones begin with the largest digit.
                        return np.array([*found, WORD_RANGE - 1], dtype=np.uint64), True
                    digit = (total * arb(2) ** WORD_BITS).floor().unique_fmpz()
                    if digit is None:
                        break
                    found.append(int(digit))
                    if len(found) == MAX_VALUES:
                        return np.array(found, dtype=np.uint64), False
            bits *= 2

    def _decide(self, word: int, source: RandomSource) -> int:
        """Returns the place of a uniform number that begins with this digit, drawing further digits as needed."""
        number, digits = word, 1
        while True:
            number, digits = number * WORD_RANGE + int(source.words(1)[0]), digits + 1
            place = self._place(number, digits)
            if place is not None:
                return place

    def _place(self, number: int, digits: int) -> int | None:
        """Returns the number of cumulative probabilities that are at most the number.

        Returns None if these digits do not decide.
        """
        with precision((digits + 1) * WORD_BITS + DENSITY_GUARD_BITS):
            low, high = (arb(number + step) / arb(2) ** (WORD_BITS * digits) for step in (0, 1))
            total = arb(0)
            for place, chance in enumerate(self.probabilities()):
                total += chance
                if total >= high:
                    return place
                if not total <= low or chance.is_zero():
                    return None
        raise AssertionError("a law has no end")


@dataclass(frozen=True)
class PoissonLaw(RealLaw):
    """The Poisson law: k with probability e^−m·m^k/k!."""

    mean: Real = field(repr=False)

    def probabilities(self) -> Iterator[arb]:
        mean = self.mean()
        chance, k = (-mean).exp(), 0
        while True:
            yield chance
            k += 1
            chance = chance * mean / k


@dataclass(frozen=True)
class LogarithmicLaw(RealLaw):
    """The logarithmic law: k ≥ 1 with probability s^k/(k·log(1/(1−s))), the cluster sizes of a negative binomial."""

    ratio: Real = field(repr=False)

    first = 1

    def probabilities(self) -> Iterator[arb]:
        ratio = self.ratio()
        power, k = 1 / -(1 - ratio).log(), 0
        while True:
            k += 1
            power = power * ratio
            yield power / k


@dataclass(frozen=True)
class ChoiceLaw(RealLaw):
    """One of finitely many indices, with probabilities proportional to these weights."""

    weights: tuple[Real, ...] = field(repr=False)

    def probabilities(self) -> Iterator[arb]:
        weights = [weight() for weight in self.weights]
        total = sum(weights, arb(0))
        *others, _ = weights
        for weight in others:
            yield weight / total
        rest = sum(others, arb(0)) / total
        yield 1 - rest
        while True:
            yield arb(0)


SHARE_GUARD_BITS = 16
MAX_MEAN = 1 << 13
"""A Poisson number with a larger mean is drawn as a sum of several, so that no table is long."""


@dataclass(frozen=True)
class _BlockLaw(RealLaw):
    """The block b, 2^b ≤ k < 2^(b+1), of a proposed number k: with weight λ^(2^b)·(1 − λ^(2^b))/2^b."""

    rate: Fraction

    def probabilities(self) -> Iterator[arb]:
        rate, weights, place = arb(to_rational(self.rate)), list[arb](), 0
        # From here on λ^(2^b) is below the working precision, and all later weights sum to less than twice
        # the next one.
        while not weights or not rate * 2**place > (ctx.prec + SHARE_GUARD_BITS) * arb(2).log():
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
class _DigitProbability:
    """1/(1 + e^exponent): the probability of a digit of a geometric number."""

    exponent: Fraction

    def __call__(self) -> arb:
        return 1 / (1 + arb(to_rational(self.exponent)).exp())


@dataclass(frozen=True)
class LogarithmicSize:
    """The law of k ≥ 1 proportional to λ^k/k, λ = e^−rate, without a long table even if λ is close to 1.

    In the block 2^b ≤ k < 2^(b+1) the number k is proposed with probability proportional to λ^k/2^b, and accepted with
    probability 2^b/k ≥ 1/2. The proposals of a block have independent binary digits below the first: digit i is 1 with
    probability 1/(1 + λ^−(2^i)), as the digits of a geometric number; and Σ λ^k over a block is proportional to
    λ^(2^b)·(1 − λ^(2^b)), which determines how often the block is proposed.
    """

    rate: Fraction

    def draw(self, source: RandomSource, count: int) -> Integers:
        """Returns ``count`` independent numbers."""
        found = np.zeros(count, dtype=np.int64)
        waiting = np.arange(count)
        while waiting.size:
            proposed, blocks = self._propose(source, waiting.size)
            taken = _accept_proposals(proposed, blocks, source)
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
            self._coins.append(RealCoin(_DigitProbability(self.rate * (1 << len(self._coins)))))
        return self._coins[place]

    @cached_property
    def _coins(self) -> list[RealCoin]:
        return []

    @cached_property
    def _blocks(self) -> _BlockLaw:
        return _BlockLaw(self.rate)


def _accept_proposals(
    numbers: Integers, blocks: Integers, source: RandomSource
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Returns coins that are True with probability exactly 2^b/k: a uniform number below k is below 2^b.

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
class _MeanClusters:
    """−2·shape·ln(1 − e^−rate): the mean number of clusters of two negative binomials."""

    rate: Fraction
    shape: Fraction

    def __call__(self) -> arb:
        return -2 * arb(to_rational(self.shape)) * (-arb(to_rational(-self.rate)).expm1()).log()


@dataclass(frozen=True)
class PolyaDifference:
    """X − Y, each negative binomial of shape a (``shape``) and ratio λ = e^−rate: P(X = i) ∝ C(i+a−1, i)·λ^i.

    The shares of h users with a = 1/h add up to the two-sided geometric law (discrete Laplace). A negative binomial
    number is the sum of a Poisson(−a·ln(1−λ)) number of clusters of logarithmic sizes; those of X and of Y are drawn
    together, each with a fair sign.
    """

    rate: Fraction
    shape: Fraction

    def draw(self, source: RandomSource, count: int) -> Integers:
        """Returns ``count`` independent numbers."""
        result = np.zeros(count, dtype=np.int64)
        clusters = self._cluster_law.draw(source, count)
        some = np.flatnonzero(clusters)
        owners = np.repeat(some, clusters[some])
        sizes = self._size_law.draw(source, owners.size)
        negative = (source.words(owners.size) & np.uint64(1)).astype(np.bool_)
        np.add.at(result, owners, np.where(negative, -sizes, sizes))
        return result

    @cached_property
    def _cluster_law(self) -> PoissonLaw:
        return PoissonLaw(_MeanClusters(self.rate, self.shape))

    @cached_property
    def _size_law(self) -> LogarithmicSize:
        return LogarithmicSize(self.rate)


@dataclass(frozen=True)
class _ExactNumber:
    number: Fraction

    def __call__(self) -> arb:
        return arb(to_rational(self.number))


@dataclass(frozen=True)
class SkellamDifference:
    """X − Y, each Poisson with this mean: shares add up to the same law with the sum of their means."""

    mean: Fraction
    pieces: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pieces", max(1, -(-self.mean // MAX_MEAN)))

    def draw(self, source: RandomSource, count: int) -> Integers:
        """Returns ``count`` independent numbers."""
        result = np.zeros(count, dtype=np.int64)
        for _ in range(self.pieces):
            result += self._piece.draw(source, count)
            result -= self._piece.draw(source, count)
        return result

    @cached_property
    def _piece(self) -> PoissonLaw:
        return PoissonLaw(_ExactNumber(self.mean / self.pieces))


# --- Two-sided geometric law (discrete Laplace) ---


@dataclass(frozen=True)
class TwoSidedGeometric:
    """The law P(z) = (1−λ)/(1+λ)·λ^|z|, λ = e^−rate, with numbers beyond ±reach moved to ±reach.

    z is 0 with probability (1−λ)/(1+λ); else its sign is a fair coin and |z|−1 is geometric. The binary digits of a
    geometric number are independent: digit i is 1 with probability λ^(2^i)/(1+λ^(2^i)), because
    Π(1+λ^(2^i)) = 1/(1−λ); and it is 2^m or more with probability λ^(2^m). All these are coins of an irrational
    probability (e to a rational power), drawn exactly.
    """

    rate: Fraction
    reach: int

    def draw(self, source: RandomSource, count: int) -> Integers:
        """Returns ``count`` independent numbers."""
        size = np.ones(count, dtype=np.int64)
        for place, coin in enumerate(self._digits):
            size += coin.flip(source, count).astype(np.int64) << place
        np.minimum(size, self.reach, out=size)
        size *= self._nonzero_coin.flip(source, count)
        negative = (source.words(count) & np.uint64(1)).astype(np.bool_)
        return np.negative(size, out=size, where=negative)

    @cached_property
    def _digits(self) -> tuple[RealCoin, ...]:
        """One coin for each digit up to the reach; the last is True if the number is beyond them all."""
        places = (self.reach - 1).bit_length()
        return (*(self._digit_coin(place) for place in range(places)), self._tail_coin(places))

    def _digit_coin(self, place: int) -> RealCoin:
        return RealCoin(_Logistic(1, self.rate * (1 << place)))

    def _tail_coin(self, places: int) -> RealCoin:
        return RealCoin(_Power(self.rate * -(1 << places)))

    @cached_property
    def _nonzero_coin(self) -> RealCoin:
        """The coin that is True if z is not 0."""
        return RealCoin(_Logistic(2, self.rate))


@dataclass(frozen=True)
class _Power:
    """e^exponent."""

    exponent: Fraction

    def __call__(self) -> arb:
        return arb(to_rational(self.exponent)).exp()


@dataclass(frozen=True)
class _Logistic:
    """times/(1 + e^exponent)."""

    times: int
    exponent: Fraction

    def __call__(self) -> arb:
        return self.times / (1 + arb(to_rational(self.exponent)).exp())


# --- Standard normal and exponential numbers, with a known distance to the real-number laws ---
#
# Box–Muller: the radius is √(2E) with E exponential, the angle uniform. A word stands for a cell of real numbers, and
# the float computed from it is close to the result for every real number of the cell: the radius to a relative 2^-44,
# the direction of a pair to 2^-49, together 2^-43 of the pair's length. Near the ends of its range a uniform number of
# 52 digits would not suffice, and more are used: as many as needed (``normals``), or 52 more (``normals_from_words``,
# where this fails for a pair with probability 2^-51).
#
# Sine and cosine are Taylor polynomials: faster here than the library's, and their error is known.


MANTISSA = 52
ONE_BITS = np.uint64(0x3FF << MANTISSA)
MANTISSA_MASK = np.uint64((1 << MANTISSA) - 1)
SIGN_BIT = np.uint64(1 << 63)
MIN_END_DISTANCE = 2.0**-8
"""Uniform numbers this close to 0 or 1 get more digits."""
TERMS = 11
"""(π/2)^22/22! < 2^-55: the omitted terms of either series are below a float's rounding."""
COSINE = [(-1) ** k * math.pi ** (2 * k) / math.factorial(2 * k) for k in range(TERMS)]
SINE = [(-1) ** k * math.pi ** (2 * k + 1) / math.factorial(2 * k + 1) for k in range(TERMS)]


def normals(source: RandomSource, rows: int, columns: int) -> Floats:
    """Returns independent standard normal numbers."""
    pairs = -(-columns // 2)
    exponential = exponentials(source, rows * pairs).reshape(rows, pairs)
    return _pairs(exponential, source.words(rows * pairs).reshape(rows, pairs))[:, :columns]


def normals_from_words(words: Words) -> Floats:
    """Returns two standard normal numbers for every three words of a row; equal words give equal numbers.

    Flipping the highest bit of each of the last third of a row's words flips the signs of all its numbers.
    """
    rows, pairs = len(words), words.shape[1] // 3
    first = words[:, :pairs].reshape(-1)
    exponential, outer = _first_digits(first)
    more = _uniform(words[:, pairs : 2 * pairs].reshape(-1)[outer])
    exponential[outer] = _UniformNearEnd(first[outer]).minus_log(more)
    return _pairs(exponential.reshape(rows, pairs), words[:, 2 * pairs :])


def exponentials(source: RandomSource, count: int) -> Floats:
    """Returns independent exponential numbers of mean 1, each correct to a relative 2^-43."""
    words = source.words(count)
    result, outer = _first_digits(words)
    end = _UniformNearEnd(words[outer])
    more = _uniform(source.words(outer.size))
    while (empty := end.find_zeros()).size:
        end.append_digits(empty, more)
        more[empty] = _uniform(source.words(empty.size))
    result[outer] = end.minus_log(more)
    return result


def _first_digits(words: Words) -> tuple[Floats, NDArray[np.int64]]:
    """Returns −log of the uniform numbers of 52 digits, and the places where these digits do not suffice."""
    uniform = _uniform(words)
    outer = np.flatnonzero((uniform < MIN_END_DISTANCE) | (uniform > 1 - MIN_END_DISTANCE))
    result: Floats = np.log(uniform, out=uniform)
    np.negative(result, out=result)
    return result, outer


def _uniform(words: Words) -> Floats:
    """Returns the middle of the word's cell in (0, 1), from its first 52 bits; exact."""
    bits = words >> np.uint64(64 - MANTISSA)
    bits |= ONE_BITS
    result = bits.view(np.float64)
    result -= 1 - 2.0**-53
    return result


class _UniformNearEnd:
    """Uniform numbers by their distance to the nearer end of (0, 1): (whole + more)·2^-places, ``more`` below 1."""

    def __init__(self, words: Words) -> None:
        digits = words >> np.uint64(64 - MANTISSA)
        self.upper = digits >> np.uint64(MANTISSA - 1) == 1
        self.whole = np.where(self.upper, MANTISSA_MASK - digits, digits).astype(np.float64)
        self.places = np.full(len(words), float(MANTISSA))

    def find_zeros(self) -> NDArray[np.int64]:
        """Returns the places where all digits so far are 0."""
        return np.flatnonzero(self.whole == 0)

    def append_digits(self, at: NDArray[np.int64], more: Floats) -> None:
        """Appends the digits of ``more`` to the whole ones."""
        self.whole[at] = np.floor(more[at] * 2.0**MANTISSA)
        self.places[at] += MANTISSA

    def minus_log(self, more: Floats) -> Floats:
        distance = self.whole + more
        low = self.places * math.log(2) - np.log(distance)
        return np.where(self.upper, -np.log1p(-distance * np.exp2(-self.places)), low)


def _pairs(exponential: Floats, words: Words) -> Floats:
    """Returns both coordinates of each pair, first those by the cosine, then those by the sine."""
    rows, pairs = words.shape
    result = np.empty((rows, 2 * pairs))
    turn = ((words & MANTISSA_MASK) | ONE_BITS).view(np.float64)
    turn -= 1.5
    square = turn * turn
    radius = np.sqrt(2 * exponential)
    # A half turn by the sign of the radius: angles reach from −π/2 to π/2 only.
    radius.view(np.uint64)[...] |= words & SIGN_BIT
    cosine, sine = _polynomial(COSINE, square), _polynomial(SINE, square)
    np.multiply(cosine, radius, out=result[:, :pairs])
    sine *= turn
    np.multiply(sine, radius, out=result[:, pairs:])
    return result


def _polynomial(coefficients: list[float], at: Floats) -> Floats:
    """Evaluates a polynomial by Horner's rule."""
    value = at * coefficients[-1]
    for coefficient in coefficients[-2:0:-1]:
        value += coefficient
        value *= at
    value += coefficients[0]
    return value
