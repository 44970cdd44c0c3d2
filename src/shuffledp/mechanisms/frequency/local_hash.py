"""Local hashing, a frequency oracle: randomized response on a random hash of the option, sent with the function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from shuffledp._core import validation
from shuffledp._core.validation import Array, Bools, Integers, checked
from shuffledp.mechanisms.base.domain import Category
from shuffledp.mechanisms.base.encoding import WholeNumberEncoding
from shuffledp.mechanisms.base.estimator import Estimator, SelectedOptions
from shuffledp.mechanisms.base.mechanism import Mechanism, OutputTable
from shuffledp.mechanisms.base.seed_compression import UniformNumberProposal
from shuffledp.mechanisms.base.support_counts import DecodedSupportEstimator, SelectedSupportEstimator, SupportEstimator
from shuffledp.mechanisms.base.two_level_law import TwoLevelLaw, TwoLevelResponse
from shuffledp.privacy.dominating_pairs import HidingPair
from shuffledp.sampling.hashing import HashMessages, best_prime_within, check_prime_buckets, prime_at_least
from shuffledp.sampling.random_sources import RandomSource

# --- Estimator and test of messages that are a hash function and a bucket ---


@dataclass(frozen=True)
class HashSupportEstimator(SupportEstimator):
    """Estimator of counts from messages that support all options hashed to their bucket.

    The statistic counts messages if there are few distinct ones, and is decoded at the end; else it counts the options'
    supports.
    """

    hash_messages: HashMessages = field(kw_only=True)

    def accumulate(self, messages: Array) -> Array:
        return self.hash_messages.statistic(messages)

    def support_counts(self, total: Array) -> Array:
        return self.hash_messages.supports(total)

    def select(self, selection: SelectedOptions) -> Estimator:
        kind = DecodedSupportEstimator if self.hash_messages.is_message_count else SelectedSupportEstimator
        return kind(self, selection)

    def count_supports(self, messages: Array, selection: SelectedOptions) -> Integers:
        return self.hash_messages.supports_of_options(messages, selection.options)


@dataclass(frozen=True)
class BucketMembership:
    """Function of options and messages that is True where the message names the option's bucket."""

    hash_messages: HashMessages

    def __call__(self, values: Array, messages: Array) -> Bools:
        seeds = messages // self.hash_messages.buckets
        return np.asarray(self.hash_messages.compute_messages(seeds, values) == messages)


MAX_PLANNED_LENGTH = 1 << 12
MAX_MESSAGES = 1 << 63
USERS_AT_ONCE = 1 << 13
"""Small enough for the working arrays to stay in the cache and to reuse their memory."""


# --- The mechanism ---


