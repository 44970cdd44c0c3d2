"""Errors in the parameters of mechanisms [VR Tables 1, 3, 5, 6] and in common descriptions of them."""

from __future__ import annotations

import math
from fractions import Fraction
from math import comb

import pytest

from tests.oracle.tables import (
    affine_family,
    all_functions,
    arc_hit,
    duchi,
    hadamard_block,
    hadamard_response,
    hadamard_support,
    local_hash,
    priv_kv,
    priv_set,
    priv_set_total_variation,
    sampled_bit,
    sampled_item_rappor,
    worst_ratio,
    worst_total_variation,
)


@pytest.mark.parametrize(("options", "held", "size"), [(5, 2, 2), (6, 2, 2), (6, 3, 2)])
def test_priv_set_denominator(options: int, held: int, size: int) -> None:
    """ME-1: with the printed parentheses beta is below the total variation; the corrected form equals it."""
    ratio = Fraction(3)
    true = worst_total_variation(priv_set(options, held, size, ratio))
    gap = comb(options - held, size) - comb(options - 2 * held, size)
    below = ratio * comb(options, size) - comb(options - held, size) + comb(options - held, size)
    printed = (ratio - 1) * gap / below
    assert printed < true == priv_set_total_variation(options, held, size, ratio)


def test_local_hash_total_variation() -> None:
    """ME-2: the hash is part of the message, so beta is (1 - 1/l) times the printed value."""
    length = 3
    for ratio in (Fraction(2), Fraction(7)):
        printed = (ratio - 1) / (ratio + length - 1)
        true = worst_total_variation(local_hash(3, length, ratio))
        assert true == (1 - Fraction(1, length)) * printed < printed
    assert worst_total_variation(local_hash(3, 3, math.exp(2))) == pytest.approx(0.4537, abs=5e-5)


@pytest.mark.parametrize(
    ("keys", "held", "ratio_key", "ratio_value"),
    [(4, 1, math.exp(0.28), math.exp(0.42)), (5, 2, 3.0, 2.0), (4, 2, 2.0, 5.0)],
)
def test_priv_kv_parameters(keys: int, held: int, ratio_key: float, ratio_value: float) -> None:
    """ME-3: the printed beta and p of PrivKV are over-estimates (sound, not tight)."""
    laws = priv_kv(keys, held, ratio_key, ratio_value)
    middle = (ratio_value - 1) / (ratio_value + 1)
    printed = 2 * held * max(ratio_key * middle, ratio_key - 1 + middle / 2) / (keys * (ratio_key + 1))
    assert worst_total_variation(laws) < printed - 0.02
    right = max(2 * ratio_key * ratio_value / (1 + ratio_value), ratio_key, ratio_value)
    assert worst_ratio(laws) == pytest.approx(right, rel=1e-12)
    assert right < 0.9 * ratio_key * ratio_value


def test_priv_kv_number() -> None:
    """ME-3: d = 4, s = 1, eps1 = 0.28, eps2 = 0.42: 0.0695, not 0.0918."""
    laws = priv_kv(4, 1, math.exp(0.28), math.exp(0.42))
    assert worst_total_variation(laws) == pytest.approx(0.0695, abs=5e-5)


def test_sampling_rappor_beta_is_too_small() -> None:
    """ME-4: the printed beta is below the total variation of both natural readings of the mechanism."""
    options, held, root = 5, 2, Fraction(2)
    printed = held * (root - 1) / (options * (root + 1))
    laws = sampled_bit(options, held, root * root)
    assert worst_ratio(laws) == root * root
    ratio = root * root
    assert worst_total_variation(laws) == Fraction(2 * held, options) * (ratio - 1) / (ratio + 1)
    assert worst_total_variation(laws) > 3 * printed
    for options, held in [(3, 1), (4, 2)]:
        other = sampled_item_rappor(options, held, root)
        assert worst_ratio(other) <= root * root
        assert worst_total_variation(other) > held * (root - 1) / (options * (root + 1))


@pytest.mark.parametrize(("places", "arc"), [(5, 1), (7, 1), (7, 2)])
def test_wheel_and_collision_need_more_than_pairwise_hashing(places: int, arc: int) -> None:
    """ME-5: with a pairwise family the estimate of an item that is not held is biased by -1/5 or more."""
    ratio, held = Fraction(3), (0, 1)
    omega = len(held) * arc * ratio + places - len(held) * arc
    own, other = arc * ratio / omega, Fraction(arc, places)

    def estimate(query: int, hashes: list) -> Fraction:
        return (arc_hit(places, arc, held, query, hashes, ratio) - other) / (own - other)

    assert estimate(0, affine_family(places)) == 1
    assert estimate(2, affine_family(places)) <= -Fraction(1, 5)
    assert estimate(0, all_functions(3, places)) == 1
    assert estimate(2, all_functions(3, places)) == 0


@pytest.mark.parametrize("dimension", [2, 4])
def test_duchi_ties_break_privacy_in_even_dimension(dimension: int) -> None:
    """ME-6: with ties in both halves the ratio is e^eps + 1; with ties of weight 1 it is e^eps."""
    ratio = Fraction(3)
    assert worst_ratio(duchi(dimension, ratio, ties_in_both=True)) == ratio + 1
    assert worst_ratio(duchi(dimension, ratio, ties_in_both=False)) == ratio
    assert worst_ratio(duchi(3, ratio, ties_in_both=True)) == ratio


@pytest.mark.parametrize("dimension", [2, 3, 4])
def test_duchi_total_variation_in_even_dimension(dimension: int) -> None:
    """ME-7: beta = (e^eps - 1)/(e^eps + 1) is right in odd dimension and too large in even dimension."""
    ratio, corners = Fraction(3), 2**dimension
    positive = corners // 2 - (comb(dimension, dimension // 2) // 2 if dimension % 2 == 0 else 0)
    true = worst_total_variation(duchi(dimension, ratio, ties_in_both=False))
    printed = (ratio - 1) / (ratio + 1)
    assert true == (ratio - 1) * positive / (ratio * positive + corners - positive)
    assert (true == printed) == (dimension % 2 == 1)
    assert true <= printed


def test_hadamard_blocks_have_no_single_support_probability() -> None:
    """ME-8: with blocks, no (support - n r)/(s - r) is unbiased for all other values; the block form is."""
    ratio, outputs, blocks, options = Fraction(3), 8, 2, 6
    size = outputs // blocks
    laws = hadamard_response(options, outputs, blocks, ratio)
    support = {
        (x, y): sum(law for out, law in laws[x].items() if out in hadamard_support(size, y))
        for x in range(options)
        for y in range(options)
    }
    others = {support[x, 0] for x in range(1, options)}
    assert len(others) == 2
    half = size // 2
    scale = (half * ratio + outputs - half) / (half * (ratio - 1))
    for x in range(options):
        for y in range(options):
            block = hadamard_block(size, y)
            in_block = sum(law for out, law in laws[x].items() if out // size == block)
            assert (2 * support[x, y] - in_block) * scale == (1 if x == y else 0)
