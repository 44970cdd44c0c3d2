"""Laws of G from tables, and their convex order, in exact fractions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from math import gcd, lcm

from flint import ctx

from shuffledp.privacy.pair import HidingPair

Gain = dict[Fraction, Fraction]
"""The law of G by its values."""
TINY = Fraction(1, 10**14)


def law_of(first: Sequence[Fraction], second: Sequence[Fraction], hiding: Sequence[Fraction], ratio: Fraction) -> Gain:
    """G = (first − ratio·second)/hiding by its probabilities; what hiding lacks to 1 is revealed and adds 0.

    In whole numbers, many times faster than fractions: values by numerator and denominator, chances in units.
    """
    unit = lcm(*(w.denominator for w in hiding))
    units: dict[tuple[int, int], int] = {(0, 1): unit}
    up, down = ratio.as_integer_ratio()
    for a, b, w in zip(first, second, hiding, strict=True):
        own = w.numerator * (unit // w.denominator)
        units[0, 1] -= own
        if own > 0:
            over = (down * a.numerator * b.denominator - up * b.numerator * a.denominator) * w.denominator
            under = down * a.denominator * b.denominator * w.numerator
            common = gcd(over, under)
            value = over // common, under // common
            units[value] = units.get(value, 0) + own
    return {Fraction(*value): Fraction(own, unit) for value, own in units.items()}


def law_of_pair(pair: HidingPair, ratio: Fraction) -> Gain:
    """The same of a pair as the package has it; balls are taken at their middle, to 60 digits."""
    if pair.exact is not None:
        triples = [tuple(Fraction(int(x.p), int(x.q)) for x in triple) for triple in pair.exact]
    else:
        with ctx.workprec(200):
            triples = [tuple(Fraction(str(x.mid().str(60, radius=False))) for x in triple) for triple in pair.classes()]
    first, second, hiding = zip(*triples, strict=True)
    return law_of(first, second, hiding, ratio)


def excesses(law: Gain, levels: Sequence[Fraction]) -> list[Fraction]:
    """E(G − t)_+ at each level t; the levels fall."""
    found = []
    values = sorted(law, reverse=True)
    chances = [Fraction(0), *accumulate(law[value] for value in values)]
    parts = [Fraction(0), *accumulate(value * law[value] for value in values)]
    above = 0
    for level in levels:
        while above < len(values) and values[above] > level:
            above += 1
        found.append(parts[above] - level * chances[above])
    return found


def is_below(law: Gain, other: Gain) -> bool:
    """Convex order: E(G − t)_+ is nowhere larger (it is linear between the values), and the means agree."""
    means = [sum((value * chance for value, chance in one.items()), Fraction(0)) for one in (law, other)]
    if abs(means[0] - means[1]) > TINY:
        return False
    levels = sorted({*law, *other}, reverse=True)
    return all(a <= b + TINY for a, b in zip(excesses(law, levels), excesses(other, levels), strict=True))
