"""Products of finite pairs, with exact rationals or by merging equal likelihood ratios in high precision."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from mpmath import mp, mpf

Pair = Mapping[object, tuple[Fraction, Fraction]]


def merge_ratios(pairs: Iterable[tuple[Fraction, Fraction]]) -> list[tuple[Fraction, Fraction]]:
    """One outcome per likelihood ratio: nothing else matters for a divergence."""
    groups: dict[Fraction | None, list[Fraction]] = {}
    for first, second in pairs:
        if first == 0 and second == 0:
            continue
        key = None if second == 0 else first / second
        group = groups.setdefault(key, [Fraction(0), Fraction(0)])
        group[0] += first
        group[1] += second
    return [(first, second) for first, second in groups.values()]


def product(rounds: Sequence[Sequence[tuple[Fraction, Fraction]]]) -> list[tuple[Fraction, Fraction]]:
    """The pair of all rounds together, outcome by outcome."""
    result = [(Fraction(1), Fraction(1))]
    for one in rounds:
        result = merge_ratios((a * c, b * d) for a, b in result for c, d in one)
    return result


def divergence(pair: Iterable[tuple[Fraction, Fraction]], epsilon: float) -> mpf:
    """Σ (P − e^ε·Q)_+ to fifty digits."""
    with mp.workdps(50):
        ratio = mp.exp(mpf(epsilon))
        total = mpf(0)
        for first, second in pair:
            gap = mpf(first.numerator) / first.denominator - ratio * mpf(second.numerator) / second.denominator
            total += max(mpf(0), gap)
        return total


def gaussian_delta(mu: float, epsilon: float) -> mpf:
    """δ(ε) between N(μ, 1) and N(0, 1), and so of any number of Gaussian rounds with Σμ² in place of μ²."""
    with mp.workdps(60):
        m, e = mpf(mu), mpf(epsilon)
        return mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)


def renyi(pair: Iterable[tuple[Fraction, Fraction]], order: float) -> mpf:
    """The Rényi divergence of one direction; infinite where Q = 0 < P."""
    with mp.workdps(40):
        total = mpf(0)
        for first, second in pair:
            if first == 0:
                continue
            if second == 0:
                return mpf(math.inf)
            p, q = (mpf(x.numerator) / x.denominator for x in (first, second))
            total += p ** mpf(order) * q ** (1 - mpf(order))
        return mp.log(total) / (mpf(order) - 1)
