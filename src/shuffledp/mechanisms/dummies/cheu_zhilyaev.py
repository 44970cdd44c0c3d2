"""Protocol of Cheu and Zhilyaev [CZ22]: the option as a row of flipped bits, among flipped rows of zeros."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb, fmpq

from shuffledp._core import validation
from shuffledp._core.validation import Array, Integers, checked
from shuffledp.mechanisms.base.domain import Category
from shuffledp.mechanisms.base.encoding import BitRowEncoding, check_message_size
from shuffledp.mechanisms.base.estimator import SelectedOptions
from shuffledp.mechanisms.base.law import PairLaw, inverse_coth
from shuffledp.mechanisms.base.mechanism import HidingTable, Mechanism, OutputTable, TunableParameter
from shuffledp.mechanisms.base.message_plan import WithDummies
from shuffledp.mechanisms.base.support_counts import PairSupport, independent_pair_support
from shuffledp.mechanisms.dummies.pure_and_mix_dump import (
    MAX_DUMMIES,
    TUNABLE_DUMMIES,
    MessageTable,
    SupportAmongDummiesEstimator,
    iterate_dummy_counts,
)
from shuffledp.numerics.ball_arithmetic import float_above, to_rational
from shuffledp.privacy.dominating_pairs import exact_pair
from shuffledp.privacy.randomizer_interface import HasNoisyMessages, HasPublishedGuarantee
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling import bits_and_subsets, random_sources
from shuffledp.sampling.random_sources import RandomSource

PUBLISHED_FACTOR = fmpq(33, 5)
MAX_TABLE_OPTIONS = 12


@dataclass(frozen=True)
class BitSumAmongDummiesEstimator(SupportAmongDummiesEstimator):
    """Estimator for messages that are rows of packed bits and support the options whose bit is 1, dummies included."""

    def accumulate(self, messages: Array) -> Array:
        return bits_and_subsets.column_sums(messages, self.options)

    def count_supports(self, messages: Array, selection: SelectedOptions) -> Integers:
        return bits_and_subsets.selected_column_sums(messages, selection.options)

    @property
    def pair_support(self) -> PairSupport:
        return independent_pair_support(self)

    @property
    def has_joint_simulation(self) -> bool:
        return True


@dataclass(frozen=True)
class CheuZhilyaev(Mechanism, HasNoisyMessages, HasPublishedGuarantee):
    """One flipped bit for each option, 1 for the user's own, among `dummies` flipped rows of zeros.

    f is `flip` rounded up to a multiple of 2^-64, which only hides more. A message is a row of packed bits, which is
    also its encoding: option j is bit j mod 8 of byte j div 8.

    Theorem: identity (★) with the law of flipped zeros, M − 1 = (honest users)·dummies; only the two bits of the pair
    count, so that G has four values. [VR] Table 3: p = (1−f)²/f², β = 1 − 2f, q = (1−f)/f.
    Requires: options ≥ 2; 0 < f < ½; dummies ≥ 1.
    Returns: an upper bound: the additional hiding by the others' own flips is counted by ``RandomBlanketBound`` only.
    Deviates: [VR] Table 3 with the published reduction is not an upper bound (docs/errata.md, VR-4).

    Args:
        options: Number of options, and of bits in a message; a user's value is the number of an option, from 0.
        flip: Probability that a bit is flipped, below ½.
        dummies: Rows of zeros that each user adds.

    Raises:
        TypeError: If an argument is not a number.
        ValueError: If an argument is outside its range.

    Example:
        >>> import shuffledp as sdp
        >>> mechanism = sdp.CheuZhilyaev(options=10, flip=0.1, dummies=2)
        >>> mechanism.messages_per_user, mechanism.message_bits
        (3, 10)
        >>> f"{sdp.amplify(mechanism, users=10_000).epsilon(delta=1e-6).upper:.4f}"
        '0.0939'
    """

    options: int = field(metadata=checked(validation.count, at_least=2))
    flip: float = field(metadata=checked(validation.open_probability))
    dummies: int = field(default=1, metadata=checked(validation.count, at_most=MAX_DUMMIES))

    name = "cheu-zhilyaev"
    task = "frequency"
    summary = "one flipped bit for each option, and flipped rows of zeros"
    use_case = "To compare with the paper, or where fake users send the dummies."
    aliases = ("fake-users",)
    tunable = (TunableParameter("flip", False, True, 2.0**-60, 0.5), TUNABLE_DUMMIES)
    published_theorem = (
        "the protocol's own analysis [CZ22] as used for [VR] Figure 3: dummies·f(1−f) = (33/5)·coth²(ε/2)·log(4/δ)"
    )

    @classmethod
    def variants(cls, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        return iterate_dummy_counts()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_message_size("CheuZhilyaev", self.options)
        if self.executed_flip >= Fraction(1, 2):
            raise ValueError(f"CheuZhilyaev: flip must be below 1/2, got {self.flip!r}.")

    @cached_property
    def executed_flip(self) -> Fraction:
        """f, as executed."""
        return random_sources.round_up_fraction(Fraction(self.flip))

    @cached_property
    def law(self) -> PairLaw:
        """The law; in its attack the others hold a third option and send flipped zeros on the two bits of the pair.

        If there is no third option they hold the first, and only the second option's bit counts.
        """
        f = self.executed_flip
        parameters = VariationRatio(
            p=float_above(((1 - f) / f) ** 2), beta=float_above(1 - 2 * f), q=float_above((1 - f) / f)
        )
        flip = to_rational(f)
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
        return PairLaw(parameters, (hidden,), attack_pairs=(hidden if self.options > 2 else one_bit,), tight=True)

    @cached_property
    def encoding(self) -> BitRowEncoding:
        return BitRowEncoding("CheuZhilyaev", self.options)

    @cached_property
    def estimator(self) -> BitSumAmongDummiesEstimator:
        return BitSumAmongDummiesEstimator(
            self.options, 1 - self.executed_flip, self.executed_flip, self.dummies, self.executed_flip
        )

    def randomize(self, values: Array, source: RandomSource) -> Array:
        each = self.message_plan.messages_per_user
        messages = bits_and_subsets.coin_rows(source, self.executed_flip, len(values) * each, self.options)
        own = bits_and_subsets.unpack_bits(
            bits_and_subsets.coin_rows(source, 1 - self.executed_flip, 1, len(values)), len(values)
        )
        real = messages[::each].copy()
        bits_and_subsets.set_bit_per_row(real, values, own)
        messages[::each] = real
        return messages

    def count_noisy_messages(self, messages: int) -> tuple[int, Fraction]:
        """Returns how many real messages others sent, and the probability that one has the law of a dummy.

        A real row differs from a dummy's law in one bit, by the factor (1−f)/f or f/(1−f): the probability is f/(1−f).
        """
        return self.message_plan.other_user_count(messages), self.executed_flip / (1 - self.executed_flip)

    def attack_messages(self, users: int) -> int:
        """Returns how many messages hide each other in the datasets of `attacks`, where real messages hide, too."""
        return users * self.message_plan.messages_per_user

    def published_epsilon(self, messages: int, delta: arb) -> arb:
        """Returns the ε of the published analysis, as printed.

        Raises:
            NotApplicable: If there is too little noise for the formula.
        """
        f = arb(to_rational(self.executed_flip))
        square = (messages - 1) * f * (1 - f) / (PUBLISHED_FACTOR * (4 / delta).log())
        return 2 * inverse_coth(square)

    def message_table(self) -> MessageTable:
        """Returns the exact laws of single messages, for small instances.

        Raises:
            ValueError: If there are too many options to write them down.
        """
        if self.options > (most := MAX_TABLE_OPTIONS):
            raise ValueError(f"CheuZhilyaev: a table needs at most {most} options, got {self.options}.")
        every, width = range(1 << self.options), self.message_bytes
        messages = np.array([list(number.to_bytes(width, "little")) for number in every], dtype=np.uint8)
        rows = tuple(tuple(self._chance(1 << x, number) for number in every) for x in range(self.options))
        return MessageTable(messages, rows, tuple(self._chance(0, number) for number in every))

    def _chance(self, row: int, number: int) -> Fraction:
        """Returns the probability that the bits of `row`, flipped, are those of `number`."""
        flips = (row ^ number).bit_count()
        return self.executed_flip**flips * (1 - self.executed_flip) ** (self.options - flips)

    @cached_property
    def domain(self) -> Category:
        return Category("CheuZhilyaev", self.options)

    @property
    def message_plan(self) -> WithDummies:
        return WithDummies(self.dummies)

    def hiding_table(self) -> HidingTable:
        return self.message_table().build_hiding_table()

    def table(self) -> OutputTable:
        return self.message_table().build_output_table("CheuZhilyaev", self.dummies)

    @classmethod
    def examples(cls) -> Sequence[CheuZhilyaev]:
        return [cls(options=2, flip=0.25), cls(options=3, flip=0.1), cls(options=2, flip=0.4, dummies=3)]
