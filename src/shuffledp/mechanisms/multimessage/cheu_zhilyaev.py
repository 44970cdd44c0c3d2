"""Cheu and Zhilyaev: the option as a row of flipped bits, among flipped rows of zeros."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb, fmpq

from shuffledp import argument
from shuffledp.array import Array, Integers
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import HidingTable, OutputTable
from shuffledp.mechanisms.parts.asked import Asked
from shuffledp.mechanisms.parts.crowd import AmongDummies
from shuffledp.mechanisms.parts.dummy import DUMMIES, DummyReading, MessageTable, checked_dummies, numbers_of_dummies
from shuffledp.mechanisms.parts.pair_law import PairLaw
from shuffledp.mechanisms.parts.published import inverse_coth
from shuffledp.mechanisms.parts.support import Pairs, independent
from shuffledp.mechanisms.parts.user_values import OneOption
from shuffledp.mechanisms.parts.wire import BitRowWire, demand_short
from shuffledp.mechanisms.tuning import Tuning
from shuffledp.numerics.ball import above, rational
from shuffledp.privacy.pair import exact_pair
from shuffledp.privacy.randomizer import HasNoisyOthers, HasPublishedGuarantee
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling import bits, dyadic
from shuffledp.sampling.random import RandomSource

PUBLISHED_FACTOR = fmpq(33, 5)
MOST_OPTIONS_OF_A_TABLE = 12


@dataclass(frozen=True)
class SummedAmongDummies(DummyReading):
    """A message is a row of packed bits, and supports the options whose bit is 1; so do flipped rows of zeros."""

    def accumulate(self, messages: Array) -> Array:
        return bits.column_sums(messages, self.options)

    def supports_of(self, messages: Array, asked: Asked) -> Integers:
        return bits.some_column_sums(messages, asked.options)

    @property
    def pairs(self) -> Pairs:
        return independent(self)

    @property
    def draws_together(self) -> bool:
        return True


@dataclass(frozen=True)
class CheuZhilyaev(Mechanism, HasNoisyOthers, HasPublishedGuarantee):
    """Send one bit for each option, 1 for the own one, and ``dummies`` rows of zeros, each bit flipped with chance f.

    f is ``flip`` rounded up to a multiple of 2^-64, which only hides more. A message is a row of packed bits, which is
    also its form on the wire: option j is bit j mod 8 of byte j div 8.

    ``options``: how many options there are, and bits in a message; a user's value is the number of one of them, from 0.
    ``flip``: the chance that a bit is flipped, below ½. ``dummies``: how many rows of zeros every user adds, 1 by
    default.

    Theorem: identity (★) with the law of flipped zeros, M − 1 = (honest users)·dummies; only the two bits of the pair
    count, so that G has four values. [VR] Table 3: p = (1−f)²/f², β = 1 − 2f, q = (1−f)/f.
    Requires: options ≥ 2; 0 < f < ½; dummies ≥ 1.
    Returns: an upper bound: what the others' own flips hide on top is counted by ``NoisyCrowdBound`` only.
    Deviates: [VR] Table 3 with the published reduction is not an upper bound (docs/errata.md, VR-4).

    >>> import shuffledp as sdp
    >>> mechanism = sdp.CheuZhilyaev(options=10, flip=0.1, dummies=2)
    >>> mechanism.messages_per_user, mechanism.message_bits
    (3, 10)
    >>> f"{sdp.amplify(mechanism, users=10_000).epsilon(delta=1e-6).upper:.4f}"
    '0.0939'
    """

    options: int
    flip: float
    dummies: int = 1

    name = "cheu-zhilyaev"
    task = "frequency"
    summary = "one flipped bit for each option, and flipped rows of zeros"
    take_it = "To compare with the paper, or where fake users send the dummies."
    also_called = ("fake-users",)
    tuning = (Tuning("flip", False, True, 2.0**-60, 0.5), DUMMIES)
    published_theorem = (
        "the protocol's own analysis [CZ22] as used for [VR] Figure 3: dummies·f(1−f) = (33/5)·coth²(ε/2)·log(4/δ)"
    )

    @classmethod
    def variants(cls, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        return numbers_of_dummies()

    def __post_init__(self) -> None:
        who = "CheuZhilyaev"
        object.__setattr__(self, "options", argument.count(who, "options", self.options, at_least=2))
        demand_short(who, self.options)
        object.__setattr__(self, "flip", argument.open_probability(who, "flip", self.flip))
        object.__setattr__(self, "dummies", checked_dummies(who, self.dummies))
        if self.flipped >= Fraction(1, 2):
            raise ValueError(f"{who}: flip must be below 1/2, got {self.flip!r}.")

    @cached_property
    def flipped(self) -> Fraction:
        """f, as executed."""
        return dyadic.rounded_up(Fraction(self.flip))

    @cached_property
    def values(self) -> OneOption:
        return OneOption("CheuZhilyaev", self.options)

    @cached_property
    def law(self) -> PairLaw:
        """Attacked by others who hold a third option: on the two bits of the pair their messages are flipped zeros.

        Where there is none they hold the first, and only the second's bit counts.
        """
        f = self.flipped
        parameters = VariationRatio(p=above(((1 - f) / f) ** 2), beta=above(1 - 2 * f), q=above((1 - f) / f))
        flip = rational(f)
        keep = 1 - flip
        hidden = exact_pair(
            [
                (keep * keep, flip * flip, flip * keep),
                (flip * flip, keep * keep, flip * keep),
                (flip * keep, flip * keep, keep * keep),
                (flip * keep, flip * keep, flip * flip),
            ],
            symmetric=True,
        )
        one_bit = exact_pair([(flip, keep, flip), (keep, flip, keep)], symmetric=False)
        return PairLaw(parameters, (hidden,), attacked=(hidden if self.options > 2 else one_bit,), tight=True)

    @property
    def crowd(self) -> AmongDummies:
        return AmongDummies(self.dummies)

    @cached_property
    def wire(self) -> BitRowWire:
        return BitRowWire("CheuZhilyaev", self.options)

    @cached_property
    def reading(self) -> SummedAmongDummies:
        return SummedAmongDummies(self.options, 1 - self.flipped, self.flipped, self.dummies, self.flipped)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        each = self.crowd.per_user
        messages = bits.coin_rows(source, self.flipped, len(values) * each, self.options)
        own = bits.single_bits(bits.coin_rows(source, 1 - self.flipped, 1, len(values)), len(values))
        real = messages[::each].copy()
        bits.put_one_per_row(real, values, own)
        messages[::each] = real
        return messages

    def noisy_others(self, messages: int) -> tuple[int, Fraction]:
        """A real row differs from a dummy's law in one bit, by the factor (1−f)/f or f/(1−f)."""
        return self.crowd.others(messages), self.flipped / (1 - self.flipped)

    def attack_messages(self, users: int) -> int:
        return users * self.crowd.per_user

    def published_epsilon(self, messages: int, delta: arb) -> arb:
        f = arb(rational(self.flipped))
        square = (messages - 1) * f * (1 - f) / (PUBLISHED_FACTOR * (4 / delta).log())
        return 2 * inverse_coth(square)

    def message_table(self) -> MessageTable:
        """The exact laws of single messages, for instances small enough to write down."""
        if self.options > MOST_OPTIONS_OF_A_TABLE:
            most = MOST_OPTIONS_OF_A_TABLE
            raise ValueError(f"CheuZhilyaev: a table needs at most {most} options, got {self.options}.")
        every, width = range(1 << self.options), self.message_bytes
        messages = np.array([list(number.to_bytes(width, "little")) for number in every], dtype=np.uint8)
        rows = tuple(tuple(self._chance(1 << x, number) for number in every) for x in range(self.options))
        return MessageTable(messages, rows, tuple(self._chance(0, number) for number in every))

    def _chance(self, row: int, number: int) -> Fraction:
        """The probability that the bits of ``row``, flipped, are those of ``number``."""
        turned = (row ^ number).bit_count()
        return self.flipped**turned * (1 - self.flipped) ** (self.options - turned)

    def hiding_table(self) -> HidingTable:
        return self.message_table().hiding()

    def table(self) -> OutputTable:
        return self.message_table().with_dummies("CheuZhilyaev", self.dummies)

    @classmethod
    def examples(cls) -> Sequence[CheuZhilyaev]:
        return [cls(options=2, flip=0.25), cls(options=3, flip=0.1), cls(options=2, flip=0.4, dummies=3)]
