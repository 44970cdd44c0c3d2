"""Randomizers that are mixtures: with known probability one of several, and the message says which."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import lcm, prod
from typing import Any

from flint import arb, fmpq

from shuffledp import argument
from shuffledp.mechanisms.parts.law import Law
from shuffledp.numerics.ball import above, rational
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
        exact = [Fraction(w) if isinstance(w, str) else argument.exact(who, "weights", w) for w in weights]
    except (TypeError, ValueError, ZeroDivisionError):
        raise ValueError(f"{who}: weights must be finite numbers, got {weights!r}.") from None
    if min(exact) <= 0:
        raise ValueError(f"{who}: weights must be above 0, got {float(min(exact))!r}.")
    shares = [weight / sum(exact) for weight in exact]
    if lcm(*(share.denominator for share in shares)) <= WHOLE:
        return tuple(shares)
    units = [max(1, int(share * WHOLE)) for share in shares]
    units[units.index(max(units))] += WHOLE - sum(units)
    return tuple(Fraction(unit, WHOLE) for unit in units)


@dataclass(frozen=True)
class MixtureLaw(Law):
    """A message of law k with probability share k, which says of which law it is; see ``mixtures``."""

    laws: tuple[Law, ...]
    shares: tuple[Fraction, ...]

    @property
    def covers_mixtures(self) -> bool:  # type: ignore[override]
        return all(law.covers_mixtures for law in self.laws)

    @property
    def tight(self) -> bool:  # type: ignore[override]
        return self.covers_mixtures and all(law.tight for law in self.laws)

    def variation_ratio(self) -> VariationRatio:
        known = [covering_parameters(law) for law in self.laws]
        beta = sum((share * Fraction(one.beta) for share, one in zip(self.shares, known, strict=True)), Fraction(0))
        largest = max(one.largest_ratio for one in known)
        return VariationRatio(p=max(one.p for one in known), beta=above(beta), q=largest)

    def blankets(self) -> Sequence[HidingPair]:
        return mixtures(self.laws, self.shares)

    def attacks(self) -> Sequence[HidingPair]:
        """All parts attacked at once, the others' values those of the parts' own attacks, taken in turn."""
        known = [list(law.attacks()) for law in self.laws]
        if not all(known):
            return []
        turns = range(max(map(len, known)))
        return [mixed_pairs([pairs[turn % len(pairs)] for pairs in known], self.shares) for turn in turns]


def covering_parameters(law: Law) -> VariationRatio:
    """Parameters that hold for a value that is kept as well as for one that changes.

    A smaller ``q_common`` may hold for changes only: what is kept is hidden no better than by the largest ratio.
    """
    known = law.variation_ratio()
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

    return HidingPair(MixedClasses(tuple(pairs), tuple(shares)), symmetric)


@dataclass(frozen=True)
class MixedClasses:
    """The classes of several pairs, each with its share."""

    pairs: tuple[HidingPair, ...]
    shares: tuple[Fraction, ...]

    def __call__(self) -> Classes:
        return [
            MessageClass(*(arb(rational(share)) * chance for chance in one))
            for share, pair in zip(self.shares, self.pairs, strict=True)
            for one in pair.classes()
        ]


def mixtures(parts: Sequence[Law], shares: Sequence[Fraction]) -> list[HidingPair]:
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


def _ways(part: Law) -> list[Way]:
    if not part.covers_mixtures:
        return _parameter_ways(part)
    return [way for pair in part.blankets() for way in _turns(pair)]


def _turns(pair: HidingPair) -> Iterator[Way]:
    yield pair, False
    if not pair.symmetric:
        yield pair.swapped(), True


def _parameter_ways(part: Law) -> list[Way]:
    # With one q for all classes the pair is the same at every ε.
    return [(covering_parameters(part).pair(0.0), False)]


def _first_turn(combination: Sequence[Way]) -> bool:
    """Of a combination and the same with all pairs swapped, one is enough: bounds look at both directions."""
    turns = [swapped for pair, swapped in combination if not pair.symmetric]
    return not turns or not turns[0]
