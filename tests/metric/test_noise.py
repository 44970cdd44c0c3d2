"""Total variation as a function of distance: closed forms against quadrature and against draws."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad

from shuffledp.bounds.local_metric_solver import LocalMetricSolver
from shuffledp.bounds.metric_amplification import AmplifiedMetric, MetricVariationRatio, MetricWorstDataset
from shuffledp.bounds.metric_noise_laws import (
    AnyNoise,
    LineLaplaceNoise,
    MetricNoise,
    PlanarLaplaceNoise,
    WitchHatNoise,
    find_noise,
)
from shuffledp.privacy.metric_space import Box, DistanceMatrix, Segment, Space


@pytest.mark.parametrize("distance", [0.05, 0.7, 2.0, 6.0])
def test_laplace_by_quadrature(distance: float) -> None:
    inner, _ = quad(
        lambda z: max(0.0, math.exp(-abs(z)) - math.exp(-abs(z - distance))) / 2,
        -40,
        40,
        points=[0, distance / 2, distance],
    )
    assert LineLaplaceNoise().total_variation(distance) == pytest.approx(inner, rel=1e-8)


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


@pytest.mark.parametrize("noise", [LineLaplaceNoise(), PlanarLaplaceNoise(), WitchHatNoise(1.0, 4.0, 0.5)])
def test_no_noise_is_above_the_general_one(noise: MetricNoise) -> None:
    """tanh(d/2) holds for every randomizer; all are 0 at 0 and grow."""
    before = noise.total_variation(0.0)
    assert before == 0.0
    for distance in (1e-6, 0.01, 0.5, 1.0, 3.9, 20.0, 100.0):
        value = noise.total_variation(distance)
        assert before <= value <= AnyNoise().total_variation(distance) <= 1.0
        before = value


def told_by_coordinates(users: int, epsilon: float) -> float:
    """δ that four Laplace coordinates of scale 1 attain: 0000 against 1111, everybody else 0000.

    Each coordinate is seen in one of six cells only, each message counts by its likelihood ratio rounded to a whole
    number, and the attacker sees the sum. All three lose something, so that this is attained; the sum's law is a
    convolution by Fourier transforms, right to 1e-13.
    """
    edges = [-math.inf, 0.0, 0.25, 0.5, 0.75, 1.0, math.inf]
    laws = []
    for held in (0.0, 1.0):
        above = [math.exp(-x) / 2 if x >= 0 else 1 - math.exp(x) / 2 for x in (edge - held for edge in edges)]
        one = -np.diff(above)
        laws.append(np.multiply.outer(np.multiply.outer(one, one), np.multiply.outer(one, one)).ravel())
    weights = np.round(laws[1] / laws[0]).astype(int)
    size = 1 << 18
    spectra = [np.fft.rfft(np.bincount(weights, law), size) for law in laws]
    first, second = (np.fft.irfft(spectra[0] ** (users - 1) * spectrum, size) for spectrum in spectra)
    return float(np.maximum(0.0, second - math.exp(epsilon) * first).sum())


def test_coordinate_wise_noise_tells_more_than_noise_on_a_line() -> None:
    """Points 0000 and 1111 at rate 1: by the law of a line ε would be 0.0351, and four coordinates attain 0.0405."""
    users, delta = 100_000, 1e-7
    line = AmplifiedMetric(
        DistanceMatrix.from_points([[0.0], [2.0]]), users, delta, MetricVariationRatio(LineLaplaceNoise())
    )
    assert line(0, 1).upper == pytest.approx(0.0351, abs=5e-5)
    assert told_by_coordinates(users, 0.0405) > delta
    points = DistanceMatrix.from_points([[0.0] * 4, [1.0] * 4])
    with pytest.raises(ValueError, match=r"laplace noise is for points of 1 coordinate, got points of 4 coordinates; "):
        AmplifiedMetric(points, users, delta, MetricVariationRatio(LineLaplaceNoise()))


GLOBE = DistanceMatrix.from_degrees([[52.3, 4.9], [52.4, 4.9]], rate=1e-4)
SPACES: dict[str, tuple[Space, int | None]] = {
    "line": (Segment(0.0, 1.0), 1),
    "points of a line": (DistanceMatrix.from_points([[0.0], [1.0]]), 1),
    "box": (Box(1.0, 0.5), 2),
    "points of a plane": (DistanceMatrix.from_points([[0.0, 0.0], [1.0, 0.0]]), 2),
    "points of space": (DistanceMatrix.from_points([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]), 3),
    "matrix": (DistanceMatrix([[0.0, 1.0], [1.0, 0.0]]), None),  # type: ignore[arg-type]
    "closure": (DistanceMatrix.from_points([[0.0], [1.0]]).closure(), None),
    "globe": (GLOBE, None),
}


@pytest.mark.parametrize("bound", [MetricVariationRatio, MetricWorstDataset])
@pytest.mark.parametrize("noise", [LineLaplaceNoise(), PlanarLaplaceNoise(), WitchHatNoise(0.5, 3.0, 2.0)])
@pytest.mark.parametrize("name", SPACES)
def test_a_noise_is_refused_for_points_that_it_is_not_for(
    name: str, noise: MetricNoise, bound: type[MetricVariationRatio]
) -> None:
    """Every law with every space, at both doors: only its own dimension; the noise 'any' is for all."""
    space, dimension = SPACES[name]
    for door in (AmplifiedMetric, LocalMetricSolver) if isinstance(space, DistanceMatrix) else (AmplifiedMetric,):
        door(space, 100, 1e-6, bound())  # type: ignore[arg-type]
        if noise.dimension == dimension:
            door(space, 100, 1e-6, bound(noise))  # type: ignore[arg-type]
            continue
        with pytest.raises(ValueError, match=f"^{door.__name__}: {noise.name} noise is for points of") as refused:
            door(space, 100, 1e-6, bound(noise))  # type: ignore[arg-type]
        remedies = {
            1: "take 'laplace' or 'any'.",
            2: "take 'planar-laplace' or 'any'.",
            3: "only 'any' serves those.",
            None: "give the points, or take the noise 'any'.",
        }
        assert str(refused.value).endswith(remedies[dimension])


def test_a_hat_is_refused_for_numbers_beyond_its_interval() -> None:
    """From −1 to 1 with scale 0.5 and level 3: two numbers are never more than ε = 3 apart."""
    bound = MetricVariationRatio(WitchHatNoise(1.0, 3.0, 0.5))
    AmplifiedMetric(Segment(-1.0, 1.0, rate=4.0, cap=3.0), 100, 1e-6, bound)
    with pytest.raises(ValueError, match=r"at most ε = 3.0 apart, got a space whose largest distance is ε = 8.0"):
        AmplifiedMetric(Segment(-1.0, 1.0, rate=4.0), 100, 1e-6, bound)


def test_names() -> None:
    assert isinstance(find_noise("planar-laplace"), PlanarLaplaceNoise)
    with pytest.raises(ValueError, match="noise must be one of any, laplace, planar-laplace, got 'pink'"):
        find_noise("pink")
    with pytest.raises(ValueError, match="scale must be above 0"):
        WitchHatNoise(1.0, 1.0, 0.0)
