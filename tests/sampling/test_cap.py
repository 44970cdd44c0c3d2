"""Spherical caps against quadrature, and their points against high precision.

Statistical tests have fixed seeds and a false-alarm rate of 1e-7 each.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

import mpmath
import numpy as np
import pytest
from flint import ctx

from shuffledp.sampling import spherical_caps_and_frames
from shuffledp.sampling.random_sources import SeededSource
from shuffledp.sampling.spherical_caps_and_frames import Cap

FALSE_ALARM = 1e-7
CAPS = [Cap(2, 0.3), Cap(3, 0.5), Cap(4, 0.0), Cap(5, 0.9), Cap(6, 0.05), Cap(40, 0.3), Cap(1024, 0.0856)]


def integral(cap: Cap, power: int, low: float) -> Any:
    """∫ sin^power φ cos^(d−2) φ over the elevations from that of the height ``low`` up."""
    start = mpmath.asin(mpmath.mpf(low))
    width = 1 / mpmath.sqrt(cap.dimension)
    points = [start + k * width for k in range(12) if start + k * width < mpmath.pi / 2]
    return mpmath.quad(
        lambda t: mpmath.sin(t) ** power * mpmath.cos(t) ** (cap.dimension - 2), [*points, mpmath.pi / 2]
    )


@pytest.mark.parametrize("cap", CAPS, ids=repr)
def test_share_and_moments_against_quadrature(cap: Cap) -> None:
    """q, E[t] and E[t²], by integrating over the elevation."""
    with mpmath.workdps(30), ctx.workprec(120):
        whole, inside = (
            integral(cap, 0, -1.0) if cap.dimension < 10 else 2 * integral(cap, 0, 0.0),
            integral(cap, 0, cap.height),
        )
        assert float(cap.share()) == pytest.approx(float(inside / whole), rel=1e-13)
        wanted = [float(integral(cap, power, cap.height) / inside) for power in (1, 2)]
    np.testing.assert_allclose(cap.moments, wanted, rtol=1e-13)


@pytest.mark.parametrize("cap", CAPS, ids=repr)
def test_the_law_of_the_elevations(cap: Cap) -> None:
    """Kolmogorov–Smirnov with 20,000 draws against the incomplete beta function, whichever proposal is used."""
    from scipy.special import betainc
    from scipy.stats import kstest

    heights = np.sin(cap.elevations(SeededSource(np.random.default_rng(1)), 20_000))
    assert heights.min() >= cap.height * (1 - 1e-15)

    def above(height: Any) -> Any:
        return betainc((cap.dimension - 1) / 2, 0.5, 1 - np.minimum(height, 1.0) ** 2)

    assert kstest(heights, lambda t: 1 - above(t) / above(cap.height)).pvalue > FALSE_ALARM


@pytest.mark.parametrize("cap", CAPS, ids=repr)
def test_points_are_where_they_should_be(cap: Cap) -> None:
    """Unit vectors, in the cap where asked; the mean is the mean height times the pole, the rest has mean 0."""
    d, rows = cap.dimension, 4000
    pole = np.random.default_rng(2).normal(size=d)
    pole /= np.linalg.norm(pole)
    in_cap = np.arange(rows) % 2 == 0
    points = cap.points(SeededSource(np.random.default_rng(3)), np.tile(pole, (rows, 1)), in_cap)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1.0, rtol=1e-14)
    assert (points[in_cap] @ pole).min() >= cap.height - 1e-14
    for part, mean in ((points[in_cap], cap.moments[0]), (points[~in_cap], 0.0)):
        score = (part.mean(axis=0) - mean * pole) / part.std(axis=0) * np.sqrt(len(part))
        assert np.abs(score).max() <= 6.5
    whole = points[~in_cap]
    np.testing.assert_allclose((whole**2).sum(axis=0).mean(), len(whole) / d, rtol=1e-12)
    second = (whole**2).mean(axis=0) * d
    assert np.abs(second - 1).max() <= 6.5 * np.sqrt(2 / len(whole))


def test_points_of_the_whole_sphere_do_not_depend_on_the_pole() -> None:
    """To the last bit."""
    rng, cap = np.random.default_rng(4), Cap(7, 0.2)
    poles = rng.normal(size=(2, 30, 7))
    poles /= np.linalg.norm(poles, axis=2)[:, :, None]
    in_cap = rng.integers(0, 2, 30) == 1
    first, second = (cap.points(SeededSource(np.random.default_rng(5)), pole, in_cap) for pole in poles)
    np.testing.assert_array_equal(first[~in_cap], second[~in_cap])
    assert (first[in_cap] != second[in_cap]).any(axis=1).all()


@pytest.mark.parametrize("dimension", [2, 3, 6, 33])
def test_points_are_within_a_thousandth_of_the_allowed_distance(dimension: int) -> None:
    """The same normal numbers and elevations in 50 digits give the same point to 2^-48; 2^-38 is allowed for."""
    cap, rows, rng = Cap(dimension, 0.25), 60, np.random.default_rng(6)
    drawn = rng.normal(size=(rows, dimension + dimension % 2)) * np.exp(rng.normal(size=(rows, 1)))
    drawn[:, 1] += np.sign(drawn[:, 1])
    elevations = cap.elevations(SeededSource(rng), rows)
    poles = rng.normal(size=(rows, dimension))
    poles[:4] = np.eye(dimension)[0] * [[1], [-1], [1], [-1]]
    poles[2:4, 1] = 1e-9
    poles /= np.linalg.norm(poles, axis=1)[:, None]
    with (
        mock.patch.object(spherical_caps_and_frames, "normals", lambda source, rows, columns: drawn[:rows].copy()),
        mock.patch.object(spherical_caps_and_frames, "MAX_LENGTH_RATIO", 1e9),
        mock.patch.object(Cap, "elevations", return_value=elevations),
    ):
        points = cap.points(SeededSource(rng), poles, np.ones(rows, dtype=np.bool_))
    with mpmath.workdps(50):
        for row in range(rows):
            exact = exact_point(drawn[row, 1:dimension], elevations[row], poles[row])
            off = mpmath.sqrt(sum((mpmath.mpf(a) - b) ** 2 for a, b in zip(points[row], exact, strict=True)))
            assert off <= mpmath.mpf(2) ** -48


def exact_point(numbers: Any, elevation: float, pole: Any) -> list[Any]:
    """The reflected point, by the matrix of the reflection."""
    exact = [mpmath.mpf(number) for number in pole]
    length = mpmath.sqrt(sum(x * x for x in exact))
    exact = [x / length for x in exact]
    side = -1 if exact[0] < 0 else 1
    free = [mpmath.mpf(number) for number in numbers]
    size = mpmath.sqrt(sum(x * x for x in free))
    axis = [-side * mpmath.sin(elevation)] + [mpmath.cos(elevation) * x / size for x in free]
    normal = [x + (side if place == 0 else 0) for place, x in enumerate(exact)]
    factor = 2 * sum(a * b for a, b in zip(normal, axis, strict=True)) / sum(a * a for a in normal)
    return [a - factor * b for a, b in zip(axis, normal, strict=True)]
