"""Questions to ranges: quantiles with intervals that hold, labels, and the curator that plans are measured against."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.mechanisms.base import range_estimator
from shuffledp.mechanisms.base.mechanism import Mechanism, find_range_estimator
from shuffledp.mechanisms.base.range_estimator import CumulativeCounts
from shuffledp.tasks import Ranges
from shuffledp.tasks.ranges import OrderedDomainQueries


def running(mechanism: Mechanism, values: np.ndarray, count: int, rng: np.random.Generator) -> CumulativeCounts:
    answers = find_range_estimator(mechanism)
    assert answers is not None
    held = np.bincount(values, minlength=answers.tree.value_count)
    reading = mechanism.estimator
    assert hasattr(reading, "simulate")
    return CumulativeCounts(answers, reading.simulate(held, len(values), rng), count)


@pytest.mark.exhaustive("range-queries")
@pytest.mark.parametrize(
    "mechanism",
    [sdp.RangeTree(500, 100.0, 2000, fan_out=4), sdp.KRR(6.0, 500), sdp.RangeQueries(6.0, 9)],
    ids=lambda m: m.name,
)
def test_intervals_of_quantiles_hold(mechanism: Mechanism) -> None:
    """Many values for the noise: 95% intervals hold 93–98.5% of the true quantiles (120 × 3 answers)."""
    rng = np.random.default_rng(6)
    values = np.clip(rng.normal(240, 65, 2000).astype(int), 0, 499)
    shares = (0.1, 0.5, 0.8)
    truth = [int(np.sort(values)[math.ceil(share * 2000) - 1]) for share in shares]
    inside, wide = [], []
    for _ in range(120):
        count = running(mechanism, values, 500, rng)
        for share, exact in zip(shares, truth, strict=True):
            found = count.quantile(share, 0.95)
            assert found.low <= found.value <= found.high
            inside.append(found.low <= exact <= found.high)
            wide.append(found.high - found.low)
    assert 0.93 <= np.mean(inside) <= 0.985
    assert np.mean(wide) < 250


def test_exact_counts_give_exact_quantiles() -> None:
    """Without noise the quantile is the order statistic, and its interval one value."""
    mechanism = sdp.KRR(60.0, 50)
    rng = np.random.default_rng(1)
    values = rng.integers(0, 50, 777)
    count = running(mechanism, values, 50, rng)
    for share in (0.001, 0.25, 0.5, 0.9, 0.999):
        found = count.quantile(share, 0.95)
        assert found.value == np.sort(values)[math.ceil(share * 777) - 1]


def test_a_search_finds_what_all_values_tell() -> None:
    """Beyond a number of values only some running counts are looked at: the same interval, or one within it."""
    mechanism = sdp.RangeTree(2000, 300.0, 5000)
    rng = np.random.default_rng(2)
    values = np.clip(rng.normal(900, 300, 5000).astype(int), 0, 1999)
    count = running(mechanism, values, 2000, rng)
    searched = count.quantile(0.5, 0.95)
    most, range_estimator.MAX_FULL_SCAN_VALUES = range_estimator.MAX_FULL_SCAN_VALUES, 10_000
    try:
        whole = count.quantile(0.5, 0.95)
    finally:
        range_estimator.MAX_FULL_SCAN_VALUES = most
    assert searched.value == whole.value
    assert whole.low <= searched.low <= searched.high <= whole.high


def questions() -> OrderedDomainQueries:
    days = [f"2024-01-{day:02}" for day in range(1, 32)]
    task, mechanism = Ranges(days), sdp.KRR(30.0, 31)
    return OrderedDomainQueries(
        task.domain, task.range_estimator(mechanism), mechanism.estimate(mechanism.encode(np.arange(31).repeat(9)))
    )


def test_labels_are_asked_and_answered() -> None:
    """Both ends are included; quantiles are labels."""
    asked = questions()
    found = asked.range("2024-01-05", "2024-01-20", 0.95)
    assert found.value == pytest.approx(16 * 9, abs=1e-6)
    assert asked.range("2024-01-05", "2024-01-05", 0.95).value == pytest.approx(9, abs=1e-6)
    assert asked.range("2024-01-01", "2024-01-31", 0.95).value == 279
    assert asked.quantile(0.5, 0.95).value == "2024-01-16"


@pytest.mark.parametrize(
    ("first", "last", "sentence"),
    [
        ("2024-01-20", "2024-01-05", "a range goes from the first to the last value"),
        ("2024-02-01", "2024-01-05", "expected a value of the domain, such as '2024-01-01', got '2024-02-01'."),
        ("5", "6", "expected a value of the domain"),
    ],
)
def test_bad_ranges_are_a_sentence(first: str, last: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        questions().range(first, last, 0.95)


@pytest.mark.parametrize("share", [0, 1, -0.5, 2, "half", math.nan])
def test_bad_quantiles_are_a_sentence(share: object) -> None:
    with pytest.raises((ValueError, TypeError), match="ask: a quantile must be"):
        questions().quantile(share, 0.95)


def test_the_curator_is_the_best_tree_made_consistent() -> None:
    """By dense least squares for 27 values: one number's error times the root mean square over the ranges."""
    task = Ranges(27)
    found = {known.l1: factor for known, factor in task.curator_statistics(1)}
    from shuffledp.mechanisms.base.value_tree import ValueTree

    tree = ValueTree(27, 3)
    incidence = tree.sum_leaves(np.eye(27)).T
    free = incidence[:, :-1] - incidence[:, -1:]
    solve = np.linalg.pinv(free)
    moved = np.concatenate([np.eye(26), -np.ones((1, 26))])
    covariance = moved @ solve @ solve.T @ moved.T
    asked = np.array([[low <= value < high for value in range(27)] for low, high in task.sample_ranges], dtype=float)
    exact = math.sqrt(np.mean(np.diag(asked @ covariance @ asked.T)))
    assert found[2.0 * tree.height] == pytest.approx(exact, rel=1e-9)
    assert set(found) == {2.0 * height for height in (5, 3, 2, 1)}


