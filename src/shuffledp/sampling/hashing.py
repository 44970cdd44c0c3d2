"""Linear hashing modulo a prime: hash families, and exact counts of the messages that support each point.

``supports`` compares ⟨a, x⟩ with a value y for every message (a, y) and every point x, so that the cost of one pair
matters. A residue v is represented as the fraction v/l of a circle of circumference 2^16 (or 2^32, 2^64): sums wrap
around by themselves, no remainder is ever taken, and an offset of half a step keeps residues apart exactly. Points are
cut into blocks of digits; the contribution of a block to each message of a batch is computed once for every distinct
block, and a point then costs a handful of additions of short numbers in the cache. Modulo 2 a residue is one bit, and
eight messages are one byte.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import fmpz, nmod_poly
from numpy.typing import NDArray

from shuffledp._core import validation
from shuffledp._core.validation import Array, Bytes, Integers, Words
from shuffledp.sampling.rounding_and_digits import MAX_BASE

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


# --- Hash functions into a prime number of buckets, exactly k-wise independent ---


MAX_DEFAULT_BUCKETS = 1 << 20
"""Largest default number of buckets: beyond it, more buckets hardly lower the variance."""
MULTIPLICATIONS_AT_ONCE = 1 << 18
"""Multiplications in one matrix product: it stays in the cache and in one thread; synchronisation would cost more."""
BYTE_SUM_ROWS = 255
"""Rows of 0s and 1s whose sums fit a byte."""


def is_prime(number: int) -> bool:
    """Returns True for prime numbers."""
    return number >= 2 and bool(fmpz(number).is_prime())


def prime_at_least(number: int) -> int:
    """Returns the smallest prime that is not below a number."""
    while not is_prime(number):
        number += 1
    return number


def prime_at_most(number: int) -> int:
    """Returns the largest prime that is not above a number of at least 2."""
    while not is_prime(number):
        number -= 1
    return number


def check_prime_buckets(who: str, name: str, value: object, *, at_least: int) -> int:
    """Returns a validated prime number of buckets."""
    length = validation.count(who, name, value, at_least=at_least)
    if not is_prime(length):
        near = f"{prime_at_most(length)} or {prime_at_least(length)}"
        raise ValueError(f"{who}: {name} must be a prime number such as {near}, got {length}.")
    return length


def best_buckets(epsilon: float, items: int) -> float:
    """Returns the real number of buckets with the least variance if s items have e^ε times other buckets' weight.

    The variance (l−1)(se^ε+l−s)²/((l−s)(e^ε−1))² for an item that is not held has one minimum over real l > s, at
    l = s + (se^ε + √(s²e^{2ε} + 8s(s−1)e^ε))/2; e^ε + 1 for one item.
    """
    weight = items * math.exp(min(epsilon, 30.0))
    best = items + (weight + math.sqrt(weight * weight + 8 * weight * (items - 1))) / 2
    return min(best, float(max(MAX_DEFAULT_BUCKETS, 4 * items)))


def best_prime(epsilon: float, items: int) -> int:
    """Returns the prime number of buckets above ``items`` with the least variance."""
    best = best_buckets(epsilon, items)
    ratio = math.exp(min(epsilon, 30.0))
    # The variance has one minimum, so that the best prime is next to it; there may be none between items and it.
    near = {prime_at_most(max(2, math.floor(best))), prime_at_least(math.ceil(best))}
    return min(
        (length for length in near if length > items),
        key=lambda length: (length - 1) * ((items * ratio + length - items) / (length - items)) ** 2,
    )


def best_prime_within(epsilon: float, points: int, most: int) -> int:
    """Returns the best prime for one item among those with fewer than ``most`` messages (seed and bucket).

    With m digits the primes from the m-th root of ``points`` on will do, up to the (m+1)-th root of ``most``.
    """
    free = best_prime(epsilon, 1)
    near = set()
    for digits in range(1, most.bit_length()):
        low, high = max(2, _root_above(points, digits)), _root_above(most, digits + 1) - 1
        if low <= high:
            near |= {prime_at_least(min(max(free, low), high)), prime_at_most(min(max(free, low), high))}
    ratio = math.exp(min(epsilon, 30.0))
    able = [length for length in near if length ** (1 + LinearHash(length, points).degree) < most]
    return min(able, key=lambda length: (length - 1) * ((ratio + length - 1) / (length - 1)) ** 2, default=free)


def _root_above(number: int, degree: int) -> int:
    """Returns the least integer whose power of this degree is not below a number."""
    root = int(fmpz(number).root(degree))
    return root if root**degree >= number else root + 1


@dataclass(frozen=True)
class LinearHash:
    """h_a(x) = ⟨a, code(x)⟩ over the field of l elements, l prime, for a seed a that is uniform on all digit rows.

    code(x) holds the base-l digits of ξ, ξ², …, ξ^{k−1}, where ξ is element number x of the field of l^m elements, the
    smallest with an element for every point. Powers divisible by l are left out: Frobenius makes them linear in others.

    Theorem: any k distinct points have values that are independent and uniform after one common uniform shift.
    The rows (1, ξ, …, ξ^{k−1}) of k points are a Vandermonde matrix, so that the (1, code(x)) are independent over the
    field of l elements. A randomizer that is invariant under shifts of its circle needs no more, and the shift cancels
    between hash and report, so that it is neither drawn nor sent.
    """

    buckets: int
    """l."""
    points: int
    independence: int = 2
    """k."""

    def largest_product(self) -> int:
        """Returns a strict upper bound of sums of products of digits."""
        return self.width * (self.buckets - 1) ** 2 + 1

    def is_feasible(self) -> bool:
        """Returns True if the arithmetic of this class cannot overflow."""
        return self.buckets <= MAX_BASE and self.largest_product() < 1 << 63

    @cached_property
    def degree(self) -> int:
        """m: the number of digits of a point."""
        degree = 1
        while self.buckets**degree < self.points:
            degree += 1
        return degree

    @property
    def powers(self) -> list[int]:
        return [power for power in range(1, self.independence) if power % self.buckets]

    @property
    def width(self) -> int:
        """Number of digits of a seed, and of a code."""
        return self.degree * len(self.powers)

    @cached_property
    def codes(self) -> Integers:
        """code(x), one row per point; the first m digits are those of x, the most significant first."""
        return self.codes_of(np.arange(self.points))

    def codes_of(self, points: Integers) -> Integers:
        """Returns code(x) for these points."""
        places = self.buckets ** np.arange(self.degree - 1, -1, -1)
        element = points[:, None] // places % self.buckets
        columns, power = [element], element
        for exponent in range(2, self.independence):
            power = self._times(power, element)
            if exponent in self.powers:
                columns.append(power)
        return np.ascontiguousarray(np.hstack(columns))

    def evaluate(self, seeds: Array, points: Array) -> Integers:
        """Returns h_a(x) for one seed per row, and several points per row."""
        codes = self.codes.take(points.reshape(-1), axis=0).reshape(*points.shape, self.width)
        total = np.einsum("upd,ud->up", codes, seeds)
        # Division by a constant is fast, the remainder is not.
        return np.asarray(total - total // self.buckets * self.buckets)

    def support(self, seeds: Array, values: Array, arc: int) -> Integers:
        """Returns for each point the number of messages in the ``arc`` buckets from its own on, cyclically."""
        counts = np.zeros(self.points, dtype=np.int64)
        cells = MULTIPLICATIONS_AT_ONCE // (self.width + 1)
        columns = min(self.points, cells)
        rows = max(1, cells // columns)
        for left in range(0, self.points, columns):
            codes = self.codes[left : left + columns].T
            codes = np.vstack([codes, np.ones(codes.shape[1], dtype=np.int64)])
            part = counts[left : left + columns]
            for top in range(0, len(seeds), rows):
                inside = self._inside(seeds[top : top + rows], values[top : top + rows], codes, arc).view(np.uint8)
                for first in range(0, len(inside), BYTE_SUM_ROWS):
                    part += inside[first : first + BYTE_SUM_ROWS].sum(axis=0, dtype=np.uint8)
        return counts

    def _inside(self, seeds: Array, values: Array, codes: Integers, arc: int) -> NDArray[np.bool_]:
        """Returns True where (value − h) mod l is below ``arc``, by message and point.

        In floats where they are exact enough: (value − h + ¼)/l lies at least 1/(4l) away from every multiple of 1/l,
        and its rounding error is at most (width+3)²·l·u for unit round-off u.
        """
        l = self.buckets
        reach = ((self.width + 3) * l) ** 2
        if reach >= 1 << 49:
            products = seeds.astype(np.int64) @ codes[:-1]
            return np.asarray((values.astype(np.int64)[:, None] - products) % l < arc)
        kind = np.float32 if reach < 1 << 20 else np.float64
        scaled = np.empty((len(seeds), self.width + 1), dtype=kind)
        scaled[:, :-1] = seeds
        np.negative(scaled[:, :-1], out=scaled[:, :-1])
        scaled[:, -1] = values
        scaled[:, -1] += 0.25
        scaled /= l
        turns = scaled @ codes.astype(kind)
        turns -= np.floor(turns)
        return np.asarray(turns < arc / l)

    def _times(self, first: Integers, second: Integers) -> Integers:
        """Returns products in the field of l^m elements; rows of digits, the most significant first."""
        m, l = self.degree, self.buckets
        if m == 1:
            return first * second % l
        product = np.zeros((len(first), 2 * m - 1), dtype=np.int64)
        for place in range(m):
            product[:, place : place + m] += first[:, place, None] * second
        product %= l
        for place in range(m - 1):
            product[:, place + 1 : place + m + 1] -= product[:, place, None] * self._modulus
            product %= l
        return product[:, m - 1 :]

    @cached_property
    def _modulus(self) -> Integers:
        """The first irreducible polynomial of degree m: its lower coefficients, the most significant first."""
        m, l = self.degree, self.buckets
        for number in range(l**m):
            low_first = [number // l**place % l for place in range(m)]
            _, factors = nmod_poly([*low_first, 1], l).factor()
            if len(factors) == 1 and factors[0][1] == 1:
                return np.array(low_first[::-1], dtype=np.int64)
        raise AssertionError("there is an irreducible polynomial of every degree")


# --- Messages made of a hash function and a bucket ---


MAX_PRODUCT_TABLE = 1 << 20
MESSAGES_AT_ONCE = 1 << 18
BUCKETS_PER_MESSAGE = 4
"""Sums are shared if there is more than one message for this many buckets; below, single counting is as fast."""


@dataclass(frozen=True)
class HashMessages:
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
        """The number m of digits of an option, in base l."""
        return self.hashing.degree

    @property
    def messages(self) -> int:
        """The number of different messages: l^m seeds, l buckets."""
        return int(self.buckets ** (self.degree + 1))

    def compute_messages(self, seeds: Array, options: Array) -> Integers:
        """Returns the message with this seed and the bucket of the user's option, for each user."""
        return np.asarray(self._products(seeds, options) + seeds * self.buckets)

    def _products(self, seeds: Array, options: Array) -> Integers:
        """Returns ⟨a, digits of x⟩ for each user, from a table if blocks of digits are few enough."""
        l, block, table = self._product_table
        scale, blocks = l**block, -(-self.degree // block)
        total: Array | int = 0
        for later in range(blocks - 1, -1, -1):
            seed, option = seeds, options
            if later:
                seeds, options = seeds // scale, options // scale
                seed, option = seed - seeds * scale, option - options * scale
            total += seed * option if table is None else table[option * scale + seed].astype(np.int64)
        # Division by a constant is fast, the remainder is not.
        return np.asarray(total - total // l * l)

    @cached_property
    def _product_table(self) -> tuple[int, int, Array | None]:
        """(l, block, table): inner products of all pairs of numbers of ``block`` digits.

        The table is None if there are too many.
        """
        l, m = self.buckets, self.degree
        if l * l > MAX_PRODUCT_TABLE:
            return l, 1, None
        widest = 1
        while widest < m and l ** (2 * widest + 2) <= MAX_PRODUCT_TABLE:
            widest += 1
        block = -(-m // -(-m // widest))
        digits = LinearHash(l, l**block).codes
        return l, block, (digits @ digits.T % l).astype(np.min_scalar_type(l - 1)).reshape(-1)

    @property
    def is_message_count(self) -> bool:
        """True if ``statistic`` counts messages and ``supports`` decodes them; False if ``statistic`` decodes."""
        return self.messages <= MAX_CELLS

    def statistic(self, messages: Array) -> Integers:
        """Returns the statistic that adds up over batches: a count of each message, or of each option's support."""
        if self.is_message_count:
            return np.bincount(messages, minlength=self.messages)
        numbers = np.asarray(messages, dtype=np.int64)
        if BUCKETS_PER_MESSAGE * len(numbers) < self.buckets or self.buckets > MAX_CELLS:
            return self._supports_one_by_one(numbers)
        return supports_of_messages(numbers, self.buckets, self.degree, self.options)

    def _supports_one_by_one(self, numbers: Integers) -> Integers:
        seeds, values = np.divmod(numbers, self.buckets)
        places = self.buckets ** np.arange(self.degree - 1, -1, -1)
        return self.hashing.support(seeds[:, None] // places % self.buckets, values, 1)

    def supports(self, total: Array) -> Integers:
        """Returns the number of messages that support each option, from the summed statistic."""
        if self.is_message_count:
            return hash_supports_of_counts(total, self.buckets, self.degree, self.options)
        return total

    def supports_of_options(self, messages: Array, options: Integers) -> Integers:
        """Returns the support of these options only, from the messages, however many options there are."""
        seeds, values = np.divmod(np.asarray(messages, dtype=np.int64), self.buckets)
        total = np.zeros(len(options), dtype=np.int64)
        codes = self.hashing.codes_of(options)
        for start in range(0, len(seeds), MESSAGES_AT_ONCE):
            part = slice(start, start + MESSAGES_AT_ONCE)
            digits = digits_of(seeds[part], self.buckets, self.degree)
            total += supports(digits, values[part], codes, self.buckets)
        return total

    def support_matrix(self) -> NDArray[np.bool_]:
        """Returns True where a message supports an option: one row per message, one column per option."""
        l, numbers = self.buckets, np.arange(self.messages)
        digits = LinearHash(l, self.messages // l).codes[numbers // l]
        return np.asarray(digits @ self.hashing.codes.T % l == (numbers % l)[:, None])


# --- Lines modulo a prime ---
#
# For every j, the exact number of lines (slope, offset) modulo a prime P with offset + j·slope among 0 … arc−1. Lines
# are counted, the counts of each slope are summed over circular windows of width arc, and option j reads, for each
# slope, the window that starts at −j·slope: n + P² + P·d steps instead of n·d.


CELLS_AT_ONCE = 1 << 14
"""Few enough for all working arrays to stay in the processor's cache."""


def line_supports_of_counts(counts: Array, prime: int, arc: int, options: int) -> Integers:
    """Returns the support of each option from the count of each line slope·P + offset."""
    table = np.asarray(counts, dtype=np.int64).reshape(prime, prime)
    numbers, result = np.arange(options), np.zeros(options, dtype=np.int64)
    rows = max(1, CELLS_AT_ONCE // prime)
    for first in range(0, prime, rows):
        windows = _window_sums(table[first : first + rows], arc)
        slopes = np.arange(first, first + len(windows))[:, None]
        starts = (prime - slopes) * numbers
        # Division by a constant is fast, the remainder is not.
        starts -= starts // prime * prime
        starts += (slopes - first) * prime
        result += windows.reshape(-1).take(starts).sum(axis=0)
    return result


def _window_sums(rows: Integers, arc: int) -> Integers:
    """Returns for each row and place the sum of the ``arc`` entries from there on, around the circle."""
    length = rows.shape[1]
    sums = np.zeros((len(rows), length + arc + 1), dtype=np.int64)
    np.cumsum(rows, axis=1, out=sums[:, 1 : length + 1])
    np.add(sums[:, 1 : arc + 1], sums[:, length, None], out=sums[:, length + 1 :])
    return np.ascontiguousarray(sums[:, arc : arc + length] - sums[:, :length])


def supports_of_lines(lines: Array, prime: int, arc: int, options: int) -> Integers:
    """Returns the support of each option from the lines one by one, if they are too many to count."""
    slopes, offsets = np.divmod(np.asarray(lines, dtype=np.int64), prime)
    return LinearHash(prime, options).support((prime - slopes)[:, None] % prime, offsets, arc)


def supports_of_line_options(lines: Array, prime: int, arc: int, options: Integers) -> Integers:
    """Returns the support of these options only."""
    slopes, offsets = np.divmod(np.asarray(lines, dtype=np.int64), prime)
    # The line is below the arc where offset − (P − slope)·j is.
    return supports((prime - slopes)[:, None] % prime, offsets, options[:, None], prime, arc)


# --- Public hash of byte rows into buckets: fixed for ever, without secrets ---


GOLDEN_RATIO_INCREMENT, FIRST_MULTIPLIER, SECOND_MULTIPLIER = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)
HALF_WORD_BITS = np.uint64(32)


def assign_buckets(rows: Bytes, salt: int, count: int) -> Integers:
    """Returns a bucket from 0 to count−1 for each row, count up to 2^32; another ``salt`` is another hash.

    Zeros that pad a row do not matter as long as all rows have the same width.
    """
    wide = np.zeros((len(rows), -(-rows.shape[1] // 8) * 8), dtype=np.uint8)
    wide[:, : rows.shape[1]] = rows
    state = _mix_words(np.full(len(rows), salt + 1, dtype=np.uint64) * GOLDEN_RATIO_INCREMENT)
    for word in wide.view("<u8").T:
        state = _mix_words(state + GOLDEN_RATIO_INCREMENT ^ word.astype(np.uint64))
    return ((state >> HALF_WORD_BITS) * np.uint64(count) >> HALF_WORD_BITS).astype(np.int64)


def _mix_words(words: Words) -> Words:
    """Mixes words so that every bit depends on all bits."""
    words = (words ^ (words >> np.uint64(30))) * FIRST_MULTIPLIER
    words = (words ^ (words >> np.uint64(27))) * SECOND_MULTIPLIER
    return np.asarray(words ^ (words >> np.uint64(31)))
