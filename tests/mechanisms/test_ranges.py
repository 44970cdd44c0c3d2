"""Ranges answered by adding up counts: exact covariances, the tree's least squares, and intervals that hold."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.mechanisms.base.estimator import Estimate
from shuffledp.mechanisms.base.mechanism import Mechanism, find_range_estimator, supports_ranges
from shuffledp.mechanisms.base.value_tree import ValueTree
from shuffledp.mechanisms.catalogue import all_mechanisms
from shuffledp.tasks import Ranges

FLAT = [
    example
    for name, kind in all_mechanisms().items()
    if kind.task == "frequency"
    for example in kind.examples()
    if find_range_estimator(example) is not None
    and example.messages_per_user <= 6
    and not example.message_plan.is_variable
]


def one_user(mechanism: Mechanism) -> tuple[np.ndarray, np.ndarray]:
    """The estimate of a single user for every report, and the chance of each, a row for each option held."""
    table = mechanism.table()
    reports = table.messages if mechanism.messages_per_user > 1 else table.messages[:, None]
    estimates = [mechanism.finish(mechanism.accumulate(np.asarray(report)), 1).value for report in reports]
    return np.array(estimates), np.array(table.probabilities, dtype=np.float64)


@pytest.mark.parametrize("mechanism", FLAT, ids=lambda m: f"{m.name}-{m.settings()}")
def test_sums_of_counts_have_their_exact_variance(mechanism: Mechanism) -> None:
    """Against the covariance of the whole output law, for any weights and any data."""
    estimates, chances = one_user(mechanism)
    options = estimates.shape[1]
    rng = np.random.default_rng(3)
    weights = np.concatenate([np.eye(options), np.triu(np.ones((options, options))), rng.normal(0, 1, (4, options))])
    answers = find_range_estimator(mechanism)
    assert answers is not None
    every = []
    for option in range(options):
        mean = chances[option] @ estimates
        np.testing.assert_allclose(mean, np.eye(options)[option], atol=1e-9)
        moved = (estimates - mean) @ weights.T
        exact = chances[option] @ moved**2
        every.append(exact)
        found = answers.estimator.combined_variance(weights, np.eye(options)[option], 1)
        np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-9)
    held = rng.integers(0, 50, options).astype(float)
    found = answers.estimator.combined_variance(weights, held, int(held.sum()))
    np.testing.assert_allclose(found, held @ np.array(every), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("mechanism", FLAT, ids=lambda m: f"{m.name}-{m.settings()}")
def test_flat_ranges_are_unbiased_and_use_the_total(mechanism: Mechanism) -> None:
    """A range and the rest of the domain add up to all users, with one error; for each by the whole output law."""
    estimates, chances = one_user(mechanism)
    options = estimates.shape[1]
    answers = find_range_estimator(mechanism)
    assert answers is not None
    ranges = [(0, end) for end in range(1, options + 1)] + [(end, options) for end in range(1, options)]
    found = [answers.ranges(Estimate(one, np.zeros(options), 1), ranges).value for one in estimates]
    for option in range(options):
        mean = chances[option] @ np.array(found)
        np.testing.assert_allclose(mean, [low <= option < high for low, high in ranges], atol=1e-9)
        spread = chances[option] @ (np.array(found) - mean) ** 2
        stated = answers.range_variance(np.array([option]), ranges)
        np.testing.assert_allclose(stated, spread, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(stated[: options - 1], stated[options:], rtol=1e-9, atol=1e-9)


def test_the_total_helps_where_messages_do_not_tell_it() -> None:
    """Bits drawn independently: a range of most values has no more error than the few values that are left."""
    answers = find_range_estimator(sdp.OUE(2.0, 40))
    assert answers is not None
    held = np.full(40, 25.0)
    plain = [float(answers.estimator.combined_variance(np.arange(40) < end, held, 1000)) for end in (10, 30)]
    told = answers.range_variance_at_counts(held, 1000, [(0, 10), (0, 30)])
    assert told[0] < plain[0] < plain[1]
    assert told[1] == pytest.approx(told[0])


def test_what_cannot_add_up_is_not_asked() -> None:
    """Where options hang together in ways that are not known exactly; and what is no question of counts."""
    kinds = all_mechanisms()
    assert supports_ranges(kinds["krr"])
    assert supports_ranges(kinds["range-queries"])
    for name in ("local-hash", "balls-into-bins", "laplace"):
        assert not supports_ranges(kinds[name])
    assert not Ranges.can_use(kinds["privset"])
    seeds = sdp.Compressed(sdp.KRR(1.0, 1 << 20))
    assert find_range_estimator(seeds) is not None


TREES = [(2, 2), (3, 2), (8, 2), (13, 2), (13, 3), (16, 4), (30, 7), (5, 5), (10, 16)]


@pytest.mark.parametrize(("values", "fan_out"), TREES)
def test_the_two_passes_are_weighted_least_squares(values: int, fan_out: int) -> None:
    """Against dense least squares with the total given; every answer's weights, and so its variance, too."""
    rng = np.random.default_rng(values)
    tree = ValueTree(values, fan_out)
    spreads = rng.uniform(0.5, 3.0, tree.height)
    incidence = tree.sum_leaves(np.eye(values)).T
    variance = np.repeat(spreads, tree.level_sizes)
    root = 1 / np.sqrt(variance)
    free = (incidence[:, :-1] - incidence[:, -1:]) * root[:, None]
    solve = np.linalg.pinv(free)
    value, total = rng.normal(100.0, 30.0, tree.node_count), 900.0
    leaves = solve @ ((value - total * incidence[:, -1]) * root)
    expected = np.append(leaves, total - leaves.sum())
    np.testing.assert_allclose(tree.make_consistent(value, spreads, total), incidence @ expected, rtol=1e-10, atol=1e-8)
    asked = np.array([np.arange(low, low + values) // values == 0 for low in range(values)], dtype=float)
    asked = np.concatenate([asked, np.triu(np.ones((values, values)))])
    weights, whole = tree.adjoint_weights(asked, spreads)
    np.testing.assert_allclose(weights @ value + whole * total, asked @ expected, rtol=1e-10, atol=1e-8)
    moved = np.concatenate([np.eye(values - 1), -np.ones((1, values - 1))])
    exact = np.diag(asked @ moved @ (solve @ solve.T) @ moved.T @ asked.T)
    np.testing.assert_allclose((weights**2 * variance).sum(axis=1), exact, rtol=1e-10, atol=1e-10)


def test_consistency_of_sampled_levels_halves_the_error() -> None:
    """64 values, local ε = 6: sums of single nodes have 2.4 times the error of the same tree made consistent."""
    mechanism = sdp.RangeQueries(6.0, 6)
    held = np.full(64, 20_000 / 64)
    task = Ranges(64)
    tree = mechanism.estimator.tree
    alone = np.zeros((len(task.sample_ranges), tree.node_count))
    for row, ends in zip(alone, task.sample_ranges, strict=True):
        row[tree.decompose(*ends)] = 1.0
    nodes = np.sqrt(mechanism.estimator.combined_variance(alone, held, 20_000).mean())
    consistent = task.standard_error(mechanism, 20_000)
    assert nodes == pytest.approx(184.7, abs=0.1)
    assert consistent == pytest.approx(75.45, abs=0.01)


def test_ranges_of_a_collection_lie_within_their_intervals() -> None:
    """Real messages, skewed data: 95% intervals hold 95% of the truths (80 × 40 answers that hang together: ± 2%)."""
    rng = np.random.default_rng(8)
    values = np.minimum(rng.geometric(0.08, 4000) - 1, 39)
    ranges = [ends for ends in itertools.combinations(range(0, 41, 5), 2) if ends != (0, 40)]
    truth = np.array([((values >= low) & (values < high)).sum() for low, high in ranges])
    for mechanism in (
        sdp.KRR(4.0, 40),
        sdp.OUE(4.0, 40),
        sdp.Subset(2.0, 40),
        sdp.PureDUMP(40),
        sdp.RangeQueries(4.0, 6),
    ):
        answers = find_range_estimator(mechanism)
        assert answers is not None
        inside, square = [], np.zeros(len(ranges))
        for _ in range(80):
            found = answers.ranges(mechanism.estimate(mechanism.encode(values, rng)), ranges)
            inside.append(np.abs(found.value - truth) <= found.margin(0.95))
            square += (found.value - truth) ** 2 / 80
        assert 0.93 <= np.mean(inside) <= 0.97
        assert np.mean(square / answers.range_variance(values, ranges)) == pytest.approx(1.0, abs=0.12)
