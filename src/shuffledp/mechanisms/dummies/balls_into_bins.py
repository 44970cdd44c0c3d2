"""Balls into bins [LWY22]: a random hash function with the option's bin, among uniform dummies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import inf
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import NDArray

from shuffledp._core import validation
from shuffledp._core.validation import Array, Integers, checked
from shuffledp.mechanisms.base.domain import Category
from shuffledp.mechanisms.base.encoding import WholeNumberEncoding
from shuffledp.mechanisms.base.estimator import Estimator, SelectedOptions
from shuffledp.mechanisms.base.law import PairLaw, check_epsilon_range, check_no_blank_dummies
from shuffledp.mechanisms.base.mechanism import HidingTable, Mechanism, OutputTable
from shuffledp.mechanisms.base.message_plan import WithDummies
from shuffledp.mechanisms.base.support_counts import DecodedSupportEstimator, SelectedSupportEstimator
from shuffledp.mechanisms.dummies.pure_and_mix_dump import (
    MAX_DUMMIES,
    TUNABLE_DUMMIES,
    TUNABLE_SHARE,
    MessageTable,
    SupportAmongDummiesEstimator,
    UniformDummies,
    check_share,
)
from shuffledp.numerics.ball_arithmetic import float_above, to_rational
from shuffledp.privacy.dominating_pairs import exact_pair
from shuffledp.privacy.randomizer_interface import HasPublishedGuarantee
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling.hashing import HashMessages, check_prime_buckets, prime_at_most
from shuffledp.sampling.random_sources import RandomSource


@dataclass(frozen=True)
class HashAmongDummiesEstimator(SupportAmongDummiesEstimator):
    """Estimator for messages of a hash function and a bin, which support the options that have this bin.

    Blanks are ignored. An option has `special` consecutive bins, from the bin of its hash on and around the circle.

    Args:
        options: Number of options.
        true_support: s, the probability that a real message supports its user's option.
        false_support: r, the probability that it supports any other given option.
        dummies: Dummies of each user.
        dummy_support: Probability that a dummy supports a given option.
        hash_messages: The hash functions.
        special: Bins of each option.
    """

    hash_messages: HashMessages
    special: int

    def accumulate(self, messages: Array) -> Array:
        return np.asarray(sum(self.hash_messages.statistic(part) for part in self._shift_to_first_bins(messages)))

    def _shift_to_first_bins(self, messages: Array) -> Iterator[Array]:
        """Yields the filled messages with each bin at which the option's row of bins may begin."""
        filled, bins = messages[messages < self.hash_messages.messages], self.hash_messages.buckets
        for step in range(self.special):
            yield filled if step == 0 else filled - filled % bins + (filled % bins - step) % bins

    def support_counts(self, total: Array) -> Array:
        return self.hash_messages.supports(total)

    def select(self, selection: SelectedOptions) -> Estimator:
        return (
            DecodedSupportEstimator(self, selection)
            if self.hash_messages.is_message_count
            else SelectedSupportEstimator(self, selection)
        )

    def count_supports(self, messages: Array, selection: SelectedOptions) -> Integers:
        return np.asarray(
            sum(
                self.hash_messages.supports_of_options(part, selection.options)
                for part in self._shift_to_first_bins(messages)
            )
        )


