"""Balls into bins: a random hash function with the option's bin, among uniform dummies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import inf
from typing import Any

from flint import arb

from shuffledp import argument
from shuffledp.array import Array
from shuffledp.mechanisms.mechanism import Estimate
from shuffledp.mechanisms.parts.dummy import NumberedDummies
from shuffledp.mechanisms.parts.published import all_filled, at_most
from shuffledp.numerics.ball import above
from shuffledp.privacy.pair import HidingPair, exact_pair
from shuffledp.privacy.randomizer import HasPublishedGuarantee
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling.hashed_option import HashedOption
from shuffledp.sampling.linear_hash import prime_at_most, prime_length
from shuffledp.sampling.random import RandomSource


@dataclass(frozen=True)
class BallsIntoBins(NumberedDummies, HasPublishedGuarantee):
    """Draw a hash function into b bins, send it with the option's bin; dummies are a hash function and a uniform bin.

    Every message has its own hash function, h_a(x) = ⟨a, digits of x⟩ over the field of b elements, b prime: any two
    options collide with probability 1/b exactly. All draws are exactly uniform on integers. A message is the number
    a·b + bin. With ``share`` below 1 a dummy is blank with probability 1 − share.

    Theorem: identity (★) with the uniform law of the dummies, M − 1 = (honest users)·dummies. Where the two options
    collide the message tells nothing. [VR] Table 3, balls-into-bins with d/s = b: p = ∞, β = 1 − 1/b, q = b.
    Requires: options ≥ 2; bins a prime; dummies ≥ 1; 0 < share ≤ 1.
    Returns: an upper bound: what the others' random hash functions hide on top is not counted.
    Deviates: the printed β is 1, which ignores collisions.
    """

    options: int
    bins: int
    dummies: int = 1
    share: float = 1.0

    name = "balls-into-bins"
    summary = "a random hash of the option, and uniform dummies; for many options"
    published_theorem = (
        "the protocol's own analysis [LWY22] as quoted in [VR] Figure 4: ε = √(32·b·log(2/δ)/dummies), ε ≤ 1.5"
    )

    @classmethod
    def variants(cls, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The more bins, the rarer collisions; up to 4096 of them the messages of all users are decoded together."""
        yield from ({"bins": prime_at_most(1 << power)} for power in range(2, 13))

    def __post_init__(self) -> None:
        who = "BallsIntoBins"
        object.__setattr__(self, "options", argument.count(who, "options", self.options, at_least=2))
        object.__setattr__(self, "bins", prime_length(who, "bins", self.bins, at_least=2))
        self._check_dummies()
        if self.kinds >= 1 << 62:
            raise ValueError(
                f"{who}: options and bins must give fewer than 2^62 messages, got {self.kinds} "
                f"for {self.options} options and {self.bins} bins."
            )

    @cached_property
    def hashed(self) -> HashedOption:
        return HashedOption(self.bins, self.options)

    @property
    def own_support(self) -> Fraction:
        return Fraction(1)

    @property
    def other_support(self) -> Fraction:
        return Fraction(1, self.bins)

    @property
    def filled_support(self) -> Fraction:
        return Fraction(1, self.bins)

    @property
    def kinds(self) -> int:
        return self.hashed.messages

    def real_messages(self, values: Array, source: RandomSource) -> Array:
        return self.hashed.own_messages(source.below(self.kinds // self.bins, len(values)), values)

    def accumulate(self, messages: Array) -> Array:
        return self.hashed.statistic(messages[messages < self.kinds])

    def finish(self, total: Array, users: int) -> Estimate:
        return super().finish(self.hashed.supports(total), users)

    def variation_ratio(self) -> VariationRatio:
        return VariationRatio(p=inf, beta=above(1 - self.filled_support), q=above(self.bins / self.filled))

    def blankets(self) -> Sequence[HidingPair]:
        collide, each, none = self.other_support, self.filled_support, Fraction(0)
        apart = 1 - collide
        laws = [(apart, none, apart * each), (none, apart, apart * each), (collide, collide, collide * each)]
        return [exact_pair(self._classes(laws), symmetric=True)]

    def attacks(self) -> Sequence[HidingPair]:
        """None whose exact law is known."""
        return ()

    def published_epsilon(self, messages: int, delta: arb) -> arb:
        all_filled(self)
        # Beyond what [VR] shows the formula is not an upper bound: with few dummies there may be none to hide behind.
        return at_most(1.5, (32 * self.bins * (2 / delta).log() / (messages - 1)).sqrt())

    def real_rows(self) -> tuple[tuple[Fraction, ...], ...]:
        each = Fraction(self.bins, self.kinds)
        return tuple(tuple(each if own else Fraction(0) for own in column) for column in self.hashed.own_columns().T)

    @classmethod
    def examples(cls) -> Sequence[BallsIntoBins]:
        return [
            cls(options=2, bins=2),
            cls(options=3, bins=3),
            cls(options=4, bins=2, dummies=2),
            cls(options=5, bins=2, share=0.5),
        ]
