"""Published-pair divergences in double precision for many users: a sum over one binomial count.

Given c messages on the two extreme classes, the likelihood ratio grows with the number a on the first of
them, so each c needs three binomial tails. Good to about 1e-10 relative for deltas above 1e-12.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc, gammaln


def binomial_law(trials: int, chance: float, counts: np.ndarray) -> np.ndarray:
    """P(Bin(trials, chance) = counts), through logarithms."""
    if chance >= 1:
        return (counts == trials).astype(float)
    log_ways = gammaln(trials + 1) - gammaln(counts + 1) - gammaln(trials - counts + 1)
    return np.exp(log_ways + counts * math.log(chance) + (trials - counts) * math.log1p(-chance))


def binomial_tail(at_least: np.ndarray, trials: np.ndarray, chance: float) -> np.ndarray:
    """P(Bin(trials, chance) >= at_least), computed as an upper tail."""
    inside = (at_least >= 1) & (at_least <= trials)
    k, m = np.where(inside, at_least, 1), np.where(inside, trials, 1)
    return np.where(at_least <= 0, 1.0, np.where(inside, betainc(k, m - k + 1, chance), 0.0))


def delta_published_float(p: float, beta: float, q0: float, q1: float, users: int, epsilon: float) -> float:
    """D(P || Q) of the published pair; the other direction swaps q0 and q1. p may be infinite."""
    other = 0.0 if math.isinf(p) else beta / (p - 1)
    own = beta if math.isinf(p) else beta * p / (p - 1)
    common = max(0.0, 1 - own - other)
    factor, r0, r1 = math.exp(epsilon), own / q0, own / q1
    rest = max(0.0, 1 - r0 - r1)
    high, low = (own - factor * other) / r0, (other - factor * own) / r1
    middle = common * (1 - factor) / rest if rest > 1e-12 else 0.0
    mean, spread = (users - 1) * (r0 + r1), math.sqrt((users - 1) * (r0 + r1) * rest)
    width = 12 * spread + 60
    c = np.arange(max(0, int(mean - width)), min(users - 1, int(mean + width)) + 1)
    weight = binomial_law(users - 1, min(1.0, r0 + r1), c)
    share = r0 / (r0 + r1)

    def threshold(total: np.ndarray) -> np.ndarray:
        return np.ceil(-(total * low + (users - total) * middle) / (high - low))

    after, same = threshold(c + 1), threshold(c)
    gain = (own - factor * other) * binomial_tail(after - 1, c, share)
    gain += (other - factor * own) * binomial_tail(after, c, share)
    gain += common * (1 - factor) * binomial_tail(same, c, share)
    return float(weight @ gain)


def delta_sound_float(p: float, beta: float, q: float, q_common: float, users: int, epsilon: float) -> float:
    """D(P || Q) of the symmetric sound pair by (★): a sum over the counts on the extreme values and on the common one.

    Given both counts, the number a on the first extreme value is fair-coin binomial, and E(k + (A0 − A1)a)_+ is a tail.
    """
    other, factor = beta / (p - 1), math.exp(epsilon)
    own, r = p * other, p * other / q
    shared = (1 - own - other) / q_common
    high, low, middle = (own - factor * other) / r, (other - factor * own) / r, q_common * (1 - factor)

    def window(chance: float) -> np.ndarray:
        reach = 10 * math.sqrt(users * chance) + 20
        return np.arange(max(0, int(users * chance - reach)), min(users, int(users * chance + reach)) + 1)

    total = 0.0
    common = window(shared)
    for c in window(2 * r):
        weight = binomial_law(users, 2 * r, np.array([c]))[0]
        weights = binomial_law(users - c, shared / (1 - 2 * r), common[common <= users - c])
        start = c * low + middle * common[common <= users - c]
        least = np.maximum(0, np.ceil(-start / (high - low)))
        trials = np.full(len(start), c)
        part = start * binomial_tail(least, trials, 0.5) + (high - low) * c / 2 * binomial_tail(
            least - 1, trials - 1, 0.5
        )
        total += weight * float(weights @ np.maximum(part, 0.0))
    return total / users


def epsilon_published_float(
    p: float, beta: float, q: float, users: int, delta: float, upper: float | None = None
) -> float:
    """Epsilon of the symmetric published pair at the given delta, at most log p."""

    def excess(epsilon: float) -> float:
        return delta_published_float(p, beta, q, q, users, epsilon) - delta

    top = upper if upper is not None else math.log(p)
    return 0.0 if excess(0.0) <= 0 else float(brentq(excess, 0.0, top, xtol=1e-12))


def epsilon_root(delta_function: Callable[[float], float], delta: float, upper: float) -> float:
    """The epsilon in [0, upper] at which a decreasing delta(epsilon) equals delta."""
    return float(brentq(lambda epsilon: delta_function(epsilon) - delta, 0.0, upper, xtol=1e-12))
