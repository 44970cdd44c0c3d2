"""Bounds over all crowds against every crowd, exactly."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from flint import arb

from shuffledp.numerics.ball_arithmetic import to_rational
from shuffledp.numerics.distributions import FiniteLaw
from shuffledp.numerics.positive_part import positive_part_mean
from shuffledp.numerics.worst_case_positive_part import WorstDatasetMixture
from tests.oracle.exact_enumeration import compositions

Law = tuple[tuple[Fraction, Fraction], ...]


def finite(law: Law) -> FiniteLaw:
    return FiniteLaw(lambda: [(arb(to_rational(value)), arb(to_rational(weight))) for value, weight in law])


def random_law(rng: Random, values: int) -> Law:
    """A law with a mean a little below 0, as G has it."""
    weights = [Fraction(rng.randint(1, 9)) for _ in range(values)]
    points = [Fraction(rng.randint(-12, 12), 4) for _ in range(values)]
    whole = sum(weights)
    mean = sum((w * v for w, v in zip(weights, points, strict=True)), Fraction(0)) / whole
    drift = Fraction(rng.randint(1, 8), 8)
    return tuple((v - mean - drift, w / whole) for v, w in zip(points, weights, strict=True))


def exact_mean(laws: list[Law], crowd: tuple[int, ...]) -> Fraction:
    """E(S)_+ by adding up one summand after the other."""
    sums = {Fraction(0): Fraction(1)}
    for law, many in zip(laws, crowd, strict=True):
        for _ in range(many):
            after: dict[Fraction, Fraction] = {}
            for total, chance in sums.items():
                for value, weight in law:
                    after[total + value] = after.get(total + value, Fraction(0)) + chance * weight
            sums = after
    return sum((max(total, Fraction(0)) * chance for total, chance in sums.items()), Fraction(0))


@pytest.mark.parametrize("seed", range(20))
def test_no_crowd_is_worse_than_the_bound(seed: int) -> None:
    """Two to four laws of two or three values, up to five summands: all compositions, in fractions."""
    rng = Random(seed)
    laws = [random_law(rng, rng.choice([1, 2, 3])) for _ in range(rng.choice([2, 3, 4]))]
    count = rng.choice([1, 2, 3, 5]) if len(laws) < 4 else 3
    crowd = WorstDatasetMixture([finite(law) for law in laws])
    truth = max(exact_mean(laws, parts) for parts in compositions(count, len(laws))) / count
    bound, _, _ = crowd.bound_worst_mixture(np.array([float(count)]))
    assert math.exp(bound[0]) >= float(truth) * (1 - 1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_a_simplex_bounds_the_crowds_in_it(seed: int) -> None:
    """Also small ones, whose corners are no whole crowds; and several numbers of summands at once."""
    rng = Random(seed)
    laws = [random_law(rng, 2) for _ in range(2)]
    crowd = WorstDatasetMixture([finite(law) for law in laws])
    corners = np.array([[0.25, 0.75], [0.75, 0.25]])
    counts = np.array([8.0, 6.0, 4.0])
    found = np.exp(crowd.log_bounds(corners, counts))
    for count, bound in zip((8, 6, 4), found, strict=True):
        inside = [(k, count - k) for k in range(count + 1) if count <= 4 * k <= 3 * count]
        assert bound >= max(float(exact_mean(laws, parts)) for parts in inside) / count * (1 - 1e-12)


@pytest.mark.parametrize("count", [300, 10_000, 10**6, 10**9, 10**12])
@pytest.mark.parametrize("drift", [1e-3, 0.3])
def test_sharp_where_one_law_is_the_worst(count: int, drift: float) -> None:
    """All crowds against the certified mean of the worst constant one: no more than the sharpness asked for."""
    shift = Fraction(drift / math.sqrt(count)).limit_denominator(10**15)
    wide: Law = ((1 - shift, Fraction(1, 3)), (-Fraction(1, 2) - shift, Fraction(2, 3)))
    narrow: Law = ((Fraction(1, 4) - shift, Fraction(1, 2)), (-Fraction(1, 4) - shift, Fraction(1, 2)))
    crowd = WorstDatasetMixture([finite(wide), finite(narrow)])
    bound, seen, kind = crowd.bound_worst_mixture(np.array([float(count)]))
    assert kind == 0
    truth = positive_part_mean(finite(wide), count).scaled(count)
    assert truth.lower_float() <= math.exp(bound[0])
    assert math.exp(bound[0]) <= truth.upper_float() * 1.002
    assert seen[0] <= bound[0]


def test_laws_that_never_rise() -> None:
    """Sums of what is at most 0 have no positive part; beside others they do no harm."""
    still: Law = ((Fraction(-1, 8), Fraction(1)),)
    rising: Law = ((Fraction(7, 8), Fraction(1, 2)), (Fraction(-9, 8), Fraction(1, 2)))
    alone = WorstDatasetMixture([finite(still)])
    assert not alone.may_rise.any()
    assert alone.log_bounds(np.eye(1), np.array([5.0]))[0] == -math.inf
    both = WorstDatasetMixture([finite(still), finite(rising)])
    bound, _, _ = both.bound_worst_mixture(np.array([6.0]))
    assert math.exp(bound[0]) >= max(float(exact_mean([still, rising], (k, 6 - k))) for k in range(7)) / 6
