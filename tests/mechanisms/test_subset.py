"""Subset selection: closed forms, best size, large instances, sentences."""

from __future__ import annotations

import math
from fractions import Fraction
from math import comb

import numpy as np
import pytest

from shuffledp import amplify
from shuffledp.mechanisms.base.subset_parts import _total_variance
from shuffledp.mechanisms.frequency.randomized_response import KRR
from shuffledp.mechanisms.frequency.subset_selection import Subset


@pytest.mark.parametrize(("options", "size"), [(2, 1), (5, 2), (7, 3), (6, 5), (128, 34)])
def test_parameters_are_the_published_ones(options: int, size: int) -> None:
    """β, s and r are the published closed forms, up to the rounding of γ; the ratio does not exceed e^ε."""
    mechanism = Subset(1.5, options, size)
    ratio = math.exp(1.5)
    scale = ratio * comb(options - 1, size - 1) + comb(options - 1, size)
    parameters = mechanism.variation_ratio()
    assert parameters.beta == pytest.approx((ratio - 1) * comb(options - 2, size - 1) / scale, rel=1e-14)
    assert parameters.p == pytest.approx(ratio, rel=1e-14)
    assert float(mechanism.estimator.true_support) == pytest.approx(
        ratio * comb(options - 1, size - 1) / scale, rel=1e-14
    )
    other = (ratio * (comb(options - 2, size - 2) if size > 1 else 0) + comb(options - 2, size - 1)) / scale
    assert float(mechanism.estimator.false_support) == pytest.approx(other, rel=1e-14)


def test_the_best_size_is_next_to_the_rule_of_thumb() -> None:
    """The default minimises the total variance over all sizes, and is one of the two next to d/(e^ε+1)."""
    for options in range(2, 25):
        for epsilon in (0.1, 0.7, 1.0, 2.0, 3.3, 6.0):
            size = Subset(epsilon, options).subset_size
            ratio = Fraction(math.exp(epsilon))
            costs = {k: _total_variance(ratio, options, 1, k) for k in range(1, options)}
            assert costs[size] == min(costs.values())
            thumb = options / (math.exp(epsilon) + 1)
            assert size in (max(1, math.floor(thumb)), math.ceil(thumb))


def test_size_one_is_randomized_response() -> None:
    """With one option in the set it is KRR: same law, same parameters, same curve."""
    mechanism, simple = Subset(2.0, 9, 1), KRR(2.0, 9)
    assert mechanism.table().probabilities == simple.table().probabilities
    assert mechanism.variation_ratio() == simple.variation_ratio()
    assert (
        amplify(mechanism, 1000, effort="quick").epsilon(1e-6).upper
        == amplify(simple, 1000, effort="quick").epsilon(1e-6).upper
    )


def test_a_large_instance() -> None:
    """A million options: parameters, blanket and an encoded message at once."""
    mechanism = Subset(1.0, 10**6)
    assert mechanism.subset_size == round(10**6 / (math.e + 1))
    assert mechanism.message_bits == 10**6
    assert amplify(mechanism, 10**5, effort="quick").epsilon(1e-8).upper < 0.1
    few = Subset(12.0, 10**6)
    messages = few.encode(np.full(1000, 999_999), rng=np.random.default_rng(2))
    assert messages.shape == (1000, few.subset_size)
    assert (messages == 999_999).any(axis=1).mean() == pytest.approx(float(few.estimator.true_support), abs=0.1)


@pytest.mark.parametrize(("epsilon", "options", "size"), [(2.0, 40, None), (2.0, 40, 1), (1.0, 5, 4), (0.5, 300, 120)])
def test_the_estimates_add_up_to_the_users(epsilon: float, options: int, size: int | None) -> None:
    """A message names k options, so that the supports of all options add up to k, and the estimates to the users."""
    mechanism = Subset(epsilon, options, size)
    true, false = mechanism.estimator.true_support, mechanism.estimator.false_support
    assert true + (options - 1) * false == mechanism.subset_size
    values = np.repeat([0, 1], [1010, 490])
    estimate = mechanism.estimate(mechanism.encode(values, rng=np.random.default_rng(3)))
    assert estimate.value.sum() == pytest.approx(len(values), rel=1e-9)


@pytest.mark.parametrize(("epsilon", "options"), [(1.0, 40), (4.0, 300)])
def test_the_estimate_is_right(epsilon: float, options: int) -> None:
    """Both ways of drawing: within six standard errors in every component (false alarm below 1e-6)."""
    generator = np.random.default_rng(8)
    values = np.minimum(generator.geometric(0.1, 40_000), options) - 1
    mechanism = Subset(epsilon, options)
    estimate = mechanism.estimate(mechanism.encode(values, rng=generator))
    deviation = np.sqrt(mechanism.variance(values))
    assert (np.abs(estimate.value - mechanism.truth(values)) < 6 * deviation).all()
    np.testing.assert_allclose(estimate.standard_error, deviation, rtol=0.1)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"epsilon": 0.0, "options": 3}, "Subset: epsilon must be above 0 and finite, got 0.0."),
        ({"epsilon": 1.0, "options": 1}, "Subset: options must be at least 2, got 1."),
        ({"epsilon": 1.0, "options": 4, "size": 4}, "Subset: size must be at most 3, got 4."),
        ({"epsilon": 1.0, "options": 4, "size": 0}, "Subset: size must be at least 1, got 0."),
        (
            {"epsilon": 1e-30, "options": 4},
            "Subset: epsilon must be large enough for a coin of 64 bits to show it, got 1e-30.",
        ),
    ],
)
def test_bad_settings(arguments: dict, sentence: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        Subset(**arguments)
    assert str(caught.value) == sentence


def test_whole_floats_are_counts() -> None:
    """1e3 is a count, and gives the same mechanism as 1000."""
    assert Subset(1, 1e3, 7.0) == Subset(1.0, 1000, 7)
    assert Subset(700.0, 10).subset_size == 1
