"""The budget split over several runs."""

from __future__ import annotations

import itertools
import math
import pickle
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.mechanisms.combined.repeated import Repeated
from shuffledp.mechanisms.vector.privunit import PrivUnitOptimized
from shuffledp.mechanisms.vector.privunit_g_and_privhs import PrivHS
from shuffledp.mechanisms.vector.sqkr import SQKR
from shuffledp.numerics.positive_part import PositivePartMean
from tests.mechanisms.test_unit_ball import divergence, random_density


@pytest.mark.parametrize(
    ("runs", "optimized", "half_space"),
    [(1, 0.132, 1.571), (2, 0.217, 0.844), (3, 0.309, 0.691), (4, 0.404, 0.677), (8, 0.791, 0.919)],
)
def test_the_splitting_table(runs: int, optimized: float, half_space: float) -> None:
    """[LC] Figure 2: error over d at d = 1024 for ε = 8 in m runs of ε/m, from the stated variances, within 1%."""
    vector = np.full((1, 1024), 1 / 32)
    for kind, wanted in ((PrivUnitOptimized, optimized), (PrivHS, half_space)):
        mechanism = Repeated(kind(8.0 / runs, 1024), runs)
        assert mechanism.variance(vector).sum() / 1024 == pytest.approx(wanted, rel=0.01)
        assert mechanism.epsilon == pytest.approx(8.0, rel=1e-15)


@pytest.mark.parametrize("mechanism", [Repeated(PrivHS(2.0, 30), 4), Repeated(PrivUnitOptimized(1.0, 9), 3)], ids=repr)
def test_mean_and_variance(mechanism: Any) -> None:
    """Means of 50 users, 400 times: score within 6, spread within 6·√(2/400) of the stated variance; 1e-7 at most."""
    users, times = 50, 400
    values = np.random.default_rng(1).normal(size=(users, mechanism.dimension))
    values /= np.linalg.norm(values, axis=1)[:, None] * np.linspace(1, 3, users)[:, None]
    messages = mechanism.encode(np.tile(values, (times, 1)), rng=np.random.default_rng(2))
    messages = mechanism.unpack(mechanism.pack(messages))
    found = np.array([mechanism.estimate(part).value for part in np.split(messages, times)])
    stated, truth = mechanism.variance(values), mechanism.truth(values)
    assert np.abs((found.mean(axis=0) - truth) / np.sqrt(stated / times)).max() <= 6
    assert np.abs(((found - truth) ** 2).mean(axis=0) / stated - 1).max() <= 6 * math.sqrt(2 / times)
    assert mechanism.estimate(messages[:users]).users == users


@pytest.mark.parametrize("seed", range(12))
def test_the_product_of_two_levels_dominates_products(seed: int) -> None:
    """Two runs of any laws with densities between the levels diverge less than the product; exact fractions."""
    rng = Random(seed)
    inner = SQKR(0.8, 2)
    gamma, share = inner.response.uniform_share, inner.response.share
    high = gamma + (1 - gamma) / share
    weights = [Fraction(1, 6), Fraction(1, 3), Fraction(1, 2)]
    laws = [
        [[w * f for w, f in zip(weights, random_density(rng, gamma, high, weights), strict=True)] for _ in range(2)]
        for _ in range(2)
    ]
    first, second = ([a * b for a, b in itertools.product(*law)] for law in laws)
    hiding = [gamma**2 * a * b for a, b in itertools.product(weights, weights)]
    (pair,) = Repeated(inner, 2).blankets()
    for users in (1, 2):
        for ratio in (Fraction(5, 4), Fraction(2)):
            real = divergence(first, second, hiding, users, ratio)
            claimed = PositivePartMean(pair.law, users).bracket(math.log(float(ratio))).upper_float()
            assert claimed >= float(real) - 1e-12


def test_parameters_against_the_product_table() -> None:
    """Ratio, total variation and blanket of three runs, from the eight-fold product of three classes each."""
    inner = SQKR(0.7, 2)
    gamma, share = inner.response.uniform_share, inner.response.share
    high = gamma + (1 - gamma) / share
    first = [share * high, share * gamma, (1 - 2 * share) * gamma]
    second = [first[1], first[0], first[2]]
    rows = [[math.prod(pick) for pick in itertools.product(law, repeat=3)] for law in (first, second)]
    gap = sum(max(a - b, Fraction(0)) for a, b in zip(*rows, strict=True))
    parameters = Repeated(inner, 3).variation_ratio()
    assert parameters.beta == pytest.approx(float(gap), rel=1e-14)
    assert Fraction(parameters.beta) >= gap
    assert parameters.p == pytest.approx(float(high / gamma) ** 3, rel=1e-14)
    (pair,) = Repeated(inner, 3).blankets()
    assert pair.exact is not None
    assert float(sum(float(str(h.p)) / float(str(h.q)) for a, _, h in pair.exact if a != 0)) == pytest.approx(
        float(gamma) ** 3
    )


def test_more_runs_than_one_hide_better_than_their_total_epsilon_says() -> None:
    """Four runs at ε = 1 amplify to less than any randomizer at ε = 4."""
    ours = sdp.amplify(Repeated(PrivHS(1.0, 64), 4), 10_000, effort="quick").epsilon(1e-6)
    general = sdp.amplify(sdp.VariationRatio.from_ldp(4.0), 10_000, effort="quick").epsilon(1e-6)
    assert ours.upper < 0.8 * general.upper


def test_what_it_is_made_of_is_data() -> None:
    """Equal where the runs are equal, and whole after being sent elsewhere."""
    made, again, more = Repeated(PrivHS(1.0, 3), 2), Repeated(PrivHS(1.0, 3), 2), Repeated(PrivHS(1.0, 3), 3)
    assert made.domain == again.domain
    for name in ("encoding", "estimator"):
        part = getattr(made, name)
        assert part == getattr(again, name) != getattr(more, name)
        assert pickle.loads(pickle.dumps(part)) == part
    assert made.law.parameters == again.law.parameters != more.law.parameters


def test_errors() -> None:
    """One sentence each."""
    with pytest.raises(TypeError, match=r"^Repeated: mechanism must be one for vectors in the unit ball, got KRR"):
        Repeated(sdp.KRR(1.0, 3), 2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^Repeated: runs must be at least 1, got 0\.$"):
        Repeated(PrivHS(1.0, 3), 0)
    with pytest.raises(ValueError, match=r"^Repeated PrivHS: expected vectors of 3 numbers, got 2\.$"):
        Repeated(PrivHS(1.0, 3), 2).encode([[0.0, 1.0]])
    with pytest.raises(ValueError, match=r"^Repeated: expected rows of 24 bytes, got uint8 of shape \(1, 3\)\.$"):
        Repeated(PrivHS(1.0, 3), 2).unpack(np.zeros((1, 3), dtype=np.uint8))
    with pytest.raises(ValueError, match=r"^Repeated: runs of privhs cannot be written down as a table\.$"):
        Repeated(PrivHS(1.0, 3), 2).table()
    with pytest.raises(ValueError, match=r"^Repeated: a table needs fewer messages, got 8 in each of 4 runs\.$"):
        Repeated(SQKR(1.0, 2), 4).table()
