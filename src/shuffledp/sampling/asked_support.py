"""How many messages support each of some points: ⟨a, x⟩ against a value y modulo a prime, for every message and point.

Every message meets every point, so all is in how little one pair costs. A residue v stands as the fraction v/l of a
circle whose whole is 2^16 (or 2^32, 2^64): sums wrap around by themselves, no remainder is ever taken, and a half step
between residues tells them apart exactly. Points are cut into blocks of digits; what a block adds to each message of a
batch is computed once for every different block, and a point is then a handful of additions of short numbers in the
cache. Modulo 2 a residue is one bit, and eight messages are one byte.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shuffledp.array import Array, Bytes, Integers

Unsigned = NDArray[np.unsignedinteger]

TABLE_BYTES = 1 << 26
"""What the tables of a batch may take: 64 MiB."""
LEAST_AT_ONCE, MOST_AT_ONCE = 1 << 10, 1 << 14
"""Messages in a batch: enough to pay for a call, few enough for the cache."""
FEWEST_SHARING, FEW = 32, 32
"""A block has so few different values that each is used so often on average, or few in any case."""
ROWS_AT_ONCE = 8
BITS_AT_ONCE = 1 << 18
"""Messages in a batch where each is a bit."""


@dataclass(frozen=True)
class _Circle:
    """The circle of 2^bits, for whole numbers of a wider type of which the upper bits are kept."""

    kind: type[np.unsignedinteger]
    wide: type[np.unsignedinteger]

    @property
    def bits(self) -> int:
        return 8 * np.dtype(self.kind).itemsize

    @property
    def wide_bits(self) -> int:
        return 8 * np.dtype(self.wide).itemsize

    def tells_apart(self, prime: int, width: int, blocks: int) -> bool:
        """Whether rounding stays below half a step: each block is rounded, and every digit's fraction before."""
        rounding = (blocks + 1) // 2 + 2 + (width * prime >> (self.wide_bits - self.bits))
        return 2 * prime * rounding < 1 << self.bits

    def fractions(self, numbers: Array, prime: int) -> Unsigned:
        """⌊v·2^wide/l⌋ for residues v, or for halves of steps in the same unit."""
        half, base = np.uint64(32), np.uint64(prime)
        high, rest = np.divmod(numbers.astype(np.uint64) << half, base)
        if self.wide_bits == 32:
            return high.astype(np.uint32)
        return np.asarray((high << half) + (rest << half) // base)

    def upper(self, numbers: Unsigned) -> Unsigned:
        """The bits that are kept."""
        if self.wide is self.kind:
            return numbers
        # The upper half of a number is the second of its two halves: little-endian, as numpy's own numbers are here.
        return numbers.astype(np.dtype(self.wide).newbyteorder("<"), copy=False).view(self.kind)[..., 1::2]


CIRCLES = (_Circle(np.uint16, np.uint32), _Circle(np.uint32, np.uint64), _Circle(np.uint64, np.uint64))


@dataclass(frozen=True)
class _Block:
    """Some digits next to each other, or a part of one: the different ones, and which of them each point has.

    ``different`` has a row for each, with the factor of every digit from ``first`` on.
    """

    first: int
    different: Integers
    places: Integers


def supports(digits: Array, values: Array, codes: Integers, prime: int, arc: int = 1) -> Integers:
    """For each code, how many messages have (value − ⟨digits, code⟩) mod l below ``arc``.

    ``digits`` has a row for each message, ``codes`` one for each point; all numbers are residues.
    """
    if prime == 2 and arc == 1:
        return _by_bits(digits, values, codes)
    blocks = list(_blocks(codes, prime))
    fitting = [circle for circle in CIRCLES if circle.tells_apart(prime, codes.shape[1], len(blocks))]
    if not fitting:
        return _one_by_one(digits, values, codes, prime, arc)
    circle, counts = fitting[0], np.zeros(len(codes), dtype=np.int64)
    rows = sum(len(block.different) for block in blocks)
    step = min(MOST_AT_ONCE, max(LEAST_AT_ONCE, TABLE_BYTES // (rows * np.dtype(circle.kind).itemsize)))
    # The arc ends half a step before a residue, as every value stands half a step beyond its own.
    end = circle.kind(round((arc << circle.bits) / prime) if circle.bits < 64 else (arc << 64) // prime)
    for start in range(0, len(digits), step):
        tables = _tables(circle, blocks, digits[start : start + step].T, values[start : start + step], prime)
        _add_up(tables, blocks, end, counts)
    return counts


def _blocks(codes: Integers, prime: int) -> Iterator[_Block]:
    """Digits together, or a digit in parts, with few enough different values for sharing to pay."""
    points, width = codes.shape
    most = max(FEW, points // FEWEST_SHARING)
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
    """One digit as a sum of parts c·b^k, with at most ``most`` different c in each."""
    parts = 1
    while (base := math.ceil(prime ** (1 / parts))) > most:
        parts += 1
    for power in range(parts + 1):
        part = numbers // base**power % base * base**power
        if power < parts or part.any():
            different, places = np.unique(part, return_inverse=True)
            yield _Block(first, different[:, None], places)


def _tables(circle: _Circle, blocks: list[_Block], digits: Array, values: Array, prime: int) -> list[Unsigned]:
    """What each block takes off every message of a batch, a row for each of its different values.

    The first block also holds the message's own value, half a step further. All are rounded to the nearest.
    """
    half = circle.wide(1 << (circle.wide_bits - circle.bits) >> 1)
    messages = digits.shape[1]
    own = circle.fractions(values, prime) + circle.wide((1 << (circle.wide_bits - 1)) // prime) + half
    result: list[Unsigned] = []
    for block in blocks:
        table = np.empty((len(block.different), messages), dtype=circle.kind)
        fractions = [circle.fractions(digits[block.first + k], prime) for k in range(block.different.shape[1])]
        for top in range(0, len(table), ROWS_AT_ONCE):
            factors = (-block.different[top : top + ROWS_AT_ONCE]).astype(circle.wide)
            total = factors[:, 0, None] * fractions[0]
            for place, fraction in enumerate(fractions[1:], start=1):
                total += factors[:, place, None] * fraction
            total += own if not result else half
            table[top : top + ROWS_AT_ONCE] = circle.upper(total)
        result.append(table)
    return result


def _add_up(tables: list[Unsigned], blocks: list[_Block], end: np.unsignedinteger, counts: Integers) -> None:
    """Of each point, in the order that its blocks are near each other in memory, the messages inside the arc."""
    total, inside = np.empty_like(tables[0][0]), np.empty(tables[0].shape[1], dtype=np.bool_)
    order = np.lexsort([block.places for block in reversed(blocks)])
    places = np.stack([block.places for block in blocks], axis=1)[order]
    found = np.empty(len(order), dtype=np.int64)
    for number, row in enumerate(places.tolist()):
        held = tables[0][row[0]]
        for table, place in zip(tables[1:], row[1:], strict=True):
            held = np.add(held, table[place], out=total)
        found[number] = np.count_nonzero(np.less(held, end, out=inside))
    counts[order] += found


def _one_by_one(digits: Array, values: Array, codes: Integers, prime: int, arc: int) -> Integers:
    """Where no circle is fine enough: in whole numbers, a product of residues being below 2^63."""
    counts = np.zeros(len(codes), dtype=np.int64)
    for number, code in enumerate(codes):
        rest = values.astype(np.int64)
        for place, factor in enumerate(code):
            rest = (rest - digits[:, place] * factor % prime) % prime
        counts[number] = np.count_nonzero(rest < arc)
    return counts


def _by_bits(digits: Array, values: Array, codes: Integers) -> Integers:
    """Modulo 2: eight messages to a byte, and a point is the exclusive or of a few rows."""
    blocks, counts = list(_blocks(codes, 2)), np.zeros(len(codes), dtype=np.int64)
    places = np.stack([block.places for block in blocks], axis=1).tolist()
    rows = sum(len(block.different) for block in blocks)
    step = min(BITS_AT_ONCE, max(8 * LEAST_AT_ONCE, 8 * TABLE_BYTES // rows))
    for start in range(0, len(digits), step):
        planes = _words(np.packbits(digits[start : start + step].astype(np.uint8, copy=False).T, axis=1))
        odd = _words(np.packbits(values[start : start + step].astype(np.uint8, copy=False)[None, :], axis=1))[0]
        tables = [_exclusive(planes, block, odd if not number else None) for number, block in enumerate(blocks)]
        total, ones = np.empty_like(odd), np.empty(len(odd), dtype=np.uint8)
        messages = len(digits[start : start + step])
        for number, row in enumerate(places):
            held = tables[0][row[0]]
            for table, place in zip(tables[1:], row[1:], strict=True):
                held = np.bitwise_xor(held, table[place], out=total)
            counts[number] += messages - int(np.bitwise_count(held, out=ones).sum(dtype=np.int64))
    return counts


def _exclusive(planes: Unsigned, block: _Block, odd: Unsigned | None) -> Unsigned:
    """The exclusive or of a block's planes, for each of its different values, and of ``odd`` where there is any."""
    table = np.zeros((len(block.different), planes.shape[1]), dtype=np.uint64)
    if odd is not None:
        table ^= odd
    for place in range(block.different.shape[1]):
        table[block.different[:, place] == 1] ^= planes[block.first + place]
    return table


def _words(packed: Bytes) -> Unsigned:
    """Rows of bytes as rows of words, filled up with zeros."""
    rows = np.zeros((len(packed), -(-packed.shape[1] // 8) * 8), dtype=np.uint8)
    rows[:, : packed.shape[1]] = packed
    return rows.view(np.uint64)


def digits_of(numbers: Integers, base: int, width: int) -> Array:
    """Numbers as rows of digits, the most significant first."""
    if base == 2:
        wide = np.ascontiguousarray(numbers, dtype=">u8").view(np.uint8).reshape(-1, 8)
        return np.unpackbits(wide, axis=1)[:, 64 - width :]
    rows = np.empty((len(numbers), width), dtype=np.int64)
    rest = np.asarray(numbers, dtype=np.int64)
    for place in range(width - 1, -1, -1):
        # Division by one number is fast, the remainder is not.
        higher = rest // base
        rows[:, place] = rest - higher * base
        rest = higher
    return rows
