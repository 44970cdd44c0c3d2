"""Local hashing, a frequency oracle: randomized response on a random hash of the option, sent with its function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from shuffledp import argument
from shuffledp.array import Array
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.hash_support import HashSupport, InOwnBucket
from shuffledp.mechanisms.parts.own_region import OwnRegion, RegionLaw
from shuffledp.mechanisms.parts.reference import UniformNumber
from shuffledp.mechanisms.parts.user_values import OneOption
from shuffledp.mechanisms.parts.wire import WholeNumberWire
from shuffledp.privacy.pair import HidingPair
from shuffledp.sampling.hashed_option import HashedOption
from shuffledp.sampling.linear_hash import best_prime_within, prime_at_least, prime_length
from shuffledp.sampling.random import RandomSource

MOST_COMPARED = 1 << 12
MOST_MESSAGES = 1 << 63
USERS_AT_ONCE = 1 << 13
"""Small enough for arrays of them to stay in the cache, and in memory that is used again."""


@dataclass(frozen=True)
class LocalHash(Mechanism):
    """Draw a hash function into l buckets, report it with a uniform bucket with probability γ, else with one's own.

    l is prime, by default the one with the least variance that gives fewer than 2^63 messages. The hash is h_a(x) = ⟨a,
    digits of x⟩ over the field of l elements, a uniform on its m digits, where options are numbers of m digits in base
    l: two options collide with probability 1/l exactly. γ = l/(e^ε + l − 1), rounded up to a multiple of 2^-64, which
    keeps the ratio at most e^ε; the rest is drawn uniformly on integers. A message is the number a·l + bucket.

    ``epsilon``: the local ε that every message keeps. ``options``: d, how many options there are; a user's value is the
    number of one of them, from 0. ``length``: l, how many buckets, a prime.

    Theorem: [VR] Table 1, local hash: p = q = e^ε, β = (1−1/l)(e^ε−1)/(e^ε+l−1); q_common = 1 if l ≥ d.
    Deviates: the printed β lacks the factor 1−1/l (erratum ME-2). An affine offset of the hash is left out: it cancels,
    as the law depends on bucket − h_a(x) alone, and option 0 in bucket 0 tells nothing.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.LocalHash(epsilon=2.0, options=1_000_000)
    >>> mechanism.length, mechanism.message_bits
    (7, 26)
    >>> sdp.LocalHash(epsilon=2.0, options=1_000_000, length=31).message_bits
    30
    """

    epsilon: float
    options: int
    length: int | None = None

    name = "local-hash"
    task = "frequency"
    summary = "randomized response on a hash of the option; short messages for many options"
    take_it = "For very many options in short messages; reading takes longer."
    also_called = (
        "olh",
        "blh",
        "lh",
        "hashing",
    )

    @classmethod
    def variants(cls, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Lengths a third apart: among many users another one is best than for one message alone.

        Up to 4096 buckets the messages of all users are decoded together.
        """
        length = 2
        while length < MOST_COMPARED:
            yield {"length": length}
            length = prime_at_least(length + 1 + length // 3)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", argument.positive_finite("LocalHash", "epsilon", self.epsilon))
        object.__setattr__(self, "options", argument.count("LocalHash", "options", self.options, at_least=2))
        object.__setattr__(self, "length", self._chosen_length())
        assert self.region
        if self.hashed.messages >= MOST_MESSAGES:
            raise ValueError(
                f"LocalHash: options and length must give fewer than 2^63 messages, got {self.hashed.messages} "
                f"for {self.options} options and length {self.buckets}."
            )

    def _chosen_length(self) -> int:
        """l: the given length, or else the prime with the least variance."""
        if self.length is None:
            return best_prime_within(self.epsilon, self.options, MOST_MESSAGES)
        return prime_length("LocalHash", "length", self.length, at_least=2)

    @property
    def buckets(self) -> int:
        """l: as given, or as chosen when the mechanism was made."""
        assert self.length is not None, "the constructor has chosen it"
        return self.length

    @cached_property
    def hashed(self) -> HashedOption:
        """The messages: l^m seeds, l buckets."""
        return HashedOption(self.buckets, self.options)

    @cached_property
    def region(self) -> OwnRegion:
        """A user's region is the own bucket, of every hash function."""
        return OwnRegion("LocalHash", self.epsilon, Fraction(1, self.buckets))

    @cached_property
    def values(self) -> OneOption:
        return OneOption("LocalHash", self.options)

    @cached_property
    def law(self) -> RegionLaw:
        """Any two options; only the seed 0 puts all options into one bucket, as the powers of l are among them."""
        l, messages = self.buckets, self.hashed.messages
        # With m = 1 two options collide only where all do.
        q_common = 1.0 if self.hashed.degree == 1 else None
        return RegionLaw(
            self.region,
            only_one=Fraction(l - 1, l * l),
            always=Fraction(1, messages),
            q_common=q_common,
            attacked=tuple(self._attacks()),
            tight=True,
            covers_mixtures=True,
            space=(self.name, self.options, self.buckets),
        )

    def _attacks(self) -> Iterator[HidingPair]:
        """Options 0 and 1, where all others hold a third one, or 0 where there is none.

        The third may be 2, on the line through the pair (2·h(1) is its place): two collide only where all three do. Or,
        with m > 1, it is l: the places of the three are independent.
        """
        l, every = self.buckets, list(product((True, False), repeat=3))
        if l > 2 or self.options == 2:
            third, only_one = self.options > 2, Fraction(l - 1, l * l)
            shares = dict.fromkeys(every, Fraction(0))
            shares[True, False, not third] = shares[False, True, False] = only_one
            shares[False, False, True] = only_one if third else Fraction(0)
            shares[True, True, True] = Fraction(1, l * l)
            shares[False, False, False] = 1 - sum(shares.values(), start=Fraction(0))
            yield self.region.attack(shares, symmetric=third)
        if self.hashed.degree > 1:
            shares = {inside: Fraction((l - 1) ** (3 - sum(inside)), l**3) for inside in every}
            yield self.region.attack(shares, symmetric=True)

    @cached_property
    def wire(self) -> WholeNumberWire:
        return WholeNumberWire("LocalHash", self.hashed.messages)

    @cached_property
    def reading(self) -> HashSupport:
        own, other = self.region.inside / self.buckets, Fraction(1, self.buckets)
        return HashSupport(self.options, own, other, hashed=self.hashed)

    @cached_property
    def reference(self) -> UniformNumber:
        return UniformNumber(self.region, InOwnBucket(self.hashed), self.hashed.messages)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        l, honest = self.buckets, 1 - self.region.uniform_share
        result = np.empty(len(values), dtype=np.int64)
        for start in range(0, len(values), USERS_AT_ONCE):
            own = values[start : start + USERS_AT_ONCE]
            messages = source.below(self.hashed.messages, len(own))
            seeds = messages // l
            truth = self.hashed.own_messages(seeds, own)
            np.copyto(messages, truth, where=source.coins(honest, len(own)))
            result[start : start + len(own)] = messages
        return result

    def table(self) -> OutputTable:
        messages = self.hashed.messages
        high, low = self.region.inside / messages, self.region.outside / messages
        rows = tuple(tuple(high if hit else low for hit in column) for column in self.hashed.own_columns().T)
        return OutputTable(np.arange(self.options), np.arange(messages), rows)

    @classmethod
    def examples(cls) -> Sequence[LocalHash]:
        return [
            cls(epsilon=1.0, options=5),
            cls(epsilon=0.5, options=7, length=2),
            cls(epsilon=2.0, options=6, length=7),
            cls(epsilon=2.0, options=8, length=5),
            cls(epsilon=1.0, options=2, length=3),
        ]
