"""Poisson dummies and the tree that everybody answers on every level: exact privacy, exact errors, real messages."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf

import shuffledp as sdp
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.mechanisms.dummies.poisson_dummies import PoissonPair
from shuffledp.tasks import Ranges
from tests.oracle import cancelling_noise

RATIOS = (1.0, 1.2, 1.7, 3.0)
Counts = dict[tuple[int, ...], float]


@pytest.mark.exhaustive("mean3")
@pytest.mark.parametrize("mean", [Fraction(1, 20), Fraction(1), Fraction(13, 2), Fraction(40)])
def test_the_divergence_of_two_poisson_counts(mean: Fraction) -> None:
    """Against the plain double sum in 40 digits: certified from both sides, and sharp."""
    epsilons = np.array([0.0, 0.1, 0.5, 1.0, 2.0, 4.0])
    upper, lower = PoissonPair(mean).profile(epsilons)
    with mp.workdps(40):
        m = mpf(mean.numerator) / mean.denominator
        chances = [mp.exp(-m)]
        for k in range(1, int(mean) + 40 + 12 * math.isqrt(int(mean) + 1)):
            chances.append(chances[-1] * m / k)
        for place, epsilon in enumerate(epsilons.tolist()):
            c = mp.exp(mpf(epsilon))
            exact = mp.fsum(
                p * r * max(mpf(0), 1 - c * y / (x + 1)) for x, p in enumerate(chances) for y, r in enumerate(chances)
            )
            assert mpf(lower[place]) <= exact * (1 + mpf(10) ** -30)
            assert exact <= mpf(upper[place])
            assert upper[place] - lower[place] <= 1e-10 * upper[place] + 1e-50


def test_less_noise_is_less_private_and_epsilon_has_an_end() -> None:
    """δ falls with the mean and never below the chance of no dummy at all."""
    epsilons = np.linspace(0.0, 30.0, 40)
    before = np.ones(40)
    for mean in (1, 2, 5, 20, 100):
        upper, lower = PoissonPair(Fraction(mean)).profile(epsilons)
        assert (upper <= before).all()
        assert (upper >= math.exp(-mean) * (1 - 1e-12)).all()
        assert (np.diff(upper) <= 1e-15).all()
        before = lower


def noise_of_one(kinds: int, mean: float, most: int) -> Counts:
    """How many dummies of each kind one user adds: a Poisson number of uniform ones, drawn one after another."""
    found: Counts = {}
    now: Counts = {(0,) * kinds: 1.0}
    for number in range(most + 1):
        chance = math.exp(-mean) * mean**number / math.factorial(number)
        for counts, share in now.items():
            found[counts] = found.get(counts, 0.0) + chance * share
        later: Counts = {}
        for counts, share in now.items():
            for kind in range(kinds):
                key = (*counts[:kind], counts[kind] + 1, *counts[kind + 1 :])
                later[key] = later.get(key, 0.0) + share / kinds
        now = later
    return found


def together(first: Counts, second: Counts) -> Counts:
    found: Counts = {}
    for (one, p), (other, q) in itertools.product(first.items(), second.items()):
        key = tuple(a + b for a, b in zip(one, other, strict=True))
        found[key] = found.get(key, 0.0) + p * q
    return found


def worst_of_all(noise: Counts, sent: list[tuple[int, ...]], others: int, ratio: float) -> float:
    """The largest divergence over all pairs of a user's values and all values of the others."""
    worst = 0.0
    shifted = {}
    for held in itertools.combinations_with_replacement(range(len(sent)), others + 1):
        moved = tuple(np.sum([sent[value] for value in held], axis=0).tolist())
        shifted[held] = {tuple(a + b for a, b in zip(key, moved, strict=True)): p for key, p in noise.items()}
    for rest in itertools.combinations_with_replacement(range(len(sent)), others):
        for a, b in itertools.permutations(range(len(sent)), 2):
            first, second = (shifted[tuple(sorted((*rest, value)))] for value in (a, b))
            worst = max(worst, sum(max(0.0, p - ratio * second.get(key, 0.0)) for key, p in first.items()))
    return worst


