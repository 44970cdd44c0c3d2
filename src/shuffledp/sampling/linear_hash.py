"""Random functions into a prime number of buckets that are exactly k-wise independent, and the best such number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import fmpz, nmod_poly
from numpy.typing import NDArray

from shuffledp import argument
from shuffledp.array import Array, Integers
from shuffledp.sampling.digits import LARGEST_BASE

LONGEST = 1 << 20
"""Buckets chosen by default are at most this many: beyond, more buckets hardly lower the variance."""
MULTIPLICATIONS_AT_ONCE = 1 << 18
"""In one matrix product: it stays in the cache, and in one thread, as waiting for others would cost more."""
ROWS_AT_ONCE = 255
"""Rows of 0s and 1s whose sums fit a byte."""


def is_prime(number: int) -> bool:
    return number >= 2 and bool(fmpz(number).is_prime())


def prime_at_least(number: int) -> int:
    """The smallest prime that is not below a number."""
    while not is_prime(number):
        number += 1
    return number


def prime_at_most(number: int) -> int:
    """The largest prime that is not above a number of at least 2."""
    while not is_prime(number):
        number -= 1
    return number


def prime_length(who: str, name: str, value: object, *, at_least: int) -> int:
    """A prime number of buckets that was asked for."""
    length = argument.count(who, name, value, at_least=at_least)
    if not is_prime(length):
        near = f"{prime_at_most(length)} or {prime_at_least(length)}"
        raise ValueError(f"{who}: {name} must be a prime number such as {near}, got {length}.")
    return length


def best_buckets(epsilon: float, items: int) -> float:
    """How many buckets give the least variance when s items have e^ε times the weight of the other buckets.

    The variance (l−1)(se^ε+l−s)²/((l−s)(e^ε−1))² for an item that is not held has one minimum over real l > s, at
    l = s + (se^ε + √(s²e^{2ε} + 8s(s−1)e^ε))/2; e^ε + 1 for one item.
    """
    weight = items * math.exp(min(epsilon, 30.0))
    best = items + (weight + math.sqrt(weight * weight + 8 * weight * (items - 1))) / 2
    return min(best, float(max(LONGEST, 4 * items)))


def best_prime(epsilon: float, items: int) -> int:
    """The prime number of buckets above ``items`` with the least variance."""
    best = best_buckets(epsilon, items)
    ratio = math.exp(min(epsilon, 30.0))
    # The variance has one minimum, so that the best prime is next to it; there may be none between items and it.
    near = {prime_at_most(max(2, math.floor(best))), prime_at_least(math.ceil(best))}
    return min(
        (length for length in near if length > items),
        key=lambda length: (length - 1) * ((items * ratio + length - items) / (length - items)) ** 2,
    )


def best_prime_within(epsilon: float, points: int, most: int) -> int:
    """The same for one item, where seeds for so many points and a bucket must give fewer than ``most`` messages.

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
    """The least whole number whose power of this degree is not below a number."""
    root = int(fmpz(number).root(degree))
    return root if root**degree >= number else root + 1


@dataclass(frozen=True)
class LinearHash:
    """h_a(x) = ⟨a, code(x)⟩ over the field of l elements, l prime, for a seed a that is uniform on all digit rows.

    code(x) holds the base-l digits of ξ, ξ², …, ξ^{k−1}, where ξ is element number x of the field of l^m elements, the
    smallest with an element for every point. Powers divisible by l are left out: Frobenius makes them linear in others.

    Theorem: any k different points have values that are independent and uniform after one common uniform shift.
    The rows (1, ξ, …, ξ^{k−1}) of k points are a Vandermonde matrix, so that the (1, code(x)) are independent over the
    field of l elements. A randomizer that is invariant under shifts of its circle needs no more, and the shift cancels
    between hash and report, so that it is never drawn nor sent.
    """

    buckets: int
    """l."""
    points: int
    independence: int = 2
    """k."""

    def largest_product(self) -> int:
        """What sums of products of digits stay below."""
        return self.width * (self.buckets - 1) ** 2 + 1

    def feasible(self) -> bool:
        """Whether the arithmetic below cannot overflow."""
        return self.buckets <= LARGEST_BASE and self.largest_product() < 1 << 63

    @cached_property
    def degree(self) -> int:
        """m: digits of a point."""
        degree = 1
        while self.buckets**degree < self.points:
            degree += 1
        return degree

    @property
    def powers(self) -> list[int]:
        return [power for power in range(1, self.independence) if power % self.buckets]

    @property
    def width(self) -> int:
        """Digits of a seed, and of a code."""
        return self.degree * len(self.powers)

    @cached_property
    def codes(self) -> Integers:
        """code(x), one row per point; the first m digits are those of x, the most significant first."""
        return self.codes_of(np.arange(self.points))

    def codes_of(self, points: Integers) -> Integers:
        """The same for some points."""
        places = self.buckets ** np.arange(self.degree - 1, -1, -1)
        element = points[:, None] // places % self.buckets
        columns, power = [element], element
        for exponent in range(2, self.independence):
            power = self._times(power, element)
            if exponent in self.powers:
                columns.append(power)
        return np.ascontiguousarray(np.hstack(columns))

    def evaluate(self, seeds: Array, points: Array) -> Integers:
        """h_a(x) for one seed per row, and several points per row."""
        codes = self.codes.take(points.reshape(-1), axis=0).reshape(*points.shape, self.width)
        total = np.einsum("upd,ud->up", codes, seeds)
        # Division by one number is fast, the remainder is not.
        return np.asarray(total - total // self.buckets * self.buckets)

    def support(self, seeds: Array, values: Array, arc: int) -> Integers:
        """For each point, how many messages have a value among the ``arc`` buckets from its own on, cyclically."""
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
                for first in range(0, len(inside), ROWS_AT_ONCE):
                    part += inside[first : first + ROWS_AT_ONCE].sum(axis=0, dtype=np.uint8)
        return counts

    def _inside(self, seeds: Array, values: Array, codes: Integers, arc: int) -> NDArray[np.bool_]:
        """Whether (value − h) mod l is below ``arc``, by message and point.

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
        """Products in the field of l^m elements; rows of digits, the most significant first."""
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
