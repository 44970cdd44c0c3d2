"""SamplingRAPPOR: closed forms against enumeration, overlapping sets, bad input.

The statistical test has a fixed seed and raises a false alarm with probability below 1e-6.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from flint import ctx

from shuffledp.mechanisms.sets_and_key_values.sampling_rappor import SamplingRAPPOR
from shuffledp.numerics.positive_part import PositivePartMean
from tests.oracle import exact_enumeration

SMALL = [
    SamplingRAPPOR(epsilon, options, items)
    for epsilon in (0.3, 2.0)
    for options, items in ((2, 1), (3, 1), (3, 2), (4, 2), (5, 1), (5, 3), (6, 2))
]
every_small = pytest.mark.parametrize("mechanism", SMALL, ids=str)


@every_small
def test_parameters_are_the_least_ones(mechanism: SamplingRAPPOR) -> None:
    """p, beta, q and q_common are the largest of the enumerated table; q_common where there is a common part."""
    stated = mechanism.variation_ratio().describe()
    found = list(exact_enumeration.variation_ratio_of_table(mechanism.table().probabilities).values())
    assert float(max(f.p for f in found)) == pytest.approx(stated["p"], rel=1e-14)
    assert float(max(f.q for f in found)) == pytest.approx(stated["q0"], rel=1e-14)
    assert 0 <= Fraction(stated["beta"]) - max(f.beta for f in found) <= 1e-15
    common = [f.q_common for f in found if f.q_common is not None]
    if common:
        assert max(common) == max(f.p for f in found)
    assert mechanism.options == 2 * mechanism.items or common


def test_beta_of_the_erratum() -> None:
    """ME-4: e^epsilon = 4, two of five options: 0.48, not the printed 0.133."""
    assert SamplingRAPPOR(math.log(4), 5, 2).variation_ratio().beta == pytest.approx(0.48, abs=1e-15)


@pytest.mark.parametrize("items", [3, 7])
def test_beta_when_sets_must_overlap(items: int) -> None:
    """Seven of ten options: two sets differ in six options at most, as three of ten do."""
    mechanism = SamplingRAPPOR(1.0, 10, items)
    assert mechanism.law.largest_difference == 6
    assert mechanism.variation_ratio().beta == pytest.approx(0.6 * math.tanh(0.5), rel=1e-14)


@pytest.mark.parametrize(("options", "items"), [(6, 3), (7, 2)])
@pytest.mark.parametrize("users", [1, 2, 3])
def test_the_stated_pair_is_the_worst(options: int, items: int, users: int) -> None:
    """Sets that share more are harder to tell apart, and the stated pair is exactly the one that shares least."""
    mechanism, ratio = SamplingRAPPOR(1.0, options, items), Fraction(5, 4)
    rows = mechanism.table().probabilities
    floor = [min(column) for column in zip(*rows, strict=True)]
    by_difference: dict[int, float] = {}
    sets = list(combinations(range(options), items))
    for other, held in enumerate(sets):
        weights: dict[Fraction, Fraction] = {Fraction(0): 1 - sum(floor)}
        for a, b, w in zip(rows[0], rows[other], floor, strict=True):
            value = (a - ratio * b) / w
            weights[value] = weights.get(value, Fraction(0)) + w
        mean = exact_enumeration.positive_part_mean(list(weights), list(weights.values()), users)
        by_difference[len(set(held) ^ set(sets[0]))] = float(mean / users)
    ordered = [by_difference[key] for key in sorted(by_difference)]
    assert ordered == sorted(ordered)
    (pair,) = mechanism.blankets()
    stated = PositivePartMean(pair.law, users).bracket(math.log(1.25)).upper_float()
    assert stated == pytest.approx(ordered[-1], rel=1e-9)


@every_small
def test_the_attack_is_a_real_crowd(mechanism: SamplingRAPPOR) -> None:
    """Others whose sets share least with the pair's, drawn at random from all such sets, give the stated pair."""
    d, s = mechanism.options, mechanism.items
    rows, sets = mechanism.table().probabilities, list(combinations(range(d), s))
    first, second = sets[0], sets[-1]
    assert len(set(first) ^ set(second)) == mechanism.law.largest_difference
    agreeing = set(range(d)) - (set(first) ^ set(second))
    # Where both hold an option, sharing least is not holding it.
    shared = [len((set(held) ^ set(first)) & agreeing) for held in sets]
    crowd = [row for row, most in zip(rows, shared, strict=True) if most == max(shared)]
    hiding = [sum(column) / len(crowd) for column in zip(*crowd, strict=True)]
    pair, *_ = mechanism.attacks()
    for users, ratio in ((1, Fraction(9, 8)), (3, Fraction(5, 4))):
        weights: dict[Fraction, Fraction] = {}
        for a, b, w in zip(rows[0], rows[-1], hiding, strict=True):
            value = (a - ratio * b) / w
            weights[value] = weights.get(value, Fraction(0)) + w
        truth = float(exact_enumeration.positive_part_mean(list(weights), list(weights.values()), users) / users)
        stated = PositivePartMean(pair.law, users).bracket(math.log(float(ratio))).upper_float()
        assert stated == pytest.approx(truth, rel=1e-9)


