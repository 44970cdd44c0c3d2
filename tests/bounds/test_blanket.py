"""The privacy blanket: numerically exact, and by the published tail bounds."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from flint import arb

import shuffledp as sdp
from shuffledp.bounds import blanket
from shuffledp.bounds.registry import BOUNDS_BY_NAME

TAIL_BOUNDS = [f"blanket-{kind}" for kind in ("hoeffding", "bennett", "hoeffding-generic", "bennett-generic")]


def epsilon(randomizer: object, users: int, delta: float, bound: str) -> float:
    return sdp.amplify(randomizer, users, bound=bound).epsilon(delta).upper


@pytest.mark.parametrize(
    ("options", "local", "measured"), [(16, 1.0, 0.018593), (16, 3.0, 0.171465), (128, 3.0, 0.079484)]
)
def test_randomized_response_beats_what_was_measured_elsewhere(options: int, local: float, measured: float) -> None:
    """At n = 1e4 and δ = 1e-6 the optimal bound is not above published evaluations of the same blanket."""
    assert epsilon(sdp.KRR(local, options), 10_000, 1e-6, "optimal") <= measured


@pytest.mark.parametrize(("local", "measured"), [(1.0, 0.037946), (3.0, 0.183516)])
def test_laplace_beats_what_was_measured_elsewhere(local: float, measured: float) -> None:
    """The optimal bound of the Laplace mechanism, which variation-ratio cannot reach."""
    assert epsilon(sdp.Laplace(local), 10_000, 1e-6, "optimal") <= measured


@pytest.mark.parametrize(
    ("local", "users", "bennett", "hoeffding"),
    [(1.0, 10**4, 0.16617, 0.16663), (1.0, 10**6, 0.018135, 0.018437), (3.0, 10**6, 0.14894, 0.49515)],
)
def test_generic_tail_bounds_reproduce_the_published_figures(
    local: float, users: int, bennett: float, hoeffding: float
) -> None:
    """The generic constants give the baselines of the papers' figures, at δ = 0.01/n."""
    any_ldp = sdp.VariationRatio.from_ldp(local)
    assert epsilon(any_ldp, users, 0.01 / users, "blanket-bennett-generic") == pytest.approx(bennett, rel=5e-5)
    assert epsilon(any_ldp, users, 0.01 / users, "blanket-hoeffding-generic") == pytest.approx(hoeffding, rel=5e-5)


@pytest.mark.parametrize("inequality", ["hoeffding", "bennett"])
@pytest.mark.parametrize("local", [0.2, 1.0, 3.0])
def test_tail_bounds_are_above_the_exact_expectation(inequality: str, local: float) -> None:
    """A tail bound of the same blanket is never below its numerically exact value, nor the generic one below both."""
    mechanism = sdp.KRR(local, 10)
    own = epsilon(mechanism, 5_000, 1e-7, f"blanket-{inequality}")
    assert epsilon(mechanism, 5_000, 1e-7, "optimal") <= own
    assert epsilon(mechanism, 5_000, 1e-7, "stronger-clone") <= epsilon(
        mechanism, 5_000, 1e-7, f"blanket-{inequality}-generic"
    )


@pytest.mark.parametrize("local", [0.5, 1.0, 2.0])
def test_randomized_response_moments_are_the_published_ones(local: float) -> None:
    """Bennett's bound from the blanket's classes equals the formula with the published γ, b₊ and c, by hand."""
    options, users, e0 = 7, 2_000, math.exp(local)
    mechanism = sdp.KRR(local, options)
    curve = sdp.amplify(mechanism, users, bound="blanket-bennett")
    gamma = options / (e0 + options - 1)
    for eps in (0.05, 0.1, 0.2):
        e = math.exp(eps)
        top = gamma * (e0 - e)
        square = gamma**2 / options * ((e0 - e) ** 2 + (1 - e0 * e) ** 2 + (options - 2) * (1 - e) ** 2)
        u = (e - 1) * top / square
        kappa = square / top**2 * ((1 + u) * math.log1p(u) - u)
        left = (1 - gamma * (1 - math.exp(-kappa))) ** users - (1 - gamma) ** users
        by_hand = top / (gamma * users * math.log1p(u)) * left
        assert curve.delta(eps).upper == pytest.approx(min(1.0, by_hand), rel=1e-9)


@pytest.mark.parametrize("delta", [1e-15, 1e-30, 1e-100])
@pytest.mark.parametrize("users", [1_000, 10**6])
def test_tiny_delta_is_right_for_every_bound(delta: float, users: int) -> None:
    """At tiny δ every bound still answers below ε0, in the known order, and δ(ε) leads back."""
    mechanism = sdp.KRR(1.0, 5)
    values = {}
    for name, bound in BOUNDS_BY_NAME.items():
        if bound.guarantees:
            try:
                curve = bound.curve(mechanism, users)
                values[name] = curve.epsilon(delta).upper
            except sdp.NotApplicable:
                continue
            assert 0 < values[name] <= 1.0 + 1e-12
            if values[name] < 0.99:
                assert curve.delta(values[name]).upper <= delta * (1 + 1e-9)
    assert values["optimal"] <= values["variation-ratio"] * (1 + 1e-9)
    assert values["variation-ratio"] <= values["stronger-clone"] <= values["clone"]
    assert values["optimal"] <= values["blanket-bennett"]


