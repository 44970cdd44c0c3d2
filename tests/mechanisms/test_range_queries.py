"""Range queries: the law of a hierarchy, its estimators, and the paper's numbers."""

from __future__ import annotations

import itertools
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.mechanisms.base.estimator import Estimate
from shuffledp.mechanisms.base.mechanism import RangeQueryCapability
from shuffledp.mechanisms.base.value_tree import ValueTree
from tests.oracle.double_precision import delta_sound_float, epsilon_published_float


def hand_beta(epsilon: float, height: int) -> float:
    """Σ over the levels of the total variation of randomized response, each 1/H of the time."""
    return sum((math.exp(epsilon) - 1) / (math.exp(epsilon) + 2**level - 1) for level in range(1, height + 1)) / height


def test_the_paper_s_small_case() -> None:
    """ε0 = 1, 64 values, 1e4 users, δ = 1e-6: 0.02643 by β̄, by two routes; the mixture is tighter."""
    made = sdp.RangeQueries(1.0, 6)
    beta = hand_beta(1.0, 6)
    assert made.variation_ratio().beta == pytest.approx(beta, rel=1e-12)
    value = sdp.amplify(made, 10_000, bound="variation-ratio").epsilon(1e-6).upper
    assert value == pytest.approx(0.02643, abs=5e-6)
    assert delta_sound_float(math.e, beta, math.e, math.e, 10_000, value) == pytest.approx(1e-6, rel=1e-5)
    mixture = sdp.amplify(made, 10_000, effort="quick").epsilon(1e-6)
    assert mixture.bound == "optimal"
    assert mixture.upper == pytest.approx(0.0264114, abs=1e-7)
    assert mixture.lower is not None
    assert mixture.lower <= mixture.upper < value


@pytest.mark.parametrize(("epsilon", "saving"), [(0.1, 60), (1.0, 55), (2.0, 48), (3.0, 40), (5.0, 23)])
def test_the_saving_over_basic_composition(epsilon: float, saving: int) -> None:
    """2048 values, 1e5 users, δ = 0.01/n: against a randomizer of which only ε0 is known. The paper's 75% is not it."""
    users, delta = 100_000, 0.01 / 100_000
    p = math.exp(epsilon)
    basic = epsilon_published_float(p, (p - 1) / (p + 1), p, users, delta)
    made = sdp.RangeQueries(epsilon, 11)
    parameters = sdp.amplify(made, users, bound="variation-ratio").epsilon(delta).upper
    mixture = sdp.amplify(made, users, effort="quick").epsilon(delta).upper
    assert mixture <= parameters
    assert 100 * (1 - parameters / basic) == pytest.approx(saving, abs=0.6)
    assert 100 * (1 - mixture / basic) == pytest.approx(saving, abs=0.6)


def test_the_mixture_of_the_levels_one_by_one() -> None:
    """The law of G is the levels' own laws, each 1/H of the time, at their own executed probabilities."""
    made = sdp.RangeQueries(1.5, 4)
    (pair,) = made.blankets()
    weights: dict[float, float] = {}
    ratio = math.exp(0.1)
    for response in made.levels:
        own, other, size = (
            float(response.estimator.true_support),
            float(response.estimator.false_support),
            response.options,
        )
        for value, weight in ((own - ratio * other, other), (other - ratio * own, other)):
            key = round(value / other, 9)
            weights[key] = weights.get(key, 0.0) + weight / 4
        key = round(1 - ratio, 9)
        weights[key] = weights.get(key, 0.0) + (size - 2) * other / 4
    values, chances = pair.law(0.1).floats()
    found = {round(float(value), 9): float(chance) for value, chance in zip(values, chances, strict=True)}
    rest = found.pop(0.0)
    assert found == pytest.approx(weights, rel=1e-9)
    assert rest == pytest.approx(1 - sum(weights.values()), rel=1e-9)


