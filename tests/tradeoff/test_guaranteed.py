"""The certified lower curve: never above the truth, rounding included, and tight where it touches."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings, strategies as st

import shuffledp as sdp
from shuffledp import VariationRatio, amplify, compose, privacy_curve, trade_off
from shuffledp.numerics.ball_arithmetic import precision
from shuffledp.privacy.guaranteed_tradeoff import GuaranteedTradeOff, epsilon_reach
from shuffledp.privacy.shuffled_tradeoff import shuffled_trade_off
from shuffledp.privacy.tradeoff import GaussianTradeOff, PiecewiseTradeOff

X = np.concatenate([[0.0, 1e-15, 1e-9, 1e-4], np.linspace(0.001, 0.999, 401), [1 - 1e-4, 1 - 1e-9, 1.0]])


def ball_of_lines(curve: GuaranteedTradeOff, x: float) -> arb:
    """The largest line at x in balls: the exact curve that the floats must stay below."""
    best = arb(0)
    for epsilon, delta in zip(curve.epsilons.tolist(), curve.deltas.tolist(), strict=True):
        ratio = arb(epsilon).exp()
        best = best.max(1 - arb(delta) - ratio * x).max((1 - arb(delta) - x) / ratio)
    return best


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(1e-9, 8.0), min_size=1, max_size=6, unique=True),
    st.lists(st.floats(0.0, 1.0), min_size=7, max_size=7),
    st.floats(0.0, 1.0),
)
def test_values_are_rounded_to_the_safe_side(epsilons: list[float], deltas: list[float], x: float) -> None:
    """Against the lines in balls: fnr below, 1 − tpr below, both within 1e-14; δ above the lines' own."""
    places = np.append(0.0, np.sort(epsilons))
    values = np.sort(deltas)[::-1][: len(places)]
    curve = GuaranteedTradeOff(places, values)
    with precision(128):
        exact = ball_of_lines(curve, x)
        assert not arb(float(curve.fnr(x))) > exact
        assert not 1 - arb(float(curve.tpr(x))) > exact
        assert float(exact - float(curve.fnr(x))) <= 1e-14
        for epsilon, delta in zip(curve.epsilons.tolist(), curve.deltas.tolist(), strict=True):
            assert curve.delta(epsilon) == delta
        epsilon = float(np.mean(places))
        lines = 1 - exact - arb(epsilon).exp() * x
        assert not lines > curve.delta(epsilon)


@pytest.mark.parametrize("users", [5, 40, 500])
@pytest.mark.parametrize("bound", ["best", "mixture", "clone", "stronger-clone-analytic"])
def test_never_above_the_exact_curve(users: int, bound: str) -> None:
    """Every bound's curve lies below the exact curve of the pair; the exact bound's touches it."""
    parameters = VariationRatio.from_ldp(1.2)
    found = trade_off(amplify(parameters, users, bound=bound, effort="quick"), points=120)
    exact = shuffled_trade_off(parameters.pair(0.0), users)
    assert np.all(found.fnr(X) <= exact.fnr(X) + 1e-14)
    assert np.all(found.tpr(X) >= exact.tpr(X) * (1 - 1e-12))
    assert found.guarantee
    assert found.certified
    if bound == "best":
        assert np.all(found.fnr(X) >= exact.fnr(X) - 1e-3)


def test_the_curve_and_the_privacy_curve_say_the_same() -> None:
    """At the ε it was made from, δ is the engine's own; the advantage is δ(0) to the bit; in between it is above."""
    curve = amplify(VariationRatio.from_ldp(2.0), 2000, effort="quick")
    found = trade_off(curve, points=60, precise=True)
    assert found.advantage() == curve.delta(0.0).upper
    for epsilon in found.epsilons[::7].tolist():
        assert found.delta(epsilon) == curve.delta(epsilon).upper
    for epsilon in (0.01, 0.1, 0.3):
        value = curve.delta(epsilon).upper
        assert value <= found.delta(epsilon) <= 1.1 * value
    assert found.delta(-0.5) == pytest.approx(-math.expm1(-0.5) + math.exp(-0.5) * found.delta(0.5), abs=1e-14)