@pytest.mark.exhaustive("7")
@pytest.mark.parametrize(
    ("mechanism", "users", "most"),
    [
        (sdp.PoissonDUMP(options=3, mean=1.0, honest=2), 2, 11),
        (sdp.PoissonDUMP(options=3, mean=1.5, honest=3), 2, 11),
        (sdp.PoissonDUMP(options=2, mean=2.0, honest=0), 3, 24),
        (sdp.RangeTree(options=3, mean=0.8, honest=2), 2, 7),
        (sdp.RangeTree(options=3, mean=0.8, honest=0), 2, 14),
        (sdp.RangeTree(options=4, mean=0.5, honest=1, fan_out=4), 1, 11),
    ],
    ids=lambda what: getattr(what, "name", what),
)
def test_brute_force_over_all_messages(mechanism: Mechanism, users: int, most: int) -> None:
    """Every dataset, every multiset of messages up to a size whose rest is known: δ is never too small, and exact.

    The last user colludes where there are fewer than planned. Trees are composed, which is exact but for rounding up.
    """
    assert isinstance(mechanism, sdp.PoissonDUMP | sdp.RangeTree)
    kinds = mechanism.dummies.kinds
    parties = 1 if mechanism.honest == 0 else users
    each = kinds * mechanism.mean / max(1, mechanism.honest)
    noise = one = noise_of_one(kinds, each, most)
    for _ in range(parties - 1):
        noise = together(noise, one)
    left_out = 1 - sum(noise.values())
    tree = mechanism.estimator.tree
    sent = [
        tuple(int(row) for row in tree.sum_leaves(np.eye(tree.value_count)[value])) for value in range(tree.value_count)
    ]
    curve = sdp.amplify(mechanism, users, effort="quick")
    for ratio in RATIOS:
        truth = worst_of_all(noise, sent, users - 1, ratio)
        upper = curve.delta(math.log(ratio)).upper
        assert upper >= truth * (1 - 1e-9)
        exact = 1e-6 if mechanism.name == "poisson-dump" else 2e-3
        assert upper <= truth + left_out + exact * truth
    assert left_out < 0.02


def test_the_attack_is_the_guarantee() -> None:
    """Whoever knows all other options attains the loss."""
    found = sdp.amplify(sdp.PoissonDUMP(options=100, mean=60.0, honest=5000), 5000, effort="quick").epsilon(1e-7)
    assert found.lower is not None
    assert found.lower <= found.upper <= found.lower * (1 + 1e-6)
    fewer = sdp.amplify(
        sdp.PoissonDUMP(options=100, mean=60.0, honest=5000), 5000, colluding=2500, effort="quick"
    ).epsilon(1e-7)
    half = sdp.amplify(sdp.PoissonDUMP(options=7, mean=30.0, honest=0), 10, effort="quick").epsilon(1e-7)
    assert fewer.upper == pytest.approx(half.upper, rel=1e-9)


def test_the_tree_of_the_issue() -> None:
    """1,024 values, 1e7 users, (4, 1e-14): 76 dummies a node certify ε = 3.945, with 10.02 messages a user."""
    mechanism = sdp.RangeTree(options=1024, mean=76.0, honest=10_000_000)
    assert sdp.amplify(mechanism, 10_000_000, effort="quick").epsilon(1e-14).upper == pytest.approx(3.945, abs=1e-3)
    assert mechanism.messages_per_user == pytest.approx(10.0156, abs=1e-3)
    task = Ranges(1024)
    nodes = np.mean([len(mechanism.tree.decompose(*ends)) for ends in task.sample_ranges])
    assert math.sqrt(76 * nodes) == pytest.approx(24.18, abs=0.01)
    assert task.standard_error(mechanism, 10_000_000) == pytest.approx(11.82, abs=0.01)


@pytest.mark.parametrize(
    "mechanism",
    [sdp.PoissonDUMP(6, 40.0, 500), sdp.RangeTree(11, 30.0, 500), sdp.RangeTree(11, 30.0, 0, fan_out=4)],
    ids=lambda m: f"{m.name}-{m.honest}",
)
def test_real_messages_have_the_stated_law(mechanism: Mechanism) -> None:
    """Over 600 collections every node's mean and variance, ranges too, and intervals; each within 5.5 deviations."""
    assert isinstance(mechanism, sdp.PoissonDUMP | sdp.RangeTree)
    from shuffledp.mechanisms.base.mechanism import find_range_estimator
    from shuffledp.sampling.random_sources import resolve_source

    answers = find_range_estimator(mechanism)
    assert answers is not None
    source = resolve_source(np.random.default_rng(12))
    values = np.arange(500) ** 2 % mechanism.options
    ranges = [(low, high) for low, high in itertools.combinations(range(mechanism.options + 1), 2)][:-1]
    ranges = [ends for ends in ranges if ends != (0, mechanism.options)]
    truth = np.array([((values >= low) & (values < high)).sum() for low, high in ranges])
    times, nodes, answered, inside = 600, [], [], []
    for _ in range(times):
        added = mechanism.draw_shuffler_messages(source)
        sent = mechanism.encode(values, source)
        sent = sent if added is None else np.concatenate([sent, added])
        estimate = mechanism.estimate(mechanism.unpack(mechanism.pack(sent)), users=500)
        nodes.append(estimate.value)
        found = answers.ranges(estimate, ranges)
        answered.append(found.value)
        inside.append(np.abs(found.value - truth) <= found.margin(0.95))
    for drawn, exact, spread in (
        (np.array(nodes), mechanism.truth(values), mechanism.variance(values)),
        (np.array(answered), truth, answers.range_variance(values, ranges)),
    ):
        score = (drawn.mean(axis=0) - exact) / np.sqrt(spread / times)
        assert np.abs(score).max() < 5.5
        # The squares of nearly normal errors have variance 2 + excess, which is 1/mean of the noise at most.
        ratio = ((drawn - exact) ** 2).mean(axis=0) / spread
        assert np.abs(ratio - 1).max() < 5.5 * math.sqrt(2.1 / times)
    assert 0.93 <= np.mean(inside) <= 0.97


