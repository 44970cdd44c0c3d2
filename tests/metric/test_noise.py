"""Total variation as a function of distance: closed forms against quadrature and against draws."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad

from shuffledp.metric.noise import AnyNoise, LaplaceNoise, Noise, PlanarLaplaceNoise, WitchHatNoise, noise_of


@pytest.mark.parametrize("distance", [0.05, 0.7, 2.0, 6.0])
def test_laplace_by_quadrature(distance: float) -> None:
    inner, _ = quad(
        lambda z: max(0.0, math.exp(-abs(z)) - math.exp(-abs(z - distance))) / 2,
        -40,
        40,
        points=[0, distance / 2, distance],
    )
    assert LaplaceNoise().total_variation(distance) == pytest.approx(inner, rel=1e-8)


@pytest.mark.parametrize("distance", [0.01, 0.5, 2.0, 8.0])
def test_planar_laplace_by_quadrature(distance: float) -> None:
    """In polar coordinates around one point: the half plane that is nearer to it, less the same for the other."""

    def share(radius: float) -> float:
        """Share of the circle of this radius that is on the near side of the bisector at distance/2."""
        return 1.0 if radius <= distance / 2 else 1 - math.acos(distance / 2 / radius) / math.pi

    near, _ = quad(lambda r: r * math.exp(-r) * share(r), 0, 60, points=[distance / 2], limit=400)
    assert PlanarLaplaceNoise().total_variation(distance) == pytest.approx(2 * near - 1, rel=1e-6)


def test_planar_laplace_by_draws() -> None:
    """Two million draws: a share is within 5 standard deviations (false alarm below 1e-6)."""
    generator = np.random.default_rng(11)
    draws, distance = 2_000_000, 1.5
    angle, radius = generator.uniform(0, 2 * math.pi, draws), generator.gamma(2.0, 1.0, draws)
    near = float((radius * np.cos(angle) < distance / 2).mean())
    assert PlanarLaplaceNoise().total_variation(distance) == pytest.approx(2 * near - 1, abs=5 / math.sqrt(draws))


@pytest.mark.parametrize("parameters", [(1.0, 1.0, 1.0), (1.0, 3.0, 0.4), (2.0, 2.0, 0.5)])
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_witch_hat_by_quadrature(parameters: tuple[float, float, float], share: float) -> None:
    """Below the full level the distance tells how far apart the inputs are."""
    width, level, scale = parameters
    gap = share * min(2 * width, level * scale / 2)
    reach = level * scale / 2
    norm = scale * (1 - math.exp(-level)) + 2 * width * math.exp(-level)
    first, second = -gap / 2, gap / 2

    def excess(z: float) -> float:
        near, far = (math.exp(-min(2 * abs(z - x) / scale, level)) for x in (first, second))
        return max(0.0, near - far) / norm

    edges = sorted({-width - reach, first - reach, first, 0.0, second, first + reach, second - reach, width + reach})
    inner = sum(quad(excess, a, b)[0] for a, b in pairwise(edges))
    noise = WitchHatNoise(width, level, scale)
    assert noise.total_variation(2 * gap / scale) == pytest.approx(inner, rel=1e-7)
    assert noise.total_variation(level) >= noise.total_variation(0.999 * level)


@pytest.mark.parametrize("noise", [LaplaceNoise(), PlanarLaplaceNoise(), WitchHatNoise(1.0, 4.0, 0.5)])
def test_no_noise_is_above_the_general_one(noise: Noise) -> None:
    """tanh(d/2) holds for every randomizer; all are 0 at 0 and grow."""
    before = noise.total_variation(0.0)
    assert before == 0.0
    for distance in (1e-6, 0.01, 0.5, 1.0, 3.9, 20.0, 100.0):
        value = noise.total_variation(distance)
        assert before <= value <= AnyNoise().total_variation(distance) <= 1.0
        before = value


def test_names() -> None:
    assert isinstance(noise_of("planar-laplace"), PlanarLaplaceNoise)
    with pytest.raises(ValueError, match="noise must be one of any, laplace, planar-laplace, got 'pink'"):
        noise_of("pink")
    with pytest.raises(ValueError, match="scale must be above 0"):
        WitchHatNoise(1.0, 1.0, 0.0)
