"""PCKV: the textbook law, users with few or too many pairs, large instances, sentences."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from shuffledp import amplify
from shuffledp.mechanisms.sets_and_key_values.pckv_and_privkv import EMPTY_KEY, PCKV
from tests.oracle import exact_enumeration

EMPTY = (EMPTY_KEY, 0.0)


def total_variation(first: Any, second: Any) -> Fraction:
    return sum((max(a - b, Fraction(0)) for a, b in zip(first, second, strict=True)), Fraction(0))


@pytest.mark.parametrize(("keys", "padding"), [(1, 1), (4, 1), (5, 3), (3, 3)])
def test_the_law_is_the_textbook_one(keys: int, padding: int) -> None:
    """Key kept with probability a, then the sign with P₂, else another key and a random sign."""
    epsilon = 1.25
    mechanism, grown, all_keys = PCKV(epsilon, keys, padding), padding * math.expm1(epsilon), keys + padding
    keep = (grown + 2) / (grown + 2 * all_keys)
    sign = (grown + 1) / (grown + 2)
    value, other = 0.25, (1 - keep) / (all_keys - 1) / 2
    law = mechanism.law_of(np.array([[0, value]]))
    up = (1 + value) / 2
    own_plus = keep * (up * sign + (1 - up) * (1 - sign))
    expected = own_plus / padding + (1 - 1 / padding) * other
    assert float(law[1]) == pytest.approx(expected, rel=1e-13)
    absent = other if keys == 1 else float(law[2 * keys - 1])
    assert absent == pytest.approx(other, rel=1e-13)
    assert sum(law) == 1


@pytest.mark.parametrize(("keys", "padding"), [(3, 1), (3, 3), (1000, 5), (10**6, 20)])
def test_parameters_are_the_published_ones(keys: int, padding: int) -> None:
    ratio = math.exp(1.25)
    parameters = PCKV(1.25, keys, padding).variation_ratio()
    assert parameters.p == pytest.approx(ratio, rel=1e-12)
    assert parameters.beta == pytest.approx(
        padding * (ratio - 1) / (padding * ratio + 2 * (keys + padding) - padding), rel=1e-12
    )


def test_users_with_fewer_pairs_than_the_padding_are_covered() -> None:
    """Ratio, total variation and the blanket's divergence hold with all sets of all sizes, exactly."""
    mechanism = PCKV(1.0, 3, 2)
    sets = [
        np.array([*zip(own, signs, strict=True), EMPTY])
        for size in range(3)
        for own in itertools.combinations(range(3), size)
        for signs in itertools.product((-1.0, 1.0, 0.5), repeat=size)
    ]
    rows = [mechanism.law_of(pairs) for pairs in sets]
    parameters = mechanism.variation_ratio()
    floor = [min(column) for column in zip(*rows, strict=True)]
    assert set(floor) == {mechanism.response.uniform_share / mechanism.outputs}
    ratio = Fraction(6, 5)
    worst = Fraction(0)
    for first, second in itertools.permutations(rows, 2):
        assert max(a / b for a, b in zip(first, second, strict=True)) <= Fraction(parameters.p)
        assert total_variation(first, second) <= Fraction(parameters.beta)
        values = [(a - ratio * b) / h for a, b, h in zip(first, second, floor, strict=True)]
        weights: dict[Fraction, Fraction] = {Fraction(0): 1 - sum(floor)}
        for value, h in zip(values, floor, strict=True):
            weights[value] = weights.get(value, Fraction(0)) + h
        worst = max(worst, exact_enumeration.positive_part_mean(list(weights), list(weights.values()), 2))
    own, other = mechanism.response.inside_density, mechanism.response.outside_density
    share = mechanism.response.share
    extremes = [(own - ratio * other) / other, (other - ratio * own) / other, 1 - ratio, Fraction(0)]
    masses = [share * other, share * other, (1 - 2 * share) * other, 1 - other]
    assert worst == exact_enumeration.positive_part_mean(extremes, masses, 2)


@pytest.mark.parametrize("pairs", [[(0, 1.0), (2, -0.5)], [(1, 0.25), EMPTY], [EMPTY, EMPTY]])
def test_estimates_are_unbiased_with_their_variance(pairs: list[tuple[int, float]]) -> None:
    """By the exact law of one user's message, whether two pairs are held, one or none."""
    mechanism, values = PCKV(1.0, 3, 2), np.array([pairs])
    law = np.array([float(chance) for chance in mechanism.law_of(values[0])])
    singles = np.array([mechanism.estimate(np.array([y])).value for y in range(mechanism.outputs)])
    mean = np.tensordot(law, singles, axes=1)
    np.testing.assert_allclose(mean, mechanism.truth(values), rtol=1e-12, atol=1e-12)
    spread = np.tensordot(law, (singles - mean) ** 2, axes=1)
    np.testing.assert_allclose(spread, mechanism.variance(values), rtol=1e-10)


def test_more_pairs_than_the_padding_are_refused() -> None:
    """Each of three pairs would count 2/3 where there is room for two, and no interval would hold the truth."""
    with pytest.raises(ValueError, match="PCKV: a user may hold at most 2 of the keys, got 3"):
        PCKV(1.0, 3, 2).encode([[(0, 1.0), (2, -0.5), (1, 0.25)]])


