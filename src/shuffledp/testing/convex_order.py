"""Laws of G from tables, and their convex order, in exact fractions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from flint import ctx

from shuffledp.privacy.pair import HidingPair

Gain = dict[Fraction, Fraction]
"""The law of G by its values."""
TINY = Fraction(1, 10**14)


def law_of(first: Sequence[Fraction], second: Sequence[Fraction], hiding: Sequence[Fraction], ratio: Fraction) -> Gain:
    """G = (first − ratio·second)/hiding by its probabilities; what hiding lacks to 1 is revealed and adds 0."""
    law: Gain = {}
    for a, b, w in zip(first, second, hiding, strict=True):
        if w > 0:
            value = (a - ratio * b) / w
            law[value] = law.get(value, Fraction(0)) + w
    law[Fraction(0)] = law.get(Fraction(0), Fraction(0)) + 1 - sum(hiding, start=Fraction(0))
    return law


def law_of_pair(pair: HidingPair, ratio: Fraction) -> Gain:
    """The same of a pair as the package has it; balls are taken at their middle, to 60 digits."""
    if pair.exact is not None:
        triples = [tuple(Fraction(int(x.p), int(x.q)) for x in triple) for triple in pair.exact]
    else:
        with ctx.workprec(200):
            triples = [tuple(Fraction(str(x.mid().str(60, radius=False))) for x in triple) for triple in pair.classes()]
    first, second, hiding = zip(*triples, strict=True)
    return law_of(first, second, hiding, ratio)


def excess(law: Gain, level: Fraction) -> Fraction:
    """E(G − level)_+."""
    return sum(((value - level) * chance for value, chance in law.items() if value > level), Fraction(0))


def is_below(law: Gain, other: Gain) -> bool:
    """Convex order: E(G − t)_+ is nowhere larger (it is linear between the values), and the means agree."""
    means = [sum((value * chance for value, chance in one.items()), Fraction(0)) for one in (law, other)]
    if abs(means[0] - means[1]) > TINY:
        return False
    return all(excess(law, level) <= excess(other, level) + TINY for level in {*law, *other})
