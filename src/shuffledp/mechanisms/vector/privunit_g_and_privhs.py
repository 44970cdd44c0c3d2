"""PrivUnitG, with normal vectors, and PrivHS, with half-spaces: means of vectors in the unit ball."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
from flint import arb
from numpy.typing import NDArray

from shuffledp._core import validation
from shuffledp._core.validation import Array, Floats, checked
from shuffledp.mechanisms.base.law import check_informative_epsilon
from shuffledp.mechanisms.base.mechanism import Mechanism, OutputTable
from shuffledp.mechanisms.base.two_level_law import TwoLevelLaw, TwoLevelResponse
from shuffledp.mechanisms.vector._unit_ball_parts import (
    COORDINATE_BYTES,
    LatticeEncoding,
    LatticeEstimator,
    ProposalReport,
    UnitBall,
    heights,
)
from shuffledp.mechanisms.vector.privunit import third_moment_coefficients
from shuffledp.numerics.ball_arithmetic import precision, round_up, to_rational
from shuffledp.sampling import random_sources
from shuffledp.sampling.random_sources import RandomSource
from shuffledp.sampling.spherical_caps_and_frames import Cap

# --- PrivHS: a point of the sphere on the user's side ---


HALF_SPACE_STEP = 2.0**-28


@dataclass(frozen=True)
class HalfSpaceProposal(ProposalReport):
    """Uniform points of the sphere; the response set of a direction is its half-space."""

    def points_from_normal(self, normal: Floats) -> Floats:
        normal *= (1 / (self.step * np.sqrt(np.add.reduce(normal * normal, axis=1))))[:, None]
        return normal

    def in_response_set(self, directions: Floats, messages: Array) -> NDArray[np.bool_]:
        height = heights(directions, messages)
        ahead = height > 0
        ties = np.flatnonzero(height == 0)
        if ties.size:
            ahead[ties] = _first_signs(messages[ties]) == _first_signs(directions[ties])
        return np.asarray(ahead)

    def move_into_response_set(
        self, messages: Array, directions: Floats, chosen: NDArray[np.int64], source: RandomSource
    ) -> None:
        behind = chosen[~self.in_response_set(directions[chosen], messages[chosen])]
        messages[behind] *= -1


@dataclass(frozen=True)
class PrivHS(Mechanism):
    """Draws a uniform point V of the sphere; reports it or, with probability 1−γ, that of V and −V on the user's side.

    A row of words and the row with flipped sign bits give V and −V, so both are equally likely, and exactly one of them
    is on the user's side: ⟨V, x⟩ > 0 as computed (float arithmetic flips its sign with V and with x), a 0 being decided
    by the first nonzero coordinates of V and x. Each response set is thus exactly one half, and that of −x the other
    half: the guarantee is exact, and attained.

    Theorem: [LC] Appendix C, PrivHS: p = q = e^ε, β = (e^ε−1)/(e^ε+1), scale (e^ε+1)/(e^ε−1)·√π·Γ((d+1)/2)/Γ(d/2).

    Args:
        epsilon: Local ε of every message.
        dimension: Number of coordinates d; a vector's length is at most 1.

    Raises:
        ValueError: If a parameter is out of range.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.PrivHS(epsilon=1.0, dimension=8)
    >>> mechanism.message_bits
    256
    >>> f"{mechanism.variation_ratio().beta:.4f}"
    '0.4621'
    >>> f"{sdp.amplify(mechanism, users=10_000).epsilon(delta=1e-6).upper:.4f}"
    '0.0357'
    """

    epsilon: float = field(metadata=checked(check_informative_epsilon))
    dimension: int = field(metadata=checked(validation.count, at_least=2))

    name = "privhs"
    task = "vector mean"
    summary = "mean of vectors in the unit ball: a point of the sphere on the vector's side; a seed can stand for it"
    use_case = "For vectors in the unit ball that are sent as a seed, at a small local ε."
    aliases = ("hemisphere",)
    has_table = False

    @cached_property
    def response(self) -> TwoLevelResponse:
        """The points on the user's side."""
        return TwoLevelResponse("PrivHS", self.epsilon, Fraction(1, 2))

    @cached_property
    def domain(self) -> UnitBall:
        return UnitBall("PrivHS", self.dimension)

    @cached_property
    def law(self) -> TwoLevelLaw:
        """The law; its attacks are a direction against the opposite one, where the others all hold the first, or 0."""
        half = self.response.share
        attacked = (self.response.disjoint_attack(), self.response.disjoint_attack((half, half, 1 - 2 * half)))
        return TwoLevelLaw.from_disjoint(self.response, attacked=attacked, tight=True)

    @cached_property
    def encoding(self) -> LatticeEncoding:
        return LatticeEncoding("PrivHS", self.dimension, COORDINATE_BYTES, int(1 / HALF_SPACE_STEP) + 1)

    @cached_property
    def estimator(self) -> LatticeEstimator:
        """The estimator; E|⟨V, x⟩| is the mean height of the upper half of the sphere."""
        half = Cap(self.dimension, 0.0)
        scale = 1 / (float(1 - self.response.uniform_share) * half.moments[0])
        return LatticeEstimator(
            self.dimension,
            HALF_SPACE_STEP,
            scale,
            1 / self.dimension,
            0.0,
            third_moment_coefficients(half),
            self.encoding.largest,
        )

    @cached_property
    def proposal(self) -> HalfSpaceProposal:
        return HalfSpaceProposal(self.response, self.dimension, HALF_SPACE_STEP)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        """Returns one point per user, a row of whole numbers in steps."""
        return self.proposal.randomize(values, source)

    def table(self) -> OutputTable:
        raise ValueError("PrivHS: vectors of many digits cannot be written down as a table.")

    @classmethod
    def examples(cls) -> Sequence[PrivHS]:
        return [cls(epsilon=1.0, dimension=2), cls(epsilon=3.0, dimension=5), cls(epsilon=0.5, dimension=64)]