@pytest.mark.parametrize(("values", "fan_out"), [(2, 2), (8, 2), (32, 2), (13, 2), (13, 3), (27, 3), (21, 4), (5, 5)])
def test_every_range_is_made_of_few_disjoint_nodes(values: int, fan_out: int) -> None:
    """For every range: exactly its values, and no nodes that could be one node together."""
    tree = ValueTree(values, fan_out)
    below = [
        set(range(*tree.node_range(level, node)))
        for level in range(tree.height)
        for node in range(tree.level_sizes[level])
    ]
    for low, high in itertools.combinations(range(values + 1), 2):
        nodes = tree.decompose(low, high)
        assert sorted(leaf for node in nodes for leaf in below[node]) == list(range(low, high))
        inside = [node for node, leaves in enumerate(below) if leaves <= set(range(low, high))]
        maximal = [node for node in inside if not any(below[node] < below[wider] for wider in inside)]
        assert {frozenset(below[node]) for node in nodes} == {frozenset(below[node]) for node in maximal}


def test_ranges_are_unbiased_with_the_stated_variance_exactly() -> None:
    """Over the exact law of one user, and of two, for every range of eight values."""
    made = sdp.RangeQueries(1.0, 3)
    table = made.table()
    every = list(itertools.combinations(range(9), 2))
    singles = [made.ranges(made.estimate(table.messages[[k]]), every).value for k in range(len(table.messages))]
    single = np.array(singles)
    for user, row in zip(table.inputs, table.probabilities, strict=True):
        chances = np.array([float(chance) for chance in row])
        mean = chances @ single
        spread = chances @ (single - mean) ** 2
        np.testing.assert_allclose(mean, [low <= user < high for low, high in every], atol=1e-9)
        np.testing.assert_allclose(spread, made.range_variance([int(user)], every), rtol=1e-9, atol=1e-9)
    # Users are independent and every estimate is a sum over users.
    two = made.range_variance([2, 5], every)
    np.testing.assert_allclose(two, made.range_variance([2], every) + made.range_variance([5], every), rtol=1e-12)
    messages = table.messages[[0, 9]]
    joint = made.ranges(made.estimate(messages), every).value
    np.testing.assert_allclose(joint, single[0] + single[9], rtol=1e-9, atol=1e-9)


def test_end_to_end_ranges_lie_within_their_error() -> None:
    """1e5 users on 256 values: 50 ranges, none beyond 5.5 standard errors (false alarm below 2e-6)."""
    made = sdp.RangeQueries(2.0, 8)
    rng = np.random.default_rng(20_240_511)
    values = np.minimum(rng.geometric(0.02, 100_000) - 1, 255)
    messages = made.encode(values, rng=rng)
    estimate = made.estimate(made.unpack(made.pack(messages)))
    starts = rng.integers(0, 255, 50)
    ranges = [(int(a), int(rng.integers(a + 1, 257))) for a in starts]
    found = made.ranges(estimate, ranges)
    truth = np.array([((values >= a) & (values < b)).sum() for a, b in ranges])
    exact = made.range_variance(values, ranges)
    assert (np.abs(found.value - truth) <= 5.5 * np.sqrt(exact) + 1e-9).all()
    whole = made.ranges(estimate, [(0, 256)])
    assert whole.value[0] == 100_000
    assert whole.variance[0] == 0


def test_the_estimated_variance_of_ranges() -> None:
    """It differs from the exact one by the noise in the counts: 0.6% (one deviation) here, 5% never seen in 8."""
    made = sdp.RangeQueries(2.0, 5)
    rng = np.random.default_rng(11)
    values = np.minimum(rng.geometric(0.02, 1_000_000) - 1, 31)
    estimate = made.estimate(made.encode(values, rng=rng))
    every = [(low, high) for low, high in itertools.combinations(range(33), 2) if high - low < 32]
    ratio = made.ranges(estimate, every).variance / made.range_variance(values, every)
    assert np.abs(ratio - 1).max() < 0.05
    assert abs(ratio.mean() - 1) < 0.02


def test_least_squares_against_the_normal_equations() -> None:
    """The two passes over the tree solve the weighted least-squares problem with its constraint."""
    made = sdp.RangeQueries(1.0, 3)
    rng = np.random.default_rng(5)
    value = rng.normal(100.0, 30.0, made.nodes)
    estimate = Estimate(value, np.ones(made.nodes), 700)
    found = made.consistent(estimate)
    weight = []
    for response in made.levels:
        r, s = float(response.estimator.false_support), float(response.estimator.true_support)
        weight += [(s - r) ** 2 / (r * (1 - r))] * response.options
    # Unknown: the leaves, the last one from the total.
    tree = ValueTree(8, 2).sum_leaves(np.eye(8)).T
    free = tree[:, :7] - tree[:, 7:]
    root = np.sqrt(np.array(weight))
    leaves, *_ = np.linalg.lstsq(free * root[:, None], (value - 700 * tree[:, 7]) * root, rcond=None)
    expected = tree @ np.append(leaves, 700 - leaves.sum())
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-7)
    np.testing.assert_allclose(found, ValueTree(8, 2).sum_leaves(found[-8:]), rtol=1e-9)
    assert found[:2].sum() == pytest.approx(700)


