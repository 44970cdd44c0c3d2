"""PrivKV: parameters of the executed law, which kinds of users are the worst, sentences."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from shuffledp import amplify
from shuffledp.mechanisms.sets_and_key_values.pckv_and_privkv import EMPTY_KEY, KeyDifference, PrivKV
from shuffledp.numerics.positive_part import PositivePartMean
from tests.oracle.tables import priv_kv, worst_ratio, worst_total_variation


def test_the_known_number() -> None:
    """ME-3: d = 4, ε1 = 0.28, ε2 = 0.42: β = 0.0695 and ratio 1.597, not 0.0918 and 2.014."""
    parameters = PrivKV(0.7, 4, share=0.4).variation_ratio()
    assert parameters.beta == pytest.approx(0.0695, abs=5e-5)
    assert parameters.p == pytest.approx(1.597, abs=5e-4)


@pytest.mark.parametrize("share", [0.15, 0.4, 0.5, 0.9])
@pytest.mark.parametrize(("keys", "items"), [(1, 1), (3, 1), (4, 2), (3, 2), (3, 3)])
def test_parameters_are_those_of_the_table(keys: int, items: int, share: float) -> None:
    """β is attained and p is the closed form; users with exactly ``items`` pairs are an independent table."""
    mechanism = PrivKV(2.0, keys, share=share, items=items)
    rows = mechanism.table().probabilities
    variations = [
        sum(max(a - b, Fraction(0)) for a, b in zip(first, second, strict=True))
        for first, second in itertools.combinations(rows, 2)
    ]
    parameters = mechanism.variation_ratio()
    assert float(max(variations)) == pytest.approx(parameters.beta, rel=1e-15)
    key, sign = (math.exp(part) for part in mechanism.epsilons)
    assert parameters.p == pytest.approx(max(2 * key * sign / (1 + sign), key, sign), rel=1e-14)
    laws = priv_kv(keys, items, key, sign)
    assert worst_total_variation(laws) <= parameters.beta * (1 + 1e-12)
    assert worst_ratio(laws) <= parameters.p * (1 + 1e-12)


def test_the_two_parts_never_exceed_epsilon() -> None:
    """ε1 + ε2 ≤ ε as exact numbers, for settings whose floating-point difference rounds up."""
    rng = np.random.default_rng(3)
    for epsilon, share in zip(rng.uniform(0.01, 9, 2000).tolist(), rng.uniform(0.01, 0.99, 2000).tolist(), strict=True):
        key, sign = PrivKV(epsilon, 3, share=share).epsilons
        assert Fraction(key) + Fraction(sign) <= Fraction(epsilon)


def all_kinds(keys: int, items: int) -> list[KeyDifference]:
    numbers = range(items + 1)
    return [
        KeyDifference(opposite, first, second)
        for opposite, first, second in itertools.product(numbers, repeat=3)
        if opposite + max(first, second) <= items and opposite + first + second <= keys
    ]


def divergence(mechanism: PrivKV, kind: KeyDifference, users: int, ratio: float) -> float:
    """(1/n)·E(ΣG)_+ by enumeration of all sums, the worse direction."""
    hiding = tuple(min(column) for column in zip(*mechanism.key_response.extreme_laws, strict=True))
    triples = np.array([[float(x) for x in c] for c in mechanism.law.pair(kind, hiding).classes()])  # type: ignore[arg-type]
    worst = 0.0
    for first, second in ((triples[:, 0], triples[:, 1]), (triples[:, 1], triples[:, 0])):
        values, chances = (first - ratio * second) / triples[:, 2], triples[:, 2]
        sums, weights = np.zeros(1), np.ones(1)
        for _ in range(users):
            sums, weights = np.add.outer(sums, values).ravel(), np.multiply.outer(weights, chances).ravel()
        worst = max(worst, float(np.maximum(sums, 0) @ weights) / users)
    return worst


@pytest.mark.parametrize("share", [0.05, 0.2, 0.35, 0.45, 0.5, 0.8])
@pytest.mark.parametrize(("keys", "items"), [(4, 1), (1, 1), (5, 2), (4, 2), (3, 2), (3, 3), (4, 3), (6, 3)])
def test_no_kind_is_worse_than_the_listed_ones(keys: int, items: int, share: float) -> None:
    for epsilon in (0.5, 3.0):
        mechanism = PrivKV(epsilon, keys, share=share, items=items)
        listed = list(mechanism.law.worst_kinds())
        for users, fraction in itertools.product((1, 2, 3), (0.01, 0.3, 0.8)):
            ratio = math.exp(fraction * epsilon)
            most = max(divergence(mechanism, kind, users, ratio) for kind in listed)
            for kind in all_kinds(keys, items):
                assert divergence(mechanism, kind, users, ratio) <= most + 1e-13


def test_few_pairs_of_many_keys_are_one_kind() -> None:
    assert list(PrivKV(1.0, 10**6, items=100).law.worst_kinds()) == [KeyDifference(0, 100, 100)]
    assert len(PrivKV(1.0, 10**6, share=0.1, items=3).blankets()) == 4


@pytest.mark.parametrize(("keys", "items", "share"), [(40, 20, 0.1), (12, 12, 0.5), (10**6, 10**6, 0.5)])
def test_too_many_kinds_are_covered_by_one_pair(keys: int, items: int, share: float) -> None:
    """The one pair that stands for all is at least every listed kind's own."""
    mechanism = PrivKV(1.0, keys, share=share, items=items)
    (cover,) = mechanism.blankets()
    if keys > 100:
        return
    hiding = tuple(min(column) for column in zip(*mechanism.key_response.extreme_laws, strict=True))
    for users, epsilon in ((2, 0.1), (50, 0.2)):
        covered = PositivePartMean(cover.law, users).bracket(epsilon).upper_float()
        for kind in itertools.islice(mechanism.law.worst_kinds(), 0, None, 5):
            pair = mechanism.law.pair(kind, hiding)  # type: ignore[arg-type]
            for way in (pair, pair.swapped()):
                assert PositivePartMean(way.law, users).bracket(epsilon).lower_float() <= covered


