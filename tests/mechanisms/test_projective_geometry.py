"""Projective geometry response: its geometry, closed forms and fast decoding, each against enumeration."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from shuffledp import amplify
from shuffledp.mechanisms.frequency.projective_geometry import ProjectiveGeometry, ProjectiveSpace, best_base
from shuffledp.sampling.hashing import is_prime
from tests.mechanisms.test_own_region import divergence

SPACES = [(2, 2), (2, 4), (3, 3), (5, 2), (5, 3), (7, 3), (3, 5)]


def canonical_vectors(base: int, coordinates: int) -> set[tuple[int, ...]]:
    """Every vector whose first non-zero coordinate is 1, by trying them all."""
    vectors = itertools.product(range(base), repeat=coordinates)
    return {v for v in vectors if next((c for c in v if c), 0) == 1}


@pytest.mark.parametrize(("base", "coordinates"), SPACES)
def test_points_are_numbered_without_gaps(base: int, coordinates: int) -> None:
    """Numbers and points are one to one, and any multiple of a point leads back to its number and the factor."""
    space = ProjectiveSpace(base, coordinates)
    every = np.arange(space.size)
    vectors = space.vectors(every)
    assert {tuple(map(int, row)) for row in vectors} == canonical_vectors(base, coordinates)
    for factor in range(1, base):
        numbers, scale = space.numbers(vectors * factor % base)
        np.testing.assert_array_equal(numbers, every)
        assert (scale == factor).all()
    numbers, scale = space.numbers(np.zeros((1, coordinates), dtype=np.int64))
    assert numbers.tolist() == [-1]
    assert scale.tolist() == [0]


@pytest.mark.parametrize(("base", "coordinates"), SPACES)
def test_the_fast_decoding_equals_counting(base: int, coordinates: int) -> None:
    """Messages orthogonal to each point, by transforms and one by one."""
    space = ProjectiveSpace(base, coordinates)
    rng = np.random.default_rng(base * 100 + coordinates)
    counts = rng.integers(0, 10**9, space.size) * (rng.random(space.size) < 0.7)
    vectors = [list(map(int, row)) for row in space.vectors(np.arange(space.size))]
    for options in (space.size, space.size // 2 + 1):
        naive = [
            sum(int(c) for c, u in zip(counts, vectors, strict=True) if sum(map(int.__mul__, u, v)) % base == 0)
            for v in vectors[:options]
        ]
        assert space.orthogonal_counts(counts, options).tolist() == naive


def test_the_published_choice_of_the_prime() -> None:
    """22,000 options: 3, 7, 23, 53, 149 at ε = 1 … 5."""
    assert [best_base(epsilon, 22_000) for epsilon in (1, 2, 3, 4, 5)] == [3, 7, 23, 53, 149]
    assert ProjectiveGeometry(5.0, 22_000).outputs == 149**2 + 149 + 1
    assert ProjectiveGeometry(5.0, 22_000).message_bits == 15


@pytest.mark.parametrize("options", [2, 3, 7, 8, 40, 133, 134, 1000])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0, 3.5, 5.0, 8.0])
def test_no_other_prime_has_a_smaller_variance(options: int, epsilon: float) -> None:
    """The chosen prime against every prime up to and beyond the number of options, by the executed support chances."""

    def spread(base: int) -> float:
        mechanism = ProjectiveGeometry(epsilon, options, base)
        s, r = mechanism.estimator.true_support, mechanism.estimator.false_support
        return float(r * (1 - r) / (s - r) ** 2)

    every = [base for base in range(2, options + 60) if is_prime(base)]
    assert spread(best_base(epsilon, options)) <= min(map(spread, every)) * (1 + 1e-12)


@pytest.mark.parametrize("mechanism", ProjectiveGeometry.examples(), ids=str)
def test_closed_forms_are_those_of_the_statement(mechanism: ProjectiveGeometry) -> None:
    """s, r and β of the executed law against the formulas with e^ε, to the 2^-64 that rounding costs."""
    q, t = mechanism.space.base, mechanism.space.coordinates
    c1, c2 = ((q ** (t - i) - 1) // (q - 1) for i in (1, 2))
    ratio, size = math.exp(mechanism.epsilon), (q**t - 1) // (q - 1)
    w = 1 / ((ratio - 1) * c1 + size)
    assert float(mechanism.estimator.true_support) == pytest.approx(ratio * c1 * w, rel=1e-12)
    assert float(mechanism.estimator.false_support) == pytest.approx(w * (ratio * c2 + c1 - c2), rel=1e-12)
    assert mechanism.variation_ratio().beta == pytest.approx((ratio - 1) * (c1 - c2) * w, rel=1e-12)


@pytest.mark.parametrize("mechanism", ProjectiveGeometry.examples(), ids=str)
def test_the_attack_is_the_divergence_of_a_real_dataset(mechanism: ProjectiveGeometry) -> None:
    """From the table: options 0 and 1 where all others hold 2 (0 where there is none)."""
    rows = mechanism.table().probabilities
    third = rows[2] if len(rows) > 2 else rows[0]
    (attack,) = mechanism.attacks()
    assert attack.exact is not None
    classes = [tuple(Fraction(int(p.p), int(p.q)) for p in triple) for triple in attack.exact]
    for users, ratio in ((2, Fraction(9, 8)), (3, Fraction(5, 4))):
        claimed = divergence(*([c[i] for c in classes] for i in range(3)), users, ratio)
        assert claimed == divergence(rows[0], rows[1], third, users, ratio)


def test_a_hundred_thousand_options_are_decoded() -> None:
    """Large instances: the estimate is near the truth (six standard errors, false alarm below 1e-8), bounds apply."""
    mechanism = ProjectiveGeometry(4.0, 100_000)
    values = np.concatenate([np.full(30_000, 77_777), np.arange(70_000)])
    estimate = mechanism.estimate(mechanism.encode(values, rng=np.random.default_rng(3)))
    assert abs(estimate.value[77_777] - 30_000) < 6 * estimate.standard_error[77_777]
    assert abs(estimate.value[99_999]) < 6 * estimate.standard_error[99_999]
    assert estimate.value.shape == (100_000,)
    value = amplify(mechanism, 100_000, effort="quick").epsilon(1e-6)
    assert value.lower is not None
    assert 0 < value.lower <= value.upper < 0.5


def test_bad_settings_are_refused() -> None:
    """Each with one sentence."""
    with pytest.raises(
        ValueError, match=r"^ProjectiveGeometry: prime must be a prime number such as 7 or 11, got 8\.$"
    ):
        ProjectiveGeometry(1.0, 10, 8)
    with pytest.raises(ValueError, match=r"^ProjectiveGeometry: options must be at least 2, got 1\.$"):
        ProjectiveGeometry(1.0, 1)
    with pytest.raises(ValueError, match=r"^ProjectiveGeometry: options must be at most 2\^61, got "):
        ProjectiveGeometry(1.0, 2**62)
    with pytest.raises(ValueError, match=r"^ProjectiveGeometry: prime must be at most 2147483648, got 2147483659\.$"):
        ProjectiveGeometry(1.0, 10, 2147483659)
    with pytest.raises(ValueError, match=r"^ProjectiveGeometry: prime must give at most 2\^62 points, got "):
        ProjectiveGeometry(1.0, 2**60, 53)
    with pytest.raises(ValueError, match=r"^ProjectiveGeometry: epsilon must be above 0 and finite"):
        ProjectiveGeometry(0.0, 10)
    with pytest.raises(
        ValueError, match=r"^ProjectiveGeometry: expected messages below 13, got others in 1 of 1 rows\.$"
    ):
        ProjectiveGeometry(1.0, 9, 3).unpack(np.array([[15]], dtype=np.uint8))
