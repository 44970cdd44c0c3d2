"""Balls into bins: a random hash function with the option's bin, among uniform dummies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import inf
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import NDArray

from shuffledp import argument
from shuffledp.array import Array, Integers
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import HidingTable, OutputTable
from shuffledp.mechanisms.parts.asked import Asked
from shuffledp.mechanisms.parts.crowd import AmongDummies
from shuffledp.mechanisms.parts.dummy import (
    DUMMIES,
    SHARE,
    DummyReading,
    MessageTable,
    UniformDummies,
    checked_dummies,
    checked_share,
)
from shuffledp.mechanisms.parts.pair_law import PairLaw
from shuffledp.mechanisms.parts.published import all_filled, at_most
from shuffledp.mechanisms.parts.reading import Reading
from shuffledp.mechanisms.parts.support import DecodedSupports, SomeSupports
from shuffledp.mechanisms.parts.user_values import OneOption
from shuffledp.mechanisms.parts.wire import WholeNumberWire
from shuffledp.numerics.ball import above, rational
from shuffledp.privacy.pair import exact_pair
from shuffledp.privacy.randomizer import HasPublishedGuarantee
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling.hashed_option import HashedOption
from shuffledp.sampling.linear_hash import prime_at_most, prime_length
from shuffledp.sampling.random import RandomSource


@dataclass(frozen=True)
class HashedAmongDummies(DummyReading):
    """A message is a hash function and a bin, and supports the options one of whose bins it is; blanks are left out.

    An option's bins are ``special`` ones in a row, from the bin of its hash on and around the circle.
    """

    hashed: HashedOption
    special: int

    def accumulate(self, messages: Array) -> Array:
        return np.asarray(sum(self.hashed.statistic(part) for part in self._first_bins(messages)))

    def _first_bins(self, messages: Array) -> Iterator[Array]:
        """The filled messages, with each of the bins from which an option's row may have started."""
        filled, bins = self._filled(messages), self.hashed.buckets
        for step in range(self.special):
            yield filled if step == 0 else filled - filled % bins + (filled % bins - step) % bins

    def _filled(self, messages: Array) -> Array:
        return np.asarray(messages[messages < self.hashed.messages])

    def supports(self, total: Array) -> Array:
        return self.hashed.supports(total)

    def some(self, asked: Asked) -> Reading:
        return DecodedSupports(self, asked) if self.hashed.counts_messages else SomeSupports(self, asked)

    def supports_of(self, messages: Array, asked: Asked) -> Integers:
        return np.asarray(sum(self.hashed.supports_of(part, asked.options) for part in self._first_bins(messages)))


