"""Hadamard response: closed forms, blocks, the fast transform, large instances, sentences."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.linalg import hadamard

from shuffledp import amplify
from shuffledp.mechanisms.frequency.hadamard_response import HadamardResponse, hadamard_transform
from tests.oracle.tables import hadamard_response


@pytest.mark.parametrize(
    ("options", "blocks", "size"), [(2, 1, 4), (3, 1, 4), (4, 1, 8), (6, 2, 4), (7, 2, 8), (4, 4, 2), (1024, 1, 2048)]
)
def test_blocks_are_the_smallest_that_hold_all_options(options: int, blocks: int, size: int) -> None:
    mechanism = HadamardResponse(1.0, options, blocks)
    assert mechanism.block_size == size
    assert mechanism.outputs == blocks * size
    assert blocks * (size - 1) >= options > blocks * (size // 2 - 1)
    assert mechanism.message_bits == math.log2(blocks * size)


@pytest.mark.parametrize(("options", "blocks"), [(3, 1), (5, 1), (6, 2), (9, 4), (4, 4)])
def test_the_law_is_the_textbook_one(options: int, blocks: int) -> None:
    """Same regions as an independent table; probabilities equal up to the rounding of γ."""
    mechanism = HadamardResponse(1.5, options, blocks)
    laws = hadamard_response(options, mechanism.outputs, blocks, math.exp(1.5))
    table = mechanism.table()
    for x, row in zip(table.inputs.tolist(), table.probabilities, strict=True):
        for y, chance in zip(table.messages.tolist(), row, strict=True):
            assert float(chance) == pytest.approx(laws[x][y], rel=1e-14)


@pytest.mark.parametrize(
    ("options", "blocks", "in_two_blocks"), [(7, 1, False), (100, 1, False), (100, 4, True), (3, 2, False)]
)
def test_parameters_are_the_published_ones(options: int, blocks: int, in_two_blocks: bool) -> None:
    """β is the closed form; the larger one wherever two blocks are in use."""
    mechanism, ratio = HadamardResponse(1.5, options, blocks), math.exp(1.5)
    s, outputs = mechanism.block_size / 2, mechanism.outputs
    beta = (s if in_two_blocks else s / 2) * (ratio - 1) / (s * ratio + outputs - s)
    parameters = mechanism.variation_ratio()
    assert parameters.beta == pytest.approx(beta, rel=1e-14)
    assert parameters.p == pytest.approx(ratio, rel=1e-14)


@pytest.mark.parametrize(("options", "blocks", "q_common"), [(3, 1, 1.0), (4, 1, None), (4, 4, 1.0), (3, 2, 1.0)])
def test_q_common(options: int, blocks: int, q_common: float | None) -> None:
    """1 where two options own no column together but the one that all own; the conformance tests prove it."""
    assert HadamardResponse(1.0, options, blocks).variation_ratio().q_common == q_common


def test_variance_with_blocks_is_the_closed_form() -> None:
    """Owner, same block and other block each have the variance of the closed form."""
    epsilon, options, blocks = 2.0, 12, 4
    mechanism = HadamardResponse(epsilon, options, blocks)
    s, outputs, ratio = mechanism.block_size / 2, mechanism.outputs, math.exp(epsilon)
    w = 1 / (s * ratio + outputs - s)
    a = s * (ratio - 1) * w
    variance = mechanism.variance([1])
    assert variance[1] == pytest.approx((s * (ratio + 1) * w - a * a) / (a * a), rel=1e-12)
    assert variance[0] == pytest.approx(s * (ratio + 1) * w / (a * a), rel=1e-12)
    assert variance[5] == pytest.approx(2 * s * w / (a * a), rel=1e-12)


@pytest.mark.parametrize("length", [1, 2, 8, 64])
def test_the_fast_transform_is_the_matrix_product(length: int) -> None:
    rows = np.random.default_rng(1).integers(0, 1000, (3, length))
    np.testing.assert_array_equal(hadamard_transform(rows), rows @ hadamard(length))


def test_decoding_equals_the_naive_count() -> None:
    """ĉ = (2·N_x − N_block)/(1 − γ), N_x counted message by message."""
    mechanism = HadamardResponse(1.0, 50, 4)
    messages = mechanism.encode(np.arange(50).repeat(40), rng=np.random.default_rng(6))
    table = mechanism.table()
    blocks = messages // mechanism.block_size
    value = mechanism.estimate(messages).value
    for x, row in enumerate(table.probabilities):
        owned = np.array([chance == max(row) for chance in row])
        mine = int(blocks[owned[messages]][0])
        support = 2 * owned[messages].sum() - (blocks == mine).sum()
        assert value[x] == pytest.approx(support / float(1 - mechanism.response.uniform_share), rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("blocks", [1, 8])
def test_the_estimate_is_right(blocks: int) -> None:
    """Over several batches: within six standard errors in every component (false alarm below 1e-6)."""
    generator = np.random.default_rng(9)
    values = np.minimum(generator.geometric(0.05, 50_000), 200) - 1
    mechanism = HadamardResponse(3.0, 200, blocks)
    estimate = mechanism.estimate(mechanism.encode(values, rng=generator))
    deviation = np.sqrt(mechanism.variance(values))
    assert (np.abs(estimate.value - mechanism.truth(values)) < 6 * deviation).all()
    np.testing.assert_allclose(estimate.standard_error, deviation, rtol=0.1)
    assert (estimate.variance >= 0).all()


def test_column_zero_helps_to_hide() -> None:
    """With one block the blanket exceeds γ by (e^ε−1)·γ/K, the column that every option owns."""
    mechanism = HadamardResponse(1.0, 3)
    hiding = sum((min(column) for column in zip(*mechanism.table().probabilities, strict=True)), Fraction(0))
    gamma = mechanism.response.uniform_share
    assert hiding == gamma + (mechanism.response.inside_density - gamma) / 4 > gamma
    assert float(mechanism.blankets()[0].classes()[-1].hiding) == pytest.approx(1 - float(hiding))


def test_a_large_instance() -> None:
    mechanism = HadamardResponse(1.0, 10**6)
    assert mechanism.outputs == 2**20
    assert mechanism.message_bits == 20
    values = np.full(50_000, 999_999)
    estimate = mechanism.estimate(mechanism.encode(values, rng=np.random.default_rng(3)))
    assert abs(estimate.value[-1] - 50_000) < 6 * np.sqrt(mechanism.variance(values)[-1])
    assert amplify(mechanism, 10**5, effort="quick").epsilon(1e-8).upper < 0.1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"epsilon": 1.0, "options": 1}, "HadamardResponse: options must be at least 2, got 1."),
        ({"epsilon": 1.0, "options": 9, "blocks": 3}, "HadamardResponse: blocks must be a power of two, got 3."),
        ({"epsilon": 1.0, "options": 9, "blocks": 0}, "HadamardResponse: blocks must be at least 1, got 0."),
        ({"epsilon": math.inf, "options": 9}, "HadamardResponse: epsilon must be above 0 and finite, got inf."),
    ],
)
def test_bad_settings(arguments: dict, sentence: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        HadamardResponse(**arguments)
    assert str(caught.value) == sentence


def test_messages_beyond_the_last_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"^HadamardResponse: expected messages below 16, got others in 1 of 1 rows\.$"
    ):
        HadamardResponse(1.0, 9).unpack(np.array([[16]], dtype=np.uint8))
