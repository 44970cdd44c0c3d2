"""Hadamard response, a frequency oracle: an index, likelier where the option's row of a Hadamard matrix is +1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from shuffledp._core import validation
from shuffledp._core.validation import Array, Bools, Floats, Integers, Words, checked
from shuffledp.mechanisms.base.domain import Category
from shuffledp.mechanisms.base.encoding import WholeNumberEncoding
from shuffledp.mechanisms.base.error_laws import CountErrorLaw, Cumulant, to_stored_numbers
from shuffledp.mechanisms.base.estimator import (
    Estimate,
    Estimator,
    Influence,
    SelectedOptions,
    SelectedOptionsEstimator,
    SimulableEstimator,
)
from shuffledp.mechanisms.base.mechanism import Mechanism, OutputTable
from shuffledp.mechanisms.base.seed_compression import UniformProposal
from shuffledp.mechanisms.base.two_level_law import SetMembership, TwoLevelLaw, TwoLevelResponse
from shuffledp.privacy.dominating_pairs import HidingPair
from shuffledp.sampling.hash_supports import BITS_AT_ONCE, digits_of, supports
from shuffledp.sampling.random_sources import RandomSource

# --- Columns of a Hadamard matrix in blocks, and their estimator ---


MIN_PAIRS_FOR_TABLES, PAIRS_AT_ONCE = 1 << 14, 1 << 20
"""Number of (column, row) pairs in a block from which on tables are used, and of other pairs compared at a time."""


@dataclass(frozen=True)
class HadamardColumns:
    """B blocks of b columns; called, returns for each option and message whether the option owns the column."""

    options: int
    blocks: int
    """B, the number of blocks."""

    @cached_property
    def block_size(self) -> int:
        """b, the smallest power of two with a row for every option of a block, besides the first row."""
        rows = -(-self.options // self.blocks)
        return 1 << rows.bit_length()

    @property
    def row_bits(self) -> int:
        """Number of bits of a row index."""
        return self.block_size.bit_length() - 1

    @property
    def outputs(self) -> int:
        """K, the number of columns."""
        return self.blocks * self.block_size

    def block_and_row(self, values: Array) -> tuple[Array, Array]:
        """Returns the block and the row of each option."""
        if self.blocks == 1:
            return np.zeros_like(values), values + 1
        block = values // (self.block_size - 1)
        return block, 1 + values - block * (self.block_size - 1)

    def move_truthful(self, values: Array, truthful: Array, drawn: Array) -> Array:
        """Returns the drawn columns, with those of truthful users moved to a column that their option owns."""
        block, row = self.block_and_row(values)
        columns = self.block_size - 1
        moved = drawn if self.blocks == 1 else np.where(truthful, block * self.block_size | drawn & columns, drawn)
        odd = np.bitwise_count(drawn & columns & row) & truthful
        return np.asarray(moved ^ (row & -row & -odd.astype(np.int64)))

    def __call__(self, values: Array, messages: Array) -> Bools:
        block, row = self.block_and_row(values)
        even = np.bitwise_count(messages & (self.block_size - 1) & row) % 2 == 0
        return np.asarray((messages // self.block_size == block) & even)


@dataclass(frozen=True)
class HadamardEstimator(SimulableEstimator):
    """Estimator of counts by the Hadamard transform of the counts of messages, divided by 1 − γ."""

    columns: HadamardColumns
    uniform_share: Fraction
    """γ, the probability of a uniform message."""

    @property
    def _blocks_and_rows(self) -> tuple[Array, Array]:
        """The block and the row of every option."""
        return self.columns.block_and_row(np.arange(self.columns.options))

    def accumulate(self, messages: Array) -> Array:
        return np.bincount(messages, minlength=self.columns.outputs)

    def finish(self, total: Array, users: int) -> Estimate:
        counts = np.asarray(total, dtype=np.int64).reshape(self.columns.blocks, self.columns.block_size)
        block, row = self._blocks_and_rows
        return self.from_signs(hadamard_transform(counts)[block, row], counts.sum(axis=1)[block], users)

    def from_signs(self, signs: Array, in_block: Array, users: int) -> Estimate:
        """Returns the estimate of some options from the sums of their messages' signs and the sizes of their blocks."""
        value, law = np.asarray(signs / float(1 - self.uniform_share)), self.error_law(in_block, users)
        return Estimate(value, law.variance_at(np.clip(value, 0.0, users)), users, law)

    def error_law(self, in_block: Array, users: int) -> CountErrorLaw:
        """Returns the error law for options whose blocks have ``in_block`` messages.

        The number of messages in a block determines how many users hold one of its options: at least those who hold
        the option itself and at most all users; chance deviations beyond these limits are ignored. The sum of the signs
        is even exactly if the number of messages is.
        """
        gamma, elsewhere = self.uniform_share, self.uniform_share / self.columns.blocks
        signal, inside = float(1 - gamma), 1 - gamma + elsewhere
        # With one block, every message is in it, and all options have one law.
        messages = np.asarray(in_block if self.columns.blocks > 1 else users)
        here = np.minimum(messages, users * float(inside))
        own_third = float((1 - 3 * inside + 2 * (1 - gamma) ** 2) / (1 - gamma) ** 2)
        return CountErrorLaw(
            Cumulant(to_stored_numbers(here / signal**2), -1.0),
            Cumulant(0.0, own_third),
            2 / signal,
            to_stored_numbers(-messages / signal),
            Cumulant(users * float(elsewhere) / signal**2, float(gamma / (1 - gamma))),
        )

    @property
    def option_count(self) -> int:
        return self.columns.options

    def select(self, selection: SelectedOptions) -> Estimator:
        return SelectedHadamardEstimator(self, selection)

    def influence(self, messages: float) -> tuple[Influence, ...]:
        """Returns the influence of a user; every row but the first has columns of either sign."""
        most = messages / float(1 - self.uniform_share)
        return (Influence(-most, most),)

    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        block, _ = self._blocks_and_rows
        near = np.bincount(block, weights=held.astype(np.float64)).astype(np.int64)[block] - held
        return self.draw_estimate(held, near, users, rng)

    def draw_estimate(self, held: Integers, near: Integers, users: int, rng: np.random.Generator) -> Estimate:
        """Draws each option's estimate by its exact law, from messages that count +1, −1 or, in other blocks, 0.

        ``near`` other users hold an option of the same block. The share 1 − γ of the holders counts +1. Every other
        message is in the option's block with the probability given in ``variance``, and then counts +1 or −1 equally
        likely.
        """
        gamma = float(self.uniform_share)
        honest = rng.binomial(held, 1.0 - gamma)
        # Truthful users of the same block are in it; a uniform message is there with probability 1/B.
        inside = rng.binomial(near, 1.0 - gamma)
        uniform = users - honest - inside - rng.binomial(users - held - near, 1.0 - gamma)
        inside = inside + rng.binomial(uniform, 1.0 / self.columns.blocks)
        return self.from_signs(honest + 2 * rng.binomial(inside, 0.5) - inside, honest + inside, users)

    def truth(self, values: Array) -> Floats:
        return np.bincount(values, minlength=self.columns.options).astype(np.float64)

    def variance(self, values: Array) -> Floats:
        """Returns the exact variance of each option's estimate.

        A message counts +1 or −1 if it is in the option's block, with mean 1 − γ for holders and 0 for others. It is in
        its user's block with probability 1 − γ + γ/B, in another with probability γ/B.
        """
        counts = self.truth(values)
        block, _ = self._blocks_and_rows
        in_block = np.asarray(np.bincount(block, weights=counts)[block], dtype=np.float64)
        return self.variance_of_counts(counts, in_block, len(values))

    def variance_of_counts(self, held: Floats, in_block: Floats, users: float) -> Floats:
        """Returns the variance if ``held`` users hold an option and ``in_block`` users an option of its block."""
        elsewhere, signal = float(self.uniform_share / self.columns.blocks), 1 - float(self.uniform_share)
        return np.asarray((users * elsewhere + in_block * signal) / signal**2 - held)


