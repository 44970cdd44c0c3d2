"""Support counts: the messages that support each option, counted exactly, where a message is a hash and a bucket.

``supports`` compares ⟨a, x⟩ with a value y for every message (a, y) and every point x, so that the cost of one pair
matters. A residue v is represented as the fraction v/l of a circle of circumference 2^16 (or 2^32, 2^64): sums wrap
around by themselves, no remainder is taken, and an offset of half a step keeps residues apart exactly. Points are
cut into blocks of digits; the contribution of a block to each message of a batch is computed once for every distinct
block, and a point then costs a handful of additions of short numbers in the cache. Modulo 2 a residue is one bit, and
eight messages are one byte. ``hash_supports_of_counts`` is for all options at once, from counts of equal messages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shuffledp._core.validation import Array, Bytes, Integers

Unsigned = NDArray[np.unsignedinteger]
TABLE_BYTES = 1 << 26
"""Largest size of the tables of a batch: 64 MiB."""
MIN_AT_ONCE, MAX_AT_ONCE = 1 << 10, 1 << 14
"""Messages in a batch: enough to pay for a call, few enough for the cache."""
MIN_POINTS_PER_VALUE, MAX_BLOCK_VALUES = 32, 32
"""Distinct values of a block: few enough that each serves 32 points on average, or at most 32."""
BLOCK_ROWS = 8
BITS_AT_ONCE = 1 << 18
"""Messages in a batch where each is a bit."""


@dataclass(frozen=True)
class _Circle:
    """The circle of 2^bits points, for integers of a wider type of which the upper bits are kept."""

    kind: type[np.unsignedinteger]
    wide: type[np.unsignedinteger]

    @property
    def bits(self) -> int:
        return 8 * np.dtype(self.kind).itemsize

    @property
    def wide_bits(self) -> int:
        return 8 * np.dtype(self.wide).itemsize

    def is_precise_enough(self, prime: int, width: int, blocks: int) -> bool:
        """Returns True if the rounding of all blocks and of all digits' fractions stays below half a step."""
        rounding = (blocks + 1) // 2 + 2 + (width * prime >> (self.wide_bits - self.bits))
        return 2 * prime * rounding < 1 << self.bits

    def fractions(self, numbers: Array, prime: int) -> Unsigned:
        """Returns ⌊v·2^wide/l⌋ for residues v, or for half steps in the same unit."""
        half, base = np.uint64(32), np.uint64(prime)
        high, rest = np.divmod(numbers.astype(np.uint64) << half, base)
        if self.wide_bits == 32:
            return high.astype(np.uint32)
        return np.asarray((high << half) + (rest << half) // base)

    def upper_bits(self, numbers: Unsigned) -> Unsigned:
        """Returns the bits that are kept."""
        if self.wide is self.kind:
            return numbers
        # The upper half of a number is the second of its two halves: little-endian, as numpy's own numbers are here.
        return numbers.astype(np.dtype(self.wide).newbyteorder("<"), copy=False).view(self.kind)[..., 1::2]


CIRCLES = (_Circle(np.uint16, np.uint32), _Circle(np.uint32, np.uint64), _Circle(np.uint64, np.uint64))


@dataclass(frozen=True)
class _Block:
    """Adjacent digits, or a part of one: the distinct combinations, and the index of each point's combination.

    ``combinations`` has a row for each combination, with the factor of every digit from ``first`` on.
    """

    first: int
    combinations: Integers
    indices: Integers


def supports(digits: Array, values: Array, codes: Integers, prime: int, arc: int = 1) -> Integers:
    """Returns for each code the number of messages with (value − ⟨digits, code⟩) mod l below ``arc``.

    ``digits`` has a row for each message, ``codes`` one for each point; all numbers are residues.
    """
    if prime == 2 and arc == 1:
        return _count_modulo_two(digits, values, codes)
    blocks = list(_blocks(codes, prime))
    fitting = [circle for circle in CIRCLES if circle.is_precise_enough(prime, codes.shape[1], len(blocks))]
    if not fitting:
        return _count_one_by_one(digits, values, codes, prime, arc)
    circle, counts = fitting[0], np.zeros(len(codes), dtype=np.int64)
    rows = sum(len(block.combinations) for block in blocks)
    step = min(MAX_AT_ONCE, max(MIN_AT_ONCE, TABLE_BYTES // (rows * np.dtype(circle.kind).itemsize)))
    # The arc ends half a step before a residue, as every value stands half a step beyond its own.
    end = circle.kind(round((arc << circle.bits) / prime) if circle.bits < 64 else (arc << 64) // prime)
    for start in range(0, len(digits), step):
        tables = _tables(circle, blocks, digits[start : start + step].T, values[start : start + step], prime)
        _add_up(tables, blocks, end, counts)
    return counts


def _blocks(codes: Integers, prime: int) -> Iterator[_Block]:
    """Yields groups of digits, or parts of one digit, with few enough distinct values for sharing to pay."""
    points, width = codes.shape
    most = max(MAX_BLOCK_VALUES, points // MIN_POINTS_PER_VALUE)
    first = 0
    while first < width:
        numbers, end, size = codes[:, first], first + 1, prime
        different, places = np.unique(numbers, return_inverse=True)
        if len(different) > most:
            yield from _parts(numbers, first, prime, most)
            first = end
            continue
        while end < width and size * prime < 1 << 62:
            longer = numbers * prime + codes[:, end]
            kinds, where = np.unique(longer, return_inverse=True)
            if len(kinds) > most:
                break
            numbers, different, places, end, size = longer, kinds, where, end + 1, size * prime
        powers = [prime ** (end - 1 - place) for place in range(first, end)]
        yield _Block(first, np.stack([different // power % prime for power in powers], axis=1), places)
        first = end


def _parts(numbers: Integers, first: int, prime: int, most: int) -> Iterator[_Block]:
    """Yields one digit as a sum of parts c·b^k, with at most ``most`` distinct c in each."""
    parts = 1
    while (base := math.ceil(prime ** (1 / parts))) > most:
        parts += 1
    for power in range(parts + 1):
        part = numbers // base**power % base * base**power
        if power < parts or part.any():
            different, places = np.unique(part, return_inverse=True)
            yield _Block(first, different[:, None], places)


def _tables(circle: _Circle, blocks: list[_Block], digits: Array, values: Array, prime: int) -> list[Unsigned]:
    """Returns the contribution of each block to every message of a batch, a row for each of its distinct values.

    The first block also holds the message's own value, half a step further. All are rounded to the nearest.
    """
    half = circle.wide(1 << (circle.wide_bits - circle.bits) >> 1)
    messages = digits.shape[1]
    own = circle.fractions(values, prime) + circle.wide((1 << (circle.wide_bits - 1)) // prime) + half
    result: list[Unsigned] = []
    for block in blocks:
        table = np.empty((len(block.combinations), messages), dtype=circle.kind)
        fractions = [circle.fractions(digits[block.first + k], prime) for k in range(block.combinations.shape[1])]
        for top in range(0, len(table), BLOCK_ROWS):
            factors = (-block.combinations[top : top + BLOCK_ROWS]).astype(circle.wide)
            total = factors[:, 0, None] * fractions[0]
            for place, fraction in enumerate(fractions[1:], start=1):
                total += factors[:, place, None] * fraction
            total += own if not result else half
            table[top : top + BLOCK_ROWS] = circle.upper_bits(total)
        result.append(table)
    return result


def _add_up(tables: list[Unsigned], blocks: list[_Block], end: np.unsignedinteger, counts: Integers) -> None:
    """Adds to the counts the messages inside the arc of each point; points with nearby blocks follow each other."""
    total, inside = np.empty_like(tables[0][0]), np.empty(tables[0].shape[1], dtype=np.bool_)
    order = np.lexsort([block.indices for block in reversed(blocks)])
    places = np.stack([block.indices for block in blocks], axis=1)[order]
    found = np.empty(len(order), dtype=np.int64)
    for number, row in enumerate(places.tolist()):
        held = tables[0][row[0]]
        for table, place in zip(tables[1:], row[1:], strict=True):
            held = np.add(held, table[place], out=total)
        found[number] = np.count_nonzero(np.less(held, end, out=inside))
    counts[order] += found


def _count_one_by_one(digits: Array, values: Array, codes: Integers, prime: int, arc: int) -> Integers:
    """Counts in integers if no circle is fine enough; a product of residues is below 2^63."""
    counts = np.zeros(len(codes), dtype=np.int64)
    for number, code in enumerate(codes):
        rest = values.astype(np.int64)
        for place, factor in enumerate(code):
            rest = (rest - digits[:, place] * factor % prime) % prime
        counts[number] = np.count_nonzero(rest < arc)
    return counts


def _count_modulo_two(digits: Array, values: Array, codes: Integers) -> Integers:
    """Counts modulo 2: eight messages to a byte, and a point is the exclusive or of a few rows."""
    blocks, counts = list(_blocks(codes, 2)), np.zeros(len(codes), dtype=np.int64)
    places = np.stack([block.indices for block in blocks], axis=1).tolist()
    rows = sum(len(block.combinations) for block in blocks)
    step = min(BITS_AT_ONCE, max(8 * MIN_AT_ONCE, 8 * TABLE_BYTES // rows))
    for start in range(0, len(digits), step):
        planes = _words(np.packbits(digits[start : start + step].astype(np.uint8, copy=False).T, axis=1))
        odd = _words(np.packbits(values[start : start + step].astype(np.uint8, copy=False)[None, :], axis=1))[0]
        tables = [_xor_planes(planes, block, odd if not number else None) for number, block in enumerate(blocks)]
        total, ones = np.empty_like(odd), np.empty(len(odd), dtype=np.uint8)
        messages = len(digits[start : start + step])
        for number, row in enumerate(places):
            held = tables[0][row[0]]
            for table, place in zip(tables[1:], row[1:], strict=True):
                held = np.bitwise_xor(held, table[place], out=total)
            counts[number] += messages - int(np.bitwise_count(held, out=ones).sum(dtype=np.int64))
    return counts


def _xor_planes(planes: Unsigned, block: _Block, odd: Unsigned | None) -> Unsigned:
    """Returns the exclusive or of a block's planes, for each of its distinct values, and of ``odd`` if given."""
    table = np.zeros((len(block.combinations), planes.shape[1]), dtype=np.uint64)
    if odd is not None:
        table ^= odd
    for place in range(block.combinations.shape[1]):
        table[block.combinations[:, place] == 1] ^= planes[block.first + place]
    return table


def _words(packed: Bytes) -> Unsigned:
    """Returns rows of bytes as rows of words, padded with zeros."""
    rows = np.zeros((len(packed), -(-packed.shape[1] // 8) * 8), dtype=np.uint8)
    rows[:, : packed.shape[1]] = packed
    return rows.view(np.uint64)


def digits_of(numbers: Integers, base: int, width: int) -> Array:
    """Returns numbers as rows of digits, the most significant first."""
    if base == 2:
        wide = np.ascontiguousarray(numbers, dtype=">u8").view(np.uint8).reshape(-1, 8)
        return np.unpackbits(wide, axis=1)[:, 64 - width :]
    rows = np.empty((len(numbers), width), dtype=np.int64)
    rest = np.asarray(numbers, dtype=np.int64)
    for place in range(width - 1, -1, -1):
        # Division by a constant is fast, the remainder is not.
        higher = rest // base
        rows[:, place] = rest - higher * base
        rest = higher
    return rows


# --- Support of all options at once, by shared sums ---
#
# For every option x, the number of messages (a, y) with y = ⟨a, digits of x⟩ modulo a prime l, exactly. Options are
# numbers of m digits in base l, the most significant first. The digits of x are fixed one after another; for each
# prefix of digits, S(z, rest of a) is the number of messages whose y is z plus the contribution of the prefix. One more
# digit turns l of these into one, so that all options take about d·l²·m additions instead of d for each message.


MAX_CELLS = 1 << 24
"""Counts held at a time: 128 MiB."""


def hash_supports_of_counts(counts: Array, prime: int, degree: int, options: int) -> Integers:
    """Returns the support of each option from the count of each message a·l + y, for all a of m digits."""
    return _supports(np.ascontiguousarray(counts.reshape(1, -1, prime).swapaxes(1, 2)), prime, degree, options)


def supports_of_messages(messages: Array, prime: int, degree: int, options: int) -> Integers:
    """Returns the support of each option from the messages a·l + y, if they are too many to count; l ≤ MAX_CELLS."""
    fixed = 0
    while prime ** (degree - fixed + 1) > MAX_CELLS:
        fixed += 1
    rest = degree - fixed
    block = prime**rest
    seeds, values = np.divmod(messages, prime)
    heads, tails = np.divmod(seeds, block)
    places = prime ** np.arange(fixed)
    digits = heads[:, None] // places % prime
    result = np.empty(options, dtype=np.int64)
    for start in range(0, options, block):
        known = start // block // places % prime
        cells = (values - digits @ known) % prime * block + tails
        counts = np.bincount(cells, minlength=prime * block).reshape(1, prime, block)
        part = result[start : start + block]
        part[:] = _supports(counts, prime, rest, len(part)) if rest else counts[0, 0]
    return result


def _supports(sums: Integers, prime: int, degree: int, options: int) -> Integers:
    """Returns the support of each option from S by (prefix, z, rest of a) with one, empty prefix."""
    for left in range(degree - 1, 0, -1):
        prefixes = -(-options // prime**left)
        sums = sums.reshape(len(sums), prime, prime, -1)
        digits = min(prime, prefixes)
        longer = np.zeros((len(sums), digits, prime, sums.shape[3]), dtype=np.int64)
        for digit in range(digits):
            for coefficient in range(prime):
                shift = digit * coefficient % prime
                longer[:, digit, : prime - shift] += sums[:, shift:, coefficient]
                longer[:, digit, prime - shift :] += sums[:, :shift, coefficient]
        sums = longer.reshape(-1, prime, longer.shape[3])[:prefixes]
    coefficients = np.arange(prime)
    digits = min(prime, options)
    result = np.empty((len(sums), digits), dtype=np.int64)
    for digit in range(digits):
        sums[:, digit * coefficients % prime, coefficients].sum(axis=1, out=result[:, digit])
    return result.reshape(-1)[:options]
