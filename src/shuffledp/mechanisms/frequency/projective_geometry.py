"""Projective geometry response, a frequency oracle: report a point that is likelier to be orthogonal to the own one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shuffledp import argument
from shuffledp.array import Array, Integers
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.asked import Asked
from shuffledp.mechanisms.parts.own_region import OwnRegion, RegionLaw, Regions
from shuffledp.mechanisms.parts.reading import Reading
from shuffledp.mechanisms.parts.reference import UniformNumber
from shuffledp.mechanisms.parts.support import DecodedSupports, SomeSupports, SupportReading
from shuffledp.mechanisms.parts.user_values import OneOption
from shuffledp.mechanisms.parts.wire import WholeNumberWire
from shuffledp.privacy.pair import HidingPair
from shuffledp.sampling.linear_hash import prime_at_least, prime_at_most, prime_length
from shuffledp.sampling.projective_space import ProjectiveSpace, points
from shuffledp.sampling.random import RandomSource

MOST_POINTS, MOST_COUNTED = 1 << 62, 1 << 26
"""Of a space, and of one whose points can be counted one by one, which takes about 48 bytes each."""
BYTES_OF_A_POINT = 48
FEW_POINTS = 1 << 20
"""Options whose whole histogram can be read by default, and points that are decoded together also for some of them."""
LARGEST_BASE = 1 << 31
"""Products of two numbers below it stay below 2^62."""
LARGEST_EXPONENT = 30.0
"""Beyond, e^ε is above every prime that is considered."""
PRIMES_EACH_WAY = 6
USERS_AT_ONCE = 1 << 14
"""Users encoded at a time, so that the working arrays stay in the processor's cache."""


