"""Unary encodings: one bit for each option, drawn independently, the own bit more often 1 than the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import comb, prod

import numpy as np
from flint import arb, fmpq

from shuffledp.array import Array, Floats, Words
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.law import Law
from shuffledp.mechanisms.parts.reference import Reference
from shuffledp.numerics.ball import above, below, rational
from shuffledp.privacy.mixed_others import MixedOthers
from shuffledp.privacy.others import KnownOthers, Others, shared_part
from shuffledp.privacy.pair import Classes, HidingPair, MessageClass, exact_pair
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling import bits
from shuffledp.sampling.random import WORD, RandomSource

MOST_OPTIONS_OF_A_TABLE = 12
MOST_MIXED_OPTIONS = 256
"""Up to which rows with other probabilities are looked at, by how many bits are 1."""


@dataclass(frozen=True)
class UnaryBits:
    """The own bit is 1 with probability ``own``, s, every other bit with probability ``other``, r < s.

    Both are multiples of 2^-64. A message is a row of packed bits: option j is bit j mod 8 of byte j div 8.
    """

    options: int
    own: Fraction
    other: Fraction

    def draw(self, values: Array, source: RandomSource) -> Array:
        """One row for each user."""
        messages = bits.coin_rows(source, self.other, len(values), self.options)
        own = bits.single_bits(bits.coin_rows(source, self.own, 1, len(values)), len(values))
        bits.put_one_per_row(messages, values, own)
        return messages

    def table(self, who: str) -> OutputTable:
        """The exact law of every row, for few options."""
        if self.options > MOST_OPTIONS_OF_A_TABLE:
            most = MOST_OPTIONS_OF_A_TABLE
            raise ValueError(f"{who}: a table needs at most {most} options, got {self.options}.")
        every, width = range(1 << self.options), bits.bytes_of(self.options)
        messages = np.array([list(number.to_bytes(width, "little")) for number in every], dtype=np.uint8)
        rows = tuple(tuple(self._chance(x, number) for number in every) for x in range(self.options))
        return OutputTable(np.arange(self.options), messages, rows)

    def _chance(self, x: int, number: int) -> Fraction:
        """The probability that input x sends the bits of ``number``."""
        ones = [self.own if j == x else self.other for j in range(self.options)]
        return prod((one if number >> j & 1 else 1 - one for j, one in enumerate(ones)), start=Fraction(1))


@dataclass(frozen=True)
class UnaryLaw(Law):
    """The law of a row whose own bit is 1 with probability s, and every other bit with probability r.

    Theorem: unary encoding: p = q = s(1−r)/(r(1−s)), β = s − r. Two inputs' laws differ only where exactly one of
    their two bits is 1. A third input makes (1, 1) p times rarer, so q_common = q unless there are two options only.
    """

    row: UnaryBits

    tight = True
    covers_mixtures = True

    def variation_ratio(self) -> VariationRatio:
        s, r = self.row.own, self.row.other
        ratio = above(s * (1 - r) / (r * (1 - s)))
        return VariationRatio(p=ratio, beta=above(s - r), q=ratio, q_common=1.0 if self.row.options == 2 else None)

    def blankets(self) -> Sequence[HidingPair]:
        """One pair for all, by symmetry."""
        return [HidingPair(UnaryBlanket(self.row), symmetric=True)]

    def attacks(self) -> Sequence[HidingPair]:
        """All others hold a third option: what counts are its bit and the two of the pair.

        With two options only, the others all hold the first, or either by a fair coin.
        """
        s, r = rational(self.row.own), rational(self.row.other)
        own, other = (1 - s, s), (1 - r, r)
        seen = list(product((0, 1), repeat=2))
        first, second = [own[a] * other[b] for a, b in seen], [other[a] * own[b] for a, b in seen]
        if self.row.options == 2:
            mixed = [(a + b) / 2 for a, b in zip(first, second, strict=True)]
            return [
                exact_pair(list(zip(first, second, first, strict=True)), symmetric=False),
                exact_pair(list(zip(first, second, mixed, strict=True)), symmetric=True),
            ]
        third = [
            (first[k] * other[c], second[k] * other[c], other[a] * other[b] * own[c])
            for k, (a, b) in enumerate(seen)
            for c in (0, 1)
        ]
        return [exact_pair(third, symmetric=True)]

    def others(self) -> Sequence[Others]:
        """Another user holds one of the two options, or a third one."""
        s, r = rational(self.row.own), rational(self.row.other)
        own, other = (1 - s, s), (1 - r, r)
        seen = list(product((0, 1), repeat=2))
        first, second = [own[a] * other[b] for a, b in seen], [other[a] * own[b] for a, b in seen]
        alike = [exact_pair(list(zip(first, second, law, strict=True)), symmetric=False) for law in (first, second)]
        third = [] if self.row.options == 2 else self.attacks()
        return [KnownOthers(shared_part(self.blankets()[0]), symmetric=True, given=(*alike, *third))]

    def among(self, hiders: Sequence[Law]) -> Sequence[MixedOthers]:
        """Rows of the same length, whose bits are 1 with other probabilities."""
        rows = [law.row for law in hiders if isinstance(law, UnaryLaw) and law.row.options == self.row.options]
        if len(rows) < len(hiders) or self.row.options > MOST_MIXED_OPTIONS:
            return ()
        aligned = tuple(tuple(_kinds_against(self.row, row)) for row in rows)
        groups = tuple(tuple(map(_put_together, kinds)) for kinds in aligned)
        return [MixedOthers((_common_to_all(rows),) * len(rows), groups, symmetric=True, aligned=aligned)]

    def of_nothing(self) -> UnaryLaw:
        """Every bit is 1 with the probability of those that are not the own one."""
        return UnaryLaw(replace(self.row, own=self.row.other))


def _kinds_against(own: UnaryBits, hider: UnaryBits) -> Iterator[HidingPair]:
    """Every kind of other user with the bits of ``hider``: of the first option, the second, or a third one.

    The classes are the bits of these options and how many of all others are 1.
    """
    for third in (0, 1, 2) if own.options > 2 else (0, 1):
        named = 3 if third == 2 else 2
        rest = own.options - named
        classes = []
        for seen in product((0, 1), repeat=named):
            laws = [_named_chance(row, held, seen) for row, held in ((own, 0), (own, 1), (hider, third))]
            for mine, other in zip(_count_law(own.other, rest), _count_law(hider.other, rest), strict=True):
                classes.append((laws[0] * mine, laws[1] * mine, laws[2] * other))
        yield exact_pair(classes, symmetric=False)


def _put_together(kind: HidingPair) -> HidingPair:
    """Messages with the same two ratios are one class."""
    totals: dict[tuple[fmpq, fmpq], list[fmpq]] = {}
    for chances in kind.exact or ():
        total = totals.setdefault((chances[0] / chances[2], chances[1] / chances[2]), [fmpq(0)] * 3)
        for place, chance in enumerate(chances):
            total[place] += chance
    return exact_pair([(a, b, c) for a, b, c in totals.values()], symmetric=False)


def _named_chance(row: UnaryBits, held: int, seen: tuple[int, ...]) -> fmpq:
    """The probability of these bits of the first options where the user holds the one with number ``held``."""
    ones = [row.own if place == held else row.other for place in range(len(seen))]
    return prod((rational(one if bit else 1 - one) for one, bit in zip(ones, seen, strict=True)), start=fmpq(1))


def _count_law(chance: Fraction, rest: int) -> list[fmpq]:
    """How many of so many bits are 1."""
    one, zero = rational(chance), rational(1 - chance)
    return [fmpq(comb(rest, k)) * one**k * zero ** (rest - k) for k in range(rest + 1)]


def _common_to_all(rows: Sequence[UnaryBits]) -> float:
    """The mass of the least of all laws of all rows, or less: whatever is held, a row is at least as likely as if the
    own bit were 0, where it is, and if it is 1, likelier still, unless all bits are."""
    least = fmpq(0)
    options = rows[0].options
    for ones in range(options):
        chances = []
        for row in rows:
            one, zero = rational(row.other), rational(1 - row.other)
            own_zero = rational(1 - row.own) / zero
            chances.append(one**ones * zero ** (options - ones) * min(own_zero, rational(row.own) / one))
        least += fmpq(comb(options, ones)) * min(chances)
    return min(1.0, below(Fraction(int(least.p), int(least.q))))


@dataclass(frozen=True)
class UnaryBlanket:
    """The classes of two inputs against the blanket.

    The law is (s/r where y_x = 1, (1−s)/(1−r) where y_x = 0) times that of independent bits of probability r:
    the rarest input is one whose bit is 0, if there is any. So the classes are the two bits of the pair, and
    among (1, 1) whether all bits are 1; there, as at (0, 0), the pair itself is the rarest.
    """

    row: UnaryBits

    def __call__(self) -> Classes:
        own1, own0 = arb(rational(self.row.own)), arb(rational(1 - self.row.own))
        other1, other0 = arb(rational(self.row.other)), arb(rational(1 - self.row.other))
        others_all_1 = other1 ** (self.row.options - 2)
        likely, unlikely = own1 * other0, own0 * other1
        plain = own0 * other0 + own1 * other1 * others_all_1
        mixed = 1 - others_all_1
        both, hides_both = own1 * other1 * mixed, unlikely * other1 / other0 * mixed
        rest = 1 - 2 * unlikely - plain - hides_both
        result = [
            MessageClass(likely, unlikely, unlikely),
            MessageClass(unlikely, likely, unlikely),
            MessageClass(plain, plain, plain),
            MessageClass(both, both, hides_both),
            MessageClass(arb(0), arb(0), rest),
        ]
        return [c for c in result if not c.hiding.is_zero()]


@dataclass(frozen=True)
class UnaryReference(Reference):
    """The reference law: every bit is 1 with probability r."""

    row: UnaryBits

    @property
    def _bit_ratios(self) -> tuple[Fraction, Fraction]:
        """A message's probability over that under the reference law, where the own bit is 0 and where it is 1."""
        s, r = self.row.own, self.row.other
        return (1 - s) / (1 - r), s / r

    @property
    def ratio(self) -> float:
        return above(self._bit_ratios[1])

    @property
    def least_ratio(self) -> Fraction:
        return self._bit_ratios[0]

    @property
    def words(self) -> int:
        return self.row.options

    def messages(self, words: Words) -> Array:
        return np.packbits(words < np.uint64(int(self.row.other * WORD)), axis=1, bitorder="little")

    def acceptance(self, values: Array, messages: Array) -> Floats:
        own = messages[np.arange(len(values)), values >> 3] >> (values & 7).astype(np.uint8) & 1
        chances = [float(ratio / Fraction(self.ratio)) for ratio in self._bit_ratios]
        return np.asarray(np.array(chances).take(own), dtype=np.float64)
