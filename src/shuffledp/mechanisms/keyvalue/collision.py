"""Collision: each user holds a few options with values, hashed to buckets, and reports a bucket."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from shuffledp import argument
from shuffledp.array import Array, Floats
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.arcs import ArcResponse, DigitWire
from shuffledp.mechanisms.parts.count_tails import CountTails
from shuffledp.mechanisms.parts.own_region import RegionLaw
from shuffledp.mechanisms.parts.pair_reading import (
    NONE,
    KeyValuePairs,
    PairReading,
    exact_value,
    positive_signs,
    sets_of_pairs,
)
from shuffledp.mechanisms.parts.sway import Sway
from shuffledp.sampling.linear_hash import LinearHash, best_prime, prime_length
from shuffledp.sampling.random import RandomSource


@dataclass(frozen=True)
class Collision(Mechanism):
    """Round one's s values to signs, hash the s signed options to buckets, and report a bucket, likelier one of those.

    Each user holds ``items`` options with values, no more and no fewer. A value v, as a multiple of 2^-52, becomes +
    with probability (1+v)/2 exactly, else −. The 2d signed options are hashed to l buckets, l prime, by default the one
    with the least variance: by a fresh random polynomial of degree s+1 over the field of l^m ≥ 2d elements, of whose
    value one digit is kept. Any s+2 of them are hashed independently: one's own, and both signs of another option. How
    the bucket is drawn, and ε-LDP: see ``ArcResponse``, with arcs of one place.

    ``epsilon``: the local ε that every message keeps. ``options``: d, how many keys there are, numbered from 0.
    ``items``: s. ``length``: l, how many buckets. A value is a row of pairs (key, number from −1 to 1).

    Theorem: [VR] Table 5, Collision: p = q = e^ε, β ≤ (e^ε−1)(s−κl)/(se^ε+l−s), κ as in ``least_overlap``.
    Deviates: the printed β, min(s, l−s)(e^ε−1)/(se^ε+l−s), is for buckets that two users never share, κ = 0. Values
    between −1 and 1 are allowed: their law is an average of the laws for signs.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.Collision(epsilon=2.0, options=20, items=2)
    >>> mechanism.length
    19
    >>> counts, sums = mechanism.truth([[(0, 0.5), (7, -1.0)], [(7, -0.5), (3, 1.0)]])
    >>> float(counts[7]), float(sums[7])
    (2.0, -1.5)
    """

    epsilon: float
    options: int
    items: int
    length: int | None = None

    name = "collision"
    task = "key-value"
    summary = "a few options with values in [-1, 1]: a bucket, likelier one of theirs; short messages"
    take_it = "For key–value pairs in short messages, with a local ε."
    also_called = ("coco",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", argument.positive_finite("Collision", "epsilon", self.epsilon))
        object.__setattr__(self, "options", argument.count("Collision", "options", self.options))
        object.__setattr__(self, "items", argument.count("Collision", "items", self.items))
        if self.items > self.options:
            raise ValueError(f"Collision: items must be at most the {self.options} options, got {self.items}.")
        object.__setattr__(self, "length", self._chosen_length())
        if not self.arcs.hashing.feasible():
            raise ValueError(f"Collision: there must be fewer buckets, got {self.length}; set length.")
        assert self.arcs.region

    def _chosen_length(self) -> int:
        """l: the given length, or else the prime with the least variance."""
        if self.length is None:
            return best_prime(self.epsilon, self.items)
        return prime_length("Collision", "length", self.length, at_least=self.items + 1)

    @cached_property
    def arcs(self) -> ArcResponse:
        """How a message is drawn, and its law; option j with sign − is point 2j, with sign + point 2j+1."""
        assert self.length is not None, "the constructor has chosen it"
        hashing = LinearHash(self.length, 2 * self.options, self.items + 2)
        return ArcResponse("Collision", self.epsilon, self.items, hashing, arc_places=1, signs=2)

    @cached_property
    def values(self) -> ExactlySomePairs:
        return ExactlySomePairs("Collision", self.options, most_pairs=self.options, probe_pairs=self.items)

    @cached_property
    def law(self) -> RegionLaw:
        return self.arcs.law()

    @cached_property
    def wire(self) -> DigitWire:
        return self.arcs.wire

    @cached_property
    def reading(self) -> SignedSupport:
        return SignedSupport(self.options, self.arcs)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        points = 2 * values[..., 0].astype(np.int64)
        points += positive_signs(values[..., 1], source)
        return self.arcs.draw(points, source)

    def table(self) -> OutputTable:
        """Every choice of options and signs; for one item also a value between."""
        between = (0.375,) if self.items == 1 else ()
        rows = sets_of_pairs(self.options, self.items, self.items, *between)
        inputs = np.stack([row for row in rows if (row[:, 0] != NONE).all()])
        return OutputTable(inputs, self.arcs.all_messages(), tuple(self._mixed_law(row) for row in inputs))

    def _mixed_law(self, pairs: Array) -> tuple[Fraction, ...]:
        """The law averaged over the signs that the values may become."""
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
class ExactlySomePairs(KeyValuePairs):
    """The same, but every user holds exactly ``probe_pairs`` of them, and no slot is empty."""

    fills = True

    def check(self, values: Any) -> Array:
        pairs = super().check(values)
        held = (pairs[..., 0] != NONE).sum(axis=1)
        if pairs.shape[1] != self.probe_pairs or (held != self.probe_pairs).any():
            got = pairs.shape[1] if pairs.shape[1] != self.probe_pairs else held.min()
            raise ValueError(f"{self.who}: expected {self.probe_pairs} pairs of option and value per user, got {got}.")
        return pairs


@dataclass(frozen=True)
class SignedSupport(PairReading):
    """A message supports the signed options on whose arc its place is."""

    arcs: ArcResponse

    def accumulate(self, messages: Array) -> Array:
        """How many messages support each option with sign −, and with sign +: two rows."""
        return self.arcs.supports(messages).reshape(self.keys, 2).T

    def finish(self, total: Array, users: int) -> Estimate:
        """Counts and sums; the variance of a sum leaves out −Σv², at most the count: it errs on the safe side."""
        minus, plus = np.asarray(total, dtype=np.float64)
        gap, other = float(self.arcs.own_arc - self.arcs.arc_share), float(self.arcs.arc_share)
        value = np.stack([plus + minus - 2 * users * other, plus - minus]) / gap
        held = np.clip(value[0], 0.0, users)
        return Estimate(value, self._variance_of(held, np.zeros_like(held), users), users, self.tails(users))

    def count_tails(self, users: int) -> CountTails:
        """Both signs of an option are supported by themselves, a holder's own one more often."""
        s, r, gap = self.arcs.own_arc, self.arcs.arc_share, float(self.arcs.own_arc - self.arcs.arc_share)
        spread = [float(p * (1 - p) + r * (1 - r)) / gap**2 for p in (s, r)]
        third = [float(p * (1 - p) * (1 - 2 * p) + r * (1 - r) * (1 - 2 * r)) / gap**3 for p in (s, r)]
        return CountTails.of_users(users, spread, third, 1 / gap, -2 * users * float(r) / gap)

    def sways(self, messages: float) -> tuple[Sway, ...]:
        """Some hash puts both signs of an option in the place that is sent, another one of them, another none."""
        gap, other = float(self.arcs.own_arc - self.arcs.arc_share), float(self.arcs.arc_share)
        counts = Sway(-2 * other / gap, 2 * (messages - other) / gap)
        return counts, Sway(-messages / gap, messages / gap, -1.0, 1.0)

    def variance(self, values: Array) -> Floats:
        held, squares = self.sums(values, power=2)
        return self._variance_of(held, squares, len(values))

    def covariance(self, sums: Floats) -> Floats:
        """Given a holder's sign, the supports of that sign and of the other are independent: their variances differ."""
        s, r = self.arcs.own_arc, self.arcs.arc_share
        return float((s * (1 - s) - r * (1 - r)) / (s - r) ** 2) * sums

    def _variance_of(self, held: Floats, squares: Floats, users: int) -> Floats:
        """A message's supports of both signs are independent, given the sign that a holder drew."""
        s, r = self.arcs.own_arc, self.arcs.arc_share
        gap = (s - r) ** 2
        holder, other = float((s * (1 - s) + r * (1 - r)) / gap), float(2 * r * (1 - r) / gap)
        count = held * holder + (users - held) * other
        return np.stack([count, count + held - squares])
