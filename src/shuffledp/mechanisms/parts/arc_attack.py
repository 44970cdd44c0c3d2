"""What is known exactly of the arcs of two or three users' points: attacks on messages that are a hash and a place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, product
from math import comb, prod

import numpy as np
from flint import fmpq

from shuffledp.array import Integers
from shuffledp.mechanisms.parts.unary import UnaryBits, UnaryLaw
from shuffledp.numerics.ball import rational
from shuffledp.privacy.pair import HidingPair, exact_pair
from shuffledp.sampling.linear_hash import LinearHash

MOST_POINTS = 4096
"""Points that are looked at for some that are hashed independently."""
MOST_ROWS = 4_000_000
"""Rows of places that are looked at for the chance that two users' arcs meet."""
PARALLEL: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((0,), (1,)),
    ((0, 3), (1, 2)),
    ((0, 4, 5), (1, 2, 6)),
    ((0, 4, 7, 11), (1, 2, 9, 10)),
    ((0, 4, 8, 16, 17), (1, 2, 10, 14, 18)),
    ((0, 5, 6, 16, 17, 22), (1, 2, 10, 12, 20, 21)),
    ((0, 18, 27, 58, 64, 89, 101), (1, 13, 38, 44, 75, 84, 102)),
    ((0, 4, 9, 23, 27, 41, 46, 50), (1, 2, 11, 20, 30, 39, 48, 49)),
)
"""Two sets of s numbers whose sums of powers up to s−1 agree: Π(x−a) and Π(x−b) differ by a constant."""


def arc_attacks(hashing: LinearHash, items: int, arc: int, inside: Fraction, signs: int) -> Iterator[HidingPair]:
    """Exact pairs of users who hold ``items`` points each, arcs of ``arc`` places, ``inside`` times as likely.

    Of ``signs`` points in a row a user holds at most one.

    Theorem: (a) Let some points of each of three users be counted, and let all points of one user and the counted ones
    of the two others be hashed independently, whoever that one is. Then whether the place is on a counted arc of either
    are three bits, independent whoever sent it: an own bit of chance ``inside``·c, others of chance c, the chance to be
    on so many arcs; what the place does off a user's arcs depends on her points alone. The same for two users.
    (b) Let k > s points be independent, by polynomials of degree k−1 over the field, and let the products Π(x−a) and
    Π(x−b) over two users' points differ by a constant. Given the places of the first user's points, those of the
    second's still have one common uniform shift. So the place is on the second's arcs with the chance c, whatever the
    first user sends; and on both with ``inside`` times the chance of that at a uniform place.
    """
    share = Fraction(arc, hashing.buckets)
    whole, (two, three) = 1 - (1 - share) ** items, independent_points(hashing, items, signs)
    if three:
        part = 1 - (1 - share) ** three
        yield _of_bits((whole, part, part), inside)
    if two and three < items:
        yield from UnaryLaw(UnaryBits(2, inside * whole, whole)).attacks()
    if not two and hashing.degree == 1 and items <= len(PARALLEL) and _fits(PARALLEL[items - 1], hashing.points, signs):
        yield from _parallel(hashing, items, arc, inside)


def independent_points(hashing: LinearHash, items: int, signs: int) -> tuple[bool, int]:
    """Whether all points of two users can be independent, and how many of a second and a third user's may be counted.

    With the latter, all points of one user and the counted ones of the others are independent; 0 if none are found.
    """
    counted = min(items, 1 + hashing.width - 2 * items)
    if counted < 0:
        return False, 0
    points = np.arange(min(hashing.points, MOST_POINTS))
    rows = np.column_stack([np.ones(len(points), dtype=np.int64), hashing.codes_of(points)])

    def chosen(basis: dict[int, Integers], held: set[int], wanted: int) -> set[int]:
        return _chosen(basis, rows, held, wanted, hashing.buckets, signs)

    first: dict[int, Integers] = {}
    two = len(chosen(first, set(), items)) == items and len(chosen(dict(first), set(), items)) == items
    users = [chosen(first, set(), counted) for _ in range(2)]
    # Their further points need not be independent of each other.
    wholes = [chosen(dict(first), user, items) for user in users]
    three = min(map(len, users)) == counted and min(map(len, wholes)) == items
    return two, counted if two and three else 0


