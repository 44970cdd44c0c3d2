"""Wheel: each user holds a set of options, hashed to arcs of a circle, and reports a place of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import ceil
from typing import Any

import numpy as np

from shuffledp import argument
from shuffledp.array import Array, Floats
from shuffledp.mechanisms.mechanism import OutputTable
from shuffledp.mechanisms.parts import user_values
from shuffledp.mechanisms.parts.arcs import ArcResponse
from shuffledp.mechanisms.parts.old_support import SupportOracle
from shuffledp.sampling.linear_hash import LinearHash, best_buckets, prime_at_least, prime_length
from shuffledp.sampling.random import RandomSource

PLACES_OF_AN_ARC = 8
"""Arcs of at least so many places by default: their length is then within 1/16 of the best, the variance within 1%."""


@dataclass(frozen=True)
class Wheel(ArcResponse, SupportOracle):
    """Hash one's s options to places of a circle, and report a place that is likelier on the arcs that begin there.

    Each user holds ``items`` different options, one row of option numbers; the estimate is how many users hold each
    option. The circle has M places, M prime: by default at least as many as options, and eight an arc; arcs have L
    places, the nearest to ``arc``·M. The hash is a fresh random polynomial of degree s over the field of M elements (of
    an extension of it where M < d), its coefficients on the wire, so that any s+1 options are hashed independently:
    exactly what the estimator needs. How the place is drawn, and ε-LDP: see ``ArcResponse``.

    Theorem: [VR] Table 1, Wheel, ℓ = L/M: p = q = e^ε, β ≤ (e^ε−1)(sℓ−κ)/(sℓe^ε+1−sℓ), κ as in ``least_overlap``.
    Deviates: a grid instead of real numbers. The printed β is for arcs that are disjoint, κ = 0; two users' arcs
    overlap by about (1−(1−ℓ)^s)². The probability off the arcs is that of the sets as they overlap.
    """

    epsilon: float
    options: int
    items: int
    arc: float | None = None
    circle: int | None = None

    name = "wheel"
    task = "set-valued"
    combines_items = True
    summary = "sets of options: a place on a circle, likelier on the arcs of the items; short messages"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", argument.positive_finite("Wheel", "epsilon", self.epsilon))
        object.__setattr__(self, "options", argument.count("Wheel", "options", self.options, at_least=2))
        object.__setattr__(self, "items", argument.count("Wheel", "items", self.items))
        if self.items >= self.options:
            raise ValueError(f"Wheel: items must be below the {self.options} options, got {self.items}.")
        if self.arc is not None:
            object.__setattr__(self, "arc", argument.open_probability("Wheel", "arc", self.arc))
        if self.circle is not None:
            circle = prime_length("Wheel", "circle", self.circle, at_least=2)
            object.__setattr__(self, "circle", circle)
        if self.items * self.arc_places >= self.places:
            raise ValueError(
                f"Wheel: {self.items} arcs must leave a part of the circle free, "
                f"got arcs of {self.arc_places} of {self.places} places."
            )
        if not self.hashing.feasible():
            raise ValueError(f"Wheel: the circle must have fewer places, got {self.places}; set circle.")
        assert self.region

    @cached_property
    def _wanted_arc(self) -> float:
        return 1 / best_buckets(self.epsilon, self.items) if self.arc is None else self.arc

    @cached_property
    def hashing(self) -> LinearHash:
        wanted = max(self.options, ceil(PLACES_OF_AN_ARC / self._wanted_arc))
        places = prime_at_least(wanted) if self.circle is None else self.circle
        return LinearHash(places, self.options, self.items + 1)

    @cached_property
    def arc_places(self) -> int:
        return max(1, round(self._wanted_arc * self.places))

    @property
    def own_support(self) -> Fraction:
        return self.own_arc

    @property
    def other_support(self) -> Fraction:
        return self.arc_share

    def check(self, values: Any) -> Array:
        return user_values.item_sets("Wheel", values, self.options, self.items)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        return self.report(values, source)

    def accumulate(self, messages: Array) -> Array:
        return self.supports(messages)

    def truth(self, values: Any) -> Floats:
        return np.bincount(self.check(values).reshape(-1), minlength=self.options).astype(np.float64)

    def variance(self, values: Any) -> Floats:
        return self._variance_of_counts(self.truth(values), len(values))

    def probe(self) -> Array:
        return user_values.farthest_sets(self.options, self.items)

    def table(self) -> OutputTable:
        sets = list(combinations(range(self.options), self.items))
        return OutputTable(np.array(sets), self.all_messages(), tuple(self.law_of(held) for held in sets))

    @classmethod
    def examples(cls) -> Sequence[Wheel]:
        return [
            cls(epsilon=1.0, options=4, items=2, arc=0.2, circle=5),
            cls(epsilon=2.0, options=3, items=2, arc=0.4, circle=5),
            cls(epsilon=0.5, options=5, items=1, arc=0.3, circle=7),
            cls(epsilon=1.0, options=4, items=2, arc=0.3, circle=3),
        ]
