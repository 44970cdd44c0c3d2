"""PrivSet: closed forms, the worst pair, exact sampling either way, best size, sentences."""

from __future__ import annotations

import math
from fractions import Fraction
from math import comb

import numpy as np
import pytest

from shuffledp import amplify
from shuffledp.mechanisms.base.subset_parts import _total_variance
from shuffledp.mechanisms.frequency.subset_selection import Subset
from shuffledp.mechanisms.sets_and_key_values.privset import PrivSet
from shuffledp.numerics.positive_part import PositivePartMean
from tests.oracle.exact_enumeration import Table, positive_part_mean


def choose(n: int, k: int) -> int:
    return comb(n, k) if n >= 0 else 0


@pytest.mark.parametrize(("d", "m", "k"), [(6, 2, 2), (5, 3, 2), (5, 3, 1), (7, 2, 5), (128, 8, 5), (10, 9, 1)])
def test_parameters_are_the_corrected_ones(d: int, m: int, k: int) -> None:
    """β, s and r are the closed forms with the right denominator, up to the rounding of γ."""
    mechanism, ratio = PrivSet(1.5, d, m, k), math.exp(1.5)
    omega = ratio * (comb(d, k) - comb(d - m, k)) + comb(d - m, k)
    parameters = mechanism.variation_ratio()
    assert parameters.p == pytest.approx(ratio, rel=1e-14)
    assert parameters.beta == pytest.approx((ratio - 1) * (comb(d - m, k) - choose(d - 2 * m, k)) / omega, rel=1e-13)
    outside = choose(d - m - 1, k - 1)
    assert float(mechanism.estimator.true_support) == pytest.approx(ratio * comb(d - 1, k - 1) / omega, rel=1e-14)
    other = (ratio * (comb(d - 1, k - 1) - outside) + outside) / omega
    assert float(mechanism.estimator.false_support) == pytest.approx(other, rel=1e-14)


def table_divergence(rows: Table, a: int, b: int, users: int, ratio: Fraction) -> Fraction:
    """(1/n)·E(ΣG)_+ of one pair against the pointwise infimum, equal values merged."""
    weights: dict[Fraction, Fraction] = {}
    for x, y, *column in zip(rows[a], rows[b], *rows, strict=True):
        value = (x - ratio * y) / min(column)
        weights[value] = weights.get(value, Fraction(0)) + min(column)
    weights[Fraction(0)] = weights.get(Fraction(0), Fraction(0)) + 1 - sum(weights.values())
    return positive_part_mean(list(weights), list(weights.values()), users) / users


@pytest.mark.parametrize("mechanism", [PrivSet(1.0, 6, 3, 2), PrivSet(1.0, 5, 3, 2), PrivSet(2.0, 5, 3, 1)])
def test_the_worst_pair_shares_the_fewest_options(mechanism: PrivSet) -> None:
    """Each kind of pair has the blanket of its closed form; the divergence falls as the overlap grows."""
    table = mechanism.table()
    own = [set(row) for row in table.inputs.tolist()]
    for users, ratio in ((1, Fraction(5, 4)), (2, Fraction(3, 2)), (3, Fraction(11, 10))):
        epsilon = math.log(ratio)
        values = []
        for overlap in range(mechanism.subsets.least_overlap, mechanism.items):
            other = next(place for place, row in enumerate(own) if len(row & own[0]) == overlap)
            truth = float(table_divergence(table.probabilities, 0, other, users, ratio))
            pair = mechanism.response.blanket_pair(mechanism.subsets.exclusive_share(overlap))
            claimed = PositivePartMean(pair.law, users).bracket(epsilon).upper_float()
            assert claimed == pytest.approx(truth, rel=1e-9, abs=1e-15)
            values.append(truth)
        assert values == sorted(values, reverse=True)
        # With 5 options, 3 items and size 2 every subset meets one of the two users, whichever way they overlap.
        strict = mechanism.subsets.exclusive_share(mechanism.subsets.least_overlap) > mechanism.subsets.exclusive_share(
            mechanism.items - 1
        )
        assert strict == (values[0] > values[-1])