def test_the_planned_error_is_that_of_any_number_of_users() -> None:
    """Directly from the covariances: sums over users grow with their number, the shuffler's noise does not."""
    task = Ranges(40)
    assert task.standard_error(sdp.KRR(3.0, 40), 4000) == pytest.approx(10 * task.standard_error(sdp.KRR(3.0, 40), 40))
    drawn = sdp.RangeTree(40, 25.0, 0)
    assert task.standard_error(drawn, 4000) == pytest.approx(task.standard_error(drawn, 40))


def test_ranges_hold_whatever_the_ends() -> None:
    """Consistent answers add up exactly: disjoint ranges to their union."""
    mechanism = sdp.RangeTree(50, 30.0, 1000, fan_out=3)
    rng = np.random.default_rng(5)
    count = running(mechanism, rng.integers(0, 50, 1000), 50, rng)
    answers, estimate = count.range_estimator, count.estimate
    for low, middle, high in itertools.islice(itertools.combinations(range(0, 51, 7), 3), 30):
        parts = answers.ranges(estimate, [(low, middle), (middle, high), (low, high)]).value
        assert parts[0] + parts[1] == pytest.approx(parts[2])


def test_a_local_promise_among_dummies() -> None:
    """64 values, 20,000 users, (1, 1e-7): 27 users of error at most, with a local ε of 8 for the whole report."""
    (offer,) = sdp.plan(Ranges(64), users=2e4, epsilon=1, delta=1e-7, mechanism="mix-dump").candidates
    assert offer.standard_error <= 27
    assert offer.proof.upper <= 1
    assert offer.mechanism.local_epsilon == pytest.approx(8.0, abs=1e-6)