def test_the_fast_way_is_a_little_lower() -> None:
    """The profile's values are upper bounds of the precise ones, and close."""
    curve = amplify(VariationRatio.from_ldp(1.0), 10**5, effort="quick")
    fast, precise = trade_off(curve, points=40), trade_off(curve, points=40, precise=True)
    assert fast.advantage() == precise.advantage()
    assert np.all(fast.fnr(X) <= precise.fnr(X))
    assert np.all(fast.tpr(X[1:]) <= precise.tpr(X[1:]) * (1 + 2e-4))


def test_the_polygon_is_the_same_curve() -> None:
    """Knots in floats agree with the lines, and give the same δ."""
    found = trade_off(amplify(VariationRatio.from_ldp(3.0), 300, effort="quick"), points=80)
    polygon = found.to_piecewise()
    assert np.allclose(polygon.fnr(X), found.fnr(X), rtol=0, atol=1e-13)
    for epsilon in (0.0, 0.2, 0.9):
        assert polygon.delta(epsilon) == pytest.approx(found.delta(epsilon), rel=1e-10)
        assert polygon.inverse().delta(epsilon) == pytest.approx(found.delta(epsilon), rel=1e-10)


def test_a_loose_delta_at_zero_is_drawn_tight() -> None:
    """(1, 0)-DP alone: δ(0) = 1 says nothing, the line and its mirror image give (e−1)/(e+1)."""
    curve = GuaranteedTradeOff(np.array([0.0, 1.0]), np.array([1.0, 0.0]))
    assert curve.advantage() == pytest.approx(math.tanh(0.5), rel=1e-14)
    assert curve.advantage() >= math.tanh(0.5)
    nothing = GuaranteedTradeOff(np.array([0.0]), np.array([0.0]))
    assert np.allclose(nothing.fnr(X), 1 - X, rtol=0, atol=2e-15)


def test_infinite_ratio() -> None:
    """p = ∞: a mass that no ε removes stays visible at fpr = 0."""
    parameters = VariationRatio(math.inf, 1.0, 4.0)
    curve = amplify(parameters, 12, effort="quick")
    exact = shuffled_trade_off(parameters.pair(0.0), 12)
    found = trade_off(curve, points=100)
    assert np.all(found.fnr(X) <= exact.fnr(X) + 1e-14)
    assert float(found.tpr(0.0)) == pytest.approx(float(exact.tpr(0.0)), rel=2e-3)
    assert epsilon_reach(curve, 1e-15) < 100


def test_gaussian_rounds_compose() -> None:
    """Trade-off → privacy curve → four rounds → trade-off: four times μ = ½ is μ = 1, from below."""
    rounds = compose(privacy_curve(GaussianTradeOff(0.5)), 4)
    found = trade_off(rounds, points=60, least_delta=1e-9)
    wanted = GaussianTradeOff(1.0)
    x = np.linspace(0.01, 0.99, 50)
    assert np.all(found.fnr(x) <= wanted.fnr(x) + 1e-9)
    assert np.all(found.fnr(x) >= wanted.fnr(x) - 2e-3)
    assert found.guarantee
    assert not found.certified


def test_rounds_of_two_outcomes_compose() -> None:
    """Three answers of randomized response against their explicit product."""
    once = PiecewiseTradeOff(np.array([0.75, 0.25]), np.array([0.25, 0.75]))
    three = np.array([27, 27, 9, 1]) / 64
    product = PiecewiseTradeOff(three, three[::-1])
    rounds = compose(privacy_curve(once), 3)
    for epsilon in (0.0, 1.0, 2.0):
        value = rounds.delta(epsilon)
        assert product.delta(epsilon) <= value.upper <= product.delta(epsilon) + value.slack + 1e-12
    assert rounds.guarantee is False


