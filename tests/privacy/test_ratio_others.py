"""What bounded ratios allow: every random triple of laws within them is below a mixture of the corners."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from flint import fmpq
from scipy.optimize import linprog

import shuffledp as sdp
from shuffledp.numerics.ball_arithmetic import to_rational
from shuffledp.privacy.variation_ratio import other_users_from_ratios
from shuffledp.testing.mechanism_checks import is_below_a_mixture

BOUNDS = [(2.0, 2.0, 2.0), (1.5, 3.0, 4.0), (4.0, 5.0, 1.5)]


def random_triple(rng: Random, p: float, q0: float, q1: float) -> tuple[list[float], list[float], list[float]]:
    """Three laws on some messages within the ratios: a random corner of what they allow, as a linear program."""
    messages = rng.choice([2, 3, 5])
    size = 3 * messages
    rows, place = [], lambda law, y: law * messages + y
    for a, b, most in ((0, 1, p), (0, 2, q0), (1, 2, q1)):
        for y in range(messages):
            for one, other in ((a, b), (b, a)):
                row = np.zeros(size)
                row[place(one, y)], row[place(other, y)] = 1.0, -most
                rows.append(row)
    sums = np.kron(np.eye(3), np.ones(messages))
    wish = [rng.gauss(0, 1) for _ in range(size)]
    found = linprog(wish, A_ub=np.array(rows), b_ub=np.zeros(len(rows)), A_eq=sums, b_eq=np.ones(3), bounds=(0, 1))
    laws = found.x.reshape(3, messages)
    keep = laws[2] > 1e-12
    return laws[0][keep].tolist(), laws[1][keep].tolist(), laws[2][keep].tolist()


@pytest.mark.parametrize("ratios", BOUNDS)
@pytest.mark.parametrize("seed", range(12))
def test_every_triple_is_below_a_mixture(ratios: tuple[float, float, float], seed: int) -> None:
    rng = Random(seed)
    first, second, other = random_triple(rng, *ratios)
    variation = sum(max(a - b, 0.0) for a, b in zip(first, second, strict=True))
    for known in (None, min(variation * (1 + 1e-9), 0.999)):
        others = other_users_from_ratios(*map(to_rational, ratios), None if known is None else to_rational(known))
        for epsilon in (0.0, 0.1, 0.5):
            values = [(a - math.exp(epsilon) * b) / h for a, b, h in zip(first, second, other, strict=True)]
            kinds = [kind.law(epsilon).floats() for kind in others.user_pairs]
            assert is_below_a_mixture((np.array(values), np.array(other)), kinds)


def test_corners_keep_what_they_must() -> None:
    """Each law sums to 1, the ratios are within their bounds and the total variation within its own."""
    p, q0, q1, most = fmpq(3, 2), fmpq(3), fmpq(4), fmpq(1, 10)
    for variation in (None, most):
        for kind in other_users_from_ratios(p, q0, q1, variation).user_pairs:
            assert kind.exact is not None
            assert [sum(law, fmpq(0)) for law in zip(*kind.exact, strict=True)] == [1, 1, 1]
            for a, b, h in kind.exact:
                assert max(a / b, b / a) <= p
                assert max(a / h, h / a) <= q0
                assert max(b / h, h / b) <= q1
            gap = sum((max(a - b, fmpq(0)) for a, b, _ in kind.exact), fmpq(0))
            assert variation is None or gap <= variation


def test_less_is_never_worse() -> None:
    """Smaller ratios, or a smaller total variation, give a smaller ε; all below the reduction's."""
    wide = sdp.VariationRatio(p=3.0, beta=0.5, q=3.0, local=True)
    near = sdp.VariationRatio(p=2.0, beta=1 / 3, q=3.0, local=True)
    alike = sdp.VariationRatio(p=3.0, beta=0.2, q=3.0, local=True)
    least, *others = (sdp.amplify(one, 10_000, bound="all-crowds").epsilon(1e-6).upper for one in (wide, near, alike))
    assert max(others) < least
    for one in (wide, near, alike):
        reduced = sdp.amplify(one, 10_000, bound="variation-ratio").epsilon(1e-6).upper
        assert sdp.amplify(one, 10_000, bound="all-crowds").epsilon(1e-6).upper < reduced


@pytest.mark.parametrize(
    ("distance", "known", "attained"),
    [(0.1, 0.007942, 0.0079211), (1.0, 0.099278, 0.098440), (3.0, 0.505811, 0.498207)],
)
def test_metric_distances(distance: float, known: float, attained: float) -> None:
    """Others at log 50 from the second input: beside an independent computation, above what is attained."""
    far = math.log(50)
    sides = [[0.0, distance, distance + far], [distance, 0.0, far], [distance + far, far, 0.0]]
    space = sdp.metric.DistanceMatrix(np.array(sides))
    metric = sdp.metric.AmplifiedMetric(space, 100_000, 1e-7, sdp.metric.find_amplification("all-crowds"))
    assert attained <= metric(0, 1).upper <= known * 1.0003
    clone = sdp.metric.AmplifiedMetric(space, 100_000, 1e-7, sdp.metric.find_amplification("clone"))
    assert metric(0, 1).upper < clone(0, 1).upper


def test_few_users_keep_their_local_distance() -> None:
    """It does not apply to fewer than 16 others, and says so as the other theorems do."""
    space = sdp.metric.DistanceMatrix.from_points([[0.0], [1.0]])
    bound = sdp.metric.find_amplification("all-crowds")
    few, enough = (sdp.metric.AmplifiedMetric(space, users, 1e-3, bound)(0, 1).upper for users in (16, 17))
    assert few == 1.0
    assert enough < 1.0
    pair = space.pair_distances(0, 1)
    assert bound.excess(pair, 16, 1e-3, 0.5) == math.inf
    assert bound.prove_epsilon(pair, 16, 1e-3, 0.5, 0.4) == math.inf
    assert bound.prove_epsilon(pair, 16, 1e-3, 1.5, 0.4) == 1.0


@pytest.mark.exhaustive
def test_a_solved_metric() -> None:
    """Larger local distances for the same targets."""
    target = sdp.metric.DistanceMatrix.from_points([[0.0], [0.1]])
    plain, sharp = (
        sdp.metric.LocalMetricSolver(target, 10_000, 1e-6, sdp.metric.find_amplification(name)).solve(diameters=1)[0]
        for name in ("variation-ratio", "all-crowds")
    )
    assert (sharp.amplified <= target.matrix).all()
    assert sharp.raw.matrix.sum() > 1.02 * plain.raw.matrix.sum()


def test_fractions_are_taken_as_they_are() -> None:
    assert other_users_from_ratios(fmpq(2), fmpq(2), fmpq(2)).gamma == 0.5
    assert Fraction(other_users_from_ratios(fmpq(2), fmpq(3), fmpq(4)).gamma) <= Fraction(1, 3)