@dataclass(frozen=True)
class ProjectiveGeometry(Mechanism):
    """Report a uniform point of a projective space with probability γ, else a uniform one orthogonal to the own point.

    Options are the first points of the space of t coordinates over the numbers modulo a prime q, t the smallest that
    has K = (q^t−1)/(q−1) ≥ d points; every point is orthogonal to c₁ = (q^{t−1}−1)/(q−1) others or itself, every two
    to c₂ = (q^{t−2}−1)/(q−1). γ = 1/(1 + (e^ε−1)c₁/K), rounded up to a multiple of 2^-64, keeps the ratio at most e^ε.
    A uniform point is that of a uniform vector other than 0; an orthogonal one has one coordinate solved for. By
    default q gives the least variance for an option that is not held. A message is the number of the point.

    ``epsilon``: the local ε that every message keeps. ``options``: d, how many options there are; a user's value is the
    number of one of them, from 0. ``prime``: q, best near e^ε + 1.

    Theorem: projective geometry response: p = q = e^ε, β = (e^ε−1)(c₁−c₂)w, w = 1/((e^ε−1)c₁+K); s = e^ε·c₁·w,
    r = w(e^ε·c₂+c₁−c₂).
    Requires: ε > 0 finite; d ≥ 2; q at most 2^31, K at most 2^62.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.ProjectiveGeometry(epsilon=1.0, options=1000)
    >>> mechanism.prime, mechanism.outputs, mechanism.message_bits
    (3, 1093, 11)
    >>> krr = sdp.KRR(epsilon=1.0, options=1000)
    >>> f"{mechanism.variance([0] * 100).sum() / krr.variance([0] * 100).sum():.4f}"
    '0.0111'
    """

    epsilon: float
    options: int
    prime: int | None = None

    name = "projective-geometry"
    task = "frequency"
    summary = "projective geometry response: one point number, as accurate as subsets, decoded by Fourier transforms"
    take_it = "For many options, as accurate as subsets in short messages."
    also_called = (
        "pgr",
        "pg",
    )

    def __post_init__(self) -> None:
        who = "ProjectiveGeometry"
        object.__setattr__(self, "epsilon", argument.positive_finite(who, "epsilon", self.epsilon))
        object.__setattr__(self, "options", argument.count(who, "options", self.options, at_least=2))
        if self.options > MOST_POINTS // 2:
            raise ValueError(f"{who}: options must be at most 2^61, got {self.options}.")
        object.__setattr__(self, "prime", self._chosen_prime())
        if self.prime is not None and self.prime > LARGEST_BASE:
            raise ValueError(f"{who}: prime must be at most {LARGEST_BASE}, got {self.prime}.")
        if self.outputs > MOST_POINTS:
            raise ValueError(f"{who}: prime must give at most 2^62 points, got {self.outputs}.")
        assert self.region

    def _chosen_prime(self) -> int:
        """q: the given prime, or else the one with the least variance."""
        if self.prime is None:
            return best_base(self.epsilon, self.options)
        return prime_length("ProjectiveGeometry", "prime", self.prime, at_least=2)

    @cached_property
    def space(self) -> ProjectiveSpace:
        """Its points are the options and the messages."""
        assert self.prime is not None, "the constructor has chosen it"
        return ProjectiveSpace(self.prime, _coordinates(self.prime, self.options))

    @property
    def outputs(self) -> int:
        """K."""
        return self.space.size

    @cached_property
    def region(self) -> OwnRegion:
        """An option's region is the points orthogonal to its own."""
        return OwnRegion("ProjectiveGeometry", self.epsilon, self._orthogonal_to(1))

    def _orthogonal_to(self, many: int) -> Fraction:
        """The share of points that are orthogonal to ``many`` independent ones: c₁/K, c₂/K, …"""
        left = self.space.coordinates - many
        return Fraction(points(self.space.base, left) if left > 0 else 0, self.outputs)

    @cached_property
    def values(self) -> OneOption:
        return OneOption("ProjectiveGeometry", self.options)

    @cached_property
    def law(self) -> RegionLaw:
        """Any two options; there are more options than points orthogonal to one, so that none is orthogonal to all."""
        both = self._orthogonal_to(2)
        # A point orthogonal to two options is rarer for a third one.
        q_common = None if both else 1.0
        attacked, space = (self._attack(),), (self.name, self.options, self.space.base)
        return RegionLaw(
            self.region, self.region.share - both, q_common=q_common, attacked=attacked, tight=True, space=space
        )

    def _attack(self) -> HidingPair:
        """Options 0 and 1 where all others hold 2, or 0 where there is none.

        With q > 2 the three are on one line: what is orthogonal to two of them is orthogonal to all. With q = 2 they
        are independent, or all the points that there are.
        """
        one, two = self.region.share, self._orthogonal_to(2)
        shares: dict[Regions, Fraction]
        if self.options == 2:
            shares = {(True, False, True): one - two, (False, True, False): one - two, (True, True, True): two}
        else:
            collinear = self.space.base > 2 or self.space.coordinates == 2
            three = two if collinear else self._orthogonal_to(3)
            alone = one - 2 * two + three
            shares = {(True, False, False): alone, (False, True, False): alone, (False, False, True): alone}
            for pair in ((True, True, False), (True, False, True), (False, True, True)):
                shares[pair] = two - three
            shares[True, True, True] = three
        shares[False, False, False] = 1 - sum(shares.values(), Fraction(0))
        return self.region.attack(shares, symmetric=self.options > 2)

    @cached_property
    def wire(self) -> WholeNumberWire:
        return WholeNumberWire("ProjectiveGeometry", self.outputs)

    @cached_property
    def reading(self) -> OrthogonalCounts:
        both, high, low = self._orthogonal_to(2), self.region.inside, self.region.outside
        own, other = self.region.share * high, both * high + (self.region.share - both) * low
        return OrthogonalCounts(self.options, own, other, space=self.space)

    @cached_property
    def reference(self) -> UniformNumber:
        return UniformNumber(self.region, IsOrthogonal(self.space), self.outputs)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        result = np.empty(len(values), dtype=np.int64)
        for start in range(0, len(values), USERS_AT_ONCE):
            part = values[start : start + USERS_AT_ONCE]
            truthful = ~source.coins(self.region.uniform_share, len(part))
            result[start : start + len(part)] = self._points(part, truthful, source)
        return result

    def _points(self, values: Array, truthful: NDArray[np.bool_], source: RandomSource) -> Array:
        """A uniform vector, one coordinate of which the truthful solve for; drawn again where it is 0."""
        messages = np.full(len(values), -1, dtype=np.int64)
        while (open_ := np.flatnonzero(messages < 0)).size:
            rows = source.below(self.space.base, open_.size * self.space.coordinates)
            drawn = rows.reshape(open_.size, self.space.coordinates)
            self._turn(drawn, self.space.vectors(values[open_]), truthful[open_])
            messages[open_] = self.space.numbers(drawn)[0]
        return messages

    def _turn(self, drawn: Array, own: Array, truthful: NDArray[np.bool_]) -> None:
        """Make the truthful users' vectors orthogonal to their own point, by its first coordinate that is not 0."""
        product = (drawn * own).sum(axis=1)
        product *= truthful
        everyone, leading = np.arange(len(own)), (own != 0).argmax(axis=1)
        drawn[everyone, leading] = (drawn[everyone, leading] - product) % self.space.base

    def table(self) -> OutputTable:
        every, messages = np.arange(self.options), np.arange(self.outputs)
        high, low = self.region.inside / self.outputs, self.region.outside / self.outputs
        owned = [self.reference.owns(np.full_like(messages, x), messages) for x in every]
        return OutputTable(every, messages, tuple(tuple(high if o else low for o in own) for own in owned))

    @classmethod
    def examples(cls) -> Sequence[ProjectiveGeometry]:
        return [
            cls(epsilon=1.0, options=9),
            cls(epsilon=0.5, options=4, prime=2),
            cls(epsilon=2.0, options=4, prime=5),
            cls(epsilon=3.0, options=7, prime=5),
            cls(epsilon=1.0, options=2, prime=2),
        ]