@dataclass(frozen=True)
class BallsIntoBins(Mechanism, HasPublishedGuarantee):
    """A random hash function into b bins with the option's bin, among dummies of a hash function and a uniform bin.

    Every message has its own hash function, h_a(x) = ⟨a, digits of x⟩ over the field of b elements, b prime: any two
    options collide with probability 1/b exactly. All draws are exactly uniform on integers. A message is the number
    a·b + bin. If s = `special` is above 1 an option has s bins, from its hash on and around the circle, and the real
    message names a uniform one. There is no local ε: the user's bin is in the clear, and hides only among the dummies.

    Theorem: identity (★) with the uniform law of the dummies, M − 1 = (honest users)·dummies. A bin that both options
    have reveals nothing. [VR] Table 3, balls-into-bins with b bins, s of them special: p = ∞, β = 1 − s/b, q = b/s.
    Requires: options ≥ 2; bins a prime; dummies ≥ 1; 0 < share ≤ 1; 1 ≤ special < bins.
    Returns: an upper bound: the additional hiding by the others' random hash functions is not counted.
    Deviates: the printed β is 1, which ignores collisions.

    Args:
        options: Number of options; a user's value is the number of one of them, from 0.
        bins: b, a prime; more bins make collisions rarer and the hiding weaker.
        dummies: Noise messages that each user adds.
        share: Probability that a dummy is filled and not blank.
        special: s, the bins of each option; more bins hide better.

    Raises:
        TypeError: If an argument is not a number.
        ValueError: If an argument is outside its range, `bins` is not a prime, or there are 2^62 messages or more.

    Example:
        >>> import shuffledp as sdp
        >>> mechanism = sdp.BallsIntoBins(options=100_000, bins=61)
        >>> mechanism.messages_per_user, mechanism.message_bits
        (2, 24)
        >>> f"{sdp.amplify(mechanism, users=100_000).epsilon(delta=1e-6).upper:.4f}"
        '0.1280'
    """

    options: int = field(metadata=checked(validation.count, at_least=2))
    bins: int = field(metadata=checked(check_prime_buckets, at_least=2))
    dummies: int = field(default=1, metadata=checked(validation.count, at_most=MAX_DUMMIES))
    share: float = field(default=1.0, metadata=checked(check_share))
    special: int = field(default=1, metadata=checked(validation.count))

    name = "balls-into-bins"
    task = "frequency"
    summary = "a random hash of the option, and uniform dummies; for many options"
    use_case = "For very many options, where the shuffler is trusted and a few dummies may be sent."
    tunable = (TUNABLE_DUMMIES, TUNABLE_SHARE)
    published_theorem = (
        "the protocol's own analysis [LWY22] as quoted in [VR] Figure 4: ε = √(32·b·log(2/δ)/(s·dummies)), ε ≤ 1.5"
    )

    @classmethod
    def variants(cls, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yields several numbers of bins: more have rarer collisions; up to 4096 all messages are decoded together."""
        yield from ({"bins": prime_at_most(1 << power)} for power in range(2, 13))

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.special < self.bins:
            raise ValueError(f"BallsIntoBins: special must be below the {self.bins} bins, got {self.special}.")
        kinds = self.hash_messages.messages
        if kinds >= 1 << 62:
            raise ValueError(
                f"BallsIntoBins: options and bins must give fewer than 2^62 messages, got {kinds} "
                f"for {self.options} options and {self.bins} bins."
            )

    @cached_property
    def hash_messages(self) -> HashMessages:
        """The family of hash functions."""
        return HashMessages(self.bins, self.options)

    @cached_property
    def dummy_law(self) -> UniformDummies:
        """The dummies that hide the bin."""
        return UniformDummies.from_share(self.dummies, self.hash_messages.messages, self.share)

    @cached_property
    def law(self) -> PairLaw:
        """The law; in its attack the others hold option 2, with neither the bin of 0 nor that of 1 where those differ.

        With two bins or options, or several bins per option, the others hold 0, and only bins of 1 alone count.
        """
        collide, none = self._bin_share, Fraction(0)
        apart = 1 - collide
        laws = [(apart, none, apart * collide), (none, apart, apart * collide), (collide, collide, collide * collide)]
        parameters = VariationRatio(
            p=inf, beta=float_above(apart), q=float_above(1 / (self._bin_share * self.dummy_law.filled))
        )
        three = self.special == 1 and self.bins > 2 and self.options > 2
        counted = laws[:2] if three else [(none, apart, apart * collide)]
        first, second, hiding = (sum(column, none) for column in zip(*counted, strict=True))
        rest = to_rational(1 - first), to_rational(1 - second), to_rational(1 - self.dummy_law.filled * hiding)
        attacked = exact_pair([*self.dummy_law.classes(counted), rest], symmetric=len(counted) == 2)
        hidden = exact_pair(self.dummy_law.classes(laws), symmetric=True)
        return PairLaw(parameters, (hidden,), attack_pairs=(attacked,), tight=True)

    @property
    def _bin_share(self) -> Fraction:
        """The share of all bins that an option has, and so the probability that another option has a given bin."""
        return Fraction(self.special, self.bins)

    @cached_property
    def estimator(self) -> HashAmongDummiesEstimator:
        one, each = Fraction(1), self._bin_share
        hidden = self.dummy_law.filled * each
        return HashAmongDummiesEstimator(
            self.options, one, each, self.dummies, hidden, self.hash_messages, self.special
        )

    def _draw_real_messages(self, values: Array, source: RandomSource) -> Array:
        first = self.hash_messages.compute_messages(
            source.integers_below(self.hash_messages.messages // self.bins, len(values)), values
        )
        if self.special == 1:
            return first
        bins = first % self.bins
        return np.asarray(first - bins + (bins + source.integers_below(self.special, len(values))) % self.bins)

    def published_epsilon(self, messages: int, delta: arb) -> arb:
        """Returns the ε of the published analysis, as printed.

        Raises:
            NotApplicable: If some dummies are blank, or ε exceeds 1.5.
        """
        check_no_blank_dummies(self.share)
        # Beyond the range of [VR] the formula is not an upper bound: few dummies may leave none to hide among.
        return check_epsilon_range(1.5, (32 * self.bins * (2 / delta).log() / (self.special * (messages - 1))).sqrt())

    def message_table(self) -> MessageTable:
        """Returns the exact laws of single messages, for small instances."""
        each, columns = Fraction(self.bins, self.hash_messages.messages * self.special), self._support_columns().T
        return self.dummy_law.build_message_table(
            tuple(tuple(each if own else Fraction(0) for own in column) for column in columns)
        )

    def _support_columns(self) -> NDArray[np.bool_]:
        """Returns which messages name a bin of which option: one row per message, one column per option."""
        first = self.hash_messages.support_matrix().reshape(-1, self.bins, self.options)
        rows = [np.roll(first, step, axis=1) for step in range(self.special)]
        return np.asarray(np.any(rows, axis=0).reshape(-1, self.options))

    @cached_property
    def domain(self) -> Category:
        return Category("BallsIntoBins", self.options)

    @property
    def message_plan(self) -> WithDummies:
        return WithDummies(self.dummies)

    @cached_property
    def encoding(self) -> WholeNumberEncoding:
        return WholeNumberEncoding("BallsIntoBins", self.dummy_law.outputs)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        return self.dummy_law.add_dummies(self._draw_real_messages, values, source)

    def hiding_table(self) -> HidingTable:
        return self.message_table().build_hiding_table()

    def table(self) -> OutputTable:
        return self.message_table().build_output_table("BallsIntoBins", self.dummies)

    @classmethod
    def examples(cls) -> Sequence[BallsIntoBins]:
        return [
            cls(options=2, bins=2),
            cls(options=3, bins=3),
            cls(options=4, bins=2, dummies=2),
            cls(options=5, bins=2, share=0.5),
            cls(options=4, bins=5, special=2),
        ]
