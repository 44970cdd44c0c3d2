"""Wheel: each user holds a set of options, hashed to arcs of a circle, and reports a place of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from math import ceil

import numpy as np

from shuffledp import argument
from shuffledp.array import Array
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.arcs import ArcResponse, DigitWire
from shuffledp.mechanisms.parts.own_region import RegionLaw
from shuffledp.mechanisms.parts.support import SupportReading
from shuffledp.mechanisms.parts.user_values import ItemSet
from shuffledp.sampling.linear_hash import LinearHash, best_buckets, prime_at_least, prime_length
from shuffledp.sampling.random import RandomSource

PLACES_OF_AN_ARC = 8
"""Arcs of at least so many places by default: their length is then within 1/16 of the best, the variance within 1%."""


@dataclass(frozen=True)
class Wheel(Mechanism):
    """Hash one's s options to places of a circle, and report a place that is likelier on the arcs that begin there.

    Each user holds ``items`` different options, one row of option numbers; the estimate is how many users hold each
    option. The circle has M places, M prime: by default at least as many as options, and eight an arc; arcs have L
    places, the nearest to ``arc``·M. The hash is a fresh random polynomial of degree s over the field of M elements (of
    an extension of it where M < d), its coefficients on the wire, so that any s+1 options are hashed independently:
    exactly what the estimator needs. How the place is drawn, and ε-LDP: see ``ArcResponse``.

    ``epsilon``: the local ε that every message keeps. ``options``: d, how many options there are, numbered from 0.
    ``items``: s, how many of them every user holds, no more and no fewer. ``arc``: the length of an arc as a share of
    the circle, by default the one with the least variance. ``circle``: M, a prime.

    Theorem: [VR] Table 1, Wheel, ℓ = L/M: p = q = e^ε, β ≤ (e^ε−1)(sℓ−κ)/(sℓe^ε+1−sℓ), κ as in ``least_overlap``.
    Deviates: a grid instead of real numbers. The printed β is for arcs that are disjoint, κ = 0; two users' arcs
    overlap by about (1−(1−ℓ)^s)². The probability off the arcs is that of the sets as they overlap.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.Wheel(epsilon=1.0, options=1000, items=4)
    >>> f"{mechanism.arc:.4f}", mechanism.circle
    ('0.0522', 1009)
    >>> mechanism.message_bits, sdp.PrivSet(epsilon=1.0, options=1000, items=4).message_bits
    (50, 640)
    """

    epsilon: float
    options: int
    items: int
    arc: float | None = None
    circle: int | None = None

    name = "wheel"
    task = "set-valued"
    summary = "sets of options: a place on a circle, likelier on the arcs of the items; short messages"
    take_it = "For sets in short messages, with a local ε."

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", argument.positive_finite("Wheel", "epsilon", self.epsilon))
        object.__setattr__(self, "options", argument.count("Wheel", "options", self.options, at_least=2))
        object.__setattr__(self, "items", argument.count("Wheel", "items", self.items))
        if self.items >= self.options:
            raise ValueError(f"Wheel: items must be below the {self.options} options, got {self.items}.")
        object.__setattr__(self, "arc", self._chosen_arc())
        object.__setattr__(self, "circle", self._chosen_circle())
        arcs = self.arcs
        if self.items * arcs.arc_places >= arcs.places:
            raise ValueError(
                f"Wheel: {self.items} arcs must leave a part of the circle free, "
                f"got arcs of {arcs.arc_places} of {arcs.places} places."
            )
        if not arcs.hashing.feasible():
            raise ValueError(f"Wheel: the circle must have fewer places, got {arcs.places}; set circle.")
        assert arcs.region

    def _chosen_arc(self) -> float:
        """The given share of the circle, or else the one with the least variance."""
        if self.arc is None:
            return 1 / best_buckets(self.epsilon, self.items)
        return argument.open_probability("Wheel", "arc", self.arc)

    def _chosen_circle(self) -> int:
        """M: the given prime, or else one for all options and for arcs of eight places; the arc is chosen before."""
        if self.circle is None:
            assert self.arc is not None, "the constructor has chosen it"
            return prime_at_least(max(self.options, ceil(PLACES_OF_AN_ARC / self.arc)))
        return prime_length("Wheel", "circle", self.circle, at_least=2)

    @cached_property
    def arcs(self) -> ArcResponse:
        """How a message is drawn, and its law."""
        assert self.arc is not None, "the constructor has chosen it"
        assert self.circle is not None, "the constructor has chosen it"
        hashing = LinearHash(self.circle, self.options, self.items + 1)
        return ArcResponse("Wheel", self.epsilon, self.items, hashing, max(1, round(self.arc * self.circle)))

    @cached_property
    def values(self) -> ItemSet:
        return ItemSet("Wheel", self.options, self.items)

    @cached_property
    def law(self) -> RegionLaw:
        return self.arcs.law()

    @cached_property
    def wire(self) -> DigitWire:
        return self.arcs.wire

    @cached_property
    def reading(self) -> ArcSupport:
        return ArcSupport(self.options, self.arcs.own_arc, self.arcs.arc_share, arcs=self.arcs)

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
class ArcSupport(SupportReading):
    """A message supports the options on whose arc its place is."""

    arcs: ArcResponse = field(kw_only=True)

    def accumulate(self, messages: Array) -> Array:
        return self.arcs.supports(messages)
