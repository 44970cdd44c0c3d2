"""SQKR: signs of a few coefficients in a public frame; and the frame."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.mechanisms.vector import sqkr
from shuffledp.mechanisms.vector.sqkr import SQKR
from shuffledp.sampling.spherical_caps_and_frames import HadamardFrame, hadamard_transform
from tests.oracle.tables import hadamard_sign


def unit_vectors(rows: int, dimension: int, seed: int = 1) -> Any:
    vectors = np.random.default_rng(seed).normal(size=(rows, dimension))
    return vectors / np.linalg.norm(vectors, axis=1)[:, None]


@pytest.mark.parametrize("length", [1, 2, 16, 64, 128, 1024, 8192])
def test_the_transform_is_the_hadamard_matrix(length: int) -> None:
    """Single entries against the parity of common bits; twice is N times the identity."""
    rng = np.random.default_rng(2)
    for column in rng.integers(0, length, 5).tolist():
        row = np.zeros((1, length))
        row[0, column] = 1.0
        found = hadamard_transform(row)[0]
        for place in rng.integers(0, length, 20).tolist():
            assert found[place] == hadamard_sign(column, place)
    rows = rng.normal(size=(3, length))
    np.testing.assert_allclose(hadamard_transform(hadamard_transform(rows)), length * rows, atol=1e-9)


@pytest.mark.parametrize("dimension", [2, 3, 5, 64, 100])
def test_the_frame_is_tight_and_public(dimension: int) -> None:
    """UUᵀ = I, entries ±1/√N, analysing is the transpose of combining; the same number gives the same frame."""
    frame = HadamardFrame(dimension, 3)
    assert 2 * dimension <= frame.size < 4 * dimension
    matrix = frame.combine(np.eye(frame.size)).T
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(dimension), atol=1e-14)
    np.testing.assert_allclose(np.abs(matrix), frame.size**-0.5, rtol=1e-14)
    np.testing.assert_allclose(frame.analyse(np.eye(dimension)), matrix, atol=1e-14)
    np.testing.assert_array_equal(HadamardFrame(dimension, 3).combine(np.eye(frame.size)).T, matrix)
    other = HadamardFrame(dimension, 4).combine(np.eye(frame.size)).T
    assert dimension == 2 or (other != matrix).any()


def test_the_public_frame_stays_the_same() -> None:
    """Clients and servers of different versions must agree: the first frame, written down."""
    rows, row_signs, column_signs = HadamardFrame(3)._rows_and_signs
    assert rows.tolist() == [3, 5, 6]
    assert row_signs.tolist() == [1.0, 1.0, 1.0]
    assert np.sign(column_signs).tolist() == [-1.0, -1.0, 1.0, -1.0, -1.0, -1.0, -1.0, -1.0]


@pytest.mark.parametrize("dimension", [64, 200, 1024])
def test_common_vectors_have_small_coefficients(dimension: int) -> None:
    """Random, sparse, constant and smooth vectors, at level 2: exactly the vector, all within the limit."""
    frame = HadamardFrame(dimension)
    limit = 2 / math.sqrt(frame.size)
    wave = np.sin(np.arange(dimension) / 7.0)
    vectors = [
        *unit_vectors(20, dimension),
        *np.eye(dimension)[:5],
        np.ones(dimension),
        wave,
        np.arange(dimension) + 0.5,
    ]
    vectors += [np.eye(dimension)[0] + np.eye(dimension)[k] for k in (1, 7)]
    rows = np.array(vectors) / np.linalg.norm(vectors, axis=1)[:, None]
    found, within = frame.small_coefficients(rows, limit)
    assert within.all()
    assert np.abs(found).max() <= limit
    np.testing.assert_allclose(frame.combine(found), rows, atol=1e-13)


def test_a_vector_without_small_coefficients_is_refused() -> None:
    """A column of the frame at a low level: one sentence that names the row, nothing is encoded."""
    mechanism = SQKR(1.0, 64, level=1.2)
    column = mechanism.public_frame.combine(np.eye(128)[:1])
    values = np.concatenate([np.zeros((3, 64)), column / np.linalg.norm(column)])
    with pytest.raises(ValueError, match=r"^SQKR: vector 3 cannot be written .* within level 1\.2; raise level or"):
        mechanism.encode(values)


@pytest.mark.parametrize(("epsilon", "dimension"), [(1.0, 64), (4.0, 100), (8.0, 1024)])
def test_there_is_no_bias(epsilon: float, dimension: int) -> None:
    """Over the exact law: E[reported sign of k] = (b/N)(1−γ)·a_k/c, and what finish makes of it is the vector."""
    mechanism = SQKR(epsilon, dimension)
    for vector in unit_vectors(3, dimension):
        shares = mechanism.frame_coefficients.coefficients(vector[None])[0]
        mean_signs = (
            shares * float(1 - mechanism.response.uniform_share) * mechanism.sign_count / mechanism.public_frame.size
        )
        np.testing.assert_allclose(mechanism.finish(mean_signs, 1).value, vector, atol=1e-12)


@pytest.mark.exhaustive
def test_the_measured_bias_is_below_half_a_percent() -> None:
    """600,000 users with one vector: the estimate along it is 1 within 0.5%, five of its standard errors.

    A false alarm has a probability of 1e-6, and the seed is fixed.
    """
    users, mechanism, vector = 600_000, SQKR(8.0, 16), unit_vectors(1, 16)
    crowd = np.tile(vector, (users, 1))
    estimate = mechanism.estimate(mechanism.encode(crowd, rng=np.random.default_rng(3)))
    assert math.sqrt(float(estimate.variance.mean())) < 0.001
    assert abs(estimate.value @ vector[0] - 1) < 0.005


@pytest.mark.parametrize(("epsilon", "signs"), [(1.0, 1), (2.0, 2), (4.0, 4), (8.0, 8)])
def test_the_best_number_of_signs(epsilon: float, signs: int) -> None:
    """By trying them all: κ²/b is least; the error at 1,024 numbers is dκ²·level²/b, less the vector's own square."""
    mechanism = SQKR(epsilon, 1024)
    assert mechanism.signs == signs

    def inflation(b: int) -> float:
        return ((math.exp(epsilon) + 2**b - 1) / (math.exp(epsilon) - 1)) ** 2

    assert all(inflation(signs) / signs <= inflation(b) / b for b in range(1, 20))
    error = mechanism.variance(unit_vectors(1, 1024)).sum() / 1024
    assert error == pytest.approx(inflation(signs) * 4 / signs, rel=0.01)