def test_a_randomizer_without_a_blanket_is_told_so() -> None:
    """Raw parameters have no blanket: the optimal bound does not apply, and says why."""
    with pytest.raises(sdp.NotApplicable, match="gives no blanket"):
        sdp.amplify(sdp.VariationRatio(3.0, 0.2, 3.0), 100, bound="optimal")


def published(inequality: str, local: float, users: int, epsilon: np.ndarray) -> np.ndarray:
    """The generic formulas as printed, in floats."""
    e0, ratio = math.exp(local), np.exp(epsilon)
    a, gamma = ratio - 1, 1 / e0
    if inequality == "hoeffding":
        b = (ratio + 1) * (e0 - 1 / e0)
        return b**2 / (4 * a * gamma * users) * (1 - gamma * (1 - np.exp(-2 * a**2 / b**2))) ** users
    top, c = e0 - ratio / e0, e0 * (ratio**2 + 1) - 2 * ratio / e0**3
    u = a * top / c
    kappa = c / top**2 * ((1 + u) * np.log1p(u) - u)
    decay = (1 - gamma * (1 - np.exp(-kappa))) ** users - (1 - gamma) ** users
    return top / (gamma * users * np.log1p(u)) * decay


@pytest.mark.parametrize(
    ("inequality", "local", "users"),
    [
        ("hoeffding", 1.0, 20),
        ("bennett", 1.0, 20),
        ("hoeffding", 4.0, 300_000),
        ("bennett", 3.0, 3_000),
        ("bennett", 5.0, 300_000),
    ],
)
def test_generic_tail_bounds_are_the_running_minimum_of_the_printed_ones(
    inequality: str, local: float, users: int
) -> None:
    """δ never rises: what is proved at one ε holds at every larger one, and so does the inverse."""
    curve = sdp.amplify(sdp.VariationRatio.from_ldp(local), users, bound=f"blanket-{inequality}-generic")
    points = np.linspace(0.0, local, 4001)[1:-1]
    least = np.minimum(1.0, np.minimum.accumulate(published(inequality, local, users, points)))
    for k in range(0, len(points), 133):
        assert curve.delta(points[k]).upper == pytest.approx(least[k], rel=1e-5)
    for delta in (0.9, 0.5, 0.2, 0.1, 0.01, 1e-4):
        met = np.flatnonzero(least <= delta)
        wanted = points[met[0]] if len(met) else local
        found = curve.epsilon(delta)
        assert found.upper == pytest.approx(wanted, abs=local / 3000)
        assert found.slack <= 1e-6 * local


@pytest.mark.parametrize("bound", TAIL_BOUNDS)
@pytest.mark.parametrize(
    "randomizer",
    [sdp.KRR(1.0, 2), sdp.KRR(5.0, 10), sdp.Laplace(2.0, grid=16), sdp.Exponential([[0.0, 3.0], [3.0, 0.0]])],
    ids=str,
)
@pytest.mark.parametrize("users", [1, 30, 2000])
def test_tail_bounds_never_rise(bound: str, randomizer: sdp.Mechanism, users: int) -> None:
    """From 0 to beyond ε0, and their inverse is met where it says and nowhere before, within its slack."""
    curve = sdp.amplify(randomizer, users, bound=bound)
    epsilons = np.concatenate([np.geomspace(1e-3, 6.0, 60), [0.999, 1.0, 4.99, 4.999999, 5.0]])
    values = [curve.delta(float(epsilon)).upper for epsilon in np.sort(epsilons)]
    assert all(after <= before for before, after in itertools.pairwise(values))
    for delta in (0.3, 1e-3, 1e-9):
        found = curve.epsilon(delta)
        assert curve.delta(found.upper).upper <= delta
        before = (found.upper - found.slack) * (1 - 1e-9)
        assert before <= 0 or curve.delta(before).upper >= delta


def all_but_one(epsilon: float, options: int) -> sdp.FromTable:
    """A uniform option, each user's own e^ε times rarer: the blanket's mass tends to e^-ε as the options grow."""
    rare = 1 / ((options - 1) * math.exp(epsilon) + 1)
    table = np.full((options, options), rare * math.exp(epsilon))
    np.fill_diagonal(table, rare)
    return sdp.FromTable(table)


@pytest.mark.parametrize("ratio", [1.05, 1.5])
@pytest.mark.parametrize(
    "randomizer", [all_but_one(1.0, 30), all_but_one(2.0, 60), sdp.KRR(1.0, 2), sdp.KRR(2.0, 20)], ids=str
)
def test_no_randomizer_is_worse_than_the_generic_moments(randomizer: sdp.Mechanism, ratio: float) -> None:
    """Its blanket has at least the mass of the generic one, and its G is within the generic range and mean square."""
    local = arb(randomizer.epsilon).exp()
    generic = blanket._Moments.generic(local, arb(ratio))
    for pair in randomizer.blankets():
        own = blanket._Moments.from_pair(pair, arb(ratio))
        assert own.gamma >= generic.gamma * (1 - 1e-9)
        for name in ("spread", "top", "square"):
            assert getattr(own, name) <= getattr(generic, name) * (1 + 1e-9), name
