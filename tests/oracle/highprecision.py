"""High-precision divergences of the variation-ratio pairs, by direct sums over the counts.

The pairs: user 1 adds one to the count a with probability p alpha, to b with probability alpha, else it
stays in its common part (the second law swaps a and b). Everybody else adds one to a with probability r0
and to b with probability r1. In the sound pair the common part is a third count that everybody else joins
with probability gamma / q_common; in the published pair it is not counted at all.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from mpmath import binomial, exp, inf, isinf, mp, mpf

Number = mpf | Fraction | float | int | str


class PairLaw(NamedTuple):
    """Probabilities of the two pairs: own, other and common for user 1; a and b for everybody else."""

    p_alpha: mpf
    alpha: mpf
    gamma: mpf
    r0: mpf
    r1: mpf


def pair_law(p: Number, beta: Number, q0: Number, q1: Number) -> PairLaw:
    """Derive p alpha, alpha, gamma, r0 and r1; p may be infinite."""
    p, beta, q0, q1 = mpf(p), mpf(beta), mpf(q0), mpf(q1)
    other = mpf(0) if isinf(p) else beta / (p - 1)
    own = beta if isinf(p) else p * other
    return PairLaw(own, other, 1 - own - other, own / q0, own / q1)


def delta_published(
    p: Number, beta: Number, q0: Number, q1: Number, users: int, epsilon: Number, digits: int = 50
) -> mpf:
    """D(P || Q) of the published pair; the other direction swaps q0 and q1."""
    with mp.workdps(digits):
        law, factor, others = pair_law(p, beta, q0, q1), exp(mpf(epsilon)), users - 1
        rest = 1 - law.r0 - law.r1

        def crowd(a: int, b: int) -> mpf:
            if a < 0 or b < 0 or a + b > others:
                return mpf(0)
            ways = binomial(others, a) * binomial(others - a, b)
            return ways * law.r0**a * law.r1**b * rest ** (others - a - b)

        total = mpf(0)
        for a in range(users + 1):
            for b in range(users + 1 - a):
                up, down, same = crowd(a - 1, b), crowd(a, b - 1), crowd(a, b)
                first = law.p_alpha * up + law.alpha * down + law.gamma * same
                second = law.alpha * up + law.p_alpha * down + law.gamma * same
                total += max(mpf(0), first - factor * second)
        return +total


def delta_sound(
    p: Number,
    beta: Number,
    q0: Number,
    q1: Number,
    q_common: Number,
    users: int,
    epsilon: Number,
    digits: int = 50,
) -> mpf:
    """D(P || Q) of the sound pair, which counts the common part too; the other direction swaps q0 and q1."""
    with mp.workdps(digits):
        law, factor, others = pair_law(p, beta, q0, q1), exp(mpf(epsilon)), users - 1
        r2 = law.gamma / mpf(q_common)
        rest = 1 - law.r0 - law.r1 - r2
        if rest < -(mpf(10) ** (5 - digits)):
            raise ValueError("delta_sound: r0 + r1 + gamma / q_common must be at most 1")
        rest = max(rest, mpf(0))
        powers = [[x**k for k in range(users)] for x in (law.r0, law.r1, r2, rest)]
        choose = [[binomial(m, k) for k in range(m + 1)] for m in range(users)]

        def crowd(a: int, b: int, c: int) -> mpf:
            left = others - a - b - c
            if min(a, b, c, left) < 0:
                return mpf(0)
            ways = choose[others][a] * choose[others - a][b] * choose[others - a - b][c]
            return ways * powers[0][a] * powers[1][b] * powers[2][c] * powers[3][left]

        total = mpf(0)
        for a in range(users + 1):
            for b in range(users + 1 - a):
                for c in range(users + 1 - a - b):
                    up, down, same = crowd(a - 1, b, c), crowd(a, b - 1, c), crowd(a, b, c - 1)
                    first = law.p_alpha * up + law.alpha * down + law.gamma * same
                    second = law.alpha * up + law.p_alpha * down + law.gamma * same
                    total += max(mpf(0), first - factor * second)
        return +total


def solve_epsilon(
    delta_function: Callable[[mpf], mpf], delta: Number, upper: Number = 1, tolerance: Number = "1e-12"
) -> mpf:
    """The least epsilon >= 0 with delta_function(epsilon) <= delta, from above, by bisection.

    `upper` is a first guess of an epsilon that is large enough; it is doubled until it is.
    """
    delta, low, high = mpf(delta), mpf(0), mpf(upper)
    if delta_function(low) <= delta:
        return low
    while delta_function(high) > delta:
        low, high = high, 2 * high
        if high > 1e4:
            return inf
    while high - low > mpf(tolerance):
        middle = (low + high) / 2
        if delta_function(middle) > delta:
            low = middle
        else:
            high = middle
    return high
