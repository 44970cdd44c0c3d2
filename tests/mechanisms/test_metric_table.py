"""Mechanisms on finite metric spaces: private for the distance to the last unit; pairs and diameters."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations_with_replacement, permutations

import numpy as np
import pytest
from flint import arb, ctx

import shuffledp as sdp
from shuffledp.bounds.compare_metric import lower_bound
from tests.metric.test_amplification import triangle
from tests.oracle import exact_enumeration

Kind = type[sdp.PaddedExponential] | type[sdp.Exponential]
KINDS: list[Kind] = [sdp.PaddedExponential, sdp.Exponential]


def spaces() -> list[sdp.metric.DistanceMatrix]:
    generator = np.random.default_rng(17)
    return [
        triangle(1.0),
        triangle(1e-6),
        sdp.metric.DistanceMatrix.from_points(generator.random((9, 2)), rate=5.0),
        sdp.metric.DistanceMatrix.from_points(generator.random((4, 3)), rate=30.0 / math.sqrt(3)),
        sdp.metric.DistanceMatrix.from_points([[float(x)] for x in range(6)], rate=0.1),
    ]


def assert_private(mechanism: sdp.PaddedExponential | sdp.Exponential | sdp.PlanarLaplace) -> None:
    """No entry exceeds e^D times another one of its column, exactly."""
    rows, distances = mechanism.unit_table.units.tolist(), mechanism.space.matrix
    with ctx.workprec(256):
        for a, b in permutations(range(len(rows)), 2):
            limit = arb(float(distances[a, b])).exp()
            for x, y in zip(rows[a], rows[b], strict=True):
                assert arb(x) <= limit * y
    assert len({sum(row) for row in rows}) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("space", spaces(), ids=lambda space: f"{space.size}-{space.diameter:.3g}")
def test_the_executed_table_is_private_for_the_distance(kind: Kind, space: sdp.metric.DistanceMatrix) -> None:
    assert_private(kind(space.matrix))  # type: ignore[call-arg]


@pytest.mark.parametrize("space", spaces(), ids=lambda space: f"{space.size}-{space.diameter:.3g}")
def test_the_tables_are_what_they_are_called(space: sdp.metric.DistanceMatrix) -> None:
    """Close to e^−D/N with the least N, and to e^(−D/2) normalised."""
    padded, plain = sdp.PaddedExponential(space.matrix), sdp.Exponential(space.matrix)
    weights = np.exp(-space.matrix)
    sums = weights.sum(axis=1)
    norm = max(
        (math.exp(d) * max(sums[a], sums[b]) - min(sums[a], sums[b])) / math.expm1(d)
        for a, b in space.pairs()
        for d in [float(space.matrix[a, b])]
    )
    np.testing.assert_allclose(
        padded.unit_table.units[:, :-1] / padded.unit_table.total_units, weights / norm, rtol=2e-5
    )
    halves = np.exp(-space.matrix / 2)
    np.testing.assert_allclose(
        plain.unit_table.units[:, :-1] / plain.unit_table.total_units,
        halves / halves.sum(axis=1, keepdims=True),
        rtol=1e-5,
    )
    assert plain.unit_table.units[:, -1].max() / plain.unit_table.total_units < 1e-9


def test_the_figures_of_the_lower_bound_are_attained() -> None:
    """The padded mechanism between a and b: what the theory calls the lower bound is its attack."""
    mechanism, users, delta = sdp.PaddedExponential(triangle(1.0).matrix), 100_000, 1e-7
    value = sdp.amplify(mechanism, users, pair=(0, 1), effort="quick").epsilon(delta)
    assert value.lower == pytest.approx(lower_bound(triangle(1.0), 0, 1, users, delta), rel=1e-6)
    assert value.lower is not None
    assert value.lower <= value.upper < 1.001 * value.lower


@pytest.mark.parametrize("example", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_pairs_and_diameters_cover_the_real_protocol(kind: Kind, example: int) -> None:
    """Three users, all datasets, exact: a pair's δ is at least the truth of the pair; a diameter's that of all near."""
    mechanism = kind.examples()[example]
    rows = [list(row) for row in mechanism.table().probabilities]
    size, users, ratio = len(rows), 3, Fraction(9, 8)
    epsilon = math.log(ratio)
    truth: dict[tuple[int, int], Fraction] = {}
    for others in combinations_with_replacement(range(size), users - 1):
        crowd = exact_enumeration.shuffled_law([rows[value] for value in others], len(rows[0]))
        laws = [exact_enumeration.add_one_message(crowd, row) for row in rows]
        for a, b in permutations(range(size), 2):
            found = exact_enumeration.hockey_stick(laws[a], laws[b], ratio)
            truth[a, b] = max(truth.get((a, b), Fraction(0)), found)
    distances = mechanism.space.matrix
    claims = {}
    for a, b in mechanism.space.pairs():
        value = sdp.amplify(mechanism, users, pair=(a, b), effort="quick").delta(epsilon)
        claims[a, b] = value.upper
        assert value.upper >= float(max(truth[a, b], truth[b, a])) * (1 - 1e-12)
        assert value.lower is not None
        assert value.lower <= float(max(truth[a, b], truth[b, a])) * (1 + 1e-9)
    for diameter in {float(distances[pair]) for pair in mechanism.space.pairs()}:
        value = sdp.amplify(mechanism, users, diameter=diameter, effort="quick").delta(epsilon)
        near = [claims[pair] for pair in mechanism.space.pairs() if distances[pair] <= diameter]
        assert value.upper == pytest.approx(max(near), rel=1e-9)


def test_many_inputs_use_the_worst_parameters() -> None:
    """Beyond a few hundred kinds of pairs parameters give the answer; never below a pair inside the diameter."""
    space = sdp.metric.DistanceMatrix.from_points(np.random.default_rng(2).random((34, 2)), rate=3.0)
    mechanism = sdp.PaddedExponential(space.matrix)
    all_of_it = sdp.amplify(mechanism, 5_000, effort="quick").epsilon(1e-6).upper
    within = sdp.amplify(mechanism, 5_000, diameter=2.0, effort="quick").epsilon(1e-6).upper
    assert within <= all_of_it * (1 + 1e-9)
    near = [pair for pair in space.pairs() if space.matrix[pair] <= 2.0]
    worst = max(near, key=lambda pair: float(space.matrix[pair]))
    assert sdp.amplify(mechanism, 5_000, pair=worst, effort="quick").epsilon(1e-6).upper <= within


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_refused(kind: Kind) -> None:
    name = kind.__name__
    for matrix, sentence in (
        (
            [[0, 1, 5], [1, 0, 2], [5, 2, 0]],
            f"{name}: the distances must obey the triangle inequality, but row 0, column 2",
        ),
        ([[0, 50], [50, 0]], f"{name}: distances must be at most 36, got 50.0"),
        ([[0, 1e-12], [1e-12, 0]], f"{name}: distances must be at least 1e-09"),
        ([[0, 1], [2, 0]], "row 0, column 1 must equal row 1, column 0"),
    ):
        with pytest.raises(ValueError, match=sentence):
            kind(matrix)  # type: ignore[call-arg]
    mechanism = kind([[0, 1], [1, 0]])  # type: ignore[call-arg]
    with pytest.raises(ValueError, match=r"diameter must be at least the smallest distance 1.0, got 0.5"):
        sdp.amplify(mechanism, 100, diameter=0.5, effort="quick")
    with pytest.raises(ValueError, match="an input must be from 0 to 1, got 2"):
        sdp.amplify(mechanism, 100, pair=(0, 2), effort="quick")
    with pytest.raises(ValueError, match="either pair or diameter, not both"):
        sdp.amplify(mechanism, 100, pair=(0, 1), diameter=1.0, effort="quick")
    with pytest.raises(ValueError, match="pair must be two inputs, got 3"):
        sdp.amplify(mechanism, 100, pair=(0, 1, 1), effort="quick")
    with pytest.raises(TypeError, match="need a metric mechanism, got KRR"):
        sdp.amplify(sdp.KRR(1.0, 4), 100, pair=(0, 1), effort="quick")