@dataclass(frozen=True)
class SelectedHadamardEstimator(SelectedOptionsEstimator):
    """Estimator of selected options from the sums of their messages' signs and the message counts of their blocks."""

    full_estimator: HadamardEstimator
    selection: SelectedOptions

    @cached_property
    def _blocks_and_rows(self) -> tuple[Array, Array]:
        return self.full_estimator.columns.block_and_row(self.selection.options)

    def accumulate(self, messages: Array) -> Array:
        columns, (own, rows) = self.full_estimator.columns, self._blocks_and_rows
        # Messages are numbered block by block.
        ordered = np.sort(messages)
        first, last = (np.searchsorted(ordered, (own + next_) * columns.block_size) for next_ in (0, 1))
        inside = last - first
        even, small = np.zeros(len(rows), dtype=np.int64), np.ones(len(rows), dtype=np.bool_)
        for block, places in self._positions_by_block:
            if len(places) * inside[places[0]] > MIN_PAIRS_FOR_TABLES:
                near = ordered[first[places[0]] : last[places[0]]] - block * columns.block_size
                even[places] = count_even_columns(near, rows[places], columns.row_bits)
                small[places] = False
        even[small] = count_even_columns_pairwise(
            ordered & (columns.block_size - 1), first[small], inside[small], rows[small]
        )
        return np.stack([2 * even - inside, inside])

    @cached_property
    def _positions_by_block(self) -> list[tuple[int, Integers]]:
        """The blocks of the selected options, and the positions of the options in each."""
        blocks, own = np.unique(self._blocks_and_rows[0], return_inverse=True)
        order = np.argsort(own, kind="stable")
        return list(zip(blocks.tolist(), np.split(order, np.cumsum(np.bincount(own))[:-1]), strict=True))

    def finish(self, total: Array, users: int) -> Estimate:
        signs, inside = np.asarray(total, dtype=np.int64)
        return self.full_estimator.from_signs(signs, inside, users)

    def influence(self, messages: float) -> tuple[Influence, ...]:
        return self.full_estimator.influence(messages)

    def variance(self, values: Array) -> Floats:
        blocks, _ = self.full_estimator.columns.block_and_row(values)
        in_block = SelectedOptions(self._blocks_and_rows[0]).counts(blocks).astype(np.float64)
        return self.full_estimator.variance_of_counts(self.truth(values), in_block, len(values))

    def variance_at_counts(self, held: Floats, users: float) -> Floats:
        return self.full_estimator.variance_of_counts(held, held + self._others_in_block(users), users)

    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        near = np.minimum(np.rint(self._others_in_block(users)).astype(np.int64), users - held)
        return self.full_estimator.draw_estimate(held, near, users, rng)

    def _others_in_block(self, users: float) -> Floats:
        """Returns how many users hold another option of the same block if all options are equally frequent."""
        columns = self.full_estimator.columns
        size = columns.block_size - 1
        there = np.minimum(size, columns.options - self._blocks_and_rows[0] * size)
        return np.asarray((there - 1) * (users / columns.options))