def test_one_item_is_subset_selection() -> None:
    mechanism, simple = PrivSet(1.0, 9, 1), Subset(1.0, 9)
    assert mechanism.table().probabilities == simple.table().probabilities
    assert mechanism.variation_ratio() == simple.variation_ratio()


def test_the_best_size_is_the_best() -> None:
    """The default minimises the total variance; it has one valley, as the search assumes."""
    for options in range(2, 13):
        for items in range(1, options):
            for epsilon in (0.1, 1.0, 2.0, 5.0):
                ratio = Fraction(math.exp(epsilon))
                costs = [_total_variance(ratio, options, items, k) for k in range(1, options - items + 1)]
                best = costs.index(min(costs))
                assert PrivSet(epsilon, options, items).subset_size == best + 1
                assert costs[: best + 1] == sorted(costs[: best + 1], reverse=True)
                assert costs[best:] == sorted(costs[best:])


def test_total_variance_is_that_of_the_estimator() -> None:
    """What the default size minimises is the sum of ``variance`` over the options, per user, whatever the data."""
    mechanism = PrivSet(1.0, 7, 2, 3)
    for values in ([[0, 1], [2, 6]], [[0, 1], [1, 0]]):
        total = float(_total_variance(Fraction(math.e), 7, 2, 3))
        assert mechanism.variance(values).sum() / 2 == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("size", [2, 10, 40])
def test_the_estimate_is_right(size: int) -> None:
    """Both ways of accepting: within six standard errors in every component (false alarm below 1e-6)."""
    generator = np.random.default_rng(8)
    values = np.argsort(generator.random((30_000, 60)) + np.linspace(0, 1, 60), axis=1)[:, :6]
    mechanism = PrivSet(2.0, 60, 6, size)
    estimate = mechanism.estimate(mechanism.encode(values, rng=generator))
    deviation = np.sqrt(mechanism.variance(values))
    assert (np.abs(estimate.value - mechanism.truth(values)) < 6 * deviation).all()
    np.testing.assert_allclose(estimate.standard_error, deviation, rtol=0.1)


def test_a_large_instance() -> None:
    """A million options, a thousand items each."""
    mechanism = PrivSet(1.0, 10**6, 1000)
    assert 100 < mechanism.subset_size < 1000
    assert amplify(mechanism, 10**5, effort="quick").epsilon(1e-8).upper < 0.1
    values = np.arange(20_000).reshape(20, 1000)
    messages = mechanism.encode(values, rng=np.random.default_rng(1))
    np.testing.assert_array_equal(mechanism.unpack(mechanism.pack(messages)), messages)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"epsilon": 1.0, "options": 4, "items": 4}, "PrivSet: items must be below the 4 options, got 4."),
        ({"epsilon": 1.0, "options": 4, "items": 0}, "PrivSet: items must be at least 1, got 0."),
        ({"epsilon": 1.0, "options": 4, "items": 2, "size": 3}, "PrivSet: size must be at most 2, got 3."),
    ],
)
def test_bad_settings(arguments: dict, sentence: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        PrivSet(**arguments)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ([[0, 1], [2, 2]], "PrivSet: the items of a user must be different, got 2 twice in one row."),
        ([[0, 1], [2]], "PrivSet: expected rows of one length, got rows of different lengths."),
        ([0, 1], "PrivSet: expected one row per user, got an array of shape (2,)."),
        ([[0, 1, 2]], "PrivSet: expected 2 items per user, got rows of 3."),
        ([[0, 4]], "PrivSet: values must be from 0 to 3, got 4."),
        ([[0.0, 1.0]], "PrivSet: values must be whole numbers from 0 to 3, got float64."),
        (np.zeros((0, 2), dtype=int), "PrivSet: expected at least one value, got none."),
    ],
)
def test_bad_values(values, sentence: str) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        PrivSet(1.0, 4, 2).encode(values)
    assert str(caught.value) == sentence
