"""Hash functions: linear ones modulo a prime for local hashing, lines, and a public one for byte rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import fmpz, nmod_poly
from numpy.typing import NDArray

from shuffledp._core import validation
from shuffledp._core.validation import Array, Bytes, Integers, Words
from shuffledp.sampling.hash_supports import (
    MAX_CELLS,
    digits_of,
    hash_supports_of_counts,
    supports,
    supports_of_messages,
)
from shuffledp.sampling.rounding_and_digits import MAX_BASE

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