def count_even_columns_pairwise(columns: Integers, first: Integers, counts: Integers, rows: Integers) -> Integers:
    """Returns what `count_even_columns` does, for rows with few columns each, from ``first`` on, pair by pair."""
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


def count_even_columns(columns: Integers, rows: Integers, width: int) -> Integers:
    """Returns, for each row, the number of columns that have an even number of ones in common with it."""
    codes, total = digits_of(rows, 2, width).astype(np.int64), np.zeros(len(rows), dtype=np.int64)
    for start in range(0, len(columns), BITS_AT_ONCE):
        part = digits_of(columns[start : start + BITS_AT_ONCE], 2, width)
        total += supports(part, np.zeros(len(part), dtype=np.uint8), codes, 2)
    return total


def hadamard_transform(rows: Array) -> Array:
    """Returns each row times the Hadamard matrix of its length, a power of two, in the natural order."""
    result = np.array(rows)
    length, half = result.shape[1], 1
    while half < length:
        pairs = result.reshape(len(result), -1, 2, half)
        first, second = pairs[:, :, 0], pairs[:, :, 1]
        result = np.stack((first + second, first - second), axis=2).reshape(len(result), length)
        half *= 2
    return result


MAX_OUTPUTS = 1 << 62
USERS_AT_ONCE = 1 << 15
"""Number of users encoded at a time, so that the working arrays stay in the processor's cache."""


