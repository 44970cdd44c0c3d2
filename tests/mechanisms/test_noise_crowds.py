"""Noise on a line: a few points stand for every pair and every other user, checked one by one in convex order."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.array import Floats
from shuffledp.bounds.all_crowds import AllCrowdsBound
from shuffledp.mechanisms.parts.noise_crowds import NodeClasses, others_of_points
from shuffledp.privacy.pair import HidingPair
from shuffledp.testing.bound_check import compare, trial_of


def noise_law(rate: float, point: int, reach: int) -> Floats:
    """From the definition, on −reach … reach."""
    places = np.arange(-reach, reach + 1)
    return np.asarray(math.tanh(rate / 2) * np.exp(-rate * np.abs(places - point)))


def excesses(values: Floats, weights: Floats, levels: Floats) -> Floats:
    """E(G − k)_+ at every level k."""
    return np.asarray(np.maximum(values[:, None] - levels, 0.0).T @ weights)


def of_pair(pair: HidingPair, epsilon: float) -> tuple[Floats, Floats]:
    return pair.law(epsilon).floats()


@pytest.mark.parametrize("local", [0.5, 2.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.07, 0.4])
def test_every_pair_and_every_other_user_is_below_a_mixture(local: float, epsilon: float) -> None:
    """All a < b and x of 0 … 15: the exact law of G against the kinds, or a mixture of two neighbouring ones."""
    grid = 15
    rate = Fraction(local) / grid
    kinds = [of_pair(kind, epsilon) for kind in others_of_points(rate, grid, 0.1).kinds]
    reach = 400
    laws = {x: noise_law(float(rate), x, reach) for x in range(grid + 1)}
    levels = np.unique(np.concatenate([values for values, _ in kinds] + [[-0.5, 0.0, 0.5]]))
    stands = [excesses(values, weights, levels) for values, weights in kinds]
    for a in range(grid + 1):
        for b in range(grid + 1):
            for x in range(grid + 1):
                if a == b:
                    continue
                # What is cut off the line's ends is the same for all, and tiny.
                values = (laws[a] - math.exp(epsilon) * laws[b]) / laws[x]
                if values.max() <= 0:
                    continue
                truth = excesses(values, laws[x], levels)
                assert is_below_a_mixture(truth, stands), (a, b, x)


def is_below_a_mixture(truth: Floats, stands: list[Floats]) -> bool:
    if any((truth <= one + 1e-9).all() for one in stands):
        return True
    return any(
        (truth <= share * one + (1 - share) * other + 1e-9).all()
        for one in stands
        for other in stands
        for share in np.linspace(0.0, 1.0, 33)
    )


def test_messages_between_nodes_are_told_as_nodes() -> None:
    """Sums of each law are 1, and what is told as a node is what its messages weigh."""
    rate, nodes = Fraction(1, 10), (-3, 0, 4, 5, 11)
    classes = NodeClasses(rate, nodes, 0, 5, 11, apart=1)()
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
    found = list(compare([AllCrowdsBound(fewest=1)], trial_of(mechanism)))
    assert found
    assert [wrong for _, wrong in found if wrong] == []


@pytest.mark.parametrize(("local", "known"), [(0.5, 0.014982), (1.0, 0.031307)])
def test_near_the_attack(local: float, known: float) -> None:
    """Beside an independent computation, and hardly more than an attack attains."""
    found = sdp.amplify(sdp.Laplace(local), 10_000, bound="all-crowds").epsilon(1e-6)
    assert found.lower is not None
    assert found.lower <= found.upper <= min(known * 1.0002, found.lower * 1.001)


def test_a_fine_grid_costs_no_more() -> None:
    """The same numbers of kinds and classes for any grid."""
    coarse, fine = (others_of_points(Fraction(1, grid), grid, 0.5).kinds for grid in (1024, 1 << 20))
    assert len(fine) <= 1.6 * len(coarse)
    assert len(fine[0].classes()) <= 1.6 * len(coarse[0].classes())