def _chosen(
    basis: dict[int, Integers], rows: Integers, held: set[int], wanted: int, prime: int, signs: int
) -> set[int]:
    """What a user holds, with further points that are independent of all in the basis, up to as many as wanted."""
    result = set(held)
    for point, row in enumerate(rows):
        if len(result) == wanted:
            break
        if point // signs not in result and _added(basis, row, prime):
            result.add(point // signs)
    return result


def _of_bits(covered: Sequence[Fraction], inside: Fraction) -> HidingPair:
    """Three bits, each of a larger chance where the sender is the user whose it is."""
    seen = list(product((False, True), repeat=3))
    laws = []
    for sender in range(3):
        chances = [rational(c * (inside if user == sender else 1)) for user, c in enumerate(covered)]
        laws.append(
            [prod((c if bit else 1 - c for c, bit in zip(chances, bits, strict=True)), start=fmpq(1)) for bits in seen]
        )
    return exact_pair(list(zip(*laws, strict=True)), symmetric=covered[0] == covered[1])


def _added(basis: dict[int, Integers], row: Integers, prime: int) -> bool:
    """Whether a row is no combination of those of the basis, which it then joins."""
    for pivot, known in basis.items():
        if row[pivot]:
            row = (row - row[pivot] * known) % prime
    if not row.any():
        return False
    pivot = int(np.flatnonzero(row)[0])
    basis[pivot] = row * pow(int(row[pivot]), -1, prime) % prime
    return True


def _fits(pair: Sequence[Sequence[int]], points: int, signs: int) -> bool:
    return max(map(max, pair)) < points and all(len({one // signs for one in held}) == len(held) for held in pair)


def _parallel(hashing: LinearHash, items: int, arc: int, inside: Fraction) -> Iterator[HidingPair]:
    """The others hold what the first user does, or what either does, by a fair coin.

    Where the chance that both users' arcs meet takes too long to count, only so many of their points count as are
    independent.
    """
    share, k = Fraction(arc, hashing.buckets), hashing.independence
    counted = [items, items]
    both = meeting_chance(hashing.buckets, k, arc, items)
    if both is None:
        counted = [min(items, (k + 1) // 2), min(items, k // 2)]
    one, two = (1 - (1 - share) ** count for count in counted)
    joint = one * two if both is None else both
    first = (inside * joint, inside * (one - joint), two - inside * joint)
    second = (inside * joint, one - inside * joint, inside * (two - joint))
    laws = [[rational(chance) for chance in (*law, 1 - sum(law))] for law in (first, second)]
    mixed = [(a + b) / 2 for a, b in zip(*laws, strict=True)]
    yield exact_pair(list(zip(*laws, laws[0], strict=True)), symmetric=False)
    yield exact_pair(list(zip(*laws, mixed, strict=True)), symmetric=counted[0] == counted[1])


@lru_cache(maxsize=64)
def meeting_chance(prime: int, independence: int, arc: int, items: int) -> Fraction | None:
    """The chance that a uniform place is on arcs of both users of ``PARALLEL``; None where it takes too long to count.

    Inclusion and exclusion over all 2s points, any k of which are independent. A set of more is told by its first k
    points, whose places are all those of k arcs: of these, the terms of all larger sets cancel, but where a later
    point's arc is hit, too.
    """
    held = [point for user in PARALLEL[items - 1] for point in user]
    k, share, count = independence, Fraction(arc, prime), len(held)
    bases = list(combinations(range(count - 1), k))
    if len(bases) * arc**k > MOST_ROWS:
        return None
    missed = sum((comb(count, j) * (-share) ** j for j in range(min(k, count) + 1)), Fraction(0))
    rows = np.stack([axis.reshape(-1) for axis in np.meshgrid(*[np.arange(arc)] * k, indexing="ij")])
    for base in bases:
        later = [_interpolated([held[j] for j in base], held[j], prime) for j in range(base[-1] + 1, count)]
        hit = (np.array(later) @ rows % prime < arc).any(axis=0)
        missed -= (-1) ** k * Fraction(int(hit.sum()), prime**k)
    return 2 * (1 - (1 - share) ** items) - 1 + missed


def _interpolated(points: Sequence[int], at: int, prime: int) -> list[int]:
    """The weights with which values at some points give a polynomial's value at another one."""
    result = []
    for one in points:
        up, down = 1, 1
        for other in points:
            if other != one:
                up, down = up * (at - other) % prime, down * (one - other) % prime
        result.append(up * pow(down, -1, prime) % prime)
    return result
