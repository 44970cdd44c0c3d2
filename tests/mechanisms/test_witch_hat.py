"""WitchHat: the corrected formulas of the paper as limits of the grid, the sampler, and pairs of inputs."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations_with_replacement, pairwise, permutations

import numpy as np
import pytest
from flint import arb, ctx
from scipy.integrate import quad

import shuffledp as sdp
from shuffledp.bounds.metric_noise_laws import WitchHatNoise
from tests.oracle import exact_enumeration

CASES = [(1.0, 1.0, 1.0), (1.0, 3.0, 0.5), (4.98, 4.1, 2.37)]


def fine(width: float, level: float, scale: float) -> sdp.WitchHat:
    return sdp.WitchHat(level, half_width=width, scale=scale, grid=4096)


def density_norm(width: float, level: float, scale: float) -> float:
    return scale * (1 - math.exp(-level)) + 2 * width * math.exp(-level)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_two_points_are_private_for_their_distance(case: tuple[float, float, float]) -> None:
    """t_i ≤ e^min(ρ|i−j|, m)·t_j for all i, j, exactly, and the sum is that of a row of the table."""
    width, level, scale = case
    mechanism = sdp.WitchHat(level, half_width=width, scale=scale, grid=24)
    t, step = mechanism.hat.units, mechanism.hat.step_distance
    with ctx.workprec(256):
        for i, j in permutations(range(len(t)), 2):
            far = min(step * abs(i - j), Fraction(level))
            limit = (arb(far.numerator) / far.denominator).exp()
            assert arb(t[i]) <= limit * t[j]
    for k in (0, 7, 24):
        assert int(mechanism.hat.weights(k).sum()) == mechanism.hat.total_units


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_grid_approaches_the_density(case: tuple[float, float, float]) -> None:
    """Density, normaliser, estimator's factor N/(Fκ), variance and β of the theory, within the size of a step."""
    width, level, scale = case
    mechanism, norm = fine(*case), density_norm(*case)
    step = 2 * width / mechanism.grid
    heights = np.array(mechanism.hat.units) / mechanism.hat.total_units / step
    places = np.arange(len(heights)) * step
    np.testing.assert_allclose(heights, np.exp(-np.minimum(2 * places / scale, level)) / norm, rtol=3e-3)
    shrink = 1 - math.exp(-level) - level * math.exp(-level)
    assert mechanism.estimator.inverse_signal_share == pytest.approx(norm / (scale * shrink), rel=3e-3)
    reach, brim = level * scale / 2, math.exp(-level)
    edges = 2 / 3 * brim * ((width + reach) ** 3 - reach**3)
    middle = scale**3 / 2 - brim * scale**3 * (level**2 + 2 * level + 2) / 4
    for x in (0.0, 0.26, -0.9 * width):
        wanted = norm / (scale * shrink) ** 2 * (edges + middle) + x * x * (norm / (scale * shrink) - 1)
        assert mechanism.variance([x])[0] == pytest.approx(wanted, rel=5e-3)
    noise = WitchHatNoise(*case)
    for steps in (64, 512, 2048):
        distance = min(2 * steps * step / scale, level)
        if distance < level:
            assert float(mechanism.hat.total_variation(steps)) == pytest.approx(
                noise.total_variation(distance), rel=5e-3
            )
        assert float(mechanism.hat.total_variation(steps)) <= noise.total_variation(distance) * 1.005


@pytest.mark.parametrize("case", CASES[:2], ids=str)
def test_mean_and_variance_by_quadrature(case: tuple[float, float, float]) -> None:
    """The density itself, integrated: the estimator is unbiased and its variance is the grid's."""
    width, level, scale = case
    reach, norm, x = level * scale / 2, density_norm(*case), 0.3
    factor = norm / (scale * (1 - math.exp(-level) - level * math.exp(-level)))

    def moment(power: int) -> float:
        points = sorted({-width - reach, x - reach, x, x + reach, width + reach})
        inner = (
            quad(lambda z: z**power * math.exp(-min(2 * abs(z - x) / scale, level)) / norm, a, b)[0]
            for a, b in pairwise(points)
        )
        return sum(inner)

    assert moment(0) == pytest.approx(1.0, rel=1e-9)
    assert factor * moment(1) == pytest.approx(x, rel=1e-8)
    variance = factor**2 * (moment(2) - moment(1) ** 2)
    assert fine(*case).variance([x])[0] == pytest.approx(variance, rel=5e-3)


def test_draws_follow_the_sampler_of_the_theory() -> None:
    """A million draws against the theory's own sampler in floats: ten equal shares within 6 standard deviations.

    Ten shares, two samples: false alarm below 1e-7.
    """
    width, level, scale, x, draws = 1.0, 3.0, 0.5, 0.3, 1_000_000
    generator = np.random.default_rng(31)
    reach, norm = level * scale / 2, density_norm(width, level, scale)
    near = generator.random(draws) < scale * (1 - math.exp(-level)) / norm
    falls = scale / 2 * -np.log1p(-generator.random(draws) * (1 - math.exp(-level)))
    peak = x + generator.choice([-1.0, 1.0], draws) * falls
    flat = generator.uniform(-width - reach, width - reach, draws)
    theory = np.where(near, peak, np.where(flat < x - reach, flat, flat + 2 * reach))
    mechanism = sdp.WitchHat(level, half_width=width, scale=scale, grid=2048)
    messages = mechanism.encode(np.full(draws, x), rng=generator)
    step = 2 * width / mechanism.grid
    ours = (messages - mechanism.hat.reach + generator.random(draws) - 0.5) * step - width
    edges = np.quantile(theory, np.linspace(0, 1, 11))[1:-1]
    shares = np.histogram(ours, [-9, *edges, 9])[0] / draws
    # Half a step at each edge is what the grid adds.
    assert np.abs(shares - 0.1).max() < 6 * math.sqrt(2 * 0.09 / draws) + step / scale


