"""Noise on a line: a few points stand for every pair and every other user, checked one by one in convex order."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp._core.validation import Floats
from shuffledp.bounds.worst_dataset_bound import WorstDatasetBound
from shuffledp.mechanisms.mean.laplace import NodeClasses, _distance_bins, _third_points, build_point_other_users
from shuffledp.privacy.dominating_pairs import HidingPair
from shuffledp.testing.bounds import build_trial, compare_bounds


def noise_law(rate: float, point: int, reach: int) -> Floats:
    """From the definition, on −reach … reach."""
    places = np.arange(-reach, reach + 1)
    return np.asarray(math.tanh(rate / 2) * np.exp(-rate * np.abs(places - point)))


def excesses(values: Floats, weights: Floats, levels: Floats) -> Floats:
    """E(G − k)_+ at every level k."""
    return np.asarray(np.maximum(values[:, None] - levels, 0.0).T @ weights)


def of_pair(pair: HidingPair, epsilon: float) -> tuple[Floats, Floats]:
    return pair.law(epsilon).floats()


def exact_law(rate: float, pair: tuple[int, int], other: int, epsilon: float) -> tuple[Floats, Floats]:
    """Of G, from the definition; what is cut off the line's ends is the same for all, and tiny."""
    first, second, hiding = (noise_law(rate, point, 1500) for point in (*pair, other))
    return (first - math.exp(epsilon) * second) / hiding, hiding


def is_below(law: tuple[Floats, Floats], mixture: list[tuple[float, tuple[Floats, Floats]]]) -> bool:
    """E(G − k)_+ is nowhere larger than that of a mixture, at every value of either."""
    levels = np.unique(np.concatenate([law[0], *(values for _, (values, _) in mixture)]))
    above = sum(share * excesses(*one, levels) for share, one in mixture)
    return bool((excesses(*law, levels) <= above + 1e-9).all())


GRID = 40
SETTINGS = [(local, epsilon) for local in (0.5, 3.0) for epsilon in (0.0, 0.07, 0.4)]


@pytest.mark.parametrize(("local", "epsilon"), SETTINGS)
def test_a_bin_of_pairs_is_below_its_kind(local: float, epsilon: float) -> None:
    """Each pair (u, end) and 0 below that of its bin alone; the farthest third of the bin would not do."""
    rate = Fraction(local) / GRID
    kinds = build_point_other_users(rate, GRID, 0.1).user_pairs[len(_third_points(GRID, local)) :]
    nearer = 0
    for place, (start, end) in enumerate(_distance_bins(GRID, local)):
        low, high = (of_pair(kinds[2 * place + side], epsilon) for side in (0, 1))
        for u in range(start, end):
            # A pair that is nearer than ε tells nothing, whatever the crowd is.
            if float(rate) * (GRID - u) > epsilon:
                assert is_below(exact_law(float(rate), (u, GRID), 0, epsilon), [(1.0, low)])
                assert is_below(exact_law(float(rate), (0, GRID - u), GRID, epsilon), [(1.0, high)])
        far = exact_law(float(rate), (start, GRID), start + 1 - end, epsilon)
        nearer += not is_below(exact_law(float(rate), (start, GRID), 0, epsilon), [(1.0, far)])
    assert nearer > 0


@pytest.mark.parametrize(("local", "epsilon"), SETTINGS)
def test_points_between_two_are_below_their_mixture(local: float, epsilon: float) -> None:
    """With the weights of the proof."""
    rate = Fraction(local) / GRID
    r, thirds = float(rate), _third_points(GRID, local)
    kinds = [of_pair(kind, epsilon) for kind in build_point_other_users(rate, GRID, 0.1).user_pairs[: len(thirds)]]
    for place, (u, v) in enumerate(pairwise(thirds)):
        for x in range(u, v + 1):
            alpha, beta = math.sinh((v - x) * r), math.sinh((x - u) * r)
            share = alpha / (alpha + beta)
            mixture = [(share, kinds[place]), (1 - share, kinds[place + 1])]
            assert is_below(exact_law(r, (0, GRID), x, epsilon), mixture)


@pytest.mark.parametrize(("local", "epsilon"), SETTINGS)
def test_pairs_that_move_apart_spread(local: float, epsilon: float) -> None:
    """Raising b where x is not above it, lowering a where x is not below it: one step, unless nothing is told."""
    r = local / GRID
    for a, b, x in ((5, 20, 5), (5, 20, 12), (5, 20, 20), (9, 10, 9), (0, 39, 20), (3, 30, 31), (3, 30, 1)):
        law = exact_law(r, (a, b), x, epsilon)
        if law[0].max() <= 0:
            continue
        if x <= b:
            assert is_below(law, [(1.0, exact_law(r, (a, b + 1), x, epsilon))])
        if x >= a:
            assert is_below(law, [(1.0, exact_law(r, (a - 1, b), x, epsilon))])


def test_messages_between_nodes_are_told_as_nodes() -> None:
    """Sums of each law are 1, and what is told as a node is what its messages weigh."""
    rate, nodes = Fraction(1, 10), (-3, 0, 4, 5, 11)
    classes = NodeClasses(rate, nodes, 0, 5, (11,), gap=1)()
    for place, point in enumerate((0, 5, 11)):
        law = noise_law(0.1, point, 2000)
        total = np.zeros(len(nodes))
        for y, chance in zip(range(-2000, 2001), law, strict=True):
            if y <= nodes[0] or y >= nodes[-1]:
                total[0 if y <= nodes[0] else -1] += chance
                continue
            left = max(i for i, node in enumerate(nodes) if node <= y)
            u, v = nodes[left], nodes[left + 1]
            total[left] += law[2000 + u] * math.sinh((v - y) * 0.1) / math.sinh((v - u) * 0.1)
            total[left + 1] += law[2000 + v] * math.sinh((y - u) * 0.1) / math.sinh((v - u) * 0.1)
        assert [float(c[place]) for c in classes] == pytest.approx(total.tolist(), rel=1e-9)
        assert sum(float(c[place]) for c in classes) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("mechanism", [sdp.Laplace(1.0, grid=3), sdp.Laplace(3.0, grid=4)], ids=str)
def test_against_all_datasets(mechanism: sdp.Laplace) -> None:
    found = list(compare_bounds([WorstDatasetBound(fewest=1)], build_trial(mechanism)))
    assert found
    assert [wrong for _, wrong in found if wrong] == []


@pytest.mark.exhaustive
@pytest.mark.parametrize(("local", "known"), [(0.5, 0.014982), (1.0, 0.031307)])
def test_near_the_attack(local: float, known: float) -> None:
    """Beside an independent computation, and hardly more than an attack attains."""
    found = sdp.amplify(sdp.Laplace(local), 10_000, bound="all-crowds").epsilon(1e-6)
    assert found.lower is not None
    assert found.lower <= found.upper <= min(known * 1.0002, found.lower * 1.001)


def test_a_fine_grid_costs_no_more() -> None:
    """The same numbers of kinds and classes for any grid."""
    coarse, fine = (build_point_other_users(Fraction(1, grid), grid, 0.5).user_pairs for grid in (1024, 1 << 20))
    assert len(fine) <= 1.6 * len(coarse)
    assert len(fine[0].classes()) <= 1.6 * len(coarse[0].classes())