def _first_signs(rows: Array) -> NDArray[np.bool_]:
    """Returns whether the first nonzero number of each row is positive."""
    return np.asarray(rows[np.arange(len(rows)), (rows != 0).argmax(axis=1)] > 0)


SHARE_BITS = 128
MAX_EXPONENT = 100.0
HALVINGS = 60
NO_ATTACK_REASON = (
    "its vectors are computed in floats, so the probability that one reaches the height is known only approximately."
)
MAX_HEIGHT = 3.4
"""Largest height: a response set has at least 1/3000 of all vectors, so they can be found by rejection."""
LENGTH_MARGIN = 12
"""A normal vector is longer than √d + 12 with probability below e^-72."""
GAUSSIAN_STEP = 2.0**-27
MAX_NORMAL = 13.0
"""Larger than any normal number from a word of 104 digits: √(2·104·log 2) < 12.01."""


@dataclass(frozen=True)
class NormalProposal(ProposalReport):
    """Normal vectors; the response set of a direction is those that reach the ``height`` in it."""

    height: float = 0.0

    def points_from_normal(self, normal: Floats) -> Floats:
        normal *= 1 / self.step
        return normal

    def in_response_set(self, directions: Floats, messages: Array) -> NDArray[np.bool_]:
        return np.asarray(heights(directions, messages) >= self.height / self.step)

    def move_into_response_set(
        self, messages: Array, directions: Floats, chosen: NDArray[np.int64], source: RandomSource
    ) -> None:
        while chosen.size:
            chosen = chosen[~self.in_response_set(directions[chosen], messages[chosen])]
            messages[chosen] = self.draw_proposals(source, chosen.size)


# --- PrivUnitG ---


