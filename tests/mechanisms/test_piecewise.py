"""The piecewise mechanism on a grid."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

import numpy as np
import pytest

from shuffledp.mechanisms.mean.piecewise import Piecewise
from shuffledp.numerics.positive_part import PositivePartMean
from shuffledp.sampling import rounding_and_digits
from tests.oracle.exact_enumeration import hockey_stick_of_counts


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_a_fine_grid_is_the_published_mechanism(epsilon: float) -> None:
    """β → 1 − e^(−ε/2) and variance → x²/(e^(ε/2)−1) + (e^(ε/2)+3)/(3(e^(ε/2)−1)²)."""
    mechanism, root = Piecewise(epsilon, grid=1 << 16), math.exp(epsilon / 2)
    assert mechanism.variation_ratio().beta == pytest.approx(1 - 1 / root, rel=1e-4)
    for x in (-1.0, 0.0, 0.4):
        published = x * x / (root - 1) + (root + 3) / (3 * (root - 1) ** 2)
        assert mechanism.variance([x])[0] == pytest.approx(published, rel=1e-3)
    assert 1 / (float(1 - mechanism.response.uniform_share) * mechanism.window_steps) * mechanism.grid == pytest.approx(
        (root + 1) / (root - 1), rel=1e-3
    )


@pytest.mark.parametrize(("epsilon", "grid"), [(1.0, 2), (0.5, 7), (2.0, 9), (6.0, 5)])
def test_windows_at_the_two_ends_are_the_worst_pair(epsilon: float, grid: int) -> None:
    """Over all pairs of window places, the divergence against the blanket is largest for disjoint windows."""
    mechanism = Piecewise(epsilon, grid=grid)
    gamma, window = mechanism.response.uniform_share, mechanism.window
    low = gamma / grid
    high = low + (1 - gamma) / window
    rows = [
        [high if place <= y < place + window else low for y in range(grid)]
        for place in range(mechanism.window_steps + 1)
    ]
    assert [min(column) for column in zip(*rows, strict=True)] == [low] * grid
    ends = hockey_stick_of_counts(rows[0], rows[-1], [low] * grid, 2, Fraction(6, 5))
    for a in rows:
        for b in rows:
            assert hockey_stick_of_counts(a, b, [low] * grid, 2, Fraction(6, 5)) <= ends
    (pair,) = mechanism.blankets()
    claimed = PositivePartMean(pair.law, 2).bracket(math.log(1.2))
    assert float(claimed.upper) == pytest.approx(float(ends), rel=1e-9)


def by_ratios(triples: Iterable[tuple[Fraction, ...]]) -> list[tuple[float, ...]]:
    """Messages with the same two ratios put together."""
    found: dict[tuple[Fraction, ...], list[Fraction]] = {}
    for triple in triples:
        kind = (triple[0] / triple[2], triple[1] / triple[2])
        found[kind] = [a + b for a, b in zip(found.get(kind, [Fraction(0)] * 3), triple, strict=True)]
    return sorted(tuple(map(float, each)) for each in found.values())


@pytest.mark.parametrize(("epsilon", "grid"), [(3.0, 40), (3.0, 41), (1.0, 64), (8.0, 1024), (0.5, 33)])
def test_each_attack_is_the_law_of_an_input(epsilon: float, grid: int) -> None:
    """Its hiding law is that of an input, class by class: the first, 0, and one whose window is beside the last."""
    mechanism = Piecewise(epsilon, grid=grid)
    ends = (mechanism._output_law(0), mechanism._output_law(rounding_and_digits.RANGE_UNITS))
    beside = Fraction(max(0, grid - 2 * mechanism.window), mechanism.window_steps)
    units = [0, rounding_and_digits.RANGE_UNITS // 2, int(beside * rounding_and_digits.RANGE_UNITS)]
    for attack, unit in zip(mechanism.attacks(), units, strict=True):
        assert attack.exact is not None
        told = [tuple(Fraction(int(part.p), int(part.q)) for part in each) for each in attack.exact]
        assert by_ratios(told) == by_ratios(zip(*ends, mechanism._output_law(unit), strict=True))
        assert [sum(law) for law in zip(*told, strict=True)] == [1, 1, 1]


def test_the_estimate_finds_mean_and_variance() -> None:
    """200,000 users: within six standard errors (a false alarm in 5e8, the seed is fixed)."""
    mechanism, users = Piecewise(1.0), 200_000
    values = np.random.default_rng(1).beta(2, 5, users) * 2 - 1
    estimate = mechanism.estimate(mechanism.encode(values, rng=np.random.default_rng(2)))
    exact = mechanism.variance(values)[0]
    assert estimate.variance[0] == pytest.approx(exact, rel=0.02)
    assert abs(estimate.value[0] - mechanism.truth(values)[0]) < 6 * math.sqrt(exact)


def test_the_window_is_never_more_than_half() -> None:
    """So that two windows are disjoint."""
    for epsilon in (1e-9, 0.1, 1.0, 30.0, 2000.0):
        for grid in (2, 3, 4, 1023, 65536):
            mechanism = Piecewise(epsilon, grid=grid)
            assert 1 <= mechanism.window <= grid // 2
            assert mechanism.variation_ratio().p > 1


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"epsilon": math.inf}, "Piecewise: epsilon must be above 0 and finite, got inf."),
        ({"grid": 1}, "Piecewise: grid must be at least 2, got 1."),
        ({"grid": 2.5}, "Piecewise: grid must be a whole number of at least 2, got 2.5."),
    ],
)
def test_bad_settings(settings: dict[str, float], sentence: str) -> None:
    """One sentence each."""
    with pytest.raises(ValueError, match="Piecewise") as caught:
        Piecewise(**{"epsilon": 1.0, **settings})  # type: ignore[arg-type]
    assert str(caught.value) == sentence


def test_bad_values_and_messages() -> None:
    """Values beyond ±1 and numbers beyond the grid are refused."""
    with pytest.raises(ValueError, match=r"^Piecewise: values must be from -1 to 1, got -1\.25\.$"):
        Piecewise(1.0).encode([0.0, -1.25])
    with pytest.raises(ValueError, match=r"^Piecewise: expected messages below 1000, got others in 1 of 1 rows\.$"):
        Piecewise(1.0, grid=1000).unpack(np.array([[3, 255]], dtype=np.uint8))
    with pytest.raises(ValueError, match=r"^Piecewise: a table needs a grid of at most 256, got 1024\.$"):
        Piecewise(1.0).table()
