"""Unary encodings (OUE, RAPPOR), frequency oracles with an independent bit per option, the true one's more often 1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import comb, prod

import numpy as np
from flint import arb, fmpq

from shuffledp._core import validation
from shuffledp._core.validation import Array, Floats, Words, checked
from shuffledp.mechanisms.base.domain import Category
from shuffledp.mechanisms.base.encoding import BitRowEncoding, check_message_size
from shuffledp.mechanisms.base.law import Law, check_informative_epsilon, flip_probability
from shuffledp.mechanisms.base.mechanism import Mechanism, OutputTable
from shuffledp.mechanisms.base.seed_compression import Proposal
from shuffledp.mechanisms.base.support_counts import BitSumEstimator
from shuffledp.numerics.ball_arithmetic import float_above, float_below, to_rational
from shuffledp.privacy.dominating_pairs import (
    Classes,
    HidingPair,
    ListedOtherUsers,
    MessageClass,
    MixedOtherUsers,
    OtherUsers,
    blanket_mass,
    exact_pair,
)
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling import bits_and_subsets
from shuffledp.sampling.random_sources import WORD_RANGE, RandomSource

MAX_TABLE_OPTIONS = 12
MAX_MIXED_OPTIONS = 256
"""Most options for which laws with other probabilities are compared by the number of ones."""


@dataclass(frozen=True)
class UnaryBits:
    """Independent bits, of which the true option's is 1 more often than the others.

    It is 1 with probability s = ``true_probability``, the others with probability r = ``false_probability`` < s. Both
    are multiples of 2^-64. A message is a row of packed bits: option j is bit j mod 8 of byte j div 8.
    """

    options: int
    true_probability: Fraction
    false_probability: Fraction

    def draw(self, values: Array, source: RandomSource) -> Array:
        """Draws one row for each user."""
        messages = bits_and_subsets.coin_rows(source, self.false_probability, len(values), self.options)
        own = bits_and_subsets.unpack_bits(
            bits_and_subsets.coin_rows(source, self.true_probability, 1, len(values)), len(values)
        )
        bits_and_subsets.set_bit_per_row(messages, values, own)
        return messages

    def table(self, who: str) -> OutputTable:
        """Returns the exact law of every row, for few options."""
        if self.options > MAX_TABLE_OPTIONS:
            raise ValueError(f"{who}: a table needs at most {MAX_TABLE_OPTIONS} options, got {self.options}.")
        every, width = range(1 << self.options), bits_and_subsets.bytes_per_row(self.options)
        messages = np.array([list(number.to_bytes(width, "little")) for number in every], dtype=np.uint8)
        rows = tuple(tuple(self._chance(x, number) for number in every) for x in range(self.options))
        return OutputTable(np.arange(self.options), messages, rows)

    def _chance(self, x: int, number: int) -> Fraction:
        """Returns the probability that input x sends the bits of ``number``."""
        ones = [self.true_probability if j == x else self.false_probability for j in range(self.options)]
        return prod((one if number >> j & 1 else 1 - one for j, one in enumerate(ones)), start=Fraction(1))


@dataclass(frozen=True)
class UnaryLaw(Law):
    """Law of a row whose true option's bit is 1 with probability s, and every other bit with probability r.

    Theorem: unary encoding: p = q = s(1−r)/(r(1−s)), β = s − r. Two inputs' laws differ only where exactly one of
    their two bits is 1. A third input makes (1, 1) p times rarer, so q_common = q unless there are two options only.
    """

    bits: UnaryBits

    tight = True
    covers_mixtures = True

    def variation_ratio(self) -> VariationRatio:
        s, r = self.bits.true_probability, self.bits.false_probability
        ratio = float_above(s * (1 - r) / (r * (1 - s)))
        q_common = 1.0 if self.bits.options == 2 else None
        return VariationRatio(p=ratio, beta=float_above(s - r), q=ratio, q_common=q_common)

    def blankets(self) -> Sequence[HidingPair]:
        """Returns one pair, which stands for all by symmetry."""
        return [HidingPair(UnaryBlanket(self.bits), symmetric=True)]

    def attacks(self) -> Sequence[HidingPair]:
        """Returns the attack where all others hold a third option: its bit and the two of the pair matter.

        With two options only, the others all hold the first, or either by a fair coin.
        """
        own, other, first, second = self._two_bit_laws
        if self.bits.options == 2:
            mixed = [(a + b) / 2 for a, b in zip(first, second, strict=True)]
            return [
                exact_pair(list(zip(first, second, first, strict=True)), symmetric=False),
                exact_pair(list(zip(first, second, mixed, strict=True)), symmetric=True),
            ]
        third = [
            (first[k] * other[c], second[k] * other[c], other[a] * other[b] * own[c])
            for k, (a, b) in enumerate(product((0, 1), repeat=2))
            for c in (0, 1)
        ]
        return [exact_pair(third, symmetric=True)]

    @property
    def _two_bit_laws(self) -> tuple[tuple[fmpq, fmpq], tuple[fmpq, fmpq], list[fmpq], list[fmpq]]:
        """The laws of the true option's bit and of another one, and of the bits of two options if either is true."""
        s, r = to_rational(self.bits.true_probability), to_rational(self.bits.false_probability)
        own, other, bits = (1 - s, s), (1 - r, r), list(product((0, 1), repeat=2))
        return own, other, [own[a] * other[b] for a, b in bits], [other[a] * own[b] for a, b in bits]

    def other_users(self) -> Sequence[OtherUsers]:
        """Returns the kinds of another user, who holds one of the two options or a third one."""
        _, _, first, second = self._two_bit_laws
        alike = [exact_pair(list(zip(first, second, law, strict=True)), symmetric=False) for law in (first, second)]
        third = [] if self.bits.options == 2 else self.attacks()
        return [ListedOtherUsers(blanket_mass(self.blankets()[0]), symmetric=True, listed_pairs=(*alike, *third))]

    def mixed_other_users(self, hiders: Sequence[Law]) -> Sequence[MixedOtherUsers]:
        """Returns the laws of rows of the same length but other probabilities; nothing if some hider differs."""
        rows = [law.bits for law in hiders if isinstance(law, UnaryLaw) and law.bits.options == self.bits.options]
        if len(rows) < len(hiders) or self.bits.options > MAX_MIXED_OPTIONS:
            return ()
        aligned = tuple(tuple(_iterate_other_user_kinds(self.bits, row)) for row in rows)
        groups = tuple(tuple(map(_merge_equal_ratios, kinds)) for kinds in aligned)
        return [MixedOtherUsers((_common_mass_bound(rows),) * len(rows), groups, symmetric=True, aligned=aligned)]

    def opt_out_law(self) -> UnaryLaw:
        """Returns the law in which every bit is 1 with probability r."""
        return UnaryLaw(replace(self.bits, true_probability=self.bits.false_probability))