def test_large_instance() -> None:
    """A million options of which a thousand are held: parameters and blanket at once, and a normalised law."""
    mechanism = SamplingRAPPOR(2.0, 1_000_000, 1000)
    (pair,) = mechanism.blankets()
    with ctx.workprec(128):
        assert abs(sum(c.first for c in pair.classes()) - 1) < 1e-30
        assert abs(sum(c.hiding for c in pair.classes()) - 1) < 1e-30
    assert mechanism.variation_ratio().beta == pytest.approx(0.002 * math.tanh(1), rel=1e-13)
    assert mechanism.message_bits == 21


def test_estimates_of_a_crowd() -> None:
    """Estimates are within 6.5 standard errors of the true counts, over several chunks of users."""
    mechanism = SamplingRAPPOR(2.0, 30, 4)
    generator = np.random.default_rng(1)
    values = np.argsort(generator.random((60_000, 30)) ** np.arange(1, 31), axis=1)[:, :4]
    estimate = mechanism.estimate(mechanism.encode(values, rng=np.random.default_rng(2)))
    assert mechanism.truth(values).sum() == 240_000
    scores = (estimate.value - mechanism.truth(values)) / np.sqrt(mechanism.variance(values))
    assert np.abs(scores).max() <= 6.5
    np.testing.assert_allclose(estimate.variance, mechanism.variance(values), rtol=0.1)


def test_the_order_of_items_means_nothing() -> None:
    """The same randomness gives the same messages for rows in another order."""
    mechanism = SamplingRAPPOR(2.0, 9, 3)
    values = np.tile([[7, 0, 4]], (500, 1))
    first = mechanism.encode(values, rng=np.random.default_rng(3))
    second = mechanism.encode(values[:, ::-1], rng=np.random.default_rng(3))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((1.0, 1, 1), "options must be at least 2, got 1."),
        ((1.0, 4, 0), "items must be at least 1, got 0."),
        ((1.0, 4, 4), "items must be fewer than options, got 4 items of 4 options."),
        ((-1.0, 4, 2), "epsilon must be above 0 and finite, got -1.0."),
        ((1e-18, 4, 2), "epsilon must be at least 1e-17, got 1e-18."),
    ],
)
def test_bad_settings(arguments: Any, sentence: str) -> None:
    """One sentence that names the mechanism."""
    with pytest.raises(ValueError, match=f"^SamplingRAPPOR: {re.escape(sentence)}$"):
        SamplingRAPPOR(*arguments)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ([0, 1], "expected one row per user, got an array of shape (2,)."),
        ([[0, 1, 2]], "expected 2 items per user, got rows of 3."),
        ([[0, 1], [2, 2]], "the items of a user must be different, got 2 twice in one row."),
        ([[0, 5]], "values must be from 0 to 4, got 5."),
        ([[-1, 3]], "values must be from 0 to 4, got -1."),
        ([[0.0, 1.0]], "values must be whole numbers from 0 to 4, got float64."),
        (np.empty((0, 2), dtype=int), "expected at least one value, got none."),
    ],
)
def test_bad_values(values: Any, sentence: str) -> None:
    """Nothing is encoded if any row is bad."""
    with pytest.raises((ValueError, TypeError)) as caught:
        SamplingRAPPOR(1.0, 5, 2).encode(values)
    assert str(caught.value) == f"SamplingRAPPOR: {sentence}"


def test_wire_and_table_limits() -> None:
    """A number that is no message and a table that is too large are refused."""
    mechanism = SamplingRAPPOR(1.0, 5, 2)
    with pytest.raises(ValueError, match=r"^SamplingRAPPOR: expected messages below 10, got others in 1 of 1 rows\.$"):
        mechanism.unpack(np.array([[10]], dtype=np.uint8))
    with pytest.raises(
        ValueError, match=r"^SamplingRAPPOR: a table needs at most 65536 cells, got .* for 6 of 100 options"
    ):
        SamplingRAPPOR(1.0, 100, 6).table()
