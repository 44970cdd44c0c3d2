"""The padded exponential lower bound: by enumeration, by another route at full size, and its table."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from scipy.special import betainc, gammaln

from shuffledp.bounds.compare_metric import build_attack_pair, lower_bound, padded_rows
from shuffledp.bounds.metric_amplification import MetricVariationRatio
from shuffledp.numerics.positive_part import PositivePartMean
from shuffledp.privacy.metric_space import DistanceMatrix
from tests.metric.test_amplification import DELTA, USERS, triangle
from tests.oracle import exact_enumeration

FIGURES = [(0.1, 0.0079211), (1.0, 0.0984406), (3.0, 0.498207)]


@pytest.mark.parametrize(("distance", "figure"), FIGURES)
def test_the_figures(distance: float, figure: float) -> None:
    """n = 1e5, δ = 1e-7; close below the bound that holds for every randomizer."""
    space = triangle(distance)
    found = lower_bound(space, 0, 1, USERS, DELTA)
    assert found == pytest.approx(figure, rel=1e-5)
    assert found < MetricVariationRatio().epsilon(space.pair_distances(0, 1), USERS, DELTA).upper < 1.02 * found


def table_of(distance: float) -> list[list[float]]:
    """The padded table in floats, from its definition."""
    matrix = triangle(distance).matrix
    weights = np.exp(-matrix)
    sums = weights.sum(axis=1)
    norm = max(
        (math.exp(matrix[i, j]) * max(sums[i], sums[j]) - min(sums[i], sums[j])) / math.expm1(matrix[i, j])
        for i, j in ((0, 1), (0, 2), (1, 2))
    )
    return [[*(row / norm), 1 - total / norm] for row, total in zip(weights, sums, strict=True)]


def delta_by_two_counts(first: list[float], second: list[float], crowd: list[float], epsilon: float) -> float:
    """(1/n)·E(ΣG)_+ by the numbers of messages a and b; the rest is one binomial, in floats."""
    ratio = math.exp(epsilon)
    g = [(p - ratio * q) / w for p, q, w in zip(first, second, crowd, strict=True)]
    axes = []
    for chance in crowd[:2]:
        middle, reach = USERS * chance, 8 * math.sqrt(USERS * chance)
        axes.append(np.arange(max(0, int(middle - reach)), int(middle + reach) + 1))
    a, b = np.meshgrid(*axes, indexing="ij")
    left = USERS - a - b
    rest = 1 - crowd[0] - crowd[1]
    logs = gammaln(USERS + 1) - gammaln(a + 1) - gammaln(b + 1) - gammaln(left + 1)
    mass = np.exp(logs + a * math.log(crowd[0]) + b * math.log(crowd[1]) + left * math.log(rest))
    # The rest is C of message c and left − C of the silent one: the sum is offset + slope·C.
    chance, slope = crowd[2] / rest, g[2] - g[3]
    offset = g[0] * a + g[1] * b + g[3] * left
    if slope < 0:  # count the silent ones in place of c
        chance, slope, offset = 1 - chance, -slope, offset + slope * left
    least = np.clip(np.floor(-offset / slope) + 1, 0, left + 1)
    tail = np.where(
        least <= 0,
        1.0,
        np.where(least > left, 0.0, betainc(np.maximum(least, 1), np.maximum(left - least + 1, 1e-9), chance)),
    )
    shorter = np.maximum(least - 1, 0)
    tail_of_mean = np.where(
        shorter <= 0,
        1.0,
        np.where(shorter > left - 1, 0.0, betainc(np.maximum(shorter, 1), np.maximum(left - shorter, 1e-9), chance)),
    )
    return float((mass * (offset * tail + slope * left * chance * tail_of_mean)).sum() / USERS)


@pytest.mark.parametrize(("distance", "figure"), FIGURES)
def test_the_figures_by_another_route(distance: float, figure: float) -> None:
    """Sums over two counts in floats, the worse direction: δ crosses 1e-7 at the figure."""
    a, b, c = table_of(distance)

    def worse(epsilon: float) -> float:
        return max(delta_by_two_counts(p, q, c, epsilon) for p, q in ((a, b), (b, a)))

    assert worse(figure * (1 - 2e-5)) > DELTA > worse(figure * (1 + 2e-5))


def test_small_crowds_by_enumeration() -> None:
    """e^D = 2, 4, 4 and four users: the pair's divergence is the hockey stick of the counts, as fractions."""
    log2 = math.log(2)
    space = DistanceMatrix([[0.0, log2, 2 * log2], [log2, 0.0, 2 * log2], [2 * log2, 2 * log2, 0.0]])  # type: ignore[arg-type]
    distance = [
        [Fraction(1), Fraction(2), Fraction(4)],
        [Fraction(2), Fraction(1), Fraction(4)],
        [Fraction(4), Fraction(4), Fraction(1)],
    ]
    sums = [sum(1 / x for x in row) for row in distance]
    norm = max(
        (distance[i][j] * max(sums[i], sums[j]) - min(sums[i], sums[j])) / (distance[i][j] - 1)
        for i, j in ((0, 1), (0, 2), (1, 2))
    )
    table = [[*(1 / x / norm for x in row), 1 - total / norm] for row, total in zip(distance, sums, strict=True)]
    pair = build_attack_pair(space, 0, 1)
    for ratio in (Fraction(5, 4), Fraction(3, 2)):
        truth = exact_enumeration.hockey_stick_of_counts(table[0], table[1], table[2], 4, ratio)
        bracket = PositivePartMean(pair.law, 4).bracket(math.log(ratio))
        assert float(truth) == pytest.approx(bracket.lower_float(), rel=1e-9)


def test_the_padded_table_is_private() -> None:
    """Every ratio is at most e^D, but for the rounding of the distances; rows sum to 1."""
    with ctx.workprec(128):
        matrix = [[arb(float(x)) for x in row] for row in triangle(1.0).matrix]
        rows = padded_rows(matrix)
        for i, row in enumerate(rows):
            assert abs(sum(row, arb(0)) - 1) < 1e-30
            for j, other in enumerate(rows):
                ratios = [x / y for x, y in zip(row, other, strict=True)]
                assert all(ratio <= matrix[i][j].exp() * (1 + arb(2) ** -45) for ratio in ratios)


def test_what_is_refused() -> None:
    """The three inputs need a metric; the two must differ. Two inputs alone are randomized response."""
    with pytest.raises(ValueError, match=r"triangle inequality, but row 0, column 2 is 6.0"):
        lower_bound(DistanceMatrix([[0, 5, 6], [5, 0, 0.5], [6, 0.5, 0]]), 0, 1, 100, 1e-3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="two different inputs, got 1 twice"):
        lower_bound(triangle(1.0), 1, 1, 100, 1e-3)
    alone = lower_bound(DistanceMatrix([[0, 1], [1, 0]]), 0, 1, 1000, 1e-5)  # type: ignore[arg-type]
    assert 0 < alone < 1
