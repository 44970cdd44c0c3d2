"""Means of vectors by signs: Duchi et al., and Harmony."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from math import comb

import numpy as np
import pytest

from shuffledp.mechanisms.vector.duchi_and_harmony import Duchi, Harmony
from tests.oracle.exact_enumeration import hockey_stick_of_counts


def own_size(dimension: int) -> int:
    """N₊, by counting."""
    return sum(sum(t) > 0 for t in itertools.product((-1, 1), repeat=dimension))


@pytest.mark.parametrize("dimension", range(1, 9))
def test_duchi_against_the_formulas(dimension: int) -> None:
    """Own share, scale and β are those of the definition, with ties of low weight."""
    epsilon, ratio = 1.3, math.exp(1.3)
    mechanism, own, cube = Duchi(epsilon, dimension), own_size(dimension), 2**dimension
    assert mechanism.response.share == Fraction(own, cube)
    scale = (cube + own * (ratio - 1)) / (comb(dimension - 1, dimension // 2) * (ratio - 1))
    assert mechanism.estimator.scale == pytest.approx(scale, rel=1e-12)
    beta = (ratio - 1) * own / (ratio * own + cube - own)
    assert mechanism.variation_ratio().beta == pytest.approx(beta, rel=1e-14)
    if dimension % 2:
        assert beta == pytest.approx((ratio - 1) / (ratio + 1), rel=1e-14)


@pytest.mark.parametrize("dimension", [2, 4, 6])
def test_ties_do_not_break_the_promise(dimension: int) -> None:
    """Even d: the largest ratio is at most e^ε, not e^ε + 1."""
    mechanism = Duchi(1.0, dimension)
    rows = mechanism.table().probabilities
    largest = max(a / b for r, s in itertools.permutations(rows, 2) for a, b in zip(r, s, strict=True))
    assert float(largest) == pytest.approx(math.e, rel=1e-12)


@pytest.mark.parametrize("mechanism", [Duchi(0.8, 2), Duchi(0.8, 3), Harmony(0.8, 2), Harmony(0.8, 3)])
def test_opposite_corners_are_the_worst_pair(mechanism: Duchi | Harmony) -> None:
    """Over all pairs of corners, against the uniform blanket: disjoint own sets diverge most."""
    corners = np.array(list(itertools.product((-1.0, 1.0), repeat=mechanism.dimension)))
    rows = [_corner_row(mechanism, corner) for corner in corners]
    floor = [min(column) for column in zip(*rows, strict=True)]
    assert sum(floor) == mechanism.response.uniform_share
    for ratio in (Fraction(6, 5), Fraction(2)):
        opposite = hockey_stick_of_counts(rows[0], rows[-1], floor, 2, ratio)
        assert all(hockey_stick_of_counts(a, b, floor, 2, ratio) <= opposite for a in rows for b in rows)


def _corner_row(mechanism: Duchi | Harmony, corner: np.ndarray) -> list[Fraction]:
    """The definition at a corner, for either mechanism."""
    signs = corner.astype(int).tolist()
    if isinstance(mechanism, Duchi):
        cube = itertools.product((-1, 1), repeat=mechanism.dimension)
        own = [sum(a * b for a, b in zip(t, signs, strict=True)) > 0 for t in cube]
    else:
        own = [sign == s for s in signs for sign in (-1, 1)]
    assert Fraction(sum(own), len(own)) == mechanism.response.share
    low = mechanism.response.uniform_share / len(own)
    high = low + (1 - mechanism.response.uniform_share) / sum(own)
    return [high if inside else low for inside in own]


@pytest.mark.parametrize("mechanism", [Duchi(1.0, 3), Duchi(1.0, 4), Harmony(1.0, 4)])
def test_the_table_at_a_corner_is_the_definition(mechanism: Duchi | Harmony) -> None:
    """Rows of the table for corners, against the definition."""
    table = mechanism.table()
    for vector, row in zip(table.inputs, table.probabilities, strict=True):
        if (np.abs(vector) == 1).all():
            assert list(row) == _corner_row(mechanism, vector)


def test_harmony_against_the_formulas() -> None:
    """Sign + with probability ((e^ε−1)x + e^ε + 1)/(2(e^ε+1)), value ±d(e^ε+1)/(e^ε−1)."""
    mechanism, ratio = Harmony(2.0, 5), math.exp(2)
    assert mechanism.estimator.scale == pytest.approx(5 * (ratio + 1) / (ratio - 1), rel=1e-14)
    plus = float(mechanism._chance(Fraction(1, 4), 1)) * 5
    assert plus == pytest.approx(((ratio - 1) / 4 + ratio + 1) / (2 * (ratio + 1)), rel=1e-14)
    assert mechanism.variation_ratio().beta == pytest.approx(math.tanh(1.0), rel=1e-14)


@pytest.mark.parametrize("mechanism", [Duchi(1.5, 300), Duchi(1.5, 301), Harmony(1.5, 300)])
def test_large_vectors(mechanism: Duchi | Harmony) -> None:
    """Mean and stated variance at d = 300: each coordinate's error, squared and scaled, averages 1.

    The sum of 300 squares of about normal numbers is within six of its standard deviations, √600: a false alarm in
    1e8 at most, with a fixed seed.
    """
    users, d = 3000, mechanism.dimension
    values = np.random.default_rng(8).uniform(-1, 1, (users, d))
    values[:, 0], values[:, 1] = 1.0, 1e-310
    messages = mechanism.encode(values, rng=np.random.default_rng(9))
    estimate = mechanism.estimate(mechanism.unpack(mechanism.pack(messages)))
    squares = (estimate.value - mechanism.truth(values)) ** 2 / mechanism.variance(values)
    assert abs(squares.sum() - d) < 6 * math.sqrt(2 * d)
    np.testing.assert_allclose(estimate.variance, mechanism.variance(values), rtol=0.02)


def test_duchi_at_large_sizes_has_exact_parameters() -> None:
    """Odd d: β is (p−1)/(p+1) at any size; even d comes near from below."""
    most = math.tanh(1.0)
    assert Duchi(2.0, 999).variation_ratio().beta == pytest.approx(most, rel=1e-15)
    assert 0.98 * most < Duchi(2.0, 1000).variation_ratio().beta < most
    assert Duchi(2.0, 1000).blankets()[0].classes()


def test_duchi_messages_are_packed_bits() -> None:
    """The statistic is the sum of signs; rows with a 1 beyond the last coordinate are refused."""
    mechanism = Duchi(1.0, 11)
    messages = mechanism.encode(np.zeros((500, 11)), rng=np.random.default_rng(4))
    signs = 2 * np.unpackbits(messages, axis=1, count=11, bitorder="little").astype(int) - 1
    np.testing.assert_array_equal(mechanism.accumulate(messages), signs.sum(axis=0))
    assert (mechanism.message_bits, mechanism.message_bytes) == (11, 2)
    with pytest.raises(
        ValueError, match=r"^Duchi: expected rows of 11 bits, with zeros beyond them, got others in 1 of 1 rows\.$"
    ):
        mechanism.unpack(np.array([[0, 8]], dtype=np.uint8))


def test_harmony_messages_are_a_coordinate_and_a_sign() -> None:
    """2j for −, 2j+1 for +; other numbers are refused."""
    mechanism = Harmony(1.0, 3)
    assert mechanism.accumulate(np.array([0, 1, 1, 4, 4, 5, 3])).tolist() == [1, 1, -1]
    with pytest.raises(ValueError, match=r"^Harmony: expected messages below 6, got others in 1 of 1 rows\.$"):
        mechanism.unpack(np.array([[6]], dtype=np.uint8))


@pytest.mark.parametrize("kind", [Duchi, Harmony])
def test_errors(kind: type[Duchi] | type[Harmony]) -> None:
    """One sentence each."""
    who = kind.__name__
    with pytest.raises(ValueError, match=rf"^{who}: dimension must be at least 1, got 0\.$"):
        kind(1.0, 0)
    with pytest.raises(ValueError, match=rf"^{who}: epsilon must be above 0 and finite, got -1\.0\.$"):
        kind(-1.0, 3)
    mechanism = kind(1.0, 3)
    with pytest.raises(ValueError, match=rf"^{who}: expected vectors of 3 numbers, got 2\.$"):
        mechanism.encode(np.zeros((4, 2)))
    with pytest.raises(ValueError, match=rf"^{who}: expected one row per user, got an array of shape \(3,\)\.$"):
        mechanism.encode([0.0, 0.5, 1.0])
    with pytest.raises(ValueError, match=rf"^{who}: values must be from -1 to 1, got 1\.5\.$"):
        mechanism.encode([[0.0, 1.5, 0.0]])
    with pytest.raises(ValueError, match=rf"^{who}: a table needs at most \d+ coordinates, got 1000\.$"):
        kind(1.0, 1000).table()


@pytest.mark.parametrize(
    "mechanism", [Duchi(1.2, 1), Duchi(1.2, 2), Duchi(1.2, 4), Duchi(1.2, 5), Duchi(1.2, 6), Harmony(1.2, 3)]
)
def test_attacks_are_the_laws_of_datasets(mechanism: Duchi | Harmony) -> None:
    """The others at the first corner, at 0 or crosswise: class by class what the table says."""
    table = mechanism.table()
    first, second = table.probabilities[0], table.probabilities[1]
    zero = table.probabilities[[not vector.any() for vector in table.inputs].index(True)]
    crosswise = [table.probabilities[2]] if isinstance(mechanism, Duchi) and mechanism.dimension % 2 == 0 else []
    for attack, others in zip(mechanism.attacks(), (first, zero, *crosswise), strict=True):
        wanted: dict[tuple[Fraction, Fraction], list[Fraction]] = {}
        for a, b, c in zip(first, second, others, strict=True):
            sums = wanted.setdefault((a / c, b / c), [Fraction(0)] * 3)
            wanted[a / c, b / c] = [sums[0] + a, sums[1] + b, sums[2] + c]
        seen = sorted(tuple(float(part) for part in c) for c in attack.classes())
        np.testing.assert_allclose(seen, sorted(tuple(map(float, v)) for v in wanted.values()), rtol=1e-12)
