"""Two messages: the worst case over all datasets, against every dataset one by one."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.bounds.exact_binary import TwoBinomials
from shuffledp.bounds.worst_dataset_bound import EXACT_BINARY_USER_LIMIT, MIN_RELATIVE_GAIN
from tests.oracle import exact_enumeration


def worst(low: Fraction, high: Fraction, users: int, epsilon: float) -> float:
    """The largest divergence over all crowds and both directions, each crowd on its own."""
    ways = [(high, low), (1 - low, 1 - high)]
    crowds = (TwoBinomials(*way, many, users - 1 - many) for way in ways for many in range(users))
    return max(crowd.bracket(epsilon).upper_float() for crowd in crowds)


@pytest.mark.parametrize(("users", "local"), [(2, 1.0), (17, 0.2), (50, 1.0), (120, 3.0), (90, 0.05)])
def test_delta_is_the_largest_over_all_crowds(users: int, local: float) -> None:
    mechanism = sdp.KRR(local, 2)
    curve = sdp.amplify(mechanism, users, bound="exact-binary")
    low, high = mechanism.coin_range() or (Fraction(0), Fraction(0))
    for share in (0.0, 0.1, 0.4, 0.9):
        value = curve.delta(share * local)
        truth = worst(low, high, users, share * local)
        assert value.upper >= truth * (1 - 1e-12)
        assert value.upper <= truth * (1 + 1e-9) + value.slack


def test_one_other_user_different_is_worse_than_all_equal() -> None:
    """The counter-example of the theory: a constant crowd is not always the worst."""
    mechanism = sdp.KRR(1.0, 2)
    value = sdp.amplify(mechanism, 50, bound="exact-binary").delta(0.3)
    assert value.upper == pytest.approx(0.0023562, abs=5e-8)
    assert value.lower == pytest.approx(0.0023562, abs=5e-8)


@pytest.mark.exhaustive("3.0-1000000")
@pytest.mark.parametrize("users", [1_000, 10**6, 10**9])
@pytest.mark.parametrize("local", [0.5, 1.0, 3.0])
def test_within_a_percent_of_a_real_dataset_and_below_the_blanket(users: int, local: float) -> None:
    mechanism = sdp.KRR(local, 2)
    value = sdp.amplify(mechanism, users, effort="quick").epsilon(1e-6)
    blanket = sdp.amplify(mechanism, users, bound="optimal").epsilon(1e-6)
    assert value.bound == ("exact-binary" if users < EXACT_BINARY_USER_LIMIT else "all-crowds")
    assert value.lower is not None
    assert value.lower <= value.upper <= value.lower * (1.0005 if users < EXACT_BINARY_USER_LIMIT else 1.0001)
    assert value.upper <= blanket.upper * (1 + 3e-6)
    assert value.upper - value.slack <= value.lower * (1 + 1e-9)


@pytest.mark.exhaustive("0.5", "1000000")
@pytest.mark.parametrize(("users", "local"), [(10**4, 0.5), (10**4, 3.0), (10**6, 1.0)])
def test_of_many_users_the_smaller_of_two_bounds(users: int, local: float) -> None:
    """Both are looked at where it matters: neither alone is clearly smaller than what is told."""
    value = sdp.amplify(sdp.KRR(local, 2), users, effort="quick").epsilon(1e-6)
    alone = [sdp.amplify(sdp.KRR(local, 2), users, bound=name).epsilon(1e-6) for name in ("all-crowds", "exact-binary")]
    assert value.upper <= min(one.upper for one in alone) * (1 + MIN_RELATIVE_GAIN)
    assert value.lower is not None
    assert value.lower <= value.upper


@pytest.mark.exhaustive
def test_epsilon_and_delta_agree() -> None:
    curve = sdp.amplify(sdp.KRR(2.0, 2), 5_000, bound="exact-binary")
    for delta in (1e-3, 1e-9, 1e-30, 1e-100):
        epsilon = curve.epsilon(delta)
        assert curve.delta(epsilon.upper).upper <= delta
        assert curve.delta(epsilon.upper - epsilon.slack).upper >= delta * (1 - 1e-9)


@pytest.mark.parametrize(
    "mechanism",
    [
        sdp.FromTable([[0.75, 0.25], [0.4, 0.6], [0.1, 0.9]]),
        sdp.FromTable([[0.05, 0.0, 0.95], [0.3, 0.0, 0.7]]),
        sdp.Harmony(1.5, 1),
        sdp.Duchi(0.7, 1),
    ],
    ids=["three inputs", "a column that is never sent", "harmony", "duchi"],
)
def test_asymmetric_and_continuous_inputs_against_brute_force(mechanism: Any) -> None:
    """Inputs between the extremes are never worse, so the extremes decide; brute force over all inputs agrees."""
    rows = [list(row) for row in mechanism.table().probabilities]
    for users in (1, 2, 4, 6):
        curve = sdp.amplify(mechanism, users, bound="exact-binary")
        for ratio in (Fraction(9, 8), Fraction(5, 3)):
            truth = float(exact_enumeration.worst_divergence(rows, users, ratio))
            value = curve.delta(math.log(float(ratio)))
            assert value.upper >= truth * (1 - 1e-12)
            assert value.upper - value.slack <= truth * (1 + 1e-9) + 1e-15


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "mechanism", [sdp.KRR(1.0, 2), sdp.FromTable([[0.75, 0.25], [0.4, 0.6]])], ids=["krr", "table"]
)
def test_many_at_once_enclose_each_one(mechanism: Any) -> None:
    curve = sdp.amplify(mechanism, 500, bound="exact-binary")
    epsilons = np.linspace(0.0, 0.4, 101)[::-1]
    profile = curve.profile(epsilons)
    for place in range(0, 101, 10):
        value = curve.delta(float(epsilons[place]))
        assert profile.upper[place] >= value.upper - value.slack
        assert profile.lower[place] <= value.upper
        assert profile.upper[place] <= value.upper * 1.5 + 1e-20
        assert profile.lower[place] >= value.upper * 0.4 - 1e-20


@pytest.mark.exhaustive
def test_composition_gains_as_well() -> None:
    names = ("exact-binary", "optimal")
    rounds = [sdp.compose(sdp.amplify(sdp.KRR(2.0, 2), 900, bound=name), 20) for name in names]
    exact_one, blanket = (one.epsilon(1e-6).upper for one in rounds)
    assert exact_one < 0.77 * blanket


def test_refused_where_there_are_more_messages() -> None:
    with pytest.raises(sdp.NotApplicable, match="more than two messages"):
        sdp.amplify(sdp.KRR(1.0, 3), 100, bound="exact-binary")
    with pytest.raises(sdp.NotApplicable, match="no law of two messages"):
        sdp.amplify(sdp.VariationRatio.from_ldp(1.0), 100, bound="exact-binary")


@pytest.mark.exhaustive("200-0.25")
@pytest.mark.parametrize(("low", "high"), [(0.25, 0.75), (0.1, 0.2), (0.01, 0.97)])
@pytest.mark.parametrize("users", [3, 50, 200])
def test_the_lower_side_of_a_profile_is_below_at_small_epsilon_too(low: float, high: float, users: int) -> None:
    """Between ε = 0 and the first ε that is looked at, neither side passes the certified value."""
    curve = sdp.amplify(sdp.FromTable([[low, 1 - low], [high, 1 - high]]), users, bound="exact-binary")
    scale = curve.delta(0.0).upper
    epsilons = np.linspace(0.0, scale, 12)
    found = curve.profile(epsilons)
    for epsilon, upper, lower in zip(epsilons.tolist(), found.upper, found.lower, strict=True):
        value = curve.delta(epsilon)
        assert lower <= value.upper
        assert upper >= value.upper - value.slack


def test_two_equal_inputs_tell_nothing() -> None:
    """A profile of the constant 0."""
    curve = sdp.amplify(sdp.FromTable([[0.5, 0.5], [0.5, 0.5]]), 5, bound="exact-binary")
    assert curve.profile([0.0, 0.1]).upper.tolist() == [0.0, 0.0]
