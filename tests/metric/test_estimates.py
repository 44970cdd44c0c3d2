"""What steers the search, in floats, against the certified values of the same theorem; proofs at most the target."""

from __future__ import annotations

import math

import numpy as np
import pytest

from shuffledp.bounds.local_metric_solver import DistanceSearch, PairProofs
from shuffledp.bounds.metric_amplification import (
    MetricVariationRatio,
    PairDistanceArrays,
    all_amplifications,
    clone_sums,
)
from shuffledp.bounds.metric_noise_laws import (
    AnyNoise,
    LineLaplaceNoise,
    MetricNoise,
    PlanarLaplaceNoise,
    WitchHatNoise,
)
from shuffledp.privacy.metric_space import DistanceMatrix

USERS, DELTA = 20_000, 1e-6
SPACE = DistanceMatrix.from_points([[0.0], [0.7], [1.2], [2.0]])


@pytest.mark.parametrize(
    "noise",
    [AnyNoise(), LineLaplaceNoise(), PlanarLaplaceNoise(), WitchHatNoise(1.0, 3.0, 0.5)],
    ids=lambda noise: noise.name,
)
def test_noise_in_floats(noise: MetricNoise) -> None:
    distances = np.array([1e-3, 0.1, 1.0, 2.9, 3.1, 8.0])
    exact = [noise.total_variation(distance) for distance in distances.tolist()]
    assert noise.estimate_total_variations(distances) == pytest.approx(exact, rel=1e-9)


def test_noise_far_out() -> None:
    """Where the special functions leave nothing certain, any randomizer's β is taken."""
    for distance in (100.0, 250.0, 600.0):
        assert PlanarLaplaceNoise().total_variation(distance) == AnyNoise().total_variation(distance) < 1 + 1e-12


def test_many_pairs_are_the_pairs() -> None:
    """The numbers of every pair, as the space tells them one by one."""
    many = PairDistanceArrays.from_space(SPACE)
    for place, (a, b) in enumerate(SPACE.pairs()):
        one = SPACE.pair_distances(a, b)
        for name in ("distance", "farthest_from_first", "farthest_from_second", "clone_sum", "diameter"):
            assert getattr(many, name)[place] == pytest.approx(getattr(one, name), rel=1e-14)
    assert clone_sums(SPACE.matrix)[0, 1] == pytest.approx(math.exp(2.0) + math.exp(1.3))


@pytest.mark.exhaustive("all-crowds")
@pytest.mark.parametrize("name", list(all_amplifications()))
def test_estimates_and_guesses(name: str) -> None:
    """A little above the certified excess, where that is near 0; the guess of ε a little above the certified ε."""
    bound, many = all_amplifications()[name], PairDistanceArrays.from_space(SPACE)
    exact = np.array([bound.epsilon(SPACE.pair_distances(a, b), USERS, DELTA).upper for a, b in SPACE.pairs()])
    near = 1e-3 if name == "all-crowds" else 2e-4
    barely = bound.estimate_excesses(many, USERS, DELTA, exact * (1 + near))
    assert (barely < 0).all()
    assert (bound.estimate_excesses(many, USERS, DELTA, exact * (1 - near)) > 0).all()
    guesses = bound.guess_epsilons(many, USERS, DELTA)
    if name == "clone" or "variation" in name:
        assert (guesses > exact).all()
        assert guesses == pytest.approx(exact, rel=near)
    amplified = PairProofs(DistanceMatrix(SPACE.matrix), USERS, DELTA, bound).prove_distances(SPACE)
    found = np.array([amplified[pair] for pair in SPACE.pairs()])
    assert (found >= exact * (1 - 1e-9)).all()
    assert found == pytest.approx(exact, rel=near)


def test_estimates_where_nothing_is_to_be_proved() -> None:
    """Below the target nothing is in excess; where floats give out, everything is."""
    bound = MetricVariationRatio()
    pairs = PairDistanceArrays(*(np.array([value]) for value in (1.0, 600.0, 650.0, 1e300, 650.0)))
    assert bound.estimate_excesses(pairs, 10, DELTA, np.array([2.0])).tolist() == [-math.inf]
    (beyond,) = bound.estimate_excesses(pairs, 10, DELTA, np.array([0.5])).tolist()
    assert beyond > 0


def test_a_distance_is_raised_as_far_as_the_others_allow() -> None:
    """By a search of its own: bisection over one distance with the certified bound of every pair."""
    target = DistanceMatrix([[0, 0.1, 0.3], [0.1, 0, 0.2], [0.3, 0.2, 0]])  # type: ignore[arg-type]
    search = DistanceSearch(target.matrix, USERS, DELTA, MetricVariationRatio())
    start = target.matrix * 4
    raised = search.raise_distances(start, keep_triangles=False)
    assert (raised >= start).all()
    bound = MetricVariationRatio()

    def feasible(matrix: np.ndarray) -> bool:
        space = DistanceMatrix(matrix)
        return all(
            bound.excess(space.pair_distances(a, b), USERS, DELTA, float(target.matrix[a, b])) <= 0
            for a, b in space.pairs()
        )

    # The smallest distance is the first to be raised, while the others are as they were.
    low, high = 0.4, 20.0
    while high / low > 1 + 1e-4:
        matrix = start.copy()
        matrix[0, 1] = matrix[1, 0] = middle = math.sqrt(low * high)
        low, high = (middle, high) if feasible(matrix) else (low, middle)
    assert raised[0, 1] == pytest.approx(low, rel=2e-3)
    assert feasible(raised * (1 - 1e-3))


def test_triangles_are_kept() -> None:
    """Raised distances stay a metric where they were one, and never fall."""
    target = DistanceMatrix(SPACE.matrix * 0.15)
    search = DistanceSearch(target.matrix, USERS, DELTA, MetricVariationRatio())
    start = target.matrix * 3
    told: list[int] = []
    raised = search.raise_distances(start, keep_triangles=True, advance=told.append)
    assert sum(told) == 6
    assert (raised >= start).all()
    assert raised.sum() > 1.2 * start.sum()
    DistanceMatrix(raised).check_triangle_inequality("raised")