def test_what_is_consistent_already_stays() -> None:
    """True counts are not touched."""
    made = sdp.RangeQueries(1.0, 4)
    counts = made.truth(np.arange(16).repeat(3))
    np.testing.assert_allclose(made.consistent(Estimate(counts, counts, 48)), counts)


def test_a_tall_tree() -> None:
    """2^20 values: messages of 21 bits, all within range, blankets without a table."""
    made = sdp.RangeQueries(1.0, 20)
    assert made.message_bits == 21
    messages = made.encode(np.arange(1000) * 1000, rng=np.random.default_rng(1))
    assert messages.min() >= 0
    assert messages.max() < made.nodes
    assert (
        sdp.amplify(made, 10_000, effort="quick").epsilon(1e-6).upper
        < sdp.amplify(sdp.RangeQueries(1.0, 4), 10_000, effort="quick").epsilon(1e-6).upper
    )
    with pytest.raises(ValueError, match="a table needs a height"):
        made.table()


def test_the_first_level_is_as_often_as_the_last() -> None:
    """Every level is drawn by 1/H of the users: 60,000 users, each count within 6 deviations (4e-9 a level)."""
    made = sdp.RangeQueries(1.0, 5)
    messages = made.encode(np.zeros(60_000, dtype=np.int64), rng=np.random.default_rng(2))
    counts = np.array(
        [level.sum() for level in made.estimator.tree.split_levels(np.bincount(messages, minlength=made.nodes))]
    )
    assert (np.abs(counts - 12_000) < 6 * math.sqrt(60_000 * 0.2 * 0.8)).all()


def test_the_worst_pair_differs_on_every_level() -> None:
    """Total variation of every pair of values, exactly: the first and the last value attain the maximum."""
    made = sdp.RangeQueries(1.0, 3)
    rows = made.table().probabilities
    zero = Fraction(0)

    def variation(a: int, b: int) -> Fraction:
        return sum((max(x - y, zero) for x, y in zip(rows[a], rows[b], strict=True)), zero)

    assert variation(0, 7) == max(variation(a, b) for a in range(8) for b in range(8))
    assert variation(0, 1) < variation(0, 7)


def test_what_it_is_made_of_is_data() -> None:
    """The same settings give equal parts, which survive being sent elsewhere; it names what only it can."""
    made, again, taller = sdp.RangeQueries(1.0, 4), sdp.RangeQueries(1.0, 4), sdp.RangeQueries(1.0, 5)
    for name in ("domain", "encoding", "estimator"):
        part = getattr(made, name)
        assert part == getattr(again, name) != getattr(taller, name)
        assert pickle.loads(pickle.dumps(part)) == part
    assert made.law.parameters == again.law.parameters
    assert isinstance(made, RangeQueryCapability)
    assert not isinstance(sdp.KRR(1.0, 4), RangeQueryCapability)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((1.0, 0), "RangeQueries: height must be at least 1, got 0."),
        ((1.0, 25), "RangeQueries: height must be at most 24, got 25."),
        ((0.0, 3), "RangeQueries: epsilon must be above 0"),
        (("x", 3), "RangeQueries: epsilon must be a number"),
    ],
)
def test_bad_settings_are_a_sentence(arguments: tuple[float, int], sentence: str) -> None:
    """Raised where the object is built."""
    with pytest.raises((ValueError, TypeError), match=sentence):
        sdp.RangeQueries(*arguments)


@pytest.mark.parametrize("bad", [(3, 3), (5, 2), (0, 9), (-1, 3), (0.5, 3)])
def test_bad_ranges_are_a_sentence(bad: tuple[int, int]) -> None:
    """A range is [a, b) within the domain."""
    made = sdp.RangeQueries(1.0, 3)
    with pytest.raises(ValueError, match="RangeQueries:"):
        made.ranges(made.estimate(made.encode([1, 2])), [bad])
