"""All coordinates of a vector at once, by a vector of signs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import comb, prod

import numpy as np
from numpy.typing import NDArray

from shuffledp import argument
from shuffledp.array import Array, Bytes, Integers, Words
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.bit_response import informative_epsilon
from shuffledp.mechanisms.parts.own_region import OwnRegion, RegionLaw, Regions
from shuffledp.mechanisms.parts.reference import UniformReference
from shuffledp.mechanisms.parts.signed_mean import SignRow, sign_law, table_inputs
from shuffledp.mechanisms.parts.user_values import BoxVector
from shuffledp.mechanisms.parts.wire import BitRowWire
from shuffledp.privacy.pair import HidingPair
from shuffledp.sampling import rounding
from shuffledp.sampling.random import RandomSource

COINS_AT_ONCE = 1 << 17
MOST_COORDINATES_OF_A_TABLE = 8
MOST_DIMENSION = 1 << 17
"""Probabilities are exact, with as many binary digits as there are coordinates."""


@dataclass(frozen=True)
class SignVectors:
    """Vectors of signs as rows of packed bits, 1 for +."""

    dimension: int

    @property
    def bytes(self) -> int:
        return -(-self.dimension // 8)

    def packed(self, signs: NDArray[np.bool_]) -> Bytes:
        padded = np.zeros((len(signs), 8 * self.bytes), dtype=np.bool_)
        padded[:, : self.dimension] = signs
        return np.packbits(padded.reshape(-1), bitorder="little").reshape(len(signs), self.bytes)

    @cached_property
    def every_bit(self) -> Bytes:
        return self.packed(np.ones((1, self.dimension), dtype=np.bool_)).reshape(-1)

    def in_parts(self, values: Array) -> Iterator[Array]:
        """As many vectors at a time as fit in the cache."""
        at_once = max(1, COINS_AT_ONCE // self.dimension)
        return (values[start : start + at_once] for start in range(0, len(values), at_once))

    def rounded(self, values: Array, source: RandomSource) -> Bytes:
        """Each coordinate as a sign of the same mean."""
        return self.packed(rounding.coins(rounding.units_of_signed(values), source))

    def balance(self, drawn: Bytes, own: Bytes) -> Integers:
        """t·v for each row."""
        differ = np.bitwise_count(drawn ^ own).sum(axis=1, dtype=np.int64)
        return np.asarray(self.dimension - 2 * differ)

    def __call__(self, own: Array, messages: Array) -> NDArray[np.bool_]:
        """Whether t·v > 0 for each row."""
        return np.asarray(self.balance(messages, own) > 0)


@dataclass(frozen=True)
class UniformSigns(UniformReference):
    """The reference law: every vector of signs alike. A value's own signs are drawn once, before any seed is tried."""

    owns: SignVectors

    @property
    def words(self) -> int:
        return -(-self.owns.dimension // 64)

    def messages(self, words: Words) -> Array:
        rows = words.astype("<u8").view(np.uint8)[:, : self.owns.bytes]
        return np.asarray(rows & self.owns.every_bit)

    def drawn(self, values: Array, source: RandomSource) -> Array:
        return np.concatenate([self.owns.rounded(part, source) for part in self.owns.in_parts(values)])


@dataclass(frozen=True)
class Duchi(Mechanism):
    """Report a vector of signs t, likelier if t·v > 0, where v is the user's vector rounded to signs.

    The own set is {t : t·v > 0}, N₊ of the 2^d vectors: 2^(d−1) of them for odd d, fewer for even d by half the ties.
    To draw from it, draw t from all, turn it round if t·v < 0, and draw again if t·v = 0: each vector of the set is
    met as often as any other. Nothing is enumerated.

    A message is a row of packed bits, 1 for +, which is also its form on the wire: coordinate j is bit j mod 8 of
    byte j div 8.

    ``epsilon``: the local ε that every message keeps. ``dimension``: d, how many numbers a vector has, each from −1 to
    1.

    Theorem: [VR] Table 5, Duchi et al.: p = q = e^ε, β = (e^ε−1)N₊/(e^ε·N₊ + 2^d − N₊); (e^ε−1)/(e^ε+1) for odd d.
    Deviates: ties t·v = 0 (even d) have the low weight. Drawn as often described, with ties in both halves, the
    ratio is e^ε + 1.

    >>> import numpy as np, shuffledp as sdp
    >>> mechanism = sdp.Duchi(epsilon=2.0, dimension=3)
    >>> mechanism.message_bits
    3
    >>> vectors = np.tile([0.5, -0.5, 0.0], (20_000, 1))
    >>> found = mechanism.estimate(mechanism.encode(vectors, rng=np.random.default_rng(1)))
    >>> bool((abs(found.value - vectors[0]) < 5 * found.standard_error).all())
    True
    """

    epsilon: float
    dimension: int

    name = "duchi"
    task = "vector mean"
    summary = "vector mean: signs of all coordinates, turned towards the user's vector"
    take_it = "For vectors whose every coordinate is between −1 and 1, of few dimensions."
    also_called = ("duchi-vector",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", informative_epsilon("Duchi", self.epsilon))
        object.__setattr__(
            self, "dimension", argument.count("Duchi", "dimension", self.dimension, at_most=MOST_DIMENSION)
        )

    @cached_property
    def region(self) -> OwnRegion:
        """The own set: the vectors of signs on the user's side."""
        d = self.dimension
        ties = comb(d, d // 2) if d % 2 == 0 else 0
        return OwnRegion("Duchi", self.epsilon, Fraction((1 << d) - ties, 1 << (d + 1)))

    @cached_property
    def values(self) -> BoxVector:
        return BoxVector("Duchi", self.dimension)

    @cached_property
    def law(self) -> RegionLaw:
        law = sign_law(self.region, self.dimension)
        return law if self.dimension % 2 else replace(law, attacked=(*law.attacked, self._crosswise_attack()))

    def _crosswise_attack(self) -> HidingPair:
        """Two opposite corners, where all others hold one with half of the signs of each.

        With u and v the sums of the signs of either half, the regions are u + v > 0, u + v < 0 and u > v. (u, v) has
        the same law with its two exchanged, or one of them negated, so that the first and the third share a quarter of
        all but those with |u| = |v|, and the second and the third as much.
        """
        half, whole = self.dimension // 2, 1 << self.dimension
        both_zero = comb(half, half // 2) ** 2 if half % 2 == 0 else 0
        equal = Fraction(2 * comb(self.dimension, half) - both_zero, whole)
        shared, share = (1 - equal) / 4, self.region.share
        shares: dict[Regions, Fraction] = {
            (True, False, True): shared,
            (True, False, False): share - shared,
            (False, True, True): shared,
            (False, True, False): share - shared,
            (False, False, True): share - 2 * shared,
            (False, False, False): 1 - 3 * share + 2 * shared,
        }
        return self.region.attack(shares, symmetric=True)

    @cached_property
    def wire(self) -> BitRowWire:
        return BitRowWire("Duchi", self.dimension)

    @cached_property
    def reading(self) -> SignRow:
        """The scale is 1/E[t_j·v_j]: over the own set, the sum of t·v is d·C(d−1, ⌊d/2⌋)."""
        d = self.dimension
        towards = Fraction(comb(d - 1, d // 2), 1 << d) / self.region.share
        scale = float(1 / ((1 - self.region.uniform_share) * towards))
        return SignRow(d, scale, scale**2)

    @cached_property
    def reference(self) -> UniformSigns:
        return UniformSigns(self.region, self._signs)

    @cached_property
    def _signs(self) -> SignVectors:
        return SignVectors(self.dimension)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        return np.concatenate([self._randomize(part, source) for part in self._signs.in_parts(values)])

    def _randomize(self, values: Array, source: RandomSource) -> Array:
        own = self._signs.rounded(values, source)
        drawn = self._uniform(source, len(values))
        waiting = np.flatnonzero(~source.coins(self.region.uniform_share, len(values)))
        while waiting.size:
            balance = self._signs.balance(drawn[waiting], own[waiting])
            drawn[waiting[balance < 0]] ^= self._signs.every_bit
            waiting = waiting[balance == 0]
            drawn[waiting] = self._uniform(source, len(waiting))
        return drawn

    def _uniform(self, source: RandomSource, rows: int) -> Bytes:
        width = self.message_bytes
        drawn = source.words(-(-rows * width // 8)).view(np.uint8)[: rows * width].reshape(rows, width)
        return np.asarray(drawn & self._signs.every_bit)

    def table(self) -> OutputTable:
        if self.dimension > MOST_COORDINATES_OF_A_TABLE:
            most = MOST_COORDINATES_OF_A_TABLE
            raise ValueError(f"Duchi: a table needs at most {most} coordinates, got {self.dimension}.")
        inputs, cube = table_inputs(self.dimension), list(itertools.product((-1, 1), repeat=self.dimension))
        messages = self._signs.packed(np.array(cube) > 0)
        low, high = self.region.outside / len(cube), self.region.inside / len(cube)
        laws = [[high if np.dot(t, v) > 0 else low for t in cube] for v in cube]
        rows = tuple(_mixture(_chances(vector, cube), laws) for vector in inputs.tolist())
        return OutputTable(inputs, messages, rows)

    @classmethod
    def examples(cls) -> Sequence[Duchi]:
        return [
            cls(epsilon=1.0, dimension=1),
            cls(epsilon=0.5, dimension=2),
            cls(epsilon=2.0, dimension=3),
            cls(epsilon=3.0, dimension=4),
        ]


def _chances(vector: Sequence[float], cube: Sequence[Sequence[int]]) -> list[Fraction]:
    """The probability of each vector of signs as the rounded vector; coordinates are multiples of 2^-52."""
    up = [(1 + Fraction(x)) / 2 for x in vector]
    return [prod((u if s > 0 else 1 - u for s, u in zip(v, up, strict=True)), start=Fraction(1)) for v in cube]


def _mixture(chances: Sequence[Fraction], laws: Sequence[Sequence[Fraction]]) -> tuple[Fraction, ...]:
    columns = zip(*laws, strict=True)
    return tuple(sum((a * b for a, b in zip(chances, column, strict=True)), Fraction(0)) for column in columns)