@dataclass(frozen=True)
class HadamardResponse(Mechanism):
    """Reports a uniform index below K with probability γ, else a uniform one of the K/(2B) that the option owns.

    B blocks of b = K/B columns, b the smallest power of two with B(b−1) ≥ d; option x owns the columns of block x ÷
    (b−1) where row 1 + x mod (b−1) of the b × b Hadamard matrix is +1, that is where row & column has an even number of
    ones. γ = K/(s(e^ε−1) + K), s = b/2, is rounded up to a multiple of 2^-64, which keeps the ratio at most e^ε. A
    uniform owned column is a uniform column, with the bit at the row's lowest one flipped if it is not owned. The
    estimate is the Hadamard transform of the counts over 1 − γ.

    Theorem: [VR] Table 1, Hadamard response: p = q = e^ε, β = (s/2)(e^ε−1)/(s·e^ε + K − s) where one block holds all
    options, else s(e^ε−1)/(s·e^ε + K − s).
    Requires: ε > 0 finite; d ≥ 2; B a power of two.
    Deviates: column 0 is owned by all options of its block, so that with one block in use the blanket is e^ε times
    larger there. Pairs in different blocks are worse than pairs in one (see ``TwoLevelResponse.blanket_pair``).

    Args:
        epsilon: Local ε of every message.
        options: Number of options d; a user's value is an option from 0 to d − 1.
        blocks: Number of blocks B, a power of two; at a large ε several blocks have a smaller error, because an option
            then owns fewer columns.

    Raises:
        ValueError: If a parameter is out of range, or there would be more than 2^62 messages.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.HadamardResponse(epsilon=1.0, options=1000)
    >>> mechanism.columns.outputs, mechanism.message_bits
    (1024, 10)
    >>> [f"{sdp.HadamardResponse(4.0, 1000, blocks).variance([0] * 1000).sum():.0f}" for blocks in (1, 16)]
    ['1075022', '159206']
    """

    epsilon: float = field(metadata=checked(validation.positive_finite))
    options: int = field(metadata=checked(validation.count, at_least=2))
    blocks: int = field(default=1, metadata=checked(validation.count))

    name = "hadamard-response"
    task = "frequency"
    summary = "Hadamard response: an index below a power of two, decoded by a fast transform"
    use_case = "For many options in short messages, at small local ε."
    aliases = ("hr", "hadamard")

    @classmethod
    def variants(cls, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        blocks = 1
        while blocks < facts["options"]:
            yield {"blocks": blocks}
            blocks *= 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.blocks & (self.blocks - 1):
            raise ValueError(f"HadamardResponse: blocks must be a power of two, got {self.blocks}.")
        if self.outputs > MAX_OUTPUTS:
            raise ValueError(
                f"HadamardResponse: options and blocks must give at most 2^62 messages, got {self.outputs} for "
                f"{self.options} options and {self.blocks} blocks."
            )
        _ = self.response

    @cached_property
    def columns(self) -> HadamardColumns:
        """The messages, and the columns that each option owns."""
        return HadamardColumns(self.options, self.blocks)

    @property
    def block_size(self) -> int:
        """b, the number of columns of a block."""
        return self.columns.block_size

    @property
    def outputs(self) -> int:
        """K, the number of messages."""
        return self.columns.outputs

    @cached_property
    def response(self) -> TwoLevelResponse:
        """The columns that an option owns."""
        return TwoLevelResponse("HadamardResponse", self.epsilon, Fraction(1, 2 * self.blocks))

    @cached_property
    def domain(self) -> Category:
        return Category("HadamardResponse", self.options)

    @cached_property
    def law(self) -> TwoLevelLaw:
        """The law for the worst pair: options of two blocks, or else of one, whose column 0 every option owns."""
        # Column 0 apart, a column owned by two options is p times likelier than for an option that does not own it.
        columns_of_two = 0 if self.block_size == 2 else self.block_size // 4 - int(self._has_single_used_block)
        return TwoLevelLaw(
            self.response,
            exclusive_share=self._exclusive_share,
            common_share=Fraction(1, self.outputs) if self._has_single_used_block else Fraction(0),
            q_common=None if columns_of_two else 1.0,
            attack_pairs=(self._build_attack(),),
            tight=True,
            covers_mixtures=True,
            space_key=(self.name, self.options, self.blocks),
        )

    @property
    def _has_single_used_block(self) -> bool:
        return self.options < self.block_size

    @property
    def _exclusive_share(self) -> Fraction:
        """The share of messages that one option owns and another does not, for the worst pair."""
        return self.response.share / 2 if self._has_single_used_block else self.response.share

    def _build_attack(self) -> HidingPair:
        """Returns the worst pair where all others hold a third option (with two options only, the first).

        In one block, the third row is the sum of the pair's two: it owns the columns that both or neither own. With
        several blocks, it is in a third block, or else in the first option's block.
        """
        h, half = self.response.share, self.response.share / 2
        shares: dict[SetMembership, Fraction]
        if self.options == 2:
            shares = {(True, False, True): self._exclusive_share, (False, True, False): self._exclusive_share}
            shares[True, True, True] = h - self._exclusive_share
        elif self._has_single_used_block:
            shares = {(True, False, False): half, (False, True, False): half}
            shares |= {(True, True, True): half, (False, False, True): half}
        elif self.options > 2 * (self.block_size - 1):
            shares = {(True, False, False): h, (False, True, False): h, (False, False, True): h}
        else:
            shares = {(True, False, False): half, (True, False, True): half, (False, True, False): h}
            shares[False, False, True] = half
        shares[False, False, False] = 1 - sum(shares.values(), Fraction(0))
        return self.response.attack(shares, symmetric=shares.get((True, False, True), 0) == 0)

    @cached_property
    def encoding(self) -> WholeNumberEncoding:
        return WholeNumberEncoding("HadamardResponse", self.outputs)

    @cached_property
    def estimator(self) -> HadamardEstimator:
        return HadamardEstimator(self.columns, self.response.uniform_share)

    @cached_property
    def proposal(self) -> UniformColumnProposal:
        return UniformColumnProposal(self.response, self.columns, self.outputs)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        result = np.empty(len(values), dtype=np.int64)
        for start in range(0, len(values), USERS_AT_ONCE):
            part = values[start : start + USERS_AT_ONCE]
            truthful = ~source.coins(self.response.uniform_share, len(part))
            drawn = source.integers_below(self.outputs, len(part))
            result[start : start + USERS_AT_ONCE] = self.columns.move_truthful(part, truthful, drawn)
        return result

    def table(self) -> OutputTable:
        every, messages = np.arange(self.options), np.arange(self.outputs)
        owned = [self.columns(np.full_like(messages, x), messages) for x in every]
        inside, outside = self.response.inside_density / self.outputs, self.response.outside_density / self.outputs
        return OutputTable(every, messages, tuple(tuple(inside if o else outside for o in own) for own in owned))

    @classmethod
    def examples(cls) -> Sequence[HadamardResponse]:
        return [
            cls(epsilon=1.0, options=3),
            cls(epsilon=0.5, options=5),
            cls(epsilon=2.0, options=9, blocks=4),
            cls(epsilon=3.0, options=3, blocks=2),
            cls(epsilon=2.0, options=4, blocks=4),
        ]


@dataclass(frozen=True)
class UniformColumnProposal(UniformProposal):
    """Uniform law of a column, from the low bits of one word."""

    outputs: int

    @property
    def word_count(self) -> int:
        return 1

    def draw_messages(self, words: Words) -> Array:
        return (words[:, 0] & np.uint64(self.outputs - 1)).astype(np.int64)