def test_estimates_from_messages() -> None:
    """Within 5 standard deviations of the truth (false alarm below 1e-6), with about the true variance."""
    mechanism = sdp.WitchHat(2.0, half_width=3.0, scale=1.0)
    generator = np.random.default_rng(12)
    values = generator.uniform(0.9, 1.1, 300_000)
    estimate = mechanism.estimate(mechanism.encode(values, rng=generator))
    variance = mechanism.variance(values)[0]
    assert abs(estimate.value[0] - values.mean()) < 5 * math.sqrt(variance)
    assert estimate.variance[0] == pytest.approx(variance, rel=0.05)


def test_a_pair_covers_the_real_protocol() -> None:
    """Three users, all datasets of the grid's points, exact; the attack is not above the truth of all inputs."""
    mechanism = sdp.WitchHat(2.0, half_width=1.0, scale=1.5, grid=3)
    points = np.linspace(-1, 1, 4).tolist()
    rows = [list(mechanism.hat.number_law(unit)) for unit in mechanism._units(np.array(points)).tolist()]
    ratio = Fraction(9, 8)
    for a, b in ((0, 1), (0, 3), (1, 2)):
        truth = max(
            exact_enumeration.shuffled_divergence([rows] * 3, first, second, others, ratio)
            for first, second in ((a, b), (b, a))
            for others in combinations_with_replacement(range(4), 2)
        )
        value = sdp.amplify(mechanism, 3, pair=(points[a], points[b]), effort="quick").delta(math.log(ratio))
        assert value.lower is not None
        assert value.lower * (1 - 1e-9) <= float(truth) <= value.upper * (1 + 1e-12)
        near = sdp.amplify(mechanism, 3, diameter=(b - a) * 2 / 3, effort="quick").delta(math.log(ratio))
        assert near.upper >= float(truth)


def test_farther_points_are_worse_against_the_brim() -> None:
    """Exact: (1/n)·E(ΣG)_+ grows with the distance of two points, and no more once the hats are apart."""
    mechanism = sdp.WitchHat(2.0, half_width=1.0, scale=0.4, grid=12)
    brim, whole = mechanism.hat.units[-1], mechanism.hat.total_units
    assert mechanism.grid >= 2 * mechanism.hat.reach
    for ratio in (Fraction(1), Fraction(6, 5), Fraction(3)):
        before = Fraction(0)
        for steps in range(1, mechanism.grid + 1):
            first, second = (mechanism.hat.weights(k).tolist() for k in (0, steps))
            weights: dict[Fraction, Fraction] = {}
            for x, y in zip(first, second, strict=True):
                value = (x - ratio * y) / Fraction(brim)
                weights[value] = weights.get(value, Fraction(0)) + Fraction(brim, whole)
            weights[Fraction(0)] = weights.get(Fraction(0), Fraction(0)) + 1 - sum(weights.values())
            now = exact_enumeration.positive_part_mean(list(weights), list(weights.values()), 2)
            assert now >= before
            assert steps <= 2 * mechanism.hat.reach or now == before
            before = now


@pytest.mark.exhaustive
def test_near_numbers_are_better_protected() -> None:
    mechanism = sdp.WitchHat(3.0, scale=0.5)
    users, delta = 20_000, 1e-6
    values = [
        sdp.amplify(mechanism, users, pair=(0.0, x), effort="quick").epsilon(delta).upper for x in (1e-15, 0.05, 0.2)
    ]
    assert values == sorted(values)
    assert values[0] < 1e-9
    assert sdp.amplify(mechanism, users, diameter=0.2, effort="quick").epsilon(delta).upper >= values[2]
    assert sdp.amplify(mechanism, users, diameter=9.0, effort="quick").epsilon(delta).upper == pytest.approx(
        sdp.amplify(mechanism, users, effort="quick").epsilon(delta).upper
    )


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"epsilon": 50.0}, "epsilon must be from 1e-09 to 36, got 50.0"),
        ({"epsilon": 36.0, "scale": 1.0}, "epsilon must be smaller for this grid and scale to reveal anything, got"),
        ({"epsilon": 1.0, "half_width": 0.0}, "half_width must be above 0"),
        ({"epsilon": 1.0, "scale": -1.0}, "scale must be above 0"),
        ({"epsilon": 1.0, "grid": 0}, "grid must be at least 1"),
        ({"epsilon": 30.0, "scale": 1e4}, "the hat must be at most 65536 steps wide"),
    ],
)
def test_bad_settings(settings: dict[str, float], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"WitchHat: .*{sentence}"):
        sdp.WitchHat(**settings)


def test_a_width_beyond_the_floats_is_refused() -> None:
    """Its double would be infinite, and every place on it lost."""
    with pytest.raises(ValueError, match="half_width must be small enough"):
        sdp.WitchHat(1.0, half_width=1e308, scale=1e308, grid=4)
    sdp.WitchHat(1.0, half_width=8e307, scale=8e307, grid=4).encode([8e307, -8e307, 0.0])