@dataclass(frozen=True)
class BallsIntoBins(Mechanism, HasPublishedGuarantee):
    """Draw a hash function into b bins, send it with the option's bin; dummies are a hash function and a uniform bin.

    Every message has its own hash function, h_a(x) = ⟨a, digits of x⟩ over the field of b elements, b prime: any two
    options collide with probability 1/b exactly. All draws are exactly uniform on integers. A message is the number
    a·b + bin. With ``share`` below 1 a dummy is blank with probability 1 − share. With ``special`` bins s above 1 an
    option has s of them, from its hash on and around the circle, and the real message names a uniform one.

    ``options``: how many options there are; a user's value is the number of one of them, from 0. ``bins``: b; the more,
    the rarer collisions and the weaker the hiding. ``dummies``: how many noise messages every user adds, 1 by default.
    ``share``: the chance that a dummy is filled and not blank, 1 by default. ``special``: s, how many bins an option
    has, 1 by default; the more, the better the hiding. There is no local ε: the own bin is in the clear, and hides only
    among the dummies.

    Theorem: identity (★) with the uniform law of the dummies, M − 1 = (honest users)·dummies. A bin that both options
    have tells nothing. [VR] Table 3, balls-into-bins with b bins, s of them special: p = ∞, β = 1 − s/b, q = b/s.
    Requires: options ≥ 2; bins a prime; dummies ≥ 1; 0 < share ≤ 1; 1 ≤ special < bins.
    Returns: an upper bound: what the others' random hash functions hide on top is not counted.
    Deviates: the printed β is 1, which ignores collisions.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.BallsIntoBins(options=100_000, bins=61)
    >>> mechanism.messages_per_user, mechanism.message_bits
    (2, 24)
    >>> f"{sdp.amplify(mechanism, users=100_000).epsilon(delta=1e-6).upper:.4f}"
    '0.1280'
    """

    options: int
    bins: int
    dummies: int = 1
    share: float = 1.0
    special: int = 1

    name = "balls-into-bins"
    task = "frequency"
    summary = "a random hash of the option, and uniform dummies; for many options"
    take_it = "For very many options, where the shuffler is trusted and a few dummies may be sent."
    tuning = (DUMMIES, SHARE)
    published_theorem = (
        "the protocol's own analysis [LWY22] as quoted in [VR] Figure 4: ε = √(32·b·log(2/δ)/(s·dummies)), ε ≤ 1.5"
    )

    @classmethod
    def variants(cls, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The more bins, the rarer collisions; up to 4096 of them the messages of all users are decoded together."""
        yield from ({"bins": prime_at_most(1 << power)} for power in range(2, 13))

    def __post_init__(self) -> None:
        who = "BallsIntoBins"
        object.__setattr__(self, "options", argument.count(who, "options", self.options, at_least=2))
        object.__setattr__(self, "bins", prime_length(who, "bins", self.bins, at_least=2))
        object.__setattr__(self, "dummies", checked_dummies(who, self.dummies))
        object.__setattr__(self, "share", checked_share(who, self.share))
        object.__setattr__(self, "special", argument.count(who, "special", self.special))
        if not self.special < self.bins:
            raise ValueError(f"{who}: special must be below the {self.bins} bins, got {self.special}.")
        kinds = self.hashed.messages
        if kinds >= 1 << 62:
            raise ValueError(
                f"{who}: options and bins must give fewer than 2^62 messages, got {kinds} "
                f"for {self.options} options and {self.bins} bins."
            )

    @cached_property
    def hashed(self) -> HashedOption:
        return HashedOption(self.bins, self.options)

    @cached_property
    def uniform(self) -> UniformDummies:
        """What hides the bin."""
        return UniformDummies.of_share(self.dummies, self.hashed.messages, self.share)

    @cached_property
    def values(self) -> OneOption:
        return OneOption("BallsIntoBins", self.options)

    @cached_property
    def law(self) -> PairLaw:
        """Attacked with options 0 and 1, whose bins differ where that of 2 does; what others send tells neither then.

        With two bins or options, or several bins an option, the others hold 0, and only what 1 alone has counts.
        """
        collide, none = self._each, Fraction(0)
        apart = 1 - collide
        laws = [(apart, none, apart * collide), (none, apart, apart * collide), (collide, collide, collide * collide)]
        parameters = VariationRatio(p=inf, beta=above(apart), q=above(1 / (self._each * self.uniform.filled)))
        three = self.special == 1 and self.bins > 2 and self.options > 2
        counted = laws[:2] if three else [(none, apart, apart * collide)]
        told = [sum((law[place] for law in counted), none) for place in (0, 1)]
        elsewhere = 1 - self.uniform.filled * sum((chance for *_, chance in counted), none)
        rest = rational(1 - told[0]), rational(1 - told[1]), rational(elsewhere)
        attacked = exact_pair([*self.uniform.classes(counted), rest], symmetric=len(counted) == 2)
        hidden = exact_pair(self.uniform.classes(laws), symmetric=True)
        return PairLaw(parameters, (hidden,), attacked=(attacked,), tight=True)

    @property
    def _each(self) -> Fraction:
        """The share of all bins that an option has, and so the chance that another one has a given bin."""
        return Fraction(self.special, self.bins)

    @property
    def crowd(self) -> AmongDummies:
        return AmongDummies(self.dummies)

    @cached_property
    def wire(self) -> WholeNumberWire:
        return WholeNumberWire("BallsIntoBins", self.uniform.outputs)

    @cached_property
    def reading(self) -> HashedAmongDummies:
        one, each = Fraction(1), self._each
        hidden = self.uniform.filled * each
        return HashedAmongDummies(self.options, one, each, self.dummies, hidden, self.hashed, self.special)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        return self.uniform.around(self._real, values, source)

    def _real(self, values: Array, source: RandomSource) -> Array:
        first = self.hashed.own_messages(source.below(self.hashed.messages // self.bins, len(values)), values)
        if self.special == 1:
            return first
        bins = first % self.bins
        return np.asarray(first - bins + (bins + source.below(self.special, len(values))) % self.bins)

    def published_epsilon(self, messages: int, delta: arb) -> arb:
        all_filled(self.share)
        # Beyond what [VR] shows the formula is not an upper bound: with few dummies there may be none to hide behind.
        return at_most(1.5, (32 * self.bins * (2 / delta).log() / (self.special * (messages - 1))).sqrt())

    def message_table(self) -> MessageTable:
        """The exact laws of single messages, for instances small enough to write down."""
        each, columns = Fraction(self.bins, self.hashed.messages * self.special), self._own_columns().T
        return self.uniform.table(tuple(tuple(each if own else Fraction(0) for own in column) for column in columns))

    def _own_columns(self) -> NDArray[np.bool_]:
        """Whether a message names a bin of an option: one row per message, one column per option."""
        first = self.hashed.own_columns().reshape(-1, self.bins, self.options)
        rows = [np.roll(first, step, axis=1) for step in range(self.special)]
        return np.asarray(np.any(rows, axis=0).reshape(-1, self.options))

    def hiding_table(self) -> HidingTable:
        return self.message_table().hiding()

    def table(self) -> OutputTable:
        return self.message_table().with_dummies("BallsIntoBins", self.dummies)

    @classmethod
    def examples(cls) -> Sequence[BallsIntoBins]:
        return [
            cls(options=2, bins=2),
            cls(options=3, bins=3),
            cls(options=4, bins=2, dummies=2),
            cls(options=5, bins=2, share=0.5),
            cls(options=4, bins=5, special=2),
        ]
