"""Randomizers that are mixtures: with known probability one of several, and the message says which."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from math import lcm, prod
from typing import Any

from flint import arb, fmpq

from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.numerics.ball import rational
from shuffledp.privacy.pair import Classes, HidingPair, MessageClass, exact_pair
from shuffledp.privacy.variation_ratio import VariationRatio

MOST_COMBINATIONS = 64
"""Combinations of the parts' pairs that are looked at one by one."""
WHOLE = 1 << 62


def shares_of(who: str, weights: Sequence[Any] | None, parts: int) -> tuple[Fraction, ...]:
    """Weights as exact probabilities that sum to 1; by default equal ones."""
    if weights is None:
        return (Fraction(1, parts),) * parts
    if len(weights) != parts:
        raise ValueError(f"{who}: expected a weight for each of {parts} mechanisms, got {len(weights)}.")
    try:
        exact = [Fraction(weight) for weight in weights]
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{who}: weights must be finite numbers, got {weights!r}.") from None
    if min(exact) <= 0:
        raise ValueError(f"{who}: weights must be above 0, got {float(min(exact))!r}.")
    shares = [weight / sum(exact) for weight in exact]
    if lcm(*(share.denominator for share in shares)) <= WHOLE:
        return tuple(shares)
    units = [max(1, int(share * WHOLE)) for share in shares]
    units[units.index(max(units))] += WHOLE - sum(units)
    return tuple(Fraction(unit, WHOLE) for unit in units)


def covering_parameters(mechanism: Mechanism) -> VariationRatio:
    """Parameters that hold for a value that is kept as well as for one that changes.

    A smaller ``q_common`` may hold for changes only: what is kept is hidden no better than by the largest ratio.
    """
    known = mechanism.variation_ratio()
    return VariationRatio(p=known.p, beta=known.beta, q=known.largest_ratio)


def mixed_pairs(pairs: Sequence[HidingPair], shares: Sequence[Fraction]) -> HidingPair:
    """The pair of a mixture: user 1's message is of part k with probability share k, and so are the others'.

    Theorem: identity (★) for mixtures: where the message names its part, G = (first − e^ε·second)/hiding is that of the
    part, so the law of G is the mixture of the parts' laws.
    """
    symmetric = all(pair.symmetric for pair in pairs)
    weights = [rational(share) for share in shares]
    known = [pair.exact for pair in pairs if pair.exact is not None]
    if len(known) == len(pairs):
        merged: dict[tuple[fmpq, fmpq], list[fmpq]] = {}
        for weight, classes in zip(weights, known, strict=True):
            for first, second, hiding in classes:
                total = merged.setdefault((first / hiding, second / hiding), [fmpq(0)] * 3)
                for place, chance in enumerate((first, second, hiding)):
                    total[place] += weight * chance
        return exact_pair([(first, second, hiding) for first, second, hiding in merged.values()], symmetric=symmetric)

    def balls() -> Classes:
        return [
            MessageClass(*(arb(weight) * chance for chance in one))
            for weight, pair in zip(weights, pairs, strict=True)
            for one in pair.classes()
        ]

    return HidingPair(balls, symmetric)


def mixtures(parts: Sequence[Mechanism], shares: Sequence[Fraction]) -> list[HidingPair]:
    """For each combination of the parts' worst pairs: the pair of the mixture against its blanket.

    The blanket of a mixture is the mixture of the blankets, and user 1's value may change in any way, or stay, in each
    part by itself. The sum of a part's G's enters the positive part convexly, so it suffices to look at pairs that are
    the largest in convex order: those that a part vouches for, else the pair of its variation-ratio parameters, of
    which every pair of its inputs is a post-processing.
    """
    ways = [_ways(part) for part in parts]
    if prod(len(way) for way in ways) > MOST_COMBINATIONS:
        ways = [way if len(way) == 1 else _parameter_ways(part) for part, way in zip(parts, ways, strict=True)]
    chosen = (combination for combination in product(*ways) if _first_turn(combination))
    return [mixed_pairs([pair for pair, _ in combination], shares) for combination in chosen]


Way = tuple[HidingPair, bool]
"""A pair, and whether it is swapped."""


def _ways(part: Mechanism) -> list[Way]:
    if not part.law.covers_mixtures:
        return _parameter_ways(part)
    return [way for pair in part.blankets() for way in _turns(pair)]


def _turns(pair: HidingPair) -> Iterator[Way]:
    yield pair, False
    if not pair.symmetric:
        yield pair.swapped(), True


def _parameter_ways(part: Mechanism) -> list[Way]:
    # With one q for all classes the pair is the same at every ε.
    return [(covering_parameters(part).pair(0.0), False)]


def _first_turn(combination: Sequence[Way]) -> bool:
    """Of a combination and the same with all pairs swapped, one is enough: bounds look at both directions."""
    turns = [swapped for pair, swapped in combination if not pair.symmetric]
    return not turns or not turns[0]
