"""Wheel (sets) and Collision (key–value pairs): items are hashed to arcs of a circle, whose places are likelier.

The file holds exact attacks on such messages, the response ``ArcResponse`` and both mechanisms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import combinations, product
from math import ceil, comb, prod
from typing import Any

import numpy as np
from flint import fmpq

from shuffledp._core import validation
from shuffledp._core.validation import Array, Bools, Bytes, Floats, Integers, checked
from shuffledp.mechanisms.base.domain import ItemSet
from shuffledp.mechanisms.base.encoding import Encoding, ValidRows
from shuffledp.mechanisms.base.error_laws import CountErrorLaw
from shuffledp.mechanisms.base.estimator import Estimate, Influence
from shuffledp.mechanisms.base.mechanism import Mechanism, OutputTable
from shuffledp.mechanisms.base.support_counts import SupportEstimator
from shuffledp.mechanisms.base.two_level_law import TwoLevelLaw, TwoLevelResponse
from shuffledp.mechanisms.frequency.unary_encoding import UnaryBits, UnaryLaw
from shuffledp.mechanisms.sets_and_key_values.pckv_and_privkv import (
    EMPTY_KEY,
    KeyValueEstimator,
    KeyValuePairs,
    draw_positive_signs,
    exact_value,
    iterate_pair_sets,
)
from shuffledp.numerics.ball_arithmetic import to_rational
from shuffledp.privacy.dominating_pairs import HidingPair, exact_pair
from shuffledp.sampling import rounding_and_digits
from shuffledp.sampling.hashing import LinearHash, best_buckets, best_prime, check_prime_buckets, prime_at_least
from shuffledp.sampling.random_sources import RandomSource

# --- Attacks: exact laws of the arcs of two or three users' points ---


MAX_SEARCH_POINTS = 4096
"""Most points among which independently hashed ones are searched."""
MAX_ENUMERATED_ROWS = 4_000_000
"""Most rows of places that are enumerated for the probability that two users' arcs meet."""
EQUAL_POWER_SUM_SETS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((0,), (1,)),
    ((0, 3), (1, 2)),
    ((0, 4, 5), (1, 2, 6)),
    ((0, 4, 7, 11), (1, 2, 9, 10)),
    ((0, 4, 8, 16, 17), (1, 2, 10, 14, 18)),
    ((0, 5, 6, 16, 17, 22), (1, 2, 10, 12, 20, 21)),
    ((0, 18, 27, 58, 64, 89, 101), (1, 13, 38, 44, 75, 84, 102)),
    ((0, 4, 9, 23, 27, 41, 46, 50), (1, 2, 11, 20, 30, 39, 48, 49)),
)
"""Two sets of s numbers with equal power sums up to s−1: Π(x−a) and Π(x−b) differ by a constant."""


def arc_attacks(hashing: LinearHash, items: int, arc: int, inside: Fraction, signs: int) -> Iterator[HidingPair]:
    """Yields exact pairs of users with ``items`` points each and arcs of ``arc`` places, ``inside`` times as likely.

    A user holds at most one of ``signs`` points in a row.

    Theorem: (a) Let some points of each of three users be counted, and let all points of one user and the counted ones
    of the two others be hashed independently, for each choice of that one. Then three bits say on whose counted arcs
    the place is; they are independent for any sender: the sender's bit is 1 with chance ``inside``·c, the others with
    chance c, the chance to be on so many arcs; what the place does off a user's arcs depends on their points alone. The
    same for two users. (b) Let k > s points be independent, by polynomials of degree k−1 over the field, and let the
    products Π(x−a) and Π(x−b) over two users' points differ by a constant. Given the places of the first user's points,
    those of the second's still have one common uniform shift. So the place is on the second's arcs with the chance c,
    whatever the first user sends; and on both with ``inside`` times the chance of that at a uniform place.
    """
    share = Fraction(arc, hashing.buckets)
    whole, (two, three) = 1 - (1 - share) ** items, independent_points(hashing, items, signs)
    if three:
        part = 1 - (1 - share) ** three
        yield _pair_from_bits((whole, part, part), inside)
    if two and three < items:
        yield from UnaryLaw(UnaryBits(2, inside * whole, whole)).attacks()
    if (
        not two
        and hashing.degree == 1
        and items <= len(EQUAL_POWER_SUM_SETS)
        and _is_valid_pair(EQUAL_POWER_SUM_SETS[items - 1], hashing.points, signs)
    ):
        yield from _equal_power_sum_attacks(hashing, items, arc, inside)