def test_a_saved_mechanism_keeps_its_number_of_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was chosen is a setting: a later, other default makes no other mechanism of the saved settings."""
    mechanism = SQKR(4.0, 64)
    saved = mechanism.settings()
    monkeypatch.setattr(sqkr, "_best_signs", lambda epsilon, most: 1)
    assert SQKR(4.0, 64).signs == 1
    assert saved["signs"] == mechanism.signs == 4
    assert SQKR(**saved) == mechanism


@pytest.mark.parametrize(("signs", "dimension"), [(1, 3), (2, 2), (3, 2), (4, 2)])
def test_the_table_is_randomized_response_on_the_signs(signs: int, dimension: int) -> None:
    """Each set of coefficients is equally likely; given the set, the signs' law is 2^b-ary randomized response."""
    mechanism = SQKR(1.5, dimension, signs=signs)
    table = mechanism.table()
    sets = math.comb(mechanism.public_frame.size, signs)
    keep = 1 - mechanism.response.uniform_share
    for value, row in zip(table.inputs, table.probabilities, strict=True):
        chances = dict(zip(map(tuple, table.messages.tolist()), row, strict=True))
        plus = (1 + mechanism.frame_coefficients.coefficients(value[None])[0]) / 2
        for places in itertools.combinations(range(mechanism.public_frame.size), signs):
            messages = [
                tuple(2 * k + s for k, s in zip(places, bits, strict=True))
                for bits in itertools.product((0, 1), repeat=signs)
            ]
            assert sum(chances[message] for message in messages) == Fraction(1, sets)
            for message in messages:
                own = math.prod(plus[pair >> 1] if pair & 1 else 1 - plus[pair >> 1] for pair in message)
                wanted = (float(keep) * own + float(1 - keep) / 2**signs) / sets
                assert float(chances[message]) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("mechanism", [SQKR(2.0, 100), SQKR(5.0, 129, signs=3, level=2.5)], ids=repr)
def test_large_vectors(mechanism: SQKR) -> None:
    """Mean and stated variance: the sum of d scaled squares within six standard deviations, a false alarm in 1e8."""
    users, d = 1000, mechanism.dimension
    values = unit_vectors(users, d) * np.random.default_rng(5).uniform(0, 1, (users, 1))
    messages = mechanism.encode(values, rng=np.random.default_rng(6))
    estimate = mechanism.estimate(mechanism.unpack(mechanism.pack(messages)))
    squares = (estimate.value - mechanism.truth(values)) ** 2 / mechanism.variance(values)
    assert abs(squares.sum() - d) < 6 * math.sqrt(2 * d)
    np.testing.assert_allclose(estimate.variance, mechanism.variance(values), rtol=0.05)


def test_messages_are_pairs_in_order() -> None:
    """b(1 + log2 N) bits; rows out of order and bits beyond the last are refused."""
    mechanism = SQKR(4.0, 1024)
    assert mechanism.message_bits == 4 * 12
    narrow = SQKR(1.0, 3, signs=2)
    assert (narrow.message_bits, narrow.message_bytes) == (8, 1)
    assert narrow.unpack(np.array([[0b0011_1110]], dtype=np.uint8)).tolist() == [[3, 14]]
    with pytest.raises(
        ValueError,
        match=r"^SQKR: expected \d+ coefficients in ascending order in \d+ bits.*, got others in 1 of 1 rows\.$",
    ):
        narrow.unpack(np.array([[0b0011_0010]], dtype=np.uint8))
    odd = SQKR(1.0, 2, signs=1)
    with pytest.raises(
        ValueError,
        match=r"^SQKR: expected \d+ coefficients in ascending order in 3 bits.*, got others in 1 of 1 rows\.$",
    ):
        odd.unpack(np.array([[0b0000_0001]], dtype=np.uint8))


def test_errors() -> None:
    """One sentence each."""
    with pytest.raises(ValueError, match=r"^SQKR: signs must be at most 4, got 5\.$"):
        SQKR(1.0, 2, signs=5)
    with pytest.raises(ValueError, match=r"^SQKR: level must be at least 1, got 0\.5\.$"):
        SQKR(1.0, 2, level=0.5)
    with pytest.raises(ValueError, match=r"^SQKR: frame must be at least 0, got -1\.$"):
        SQKR(1.0, 2, frame=-1)
    with pytest.raises(ValueError, match=r"^SQKR: a table needs fewer messages, got sets of 2 of 256 coefficients\.$"):
        SQKR(1.0, 100, signs=2).table()


def test_amplification_is_that_of_randomized_response_on_the_signs() -> None:
    """Two-level with own share 2^-b: the same blanket as randomized response on 2^b options."""
    ours = sdp.amplify(SQKR(2.0, 50, signs=3), 5_000, bound="optimal").epsilon(1e-6)
    theirs = sdp.amplify(sdp.KRR(2.0, 8), 5_000, bound="optimal").epsilon(1e-6)
    assert ours.upper == pytest.approx(theirs.upper, rel=1e-6)
