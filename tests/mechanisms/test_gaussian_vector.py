"""Gaussian noise in the unit ball: the moves that spread G, the finite laws, and the guarantee against an attack."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.array import Floats
from shuffledp.errors import NotApplicable
from shuffledp.mechanisms.parts import ball_crowds
from shuffledp.mechanisms.parts.ball_crowds import BallCrowds, KindLaw, Triple, others_of_ball
from shuffledp.mechanisms.vector.gaussian_vector import GaussianVector

POINTS, WEIGHTS = np.polynomial.hermite_e.hermegauss(120)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def mean(covariance: Floats, tilt: float, ratio: float) -> float:
    """E Φ(G) of a smooth convex Φ, by quadrature in two normal numbers."""
    a, g, b = covariance[0, 0], covariance[0, 1], covariance[1, 1]
    first = math.sqrt(a)
    along = g / first if first else 0.0
    across = math.sqrt(max(0.0, b - along**2))
    u, v = np.meshgrid(POINTS, POINTS, indexing="ij")
    gain = np.exp(first * u - a / 2) - ratio * np.exp(along * u + across * v - b / 2)
    return float(WEIGHTS @ np.logaddexp(0.0, tilt * (gain - 0.3)) @ WEIGHTS)


def gram(points: Floats, sigma: float) -> Floats:
    apart = (points[:2] - points[2]) / sigma
    return np.asarray(apart @ apart.T)


def of_triple(triple: Triple) -> Floats:
    line = np.array([triple.first, -triple.second])
    return np.asarray(triple.away**2 + np.outer(line, line))


def test_adding_to_the_covariance_and_parting_spread() -> None:
    rng = np.random.default_rng(1)
    for _ in range(60):
        root, more = rng.normal(size=(2, 2)) * 0.4, rng.normal(size=(2, 2)) * 0.3
        covariance = root @ root.T
        tilt, ratio = rng.uniform(0.5, 3), rng.uniform(1, 1.5)
        assert mean(covariance + more @ more.T, tilt, ratio) >= mean(covariance, tilt, ratio) - 1e-9
        parted = covariance.copy()
        least = -math.sqrt(covariance[0, 0] * covariance[1, 1])
        parted[0, 1] = parted[1, 0] = covariance[0, 1] - rng.uniform() * (covariance[0, 1] - least)
        assert mean(parted, tilt, ratio) >= mean(covariance, tilt, ratio) - 1e-9


def is_reached(covariance: Floats, triple: Triple) -> bool:
    """Whether a semidefinite matrix and lowering g lead from a triple's covariance to a kind's."""
    kind = of_triple(triple)
    one, two = kind[0, 0] - covariance[0, 0], kind[1, 1] - covariance[1, 1]
    if min(one, two) < -1e-9:
        return False
    return bool(kind[0, 1] <= covariance[0, 1] + math.sqrt(max(one, 0.0) * max(two, 0.0)) + 1e-9)


@pytest.mark.parametrize("sigma", [1.0, 2.0, 6.0])
def test_every_acute_triple_on_a_circle_is_below_a_kind(sigma: float) -> None:
    rng = np.random.default_rng(2)
    triples = BallCrowds(sigma).triples
    kinds = [*triples, *(triple.mirrored() for triple in triples)]
    for _ in range(1500):
        parts = rng.dirichlet([0.3, 0.7, 0.4]) * math.pi
        turns = np.array([math.pi - parts[0], -(math.pi - parts[1]), 0.0])
        points = np.column_stack([np.cos(turns), np.sin(turns)])
        assert any(is_reached(gram(points, sigma), kind) for kind in kinds)


def test_every_triple_of_a_ball_is_below_one_on_a_circle() -> None:
    """E Φ of random triples is never above that of the worst kind."""
    rng = np.random.default_rng(3)
    triples = BallCrowds(2.0).triples
    kinds = [of_triple(each) for one in triples for each in (one, one.mirrored())]
    for _ in range(6):
        tilt, ratio = rng.uniform(0.3, 2), rng.uniform(1, 1.2)
        most = max(mean(kind, tilt, ratio) for kind in kinds)
        for _ in range(20):
            points = rng.normal(size=(3, 3))
            points *= (rng.uniform(size=(3, 1)) ** 0.2) / np.linalg.norm(points, axis=1, keepdims=True)
            assert mean(gram(points, 2.0), tilt, ratio) <= most + 1e-9


@pytest.mark.parametrize("triple", [Triple(0.9, 0.1, 0.3), Triple(0.3, 0.6, 0.5), Triple(0.2, 0.01, 0.05)])
def test_a_finite_law_is_above_its_kind(triple: Triple) -> None:
    """Means are kept, but for what is left out, and every E Φ grows: a little."""
    classes = KindLaw(triple, 6.0, 0.0, 40, 10).classes().triples
    floats = np.array([[float(Fraction(int(x.p), int(x.q))) for x in each] for each in classes])
    first, second, hiding = floats.T
    tail = math.erfc(6 / math.sqrt(2)) / 2
    assert hiding.sum() == pytest.approx(1, abs=1e-12)
    assert 1 - 3.01 * tail - 1e-12 <= first.sum() <= 1 + 1e-12
    assert 1 - 2.01 * tail - 1e-12 <= second.sum() <= 1 + 1e-12
    for tilt, ratio in ((0.5, 1.0), (1.0, 1.1), (3.0, 1.3)):
        gain = (first - ratio * second) / hiding
        found = float(hiding @ np.logaddexp(0.0, tilt * (gain - 0.3)))
        exact = mean(of_triple(triple), tilt, ratio)
        assert exact - 5 * tilt * tail <= found <= exact * 1.02


def test_a_cut_for_each_other_user_counts_once() -> None:
    """E(ΣG_i)_+/m is at most the same of G'_i and the largest mean of what is left out, in all crowds of three."""
    rng = np.random.default_rng(4)
    for _ in range(50):
        chances = rng.dirichlet(np.ones(4), size=3)
        gains, cuts = rng.normal(size=(3, 4)) - 0.2, rng.uniform(size=(3, 4)) * (rng.uniform(size=(3, 4)) < 0.3)
        weight = np.einsum("i,j,k->ijk", *chances)

        def part(values: Floats, weight: Floats = weight) -> float:
            total = values[0][:, None, None] + values[1][None, :, None] + values[2][None, None, :]
            return float((weight * np.maximum(total, 0)).sum()) / 3

        assert part(gains) <= part(gains - cuts) + (chances * cuts).sum(axis=1).max() + 1e-12