def independent_points(hashing: LinearHash, items: int, signs: int) -> tuple[bool, int]:
    """Returns whether all points of two users can be independent, and how many of two further users' may be counted.

    With the latter, all points of one user and the counted ones of the two others are independent; 0 if none are found.
    """
    counted = min(items, 1 + hashing.width - 2 * items)
    if counted < 0:
        return False, 0
    points = np.arange(min(hashing.points, MAX_SEARCH_POINTS))
    rows = np.column_stack([np.ones(len(points), dtype=np.int64), hashing.codes_of(points)])

    def choose(basis: dict[int, Integers], held: set[int], count: int) -> set[int]:
        return _choose_points(basis, rows, held, count, hashing.buckets, signs)

    basis: dict[int, Integers] = {}
    two = len(choose(basis, set(), items)) == items and len(choose(dict(basis), set(), items)) == items
    users = [choose(basis, set(), counted) for _ in range(2)]
    # Their further points need not be independent of each other.
    complete = [choose(dict(basis), user, items) for user in users]
    three = min(map(len, users)) == counted and min(map(len, complete)) == items
    return two, counted if two and three else 0


def _choose_points(
    basis: dict[int, Integers], rows: Integers, held: set[int], count: int, prime: int, signs: int
) -> set[int]:
    """Returns a user's items, extended by points independent of all in the basis to at most ``count``."""
    result = set(held)
    for point, row in enumerate(rows):
        if len(result) == count:
            break
        if point // signs not in result and _add_to_basis(basis, row, prime):
            result.add(point // signs)
    return result


def _pair_from_bits(covered: Sequence[Fraction], inside: Fraction) -> HidingPair:
    """Returns the pair of three independent bits, each likelier to be 1 if the sender is the user it belongs to."""
    laws = []
    for sender in range(3):
        chances = [to_rational(c * (inside if user == sender else 1)) for user, c in enumerate(covered)]
        laws.append(
            [
                prod((c if bit else 1 - c for c, bit in zip(chances, bits, strict=True)), start=fmpq(1))
                for bits in product((False, True), repeat=3)
            ]
        )
    return exact_pair(list(zip(*laws, strict=True)), symmetric=covered[0] == covered[1])


def _add_to_basis(basis: dict[int, Integers], row: Integers, prime: int) -> bool:
    """Adds the row to the basis and returns True, or returns False if it is a combination of the basis."""
    for pivot, vector in basis.items():
        if row[pivot]:
            row = (row - row[pivot] * vector) % prime
    if not row.any():
        return False
    pivot = int(np.flatnonzero(row)[0])
    basis[pivot] = row * pow(int(row[pivot]), -1, prime) % prime
    return True


def _is_valid_pair(pair: Sequence[Sequence[int]], points: int, signs: int) -> bool:
    """Returns True if both sets of points exist and have at most one of ``signs`` points in a row."""
    return max(map(max, pair)) < points and all(len({point // signs for point in held}) == len(held) for held in pair)


def _equal_power_sum_attacks(hashing: LinearHash, items: int, arc: int, inside: Fraction) -> Iterator[HidingPair]:
    """Yields attacks where the others hold the first user's points, or either user's by a fair coin.

    If the probability that both users' arcs meet takes too long to count, only as many of their points are counted as
    are independent.
    """
    share, k = Fraction(arc, hashing.buckets), hashing.independence
    counted = [items, items]
    both = overlap_probability(hashing.buckets, k, arc, items)
    if both is None:
        counted = [min(items, (k + 1) // 2), min(items, k // 2)]
    one, two = (1 - (1 - share) ** count for count in counted)
    joint = one * two if both is None else both
    first = (inside * joint, inside * (one - joint), two - inside * joint)
    second = (inside * joint, one - inside * joint, inside * (two - joint))
    laws = [[to_rational(chance) for chance in (*law, 1 - sum(law))] for law in (first, second)]
    mixed = [(a + b) / 2 for a, b in zip(*laws, strict=True)]
    yield exact_pair(list(zip(*laws, laws[0], strict=True)), symmetric=False)
    yield exact_pair(list(zip(*laws, mixed, strict=True)), symmetric=counted[0] == counted[1])


@lru_cache(maxsize=64)
def overlap_probability(prime: int, independence: int, arc: int, items: int) -> Fraction | None:
    """Returns the probability that a uniform place is on arcs of both users of ``EQUAL_POWER_SUM_SETS``.

    None if it is too long to count. Inclusion and exclusion over all 2s points, any k of which are independent. A
    larger set is determined by its first k points, whose places are all those of k arcs: for these, the terms of all
    larger sets cancel, unless a later point's arc is hit, too.
    """
    held = [point for user in EQUAL_POWER_SUM_SETS[items - 1] for point in user]
    k, share, count = independence, Fraction(arc, prime), len(held)
    bases = list(combinations(range(count - 1), k))
    if len(bases) * arc**k > MAX_ENUMERATED_ROWS:
        return None
    missed = sum((comb(count, j) * (-share) ** j for j in range(min(k, count) + 1)), Fraction(0))
    rows = np.stack([axis.reshape(-1) for axis in np.meshgrid(*[np.arange(arc)] * k, indexing="ij")])
    for base in bases:
        later = [_interpolation_weights([held[j] for j in base], held[j], prime) for j in range(base[-1] + 1, count)]
        hit = (np.array(later) @ rows % prime < arc).any(axis=0)
        missed -= (-1) ** k * Fraction(int(hit.sum()), prime**k)
    return 2 * (1 - (1 - share) ** items) - 1 + missed


def _interpolation_weights(points: Sequence[int], at: int, prime: int) -> list[int]:
    """Returns the weights by which a polynomial's values at ``points`` give its value at ``at``."""
    result = []
    for point in points:
        numerator, denominator = 1, 1
        for other in points:
            if other != point:
                numerator, denominator = numerator * (at - other) % prime, denominator * (point - other) % prime
        result.append(numerator * pow(denominator, -1, prime) % prime)
    return result


# --- Messages that are a hash function and a place on a circle ---


MAX_BLOCK_USERS = 1 << 13
"""Small enough for the working arrays to stay in the cache and to reuse their memory."""


@dataclass(frozen=True)
class ArcResponse:
    """A uniform seed, and a place on the circle of M places that is likelier on the union C of arcs of L places.

    The seed hashes each of the user's s points to the place where its arc begins. Each place of C has probability u =
    (γ + (1−γ)M/(sL))/M, every other one the same, (1 − u|C|)/(M − |C|). It is drawn exactly: with probability γ a
    uniform place; else a uniform place of a uniform one of the arcs, kept if no earlier arc covers it, and replaced by
    a uniform place off C otherwise.

    ε-LDP: the probability off C is least when the arcs are disjoint, and is γ/M then; u ≤ e^ε·γ/M by choice of γ.
    Overlapping arcs do not change this. A message is the digits of the seed, then the place.
    """

    error_prefix: str
    epsilon: float
    items: int
    """s, the number of points that a user holds."""
    hashing: LinearHash
    """The family of hash functions to the circle."""
    arc_places: int
    """L, the number of places of an arc."""
    signs: int = 1
    """A user holds at most one of this many points in a row."""

    @property
    def places(self) -> int:
        """M, the number of places."""
        return self.hashing.buckets

    @property
    def arc_share(self) -> Fraction:
        """ℓ = L/M, the probability that a place is on the arc of a point that is not the user's."""
        return Fraction(self.arc_places, self.places)

    @cached_property
    def response(self) -> TwoLevelResponse:
        """The law for disjoint arcs."""
        return TwoLevelResponse(self.error_prefix, self.epsilon, self.items * self.arc_share)

    @property
    def true_arc_probability(self) -> Fraction:
        """L·u, the probability that the place is on the arc of a given one of the user's points."""
        return self.arc_share * self.response.inside_density

    def draw(self, points: Array, source: RandomSource) -> Array:
        """Draws the messages of users who hold these rows of points."""
        result = np.empty((len(points), self.hashing.width + 1), dtype=rounding_and_digits.number_type(self.places))
        for start in range(0, len(points), MAX_BLOCK_USERS):
            own = points[start : start + MAX_BLOCK_USERS]
            seeds = rounding_and_digits.draw(source, self.places, len(own), self.hashing.width)
            result[start : start + len(own), :-1] = seeds
            result[start : start + len(own), -1] = self.draw_place(self.hashing.evaluate(seeds, own), source)
        return result

    def draw_place(self, starts: Array, source: RandomSource) -> Integers:
        """Draws the place that each user reports, given the starts of their arcs."""
        place = source.integers_below(self.places, len(starts))
        honest = np.flatnonzero(source.coins(1 - self.response.uniform_share, len(starts)))
        arcs, steps = np.divmod(source.integers_below(self.items * self.arc_places, len(honest)), self.arc_places)
        place[honest] = (starts[honest, arcs] + steps) % self.places
        covering = self._covers(starts[honest], place[honest])
        elsewhere = honest[covering.argmax(axis=1) != arcs]
        while elsewhere.size:
            place[elsewhere] = source.integers_below(self.places, len(elsewhere))
            elsewhere = elsewhere[self._covers(starts[elsewhere], place[elsewhere]).any(axis=1)]
        return place

    def _covers(self, starts: Array, place: Array) -> Bools:
        """Returns whether each of a user's arcs covers the place."""
        steps = place[:, None] - starts
        steps += self.places * (steps < 0)
        return np.asarray(steps < self.arc_places)

    @property
    def encoding(self) -> DigitEncoding:
        return DigitEncoding(self.error_prefix, self.places, self.hashing.width + 1)

    def support_counts(self, messages: Array) -> Integers:
        """Returns, for each point, how many messages have a place on its arc."""
        return self.hashing.support(messages[:, :-1], messages[:, -1], self.arc_places)

    # --- privacy ---

    @cached_property
    def least_overlap(self) -> Fraction:
        """A lower bound of the probability that a uniform place is on arcs of both of any two users.

        P(E∩F) = P(E) + P(F) − P(E∪F). E and F are unions of s events, independent after the uniform shift by the place;
        E∪F is one of at most n = min(2s, points) events (add independent ones where users share items), which are
        k-wise independent. The first j terms of inclusion and exclusion are an upper bound of its probability for odd
        j, even less (j+1)/n of the next term [Bonferroni: 1 + C(N−1,j)(1 − N/n) ≥ 1 where N ≥ 1 of the events occur].
        """
        share, k = self.arc_share, self.hashing.independence
        events = min(2 * self.items, self.hashing.points)
        terms = [comb(events, j) * share**j * (-1) ** (j - 1) for j in range(1, min(k, events) + 1)]
        if events <= k:
            union = sum(terms, start=Fraction(0))
        else:
            union = min(
                sum(terms[:j], start=Fraction(j + 1, events) * terms[j] if j < k else Fraction(0))
                for j in range(1, k + 1, 2)
            )
        covered = 1 - (1 - share) ** self.items
        return max(2 * covered - union, 2 * self.response.share - 1, Fraction(0))

    def law(self) -> TwoLevelLaw:
        """Returns the law of a pair that is worse than every pair of inputs.

        The law off C results from adding a uniform set of other places to C until it has sL places, and then answering
        as for disjoint arcs. Revealing this set as well reveals more: by Jensen G grows in convex order. All regions
        then have sL places. Their overlap only grew, and the smaller it is taken, the worse the pair. Every message has
        at least the probability that is taken for the blanket.
        """
        return TwoLevelLaw(self.response, self.response.share - self.least_overlap, attack_pairs=tuple(self._attacks()))

    def _attacks(self) -> Iterator[HidingPair]:
        """Yields attacks on the arc of one point, and on all of a user's arcs where their law is known exactly."""
        yield self._attack()
        yield from arc_attacks(self.hashing, self.items, self.arc_places, self.response.inside_density, self.signs)

    def _attack(self) -> HidingPair:
        """Returns the test whether the place is on the arc of a point that only the first of the two inputs holds."""
        own, other = to_rational(self.true_arc_probability), to_rational(self.arc_share)
        return exact_pair([(own, other, other), (1 - own, 1 - other, 1 - other)], symmetric=False)

    # --- for tests ---

    def all_messages(self) -> Array:
        """Returns every message, for small instances."""
        rows = list(product(range(self.places), repeat=self.hashing.width + 1))
        return np.array(rows, dtype=rounding_and_digits.number_type(self.places))

    def law_of(self, points: Iterable[int]) -> tuple[Fraction, ...]:
        """Returns the probability of every message for a user who holds these points, from the definition."""
        held = list(points)
        inside = self.response.inside_density / self.places
        seeds = self.places**self.hashing.width
        row: list[Fraction] = []
        for seed in product(range(self.places), repeat=self.hashing.width):
            starts = [sum(a * int(c) for a, c in zip(seed, self.hashing.codes[x], strict=True)) for x in held]
            union = {(start + step) % self.places for start in starts for step in range(self.arc_places)}
            outside = (1 - len(union) * inside) / (self.places - len(union))
            row += [(inside if y in union else outside) / seeds for y in range(self.places)]
        return tuple(row)


@dataclass(frozen=True)
class DigitEncoding(Encoding):
    """Encoding of a row of digits in one base as one big-endian number of the fewest bits."""

    error_prefix: str
    base: int
    digits: int

    @property
    def bits(self) -> int:
        return rounding_and_digits.encoded_bits(self.base, self.digits)

    @property
    def expected_format(self) -> str:
        return f"messages below {self.base}^{self.digits}"

    def pack(self, messages: Array) -> Bytes:
        return rounding_and_digits.pack(messages, self.base)

    def decode_rows(self, rows: Bytes) -> tuple[Array, ValidRows]:
        return rounding_and_digits.unpack(rows, self.base, self.digits)


# --- Wheel ---


MIN_ARC_PLACES = 8
"""Fewest places of an arc by default: its length is then within 1/16 of the best, the variance within 1%."""


@dataclass(frozen=True)
class Wheel(Mechanism):
    """Hashes the user's s options to places on a circle and reports a place that is likelier on the arcs from there.

    Each user holds ``items`` different options, one row of option numbers; the estimate is the number of users who hold
    each option. The circle has M places, M prime: by default at least as many as options, and eight per arc; arcs have
    L places, the nearest to ``arc``·M. The hash is a fresh random polynomial of degree s over the field of M elements
    (of an extension of it where M < d), so that any s+1 options are hashed independently, as the estimator requires.
    For the draw of the place and the proof of ε-LDP see ``ArcResponse``. A message is a row of digits: the polynomial's
    coefficients, then the place.

    Theorem: [VR] Table 1, Wheel, ℓ = L/M: p = q = e^ε, β ≤ (e^ε−1)(sℓ−κ)/(sℓe^ε+1−sℓ), κ as in ``least_overlap``.
    Deviates: a grid instead of real numbers. The printed β is for arcs that are disjoint, κ = 0; two users' arcs
    overlap by about (1−(1−ℓ)^s)². The probability off the arcs is that of the sets as they overlap.

    Args:
        epsilon: Local ε of every message.
        options: Number of options d, numbered from 0.
        items: Number of options s that every user holds, no more and no fewer.
        arc: Length of an arc as a share of the circle; None for the one with the least variance.
        circle: Number of places M, a prime; None to choose it.

    Raises:
        ValueError: If a parameter is out of range, ``circle`` is not prime or too large, or the arcs may cover the
            circle.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.Wheel(epsilon=1.0, options=1000, items=4)
    >>> f"{mechanism.arc:.4f}", mechanism.circle
    ('0.0522', 1009)
    >>> mechanism.message_bits, sdp.PrivSet(epsilon=1.0, options=1000, items=4).message_bits
    (50, 640)
    """

    epsilon: float = field(metadata=checked(validation.positive_finite))
    options: int = field(metadata=checked(validation.count, at_least=2))
    items: int = field(metadata=checked(validation.count))
    arc: float | None = None
    circle: int | None = None

    name = "wheel"
    task = "set-valued"
    summary = "sets of options: a place on a circle, likelier on the arcs of the items; short messages"
    use_case = "For sets in short messages, with a local ε."

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.items >= self.options:
            raise ValueError(f"Wheel: items must be below the {self.options} options, got {self.items}.")
        object.__setattr__(self, "arc", self._choose_arc())
        object.__setattr__(self, "circle", self._choose_circle())
        arcs = self.arcs
        if self.items * arcs.arc_places >= arcs.places:
            raise ValueError(
                f"Wheel: {self.items} arcs must leave a part of the circle free, "
                f"got arcs of {arcs.arc_places} of {arcs.places} places."
            )
        if not arcs.hashing.is_feasible():
            raise ValueError(f"Wheel: the circle must have fewer places, got {arcs.places}; set circle.")
        _ = arcs.response

    def _choose_arc(self) -> float:
        """Returns the given share of the circle, or else the one with the least variance."""
        if self.arc is None:
            return 1 / best_buckets(self.epsilon, self.items)
        return validation.open_probability("Wheel", "arc", self.arc)

    def _choose_circle(self) -> int:
        """Returns M: the given prime, or else one for all options and arcs of eight places; needs the chosen arc."""
        if self.circle is None:
            assert self.arc is not None, "the constructor has chosen it"
            return prime_at_least(max(self.options, ceil(MIN_ARC_PLACES / self.arc)))
        return check_prime_buckets("Wheel", "circle", self.circle, at_least=2)

    @cached_property
    def arcs(self) -> ArcResponse:
        """The law of a message and its sampler."""
        assert self.arc is not None, "the constructor has chosen it"
        assert self.circle is not None, "the constructor has chosen it"
        hashing = LinearHash(self.circle, self.options, self.items + 1)
        return ArcResponse("Wheel", self.epsilon, self.items, hashing, max(1, round(self.arc * self.circle)))

    @cached_property
    def domain(self) -> ItemSet:
        return ItemSet("Wheel", self.options, self.items)

    @cached_property
    def law(self) -> TwoLevelLaw:
        return self.arcs.law()

    @cached_property
    def encoding(self) -> DigitEncoding:
        return self.arcs.encoding

    @cached_property
    def estimator(self) -> ArcSupportEstimator:
        return ArcSupportEstimator(self.options, self.arcs.true_arc_probability, self.arcs.arc_share, arcs=self.arcs)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        return self.arcs.draw(values, source)

    def table(self) -> OutputTable:
        sets = list(combinations(range(self.options), self.items))
        return OutputTable(np.array(sets), self.arcs.all_messages(), tuple(map(self.arcs.law_of, sets)))

    @classmethod
    def examples(cls) -> Sequence[Wheel]:
        return [
            cls(epsilon=1.0, options=4, items=2, arc=0.2, circle=5),
            cls(epsilon=2.0, options=3, items=2, arc=0.4, circle=5),
            cls(epsilon=0.5, options=5, items=1, arc=0.3, circle=7),
            cls(epsilon=1.0, options=4, items=2, arc=0.3, circle=3),
        ]


@dataclass(frozen=True)
class ArcSupportEstimator(SupportEstimator):
    """Estimator of counts from messages that support the options on whose arc their place is."""

    arcs: ArcResponse = field(kw_only=True)

    def accumulate(self, messages: Array) -> Array:
        return self.arcs.support_counts(messages)


@dataclass(frozen=True)
class Collision(Mechanism):
    """Rounds the user's s values to signs, hashes the signed options to buckets and reports one, likelier one of those.

    Each user holds ``items`` options with values, no more and no fewer. A value v, as a multiple of 2^-52, becomes +
    with probability (1+v)/2 exactly, else −. The 2d signed options are hashed to l buckets, l prime, by default the one
    with the least variance: by a fresh random polynomial of degree s+1 over the field of l^m ≥ 2d elements, of whose
    value one digit is kept. Any s+2 of them are hashed independently: the user's own, and both signs of another option.
    For the draw of the bucket and the proof of ε-LDP see ``ArcResponse``, with arcs of one place. A message is a row of
    digits: the polynomial's coefficients, then the bucket.

    Theorem: [VR] Table 5, Collision: p = q = e^ε, β ≤ (e^ε−1)(s−κl)/(se^ε+l−s), κ as in ``least_overlap``.
    Deviates: the printed β, min(s, l−s)(e^ε−1)/(se^ε+l−s), is for buckets that two users never share, κ = 0. Values
    between −1 and 1 are allowed: their law is an average of the laws for signs.

    Args:
        epsilon: Local ε of every message.
        options: Number of keys d, numbered from 0; a value is a row of pairs (key, number from −1 to 1).
        items: Number of pairs s that every user holds.
        length: Number of buckets l, a prime above s; None for the one with the least variance.

    Raises:
        ValueError: If a parameter is out of range, or ``length`` is not prime or too large.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.Collision(epsilon=2.0, options=20, items=2)
    >>> mechanism.length
    19
    >>> counts, sums = mechanism.truth([[(0, 0.5), (7, -1.0)], [(7, -0.5), (3, 1.0)]])
    >>> float(counts[7]), float(sums[7])
    (2.0, -1.5)
    """

    epsilon: float = field(metadata=checked(validation.positive_finite))
    options: int = field(metadata=checked(validation.count))
    items: int = field(metadata=checked(validation.count))
    length: int | None = None

    name = "collision"
    task = "key-value"
    summary = "a few options with values in [-1, 1]: a bucket, likelier one of theirs; short messages"
    use_case = "For key–value pairs in short messages, with a local ε."
    aliases = ("coco",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.items > self.options:
            raise ValueError(f"Collision: items must be at most the {self.options} options, got {self.items}.")
        if self.length is None:
            length = best_prime(self.epsilon, self.items)
        else:
            length = check_prime_buckets("Collision", "length", self.length, at_least=self.items + 1)
        object.__setattr__(self, "length", length)
        if not self.arcs.hashing.is_feasible():
            raise ValueError(f"Collision: there must be fewer buckets, got {length}; set length.")
        _ = self.arcs.response

    @cached_property
    def arcs(self) -> ArcResponse:
        """The law of a message and its sampler; option j with sign − is point 2j, with sign + point 2j+1."""
        assert self.length is not None, "the constructor has chosen it"
        hashing = LinearHash(self.length, 2 * self.options, self.items + 2)
        return ArcResponse("Collision", self.epsilon, self.items, hashing, arc_places=1, signs=2)

    @cached_property
    def domain(self) -> FixedSizePairs:
        return FixedSizePairs("Collision", self.options, max_pairs=self.options, audit_pair_size=self.items)

    @cached_property
    def law(self) -> TwoLevelLaw:
        return self.arcs.law()

    @cached_property
    def encoding(self) -> DigitEncoding:
        return self.arcs.encoding

    @cached_property
    def estimator(self) -> SignedSupportEstimator:
        return SignedSupportEstimator(self.options, self.arcs)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        points = 2 * values[..., 0].astype(np.int64)
        points += draw_positive_signs(values[..., 1], source)
        return self.arcs.draw(points, source)

    def table(self) -> OutputTable:
        """Returns the law for every choice of options and signs; for one item also for an intermediate value."""
        between = (0.375,) if self.items == 1 else ()
        rows = iterate_pair_sets(self.options, self.items, self.items, *between)
        inputs = np.stack([row for row in rows if (row[:, 0] != EMPTY_KEY).all()])
        return OutputTable(inputs, self.arcs.all_messages(), tuple(self._average_law(row) for row in inputs))

    def _average_law(self, pairs: Array) -> tuple[Fraction, ...]:
        """Returns the law averaged over the signs to which the values may be rounded."""
        total = [Fraction(0)] * int(self.arcs.places ** (self.arcs.hashing.width + 1))
        for signs in product((0, 1), repeat=self.items):
            chance = Fraction(1)
            for value, sign in zip(pairs[:, 1], signs, strict=True):
                chance *= (1 + (2 * sign - 1) * exact_value(value)) / 2
            if chance:
                law = self.arcs.law_of(2 * int(option) + sign for option, sign in zip(pairs[:, 0], signs, strict=True))
                total = [sum_ + chance * term for sum_, term in zip(total, law, strict=True)]
        return tuple(total)

    @classmethod
    def examples(cls) -> Sequence[Collision]:
        return [
            cls(epsilon=1.0, options=2, items=1, length=5),
            cls(epsilon=2.0, options=2, items=2, length=3),
            cls(epsilon=0.5, options=1, items=1, length=2),
            cls(epsilon=1.0, options=2, items=1),
        ]


@dataclass(frozen=True)
class FixedSizePairs(KeyValuePairs):
    """Exactly ``audit_pair_size`` different keys with a number each per user, and no empty slot."""

    requires_padding = True

    def check(self, values: Any) -> Array:
        pairs = super().check(values)
        size, counts = self.audit_pair_size, (pairs[..., 0] != EMPTY_KEY).sum(axis=1)
        if pairs.shape[1] != size or (counts != size).any():
            got = pairs.shape[1] if pairs.shape[1] != size else counts.min()
            raise ValueError(f"{self.error_prefix}: expected {size} pairs of option and value per user, got {got}.")
        return pairs


@dataclass(frozen=True)
class SignedSupportEstimator(KeyValueEstimator):
    """Estimator of counts and value sums from messages that support the signed options on whose arc their place is."""

    arcs: ArcResponse

    def accumulate(self, messages: Array) -> Array:
        """Returns how many messages support each option with sign −, and with sign +, in two rows."""
        return self.arcs.support_counts(messages).reshape(self.keys, 2).T

    def finish(self, total: Array, users: int) -> Estimate:
        """Returns counts and sums; the variance of a sum omits −Σv² (at most the count) and errs on the safe side."""
        minus, plus = np.asarray(total, dtype=np.float64)
        gap, other = float(self.arcs.true_arc_probability - self.arcs.arc_share), float(self.arcs.arc_share)
        value = np.stack([plus + minus - 2 * users * other, plus - minus]) / gap
        held = np.clip(value[0], 0.0, users)
        return Estimate(value, self._variance_of(held, np.zeros_like(held), users), users, self.error_law(users))

    def count_error_law(self, users: int) -> CountErrorLaw:
        """Returns the law of a count: an option's signs are supported independently, a holder's own more often."""
        s, r = self.arcs.true_arc_probability, self.arcs.arc_share
        gap = float(s - r)
        spread = [float(p * (1 - p) + r * (1 - r)) / gap**2 for p in (s, r)]
        third = [float(p * (1 - p) * (1 - 2 * p) + r * (1 - r) * (1 - 2 * r)) / gap**3 for p in (s, r)]
        return CountErrorLaw.from_users(users, spread, third, 1 / gap, -2 * users * float(r) / gap)

    def influence(self, messages: float) -> tuple[Influence, ...]:
        """Returns the influence of a user whose hash maps both signs of an option, one or none to the place."""
        gap, other = float(self.arcs.true_arc_probability - self.arcs.arc_share), float(self.arcs.arc_share)
        counts = Influence(-2 * other / gap, 2 * (messages - other) / gap)
        return counts, Influence(-messages / gap, messages / gap, -1.0, 1.0)

    def variance(self, values: Array) -> Floats:
        held, squares = self.sums(values, power=2)
        return self._variance_of(held, squares, len(values))

    def covariance(self, sums: Floats) -> Floats:
        """Returns the covariance; given a holder's sign, the supports of both signs are independent."""
        s, r = self.arcs.true_arc_probability, self.arcs.arc_share
        return float((s * (1 - s) - r * (1 - r)) / (s - r) ** 2) * sums

    def _variance_of(self, held: Floats, squares: Floats, users: int) -> Floats:
        """Returns the variances; given a holder's sign, a message's supports of both signs are independent."""
        s, r = self.arcs.true_arc_probability, self.arcs.arc_share
        gap = (s - r) ** 2
        holder, other = float((s * (1 - s) + r * (1 - r)) / gap), float(2 * r * (1 - r) / gap)
        count = held * holder + (users - held) * other
        return np.stack([count, count + held - squares])
