"""Intervals of few users, by the exact law of the estimate: every outcome, its probability, and whether it covers."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from scipy.signal import convolve2d
from scipy.stats import binom, nbinom, poisson, skellam

import shuffledp as sdp
from shuffledp._core.validation import Array, Floats
from shuffledp.mechanisms.base.estimator import Estimate, SelectedComponentsEstimator
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.mechanisms.base.support_counts import OptionCountEstimator, SupportEstimator
from shuffledp.mechanisms.correlated_noise.split_and_mix import max_rounding_variance

LEAST, MOST = 0.92, 0.985
"""Of intervals of 95%, where no single outcome has so much probability that there is nothing between."""
DISCRETE = 0.15
"""Outcomes of such a probability are one more or one less within an interval, and take its coverage beyond."""
TINY = 1e-12
FALSE_ALARM = 1e-7


def coverage(found: Estimate, chances: Floats, truth: float) -> float:
    low, high = found.interval(0.95)
    return float(chances[(low <= truth + 1e-9) & (truth - 1e-9 <= high)].sum())


def stated(found: Estimate, chances: Floats) -> float:
    """The root mean square of the standard errors that are stated."""
    return math.sqrt(float(chances @ found.variance))


# --- counts from messages that support options ----------------------------------------------------------------------


def supports(own: float, other: float, held: int, users: int) -> Floats:
    """The law of how many of the users' messages support an option that so many hold."""
    ours = binom.pmf(np.arange(held + 1), held, own)
    return np.convolve(ours, binom.pmf(np.arange(users - held + 1), users - held, other))


SUPPORTING = [
    sdp.KRR(1.0, 20),
    sdp.KRR(4.0, 50),
    sdp.KRR(6.0, 2),
    sdp.OUE(6.0, 20),
    sdp.Subset(2.0, 5, size=4),
    sdp.Wheel(1.0, 16, 3),
    sdp.Wheel(6.0, 30, 2),
    sdp.PrivSet(4.0, 16, 3),
]


