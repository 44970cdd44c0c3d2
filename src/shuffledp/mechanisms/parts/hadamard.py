"""The columns of a Hadamard matrix, block by block, which of them an option owns, and how they are counted."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shuffledp.array import Array, Floats, Integers
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.parts.asked import Asked
from shuffledp.mechanisms.parts.count_tails import CountTails, Cumulant, plain
from shuffledp.mechanisms.parts.reading import Reading, SimulatedReading, SomeReading
from shuffledp.mechanisms.parts.sway import Sway
from shuffledp.sampling.asked_support import BITS_AT_ONCE, digits_of, supports

MANY, PAIRS_AT_ONCE = 1 << 14, 1 << 20
"""Pairs of a column and a row in a block that are worth tables of their own, and others that are met together."""


@dataclass(frozen=True)
class HadamardColumns:
    """B blocks of b columns, and the option that owns some of one block's; called, whether each owns its message."""

    options: int
    blocks: int
    """B."""

    @cached_property
    def block_size(self) -> int:
        """b: the smallest power of two with a row for every option of a block, besides the first row."""
        rows = -(-self.options // self.blocks)
        return 1 << rows.bit_length()

    @property
    def row_bits(self) -> int:
        """How many bits the number of a row has."""
        return self.block_size.bit_length() - 1

    @property
    def outputs(self) -> int:
        """K."""
        return self.blocks * self.block_size

    def block_and_row(self, values: Array) -> tuple[Array, Array]:
        if self.blocks == 1:
            return np.zeros_like(values), values + 1
        block = values // (self.block_size - 1)
        return block, 1 + values - block * (self.block_size - 1)

    def moved(self, values: Array, truthful: Array, drawn: Array) -> Array:
        """The drawn messages, those of truthful users moved to a column that their option owns."""
        block, row = self.block_and_row(values)
        columns = self.block_size - 1
        moved = drawn if self.blocks == 1 else np.where(truthful, block * self.block_size | drawn & columns, drawn)
        odd = np.bitwise_count(drawn & columns & row) & truthful
        return np.asarray(moved ^ (row & -row & -odd.astype(np.int64)))

    def __call__(self, values: Array, messages: Array) -> NDArray[np.bool_]:
        block, row = self.block_and_row(values)
        even = np.bitwise_count(messages & (self.block_size - 1) & row) % 2 == 0
        return np.asarray((messages // self.block_size == block) & even)


@dataclass(frozen=True)
class HadamardReading(SimulatedReading):
    """The estimate is the Hadamard transform of the counts of messages over 1 − γ."""

    columns: HadamardColumns
    uniform_share: Fraction
    """γ."""

    @property
    def _places(self) -> tuple[Array, Array]:
        """Every option's block and row."""
        return self.columns.block_and_row(np.arange(self.columns.options))

    def accumulate(self, messages: Array) -> Array:
        return np.bincount(messages, minlength=self.columns.outputs)

    def finish(self, total: Array, users: int) -> Estimate:
        counts = np.asarray(total, dtype=np.int64).reshape(self.columns.blocks, self.columns.block_size)
        block, row = self._places
        return self.from_signs(hadamard_transform(counts)[block, row], counts.sum(axis=1)[block], users)

    def from_signs(self, signs: Array, in_block: Array, users: int) -> Estimate:
        """The estimate of some options from the sum of their messages' signs, and how many their blocks have."""
        value, tails = np.asarray(signs / float(1 - self.uniform_share)), self.tails(in_block, users)
        return Estimate(value, tails.variance_at(np.clip(value, 0.0, users)), users, tails)

    def tails(self, in_block: Array, users: int) -> CountTails:
        """Of options whose blocks have so many messages, which tell how many users hold an option of the block.

        That is no less than how many hold the option itself, and no more than all: what few messages say by chance is
        not believed beyond that. An even number of messages has an even sum of signs, an odd number an odd one.
        """
        gamma, elsewhere = self.uniform_share, self.uniform_share / self.columns.blocks
        signal, inside = float(1 - gamma), 1 - gamma + elsewhere
        # One block has every message, and all options have one law.
        sent = np.asarray(in_block if self.columns.blocks > 1 else users)
        here = np.minimum(sent, users * float(inside))
        own_third = float((1 - 3 * inside + 2 * (1 - gamma) ** 2) / (1 - gamma) ** 2)
        return CountTails(
            Cumulant(plain(here / signal**2), -1.0),
            Cumulant(0.0, own_third),
            2 / signal,
            plain(-sent / signal),
            Cumulant(users * float(elsewhere) / signal**2, float(gamma / (1 - gamma))),
        )

    @property
    def counted(self) -> int:
        return self.columns.options

    def some(self, asked: Asked) -> Reading:
        return SomeRows(self, asked)

    def sways(self, messages: float) -> tuple[Sway, ...]:
        """A row other than the first has columns of either sign."""
        most = messages / float(1 - self.uniform_share)
        return (Sway(-most, most),)

    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        block, _ = self._places
        near = np.bincount(block, weights=held.astype(np.float64)).astype(np.int64)[block] - held
        return self.draw(held, near, users, rng)

    def draw(self, held: Integers, near: Integers, users: int, rng: np.random.Generator) -> Estimate:
        """Each option's estimate by its exact law: messages that count +1, −1 or, in other blocks, 0 for it.

        So many others hold an option of its block. Of holders the share 1 − γ counts +1 for sure. Every other message
        is in the option's block with the chance that ``variance`` gives, and then +1 or −1 alike.
        """
        gamma = float(self.uniform_share)
        honest = rng.binomial(held, 1.0 - gamma)
        # Those near by who report the truth are in the block; a uniform message is there with chance 1/B.
        inside = rng.binomial(near, 1.0 - gamma)
        uniform = users - honest - inside - rng.binomial(users - held - near, 1.0 - gamma)
        inside = inside + rng.binomial(uniform, 1.0 / self.columns.blocks)
        return self.from_signs(honest + 2 * rng.binomial(inside, 0.5) - inside, honest + inside, users)

    def truth(self, values: Array) -> Floats:
        return np.bincount(values, minlength=self.columns.options).astype(np.float64)

    def variance(self, values: Array) -> Floats:
        """A message counts +1 or −1 if it falls in the option's block, with mean 1 − γ for those who hold it, else 0.

        A message falls in its user's block with probability 1 − γ + γ/B, in another with probability γ/B.
        """
        counts = self.truth(values)
        block, _ = self._places
        in_block = np.asarray(np.bincount(block, weights=counts)[block], dtype=np.float64)
        return self.variance_of_counts(counts, in_block, len(values))

    def variance_of_counts(self, held: Floats, in_block: Floats, users: float) -> Floats:
        """Where so many users hold an option, and so many an option of its block."""
        elsewhere, signal = float(self.uniform_share / self.columns.blocks), 1 - float(self.uniform_share)
        return np.asarray((users * elsewhere + in_block * signal) / signal**2 - held)


@dataclass(frozen=True)
class SomeRows(SomeReading):
    """Of the options that were asked for, the sum of their messages' signs, and how many messages their blocks have."""

    whole: HadamardReading
    asked: Asked

    @cached_property
    def _places(self) -> tuple[Array, Array]:
        return self.whole.columns.block_and_row(self.asked.options)

    def accumulate(self, messages: Array) -> Array:
        columns, (own, rows) = self.whole.columns, self._places
        # Messages are numbered block by block.
        sent = np.sort(messages)
        first, last = (np.searchsorted(sent, (own + next_) * columns.block_size) for next_ in (0, 1))
        inside = last - first
        even, small = np.zeros(len(rows), dtype=np.int64), np.ones(len(rows), dtype=np.bool_)
        for block, mine in self._by_block:
            if len(mine) * inside[mine[0]] > MANY:
                near = sent[first[mine[0]] : last[mine[0]]] - block * columns.block_size
                even[mine] = even_counts(near, rows[mine], columns.row_bits)
                small[mine] = False
        even[small] = even_pairs(sent & (columns.block_size - 1), first[small], inside[small], rows[small])
        return np.stack([2 * even - inside, inside])

    @cached_property
    def _by_block(self) -> list[tuple[int, Integers]]:
        """The blocks that were asked about, and the places of the options in each."""
        blocks, own = np.unique(self._places[0], return_inverse=True)
        order = np.argsort(own, kind="stable")
        return list(zip(blocks.tolist(), np.split(order, np.cumsum(np.bincount(own))[:-1]), strict=True))

    def finish(self, total: Array, users: int) -> Estimate:
        signs, inside = np.asarray(total, dtype=np.int64)
        return self.whole.from_signs(signs, inside, users)

    def sways(self, messages: float) -> tuple[Sway, ...]:
        return self.whole.sways(messages)

    def variance(self, values: Array) -> Floats:
        held = self.truth(values)
        in_block = Asked(self._places[0]).counts(self.whole.columns.block_and_row(values)[0])
        return self.whole.variance_of_counts(held, in_block.astype(np.float64), len(values))

    def variance_where(self, held: Floats, users: float) -> Floats:
        return self.whole.variance_of_counts(held, held + self._near(users), users)

    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        near = np.minimum(np.rint(self._near(users)).astype(np.int64), users - held)
        return self.whole.draw(held, near, users, rng)

    def _near(self, users: float) -> Floats:
        """How many users hold another option of the same block, if all are spread evenly."""
        columns = self.whole.columns
        size = columns.block_size - 1
        there = np.minimum(size, columns.options - self._places[0] * size)
        return np.asarray((there - 1) * (users / columns.options))


def even_pairs(columns: Integers, first: Integers, counts: Integers, rows: Integers) -> Integers:
    """The same where each row has so few columns of its own, from a place on, that they are met one by one."""
    result = np.empty(len(rows), dtype=np.int64)
    ends = np.cumsum(counts)
    start = 0
    while start < len(rows):
        done = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + PAIRS_AT_ONCE, side="right")))
        many = counts[start:stop]
        numbers = np.repeat(np.arange(stop - start), many)
        places = np.arange(len(numbers)) - np.repeat(np.cumsum(many) - many, many) + np.repeat(first[start:stop], many)
        odd = np.bitwise_count(columns[places] & rows[start:stop][numbers]) & 1
        result[start:stop] = many - np.bincount(numbers[odd == 1], minlength=stop - start)
        start = stop
    return result


def even_counts(columns: Integers, rows: Integers, width: int) -> Integers:
    """For each row, how many of the columns have an even number of ones in common with it."""
    codes, total = digits_of(rows, 2, width).astype(np.int64), np.zeros(len(rows), dtype=np.int64)
    for start in range(0, len(columns), BITS_AT_ONCE):
        part = digits_of(columns[start : start + BITS_AT_ONCE], 2, width)
        total += supports(part, np.zeros(len(part), dtype=np.uint8), codes, 2)
    return total


def hadamard_transform(rows: Array) -> Array:
    """Each row times the Hadamard matrix of its length, a power of two, in the natural order."""
    result = np.array(rows)
    length, half = result.shape[1], 1
    while half < length:
        pairs = result.reshape(len(result), -1, 2, half)
        first, second = pairs[:, :, 0], pairs[:, :, 1]
        result = np.stack((first + second, first - second), axis=2).reshape(len(result), length)
        half *= 2
    return result