@dataclass(frozen=True)
class OrthogonalCounts(SupportReading):
    """A message supports the options whose points are orthogonal to it."""

    space: ProjectiveSpace = field(kw_only=True)

    def accumulate(self, messages: Array) -> Array:
        return np.bincount(messages, minlength=self.space.size)

    def supports(self, total: Array) -> Array:
        return self.space.orthogonal_counts(np.asarray(total), self.options)

    @property
    def whole_bytes(self) -> int:
        return max(super().whole_bytes, BYTES_OF_A_POINT * self.space.size)

    def some(self, asked: Asked) -> Reading:
        return DecodedSupports(self, asked) if self.space.size <= FEW_POINTS else SomeSupports(self, asked)

    def supports_of(self, messages: Array, asked: Asked) -> Integers:
        return self.space.orthogonal_to(messages, asked.options)


@dataclass(frozen=True)
class IsOrthogonal:
    """Whether each message is orthogonal to the option beside it."""

    space: ProjectiveSpace

    def __call__(self, values: Array, messages: Array) -> NDArray[np.bool_]:
        return self.space.orthogonal(values, messages)


def best_base(epsilon: float, options: int) -> int:
    """The prime q with the least variance for an option that is not held, among those whose points are not too many.

    For up to 2^20 options the points are few enough to be counted, for a whole histogram.

    That variance depends on the number of points hardly at all and is least near q = e^ε + 1; besides the primes there,
    those that have the fewest points for some number of coordinates are tried.
    """
    excess = math.expm1(min(epsilon, LARGEST_EXPONENT))
    largest = min(prime_at_least(max(2, options - 1)), prime_at_most(LARGEST_BASE))
    tried = {largest}
    below = above = min(math.floor(excess + 1) + 1, largest)
    for _ in range(PRIMES_EACH_WAY):
        tried |= {below := prime_at_most(max(2, below)), above := prime_at_least(max(2, above))}
        below, above = below - 1, above + 1
    for coordinates in range(2, options.bit_length() + 1):
        tried.add(prime_at_least(max(2, math.floor(options ** (1 / (coordinates - 1))) - 1)))
    tried = {base for base in tried if base <= LARGEST_BASE}
    most = MOST_COUNTED if options <= FEW_POINTS else MOST_POINTS
    allowed = [base for base in tried if points(base, _coordinates(base, options)) <= most]
    return min(allowed, key=lambda base: (_other_variance(excess, base, options), base))


def _coordinates(base: int, options: int) -> int:
    """t: the smallest number of coordinates, at least two, with a point for every option."""
    coordinates = 2
    while points(base, coordinates) < options:
        coordinates += 1
    return coordinates


def _other_variance(excess: float, base: int, options: int) -> float:
    """r(1−r)/(s−r)²: per user, for an option that is not held; ``excess`` is e^ε − 1."""
    t = _coordinates(base, options)
    every, one, two = points(base, t), points(base, t - 1), points(base, t - 2)
    weight = 1 / (excess * one + every)
    other = weight * (excess * two + one)
    return other * (1 - other) / (weight * excess * (one - two)) ** 2