def _iterate_other_user_kinds(own: UnaryBits, hider: UnaryBits) -> Iterator[HidingPair]:
    """Yields every kind of other user with the bits of ``hider``: of the first option, the second, or a third one.

    The classes are the bits of these options and the number of ones among all others.
    """
    for third in (0, 1, 2) if own.options > 2 else (0, 1):
        named = 3 if third == 2 else 2
        rest = own.options - named
        classes: list[tuple[fmpq, fmpq, fmpq]] = []
        counts = [_ones_count_law(row.false_probability, rest) for row in (own, hider)]
        for bits in product((0, 1), repeat=named):
            laws = [_pattern_probability(row, held, bits) for row, held in ((own, 0), (own, 1), (hider, third))]
            classes += [(laws[0] * a, laws[1] * a, laws[2] * b) for a, b in zip(*counts, strict=True)]
        yield exact_pair(classes, symmetric=False)


def _merge_equal_ratios(kind: HidingPair) -> HidingPair:
    """Merges messages with the same two ratios into one class."""
    totals: dict[tuple[fmpq, fmpq], list[fmpq]] = {}
    for chances in kind.exact or ():
        total = totals.setdefault((chances[0] / chances[2], chances[1] / chances[2]), [fmpq(0)] * 3)
        for place, chance in enumerate(chances):
            total[place] += chance
    return exact_pair([(a, b, c) for a, b, c in totals.values()], symmetric=False)


def _pattern_probability(row: UnaryBits, held: int, bits: tuple[int, ...]) -> fmpq:
    """Returns the probability of these bits of the first options if the user holds option ``held``."""
    ones = [row.true_probability if place == held else row.false_probability for place in range(len(bits))]
    return prod((to_rational(one if bit else 1 - one) for one, bit in zip(ones, bits, strict=True)), start=fmpq(1))