def test_empty_slots_may_stand_anywhere() -> None:
    """Encode follows the law for pairs between empty slots, up to the padding (chance of alarm 1e-6 each)."""
    from scipy.stats import chi2

    mechanism, users = PCKV(2.0, 4, 2), 40_000
    for pairs in (
        [EMPTY, (2, 0.5), EMPTY, EMPTY, EMPTY],
        [EMPTY, (2, -1.0), (0, 0.0), EMPTY, EMPTY],
        [(3, 1.0), EMPTY, (2, 0.5), EMPTY, EMPTY],
        [EMPTY] * 5,
    ):
        row = np.array(pairs)
        messages = mechanism.encode(np.tile(row, (users, 1, 1)), rng=np.random.default_rng(20))
        seen = np.bincount(messages, minlength=mechanism.outputs)
        expected = users * np.array([float(chance) for chance in mechanism.law_of(row)])
        assert ((seen - expected) ** 2 / expected).sum() <= chi2.isf(1e-6, mechanism.outputs - 1)


def test_estimates_and_means_on_a_crowd() -> None:
    """200,000 users with up to three pairs: all within 5.5 standard errors (chance of alarm below 1e-6)."""
    rng = np.random.default_rng(7)
    users, keys = 200_000, 6
    drawn = np.argsort(rng.random((users, keys)), axis=1)[:, :3].astype(float)
    drawn[rng.random(drawn.shape) < 0.3] = EMPTY_KEY
    values = np.stack([drawn, rng.uniform(-0.2, 1.0, drawn.shape)], axis=-1)
    mechanism = PCKV(2.0, keys, 3)
    estimate = mechanism.estimate(mechanism.encode(values, rng=rng))
    truth, deviation = mechanism.truth(values), np.sqrt(mechanism.variance(values))
    assert (np.abs(estimate.value - truth) <= 5.5 * deviation).all()
    np.testing.assert_allclose(estimate.variance[0], mechanism.variance(values)[0], rtol=0.05)
    assert (estimate.variance[1] >= 0.98 * mechanism.variance(values)[1]).all()
    np.testing.assert_allclose(mechanism.estimator.means(estimate), truth[1] / truth[0], atol=0.1)


def test_a_million_keys() -> None:
    mechanism = PCKV(1.0, 10**6, 8)
    assert mechanism.message_bits == 21
    curve = amplify(mechanism, 10**5, effort="quick")
    value = curve.epsilon(1e-8)
    assert 0 < value.lower <= value.upper < 1e-3
    messages = mechanism.encode(np.array([[[999_999, 0.5]]] * 1000), rng=np.random.default_rng(1))
    assert mechanism.estimate(messages).value.shape == (2, 10**6)


def test_the_attack_is_below_the_bound_and_near() -> None:
    for mechanism in PCKV.examples():
        value = amplify(mechanism, 1000, effort="quick").epsilon(1e-6)
        assert 0.9 * value.upper <= value.lower <= value.upper


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"epsilon": 0.0}, "PCKV: epsilon must be above 0 and finite, got 0.0."),
        ({"keys": 0}, "PCKV: keys must be at least 1, got 0."),
        ({"padding": 0}, "PCKV: padding must be at least 1, got 0."),
        ({"padding": 4}, "PCKV: padding must be at most keys = 3, got 4."),
        ({"epsilon": 1e-30}, "PCKV: epsilon must be large enough"),
    ],
)
def test_bad_settings(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        PCKV(**{"epsilon": 1.0, "keys": 3, "padding": 1, **settings})
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ([[0, 0.5]], "PCKV: expected an array of shape (users, slots, 2) with keys and values, got shape (1, 2)."),
        (np.zeros((0, 1, 2)), "PCKV: expected at least one user and one slot, got shape (0, 1, 2)."),
        (np.zeros((2, 0, 2)), "PCKV: expected at least one user and one slot, got shape (2, 0, 2)."),
        ([[[3, 0.5]]], "PCKV: keys must be whole numbers from 0 to 2, or -1 for none, got 3."),
        ([[[-2, 0.5]]], "PCKV: keys must be whole numbers from 0 to 2, or -1 for none, got -2."),
        ([[[0.5, 0.5]]], "PCKV: keys must be whole numbers from 0 to 2, or -1 for none, got 0.5."),
        ([[[math.inf, 0.5]]], "PCKV: keys must be whole numbers from 0 to 2, or -1 for none, got inf."),
        ([[[0, 1.5]]], "PCKV: values must be from -1 to 1, got 1.5."),
        ([[[0, -math.inf]]], "PCKV: values must be from -1 to 1, got -inf."),
        ([[[0, math.nan]]], "PCKV: keys and values must be numbers, got NaN."),
        ([[[1, 0.5], [0, 0.1], [1, 0.2]]], "PCKV: the keys of a user must be different, got 1 twice in one row."),
        (np.array([[["a", "b"]]]), "PCKV: values must be numbers, got <U1."),
        (np.zeros((1, 1, 2), dtype=bool), "PCKV: values must be numbers, got booleans."),
    ],
)
def test_bad_values(values: Any, sentence: str) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        PCKV(1.0, 3, 1).encode(values)
    assert str(caught.value) == sentence


def test_an_empty_slot_may_hold_any_number() -> None:
    checked = PCKV(1.0, 3, 1).check([[[-1, 7.0], [-1, 0.0], [2, 1]]])
    assert checked.shape == (1, 3, 2)