def attack_delta(sigma: float, users: int, epsilon: float) -> float:
    """Opposite unit vectors, all others with the second: by Fourier transform of the law of real Gaussian noise."""
    steps, size = 0.004, 1 << 21
    y = np.linspace(-11, 11, 200_001)
    weights = np.exp(-y * y / 2)
    far = 2 / sigma
    gain = np.exp(far * y - far**2 / 2) - math.exp(epsilon)
    places = (gain - gain.min()) / steps
    low = np.floor(places).astype(int)
    law = np.zeros(size)
    keep = low < size - 2
    np.add.at(law, low[keep], (weights * (1 - places + low))[keep])
    np.add.at(law, low[keep] + 1, (weights * (places - low))[keep])
    total = np.fft.irfft(np.fft.rfft(law / weights.sum()) ** (users - 1), size)
    start, middle = (users - 1) * gain.min(), (users - 1) * -math.expm1(epsilon)
    found = np.arange(size) + size * np.round(((middle - start) / steps - np.arange(size)) / size)
    return float((total * np.maximum(start + steps * found, 0.0)).sum()) / (users - 1)


def test_the_guarantee_is_near_what_an_attack_attains() -> None:
    value = sdp.amplify(GaussianVector(4.0, 16), 10_000, bound="all-crowds").epsilon(1e-6)
    assert value.certified
    assert attack_delta(4.0, 10_000, value.upper) <= 1e-6
    assert attack_delta(4.0, 10_000, value.upper * 0.95) >= 1e-6


def test_the_mean_is_unbiased_and_its_variance_is_stated() -> None:
    mechanism = GaussianVector(1.5, 4)
    values = np.tile([[0.5, -0.5, 0.1, 0.0]], (20_000, 1))
    found = mechanism.estimate(mechanism.encode(values, np.random.default_rng(4)))
    deviation = np.sqrt(mechanism.variance(values))
    np.testing.assert_allclose(deviation, 1.5 / math.sqrt(20_000), rtol=1e-3)
    assert np.all(np.abs(found.value - values[0]) < 5 * deviation)
    messages = mechanism.encode(values, np.random.default_rng(5)) * mechanism.step
    np.testing.assert_allclose(messages.var(axis=0), mechanism.variance(values) * 20_000, rtol=0.05)


def test_it_says_what_it_cannot() -> None:
    with pytest.raises(ValueError, match=r"^GaussianVector: multiplier must be between 0.8 and 10000, got 0.1.$"):
        GaussianVector(0.1, 2)
    with pytest.raises(ValueError, match="dimension must be at most"):
        GaussianVector(1.0, 1 << 20)
    with pytest.raises(NotApplicable, match="bounds no ratio"):
        GaussianVector(2.0, 2).variation_ratio()


def test_the_common_part_does_not_depend_on_the_dimension() -> None:
    assert others_of_ball(4.0, 5.0, 1e-9).gamma == pytest.approx(math.exp(-1 / 32 - 5 / 4), rel=1e-4)
    assert GaussianVector(4.0, 1 << 16).realisation_error < 1e-2
    assert ball_crowds.MOST_CELLS < 100