def test_numbers_of_dummies_are_exactly_poisson() -> None:
    """Large means are sums of draws: mean and variance of 20,000 numbers within 5.5 deviations."""
    from shuffledp.mechanisms.dummies.poisson_dummies import PoissonDummies
    from shuffledp.sampling.random_sources import resolve_source

    for kinds, mean, honest in ((10, 0.02, 100), (10, 50.0, 100), (1000, 30.0, 100)):
        dummies = PoissonDummies(kinds, mean, honest)
        drawn = dummies.draw_counts(20_000, resolve_source(np.random.default_rng(4)))
        expected = kinds * mean / honest
        assert abs(drawn.mean() - expected) < 5.5 * math.sqrt(expected / 20_000)
        spread = math.sqrt((2 * expected**2 + expected) / 20_000)
        assert abs(drawn.var() - expected) < 5.5 * spread


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: sdp.RangeTree(1, 10.0, 5), "RangeTree: options must be at least 2, got 1."),
        (lambda: sdp.RangeTree(8, 10.0, 5, fan_out=1), "RangeTree: fan_out must be at least 2, got 1."),
        (lambda: sdp.RangeTree(8, 0.0, 5), "RangeTree: mean must be above 0"),
        (lambda: sdp.RangeTree(8, 1e10, 5), "RangeTree: mean must be at most 1e"),
        (lambda: sdp.PoissonDUMP(8, 1.0, -1), "PoissonDUMP: honest must be at least 0, got -1."),
        (lambda: sdp.RangeTree(1 << 27, 1.0, 5), "RangeTree: a tree of 134217728 values is too large"),
    ],
)
def test_bad_settings_are_a_sentence(make: object, sentence: str) -> None:
    """Raised where the object is built."""
    assert callable(make)
    with pytest.raises((ValueError, TypeError), match=sentence):
        make()


@pytest.mark.exhaustive
@pytest.mark.parametrize(("honest", "users"), [(2, 2), (0, 2), (3, 2)])
def test_a_tree_of_cancelling_noise_by_brute_force(honest: int, users: int) -> None:
    """Two levels, all counts of the four changed nodes: δ is within what the cut leaves open; colluding users too."""
    mechanism = sdp.CancellingTree(options=3, rate=2.5, shape=0.8, ratio=0.1, honest=honest)
    assert mechanism.height == 2
    with mp.workdps(20):
        law = cancelling_noise.pair_law(users if honest else 1, max(1, honest), 2.5, 0.8, 0.1, 4)
    curve = sdp.amplify(mechanism, users, effort="quick")
    for epsilon in (0.0, 0.5, 2.0):
        low, high = cancelling_noise.divergence(law, epsilon, (1, -1, 1, -1))
        upper = curve.delta(epsilon).upper
        assert low * (1 - 1e-9) <= upper <= high * 1.002 + 1e-9
        assert high - low < 0.02


@pytest.mark.parametrize("honest", [0, 400])
def test_a_tree_of_cancelling_noise_has_the_stated_errors(honest: int) -> None:
    """Over 400 collections every range's mean and mean square are as stated, and intervals hold 93–97% of truths."""
    from shuffledp.sampling.random_sources import resolve_source

    mechanism = sdp.CancellingTree(options=30, rate=0.4, shape=4.0, ratio=0.8, honest=honest, fan_out=6)
    source = resolve_source(np.random.default_rng(3))
    values = np.arange(400) ** 2 % 30
    ranges = [ends for ends in itertools.combinations(range(0, 31, 3), 2) if ends != (0, 30)]
    truth = np.array([((values >= low) & (values < high)).sum() for low, high in ranges])
    found, inside = [], []
    for _ in range(400):
        sent = [mechanism.encode(values, source), mechanism.draw_shuffler_messages(source)]
        messages = np.concatenate([part for part in sent if part is not None])
        answer = mechanism.ranges(mechanism.estimate(messages, users=400), ranges)
        found.append(answer.value)
        inside.append(np.abs(answer.value - truth) <= answer.margin(0.95))
    stated = mechanism.range_variance(values, ranges)
    errors = np.array(found) - truth
    assert np.abs(errors.mean(axis=0) / np.sqrt(stated / 400)).max() < 5.5
    # An answer adds up many nodes' noise: the excess of the kurtosis is below 3, that of one node.
    assert np.abs((errors**2).mean(axis=0) / stated - 1).max() < 5.5 * math.sqrt(5 / 400)
    assert 0.93 <= np.mean(inside) <= 0.97
