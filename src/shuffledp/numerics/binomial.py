"""Binomial probabilities in balls: anchors, tails and windows that hold all but a proved mass."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flint import arb


@dataclass(frozen=True)
class Coin:
    """A success probability and its complement, each with its own relative digits."""

    success: arb
    failure: arb

    @classmethod
    def of_weights(cls, success: arb, failure: arb) -> Coin:
        """The coin with these odds; an exact 0 stays exact."""
        if failure.is_zero():
            return cls(arb(1), arb(0))
        total = success + failure
        return cls(success / total, failure / total)

    def turned(self) -> Coin:
        return Coin(self.failure, self.success)


def point_mass(count: int, k: int, coin: Coin) -> arb:
    """P(Bin(count) = k)."""
    if not 0 <= k <= count:
        return arb(0)
    if k == 0:
        return coin.failure**count
    if k == count:
        return coin.success**count
    log_ways = arb(count + 1).lgamma() - arb(k + 1).lgamma() - arb(count - k + 1).lgamma()
    return (log_ways + k * coin.success.log() + (count - k) * coin.failure.log()).exp()


def upper_tail(count: int, k: int, coin: Coin) -> arb:
    """P(Bin(count) ≥ k), summed from the nearer end so that a tiny tail keeps its relative digits."""
    if k <= 0:
        return arb(1)
    if k > count:
        return arb(0)
    if k < count * float(coin.success.mid()):
        return 1 - _falling_sum(count, count - k + 1, coin.turned())
    return _falling_sum(count, k, coin)


def _falling_sum(count: int, k: int, coin: Coin) -> arb:
    """Σ_{a ≥ k} P(Bin = a) for k near or above the mean: terms with a falling ratio, then a geometric remainder."""
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
    """P(a ≤ Bin(count) < b) for neighbours a, b among the rising ``edges``, in one walk; success is neither 0 nor 1."""
    term, odds, result = point_mass(count, edges[0], coin), coin.success / coin.failure, []
    for first, end in itertools.pairwise(edges):
        total = arb(0)
        for a in range(first, end):
            total += term
            term = term * odds * (count - a) / (a + 1)
        result.append(total)
    return result


def tail_bound(count: int, k: int, coin: Coin) -> arb:
    """Chernoff: P(Bin ≥ k) above the mean and P(Bin ≤ k) below it are at most exp(−count·KL(k/count, success))."""
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


def window(count: int, coin: Coin, log_mass: float) -> Window:
    """The shortest interval about the mean, by Chernoff, that leaves out at most about exp(log_mass) on each side."""
    if coin.failure.is_zero():
        return Window(count, count, arb(0))
    success, failure = float(coin.success.mid()), float(coin.failure.mid())

    def beyond(k: int) -> bool:
        """Whether k is so improbable, as the end of a tail, that it may be left out."""
        share = k / count
        divergence = 0.0
        if k > 0:
            divergence += k * math.log(share / success)
        if k < count:
            divergence += (count - k) * math.log((1 - share) / failure)
        return divergence >= -log_mass

    mean = count * success
    high = _first(beyond, math.ceil(mean), count)
    low = -_first(lambda k: beyond(-k), -math.floor(mean), 0)
    outside = arb(0)
    if high < count:
        outside += tail_bound(count, high + 1, coin)
    if low > 0:
        outside += tail_bound(count, low - 1, coin)
    return Window(low, high, outside)


def _first(test: Callable[[int], bool], start: int, end: int) -> int:
    """The smallest integer in [start, end] that passes the monotone ``test``, or ``end`` if none does."""
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
