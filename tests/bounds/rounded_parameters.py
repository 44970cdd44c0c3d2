"""Parameters of explicit output laws as a careful user states them: exact, then rounded upward to floats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

from shuffledp import VariationRatio

Row = Sequence[Fraction]


def float_above(number: Fraction) -> float:
    """The least float that is not below a number."""
    nearest = float(number)
    return nearest if Fraction(nearest) >= number else math.nextafter(nearest, math.inf)


def float_below(number: Fraction) -> float:
    """The largest float that is not above a number."""
    return -float_above(-number)


def rounded_parameters(
    first: Row, second: Row, others: Sequence[Row], *, common: bool, unequal: bool
) -> VariationRatio:
    """p, β, q and (where asked for) q0 ≠ q1 and q_common of two laws of user 1 against every law of the others.

    p is infinite where one law is 0 and the other is not. Each float is rounded upward; q_common is computed for the
    rounded p and q, because it depends on them. Outputs on which both laws agree count for both q0 and q1.
    """
    pairs = list(zip(first, second, strict=True))
    least = [min(row[y] for row in others) for y in range(len(pairs))]
    ratios = [max(a, b) / min(a, b) if min(a, b) else math.inf for a, b in pairs if max(a, b)]
    largest = max(ratios)
    p = math.inf if math.isinf(largest) else float_above(largest)
    beta = float_above(sum((max(a - b, Fraction(0)) for a, b in pairs), start=Fraction(0)))
    q0 = float_above(max(a / low for (a, b), low in zip(pairs, least, strict=True) if a >= b and a))
    q1 = float_above(max(b / low for (a, b), low in zip(pairs, least, strict=True) if b >= a and b))
    if not unequal:
        q0 = q1 = max(q0, q1)
    q = (q0, q1) if unequal else q0
    if not common:
        return VariationRatio(p, beta, q)
    needed = Fraction(1)
    for (a, b), low in zip(pairs, least, strict=True):
        extreme = abs(a - b) / (1 if math.isinf(p) else (Fraction(p) - 1))
        shared = min(a, b) - (0 if math.isinf(p) else extreme)
        own = abs(a - b) if math.isinf(p) else Fraction(p) * extreme
        spare = low - own / Fraction(q0 if a > b else q1)
        if shared > 0:
            needed = max(needed, shared / spare)
    return VariationRatio(p, beta, q, q_common=float_above(needed))


def epsilon_below(ratio: Fraction | int) -> float:
    """A float ε with e^ε at most the ratio: a divergence at the ratio is at most the divergence at this ε."""
    epsilon = math.log(ratio)
    while epsilon > 0 and Fraction(float_above(Fraction(math.exp(epsilon)) * (1 + Fraction(1, 2**51)))) > ratio:
        epsilon = math.nextafter(epsilon, 0.0)
    return max(0.0, epsilon)


def is_nonincreasing(values: Sequence[float]) -> bool:
    """Whether no value is above the one before it."""
    return all(after <= before for before, after in pairwise(values))