@pytest.mark.parametrize("mechanism", SUPPORTING, ids=str)
@pytest.mark.parametrize("users", [50, 100])
def test_counts_of_any_size_are_covered(mechanism: Mechanism, users: int) -> None:
    """From nobody to everybody; v ± 1.96·(standard error of v) covered a wheel's two users of 50 in 47% of the time."""
    reading = mechanism.estimator
    assert isinstance(reading, SupportEstimator)
    for held in (0, 1, 2, 5, users // 4, users // 2, users - 1, users):
        chances = supports(float(reading.true_support), float(reading.false_support), held, users)
        found = reading.estimate_from_supports(np.arange(users + 1), users)
        covered = coverage(found, chances, held)
        assert covered >= LEAST
        assert covered <= MOST or chances.max() > DISCRETE


def test_dummies_that_are_nearly_always_there() -> None:
    """A coin of 0.99 a user, whose lack is rare: the interval is longer to one side, and covers 98.6% at once."""
    reading, users = sdp.BalcerCheu(options=3, coin=0.99, coins=1).estimator, 50
    assert isinstance(reading, SupportEstimator)
    chances = binom.pmf(np.arange(users + 1), users, 0.99)
    found = reading.estimate_from_supports(7 + np.arange(users + 1), users)
    assert coverage(found, chances, 7) == pytest.approx(chances[-3:].sum(), abs=1e-9)


def test_two_options_of_one_counter_are_mirrored() -> None:
    reading = sdp.BalcerCheu(options=2, coin=0.9, coins=1).estimator
    for count in range(40, 101, 7):
        low, high = reading.finish(np.array([count]), 50).interval(0.95)
        assert [50 - high[0], 50 - low[0]] == pytest.approx([low[1], high[1]], abs=1e-6)


@pytest.mark.parametrize(("epsilon", "options", "items"), [(1.0, 16, 3), (3.0, 4, 2), (0.5, 5, 2)])
def test_sampled_bits(epsilon: float, options: int, items: int) -> None:
    """How many say yes and no of an option: a table of both, of holders and of others, convolved."""
    mechanism, users = sdp.SamplingRAPPOR(epsilon, options, items), 50
    flip = float(mechanism.flip)
    no, yes = np.indices((users + 1, users + 1))
    for held in (0, 1, 10, 25, 50):
        laws = [_two_counts(kind, (1 - flip) / options, flip / options) for kind in (held, users - held)]
        # Holders say yes where the bit is not flipped, the others where it is.
        chances = convolve2d(laws[0], laws[1].T).reshape(-1)
        total = np.stack([no.reshape(-1), yes.reshape(-1)], axis=1)
        found = mechanism.estimator.finish(total, users)
        assert chances @ found.value == pytest.approx(held, abs=1e-6)
        assert LEAST <= coverage(found, chances, held) <= MOST
        exact = math.sqrt(float(chances @ (found.value - held) ** 2))
        # Where hardly anybody holds it, no estimate states less than an empty option has, and some state more.
        assert stated(found, chances) == pytest.approx(exact, rel=0.2 if held <= 1 else 0.1)


def _two_counts(users: int, right: float, wrong: float) -> Floats:
    """The law of how many of the users answer wrongly, and how many rightly; the rest are not asked."""
    found = np.zeros((users + 1, users + 1))
    for wrongly in range(users + 1):
        rest = users - wrongly
        found[wrongly, : rest + 1] = binom.pmf(wrongly, users, wrong) * binom.pmf(
            np.arange(rest + 1), rest, right / (1 - wrong)
        )
    return found


def test_a_query_of_some_users_has_the_cumulants_of_their_answers() -> None:
    """Who answers with chance 1/3 adds three times as much or nothing: moments by going through all outcomes."""
    level = sdp.KRR(2.0, 4).estimator
    assert isinstance(level, OptionCountEstimator)
    thinned = level.error_law(1).subsample(1 / 3, 1, 1)
    own, other = float(level.true_support), float(level.false_support)
    for held, chance in ((1.0, own), (0.0, other)):
        added = 3 * np.array([1 - other, -other]) / (own - other)
        outcomes, chances = np.append(added, 0.0), np.array([chance / 3, (1 - chance) / 3, 2 / 3])
        assert chances @ outcomes == pytest.approx(held)
        assert thinned.variance.evaluate(held) == pytest.approx(chances @ (outcomes - held) ** 2)
        assert thinned.third_cumulant.evaluate(held) == pytest.approx(chances @ (outcomes - held) ** 3)


def test_some_nodes_have_the_intervals_of_all() -> None:
    mechanism = sdp.RangeQueries(3.0, height=3)
    values = np.arange(60) % 8
    found = mechanism.estimate(mechanism.encode(values, rng=np.random.default_rng(2)))
    low, high = found.interval(0.9)
    for places in ([13, 0, 5], slice(3, 9)):
        np.testing.assert_array_equal(found.select(places).interval(0.9), [low[places], high[places]])


@pytest.mark.exhaustive
def test_cells_of_a_map_with_little_noise() -> None:
    """600 collections of one user in every cell, of which v ± 1.96 standard errors covered some in 81%.

    Below 92% by chance of 1e-7 at the most, for all 36 cells together.
    """
    reading, repeats = sdp.PlanarLaplace(20.0, columns=6).estimator, 600
    held, rng = np.full(36, 1), np.random.default_rng(8)
    ends = [reading.simulate(held, 36, rng).interval(0.95) for _ in range(repeats)]
    covered = np.mean([(low <= held) & (held <= high) for low, high in ends], axis=0)
    assert covered.min() >= binom.ppf(FALSE_ALARM / 36, repeats, LEAST) / repeats


# --- noise that no value changes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mean", [0.1, 0.5, 1.0, 3.0, 20.0, 80.0, 101.0, 400.0])
def test_counts_among_poisson_dummies(mean: float) -> None:
    """At least 95%, or 94.8% where a number more or less does not matter; and one number less would not do."""
    mechanism = sdp.PoissonDUMP(options=2, mean=mean, honest=0)
    numbers = np.arange(int(mean + 10 * math.sqrt(mean) + 20))
    chances = poisson.pmf(numbers, mean)
    reading = mechanism.estimator
    ends = [reading.finish(np.array([5 + number, 0]), 9).interval(0.95) for number in numbers.tolist()]
    covered = np.array([low[0] <= 5 <= high[0] for low, high in ends])
    share = chances[covered].sum()
    assert share >= (0.95 if mean <= 100 else 0.948)
    edges = chances[np.flatnonzero(covered)[[0, -1]]]
    assert share - edges.min() < 0.95


def test_dummies_of_two_tables_and_of_a_tree_have_the_same_law() -> None:
    half = sdp.PoissonTables(options=2, tables=2, mean=0.5, honest=50).estimator.finish(np.array([3, 0, 1, 2]), 50)
    low, high = half.interval(0.95)
    # 0, 1 or 2 dummies, and half a step.
    assert (low.tolist(), high.tolist()) == ([0.5, -2.5, -1.5, -0.5], [3.5, 0.5, 1.5, 2.5])


def differences(shape: float, rate: float) -> tuple[Array, Floats]:
    """X − Y, negative binomial each."""
    stop = -math.expm1(-rate)
    chances = nbinom.pmf(np.arange(int(nbinom.isf(1e-14, shape, stop)) + 2), shape, stop)
    return np.arange(1 - len(chances), len(chances)), np.convolve(chances, chances[::-1])


@pytest.mark.parametrize(("options", "rate"), [(2, 2.0), (3, 2.0), (10, 2.0), (10, 0.5), (4, 3.0)])
def test_counts_that_add_up_among_cancelling_noise(options: int, rate: float) -> None:
    """((k − 1)·Z − W)/k by convolving all k noises: at least 95%, and no more than one step of 1/k more than needed."""
    reading = sdp.CancellingNoise(options=options, rate=rate, shape=4.0, ratio=0.5, honest=0).estimator
    single, chances = differences(1.0, rate)
    rest = np.array([1.0])
    for _ in range(options - 1):
        rest = np.convolve(rest, chances)
    others = np.arange(len(rest)) - len(rest) // 2
    errors = np.abs(np.add.outer((options - 1) * single, -others))
    law = np.bincount(errors.reshape(-1), weights=np.outer(chances, rest).reshape(-1))
    margin = reading.finish(np.zeros(options, dtype=np.int64), 0).margin(0.95)[0] * options
    inside = np.cumsum(law)
    assert margin % 1 == pytest.approx(0.5)
    assert inside[int(margin)] >= 0.95
    assert inside[int(margin) - 1] < 0.95
    spread = law @ (np.arange(len(law)) / options) ** 2
    assert reading.finish(np.zeros(options, dtype=np.int64), 0).variance[0] == pytest.approx(spread, rel=1e-9)


# --- sums of shares -------------------------------------------------------------------------------------------------

NOISES = [(1.0, 50), (0.5, 5), (2.0, 50), (1.0, 1000)]
"""Rates, and the users whose noise is one Laplace number."""


def sums(mechanism: sdp.SplitAndMix, values: Floats) -> tuple[Estimate, Floats]:
    """Every estimate of such users, and its probability; by the sum that is read, not by shares."""
    steps, chances = differences(len(values) / mechanism.honest, mechanism.rate)
    places = values * mechanism.levels
    for place, users in zip(*np.unique(places % 1, return_counts=True), strict=True):
        chances = np.convolve(chances, binom.pmf(np.arange(users + 1), users, place))
    first = int(steps[0]) + int(np.floor(places).sum())
    kept = np.flatnonzero(chances > TINY)
    reading, sent = mechanism.estimator, (first + kept) % mechanism.modulus
    found = [reading.finish(reading.accumulate(np.array([one])), len(values)) for one in sent.tolist()]
    value, variance = (np.concatenate([getattr(one, name) for one in found]) for name in ("value", "variance"))
    return SeveralEstimates(value, variance, len(values), tuple(found)), chances[kept]


class SeveralEstimates(Estimate):
    """Estimates of one number each, with their own intervals."""

    def __init__(self, value: Floats, variance: Floats, users: int, single: tuple[Estimate, ...]) -> None:
        super().__init__(value, variance, users)
        object.__setattr__(self, "single", single)

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        ends: tuple[Estimate, ...] = self.single  # type: ignore[attr-defined]
        low, high = zip(*(one.interval(confidence) for one in ends), strict=True)
        return np.concatenate(low), np.concatenate(high)


def one_level(rate: float, honest: int) -> sdp.SplitAndMix:
    return sdp.SplitAndMix(rate=rate, levels=1, modulus=1 << 13, messages=3, honest=honest)


@pytest.mark.parametrize(("rate", "honest"), NOISES)
@pytest.mark.parametrize("value", [0.0, 1.0, 0.02, 0.3, 0.5])
def test_sums_of_one_level_where_all_users_are_alike(rate: float, honest: int, value: float) -> None:
    """The rounding was stated at its most: of users who are all at an end 5.4 times too much, and all were covered."""
    values = np.full(50, value)
    found, chances = sums(one_level(rate, honest), values)
    assert LEAST <= coverage(found, chances, value) <= MOST
    exact = math.sqrt(float(chances @ (found.value - value) ** 2))
    assert stated(found, chances) == pytest.approx(exact, rel=0.2)
    assert chances @ found.standard_error == pytest.approx(exact, rel=0.15)


@pytest.mark.parametrize(("rate", "honest"), NOISES)
def test_sums_of_users_at_both_ends(rate: float, honest: int) -> None:
    """Their sum does not tell them from users in the middle, unless it is known that all are at an end."""
    mechanism, values = one_level(rate, honest), np.repeat([0.0, 1.0], 25)
    found, chances = sums(mechanism, values)
    assert coverage(found, chances, 0.5) > 0.95
    single = found.single  # type: ignore[attr-defined]
    ends = SeveralEstimates(
        found.value, found.variance, 50, tuple(map(mechanism.estimator.for_endpoint_values, single))
    )
    assert LEAST <= coverage(ends, chances, 0.5) <= MOST
    exact = math.sqrt(float(chances @ (found.value - 0.5) ** 2))
    assert mechanism.estimator.for_endpoint_values(single[0]).standard_error[0] == pytest.approx(exact, rel=1e-6)


def test_yes_and_no_are_at_the_ends() -> None:
    """A count of answers, by shares: the report states the noise alone."""
    task = sdp.tasks.Count()
    mechanism = sdp.SplitAndMix(rate=1.0, levels=1, modulus=1 << 13, messages=3, honest=100)
    estimate = mechanism.estimate(mechanism.encode(np.repeat([0.0, 1.0], 50), rng=np.random.default_rng(3)))
    (count,) = task.quantities(mechanism, estimate, 0.95)
    assert count.standard_error is not None
    # A Laplace number of rate 1: 2q/(1 − q)².
    assert count.standard_error[0] == pytest.approx(math.sqrt(2 * math.exp(-1)) / (1 - math.exp(-1)), rel=1e-9)


def test_an_interval_moves_with_its_estimate() -> None:
    mechanism = sdp.SplitAndMix(rate=0.5, levels=2, modulus=1 << 12, messages=3, honest=50, low=-1.0, high=3.0)
    found = mechanism.estimator.finish(mechanism.estimator.accumulate(np.array([3])), 50)
    for scale, shift in ((2.0, 1.0), (-0.5, 4.0), (50.0, 0.0)):
        ends = sorted(scale * float(end[0]) + shift for end in found.interval(0.9))
        assert [float(end[0]) for end in found.transform(scale, shift).interval(0.9)] == pytest.approx(ends)


@pytest.mark.parametrize("levels", [1, 2, 5])
def test_no_users_are_rounded_more_than_is_said_of_their_mean(levels: int) -> None:
    """Of 20,000 made-up pairs of places and weights; and some pair comes near it at every mean."""
    rng = np.random.default_rng(4)
    places, weights = rng.uniform(0, levels, (20_000, 2)), rng.random(20_000)
    means = weights * places[:, 0] + (1 - weights) * places[:, 1]
    fractions = places % 1
    rounded = (np.stack([weights, 1 - weights], axis=1) * fractions * (1 - fractions)).sum(axis=1)
    most = np.array([max_rounding_variance(mean, levels) for mean in means.tolist()])
    assert (rounded <= most + 1e-12).all()
    for low in np.arange(0.0, levels, 0.25):
        near = (means >= low) & (means < low + 0.25)
        assert (rounded / most)[near].max() > 0.97


def vector_sums(
    mechanism: sdp.SplitAndMixVector, users: int, vector: tuple[int, int]
) -> Iterator[tuple[Estimate, float]]:
    """Every estimate of users who all hold this point of the grid, with its probability."""
    spread = users * mechanism.scale**2 / mechanism.honest
    numbers = np.arange(-int(6 * math.sqrt(spread)) - 3, int(6 * math.sqrt(spread)) + 4)
    chances = skellam.pmf(numbers, spread / 2, spread / 2)
    for first, chance in zip(numbers.tolist(), chances.tolist(), strict=True):
        for second, other in zip(numbers.tolist(), chances.tolist(), strict=True):
            if chance * other > 1e-7:
                places = (users * vector[0] + first, users * vector[1] + second)
                sent = [place % mechanism.modulus + k * mechanism.modulus for k, place in enumerate(places)]
                yield mechanism.estimator.finish(mechanism.estimator.accumulate(np.array(sent)), users), chance * other


@pytest.mark.parametrize(
    ("scale", "shape", "vector"), [(0.5, "box", (1, -1)), (1.0, "ball", (0, 1)), (2.0, "box", (1, 1))]
)
def test_vectors_that_are_all_alike(scale: float, shape: str, vector: tuple[int, int]) -> None:
    """Users at corners of the box, or at the ball's edge, are not rounded, and their mean says so."""
    mechanism = sdp.SplitAndMixVector(2, scale=scale, levels=1, modulus=1 << 10, messages=2, honest=50, shape=shape)
    covered, weight = np.zeros(2), 0.0
    for found, chance in vector_sums(mechanism, 50, vector):
        low, high = found.interval(0.95)
        covered += chance * ((low <= np.array(vector) + 1e-9) & (np.array(vector) - 1e-9 <= high))
        weight += chance
    assert weight > 0.999
    # A deviation of half a step or one: 0 and ±1, or 0 to ±2, are all that there is between.
    assert covered.min() >= LEAST
    assert covered.max() <= (MOST if scale > 1 else 0.995)


def test_picked_options_have_their_own_tails() -> None:
    mechanism = sdp.PlanarLaplace(6.0, columns=3)
    reading, whole = mechanism.build_estimator(np.array([4, 0])), mechanism.estimator
    assert isinstance(reading, SelectedComponentsEstimator)
    total = np.arange(10)
    low, high = whole.finish(total, 45).interval(0.95)
    some = reading.finish(total, 45).interval(0.95)
    np.testing.assert_allclose(some, [low[[4, 0]], high[[4, 0]]])
