"""Duchi et al.'s mechanism and Harmony: means of vectors in [−1, 1]^d from signs of all coordinates, or of one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import comb, prod

import numpy as np
from numpy.typing import NDArray

from shuffledp._core import validation
from shuffledp._core.validation import Array, Bytes, Floats, Integers, Words, checked
from shuffledp.mechanisms.base.domain import BoxVector
from shuffledp.mechanisms.base.encoding import BitRowEncoding, WholeNumberEncoding
from shuffledp.mechanisms.base.error_laws import MeanErrorLaw
from shuffledp.mechanisms.base.estimator import Estimate, Estimator, Influence
from shuffledp.mechanisms.base.law import check_informative_epsilon
from shuffledp.mechanisms.base.mechanism import Mechanism, OutputTable
from shuffledp.mechanisms.base.seed_compression import UniformProposal
from shuffledp.mechanisms.base.two_level_law import SetMembership, TwoLevelLaw, TwoLevelResponse
from shuffledp.privacy.dominating_pairs import HidingPair
from shuffledp.sampling import bits_and_subsets, rounding_and_digits
from shuffledp.sampling.random_sources import RandomSource

# --- Estimator and law of messages that are signs ---
#
# Coordinates are first rounded to the nearest multiple of 2^-52, then to ±1 with that mean, by an exact coin.


@dataclass(frozen=True)
class SignEstimator(Estimator):
    """Estimates the mean from a sign, or 0, per coordinate; ``scale`` times a message has the user's vector as mean.

    ``second_moment`` is the mean square of each coordinate of a scaled message, for every value.
    """

    dimension: int
    scale: float
    second_moment: float

    def finish(self, total: Array, users: int) -> Estimate:
        """Returns the mean from the sum of the signs, and the largest variance, of users who all hold the mean."""
        value = np.asarray(total, dtype=np.float64) * (self.scale / users)
        variance = (self.second_moment - np.clip(value, -1.0, 1.0) ** 2) / users
        return Estimate(value, variance, users, self.error_law(users))

    def error_law(self, users: int) -> MeanErrorLaw:
        """Returns the tails; a message adds ±scale or nothing, so its mean cube is scale² times its mean.

        If all messages have a sign, flipping one moves the sum by 2.
        """
        third_slope, step = self.scale**2 - 3 * self.second_moment, self.scale / users
        steps = (step, 0.0) if self.has_zeros else (2 * step, -self.scale)
        return MeanErrorLaw.from_messages(users, self.second_moment, -1.0, third_slope, *steps)

    @property
    def has_zeros(self) -> bool:
        """True if a message has no sign for some coordinates."""
        return self.dimension > 1

    def for_endpoint_values(self, estimate: Estimate) -> Estimate:
        """Returns the estimate for values ±1: their squares are 1, not the square of their mean, whoever answered."""
        excess = (1 - np.clip(estimate.value, -1.0, 1.0) ** 2) / estimate.users
        tails = (
            estimate.error_law.for_endpoint_values()
            if isinstance(estimate.error_law, MeanErrorLaw)
            else estimate.error_law
        )
        return replace(estimate, variance=np.maximum(estimate.variance - excess, 0.0), error_law=tails)

    def mean_square(self, total: Array, users: int) -> Floats | None:
        return np.full(self.dimension, self.second_moment)

    def influence(self, messages: float) -> tuple[Influence, ...]:
        """Returns the influence of a user whose messages all have the same sign at a coordinate."""
        return (Influence(-messages * self.scale, messages * self.scale, -1.0, 1.0),)

    def truth(self, values: Array) -> Floats:
        return np.asarray(values.mean(axis=0))

    def variance(self, values: Array) -> Floats:
        return np.asarray((self.second_moment - (values**2).mean(axis=0)) / len(values))


@dataclass(frozen=True)
class SignVectorEstimator(SignEstimator):
    """Estimates from rows of packed bits, 1 for +."""

    @property
    def has_zeros(self) -> bool:
        return False

    def accumulate(self, messages: Array) -> Array:
        """Returns the sum of the signs of each coordinate."""
        return np.asarray(2 * bits_and_subsets.column_sums(messages, self.dimension) - len(messages))


@dataclass(frozen=True)
class SingleSignEstimator(SignEstimator):
    """Estimates from messages 2j + 1 for coordinate j with sign +, 2j with sign −; the other coordinates are 0."""

    def accumulate(self, messages: Array) -> Array:
        """Returns the sum of the signs of each coordinate."""
        counts = np.bincount(messages, minlength=2 * self.dimension)
        return np.asarray(counts[1::2] - counts[::2])


def sign_law(region: TwoLevelResponse, dimension: int) -> TwoLevelLaw:
    """Returns the law; in its attacks all others hold the first of the two inputs, or 0 and so send uniform signs.

    With one coordinate there are two messages, and the ends of [−1, 1] are the extreme inputs.
    """
    share, least = region.share, region.uniform_share / 2
    return TwoLevelLaw(
        region, share, attack_pairs=(region.disjoint_attack(), region.disjoint_attack((share, share, 1 - 2 * share))),
        binary_extremes=(least, 1 - least) if dimension == 1 else None, tight=True, covers_mixtures=True,
        space_key=(region.error_prefix, dimension),
    )  # fmt: skip


def table_inputs(dimension: int) -> Array:
    """Returns both ends of a diagonal, a third corner, and three vectors between, all in multiples of 2^-52."""
    ones = np.ones(dimension)
    signs = np.where(np.arange(dimension) % 2, -1.0, 1.0)
    mixed = np.resize([0.3125, -0.75, 2.0**-50, 1.0 - 2.0**-52], dimension)
    return np.array([ones, -ones, signs, 0 * ones, mixed, signs / 2])


COINS_AT_ONCE = 1 << 17
MAX_DUCHI_TABLE_DIMENSION = 8
MAX_DIMENSION = 1 << 17
"""Largest dimension: probabilities are exact, with as many binary digits as there are coordinates."""


@dataclass(frozen=True)
class SignVectors:
    """Vectors of signs as rows of packed bits, 1 for +."""

    dimension: int

    @property
    def row_bytes(self) -> int:
        return -(-self.dimension // 8)

    def pack(self, signs: NDArray[np.bool_]) -> Bytes:
        padded = np.zeros((len(signs), 8 * self.row_bytes), dtype=np.bool_)
        padded[:, : self.dimension] = signs
        return np.packbits(padded.reshape(-1), bitorder="little").reshape(len(signs), self.row_bytes)

    @cached_property
    def all_ones(self) -> Bytes:
        return self.pack(np.ones((1, self.dimension), dtype=np.bool_)).reshape(-1)

    def iterate_batches(self, values: Array) -> Iterator[Array]:
        """Yields as many vectors at a time as fit in the cache."""
        at_once = max(1, COINS_AT_ONCE // self.dimension)
        return (values[start : start + at_once] for start in range(0, len(values), at_once))

    def round_to_signs(self, values: Array, source: RandomSource) -> Bytes:
        """Rounds each coordinate to a sign of the same mean."""
        return self.pack(rounding_and_digits.coins(rounding_and_digits.signed_to_units(values), source))

    def inner_products(self, drawn: Bytes, own: Bytes) -> Integers:
        """Returns t·v for each row."""
        differ = np.bitwise_count(drawn ^ own).sum(axis=1, dtype=np.int64)
        return np.asarray(self.dimension - 2 * differ)

    def __call__(self, own: Array, messages: Array) -> NDArray[np.bool_]:
        """Returns whether t·v > 0, for each row."""
        return np.asarray(self.inner_products(messages, own) > 0)


@dataclass(frozen=True)
class UniformSignsProposal(UniformProposal):
    """The uniform law on vectors of signs; a value is rounded to signs once, before any seed is tried."""

    in_response_set: SignVectors

    @property
    def word_count(self) -> int:
        return -(-self.in_response_set.dimension // 64)

    def draw_messages(self, words: Words) -> Array:
        rows = words.astype("<u8").view(np.uint8)[:, : self.in_response_set.row_bytes]
        return np.asarray(rows & self.in_response_set.all_ones)

    def draw_latent_inputs(self, values: Array, source: RandomSource) -> Array:
        return np.concatenate(
            [self.in_response_set.round_to_signs(part, source) for part in self.in_response_set.iterate_batches(values)]
        )


@dataclass(frozen=True)
class Duchi(Mechanism):
    """Reports a vector of signs t, more likely if t·v > 0, where v is the user's vector rounded to signs.

    The response set is {t : t·v > 0}, N₊ of the 2^d vectors: 2^(d−1) of them for odd d, fewer for even d by half the
    ties. To draw from it, draw t from all, negate it if t·v < 0, and redraw if t·v = 0: all vectors of the set are
    equally likely. Nothing is enumerated.

    A message is a row of packed bits, 1 for +, which is also its encoding: coordinate j is bit j mod 8 of byte j div 8.

    Theorem: [VR] Table 5, Duchi et al.: p = q = e^ε, β = (e^ε−1)N₊/(e^ε·N₊ + 2^d − N₊); (e^ε−1)/(e^ε+1) for odd d.
    Deviates: ties t·v = 0 (even d) have the low weight. With ties in both halves, as often described, the ratio would
    be e^ε + 1.

    Args:
        epsilon: Local ε of every message.
        dimension: Number of coordinates d, each from −1 to 1.

    Raises:
        ValueError: If a parameter is out of range.

    >>> import numpy as np, shuffledp as sdp
    >>> mechanism = sdp.Duchi(epsilon=2.0, dimension=3)
    >>> mechanism.message_bits
    3
    >>> vectors = np.tile([0.5, -0.5, 0.0], (20_000, 1))
    >>> found = mechanism.estimate(mechanism.encode(vectors, rng=np.random.default_rng(1)))
    >>> bool((abs(found.value - vectors[0]) < 5 * found.standard_error).all())
    True
    """

    epsilon: float = field(metadata=checked(check_informative_epsilon))
    dimension: int = field(metadata=checked(validation.count, at_most=MAX_DIMENSION))

    name = "duchi"
    task = "vector mean"
    summary = "vector mean: signs of all coordinates, turned towards the user's vector"
    use_case = "For vectors whose every coordinate is between −1 and 1, of few dimensions."
    aliases = ("duchi-vector",)

    @cached_property
    def response(self) -> TwoLevelResponse:
        """The vectors of signs on the user's side."""
        d = self.dimension
        ties = comb(d, d // 2) if d % 2 == 0 else 0
        return TwoLevelResponse("Duchi", self.epsilon, Fraction((1 << d) - ties, 1 << (d + 1)))

    @cached_property
    def domain(self) -> BoxVector:
        return BoxVector("Duchi", self.dimension)

    @cached_property
    def law(self) -> TwoLevelLaw:
        law = sign_law(self.response, self.dimension)
        return law if self.dimension % 2 else replace(law, attack_pairs=(*law.attack_pairs, self._crosswise_attack()))

    def _crosswise_attack(self) -> HidingPair:
        """Returns two opposite corners where all others hold one with half of the signs of each.

        With u and v the sums of the signs of either half, the regions are u + v > 0, u + v < 0 and u > v. The law of
        (u, v) does not change if u and v are exchanged, or one of them is negated. So the first and the third region
        share a quarter of all vectors but those with |u| = |v|, and so do the second and the third.
        """
        half, whole = self.dimension // 2, 1 << self.dimension
        both_zero = comb(half, half // 2) ** 2 if half % 2 == 0 else 0
        equal = Fraction(2 * comb(self.dimension, half) - both_zero, whole)
        shared, share = (1 - equal) / 4, self.response.share
        shares: dict[SetMembership, Fraction] = {
            (True, False, True): shared,
            (True, False, False): share - shared,
            (False, True, True): shared,
            (False, True, False): share - shared,
            (False, False, True): share - 2 * shared,
            (False, False, False): 1 - 3 * share + 2 * shared,
        }
        return self.response.attack(shares, symmetric=True)

    @cached_property
    def encoding(self) -> BitRowEncoding:
        return BitRowEncoding("Duchi", self.dimension)

    @cached_property
    def estimator(self) -> SignVectorEstimator:
        """The estimator, with scale 1/E[t_j·v_j]: over the response set, the sum of t·v is d·C(d−1, ⌊d/2⌋)."""
        d = self.dimension
        towards = Fraction(comb(d - 1, d // 2), 1 << d) / self.response.share
        scale = float(1 / ((1 - self.response.uniform_share) * towards))
        return SignVectorEstimator(d, scale, scale**2)

    @cached_property
    def proposal(self) -> UniformSignsProposal:
        return UniformSignsProposal(self.response, self._signs)

    @cached_property
    def _signs(self) -> SignVectors:
        return SignVectors(self.dimension)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        """Returns one vector of signs per user, a row of packed bits."""
        return np.concatenate([self._randomize(part, source) for part in self._signs.iterate_batches(values)])

    def _randomize(self, values: Array, source: RandomSource) -> Array:
        own = self._signs.round_to_signs(values, source)
        drawn = self._draw_uniform(source, len(values))
        waiting = np.flatnonzero(~source.coins(self.response.uniform_share, len(values)))
        while waiting.size:
            balance = self._signs.inner_products(drawn[waiting], own[waiting])
            drawn[waiting[balance < 0]] ^= self._signs.all_ones
            waiting = waiting[balance == 0]
            drawn[waiting] = self._draw_uniform(source, len(waiting))
        return drawn

    def _draw_uniform(self, source: RandomSource, rows: int) -> Bytes:
        width = self.message_bytes
        drawn = source.words(-(-rows * width // 8)).view(np.uint8)[: rows * width].reshape(rows, width)
        return np.asarray(drawn & self._signs.all_ones)

    def table(self) -> OutputTable:
        if self.dimension > (most := MAX_DUCHI_TABLE_DIMENSION):
            raise ValueError(f"Duchi: a table needs at most {most} coordinates, got {self.dimension}.")
        inputs, cube = table_inputs(self.dimension), list(itertools.product((-1, 1), repeat=self.dimension))
        messages = self._signs.pack(np.array(cube) > 0)
        low, high = self.response.outside_density / len(cube), self.response.inside_density / len(cube)
        laws = [[high if np.dot(t, v) > 0 else low for t in cube] for v in cube]
        rows = tuple(_mixture(_rounding_probabilities(vector, cube), laws) for vector in inputs.tolist())
        return OutputTable(inputs, messages, rows)

    @classmethod
    def examples(cls) -> Sequence[Duchi]:
        return [
            cls(epsilon=1.0, dimension=1),
            cls(epsilon=0.5, dimension=2),
            cls(epsilon=2.0, dimension=3),
            cls(epsilon=3.0, dimension=4),
        ]


def _rounding_probabilities(vector: Sequence[float], cube: Sequence[Sequence[int]]) -> list[Fraction]:
    """Returns the probability of each vector of signs after rounding; coordinates are multiples of 2^-52."""
    up = [(1 + Fraction(x)) / 2 for x in vector]
    return [prod((u if s > 0 else 1 - u for s, u in zip(v, up, strict=True)), start=Fraction(1)) for v in cube]


def _mixture(chances: Sequence[Fraction], laws: Sequence[Sequence[Fraction]]) -> tuple[Fraction, ...]:
    columns = zip(*laws, strict=True)
    return tuple(sum((a * b for a, b in zip(chances, column, strict=True)), Fraction(0)) for column in columns)


# --- Harmony: one coordinate ---


MAX_HARMONY_TABLE_DIMENSION = 100


@dataclass(frozen=True)
class Harmony(Mechanism):
    """Reports the sign of one coordinate, drawn uniformly, through randomized response.

    A message is 2j + 1 for coordinate j with sign +, 2j with sign −. The response set is {(j, v_j)}: one of the two
    signs for each coordinate, v the vector rounded to signs.

    Theorem: [VR] Table 5, Harmony: p = q = e^ε, β = (e^ε−1)/(e^ε+1).

    Args:
        epsilon: Local ε of every message.
        dimension: Number of coordinates d, each from −1 to 1.

    Raises:
        ValueError: If a parameter is out of range.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.Harmony(epsilon=2.0, dimension=100)
    >>> mechanism.message_bits, sdp.Duchi(epsilon=2.0, dimension=100).message_bits
    (8, 100)
    >>> mechanism.variation_ratio() == sdp.Harmony(epsilon=2.0, dimension=5).variation_ratio()
    True
    """

    epsilon: float = field(metadata=checked(check_informative_epsilon))
    dimension: int = field(metadata=checked(validation.count))

    name = "harmony"
    task = "vector mean"
    summary = "vector mean: the sign of one random coordinate"
    use_case = "For vectors of many coordinates between −1 and 1, one bit and an index each."
    aliases = ("hm",)

    @cached_property
    def response(self) -> TwoLevelResponse:
        """The true sign of each coordinate, half of all messages."""
        return TwoLevelResponse("Harmony", self.epsilon, Fraction(1, 2))

    @cached_property
    def domain(self) -> BoxVector:
        return BoxVector("Harmony", self.dimension)

    @cached_property
    def law(self) -> TwoLevelLaw:
        return sign_law(self.response, self.dimension)

    @cached_property
    def encoding(self) -> WholeNumberEncoding:
        return WholeNumberEncoding("Harmony", 2 * self.dimension)

    @cached_property
    def estimator(self) -> SingleSignEstimator:
        scale = float(self.dimension / (1 - self.response.uniform_share))
        return SingleSignEstimator(self.dimension, scale, scale**2 / self.dimension)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        """Returns one message 2·coordinate + sign per user."""
        users = len(values)
        chosen = source.integers_below(self.dimension, users)
        units = rounding_and_digits.signed_to_units(values[np.arange(users), chosen])
        fair = source.integers_below(2, users).astype(np.bool_)
        sign = np.where(
            source.coins(self.response.uniform_share, users), fair, rounding_and_digits.coins(units, source)
        )
        return np.asarray(2 * chosen + sign)

    def table(self) -> OutputTable:
        if self.dimension > (most := MAX_HARMONY_TABLE_DIMENSION):
            raise ValueError(f"Harmony: a table needs at most {most} coordinates, got {self.dimension}.")
        inputs = table_inputs(self.dimension)
        rows = tuple(
            tuple(self._chance(Fraction(x), sign) for x in vector.tolist() for sign in (-1, 1)) for vector in inputs
        )
        return OutputTable(inputs, np.arange(2 * self.dimension), rows)

    def _chance(self, x: Fraction, sign: int) -> Fraction:
        """Returns the probability of one coordinate with one sign if the vector has x there, a multiple of 2^-52."""
        return (1 + sign * x * (1 - self.response.uniform_share)) / (2 * self.dimension)

    @classmethod
    def examples(cls) -> Sequence[Harmony]:
        return [cls(epsilon=1.0, dimension=1), cls(epsilon=0.5, dimension=3), cls(epsilon=4.0, dimension=8)]
