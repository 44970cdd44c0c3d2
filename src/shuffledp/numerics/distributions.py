"""Probability laws in ball arithmetic: binomial, hypergeometric, Pólya differences, and finite laws of one summand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from flint import arb
from numpy.typing import NDArray

from shuffledp._core.validation import Floats
from shuffledp.numerics.ball_arithmetic import LARGEST_FLOAT, precision, round_down, round_up, to_rational


@dataclass(frozen=True)
class Coin:
    """A success probability and its complement, each accurate to its own relative digits."""

    success: arb
    failure: arb

    @classmethod
    def from_weights(cls, success: arb, failure: arb) -> Coin:
        """Returns the coin with these odds; an exact 0 stays exact."""
        if failure.is_zero():
            return cls(arb(1), arb(0))
        total = success + failure
        return cls(success / total, failure / total)

    def complement(self) -> Coin:
        return Coin(self.failure, self.success)


def point_mass(count: int, k: int, coin: Coin) -> arb:
    """Returns P(Bin(count) = k)."""
    if not 0 <= k <= count:
        return arb(0)
    if k == 0:
        return coin.failure**count
    if k == count:
        return coin.success**count
    log_ways = arb(count + 1).lgamma() - arb(k + 1).lgamma() - arb(count - k + 1).lgamma()
    return (log_ways + k * coin.success.log() + (count - k) * coin.failure.log()).exp()


def binomial_upper_tail(count: int, k: int, coin: Coin) -> arb:
    """Returns P(Bin(count) ≥ k), summed from the nearer end so that a tiny tail keeps its relative digits."""
    if k <= 0:
        return arb(1)
    if k > count:
        return arb(0)
    if k < count * float(coin.success.mid()):
        return 1 - _falling_binomial_sum(count, count - k + 1, coin.complement())
    return _falling_binomial_sum(count, k, coin)


def _falling_binomial_sum(count: int, k: int, coin: Coin) -> arb:
    """Returns Σ_{a ≥ k} P(Bin = a) for k near or above the mean.

    The ratios of the terms fall, so that a geometric series bounds the remainder.
    """
    term = point_mass(count, k, coin)
    total = term
    odds = coin.success / coin.failure
    for a in range(k, count):
        term = term * odds * (count - a) / (a + 1)
        total += term
        if term <= total.rad():
            ratio = odds * (count - a - 1) / (a + 2)
            if ratio < 1:
                return total + (term * ratio / (1 - ratio)).union(arb(0))
    return total


def masses_between(count: int, edges: Sequence[int], coin: Coin) -> list[arb]:
    """Returns P(a ≤ Bin(count) < b) for neighbours a, b among the rising ``edges``; success is neither 0 nor 1."""
    term, odds, result = point_mass(count, edges[0], coin), coin.success / coin.failure, []
    for first, end in itertools.pairwise(edges):
        total = arb(0)
        for a in range(first, end):
            total += term
            term = term * odds * (count - a) / (a + 1)
        result.append(total)
    return result


def tail_bound(count: int, k: int, coin: Coin) -> arb:
    """Returns Chernoff's bound exp(−count·KL(k/count, success)) of P(Bin ≥ k) above the mean, P(Bin ≤ k) below it."""
    share = arb(k) / count
    total = arb(0)
    if k > 0:
        total += k * (share / coin.success).log()
    if k < count:
        total += (count - k) * ((1 - share) / coin.failure).log()
    return (-total).exp()


@dataclass(frozen=True)
class Window:
    """An interval of counts and a bound on the probability of being outside it."""

    low: int
    high: int
    outside: arb


def find_chernoff_window(count: int, coin: Coin, log_mass: float) -> Window:
    """Returns the shortest interval about the mean that omits, by Chernoff, at most about exp(log_mass) per side."""
    if coin.failure.is_zero():
        return Window(count, count, arb(0))
    success, failure = float(coin.success.mid()), float(coin.failure.mid())

    def beyond(k: int) -> bool:
        """Returns True if k, as the end of a tail, is so improbable that it may be omitted."""
        share = k / count
        divergence = 0.0
        if k > 0:
            divergence += k * math.log(share / success)
        if k < count:
            divergence += (count - k) * math.log((1 - share) / failure)
        return divergence >= -log_mass

    mean = count * success
    high = _find_first(beyond, math.ceil(mean), count)
    low = -_find_first(lambda k: beyond(-k), -math.floor(mean), 0)
    outside = arb(0)
    if high < count:
        outside += tail_bound(count, high + 1, coin)
    if low > 0:
        outside += tail_bound(count, low - 1, coin)
    return Window(low, high, outside)


