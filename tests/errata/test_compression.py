"""Errors of the compression paper [LC] and of public code for its baselines."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.oracle.tables import hadamard_sign, pi_rappor, worst_ratio


@pytest.mark.parametrize(("ones", "keep"), [(1, Fraction(4, 5)), (2, Fraction(3, 5)), (1, Fraction(1, 2))])
def test_pi_rappor_bounds_are_ratios(ones: int, keep: Fraction) -> None:
    """LC-1: Lemma B.1's expressions are the likelihood ratios e^eps; read as epsilon they are far off."""
    prime, options = 5, 4
    chance = Fraction(ones, prime)
    laws = pi_rappor(options, prime, ones, keep)
    uniform = Fraction(1, prime**2)
    values = [value / uniform for law in laws.values() for value in law.values()]
    deletion = max(max(values), 1 / min(values))
    assert deletion == max(keep / chance, (1 - chance) / (1 - keep))
    assert worst_ratio(laws) == keep * (1 - chance) / (chance * (1 - keep))
    assert math.log(deletion) < float(deletion) - 1


def test_pi_rappor_replacement_ratio_is_the_square() -> None:
    """LC-1: symmetric PI-RAPPOR is deletion-private at (1-a0)/a0 but its replacement ratio is the square."""
    laws = pi_rappor(3, 5, 1, Fraction(4, 5))
    assert worst_ratio(laws) == 4**2


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_the_epsilon_after_rounding(epsilon: float) -> None:
    """LC-2: ln(1 - p/alpha0) has a negative argument; ln(1/alpha0 - 1) inverts alpha0 = 1/(e^eps'+1)."""
    prime = 1009
    alpha0 = math.ceil(prime / (math.exp(epsilon) + 1)) / prime
    assert 1 - prime / alpha0 < 0
    rounded = math.log(1 / alpha0 - 1)
    assert 1 / (math.exp(rounded) + 1) == pytest.approx(alpha0, rel=1e-12)
    assert epsilon - 0.1 < rounded <= epsilon


def frame(dimension: int, rows: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """d x 2d frame: the given rows of the orthonormal Sylvester matrix, columns with random signs."""
    size = 2 * dimension
    matrix = np.array([[hadamard_sign(int(i), j) for j in range(size)] for i in rows], dtype=float)
    return matrix * signs / math.sqrt(size)


def spread(frame_matrix: np.ndarray, x: np.ndarray, limit: float) -> np.ndarray:
    """Coefficients a with frame a = x, pushed below the limit by alternating projections."""
    coefficients = frame_matrix.T @ x
    for _ in range(2000):
        if np.max(np.abs(coefficients)) <= limit:
            break
        clipped = np.clip(coefficients, -0.999 * limit, 0.999 * limit)
        coefficients = clipped + frame_matrix.T @ (x - frame_matrix @ clipped)
    return coefficients


def test_the_first_rows_of_a_hadamard_matrix_are_a_degenerate_frame() -> None:
    """LC-3: the first d of 2d rows repeat every column, so 5% of x is lost; random rows lose nothing."""
    dimension, level = 64, 2.0
    limit, rng = level / math.sqrt(2 * dimension), np.random.default_rng(7)
    signs = rng.choice([-1.0, 1.0], size=2 * dimension)
    public = frame(dimension, np.arange(dimension), signs)
    random = frame(dimension, rng.permutation(2 * dimension)[:dimension], signs)
    for matrix in (public, random):
        assert np.allclose(matrix @ matrix.T, np.eye(dimension))
    twins = public[:, :dimension] * signs[:dimension] * signs[dimension:]
    assert np.allclose(twins, public[:, dimension:])
    lost_public, lost_random = [], []
    for _ in range(40):
        x = rng.normal(size=dimension)
        x /= np.linalg.norm(x)
        # No coefficients within the limit can do better: a clipped pair of twins is as far as they reach.
        best = public @ np.clip(public.T @ x, -limit, limit)
        lost_public.append(1 - float(x @ best))
        quantised = np.clip(spread(random, x, limit), -limit, limit)
        lost_random.append(float(np.linalg.norm(x - random @ quantised)))
    assert 0.02 < np.mean(lost_public) < 0.08
    assert max(lost_random) < 1e-9


def test_some_vectors_lose_most_in_the_degenerate_frame() -> None:
    """LC-3: a vector along one column keeps at most K/sqrt(d) of itself, whatever the coefficients."""
    dimension, level = 64, 2.0
    limit = level / math.sqrt(2 * dimension)
    public = frame(dimension, np.arange(dimension), np.ones(2 * dimension))
    x = public[:, 5] / np.linalg.norm(public[:, 5])
    most = limit * np.sum(np.abs(public.T @ x))
    assert most == pytest.approx(level / math.sqrt(dimension))
    random = frame(dimension, np.random.default_rng(3).permutation(2 * dimension)[:dimension], np.ones(2 * dimension))
    assert limit * np.sum(np.abs(random.T @ x)) > 1


def test_some_vectors_have_no_representation_at_level_two() -> None:
    """LC-4: for a unit vector y with limit * ||U'y||_1 < 1 = <y, y>, no coefficients within the limit give y."""
    dimension, level = 64, 2.0
    limit, rng = level / math.sqrt(2 * dimension), np.random.default_rng(11)
    signs = rng.choice([-1.0, 1.0], size=2 * dimension)
    matrix = frame(dimension, rng.permutation(2 * dimension)[:dimension], signs)
    y = rng.normal(size=dimension)
    for step in np.geomspace(0.2, 0.002, 400):
        y -= step * matrix @ np.sign(matrix.T @ y) / math.sqrt(dimension)
        y /= np.linalg.norm(y)
    # Ua = y with all |a_k| <= limit would give 1 = <y, Ua> = <U'y, a> <= limit * ||U'y||_1.
    assert limit * np.sum(np.abs(matrix.T @ y)) < 0.95
    assert np.max(np.abs(spread(matrix, y, limit))) > limit
