"""Messages that are a random hash function and a bucket: drawing the own bucket, and counting support."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shuffledp.array import Array, Integers
from shuffledp.sampling import asked_support, hash_decoding
from shuffledp.sampling.linear_hash import LinearHash

LARGEST_PRODUCT_TABLE = 1 << 20
MESSAGES_AT_ONCE = 1 << 18
FEW = 4
"""Sums are shared where there is more than a message for so many buckets; it takes as long for fewer."""


@dataclass(frozen=True)
class HashedOption:
    """The messages a·l + y: the hash h_a(x) = ⟨a, digits of x⟩ over the field of l elements, l prime, and a bucket y.

    Options are numbers of m digits in base l. With a uniform on its m digits, two options collide with probability
    1/l exactly. A message supports the options whose bucket is y.
    """

    buckets: int
    """l."""
    options: int

    @cached_property
    def hashing(self) -> LinearHash:
        return LinearHash(self.buckets, self.options)

    @property
    def degree(self) -> int:
        """m."""
        return self.hashing.degree

    @property
    def messages(self) -> int:
        """How many different messages there are: l^m seeds, l buckets."""
        return int(self.buckets ** (self.degree + 1))

    def own_messages(self, seeds: Array, options: Array) -> Integers:
        """The message with this seed and the option's own bucket, for each user."""
        return np.asarray(self._products(seeds, options) + seeds * self.buckets)

    def _products(self, seeds: Array, options: Array) -> Integers:
        """⟨a, digits of x⟩ for each user, by table where blocks of digits are few enough."""
        l, block, table = self._product_table
        scale, blocks = l**block, -(-self.degree // block)
        total: Array | int = 0
        for later in range(blocks - 1, -1, -1):
            seed, option = seeds, options
            if later:
                seeds, options = seeds // scale, options // scale
                seed, option = seed - seeds * scale, option - options * scale
            total += seed * option if table is None else table[option * scale + seed].astype(np.int64)
        # Division by one number is fast, the remainder is not.
        return np.asarray(total - total // l * l)

    @cached_property
    def _product_table(self) -> tuple[int, int, Array | None]:
        """(l, block, table): inner products of all pairs of numbers of ``block`` digits, unless there are too many."""
        l, m = self.buckets, self.degree
        if l * l > LARGEST_PRODUCT_TABLE:
            return l, 1, None
        widest = 1
        while widest < m and l ** (2 * widest + 2) <= LARGEST_PRODUCT_TABLE:
            widest += 1
        block = -(-m // -(-m // widest))
        digits = LinearHash(l, l**block).codes
        return l, block, (digits @ digits.T % l).astype(np.min_scalar_type(l - 1)).reshape(-1)

    @property
    def counts_messages(self) -> bool:
        """Whether ``statistic`` counts messages, and ``supports`` decodes; else ``statistic`` decodes."""
        return self.messages <= hash_decoding.MOST_CELLS

    def statistic(self, messages: Array) -> Integers:
        """What adds up over batches: a count of each message, or of each option's support."""
        if self.counts_messages:
            return np.bincount(messages, minlength=self.messages)
        numbers = np.asarray(messages, dtype=np.int64)
        if FEW * len(numbers) < self.buckets or self.buckets > hash_decoding.MOST_CELLS:
            return self._supports_one_by_one(numbers)
        return hash_decoding.supports_of_messages(numbers, self.buckets, self.degree, self.options)

    def _supports_one_by_one(self, numbers: Integers) -> Integers:
        seeds, values = np.divmod(numbers, self.buckets)
        places = self.buckets ** np.arange(self.degree - 1, -1, -1)
        return self.hashing.support(seeds[:, None] // places % self.buckets, values, 1)

    def supports(self, total: Array) -> Integers:
        """How many messages support each option, from the added-up statistic."""
        if self.counts_messages:
            return hash_decoding.supports_of_counts(total, self.buckets, self.degree, self.options)
        return total

    def supports_of(self, messages: Array, options: Integers) -> Integers:
        """The same for these options only, from the messages themselves, however many options there are."""
        seeds, values = np.divmod(np.asarray(messages, dtype=np.int64), self.buckets)
        total = np.zeros(len(options), dtype=np.int64)
        codes = self.hashing.codes_of(options)
        for start in range(0, len(seeds), MESSAGES_AT_ONCE):
            part = slice(start, start + MESSAGES_AT_ONCE)
            digits = asked_support.digits_of(seeds[part], self.buckets, self.degree)
            total += asked_support.supports(digits, values[part], codes, self.buckets)
        return total

    def own_columns(self) -> NDArray[np.bool_]:
        """Whether a message supports an option: one row per message, one column per option."""
        l, numbers = self.buckets, np.arange(self.messages)
        digits = LinearHash(l, self.messages // l).codes[numbers // l]
        return np.asarray(digits @ self.hashing.codes.T % l == (numbers % l)[:, None])
