"""Noise laws of metric privacy: total variation as a function of the distance of two inputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from flint import arb

from shuffledp._core import validation
from shuffledp._core.validation import Floats
from shuffledp.numerics.ball_arithmetic import precision, round_up
from shuffledp.privacy.metric_space import (
    TRIANGLE_TOLERANCE,
    Space,
)

NOISE_BITS = 256


class MetricNoise(ABC):
    """Noise whose total variation β between two inputs is a function of their distance."""

    name: ClassVar[str]
    dimension: ClassVar[int | None] = None
    """Dimension of the points it is added to, with Euclidean distances; None if the inputs may be anything."""

    def check_space(self, who: str, space: Space) -> None:
        """Raises ValueError, which names a noise that fits, unless this noise is added to the points of the space."""
        if self.dimension in (None, space.dimension):
            return
        expected = f"{who}: {self.name} noise is for {_describe_points(self.dimension)}"
        if space.dimension is None:
            raise ValueError(
                f"{expected}, got distances that do not say where the inputs lie; give the points, or take the noise "
                f"{AnyNoise.name!r}."
            )
        serving = [kind.name for kind in PARAMETERLESS_NOISES if kind.dimension == space.dimension]
        remedy = f"take {serving[0]!r} or {AnyNoise.name!r}" if serving else f"only {AnyNoise.name!r} serves those"
        raise ValueError(f"{expected}, got {_describe_points(space.dimension)}; {remedy}.")

    def total_variation(self, distance: float) -> float:
        """Returns β at this distance, rounded up, and never above tanh(d/2), which holds for any private randomizer."""
        if distance == 0.0:
            return 0.0
        with precision(NOISE_BITS):
            # Not the minimum of two balls: a wide one would spoil the other.
            return min(round_up(self._total_variation_ball(arb(distance))), round_up((arb(distance) / 2).tanh()))

    def estimate_total_variations(self, distances: Floats) -> Floats:
        """Returns β at many positive distances in floats, for searching."""
        return np.minimum(self._total_variation_floats(distances), np.tanh(distances / 2))

    @abstractmethod
    def _total_variation_ball(self, distance: arb) -> arb:
        """Returns β as a ball at the working precision."""

    @abstractmethod
    def _total_variation_floats(self, distances: Floats) -> Floats:
        """Returns β in floats."""


@dataclass(frozen=True)
class AnyNoise(MetricNoise):
    """Any randomizer that is private for the distance.

    Theorem: [VR] Table 2, general metric randomizer: β = tanh(d/2).
    """

    name = "any"

    def _total_variation_ball(self, distance: arb) -> arb:
        return (distance / 2).tanh()

    def _total_variation_floats(self, distances: Floats) -> Floats:
        return np.tanh(distances / 2)


@dataclass(frozen=True)
class LineLaplaceNoise(MetricNoise):
    """Laplace noise on the line, not on each coordinate of a point.

    Theorem: [VR] Table 2, Laplace: β = 1 − e^(−d/2).
    Requires: points of one coordinate.
    """

    name = "laplace"
    dimension = 1

    def _total_variation_ball(self, distance: arb) -> arb:
        return -(-distance / 2).expm1()

    def _total_variation_floats(self, distances: Floats) -> Floats:
        return np.asarray(-np.expm1(-distances / 2))


@dataclass(frozen=True)
class PlanarLaplaceNoise(MetricNoise):
    """Planar Laplace noise: density in proportion to e^(−Euclidean distance).

    Theorem: [VR] Table 2, planar Laplace, in closed form: β = (2/π)(∫₀ˣ K0 − x·K0(x)), x = d/2.
    Requires: points of two coordinates, in a plane.
    Returns: a certified upper bound, with ∫₀ˣ K0 = (πx/2)(K0(x)L₋₁(x) + K1(x)L0(x)), L the modified Struve functions.
    """

    name = "planar-laplace"
    dimension = 2

    def _total_variation_ball(self, distance: arb) -> arb:
        x = distance / 2
        bessel0, bessel1 = x.bessel_k(arb(0)), x.bessel_k(arb(1))
        square, half = x * x / 4, arb(1) / 2
        struve0 = 2 * x / arb.pi() * square.hypgeom([arb(1)], [3 * half, 3 * half])
        struve_before = 2 / arb.pi() * square.hypgeom([arb(1)], [3 * half, half])
        integral = arb.pi() * x / 2 * (bessel0 * struve_before + bessel1 * struve0)
        result = 2 / arb.pi() * (integral - x * bessel0)
        return result if result.is_finite() else arb(1)

    def _total_variation_floats(self, distances: Floats) -> Floats:
        from scipy.special import iti0k0, k0

        x = distances / 2
        return np.asarray(2 / np.pi * (iti0k0(x)[1] - x * k0(x)))


@dataclass(frozen=True)
class WitchHatNoise(MetricNoise):
    """The WitchHat on [−B, B] with level m and scale F; the distance is min(2|a − b|/F, m).

    Theorem: [VR] Table 2, WitchHat: β = [F(1−e^(−D/F)) − D·e^(−m)]/[F(1−e^(−m)) + 2B·e^(−m)], D = min(|a−b|, mF).
    Requires: points of one coordinate, none farther apart than two numbers of the interval can be.
    Deviates: the printed β is wrong (docs/errata.md, MD-7); at the full level the inputs are taken as far apart as
    possible.
    """

    half_width: float = field(metadata=validation.checked(validation.positive_finite))
    level: float = field(metadata=validation.checked(validation.positive_finite))
    scale: float = field(metadata=validation.checked(validation.positive_finite))

    name = "witch-hat"
    dimension = 1

    def __post_init__(self) -> None:
        validation.check_fields(self)

    def check_space(self, who: str, space: Space) -> None:
        super().check_space(who, space)
        largest = min(4 * self.half_width / self.scale, self.level)
        if space.diameter > largest * (1 + TRIANGLE_TOLERANCE):
            raise ValueError(
                f"{who}: two numbers under this {self.name} noise are at most ε = {largest!r} apart, got a space whose "
                f"largest distance is ε = {space.diameter!r}; take a wider hat or a cap."
            )

    def _total_variation_ball(self, distance: arb) -> arb:
        width, level, scale = arb(self.half_width), arb(self.level), arb(self.scale)
        gap = (2 * width).min(level * scale)
        if distance < level:
            gap = gap.min(distance * scale / 2)
        brim = (-level).exp()
        norm = scale * (1 - brim) + 2 * width * brim
        return (scale * (1 - (-gap / scale).exp()) - gap * brim) / norm

    def _total_variation_floats(self, distances: Floats) -> Floats:
        most = min(2 * self.half_width, self.level * self.scale)
        gap = np.where(distances < self.level, np.minimum(most, distances * self.scale / 2), most)
        brim = np.exp(-self.level)
        norm = self.scale * (1 - brim) + 2 * self.half_width * brim
        return np.asarray((-self.scale * np.expm1(-gap / self.scale) - gap * brim) / norm)


def _describe_points(dimension: int | None) -> str:
    return f"points of {dimension} coordinate{'' if dimension == 1 else 's'}"


def noise_names() -> list[str]:
    """Returns the names of the noises that need no parameters."""
    return [kind.name for kind in PARAMETERLESS_NOISES]


def find_noise(name: str) -> MetricNoise:
    """Returns a noise by name."""
    for kind in PARAMETERLESS_NOISES:
        if kind.name == name:
            return kind()
    raise ValueError(f"metric: noise must be one of {', '.join(noise_names())}, got {name!r}.")


PARAMETERLESS_NOISES: tuple[type[AnyNoise | LineLaplaceNoise | PlanarLaplaceNoise], ...] = (
    AnyNoise,
    LineLaplaceNoise,
    PlanarLaplaceNoise,
)