def _find_first(test: Callable[[int], bool], start: int, end: int) -> int:
    """Returns the smallest integer in [start, end] that passes the monotone ``test``, or ``end`` if none does."""
    low, high = min(start, end), end
    if low == high or test(low):
        return low
    if not test(high):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if test(middle):
            high = middle
        else:
            low = middle
    return high


# --- Finite laws and certified enclosures ---


Atoms = Sequence[tuple[arb, arb]]
FLOAT_VIEW_BITS = 96
"""Enough to round each value and weight correctly to a float, except values that nearly cancel."""
MAX_VIEW_BITS, MAX_VALUE_WIDTH = 16 * FLOAT_VIEW_BITS, 1e-3
"""Largest precision for values that nearly cancel, and the relative width up to which a value is known.

A value that is not known is taken as 0.
"""


@dataclass(frozen=True)
class FiniteLaw:
    """The law of a random variable G with finitely many values.

    ``atoms()`` returns pairs (value, weight) as balls at the working precision in force when it is called, so that a
    computation that needs more digits can call it again. The weights sum to 1 and none is exactly 0.
    """

    atoms: Callable[[], Atoms]

    def floats(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns values and weights rounded to floats, for planning and searching only."""
        return self._floats

    @cached_property
    def may_be_positive(self) -> bool:
        """True if some value is not certainly at most 0."""
        with precision(FLOAT_VIEW_BITS):
            return any(not value <= 0 for value, _ in self.atoms())

    @cached_property
    def _floats(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        bits = FLOAT_VIEW_BITS
        while True:
            with precision(bits):
                pairs = self.atoms()
                if bits >= MAX_VIEW_BITS or all(_is_sign_known(value) for value, _ in pairs):
                    break
            bits *= 4
        values = np.array([float(value.mid()) if _is_sign_known(value) else 0.0 for value, _ in pairs])
        values = np.clip(values, -LARGEST_FLOAT, LARGEST_FLOAT)
        weights = np.array([float(weight.mid()) for _, weight in pairs])
        return values, weights


def _is_sign_known(value: arb) -> bool:
    """Returns True if the sign and the size of a value are known: a value of the wrong sign would mislead a search."""
    return bool(value.rad() <= abs(value.mid()) * MAX_VALUE_WIDTH)


def sort_descending(atoms: Atoms) -> list[tuple[arb, arb]]:
    """Returns the atoms by value, largest first; by exact midpoints, because two values may round to one float."""
    return sorted(atoms, key=lambda atom: atom[0].mid().fmpq(), reverse=True)


@dataclass(frozen=True)
class Bracket:
    """A certified enclosure lower ≤ x ≤ upper of one non-negative real number, and the method that computed it."""

    lower: arb
    upper: arb
    method: str

    def scaled(self, divisor: int) -> Bracket:
        return Bracket(self.lower / divisor, self.upper / divisor, self.method)

    def relative_width(self) -> float:
        """Returns about (upper − lower)/upper, 0 if both are 0."""
        return float((self.upper - self.lower) / self.upper) if self.upper > 0 else 0.0

    def upper_float(self) -> float:
        return round_up(self.upper)

    def lower_float(self) -> float:
        return max(0.0, round_down(self.lower))

    def log_upper(self) -> float:
        """Returns a float near log(upper), for steering a search; minus infinity at 0."""
        return float(self.upper.log().mid()) if self.upper > 0 else -math.inf

    def log_lower(self) -> float:
        return float(self.lower.log().mid()) if self.lower > 0 else -math.inf


# --- Hypergeometric tails ---


def hypergeometric_upper_tail(population: int, marked: int, drawn: int, k: int) -> arb:
    """Returns P(at least ``k`` of the ``drawn`` are marked) for a uniform sample without replacement.

    Summed from the nearer end, so that a tiny tail keeps its relative digits.
    """
    if k <= max(0, drawn + marked - population):
        return arb(1)
    if k > min(marked, drawn):
        return arb(0)
    if k * population < marked * drawn:
        return 1 - _falling_hypergeometric_sum(population, population - marked, drawn, drawn - k + 1)
    return _falling_hypergeometric_sum(population, marked, drawn, k)


def _log_binomial_coefficient(total: int, chosen: int) -> arb:
    return arb(total + 1).lgamma() - arb(chosen + 1).lgamma() - arb(total - chosen + 1).lgamma()


def _falling_hypergeometric_sum(population: int, marked: int, drawn: int, k: int) -> arb:
    """Returns the sum of the probabilities from ``k`` on, near or above the mean.

    The ratios of the terms fall, so that a geometric series bounds the remainder.
    """
    rest = population - marked
    log_first = (
        _log_binomial_coefficient(marked, k)
        + _log_binomial_coefficient(rest, drawn - k)
        - _log_binomial_coefficient(population, drawn)
    )
    total = term = log_first.exp()
    for at in range(k, min(marked, drawn)):
        term = term * ((marked - at) * (drawn - at)) / ((at + 1) * (rest - drawn + at + 1))
        total += term
        if term <= total.rad():
            ratio = arb((marked - at - 1) * (drawn - at - 1)) / ((at + 2) * (rest - drawn + at + 2))
            if ratio < 1:
                return total + (term * ratio / (1 - ratio)).union(arb(0))
    return total


# --- Difference of two negative binomials of one shape ---


BITS = 128
MARGIN = 1 << 40
"""The probabilities of a table are known to one part in this; the enclosure is far narrower, and checked."""
CONTRACTION = 48.0
"""Mean sizes beyond the last wanted ratio at which the recurrence starts: the unknown start shrinks to e^-96."""
MAX_VALUES = 1 << 19


@dataclass(frozen=True)
class PolyaDifferenceLaw:
    """Z = X − Y, where X and Y are negative binomial of shape a and ratio q = e^−rate: P(X = i) ∝ C(i+a−1, i)·q^i."""

    rate: Fraction
    shape: Fraction

    def tail(self, beyond: float) -> arb:
        """Returns an upper bound of P(|Z| ≥ beyond), for beyond > 0.

        Theorem: Markov's inequality for e^(θZ), whose mean is ((1−q)²/((1−q·e^θ)(1−q·e^−θ)))^a, 0 < θ < rate.
        """
        rate, shape = float(self.rate), float(self.shape)
        theta = (math.hypot(shape, beyond * rate) - shape) / beyond
        theta = min(theta, rate * (1 - 2.0**-40))
        with precision(BITS):
            ball, by = arb(to_rational(self.rate)), arb(theta)
            below = (by - ball).expm1() * (-by - ball).expm1()
            mean = ((-ball).expm1() ** 2 / below) ** arb(to_rational(self.shape))
            bound: arb = 2 * mean * (-by * arb(beyond)).exp()
            return bound.upper() if bound <= 1 else arb(1)

    def table(self) -> tuple[Floats, Floats] | None:
        """Returns upper and lower values of P(Z = z) for z = 0 … reach, P(|Z| > reach) < 2^-79; None if too long.

        Requires: shape ≤ 1.
        """
        reach = math.ceil(56.0 / float(self.rate))
        return None if reach > MAX_VALUES else _table(self, reach)

    def tail_beyond(self, reach: int) -> float:
        """Returns an upper bound of P(|Z| > reach), for shape ≤ 1: X is at most geometric, P(X > r) ≤ q^(r+1)."""
        with precision(BITS):
            return round_up(2 * arb(to_rational(-self.rate * (reach + 1))).exp())


@lru_cache(maxsize=8)
def _table(law: PolyaDifferenceLaw, reach: int) -> tuple[Floats, Floats]:
    """Computes the table by the ratios R_z = P(z+1)/P(z), from the last to the first.

    Theorem: the generating function G(w) = ((1−qw)(1−q/w))^−a satisfies (1+q²−q(w+1/w))·wG' = a·q·(w−1/w)·G, hence
    q(z+1−a)·P(z+1) = (1+q²)·z·P(z) − q(z−1+a)·P(z−1), and R_(z−1) = q(z−1+a)/((1+q²)z − q(z+1−a)·R_z). For a ≤ 1 the
    law of X does not grow, so that 0 ≤ R ≤ 1; and R_(z−1) grows with R_z, so that it suffices to follow both ends,
    which approach each other by a factor q² each step.
    """
    with precision(BITS):
        ratio, shape = (-arb(to_rational(law.rate))).exp(), arb(to_rational(law.shape))
        first = reach + math.ceil(CONTRACTION / float(law.rate)) + 4
        centre = 1 + ratio * ratio
        ratios, low, high = [], arb(0), arb(1)
        for z in range(first, 0, -1):
            above, whole, factor = ratio * (z - 1 + shape), centre * z, ratio * (z + 1 - shape)
            low, high = above / (whole - factor * low), above / (whole - factor * high)
            if z <= reach:
                ratios.append(low.union(high))
        powers = [arb(1)]
        for one in reversed(ratios):
            powers.append(powers[-1] * one)
        total = 2 * sum(powers, arb(0)) - 1
        outside = arb(law.tail_beyond(reach)).union(arb(0))
        middle = (1 - outside) / total
        values = [middle * power for power in powers]
        upper = np.array([float(value.mid()) for value in values]) * (1 + 1 / MARGIN)
        lower = np.array([float(value.mid()) for value in values]) * (1 - 1 / MARGIN)
        assert all(value.rad() * (2 * MARGIN) <= value.mid() for value in values), "the ratios are known well enough"
    return upper, lower