def _ones_count_law(chance: Fraction, rest: int) -> list[fmpq]:
    """Returns the law of the number of ones among ``rest`` bits."""
    one, zero = to_rational(chance), to_rational(1 - chance)
    return [fmpq(comb(rest, k)) * one**k * zero ** (rest - k) for k in range(rest + 1)]


def _common_mass_bound(rows: Sequence[UnaryBits]) -> float:
    """Returns a lower bound of the mass of the minimum of all laws of all rows.

    For any option held, a row with a 0 has at least the probability with a 0 at the held option; a 1 there makes it
    likelier. The row of ones alone is left out.
    """
    least = fmpq(0)
    options = rows[0].options
    for ones in range(options):
        chances = []
        for row in rows:
            one, zero = to_rational(row.false_probability), to_rational(1 - row.false_probability)
            own_zero = to_rational(1 - row.true_probability) / zero
            chances.append(
                one**ones * zero ** (options - ones) * min(own_zero, to_rational(row.true_probability) / one)
            )
        least += fmpq(comb(options, ones)) * min(chances)
    return min(1.0, float_below(Fraction(int(least.p), int(least.q))))


@dataclass(frozen=True)
class UnaryBlanket:
    """Classes of two inputs against the blanket.

    The law is (s/r where y_x = 1, (1−s)/(1−r) where y_x = 0) times that of independent bits of probability r: the
    rarest input is one whose bit is 0, if there is any. So the classes are the two bits of the pair, and among (1, 1)
    whether all bits are 1; there, as at (0, 0), the pair itself is the rarest.
    """

    bits: UnaryBits

    def __call__(self) -> Classes:
        own1, own0 = arb(to_rational(self.bits.true_probability)), arb(to_rational(1 - self.bits.true_probability))
        other1, other0 = (
            arb(to_rational(self.bits.false_probability)),
            arb(to_rational(1 - self.bits.false_probability)),
        )
        others_all_1 = other1 ** (self.bits.options - 2)
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
class UnaryProposal(Proposal):
    """Proposal law in which every bit is 1 with probability r."""

    bits: UnaryBits

    @property
    def _bit_ratios(self) -> tuple[Fraction, Fraction]:
        """Ratios of a message's probability to the proposal's, if the true option's bit is 0 and if it is 1."""
        s, r = self.bits.true_probability, self.bits.false_probability
        return (1 - s) / (1 - r), s / r

    @property
    def ratio(self) -> float:
        return float_above(self._bit_ratios[1])

    @property
    def min_ratio(self) -> Fraction:
        return self._bit_ratios[0]

    @property
    def word_count(self) -> int:
        return self.bits.options

    def draw_messages(self, words: Words) -> Array:
        return np.packbits(words < np.uint64(int(self.bits.false_probability * WORD_RANGE)), axis=1, bitorder="little")

    def acceptance(self, values: Array, messages: Array) -> Floats:
        own = messages[np.arange(len(values)), values >> 3] >> (values & 7).astype(np.uint8) & 1
        chances = [float(ratio / Fraction(self.ratio)) for ratio in self._bit_ratios]
        return np.asarray(np.array(chances).take(own), dtype=np.float64)


# --- The two mechanisms ---