@dataclass(frozen=True)
class LocalHash(Mechanism):
    """Draws a hash function into l buckets; reports it with a uniform bucket with probability γ, else the true one.

    l is prime, by default the one with the least variance that gives fewer than 2^63 messages. The hash is h_a(x) = ⟨a,
    digits of x⟩ over the field of l elements, with a uniform vector a of m digits, where options are numbers of m
    digits in base l: two options collide with probability 1/l exactly. γ = l/(e^ε + l − 1) is rounded up to a multiple
    of 2^-64, which keeps the ratio at most e^ε; the rest is drawn uniformly on integers. A message is the number a·l +
    bucket.

    Theorem: [VR] Table 1, local hash: p = q = e^ε, β = (1−1/l)(e^ε−1)/(e^ε+l−1); q_common = 1 if l ≥ d.
    Deviates: the printed β lacks the factor 1−1/l (erratum ME-2). An affine offset of the hash is left out: it cancels,
    as the law depends on bucket − h_a(x) alone, and option 0 in bucket 0 reveals nothing.

    Args:
        epsilon: Local ε of every message.
        options: Number of options d; a user's value is an option from 0 to d − 1.
        length: Number of buckets l, a prime; None for the one with the least variance.

    Raises:
        ValueError: If a parameter is out of range, ``length`` is not prime, or there would be 2^63 messages or more.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.LocalHash(epsilon=2.0, options=1_000_000)
    >>> mechanism.length, mechanism.message_bits
    (7, 26)
    >>> sdp.LocalHash(epsilon=2.0, options=1_000_000, length=31).message_bits
    30
    """

    epsilon: float = field(metadata=checked(validation.positive_finite))
    options: int = field(metadata=checked(validation.count, at_least=2))
    length: int | None = None

    name = "local-hash"
    task = "frequency"
    summary = "randomized response on a hash of the option; short messages for many options"
    use_case = "For very many options in short messages; reading takes longer."
    aliases = ("olh", "blh", "lh", "hashing")

    @classmethod
    def variants(cls, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        # The best length among many users differs from that of a single message. Up to 4096 buckets the messages of all
        # users are decoded together.
        length = 2
        while length < MAX_PLANNED_LENGTH:
            yield {"length": length}
            length = prime_at_least(length + 1 + length // 3)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "length", self._choose_length())
        _ = self.response
        if self.hash_messages.messages >= MAX_MESSAGES:
            raise ValueError(
                f"LocalHash: options and length must give fewer than 2^63 messages, got {self.hash_messages.messages} "
                f"for {self.options} options and length {self.buckets}."
            )

    def _choose_length(self) -> int:
        """Returns l: the given length, or else the prime with the least variance."""
        if self.length is None:
            return best_prime_within(self.epsilon, self.options, MAX_MESSAGES)
        return check_prime_buckets("LocalHash", "length", self.length, at_least=2)

    @property
    def buckets(self) -> int:
        """l, as given or as chosen by the constructor."""
        assert self.length is not None, "the constructor has chosen it"
        return self.length

    @cached_property
    def hash_messages(self) -> HashMessages:
        """The messages: l^m hash functions and l buckets."""
        return HashMessages(self.buckets, self.options)

    @cached_property
    def response(self) -> TwoLevelResponse:
        """The messages with the option's own bucket, for every hash function."""
        return TwoLevelResponse("LocalHash", self.epsilon, Fraction(1, self.buckets))

    @cached_property
    def domain(self) -> Category:
        return Category("LocalHash", self.options)

    @cached_property
    def law(self) -> TwoLevelLaw:
        """The law of any two options; only the hash function 0 puts all of them into one bucket: powers of l occur."""
        l, messages = self.buckets, self.hash_messages.messages
        # With m = 1, two options collide only if all do.
        q_common = 1.0 if self.hash_messages.degree == 1 else None
        return TwoLevelLaw(
            self.response,
            exclusive_share=Fraction(l - 1, l * l),
            common_share=Fraction(1, messages),
            q_common=q_common,
            attack_pairs=tuple(self._build_attacks()),
            tight=True,
            covers_mixtures=True,
            space_key=(self.name, self.options, self.buckets),
        )

    def _build_attacks(self) -> Iterator[HidingPair]:
        """Yields the attacks on options 0 and 1 where all others hold a third option, or 0 if there is none.

        The third option may be 2, on the line through the pair (its hash is 2·h(1)): two of them collide only if all
        three do. Or, with m > 1, it is l: the hashes of the three are independent.
        """
        l, every = self.buckets, list(product((True, False), repeat=3))
        if l > 2 or self.options == 2:
            third, only_one = self.options > 2, Fraction(l - 1, l * l)
            shares = dict.fromkeys(every, Fraction(0))
            shares[True, False, not third] = shares[False, True, False] = only_one
            shares[False, False, True] = only_one if third else Fraction(0)
            shares[True, True, True] = Fraction(1, l * l)
            shares[False, False, False] = 1 - sum(shares.values(), start=Fraction(0))
            yield self.response.attack(shares, symmetric=third)
        if self.hash_messages.degree > 1:
            shares = {inside: Fraction((l - 1) ** (3 - sum(inside)), l**3) for inside in every}
            yield self.response.attack(shares, symmetric=True)

    @cached_property
    def encoding(self) -> WholeNumberEncoding:
        return WholeNumberEncoding("LocalHash", self.hash_messages.messages)

    @cached_property
    def estimator(self) -> HashSupportEstimator:
        own, other = self.response.inside_density / self.buckets, Fraction(1, self.buckets)
        return HashSupportEstimator(self.options, own, other, hash_messages=self.hash_messages)

    @cached_property
    def proposal(self) -> UniformNumberProposal:
        return UniformNumberProposal(self.response, BucketMembership(self.hash_messages), self.hash_messages.messages)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        l, honest = self.buckets, 1 - self.response.uniform_share
        result = np.empty(len(values), dtype=np.int64)
        for start in range(0, len(values), USERS_AT_ONCE):
            own = values[start : start + USERS_AT_ONCE]
            messages = source.integers_below(self.hash_messages.messages, len(own))
            seeds = messages // l
            truth = self.hash_messages.compute_messages(seeds, own)
            np.copyto(messages, truth, where=source.coins(honest, len(own)))
            result[start : start + len(own)] = messages
        return result

    def table(self) -> OutputTable:
        messages = self.hash_messages.messages
        high, low = self.response.inside_density / messages, self.response.outside_density / messages
        rows = tuple(tuple(high if hit else low for hit in column) for column in self.hash_messages.support_matrix().T)
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