@dataclass(frozen=True)
class PrivUnitG(Mechanism):
    """Reports a vector V of d standard normal numbers, often one with ⟨V, x⟩ ≥ height, which is found by rejection.

    A share q = P(N ≥ height) of real normal vectors is in every response set. The executed finite law is close to
    theirs: but for an event of probability below d·2^-51 + e^-72, V is within √d·2^-28 + (√d + 12)·2^-43 of a real
    normal vector, and the computed height within as much and its own rounding. So each response set's share is between
    P(N ≥ height + t) and P(N ≥ height − t), up to that probability; the certified lower end is ``response.share``.

    The height minimizes the error: m = φ(h)(e^ε−1)/(1+q(e^ε−1)) is largest at h = m.

    Theorem: [LC] Appendix C, PrivUnitG: C_x ≤ ρ/s as in ``CapReport``; error (E|V|²)/m² − 1.
    Deviates: h at most 3.4, which binds from about ε = 8.9 on.

    Args:
        epsilon: Local ε of every message.
        dimension: Number of coordinates d; a vector's length is at most 1.

    Raises:
        ValueError: If a parameter is out of range, or ε is below the error of float arithmetic.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.PrivUnitG(epsilon=4.0, dimension=16)
    >>> f"{mechanism.height:.3f}"
    '1.516'
    >>> mechanism.message_bits, sdp.Compressed(mechanism, prg="shake128").message_bits
    (512, 128)
    """

    epsilon: float = field(metadata=checked(check_informative_epsilon))
    dimension: int = field(metadata=checked(validation.count, at_least=2))

    name = "privunit-g"
    task = "vector mean"
    summary = "mean of vectors in the unit ball: a normal vector near the vector; a seed can stand for it"
    use_case = "For vectors in the unit ball that are sent as a seed."
    aliases = ("privunitg",)
    has_table = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epsilon <= 4 * self.share_error:
            raise ValueError(
                f"PrivUnitG: epsilon must be above {4 * self.share_error:.3g} for {self.dimension} numbers, "
                f"or float arithmetic would drown it, got {self.epsilon!r}."
            )

    @cached_property
    def height(self) -> float:
        """The height in standard deviations."""
        return min(MAX_HEIGHT, _best_height(self.epsilon))

    @cached_property
    def share_error(self) -> float:
        """A bound of the logarithm of the ratio between the largest and the smallest share of a response set."""
        with precision(SHARE_BITS):
            return round_up((self._share(-1) / self._share(1)).log())

    def _share(self, side: int) -> arb:
        """Returns a lower (side 1) or upper (side −1) bound of a response set's share."""
        root = arb(self.dimension).sqrt()
        distance = root * arb(2) ** -28 + (root + LENGTH_MARGIN) * (arb(2) ** -43 + self.dimension * arb(2) ** -52)
        tail = ((arb(to_rational(self.height)) + side * distance) / arb(2).sqrt()).erfc() / 2
        return tail - side * (self.dimension * arb(2) ** -51 + arb(-72).exp())

    @cached_property
    def response(self) -> TwoLevelResponse:
        """The vectors that reach the height; γ has room for laws in proportion to ``acceptance``."""
        share = random_sources.round_down_to_multiple(lambda: self._share(1), SHARE_BITS)
        exact, less = to_rational(share), min(self.epsilon, MAX_EXPONENT) - 2 * self.share_error
        gamma = random_sources.round_up_to_multiple(lambda: 1 / (1 + arb(exact) * (arb(less).exp() - 1)))
        return TwoLevelResponse("PrivUnitG", self.epsilon, share, gamma)

    @cached_property
    def domain(self) -> UnitBall:
        return UnitBall("PrivUnitG", self.dimension)

    @cached_property
    def law(self) -> TwoLevelLaw:
        return TwoLevelLaw.from_disjoint(self.response, why_no_attack=NO_ATTACK_REASON)

    @cached_property
    def encoding(self) -> LatticeEncoding:
        return LatticeEncoding("PrivUnitG", self.dimension, COORDINATE_BYTES, int(MAX_NORMAL / GAUSSIAN_STEP))

    @cached_property
    def estimator(self) -> LatticeEstimator:
        """The estimator, by the moments of a normal number N that reaches the height h.

        E[N | N ≥ h] = φ(h)/q, E[N² | N ≥ h] = 1 + h·φ(h)/q and E[N³ | N ≥ h] = (h² + 2)·φ(h)/q. Across x, V is normal:
        E[V_j³] = x³·E[N³] + 3x(1 − x²)·E[N] for vectors that reach the height.
        """
        share = math.erfc(self.height / math.sqrt(2)) / 2
        mean_height = math.exp(-(self.height**2) / 2) / math.sqrt(2 * math.pi) / share
        informative = float(1 - self.response.uniform_share)
        along = informative * self.height * mean_height
        scale, cubes = 1 / (informative * mean_height), (3.0, self.height**2 - 1)
        return LatticeEstimator(self.dimension, GAUSSIAN_STEP, scale, 1.0, along, cubes, self.encoding.largest)

    @cached_property
    def proposal(self) -> NormalProposal:
        return NormalProposal(self.response, self.dimension, GAUSSIAN_STEP, self.share_error, self.height)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        """Returns one vector per user, a row of whole numbers in steps."""
        return self.proposal.randomize(values, source)

    def table(self) -> OutputTable:
        raise ValueError("PrivUnitG: vectors of many digits cannot be written down as a table.")

    @classmethod
    def examples(cls) -> Sequence[PrivUnitG]:
        return [cls(epsilon=1.0, dimension=2), cls(epsilon=3.0, dimension=5), cls(epsilon=0.5, dimension=64)]


def _best_height(epsilon: float) -> float:
    """Returns the h with h = φ(h)(e^ε−1)/(1+q(e^ε−1)), by bisection; any height keeps the guarantee."""
    excess = math.expm1(min(epsilon, MAX_EXPONENT))
    low, high = 0.0, 40.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        share = math.erfc(middle / math.sqrt(2)) / 2
        gain = math.exp(-(middle**2) / 2) / math.sqrt(2 * math.pi) * excess / (1 + share * excess)
        low, high = (low, middle) if middle > gain else (middle, high)
    return low