@dataclass(frozen=True)
class OUE(Mechanism):
    """Sends one bit per option: the true option's is a fair coin, every other one is 1 with probability r.

    r = 1/(e^ε + 1), rounded up to a multiple of 2^-64: the ratio (1−r)/r is at most e^ε. A message is a row of packed
    bits.

    Theorem: optimised unary encoding: p = q = e^ε, β = (e^ε−1)/(2(e^ε+1)) = 1/2 − r.
    Deviates: not in [VR]; β is the total variation, by enumeration.

    Args:
        epsilon: Local ε of every message.
        options: Number of options d, and of bits in a message; a user's value is an option from 0 to d − 1.

    Raises:
        ValueError: If a parameter is out of range, or a message would be too long.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.OUE(epsilon=1.0, options=100)
    >>> mechanism.message_bits
    100
    >>> f"{float(mechanism.false_probability):.4f}", f"{mechanism.variation_ratio().beta:.4f}"
    ('0.2689', '0.2311')
    """

    epsilon: float = field(metadata=checked(check_informative_epsilon))
    options: int = field(metadata=checked(validation.count, at_least=2))

    name = "oue"
    task = "frequency"
    summary = "optimised unary encoding: one bit for each option, a fair one for the own, rare ones for the others"
    use_case = "For many options, where a bit for each may be sent."
    aliases = ("optimised-unary-encoding", "optimized-unary-encoding")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_message_size("OUE", self.options)

    @cached_property
    def false_probability(self) -> Fraction:
        """r, the probability that the bit of an option other than the true one is 1."""
        return flip_probability(self.epsilon)

    @cached_property
    def bits(self) -> UnaryBits:
        """The bits of a message."""
        return UnaryBits(self.options, true_probability=Fraction(1, 2), false_probability=self.false_probability)

    @cached_property
    def domain(self) -> Category:
        return Category("OUE", self.options)

    @cached_property
    def law(self) -> UnaryLaw:
        return UnaryLaw(self.bits)

    @cached_property
    def encoding(self) -> BitRowEncoding:
        return BitRowEncoding("OUE", self.options)

    @cached_property
    def estimator(self) -> BitSumEstimator:
        return BitSumEstimator(self.options, self.bits.true_probability, self.bits.false_probability)

    @cached_property
    def proposal(self) -> UnaryProposal:
        return UnaryProposal(self.bits)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        return self.bits.draw(values, source)

    def table(self) -> OutputTable:
        return self.bits.table("OUE")

    @classmethod
    def examples(cls) -> Sequence[OUE]:
        return [cls(epsilon=1.0, options=2), cls(epsilon=0.5, options=3), cls(epsilon=4.0, options=5)]


@dataclass(frozen=True)
class RAPPOR(Mechanism):
    """Sends one bit per option, 1 for the true one and 0 for the others, each flipped with probability f.

    f = 1/(e^{ε/2} + 1), rounded up to a multiple of 2^-64: the ratio ((1−f)/f)² of two bits is at most e^ε. A message
    is a row of packed bits.

    Theorem: [VR] Table 1, binary RR (RAPPOR): p = q = e^ε, β = (e^{ε/2}−1)/(e^{ε/2}+1) = 1 − 2f.

    Args:
        epsilon: Local ε of every message.
        options: Number of options d, and of bits in a message; a user's value is an option from 0 to d − 1.

    Raises:
        ValueError: If a parameter is out of range, or a message would be too long.

    >>> import numpy as np, shuffledp as sdp
    >>> mechanism = sdp.RAPPOR(epsilon=4.0, options=12)
    >>> messages = mechanism.encode([3] * 1000, rng=np.random.default_rng(1))
    >>> messages.shape
    (1000, 2)
    >>> int(mechanism.estimate(messages).value.argmax())
    3
    """

    epsilon: float = field(metadata=checked(check_informative_epsilon))
    options: int = field(metadata=checked(validation.count, at_least=2))

    name = "rappor"
    task = "frequency"
    summary = "symmetric unary encoding: one bit for each option, each flipped with the same probability"
    use_case = "To compare with RAPPOR, or where all bits must be flipped alike."
    aliases = ("basic-rappor", "sue", "symmetric-unary-encoding")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_message_size("RAPPOR", self.options)

    @cached_property
    def flip(self) -> Fraction:
        """f, the probability that a bit is flipped."""
        return flip_probability(self.epsilon / 2)

    @cached_property
    def bits(self) -> UnaryBits:
        """The bits of a message."""
        return UnaryBits(self.options, true_probability=1 - self.flip, false_probability=self.flip)

    @cached_property
    def domain(self) -> Category:
        return Category("RAPPOR", self.options)

    @cached_property
    def law(self) -> UnaryLaw:
        return UnaryLaw(self.bits)

    @cached_property
    def encoding(self) -> BitRowEncoding:
        return BitRowEncoding("RAPPOR", self.options)

    @cached_property
    def estimator(self) -> BitSumEstimator:
        return BitSumEstimator(self.options, self.bits.true_probability, self.bits.false_probability)

    @cached_property
    def proposal(self) -> UnaryProposal:
        return UnaryProposal(self.bits)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        return self.bits.draw(values, source)

    def table(self) -> OutputTable:
        return self.bits.table("RAPPOR")

    @classmethod
    def examples(cls) -> Sequence[RAPPOR]:
        return [cls(epsilon=1.0, options=2), cls(epsilon=0.5, options=3), cls(epsilon=4.0, options=5)]
