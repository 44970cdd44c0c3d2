"""Unary encodings: one bit for each option, drawn independently, the own bit more often 1 than the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
from flint import arb
from numpy.typing import NDArray

from shuffledp import argument
from shuffledp.array import Array, Floats
from shuffledp.mechanisms.mechanism import OutputTable
from shuffledp.mechanisms.parts.bit_response import informative_epsilon
from shuffledp.mechanisms.parts.old_bit_row import BitRow
from shuffledp.mechanisms.parts.old_support import SupportOracle
from shuffledp.mechanisms.parts.reference import log_above
from shuffledp.numerics.ball import above, rational
from shuffledp.privacy.pair import Classes, HidingPair, MessageClass, exact_pair
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling import bits
from shuffledp.sampling.random import WORD, RandomSource

MOST_OPTIONS_OF_A_TABLE = 12


@dataclass(frozen=True)
class UnaryEncoding(BitRow, SupportOracle):
    """The own bit is 1 with probability s, every other bit with probability r < s, multiples of 2^-64.

    A message is a row of packed bits, which is also its form on the wire: option j is bit j mod 8 of byte j div 8.

    Theorem: unary encoding: p = q = s(1−r)/(r(1−s)), β = s − r. Two inputs' laws differ only where exactly one of
    their two bits is 1. A third input makes (1, 1) p times rarer, so q_common = q unless there are two options only.
    """

    covers_mixtures = True
    epsilon: float
    options: int

    def __post_init__(self) -> None:
        who = type(self).__name__
        informative_epsilon(who, self.epsilon)
        object.__setattr__(self, "options", argument.count(who, "options", self.options, at_least=2))

    def randomize(self, values: Array, source: RandomSource) -> Array:
        messages = bits.coin_rows(source, self.other_support, len(values), self.options)
        own = bits.single_bits(bits.coin_rows(source, self.own_support, 1, len(values)), len(values))
        bits.put_one_per_row(messages, values, own)
        return messages

    def accumulate(self, messages: Array) -> Array:
        return bits.column_sums(messages, self.options)

    # --- the reference law: every bit is 1 with probability r -------------------------------------------------

    @property
    def _bit_ratios(self) -> tuple[Fraction, Fraction]:
        """A message's probability over that under the reference law, where the own bit is 0 and where it is 1."""
        s, r = self.own_support, self.other_support
        return (1 - s) / (1 - r), s / r

    @property
    def reference_ratio(self) -> float:
        return above(self._bit_ratios[1])

    @property
    def deletion_epsilon(self) -> float:
        zero, one = self._bit_ratios
        return log_above(max(1 / zero, one))

    @property
    def reference_words(self) -> int:
        return self.options

    def reference_messages(self, words: NDArray[np.uint64]) -> Array:
        return np.packbits(words < np.uint64(int(self.other_support * WORD)), axis=1, bitorder="little")

    @property
    def acceptance_error(self) -> float:
        return 0.0

    def acceptance(self, values: Array, messages: Array) -> Floats:
        own = messages[np.arange(len(values)), values >> 3] >> (values & 7).astype(np.uint8) & 1
        chances = [float(ratio / Fraction(self.reference_ratio)) for ratio in self._bit_ratios]
        return np.asarray(np.array(chances).take(own), dtype=np.float64)

    # --- its privacy ------------------------------------------------------------------------------------------

    def variation_ratio(self) -> VariationRatio:
        s, r = self.own_support, self.other_support
        ratio = above(s * (1 - r) / (r * (1 - s)))
        return VariationRatio(p=ratio, beta=above(s - r), q=ratio, q_common=1.0 if self.options == 2 else None)

    def blankets(self) -> Sequence[HidingPair]:
        """One pair for all, by symmetry.

        The law is (s/r where y_x = 1, (1−s)/(1−r) where y_x = 0) times that of independent bits of probability r:
        the rarest input is one whose bit is 0, if there is any. So the classes are the two bits of the pair, and
        among (1, 1) whether all bits are 1; there, as at (0, 0), the pair itself is the rarest.
        """

        def classes() -> Classes:
            own1, own0 = arb(rational(self.own_support)), arb(rational(1 - self.own_support))
            other1, other0 = arb(rational(self.other_support)), arb(rational(1 - self.other_support))
            others_all_1 = other1 ** (self.options - 2)
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

        return [HidingPair(classes, symmetric=True)]

    def attacks(self) -> Sequence[HidingPair]:
        """All others hold a third option: what counts are its bit and the two of the pair.

        With two options only, the others all hold the first, or either by a fair coin.
        """
        s, r = rational(self.own_support), rational(self.other_support)
        own, other = (1 - s, s), (1 - r, r)
        seen = list(product((0, 1), repeat=2))
        first, second = [own[a] * other[b] for a, b in seen], [other[a] * own[b] for a, b in seen]
        if self.options == 2:
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

    def table(self) -> OutputTable:
        if self.options > MOST_OPTIONS_OF_A_TABLE:
            who, most = type(self).__name__, MOST_OPTIONS_OF_A_TABLE
            raise ValueError(f"{who}: a table needs at most {most} options, got {self.options}.")
        every, width = range(1 << self.options), self.message_bytes
        messages = np.array([list(number.to_bytes(width, "little")) for number in every], dtype=np.uint8)
        rows = tuple(tuple(self._chance(x, number) for number in every) for x in range(self.options))
        return OutputTable(np.arange(self.options), messages, rows)

    def _chance(self, x: int, number: int) -> Fraction:
        """The probability that input x sends the bits of ``number``."""
        ones = [self.own_support if j == x else self.other_support for j in range(self.options)]
        return prod((one if number >> j & 1 else 1 - one for j, one in enumerate(ones)), start=Fraction(1))
