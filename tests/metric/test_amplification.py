"""Amplified distances: the figures of the theory, and soundness against the real protocol on small tables."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations_with_replacement, permutations
from random import Random

import numpy as np
import pytest

from shuffledp.bounds.metric_amplification import (
    Amplification,
    AmplifiedMetric,
    Corollary1,
    Corollary2,
    ExactClone,
    MechanismMetric,
    MetricVariationRatio,
    Theorem1,
    UniformCorollary2,
    all_amplifications,
    find_amplification,
)
from shuffledp.bounds.metric_noise_laws import LineLaplaceNoise, PlanarLaplaceNoise
from shuffledp.mechanisms.frequency.randomized_response import KRR
from shuffledp.mechanisms.metric.exponential import PaddedExponential
from shuffledp.privacy.metric_space import Box, DistanceMatrix, Segment
from tests.oracle import exact_enumeration
from tests.oracle.double_precision import delta_published_float, epsilon_root

USERS, DELTA = 100_000, 1e-7
FAR = math.log(50)


def triangle(distance: float) -> DistanceMatrix:
    """D(b,c) = log 50, D(a,c) = D + log 50."""
    return DistanceMatrix(
        [[0.0, distance, distance + FAR], [distance, 0.0, FAR], [distance + FAR, FAR, 0.0]]  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("distance", "closed", "clone", "lower"),
    [(0.1, 0.017369, 0.0081947, 0.0079211), (1.0, 0.21415, 0.117678, 0.098440), (3.0, 1.40085, 0.620425, 0.498207)],
)
def test_the_figures_of_the_theory(distance: float, closed: float, clone: float, lower: float) -> None:
    """n = 1e5, δ = 1e-7: Theorem 1 and the exact clone to the digits given; ours is between clone and lower bound."""
    pair = triangle(distance).pair_distances(0, 1)
    assert Theorem1().epsilon(pair, USERS, DELTA).upper == pytest.approx(closed, rel=3e-5)
    assert ExactClone().epsilon(pair, USERS, DELTA).upper == pytest.approx(clone, rel=1e-5)
    ours = MetricVariationRatio().epsilon(pair, USERS, DELTA)
    assert lower < ours.upper < clone
    assert ours.certified
    assert ours.guarantee


@pytest.mark.parametrize("distance", [0.1, 1.0, 3.0])
def test_the_exact_clone_by_another_route(distance: float) -> None:
    """The floating oracle of the published pair with r = 1/R, which is sound because nothing is in common."""
    pair = triangle(distance).pair_distances(0, 1)
    ratio = math.exp(distance)
    hiding = ratio / (ratio + 1) * pair.clone_sum

    def delta(epsilon: float) -> float:
        return delta_published_float(ratio, math.tanh(distance / 2), hiding, hiding, USERS, epsilon)

    found = ExactClone().epsilon(pair, USERS, DELTA).upper
    assert found == pytest.approx(epsilon_root(delta, DELTA, distance), rel=1e-6)


def private_distances(table: list[list[Fraction]]) -> DistanceMatrix:
    """The smallest distances for which a table is private, rounded up."""
    size = len(table)
    matrix = np.zeros((size, size))
    for a, b in permutations(range(size), 2):
        ratio = max(max(x / y, y / x) for x, y in zip(table[a], table[b], strict=True))
        matrix[a, b] = math.nextafter(math.log(ratio), math.inf)
    return DistanceMatrix(matrix)


def different_rows(rng: Random, *, extremal: bool) -> list[list[Fraction]]:
    """A random table of three inputs, no two of them the same."""
    while True:
        table = (
            exact_enumeration.random_extremal_table(rng, 3, 4, 3)
            if extremal
            else exact_enumeration.random_table(rng, 3, 3)
        )
        if all(table[a] != table[b] for a, b in ((0, 1), (0, 2), (1, 2))):
            return table


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("amplification", [MetricVariationRatio(), ExactClone()], ids=lambda a: a.name)
def test_no_value_is_below_the_real_protocol(amplification: Amplification, seed: int) -> None:
    """Random tables, every pair, every dataset of the others, exact: δ of the bound at ε is at least the truth."""
    table = different_rows(Random(seed), extremal=seed % 2 == 0)
    space = private_distances(table)
    users = 3
    for ratio in (Fraction(9, 8), Fraction(3, 2)):
        epsilon = math.log(ratio)
        for a, b in permutations(range(3), 2):
            truth = max(
                exact_enumeration.shuffled_divergence([table] * users, a, b, others, ratio)
                for others in combinations_with_replacement(range(3), users - 1)
            )
            assert isinstance(amplification, MetricVariationRatio | ExactClone)
            claimed = amplification.curve(space.pair_distances(a, b), users).delta(epsilon).upper
            assert claimed >= float(truth) * (1 - 1e-9)


POINTS = DistanceMatrix.from_points(np.random.default_rng(8).random((4, 2)) * 2)


@pytest.mark.parametrize(("users", "delta"), [(2_000, 1e-5), (30_000, 1e-8)])
@pytest.mark.parametrize(("a", "b"), list(POINTS.pairs()))
def test_the_bounds_are_ordered(a: int, b: int, users: int, delta: float) -> None:
    """Numeric ≤ clone ≤ Theorem 1 ≤ Corollary 1; none above the local distance; more noise, less distance."""
    pair = POINTS.pair_distances(a, b)
    values = {name: each.epsilon(pair, users, delta).upper for name, each in all_amplifications().items()}
    assert values["variation-ratio"] <= values["clone"] * (1 + 1e-9)
    assert values["clone"] <= values["theorem-1"] <= values["corollary-1"] <= pair.distance
    assert values["theorem-1"] <= values["corollary-2"] <= values["corollary-2-uniform"]
    known = MetricVariationRatio(PlanarLaplaceNoise()).epsilon(pair, users, delta).upper
    assert known < values["variation-ratio"]


def test_corollary_2_needs_its_condition() -> None:
    """n ≥ 8LR: just below it the distance itself is returned."""
    pair = triangle(1.0).pair_distances(0, 1)
    least = math.ceil(8 * math.log(4 / DELTA) * pair.clone_sum)
    assert Corollary2().epsilon(pair, least + 1, DELTA).upper < 1.0
    assert Corollary2().epsilon(pair, least - 1, DELTA).upper == 1.0
    assert Corollary1().epsilon(pair, 1000, DELTA).upper == 1.0
    uniform = UniformCorollary2().epsilon(pair, 10**7, DELTA).upper
    factor = 2 * math.exp(pair.diameter)
    log = math.log(4 / DELTA)
    share = factor / (2 * (10**7 - 1))
    assert uniform == pytest.approx(math.log1p(8 * math.tanh(0.5) * (math.sqrt(share * log) + share)), rel=1e-12)


def test_the_amplified_metric_is_an_object() -> None:
    """A matrix on a finite space; a function of the distance on a line and in a box, never below a pair's value."""
    space = triangle(1.0)
    metric = AmplifiedMetric(space, 10_000, 1e-6)
    np.testing.assert_array_equal(metric.matrix, metric.matrix.T)
    assert metric.matrix[0, 1] == metric(0, 1).upper == metric(1, 0).upper
    assert metric(2, 2).upper == 0.0
    line = AmplifiedMetric(Segment(0.0, 2.0), 10_000, 1e-6, MetricVariationRatio(LineLaplaceNoise()))
    assert line(0.5, 1.5).upper < line.at_epsilon_local(1.0).upper < line.at_epsilon_local(2.0).upper < 2.0
    box = AmplifiedMetric(Box(1.0, 1.0), 10_000, 1e-6, MetricVariationRatio(PlanarLaplaceNoise()))
    assert box((0.2, 0.2), (0.8, 0.8)).upper < box.at_epsilon_local(math.dist((0.2, 0.2), (0.8, 0.8))).upper
    with pytest.raises(TypeError, match="a matrix needs a finite space"):
        _ = line.matrix
    with pytest.raises(ValueError, match="users must be at least 1"):
        AmplifiedMetric(space, 0, 1e-6)
    with pytest.raises(ValueError, match="bound must be one of theorem-1"):
        find_amplification("nothing")


@pytest.mark.exhaustive
def test_a_mechanism_does_better_than_any_randomizer() -> None:
    """Its own laws are at least as good as its distances alone, and its attack is below."""
    space = triangle(1.0)
    own = MechanismMetric(PaddedExponential(space.matrix), 10_000, 1e-6)
    general = AmplifiedMetric(space, 10_000, 1e-6)
    assert (own.matrix([0, 1, 2]) <= general.matrix * (1 + 1e-9)).all()
    value = own(0, 1)
    assert value.lower is not None
    assert 0 < value.lower <= value.upper == own.within(1.0).upper
    with pytest.raises(TypeError, match="expected a metric mechanism, got KRR"):
        MechanismMetric(KRR(1.0, 4), 100, 1e-6)  # type: ignore[arg-type]
