"""Parts that mechanisms for means of vectors in the unit ball share: domain, encoding, estimator and proposals.

A value is a vector of length at most 1, of which only a direction is used. A vector of length ℓ below 1 counts as its
direction with probability (1+ℓ)/2, else as the opposite one, by an exact coin after ℓ is rounded to a multiple of
2^-52. A shorter vector's law is then a mixture of two directions' laws, and no easier to distinguish from another's.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp._core.validation import Array, Bytes, Floats, Words
from shuffledp.mechanisms.base.domain import InputDomain, check_reals
from shuffledp.mechanisms.base.encoding import Encoding, ValidRows
from shuffledp.mechanisms.base.error_laws import MeanErrorLaw
from shuffledp.mechanisms.base.estimator import Estimate, Estimator, Influence
from shuffledp.mechanisms.base.seed_compression import Proposal
from shuffledp.mechanisms.base.two_level_law import TwoLevelResponse
from shuffledp.numerics.ball_arithmetic import float_above
from shuffledp.sampling import rounding_and_digits
from shuffledp.sampling.noise import normals_from_words
from shuffledp.sampling.random_sources import RandomSource

LENGTH_TOLERANCE = 1e-6
"""Tolerance of lengths, as unit vectors of 32-bit floats may be slightly too long; they are taken at length 1."""
MIN_DIRECTION_LENGTH = 2.0**-1000
"""Vectors shorter than this are taken as 0, as their direction is uncertain."""
NUMBERS_AT_ONCE = 1 << 17
"""Number of coordinates processed at a time, to stay in the cache."""


@dataclass(frozen=True)
class UnitBall(InputDomain):
    """A vector of ``dimension`` numbers and length at most 1 per user."""

    error_prefix: str
    dimension: int

    def check(self, values: Any) -> Array:
        """Returns vectors of length at most 1; those that are slightly longer by rounding are normalized."""
        vectors = check_reals(self.error_prefix, values, -1.0 - LENGTH_TOLERANCE, 1.0 + LENGTH_TOLERANCE, axes=2)
        if vectors.shape[1] != self.dimension:
            raise ValueError(
                f"{self.error_prefix}: expected vectors of {self.dimension} numbers, got {vectors.shape[1]}."
            )
        length = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
        if length.max() > 1.0 + LENGTH_TOLERANCE:
            raise ValueError(f"{self.error_prefix}: vectors must have length at most 1, got {float(length.max())!r}.")
        return np.asarray(vectors / np.maximum(length, 1.0)[:, None])

    def audit_pair(self) -> Array:
        """Returns a direction and the opposite one."""
        first = np.zeros(self.dimension)
        first[0] = 1.0
        return np.stack([first, -first])


def split_directions(vectors: Floats) -> tuple[Floats, Floats]:
    """Returns unit vectors and lengths; the vector 0 has the direction of the first axis."""
    largest = np.abs(vectors).max(axis=1)
    nothing = largest < MIN_DIRECTION_LENGTH
    scaled = vectors / np.where(nothing, 1.0, largest)[:, None]
    scaled[nothing] = 0.0
    scaled[nothing, 0] = 1.0
    length = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
    scaled /= length[:, None]
    return scaled, np.where(nothing, 0.0, np.minimum(length * largest, 1.0))


def draw_directions(vectors: Floats, source: RandomSource) -> Floats:
    """Draws the direction of each vector, or the opposite one, so that the mean is the vector."""
    unit, length = split_directions(vectors)
    ahead = rounding_and_digits.coins(rounding_and_digits.signed_to_units(length), source)
    return np.asarray(unit * np.where(ahead, 1.0, -1.0)[:, None])


# --- Messages that are vectors of whole numbers ---


@dataclass(frozen=True)
class LatticeEncoding(Encoding):
    """Encodes a vector of whole numbers, each coordinate as a signed big-endian number."""

    error_prefix: str
    dimension: int
    coordinate_bytes: int
    largest: int
    """Largest absolute value of a coordinate."""

    def __post_init__(self) -> None:
        assert 0 < self.largest < 1 << 8 * self.coordinate_bytes - 1, "every coordinate fits into its bytes"

    @property
    def expected_format(self) -> str:
        return f"vectors of whole numbers up to {self.largest} in size"

    @property
    def bits(self) -> int:
        return 8 * self.coordinate_bytes * self.dimension

    def pack(self, messages: Array) -> Bytes:
        wire = np.ascontiguousarray(messages, dtype=f">i{self.coordinate_bytes}")
        return wire.view(np.uint8).reshape(len(wire), self.byte_length)

    def decode_rows(self, rows: Bytes) -> tuple[Array, ValidRows]:
        size = self.coordinate_bytes
        messages = np.ascontiguousarray(rows).view(f">i{size}").astype(f"i{size}")
        # The absolute value of the smallest number does not fit into this type.
        small = (messages >= -self.largest) & (messages <= self.largest)
        return messages, np.asarray(small.all(axis=1))


@dataclass(frozen=True)
class LatticeEstimator(Estimator):
    """Estimates from messages V/step of whole numbers; ``scale`` times V has the user's vector as its mean.

    ``step`` is the size of one step, a power of two; ``scale`` is 1/E⟨V, x⟩ for a unit vector x; E[V_j²] =
    ``second_moment_constant`` + ``second_moment_slope``·x_j², all rounding and noise of the message included, and
    E[V_j³] is 1/scale times p·x_j + q·x_j³, p and q the ``third_moment_coefficients``. No coordinate of a message
    exceeds ``largest`` in absolute value.
    """

    dimension: int
    step: float
    scale: float
    second_moment_constant: float
    second_moment_slope: float
    third_moment_coefficients: tuple[float, float]
    largest: int

    @property
    def squared_error(self) -> float:
        """The mean squared distance of one user's estimate from their unit vector."""
        return (self.dimension * self.second_moment_constant + self.second_moment_slope) * self.scale**2 - 1

    def accumulate(self, messages: Array) -> Array:
        """Returns the sums of the coordinates, exactly, and of their squares."""
        total = np.zeros((2, self.dimension))
        at_once = max(1, NUMBERS_AT_ONCE // self.dimension)
        for start in range(0, len(messages), at_once):
            part = messages[start : start + at_once].astype(np.float64)
            total[0] += part.sum(axis=0)
            total[1] += np.einsum("ij,ij->j", part, part)
        return total

    def finish(self, total: Array, users: int) -> Estimate:
        """Returns the mean; its variance from the squares is the largest, that of users who all hold the mean.

        Users with different vectors may send the same messages as users who all hold the mean and send one direction or
        the opposite one.
        """
        factor = self.step * self.scale
        value, square = np.asarray(total[0]) * (factor / users), np.asarray(total[1]) * (factor**2 / users)
        tails = self.error_law(square, users)
        return Estimate(value, tails.variance_at_means(np.clip(value, -1.0, 1.0)), users, tails)

    def error_law(self, square: Floats, users: int) -> MeanErrorLaw:
        """Returns the tails if the messages have these mean squares.

        They determine the mean u² of the users' directions, from 0 to 1, which is at least x² where x is the mean.
        """
        constant, slope = self.scale**2 * self.second_moment_constant, self.scale**2 * self.second_moment_slope
        directions = np.clip((square - constant) / slope, 0.0, 1.0) if slope else np.zeros_like(square)
        square, (first, third) = constant + slope * directions, self.third_moment_coefficients
        third_slope = self.scale**2 * (first + third * directions) - 3 * square
        law = MeanErrorLaw.from_messages(users, square, -1.0, third_slope)
        return law.with_min_variance(constant, min(slope - 1.0, 0.0))

    def mean_square(self, total: Array, users: int) -> Floats | None:
        return np.asarray(total[1]) * ((self.step * self.scale) ** 2 / users)

    def influence(self, messages: float) -> tuple[Influence, ...]:
        """Returns the influence of a user whose coordinates are as large as the encoding allows, at any length."""
        most = messages * self.largest * self.step * self.scale
        return (Influence(-most, most, -1.0, 1.0),)

    def truth(self, values: Array) -> Floats:
        return np.asarray(values.mean(axis=0))

    def variance(self, values: Array) -> Floats:
        unit, _ = split_directions(values)
        spread = self.scale**2 * (self.second_moment_constant + self.second_moment_slope * unit**2) - values**2
        return np.asarray(spread.mean(axis=0) / len(values))


def draw_in_batches(values: Floats, coordinate_bytes: int, draw: Callable[[Floats], Array]) -> Array:
    """Returns the messages of ``draw`` for the vectors, as many at a time as fit in the cache."""
    messages = np.empty(values.shape, dtype=f"i{coordinate_bytes}")
    at_once = max(1, NUMBERS_AT_ONCE // values.shape[1])
    for start in range(0, len(values), at_once):
        messages[start : start + at_once] = draw(values[start : start + at_once])
    return messages


# --- Proposals: vectors drawn independently of the input, of which those near the user's vector are preferred ---


COORDINATE_BYTES = 4


@dataclass(frozen=True)
class ProposalReport(Proposal):
    """With probability γ a vector of the proposal law, else one of those in the response set of the user's direction.

    The proposal law ρ is that of vectors of whole numbers computed from uniform words: a finite law that no input can
    change. Membership of a vector in the response set of a direction is a fixed function of the two, computed in float
    arithmetic. So the executed law is exactly γρ + (1−γ)·ρ(·|response set), whatever float arithmetic makes of ρ and
    of the sets; privacy only needs that no response set has a share below that of ``response``.

    ``share_error`` bounds the logarithm of the ratio between the largest and the smallest share of a response set.
    """

    response: TwoLevelResponse
    dimension: int
    step: float
    share_error: float = 0.0

    # --- proposal law ---

    @property
    def word_count(self) -> int:
        """Number of words, three for two coordinates."""
        return 3 * -(-self.dimension // 2)

    @abstractmethod
    def points_from_normal(self, normal: Floats) -> Floats:
        """Returns vectors in units of the step from standard normal numbers, which it may overwrite."""

    def draw_messages(self, words: Words) -> Array:
        """Returns vectors of the proposal law, one for each row of words."""
        points = self.points_from_normal(normals_from_words(words)[:, : self.dimension])
        return np.rint(points, out=points).astype(np.int32)

    def draw_proposals(self, source: RandomSource, rows: int) -> Array:
        """Draws fresh vectors of the proposal law."""
        return self.draw_messages(source.words(rows * self.word_count).reshape(rows, self.word_count))

    # --- encoding ---

    @abstractmethod
    def in_response_set(self, directions: Floats, messages: Array) -> NDArray[np.bool_]:
        """Returns whether each message is in the response set of the direction in the same row."""

    @abstractmethod
    def move_into_response_set(
        self, messages: Array, directions: Floats, chosen: NDArray[np.int64], source: RandomSource
    ) -> None:
        """Moves the chosen messages into their response sets, in place: each gets the law ρ(·|response set)."""

    def randomize(self, values: Floats, source: RandomSource) -> Array:
        """Returns the messages of checked vectors."""
        return draw_in_batches(values, COORDINATE_BYTES, partial(self._draw, source))

    def _draw(self, source: RandomSource, values: Floats) -> Array:
        directions = draw_directions(values, source)
        messages = self.draw_proposals(source, len(values))
        towards = ~source.coins(self.response.uniform_share, len(values))
        self.move_into_response_set(messages, directions, np.flatnonzero(towards), source)
        return messages

    # --- compression ---

    @property
    def ratio(self) -> float:
        """C ≥ R(x)(y)/ρ(y)."""
        return float_above(self.response.inside_density)

    @property
    def min_ratio(self) -> Fraction:
        return self.response.uniform_share

    @property
    def acceptance_error(self) -> float:
        """Error of ``acceptance``: in a response set larger than that of ``response`` the density is smaller."""
        return self.share_error

    def acceptance(self, values: Array, messages: Array) -> Floats:
        """Returns R(x)(y)/(C·ρ(y)), too large by up to a factor e^``share_error`` in the response set.

        Accepting y with this probability draws from the law in proportion to it, which has the local ``epsilon``: γ
        leaves room for that factor.
        """
        directions, length = split_directions(values)
        low = float(self.response.uniform_share / self.response.inside_density)
        result = np.where(self.in_response_set(directions, messages), 1.0, low)
        shorter = np.flatnonzero(length < 1.0)
        if shorter.size:
            behind = np.where(self.in_response_set(-directions[shorter], messages[shorter]), 1.0, low)
            part = length[shorter]
            result[shorter] = (1 + part) / 2 * result[shorter] + (1 - part) / 2 * behind
        return result


def heights(directions: Floats, messages: Array) -> Floats:
    """Returns ⟨V, x⟩ in steps, summed in the same order for every batching of the rows."""
    return np.asarray(np.add.reduce(messages * directions, axis=1))