def test_a_trade_off_as_a_privacy_curve() -> None:
    """δ is the worse direction, ε its inverse, 0 and infinity at the ends."""
    one = PiecewiseTradeOff(np.array([0.1, 0.4, 0.5]), np.array([0.5, 0.4, 0.1]))
    skew = PiecewiseTradeOff(np.array([0.2, 0.8]), np.array([0.3, 0.7]))
    for trade in (one, skew, GaussianTradeOff(0.7)):
        curve = privacy_curve(trade, users=3)
        delta = curve.delta(0.05).upper
        assert delta == max(trade.delta(0.05), trade.inverse().delta(0.05))
        value = curve.epsilon(delta * 0.999)
        assert curve.delta(value.upper).upper <= delta * 0.999
        assert value.upper == pytest.approx(0.05, abs=1e-2)
        assert curve.epsilon(0.99).upper == 0.0
        assert curve.certified is False
        assert curve.users == 3
    dropped = PiecewiseTradeOff(np.array([0.0, 1.0]), np.array([0.2, 0.8]))
    assert privacy_curve(dropped).epsilon(0.1).upper == math.inf


@pytest.mark.parametrize(
    ("epsilons", "deltas", "message"),
    [([0.1], [0.0], "rise from 0"), ([0.0, 0.0], [0.1, 0.1], "rise from 0"), ([0.0], [1.5], "between 0 and 1")],
)
def test_bad_lines(epsilons: list[float], deltas: list[float], message: str) -> None:
    """Refused in one sentence."""
    with pytest.raises(ValueError, match=message):
        GuaranteedTradeOff(np.array(epsilons), np.array(deltas))


def test_the_blanket_of_a_real_protocol() -> None:
    """KRR on three options, four users: below the exact curve of every dataset and every pair of inputs."""
    mechanism = sdp.KRR(1.5, options=3)
    stay, other = math.exp(1.5) / (math.exp(1.5) + 2), 1 / (math.exp(1.5) + 2)
    rows = np.where(np.eye(3, dtype=bool), stay, other)
    found = trade_off(amplify(mechanism, 4, bound="optimal"), points=150)
    closest = math.inf
    for others in itertools.combinations_with_replacement(range(3), 3):
        laws = [_multiset([rows[first], *(rows[x] for x in others)]) for first in range(3)]
        for one, two in itertools.permutations(laws, 2):
            truth = PiecewiseTradeOff.from_laws(one, two)
            assert np.all(found.fnr(X) <= truth.fnr(X) + 1e-14)
            closest = min(closest, float(np.max(truth.fnr(X) - found.fnr(X))))
    assert closest < 0.08


def _multiset(messages: list[np.ndarray]) -> dict[tuple[int, ...], float]:
    """The law of the counts of independent messages."""
    law = {(0, 0, 0): 1.0}
    for chances in messages:
        grown: dict[tuple[int, ...], float] = {}
        for counts, mass in law.items():
            for k, chance in enumerate(chances.tolist()):
                more = (*counts[:k], counts[k] + 1, *counts[k + 1 :])
                grown[more] = grown.get(more, 0.0) + mass * chance
        law = grown
    return law


def test_a_mechanism_is_not_a_curve() -> None:
    """The sentence says what to pass instead."""
    with pytest.raises(TypeError, match="such as amplify"):
        trade_off(sdp.KRR(1.0, options=3))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="such as amplify"):
        sdp.AttackRisk(sdp.KRR(1.0, options=3))  # type: ignore[arg-type]


def test_the_smallest_rate_is_not_rounded_down() -> None:
    """e^0.3 times the smallest float is more than one such float."""
    found = GuaranteedTradeOff(np.array([0.0, 0.3]), np.array([math.tanh(0.15) * 1.0000001, 0.0])).tpr([5e-324])
    assert found[0] >= 1e-323
