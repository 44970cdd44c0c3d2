"""Exact trade-off curves of finite laws, as vertices (type I error, type II error) of the lower boundary.

Convention: the test rejects P where p/q is small; the type I error is P(reject), the type II error
Q(accept), and 1 + f*(-ratio) is the hockey-stick divergence of Q from P.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from math import comb

Point = tuple[Fraction, Fraction]
Curve = list[Point]
Law = Mapping[Hashable, Fraction]


def tradeoff_curve(first: Law, second: Law) -> Curve:
    """Vertices of T(P, Q), from (0, Q(p = 0 not rejected)) to (1, 0), one for each likelihood ratio."""
    outcomes = {*first, *second}
    pairs = [(first.get(y, Fraction(0)), second.get(y, Fraction(0))) for y in outcomes]
    pairs = sorted((p for p in pairs if sum(p)), key=lambda pair: pair[0] / sum(pair))
    alpha, beta = Fraction(0), Fraction(1)
    curve: Curve = []
    for p, q in pairs:
        if p > 0 and not curve:
            curve.append((alpha, beta))
        alpha, beta = alpha + p, beta - q
        if p > 0:
            curve.append((alpha, beta))
    return curve


def value_at(curve: Sequence[Point], x: Fraction) -> Fraction:
    """The curve at x, linear between vertices."""
    for (x0, y0), (x1, y1) in pairwise(curve):
        if x0 <= x <= x1:
            return y0 if x1 == x0 else y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    raise ValueError("value_at: x must lie between 0 and 1")


def delta_of_curve(curve: Sequence[Point], ratio: Fraction) -> Fraction:
    """1 + f*(-ratio) = the largest 1 - beta - ratio * alpha over the curve."""
    return max(1 - beta - ratio * alpha for alpha, beta in curve)


def inverse(curve: Sequence[Point]) -> Curve:
    """The curve with the two errors exchanged."""
    return [(beta, alpha) for alpha, beta in reversed(curve)]


def symmetrised(curve: Sequence[Point]) -> Curve:
    """min(f, f^-1)**: the curve left of its slope -1, a line of slope -1, and the mirror image.

    Only for curves whose point x of slope -1 has x <= f(x).
    """
    left = next(i for i, ((x0, y0), (x1, y1)) in enumerate(pairwise(curve)) if y1 - y0 >= x0 - x1)
    if curve[left][0] > curve[left][1]:
        raise ValueError("symmetrised: the point of slope -1 must lie above the diagonal")
    head = list(curve[: left + 1])
    whole = [*head, *inverse(head)]
    return whole if whole[-1][0] == 1 else [*whole, (Fraction(1), Fraction(0))]


def shuffled_extremes(users: int, exp_epsilon: Fraction) -> tuple[dict, dict, Fraction]:
    """P0 = (A+1, C-A), Q0 = (A, C-A+1) and w = 1/(e^eps0+1), with C ~ Bin(users-1, 2w), A ~ Bin(C, 1/2)."""
    w = 1 / (exp_epsilon + 1)
    first: dict[tuple[int, int], Fraction] = {}
    second: dict[tuple[int, int], Fraction] = {}
    for c in range(users):
        clones = comb(users - 1, c) * (2 * w) ** c * (1 - 2 * w) ** (users - 1 - c)
        for a in range(c + 1):
            chance = clones * comb(c, a) / Fraction(2**c)
            first[a + 1, c - a] = chance
            second[a, c - a + 1] = chance
    return first, second, w


def mixture(first: Law, second: Law, weight: Fraction) -> dict[Hashable, Fraction]:
    """(1 - weight) * first + weight * second."""
    zero = Fraction(0)
    return {y: (1 - weight) * first.get(y, zero) + weight * second.get(y, zero) for y in {*first, *second}}