def test_estimates_and_means_on_a_crowd() -> None:
    """200,000 users with up to three pairs: all within 5.5 standard errors (chance of alarm below 1e-6)."""
    rng = np.random.default_rng(8)
    users, keys = 200_000, 5
    drawn = np.argsort(rng.random((users, keys)), axis=1)[:, :3].astype(float)
    drawn[rng.random(drawn.shape) < 0.3] = EMPTY_KEY
    values = np.stack([drawn, rng.uniform(-0.2, 1.0, drawn.shape)], axis=-1)
    mechanism = PrivKV(3.0, keys, items=3)
    estimate = mechanism.estimate(mechanism.encode(values, rng=rng))
    truth, exact = mechanism.truth(values), mechanism.variance(values)
    assert (np.abs(estimate.value - truth) <= 5.5 * np.sqrt(exact)).all()
    np.testing.assert_allclose(estimate.variance[0], exact[0], rtol=0.05)
    assert (estimate.variance[1] >= 0.97 * exact[1]).all()
    np.testing.assert_allclose(mechanism.estimator.means(estimate), truth[1] / truth[0], atol=0.1)


def test_the_attack_is_below_the_bound() -> None:
    for mechanism in PrivKV.examples():
        value = amplify(mechanism, 1000, effort="quick").epsilon(1e-6)
        assert 0.5 * value.upper <= value.lower <= value.upper


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"epsilon": 0.0}, "PrivKV: epsilon must be above 0 and finite, got 0.0."),
        ({"epsilon": 1e-18}, "PrivKV: epsilon must be at least 1e-17, got 1e-18."),
        ({"keys": 0}, "PrivKV: keys must be at least 1, got 0."),
        ({"items": 4}, "PrivKV: items must be at most keys = 3, got 4."),
        ({"items": 0}, "PrivKV: items must be at least 1, got 0."),
        ({"share": 0.0}, "PrivKV: share must be between 0 and 1, both excluded, got 0.0."),
        ({"share": 1}, "PrivKV: share must be between 0 and 1, both excluded, got 1.0."),
        ({"share": 1e-25}, "PrivKV: both parts of epsilon must be large enough"),
    ],
)
def test_bad_settings(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        PrivKV(**{"epsilon": 1.0, "keys": 3, **settings})
    assert str(caught.value).startswith(sentence)


def test_more_pairs_than_agreed_are_refused() -> None:
    """Empty slots do not count."""
    mechanism = PrivKV(1.0, 3, items=1)
    mechanism.encode([[[0, 0.5], [-1, 0.0]]])
    with pytest.raises(ValueError, match=r"^PrivKV: a user may hold at most 1 of the keys, got 2\.$"):
        mechanism.encode([[[0, 0.5], [1, 0.5]]])
