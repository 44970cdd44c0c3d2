"""Intervals of few users' means, and of counts in blocks, by the exact law of the estimate where it can be told."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import reduce

import numpy as np
import pytest
from scipy.integrate import dblquad
from scipy.signal import convolve2d
from scipy.stats import binom

import shuffledp as sdp
from shuffledp._core.validation import Floats
from shuffledp.mechanisms.base.error_laws import MeanErrorLaw
from shuffledp.mechanisms.base.estimator import Estimate
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.mechanisms.vector.duchi_and_harmony import SignEstimator
from tests.mechanisms.test_exact_intervals import DISCRETE, FALSE_ALARM, LEAST, MOST, TINY, coverage

USERS = 50


# --- counts in blocks of columns --------------------------------------------------------------------------------------


def signs_in_block(mechanism: sdp.HadamardResponse, held: int, near: int) -> Floats:
    """How many messages count −1 and +1 for an option: of its holders, of others of its block, of the rest."""
    gamma = float(mechanism.response.uniform_share)
    anywhere = gamma / mechanism.blocks / 2
    chances = ((1 - gamma) + anywhere, anywhere), ((1 - gamma) / 2 + anywhere,) * 2, (anywhere,) * 2
    laws = [
        power(np.array([[1 - sum(one), one[0]], [one[1], 0.0]]), number)
        for one, number in zip(chances, (held, near, USERS - held - near), strict=True)
    ]
    return reduce(convolve2d, laws)


def power(law: Floats, number: int) -> Floats:
    """The law of the sum of so many, by squaring."""
    if number == 0:
        return np.ones((1, 1))
    half = power(law, number // 2)
    twice = convolve2d(half, half)
    return convolve2d(twice, law) if number % 2 else twice


BLOCKS = [(1.0, 3, 1), (0.5, 5, 1), (4.0, 3, 1), (2.0, 4, 4), (2.0, 9, 4), (6.0, 12, 4), (4.0, 20, 8)]


@pytest.mark.parametrize(("epsilon", "options", "blocks"), BLOCKS)
def test_counts_of_options_that_share_their_block(epsilon: float, options: int, blocks: int) -> None:
    """Where one user held another option of the block, v ± 1.96·(standard error of v) covered 0 in 57% of the time.

    A block with few messages has few possible sums of signs, and nothing between 92% and 100% at times.
    """
    mechanism = sdp.HadamardResponse(epsilon, options, blocks)
    minus, plus = (one.reshape(-1) for one in np.indices((USERS + 1, USERS + 1)))
    laws = {crowd: signs_in_block(mechanism, *crowd).reshape(-1) for crowd in crowds_of_a_block(mechanism)}
    likely = np.max(list(laws.values()), axis=0) > TINY
    signs = (plus - minus)[likely]
    found = mechanism.estimator.from_signs(signs, (plus + minus)[likely], USERS)
    low, high = found.interval(0.95)
    for (held, _), law in laws.items():
        chances = law[likely]
        assert chances @ found.value == pytest.approx(held, abs=1e-6)
        covered = float(chances[(low <= held + 1e-9) & (held - 1e-9 <= high)].sum())
        assert covered >= 0.94
        assert covered <= MOST or np.bincount(signs + USERS, weights=chances).max() > DISCRETE


def crowds_of_a_block(mechanism: sdp.HadamardResponse) -> Iterator[tuple[int, int]]:
    """How many hold an option, and how many another one of its block: with one block all others do."""
    for held in (0, 1, 5, 25, 49, 50):
        rest = USERS - held
        others = (0, 1, 10, rest) if mechanism.block_size > 2 else (0,)
        yield from ((held, near) for near in ((rest,) if mechanism.blocks == 1 else others) if near <= rest)


# --- means of signs ---------------------------------------------------------------------------------------------------

SIGNS = [
    sdp.Harmony(1.0, 1),
    sdp.Harmony(4.0, 8),
    sdp.Harmony(6.0, 30),
    sdp.Duchi(4.0, 1),
    sdp.Duchi(2.0, 3),
    sdp.SQKR(4.0, 16, signs=1),
]


def single(mechanism: Mechanism) -> tuple[float, float]:
    """What a message adds to a coordinate, and the chance that it adds anything."""
    reading = mechanism.estimator
    if isinstance(mechanism, sdp.SQKR):
        return mechanism.estimator.scale / math.sqrt(mechanism.public_frame.size), 1.0
    assert isinstance(reading, SignEstimator)
    return reading.scale, reading.second_moment / reading.scale**2


def sums_of_signs(size: float, heard: float, values: Floats) -> Floats:
    """The law of the sum of the signs of these users, from −n to n."""
    laws = np.ones(1)
    for value, users in zip(*np.unique(values, return_counts=True), strict=True):
        one = np.array([(heard - value / size) / 2, 1 - heard, (heard + value / size) / 2])[None, :]
        laws = np.convolve(laws, power(one, users)[0])
    return laws


def estimates(mechanism: Mechanism, size: float) -> Estimate:
    """The estimate of each sum of signs."""
    reading, sums = mechanism.estimator, np.arange(-USERS, USERS + 1)
    if isinstance(reading, SignEstimator):
        return reading.finish(sums, USERS)
    # All coordinates alike: their estimates need not be those of one collection.
    found = reading.finish(np.zeros(mechanism.public_frame.size), USERS)  # type: ignore[attr-defined]
    return Estimate(sums * size / USERS, np.full(len(sums), found.variance[0]), USERS, found.error_law)


CROWDS = {
    "end": np.full(USERS, 1.0),
    "near the end": np.full(USERS, 0.9),
    "between": np.full(USERS, -0.3),
    "middle": np.zeros(USERS),
    "one deviates": np.repeat([-1.0, 1.0], [USERS - 1, 1]),
    "spread": np.linspace(-1.0, 1.0, USERS),
}


@pytest.mark.parametrize("mechanism", SIGNS, ids=str)
@pytest.mark.parametrize("crowd", CROWDS)
def test_means_of_signs(mechanism: Mechanism, crowd: str) -> None:
    """Of users who differ the signs are those of users who hold their mean, and the interval is for the latter."""
    size, heard = single(mechanism)
    values = CROWDS[crowd]
    chances, found = sums_of_signs(size, heard, values), estimates(mechanism, size)
    assert chances @ found.value == pytest.approx(values.mean(), abs=1e-9)
    covered = coverage(found, chances, float(values.mean()))
    assert covered >= 0.94
    alike = abs(values - values.mean()).max() == 0
    assert covered <= MOST or chances.max() > DISCRETE or not alike


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_users_who_are_known_to_be_at_the_ends(epsilon: float) -> None:
    """A count of yes and no: their squares are known."""
    mechanism = sdp.Duchi(epsilon, 1)
    size, heard = single(mechanism)
    found = mechanism.estimator.for_endpoint_values(estimates(mechanism, size))
    for held in (0, 1, 10, 25, 50):
        values = np.repeat([-1.0, 1.0], [USERS - held, held])
        chances = sums_of_signs(size, heard, values)
        covered = coverage(found, chances, float(values.mean()))
        assert covered >= 0.94
        assert covered <= MOST or chances.max() > DISCRETE


@pytest.mark.parametrize("mechanism", SIGNS, ids=str)
def test_cumulants_of_users_who_all_hold_the_mean(mechanism: Mechanism) -> None:
    """Those of what a message adds, by going through what it can be."""
    size, heard = single(mechanism)
    tails = estimates(mechanism, size).error_law
    assert isinstance(tails, MeanErrorLaw)
    for x in (-1.0, -0.25, 0.0, 0.7, 1.0):
        chances = np.array([(heard - x / size) / 2, 1 - heard, (heard + x / size) / 2])
        errors = size * np.array([-1.0, 0.0, 1.0]) - x
        second, third = (float(chances @ errors**power) for power in (2, 3))
        counted = (x + 1) / 2 * USERS
        assert tails.count_law.variance_at(counted) == pytest.approx(second * USERS / 4)
        assert tails.count_law.third_cumulant.evaluate(counted) == pytest.approx(third * USERS / 8)
        assert tails.variance_at_means(np.array([x]))[0] == pytest.approx(second / USERS)


# --- means of vectors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("height", [0.0, 0.6])
def test_cubes_of_points_of_a_cap(height: float) -> None:
    """By integrating over a cap of the sphere in three dimensions, where heights are uniform."""
    from shuffledp.mechanisms.vector.privunit import third_moment_coefficients
    from shuffledp.sampling.spherical_caps_and_frames import Cap

    first, third = third_moment_coefficients(Cap(3, height))
    for x in (0.2, 0.8):

        def cube(angle: float, t: float, x: float = x) -> float:
            return float((t * x + math.sqrt((1 - t * t) * (1 - x * x)) * math.cos(angle)) ** 3)

        integral = dblquad(cube, height, 1.0, 0.0, 2 * math.pi)[0] / (2 * math.pi * (1 - height))
        mean = (1 + height) / 2
        assert integral == pytest.approx(mean * (first * x + third * x**3), rel=1e-9)


def test_cubes_of_normal_vectors() -> None:
    """By integrating over all that reach the height, and over the plane across."""
    mechanism = sdp.PrivUnitG(3.0, 5)
    x, h = 0.8, mechanism.height

    def density(t: float) -> float:
        return math.exp(-t * t / 2) / math.sqrt(2 * math.pi)

    def cube(across: float, t: float) -> float:
        return float((t * x + math.sqrt(1 - x * x) * across) ** 3 * density(t) * density(across))

    integral = dblquad(cube, h, 12.0, -12.0, 12.0)[0]
    first, third = mechanism.estimator.third_moment_coefficients
    assert integral == pytest.approx(density(h) * (first * x + third * x**3), rel=1e-8)


@pytest.mark.parametrize("mechanism", [sdp.PrivUnitOptimized(8.0, 3), sdp.PrivUnit(8.0, 3)], ids=str)
def test_vectors_near_an_axis(mechanism: Mechanism) -> None:
    """400 collections: some 2 messages in 100 are far from the vector, and without them hardly an error was seen.

    v ± 1.96 standard errors covered the first coordinate in 76 and 78%. Below 92% by chance of 1e-7 at the most.
    """
    repeats, dimension = 400, len(mechanism.audit_pair()[0])
    vector = np.array([0.9, math.sqrt(1 - 0.81), 0.0])[:dimension]
    rng = np.random.default_rng(12)
    messages = mechanism.encode(np.tile(vector, (repeats * USERS, 1)), rng=rng)
    ends = [mechanism.estimate(part).interval(0.95) for part in np.split(messages, repeats)]
    covered = np.mean([(low <= vector) & (vector <= high) for low, high in ends], axis=0)
    assert covered.min() >= binom.ppf(FALSE_ALARM / dimension, repeats, LEAST) / repeats


def test_limits_are_where_the_error_of_that_mean_ends() -> None:
    """Against a search through all means, where the law is smooth and even."""
    tails = MeanErrorLaw.from_messages(400, np.array([2.0, 1.2, 1.05]), -1.0, None).with_min_variance(1.1, -0.5)
    value = np.array([0.2, -0.9, 0.97])
    low, high = tails.confidence_limits(value, np.zeros(3), 400, 0.95)
    means = np.linspace(-1.5, 1.5, 300_001)
    for place in range(3):
        inside = np.clip(means, -1.0, 1.0) ** 2
        spread = np.maximum(np.array([2.0, 1.2, 1.05])[place] - inside, 1.1 - 0.5 * inside) / 400
        accepted = means[(value[place] - means) ** 2 <= 1.959964**2 * spread]
        assert (low[place], high[place]) == pytest.approx((accepted[0], accepted[-1]), abs=2e-5)


def test_an_interval_of_a_mean_moves_with_it() -> None:
    reading = sdp.Duchi(2.0, 1).estimator
    found = reading.finish(np.array([11]), USERS)
    for scale, shift in ((2.0, 1.0), (-0.5, 4.0), (50.0, 0.0)):
        ends = sorted(scale * float(end[0]) + shift for end in found.interval(0.9))
        assert [float(end[0]) for end in found.transform(scale, shift).interval(0.9)] == pytest.approx(ends)
