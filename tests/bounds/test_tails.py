"""Laws with tails: what is cut off user 1's law is added to δ, and what is left is bounded soundly.

The oracle enumerates every multiset of messages of every dataset, in floats that add positive numbers only.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp._core.validation import Floats
from shuffledp.bounds.blanket import OptimalBound
from shuffledp.bounds.worst_dataset_bound import WorstDatasetBound

pytestmark = pytest.mark.usefixtures("each_curve_once")

EPSILONS = (0.05, 0.4, 1.0)
ROOM = 1 - 1e-9


def law_of(rows: Floats, crowd: tuple[int, ...]) -> dict[tuple[int, ...], float]:
    """The law of the multiset of messages of some users, as counts."""
    found: dict[tuple[int, ...], float] = {(0,) * rows.shape[1]: 1.0}
    for user in crowd:
        after: Counter[tuple[int, ...]] = Counter()
        for counts, chance in found.items():
            for message in np.flatnonzero(rows[user]).tolist():
                after[tuple(c + (k == message) for k, c in enumerate(counts))] += chance * rows[user, message]
        found = dict(after)
    return found


def truths(rows: Floats, users: int) -> Floats:
    """The largest divergence over all datasets and neighbours, at each of the ε."""
    worst = np.zeros(len(EPSILONS))
    inputs = range(len(rows))
    for crowd in itertools.combinations_with_replacement(inputs, users - 1):
        laws = [law_of(rows, (x, *crowd)) for x in inputs]
        for one, other in itertools.permutations(laws, 2):
            chances = np.array([(chance, other.get(counts, 0.0)) for counts, chance in one.items()])
            for k, epsilon in enumerate(EPSILONS):
                excess = np.maximum(chances[:, 0] - math.exp(epsilon) * chances[:, 1], 0.0).sum()
                worst[k] = max(worst[k], float(excess))
    return worst


def tables_with_zeros(count: int) -> Iterator[Floats]:
    """A few inputs and messages: some entries 0, some tiny, each row of at least two messages."""
    rng = np.random.default_rng(17)
    made = 0
    while made < count:
        inputs, messages = rng.integers(2, 4), rng.integers(2, 5)
        rows = rng.dirichlet(np.ones(messages), size=inputs)
        rows *= rng.choice([0.0, 1e-5, 1e-3, 1.0], size=rows.shape, p=[0.15, 0.1, 0.15, 0.6])
        if (rows.sum(axis=1) == 0).any() or not rows.all(axis=0).any():
            continue
        made += 1
        yield rows / rows.sum(axis=1, keepdims=True)


@cache
def cases() -> list[tuple[Floats, int, Floats]]:
    """Tables, users, and what is true of them."""
    found = [(rows, 2 + number % 3) for number, rows in enumerate(tables_with_zeros(50))]
    return [(rows, users, truths(rows, users)) for rows, users in found]


@pytest.mark.exhaustive("all-crowds")
@pytest.mark.usefixtures("few_pieces")
@pytest.mark.parametrize(
    ("bound", "some"), [(WorstDatasetBound(fewest=1), 15), (OptimalBound(), 50)], ids=["all-crowds", "optimal"]
)
def test_tables_with_zeros_against_every_dataset(bound: WorstDatasetBound | OptimalBound, some: int) -> None:
    looked, finite = 0, 0
    for rows, users, truth in cases()[:some]:
        mechanism = sdp.FromTable(rows)
        cut = mechanism.law
        for share in (1e-9, 0.01, 0.2):
            left = cut.truncate_tails(share)
            assert left is not None
            found = bound.curve(left, users).profile(EPSILONS).upper + left.truncated_mass
            looked += 1
            assert (found >= truth * ROOM).all()
        if mechanism.law.has_tails:
            value = bound.curve(mechanism, users).delta(EPSILONS[1]).upper
            finite += value < 0.9
            assert value >= truth[1] * ROOM
    assert looked == 3 * some
    assert finite >= some // 8


def test_what_was_cut_counts_once_and_no_less() -> None:
    """A message that only one input sends, with a probability of 1/100: no δ below it, and little more than it."""
    rows = np.array([[0.6, 0.4, 0.0], [0.4, 0.59, 0.01]])
    curve = sdp.amplify(sdp.FromTable(rows), 10_000, bound="all-crowds")
    assert curve.epsilon(0.009).upper == math.inf
    assert curve.epsilon(0.0101).upper < 0.05
    assert 0.01 <= curve.delta(0.1).upper < 0.010001
    assert curve.delta(0.02).upper < 0.01001


def local_delta(rows: Floats, epsilon: float) -> float:
    """The largest divergence of one message."""
    return max(float(np.maximum(a - math.exp(epsilon) * b, 0.0).sum()) for a, b in itertools.permutations(rows, 2))


@pytest.mark.exhaustive
@pytest.mark.usefixtures("few_pieces")
def test_local_epsilon_and_delta_against_every_dataset() -> None:
    """The parameters of random tables, at several ε0 each, so that δ0 is anything up to what is allowed."""
    looked = 0
    for rows, users, truth in cases():
        for local in (0.7, 3.0):
            delta = local_delta(rows, local) * (1 + 1e-12)
            if not 0 < delta <= (1 - math.exp(-local)) / 4:
                continue
            curve = WorstDatasetBound(fewest=1).curve(sdp.ApproximateLDP(local, delta), users)
            looked += 1
            assert (curve.profile(EPSILONS).upper >= truth * ROOM).all()
    assert looked > 15


@pytest.mark.exhaustive
def test_local_delta_counts_about_twice_whatever_the_crowd() -> None:
    pure = sdp.amplify(sdp.VariationRatio.from_ldp(1.0), 10_000, bound="all-crowds")
    for delta in (1e-12, 1e-9, 1e-7):
        curve = sdp.amplify(sdp.ApproximateLDP(1.0, delta), 10_000, bound="all-crowds")
        extra = curve.delta(0.03).upper - pure.delta(0.03).upper
        assert extra < 2.1 * delta + 1e-9
        assert curve.epsilon(1e-6).upper >= pure.epsilon(1e-6).upper
    assert curve.epsilon(1.9e-7).upper == math.inf
    # Nobody can promise less than what one message in the clear, sent by chance, takes.
    assert curve.delta(20.0).upper >= 1e-7


def test_small_local_epsilon_refuses_much_delta() -> None:
    with pytest.raises(ValueError, match=r"^ApproximateLDP: delta must be at most \(1 - exp\(-epsilon\)\)/4 = 0.0237"):
        sdp.ApproximateLDP(0.1, 0.03)
    with pytest.raises(ValueError, match="no bound applies to ApproximateLDP"):
        sdp.amplify(sdp.ApproximateLDP(1.0, 1e-9), 10, effort="full")
