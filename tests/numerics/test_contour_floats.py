"""Nodes summed in floats: the exact sum is inside the claimed ball, at every size and far into the tail."""

from __future__ import annotations

import math
from random import Random

import mpmath
import numpy as np
import pytest

from shuffledp import VariationRatio
from shuffledp.numerics import contour_integral
from shuffledp.numerics.ball_arithmetic import precision
from shuffledp.numerics.contour_integral import LOG_HALF, log_ratio, relative_sums, squared_ratios, tilted_floats
from shuffledp.numerics.distributions import FiniteLaw
from shuffledp.numerics.positive_part import PositivePartMean

from .exact_law import KINDS, encloses, overlap, random_law, relative_width

PARAMETERS = {
    "three values": VariationRatio.from_ldp(2.0),
    "four values": VariationRatio(p=8.0, beta=0.4, q=8.0),
    "disjoint": VariationRatio(p=math.inf, beta=1.0, q=16.0),
    "large ratio": VariationRatio.from_ldp(8.0),
}


def divergence(name: str, users: int) -> PositivePartMean:
    parameters = PARAMETERS[name]
    return PositivePartMean(lambda epsilon: parameters.pair(epsilon).law(epsilon), users)


@pytest.mark.parametrize("name", PARAMETERS)
@pytest.mark.parametrize("users", [1, 2, 5, 25, 63, 64, 500, 10**4, 10**6, 10**8, 10**12])
@pytest.mark.parametrize("tolerance", [1e-5, 1e-7])
def test_the_sum_in_balls_is_inside(name: str, users: int, tolerance: float) -> None:
    """The same nodes in balls, some forty digits, lie inside the balls that the floats claim."""
    family = divergence(name, users)
    scale = family.natural_scale()
    for z in (0.3, 2.0, 6.0):
        law = family.law_at(z * scale)
        plan = contour_integral.make_plan(law, users, tolerance)
        with precision(200):
            certified = contour_integral._BallSum(law, users, plan)
            found = relative_sums(certified.atoms, users, plan.tilt, plan.variance, plan.step, plan.node_indices)
            assert found is not None
            top = certified.moment_power(certified.tau)
            with_square, without = certified.nodes()
            assert found[0].contains(with_square / top * certified.tau * certified.tau)
            assert found[1].contains(without / top)
            assert float(found[0].rad()) < 1e-5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 2, 7, 20, 40, 63])
def test_few_summands(kind: str, count: int) -> None:
    """Nodes at which R is small count by their power: the sum in balls is inside, and 2^-n is not lost."""
    rng, small = Random(f"few {kind}"), 0
    for _ in range(6):
        law = random_law(rng, rng.choice([3, 4, 5]), kind)
        if not law.has_positive_value:
            continue
        plan = contour_integral.make_plan(law.finite, count, 1e-5)
        with precision(300):
            certified = contour_integral._BallSum(law.finite, count, plan)
            found = relative_sums(certified.atoms, count, plan.tilt, plan.variance, plan.step, plan.node_indices)
            tilted = tilted_floats(certified.atoms, plan.tilt)
            assert found is not None
            assert tilted is not None
            top = certified.moment_power(certified.tau)
            with_square, without = certified.nodes()
            assert found[0].contains(with_square / top * certified.tau * certified.tau)
            assert found[1].contains(without / top)
            small += int((log_ratio(tilted[0], tilted[1], plan.step * plan.node_indices)[0] < LOG_HALF).sum())
            assert float(found[0].rad()) < 1e-6
    assert small


@pytest.mark.parametrize("name", PARAMETERS)
@pytest.mark.parametrize("users", [2, 60, 900, 30_000, 10**7])
def test_many_at_once_agree_with_one_by_one(name: str, users: int) -> None:
    """``brackets`` and ``bracket`` hold the same number, and ``brackets`` is narrow."""
    family = divergence(name, users)
    scale = family.natural_scale()
    points = [z * scale for z in (0.0, 0.4, 1.5, 4.0, 8.0)]
    for x, found in zip(points, family.brackets(points), strict=True):
        assert overlap(found, family.bracket(x))
        assert found.upper == 0 or relative_width(found) < 1.1e-3


def test_what_floats_cannot_hold_is_bounded() -> None:
    """Far out the value is only bounded, by something that is certainly above it and rounds to the smallest floats."""
    family = divergence("three values", 10**6)
    x = 60 * family.natural_scale()
    (found,) = family.brackets([x])
    assert found.method == "Chernoff"
    assert family.bracket(x).upper <= found.upper
    assert found.lower == 0
    assert found.upper_float() < 1e-300


@pytest.mark.parametrize("kind", KINDS)
def test_exact_sums_are_enclosed(kind: str) -> None:
    """Against exact rational enumeration, whichever route is taken."""
    rng = Random(f"many {kind}")
    for _ in range(15):
        law, count = random_law(rng, rng.randint(2, 4), kind), rng.randint(1, 6)
        exact = law.positive_part_mean(count) / count
        (found,) = PositivePartMean(lambda x, law=law: law.finite, count).brackets([0.0])  # type: ignore[misc]
        assert encloses(found, exact)


def test_a_long_sum_is_enclosed() -> None:
    """Two values, 300 summands: the binomial sum in exact rationals lies inside what the floats give."""
    rng = Random("binomial")
    for _ in range(10):
        law = random_law(rng, 2, "rationals")
        count = 300
        (low, high), (w_low, w_high) = zip(*sorted(zip(law.values, law.weights, strict=True)), strict=True)
        exact = sum(
            math.comb(count, k) * w_high**k * w_low ** (count - k) * max(0, k * high + (count - k) * low)
            for k in range(count + 1)
        )
        if exact > 0:
            plan = contour_integral.make_plan(law.finite, count, 1e-5)
            assert encloses(contour_integral.bracket(law.finite, count, plan, in_floats=True), exact)


def test_uncertain_values_are_left_to_balls() -> None:
    """A value known to few digits only is not rounded to a float."""
    from flint import arb

    atoms = [(arb(1, 1e-9), arb(1) / 2), (arb(-1), arb(1) / 2)]
    law = FiniteLaw(lambda: atoms)
    plan = contour_integral.make_plan(law, 1000, 1e-5)
    with precision(128):
        assert relative_sums(atoms, 1000, plan.tilt, plan.variance, plan.step, plan.node_indices) is None
    assert contour_integral.bracket(law, 1000, plan, in_floats=True).upper > 0


@pytest.mark.parametrize("size", [2, 3, 6])
def test_squares_of_moments(size: int) -> None:
    """By cosines of differences: as the definition in forty digits, near node 0 and far from it, and where R is 0."""
    rng = np.random.default_rng(size)
    values, weights = rng.normal(size=size), rng.dirichlet(np.ones(size))
    u = np.array([0.0, 1e-7, 0.3, 5.0, 400.0])
    with mpmath.workdps(40):
        for place, found in zip(u.tolist(), squared_ratios(values, weights, u).tolist(), strict=True):
            pairs = zip(values.tolist(), weights.tolist(), strict=True)
            moment = mpmath.fsum(weight * mpmath.expj(mpmath.mpf(place) * value) for value, weight in pairs)
            assert abs(float(abs(moment) ** 2) - found) <= 1e-15 * (size**2 + place)
    fair = squared_ratios(np.array([0.0, 1.0]), np.array([0.5, 0.5]), np.array([math.pi]))
    assert abs(float(fair[0])) <= 1e-15
