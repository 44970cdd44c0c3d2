"""Messages that are a hash of the user's items to places on a circle, and a place, likelier on the items' arcs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import comb

import numpy as np
from numpy.typing import NDArray

from shuffledp.array import Array, Bytes
from shuffledp.mechanisms.parts.arc_attack import arc_attacks
from shuffledp.mechanisms.parts.own_region import OwnRegion, RegionLaw
from shuffledp.mechanisms.parts.wire import Mask, Wire
from shuffledp.numerics.ball import rational
from shuffledp.privacy.pair import HidingPair, exact_pair
from shuffledp.sampling import digits
from shuffledp.sampling.linear_hash import LinearHash
from shuffledp.sampling.random import RandomSource

USERS_AT_ONCE = 1 << 13
"""Small enough for arrays of them to stay in the cache, and in memory that is used again."""


@dataclass(frozen=True)
class ArcResponse:
    """A uniform seed, and a place of the circle of M that is likelier on the union C of arcs of L places.

    The seed hashes each of the user's s points to the place where its arc begins. Each place of C has probability
    u = (γ + (1−γ)M/(sL))/M, every other one the same, (1 − u|C|)/(M − |C|). It is drawn exactly: with probability γ a
    uniform place; else a uniform place of a uniform one of the arcs, kept if no earlier arc covers it, and replaced by
    a uniform place off C otherwise.

    ε-LDP: the probability off C is least when the arcs are disjoint, and is γ/M then; u ≤ e^ε·γ/M by choice of γ.
    Arcs that overlap change nothing in this. A message is the digits of the seed, then the place.
    """

    who: str
    epsilon: float
    items: int
    """s."""
    hashing: LinearHash
    """The family of functions to the circle."""
    arc_places: int
    """L."""
    signs: int = 1
    """Of so many points in a row a user holds at most one."""

    @property
    def places(self) -> int:
        """M."""
        return self.hashing.buckets

    @property
    def arc_share(self) -> Fraction:
        """ℓ = L/M: the chance that a place is on the arc of a point that is not the user's."""
        return Fraction(self.arc_places, self.places)

    @cached_property
    def region(self) -> OwnRegion:
        """The law for disjoint arcs."""
        return OwnRegion(self.who, self.epsilon, self.items * self.arc_share)

    @property
    def own_arc(self) -> Fraction:
        """The chance that the place is on the arc of a given one of the user's points: L·u."""
        return self.arc_share * self.region.inside

    # --- running it -------------------------------------------------------------------------------------------

    def draw(self, points: Array, source: RandomSource) -> Array:
        """Messages of users who hold these rows of points."""
        result = np.empty((len(points), self.hashing.width + 1), dtype=digits.number_type(self.places))
        for start in range(0, len(points), USERS_AT_ONCE):
            own = points[start : start + USERS_AT_ONCE]
            seeds = digits.draw(source, self.places, len(own), self.hashing.width)
            result[start : start + len(own), :-1] = seeds
            result[start : start + len(own), -1] = self.place(self.hashing.evaluate(seeds, own), source)
        return result

    def place(self, starts: Array, source: RandomSource) -> NDArray[np.int64]:
        """The place that each user reports, whose arcs start there."""
        place = source.below(self.places, len(starts))
        honest = np.flatnonzero(source.coins(1 - self.region.uniform_share, len(starts)))
        arcs, steps = np.divmod(source.below(self.items * self.arc_places, len(honest)), self.arc_places)
        place[honest] = (starts[honest, arcs] + steps) % self.places
        covering = self._covers(starts[honest], place[honest])
        elsewhere = honest[covering.argmax(axis=1) != arcs]
        while elsewhere.size:
            place[elsewhere] = source.below(self.places, len(elsewhere))
            elsewhere = elsewhere[self._covers(starts[elsewhere], place[elsewhere]).any(axis=1)]
        return place

    def _covers(self, starts: Array, place: Array) -> NDArray[np.bool_]:
        steps = place[:, None] - starts
        steps += self.places * (steps < 0)
        return np.asarray(steps < self.arc_places)

    @property
    def wire(self) -> DigitWire:
        return DigitWire(self.who, self.places, self.hashing.width + 1)

    def supports(self, messages: Array) -> NDArray[np.int64]:
        """For each point, how many messages have a place on its arc."""
        return self.hashing.support(messages[:, :-1], messages[:, -1], self.arc_places)

    # --- its privacy ------------------------------------------------------------------------------------------

    @cached_property
    def least_overlap(self) -> Fraction:
        """A lower bound of the chance that a uniform place is on arcs of both of two users, whatever they hold.

        P(E∩F) = P(E) + P(F) − P(E∪F). E and F are unions of s events, independent after the uniform shift by the
        place; E∪F is one of at most n = min(2s, points) events (add independent ones where users share items), which
        are k-wise independent. The first j terms of inclusion and exclusion, j odd, are not below its chance, even
        less (j+1)/n of the next one [Bonferroni: 1 + C(N−1,j)(1 − N/n) ≥ 1 where N ≥ 1 of the events occur].
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
        return max(2 * covered - union, 2 * self.region.share - 1, Fraction(0))

    def law(self) -> RegionLaw:
        """The law of a pair that is worse than every pair of inputs.

        The law off C is what one gets by adding to C a uniform set of other places until it has sL places, and then
        answering as for disjoint arcs. To know this set as well is to know more: by Jensen G grows in convex order.
        All regions then have sL places. Their overlap only grew, and the smaller it is taken, the worse the pair.
        Every message has at least the probability that is taken for the blanket.
        """
        return RegionLaw(self.region, self.region.share - self.least_overlap, attacked=tuple(self._attacks()))

    def _attacks(self) -> Iterator[HidingPair]:
        """On the arcs of one point, and on those of all of a user's points where their law is known exactly."""
        yield self._attack()
        yield from arc_attacks(self.hashing, self.items, self.arc_places, self.region.inside, self.signs)

    def _attack(self) -> HidingPair:
        """Is the place on the arc of one point, which user 1 holds in the first case, and nobody else ever does?"""
        own, other = rational(self.own_arc), rational(self.arc_share)
        return exact_pair([(own, other, other), (1 - own, 1 - other, 1 - other)], symmetric=False)

    # --- for tests --------------------------------------------------------------------------------------------

    def all_messages(self) -> Array:
        """Every message, for small instances."""
        rows = list(product(range(self.places), repeat=self.hashing.width + 1))
        return np.array(rows, dtype=digits.number_type(self.places))

    def law_of(self, points: Iterable[int]) -> tuple[Fraction, ...]:
        """The probability of every message for a user who holds these points, from the definition."""
        held = list(points)
        inside = self.region.inside / self.places
        seeds = self.places**self.hashing.width
        row: list[Fraction] = []
        for seed in product(range(self.places), repeat=self.hashing.width):
            starts = [sum(a * int(c) for a, c in zip(seed, self.hashing.codes[x], strict=True)) for x in held]
            union = {(start + step) % self.places for start in starts for step in range(self.arc_places)}
            outside = (1 - len(union) * inside) / (self.places - len(union))
            row += [(inside if y in union else outside) / seeds for y in range(self.places)]
        return tuple(row)


@dataclass(frozen=True)
class DigitWire(Wire):
    """A message is a row of digits in one base: as few bits as they need together, big-endian."""

    who: str
    base: int
    digits: int

    @property
    def bits(self) -> int:
        return digits.wire_bits(self.base, self.digits)

    @property
    def expected(self) -> str:
        return f"messages below {self.base}^{self.digits}"

    def pack(self, messages: Array) -> Bytes:
        return digits.pack(messages, self.base)

    def read(self, rows: Bytes) -> tuple[Array, Mask]:
        return digits.unpack(rows, self.base, self.digits)
